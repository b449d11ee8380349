"""The calls whose frames are passed on, on a wire that numbers its calls (Chat Completions), and where that ends.

It ends at an entry without an index, at the first of a call without an id or a name, and at a call in another form.
What such entries mean is decided by the rules of docs/rules.md ("Slot reuse"), which look at what came before; with an
index and an id they have another meaning for their reader. So the rest of the response is written from the events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from streamkit.events import (
    Event,
    ResponseStarted,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    UsageReport,
)
from streamkit.providers.writing.wire_output import WirePlaces, find_places
from streamkit.reading.turn import Turn

__all__ = ["PassedCalls"]

#: The fields and types of calls in other forms. Within a text of JSON their quotes are escaped.
_OTHER_FORMS = re.compile(rb'"type"\s*:\s*"tool_use"|"function_call"\s*:\s*\{')


class PassedCalls:
    """The calls of one response that were passed on.

    Args:
        places: where the wire has calls.
        turn: the response.
    """

    def __init__(self, places: WirePlaces, turn: Turn) -> None:
        self._places = places
        self._turn = turn
        self._ids: dict[tuple[str, int], str] = {}  # the id of the last call by choice and index
        self._announced = self._started = 0  # calls: by an entry with a new id, by an event
        self._facts: dict[type[Event], Event] = {}
        self._events: list[ToolCallStart | ToolCallEnd | ToolCallReady] = []

    def ends_at(self, payload: bytes, events: Iterable[Event]) -> bool:
        """Return True for the first frame with a call that cannot be passed on, or that begins without an id.

        The same is true for one about a call while another call has been announced and not started.
        """
        is_irregular = self._is_irregular(payload)
        kinds = [event.__class__ for event in events]
        self._started += kinds.count(ToolCallStart)
        others = self._started - self._announced
        is_mixed = others > 0 or (others < 0 and (ToolCallStart in kinds or ToolCallDelta in kinds))
        return is_irregular or (bool(self._places.call_lists) and is_mixed)

    def _is_irregular(self, payload: bytes) -> bool:
        lists = self._places.call_lists
        if lists and _OTHER_FORMS.search(payload):
            return True
        if not lists or b'"tool_calls"' not in payload:
            return False
        try:
            chunk = msgspec.json.decode(payload)
        except (ValueError, RecursionError):
            return False
        listed = chunk.get(self._places.choices) if isinstance(chunk, dict) else None
        for position, choice in enumerate(listed if isinstance(listed, list) else ()):
            for holder, key in find_places(choice, lists):
                calls = holder[key]
                number = str(choice.get("index", position))
                if calls and not (isinstance(calls, list) and all(self._is_regular(number, call) for call in calls)):
                    return True
        return False

    def _is_regular(self, choice: str, call: Any) -> bool:
        index = call.get(self._places.call_index) if isinstance(call, dict) else None
        if index.__class__ is not int:
            return False
        call_id, known = call.get(self._places.call_id), self._ids.get((choice, index))
        if isinstance(call_id, str) and call_id and call_id != known:
            self._ids[choice, index] = call_id
            self._announced += 1
            called = call.get("function") or call.get("custom")
            return isinstance(called, dict) and bool(called.get("name"))
        return known is not None

    def add(self, events: Iterable[Event]) -> None:
        """Keep the events of a passed frame that a writer would need."""
        for event in events:
            if isinstance(event, (ResponseStarted, UsageReport)):
                self._facts[event.__class__] = event
            elif isinstance(event, (ToolCallStart, ToolCallEnd, ToolCallReady)):
                self._events.append(event)

    def events_before(self, rest: Sequence[Event]) -> list[Event]:
        """Return the events that a writer must know before *rest*; the text of each call is one delta."""
        return [*self._facts.values(), *self._calls(rest)]

    def _calls(self, rest: Sequence[Event]) -> Iterator[Event]:
        later: dict[str, list[str]] = {}  # the deltas of each call that follow
        for each in rest:
            if isinstance(each, ToolCallDelta):
                later.setdefault(each.call.id, []).append(each.arguments_delta)
        for event in self._events:
            if not isinstance(event, ToolCallStart):
                yield event
            else:  # a custom call was passed on without an object around its text, and gets none around the rest
                yield structs.replace(event, call=structs.replace(event.call, kind="function"))
                text = self._turn.call(event.call.id).arguments_text
                text = text.removesuffix("".join(later.get(event.call.id, ())))
                yield ToolCallDelta(event.call, text, event.choice)
