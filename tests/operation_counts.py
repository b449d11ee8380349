"""Counts of operations, for tests of the cost of a chunk that measure no time.

The interpreter's profiler reports every call of a Python function, every resumption of a generator, and every call of a
function in C, so a count does not depend on the machine.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import streamkit

__all__ = ["CountingList", "Operations", "count_operations"]

PACKAGE = str(Path(streamkit.__file__).parent)
JSON_TEXT = str(Path(PACKAGE, "json_text"))  # reads the arguments of calls, which are no frames


class CallCounts(Counter[tuple[str, str]]):
    """Calls by file and function. The count of a function that does not exist is an error, not zero."""

    def __missing__(self, key: tuple[str, str]) -> int:
        file, function = key
        if f"def {function}(" not in Path(PACKAGE, file).read_text("utf-8"):
            raise LookupError(f"streamkit/{file} has no function {function}")
        return 0


class Operations:
    """The operations of a block.

    Attributes:
        decodes: JSON texts that were decoded to read a frame, with attempts that failed.
        calls: calls of the package's Python functions and resumptions of its generators, by file and function.
        task_lookups: calls of ``asyncio.current_task``.
    """

    def __init__(self) -> None:
        self.decodes = 0
        self.calls = CallCounts()
        self.task_lookups = 0

    def _record(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "c_call":
            is_decoder = arg.__name__ == "decode" and isinstance(arg.__self__, msgspec.json.Decoder)
            if (is_decoder or arg is msgspec.json.decode) and not code.co_filename.startswith(JSON_TEXT):
                self.decodes += 1
        elif event == "call":
            if code is json.loads.__code__:
                self.decodes += 1
            elif code.co_name == "current_task":
                self.task_lookups += 1
            elif code.co_filename.startswith(PACKAGE):
                key = Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_name
                self.calls[key] = self.calls.get(key, 0) + 1


@contextmanager
def count_operations() -> Iterator[Operations]:
    """Count the operations of the block."""
    operations = Operations()
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # a collection would end objects of other tests here, and count what that calls
    sys.setprofile(operations._record)
    try:
        yield operations
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


class CountingList(list[Any]):
    """A list that counts its copies."""

    copies = 0

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            type(self).copies += 1
        return super().__getitem__(place)

    def copy(self) -> list[Any]:
        type(self).copies += 1
        return super().copy()

    def __iter__(self) -> Iterator[Any]:
        type(self).copies += 1
        return super().__iter__()
