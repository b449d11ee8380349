"""The round as a state machine: any order of starts, approvals, results and failures gives one result a call."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamkit import ToolCall, ToolResult, Turn, UsageError
from streamkit.calls import ResultStatus
from streamkit.execution.round.round import TRANSITIONS, CallStage, Round

ENDINGS = get_args(ResultStatus)
STAGES = {stage for option in get_args(CallStage) for stage in (get_args(option) or (option,))}


# ---------------------------------------------------------------- the table


def test_the_table_has_every_stage_and_nothing_follows_a_result() -> None:
    assert set(TRANSITIONS) == STAGES
    assert all(TRANSITIONS[ending] == frozenset() for ending in ENDINGS)
    assert all(following <= STAGES for following in TRANSITIONS.values())


def test_every_stage_is_reachable_and_leads_to_a_result() -> None:
    reached, grown = {"waiting"}, set[str]()
    while reached != grown:
        grown = set(reached)
        reached |= {following for stage in grown for following in TRANSITIONS[stage]}  # type: ignore[index]
    assert reached == STAGES
    assert all(TRANSITIONS[stage] & set(ENDINGS) for stage in STAGES - set(ENDINGS))


def test_only_a_call_that_ran_can_be_completed() -> None:
    assert {stage for stage in STAGES if "completed" in TRANSITIONS[stage]} == {  # type: ignore[index]
        "running",
        "early_result",
        "awaiting_result",
    }


# ---------------------------------------------------------------- one round, by hand


def calls(count: int) -> list[ToolCall]:
    return [
        ToolCall(id=f"hist_tool_{n:024d}", name="f", index=n, state="complete", arguments={"n": n})
        for n in range(count)
    ]


def test_a_call_starts_once() -> None:
    calls_round = Round(calls(1), provider="openai_chat")
    calls_round.start(0)
    with pytest.raises(UsageError, match="running"):
        calls_round.start(0)


def test_a_call_that_awaits_approval_does_not_start() -> None:
    calls_round = Round(calls(1), provider="openai_chat")
    calls_round.require_approval(0)
    with pytest.raises(UsageError, match="awaiting_approval"):
        calls_round.start(0)
    calls_round.approve(0)
    calls_round.start(0)
    assert calls_round.stage(0) == "running"


def test_a_call_that_never_ran_cannot_be_completed() -> None:
    calls_round = Round(calls(1), provider="openai_chat")
    with pytest.raises(UsageError, match="waiting"):
        calls_round.set_result(0, ToolResult(calls_round.calls[0], "completed", 1))


# ---------------------------------------------------------------- calls that begin early


def anthropic(*calls: tuple[str, Any], finish: str | None = "tool_use") -> list[dict[str, Any]]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, (name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        chunks += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    if finish is None:
        return chunks
    return [*chunks, {"type": "message_delta", "delta": {"stop_reason": finish}, "usage": {}}, {"type": "message_stop"}]


def started_early(*calls: tuple[str, Any]) -> tuple[Turn, Round, ToolCall]:
    """Return an open turn of Anthropic's wire with a complete first call that has started."""
    turn = Turn("anthropic", turn_key="t")
    for chunk in anthropic(*calls, finish=None):
        turn.feed(chunk)
    calls_round = Round(turn)
    call = turn.completed_call(0)
    assert call is not None
    calls_round.start_early(call)
    return turn, calls_round, call


def finish(turn: Turn, reason: str) -> None:
    for chunk in anthropic(finish=reason)[1:]:
        turn.feed(chunk)
    turn.close()


def test_an_early_result_is_kept_until_the_turn_is_confirmed() -> None:
    turn, calls_round, call = started_early(("f", {"n": 1}), ("g", {}))
    assert calls_round.set_result(0, ToolResult(call, "completed", "early")) is None
    assert calls_round.stage(0) == "early_result"
    assert calls_round.results_so_far == []
    finish(turn, "tool_use")
    assert calls_round.close() == []
    [result] = calls_round.commit_early_results()
    assert (result.status, result.value, result.metadata) == ("completed", "early", {})
    assert calls_round.open_positions == [1]


