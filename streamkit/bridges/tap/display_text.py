"""Texts and JSON as they are shown to people: without secrets, and cut if they are long. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from streamkit.json_text import replace_lone_surrogates
from streamkit.redaction import MASK, redact, redact_value

__all__ = ["LONGEST_TEXT", "clean", "clean_json", "decode_json", "show_text"]

LONGEST_TEXT = 16 * 1024  #: characters that are shown of a frame, or of one text of a large event
_SEARCHED_BEYOND = 512  # characters after these that are searched for secrets, since half a key is not recognized
_SHORTEST_SECRET = 8  # characters; a shorter one is a placeholder, such as "any", and also a word of the text


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without these secrets and without those of a known form."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    return redact(text)


def show_text(data: bytes, secrets: Iterable[str] = (), longest: int = LONGEST_TEXT) -> str:
    """Return bytes as text without secrets, cut after *longest* characters."""
    text = data.decode("utf-8", "replace")
    shown = clean(text[: longest + _SEARCHED_BEYOND], secrets)
    return shown if len(text) <= longest else _cut(shown, len(text), longest)


def clean_json(line: bytes, secrets: Iterable[str] = ()) -> bytes:
    """Return JSON without secrets, with its texts cut if it is long."""
    if len(line) > LONGEST_TEXT:
        line = msgspec.json.encode(_shorten(decode_json(line)))
    text = line.decode()
    cleaned = clean(text, secrets)
    if cleaned == text:
        return line
    try:
        json.loads(cleaned)
    except ValueError:  # a mask that reaches over the end of a string
        return msgspec.json.encode(redact_value(decode_json(line)))
    return cleaned.encode()


def decode_json(line: bytes) -> Any:
    """Return the value of JSON, with each escaped half of a surrogate pair replaced."""
    try:
        return msgspec.json.decode(line)
    except ValueError:
        return replace_lone_surrogates(json.loads(line))


def _shorten(value: Any) -> Any:
    """Return plain data with its long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else _cut(value, len(value), LONGEST_TEXT)
    if isinstance(value, dict):
        return {name: _shorten(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shorten(item) for item in value]
    return value


def _cut(text: str, length: int, longest: int) -> str:
    return f"{text[:longest]} [{length - longest} more characters]"
