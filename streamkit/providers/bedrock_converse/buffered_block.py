"""A content block that is buffered until it is complete. This module must not depend on a sink."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Literal, TypeAlias

from streamkit.providers.bedrock_converse.schema import Json

__all__ = ["BufferedBlock", "BufferedKind", "TextParts", "join_base64"]

BufferedKind: TypeAlias = Literal["server_call", "server_result", "redacted", "image"]


class TextParts(list[str]):
    """One text of a result, in parts."""


class BufferedBlock:
    """A block that is buffered until it is complete.

    Attributes:
        key: The sink's key of the block.
        kind: What it is.
        raw: The body of its start event.
        texts: The parts of its one text: arguments or base64.
        items: The content of a result.
    """

    __slots__ = ("items", "key", "kind", "raw", "texts")

    def __init__(self, key: int, kind: BufferedKind, raw: Json) -> None:
        self.key = key
        self.kind = kind
        self.raw = raw
        self.texts: list[str] = []
        self.items: list[Any] = []


def join_base64(parts: list[str]) -> str:
    """Join parts that are separately base64 into one base64 text; join any other parts as text."""
    if len(parts) > 1:
        try:
            return b64encode(b"".join(b64decode(part, validate=True) for part in parts)).decode()
        except ValueError:
            pass
    return "".join(parts)
