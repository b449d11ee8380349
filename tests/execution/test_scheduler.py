"""Which calls may run concurrently. The schedule is pure: the tests report starts and ends, and nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Tool, UsageError
from streamkit.execution.round.scheduler import Scheduler


def create_tool(name: str, **options: Any) -> Tool:
    return Tool(lambda: None, name=name, **options)


READ = create_tool("read")
WRITE = create_tool("write", exclusive=True)


def create_schedule(tools: Sequence[Tool], limit: int = 8, **options: Any) -> Scheduler:
    schedule = Scheduler(limit)
    for position, tool in enumerate(tools):
        schedule.add("run", position, tool, **options)
    return schedule


def start_all(schedule: Scheduler, owner: str = "run") -> list[int]:
    begun = []
    while (position := schedule.start_next(owner)) is not None:
        begun.append(position)
    return begun


def test_calls_start_in_order_up_to_the_limit() -> None:
    schedule = create_schedule([READ] * 5, limit=2)
    assert start_all(schedule) == [0, 1]
    assert schedule.running == 2
    schedule.remove("run", 1)
    assert start_all(schedule) == [2]


def test_an_exclusive_call_is_a_barrier() -> None:
    schedule = create_schedule([READ, READ, WRITE, READ])
    assert start_all(schedule) == [0, 1]
    schedule.remove("run", 1)
    assert start_all(schedule) == []
    schedule.remove("run", 0)
    assert start_all(schedule) == [2]
    schedule.remove("run", 2)
    assert start_all(schedule) == [3]


def test_a_tools_own_limit_lets_other_tools_pass() -> None:
    slow = create_tool("slow", limit=1)
    schedule = create_schedule([slow, slow, READ])
    assert start_all(schedule) == [0, 2]
    schedule.remove("run", 0)
    assert start_all(schedule) == [1]


@pytest.mark.parametrize("who", ["left", "right"])
def test_conflicting_tools_do_not_run_concurrently_whichever_declares_it(who: str) -> None:
    pull = create_tool("pull", conflicts_with=["push"] if who == "left" else [])
    push = create_tool("push", conflicts_with=["pull"] if who == "right" else [])
    schedule = create_schedule([pull, push, READ])
    assert start_all(schedule) == [0, 2]
    schedule.remove("run", 2)
    assert start_all(schedule) == []
    schedule.remove("run", 0)
    assert start_all(schedule) == [1]


def test_a_tool_in_conflict_with_itself_runs_one_call_at_a_time() -> None:
    schedule = create_schedule([create_tool("edit", conflicts_with=["edit"])] * 3)
    assert start_all(schedule) == [0]
    schedule.remove("run", 0)
    assert start_all(schedule) == [1]


def test_the_first_of_conflicting_calls_blocks_the_others_even_if_it_is_not_ready() -> None:
    edit = create_tool("edit", conflicts_with=["edit"])
    schedule = Scheduler(8)
    schedule.add("run", 0, edit, ready=False)  # it awaits approval
    schedule.add("run", 1, edit)
    schedule.add("run", 2, READ)
    assert start_all(schedule) == [2]
    schedule.release("run", 0)
    assert start_all(schedule) == [0]


def test_a_call_that_awaits_approval_lets_others_pass_unless_it_is_exclusive() -> None:
    schedule = Scheduler(8)
    schedule.add("run", 0, READ, ready=False)
    schedule.add("run", 1, READ)
    schedule.add("run", 2, WRITE, ready=False)
    schedule.add("run", 3, READ)
    assert start_all(schedule) == [1]
    schedule.remove("run", 0)  # denied
    schedule.remove("run", 1)
    assert start_all(schedule) == []
    schedule.remove("run", 2)
    assert start_all(schedule) == [3]


def test_executions_that_share_a_schedule_share_its_limits() -> None:
    schedule = Scheduler(2)
    woken: list[str] = []
    for owner in ("one", "two"):
        schedule.subscribe(owner, lambda owner=owner: woken.append(owner))  # type: ignore[misc]
        for position in range(2):
            schedule.add(owner, position, READ)
    assert (start_all(schedule, "two"), start_all(schedule, "one")) == ([0, 1], [])
    schedule.remove("two", 0)
    assert woken == ["one"]
    assert start_all(schedule, "one") == [0]


def test_an_exclusive_call_blocks_other_executions_but_not_while_it_awaits_approval() -> None:
    schedule = Scheduler(8)
    schedule.add("one", 0, WRITE, ready=False)
    schedule.add("two", 0, READ)
    assert start_all(schedule, "two") == [0]
    schedule.release("one", 0)
    assert start_all(schedule, "one") == []  # the other's call runs
    schedule.add("two", 1, READ)
    assert start_all(schedule, "two") == []  # it is after the exclusive one now
    schedule.remove("two", 0)
    assert start_all(schedule, "one") == [0]
    assert start_all(schedule, "two") == []


def test_sequential_calls_wait_only_for_calls_of_their_own_execution() -> None:
    schedule = Scheduler(8)
    for owner in ("one", "two"):
        for position in range(2):
            schedule.add(owner, position, READ, in_turn=owner == "one")
    assert start_all(schedule, "one") == [0]
    assert start_all(schedule, "two") == [0, 1]
    schedule.remove("one", 0)
    assert start_all(schedule, "one") == [1]


def test_an_execution_that_unregisters_removes_its_calls() -> None:
    schedule = Scheduler(1)
    schedule.add("one", 0, WRITE)
    assert schedule.start_next("one") == 0
    schedule.add("two", 0, READ)
    schedule.unregister("one")
    assert schedule.running == 0
    assert start_all(schedule, "two") == [0]


def test_waiting_for_other_executions_is_distinguished_from_awaiting_approval() -> None:
    schedule = Scheduler(1)
    assert not schedule.is_blocked_by_others("one")
    schedule.add("two", 0, READ)
    assert start_all(schedule, "two") == [0]
    schedule.add("one", 0, READ, ready=False)  # it awaits approval
    assert not schedule.is_blocked_by_others("one")
    schedule.add("one", 1, READ)
    assert schedule.is_blocked_by_others("one")
    schedule.remove("one", 1)
    schedule.add("one", 1, WRITE)  # after a call of its own that awaits approval
    assert not schedule.is_blocked_by_others("one")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "8"])
def test_a_limit_below_one_is_rejected(limit: Any) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Scheduler(limit)


TOOLS = [
    READ,
    WRITE,
    create_tool("slow", limit=1),
    create_tool("pull", conflicts_with=["push"]),
    create_tool("push", limit=2),
    create_tool("edit", conflicts_with=["edit", "read"]),
]


@given(
    kinds=st.lists(st.integers(0, len(TOOLS) - 1), max_size=12),
    limit=st.integers(1, 4),
    asked=st.sets(st.integers(0, 11), max_size=4),
    draw=st.data(),
)
def test_no_call_runs_against_the_rules_and_every_call_runs_in_the_end(
    kinds: list[int], limit: int, asked: set[int], draw: st.DataObject
) -> None:
    tools = [TOOLS[kind] for kind in kinds]
    schedule = Scheduler(limit)
    for position, tool in enumerate(tools):
        schedule.add("run", position, tool, ready=position not in asked)
    waiting = {position for position in asked if position < len(tools)}
    running: set[int] = set()
    done: list[int] = []
    while len(done) < len(tools):
        for position in start_all(schedule):
            assert position not in waiting
            earlier = set(range(position)) - set(done)
            assert not any(tools[other].exclusive for other in earlier)
            running.add(position)
        assert len(running) <= limit
        for one in running:
            others = running - {one}
            assert not (tools[one].exclusive and others)
            for other in others:
                assert tools[other].name not in tools[one].conflicts_with
        for tool in TOOLS:
            assert tool.limit is None or sum(tools[p] is tool for p in running) <= tool.limit
        moves = sorted(running) + [-1 - position for position in sorted(waiting)]
        assert moves, "nothing runs, nobody is asked, and calls are left"
        move = draw.draw(st.sampled_from(moves))
        if move >= 0:
            running.remove(move)
            done.append(move)
            schedule.remove("run", move)
        else:
            waiting.remove(-1 - move)
            schedule.release("run", -1 - move)
    assert schedule.running == 0
