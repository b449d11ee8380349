"""The calls of a choice by id, key and position, and the pure decision to which of them a delta belongs.

``CallIndex.resolve`` returns an ``Existing``, ``New``, ``Repeat`` or ``Orphan``. It emits nothing and changes nothing
that can be observed; ``tracker`` applies the result. The scanners of the calls, and the list of calls that may be open,
are caches: a call that was found closed is not scanned again, which keeps the cost linear.

The rules and the reports that made them necessary are in docs/rules.md, "Assigning a delta to a call", "Slot reuse" and
"Restated arguments". In short, the first match decides: an id that is known; a key in use, unless the delta has a name
and a new id; the position, only against calls opened with neither id nor key; a delta with a name, a start or an id on
an unused key opens a call; the only open call. Anything else is an orphan and never assigned by a guess.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from msgspec import Struct

from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.json_text import is_one_object

__all__ = ["CallIndex", "Existing", "New", "Orphan", "Repeat", "Resolution"]


class Existing(Struct, frozen=True):
    """The delta continues a call."""

    call: ToolCallBuilder
    is_restated: bool = False  #: its text replaces the call's arguments
    has_unknown_key: bool = False  #: it came on a key that no call uses, and this is the only open call


class New(Struct, frozen=True):
    """The delta opens a call."""

    reused_from: ToolCallBuilder | None = (
        None  #: the previous call on the same key, if the wire reuses it without an id
    )


class Repeat(Struct, frozen=True):
    """The delta begins or continues a possible repeat of a call's closed object."""

    call: ToolCallBuilder


class Orphan(Struct, frozen=True):
    """The delta belongs to no open call."""

    ended_call: ToolCallBuilder | None = None  #: the call that it names, if that has ended


Resolution: TypeAlias = Existing | New | Repeat | Orphan

_NEW = New()


