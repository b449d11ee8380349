"""The text of items: messages, refusals, reasoning, and the sources that a message cites.

A text comes in pieces and then whole, up to four times. Each piece is handed on when it comes; a snapshot adds what no
piece brought (some servers send no pieces at all). Text that was shown cannot be taken back, so a snapshot that is no
continuation of it is only warned of.

It knows neither calls nor frames.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.decoding import as_text
from streamkit.providers.openai_responses.output_items import ContentPart, OutputItem, OutputItemIndex
from streamkit.providers.openai_responses.schema import Json, PartKind, ResponseStreamEvent
from streamkit.providers.provider import Sink

__all__ = ["TextReader"]

_ITEM_OF: dict[PartKind, str] = {
    "text": "message",
    "refusal": "message",
    "summary": "reasoning",
    "reasoning": "reasoning",
}
_KIND_OF: dict[str, PartKind] = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "reasoning",
}
_FIELD_OF: dict[PartKind, str] = {"text": "text", "refusal": "refusal", "summary": "text", "reasoning": "text"}


class TextReader:
    """Tells a sink the texts of items.

    Attributes:
        at_hand: the part that the deltas of an item fill now, by kind and the item's id, for the parser's short path.
    """

    def __init__(self, sink: Sink, table: OutputItemIndex) -> None:
        self.at_hand: dict[PartKind, dict[str, ContentPart]] = {kind: {} for kind in _ITEM_OF}
        self._sink = sink
        self._choice = sink.choice(0)
        self._table = table

    # ------------------------------------------------------------ whole items

    def start(self, item: OutputItem, raw: Json) -> None:
        """A message or reasoning begins; what stands in it already counts where nothing follows."""
        if item.type == "message":
            item.label = _label(raw)
            self._open_parts(item, "text", raw.get("content"))
        else:
            # Its block begins here, so that it stands before the call that it led to whatever comes when.
            self._choice.reasoning("", "summary", item.key)
            self._open_parts(item, "summary", raw.get("summary"))
            self._open_parts(item, "reasoning", raw.get("content"))

    def settle(self, item: OutputItem, raw: Json, *, first: bool) -> None:
        """The snapshot of a message or of reasoning; *first*: none has come before."""
        if item.type == "message":
            if first:
                self._relabel(item, _label(raw))
            self._settle_parts(item, "text", raw.get("content"))
        elif first:
            # Reasoning of a later snapshot is encrypted anew, and "the completed reasoning item from the
            # response.output_item.done event" is the one to be sent back (the SDK's ResponseReasoningItemParam).
            self._settle_parts(item, "summary", raw.get("summary"))
            self._settle_parts(item, "reasoning", raw.get("content"))
            self._choice.add_metadata({"opaque": raw}, item.key)

    def leave(self, item: OutputItem) -> None:
        """No snapshot of the item came, and nothing will."""
        for part in item.parts.values():
            if part.opening and not part.streamed:
                part.add(part.opening)
                self._emit_text(part, part.opening)

    def cool(self) -> None:
        """What the short path knows may be wrong from here on; the next delta finds its way anew."""
        for parts in self.at_hand.values():
            parts.clear()

    # ------------------------------------------------------------ parts

    def piece(self, kind: PartKind, event: ResponseStreamEvent, text: str) -> None:
        """A piece of a part that is not the one at hand."""
        item = self._item_of(kind, event.item_id, event.output_index)
        index = event.summary_index if kind == "summary" else event.content_index
        part = self._part(item, kind, index)
        part.add(text)
        self._emit_text(part, text)
        if event.item_id.__class__ is str and event.item_id == item.id:
            part.sent = index
            self.at_hand[kind][event.item_id] = part

    def snapshot(self, kind: PartKind, raw: Json, text: Any) -> None:
        """The whole text of a part."""
        item = self._item_of(kind, raw.get("item_id"), raw.get("output_index"))
        self._finish(self._part(item, kind, _index(kind, raw)), text)

    def begin_part(self, raw: Json) -> None:
        """``response.content_part.added`` and its like of summaries."""
        part = self._part_of(raw)
        if part is not None:
            self._open_part(part, raw["part"])

    def end_part(self, raw: Json) -> None:
        """``response.content_part.done`` and its like of summaries."""
        part = self._part_of(raw)
        if part is not None:
            self._settle_part(part, raw["part"])
            return
        item = self._table.find(("message", "reasoning"), raw.get("item_id"), raw.get("output_index"))
        index = raw.get("content_index")
        if item is not None and index.__class__ is int:
            item.told.add(index)
        self._sink.unknown(raw)

    def _part_of(self, raw: Json) -> ContentPart | None:
        """The part that an event brings whole; None where it is of a kind that there is no word for."""
        kind = _kind(raw.get("part"), "text")
        if kind is None:
            return None
        if kind == "text" and self._table.named(("reasoning",), raw.get("item_id")) is not None:
            kind = "reasoning"
        return self._part(self._item_of(kind, raw.get("item_id"), raw.get("output_index")), kind, _index(kind, raw))

    def cite(self, raw: Json) -> None:
        """``response.output_text.annotation.added``."""
        item = self._item_of("text", raw.get("item_id"), raw.get("output_index"))
        self._cite(self._part(item, "text", raw.get("content_index")), [raw.get("annotation")])

    def _item_of(self, kind: PartKind, item_id: Any, index: Any) -> OutputItem:
        item = self._table.find((_ITEM_OF[kind],), item_id, index)
        if item is None:  # it was never announced
            item = self._table.add(_ITEM_OF[kind], item_id, None, index)
            self.start(item, {"id": item_id})
        return item

    def _part(self, item: OutputItem, kind: PartKind, index: Any) -> ContentPart:
        if index.__class__ is not int:
            index = next((part.index for part in reversed(item.parts.values()) if part.kind == kind), 0)
        part = item.parts.get((kind, index))
        if part is None:
            key = self._table.new_key() if item.parts else item.key
            part = item.parts[kind, index] = ContentPart(item, kind, index, key)
        return part

    def _emit_text(self, part: ContentPart, text: str) -> None:
        """Hand on a piece, and with a part's first piece what its block carries."""
        if part.kind == "text":
            self._choice.text(text, part.key)
            if not part.said and part.item.label:
                self._choice.add_metadata(part.item.label, part.key)
        elif part.kind == "refusal":
            self._choice.refusal(text)
            if not part.said and part.item.label:
                self._choice.add_metadata(part.item.label)
        else:
            summary = part.kind == "summary"
            self._choice.reasoning(text, "summary" if summary else "text", part.key)
            if not part.said and part.key != part.item.key:
                # Only an item's first block carries the item; the others say whose continuation they are.
                self._choice.add_metadata({"summary_index" if summary else "content_index": part.index}, part.key)
        part.said = True

    def _finish(self, part: ContentPart, text: Any) -> None:
        """The whole text of a part: what no delta brought is handed on."""
        streamed = "".join(part.streamed)
        part.streamed[:] = [streamed] if streamed else []
        part.opening = ""
        self.cool()
        if not isinstance(text, str) or text == streamed:
            return
        if text.startswith(streamed):
            part.add(text[len(streamed) :])
            self._emit_text(part, text[len(streamed) :])
        elif text and not part.warned:
            part.warned = True
            self._sink.warn("text_restated", "the final text of a part differs from what had been streamed of it")

    def _settle_part(self, part: ContentPart, entry: Json) -> None:
        self._finish(part, entry.get(_FIELD_OF[part.kind]))
        citations = entry.get("annotations")
        if part.kind == "text" and isinstance(citations, list):
            self._cite(part, citations[part.cited :])

    def _cite(self, part: ContentPart, citations: list[Any]) -> None:
        if citations and not part.said:
            self._choice.text("", part.key)  # a citation may come before the first text
        for citation in citations:
            part.cited += 1
            self._choice.citation(citation)

    def _open_parts(self, item: OutputItem, default: PartKind, entries: Any) -> None:
        for index, entry in enumerate(_entries(entries)):
            kind = _kind(entry, default)
            if kind is not None:
                self._open_part(self._part(item, kind, index), entry)

    def _open_part(self, part: ContentPart, entry: Json) -> None:
        text = entry.get(_FIELD_OF[part.kind])
        if isinstance(text, str):
            part.opening = text

    def _settle_parts(self, item: OutputItem, default: PartKind, entries: Any) -> None:
        """The content of an item, as a snapshot has it.

        A part is found by its index; where the stream counted otherwise, by its order among those of its kind that
        stand where the snapshot has something else.
        """
        found = _entries(entries)
        kinds = [_kind(entry, default) for entry in found]
        strays = [p for p in item.parts.values() if not (0 <= p.index < len(kinds) and kinds[p.index] == p.kind)]
        for index, (kind, entry) in enumerate(zip(kinds, found, strict=True)):
            if kind is None:
                if index not in item.told:
                    item.told.add(index)
                    self._sink.unknown(entry)
                continue
            part = item.parts.get((kind, index)) or next((p for p in strays if p.kind == kind), None)
            if part in strays:
                strays.remove(part)
            self._settle_part(part or self._part(item, kind, index), entry)

    def _relabel(self, item: OutputItem, label: Json) -> None:
        if label and label != item.label:
            item.label = {**item.label, **label}
            for part in item.parts.values():
                if part.kind == "text" and part.said:
                    self._choice.add_metadata(item.label, part.key)


def _index(kind: PartKind, raw: Json) -> Any:
    return raw.get("summary_index" if kind == "summary" else "content_index")


def _kind(entry: Any, default: PartKind) -> PartKind | None:
    """What a part holds; None where there is no word for it. *default* is what its list is meant to hold."""
    if not isinstance(entry, dict):
        return None
    kind = _KIND_OF.get(as_text(entry.get("type")) or "") if entry.get("type") is not None else default
    return default if kind == "text" else kind


def _entries(entries: Any) -> list[Any]:
    """The content of an item as a list of parts; a server may send plain text."""
    if isinstance(entries, str):
        return [{"text": entries}]
    return entries if isinstance(entries, list) else []


def _label(raw: Json) -> Json:
    """What the text blocks of a message carry: its id and phase are to be sent back with it."""
    label = {"item_id": as_text(raw.get("id")), "phase": raw.get("phase")}
    return {name: value for name, value in label.items() if value is not None}
