"""Images, files and tools' results in the form in which Converse takes them.

It knows single values, not messages: where a part goes is ``render``'s business. Binary values are base64 text, as the
JSON body has them; boto3 wants the bytes and makes the base64 itself.
Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html and, for what a result may
hold, .../API_runtime_ToolResultContentBlock.html (text, json, image, document, video; images not by every model).
"""

from __future__ import annotations

import re
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.tool_results import result_parts
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.tool_result_media import convert_or_describe

__all__ = ["as_text", "media_part", "result_content"]

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
_VIDEOS = {
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
_DATA_URL = re.compile(r"data:([\w.+/-]+)(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


def as_text(value: Any) -> str:
    """A result as text: a string as it is, nothing as nothing, all else as compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


def result_content(value: Any, changes: list[str]) -> list[Json]:
    """A tool's result as the content of a ``toolResult``: never empty and never blank, for both are refused.

    ``json`` must be an object (sigoden/aichat#1542), so a list or a number goes as text.

    Args:
        value: the result.
        changes: takes a sentence for what cannot be carried, in whose place stands text.
    """
    if isinstance(value, dict) and value:
        return [{"json": value}]
    parts = result_parts(value, texts_alone=True)
    if parts is None:
        texts: list[Json | str] = [as_text(value)]
    else:
        texts = [
            part.text if isinstance(part, TextBlock) else convert_or_describe(part, media_part, changes, "Bedrock")
            for part in parts
        ]
    made = [{"text": part} if isinstance(part, str) else part for part in texts if part and not _is_blank(part)]
    return made or [{"text": "(no output)"}]  # NousResearch/hermes-agent#55092


def _is_blank(part: Json | str) -> bool:
    return isinstance(part, str) and not part.strip()


def media_part(part: ImageBlock | FileBlock) -> Json:
    """An image or a file.

    Raises:
        UnsupportedContent: as ``image_part`` and ``file_part``.
    """
    return image_part(part.data) if isinstance(part, ImageBlock) else file_part(part)


def image_part(data: str) -> Json:
    """An image: a base64 data URL, or an address in S3.

    Raises:
        UnsupportedContent: it is neither, or of a kind that the API does not take.
    """
    if data.startswith("s3://"):
        ending = data.rpartition(".")[2].lower()
        return {"image": {"format": _IMAGES.get(f"image/{ending}", "png"), "source": {"s3Location": {"uri": data}}}}
    begin = _DATA_URL.match(data)
    kind = _IMAGES.get(begin[1].lower()) if begin is not None else None
    if begin is None or kind is None:
        raise UnsupportedContent(
            "Bedrock takes images as base64 data URLs of image/gif, image/jpeg, image/png, image/webp or as s3 "
            f"addresses, not {data[:40]!r}"
        )
    return {"image": {"format": kind, "source": {"bytes": data[begin.end() :]}}}


def file_part(block: FileBlock) -> Json:
    """A file as an image, a video or a document.

    Raises:
        UnsupportedContent: it is of another kind, or has neither data nor an address in S3.
    """
    data, media_type = block.data, (block.media_type or "").lower().partition(";")[0]
    begin = _DATA_URL.match(data) if data else None
    if data and begin:
        media_type, data = media_type or begin[1].lower(), data[begin.end() :]
    if data:
        source: Json = {"bytes": data}
    elif block.url and block.url.startswith("s3://"):
        source = {"s3Location": {"uri": block.url}}
    else:
        raise UnsupportedContent(
            f"Bedrock takes files as data or as s3 addresses; {block.name or block.url!r} is neither"
        )
    if media_type in _IMAGES:
        return {"image": {"format": _IMAGES[media_type], "source": source}}
    if media_type in _VIDEOS:
        return {"video": {"format": _VIDEOS[media_type], "source": source}}
    if media_type in _DOCUMENTS:
        return {"document": {"format": _DOCUMENTS[media_type], "name": _document_name(block.name), "source": source}}
    raise UnsupportedContent(
        f"Bedrock takes images, videos and documents as files, not {media_type or 'an unknown kind'}"
    )


def _document_name(name: str | None) -> str:
    """A name of letters, digits, single spaces, hyphens and brackets, as the API wants it."""
    stem = (name or "").rpartition(".")[0] or name or ""
    return " ".join(re.sub(r"[^A-Za-z0-9\s()\[\]-]", "-", stem).split())[:180] or "document"
