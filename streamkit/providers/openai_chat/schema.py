"""Wire types of Chat Completions streams: OpenAI's own fields and those that other servers add.

Wire: https://platform.openai.com/docs/api-reference/chat-streaming

Containers are typed, leaves are ``Any``: servers send ``content`` as a list, ids as numbers, and ``null`` for anything.
The fields are in OpenAI's order, which the decoder matches fastest.

A chunk is read in one of three forms, because a typed chunk is read in half the time of a dict. ``PlainChunk`` and its
parts are the form of most chunks; their decoder refuses every other chunk, so that a field that no server was known to
send is found wherever it appears, at no cost for chunks that have none. A refused chunk is decoded to a dict, which is
searched for unknown fields, and converted to ``Chunk``, whose parts have all fields that the parser reads. A field that
is added to these is read in plain chunks, too; one that is rare is ``None`` there.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

__all__ = [
    "CHOICE_RESPONSE_FIELDS",
    "RARE_RESPONSE_FIELDS",
    "RESPONSE_FIELDS",
    "SENSITIVITY_FIELDS",
    "SOURCE_FIELDS",
    "CallDelta",
    "Chunk",
    "ChunkChoice",
    "Custom",
    "Delta",
    "Function",
    "PlainCallDelta",
    "PlainChoice",
    "PlainChunk",
    "PlainDelta",
    "PlainGroq",
]

#: The fields of a chunk that are facts about the response, kept in ``turn.metadata``.
RESPONSE_FIELDS = ("service_tier", "system_fingerprint", "provider")

#: The fields of a choice that are facts about the response.
CHOICE_RESPONSE_FIELDS = ("native_finish_reason", "stop_reason", "matched_stop", "seed")

#: The sources of a response so far, in each chunk of Perplexity and xAI.
SOURCE_FIELDS = ("citations", "search_results")

#: Rare fields of a chunk that are facts about the response, too.
RARE_RESPONSE_FIELDS = (
    "cost",  # Venice
    "copilot_usage",  # GitHub Copilot
    "latency_checkpoint",  # Azure
    "metadata",  # OpenAI: of a response that it stores
    "moderation",  # OpenAI, if the request asked for it
    "provider_metadata",  # the Vercel gateway, in a delta
    "system",  # watsonx: {"warnings": [...]}
    "time_info",  # Cerebras
    "timings",  # llama.cpp
)

#: Fields of each chunk of MiniMax that are false or 0 unless the moderation found something: what, if they are not
#: (https://platform.minimax.io/docs/api-reference/text-chat-openai).
SENSITIVITY_FIELDS = (
    "input_sensitive",
    "input_sensitive_type",
    "output_sensitive",
    "output_sensitive_type",
    "output_sensitive_int",
)


class Function(Struct, gc=False):
    """The function of a call. Its name comes first, its arguments as deltas of JSON text."""

    name: Any = None
    arguments: Any = None


class Custom(Struct, gc=False):
    """The call of a custom tool. Its input is free text, never JSON."""

    name: Any = None
    input: Any = None


class CallDelta(Struct, gc=False):
    """One entry of ``delta.tool_calls``. ``index`` identifies the call, if the server sends it."""

    index: Any = None
    id: Any = None
    type: Any = None
    function: Function | None = None
    custom: Custom | None = None
    name: Any = None  # of relays without the object around it (acon96/home-llm#348), as the next one
    arguments: Any = None
    extra_content: Any = None  # Gemini's compatible endpoint: {"google": {"thought_signature": ...}}


class Delta(Struct, gc=False):
    """The increment of one choice. ``message`` of a body that was not streamed has the same fields."""

    role: Any = None
    content: Any = None
    tool_calls: list[CallDelta] | CallDelta | None = None  # one object: Portkey over Cohere
    reasoning_content: Any = None  # DeepSeek, Qwen, xAI, Z.AI, vLLM
    reasoning: Any = None  # OpenRouter, Groq, Ollama, newer vLLM
    reasoning_details: Any = None  # OpenRouter and the Vercel gateway: typed parts, some of them encrypted
    thinking_blocks: Any = None  # LiteLLM: Anthropic's thinking with its signature, whose text is repeated above
    reasoning_text: Any = None  # GitHub Copilot
    reasoning_opaque: Any = None  # the same: the state of the reasoning, to be sent back
    refusal: Any = None
    function_call: Function | None = None  # the form before tools
    annotations: Any = None
    images: Any = None  # OpenRouter: [{"type": "image_url", "image_url": {"url": "data:..."}}]
    audio: Any = None  # {"id", "data", "transcript", "expires_at"}, each in some chunks
    executed_tools: Any = None  # Groq's compound systems: arguments and results of the server's own tools
    reasoning_steps: Any = None  # Perplexity: the searches that led to the response
    context: Any = None  # Azure with "your data": {"citations": [...], "intent": ...}


class ChunkChoice(Struct, gc=False):
    """One choice of a chunk."""

    index: Any = None
    delta: Delta | None = None
    logprobs: Any = None
    finish_reason: Any = None
    message: Delta | None = None  # a complete body; Perplexity and Writer repeat the text so far here in every chunk
    content_filter_results: Any = None  # Azure
    usage: Any = None  # Moonshot sends it here
    native_finish_reason: Any = None  # OpenRouter
    stop_reason: Any = None  # vLLM: the stop sequence or token
    matched_stop: Any = None  # the same of SGLang
    seed: Any = None  # Together
    error: Any = None  # OpenRouter, next to the finish reason "error"
    text: Any = None  # of the wire before Chat Completions; next to a delta it repeats it


class Chunk(Struct, gc=False):
    """One ``chat.completion.chunk``, or a complete ``chat.completion``."""

    id: Any = None
    object: Any = None
    created: Any = None
    model: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None
    provider: Any = None  # OpenRouter: the service behind it
    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    status_code: Any = None  # Cerebras, beside an error (``ErrorChunkResponse`` of its SDK)
    x_groq: Any = None
    citations: Any = None  # Perplexity and xAI: the addresses of all sources so far
    search_results: Any = None  # Perplexity: the same sources as objects
    prompt_filter_results: Any = None  # Azure's first chunk; ``prompt_annotations`` before 2023-07-01
    prompt_annotations: Any = None
    base_resp: Any = None  # MiniMax: {"status_code": 0, "status_msg": ""}


# ---------------------------------------------------------------- plain chunks

# Most chunks have only a few of these fields. The decoder itself refuses all others: unknown fields, and rare ones,
# which are typed None here, with a value. So a chunk that was decoded to ``PlainChunk`` is read without a look at rare
# fields. Every field that may have a value and is read is in the condition of the parser's fast path, as a test checks.
# A list of plain parts is a list of parts for all who read it, which mypy cannot see.


class PlainFunction(Function, gc=False, forbid_unknown_fields=True):
    """``Function`` without unknown fields."""


class PlainCallDelta(CallDelta, gc=False, forbid_unknown_fields=True):
    """``CallDelta`` of the frequent form."""

    function: PlainFunction | None = None
    custom: None = None
    name: None = None
    arguments: None = None
    extra_content: None = None


class PlainDelta(Delta, gc=False, forbid_unknown_fields=True):
    """``Delta`` without rare and unknown fields."""

    tool_calls: list[PlainCallDelta] | None = None  # type: ignore[assignment]
    thinking_blocks: None = None
    reasoning_text: None = None
    reasoning_opaque: None = None
    function_call: None = None
    annotations: None = None
    images: None = None
    audio: None = None
    executed_tools: None = None
    reasoning_steps: None = None
    context: None = None
    # Known and not read, because they carry nothing of the response.
    name: Any = None
    channel: Any = None  # Groq: the channel of gpt-oss, which decides between content and reasoning
    token_id: Any = None  # Together
    # Known to be sent without a value in every delta.
    graph_data: dict[str, None] | None = None  # Writer, this and the next four
    image_data: dict[str, None] | None = None
    llm_data: dict[str, None] | None = None
    translation_data: dict[str, None] | None = None
    web_search_data: dict[str, None] | None = None
    provider_specific_fields: None = None  # LiteLLM, as thinking_blocks
    audio_content: Literal[""] | None = None  # MiniMax


class PlainChoice(ChunkChoice, gc=False, forbid_unknown_fields=True):
    """``ChunkChoice`` without rare and unknown fields."""

    delta: PlainDelta | None = None
    message: PlainDelta | None = None
    error: None = None
    # Known and not read.
    token_ids: Any = None  # vLLM
    content_filter_offsets: Any = None  # Azure's asynchronous filter: the part of the text that was checked
    trace_details: None = None  # Writer


class PlainGroq(Struct, gc=False):
    """Groq's own fields of a chunk, of which the first one has only an id."""

    id: Any = None
    seed: Any = None
    usage: Any = None
    error: None = None


