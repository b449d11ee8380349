"""Index of the items of one response: finds the item that an event or a snapshot belongs to.

OpenAI gives every item an id and a position (``output_index``), and names both in every event. Other servers do not:
llama.cpp sends neither and puts the ``call_id`` in the field of the item's id (can1357/oh-my-pi#2016), GitHub Copilot
gives an item another id in every event and keeps the position, and two items of one response may share a ``call_id``:
they are two calls, distinguished by order. So an item is found by its id, by its ``call_id``, by its position, in that
order, and only among items of its type. An event that names nothing belongs to the only item still open. A server may
also state an item again at another position, with the same id: whether that is the same item, its content decides
(``RepeatedStart``; `transformers serve` gives all calls of a response one id).

The sink's keys are numbers of the index, so the sink does not depend on any of this.
This module must not depend on the sink or on the content of items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any

from streamkit.providers.buffer_size import BLOCK_SIZE, PART_SIZE
from streamkit.providers.decoding import as_text
from streamkit.providers.openai_responses.schema import Json, PartKind

__all__ = ["ContentPart", "OutputItem", "OutputItemIndex", "RepeatedStart", "as_position", "item_type"]

_MANY_PARTS = 32  # so many parts of a text are joined


class ContentPart:
    """A part of an item's text.

    Attributes:
        item: the item that contains the part.
        kind: the kind of its text.
        index: its position in the item's content (or summary), as far as the wire reports it.
        last_index: the index in the last delta, for the parser's fast path.
        key: the sink's key of its block.
        streamed: the deltas that were passed on. They are the sink's own strings, kept because the final snapshot may
            contain more than the deltas did, and joined once, when it comes.
        joined: the first parts in ``streamed``, each of which was joined from many.
        initial_text: the text in the event that started the part. It counts only if neither a delta nor a snapshot
            follows.
        is_started: the sink has a block for it.
        is_warned: a snapshot differed, and a warning reported it.
        citation_count: how many of its annotations were passed on.
    """

    __slots__ = (
        "citation_count",
        "index",
        "initial_text",
        "is_started",
        "is_warned",
        "item",
        "joined",
        "key",
        "kind",
        "last_index",
        "streamed",
    )

    def __init__(self, item: OutputItem, kind: PartKind, index: int, key: int) -> None:
        self.item = item
        self.kind = kind
        self.index = index
        self.last_index: Any = index
        self.key = key
        self.streamed: list[str] = []
        self.joined = 0
        self.initial_text = ""
        self.is_started = False
        self.is_warned = False
        self.citation_count = 0

    def join_parts(self) -> int:
        """Join the parts of the text that came since the last call, if they are many; return their number."""
        parts = self.streamed
        count = len(parts) - self.joined
        if count < _MANY_PARTS:
            return 0
        parts[self.joined :] = ["".join(parts[self.joined :])]
        self.joined += 1
        return count

    @property
    def text(self) -> str:
        """The text so far."""
        parts = self.streamed
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        self.joined = len(parts)
        return parts[0] if parts else ""


class RepeatedStart:
    """A second start of a complete item, without content: what follows may repeat the item, or be another one.

    Deltas are compared with the texts of the item, and are passed on once one differs.

    Attributes:
        raw: the item of the second start.
        index: its position.
        sizes: for each text of the item, how many characters were repeated.
    """

    __slots__ = ("index", "raw", "sizes")

    def __init__(self, raw: Json, index: Any) -> None:
        self.raw = raw
        self.index = index
        self.sizes: dict[Hashable, int] = {}

    def matches(self, key: Hashable, text: str, delta: str) -> bool:
        """Return True if a delta continues the repetition of a text."""
        size = self.sizes.get(key, 0)
        if not text.startswith(delta, size):
            return False
        self.sizes[key] = size + len(delta)
        return True


class OutputItem:
    """An item that has started.

    Attributes:
        key: the sink's key of its (first) block.
        type: the item's type on the wire.
        id: its id, as the wire first sent it.
        call_id: of a call, the id that its result must name.
        index: its position in the output, if the wire reports it.
        parts: the parts of its text, by kind and index.
        text_metadata: the metadata of its text blocks (``item_id``, ``phase``).
        raw: of a type that is not read, the item as it started.
        name: of a call, the name of its tool; of a server tool, the tool's name.
        server_id: of a server tool, the id of its call in the sink.
        initial_arguments: of a call, the arguments in the event that started it; of a patch, its JSON before the diff.
        arguments: of a call, the arguments in its last snapshot.
        has_arguments: of a call, that arguments came later; of a server tool, that its arguments were emitted.
        is_done: a snapshot of the complete item came.
        repeated_start: it started again after that.
    """

    __slots__ = (
        "_unknown_indexes",
        "arguments",
        "call_id",
        "has_arguments",
        "id",
        "index",
        "initial_arguments",
        "is_done",
        "key",
        "name",
        "parts",
        "raw",
        "repeated_start",
        "server_id",
        "text_metadata",
        "type",
    )

    def __init__(self, key: int, type: str, id: str | None, call_id: str | None, index: int | None) -> None:
        self.key = key
        self.type = type
        self.id = id
        self.call_id = call_id
        self.index = index
        self.parts: dict[tuple[PartKind, int], ContentPart] = {}
        self.text_metadata: Json = {}
        self.raw: Json | None = None
        self.name: str | None = None
        self.server_id: str | None = None
        self.initial_arguments = ""
        self.arguments = ""
        self.has_arguments = False
        self.is_done = False
        self.repeated_start: RepeatedStart | None = None
        self._unknown_indexes: set[int] | None = None

    def mark_unknown(self, index: int) -> bool:
        """Mark a position of the content as reported to be unknown; return False if it was already."""
        known = self._unknown_indexes
        if known is None:
            self._unknown_indexes = {index}
            return True
        count = len(known)
        known.add(index)
        return len(known) > count


class OutputItemIndex:
    """The items in the order in which they started, with lookups by id, ``call_id``, position and type.

    Args:
        keep: counts what is kept of each item (``Sink.keep``).
    """

    __slots__ = ("_by_call_id", "_by_id", "_by_index", "_keep", "_key_count", "_open", "_open_calls", "items")

    def __init__(self, keep: Callable[[int], bool]) -> None:
        self._keep = keep
        self.items: list[OutputItem] = []
        self._by_id: dict[str, list[OutputItem]] = {}
        self._by_call_id: dict[str, list[OutputItem]] = {}
        self._by_index: dict[int, OutputItem] = {}
        self._open: dict[str, dict[int, OutputItem]] = {}  # by type, those without a snapshot
        self._open_calls: dict[tuple[str, str], dict[int, OutputItem]] = {}  # of those, the ones with a call_id
        self._key_count = 0

    def new_key(self) -> int:
        """Return an unused key."""
        self._key_count += 1
        return self._key_count - 1

    def add(self, type: str, id: Any, call_id: Any, index: Any) -> OutputItem:
        """Add an item that starts, and return it."""
        position = as_position(index)
        self._keep(BLOCK_SIZE + len(id if isinstance(id, str) else ""))
        item = OutputItem(self.new_key(), type, as_text(id), as_text(call_id), position)
        self.items.append(item)
        if item.id is not None:
            self._by_id.setdefault(item.id, []).append(item)
        self.set_call_id(item, item.call_id)
        if position is not None:
            self._by_index[position] = item
        self._open.setdefault(type, {})[item.key] = item
        return item

    def set_call_id(self, item: OutputItem, call_id: str | None) -> None:
        """Set the ``call_id`` of an item, which may come late."""
        if call_id is not None:
            self._keep(PART_SIZE + len(call_id))
            item.call_id = call_id
            self._by_call_id.setdefault(call_id, []).append(item)
            if not item.is_done:
                self._open_calls.setdefault((item.type, call_id), {})[item.key] = item

    def close(self, item: OutputItem) -> None:
        """Mark an item as done: a snapshot of the complete item came."""
        item.is_done = True
        self._open.get(item.type, {}).pop(item.key, None)
        if item.call_id is not None:
            self._open_calls.get((item.type, item.call_id), {}).pop(item.key, None)

    def add_position(self, item: OutputItem, index: Any) -> None:
        """Add a further position of an item, unless another item has it."""
        position = as_position(index)
        if position is not None and position not in self._by_index:
            self._keep(PART_SIZE)
            self._by_index[position] = item

    def find_same(self, raw: Json) -> OutputItem | None:
        """Return the last item with the ids and the type of another one; None if there is none."""
        items = self._by_id.get(as_text(raw.get("id")) or "")
        same = items is not None and _is_compatible(items[-1], item_type(raw), as_text(raw.get("call_id")))
        return items[-1] if items is not None and same else None

    # ------------------------------------------------------------ the item of an event

    def find_by_id(self, types: Collection[str], item_id: Any) -> OutputItem | None:
        """Return the item that an event names by the item's id, or by the ``call_id`` in its place."""
        text = as_text(item_id)
        if text is None:
            return None
        items = self._by_id.get(text) or self._by_call_id.get(text)
        return items[-1] if items and items[-1].type in types else None

    def find(self, types: Collection[str], item_id: Any, index: Any) -> OutputItem | None:
        """Return the item of one of these types that an event belongs to, or None."""
        item = self.find_by_id(types, item_id)
        if item is not None:
            return item
        position = as_position(index)
        if position is not None:
            item = self._by_index.get(position)
            return item if item is not None and item.type in types else None
        return self._only_open(types)

    def find_ended(self, raw: Json, index: Any) -> OutputItem | None:
        """Return the item that an ``output_item.done`` belongs to, or None if its start never came."""
        kind, call_id = item_type(raw), as_text(raw.get("call_id"))
        item = self.find_same(raw)
        if item is not None:
            return item
        position = as_position(index)
        at_index = self._by_index.get(position) if position is not None else None
        open_calls = self._open_calls.get((kind, call_id or ""))
        if open_calls:
            return at_index if at_index is not None and at_index.key in open_calls else next(iter(open_calls.values()))
        item = at_index if position is not None else self._only_open((kind,))
        return item if item is not None and not item.is_done and _is_compatible(item, kind, call_id) else None

    def _only_open(self, types: Collection[str]) -> OutputItem | None:
        candidates = [items for kind in types if (items := self._open.get(kind))]
        return next(iter(candidates[0].values())) if len(candidates) == 1 and len(candidates[0]) == 1 else None

    # ------------------------------------------------------------ the final output

    def match_output(self, output: Sequence[Json]) -> list[OutputItem | None]:
        """Return, for each item of the final output, the streamed item that it is the snapshot of.

        None means that the item was never streamed. Ids are matched first, for all items. The others are matched by
        their position, or else by their order among items of their type: Copilot's final output has ids that the
        stream never had.
        """
        used: set[int] = set()
        matches: list[OutputItem | None] = []
        by_call_id: dict[tuple[str, str], Iterator[OutputItem]] = {}
        for position, raw in enumerate(output):
            item = self._match_by_id(raw, position, used, by_call_id)
            matches.append(item)
            if item is not None:
                used.add(item.key)
        by_type: dict[str, Iterator[OutputItem]] = {}
        for position, raw in enumerate(output):
            if matches[position] is None:
                item = matches[position] = self._match_by_position(raw, position, used, by_type)
                if item is not None:
                    used.add(item.key)
        return matches

    def _match_by_id(
        self, raw: Json, position: int, used: set[int], by_call_id: dict[tuple[str, str], Iterator[OutputItem]]
    ) -> OutputItem | None:
        kind, call_id = item_type(raw), as_text(raw.get("call_id"))
        same = self._by_id.get(as_text(raw.get("id")) or "", ())
        item = self._by_index.get(position)
        if len(same) > 1 and item in same and item.key not in used and _is_compatible(item, kind, call_id):
            return item
        item = next((item for item in same if item.key not in used and _is_compatible(item, kind, call_id)), None)
        if item is not None or call_id is None:
            return item
        item = self._by_index.get(position)
        if item is not None and item.key not in used and (item.type, item.call_id) == (kind, call_id):
            return item
        remaining = by_call_id.setdefault((kind, call_id), iter(self._by_call_id.get(call_id, ())))
        return next((item for item in remaining if item.type == kind and item.key not in used), None)

    def _match_by_position(
        self, raw: Json, position: int, used: set[int], by_type: dict[str, Iterator[OutputItem]]
    ) -> OutputItem | None:
        kind, call_id = item_type(raw), as_text(raw.get("call_id"))
        item = self._by_index.get(position)
        if item is not None and item.key not in used and _is_compatible(item, kind, call_id):
            return item
        remaining = by_type.setdefault(kind, iter(self.items))
        return next((item for item in remaining if item.key not in used and _is_compatible(item, kind, call_id)), None)


def _is_compatible(item: OutputItem, kind: str, call_id: str | None) -> bool:
    """Return True if an item has this type and no other ``call_id``."""
    return item.type == kind and (call_id is None or item.call_id is None or item.call_id == call_id)


def as_position(value: Any) -> int | None:
    """Return a position as an integer; None if it is none. Servers may write it as text or as a float."""
    if value.__class__ is int:
        return int(value)
    if value.__class__ is float and value.is_integer():
        return int(value)
    return int(value) if value.__class__ is str and value.isascii() and value.isdigit() and len(value) < 10 else None


def item_type(raw: Json) -> str:
    """Return the type of an item. A message may leave it out."""
    return as_text(raw.get("type")) or ("message" if isinstance(raw.get("role"), str) else "")
