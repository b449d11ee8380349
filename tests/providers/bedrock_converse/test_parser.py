"""What the ConverseStream parser tells its sink, and whole streams through ``Turn``."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

import botocore.session
import pytest
from botocore.eventstream import EventStream
from botocore.parsers import EventStreamJSONParser
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import CAPTURES
from wire_streams import amazon_frame, converse_frame, dumped

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk, Reasoning, Text, ToolCallDelta
from streamkit.providers.bedrock_converse import content_blocks as blocks_module

RECORDED = sorted((CAPTURES / "bedrock_converse").glob("*.eventstream"))
PROVIDER = providers.get("bedrock_converse")


class RecordingSink:
    """Writes down what it is told, as tuples; it is its own only choice."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []
        self.failures: list[StreamError] = []
        self.reports: list[Usage] = []

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def text(self, text: str, key: Hashable = None) -> None:
        self.said.append(("text", text, key))

    def reasoning(self, text: str, kind: str = "text", key: Hashable = None) -> None:
        self.said.append(("reasoning", text, key))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self.said.append(("add_metadata", dict(metadata), key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        what = ("start", chunk.id, chunk.name) if chunk.type == "start" else ("arguments", chunk.arguments_delta)
        self.said.append((*what, chunk.key))

    def end_block(self, key: Hashable) -> None:
        self.said.append(("end_block", key))

    def server_tool(self, id: str | None, name: str, phase: str, data: Any = None, *, raw: Any = None) -> None:
        self.said.append(("server_tool", id, name, phase, data, raw))

    def citation(self, data: Any) -> None:
        self.said.append(("citation", data))

    def file(self, media_type: str | None, data: str | None = None, url: str | None = None, *, raw: Any = None) -> None:
        self.said.append(("file", media_type, data, url, raw))

    def provider_block(self, raw: Any) -> None:
        self.said.append(("provider_block", raw))

    def finish(self, raw: str | int | None, reason: str) -> None:
        self.said.append(("finish", raw, reason))

    def identify(self, response_id: str | None, model: str | None) -> None:
        self.said.append(("identify", response_id, model))

    def usage(self, usage: Usage) -> None:
        self.reports.append(usage)

    def terminate(self) -> None:
        self.said.append(("terminate",))

    def heartbeat(self) -> None:
        pass

    def fail(self, error: StreamError) -> None:
        self.failures.append(error)

    def warn(self, code: str, message: str) -> None:
        self.said.append(("warn", code))

    def unknown(self, raw: Any) -> None:
        self.said.append(("unknown", raw))


def read(*chunks: dict[str, Any]) -> RecordingSink:
    """The chunks as dicts and as frames, which must say the same."""
    sink, other = RecordingSink(), RecordingSink()
    parser = PROVIDER.parser(sink)  # type: ignore[arg-type]
    for chunk in chunks:
        parser.chunk(chunk)
    parser = PROVIDER.parser(other)  # type: ignore[arg-type]
    for chunk in chunks:
        ((name, body),) = chunk.items()
        kind = b"exception:" if name.endswith("Exception") else b""
        parser.frame(kind + name.encode(), dumped(body))
    assert (sink.said, sink.failures, sink.reports) == (other.said, other.failures, other.reports)
    return sink


def start(index: Any, **start: Any) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def delta(index: Any, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def stop(index: Any) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def use(id: Any = "t1", name: Any = "w", **more: Any) -> dict[str, Any]:
    return {"toolUseId": id, "name": name, **more}


END = {"messageStop": {"stopReason": "end_turn"}}
METADATA = {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 1}}}

# ---------------------------------------------------------------- blocks


def test_text_needs_no_start_and_padding_says_nothing() -> None:
    sink = read({"messageStart": {"role": "assistant", "p": "abc"}}, delta(0, text="a"), delta(0, text="b"), stop(0))
    assert sink.said == [("text", "a", 0), ("text", "b", 0), ("end_block", 0)]


def test_each_piece_of_a_call_goes_on_as_it_came() -> None:
    sink = read(start(1, toolUse=use()), delta(1, toolUse={"input": ""}), delta(1, toolUse={"input": "{"}), stop(1))
    assert sink.said == [("start", "t1", "w", 0), ("arguments", "{", 0), ("end_block", 0)]


def test_reasoning_opens_at_its_signature_where_it_has_no_text() -> None:
    sink = read(delta(0, reasoningContent={"signature": "s1"}), delta(0, reasoningContent={"signature": "s2"}), stop(0))
    assert sink.said == [
        ("reasoning", "", 0),
        ("add_metadata", {"signature": "s1"}, 0),
        ("add_metadata", {"signature": "s2"}, 0),
        ("end_block", 0),
    ]


def test_redacted_reasoning_is_kept_as_the_block_to_send_back() -> None:
    sink = read(delta(0, reasoningContent={"redactedContent": "QUJD"}), stop(0))
    block = {"reasoningContent": {"redactedContent": "QUJD"}}
    assert sink.said == [("reasoning", "", 0), ("add_metadata", {"opaque": block}, 0), ("end_block", 0)]
    # boto3 gives the bytes; in two pieces, as a stream may cut them
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    parser.chunk(delta(0, reasoningContent={"redactedContent": b"AB"}))
    parser.chunk(delta(0, reasoningContent={"redactedContent": bytearray(b"C")}))
    parser.chunk(stop(0))
    assert sink.said[1] == ("add_metadata", {"opaque": block}, 0)


def test_redacted_pieces_that_are_no_base64_are_joined_as_they_are() -> None:
    sink = read(*[delta(0, reasoningContent={"redactedContent": piece}) for piece in "?!"], END)
    assert sink.said[1] == ("add_metadata", {"opaque": {"reasoningContent": {"redactedContent": "?!"}}}, 0)


def test_server_tool_is_handed_over_whole_with_the_blocks_to_send_back() -> None:
    kept = {"toolUse": use("s1", "nova_grounding", type="server_tool_use", input={"query": "x"})}
    result = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}
    sink = read(
        start(0, toolUse=use("s1", "nova_grounding", type="server_tool_use")),
        delta(0, toolUse={"input": '{"query":'}),
        delta(0, toolUse={"input": '"x"}'}),
        stop(0),
        start(1, toolResult=result),
        delta(1, toolResult=[{"text": "a"}]),
        delta(1, toolResult=[{"text": "b"}, {"text": "c"}, {"json": {"n": 1}}]),
        delta(1, toolResult={"text": "d"}),
        stop(1),
    )
    content = [{"text": "ab"}, {"text": "c"}, {"json": {"n": 1}}, {"text": "d"}]
    assert sink.said == [
        ("server_tool", "s1", "nova_grounding", "started", None, None),
        ("server_tool", "s1", "nova_grounding", "arguments", {"query": "x"}, kept),
        ("server_tool", "s1", "nova_grounding", "result", content, {"toolResult": {**result, "content": content}}),
    ]


