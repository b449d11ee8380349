"""Calls that need approval: the run is paused, stored as JSON, and resumed, also in another process."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel, ScriptedModel
from pydantic import ValidationError
from shared_data import ROOT, TESTS

from streamkit import Approval, Content, RunState, Tool, ToolContext, UsageError, run_loop, tool
from streamkit.events import Event, RoundFinished, RoundStarted, ToolCompleted, ToolDenied, ToolRunning
from streamkit.execution import RunEntry

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Tidy up.")]
CALLS = [("look", {"at": "desk"}), ("remove", {"what": "dust"}), ("remove", {"what": "desk"})]


class FakeHouse:
    """Three tools, and a record of their calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def tools(self) -> list[Any]:
        async def look(at: str) -> str:  # not in a thread, so that calls run in their order
            self.done.append(f"look {at}")
            return f"saw {at}"

        @tool(approval="ask")
        async def remove(what: str, context: ToolContext) -> dict[str, str]:
            self.done.append(f"remove {what}")
            return {"removed": what, "key": context.id}

        return [look, remove]


async def create_paused_run(house: FakeHouse, *calls: Any, **more: Any) -> Any:
    options = {"provider": "openai_chat", "tools": house.tools, "history": HISTORY, "run_key": "k"} | more
    return await run_loop(ScriptedModel(answer("Let me see.", *(calls or CALLS))), **options)


def reload(state: RunState | None) -> RunState:
    """Return the state after its way through a database."""
    assert state is not None
    again = RunState.model_validate_json(state.model_dump_json())
    assert again == state
    return again


async def collect_events(run: Any) -> list[Event]:
    async with run:
        return [event async for event in run]


def results_in(contents: list[Content]) -> list[tuple[str | None, Any, str | None]]:
    asked = [block for content in contents for block in content.blocks if block.type == "tool_call"]
    reported = [block for content in contents for block in content.blocks if block.type == "tool_response"]
    assert [block.call_id for block in reported] == [block.id for block in asked]  # type: ignore[union-attr]
    return [(block.name, block.result, block.status) for block in reported]  # type: ignore[union-attr]


async def test_the_other_calls_run_and_the_run_pauses() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    assert run.ended == "awaiting_approval"
    assert house.done == ["look desk"]
    assert [(call.name, call.arguments) for call in run.pending] == CALLS[1:]
    assert run.contents == []  # legal: nothing of a round whose results are not there
    assert run.state is not None
    assert run.state.pending == [call.id for call in run.pending]


