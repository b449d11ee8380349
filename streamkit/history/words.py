"""What a part of a message says, as the text that a provider gets which has no field for it.

The parts of all wires use few names for what a model reads: a title, a context, texts, the id of a stored file. The
names are searched for in the order of `_NAMES`, so a new type of part has words as well. Data, such as base64, is none.
This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["UNREADABLE_FILE", "UNREADABLE_SUMMARY", "words_of"]

#: What the words have that only tell that something is lost.
UNREADABLE_FILE: Final = "which cannot be read here"
UNREADABLE_SUMMARY: Final = "The conversation before this was replaced by a summary"

_NAMES: Final = (
    *("title", "name", "filename", "source", "context", "text", "transcript", "content", "data"),
    *("file_id", "file", "video_url", "url", "document", "searchResult", "guardContent"),
)
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
        elif value.strip() and not value.startswith("data:"):
            yield value
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _lines(item, name, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        is_binary = value.get("type") == "base64" or "media_type" in value
        for inner in _NAMES:
            if inner in value and not (inner == "data" and (is_binary and value.get("type") != "text")):
                yield from _lines(value[inner], inner, depth + 1)
