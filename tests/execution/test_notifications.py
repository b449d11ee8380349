from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

import anyio
import msgspec
import pytest
from execution.chat_chunks import answer, chunk, closed_turn
from hypothesis import given as drawn
from hypothesis import strategies as st
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Content,
    StreamInterrupted,
    Turn,
    UsageError,
    events,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    run_loop,
    tool,
)
from streamkit.calls import CallRef, StreamError, ToolCall, ToolResult
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    Event,
    Failed,
    Finished,
    RoundFinished,
    RoundStarted,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolProgress,
    ToolRunning,
    ToolTimedOut,
    Unknown,
)
from streamkit.execution.run.notifications import Notifier, ToolNotification
from streamkit.tools import ToolContext, ToolState

WEATHER = CallRef("hist_tool_weather", "get_weather", 0)
CLOCK = CallRef("hist_tool_clock", "clock", 1)
ERROR = Failed(StreamError("stream_truncated", "it broke off"))


def describe_weather(state: ToolState, arguments: dict[str, Any]) -> str | None:
    return f"{state}: {arguments['city']}"


@tool(describe=describe_weather)
async def get_weather(city: str) -> str:
    return f"{city}: rain"


@tool
async def clock() -> str:
    return "noon"


def notify(notifier: Notifier, given: Iterable[Event]) -> list[ToolNotification]:
    return [notification for event in given for notification in notifier.handle(event)]


def summarize(notifications: Iterable[ToolNotification]) -> list[tuple[str, str, str | None, bool]]:
    return [(each.name, each.state, each.description, each.done) for each in notifications]


def preparing_events(*deltas: str, call: CallRef = WEATHER) -> list[Event]:
    return [ToolCallStart(call), *(ToolCallDelta(call, delta) for delta in deltas)]


def result(status: Any, call: CallRef = WEATHER, **more: Any) -> ToolResult:
    whole = ToolCall(id=call.id, name=call.name, index=call.index, arguments={"city": "Rome"}, state="complete")
    return ToolResult(whole, status, **more)


# ---------------------------------------------------------------- being prepared


def test_preparing_is_notified_at_the_start_and_when_the_description_changes() -> None:
    deltas = ['{"days": 3, ', '"city"', ': "', "Os", "lo", '"', "}"]
    notes = notify(Notifier([get_weather]), preparing_events(*deltas))
    assert summarize(notes) == [
        ("get_weather", "preparing", None, False),  # there is no city yet, and describe raised
        ("get_weather", "preparing", "preparing: ", False),
        ("get_weather", "preparing", "preparing: Os", False),
        ("get_weather", "preparing", "preparing: Oslo", False),
    ]
    assert [each.arguments for each in notes] == [
        {},
        {"days": 3, "city": ""},
        {"days": 3, "city": "Os"},
        {"days": 3, "city": "Oslo"},
    ]
    assert {each.id for each in notes} == {"hist_tool_weather"}


def test_a_call_of_a_tool_without_describe_is_notified_once_per_state() -> None:
    notes = notify(Notifier([clock]), preparing_events("{", '"a":1', "}", call=CLOCK))
    assert summarize(notes) == [("clock", "preparing", None, False)]


def test_a_call_of_an_unknown_tool_is_notified_too() -> None:
    assert summarize(notify(Notifier(), preparing_events("{}"))) == [("get_weather", "preparing", None, False)]


def test_restated_arguments_are_described_again() -> None:
    notifier = Notifier([get_weather])
    notify(notifier, preparing_events('{"city":"Os'))
    notes = notify(notifier, [ArgumentsRestated(WEATHER, '{"city":"Rome"}')])
    assert [(each.description, each.arguments) for each in notes] == [("preparing: Rome", {"city": "Rome"})]
    assert [each.arguments for each in notify(notifier, [ToolRunning(WEATHER)])] == [{"city": "Rome"}]


def test_arguments_known_only_from_the_complete_text_are_described_at_its_end() -> None:
    notifier = Notifier([get_weather])
    assert summarize(notify(notifier, preparing_events('"{\\"city\\":', '\\"Oslo\\"}"')))[1:] == []
    assert summarize(notify(notifier, [ToolCallEnd(WEATHER)])) == [
        ("get_weather", "preparing", "preparing: Oslo", False)
    ]
    assert notify(notifier, [ToolCallEnd(WEATHER)]) == []