def test_cut_arguments_of_a_server_tool_are_shown_and_not_sent_back() -> None:
    sink = read(start(0, toolUse=use("s1", "n", type="server_tool_use")), delta(0, toolUse={"input": '{"q'}), END)
    kept = {"toolUse": use("s1", "n", type="server_tool_use", input={})}
    assert sink.said[1] == ("server_tool", "s1", "n", "arguments", '{"q', kept)


def test_result_of_a_tool_that_was_not_seen_is_named_by_its_type() -> None:
    sink = read(start(0, toolResult={"toolUseId": "s9", "type": "nova_grounding_result"}), stop(0))
    assert sink.said[0][1:5] == ("s9", "nova_grounding", "result", [])


def test_nova_says_tool_use_of_a_clients_call() -> None:
    assert read(start(0, toolUse=use(type="tool_use"))).said == [("start", "t1", "w", 0)]


def test_citation_before_any_text_opens_one() -> None:
    assert read(delta(1, citation={"title": "x"})).said == [("text", "", 0), ("citation", {"title": "x"})]
    sink = read(delta(0, text="a"), stop(0), delta(1, citation={"title": "x"}))
    assert sink.said[-1] == ("citation", {"title": "x"})
    assert len(sink.said) == 3


def test_images_are_files() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "QUJD"}}}
    pieces = [delta(0, image={"source": {"bytes": piece}}) for piece in ("QUI=", "Qw==")]
    assert read(start(0, image={"format": "png"}), *pieces).said == []
    assert read(start(0, image={"format": "png"}), *pieces, stop(0)).said == [
        ("file", "image/png", "QUJD", None, image)
    ]
    sink = read(start(0, image={"format": "png"}), delta(0, image={"source": {"bytes": "QUJD"}}), stop(0))
    assert sink.said == [("file", "image/png", "QUJD", None, image)]
    place = {"s3Location": {"uri": "s3://b/k"}}
    sink = read(start(0, image={"format": "gif"}), delta(0, image={"source": place}), stop(0))
    assert sink.said == [("file", "image/gif", None, "s3://b/k", {"image": {"format": "gif", "source": place}})]
    assert read(start(0, image={"format": "gif"}), stop(0)).said == []
    assert read(start(0, image={"format": "gif"}), delta(0, image={"error": {"message": "x"}})).said[0][0] == "unknown"


