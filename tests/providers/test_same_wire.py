"""A stream that is read and written again in its own wire: what only this wire has arrives, and in no other wire."""

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
    ToolCallStart,
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
    assert completed["usage"]["input_tokens_details"].items() >= {"audio_tokens": 1}.items()
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


def test_chat_clients_get_every_count_of_tokens() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cost": 0.5}
    usage["prompt_tokens_details"] = {"cached_tokens": 1, "audio_tokens": 1}  # type: ignore[assignment]
    usage["completion_tokens_details"] = {"accepted_prediction_tokens": 1}  # type: ignore[assignment]
    assert through("openai_chat", *chat_stream({"content": "a"}, usage=usage))[-1]["usage"] == usage


def test_clients_of_kimi_find_the_counts_where_its_servers_have_them() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    end = through("kimi", *chat_stream({"content": "a"}, usage=usage))[-1]
    assert (end["usage"], end["choices"][0]["usage"]) == (usage, usage)


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


def test_clients_of_azure_get_the_results_of_its_filters() -> None:
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    prompt = [{"prompt_index": 0, "content_filter_results": {**safe, "jailbreak": {"filtered": False}}}]
    first = {"id": "", "model": "", "created": 0, "choices": [], "prompt_filter_results": prompt}
    stream = chat_stream({"content": "a"})
    stream[0]["choices"][0]["content_filter_results"] = safe
    stream[1]["choices"][0]["content_filter_results"] = {"violence": {"filtered": False, "severity": "low"}}
    chunks = through("azure_openai", first, *stream)
    assert chunks[0]["prompt_filter_results"] == prompt
    found = {**safe, "violence": {"filtered": False, "severity": "low"}}
    assert chunks[-1]["choices"][0]["content_filter_results"] == found
    (body,) = through("azure_openai", first, *stream, stream=False)
    assert (body["prompt_filter_results"], body["choices"][0]["content_filter_results"]) == (prompt, found)
    assert all(
        "prompt_filter_results" not in chunk for chunk in through("azure_openai", *chat_stream({"content": "a"}))
    )


def test_clients_of_perplexity_get_all_sources_in_the_first_and_the_last_chunk() -> None:
    """The AI SDK reads those of the first chunk, others those of the last."""
    results = [{"url": f"https://{name}.org", "title": name, "date": "2026-01-01"} for name in ("a", "b")]
    addresses = [result["url"] for result in results]
    early = chat_stream({"content": "a"}, citations=addresses, search_results=results)
    chunks = through("perplexity", *early)
    assert [(each["citations"], each["search_results"]) for each in (chunks[0], chunks[-1])] == [
        (addresses, results)
    ] * 2
    late = chat_stream({"content": "a"}, {"content": "b"})
    late[1] |= {"citations": addresses[:1], "search_results": results[:1]}
    late[2] |= {"citations": addresses, "search_results": results}
    last = through("perplexity", *late)[-1]
    assert (last["citations"], last["search_results"]) == (addresses, results)