def test_notifications_of_concurrent_calls_are_kept_apart() -> None:
    other = CallRef("hist_tool_other", "get_weather", 1)
    notifier = Notifier([get_weather])
    notify(notifier, [*preparing_events('{"city":"Os'), *preparing_events('{"city":"Ro', call=other)])
    notes = notify(notifier, [ToolCallDelta(WEATHER, 'lo"}'), ToolCallDelta(other, 'me"}')])
    assert [(each.id, each.description) for each in notes] == [
        (WEATHER.id, "preparing: Oslo"),
        (other.id, "preparing: Rome"),
    ]


def test_calls_of_other_choices_are_neither_run_nor_notified() -> None:
    given = [ToolCallStart(WEATHER, 1), ToolCallDelta(WEATHER, "{}", 1), ToolCallEnd(WEATHER, 1)]
    notifier = Notifier([get_weather])
    assert notify(notifier, [*given, Finished("error", choice=1)]) == []
    notify(notifier, preparing_events())
    assert notify(notifier, [Finished("error", choice=1)]) == []


def test_events_without_a_call_give_no_notification() -> None:
    assert notify(Notifier([get_weather]), [Text("{"), Unknown({}), RoundStarted(0), Finished("stop")]) == []


def test_deltas_of_a_call_without_a_start_give_no_notification() -> None:
    given = [ToolCallDelta(WEATHER, "{}"), ArgumentsRestated(WEATHER, "{}"), ToolCallEnd(WEATHER)]
    notifier = Notifier([get_weather])
    assert notify(notifier, given) == []
    assert notifier.close() == []


# ---------------------------------------------------------------- running


def test_running_has_the_complete_arguments_even_without_describe() -> None:
    notifier = Notifier([clock])
    notify(notifier, preparing_events('{"zone":', '"UTC"}', call=CLOCK))
    (note,) = notify(notifier, [ToolRunning(CLOCK)])
    assert (note.state, note.arguments, note.done) == ("running", {"zone": "UTC"}, False)


def test_progress_is_notified_with_the_running_description() -> None:
    notifier = Notifier([get_weather])
    notify(notifier, [*preparing_events('{"city":"Oslo"}'), ToolRunning(WEATHER)])
    (note,) = notify(notifier, [ToolProgress(WEATHER, {"percent": 40})])
    assert (note.state, note.description, note.progress) == ("running", "running: Oslo", {"percent": 40})
    assert note.arguments == {"city": "Oslo"}


def test_a_late_notifier_reports_the_known_state() -> None:
    notifier = Notifier([get_weather])
    assert summarize(notify(notifier, [ToolProgress(WEATHER, 1)])) == [("get_weather", "running", None, False)]
    assert summarize(notifier.close()) == [("get_weather", "canceled", None, True)]


@pytest.mark.parametrize(
    ("event", "status", "state"),
    [
        (ToolCompleted, "completed", "completed"),
        (ToolError, "error", "error"),
        (ToolTimedOut, "timed_out", "error"),
        (ToolDenied, "denied", "canceled"),
        (ToolCanceled, "canceled", "canceled"),
    ],
)
def test_each_result_event_is_notified_with_its_result(event: Any, status: Any, state: str) -> None:
    notifier = Notifier([get_weather])
    notify(notifier, [*preparing_events('{"city":"Oslo"}'), ToolRunning(WEATHER)])
    ended = result(status)
    (note,) = notify(notifier, [event(WEATHER, ended)])
    assert (note.state, note.description, note.done) == (state, f"{state}: Rome", True)
    assert note.result is ended
    assert note.arguments == {"city": "Rome"}  # those of the result's call
    assert notifier.close() == []


def test_a_result_event_without_a_start_is_notified() -> None:
    (note,) = notify(Notifier([get_weather]), [ToolError(WEATHER, result("error", error="Not run."))])
    assert (note.state, note.description, note.done) == ("error", "error: Rome", True)


