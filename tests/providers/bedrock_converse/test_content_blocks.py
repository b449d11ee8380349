"""The content blocks of a Converse message, as the parser reports them to its sink."""

from __future__ import annotations

from typing import Any

import pytest
from converse_events import END, PROVIDER, delta, read, start, stop, use
from recording_sink import RecordingSink, call_delta, call_start

from streamkit import Turn


def test_text_needs_no_start_and_padding_is_ignored() -> None:
    sink = read({"messageStart": {"role": "assistant", "p": "abc"}}, delta(0, text="a"), delta(0, text="b"), stop(0))
    assert sink.reported == [("heartbeat",), ("text", "a", 0), ("text", "b", 0), ("end_block", 0)]


def test_every_argument_delta_is_reported_at_once() -> None:
    sink = read(start(1, toolUse=use()), delta(1, toolUse={"input": ""}), delta(1, toolUse={"input": "{"}), stop(1))
    assert sink.reported == [call_start("t1", "w", 0), call_delta("{", 0), ("end_block", 0)]


def test_signature_without_text_opens_reasoning() -> None:
    sink = read(delta(0, reasoningContent={"signature": "s1"}), delta(0, reasoningContent={"signature": "s2"}), stop(0))
    assert sink.reported == [
        ("reasoning", "", "text", 0),
        ("add_metadata", {"signature": "s1"}, 0),
        ("add_metadata", {"signature": "s2"}, 0),
        ("end_block", 0),
    ]


def test_redacted_reasoning_is_kept_as_the_block_to_send_back() -> None:
    sink = read(delta(0, reasoningContent={"redactedContent": "QUJD"}), stop(0))
    block = {"reasoningContent": {"redactedContent": "QUJD"}}
    assert sink.reported == [("reasoning", "", "text", 0), ("add_metadata", {"opaque": block}, 0), ("end_block", 0)]
    # boto3 yields bytes; here in two deltas, as a stream may split them
    parser = PROVIDER.parser(sink := RecordingSink())
    parser.chunk(delta(0, reasoningContent={"redactedContent": b"AB"}))
    parser.chunk(delta(0, reasoningContent={"redactedContent": bytearray(b"C")}))
    parser.chunk(stop(0))
    assert sink.reported[1] == ("add_metadata", {"opaque": block}, 0)


def test_redacted_parts_that_are_not_base64_are_joined_as_text() -> None:
    sink = read(*[delta(0, reasoningContent={"redactedContent": part}) for part in "?!"], END)
    assert sink.reported[1] == ("add_metadata", {"opaque": {"reasoningContent": {"redactedContent": "?!"}}}, 0)


def test_server_tool_is_reported_complete_with_the_blocks_to_send_back() -> None:
    sent_back = {"toolUse": use("s1", "nova_grounding", type="server_tool_use", input={"query": "x"})}
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
    assert sink.reported == [
        ("server_tool", "s1", "nova_grounding", "started"),
        ("server_tool_delta", "s1", "nova_grounding", '{"query":'),
        ("server_tool_delta", "s1", "nova_grounding", '"x"}'),
        ("server_tool", "s1", "nova_grounding", "arguments", {"query": "x"}, sent_back),
        ("server_tool", "s1", "nova_grounding", "result", content, {"toolResult": {**result, "content": content}}),
    ]


def test_truncated_arguments_of_a_server_tool_are_reported_and_not_sent_back() -> None:
    sink = read(start(0, toolUse=use("s1", "n", type="server_tool_use")), delta(0, toolUse={"input": '{"q'}), END)
    sent_back = {"toolUse": use("s1", "n", type="server_tool_use", input={})}
    assert sink.reported[1:3] == [
        ("server_tool_delta", "s1", "n", '{"q'),
        ("server_tool", "s1", "n", "arguments", '{"q', sent_back),
    ]


