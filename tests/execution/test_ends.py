"""The ends of a run that its caller decides: budgets, a stop button, a history that is shortened, and ``RunEnded``."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any, get_args

import anyio
import anyio.to_thread
import pytest
from anthropic_events import STOP, begin, end, start, stop
from execution.chat_chunks import answer, closed_turn
from execution.fake_model import FakeModel, ScriptedModel, calls_with_status, rejected, tasks_and_threads
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Budget,
    Content,
    Retries,
    RoundContext,
    Run,
    RunState,
    StreamError,
    StreamInterrupted,
    Timeouts,
    Tool,
    ToolContext,
    Turn,
    UsageError,
    events,
    execute_tool_calls_batched,
    run_loop,
    tool,
)
from streamkit.calls import Ended, Finish
from streamkit.events import Event, RunEnded, ToolCanceled, ToolProgress, Warned
from streamkit.execution.durable.entries import RunEntry

HISTORY = [Content.human("Go.")]
CALL = ("work", {})


async def work() -> str:
    return "done"


def loop(model: Any, *tools: Any, **options: Any) -> Run:
    return run_loop(model, **{"provider": "openai_chat", "tools": tools, "history": HISTORY, "run_key": "r", **options})


async def collect(run: Run) -> list[Event]:
    async with run:
        return [event async for event in run]


# ---------------------------------------------------------------- the last event


def failing() -> str:
    raise ValueError("no")


@tool(approval="ask")
def pay() -> str:
    return "paid"


FORM = Tool(name="fill_form", description="A form.", parameters={"type": "object", "properties": {}})

#: How a run gets each end: the responses of its model, its tools, and its options.
ENDS: dict[str, tuple[list[Any], list[Any], dict[str, Any]]] = {
    "answered": ([answer("Hello")], [], {}),
    "max_rounds": ([answer("", CALL)], [work], {"max_rounds": 2}),
    "breaker": ([answer("", ("failing", {}))], [failing], {}),
    "refusal": ([answer(refusal="No.")], [], {}),
    "filtered": ([answer("", finish="content_filter")], [], {}),
    "length": ([answer("Hel", finish="length")], [], {}),
    "awaiting_approval": ([answer("", ("pay", {}))], [pay], {}),
    "awaiting_results": ([answer("", ("fill_form", {}))], [FORM], {}),
    "budget": ([answer("", CALL, usage=(60, 50))], [work], {"budget": 200}),
    "canceled": ([answer("Hello")], [], {}),
    "timed_out": ([[*answer("Hello")[:2], anyio.Event]], [], {"timeouts": Timeouts(idle=0.01)}),
    "error": ([[rejected(401)]], [], {}),
}


@pytest.mark.anyio
@pytest.mark.parametrize("ended", ENDS)
async def test_the_last_event_names_the_end(ended: Ended) -> None:
    responses, tools, options = ENDS[ended]
    responses = [[step() if step is anyio.Event else step for step in response] for response in responses]
    run = loop(FakeModel(*responses), *tools, **options)
    shown: list[Event] = []
    error = None
    if ended == "canceled":
        run.cancel()
    try:
        async with run:
            async for event in run:
                shown.append(event)  # noqa: PERF401 - kept although it raises
    except StreamInterrupted as raised:
        error = raised.error
    finish = run.turn.finish if run.turn is not None else None
    assert shown[-1] == RunEnded(ended, error, tuple(run.pending), finish, run.usage)
    assert sum(isinstance(event, RunEnded) for event in shown) == 1
    assert run.ended == ended
    assert (error is not None) == (ended in ("timed_out", "error"))
    calls_with_status(run.contents)  # each has one result
    if ended.startswith("awaiting"):
        assert [call.name for call in run.pending] == [tools[0].name]


@pytest.mark.anyio
async def test_the_last_event_has_the_finish_the_usage_and_the_cost() -> None:
    responses = [answer("", CALL, usage=(60, 50)), answer("Done.", usage=(100, 5))]
    run = loop(FakeModel(*responses), work, budget=Budget(price=lambda turn: 0.25))
    *_, last = await collect(run)
    assert isinstance(last, RunEnded)
    assert last.finish is not None
    assert (last.ended, last.finish.reason, last.cost) == ("answered", "stop", 0.5)
    assert last.usage is not None
    assert (last.usage.input_tokens, last.usage.output_tokens) == (160, 55)
    *_, unpriced = await collect(loop(FakeModel(answer("Hello"))))
    assert (unpriced.usage, unpriced.cost) == (None, None)  # type: ignore[union-attr]


def test_every_end_has_a_case() -> None:
    assert tuple(ENDS) == get_args(Ended)


@pytest.mark.anyio
async def test_an_exception_of_the_caller_ends_the_run_without_an_error_of_a_turn() -> None:
    def broken(context: RoundContext) -> Any:
        raise KeyError("model")

    run = loop(broken)
    shown: list[Event] = []
    with pytest.raises(KeyError):  # noqa: PT012 - what is watched raises
        async with run:
            async for event in run:
                shown += [event]
    assert shown[-1] == RunEnded("error")


# ---------------------------------------------------------------- budgets


@pytest.mark.anyio
async def test_a_budget_ends_the_run_after_the_round_that_exceeds_it() -> None:
    model = FakeModel(answer("", CALL, usage=(60, 50)), answer("", CALL, usage=(90, 30)), answer("never asked for"))
    run = await loop(model, work, budget=200)
    assert (run.ended, run.rounds, len(model.asked)) == ("budget", 2, 2)
    assert calls_with_status(run.contents) == [("work", "completed")] * 2
    exact = await loop(FakeModel(answer("", CALL, usage=(60, 40)), answer("Done.")), work, budget=100)
    assert exact.ended == "answered"


@pytest.mark.anyio
async def test_an_answer_beyond_the_budget_is_an_answer() -> None:
    run = await loop(FakeModel(answer("Hello", usage=(600, 500))), budget=100)
    assert (run.ended, run.text) == ("answered", "Hello")


@pytest.mark.anyio
async def test_costs_are_the_sum_of_the_turns_prices() -> None:
    priced: list[tuple[str, str | None]] = []

    def price(turn: Turn) -> float:
        assert turn.usage is not None
        priced.append((turn.provider.name, turn.model))
        return (turn.usage.input_tokens or 0) * 0.01 + (turn.usage.output_tokens or 0) * 0.05

    model = FakeModel(answer("", CALL, usage=(100, 10)), answer("", CALL, usage=(100, 30)), answer("never"))
    run = await loop(model, work, budget=Budget(cost=2, price=price))
    assert (run.ended, run.cost, len(model.asked)) == ("budget", 4.0, 2)
    assert priced == [("openai_chat", "m")] * 2
    unlimited = await loop(FakeModel(answer("Hello", usage=(100, 10))), budget=Budget(price=price))
    assert (unlimited.ended, unlimited.cost) == ("answered", 1.5)


@pytest.mark.anyio
async def test_tokens_that_only_a_compaction_used_count_in_the_budget() -> None:
    # The counts beside the iterations are without those of compactions
    # (https://platform.claude.com/docs/en/build-with-claude/compaction).
    compaction = {"type": "compaction", "input_tokens": 83_000, "output_tokens": 709}
    message = {"type": "message", "input_tokens": 200, "output_tokens": 46}
    usage = {"input_tokens": 200, "output_tokens": 46, "iterations": [compaction, message]}
    called = [start(0, "tool_use", id="toolu_1", name="work", input={}), stop(0)]
    with_compaction = [begin(usage={"input_tokens": 200, "output_tokens": 1}), *called, end("tool_use", **usage), STOP]
    answered = [begin(), start(0, "text", text="Done."), stop(0), end("end_turn", output_tokens=1), STOP]
    model = FakeModel(with_compaction, answered)
    run = await loop(model, work, provider="anthropic", budget=Budget(tokens=50_000))
    assert (run.ended, len(model.asked)) == ("budget", 1)
    assert run.usage is not None
    assert (run.usage.input_tokens, run.usage.output_tokens) == (83_200, 755)
    more = await loop(FakeModel(with_compaction, answered), work, provider="anthropic", budget=Budget(tokens=90_000))
    assert (more.ended, more.text) == ("answered", "Done.")


@pytest.mark.anyio
async def test_a_resumed_run_has_spent_what_it_had_spent() -> None:
    paused = await loop(
        FakeModel(answer("", ("pay", {}), usage=(60, 50))),
        pay,
        budget=Budget(tokens=200, cost=5, price=lambda turn: 3.0),
    )
    assert (paused.ended, paused.cost) == ("awaiting_approval", 3.0)
    assert paused.state is not None
    state = RunState.model_validate_json(paused.state.model_dump_json())
    options: dict[str, Any] = {"tools": [pay], "resume": state.answer(approvals={state.pending[0]: True})}
    more = answer("", ("pay", {}), usage=(1, 1))
    by_cost = await run_loop(FakeModel(more), budget=Budget(cost=2, price=lambda turn: 3.0), **options)
    assert (by_cost.ended, by_cost.cost, by_cost.rounds) == ("budget", 3.0, 1)
    by_tokens = await run_loop(FakeModel(more), budget=109, **options)
    assert (by_tokens.ended, by_tokens.rounds) == ("budget", 1)


@pytest.mark.anyio
async def test_a_turn_without_usage_is_reported() -> None:
    run = loop(FakeModel(answer("", CALL), answer("", CALL), answer("Done.")), work, budget=1)
    warned = [event.code for event in await collect(run) if isinstance(event, Warned)]
    assert (run.ended, warned) == ("answered", ["usage_unknown"])
    assert [warning.code for warning in run.warnings] == ["usage_unknown"]


@pytest.mark.anyio
@pytest.mark.parametrize("price", [None, math.nan, "a lot", 10**400])
async def test_a_price_that_is_no_number_is_an_error_of_the_program(price: Any) -> None:
    run = loop(FakeModel(answer("", CALL, usage=(1, 1))), work, budget=Budget(cost=1, price=lambda turn: price))
    with pytest.raises(UsageError, match=f"budget.price must return a number for the model 'm', not {repr(price)[:9]}"):
        await run


@pytest.mark.anyio
async def test_calls_beyond_the_budget_are_canceled_and_end_the_run() -> None:
    model = FakeModel(answer("", CALL), answer("", CALL, CALL, CALL), answer("Done."))
    run = await loop(model, work, budget=Budget(calls=3))
    assert [result.status for result in run.results] == ["completed"] * 3 + ["canceled"]
    assert "used up" in (run.results[-1].error or "")
    assert (run.ended, run.rounds) == ("budget", 2)
    assert [block.type for block in run.contents[-1].blocks] == ["tool_response"] * 3


@pytest.mark.anyio
async def test_a_run_that_makes_as_many_calls_as_it_may_is_answered() -> None:
    model = FakeModel(answer("", CALL), answer("", CALL), answer("Done."))
    run = await loop(model, work, budget=Budget(calls=2))
    assert (run.ended, run.text, len(run.results)) == ("answered", "Done.", 2)


@pytest.mark.anyio
async def test_an_eager_call_beyond_the_budget_never_starts() -> None:
    started: list[int] = []

    @tool(eager=True)
    def note() -> str:
        started.append(1)
        return "noted"

    run = await loop(FakeModel(answer("", ("note", {}), ("note", {})), answer("Done.")), note, budget=Budget(calls=1))
    assert ([result.status for result in run.results], len(started)) == (["completed", "canceled"], 1)
    assert run.ended == "budget"


@pytest.mark.anyio
async def test_a_resumed_run_has_made_the_calls_that_it_had_made() -> None:
    paused = await loop(FakeModel(answer("", CALL), answer("", ("pay", {}))), work, pay, budget=Budget(calls=2))
    assert paused.state is not None
    answered = paused.state.answer(approvals={paused.pending[0].id: True})
    model = FakeModel(answer("", CALL), answer("Done."))
    run = await run_loop(model, resume=answered, tools=[work, pay], budget=Budget(calls=2))
    assert run.ended == "budget"
    assert [(result.call.name, result.status) for result in run.results] == [("pay", "completed"), ("work", "canceled")]


@pytest.mark.anyio
async def test_a_call_that_could_not_run_does_not_count_for_a_resumed_run_either() -> None:
    broken = ("work", '{"a": tru}')
    budget = Budget(calls=2)
    paused = await loop(
        FakeModel(answer("", broken, broken), answer("", broken, ("pay", {}))), work, pay, budget=budget
    )
    assert paused.state is not None
    answered = paused.state.answer(approvals={paused.pending[0].id: True})
    model = FakeModel(answer("", CALL), answer("Done."))
    run = await run_loop(model, resume=answered, tools=[work, pay], budget=budget)
    assert (run.ended, run.text) == ("answered", "Done.")


@pytest.mark.anyio
async def test_a_paused_run_whose_calls_are_used_up_ends_when_it_is_resumed() -> None:
    paused = await loop(FakeModel(answer("", ("pay", {}), CALL, CALL)), work, pay, budget=Budget(calls=2))
    assert (paused.ended, len(paused.pending)) == ("awaiting_approval", 1)
    assert paused.state is not None
    answered = paused.state.answer(approvals={paused.pending[0].id: False})
    run = await run_loop(FakeModel(answer("never")), resume=answered, tools=[work, pay], budget=Budget(calls=2))
    assert [result.status for result in run.results] == ["denied", "completed", "canceled"]
    assert (run.ended, run.rounds) == ("budget", 1)


@pytest.mark.anyio
async def test_the_calls_beside_that_of_the_output_count() -> None:
    output: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    model = FakeModel(answer("", CALL, ("final_output", {"value": 3}), CALL))
    run = await loop(model, work, provider="deepseek", budget=Budget(calls=1), output=output)
    assert [result.status for result in run.results] == ["completed", "completed", "canceled"]
    assert (run.ended, run.output) == ("answered", {"value": 3})


@pytest.mark.anyio
async def test_a_tool_with_the_name_of_the_outputs_tool_counts_without_an_output() -> None:
    final = tool(work, name="final_output")
    paused = await loop(FakeModel(answer("", ("final_output", {}), ("pay", {}))), final, pay, budget=Budget(calls=2))
    assert paused.state is not None
    answered = paused.state.answer(approvals={paused.pending[0].id: True})
    model = FakeModel(answer("", ("final_output", {})))
    run = await run_loop(model, resume=answered, tools=[final, pay], budget=Budget(calls=2))
    assert ([result.status for result in run.results], run.ended) == (["completed", "completed", "canceled"], "budget")


@pytest.mark.anyio
async def test_the_call_of_the_output_needs_no_budget() -> None:
    model = FakeModel(answer("", CALL), answer("", ("final_output", {"value": 3})))
    output: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
    run = await loop(model, work, provider="deepseek", budget=Budget(calls=1), output=output)
    assert (run.ended, run.output) == ("answered", {"value": 3})


@pytest.mark.parametrize(
    ("group", "options", "error"),
    [
        (Budget, {"tokens": 0}, "budget.tokens must be the number of tokens"),
        (Budget, {"tokens": 1.5}, "budget.tokens must be"),
        (Budget, {"cost": 0, "price": len}, "budget.cost must be a number above 0"),
        (Budget, {"cost": True, "price": len}, "budget.cost must be"),
        (Budget, {"calls": 0}, "budget.calls must be the number of tool calls"),
        (Budget, {"cost": 1}, "needs price="),
        (Budget, {"price": 3}, "budget.price must be a function"),
        (Retries, {"on_overflow": 3}, "retries.on_overflow must be a function"),
    ],
)
def test_wrong_options(group: type, options: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        group(**options)


def test_a_number_as_budget_is_one_of_tokens() -> None:
    with pytest.raises(UsageError, match=r"budget.tokens must be the number of tokens of a run, at least 1, not 0"):
        loop(FakeModel(), budget=0)


# ---------------------------------------------------------------- a context that overflows

OVERFLOW = (
    b'{"error":{"message":"This model\'s maximum context length is 8192 tokens. However, your messages resulted in 9001'
    b' tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}'
)


@pytest.mark.anyio
async def test_a_history_that_overflows_is_shortened_once() -> None:
    seen: list[tuple[StreamError, int]] = []

    async def shorten(error: StreamError, context: RoundContext) -> RoundContext:
        seen.append((error, len(context.contents)))
        return replace(context, contents=context.contents[-1:])

    model = ScriptedModel(rejected(400, OVERFLOW), answer("", CALL), answer("Hello"))
    run = loop(model, work, history=[Content.human("Old."), *HISTORY], retries=Retries(on_overflow=shorten))
    shown = await collect(run)
    assert [(error.code, error.limit, error.requested, count) for error, count in seen] == [
        ("context_overflow", 8192, 9001, 2)
    ]
    assert [len(context.contents) for context in model.asked] == [2, 1, 3]
    assert [event.code for event in shown if isinstance(event, Warned)] == ["history_shortened"]
    assert (run.ended, run.text, len(run.contents)) == ("answered", "Hello", 3)


@pytest.mark.anyio
async def test_a_second_overflow_is_the_error() -> None:
    asked = []

    def shorten(error: StreamError, context: RoundContext) -> RoundContext:
        asked.append(error)
        return context

    model = ScriptedModel(rejected(400, OVERFLOW), rejected(400, OVERFLOW))
    run = loop(model, retries=Retries(requests=3, on_overflow=shorten))
    with pytest.raises(StreamInterrupted, match="context_overflow"):
        await run
    assert (len(asked), len(model.asked)) == (1, 2)


@on_a_virtual_clock
@pytest.mark.anyio
async def test_run_timeout_ends_the_hook_and_leaves_the_error() -> None:
    async def shorten(error: StreamError, context: RoundContext) -> None:
        await anyio.sleep_forever()

    model = ScriptedModel(rejected(400, OVERFLOW))
    with pytest.raises(StreamInterrupted, match="context_overflow"):
        await loop(model, retries=Retries(fallbacks=["groq"], on_overflow=shorten), timeouts=Timeouts(run=5))
    assert len(model.asked) == 1


@pytest.mark.anyio
async def test_a_hook_without_a_context_leaves_it_to_the_fallbacks() -> None:
    model = ScriptedModel(rejected(400, OVERFLOW), answer("Hello"))
    run = await loop(model, retries=Retries(fallbacks=["groq"], on_overflow=lambda error, context: None))
    assert [context.provider.name for context in model.asked] == ["openai_chat", "groq"]
    assert run.text == "Hello"


@pytest.mark.anyio
async def test_other_errors_do_not_call_the_hook() -> None:
    def never(error: StreamError, context: RoundContext) -> None:
        raise AssertionError

    with pytest.raises(StreamInterrupted):
        await loop(ScriptedModel(rejected(400)), retries=Retries(on_overflow=never))


@pytest.mark.anyio
async def test_a_hook_that_returns_something_else() -> None:
    run = loop(ScriptedModel(rejected(400, OVERFLOW)), retries=Retries(on_overflow=lambda error, context: []))  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="on_overflow must return a RoundContext or None, not list"):
        await run


# ---------------------------------------------------------------- a stop button


@pytest.mark.anyio
@pytest.mark.parametrize("from_thread", [False, True], ids=["task", "thread"])
async def test_a_silent_stream_is_stopped_from_elsewhere(from_thread: bool) -> None:
    before = tasks_and_threads()
    model = FakeModel([*answer("Hello")[:2], anyio.Event()])
    run = loop(model)
    has_text = anyio.Event()

    async def stop() -> None:
        await has_text.wait()
        await anyio.wait_all_tasks_blocked()
        if from_thread:
            thread = threading.Thread(target=run.cancel)
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
        else:
            run.cancel()

    shown: list[Event] = []
    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        async with run:
            async for event in run:
                shown.append(event)
                if event.type == "text":
                    has_text.set()
        assert shown[-1] == RunEnded("canceled", usage=run.usage)
        assert (run.ended, run.text) == ("canceled", "Hello")
        assert model.streams[0].closed
        assert [content.metadata["interrupted"] for content in run.contents] == [True]
    await anyio.lowlevel.checkpoint()  # the task is as before: no cancellation is left
    assert tasks_and_threads()[0] == before[0]


@pytest.mark.anyio
async def test_running_tools_are_canceled_and_shown() -> None:
    running = anyio.Event()

    async def hang() -> None:
        running.set()
        await anyio.sleep_forever()

    run = loop(FakeModel(answer("", ("hang", {}), CALL)), hang, work)

    async def stop() -> None:
        await running.wait()
        await anyio.wait_all_tasks_blocked()
        run.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        shown = await collect(run)
    assert run.ended == "canceled"
    assert calls_with_status(run.contents) == [("hang", "canceled"), ("work", "completed")]
    assert [event.call.name for event in shown if isinstance(event, ToolCanceled)] == ["hang"]
    assert shown[-1] == RunEnded("canceled", finish=Finish("tool_calls", "tool_calls"), usage=run.usage)


@pytest.mark.anyio
async def test_the_reader_itself_may_stop() -> None:
    model = FakeModel(answer("Hello", CALL), answer("never asked for"))
    run = loop(model, work)
    shown: list[Event] = []
    async with run:
        async for event in run:
            shown.append(event)
            if event.type == "tool_call_end":
                run.cancel()
    assert (run.ended, len(model.asked)) == ("canceled", 1)
    assert [status for _, status in calls_with_status(run.contents)] in (["canceled"], ["completed"])
    assert isinstance(shown[-1], RunEnded)


@pytest.mark.anyio
async def test_a_hook_or_a_request_that_hangs_is_stopped() -> None:
    hanging = anyio.Event()

    async def hang(context: RoundContext) -> Any:
        hanging.set()
        await anyio.sleep_forever()

    for run in (loop(hang), loop(FakeModel(answer("", CALL)), work, before_follow_up=hang)):
        hanging = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(collect, run)
            await hanging.wait()
            await anyio.wait_all_tasks_blocked()
            run.cancel()
        assert run.ended == "canceled"


@pytest.mark.anyio
async def test_an_awaited_run_returns() -> None:
    run = loop(FakeModel([anyio.Event()]))
    results: list[Run] = []

    async def wait() -> None:
        results.append(await run)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        run.cancel()
    assert results == [run]
    assert run.ended == "canceled"


@pytest.mark.anyio
async def test_stopping_before_the_start_and_after_the_end() -> None:
    model = FakeModel(answer("Hello"))
    run = loop(model)
    run.cancel()
    assert await collect(run) == [RunEnded("canceled")]
    assert model.asked == []
    run = await loop(model)
    run.cancel()
    await anyio.wait_all_tasks_blocked()
    assert run.ended == "answered"


def test_stopping_after_the_event_loop_has_ended() -> None:
    run = loop(FakeModel(answer("Hello"))).run_sync()
    run.cancel()
    assert run.ended == "answered"


@pytest.mark.anyio
async def test_a_cancellation_from_outside_is_not_swallowed() -> None:
    run = loop(FakeModel([anyio.Event()]))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(collect, run)
            await anyio.wait_all_tasks_blocked()
            run.cancel()
            scope.cancel()
    assert scope.cancel_called
    assert run.ended == "canceled"


# ---------------------------------------------------------------- without an event loop


def test_run_sync() -> None:
    run = loop(FakeModel(answer("", CALL), answer("Done.")), work).run_sync()
    assert (run.ended, run.text, run.rounds) == ("answered", "Done.", 2)


def test_an_exception_in_run_sync_has_no_other_as_its_context() -> None:
    update = execute_tool_calls_batched(closed_turn("", ("failing", {})), tools=[failing]).run_sync()
    assert isinstance(update.results[0].exception, ValueError)
    assert update.results[0].exception.__context__ is None
    with pytest.raises(NameError, match="mine") as caught:
        loop(ScriptedModel(NameError("mine"))).run_sync()
    assert caught.value.__context__ is None


def test_run_sync_raises_what_the_run_raises() -> None:
    with pytest.raises(StreamInterrupted):
        loop(ScriptedModel(rejected(401))).run_sync()


@pytest.mark.anyio
async def test_run_sync_in_an_event_loop() -> None:
    with pytest.raises(UsageError, match=r"await the run instead of run_sync\(\)"):
        loop(FakeModel(answer("Hello"))).run_sync()


# ---------------------------------------------------------------- a run inside a tool


@pytest.mark.anyio
async def test_a_run_inside_a_tool_shows_its_events_under_the_call() -> None:
    inner = FakeModel(answer("", CALL), answer("Rain."))

    async def ask_expert(question: str, context: ToolContext) -> str:
        run = await context.watch(loop(inner, work, history=[Content.human(question)], run_key="inner"))
        text: str = run.text
        return text

    outer = loop(FakeModel(answer("", ("ask_expert", {"question": "?"})), answer("It rains.")), ask_expert)
    shown = await collect(outer)
    progress = [event for event in shown if isinstance(event, ToolProgress)]
    assert {event.call.name for event in progress} == {"ask_expert"}
    nested = [event.value.type for event in progress]
    assert nested[0] == "round_started"
    assert "tool_completed" in nested
    assert progress[-1].value == RunEnded("answered", finish=Finish("stop", "stop"))
    assert all(events.from_json(events.to_json(event)).value["type"] == event.value.type for event in progress)  # type: ignore[union-attr]
    assert outer.text == "It rains."


@pytest.mark.anyio
async def test_a_run_inside_a_tool_ends_with_it() -> None:
    inner = FakeModel([*answer("Hm")[:2], anyio.Event()])
    runs: list[Run] = []

    async def ask_expert(context: ToolContext) -> None:
        runs.append(loop(inner))
        await context.watch(runs[0])

    outer = loop(FakeModel(answer("", ("ask_expert", {}))), ask_expert)
    async with outer:
        async for event in outer:
            if isinstance(event, ToolProgress) and event.value.type == "text":
                outer.cancel()
    assert (runs[0].ended, outer.ended) == ("canceled", "canceled")
    assert inner.streams[0].closed


#: The ends that are reached over several rounds.
COUNTED_ENDS = [ended for ended, (_, tools, _) in ENDS.items() if tools and not ended.startswith("awaiting")]


@pytest.mark.anyio
@pytest.mark.parametrize("ended", COUNTED_ENDS)
async def test_a_run_resumed_from_any_of_its_entries_has_counted_the_rounds_before(ended: Ended) -> None:
    """What a policy counts over rounds is stored: else it would begin anew in every process that resumes the run."""
    responses, tools, options = ENDS[ended]
    entries: list[RunEntry] = []
    whole = await loop(FakeModel(*responses), *tools, **options, checkpoint=entries.append)
    assert whole.ended == ended
    assert whole.rounds > 1, "give the row a run of several rounds, so that this test shows that its count is stored"
    for number in range(1, len(entries)):
        state = RunState.from_entries(entries[:number])
        resumed = await run_loop(FakeModel(*responses), resume=state, tools=tools, **options)
        assert (resumed.ended, resumed.rounds) == (ended, whole.rounds), f"resumed after {number} entries"


@pytest.mark.anyio
@pytest.mark.parametrize("ended", COUNTED_ENDS)
async def test_a_run_that_is_paused_in_each_round_has_counted_the_rounds_before(ended: Ended) -> None:
    responses, tools, options = ENDS[ended]
    whole = await loop(FakeModel(*responses), *tools, **options)
    approve = options.get("approve", lambda call, deps: True)
    options = {name: value for name, value in options.items() if name != "approve"}
    asking = [(each if isinstance(each, Tool) else Tool(each)).replace(approval="ask") for each in tools]
    run = await loop(FakeModel(*responses), *asking, **options)
    while run.ended == "awaiting_approval":
        assert run.state is not None
        approvals = {call.id: approve(call, None) for call in run.pending}
        state = RunState.load(run.state.dump()).answer(approvals=approvals)
        run = await run_loop(FakeModel(*responses), resume=state, tools=asking, **options)
    assert (run.ended, run.rounds) == (ended, whole.rounds)
