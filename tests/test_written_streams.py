"""Recorded streams and conformance cases, written live to every kind of wire and parsed again, are the same turn.

What a target cannot express is in ``written_losses.toml``; the comparison with it is exact. The turn that is written is
the expectation, so a defect of a parser is not seen here but in the conformance cases.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shared_data import CONFORMANCE_CASES, TESTS, RecordedStream, recorded_streams

from streamkit import Event, Turn, Usage, writer
from streamkit.events import Finished, Reasoning, Refusal, Text, ToolCallDelta
from streamkit.providers import Writer

LOSSES: dict[str, Any] = tomllib.loads((TESTS / "written_losses.toml").read_text("utf-8"))
TARGETS = sorted(LOSSES)
#: The wires on which texts that alternate stay apart; elsewhere they are one text, as it came.
WITH_BLOCKS = frozenset({"anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "openai_responses"})
#: What no client can be told after it has the arguments of a call: other arguments.
CHANGED = frozenset({"snapshot-differs", "call-sent-again-under-its-id", "arguments-out-of-order"})
FIGURES = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")


class Written(NamedTuple):
    """A turn, its events, and what became of them on another wire."""

    turn: Turn
    events: list[Event]
    parts: list[bytes]
    writer: Writer
    again: Turn


def write(turn: Turn, events: list[Event], target: str) -> Written:
    live = writer(target, response_id="resp_1", model="m")
    parts = [*map(live.write, events), live.close()]
    again = Turn(target, "k")
    for part in parts:
        if part:
            again.feed(part)
    again.close()
    return Written(turn, events, parts, live, again)


def read_recorded(stream: RecordedStream) -> tuple[Turn, list[Event]]:
    turn = Turn(stream.provider, "k")
    events: list[Event] = [*turn.feed(stream.data), *turn.close()]
    return turn, events


def read_case(path: Path) -> tuple[Turn, list[Event]]:
    case = json.loads(path.read_text("utf-8"))
    turn = Turn(path.parent.name, "k")
    events = [event for chunk in case["chunks"] for event in turn.feed(chunk)]
    return turn, [*events, *turn.close(complete=bool(case.get("terminator") or case.get("complete")))]


# ---------------------------------------------------------------- what is expected


def expected(turn: Turn, events: list[Event], target: str) -> dict[str, Any]:
    """Return what the target can express of a turn."""
    losses = LOSSES[target]
    texts = (Text,) if losses["refusals"] else (Text, Refusal)
    choice = next((event.choice for event in events if isinstance(event, (Text, Reasoning, Refusal, ToolCallDelta))), 0)
    deltas = [event for event in events if isinstance(event, texts) and event.choice == choice]
    if target in WITH_BLOCKS:
        deltas.sort(key=lambda event: event.block)
    said: dict[str, Any] = {
        "text": "".join([event.text for event in deltas]),
        "reasoning": turn.reasoning if losses["reasoning"] else "",
        "refusal": turn.refusal if losses["refusals"] else None,
        "calls": [_call(call, losses) for call in turn.calls if losses["incomplete_calls"] or call.state == "complete"],
        "finish": _finish(turn, losses),
        "error": _error(turn, losses),
    }
    usage = turn.usage if said["error"] is None or losses["usage_after_error"] else None
    said["usage"] = {name: getattr(usage, name, None) or 0 for name in losses["usage"]}
    return said


def _call(call: Any, losses: dict[str, Any]) -> tuple[Any, ...]:
    if call.kind == "custom" and not losses["custom_calls"]:
        return call.name, "function", call.state, None if call.arguments is None else {"input": call.arguments}
    return call.name, call.kind, call.state, call.arguments


def _finish(turn: Turn, losses: dict[str, Any]) -> str | None:
    reason = None if turn.finish is None else turn.finish.reason
    if turn.error is not None or (reason == "error" and losses["error_finish"] == "failed"):
        return {"none": None, "error": "error", "same": reason}[losses["after_error"]]
    if reason == "stop" and turn.refusal and losses.get("refusal_finish"):
        return "refusal"
    named = losses["finish"].get(reason, reason)
    calls = [call for call in turn.calls if losses["incomplete_calls"] or call.state == "complete"]
    return {"tool_calls": "stop"}.get(named, named) if not calls else {"stop": "tool_calls"}.get(named, named)


def _error(turn: Turn, losses: dict[str, Any]) -> tuple[str | None, str | None] | None:
    error = turn.error
    if error is not None:
        return error.message, losses["codes"].get(error.code, error.code) or None
    is_failed = turn.finish is not None and turn.finish.reason == "error" and losses["error_finish"] == "failed"
    return (None, None) if is_failed else None


def observed(again: Turn, target: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the same of the turn that was parsed again."""
    error: Any = again.error and (again.error.message, again.error.code)
    if wanted["error"] == (None, None) and error is not None:
        error = (None, None)  # the wire's own sentence
    message = wanted["error"][0] if wanted["error"] is not None else None
    if message is not None and error is not None and error[1] == "context_overflow" and f" ({message})" in error[0]:
        error = (message, error[1])  # after the words by which clients of the wire recognize it
    return {
        "text": again.text,
        "reasoning": again.reasoning,
        "refusal": again.refusal,
        "calls": [(call.name, call.kind, call.state, call.arguments) for call in again.calls],
        "finish": again.finish and again.finish.reason,
        "error": error,
        "usage": {name: getattr(again.usage, name, None) or 0 for name in LOSSES[target]["usage"]},
    }


