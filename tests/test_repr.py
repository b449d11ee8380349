"""The ``repr`` of what a debugger shows: short, without secrets, and without effect on the object."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from streamkit import ToolCall, Turn, execute_tool_calls_batched, read, tool
from streamkit.execution import Schedule
from streamkit.reading import StreamReader
from streamkit.values.redaction import excerpt_repr

KEY = "sk-proj-abcdefghijklmnop0123"


def chunk(delta: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": index, "delta": delta}]}


def call_delta(name: str, arguments: str, index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"c{index}", "type": "function", "function": function}


def test_a_turn_shows_its_provider_contents_and_error() -> None:
    turn = Turn("openai_chat", turn_key="t")
    assert repr(turn) == "<Turn openai_chat open>"
    turn.feed(chunk({"content": "Hi", "tool_calls": [call_delta("f", '{"x":')]}))
    assert repr(turn) == "<Turn openai_chat open model='m' text='Hi' calls=[f incomplete]>"
    assert repr(turn.choices) == "[<ChoiceView 0 text='Hi' calls=[f incomplete]>]"
    turn.close(OSError(f"https://host/?key={KEY}"))
    shown = repr(turn)
    assert "closed" in shown
    assert "error=transport_error" in shown
    assert KEY not in shown


def test_the_finish_and_the_number_of_warnings_are_shown() -> None:
    turn = Turn("openai_chat", turn_key="t")
    last = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "tool_calls"}  # there is no call: a warning
    turn.feed({"id": "r", "model": "m", "choices": [last]})
    turn.close()
    assert repr(turn) == "<Turn openai_chat closed model='m' text='Hi' finish='stop' warnings=1>"


def test_the_repr_of_a_long_turn_is_short() -> None:
    turn = Turn("openai_chat", turn_key="t")
    turn.feed(chunk({"content": "long " * 10_000, "reasoning": "hm " * 10_000}) | {"model": "m" * 1000})
    turn.feed(chunk({"tool_calls": [call_delta("f" * 900, '{"x":"' + "y" * 10_000, index) for index in range(40)]}))
    assert len(repr(turn)) < 800
    assert len(repr(turn.calls[0])) < 500


def test_a_repr_does_not_count_as_reading_the_error(caplog: pytest.LogCaptureFixture) -> None:
    def forget() -> None:
        turn = Turn("openai_chat", turn_key="forgotten")
        for _ in read(turn, [b"<html>"]):
            pass
        assert "error=protocol_error" in repr(turn)

    forget()
    gc.collect()
    assert any("forgotten" in record.getMessage() for record in caplog.records)


def test_a_call_shows_its_state_and_the_beginning_of_its_arguments() -> None:
    call = ToolCall(id="hist_tool_x", name="f", index=0, arguments_text=f'{{"key": "{KEY}", "n": 1}}')
    assert repr(call) == """<ToolCall f incomplete '{"key": "***", "n": 1}' id=hist_tool_x>"""
    assert repr(ToolCall(id="", name="", index=0)).startswith("<ToolCall without a name incomplete")


def test_a_call_shows_its_native_message_and_no_metadata() -> None:
    call = ToolCall(id="i", name="f", index=0, message={"native": 1}, metadata={"signature": "c2ln"})
    assert "message={'native': 1}" in repr(call)
    assert "c2ln" not in repr(call)


def test_a_reader_shows_whether_it_was_read() -> None:
    reader = read(Turn("openai_chat", turn_key="t"), [chunk({"content": "Hi"})])
    assert isinstance(reader, StreamReader)
    assert repr(reader) == "<StreamReader unread <Turn openai_chat open>>"
    next(reader)
    assert repr(reader).startswith("<StreamReader open <Turn openai_chat open")
    reader.close()
    assert repr(reader).startswith("<StreamReader closed <Turn openai_chat closed")


def test_a_secret_is_masked_before_the_text_is_cut() -> None:
    shown = excerpt_repr("x" * 50 + " " + KEY)
    assert "sk-" not in shown
    assert len(shown) < 70


def test_a_value_whose_repr_raises_is_named() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError("no")

    assert excerpt_repr(Odd()) == "<Odd: ValueError>"


@pytest.mark.anyio
async def test_an_execution_and_a_schedule_show_how_far_they_are() -> None:
    schedule = Schedule(3)
    assert repr(schedule) == "<Schedule limit=3 running=0>"
    shown: list[str] = []

    async def f(key: str) -> None:
        shown.extend([repr(execution), repr(schedule)])

    made = [
        ToolCall(id=f"hist_tool_{n:024d}", name=name, index=n, arguments={"key": KEY}, state="complete")
        for n, name in enumerate(["f", "g"])
    ]
    execution = execute_tool_calls_batched(made, tools=[tool(f)], provider="openai_chat", limit=schedule)
    assert repr(execution) == "<Execution open calls=2 waiting=2>"
    await execution
    assert shown == ["<Execution open calls=2 running=1 error=1>", "<Schedule limit=3 running=1>"]
    assert repr(execution) == "<Execution ended calls=2 completed=1 error=1>"
