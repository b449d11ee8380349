"""Which calls are known to be whole before the turn has ended: those alone may start early."""

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
    """Message start, and for each (name, arguments) a block; the last one's stop is left out where not ``stop``."""
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


def fed(provider: Any, chunks: list[dict[str, Any]]) -> Turn:
    turn = Turn(provider, turn_key="t")
    for chunk in chunks:
        turn.feed(chunk)
    return turn


def test_a_block_that_the_wire_ended_is_whole_as_it_will_stand() -> None:
    turn = fed("anthropic", anthropic(("look", '{"at":"sea"}')))
    call = turn.completed_call(0)
    assert call is not None
    assert (call.name, call.state, call.arguments, call.ended) == ("look", "complete", {"at": "sea"}, True)
    assert turn.calls[0].state == "incomplete"  # nothing is promised to those who do not start early


def test_a_block_that_goes_on_is_not() -> None:
    turn = fed("anthropic", anthropic(("look", '{"at":"sea"}'), stop=False))
    assert turn.completed_call(0) is None


def test_a_sealed_call_whose_text_is_no_object_is_not() -> None:
    assert fed("anthropic", anthropic(("look", '{"at":'))).completed_call(0) is None
    assert fed("anthropic", anthropic(("look", '{"at":]}'))).completed_call(0) is None


def test_a_sealed_call_without_arguments_is_whole_only_once_something_follows_it() -> None:
    # were the answer to end here by its length limit, the call would count as cut (design section 5, "State")
    assert fed("anthropic", anthropic(("look", ""))).completed_call(0) is None
    followed = fed("anthropic", anthropic(("look", ""), ("look", "{}")))
    first = followed.completed_call(0)
    assert first is not None
    assert first.arguments == {}


@pytest.mark.parametrize("provider", ["openai_chat", "azure_openai"])
def test_openai_closes_calls_in_order(provider: str) -> None:
    turn = fed(provider, [chat(0, id="a", name="look", arguments='{"at":1}')])
    assert turn.completed_call(0) is None  # a closed object alone
    turn.feed(chat(1, id="b", name="look", arguments='{"at":'))
    call = turn.completed_call(0)
    assert call is not None
    assert call.arguments == {"at": 1}
    assert turn.completed_call(1) is None
    turn.feed(chat(1, arguments="2}"))
    assert turn.completed_call(1) is None  # no other began behind it


def test_an_open_object_is_not_whole_though_another_call_began() -> None:
    turn = fed("openai_chat", [chat(0, id="a", name="f", arguments='{"a":'), chat(1, id="b", name="f", arguments="{")])
    assert turn.completed_call(0) is None


@pytest.mark.parametrize("provider", sorted({"kimi", "vllm", "openai_compatible", "groq", "mistral", "deepseek"}))
def test_dialects_that_may_revise_earlier_arguments_tell_nothing_before_the_end(provider: str) -> None:
    turn = fed(provider, [chat(0, id="a", name="f", arguments="{}"), chat(1, id="b", name="f", arguments="{}")])
    assert turn.completed_call(0) is None


def test_a_dialect_made_of_openai_does_not_inherit_its_order() -> None:
    acme = providers.dialect("acme")
    chunks = [chat(0, id="a", name="f", arguments="{}"), chat(1, id="b", name="f", arguments="{}")]
    assert fed(acme, chunks).completed_call(0) is None
    assert fed(providers.dialect("acme", calls_end_in_order=True), chunks).completed_call(0) is not None


def test_a_turn_that_failed_or_is_closed_has_none() -> None:
    turn = fed("anthropic", anthropic(("look", '{"at":"sea"}')))
    turn.feed({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert turn.completed_call(0) is None
    closed = fed("anthropic", anthropic(("look", '{"at":"sea"}')))
    closed.close()
    assert closed.completed_call(0) is None
    assert closed.completed_call(7) is None


def test_every_wire_that_ends_its_calls_tells_them_whole_at_the_end_event() -> None:
    from streamkit.history import Content, ToolCallBlock

    said = Content.ai(
        "",
        ToolCallBlock(id="hist_tool_aaaaaaaaaaaaaaaaaaaaaaaa", name="look", parameters={"at": "sea"}),
        ToolCallBlock(id="hist_tool_bbbbbbbbbbbbbbbbbbbbbbbb", name="look", parameters={"at": "sky"}),
    )
    told: dict[str, list[Any]] = {}
    for name in ("anthropic", "openai_responses", "gemini", "bedrock_converse", "cohere", "ollama"):
        provider = providers.get(name)
        turn = Turn(name, turn_key="t")
        found: list[Any] = []
        for frame in provider.emit(said, response_id="r", model="m"):
            for event in turn.feed(frame):
                if isinstance(event, ToolCallEnd) and not turn.done:
                    call = turn.completed_call(event.call.index)
                    found.append(call and json.dumps(call.arguments))
                elif isinstance(event, ToolCallStart):
                    assert event.call.index in (0, 1)
        told[name] = found
    assert told == {name: ['{"at": "sea"}', '{"at": "sky"}'] for name in told}
