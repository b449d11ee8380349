"""The token counts of chat streams, by the field names of OpenAI and of the other servers."""

from __future__ import annotations

from typing import Any

from streamkit.calls import Usage
from streamkit.providers.decoding import as_integer

__all__ = ["is_usage", "parse_usage"]

#: The names of the tokens written to a cache, among the details of the prompt: OpenRouter's and Bedrock's, SAP's, those
#: of DashScope's explicit cache (https://help.aliyun.com/en/model-studio/context-cache) and of new-api's relays.
_CACHE_WRITE_FIELDS = (
    "cache_write_tokens",
    "cache_creation_tokens",
    "cache_creation_input_tokens",
    "cached_creation_tokens",
)


def is_usage(raw: Any) -> bool:
    """Return True if a chunk's usage has a count of this wire; the name of the field is that of other wires too."""
    return isinstance(raw, dict) and ("prompt_tokens" in raw or "completion_tokens" in raw)


def parse_usage(raw: Any) -> Usage | None:
    """Return the token counts of a ``usage`` object, by the field names of OpenAI and of the other servers.

    ``completion_tokens`` includes the reasoning, unless the total shows that it is counted separately (xAI).
    """
    if not isinstance(raw, dict):
        return None
    prompt, output = as_integer(raw.get("prompt_tokens")), as_integer(raw.get("completion_tokens"))
    if prompt is None and output is None:  # mlx-vlm (earendil-works/pi#2326)
        prompt, output = as_integer(raw.get("input_tokens")), as_integer(raw.get("output_tokens"))
    prompt_details = raw.get("prompt_tokens_details")
    output_details = raw.get("completion_tokens_details")
    cache_read = cache_write = reasoning = None
    if isinstance(prompt_details, dict):
        cache_read = as_integer(prompt_details.get("cached_tokens"))
        for name in _CACHE_WRITE_FIELDS:
            if name in prompt_details and not cache_write:
                count = as_integer(prompt_details[name])
                cache_write = cache_write if count is None else count
    if cache_read is None:
        cache_read = as_integer(raw.get("prompt_cache_hit_tokens"))  # DeepSeek
    if cache_read is None:
        cache_read = as_integer(raw.get("cached_tokens"))  # Moonshot
    # LiteLLM: with a cached_tokens of 0 in streams (BerriAI/litellm#11789, BerriAI/litellm#11364)
    relayed_read = as_integer(raw.get("cache_read_input_tokens")) or 0
    relayed_write = as_integer(raw.get("cache_creation_input_tokens")) or 0
    if not relayed_write:  # Usage of snowflake.core
        relayed_write = as_integer(raw.get("cache_write_input_tokens")) or 0
    cache_read, cache_write = relayed_read or cache_read, relayed_write or cache_write
    if prompt is not None and prompt < relayed_read + relayed_write:
        prompt += relayed_read + relayed_write  # they were not counted (BerriAI/litellm#10240)
    if isinstance(output_details, dict):
        reasoning = as_integer(output_details.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = as_integer(raw.get("reasoning_tokens"))
    if reasoning and output is not None and prompt is not None:
        if as_integer(raw.get("total_tokens")) == prompt + output + reasoning:
            output += reasoning
    return Usage(prompt, output, reasoning, cache_read, cache_write, raw)
