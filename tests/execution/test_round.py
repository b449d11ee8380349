from __future__ import annotations

import datetime
import random
from typing import Any

import pytest
from execution.chat_chunks import answer, closed_turn
from hypothesis import given
from hypothesis import strategies as st

from streamkit import ToolCall, ToolResult, Turn, UsageError
from streamkit.calls import ResultStatus
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import FormatCallbacks
from streamkit.history import Content

GOOD = ("get", {"city": "Oslo"})


def call(name: str = "f", index: int = 0, **more: Any) -> ToolCall:
    fields = {"id": f"hist_tool_{index:024d}", "arguments": {"n": index}, "arguments_text": f'{{"n":{index}}}'}
    return ToolCall(name=name, index=index, **({"raw_id": f"call_{index}", "state": "complete"} | fields | more))


def with_results(made_round: Round, value: Any = "ok", status: ResultStatus = "completed") -> Round:
    for position in made_round.open_positions:
        made_round.start(position)
        made_round.set_result(position, ToolResult(made_round.calls[position], status, value))
    return made_round


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


# ---------------------------------------------------------------- the machine


def test_a_call_accepts_exactly_one_result() -> None:
    made_round = Round([call()], provider="openai_chat")
    made_round.start(0)
    made_round.set_result(0, ToolResult(made_round.calls[0], "completed", 1))
    with pytest.raises(UsageError, match="exactly one"):
        made_round.set_result(0, ToolResult(made_round.calls[0], "completed", 2))


def test_a_result_goes_to_its_own_call() -> None:
    made_round = Round([call(index=0), call(index=1)], provider="openai_chat")
    with pytest.raises(UsageError, match="not of"):
        made_round.set_result(0, ToolResult(made_round.calls[1], "completed", 1))


def test_there_is_no_update_while_a_result_is_missing() -> None:
    with pytest.raises(UsageError, match="2 of 2"):
        Round([call(index=0), call(index=1)], provider="openai_chat").update()


@given(st.permutations(range(5)), st.sampled_from(["batched", "sequential"]))
def test_the_order_of_completion_does_not_matter(order: list[int], shape: Any) -> None:
    def run(positions: list[int]) -> Any:
        made_round = Round([call(index=n) for n in range(5)], provider="openai_chat", shape=shape)
        for position in positions:
            made_round.start(position)
        for position in positions:
            made_round.set_result(position, ToolResult(made_round.calls[position], "completed", position))
        return made_round.update()

    assert run(order) == run(list(range(5)))


def test_a_turn_must_be_closed() -> None:
    turn = Turn("openai_chat", turn_key="k")
    with pytest.raises(UsageError, match="close"):
        Round(turn).close()
    with pytest.raises(UsageError, match="close"):
        Round(turn).update()


def test_calls_alone_need_a_format() -> None:
    with pytest.raises(UsageError, match="provider="):
        Round([call()])
    with pytest.raises(UsageError, match="provider="):
        Round([call()], callbacks=FormatCallbacks(call=lambda call, arguments: {}))
    Round([call()], callbacks=FormatCallbacks(batch=lambda completed: []))


# ---------------------------------------------------------------- calls that may not run


def test_an_incomplete_call_gets_an_error_that_quotes_the_truncated_end() -> None:
    turn = closed_turn("", GOOD, ("get", '{"city": "Ber'), finish="length")
    made_round = Round(turn)
    assert made_round.open_positions == [0]
    [result] = made_round.results_so_far
    assert result.status == "error"
    assert result.error is not None
    assert "length limit" in result.error
    assert "Ber" in result.error


def test_an_invalid_call_gets_an_error_with_the_cause_and_position() -> None:
    made_round = Round(closed_turn("", ("get", '{"city": Oslo}')))
    [result] = made_round.results_so_far
    assert result.status == "error"
    assert result.error is not None
    assert "at character 9" in result.error
    assert "Oslo" in result.error


