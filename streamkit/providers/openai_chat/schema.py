"""The vocabulary of Chat Completions streams, as types: OpenAI's own, and what its many imitators add.

Wire      https://platform.openai.com/docs/api-reference/chat-streaming

Containers are typed, leaves are ``Any``: servers send ``content`` as a list, ids as numbers, ``null`` for anything.
A field stands here only where the parser reads it, in OpenAI's order, for so the decoder finds it fastest. Known and
not read, since it says nothing of the answer: ``service_tier``, ``system_fingerprint``, ``provider``,
``native_finish_reason``, ``obfuscation`` and ``p`` (padding), ``channel``, ``seed``, ``timings`` and the like; and
``text`` beside a delta, which repeats it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Choice", "Chunk", "Custom", "Delta", "Function", "ToolCall"]


class Function(Struct, gc=False):
    """A call's function: its name comes first, its arguments as pieces of JSON text."""

    name: Any = None
    arguments: Any = None


class Custom(Struct, gc=False):
    """A custom tool's call: free text, never JSON."""

    name: Any = None
    input: Any = None


class ToolCall(Struct, gc=False):
    """One entry of ``delta.tool_calls``. ``index`` tells the calls apart, where the server sends it."""

    index: Any = None
    id: Any = None
    type: Any = None
    function: Function | None = None
    custom: Custom | None = None
    extra_content: Any = None  # Gemini's compatible endpoint: {"google": {"thought_signature": ...}}


class Delta(Struct, gc=False):
    """What one chunk adds to an answer (``message`` of a body that was not streamed has the same shape)."""

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
    executed_tools: Any = None  # Groq's compound systems: what the server's own tools were given and found
    reasoning_steps: Any = None  # Perplexity's: the searches behind an answer
    context: Any = None  # Azure's, with "your data": {"citations": [...], "intent": ...}


class Choice(Struct, gc=False):
    """One answer's part of a chunk."""

    index: Any = 0
    delta: Delta | None = None
    logprobs: Any = None
    finish_reason: Any = None
    message: Delta | None = None  # a whole body; Perplexity and Writer repeat the answer so far here in every chunk
    usage: Any = None  # Moonshot puts it here


class Chunk(Struct, gc=False):
    """One ``chat.completion.chunk``, or a whole ``chat.completion``."""

    id: Any = None
    object: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    citations: Any = None  # Perplexity and xAI: addresses, all that there are so far
    search_results: Any = None  # Perplexity: the same as objects
