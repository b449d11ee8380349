"""The parts of a tool's result that shows images or files, read as blocks.

A result that is more than text or data is a list of parts. Its own form is the JSON of history's blocks, see
``tool_results``. Tools and stored conversations also contain parts of other formats: MCP
(https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool-result), Anthropic, Chat Completions,
Mistral and Responses. Each format has one table of readers here, by the type of the part; ``_READERS`` merges them.

Data must not be mistaken for parts: a directory listing is also a list of objects whose type is ``file``. So a list is
parts only if every item is a valid part and at least one of them is an image or a file.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.values.media import decode_text, is_url, normalize_data_url, parse_data_url, to_data_url

__all__ = ["PartReader", "ResultPart", "decode_text_file", "detail_metadata", "read_part", "result_parts"]

#: A part of a result.
ResultPart: TypeAlias = TextBlock | ImageBlock | FileBlock

#: Reads a part of one type; None if it is not a part of the reader's format.
PartReader: TypeAlias = Callable[[dict[str, Any]], ResultPart | None]

_URL_SCHEMES = ("http", "https", "s3", "gs")
_MEDIA_TYPE_FIELDS = ("media_type", "mediaType", "mimeType")
_METADATA_FIELDS = ("annotations", "_meta", "meta", "metadata")  # the first three are MCP's


def result_parts(result: Any, *, texts_alone: bool = False) -> list[ResultPart] | None:
    """Return the parts of the result of a block as blocks, in order; None if it is text or data.

    A list of nothing but text parts is data too, unless ``texts_alone``.
    """
    if not isinstance(result, list):
        return None
    parts: list[ResultPart] = []
    for item in result:
        part = read_part(item)
        if part is None:
            return None
        parts.append(part)
    has_media = any(not isinstance(part, TextBlock) for part in parts)
    return parts if has_media or (texts_alone and parts) else None


def read_part(item: Any) -> ResultPart | None:
    """Return an item of a result as a block, None if it is not a part."""
    kind = item.get("type") if isinstance(item, dict) else None
    for reader in _READERS.get(kind, ()) if isinstance(kind, str) else ():
        part = reader(item)
        if part is not None:
            return part
    return None


def decode_text_file(block: FileBlock) -> str | None:
    """Return the text of a file; None if it is not a text file, or if its data is missing or invalid."""
    return decode_text(block.data or "", block.media_type)


# ---------------------------------------------------------------- history's own parts, and MCP's


def _read_text(item: dict[str, Any]) -> ResultPart | None:
    return TextBlock(text=item["text"]) if isinstance(item.get("text"), str) else None


def _read_image(item: dict[str, Any]) -> ResultPart | None:
    """Read an image of history, or of MCP (bare base64 and a media type)."""
    return None if item.keys() - {"type", "data", *_MEDIA_TYPE_FIELDS, *_METADATA_FIELDS} else _to_image(item)


def _read_file(item: dict[str, Any]) -> ResultPart | None:
    if "media_type" not in item or item.keys() - {"type", "media_type", "data", "url", "name", "metadata"}:
        return None
    media_type, data, url, name = values = [item.get(name) for name in ("media_type", "data", "url", "name")]
    if not (data or url) or not all(value is None or isinstance(value, str) for value in values):
        return None
    return FileBlock(media_type=media_type, data=data, url=url, name=name, metadata=_metadata(item))


def _read_mcp_audio(item: dict[str, Any]) -> ResultPart | None:
    data, media_type = item.get("data"), _media_type(item)
    if not isinstance(data, str) or not data or media_type is None:
        return None
    return FileBlock(media_type=media_type, data=data)


def _read_mcp_resource(item: dict[str, Any]) -> ResultPart | None:
    """Read an embedded resource: its text is text, its blob is an image or a file."""
    resource = item.get("resource")
    if not isinstance(resource, dict):
        return None
    text, blob, media_type = resource.get("text"), resource.get("blob"), _media_type(resource)
    if isinstance(text, str):
        return TextBlock(text=text)
    if not isinstance(blob, str) or not blob:
        return None
    if media_type is not None and media_type.startswith("image/"):
        return ImageBlock(data=to_data_url(blob, media_type))
    name = str(resource.get("uri") or "").rstrip("/").rpartition("/")[2]
    return FileBlock(media_type=media_type, data=blob, name=name or None)


def _read_mcp_resource_link(item: dict[str, Any]) -> ResultPart | None:
    """Read a link as its own JSON: only the MCP server can read the resource."""
    if not isinstance(item.get("uri"), str):
        return None
    try:
        return TextBlock(text=json.dumps(item, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        return TextBlock(text=str(item["uri"]))


_OWN_READERS: dict[str, PartReader] = {"text": _read_text, "image": _read_image, "file": _read_file}
_MCP_READERS: dict[str, PartReader] = {
    "audio": _read_mcp_audio,
    "resource": _read_mcp_resource,
    "resource_link": _read_mcp_resource_link,
}


# ---------------------------------------------------------------- Anthropic


def _read_anthropic_image(item: dict[str, Any]) -> ResultPart | None:
    source = item.get("source")
    if not isinstance(source, dict):
        return None
    return ImageBlock(data=source["url"]) if isinstance(source.get("url"), str) else _to_image(source)


def _read_anthropic_document(item: dict[str, Any]) -> ResultPart | None:
    source, title = item.get("source"), item.get("title")
    if not isinstance(source, dict):
        return None
    name = title if isinstance(title, str) else None
    if isinstance(source.get("url"), str):
        return FileBlock(media_type="application/pdf", url=source["url"], name=name)
    data = source.get("data")
    if not isinstance(data, str) or not data:
        return None
    if source.get("type") == "text":
        data = b64encode(data.encode("utf-8", "replace")).decode()
    return FileBlock(media_type=_media_type(source), data=data, name=name)


_ANTHROPIC_READERS: dict[str, PartReader] = {"image": _read_anthropic_image, "document": _read_anthropic_document}


# ---------------------------------------------------------------- OpenAI Responses


def _read_openai_image(item: dict[str, Any]) -> ResultPart | None:
    """Read ``image_url`` of Chat Completions, an object, or ``input_image`` of Responses, a text."""
    image = item.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    metadata = {} if isinstance(image, dict) else detail_metadata(item)
    return ImageBlock(data=url, metadata=metadata) if isinstance(url, str) and url else None


def detail_metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with the detail in which a model sees an image or file of OpenAI's; empty for the default."""
    detail = item.get("detail")
    return {"detail": detail} if isinstance(detail, str) and detail != "auto" else {}


