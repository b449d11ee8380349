"""A content as the stream of one provider: its blocks as events, through the provider's writer.

It must not depend on any provider. History is loaded with it, so a writer of events alone does not import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from streamkit.calls import CallRef, CallState, FinishReason, ToolCall, Usage
from streamkit.events import (
    BlockEnded,
    Event,
    File,
    Finished,
    Reasoning,
    Refusal,
    ResponseStarted,
    ServerTool,
    Text,
    TextKind,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    UsageReport,
)
from streamkit.events.citations import citation_events
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)
from streamkit.json_text import finalize_arguments
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing.encoding import data_as_json
from streamkit.providers.writing.writer import Writer

__all__ = ["default_finish_reason", "raw_call_id", "split_text", "streamed_arguments", "write_content"]

_BlockOfEvents: TypeAlias = TextBlock | ReasoningBlock | ToolCallBlock | ServerToolBlock | FileBlock | ImageBlock
#: Metadata of a block that is not the provider's state of the block.
_NO_STATE: Final = frozenset(
    {"provider", "model", "requested_model", "endpoint", "citations", "signature", "refusal", "raw"}
    | {"raw_id", "raw_arguments", "state"}
)


def write_content(
    writer: Writer, content: Content, *, finish: FinishReason | None, usage: Usage | None, delta_size: int
) -> Iterator[bytes]:
    """Yield the frames of a stream that the provider's parser reads as this content.

    Args:
        writer: a new writer of the provider.
        content: the assistant's content. State of its blocks is written if this provider made it.
        finish: None means ``tool_calls`` if there are calls, else ``stop``.
        usage: the tokens; None if they are not known.
        delta_size: the characters of a delta.
    """
    if usage is not None:
        yield from writer.frames(UsageReport(usage))
    yield from writer.frames(ResponseStarted(writer.response_id, writer.model))
    for index, block in enumerate(content.blocks):
        own = _own_state(block.metadata, writer.traits)
        if own is not None and isinstance(block, ReasoningBlock):
            own = {**own, "opaque": block.opaque}
        writer.set_own_state(own)
        yield from _write_block(writer, block, index, delta_size)
    writer.set_own_state(_own_state(content.metadata, writer.traits))
    yield from writer.frames(Finished(finish or default_finish_reason(content)))
    yield from writer.end_frames()


def _own_state(metadata: Mapping[str, Any], traits: Traits) -> Mapping[str, Any] | None:
    """Return the metadata of a block or content if this provider made it, or if none is named; else None."""
    return metadata if "provider" not in metadata or traits.accepts_state(metadata) else None


def _write_block(writer: Writer, block: Block, index: int, delta_size: int) -> Iterator[bytes]:
    is_own = _own_state(block.metadata, writer.traits) is not None
    if isinstance(block, ServerToolBlock) and is_own and block.raw:
        for raw in block.raw:
            yield from writer.own_block(raw, is_server_tool=True)
    elif isinstance(block, OpaqueBlock) and is_own:
        yield from writer.own_block(block.raw)
    elif isinstance(block, _BlockOfEvents):
        for event in _events(block, index, delta_size):
            yield from writer.frames(event)
    else:
        writer.omit("unknown", f"a block of the type {block.type!r} was left out: no event of a response has it")


def _events(block: _BlockOfEvents, index: int, delta_size: int) -> Iterator[Event]:
    metadata = block.metadata
    if isinstance(block, TextBlock):
        is_refusal = bool(metadata.get("refusal"))
        for part in split_text(block.text, delta_size):
            yield Refusal(part) if is_refusal else Text(part)
        citations = metadata.get("citations")
        for citation in citations if isinstance(citations, list) else ():
            yield from citation_events(citation, text=block.text)
        kind: TextKind = "refusal" if is_refusal else "text"
        yield BlockEnded(kind, signature=_signature(metadata), metadata=_state(metadata))
    elif isinstance(block, ReasoningBlock):
        for part in split_text(block.text, delta_size):
            yield Reasoning(part, block.kind)
        opaque = {} if block.opaque is None else {"opaque": block.opaque}
        signature = block.signature or _signature(metadata)
        yield BlockEnded("reasoning", signature=signature, metadata={**_state(metadata), **opaque})
    elif isinstance(block, ToolCallBlock):
        yield from _call_events(block, index, delta_size)
    elif isinstance(block, ServerToolBlock):
        yield ServerTool(block.id, block.name, "started")
        yield ServerTool(block.id, block.name, "arguments", {} if block.arguments is None else block.arguments)
        if block.result is not None:
            yield ServerTool(block.id, block.name, "result", block.result)
    elif isinstance(block, FileBlock):
        yield File(block.media_type, block.data, block.url)
    else:
        yield File(None, block.data)


def _signature(metadata: Mapping[str, Any]) -> str | None:
    signature = metadata.get("signature")
    return signature if isinstance(signature, str) else None


def _state(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _NO_STATE}


def _call_events(block: ToolCallBlock, index: int, delta_size: int) -> Iterator[Event]:
    """Yield the events of a call."""
    ref = CallRef(block.id, block.name, index)
    state: CallState = "complete"
    arguments: Any = block.parameters
    text = streamed_arguments(block)
    if block.kind == "custom":
        ref = CallRef(ref.id, ref.name, ref.index, "custom")
        raw = block.metadata.get("raw_arguments")
        text = raw if isinstance(raw, str) else arguments if isinstance(arguments, str) else text
        state = block.metadata.get("state", "complete")
    elif "raw_arguments" in block.metadata:
        parsed = finalize_arguments(text)
        state, arguments = block.metadata.get("state", parsed.state), parsed.arguments
    yield ToolCallStart(ref)
    for part in split_text(text, delta_size):
        yield ToolCallDelta(ref, part)
    yield ToolCallEnd(ref)
    call = ToolCall(
        id=ref.id,
        name=block.name,
        index=index,
        raw_id=raw_call_id(block),
        kind=block.kind,
        arguments=arguments if state == "complete" else None,
        arguments_text=text,
        state=state,
        ended=True,
        metadata=_state(block.metadata),
    )
    yield ToolCallReady(call)


def split_text(text: str, size: int) -> list[str]:
    """Return a text in parts of ``size`` characters, the last one shorter; no part for an empty text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def default_finish_reason(content: Content) -> FinishReason:
    """Return the reason that a content ends with if none is stated: ``tool_calls`` if it has calls, else ``stop``."""
    has_calls = any(block.type == "tool_call" for block in content.blocks)
    return "tool_calls" if has_calls else "stop"


def raw_call_id(block: ToolCallBlock) -> str | None:
    """Return the id that a call had on the wire it came from; None if it had none."""
    raw_id = block.metadata.get("raw_id")
    return raw_id if isinstance(raw_id, str) and raw_id else None


def streamed_arguments(block: ToolCallBlock) -> str:
    """Return a call's arguments as the text that a wire streams, ``""`` for a call without arguments.

    Arguments that never were an object are kept as text in ``metadata["raw_arguments"]`` and are returned unchanged.
    The text of a custom call goes under the name ``input``.
    """
    raw_arguments = block.metadata.get("raw_arguments")
    if isinstance(raw_arguments, str):
        return raw_arguments
    arguments = block.parameters if isinstance(block.parameters, dict) else {"input": block.parameters}
    return data_as_json(arguments) if arguments else ""
