"""Texts, refusals and reasoning in Responses streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from providers.openai_responses.recording_sink import (
    call_item,
    item_added,
    item_done,
    message_item,
    output_text,
    parse_content,
    reasoning_item,
    record,
    record_frames,
    response_end,
    text_delta,
)

# ---------------------------------------------------------------- text


def test_text_has_the_id_and_phase_of_its_message_in_its_metadata() -> None:
    records = record(item_added(message_item(phase="commentary")), text_delta("a"), text_delta("b"))
    assert records == [
        ("text", "a", 0),
        ("add_metadata", {"item_id": "msg_1", "phase": "commentary"}, 0),
        ("text", "b", 0),
    ]


def test_the_last_id_of_a_message_is_in_the_metadata() -> None:
    content = parse_content(
        item_added(message_item(id="a")),
        text_delta("Hi", "b"),
        item_done(message_item(output_text("Hi"), id="c")),
        response_end(),
    )
    assert content.blocks[0].metadata["item_id"] == "c"


def test_a_part_that_was_streamed_with_another_index_is_not_repeated() -> None:
    assert [
        event
        for event in record(text_delta("Hi", content_index=1), item_done(message_item(output_text("Hi"))))
        if event[0] == "text"
    ] == [("text", "Hi", 0)]


@pytest.mark.parametrize("index", [-5, 10**6, None, "0", [0], {}])
def test_an_invalid_index_of_a_part_is_accepted(index: Any) -> None:
    records = record(text_delta("Hi", content_index=index), item_done(message_item(output_text("Hi"))), response_end())
    assert [event[1] for event in records if event[0] == "text"] == ["Hi"]


def test_parts_of_one_message_are_blocks_of_one_item() -> None:
    content = parse_content(text_delta("a"), text_delta("b", content_index=1), response_end())
    assert [(block.text, block.metadata["item_id"]) for block in content.blocks] == [("a", "msg_1"), ("b", "msg_1")]


def test_initial_text_counts_if_nothing_follows() -> None:
    records = record(item_added(message_item(output_text("Hi"))), response_end())
    assert [event[1] for event in records if event[0] == "text"] == ["Hi"]
    part = {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0}
    records = record(item_added(message_item()), part | {"part": output_text("Ho")}, response_end())
    assert [event[1] for event in records if event[0] == "text"] == ["Ho"]


def test_initial_text_is_emitted_once_with_two_terminators() -> None:
    records = record_frames(
        (b"", json.dumps(item_added(message_item(output_text("Hi")))).encode()),
        (b"", json.dumps(response_end()).encode()),
        (b"", b"[DONE]"),
    )
    assert [event[1] for event in records if event[0] == "text"] == ["Hi"]


def test_a_citation_before_its_text_starts_the_block() -> None:
    annotation = {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "annotation": {"url": "u"},
    }
    content = parse_content(item_added(message_item()), annotation, text_delta("Hi"), response_end())
    assert [(block.text, block.metadata["citations"]) for block in content.blocks] == [("Hi", [{"url": "u"}])]


def test_initial_parts_without_text_or_of_unknown_kind_are_ignored() -> None:
    item = message_item({"type": "output_text", "text": None}, {"type": "hologram"}, output_text("Hi"))
    assert [event[:2] for event in record(item_added(item), response_end()) if event[0] in ("text", "unknown")] == [
        ("text", "Hi")
    ]


def test_a_part_of_an_unknown_kind_is_reported_once() -> None:
    item = message_item({"type": "hologram"})
    assert [event for event in record(item_done(item), response_end(output=[item])) if event[0] == "unknown"] == [
        ("unknown", {"type": "hologram"})
    ]


def test_content_that_is_a_string_is_a_part() -> None:
    assert ("text", "Hi", 0) in record(item_done({"type": "message", "id": "msg_1", "content": "Hi"}))


def test_a_message_without_a_type_is_recognized_by_its_role() -> None:
    assert ("text", "Hi", 0) in record(item_done({"role": "assistant", "content": [{"text": "Hi"}]}))


def test_a_refusal_keeps_its_first_item_id() -> None:
    refused = message_item({"type": "refusal", "refusal": "No"}, id="b")
    records = record(
        item_added(message_item(id="a")), {"type": "response.refusal.done", "refusal": "No"}, item_done(refused)
    )
    assert records[:2] == [("refusal", "No", 0), ("add_metadata", {"item_id": "a"}, 0)]


def test_a_refusal_has_the_id_of_its_message_in_its_metadata() -> None:
    refused = {
        "type": "response.refusal.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": "No",
    }
    assert record(item_added(message_item()), refused, refused) == [
        ("refusal", "No", 0),
        ("add_metadata", {"item_id": "msg_1"}, 0),
        ("refusal", "No", 0),
    ]


@pytest.mark.parametrize("delta", [None, 7, [], ["a"], {"x": 1}])
def test_a_delta_that_is_not_text_is_unknown(delta: Any) -> None:
    event = text_delta(delta)
    assert record(item_added(message_item()), event) == [("unknown", event)]


# ---------------------------------------------------------------- reasoning


def test_the_reasoning_item_is_kept_complete_with_its_first_block() -> None:
    complete = reasoning_item("One.", "Two.", encrypted_content="E", status=None)
    content = parse_content(
        item_added(reasoning_item()), item_done(complete), response_end(output=[{**complete, "encrypted_content": "F"}])
    )
    assert [(block.text, block.kind, block.opaque) for block in content.blocks] == [
        ("One.", "summary", complete),
        ("Two.", "summary", None),
    ]
    assert content.blocks[1].metadata["summary_index"] == 1


def test_the_state_of_reasoning_that_only_the_final_output_has_is_added_to_its_item() -> None:
    complete = reasoning_item("One.", "Two.")
    final = {"type": "reasoning", "id": complete["id"], "role": "assistant", "status": "completed", "content": []}
    events = [
        item_added(reasoning_item()),
        item_done(complete),
        item_added(call_item(), 1),
        item_done(call_item("{}"), 1),
    ]
    content = parse_content(*events, response_end(output=[{**final, "encrypted_content": "E"}, call_item("{}")]))
    assert [block.type for block in content.blocks] == ["reasoning", "reasoning", "tool_call"]
    assert content.blocks[0].opaque == {**complete, "encrypted_content": "E"}
    assert content.blocks[1].opaque is None


def test_reasoning_without_an_end_is_taken_from_the_final_output() -> None:
    complete = reasoning_item(encrypted_content="E")
    content = parse_content(
        item_added(reasoning_item()), item_added(call_item(), 1), response_end(output=[complete, call_item("{}")])
    )
    assert [block.type for block in content.blocks] == ["reasoning", "tool_call"]
    assert content.blocks[0].opaque == complete


def test_raw_reasoning_with_a_summary_is_a_separate_block() -> None:
    complete = reasoning_item("Sum.", content=[{"type": "reasoning_text", "text": "Raw."}])
    content = parse_content(item_done(complete), response_end())
    assert [(block.text, block.kind, block.opaque) for block in content.blocks] == [
        ("Sum.", "summary", complete),
        ("Raw.", "text", None),
    ]
    assert content.blocks[1].metadata["content_index"] == 0


def test_plain_text_parts_of_reasoning_are_reasoning() -> None:
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    part = {"type": "response.content_part.done", **where, "part": {"type": "text", "text": "Hm"}}
    records = record(
        item_added(reasoning_item()), part, item_done({**reasoning_item(), "content": [{"type": "text", "text": "Hm"}]})
    )
    assert [event[:3] for event in records if event[0] in ("text", "reasoning")] == [
        ("reasoning", "", "summary"),
        ("reasoning", "Hm", "text"),
    ]


@pytest.mark.parametrize(
    ("kind", "index", "sent"),
    [("reasoning_summary_text", "summary_index", "summary"), ("reasoning_text", "content_index", "text")],
)
def test_reasoning_deltas_keep_their_part_on_the_fast_path(kind: str, index: str, sent: str) -> None:
    def delta(text: str, at: int) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "item_id": "rs_1", "output_index": 0, index: at, "delta": text}

    records = record(
        item_added(reasoning_item()), delta("a", 0), delta("b", 0), delta("c", 1), delta("d", 1), delta("e", 0)
    )
    keys = [(event[1], event[2], event[3]) for event in records if event[0] == "reasoning"][1:]
    assert keys == [("a", sent, 0), ("b", sent, 0), ("c", sent, 1), ("d", sent, 1), ("e", sent, 0)]
