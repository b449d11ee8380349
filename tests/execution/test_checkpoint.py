"""Entries of a run, and runs that are resumed from them: every prefix of the entries gives the same conversation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel, rejected
from execution.test_ends import OVERFLOW
from pydantic import BaseModel, ValidationError
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Approval,
    Budget,
    Content,
    Limits,
    Retries,
    RoundContext,
    Run,
    RunState,
    Target,
    Timeouts,
    Tool,
    ToolCall,
    ToolContext,
    ToolFailed,
    UsageError,
    execute_tool_calls_batched,
    run_loop,
    tool,
)
from streamkit.events import RoundFinished, RoundStarted, ToolCompleted, ToolRunning
from streamkit.execution import (
    BeforeEveryRequest,
    Lease,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    RunEntry,
    StartEntry,
    parse_entry,
)

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]
FOUR_CALLS = answer("", ("a", {}), ("b", {}), ("c", {}), ("d", {}))


class Dish(BaseModel):
    """The output of some scenarios."""

    name: str


class Scenario:
    """A program with a model and tools, which counts what it does."""

    def __init__(self, *responses: Any, **options: Any) -> None:
        self.responses = responses
        self.requests: list[tuple[int, int]] = []
        self.effects: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.is_without_output = "output" not in options
        self.options: dict[str, Any] = {"tools": self.tools(), **options}

    def tools(self) -> list[Tool]:
        async def effect(context: ToolContext) -> str:
            await anyio.lowlevel.checkpoint()
            self.effects[context.call.name] += 1
            self.keys.setdefault(context.call.name, set()).add(context.id)
            return f"{context.call.name} done"

        def make(name: str, **options: Any) -> Tool:
            return Tool(effect, name=name, description=name, **options)

        tools = [make("a"), make("b"), make("c", conflicts_with=["a"]), make("d", conflicts_with=["b"])]
        return [*tools, make("e", once=True), *([make("f", ends_run=True)] if self.is_without_output else [])]

    def ask(self, context: RoundContext) -> Any:
        """Respond to the position in the conversation, as a model does."""
        position = sum(content.speaker == "ai" for content in context.contents)
        if self.options.get("shape") == "sequential":  # one content for each call
            position = context.round
        self.requests.append((context.round, position))
        return self.responses[position]

    def start(self, checkpoint: Callable[[RunEntry], Awaitable[None]] | None = None, **more: Any) -> Run:
        options = {"provider": "openai_chat", "history": HISTORY, "run_key": "run", **self.options, **more}
        return run_loop(self.ask, checkpoint=checkpoint, **options)

    def resume(self, entries: list[RunEntry], **more: Any) -> Run:
        options = {name: value for name, value in self.options.items() if name not in ("provider", "history", "thread")}
        return run_loop(self.ask, resume=RunState.from_entries(entries), **{**options, **more})


class Log:
    """A store in memory, which writes entries as JSON and reads them back."""

    def __init__(self) -> None:
        self.stored: list[str] = []

    async def append(self, entry: RunEntry) -> None:
        await anyio.lowlevel.checkpoint()
        self.stored.append(entry.to_json())

    @property
    def entries(self) -> list[RunEntry]:
        return [parse_entry(each) for each in self.stored]


def in_their_positions(entries: list[RunEntry]) -> list[RunEntry]:
    """Return entries as if they had been recorded in this order."""
    return [entry.model_copy(update={"position": number}) for number, entry in enumerate(entries)]


def name_of(entry: RunEntry) -> str:
    return f"{entry.type} {entry.round}" if isinstance(entry, RequestEntry | ResponseEntry) else entry.type


def signed(*blocks: dict[str, Any], stop: str) -> list[dict[str, Any]]:
    """Return an Anthropic stream of complete blocks."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        chunks.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}}
    return [*chunks, end, {"type": "message_stop"}]


def shortened(context: RoundContext) -> RoundContext:
    return replace(context, contents=[Content.human("Short."), *context.contents[1:]])