@pytest.mark.parametrize("finish", ["content_filter"])
def test_complete_calls_of_a_stopped_turn_are_canceled(finish: str) -> None:
    made_round = Round(closed_turn("", GOOD, ("get", '{"city": "B'), finish=finish))
    assert made_round.open_positions == []
    assert [result.status for result in made_round.results_so_far] == ["canceled", "error"]
    assert "content filter" in (made_round.results_so_far[0].error or "")
    assert roles(made_round.update().messages) == ["assistant", "tool", "tool"]


def test_complete_calls_of_a_failed_turn_are_canceled() -> None:
    turn = Turn("openai_chat", turn_key="k")
    for chunk in [b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":', b'{"name":']:
        turn.feed(chunk)
    turn.feed(b'"f","arguments":"{}"}}]}}]}\n\n')
    turn.close(ConnectionResetError("gone"))
    [result] = Round(turn).results_so_far
    assert result.status == "canceled"
    assert "transport_error" in (result.error or "")


def test_calls_of_a_blocked_round_are_canceled_with_the_reason() -> None:
    turn = closed_turn("", GOOD)
    [result] = Round(turn, blocked={turn.calls[0].id: "Not today."}).results_so_far
    assert (result.status, result.error) == ("canceled", "Not today.")


# ---------------------------------------------------------------- shapes


def test_batched_is_one_assistant_message_and_then_the_results() -> None:
    update = with_results(Round(closed_turn("Both.", GOOD, GOOD))).update()
    assert roles(update.messages) == ["assistant", "tool", "tool"]
    assert update.messages[0]["content"] == "Both."
    ids = [tool_call["id"] for tool_call in update.messages[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in update.messages[1:]] == ids
    assert [content.speaker for content in update.contents] == ["ai", "tool"]


def test_sequential_is_one_call_one_result_and_text_only_first() -> None:
    update = with_results(Round(closed_turn("One by one.", GOOD, ("other", {})), shape="sequential")).update()
    assert roles(update.messages) == ["assistant", "tool", "assistant", "tool"]
    assert update.messages[0]["content"] == "One by one."
    assert not update.messages[2]["content"]
    assert [len(message["tool_calls"]) for message in update.messages[::2]] == [1, 1]
    for call_message, result_message in zip(update.messages[::2], update.messages[1::2], strict=True):
        assert call_message["tool_calls"][0]["id"] == result_message["tool_call_id"]
    assert [content.speaker for content in update.contents] == ["ai", "tool", "ai", "tool"]


def test_the_update_of_a_turn_without_calls_is_its_text() -> None:
    update = Round(closed_turn("Hello.")).update()
    assert update.messages == [{"role": "assistant", "content": "Hello."}]
    assert update.results == []
    assert [content.speaker for content in update.contents] == ["ai"]


def test_an_empty_turn_adds_nothing() -> None:
    update = Round(closed_turn("")).update()
    assert (update.messages, update.contents) == ([], [])


def test_results_are_neutral_content_with_status_and_error() -> None:
    made_round = Round([call(index=n) for n in range(3)], provider="openai_chat")
    made_round.start(0)
    made_round.start(2)
    made_round.set_result(0, ToolResult(made_round.calls[0], "completed", {"ok": True}))
    made_round.set_result(1, ToolResult(made_round.calls[1], "denied", error="No."))
    made_round.set_result(2, ToolResult(made_round.calls[2], "completed", 0))
    blocks: Any = made_round.update().contents[1].blocks
    assert [(block.call_id, block.name, block.result, block.status, block.error) for block in blocks] == [
        (made_round.calls[0].id, "f", {"ok": True}, "completed", None),
        (made_round.calls[1].id, "f", None, "denied", "No."),
        (made_round.calls[2].id, "f", 0, "completed", None),
    ]


@pytest.mark.parametrize("value", [object(), {1, 2}, datetime.datetime(2024, 1, 1), b"\xff", float("nan"), [...]])
def test_any_value_of_a_tool_can_be_stored(value: Any) -> None:
    content = with_results(Round([call()], provider="openai_chat"), value).update().contents[1]
    assert Content.model_validate_json(content.model_dump_json()) == content


def test_a_value_that_contains_itself_can_be_stored() -> None:
    value: list[Any] = []
    value.append(value)
    assert with_results(Round([call()], provider="openai_chat"), value).update().contents[1].model_dump_json()


# ---------------------------------------------------------------- where sequential would be rejected


def anthropic_turn(*, thinking: bool) -> Turn:
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": "", "signature": ""}] if thinking else []
    blocks += [{"type": "tool_use", "id": f"toolu_{n}", "name": "get", "input": {}} for n in range(2)]
    turn = Turn("anthropic", turn_key="k")
    turn.feed(
        {
            "type": "message_start",
            "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "x", "usage": {}},
        }
    )
    for index, block in enumerate(blocks):
        turn.feed({"type": "content_block_start", "index": index, "content_block": block})
        if block["type"] == "thinking":
            for delta in ({"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "S"}):
                turn.feed({"type": "content_block_delta", "index": index, "delta": delta})
        turn.feed({"type": "content_block_stop", "index": index})
    turn.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}})
    turn.feed({"type": "message_stop"})
    turn.close()
    return turn


def test_signed_thinking_keeps_the_calls_together_with_a_warning() -> None:
    update = with_results(Round(anthropic_turn(thinking=True), shape="sequential")).update()
    assert [warning.code for warning in update.warnings] == ["batched_instead"]
    assert roles(update.messages) == ["assistant", "user"]
    assert [block["type"] for block in update.messages[0]["content"]] == ["thinking", "tool_use", "tool_use"]
    assert [block["type"] for block in update.messages[1]["content"]] == ["tool_result", "tool_result"]


def test_without_thinking_anthropic_can_be_sequential() -> None:
    update = with_results(Round(anthropic_turn(thinking=False), shape="sequential")).update()
    assert update.warnings == []
    assert roles(update.messages) == ["assistant", "user", "assistant", "user"]


def test_thinking_of_another_provider_does_not_prevent_sequential() -> None:
    update = with_results(Round(anthropic_turn(thinking=True), shape="sequential", provider="openai_chat")).update()
    assert roles(update.messages) == ["assistant", "tool", "assistant", "tool"]
    assert "batched_instead" not in [warning.code for warning in update.warnings]


@pytest.mark.parametrize(("provider", "together"), [("deepseek", True), ("kimi", True), ("vllm", False)])
def test_calls_that_must_be_sent_with_their_reasoning_stay_together(provider: str, together: bool) -> None:
    turn = Turn(provider, turn_key="k")
    for chunk in [{"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]}, *answer("", GOOD, GOOD)]:
        turn.feed(chunk)
    turn.close()
    update = with_results(Round(turn, shape="sequential")).update()
    assert [warning.code for warning in update.warnings] == (["batched_instead"] if together else [])
    assert roles(update.messages) == (["assistant", "tool", "tool"] if together else ["assistant", "tool"] * 2)


def test_gemini_signatures_keep_the_calls_together() -> None:
    turn = Turn("gemini", turn_key="k")
    parts: list[dict[str, Any]] = [
        {"functionCall": {"name": "get", "args": {"n": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "get", "args": {"n": 2}}},
    ]
    turn.feed({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]})
    turn.close()
    update = with_results(Round(turn, shape="sequential")).update()
    assert [warning.code for warning in update.warnings] == ["batched_instead"]
    assert roles(update.messages) == ["model", "user"]


def test_content_that_a_provider_cannot_represent_is_a_warning() -> None:
    update = with_results(Round(anthropic_turn(thinking=True), provider="openai_chat")).update()
    assert [warning.code for warning in update.warnings] == ["content_changed"]


# ---------------------------------------------------------------- the caller's own formats


def own_call(tool_call: ToolCall, arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "own": tool_call.name, "arguments": arguments}


def own_result(result: ToolResult, tool_call: ToolCall, arguments: Any) -> dict[str, Any]:
    return {"role": "own", "of": tool_call.raw_id, "value": result.value, "arguments": arguments}


def own_batch(completed: list[ToolResult]) -> list[dict[str, Any]]:
    return [{"all": [result.call.raw_id for result in completed], "values": [result.value for result in completed]}]


def test_format_batch_writes_all_messages_of_the_round() -> None:
    made_round = with_results(Round([call(index=0), call(index=1)], callbacks=FormatCallbacks(batch=own_batch)))
    assert made_round.update().messages == [{"all": ["call_0", "call_1"], "values": ["ok", "ok"]}]


def test_format_batch_in_the_sequential_layout_writes_each_call() -> None:
    made_round = with_results(
        Round([call(index=0), call(index=1)], shape="sequential", callbacks=FormatCallbacks(batch=own_batch))
    )
    assert [message["all"] for message in made_round.update().messages] == [["call_0"], ["call_1"]]


def test_call_and_result_callbacks_together() -> None:
    formatting = FormatCallbacks(call=own_call, result=own_result)
    sequential = with_results(Round([call(index=0), call(index=1)], shape="sequential", callbacks=formatting)).update()
    assert roles(sequential.messages) == ["assistant", "own", "assistant", "own"]
    assert sequential.messages[3] == {"role": "own", "of": "call_1", "value": "ok", "arguments": {"n": 1}}
    batched = with_results(Round([call(index=0), call(index=1)], callbacks=formatting)).update()
    assert batched.messages == sequential.messages  # no server accepts a message with a call that no result follows
    assert [content.speaker for content in batched.contents] == ["ai", "tool"]


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic"])
def test_a_single_callback_replaces_its_part_of_the_providers_messages(provider: str) -> None:
    calls = [call(index=0), call(index=1)]
    results = (
        with_results(Round(calls, provider=provider, callbacks=FormatCallbacks(result=own_result))).update().messages
    )
    assert [message["role"] for message in results] == ["assistant", "own", "own"]
    call_message = (
        with_results(Round(calls, provider=provider, callbacks=FormatCallbacks(call=own_call))).update().messages
    )
    assert [message.get("own") for message in call_message] == ["f", None, "f", None]
    theirs = with_results(Round(calls, provider=provider, shape="sequential")).update().messages
    assert call_message[1::2] == theirs[1::2]


def test_a_format_callback_may_return_several_messages() -> None:
    formatting = FormatCallbacks(call=lambda tool_call, arguments: [{"a": 1}, {"b": 2}], result=own_result)
    update = with_results(Round([call()], callbacks=formatting)).update()
    assert update.messages[:2] == [{"a": 1}, {"b": 2}]


def test_a_call_without_arguments_is_formatted_with_an_empty_dict() -> None:
    broken = call(state="invalid", arguments=None, arguments_text="{x")
    update = Round([broken], callbacks=FormatCallbacks(call=own_call, result=own_result)).update()
    assert update.messages[0]["arguments"] == {}


# ---------------------------------------------------------------- legal everywhere


@given(st.integers(0, 6), st.sampled_from(["openai_chat", "anthropic", "gemini"]), st.integers())
def test_every_call_has_one_result_in_call_order_on_every_provider(count: int, provider: str, seed: int) -> None:
    states: list[Any] = ["complete", "incomplete", "invalid"]
    chance = random.Random(seed)  # noqa: S311 - a drawn example
    calls = [
        call(index=n, state=state, arguments={"n": n} if state == "complete" else None)
        for n, state in enumerate(chance.choices(states, k=count))
    ]
    update = with_results(Round(calls, provider=provider, shape=chance.choice(["batched", "sequential"]))).update()
    assert [result.call for result in update.results] == calls
    call_ids = [block.id for content in update.contents for block in content.blocks if block.type == "tool_call"]  # type: ignore[union-attr]
    result_ids = [
        block.call_id for content in update.contents for block in content.blocks if block.type == "tool_response"
    ]  # type: ignore[union-attr]
    assert call_ids == result_ids == [each.id for each in calls]