def check(written: Written, target: str, label: str) -> None:
    wanted = expected(written.turn, written.events, target)
    found = observed(written.again, target, wanted)
    if counts_differ(written.turn.usage):
        found.pop("usage")
        wanted.pop("usage")
    assert found == wanted, f"{label} as {target}"
    assert set(written.writer.omitted) <= set(LOSSES[target]["omits"]), f"{label} as {target}"
    assert written.writer.close() == b""


def counts_differ(usage: Usage | None) -> bool:
    """Return True for a server whose input has no cached tokens, or whose output no reasoning: no wire has both."""
    if usage is None:
        return False
    return (usage.cache_read_tokens or 0) > (usage.input_tokens or 0) or (usage.reasoning_tokens or 0) > (
        usage.output_tokens or 0
    )


# ---------------------------------------------------------------- recorded streams and cases

RECORDED = [stream for stream in recorded_streams() if stream.expected is not None]
CASES = [
    path
    for path in sorted(CONFORMANCE_CASES.glob("*/*.json"))
    if isinstance(json.loads(path.read_text("utf-8")).get("chunks"), list)
]


@pytest.mark.parametrize("target", TARGETS)
def test_recorded_streams_of_the_repository_are_the_same_turn_on_every_wire(target: str) -> None:
    for stream in RECORDED:
        check(write(*read_recorded(stream), target), target, str(stream))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_recorded_stream_is_the_same_turn_on_every_wire(target: str) -> None:
    shown: set[str] = set()
    for stream in recorded_streams():
        written = write(*read_recorded(stream), target)
        check(written, target, str(stream))
        shown |= set(written.writer.omitted)
    for path in CASES:
        shown |= set(write(*read_case(path), target).writer.omitted)
    assert shown == set(LOSSES[target]["omits"])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_conformance_cases_are_the_same_turn_on_every_wire(target: str) -> None:
    for path in CASES:
        if path.stem not in CHANGED:
            check(write(*read_case(path), target), target, str(path))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_call_whose_arguments_changed_after_they_were_sent_is_never_another_complete_call(
    target: str, name: str
) -> None:
    (path,) = (path for path in CASES if path.stem == name)
    written = write(*read_case(path), target)
    (call,), again = written.turn.calls, written.again
    if [found.arguments for found in again.calls] == [call.arguments]:
        assert "changed_call" not in written.writer.omitted
        assert again.error is None
    else:
        assert "changed_call" in written.writer.omitted
        assert again.executable == []


