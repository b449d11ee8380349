"""What a round adds to the thread: its calls and results, as neutral ``Content`` and in a provider's messages. Pure.

Two shapes, and the callbacks of people who bring a thread format of their own. It is given results that are there; how
they came about is ``rounds``' and the executors' business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from streamkit.accumulator.to_content import to_tool_call_block
from streamkit.calls import StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.history import Content, ReasoningBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.tool_results import to_stored_result
from streamkit.providers.provider import Provider

__all__ = [
    "FormatCallbacks",
    "Messages",
    "ThreadLayout",
    "ThreadUpdate",
    "build_assistant_content",
    "check_layout",
    "build_thread_update",
]

#: ``batched``: one assistant message with all calls, then all results. ``sequential``: one call, one result, in turn.
ThreadLayout: TypeAlias = Literal["batched", "sequential"]
Messages: TypeAlias = "dict[str, Any] | list[dict[str, Any]]"

_SIGNATURES = ("thoughtSignature", "thought_signature", "extra_content")  # Gemini's, and as OpenAI-compatible wires say


@dataclass(frozen=True, slots=True)
class ThreadUpdate:
    """What a round adds to the thread.

    Attributes:
        messages: in the provider's own format, to append to the thread as they are.
        contents: the same as neutral ``Content``, to append to history.
        results: one for each call, in call order.
        warnings: what was not done as asked, such as a shape that the provider would have rejected.
    """

    messages: list[dict[str, Any]]
    contents: list[Content]
    results: list[ToolResult]
    warnings: list[StreamWarning] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FormatCallbacks:
    """The caller's own ways to write messages; each replaces the provider's and may return one message or a list.

    Attributes:
        call: ``format_tool_call_for_thread(call, arguments)``: the assistant message of one call.
        result: ``format_tool_result_for_thread(result, call, arguments)``: the message of one ``ToolResult``.
        batch: ``format_batch_for_thread(completed)``: all messages of a list of ``ToolResult``.
    """

    call: Callable[[ToolCall, Any], Messages] | None = None
    result: Callable[[ToolResult, ToolCall, Any], Messages] | None = None
    batch: Callable[[list[ToolResult]], Messages] | None = None

    @property
    def is_complete(self) -> bool:
        """Nothing is left to a provider."""
        return self.batch is not None or (self.call is not None and self.result is not None)


def check_layout(shape: str) -> None:
    """Refuse a shape that there is not.

    Raises:
        UsageError: with the two there are.
    """
    if shape not in get_args(ThreadLayout):
        raise UsageError(f"shape is {' or '.join(map(repr, get_args(ThreadLayout)))}, not {shape!r}")


def build_assistant_content(calls: Sequence[ToolCall], provider: Provider | None) -> Content:
    """The assistant's content of calls without their turn."""
    origin = {} if provider is None else {"provider": provider.name}
    return Content(speaker="ai", blocks=[to_tool_call_block(call, origin) for call in calls])


def build_thread_update(
    assistant: Content,
    results: list[ToolResult],
    provider: Provider | None,
    shape: ThreadLayout,
    formatting: FormatCallbacks,
) -> ThreadUpdate:
    """What the thread gains by a turn and the results of all its calls.

    Args:
        asked: the assistant's content, with every call.
        results: one for each of them, in call order.
        provider: whose messages are written; None where the callbacks write all of them.
        shape: as asked for; where the provider would reject it, ``batched`` with the warning ``batched_instead``.
        formatting: the caller's callbacks.
    """
    warnings: list[StreamWarning] = []
    if shape == "sequential" and len(results) > 1 and (why := _reason_to_batch(assistant, provider)):
        shape = "batched"
        warnings.append(StreamWarning("batched_instead", f"calls were kept together: {why}"))
    steps = [results] if shape == "batched" or not results else [[result] for result in results]
    parts = [assistant] if shape == "batched" else _split_by_call(assistant, len(steps))
    contents: list[Content] = []
    messages: list[dict[str, Any]] = []
    for said, step in zip(parts, steps, strict=True):
        answered = Content(speaker="tool", blocks=[_response(result) for result in step])
        made = [content for content in (said, answered) if content.blocks]
        contents += made
        if step and formatting.batch is not None:
            messages += _listed(formatting.batch(step))
        elif step and formatting.call is not None and formatting.result is not None:
            messages += _formatted_calls(formatting, step) + _formatted_results(formatting, step)
        elif made and provider is not None:  # without one the callbacks are whole, and nothing says a text's format
            messages += _rendered(made, step, provider, formatting, warnings)
    return ThreadUpdate(messages, contents, list(results), warnings)