def reminded(context: RoundContext) -> RoundContext:
    return replace(context, contents=[*context.contents, Content.human(f"Round {context.round}.")])


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "four calls, two conflict": lambda: Scenario(FOUR_CALLS, answer("Done.", usage=(3, 4))),
    "three rounds": lambda: Scenario(answer("", ("a", {})), answer("x", ("b", {}), ("a", {})), answer("Done.")),
    "calls that cannot run": lambda: Scenario(
        answer("", ("a", '{"x": '), ("nothing", {}), ("b", {"no": 1}), ("c", {})), answer("Done.")
    ),
    "the last round": lambda: Scenario(FOUR_CALLS, FOUR_CALLS, max_rounds=2),
    "one after the other": lambda: Scenario(FOUR_CALLS, answer("Done."), shape="sequential"),
    "a thread": lambda: Scenario(
        FOUR_CALLS,
        answer("", ("a", {})),
        answer("Done."),
        history=None,
        thread=[{"role": "user", "content": "Go."}],
    ),
    "a pause": lambda: Scenario(
        signed({"type": "text", "text": "One "}, stop="pause_turn"),
        signed({"type": "text", "text": "two "}, stop="pause_turn"),
        signed({"type": "tool_use", "id": "toolu_1", "name": "a", "input": {}}, stop="tool_use"),
        signed({"type": "text", "text": "Done."}, stop="end_turn"),
        provider="anthropic",
    ),
    "a hook that replaces the history": lambda: Scenario(
        FOUR_CALLS, answer("", ("a", {})), answer("Done."), before_follow_up=shortened
    ),
    "an output in the text, corrected": lambda: Scenario(
        FOUR_CALLS, answer('{"name": 1}'), answer('{"name": "Soup"}'), output=Dish
    ),
    "an output in a thread, corrected": lambda: Scenario(
        answer('{"name": 1}'),
        answer('{"name": "Soup"}'),
        output=Dish,
        history=None,
        thread=[{"role": "user", "content": "Go."}],
    ),
    "an output as a call, corrected": lambda: Scenario(
        answer("", ("a", {}), ("final_output", {"name": 1})),
        answer("", ("final_output", {"name": "Soup"})),
        provider="deepseek",
        output=Dish,
    ),
    "a run with a cost": lambda: Scenario(
        answer("", ("a", {}), usage=(3, 1)),
        answer("Done.", usage=(5, 2)),
        budget=Budget(price=lambda turn: (turn.usage and turn.usage.input_tokens) or 0),
    ),
    "a hook that adds a content": lambda: Scenario(
        FOUR_CALLS, answer("", ("a", {})), answer("Done."), before_follow_up=reminded
    ),
    "a hook of every request in a thread": lambda: Scenario(
        answer("", ("a", {})),
        answer("Done."),
        before_follow_up=BeforeEveryRequest(reminded),
        history=None,
        thread=[{"role": "user", "content": "Go."}],
    ),
    "a call that runs at most once": lambda: Scenario(
        answer("", ("e", {}), ("a", {})), answer("", ("e", {})), answer("Done.")
    ),
    "a tool that ends the run": lambda: Scenario(answer("", ("a", {})), answer("", ("f", {}), ("b", {}))),
    "a refusal": lambda: Scenario(answer(refusal="No.")),
    "no text": lambda: Scenario(answer()),
}


def conversation(run: Run) -> tuple[Any, ...]:
    added = run.contents, run.history, run.thread
    return (*added, run.ended, run.text, run.usage, run.rounds, run.output, run.cost)


def open_starts(entries: list[RunEntry]) -> set[str]:
    """Return the ids of calls of ``once`` that have started and have no result."""
    started = {entry.call_id for entry in entries if isinstance(entry, StartEntry)}
    return started - {entry.result.call_id for entry in entries if isinstance(entry, ResultEntry)}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_run_continues_after_any_of_its_entries(name: str) -> None:
    whole, log = SCENARIOS[name](), Log()
    expected = await whole.start(log.append)
    plain = await SCENARIOS[name]().start()
    assert conversation(plain) == conversation(expected)
    for count in range(1, len(log.entries) + 1):
        entries = log.entries[:count]
        scenario, rest = SCENARIOS[name](), Log()
        run = await scenario.resume(entries, checkpoint=rest.append)
        answered = sum(isinstance(entry, ResponseEntry) for entry in entries)
        assert scenario.requests == whole.requests[answered:], count
        if open_starts(entries):
            assert next(result.status for result in run.results if result.call.name == "e") == "error", count
            continue  # its outcome is unknown, so that the conversation is another one
        assert conversation(run) == conversation(expected), count
        finished = sum(isinstance(e, ResultEntry) and str(e.result.value).endswith(" done") for e in entries)
        assert scenario.effects.total() == whole.effects.total() - finished, count
        for tool_name, keys in scenario.keys.items():
            assert keys <= whole.keys[tool_name]
        final = RunState.from_entries([*entries, *rest.entries])
        assert final.open_calls == []
        again = await SCENARIOS[name]().resume([*entries, *rest.entries])
        assert conversation(again) == conversation(expected)


