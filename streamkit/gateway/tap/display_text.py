"""Texts and JSON for display: without secrets, cut if they are long, and a body cut where its frames end. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from streamkit.json_text import replace_lone_surrogates
from streamkit.reading.source import BYTES
from streamkit.values.redaction import MASK, is_secret_name, redact, redact_secrets, redact_value

__all__ = [
    "LONGEST_TEXT",
    "FramePieces",
    "clean",
    "clean_json",
    "decode_json",
    "request_text",
    "shorten",
    "show_text",
]


LONGEST_TEXT = 16 * 1024  #: characters that are shown of a frame, or of one text of a large event
_SEARCHED_BEYOND = 512  # characters after these that are searched for secrets, since half a key is not recognized


def clean(text: str, secrets: Iterable[str] = (), pause: Callable[[], object] | None = None) -> str:
    """Return a text without these secrets and without those of a known form; ``pause`` as in ``redact``."""
    if not text:
        return text  # most frames have no name
    return redact(redact_secrets(text, secrets), pause)


def show_text(data: bytes, secrets: Iterable[str] = ()) -> str:
    """Return bytes as text without secrets, cut if it is long."""
    text = data.decode("utf-8", "replace")
    return shorten(clean(text[: LONGEST_TEXT + _SEARCHED_BEYOND], secrets), length=len(text))


def shorten(text: str, longest: int = LONGEST_TEXT, *, length: int | None = None) -> str:
    """Return a text that is cut after *longest* characters.

    Args:
        text: the text, or its beginning.
        longest: the characters that are kept.
        length: the characters of the whole text; by default those of *text*.
    """
    length = len(text) if length is None else length
    return text if length <= longest else f"{text[:longest]} [{length - longest} more characters]"


def clean_json(line: bytes, secrets: Iterable[str] = ()) -> bytes:
    """Return JSON without secrets, with its texts cut if it is long."""
    if len(line) > LONGEST_TEXT:
        line = msgspec.json.encode(_shorten_texts(decode_json(line)))
    text = line.decode()
    cleaned = clean(text, secrets)
    if cleaned == text:
        return line
    try:
        json.loads(cleaned)
    except ValueError:  # a mask that reaches over the end of a string
        return msgspec.json.encode(redact_value(decode_json(line)))
    return cleaned.encode()


def request_text(body: Any, secrets: Iterable[str] = (), pause: Callable[[], object] | None = None) -> str:
    """Return the body of a request as text without secrets, those in fields with the names of secrets included.

    Args:
        body: plain data, or bytes.
        secrets: texts that are masked.
        pause: called while a long text is searched, as in ``redact``.
    """
    text = bytes(body).decode("utf-8", "replace") if isinstance(body, BYTES) else None
    with suppress(ValueError, RecursionError):  # of a body that is not JSON
        data = msgspec.json.decode(text) if text is not None else replace_lone_surrogates(body)
        masked = _mask_fields(data)
        if text is None or masked != data:  # else it stays as it was sent, with its spaces
            text = msgspec.json.encode(masked, enc_hook=str).decode()
    return clean(text or "", secrets, pause)


def _mask_fields(value: Any) -> Any:
    """Return plain data with the texts masked that are in fields with the names of secrets."""
    if isinstance(value, dict):
        return {
            name: MASK
            if isinstance(item, str) and item and isinstance(name, str) and is_secret_name(name)
            else _mask_fields(item)
            for name, item in value.items()
        }
    return [_mask_fields(item) for item in value] if isinstance(value, list) else value


def decode_json(line: bytes) -> Any:
    """Return the value of JSON, with each escaped half of a surrogate pair replaced."""
    try:
        return msgspec.json.decode(line)
    except ValueError:
        return replace_lone_surrogates(json.loads(line))


def _shorten_texts(value: Any) -> Any:
    """Return plain data with its long texts cut."""
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, dict):
        return {name: _shorten_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shorten_texts(item) for item in value]
    return value


_LENGTH_SIZE = 4  # bytes of a binary frame's own length, with which it begins


class FramePieces:
    """The cutting of bytes where frames end, so that each frame is read alone.

    Text is cut at line ends, binary frames (``application/vnd.amazon.eventstream``) by their own length.
    """

    def __init__(self) -> None:
        self._is_binary: bool | None = None
        self._begin = b""  # less than the length of a binary frame
        self._left = 0  # bytes until the end of a binary frame

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes in pieces, none of which has bytes of two frames."""
        if self._is_binary is None and data:
            self._is_binary = data[:1] == b"\0"  # of a frame's length; text never begins so
        if not self._is_binary:
            yield from data.splitlines(keepends=True)
            return
        data, self._begin = self._begin + data, b""
        while data:
            if not self._left:
                if len(data) < _LENGTH_SIZE:
                    self._begin = data
                    return
                self._left = max(int.from_bytes(data[:_LENGTH_SIZE], "big"), _LENGTH_SIZE)
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            yield piece
