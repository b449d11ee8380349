"""Whole executions of drawn tools in a drawn order, left at a drawn moment, and runs that are paused and resumed.

Whatever happens, each call has exactly one result, in call order; the thread is one that the provider takes; no tool
runs twice, none beside one that it must not run beside, and nothing is left over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from execution.fake_model import calls_with_status
from execution.resource_checks import tool_threads, wait_until_nothing_is_left
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from streamkit import (
    Approval,
    Content,
    RunState,
    StreamInterrupted,
    Tool,
    ToolContext,
    ToolFailed,
    ToolResult,
    Turn,
    render_request,
    run_loop,
)
from streamkit.execution import Run, Schedule, execute_tool_calls_batched, execute_tool_calls_sequentially
from streamkit.testing import validate_request

SUITE = settings(deadline=None, derandomize=True, database=None, max_examples=40)
BACKENDS = ["asyncio", "trio"]
QUESTION = [Content.human("Go.")]

#: A call: its tool, the passes of the event loop that it takes before it waits, and if it waits for its gate.
Wanted = tuple[str, int, bool]


class Workspace:
    """The tools, the calls that run in them, and checks of their concurrency."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.begun: Counter[str] = Counter()  # by the id of the call
        self.gates: dict[int, anyio.Event] = {}
        self.faults: list[str] = []
        self.limit = 0

    def enter(self, name: str, call_id: str) -> None:
        self.begun[call_id] += 1
        others = list(self.running)
        self.running.append(name)
        if len(self.running) > self.limit:
            self.faults.append(f"{len(self.running)} at once")
        if others and "alone" in self.running:
            self.faults.append(f"{name} beside {others}")
        if self.running.count("narrow") > 2:
            self.faults.append("three of a tool that allows two")
        if {"left", "right"} <= set(self.running) or self.running.count("left") > 1:
            self.faults.append(f"{name} beside {others}")

    def made(self, name: str, fails: bool = False, **options: Any) -> Tool:
        async def work(number: int, steps: int, waits: bool, context: ToolContext) -> dict[str, Any]:
            self.enter(name, context.id)
            try:
                for step in range(steps):
                    context.progress(step)
                    await anyio.lowlevel.checkpoint()
                if waits:
                    await self.gates[number].wait()
            finally:
                self.running.remove(name)
            if fails:
                raise ToolFailed(f"number {number} failed")
            return {"number": number}

        return Tool(work, name=name, **options)

    def tools(self) -> list[Tool]:
        def threaded(number: int, steps: int, waits: bool, context: ToolContext) -> dict[str, Any]:
            self.begun[context.id] += 1
            for step in range(steps):
                context.progress(step)
            return {"number": number}

        async def late(number: int, steps: int, waits: bool, context: ToolContext) -> None:
            self.begun[context.id] += 1
            await anyio.sleep_forever()

        return [
            self.made("work"),
            self.made("fails", fails=True),
            self.made("alone", exclusive=True),
            self.made("narrow", limit=2),
            self.made("left", conflicts_with=["left", "right"]),
            self.made("right"),
            self.made("early", eager=True),
            self.made("asked", approval="ask"),
            self.made("refused", approval="ask"),
            self.made("asked_alone", approval="ask", exclusive=True),
            self.made("forbidden", approval="deny"),
            Tool(threaded, name="threaded"),
            Tool(late, name="late", timeout=1e-9),  # a deadline that has passed at its first await
        ]


#: The status of a call of each tool if the execution is not left.
STATUS = {
    "work": "completed",
    "fails": "error",
    "alone": "completed",
    "narrow": "completed",
    "left": "completed",
    "right": "completed",
    "early": "completed",
    "asked": "completed",
    "refused": "denied",
    "asked_alone": "completed",
    "forbidden": "denied",
    "threaded": "completed",
    "late": "timed_out",
    "unknown": "error",
}


@dataclass
class Plan:
    """One execution: its calls, the order in which they finish, and when it is left."""

    wanted: list[Wanted]
    limit: int
    order: list[int]
    shape: Literal["batched", "sequential"]
    provider: str
    breaks: bool  # the stream ends in an error: in the middle, or, of a run, in its second response
    leaves: tuple[Literal["never", "canceled", "break", "error"], int]
    made: Workspace = field(default_factory=Workspace)


@st.composite
def plans(draw: st.DrawFn, *, leaving: bool = True) -> Plan:
    wanted = draw(
        st.lists(st.tuples(st.sampled_from(sorted(STATUS)), st.integers(0, 3), st.booleans()), min_size=1, max_size=7)
    )
    how = st.sampled_from(["never", "canceled", "break", "error"]) if leaving else st.just("never")
    return Plan(
        wanted,
        draw(st.integers(1, 4)),
        draw(st.permutations(range(len(wanted)))),
        draw(st.sampled_from(["batched", "sequential"])),
        draw(st.sampled_from(["anthropic", "openai_chat"])),
        draw(st.booleans()) if leaving else False,
        (draw(how), draw(st.integers(0, 25))),
    )


