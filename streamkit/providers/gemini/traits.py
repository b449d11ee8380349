"""Declared facts of Google's Gemini API."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.providers.detection import HeadChunk, HeadMatcher
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.gemini.errors import ERRORS
from streamkit.providers.gemini.message_format import rate_message
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.provider import Traits
from streamkit.providers.tool_schema import ToolSchemaRules
from streamkit.target_ids import IdRule, unchanged_ids

__all__ = ["FINISH_REASONS", "TRAITS"]

#: https://ai.google.dev/api/generate-content#FinishReason; ``MODEL_ARMOR`` only on Vertex. A name that is not listed is
#: ``other``.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    # The model's own output could not be parsed, or the request's history was refused: trying again may help.
    "MALFORMED_FUNCTION_CALL": "error",
    "MALFORMED_RESPONSE": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
}


def _is_own(chunk: HeadChunk) -> bool:
    data = chunk.data
    if "type" in data or "object" in data:
        return False
    error = data.get("error")
    if isinstance(error, dict):  # https://cloud.google.com/apis/design/errors
        return isinstance(error.get("code"), int) and str(error.get("status")).isupper()
    return isinstance(data.get("candidates"), list) or any(
        isinstance(data.get(name), dict) for name in ("usageMetadata", "promptFeedback")
    )


def _sign_call(model: str, seed: str) -> dict[str, Any]:
    # Gemini 3 signs the first call of each step, and refuses it unsigned
    # (https://ai.google.dev/gemini-api/docs/thought-signatures).
    if "gemini-3" not in model.lower():
        return {}
    return {"thoughtSignature": b64encode(sha256(f"signature|{seed}".encode()).digest()).decode()}


TRAITS = Traits(
    name="gemini",
    matches_head=HeadMatcher(_is_own),
    rate_message=rate_message,
    markup_families=frozenset(),
    whole_calls=True,
    compatible=frozenset({"gemini"}),
    id_rule=IdRule(
        "gemini",
        bool,
        unchanged_ids,
        "calls and results pair by the function's name and equal counts; an id is an optional echo",
    ),
    messages_field="contents",
    call_id_path=("parts", "functionCall", "id"),
    # models/gemini-..., and Vertex: publishers/google/models/gemini-...
    normalize_model=lambda name: name.rpartition("models/")[2],
    line_end="\r\n",
    classify_error=ERRORS.classify,
    endpoint=Endpoint(
        base_url="https://generativelanguage.googleapis.com",
        path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        key_header=("x-goog-api-key", "{}"),
        model_in_body=False,
        limit_field=("generationConfig", "maxOutputTokens"),
        sdk_base_path="",
        route=r"/v\d\w*/(?:.+/)?models/(?P<model>[^/:]+):(?P<verb>(?:streamGenerate|generate)Content)",
        route_example="/v1beta/models/{model}:streamGenerateContent",
        response_id=("", 22),
        call_id=None,  # its calls mostly have none
        answers_arrays=True,
    ),
    batched_results=True,
    # parametersJsonSchema has no $schema (GetStream/Vision-Agents#513)
    tool_schema=ToolSchemaRules(refused_keywords=frozenset({"$schema"})),
    # "Function calling with a response mime type: 'application/json' is unsupported" (googleapis/python-genai#867);
    # https://ai.google.dev/gemini-api/docs/structured-output: Gemini 3 combines them.
    output=OutputSupport(
        has_field=True, with_tools=False, with_tools_of=re.compile(r"gemini-(?:[3-9]|\d\d)\b"), any_root=True
    ),
    media_speakers=frozenset({"human", "tool", "ai"}),
    sign_call=_sign_call,
    # https://ai.google.dev/gemini-api/docs/thought-signatures
    signature_fields=("thoughtSignature", "thought_signature"),
)
