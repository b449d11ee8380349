"""Event loops whose clock jumps to the next deadline as soon as nothing else can run, so that no test waits for time.

For tests without threads, processes and sockets: the clock jumps while those work.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import pytest
from trio.testing import MockClock

__all__ = ["VirtualLoop", "on_a_virtual_clock"]


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop that does not wait for a deadline: its clock goes there."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._wait = self._selector.select  # type: ignore[attr-defined]  # BaseSelectorEventLoop's
        self._selector.select = self._jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now

    def _jump(self, timeout: float | None = None) -> Any:
        ready = self._wait(None if timeout is None else 0)
        if not ready and timeout:
            self._now += timeout
        return ready


Backend: TypeAlias = "tuple[str, dict[str, Any]]"


def _asyncio() -> Backend:
    return "asyncio", {"loop_factory": VirtualLoop}


def _trio() -> Backend:
    return "trio", {"clock": MockClock(autojump_threshold=0)}  # another one for each test: a clock keeps its time


#: Both event loops, made by the fixture ``anyio_backend`` for each test.
on_a_virtual_clock = pytest.mark.parametrize(
    "anyio_backend", [pytest.param(_asyncio, id="asyncio"), pytest.param(_trio, id="trio")], indirect=True
)
