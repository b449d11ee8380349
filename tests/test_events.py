"""Events as values: frozen, distinguished by ``type``, encoded to JSON and decoded."""

from __future__ import annotations

import datetime
import json
import re
from collections import deque
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import (
    Content,
    Growing,
    Notifier,
    TextBlock,
    ThreadUpdate,
    ToolCallBlock,
    Turn,
    UsageError,
    events,
    writer,
)
from streamkit.calls import CallRef, Finish, StreamError, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.events import Event, NormalizedToolChunk, ToolEvent, TurnEvent
from streamkit.events.turn_events import BaseEvent, OfCall
from streamkit.execution import Round
from streamkit.history import OpaqueBlock
from streamkit.values.total_tables import check_total

CALL = CallRef("hist_tool_" + "a" * 24, "count", 0)
RESULT = ToolResult(ToolCall(id=CALL.id, name="count", index=0), "completed", {"n": 1})
EXAMPLES: dict[type[Any], dict[str, Any]] = {
    events.ResponseStarted: {"response_id": "r1", "model": "m"},
    events.BlockStarted: {"kind": "text", "block": 1},
    events.Text: {"text": "Hé", "block": 1},
    events.Reasoning: {"text": "Hm", "kind": "summary", "block": 2},
    events.Refusal: {"text": "No", "block": 3},
    events.BlockEnded: {"kind": "reasoning", "block": 2, "signature": "c2ln", "metadata": {"id": "rs_1"}},
    events.ToolCallStart: {"call": CALL},
    events.ToolCallDelta: {"call": CALL, "arguments_delta": '{"n"'},
    events.ToolCallEnd: {"call": CALL},
    events.ToolCallReady: {"call": ToolCall(id=CALL.id, name="count", index=0, arguments={"n": 1})},
    events.ArgumentsRestated: {"call": CALL, "arguments_text": "{}"},
    events.ServerTool: {"id": None, "name": "web_search", "phase": "result", "data": [1]},
    events.Citation: {"url": "https://example.org", "data": {"url": "https://example.org"}, "block": 0},
    events.Compaction: {"summary": "They met.", "raw": {"type": "compaction", "content": "They met."}},
    events.File: {"media_type": "image/png", "data": "AA==", "url": None},
    events.UsageReport: {"usage": Usage(1, 2)},
    events.Finished: {"reason": "stop", "raw": None},
    events.Warned: {"code": "slot_reused", "message": "x"},
    events.Failed: {"error": StreamError("provider_error", "x", raw={"code": 1})},
    events.LogProbabilities: {
        "tokens": (events.TokenLogProbability("a", -0.5, (events.TokenLogProbability("b", -1.5),)),),
        "raw": [{"token": "a", "logprob": -0.5}],
    },
    events.Unknown: {"raw": {"a": [None]}},
    events.ToolRunning: {"call": CALL},
    events.ToolProgress: {"call": CALL, "value": 0.5},
    events.ToolCompleted: {"call": CALL, "result": RESULT},
    events.ToolError: {"call": CALL, "result": RESULT, "cause": "raised"},
    events.ToolDenied: {"call": CALL, "result": RESULT},
    events.ToolTimedOut: {"call": CALL, "result": RESULT},
    events.ToolCanceled: {"call": CALL, "result": RESULT},
    events.ToolAwaitingApproval: {"call": RESULT.call, "description": "Counts"},
    events.ToolAwaitingResult: {"call": CALL},
    events.RoundStarted: {"round": 0},
    events.RoundFinished: {"round": 1, "update": None},
    events.RunEnded: {
        "ended": "awaiting_approval",
        "error": StreamError("timed_out", "x"),
        "pending": (ToolCall(id=CALL.id, name="count", index=0, arguments={"n": 1}, state="complete"),),
        "finish": Finish("tool_calls", "tool_use"),
        "usage": Usage(1, 2, raw=[{}]),
        "cost": 0.5,
    },
}
each = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def test_every_event_is_a_turn_event_or_a_tool_event_and_has_an_example() -> None:
    assert set(EXAMPLES) == set(get_args(Event))
    assert set(get_args(TurnEvent)) | set(get_args(ToolEvent)) == set(get_args(Event))
    assert not set(get_args(TurnEvent)) & set(get_args(ToolEvent))
    assert NormalizedToolChunk not in get_args(Event)