async def test_a_resumed_run_continues_with_one_result_a_call_in_call_order() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    dust, desk = run.pending
    model = ScriptedModel(answer("Done."))
    resumed = run_loop(
        model, resume=reload(run.state).answer(approvals={desk.id: False, dust.id: True}), tools=house.tools
    )
    events = await collect_events(resumed)
    assert resumed.ended == "answered"
    assert house.done == ["look desk", "remove dust"]
    assert results_in(resumed.contents) == [
        ("look", "saw desk", "completed"),
        ("remove", {"removed": "dust", "key": dust.id}, "completed"),
        ("remove", None, "denied"),
    ]
    assert resumed.history == HISTORY + resumed.contents
    assert (resumed.rounds, resumed.run_key, resumed.text) == (2, "k", "Done.")
    roles = [message["role"] for message in model.asked[0].request["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "tool"]
    # results from before the pause give no second event
    reported = [event.call.name for event in events if isinstance(event, (ToolRunning, ToolCompleted, ToolDenied))]
    assert reported == ["remove", "remove", "remove"]
    assert [event.round for event in events if isinstance(event, RoundStarted)] == [0, 1]
    assert [event.round for event in events if isinstance(event, RoundFinished)] == [0, 1]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_approvals_may_arrive_one_at_a_time_and_in_any_order(order: tuple[int, ...]) -> None:
    house = FakeHouse()
    run = await create_paused_run(house, *[("remove", {"what": str(n)}) for n in range(3)])
    ids = [call.id for call in run.pending]
    left = list(ids)
    for count, position in enumerate(order, 1):
        approvals = {ids[position]: position != 1}
        model = ScriptedModel(answer("Done."))
        run = await run_loop(model, resume=reload(run.state).answer(approvals=approvals), tools=house.tools)
        left.remove(ids[position])
        if count < 3:
            assert run.ended == "awaiting_approval"
            assert [call.id for call in run.pending] == left
            assert (run.contents, model.asked) == ([], [])
    assert run.ended == "answered"
    assert sorted(house.done) == ["remove 0", "remove 2"]
    assert [(status, value and value["removed"]) for _, value, status in results_in(run.contents)] == [
        ("completed", "0"),
        ("denied", None),
        ("completed", "2"),
    ]


async def test_resumed_without_an_approval_it_pauses_again_and_nothing_runs_twice() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    again = await run_loop(ScriptedModel(), resume=reload(run.state), tools=house.tools)
    assert again.ended == "awaiting_approval"
    assert house.done == ["look desk"]
    assert again.state == run.state


async def test_an_approval_of_a_resumed_run_may_change_the_arguments_which_are_validated() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    dust, desk = [call.id for call in run.pending]
    approvals = {dust: Approval(True, arguments={"what": "cobwebs"}), desk: Approval(True, arguments={"who": 1})}
    run = await run_loop(
        ScriptedModel(answer("Done.")), resume=reload(run.state).answer(approvals=approvals), tools=house.tools
    )
    assert house.done == ["look desk", "remove cobwebs"]
    (_, _, first), (_, removed, second), (_, _, third) = results_in(run.contents)
    assert (first, second, third) == ("completed", "completed", "error")
    assert removed["removed"] == "cobwebs"


async def test_a_reason_reaches_the_model() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, CALLS[1])
    approvals = {run.pending[0].id: Approval(False, reason="dust is load-bearing")}
    model = ScriptedModel(answer("Oh."))
    await run_loop(model, resume=reload(run.state).answer(approvals=approvals), tools=house.tools)
    assert "dust is load-bearing" in model.asked[0].request["messages"][2]["content"]


async def test_a_callback_decides_at_once_and_none_leaves_the_call_pending() -> None:
    house = FakeHouse()

    async def approve(call: Any, deps: Any) -> bool | None:
        return True if call.arguments["what"] == "dust" else None

    run = await create_paused_run(house, approve=approve)
    assert run.ended == "awaiting_approval"
    assert house.done == ["look desk", "remove dust"]
    assert [call.arguments for call in run.pending] == [{"what": "desk"}]


async def test_a_callback_may_approve_the_calls_of_a_resumed_run() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    run = await run_loop(
        ScriptedModel(answer("Done.")), resume=reload(run.state), tools=house.tools, approve=lambda call, deps: True
    )
    assert run.ended == "answered"
    assert house.done == ["look desk", "remove dust", "remove desk"]


async def test_calls_after_a_pending_exclusive_call_run_after_it() -> None:
    done: list[str] = []

    def read() -> str:
        done.append("read")
        return "old" if "write" not in done else "new"

    @tool(approval="ask", exclusive=True)
    def write() -> None:
        done.append("write")

    calls = [("read", {}), ("write", {}), ("read", {})]
    run = await run_loop(
        ScriptedModel(answer("", *calls)), provider="openai_chat", tools=[read, write], history=HISTORY, run_key="k"
    )
    assert (run.ended, done, [call.name for call in run.pending]) == ("awaiting_approval", ["read"], ["write"])
    run = await run_loop(
        ScriptedModel(answer("Done.")),
        resume=reload(run.state).answer(approvals={run.pending[0].id: True}),
        tools=[read, write],
    )
    assert done == ["read", "write", "read"]
    assert [value for _, value, _ in results_in(run.contents)] == ["old", None, "new"]


async def test_a_pause_in_a_later_round_keeps_the_earlier_rounds() -> None:
    house = FakeHouse()
    model = ScriptedModel(answer("First.", CALLS[0], usage=(10, 1)), answer("Then.", CALLS[1], usage=(20, 2)))
    run = await run_loop(model, provider="openai_chat", tools=house.tools, history=HISTORY, run_key="k")
    assert (run.ended, run.rounds) == ("awaiting_approval", 2)
    assert [content.speaker for content in run.contents] == ["ai", "tool"]
    resumed = await run_loop(
        ScriptedModel(answer("Done.", usage=(30, 3))),
        resume=reload(run.state).answer(approvals={run.pending[0].id: True}),
        tools=house.tools,
    )
    assert [content.speaker for content in resumed.contents] == ["ai", "tool", "ai", "tool", "ai"]
    assert resumed.usage is not None
    assert (resumed.usage.input_tokens, resumed.usage.output_tokens) == (60, 6)
    assert resumed.rounds == 3


async def test_a_run_paused_with_a_thread_resumes_with_the_thread() -> None:
    house = FakeHouse()
    thread = [{"role": "user", "content": "Tidy up.", "name": "ann"}]
    options = {"provider": "openai_chat", "tools": house.tools, "run_key": "k"}
    run = await run_loop(ScriptedModel(answer("", CALLS[1])), thread=thread, **options)
    assert run.thread == thread
    model = ScriptedModel(answer("Done."))
    run = await run_loop(model, resume=reload(run.state).answer(approvals={run.pending[0].id: True}), tools=house.tools)
    assert [message["role"] for message in run.thread] == ["user", "assistant", "tool", "assistant"]
    assert run.thread[0] == thread[0]
    assert model.asked[0].request["messages"] == run.thread[:3]


async def test_another_provider_may_resume_a_paused_history() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, CALLS[1])
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {}}
    body = message | {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}
    model = ScriptedModel([body])
    resumed = await run_loop(
        model,
        resume=reload(run.state).answer(approvals={run.pending[0].id: True}),
        tools=house.tools,
        provider="anthropic",
    )
    assert resumed.text == "Done."
    blocks = [block["type"] for message in model.asked[0].request["messages"] for block in message["content"]]
    assert blocks == ["text", "text", "tool_use", "tool_result"]