async def test_entries_are_recorded_before_what_follows_from_them() -> None:
    order: list[str] = []

    async def checkpoint(entry: RunEntry) -> None:
        order.append(f"{entry.type} begins")
        await anyio.lowlevel.checkpoint()
        order.append(name_of(entry))

    async with Scenario(answer("", ("a", {})), answer("Done.")).start(checkpoint) as run:
        async for event in run:
            if isinstance(event, RoundStarted | RoundFinished | ToolCompleted):
                order += [type(event).__name__]
            elif isinstance(event, ToolRunning):
                assert "response 0" in order
    assert order == [
        *("request begins", "request 0", "RoundStarted"),
        *("response begins", "response 0"),
        *("result begins", "result", "ToolCompleted", "RoundFinished"),
        *("request begins", "request 1", "RoundStarted"),
        *("response begins", "response 1", "RoundFinished"),
    ]


async def test_a_result_belongs_to_its_call_whatever_the_order_of_starting() -> None:
    log = Log()
    expected = await Scenario(FOUR_CALLS, answer("Done.")).start(log.append)
    results = [entry for entry in log.entries if isinstance(entry, ResultEntry)]
    others = log.entries[:2]
    for rotation in range(4):
        shuffled = in_their_positions([*others, *reversed(results[rotation:] + results[:rotation])])
        run = await Scenario(FOUR_CALLS, answer("Done.")).resume(shuffled)
        assert run.contents == expected.contents


async def test_a_conflicting_call_starts_only_when_the_result_before_it_is_recorded() -> None:
    order: list[str] = []
    names: dict[str, str] = {}

    async def checkpoint(entry: RunEntry) -> None:
        if isinstance(entry, ResponseEntry):
            names.update({call.id: call.name for call in entry.calls})
        if isinstance(entry, ResultEntry):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            order.append(f"recorded {names[entry.result.call_id]}")

    async def around(call: ToolCall, go: Callable[[], Awaitable[Any]]) -> Any:
        order.append(f"started {call.name}")
        return await go()

    await Scenario(FOUR_CALLS, answer("Done.")).start(checkpoint, around_call=around)
    assert order.index("recorded a") < order.index("started c")
    assert order.index("recorded b") < order.index("started d")


async def test_entries_are_small() -> None:
    """An entry has what it adds: the last of fifty rounds is not larger than the first by more than its numbers."""
    log = Log()
    responses = [answer("", ("a", {"n": number}) if number < 0 else ("a", {})) for number in range(50)]
    await Scenario(*responses, answer("Done."), max_rounds=60).start(log.append)
    sizes = [len(entry.to_json()) for entry in log.entries]
    assert len(sizes) == 50 * 3 + 2
    assert max(sizes[-5:]) <= max(sizes[:5]) + 50
    assert [entry.history for entry in log.entries if isinstance(entry, RequestEntry)][1:] == [None] * 50


async def watch(run: Run, shown: list[Any]) -> None:
    async with run:
        async for event in run:
            shown += [event]


async def test_a_checkpoint_that_fails_ends_the_run_with_its_exception() -> None:
    class Lost(Exception):
        pass

    for failing in ("request 0", "response 0", "result", "request 1", "response 1"):
        log = Log()

        async def checkpoint(entry: RunEntry, failing: str = failing, log: Log = log) -> None:
            if name_of(entry) == failing:
                raise Lost(failing)
            await log.append(entry)

        scenario = Scenario(FOUR_CALLS, answer("Done."))
        shown: list[Any] = []
        run = scenario.start(checkpoint)
        with pytest.raises(Lost):
            await watch(run, shown)
        assert run.ended == "error"
        if failing == "result":
            assert not [event for event in shown if isinstance(event, ToolCompleted)]
        if log.stored:
            again = Scenario(FOUR_CALLS, answer("Done."))
            final = await again.resume(log.entries)
            assert final.ended == "answered"


