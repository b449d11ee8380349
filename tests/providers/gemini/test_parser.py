"""The calls of Gemini's parser on its sink."""

from __future__ import annotations

import base64
import enum
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_sink import RecordingSink, call_start

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.providers.gemini.parser import GeminiParser
from streamkit.providers.gemini.schema import to_camel_case

GEMINI = providers.get("gemini")


def chunk(*parts: Any, finish: Any = None, **rest: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **rest}


def read(*chunks: dict[str, Any], as_dicts: bool = False) -> RecordingSink:
    sink = RecordingSink()
    parser = GeminiParser(sink)
    for data in chunks:
        if as_dicts:
            parser.chunk(data)
        else:
            parser.frame(b"", json.dumps(data).encode())
    return sink


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def argument_text(sink: RecordingSink) -> str:
    return "".join((delta.args or "") + (delta.arguments_delta or "") for _, delta in sink.select("tool"))


# ---------------------------------------------------------------- text, reasoning, signatures


def test_thoughts_are_reasoning_and_other_text_is_text() -> None:
    sink = read(
        chunk({"text": "Hm.", "thought": True}), chunk({"text": "Hel"}), chunk({"text": "lo", "thought": False})
    )
    assert sink.recorded == [("reasoning", "Hm.", "text"), ("text", "Hel"), ("text", "lo")]