def test_the_text_of_a_custom_call_is_only_in_the_result() -> None:
    call = ToolCall(id=WEATHER.id, name="get_weather", index=0, kind="custom", arguments="plain", state="complete")
    notifier = Notifier([get_weather])
    notes = notify(
        notifier, [*preparing_events("plain"), ToolRunning(WEATHER), ToolCompleted(WEATHER, ToolResult(call, "error"))]
    )
    assert [each.arguments for each in notes] == [{}, {}, {}]
    assert notes[-1].result is not None
    assert notes[-1].result.call.arguments == "plain"


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_custom_tool_is_described_by_its_text_on_every_provider(kind: Any) -> None:
    @tool(kind="custom", describe=lambda state, arguments: f"{state} {arguments.get('input')}")
    def calculate(text: str) -> int:
        return 3

    ref = CallRef("hist_tool_c", "calculate", 0, kind)
    parts = ["1+", "2"] if kind == "custom" else ['{"input": "1+', '2"}']
    arguments = "1+2" if kind == "custom" else {"input": "1+2"}
    call = ToolCall(id=ref.id, name=ref.name, index=0, kind=kind, arguments=arguments, state="complete")
    events = [
        ToolCallStart(ref),
        *(ToolCallDelta(ref, part) for part in parts),
        ToolCallEnd(ref),
        ToolRunning(ref),
        ToolCompleted(ref, ToolResult(call, "completed", 3)),
    ]
    notes = notify(Notifier([calculate]), events)
    assert [note.description for note in notes][1:] == [
        "preparing 1+",
        "preparing 1+2",
        "running 1+2",
        "completed 1+2",
    ]
    assert notes[-1].arguments == {"input": "1+2"}


# ---------------------------------------------------------------- describe is a stranger's code


@pytest.mark.parametrize("said", [7, b"x", ["x"], object()])
def test_a_description_that_is_not_text_is_ignored(said: Any) -> None:
    odd = tool(clock.function, describe=lambda state, arguments: said)
    assert summarize(notify(Notifier([odd]), preparing_events("{}", call=CLOCK))) == [
        ("clock", "preparing", None, False)
    ]


def test_a_describe_that_raises_never_breaks_the_stream() -> None:
    def describe(state: ToolState, arguments: dict[str, Any]) -> str:
        raise RecursionError(state)

    odd = tool(clock.function, describe=describe)
    given = [*preparing_events("{}", call=CLOCK), ToolRunning(CLOCK), ToolCompleted(CLOCK, result("completed", CLOCK))]
    assert [each.description for each in notify(Notifier([odd]), given)] == [None, None, None]


def test_a_describe_that_changes_its_arguments_changes_neither_the_call_nor_notifications() -> None:
    def describe(state: ToolState, arguments: dict[str, Any]) -> str:
        for value in [*arguments.values()]:
            if isinstance(value, list):
                value.clear()
        arguments.clear()
        return f"{state}{len(seen)}"

    seen: list[ToolNotification] = []
    odd = tool(clock.function, describe=describe)
    notifier = Notifier([odd])
    for delta in '{"a":[1,[2,"x"],3],"b":1.5}':
        seen += notify(notifier, preparing_events(delta, call=CLOCK)[bool(seen) :])
    ended = result("completed", CLOCK)
    seen += notify(notifier, [ToolRunning(CLOCK), ToolCompleted(CLOCK, ended)])
    assert ended.call.arguments == {"city": "Rome"}
    assert summarize(seen)[-1] == ("clock", "completed", f"completed{len(seen) - 2}", True)


def test_earlier_notifications_do_not_change() -> None:
    notifier = Notifier([get_weather])
    notes = notify(notifier, preparing_events('{"city":"O', "s", 'lo","with":["a', '","b"]}'))
    notify(notifier, [ToolRunning(WEATHER)])
    assert [each.arguments for each in notes] == [{}, {"city": "O"}, {"city": "Os"}, {"city": "Oslo", "with": ["a"]}]


def test_an_async_describe_is_rejected() -> None:
    async def describe(state: ToolState, arguments: dict[str, Any]) -> str:
        return state

    wrong: Any
    for wrong in (describe, "looks at the clock"):
        with pytest.raises(UsageError, match="describe"):
            tool(clock.function, describe=wrong)


def test_two_tools_of_one_name_are_rejected() -> None:
    with pytest.raises(UsageError, match="two tools"):
        Notifier([clock, clock])


