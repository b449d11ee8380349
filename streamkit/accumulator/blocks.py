"""The blocks of a choice under construction.

A block is a run of text or reasoning, a tool call, a file, or a block of the provider's own. The module must not depend
on how deltas are assigned to calls, nor on a wire.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

from msgspec import structs

from streamkit.accumulator.call_builder import MANY_PARTS, ToolCallBuilder, join_parts
from streamkit.accumulator.turn_state import OBJECT_SIZE, TurnState
from streamkit.calls import ServerCall
from streamkit.events import BlockEnded, Reasoning, Refusal, Text, TextKind

__all__ = ["NO_BLOCKS", "Block", "ChoiceBlockKind", "ChoiceBlocks", "merge_metadata", "new_metadata"]

ChoiceBlockKind = Literal[TextKind, "call", "server_tool", "file", "opaque"]


def new_metadata(target: Mapping[str, Any], metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata that changes a block's; texts of a signature and lists are always more of them."""
    if not target:
        return metadata
    return {
        name: value
        for name, value in metadata.items()
        if name == "signature" or isinstance(value, list) or name not in target or target[name] != value
    }


def merge_metadata(target: dict[str, Any], metadata: Mapping[str, Any]) -> None:
    """Add metadata to a block's: a signature's text and the items of a list are joined with those before."""
    for name, value in metadata.items():
        before = target.get(name)
        if name == "signature" and isinstance(before, str) and isinstance(value, str):
            target[name] = None  # one reference is left, so that CPython appends in place (``join_parts``)
            before += value
            target[name] = before
        elif isinstance(before, list) and isinstance(value, list):
            before.extend(value)
        else:
            target[name] = list(value) if isinstance(value, list) else value


_NO_PARTS: list[str] = []  # of a call, which has its own: one list for all
NO_BLOCKS: dict[Hashable, Block] = {}  # of a choice whose blocks have no key: one dict for all


class Block:
    """A block under construction. Its parts are joined when its text is read."""

    __slots__ = (
        "call",
        "citations",
        "detail",
        "half",
        "is_cut",
        "is_ended",
        "joined",
        "key",
        "kind",
        "metadata",
        "number",
        "parts",
        "raw",
    )

    def __init__(self, kind: ChoiceBlockKind, number: int, key: Hashable, detail: Any = None) -> None:
        self.kind: ChoiceBlockKind = kind
        self.number: int = number  # its place among the blocks of its choice
        self.key: Hashable = key
        self.detail: Any = detail  # the kind of reasoning, the ServerCall, or a file's (media_type, data, url)
        self.parts: list[str] = _NO_PARTS if kind in ("call", "opaque") else []
        self.joined: int = 0  # the first parts, each of which was joined from many
        self.metadata: dict[str, Any] | None = None
        self.citations: list[Any] | None = None
        self.raw: list[Any] | None = None  # the provider's own blocks, sent back to it on replay
        self.half: str = ""  # half of a surrogate pair, which waits for the other one
        self.is_ended: bool = False  # its end was emitted
        self.is_cut: bool = False  # it had no end when the turn was closed
        self.call: ToolCallBuilder | None = None

    @property
    def server_call(self) -> ServerCall | None:
        """The call of a server tool that the block is, its arguments as far as received; None for any other block."""
        if self.kind != "server_tool" or self.detail is None:
            return None
        call: ServerCall = self.detail
        return structs.replace(call, arguments=self.text) if call.arguments is None and self.parts else call

    def add_raw(self, raw: Any) -> None:
        """Add a block of the provider's own, to be sent back to it on replay."""
        if self.raw is None:
            self.raw = [raw]
        else:
            self.raw.append(raw)

    def join_parts(self) -> int:
        """Join the parts that came since the last call, if they are many; return their number.

        A list of short texts costs many times the memory of one text.
        """
        parts, joined = self.parts, self.joined
        count = len(parts) - joined
        if count < MANY_PARTS:
            return 0
        parts[joined:] = ["".join(parts[joined:])]
        self.joined = joined + 1
        return count

    @property
    def text(self) -> str:
        """The block's text so far."""
        parts = self.parts
        join_parts(parts, 0)
        self.joined = len(parts)
        return parts[0] if parts else ""


class ChoiceBlocks:
    """The blocks of one choice. ``Choice`` sets all attributes: constructors that call each other are dear."""

    __slots__ = ("_by_key", "_last", "_open_reasoning", "_open_text", "_state", "blocks", "index")
    _state: TurnState
    index: int
    blocks: list[Block]
    _by_key: dict[Hashable, Block]  # before the first block with a key a dict that is never changed
    _last: Block | None
    _open_text: Block | None  # the last block, if it is text and no half of a pair waits in it
    _open_reasoning: Block | None  # the same for reasoning

    def open_block(self, kind: ChoiceBlockKind, key: Hashable, detail: Any = None) -> Block:
        """Open a block after the others, and return it."""
        state, blocks = self._state, self.blocks
        if not state.has_started:
            state.start_response()
        if not blocks:
            state.begin_choice(self.index)
        last = self._last
        if last is not None and last.key is None and (kind != "file" or key is None):
            self._emit_end(last)  # but a file in several deltas arrives between those of a text
        block = Block(kind, len(blocks), key, detail)
        if key is not None:
            if (previous := self._by_key.get(key)) is not None:
                self._emit_end(previous)
            if self._by_key is NO_BLOCKS:
                self._by_key = {}
            self._by_key[key] = block
        state.keep(OBJECT_SIZE + len(key) if key.__class__ is str else OBJECT_SIZE)
        self._last = block
        blocks.append(block)
        return block

    @property
    def _last_call(self) -> ToolCallBuilder | None:
        """The call after which no block began."""
        return self.blocks[-1].call if self.blocks else None

    def _emit_text(self, block: Block, text: str) -> None:
        if text:
            state, kind = self._state, block.kind
            block.parts.append(text)
            if kind == "text":
                state.events.append(Text(text, block.number, self.index))
            elif kind == "reasoning":
                state.events.append(Reasoning(text, block.detail, block.number, self.index))
            else:
                state.events.append(Refusal(text, block.number, self.index))
            state.keep(len(text))

    def _emit_end(self, block: Block, is_lost: bool = False) -> None:
        """Emit the end of a block, if it is one of text and has not ended; of a lost one without half a signature."""
        self._open_text = self._open_reasoning = None
        if block.is_ended or block.kind not in ("text", "reasoning", "refusal"):
            return
        if block.half:
            block.half = ""
            self._emit_text(block, "\ufffd")
        block.is_ended = True
        _ = block.text  # joins its parts, as no more will come
        metadata, signature = dict(block.metadata or ()), None
        if is_lost and block.kind == "reasoning":
            metadata.clear()
        if metadata.get("signature").__class__ is str:
            signature = metadata.pop("signature")
        self._state.events.append(BlockEnded(block.kind, block.number, signature, metadata, self.index))
