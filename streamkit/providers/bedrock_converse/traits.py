"""Declared facts of Amazon Bedrock's Converse API."""

from __future__ import annotations

import re
from typing import Final

from streamkit.calls import FinishReason
from streamkit.ids import is_mistral_id, mistral_id_candidates
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Traits
from streamkit.target_ids import IdRule, prefixed_ids, safe_up_to

__all__ = ["FINISH_REASONS", "TRAITS"]

#: The neutral reason of each ``stopReason``. The last two are not the service's but Claude's, for gateways that imitate
#: the API over Anthropic's.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
    "refusal": "refusal",
    "pause_turn": "pause",
}

_STREAM = re.compile(rb":event-type\x07..(?:messageStart|contentBlock|messageStop|metadata)", re.DOTALL)
_EVENT = re.compile(rb'\{\s*"(?:messageStart|contentBlock(?:Start|Delta|Stop)|messageStop)"\s*:')
_BODY = re.compile(rb'"output"\s*:\s*\{\s*"message".*"stopReason"|"stopReason".*"output"\s*:', re.DOTALL)


def _matches_head(head: bytes) -> bool:
    if head[:1] == b"{":
        return _EVENT.match(head) is not None or _BODY.search(head) is not None
    return head[:1] == b"\0" and _STREAM.search(head) is not None


# Inference profiles and ARNs name the same model as its plain id: us.anthropic.claude-..., global.anthropic.claude-...,
# arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-...
# (https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html). An application's inference
# profile has a name of its own and matches only itself.
_LOCATION = re.compile(r"(?:arn:.*/)?(?:(?:us|us-gov|eu|apac|au|ca|jp|global)\.)?")
_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\w+)?\Z")


def _normalize_model(name: str) -> str:
    return _VERSION.sub("", _LOCATION.sub("", name, count=1))


# No other compatible provider: a Claude's signature is valid on Anthropic's own wires too, but this service also serves
# models of other vendors that refuse it, and which model reads a conversation is not known here.
TRAITS = Traits(
    name="bedrock_converse",
    framing="event_stream",
    matches_head=_matches_head,
    compatible=frozenset({"bedrock_converse"}),
    id_rule=IdRule(
        "bedrock",
        safe_up_to(64),
        prefixed_ids("tooluse_", 64),
        "ToolUseBlock.toolUseId: 1 to 64 of [a-zA-Z0-9_-] (Amazon Bedrock API reference)",
    ),
    model_id_rules={
        "mistral": IdRule(
            "mistral",
            is_mistral_id,
            mistral_id_candidates,
            '400 "must be a-z, A-Z, 0-9, with a length of 9": the model\'s own rule (langchain-ai/langchain#24668)',
        )
    },
    call_id_path=("content", "toolUse", "toolUseId"),
    shared_hosts=re.compile(r"bedrock-runtime(?:-fips)?\.[a-z0-9-]+\.amazonaws\.com"),
    normalize_model=_normalize_model,
    batched_results=True,
    # With a key of Bedrock's own; requests signed by an AWS identity are botocore's to make. The address is a region's:
    # https://bedrock-runtime.{region}.amazonaws.com (https://docs.aws.amazon.com/general/latest/gr/bedrock.html).
    endpoint=Endpoint(
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        path="/model/{model}/converse-stream",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        model_in_body=False,
        limit_field=("inferenceConfig", "maxTokens"),
        sdk_base_path="",
        route=r"/model/(?P<model>.+)/(?P<verb>converse(?:-stream)?)",
        route_example="/model/{modelId}/converse-stream",
        response_id=("", 0),
        call_id=("tooluse_", 22),
    ),
    has_importer=False,
)
