"""What a round adds to the conversation: its calls and results, as ``Content`` and as the provider's messages. Pure.

Two layouts, batched and sequential, and the callbacks of callers who have a message format of their own; calls that the
provider signed as one step stay together (``docs/rules.md``, "Batched and sequential"). A result is made such that a
model can get it: with a value that JSON can represent, and an error of limited length (there, "Results").

This module must not depend on how a tool is run, or on how the results came about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from pydantic import ValidationError

from streamkit.calls import CLIENT_ITEM, CLIENT_ITEM_REFERENCE, StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.history import Block, Content, ReasoningBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.content import create_stored
from streamkit.history.stored_data import to_stored_data
from streamkit.history.tool_results import ERROR_LIMIT, RESULT_LIMIT, describe_unwritable, limit_text, to_stored_result
from streamkit.providers import registry
from streamkit.providers.contract.rendered import RenderOptions, origin_metadata
from streamkit.providers.provider import Provider, RenderedMessages
from streamkit.values.json_data import copy_with

__all__ = [
    "FormatCallbacks",
    "Messages",
    "ThreadLayout",
    "ThreadUpdate",
    "build_thread_update",
    "check_layout",
    "decode_thread_update",
    "reason_to_batch",
    "signature_fields",
    "to_sendable_result",
]

#: What a format callback returns: one message, or a list of them.
Messages: TypeAlias = dict[str, Any] | list[dict[str, Any]]


class FormatCallbacks(msgspec.Struct, frozen=True):
    """The caller's functions that write messages; each replaces the provider's and returns one message or a list."""

    #: ``format_tool_call_for_thread(call, arguments)``: the assistant message of one call
    call: Callable[[ToolCall, Any], Messages] | None = None
    #: ``format_tool_result_for_thread(result, call, arguments)``: the message of one ``ToolResult``
    result: Callable[[ToolResult, ToolCall, Any], Messages] | None = None
    #: ``format_batch_for_thread(completed)``: all messages of a list of ``ToolResult``
    batch: Callable[[list[ToolResult]], Messages] | None = None

    @property
    def is_complete(self) -> bool:
        """The callbacks write all messages, so that no provider is needed."""
        return self.batch is not None or (self.call is not None and self.result is not None)

    def call_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return the assistant messages of the results' calls. There must be a callback ``call``."""
        assert self.call is not None  # noqa: S101 - the caller has checked
        return [m for r in results for m in _to_list(self.call(r.call, _arguments(r)))]

    def result_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return the messages of the results. There must be a callback ``result``."""
        assert self.result is not None  # noqa: S101 - the caller has checked
        return [m for r in results for m in _to_list(self.result(r, r.call, _arguments(r)))]

    def batch_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return all messages of the results. There must be a callback ``batch``."""
        assert self.batch is not None  # noqa: S101 - the caller has checked
        return _to_list(self.batch(results))


def _arguments(result: ToolResult) -> Any:
    """Return the arguments that ran."""
    arguments = result.metadata.get("approved_arguments", result.call.arguments)
    return {} if arguments is None else arguments


def _to_list(messages: Messages) -> list[dict[str, Any]]:
    """Return what a callback has returned as a list."""
    return [messages] if isinstance(messages, dict) else list(messages)


def signature_fields(provider: Provider | None) -> frozenset[str]:
    """Return the metadata names of signatures: of the provider, or of all providers if calls do not name theirs."""
    makers = [provider] if provider is not None else [registry.get(name) for name in registry.names()]
    return frozenset(field for maker in makers for field in maker.traits.signature_fields)


