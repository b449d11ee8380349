"""A content block of an Anthropic message that has started."""

from __future__ import annotations

from enum import IntEnum

from streamkit.providers.anthropic.schema import Json

__all__ = ["BlockKind", "OpenBlock"]


class BlockKind(IntEnum):
    """How a block's deltas are read. From ``SERVER_CALL`` on, a block is sent back as the provider sent it."""

    TEXT = 0
    THINKING = 1
    CALL = 2
    SERVER_CALL = 3  #: a call that the provider runs itself
    SERVER_RESULT = 4
    OPAQUE = 5  #: a block of an unknown type


_NO_CALL = (None, "")


class OpenBlock:
    """A block that has started.

    Attributes:
        key: The sink's key of the block.
        kind: How its deltas are read.
        raw: Of a block that is sent back complete, the block as it is now; else empty.
        parts: Buffered text by field (``partial_json`` of a server tool, ``signature``, any field of an opaque block);
            None while there is none.
        size: Characters in ``parts``.
        is_finalized: Nothing is left to report at the block's end: that was reported, or deltas have replaced it.
        server_call: Of a tool that the provider runs, the id and the name of its call.
    """

    __slots__ = ("is_finalized", "key", "kind", "parts", "raw", "server_call", "size")

    def __init__(self, key: int, kind: BlockKind, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw
        self.parts: dict[str, list[str]] | None = None
        self.size = 0
        self.is_finalized = False
        self.server_call: tuple[str | None, str] = _NO_CALL

    def parts_of(self, field: str) -> list[str]:
        """Return the list of the buffered texts of a field, to be extended."""
        if self.parts is None:
            self.parts = {}
        return self.parts.setdefault(field, [])

    def text_of(self, field: str) -> str:
        """Return the buffered text of a field."""
        return "".join(self.parts.get(field, ())) if self.parts is not None else ""
