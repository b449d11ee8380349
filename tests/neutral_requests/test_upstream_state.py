"""The opaque state of an upstream comes back through the messages of a client of another wire, byte for byte."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from streamkit import Content, Turn, parse_request, render_request
from streamkit.events import BlockEnded, Event, ToolCallReady, ToolCallStart
from streamkit.history import ReasoningBlock
from streamkit.providers import StateCarrier, restore_state
from streamkit.providers.wrapped_state import UpstreamState, is_wrapped_state, unwrap_state, wrap_state

Json = dict[str, Any]

SIGNATURE = "EqQBCg==/+\u00e9 signed"
ENDPOINT = "https://api.example.com/v1"
STATE = UpstreamState({"provider": "anthropic", "model": "m"}, "reasoning", {"signature": SIGNATURE}, {"a": [1, None]})


def test_a_state_is_one_text_that_is_recognized() -> None:
    text = wrap_state(STATE)
    assert is_wrapped_state(text)
    assert unwrap_state(text) == STATE
    assert base64.b64decode(text, validate=True).startswith(b"streamkit-state-1:")
    assert not is_wrapped_state(SIGNATURE)
    assert not is_wrapped_state(None)
    assert unwrap_state(SIGNATURE) is None


def test_a_client_that_decodes_the_field_changes_nothing() -> None:
    data = base64.b64decode(wrap_state(STATE))
    assert unwrap_state(base64.urlsafe_b64encode(data).decode()) == STATE
    assert unwrap_state(base64.b64encode(data).decode().rstrip("=")) == STATE
    assert unwrap_state(base64.encodebytes(data).decode()) == STATE


def test_a_damaged_state_is_no_state() -> None:
    text = wrap_state(STATE)
    for cut in range(24, len(text) - 4):
        assert unwrap_state(text[:cut]) is None
        assert is_wrapped_state(text[:cut])
    mark = b"streamkit-state-1:"
    for data in (mark, mark + b"x", mark + zlib.compress(b"[]"), mark + zlib.compress(b"{}")):
        assert unwrap_state(base64.b64encode(data).decode()) is None


# ---------------------------------------------------------------- turns of upstreams


def anthropic_turn() -> list[list[Event]]:
    """Return the events of each chunk of a turn with signed and redacted thinking, and a call."""
    content = [
        {"type": "thinking", "thinking": "A shell,\nI think.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "date"}},
    ]
    turn = Turn("anthropic", turn_key="t", endpoint=ENDPOINT)
    body = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content,
            "stop_reason": "tool_use", "usage": {}}  # fmt: skip
    return [turn.feed(body), turn.close()]


def gemini_turn() -> list[list[Event]]:
    call = {"functionCall": {"name": "shell", "args": {"command": "date"}}}
    parts = [{"text": "Hm.", "thought": True}, {**call, "thoughtSignature": "c2ln"}, call]
    turn = Turn("gemini", turn_key="t", endpoint=ENDPOINT)
    body = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "modelVersion": "gemini-3-pro-preview"}  # fmt: skip
    return [turn.feed(body), turn.close()]


def responses_turn() -> list[list[Event]]:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "shell",
         "arguments": '{"command":"date"}', "status": "completed"},
    ]  # fmt: skip
    turn = Turn("openai_responses", turn_key="t", endpoint=ENDPOINT)
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": output}
    return [turn.feed(body), turn.close()]


UPSTREAMS = {
    "anthropic": (anthropic_turn, "claude-sonnet-4-5"),
    "gemini": (gemini_turn, "gemini-3-pro-preview"),
    "openai_responses": (responses_turn, "gpt-5"),
}

# ---------------------------------------------------------------- clients, each with the messages that it sends back


def texts_of(events: list[Event]) -> tuple[str, str]:
    reasoning = "".join(getattr(event, "text", "") for event in events if event.type == "reasoning")
    return reasoning, "".join(getattr(event, "text", "") for event in events if event.type == "text")


def anthropic_client(events: list[Event]) -> Json:
    blocks: list[Json] = []
    text = ""
    for event in events:
        if event.type == "reasoning":
            text += event.text
        elif isinstance(event, BlockEnded) and event.kind == "reasoning":
            opaque = event.metadata.get("opaque")
            blocks.append(opaque or {"type": "thinking", "thinking": text, "signature": event.signature or ""})
            text = ""
        elif isinstance(event, ToolCallReady):
            call = event.call
            blocks.append({"type": "tool_use", "id": f"toolu_{call.index}", "name": call.name, "input": call.arguments})
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "Monday"}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    user = {"role": "user", "content": "Weather?"}
    return {"messages": [user, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]}


def responses_client(events: list[Event]) -> Json:
    items: list[Json] = [{"role": "user", "content": "Weather?"}]
    outputs: list[Json] = []
    for event in events:
        if isinstance(event, BlockEnded) and event.kind == "reasoning":
            items.append({"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": event.signature})
        elif isinstance(event, ToolCallReady):
            call = event.call
            shared = {"call_id": f"call_{call.index}"}
            arguments = call.arguments_text
            items.append({"type": "function_call", **shared, "name": call.name, "arguments": arguments})
            outputs.append({"type": "function_call_output", **shared, "output": "Monday"})
    return {"input": items + outputs}


def chat_client(events: list[Event]) -> Json:
    message: Json = {"role": "assistant", "content": None, "tool_calls": [], "reasoning_details": []}
    results: list[Json] = []
    for event in events:
        if isinstance(event, BlockEnded) and event.kind == "reasoning":
            message["reasoning_details"] += event.metadata.get("reasoning_details", [])
        elif isinstance(event, ToolCallReady):
            call = event.call
            call_id = f"call_{call.index}"
            function = {"name": call.name, "arguments": call.arguments_text}
            message["tool_calls"].append({"id": call_id, "type": "function", "function": function, **call.metadata})
            results.append({"role": "tool", "tool_call_id": call_id, "content": "Monday"})
    return {"messages": [{"role": "user", "content": "Weather?"}, message, *results]}


def gemini_client(events: list[Event]) -> Json:
    parts: list[Json] = []
    text = ""
    for event in events:
        if event.type == "reasoning":
            text += event.text
        elif isinstance(event, BlockEnded) and event.kind == "reasoning":
            parts.append({"text": text, "thought": True, **event.metadata})
            text = ""
        elif isinstance(event, ToolCallReady):
            parts.append(
                {"functionCall": {"name": event.call.name, "args": event.call.arguments}, **event.call.metadata}
            )
    results = [
        {"functionResponse": {"name": part["functionCall"]["name"], "response": {"output": "Monday"}}}
        for part in parts
        if "functionCall" in part
    ]
    user = {"role": "user", "parts": [{"text": "Weather?"}]}
    return {"contents": [user, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]}


CLIENTS = {
    "anthropic": anthropic_client,
    "openai_responses": responses_client,
    "openai_chat": chat_client,
    "gemini": gemini_client,
}


def through(client: str, upstream: str, **origin: Any) -> Json:
    """Return the body of the client's next request, after a turn of the upstream."""
    make_turn, model = UPSTREAMS[upstream]
    carrier = StateCarrier(client, {"provider": upstream, "endpoint": ENDPOINT, "model": model, **origin})
    return CLIENTS[client]([event for events in make_turn() for event in carrier.carry(events)])


