"""The result of an MCP tool: its content as a value for the model, or as the text of an error."""

from __future__ import annotations

import base64
import json
import re
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from mcp import types

from streamkit.history import FileBlock, ImageBlock, TextBlock

__all__ = ["error_text", "to_value"]

_Block: TypeAlias = "TextBlock | ImageBlock | FileBlock"


def to_value(result: types.CallToolResult) -> Any:
    """Return the value of a call for the model.

    By the specification, servers repeat structured content as text, for clients that do not support it. But some have
    the result in the text and facts about it in the data (github.com/NousResearch/hermes-agent/pull/7118: a file's
    text, and its path), others the result in the data and its length in the text
    (github.com/anomalyco/opencode/issues/38923). One is therefore left out only if it repeats the other.
    """
    data = result.structured_content
    blocks = [_block(item) for item in result.content]
    texts = [item.text for item in result.content if isinstance(item, types.TextContent)]
    if data is None:
        if not blocks:
            return None
        return texts[0] if len(texts) == len(blocks) == 1 else blocks
    repeated = _repeats(texts, data)
    if len(texts) == len(blocks) and (repeated or not texts):
        return data
    return blocks if repeated else [*blocks, TextBlock(text=_json(data))]


def error_text(result: types.CallToolResult) -> str:
    """Return the server's error as text."""
    blocks = [_block(item) for item in result.content]
    texts = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    if not texts and result.structured_content is not None:
        return _json(result.structured_content)
    return "\n".join(texts)


def _repeats(texts: list[str], data: Any) -> bool:
    """Return True if the texts are the data, complete or item by item.

    If a function's value is not an object, servers made with the mcp package send ``{"result": value}`` in the data,
    and the value itself in the texts.
    """
    parsed = [_parse(text) for text in texts]
    values = [data, data["result"]] if isinstance(data, dict) and data.keys() == {"result"} else [data]
    for value in values:
        if parsed == [value] or texts == [value]:
            return True
        if isinstance(value, list) and value in (parsed, texts):
            return True
    return False


def _parse(text: str) -> Any:
    """Return the value of a JSON text, or any other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _block(item: types.ContentBlock) -> _Block:
    """Convert a content block of MCP."""
    if isinstance(item, types.TextContent):
        return TextBlock(text=item.text)
    if isinstance(item, types.ResourceLink):
        kind = f" ({item.mime_type})" if item.mime_type else ""
        about = f"\n{item.description}" if item.description else ""
        text = f"{item.title or item.name}{kind}: {item.uri}{about}"
        return TextBlock(text=text, metadata=_uri_metadata(item.uri))
    if isinstance(item, types.EmbeddedResource):
        resource = item.resource
        if isinstance(resource, types.TextResourceContents):
            return TextBlock(text=resource.text, metadata=_uri_metadata(resource.uri))
        return _media(resource.blob, resource.mime_type, resource.uri)
    return _media(item.data, item.mime_type)


def _media(data: str, media_type: str | None, uri: str | None = None) -> _Block:
    """Return an image or a file; text for data that is not base64, which providers reject in every later request."""
    data = "".join(data.split())  # some encoders wrap lines
    metadata = _uri_metadata(uri) if uri is not None else {}
    if not _is_base64(data):
        return TextBlock(text=f"[{media_type or 'a file'} left out: its data is not base64]", metadata=metadata)
    if media_type is not None and re.fullmatch(r"image/[a-zA-Z0-9.+-]+", media_type):
        return ImageBlock(data=f"data:{media_type};base64,{data}", metadata=metadata)
    return FileBlock(media_type=media_type, data=data, name=_file_name(uri), metadata=metadata)


def _is_base64(data: str) -> bool:
    try:
        return len(base64.b64decode(data, validate=True)) > 0
    except ValueError:
        return False


def _file_name(uri: str | None) -> str | None:
    """Return the last part of the path of a URI."""
    try:
        return PurePosixPath(unquote(urlsplit(uri or "").path)).name or None
    except ValueError:  # not a URL, such as "http://["
        return None


def _uri_metadata(uri: str) -> dict[str, Any]:
    return {"mcp": {"uri": uri}}