@on_a_virtual_clock
@pytest.mark.parametrize("hanging", ["request 0", "response 0", "result", "request 1", "response 1"])
@pytest.mark.parametrize(("run_timeout", "seconds"), [(60, 60), (5, 10)])  # an entry has at least ten seconds
async def test_a_checkpoint_that_hangs_ends_with_the_time_of_the_run(
    hanging: str, run_timeout: float, seconds: float
) -> None:
    log, cut = Log(), []

    async def checkpoint(entry: RunEntry) -> None:
        if name_of(entry) == hanging:
            try:
                await anyio.sleep_forever()
            finally:
                cut.append(name_of(entry))
        await log.append(entry)

    scenario = Scenario(FOUR_CALLS, answer("Done."))
    shown: list[Any] = []
    run = scenario.start(checkpoint, timeouts=Timeouts(run=run_timeout))
    start = anyio.current_time()
    with pytest.raises(TimeoutError, match=r"timeouts\.run"):
        await watch(run, shown)
    assert anyio.current_time() - start == pytest.approx(seconds)
    assert (run.ended, cut) == ("error", [hanging])  # no further entry is waited for
    assert not [event for event in shown if isinstance(event, ToolCompleted)] or hanging in ("request 1", "response 1")
    assert not (hanging in ("request 0", "response 0") and scenario.effects)  # no effect of what is not recorded
    if log.stored:
        again = Scenario(FOUR_CALLS, answer("Done."))
        final = await again.resume(log.entries)
        assert final.ended == "answered"
        assert hanging != "result" or set(again.effects) == set("abcd")


@on_a_virtual_clock
async def test_what_happened_when_the_time_of_the_run_was_over_is_recorded() -> None:
    log = Log()

    async def checkpoint(entry: RunEntry) -> None:
        if entry.type == "result":
            await anyio.sleep(3)
        await log.append(entry)

    async def slow() -> str:
        await anyio.sleep(4)
        return "done"

    async def hang() -> None:
        await anyio.sleep_forever()

    calls = answer("", ("slow", {}), ("hang", {}))
    run = run_loop(
        lambda _: calls,
        provider="openai_chat",
        tools=[slow, hang],
        history=HISTORY,
        checkpoint=checkpoint,
        timeouts=Timeouts(call=None, run=5),
    )
    shown: list[Any] = []
    await watch(run, shown)
    assert run.ended == "timed_out"
    results = [entry.result for entry in log.entries if isinstance(entry, ResultEntry)]
    assert [result.status for result in results] == ["completed", "timed_out"]
    assert [event.type for event in shown if event.type in ("tool_completed", "tool_timed_out")] == [
        "tool_completed",
        "tool_timed_out",
    ]


async def test_a_canceled_run_continues_from_its_entries() -> None:
    log, started = Log(), anyio.Event()

    async def wait() -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    stream = answer("", ("wait", {}))
    run = run_loop(
        lambda _: stream, provider="openai_chat", tools=[wait], history=HISTORY, run_key="k", checkpoint=log.append
    )
    async with run:
        async for event in run:
            if isinstance(event, ToolRunning):
                await started.wait()
                break
    assert run.ended == "canceled"
    assert [entry.type for entry in log.entries] == ["request", "response"]

    def quick() -> str:
        return "now"

    again = await run_loop(
        lambda _: answer("Done."), resume=RunState.from_entries(log.entries), tools=[tool(quick, name="wait")]
    )
    assert (again.ended, again.contents[1].blocks[0].result) == ("answered", "now")  # type: ignore[union-attr]


async def test_a_fallback_that_responded_is_asked_next() -> None:
    log = Log()

    def ask(context: RoundContext) -> Any:
        if context.model == "first":
            raise ConnectionError("down")
        return answer("", ("look", {})) if context.round == 0 else answer("Done.")

    def look() -> str:
        return "saw"

    options: dict[str, Any] = {"tools": [look], "retries": Retries(fallbacks=[Target("deepseek", "second")])}
    run = await run_loop(
        ask, provider="openai_chat", model="first", history=HISTORY, checkpoint=log.append, run_key="k", **options
    )
    state = RunState.from_entries(log.entries[:2])
    assert (state.provider, state.model) == ("deepseek", "second")
    again = await run_loop(ask, resume=state, **options)
    assert again.contents == run.contents


# ---------------------------------------------------------------- approvals


def payment(paid: list[int]) -> Tool:
    @tool(approval="ask")
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    return pay


