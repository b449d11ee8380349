"""Carried state of a client's request, put back where the upstream had it (`opaque_state` describes the way there).

The cost is linear in the request and in its state: a place is found by the number of a block, in one pass over the
texts of a message, or by a search through the client's reasoning whose work has a limit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from streamkit.gateway.translation.state_text import StateReader, StateSettings, UpstreamState
from streamkit.history import Block, Content, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.contract.rendered import is_wrapped_state
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import RequestChange

__all__ = ["restore_state", "wrapped_states"]

_DEEPEST = 8
#: The metadata of a block that does not belong to a provider.
_NEUTRAL_METADATA = ("cache", "namespace", "raw_arguments", "state")
#: Comparisons for each of a message's pieces of reasoning; more are needed only where most of them do not fit.
_MOST_COMPARED = 16

_StatefulBlock = TypeVar("_StatefulBlock", ReasoningBlock, TextBlock, ToolCallBlock)


def restore_state(
    contents: Sequence[Content],
    settings: StateSettings,
    changes: list[RequestChange] | None = None,
    stored: Mapping[tuple[int, int], str] | None = None,
) -> list[Content]:
    """Return a client's conversation with the state of the upstream in its place again.

    A block whose field has a wrapped state becomes the block that the upstream made. Other blocks of the same content
    are from the same response, so they get its origin, too: a reasoning item is accepted only with what followed it.
    The state of the latest contents comes first, if a request has more of it than it may.

    Args:
        contents: the conversation, as it was read in the client's form.
        settings: the keys of the gateway, and the limit of a request.
        changes: receives a sentence for each reason why state was left out.
        stored: the states of calls that the gateway has kept, by the positions of their contents and blocks.
    """
    reader: StateReader | None = None
    restored = [*contents]
    stored = stored or {}
    for position in range(len(contents) - 1, -1, -1):
        content = contents[position]
        if content.speaker != "ai":
            continue
        wrapped = [wrapped_states(block) for block in content.blocks]
        kept = [stored.get((position, place), "") for place in range(len(wrapped))] if stored else []
        if any(wrapped) or any(kept):
            reader = reader or StateReader(settings)
            restored[position] = _restore_content(content, wrapped, kept, reader)
    if reader is not None and changes is not None:
        changes += reader.changes
    return restored


def _restore_content(
    content: Content, wrapped: Sequence[Sequence[str]], kept: Sequence[str], reader: StateReader
) -> Content:
    read = [[(text, state) for text in texts if (state := reader.read(text)) is not None] for texts in wrapped]
    values = dict(each for entries in read for each in entries if each[1].block == "value")
    if values:  # fields of a response that was passed on
        made_by = next(iter(values.values())).origin
        content = copy_with(content, blocks=[_with_values(block, values, made_by) for block in content.blocks])
        wrapped = [[text for text in texts if text not in values] for texts in wrapped]
        if not any(wrapped):
            return content
    elif any(kept):  # else the client has the fields of the message, and what was kept is the same
        wrapped = [entry or ([stored] if stored else []) for entry, stored in zip(wrapped, kept, strict=True)]
        for entries, stored in zip(read, kept, strict=True):
            if not entries and stored and (kept_state := reader.read(stored)) is not None:
                entries.append((stored, kept_state))
    states = [[state for _, state in entries if state.block != "value"] for entries in read]
    found = [each for own in states for state in own for each in (*state.before, state)]
    calls = {(each.fields.get("name"), each.fields.get("number")): each for each in found if each.block == "call"}
    texts = {each.fields.get("number"): each for each in found if each.block == "text"}
    origin = found[0].origin if found else None
    counts: Counter[str] = Counter()
    message = _Message()
    for block, entry, own in zip(content.blocks, wrapped, states, strict=True):
        origin = own[0].origin if own else origin
        for before in [each for state in own for each in state.before if each.block == "reasoning"]:
            message.add_earlier(before)
        carried = [state for state in own if state.block == "reasoning"]
        if isinstance(block, ToolCallBlock):
            call_state = own[0] if own else calls.get((block.name, counts[block.name]))
            counts[block.name] += 1
            call = _without_state(block)
            if call_state is None:
                message.blocks.append(_with_origin(call, origin))
            else:
                neutral = {name: value for name, value in call.metadata.items() if name in _NEUTRAL_METADATA}
                metadata = {**neutral, **call_state.metadata, **call_state.origin}
                message.blocks.append(copy_with(call, metadata=metadata))
        elif carried:
            message.add_carried(carried)
        elif isinstance(block, TextBlock):
            text = _with_origin(_without_state(block) if entry else block, origin)
            message.blocks.append(_with_text_state(text, own[0]) if own and own[0].block == "text" else text)
            message.text_length += len(text.text)
        elif not entry:
            message.add_plain(block)
        elif isinstance(block, ReasoningBlock) and block.text:
            message.add_plain(_without_state(block))
    blocks = message.in_order()
    return copy_with(content, blocks=_with_text_states(blocks, texts) if texts else blocks)


class _Message:
    """The blocks of one message, to which reasoning is added where it was.

    Attributes:
        blocks: the blocks so far; None where the text of reasoning was replaced.
        text_length: the characters of their texts.
    """

    def __init__(self) -> None:
        self.blocks: list[Block | None] = []
        self.text_length: int = 0
        self._pieces: list[tuple[int, str]] = []  # reasoning without state: the place of each block, and its text
        self._next_piece = 0  # the first piece that was not replaced: the client has them in the upstream's order
        self._compared = 0
        self._known: set[bytes] = set()  # the reasoning with state
        self._within_text: list[tuple[int, Block]] = []  # reasoning, with the characters of text before it
        #: Of reasoning whose message joins blocks, by the identity of its block: the characters and calls before it.
        self._places: dict[int, tuple[int, int]] = {}

    def add_plain(self, block: Block) -> None:
        """Add a block as the client has it."""
        if isinstance(block, ReasoningBlock) and block.signature is None and block.opaque is None:
            self._pieces.append((len(self.blocks), block.text))
        self.blocks.append(block)

    def add_carried(self, states: Sequence[UpstreamState]) -> None:
        """Add reasoning whose own block has carried its state, in place of the same text without state before it."""
        first = str(states[0].fields.get("text", ""))
        if len(self._pieces) > self._next_piece and self._pieces[-1] == (len(self.blocks) - 1, first):
            self._pieces.pop()
            self.blocks.pop()
        for state in states:
            reasoning = _restore_reasoning(state)
            self._known.add(_identity(state))
            self.blocks.append(reasoning)
            if "text_length" in state.fields and "calls" in state.fields:
                self._places[id(reasoning)] = (state.fields["text_length"], state.fields["calls"])

    def add_earlier(self, state: UpstreamState) -> None:
        """Put reasoning whose state a call has carried where it was, in place of its text without state."""
        if (identity := _identity(state)) in self._known:  # a client that keeps the state of reasoning, too
            return
        self._known.add(identity)
        reasoning = _restore_reasoning(state)
        length = state.fields.get("text_length", self.text_length)
        if (found := self._find_pieces(str(state.fields.get("text", "")))) is not None:
            self.blocks[found.start : found.stop] = [reasoning, *[None] * (len(found) - 1)]
        elif length < self.text_length:
            self._within_text.append((length, reasoning))
        else:
            self.blocks.append(reasoning)

    def _find_pieces(self, wanted: str) -> range | None:
        """Return the places of blocks without state that have the text of reasoning, perhaps in the pieces of a stream.

        A client may send thousands of pieces and texts that do not fit, so the number of comparisons has a limit.
        """
        for first in range(self._next_piece, len(self._pieces)) if wanted else ():
            length, stop = 0, first
            place = self._pieces[first][0]
            while length < len(wanted) and stop < len(self._pieces):
                self._compared += 1
                if self._compared > _MOST_COMPARED * (len(self._pieces) + len(self._known)):
                    return None
                at, piece = self._pieces[stop]
                if at != place + stop - first or not wanted.startswith(piece, length):
                    break
                length += len(piece)
                stop += 1
            if length == len(wanted):
                self._next_piece = stop
                return range(place, place + stop - first)
        return None

    def in_order(self) -> list[Block]:
        """Return the blocks, with the reasoning that belongs into texts or between the texts and the calls there."""
        blocks = [block for block in self.blocks if block is not None]
        if self._within_text:
            blocks = _cut_texts(blocks, self._within_text)
        return _with_places(blocks, self._places) if self._places else blocks


def _with_values(block: Block, values: Mapping[str, UpstreamState], origin: Mapping[str, str]) -> Block:
    """Return a block whose fields have the values of their texts again, and the origin of the response."""
    found = [values[text] for text in wrapped_states(block) if text in values]
    if not found:
        if isinstance(block, TextBlock):
            return _with_origin(block, origin)
        return _with_origin(block, origin) if isinstance(block, ToolCallBlock) else block
    names = [name for name in ("signature", "opaque", "raw", "metadata") if hasattr(block, name)]
    fields = {name: _put_back(getattr(block, name), values) for name in names}
    return copy_with(block, **fields | {"metadata": {**fields["metadata"], **found[0].origin}})


def _put_back(value: Any, values: Mapping[str, UpstreamState]) -> Any:
    if isinstance(value, list):
        return [_put_back(each, values) for each in value]
    if not isinstance(value, dict):
        return values[value].fields.get("value") if isinstance(value, str) and value in values else value
    result = {name: _put_back(each, values) for name, each in value.items()}
    for name, each in value.items():
        if isinstance(each, str) and each in values and "id" in values[each].fields:  # that of its item
            result["id"] = values[each].fields["id"]
            if result[name] is None:
                del result[name]
    return result


def _identity(state: UpstreamState) -> bytes:
    """Return what two states of the same reasoning have in common."""
    fields = {name: value for name, value in state.fields.items() if name not in ("text_length", "calls")}
    return msgspec.json.encode([fields, state.metadata, state.origin], order="deterministic")


def _with_places(blocks: Sequence[Block], places: Mapping[int, tuple[int, int]]) -> list[Block]:
    """Return the blocks of a message with its reasoning where it was between texts and calls.

    Anthropic's models refuse thinking in another order than theirs, and a reasoning item of the Responses API must be
    before the item that it led to.
    """
    lengths = accumulate((places[id(block)][0] for block in blocks if id(block) in places), max)
    blocks = _cut_texts(blocks, [(length, None) for length in lengths])
    others = deque(block for block in blocks if id(block) not in places and not isinstance(block, ToolCallBlock))
    calls = deque(block for block in blocks if isinstance(block, ToolCallBlock))
    result: list[Block] = []
    length = count = 0
    for reasoning in (block for block in blocks if id(block) in places):
        length_before, calls_before = places[id(reasoning)]
        while others and length < length_before:
            block = others.popleft()
            result.append(block)
            length += len(block.text) if isinstance(block, TextBlock) else 0
        while calls and count < calls_before:
            result.append(calls.popleft())
            count += 1
        result.append(reasoning)
    return [*result, *others, *calls]


def _cut_texts(blocks: Sequence[Block], cuts: Iterable[tuple[int, Block | None]]) -> list[Block]:
    """Return the blocks with their texts cut after so many characters of all text, and a block there, if there is one.

    The last part of a text keeps its cache mark.
    """
    remaining = deque(sorted(cuts, key=itemgetter(0)))
    result: list[Block] = []
    start = 0
    for block in blocks:
        if isinstance(block, TextBlock):
            at, text = 0, block.text
            while remaining and remaining[0][0] < start + len(text):
                length, inserted = remaining.popleft()
                if length - start > at:
                    unmarked = {name: value for name, value in block.metadata.items() if name != "cache"}
                    result.append(copy_with(block, text=text[at : length - start], metadata=unmarked))
                    at = length - start
                result += [] if inserted is None else [inserted]
            block = copy_with(block, text=text[at:]) if at else block
            start += len(text)
        result.append(block)
    return result


def _with_text_states(blocks: Sequence[Block], states: Mapping[Any, UpstreamState]) -> list[Block]:
    """Return the blocks with the states of texts that other blocks have carried, by the number of the text."""
    result: list[Block] = []
    count = 0
    for block in blocks:
        if isinstance(block, TextBlock):
            block = _with_text_state(block, states[count]) if count in states else block
            count += 1
        result.append(block)
    return result


def _with_text_state(text: TextBlock, state: UpstreamState) -> TextBlock:
    return copy_with(text, metadata={**state.metadata, **text.metadata})


def wrapped_states(block: Block) -> list[str]:
    """Return the wrapped states in a block's opaque fields. A message may have those of several blocks in one field."""
    if isinstance(block, ReasoningBlock):
        return _wrapped_in((block.metadata, block.signature, block.opaque))
    if isinstance(block, OpaqueBlock):
        return _wrapped_in((block.metadata, block.raw))
    return _wrapped_in(block.metadata.values(), 1)


def _wrapped_in(values: Iterable[Any], depth: int = 0) -> list[str]:
    found: list[str] = []
    for value in values:
        if is_wrapped_state(value):
            found.append(value)
        elif value and depth < _DEEPEST and isinstance(value, (dict, list)):
            found += _wrapped_in(value.values() if isinstance(value, dict) else value, depth + 1)
    return found


def _restore_reasoning(state: UpstreamState) -> ReasoningBlock:
    fields = {name: state.fields[name] for name in ("text", "kind", "signature", "opaque") if name in state.fields}
    return ReasoningBlock(**fields, metadata={**state.metadata, **state.origin})


def _with_origin(block: _StatefulBlock, origin: Mapping[str, Any] | None) -> _StatefulBlock:
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