def _rendered(
    made: list[Content],
    step: list[ToolResult],
    provider: Provider,
    formatting: FormatCallbacks,
    warnings: list[StreamWarning],
) -> list[dict[str, Any]]:
    """The provider's messages for one assistant content and its results, with the one callback that is given."""
    # Behind a person's message, as in every thread: Anthropic's render mends a thread that the model begins.
    rendered = provider.render([Content.human("..."), *made])
    warnings += [StreamWarning("content_changed", change) for change in rendered.changes]
    start = rendered.spans[0][1]
    messages = rendered.messages[start:]
    if not step or (formatting.call is None and formatting.result is None):
        return messages
    # Results stand behind the calls: in one message where the wire has one for all, else one each, and behind them a
    # user message where only that can hold the images and files of results.
    at = rendered.spans[1][1] - start
    if formatting.call is not None:
        messages[:at] = _formatted_calls(formatting, step)
    else:
        messages[at:] = _formatted_results(formatting, step)
    return messages


def _formatted_calls(formatting: FormatCallbacks, step: list[ToolResult]) -> list[dict[str, Any]]:
    assert formatting.call is not None  # noqa: S101 - the caller looked
    return [m for r in step for m in _listed(formatting.call(r.call, _arguments(r.call)))]


def _formatted_results(formatting: FormatCallbacks, step: list[ToolResult]) -> list[dict[str, Any]]:
    assert formatting.result is not None  # noqa: S101 - the caller looked
    return [m for r in step for m in _listed(formatting.result(r, r.call, _arguments(r.call)))]


# ---------------------------------------------------------------- contents


def _response(result: ToolResult) -> ToolResponseBlock:
    return ToolResponseBlock(
        call_id=result.call.id,
        name=result.call.name,
        result=to_stored_result(result.value),
        status=result.status,
        error=result.error,
        metadata=dict(result.metadata),
    )


def _split_by_call(assistant: Content, steps: int) -> list[Content]:
    """The assistant's content as so many, with one of its calls each; all that is not a call stands in the first."""
    calls = [block for block in assistant.blocks if isinstance(block, ToolCallBlock)]
    first = [block for block in assistant.blocks if not isinstance(block, ToolCallBlock) or block is calls[0]]
    return [
        assistant.model_copy(update={"blocks": calls[number : number + 1] if number else first})
        for number in range(steps)
    ]


def _reason_to_batch(assistant: Content, provider: Provider | None) -> str | None:
    """Why the calls of this answer cannot be shown one by one; None where they can.

    Anthropic takes signed thinking back only in front of all the tool_use blocks that it led to, and Gemini 3 refuses a
    step of function calls whose first has no signature; of parallel calls only the first carries one
    (https://ai.google.dev/gemini-api/docs/thought-signatures). DeepSeek and Kimi refuse calls without their reasoning.
    """
    blocks = [block for block in assistant.blocks if provider is None or _is_of(block.metadata, provider)]
    if any(name in block.metadata for block in blocks for name in _SIGNATURES):
        return "the provider signed them as one step"
    signed = [getattr(block, "signature", None) or getattr(block, "opaque", None) for block in blocks]
    if provider is not None and provider.traits.batched_results and any(signed):
        return "they follow reasoning that the provider signed"
    reasoned = any(isinstance(block, ReasoningBlock) for block in blocks)
    if reasoned and provider is not None and provider.traits.calls_need_reasoning:
        return "the provider wants the reasoning before them in the same message"
    return None


def _is_of(metadata: dict[str, Any], provider: Provider) -> bool:
    """What another provider signed is not sent to this one."""
    return bool(metadata.get("provider", provider.name) == provider.name)


def _arguments(call: ToolCall) -> Any:
    return call.arguments if call.arguments is not None else {}


def _listed(messages: Messages | Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [messages] if isinstance(messages, dict) else list(messages)
