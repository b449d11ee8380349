"""What a Gemini stream says, told to a sink that writes everything down."""

from __future__ import annotations

import base64
import enum
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.gemini.parser import GeminiParser
from streamkit.providers.gemini.schema import to_camel_case

GEMINI = providers.get("gemini")


class Choice:
    def __init__(self, told: list[Any], number: int) -> None:
        self._told, self._number = told, number

    def __getattr__(self, name: str) -> Any:
        def tell(*given: Any, **named: Any) -> None:
            prefix = (f"{name}#{self._number}",) if self._number else (name,)
            self._told.append((*prefix, *given, *named.values()))

        return tell


class Recorder:
    """A sink that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._choices: dict[int, Choice] = {}

    def choice(self, index: int) -> Any:
        return self._choices.setdefault(index, Choice(self.told, index))

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.told.append((name, *given))

    def named(self, *names: str) -> list[Any]:
        return [entry for entry in self.told if entry[0] in names]


def chunk(*parts: Any, finish: Any = None, **rest: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **rest}


def read(*chunks: dict[str, Any], as_dicts: bool = False) -> Recorder:
    recorder = Recorder()
    parser = GeminiParser(recorder)
    for data in chunks:
        if as_dicts:
            parser.chunk(data)
        else:
            parser.frame(b"", json.dumps(data).encode())
    return recorder


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def argument_text(recorder: Recorder) -> str:
    return "".join((piece.args or "") + (piece.arguments_delta or "") for _, piece in recorder.named("tool"))


# ---------------------------------------------------------------- text, reasoning, signatures


def test_text_and_thoughts_are_told_apart() -> None:
    told = read(
        chunk({"text": "Hm.", "thought": True}), chunk({"text": "Hel"}), chunk({"text": "lo", "thought": False})
    )
    assert told.told == [("reasoning", "Hm."), ("text", "Hel"), ("text", "lo")]


def test_a_signature_stays_on_its_own_part() -> None:
    told = read(
        chunk({"text": "a"}),
        chunk({"text": "b", "thoughtSignature": "S1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "S2"}),
        chunk({"thoughtSignature": "S3"}),
        chunk({"text": "t", "thought": True, "thoughtSignature": "S4"}),
    )
    assert told.told == [
        ("text", "a"),
        ("text", "b", 1),
        ("add_metadata", {"thoughtSignature": "S1"}, 1),
        ("text", "c"),
        ("text", "", 2),
        ("add_metadata", {"thoughtSignature": "S2"}, 2),
        ("text", "", 3),
        ("add_metadata", {"thoughtSignature": "S3"}, 3),
        ("reasoning", "t", "text", 4),
        ("add_metadata", {"thoughtSignature": "S4"}, 4),
    ]


def test_empty_parts_say_nothing() -> None:
    told = read(chunk({"text": ""}, {}, {"thought": True}), {"candidates": [{"content": {"role": "model"}}]})
    assert told.told == []


def test_candidates_are_choices() -> None:
    first, second = {"content": {"parts": [{"text": "a"}]}}, {"index": 1, "content": {"parts": [{"text": "b"}]}}
    assert read({"candidates": [first, second]}).told == [("text", "a"), ("text#1", "b")]
    assert read({"candidates": [first, {"content": {"parts": [{"text": "b"}]}}]}).told[-1] == ("text#1", "b")
    assert read({"candidates": [{"index": "x", "content": {"parts": [{"text": "a"}]}}]}).told == [("text", "a")]


def test_a_part_that_is_two_things_is_both() -> None:
    both = {"text": "a", **call(name="f", args={})}
    assert [entry[0] for entry in read(chunk(both)).told] == ["text", "tool", "end_block"]
    signed = read(chunk({**both, "thought": True, "thoughtSignature": "S"}))
    assert [entry[0] for entry in signed.told] == ["reasoning", "tool", "end_block"]
    assert signed.told[1][1].metadata == {"thoughtSignature": "S"}


def test_invented_candidate_numbers_fill_no_memory() -> None:
    recorder = Recorder()
    parser = GeminiParser(recorder)
    for number in range(1000):
        parser.chunk({"candidates": [{"index": number, "content": {"parts": [{"text": "a"}]}}]})
    assert len(parser._answers) == 128
    assert len(recorder.told) == 1000


# ---------------------------------------------------------------- whole calls


def test_every_part_is_a_call_of_its_own() -> None:
    told = read(
        chunk(call(name="w", args={"city": "Zürich", "n": [1, 2]}), call(name="w", args={"city": "Oslo"})),
        chunk(call(name="w", args={"city": "Oslo"})),
    )
    pieces = [piece for _, piece in told.named("tool")]
    assert [piece.args for piece in pieces] == ['{"city":"Zürich","n":[1,2]}', '{"city":"Oslo"}', '{"city":"Oslo"}']
    assert len({piece.key for piece in pieces}) == 3
    assert [piece.type for piece in pieces] == ["start"] * 3
    assert [key for _, key in told.named("end_block")] == [piece.key for piece in pieces]


@pytest.mark.parametrize("fields", [{"name": "now"}, {"name": "now", "args": None}, {"name": "now", "args": {}}])
def test_a_call_without_arguments_has_none(fields: dict[str, Any]) -> None:
    told = read(chunk(call(**fields)))
    assert told.told == [
        ("tool", NormalizedToolChunk("start", None, "now", "{}", None, 1)),
        ("end_block", 1),
    ]


def test_ids_are_kept_as_they_are() -> None:
    told = read(chunk(call(name="a", args={}, id="x1"), call(name="a", args={}, id=""), call(name="a", args={}, id=7)))
    assert [piece.id for _, piece in told.named("tool")] == ["x1", None, "7"]


def test_a_call_keeps_its_signature() -> None:
    told = read(chunk({**call(name="a", args={}), "thoughtSignature": "S"}, call(name="b", args={})))
    assert [piece.metadata for _, piece in told.named("tool")] == [{"thoughtSignature": "S"}, None]


def test_arguments_that_are_text_stay_text() -> None:
    assert argument_text(read(chunk(call(name="a", args='{"x":1}')))) == '"{\\"x\\":1}"'


def test_a_call_without_a_name_is_a_call() -> None:
    assert read(chunk(call(args={"x": 1}))).named("tool") == [
        ("tool", NormalizedToolChunk("start", None, None, '{"x":1}', None, 1))
    ]


# ---------------------------------------------------------------- streamed calls


def piece(path: str, value: str, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": value, **({"willContinue": True} if more else {})}


OPENING = chunk({**call(name="w", willContinue=True), "thoughtSignature": "S"})
PIECES = [
    chunk(call(partialArgs=[piece("$.city", "Par", True)], willContinue=True)),
    chunk(call(partialArgs=[piece("$.city", "is", True)], willContinue=True)),
    chunk(call(partialArgs=[piece("$.city", "")], willContinue=True)),
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
def test_a_streamed_call_is_closed_by_its_end_the_finish_or_the_next(ending: list[dict[str, Any]]) -> None:
    told = read(OPENING, *PIECES, *ending)
    first = [piece for _, piece in told.named("tool") if piece.key == 1]
    assert [piece.args or piece.arguments_delta for piece in first] == ["{", '"city":"Par', "is", '"', "}"]
    assert first[0].type == "start"
    assert first[0].metadata == {"thoughtSignature": "S"}
    assert ("end_block", 1) in told.told


@pytest.mark.parametrize("ending", [[], [chunk(finish="MAX_TOKENS")], [chunk(finish="MALFORMED_FUNCTION_CALL")]])
def test_a_streamed_call_that_was_cut_stays_open(ending: list[dict[str, Any]]) -> None:
    told = read(OPENING, *PIECES, *ending)
    assert argument_text(told) == '{"city":"Paris"'
    assert told.named("end_block") == []


def test_an_announcement_without_a_value_adds_nothing() -> None:
    told = read(OPENING, chunk(call(partialArgs=[{"jsonPath": "$.a", "willContinue": True}], willContinue=True)))
    assert argument_text(told) == "{"


def test_a_streamed_call_in_one_part() -> None:
    told = read(chunk(call(name="w", partialArgs=[piece("$.a", "x"), {"jsonPath": "$.b", "numberValue": 2}])))
    assert argument_text(told) == '{"a":"x","b":2}'
    assert told.named("end_block") == [("end_block", 1)]


def test_a_fragment_that_goes_back_restates_the_arguments() -> None:
    told = read(
        OPENING,
        chunk(call(partialArgs=[piece("$.a.b", "1"), piece("$.c", "2"), piece("$.a.d", "3")], willContinue=True)),
        chunk(call()),
    )
    assert told.named("replace_arguments", "end_block") == [
        ("replace_arguments", 1, '{"a":{"b":"1","d":"3"},"c":"2"}'),
        ("end_block", 1),
    ]


def test_arguments_that_cannot_be_known_are_not_closed() -> None:
    told = read(
        OPENING, chunk(call(partialArgs=[piece("$.a[3]", "x")], willContinue=True)), chunk(call(), finish="STOP")
    )
    assert [entry[1] for entry in told.named("warn")] == ["arguments_unknown"]
    assert told.named("end_block", "replace_arguments") == []


def test_arguments_sent_whole_in_the_midst_stand() -> None:
    told = read(OPENING, *PIECES, chunk(call(args={"city": "Oslo"})))
    assert told.named("replace_arguments", "end_block") == [
        ("replace_arguments", 1, '{"city":"Oslo"}'),
        ("end_block", 1),
    ]


def test_streamed_calls_with_ids_may_be_mixed() -> None:
    told = read(
        chunk(call(id="1", name="w", willContinue=True), call(id="2", name="w", willContinue=True)),
        chunk(call(id="1", partialArgs=[piece("$.a", "x")], willContinue=True)),
        chunk(call(id="2", name="w", partialArgs=[piece("$.a", "y")], willContinue=True)),
        chunk(call(id="1"), call(id="2")),
    )
    texts = dict.fromkeys((1, 2), "")
    for _, one in told.named("tool"):
        texts[one.key] += (one.args or "") + (one.arguments_delta or "")
    assert texts == {1: '{"a":"x"}', 2: '{"a":"y"}'}
    assert told.named("end_block") == [("end_block", 1), ("end_block", 2)]


def test_a_signature_that_comes_late_is_kept_and_a_second_one_is_said() -> None:
    late = {**call(partialArgs=[piece("$.a", "x")], willContinue=True), "thoughtSignature": "L"}
    told = read(chunk(call(name="w", willContinue=True)), chunk(late), chunk(late))
    assert told.named("add_metadata") == [("add_metadata", {"thoughtSignature": "L"}, 1)]
    assert told.named("warn")[0][1] == "second_signature"


def test_fragments_of_no_call_are_said() -> None:
    told = read(chunk(call()), chunk(call(partialArgs=[piece("$.a", "x")])))
    assert [entry[:2] for entry in told.told] == [("warn", "orphan_delta")]


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
    assert read(chunk(finish=raw)).told == [("finish", raw, reason)]


@pytest.mark.parametrize("raw", ["", 0, "FINISH_REASON_UNSPECIFIED"])
def test_an_unspecified_reason_is_none(raw: Any) -> None:
    assert read(chunk(finish=raw)).told == []


def test_a_reason_of_another_type_is_unknown() -> None:
    assert read(chunk(finish=["STOP"])).told == [("unknown", {"finishReason": ["STOP"]})]


def test_the_finish_message_is_kept_where_something_went_wrong() -> None:
    def told(reason: str) -> list[Any]:
        return read({"candidates": [{"finishReason": reason, "finishMessage": "Because."}]}).told

    assert told("MALFORMED_FUNCTION_CALL") == [
        ("warn", "finish_message", "Because."),
        ("finish", "MALFORMED_FUNCTION_CALL", "error"),
    ]
    assert told("STOP") == [("finish", "STOP", "stop")]


def test_a_refused_prompt_is_a_finish() -> None:
    told = read({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m", "responseId": "r"})
    assert told.told == [("identify", "r", "m"), ("finish", "PROHIBITED_CONTENT", "content_filter")]
    assert read({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "No."}}).told[0][2] == "No."
    assert read({"promptFeedback": {"safetyRatings": []}}).told == []
    assert read({"promptFeedback": "?"}).told == []


def test_an_error_body_fails_the_turn() -> None:
    error = {
        "code": 429,
        "message": "Quota exceeded",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38.5s"}],
    }
    assert read({"error": error}).told == [("fail", StreamError("provider_error", "Quota exceeded", error, 429, 38.5))]
    assert read({"error": "no"}).told == [("fail", StreamError("provider_error", "no", "no"))]


# ---------------------------------------------------------------- usage, sources, tools of Google's own


def test_usage_is_the_last_figure_of_each_and_never_a_sum() -> None:
    told = read(
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
    [(_, last)] = told.named("usage")
    assert (last.input_tokens, last.output_tokens, last.reasoning_tokens) == (47, 8, 5)
    assert (last.cache_read_tokens, last.cache_write_tokens) == (30, None)
    assert last.raw["totalTokenCount"] == 55


def test_usage_is_told_when_the_answer_finishes() -> None:
    chunks = [chunk({"text": "a"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": n}) for n in range(5)]
    assert read(*chunks).named("usage") == []
    whole = {"promptTokenCount": 36, "candidatesTokenCount": 5, "totalTokenCount": 41}
    told = read(*chunks, chunk(finish="STOP", usageMetadata=whole))
    assert told.named("usage") == [("usage", Usage(36, 5, None, None, None, whole))]


def test_a_cut_answer_says_what_it_had_cost() -> None:
    turn = Turn("gemini", turn_key="turn-1")
    for tokens in (1, 2):
        turn.feed(chunk({"text": "a"}, usageMetadata={"promptTokenCount": 36, "candidatesTokenCount": tokens}))
    turn.close(ConnectionResetError())
    assert turn.usage == Usage(36, 2, None, None, None, {"promptTokenCount": 36, "candidatesTokenCount": 2})


def test_usage_alone_is_a_chunk() -> None:
    told = read({"usageMetadata": {"promptTokenCount": 3}})
    assert told.told == [("usage", Usage(3, None, None, None, None, {"promptTokenCount": 3}))]
    assert read({"usageMetadata": {"trafficType": "ON_DEMAND"}}).told == []


def test_sources_are_told_once() -> None:
    def with_sources(**sources: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": "a"}]}, **sources}]}

    grounding = {"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://x"}}]}
    cited = {"citations": [{"uri": "https://y"}]}
    told = read(
        with_sources(groundingMetadata=grounding),
        with_sources(groundingMetadata=grounding, citationMetadata=cited),
        with_sources(urlContextMetadata={"urlMetadata": []}, groundingMetadata={}),
    )
    assert told.named("citation") == [
        ("citation", grounding),
        ("citation", cited),
        ("citation", {"urlMetadata": []}),
    ]


def test_tools_of_googles_own() -> None:
    code = {"executableCode": {"id": "e", "language": "PYTHON", "code": "1+1"}, "thoughtSignature": "S"}
    result = {"codeExecutionResult": {"id": "e", "outcome": "OUTCOME_OK", "output": "2"}}
    search, found = {"toolCall": {"toolType": "FILE_SEARCH", "id": "t"}}, {"toolResponse": {"toolType": "FILE_SEARCH"}}
    asked = {"toolCall": {"toolType": "GOOGLE_SEARCH", "args": {"queries": ["q"]}}}
    assert read(chunk(code), chunk(result), chunk(search, found, asked)).told == [
        ("server_tool", "e", "code_execution", "started"),
        ("server_tool", "e", "code_execution", "arguments", {"language": "PYTHON", "code": "1+1"}, code),
        ("server_tool", "e", "code_execution", "result", {"outcome": "OUTCOME_OK", "output": "2"}, result),
        ("server_tool", "t", "FILE_SEARCH", "started", search),
        ("server_tool", None, "FILE_SEARCH", "result", None, found),
        ("server_tool", None, "GOOGLE_SEARCH", "started", None),
        ("server_tool", None, "GOOGLE_SEARCH", "arguments", {"queries": ["q"]}, asked),
    ]


def test_files() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "S"}
    stored = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/o"}}
    draft = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}
    assert read(chunk(image, stored, draft)).told == [
        ("file", "image/png", "aGk=", image),
        ("file", "video/mp4", None, "gs://b/o", stored),
        ("provider_block", draft),
    ]


def test_unknown_parts_are_kept_as_they_came() -> None:
    new = {"hologram": {"x": 1}, "thoughtSignature": "S"}
    odd = {"inlineData": "?"}
    told = read(chunk({"text": "a"}, new, odd, {"text": ["no", "text"]}, {"functionCall": "f"}))
    assert told.named("text", "provider_block", "unknown") == [
        ("text", "a"),
        ("provider_block", new),
        ("provider_block", odd),
        ("unknown", {"text": ["no", "text"]}),
        ("provider_block", {"functionCall": "f"}),
    ]


def test_parts_keep_their_places_where_some_are_no_objects() -> None:
    new = {"hologram": 1}
    data = {"candidates": [None, {"content": {"parts": ["odd", {"text": "a"}, None, new]}}]}
    assert read(data).named("text", "provider_block") == [("text", "a"), ("provider_block", new)]


# ---------------------------------------------------------------- what is not this wire's


@pytest.mark.parametrize("data", [{}, {"choices": []}, {"candidates": 5}, {"object": "chat.completion.chunk"}])
def test_other_objects_are_unknown(data: dict[str, Any]) -> None:
    assert read(data).named("unknown") == [("unknown", data)]


def test_a_frame_that_is_no_json_is_a_protocol_error() -> None:
    recorder = Recorder()
    GeminiParser(recorder).frame(b"", b"<html>")
    assert [entry[1].kind for entry in recorder.told] == ["protocol_error"]


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
    """Objects of the wire's own names, with anything below them."""
    found = {}
    for name in draw(st.lists(st.sampled_from(names or TOP), max_size=5, unique=True)):
        if name in FIELDS and draw(st.integers(0, 4)):
            inner = wire_like(FIELDS[name])
            is_list = name in ("candidates", "parts", "partialArgs")
            found[name] = draw(st.lists(inner | JSON, max_size=3) if is_list else inner)
        else:
            found[name] = draw(JSON | st.sampled_from(["STOP", "x", "$.a", 1, True]))
    return found


