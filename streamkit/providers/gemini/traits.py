"""Declared facts of Google's Gemini API: its errors, finish reasons, marks of its contents, and its traits.

The names of a request's body are read in REST's spelling. Protobuf's JSON accepts both spellings, and google-genai
sends the other one in some places (``parameters_json_schema``, ``system_instruction``). Names in schemas belong to the
user and are not changed. The importer accepts both spellings of the contents itself. This module must not depend on
chunks.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, get_args

from msgspec.structs import replace

from streamkit.calls import ErrorCode, FinishReason, StreamError
from streamkit.ids import IdRule, unchanged_ids
from streamkit.providers.contract.error_rules import LITELLM_OVERFLOW, ErrorRules, MessageRule
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.tool_schema import ToolSchemaRules
from streamkit.providers.contract.traits import Endpoint, ModelFacts
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.provider import Traits
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating

__all__ = [
    "ERRORS",
    "FINISH_REASONS",
    "TRAITS",
    "rate_message",
    "retry_delay",
]

Json = dict[str, Any]
#: The names of https://cloud.google.com/apis/design/errors and https://ai.google.dev/gemini-api/docs/troubleshooting
ERRORS: Final = ErrorRules(
    codes={
        "INVALID_ARGUMENT": "invalid_request",
        "FAILED_PRECONDITION": "invalid_request",
        "OUT_OF_RANGE": "invalid_request",
        "API_KEY_INVALID": "unauthorized",
        "PERMISSION_DENIED": "unauthorized",
        "UNAUTHENTICATED": "unauthorized",
        "NOT_FOUND": "not_found",
        "RESOURCE_EXHAUSTED": "rate_limited",
        "UNAVAILABLE": "overloaded",
    },
    messages=(
        # "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
        # (google-gemini/gemini-cli#6678)
        MessageRule(
            "context_overflow",
            r"input token count(?: \((?P<requested>[\d,]+)\))? exceeds the maximum number of tokens allowed"
            r"(?: \((?P<limit>[\d,]+)\))?",
        ),
        MessageRule("context_overflow", r"maximum context length is (?P<limit>[\d,]+)", is_own=False),
        LITELLM_OVERFLOW,
        # The sentence "You exceeded your current quota" is that of limits per minute too: the quota's id decides,
        # "GenerateRequestsPerDayPerProjectPerModel" (langgenius/dify#19838), or a limit of 0, of models that the tier
        # does not have (continuedev/continue#10062).
        MessageRule("quota_exceeded", r"PerDay|per day|, limit: 0\b"),
    ),
    unnamed=frozenset(get_args(ErrorCode)),  # the status of an error object follows from the HTTP status
    overflow=(
        "The input token count ({requested}) exceeds the maximum number of tokens allowed ({limit}).",
        "The input token count exceeds the maximum number of tokens allowed ({limit}).",
        "The input token count exceeds the maximum number of tokens allowed.",
    ),
)


def retry_delay(error: Any) -> float | None:
    """Return the seconds to wait that an error object states in its details, None if it states none.

    A RetryInfo has them (https://cloud.google.com/apis/design/errors); no header of the response does.
    """
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay[-1:] == "s" and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None


def _classify(error: StreamError) -> StreamError:
    """Return an error with its code, and with the seconds to wait, also of a response with an HTTP status."""
    error = ERRORS.classify(error)
    if error.kind != "provider_error" or error.retry_after is not None:
        return error
    body = error.raw[0] if isinstance(error.raw, list) and error.raw else error.raw  # without ``alt=sse`` a list
    seconds = retry_delay(body.get("error", body) if isinstance(body, dict) else None)
    return error if seconds is None else replace(error, retry_after=seconds)


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a content is Gemini's: its parts have no field ``type``, which those of other formats have."""
    parts = message.get("parts")
    if message.get("role") not in ("user", "model", "function", None) or message.get("content") is not None:
        return FOREIGN
    if not parts:
        return POSSIBLE if "parts" in message else FOREIGN
    listed = parts if isinstance(parts, list) else [parts]
    return FOREIGN if any(isinstance(part, dict) and "type" in part for part in listed) else OWN


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


def _is_interaction(chunk: HeadChunk) -> bool:
    """Return True for an event of either generation, or a body, of https://ai.google.dev/api/interactions-api."""
    event = str(chunk.data.get("event_type"))
    return event.startswith(("interaction.", "content.", "step.")) or chunk.data.get("object") == "interaction"


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

_WORD = re.compile(r"_([a-z0-9])")
#: The fields whose names are the provider's, too.
_NESTED = frozenset(
    {"generationConfig", "thinkingConfig", "toolConfig", "functionCallingConfig", "tools", "functionDeclarations"}
)


def _to_rest_names(body: Json, depth: int = 0) -> Json:
    """Return a body with REST's names. A field in both spellings keeps both."""
    renamed: Json = {}
    for name, value in body.items():
        rest = _WORD.sub(lambda match: match[1].upper(), name) if isinstance(name, str) else name
        key = name if rest != name and rest in body else rest
        if key in _NESTED and depth < len(_NESTED):
            inner = value if isinstance(value, list) else [value]
            inner = [_to_rest_names(item, depth + 1) if isinstance(item, dict) else item for item in inner]
            value = inner if isinstance(value, list) else inner[0]
        renamed[key] = value
    return renamed


def _reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    return None, {SIGNATURE: state}


def _call_state(state: str) -> dict[str, Any]:
    return {SIGNATURE: state}


TRAITS = Traits(
    name="gemini",
    request_rules="streamkit.testing.rules.gemini",
    system_field="systemInstruction",
    normalize_body=_to_rest_names,
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
    npm_names=("google", "googleVertex", "vertex"),
    call_state=_call_state,
    calls_carry_reasoning=True,  # gemini-cli leaves thoughts out of its history
    matches_head=HeadMatcher(_is_own, {"Gemini's Interactions API": _is_interaction}),
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
    classify_error=_classify,
    endpoint=Endpoint(
        base_url="https://generativelanguage.googleapis.com",
        path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        key_header=("x-goog-api-key", "{}"),
        model_in_body=False,
        limit_field=("generationConfig", "maxOutputTokens"),
        sdk_base_path="",
        route=r"/v\d\w*/(?:.+?/)?models/(?P<model>.+):(?P<verb>(?:streamGenerate|generate)Content)",
        route_example="/v1beta/models/{model}:streamGenerateContent",
        models_path="/v1beta/models?pageSize=1000",
        models_field="models",
        model_entry={
            "name": "models/{model}",
            "displayName": "{model}",
            "supportedGenerationMethods": ["generateContent", "streamGenerateContent"],
        },
        further_paths={
            "/v1beta/models/{model}:countTokens": {"totalTokens": 0},
            "/v1beta/models/{model}:embedContent": None,
            "/v1beta/models/{model}:batchEmbedContents": None,
        },
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
