"""Images, documents and tools' results in the form in which Anthropic takes them.

It knows single values, not messages: where a part goes is ``render``'s business.
Source: https://docs.anthropic.com/en/docs/build-with-claude/vision, .../pdf-support and, for what a result may hold
(texts, images, documents, search results), https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

import re
from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.tool_results import decode_text_file, result_parts
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.tool_result_media import convert_or_describe

__all__ = ["as_text", "document", "media_block", "result_content"]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DOCUMENTS = ("application/pdf", "text/plain")
_DATA_URL = re.compile(r"data:([\w.+/-]+)(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


def as_text(value: Any) -> str:
    """A result as text: a string as it is, nothing as nothing, all else as compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


def result_content(value: Any, changes: list[str]) -> list[Json] | None:
    """A result that is a list of parts, as blocks; None where it is text or data. Anthropic's own stay as they are.

    Args:
        value: the result.
        changes: takes a sentence for what cannot be carried, in whose place stands text.
    """
    if not isinstance(value, list) or not value:
        return None
    made: list[Json] = []
    for item in value:
        if _is_own(item):
            made.append(item)
            continue
        parts = result_parts([item], texts_alone=True)
        if parts is None:
            return None
        for part in parts:
            block = (
                part.text
                if isinstance(part, TextBlock)
                else convert_or_describe(part, media_block, changes, "Anthropic")
            )
            made.append({"type": "text", "text": block} if isinstance(block, str) else block)
    # "messages: text content blocks must contain non-whitespace text"
    return [block for block in made if block["type"] != "text" or block["text"].strip()] or None


#: Anthropic's own blocks that a result may hold, and by which fields they are told from data.
_OWN = {"image": {"source"}, "document": {"source"}, "search_result": {"source", "title", "content"}}


def _is_own(item: Any) -> bool:
    kind = item.get("type") if isinstance(item, dict) else None
    wanted = _OWN.get(kind) if isinstance(kind, str) else None
    if wanted is None or not wanted <= item.keys():
        return False
    source = item["source"]
    if kind == "search_result":
        return isinstance(source, str)
    # What has data of a kind that is refused is no block of Anthropic's.
    return isinstance(source, dict) and source.get("media_type") in (None, *_DOCUMENTS, *_IMAGES)


def media_block(part: ImageBlock | FileBlock) -> Json:
    """An image or a file as a block.

    Raises:
        UnsupportedContent: as ``image_source`` and ``document``.
    """
    return {"type": "image", "source": image_source(part.data)} if isinstance(part, ImageBlock) else document(part)


def image_source(data: str) -> Json:
    """Where an image is, from a base64 data URL or a web address.

    Raises:
        UnsupportedContent: it is neither, or of a kind that the API does not take.
    """
    if data.startswith(("http://", "https://")):
        return {"type": "url", "url": data}
    begin = _DATA_URL.match(data)
    media_type = begin[1].lower().replace("image/jpg", "image/jpeg") if begin else ""
    if begin is None or media_type not in _IMAGES:
        raise UnsupportedContent(
            f"Anthropic takes images as base64 data URLs of {', '.join(sorted(_IMAGES))} or as web addresses, "
            f"not {data[:40]!r}"
        )
    return {"type": "base64", "media_type": media_type, "data": data[begin.end() :]}


def document(block: FileBlock) -> Json:
    """A file as a document (PDF or text) or, where it is one, as an image.

    Raises:
        UnsupportedContent: it is of another kind, or empty.
    """
    data, media_type = block.data, (block.media_type or "").lower()
    begin = _DATA_URL.match(data) if data else None
    if data and begin:
        media_type, data = media_type or begin[1].lower(), data[begin.end() :]
    if media_type.startswith("image/"):
        address = f"data:{media_type};base64,{data}" if data else block.url or ""
        return {"type": "image", "source": image_source(address)}
    text = decode_text_file(block)
    if text is not None and text.strip():
        return _titled({"type": "text", "media_type": "text/plain", "data": text}, block)
    if media_type != "application/pdf" and not (block.url and not data and not media_type):
        raise UnsupportedContent(f"Anthropic takes application/pdf, text and images as files, not {media_type!r}")
    if data:
        source: Json = {"type": "base64", "media_type": "application/pdf", "data": data}
    elif block.url:
        source = {"type": "url", "url": block.url}
    else:
        raise UnsupportedContent(f"the file {block.name!r} has neither data nor an address")
    return _titled(source, block)


def _titled(source: Json, block: FileBlock) -> Json:
    part: Json = {"type": "document", "source": source}
    if block.name:
        part["title"] = block.name
    return part