def test_an_early_call_keeps_running_after_the_turn() -> None:
    turn, calls_round, call = started_early(("f", {"n": 1}))
    finish(turn, "tool_use")
    assert calls_round.close() == []
    assert calls_round.stage(0) == "running"
    result = calls_round.set_result(0, ToolResult(call, "completed", "late"))
    assert result is not None
    assert result.value == "late"


@pytest.mark.parametrize("held", [True, False])
def test_a_turn_without_executable_calls_retracts_early_runs(held: bool) -> None:
    turn, calls_round, call = started_early(("f", {"n": 1}))
    if held:
        calls_round.set_result(0, ToolResult(call, "completed", "early"))
    finish(turn, "refusal")
    assert calls_round.close() == [0]
    [result] = (
        calls_round.commit_early_results()
        if held
        else [calls_round.set_result(0, ToolResult(call, "completed", "it did not stop at once"))]
    )
    assert result is not None
    assert result.status == "canceled"
    assert result.metadata == {"effects_possible": True}
    assert "refusal" in (result.error or "")
    assert calls_round.update().contents[1].blocks[0].metadata["effects_possible"] is True


def test_arguments_that_change_after_an_early_start_make_the_call_run_again() -> None:
    turn, _, call = started_early(("f", {"n": 1}))
    other = ToolCall(**{field: getattr(call, field) for field in call.__struct_fields__} | {"arguments": {"n": 2}})
    calls_round = Round(turn)
    calls_round.start_early(other)  # no known wire changes arguments after the end of a call
    finish(turn, "tool_use")
    assert calls_round.close() == [0]
    assert calls_round.set_result(0, ToolResult(other, "canceled", error="stopped")) is None
    assert calls_round.stage(0) == "waiting"
    calls_round.start(0)
    result = calls_round.set_result(0, ToolResult(calls_round.calls[0], "completed", 2))
    assert result is not None
    assert (result.value, result.metadata, result.call.arguments) == (2, {"effects_possible": True}, {"n": 1})


def test_a_call_cannot_start_early_after_the_turn_or_twice() -> None:
    turn, calls_round, call = started_early(("f", {"n": 1}))
    with pytest.raises(UsageError, match="has started"):
        calls_round.start_early(call)
    finish(turn, "tool_use")
    calls_round.close()
    with pytest.raises(UsageError, match="open turn"):
        calls_round.start_early(call)


# ---------------------------------------------------------------- any order