def upstream_messages(client: str, upstream: str, body: Json, **options: Any) -> tuple[list[Json], list[str]]:
    """Return the messages that the upstream gets for a client's body, and the changes."""
    request = parse_request(body, client)
    changes: list[str] = []
    request = request.model_copy(update={"contents": restore_state(request.contents, changes)})
    _, model = UPSTREAMS[upstream]
    options = {"model": model, "endpoint": ENDPOINT, **options}
    written = render_request(request, upstream, settings={"model": model}, changes=changes, **options)
    return next(written[name] for name in ("messages", "input", "contents") if name in written), changes


@pytest.mark.parametrize("client", CLIENTS)
def test_thinking_comes_back_to_anthropic(client: str) -> None:
    messages, _ = upstream_messages(client, "anthropic", through(client, "anthropic"))
    blocks = messages[1]["content"]
    assert blocks[:2] == [
        {"type": "thinking", "thinking": "A shell,\nI think.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
    ]
    assert blocks[-1]["type"] == "tool_use"


@pytest.mark.parametrize("client", CLIENTS)
def test_encrypted_reasoning_comes_back_to_responses(client: str) -> None:
    items, changes = upstream_messages(client, "openai_responses", through(client, "openai_responses"))
    assert items[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="}
    assert items[2]["type"] == "function_call"
    assert not any("reasoning was left out" in change for change in changes)


@pytest.mark.parametrize("client", CLIENTS)
def test_thought_signatures_come_back_to_the_call_that_had_them(client: str) -> None:
    contents, _ = upstream_messages(client, "gemini", through(client, "gemini"))
    calls = [part for part in contents[1]["parts"] if "functionCall" in part]
    assert [part.get("thoughtSignature") for part in calls] == ["c2ln", None]


def chat_turn(name: str, field: str) -> list[list[Event]]:
    """Return the events of a turn with reasoning that has no signature, and a call."""
    call = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"date"}'}}
    message = {"role": "assistant", "content": None, field: "A shell, I think.", "tool_calls": [call]}
    turn = Turn(name, turn_key="t", endpoint=ENDPOINT)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return [turn.feed({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}), turn.close()]


def plain_messages(client: str, upstream: str, field: str) -> list[Json]:
    """Return the messages that the upstream gets after its turn went through a client."""
    carrier = StateCarrier(client, {"provider": upstream, "endpoint": ENDPOINT, "model": "m"})
    body = CLIENTS[client]([event for events in chat_turn(upstream, field) for event in carrier.carry(events)])
    request = parse_request(body, client)
    request = request.model_copy(update={"contents": restore_state(request.contents)})
    messages: list[Json] = render_request(request, upstream, settings={"model": "m"}, endpoint=ENDPOINT)["messages"]
    return messages


@pytest.mark.parametrize(
    ("upstream", "field"), [("deepseek", "reasoning_content"), ("kimi", "reasoning_content"), ("vllm", "reasoning")]
)
@pytest.mark.parametrize("client", CLIENTS)
def test_reasoning_without_a_signature_comes_back_to_who_needs_it(client: str, upstream: str, field: str) -> None:
    """400 "reasoning_content is missing in assistant tool call message" (bytedance/deer-flow#3043)."""
    _, assistant, result = plain_messages(client, upstream, field)
    assert assistant[field] == "A shell, I think."
    assert len(assistant["tool_calls"]) == 1
    assert "Monday" in result["content"]


@pytest.mark.parametrize(
    ("upstream", "reason"),
    [
        ("anthropic", "reasoning was left out: it has no signature of Anthropic's, which accepts no other reasoning"),
        (
            "openai_responses",
            "reasoning was left out: it has no signature of OpenAI's, which accepts no other reasoning",
        ),
        ("deepseek", "left out a block of type 'reasoning' of ollama: deepseek accepts only its own"),
    ],
)
def test_reasoning_whose_state_a_client_dropped_is_not_said_to_be_the_clients(upstream: str, reason: str) -> None:
    """The client's name is all that its messages show; any upstream may have made the reasoning."""
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Cold.", "thinking": "A shell, I think."},
        {"role": "user", "content": "Sure?"},
    ]
    changes: list[str] = []
    request = parse_request({"model": "m", "messages": messages}, "ollama")
    render_request(request, upstream, settings={"model": "m"}, unsupported="text", changes=changes)
    assert [change for change in changes if "reasoning" in change] == [reason]


