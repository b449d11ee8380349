"""Paths of test data: the repository's own, and the larger collection that may be found beside the checkout.

`SHARED` (recorded streams, quirk cases, vectors) is not a part of the repository. A test that needs it is skipped, with
a reason that names the path, where it does not exist.
"""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CONFORMANCE_CASES = TESTS / "conformance" / "cases"

SHARED = ROOT.parent / "shared"
CAPTURES = SHARED / "captures"
CASES_FILE = SHARED / "cases" / "cases.jsonl"
VECTORS = SHARED / "vectors"