async def test_a_denying_policy_and_a_removed_tool_give_results_too() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, CALLS[1])
    resumed = await run_loop(
        ScriptedModel(answer("Done.")), resume=reload(run.state).answer(approvals={run.pending[0].id: True}), tools=[]
    )
    [(_, _, status)] = results_in(resumed.contents)
    assert status == "error"


async def test_the_state_contains_neither_deps_nor_tools_nor_keys() -> None:
    class Deps:
        key = "sk-not-in-the-state"

    house = FakeHouse()
    run = await create_paused_run(house, deps=Deps(), approve=None)
    text = reload(run.state).model_dump_json()
    assert "sk-not-in-the-state" not in text
    assert "Deps" not in text
    assert set(json.loads(text)) == {
        "version", "run_key", "provider", "round", "tool_choice", "history", "contents", "thread", "assistant", "calls",
        "results", "pending", "awaiting_results", "usage", "cost", "failures", "model", "endpoint",
        "is_paused", "pauses", "outcome", "position", "started", "attempts", "messages", "nested", "nested_calls",
        "metadata",
    }  # fmt: skip


async def test_any_value_of_a_tool_is_stored_in_the_state() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    values = [b"\xff\x00", float("nan"), {1: {2}}, Odd(), "\ud83d", None, 0, ""]
    produced = iter(values)

    async def produce() -> Any:
        return next(produced)

    @tool(approval="ask")
    async def last() -> str:
        return "last"

    calls = [*[("produce", {})] * len(values), ("last", {})]
    run = await run_loop(
        ScriptedModel(answer("", *calls)), provider="openai_chat", tools=[produce, last], history=HISTORY, limit=1
    )
    state = RunState.model_validate_json(run.state.model_dump_json())  # type: ignore[union-attr]
    resumed = await run_loop(
        ScriptedModel(answer("Done.")), resume=state.answer(approvals={run.pending[0].id: True}), tools=[produce, last]
    )
    results = results_in(resumed.contents)
    assert [status for *_, status in results] == ["completed"] * 9
    assert [value for _, value, _ in results][5:] == [None, 0, "", "last"]


async def test_failures_before_the_pause_count_for_the_breaker() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    @tool(approval="ask")
    async def ask() -> str:
        return "yes"

    tools = [fail, ask]
    model = ScriptedModel(answer("", ("fail", {})), answer("", ("fail", {}), ("ask", {})))
    run = await run_loop(model, provider="openai_chat", tools=tools, history=HISTORY)
    assert run.ended == "awaiting_approval"
    again = ScriptedModel(answer("", ("fail", {})))
    run = await run_loop(again, resume=reload(run.state).answer(approvals={run.pending[0].id: True}), tools=tools)
    assert run.ended == "breaker"


async def test_pending_calls_have_results_after_cancellation() -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    resumed = run_loop(
        ScriptedModel(answer("Done.")),
        resume=reload(run.state).answer(approvals={run.pending[0].id: True}),
        tools=house.tools,
        approve=lambda call, deps: True,
    )
    async with resumed:
        async for event in resumed:
            if isinstance(event, ToolRunning):
                break
    assert resumed.ended == "canceled"
    statuses = [status for *_, status in results_in(resumed.contents)]
    assert statuses[0] == "completed"
    assert len(statuses) == 3