def arguments(plan: Plan) -> list[dict[str, Any]]:
    return [{"number": number, "steps": steps, "waits": waits} for number, (_, steps, waits) in enumerate(plan.wanted)]


def pieces(plan: Plan) -> list[dict[str, Any]]:
    """Return the stream of a response with some text and the plan's calls."""
    made = zip(range(len(plan.wanted)), [name for name, *_ in plan.wanted], arguments(plan), strict=True)
    if plan.provider == "anthropic":
        return anthropic([(number, name, json.dumps(given)) for number, name, given in made])
    return chat([(number, name, json.dumps(given)) for number, name, given in made])


def anthropic(calls: Sequence[tuple[int, str, str]]) -> list[dict[str, Any]]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Now."}},
        {"type": "content_block_stop", "index": 0},
    ]
    for number, name, text in calls:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": text}
        found += [
            {"type": "content_block_start", "index": number + 1, "content_block": block},
            {"type": "content_block_delta", "index": number + 1, "delta": delta},
            {"type": "content_block_stop", "index": number + 1},
        ]
    reason = "tool_use" if calls else "end_turn"
    return [
        *found,
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}},
        {"type": "message_stop"},
    ]


def chat(calls: Sequence[tuple[int, str, str]]) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": "Now."}]
    for number, name, text in calls:
        function = {"name": name, "arguments": text}
        deltas.append(
            {"tool_calls": [{"index": number, "id": f"call_{number}", "type": "function", "function": function}]}
        )
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"})
    return [
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        for choice in choices
    ]


async def approve(call: Any, deps: Any) -> bool:
    for _ in range(call.index % 3):
        await anyio.lowlevel.checkpoint()
    return call.name != "refused"


class BrokenError(Exception):
    """What the reader's own code raises, or the stream."""


def check_thread(provider: str, contents: list[Content]) -> None:
    """Check that the provider would accept the conversation."""
    body = {"model": "m", "max_tokens": 1, **render_request([*QUESTION, *contents], provider)}
    assert validate_request(provider, body) == []


class WatchedSchedule(Schedule):
    """A schedule that records which calls were added to it."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.added: set[tuple[Hashable, int]] = set()

    def add(self, owner: Hashable, position: int, tool: Tool, *, ready: bool = True, in_turn: bool = False) -> None:
        self.added.add((owner, position))
        super().add(owner, position, tool, ready=ready, in_turn=in_turn)


def check_after(plan: Plan, schedule: WatchedSchedule) -> None:
    place = plan.made
    assert place.faults == []
    assert place.running == []
    assert max(place.begun.values(), default=1) == 1, "a tool ran twice"
    assert schedule.running == 0
    for owner, position in schedule.added:
        assert schedule.start_next(owner) is None
        with pytest.raises(KeyError):  # it is not in the schedule any more
            schedule.release(owner, position)


async def open_gates(plan: Plan) -> None:
    """Open the gates, in the plan's order, one every few passes."""
    for number in plan.order:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        plan.made.gates[number].set()


def expected(plan: Plan) -> list[str]:
    return [STATUS[name] for name, *_ in plan.wanted]


async def run_with_gates(plan: Plan, use: Any) -> bool:
    """Run *use* while the gates are opened, cancelled as planned; return True if it ran to its end."""
    plan.made.limit = plan.limit
    plan.made.gates = {number: anyio.Event() for number in range(len(plan.wanted))}
    how, when = plan.leaves
    finished, before = False, tool_threads()

    async def caller() -> None:
        nonlocal finished
        try:
            await use()
            finished = how != "break"
        except BrokenError:
            pass
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_gates, plan)
        tasks.start_soon(caller)
        if how == "canceled":
            for _ in range(when):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    await wait_until_nothing_is_left(before)
    return finished


# ---------------------------------------------------------------- executions