def test_a_signature_stays_on_its_own_part() -> None:
    sink = read(
        chunk({"text": "a"}),
        chunk({"text": "b", "thoughtSignature": "S1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "S2"}),
        chunk({"thoughtSignature": "S3"}),
        chunk({"text": "t", "thought": True, "thoughtSignature": "S4"}),
    )
    assert sink.recorded == [
        ("text", "a"),
        ("text", "b", 1),
        ("add_metadata", {"thoughtSignature": "S1"}, 1),
        ("end_block", 1),
        ("text", "c"),
        ("text", "", 2),
        ("add_metadata", {"thoughtSignature": "S2"}, 2),
        ("end_block", 2),
        ("text", "", 3),
        ("add_metadata", {"thoughtSignature": "S3"}, 3),
        ("end_block", 3),
        ("reasoning", "t", "text", 4),
        ("add_metadata", {"thoughtSignature": "S4"}, 4),
        ("end_block", 4),
    ]


def test_empty_parts_are_not_reported() -> None:
    sink = read(chunk({"text": ""}, {}, {"thought": True}), {"candidates": [{"content": {"role": "model"}}]})
    assert sink.recorded == []


def test_candidates_are_choices() -> None:
    first, second = {"content": {"parts": [{"text": "a"}]}}, {"index": 1, "content": {"parts": [{"text": "b"}]}}
    assert read({"candidates": [first, second]}).recorded == [("text", "a"), ("text#1", "b")]
    assert read({"candidates": [first, {"content": {"parts": [{"text": "b"}]}}]}).recorded[-1] == ("text#1", "b")
    assert read({"candidates": [{"index": "x", "content": {"parts": [{"text": "a"}]}}]}).recorded == [("text", "a")]


def test_a_part_with_text_and_a_call_is_both() -> None:
    both = {"text": "a", **call(name="f", args={})}
    assert [entry[0] for entry in read(chunk(both)).recorded] == ["text", "tool", "end_block"]
    signed = read(chunk({**both, "thought": True, "thoughtSignature": "S"}))
    assert [entry[0] for entry in signed.recorded] == ["reasoning", "tool", "end_block"]
    assert signed.recorded[1][1].metadata == {"thoughtSignature": "S"}


def test_invented_candidate_numbers_do_not_fill_memory() -> None:
    sink = RecordingSink()
    parser = GeminiParser(sink)
    for number in range(1000):
        parser.chunk({"candidates": [{"index": number, "content": {"parts": [{"text": "a"}]}}]})
    assert len(parser._further) + 1 == 128
    assert len(sink.recorded) == 1000


# ---------------------------------------------------------------- complete calls


def test_each_part_is_a_separate_call() -> None:
    sink = read(
        chunk(call(name="w", args={"city": "Zürich", "n": [1, 2]}), call(name="w", args={"city": "Oslo"})),
        chunk(call(name="w", args={"city": "Oslo"})),
    )
    deltas = [delta for _, delta in sink.select("tool")]
    assert [delta.args for delta in deltas] == ['{"city":"Zürich","n":[1,2]}', '{"city":"Oslo"}', '{"city":"Oslo"}']
    assert len({delta.key for delta in deltas}) == 3
    assert [delta.type for delta in deltas] == ["start"] * 3
    assert [key for _, key in sink.select("end_block")] == [delta.key for delta in deltas]


@pytest.mark.parametrize("fields", [{"name": "now"}, {"name": "now", "args": None}, {"name": "now", "args": {}}])
def test_a_call_without_arguments_has_an_empty_object(fields: dict[str, Any]) -> None:
    sink = read(chunk(call(**fields)))
    assert sink.recorded == [
        call_start(None, "now", 1, position=0, arguments="{}"),
        ("end_block", 1),
    ]


def test_ids_are_passed_on_unchanged() -> None:
    sink = read(chunk(call(name="a", args={}, id="x1"), call(name="a", args={}, id=""), call(name="a", args={}, id=7)))
    assert [delta.id for _, delta in sink.select("tool")] == ["x1", None, "7"]


def test_a_call_keeps_its_signature() -> None:
    sink = read(chunk({**call(name="a", args={}), "thoughtSignature": "S"}, call(name="b", args={})))
    assert [delta.metadata for _, delta in sink.select("tool")] == [{"thoughtSignature": "S"}, None]


def test_arguments_sent_as_text_are_a_json_string() -> None:
    assert argument_text(read(chunk(call(name="a", args='{"x":1}')))) == '"{\\"x\\":1}"'


def test_a_call_without_a_name_is_reported() -> None:
    assert read(chunk(call(args={"x": 1}))).select("tool") == [
        call_start(None, None, 1, position=0, arguments='{"x":1}')
    ]


# ---------------------------------------------------------------- streamed calls


def fragment(path: str, value: str, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": value, **({"willContinue": True} if more else {})}


OPENING = chunk({**call(name="w", willContinue=True), "thoughtSignature": "S"})
FRAGMENTS = [
    chunk(call(partialArgs=[fragment("$.city", "Par", True)], willContinue=True)),
    chunk(call(partialArgs=[fragment("$.city", "is", True)], willContinue=True)),
    chunk(call(partialArgs=[fragment("$.city", "")], willContinue=True)),
    chunk(call(willContinue=True)),
]


@pytest.mark.parametrize(
    "ending",
    [
        [chunk(call())],
        [chunk(call(willContinue=False))],
        [chunk(call(), finish="STOP")],
        [chunk(finish="STOP")],
        [chunk({"text": ""}, finish=1)],
        [chunk(call(name="next", args={}))],
        [chunk(call(name="next", willContinue=True)), chunk(call())],
    ],
)
def test_a_streamed_call_ends_with_its_end_the_finish_or_the_next_call(ending: list[dict[str, Any]]) -> None:
    sink = read(OPENING, *FRAGMENTS, *ending)
    first = [delta for _, delta in sink.select("tool") if delta.key == 1]
    assert [delta.args or delta.arguments_delta for delta in first] == ["{", '"city":"Par', "is", '"', "}"]
    assert first[0].type == "start"
    assert first[0].metadata == {"thoughtSignature": "S"}
    assert ("end_block", 1) in sink.recorded


@pytest.mark.parametrize("ending", [[], [chunk(finish="MAX_TOKENS")], [chunk(finish="MALFORMED_FUNCTION_CALL")]])
def test_a_truncated_streamed_call_is_not_ended(ending: list[dict[str, Any]]) -> None:
    sink = read(OPENING, *FRAGMENTS, *ending)
    assert argument_text(sink) == '{"city":"Paris"'
    assert sink.select("end_block") == []


def test_a_fragment_without_a_value_adds_nothing() -> None:
    sink = read(OPENING, chunk(call(partialArgs=[{"jsonPath": "$.a", "willContinue": True}], willContinue=True)))
    assert argument_text(sink) == "{"


def test_a_streamed_call_in_one_part() -> None:
    sink = read(chunk(call(name="w", partialArgs=[fragment("$.a", "x"), {"jsonPath": "$.b", "numberValue": 2}])))
    assert argument_text(sink) == '{"a":"x","b":2}'
    assert sink.select("end_block") == [("end_block", 1)]


def test_a_fragment_out_of_order_replaces_the_arguments() -> None:
    sink = read(
        OPENING,
        chunk(
            call(partialArgs=[fragment("$.a.b", "1"), fragment("$.c", "2"), fragment("$.a.d", "3")], willContinue=True)
        ),
        chunk(call()),
    )
    assert sink.select("replace_arguments", "end_block") == [
        ("replace_arguments", 1, '{"a":{"b":"1","d":"3"},"c":"2"}'),
        ("end_block", 1),
    ]


def test_unknown_arguments_are_not_ended() -> None:
    sink = read(
        OPENING, chunk(call(partialArgs=[fragment("$.a[3]", "x")], willContinue=True)), chunk(call(), finish="STOP")
    )
    assert [entry[1] for entry in sink.select("warn")] == ["arguments_unknown"]
    assert sink.select("end_block", "replace_arguments") == []


def test_complete_arguments_after_fragments_replace_them() -> None:
    sink = read(OPENING, *FRAGMENTS, chunk(call(args={"city": "Oslo"})))
    assert sink.select("replace_arguments", "end_block") == [
        ("replace_arguments", 1, '{"city":"Oslo"}'),
        ("end_block", 1),
    ]


def test_streamed_calls_with_ids_may_be_interleaved() -> None:
    sink = read(
        chunk(call(id="1", name="w", willContinue=True), call(id="2", name="w", willContinue=True)),
        chunk(call(id="1", partialArgs=[fragment("$.a", "x")], willContinue=True)),
        chunk(call(id="2", name="w", partialArgs=[fragment("$.a", "y")], willContinue=True)),
        chunk(call(id="1"), call(id="2")),
    )
    texts = dict.fromkeys((1, 2), "")
    for _, delta in sink.select("tool"):
        texts[delta.key] += (delta.args or "") + (delta.arguments_delta or "")
    assert texts == {1: '{"a":"x"}', 2: '{"a":"y"}'}
    assert sink.select("end_block") == [("end_block", 1), ("end_block", 2)]


def test_a_late_signature_is_kept_and_a_second_one_is_a_warning() -> None:
    late = {**call(partialArgs=[fragment("$.a", "x")], willContinue=True), "thoughtSignature": "L"}
    sink = read(chunk(call(name="w", willContinue=True)), chunk(late), chunk(late))
    assert sink.select("add_metadata") == [("add_metadata", {"thoughtSignature": "L"}, 1)]
    assert sink.select("warn")[0][1] == "second_signature"


def test_a_fragment_without_a_call_is_a_warning() -> None:
    sink = read(chunk(call()), chunk(call(partialArgs=[fragment("$.a", "x")])))
    assert [entry[:2] for entry in sink.recorded] == [("warn", "orphan_delta")]


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("FinishReason.STOP", "stop"),
        (1, "stop"),
        ("MAX_TOKENS", "length"),
        (2, "length"),
        ("SAFETY", "content_filter"),
        (3, "content_filter"),
        (4, "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("ESCALATION", "content_filter"),
        ("PUP_LIMITED_DISABLED", "content_filter"),
        ("CONTINUATION", "length"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        (10, "error"),
        ("UNEXPECTED_TOOL_CALL", "error"),
        (12, "error"),
        ("TOO_MANY_TOOL_CALLS", "error"),
        ("MISSING_THOUGHT_SIGNATURE", "error"),
        ("LANGUAGE", "other"),
        (5, "other"),
        (99, "other"),
        (-1, "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_finish_reasons(raw: Any, reason: str) -> None:
    assert read(chunk(finish=raw)).recorded == [("finish", raw, reason)]


@pytest.mark.parametrize("raw", ["", 0, "FINISH_REASON_UNSPECIFIED"])
def test_an_unspecified_finish_reason_is_not_reported(raw: Any) -> None:
    assert read(chunk(finish=raw)).recorded == []


def test_a_finish_reason_of_another_type_is_unknown() -> None:
    assert read(chunk(finish=["STOP"])).recorded == [("unknown", {"finishReason": ["STOP"]})]


def test_the_finish_message_is_a_warning_unless_the_reason_is_stop() -> None:
    def recorded(reason: str) -> list[Any]:
        return read({"candidates": [{"finishReason": reason, "finishMessage": "Because."}]}).recorded

    kept = ("add_response_metadata", {"finishMessage": "Because."})
    assert recorded("MALFORMED_FUNCTION_CALL") == [
        kept,
        ("warn", "finish_message", "Because."),
        ("finish", "MALFORMED_FUNCTION_CALL", "error"),
    ]
    assert recorded("STOP") == [kept, ("finish", "STOP", "stop")]


def test_a_blocked_prompt_is_a_finish() -> None:
    sink = read({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m", "responseId": "r"})
    assert sink.recorded == [
        ("identify", "r", "m"),
        ("add_response_metadata", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        ("finish", "PROHIBITED_CONTENT", "content_filter"),
    ]
    assert read({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "No."}}).recorded[1][2] == "No."
    for feedback in ({"safetyRatings": []}, "?"):
        assert read({"promptFeedback": feedback}).recorded == [("add_response_metadata", {"promptFeedback": feedback})]


@pytest.mark.parametrize("as_dicts", [True, False])
def test_fields_that_describe_the_response_are_its_metadata(as_dicts: bool) -> None:
    ratings = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH", "blocked": True}]
    tokens = [{"token": "a"}, {"token": "b"}, {"token": "c"}]
    first, last = chunk({"text": "a"}), chunk({"text": "b"}, finish="SAFETY", modelStatus={"modelStage": "GA"})
    first["candidates"][0]["logprobsResult"] = {"chosenCandidates": tokens[:1], "topCandidates": []}
    last["candidates"][0] |= {
        "logprobsResult": {"chosenCandidates": tokens[1:]},
        "safetyRatings": ratings,
        "avgLogprobs": -0.5,
        "tokenCount": 2,
    }
    sink = RecordingSink()
    parser = GeminiParser(sink)
    for data in (first, last):
        if as_dicts:
            parser.chunk(data)
        else:
            parser.frame(b"", json.dumps(data).encode())
    parser.end()
    merged: dict[str, Any] = {}
    for _, metadata in sink.select("add_response_metadata"):
        merged |= metadata
    assert merged == {
        "safetyRatings": ratings,
        "avgLogprobs": -0.5,
        "tokenCount": 2,
        "modelStatus": {"modelStage": "GA"},
        "logprobsResult": {"chosenCandidates": tokens, "topCandidates": []},
    }
    assert sink.select("text", "finish") == [("text", "a"), ("text", "b"), ("finish", "SAFETY", "content_filter")]
    assert sink.select("unknown_field") == []
    assert first["candidates"][0]["logprobsResult"] == {"chosenCandidates": tokens[:1], "topCandidates": []}


def test_metadata_of_a_further_candidate_has_its_number() -> None:
    sink = read({"candidates": [{"index": 0}, {"index": 1, "avgLogprobs": -1.5}]})
    assert sink.select("add_response_metadata") == [("add_response_metadata", {"candidates.1.avgLogprobs": -1.5})]


@pytest.mark.parametrize("as_dicts", [True, False])
def test_the_latest_continuation_token_is_metadata_of_the_response(as_dicts: bool) -> None:
    tokens: list[Any] = ["Zmlyc3Q=", "c2Vjb25k"]
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}, finish="CONTINUATION")]
    for data, token in zip(chunks, tokens, strict=True):
        data["candidates"][0]["continuationToken"] = token
    turn = Turn("gemini", turn_key="k")
    for data in chunks:
        turn.feed(data if as_dicts else b"data: %b\r\n\r\n" % json.dumps(data).encode())
    turn.close()
    assert turn.metadata["continuationToken"] == "c2Vjb25k"
    assert turn.finish is not None
    assert turn.finish.reason == "length"
    assert turn.warnings == []


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("as_dicts", [True, False])
def test_unknown_fields_are_reported_wherever_they_first_appear(before: int, as_dicts: bool) -> None:
    odd = chunk({"text": "y", "mood": 1}, trace="t")
    odd["candidates"][0]["rank"] = 2
    odd["candidates"][0]["content"]["author"] = "a"
    sink = read(*[chunk({"text": "x"})] * before, odd, as_dicts=as_dicts)
    assert sorted(sink.select("unknown_field")) == [
        ("unknown_field", "candidates.content.author", "a"),
        ("unknown_field", "candidates.content.parts.mood", 1),
        ("unknown_field", "candidates.rank", 2),
        ("unknown_field", "trace", "t"),
    ]
    assert sink.select("text") == [*[("text", "x")] * before, ("text", "y")]


@pytest.mark.parametrize("as_dicts", [True, False])
def test_data_beside_a_text_in_one_part_is_read_too(as_dicts: bool) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    sink = read(chunk({"text": "x", **image, "partMetadata": {"a": 1}}), as_dicts=as_dicts)
    assert sink.recorded == [
        ("text", "x"),
        ("file", "image/png", "aGk=", None, image),
        ("add_metadata", {"partMetadata": {"a": 1}}),
    ]


@pytest.mark.parametrize(("index", "suffix"), [("0", ""), (0.0, ""), ("1", "#1"), (1.0, "#1")])
def test_the_number_of_a_candidate_may_be_text_or_a_float(index: Any, suffix: str) -> None:
    sink = read({"candidates": [{"index": index, "content": {"parts": [{"text": "x"}]}}]})
    assert sink.recorded == [(f"text{suffix}", "x")]


def test_halves_of_a_surrogate_pair_in_fragments_out_of_order_are_joined() -> None:
    def fragment(path: str, text: str, continues: bool) -> dict[str, Any]:
        return {"jsonPath": path, "stringValue": text, "willContinue": continues}

    turn = Turn("gemini", turn_key="k")
    parts = [fragment("$.a", "1", False), fragment("$.b", "\ud83d", True), fragment("$.a", "2", False)]
    turn.feed(chunk(call(name="f", willContinue=True, partialArgs=parts)))
    turn.feed(chunk(call(partialArgs=[fragment("$.b", "\ude00", False)])))
    turn.feed(chunk(finish="STOP"))
    turn.close()
    assert turn.calls[0].arguments == {"a": "12", "b": "\U0001f600"}


def test_an_error_body_fails_the_turn() -> None:
    error = {
        "code": 429,
        "message": "Quota exceeded",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.5s"}],
    }
    assert read({"error": error}).recorded == [
        ("fail", StreamError("provider_error", "Quota exceeded", raw=error, status=429, retry_after=38.5))
    ]
    assert read({"error": "no"}).recorded == [("fail", StreamError("provider_error", "no", raw="no"))]


@pytest.mark.parametrize("is_list", [False, True])
def test_the_seconds_to_wait_of_a_response_with_a_status_are_those_of_its_body(is_list: bool) -> None:
    error: dict[str, Any] = {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}
    error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.5s"}]
    body = json.dumps([{"error": error}] if is_list else {"error": error}).encode()
    for headers, seconds in (({}, 38.5), ({"retry-after": "2"}, 2.0)):
        turn = Turn("gemini", "t")
        turn.response(429, headers)
        turn.feed(body)
        turn.close()
        assert turn.error is not None
        assert (turn.error.code, turn.error.retry_after) == ("rate_limited", seconds)


# ---------------------------------------------------------------- usage, citations, server tools, files


def test_usage_is_the_last_count_of_each_field_and_never_a_sum() -> None:
    sink = read(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": 1}),
        chunk({"text": "b"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": 1}),
        chunk({"text": "c"}, usageMetadata={"trafficType": "ON_DEMAND"}),
        chunk({"text": "d"}, usageMetadata={"candidatesTokenCount": 0, "thoughtsTokenCount": 5}),
        chunk(
            finish="STOP",
            usageMetadata={
                "promptTokenCount": 40,
                "candidatesTokenCount": 3,
                "toolUsePromptTokenCount": 7,
                "cachedContentTokenCount": 30,
                "totalTokenCount": 55,
            },
        ),
    )
    [(_, first), (_, last)] = sink.select("usage")
    assert (first.input_tokens, first.output_tokens) == (36, 1)
    assert (last.input_tokens, last.output_tokens, last.reasoning_tokens) == (47, 8, 5)
    assert (last.cache_read_tokens, last.cache_write_tokens) == (30, None)
    assert last.raw["totalTokenCount"] == 55


def test_usage_is_reported_with_the_first_chunk_and_at_the_finish() -> None:
    chunks = [chunk({"text": "a"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": n}) for n in range(5)]
    first = ("usage", Usage(36, 0, None, None, None, {"promptTokenCount": 36, "candidatesTokenCount": 0}))
    assert read(*chunks).select("usage") == [first]
    assert read(*chunks).recorded[0] == first
    counts = {"promptTokenCount": 36, "candidatesTokenCount": 5, "totalTokenCount": 41}
    sink = read(*chunks, chunk(finish="STOP", usageMetadata=counts))
    assert sink.select("usage") == [first, ("usage", Usage(36, 5, None, None, None, counts))]
    whole = read(chunk({"text": "a"}, finish="STOP", usageMetadata=counts))
    assert whole.select("usage") == [("usage", Usage(36, 5, None, None, None, counts))]


def test_a_truncated_response_has_the_usage_so_far() -> None:
    turn = Turn("gemini", turn_key="turn-1")
    for tokens in (1, 2):
        turn.feed(chunk({"text": "a"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": tokens}))
    turn.close(ConnectionResetError())
    assert turn.usage == Usage(36, 2, None, None, None, {"promptTokenCount": 36, "candidatesTokenCount": 2})


def test_a_chunk_with_usage_alone_is_valid() -> None:
    sink = read({"usageMetadata": {"promptTokenCount": 3}})
    assert sink.recorded == [("usage", Usage(3, None, None, None, None, {"promptTokenCount": 3}))]
    assert read({"usageMetadata": {"trafficType": "ON_DEMAND"}}).recorded == []


def test_citations_are_reported_once() -> None:
    def with_sources(**sources: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": "a"}]}, **sources}]}

    grounding = {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://x"}}]}
    cited = {"citations": [{"uri": "https://y"}]}
    sink = read(
        with_sources(groundingMetadata=grounding),
        with_sources(groundingMetadata=grounding, citationMetadata=cited),
        with_sources(urlContextMetadata={"urlMetadata": []}, groundingMetadata={}),
    )
    assert sink.select("citation") == [
        ("citation", grounding),
        ("citation", cited),
        ("citation", {"urlMetadata": []}),
    ]


def test_server_tools() -> None:
    code = {"executableCode": {"id": "e", "language": "PYTHON", "code": "1+1"}, "thoughtSignature": "S"}
    result = {"codeExecutionResult": {"id": "e", "outcome": "OUTCOME_OK", "output": "2"}}
    search, response = (
        {"toolCall": {"toolType": "FILE_SEARCH", "id": "t"}},
        {"toolResponse": {"toolType": "FILE_SEARCH"}},
    )
    query = {"toolCall": {"toolType": "GOOGLE_SEARCH", "args": {"queries": ["q"]}}}
    assert read(chunk(code), chunk(result), chunk(search, response, query)).recorded == [
        ("server_tool", "e", "code_execution", "started"),
        ("server_tool", "e", "code_execution", "arguments", {"language": "PYTHON", "code": "1+1"}, code),
        ("server_tool", "e", "code_execution", "result", {"outcome": "OUTCOME_OK", "output": "2"}, result),
        ("server_tool", "t", "FILE_SEARCH", "started", None, search),
        ("server_tool", None, "FILE_SEARCH", "result", None, response),
        ("server_tool", None, "GOOGLE_SEARCH", "started"),
        ("server_tool", None, "GOOGLE_SEARCH", "arguments", {"queries": ["q"]}, query),
    ]


def test_files() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "S"}
    stored = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/o"}}
    draft = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}
    assert read(chunk(image, stored, draft)).recorded == [
        ("file", "image/png", "aGk=", None, image),
        ("file", "video/mp4", None, "gs://b/o", stored),
        ("provider_block", draft),
    ]


def test_unknown_parts_are_kept_unchanged() -> None:
    new = {"hologram": {"x": 1}, "thoughtSignature": "S"}
    odd = {"inlineData": "?"}
    sink = read(chunk({"text": "a"}, new, odd, {"text": ["no", "text"]}, {"functionCall": "f"}))
    assert sink.select("text", "provider_block", "unknown") == [
        ("text", "a"),
        ("provider_block", new),
        ("provider_block", odd),
        ("unknown", {"text": ["no", "text"]}),
        ("provider_block", {"functionCall": "f"}),
    ]


def test_parts_that_are_not_objects_do_not_shift_the_others() -> None:
    new = {"hologram": 1}
    data = {"candidates": [None, {"content": {"parts": ["odd", {"text": "a"}, None, new]}}]}
    assert read(data).select("text", "provider_block") == [("text", "a"), ("provider_block", new)]


# ---------------------------------------------------------------- other wires and malformed input


@pytest.mark.parametrize("data", [{}, {"choices": []}, {"candidates": 5}, {"object": "chat.completion.chunk"}])
def test_other_objects_are_unknown(data: dict[str, Any]) -> None:
    assert read(data).select("unknown") == [("unknown", data)]


def test_a_frame_that_is_not_json_is_a_protocol_error() -> None:
    sink = RecordingSink()
    GeminiParser(sink).frame(b"", b"<html>")
    assert [entry[1].kind for entry in sink.recorded] == ["protocol_error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = {
    "candidates": ["content", "index", "finishReason", "finishMessage", "groundingMetadata"],
    "content": ["parts"],
    "parts": ["text", "thought", "thoughtSignature", "functionCall", "inlineData", "executableCode", "toolCall", "new"],
    "functionCall": ["id", "name", "args", "partialArgs", "willContinue"],
    "partialArgs": ["jsonPath", "stringValue", "numberValue", "boolValue", "nullValue", "willContinue"],
    "usageMetadata": ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"],
    "promptFeedback": ["blockReason", "blockReasonMessage"],
    "error": ["code", "message", "details"],
}
TOP = ["candidates", "usageMetadata", "modelVersion", "responseId", "promptFeedback", "error"]


@st.composite
def wire_like(draw: Any, names: list[str] | None = None) -> Any:
    """Draw an object with names of the wire and any values."""
    drawn = {}
    for name in draw(st.lists(st.sampled_from(names or TOP), max_size=5, unique=True)):
        if name in FIELDS and draw(st.integers(0, 4)):
            inner = wire_like(FIELDS[name])
            is_list = name in ("candidates", "parts", "partialArgs")
            drawn[name] = draw(st.lists(inner | JSON, max_size=3) if is_list else inner)
        else:
            drawn[name] = draw(JSON | st.sampled_from(["STOP", "x", "$.a", 1, True]))
    return drawn


@given(st.lists(wire_like(), max_size=5))
def test_no_object_raises_as_bytes_or_as_dict(chunks: list[Any]) -> None:
    by_bytes, by_dicts = read(*chunks), read(*chunks, as_dicts=True)
    kinds = [entry[0] for entry in by_bytes.recorded]
    assert kinds == [entry[0] for entry in by_dicts.recorded]


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise(data: bytes) -> None:
    sink = RecordingSink()
    GeminiParser(sink).frame(b"", data)
    GeminiParser(sink).frame(b"", b'{"candidates":[{"content":{"parts":[%s]}}]}' % data)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_does_not_raise(opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    for depth in (50, 300, 700, 900, 950, 5000):
        deep = opening * depth + b"1" + closing * depth
        parts = b'{"functionCall":{"name":"f","args":%s}},{"new":%s}' % (deep, deep)
        rest = b'"groundingMetadata":%s,"finishReason":%s' % (deep, deep)
        data = b'{"candidates":[{"content":{"parts":[%s]},%s}],"usageMetadata":%s,"error":%s}' % (
            parts,
            rest,
            deep,
            deep,
        )
        turn = Turn("gemini", "turn-1")
        turn.feed(b"data: %b\n\n" % data)
        turn.feed(b"data: %b\n\n" % data)
        assert turn.error is not None or depth == 50


def test_deep_dicts_end_the_turn() -> None:
    deep: Any = b"x"
    for _ in range(5000):
        deep = [deep]
    for names in ("functionCall", "function_call"):
        parts = [{names: {"name": "f", "args": deep}}, {"new": deep}]
        candidate = {"content": {"parts": parts}, "groundingMetadata": deep, "finishReason": "STOP"}
        turn = Turn("gemini", "turn-1")
        turn.feed({"candidates": [candidate]})
        assert turn.error is not None
        assert turn.error.kind == "limit_exceeded"


# ---------------------------------------------------------------- chunks as dicts


class Reason(enum.StrEnum):
    STOP = "STOP"


SIGNATURE = base64.b64decode("CmIB+/+/")
SNAKE = [
    {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {
                            "text": None,
                            "function_call": {"id": None, "name": "f", "args": {"snake_key": None}},
                            "thought_signature": SIGNATURE,
                        },
                        {"inline_data": {"data": b"hi", "mime_type": "image/png", "display_name": None}},
                        {"executable_code": {"code": "1", "language": Reason.STOP}, "thought_signature": SIGNATURE},
                    ],
                    "role": "model",
                },
                "finish_reason": Reason.STOP,
                "grounding_metadata": {"web_search_queries": ["q"]},
            }
        ],
        "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 4},
        "model_version": "m",
        "response_id": "r",
    }
]
CAMEL = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {**call(name="f", args={"snake_key": None}), "thoughtSignature": "CmIB+/+/"},
                    {"inlineData": {"data": "aGk=", "mimeType": "image/png"}},
                    {"executableCode": {"code": "1", "language": "STOP"}, "thoughtSignature": "CmIB+/+/"},
                ],
                "role": "model",
            },
            "finishReason": "STOP",
            "groundingMetadata": {"webSearchQueries": ["q"]},
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
    "modelVersion": "m",
    "responseId": "r",
}


def test_the_sdks_spelling_is_read_like_rests() -> None:
    assert to_camel_case(SNAKE[0]) == CAMEL
    assert read(*SNAKE, as_dicts=True).recorded == read(CAMEL).recorded


def test_the_sdks_values_are_read_under_rests_names() -> None:
    mixed = json.loads(json.dumps(CAMEL))
    candidate = mixed["candidates"][0]
    for part in (candidate["content"]["parts"][0], candidate["content"]["parts"][2]):
        part["thoughtSignature"] = SIGNATURE
    candidate["content"]["parts"][1]["inlineData"]["data"] = b"hi"
    candidate["finishReason"] = Reason.STOP
    assert read(mixed, as_dicts=True).recorded == read(CAMEL).recorded


def test_a_dict_of_an_unexpected_shape_does_not_raise() -> None:
    assert read({"candidates": "?", "modelVersion": 1}, as_dicts=True).select("warn")[0][1] == "unexpected_shape"
    many = {f"invented_{number}": {"deep_er": None} for number in range(1000)}
    assert len(to_camel_case(many)) == 1000


def test_the_same_dict_may_be_fed_again_after_a_change() -> None:
    sink = RecordingSink()
    parser = GeminiParser(sink)
    data = chunk({"new": 1})
    parser.chunk(data)
    data["candidates"][0]["content"]["parts"][0] = {"newer": 2}
    parser.chunk(data)
    assert sink.select("provider_block") == [("provider_block", {"new": 1}), ("provider_block", {"newer": 2})]


def test_streamed_arguments_of_a_dump_of_all_fields() -> None:
    def dump(**value: Any) -> dict[str, Any]:
        values = dict.fromkeys(("string_value", "number_value", "bool_value", "null_value", "will_continue"))
        return {**values, **value}

    start = {"function_call": {"name": "f", "will_continue": True, "args": None, "partial_args": None, "id": None}}
    fragments = [
        dump(json_path="$.a", string_value="x"),
        dump(json_path="$.b"),
        dump(json_path="$.c", bool_value=True),
    ]
    sink = read(
        {"candidates": [{"content": {"parts": [start]}}]},
        {"candidates": [{"content": {"parts": [{"function_call": {"partial_args": fragments}}]}}]},
        as_dicts=True,
    )
    assert argument_text(sink) == '{"a":"x","c":true}'
    null = chunk(call(name="f", partialArgs=[{"jsonPath": "$.a", "nullValue": None}]))
    assert argument_text(read(null, as_dicts=True)) == argument_text(read(null)) == '{"a":null}'


# ---------------------------------------------------------------- the provider


def test_detection() -> None:
    matches = GEMINI.traits.matches_head
    assert matches(b'data: {"candidates": [{"content": {"parts"')
    assert matches(b'\r\ndata: {"candidates":[]}')
    assert matches(b'[{\n  "candidates": [\n')
    assert matches(b'{"usageMetadata":{"promptTokenCount"')
    assert not matches(b'data: {"id":"x","object":"chat.completion.chunk","choices":[]}')
    assert not matches(b'data: {"choices":[{"delta":{"content":"\\n{\\"candidates\\": []}"}}]}')
    assert not matches(b'event: message_start\ndata: {"type":"message_start"}')
    assert not matches(b"")
    assert repr(GEMINI) == "<provider gemini>"
