"""Run the fuzzer: ``python -m tests.fuzz --minutes N`` (CONTRIBUTING.md, "Fuzzing")."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.runner import main

sys.exit(main())