def test_what_has_no_word_is_shown() -> None:
    odd = [
        {"somethingNew": {"x": 1}},
        delta(0, hologram={"x": 1}),
        delta(0, text=["a"]),
        delta(0, toolResult=[{"text": "of no block"}]),
        delta(0, reasoningContent={"mood": 1}),
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": "x"}},
        {"contentBlockDelta": {"contentBlockIndex": 0}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": "x"}},
        {"messageStop": "x"},
    ]
    assert read(*odd).said == [("unknown", chunk) for chunk in odd]
    assert read(start(0, hologram={"size": 3})).said == [("provider_block", {"hologram": {"size": 3}})]
    assert read(start(0), {"contentBlockStart": {"contentBlockIndex": 1}}, delta(0), delta(0, text=None)).said == []


def test_a_label_of_any_type_tells_blocks_apart() -> None:
    sink = read(delta("a", text="1"), delta(None, text="2"), delta([1], text="3"), delta("a", text="4"))
    assert sink.said == [("text", "1", 0), ("text", "2", 1), ("text", "3", 2), ("text", "4", 0)]


def test_the_blocks_that_are_gathered_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "KEPT", 10)
    server = start(0, toolUse=use(type="server_tool_use"))
    assert read(server, delta(0, toolUse={"input": "x" * 10})).failures == []
    sink = read(server, delta(0, toolUse={"input": "x" * 11}))
    assert [error.kind for error in sink.failures] == ["limit_exceeded"]


def test_input_nested_too_deeply_ends_it() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    parser.chunk(delta(0, toolUse={"input": deep}))
    assert [error.kind for error in sink.failures] == ["limit_exceeded"]
    parser.frame(b"contentBlockDelta", b'{"delta":' + b"[" * 100_000)
    assert [error.kind for error in sink.failures] == ["limit_exceeded"] * 2
    while deep:  # an object so deep is taken apart by hand, or the interpreter would go as deep
        deep = deep.pop("a", None)


@pytest.mark.parametrize("where", ["input", "index", "reason"])
def test_any_depth_of_nesting_is_taken_or_ends_it(where: str) -> None:
    for depth in range(700, 1010):
        deep = b"[" * depth + b"]" * depth
        parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
        if where == "input":
            parser.frame(b"contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"toolUse":{"input":%b}}}' % deep)
        elif where == "index":
            parser.frame(b"contentBlockDelta", b'{"contentBlockIndex":%b,"delta":{"text":"a"}}' % deep)
        else:
            parser.frame(b"messageStop", b'{"stopReason":%b}' % deep)
        assert sink.said or [error.kind for error in sink.failures] == ["limit_exceeded"]


def test_one_delta_with_several_members_says_them_all() -> None:
    sink = read(
        delta(0, text="a", reasoningContent={"text": "b"}),
        delta(0, text="c", toolUse={"input": ""}),
        delta(0, text=""),
        delta(0, reasoningContent={"text": "d", "signature": "s"}),
    )
    assert sink.said == [
        *(("text", "a", 0), ("reasoning", "", 1), ("reasoning", "b", 1)),
        ("text", "c", 0),
        *(("reasoning", "d", 1), ("add_metadata", {"signature": "s"}, 1)),
    ]


def test_what_is_gathered_at_an_index_makes_way_for_encrypted_reasoning() -> None:
    sink = read(
        start(0, toolUse=use(None, None, type="server_tool_use")),
        delta(0, reasoningContent={"redactedContent": "QQ=="}),
    )
    assert [said[:4] for said in sink.said] == [
        ("server_tool", None, "", "started"),
        ("server_tool", None, "", "arguments"),
        ("reasoning", "", 1),
    ]


def test_a_whole_answer_has_blocks_of_every_kind() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"ABC"}}}
    use_block = {"toolUse": use("s1", "n", type="server_tool_use", input={"q": 1})}
    result = {"toolResult": {"toolUseId": "s1", "status": "success", "content": [{"text": "x"}]}}
    document = {"document": {"name": "d"}}
    content = [use_block, result, image, document, {"toolUse": use("t1", "w")}, "odd", {"text": None}, {"text": 5}]
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    parser.chunk({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"})
    assert sink.said == [
        ("server_tool", "s1", "n", "started", None, None),
        ("server_tool", "s1", "n", "arguments", {"q": 1}, use_block),
        ("server_tool", "s1", "n", "result", [{"text": "x"}], result),
        ("file", "image/png", "QUJD", None, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}),
        ("provider_block", document),
        ("start", "t1", "w", 3),
        ("end_block", 3),
        ("unknown", "odd"),
        ("provider_block", {"text": 5}),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    parser.chunk({"output": {"message": {"content": None}}, "stopReason": "end_turn", "ResponseMetadata": {}})
    assert sink.said == [("finish", "end_turn", "stop"), ("terminate",)]


# ---------------------------------------------------------------- the message


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("malformed_model_output", "error"),
        ("malformed_tool_use", "error"),
        ("new_word", "other"),
        (7, "other"),
    ],
)
def test_reasons(word: Any, reason: str) -> None:
    assert read({"messageStop": {"stopReason": word}}).said == [("finish", word, reason)]