def test_every_event_class_is_in_the_union_and_public() -> None:
    """A class that is not in ``TurnEvent`` or ``ToolEvent`` has no row in any table, and ``from_json`` refuses it."""
    classes = {value for value in vars(events).values() if isinstance(value, type) and issubclass(value, BaseEvent)}
    public = {kind for kind in classes if kind not in (BaseEvent, OfCall) and not kind.__name__.startswith("_")}
    assert public == set(get_args(Event))
    assert {kind.__name__ for kind in public} <= set(events.__all__)


@each
def test_the_type_is_the_class_name_in_snake_case(kind: type[Any]) -> None:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    assert kind.type == snake
    assert kind(**EXAMPLES[kind]).type == snake
    assert json.loads(events.to_json(kind(**EXAMPLES[kind])))["type"] == snake
    assert kind.__struct_config__.tag == snake


@each
def test_json_is_decoded_to_an_equal_event(kind: type[Any]) -> None:
    event = kind(**EXAMPLES[kind], choice=2)
    line = events.to_json(event)
    assert b"\n" not in line
    assert line.startswith(b'{"type":')
    assert events.from_json(line) == event
    assert events.from_json(line.decode()) == event


@each
def test_events_are_frozen_and_belong_to_choice_0(kind: type[Any]) -> None:
    event = kind(**EXAMPLES[kind])
    assert event.choice == 0
    assert kind.__struct_config__.frozen
    # What a tool returned or raised may refer to the executor, and so to the event. All other events have plain data.
    assert kind.__struct_config__.gc == (not {"value", "result", "update"}.isdisjoint(kind.__struct_fields__))
    with pytest.raises(AttributeError):
        event.choice = 1


@pytest.mark.parametrize(
    "event",
    [
        events.ResponseStarted("r1", metadata={"instructions": "a secret"}),
        events.File("image/png", "AA==", raw={"data": "a secret"}),
        events.ServerTool(None, "web_search", "result", [1], raw={"data": "a secret"}),
    ],
    ids=lambda event: event.type,
)
def test_json_has_nothing_that_only_a_writer_of_the_same_wire_reads(event: Event) -> None:
    """A chat backend sends these lines to a browser, and OpenAI repeats the instructions of the request."""
    assert b"secret" not in events.to_json(event)


def test_values_without_a_json_form_are_written_as_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    assert json.loads(events.to_json(events.ToolProgress(CALL, Odd())))["value"] == "odd"


