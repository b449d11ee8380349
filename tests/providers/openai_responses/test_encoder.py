"""Contents as Responses streams, parsed again by the parser and validated by the official SDK's types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from shared_data import CONFORMANCE_CASES, recorded_streams

from streamkit import Content, Turn, Usage, providers
from streamkit.calls import StreamError
from streamkit.events import Failed, Text
from streamkit.history import (
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    UnknownBlock,
)
from streamkit.providers.openai_responses.writer import error_body, error_event

PROVIDER = providers.get("openai_responses")
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
CASES = CONFORMANCE_CASES / "openai_responses"
OWN = {"provider": "openai_responses"}


def encode(content: Content, **options: Any) -> list[bytes]:
    return list(PROVIDER.emit(content, response_id="resp_1", model="m-1", **options))


def parse(inputs: list[Any]) -> Turn:
    turn = Turn("openai_responses", turn_key="t")
    for data in inputs:
        turn.feed(data)
    turn.close()
    return turn


def parse_events(frames: list[bytes]) -> list[dict[str, Any]]:
    parsed = []
    for frame in frames:
        name, data, end = frame.split(b"\n", 2)
        event = json.loads(data.removeprefix(b"data: "))
        assert (name.decode(), end) == (f"event: {event['type']}", b"\n")
        parsed.append(event)
    assert [event["sequence_number"] for event in parsed] == list(range(len(parsed)))
    return parsed


def state(turn: Turn) -> dict[str, Any]:
    """Return the values that encoding and parsing must not change."""
    values = turn.to_dict()
    names = ("text", "reasoning", "refusal", "finish", "server_calls", "executable", "calls")
    return {name: values[name] for name in names}


def test_a_response_with_all_blocks_is_valid_for_the_sdk_and_gives_the_same_turn() -> None:
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
    frames = encode(content, usage=usage, delta_size=3)
    for event in parse_events(frames):
        if event["type"] not in ("response.output_item.added", "response.output_item.done", "response.completed"):
            EVENT.validate_python(event)  # the SDK types items more strictly than the API sends them: namespace, search
    turn = parse(frames)
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


def test_every_event_of_a_plain_response_is_valid_for_the_sdk() -> None:
    content = Content.ai("Hello", ToolCallBlock(id="c1", name="look", parameters={"a": 1}))
    for event in parse_events(encode(content, usage=Usage(3, 2, 0, 0, 0))):
        EVENT.validate_python(event)


@pytest.mark.parametrize(
    ("finish", "event", "reason"),
    [
        (None, "response.completed", "stop"),
        ("stop", "response.completed", "stop"),
        ("tool_calls", "response.completed", "stop"),
        ("refusal", "response.incomplete", "content_filter"),
        ("pause", "response.completed", "stop"),
        ("other", "response.completed", "stop"),
        ("length", "response.incomplete", "length"),
        ("content_filter", "response.incomplete", "content_filter"),
        ("error", "response.failed", "error"),
    ],
)
def test_every_finish_reason_has_its_last_event(finish: Any, event: str, reason: str) -> None:
    frames = encode(Content.ai("Hi"), finish=finish)
    assert parse_events(frames)[-1]["type"] == event
    turn = parse(frames)
    assert turn.finish is not None
    assert turn.finish.reason == reason
    assert (turn.error is None) is (finish != "error")


def test_a_failure_has_an_error_event_before_the_last_one() -> None:
    """As api.openai.com sends it: an SDK raises an exception for the first, and many clients pass over the second."""
    live = PROVIDER.writer()
    error = StreamError("provider_error", "Too busy.", code="rate_limited")
    written = b"".join([live.write(Text("Hi")), live.write(Failed(error)), live.close()])
    frames = [frame + b"\n\n" for frame in written.split(b"\n\n")[:-1]]
    event, last = parse_events(frames)[-2:]
    EVENT.validate_python(event)
    fields = {"code": "rate_limit_exceeded", "message": "Too busy.", "param": None}
    assert event.keys() == {"type", "sequence_number", "error", *fields}
    assert {**event, **fields} == event
    assert event["error"] == {"type": error_body(429, "")["error"]["type"], **fields}
    assert last["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Too busy."}
    failures = [seen.error for seen in Turn("openai_responses", "k").feed(written) if isinstance(seen, Failed)]
    assert [(failure.message, failure.code) for failure in failures] == [("Too busy.", "rate_limited")]


@pytest.mark.parametrize(("status", "code"), [(500, "server_error"), (429, "rate_limit_exceeded")])
def test_an_error_event_has_the_documented_form_and_that_of_the_server(status: int, code: str) -> None:
    (event,) = parse_events([error_event(status, "No.")])
    EVENT.validate_python(event)
    assert event["message"] == event["error"]["message"] == "No."
    assert (event["error"]["code"], event["type"]) == (code, "error")


def test_blocks_of_other_providers_are_encoded_as_items_of_this_one() -> None:
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
    turn = parse(encode(content))
    assert turn.reasoning == "Hm"
    assert turn.content.blocks[1].opaque["encrypted_content"] == "S"
    searches = [(call.name, call.arguments, call.result) for call in turn.server_calls]
    assert searches[0] == ("search", {"q": 1}, "[1]")
    assert [call.name for call in turn.server_calls] == ["search", "image_generation", "image_generation"]
    files = [block for block in turn.content.blocks if isinstance(block, FileBlock)]
    assert [(file.media_type, file.data) for file in files] == [("image/png", "QQ=="), ("image/svg+xml", "QQ==")]
    assert turn.error is None


def test_an_incomplete_call_stays_incomplete() -> None:
    for kind in ("function", "custom"):
        call = ToolCallBlock(
            id="c",
            name="f",
            kind=kind,
            parameters={} if kind == "function" else "{",
            metadata={"raw_arguments": "{", "state": "incomplete"},
        )
        turn = parse(encode(Content.ai("", call), finish="length"))
        assert [(call.state, call.arguments_text) for call in turn.calls] == [("incomplete", "{")]


def test_an_illegal_id_is_replaced() -> None:
    call = ToolCallBlock(id="x" * 90, name="f", metadata={"raw_id": ""})
    (parsed,) = parse(encode(Content.ai("", call))).calls
    assert parsed.raw_id is not None
    assert len(parsed.raw_id) <= 64


def test_half_a_surrogate_pair_is_encoded_and_parsed() -> None:
    frames = PROVIDER.emit(Content.ai("Hi"), response_id="resp_1", model="m\ud83d")
    assert parse(list(frames)).text == "Hi"


def test_raw_items_that_are_not_objects_are_left_out() -> None:
    turn = parse(encode(Content.ai("Hi", ServerToolBlock(raw=[7], metadata=OWN), OpaqueBlock(raw=7, metadata=OWN))))
    assert [block.type for block in turn.content.blocks] == ["text"]


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_the_body_of_a_rejected_request_is_a_provider_error(status: int) -> None:
    body = PROVIDER.error_body(status, "No.")
    assert set(body["error"]) == {"message", "type", "param", "code"}
    turn = Turn("openai_responses")
    turn.response(status)
    turn.feed(json.dumps(body).encode())
    turn.close()
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status) == ("provider_error", "No.", status)


# ---------------------------------------------------------------- parse, encode, parse

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
def test_parsing_an_encoded_content_gives_its_values(blocks: list[Any], finish: Any, delta_size: int) -> None:
    content = Content(speaker="ai", blocks=blocks)
    turn = parse(encode(content, finish=finish, delta_size=delta_size))
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
    reparsed = parse(encode(turn.content, finish=finish, delta_size=delta_size))
    assert reparsed.content == turn.content
    assert state(reparsed) == state(turn)


def test_recorded_responses_are_the_same_after_encoding_and_parsing() -> None:
    for stream in recorded_streams("openai_responses", ".sse"):
        turn = parse([stream.data])
        if turn.error is None and turn.finish is not None:
            frames = PROVIDER.emit(
                turn.content,
                response_id=turn.response_id or "resp_1",
                model=turn.model or "m",
                finish=turn.finish.reason,
                usage=turn.usage,
            )
            again = parse(list(frames))
            assert again.content == turn.content, str(stream)
            assert state(again) == state(turn), str(stream)


def test_cases_without_errors_are_the_same_after_encoding_and_parsing() -> None:
    cases = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(CASES.glob("*.json"))}
    turns = {name: parse(case["chunks"]) for name, case in cases.items() if "chunks" in case}
    complete = {name: turn for name, turn in turns.items() if turn.error is None and turn.finish and not turn.warnings}
    assert len(complete) > 40
    for name, turn in complete.items():
        assert turn.finish is not None
        frames = encode(turn.content, finish=turn.finish.reason)
        again = parse(frames)
        for before, after in zip(turn.calls, again.calls, strict=True):
            assert (after.name, after.kind, after.arguments) == (before.name, before.kind, before.arguments), name
            assert after.raw_id == (before.raw_id or after.raw_id), name  # this wire has no call without one
        assert (again.text, again.reasoning, again.refusal) == (turn.text, turn.reasoning, turn.refusal), name
        assert again.finish == turn.finish, name
        blocks = list(zip(turn.content.blocks, again.content.blocks, strict=True))
        assert [block.type for block, _ in blocks] == [block.type for _, block in blocks], name
        for old, new in blocks:
            if isinstance(old, ReasoningBlock) and old.opaque is not None:
                assert new.opaque == old.opaque, name


def test_the_namespace_of_a_call_is_in_its_first_item() -> None:
    """A client that reads a call as it streams must find its tool before the call ends."""
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "find",
        "namespace": "crm",
        "arguments": "",
    }
    turn = Turn("openai_responses", turn_key="t")
    started = turn.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    live = PROVIDER.writer(response_id="resp_2", model="m")
    added = [event for event in parse_events(live.frames(started[-1])) if event["type"] == "response.output_item.added"]
    assert [event["item"]["namespace"] for event in added] == ["crm"]


@pytest.mark.parametrize(
    ("kind", "part_type", "prefix"),
    [
        ("text", "reasoning_text", "response.content_part"),
        ("summary", "summary_text", "response.reasoning_summary_part"),
    ],
)
def test_a_text_of_reasoning_is_within_its_part(kind: Any, part_type: str, prefix: str) -> None:
    """The order of a recorded stream of LM Studio. openai's npm ``responses.stream()`` raises without the part.

    https://platform.openai.com/docs/api-reference/responses-streaming/response/content_part/added has the part.
    """
    content = Content(speaker="ai", blocks=[ReasoningBlock(text="Look.", kind=kind), TextBlock(text="Hi.")])
    events = parse_events(encode(content))
    for event in events:
        EVENT.validate_python(event)
    names = [event["type"] for event in events]
    text = f"response.reasoning_{'text' if kind == 'text' else 'summary_text'}"
    of_item = [
        "response.output_item.added",
        f"{prefix}.added",
        f"{text}.delta",
        f"{text}.done",
        f"{prefix}.done",
        "response.output_item.done",
    ]
    start = names.index(of_item[0])
    assert names[start : start + len(of_item)] == of_item
    parts = [event["part"] for event in events[start : start + len(of_item)] if "part" in event]
    assert parts == [{"type": part_type, "text": ""}, {"type": part_type, "text": "Look."}]
    assert parse(encode(content)).reasoning == "Look."
