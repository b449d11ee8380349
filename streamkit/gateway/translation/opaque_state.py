"""Opaque state of an upstream on its way through a client: in the opaque fields of the client's wire, and back.

A signature, encrypted reasoning or a thought signature is valid only where it was made (docs/rules.md, "Opaque state").
A client of another wire has one opaque field of its own per block (`Traits.reasoning_state`, `Traits.call_state`),
which it sends back unchanged. `StateCarrier` packs the state of a block with its origin into one text for that field
(`carried_state` describes the form), which a writer of the client's wire writes like state of its own. `restore_state`
puts it back into the client's next request, so that renderers send it to its origin alone. A client that drops the
field loses nothing but the state.

Reasoning without a signature has such state, too, if the upstream wants it back: where it is from. DeepSeek and Kimi
refuse a call without the reasoning before it, and that of other models is no replacement. So it has if the client's
wire has no reasoning without a signature (`Traits.signs_reasoning`): pydantic-ai sends such reasoning back as words of
the user, the AI SDK leaves it out, and Microsoft's agent framework refuses to send the calls after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from msgspec import structs

from streamkit.calls import ToolCall
from streamkit.events import BlockEnded, Event, Finished, Reasoning, Text, ToolCallReady, ToolCallStart
from streamkit.history import Block, Content, OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.providers.contract.carried_state import STATE_MARK, UpstreamState, unwrap_state, wrap_state
from streamkit.providers.provider import Provider
from streamkit.providers.registry import get
from streamkit.values.json_data import copy_with

__all__ = [
    "StateCarrier",
    "restore_state",
]

#: The metadata of a text that is state: OpenAI's models stop early if a message between calls comes back without its
#: phase (https://github.com/vercel/ai/pull/12860).
_PHASE = "phase"
#: The metadata that a client of the same wire gets in the same fields; texts of different items are different messages.
_ITEM_FIELDS = ("item_id", _PHASE, "agent", "audio")
#: The events that carry state, that state may precede, or that are counted.
_CARRYING = frozenset({Reasoning, BlockEnded, ToolCallStart, ToolCallReady})
_DEEPEST = 8
_NO_BLOCK = -1  # the number of a block that the turn does not have
#: The metadata of a block that does not belong to a provider.
_NEUTRAL_METADATA = ("cache", "namespace", "raw_arguments", "state")

_StatefulBlock = TypeVar("_StatefulBlock", ReasoningBlock, TextBlock, ToolCallBlock)


class StateCarrier:
    """Carries the opaque state of one turn through a client. Pure.

    It gets the events after `CallRestorer`, with the names that the client knows.

    Args:
        client: the provider whose wire the client speaks.
        origin: what makes the turn: ``provider``, and as far as known ``endpoint``, ``model``, ``requested_model``.

    Raises:
        UnknownProvider: no provider has the name of the origin.
    """

    def __init__(self, client: str | Provider, origin: Mapping[str, Any]) -> None:
        provider, upstream = get(client), get(str(origin["provider"]))
        self._traits = provider.traits
        self._origin = {name: value for name, value in origin.items() if value is not None}
        self._signatures = upstream.traits.signature_fields
        self._is_same_wire = provider.package == upstream.package
        # A client of the same dialect, or of the same signed wire, sends such reasoning back as that wire has it.
        self._carries_plain_reasoning = (upstream.traits.plain_reasoning and upstream.name != provider.name) or (
            provider.traits.signs_reasoning and not (upstream.traits.signs_reasoning and self._is_same_wire)
        )
        self._reasoning: dict[tuple[int, int], list[str]] = {}  # the texts of open blocks, by choice and block
        self._kinds: dict[tuple[int, int], str] = {}
        self._counts: defaultdict[tuple[int, str], int] = defaultdict(int)  # of calls, by choice and name
        self._numbers: dict[str, int] = {}  # by the call's id, its position among the calls of its name
        self._text_counts: defaultdict[int, int] = defaultdict(int)  # by choice
        self._writes_blocks = provider.traits.call_state is None  # for the state of calls, which have no field for it
        self._joins_blocks = provider.traits.joins_blocks
        self._has_places = self._joins_blocks or provider.traits.calls_carry_reasoning
        self._text_lengths: defaultdict[int, int] = defaultdict(int)  # by choice, if states have places
        self._call_counts: defaultdict[int, int] = defaultdict(int)  # by choice
        self._text_states: dict[int, UpstreamState] = {}  # of the last text, by choice, until something follows it
        self._held: dict[int, list[UpstreamState]] = {}  # states for the next call, by choice
        self._unwritten: dict[int, list[UpstreamState]] = {}  # those of reasoning that no block has carried yet

    def carry(self, events: Sequence[Event]) -> list[Event]:
        """Return the events of one ``feed`` with wrapped state.

        State of a call for which the client's wire has no field is a block of reasoning without text before the call,
        or after it if the call had begun before. That of a text is such a block before what follows the text; at the
        end of a response there is none, because clients take the last block for the answer. Where clients keep only
        the state of calls (`Traits.calls_carry_reasoning`), the next call has the state of the blocks before it, and
        reasoning has its own only if text or the end follows.
        """
        if not (self._text_states or self._unwritten) and _CARRYING.isdisjoint(map(type, events)):
            if self._has_places:
                for event in events:
                    if type(event) is Text:
                        self._text_lengths[event.choice] += len(event.text)
            return [*events]
        ready = {event.call.id: event for event in events if isinstance(event, ToolCallReady)}
        carried: set[str] = set()
        result: list[Event] = []
        for event in events:
            if self._text_states and isinstance(event, (Text, Reasoning, ToolCallStart)):
                state = self._text_states.pop(event.choice, None)
                result += [] if state is None else [self._reasoning_event(state, event.choice, has_text=False)]
            elif self._unwritten and isinstance(event, (Text, Finished)):
                states = self._unwritten.pop(event.choice, [])
                result += [self._reasoning_event(state, event.choice, has_text=False) for state in states]
            if isinstance(event, Reasoning):
                self._reasoning.setdefault((event.choice, event.block), []).append(event.text)
                self._kinds[event.choice, event.block] = event.kind
                result.append(event)
            elif isinstance(event, BlockEnded):
                result.append(self._carry_block(event))
            elif isinstance(event, ToolCallStart):
                key = (event.choice, event.call.name)
                self._numbers[event.call.id] = self._counts[key]
                self._counts[key] += 1
                self._call_counts[event.choice] += 1
                known = ready.get(event.call.id)
                if self._writes_blocks and known is not None and self._state_of(known.call):
                    carried.add(event.call.id)
                    result.append(self._state_block(known))
                result.append(event)
            elif isinstance(event, ToolCallReady):
                result.append(self._carry_call(event))
                if self._writes_blocks and event.call.id not in carried and self._state_of(event.call):
                    result.append(self._state_block(event))
            else:
                if type(event) is Text:
                    self._text_lengths[event.choice] += len(event.text)
                result.append(event)
        return result

    def _carry_block(self, event: BlockEnded) -> BlockEnded:
        if event.kind != "reasoning":
            self._text_counts[event.choice] += event.kind == "text"
            if not event.metadata:
                return event
            metadata = self._carry_text(event) if event.kind == "text" else {}
            return structs.replace(event, signature=None, metadata=metadata)
        text = "".join(self._reasoning.pop((event.choice, event.block), ()))
        kind = self._kinds.pop((event.choice, event.block), "text")
        has_state = event.signature is not None or bool(event.metadata)
        if not has_state and not (text and self._carries_plain_reasoning):
            return event
        metadata = dict(event.metadata)
        fields = {
            "text": text,
            "kind": kind,
            "signature": event.signature or metadata.pop("signature", None),
            "opaque": metadata.pop("opaque", None),
            "texts": self._text_counts[event.choice] if self._traits.calls_carry_reasoning else None,
            "text_length": self._text_lengths[event.choice] if self._has_places else None,
            "calls": self._call_counts[event.choice] if self._joins_blocks else None,
        }
        state = UpstreamState(
            self._origin,
            "reasoning",
            {name: value for name, value in fields.items() if value is not None},
            metadata,
        )
        if not self._traits.calls_carry_reasoning:
            # On its own wire a signature without text stays one: the API sends it if thinking is not displayed.
            is_signature = self._is_same_wire and event.signature is not None
            has_text = bool(text) or is_signature
            return self._reasoning_event(state, event.choice, has_text=has_text, block=event.block)
        for states in (self._held, self._unwritten):
            states.setdefault(event.choice, []).append(state)
        return BlockEnded("reasoning", event.block, choice=event.choice)

    def _carry_text(self, event: BlockEnded) -> dict[str, Any]:
        """Return the metadata of a text for a client of the same wire; else keep the text's state for its own block."""
        signatures = {name: event.metadata[name] for name in self._signatures if name in event.metadata}
        if self._is_same_wire:
            carried = {name: event.metadata[name] for name in _ITEM_FIELDS if name in event.metadata}
            if signatures and self._traits.call_state is not None:
                carried |= self._traits.call_state(wrap_state(UpstreamState(self._origin, "text", {}, signatures)))
            return carried
        number, phase = self._text_counts[event.choice] - 1, event.metadata.get(_PHASE)
        state = signatures if phase is None else {**signatures, _PHASE: phase}
        if state:
            kept = UpstreamState(self._origin, "text", {"number": number}, state)
            if self._traits.calls_carry_reasoning:
                self._held.setdefault(event.choice, []).append(kept)
            else:
                self._text_states[event.choice] = kept
        return {}

    def _reasoning_event(
        self, state: UpstreamState, choice: int, *, has_text: bool, block: int = _NO_BLOCK
    ) -> BlockEnded:
        signature: str | None = None
        metadata: dict[str, Any] = {}
        if self._traits.reasoning_state is not None:
            signature, metadata = self._traits.reasoning_state(wrap_state(state), has_text)
        return BlockEnded("reasoning", block, signature, metadata, choice)

    def _call_state(self, call: ToolCall, before: Sequence[UpstreamState] = ()) -> UpstreamState:
        fields = {"name": call.name, "number": self._numbers.get(call.id, 0)}
        raw_id = {} if call.raw_id is None else {"raw_id": call.raw_id}
        return UpstreamState(self._origin, "call", fields, {**self._state_of(call), **raw_id}, before)

    def _state_of(self, call: ToolCall) -> dict[str, Any]:
        """Return the signatures of a call. The upstream accepts the call again without its other metadata."""
        if call.state != "complete":
            return {}
        return {name: call.metadata[name] for name in self._signatures if name in call.metadata}

    def _state_block(self, event: ToolCallReady) -> BlockEnded:
        return self._reasoning_event(self._call_state(event.call), event.choice, has_text=False)

    def _carry_call(self, event: ToolCallReady) -> ToolCallReady:
        call = event.call
        before: list[UpstreamState] = []
        if call.state == "complete" and self._held:
            before = self._held.pop(event.choice, [])
            self._unwritten.pop(event.choice, None)
        if not call.metadata and not before:
            return event
        metadata = {
            name: value
            for name, value in call.metadata.items()
            if name == "namespace" or (self._is_same_wire and name not in self._signatures)
        }
        if self._traits.call_state is not None and (before or self._state_of(call)):
            metadata |= self._traits.call_state(wrap_state(self._call_state(call, before)))
        return structs.replace(event, call=structs.replace(call, metadata=metadata))


