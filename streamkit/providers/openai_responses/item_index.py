"""Index of the items of one response: finds the item that an event or a snapshot belongs to.

OpenAI gives every item an id and a position (``output_index``), and names both in every event. Other servers do not:
llama.cpp sends neither and puts the ``call_id`` in the field of the item's id (can1357/oh-my-pi#2016), GitHub Copilot
gives an item another id in every event and keeps the position, and two items of one response may share a ``call_id``:
they are two calls, distinguished by order. So an item is found by its id, by its ``call_id``, by its position, in that
order, and only among items of its type. An event that names nothing belongs to the only item still open. A server may
also state an item again at another position, with the same id: whether that is the same item, its content decides
(``RepeatedStart``; `transformers serve` gives all calls of a response one id).

Only the ids are always indexed. The rest is (``_Lookups``) from the first event on that needs it.

The sink's keys are numbers of the index. This module must not depend on the content of items.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from sys import intern
from typing import Any

from streamkit.providers.contract.sink import Sink
from streamkit.providers.decoding.decoding import BLOCK_SIZE, PART_SIZE, as_text
from streamkit.providers.openai_responses.output_items import ContentPart, OutputItem, as_position, item_type
from streamkit.providers.openai_responses.schema import Json

__all__ = ["OutputItemIndex"]


class _Lookups:
    """The items by shared id, ``call_id``, position and type.

    Args:
        items: the items so far, in the order in which they started.

    Attributes:
        by_id: the items that share an id, in order.
        by_call_id: the items with a ``call_id``, in order.
        by_index: the items by their positions; of several the last one.
        open: by type, the items without a snapshot.
        open_calls: of those, the ones with a ``call_id``, by type and that.
    """

    __slots__ = ("by_call_id", "by_id", "by_index", "open", "open_calls")

    def __init__(self, items: list[OutputItem]) -> None:
        self.by_id: dict[str, list[OutputItem]] = {}
        self.by_call_id: dict[str, list[OutputItem]] = {}
        self.by_index: dict[int, OutputItem] = {}
        self.open: dict[str, dict[int, OutputItem]] = {}
        self.open_calls: dict[tuple[str, str], dict[int, OutputItem]] = {}
        for item in items:
            self.add(item)

    def add(self, item: OutputItem) -> None:
        """Add an item."""
        if item.id is not None:
            self.by_id.setdefault(item.id, []).append(item)
        self.add_call_id(item)
        if item.index is not None:
            self.by_index[item.index] = item
        if not item.is_done:
            self.open.setdefault(item.type, {})[item.key] = item

    def add_call_id(self, item: OutputItem) -> None:
        """Add the ``call_id`` of an item, if it has one."""
        if item.call_id is not None:
            self.by_call_id.setdefault(item.call_id, []).append(item)
            if not item.is_done:
                self.open_calls.setdefault((item.type, item.call_id), {})[item.key] = item

    def close(self, item: OutputItem) -> None:
        """Remove an item from those without a snapshot."""
        self.open.get(item.type, {}).pop(item.key, None)
        if item.call_id is not None and (same := self.open_calls.get((item.type, item.call_id))) is not None:
            same.pop(item.key, None)
            if not same:  # an empty one keeps the memory of what it had
                del self.open_calls[item.type, item.call_id]


class OutputItemIndex:
    """The items in the order in which they started, with lookups by id, ``call_id``, position and type.

    Args:
        sink: counts what is kept of each item.

    Attributes:
        items: the items.
        current_event: the type of the deltas that come now, for the parser's fast path; None if it is not known.
        current_id: the ``item_id`` of these deltas.
        current_part: the part that receives them, or received the last ones; None if it is a call.
        current_key: the sink's key of the call.
    """

    __slots__ = (
        "_by_id",
        "_key_count",
        "_lookups",
        "_sink",
        "current_event",
        "current_id",
        "current_key",
        "current_part",
        "items",
    )

    def __init__(self, sink: Sink) -> None:
        self.items: list[OutputItem] = []
        self.current_event: str | None = None
        self.current_id: str = ""
        self.current_part: ContentPart | None = None
        self.current_key: int = 0
        self._sink = sink
        self._by_id: dict[str, OutputItem] | None = None  # the last one with that id, once there are two items
        self._lookups: _Lookups | None = None
        self._key_count = 0

    def new_key(self) -> int:
        """Return an unused key."""
        self._key_count += 1
        return self._key_count - 1

    def clear_current(self) -> None:
        """Clear the current part or call, which may be outdated; the next delta finds it again."""
        part = self.current_part
        if part is not None:
            part.join_parts()
            self.current_part = None
        self.current_event = None

    def set_current(self, event: str, item_id: str, part: ContentPart | None, key: int) -> None:
        """Set the part, or else the call, that receives the deltas of this type and item."""
        self.clear_current()
        self.current_event, self.current_id = intern(event), item_id
        self.current_part, self.current_key = part, key

    def add(self, type: str, raw_id: Any, raw_call_id: Any, index: Any) -> OutputItem:
        """Add an item that starts, and return it."""
        item_id, size, key = as_text(raw_id), BLOCK_SIZE, self._key_count
        call_id = None if raw_call_id is None else as_text(raw_call_id)
        self._key_count = key + 1
        item = OutputItem(key, intern(type), item_id, call_id, as_position(index))
        by_id = self._by_id
        if by_id is None and self.items:
            first = self.items[0]
            by_id = self._by_id = {} if first.id is None else {first.id: first}
        if item_id is not None:
            size += len(item_id)
            if by_id is not None:
                if item_id in by_id:
                    self._find_lookups()  # for ids that are shared
                by_id[item_id] = item
        if call_id is not None:
            size += PART_SIZE + len(call_id)
        self._sink.keep(size)
        if self._lookups is not None:
            self._lookups.add(item)
        self.items.append(item)
        return item

    def _find_lookups(self) -> _Lookups:
        if self._lookups is None:
            self._lookups = _Lookups(self.items)
        return self._lookups

    def set_call_id(self, item: OutputItem, call_id: str | None) -> None:
        """Set the ``call_id`` of an item that started without one."""
        if call_id is not None:
            self._sink.keep(PART_SIZE + len(call_id))
            lookups = self._find_lookups()  # made before, because it has the items in the order of their ids
            item.call_id = call_id
            lookups.add_call_id(item)

    def close(self, item: OutputItem) -> None:
        """Mark an item as done: a snapshot of the complete item came."""
        item.is_done = True
        if self._lookups is not None:
            self._lookups.close(item)

    def add_position(self, item: OutputItem, index: Any) -> None:
        """Add a further position of an item, unless another item has it."""
        position, by_index = as_position(index), self._find_lookups().by_index
        if position is not None and position not in by_index:
            self._sink.keep(PART_SIZE)
            by_index[position] = item

    def find_same(self, raw: Json) -> OutputItem | None:
        """Return the last item with the ids and the type of another one; None if there is none."""
        item = self._find_id(as_text(raw.get("id")) or "")
        if item is None or item.type != item_type(raw):
            return None
        call_id = item.call_id
        if call_id is None or raw.get("call_id") == call_id:
            return item
        return item if as_text(raw.get("call_id")) in (None, call_id) else None

    def _find_id(self, item_id: str) -> OutputItem | None:
        """Return the last item with an id; None if there is none."""
        by_id = self._by_id
        if by_id is not None:
            return by_id.get(item_id)
        items = self.items
        return items[0] if items and items[0].id == item_id else None

    # ------------------------------------------------------------ the item of an event

    def find_by_id(self, item_id: Any) -> OutputItem | None:
        """Return the item that an event names by the item's id, or by the ``call_id`` in its place."""
        text = as_text(item_id)
        if text is None:
            return None
        item = self._find_id(text)
        if item is None:
            items = self._find_lookups().by_call_id.get(text)
            item = items[-1] if items else None
        return item

    def find(self, types: Collection[str], item_id: Any, index: Any) -> OutputItem | None:
        """Return the item of one of these types that an event belongs to, or None."""
        if item_id is not None and (item := self.find_by_id(item_id)) is not None and item.type in types:
            return item
        position = as_position(index)
        if position is not None:
            item = self._find_lookups().by_index.get(position)
            return item if item is not None and item.type in types else None
        return self._only_open(types)

    def find_ended(self, raw: Json, index: Any) -> OutputItem | None:
        """Return the item that an ``output_item.done`` belongs to, or None if its start never came."""
        item = self.find_same(raw)
        if item is not None:
            return item
        kind, call_id, lookups = item_type(raw), as_text(raw.get("call_id")), self._find_lookups()
        position = as_position(index)
        at_index = lookups.by_index.get(position) if position is not None else None
        open_calls = lookups.open_calls.get((kind, call_id or ""))
        if open_calls:
            return at_index if at_index is not None and at_index.key in open_calls else next(iter(open_calls.values()))
        item = at_index if position is not None else self._only_open((kind,))
        return item if item is not None and not item.is_done and _is_compatible(item, kind, call_id) else None

    def _only_open(self, types: Collection[str]) -> OutputItem | None:
        lookups = self._find_lookups()
        candidates = [items for kind in types if (items := lookups.open.get(kind))]
        return next(iter(candidates[0].values())) if len(candidates) == 1 and len(candidates[0]) == 1 else None

    # ------------------------------------------------------------ the final output

    def match_output(self, output: Sequence[Json]) -> Sequence[OutputItem | None]:
        """Return, for each item of the final output, the streamed item that it is the snapshot of.

        None means that the item was never streamed. Ids are matched first, for all items. The others are matched by
        their position, or else by their order among items of their type: Copilot's final output has ids that the
        stream never had.
        """
        if self._lookups is None:  # no two items share an id
            same = {item.key: item for raw in output if (item := self.find_same(raw)) is not None}
            if len(same) == len(output):
                return list(same.values())
        lookups = self._find_lookups()
        used: set[int] = set()
        matches: list[OutputItem | None] = []
        remaining: dict[tuple[str | None, str, str | None], Iterator[OutputItem]] = {}
        for position, raw in enumerate(output):
            item = _match_by_id(lookups, raw, position, used, remaining)
            matches.append(item)
            if item is not None:
                used.add(item.key)
        by_type: dict[str, Iterator[OutputItem]] = {}
        for position, raw in enumerate(output):
            if matches[position] is None:
                kind, call_id = item_type(raw), as_text(raw.get("call_id"))
                item = lookups.by_index.get(position)
                if item is None or item.key in used or not _is_compatible(item, kind, call_id):
                    fitting = (each for each in by_type.setdefault(kind, iter(self.items)) if each.key not in used)
                    item = next((each for each in fitting if _is_compatible(each, kind, call_id)), None)
                matches[position] = item
                if item is not None:
                    used.add(item.key)
        return matches


