"""The entry point of ``python -m streamkit``: the same as the command ``streamkit``.

The command line imports what it needs beyond the base install when a command runs, and names the missing extra.
"""

from __future__ import annotations

import sys

from streamkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
