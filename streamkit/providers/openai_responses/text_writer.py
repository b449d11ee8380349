"""The base of the writer of Responses: numbered events, the items of the output, and the texts in these items.

The counterpart of ``text_reader``: messages, refusals, reasoning, and the sources that a message cites. One item with
text is open at a time, and any other item ends it. This module must not depend on the fields of other items, on the
response around the items, or on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from streamkit.events import BlockEnded, ReasoningKind
from streamkit.providers.call_text import CallText
from streamkit.providers.encoding import citation_links
from streamkit.providers.openai_responses.schema import MESSAGE_PHASES, Json
from streamkit.providers.openai_responses.written_items import OpenItem, annotation
from streamkit.providers.provider_writer import Writer
from streamkit.providers.traits import Traits
from streamkit.providers.wire_writer import WriterOptions

__all__ = ["TextWriter"]

#: Of each kind of text: the prefix of the events of its text, the prefix of those of its part, the field of the text,
#: and the other fields of the part.
_TEXT_EVENTS: Final[dict[str, tuple[str, str, str, Json]]] = {
    "output_text": ("response.output_text", "response.content_part", "text", {"annotations": [], "logprobs": []}),
    "refusal": ("response.refusal", "response.content_part", "refusal", {}),
    "reasoning_text": ("response.reasoning_text", "response.content_part", "text", {}),
    "summary_text": ("response.reasoning_summary_text", "response.reasoning_summary_part", "text", {}),
}
#: The metadata of a text that its message has.
_MESSAGE_FIELDS: Final = frozenset({"agent", "item_id", "phase"})


class TextWriter(Writer):
    """A writer that numbers the events, lists the items and writes those with text."""

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._event_count = 0
        self._open: OpenItem | None = None  # the message or the reasoning that is being written
        self._response: Json = {}  # as it began
        self._logprobs: list[Any] = []  # of the next text

    # ------------------------------------------------------------ events

    def send_event(self, type: str, fields: Json) -> None:
        """Send an event with its number."""
        self.send({"type": type, "sequence_number": self._event_count, **fields})
        self._event_count += 1

    def send_text(self, key: Hashable, make: Callable[..., Json], text: str, source: OpenItem | CallText) -> None:
        """Send a delta; its number is inserted at the end of the encoded event."""
        self.send_delta(key, make, text, source)
        number, self._event_count = self._event_count, self._event_count + 1
        if self._frames:
            self._frames[-1] = b'%b,"sequence_number":%d}\n\n' % (self._frames[-1][:-3], number)

    # ------------------------------------------------------------ items

    def new_id(self, prefix: str) -> str:
        """Return an id for the next item."""
        return f"{prefix}_{str(self._response['id']).removeprefix('resp_')}_{len(self.items)}"

    def add_item(self, item: Json, initial: Json) -> int:
        """Write the start of an item; return its place in the output.

        Args:
            item: the item, which ``end_item`` writes as it is then.
            initial: the fields that differ at its start.
        """
        index = len(self.items)
        self.items.append(item)
        self.send_event("response.output_item.added", {"output_index": index, "item": {**item, **initial}})
        return index

    def end_item(self, index: int) -> None:
        """Write the end of the item at that place in the output."""
        item = self.items[index]
        self.send_event("response.output_item.done", {"output_index": index, "item": item})

    def write_item(self, item: Json, initial: Json) -> None:
        """Write an item without deltas."""
        self.close_item()
        self.end_item(self.add_item(item, initial))

    def close_item(self) -> None:
        """Write the end of the message or reasoning that is open."""
        if self._open is not None:
            item, self._open = self._open, None
            self._close_part(item)
            self.end_item(item.index)

    # ------------------------------------------------------------ texts

    def text(self, text: str) -> None:
        """Write a delta of a message's text."""
        self._delta(self._message_part("output_text"), text)

    def refusal(self, text: str) -> None:
        """Write a delta of a message's refusal."""
        self._delta(self._message_part("refusal"), text)

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of reasoning: its text, or a summary of it."""
        item = self._reasoning_item()
        self._open_part(item, "reasoning_text" if kind == "text" else "summary_text")
        self._delta(item, text)

    def log_probabilities(self, raw: Any) -> None:
        """Keep the log probabilities for the text that follows."""
        if isinstance(raw, list):
            self._logprobs += raw

    def _message_part(self, kind: str) -> OpenItem:
        """Return the open message, with an open part of that kind."""
        own = self._own_state or {}
        item, own_id = self._open, own.get("item_id")
        if item is None or item.type != "message" or (own_id is not None and own_id != item.item["id"]):
            self.close_item()
            message: Json = {"id": own_id if isinstance(own_id, str) else self.new_id("msg"), "type": "message"}
            message |= {"status": "completed", "content": [], "role": "assistant"}
            if own.get("phase") in MESSAGE_PHASES:
                message["phase"] = own["phase"]
            if own.get("agent") is not None:
                message["agent"] = own["agent"]
            item = self._open = OpenItem("message", message)
            item.index = self.add_item(message, {"status": "in_progress", "content": []})
        self._open_part(item, kind)
        return item

    def _reasoning_item(self) -> OpenItem:
        """Return the open reasoning item; open one for another item of the same provider."""
        own = self._own_state or {}
        opaque, item = own.get("opaque"), self._open
        is_other = self._own_state is not None and not ({"summary_index", "content_index"} & own.keys())
        if item is None or item.type != "reasoning" or (is_other and item.kind is None):
            self.close_item()
            is_own = isinstance(opaque, dict) and opaque.get("type") == "reasoning"
            fields: Json = {"id": self.new_id("rs"), "type": "reasoning", "summary": []}
            item = self._open = OpenItem("reasoning", opaque if is_own and opaque is not None else fields)
            item.is_own = is_own
            item.index = len(self.items)
            self.items.append(item.item)
            start: Json = {"id": item.item.get("id"), "type": "reasoning", "summary": []}
            self.send_event("response.output_item.added", {"output_index": item.index, "item": start})
        return item

    def _open_part(self, item: OpenItem, kind: str) -> None:
        if item.kind == kind:
            return
        self._close_part(item)
        item.start_part(kind)
        _, prefix, field, fields = _TEXT_EVENTS[kind]
        self.send_event(f"{prefix}.added", {**item.position, "part": {"type": kind, **fields, field: ""}})

    def _delta(self, item: OpenItem, text: str) -> None:
        item.texts.append(text)
        if self._logprobs and item.kind == "output_text":
            logprobs, self._logprobs = self._logprobs, []
            item.logprobs += logprobs
            event = self._text_delta(text, item) | {"logprobs": logprobs}
            self.send_event(event.pop("type"), event)
            return
        self.send_text((item.index, item.part_count), self._text_delta, text, item)

    def _text_delta(self, text: str, item: OpenItem) -> Json:
        name, *_ = _TEXT_EVENTS[item.kind or ""]
        logprobs: Json = {"logprobs": []} if item.kind == "output_text" else {}
        return {"type": f"{name}.delta", **item.position, "delta": text, **logprobs}

    def _close_part(self, item: OpenItem) -> None:
        if item.kind is None:
            return
        name, prefix, field, _ = _TEXT_EVENTS[item.kind]
        logprobs: Json = {"logprobs": item.logprobs} if item.kind == "output_text" else {}
        part = item.end_part()
        self.send_event(f"{name}.done", {**item.position, field: part[field], **logprobs})
        self.send_event(f"{prefix}.done", {**item.position, "part": part})

    def end_block(self, event: BlockEnded) -> None:
        """Write the end of a part, and keep the opaque state of a reasoning for the end of its item."""
        opaque = event.metadata.get("opaque")
        is_item = isinstance(opaque, dict) and opaque.get("type") == "reasoning"
        state = opaque.get("encrypted_content") if is_item and isinstance(opaque, dict) else event.signature
        if event.kind == "reasoning" and (is_item or event.signature):
            item = self._reasoning_item()
            self._close_part(item)
            if not item.is_own:
                if state:
                    item.item["encrypted_content"] = state
                self.close_item()
        elif self._own_state is None and event.metadata.keys() - _MESSAGE_FIELDS:
            super().end_block(event)
        # Claude splits a text at citations, and the Agents SDK takes the last part of a message for the whole output.
        is_foreign_text = event.kind == "text" and self._own_state is None and "item_id" not in event.metadata
        if self._open is not None and not is_foreign_text:
            self._close_part(self._open)
            if self._open.type == "message" and event.metadata.get("phase") in MESSAGE_PHASES:
                self._open.item["phase"] = event.metadata["phase"]
            if self._open.type == "message" and self.is_same_wire and event.metadata.get("agent") is not None:
                self._open.item["agent"] = event.metadata["agent"]
            if self._open.type == "message" and (self._own_state or {}).get("item_id") is None:
                self.close_item()

    def citation(self, data: Any) -> None:
        """Write a citation as an annotation of the text."""
        is_known = self._own_state is not None or self.is_same_wire
        is_own = isinstance(data, dict) and (is_known or data.get("type") == "url_citation")
        if is_own and "url_citation" in data:  # in the form of Chat Completions
            is_own = is_known
        annotations = [data] if is_own else [annotation(*link) for link in citation_links(data)]
        if not annotations:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
            return
        item = self._message_part("output_text")
        for each in annotations:
            fields = {**item.position, "annotation_index": len(item.annotations), "annotation": each}
            item.annotations.append(each)
            self.send_event("response.output_text.annotation.added", fields)