def test_arguments_that_are_nested_too_deeply_are_left_out() -> None:
    shown = set()
    for depth in (
        100,
        *range(930, 1010),
        100_000,
    ):  # Python's limit is 1,000, of which the caller's own calls take some
        text = '{"a":' * depth + "1" + "}" * depth
        notifier = Notifier([get_weather])
        notes = notify(notifier, [*preparing_events(text), ToolCallEnd(WEATHER), ToolRunning(WEATHER)])
        assert notes[-1].state == "running"
        shown.add("a" in notes[-1].arguments)
        assert notifier.close()[0].state == "canceled"
    assert shown == {True, False}


# ---------------------------------------------------------------- calls that are left over


@pytest.mark.parametrize("end", [ERROR, Finished("error", "oops"), RoundFinished(0), RoundStarted(1)])
def test_calls_that_are_still_prepared_are_canceled(end: Event) -> None:
    notifier = Notifier([get_weather, clock])
    notify(notifier, [*preparing_events('{"city":"Os'), *preparing_events("{", call=CLOCK)])
    notes = notify(notifier, [end])
    assert summarize(notes) == [
        ("get_weather", "canceled", "canceled: Os", True),
        ("clock", "canceled", None, True),
    ]
    assert [each.arguments for each in notes] == [{"city": "Os"}, {}]
    assert [each.result for each in notes] == [None, None]
    assert notifier.close() == []


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "other"])
def test_after_any_other_finish_a_call_waits_for_its_result_event(reason: Any) -> None:
    notifier = Notifier()
    notify(notifier, preparing_events("{}"))
    assert notify(notifier, [Finished(reason)]) == []
    assert len(notifier.close()) == 1


def test_an_early_call_runs_until_its_result_event_when_the_stream_is_truncated() -> None:
    notifier = Notifier()
    notify(
        notifier,
        [*preparing_events("{}"), ToolCallEnd(WEATHER), ToolRunning(WEATHER), *preparing_events("{", call=CLOCK)],
    )
    assert summarize(notify(notifier, [ERROR])) == [("clock", "canceled", None, True)]
    notes = notify(notifier, [ToolCanceled(WEATHER, result("canceled"))])
    assert summarize(notes) == [("get_weather", "canceled", None, True)]


def test_an_early_call_without_a_result_event_ends_with_its_round() -> None:
    notifier = Notifier()
    notify(notifier, [*preparing_events("{}"), ToolRunning(WEATHER)])
    assert summarize(notify(notifier, [RoundStarted(1)])) == [("get_weather", "canceled", None, True)]


def test_arguments_restated_after_the_end_open_nothing() -> None:
    notifier = Notifier([get_weather])
    notify(notifier, [*preparing_events("{}"), ToolRunning(WEATHER), ToolCompleted(WEATHER, result("completed"))])
    assert notify(notifier, [ArgumentsRestated(WEATHER, "{}"), ToolCallDelta(WEATHER, "x"), ToolCallEnd(WEATHER)]) == []
    assert notifier.close() == []


def test_a_notifier_does_not_grow() -> None:
    notifier = Notifier([get_weather, clock])

    def one_round(number: int) -> list[Event]:
        calls = [CallRef(f"hist_tool_{number}_{at}", "get_weather", at) for at in range(5)]
        ended = [result("completed", call) for call in calls]
        return [
            RoundStarted(number),
            *(event for call in calls for event in preparing_events('{"city":', '"Oslo"}', call=call)),
            *map(ToolRunning, calls[:3]),
            *map(ToolCompleted, calls[:2], ended[:2]),
            *[ERROR][: number % 2],
            RoundFinished(number),
        ]

    def held() -> int:
        """Return the number of containers and texts that can be reached from an object."""
        found: dict[int, Any] = {}
        new: list[Any] = [notifier]
        while new:
            found |= {id(each): each for each in new}
            new = [
                each for each in gc.get_referents(*new) if id(each) not in found and isinstance(each, (dict, list, str))
            ]
        return len(found)

    notify(notifier, one_round(0))
    before = held()
    for number in range(1, 1000):
        notes = notify(notifier, one_round(number))
        assert {each.id for each in notes} == {each.id for each in notes if each.done}
    assert held() == before


# ---------------------------------------------------------------- over a network


