"""Detection of Chat Completions by the first bytes of a body.

The structure of the first chunk decides, never a string in it: a text may quote any wire. This module depends on
framing and on partial JSON only.
"""

from __future__ import annotations

from typing import Any

from streamkit.framing import framer_for
from streamkit.json_text import parse_partial_object

__all__ = ["is_chat_stream"]


def is_chat_stream(head: bytes) -> bool:
    """Return True if a body with these first bytes can only be a chat stream or a complete chat response.

    Args:
        head: the first bytes, without byte order mark and leading whitespace; they may end anywhere.
    """
    if head.startswith(b"{"):
        return _is_chunk(_parse_object(head)) is True
    framer = framer_for("sse")
    for name, data in framer.feed(head):
        if name not in (b"", b"message"):
            return False
        is_chunk = _is_chunk(_parse_object(data))
        if is_chunk is not None:
            return is_chunk
    # The first chunk may be longer than the head; the beginning of its JSON is enough.
    rest = framer.pending.rpartition(b"\n")[2]
    return rest.startswith(b"data:") and _is_chunk(_parse_object(rest[5:])) is True


def _parse_object(data: bytes) -> dict[str, Any]:
    return parse_partial_object(data.decode("utf-8", "replace"))


def _is_chunk(chunk: dict[str, Any]) -> bool | None:
    """Return whether an object is a chat chunk; None if that is undecided: it is empty, or its choices are."""
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
