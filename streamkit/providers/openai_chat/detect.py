"""Detection of Chat Completions by the first chunks of a body."""

from __future__ import annotations

from streamkit.providers.detection import HeadChunk, HeadMatcher

__all__ = ["is_chat_stream"]


def _is_own(chunk: HeadChunk) -> bool:
    """Return True for a chat chunk or a complete chat response, and for no chunk of the legacy completions."""
    data, kind, choices = chunk.data, chunk.data.get("object"), chunk.data.get("choices")
    if chunk.name not in ("", "message") or chunk.framing not in ("sse", "json"):
        return False
    if kind in ("chat.completion.chunk", "chat.completion"):
        return True
    if "type" in data or not isinstance(choices, list):
        return False
    if choices and isinstance(choices[0], dict):
        return not kind and ("delta" in choices[0] or "message" in choices[0])
    return "prompt_filter_results" in data  # Azure's first chunk


#: Returns True if a body with these first bytes can only be a chat stream or a complete chat response.
is_chat_stream = HeadMatcher(_is_own)