# ---------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"history": HISTORY}, "from its state"),
        ({"thread": []}, "from its state"),
        ({"run_key": "other"}, "from its state"),
        ({"tool_choice": "none"}, "from its state"),
        ({"resume": "{}"}, "must be a RunState"),
        ({"resume": None, "history": HISTORY}, "needs provider="),
    ],
)
async def test_misuse_is_rejected_at_once(wrong: dict[str, Any], message: str) -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    with pytest.raises(UsageError, match=message):
        run_loop(ScriptedModel(), **{"resume": run.state, "tools": house.tools} | wrong)


async def test_a_wrong_answer_is_rejected_when_it_is_given() -> None:
    run = await create_paused_run(FakeHouse())
    assert run.state is not None
    with pytest.raises(UsageError, match="no call 'call_1' awaits approval"):
        run.state.answer(approvals={"call_1": True})
    with pytest.raises(UsageError, match="True, False or an Approval"):
        run.state.answer(approvals={run.pending[0].id: "yes"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "damaged",
    [
        lambda state: state["calls"].pop(),
        lambda state: state["calls"].pop(0),
        lambda state: state["results"].append(state["results"][0]),
        lambda state: state["pending"].append(state["results"][0]["call_id"]),
        lambda state: state.update(version=2),
        lambda state: state.update(surplus="x"),
        lambda state: state.pop("assistant"),
        lambda state: state["calls"][0].update(id=None),
        lambda state: state["calls"].append(state["calls"][0]),
        lambda state: state["calls"].reverse(),
        lambda state: state["calls"][-1].update(name="wipe"),
        lambda state: state["calls"][-1].update(arguments={"path": "/"}),
        lambda state: state["calls"][-1].update(state="invalid"),
        lambda state: state["calls"][-1].update(arguments="\ud800"),
        lambda state: state["assistant"]["blocks"].pop(),
        lambda state: state["assistant"].update(speaker="human"),
        lambda state: state["history"].append(state["assistant"]),
        lambda state: state["results"].clear(),
        lambda state: state["pending"].clear(),
        lambda state: state["pending"].append("\ud800"),
        lambda state: state.update(round=-1),
        lambda state: state.update(round="0"),
        lambda state: state.update(round=10**30),
        lambda state: state.update(run_key=""),
        lambda state: state.update(failures={"x": -1}),
        lambda state: state.update(usage=[{"input_tokens": "many"}]),
        lambda state: state.update(history=nested(400)),
        lambda state: state["assistant"]["metadata"].update(deep=nested(400)),
    ],
)
async def test_a_damaged_state_is_rejected_when_it_is_validated(damaged: Any) -> None:
    run = await create_paused_run(FakeHouse())
    data = json.loads(run.state.model_dump_json())
    damaged(data)
    with pytest.raises(ValidationError):
        RunState.model_validate(data)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def test_a_state_that_contains_itself_is_rejected() -> None:
    run = await create_paused_run(FakeHouse())
    data = run.state.model_dump()
    data["assistant"]["metadata"]["self"] = data
    with pytest.raises(ValidationError, match="contains itself"):
        RunState.model_validate(data)


async def test_a_signed_state_is_read_with_its_key_alone() -> None:
    run = await create_paused_run(FakeHouse())
    signed = run.state.dump("a secret key")
    assert RunState.load(signed, b"a secret key") == run.state
    reordered = json.dumps(json.loads(signed), sort_keys=True, indent=1)  # as a database writes it
    assert RunState.load(reordered.encode(), "a secret key") == run.state
    assert RunState.load(run.state.dump()) == run.state
    for data, key, message in (
        (signed, "another key", "changed after it was signed"),
        (signed, None, "the state is signed"),
        (run.state.dump(), "a secret key", "not signed"),
        ("{", "a secret key", "not JSON"),
        ("[" * 100_000, "a secret key", "not JSON"),
        (None, "a secret key", "not JSON"),
        (signed, "", "not empty"),
    ):
        with pytest.raises(UsageError, match=message):
            RunState.load(data, key)  # type: ignore[arg-type]
    for number in ("NaN", "Infinity", "1e999"):  # stored again, it would be a text
        with pytest.raises(UsageError, match="not JSON"):
            RunState.load(run.state.dump().replace('"round": 0', f'"round": 0, "more": {number}'))
    with pytest.raises(ValidationError):
        RunState.model_validate_json(signed)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["state"].update(run_key="other"),
        lambda data: data["state"]["calls"][0]["arguments"].update(more=1),
        lambda data: data["state"].update(approved=True),
        lambda data: data.update(more=1),
        lambda data: data.update(hmac_sha256="0" * 64),
        lambda data: data.update(hmac_sha256=None),
        lambda data: data.update(hmac_sha256="\u00e9"),
    ],
)
async def test_a_signed_state_that_was_changed_is_refused(change: Any) -> None:
    run = await create_paused_run(FakeHouse())
    data = json.loads(run.state.dump("key"))
    change(data)
    with pytest.raises(UsageError, match="changed after it was signed"):
        RunState.load(json.dumps(data), "key")


