"""The declared facts of Chat Completions: what a dialect may differ in, finish reasons, and how it is recognized.

``dialects`` has the rows. This module must not depend on sinks or history: a parser loads it without pydantic.

The marks by which messages of Chat Completions are recognized.

Facts about requests that several dialects share: settings, names of tools, models, places of foreign state.

This module must not depend on the dialects.

The ids of calls that the servers of Chat Completions accept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal

from msgspec.structs import replace

from streamkit.calls import FinishReason, StreamError
from streamkit.ids import IdRule, is_mistral_id, mistral_id_candidates, normalize_to_openai_tool_id, prefixed_ids
from streamkit.providers.contract.output_form import OutputSupport
from streamkit.providers.contract.traits import ModelFacts
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.openai_chat.errors import ERRORS
from streamkit.providers.provider import Traits
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, RateMessage, Rating, rate_parts

__all__ = [
    "FINISH_REASONS",
    "GROQ_MODELS",
    "ILLEGAL_IN_NAME",
    "KIMI_IDS",
    "KIMI_MODELS",
    "MISTRAL_IDS",
    "MISTRAL_MODELS",
    "OPENAI_IDS",
    "OPENAI_SETTINGS",
    "REASONING_FIELDS",
    "REASONING_TEXT_FIELDS",
    "RULES_OF_MODELS",
    "SERVER_IDS",
    "SETTINGS",
    "SETTINGS_WITH_TOP_K",
    "XAI_MODELS",
    "ChatDialect",
    "call_state",
    "is_chat_stream",
    "rate_message",
    "reasoning_state",
    "signature_state",
]


def _kimi_ids(id: str, name: str, number: int) -> Iterator[str]:
    return (f"functions.{name}:{running}" for running in count(number))


_make_short_ids = prefixed_ids("call_", 40, normalize_to_openai_tool_id)
OPENAI_IDS = IdRule(
    "openai_chat",
    lambda text: 0 < len(text) <= 40,
    _make_short_ids,
    "400 string_above_max_length, at most 40 (agno-agi/agno#5382, microsoft/autogen#6377, vercel/ai#5171)",
)
#: Other servers get back every id that they issued: vLLM's have 46 characters (chatcmpl-tool-...), those of models
#: behind gateways have the model's own form, and LiteLLM puts thought signatures into them: "any client that normalizes
#: ids breaks the next turn" (BerriAI/litellm#16895, #37849).
SERVER_IDS = replace(
    OPENAI_IDS, name="openai_compatible", accepts=bool, source="a server accepts its own ids; else as openai_chat"
)
MISTRAL_IDS = IdRule(
    "mistral",
    is_mistral_id,
    mistral_id_candidates,
    '400 "must be a-z, A-Z, 0-9, with a length of 9" (langchain-ai/langchain#24668, anomalyco/opencode#1680)',
)
KIMI_IDS = IdRule(
    "kimi",
    bool,
    _kimi_ids,
    "the model was trained on functions.{name}:{running index} and degrades on other ids"
    " (vybestack/llxprt-code#713, vllm-project/vllm#21259)",
)
#: Gateways and self-hosted servers pass ids on to these models' templates, which check them.
RULES_OF_MODELS = {"mistral": MISTRAL_IDS, "kimi": KIMI_IDS}
#: The fields of a delta, and of a message, that contain reasoning as text. Servers that send several of them repeat the
#: same text (vLLM), so the first one with text counts. Each is a field of ``schema.Delta``.
REASONING_TEXT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
#: All fields that contain reasoning, the others of them as typed parts or as state.
REASONING_FIELDS = (*REASONING_TEXT_FIELDS, "reasoning_details", "thinking_blocks", "reasoning_opaque")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_OWN_FIELDS = frozenset({"tool_call_id", "function_call", "refusal", "audio", *REASONING_FIELDS}) - {"reasoning"}
_OWN_PARTS = ("image_url", "input_audio", "video_url", "document_url", "refusal")


def rate_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is of Chat Completions."""
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES or "type" in message or "parts" in message:
        return FOREIGN
    rating = rate_parts(message.get("content"), _rate_part)
    if rating == FOREIGN:
        return FOREIGN
    if role == "function":
        return OWN
    if not _OWN_FIELDS.isdisjoint(message) and any(message[name] is not None for name in _OWN_FIELDS & message.keys()):
        return OWN
    calls, has_own = message.get("tool_calls"), False
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        has_own = has_own or (isinstance(function, dict) and isinstance(function.get("arguments"), str))
    return OWN if has_own else rating


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    if kind in _OWN_PARTS or (kind in ("file", "thinking") and not isinstance(part.get(str(kind)), (str, type(None)))):
        return OWN
    return POSSIBLE if kind == "text" else FOREIGN


ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
#: https://platform.openai.com/docs/api-reference/chat/create
SETTINGS = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "stop": ("stop",),
    "seed": ("seed",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "parallel_calls": ("parallel_tool_calls",),
}
OPENAI_SETTINGS = {**SETTINGS, "verbosity": ("verbosity",)}
SETTINGS_WITH_TOP_K = {**SETTINGS, "top_k": ("top_k",)}
#: "`reasoning_effort` is not supported with this model" (https://console.groq.com/docs/reasoning)
GROQ_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"openai/gpt-oss": ModelFacts(
        source="https://console.groq.com/docs/reasoning",
        reasoning="effort",
        efforts=("low", "medium", "high"),
        reasoning_is_optional=False,
    ),
    # ``reasoning_effort`` in the SDK groq 1.7: "qwen3 models support `none` to disable reasoning and `default`", and
    # "qwen/qwen3.8-27b additionally supports `low`, `medium`, and `high`"
    r"qwen/qwen3\.8": ModelFacts(
        source="https://console.groq.com/docs/reasoning",
        reasoning="effort",
        efforts=("low", "medium", "high", "default"),
    ),
    r"qwen/qwen3": ModelFacts(
        source="https://console.groq.com/docs/reasoning", reasoning="effort", efforts=("default",)
    ),
    r"": ModelFacts(source="https://console.groq.com/docs/reasoning", reasoning="none"),
}
#: "invalid temperature: only 1 is allowed for this model", "invalid top_p: only 0.95 is allowed for this model"
#: (odysseus-dev/odysseus#3959, CherryHQ/cherry-studio#12731). Without reasoning it is another temperature, so both are
#: left out (HKUDS/nanobot#4967).
KIMI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"kimi-k(?:2\.[5-9]|[3-9])": ModelFacts(
        source="https://platform.moonshot.ai/docs/guide/kimi-k2-5-quickstart#parameters-differences-in-request-body",
        refused=frozenset({"temperature", "top_p", "frequency_penalty", "presence_penalty"}),
    ),
}
_MISTRAL_REASONING = "https://docs.mistral.ai/inference/conversations/reasoning"
#: "Must be one of (<ReasoningEffort.none: 'none'>, <ReasoningEffort.high: 'high'>)" with status 400 for other efforts
#: (architects-toolkit/SmartHopper#647); models whose reasoning is not adjustable refuse the field
#: (NousResearch/hermes-agent#11243, tontinton/maki#396).
MISTRAL_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"mistral-small-(?:latest|2[6-9]|4)|mistral-medium-(?:latest|2[6-9]|3[-.]5)": ModelFacts(
        source=_MISTRAL_REASONING, reasoning="effort", efforts=("high",)
    ),
    r"mistral-large-4": ModelFacts(source=_MISTRAL_REASONING, reasoning="effort", efforts=("low", "medium", "high")),
    r"zai-glm": ModelFacts(source="vercel/ai#20587", reasoning="effort"),
    r"": ModelFacts(source=_MISTRAL_REASONING, reasoning="none"),
}
#: "presencePenalty, frequencyPenalty and stop are not supported by reasoning models"
_REFUSED_BY_REASONING_GROKS = frozenset({"presence_penalty", "frequency_penalty", "stop"})
XAI_MODELS: Final[Mapping[str, ModelFacts]] = {
    r"grok-3-mini": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning",
        refused=_REFUSED_BY_REASONING_GROKS,
        reasoning="effort",
        efforts=("low", "high"),
        reasoning_is_optional=False,
    ),
    r"grok-(?:4|code)": ModelFacts(
        source="https://docs.x.ai/docs/guides/reasoning",
        refused=_REFUSED_BY_REASONING_GROKS,
        reasoning="none",
    ),
}