@pytest.mark.parametrize(
    "data",
    [
        *(b"{}", b'{"type":""}', b'{"type":1}', b'{"type":"text"}', b"[]", b'{"type":"text","text":1}', b'"text"'),
        b'{"type":"finished","reason":"a_new_reason"}',
        b'{"type":"failed","error":{"kind":"a_new_kind","message":""}}',
        b'{"type":"run_ended","ended":"a_new_ending"}',
    ],
)
def test_other_json_is_a_validation_error(data: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        events.from_json(data)


@pytest.mark.parametrize("choice", [{}, {"choice": 2}, {"choice": "x"}, {"choice": True}])
def test_an_event_of_a_newer_version_is_unknown(choice: dict[str, Any]) -> None:
    data = {"type": "a_new_event", "text": "\ud83d", "more": [1], **choice}
    event = events.from_json(json.dumps(data))
    assert event == events.Unknown(data, 2 if choice == {"choice": 2} else 0)
    assert events.from_json(events.to_json(event)) == event


def test_fields_and_codes_of_a_newer_version_do_no_harm() -> None:
    assert events.from_json(b'{"type":"text","text":"a","new":{"b":1}}') == events.Text("a")
    assert events.from_json(b'{"type":"warned","code":"a_new_code","message":"m"}') == events.Warned("a_new_code", "m")


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_can_be_encoded(text: str) -> None:
    """Also half of a surrogate pair, which a server that splits text by UTF-16 units sends at the end of a delta."""
    line = events.to_json(events.Text(text))
    assert json.loads(line)["type"] == "text"
    assert events.from_json(line).text == text or any("\ud800" <= character <= "\udfff" for character in text)  # type: ignore[union-attr]


# ---------------------------------------------------------------- values of other origin


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))  # also halves of surrogate pairs
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers().map(lambda number: number * 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(ANY_TEXT, DATA, max_size=2)
IDS = st.just(CALL.id)
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=ANY_TEXT,
    index=st.integers(0, 9),
    raw_id=st.none() | ANY_TEXT,
    arguments=st.none() | OBJECTS | ANY_TEXT,
    arguments_text=ANY_TEXT,
    partial=OBJECTS,
    state=st.sampled_from(["complete", "incomplete", "invalid"]),
    metadata=OBJECTS,
    warnings=st.lists(st.builds(StreamWarning, ANY_TEXT, ANY_TEXT, st.none() | IDS), max_size=2).map(tuple),
)
RESULTS = st.builds(
    ToolResult,
    CALLS,
    st.sampled_from(["completed", "error", "denied", "timed_out", "canceled"]),
    DATA,
    st.none() | ANY_TEXT,
    OBJECTS,
)
CONTENTS = st.builds(
    lambda text, raw, parameters, metadata: Content(
        speaker="ai",
        blocks=[
            TextBlock(text=text, metadata=metadata),
            OpaqueBlock(raw=raw),
            ToolCallBlock(id=CALL.id, name="count", parameters=parameters),
        ],
        metadata=metadata,
    ),
    ANY_TEXT,
    DATA,
    OBJECTS,
    OBJECTS,
)
UPDATES = st.builds(
    ThreadUpdate,
    st.lists(OBJECTS, max_size=2),
    st.lists(CONTENTS, max_size=2),
    st.lists(RESULTS, max_size=2),
    st.lists(st.builds(StreamWarning, ANY_TEXT, ANY_TEXT), max_size=2),
)
FIELDS: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    events.BlockEnded: {"kind": st.just("text"), "signature": st.none() | ANY_TEXT, "metadata": OBJECTS},
    events.ToolCallReady: {"call": CALLS},
    events.ServerTool: {"id": st.none() | ANY_TEXT, "name": ANY_TEXT, "phase": st.just("arguments"), "data": DATA},
    events.Citation: {"url": st.none() | ANY_TEXT, "data": DATA},
    events.Compaction: {"summary": st.none() | ANY_TEXT, "raw": DATA},
    events.Finished: {"reason": st.just("stop"), "raw": ANY_TEXT, "metadata": OBJECTS},
    events.ToolAwaitingApproval: {"call": CALLS, "description": st.none() | ANY_TEXT},
    events.UsageReport: {"usage": st.builds(Usage, st.none() | st.integers(0, 9), raw=DATA)},
    events.Failed: {"error": st.builds(StreamError, st.just("provider_error"), ANY_TEXT, raw=DATA)},
    events.LogProbabilities: {"tokens": st.just((events.TokenLogProbability("a", -0.5),)), "raw": DATA},
    events.Unknown: {"raw": DATA},
    events.RunEnded: {"ended": st.just("error"), "pending": st.lists(CALLS, max_size=2).map(tuple)},
    events.ToolProgress: {"call": st.just(CALL), "value": DATA},
    **{
        kind: {"call": st.just(CALL), "result": RESULTS}
        for kind in (
            events.ToolCompleted,
            events.ToolError,
            events.ToolDenied,
            events.ToolTimedOut,
            events.ToolCanceled,
        )
    },
    events.RoundFinished: {"round": st.integers(0, 9), "update": st.none() | UPDATES},
    events.Text: {"text": ANY_TEXT},
    events.Warned: {"code": ANY_TEXT, "message": ANY_TEXT},
    events.ToolCallStart: {"call": st.builds(CallRef, IDS, ANY_TEXT, st.integers(0, 9))},
    events.File: {"media_type": ANY_TEXT, "data": ANY_TEXT, "url": ANY_TEXT},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_event_of_json_data_is_restored(kind: type[Any], data: Any) -> None:
    event = kind(**{name: data.draw(strategy) for name, strategy in FIELDS[kind].items()}, choice=1)
    line = events.to_json(event)
    assert b"\n" not in line
    assert events.from_json(line) == event
    assert events.from_json(line.decode()) == event


def test_every_event_with_values_of_other_origin_is_among_them() -> None:
    simple = (str, int, type(None), CallRef)
    for kind, example in EXAMPLES.items():
        if not all(isinstance(value, simple) for value in example.values()):
            assert kind in FIELDS


def test_the_update_of_a_real_round_is_restored() -> None:
    turn = Turn("anthropic", turn_key="t")
    turn.feed({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 1}}})
    block = {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {"n": 1}}
    turn.feed({"type": "content_block_start", "index": 0, "content_block": block})
    turn.feed({"type": "content_block_stop", "index": 0})
    turn.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    turn.feed({"type": "message_stop"})
    made_round = Round(turn)
    made_round.start(0)
    failure = ToolResult(turn.calls[0], "error", error="no", exception=ValueError("no"))
    made_round.set_result(0, failure)
    update = made_round.update()
    restored = events.from_json(events.to_json(events.RoundFinished(0, update)))
    assert isinstance(restored, events.RoundFinished)
    assert isinstance(restored.update, ThreadUpdate)
    assert restored.update.contents == update.contents
    assert restored.update.messages == update.messages
    assert restored.update.results == [msgspec.structs.replace(failure, exception=None)]


