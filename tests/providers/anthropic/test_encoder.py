"""The Anthropic encoder: its stream is one of this wire, and the parser reads the same content from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import providers, writer
from streamkit.calls import Usage
from streamkit.events import Compaction, Finished, Unknown
from streamkit.history import (
    Content,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.reading.turn import Turn

PROVIDER = providers.get("anthropic")
OWN = {"provider": "anthropic", "model": "m"}


def encode(content: Content, **options: Any) -> bytes:
    return b"".join(PROVIDER.emit(content, response_id="msg_1", model="m", **options))


def read(data: bytes, turn_key: str = "turn-1") -> Turn:
    turn = Turn("anthropic", turn_key=turn_key)
    turn.feed(data)
    turn.close()
    return turn


def events(data: bytes) -> list[dict[str, Any]]:
    result = []
    for event in data.decode().split("\n\n")[:-1]:
        name, payload = event.split("\n")
        result.append(json.loads(payload.removeprefix("data: ")))
        assert name == f"event: {result[-1]['type']}"
    return result


def test_call_is_encoded_as_the_api_streams_it() -> None:
    call = ToolCallBlock(id="x", name="w", parameters={"city": "Paris"}, metadata={"raw_id": "toolu_1"})
    sent = events(encode(Content.ai("Hi", call), delta_size=8, usage=Usage(30, 7, 3, 4, 1)))
    assert [event["type"] for event in sent] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert sent[0]["message"]["usage"] == {
        "input_tokens": 25,
        "cache_creation_input_tokens": 1,
        "cache_read_input_tokens": 4,
        "output_tokens": 1,
    }
    assert sent[5]["content_block"] == {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {}}
    deltas = [event["delta"]["partial_json"] for event in sent[6:9]]
    assert deltas[0] == ""
    assert json.loads("".join(deltas)) == {"city": "Paris"}
    assert sent[-2]["delta"]["stop_reason"] == "tool_use"
    assert sent[-2]["usage"]["output_tokens_details"] == {"thinking_tokens": 3}


def test_call_without_arguments_has_an_empty_object() -> None:
    sent = events(encode(Content.ai("", ToolCallBlock(id="t", name="now"))))
    assert [event["delta"] for event in sent if event["type"] == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": "{}"},
    ]


def test_content_with_every_block_is_parsed_unchanged() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    server_result = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"encrypted_content": "E"}],
    }
    content = Content.ai(
        "",
        ReasoningBlock(text="thinking about it", signature="SIGNATURE", metadata=OWN),
        ReasoningBlock(opaque={"type": "redacted_thinking", "data": "OPAQUE"}, metadata=OWN),
        ServerToolBlock(
            id="srvtoolu_1",
            name="web_search",
            arguments={"query": "x"},
            result=[{"encrypted_content": "E"}],
            raw=[use, server_result],
            metadata=OWN,
        ),
        TextBlock(text="It is so. ☃", metadata={**OWN, "citations": [{"type": "x", "url": "u"}]}),
        OpaqueBlock(raw={"type": "container_upload", "file_id": "f"}, metadata=OWN),
        ToolCallBlock(
            id="t", name="w", parameters={"a": "é"}, metadata={**OWN, "raw_id": "t", "caller": {"type": "direct"}}
        ),
    )
    usage = Usage(12, 9, 4, 3, 2)
    turn = read(encode(content, usage=usage))
    assert turn.error is None
    assert turn.warnings == []
    parsed = [block.model_dump() for block in turn.content.blocks]
    expected = [block.model_dump() for block in content.blocks]
    assert parsed[:-1] == expected[:-1]
    assert parsed[-1] == {**expected[-1], "id": turn.calls[0].id}
    assert turn.finish is not None
    assert (turn.finish.reason, turn.finish.raw) == ("tool_calls", "tool_use")
    assert turn.usage is not None
    assert turn.usage.updated_with(Usage()) == usage.updated_with(Usage())


@pytest.mark.parametrize(
    ("finish", "stop_reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("refusal", "refusal"),
        ("content_filter", "refusal"),
        ("pause", "pause_turn"),
        ("other", "other"),
        (None, "end_turn"),
    ],
)
def test_every_finish_reason_has_a_stop_reason(finish: Any, stop_reason: str) -> None:
    turn = read(encode(Content.ai("x"), finish=finish))
    assert turn.finish is not None
    assert turn.finish.raw == stop_reason


def test_error_as_finish_reason_is_an_error_event() -> None:
    turn = read(encode(Content.ai("x"), finish="error"))
    assert turn.error is not None
    assert turn.error.kind == "provider_error"
    assert turn.text == "x"


def test_refusal_is_parsed_as_a_refusal() -> None:
    turn = read(encode(Content.ai("", TextBlock(text="No.", metadata={"refusal": True}))))
    assert turn.refusal == "No."
    assert turn.text == ""
    assert turn.finish is not None
    assert turn.finish.reason == "refusal"
    assert [warning.code for warning in turn.warnings] == ["stop_details"]


def test_truncated_arguments_stay_truncated() -> None:
    call = ToolCallBlock(id="t", name="w", metadata={"raw_arguments": '{"a":"b'})
    turn = read(encode(Content.ai("", call), finish="length"))
    assert [(parsed.state, parsed.arguments_text) for parsed in turn.calls] == [("incomplete", '{"a":"b')]


def test_blocks_of_other_providers_are_encoded_in_the_form_of_this_wire() -> None:
    content = Content.ai(
        "",
        ReasoningBlock(text="plan", kind="summary", metadata={"provider": "x"}),
        ServerToolBlock(id=None, name="search", arguments={"q": 1}, result={"r": 2}),
        ServerToolBlock(id="s2", name="unanswered"),
        ServerToolBlock(name="odd", raw=["text"]),
        ToolCallBlock(id="t", name="w", parameters="free", kind="custom"),
        ImageBlock(data="https://e.org/a.png"),
    )
    turn = read(encode(content))
    assert turn.error is None
    assert turn.reasoning == "plan"
    assert [(call.name, call.arguments, call.result) for call in turn.server_calls] == [
        ("search", {"q": 1}, {"r": 2}),
        ("unanswered", {}, None),
    ]
    assert turn.calls[0].arguments == {"input": "free"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (418, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_every_status_has_an_error_type(status: int, kind: str) -> None:
    assert PROVIDER.error_body(status, "m") == {"type": "error", "error": {"type": kind, "message": "m"}}


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_objects = st.dictionaries(st.text(max_size=4), _json_values, max_size=3)
_blocks = st.one_of(
    st.builds(TextBlock, text=st.text(min_size=1), metadata=st.just(OWN)),
    st.builds(
        ReasoningBlock,
        text=st.text(min_size=1),
        signature=st.none() | st.text(min_size=1, max_size=9),
        metadata=st.just(OWN),
    ),
    st.builds(
        ReasoningBlock,
        opaque=st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": st.text()}),
        metadata=st.just(OWN),
    ),
    st.builds(
        OpaqueBlock,
        raw=_objects.map(lambda fields: {**fields, "type": "new_kind"}),
        metadata=st.just(OWN),
    ),
    st.builds(ToolCallBlock, id=st.just("t"), name=st.text(min_size=1, max_size=5), parameters=_objects),
)


@given(st.lists(_blocks, min_size=1, max_size=5), st.integers(1, 20))
def test_encoded_content_is_parsed_as_the_same_turn(blocks: list[Any], delta_size: int) -> None:
    for number, block in enumerate(blocks):
        if isinstance(block, ToolCallBlock):
            block.metadata = {**OWN, "raw_id": f"toolu_{number}"}
    turn = read(encode(Content.ai("", *blocks), delta_size=delta_size))
    assert turn.error is None
    parsed = [block.model_dump(exclude={"id"}) for block in turn.content.blocks]
    assert parsed == [block.model_dump(exclude={"id"}) for block in blocks]
    again = read(encode(turn.content, delta_size=delta_size))
    assert again.content == turn.content


def write_again(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events that a writer of this wire makes of the events of a message with these blocks."""
    turn, live = Turn("anthropic", turn_key="turn-1"), writer("anthropic")
    message = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": list(blocks)}
    written = [live.write(event) for event in turn.feed({**message, "stop_reason": "end_turn"})]
    written += [live.write(event) for event in turn.close()]
    sent = b"".join([*written, live.close()])
    assert read(sent).content.blocks == turn.content.blocks
    return events(sent)