def restore_state(contents: Sequence[Content], changes: list[str] | None = None) -> list[Content]:
    """Return a client's conversation with the state of the upstream in its place again.

    A block whose field has a wrapped state becomes the block that the upstream made. Other blocks of the same content
    are from the same response, so they get its origin, too: a reasoning item is accepted only with what followed it.

    Args:
        contents: the conversation, as it was read in the client's form.
        changes: receives a sentence if a state is damaged; such a state is left out.
    """
    changes = [] if changes is None else changes
    return [_restore_content(content, changes) if content.speaker == "ai" else content for content in contents]


def _restore_content(content: Content, changes: list[str]) -> Content:
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
    #: The characters of text and the calls before reasoning whose message joins blocks, by the identity of its block.
    places: dict[int, tuple[int, int]] = {}
    for block, entry in zip(content.blocks, states, strict=True):
        own = [state for state in entry if state is not None]
        origin = own[0].origin if own else origin
        for before in [each for state in own for each in state.before if each.block == "reasoning"]:
            _insert_reasoning(blocks, before)
        carried = [state for state in own if state.block == "reasoning"]
        if isinstance(block, ToolCallBlock):
            call_state = own[0] if own else calls.get((block.name, counts[block.name]))
            counts[block.name] += 1
            call = _without_state(block)
            if call_state is None:
                blocks.append(_with_origin(call, origin))
            else:
                kept = {name: value for name, value in call.metadata.items() if name in _NEUTRAL_METADATA}
                blocks.append(copy_with(call, metadata={**kept, **call_state.metadata, **call_state.origin}))
        elif carried:
            reasoning = [_restore_reasoning(each) for each in carried]
            if blocks and _repeats(blocks[-1], reasoning[0]):
                blocks.pop()
            blocks += reasoning
            for each, state in zip(reasoning, carried, strict=True):
                length, count = state.fields.get("text_length"), state.fields.get("calls")
                if isinstance(length, int) and isinstance(count, int):
                    places[id(each)] = (length, count)
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
