"""A synchronous function in a thread of its own, waited for without blocking the event loop.

Not anyio's worker threads: on asyncio the interpreter joins those when it ends, so that one function that never returns
keeps the whole program from ending (measured with anyio 4.16: a sleep of 6 seconds, given up after 0.2, held the exit
for 6). This one is a daemon, and its number is bounded by the executor's limit. It knows nothing of tools.
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

__all__ = ["WorkerThread"]

_POLL = 0.005  # seconds between looks at whether a thread has ended


class WorkerThread:
    """One call of a function.

    Args:
        function: what runs, with the context variables of whoever makes this.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._token = current_token()
        self._done = anyio.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self.home = threading.get_ident()  #: the thread of the event loop
        self.alive = False  #: it was started and has not returned

    async def result(self) -> Any:
        """Start it and wait for what it returns, or raise what it raises. Cancelled, the thread goes on by itself."""
        context = contextvars.copy_context()
        if (sniffio := sys.modules.get("sniffio")) is not None:  # there is no event loop where it runs
            context.run(sniffio.current_async_library_cvar.set, None)
        self.alive = True
        threading.Thread(target=context.run, args=(self._run,), name="streamkit tool", daemon=True).start()
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def call_from_thread(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the event loop's thread, from this one; nothing happens where the loop has ended."""
        with suppress(RuntimeError):  # RunFinishedError, or the loop is closing just now
            from_thread.run_sync(function, *args, token=self._token)

    async def ends_within(self, seconds: float) -> bool:
        """Whether it returns in that time; waited for even by a task that is cancelled."""
        with anyio.CancelScope(shield=True):
            for _ in range(round(seconds / _POLL)):
                if not self.alive:
                    break
                await anyio.sleep(_POLL)
        return not self.alive

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # it is raised where the result is waited for
            self._error = error
        self.alive = False
        self.call_from_thread(self._done.set)