def test_chat_clients_get_annotations_and_sources_in_their_own_form() -> None:
    annotation = {"type": "file_citation", "file_citation": {"file_id": "f"}}
    chunks = through("openai_chat", *chat_stream({"content": "a"}, {"annotations": [annotation]}))
    (found,) = [chunk["choices"][0]["delta"]["annotations"] for chunk in chunks if "annotations" in str(chunk)]
    assert found == [annotation]
    source = {"content": "c", "title": "t", "url": None, "filepath": "a.md", "chunk_id": "0"}
    chunks = through("azure_openai", *chat_stream({"content": "a"}, {"context": {"citations": [source]}}))
    assert [chunk["choices"][0]["delta"]["context"] for chunk in chunks if "context" in str(chunk)] == [
        {"citations": [source]}
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_chat_clients_get_every_choice_that_they_asked_for(first: int) -> None:
    """DSPy samples several completions by ``n``."""
    second = 1 - first
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "w", "arguments": '{"a":1}'}}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    stream = [
        chat({"role": "assistant", "content": "a"}, index=first),
        chat({"role": "assistant", "content": "b"}, index=second),
        chat({"content": "c"}, index=first),
        chat({"tool_calls": [call]}, index=second),
        chat({}, "tool_calls", index=second),
        chat({}, "length", index=first),
        {**chat(), "choices": [], "usage": usage},
    ]
    (body,) = through("openai_chat", *stream, stream=False)
    choices = {choice["index"]: choice for choice in body["choices"]}
    assert (list(choices), body["usage"]) == ([0, 1], usage)
    assert choices[first]["message"]["content"] == "ac"
    assert choices[second]["message"]["content"] == "b"
    (written_call,) = choices[second]["message"]["tool_calls"]
    assert written_call["function"] == {"name": "w", "arguments": '{"a":1}'}
    assert [choices[number]["finish_reason"] for number in (first, second)] == ["length", "tool_calls"]
    chunks = through("openai_chat", *stream)
    texts = [(c["choices"][0]["index"], c["choices"][0]["delta"].get("content")) for c in chunks if c["choices"]]
    assert [each for each in texts if each[1]] == [(first, "a"), (second, "b"), (first, "c")]
    assert [chunk["usage"] for chunk in chunks if chunk["usage"]] == [usage]
    again = Turn("openai_chat", "t")
    for chunk in chunks:
        again.feed(chunk)
    again.close(complete=True)
    assert [view.text for view in again.choices] == (["ac", "b"] if first == 0 else ["b", "ac"])


def test_chat_clients_get_images_as_they_came() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}, "index": 0}
    chunks = through("openrouter", *chat_stream({"content": "a"}, {"images": [image]}))
    assert [chunk["choices"][0]["delta"]["images"] for chunk in chunks if "images" in str(chunk)] == [[image]]


# ---------------------------------------------------------------- Gemini


def gemini_stream(*parts: Json, **end: Any) -> list[Json]:
    names = {"modelVersion": "gemini-3-pro", "responseId": "r1", "createTime": "2026-11-23T08:00:00Z"}
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}}], **names} for part in parts]
    return [*chunks, {"candidates": [{"finishReason": "STOP", "index": 0, **end}], **names}]


def parts_of(chunks: list[Json]) -> list[Json]:
    return [
        part
        for chunk in chunks
        for each in chunk["candidates"]
        for part in each["content"]["parts"]
        if part.get("text") != ""
    ]


def test_clients_of_gemini_get_the_facts_of_a_response() -> None:
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]
    end = {"safetyRatings": ratings, "avgLogprobs": -0.25, "finishMessage": "Model generated function call(s)."}
    end["logprobsResult"] = {"chosenCandidates": [{"token": "a", "logProbability": -0.5}]}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 9, "toolUsePromptTokenCount": 4}
    usage |= {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}], "trafficType": "ON_DEMAND"}
    stream = gemini_stream({"text": "a"}, **end)
    stream[-1]["usageMetadata"] = usage
    stream[-1]["modelStatus"] = {"modelStage": "STABLE"}
    chunks = through("gemini", *stream)
    assert chunks[-1]["candidates"][0].items() >= end.items()
    assert (chunks[-1]["usageMetadata"], chunks[-1]["modelStatus"]) == (usage, {"modelStage": "STABLE"})
    assert {chunk["createTime"] for chunk in chunks} == {"2026-11-23T08:00:00Z"}
    assert {chunk["usageMetadata"]["promptTokenCount"] for chunk in chunks} == {3}
    (body,) = through("gemini", *stream, stream=False)
    assert body["candidates"][0].items() >= end.items()
    assert (body["usageMetadata"], body["createTime"]) == (usage, "2026-11-23T08:00:00Z")


def test_clients_of_gemini_get_no_candidate_of_a_blocked_prompt() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []}
    blocked = {
        "promptFeedback": feedback,
        "modelVersion": "m",
        "responseId": "r",
        "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
    }
    for options in ({}, {"stream": False}):
        (chunk,) = through("gemini", blocked, **options)
        assert chunk == blocked


def test_clients_of_gemini_get_the_parts_of_its_tools_and_files_as_they_came() -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1", "id": "x"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "e", "id": "x"}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk=", "displayName": "a"}, "thoughtSignature": "c2ln"},
        {"aNewPart": {"value": 1}},
    ]
    assert parts_of(through("gemini", *gemini_stream(*parts))) == parts


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


