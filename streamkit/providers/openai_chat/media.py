"""Images, audio and files of a user message, to Chat Completions' parts and back.

Stateless. Which dialect accepts what is decided in ``messages``.
"""

from __future__ import annotations

from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history import FileBlock, ImageBlock
from streamkit.history.tool_results import ResultPart, result_parts

# For messages.py, which still imports these from here under their former names.
from streamkit.providers.openai_chat.message_parts import (
    assistant_content as content_of,
)
from streamkit.providers.openai_chat.message_parts import (
    audio_id,
    file_annotations,
    join_text,
    merge_reasoning_details,
    reasoning_details,
)
from streamkit.providers.openai_chat.message_parts import (
    generated_image as image_of,
)
from streamkit.providers.openai_chat.message_parts import (
    is_content_part as is_part,
)

__all__ = [
    "audio_id",
    "content_of",
    "file_annotations",
    "file_part",
    "image_address",
    "image_of",
    "image_part",
    "is_part",
    "join_text",
    "merge_reasoning_details",
    "parse_media_part",
    "reasoning_details",
]

# The media types that OpenAI accepts as ``input_audio``; every other file is a ``file`` part.
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def image_part(data: str) -> dict[str, Any]:
    """Return the part of an image.

    Raises:
        UnsupportedContent: the image is neither a base64 data URL nor an http(s) address.
    """
    if not data.startswith(("data:image/", "http://", "https://")) or (
        data.startswith("data:") and ";base64," not in data
    ):
        raise UnsupportedContent(
            f"a chat message takes an image as a base64 data URL or an http(s) address, not {data[:40]!r}"
        )
    return {"type": "image_url", "image_url": {"url": data}}


def file_part(block: FileBlock, *, by_address: bool, document: bool = False) -> dict[str, Any]:
    """Return the part of a file.

    Args:
        block: the file.
        by_address: the dialect fetches files from their address itself.
        document: the part is a ``document_url``.

    Raises:
        UnsupportedContent: the dialect needs the file's data, and the block has none.
    """
    media_type = block.media_type or "application/octet-stream"
    data = block.data or ""
    if data.startswith("data:"):
        media_type = data[5:].partition(";")[0] or media_type
    elif data:
        data = f"data:{media_type};base64,{data}"
    if media_type.startswith("image/"):
        return image_part(data or block.url or "")
    has_address = by_address and (block.url or "").startswith(("http://", "https://"))
    if document and media_type not in _AUDIO_FORMATS and (data or has_address):
        part = {"type": "document_url", "document_url": data or block.url}
        return part | ({"document_name": block.name} if block.name else {})
    if not data and has_address:
        return {"type": "file", "file": {"filename": block.name or "file", "file_data": block.url}}
    if not data:
        raise UnsupportedContent(f"a chat message takes a file's data, not its address: {block.url or block.name!r}")
    if media_type in _AUDIO_FORMATS:
        audio = {"data": data.partition(",")[2], "format": _AUDIO_FORMATS[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    return {"type": "file", "file": {"filename": block.name or "file", "file_data": data}}


def image_address(part: dict[str, Any]) -> str | None:
    """Return the address or data URL of an image part, or None if it has none."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def parse_media_part(part: dict[str, Any]) -> list[ResultPart]:
    """Return the blocks of an image, audio or file part; empty if history has no block for the part."""
    kind = part.get("type")
    if kind == "document_url":
        return result_parts([part]) or []
    if kind == "image_url":
        address = image_address(part)
        return [] if address is None else [ImageBlock(data=address)]
    value = part.get(kind) if isinstance(kind, str) else None
    if not isinstance(value, dict):
        return []
    if kind == "input_audio" and isinstance(value.get("data"), str):
        audio_format = str(value.get("format"))
        return [FileBlock(media_type=_AUDIO_TYPES.get(audio_format, f"audio/{audio_format}"), data=value["data"])]
    data, filename = value.get("file_data"), value.get("filename")
    if kind != "file" or not isinstance(data, str):  # a file_id refers to OpenAI's own store
        return []
    name = filename if isinstance(filename, str) else None
    if data.startswith(("http://", "https://")):
        return [FileBlock(url=data, name=name)]
    media_type = data[5:].partition(";")[0].partition(",")[0] if data.startswith("data:") else ""
    return [FileBlock(media_type=media_type or None, data=data, name=name)]
