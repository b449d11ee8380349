"""The readers of the live events of runs that other tasks make, in any event loop of the process.

Showing an event never waits, so that a slow reader delays no run; progress beyond a bound is coalesced.

This module must not depend on how a run is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from streamkit.events import Event
from streamkit.execution.background import EventQueue

__all__ = ["EventWatchers"]


class EventWatchers:
    """The queues of readers, by the key of the run that they read."""

    def __init__(self) -> None:
        self._queues: dict[str, list[tuple[asyncio.AbstractEventLoop, EventQueue]]] = {}

    @contextmanager
    def watch(self, run_key: str) -> Iterator[EventQueue]:
        """Enter a block with a queue, which gets the events of a run from now on. Its reader is in this event loop."""
        watcher = asyncio.get_running_loop(), EventQueue()
        watchers = self._queues.setdefault(run_key, [])
        watchers.append(watcher)
        try:
            yield watcher[1]
        finally:
            watchers.remove(watcher)
            if not watchers:
                self._queues.pop(run_key, None)

    def show(self, run_key: str, event: Event) -> None:
        """Hand an event to those who watch its run."""
        if run_key not in self._queues:
            return
        here = asyncio.get_running_loop()
        for event_loop, queue in list(self._queues[run_key]):
            if event_loop is here:
                queue.put(event)
            else:
                with suppress(RuntimeError):  # that event loop has ended
                    event_loop.call_soon_threadsafe(queue.put, event)

    def close(self) -> None:
        """Declare that no event of any run follows."""
        for event_loop, queue in [watcher for watchers in self._queues.values() for watcher in watchers]:
            with suppress(RuntimeError):
                event_loop.call_soon_threadsafe(queue.close)