def reason_to_batch(assistant: Content, provider: Provider | None) -> str | None:
    """Return why the calls of this content cannot be split over messages, or None if they can.

    Anthropic accepts signed thinking only before all the tool_use blocks that it led to, and Gemini 3 rejects a
    step of function calls whose first has no signature; of parallel calls only the first carries one
    (https://ai.google.dev/gemini-api/docs/thought-signatures). DeepSeek and Kimi reject calls without their reasoning.
    """
    blocks = assistant.blocks
    if provider is not None:  # signatures of another provider are not sent to this one
        blocks = [block for block in blocks if provider.traits.is_from_provider(block.metadata)]
    fields = signature_fields(provider)
    if any(not fields.isdisjoint(block.metadata) for block in blocks):
        return "the provider signed them as one step"
    reasoning = [block for block in blocks if isinstance(block, ReasoningBlock)]
    is_signed = any(block.signature or block.opaque for block in reasoning)
    if provider is not None and provider.traits.batched_results and is_signed:
        return "they follow reasoning that the provider signed"
    if reasoning and provider is not None and provider.traits.calls_need_reasoning:
        return "the provider requires the reasoning before them in the same message"
    return None


#: ``batched``: one assistant message with all calls, then all results. ``sequential``: one call, one result, in turn.
ThreadLayout: TypeAlias = Literal["batched", "sequential"]
_LAYOUTS = get_args(ThreadLayout)


class ThreadUpdate(msgspec.Struct, frozen=True):
    """What a round adds to the conversation.

    Attributes:
        messages: in the provider's own format, to be appended to its messages as they are.
        contents: the same as neutral ``Content``, to be appended to the history.
        results: one for each call, in call order.
        warnings: what was not done as requested, such as a layout that the provider would have rejected.
    """

    messages: list[dict[str, Any]]
    contents: list[Content]
    results: list[ToolResult]
    warnings: list[StreamWarning] = []


def decode_thread_update(data: Any) -> ThreadUpdate:
    """Return the update of a ``RoundFinished`` from its plain data.

    Raises:
        msgspec.ValidationError: the data is not that of an update.
    """
    try:
        stored = msgspec.convert(data, _StoredUpdate)
        contents = [Content.model_validate(content) for content in stored.contents]
    except ValidationError as error:
        raise msgspec.ValidationError(f"the contents of a round's update are not valid: {error}") from error
    return ThreadUpdate(stored.messages, contents, stored.results, stored.warnings)


class _StoredUpdate(msgspec.Struct):
    messages: list[dict[str, Any]]
    contents: list[Any]
    results: list[ToolResult]
    warnings: list[StreamWarning] = []


_NO_CALLBACKS = FormatCallbacks()
# A person's message comes first, as in every conversation: Anthropic's renderer repairs one that the model begins.
_PERSON = Content.human("...")


def check_layout(layout: str) -> None:
    """Reject an unknown layout.

    Raises:
        UsageError: the layout is unknown; the message lists the two that exist.
    """
    if layout not in _LAYOUTS:
        raise UsageError(f"shape must be {' or '.join(map(repr, _LAYOUTS))}, not {layout!r}")


