"""Declared facts of Cohere's chat API, version 2: its errors, finish reasons, marks of its messages, and its traits.

Its errors have a status and a message only. This module must not depend on events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.provider import Traits
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = [
    "ERRORS",
    "FINISH_REASONS",
    "TRAITS",
    "rate_message",
]

#: https://docs.cohere.com/reference/errors
ERRORS: Final = ErrorRules(
    messages=(
        MessageRule(
            "context_overflow",
            r"tokens in the prompt (?:cannot exceed|exceeds the limit of) (?P<limit>[\d,]+)"
            r"(?: - received (?P<requested>[\d,]+))?",
        ),
        MessageRule("context_overflow", r"too many tokens: size limit exceeded"),
        MessageRule("quota_exceeded", r"API calls / month"),  # of trial keys
    ),
    overflow=(
        "too many tokens: total number of tokens in the prompt cannot exceed {limit} - received {requested}.",
        "too many tokens: size limit exceeded.",
    ),
)


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is Cohere's. Apart from plans and documents it is one of Chat Completions."""
    if message.get("role") not in ("system", "user", "assistant", "tool") or "type" in message or "parts" in message:
        return FOREIGN
    rating = rate_parts(message.get("content"), _rate_part)
    return OWN if rating != FOREIGN and message.get("tool_plan") is not None else rating


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    if kind == "document":
        return OWN if isinstance(part.get("document"), dict) else FOREIGN
    if kind == "thinking":  # without the signature that Anthropic's has
        return POSSIBLE if isinstance(part.get("thinking"), str) and "signature" not in part else FOREIGN
    return POSSIBLE if kind in ("text", "image_url") else FOREIGN


#: https://docs.cohere.com/v2/reference/chat-stream. The last two are of the vendor's first API: the text was toxic, and
#: the context was full (https://docs.cohere.com/v1/reference/chat-stream). A name that is not listed is ``other``.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "tool_calls",
    "MAX_TOKENS": "length",
    "ERROR": "error",
    "TIMEOUT": "error",
    "ERROR_TOXIC": "content_filter",
    "ERROR_LIMIT": "length",
}
#: https://docs.cohere.com/v2/reference/chat-stream
_EVENTS = frozenset(
    {
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "tool-plan-delta",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "citation-start",
        "citation-end",
        "message-end",
    }
)


def _is_own(chunk: HeadChunk) -> bool:
    data = chunk.data
    kind = data.get("type", chunk.name)
    if kind:
        return isinstance(kind, str) and kind in _EVENTS
    reason = data.get("finish_reason")
    is_body = isinstance(data.get("id"), str) and (isinstance(data.get("message"), dict) or isinstance(reason, str))
    return is_body and "done" not in data and "choices" not in data and "object" not in data


TRAITS = Traits(
    name="cohere",
    request_rules="streamkit.testing.rules.cohere",
    matches_head=HeadMatcher(_is_own),
    rate_message=rate_message,
    markup_families=frozenset(),
    event_name_field="type",
    tool_plans=True,
    plain_reasoning=True,
    # "The parameter is not supported when used in combinations with the documents or tools parameters" (its reference)
    output=OutputSupport(has_field=True, with_tools=False),
    end_marker="[DONE]",
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="https://api.cohere.com",
        path="/v2/chat",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
        sdk_base_path="",
        route=r"/v2/chat",
        route_example="/v2/chat",
        models_path="/v1/models?page_size=1000",
        models_field="models",
        model_entry={"name": "{model}", "endpoints": ["chat"], "finetuned": False},
        further_paths={"/v2/embed": None},
        # As responses to trial keys have them; the documentation names the limits alone.
        limit_headers=("x-trial-endpoint-call-", "x-endpoint-monthly-call-limit"),
        response_id=("", 32),
        call_id=("call_", 12),
    ),
    # https://docs.cohere.com/v2/reference/chat
    setting_fields={
        "temperature": ("temperature",),
        "top_p": ("p",),
        "top_k": ("k",),
        "stop": ("stop_sequences",),
        "seed": ("seed",),
        "frequency_penalty": ("frequency_penalty",),
        "presence_penalty": ("presence_penalty",),
    },
    max_stop_texts=5,  # "A list of up to 5 strings"
)