def test_every_reason_of_the_service_model_has_a_meaning() -> None:
    from streamkit.providers.bedrock_converse.schema import STOP_REASONS

    assert set(stream_shape().members["messageStop"].members["stopReason"].enum) <= set(STOP_REASONS)


def test_every_event_and_exception_of_the_service_model_is_known() -> None:
    from streamkit.providers.aws_errors import STATUS
    from streamkit.providers.bedrock_converse.parser import _EVENTS

    members = stream_shape().members
    exceptions = {name for name, shape in members.items() if shape.metadata.get("exception")}
    assert set(members) - exceptions == set(_EVENTS)
    for name in exceptions:
        assert STATUS[name] == members[name].metadata["error"].get("httpStatusCode", 500)


def test_it_is_terminated_by_reason_and_metadata_in_any_order() -> None:
    assert read(END).said == [("finish", "end_turn", "stop")]
    assert read(END, METADATA).said == [("finish", "end_turn", "stop"), ("terminate",)]
    assert read(METADATA, END).said == [("finish", "end_turn", "stop"), ("terminate",)]
    assert read(METADATA).said == []
    assert read({"messageStop": {"stopReason": None}}).said == [("terminate",)]


def test_usage_is_the_whole_prompt_and_keeps_what_stands_beside_it() -> None:
    figures = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 57, "cacheReadInputTokens": 50}
    (usage,) = read({"metadata": {"usage": figures, "metrics": {"latencyMs": 9}, "p": "ab"}}).reports
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        53,
        4,
        50,
        None,
    )
    assert usage.raw == {**figures, "metrics": {"latencyMs": 9}}
    (usage,) = read({"metadata": {"usage": {"inputTokens": None, "outputTokens": "x"}}}).reports
    assert (usage.input_tokens, usage.output_tokens) == (None, None)
    assert read({"metadata": {"usage": None}}).reports == []


def test_the_router_says_which_model_answers() -> None:
    sink = read({"metadata": {"trace": {"promptRouter": {"invokedModelId": "m-1"}}}})
    assert sink.said == [("identify", None, "m-1")]


def test_additional_fields_of_the_model_are_shown() -> None:
    sink = read({"messageStop": {"stopReason": "end_turn", "additionalModelResponseFields": {"stop_sequence": "x"}}})
    assert sink.said[0] == ("unknown", {"messageStop": {"additionalModelResponseFields": {"stop_sequence": "x"}}})


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("chunk", "message", "status"),
    [
        ({"throttlingException": {"message": "slow down"}}, "slow down", 429),
        ({"modelStreamErrorException": {"originalMessage": "boom"}}, "boom", 424),
        ({"internalServerException": {}}, "internalServerException", 500),
        ({"validationException": "text"}, "text", 400),
        ({"brandNewException": {"Message": "?"}}, "?", None),
    ],
)
def test_exceptions(chunk: dict[str, Any], message: str, status: int | None) -> None:
    assert read(chunk).failures == [StreamError("provider_error", message, chunk, status)]