@settings(deadline=None)
@given(st.lists(wire_like(), max_size=5))
def test_no_object_raises_through_either_door(chunks: list[Any]) -> None:
    by_bytes, by_dicts = read(*chunks), read(*chunks, as_dicts=True)
    kinds = [entry[0] for entry in by_bytes.told]
    assert kinds == [entry[0] for entry in by_dicts.told]


@settings(deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise(data: bytes) -> None:
    recorder = Recorder()
    GeminiParser(recorder).frame(b"", data)
    GeminiParser(recorder).frame(b"", b'{"candidates":[{"content":{"parts":[%s]}}]}' % data)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_is_no_exception(opening: bytes) -> None:
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
        recorder = Recorder()
        parser = GeminiParser(recorder)
        parser.frame(b"", data)
        parser.frame(b"", data)
        assert recorder.told


def test_what_is_too_deep_further_down_the_stack_ends_the_turn() -> None:
    class Shallow(Recorder):
        def unknown(self, raw: Any) -> None:
            raise RecursionError

    recorder = Shallow()
    GeminiParser(recorder).frame(b"", b"{}")
    GeminiParser(recorder).chunk({})
    assert [entry[1].kind for entry in recorder.named("fail")] == ["limit_exceeded"] * 2


def test_deep_dicts_are_no_exception() -> None:
    deep: Any = b"x"
    for _ in range(5000):
        deep = [deep]
    for names in ("functionCall", "function_call"):
        parts = [{names: {"name": "f", "args": deep}}, {"new": deep}]
        candidate = {"content": {"parts": parts}, "groundingMetadata": deep, "finishReason": "STOP"}
        assert read({"candidates": [candidate]}, {"candidates": [candidate]}, as_dicts=True).told


# ---------------------------------------------------------------- the dict door


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


def test_the_sdks_spelling_is_understood() -> None:
    assert to_camel_case(SNAKE[0]) == CAMEL
    assert read(*SNAKE, as_dicts=True).told == read(CAMEL).told


def test_the_sdks_values_are_understood_below_rests_names() -> None:
    mixed = json.loads(json.dumps(CAMEL))
    candidate = mixed["candidates"][0]
    for part in (candidate["content"]["parts"][0], candidate["content"]["parts"][2]):
        part["thoughtSignature"] = SIGNATURE
    candidate["content"]["parts"][1]["inlineData"]["data"] = b"hi"
    candidate["finishReason"] = Reason.STOP
    assert read(mixed, as_dicts=True).told == read(CAMEL).told


def test_a_dict_that_cannot_be_read_is_no_exception() -> None:
    assert read({"candidates": "?", "modelVersion": 1}, as_dicts=True).named("warn")[0][1] == "unexpected_shape"
    many = {f"invented_{number}": {"deep_er": None} for number in range(1000)}
    assert len(to_camel_case(many)) == 1000


def test_the_same_dict_may_come_again_changed() -> None:
    recorder = Recorder()
    parser = GeminiParser(recorder)
    data = chunk({"new": 1})
    parser.chunk(data)
    data["candidates"][0]["content"]["parts"][0] = {"newer": 2}
    parser.chunk(data)
    assert recorder.told == [("provider_block", {"new": 1}), ("provider_block", {"newer": 2})]


def test_streamed_arguments_of_a_full_dump() -> None:
    def fragment(**value: Any) -> dict[str, Any]:
        values = dict.fromkeys(("string_value", "number_value", "bool_value", "null_value", "will_continue"))
        return {**values, **value}

    opened = {"function_call": {"name": "f", "will_continue": True, "args": None, "partial_args": None, "id": None}}
    going = [
        fragment(json_path="$.a", string_value="x"),
        fragment(json_path="$.b"),
        fragment(json_path="$.c", bool_value=True),
    ]
    told = read(
        {"candidates": [{"content": {"parts": [opened]}}]},
        {"candidates": [{"content": {"parts": [{"function_call": {"partial_args": going}}]}}]},
        as_dicts=True,
    )
    assert argument_text(told) == '{"a":"x","c":true}'
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