@pytest.mark.parametrize("update", [[], {"messages": 1}, {"messages": [], "contents": [1], "results": []}])
def test_an_update_of_another_form_is_a_validation_error(update: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        events.from_json(json.dumps({"type": "round_finished", "round": 1, "update": update}))


class Unwritable:
    def __str__(self) -> str:
        raise RuntimeError


@dataclass
class Point:
    x: Any


CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (b"\xff", "/w=="),
        (float("nan"), "NaN"),
        ([float("-inf")], ["-Infinity"]),
        ({1: {None: 2}}, {"1": {"None": 2}}),
        (10**5000, "1" + "0" * 5000),
        (datetime.date(2026, 11, 22), "2026-11-22"),
        (Unwritable(), "an object of the type Unwritable"),
        ([int], ["<class 'int'>"]),
        (CYCLE, [1, "[the object that contains this]"]),
        (Point({2}), {"x": [2]}),
        (TextBlock(text="a"), {"type": "text", "text": "a", "metadata": {}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_json_lacks_become_data(value: Any, data: Any) -> None:
    for event in (events.ToolProgress(CALL, value), events.Unknown(value), events.Citation(data=value)):
        line = events.to_json(event)
        json.loads(line, parse_constant=pytest.fail)
        restored = msgspec.structs.astuple(events.from_json(line))
        assert data in restored


@pytest.mark.parametrize("depth", [290, 400, 100_000])
def test_deep_values_are_restored_or_become_text(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    restored = events.from_json(events.to_json(events.Unknown(value)))
    assert isinstance(restored, events.Unknown)
    assert (restored.raw == value) is (depth == 290)


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        events.from_json('{"type":"unknown","raw":' + "[" * 200_000 + "]" * 200_000 + "}")


def test_usage_is_updated_by_field() -> None:
    merged = Usage(10, 5, None, 3, None, {"a": 1}).updated_with(Usage(0, 7, 2, None, 0, {"b": 2}))
    assert merged == Usage(10, 7, 2, 3, 0, {"b": 2})
    assert Usage().updated_with(Usage(0)).input_tokens == 0
    assert Usage(0).updated_with(Usage(None)).input_tokens == 0


# ---------------------------------------------------------------- what reads events


@pytest.mark.parametrize(
    "read", [writer("anthropic").write, Growing(dict).handle, Notifier().handle], ids=["writer", "Growing", "Notifier"]
)
@pytest.mark.parametrize("value", [[events.Text("Hé")], {"type": "text", "text": "Hé"}, b'{"type":"text"}', None])
def test_what_is_no_event_is_refused(read: Any, value: Any) -> None:
    with pytest.raises(UsageError, match=r"one event is expected, not (list|dict|bytes|NoneType)"):
        read(value)
    assert not read(events.RoundStarted(0))


# ---------------------------------------------------------------- progress


@pytest.mark.parametrize(
    "value",
    [
        events.PreliminaryResult({"n": 1}),
        events.UiData("chart", [1, 2]),
        events.UiData("chart", {"a": None}, id="c1", transient=True),
        events.StatePatch([{"op": "add", "path": "/a", "value": 1}]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("public", [True, False])
def test_json_keeps_the_types_of_progress(value: Any, *, public: bool) -> None:
    line = events.to_json(events.ToolProgress(CALL, value), public=public)
    assert events.from_json(line) == events.ToolProgress(CALL, value)
    assert json.loads(line)["value"]["type"] == value.__struct_config__.tag


@pytest.mark.parametrize(
    "value", [{"type": "ui_data", "name": "x"}, {"type": "chart"}, {"name": "x", "data": 1}, [1], 2]
)
def test_other_progress_stays_as_it_is(value: Any) -> None:
    assert events.from_json(events.to_json(events.ToolProgress(CALL, value))) == events.ToolProgress(CALL, value)


# ---------------------------------------------------------------- in public lines

PATH = "at /srv/app/secret.py"


def failed(cause: Any, error: str = PATH) -> ToolResult:
    return ToolResult(RESULT.call, "error", error=error, exception=RuntimeError(PATH), cause=cause)


@pytest.mark.parametrize(
    "event",
    [
        events.ResponseStarted("r1", metadata={"instructions": PATH}),
        events.BlockEnded("reasoning", 0, PATH, {"opaque": {"encrypted_content": PATH}}),
        events.ToolCallStart(CALL, metadata={"caller": PATH}),
        events.ToolCallReady(ToolCall(id="a", name="f", index=0, message={"m": PATH}, metadata={"signature": PATH})),
        events.ServerTool("s", "web_search", "result", [PATH], raw={"data": PATH}),
        events.Citation("https://e.org", data={"encrypted_index": PATH}),
        events.Compaction(PATH, {"content": PATH}),
        events.File("image/png", "AA==", raw={"thoughtSignature": PATH}),
        events.UsageReport(Usage(1, 2, raw={"a": PATH})),
        events.Finished("stop", PATH, metadata={"a": PATH}),
        events.Warned("checkpoint_failed", PATH),
        events.Failed(StreamError("transport_error", PATH, raw={"a": PATH})),
        events.Failed(StreamError("provider_error", PATH, raw={"a": PATH})),
        events.LogProbabilities((), PATH),
        events.Unknown({"a": PATH}),
        events.ToolError(CALL, failed("raised"), cause="raised"),
        events.ToolDenied(CALL, ToolResult(RESULT.call, "denied", error=PATH, cause="raised")),
        events.ToolProgress(CALL, events.ToolError(CALL, failed("raised"))),
        events.ToolProgress(CALL, events.Warned("x", PATH)),
        events.RoundFinished(0, {"message": PATH}),
        events.RunEnded("error", StreamError("transport_error", PATH), (), Finish("error", PATH), Usage(1, raw=[PATH])),
    ],
    ids=lambda event: event.type,
)
def test_a_public_line_has_no_state_no_raw_data_and_no_text_of_an_exception(event: Event) -> None:
    line = events.to_json(event, public=True)
    assert PATH.encode() not in line
    assert type(events.from_json(line)) is type(event)


SECRET = RuntimeError(PATH)


@dataclass
class Report(Exception):
    detail: str


@pytest.mark.parametrize(
    "value",
    [
        *(SECRET, Report(PATH), ExceptionGroup(PATH, [SECRET]), StreamWarning("code", PATH)),
        *([SECRET], (SECRET,), {SECRET}, frozenset([SECRET]), deque([SECRET]), {"a": SECRET}, {SECRET: 1}),
        *({"a": SECRET}.values(), SimpleNamespace(error=SECRET), events.PreliminaryResult(SECRET)),
        events.Failed(StreamError("provider_error", PATH, raw=PATH)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_public_line_has_no_text_of_an_exception_within_a_value(value: Any) -> None:
    for event in (
        events.ToolProgress(CALL, value),
        events.ToolCompleted(CALL, ToolResult(RESULT.call, "completed", value)),
    ):
        line = events.to_json(event, public=True)
        assert PATH.encode() not in line
        assert type(events.from_json(line)) is type(event)


def test_a_public_line_has_the_text_of_an_object_that_has_one() -> None:
    line = events.to_json(events.ToolProgress(CALL, [PurePosixPath("a/b"), {1}, object()]), public=True)
    assert json.loads(line)["value"] == ["a/b", [1], "an object of the type object"]


@pytest.mark.parametrize("cause", ["failed", "invalid_arguments", "unknown_tool"])
def test_a_public_line_has_the_sentence_of_every_other_error(cause: Any) -> None:
    line = events.to_json(events.ToolError(CALL, failed(cause, "There is no flight."), cause=cause), public=True)
    assert json.loads(line)["result"]["error"] == "There is no flight."
    assert json.loads(line)["cause"] == cause


@each
def test_a_public_line_has_what_people_see(kind: type[Any]) -> None:
    line = json.loads(events.to_json(kind(**EXAMPLES[kind]), public=True))
    shown, hidden = (names.split() for names in events._FIELDS[kind])
    assert set(line) == {"type", *shown}
    assert not {"signature", "raw", "metadata"} & set(shown)
    assert set(hidden) | set(shown) == set(kind.__struct_fields__)


def test_a_field_without_a_decision_about_public_lines_is_an_error() -> None:
    class Further(events.Text, frozen=True, gc=False, tag="further"):
        secret: str = ""

    with pytest.raises(TypeError, match="no row for secret"):
        check_total("fields", " ".join(events._FIELDS[events.Text]).split(), Further.__struct_fields__)
