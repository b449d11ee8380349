"""Answers as the stream that they would have been, read again by the parser and by the official SDK's types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from shared_data import CONFORMANCE_CASES, recorded_streams

from streamkit import Content, Turn, Usage, UsageError, providers
from streamkit.history import (
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    UnknownBlock,
)

PROVIDER = providers.get("openai_responses")
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
CASES = CONFORMANCE_CASES / "openai_responses"
OWN = {"provider": "openai_responses"}


def spoken(content: Content, **more: Any) -> list[bytes]:
    return list(PROVIDER.emit(content, response_id="resp_1", model="m-1", **more))


def heard(pieces: list[Any]) -> Turn:
    turn = Turn("openai_responses", turn_key="t")
    for piece in pieces:
        turn.feed(piece)
    turn.close()
    return turn


def events(frames: list[bytes]) -> list[dict[str, Any]]:
    found = []
    for frame in frames:
        name, data, end = frame.split(b"\n", 2)
        event = json.loads(data.removeprefix(b"data: "))
        assert (name.decode(), end) == (f"event: {event['type']}", b"\n")
        found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def said(turn: Turn) -> dict[str, Any]:
    """What must be the same after emit and parse."""
    whole = turn.to_dict()
    kept = ("text", "reasoning", "refusal", "finish", "server_calls", "executable", "calls")
    return {name: whole[name] for name in kept}


def test_an_answer_with_everything_is_what_the_sdk_expects_and_the_same_turn() -> None:
    content = Content(
        speaker="ai",
        blocks=[
            ReasoningBlock(
                text="One.",
                kind="summary",
                opaque={
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "One."}],
                    "encrypted_content": "E",
                },
                metadata=OWN,
            ),
            TextBlock(text="Searching.", metadata={**OWN, "item_id": "msg_1", "phase": "commentary"}),
            ServerToolBlock(
                id="ws_1",
                name="web_search",
                arguments={"type": "search", "query": "x"},
                result={"status": "completed"},
                raw=[
                    {
                        "type": "web_search_call",
                        "id": "ws_1",
                        "status": "completed",
                        "action": {"type": "search", "query": "x"},
                    }
                ],
                metadata=OWN,
            ),
            TextBlock(
                text="Found it.",
                metadata={
                    **OWN,
                    "item_id": "msg_2",
                    "citations": [{"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}],
                },
            ),
            TextBlock(text="And more.", metadata={**OWN, "item_id": "msg_2"}),
            ToolCallBlock(
                id="hist_tool_" + "a" * 24,
                name="look",
                parameters={"city": "Åre"},
                metadata={**OWN, "raw_id": "call_1", "item_id": "fc_1", "status": "completed", "namespace": "crm"},
            ),
            ToolCallBlock(
                id="c2",
                name="patch",
                parameters="*** Begin",
                kind="custom",
                metadata={**OWN, "raw_id": "call_2", "item_id": "ctc_1", "status": "completed"},
            ),
        ],
    )
    usage = Usage(30, 12, 4, 8, 2)
    frames = spoken(content, usage=usage, delta_size=3)
    for event in events(frames):
        if event["type"] not in ("response.output_item.added", "response.output_item.done", "response.completed"):
            EVENT.validate_python(event)  # the SDK types items more strictly than the API sends them: namespace, search
    turn = heard(frames)
    assert turn.text == "Searching.Found it.And more."
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.reasoning_tokens) == (30, 12, 4)
    assert (turn.usage.cache_read_tokens, turn.usage.cache_write_tokens) == (8, 2)
    again = turn.content.blocks
    assert [block.type for block in again] == [block.type for block in content.blocks]
    for before, after in zip(content.blocks, again, strict=True):
        stripped = {name: value for name, value in after.metadata.items() if name != "model"}
        assert stripped == before.metadata
        assert getattr(after, "opaque", None) == getattr(before, "opaque", None)
        assert getattr(after, "raw", None) == getattr(before, "raw", None)


def test_a_plain_answer_is_valid_in_every_event() -> None:
    content = Content.ai("Hello", ToolCallBlock(id="c1", name="look", parameters={"a": 1}))
    for event in events(spoken(content, usage=Usage(3, 2, 0, 0, 0))):
        EVENT.validate_python(event)


@pytest.mark.parametrize(
    ("finish", "event", "reason"),
    [
        (None, "response.completed", "stop"),
        ("stop", "response.completed", "stop"),
        ("refusal", "response.completed", "stop"),
        ("length", "response.incomplete", "length"),
        ("content_filter", "response.incomplete", "content_filter"),
        ("error", "response.failed", "error"),
    ],
)
def test_every_finish_has_its_end(finish: Any, event: str, reason: str) -> None:
    frames = spoken(Content.ai("Hi"), finish=finish)
    assert events(frames)[-1]["type"] == event
    turn = heard(frames)
    assert turn.finish is not None
    assert turn.finish.reason == reason
    assert (turn.error is None) is (finish != "error")


def test_blocks_of_other_providers_are_said_in_this_ones_words() -> None:
    content = Content.ai(
        "Hi",
        ReasoningBlock(text="Hm", kind="text", signature="S", metadata={"provider": "anthropic"}),
        ReasoningBlock(text="", metadata={"provider": "anthropic"}, opaque={"type": "redacted_thinking"}),
        ServerToolBlock(id="srv_1", name="search", arguments={"q": 1}, result=[1], metadata={"provider": "anthropic"}),
        FileBlock(media_type="image/png", data="QQ=="),
        FileBlock(media_type="image/svg+xml", data="data:image/svg+xml;base64,QQ=="),
        FileBlock(media_type="application/pdf", data="QQ=="),
        OpaqueBlock(raw={"type": "theirs"}, metadata={"provider": "anthropic"}),
        UnknownBlock(type="dance"),
    )
    turn = heard(spoken(content))
    assert turn.reasoning == "Hm"
    assert turn.content.blocks[1].opaque["encrypted_content"] == "S"
    searches = [(call.name, call.arguments, call.result) for call in turn.server_calls]
    assert searches[0] == ("search", {"q": 1}, "[1]")
    assert [call.name for call in turn.server_calls] == ["search", "image_generation", "image_generation"]
    files = [block for block in turn.content.blocks if isinstance(block, FileBlock)]
    assert [(file.media_type, file.data) for file in files] == [("image/png", "QQ=="), ("image/svg+xml", "QQ==")]
    assert turn.error is None


def test_a_call_that_was_cut_is_cut_again() -> None:
    for kind in ("function", "custom"):
        call = ToolCallBlock(
            id="c",
            name="f",
            kind=kind,
            parameters={} if kind == "function" else "{",
            metadata={"raw_arguments": "{", "state": "incomplete"},
        )
        turn = heard(spoken(Content.ai("", call), finish="length"))
        assert [(call.state, call.arguments_text) for call in turn.calls] == [("incomplete", "{")]


def test_an_id_that_the_wire_refuses_is_made_anew() -> None:
    call = ToolCallBlock(id="x" * 90, name="f", metadata={"raw_id": ""})
    (made,) = heard(spoken(Content.ai("", call))).calls
    assert made.raw_id is not None
    assert len(made.raw_id) <= 64


def test_half_a_surrogate_pair_is_said_and_heard() -> None:
    frames = PROVIDER.emit(Content.ai("Hi"), response_id="resp_1", model="m\ud83d")
    assert heard(list(frames)).text == "Hi"


def test_what_of_the_providers_own_is_no_object_is_not_said() -> None:
    turn = heard(spoken(Content.ai("Hi", ServerToolBlock(raw=[7], metadata=OWN), OpaqueBlock(raw=7, metadata=OWN))))
    assert [block.type for block in turn.content.blocks] == ["text"]


def test_a_piece_is_at_least_a_character() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        spoken(Content.ai("Hi"), delta_size=0)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_refused_request_is_read_as_the_providers_error(status: int) -> None:
    body = PROVIDER.error_body(status, "No.")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    turn = Turn("openai_responses")
    turn.response(status)
    turn.feed(json.dumps(body).encode())
    turn.close()
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status) == ("provider_error", "No.", status)


# ---------------------------------------------------------------- parse, emit, parse

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=12)
SIMPLE = st.dictionaries(st.text(max_size=4), st.none() | st.booleans() | st.integers() | TEXTS, max_size=3)
BLOCKS = st.one_of(
    TEXTS.map(lambda text: TextBlock(text=text)),
    TEXTS.map(lambda text: TextBlock(text=text, metadata={**OWN, "refusal": True})),
    st.builds(ReasoningBlock, text=TEXTS, kind=st.sampled_from(["text", "summary"])),
    TEXTS.map(
        lambda text: ReasoningBlock(
            opaque={"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": text}, metadata=OWN
        )
    ),
    st.builds(ToolCallBlock, id=st.text("abc_", min_size=1, max_size=9), name=st.just("f"), parameters=SIMPLE),
    TEXTS.map(lambda text: ToolCallBlock(id="c", name="g", parameters=text, kind="custom")),
    SIMPLE.map(lambda raw: OpaqueBlock(raw={**raw, "type": "compaction"}, metadata=OWN)),
)


@given(st.lists(BLOCKS, max_size=6), st.sampled_from([None, "length", "content_filter"]), st.integers(1, 9))
@settings(deadline=None, max_examples=120)
def test_what_is_said_is_heard(blocks: list[Any], finish: Any, piece: int) -> None:
    content = Content(speaker="ai", blocks=blocks)
    turn = heard(spoken(content, finish=finish, delta_size=piece))
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    assert turn.error is None
    assert turn.text == "".join(block.text for block in texts if "refusal" not in block.metadata)
    assert (turn.refusal or "") == "".join(block.text for block in texts if "refusal" in block.metadata)
    assert turn.reasoning == "".join(block.text for block in blocks if isinstance(block, ReasoningBlock))
    assert [(call.name, call.kind, call.arguments) for call in turn.calls] == [
        (call.name, call.kind, call.parameters) for call in calls
    ]
    opaque = [block.raw for block in turn.content.blocks if isinstance(block, OpaqueBlock)]
    assert opaque == [block.raw for block in blocks if isinstance(block, OpaqueBlock)]
    again = spoken(turn.content, finish=finish, delta_size=piece)
    assert heard(again).content == turn.content
    assert said(heard(again)) == said(turn)


def test_recorded_answers_are_the_same_after_emit_and_parse() -> None:
    for stream in recorded_streams("openai_responses", ".sse"):
        turn = heard([stream.data])
        if turn.error is None and turn.finish is not None:
            frames = PROVIDER.emit(
                turn.content,
                response_id=turn.response_id or "resp_1",
                model=turn.model or "m",
                finish=turn.finish.reason,
                usage=turn.usage,
            )
            again = heard(list(frames))
            assert again.content == turn.content, str(stream)
            assert said(again) == said(turn), str(stream)


@pytest.mark.parametrize(
    "case",
    [path for path in sorted(CASES.glob("*.json")) if "chunks" in json.loads(path.read_text("utf-8"))],
    ids=lambda path: path.stem,
)
def test_cases_that_end_well_are_the_same_after_emit_and_parse(case: Path) -> None:
    turn = heard(json.loads(case.read_text("utf-8"))["chunks"])
    if turn.error is not None or turn.finish is None or turn.warnings:
        return
    frames = spoken(turn.content, finish=turn.finish.reason)
    again = heard(frames)
    for before, after in zip(turn.calls, again.calls, strict=True):
        assert (after.name, after.kind, after.arguments) == (before.name, before.kind, before.arguments)
        assert after.raw_id == (before.raw_id or after.raw_id)  # this wire has no call without one
    assert (again.text, again.reasoning, again.refusal) == (turn.text, turn.reasoning, turn.refusal)
    assert again.finish == turn.finish
    assert [block.type for block in again.content.blocks] == [block.type for block in turn.content.blocks]
    for before, after in zip(turn.content.blocks, again.content.blocks, strict=True):
        if isinstance(before, ReasoningBlock) and before.opaque is not None:
            assert after.opaque == before.opaque
