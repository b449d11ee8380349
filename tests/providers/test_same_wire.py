"""A stream that is read and written again in its own wire: what only this wire has arrives, and in no other wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_streams import block, message_end, message_start

from streamkit import Turn, writer
from streamkit.events import Event, Finished, ResponseStarted, ServerTool, ToolCallStart, UsageReport
from streamkit.framing import framer_for
from streamkit.providers import get

Json = dict[str, Any]


def events_of(provider: str, *chunks: Json) -> list[Event]:
    """Return the events of a stream, given as its chunks."""
    turn = Turn(provider, "t")
    return [*(event for chunk in chunks for event in turn.feed(chunk)), *turn.close(complete=True)]


def written(target: str, events: list[Event], **options: Any) -> list[Json]:
    """Return the chunks that a writer makes of events."""
    live = writer(target, **options)
    data = b"".join([live.write(event) for event in events]) + live.close()
    if options.get("stream") is False:
        return [json.loads(data)]
    framer = framer_for(get(target).traits.framing)
    frames = [*framer.feed(data), *framer.close()]
    return [json.loads(payload) for _, payload in frames if payload.startswith(b"{")]


def through(provider: str, *chunks: Json, **options: Any) -> list[Json]:
    """Return the chunks of a stream after it was read and written in its own wire."""
    events = events_of(provider, *chunks)
    # As the gateway does: what is known of the tokens when the response begins is in its start.
    usage = next((event for event in events if isinstance(event, UsageReport)), None)
    return written(provider, events if usage is None else [usage, *events], **options)


# ---------------------------------------------------------------- Anthropic

USAGE = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 7,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7},
    "output_tokens": 1,
    "service_tier": "priority",
    "inference_geo": "us",
}
DELTA_USAGE = {
    "output_tokens": 40,
    "output_tokens_details": {"thinking_tokens": 10},
    "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
    "iterations": [{"type": "message", "input_tokens": 12, "output_tokens": 40}],
}
CONTAINER = {"id": "container_1", "expires_at": "2026-11-23T08:00:00Z"}
EDITS = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 900}]}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {}, "caller": {"type": "direct"}}
CALL["toolset_name"] = "weather"  # type: ignore[assignment]


def anthropic_end(**delta: Any) -> Json:
    return {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None, **delta}}


def anthropic_stream(**delta: Any) -> list[Json]:
    start = message_start(usage=USAGE, diagnostics={"cache_miss_reason": None}, input_transformations=[])
    end = {**anthropic_end(**delta), "usage": DELTA_USAGE, "context_management": EDITS}
    return [start, *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}), end, message_end()[-1]]


def test_anthropics_clients_get_the_whole_usage_and_all_facts_of_a_message() -> None:
    chunks = through(
        "anthropic", *anthropic_stream(stop_reason="stop_sequence", stop_sequence="###", container=CONTAINER)
    )
    message, end = chunks[0]["message"], chunks[-2]
    assert message["usage"] == USAGE
    assert (message["diagnostics"], message["input_transformations"]) == ({"cache_miss_reason": None}, [])
    assert end["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "###", "container": CONTAINER}
    assert end["context_management"] == EDITS
    assert end["usage"] == USAGE | DELTA_USAGE
    assert end.keys() == {"type", "delta", "usage", "context_management"}


def test_the_body_of_anthropics_message_has_them_too() -> None:
    (body,) = through("anthropic", *anthropic_stream(container=CONTAINER), stream=False)
    assert (body["usage"], body["container"], body["context_management"]) == (USAGE | DELTA_USAGE, CONTAINER, EDITS)
    assert (body["diagnostics"], body["input_transformations"]) == ({"cache_miss_reason": None}, [])
    assert body.keys() & {"delta", "index"} == set()


def test_anthropics_clients_get_the_details_of_a_refusal() -> None:
    """The SDK's fallback sends ``fallback_credit_token`` back with the request to another model."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "fallback_credit_token": "tok_1"}
    chunks = through("anthropic", *anthropic_stream(stop_reason="refusal", stop_details=details))
    assert chunks[-2]["delta"]["stop_details"] == details
    assert chunks[-2]["delta"]["stop_reason"] == "refusal"


def test_anthropics_clients_get_the_fields_of_a_call() -> None:
    arguments = {"type": "input_json_delta", "partial_json": "{}"}
    events = events_of("anthropic", message_start(), *block(0, CALL, arguments), *message_end("tool_use"))
    (start,) = [event for event in events if isinstance(event, ToolCallStart)]
    assert start.metadata == {"caller": {"type": "direct"}, "toolset_name": "weather"}
    chunks = written("anthropic", events)
    (call,) = [chunk["content_block"] for chunk in chunks if chunk["type"] == "content_block_start"]
    assert {**call, "id": "toolu_1"} == CALL


def test_anthropics_clients_get_a_server_tool_as_it_came() -> None:
    use = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "search", "server_name": "docs", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True, "content": [{"type": "text"}]}
    web = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [], "caller": {"type": "direct"}}
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "caller": {"type": "direct"}}
    unknown = {"type": "new_block", "value": [1]}
    blocks = [use, result, {**search, "input": {}}, web, unknown]
    stream = [chunk for index, each in enumerate(blocks) for chunk in block(index, each)]
    chunks = through("anthropic", message_start(), *stream, *message_end())
    assert [chunk["content_block"] for chunk in chunks if chunk["type"] == "content_block_start"] == blocks


# ---------------------------------------------------------------- no other wire


@pytest.mark.parametrize(
    "target", ["openai_chat", "openai_responses", "gemini", "bedrock_converse", "ollama", "cohere", "mistral"]
)
def test_no_other_wire_gets_them(target: str) -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    events = events_of("anthropic", *anthropic_stream(container=CONTAINER)[:-2], *block(1, use), *message_end())
    plain = [without_own_fields(event) for event in events]
    assert plain != events
    assert written(target, events) == written(target, plain)


def without_own_fields(event: Event) -> Event:
    """Return an event without what only its own wire has."""
    match event:
        case ResponseStarted():
            return ResponseStarted(event.response_id, event.model)
        case Finished():
            return Finished(event.reason, event.raw)
        case ServerTool():
            return ServerTool(event.id, event.name, event.phase, event.data)
        case _:
            return event
