"""Calls that a wire sends in two forms at once, as one call.

Chat Completions has ``tool_calls`` and, from before it, ``function_call``. llama-cpp-python sends each call in both
(``_convert_completion_to_chat_function`` in its ``llama_chat_format.py``), so that a reader of both would run it twice.
The form that comes first is the call; the other one is its copy, and its text is compared and dropped. A copy that
turns out to differ becomes a call of its own with all of its text. The cost is linear: each character of a copy is
compared once.

The module decides and keeps copies; ``tracker`` opens calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from streamkit.accumulator.call_builder import MANY_PARTS, ToolCallBuilder
from streamkit.accumulator.turn_state import OBJECT_SIZE
from streamkit.events import NormalizedToolChunk
from streamkit.json_text import JsonObjectScanner

__all__ = ["CallCopies"]


class _Copy:
    """The second form of a call.

    Args:
        call: the call.
        chunk: the delta with which the second form began.

    Attributes:
        name: its name so far.
        ahead: its text that the call has not sent yet.
        gave_id: the call got its raw id from this form.
        received: the characters of its text.
    """

    __slots__ = (
        "_joined_ahead",
        "_joins",
        "_offset",
        "_part",
        "_parts",
        "_scanner",
        "_size",
        "ahead",
        "call",
        "chunk",
        "gave_id",
        "name",
        "received",
    )

    def __init__(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> None:
        self.call = call
        self.chunk = chunk
        self.name = chunk.name or ""
        self.ahead: list[str] = []
        self.gave_id = False
        self.received = 0
        self._scanner = JsonObjectScanner()
        self._joined_ahead = 0  # the first parts of it, each of which was joined from many
        self._parts, self._joins = call.parts, call.joins
        self._part = self._offset = 0  # the position in the call's parts up to which both are equal
        self._size = 0  # the characters up to there

    @property
    def text(self) -> str:
        """All of its text."""
        return self.call.text[: self._size] + "".join(self.ahead)

    @property
    def is_object_closed(self) -> bool:
        """Whether its object is closed."""
        return self._scanner.closed_at >= 0

    def extend(self, text: str) -> bool:
        """Compare the next text with the call's; return False if they differ."""
        if self._parts is not self.call.parts:  # the wire replaced the call's text: what it had is not known any more
            return True
        self.received += len(text)
        if text:
            self.ahead.append(text)
            if len(self.ahead) - self._joined_ahead == MANY_PARTS:
                self.ahead[self._joined_ahead :] = ["".join(self.ahead[self._joined_ahead :])]
                self._joined_ahead += 1
            if self._scanner.closed_at < 0:
                self._scanner.feed(text)
        if self._joins != self.call.joins:
            # Parts of the call were joined, so the position is found again. It is near the end, where both grow.
            self._joins = self.call.joins
            start, self._part = self.call.size, len(self._parts)
            while start > self._size:
                self._part -= 1
                start -= len(self._parts[self._part])
            self._offset = self._size - start
        parts = self._parts
        if self._part == len(parts) or not self.ahead:
            return True
        rest = "".join(self.ahead)
        at = 0
        while at < len(rest) and self._part < len(parts):
            part = parts[self._part]
            size = min(len(rest) - at, len(part) - self._offset)
            if not part.startswith(rest[at : at + size], self._offset):
                self.set_ahead(rest[at:])
                return False
            at += size
            self._size += size
            self._offset += size
            if self._offset == len(part):
                self._part, self._offset = self._part + 1, 0
        self.set_ahead(rest[at:])
        return True

    def set_ahead(self, text: str) -> None:
        """Set the text that the call has not sent yet."""
        self.ahead, self._joined_ahead = [text] if text else [], 0

    def is_object_closed_in_call(self) -> bool:
        """Return True if the call's object is closed, so that no more text of it can come."""
        return bool(self.call.parts) and self.call.is_object_closed()

    def differs(self) -> bool:
        """Return True if the texts differ, also because this one goes on after the end of the call."""
        if not self.extend(""):
            return True
        is_over = self.call.is_final or self.is_object_closed_in_call()
        return is_over and "".join(self.ahead).strip() != ""

    def continues_name(self, name: str) -> bool:
        """Return True if a name is that of the call, again or in fragments; False if another call begins."""
        if name in ("", self.name):
            return True
        if not self._size and not self.ahead and self.call.name.startswith(self.name + name):
            self.name += name
            return True
        return False


