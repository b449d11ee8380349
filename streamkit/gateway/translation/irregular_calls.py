"""Calls whose entries do not say which call they are of, on a wire that numbers them (Chat Completions).

What such entries mean is decided by the rules of docs/rules.md ("Slot reuse"), which look at what came before; an entry
that gets an index and an id afterwards has another meaning for its reader. So they are not passed on.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.providers.writing.wire_output import WirePlaces, find_places

__all__ = ["IrregularCalls"]


class IrregularCalls:
    """The search for such entries in the frames before the first call has started.

    Args:
        places: where the wire has calls.
    """

    def __init__(self, places: WirePlaces) -> None:
        self._places = places
        self._known: set[tuple[str, int]] = set()  # the choices and indexes that had an entry

    def contains(self, payload: bytes) -> bool:
        """Return True if an entry in a frame has no index, or the first one of an index no id."""
        lists = self._places.call_lists
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
        call_id = call.get(self._places.call_id)
        if (choice, index) not in self._known and not (isinstance(call_id, str) and call_id):
            return False
        self._known.add((choice, index))
        return True
