"""The rare fields of chat streams. The conformance cases cover text and calls."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_streams import Chunk, chat, chat_call, framed, run

from streamkit import Turn, providers
from streamkit.calls import Finish
from streamkit.events import Citation, Event, File, LogProbabilities, ServerTool, Text, Unknown
from streamkit.history import FileBlock, OpaqueBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.providers.openai_chat.schema import (
    CallDelta,
    ChunkChoice,
    Delta,
    PlainCallDelta,
    PlainChoice,
    PlainChunk,
    PlainDelta,
)
from streamkit.providers.openai_chat.schema import Chunk as Chunk_
from streamkit.providers.openai_chat.traits import REASONING_FIELDS, REASONING_TEXT_FIELDS


def _read(*chunks: Chunk, provider: str = "openai_chat") -> tuple[Turn, list[Event]]:
    turn, seen = run(provider, chunks, complete=True)
    assert turn.error is None
    return turn, seen


def _only(seen: list[Event], kind: type) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]


# ---------------------------------------------------------------- log probabilities


def _logprobs(token: str, logprob: float) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []}], "refusal": None}


def _with_logprobs(chunk: Chunk, logprobs: Any) -> Chunk:
    chunk["choices"][0]["logprobs"] = logprobs
    return chunk


def test_log_probabilities_are_events_and_kept_with_their_text() -> None:
    turn, seen = _read(
        _with_logprobs(chat({"role": "assistant", "content": ""}), {"content": [], "refusal": None}),
        _with_logprobs(chat({"content": "Hel"}), _logprobs("Hel", -0.5)),
        _with_logprobs(chat({"content": "lo"}), _logprobs("lo", -0.25)),
        _with_logprobs(chat({}, "stop"), None),
    )
    assert turn.text == "Hello"
    assert [event.raw for event in _only(seen, LogProbabilities)] == [_logprobs("Hel", -0.5), _logprobs("lo", -0.25)]
    [block] = turn.content.blocks
    assert [entry["token"] for entry in block.metadata["logprobs"]] == ["Hel", "lo"]
    assert turn.warnings == []


def test_log_probabilities_of_a_refusal_of_old_shape_and_without_text() -> None:
    refused = {"content": None, "refusal": [{"token": "No"}]}
    turn, _ = _read(_with_logprobs(chat({"refusal": "No"}), refused), chat({}, "stop"))
    assert turn.content.blocks[0].metadata["logprobs"] == [{"token": "No"}]

    together = {"tokens": ["Hi"], "token_logprobs": [-1.0]}
    turn, _ = _read(_with_logprobs(chat({"content": "Hi"}), together), chat({}, "stop"))
    assert turn.content.blocks[0].metadata["logprobs"] == [together]

    turn, seen = _read(_with_logprobs(chat({}), _logprobs("<think>", -1)), chat({"content": "Hi"}, "stop"))
    assert len(_only(seen, LogProbabilities)) == 1
    assert "logprobs" not in turn.content.blocks[0].metadata
    assert turn.warnings == []


def test_log_probabilities_of_another_choice_and_of_a_complete_body() -> None:
    body = chat(finish="stop")
    choice = body["choices"][0]
    del choice["delta"]
    choice |= {"message": {"role": "assistant", "content": "Hi"}, "logprobs": _logprobs("Hi", -1)}
    turn, _ = _read(body)
    assert turn.content.blocks[0].metadata["logprobs"] == _logprobs("Hi", -1)["content"]

    turn, seen = _read(
        chat({"content": "a"}, "stop"), _with_logprobs(chat({"content": "b"}, "stop", index=1), _logprobs("b", -1))
    )
    assert [event.choice for event in _only(seen, LogProbabilities)] == [1]
    assert turn.choices[1].content.blocks[0].metadata["logprobs"] == _logprobs("b", -1)["content"]


# ---------------------------------------------------------------- audio


def _audio(**fields: Any) -> Chunk:
    return chat({"audio": fields})


def test_an_audio_response_is_its_transcript_and_one_file() -> None:
    audio_data = [b64encode(part).decode() for part in (b"ab", b"cdef", b"g")]
    turn, seen = _read(
        _audio(id="audio_1", transcript="It "),
        _audio(data=audio_data[0]),
        _audio(transcript="is 21."),
        _audio(data=audio_data[1]),
        _audio(data=audio_data[2]),
        _audio(expires_at=1729018505),
        chat({}, "stop"),
    )
    assert turn.text == "It is 21."
    assert [event.text for event in _only(seen, Text)] == ["It ", "is 21."]
    assert [event.data for event in _only(seen, File)] == audio_data
    text, file = turn.content.blocks
    assert isinstance(text, TextBlock)
    assert text.metadata["audio"] == {"id": "audio_1", "expires_at": 1729018505}
    assert isinstance(file, FileBlock)
    assert (file.media_type, file.data) == ("audio/*", b64encode(b"abcdefg").decode())
    assert turn.warnings == []


def test_an_audio_response_is_replayed_as_its_id_and_to_others_as_text() -> None:
    turn, _ = _read(_audio(id="audio_1", transcript="Hi"), _audio(data="QUJD"), chat({}, "stop"))
    same_provider = providers.get("openai_chat").render([turn.content])
    assert same_provider.messages == [{"role": "assistant", "content": None, "audio": {"id": "audio_1"}}]
    assert same_provider.changes == []
    assert providers.get("groq").render([turn.content]).messages == [{"role": "assistant", "content": "Hi"}]


def test_audio_data_that_is_not_base64_is_joined_and_invalid_audio_is_unknown() -> None:
    turn, _ = _read(_audio(data="abc"), _audio(data="?"), _audio(data="="), _audio(data="é"), chat({}, "stop"))
    assert isinstance(turn.content.blocks[0], FileBlock)
    assert turn.content.blocks[0].data == "abc?=é"
    turn, seen = _read(chat({"audio": "beep"}), _audio(transcript=5, data=None), chat({}, "stop"))
    assert [event.raw for event in _only(seen, Unknown)] == [{"audio": "beep"}]
    assert turn.content.blocks == []


def test_an_audio_response_in_a_complete_body() -> None:
    body = chat(finish="stop")
    del body["choices"][0]["delta"]
    audio = {"id": "audio_1", "data": "QUJD", "expires_at": 1, "transcript": "Hi"}
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "audio": audio}
    turn, _ = _read(body)
    assert turn.text == "Hi"
    assert [block.type for block in turn.content.blocks] == ["text", "file"]


# ---------------------------------------------------------------- images


def test_images_are_files() -> None:
    generated = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    linked = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    odd = {"type": "hologram"}
    turn, seen = _read(
        chat({"content": "", "images": [generated, linked, odd]}), chat({}, "stop"), provider="openrouter"
    )
    assert [(event.media_type, event.data, event.url) for event in _only(seen, File)] == [
        ("image/png", "QQ==", None),
        ("image/*", None, "https://x/y.png"),
    ]
    first, second, third = turn.content.blocks
    assert first.metadata["raw"] == generated
    assert second.metadata["raw"] == linked
    assert isinstance(third, OpaqueBlock)
    assert third.raw == odd


# ---------------------------------------------------------------- sources


def _search(*sources: str, text: str = "", finish: str | None = None) -> Chunk:
    results = [{"title": name, "url": f"https://{name}", "snippet": ""} for name in sources]
    return chat(
        {"role": "assistant", "content": text},
        finish,
        citations=[result["url"] for result in results],
        search_results=results,
    )


def test_sources_repeated_in_every_chunk_are_emitted_once() -> None:
    turn, seen = _read(
        _search("a"), _search("a", text="So"), _search("a", "b", text=" it is."), _search("a", "b", finish="stop")
    )
    sources = [{"title": name, "url": f"https://{name}", "snippet": ""} for name in "ab"]
    assert [event.data for event in _only(seen, Citation)] == sources
    [block] = turn.content.blocks
    assert isinstance(block, TextBlock)
    assert block.text == "So it is."
    assert block.metadata["citations"] == sources


def test_addresses_alone_are_sources() -> None:
    turn, _ = _read(chat({"content": "Yes."}), chat({}, "stop", citations=["https://a", "https://b", "https://a"]))
    assert turn.content.blocks[0].metadata["citations"] == ["https://a", "https://b"]


def test_sources_of_unexpected_types_are_kept() -> None:
    turn, _ = _read(chat({"content": "Yes."}, citations={"a": 1}, search_results=[None, 5, [], {"url": 3}]))
    # An empty one is no source.
    assert turn.content.blocks[0].metadata["citations"] == [5, {"url": 3}, {"a": 1}]


def test_annotations_and_azure_citations_are_sources() -> None:
    citation = {"type": "url_citation", "url_citation": {"url": "https://x", "start_index": 0}}
    turn, seen = _read(
        chat({"role": "assistant", "context": {"citations": [{"title": "doc1"}], "intent": "[]"}}),
        chat({"content": "Yes."}),
        chat({"annotations": [citation]}, "stop"),
        provider="azure_openai",
    )
    assert [event.data for event in _only(seen, Citation)] == [{"title": "doc1"}, citation]
    assert turn.content.blocks[0].metadata["citations"] == [{"title": "doc1"}, citation]


# ---------------------------------------------------------------- server tools


def _executed(**tool: Any) -> Chunk:
    return chat({"executed_tools": [{"index": 0, "type": "search", **tool}]})


def test_a_tool_that_groq_runs_is_a_server_call() -> None:
    done = {"arguments": '{"query":"x"}', "output": "found", "search_results": {"results": []}}
    turn, seen = _read(
        chat({"reasoning": "I search."}),
        _executed(arguments='{"query":"x"}'),
        _executed(**done),
        _executed(**done),
        chat({"content": "Yes."}, "stop"),
        provider="groq",
    )
    result = {"output": "found", "search_results": {"results": []}}
    assert [(event.name, event.phase, event.data) for event in _only(seen, ServerTool)] == [
        ("search", "arguments", {"query": "x"}),
        ("search", "result", result),
    ]
    [call] = turn.server_calls
    assert (call.id, call.name, call.arguments, call.result) == ("0", "search", {"query": "x"}, result)
    assert turn.calls == []
    block = turn.content.blocks[1]
    assert isinstance(block, ServerToolBlock)
    assert [raw.get("output") for raw in block.raw] == [None, "found"]
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


def test_server_tools_without_arguments_with_free_text_and_of_invalid_form() -> None:
    turn, seen = _read(
        _executed(),
        _executed(),
        chat({"executed_tools": [{"index": 1, "name": "python", "arguments": "print(1)"}, "odd"]}),
        chat({"content": "1"}, "stop"),
        provider="groq",
    )
    assert [(event.name, event.phase, event.data) for event in _only(seen, ServerTool)] == [
        ("search", "started", None),
        ("python", "arguments", "print(1)"),
    ]
    assert [event.raw for event in _only(seen, Unknown)] == [{"executed_tools": ["odd"]}]
    assert len(turn.server_calls) == 2


def test_perplexity_steps_are_unknown_events() -> None:
    steps = [{"type": "web_search", "thought": "I search.", "web_search": {"search_keywords": ["x"]}}]
    _, seen = _read(chat({"content": "", "reasoning_steps": steps}), chat({"content": "Yes."}, "stop"))
    assert [event.raw for event in _only(seen, Unknown)] == [{"reasoning_steps": steps}]


# ---------------------------------------------------------------- content parts


def test_thinking_parts_with_references_and_a_signature() -> None:
    reference = {"type": "reference", "reference_ids": [1]}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}, reference], "signature": "SI"}
    turn, seen = _read(
        chat({"content": [thinking]}),
        chat({"content": [{"type": "thinking", "thinking": "Yes.", "signature": "G"}, {"type": "thinking"}]}),
        chat({"content": [{"type": "text", "text": "21"}, {"type": "reference", "reference_ids": [2]}]}),
        chat({"content": "."}, "stop"),
        provider="mistral",
    )
    reasoning, text = turn.content.blocks
    assert isinstance(reasoning, ReasoningBlock)
    assert (reasoning.text, reasoning.signature) == ("Hm.Yes.", "SIG")
    assert [event.data["reference_ids"] for event in _only(seen, Citation)] == [[1], [2]]
    assert text.metadata["citations"] == [reference, {"type": "reference", "reference_ids": [2]}]
    assert turn.text == "21."


# ---------------------------------------------------------------- fields and finish reasons

DELTA_VALUES: dict[str, Any] = {
    **dict.fromkeys(REASONING_TEXT_FIELDS, "x"),
    "reasoning_details": [{"type": "reasoning.text", "text": "x"}],
    "thinking_blocks": [{"type": "thinking", "thinking": "x"}],
    "reasoning_opaque": "x",
    "refusal": "x",
    "function_call": {"name": "f", "arguments": "{}"},
    "annotations": [{"type": "x"}],
    "images": [{"type": "x"}],
    "audio": "x",
    "executed_tools": ["x"],
    "reasoning_steps": ["x"],
    "context": {"citations": ["x"]},
}


def test_every_field_of_a_delta_has_a_value_for_the_next_test() -> None:
    for name in REASONING_FIELDS:
        assert name in Delta.__struct_fields__, f"{name!r} of REASONING_FIELDS is no field of Delta in schema.py"
    assert {"role", "content", "tool_calls", *DELTA_VALUES} == set(Delta.__struct_fields__)
    assert set(REASONING_TEXT_FIELDS) < set(DELTA_VALUES)


@pytest.mark.parametrize("field", DELTA_VALUES)
def test_the_fast_path_ignores_no_field_of_a_delta(field: str) -> None:
    _, plain = _read(chat({"content": "Hi"}), chat({}, "stop"))
    _, seen = _read(chat({"content": "Hi", field: DELTA_VALUES[field]}), chat({}, "stop"))
    assert len(seen) > len(plain), (
        f"a plain chunk's {field!r} is not read: make it None in PlainDelta (rare), "
        "or add it to the condition of the fast path in parser.py (frequent)"
    )


@pytest.mark.parametrize("field", REASONING_TEXT_FIELDS)
def test_reasoning_is_read_from_every_field_once(field: str) -> None:
    turn, _ = _read(chat({field: "Hm."}), chat({"content": "Hi"}, "stop"))
    assert turn.reasoning == "Hm."
    turn, _ = _read(chat(dict.fromkeys(REASONING_TEXT_FIELDS, "Hm.")), chat({"content": "Hi"}, "stop"))
    assert turn.reasoning == "Hm."


# ---------------------------------------------------------------- unknown chunks, errors, choices


def test_a_choice_without_known_fields_is_unknown() -> None:
    late = {"id": "", "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 4}}]}
    turn, seen = _read(chat({"content": "Hi"}, "stop"), late)
    assert [event.raw for event in _only(seen, Unknown)] == [late]
    assert turn.text == "Hi"


def test_chunks_of_another_wire_are_unknown() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    usage = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}}
    turn, seen = run("openai_chat", [delta, usage, {"type": "ping"}], complete=True)
    assert [event.raw for event in _only(seen, Unknown)] == [delta, usage, {"type": "ping"}]
    assert (turn.text, turn.usage) == ("", None)


def test_an_error_object_is_an_error() -> None:
    turn, _ = run("vllm", [chat({"content": "Hi"}), {"object": "error", "message": "out of memory", "code": 500}])
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status) == ("provider_error", "out of memory", 500)
    assert turn.text == "Hi"


def test_a_warning_names_the_filter_that_stopped_a_response() -> None:
    chunk = chat({}, "content_filter")
    results = {
        "hate": {"filtered": True, "severity": "high"},
        "jailbreak": {"filtered": True, "detected": True},
        "violence": {"filtered": False, "severity": "safe"},
        "custom": None,
    }
    chunk["choices"][0]["content_filter_results"] = results
    turn, _ = run("azure_openai", [chat({"content": "Hi"}), chunk], complete=True)
    [warning] = turn.warnings
    assert warning.code == "content_filtered"
    assert warning.message.endswith("hate (high), jailbreak")
    assert turn.executable == []


def test_calls_of_several_choices_are_separate() -> None:
    def second(chunk: Chunk) -> Chunk:
        chunk["choices"][0]["index"] = 1
        return chunk

    turn, _ = _read(
        chat_call('{"a":', id="call_1", name="f"),
        second(chat_call('{"b":', id="call_1", name="f")),
        chat_call("1}"),
        second(chat_call("2}")),
        chat({}, "tool_calls"),
        chat({}, "tool_calls", index=1),
    )
    first, other = turn.choices
    assert [call.arguments for call in first.calls] == [{"a": 1}]
    assert [call.arguments for call in other.calls] == [{"b": 2}]
    assert first.calls[0].id != other.calls[0].id


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "annotations",
    "audio",
    "content",
    "context",
    "executed_tools",
    "images",
    "reasoning",
    "reasoning_details",
    "reasoning_steps",
    "refusal",
    "thinking_blocks",
]
PARTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("type", "text", "thinking", "signature", "image_url", "url", "id", "data", "transcript", "index"), JSON
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai_chat", "mistral"])
@given(
    st.lists(st.fixed_dictionaries({}, optional={name: JSON | PARTS | st.lists(PARTS) for name in FIELDS}), max_size=3),
    JSON,
    JSON,
)
def test_rare_fields_of_any_type_never_raise(provider: str, deltas: list[Any], logprobs: Any, sources: Any) -> None:
    chunks = [_with_logprobs(chat(delta, citations=sources, search_results=sources), logprobs) for delta in deltas]
    turn, _ = run(provider, [*chunks, chat({}, "content_filter", content_filter_results=sources)], complete=True)
    assert turn.content is not None
    assert turn.finish is not None
    provider_object = providers.get(provider)
    provider_object.render([turn.content])
    list(provider_object.emit(turn.content, response_id="r", model="m"))


# ---------------------------------------------------------------- fields without an event


def test_facts_about_the_response_are_metadata() -> None:
    first, last = chat({"content": "Hi"}), chat({}, "stop")
    first |= {"service_tier": "auto", "system_fingerprint": "fp_1", "provider": "Acme"}
    last |= {"service_tier": "default", "timings": {"prompt_ms": 1}}
    last["choices"][0] |= {"native_finish_reason": "end_turn", "stop_reason": 7}
    turn, _ = _read(first, chat({"content": "!"}), last)
    assert turn.metadata == {
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "provider": "Acme",
        "native_finish_reason": "end_turn",
        "stop_reason": 7,
        "timings": {"prompt_ms": 1},
    }
    assert turn.warnings == []


def test_an_unknown_field_is_found_amid_plain_deltas_once_for_each_name() -> None:
    turn, _ = _read(
        chat({"content": "a"}),
        *[chat({"content": "b", "mood": "sunny"}) for _ in range(3)],
        chat({"content": "c", "tool_calls": [{"index": 0, "id": "1", "x": 1, "function": {"name": "f", "y": 2}}]}),
        chat({"content": "d", "graph_data": {"sources": None}, "note": "", "list": []}),
        chat({"content": "e", "graph_data": {"sources": ["s"]}}),
        chat({}, "stop"),
    )
    assert turn.text == "abbbcde"
    assert [warning.message.split("'")[1] for warning in turn.warnings] == [
        "delta.mood",
        "tool_call.x",
        "tool_call.function.y",
        "delta.graph_data",
    ]


def test_the_further_fields_of_litellm_warn_only_for_what_no_other_field_has() -> None:
    thinking = [{"type": "thinking", "thinking": "Hm.", "signature": "S"}]
    fields = {"thinking_blocks": thinking}
    call = {"index": 0, "id": "call_1__thought__UQ==", "function": {"name": "f", "arguments": "{}"}}
    call["provider_specific_fields"] = {"thought_signature": "UQ=="}
    last = chat({"provider_specific_fields": {"reasoningContent": {"text": "Hm."}}}, "tool_calls")
    last["choices"][0]["provider_specific_fields"] = {"native_finish_reason": "STOP"}
    turn, _ = _read(
        chat({"reasoning_content": "Hm.", "thinking_blocks": thinking, "provider_specific_fields": fields}),
        chat({"tool_calls": [call], "provider_specific_fields": {"thought_signatures": ["UQ=="]}}),
        last,
    )
    assert (turn.warnings, turn.metadata) == ([], {"native_finish_reason": "STOP"})
    turn, _ = _read(
        chat({"content": "Hi", "provider_specific_fields": {"citation": {"url": "u"}, "thought_signatures": ["UQ=="]}}),
        chat({"provider_specific_fields": "x"}, "stop"),
    )
    assert [warning.message.split("'")[1] for warning in turn.warnings] == [
        "delta.provider_specific_fields.citation",
        "delta.provider_specific_fields.thought_signatures",
        "delta.provider_specific_fields",
    ]


@pytest.mark.parametrize("name", ["api_error", "overloaded_error", "rate_limit_error", "request_too_large"])
def test_the_type_of_an_error_as_finish_reason_is_an_error(name: str) -> None:
    turn, _ = _read(chat({"content": "Hi"}), {"choices": [{"finish_reason": name, "delta": {"content": ""}}]})
    assert turn.finish == Finish("error", name)


def test_an_unknown_chunk_is_not_searched_for_fields() -> None:
    turn, seen = run("openai_chat", [{"type": "ping", "x": 1}, chat({"content": "Hi"}, "stop")], complete=True)
    assert (turn.text, turn.warnings) == ("Hi", [])
    assert len(_only(seen, Unknown)) == 1


def test_every_field_that_is_read_is_declared_for_plain_chunks() -> None:
    for read, plain in (
        (Chunk_, PlainChunk),
        (ChunkChoice, PlainChoice),
        (Delta, PlainDelta),
        (CallDelta, PlainCallDelta),
    ):
        assert set(read.__struct_fields__) <= set(plain.__struct_fields__)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"error": {"code": "content_filter_error", "message": "not filtered"}}, "not checked (not filtered)"),
        ({"custom_blocklists": [{"id": "b", "filtered": False}, {"id": "c", "filtered": True}]}, "custom_blocklists"),
        ({"jailbreak": {"detected": True, "filtered": False}, "hate": {"filtered": False}}, "jailbreak (detected)"),
    ],
)
def test_filters_of_the_prompt_are_named(results: Any, expected: str) -> None:
    for name in ("prompt_filter_results", "prompt_annotations"):
        first = {"choices": [], "id": "", name: [{"prompt_index": 0, "content_filter_results": results}]}
        turn, _ = run("azure_openai", [first, chat({"content": "Hi"}, "stop")], complete=True)
        assert [warning.message for warning in turn.warnings] == [
            f"the provider's content filter flagged the prompt: {expected}"
        ]


@pytest.mark.parametrize("indexes", [("0", "1"), (0.0, 1.0), (None, None), ({}, [])])
def test_choices_are_neither_lost_nor_merged(indexes: Any) -> None:
    both = chat({"content": "a"})
    both["choices"] = [{"index": index, "delta": {"content": text}} for index, text in zip(indexes, "ab", strict=True)]
    turn, _ = _read(both, chat({}, "stop"))
    assert [choice.text for choice in turn.choices] == ["a", "b"]


@pytest.mark.parametrize("deltas", [[{}], [{"content": ""}], [{"content": None, "refusal": "No"}]])
def test_citations_without_text_are_kept(deltas: list[dict[str, Any]]) -> None:
    first = chat(deltas[0])
    first["citations"] = ["https://a.example", "https://b.example"]
    turn, seen = _read(first, chat({}, "stop"), provider="perplexity")
    assert len(_only(seen, Citation)) == 2
    (block,) = [block for block in turn.content.blocks if "citations" in block.metadata]
    assert isinstance(block, TextBlock)
    assert (block.text, block.metadata["citations"]) == ("", ["https://a.example", "https://b.example"])
    assert type(turn.content).model_validate_json(turn.content.model_dump_json()) == turn.content


def test_citations_of_a_text_are_in_its_block_alone() -> None:
    first = chat({"content": ""})
    first["citations"] = ["https://a.example"]
    turn, _ = _read(first, chat({"content": "Hi"}), chat({}, "stop"), provider="perplexity")
    assert len(turn.content.blocks) == 1
    assert turn.content.blocks[0].metadata["citations"] == ["https://a.example"]


@pytest.mark.parametrize(("status", "code"), [(503, "overloaded"), (429, "rate_limited"), ("?", None), (7, None)])
@pytest.mark.parametrize("before", [0, 1])
def test_the_status_beside_an_error_in_the_stream_is_read(status: Any, code: str | None, before: int) -> None:
    error = {"error": {"message": "Try later", "type": "server_error", "code": "x", "param": None}}
    turn, _ = run("cerebras", [*[chat({"content": "Hi"})] * before, {**error, "status_code": status}], complete=True)
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.code) == ("provider_error", "Try later", code)
    assert turn.error.status == (status if code is not None else None)
    assert turn.warnings == []


@pytest.mark.parametrize("flag", [True, False])
def test_what_minimax_found_in_the_text_is_a_fact_about_the_response(flag: bool) -> None:
    # https://platform.minimax.io/docs/api-reference/text-chat-openai: false and 0 in every other chunk
    found = {"output_sensitive": True, "output_sensitive_type": 4, "output_sensitive_int": 4}
    usual = {"input_sensitive": False, "input_sensitive_type": 0, **dict.fromkeys(found, 0)}
    chunks = [{**chat({"content": "Hi"}), **usual}, {**chat(finish="stop"), **usual, **(found if flag else {})}]
    for pieces in (chunks, [framed("openai_chat", chunks)]):
        turn, _ = run("openai_chat", pieces)
        assert (turn.text, turn.warnings, turn.metadata) == ("Hi", [], found if flag else {})


@pytest.mark.parametrize("audio", ["", "00ff"])
def test_audio_of_minimax_is_reported(audio: str) -> None:
    turn, _ = run("openai_chat", [chat({"content": "Hi", "audio_content": audio}), chat(finish="stop")])
    assert [warning.code for warning in turn.warnings] == (["unknown_field"] if audio else [])


@pytest.mark.parametrize("is_stream", [True, False])
def test_moderation_and_the_metadata_of_a_stored_response_are_facts_about_it(is_stream: bool) -> None:
    verdict = {"type": "moderation_results", "model": "omni-moderation-latest", "results": []}
    facts = {"moderation": {"input": verdict, "output": verdict}, "metadata": {"team": "north"}}
    text = {"role": "assistant", "content": "Hi."}
    choice = {"index": 0, "finish_reason": "stop", ("delta" if is_stream else "message"): text}
    kind = "chat.completion.chunk" if is_stream else "chat.completion"
    turn = Turn("openai_chat")
    turn.feed({"id": "chatcmpl-1", "object": kind, "model": "m", "choices": [choice], **facts})
    turn.close(complete=True)
    assert (turn.text, turn.warnings) == ("Hi.", [])
    assert {name: turn.metadata.get(name) for name in facts} == facts
