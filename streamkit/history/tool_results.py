"""What a tool returned, as history holds it, and the parts of a result that is shown as texts, images and files.

A result is any JSON. One that is more than text or data is a list of parts, which are the JSON of history's own blocks
(metadata only where there is some)::

    [{"type": "text", "text": "Page 1"},
     {"type": "image", "data": "data:image/png;base64,..."},
     {"type": "file", "media_type": "application/pdf", "data": "JVBERi0...", "url": null, "name": "report.pdf"}]

``stored_result`` makes it of whatever a tool returned; nothing raises for that. ``result_parts`` reads it again, and
beside it the parts that tools and threads of other makers hold: those of MCP
(https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool-result), Anthropic, Chat Completions and
Responses. Data must not be taken for parts: a directory listing is a list of objects whose type is ``file``, too. So a
list is parts only where every item is one, to the last field, and one of them is an image or a file.

It knows neither providers nor how a tool is run.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from pydantic_core import to_jsonable_python

from streamkit.history.content import FileBlock, ImageBlock, TextBlock

__all__ = ["ResultPart", "result_parts", "to_stored_part", "to_stored_result", "decode_text_file"]

#: A part of a result.
ResultPart: TypeAlias = TextBlock | ImageBlock | FileBlock

#: Levels of a result, at most: pydantic reads JSON of 200, of which a content, a list of them and a run's state take
#: some. What is deeper is kept as its JSON text.
_NESTING = 180

_SIGNATURES = (  # https://en.wikipedia.org/wiki/List_of_file_signatures
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_ADDRESS = re.compile(r"(?:https?|s3|gs)://", re.IGNORECASE)
_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


# ---------------------------------------------------------------- what a tool returned


def to_stored_result(value: Any) -> Any:
    """What a tool returned, as JSON that is the same after it was written and read.

    - JSON data stays what it is, ``0``, ``""``, ``False``, ``None``, ``[]`` and ``{}`` as well. What JSON has no word
      for becomes what pydantic makes of it (models, dataclasses, dates, sets, ...), msgspec structs and numpy's arrays
      and numbers become data, NaN and the infinities their names, and any other object its text.
    - Blocks (``TextBlock``, ``ImageBlock``, ``FileBlock``), alone or in a list with strings and data, become parts. A
      text alone is that text, texts alone are joined by newlines.
    - Bytes are what they look like: a PNG, JPEG, GIF, WebP or PDF by its first bytes, for that is what a model can be
      shown; else text where they are UTF-8, which the output of a program or a file that was read mostly is; else
      their base64.

    Args:
        value: anything. It is not changed, and nothing is raised for it.
    """
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if isinstance(value, bytes):
        return _of_bytes(value)
    if isinstance(value, ResultPart):
        value = [value]
    if isinstance(value, (list, tuple)) and any(_is_shown(item) for item in value):
        parts = [part for item in value for part in _parts_of(item)]
        if all(part["type"] == "text" for part in parts):
            return "\n".join(str(part["text"]) for part in parts)
        return parts
    return _data(value)


def to_stored_part(block: ResultPart) -> dict[str, Any]:
    """A block as a part of a result. A file has all its fields: that tells it from data."""
    part: dict[str, Any] = _data(block.model_dump(exclude={"metadata"}))
    if isinstance(block, ImageBlock):
        part["data"] = _data_url(str(part["data"]))
    elif isinstance(block, FileBlock) and isinstance(part["data"], str) and not _is_base64(part["data"]):
        # A tool wrote the file's text. Sent as it is, every request with this history would be refused.
        part["data"] = b64encode(part["data"].encode("utf-8", "replace")).decode()
    if block.metadata:
        part["metadata"] = _data(block.metadata)
    return part


def _is_shown(item: Any) -> bool:
    return isinstance(item, ResultPart) or (isinstance(item, bytes) and _looks_like(item) is not None)


def _parts_of(item: Any) -> list[dict[str, Any]]:
    """An item of a list with blocks in it, as parts."""
    if isinstance(item, ResultPart):
        return [to_stored_part(item)]
    kept = to_stored_result(item)
    if result_parts(kept) is not None:  # the bytes of an image, a list in the list
        return list(kept)
    if _read(kept) is not None:  # another maker's part
        return [kept]
    return [{"type": "text", "text": kept if isinstance(kept, str) else _written(kept)}]


def _of_bytes(value: bytes) -> Any:
    media_type = _looks_like(value)
    encoded = b64encode(value).decode()
    if media_type is not None and media_type.startswith("image/"):
        return [to_stored_part(ImageBlock(data=f"data:{media_type};base64,{encoded}"))]
    if media_type is not None:
        return [to_stored_part(FileBlock(media_type=media_type, data=encoded))]
    try:
        return value.decode()
    except UnicodeDecodeError:
        return encoded


def _looks_like(value: bytes) -> str | None:
    if value[:4] == b"RIFF" and value[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if value.startswith(signature)), None)


def _data_url(data: str) -> str:
    """An image's data as a data URL, where it is bare base64 of a known kind."""
    try:
        media_type = _looks_like(b64decode(data[:16], validate=True))
    except ValueError:
        return data
    return f"data:{media_type};base64,{data}" if media_type is not None else data


