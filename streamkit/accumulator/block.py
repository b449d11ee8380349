"""A block of a choice: a run of text or reasoning, a tool call, a file, a block of the provider's own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from msgspec import structs

from streamkit.accumulator.tool_call import MANY_PARTS, ToolCallBuilder, join_parts
from streamkit.calls import ServerCall

__all__ = ["Block", "BlockKind", "TextKind"]

TextKind = Literal["text", "reasoning", "refusal"]
BlockKind = Literal[TextKind, "call", "server_tool", "file", "opaque"]


class Block:
    """A block under construction. Its parts are joined when its text is read."""

    __slots__ = ("call", "citations", "detail", "half", "is_ended", "joined", "key", "kind", "metadata", "parts", "raw")

    def __init__(self, kind: BlockKind, key: Hashable, detail: Any = None) -> None:
        self.kind: BlockKind = kind
        self.key = key
        self.detail = detail  # the kind of reasoning, the ServerCall, or a file's (media_type, data, url)
        self.parts: list[str] = []
        self.joined = 0  # the first parts, each of which was joined from many
        self.metadata: dict[str, Any] | None = None
        self.citations: list[Any] | None = None
        self.raw: list[Any] | None = None  # the provider's own blocks, sent back to it on replay
        self.half = ""  # half of a surrogate pair, which waits for the other one
        self.is_ended = False  # its end was emitted
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

    def signature_and_metadata(self) -> tuple[str | None, dict[str, Any]]:
        """Return the provider's signature of the block, if it is a text, and its other opaque state."""
        metadata = dict(self.metadata or ())
        signature = metadata.get("signature")
        if not isinstance(signature, str):
            return None, metadata
        del metadata["signature"]
        return signature, metadata
