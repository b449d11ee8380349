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


# ---------------------------------------------------------------- Responses

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1790000000,
    "status": "in_progress",
    "model": "gpt-5-2025-08-07",
    "output": [],
    "instructions": "Be brief.",
    "max_output_tokens": 400,
    "temperature": None,
    "reasoning": {"effort": "low", "summary": None},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tools": [{"type": "web_search"}],
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "usage": None,
}
TOKENS = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "input_tokens_details": {"audio_tokens": 1}}


def responses_stream(*events: Json, status: str = "completed", **final: Any) -> list[Json]:
    end = {**RESPONSE, "status": status, "completed_at": 1790000009, "service_tier": "default", "usage": TOKENS}
    return [
        {"type": "response.created", "response": RESPONSE},
        *events,
        {"type": f"response.{status}", "response": {**end, **final}},
    ]


def item_events(item: Json, index: int = 0, **initial: Any) -> list[Json]:
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **initial}},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def done_items(chunks: list[Json]) -> list[Json]:
    return [chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"]


def test_clients_of_responses_get_the_settings_and_the_facts_of_a_response() -> None:
    chunks = through("openai_responses", *responses_stream())
    created, completed = chunks[0]["response"], chunks[-1]["response"]
    assert {**created, **RESPONSE} == created
    assert (completed["created_at"], completed["completed_at"]) == (1790000000, 1790000009)
    assert (completed["service_tier"], completed["instructions"]) == ("default", "Be brief.")
    assert completed["usage"]["input_tokens_details"] == {"audio_tokens": 1}
    (body,) = through("openai_responses", *responses_stream(), stream=False)
    assert body == completed


def test_the_settings_of_a_request_are_no_metadata_of_a_turn() -> None:
    turn = Turn("openai_responses", "t")
    for chunk in responses_stream():
        turn.feed(chunk)
    turn.close()
    assert turn.metadata == {"service_tier": "default", "completed_at": 1790000009}


@pytest.mark.parametrize("reason", ["steered", "a_new_reason"])
def test_clients_of_responses_get_the_reason_of_an_incomplete_response(reason: str) -> None:
    stream = responses_stream(status="incomplete", incomplete_details={"reason": reason})
    end = through("openai_responses", *stream)[-1]
    assert (end["type"], end["response"]["status"]) == ("response.incomplete", "incomplete")
    assert end["response"]["incomplete_details"] == {"reason": reason}


def test_clients_of_responses_get_items_of_server_tools_as_they_came() -> None:
    items = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": [{"name": "ask"}]},
        {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "code": "1", "container_id": "c"},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "ask", "arguments": "{}", "error": "no"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk=", "size": "1024x1024"},
        {"type": "a_new_item", "id": "new_1", "value": 1},
    ]
    events = [event for index, item in enumerate(items) for event in item_events(item, index)]
    chunks = through("openai_responses", *responses_stream(*events))
    assert done_items(chunks) == items
    assert chunks[-1]["response"]["output"] == items


def test_clients_of_responses_get_the_unfinished_images_that_they_asked_for() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}
    start, end = item_events(item, status="generating", result=None)
    part = {"item_id": "ig_1", "output_index": 0, "partial_image_index": 0, "partial_image_b64": "aA=="}
    partial = {"type": "response.image_generation_call.partial_image", **part, "sequence_number": 3}
    chunks = through("openai_responses", *responses_stream(start, partial, end))
    assert [chunk["type"] for chunk in chunks[2:-1]] == [start["type"], partial["type"], end["type"]]
    assert chunks[3] == partial
    assert chunks[-1]["response"]["output"] == [item]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "docs", "name": "ask", "arguments": "{}"},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "action": {"type": "wait"}},
    ],
    ids=lambda item: str(item["type"]),
)
def test_clients_of_responses_get_the_items_that_ask_them_for_an_action(item: Json) -> None:
    item = {**item, "status": "completed"}
    chunks = through("openai_responses", *responses_stream(*item_events(item, status="in_progress")))
    assert done_items(chunks) == [item]


def test_clients_of_responses_get_the_fields_of_a_call() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "w", "arguments": "{}"}
    item |= {"status": "completed", "namespace": "weather", "caller": {"type": "direct"}, "async": True}
    start, end = item_events(item, status="in_progress", arguments="")
    done = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": "{}"}
    (written_item,) = done_items(through("openai_responses", *responses_stream(start, done, end)))
    assert {**written_item, "id": "fc_1", "call_id": "call_1"} == item


def test_clients_of_responses_get_every_annotation_and_log_probability() -> None:
    citation = {"type": "container_file_citation", "container_id": "c", "file_id": "f", "filename": "a.csv"}
    entries = [{"token": text, "logprob": -0.5, "top_logprobs": []} for text in ("a", "b")]
    part = {"type": "output_text", "text": "ab", "annotations": [citation], "logprobs": entries}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    start, end = item_events(item, content=[], status="in_progress")
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    deltas = [
        {"type": "response.output_text.delta", **place, "delta": entry["token"], "logprobs": [entry]}
        for entry in entries
    ]
    chunks = through("openai_responses", *responses_stream(start, *deltas, end))
    assert [chunk["logprobs"] for chunk in chunks if chunk["type"] == deltas[0]["type"]] == [[e] for e in entries]
    (done,) = [chunk for chunk in chunks if chunk["type"] == "response.output_text.done"]
    assert done["logprobs"] == entries
    assert done_items(chunks)[0]["content"] == [part]


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
