"""Reader of the items of a response: text, reasoning, calls, and the calls of server tools.

Everything is sent at least twice (deltas, ``*.done``, ``output_item.done``, the final output), and any of it may be
missing: LM Studio sends arguments only in ``*.done``, others complete items only at the end (earendil-works/pi#9897),
the ChatGPT backend an empty final output. So each delta is passed on when it first comes, and a snapshot adds what no
delta contained. The snapshot of a call's arguments is passed to the sink, which decides whether it replaces what was
streamed. Text that was emitted cannot be taken back, so a snapshot of text that is no continuation only causes a
warning.

This module must not depend on frames, on the response around the items, on canonical ids, history or I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.json_text import json_size
from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.decoding.decoding import as_text, compact_json, read_json, report_unknown_fields
from streamkit.providers.openai_responses.client_items import ClientItemReader, is_client_item
from streamkit.providers.openai_responses.output_items import (
    OutputItem,
    RepeatedStart,
    as_position,
    item_type,
    runs_on_server,
)
from streamkit.providers.openai_responses.schema import (
    CALL_ARGUMENT_FIELDS,
    CLIENT_ITEM_FIELDS,
    KNOWN_DELTA_FIELDS,
    SERVER_RESULT_ITEMS,
    SERVER_TOOL_ITEMS,
    Json,
    ResponseStreamEvent,
)
from streamkit.providers.openai_responses.text_reader import TextReader

__all__ = ["CALL_DONE_EVENTS", "SERVER_ARGUMENT_EVENTS", "ItemReader"]

#: The events with the complete arguments of a call, and the type of its item.
CALL_DONE_EVENTS = {
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
}
#: The events with the complete arguments of a server tool, and the field that contains them.
SERVER_ARGUMENT_EVENTS = {
    "response.mcp_call_arguments.done": "arguments",
    "response.code_interpreter_call_code.done": "code",
}
# parsed_arguments is added by the official SDK's accumulating stream.
_KNOWN_CALL_FIELDS = frozenset({"type", "id", "call_id", "name", "arguments", "input", "parsed_arguments"})
_TEXT_ITEMS = ("message", "reasoning")
_UNFINISHED_STATUSES = ("in_progress", "incomplete")


class ItemReader(TextReader):
    """What a parser reads of items. ``ResponsesParser`` sets all attributes: it costs less than two constructors."""

    __slots__ = ("_client_reader", "_server_reader")
    _server_reader: _ServerToolReader | None  # made for the first of its items, as is the next
    _client_reader: ClientItemReader | None

    @property
    def _server_tools(self) -> _ServerToolReader:
        if self._server_reader is None:
            self._server_reader = _ServerToolReader(self._choice)
        return self._server_reader

    @property
    def _client_items(self) -> ClientItemReader:
        if self._client_reader is None:
            self._client_reader = ClientItemReader(self._choice)
        return self._client_reader

    # ------------------------------------------------------------ items

    def _start_item(self, raw: Json, index: Any) -> None:
        """Read ``response.output_item.added``."""
        item = self._index.find_same(raw)
        if item is None or (as_position(index) != item.index and self._differs(item, raw)):
            self._start(raw, index)
            return
        item.is_repeated = True
        self._sink.warn("item_repeated", f"item {raw.get('id')!r} started twice; the second start was ignored")
        self._index.add_position(item, index)
        self._index.clear_current()
        if item.is_done and as_position(index) != item.index:
            self._sink.keep(json_size(raw))
            item.repeated_start = RepeatedStart(raw, index)

    def _end_item(self, raw: Json, index: Any) -> None:
        """Read ``response.output_item.done``."""
        item = self._index.find_ended(raw, index)
        if item is not None and item.is_done and as_position(index) != item.index:
            if self._differs(item, raw):
                item = None
            elif item.repeated_start is None:
                item.is_repeated = True
                self._sink.warn("item_repeated", f"item {raw.get('id')!r} ended twice; the second end was ignored")
        item = item or self._start(raw, index)
        self._read_snapshot(item, raw, is_ended=raw.get("status") not in _UNFINISHED_STATUSES)

    def _read_final_output(self, output: Any, *, is_completed: bool) -> None:
        """Read the final output of a response, then finalize the items that never ended.

        Args:
            output: the field ``output``; None if the stream has none.
            is_completed: the response is complete, so an item without a status is.
        """
        items = [raw for raw in output if isinstance(raw, dict)] if isinstance(output, list) else []
        for raw, match in zip(items, self._index.match_output(items), strict=True):
            if match is None and not item_type(raw):  # nothing refers to it; an item would take 40 times its bytes
                if raw:
                    self._choice.provider_block(raw)
                continue
            status = raw.get("status")
            is_ended = status == "completed" or (is_completed and status is None)
            item = match
            if item is None:
                item = self._index.find_same(raw)
                if item is None or self._differs(item, raw):
                    item = self._start(raw, None)
                elif not item.is_repeated:
                    item.is_repeated = True
                    message = f"item {raw.get('id')!r} is in the output twice; the second one was ignored"
                    self._sink.warn("item_repeated", message)
            self._read_snapshot(item, raw, is_ended=is_ended, is_in_output=True)
        if self._client_reader is not None:
            self._client_reader.report_shell_calls()
        for item in self._index.items:
            if not item.is_done:
                self._finalize_unfinished(item)

    def _start(self, raw: Json, index: Any) -> OutputItem:
        self._index.clear_current()
        kind = item_type(raw)
        if self._client_reader is not None:
            self._client_reader.report_shell_calls(kind)
        item = self._index.add(kind, raw.get("id"), raw.get("call_id"), index)
        if kind in CALL_ARGUMENT_FIELDS:
            item.initial_arguments = self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[kind]))
            if item.initial_arguments:
                self._sink.keep(len(item.initial_arguments))
            item.name = as_text(raw.get("name"))
            self._choice.tool(
                NormalizedToolChunk(
                    "start",
                    item.call_id,
                    item.name,
                    key=item.key,
                    kind="custom" if kind == "custom_tool_call" else "function",
                    metadata=_call_metadata(raw) or None,
                )
            )
        elif kind in _TEXT_ITEMS:
            self._start_texts(item, raw)
        elif kind == "tool_search_call" and "execution" not in raw:
            self._keep_raw(item, raw)  # it is decided at its end who searches
        elif runs_on_server(raw):
            self._server_tools.start(item, raw)
        elif kind in CLIENT_ITEM_FIELDS and kind != "shell_call":
            self._client_items.start(item, raw)
        else:
            self._keep_raw(item, raw)
        return item

    def _keep_raw(self, item: OutputItem, raw: Json) -> None:
        if self._sink.keep(json_size(raw)):
            item.raw = raw

    def _differs(self, item: OutputItem, raw: Json) -> bool:
        """Return True if an item with the ids of another one has another content, so that it is not the same."""
        if item.type in CALL_ARGUMENT_FIELDS:
            name, text = as_text(raw.get("name")), self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[item.type]))
            known = item.arguments or item.initial_arguments
            return bool((name and item.name and name != item.name) or (text and known and text != known))
        return item.type in _TEXT_ITEMS and item.is_done and self._has_other_texts(item, raw)

    def _start_again(self, item: OutputItem, repeated: RepeatedStart) -> OutputItem:
        """Start the item of a repeated start, which is another one after all."""
        item.repeated_start = None
        return self._start(repeated.raw, repeated.index)

    def _read_snapshot(self, item: OutputItem, raw: Json, *, is_ended: bool, is_in_output: bool = False) -> None:
        """Read a snapshot of a complete item.

        Args:
            item: what is known of it.
            raw: the snapshot.
            is_ended: nothing of it follows.
            is_in_output: it is in the final output, whose order counts, not the order in which the items began.
        """
        self._index.clear_current()
        is_first = not item.is_done
        if is_first:
            self._index.close(item)
        field = CALL_ARGUMENT_FIELDS.get(item.type)
        if field is not None:
            if is_first:
                self._add_missing_call_fields(item, raw)
            self._replace_arguments(item, self._arguments_text(raw.get(field)) or item.initial_arguments)
            if is_ended:
                self._choice.end_block(item.key)
        elif item.type in _TEXT_ITEMS:
            self._read_texts(item, raw, is_first=is_first)
        elif not is_first:
            return
        elif item.type in SERVER_RESULT_ITEMS:
            shell_call = self._client_items.take_shell_call(as_text(raw.get("call_id")))
            if shell_call is not None:
                self._server_tools.complete(*shell_call)
            self._server_tools.emit_result(item, raw)
        elif item.type in SERVER_TOOL_ITEMS and (item.server_id is not None or runs_on_server(raw)):
            self._server_tools.complete(item, raw)
        elif item.type == "shell_call":
            self._sink.keep(json_size(raw))
            self._client_items.keep_shell_call(item, raw)
            if not is_in_output:
                self._client_items.report_shell_calls(self._index.items[-1].type)
        elif is_client_item(raw) or item.type in CLIENT_ITEM_FIELDS:
            self._client_items.complete(item, raw, is_ended=is_ended)
        elif item.type in ("compaction", "compaction_summary"):
            self._choice.compaction(raw, None)
        else:
            self._choice.provider_block(raw)

    def _finalize_unfinished(self, item: OutputItem) -> None:
        """Emit the initial content of an item of which no snapshot came before the response ended."""
        self._finalize_texts(item)
        if item.type in CALL_ARGUMENT_FIELDS:
            self._replace_arguments(item, item.initial_arguments)
        elif item.type == "shell_call" and item.raw is not None:
            self._client_items.start(item, item.raw)
            item.raw = None
        if item.type in CLIENT_ITEM_FIELDS and item.name is not None and item.server_id is None:
            self._client_items.cut_off(item)
        if item.raw is not None:
            self._sink.unknown(item.raw)
            item.raw = None

    # ------------------------------------------------------------ calls

    def _read_call_delta(self, event: ResponseStreamEvent, text: str) -> None:
        """Read an argument delta of a call that is not the current one."""
        item = self._index.find(CALL_ARGUMENT_FIELDS, event.item_id, event.output_index)
        if item is None:  # the accumulator assigns the delta, or warns
            key = ("item", as_text(event.item_id) or as_text(event.output_index))
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
            return
        repeated = item.repeated_start
        if repeated is not None:
            if repeated.matches("arguments", item.arguments, text):
                self._sink.heartbeat()
                return
            text = item.arguments[: repeated.sizes.get("arguments", 0)] + text
            item = self._start_again(item, repeated)
        item.has_arguments, item.initial_arguments = True, ""
        self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=item.key))
        if event.item_id.__class__ is str and self._index.find_by_id(event.item_id) is item:
            self._index.set_current(event.type, event.item_id, None, item.key)

    def _read_call_done(self, raw: Json) -> None:
        """Read an event of ``CALL_DONE_EVENTS``."""
        kind = CALL_DONE_EVENTS[raw["type"]]
        item = self._index.find(CALL_ARGUMENT_FIELDS, raw.get("item_id"), raw.get("output_index"))
        text = self._arguments_text(raw.get(CALL_ARGUMENT_FIELDS[kind]))
        if item is None:
            if as_text(raw.get("name")) is None:
                self._sink.unknown(raw)
                return
            start = {"type": kind, "id": raw.get("item_id"), "name": raw.get("name")}
            item = self._start(start, raw.get("output_index"))
        elif item.repeated_start is not None and text != item.arguments:
            item = self._start_again(item, item.repeated_start)
        self._replace_arguments(item, text)

    def _add_missing_call_fields(self, item: OutputItem, raw: Json) -> None:
        """Emit the fields of a call that its start did not have."""
        call_id = None
        if item.call_id is None:
            call_id = as_text(raw.get("call_id")) or item.id  # the only id under which its result can be sent back
            self._index.set_call_id(item, call_id)
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
        if not text:
            return
        if text != item.arguments:
            if not self._sink.keep(len(text) - len(item.arguments)):
                return
            item.has_arguments, item.initial_arguments, item.arguments = True, "", text
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

    def _read_server_arguments(self, raw: Json) -> None:
        """Read the arguments of a server tool, which come before it runs."""
        item = self._index.find(SERVER_TOOL_ITEMS, raw.get("item_id"), raw.get("output_index"))
        if item is not None and item.server_id is not None:
            self._server_tools.emit_arguments(item, raw.get(SERVER_ARGUMENT_EVENTS[raw["type"]]))

    def _read_server_delta(self, event: ResponseStreamEvent, text: str, types: Collection[str]) -> bool:
        """Read the next text of a server tool's arguments; return False if it belongs to no item."""
        item = self._index.find(types, event.item_id, event.output_index)
        if item is None:
            return False
        if item.server_id is not None:
            self._choice.server_tool_delta(item.server_id, item.name or "", text)
        else:  # a shell call: its complete item shows who runs it, and repeats this
            self._sink.heartbeat()
        return True

    def _read_patch_delta(self, raw: Json) -> None:
        """Read the next text of a patch that the client is asked to apply."""
        report_unknown_fields(self._sink, raw, KNOWN_DELTA_FIELDS)
        item = self._index.find(("apply_patch_call",), raw.get("item_id"), raw.get("output_index"))
        delta = raw.get("delta")
        if item is None or not isinstance(delta, str):
            self._sink.unknown(raw)
        elif delta:
            self._client_items.add_patch(item, delta)

    def _read_shell_output(self, raw: Json) -> None:
        """Read the next output of a shell that the provider runs. It is emitted; the complete item is kept."""
        item = self._index.find(("shell_call_output",), raw.get("item_id"), raw.get("output_index"))
        fields: Json = {name: raw[name] for name in ("delta", "command_index") if name in raw}
        self._server_tools.emit_partial_output(item, fields)

    def _read_partial_image(self, raw: Json) -> None:
        """Read an unfinished image. It is emitted, but not kept."""
        item = self._index.find(("image_generation_call",), raw.get("item_id"), raw.get("output_index"))
        fields = {
            name: value for name, value in raw.items() if name.startswith("partial_image") or name == "output_format"
        }
        server_id = item.server_id if item is not None else as_text(raw.get("item_id"))
        self._choice.server_tool(server_id, "image_generation", "result", fields)


