"""Declared facts of Ollama's native API: its errors, finish reasons, marks of its messages, and its traits.

Its errors are a text. This module must not depend on lines of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.traits import UNKNOWN_TIME, Endpoint, ModelFacts
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.provider import Traits
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = [
    "ERRORS",
    "FINISH_REASONS",
    "TRAITS",
    "rate_message",
]

ERRORS: Final = ErrorRules(
    messages=(
        MessageRule("not_found", r"model .{1,200}? not found"),  # "model 'x' not found, try pulling it first"
        # "prompt too long; exceeded max context length by 12 tokens"
        MessageRule("context_overflow", r"prompt too long; exceeded (?:max )?context length"),
        MessageRule("context_overflow", r"exceeds the available context size"),  # of the llama.cpp within
        # Of cloud models: "you have reached your weekly usage limit, upgrade for higher limits"
        # (HomericIntelligence/Scylla#346, continuedev/continue#11444)
        MessageRule("quota_exceeded", r"reached your \w+ usage limit"),
        MessageRule("overloaded", r"server busy|server overloaded"),  # ollama/ollama#15934
    ),
    overflow=("prompt too long; exceeded max context length",),
)


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is Ollama's: its content is text, and the arguments of its calls are objects."""
    if message.get("role") not in ("system", "user", "assistant", "tool") or "type" in message or "parts" in message:
        return FOREIGN
    if not isinstance(message.get("content"), (str, type(None))):
        return FOREIGN
    has_own = any(message.get(name) is not None for name in ("images", "tool_name", "thinking"))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            return FOREIGN
        has_own = has_own or isinstance(arguments, dict)
    return OWN if has_own else POSSIBLE


#: ``done_reason`` of https://docs.ollama.com/api/chat. ``load`` and ``unload`` end a request without messages, which
#: only loads the model into memory or unloads it: they are ``other``, as every name that is not listed.
FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


def _is_own(chunk: HeadChunk) -> bool:
    line = chunk.data
    if "type" in line or "object" in line:
        return False
    has_content = isinstance(line.get("message"), dict) or isinstance(line.get("response"), str)
    has_origin = isinstance(line.get("model"), str) and isinstance(line.get("created_at"), str)
    return has_origin or (isinstance(line.get("done"), bool) and has_content)


_DETAILS = {
    "families": [],
    **dict.fromkeys(("parent_model", "format", "family", "parameter_size", "quantization_level"), ""),
}

TRAITS = Traits(
    name="ollama",
    request_rules="streamkit.testing.rules.ollama",
    rate_message=rate_message,
    framing="ndjson",
    matches_head=HeadMatcher(_is_own),
    whole_calls=True,
    plain_reasoning=True,
    # The schema constrains every token of the response, so that the model could not call a tool.
    output=OutputSupport(has_field=True, with_tools=False, any_root=True),
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="http://localhost:11434",
        path="/api/chat",
        key_variables=("OLLAMA_API_KEY",),
        key_required=False,
        limit_field=("options", "num_predict"),
        sdk_base_path="",
        route=r"/api/chat",
        route_example="/api/chat",
        models_path="/api/tags",
        models_field="models",
        model_entry={  # the command shows a part of the digest
            "name": "{model}",
            "model": "{model}",
            "digest": "{digest}",
            "modified_at": UNKNOWN_TIME,
            "size": 0,
            "details": _DETAILS,
        },
        further_paths={"/api/embed": None, "/v1/embeddings": None},  # https://docs.ollama.com/api/openai-compatibility
        limit_headers=(),
        response_id=("", 0),
        call_id=("call_", 8),
        # "stream: if false the response will be returned as a single response object", https://docs.ollama.com/api/chat
        streams_by_default=True,
    ),
    # https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx#valid-parameters-and-values
    setting_fields={
        "temperature": ("options", "temperature"),
        "top_p": ("options", "top_p"),
        "top_k": ("options", "top_k"),
        "stop": ("options", "stop"),
        "seed": ("options", "seed"),
        "frequency_penalty": ("options", "frequency_penalty"),
        "presence_penalty": ("options", "presence_penalty"),
    },
    models={
        r"(?:.*/)?gpt-oss": ModelFacts(
            source="https://docs.ollama.com/capabilities/thinking",
            reasoning="effort",
            efforts=("low", "medium", "high"),
            reasoning_is_optional=False,
        ),
    },
)
