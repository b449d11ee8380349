"""What the Responses parser tells its sink, event by event, and what a turn makes of it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import Turn, providers
from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.openai_responses import OpenAIResponses
from streamkit.providers.openai_responses.schema import (
    CLIENT_ITEMS,
    END_STATUSES,
    PROGRESS_EVENTS,
    SERVER_TOOL_ITEMS,
    TEXT_DELTA_EVENTS,
    TEXT_DONE_EVENTS,
)


class RecordingSink:
    """Writes down what it is told, as tuples; it is its own only choice."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def text(self, text: str, key: Hashable = None) -> None:
        self.said.append(("text", text, key))

    def reasoning(self, text: str, kind: str = "text", key: Hashable = None) -> None:
        self.said.append(("reasoning", text, kind, key))

    def refusal(self, text: str) -> None:
        self.said.append(("refusal", text))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self.said.append(("add_metadata", dict(metadata), key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        if chunk.type == "start":
            self.said.append(("start", chunk.id, chunk.name, chunk.kind, chunk.key, chunk.metadata))
        elif chunk.arguments_delta is not None:
            self.said.append(("arguments", chunk.arguments_delta, chunk.key))
        else:
            self.said.append(("completed", chunk.id, chunk.name, chunk.key, chunk.metadata))

    def end_block(self, key: Hashable) -> None:
        self.said.append(("end_block", key))

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        self.said.append(("replace_arguments", key, arguments_text))

    def server_tool(self, id: str | None, name: str, phase: str, data: Any = None, *, raw: Any = None) -> None:
        self.said.append(("server_tool", id, name, phase, data, raw))

    def citation(self, data: Any) -> None:
        self.said.append(("citation", data))

    def file(self, media_type: str | None, data: str | None = None, url: str | None = None, *, raw: Any = None) -> None:
        self.said.append(("file", media_type, data))

    def provider_block(self, raw: Any) -> None:
        self.said.append(("provider_block", raw))

    def finish(self, raw: str | int | None, reason: str) -> None:
        self.said.append(("finish", raw, reason))

    def identify(self, response_id: str | None, model: str | None) -> None:
        self.said.append(("identify", response_id, model))

    def usage(self, usage: Usage) -> None:
        self.said.append(("usage", usage))

    def terminate(self) -> None:
        self.said.append(("terminate",))

    def heartbeat(self) -> None:
        self.said.append(("heartbeat",))

    def fail(self, error: StreamError) -> None:
        self.said.append(("fail", error.kind, error.message, error.status))

    def warn(self, code: str, message: str) -> None:
        self.said.append(("warn", code))

    def unknown(self, raw: object) -> None:
        self.said.append(("unknown", raw))


PROVIDER = OpenAIResponses("openai_responses")


def read(*events: Any) -> list[tuple[Any, ...]]:
    """What the events say through the dict door and through the bytes door, which must be the same."""
    dicts, frames = RecordingSink(), RecordingSink()
    by_dict, by_frame = PROVIDER.parser(dicts), PROVIDER.parser(frames)
    for event in events:
        by_dict.chunk(json.loads(json.dumps(event)))
        by_frame.frame(b"", json.dumps(event).encode())
    assert dicts.said == frames.said
    return dicts.said


def frames(*pairs: tuple[bytes, bytes]) -> list[tuple[Any, ...]]:
    sink = RecordingSink()
    parser = PROVIDER.parser(sink)
    for name, data in pairs:
        parser.frame(name, data)
    return sink.said


def added(item: dict[str, Any], index: Any = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: dict[str, Any], index: Any = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def call(arguments: Any = "", id: Any = "fc_1", call_id: Any = "call_1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": id, "call_id": call_id, "name": "f", "arguments": arguments, **fields}


def piece(text: Any, item_id: Any = "fc_1", index: Any = 0) -> dict[str, Any]:
    return {
        "type": "response.function_call_arguments.delta",
        "item_id": item_id,
        "output_index": index,
        "delta": text,
    }


def text_piece(text: Any, item_id: Any = "msg_1", index: Any = 0, content_index: Any = 0) -> dict[str, Any]:
    where = {"item_id": item_id, "output_index": index, "content_index": content_index}
    return {"type": "response.output_text.delta", **where, "delta": text}


def message(*content: dict[str, Any], id: Any = "msg_1", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "content": list(content), **fields}


def output_text(text: Any, *annotations: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def end(status: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "resp_1", "model": "m", "status": status, **response}}


def content_of(*events: dict[str, Any]) -> Any:
    turn = Turn("openai_responses", turn_key="t")
    for event in events:
        turn.feed(event)
    turn.close()
    return turn.content


# ---------------------------------------------------------------- calls


def test_a_call_has_one_key_whatever_its_events_name() -> None:
    said = read(added(call()), piece("{", "fc_1"), piece("}", "call_1", None), piece(" ", "else", 0), done(call("{} ")))
    assert said == [
        ("start", "call_1", "f", "function", 0, {"item_id": "fc_1"}),
        ("arguments", "{", 0),
        ("arguments", "}", 0),
        ("arguments", " ", 0),
        ("completed", None, None, 0, {"item_id": "fc_1"}),
        ("replace_arguments", 0, "{} "),
        ("end_block", 0),
    ]


def test_a_piece_goes_on_under_the_id_that_it_names_though_its_place_says_another() -> None:
    said = read(added(call(), 0), added(call("", "fc_2", "call_2"), 1), piece("{", "fc_1", 1), piece("[", "fc_2", 0))
    assert said[2:] == [("arguments", "{", 0), ("arguments", "[", 1)]


def test_pieces_of_calls_in_turn_keep_to_their_calls_on_the_short_path_too() -> None:
    turn = [piece("a", "fc_1", 0), piece("b", "fc_2", 1)]
    said = read(added(call(), 0), added(call("", "fc_2", "call_2"), 1), *turn, *turn, *turn)
    assert said[2:] == [("arguments", "a", 0), ("arguments", "b", 1)] * 3


def test_a_second_item_under_a_known_id_takes_the_pieces_that_follow() -> None:
    first, second = call("", None, "c"), call("", None, "c")
    said = read(added(first, None), piece("a", "c", None), added(second, None), piece("b", "c", None))
    assert [event for event in said if event[0] == "arguments"] == [("arguments", "a", 0), ("arguments", "b", 1)]


def test_a_piece_that_names_nothing_is_no_call_of_two() -> None:
    said = read(added(call(), 0), added(call("", "fc_2", "call_2"), 1), piece("{", None, None))
    assert said[2:] == [("arguments", "{", ("item", None))]


def test_an_item_that_is_incomplete_is_not_sealed() -> None:
    assert ("end_block", 0) not in read(added(call()), done(call('{"a"', status="incomplete")))
    assert ("end_block", 0) in read(added(call()), done(call("{}", status="completed")))


def test_the_final_output_seals_what_it_says_is_completed() -> None:
    assert ("end_block", 0) in read(added(call()), end(output=[call("{}")]))
    assert ("end_block", 0) not in read(added(call()), end("incomplete", output=[call("{}")]))
    assert ("end_block", 0) in read(added(call()), end("incomplete", output=[call("{}", status="completed")]))


def test_what_a_call_carries_beyond_our_words_is_its_metadata() -> None:
    said = read(added(call(namespace="crm", caller={"type": "direct"}, created_by=None)))
    assert said == [
        ("start", "call_1", "f", "function", 0, {"item_id": "fc_1", "namespace": "crm", "caller": {"type": "direct"}})
    ]


def test_a_call_without_call_id_is_named_by_its_item() -> None:
    bare = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    assert ("completed", "fc_1", None, 0, {"item_id": "fc_1"}) in read(added(bare), done(bare))


def test_arguments_too_deep_to_be_written_end_the_turn() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    sink = RecordingSink()
    PROVIDER.parser(sink).chunk(done(call(deep)))
    assert ("fail", "limit_exceeded", "a call's arguments are nested too deeply", None) in sink.said


def test_a_snapshot_of_a_call_that_never_began_and_has_no_name_is_unknown() -> None:
    event = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": "{}"}
    assert read(event) == [("unknown", event)]


def test_final_items_are_matched_by_id_before_place() -> None:
    streamed = [added(call(), 0), done(call("{}"), 0)]
    said = read(*streamed, end(output=[message(output_text("Hi")), call("{}")]))
    assert [event[:2] for event in said if event[0] in ("start", "text")] == [("start", "call_1"), ("text", "Hi")]


def test_a_final_call_of_another_id_at_a_known_place_is_a_call_of_its_own() -> None:
    said = read(added(call(), 0), done(call("{}"), 0), end(output=[call("[]", None, "call_2"), call("{}")]))
    assert [event[1] for event in said if event[0] == "start"] == ["call_1", "call_2"]


def test_one_item_id_for_all_calls_does_not_mix_their_ends() -> None:
    said = read(
        added(call("", "fc_0", "call_1"), 0),
        added(call("", "fc_0", "call_2"), 1),
        done(call("[1]", "fc_0", "call_1"), 0),
        done(call("[2]", "fc_0", "call_2"), 1),
        end(output=[call("[1]", "fc_0", "call_1"), call("[2]", "fc_0", "call_2")]),
    )
    assert [event for event in said if event[0] == "replace_arguments"] == [
        ("replace_arguments", 0, "[1]"),
        ("replace_arguments", 1, "[2]"),
    ] * 2


def test_ends_of_calls_that_share_their_only_id_go_by_place() -> None:
    shared = [added(call("", None, "c"), place) for place in (0, 1)]
    said = read(*shared, done(call("[2]", None, "c"), 1), done(call("[1]", None, "c"), 0))
    assert [event for event in said if event[0] == "replace_arguments"] == [
        ("replace_arguments", 1, "[2]"),
        ("replace_arguments", 0, "[1]"),
    ]


def test_many_items_under_one_id_cost_no_more_than_others() -> None:
    item = {"type": "shell_call", "call_id": "c", "environment": {"type": "container_reference"}}
    sink = RecordingSink()
    parser = PROVIDER.parser(sink)
    for _ in range(4_000):
        parser.chunk(added(item, 0))
        parser.chunk(done(item, None))
    parser.chunk(end(output=[item] * 4_000))
    assert len(sink.said) == 4_000 * 2 + 3


# ---------------------------------------------------------------- text


def test_text_carries_the_id_and_phase_of_its_message() -> None:
    said = read(added(message(phase="commentary")), text_piece("a"), text_piece("b"))
    assert said == [
        ("text", "a", 0),
        ("add_metadata", {"item_id": "msg_1", "phase": "commentary"}, 0),
        ("text", "b", 0),
    ]


def test_a_message_whose_id_changes_carries_the_last_one() -> None:
    content = content_of(added(message(id="a")), text_piece("Hi", "b"), done(message(output_text("Hi"), id="c")), end())
    assert content.blocks[0].metadata["item_id"] == "c"


def test_a_part_whose_stream_had_another_index_is_not_said_again() -> None:
    assert [
        event
        for event in read(text_piece("Hi", content_index=1), done(message(output_text("Hi"))))
        if event[0] == "text"
    ] == [("text", "Hi", 0)]


@pytest.mark.parametrize("index", [-5, 10**6, None, "0", [0], {}])
def test_an_odd_index_of_a_part_harms_nothing(index: Any) -> None:
    said = read(text_piece("Hi", content_index=index), done(message(output_text("Hi"))), end())
    assert [event[1] for event in said if event[0] == "text"] == ["Hi"]


def test_parts_of_one_message_are_blocks_of_one_item() -> None:
    content = content_of(text_piece("a"), text_piece("b", content_index=1), end())
    assert [(block.text, block.metadata["item_id"]) for block in content.blocks] == [("a", "msg_1"), ("b", "msg_1")]


def test_text_that_stood_at_the_beginning_counts_where_nothing_follows() -> None:
    said = read(added(message(output_text("Hi"))), end())
    assert [event[1] for event in said if event[0] == "text"] == ["Hi"]
    part = {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0}
    said = read(added(message()), part | {"part": output_text("Ho")}, end())
    assert [event[1] for event in said if event[0] == "text"] == ["Ho"]


def test_text_that_stood_at_the_beginning_is_said_once_by_two_terminators() -> None:
    said = frames(
        (b"", json.dumps(added(message(output_text("Hi")))).encode()),
        (b"", json.dumps(end()).encode()),
        (b"", b"[DONE]"),
    )
    assert [event[1] for event in said if event[0] == "text"] == ["Hi"]


def test_a_citation_before_its_text_opens_the_block() -> None:
    annotation = {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "annotation": {"url": "u"},
    }
    content = content_of(added(message()), annotation, text_piece("Hi"), end())
    assert [(block.text, block.metadata["citations"]) for block in content.blocks] == [("Hi", [{"url": "u"}])]


def test_parts_without_text_or_of_no_kind_say_nothing_at_the_beginning() -> None:
    item = message({"type": "output_text", "text": None}, {"type": "hologram"}, output_text("Hi"))
    assert [event[:2] for event in read(added(item), end()) if event[0] in ("text", "unknown")] == [("text", "Hi")]


def test_a_part_that_there_is_no_word_for_is_shown_once() -> None:
    item = message({"type": "hologram"})
    assert [event for event in read(done(item), end(output=[item])) if event[0] == "unknown"] == [
        ("unknown", {"type": "hologram"})
    ]


def test_content_as_plain_text_is_a_part() -> None:
    assert ("text", "Hi", 0) in read(done({"type": "message", "id": "msg_1", "content": "Hi"}))


def test_a_message_without_a_type_is_known_by_its_role() -> None:
    assert ("text", "Hi", 0) in read(done({"role": "assistant", "content": [{"text": "Hi"}]}))


def test_a_refusal_whose_messages_id_changes_stays_as_it_was() -> None:
    refused = message({"type": "refusal", "refusal": "No"}, id="b")
    said = read(added(message(id="a")), {"type": "response.refusal.done", "refusal": "No"}, done(refused))
    assert said == [("refusal", "No"), ("add_metadata", {"item_id": "a"}, None)]


def test_a_refusal_carries_its_message_too() -> None:
    refused = {
        "type": "response.refusal.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": "No",
    }
    assert read(added(message()), refused, refused) == [
        ("refusal", "No"),
        ("add_metadata", {"item_id": "msg_1"}, None),
        ("refusal", "No"),
    ]


@pytest.mark.parametrize("delta", [None, 7, [], ["a"], {"x": 1}])
def test_a_delta_that_is_no_text_is_unknown(delta: Any) -> None:
    event = text_piece(delta)
    assert read(added(message()), event) == [("unknown", event)]


# ---------------------------------------------------------------- reasoning


def reasoning(*summary: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, **fields}


def test_reasoning_is_kept_whole_with_its_first_block() -> None:
    whole = reasoning("One.", "Two.", encrypted_content="E", status=None)
    content = content_of(added(reasoning()), done(whole), end(output=[{**whole, "encrypted_content": "F"}]))
    assert [(block.text, block.kind, block.opaque) for block in content.blocks] == [
        ("One.", "summary", whole),
        ("Two.", "summary", None),
    ]
    assert content.blocks[1].metadata["summary_index"] == 1


def test_reasoning_of_which_no_end_came_is_taken_from_the_final_output() -> None:
    whole = reasoning(encrypted_content="E")
    content = content_of(added(reasoning()), added(call(), 1), end(output=[whole, call("{}")]))
    assert [block.type for block in content.blocks] == ["reasoning", "tool_call"]
    assert content.blocks[0].opaque == whole


def test_raw_reasoning_beside_a_summary_is_a_block_of_its_own() -> None:
    whole = reasoning("Sum.", content=[{"type": "reasoning_text", "text": "Raw."}])
    content = content_of(done(whole), end())
    assert [(block.text, block.kind, block.opaque) for block in content.blocks] == [
        ("Sum.", "summary", whole),
        ("Raw.", "text", None),
    ]
    assert content.blocks[1].metadata["content_index"] == 0


def test_plain_text_parts_of_reasoning_are_reasoning() -> None:
    where = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    part = {"type": "response.content_part.done", **where, "part": {"type": "text", "text": "Hm"}}
    said = read(added(reasoning()), part, done({**reasoning(), "content": [{"type": "text", "text": "Hm"}]}))
    assert [event[:3] for event in said if event[0] in ("text", "reasoning")] == [
        ("reasoning", "", "summary"),
        ("reasoning", "Hm", "text"),
    ]


@pytest.mark.parametrize(
    ("kind", "index", "sent"),
    [("reasoning_summary_text", "summary_index", "summary"), ("reasoning_text", "content_index", "text")],
)
def test_reasoning_pieces_keep_their_part_on_the_short_path(kind: str, index: str, sent: str) -> None:
    def delta(text: str, at: int) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "item_id": "rs_1", "output_index": 0, index: at, "delta": text}

    said = read(added(reasoning()), delta("a", 0), delta("b", 0), delta("c", 1), delta("d", 1), delta("e", 0))
    keys = [(event[1], event[2], event[3]) for event in said if event[0] == "reasoning"][1:]
    assert keys == [("a", sent, 0), ("b", sent, 0), ("c", sent, 1), ("d", sent, 1), ("e", sent, 0)]


# ---------------------------------------------------------------- the provider's own tools


@pytest.mark.parametrize("kind", sorted(set(SERVER_TOOL_ITEMS) - CLIENT_ITEMS))
def test_an_item_of_the_providers_own_goes_back_as_it_came(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "name": "n", "odd": [1]}
    content = content_of(added(item), done(item), end())
    assert [(block.type, block.raw) for block in content.blocks] == [("server_tool", [item])]


@pytest.mark.parametrize("kind", sorted(CLIENT_ITEMS | {"compaction", "function_call_output", "nobody_knows"}))
def test_an_item_that_there_is_no_word_for_is_kept(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "execution": "client", "environment": {"type": "local"}, "secret": "E"}
    said = read(added(item), done(item), end(output=[item]))
    assert said[0] == ("provider_block", item)
    assert (("warn", "client_item") in said) is (kind in CLIENT_ITEMS)


def test_an_item_without_an_end_is_unknown_unless_the_provider_runs_it() -> None:
    item = {"type": "computer_call", "id": "x"}
    assert ("unknown", item) in read(added(item), end())
    assert "unknown" not in [event[0] for event in read(added({"type": "web_search_call", "id": "x"}), end())]


def test_a_shell_that_turns_out_to_be_the_providers_is_its_tool() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}}
    container = {"type": "container_reference", "container_id": "cntr_1"}
    said = read(added(shell), done({**shell, "environment": container}))
    assert [event[:4] for event in said] == [
        ("server_tool", "c", "shell", "started"),
        ("server_tool", "c", "shell", "arguments"),
        ("server_tool", "c", "shell", "result"),
    ]