@pytest.mark.parametrize("first", [0, 1])
def test_clients_of_gemini_get_every_candidate_that_they_asked_for(first: int) -> None:
    stream, second = candidates_stream(first), 1 - first
    (body,) = through("gemini", *stream, stream=False)
    found = {each["index"]: each for each in body["candidates"]}
    assert (list(found), body["usageMetadata"]) == ([0, 1], stream[-1]["usageMetadata"])
    assert found[first]["content"]["parts"] == [{"text": "ac"}]
    text, call = found[second]["content"]["parts"]
    assert (text, call["functionCall"]["args"], call["thoughtSignature"]) == ({"text": "b"}, {"a": 1}, "c2ln")
    ends = [{name: value for name, value in found[number].items() if name != "content"} for number in (first, second)]
    assert ends == [
        {"index": first, "finishReason": "MAX_TOKENS", "avgLogprobs": -0.5, "finishMessage": "long"},
        {"index": second, "finishReason": "STOP", "avgLogprobs": -0.25},
    ]


@pytest.mark.parametrize("framing", ["sse", "json_array"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_of_candidates_is_read_again(first: int, framing: Any) -> None:
    stream, live = candidates_stream(first), writer("gemini", framing=framing)
    parts = [live.write(event) for event in events_of("gemini", *stream)] + [live.close()]
    again = Turn("gemini", "t")
    for part in parts:
        again.feed(part)
    again.close()
    before = Turn("gemini", "t")
    for chunk in stream:
        before.feed(chunk)
    before.close()
    assert [(view.index, view.text, view.finish) for view in again.choices] == [
        (view.index, view.text, view.finish) for view in before.choices
    ]
    assert [call.arguments for view in again.choices for call in view.calls] == [{"a": 1}]
    assert (again.error, live.omitted) == (None, {})
    texts = [b'"text":"a"' in part or b'"text":"b"' in part or b'"text":"c"' in part for part in parts]
    assert texts.count(True) == 3  # each as it came


def test_a_candidate_without_content_has_its_finish() -> None:
    stream = gemini_stream({"text": "a"})
    stream[1]["candidates"].append({"index": 1, "finishReason": "SAFETY"})
    (body,) = through("gemini", *stream, stream=False)
    assert [each["finishReason"] for each in body["candidates"]] == ["STOP", "SAFETY"]
    assert [each["content"]["parts"] for each in body["candidates"]] == [[{"text": "a"}], [{"text": ""}]]


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


# ---------------------------------------------------------------- Bedrock, Cohere, Ollama


def test_clients_of_bedrock_get_the_facts_of_a_response() -> None:
    stop = {"stopReason": "end_turn", "additionalModelResponseFields": {"stop_sequence": "###"}}
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "cacheDetails": [{"ttl": "1h", "inputTokens": 1}]}
    metadata = {"usage": usage, "metrics": {"latencyMs": 350}, "trace": {"guardrail": {"actionReason": "none"}}}
    metadata |= {"performanceConfig": {"latency": "optimized"}, "serviceTier": {"type": "flex"}}
    text = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "a"}}}
    chunks = [{"messageStart": {"role": "assistant"}}, text, {"messageStop": stop}, {"metadata": metadata}]
    written_stop, written_metadata = through("bedrock_converse", *chunks)[-2:]
    assert {name: written_stop[name] for name in stop} == stop
    assert {name: written_metadata[name] for name in metadata} == metadata
    (body,) = through("bedrock_converse", *chunks, stream=False)
    assert body.items() >= {**stop, **metadata}.items()


def test_clients_of_bedrock_get_the_status_of_a_server_tool() -> None:
    use = {"toolUse": {"toolUseId": "t1", "name": "nova_code_interpreter", "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "t1", "type": "nova_code_interpreter_result", "status": "error"}}
    delta = {"toolResult": [{"json": {"stdErr": "e"}}]}
    blocks = [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": use}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"contentBlockStart": {"contentBlockIndex": 1, "start": result}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": delta}},
        {"contentBlockStop": {"contentBlockIndex": 1}},
    ]
    chunks = through("bedrock_converse", {"messageStart": {}}, *blocks, {"messageStop": {"stopReason": "end_turn"}})
    assert [chunk["start"] for chunk in chunks if "start" in chunk] == [use, result]