@pytest.mark.parametrize("upstream", ["openai_chat", "perplexity"])
def test_reasoning_that_does_not_go_back_is_not_carried(upstream: str) -> None:
    carrier = StateCarrier("anthropic", {"provider": upstream})
    events = [event for events in chat_turn(upstream, "reasoning_content") for event in carrier.carry(events)]
    ends = [event for event in events if isinstance(event, BlockEnded) and event.kind == "reasoning"]
    assert [(event.signature, event.metadata) for event in ends] == [(None, {})]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_state_goes_only_to_who_made_it(client: str, upstream: str) -> None:
    body = through(client, upstream)
    other_model = {"model": "another", "endpoint": ENDPOINT}
    other_endpoint = {"endpoint": "https://elsewhere.example.com"}
    for options in (other_model, other_endpoint):
        messages, _ = upstream_messages(client, upstream, body, **options)
        assert not any(secret in str(messages) for secret in (SIGNATURE, "c2VjcmV0", "gAAAA==", "'c2ln'", "rs_1"))
        assert "streamkit-state" not in str(messages)
        assert "c3RyZWFta2l0LXN0YXRl" not in str(messages)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_client_that_drops_the_state_loses_nothing_else(client: str, upstream: str) -> None:
    body = through(client, upstream)

    def drop(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: drop(item) for name, item in value.items() if not is_wrapped_state(item)}
        return [drop(item) for item in value] if isinstance(value, list) else value

    messages, _ = upstream_messages(client, upstream, drop(body))
    whole, _ = upstream_messages(client, upstream, body)
    for kept in ("Weather?", "date", "Monday"):
        assert str(messages).count(kept) == str(whole).count(kept)


def test_damaged_state_is_left_out_and_reported() -> None:
    body = through("anthropic", "anthropic")
    body["messages"][1]["content"][0]["signature"] = body["messages"][1]["content"][0]["signature"][:-8]
    messages, changes = upstream_messages("anthropic", "anthropic", body)
    assert [block["type"] for block in messages[1]["content"]] == ["redacted_thinking", "tool_use"]
    assert "opaque state of an earlier response was left out: the client sent it back damaged" in changes


def test_state_of_a_call_precedes_it_where_the_call_has_no_field_for_it() -> None:
    carrier = StateCarrier("anthropic", {"provider": "gemini"})
    events = [event for events in gemini_turn() for event in carrier.carry(events)]
    kinds = [type(event) for event in events if isinstance(event, (BlockEnded, ToolCallStart))]
    assert kinds == [BlockEnded, BlockEnded, ToolCallStart, ToolCallStart]


def test_contents_without_state_are_returned_as_they_are() -> None:
    contents = [Content.human("?"), Content.ai("!", ReasoningBlock(text="hm", signature=SIGNATURE))]
    assert all(after is before for after, before in zip(restore_state(contents), contents, strict=True))
