"""One synchronous function in a new daemon thread, awaited without blocking the event loop.

anyio's worker threads do not fit: on asyncio the interpreter joins them when it exits, so one function that never
returns keeps the program from exiting (measured with anyio 4.16: a sleep of 6 seconds, abandoned after 0.2, delayed the
exit by 6). A daemon thread does not. A thread that is not waited for any more is counted until it returns, over the
whole program, so that hanging functions cannot use up its memory.

This module must not depend on tools.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

from streamkit.execution.one_call.background import asyncio_event_loop, call_soon_of

__all__ = ["MAX_ABANDONED", "WorkerThread", "count_abandoned"]

MAX_ABANDONED = 64  #: abandoned threads of the program that may run before no other is started

_abandoned: set[WorkerThread] = set()

_POLL_INTERVAL = 0.005  # seconds between checks whether the thread has returned


def count_abandoned() -> int:
    """Return how many threads were abandoned and have not returned."""
    for thread in list(_abandoned):
        if not thread.alive:
            _abandoned.discard(thread)
    return len(_abandoned)


class WorkerThread:
    """One call of a function in a thread.

    Args:
        function: what to run, with the context variables of the caller of ``result``.

    Attributes:
        event_loop_thread: the identifier of the event loop's thread.
        alive: the thread was started and has not returned.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._token = current_token()
        self._call_soon = call_soon_of(asyncio_event_loop())
        self._done = anyio.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._returned: list[Callable[[], object]] = []
        self.event_loop_thread = threading.get_ident()
        self.alive = False

    async def result(self) -> Any:
        """Start the thread and return the function's value, or raise its exception.

        After a cancellation the thread continues by itself.
        """
        context = contextvars.copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:  # the thread has no event loop
            context.run(sniffio.current_async_library_cvar.set, None)
        self.alive = True
        threading.Thread(target=context.run, args=(self._run,), name="streamkit tool", daemon=True).start()
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def call_from_thread(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the event loop's thread, from this one, and wait for it.

        Do nothing if the event loop has ended.
        """
        with suppress(RuntimeError):  # RunFinishedError, or the event loop is closing
            from_thread.run_sync(function, *args, token=self._token)

    def abandon(self) -> None:
        """Declare that the function is not waited for any more."""
        _abandoned.add(self)

    def on_return(self, callback: Callable[[], object]) -> None:
        """Call *callback* in the event loop when the function returns, unless the event loop has ended before."""
        self._returned.append(callback)

    async def ends_within(self, seconds: float) -> bool:
        """Return True if the function returns in that time. A cancelled task waits too."""
        with anyio.CancelScope(shield=True):
            for _ in range(round(seconds / _POLL_INTERVAL)):
                if not self.alive:
                    break
                await anyio.sleep(_POLL_INTERVAL)
        return not self.alive

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # result() raises it
            self._error = error
        self.alive = False
        with suppress(RuntimeError):  # the event loop has ended
            self._call_soon(self._finish)  # the thread ends at once; ``call_from_thread`` would wait

    def _finish(self) -> None:
        self._done.set()
        for callback in self._returned:
            callback()
