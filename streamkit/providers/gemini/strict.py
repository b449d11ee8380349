"""The strict mode of the Gemini API."""

from __future__ import annotations

from streamkit.tools import StrictProfile

__all__ = ["STRICT"]

# https://ai.google.dev/gemini-api/docs/function-calling: not a field of a tool, but a mode of the request, VALIDATED.
# It "ensures function schema adherence" and leaves the model free to respond with text; ANY is constrained anyway. The
# keywords are those of https://ai.google.dev/gemini-api/docs/structured-output#json-schema-support; others have no
# effect.
STRICT = StrictProfile(
    "Gemini",
    keywords={
        "format": frozenset(("date-time", "date", "time")),
        "minimum": None,
        "maximum": None,
        "minItems": None,
        "maxItems": None,
    },
    all_or_none=True,
)
