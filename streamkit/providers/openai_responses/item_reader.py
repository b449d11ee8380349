"""What the items of a response say: text, reasoning, calls, what the provider's own tools did.

Everything is said twice or more (deltas, ``*.done``, ``output_item.done``, the final output), and any of it may be
missing: LM Studio sends arguments only in ``*.done``, others whole items only at the end (earendil-works/pi#9897), the
ChatGPT backend an empty final output. So each piece is handed on when it first comes, and a snapshot adds what no delta
brought. Of a call's arguments the snapshot is authoritative and replaces what was streamed; text that was shown cannot
be taken back, so there a snapshot that is no continuation is only warned of.

It knows neither frames nor the response around the items, nor canonical ids, history or I/O.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.openai_responses.output_items import OutputItem, OutputItemIndex, type_of
from streamkit.providers.openai_responses.schema import (
    CALL_TEXT,
    CLIENT_RUN,
    SERVER_RESULTS,
    SERVER_TOOLS,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.openai_responses.server_tools import ServerToolReader, runs_on_server
from streamkit.providers.openai_responses.text_reader import TextReader
from streamkit.providers.provider import Sink

__all__ = ["ItemReader"]

# parsed_arguments is the official SDK's own addition to what its accumulating stream gives.
_WORDS_OF_A_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "input", "parsed_arguments"})
_TEXT_ITEMS = ("message", "reasoning")
_UNFINISHED = ("in_progress", "incomplete")


class ItemReader:
    """Tells a sink what items say.

    Attributes:
        texts: what texts say.
        calls: the call that the deltas of an item belong to, by the item's id, for the parser's short path.
    """

    def __init__(self, sink: Sink) -> None:
        self.calls: dict[str, OutputItem] = {}
        self._sink = sink
        self._choice = sink.choice(0)
        self._table = OutputItemIndex()
        self.texts = TextReader(sink, self._table)
        self._server = ServerToolReader(self._choice)

    # ------------------------------------------------------------ an item begins and ends

    def begin(self, raw: Json, index: Any) -> None:
        """``response.output_item.added``."""
        if self._table.repeated(raw, index):
            self._sink.warn("item_repeated", f"item {raw.get('id')!r} began twice; the second beginning was dropped")
            return
        self._start(raw, index)

    def end(self, raw: Json, index: Any) -> None:
        """``response.output_item.done``."""
        item = self._table.ended(raw, index)
        self._settle(item or self._start(raw, index), raw, sealed=raw.get("status") not in _UNFINISHED)

    def conclude(self, output: Any, *, completed: bool) -> None:
        """The final output of a response, and what still waits for an end that never came."""
        items = [raw for raw in output if isinstance(raw, dict)] if isinstance(output, list) else []
        for raw, found in zip(items, self._table.concluded(items), strict=True):
            status = raw.get("status")
            sealed = status == "completed" or (completed and status is None)
            item = found or self._start(raw, None)
            self._settle(item, raw, sealed=sealed)
        for item in self._table.items:
            if not item.done:
                self._finalize_unfinished(item)

    def _start(self, raw: Json, index: Any) -> OutputItem:
        self._clear_fast_path()
        kind = type_of(raw)
        item = self._table.add(kind, raw.get("id"), raw.get("call_id"), index)
        if kind in CALL_TEXT:
            item.opening = _written(self._sink, raw.get(CALL_TEXT[kind]))
            self._start_call(item, as_text(raw.get("name")), _extras(raw))
        elif kind in _TEXT_ITEMS:
            self.texts.start(item, raw)
        elif runs_on_server(raw):
            self._server.start(item, raw)
        else:
            item.raw = raw
        return item

    def _settle(self, item: OutputItem, raw: Json, *, sealed: bool) -> None:
        """The snapshot of a whole item."""
        self._clear_fast_path()
        first = not item.done
        self._table.close(item)
        if item.type in CALL_TEXT:
            if first:
                self._complete_call(item, raw)
            self._restate(item, _written(self._sink, raw.get(CALL_TEXT[item.type])) or item.opening)
            if sealed:
                self._choice.end_block(item.key)
        elif item.type in _TEXT_ITEMS:
            self.texts.settle(item, raw, first=first)
        elif not first:
            return
        elif item.type in SERVER_RESULTS:
            self._server.result(item, raw)
        elif item.type in SERVER_TOOLS and (item.server_id is not None or runs_on_server(raw)):
            self._server.settle(item, raw)
        else:
            self._choice.provider_block(raw)
            if item.type in CLIENT_RUN:
                self._sink.warn("client_item", f"an item of type {item.type!r} waits for the client; it is only kept")

    def _finalize_unfinished(self, item: OutputItem) -> None:
        """The response is over and no snapshot of the item came: what stood at its beginning counts."""
        self.texts.leave(item)
        self._restate(item, item.opening)
        if item.raw is not None:
            self._sink.unknown(item.raw)
            item.raw = None

    def _clear_fast_path(self) -> None:
        self.texts.cool()
        self.calls.clear()

    # ------------------------------------------------------------ calls

    def call_piece(self, event: ResponseStreamEvent, text: str) -> None:
        """A piece of a call's arguments, of another call than the one at hand."""
        item = self._table.find(CALL_TEXT, event.item_id, event.output_index)
        if item is None:  # the accumulator decides, and says so
            key = ("item", as_text(event.item_id) or as_text(event.output_index))
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
            return
        item.streamed, item.opening = True, ""
        self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=item.key))
        if event.item_id.__class__ is str and self._table.named(CALL_TEXT, event.item_id) is item:
            self.calls[event.item_id] = item

    def call_snapshot(self, raw: Json, type: str) -> None:
        """``response.function_call_arguments.done`` and its like of custom tools."""
        item = self._table.find(CALL_TEXT, raw.get("item_id"), raw.get("output_index"))
        text = _written(self._sink, raw.get(CALL_TEXT[type]))
        if item is None:
            if as_text(raw.get("name")) is None:
                self._sink.unknown(raw)
                return
            named = {"type": type, "id": raw.get("item_id"), "name": raw.get("name")}
            item = self._start(named, raw.get("output_index"))
        self._restate(item, text)

    def _start_call(self, item: OutputItem, name: str | None, extras: Json) -> None:
        item.name = name
        self._choice.tool(
            NormalizedToolChunk(
                "start",
                item.call_id,
                name,
                key=item.key,
                kind="custom" if item.type == "custom_tool_call" else "function",
                metadata=extras or None,
            )
        )

    def _complete_call(self, item: OutputItem, raw: Json) -> None:
        """What a call's beginning did not say of it."""
        call_id = None
        if item.call_id is None:
            call_id = as_text(raw.get("call_id")) or item.id  # the only name by which its result can be sent back
            self._table.learn_call_id(item, call_id)
        name = as_text(raw.get("name")) if item.name is None else None
        item.name = item.name or name
        extras = _extras(raw)
        # One at a time, the id first: a new id that comes with a name is another call.
        if call_id is not None or extras:
            self._choice.tool(NormalizedToolChunk("delta", call_id, key=item.key, metadata=extras or None))
        if name is not None:
            self._choice.tool(NormalizedToolChunk("delta", name=name, key=item.key))

    def _restate(self, item: OutputItem, text: str) -> None:
        """The wire's snapshot of a call's arguments; an empty one says nothing (it never takes back what came)."""
        if text:
            item.streamed, item.opening = True, ""
            self._choice.replace_arguments(item.key, text)

    # ------------------------------------------------------------ the provider's own tools

    def server_arguments(self, raw: Json, field: str) -> None:
        """What a tool of the provider's is given, before it runs."""
        item = self._table.find(SERVER_TOOLS, raw.get("item_id"), raw.get("output_index"))
        if item is not None and item.server_id is not None:
            self._server.arguments(item, raw.get(field))

    def partial_image(self, raw: Json) -> None:
        """A picture as far as it is drawn: shown, and not kept."""
        item = self._table.find(("image_generation_call",), raw.get("item_id"), raw.get("output_index"))
        self._server.partial_image(item, raw)


def _extras(raw: Json) -> Json:
    """What a call's item says beyond what there is a word for: its own id, ``namespace``, ``status``, ``caller``."""
    extras = {name: value for name, value in raw.items() if name not in _WORDS_OF_A_CALL and value is not None}
    item_id = as_text(raw.get("id"))
    return extras if item_id is None else {**extras, "item_id": item_id}


def _written(sink: Sink, value: Any) -> str:
    """Arguments as text; a server may send them as an object."""
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return compact_json(value)
    except (RecursionError, TypeError, ValueError):
        sink.fail(StreamError("limit_exceeded", "a call's arguments are nested too deeply"))
        return ""