def build_thread_update(
    assistant: Content,
    results: list[ToolResult],
    provider: Provider | None,
    layout: ThreadLayout,
    callbacks: FormatCallbacks,
    options: RenderOptions = RenderOptions(),  # noqa: B008 - frozen
) -> ThreadUpdate:
    """Return the messages and contents of a turn and the results of all its calls.

    Args:
        assistant: the assistant's content, with every call.
        results: one for each of them, in call order.
        provider: the provider whose format the messages have; None if the callbacks write all of them.
        layout: the requested one; if the provider would reject it, ``batched`` with the warning ``batched_instead``.
        callbacks: the caller's. One that writes the message of a call writes one message for each, so those of calls
            and results alternate in both layouts: most servers refuse a message with a call that no result follows.
            Only calls that the provider signed as one step stay together.
        options: of rendering.
    """
    warnings: list[StreamWarning] = []
    if assistant.metadata.get("interrupted"):
        message = "the response was cut off; what came of it is kept, marked as interrupted"
        warnings.append(StreamWarning("turn_interrupted", message))
    assistant, changed = _apply_approved_arguments(assistant, results)
    is_split = layout == "sequential" or callbacks.call is not None
    stays_together = reason_to_batch(assistant, provider) if is_split and len(results) > 1 else None
    if len(results) == 1:
        layout = "batched"  # the same, of one call
    elif layout == "sequential" and stays_together:
        layout = "batched"
        warnings.append(StreamWarning("batched_instead", f"the calls were kept in one message: {stays_together}"))
    contents = _group(assistant, results, layout, changed)
    added = [content for group in contents for content in group]
    if added and provider is not None and callbacks == _NO_CALLBACKS:
        rendered = _render(added, results, provider, callbacks, options)
        warnings += [StreamWarning("content_changed", str(change)) for change in dict.fromkeys(rendered.changes)]
        return ThreadUpdate(rendered.messages, added, list(results), warnings)
    alternates = callbacks.call is not None and callbacks.batch is None and not stays_together
    messages: list[dict[str, Any]] = []
    changes: list[str] = []
    start = 0
    for pair in _group(assistant, results, "sequential", changed) if alternates else contents:
        count = sum(isinstance(block, ToolResponseBlock) for content in pair for block in content.blocks)
        group = results[start : start + count]
        start += len(group)
        if group and callbacks.batch is not None:
            messages += callbacks.batch_messages(group)
        elif group and callbacks.call is not None and callbacks.result is not None:
            messages += callbacks.call_messages(group) + callbacks.result_messages(group)
        elif pair and provider is not None:  # without one the callbacks are complete, and text alone has no format
            rendered = _render(pair, group, provider, callbacks, options)
            messages += rendered.messages
            changes += [str(change) for change in rendered.changes if change not in changes]
            options = msgspec.structs.replace(options, used_ids=options.used_ids | provider.call_ids(rendered.messages))
    warnings += [StreamWarning("content_changed", change) for change in changes]
    return ThreadUpdate(messages, added, list(results), warnings)


_CALL_FIELDS = ("raw_id", "caller")


def _group(
    assistant: Content, results: Sequence[ToolResult], layout: ThreadLayout, changed: set[str]
) -> list[list[Content]]:
    """Return the assistant's content and the results in a layout: pairs of contents, those without a block left out.

    *changed* are the ids of the calls whose blocks have the arguments that a person has approved.
    """
    if not results:
        return [[assistant] if assistant.blocks else []]
    groups = [results] if layout == "batched" else [[result] for result in results]
    calls = [block for block in assistant.blocks if isinstance(block, ToolCallBlock)]
    parts = [assistant]
    if layout != "batched":  # a content for each call; all blocks that are not calls are in the first
        first = [block for block in assistant.blocks if not isinstance(block, ToolCallBlock) or block is calls[0]]
        parts = [
            copy_with(assistant, blocks=calls[number : number + 1] if number else first)
            for number in range(len(groups))
        ]
    origins: dict[str, dict[str, Any]] = {}  # what a result tells of its call, for a request without the call
    for call in calls:
        origins[call.id] = origin = {**origin_metadata(call.metadata)}
        origin |= {name: call.metadata[name] for name in _CALL_FIELDS if name in call.metadata}
        if call.kind != "function":
            origin["kind"] = call.kind
        item = call.metadata.get(CLIENT_ITEM)
        if isinstance(item, dict):
            origin[CLIENT_ITEM] = {name: item[name] for name in CLIENT_ITEM_REFERENCE if name in item}
    pairs: list[list[Content]] = []
    for part, group in zip(parts, groups, strict=True):
        blocks: list[Block] = [
            _to_response_block(
                result, origins.get(result.call.id, {}), has_other_arguments=result.call.id not in changed
            )
            for result in group
        ]
        answers = create_stored(Content, speaker="tool", blocks=blocks, metadata={})
        pairs.append([part, answers] if part.blocks else [answers])
    return pairs