def test_result_without_its_call_is_named_by_its_type() -> None:
    sink = read(start(0, toolResult={"toolUseId": "s9", "type": "nova_grounding_result"}), stop(0))
    assert sink.reported[0][1:5] == ("s9", "nova_grounding", "result", [])


def test_call_of_type_tool_use_is_a_client_call() -> None:
    assert read(start(0, toolUse=use(type="tool_use"))).reported == [call_start("t1", "w", 0)]


def test_citation_before_any_text_opens_a_text() -> None:
    assert read(delta(1, citation={"title": "x"})).reported == [("text", "", 0), ("citation", {"title": "x"}, 0)]
    sink = read(delta(0, text="a"), stop(0), delta(1, citation={"title": "x"}))
    assert sink.reported[-1] == ("citation", {"title": "x"})
    assert len(sink.reported) == 3


def test_images_are_files() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "QUJD"}}}
    deltas = [delta(0, image={"source": {"bytes": part}}) for part in ("QUI=", "Qw==")]
    assert read(start(0, image={"format": "png"}), *deltas).reported == []
    assert read(start(0, image={"format": "png"}), *deltas, stop(0)).reported == [
        ("file", "image/png", "QUJD", None, image)
    ]
    sink = read(start(0, image={"format": "png"}), delta(0, image={"source": {"bytes": "QUJD"}}), stop(0))
    assert sink.reported == [("file", "image/png", "QUJD", None, image)]
    source = {"s3Location": {"uri": "s3://b/k"}}
    sink = read(start(0, image={"format": "gif"}), delta(0, image={"source": source}), stop(0))
    assert sink.reported == [("file", "image/gif", None, "s3://b/k", {"image": {"format": "gif", "source": source}})]
    assert read(start(0, image={"format": "gif"}), stop(0)).reported == []
    assert (
        read(start(0, image={"format": "gif"}), delta(0, image={"error": {"message": "x"}})).reported[0][0] == "unknown"
    )


def test_chunks_of_unexpected_shape_are_unknown() -> None:
    unexpected = [
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
    assert read(*unexpected).reported == [("unknown", chunk) for chunk in unexpected]
    assert read(start(0, hologram={"size": 3})).reported == [("provider_block", {"hologram": {"size": 3}})]
    assert read(start(0), {"contentBlockStart": {"contentBlockIndex": 1}}, delta(0), delta(0, text=None)).reported == []


@pytest.mark.parametrize("before", [0, 2])
def test_unknown_fields_of_deltas_are_reported_wherever_they_first_appear(before: int) -> None:
    sink = read(
        *[delta(0, text="x")] * before,
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "y"}, "p": "ab", "sequence": 1}},
        delta(1, reasoningContent={"text": "hm", "mood": "calm", "absent": None}),
        start(2, toolUse=use("t1", "w", priority=2)),
        delta(2, toolUse={"input": "{}", "format": "json"}),
        {"contentBlockStop": {"contentBlockIndex": 2, "p": "ab", "usage": 3}},
    )
    assert sink.select("unknown_field") == [
        ("unknown_field", "sequence", 1),
        ("unknown_field", "reasoningContent.mood", "calm"),
        ("unknown_field", "toolUse.priority", 2),
        ("unknown_field", "toolUse.format", "json"),
        ("unknown_field", "usage", 3),
    ]
    assert sink.select("text") == [*[("text", "x", 0)] * before, ("text", "y", 0)]
    assert sink.select("unknown") == []


@pytest.mark.parametrize("index", ["0", 0.0])
def test_an_index_of_another_type_is_the_same_index(index: Any) -> None:
    sink = read(start(0, toolUse=use("t1", "w")), delta(index, toolUse={"input": '{"a":1}'}), stop(index))
    assert sink.reported == [call_start("t1", "w", 0), call_delta('{"a":1}', 0), ("end_block", 0)]