def test_an_error_frame_has_plain_text() -> None:
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    parser.frame(b"exception:InternalServerException", b"it broke")
    assert sink.failures == [
        StreamError("provider_error", "it broke", {"InternalServerException": "it broke"}, 500),
    ]


def test_error_bodies() -> None:
    coral = {"__type": "com.amazon#ThrottlingException", "message": "slow"}
    for body, message, status in (
        ({"message": "denied"}, "denied", None),
        ({"Message": "denied"}, "denied", None),
        (coral, "slow", 429),
        ({"error": {"message": "a gateway's"}}, "a gateway's", None),
        ({"error": True}, "the provider reported an error", None),
    ):
        parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
        parser.frame(b"", dumped(body))
        assert sink.failures == [StreamError("provider_error", message, body, status)]
    assert Turn("bedrock_converse").feed({"message": "x", "output": 1}) != []


def test_frames_that_are_no_events() -> None:
    parser = PROVIDER.parser(sink := RecordingSink())  # type: ignore[arg-type]
    for data in (b"nonsense", b"\xff"):
        parser.frame(b"contentBlockDelta", data)
    assert [error.kind for error in sink.failures] == ["protocol_error"] * 2
    parser.frame(b"", b"[1]")
    parser.frame(b"messageStart", b"")
    assert sink.said == [("unknown", [1])]


# ---------------------------------------------------------------- whole streams


def stream_shape() -> Any:
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("ConverseStream").output_shape.members["stream"]


