"""Conversion of images, audio and files to Chat Completions' parts, in the form that a dialect accepts, and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history import FileBlock, ImageBlock
from streamkit.history.content import OWN_PART
from streamkit.history.result_parts import detail_metadata
from streamkit.history.tool_results import ResultPart, decode_text_file, result_parts
from streamkit.providers.openai_chat.dialects import ChatDialect, MediaForm
from streamkit.values.media import (
    has_type_in,
    is_image_source,
    is_url,
    normalize_data_url,
    parse_data_url,
    quote_source,
    to_data_url,
)

__all__ = ["convert_media", "convert_tool_media", "image_address", "image_part", "parse_media_part"]

# The media types that OpenAI accepts as ``input_audio``; every other file is a ``file`` part.
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_VIDEO = "video_url"
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def convert_media(block: ImageBlock | FileBlock, traits: ChatDialect) -> dict[str, Any]:
    """Return an image or file as a part of a user message."""
    if isinstance(block, FileBlock):
        own = block.metadata.get(OWN_PART) if traits.is_from_provider(block.metadata) else None
        if isinstance(own, dict):
            return own
        if (text := decode_text_file(block)) and not traits.media.document_parts:
            # "Expected a base64-encoded data URL with an application/pdf MIME type" (vercel/ai#7266)
            return {"type": "text", "text": f"{block.name}:\n{text}" if block.name else text}
        return _file_part(block, traits.media)
    part = image_part(block.data, traits.media.image_types)
    detail = block.metadata.get("detail")
    return {**part, "image_url": {**part["image_url"], "detail": detail}} if isinstance(detail, str) else part


def convert_tool_media(block: ImageBlock | FileBlock, traits: ChatDialect) -> dict[str, Any]:
    """Return an image or file of a tool as a part of a user message.

    Raises:
        UnsupportedContent: a chat message does not take it in this form, or few servers accept the file.
    """
    part = convert_media(block, traits)
    if isinstance(block, FileBlock) and part["type"] in ("text", "file", "document_url"):
        kind = (block.media_type or "application/pdf").lower()
        if kind != "application/pdf":
            # https://platform.openai.com/docs/guides/pdf-files; a text file is sent as its text
            raise UnsupportedContent(f"few servers of this wire accept files other than PDF, such as {kind}")
    return part


def image_part(data: str, types: Collection[str] | None = None) -> dict[str, Any]:
    """Return the part of an image.

    Args:
        data: a base64 data URL or an http(s) address.
        types: the media types that the dialect takes; None if they are not documented.

    Raises:
        UnsupportedContent: the image is neither, or of another media type.
    """
    if not is_image_source(data) or not (types is None or has_type_in(data, types)):
        form = f" of {', '.join(sorted(types))}" if types else ""
        raise UnsupportedContent(
            f"a chat message takes an image as a base64 data URL{form} or an http(s) address, not {quote_source(data)}"
        )
    return {"type": "image_url", "image_url": {"url": data}}


def _file_part(block: FileBlock, form: MediaForm) -> dict[str, Any]:
    """Return the part of a file. If its data is a data URL, the media type of the URL takes precedence."""
    data, address = block.data or "", block.url or ""
    url = parse_data_url(data)
    media_type = (url.media_type if url is not None else "") or block.media_type or "application/octet-stream"
    data_url = normalize_data_url(data) or (to_data_url(data, media_type) if data else "")
    if media_type.startswith("image/"):
        return image_part(data_url or address, form.image_types)
    if media_type.startswith("video/"):
        if not form.video_parts or not (data_url or is_url(address)):
            raise UnsupportedContent(f"this server takes no video: {quote_source(block.url or block.name)}")
        return {"type": _VIDEO, _VIDEO: {"url": data_url or address}}
    has_address = form.file_addresses and is_url(address)
    if form.document_parts and media_type not in _AUDIO_FORMATS and (data or has_address):
        part = {"type": "document_url", "document_url": data_url or address}
        return part | ({"document_name": block.name} if block.name else {})
    if not data and not has_address:
        raise UnsupportedContent(
            f"a chat message takes a file's data, not its address: {quote_source(block.url or block.name)}"
        )
    if data and media_type in _AUDIO_FORMATS:
        audio = {"data": data if url is None else url.data, "format": _AUDIO_FORMATS[media_type]}
        return {"type": "input_audio", "input_audio": audio}
    return {"type": "file", "file": {"filename": block.name or "file", "file_data": data_url or address}}


def image_address(part: dict[str, Any]) -> str | None:
    """Return the address or data URL of an image part, or None if it has none."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def parse_media_part(part: dict[str, Any], provider: str = "") -> list[ResultPart]:
    """Return the blocks of an image, audio, video or file part; empty if history has no block for the part.

    A video of unknown type is taken for MP4. Its own *provider* gets it, and a text file, back as it was.
    """
    kind = part.get("type")
    if kind == _VIDEO:
        video = part.get(_VIDEO)
        address = video.get("url") if isinstance(video, dict) else video
        if not isinstance(address, str):
            return []
        url = parse_data_url(address)
        media_type = (url.media_type if url is not None else "") or "video/mp4"
        own = {"provider": provider, OWN_PART: part}
        if url is not None:
            return [FileBlock(media_type=media_type, data=address, metadata=own)]
        return [FileBlock(media_type=media_type, url=address, metadata=own)]
    if kind == "document_url":
        return result_parts([part]) or []
    if kind == "image_url":
        address = image_address(part)
        metadata = detail_metadata(part["image_url"]) if isinstance(part["image_url"], dict) else {}
        return [] if address is None else [ImageBlock(data=address, metadata=metadata)]
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
    if is_url(data):
        return [FileBlock(url=data, name=name)]
    url = parse_data_url(data)
    file = FileBlock(media_type=(url.media_type if url is not None else "") or None, data=data, name=name)
    if provider and decode_text_file(file):
        file.metadata.update({"provider": provider, OWN_PART: part})
    return [file]
