"""Images, files and tool results in the form of Anthropic's Messages API.

This module converts single values. Where a part is placed is up to ``messages``.
Source: https://docs.anthropic.com/en/docs/build-with-claude/vision, .../pdf-support and, for what a result may contain
(texts, images, documents, search results, tool references), https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

from typing import Any, Final

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.tool_results import decode_text_file, result_parts
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.rendering.media import convert_or_describe
from streamkit.values.media import is_base64, is_url, normalize_data, parse_data_url, quote_source, to_data_url
from streamkit.values.request_changes import RequestChange

__all__ = ["OWN_MEDIA_FIELDS", "document", "media_block", "result_content"]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_DOCUMENTS = ("application/pdf", "text/plain")
#: The fields of an image and a document that history has no place for; ``citations`` turns citations on
#: (https://docs.anthropic.com/en/docs/build-with-claude/citations).
OWN_MEDIA_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "image": ("transformations",),
    "document": ("context", "citations"),
}
#: Anthropic's own blocks that a result may contain, and the fields that distinguish them from data.
_RESULT_BLOCK_FIELDS = {
    "image": {"source"},
    "document": {"source"},
    "search_result": {"source", "title", "content"},
    # A client's own search of tools (https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool).
    "tool_reference": {"tool_name"},
    "browser_state": {"tabs"},  # of a member of the browser toolset (BetaBrowserStateBlockParam of the SDK 2.12)
}


def result_content(value: Any, changes: list[RequestChange]) -> list[Json] | None:
    """Return a result that is a list of parts as blocks, None if it is text or data.

    Args:
        value: The result. Anthropic's own blocks in it stay unchanged.
        changes: Gets a sentence for each part that the API refuses; a text replaces it.
    """
    if not isinstance(value, list) or not value:
        return None
    blocks: list[Json] = []
    for item in value:
        if _is_result_block(item):
            blocks.append(item)
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
            blocks.append({"type": "text", "text": block} if isinstance(block, str) else block)
    # "messages: text content blocks must contain non-whitespace text"
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()] or None


def _is_result_block(item: Any) -> bool:
    block_type = item.get("type") if isinstance(item, dict) else None
    fields = _RESULT_BLOCK_FIELDS.get(block_type) if isinstance(block_type, str) else None
    if fields is None or not fields <= item.keys():
        return False
    if block_type == "tool_reference":
        return isinstance(item["tool_name"], str)
    if block_type == "browser_state":
        return isinstance(item["tabs"], list)
    source = item["source"]
    if block_type == "search_result":
        return isinstance(source, str)
    if not isinstance(source, dict) or source.get("media_type") not in (None, *_DOCUMENTS, *_IMAGES):
        return False  # data of a media type that the API refuses is not one of its blocks
    data = source.get("data")
    return source.get("type") != "base64" or (isinstance(data, str) and bool(data) and is_base64(data))


def media_block(part: ImageBlock | FileBlock) -> Json:
    """Return an image or a file as a block.

    Raises:
        UnsupportedContent: As of ``image_source`` and ``document``.
    """
    return {"type": "image", "source": image_source(part.data)} if isinstance(part, ImageBlock) else document(part)


def image_source(data: str) -> Json:
    """Return the source of an image from its base64 data URL or web address.

    Raises:
        UnsupportedContent: It is neither, or of a media type that the API refuses.
    """
    if is_url(data):
        return {"type": "url", "url": data}
    url = parse_data_url(data)
    media_type = url.media_type.replace("image/jpg", "image/jpeg") if url is not None and url.was_base64 else ""
    if url is None or media_type not in _IMAGES:
        raise UnsupportedContent(
            f"Anthropic takes images as base64 data URLs of {', '.join(sorted(_IMAGES))} or as web addresses, "
            f"not {quote_source(data)}"
        )
    return {"type": "base64", "media_type": media_type, "data": url.data}


def document(block: FileBlock) -> Json:
    """Return a file as a document block (PDF or text), or as an image block if it is an image.

    Raises:
        UnsupportedContent: It is of another media type, or empty.
    """
    media_type, data, _ = normalize_data(block.data or "", block.media_type)
    if media_type.startswith("image/"):
        url = to_data_url(data, media_type) if data else block.url or ""
        return {"type": "image", "source": image_source(url)}
    text = decode_text_file(block)
    if text is not None and text.strip():
        return _document_block({"type": "text", "media_type": "text/plain", "data": text}, block)
    if media_type != "application/pdf" and not (block.url and not data and not media_type):
        raise UnsupportedContent(f"Anthropic takes application/pdf, text and images as files, not {media_type!r}")
    if data:
        source: Json = {"type": "base64", "media_type": "application/pdf", "data": data}
    elif block.url:
        source = {"type": "url", "url": block.url}
    else:
        raise UnsupportedContent(f"the file {block.name!r} has neither data nor an address")
    return _document_block(source, block)


def _document_block(source: Json, block: FileBlock) -> Json:
    part: Json = {"type": "document", "source": source}
    if block.name:
        part["title"] = block.name
    return part
