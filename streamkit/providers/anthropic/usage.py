"""Token counts of Anthropic's messages. Each report includes the earlier ones."""

from __future__ import annotations

from typing import Any

from streamkit.calls import Usage
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import as_integer

__all__ = ["merge_usage"]


def merge_usage(fields: Json, usage: dict[Any, Any]) -> Usage:
    """Merge a report of usage into the earlier ones and return the result.

    Of each field the last value counts, and a field that is absent keeps its value. The vendor counts the parts of the
    prompt separately (``input_tokens`` is what was neither read from the cache nor written to it), so the prompt's
    total is the sum of the merged fields.

    Args:
        fields: the fields of the earlier reports; changed.
        usage: the report.
    """
    for name, value in usage.items():
        if value is not None and (value or not fields.get(name)):
            fields[name] = value
    cache_read = as_integer(fields.get("cache_read_input_tokens"))
    cache_write = as_integer(fields.get("cache_creation_input_tokens"))
    uncached = as_integer(fields.get("input_tokens"))
    prompt = [count for count in (uncached, cache_read, cache_write) if count is not None]
    details = fields.get("output_tokens_details")
    return Usage(
        sum(prompt) if prompt else None,
        as_integer(fields.get("output_tokens")),
        as_integer(details.get("thinking_tokens")) if isinstance(details, dict) else None,
        cache_read,
        cache_write,
        dict(fields),
    )
