"""Conversion of images, files and results to the form that Responses accepts, and back.

Sources: https://platform.openai.com/docs/guides/images-vision, .../file-inputs and, for the output of a call,
https://platform.openai.com/docs/guides/function-calling#formatting-results.
"""

from __future__ import annotations

from typing import Any

from streamkit.errors import UnsupportedContent
from streamkit.history.content import FileBlock, ImageBlock, TextBlock, ToolResponseBlock
from streamkit.history.result_parts import detail_metadata
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.rendering.media import convert_or_describe, media_parts
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.media import (
    has_type_in,
    is_image_source,
    normalize_data,
    normalize_data_url,
    quote_source,
    to_data_url,
)
from streamkit.values.request_changes import RequestChange

__all__ = [
    "detail_of",
    "input_file",
    "input_image",
    "media_part",
    "output_of",
    "parse_media_part",
]

# https://platform.openai.com/docs/guides/file-inputs: PDF, office documents, text and code
_REJECTED_FILE_TYPES = ("application/octet-stream", "application/zip", "application/gzip", "application/x-tar")
# https://platform.openai.com/docs/guides/images-vision#image-input-requirements
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
#: https://platform.openai.com/docs/api-reference/responses/create: the parts of ``function_call_output``
_OUTPUT_PARTS = frozenset({"input_text", "input_image", "input_file"})


def input_image(data: str) -> Json:
    """Return the part of an image.

    Raises:
        UnsupportedContent: the image is neither a base64 data URL of a type that the API takes nor an http(s) address.
    """
    if not is_image_source(data) or not has_type_in(data, _IMAGES):
        raise UnsupportedContent(
            f"OpenAI takes images as base64 data URLs of {', '.join(sorted(_IMAGES))} or as http(s) addresses, "
            f"not {quote_source(data)}"
        )
    return {"type": "input_image", "image_url": data, "detail": "auto"}


def detail_of(block: ImageBlock | FileBlock) -> Json:
    """Return the field ``detail`` of an image or file part; empty for the default."""
    detail = block.metadata.get("detail")
    return {"detail": detail} if isinstance(detail, str) else {}


def input_file(block: FileBlock) -> Json:
    """Return the part of a file, by its data or its address. The part of an image is ``input_image``.

    Raises:
        UnsupportedContent: the file has neither data nor an address.
    """
    data = block.data or ""
    media_type = normalize_data(data, block.media_type).media_type
    data_url = normalize_data_url(data) or (to_data_url(data, media_type or "application/octet-stream") if data else "")
    if media_type.startswith("image/"):
        return input_image(data_url or block.url or "")
    if media_type.startswith("video/") or (block.media_type or "").startswith("video/"):
        raise UnsupportedContent(f"OpenAI takes no video: {quote_source(block.name or block.url)}")
    if data_url:
        return {"type": "input_file", "filename": block.name or "file", "file_data": data_url, **detail_of(block)}
    if block.url:
        return {"type": "input_file", "file_url": block.url, **detail_of(block)}
    raise UnsupportedContent(f"the file {block.name!r} has neither data nor an address")


def parse_media_part(part: Any) -> ImageBlock | FileBlock | None:
    """Return the block of an image or file part, or None if history has no block for the part."""
    if not isinstance(part, dict):
        return None
    metadata = detail_metadata(part)
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        return ImageBlock(data=part["image_url"], metadata=metadata)
    if part.get("type") != "input_file":
        return None
    data, address, name = part.get("file_data"), part.get("file_url"), as_text(part.get("filename"))
    if isinstance(data, str):
        return FileBlock(media_type=normalize_data(data).media_type or None, data=data, name=name, metadata=metadata)
    return FileBlock(url=address, name=name, metadata=metadata) if isinstance(address, str) else None


def output_of(block: ToolResponseBlock, changes: list[RequestChange], *, is_own: bool = False) -> str | list[Json]:
    """Return the ``output`` of a call: text, or a list of texts, images and files.

    The API has no field for a failure, so the error's text is the output. An own call is of this provider, so that its
    result may be in the provider's own form. ``changes`` gets a sentence for each image or file that becomes text.
    """
    if block.error is not None or block.status not in (None, "completed"):
        return block.error or text_or_json(block.result) or f"The call did not complete: {block.status}."
    result = block.result
    if is_own and isinstance(result, list):  # with what history has no field for: an uploaded file, a detail
        if all(isinstance(part, dict) and part.get("type") in _OUTPUT_PARTS for part in result):
            if any(part["type"] != "input_text" and part.keys() & {"file_id", "detail"} for part in result):
                return list(result)
    parts = media_parts(block)
    if parts is None:
        return text_or_json(block.result)
    values = [part.text if isinstance(part, TextBlock) else media_part(part, changes) for part in parts]
    return [{"type": "input_text", "text": value} if isinstance(value, str) else value for value in values]


def media_part(part: ImageBlock | FileBlock, changes: list[RequestChange]) -> Json | str:
    """Return the part of an image or file of a tool, or a text in its place; arguments as in ``output_of``."""
    return convert_or_describe(part, _tool_media_part, changes, "OpenAI")


def _tool_media_part(part: ImageBlock | FileBlock) -> Json:
    if isinstance(part, ImageBlock):
        return input_image(part.data) | detail_of(part)
    media_type = (part.media_type or "").lower()
    if media_type.startswith(("audio/", "video/")) or media_type in _REJECTED_FILE_TYPES:
        raise UnsupportedContent(f"OpenAI takes documents as files, not {media_type!r}")
    return input_file(part)