PAYMENTS = answer("", ("pay", {"amount": 1}), ("pay", {"amount": 2}))


async def test_a_history_that_was_shortened_after_an_overflow_stays_short() -> None:
    log = Log()

    def ask(context: RoundContext) -> Any:
        if len(context.contents) == 2:
            raise rejected(400, OVERFLOW)
        return answer("Done.")

    history = [Content.human("Old."), *HISTORY]
    run = await run_loop(
        ask,
        provider="openai_chat",
        history=history,
        checkpoint=log.append,
        retries=Retries(on_overflow=lambda error, context: replace(context, contents=context.contents[1:])),
    )
    again = await run_loop(ask, resume=RunState.from_entries(log.entries))
    assert (again.ended, again.history) == ("answered", run.history)
    assert again.history[0] == HISTORY[0]


async def test_a_decision_is_recorded_and_not_asked_for_again() -> None:
    log, paid, asked = Log(), [], []

    async def approve(call: ToolCall, _: Any) -> Approval:
        asked.append(call.arguments["amount"])
        return Approval(call.arguments["amount"] == 1, {"amount": 10} if call.arguments["amount"] == 1 else None, "no")

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else PAYMENTS

    options: dict[str, Any] = {"tools": [payment(paid)], "approve": approve}
    run = await run_loop(ask, provider="openai_chat", history=HISTORY, checkpoint=log.append, **options)
    assert (paid, sorted(asked)) == ([10], [1, 2])
    approved = next(number for number, entry in enumerate(log.entries) if entry.type == "approval")
    entries = in_their_positions([entry for entry in log.entries[: approved + 1] if entry.type != "result"])
    again = await run_loop(ask, resume=RunState.from_entries(entries), **options)
    assert (paid, sorted(asked)) == ([10, 10], [1, 2, 2])
    assert again.contents == run.contents


async def test_decisions_for_a_run_from_its_entries_are_recorded_too() -> None:
    log, paid = Log(), []

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else PAYMENTS

    options: dict[str, Any] = {"tools": [payment(paid)], "checkpoint": log.append}
    paused = await run_loop(ask, provider="openai_chat", history=HISTORY, **options)
    assert (paused.ended, paid) == ("awaiting_approval", [])
    first, second = [call.id for call in paused.pending]
    state = RunState.from_entries(log.entries)
    paused = await run_loop(ask, resume=state.answer(approvals={first: True}), **options)
    assert (paused.ended, paid, [call.id for call in paused.pending]) == ("awaiting_approval", [1], [second])
    state = RunState.from_entries(log.entries)
    assert state.approvals == {first: Approval(True)}
    run = await run_loop(ask, resume=state.answer(approvals={second: False}), **options)
    assert (run.ended, paid) == ("answered", [1])
    done = await run_loop(ask, resume=RunState.from_entries(log.entries), **options)
    assert (done.ended, paid, done.contents) == ("answered", [1], run.contents)


async def test_a_run_that_was_left_without_a_checkpoint_gets_none() -> None:
    """Its entries would begin in the middle, so that nothing could be made of them after a crash."""
    log, paid = Log(), []
    tools = [payment(paid)]
    paused = await run_loop(lambda _: PAYMENTS, provider="openai_chat", history=HISTORY, tools=tools)
    with pytest.raises(UsageError, match="left without checkpoint="):
        run_loop(lambda _: answer("Done."), resume=paused.state, tools=tools, checkpoint=log.append)
    assert (log.entries, paid) == ([], [])


async def test_a_lease_that_cannot_be_confirmed_is_no_failure_of_the_provider() -> None:
    asked: list[RoundContext] = []

    class Unconfirmed(Lease):
        fence = 1

        async def confirm(self) -> None:
            raise ConnectionResetError("the database is gone")

    def ask(context: RoundContext) -> Any:
        asked.append(context)
        return answer("Done.")

    run = run_loop(
        ask,
        provider="openai_chat",
        history=HISTORY,
        checkpoint=lambda entry: Unconfirmed(),
        retries=Retries(2, fallbacks=["anthropic"]),
    )
    with pytest.raises(ConnectionResetError, match="database is gone"):
        await run
    assert (run.ended, run.warnings, asked) == ("error", [], [])