def reasoning_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as one of OpenRouter's details, which clients that know them send back."""
    return None, {"reasoning_details": [{"type": "reasoning.encrypted", "data": state, "format": "unknown"}]}


def signature_state(state: str, has_text: bool) -> tuple[str | None, dict[str, Any]]:
    """Return the state as the signature of a part of reasoning: ``ThinkChunk.signature`` of Mistral's SDKs."""
    return state, {}


def call_state(state: str) -> dict[str, Any]:
    """Return the state in the place of Google's thought signatures, which clients that know it send back."""
    return {"extra_content": {"streamkit": {"state": state}}}


#: Values of ``finish_reason`` and their meaning, of all dialects together. Any other value means ``other``.
FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "end_turn": "stop",  # Anthropic behind gateways
    "stop_sequence": "stop",
    "COMPLETE": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the context is full
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.AI
    "refusal": "refusal",
    "pause_turn": "pause",
    "error": "error",
    "insufficient_system_resource": "error",  # DeepSeek
    "network_error": "error",  # Z.AI
    "api_error": "error",  # Portkey's gateway: the type of an error in Anthropic's stream, this and the next nine
    "authentication_error": "error",
    "billing_error": "error",
    "invalid_request_error": "error",
    "not_found_error": "error",
    "overloaded_error": "error",
    "permission_error": "error",
    "rate_limit_error": "error",
    "request_too_large": "error",
    "timeout_error": "error",
}


