"""A turn as plain data: a summary, as cases expect it, and a full snapshot. Must not depend on a provider."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamkit import events
from streamkit.events import Event, Reasoning, Refusal, Text, ToolCallDelta
from streamkit.reading.turn import Turn

__all__ = ["full_snapshot", "merge_deltas", "summary"]


def summary(turn: Turn) -> dict[str, Any]:
    """Return a turn in the form of a case's ``expected``; empty values are left out.

    Returns:
        ``text``, ``reasoning``, ``refusal``; ``calls``: each with ``name``, ``arguments``, ``raw_id``, ``metadata``, if
        it is not complete ``state`` and ``text``, if it is not a function ``kind``; ``executable``: the number of
        executable calls; ``server_calls``; ``finish``: [reason, the provider's value]; ``usage``: ``input``,
        ``output``, ``reasoning``, ``cache_read``, ``cache_write``; ``error``: its kind; ``warnings``: their codes.
    """
    usage = turn.usage
    fields = {
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
    return {name: value for name, value in fields.items() if value}


def full_snapshot(turn: Turn) -> dict[str, Any]:
    """Return everything a turn contains, with its choices and its content."""
    return {
        **turn.to_dict(),
        "choices": [
            {"text": view.text, "calls": [call.id for call in view.calls], "finish": view.finish and view.finish.reason}
            for view in turn.choices
        ],
        "content": turn.content.model_dump(mode="json"),
    }


def merge_deltas(turn_events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the events as dicts, with successive deltas of one text merged into one."""
    merged: list[dict[str, Any]] = []
    before: Event | None = None
    for event in turn_events:
        plain = json.loads(events.to_json(event))
        if before is not None and _continues(before, event):
            field = "arguments_delta" if isinstance(event, ToolCallDelta) else "text"
            merged[-1][field] += plain[field]
        else:
            merged.append(plain)
        before = event
    return merged


def _continues(before: Event, event: Event) -> bool:
    """Return True if an event is the next delta of the same text."""
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