async def run_plan(plan: Plan) -> tuple[Any, bool]:
    """Return the update of the plan's calls (None if it did not start), entered while the turn is read."""
    turn, schedule = Turn(plan.provider, turn_key="turn"), WatchedSchedule(plan.limit)
    executor = execute_tool_calls_batched if plan.shape == "batched" else execute_tool_calls_sequentially
    execution = executor(turn, tools=plan.made.tools(), limit=schedule, approve=approve)
    how, when = plan.leaves

    async def use() -> None:
        seen = 0
        async with execution:
            stream = pieces(plan)
            for piece in stream[: len(stream) // 2] if plan.breaks else stream:
                execution.feed(turn.feed(piece))
                await anyio.lowlevel.checkpoint()
            execution.feed(turn.close(BrokenError("gone") if plan.breaks else None))
            async for _ in execution:
                seen += 1
                if seen == when and how == "break":
                    break
                if seen == when and how == "error":
                    raise BrokenError

    finished = await run_with_gates(plan, use)
    check_after(plan, schedule)
    return (execution.update if execution.ended else None), finished


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(plan=plans())
@SUITE
def test_every_call_has_one_result_in_call_order_whatever_happens(backend: str, plan: Plan) -> None:
    update, finished = anyio.run(run_plan, plan, backend=backend)
    note(f"{plan.leaves[0]}, finished: {finished}, update: {update is not None}")
    if update is None:
        return  # it was left while its turn was read: there is no call yet that needs a result
    names = [name for name, *_ in plan.wanted]
    if plan.breaks:
        assert "completed" not in [result.status for result in update.results]
        names = names[: len(update.results)]
    assert [result.call.name for result in update.results] == names
    answered = calls_with_status(update.contents)
    assert answered == [(result.call.name, result.status) for result in update.results]
    check_thread(plan.provider, update.contents)
    if finished and plan.leaves[0] == "never" and not plan.breaks:
        assert [status for _, status in answered] == expected(plan)


def _without_identity(results: list[ToolResult]) -> list[tuple[ToolResult, str]]:
    """Return the results with the text of their exceptions: two exceptions are never equal."""
    return [(structs.replace(result, exception=None), repr(result.exception)) for result in results]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(plan=plans(leaving=False), order=st.randoms(use_true_random=False), limit=st.integers(1, 8))
@SUITE
def test_the_messages_are_the_same_for_any_order_of_completion(
    backend: str, plan: Plan, order: Any, limit: int
) -> None:
    first, _ = anyio.run(run_plan, plan, backend=backend)
    shuffled = list(plan.order)
    order.shuffle(shuffled)
    again = Plan(plan.wanted, limit, shuffled, plan.shape, plan.provider, plan.breaks, plan.leaves)
    second, _ = anyio.run(run_plan, again, backend=backend)
    assert second.messages == first.messages
    assert second.contents == first.contents
    assert _without_identity(second.results) == _without_identity(first.results)
    assert second.warnings == first.warnings


# ---------------------------------------------------------------- runs of the loop


async def run_plan_in_loop(plan: Plan) -> tuple[Any, bool]:
    """Run a loop with the plan's calls in its first round and none in the second."""
    schedule = WatchedSchedule(plan.limit)
    how, when = plan.leaves

    async def stream(context: Any) -> Any:
        answer = pieces(plan) if context.round == 0 else (anthropic if plan.provider == "anthropic" else chat)([])
        for number, piece in enumerate(answer):
            if plan.breaks and context.round == 1 and number == 1:
                raise BrokenError("gone")
            await anyio.lowlevel.checkpoint()
            yield piece

    run = run_loop(
        stream,
        provider=plan.provider,
        tools=plan.made.tools(),
        history=QUESTION,
        limit=schedule,
        shape=plan.shape,
        approve=approve,
        run_key="run",
    )

    async def use() -> None:
        seen = 0
        try:
            async with run:
                async for _ in run:
                    calls_with_status(run.contents)  # legal at any moment
                    seen += 1
                    if seen == when and how == "break":
                        break
                    if seen == when and how == "error":
                        raise BrokenError
        except StreamInterrupted as error:
            raise BrokenError from error

    finished = await run_with_gates(plan, use)
    check_after(plan, schedule)
    return run, finished


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(plan=plans())
@SUITE
def test_the_contents_of_a_run_are_legal_whenever_it_is_left(backend: str, plan: Plan) -> None:
    run, finished = anyio.run(run_plan_in_loop, plan, backend=backend)
    note(f"{plan.leaves[0]}: {run.ended}, {len(run.contents)} contents")
    answered = calls_with_status(run.contents)
    check_thread(plan.provider, run.contents)
    assert run.history == QUESTION + run.contents
    assert [name for name, _ in answered] == [name for name, *_ in plan.wanted][: len(answered)]  # a stopped turn
    if finished and plan.leaves[0] == "never":
        assert run.ended == "answered"
        assert [status for _, status in answered] == expected(plan)
    elif run.ended != "answered":
        assert run.ended in ("canceled", "error", None)


# ---------------------------------------------------------------- paused and resumed

KINDS = ["look", "remove", "wipe"]


class PausedRuns(RuleBasedStateMachine):
    """A run that is stored as JSON at each pause, and resumed with some of the approvals.

    Its model makes calls in two rounds, and then answers.
    """

    backend = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()  # by the id of the call
        self.answers: dict[str, bool] = {}
        self.stored: str | None = None
        self.ended: str | None = None
        self.contents: list[Content] = []

    @rule(
        rounds=st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5), min_size=2, max_size=2),
        shape=st.sampled_from(["batched", "sequential"]),
        provider=st.sampled_from(["anthropic", "openai_chat"]),
        limit=st.integers(1, 3),
        native=st.booleans(),
    )
    @precondition(lambda self: self.stored is None)
    def start(self, rounds: list[list[str]], shape: Any, provider: str, limit: int, native: bool) -> None:
        self.rounds, self.shape, self.provider, self.limit = rounds, shape, provider, limit
        self.ran.clear()
        self.answers.clear()
        given = {"thread": [{"role": "user", "content": "Go."}]} if native else {"history": QUESTION}
        self.run(provider=provider, run_key="run", **given)

    @rule(data=st.data())
    @precondition(lambda self: self.stored is not None)
    def approve_some(self, data: st.DataObject) -> None:
        state = RunState.model_validate_json(self.stored or "")
        answered = data.draw(st.lists(st.sampled_from(state.pending), unique=True))
        given: dict[str, Any] = {}
        for each in answered:
            given[each] = data.draw(st.sampled_from([True, False, Approval(True), Approval(False, reason="no")]))
            self.answers[each] = given[each] if isinstance(given[each], bool) else given[each].allow
        before = self.ran.copy()
        self.run(resume=state.answer(approvals=given))
        now = {each for each, count in (self.ran - before).items() if count}
        refused = {each for each, allowed in self.answers.items() if not allowed}
        assert not now & refused

    @rule(steps=st.integers(0, 12))
    @precondition(lambda self: self.stored is not None)
    def leave_a_resumed_run(self, steps: int) -> None:
        """Cancel another attempt with all approvals; its contents are legal."""
        state = RunState.model_validate_json(self.stored or "")
        approvals = dict.fromkeys(state.pending, True)

        async def wait_for(run: Run) -> None:
            await run

        async def main() -> Any:
            before = tool_threads()
            run = run_loop(
                self.model, resume=state.answer(approvals=approvals), tools=self.tools(Counter()), shape=self.shape
            )
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait_for, run)
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            await wait_until_nothing_is_left(before)
            return run

        run = anyio.run(main, backend=self.backend)
        calls_with_status(run.contents)
        check_thread(self.provider, run.contents)

    @invariant()
    def each_call_has_run_once_at_most(self) -> None:
        assert max(self.ran.values(), default=1) == 1

    @invariant()
    def contents_are_legal(self) -> None:
        answered = calls_with_status(self.contents)
        check_thread(self.provider, self.contents) if self.contents else None
        if self.ended == "answered":
            assert [name for name, _ in answered] == [name for names in self.rounds for name in names]
            assert sum(status == "denied" for _, status in answered) == sum(not each for each in self.answers.values())
            assert sum(self.ran.values()) == sum(status == "completed" for _, status in answered)

    # ------------------------------------------------------------ helpers

    def model(self, context: Any) -> Any:
        names = self.rounds[context.round] if context.round < 2 else []
        made = [(number, name, json.dumps({"number": number})) for number, name in enumerate(names)]
        return (anthropic if self.provider == "anthropic" else chat)(made)

    def tools(self, ran: Counter[str]) -> list[Tool]:
        def made(name: str, **options: Any) -> Tool:
            async def work(number: int, context: ToolContext) -> int:
                ran[context.id] += 1
                await anyio.lowlevel.checkpoint()
                return number

            return Tool(work, name=name, **options)

        return [made("look"), made("remove", approval="ask"), made("wipe", approval="ask", exclusive=True)]

    def run(self, **how: Any) -> None:
        async def main() -> Any:
            before = tool_threads()
            run = await run_loop(self.model, tools=self.tools(self.ran), shape=self.shape, limit=self.limit, **how)
            await wait_until_nothing_is_left(before)
            return run

        run = anyio.run(main, backend=self.backend)
        self.ended, self.contents = run.ended, run.contents
        self.stored = None
        if run.ended == "awaiting_approval":
            self.stored = run.state.model_dump_json()
            assert RunState.model_validate_json(self.stored) == run.state
            assert [call.id for call in run.pending] == run.state.pending != []
        else:
            assert run.ended == "answered"


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_paused_and_resumed_in_any_order_runs_no_tool_twice(backend: str) -> None:
    machine = type("Machine", (PausedRuns,), {"backend": backend})
    steps = settings(deadline=None, derandomize=True, database=None, max_examples=25, stateful_step_count=10)
    run_state_machine_as_test(machine, settings=steps)
