"""Images and files in the form in which Gemini takes them: data inline, or the address of it.

It knows single values, not contents. Source: https://ai.google.dev/api/caching#Part (``inlineData``, ``fileData``), and
for results https://ai.google.dev/gemini-api/docs/function-calling#multimodal.
"""

from __future__ import annotations

import re
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock

__all__ = ["file_part", "image_part", "is_allowed_in_result", "media_part"]

_DATA_URL = re.compile(r"data:([\w.+/-]*)((?:;[\w.+=-]+)*);base64,", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?|gs)://", re.IGNORECASE)
_BY_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
}


def image_part(data: str) -> dict[str, Any]:
    """An image: a base64 data URL, or an address of the web, of Cloud Storage or of the Files API.

    Raises:
        UnsupportedContent: it is neither.
    """
    if _ADDRESS.match(data):
        # Vertex wants a media type with every address; the API itself finds out.
        ending = re.sub(r"[?#].*", "", data).rpartition(".")[2].lower()
        return _file_data(data, _BY_ENDING.get(ending))
    begin = _DATA_URL.match(data)
    if begin is None:
        raise UnsupportedContent(
            f"Gemini takes images as base64 data URLs or as http, https and gs addresses, not {data[:40]!r}"
        )
    return {"inlineData": {"mimeType": begin[1].lower() or "image/png", "data": data[begin.end() :]}}


def file_part(block: FileBlock) -> dict[str, Any]:
    """A file: its base64 data with its media type, or its address.

    Raises:
        UnsupportedContent: it has neither data nor an address, or data of an unknown kind.
    """
    data, media_type = block.data, block.media_type
    address = block.url if block.url and not data else None
    if address and (begin := _DATA_URL.match(address)):
        data, address = address, None
    if address:
        if not _ADDRESS.match(address):
            raise UnsupportedContent(f"Gemini takes files from http, https and gs addresses, not {address[:40]!r}")
        return _file_data(address, media_type)
    if not data:
        raise UnsupportedContent(f"the file {block.name!r} has neither data nor an address")
    begin = _DATA_URL.match(data)
    if begin is not None:
        media_type, data = media_type or begin[1].lower(), data[begin.end() :]
    if not media_type:
        raise UnsupportedContent(f"the file {block.name!r} has no media type, which Gemini wants with data")
    return {"inlineData": {"mimeType": media_type, "data": data}}


def media_part(block: ImageBlock | FileBlock) -> dict[str, Any]:
    """An image or file that a tool made.

    Raises:
        UnsupportedContent: as ``image_part`` and ``file_part``; its data is of a kind that no model reads.
    """
    if isinstance(block, ImageBlock):
        return image_part(block.data)
    part = file_part(block)
    kind = part.get("inlineData", part.get("fileData", {})).get("mimeType") or "application/pdf"
    if kind != "application/pdf" and not kind.startswith(("image/", "audio/", "video/", "text/")):
        # https://ai.google.dev/gemini-api/docs/file-input-methods: "Unsupported MIME type" for all else
        raise UnsupportedContent(f"Gemini takes images, sound, films, text and PDF as files, not {kind!r}")
    return part


def is_allowed_in_result(part: dict[str, Any]) -> bool:
    """Whether a part may stand in a function response: only data, and only of these kinds."""
    return part.get("inlineData", {}).get("mimeType") in _NESTED


_NESTED = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def _file_data(address: str, media_type: str | None) -> dict[str, Any]:
    where = {"fileUri": address}
    if media_type:
        where["mimeType"] = media_type
    return {"fileData": where}
