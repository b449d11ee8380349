"""A stream that is read and written again in its own wire, from its events: what they have arrives, and nothing else.

The gateway passes the frames of one wire on instead: tests/gateway/test_wire_relay.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_streams import block, chat, message_end, message_start

from streamkit import Turn, writer
from streamkit.events import (
    Event,
    File,
    Finished,
    ResponseStarted,
    ServerTool,
    UsageReport,
    from_json,
    to_json,
)
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


def test_anthropics_clients_get_the_details_of_a_refusal() -> None:
    """The SDK's fallback sends ``fallback_credit_token`` back with the request to another model."""
    details = {"type": "refusal", "category": "cyber", "explanation": "No.", "fallback_credit_token": "tok_1"}
    chunks = through("anthropic", *anthropic_stream(stop_reason="refusal", stop_details=details))
    assert chunks[-2]["delta"]["stop_details"] == details
    assert chunks[-2]["delta"]["stop_reason"] == "refusal"


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


# ---------------------------------------------------------------- Chat Completions


def chat_stream(*deltas: Any, finish: str = "stop", usage: Any = None, **fields: Any) -> list[Json]:
    """Return chunks with the common fields of a chat stream."""
    common = {"created": 1790000000, **fields}
    chunks = [chat(delta, **common) for delta in deltas]
    end = chat({}, finish, **common)
    return [*chunks, end, *([{**end, "choices": [], "usage": usage}] if usage is not None else [])]


def test_chat_clients_get_the_time_the_tier_and_the_fingerprint_in_every_chunk() -> None:
    facts = {"service_tier": "priority", "system_fingerprint": "fp_1"}
    chunks = through("openai_chat", *chat_stream({"content": "a"}, **facts))
    expected = {"id": "chatcmpl-1", "created": 1790000000, "model": "m-1", **facts}
    assert all(chunk.items() >= expected.items() for chunk in chunks)
    (body,) = through("openai_chat", *chat_stream({"content": "a"}, **facts), stream=False)
    assert body.items() >= expected.items()


def test_chat_clients_get_no_tier_that_nobody_named() -> None:
    assert all("service_tier" not in chunk for chunk in through("openai_chat", *chat_stream({"content": "a"})))


def test_chat_clients_get_log_probabilities() -> None:
    entries = [{"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []} for text in ("a", "b")]
    stream = chat_stream(*({"content": entry["token"]} for entry in entries))
    for chunk, entry in zip(stream, entries, strict=False):
        chunk["choices"][0]["logprobs"] = {"content": [entry], "refusal": None}
    choices = [chunk["choices"][0] for chunk in through("openai_chat", *stream)]
    assert [entry for choice in choices for entry in (choice["logprobs"] or {}).get("content", ())] == entries
    (body,) = through("openai_chat", *stream, stream=False)
    assert body["choices"][0]["logprobs"] == {"content": entries, "refusal": None}
    assert body["choices"][0]["message"]["content"] == "ab"


def test_chat_clients_get_the_other_fields_of_a_response_and_a_choice() -> None:
    timings = {"predicted_ms": 3.5}
    stream = chat_stream({"content": "a"}, provider="Azure")
    stream[-1]["timings"] = timings
    stream[-1]["choices"][0]["native_finish_reason"] = "end"
    chunks = through("openrouter", *stream)
    assert chunks[1]["provider"] == "Azure"
    assert (chunks[-1]["timings"], chunks[-1]["choices"][0]["native_finish_reason"]) == (timings, "end")
    (body,) = through("openrouter", *stream, stream=False)
    assert (body["provider"], body["timings"], body["choices"][0]["native_finish_reason"]) == ("Azure", timings, "end")


# ---------------------------------------------------------------- Gemini


def gemini_stream(*parts: Json, **end: Any) -> list[Json]:
    names = {"modelVersion": "gemini-3-pro", "responseId": "r1", "createTime": "2026-11-23T08:00:00Z"}
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}}], **names} for part in parts]
    return [*chunks, {"candidates": [{"finishReason": "STOP", "index": 0, **end}], **names}]


def candidates_stream(first: int) -> list[Json]:
    """Return a stream with two candidates, in which that of a number begins."""
    second, names = 1 - first, {"modelVersion": "m", "responseId": "r1"}
    counts = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}

    def candidate(index: int, *parts: Json, **end: Any) -> Json:
        return {"content": {"parts": [*parts], "role": "model"}, "index": index, **end}

    call = {"functionCall": {"name": "w", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    end = {"finishReason": "MAX_TOKENS", "avgLogprobs": -0.5, "finishMessage": "long"}
    chunks = [
        [candidate(first, {"text": "a"})],
        [candidate(second, {"text": "b"}), candidate(first, {"text": "c"})],
        [candidate(second, call, finishReason="STOP", avgLogprobs=-0.25)],
        [candidate(first, **end)],
    ]
    stream: list[Json] = [{"candidates": each, **names} for each in chunks]
    return [*stream[:-1], {**stream[-1], "usageMetadata": counts}]


def test_other_wires_get_one_candidate() -> None:
    live = writer("openai_chat")
    data = b"".join([live.write(event) for event in events_of("gemini", *candidates_stream(0))]) + live.close()
    assert (b'"content":"a"' in data, b'"content":"b"' in data) == (True, False)
    assert list(live.omitted) == ["other_choice"]


def test_the_part_of_a_file_is_not_in_its_json() -> None:
    stream = gemini_stream({"inlineData": {"mimeType": "image/png", "data": "aGk="}})
    (file,) = [event for event in events_of("gemini", *stream) if isinstance(event, File)]
    assert file.raw == {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert from_json(to_json(file)) == File("image/png", "aGk=")


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


# ---------------------------------------------------------------- input of no documented form


def test_the_sources_beside_another_choice_do_not_decide_which_choice_is_written() -> None:
    call = {"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    head = {"id": "r", "object": "chat.completion.chunk", "model": "m", "citations": ["https://a.example"]}
    deltas: list[tuple[Any, str | None]] = [({}, None), ({"tool_calls": [call]}, None), ({}, "tool_calls")]
    choices = [{"index": 1, "delta": delta, "finish_reason": reason} for delta, reason in deltas]
    again = Turn("perplexity", "t")
    for chunk in through("perplexity", *({**head, "choices": [choice]} for choice in choices)):
        again.feed(chunk)
    again.close(complete=True)
    assert again.error is None
    assert [each.arguments for each in again.executable] == [{"a": 1}]
