"""Opaque state of an upstream inside the opaque field of a client's own wire, and back.

A signature, encrypted reasoning or a thought signature is valid only where it was made (docs/rules.md, "Opaque state").
A client of another wire has one opaque field of its own per block (`Traits.reasoning_state`, `Traits.call_state`),
which it sends back unchanged. `StateCarrier` packs the state of a block with its origin into one text for that field
(`wrapped_state`), and `restore_state` puts it back into a conversation, so that renderers send it to its origin alone.
A client that drops the field loses nothing but the state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from streamkit.history import Block, Content, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.contract.carried_state import STATE_MARK, UpstreamState, unwrap_state
from streamkit.values.json_data import copy_with

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
    unwrapped = [state for entry in states for state in entry if state is not None]
    found = [each for state in unwrapped for each in (*state.before, state)]
    calls = {_position(state): state for state in found if state.block == "call"}
    texts = {_position(state): state for state in found if state.block == "text"}
    origin = found[0].origin if found else None
    counts: Counter[str] = Counter()
    blocks: list[Block] = []
    places: dict[int, tuple[int, int]] = {}  # of reasoning whose message joins blocks, by the identity of its block
    for block, entry in zip(content.blocks, states, strict=True):
        own = [state for state in entry if state is not None]
        origin = own[0].origin if own else origin
        for before in [each for state in own for each in state.before if each.block == "reasoning"]:
            _insert_reasoning(blocks, before)
        carried = [state for state in own if state.block == "reasoning"]
        if isinstance(block, ToolCallBlock):
            state = own[0] if own else calls.get((block.name, counts[block.name]))
            counts[block.name] += 1
            blocks.append(_restore_call(_without_state(block), origin, state))
        elif carried:
            reasoning = [_restore_reasoning(each) for each in carried]
            if blocks and _repeats(blocks[-1], reasoning[0]):
                blocks.pop()
            blocks += reasoning
            found_places = zip(reasoning, map(_place, carried), strict=True)
            places |= {id(each): place for each, place in found_places if place is not None}
        elif isinstance(block, TextBlock):
            text = _with_origin(_without_state(block) if entry else block, origin)
            blocks.append(_with_text_state(text, own[0]) if own and own[0].block == "text" else text)
        elif not entry:
            blocks.append(block)
        elif isinstance(block, ReasoningBlock) and block.text:
            blocks.append(_without_state(block))
    if places:
        blocks = _in_order(blocks, places)
    return copy_with(content, blocks=_with_text_states(blocks, texts) if texts else blocks)


def _position(state: UpstreamState) -> tuple[str | None, int | None]:
    """Return the name and the number of a state's block; a client may have sent anything in their place."""
    name, number = state.fields.get("name"), state.fields.get("number")
    return (name if isinstance(name, str) else None, number if isinstance(number, int) else None)


def _place(state: UpstreamState) -> tuple[int, int] | None:
    """Return the characters of text and the number of calls before a block of reasoning, if its state has them."""
    length, calls = state.fields.get("text_length"), state.fields.get("calls")
    return (length, calls) if isinstance(length, int) and isinstance(calls, int) else None


def _in_order(blocks: Sequence[Block], places: Mapping[int, tuple[int, int]]) -> list[Block]:
    """Return the blocks of a message with its reasoning where it was between texts and calls.

    Anthropic's models refuse thinking in another order than theirs, and a reasoning item of the Responses API must be
    before the item that it led to.
    """
    others = deque(block for block in blocks if id(block) not in places and not isinstance(block, ToolCallBlock))
    calls = deque(block for block in blocks if isinstance(block, ToolCallBlock))
    result: list[Block] = []
    length = count = 0
    for reasoning in (block for block in blocks if id(block) in places):
        length_before, calls_before = places[id(reasoning)]
        while others and length < length_before:
            block = others.popleft()
            if isinstance(block, TextBlock) and len(block.text) > length_before - length:
                before, after = _split_text(block, length_before - length)
                others.appendleft(after)
                result += before
                length = length_before
                continue
            result.append(block)
            length += len(block.text) if isinstance(block, TextBlock) else 0
        while calls and count < calls_before:
            result.append(calls.popleft())
            count += 1
        result.append(reasoning)
    return [*result, *others, *calls]


def _split_text(block: TextBlock, length: int) -> tuple[list[Block], TextBlock]:
    """Return the first characters of a text as no or one block, and the rest, which keeps a cache mark."""
    if not length:
        return [], block
    unmarked = {name: value for name, value in block.metadata.items() if name != "cache"}
    first = copy_with(block, text=block.text[:length], metadata=unmarked)
    return [first], copy_with(block, text=block.text[length:])


