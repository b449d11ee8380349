"""The entry point of ``python -m streamkit.cli``."""

from __future__ import annotations

import sys

from streamkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
