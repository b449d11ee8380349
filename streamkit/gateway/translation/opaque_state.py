"""Opaque state of an upstream on its way to a client: in the opaque fields of the client's wire.

A signature, encrypted reasoning or a thought signature is valid only where it was made (docs/rules.md, "Opaque state").
A client of another wire has one opaque field of its own per block (`Traits.reasoning_state`, `Traits.call_state`),
which it sends back unchanged. `StateCarrier` packs the state of a block with its origin into one text for that field
(`state_text` describes the form), which a writer of the client's wire writes like state of its own. `state_restorer`
puts it back into the client's next request, so that renderers send it to its origin alone. A client that drops the
field loses nothing but the state.

Reasoning without a signature has such state, too, if the upstream wants it back: where it is from. DeepSeek and Kimi
refuse a call without the reasoning before it, and that of other models is no replacement. So it has if the client's
wire has no reasoning without a signature (`Traits.signs_reasoning`): pydantic-ai sends such reasoning back as words of
the user, the AI SDK leaves it out, and Microsoft's agent framework refuses to send the calls after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from streamkit.calls import ToolCall
from streamkit.events import BlockEnded, Event, Finished, Reasoning, Text, ToolCallReady, ToolCallStart
from streamkit.gateway.translation.state_text import StateSettings, UpstreamState, wrap_state
from streamkit.providers.provider import Provider
from streamkit.providers.registry import get

__all__ = ["StateCarrier"]

#: The metadata of a text that is state: OpenAI's models stop early if a message between calls comes back without its
#: phase (https://github.com/vercel/ai/pull/12860).
_PHASE = "phase"
#: The events that carry state, that state may precede, or that are counted.
_CARRYING = frozenset({Reasoning, BlockEnded, ToolCallStart, ToolCallReady})
_NO_BLOCK = -1  # the number of a block that the turn does not have


class StateCarrier:
    """Carries the opaque state of one turn through a client. Pure.

    It gets the events after `CallRestorer`, with the names that the client knows.

    Args:
        client: the provider whose wire the client speaks.
        origin: what makes the turn: ``provider``, and as far as known ``endpoint``, ``model``, ``requested_model``.
        settings: the keys of the gateway.
        keeps_calls: ``kept`` is filled.

    Attributes:
        keeps_calls: the same.
        kept: the complete calls so far, each with its state and that of the blocks before it; None without any.
    """

    def __init__(
        self,
        client: str | Provider,
        origin: Mapping[str, Any],
        settings: StateSettings,
        keeps_calls: bool = False,
    ) -> None:
        provider, upstream = get(client), get(str(origin["provider"]))
        self._traits = provider.traits
        self._origin = {name: value for name, value in origin.items() if value is not None}
        self._key = settings.keys[0]
        self._signatures = upstream.traits.signature_fields
        # A client of the same dialect sends such reasoning back as the upstream has it.
        self._carries_plain_reasoning = upstream.name != provider.name and (
            upstream.traits.plain_reasoning or provider.traits.signs_reasoning
        )
        self._reasoning: dict[tuple[int, int], list[str]] = {}  # the texts of open blocks, by choice and block
        self._kinds: dict[tuple[int, int], str] = {}
        self._counts: defaultdict[tuple[int, str], int] = defaultdict(int)  # of calls, by choice and name
        self._numbers: dict[str, int] = {}  # by the call's id, its position among the calls of its name
        self._text_counts: defaultdict[int, int] = defaultdict(int)  # by choice
        self._writes_blocks = provider.traits.call_state is None  # for the state of calls, which have no field for it
        self._joins_blocks = provider.traits.joins_blocks
        self._has_places = self._joins_blocks or provider.traits.calls_carry_reasoning or keeps_calls
        self.keeps_calls: bool = keeps_calls
        self._takes_plain_reasoning = upstream.traits.plain_reasoning
        self._before: dict[int, list[UpstreamState]] = {}  # states for the next call that is kept, by choice
        self.kept: list[tuple[ToolCall, UpstreamState | None]] = []
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
            if event.kind == "text":
                self._carry_text(event)
            return structs.replace(event, signature=None, metadata={})
        text = "".join(self._reasoning.pop((event.choice, event.block), ()))
        kind = self._kinds.pop((event.choice, event.block), "text")
        has_state = event.signature is not None or bool(event.metadata)
        is_carried = has_state or (text and self._carries_plain_reasoning)
        is_kept = self.keeps_calls and (is_carried or (text and self._takes_plain_reasoning))
        if not is_carried and not is_kept:
            return event
        metadata = dict(event.metadata)
        fields = {
            "text": text,
            "kind": kind,
            "signature": event.signature or metadata.pop("signature", None),
            "opaque": metadata.pop("opaque", None),
            "text_length": self._text_lengths[event.choice] if self._has_places else None,
            "calls": self._call_counts[event.choice] if self._joins_blocks else None,
        }
        state = UpstreamState(
            self._origin,
            "reasoning",
            {name: value for name, value in fields.items() if value is not None},
            metadata,
        )
        if is_kept:
            self._before.setdefault(event.choice, []).append(state)
        if not is_carried:
            return event
        if not self._traits.calls_carry_reasoning:
            return self._reasoning_event(state, event.choice, has_text=bool(text), block=event.block)
        for states in (self._held, self._unwritten):
            states.setdefault(event.choice, []).append(state)
        return BlockEnded("reasoning", event.block, choice=event.choice)

    def _carry_text(self, event: BlockEnded) -> None:
        """Keep the state of a text for a block of its own."""
        signatures = {name: event.metadata[name] for name in self._signatures if name in event.metadata}
        number, phase = self._text_counts[event.choice] - 1, event.metadata.get(_PHASE)
        state = signatures if phase is None else {**signatures, _PHASE: phase}
        if state:
            kept = UpstreamState(self._origin, "text", {"number": number}, state)
            if self.keeps_calls:
                self._before.setdefault(event.choice, []).append(kept)
            if self._traits.calls_carry_reasoning:
                self._held.setdefault(event.choice, []).append(kept)
            else:
                self._text_states[event.choice] = kept

    def _reasoning_event(
        self, state: UpstreamState, choice: int, *, has_text: bool, block: int = _NO_BLOCK
    ) -> BlockEnded:
        signature: str | None = None
        metadata: dict[str, Any] = {}
        if self._traits.reasoning_state is not None:
            signature, metadata = self._traits.reasoning_state(wrap_state(state, self._key), has_text)
        return BlockEnded("reasoning", block, signature, metadata, choice)

    def _call_state(self, call: ToolCall, before: Sequence[UpstreamState] = ()) -> UpstreamState:
        fields = {"name": call.name, "number": self._numbers.get(call.id, 0)}
        raw_id = {} if call.raw_id is None else {"raw_id": call.raw_id}
        return UpstreamState(self._origin, "call", fields, {**self._state_of(call), **raw_id}, tuple(before))

    def _state_of(self, call: ToolCall) -> dict[str, Any]:
        """Return the signatures of a call. The upstream accepts the call again without its other metadata."""
        if call.state != "complete":
            return {}
        return {name: call.metadata[name] for name in self._signatures if name in call.metadata}

    def _state_block(self, event: ToolCallReady) -> BlockEnded:
        return self._reasoning_event(self._call_state(event.call), event.choice, has_text=False)

    def _carry_call(self, event: ToolCallReady) -> ToolCallReady:
        call = event.call
        if self.keeps_calls and call.state == "complete":
            earlier = self._before.pop(event.choice, [])
            has_state = bool(earlier or self._state_of(call))
            self.kept.append((call, self._call_state(call, earlier) if has_state else None))
        before: list[UpstreamState] = []
        if call.state == "complete" and self._held:
            before = self._held.pop(event.choice, [])
            self._unwritten.pop(event.choice, None)
        if not call.metadata and not before:
            return event
        metadata = {name: value for name, value in call.metadata.items() if name == "namespace"}
        if self._traits.call_state is not None and (before or self._state_of(call)):
            metadata |= self._traits.call_state(wrap_state(self._call_state(call, before), self._key))
        return structs.replace(event, call=structs.replace(call, metadata=metadata))