def _with_text_states(blocks: Sequence[Block], states: Mapping[Any, UpstreamState]) -> list[Block]:
    """Return the blocks with the states of texts that other blocks have carried, by the number of the text."""
    result: list[Block] = []
    count = 0
    for block in blocks:
        if isinstance(block, TextBlock):
            state = states.get((None, count))
            block = block if state is None else _with_text_state(block, state)
            count += 1
        result.append(block)
    return result


def _with_text_state(text: Block, state: UpstreamState) -> Block:
    return copy_with(text, metadata={**state.metadata, **text.metadata})


def _insert_reasoning(blocks: list[Block], state: UpstreamState) -> None:
    """Put reasoning whose state a call has carried where it was, in place of its text without state."""
    reasoning = _restore_reasoning(state)
    if reasoning in blocks:  # a client that keeps the state of reasoning, too
        return
    if (run := _find_plain(blocks, reasoning)) is not None:
        blocks[run.start : run.stop] = [reasoning]
        return
    length, texts = state.fields.get("text_length"), state.fields.get("texts")
    if isinstance(length, int):
        _insert_after_text(blocks, reasoning, length)
        return
    places = [place for place, block in enumerate(blocks) if isinstance(block, TextBlock)]
    place = places[texts] if isinstance(texts, int) and 0 <= texts < len(places) else len(blocks)
    blocks.insert(place, reasoning)


def _find_plain(blocks: Sequence[Block], reasoning: Block) -> range | None:
    """Return the places of blocks without state that have the text of reasoning, perhaps in the pieces of a stream."""
    wanted = reasoning.text if isinstance(reasoning, ReasoningBlock) else ""
    for is_plain, run in groupby(range(len(blocks)) if wanted else (), key=lambda place: _is_plain(blocks[place])):
        if not is_plain:
            continue
        pieces: list[str] = []
        starts: dict[int, int] = {}  # the place of the first block that begins after so many characters
        stops: dict[int, int] = {}  # the one after the first block that ends there
        length = 0
        for place in run:
            pieces.append(getattr(blocks[place], "text", ""))
            starts.setdefault(length, place)
            length += len(pieces[-1])
            stops.setdefault(length, place + 1)
        text = "".join(pieces)
        at = text.find(wanted)  # not once for each block: a client may send thousands
        while at >= 0:
            if at in starts and at + len(wanted) in stops:
                return range(starts[at], stops[at + len(wanted)])
            at = text.find(wanted, at + 1)
    return None


def _is_plain(block: Block) -> bool:
    """Return True for reasoning without state."""
    return isinstance(block, ReasoningBlock) and block.signature is None and block.opaque is None


def _insert_after_text(blocks: list[Block], reasoning: Block, length: int) -> None:
    """Put reasoning behind so many characters of text: before the text that follows, else at the end."""
    for place, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            if len(block.text) > max(length, 0):
                before, after = _split_text(block, max(length, 0))
                blocks[place : place + 1] = [*before, reasoning, after]
                return
            length -= len(block.text)
    blocks.append(reasoning)


def _repeats(block: Block, restored: Block) -> bool:
    """Return True for reasoning without state that the next block, with its state, repeats."""
    if not isinstance(block, ReasoningBlock) or not isinstance(restored, ReasoningBlock):
        return False
    return block.text == restored.text and _is_plain(block)


def _wrapped(block: Block) -> list[str]:
    """Return the wrapped states in a block's opaque fields. A message may have those of several blocks in one field."""
    if isinstance(block, ReasoningBlock):
        return _wrapped_in((block.metadata, block.signature, block.opaque))
    if isinstance(block, OpaqueBlock):
        return _wrapped_in((block.metadata, block.raw))
    return _wrapped_in(block.metadata.values(), 1)


def _wrapped_in(values: Iterable[Any], depth: int = 0) -> list[str]:
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            if value.startswith(STATE_MARK):
                found.append(value)
        elif value and depth < _DEEPEST and isinstance(value, (dict, list)):
            found += _wrapped_in(value.values() if isinstance(value, dict) else value, depth + 1)
    return found


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
    return copy_with(block, metadata={**kept, **own.metadata, **own.origin})


def _with_origin(block: TextBlock | ToolCallBlock, origin: Mapping[str, Any] | None) -> Block:
    """Return a block with another origin. The client's raw id means nothing there, unless the wires are the same."""
    if origin is None:
        return block
    is_same = block.metadata.get("provider") == origin.get("provider")
    kept = {name: value for name, value in block.metadata.items() if is_same or name in _NEUTRAL_METADATA}
    return copy_with(block, metadata={**kept, **origin})


def _without_state(block: _StatefulBlock) -> _StatefulBlock:
    """Return a block without wrapped state, which its own wire would take for its own."""
    metadata = {name: value for name, value in block.metadata.items() if not _wrapped_in([value])}
    update: dict[str, Any] = {"metadata": metadata}
    if isinstance(block, ReasoningBlock):
        update |= {"signature": None, "opaque": None}
    return copy_with(block, **update)