def test_events_and_notifications_survive_a_network() -> None:
    given = [
        *preparing_events('{"city":"Oslo"}'),
        ToolRunning(WEATHER),
        ToolProgress(WEATHER, {"percent": 40}),
        ToolCompleted(WEATHER, result("completed", value="rain")),
    ]
    near = notify(Notifier([get_weather]), given)
    far = notify(Notifier([get_weather]), [events.from_json(events.to_json(event)) for event in given])
    assert far == near
    assert msgspec.json.decode(msgspec.json.encode(near[-1]), type=ToolNotification) == near[-1]


# ---------------------------------------------------------------- real runs


HISTORY = [Content.human("Weather?")]


def argument_events(*deltas: str, name: str = "get_weather", index: int = 0) -> list[dict[str, Any]]:
    """Return the events of a call with its arguments in deltas."""
    first = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": delta}} for delta in deltas]
    return [chunk({"index": 0, "delta": {"tool_calls": [each]}}) for each in [first, *more]]


async def watch(run: Any, notifier: Notifier, notes: list[ToolNotification]) -> None:
    async with run:
        async for event in run:
            notes += notifier.handle(event)


async def run_events(answers: list[Any], notifier: Notifier, **more: Any) -> list[ToolNotification]:
    notes: list[ToolNotification] = []
    given = {"provider": "openai_chat", "tools": [get_weather, clock], "history": HISTORY, "run_key": "k"} | more
    rounds = iter(answers)
    await watch(run_loop(lambda context: next(rounds), **given), notifier, notes)
    return notes


def of(name: str, notes: list[ToolNotification]) -> list[tuple[str, str, str | None, bool]]:
    return summarize(each for each in notes if each.name == name)


@pytest.mark.anyio
async def test_a_complete_run() -> None:
    calls = [
        *argument_events('{"city":', '"Os', 'lo"}'),
        *argument_events("{}", name="clock", index=1),
        chunk({"index": 0, "delta": {}, "finish_reason": "tool_calls"}),
    ]
    notifier = Notifier([get_weather, clock])
    notes = await run_events([calls, answer("Rain, at noon.")], notifier)
    assert of("get_weather", notes) == [
        ("get_weather", "preparing", None, False),
        ("get_weather", "preparing", "preparing: Os", False),
        ("get_weather", "preparing", "preparing: Oslo", False),
        ("get_weather", "running", "running: Oslo", False),
        ("get_weather", "completed", "completed: Oslo", True),
    ]
    assert of("clock", notes) == [
        ("clock", "preparing", None, False),
        ("clock", "running", None, False),
        ("clock", "completed", None, True),
    ]
    assert [each.result.value for each in notes if each.result is not None and each.name == "clock"] == ["noon"]
    assert notifier.close() == []


@pytest.mark.anyio
async def test_a_run_with_a_stream_that_fails_while_a_call_is_prepared() -> None:
    notifier = Notifier([get_weather, clock])
    notes: list[ToolNotification] = []
    run = run_loop(lambda context: argument_events('{"city":"Os'), provider="openai_chat", history=HISTORY)
    with pytest.raises(StreamInterrupted):
        await watch(run, notifier, notes)
    assert summarize(notes)[-2:] == [
        ("get_weather", "canceled", "canceled: Os", True),
        ("get_weather", "error", "error: Os", True),  # with the result, which is in the contents
    ]
    assert notifier.close() == []


@pytest.mark.anyio
async def test_a_run_that_the_provider_ends_in_an_error() -> None:
    notifier = Notifier([get_weather])
    notes: list[ToolNotification] = []
    broken = [*argument_events('{"city":"Oslo"}'), chunk({"index": 0, "delta": {}, "finish_reason": "error"})]
    run = run_loop(lambda context: broken, provider="openai_chat", history=HISTORY)
    with pytest.raises(StreamInterrupted):
        await watch(run, notifier, notes)
    assert summarize(notes)[-1] == ("get_weather", "canceled", "canceled: Oslo", True)
    assert notifier.close() == []


