"""Declared facts of Google's Gemini API."""

from __future__ import annotations

import re

from streamkit.providers.provider import Traits

__all__ = ["TRAITS"]

# The beginning of a chunk that no other wire has, in either framing or as the one body of a request without streaming.
_CHUNK = re.compile(
    rb"""(?:\A|\n|\r)(?:data:)?\s*\[?\s*\{\s*"(?:candidates"\s*:\s*\[|(?:usageMetadata|promptFeedback)"\s*:\s*\{)"""
)


def _matches_head(head: bytes) -> bool:
    return _CHUNK.search(head) is not None


TRAITS = Traits(
    name="gemini",
    matches_head=_matches_head,
    whole_calls=True,
    compatible=frozenset({"gemini"}),
    id_rule="gemini",
    messages_field="contents",
    line_end="\r\n",
    batched_results=True,
    media_speakers=frozenset({"human", "tool", "ai"}),
    signature_fields=("thoughtSignature",),  # https://ai.google.dev/gemini-api/docs/thought-signatures
)
