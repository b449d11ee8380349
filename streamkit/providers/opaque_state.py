"""Opaque state of an upstream inside the opaque field of a client's own wire, and back.

A signature, encrypted reasoning or a thought signature is valid only where it was made (docs/rules.md, "Opaque state").
A client of another wire has one opaque field of its own per block (`Traits.reasoning_state`, `Traits.call_state`),
which it sends back unchanged. `StateCarrier` packs the state of a block with its origin into one text for that field
(`wrapped_state`), and `restore_state` puts it back into a conversation, so that renderers send it to its origin alone.
A client that drops the field loses nothing but the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from streamkit.history import Block, Content, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.wrapped_state import UpstreamState, is_wrapped_state, unwrap_state

__all__ = ["restore_state"]

_DEEPEST = 8
#: The metadata of a block that does not belong to a provider.
_NEUTRAL_METADATA = ("cache", "namespace", "raw_arguments", "state")

_StatefulBlock = TypeVar("_StatefulBlock", ReasoningBlock, TextBlock, ToolCallBlock)


def restore_state(contents: Sequence[Content], changes: list[str] | None = None) -> list[Content]:
    """Return a client's conversation with the state of the upstream in its place again.

    A block whose field has a wrapped state becomes the block that the upstream made. Other blocks of the same content
    are from the same response, so they get its origin, too: a reasoning item is accepted only with what followed it.

    Args:
        contents: the conversation, as it was read in the client's form.
        changes: receives a sentence if a state is damaged; such a state is left out.
    """
    return [_restore_content(content, [] if changes is None else changes) for content in contents]


def _restore_content(content: Content, changes: list[str]) -> Content:
    if content.speaker != "ai":
        return content
    wrapped = [_wrapped(block) for block in content.blocks]
    if not any(wrapped):
        return content
    states = [[_unwrap(text, changes) for text in texts] for texts in wrapped]
    found = [state for entry in states for state in entry if state is not None]
    calls = {(state.fields.get("name"), state.fields.get("number")): state for state in found if state.block == "call"}
    origin = found[0].origin if found else None
    counts: Counter[str] = Counter()
    blocks: list[Block] = []
    for block, entry in zip(content.blocks, states, strict=True):
        own = [state for state in entry if state is not None]
        origin = own[0].origin if own else origin
        reasoning = [_restore_reasoning(state) for state in own if state.block == "reasoning"]
        if isinstance(block, ToolCallBlock):
            state = own[0] if own else calls.get((block.name, counts[block.name]))
            counts[block.name] += 1
            blocks.append(_restore_call(_without_state(block), origin, state))
        elif reasoning:
            if blocks and _repeats(blocks[-1], reasoning[0]):
                blocks.pop()
            blocks += reasoning
        elif not entry:
            blocks.append(_with_origin(block, origin) if isinstance(block, TextBlock) else block)
        elif isinstance(block, ReasoningBlock) and block.text:
            blocks.append(_without_state(block))
        elif isinstance(block, TextBlock):
            blocks.append(_with_origin(_without_state(block), origin))
    return content.model_copy(update={"blocks": blocks})


def _repeats(block: Block, restored: Block) -> bool:
    """Return True for reasoning without state that the next block, with its state, repeats."""
    if not isinstance(block, ReasoningBlock) or not isinstance(restored, ReasoningBlock):
        return False
    return block.text == restored.text and block.signature is None and block.opaque is None


def _wrapped(block: Block) -> list[str]:
    """Return the wrapped states in a block's opaque fields. A message may have those of several blocks in one field."""
    values: list[Any] = [block.metadata]
    if isinstance(block, ReasoningBlock):
        values += (block.signature, block.opaque)
    elif isinstance(block, OpaqueBlock):
        values.append(block.raw)
    return [text for value in values for text in _texts(value) if is_wrapped_state(text)]


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, depth + 1)


def _unwrap(text: str, changes: list[str]) -> UpstreamState | None:
    state = unwrap_state(text)
    if state is None:
        changes.append("opaque state of an earlier response was left out: the client sent it back damaged")
    return state


def _restore_reasoning(state: UpstreamState) -> Block:
    fields = {name: state.fields[name] for name in ("text", "kind", "signature", "opaque") if name in state.fields}
    try:
        return ReasoningBlock(**fields, metadata={**state.metadata, **state.origin})
    except ValueError:  # a field of another type: not from `wrap_state`
        return ReasoningBlock(metadata=dict(state.origin))


def _restore_call(block: ToolCallBlock, origin: Mapping[str, Any] | None, own: UpstreamState | None) -> Block:
    """Return a call with the state that its origin needs."""
    if own is None:
        return _with_origin(block, origin)
    kept = {name: value for name, value in block.metadata.items() if name in _NEUTRAL_METADATA}
    return block.model_copy(update={"metadata": {**kept, **own.metadata, **own.origin}})


def _with_origin(block: TextBlock | ToolCallBlock, origin: Mapping[str, Any] | None) -> Block:
    """Return a block with another origin. The client's raw id means nothing there, unless the wires are the same."""
    if origin is None:
        return block
    is_same = block.metadata.get("provider") == origin.get("provider")
    kept = {name: value for name, value in block.metadata.items() if is_same or name in _NEUTRAL_METADATA}
    return block.model_copy(update={"metadata": {**kept, **origin}})


def _without_state(block: _StatefulBlock) -> _StatefulBlock:
    """Return a block without wrapped state, which its own wire would take for its own."""
    metadata = {name: value for name, value in block.metadata.items() if not any(map(is_wrapped_state, _texts(value)))}
    update: dict[str, Any] = {"metadata": metadata}
    if isinstance(block, ReasoningBlock):
        update |= {"signature": None, "opaque": None}
    return block.model_copy(update=update)
