"""The strict mode of Cohere's chat API."""

from __future__ import annotations

from streamkit.tools import StrictProfile

__all__ = ["STRICT"]

# https://docs.cohere.com/docs/structured-outputs#parameter-types-support and .../tool-use-parameter-types (read
# 2026-11): one switch for the request; no range of a number or a length; these formats; patterns only without ^ and $,
# which few are; a required parameter in each tool, 200 fields in all of them.
STRICT = StrictProfile(
    "Cohere",
    keywords={"format": frozenset(("date-time", "uuid", "date", "time"))},
    some_required=True,
    all_or_none=True,
    fields=200,
)