@pytest.mark.anyio
async def test_a_run_with_a_denied_an_unknown_and_a_failing_call() -> None:
    async def fails() -> None:
        raise OSError("disk")

    async def deploy() -> str:
        return "done"

    tools = [tool(deploy, approval="deny"), tool(fails)]
    notifier = Notifier(tools)
    first = answer("", ("deploy", {}), ("fails", {}), ("nowhere", {}), ("fails", '{"a":'))
    notes = await run_events([first, answer("No.")], notifier, tools=tools)
    assert of("deploy", notes) == [("deploy", "preparing", None, False), ("deploy", "canceled", None, True)]
    assert of("nowhere", notes) == [("nowhere", "preparing", None, False), ("nowhere", "error", None, True)]
    ended = [each for each in notes if each.name == "fails" and each.done]
    assert [each.state for each in ended] == ["error", "error"]
    errors = [each.result.error for each in ended if each.result is not None and each.result.error is not None]
    assert any("disk" in error for error in errors)
    assert any("incomplete" in error for error in errors)
    assert notifier.close() == []


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_call_that_takes_too_long() -> None:
    async def sleeps(context: ToolContext) -> None:
        context.progress("halfway")
        await anyio.sleep_forever()

    slow = tool(sleeps, timeout=0.01)
    notes = await run_events([answer("", ("sleeps", {})), answer("Late.")], Notifier([slow]), tools=[slow])
    assert [(each.state, each.progress, each.done) for each in notes] == [
        ("preparing", None, False),
        ("running", None, False),
        ("running", "halfway", False),
        ("error", None, True),
    ]


@pytest.mark.anyio
async def test_a_run_that_is_left_while_a_tool_runs() -> None:
    async def sleeps() -> None:
        await anyio.sleep_forever()

    notifier = Notifier()
    notes: list[ToolNotification] = []
    async with run_loop(
        lambda context: answer("", ("sleeps", {})), provider="openai_chat", tools=[sleeps], history=HISTORY
    ) as run:
        async for event in run:
            notes += notifier.handle(event)
            if isinstance(event, ToolRunning):
                break
    assert summarize(notes)[-1] == ("sleeps", "running", None, False)
    assert summarize(notifier.close()) == [("sleeps", "canceled", None, True)]


@pytest.mark.anyio
async def test_a_filtered_response() -> None:
    notes = await run_events([answer("", ("clock", {}), finish="content_filter")], Notifier([clock]))
    assert of("clock", notes) == [("clock", "preparing", None, False), ("clock", "canceled", None, True)]


@pytest.mark.anyio
@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_executors_without_the_stream(execute: Any) -> None:
    notifier = Notifier([get_weather])
    turn = closed_turn("", ("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"}))
    notes: list[ToolNotification] = []
    async with execute(turn, tools=[get_weather]) as execution:
        async for event in execution:
            notes += notifier.handle(event)
    ended = [(each.description, each.arguments) for each in notes if each.done]
    assert ended == [("completed: Oslo", {"city": "Oslo"}), ("completed: Rome", {"city": "Rome"})]
    assert notifier.close() == []


def test_a_turn_of_several_choices() -> None:
    turn, notifier = Turn("openai_chat", turn_key="t"), Notifier([clock])
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    given = [chunk({"index": at, "delta": {"tool_calls": [call]}}) for at in (1, 0)]
    notes = notify(notifier, [event for each in given for event in turn.feed(each)])
    assert [each.id for each in notes] == [turn.calls[0].id]


# ---------------------------------------------------------------- any events in any order

REFS = [WEATHER, CLOCK, CallRef("hist_tool_unknown", "nowhere", 2)]
one_event = st.one_of(
    st.sampled_from(REFS).map(ToolCallStart),
    st.builds(ToolCallDelta, st.sampled_from(REFS), st.sampled_from(['{"city":"', "Oslo", '"}', "", "}", "\ud83d"])),
    st.builds(ArgumentsRestated, st.sampled_from(REFS), st.sampled_from(["", '{"city":"Rome"}', "{"])),
    st.sampled_from(REFS).map(ToolCallEnd),
    st.sampled_from(REFS).map(ToolRunning),
    st.builds(ToolProgress, st.sampled_from(REFS), st.integers()),
    st.sampled_from(REFS).map(lambda ref: ToolCompleted(ref, result("completed", ref))),
    st.sampled_from(REFS).map(lambda ref: ToolDenied(ref, result("denied", ref))),
    st.sampled_from([ERROR, Finished("stop"), Finished("error"), RoundStarted(0), RoundFinished(0)]),
)


