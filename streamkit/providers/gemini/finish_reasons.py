"""Finish reasons of a Gemini stream: names, an SDK's enum members or numbers, to their neutral meaning.

Wire      https://ai.google.dev/api/generate-content#FinishReason

The names are in ``traits.FINISH_REASONS``. This module does not depend on chunks or sinks.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import FinishReason
from streamkit.providers.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.gemini.traits import FINISH_REASONS

__all__ = ["interpret_finish_reason"]

#: Finish reasons in the order of their numbers in google.ai.generativelanguage.v1beta, which is what
#: ``$alt=json;enum-encoding=int`` sends. Vertex numbers them differently from 6 on (there 6 is BLOCKLIST and 9
#: MALFORMED_FUNCTION_CALL) and the bytes do not show which of the two it is. From 7 on, no call may run by either list.
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
)


def interpret_finish_reason(raw: Any) -> FinishReason | None:
    """Return the neutral finish reason of a wire value.

    Args:
        raw: the reason as the wire writes it, as an SDK or a gateway spells it (``FinishReason.STOP``, ``stop``), or as
            its number, also in text.

    Returns:
        The reason, or None if the value is absent, empty, unspecified, or neither text nor an integer.
    """
    if isinstance(raw, str) and raw.isdecimal() and len(raw) < 4:
        raw = int(raw)
    if raw.__class__ is int:
        raw = _NUMBERED[raw] if 0 <= raw < len(_NUMBERED) else "OTHER"
    if not isinstance(raw, str) or not is_reason(raw):
        return None
    return read_finish_reason(raw, FINISH_REASONS)[1]