class RoundMachine(RuleBasedStateMachine):
    """Everything that can happen to a round, in any order that its table allows, against a model of it."""

    @initialize(data=st.data(), count=st.integers(0, 5))
    def start(self, data: st.DataObject, count: int) -> None:
        self.turn = Turn("anthropic", turn_key="t")
        for chunk in anthropic(*((f"f{n}", {"n": n}) for n in range(count)), finish=None):
            self.turn.feed(chunk)
        self.round = Round(self.turn)
        self.count = count
        self.results: dict[int, ToolResult] = {}
        self.runs: dict[int, int] = {}
        self.early: set[int] = set()

    def keep(self, position: int, result: ToolResult | None) -> None:
        if result is not None:
            assert position not in self.results
            self.results[position] = result

    def some(self, data: st.DataObject, *stages: str) -> int | None:
        positions = [n for n in range(self.count) if self.round.closed and self.round.stage(n) in stages]
        return data.draw(st.sampled_from(positions)) if positions else None

    @precondition(lambda self: not self.round.closed)
    @rule(data=st.data())
    def start_early(self, data: st.DataObject) -> None:
        left = [n for n in range(self.count) if n not in self.early]
        if left:
            position = data.draw(st.sampled_from(left))
            call = self.turn.completed_call(position)
            assert call is not None
            self.round.start_early(call)
            self.early.add(position)
            self.runs[position] = 1

    @precondition(lambda self: not self.round.closed)
    @rule(data=st.data(), status=st.sampled_from(["completed", "error", "timed_out"]))
    def end_early(self, data: st.DataObject, status: ResultStatus) -> None:
        running = [n for n in self.early if self.round.stage(n) == "running"]
        if running:
            position = data.draw(st.sampled_from(sorted(running)))
            call = self.turn.calls[position]
            assert self.round.set_result(position, ToolResult(call, status, "early")) is None

    @precondition(lambda self: not self.round.closed)
    @rule(reason=st.sampled_from(["tool_use", "max_tokens", "refusal", "pause_turn", None]))
    def close(self, reason: str | None) -> None:
        if reason is None:
            self.turn.close(ConnectionResetError("gone"))
        else:
            finish(self.turn, reason)
        self.may_run = reason in ("tool_use", "max_tokens")
        retracted = self.round.close()
        assert retracted == ([] if self.may_run else sorted(self.early))
        for result in self.round.results_so_far:
            self.keep(result.call.index, result)
        for result in self.round.commit_early_results():
            self.keep(result.call.index, result)

    @rule(data=st.data())
    def require_approval(self, data: st.DataObject) -> None:
        if (position := self.some(data, "waiting")) is not None:
            self.round.require_approval(position)

    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        if (position := self.some(data, "awaiting_approval")) is not None:
            self.round.approve(position)

    @rule(data=st.data())
    def start_call(self, data: st.DataObject) -> None:
        if (position := self.some(data, "waiting")) is not None:
            self.round.start(position)
            self.runs[position] = self.runs.get(position, 0) + 1

    @rule(data=st.data(), status=st.sampled_from(ENDINGS))
    def set_result(self, data: st.DataObject, status: ResultStatus) -> None:
        position = self.some(data, "waiting", "awaiting_approval", "running")
        if position is None:
            return
        result = ToolResult(self.round.calls[position], status, "late" if status == "completed" else None)
        retracted = position in self.early and not self.may_run
        if status in TRANSITIONS[self.round.stage(position)] or retracted:
            self.keep(position, self.round.set_result(position, result))
        else:
            with pytest.raises(UsageError):
                self.round.set_result(position, result)

    @rule(data=st.data(), status=st.sampled_from(ENDINGS))
    def set_result_twice(self, data: st.DataObject, status: ResultStatus) -> None:
        if (position := self.some(data, *ENDINGS)) is not None:
            with pytest.raises(UsageError, match="exactly one"):
                self.round.set_result(position, ToolResult(self.round.calls[position], status))

    @invariant()
    def every_call_has_at_most_one_result_and_one_run(self) -> None:
        if not self.round.closed:
            assert self.round.results_so_far == []
            return
        assert {result.call.index: result for result in self.round.results_so_far} == self.results
        assert all(runs == 1 for runs in self.runs.values())
        for position, result in self.results.items():
            if result.status == "completed":
                assert position in self.runs
            if not self.may_run:
                assert result.status == "canceled"
                assert (result.metadata == {"effects_possible": True}) == (position in self.early)

    def teardown(self) -> None:
        if not hasattr(self, "round"):
            return
        if not self.round.closed:
            self.close("tool_use")
        for position in self.round.open_positions:
            stage = self.round.stage(position)
            if stage == "awaiting_approval":
                self.round.approve(position)
            if self.round.stage(position) == "waiting":
                self.round.start(position)
            self.keep(
                position, self.round.set_result(position, ToolResult(self.round.calls[position], "completed", "late"))
            )
        update = self.round.update()
        assert [result.call.index for result in update.results] == list(range(self.count))
        assert update.results == [self.results[n] for n in range(self.count)]
        if self.count:
            asked, answered = update.messages
            ids = [block["id"] for block in asked["content"] if block["type"] == "tool_use"]
            assert [block["tool_use_id"] for block in answered["content"]] == ids
            assert len(set(ids)) == self.count


TestRoundMachine = RoundMachine.TestCase
TestRoundMachine.settings = settings(stateful_step_count=25)


def test_in_an_open_turn_only_early_calls_accept_a_result_once() -> None:
    turn, calls_round, call = started_early(("f", {"n": 1}), ("g", {}))
    with pytest.raises(UsageError, match="no call at position"):
        calls_round.set_result(1, ToolResult(turn.calls[1], "completed", 1))
    calls_round.set_result(0, ToolResult(call, "completed", 1))
    with pytest.raises(UsageError, match="no call at position"):
        calls_round.set_result(0, ToolResult(call, "completed", 1))
    assert [calls_round.stage(position) for position in (0, 1)] == ["early_result", "waiting"]
