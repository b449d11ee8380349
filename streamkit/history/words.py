"""Texts in place of parts of a message, for providers that have no field for them.

The parts of all wires use few names for what a model reads: a title, a context, texts, the id of a stored file. The
names are searched for in the order of `_NAMES`, so a new type of part has words as well. Data, such as base64, is none.
This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamkit.history.content import UNREADABLE_FILE, UNREADABLE_SUMMARY

__all__ = ["words_of"]


_NAMES: Final = (
    *("title", "name", "filename", "source", "context", "text", "transcript", "content", "data"),
    *("file_id", "file", "video_url", "url", "document", "searchResult", "guardContent"),
    *("image", "video", "audio", "bytes", "s3Location", "uri"),
)
_DATA: Final = frozenset({"data", "bytes", "uri"})
_DEEPEST: Final = 8
#: Of OpenAI's Responses (encrypted) and of Anthropic's Messages (a text).
_COMPACTIONS: Final = frozenset({"compaction", "compaction_summary", "context_compaction"})


def words_of(part: Any, speaker: str, provider: str) -> str | None:
    """Return the text that replaces a part at another provider; None if the part is left out there.

    A part of the model says nothing to another model, except the summary of what was before it.
    """
    kind = part.get("type") if isinstance(part, dict) else None
    is_summary = isinstance(kind, str) and kind in _COMPACTIONS
    if speaker != "human" and not is_summary:
        return None
    words = "\n".join(_lines(part, "", 0))
    if is_summary and not words:
        return f"[{UNREADABLE_SUMMARY} that only {provider} can read.]"
    return words or None


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if name == "file_id":
            yield f"[a stored file with the id {value}, {UNREADABLE_FILE}]"
        elif name in _DATA or value.startswith("data:"):
            yield f"[a file, {UNREADABLE_FILE}]"
        elif value.strip():
            yield value
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _lines(item, name, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        is_text = value.get("type") == "text"
        for inner in _NAMES:
            if inner in value:
                yield from _lines(value[inner], "text" if inner == "data" and is_text else inner, depth + 1)
