"""Declared facts of Anthropic's Messages API."""

from __future__ import annotations

import re
from typing import Final

from streamkit.calls import FinishReason
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Traits
from streamkit.target_ids import IdRule, prefixed_ids, safe_up_to

__all__ = ["FINISH_REASONS", "TRAITS"]

#: The neutral reason of each ``stop_reason``. ``compaction`` is a pause: a client that sets
#: ``pause_after_compaction`` sends the turn back to continue it.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}

# A text that quotes such a stream has its quotes escaped, so these occur only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"message_start"|(?:^|\n|\r)event: ?message_start[\r\n]')
_BODY = re.compile(rb'"type"\s*:\s*"message".*"stop_reason"|"stop_reason".*"type"\s*:\s*"message"', re.DOTALL)


def _matches_head(head: bytes) -> bool:
    return (_BODY if head[:1] == b"{" else _STREAM).search(head) is not None


TRAITS = Traits(
    name="anthropic",
    markup_families=frozenset(),
    matches_head=_matches_head,
    # Signatures are "compatible across platforms (Claude APIs, Amazon Bedrock, and Vertex AI)",
    # https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
    compatible=frozenset({"anthropic", "bedrock_invoke"}),
    id_rule=IdRule(
        "anthropic",
        safe_up_to(64),
        prefixed_ids("toolu_", 64),
        '400 "String should match pattern \'^[a-zA-Z0-9_-]+$\'" and "tool_use ids must be unique"'
        " (LibreChat-AI/agents#153, maximhq/bifrost#5097)",
    ),
    batched_results=True,
    event_name_field="type",
    endpoint=Endpoint(
        base_url="https://api.anthropic.com",
        path="/v1/messages",
        key_variables=("ANTHROPIC_API_KEY",),
        # The documented pair (https://docs.anthropic.com/en/api/overview) and the version whose streams the parser
        # reads; the SDK itself has begun to send newer ones.
        key_header=("x-api-key", "{}"),
        headers={"anthropic-version": "2023-06-01"},
        default_limit=4096,  # the API refuses a request without it
        sdk_base_path="",
        route=r"/v1/messages",
        route_example="/v1/messages",
        response_id=("msg_01", 22),
        call_id=("toolu_01", 22),
    ),
)