@drawn(st.lists(one_event, max_size=30))
def test_the_last_notification_of_a_call_is_always_its_end(given: list[Event]) -> None:
    notifier = Notifier([get_weather, clock])
    notes = notify(notifier, given)
    last = {each.id: each for each in [*notes, *notifier.close()]}
    assert all(each.done for each in last.values())
    assert {each.id for each in notes} == set(last)
    assert all(each.done == (each.state in ("completed", "canceled", "error")) for each in notes)
    assert notifier.close() == []


def test_long_arguments_are_copied_a_bounded_number_of_times() -> None:
    """Whatever the number of deltas: each notification has a copy of all arguments."""

    def describe(state: ToolState, arguments: dict[str, Any]) -> str:
        return f"{len(arguments.get('city', ''))} characters"

    notifier = Notifier([tool(lambda city: city, name="get_weather", description="d", describe=describe)])
    deltas = ['{"city": "', *["x" * 64] * 5000, '"}']
    sizes = [len(n.arguments.get("city", "")) for n in notify(notifier, preparing_events(*deltas))]
    assert sum(sizes) < 20 * 64 * 5000
    assert sizes == sorted(sizes)
    assert sizes[-1] > 0.8 * 64 * 5000


# ---------------------------------------------------------------- signatures and details of reasoning


def native_notes(provider: str, *chunks: dict[str, Any]) -> list[ToolNotification]:
    """Return the notifications of a turn whose calls are then executed."""
    turn, notifier = Turn(provider, turn_key="t"), Notifier()
    seen = [event for chunk in chunks for event in turn.feed(chunk)] + turn.close(complete=True)
    notes = notify(notifier, seen)
    update = execute_tool_calls_batched(turn, tools=[clock]).run_sync()
    return (
        notes
        + notify(notifier, [ToolRunning(each.call.ref) for each in update.results])
        + notify(notifier, [ToolCompleted(each.call.ref, each) for each in update.results])
    )


def test_notifications_have_the_thought_signature_of_gemini() -> None:
    part = {"functionCall": {"name": "clock", "args": {}}, "thoughtSignature": "c2lnbmF0dXJl"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    notes = native_notes("gemini", {"candidates": [candidate], "responseId": "r"})
    assert [(note.state, note.thought_signature) for note in notes] == [
        ("preparing", None),  # the start; the signature comes with the call that is ready
        ("running", "c2lnbmF0dXJl"),
        ("completed", "c2lnbmF0dXJl"),
    ]


def test_notifications_have_the_thought_signature_of_geminis_endpoint_for_chat_completions() -> None:
    call = {
        "index": 0, "id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }  # fmt: skip
    delta = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    notes = native_notes("openai_chat", {"id": "r", "choices": [delta]})
    assert [note.thought_signature for note in notes if note.state != "preparing"] == ["c2ln", "c2ln"]


def test_notifications_have_the_details_of_the_reasoning_before_the_call() -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "signature": "s", "index": 0}]
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    deltas: list[dict[str, Any]] = [{"reasoning_details": details}, {"tool_calls": [call]}]
    chunks = [{"id": "r", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    notes = native_notes("openrouter", *chunks)
    assert [(note.state, note.reasoning_details) for note in notes] == [
        ("preparing", details),
        ("running", details),
        ("completed", details),
    ]


def test_details_are_those_of_the_calls_own_round() -> None:
    notifier = Notifier()
    notify(notifier, [RoundStarted(0), BlockEnded("reasoning", metadata={"reasoning_details": [{"n": 1}]})])
    notify(notifier, [RoundFinished(0), RoundStarted(1)])
    (note,) = notify(notifier, [ToolCallStart(CLOCK)])
    assert note.reasoning_details is None


def test_the_metadata_of_a_parser_of_ones_own_is_notified_too() -> None:
    notifier = Notifier()
    metadata = {"thoughtSignature": "c2ln", "reasoningDetails": {"any": 1}}
    ready = ToolCall(id=CLOCK.id, name="clock", index=1, metadata=metadata)
    notify(notifier, [ToolCallStart(CLOCK), ToolCallReady(ready)])
    (note,) = notify(notifier, [ToolRunning(CLOCK)])
    assert (note.thought_signature, note.reasoning_details) == ("c2ln", {"any": 1})
    assert notify(Notifier(), [ToolCallReady(ready)]) == []  # a call whose start was missed