async def test_a_thread_cannot_be_resumed_with_another_provider() -> None:
    house = FakeHouse()
    run = await run_loop(
        ScriptedModel(answer("", CALLS[1])),
        provider="openai_chat",
        tools=house.tools,
        thread=[{"role": "user", "content": ""}],
    )
    with pytest.raises(UsageError, match="anthropic cannot read"):
        run_loop(ScriptedModel(), resume=run.state, provider="anthropic", tools=house.tools)


# ---------------------------------------------------------------- another process

PROGRAM = """
import json, sys
import anyio
from streamkit import RunState, run_loop, tool
from execution.chat_chunks import answer

@tool(approval="ask")
def remove(what: str) -> str:
    return f"removed {what}"

async def main():
    state = RunState.model_validate_json(open(sys.argv[1]).read())
    answered = state.answer(approvals={state.pending[0]: True, state.pending[1]: False})
    run = await run_loop(lambda context: answer("All done."), resume=answered, tools=[remove])
    print(json.dumps([run.ended, run.text, [c.model_dump(mode="json") for c in run.contents]]))

anyio.run(main)
"""


async def test_another_process_resumes_the_run(tmp_path: Path) -> None:
    house = FakeHouse()
    run = await create_paused_run(house)
    assert run.state is not None
    (tmp_path / "state.json").write_text(run.state.model_dump_json())
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run(  # noqa: ASYNC221 - the test waits for it
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "state.json")],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={"PYTHONPATH": f"{TESTS}:{ROOT}", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    ended, text, contents = json.loads(ran.stdout)
    assert (ended, text) == ("answered", "All done.")
    assert results_in([Content.model_validate(content) for content in contents]) == [
        ("look", "saw desk", "completed"),
        ("remove", "removed dust", "completed"),
        ("remove", None, "denied"),
    ]


async def test_a_pending_call_still_needs_approval_if_its_tool_no_longer_does() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, CALLS[1])
    unasked = [tool(each.function if hasattr(each, "function") else each, name=name, approval="allow")
               for each, name in zip(house.tools, ("look", "remove"), strict=True)]  # fmt: skip
    again = await run_loop(ScriptedModel(), resume=reload(run.state), tools=unasked)
    assert again.ended == "awaiting_approval"
    assert house.done == []
    denied = await run_loop(
        ScriptedModel(answer("Oh.")),
        resume=reload(again.state).answer(approvals={run.pending[0].id: False}),
        tools=unasked,
    )
    assert [status for *_, status in results_in(denied.contents)] == ["denied"]
    allowed = await run_loop(
        ScriptedModel(answer("Done.")),
        resume=reload(again.state).answer(approvals={run.pending[0].id: True}),
        tools=unasked,
    )
    assert (house.done, allowed.ended) == (["remove dust"], "answered")


