"""Tools that end the run: what their results mean for it, wherever the round stands when they have them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel, calls_with_status
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Budget,
    Content,
    Run,
    RunState,
    Tool,
    ToolFailed,
    UsageError,
    run_loop,
    tool,
)
from streamkit.events import RoundFinished, RunEnded
from streamkit.execution import RunEntry

HISTORY = [Content.human("Go.")]


@dataclass
class Report:
    title: str


@tool(ends_run=True)
async def submit(title: str) -> Report:
    """Submit the report."""
    await anyio.sleep(0.1)
    if not title:
        raise ToolFailed("A report needs a title.")
    return Report(title)


@tool(ends_run=True)
async def give_up() -> str:
    """Give up."""
    return "gave up"


ran: list[str] = []


@tool
async def note(text: str) -> str:
    """Take a note."""
    await anyio.sleep(1)
    ran.append(text)
    return "noted"


@tool(approval="ask")
async def pay() -> str:
    return "paid"


A, B = ("submit", {"title": "A"}), ("submit", {"title": "B"})
NOTE = ("note", {"text": "n"})
TOOLS = [submit, give_up, note, pay]


def loop(model: Any, **options: Any) -> Run:
    options = {"provider": "openai_chat", "tools": TOOLS, "history": HISTORY, "run_key": "r", **options}
    if "resume" in options or "thread" in options:
        del options["history"]
    if "resume" in options:
        del options["run_key"]
    return run_loop(model, **options)


@on_a_virtual_clock
@pytest.mark.anyio
@pytest.mark.parametrize("shape", ["batched", "sequential"])
async def test_a_completed_result_ends_the_run_when_the_other_calls_have_ended(shape: Any) -> None:
    ran.clear()
    model = FakeModel(answer("I submit it.", A, NOTE), answer("never asked for"))
    run = loop(model, shape=shape)
    async with run:
        shown = [event async for event in run]
    assert (run.ended, run.output, run.rounds, run.text) == ("answered", Report("A"), 1, "I submit it.")
    assert calls_with_status(run.contents) == [("submit", "completed"), ("note", "completed")]
    assert ran == ["n"]
    assert [type(event) for event in shown[-2:]] == [RoundFinished, RunEnded]
    assert len(model.asked) == 1


@on_a_virtual_clock
@pytest.mark.anyio
async def test_the_output_is_that_of_the_first_such_call_in_call_order() -> None:
    run = await loop(FakeModel(answer("", NOTE, B, ("give_up", {}), A)))
    assert (run.ended, run.output) == ("answered", Report("B"))  # give_up has ended before it


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_result_that_is_not_completed_does_not_end_the_run() -> None:
    model = FakeModel(answer("", ("submit", {"title": ""})), answer("", ("submit", {})), answer("", B))
    run = await loop(model)
    assert [result.status for result in run.results] == ["error", "error", "completed"]
    assert (run.ended, run.output, run.rounds) == ("answered", Report("B"), 3)
    late = await loop(FakeModel(answer("", A), answer("Sorry.")), tools=[submit.replace(timeout=0.05)])
    assert ([result.status for result in late.results], late.output) == (["timed_out"], None)
    assert (late.ended, late.text) == ("answered", "Sorry.")


@on_a_virtual_clock
@pytest.mark.anyio
async def test_none_is_an_output_too() -> None:
    @tool(ends_run=True)
    async def stop() -> None:
        """Stop."""

    run = await loop(FakeModel(answer("", ("stop", {})), answer("never asked for")), tools=[stop])
    assert (run.ended, run.output, run.rounds) == ("answered", None, 1)


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_pending_approval_comes_first_and_the_resumed_run_ends() -> None:
    paused = await loop(FakeModel(answer("", A, ("pay", {}))))
    assert (paused.ended, paused.output) == ("awaiting_approval", None)
    assert paused.state is not None
    state = RunState.load(paused.state.dump())
    model = FakeModel(answer("never asked for"))
    run = await loop(model, resume=state.answer(approvals={state.pending[0]: False}))
    assert (run.ended, run.output) == ("answered", {"title": "A"})  # as it was stored
    assert [result.status for result in run.results] == ["completed", "denied"]
    assert model.asked == []


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_call_that_needs_approval_or_a_client_ends_the_run_when_it_has_its_result() -> None:
    form = Tool(name="form", description="A form.", parameters={"type": "object"}, ends_run=True)
    tools = [submit.replace(approval="ask"), form]
    paused = await loop(FakeModel(answer("", A, ("form", {}))), tools=tools)
    assert paused.state is not None
    submitted, filled = [call.id for call in paused.pending]
    answered = paused.state.answer(approvals={submitted: False}, results={filled: {"city": "Oslo"}})
    run = await loop(FakeModel(answer("never asked for")), tools=tools, resume=answered)
    assert (run.ended, run.output) == ("answered", {"city": "Oslo"})


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_run_resumed_from_any_entry_ends_with_the_same_output() -> None:
    entries: list[RunEntry] = []
    run = await loop(FakeModel(answer("", NOTE), answer("", A, NOTE)), checkpoint=entries.append)
    assert (run.ended, len(entries)) == ("answered", 7)
    for count in range(1, len(entries) + 1):
        responses = [answer("", NOTE), answer("", A, NOTE)]
        recorded = sum(entry.type == "response" for entry in entries[:count])
        model = FakeModel(*responses[recorded:], answer("never asked for"))
        again = await loop(model, resume=RunState.from_entries(entries[:count]))
        stored = any(entry.type == "result" and entry.result.value == {"title": "A"} for entry in entries[:count])
        assert (again.ended, again.output) == ("answered", {"title": "A"} if stored else Report("A"))
        assert len(model.asked) == 2 - recorded


@on_a_virtual_clock
@pytest.mark.anyio
@pytest.mark.parametrize("budget", [Budget(tokens=1), Budget(calls=1)])
async def test_the_output_is_read_whatever_has_been_spent(budget: Budget) -> None:
    run = await loop(FakeModel(answer("", A, NOTE, usage=(60, 50))), budget=budget)
    assert (run.ended, run.output) == ("answered", Report("A"))
    assert run.results[1].status == ("completed" if budget.calls is None else "canceled")


@on_a_virtual_clock
@pytest.mark.anyio
async def test_an_eager_call_ends_the_run_once_its_turn_is_confirmed() -> None:
    eager = submit.replace(eager=True)
    run = await loop(FakeModel(answer("", A, NOTE)), tools=[eager, note])
    assert (run.ended, run.output) == ("answered", Report("A"))


@on_a_virtual_clock
@pytest.mark.anyio
async def test_the_last_round_offers_the_tools_that_end_the_run() -> None:
    model = FakeModel(answer("", A), answer("never asked for"))
    run = await loop(model, max_rounds=1, tool_choice="submit")
    assert (run.ended, run.output) == ("answered", Report("A"))
    [request] = model.requests
    assert [each["function"]["name"] for each in request["tools"]] == ["submit", "give_up"]
    assert request["tool_choice"] == {"type": "function", "function": {"name": "submit"}}
    other = FakeModel(answer("", NOTE))
    run = await loop(other, max_rounds=1, tool_choice="note")  # which is not offered
    assert (run.ended, [result.status for result in run.results]) == ("max_rounds", ["canceled"])
    assert "tool_choice" not in other.requests[0]


@on_a_virtual_clock
@pytest.mark.anyio
async def test_a_run_with_messages_continues_after_its_output() -> None:
    question = {"role": "user", "content": "Go."}
    run = await loop(FakeModel(answer("", A)), thread=[question])
    assert run.output == Report("A")
    assert [message["role"] for message in run.thread] == ["user", "assistant", "tool"]


@pytest.mark.anyio
async def test_one_run_has_one_kind_of_output() -> None:
    output: dict[str, Any] = {"type": "object"}
    with pytest.raises(UsageError, match="submit ends the run with its value, and output= asks for another output"):
        loop(FakeModel(answer("")), output=output)
    late = loop(
        FakeModel(answer("", NOTE), answer("never asked for")),
        tools=[note],
        output=output,
        before_follow_up=lambda context: replace(context, tools=[submit]),
    )
    with pytest.raises(UsageError, match="submit ends the run with its value"):
        await late


@pytest.mark.anyio
async def test_no_tool_has_the_name_of_the_outputs_tool() -> None:
    @tool
    async def final_output() -> str:
        """Return the final output."""
        return "mine"

    with pytest.raises(UsageError, match="the tool 'final_output' is the one that makes the model return the output"):
        loop(FakeModel(answer("")), tools=[final_output], output={"type": "object"})
    run = await loop(FakeModel(answer("", ("final_output", {})), answer("Done.")), tools=[final_output])
    assert (run.text, [result.value for result in run.results]) == ("Done.", ["mine"])


def test_tools_end_no_run_unless_they_declare_it() -> None:
    assert (note.ends_run, submit.ends_run, submit.replace(ends_run=False).ends_run) == (False, True, False)
