"""Whether the tested package is compiled (``pyproject.toml``, the hook ``mypyc``)."""

from __future__ import annotations

import pytest

from streamkit.framing import sse

__all__ = ["IS_COMPILED", "interpreted_only"]

IS_COMPILED = not str(sse.__file__).endswith(".py")
#: For tests that count operations: the hooks of the interpreter do not see compiled functions.
interpreted_only = pytest.mark.skipif(IS_COMPILED, reason="the interpreter's profiler does not see compiled functions")
