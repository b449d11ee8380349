"""A model that follows a script, and the checks that apply to every run, by the public contract alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import httpx

from streamkit import Content, RoundContext

__all__ = [
    "FakeModel",
    "FakeStream",
    "ScriptedModel",
    "calls_with_status",
    "ids_in_messages",
    "is_nothing_left",
    "rejected",
    "tasks_and_threads",
]


class FakeStream:
    """A stream of chunks, which records how far it was read and if it was closed."""

    def __init__(self, pieces: Sequence[Any]) -> None:
        self.pieces = list(pieces)
        self.read = 0
        self.closed = False

    def __aiter__(self) -> FakeStream:
        return self

    async def __anext__(self) -> Any:
        await anyio.lowlevel.checkpoint()
        if self.read == len(self.pieces):
            raise StopAsyncIteration
        piece = self.pieces[self.read]
        self.read += 1
        if isinstance(piece, anyio.Event):  # the stream continues when the test sets it
            await piece.wait()
            return await self.__anext__()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True


class FakeModel:
    """A model that returns its responses one after the other, the last one repeatedly, and records the requests.

    Args:
        answers: the pieces of each; an ``anyio.Event`` among them is waited for, an exception is raised.
    """

    def __init__(self, *answers: Sequence[Any]) -> None:
        self.answers = answers
        self.asked: list[RoundContext] = []
        self.requests: list[dict[str, Any]] = []
        self.streams: list[FakeStream] = []

    def __call__(self, context: RoundContext) -> FakeStream:
        self.asked.append(context)
        self.requests.append(context.request)
        self.streams.append(FakeStream(self.answers[min(len(self.asked), len(self.answers)) - 1]))
        return self.streams[-1]


class ScriptedModel:
    """A model that returns its responses one after the other, as they are, and raises those that are exceptions."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[RoundContext] = []

    def __call__(self, context: RoundContext) -> Any:
        self.asked.append(context)
        given = self.answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


def rejected(status: int, body: bytes = b"{}", headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    """Return the exception by which httpx reports a request that the server rejected."""
    request = httpx.Request("POST", "http://provider.example/v1")
    response = httpx.Response(status, headers=headers or {}, content=body, request=request)
    return httpx.HTTPStatusError(f"{status}", request=request, response=response)


def calls_with_status(contents: Sequence[Content]) -> list[tuple[str, str | None]]:
    """Name and status of each call of a history, in call order, each of which must have exactly one result."""
    asked = [block for content in contents for block in content.blocks if block.type == "tool_call"]
    responses = [block for content in contents for block in content.blocks if block.type == "tool_response"]
    assert [block.call_id for block in responses] == [block.id for block in asked]  # type: ignore[union-attr]
    return [(block.name, block.status) for block in responses]  # type: ignore[union-attr, misc]


def ids_in_messages(messages: Sequence[dict[str, Any]]) -> tuple[list[list[str]], list[str]]:
    """Return the call ids of each assistant message of Chat Completions messages, and those of the results."""
    asked = [[call["id"] for call in message["tool_calls"]] for message in messages if message.get("tool_calls")]
    return asked, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def tasks_and_threads() -> tuple[int, set[threading.Thread]]:
    """Return the number of tasks in this event loop, and the threads except those of trio's guest mode."""
    return len(_tasks()), {each for each in threading.enumerate() if not each.name.startswith("Trio thread")}


def is_nothing_left(before: tuple[int, set[threading.Thread]]) -> bool:
    """Return whether there are no more tasks and threads than *before*; a thread of an earlier test may have ended."""
    tasks, threads = tasks_and_threads()
    return tasks == before[0] and threads <= before[1]


def _tasks() -> list[Any]:
    try:
        import trio

        root = trio.lowlevel.current_root_task()
    except RuntimeError:
        return list(asyncio.all_tasks())
    waiting, tasks = [root], []
    while waiting:
        task = waiting.pop()
        if task is not None:
            tasks.append(task)
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return tasks