class CallIndex:
    """The calls of one choice by everything that identifies them.

    Args:
        calls: the list of the calls, in order of first appearance, to which the caller appends.
        reuses_slots: whether a key may come again for another call without an id (``WireTraits.reuses_slots``).

    Attributes:
        by_id: by the provider's ids.
        by_key: by what the wire distinguishes calls by, such as an index; a call may have several keys.
        by_position: by the position in the list of the chunk; only calls opened with neither id nor key.
    """

    __slots__ = ("_listed", "_position", "_possibly_open", "_reuses_slots", "by_id", "by_key", "by_position", "calls")

    def __init__(self, calls: list[ToolCallBuilder], *, reuses_slots: bool) -> None:
        self.calls: list[ToolCallBuilder] = calls
        self._reuses_slots = reuses_slots
        self.by_id: dict[str, ToolCallBuilder] = {}
        self.by_key: dict[Hashable, ToolCallBuilder] = {}
        self.by_position: dict[int, ToolCallBuilder] = {}
        self._possibly_open: list[ToolCallBuilder] | None = None  # neither ended nor yet found closed; once needed
        self._listed = 0  # a bit for the index of each with a named entry in the current list of the wire
        self._position = -1  # the place of the last such entry; the next list begins with a lower one

    def add(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> None:
        """Add a call that a delta opened."""
        if self._possibly_open is not None:
            self._possibly_open.append(call)
        if chunk.id:
            self.by_id[chunk.id] = call
        key = normalize_index(chunk.key)
        if key is not None:
            self.by_key[key] = call
        elif call.unkeyed and chunk.position is not None:
            self.by_position[chunk.position] = call

    def add_identifiers(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> bool:
        """Add a late id, or a further key, of a call that a delta was assigned to; return True if there was one."""
        raw_id = chunk.id
        if not raw_id:
            return False
        key = normalize_index(chunk.key)
        is_new = key is not None and key not in self.by_key
        if is_new:
            self.by_key[key] = call
        if raw_id not in self.by_id:
            is_new = True
            self.by_id[raw_id] = call
            if call.raw_id is None and not call.is_final:
                call.raw_id = raw_id  # the first id stays, also if it arrives late; the canonical id does not change
        return is_new

    def resolve(self, chunk: NormalizedToolChunk, text: str) -> Resolution:
        """Return to which call a delta belongs.

        Args:
            chunk: the delta.
            text: its argument text, ``""`` if it has none.
        """
        raw_id, name, key = chunk.id or None, chunk.name or "", normalize_index(chunk.key)
        is_start = chunk.type == "start"
        call = self.by_id.get(raw_id) if raw_id else None
        if call is not None:
            # Two calls under one id (such as two items of one response) are distinguished by order: the wire starts
            # another block, or sends another name once the object of the first is closed.
            if (is_start and not (text and name == call.name)) or (
                name and call.name and name != call.name and call.is_object_closed()
            ):
                return _NEW
            if name and text[:1] == "{" and call.kind == "function" and call.is_object_closed():
                if self._reuses_slots and key is not None and key not in self.by_key:
                    # A complete call under the id of another one with an index of its own: DeepSeek and GLM give
                    # parallel calls one id (HKUDS/nanobot#3943).
                    if not call.is_placeholder() and text != call.object_text:
                        return _NEW
                # An entry that follows in the same list is a call: a list has a call once. A call that comes again in
                # another list replaces itself.
                position = chunk.position
                if position is not None and position > self._position and self._listed >> call.index & 1:
                    if is_one_object(text):
                        return _NEW
            if text[:1] == "{" and (is_start or (call.kind == "function" and call.is_object_closed())):
                # With its name the call is sent again. Without, another object of the same call follows, unless the
                # first one was a placeholder: then both are kept, and the call is invalid.
                is_whole = is_start or name or call.is_placeholder() or text == call.object_text
                return Existing(call, is_restated=bool(is_whole))
            return self.resolve_within(call, chunk, text)
        if is_start or (raw_id and name):
            return _NEW  # also on a key in use (ollama/ollama#15457, vercel/ai#14277)
        if key is not None:
            call = self.by_key.get(key)
        elif raw_id is None and chunk.position is not None:
            call = self.by_position.get(chunk.position)
        if call is not None:
            return self.resolve_within(call, chunk, text)
        if name or (raw_id and key is not None):
            return _NEW
        call = self._only_open_call()
        if call is not None:
            # Nebius and Cerebras increment the index with every delta (dirac-run/dirac#215).
            return Existing(call, has_unknown_key=key is not None)
        return _NEW if raw_id else Orphan()

    def resolve_within(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> Resolution:
        """Return whether a delta on a call's id, key or position continues it, repeats it, or opens another call."""
        if call.ended:
            return Orphan(call)
        if call.possible_repeat is not None:
            return Repeat(call)
        if self._reuses_slots and call.kind == "function" and not chunk.id:
            name = chunk.name
            has_other_name = name and call.name and name != call.name
            begins_object = text[:1] == "{"
            if (has_other_name or begins_object) and call.parts and call.is_object_closed():
                if has_other_name or name:
                    return New(reused_from=call)
                if call.is_placeholder() and text != call.object_text:
                    return Existing(call, is_restated=True)  # {} was a placeholder (vercel/ai#13137)
                return Repeat(call)
        return Existing(call)

    def add_entry(self, call: ToolCallBuilder, position: int) -> None:
        """Record the call of a named entry at a position of one of the wire's lists."""
        if position <= self._position:
            self._listed = 0
        self._position = position
        self._listed |= 1 << call.index

    def _only_open_call(self) -> ToolCallBuilder | None:
        """Return the call that is still open, if there is exactly one."""
        if (possibly_open := self._possibly_open) is None:
            possibly_open = self._possibly_open = self.calls[:]
        open_calls: list[ToolCallBuilder] = []
        while possibly_open and len(open_calls) < 2:  # two are enough to decide
            call = possibly_open.pop()
            if not call.ended and not call.is_object_closed():
                open_calls.append(call)
        possibly_open += reversed(open_calls)
        return open_calls[0] if len(open_calls) == 1 else None
