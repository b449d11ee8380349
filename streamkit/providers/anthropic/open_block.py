"""A content block of an Anthropic message that has started."""

from __future__ import annotations

from enum import IntEnum

from streamkit.providers.anthropic.schema import Json

__all__ = ["BlockKind", "OpenBlock"]


class BlockKind(IntEnum):
    """How a block's deltas are read."""

    TEXT = 0
    THINKING = 1
    CALL = 2
    SERVER_CALL = 3  #: a call that the provider runs itself
    SERVER_RESULT = 4
    OPAQUE = 5  #: a block of an unknown type


class OpenBlock:
    """A block that has started.

    Attributes:
        key: The sink's key of the block.
        kind: How its deltas are read.
        raw: The block as its start event had it; after that only of a block that is sent back complete, as it is now.
        parts: Buffered text by field (``partial_json`` of a server tool, ``signature``, any field of an opaque block).
        size: Characters in ``parts``.
        is_finalized: Nothing is left to report at the block's end: that was reported, or deltas have replaced it.
        server_call: Of a tool that the provider runs, the id and the name of its call.
    """

    __slots__ = ("is_finalized", "key", "kind", "parts", "raw", "server_call", "size")

    def __init__(self, key: int, kind: BlockKind, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw
        self.parts: dict[str, list[str]] = {}
        self.size = 0
        self.is_finalized = False
        self.server_call: tuple[str | None, str] = (None, "")