def test_a_tool_that_still_runs_at_the_end_has_no_result() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "searching", "action": {"query": "x"}}
    phases = [event[3] for event in read(added(item), end("incomplete", output=[item])) if event[0] == "server_tool"]
    assert phases == ["started", "arguments"]


def test_a_picture_of_an_unknown_item_is_still_shown() -> None:
    event = {"type": "response.image_generation_call.partial_image", "item_id": "ig", "partial_image_b64": "QQ=="}
    assert read(event) == [("server_tool", "ig", "image_generation", "result", {"partial_image_b64": "QQ=="}, None)]


@pytest.mark.parametrize(
    ("form", "media_type"), [(None, "image/png"), ("webp", "image/webp"), ("svg", "image/svg+xml")]
)
def test_a_picture_has_the_media_type_of_its_format(form: str | None, media_type: str) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": "QQ==", "output_format": form}
    assert ("file", media_type, "QQ==") in read(done(item))


def test_arguments_of_an_mcp_call_that_are_no_json_stay_text() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{oops"}
    assert ("server_tool", "mcp_1", "roll", "arguments", "{oops", None) in read(done(item))


def test_arguments_of_an_unknown_tool_of_the_providers_wait_for_its_item() -> None:
    assert read({"type": "response.mcp_call_arguments.done", "item_id": "mcp_1", "arguments": "{}"}) == []


@pytest.mark.parametrize("kind", [*sorted(PROGRESS_EVENTS - {"response.mcp_call_arguments.done"}), "keepalive", "ping"])
def test_progress_is_of_this_wire_and_says_nothing(kind: str) -> None:
    if kind == "response.code_interpreter_call_code.done":
        return  # it says the code
    assert read({"type": kind, "item_id": "x", "output_index": 0}) == [("heartbeat",)]


# ---------------------------------------------------------------- the response


@pytest.mark.parametrize("kind", sorted(END_STATUSES))
def test_every_end_terminates(kind: str) -> None:
    said = read({"type": kind, "response": {"id": "resp_1", "model": "m"}})
    assert said[0] == ("identify", "resp_1", "m")
    assert ("finish", END_STATUSES[kind]) in [event[:2] for event in said]
    assert said[-1] == ("terminate",)


def test_the_status_in_the_response_is_what_counts() -> None:
    said = read({"type": "response.completed", "response": {"status": "incomplete"}})
    assert ("finish", "incomplete", "length") in said


def test_an_end_without_a_response_is_an_end() -> None:
    assert read({"type": "response.completed"})[-2:] == [("finish", "completed", "stop"), ("terminate",)]


def test_a_status_that_nobody_knows_is_another_reason() -> None:
    assert ("finish", "melted", "other") in read({"object": "response", "status": "melted", "output": []})


def test_a_body_without_a_status_has_no_reason_and_is_whole() -> None:
    said = read({"object": "response", "id": "resp_1", "output": [message(output_text("Hi"))]})
    assert [event[0] for event in said] == ["identify", "text", "add_metadata", "terminate"]


def test_usage_counts_the_whole_prompt_and_all_that_was_generated() -> None:
    raw = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    assert ("usage", Usage(9, 7, 3, 4, 2, raw)) in read(end(usage=raw))
    assert ("usage", Usage(9, None, None, None, None, {"input_tokens": 9})) in read(end(usage={"input_tokens": 9}))


def test_one_error_in_two_events_is_one_error() -> None:
    error = {"code": "server_error", "message": "It broke."}
    for second in (error, None):
        said = read({"type": "error", **error}, end("failed", error=second))
        assert [event for event in said if event[0] == "fail"] == [("fail", "provider_error", "It broke.", None)]


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        ({"message": "No.", "code": 429}, "No.", 429),
        ({"code": "overloaded"}, "overloaded", None),
        ("No.", "No.", None),
        ({}, "the provider reported an error", None),
        ([1], "the provider reported an error", None),
    ],
)
def test_an_error_has_the_words_that_it_has(error: Any, message: str, status: int | None) -> None:
    said = read({"type": "error", "error": error})
    if error:
        assert said == [("fail", "provider_error", message, status)]
    else:
        assert said[0][0] == "fail"