def test_clients_of_cohere_get_every_count_of_tokens_and_the_log_probabilities() -> None:
    usage = {"billed_units": {"input_tokens": 3, "search_units": 1}, "tokens": {"input_tokens": 4, "output_tokens": 2}}
    entry = {"token_ids": [1], "text": "a", "logprobs": [-0.5]}
    content = {"message": {"content": {"text": "a"}}}
    chunks = [
        {"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
        {"type": "content-delta", "index": 0, "delta": content, "logprobs": entry},
        {"type": "content-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}},
    ]
    sent = through("cohere", *chunks)
    assert [chunk["logprobs"] for chunk in sent if "logprobs" in chunk] == [entry]
    assert sent[-1]["delta"]["usage"] == usage
    (body,) = through("cohere", *chunks, stream=False)
    assert (body["usage"], body["logprobs"]) == (usage, [entry])


def test_clients_of_ollama_get_times_durations_and_log_probabilities() -> None:
    head = {"model": "m", "created_at": "2026-11-23T08:00:00Z"}
    entry = {"token": "a", "logprob": -0.5}
    end = {"total_duration": 9, "load_duration": 1, "prompt_eval_count": 3, "prompt_eval_duration": 2, "eval_count": 1}
    end |= {"eval_duration": 4, "done": True, "done_reason": "stop", "remote_host": "https://ollama.com"}
    chunks = [
        {**head, "message": {"role": "assistant", "content": "a"}, "done": False, "logprobs": [entry]},
        {**head, "message": {"role": "assistant", "content": ""}, **end},
    ]
    sent = through("ollama", *chunks)
    assert {chunk["created_at"] for chunk in sent} == {head["created_at"]}
    assert [chunk["logprobs"] for chunk in sent if "logprobs" in chunk] == [[entry]]
    assert sent[-1].items() >= end.items()
    (body,) = through("ollama", *chunks, stream=False)
    assert body["logprobs"] == [entry]
    assert body.items() >= {**head, **end}.items()


# ---------------------------------------------------------------- errors

OWN_ERRORS: dict[str, Json] = {
    "openai_chat": {"message": "no", "type": "invalid_request_error", "param": "messages", "code": "bad_value"},
    "openai_responses": {"message": "no", "code": "server_is_busy"},
    "anthropic": {"message": "no", "type": "overloaded_error", "details": {"error_visibility": "user_facing"}},
    "gemini": {"message": "no", "code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"reason": "QUOTA"}]},
}


@pytest.mark.parametrize("provider", OWN_ERRORS)
def test_clients_get_the_other_fields_of_an_error(provider: str) -> None:
    """gemini-cli reads the quota in ``details``, OpenAI's SDK ``param``."""
    own = OWN_ERRORS[provider]
    start: Json = {"type": "message_start", "message": {"id": "m", "model": "m", "content": []}}
    starts: dict[str, Json] = {
        "openai_chat": chat({"content": "a"}),
        "openai_responses": {"type": "response.created", "response": RESPONSE},
        "gemini": gemini_stream({"text": "a"})[0],
    }
    error = {"error": own} if provider != "anthropic" else {"type": "error", "error": own}
    if provider == "openai_responses":
        error = {"type": "response.failed", "response": {**RESPONSE, "status": "failed", "error": own}}
    last = through(provider, starts.get(provider, start), error)[-1]
    assert (last["response"] if provider == "openai_responses" else last)["error"] == own


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


@pytest.mark.parametrize("item_id", [{"a": 1}, ["ig_1"], 7, None])
def test_an_image_whose_id_is_no_text_is_written_as_it_is(item_id: Any) -> None:
    item = {"type": "image_generation_call", "id": item_id, "status": "completed", "result": "AA=="}
    chunks = through("openai_responses", {"type": "response.output_item.done", "output_index": 0, "item": item})
    assert [chunk["item"] for chunk in chunks if chunk["type"] == "response.output_item.done"] == [item]


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
