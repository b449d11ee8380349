"""One line of text for an event, for lists of events. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["event_line"]

_LONGEST = 400  # characters


def event_line(event: dict[str, Any]) -> str:
    """Return one line that describes an event, without its type.

    Args:
        event: the event as plain data, as ``to_json`` has it.
    """
    describe = _LINES.get(event.get("type", ""))
    line = _fields(event) if describe is None else describe(event)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _text(event: dict[str, Any]) -> str:
    return str(event["text"])


def _call(event: dict[str, Any]) -> str:
    call = event["call"]
    return " ".join(str(call[name]) for name in ("name", "state", "id") if call.get(name))


def _delta(event: dict[str, Any]) -> str:
    return f"{event['call']['name']}  {event.get('arguments_delta', event.get('arguments_text', ''))}"


def _usage(event: dict[str, Any]) -> str:
    figures = {name: value for name, value in event["usage"].items() if name != "raw" and value is not None}
    return ", ".join(f"{value} {name.removesuffix('_tokens').replace('_', ' ')}" for name, value in figures.items())


def _finished(event: dict[str, Any]) -> str:
    raw = event.get("raw")
    return str(event["reason"]) + ("" if raw in (None, event["reason"]) else f" ({raw})")


def _failed(event: dict[str, Any]) -> str:
    error = event["error"]
    return ": ".join(str(error[name]) for name in ("kind", "code", "message") if error.get(name))


def _warned(event: dict[str, Any]) -> str:
    return f"{event['code']}: {event['message']}"


def _started(event: dict[str, Any]) -> str:
    return " ".join(str(event[name]) for name in ("model", "response_id") if event.get(name))


def _server_tool(event: dict[str, Any]) -> str:
    data = event.get("data")
    shown = data if isinstance(data, str) else "" if data is None else msgspec.json.encode(data).decode()
    return f"{event['name']} {event['phase']} {shown}".rstrip()


def _fields(event: dict[str, Any]) -> str:
    """Return the other fields of an event as JSON."""
    shown = {name: value for name, value in event.items() if name != "type" and value not in (None, 0, {}, [])}
    return msgspec.json.encode(shown).decode() if shown else ""


_LINES: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": _text,
    "reasoning": _text,
    "refusal": _text,
    "tool_call_start": _call,
    "tool_call_delta": _delta,
    "tool_call_end": _call,
    "tool_call_ready": _call,
    "arguments_restated": _delta,
    "usage_report": _usage,
    "finished": _finished,
    "failed": _failed,
    "warned": _warned,
    "response_started": _started,
    "server_tool": _server_tool,
}
