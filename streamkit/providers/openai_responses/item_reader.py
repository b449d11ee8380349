"""Reader of the items of a response: text, reasoning, calls, and the calls of server tools.

Everything is sent at least twice (deltas, ``*.done``, ``output_item.done``, the final output), and any of it may be
missing: LM Studio sends arguments only in ``*.done``, others complete items only at the end (earendil-works/pi#9897),
the ChatGPT backend an empty final output. So each delta is passed on when it first comes, and a snapshot adds what no
delta contained. The snapshot of a call's arguments is authoritative and replaces what was streamed. Text that was
emitted cannot be taken back, so a snapshot of text that is no continuation only causes a warning.

This module must not depend on frames, on the response around the items, on canonical ids, history or I/O.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.openai_responses.output_items import OutputItem, OutputItemIndex, item_type
from streamkit.providers.openai_responses.schema import (
    CALL_ARGUMENT_FIELDS,
    CLIENT_ITEMS,
    SERVER_RESULT_ITEMS,
    SERVER_TOOL_ITEMS,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.openai_responses.server_tools import ServerToolReader, runs_on_server
from streamkit.providers.openai_responses.text_reader import TextReader
from streamkit.providers.sink import Sink

__all__ = ["ItemReader"]

# parsed_arguments is added by the official SDK's accumulating stream.
_KNOWN_CALL_FIELDS = frozenset({"type", "id", "call_id", "name", "arguments", "input", "parsed_arguments"})
_TEXT_ITEMS = ("message", "reasoning")
_UNFINISHED_STATUSES = ("in_progress", "incomplete")


class ItemReader:
    """A reader that reports items to a sink.

    Attributes:
        texts: the reader of texts.
        current_calls: the call that receives the deltas of an item, by the item's id, for the parser's fast path.
    """

    def __init__(self, sink: Sink) -> None:
        self.current_calls: dict[str, OutputItem] = {}
        self._sink = sink
        self._choice = sink.choice(0)
        self._items = OutputItemIndex()
        self.texts = TextReader(sink, self._items)
        self._server_tools = ServerToolReader(self._choice)

    # ------------------------------------------------------------ items

    def start_item(self, raw: Json, index: Any) -> None:
        """Read ``response.output_item.added``."""
        if self._items.is_repeated_start(raw, index):
            self._sink.warn("item_repeated", f"item {raw.get('id')!r} started twice; the second start was ignored")
            return
        self._start(raw, index)

    def end_item(self, raw: Json, index: Any) -> None:
        """Read ``response.output_item.done``."""
        item = self._items.find_ended(raw, index) or self._start(raw, index)
        self._read_snapshot(item, raw, is_ended=raw.get("status") not in _UNFINISHED_STATUSES)

    def read_final_output(self, output: Any, *, is_completed: bool) -> None:
        """Read the final output of a response, then finalize the items that never ended.

        Args:
            output: the field ``output``; None if the stream has none.
            is_completed: the response is complete, so an item without a status is.
        """
        items = [raw for raw in output if isinstance(raw, dict)] if isinstance(output, list) else []
        for raw, match in zip(items, self._items.match_output(items), strict=True):
            status = raw.get("status")
            is_ended = status == "completed" or (is_completed and status is None)
            item = match or self._start(raw, None)
            self._read_snapshot(item, raw, is_ended=is_ended)
        for item in self._items.items:
            if not item.is_done:
                self._finalize_unfinished(item)

    def _start(self, raw: Json, index: Any) -> OutputItem:
        self._clear_fast_path()
        kind = item_type(raw)
        item = self._items.add(kind, raw.get("id"), raw.get("call_id"), index)
        if kind in CALL_ARGUMENT_FIELDS:
            item.initial_arguments = self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[kind]))
            self._start_call(item, as_text(raw.get("name")), _call_metadata(raw))
        elif kind in _TEXT_ITEMS:
            self.texts.start(item, raw)
        elif runs_on_server(raw):
            self._server_tools.start(item, raw)
        else:
            item.raw = raw
        return item

    def _read_snapshot(self, item: OutputItem, raw: Json, *, is_ended: bool) -> None:
        """Read a snapshot of a complete item; ``is_ended``: nothing of it follows."""
        self._clear_fast_path()
        is_first = not item.is_done
        self._items.close(item)
        if item.type in CALL_ARGUMENT_FIELDS:
            if is_first:
                self._add_missing_call_fields(item, raw)
            text = self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[item.type]))
            self._replace_arguments(item, text or item.initial_arguments)
            if is_ended:
                self._choice.end_block(item.key)
        elif item.type in _TEXT_ITEMS:
            self.texts.read_snapshot(item, raw, is_first=is_first)
        elif not is_first:
            return
        elif item.type in SERVER_RESULT_ITEMS:
            self._server_tools.emit_result(item, raw)
        elif item.type in SERVER_TOOL_ITEMS and (item.server_id is not None or runs_on_server(raw)):
            self._server_tools.complete(item, raw)
        else:
            self._choice.provider_block(raw)
            if item.type in CLIENT_ITEMS:
                self._sink.warn(
                    "client_item", f"an item of type {item.type!r} waits for an action of the client; it is only kept"
                )

    def _finalize_unfinished(self, item: OutputItem) -> None:
        """Emit the initial content of an item of which no snapshot came before the response ended."""
        self.texts.finalize_unfinished(item)
        self._replace_arguments(item, item.initial_arguments)
        if item.raw is not None:
            self._sink.unknown(item.raw)
            item.raw = None

    def _clear_fast_path(self) -> None:
        self.texts.clear_fast_path()
        self.current_calls.clear()

    # ------------------------------------------------------------ calls

    def read_call_delta(self, event: ResponseStreamEvent, text: str) -> None:
        """Read an argument delta of a call that is not in ``current_calls``."""
        item = self._items.find(CALL_ARGUMENT_FIELDS, event.item_id, event.output_index)
        if item is None:  # the accumulator assigns the delta, or warns
            key = ("item", as_text(event.item_id) or as_text(event.output_index))
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
            return
        item.has_arguments, item.initial_arguments = True, ""
        self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=item.key))
        if event.item_id.__class__ is str and self._items.find_by_id(CALL_ARGUMENT_FIELDS, event.item_id) is item:
            self.current_calls[event.item_id] = item

    def read_call_done(self, raw: Json, type: str) -> None:
        """Read ``response.function_call_arguments.done`` or ``response.custom_tool_call_input.done``."""
        item = self._items.find(CALL_ARGUMENT_FIELDS, raw.get("item_id"), raw.get("output_index"))
        text = self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[type]))
        if item is None:
            if as_text(raw.get("name")) is None:
                self._sink.unknown(raw)
                return
            start = {"type": type, "id": raw.get("item_id"), "name": raw.get("name")}
            item = self._start(start, raw.get("output_index"))
        self._replace_arguments(item, text)

    def _start_call(self, item: OutputItem, name: str | None, metadata: Json) -> None:
        item.name = name
        self._choice.tool(
            NormalizedToolChunk(
                "start",
                item.call_id,
                name,
                key=item.key,
                kind="custom" if item.type == "custom_tool_call" else "function",
                metadata=metadata or None,
            )
        )

    def _add_missing_call_fields(self, item: OutputItem, raw: Json) -> None:
        """Emit the fields of a call that its start did not have."""
        call_id = None
        if item.call_id is None:
            call_id = as_text(raw.get("call_id")) or item.id  # the only id under which its result can be sent back
            self._items.set_call_id(item, call_id)
        name = as_text(raw.get("name")) if item.name is None else None
        item.name = item.name or name
        metadata = _call_metadata(raw)
        # Separately, the id first: a new id together with a name is another call.
        if call_id is not None or metadata:
            self._choice.tool(NormalizedToolChunk("delta", call_id, key=item.key, metadata=metadata or None))
        if name is not None:
            self._choice.tool(NormalizedToolChunk("delta", name=name, key=item.key))

    def _replace_arguments(self, item: OutputItem, text: str) -> None:
        """Emit a snapshot of a call's arguments. An empty one is ignored: it never removes streamed text."""
        if text:
            item.has_arguments, item.initial_arguments = True, ""
            self._choice.replace_arguments(item.key, text)

    def _arguments_text(self, value: Any) -> str:
        """Return arguments as text. A server may send them as an object."""
        if isinstance(value, str) or value is None:
            return value or ""
        try:
            return compact_json(value)
        except (RecursionError, TypeError, ValueError):
            self._sink.fail(StreamError("limit_exceeded", "a call's arguments are nested too deeply"))
            return ""

    # ------------------------------------------------------------ server tools

    def read_server_arguments(self, raw: Json, field: str) -> None:
        """Read the arguments of a server tool, which come before it runs."""
        item = self._items.find(SERVER_TOOL_ITEMS, raw.get("item_id"), raw.get("output_index"))
        if item is not None and item.server_id is not None:
            self._server_tools.emit_arguments(item, raw.get(field))

    def read_partial_image(self, raw: Json) -> None:
        """Read an unfinished image. It is emitted, but not kept."""
        item = self._items.find(("image_generation_call",), raw.get("item_id"), raw.get("output_index"))
        self._server_tools.emit_partial_image(item, raw)


def _call_metadata(raw: Json) -> Json:
    """Return the further fields of a call's item: its own id, ``namespace``, ``status``, ``caller``."""
    metadata = {name: value for name, value in raw.items() if name not in _KNOWN_CALL_FIELDS and value is not None}
    item_id = as_text(raw.get("id"))
    return metadata if item_id is None else {**metadata, "item_id": item_id}
