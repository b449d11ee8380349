"""Results of tools in the form in which history stores them.

A result is any JSON. A result that is more than text or data is a list of parts, which are the JSON of history's own
blocks (``metadata`` only if there is any)::

    [{"type": "text", "text": "Page 1"},
     {"type": "image", "data": "data:image/png;base64,..."},
     {"type": "file", "media_type": "application/pdf", "data": "JVBERi0...", "url": null, "name": "report.pdf"}]

``to_stored_result`` converts whatever a tool returned and raises nothing, ``describe_unwritable`` finds what has no
JSON form, and ``result_parts`` reads the parts again. It depends neither on providers nor on how a tool is run.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, ItemsView, Iterator, KeysView, Sequence, Set, ValuesView
from typing import Any

import msgspec
from pydantic_core import to_jsonable_python

from streamkit.history.content import FileBlock, ImageBlock, TextBlock
from streamkit.history.result_parts import ResultPart, decode_text_file, read_part, result_parts
from streamkit.history.stored_data import is_plain_data, to_stored_data
from streamkit.values.json_data import bytes_as_text, describe_object
from streamkit.values.media import (
    is_base64,
    normalize_data_url,
    parse_data_url,
    sniff_base64_type,
    sniff_media_type,
    to_data_url,
)

__all__ = [
    "ERROR_LIMIT",
    "RESULT_LIMIT",
    "ResultPart",
    "decode_text_file",
    "describe_unwritable",
    "exception_text",
    "limit_text",
    "parse_result",
    "result_parts",
    "to_stored_part",
    "to_stored_result",
]

#: The longest text of one result that a model gets by default, in characters: about 65,000 tokens. A longer one fills
#: the context of most models, and every later request would be refused.
RESULT_LIMIT = 262_144
#: The longest text of an error that a model gets, in characters.
ERROR_LIMIT = 16_384

_SCALARS = frozenset({str, int, float, bool, type(None)})
_NOTE_SIZE = 64  # more than the characters of the sentence about what was omitted


def to_stored_result(value: Any, *, limit: int | None = None) -> Any:
    """Convert the value that a tool returned to JSON that is equal after it was written and read.

    - JSON data is unchanged, also ``0``, ``""``, ``False``, ``None``, ``[]`` and ``{}``. What JSON cannot represent is
      converted as pydantic does (models, dataclasses, dates, sets, ...); msgspec structs, attrs classes and numpy's
      arrays and numbers, sequences and what has ``keys()`` (rows of databases, tables of pandas) become data, NaN and
      the infinities their names, integers of more than 4300 digits their digits as text, and any other object its
      text. An object without a text of its own (``describe_unwritable``) becomes a sentence with its type.
    - Blocks (``TextBlock``, ``ImageBlock``, ``FileBlock``), alone or in a list with strings and data, become parts. A
      single text becomes that text; several texts are joined by newlines.
    - Bytes are converted by their content: a PNG, JPEG, GIF, WebP or PDF by its first bytes, because a model can read
      these; else text if they are UTF-8, as the output of a program or a file mostly is; else their base64.

    Args:
        value: any value. It is not changed, and nothing is raised for it.
        limit: the most characters of text; None for no limit. Of a longer text the middle is replaced by the number of
            characters that were omitted. Longer data becomes its JSON text, shortened like this. Images and files
            do not count.
    """
    if type(value) in _SCALARS and is_plain_data(value):  # most values
        return limit_text(value, limit) if isinstance(value, str) and limit is not None else value
    try:
        stored = _store(value, _Conversion())
    except Exception as error:
        return f"[{_describe_unreadable(value, error)}]"
    return stored if limit is None else _limit_result(stored, limit)


def describe_unwritable(value: Any) -> str | None:
    """Return a description of the first object in a tool's value that cannot be written as JSON; None without one.

    That is an object that is no data and has no text of its own: a socket, an open file, a generator, a function, an
    object whose ``__str__`` fails or is the default one, which would show the model an address in memory. A value that
    raises while it is read (the rows of a query whose connection is closed) is described as a whole.
    """
    try:
        if is_plain_data(value):
            return None
        conversion = _Conversion()
        _store(value, conversion)
    except Exception as error:
        return _describe_unreadable(value, error)
    return describe_object(conversion.unwritable[0]) if conversion.unwritable else None


def _describe_unreadable(value: Any, error: Exception) -> str:
    return f"{describe_object(value)} whose contents raise {type(error).__name__}"


def exception_text(error: BaseException) -> str:
    """Return the message of an exception; ``""`` if it has none, or if its ``__str__`` fails."""
    try:
        return str(error)
    except Exception:
        return ""


def limit_text(text: str, limit: int) -> str:
    """Return a text of at most this many characters, with the number of those that were omitted from its middle."""
    if len(text) <= limit:
        return text
    kept = max(limit - _NOTE_SIZE, 0)
    tail = kept // 4  # the end of a program's output has its result or its error
    head = kept - tail
    end = text[len(text) - tail :]
    return f"{text[:head]}\n... [{len(text) - kept} characters omitted] ...\n{end}"


def _limit_result(stored: Any, limit: int) -> Any:
    if isinstance(stored, str):
        return limit_text(stored, limit)
    parts = result_parts(stored)
    if parts is None:
        text = _to_json(stored) if isinstance(stored, (dict, list)) else ""
        return stored if len(text) <= limit else limit_text(text, limit)
    if sum(len(part.text) for part in parts if isinstance(part, TextBlock)) <= limit:
        return stored
    limited: list[Any] = []
    remaining = limit
    for part, item in zip(parts, stored, strict=True):
        if isinstance(part, TextBlock):
            text = limit_text(part.text, remaining) if remaining else ""
            limited += [{"type": "text", "text": text or f"... [{len(part.text)} characters omitted]"}]
            remaining = max(remaining - len(part.text), 0)
        else:
            limited.append(item)
    return limited


def _store(value: Any, conversion: _Conversion) -> Any:
    if isinstance(value, (bytearray, memoryview)):
        value = bytes(value)
    if isinstance(value, bytes):
        media_type = sniff_media_type(value)
        if media_type is None:
            return bytes_as_text(value)
        encoded = b64encode(value).decode()
        if media_type.startswith("image/"):
            return [to_stored_part(ImageBlock(data=to_data_url(encoded, media_type)))]
        return [to_stored_part(FileBlock(media_type=media_type, data=encoded))]
    if isinstance(value, ResultPart):
        value = [value]
    if isinstance(value, (list, tuple)) and any(
        isinstance(item, ResultPart) or (isinstance(item, bytes) and sniff_media_type(item) is not None)
        for item in value
    ):
        parts = [part for item in value for part in _to_parts(item, conversion)]
        if all(part["type"] == "text" for part in parts):
            return "\n".join(str(part["text"]) for part in parts)
        return parts
    return _to_data(value, conversion)


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


def _to_parts(item: Any, conversion: _Conversion) -> list[dict[str, Any]]:
    """Convert an item of a list that contains blocks to parts."""
    if isinstance(item, ResultPart):
        return [to_stored_part(item)]
    stored = _store(item, conversion)
    if result_parts(stored) is not None:  # the bytes of an image, a list in the list
        return list(stored)
    if read_part(stored) is not None:  # a part of another format
        return [stored]
    return [{"type": "text", "text": stored if isinstance(stored, str) else _to_json(stored)}]


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


def _to_data(value: Any, conversion: _Conversion | None = None) -> Any:
    """Convert any value to JSON data."""
    data = to_stored_data(value, (conversion or _Conversion()).convert)
    # Nothing is shared with the tool, which may change its value later.
    if isinstance(data, (dict, list)):
        return to_jsonable_python(data)
    return data


class _Conversion:
    """A conversion of one value to data; ``unwritable`` are the objects with neither data nor a text of their own."""

    def __init__(self) -> None:
        self.unwritable: list[Any] = []

    def convert(self, value: Any) -> Any:
        """Return data, or a text, for an object that is neither text, number, dict nor list."""
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes_as_text(bytes(value))
        if isinstance(value, (Iterator, Awaitable)):  # reading it would take its values away, or wait for them
            return self._reject(value)
        if isinstance(value, (Set, KeysView, ValuesView, ItemsView, range)):
            return list(value)
        fields = _fields(value)
        if fields is not None:
            return fields
        for bytes_mode in ("utf8", "base64"):  # of bytes inside an object
            try:
                return to_jsonable_python(
                    value, fallback=self._fallback, bytes_mode=bytes_mode, inf_nan_mode="constants"
                )
            except Exception as error:  # whatever an object's own serializer raises
                if not isinstance(error, ValueError):
                    break
        return self._text(value)

    def _fallback(self, value: Any) -> Any:
        """Convert an object that pydantic cannot convert."""
        fields = _fields(value)
        if fields is not None:
            return fields
        try:
            # numpy's arrays and numbers, and objects with the same interface, as plain lists and numbers
            plain = value.tolist() if callable(getattr(type(value), "tolist", None)) else value
        except Exception:
            return self._text(value)
        return self._text(value) if type(plain) is type(value) else plain

    def _text(self, value: Any) -> Any:
        """Return the text of an object that defines one, else what it contains; else record it as unwritable."""
        text_method: object = type(value).__str__
        try:
            if text_method is not object.__str__:
                return str(value)
            # Rows of sqlite3 and asyncpg, and pandas' tables by column. A class has the methods of its objects.
            if callable(getattr(type(value), "keys", None)) and hasattr(type(value), "__getitem__"):
                return dict(value)
            if isinstance(value, Sequence):  # SQLAlchemy's rows, UserList
                return list(value)
        except Exception:
            return self._reject(value)
        return self._reject(value)

    def _reject(self, value: Any) -> str:
        self.unwritable.append(value)
        return f"[{describe_object(value)}]"


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a msgspec struct or of an object of an attrs class; None for any other object."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    attributes = getattr(type(value), "__attrs_attrs__", None)  # attrs is no dependency
    if attributes is None:
        return None
    return {attribute.name: getattr(value, attribute.name, None) for attribute in attributes}


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        return json.dumps(to_stored_data(value), ensure_ascii=False, separators=(",", ":"))
