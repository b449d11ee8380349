"""Declared facts of OpenAI's Responses API, and the ends of its responses.

This module must not depend on sinks or history: a parser loads it without pydantic.
"""

from __future__ import annotations

import re

from streamkit.calls import FinishReason
from streamkit.ids import normalize_to_openai_tool_id
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Traits
from streamkit.target_ids import IdRule, prefixed_ids, safe_up_to

__all__ = ["FINISH_REASONS", "TRAITS"]

#: How a response can end: its ``status``, and for ``incomplete`` a colon and the ``reason`` in ``incomplete_details``.
#: An unknown status means ``other``, an unknown reason ``length``: whatever stopped the response, it is truncated.
FINISH_REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "incomplete:max_output_tokens": "length",
    "incomplete:max_tokens": "length",
    "incomplete:length": "length",
    "incomplete:content_filter": "content_filter",
    "incomplete": "length",
    "failed": "error",
    "cancelled": "error",
}

# A text that quotes such a stream has its quotes escaped, so these occur only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"response\.[a-z_]+[."]|(?:^|\n|\r)event: ?response\.[a-z_]')
_BODY = re.compile(rb'"object"\s*:\s*"response"')


def _matches_head(head: bytes) -> bool:
    return (_BODY if head[:1] == b"{" else _STREAM).search(head) is not None


TRAITS = Traits(
    name="openai_responses",
    markup_families=frozenset({"harmony"}),
    matches_head=_matches_head,
    compatible=frozenset({"openai_responses"}),
    id_rule=IdRule(
        "openai_responses",
        safe_up_to(64),
        prefixed_ids("call_", 64, normalize_to_openai_tool_id),
        "400 string_above_max_length for call_id, at most 64 (openclaw/openclaw#31934, orchidfiles/ungate#26)",
    ),
    messages_field="input",
    event_name_field="type",
    endpoint=Endpoint(
        base_url="https://api.openai.com/v1",
        path="/responses",
        key_variables=("OPENAI_API_KEY",),
        limit_field=("max_output_tokens",),
        route=r"(?:/.+)?/responses",
        route_example="/v1/responses",
        response_id=("resp_", 50),
    ),
)
