"""Which calls of a turn stay in one message, because the provider signed them or their reasoning as one step. Pure."""

from __future__ import annotations

from typing import Any

from streamkit.history import Content, ReasoningBlock
from streamkit.providers import registry
from streamkit.providers.provider import Provider

__all__ = ["reason_to_batch", "signature_fields"]


def signature_fields(provider: Provider | None) -> frozenset[str]:
    """Return the metadata names of signatures: of the provider, or of all providers if calls do not name theirs."""
    makers = [provider] if provider is not None else [registry.get(name) for name in registry.names()]
    return frozenset(field for maker in makers for field in maker.traits.signature_fields)


def reason_to_batch(assistant: Content, provider: Provider | None) -> str | None:
    """Return why the calls of this content cannot be split over messages, or None if they can.

    Anthropic accepts signed thinking only before all the tool_use blocks that it led to, and Gemini 3 rejects a
    step of function calls whose first has no signature; of parallel calls only the first carries one
    (https://ai.google.dev/gemini-api/docs/thought-signatures). DeepSeek and Kimi reject calls without their reasoning.
    """
    blocks = [block for block in assistant.blocks if provider is None or _is_from(block.metadata, provider)]
    fields = signature_fields(provider)
    if any(not fields.isdisjoint(block.metadata) for block in blocks):
        return "the provider signed them as one step"
    reasoning = [block for block in blocks if isinstance(block, ReasoningBlock)]
    is_signed = any(block.signature or block.opaque for block in reasoning)
    if provider is not None and provider.traits.batched_results and is_signed:
        return "they follow reasoning that the provider signed"
    if reasoning and provider is not None and provider.traits.calls_need_reasoning:
        return "the provider requires the reasoning before them in the same message"
    return None


def _is_from(metadata: dict[str, Any], provider: Provider) -> bool:
    """Return True unless another provider made the block: its signatures are not sent to this one."""
    return bool(metadata.get("provider", provider.name) == provider.name)
