"""Declared facts of Amazon Bedrock's Converse API: its finish reasons, marks of its messages, and its traits.

Its errors are in ``aws_frames``, for all APIs of the service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.ids import IdRule, is_mistral_id, mistral_id_candidates, prefixed_ids, safe_up_to
from streamkit.providers.contract.output_form import OLDER_CLAUDE, OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.provider import Traits
from streamkit.providers.requests.models.claude import CLAUDE_MODELS
from streamkit.providers.writing.aws_frames import ERROR_NAMES, ERRORS
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = [
    "FINISH_REASONS",
    "TRAITS",
    "normalize_model",
    "rate_message",
]


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is of Converse: a list of parts without the field ``type``."""
    content = message.get("content")
    if message.get("role") not in ("user", "assistant", "system") or not isinstance(content, list):
        return FOREIGN
    if not all(isinstance(part, dict) and "type" not in part for part in content):
        return FOREIGN
    return OWN if content else POSSIBLE


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
#: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html; in boto3's dicts each is the
#: chunk's member, in the frames the event's type.
_EVENTS = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop")


def _is_own(chunk: HeadChunk) -> bool:
    data = chunk.data
    if chunk.name:
        return chunk.name in _EVENTS or (chunk.name == "metadata" and "usage" in data)
    metadata, output = data.get("metadata"), data.get("output")
    return (
        any(isinstance(data.get(name), dict) for name in _EVENTS)
        or (isinstance(metadata, dict) and isinstance(metadata.get("usage"), dict))
        or (isinstance(output, dict) and isinstance(output.get("message"), dict))
    )


# Inference profiles and ARNs name the same model as its plain id: us.anthropic.claude-..., global.anthropic.claude-...,
# arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-...
# (https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html). An application's inference
# profile has a name of its own and matches only itself.
_LOCATION = re.compile(r"(?:arn:.*/)?(?:(?:us|us-gov|eu|apac|au|ca|jp|global)\.)?")
_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\w+)?\Z")


def normalize_model(name: str) -> str:
    """Return the plain id of a model without region and version."""
    return _VERSION.sub("", _LOCATION.sub("", name, count=1))


# No other compatible provider: a Claude's signature is valid on Anthropic's own wires too, but this service also serves
# models of other vendors that refuse it, and which model reads a conversation is not known here.
def _reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as a signature, or without text as redacted reasoning, whose form is base64, too."""
    return (state, {}) if has_text else (None, {"opaque": {"reasoningContent": {"redactedContent": state}}})


TRAITS = Traits(
    name="bedrock_converse",
    request_rules="streamkit.testing.rules.bedrock_converse",
    reasoning_state=_reasoning_state,
    npm_names=("bedrock", "amazonBedrock"),
    system_field="system",
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html; other settings
    # are the model's own fields.
    setting_fields={
        "temperature": ("inferenceConfig", "temperature"),
        "top_p": ("inferenceConfig", "topP"),
        "stop": ("inferenceConfig", "stopSequences"),
    },
    models={rf"anthropic\.(?:{pattern})": facts for pattern, facts in CLAUDE_MODELS.items()},
    max_temperature=1,  # "Valid Range: Minimum value of 0. Maximum value of 1."
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
    illegal_in_name=re.compile(r"[^a-zA-Z0-9_-]"),
    rate_message=rate_message,
    framing="event_stream",
    matches_head=HeadMatcher(_is_own),
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
    normalize_model=normalize_model,
    batched_results=True,
    # as Anthropic's own API, for its models (anthropics/claude-code#40075)
    tool_schema=ToolSchemaRules(refused_at_root=frozenset({"anyOf", "oneOf", "allOf"}), numeric_bounds=True),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html lists the models: newer ones of
    # Anthropic, DeepSeek, Google, MiniMax, Mistral, Moonshot, NVIDIA, OpenAI and Qwen.
    cache_marks=True,
    output=OutputSupport(
        has_field=True, not_of=re.compile(rf"{OLDER_CLAUDE.pattern}|(?:amazon|meta|cohere|ai21|writer)\.")
    ),
    # With a key of Bedrock's own; requests signed by an AWS identity are botocore's to make. The address is a region's:
    # https://bedrock-runtime.{region}.amazonaws.com (https://docs.aws.amazon.com/general/latest/gr/bedrock.html).
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        path="/model/{model}/converse-stream",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        model_in_body=False,
        limit_field=("inferenceConfig", "maxTokens"),
        sdk_base_path="",
        route=r"/model/(?P<model>.+)/(?P<verb>converse(?:-stream)?)",
        request_id_header="x-amzn-requestid",
        limit_headers=(),
        error_name_header="x-amzn-errortype",
        error_names=ERROR_NAMES,
        route_example="/model/{modelId}/converse-stream",
        further_paths={},
        models_path=None,
        response_id=("", 0),
        call_id=("tooluse_", 22),
    ),
)