async def test_the_text_of_a_round_that_the_provider_paused_is_whole_after_a_resume() -> None:
    def part(text: str, stop: str, *blocks: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": text}, *blocks]
        return {
            "type": "message",
            "id": text,
            "role": "assistant",
            "content": content,
            "stop_reason": stop,
            "usage": {},
        }

    pay = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}}
    tools = [Tool(lambda: "paid", name="pay", description="Pay.", parameters={"type": "object"}, approval="ask")]
    entries: list[RunEntry] = []
    parts = [
        part("earlier", "tool_use", {**pay, "id": "toolu_0"}),
        part("One ", "pause_turn"),
        part("two ", "pause_turn"),
    ]
    model = FakeModel(*[[each] for each in parts], [part("three", "tool_use", pay)])
    options: dict[str, Any] = {"provider": "anthropic", "tools": tools, "history": [Content.human("Go.")]}
    paused = await run_loop(
        model, **options, run_key="r", checkpoint=entries.append, approve=lambda call, _: len(model.asked) == 1 or None
    )
    assert (paused.ended, paused.text) == ("awaiting_approval", "One two three")
    assert paused.state is not None
    again = await run_loop(FakeModel([part("never", "end_turn")]), tools=tools, resume=paused.state)
    assert (again.ended, again.text) == ("awaiting_approval", "One two three")
    for number, entry in enumerate(entries, start=1):
        if entry.type == "response" and entry.round == 1:
            rest = FakeModel(*[[each] for each in parts[2 + entry.pauses :]], [part("three", "tool_use", pay)])
            resumed = await run_loop(rest, tools=tools, resume=RunState.from_entries(entries[:number]))
            assert (resumed.ended, resumed.text) == ("awaiting_approval", "One two three")


# ---------------------------------------------------------------- what a state takes and keeps


async def test_a_signed_state_expires_at_the_time_of_the_caller() -> None:
    run = await create_paused_run(FakeHouse(), approve=None)
    assert run.state is not None
    stored = run.state.dump("key", expires=1000.5)
    assert RunState.load(stored, "key", now=1000.0) == run.state
    for now, message in ((1000.5, "expired"), (2000, "expired"), (None, "pass the time")):
        with pytest.raises(UsageError, match=message):
            RunState.load(stored, "key", now=now)
    later = {**json.loads(stored), "expires": 9000}
    without = {name: value for name, value in json.loads(stored).items() if name != "expires"}
    for changed in (later, without):
        with pytest.raises(UsageError, match="was changed"):
            RunState.load(json.dumps(changed), "key", now=0)
    with pytest.raises(UsageError, match="only if it is signed"):
        run.state.dump(expires=1.0)
    for wrong in ("tomorrow", True, float("nan")):
        with pytest.raises(UsageError, match="expires must be a time"):
            run.state.dump("key", expires=wrong)  # type: ignore[arg-type]
    assert RunState.load(run.state.dump("key"), "key", now=5.0) == run.state  # it does not expire


async def test_the_metadata_of_the_application_is_signed_and_kept_by_a_resumed_run() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, approve=None)
    assert run.state is not None
    run.state.metadata["message"] = {"id": 7}
    stored = run.state.dump("key")
    with pytest.raises(UsageError, match="was changed"):
        RunState.load(stored.replace('"id": 7', '"id": 8'), "key")
    state = RunState.load(stored, "key")
    first, second = state.pending
    again = await run_loop(ScriptedModel(), resume=state.answer(approvals={first: True}), tools=house.tools)
    assert (again.ended, again.metadata) == ("awaiting_approval", {"message": {"id": 7}})
    assert again.state is not None
    assert (again.state.metadata, again.state.pending) == ({"message": {"id": 7}}, [second])


async def test_a_call_takes_one_decision() -> None:
    run = await create_paused_run(FakeHouse(), approve=None)
    assert run.state is not None
    call_id = run.state.pending[0]
    with pytest.raises(UsageError, match="a decision and a result"):
        run.state.answer(approvals={call_id: True}, results={call_id: 1})


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[inner for key, item in items for inner in paths(item, (*path, key))]]


async def test_a_state_with_any_wrong_field_gives_its_error() -> None:
    house = FakeHouse()
    run = await create_paused_run(house, approve=None)
    assert run.state is not None
    data = json.loads(run.state.dump())
    for blocks in (data["history"], [data["assistant"]]):
        for content in blocks:
            content["metadata"] = {"a": 1}
            for block in content["blocks"]:
                block.setdefault("metadata", {})
    wrong: list[Any] = [None, 3, "text", [], {}, True, [1], {"a": 1}, {"type": "text"}, "{"]
    count = 0
    for path in paths(data):
        for value in wrong:
            changed = json.loads(json.dumps(data))
            target = changed
            for key in path[:-1]:
                target = target[key]
            if path:
                target[path[-1]] = value
            with suppress(UsageError, ValidationError):
                RunState.load(json.dumps(changed if path else value))
                count += 1
    assert count > 0
    arguments = {"type": "tool_call", "id": "x", "name": "n", "parameters": "{", "metadata": 3}
    with pytest.raises(ValidationError):
        RunState.model_validate({**data, "contents": [{"speaker": "ai", "blocks": [arguments]}]})
