"""Declared facts of Google's Gemini API."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

from streamkit.calls import FinishReason
from streamkit.providers.detection import HeadChunk, HeadMatcher
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.gemini.body_names import to_rest_names
from streamkit.providers.gemini.errors import classify
from streamkit.providers.gemini.message_format import rate_message
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.model_facts import ModelFacts
from streamkit.providers.output_form import OutputSupport
from streamkit.providers.provider import Traits
from streamkit.providers.tool_schema import ToolSchemaRules
from streamkit.target_ids import IdRule, unchanged_ids

__all__ = ["FINISH_REASONS", "TRAITS"]

#: https://ai.google.dev/api/generate-content#FinishReason; ``MODEL_ARMOR`` only on Vertex. ``CONTINUATION``,
#: ``ESCALATION`` and ``PUP_LIMITED_DISABLED`` as google-genai 3.4 describes them (``types.FinishReason``). A name that
#: is not listed is ``other``.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",  # the limit of one request; the next one may continue with ``continuationToken``
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "ESCALATION": "content_filter",  # a rule filtered the request
    "PUP_LIMITED_DISABLED": "content_filter",  # the account is limited for violations of the use policy
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


_CONFIG = "generationConfig"
_THINKING = "https://ai.google.dev/gemini-api/docs/thinking"
_MODELS = {
    r"gemini-(?:[3-9]|\d\d).*flash": ModelFacts(
        source=_THINKING,
        max_output_tokens=65536,
        reasoning="effort",
        efforts=("minimal", "low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    # "Gemini 3 Pro: low, high"
    r"gemini-(?:[3-9]|\d\d)": ModelFacts(
        source=_THINKING,
        max_output_tokens=65536,
        reasoning="effort",
        efforts=("low", "high"),
        reasoning_is_optional=False,
    ),
    r"gemini-2\.5-flash": ModelFacts(source=_THINKING, max_output_tokens=65536, reasoning="budget", max_budget=24576),
    r"gemini-2\.5": ModelFacts(
        source=_THINKING,
        max_output_tokens=65536,
        reasoning="budget",
        max_budget=32768,
        reasoning_is_optional=False,
    ),
    r"gemini-[12]": ModelFacts(
        source="https://ai.google.dev/gemini-api/docs/models", max_output_tokens=8192, reasoning="none"
    ),
}


def _normalize_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with REST's names: google-genai sends others (``system_instruction``)."""
    return to_rest_names(body)


def _reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    return None, {SIGNATURE: state}


def _call_state(state: str) -> dict[str, Any]:
    return {SIGNATURE: state}


TRAITS = Traits(
    name="gemini",
    system_field="systemInstruction",
    normalize_body=_normalize_body,
    # https://ai.google.dev/api/generate-content#generationconfig
    setting_fields={
        "temperature": (_CONFIG, "temperature"),
        "top_p": (_CONFIG, "topP"),
        "top_k": (_CONFIG, "topK"),
        "stop": (_CONFIG, "stopSequences"),
        "seed": (_CONFIG, "seed"),
        "frequency_penalty": (_CONFIG, "frequencyPenalty"),
        "presence_penalty": (_CONFIG, "presencePenalty"),
    },
    max_stop_texts=5,  # "The set of character sequences (up to 5)"
    models=_MODELS,
    # "Must be a-z, A-Z, 0-9, or contain underscores, dots, colons and dashes" (FunctionDeclaration.name)
    illegal_in_name=re.compile(r"[^a-zA-Z0-9_.:-]"),
    longest_name=128,
    reasoning_state=_reasoning_state,
    call_state=_call_state,
    calls_carry_reasoning=True,  # gemini-cli leaves thoughts out of its history
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
    # An empty line: google-genai parses a comment as JSON (``_aiter_response_stream``), and @google/genai finds no
    # event after one (``responseLineRE``).
    heartbeat=b"\r\n",
    classify_error=classify,
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
        count_path="/v1beta/models/{model}:countTokens",
        count_route=r"/v\d\w*/(?:.+/)?models/(?P<model>[^/:]+):countTokens",
        limit_headers=(),
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
