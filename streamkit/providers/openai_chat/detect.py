"""Whether the first bytes of a body are Chat Completions': decided by what its first chunk is, never by words in it."""

from __future__ import annotations

from typing import Any

from streamkit.framing import framer_for
from streamkit.json_text import parse_partial_object

__all__ = ["is_chat_stream"]


def is_chat_stream(head: bytes) -> bool:
    """Whether these can only be a chat stream's or a chat answer's first bytes. It may be cut anywhere.

    Args:
        head: the first bytes, without byte order mark and leading whitespace.
    """
    if head.startswith(b"{"):
        return _is_chunk(_object(head)) is True
    framer = framer_for("sse")
    for name, data in framer.feed(head):
        if name not in (b"", b"message"):
            return False
        verdict = _is_chunk(_object(data))
        if verdict is not None:
            return verdict
    # The first chunk may be longer than what is here; what of its JSON is there says it just as well.
    rest = framer.pending.rpartition(b"\n")[2]
    return rest.startswith(b"data:") and _is_chunk(_object(rest[5:])) is True


def _object(data: bytes) -> dict[str, Any]:
    return parse_partial_object(data.decode("utf-8", "replace"))


def _is_chunk(chunk: dict[str, Any]) -> bool | None:
    """None where it does not tell: an empty object, an empty list of choices."""
    kind, choices = chunk.get("object"), chunk.get("choices")
    if kind in ("chat.completion.chunk", "chat.completion"):
        return True
    if "type" in chunk:
        return False
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return "delta" in choices[0] or "message" in choices[0]
    if isinstance(choices, list) and "prompt_filter_results" in chunk:
        return True  # Azure's first chunk
    return None if not kind else False
