"""Contents and blocks of values that are JSON data of the declared types: the most frequent ones, made in few steps.

Nothing is checked or converted, and the objects keep the lists and dicts that they are given. A reader of messages
makes one for each part of a conversation; ``create_stored`` takes longer, and the constructor several times as long.
The fields are in the order in which they are declared, in which they are serialized, too.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from streamkit.history.content import Block, Content, TextBlock, ToolCallBlock, ToolResponseBlock, store

__all__ = ["call_block", "result_block", "stored_content", "text_block"]

_TEXT_FIELDS: Final = frozenset({"text", "metadata"})
_CALL_FIELDS: Final = frozenset({"id", "name", "parameters", "kind", "metadata"})
_RESULT_FIELDS: Final = frozenset({"call_id", "name", "result", "status", "error", "metadata"})
_CONTENT_FIELDS: Final = frozenset({"speaker", "blocks", "metadata"})


def text_block(text: str, metadata: dict[str, Any]) -> TextBlock:
    """Return a text."""
    return store(TextBlock, {"type": "text", "text": text, "metadata": metadata}, _TEXT_FIELDS)


def call_block(
    id: str,
    name: str,
    parameters: dict[str, Any] | str,
    kind: Literal["function", "custom"],
    metadata: dict[str, Any],
) -> ToolCallBlock:
    """Return a call."""
    fields = {
        "type": "tool_call",
        "id": id,
        "name": name,
        "parameters": parameters,
        "kind": kind,
        "metadata": metadata,
    }
    return store(ToolCallBlock, fields, _CALL_FIELDS)


def result_block(
    call_id: str, name: str | None, result: Any, status: str | None, error: str | None, metadata: dict[str, Any]
) -> ToolResponseBlock:
    """Return the result of a call."""
    fields = {
        "type": "tool_response",
        "call_id": call_id,
        "name": name,
        "result": result,
        "status": status,
        "error": error,
        "metadata": metadata,
    }
    return store(ToolResponseBlock, fields, _RESULT_FIELDS)


def stored_content(speaker: str, blocks: list[Block], metadata: dict[str, Any]) -> Content:
    """Return a content."""
    return store(Content, {"speaker": speaker, "blocks": blocks, "metadata": metadata}, _CONTENT_FIELDS)
