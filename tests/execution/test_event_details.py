"""What the events of execution say: the cause of an error, the call to approve, the types of progress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from execution.chat_chunks import answer
from execution.fake_model import ScriptedModel

from streamkit import Content, RunState, ToolContext, ToolFailed, events, run_loop, tool
from streamkit.calls import CallRef
from streamkit.events import (
    Event,
    PreliminaryResult,
    StatePatch,
    ToolAwaitingApproval,
    ToolDenied,
    ToolError,
    ToolProgress,
    UiData,
)
from streamkit.execution.one_call.background import PROGRESS_BOUND, EventQueue

pytestmark = pytest.mark.anyio

PLACE = "at /srv/app/secret.py"


async def show(*calls: Any, tools: Any, **options: Any) -> list[Event]:
    model = ScriptedModel(answer("", *calls), answer("Done."))
    async with run_loop(model, provider="openai_chat", tools=tools, history=[Content.human("Hi")], **options) as run:
        return [event async for event in run]


def raising() -> str:
    raise RuntimeError(PLACE)


def failing() -> str:
    raise ToolFailed("There is no flight.")


def counting(n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (("raising", {}), "raised"),
        (("failing", {}), "failed"),
        (("counting", {"n": "many"}), "invalid_arguments"),
        (("counting", {}), "invalid_arguments"),
        (("absent", {}), "unknown_tool"),
    ],
)
async def test_an_error_has_its_cause(call: Any, cause: str) -> None:
    shown = await show(call, tools=[raising, failing, counting])
    (error,) = [event for event in shown if isinstance(event, ToolError)]
    assert (error.cause, error.result.cause) == (cause, cause)
    assert (PLACE in (error.result.error or "")) == (cause == "raised")
    line = events.to_json(error, public=True)
    assert PLACE.encode() not in line
    assert (b"There is no flight." in line) == (cause == "failed")


async def test_truncated_arguments_are_invalid() -> None:
    shown = await show(("counting", '{"n": [1'), tools=[counting])
    (error,) = [event for event in shown if isinstance(event, ToolError)]
    assert error.cause == "invalid_arguments"


async def test_a_failed_request_for_approval_has_no_text_of_an_exception_in_public() -> None:
    def approve(call: Any, deps: Any) -> bool:
        raise ConnectionError(PLACE)

    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    shown = await show(("pay", {}), tools=[pay], approve=approve)
    (denied,) = [event for event in shown if isinstance(event, ToolDenied)]
    assert PLACE in (denied.result.error or "")
    assert PLACE.encode() not in events.to_json(denied, public=True)


async def test_a_stored_result_keeps_its_cause() -> None:
    @tool(approval="ask")
    def pay() -> str:
        return "paid"

    model = ScriptedModel(answer("", ("raising", {}), ("pay", {})))
    run = await run_loop(model, provider="openai_chat", tools=[raising, pay], history=[Content.human("Hi")])
    assert run.state is not None
    state = RunState.model_validate_json(run.state.model_dump_json())
    assert [result.cause for result in state.results] == ["raised"]


async def test_a_call_that_awaits_approval_has_its_arguments_and_a_description() -> None:
    def describe(state: str, arguments: dict[str, Any]) -> str:
        return f"{state}: pay {arguments['amount']}"

    @tool(approval="ask", describe=describe)
    def pay(amount: int) -> str:
        return "paid"

    @tool(approval="ask")
    def fly() -> str:
        return "flown"

    shown = await show(("pay", {"amount": 5}), ("fly", {}), tools=[pay, fly])
    waiting = [event for event in shown if isinstance(event, ToolAwaitingApproval)]
    assert [(event.call.name, event.call.arguments, event.description) for event in waiting] == [
        ("pay", {"amount": 5}, "preparing: pay 5"),
        ("fly", {}, None),
    ]
    (last,) = [event for event in shown if isinstance(event, events.RunEnded)]
    assert [event.call for event in waiting] == list(last.pending)


async def test_progress_keeps_its_type() -> None:
    values = [PreliminaryResult("a"), UiData("chart", [1], id="c", transient=True), StatePatch([{"op": "remove"}]), 0.5]

    async def work(context: ToolContext) -> AsyncIterator[Any]:
        context.progress(values[0])
        for value in values[1:]:
            yield value
        yield "Done."

    shown = await show(("work", {}), tools=[work])
    progress = [event.value for event in shown if isinstance(event, ToolProgress)]
    assert progress == values
    for event in shown:
        if isinstance(event, ToolProgress):
            assert events.from_json(events.to_json(event)) == event


async def test_no_patch_of_a_state_is_replaced_by_a_later_report() -> None:
    call, queue = CallRef("hist_tool_" + "a" * 24, "work", 0), EventQueue()
    for number in range(PROGRESS_BOUND + 2):
        queue.put(ToolProgress(call, number))
    patches = [StatePatch([{"op": "add", "path": f"/{number}", "value": number}]) for number in range(3)]
    for patch in patches:
        queue.put(ToolProgress(call, patch))
        queue.put(ToolProgress(call, "other"))
    unread = [event.value for event in queue.drain() if isinstance(event, ToolProgress)]
    assert [value for value in unread if isinstance(value, StatePatch)] == patches
    assert len(unread) <= PROGRESS_BOUND + 2 * len(patches)