class PlainOutcome(Struct, gc=False):
    """MiniMax's ``base_resp`` without an error."""

    status_code: Literal[0] | None = None
    status_msg: Any = None


class PlainChunk(Chunk, gc=False, forbid_unknown_fields=True):
    """``Chunk`` without rare and unknown fields."""

    choices: list[PlainChoice] | None = None  # type: ignore[assignment]
    error: None = None
    status_code: None = None
    x_groq: PlainGroq | None = None
    prompt_filter_results: None = None
    prompt_annotations: None = None
    base_resp: PlainOutcome | None = None
    # MiniMax: a type is not 0 if the flag beside it is true.
    input_sensitive_type: Literal[0] | None = None
    output_sensitive_type: Literal[0] | None = None
    output_sensitive_int: Literal[0] | None = None
    # Known and not read.
    obfuscation: Any = None  # padding of OpenAI; ``p`` of Mistral
    p: Any = None
    created_at: Any = None  # watsonx, as the next two
    model_id: Any = None
    model_version: Any = None
    generation_id: Any = field(default=None, name="generationId")  # the Vercel gateway
    stream_options: Any = None  # Writer: a field of the request
    input_sensitive: Any = None
    output_sensitive: Any = None
    prompt_token_ids: Any = None  # vLLM, only on request
    prompt_text: Any = None