def _is_own(chunk: HeadChunk) -> bool:
    """Return True for a chat chunk or a complete chat response, and for no chunk of the legacy completions."""
    data, kind, choices = chunk.data, chunk.data.get("object"), chunk.data.get("choices")
    if chunk.name not in ("", "message") or chunk.framing not in ("sse", "json"):
        return False
    if kind in ("chat.completion.chunk", "chat.completion"):
        return True
    if "type" in data or not isinstance(choices, list):
        return False
    if choices and isinstance(choices[0], dict):
        return not kind and ("delta" in choices[0] or "message" in choices[0])
    return "prompt_filter_results" in data  # Azure's first chunk


#: Returns True if a body with these first bytes can only be a chat stream or a complete chat response.
is_chat_stream = HeadMatcher(_is_own)
#: Others store nothing and pad no chunk; the usage is always read.
IMPLIED: Final = {"store": False, "stream_options": {"include_usage": True, "include_obfuscation": False}}


@dataclass(frozen=True, kw_only=True)
class ChatDialect(Traits):
    """Declared facts of one dialect, in addition to those of every provider.

    Attributes:
        reasoning_field: the field in which reasoning is streamed and sent back; None if there is none.
        thinking_parts: reasoning is in ``content`` instead, as parts of type ``thinking``.
        reasoning_replay: which reasoning is sent back: ``always``; ``tool_turns``, that of turns with a call;
            ``never``.
        reasoning_of_reasoners: a model without a setting for reasoning (``ModelFacts``) refuses reasoning in messages.
        required_choice: the value of ``tool_choice`` for "one of the tools must be called".
        result_names: a tool message has the tool's name.
        prefix: a last assistant message that the model shall continue has the field ``prefix``.
        separator_text: the text of an assistant message between a tool message and a user message, if the one must not
            follow the other; None if it may.
        reasoning_setting: how reasoning is requested: ``effort``, by ``reasoning_effort``; ``switch``, by that or by
            Together's ``reasoning``; ``object``, OpenRouter's ``reasoning``; ``thinking``, a switch;
            ``enable_thinking``, Qwen's, with a budget; None if it cannot be.
        effort_with_switch: a request that turns reasoning on with ``thinking`` may have ``reasoning_effort``, too.
        reasons_unless_off: matches the names of the models, in lower case, that reason unless a request turns it off,
            and refuse some requests while they do (``reasoning_switch``); None if there are none.
        tools_need_reasoning: a request with tools is refused if a message of these models has no reasoning.
        developer_role: a message may have the role ``developer``.
        author_names: a message may have the ``name`` of its author. Mistral refuses one (microsoft/autogen#2748).
        result_images: a tool message may have images. Elsewhere a user message after the results shows them.
        document_parts: a file is a part of type ``document_url``; elsewhere of type ``file``.
        file_addresses: a file may be sent as its address.
        file_annotations: annotations of type ``file`` are sent back, so that the file is not parsed again.
        image_replay: images that the model generated are sent back.
        image_types: the media types of images that it takes; None if they are not documented.
        cache_marks: parts of content have ``cache_control``, in the form of Anthropic's blocks. Tools have none: a mark
            on the system text, which follows them, caches them too.
        strict: the name of its strict mode for tools in ``strict.STRICT_PROFILES``; None if it has none.
        refuses_as: the name of its request rules in ``testing.rules``.
        message_lists: a choice may be a list of messages, with the calls that the server ran and their results.
        one_chunk_calls: the writer sends a call in one chunk.
        reasoning_details: reasoning is streamed a second time, in typed details.
        usage_position: the place of the streamed usage: ``own``, a chunk of its own; ``finish``, the chunk with the
            finish reason; ``x_groq``, that field of the same chunk as well; ``choice``, the choice with the finish
            reason; ``again``, a further chunk that repeats the finish reason.
        reasoning_excluded_from_output: ``completion_tokens`` does not include the reasoning.
        first_chunk: what a stream begins with: ``prompt_filter``, Azure's filter results of the prompt; ``comment``,
            an SSE comment.
        source_lists: sources are lists of the chunk, not annotations of the text.
        error_in_band: a response that breaks off has its error in the last chunk.
    """

    plain_reasoning: bool = field(init=False)  # derived, because it follows from the fields about reasoning
    # defaults of Traits that differ for this wire
    request_rules: str | None = "streamkit.testing.rules.openai_chat"
    reuses_slots: bool = True
    whole_names: bool = False
    second_key: str | None = "function_call"
    id_rule: IdRule = SERVER_IDS
    model_id_rules: Mapping[str, IdRule] = field(default_factory=lambda: RULES_OF_MODELS, repr=False)
    stream_usage: bool = True  # https://platform.openai.com/docs/api-reference/chat/create, "stream_options"
    end_marker: str | None = "[DONE]"
    classify_error: Callable[[StreamError], StreamError] = field(default=ERRORS.classify, repr=False, compare=False)
    output: OutputSupport = field(default=OutputSupport(has_field=True), repr=False)
    signature_fields: tuple[str, ...] = ("extra_content", "thought_signature")  # of Gemini's OpenAI-compatible endpoint
    setting_fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: SETTINGS, repr=False)
    implied_fields: Mapping[str, Any] = field(default_factory=lambda: IMPLIED, repr=False)
    # The rule of OpenAI, which most servers took over ("'tools[0].function.name': string does not match pattern").
    illegal_in_name: re.Pattern[str] | None = ILLEGAL_IN_NAME
    reasoning_state: Callable[[str, bool], tuple[str | None, dict[str, Any]]] | None = field(
        default=reasoning_state, repr=False, compare=False
    )
    joins_blocks: bool = True
    call_state: Callable[[str], dict[str, Any]] | None = field(default=call_state, repr=False, compare=False)
    # requests
    reasoning_field: str | None = None
    thinking_parts: bool = False
    reasoning_replay: Literal["always", "tool_turns", "never"] = "always"
    reasoning_of_reasoners: bool = False
    required_choice: str = "required"
    result_names: bool = False
    prefix: bool = False
    separator_text: str | None = None
    reasoning_setting: Literal["effort", "switch", "object", "thinking", "enable_thinking"] | None = "effort"
    effort_with_switch: bool = False
    reasons_unless_off: re.Pattern[str] | None = None
    tools_need_reasoning: bool = False
    developer_role: bool = False
    author_names: bool = False
    result_images: bool = False
    document_parts: bool = False
    file_addresses: bool = False
    file_annotations: bool = False
    image_replay: bool = False
    image_types: frozenset[str] | None = None
    cache_marks: bool = False
    rate_message: RateMessage = field(default=rate_message, repr=False, compare=False)
    strict: str | None = None
    refuses_as: Literal["wire", "openai", "mistral", "deepseek", "qwen"] = "wire"
    # streams
    message_lists: bool = False
    one_chunk_calls: bool = False
    reasoning_details: bool = False
    usage_position: Literal["own", "finish", "x_groq", "choice", "again"] = "own"
    reasoning_excluded_from_output: bool = False
    first_chunk: Literal["prompt_filter", "comment"] | None = None
    source_lists: bool = False
    error_in_band: bool = False

    def __post_init__(self) -> None:
        """Derive whether reasoning without a signature is sent back."""
        has_place = self.thinking_parts or self.reasoning_field is not None
        object.__setattr__(self, "plain_reasoning", has_place and self.reasoning_replay != "never")
