"""Checks that an execution has left no task and no thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Set

import anyio
import anyio.lowlevel

__all__ = ["tool_threads", "wait_until_nothing_is_left", "wait_until_threads_have_ended"]


def tool_threads() -> set[threading.Thread]:
    """Return the threads of tools, also those that other tests have abandoned."""
    return {thread for thread in threading.enumerate() if thread.name == "streamkit tool"}


async def wait_until_threads_have_ended(before: Set[threading.Thread]) -> None:
    """Wait until no thread of a tool is left except those *before*: one that has reported its end has yet to return."""
    with anyio.fail_after(30):
        while tool_threads() - before:  # noqa: ASYNC110 - the end of a thread sets no event
            await anyio.sleep(0.001)


async def wait_until_nothing_is_left(before: Set[threading.Thread]) -> None:
    """Wait until no task of an execution is left, and no thread of a tool except those *before*."""
    await wait_until_threads_have_ended(before)
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    try:
        import trio

        root = trio.lowlevel.current_root_task()
        assert root is not None
        names = [task.name for nursery in root.child_nurseries for task in nursery.child_tasks]
    except RuntimeError:
        names = [repr(task) for task in asyncio.all_tasks()]
    assert not [name for name in names if "OwnedTask" in name]
