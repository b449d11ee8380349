"""The content blocks of an Anthropic message: their kinds, those that are open, and how their events are read.

A block is identified by its index; blocks need not come one after the other. The index is the wire's. The key that the
sink gets is a number of this reader, new for every block that starts, because relays splice a second message into a
stream (its indexes start again at 0) and some give every block the index 0.

Kept of a block is only what the wire requires: the ``input`` of a call's start (it counts only if no delta brings
arguments), the streamed input of a tool that the provider runs (its block is sent back complete), and blocks of unknown
types, which are assembled and reported at their stop.

This module must not depend on messages, their usage and end, on canonical ids or on history.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.json_text import json_size, measure_json
from streamkit.providers.anthropic.schema import BlockDelta, Event, Json, OpenEvent
from streamkit.providers.decoding.decoding import (
    BLOCK_SIZE,
    PART_SIZE,
    arguments_as_text,
    as_text,
    convert,
    parse_json_or_text,
)
from streamkit.providers.provider import ChoiceSink, Sink

__all__ = [
    "CALL",
    "OPAQUE",
    "SERVER_CALL",
    "SERVER_RESULT",
    "TEXT",
    "THINKING",
    "AnthropicBlockReader",
    "OpenBlock",
]

# The kinds of a block, which decide how its deltas are read. From SERVER_CALL on, a block is sent back as it came.
# Integers, because an attribute of an enumeration costs as much as a call.
TEXT: Final = 0
THINKING: Final = 1
CALL: Final = 2
SERVER_CALL: Final = 3  #: a call that the provider runs itself
SERVER_RESULT: Final = 4  #: its result
OPAQUE: Final = 5  #: a block of an unknown type

_DELTA_TYPES = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "citation": "citations_delta",
}
#: The fields that are read of each type.
_READ_WITH = {
    "text_delta": ("text", "signature"),
    "input_json_delta": ("partial_json",),
    "thinking_delta": ("thinking", "signature"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("citation",),
}
_TEXT_FIELDS = frozenset({"type", "text", "citations"})
_THINKING_FIELDS = frozenset({"type", "thinking", "signature"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
#: In place of the fields of a block that are not needed after its start.
_NOT_KEPT: Json = {}
_NO_CALL = (None, "")


class OpenBlock:
    """A block that has started.

    Attributes:
        key: The sink's key of the block.
        kind: How its deltas are read (``TEXT``, ...).
        raw: Of a block that is sent back complete, the block as it is now; else empty.
        parts: Buffered text by field (``partial_json`` of a server tool, ``signature``, any field of an opaque block);
            None while there is none.
        size: Characters of the signature in ``parts``.
        is_finalized: Nothing is left to report at the block's end: that was reported, deltas have replaced it, or a
            block of this kind never has any.
        server_call: Of a tool that the provider runs, the id and the name of its call.
    """

    __slots__ = ("is_finalized", "key", "kind", "parts", "raw", "server_call", "size")

    def __init__(self, key: int, kind: int, raw: Json) -> None:
        self.key: int = key
        self.kind: int = kind
        self.raw: Json = raw
        self.parts: dict[str, list[str]] | None = None
        self.size: int = 0
        self.is_finalized: bool = kind < CALL or kind == SERVER_RESULT
        self.server_call: tuple[str | None, str] = _NO_CALL

    def parts_of(self, field: str) -> list[str]:
        """Return the list of the buffered texts of a field, to be extended."""
        if self.parts is None:
            self.parts = {field: []}
        return self.parts.setdefault(field, [])

    def text_of(self, field: str) -> str:
        """Return the buffered text of a field."""
        return "".join(self.parts.get(field, ())) if self.parts is not None else ""


class AnthropicBlockReader:
    """What a parser reads of blocks. ``AnthropicParser`` sets all attributes: it costs less than two constructors."""

    __slots__ = ("_block_count", "_by_index", "_choice", "_latest", "_open_opaque", "_server_tool_names", "_sink")
    _by_index: dict[Any, OpenBlock]  # the blocks of the current message
    _sink: Sink
    _choice: ChoiceSink
    _latest: OpenBlock | None
    _open_opaque: OpenBlock | None
    _block_count: int
    _server_tool_names: dict[str, str] | None  # by the call's id

    # ------------------------------------------------------------ a block starts and stops

    def _start_block(self, index: Hashable, raw: Json, *, is_complete: bool = False) -> None:
        """Start a block.

        Args:
            index: The block's index in its one form (``normalize_index``), None if the event has none.
            raw: The block as the event has it.
            is_complete: Whether no delta of it follows.
        """
        if index is not None and (previous := self._by_index.get(index)) is not None:
            self._finalize(previous)
            self._sink.warn("block_index_reused", f"a second block at index {index!r} is read as a block of its own")
        if self._open_opaque is not None:
            self._finalize(self._open_opaque)  # without its stop event; blocks keep their order
            self._open_opaque = None
        block_type, choice = raw.get("type"), self._choice
        if block_type == "text":
            block, text, citations = self._add(index, TEXT, raw), raw.get("text"), raw.get("citations")
            if isinstance(text, str) and text:
                choice.text(text, block.key)
            if (extras := _extra_fields(raw, _TEXT_FIELDS)) is not None:
                choice.text("", block.key)
                choice.add_metadata(extras, block.key)
            if isinstance(citations, list):
                self._report_citations(block, citations)
        elif block_type == "tool_use":
            block, arguments = self._add(index, CALL, raw), raw.get("input")
            # The empty object of a complete block is its arguments; that of a start event only precedes the deltas.
            if (arguments or is_complete) and (text := arguments_as_text(arguments, self._sink)):
                block.parts_of("input").append(text)
            call_id, name = as_text(raw.get("id")), as_text(raw.get("name"))
            extras = _extra_fields(raw, _CALL_FIELDS)
            choice.tool(NormalizedToolChunk("start", call_id, name, key=block.key, metadata=extras))
        elif block_type == "thinking":
            block, text = self._add(index, THINKING, raw), raw.get("thinking")
            choice.reasoning(text if isinstance(text, str) else "", "text", block.key)
            if (extras := _extra_fields(raw, _THINKING_FIELDS)) is not None:
                choice.add_metadata(extras, block.key)
            self._add_signature(block, raw.get("signature"))
        elif block_type == "redacted_thinking":
            block = self._add(index, THINKING, raw)
            choice.reasoning("", "text", block.key)
            choice.add_metadata({"opaque": raw}, block.key)
        elif isinstance(block_type, str) and block_type.endswith("_tool_use"):  # server_tool_use, mcp_tool_use
            block, call_id = self._add(index, SERVER_CALL, raw, dict(raw)), as_text(raw.get("id"))
            name = as_text(raw.get("name")) or ""
            block.server_call = call_id, name
            if call_id is not None:
                if self._server_tool_names is None:
                    self._server_tool_names = {}
                self._server_tool_names[call_id] = name
            fields = _extra_fields(raw, _CALL_FIELDS) or {}  # such as an MCP server, or a call by code
            if fields.get("caller") == {"type": "direct"}:
                del fields["caller"]
            if block_type != "server_tool_use":
                fields["type"] = block_type
            choice.server_tool(call_id, name, "started", fields or None)
        elif isinstance(block_type, str) and block_type.endswith("_tool_result"):  # web_search_tool_result, ...
            self._add(index, SERVER_RESULT, raw)
            call_id = as_text(raw.get("tool_use_id"))
            # The call may be of an earlier turn: code that waited for a client's tool has its result a turn later.
            name = (self._server_tool_names or {}).get(call_id or "") or block_type.removesuffix("_tool_result")
            choice.server_tool(call_id, name, "result", raw.get("content"), raw=raw)
        else:
            kept = {name: list(value) if isinstance(value, list) else value for name, value in raw.items()}
            self._open_opaque = self._add(index, OPAQUE, raw, kept)  # its lists grow with its deltas
            fallback = raw.get("to")
            if block_type == "fallback" and isinstance(fallback, dict):
                self._sink.identify(None, as_text(fallback.get("model")))  # this model generates what follows

    def _stop_block(self, index: Hashable) -> bool:
        """End the block of an index, or the latest for None, at its stop event; return False if there is none."""
        block = self._latest if index is None else self._by_index.get(index)
        if block is None:
            return False
        if not block.is_finalized:
            self._finalize(block)
        if block.kind < SERVER_CALL:
            self._choice.end_block(block.key)
        return True

    def end(self) -> None:
        """Finalize the blocks of a message that ends without their stop events (maximhq/bifrost#4262)."""
        for block in self._by_index.values():
            if not block.is_finalized:
                self._finalize(block)

    def _restart(self) -> None:
        """Start another message; its indexes begin again at 0."""
        self.end()
        self._by_index.clear()
        self._latest = None

    def _add(self, index: Hashable, kind: int, raw: Json, kept: Json = _NOT_KEPT) -> OpenBlock:
        block = self._latest = OpenBlock(self._block_count, kind, kept)
        self._block_count += 1
        self._sink.keep(BLOCK_SIZE + measure_json(raw)[0])
        self._by_index[("unindexed", block.key) if index is None else index] = block
        return block

    def _finalize(self, block: OpenBlock) -> None:
        """Report the data that waited for the end of a block, once."""
        if block.is_finalized:
            return
        block.is_finalized = True
        kind = block.kind
        if kind == CALL:
            if text := block.text_of("input"):
                self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=block.key))
        elif kind == SERVER_CALL:
            raw, streamed = block.raw, block.text_of("partial_json")
            arguments = parse_json_or_text(streamed) if streamed else raw.get("input")
            if isinstance(arguments, dict):
                raw["input"] = arguments  # truncated arguments are text: the block keeps the input of its start
            self._choice.server_tool(*block.server_call, "arguments", arguments, raw=raw)
        elif kind == OPAQUE:
            for field in block.parts or ():
                text = block.text_of(field)
                if field == "partial_json":
                    block.raw["input"] = parse_json_or_text(text)
                else:
                    block.raw[field] = text
            if block.raw.get("type") == "compaction":
                self._choice.compaction(block.raw, as_text(block.raw.get("content")))
            else:
                self._choice.provider_block(block.raw)

    # ------------------------------------------------------------ deltas that are not on the parser's fast path

    def _read_delta(self, raw: Json) -> None:
        """Read a ``content_block_delta`` of any kind."""
        index, raw_delta = normalize_index(raw.get("index")), raw.get("delta")
        block = self._latest if index is None else self._by_index.get(index)
        raw_type = raw_delta.get("type") if isinstance(raw_delta, dict) else None
        # The event of an unknown type, and the block of one, are kept complete.
        is_kept = (raw_type and raw_type not in _DELTA_TYPES.values()) or (block and block.kind == OPAQUE)
        event = convert(raw, OpenEvent if is_kept else Event, self._sink)
        delta = event.delta if event is not None else None
        if delta is None:
            self._sink.unknown(raw)
            return
        delta_type = delta.type or next(
            (name for field, name in _DELTA_TYPES.items() if getattr(delta, field) is not None), ""
        )
        if block is not None and block.kind >= SERVER_CALL:
            self._read_buffered_delta(block, delta_type, delta, raw)
            return
        if delta_type == "text_delta" and _is_text_or_none(delta.text):
            block = block or self._add(index, TEXT, {})
            if delta.text:
                self._choice.text(delta.text, block.key)
            self._add_signature(block, delta.signature)
        elif delta_type == "input_json_delta":
            # An object in the place of its text is the complete object.
            if text := arguments_as_text(delta.partial_json, self._sink):
                key: Hashable = ("index", index)  # of no block: the accumulator assigns the text or warns
                if block is not None:
                    block.is_finalized, key = True, block.key
                self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))
        elif delta_type in ("thinking_delta", "signature_delta") and _is_text_or_none(delta.thinking):
            # A signature is read from both types: some relays put it on the last thinking_delta.
            is_new = block is None
            block = block or self._add(index, THINKING, {})
            if delta.thinking or is_new:
                self._choice.reasoning(delta.thinking or "", "text", block.key)
            self._add_signature(block, delta.signature)
        elif delta_type == "citations_delta" and delta.citation is not None:
            self._report_citations(block or self._add(index, TEXT, {}), [delta.citation])
        else:
            self._sink.unknown(raw)
            return
        for field in _DELTA_TYPES:
            if field not in _READ_WITH[delta_type] and (value := getattr(delta, field)) is not None:
                self._sink.unknown_field(f"delta.{field}", value)

    def _add_signature(self, block: OpenBlock, signature: Any) -> None:
        """Add the next part of a block's signature, if it is one."""
        if isinstance(signature, str) and signature:
            parts = block.parts_of("signature")
            if len(signature) == block.size and "".join(parts) == signature:
                return  # the complete signature again, as after a start that had it
            parts.append(signature)
            block.size += len(signature)
            self._sink.keep(PART_SIZE + len(signature))
            self._choice.add_metadata({"signature": signature}, block.key)

    def _report_citations(self, block: OpenBlock, citations: list[Any]) -> None:
        if citations:
            self._choice.text("", block.key)  # a citation may precede its block's first text
        for citation in citations:
            self._choice.citation(citation, block.key)

    def _read_buffered_delta(self, block: OpenBlock, delta_type: str, delta: BlockDelta, raw: Json) -> None:
        """Add a delta to a block that is sent back complete."""
        fields: Json = raw.get("delta") or {}
        if block.kind == OPAQUE and not block.is_finalized:
            if delta_type not in _READ_WITH and block.raw.get("type") != "compaction":
                self._sink.unknown(raw)  # an event now; the block with this delta is reported at its stop
            for name, value in fields.items():
                if name != "type":
                    self._merge_field(block, name, value)
        elif block.kind == SERVER_CALL and not block.is_finalized and delta.partial_json is not None:
            if text := arguments_as_text(delta.partial_json, self._sink):
                self._add_server_arguments(text, block)
        elif any(value for name, value in fields.items() if name != "type"):
            self._sink.unknown(raw)

    def _add_server_arguments(self, text: str, block: OpenBlock) -> None:
        """Add the next text of the arguments of a tool that the provider runs."""
        self._buffer(block, "partial_json", text)
        call_id, name = block.server_call
        self._choice.server_tool_delta(call_id, name, text)

    def _merge_field(self, block: OpenBlock, name: str, value: Any) -> None:
        if name == "citation":
            name, value = "citations", [value]
        current = block.raw.get(name)
        if isinstance(value, str) and (current is None or isinstance(current, str)):
            if current and name not in (block.parts or ()):
                self._buffer(block, name, current)
            self._buffer(block, name, value)
        elif not self._sink.keep(len(name) + json_size(value)):
            block.is_finalized, block.parts = True, None
        elif isinstance(value, list) and isinstance(current, list):
            current += value
        elif value is not None or name not in block.raw:
            block.raw[name] = list(value) if isinstance(value, list) else value

    def _buffer(self, block: OpenBlock, field: str, text: str) -> None:
        if self._sink.keep(PART_SIZE + len(text)):
            if (parts := block.parts) is None:
                parts = block.parts = {}
            parts.setdefault(field, []).append(text)
        else:
            block.is_finalized, block.parts = True, None


def _is_text_or_none(leaf: Any) -> bool:
    return leaf is None or leaf.__class__ is str


def _extra_fields(raw: Json, known: frozenset[str]) -> Json | None:
    """Return the fields of a block's start that the sink has no parameter for, such as ``caller``; None for none."""
    if known.issuperset(raw):
        return None
    return {name: value for name, value in raw.items() if name not in known and value is not None} or None