def _is_base64(data: str) -> bool:
    begin = _DATA_URL.match(data)
    try:
        b64decode("".join(data[begin.end() if begin else 0 :].split()), validate=True)
    except ValueError:
        return False
    return True


def _data(value: Any) -> Any:
    """Anything as JSON data; what cannot be written becomes its text."""
    made: Any = None
    for bytes_mode in ("utf8", "base64"):  # bytes within data, as those that are all of it
        try:
            made = to_jsonable_python(value, fallback=_fallback, bytes_mode=bytes_mode)
            return _storable(made)
        except _TooDeep:
            return _written(made)
        except Exception as error:  # whatever an object's own serializer raises
            if not isinstance(error, ValueError):
                break
    return _text(value)


def _fallback(value: Any) -> Any:
    """What pydantic has no word for."""
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.asdict(value)
        # numpy's arrays and numbers, and what is made like them, as plain lists and numbers
        plain = value.tolist() if callable(getattr(type(value), "tolist", None)) else value
    except Exception:
        return _text(value)
    return _text(value) if type(plain) is type(value) else plain


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _written(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return _text(value)


class _TooDeep(Exception):
    pass


def _storable(value: Any, depth: int = 0) -> Any:
    """JSON data without NaN and infinities, which JSON does not have.

    Raises:
        _TooDeep: history with it could not be read back.
    """
    if depth > _NESTING:
        raise _TooDeep
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _storable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    return value


# ---------------------------------------------------------------- the parts of a result


def result_parts(result: Any, *, texts_alone: bool = False) -> list[ResultPart] | None:
    """The parts of a result as blocks, in order; None where it is text or data.

    Args:
        result: of a ``ToolResponseBlock``.
        texts_alone: a list of nothing but text parts is parts as well; else it is data.
    """
    if not isinstance(result, list):
        return None
    parts: list[ResultPart] = []
    for item in result:
        part = _read(item)
        if part is None:
            return None
        parts.append(part)
    media = any(not isinstance(part, TextBlock) for part in parts)
    return parts if media or (texts_alone and parts) else None


def _read(item: Any) -> ResultPart | None:
    kind = item.get("type") if isinstance(item, dict) else None
    read = _READERS.get(kind) if isinstance(kind, str) else None
    return read(item) if read is not None else None


def _read_text(item: dict[str, Any]) -> ResultPart | None:
    return TextBlock(text=item["text"]) if isinstance(item.get("text"), str) else None


def _read_image(item: dict[str, Any]) -> ResultPart | None:
    """Ours, MCP's (bare base64 and a media type), or Anthropic's (``source``)."""
    if isinstance(source := item.get("source"), dict):
        if isinstance(source.get("url"), str):
            return ImageBlock(data=source["url"])
        item = {**source, "type": "image"}
    elif item.keys() - {"type", "data", *_MEDIA_TYPE, *_ABOUT}:
        return None
    data, media_type = item.get("data"), _media_type(item)
    if not isinstance(data, str) or not data:
        return None
    if _ADDRESS.match(data) or _DATA_URL.match(data):
        metadata = item.get("metadata")
        return ImageBlock(data=data, metadata=metadata if isinstance(metadata, dict) else {})
    return ImageBlock(data=f"data:{media_type};base64,{data}") if media_type is not None else None


def _read_image_url(item: dict[str, Any]) -> ResultPart | None:
    """Chat Completions' ``image_url`` and Responses' ``input_image``."""
    given = item.get("image_url")
    address = given.get("url") if isinstance(given, dict) else given
    return ImageBlock(data=address) if isinstance(address, str) and address else None


def _read_file(item: dict[str, Any]) -> ResultPart | None:
    """Ours, or Chat Completions' (``file``)."""
    if isinstance(given := item.get("file"), dict):
        return _read_input_file(given)
    if "media_type" not in item or item.keys() - {"type", "media_type", "data", "url", "name", "metadata"}:
        return None
    media_type, data, url, name = values = [item.get(name) for name in ("media_type", "data", "url", "name")]
    if not (data or url) or not all(value is None or isinstance(value, str) for value in values):
        return None
    metadata = item.get("metadata")
    return FileBlock(
        media_type=media_type, data=data, url=url, name=name, metadata=metadata if isinstance(metadata, dict) else {}
    )


def _read_input_file(item: dict[str, Any]) -> ResultPart | None:
    """Responses' ``input_file``, whose data may be a data URL."""
    data, url, name = item.get("file_data"), item.get("file_url"), item.get("filename")
    label = name if isinstance(name, str) else None
    if isinstance(data, str) and _ADDRESS.match(data):
        return FileBlock(url=data, name=label)
    if isinstance(data, str) and data:
        begin = _DATA_URL.match(data)
        bare = data[begin.end() :] if begin else data
        return FileBlock(media_type=(begin[1] or None) if begin else None, data=bare, name=label)
    return FileBlock(url=url, name=label) if isinstance(url, str) and url else None


def _read_document(item: dict[str, Any]) -> ResultPart | None:
    """Anthropic's ``document``."""
    source, title = item.get("source"), item.get("title")
    if not isinstance(source, dict):
        return None
    name = title if isinstance(title, str) else None
    data, media_type = source.get("data"), _media_type(source)
    if isinstance(source.get("url"), str):
        return FileBlock(media_type="application/pdf", url=source["url"], name=name)
    if not isinstance(data, str) or not data:
        return None
    if source.get("type") == "text":
        data = b64encode(data.encode("utf-8", "replace")).decode()
    return FileBlock(media_type=media_type, data=data, name=name)


def _read_document_url(item: dict[str, Any]) -> ResultPart | None:
    """Mistral's ``document_url``."""
    return _read_input_file({"file_data": item.get("document_url"), "filename": item.get("document_name")})


def _read_audio(item: dict[str, Any]) -> ResultPart | None:
    """MCP's ``audio``."""
    data, media_type = item.get("data"), _media_type(item)
    if not isinstance(data, str) or not data or media_type is None:
        return None
    return FileBlock(media_type=media_type, data=data)


def _read_resource(item: dict[str, Any]) -> ResultPart | None:
    """MCP's embedded ``resource``: text is text, a blob is an image or a file."""
    held = item.get("resource")
    if not isinstance(held, dict):
        return None
    text, blob, media_type = held.get("text"), held.get("blob"), _media_type(held)
    if isinstance(text, str):
        return TextBlock(text=text)
    if not isinstance(blob, str) or not blob:
        return None
    if media_type is not None and media_type.startswith("image/"):
        return ImageBlock(data=f"data:{media_type};base64,{blob}")
    name = str(held.get("uri") or "").rstrip("/").rpartition("/")[2]
    return FileBlock(media_type=media_type, data=blob, name=name or None)


def _read_resource_link(item: dict[str, Any]) -> ResultPart | None:
    """MCP's ``resource_link``: what it points to is the server's to read, so it is shown as what it says."""
    return TextBlock(text=_written(item)) if isinstance(item.get("uri"), str) else None


_READERS: dict[str, Callable[[dict[str, Any]], ResultPart | None]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "image": _read_image,
    "image_url": _read_image_url,
    "input_image": _read_image_url,
    "file": _read_file,
    "input_file": _read_input_file,
    "document": _read_document,
    "document_url": _read_document_url,
    "audio": _read_audio,
    "resource": _read_resource,
    "resource_link": _read_resource_link,
}
_MEDIA_TYPE = ("media_type", "mediaType", "mimeType")
_ABOUT = ("annotations", "_meta", "meta", "metadata")  # what MCP says beside, and we


def _media_type(item: dict[str, Any]) -> str | None:
    return next((found for name in _MEDIA_TYPE if isinstance(found := item.get(name), str) and found), None)


def decode_text_file(block: FileBlock) -> str | None:
    """What a file of text says; None where it is no text, or its data is not here."""
    data, media_type = block.data or "", (block.media_type or "").lower()
    if begin := _DATA_URL.match(data):
        media_type, data = media_type or begin[1].lower(), data[begin.end() :]
    kind = media_type.partition(";")[0]
    if not data or not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))):
        return None
    try:
        return b64decode("".join(data.split()), validate=True).decode()
    except ValueError:  # no base64, or no UTF-8
        return None


_TEXTS = ("application/json", "application/xml", "application/yaml", "application/javascript")