@pytest.mark.parametrize("target", TARGETS)
def test_no_call_that_is_not_complete_becomes_complete(target: str) -> None:
    turns = [*map(read_recorded, RECORDED), *map(read_case, CASES)]
    checked = 0
    for turn, events in turns:
        states = [(call.name, call.state) for call in turn.calls]
        if all(state == "complete" for _, state in states):
            continue
        checked += 1
        again = write(turn, events, target).again
        complete = [call.name for call in again.calls if call.state == "complete"]
        assert complete == [name for name, state in states if state == "complete"]
    assert checked > 20


# ---------------------------------------------------------------- nothing is held back


def deltas(events: list[Event]) -> Iterator[int]:
    """Yield the positions of the events with a text."""
    for position, event in enumerate(events):
        if isinstance(event, (Text, Reasoning)) or (isinstance(event, ToolCallDelta) and event.arguments_delta):
            yield position


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses", "cohere", "bedrock_converse"])
def test_every_delta_of_a_stream_is_written_with_its_event(target: str) -> None:
    """Of calls one after the other; with open calls beside each other, see test_writer.py."""
    counted = 0
    for stream in RECORDED:
        turn, events = read_recorded(stream)
        if len(turn.calls) > 1 or turn.error is not None or len(turn.choices) > 1:
            continue
        parts = write(turn, events, target).parts
        for position in deltas(events):
            event = events[position]
            is_lost = isinstance(event, Reasoning) and not LOSSES[target]["reasoning"]
            is_placeholder = isinstance(event, ToolCallDelta) and event.arguments_delta == "{}"
            if not is_lost and not is_placeholder:
                counted += 1
                assert parts[position], f"{stream} as {target}: {event}"
        finish = next(position for position, event in enumerate(events) if isinstance(event, Finished))
        assert parts[finish] == b""
        assert any(parts[:finish])
    assert counted > 300


#: What ends a call on the wires that have such an event. Clients run a custom call, or answer one that is not valid,
#: once it has an end.
CALL_ENDS = {
    "anthropic": b"content_block_stop",
    "bedrock_converse": b"contentBlockStop",
    "cohere": b"tool-call-end",
    "openai_responses": b".done",
}
OPENED = {"type": "response.output_item.added", "output_index": 0}
CUT_CALLS = {
    "function": [
        {**OPENED, "item": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": '{"a": "b'},
    ],
    "custom": [
        {**OPENED, "item": {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "f", "input": ""}},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ctc_1", "delta": "rm -r b"},
    ],
}
FAILED = {
    "type": "response.failed",
    "response": {"status": "failed", "error": {"code": "server_error", "message": "m"}},
}
LENGTH = {
    "type": "response.incomplete",
    "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
}


@pytest.mark.parametrize("target", CALL_ENDS)
@pytest.mark.parametrize("kind", CUT_CALLS)
@pytest.mark.parametrize("end", ["reported", "connection", "truncated", "length"])
def test_a_call_within_which_a_response_failed_has_no_end(target: str, kind: str, end: str) -> None:
    turn = Turn("openai_responses", "k")
    last = {"reported": [FAILED], "length": [LENGTH]}.get(end, [])
    events = [event for chunk in [*CUT_CALLS[kind], *last] for event in turn.feed(chunk)]
    events += turn.close(ConnectionError("reset") if end == "connection" else None)
    written = write(turn, events, target)
    has_end = end == "length" and (target, kind) != ("openai_responses", "custom")  # clients run what has one
    assert (CALL_ENDS[target] in b"".join(written.parts)) is has_end
    assert (written.again.error is None) is (end == "length")
    ((call,), (cut,)) = written.again.calls, turn.calls
    beginning = "" if call.kind == kind else '{"input":"'
    assert (call.state, call.arguments_text) == ("incomplete", beginning + cut.arguments_text)
