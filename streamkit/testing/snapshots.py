"""What a turn is, as plain data: in the words of a case's expectation, and whole. It knows no vendor and no case."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamkit import events
from streamkit.events import Event, Reasoning, Refusal, Text, ToolCallDelta
from streamkit.turn import Turn

__all__ = ["full_snapshot", "merge_deltas", "summary"]


def summary(turn: Turn) -> dict[str, Any]:
    """What a turn is, in the words of ``expected.json``; what is empty is left out.

    Returns:
        ``text``, ``reasoning``, ``refusal``; ``calls``: each ``name``, ``arguments``, ``raw_id``, ``metadata``, and
        where it is not complete its ``state`` and ``text``, where it is not a function its ``kind``; ``executable``:
        how many may run; ``server_calls``; ``finish``: [reason, the provider's word]; ``usage``: ``input``,
        ``output``, ``reasoning``, ``cache_read``, ``cache_write``; ``error``: its kind; ``warnings``: their codes.
    """
    usage = turn.usage
    found = {
        "text": turn.text,
        "reasoning": turn.reasoning,
        "refusal": turn.refusal,
        "calls": [
            _without_none(
                name=call.name,
                arguments=call.arguments,
                text=call.arguments_text if call.state != "complete" else None,
                state=call.state if call.state != "complete" else None,
                raw_id=call.raw_id,
                kind=call.kind if call.kind != "function" else None,
                metadata=call.metadata or None,
            )
            for call in turn.calls
        ],
        "executable": len(turn.executable),
        "server_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "result": call.result}
            for call in turn.server_calls
        ],
        "finish": None if turn.finish is None else [turn.finish.reason, turn.finish.raw],
        "usage": None
        if usage is None
        else _without_none(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
            cache_read=usage.cache_read_tokens,
            cache_write=usage.cache_write_tokens,
        ),
        "error": None if turn.error is None else turn.error.kind,
        "warnings": [warning.code for warning in turn.warnings],
    }
    return {name: value for name, value in found.items() if value}


def full_snapshot(turn: Turn) -> dict[str, Any]:
    """All that a turn says of itself, its choices and its content."""
    return {
        **turn.to_dict(),
        "choices": [
            {"text": view.text, "calls": [call.id for call in view.calls], "finish": view.finish and view.finish.reason}
            for view in turn.choices
        ],
        "content": turn.content.model_dump(mode="json"),
    }


def merge_deltas(seen: Iterable[Event]) -> list[dict[str, Any]]:
    """The events, neighbours of one kind that only bring the next piece of one text made one."""
    found: list[dict[str, Any]] = []
    before: Event | None = None
    for event in seen:
        plain = json.loads(events.to_json(event))
        if before is not None and _continues(before, event):
            field = "arguments_delta" if isinstance(event, ToolCallDelta) else "text"
            found[-1][field] += plain[field]
        else:
            found.append(plain)
        before = event
    return found


def _continues(before: Event, event: Event) -> bool:
    match before, event:
        case ToolCallDelta(), ToolCallDelta():
            return before.call == event.call and before.choice == event.choice
        case (Text(), Text()) | (Refusal(), Refusal()):
            return before.choice == event.choice
        case Reasoning(), Reasoning():
            return before.choice == event.choice and before.kind == event.kind
    return False


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
