"""Blocks of history as the pieces of a chat message, and back to what the wire calls them.

Stateless: which block goes into which message, and which dialect takes what, is ``render``'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history import Block, FileBlock, OpaqueBlock, ReasoningBlock, TextBlock

__all__ = [
    "audio_id",
    "content_of",
    "file_annotations",
    "file_part",
    "image_of",
    "image_part",
    "is_part",
    "join_text",
    "merge_reasoning_details",
    "reasoning_details",
]

# What OpenAI takes as ``input_audio``; every other file is a ``file`` part.
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

# Where a detail of a kind that streams cut has its text.
_CUT = {"reasoning.text": "text", "reasoning.summary": "summary"}


def join_text(blocks: list[TextBlock]) -> str:
    """Several texts as one.

    What a model streamed in stretches (around its calls and citations) is one text; texts that were written apart are
    joined by a newline, as ``spec/003`` does.
    """
    text = ""
    before: TextBlock | None = None
    for block in blocks:
        if not block.text:
            continue
        streamed = before is not None and "provider" in before.metadata and "provider" in block.metadata
        text += block.text if before is None or streamed else "\n" + block.text
        before = block
    return text


def is_part(raw: Any) -> bool:
    """Whether this may stand in ``content``."""
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def audio_id(block: TextBlock) -> str | None:
    """The id of a spoken answer, whose transcript this text is."""
    audio = block.metadata.get("audio")
    found = audio.get("id") if isinstance(audio, dict) else None
    return found if isinstance(found, str) and found else None


def content_of(said: Sequence[Block]) -> str | list[dict[str, Any]] | None:
    """The content of an assistant message: its text, or parts in the order in which they came, or None."""
    texts = [block for block in said if isinstance(block, TextBlock)]
    if len(texts) == len(said):
        return join_text(texts) or None
    parts: list[dict[str, Any]] = []
    for block in said:
        if isinstance(block, OpaqueBlock):
            parts.append(block.raw)
        elif isinstance(block, ReasoningBlock):
            inner = [{"type": "text", "text": block.text}] if block.text else []
            signature = {} if block.signature is None else {"signature": block.signature}
            parts.append({"type": "thinking", "thinking": inner, **signature})
        elif isinstance(block, TextBlock) and block.text:
            parts.append({"type": "text", "text": block.text})
    return parts


def file_annotations(block: TextBlock) -> list[Any]:
    """The annotations of a text that say what a file held."""
    cited = block.metadata.get("citations")
    return [
        source
        for source in (cited if isinstance(cited, list) else ())
        if isinstance(source, dict) and source.get("type") == "file"
    ]


def image_of(block: FileBlock) -> dict[str, Any] | None:
    """An image that the model made, as it sent it."""
    raw = block.metadata.get("raw")
    return raw if isinstance(raw, dict) and "image_url" in raw else None


def reasoning_details(block: ReasoningBlock) -> list[Any]:
    """OpenRouter's typed reasoning, as it was streamed."""
    details = block.metadata.get("reasoning_details")
    return details if isinstance(details, list) else []


def merge_reasoning_details(details: list[Any]) -> list[Any]:
    """Reasoning details as the model made them: a stream cuts the text of one into many, with one index.

    They are wanted back whole, for a signature is checked against the whole text
    (https://openrouter.ai/docs/use-cases/reasoning-tokens: "the entire sequence must match").
    """
    groups: list[list[Any]] = []
    for detail in details:
        if groups and _continues(groups[-1][0], detail):
            groups[-1].append(detail)
        else:
            groups.append([detail])
    return [_merged(group) if len(group) > 1 else group[0] for group in groups]


def _continues(first: Any, detail: Any) -> bool:
    return (
        isinstance(first, dict)
        and isinstance(detail, dict)
        and detail.get("type") in list(_CUT)
        and all(first.get(name) == detail.get(name) for name in ("type", "index"))
    )


def _merged(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for piece in pieces:
        made |= {name: value for name, value in piece.items() if value is not None or name not in made}
    field = _CUT[made["type"]]
    texts = [piece[field] for piece in pieces if isinstance(piece.get(field), str)]
    if texts:
        made[field] = "".join(texts)
    return made


def image_part(data: str) -> dict[str, Any]:
    """An image of a person.

    Raises:
        UnsupportedContent: it is neither a base64 data URL nor an address.
    """
    if not data.startswith(("data:image/", "http://", "https://")) or (
        data.startswith("data:") and ";base64," not in data
    ):
        raise UnsupportedContent(
            f"an image must be a base64 data URL or an http(s) address to go into a chat message, not {data[:40]!r}"
        )
    return {"type": "image_url", "image_url": {"url": data}}


def file_part(block: FileBlock, *, by_address: bool, document: bool = False) -> dict[str, Any]:
    """A file; ``by_address``: the dialect fetches files itself; ``document``: it is a part ``document_url``.

    Raises:
        UnsupportedContent: its data is wanted and not there.
    """
    media_type = block.media_type or "application/octet-stream"
    data = block.data or ""
    if data.startswith("data:"):
        media_type = data[5:].partition(";")[0] or media_type
    elif data:
        data = f"data:{media_type};base64,{data}"
    if media_type.startswith("image/"):
        return image_part(data or block.url or "")
    fetched = by_address and (block.url or "").startswith(("http://", "https://"))
    if document and media_type not in _AUDIO_FORMATS and (data or fetched):
        part = {"type": "document_url", "document_url": data or block.url}
        return part | ({"document_name": block.name} if block.name else {})
    if not data and fetched:
        return {"type": "file", "file": {"filename": block.name or "file", "file_data": block.url}}
    if not data:
        raise UnsupportedContent(f"a chat message takes a file's data, not its address: {block.url or block.name!r}")
    if media_type in _AUDIO_FORMATS:
        audio = {"data": data.partition(",")[2], "format": _AUDIO_FORMATS[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    return {"type": "file", "file": {"filename": block.name or "file", "file_data": data}}
