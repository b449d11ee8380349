"""Results of tools in the form in which history stores them.

A result is any JSON. A result that is more than text or data is a list of parts, which are the JSON of history's own
blocks (``metadata`` only if there is any)::

    [{"type": "text", "text": "Page 1"},
     {"type": "image", "data": "data:image/png;base64,..."},
     {"type": "file", "media_type": "application/pdf", "data": "JVBERi0...", "url": null, "name": "report.pdf"}]

``to_stored_result`` converts whatever a tool returned and raises nothing; ``result_parts`` reads the parts again. It
depends neither on providers nor on how a tool is run.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import Any

import msgspec
from pydantic_core import to_jsonable_python

from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.result_parts import ResultPart, decode_text_file, read_part, result_parts
from streamkit.media import (
    is_base64,
    normalize_data_url,
    parse_data_url,
    sniff_base64_type,
    sniff_media_type,
    to_data_url,
)

__all__ = ["ResultPart", "decode_text_file", "parse_result", "result_parts", "to_stored_part", "to_stored_result"]

#: The deepest nesting of a result. Pydantic reads JSON of 200 levels, of which a content, a list of them and a run's
#: state take some. A deeper result is stored as its JSON text.
_DEEPEST = 180


def to_stored_result(value: Any) -> Any:
    """Convert the value that a tool returned to JSON that is equal after it was written and read.

    - JSON data is unchanged, also ``0``, ``""``, ``False``, ``None``, ``[]`` and ``{}``. What JSON cannot represent is
      converted as pydantic does (models, dataclasses, dates, sets, ...); msgspec structs and numpy's arrays and numbers
      become data, NaN and the infinities their names, and any other object its text.
    - Blocks (``TextBlock``, ``ImageBlock``, ``FileBlock``), alone or in a list with strings and data, become parts. A
      single text becomes that text; several texts are joined by newlines.
    - Bytes are converted by their content: a PNG, JPEG, GIF, WebP or PDF by its first bytes, because a model can read
      these; else text if they are UTF-8, as the output of a program or a file mostly is; else their base64.

    Args:
        value: any value. It is not changed, and nothing is raised for it.
    """
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if isinstance(value, bytes):
        return _convert_bytes(value)
    if isinstance(value, ResultPart):
        value = [value]
    if isinstance(value, (list, tuple)) and any(_is_media(item) for item in value):
        parts = [part for item in value for part in _to_parts(item)]
        if all(part["type"] == "text" for part in parts):
            return "\n".join(str(part["text"]) for part in parts)
        return parts
    return _to_data(value)


def parse_result(value: Any) -> Any:
    """Return the result in a provider's message: its text, its parts if it has images or files, else it unchanged."""
    parts = result_parts(value, texts_alone=True)
    if parts is None:
        return value
    texts = [part.text for part in parts if isinstance(part, TextBlock)]
    return "\n".join(texts) if len(texts) == len(parts) else [to_stored_part(part) for part in parts]


def to_stored_part(block: ResultPart) -> dict[str, Any]:
    """Convert a block to a part of a result. A file has all its fields, which distinguishes it from data."""
    part: dict[str, Any] = _to_data(block.model_dump(exclude={"metadata"}))
    if isinstance(block, ImageBlock):
        part["data"] = _to_image_url(str(part["data"]))
    elif isinstance(block, FileBlock) and isinstance(part["data"], str):
        part |= _to_file_data(part["data"], part["media_type"])
    if block.metadata:
        part["metadata"] = _to_data(block.metadata)
    return part


def _is_media(item: Any) -> bool:
    return isinstance(item, ResultPart) or (isinstance(item, bytes) and sniff_media_type(item) is not None)


def _to_parts(item: Any) -> list[dict[str, Any]]:
    """Convert an item of a list that contains blocks to parts."""
    if isinstance(item, ResultPart):
        return [to_stored_part(item)]
    stored = to_stored_result(item)
    if result_parts(stored) is not None:  # the bytes of an image, a list in the list
        return list(stored)
    if read_part(stored) is not None:  # a part of another format
        return [stored]
    return [{"type": "text", "text": stored if isinstance(stored, str) else _to_json(stored)}]


def _convert_bytes(value: bytes) -> Any:
    media_type = sniff_media_type(value)
    encoded = b64encode(value).decode()
    if media_type is not None and media_type.startswith("image/"):
        return [to_stored_part(ImageBlock(data=to_data_url(encoded, media_type)))]
    if media_type is not None:
        return [to_stored_part(FileBlock(media_type=media_type, data=encoded))]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return encoded


def _to_image_url(data: str) -> str:
    """Return an image as a data URL if it is a data URL or bare base64 of a known format; else unchanged."""
    url = normalize_data_url(data)
    if url is not None:
        return url
    media_type = sniff_base64_type(data)
    return to_data_url(data, media_type) if media_type is not None else data


def _to_file_data(data: str, media_type: str | None) -> dict[str, Any]:
    """Return the stored fields of a file with data as base64, as a data URL, or as the text of the file.

    A tool may return the text. Sent unchanged, every later request with this history would be refused.
    """
    url = parse_data_url(data)
    if is_base64(data if url is None else url.data):
        if url is None or url.was_base64:
            return {"data": data}
        return {"data": url.data, "media_type": media_type or url.media_type or "text/plain"}
    return {"data": b64encode(data.encode("utf-8", "replace")).decode()}


def _to_data(value: Any) -> Any:
    """Convert any value to JSON data; a value that cannot be encoded becomes its text."""
    data: Any = None
    for bytes_mode in ("utf8", "base64"):  # bytes inside data are converted like a result that is bytes
        try:
            data = to_jsonable_python(value, fallback=_fallback, bytes_mode=bytes_mode)
            return _without_non_finite(data)
        except _TooDeep:
            return _to_json(data)
        except Exception as error:  # whatever an object's own serializer raises
            if not isinstance(error, ValueError):
                break
    return _to_text(value)


def _fallback(value: Any) -> Any:
    """Convert an object that pydantic cannot convert."""
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.asdict(value)
        # numpy's arrays and numbers, and objects with the same interface, as plain lists and numbers
        plain = value.tolist() if callable(getattr(type(value), "tolist", None)) else value
    except Exception:
        return _to_text(value)
    return _to_text(value) if type(plain) is type(value) else plain


def _to_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return _to_text(value)


class _TooDeep(Exception):
    """The data is nested too deeply for history with it to be read again."""


def _without_non_finite(value: Any, depth: int = 0) -> Any:
    """Return JSON data with NaN and infinities, which JSON cannot represent, replaced by their names.

    Raises:
        _TooDeep: the data is nested too deeply.
    """
    if depth > _DEEPEST:
        raise _TooDeep
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _without_non_finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_non_finite(item, depth + 1) for item in value]
    return value
