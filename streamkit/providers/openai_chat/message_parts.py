"""Parts of an assistant message, from the blocks of a content.

Stateless. Which block goes into which message, and which dialect accepts what, is decided in ``messages``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Block, FileBlock, OpaqueBlock, ReasoningBlock, TextBlock
from streamkit.providers.openai_chat.content_reader import thinking_text
from streamkit.providers.openai_chat.schema import REASONING_DETAIL_FIELDS

__all__ = [
    "assistant_content",
    "audio_id",
    "file_annotations",
    "generated_image",
    "is_content_part",
    "join_text",
    "merge_reasoning_details",
    "merge_thinking_blocks",
    "reasoning_details",
    "thinking_blocks",
]


def join_text(blocks: list[TextBlock]) -> str:
    """Return the texts of several blocks as one.

    Blocks that one model streamed (around its calls and citations) are one text. Blocks that were written separately
    are joined by a newline.
    """
    text = ""
    previous: TextBlock | None = None
    for block in blocks:
        if not block.text:
            continue
        is_streamed = previous is not None and "provider" in previous.metadata and "provider" in block.metadata
        text += block.text if previous is None or is_streamed else "\n" + block.text
        previous = block
    return text


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


def thinking_blocks(block: ReasoningBlock) -> list[Any]:
    """Return LiteLLM's thinking blocks, in the deltas in which they were streamed."""
    blocks = block.metadata.get("thinking_blocks")
    return blocks if isinstance(blocks, list) else []


def merge_reasoning_details(details: list[Any]) -> list[Any]:
    """Return complete reasoning details from streamed ones: the deltas of one detail have the same index.

    They must be sent back complete, because a signature is checked against the complete text
    (https://openrouter.ai/docs/use-cases/reasoning-tokens: "the entire sequence must match").
    """
    groups: list[list[Any]] = []
    for detail in details:
        if groups and _is_continuation(groups[-1][0], detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [_merge(group) if len(group) > 1 else group[0] for group in groups]


def merge_thinking_blocks(deltas: list[Any]) -> list[Any]:
    """Return Anthropic's complete thinking blocks from streamed ones: the signature ends a block.

    They must be sent back complete and unmodified, and the ones without a signature would be refused
    (https://docs.litellm.ai/docs/reasoning_content, "Tool Calling with thinking").
    """
    blocks: list[Any] = []
    text = ""
    for delta in deltas:
        if isinstance(delta, dict) and delta.get("type") == "thinking":
            text += thinking_text(delta)
            if delta.get("signature"):
                blocks.append({**delta, "thinking": text})
                text = ""
        else:
            blocks.append(delta)
    return blocks


def _is_continuation(first: Any, detail: Any) -> bool:
    return (
        isinstance(first, dict)
        and isinstance(detail, dict)
        and detail.get("type") in list(REASONING_DETAIL_FIELDS)  # a list: the type may be unhashable
        and all(first.get(name) == detail.get(name) for name in ("type", "index"))
    )


def _merge(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for delta in deltas:
        merged |= {name: value for name, value in delta.items() if value is not None or name not in merged}
    field = REASONING_DETAIL_FIELDS[merged["type"]]
    texts = [delta[field] for delta in deltas if isinstance(delta.get(field), str)]
    if texts:
        merged[field] = "".join(texts)
    return merged
