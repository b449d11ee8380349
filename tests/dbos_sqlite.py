"""Whether DBOS can use the SQLite that is here."""

from __future__ import annotations

import sqlite3
import sys

__all__ = ["IS_SQLITE_TOO_OLD", "REASON"]

#: On these versions of Python DBOS stores times by ``unixepoch('subsec')``, which is null before SQLite 3.42
#: (https://sqlite.org/releaselog/3_42_0.html), so that it cannot be launched.
IS_SQLITE_TOO_OLD = sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42)
REASON = f"DBOS on Python 3.12 and later needs SQLite 3.42, and this is {sqlite3.sqlite_version}"
