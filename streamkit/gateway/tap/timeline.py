"""The timeline of an exchange: what its response consists of, when each part came, and when the tools ran.

A part has the rows in which it came, and the seconds since the request if they are known. The tap does not see tools
run: their time is that from the end of the response to the request that has all their results, which is found by the
names, arguments and ids of its calls. The module is pure, and its times are given to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from streamkit import events
from streamkit.calls import ToolCall
from streamkit.errors import UsageError
from streamkit.events import TurnEvent
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.providers import parse_request
from streamkit.reading.source import BYTES

__all__ = ["Span", "Timeline", "answered_calls", "match_calls"]

_MOST_SPANS = 200  # that are kept; the summary of an exchange is sent with each change of it


class Span(Struct, kw_only=True, omit_defaults=True):
    """One part of an exchange.

    Attributes:
        kind: ``waiting`` (for the first byte), ``reasoning``, ``text``, ``refusal``, ``call``, ``server`` (a tool that
            the provider runs) or ``tools`` (those of the client).
        name: the name of a call.
        state: that of a call: the last phase of one that the provider runs.
        choice: the number of the choice.
        first: the number of the row in which it begins; None if it is no part of the response.
        last: that of the row in which it ends, or has grown last.
        start: the seconds from the request to its begin; None if they are not known.
        end: those to its end, or to its last growth; None if they are not known, or while it is awaited.
        next: the number of the exchange whose request has the results of the tools.
    """

    kind: str
    name: str = ""
    state: str = ""
    choice: int = 0
    first: int | None = None
    last: int | None = None
    start: float | None = None
    end: float | None = None
    next: int | None = None


class Timeline:
    """The parts of a response as they grow.

    Attributes:
        spans: the parts, in the order of their beginnings.
        hidden: the number of further ones.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.hidden: int = 0
        self._open: dict[tuple[str | int, ...], Span | None] = {}  # by the block or the call; None for a hidden one

    def add(self, turn_events: Sequence[TurnEvent], row: int, at: float | None) -> None:
        """Take the events of a row, and the seconds from the request to it."""
        for event in turn_events:
            match event:
                # The end of a block or a call does not prolong it: some wires report it with that of the response.
                case events.Text() | events.Reasoning() | events.Refusal():
                    self._grow((event.choice, event.block), event.type, "", event.choice, row, at)
                case events.ToolCallStart(call) | events.ToolCallDelta(call) | events.ArgumentsRestated(call):
                    self._grow((call.id,), "call", call.name, event.choice, row, at)
                case events.ToolCallReady(call):
                    span = self._open.get((call.id,))
                    if span is not None:
                        span.state = call.state
                case events.ServerTool(id=call_id, name=name, phase=phase):
                    key = ("server", call_id or name)
                    span = self._grow(key, "server", name, event.choice, row, at)
                    if span is not None:
                        span.state = phase

    def _grow(
        self, key: tuple[str | int, ...], kind: str, name: str, choice: int, row: int, at: float | None
    ) -> Span | None:
        """Return the part with this key, which now reaches to this row; None if it is hidden."""
        if key not in self._open:
            is_shown = len(self.spans) < _MOST_SPANS
            span = Span(kind=kind, name=name, choice=choice, first=row, start=at) if is_shown else None
            self._open[key] = span
            if span is None:
                self.hidden += 1
            else:
                self.spans.append(span)
        grown = self._open[key]
        if grown is not None:
            grown.last, grown.end = row, at
        return grown


def answered_calls(body: Any, provider: str) -> list[ToolCallBlock]:
    """Return the calls of the last round in a request of a provider, if it has the result of each; else an empty list.

    Args:
        body: plain data, or bytes.
        provider: the provider in whose form it is.
    """
    try:
        data = msgspec.json.decode(body) if isinstance(body, BYTES) else body
        contents = parse_request(data, provider).contents
    except (UsageError, ValueError, RecursionError):  # no request of a model, or of a provider that cannot be read
        return []
    calls: list[ToolCallBlock] = []
    results: set[str] = set()
    for block in reversed([block for content in contents for block in content.blocks]):
        if isinstance(block, ToolResponseBlock):
            if calls:
                break  # of the round before
            results.add(block.call_id)
        elif isinstance(block, ToolCallBlock):
            calls.append(block)
    calls.reverse()
    return calls if all(call.id in results for call in calls) else []


def match_calls(calls: Sequence[ToolCall], answered: Sequence[ToolCallBlock]) -> int:
    """Return how well the calls of a response match those of a request: 2 with their ids, 1 without, 0 if not at all.

    A gateway's client has ids of its own wire, and some wires have none; so names and arguments decide.
    """
    pairs = list(zip(calls, answered, strict=False))
    is_alike = len(calls) == len(answered) > 0 and all(
        call.name == block.name and (call.state != "complete" or call.arguments == block.parameters)
        for call, block in pairs
    )
    return is_alike + (is_alike and all(call.raw_id == block.metadata.get("raw_id") for call, block in pairs))
