"""Data URLs, base64 and media types: how images and files are read, independent of any provider.

A data URL (RFC 2397, and https://fetch.spec.whatwg.org/#data-url-processor for what browsers accept) is parsed here and
nowhere else. Its data is returned as base64, because every provider takes base64. All functions are linear in their
input, copy data that needs no change at most once, and raise nothing for invalid data. Media types are compared in
lower case.

It depends on no provider: which types a provider takes, and under which names, is declared in its package.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Collection
from typing import Any, NamedTuple

from streamkit.values.redaction import redact

__all__ = [
    "DataUrl",
    "decode_base64",
    "decode_text",
    "encode_binary",
    "has_type_in",
    "is_base64",
    "is_image_source",
    "is_text_type",
    "is_url",
    "media_type_of_name",
    "normalize_data",
    "normalize_data_url",
    "parse_data_url",
    "quote_source",
    "sniff_base64_type",
    "sniff_media_type",
    "to_data_url",
    "to_standard_base64",
]

_LONGEST_HEADER = 1024  # characters before the comma of a data URL; a text without a comma is not searched further
_QUOTED = 60  # characters of a source in a message
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_PARAMETER = re.compile(r"\s*[\w!#$&^.+-]+\s*=.*", re.ASCII)
_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")
_SPACE = " \t\r\n\f"

_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})

_SIGNATURES = (  # https://en.wikipedia.org/wiki/List_of_file_signatures
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)

# A table of our own: ``mimetypes`` reads the configuration of the machine, so its result differs between machines.
_BY_EXTENSION = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "xml": "application/xml",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
    "mkv": "video/x-matroska",
}


# ---------------------------------------------------------------- data URLs


class DataUrl(NamedTuple):
    """The content of a data URL.

    Attributes:
        media_type: in lower case, without parameters; "" if the URL has none or an invalid one.
        data: base64, without white space. It is not validated; see ``is_base64``.
        was_base64: False if the URL had percent-encoded data, which was converted to base64.
    """

    media_type: str
    data: str
    was_base64: bool = True

    def __repr__(self) -> str:
        return f"<DataUrl {self.media_type or 'without type'}, {len(self.data)} characters of base64>"


def quote_source(source: str | None) -> str:
    """Return the beginning of an address, a data URL or a name in quotes, for a message.

    Credentials in an address are masked. It is cut after that, since half a credential cannot be recognized.
    """
    return repr(redact((source or "")[:_LONGEST_HEADER])[:_QUOTED])


def parse_data_url(text: str) -> DataUrl | None:
    """Parse a data URL, such as ``data:image/png;base64,iVBORw0...`` or ``data:text/plain,a%20b``.

    The scheme, the media type and ``base64`` are accepted in any case; parameters (``;charset=utf-8``) are skipped;
    white space and percent-encoding in the base64 data are removed.

    Returns:
        Its media type and its data as base64; None if the text is not a data URL.
    """
    header = _parse_header(text)
    if header is None:
        return None
    media_type, has_base64, start = header
    data = text[start:]
    if not has_base64:
        return DataUrl(media_type, b64encode(_percent_decode(data)).decode(), was_base64=False)
    if "%" in data:
        data = _percent_decode(data).decode("utf-8", "replace")
    return DataUrl(media_type, _without_space(data))


def normalize_data_url(text: str) -> str | None:
    """Return a data URL as one with base64 data; one that has base64 data already is returned unchanged.

    Returns:
        None if the text is not a data URL.
    """
    header = _parse_header(text)
    if header is None:
        return None
    media_type, has_base64, start = header
    if has_base64:
        return text
    return to_data_url(b64encode(_percent_decode(text[start:])).decode(), media_type or "text/plain")


def normalize_data(data: str, media_type: str | None = None) -> DataUrl:
    """Return the base64 data and the media type of data that is bare base64 or a data URL.

    Args:
        data: base64, or a data URL.
        media_type: the declared media type; it takes precedence over that of the URL.
    """
    declared = (media_type or "").lower()
    url = parse_data_url(data)
    if url is None:
        return DataUrl(declared, data)
    return url._replace(media_type=declared) if declared else url


def to_data_url(data: str, media_type: str) -> str:
    """Return base64 data as a data URL."""
    return f"data:{media_type};base64,{data}"


def _parse_header(text: str) -> tuple[str, bool, int] | None:
    """Return the media type of a data URL, whether its data is base64, and the offset of the data."""
    if text[:5].lower() != "data:":
        return None
    comma = text.find(",", 5, _LONGEST_HEADER)
    if comma < 0:
        return None
    media_type, *parameters = text[5:comma].split(";")
    has_base64 = bool(parameters) and parameters[-1].strip().lower() == "base64"
    is_valid = _MEDIA_TYPE.fullmatch(media_type) is not None
    if not has_base64 and not ((is_valid or not media_type) and all(map(_PARAMETER.fullmatch, parameters))):
        return None  # text that begins with "data:", such as YAML
    return media_type.lower() if is_valid else "", has_base64, comma + 1


def _percent_decode(text: str) -> bytes:
    # Not ``urllib.parse``, whose package does I/O.
    raw = text.encode("utf-8", "replace")
    return _PERCENT.sub(lambda match: bytes.fromhex(match[1].decode()), raw) if b"%" in raw else raw


def _without_space(text: str) -> str:
    for character in _SPACE:
        if character in text:
            return "".join(text.split())
    return text


# ---------------------------------------------------------------- addresses


def is_url(text: str, schemes: Collection[str] = ("http", "https")) -> bool:
    """Return True if a text is an absolute URL of one of these schemes, which are given in lower case."""
    scheme, mark, _ = text[:16].partition("://")
    return bool(mark) and scheme.lower() in schemes


def is_image_source(text: str) -> bool:
    """Return True if a text is an image's http(s) address, or a data URL of an image with base64 data."""
    url = parse_data_url(text)
    return is_url(text) if url is None else url.was_base64 and url.media_type.startswith("image/")


