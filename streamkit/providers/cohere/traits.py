"""Declared facts of Cohere's chat API, version 2."""

from __future__ import annotations

from typing import Final

from streamkit.calls import FinishReason
from streamkit.providers.cohere.errors import ERRORS
from streamkit.providers.cohere.message_format import rate_message
from streamkit.providers.detection import HeadChunk, HeadMatcher
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.provider import Traits

__all__ = ["FINISH_REASONS", "TRAITS"]

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