@pytest.mark.parametrize(
    "blocks",
    [
        [
            {"type": "server_tool_use", "id": "s", "name": "tool_search_tool_bm25", "input": {"query": "x"}},
            {"type": "tool_search_tool_result", "tool_use_id": "s", "content": {"tool_references": []}},
        ],
        [
            {"type": "mcp_tool_use", "id": "s", "name": "ask", "input": {}, "server_name": "files"},
            {"type": "mcp_tool_result", "tool_use_id": "s", "content": [], "is_error": False},
        ],
        [
            {
                "type": "server_tool_use",
                "id": "s",
                "name": "web_search",
                "input": {"query": "x"},
                "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": [],
                "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
            },
        ],
        [{"type": "container_upload", "file_id": "f"}],
        [{"type": "mcp_tool_listing", "mcp_server_name": "files", "tools": []}],
        [{"type": "compaction", "content": None}],
        [{"type": "compaction", "content": "The summary", "encrypted_content": "E", "signature": "S"}],
    ],
)
def test_blocks_of_this_wire_are_written_as_they_came(blocks: list[dict[str, Any]]) -> None:
    sent = write_again(*blocks)
    starts = [event["content_block"] for event in sent if event["type"] == "content_block_start"]
    assert [block.keys() for block in starts] == [block.keys() for block in blocks]
    assert [block["type"] for block in starts] == [block["type"] for block in blocks]


def test_a_summary_is_a_delta() -> None:
    sent = write_again({"type": "compaction", "content": "The summary", "encrypted_content": "E"})
    assert [event.get("content_block") or event.get("delta") for event in sent[1:4] if event["type"] != "ping"] == [
        {"type": "compaction", "content": None, "encrypted_content": None},
        {"type": "compaction_delta", "content": "The summary", "encrypted_content": "E"},
    ]
    body, block = writer("anthropic", stream=False), {"type": "compaction", "content": "The summary"}
    sent_body = b"".join([body.write(Compaction("The summary", block)), body.write(Finished("stop")), body.close()])
    assert json.loads(sent_body)["content"] == [block]


def test_another_providers_block_of_an_equal_type_is_left_out() -> None:
    live = writer("anthropic")
    live.write(Compaction(None, {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"}))
    live.write(Unknown(3))
    assert list(live.omitted) == ["compaction", "unknown"]