def test_frames_that_are_no_json() -> None:
    assert frames((b"", b"[DONE]")) == [("terminate",)]
    assert frames((b"error", b"gone"))[0] == ("fail", "provider_error", "gone", None)
    assert frames((b"", b"{oops"))[0][:2] == ("fail", "protocol_error")
    assert frames((b"", b"[" * 100_000 + b"]" * 100_000))[0][:2] == ("fail", "limit_exceeded")
    assert frames((b"", b"[1]"), (b"", b'"a"')) == [("unknown", [1]), ("unknown", "a")]


def test_a_frame_of_half_surrogates_is_read() -> None:
    data = json.dumps(text_piece("\ud83d")).encode()
    assert frames((b"", data))[0] == ("text", "\ud83d", 0)


def test_a_delta_whose_rest_cannot_be_read_is_shown_as_it_came() -> None:
    broken = b'{"type":"response.output_text.delta","delta":7,"x":' + b"1" * 5000 + b"}"  # Python reads 4300 digits
    assert frames((b"", broken)) == [("unknown", {"text": broken[:1024].decode()})]


def test_an_event_of_the_response_without_a_response_says_nothing() -> None:
    assert read({"type": "response.created"}, {"type": "response.queued", "response": None}) == []


@pytest.mark.parametrize("item", [None, 7, [], "x"])
def test_an_item_that_is_no_object_is_unknown(item: Any) -> None:
    assert read(added(item), done(item))[0][0] == "unknown"