def _render(
    added: list[Content],
    results: list[ToolResult],
    provider: Provider,
    callbacks: FormatCallbacks,
    options: RenderOptions,
) -> RenderedMessages:
    """Return the provider's messages for one assistant content and its results, and the changes that rendering made.

    At most one of the callbacks ``call`` and ``result`` is set; its messages replace the provider's.
    """
    rendered = provider.render(
        [_PERSON, *added],
        ids=options.ids,
        model=options.model,
        endpoint=options.endpoint,
        used_ids=options.used_ids,
        is_json_data=True,  # the blocks were made for this update, and have been checked then
    )
    start = sum([0 in members for members in rendered.members])  # the messages of the person
    messages = rendered.messages[start:]
    if not results or (callbacks.call is None and callbacks.result is None):
        return msgspec.structs.replace(rendered, messages=messages)
    # Results follow the calls: in one message if the wire has one for all, else one each, and after them a user message
    # where only that can contain the images and files of results.
    first_result = rendered.spans[1][1] - start
    if callbacks.call is not None:
        messages[:first_result] = callbacks.call_messages(results)
    else:
        messages[first_result:] = callbacks.result_messages(results)
    return msgspec.structs.replace(rendered, messages=messages)


# ---------------------------------------------------------------- contents


def _apply_approved_arguments(assistant: Content, results: list[ToolResult]) -> tuple[Content, set[str]]:
    """Return the assistant's content with the arguments that ran, and the ids of the calls that this changed.

    What a person has approved with other arguments must stand in the history as it ran. A call that is covered by a
    signature is left as it is, since the provider rejects a changed one.
    """
    approved = {each.call.id: each for each in results if "approved_arguments" in each.metadata}
    if not approved:
        return assistant, set()
    fields = signature_fields(None)
    blocks: list[Any] = []
    changed: set[str] = set()
    for block in assistant.blocks:
        result = approved.get(block.id) if isinstance(block, ToolCallBlock) else None
        if result is not None and isinstance(block, ToolCallBlock) and fields.isdisjoint(block.metadata):
            arguments = to_stored_data(result.metadata["approved_arguments"])
            if block.kind == "custom" and len(arguments) == 1:
                [arguments] = arguments.values()
            metadata = {**block.metadata, "original_arguments": block.parameters}
            blocks.append(copy_with(block, parameters=arguments, metadata=metadata))
            changed.add(block.id)
        else:
            blocks.append(block)
    return copy_with(assistant, blocks=blocks), changed


def _to_response_block(result: ToolResult, origin: dict[str, Any], *, has_other_arguments: bool) -> ToolResponseBlock:
    """Return a result as a block. Its metadata has its call's origin, raw id and kind, for a request without the call.

    *has_other_arguments*: the call's block does not have the arguments that ran, if a person has changed them.
    """
    value, error = to_stored_result(result.value, limit=RESULT_LIMIT), result.error
    if has_other_arguments and "approved_arguments" in result.metadata:
        arguments = json.dumps(result.metadata["approved_arguments"], ensure_ascii=False, default=str)
        note = to_stored_data(f"A person approved this call with other arguments, and it ran with: {arguments}")
        if error is not None:
            error = f"{error} {note}"
        else:
            value = f"{note}\n{value}" if isinstance(value, str) else {"note": note, "result": value}
    return create_stored(
        ToolResponseBlock,
        call_id=to_stored_data(result.call.id),
        name=to_stored_data(result.call.name),
        result=value,
        status=result.status,
        error=None if error is None else to_stored_data(error),
        metadata={**to_stored_data(result.metadata), **origin} if result.metadata else origin,
    )


def to_sendable_result(result: ToolResult) -> ToolResult:
    """Return a result unchanged, or an error if its value cannot be written as JSON; a long error is shortened."""
    call = result.call
    unwritable = describe_unwritable(result.value) if result.status == "completed" else None
    if unwritable is not None:
        return ToolResult(
            call,
            "error",
            error=f"{call.name} ran, but it returned {unwritable}, which cannot be written as JSON. Its result is lost;"
            " its effects, if any, are not. Do not repeat the call.",
            metadata=result.metadata,
            exception=TypeError(
                f"{call.name} returned {unwritable}; return text, data, bytes, a dataclass, a pydantic model or a block"
            ),
            cause="failed",
        )
    if result.error is not None and len(result.error) > ERROR_LIMIT:
        return msgspec.structs.replace(result, error=limit_text(result.error, ERROR_LIMIT))
    return result