class CallCopies:
    """The copies of the calls of one choice.

    Args:
        second_key: the key of all calls in the older form (``WireTraits.second_key``).
        limit: characters of a copy; a longer one becomes a call, whose limit it exceeds.
        keep: counts characters that are kept against the limits of the turn.
        open_call: opens a call with a delta, its text, and the call before it on its key.
    """

    __slots__ = (
        "_by_id",
        "_by_key",
        "_ended",
        "_keep",
        "_limit",
        "_open_call",
        "_second_key",
        "_uncopied",
    )

    def __init__(
        self,
        second_key: Hashable,
        limit: int,
        keep: Callable[[int], bool],
        open_call: Callable[[NormalizedToolChunk, str, ToolCallBuilder | None], None],
    ) -> None:
        self._second_key = second_key
        self._limit = limit
        self._keep = keep
        self._open_call = open_call
        # The calls without a copy, of the newer and of the older form, by their indexes.
        self._uncopied: tuple[dict[int, ToolCallBuilder], dict[int, ToolCallBuilder]] = {}, {}
        self._by_key: dict[Hashable, _Copy] = {}
        self._by_id: dict[str, _Copy] = {}
        self._ended: list[_Copy] = []  # to be compared at the end

    def add_call(self, call: ToolCallBuilder, key: Hashable) -> None:
        """Record in which form a call began."""
        self._uncopied[key == self._second_key][call.index] = call

    def take(self, chunk: NormalizedToolChunk, text: str) -> bool:
        """Take a delta that continues a copy; return False if it does not.

        Args:
            chunk: the delta.
            text: its argument text.
        """
        copy: _Copy | None = (self._by_id.get(chunk.id) if chunk.id else None) or self._by_key.get(chunk.key)
        if copy is None or (chunk.id and copy.chunk.id not in (None, "", chunk.id)):
            return False
        if not copy.extend(""):  # the call has gone on in the meantime
            self._split(copy)
            return False
        if not copy.continues_name(chunk.name or ""):
            self._end(copy)
            return False
        if text[:1] == "{" and copy.is_object_closed:
            self._end(copy)
            named = msgspec.structs.replace(chunk, name=copy.name)
            if not self.begin(named, text):
                self._open_call(named, text, copy.call)
        elif text:
            self._keep(len(text))
            if not copy.extend(text) or copy.received > self._limit:
                self._split(copy)
        return True

    def begin(self, chunk: NormalizedToolChunk, text: str, reused_from: ToolCallBuilder | None = None) -> bool:
        """Begin the copy of a call with that name that began in the other form; return False if there is none.

        Args:
            chunk: a delta that would open a call.
            text: its argument text.
            reused_from: the call before it on its key, whose name it has if it has none.
        """
        name = chunk.name or (reused_from.name if reused_from is not None else "")
        if not name:
            return False
        if name != chunk.name:
            chunk = msgspec.structs.replace(chunk, name=name)
        candidates = self._uncopied[chunk.key != self._second_key]
        for call in candidates.values():
            if (
                call.name != chunk.name
                or call.kind != chunk.kind
                or (call.raw_id and chunk.id and call.raw_id != chunk.id)
            ):
                continue
            copy = _Copy(call, chunk)
            if text and not copy.extend(text):
                if not _is_equal_json(call.text, text):
                    continue
                copy.set_ahead("")  # the call has sent the same JSON
            del candidates[call.index]
            self._keep(OBJECT_SIZE + len(text))
            self._by_key[chunk.key] = copy
            if chunk.id:
                self._by_id[chunk.id] = copy
                if call.raw_id is None and not call.is_final:
                    call.raw_id, copy.gave_id = chunk.id, True
            return True
        return False

    def _end(self, copy: _Copy) -> None:
        """End a copy, because another call begins on its key; what the call has not sent yet is compared later."""
        self._forget(copy)
        if copy.ahead:
            self._ended.append(copy)

    def _forget(self, copy: _Copy) -> None:
        for copies in (self._by_key, self._by_id):
            for key in [key for key, other in copies.items() if other is copy]:
                del copies[key]  # type: ignore[arg-type]

    def _split(self, copy: _Copy) -> None:
        """Make a copy that differs a call of its own, or the copy of another call."""
        text = copy.text
        self._forget(copy)
        if copy in self._ended:
            self._ended.remove(copy)
        if copy.gave_id and not copy.call.is_final:
            copy.call.raw_id = None
        chunk = msgspec.structs.replace(copy.chunk, name=copy.name, args=None, arguments_delta=None)
        if not self.begin(chunk, text):
            self._open_call(chunk, text, None)
        self._uncopied[copy.chunk.key != self._second_key][copy.call.index] = copy.call

    def split_different(self) -> None:
        """Make the copies that differ calls of their own, because calls may be decided now."""
        for copy in self._copies():
            if copy.differs():
                self._split(copy)

    def close(self) -> Iterable[tuple[ToolCallBuilder, str]]:
        """Return the calls that were truncated and whose copy has more, with that text."""
        self.split_different()
        for copy in self._copies():
            if copy.ahead and not copy.call.is_final and not copy.is_object_closed_in_call():
                yield copy.call, "".join(copy.ahead)

    def _copies(self) -> list[_Copy]:
        return [*self._ended, *dict.fromkeys(self._by_key.values())]


def _is_equal_json(one: str, other: str) -> bool:
    """Return True if two whole texts are the same JSON, written differently."""
    values: list[Any] = []
    for text in (one, other):
        with suppress(msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            values.append(msgspec.json.decode(text))
    return len(values) == 2 and values[0] == values[1]
