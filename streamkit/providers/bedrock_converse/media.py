"""Images, files and tool results in the form of the Converse API.

This module converts single values. Where a part is placed is up to ``messages``. Binary values are base64 text, as in
the JSON body; boto3 takes bytes and makes the base64 itself.
Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html and, for what a result may
contain, .../API_runtime_ToolResultContentBlock.html (text, json, image, document, video; images not by every model).
"""

from __future__ import annotations

import re
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.tool_results import result_parts
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.rendering.media import convert_or_describe
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.media import is_url, normalize_data, parse_data_url, quote_source, to_data_url
from streamkit.values.request_changes import RequestChange

__all__ = ["media_part", "parse_media_part", "result_content"]

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

#: Converse's own parts that a result may contain, in forms that history has no block for (a document with citations, an
#: address of another account, a format of its own), and the fields that distinguish them from data.
_RESULT_PART_FIELDS = {
    "image": {"format", "source"},
    "document": {"name", "source"},
    "video": {"format", "source"},
    "searchResult": {"source", "title", "content"},
}
_SOURCES = ("bytes", "s3Location", "text", "content")

#: The media types by the kind of a part and its format.
_MEDIA_TYPES = {
    kind: {name: media_type for media_type, name in reversed(formats.items())}
    for kind, formats in (("image", _IMAGES), ("document", _DOCUMENTS), ("video", _VIDEOS))
}


def parse_media_part(part: Json) -> ImageBlock | FileBlock | None:
    """Return the image or file of a part; None if it has none that history has a block for."""
    for kind, media_types in _MEDIA_TYPES.items():
        value = part.get(kind)
        if part.keys() != {kind} or not isinstance(value, dict) or value.keys() - {"format", "name", "source"}:
            continue
        source, name = value.get("source"), value.get("name")
        media_type = media_types.get(value["format"]) if isinstance(value.get("format"), str) else None
        location = source.get("s3Location") if isinstance(source, dict) else None
        url = location.get("uri") if isinstance(location, dict) and location.keys() == {"uri"} else None
        data = source.get("bytes") if isinstance(source, dict) else None
        if media_type is None or not (isinstance(data, str) or isinstance(url, str)):
            return None
        if kind == "image":
            return ImageBlock(data=to_data_url(data, media_type) if isinstance(data, str) else str(url))
        return FileBlock(media_type=media_type, data=data, url=url, name=name if isinstance(name, str) else None)
    return None


def result_content(value: Any, changes: list[RequestChange]) -> list[Json]:
    """Return a tool's result as the content of a ``toolResult``: never empty and never blank, as both are refused.

    ``json`` must be an object (sigoden/aichat#1542), so a list or a number is sent as text.

    Args:
        value: The result. Converse's own parts in it stay unchanged.
        changes: Gets a sentence for each part that the API refuses; a text replaces it.
    """
    if isinstance(value, dict) and value:
        return [{"json": value}]
    items = _result_items(value, changes) if isinstance(value, list) else None
    if items is None:
        items = [text_or_json(value)]
    kept = [item for item in items if not isinstance(item, str) or item.strip()]
    content = [{"text": item} if isinstance(item, str) else item for item in kept]
    return content or [{"text": "(no output)"}]  # NousResearch/hermes-agent#55092


def _result_items(value: list[Any], changes: list[RequestChange]) -> list[Json | str] | None:
    """Return the parts of a result, texts as text; None if it is data."""
    items: list[Json | str] = []
    for item in value:
        if _is_result_part(item):
            items.append(item)
            continue
        parts = result_parts([item], texts_alone=True)
        if parts is None:
            return None
        [part] = parts
        if isinstance(part, TextBlock):
            items.append(part.text)
        else:
            items.append(convert_or_describe(part, media_part, changes, "Bedrock"))
    return items or None


def _is_result_part(item: Any) -> bool:
    if not isinstance(item, dict) or len(item) != 1:
        return False
    ((kind, part),) = item.items()
    fields = _RESULT_PART_FIELDS.get(kind)
    if fields is None or not isinstance(part, dict) or not fields <= part.keys():
        return False
    source = part["source"]
    if kind == "searchResult":
        return isinstance(source, str) and isinstance(part["content"], list)
    has_name = kind != "document" or isinstance(part["name"], str)
    return has_name and isinstance(source, dict) and len(source) == 1 and next(iter(source)) in _SOURCES


def media_part(part: ImageBlock | FileBlock) -> Json:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: As of ``image_part`` and ``file_part``.
    """
    return image_part(part.data) if isinstance(part, ImageBlock) else file_part(part)


def image_part(data: str) -> Json:
    """Return an image as a part, from its base64 data URL or its address in S3.

    Raises:
        UnsupportedContent: It is neither, or of a media type that the API refuses.
    """
    if is_url(data, ("s3",)):
        extension = data.rpartition(".")[2].lower()
        return {"image": {"format": _IMAGES.get(f"image/{extension}", "png"), "source": {"s3Location": {"uri": data}}}}
    url = parse_data_url(data)
    image_format = _IMAGES.get(url.media_type) if url is not None and url.was_base64 else None
    if url is None or image_format is None:
        raise UnsupportedContent(
            "Bedrock takes images as base64 data URLs of image/gif, image/jpeg, image/png, image/webp or as s3 "
            f"addresses, not {quote_source(data)}"
        )
    return {"image": {"format": image_format, "source": {"bytes": url.data}}}


def file_part(block: FileBlock) -> Json:
    """Return a file as an image, video or document part.

    Raises:
        UnsupportedContent: It is of another media type, or has neither data nor an address in S3.
    """
    media_type, data, _ = normalize_data(block.data or "", block.media_type)
    media_type = media_type.partition(";")[0]
    if data:
        source: Json = {"bytes": data}
    elif block.url and is_url(block.url, ("s3",)):
        source = {"s3Location": {"uri": block.url}}
    else:
        raise UnsupportedContent(
            f"Bedrock takes files as data or as s3 addresses; {quote_source(block.name or block.url)} is neither"
        )
    if media_type in _IMAGES:
        return {"image": {"format": _IMAGES[media_type], "source": source}}
    if media_type in _VIDEOS:
        return {"video": {"format": _VIDEOS[media_type], "source": source}}
    if media_type in _DOCUMENTS:
        return {"document": {"format": _DOCUMENTS[media_type], "name": _document_name(block.name), "source": source}}
    raise UnsupportedContent(
        f"Bedrock takes images, videos and documents as files, not {media_type or 'a file of unknown type'}"
    )


def _document_name(name: str | None) -> str:
    """Return a legal name for a document: letters, digits, single spaces, hyphens and brackets."""
    stem = (name or "").rpartition(".")[0] or name or ""
    return " ".join(re.sub(r"[^A-Za-z0-9\s()\[\]-]", "-", stem).split())[:180] or "document"
