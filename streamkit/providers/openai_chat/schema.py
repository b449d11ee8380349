"""Wire types of Chat Completions streams: OpenAI's own fields and those that other servers add.

Wire: https://platform.openai.com/docs/api-reference/chat-streaming

Containers are typed, leaves are ``Any``: servers send ``content`` as a list, ids as numbers, and ``null`` for anything.
The structs have only the fields that the parser reads, in OpenAI's order, which the decoder matches fastest. Known
fields that are not read, because they carry nothing of the response: ``service_tier``, ``system_fingerprint``,
``provider``, ``native_finish_reason``, ``obfuscation`` and ``p`` (padding), ``channel``, ``seed``, ``timings`` and
similar ones.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = [
    "REASONING_DETAIL_FIELDS",
    "REASONING_TEXT_FIELDS",
    "Choice",
    "Chunk",
    "Custom",
    "Delta",
    "Function",
    "ToolCall",
]

#: The fields of a delta, and of a message, that contain reasoning as text. Servers that send several of them repeat the
#: same text (vLLM), so the first one with text counts. Each is a field of ``Delta`` and in the condition of the
#: parser's fast path.
REASONING_TEXT_FIELDS = ("reasoning_content", "reasoning")

#: The types of ``reasoning_details`` whose text is streamed in deltas, and the field of each that contains it.
REASONING_DETAIL_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class Function(Struct, gc=False):
    """The function of a call. Its name comes first, its arguments as deltas of JSON text."""

    name: Any = None
    arguments: Any = None


class Custom(Struct, gc=False):
    """The call of a custom tool. Its input is free text, never JSON."""

    name: Any = None
    input: Any = None


class ToolCall(Struct, gc=False):
    """One entry of ``delta.tool_calls``. ``index`` identifies the call, if the server sends it."""

    index: Any = None
    id: Any = None
    type: Any = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: Any = None  # Gemini's compatible endpoint: {"google": {"thought_signature": ...}}


class Delta(Struct, gc=False):
    """The increment of one choice. ``message`` of a body that was not streamed has the same fields."""

    content: Any = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: Any = None  # DeepSeek, Qwen, xAI, Z.AI, vLLM
    reasoning: Any = None  # OpenRouter, Groq, Ollama, newer vLLM
    reasoning_details: Any = None  # OpenRouter and the Vercel gateway: typed parts, some of them encrypted
    refusal: Any = None
    function_call: Function | None = None  # the form before tools
    annotations: Any = None
    images: Any = None  # OpenRouter: [{"type": "image_url", "image_url": {"url": "data:..."}}]
    audio: Any = None  # {"id", "data", "transcript", "expires_at"}, each in some chunks
    executed_tools: Any = None  # Groq's compound systems: arguments and results of the server's own tools
    reasoning_steps: Any = None  # Perplexity: the searches that led to the response
    context: Any = None  # Azure with "your data": {"citations": [...], "intent": ...}


class Choice(Struct, gc=False):
    """One choice of a chunk."""

    index: Any = 0
    delta: Delta | None = None
    logprobs: Any = None
    finish_reason: Any = None
    message: Delta | None = None  # a complete body; Perplexity and Writer repeat the text so far here in every chunk
    usage: Any = None  # Moonshot sends it here
    text: Any = None  # of the wire before Chat Completions; next to a delta it repeats it


class Chunk(Struct, gc=False):
    """One ``chat.completion.chunk``, or a complete ``chat.completion``."""

    id: Any = None
    object: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    citations: Any = None  # Perplexity and xAI: the addresses of all sources so far
    search_results: Any = None  # Perplexity: the same sources as objects
