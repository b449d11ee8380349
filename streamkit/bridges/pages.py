"""What the bridges to pages (``vercel_ui``, ``ag_ui``) share: the stream that a page reads, and what it answers.

A page gets events as server-sent events of JSON objects: one choice of each response, and of an event what
``events.to_json(public=True)`` has. A delta costs the encoding of its text: the frame around it is that of its part.

What a page posts is foreign. The arguments that run are those of the stored state, and an answer counts if the page
shows these. It is pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from streamkit import events as ev
from streamkit.calls import CallRef, ToolCall
from streamkit.events import Reasoning, Text, ToolCallDelta
from streamkit.history.content import parse_arguments
from streamkit.json_text import nests_deeper, to_valid_json

__all__ = ["OpenPart", "PageStream", "encode", "frame", "public_data", "read_body", "safe_names", "shows_arguments"]

_VALUES: Final = ("data", "input", "output", "snapshot", "value")  # fields that may be null
_NO_CALL: Final = CallRef("", "", 0)
_TO_JSON = msgspec.json.Encoder().encode
#: The events of one choice. The page gets those of the first choice that a response has.
_OF_CHOICE: Final[set[Any]] = {Text, Reasoning, ev.Refusal, ev.BlockStarted, ev.BlockEnded}
_OF_CHOICE.update({ev.ToolCallStart, ev.ServerTool, ev.Citation, ev.File, ev.Finished})


@dataclass(slots=True)
class OpenPart:
    """A part that has deltas."""

    id: str  #: on the page
    type: str = ""  #: of its frames, without their phase
    delta: bytes = b""  #: the frame of a delta, up to its text
    kind: str = ""  #: of a text or of reasoning, ``""`` as long as that is not known


class PageStream:
    """A run as the frames of a page."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._open: dict[int | str, OpenPart] = {}  # texts and reasoning by block, calls by id
        self._choice: int | None = None  # of the response: the one that the page gets
        self._origin: dict[str, Any] = {}  # of the response
        self._has_ended = False

    def write(self, event: ev.Event | ev.UiData) -> bytes:
        """Return the frames of an event; ``b""`` if the page gets nothing of it, as after the end of the run."""
        kind: Any = event.__class__
        item: Any = event
        if kind is Text or kind is Reasoning:
            part = self._open.get(item.block)
            if part is not None and part.kind and item.choice == self._choice:
                return part.delta + encode(item.text) + b"}\n\n"
        elif kind is ToolCallDelta:
            if (part := self._open.get(item.call.id)) is not None:
                return part.delta + encode(item.arguments_delta) + b"}\n\n"
        elif kind is ev.UiData:  # of the application
            item = ev.ToolProgress(_NO_CALL, event)
        else:
            ev.check_event(event)
        if kind in _OF_CHOICE and self._choice is None:
            self._choice = item.choice
        if not (self._has_ended or (kind in _OF_CHOICE and item.choice != self._choice)):
            self._write(item)
        if kind is ev.ResponseStarted:
            origin = {"provider": item.provider, "model": item.model, "requested_model": item.requested_model}
            self._origin = {name: value for name, value in origin.items() if value is not None}
            self._choice = None
        return self._take()

    def _write(self, event: Any) -> None:
        raise NotImplementedError

    def _send(self, kind: str, **fields: Any) -> None:
        self._out.append(frame(kind, fields))

    def _send_delta(self, part: OpenPart, text: str) -> None:
        self._out.append(part.delta + encode(text) + b"}\n\n")

    def _take(self) -> bytes:
        frames = b"".join(self._out)
        self._out.clear()
        return frames


def encode(value: Any) -> bytes:
    """Return JSON, also of half a surrogate pair, whose other half follows, and of a long integer."""
    try:
        return _TO_JSON(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def frame(kind: str, fields: dict[str, Any]) -> bytes:
    """Return the frame of an object of a type. A field that is None is left out, unless it is a value."""
    sent = {name: value for name, value in fields.items() if value is not None or name in _VALUES}
    return b"data: " + encode({"type": kind, **sent}) + b"\n\n"


def public_data(event: ev.Event) -> dict[str, Any]:
    """Return an event as the data that people may get."""
    data: dict[str, Any] = to_valid_json(json.loads(ev.to_json(event, public=True)))
    return data


def read_body(body: Any, deepest: int) -> Any:
    """Return the JSON of a posted body, or of its object; None if it is none, or is nested too deeply."""
    try:
        data = json.loads(body) if isinstance(body, (bytes, str)) else body
        return None if nests_deeper(data, deepest) else to_valid_json(data)
    except (ValueError, RecursionError):
        return None


def shows_arguments(call: ToolCall, *values: Any) -> bool:
    """Return True if each value is what a page has of a call's arguments, with the numbers of JavaScript."""
    own = [value for value in (call.arguments, parse_arguments(call.arguments_text)) if value is not None]
    return set(map(_plain, own)).issuperset(map(_plain, values))


def _plain(value: Any) -> str:
    return json.dumps(json.loads(json.dumps(safe_names(to_valid_json(value))), parse_int=float), sort_keys=True)


def safe_names(value: Any, *, hidden: str = "") -> Any:
    """Return JSON data with brackets around names of members that a client takes for an attack on its prototypes.

    Args:
        value: the data.
        hidden: members whose names begin so are left out.
    """
    if isinstance(value, list):
        return [safe_names(item, hidden=hidden) for item in value]
    if not isinstance(value, dict):
        return value
    names = {name: name for name in value if not (hidden and name.startswith(hidden))}
    for name in names.keys() & {"__proto__", "constructor"}:
        if name == "__proto__" or isinstance(value[name], dict):
            names[name] = f"[{name}]"
    return {names[name]: safe_names(item, hidden=hidden) for name, item in value.items() if name in names}
