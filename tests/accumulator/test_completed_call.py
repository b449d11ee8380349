"""``Turn.completed_call``: the calls that are complete before the turn has ended, and may start early."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Turn, providers
from streamkit.events import ToolCallEnd, ToolCallStart


def chat(index: int, *, id: str | None = None, name: str | None = None, arguments: str = "") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    call = {"index": index, "function": function} | ({"id": id, "type": "function"} if id else {})
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [{"delta": {"tool_calls": [call]}}]}


def anthropic(*blocks: tuple[str, str], stop: bool = True) -> list[dict[str, Any]]:
    """Return a message start and a block per (name, arguments); without the stop of the last if ``stop`` is False."""
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (name, arguments) in enumerate(blocks):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        if arguments:
            delta = {"type": "input_json_delta", "partial_json": arguments}
            chunks.append({"type": "content_block_delta", "index": index, "delta": delta})
        chunks.append({"type": "content_block_stop", "index": index})
    return chunks if stop else chunks[:-1]


def feed_all(provider: Any, chunks: list[dict[str, Any]]) -> Turn:
    turn = Turn(provider, turn_key="t")
    for chunk in chunks:
        turn.feed(chunk)
    return turn


def test_a_block_that_the_wire_ended_is_complete() -> None:
    turn = feed_all("anthropic", anthropic(("look", '{"at":"sea"}')))
    call = turn.completed_call(0)
    assert call is not None
    assert (call.name, call.state, call.arguments, call.ended) == ("look", "complete", {"at": "sea"}, True)
    assert turn.calls[0].state == "incomplete"  # the public state changes at the end of the turn only


def test_an_open_block_is_not_complete() -> None:
    turn = feed_all("anthropic", anthropic(("look", '{"at":"sea"}'), stop=False))
    assert turn.completed_call(0) is None


def test_an_ended_call_whose_text_is_not_an_object_is_not_complete() -> None:
    assert feed_all("anthropic", anthropic(("look", '{"at":'))).completed_call(0) is None
    assert feed_all("anthropic", anthropic(("look", '{"at":]}'))).completed_call(0) is None


def test_an_ended_call_without_arguments_is_complete_once_a_block_follows() -> None:
    # If the turn ended here by its length limit, the call would be truncated (docs/rules.md, "State").
    assert feed_all("anthropic", anthropic(("look", ""))).completed_call(0) is None
    followed = feed_all("anthropic", anthropic(("look", ""), ("look", "{}")))
    first = followed.completed_call(0)
    assert first is not None
    assert first.arguments == {}


@pytest.mark.parametrize("provider", ["openai_chat", "azure_openai"])
def test_on_openai_a_closed_call_is_complete_once_another_begins(provider: str) -> None:
    turn = feed_all(provider, [chat(0, id="a", name="look", arguments='{"at":1}')])
    assert turn.completed_call(0) is None  # a closed object alone
    turn.feed(chat(1, id="b", name="look", arguments='{"at":'))
    call = turn.completed_call(0)
    assert call is not None
    assert call.arguments == {"at": 1}
    assert turn.completed_call(1) is None
    turn.feed(chat(1, arguments="2}"))
    assert turn.completed_call(1) is None  # no other call began after it


def test_an_open_object_is_not_complete_after_another_call_began() -> None:
    turn = feed_all(
        "openai_chat", [chat(0, id="a", name="f", arguments='{"a":'), chat(1, id="b", name="f", arguments="{")]
    )
    assert turn.completed_call(0) is None


@pytest.mark.parametrize("provider", sorted({"kimi", "vllm", "openai_compatible", "groq", "mistral", "deepseek"}))
def test_dialects_that_revise_arguments_complete_no_call_before_the_end(provider: str) -> None:
    turn = feed_all(provider, [chat(0, id="a", name="f", arguments="{}"), chat(1, id="b", name="f", arguments="{}")])
    assert turn.completed_call(0) is None


def test_a_dialect_of_openai_chat_does_not_inherit_the_order_of_ends() -> None:
    acme = providers.dialect("acme")
    chunks = [chat(0, id="a", name="f", arguments="{}"), chat(1, id="b", name="f", arguments="{}")]
    assert feed_all(acme, chunks).completed_call(0) is None
    assert feed_all(providers.dialect("acme", calls_end_in_order=True), chunks).completed_call(0) is not None


def test_a_failed_or_closed_turn_has_no_completed_call() -> None:
    turn = feed_all("anthropic", anthropic(("look", '{"at":"sea"}')))
    turn.feed({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert turn.completed_call(0) is None
    closed = feed_all("anthropic", anthropic(("look", '{"at":"sea"}')))
    closed.close()
    assert closed.completed_call(0) is None
    assert closed.completed_call(7) is None


def test_on_wires_with_call_ends_a_call_is_complete_at_its_end_event() -> None:
    from streamkit.history import Content, ToolCallBlock

    content = Content.ai(
        "",
        ToolCallBlock(id="hist_tool_aaaaaaaaaaaaaaaaaaaaaaaa", name="look", parameters={"at": "sea"}),
        ToolCallBlock(id="hist_tool_bbbbbbbbbbbbbbbbbbbbbbbb", name="look", parameters={"at": "sky"}),
    )
    calls_by_provider: dict[str, list[Any]] = {}
    for name in ("anthropic", "openai_responses", "gemini", "bedrock_converse", "cohere", "ollama"):
        provider = providers.get(name)
        turn = Turn(name, turn_key="t")
        arguments: list[Any] = []
        for frame in provider.emit(content, response_id="r", model="m"):
            for event in turn.feed(frame):
                if isinstance(event, ToolCallEnd) and not turn.done:
                    call = turn.completed_call(event.call.index)
                    arguments.append(call and json.dumps(call.arguments))
                elif isinstance(event, ToolCallStart):
                    assert event.call.index in (0, 1)
        calls_by_provider[name] = arguments
    assert calls_by_provider == {name: ['{"at": "sea"}', '{"at": "sky"}'] for name in calls_by_provider}
