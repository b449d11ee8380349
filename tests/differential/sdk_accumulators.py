"""What the official SDKs' own accumulators make of a stream: witnesses, not judges.

Each takes the bytes of a stream, reads them with that SDK's own decoder and types, and says in our words what it
understood; ``raised`` where it refused. Nothing of streamkit is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
from anthropic._models import construct_type as construct_anthropic
from anthropic._streaming import SSEDecoder as AnthropicDecoder
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from openai import omit
from openai._models import construct_type as construct_openai
from openai._streaming import SSEDecoder as OpenAIDecoder
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.chat._completions import _is_valid_chat_completion_chunk_weak
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent

__all__ = ["VERSIONS", "WITNESSES", "Said"]

VERSIONS = {"openai": openai.__version__, "anthropic": anthropic.__version__}

#: ``text``, ``reasoning``, ``refusal``, ``calls`` ([name, arguments as they are given, id]), ``finish``, ``usage``
#: ([the whole prompt, all that was generated]), ``raised``. What is empty is absent.
Said = dict[str, Any]


def chat(data: bytes) -> Said:
    """``ChatCompletionStreamState``, of which ``accumulate_delta`` is the heart."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    raised = None
    try:
        for event in _until_done(OpenAIDecoder(), data):
            _refuse_errors(event)
            chunk: Any = construct_openai(type_=ChatCompletionChunk, value=event)
            if _is_valid_chat_completion_chunk_weak(chunk):
                state.handle_chunk(chunk)
    except Exception as error:
        raised = type(error).__name__
    try:
        snapshot = state.current_completion_snapshot
    except AssertionError:
        return _without_empty(raised=raised)
    choice = next((choice for choice in snapshot.choices if choice.index == 0), None)
    message: Any = None if choice is None else choice.message
    usage = snapshot.usage
    calls = [
        [call.function.name, call.function.arguments or "", call.id or ""]
        for call in (message and message.tool_calls) or []
        if getattr(call, "function", None) is not None
    ]
    return _without_empty(
        text=message and message.content,
        refusal=message and message.refusal,
        calls=calls,
        finish=choice and choice.finish_reason,
        usage=usage and [usage.prompt_tokens, usage.completion_tokens],
        raised=raised,
    )


def messages(data: bytes) -> Said:
    """``accumulate_event``."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    raised = None
    try:
        for event in _until_done(AnthropicDecoder(), data):
            _refuse_errors(event)
            if isinstance(event, dict) and event.get("type") != "ping":
                piece: Any = construct_anthropic(type_=RawMessageStreamEvent, value=_with_usage(event))
                snapshot = accumulate_event(event=piece, current_snapshot=snapshot, json_bufs=buffers)
    except Exception as error:
        raised = type(error).__name__
    if snapshot is None:
        return _without_empty(raised=raised)
    usage = snapshot.usage
    prompt = [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens]
    return _without_empty(
        text="".join(block.text for block in snapshot.content if block.type == "text"),
        reasoning="".join(block.thinking for block in snapshot.content if block.type == "thinking"),
        calls=[[block.name, block.input, block.id] for block in snapshot.content if block.type == "tool_use"],
        finish=snapshot.stop_reason,
        usage=[sum(tokens or 0 for tokens in prompt), usage.output_tokens],
        raised=raised,
    )


def _with_usage(event: dict[str, Any]) -> dict[str, Any]:
    """The event with the figures that the API always sends and short cases leave out: without them it is refused."""
    if event.get("type") == "message_start" and isinstance(event.get("message"), dict):
        figures = {"input_tokens": 0, "output_tokens": 0} | (event["message"].get("usage") or {})
        return {**event, "message": {**event["message"], "usage": figures}}
    if event.get("type") == "message_delta":
        return {**event, "usage": {"output_tokens": 0} | (event.get("usage") or {})}
    return event


def responses(data: bytes) -> Said:
    """``ResponseStreamState``."""
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    raised = None
    try:
        for event in _until_done(OpenAIDecoder(), data):
            _refuse_errors(event)
            piece: Any = construct_openai(type_=ResponseStreamEvent, value=event)  # type: ignore[arg-type]
            state.handle_event(piece)
    except Exception as error:
        raised = type(error).__name__
    snapshot: Any = state._completed_response or state._ResponseStreamState__current_snapshot  # type: ignore[attr-defined]
    if snapshot is None:
        return _without_empty(raised=raised)
    parts = [part for item in snapshot.output if item.type == "message" for part in item.content]
    thoughts = [
        part.text
        for item in snapshot.output
        if item.type == "reasoning"
        for part in [*(item.summary or []), *(item.content or [])]
    ]
    usage = snapshot.usage
    return _without_empty(
        text="".join(part.text for part in parts if part.type == "output_text"),
        refusal="".join(part.refusal for part in parts if part.type == "refusal"),
        reasoning="".join(thoughts),
        calls=[
            [item.name, item.arguments if item.type == "function_call" else item.input, item.call_id]
            for item in snapshot.output
            if item.type in ("function_call", "custom_tool_call")
        ],
        usage=usage and [usage.input_tokens, usage.output_tokens],
        raised=raised,
    )


#: The witness of each provider that has one. google-genai and cohere accumulate nothing.
WITNESSES: dict[str, Callable[[bytes], Said]] = {
    "openai_chat": chat,
    "anthropic": messages,
    "openai_responses": responses,
}


def _until_done(decoder: Any, data: bytes) -> Iterator[Any]:
    for event in decoder.iter_bytes(iter([data])):
        if event.data.startswith("[DONE]"):
            return
        yield event.json()


def _refuse_errors(event: Any) -> None:
    """The clients raise APIError where an event reports one."""
    if isinstance(event, dict) and (event.get("error") or event.get("type") == "error"):
        raise RuntimeError(event)


def _without_empty(**fields: Any) -> Said:
    return {name: value for name, value in fields.items() if value and value != [0, 0]}