class Raw:
    """A response's body as botocore reads it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def stream(self) -> Any:
        yield from (self.data[at : at + 7] for at in range(0, len(self.data), 7))

    def close(self) -> None: ...


def as_boto3_gives(data: bytes) -> list[dict[str, Any]]:
    return list(EventStream(Raw(data), stream_shape(), EventStreamJSONParser(), "ConverseStream"))


def run(*pieces: Any) -> Turn:
    turn = Turn("bedrock_converse", turn_key="turn-1")
    for piece in pieces:
        turn.feed(piece)
    turn.close()
    return turn


def summary(turn: Turn) -> dict[str, Any]:
    return {**turn.to_dict(), "content": turn.content.model_dump(mode="json")}


@pytest.fixture(params=RECORDED or [None], ids=lambda path: path.stem if path else "none")
def recorded(request: pytest.FixtureRequest) -> bytes:
    if request.param is None:
        pytest.skip("the recorded streams (../shared/captures) are not here")
    data: bytes = request.param.read_bytes()
    return data


def test_bytes_and_boto3s_dicts_say_the_same(recorded: bytes) -> None:
    whole = summary(run(recorded))
    assert whole["error"] is None
    assert summary(run(*[recorded[at : at + 11] for at in range(0, len(recorded), 11)])) == whole
    by_boto3 = summary(run(*as_boto3_gives(recorded)))
    # boto3 drops what its own model does not know: padding, and new members of usage and trace
    assert {**by_boto3, "usage": None} == {**whole, "usage": None}
    assert by_boto3["usage"]["input_tokens"] == whole["usage"]["input_tokens"]


def test_recorded_answer_is_the_same_after_emit(recorded: bytes) -> None:
    turn = run(recorded)
    assert turn.finish is not None
    frames = PROVIDER.emit(turn.content, response_id="r", model="m", finish=turn.finish.reason, usage=turn.usage)
    again = run(*frames)
    assert again.content == turn.content
    assert [(c.id, c.arguments, c.state) for c in again.calls] == [(c.id, c.arguments, c.state) for c in turn.calls]
    assert again.server_calls == turn.server_calls
    assert (again.finish.reason if again.finish else None) == turn.finish.reason


def test_first_events_are_not_waited_for() -> None:
    turn = Turn("bedrock_converse", turn_key="k")
    turn.feed(converse_frame(start(0, toolUse=use())))
    assert [type(event) for event in turn.feed(converse_frame(delta(1, text="a")))] == [Text]
    assert [type(event) for event in turn.feed(converse_frame(delta(2, reasoningContent={"text": "a"})))] == [Reasoning]
    assert [type(event) for event in turn.feed(converse_frame(delta(0, toolUse={"input": "{"})))] == [ToolCallDelta]


def test_the_turn_is_done_at_the_metadata() -> None:
    turn = Turn("bedrock_converse", turn_key="k")
    turn.feed(converse_frame(delta(0, text="a")))
    turn.feed(converse_frame(END))
    assert not turn.done
    turn.feed(converse_frame(METADATA))
    assert turn.done
    assert turn.usage is not None
    turn.close()
    assert turn.error is None


def test_detection() -> None:
    data = converse_frame({"messageStart": {"role": "assistant"}})
    assert providers.detect(data) == "bedrock_converse"
    assert providers.detect(dumped(delta(0, text="a"))) == "bedrock_converse"
    assert providers.detect(dumped({"output": {"message": {}}, "stopReason": "end_turn"})) == "bedrock_converse"
    assert not PROVIDER.traits.matches_head(amazon_frame({":event-type": "chunk"}, b"{}"))
    assert not PROVIDER.traits.matches_head(b'{"text": "messageStart"}')
    assert repr(PROVIDER) == "<provider bedrock_converse>"


def test_a_failed_response_is_the_providers_error() -> None:
    turn = Turn("bedrock_converse")
    turn.response(429, {"retry-after": "2"})
    turn.feed(json.dumps(PROVIDER.error_body(429, "slow down")).encode())
    turn.close()
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status, turn.error.retry_after) == (
        "provider_error",
        "slow down",
        429,
        2.0,
    )


# ---------------------------------------------------------------- properties

LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.binary(max_size=4))
ANY = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    [
        *(
            "text",
            "toolUse",
            "toolResult",
            "reasoningContent",
            "reasoningText",
            "citation",
            "citationsContent",
            "image",
        ),
        *("input", "toolUseId", "name", "type", "content", "source", "bytes", "redactedContent", "signature"),
        *("start", "delta", "contentBlockIndex", "stopReason", "additionalModelResponseFields", "message", "output"),
        *("usage", "trace", "promptRouter", "error", "p"),
    ]
)
SHAPED: st.SearchStrategy[Any] = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8
)
NAMES = st.sampled_from(
    [
        *("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"),
        *("fooException", "new"),
    ]
)
INDEX = st.one_of(st.integers(0, 2), LEAF)
KNOWN = st.one_of(
    st.builds(lambda i, t: delta(i, text=t), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, toolUse={"input": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, reasoningContent={"text": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, reasoningContent={"redactedContent": t}), INDEX, SHAPED),
    st.builds(lambda i, t: delta(i, toolResult=t), INDEX, SHAPED),
    st.builds(lambda i, n, t: start(i, toolUse=use("t", n, type=t)), INDEX, LEAF, SHAPED),
    st.builds(lambda i, t: start(i, toolResult=t), INDEX, SHAPED),
    st.builds(stop, INDEX),
    st.dictionaries(NAMES, SHAPED, min_size=1, max_size=1),
    st.dictionaries(NAMES | WORDS, SHAPED | ANY, max_size=2),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(KNOWN, max_size=8))
def test_random_chunks_never_raise(chunks: list[dict[str, Any]]) -> None:
    turn = run(*chunks)
    turn.to_dict()
    assert turn.content is not None


PAYLOADS = st.binary(max_size=40) | SHAPED.map(lambda value: json.dumps(value, default=str).encode())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(NAMES, PAYLOADS), min_size=1, max_size=6), st.integers(1, 50))
def test_random_frames_never_raise_and_no_cut_changes_anything(frames: list[tuple[str, bytes]], size: int) -> None:
    kinds = [("exception" if name.endswith("Exception") else "event", name, payload) for name, payload in frames]
    data = b"".join(amazon_frame({f":{kind}-type": name, ":message-type": kind}, body) for kind, name, body in kinds)
    assert summary(run(*[data[at : at + size] for at in range(0, len(data), size)])) == summary(run(data))


@settings(max_examples=100, deadline=None)
@given(st.lists(KNOWN, max_size=4), st.binary(max_size=60), st.integers(1, 20))
def test_noise_behind_frames_never_raises(chunks: list[dict[str, Any]], noise: bytes, size: int) -> None:
    named = [chunk for chunk in chunks if len(chunk) == 1]
    data = converse_frame(METADATA) + b"".join(_frame(chunk) for chunk in named) + noise
    assert summary(run(*[data[at : at + size] for at in range(0, len(data), size)])) == summary(run(data))


def _frame(chunk: dict[str, Any]) -> bytes:
    ((name, body),) = chunk.items()
    return amazon_frame({":event-type": name, ":message-type": "event"}, json.dumps(body, default=str).encode())
