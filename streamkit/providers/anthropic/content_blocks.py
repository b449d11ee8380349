"""The content blocks of an Anthropic message while it is read.

Blocks are told apart by their index, and nothing here relies on their coming one after the other. The index is the
wire's; the key that the sink gets is a number of our own, new for every block that starts, because relays splice a
second message into a stream (its indexes start anew) and some number every block 0.

What is kept of a block is what the vendor's protocol makes the reader keep: the ``input`` that stood at a call's start
(it counts only where no delta brings arguments), the streamed input of a tool that the provider runs (its block must
be whole to be sent back), and blocks we have no word for, which are folded together and handed over when they stop.

It does not know of messages, their usage and their end, nor of canonical ids or of history.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from streamkit.calls import StreamError
from streamkit.events import NormalizedToolChunk
from streamkit.providers.anthropic.schema import BlockDelta, Event, Json
from streamkit.providers.decoding import as_text, compact_json, excerpt, read_json
from streamkit.providers.provider import Sink

__all__ = ["OpenBlock", "BlockKind", "ContentBlockReader"]

#: Characters gathered of one block: as many as the accumulator by default allows a call's arguments.
KEPT = 8 * 1024 * 1024

_DELTA_OF_FIELD = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "citation": "citations_delta",
}
_KNOWN_DELTAS = frozenset(_DELTA_OF_FIELD.values())


class BlockKind(IntEnum):
    """What is done with a block's deltas."""

    TEXT = 0
    THINKING = 1
    CALL = 2
    SERVER_CALL = 3  #: a call that the provider runs itself
    SERVER_RESULT = 4
    OPAQUE = 5  #: whatever there is no word for


_WHOLE = frozenset({BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT, BlockKind.OPAQUE})
_WORDS_OF_A_START = {
    BlockKind.TEXT: frozenset({"type", "text", "citations"}),
    BlockKind.THINKING: frozenset({"type", "thinking", "signature"}),
    BlockKind.CALL: frozenset({"type", "id", "name", "input"}),
}


