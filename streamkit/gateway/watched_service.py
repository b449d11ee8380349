"""A service that a watch beside it can cancel, and a wait with a time limit, on any event loop.

On asyncio they are a plain task and ``asyncio.timeout``: with anyio's task group and cancel scopes a tenth more is
executed until the first byte of a response. This module must not depend on wires or upstreams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio

from streamkit.execution.one_call.background import current_asyncio_task

__all__ = ["receive_within", "run_watched"]


async def run_watched(service: Awaitable[None], watch: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Await a service, and cancel it if its watch says so, or fails.

    Args:
        service: the service.
        watch: starts the watch in another task, which is canceled when the service ends. It returns whether to cancel
            the service.

    Raises:
        Exception: what the service has raised, or the watch.
    """
    task = current_asyncio_task()
    if task is None:
        await _run_in_task_group(service, watch)
        return
    cancellations = task.cancelling()
    has_ended = is_canceled = False

    async def cancel_after_watch() -> None:
        nonlocal is_canceled
        must_cancel = True
        try:
            await asyncio.sleep(0)  # the service starts further tasks: aiohttp sends the request in one
            must_cancel = await watch()
        finally:
            if must_cancel and not has_ended:
                is_canceled = True
                task.cancel()

    watching = asyncio.create_task(cancel_after_watch())
    try:
        await service
    except asyncio.CancelledError:
        if not is_canceled or task.cancelling() > cancellations + 1:  # somebody else has canceled it, too
            raise
    finally:
        has_ended = True
        watching.cancel()
        if is_canceled:
            task.uncancel()
    if is_canceled:
        watching.result()


async def _run_in_task_group(service: Awaitable[None], watch: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    failure: Exception | None = None  # raised outside, where it is no group of exceptions

    async def cancel_after_watch() -> None:
        nonlocal failure
        must_cancel = True
        try:
            must_cancel = await watch()
        except Exception as error:
            failure = error
        if must_cancel:
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_after_watch)
        try:
            await service
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def receive_within(receive: Callable[[], Awaitable[Any]], seconds: float | None) -> Any:
    """Return the next message, or None if none has come after so many seconds; None for no limit."""
    if current_asyncio_task() is None:
        with anyio.move_on_after(seconds):
            return await receive()
        return None
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        return None