def _call_metadata(raw: Json) -> Json:
    """Return the further fields of a call's item: its own id, ``namespace``, ``status``, ``caller``."""
    metadata = {name: value for name, value in raw.items() if name not in _KNOWN_CALL_FIELDS and value is not None}
    item_id = as_text(raw.get("id"))
    if item_id is not None:
        metadata["item_id"] = item_id
    return metadata


# ---------------------------------------------------------------- server tools

#: Statuses of an item that the server still works on. Such an item cannot be sent back.
_RUNNING_STATUSES = frozenset({"in_progress", "searching", "interpreting", "generating", "calling", "queued"})
_MEDIA_TYPES = {"svg": "image/svg+xml", "jpg": "image/jpeg"}


class _ServerToolReader:
    """A reader that reports the calls of server tools to a sink: their arguments and results, and the item for replay.

    Deltas are passed on as they come, and are not collected: the event that ends an item repeats all of their data.
    """

    __slots__ = ("_choice", "_latest_ids")

    def __init__(self, choice: ChoiceSink) -> None:
        self._choice = choice
        self._latest_ids: dict[str, str] = {}  # of the last call of each tool

    def start(self, item: OutputItem, raw: Json) -> None:
        """Report that a tool starts. An item that is a result of another one starts nothing."""
        if item.type in SERVER_RESULT_ITEMS:
            return
        item.name = SERVER_TOOL_ITEMS[item.type][0] or as_text(raw.get("name")) or item.type
        # A result names the call_id if there is one, else nothing.
        item.server_id = item.call_id or item.id or f"{item.type}_{item.key}"
        self._latest_ids[item.name] = item.server_id
        self._choice.server_tool(item.server_id, item.name, "started")

    def emit_arguments(self, item: OutputItem, arguments: Any) -> None:
        """Report the arguments of a tool, once."""
        if item.has_arguments or arguments is None or arguments == "":
            return
        item.has_arguments = True
        if item.type == "mcp_call" and isinstance(arguments, str):
            with suppress(ValueError, RecursionError):  # else they stay text
                arguments = read_json(arguments)
        self._choice.server_tool(item.server_id, item.name or "", "arguments", arguments)

    def complete(self, item: OutputItem, raw: Json) -> None:
        """Report the arguments, the result and the generated image of a complete item."""
        if item.server_id is None:
            self.start(item, raw)
        _, arguments_field, result_field = SERVER_TOOL_ITEMS[item.type]
        self.emit_arguments(item, raw.get(arguments_field))
        status = as_text(raw.get("status"))
        if status in _RUNNING_STATUSES:
            return
        result = raw.get(result_field) if result_field else None
        if result is None and raw.get("error") is not None:
            result = {"error": raw["error"]}
        if result is None:
            result = {"status": status} if status is not None else {}
        self._choice.server_tool(item.server_id, item.name or "", "result", result, raw=raw)
        image = raw.get("result") if item.type == "image_generation_call" else None
        if isinstance(image, str) and image:
            self._choice.file(_media_type(raw), data=image)
            self._choice.add_metadata({"item_id": item.server_id})

    def emit_result(self, item: OutputItem, raw: Json) -> None:
        """Report an item that is the result of another one."""
        name, field = SERVER_RESULT_ITEMS[item.type]
        call_id = as_text(raw.get("call_id")) or self._latest_ids.get(name) or item.id
        self._choice.server_tool(call_id, name, "result", raw.get(field), raw=raw)

    def emit_partial_output(self, item: OutputItem | None, fields: Json) -> None:
        """Report the next output of a command. The complete output replaces it."""
        call_id = item.call_id if item is not None else None
        self._choice.server_tool(call_id or self._latest_ids.get("shell"), "shell", "result", fields)


def _media_type(raw: Json) -> str:
    output_format = as_text(raw.get("output_format")) or "png"
    return _MEDIA_TYPES.get(output_format) or f"image/{output_format}"
