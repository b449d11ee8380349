"""Images, files, results and what an answer kept of the provider's own, in the form that the Responses API takes.

It knows single values: where one goes, and whether it may, is ``render``'s business.
Source: https://platform.openai.com/docs/guides/images-vision, .../file-inputs and, for what a call's output may hold,
https://platform.openai.com/docs/guides/function-calling#formatting-results.
"""

from __future__ import annotations

from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolBlock,
    TextBlock,
    ToolResponseBlock,
)
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.tool_result_media import convert_or_describe, result_parts

__all__ = [
    "input_file",
    "input_image",
    "item_ids",
    "media_part",
    "output_of",
    "output_part",
    "reasoning_item",
    "strip_output_only_fields",
]


def input_image(data: str) -> Json:
    """An image from a base64 data URL or a web address.

    Raises:
        UnsupportedContent: it is neither.
    """
    address = data.startswith(("http://", "https://"))
    if not address and not (data.startswith("data:image/") and ";base64," in data):
        raise UnsupportedContent(f"OpenAI takes images as base64 data URLs or as web addresses, not {data[:40]!r}")
    return {"type": "input_image", "image_url": data, "detail": "auto"}


def input_file(block: FileBlock) -> Json:
    """A file by its data or its address; an image goes as one.

    Raises:
        UnsupportedContent: it has neither.
    """
    media_type, data = (block.media_type or "").lower(), block.data or ""
    if data.startswith("data:"):
        media_type = media_type or data[5:].partition(";")[0].lower()
    elif data:
        data = f"data:{media_type or 'application/octet-stream'};base64,{data}"
    if media_type.startswith("image/"):
        return input_image(data or block.url or "")
    if data:
        return {"type": "input_file", "filename": block.name or "file", "file_data": data}
    if block.url:
        return {"type": "input_file", "file_url": block.url}
    raise UnsupportedContent(f"the file {block.name!r} has neither data nor an address")


def output_of(block: ToolResponseBlock, changes: list[str]) -> str | list[Json]:
    """What came of a call: text, or a list of texts, images and files. The API has no field that says it failed.

    Args:
        block: the result.
        changes: takes a sentence for what cannot be carried, in whose place stands text.
    """
    if block.error is not None or block.status not in (None, "completed"):
        return block.error or _as_text(block.result) or f"The call did not complete: {block.status}."
    parts = result_parts(block)
    if parts is None:
        return _as_text(block.result)
    made = [part.text if isinstance(part, TextBlock) else media_part(part, changes) for part in parts]
    return [{"type": "input_text", "text": part} if isinstance(part, str) else part for part in made]


def media_part(part: ImageBlock | FileBlock, changes: list[str]) -> Json | str:
    """An image or file that a tool made; arguments as of ``output_of``."""
    return convert_or_describe(part, _media, changes, "OpenAI")


def _media(part: ImageBlock | FileBlock) -> Json:
    if isinstance(part, ImageBlock):
        return input_image(part.data)
    media_type = (part.media_type or "").lower()
    if media_type.startswith(("audio/", "video/")) or media_type in _NO_FILES:
        # https://platform.openai.com/docs/guides/file-inputs: PDF, office documents, text and code
        raise UnsupportedContent(f"OpenAI takes documents as files, not {media_type!r}")
    return input_file(part)


_NO_FILES = ("application/octet-stream", "application/zip", "application/gzip", "application/x-tar")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


def reasoning_item(block: Block) -> Json | None:
    """The provider's own reasoning item that a block carries."""
    kept = getattr(block, "opaque", None) or block.metadata.get("item")
    raw = block.raw if isinstance(block, OpaqueBlock) else kept
    return raw if isinstance(raw, dict) and raw.get("type") == "reasoning" else None


def strip_output_only_fields(item: Json) -> Json:
    """A reasoning item as the API takes it: with a summary, and null only in ``encrypted_content``."""
    kept = {name: value for name, value in item.items() if value is not None or name not in ("status", "content")}
    return kept if isinstance(kept.get("summary"), list) else {**kept, "summary": []}


def item_ids(content: Content) -> set[str]:
    """The ids of the provider's own items that an answer holds."""
    raw = [item for block in content.blocks if isinstance(block, ServerToolBlock) for item in block.raw]
    return {
        item_id
        for item in raw
        if isinstance(item, dict)
        for name in ("id", "call_id")
        if (item_id := as_text(item.get(name)))
    }


def output_part(block: TextBlock) -> Json:
    """A part of a message item that goes back with its id."""
    if block.metadata.get("refusal"):
        return {"type": "refusal", "refusal": block.text}
    citations = block.metadata.get("citations")
    return {
        "type": "output_text",
        "text": block.text,
        "annotations": citations if isinstance(citations, list) else [],
    }
