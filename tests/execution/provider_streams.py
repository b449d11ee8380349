"""Responses with calls in each wire format, two tools, and the running of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from execution.fake_model import calls_with_status
from wire_streams import Chunk, block, chat, run

from streamkit import (
    Content,
    RoundContext,
    ThreadUpdate,
    Turn,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    providers,
    render,
    run_loop,
)
from streamkit.events import Event
from streamkit.testing import validate_request

BOTH = pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
HISTORY = [Content.human("Go.")]


def call_delta(
    arguments: Any = None, *, index: int | None = 0, id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Return one entry of a delta's ``tool_calls``, without the values that are None."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**fields, "type": "function", "function": function}


def chat_delta(*pieces: dict[str, Any]) -> Chunk:
    return chat({"tool_calls": list(pieces)})


def complete_response(*calls: tuple[str, str, Any], finish: str = "tool_calls", text: str = "") -> list[Chunk]:
    """Return a response of the chat wire with all its calls (id, name, arguments) in one chunk."""
    pieces = [call_delta(arguments, index=n, id=raw_id, name=name) for n, (raw_id, name, arguments) in enumerate(calls)]
    return [*([chat({"content": text})] if text else []), chat_delta(*pieces), chat(None, finish)]


def tool_use_block(index: int, name: str, *texts: str, id: str | None = None, stop: bool = True) -> list[Chunk]:
    """Return a tool_use block of Anthropic's wire, with its arguments in deltas."""
    start = {"type": "tool_use", "id": id or f"toolu_{index}", "name": name, "input": {}}
    return block(index, start, *[{"type": "input_json_delta", "partial_json": text} for text in texts], stop=stop)


def input_delta(index: int, text: str) -> Chunk:
    part = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": part}


def block_stop(index: int) -> Chunk:
    return {"type": "content_block_stop", "index": index}


def gemini_call(name: str, **arguments: Any) -> Chunk:
    """Return a part of Gemini's wire with a call."""
    return {"functionCall": {"name": name, "args": arguments}}


def ollama_chunk(*calls: tuple[str, dict[str, Any]], text: str = "", done: bool = False) -> Chunk:
    message: Chunk = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [{"function": {"name": name, "arguments": fields}} for name, fields in calls]
    line: Chunk = {"model": "m", "created_at": "2026-11-21T00:00:00Z", "message": message, "done": done}
    return line | ({"done_reason": "stop"} if done else {})


def function_call_item(number: int, name: str, arguments: str) -> Chunk:
    """Return a function_call of Responses."""
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, "status": "completed"}


def responses_stream(*items: Chunk, ends: bool = True) -> list[Chunk]:
    """Return a stream of Responses; without an end, every item is done all the same."""
    events: list[Chunk] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}]
    for place, each in enumerate(items):
        where = {"output_index": place, "item_id": each["id"]}
        begun = each | {"arguments": "", "status": "in_progress"}
        events += [
            {"type": "response.output_item.added", "output_index": place, "item": begun},
            {"type": "response.function_call_arguments.delta", **where, "delta": each["arguments"]},
            {"type": "response.function_call_arguments.done", **where, "arguments": each["arguments"]},
            {"type": "response.output_item.done", "output_index": place, "item": each},
        ]
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": list(items)}
    return [*events, {"type": "response.completed", "response": response}] if ends else events


class Tools:
    """Two tools that return their arguments, and a record of the calls."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []

    def __iter__(self) -> Any:
        async def f(x: int = 0) -> int:
            self.ran.append(("f", x))
            return x

        async def g(x: int = 0) -> int:
            self.ran.append(("g", x))
            return x

        return iter([f, g])


async def execute_chunks(
    provider: str,
    chunks: Sequence[Any],
    *,
    execute: Callable[..., Any] = execute_tool_calls_batched,
    tools: Sequence[Any] | None = None,
) -> tuple[Turn, list[tuple[str, int]], ThreadUpdate]:
    """Return a turn that was fed these chunks, the calls that ran, and the update, which the provider accepts."""
    turn, _ = run(provider, chunks)
    assert turn.error is None
    usual = Tools()
    update = await execute(turn, tools=list(usual) if tools is None else tools)
    assert [result.call.id for result in update.results] == [call.id for call in turn.calls]
    calls_with_status(update.contents)
    thread = [*render(HISTORY, provider), *update.messages]
    assert (
        validate_request(provider, RoundContext([], [], None, providers.get(provider), messages=thread).request) == []
    )
    return turn, usual.ran, update


def loop(model: Any, *tools: Any, **fields: Any) -> Any:
    if "thread" not in fields:
        fields.setdefault("history", HISTORY)
    return run_loop(model, tools=tools, **({"provider": "openai_chat", "run_key": "k"} | fields))


async def collect_events(running: Any) -> list[Event]:
    async with running:
        return [event async for event in running]


def result_events(events: Sequence[Event]) -> list[tuple[str, str]]:
    kinds = {"tool_completed", "tool_error", "tool_denied", "tool_timed_out", "tool_canceled"}
    return [(event.call.name, event.type) for event in events if event.type in kinds]  # type: ignore[union-attr]


def result_values(update: ThreadUpdate) -> list[tuple[str, str, Any]]:
    return [(result.call.name, result.status, result.value) for result in update.results]


CHAT = pytest.mark.parametrize("provider", ["openai_chat", "groq", "mistral"])