def test_an_index_that_is_text_identifies_a_block_and_a_list_counts_as_absent() -> None:
    sink = read(delta("a", text="1"), delta(None, text="2"), delta([1], text="3"), delta("a", text="4"))
    assert sink.reported == [("text", "1", 0), ("text", "2", 1), ("text", "3", 1), ("text", "4", 0)]


def test_input_nested_too_deeply_is_a_limit_error() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    turn = Turn(PROVIDER, "turn-1")
    turn.feed(delta(0, toolUse={"input": deep}))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    PROVIDER.parser(sink := RecordingSink()).frame(b"contentBlockDelta", b'{"delta":' + b"[" * 100_000)
    assert [error.kind for error in sink.errors] == ["limit_exceeded"]
    while deep:  # deallocating such an object at once would recurse as deep
        deep = deep.pop("a", None)


@pytest.mark.parametrize("where", ["input", "index", "reason"])
def test_nesting_of_any_depth_is_read_or_is_a_limit_error(where: str) -> None:
    for depth in range(700, 1010):
        deep = b"[" * depth + b"]" * depth
        parser = PROVIDER.parser(sink := RecordingSink())
        if where == "input":
            parser.frame(b"contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"toolUse":{"input":%b}}}' % deep)
        elif where == "index":
            parser.frame(b"contentBlockDelta", b'{"contentBlockIndex":%b,"delta":{"text":"a"}}' % deep)
        else:
            parser.frame(b"messageStop", b'{"stopReason":%b}' % deep)
        assert sink.reported or [error.kind for error in sink.errors] == ["limit_exceeded"]


def test_every_member_of_a_delta_is_reported() -> None:
    sink = read(
        delta(0, text="a", reasoningContent={"text": "b"}),
        delta(0, text="c", toolUse={"input": ""}),
        delta(0, text=""),
        delta(0, reasoningContent={"text": "d", "signature": "s"}),
    )
    assert sink.reported == [
        *(("text", "a", 0), ("reasoning", "", "text", 1), ("reasoning", "b", "text", 1)),
        ("text", "c", 0),
        *(("reasoning", "d", "text", 1), ("add_metadata", {"signature": "s"}, 1)),
    ]


def test_encrypted_reasoning_replaces_a_buffered_block_at_its_index() -> None:
    sink = read(
        start(0, toolUse=use(None, None, type="server_tool_use")),
        delta(0, reasoningContent={"redactedContent": "QQ=="}),
    )
    assert [entry[:4] for entry in sink.reported] == [
        ("server_tool", None, "", "started"),
        ("server_tool", None, "", "arguments"),
        ("reasoning", "", "text", 1),
    ]


def test_complete_response_may_have_blocks_of_every_kind() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"ABC"}}}
    use_block = {"toolUse": use("s1", "n", type="server_tool_use", input={"q": 1})}
    result = {"toolResult": {"toolUseId": "s1", "status": "success", "content": [{"text": "x"}]}}
    document = {"document": {"name": "d"}}
    content = [use_block, result, image, document, {"toolUse": use("t1", "w")}, "odd", {"text": None}, {"text": 5}]
    parser = PROVIDER.parser(sink := RecordingSink())
    parser.chunk({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"})
    assert sink.reported == [
        ("server_tool", "s1", "n", "started"),
        ("server_tool", "s1", "n", "arguments", {"q": 1}, use_block),
        ("server_tool", "s1", "n", "result", [{"text": "x"}], result),
        ("file", "image/png", "QUJD", None, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}),
        ("provider_block", document),
        call_start("t1", "w", 3),
        ("end_block", 3),
        ("unknown", "odd"),
        ("provider_block", {"text": 5}),
        ("finish", "tool_use", "tool_calls"),
        ("terminate",),
    ]
    parser = PROVIDER.parser(sink := RecordingSink())
    parser.chunk({"output": {"message": {"content": None}}, "stopReason": "end_turn", "ResponseMetadata": {}})
    assert sink.reported == [("finish", "end_turn", "stop"), ("terminate",)]
