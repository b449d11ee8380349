"""Results that no model could get: each call still has one result, and the run continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from execution.executor_checks import calls

from streamkit import ToolCall, ToolFailed, ToolResult, execute_tool_calls_batched, tool
from streamkit.events import ToolCompleted, ToolError
from streamkit.execution.round.round import Round
from streamkit.history.tool_results import ERROR_LIMIT, RESULT_LIMIT

pytestmark = pytest.mark.anyio

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock_converse", "cohere", "ollama"]


class Plain:
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class MuteFailure(ToolFailed):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def nested_in_itself() -> Any:
    value: dict[str, Any] = {"n": 1}
    value["self"] = value
    return value


def numbers() -> Iterator[int]:
    yield 1


def fail(error: BaseException) -> NoReturn:
    raise error


VALUES: dict[str, tuple[Any, str, str]] = {  # what a tool does, its status, a part of what the model gets
    "huge": (lambda: 10**5000, "completed", "1" + "0" * 5000),
    "plain": (lambda: Plain(), "error", "an object of the type Plain, which cannot be written as JSON"),
    "inside": (lambda: {"rows": [Plain()]}, "error", "an object of the type Plain"),
    "generator": (lambda: {"rows": numbers()}, "error", "an object of the type generator"),
    "cycle": (nested_in_itself, "completed", "[the object that contains this]"),
    "mute": (lambda: fail(Mute()), "error", "failed with Mute"),
    "mute_failure": (lambda: fail(MuteFailure()), "error", "mute_failure failed."),
    "mute_group": (lambda: fail(ExceptionGroup("g", [Mute(), ValueError("v")])), "error", "ValueError: v"),
    "long": (lambda: "x" * 1_000_000, "completed", "characters omitted"),
    "long_data": (lambda: ["x" * 1000] * 1000, "completed", "characters omitted"),
    "long_error": (lambda: fail(ValueError("y" * 1_000_000)), "error", "characters omitted"),
    "surrogate": (lambda: "\ud83d", "completed", "\ufffd"),
    "not_a_number": (lambda: float("nan"), "completed", "NaN"),
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_every_call_has_one_result_whatever_its_tool_returns(provider: str) -> None:
    tools = [tool(function, name=name, description="A tool.") for name, (function, _, _) in VALUES.items()]
    async with execute_tool_calls_batched(calls(*VALUES), tools=tools, provider=provider) as execution:
        events = [event async for event in execution]
    update = execution.update
    assert [(result.call.name, result.status) for result in update.results] == [
        (name, status) for name, (_, status, _) in VALUES.items()
    ]
    ended = {event.call.name: type(event) for event in events if isinstance(event, (ToolCompleted, ToolError))}
    assert ended == {name: ToolCompleted if v[1] == "completed" else ToolError for name, v in VALUES.items()}
    sent = json.dumps(update.messages, ensure_ascii=False, allow_nan=False)
    sent.encode()
    assert "0x" not in sent  # no address in memory
    assert all(expected in sent for _, _, expected in VALUES.values())
    assert len(sent) < 2 * RESULT_LIMIT + ERROR_LIMIT + 20_000


def call(**more: Any) -> ToolCall:
    return ToolCall(id="hist_tool_" + "a" * 24, name="f", index=0, arguments={}, state="complete", **more)


def test_the_exception_of_an_unwritable_value_states_what_to_return() -> None:
    made_round = Round([call()], provider="openai_chat")
    made_round.start(0)
    result = made_round.set_result(0, ToolResult(call(), "completed", Plain(), metadata={"a": 1}))
    assert result is not None
    assert (result.status, result.value, result.metadata) == ("error", None, {"a": 1})
    assert isinstance(result.exception, TypeError)
    assert "return text, data" in str(result.exception)
    (content,) = made_round.update().contents[1:]
    assert content.blocks[0].status == "error"  # type: ignore[union-attr]


def test_the_value_of_a_result_stays_whole_for_the_caller() -> None:
    made_round = Round([call()], provider="openai_chat")
    made_round.start(0)
    value = "x" * (RESULT_LIMIT + 1)
    result = made_round.set_result(0, ToolResult(call(), "completed", value))
    assert result is not None
    assert result.value == value
    (content,) = made_round.update().contents[1:]
    stored = content.blocks[0].result  # type: ignore[union-attr]
    assert len(stored) <= RESULT_LIMIT
    assert "characters omitted" in stored


def test_a_long_error_is_shortened_for_the_model_and_the_caller() -> None:
    made_round = Round([call()], provider="openai_chat")
    made_round.start(0)
    result = made_round.set_result(0, ToolResult(call(), "error", error="e" * 100_000))
    assert result is not None
    assert len(result.error or "") <= ERROR_LIMIT
