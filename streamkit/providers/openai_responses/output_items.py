"""The items of one response, and which of them an event or a snapshot speaks of.

OpenAI gives every item an id and a place (``output_index``), and names both in every event. Its imitators do not:
llama.cpp sends neither and puts the ``call_id`` where the item's id should be (can1357/oh-my-pi#2016), GitHub Copilot
gives an item another id in every event and keeps the place, and two items of one response may share a ``call_id``: they
are two calls, told apart by order. So an item is looked for by its id, by its ``call_id``, by its place, in that
order, and only among items of its own type; where an event names nothing, the only item still open is meant.

What the sink gets as key is a number of our own, so that it need not know any of this.
It knows neither the sink nor what items say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from streamkit.providers.decoding import as_text
from streamkit.providers.openai_responses.schema import Json, PartKind

__all__ = ["ContentPart", "OutputItem", "OutputItemIndex", "type_of"]


class ContentPart:
    """A stretch of an item's text.

    Attributes:
        item: whose it is.
        kind: what it holds.
        index: its place in the item's content (or summary), as far as the wire says it.
        sent: the index as the last delta gave it, for the parser's short path.
        key: what the sink knows it by.
        streamed: the pieces that were handed on. They are the sink's own strings and are remembered because the final
            snapshot may say more than the deltas did; joined once, when it comes.
        add: ``streamed.append``.
        opening: text that stood at its beginning; it counts only where neither a delta nor a snapshot follows.
        said: the sink was told of it.
        warned: a snapshot differed, and that was said.
        cited: how many of its annotations were handed on.
    """

    __slots__ = ("add", "cited", "index", "item", "key", "kind", "opening", "said", "sent", "streamed", "warned")

    def __init__(self, item: OutputItem, kind: PartKind, index: int, key: int) -> None:
        self.item = item
        self.kind = kind
        self.index = index
        self.sent: Any = index
        self.key = key
        self.streamed: list[str] = []
        self.add: Callable[[str], None] = self.streamed.append
        self.opening = ""
        self.said = False
        self.warned = False
        self.cited = 0


class OutputItem:
    """An item that has begun.

    Attributes:
        key: what the sink knows it by.
        type: the wire's word for what it is.
        id: its id, as the wire first gave it.
        call_id: of a call, the id that its result must name.
        index: its place in the output, where the wire says it.
        parts: its stretches of text, by kind and index.
        label: what its text blocks carry (``item_id``, ``phase``).
        raw: the item as it began, of a kind that there is no word for.
        name: of a call, its tool's name; of the provider's own tool, that tool's.
        server_id: by what the provider's own call is known to the sink.
        opening: of a call, the arguments that stood at its beginning.
        streamed: of a call, that arguments came since; of a provider's own tool, that they were told.
        done: a snapshot of the whole item came.
        told: what of its content was handed on as unknown.
    """

    __slots__ = (
        "call_id",
        "done",
        "id",
        "index",
        "key",
        "label",
        "name",
        "opening",
        "parts",
        "raw",
        "server_id",
        "streamed",
        "told",
        "type",
    )

    def __init__(self, key: int, type: str, id: str | None, call_id: str | None, index: int | None) -> None:
        self.key = key
        self.type = type
        self.id = id
        self.call_id = call_id
        self.index = index
        self.parts: dict[tuple[PartKind, int], ContentPart] = {}
        self.label: Json = {}
        self.raw: Json | None = None
        self.name: str | None = None
        self.server_id: str | None = None
        self.opening = ""
        self.streamed = False
        self.done = False
        self.told: set[int] = set()


class OutputItemIndex:
    """The items, in the order in which they began, and by what they are found."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_call: dict[str, list[OutputItem]] = {}
        self._by_index: dict[int, OutputItem] = {}
        self._open: dict[str, dict[int, OutputItem]] = {}  # by type, those of which no snapshot came
        self._open_calls: dict[tuple[str, str], dict[int, OutputItem]] = {}  # of those, the ones with a call_id
        self._keys = 0

    def new_key(self) -> int:
        """A key that nothing has."""
        self._keys += 1
        return self._keys - 1

    def add(self, type: str, id: Any, call_id: Any, index: Any) -> OutputItem:
        """An item begins."""
        place = index if index.__class__ is int else None
        item = OutputItem(self.new_key(), type, as_text(id), as_text(call_id), place)
        self.items.append(item)
        if item.id is not None:
            self._by_id[item.id] = item
        self.learn_call_id(item, item.call_id)
        if place is not None:
            self._by_index[place] = item
        self._open.setdefault(type, {})[item.key] = item
        return item

    def learn_call_id(self, item: OutputItem, call_id: str | None) -> None:
        """The ``call_id`` of an item, which may come late."""
        if call_id is not None:
            item.call_id = call_id
            self._by_call.setdefault(call_id, []).append(item)
            if not item.done:
                self._open_calls.setdefault((item.type, call_id), {})[item.key] = item

    def close(self, item: OutputItem) -> None:
        """A snapshot of the whole item came."""
        item.done = True
        self._open.get(item.type, {}).pop(item.key, None)
        if item.call_id is not None:
            self._open_calls.get((item.type, item.call_id), {}).pop(item.key, None)

    def repeated(self, raw: Json, index: Any) -> bool:
        """Whether an item that begins is one that has begun: of the same ids, at the same place."""
        known = self._by_id.get(as_text(raw.get("id")) or "")
        if known is None or index is None:
            return False
        began = (known.type, known.call_id, known.index)
        return began == (type_of(raw), as_text(raw.get("call_id")), index)

    # ------------------------------------------------------------ which one

    def named(self, types: Collection[str], item_id: Any) -> OutputItem | None:
        """The item that an event names by the item's id, or by the ``call_id`` in its stead."""
        label = as_text(item_id)
        if label is None:
            return None
        item = self._by_id.get(label)
        if item is None and label in self._by_call:
            item = self._by_call[label][-1]
        return item if item is not None and item.type in types else None

    def find(self, types: Collection[str], item_id: Any, index: Any) -> OutputItem | None:
        """The item of one of these types that an event speaks of."""
        item = self.named(types, item_id)
        if item is not None:
            return item
        if index.__class__ is int:
            item = self._by_index.get(index)
            return item if item is not None and item.type in types else None
        return self._only_open(types)

    def ended(self, raw: Json, index: Any) -> OutputItem | None:
        """The item of which this is the end; None where its beginning never came."""
        kind, call_id = type_of(raw), as_text(raw.get("call_id"))
        item = self._by_id.get(as_text(raw.get("id")) or "")
        if item is not None and _fits(item, kind, call_id):
            return item
        placed = self._by_index.get(index) if index.__class__ is int else None
        shared = self._open_calls.get((kind, call_id or ""))
        if shared:
            return placed if placed is not None and placed.key in shared else next(iter(shared.values()))
        item = placed if index.__class__ is int else self._only_open((kind,))
        return item if item is not None and not item.done and _fits(item, kind, call_id) else None

    def _only_open(self, types: Collection[str]) -> OutputItem | None:
        found = [items for kind in types if (items := self._open.get(kind))]
        return next(iter(found[0].values())) if len(found) == 1 and len(found[0]) == 1 else None

    def concluded(self, output: Sequence[Json]) -> list[OutputItem | None]:
        """For each item of a response's final output the one that it is the snapshot of; None: it was never streamed.

        Ids first, for all of them; then what has none that is known, by its place, or else by its order among items of
        its type: Copilot's final output has ids that the stream never had.
        """
        claimed: set[int] = set()
        found: list[OutputItem | None] = []
        by_call: dict[tuple[str, str], Iterator[OutputItem]] = {}
        for place, raw in enumerate(output):
            item = self._identified(raw, place, claimed, by_call)
            found.append(item)
            if item is not None:
                claimed.add(item.key)
        by_type: dict[str, Iterator[OutputItem]] = {}
        for place, raw in enumerate(output):
            if found[place] is None:
                item = found[place] = self._placed(raw, place, claimed, by_type)
                if item is not None:
                    claimed.add(item.key)
        return found

    def _identified(
        self, raw: Json, place: int, claimed: set[int], by_call: dict[tuple[str, str], Iterator[OutputItem]]
    ) -> OutputItem | None:
        kind, call_id = type_of(raw), as_text(raw.get("call_id"))
        item = self._by_id.get(as_text(raw.get("id")) or "")
        if item is not None and item.key not in claimed and _fits(item, kind, call_id):
            return item
        if call_id is None:
            return None
        item = self._by_index.get(place)
        if item is not None and item.key not in claimed and (item.type, item.call_id) == (kind, call_id):
            return item
        rest = by_call.setdefault((kind, call_id), iter(self._by_call.get(call_id, ())))
        return next((item for item in rest if item.type == kind and item.key not in claimed), None)

    def _placed(
        self, raw: Json, place: int, claimed: set[int], by_type: dict[str, Iterator[OutputItem]]
    ) -> OutputItem | None:
        kind, call_id = type_of(raw), as_text(raw.get("call_id"))
        item = self._by_index.get(place)
        if item is not None and item.key not in claimed and _fits(item, kind, call_id):
            return item
        rest = by_type.setdefault(kind, iter(self.items))
        return next((item for item in rest if item.key not in claimed and _fits(item, kind, call_id)), None)


def _fits(item: OutputItem, kind: str, call_id: str | None) -> bool:
    """Of the same type, and not two calls of different ids."""
    return item.type == kind and (call_id is None or item.call_id is None or item.call_id == call_id)


def type_of(raw: Json) -> str:
    """The type of an item; a message may leave it out."""
    return as_text(raw.get("type")) or ("message" if isinstance(raw.get("role"), str) else "")
