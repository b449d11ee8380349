"""Reader of the text of items: messages, refusals, reasoning, and the sources that a message cites.

A text comes in deltas and then complete, up to four times. Each delta is passed on when it comes; a snapshot adds what
no delta contained (some servers send no deltas at all). Text that was emitted cannot be taken back, so a snapshot that
is no continuation of it only causes a warning.

This module must not depend on calls or frames.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.contract.sink import ChoiceSink, Sink
from streamkit.providers.decoding.decoding import BLOCK_SIZE, PART_SIZE, as_text
from streamkit.providers.openai_responses.item_index import OutputItemIndex
from streamkit.providers.openai_responses.output_items import ContentPart, OutputItem, as_position
from streamkit.providers.openai_responses.schema import TEXT_DONE_EVENTS, Json, PartKind, ResponseStreamEvent

__all__ = ["TextReader"]

_ITEM_TYPES: dict[PartKind, str] = {
    "text": "message",
    "refusal": "message",
    "summary": "reasoning",
    "reasoning": "reasoning",
}
_PART_KINDS: dict[str, PartKind] = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "reasoning",
}
_INDEX_FIELDS: dict[PartKind, str] = {
    "text": "content_index",
    "refusal": "content_index",
    "summary": "summary_index",
    "reasoning": "content_index",
}
_TEXT_FIELDS: dict[PartKind, str] = {"text": "text", "refusal": "refusal", "summary": "text", "reasoning": "text"}
#: The lists of texts that an item has: the kind of their parts, and the field.
_LISTS: dict[str, tuple[tuple[PartKind, str], ...]] = {
    "message": (("text", "content"),),
    "reasoning": (("summary", "summary"), ("reasoning", "content")),
}


class TextReader:
    """What a parser reads of the texts of items. ``ResponsesParser`` sets all attributes."""

    __slots__ = ("_choice", "_index", "_sink")
    _sink: Sink
    _choice: ChoiceSink
    _index: OutputItemIndex  # the items so far

    # ------------------------------------------------------------ items

    def _start_texts(self, item: OutputItem, raw: Json) -> None:
        """Start a message or reasoning. Text in its first event counts only if none follows."""
        if item.type == "message":
            item.sent_id, item.phase, item.agent = as_text(raw.get("id")), raw.get("phase"), raw.get("agent")
        else:
            # Its block starts here, so that it precedes the call that it led to, in whatever order the rest comes.
            self._choice.reasoning("", "summary", item.key)
        for kind, field in _LISTS[item.type]:
            for index, entry in enumerate(_to_entries(raw.get(field))):
                part_kind = _part_kind(entry, kind)
                if part_kind is not None and entry:
                    self._store_initial_text(self._get_part(item, part_kind, index), entry)

    def _read_texts(self, item: OutputItem, raw: Json, *, is_first: bool) -> None:
        """Read a snapshot of a message or of reasoning; ``is_first``: there was none before."""
        if item.type == "message":
            if is_first:
                self._update_text_metadata(item, raw)
        elif not is_first:
            # Reasoning of a later snapshot is encrypted anew, and "the completed reasoning item from the
            # response.output_item.done event" is the one to be sent back (the SDK's ResponseReasoningItemParam).
            # LiteLLM's proxy has the signatures of other providers only in the item of the response's end
            # (``_encode_thinking_blocks`` in its ``litellm_completion_transformation``).
            state = raw.get("encrypted_content")
            if state and item.raw is not None:
                self._choice.add_metadata({"opaque": {**item.raw, "encrypted_content": state}}, item.key)
                item.raw = None
            return
        for kind, field in _LISTS[item.type]:
            content = raw.get(field)
            if content is not None and content != []:
                self._read_part_snapshots(item, kind, content)
        if item.type == "reasoning":
            self._choice.add_metadata({"opaque": raw}, item.key)
            if not raw.get("encrypted_content"):
                item.raw = raw
            self._choice.end_block(item.key)
        for part in item.open_parts:
            part.is_open = False
            self._choice.end_block(part.key)
        item.open_parts.clear()

    def _finalize_texts(self, item: OutputItem) -> None:
        """Emit the initial texts of an item that has no snapshot and will get none."""
        for part in item.parts:
            if part.initial_text and not part.streamed:
                part.streamed.append(part.initial_text)
                self._emit_text(part, part.initial_text)

    def _has_other_texts(self, item: OutputItem, raw: Json) -> bool:
        """Return True if an item with the id of a complete one has a text that the complete one has not."""
        default: PartKind = "text" if item.type == "message" else "summary"
        for index, entry in enumerate(_to_entries(raw.get("content" if default == "text" else "summary"))):
            kind = _part_kind(entry, default)
            part = item.find_part(kind, index) if kind is not None else None
            text = entry.get(_TEXT_FIELDS[kind]) if kind is not None else None
            if isinstance(text, str) and text and (part is None or not text.startswith(part.text)):
                return True
        return False

    def _join_parts(self) -> int:
        """Join the short parts of the current text; return their number."""
        part = self._index.current_part
        return part.join_parts() if part is not None else 0

    # ------------------------------------------------------------ parts

    def _read_text_delta(self, kind: PartKind, event: ResponseStreamEvent, text: str) -> None:
        """Read a delta of a part that is not the current one."""
        item = self._find_or_start_item(kind, event.item_id, event.output_index)
        index = event.summary_index if kind == "summary" else event.content_index
        part = self._get_part(item, kind, index)
        if item.repeated_start is not None:
            if item.repeated_start.matches(part.key, part.text, text):
                self._sink.heartbeat()
                return
            part = self._get_part(self._start_item_again(item), kind, index)
        part.streamed.append(text)
        part.join_parts()
        self._emit_text(part, text)
        if event.item_id.__class__ is str and event.item_id == item.id:
            part.last_index = index
            self._index.set_current(event.type, item.id, part, part.key)

    def _read_text_done(self, raw: Json) -> None:
        """Read an event with the complete text of a part."""
        kind, field = TEXT_DONE_EVENTS[raw["type"]]
        text = raw.get(field)
        part = self._find_part(kind, raw)
        if part.item.repeated_start is not None and isinstance(text, str) and text != part.text:
            part = self._get_part(self._start_item_again(part.item), kind, raw.get(_INDEX_FIELDS[kind]))
        self._complete_text(part, text)

    def _start_part(self, raw: Json) -> None:
        """Read ``response.content_part.added`` or ``response.reasoning_summary_part.added``."""
        part = self._part_of_event(raw)
        if part is not None:
            self._store_initial_text(part, raw["part"])

    def _end_part(self, raw: Json) -> None:
        """Read ``response.content_part.done`` or ``response.reasoning_summary_part.done``."""
        part = self._part_of_event(raw)
        if part is not None:
            self._read_part_snapshot(part, raw["part"])
            return
        item = self._index.find(("message", "reasoning"), raw.get("item_id"), raw.get("output_index"))
        index = raw.get("content_index")
        position = as_position(index)
        if item is not None and position is not None:
            item.mark_unknown(position)
            self._sink.keep(PART_SIZE)
        self._sink.unknown(raw)

    def _read_annotation(self, raw: Json) -> None:
        """Read ``response.output_text.annotation.added``."""
        item = self._find_or_start_item("text", raw.get("item_id"), raw.get("output_index"))
        self._emit_citations(self._get_part(item, "text", raw.get("content_index")), [raw.get("annotation")])

    def _part_of_event(self, raw: Json) -> ContentPart | None:
        """Return the part that an event contains, or None if it is of an unknown kind."""
        kind = _part_kind(raw.get("part"), "text")
        if kind is None:
            return None
        item = self._index.find_by_id(raw.get("item_id")) if kind == "text" else None
        if item is not None and item.type == "reasoning":
            kind = "reasoning"
        if item is None or item.type != _ITEM_TYPES[kind]:
            return self._find_part(kind, raw)
        return self._get_part(item, kind, raw.get(_INDEX_FIELDS[kind]))

    def _find_part(self, kind: PartKind, raw: Json) -> ContentPart:
        """Return the part that an event belongs to, mostly the one that received the last delta."""
        index, item_id, part = raw.get(_INDEX_FIELDS[kind]), raw.get("item_id"), self._index.current_part
        if part is not None and part.kind == kind and index.__class__ is int and index == part.last_index:
            if item_id == self._index.current_id:
                return part
        return self._get_part(self._find_or_start_item(kind, item_id, raw.get("output_index")), kind, index)

    def _find_or_start_item(self, kind: PartKind, item_id: Any, index: Any) -> OutputItem:
        item = self._index.find((_ITEM_TYPES[kind],), item_id, index)
        if item is None:  # no event started it
            item = self._index.add(_ITEM_TYPES[kind], item_id, None, index)
            self._start_texts(item, {"id": item_id})
        return item

    def _start_item_again(self, item: OutputItem) -> OutputItem:
        """Start the item of a repeated start, which is another one after all, with the text that was repeated."""
        repeated, item.repeated_start = item.repeated_start, None
        assert repeated is not None  # noqa: S101 - the caller has checked
        another = self._index.add(item.type, repeated.raw.get("id"), None, repeated.index)
        self._start_texts(another, repeated.raw)
        for part in item.parts:
            text = part.text[: repeated.sizes.get(part.key, 0)]
            if text:
                again = self._get_part(another, part.kind, part.index)
                again.streamed.append(text)
                self._emit_text(again, text)
        return another

    def _get_part(self, item: OutputItem, kind: PartKind, index: Any) -> ContentPart:
        index = as_position(index)
        if index is None:
            index = item.last_index(kind)
        part = item.find_part(kind, index)
        if part is None:
            self._sink.keep(BLOCK_SIZE)
            key = item.key if item.part is None else self._index.new_key()
            part = ContentPart(item, kind, index, key)
            item.add_part(part)
        return part

    def _store_initial_text(self, part: ContentPart, entry: Json) -> None:
        text = entry.get(_TEXT_FIELDS[part.kind])
        if isinstance(text, str) and text != part.initial_text:
            if self._sink.keep(len(text) - len(part.initial_text)):
                part.initial_text = text

    def _emit_text(self, part: ContentPart, text: str) -> None:
        """Emit text, and with the first text of a part the metadata of its block."""
        if not part.is_open:
            part.is_open = True
            part.item.open_parts.append(part)
        if part.kind == "text":
            self._choice.text(text, part.key)
            if not part.is_started and (metadata := part.item.text_metadata):
                self._choice.add_metadata(metadata, part.key)
        elif part.kind == "refusal":
            self._choice.refusal(text, part.key)
            if not part.is_started and (metadata := part.item.text_metadata):
                self._choice.add_metadata(metadata, part.key)
        else:
            is_summary = part.kind == "summary"
            self._choice.reasoning(text, "summary" if is_summary else "text", part.key)
            if not part.is_started and part.key != part.item.key:
                # Only the first block of an item carries the item; the others are marked as its continuation.
                self._choice.add_metadata({"summary_index" if is_summary else "content_index": part.index}, part.key)
        part.is_started = True

    def _complete_text(self, part: ContentPart, text: Any) -> None:
        """Emit the rest of a part's complete text that its deltas did not contain."""
        streamed = part.text
        part.initial_text = ""
        self._index.current_event = None  # a delta that follows finds its part again
        if not isinstance(text, str) or text == streamed:
            return
        if text.startswith(streamed):
            part.streamed.append(text[len(streamed) :])
            self._emit_text(part, text[len(streamed) :])
        elif text and not part.is_warned:
            part.is_warned = True
            self._sink.warn("text_restated", "the final text of a part differs from its streamed text, which is kept")

    def _read_part_snapshot(self, part: ContentPart, snapshot: Json) -> None:
        self._complete_text(part, snapshot.get(_TEXT_FIELDS[part.kind]))
        citations = snapshot.get("annotations")
        if citations and part.kind == "text" and isinstance(citations, list):
            self._emit_citations(part, citations[part.citation_count :])

    def _emit_citations(self, part: ContentPart, citations: list[Any]) -> None:
        if citations and not part.is_started:
            self._choice.text("", part.key)  # a citation may come before the first text
            if not part.is_open:
                part.is_open = True
                part.item.open_parts.append(part)
        for citation in citations:
            part.citation_count += 1
            self._choice.citation(citation, part.key)

    def _read_part_snapshots(self, item: OutputItem, default: PartKind, content: Any) -> None:
        """Read the content of an item in a snapshot.

        A part is found by its index. If the stream numbered the parts differently, it is found by its order among the
        parts of its kind whose index has another kind in the snapshot.
        """
        entries = _to_entries(content)
        misplaced: dict[PartKind, list[ContentPart]] | None = None
        for index, entry in enumerate(entries):
            kind = _part_kind(entry, default)
            if kind is None:
                if item.mark_unknown(index):
                    self._sink.unknown(entry)
                continue
            part = item.find_part(kind, index)
            if part is None and not entry:
                continue  # an empty entry would take 150 times its memory as a part
            if part is None:
                if misplaced is None:
                    misplaced = {}
                    kinds = dict(enumerate(_part_kind(each, default) for each in entries))
                    for each in reversed(item.parts):
                        if kinds.get(each.index) != each.kind:
                            misplaced.setdefault(each.kind, []).append(each)
                others = misplaced.get(kind)
                part = others.pop() if others else self._get_part(item, kind, index)
            self._read_part_snapshot(part, entry)

    def _update_text_metadata(self, item: OutputItem, raw: Json) -> None:
        """Read the id, the phase and the agent of a message's snapshot, which may be others than at its start."""
        sent_id, phase, agent = as_text(raw.get("id")) or item.sent_id, raw.get("phase"), raw.get("agent")
        phase, agent = item.phase if phase is None else phase, item.agent if agent is None else agent
        if (sent_id, phase, agent) != (item.sent_id, item.phase, item.agent):
            item.sent_id, item.phase, item.agent = sent_id, phase, agent
            for part in item.parts:
                if part.kind == "text" and part.is_started:
                    self._choice.add_metadata(item.text_metadata, part.key)


def _part_kind(entry: Any, default: PartKind) -> PartKind | None:
    """Return the kind of a part, or None if it is unknown; ``default`` is the kind of the list that contains it."""
    if not isinstance(entry, dict):
        return None
    name = entry.get("type")
    if name is None:
        return default
    kind = _PART_KINDS.get(name) if name.__class__ is str else None
    return default if kind == "text" else kind


def _to_entries(content: Any) -> list[Any]:
    """Return the content of an item as a list of parts. A server may send plain text."""
    if isinstance(content, str):
        return [{"text": content}]
    return content if isinstance(content, list) else []
