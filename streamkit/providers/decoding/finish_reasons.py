"""Reading finish reasons by a provider's table, for its parser, and inverting the table, for its encoder.

A provider declares one table, ``FINISH_REASONS``, from the names on its wire to the neutral ``FinishReason``. Several
names may have one meaning, and a meaning may have no name, so the inverse needs two facts more: which of several names
the provider sends, and what an encoder writes where the wire has no name.

A gateway passes on the reason of whatever vendor it asked, in that vendor's spelling or in that of an SDK's enum. So a
name that is not in the provider's table is compared without case and separators, and then looked up among the names of
all vendors. This module depends on no provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from streamkit.calls import FinishReason
from streamkit.providers.decoding.decoding import json_or_placeholder

__all__ = [
    "KNOWN_FINISH_REASONS",
    "invert_finish_reasons",
    "is_reason",
    "normalize_finish_reason",
    "read_finish_reason",
]

_NEUTRAL_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
_NO_PREFERENCES: Mapping[FinishReason, str] = {}

#: The meaning of the names that vendors use, in the form of ``normalize_finish_reason``.
KNOWN_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    # The neutral names, which encoders write where a wire has no name.
    **{reason: reason for reason in _NEUTRAL_REASONS},
    # https://platform.openai.com/docs/api-reference/chat/object and /responses/object
    "stop": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "failed": "error",
    "cancelled": "error",
    # https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_MessageStopEvent.html
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
    # https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-text.html
    "finish": "stop",
    "finished": "stop",
    "stop_criteria_met": "stop",
    # https://ai.google.dev/api/generate-content#FinishReason; a gateway passes them on (Portkey-AI/gateway#1200)
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "model_armor": "content_filter",
    "image_safety": "content_filter",
    "image_prohibited_content": "content_filter",
    "image_recitation": "content_filter",
    "escalation": "content_filter",
    "pup_limited_disabled": "content_filter",
    "continuation": "length",
    "malformed_function_call": "error",
    "malformed_response": "error",
    "unexpected_tool_call": "error",
    "too_many_tool_calls": "error",
    "missing_thought_signature": "error",
    # https://docs.cohere.com/v2/reference/chat-stream and .../v1/reference/chat-stream
    "complete": "stop",
    "tool_call": "tool_calls",
    "error": "error",
    "timeout": "error",
    "error_toxic": "content_filter",
    "error_limit": "length",
    # https://docs.mistral.ai/api/#tag/chat
    "model_length": "length",
    # https://huggingface.github.io/text-generation-inference, "FinishReason" (``TextGenerationFinishReason`` of
    # @huggingface/inference); https://docs.together.ai
    "eos": "stop",
    "eos_token": "stop",
    # xai-org/xai-proto, "FinishReason": REASON_MAX_LEN, REASON_MAX_CONTEXT, REASON_TIME_LIMIT
    "max_len": "length",
    "max_context": "length",
    # https://ibm.github.io/watsonx-ai-node-sdk, "TextChatResultChoice", which has cancelled, too
    "time_limit": "error",
    # https://docs.z.ai/api-reference/llm/chat-completion
    "sensitive": "content_filter",
    "network_error": "error",
    # https://api-docs.deepseek.com/api/create-chat-completion
    "insufficient_system_resource": "error",
    # https://docs.vllm.ai/en/latest/api/vllm/v1/engine, "FinishReason": the request was aborted
    "abort": "error",
    # earendil-works/pi#2107
    "end": "stop",
}

#: Values with which servers report that there is no reason yet.
_ABSENT_NAMES: Final = frozenset({"", "null", "none", "unspecified"})

_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_MAX_NAME = 100  # longer than any name: what a stream invents must not cost more


def is_reason(raw: Any) -> bool:
    """Return True if a wire value is a finish reason; False for one that reports none yet (``"null"``)."""
    if raw.__class__ is str and raw.lower() in KNOWN_FINISH_REASONS:  # most reasons, also those in upper case
        return True
    return bool(raw) and not (isinstance(raw, str) and normalize_finish_reason(raw) in _ABSENT_NAMES)


def read_finish_reason(raw: Any, table: Mapping[str, FinishReason]) -> tuple[str | int, FinishReason]:
    """Return a finish reason as the turn keeps it, and its neutral meaning: the arguments of ``ChoiceSink.finish``.

    Args:
        raw: What the wire sent. ``other`` is the meaning of a number, and of a name that neither ``table`` nor
            ``KNOWN_FINISH_REASONS`` has in any spelling.
        table: The neutral reason by its name on the wire. It has priority over ``KNOWN_FINISH_REASONS``.
    """
    if isinstance(raw, str):
        return raw, table.get(raw) or _read_spelling(raw, table)
    return (raw if raw.__class__ is int else json_or_placeholder(raw)), "other"


def _read_spelling(raw: str, table: Mapping[str, FinishReason]) -> FinishReason:
    """Return the meaning of a name that a table does not have as it is spelled.

    Google's endpoint of Chat Completions puts a filter before Gemini's own name, as the tests of its clients quote it:
    ``content_filter: RECITATION``, ``function_call_filter: MALFORMED_FUNCTION_CALL``. The own name counts if it is
    known.
    """
    known = {**KNOWN_FINISH_REASONS, **{normalize_finish_reason(name): reason for name, reason in table.items()}}
    kind, colon, own_name = raw[:_MAX_NAME].partition(":")
    for name in (raw, own_name, kind) if colon else (raw,):
        reason = known.get(normalize_finish_reason(name), "other")
        if reason != "other":
            return reason
    return "other"


def normalize_finish_reason(name: str) -> str:
    """Return the name of a finish reason in snake case, without the name of an enum before it.

    SDKs spell the names of a wire in the style of their language (``guardrailIntervened`` of
    https://strandsagents.com/docs/api/typescript/StopReason/, ``MaxTokens`` of Google's for .NET).
    ``FinishReason.MAX_TOKENS``, ``FINISH_REASON_MAX_TOKENS``, ``maxTokens``, ``max-tokens`` and ``Max Tokens`` are all
    ``max_tokens``.
    """
    words = _WORD_BOUNDARY.sub("_", name[:_MAX_NAME].rpartition(".")[2]).strip("_").lower()
    for prefix in ("finish_reason_", "stop_reason_", "reason_"):
        words = words.removeprefix(prefix)
    return words


def invert_finish_reasons(
    table: Mapping[str, FinishReason],
    *,
    preferred: Mapping[FinishReason, str] = _NO_PREFERENCES,
    default: str | None = None,
) -> dict[FinishReason, str]:
    """Return the name on the wire for every neutral finish reason.

    Args:
        table: The neutral reason by its name on the wire. Of several names with one meaning the first is taken.
        preferred: The exceptions: names that are taken instead of the table's first, or where it has none.
        default: The name for a reason that neither ``table`` nor ``preferred`` covers; None: the neutral name itself.

    Returns:
        A dict with one entry for each member of ``FinishReason``, in the order in which that declares them.
    """
    first_names: dict[FinishReason, str] = {}
    for name, reason in table.items():
        first_names.setdefault(reason, name)
    names = {**first_names, **preferred}
    return {reason: names.get(reason, reason if default is None else default) for reason in _NEUTRAL_REASONS}