class OpenBlock:
    """A block that has started.

    Attributes:
        key: what the sink knows it by.
        kind: what is done with its deltas.
        raw: the block as it stood at its start; for what is sent back whole, as it stands.
        parts: gathered text by field (``partial_json`` of a server tool, ``signature``, any field of an opaque block).
        size: characters in ``parts``.
        settled: nothing waits for the block's end: it has come, or deltas brought what the start had in store.
    """

    __slots__ = ("key", "kind", "parts", "raw", "settled", "size")

    def __init__(self, key: int, kind: BlockKind, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw
        self.parts: dict[str, list[str]] = {}
        self.size = 0
        self.settled = False


class ContentBlockReader:
    """Tells a sink what blocks say. ``by_index`` are those of the message being read, for the parser's short path."""

    def __init__(self, sink: Sink) -> None:
        self.by_index: dict[Any, OpenBlock] = {}
        self._sink = sink
        self._choice = sink.choice(0)
        self._latest: OpenBlock | None = None
        self._unstopped: list[OpenBlock] = []  # the opaque block that is being read, if one is
        self._made = 0
        self._server_names: dict[str, str] = {}  # of the tools that the provider runs, by the call's id

    def last_call_key(self) -> int | None:
        """The key of the message's last client call."""
        return max((block.key for block in self.by_index.values() if block.kind is BlockKind.CALL), default=None)

    # ------------------------------------------------------------ a block starts and stops

    def start(self, index: Any, raw: Json, *, whole: bool = False) -> None:
        """A block begins; ``whole``: nothing of it will follow."""
        if index is not None and (before := self._find(index)) is not None:
            self._settle(before)
            self._sink.warn("block_index_reused", f"a second block at index {_label(index)} is a block of its own")
        while self._unstopped:
            self._settle(self._unstopped.pop())  # its stop never came; blocks keep their order
        name = raw.get("type")
        if name == "text":
            self._start_text(self._add(index, BlockKind.TEXT, raw))
        elif name == "tool_use":
            self._start_call(self._add(index, BlockKind.CALL, raw), whole)
        elif name == "thinking":
            self._start_thinking(self._add(index, BlockKind.THINKING, raw))
        elif name == "redacted_thinking":
            block = self._add(index, BlockKind.THINKING, raw)
            self._choice.reasoning("", "text", block.key)
            self._choice.add_metadata({"opaque": raw}, block.key)
        elif isinstance(name, str) and name.endswith("_tool_use"):  # server_tool_use, mcp_tool_use
            self._add(index, BlockKind.SERVER_CALL, dict(raw))
            call_id, tool = as_text(raw.get("id")), as_text(raw.get("name")) or ""
            if call_id is not None:
                self._server_names[call_id] = tool
            self._choice.server_tool(call_id, tool, "started")
        elif isinstance(name, str) and name.endswith("_tool_result"):  # web_search_tool_result, mcp_tool_result, ...
            self._add(index, BlockKind.SERVER_RESULT, raw)
            call_id = as_text(raw.get("tool_use_id"))
            # The call may be an earlier turn's: code that waited for a client's tool has its result a turn later.
            tool = self._server_names.get(call_id or "") or name.removesuffix("_tool_result")
            self._choice.server_tool(call_id, tool, "result", raw.get("content"), raw=raw)
        else:
            self._unstopped.append(self._add(index, BlockKind.OPAQUE, dict(raw)))
            to = raw.get("to")
            if name == "fallback" and isinstance(to, dict):
                self._sink.identify(None, as_text(to.get("model")))  # from here on this model answers

    def stop(self, index: Any, raw: Json) -> None:
        """The wire says that a block is over; ``raw`` is the event."""
        block = self._find(index)
        if block is None:
            self._sink.unknown(raw)
            return
        self._settle(block)
        if block.kind not in _WHOLE:
            self._choice.end_block(block.key)

    def end(self) -> None:
        """The message is over: blocks whose stop never came are settled (maximhq/bifrost#4262)."""
        for block in self.by_index.values():
            self._settle(block)

    def restart(self) -> None:
        """Another message begins; its indexes count anew."""
        self.end()
        self.by_index.clear()
        self._latest = None

    def _find(self, index: Any) -> OpenBlock | None:
        return self._latest if index is None else self.by_index.get(_label(index))

    def _add(self, index: Any, kind: BlockKind, raw: Json) -> OpenBlock:
        block = self._latest = OpenBlock(self._made, kind, raw)
        self._made += 1
        self.by_index[("unnumbered", block.key) if index is None else _label(index)] = block
        return block

    def _start_text(self, block: OpenBlock) -> None:
        text, citations, extras = block.raw.get("text"), block.raw.get("citations"), _extras(block)
        if isinstance(text, str) and text:
            self._choice.text(text, block.key)
        if extras:
            self._choice.text("", block.key)
            self._choice.add_metadata(extras, block.key)
        if isinstance(citations, list):
            self._cite(block, citations)

    def _start_thinking(self, block: OpenBlock) -> None:
        thinking = block.raw.get("thinking")
        self._choice.reasoning(thinking if isinstance(thinking, str) else "", "text", block.key)
        extras = _extras(block)
        if extras:
            self._choice.add_metadata(extras, block.key)
        self._sign(block, block.raw.get("signature"))

    def _start_call(self, block: OpenBlock, whole: bool) -> None:
        raw = block.raw
        given = raw.get("input")
        if given or (whole and given is not None):  # an empty object of a whole block is the whole of the arguments
            try:
                block.parts["input"] = [given if isinstance(given, str) else compact_json(given)]
            except (RecursionError, TypeError, ValueError):
                self._sink.fail(StreamError("limit_exceeded", "a call's input is nested too deeply"))
        self._choice.tool(
            NormalizedToolChunk(
                "start", as_text(raw.get("id")), as_text(raw.get("name")), key=block.key, metadata=_extras(block)
            )
        )

    def _settle(self, block: OpenBlock) -> None:
        """Hand over what waits for the block's end, once."""
        if block.settled:
            return
        block.settled = True
        if block.kind is BlockKind.CALL:
            for text in block.parts.get("input", ()):
                self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=block.key))
        elif block.kind is BlockKind.SERVER_CALL:
            raw, streamed = block.raw, "".join(block.parts.get("partial_json", ()))
            arguments = _parsed(streamed) if streamed else raw.get("input")
            if isinstance(arguments, dict):
                raw["input"] = arguments  # else it was cut, and the block keeps the input of its start
            call_id, tool = as_text(raw.get("id")), as_text(raw.get("name")) or ""
            self._choice.server_tool(call_id, tool, "arguments", arguments, raw=raw)
        elif block.kind is BlockKind.OPAQUE:
            for name, parts in block.parts.items():
                if name == "partial_json":
                    block.raw["input"] = _parsed("".join(parts))
                else:
                    block.raw[name] = "".join(parts)
            self._choice.provider_block(block.raw)

    # ------------------------------------------------------------ the deltas that the parser's short path leaves over

    def delta(self, event: Event, source: bytes | Json) -> None:
        """Any delta; ``source`` is the event as it came."""
        delta = event.delta
        if delta is None:
            self._sink.unknown(_plain(source))
            return
        kind = delta.type or next((k for field, k in _DELTA_OF_FIELD.items() if getattr(delta, field) is not None), "")
        block = self._find(event.index)
        if block is not None and block.kind in _WHOLE:
            self._gather(block, kind, delta, _plain(source))
        elif kind == "text_delta" and _is_text(delta.text):
            block = block or self._add(event.index, BlockKind.TEXT, {})
            if delta.text:
                self._choice.text(delta.text, block.key)
            self._sign(block, delta.signature)
        elif kind == "input_json_delta" and _is_text(delta.partial_json):
            self._arguments(block, event.index, delta.partial_json or "")
        elif kind in ("thinking_delta", "signature_delta") and _is_text(delta.thinking):
            # The signature is taken wherever it sits: some relays put it on the last thinking_delta.
            opens = block is None
            block = block or self._add(event.index, BlockKind.THINKING, {})
            if delta.thinking or opens:
                self._choice.reasoning(delta.thinking or "", "text", block.key)
            self._sign(block, delta.signature)
        elif kind == "citations_delta" and delta.citation is not None:
            self._cite(block or self._add(event.index, BlockKind.TEXT, {}), [delta.citation])
        else:
            self._sink.unknown(_plain(source))

    def _arguments(self, block: OpenBlock | None, index: Any, text: str) -> None:
        if not text:
            return
        if block is None:  # belongs to no block: the accumulator decides, and says so
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=("index", _label(index))))
        else:
            block.settled = True
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=block.key))

    def _sign(self, block: OpenBlock, signature: Any) -> None:
        if isinstance(signature, str) and signature:
            said = block.parts.setdefault("signature", [])
            if len(signature) == block.size and "".join(said) == signature:
                return  # the whole of it again, as where the start had it already
            said.append(signature)
            block.size += len(signature)
            self._choice.add_metadata({"signature": signature}, block.key)

    def _cite(self, block: OpenBlock, citations: list[Any]) -> None:
        if citations:
            self._choice.text("", block.key)  # a citation may come before its block's first text
        for citation in citations:
            self._choice.citation(citation)

    def _gather(self, block: OpenBlock, kind: str, delta: BlockDelta, raw: Json) -> None:
        """A piece of a block that must be whole to be sent back."""
        pieces: Json = raw.get("delta") or {}
        if block.kind is BlockKind.OPAQUE and not block.settled:
            if kind not in _KNOWN_DELTAS:
                self._sink.unknown(raw)  # shown now, and folded into the block that is handed over at its stop
            for name, value in pieces.items():
                if name != "type":
                    self._fold(block, name, value)
        elif block.kind is BlockKind.SERVER_CALL and not block.settled and isinstance(delta.partial_json, str):
            self._keep(block, "partial_json", delta.partial_json)
        elif any(value for name, value in pieces.items() if name != "type"):
            self._sink.unknown(raw)

    def _fold(self, block: OpenBlock, name: str, value: Any) -> None:
        if name == "citation":
            name, value = "citations", [value]
        have = block.raw.get(name)
        if isinstance(value, str) and (have is None or isinstance(have, str)):
            if have and name not in block.parts:
                self._keep(block, name, have)
            self._keep(block, name, value)
        elif isinstance(value, list) and isinstance(have, list):
            block.raw[name] = [*have, *value]
        elif value is not None or name not in block.raw:
            block.raw[name] = value

    def _keep(self, block: OpenBlock, name: str, text: str) -> None:
        block.size += len(text)
        if block.size > KEPT:
            block.settled, block.parts = True, {}
            self._sink.fail(StreamError("limit_exceeded", f"one block passed {KEPT} characters"))
        else:
            block.parts.setdefault(name, []).append(text)


def _label(index: Any) -> Any:
    if index.__class__ is int:
        return index
    try:
        return compact_json(index)
    except (RecursionError, TypeError, ValueError):
        return "?"


def _plain(source: bytes | Json) -> Json:
    """The event as plain data."""
    if not isinstance(source, bytes):
        return source
    try:
        value = read_json(source)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"text": excerpt(source)}


def _is_text(leaf: Any) -> bool:
    return leaf is None or leaf.__class__ is str


def _extras(block: OpenBlock) -> Json | None:
    """What a block's start says beyond what there is a word for, such as ``caller``."""
    words = _WORDS_OF_A_START[block.kind]
    return {name: value for name, value in block.raw.items() if name not in words and value is not None} or None


def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