def _read_openai_file(item: dict[str, Any]) -> ResultPart | None:
    """Read ``input_file`` of Responses, or the ``file`` of Chat Completions; the data may be a data URL."""
    data, url, filename = item.get("file_data"), item.get("file_url"), item.get("filename")
    name = filename if isinstance(filename, str) else None
    if isinstance(data, str) and is_url(data, _URL_SCHEMES):
        return FileBlock(url=data, name=name)
    if isinstance(data, str) and data:
        data_url = parse_data_url(data)
        if data_url is None:
            return FileBlock(data=data, name=name)
        return FileBlock(media_type=data_url.media_type or None, data=data_url.data, name=name)
    return FileBlock(url=url, name=name) if isinstance(url, str) and url else None


_OPENAI_RESPONSES_READERS: dict[str, PartReader] = {
    "input_text": _read_text,
    "output_text": _read_text,
    "input_image": _read_openai_image,
    "input_file": _read_openai_file,
}

# ---------------------------------------------------------------- Chat Completions, and Mistral's dialect of it


_OPENAI_CHAT_READERS: dict[str, PartReader] = {
    "image_url": _read_openai_image,
    "file": lambda item: _read_openai_file(item["file"]) if isinstance(item.get("file"), dict) else None,
    "document_url": lambda item: _read_openai_file(  # Mistral's
        {"file_data": item.get("document_url"), "filename": item.get("document_name")}
    ),
}


# ---------------------------------------------------------------- dispatch


def _merge(*tables: Mapping[str, PartReader]) -> dict[str, tuple[PartReader, ...]]:
    """Merge tables; of several readers of one type the first one that accepts a part counts."""
    kinds = dict.fromkeys(kind for table in tables for kind in table)
    return {kind: tuple(table[kind] for table in tables if kind in table) for kind in kinds}


_READERS = _merge(_OWN_READERS, _MCP_READERS, _ANTHROPIC_READERS, _OPENAI_CHAT_READERS, _OPENAI_RESPONSES_READERS)


def _to_image(item: Mapping[str, Any]) -> ImageBlock | None:
    """Return an image from a URL, a data URL, or base64 data with a media type."""
    data, media_type = item.get("data"), _media_type(item)
    if not isinstance(data, str) or not data:
        return None
    url = data if is_url(data, _URL_SCHEMES) else normalize_data_url(data)
    if url is not None:
        return ImageBlock(data=url, metadata=_metadata(item))
    return ImageBlock(data=to_data_url(data, media_type)) if media_type is not None else None


def _media_type(item: Mapping[str, Any]) -> str | None:
    return next((value for name in _MEDIA_TYPE_FIELDS if isinstance(value := item.get(name), str) and value), None)


def _metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    metadata = item.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