async def test_a_stored_state_approves_nothing() -> None:
    """A state may come back from a client, so decisions are taken from the entries alone."""
    log, paid = Log(), []
    options: dict[str, Any] = {"tools": [payment(paid)]}
    paused = await run_loop(
        lambda _: PAYMENTS, provider="openai_chat", history=HISTORY, checkpoint=log.append, **options
    )
    decisions = {call.id: True for call in paused.pending}

    async def fail(entry: RunEntry) -> None:
        await log.append(entry)
        if len([each for each in log.entries if each.type == "approval"]) == 2:
            raise OSError("the process ends here")

    with pytest.raises(OSError, match="ends here"):
        await run_loop(lambda _: PAYMENTS, resume=paused.state.answer(approvals=decisions), checkpoint=fail, **options)
    state = RunState.from_entries(log.entries)
    assert state.approvals == {call_id: Approval(True) for call_id in decisions}
    stored = RunState.model_validate_json(state.model_dump_json())
    assert stored.approvals == {}
    run = await run_loop(lambda _: answer("Done."), resume=stored, **options)
    assert (run.ended, paid) == ("awaiting_approval", [])


# ---------------------------------------------------------------- wrong entries


async def entries_of_a_run() -> list[RunEntry]:
    log = Log()
    await Scenario(FOUR_CALLS, answer("Done.")).start(log.append)
    return log.entries


async def test_entries_that_are_no_run_are_refused() -> None:
    entries = await entries_of_a_run()
    other = entries[2].model_copy(update={"run_key": "other"})
    for wrong, message in (
        ([], "there are no entries"),
        (entries[1:], r"entries\[0\] has the position 1"),
        ([*entries[:2], *entries[3:]], r"entries\[2\] has the position 3"),
        ([*entries[:2], entries[3], entries[2]], r"entries\[2\] has the position 3"),
        (in_their_positions(entries[1:]), "must be its first request"),
        ([*entries[:2], other], r"entries\[2\] is of the run 'other'"),
        (in_their_positions([*entries[:2], *entries[3:]]), "lack the result of the call"),
        (in_their_positions([entries[0], entries[-1]]), "lack the request of round 1"),
    ):
        with pytest.raises(UsageError, match=message):
            RunState.from_entries(wrong)


async def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(UsageError, match="not JSON"):
        parse_entry("{")
    with pytest.raises(ValueError, match="type"):
        parse_entry("{}")


async def test_a_tool_does_not_start_before_its_response_is_recorded() -> None:
    order: list[str] = []

    async def checkpoint(entry: RunEntry) -> None:
        order.append(entry.type)

    @tool(eager=True)
    async def look() -> str:
        order.append("look")
        return "saw"

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("look", {}), ("look", {}))

    await run_loop(ask, provider="openai_chat", tools=[look], history=HISTORY, checkpoint=checkpoint)
    assert order[:2] == ["request", "response"]


# ---------------------------------------------------------------- around_call


async def test_around_call_runs_in_the_task_of_the_tool_and_gives_the_value() -> None:
    outside: dict[int, int] = {}
    inside: dict[int, int] = {}

    async def look(n: int) -> int:
        inside[n] = anyio.get_current_task().id
        return n

    async def around(call: ToolCall, go: Callable[[], Awaitable[Any]]) -> Any:
        outside[call.arguments["n"]] = anyio.get_current_task().id
        call.arguments["n"] = 1000  # a copy: it does not change what runs
        return {"value": await go(), "call": call.name}

    calls = [ToolCall(id=str(n), name="look", index=n, arguments={"n": n}, state="complete") for n in range(2)]
    update = await execute_tool_calls_batched(calls, tools=[look], provider="openai_chat", around_call=around)
    assert [result.value for result in update.results] == [{"value": n, "call": "look"} for n in range(2)]
    assert list(inside) == [0, 1]
    assert inside == outside


async def test_around_call_may_give_a_value_without_the_tool_and_what_it_raises_is_the_error() -> None:
    def look(n: int) -> int:
        raise AssertionError("not called")

    async def around(call: ToolCall, _: Any) -> Any:
        if call.arguments["n"] == 1:
            return "cached"
        raise ToolFailed("Too many calls.")

    calls = [ToolCall(id=str(n), name="look", index=n, arguments={"n": n + 1}, state="complete") for n in range(2)]
    update = await execute_tool_calls_batched(calls, tools=[look], provider="openai_chat", around_call=around)
    assert [(each.status, each.value or each.error) for each in update.results] == [
        ("completed", "cached"),
        ("error", "Too many calls."),
    ]


