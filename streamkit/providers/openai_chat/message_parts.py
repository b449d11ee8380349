"""Parts of a message, above all of an assistant's, from the blocks of a content.

Stateless. Which block goes into which message, and which dialect accepts what, is decided in ``messages`` and
``assistant_message``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from streamkit.history import Block, FileBlock, OpaqueBlock, ReasoningBlock, TextBlock
from streamkit.history.content import CACHE_BREAKPOINT

__all__ = [
    "are_plain_texts",
    "assistant_content",
    "audio_id",
    "file_annotations",
    "generated_image",
    "has_marks",
    "is_content_part",
    "join_text",
    "reasoning_details",
    "reasoning_parts",
    "thinking_blocks",
]


_MARKS = frozenset({"cache", CACHE_BREAKPOINT})


def join_text(blocks: list[TextBlock]) -> str:
    """Return the texts of several blocks as one.

    Blocks that one model streamed (around its calls and citations) are one text. Blocks that were written separately
    are joined by a newline.
    """
    if len(blocks) == 1:
        return blocks[0].text
    text = ""
    previous: TextBlock | None = None
    for block in blocks:
        if not block.text:
            continue
        is_streamed = previous is not None and "provider" in previous.metadata and "provider" in block.metadata
        text += block.text if previous is None or is_streamed else "\n" + block.text
        previous = block
    return text


def has_marks(parts: Sequence[dict[str, Any]]) -> bool:
    """Return True if a part has a cache mark."""
    return any("cache_control" in part or CACHE_BREAKPOINT in part for part in parts)


def are_plain_texts(blocks: Sequence[Block]) -> TypeGuard[list[TextBlock]]:
    """Return True if all blocks are texts without a cache mark."""
    for block in blocks:  # noqa: SIM110  # every message is asked, and a generator takes longer
        if not isinstance(block, TextBlock) or not _MARKS.isdisjoint(block.metadata):
            return False
    return True


def is_content_part(raw: Any) -> bool:
    """Return True if a value has the form of an entry of ``content``."""
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def audio_id(block: TextBlock) -> str | None:
    """Return the id of the audio response that a text is the transcript of."""
    audio = block.metadata.get("audio")
    value = audio.get("id") if isinstance(audio, dict) else None
    return value if isinstance(value, str) and value else None


def assistant_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]] | None:
    """Return the ``content`` of an assistant message: one text, or the parts in order, or None if it is empty."""
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return join_text(texts) or None
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, OpaqueBlock):
            parts.append(block.raw)
        elif isinstance(block, ReasoningBlock):
            thinking = [{"type": "text", "text": block.text}] if block.text else []
            signature = {} if block.signature is None else {"signature": block.signature}
            parts.append({"type": "thinking", "thinking": thinking, **signature})
        elif isinstance(block, TextBlock) and block.text:
            parts.append({"type": "text", "text": block.text})
    return parts


def file_annotations(block: TextBlock) -> list[Any]:
    """Return the annotations of a text that contain the parsed content of a file."""
    citations = block.metadata.get("citations")
    return [
        citation
        for citation in (citations if isinstance(citations, list) else ())
        if isinstance(citation, dict) and citation.get("type") == "file"
    ]


def generated_image(block: FileBlock) -> dict[str, Any] | None:
    """Return an image that the model generated, in the form in which it was streamed."""
    raw = block.metadata.get("raw")
    return raw if isinstance(raw, dict) and "image_url" in raw else None


def reasoning_details(block: ReasoningBlock) -> list[Any]:
    """Return OpenRouter's typed reasoning, in the deltas in which it was streamed."""
    details = block.metadata.get("reasoning_details")
    return details if isinstance(details, list) else []


def reasoning_parts(block: ReasoningBlock) -> list[Any]:
    """Return Databricks' parts of the content that are reasoning, in the deltas in which they were streamed."""
    parts = block.metadata.get("reasoning_parts")
    return parts if isinstance(parts, list) else []


def thinking_blocks(block: ReasoningBlock) -> list[Any]:
    """Return LiteLLM's thinking blocks, in the deltas in which they were streamed."""
    blocks = block.metadata.get("thinking_blocks")
    return blocks if isinstance(blocks, list) else []
