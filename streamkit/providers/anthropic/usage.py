"""Token counts of Anthropic's messages. Each report includes the earlier ones."""

from __future__ import annotations

from typing import Any

from streamkit.calls import Usage
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import as_integer

__all__ = ["merge_usage"]


def merge_usage(fields: Json, usage: dict[Any, Any]) -> Usage:
    """Merge a report of usage into the earlier ones and return the result; its ``raw`` are the merged fields.

    Of each field the last value counts, and a field that is absent keeps its value. The vendor counts the parts of the
    prompt separately (``input_tokens`` is what was neither read from the cache nor written to it), so the prompt's
    total is the sum of the merged fields.

    Args:
        fields: the fields of the earlier reports.
        usage: the report.
    """
    merged = {**fields}
    for name, value in usage.items():
        if value is not None and (value or not merged.get(name)):
            merged[name] = value
    cache_read = as_integer(merged.get("cache_read_input_tokens"))
    cache_write = as_integer(merged.get("cache_creation_input_tokens"))
    prompt = as_integer(merged.get("input_tokens"))
    for count in (cache_read, cache_write):
        if count is not None:
            prompt = count if prompt is None else prompt + count
    details = merged.get("output_tokens_details")
    return Usage(
        prompt,
        as_integer(merged.get("output_tokens")),
        as_integer(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        cache_read,
        cache_write,
        merged,
    )