def _match_by_id(
    lookups: _Lookups,
    raw: Json,
    position: int,
    used: set[int],
    remaining: dict[tuple[str | None, str, str | None], Iterator[OutputItem]],
) -> OutputItem | None:
    """Return the unused item with the id of another one, or else with its ``call_id``.

    ``remaining`` has the items after the last match of an id, a type and a ``call_id``: those before it are used or do
    not fit, so that a list of items with one id is searched once.
    """
    kind, call_id, raw_id = item_type(raw), as_text(raw.get("call_id")), as_text(raw.get("id")) or ""
    same = lookups.by_id.get(raw_id, ())
    item = lookups.by_index.get(position)
    if item is not None and item.key not in used:
        if len(same) > 1 and item.id == raw_id and _is_compatible(item, kind, call_id):
            return item
    candidates = remaining.setdefault((raw_id, kind, call_id), iter(same))
    found = next((each for each in candidates if each.key not in used and _is_compatible(each, kind, call_id)), None)
    if found is not None or call_id is None:
        return found
    if item is not None and item.key not in used and (item.type, item.call_id) == (kind, call_id):
        return item
    candidates = remaining.setdefault((None, kind, call_id), iter(lookups.by_call_id.get(call_id, ())))
    return next((each for each in candidates if each.type == kind and each.key not in used), None)


def _is_compatible(item: OutputItem, kind: str, call_id: str | None) -> bool:
    """Return True if an item has this type and no other ``call_id``."""
    return item.type == kind and (call_id is None or item.call_id is None or item.call_id == call_id)
