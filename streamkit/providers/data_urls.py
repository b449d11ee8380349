"""Base64 data URLs, the form in which history keeps images."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streamkit.history.content import FileBlock

__all__ = ["DataURL", "file_data", "parse_data_url"]

_BASE64_DATA_URL = re.compile(r"data:([\w.+/-]+)(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


class DataURL(NamedTuple):
    """The content of a data URL."""

    media_type: str  #: in lower case, without parameters
    data: str  #: base64


def parse_data_url(url: str) -> DataURL | None:
    """Return the content of a base64 data URL with a media type; None for any other text."""
    match = _BASE64_DATA_URL.match(url)
    return None if match is None else DataURL(match[1].lower(), url[match.end() :])


def file_data(block: FileBlock) -> tuple[str, str | None]:
    """Return a file's media type in lower case, ``""`` if unknown, and its data as base64, None if it has none.

    A file's data may be a data URL; its media type counts if the block itself has none.
    """
    media_type, data = (block.media_type or "").lower(), block.data or None
    url = parse_data_url(data) if data else None
    return (media_type, data) if url is None else (media_type or url.media_type, url.data)
