"""Images and files as parts of Gemini: data inline, or a URI.

https://ai.google.dev/api/caching#Part (``inlineData``, ``fileData``), and for results of tools
https://ai.google.dev/gemini-api/docs/function-calling#multimodal

This module converts single values and must not depend on contents or their order.
"""

from __future__ import annotations

from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock
from streamkit.providers.decoding.decoding import read_json
from streamkit.values.media import is_url, media_type_of_name, normalize_data, parse_data_url, quote_source

__all__ = ["file_part", "image_part", "is_allowed_in_result", "media_part", "named_media_part", "restore_object"]

Json = dict[str, Any]

# https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats; others are refused: "Unsupported MIME
# type: image/svg+xml" (google-gemini/gemini-cli#3054, also GIF: google-gemini/gemini-cli#14762, microsoft/vscode#286628)
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_SCHEMES = ("http", "https", "gs")
_MEDIA_TYPES_IN_RESULTS = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def image_part(data: str) -> dict[str, Any]:
    """Return the part of an image.

    Args:
        data: a data URL, or a URI of the web, of Cloud Storage or of the Files API.

    Raises:
        UnsupportedContent: the data is neither, or of an image type that the API refuses.
    """
    if is_url(data, _SCHEMES):
        # Vertex requires a media type with every URI; the Gemini API detects it.
        media_type = media_type_of_name(data) or ""
        return _file_data(data, media_type if media_type.startswith("image/") else None)
    url = parse_data_url(data)
    if url is None:
        raise UnsupportedContent(
            f"Gemini accepts an image as a data URL or as an http, https or gs URI, not {quote_source(data)}"
        )
    return _inline_image(url.media_type or "image/png", url.data)


def file_part(block: FileBlock) -> dict[str, Any]:
    """Return the part of a file: its data with its media type, or its URI.

    Raises:
        UnsupportedContent: the file has neither data nor a URI, or data without a media type, or
            of an image type that the API refuses.
    """
    data, media_type = block.data, block.media_type
    uri = block.url if block.url and not data else None
    if uri and parse_data_url(uri) is not None:
        data, uri = uri, None
    if uri:
        if not is_url(uri, _SCHEMES):
            raise UnsupportedContent(f"Gemini accepts a file as an http, https or gs URI, not {quote_source(uri)}")
        return _file_data(uri, media_type)
    if not data:
        raise UnsupportedContent(f"the file {block.name!r} has neither data nor a URI")
    media_type, data, _ = normalize_data(data, media_type)
    if not media_type:
        raise UnsupportedContent(f"the file {block.name!r} has no media type, which Gemini requires with data")
    if media_type.startswith("image/"):
        return _inline_image(media_type, data)
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _inline_image(media_type: str, data: str) -> dict[str, Any]:
    if media_type == "image/jpg":
        media_type = "image/jpeg"  # CherryHQ/cherry-studio#3088
    if media_type not in _IMAGES:
        raise UnsupportedContent(f"Gemini accepts images of {', '.join(sorted(_IMAGES))}, not {media_type!r}")
    return {"inlineData": {"mimeType": media_type, "data": data}}


def media_part(block: ImageBlock | FileBlock) -> dict[str, Any]:
    """Return the part of an image or file in a tool's result.

    Raises:
        UnsupportedContent: as ``image_part`` and ``file_part``, or no model accepts its media type.
    """
    if isinstance(block, ImageBlock):
        return image_part(block.data)
    part = file_part(block)
    media_type = part.get("inlineData", part.get("fileData", {})).get("mimeType") or "application/pdf"
    if media_type != "application/pdf" and not media_type.startswith(("image/", "audio/", "video/", "text/")):
        # https://ai.google.dev/gemini-api/docs/file-input-methods: "Unsupported MIME type" for all others
        raise UnsupportedContent(f"Gemini accepts images, audio, video, text and PDF as files, not {media_type!r}")
    return part


def is_allowed_in_result(part: dict[str, Any]) -> bool:
    """Return True if a function response may contain the part: inline data of some media types."""
    return part.get("inlineData", {}).get("mimeType") in _MEDIA_TYPES_IN_RESULTS


def named_media_part(block: ImageBlock | FileBlock) -> dict[str, Any]:
    """Return the part of an image or file in a result whose object refers to its files by name.

    The reference is ``{"image": {"$ref": "a.png"}}``
    (https://ai.google.dev/gemini-api/docs/function-calling#multimodal).

    Raises:
        UnsupportedContent: as ``media_part``.
    """
    part, name = media_part(block), block.name if isinstance(block, FileBlock) else None
    inline = part.get("inlineData")
    return {**part, "inlineData": {**inline, "displayName": name}} if name and inline else part


def restore_object(text: str) -> Json | None:
    """Return a function response that was an object, from its JSON text; None if that was changed to something else."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _file_data(uri: str, media_type: str | None) -> dict[str, Any]:
    file_data = {"fileUri": uri}
    if media_type:
        file_data["mimeType"] = media_type
    return {"fileData": file_data}