def test_detect_knows_the_stream_and_the_body_and_nothing_else() -> None:
    assert PROVIDER.detect(b'event: response.created\ndata: {"type":"response.created"}\n\n')
    assert PROVIDER.detect(b'data: {"type": "response.output_text.delta"}\n\n')
    assert PROVIDER.detect(b'{"id":"resp_1","object":"response","status":"completed"}')
    assert not PROVIDER.detect(b'data: {"object":"chat.completion.chunk"}\n\n')
    assert not PROVIDER.detect(b'{"object":"chat.completion"}')
    assert not PROVIDER.detect(b'data: {"text":"say \\"type\\":\\"response.created\\""}\n\n')
    assert repr(providers.get("openai_responses")) == "<provider openai_responses>"


# ---------------------------------------------------------------- whatever comes

WORDS = [
    *TEXT_DELTA_EVENTS,
    *TEXT_DONE_EVENTS,
    *END_STATUSES,
    *SERVER_TOOL_ITEMS,
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.output_text.annotation.added",
    "response.reasoning_summary_part.done",
    "response.mcp_call_arguments.done",
    "response.image_generation_call.partial_image",
    "error",
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "shell_call_output",
    "computer_call",
    "output_text",
    "summary_text",
    "refusal",
    "response",
    "completed",
    "incomplete",
]
FIELDS = [
    *("type", "item", "response", "output", "output_index", "content_index", "summary_index", "item_id", "id"),
    *("call_id", "name", "arguments", "input", "delta", "text", "part", "content", "summary", "status", "object"),
    *("usage", "input_tokens_details", "error", "annotations", "annotation", "environment", "incomplete_details"),
]
LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "b", "", "{}", *WORDS])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=6,
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(WORDS)}, optional={field: VALUES for field in FIELDS if field != "type"}
)