async def test_around_call_is_within_the_timeout_of_the_call() -> None:
    def look() -> str:
        return "saw"

    async def around(_: ToolCall, go: Callable[[], Awaitable[Any]]) -> Any:
        await anyio.sleep_forever()
        return await go()

    calls = [ToolCall(id="x", name="look", index=0, arguments={}, state="complete")]
    update = await execute_tool_calls_batched(
        calls, tools=[look], provider="openai_chat", around_call=around, timeouts=0.01
    )
    assert update.results[0].status == "timed_out"


@pytest.mark.parametrize("is_cancelled_in", ["start", "approval"])
@on_a_virtual_clock
async def test_an_entry_whose_checkpoint_was_cancelled_keeps_its_position(is_cancelled_in: str) -> None:
    log, stored = Log(), anyio.Event()

    async def append(entry: RunEntry) -> None:
        await log.append(entry)
        if entry.type == is_cancelled_in and not stored.is_set():
            stored.set()
            await anyio.sleep(3)  # it is stored, and the response of the database is on its way

    async def work() -> str:
        """Finish after the run was stopped."""
        with anyio.CancelScope(shield=True):
            await stored.wait()
            await anyio.sleep(2)
        return "done"

    async def pay() -> str:
        """Pay."""
        return "paid"

    def ask(context: RoundContext) -> Any:
        return answer("Done.") if context.round else answer("", ("work", {}), ("pay", {}))

    is_once = is_cancelled_in == "start"
    run = run_loop(
        ask,
        provider="openai_chat",
        history=HISTORY,
        tools=[work, Tool(pay, once=is_once, approval="allow" if is_once else "ask")],
        approve=lambda *_: True,
        timeouts=Timeouts(run=1.0 if is_once else None),  # which ends the tasks of calls too
        checkpoint=append,
    )
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            await stored.wait()
            run.cancel()

        if not is_once:
            tasks.start_soon(stop)
        await run
    entries = log.entries
    repeated = [number for number in range(1, len(entries)) if entries[number] == entries[number - 1]]
    assert [entries[number].type for number in repeated] == [is_cancelled_in]
    state = RunState.from_entries(entries)
    assert (state.position, state.results[0].value) == (len(entries) - 1, "done")


@pytest.mark.parametrize("data", ["[" * 200_000, '"\udc80"', b"\xff"])
def test_an_entry_that_is_no_json_is_refused_in_one_way(data: str | bytes) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        parse_entry(data)


async def test_a_call_whose_arguments_are_nested_as_deep_as_the_limit_allows_is_stored_and_resumed() -> None:
    """pydantic writes JSON of 255 levels and reads 200, and history keeps 180."""
    arguments: Any = 1
    for _ in range(Limits().nesting):
        arguments = {"a": arguments}

    @tool(approval="ask")
    def deep(a: dict[str, Any]) -> str:
        """Take a deep value."""
        return "done"

    entries: list[str] = []
    options: dict[str, Any] = {"provider": "openai_chat", "tools": [deep], "history": HISTORY, "run_key": "r"}
    paused = await run_loop(
        FakeModel(answer("", ("deep", arguments))), checkpoint=lambda entry: entries.append(entry.to_json()), **options
    )
    assert paused.ended == "awaiting_approval"
    assert paused.state is not None
    for state in (RunState.load(paused.state.dump()), RunState.from_entries(map(parse_entry, entries))):
        (call,) = state.calls
        assert call.arguments == arguments
        resumed = state.answer(approvals={call.id: True})
        run = await run_loop(FakeModel(answer("Done.")), provider="openai_chat", tools=[deep], resume=resumed)
        assert (run.ended, [result.value for result in run.results]) == ("answered", ["done"])


def test_an_entry_or_a_state_that_is_nested_too_deeply_to_be_stored_again_is_refused() -> None:
    deep: Any = ""
    for _ in range(260):
        deep = [deep]
    entry = {
        "type": "result",
        "run_key": "r",
        "position": 2,
        "result": {"call_id": "c", "status": "completed", "value": deep},
    }
    with pytest.raises(UsageError, match="nested deeper than 240 levels"):
        parse_entry(json.dumps(entry))
    with pytest.raises(ValidationError, match="nested deeper than 240 levels"):
        RunState.load(json.dumps({"provider": "openai_chat", "nested_extra": deep}))