def has_type_in(text: str, media_types: Collection[str]) -> bool:
    """Return False if a text is a data URL of a media type that is not among these; ``image/jpg`` is ``image/jpeg``."""
    url = parse_data_url(text)
    return url is None or url.media_type.replace("image/jpg", "image/jpeg") in media_types


# ---------------------------------------------------------------- base64


def decode_base64(data: str) -> bytes | None:
    """Decode base64, with or without white space; return None if it is invalid."""
    try:
        return b64decode(data, validate=True)
    except ValueError:
        text = _without_space(data)
    try:
        return None if text is data else b64decode(text, validate=True)
    except ValueError:
        return None


def to_standard_base64(data: str) -> str:
    """Return base64 of either alphabet, with or without its padding, in the standard form."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    return data + "=" * (-len(_without_space(data)) % 4)


def encode_binary(value: Any) -> Any:
    """Return plain data with base64 text for bytes, which SDKs have where JSON has base64; itself if it has none.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, dict):
        items = {name: encode_binary(item) for name, item in value.items()}
        return items if any(items[name] is not item for name, item in value.items()) else value
    if isinstance(value, list):
        elements = [encode_binary(item) for item in value]
        return elements if any(new is not old for new, old in zip(elements, value, strict=True)) else value
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    return value


def is_base64(data: str) -> bool:
    """Return True if the data is valid base64, with or without white space; the empty string is valid."""
    return decode_base64(data) is not None


# ---------------------------------------------------------------- media types


def is_text_type(media_type: str) -> bool:
    """Return True if files of a media type are text; parameters of the type are ignored."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))


def decode_text(data: str, media_type: str | None) -> str | None:
    """Decode a file of text.

    Args:
        data: base64, or a data URL.
        media_type: the declared media type.

    Returns:
        None if the type is not a text type, or if the data is empty, invalid base64 or not UTF-8.
    """
    if not data:
        return None
    kind, encoded, _ = normalize_data(data, media_type)
    raw = decode_base64(encoded) if encoded and is_text_type(kind) else None
    try:
        return raw.decode() if raw is not None else None
    except UnicodeDecodeError:
        return None


def media_type_of_name(name: str) -> str | None:
    """Return the media type of a file name, a path or a URL by its extension, None if that is unknown."""
    path = re.split("[?#]", name, maxsplit=1)[0]
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _BY_EXTENSION.get(extension.lower()) if dot and stem else None


def sniff_media_type(data: bytes) -> str | None:
    """Return the media type of data that begins like a PNG, JPEG, GIF, WebP or PDF file, else None."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for signature, media_type in _SIGNATURES if data.startswith(signature)), None)


def sniff_base64_type(data: str) -> str | None:
    """Return the media type of base64 data by its first bytes, see ``sniff_media_type``."""
    start = decode_base64(data[:16])
    return sniff_media_type(start) if start is not None else None