@given(st.lists(EVENTS, max_size=6))
@settings(deadline=None, max_examples=60)
def test_random_events_never_raise_and_say_the_same_through_both_doors(events: list[dict[str, Any]]) -> None:
    read(*events)


@given(st.lists(EVENTS | VALUES.filter(lambda value: isinstance(value, dict)), max_size=6))
@settings(deadline=None, max_examples=40)
def test_random_events_make_a_turn(events: list[Any]) -> None:
    turn = Turn("openai_responses", turn_key="t")
    for event in events:
        if turn.done:
            break
        turn.feed(event)
    turn.close()
    assert turn.content.speaker == "ai"
    assert json.dumps(turn.to_dict())


PIECES = st.lists(st.text("ab{", max_size=3), max_size=4)


@given(st.lists(PIECES, min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=100)
def test_calls_in_any_turn_are_the_calls_one_by_one(
    calls: list[list[str]], chance: Any, by_place: bool, snapshots: bool
) -> None:
    events = [added(call("", f"fc_{n}", f"call_{n}"), n) for n in range(len(calls))]
    waiting = [(n, text) for n, pieces in enumerate(calls) for text in pieces]
    order = [n for n, _ in waiting]
    chance.shuffle(order)
    left = {n: [text for at, text in waiting if at == n] for n in range(len(calls))}
    for number, n in enumerate(order):
        events.append(piece(left[n].pop(0), f"rotating_{number}" if by_place else f"fc_{n}", n))
    if snapshots:
        events += [done(call("".join(pieces), f"fc_{n}", f"call_{n}"), n) for n, pieces in enumerate(calls)]
    turn = Turn("openai_responses", turn_key="t")
    for event in [*events, end()]:
        turn.feed(event)
    turn.close()
    assert [made.arguments_text for made in turn.calls] == ["".join(pieces) for pieces in calls]
    assert not [warning for warning in turn.warnings if warning.code == "orphan_delta"]
