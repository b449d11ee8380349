"""History: the neutral form of a conversation, its repair, and Vercel AI SDK messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.history.content import (
    Block,
    CacheMark,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
)
from streamkit.history.repair import RepairResult, repair
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.history.vercel import convert_to_vercel_messages, parse_vercel_messages

__all__ = [
    "Block",
    "CacheMark",
    "Content",
    "FileBlock",
    "ImageBlock",
    "OpaqueBlock",
    "ReasoningBlock",
    "RepairResult",
    "ServerToolBlock",
    "TextBlock",
    "ToolCallBlock",
    "ToolResponseBlock",
    "UnknownBlock",
    "convert_to_vercel_messages",
    "parse_vercel_messages",
    "repair",
]

__getattr__, __dir__ = lazy_names(  # few programs use them
    __name__, {"vercel": ("convert_to_vercel_messages", "parse_vercel_messages")}
)
