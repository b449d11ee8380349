"""Which call a piece belongs to, where a new call begins, when a call may be announced.

The rules, in their order (design section 5; the threads that made each necessary stand beside the code):

1. an id already seen in the turn; 2. a key in use; 3. the position in the delta's list, only against calls that were
opened with neither id nor key; 4. the only call still open. Where none fits, a piece with a name opens a call, and so
does one with an id on a key not in use; anything else is an orphan, which is said and never guessed at. A new id with
a name opens a call even on a key in use; a new id without a name on a key in use is the same call.

Slot reuse, where the wire has it: once a call's object is closed, argument text beginning with ``{`` on the same slot
is another call, the closed object sent again, or the real arguments after a placeholder ``{}``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from streamkit import ids
from streamkit.accumulator.tool_call import ToolCallBuilder
from streamkit.calls import CallRef
from streamkit.events import ArgumentsRestated, NormalizedToolChunk, ToolCallDelta, ToolCallEnd, ToolCallStart

if TYPE_CHECKING:
    from streamkit.accumulator.choice import Choice

__all__ = ["ToolCallTracker"]


class ToolCallTracker:
    """The calls of one answer, and by what they are found."""

    __slots__ = (
        "_answer",
        "_by_id",
        "_by_key",
        "_by_position",
        "_emit",
        "_limit",
        "_maybe_open",
        "_unstarted",
        "calls",
    )

    def __init__(self, answer: Choice) -> None:
        self._answer = answer
        self._emit = answer.turn.events.append
        self._limit = answer.turn.limits.arguments
        self.calls: list[ToolCallBuilder] = []
        self._by_id: dict[str, ToolCallBuilder] = {}
        self._by_key: dict[Hashable, ToolCallBuilder] = {}
        self._by_position: dict[int, ToolCallBuilder] = {}
        self._maybe_open: list[ToolCallBuilder] = []  # neither sealed nor yet seen to be closed
        self._unstarted: list[ToolCallBuilder] = []

    # ---------------------------------------------------------------- which call

    def feed(self, chunk: NormalizedToolChunk) -> None:
        """One piece of a call."""
        text = chunk.arguments_delta
        if text and not chunk.id and not chunk.name and chunk.metadata is None:
            call = self._by_key.get(chunk.key)
            if call is not None and call.fast_path and text[0] != "{":
                call.parts.append(text)
                call.size += len(text)
                self._emit(ToolCallDelta(call.ref, text, self._answer.index))  # type: ignore[arg-type]  # hot: started
                if call.size > self._limit:
                    self._too_long(call)
                return
        self._route(chunk, chunk.args or text or "")

    def _route(self, chunk: NormalizedToolChunk, text: str) -> None:
        raw_id, name, key = chunk.id or None, chunk.name or "", chunk.key
        begins = chunk.type == "start"
        call = self._by_id.get(raw_id) if raw_id else None
        if call is not None:
            # Two calls under one id (two items of one response, say) are told apart by order: the wire begins another
            # block, or names another tool once the first one's object is closed.
            if (begins and not (text and name == call.name)) or (
                name and call.name and name != call.name and call.is_object_closed()
            ):
                self._open(chunk, text)
            else:
                self._continue_by_id(call, chunk, text)
            return
        call = None if begins else self._by_key.get(key) if key is not None else None
        if call is not None and raw_id and name:
            call = None  # a new call on an occupied slot (ollama/ollama#15457, vercel/ai#14277)
        elif call is None and not begins and raw_id is None and key is None and chunk.position is not None:
            call = self._by_position.get(chunk.position)
        if call is not None:
            self._continue_call(call, chunk, text)
        elif begins or name or (raw_id and (key is not None or not self._only_open())):
            self._open(chunk, text)
        elif (only := self._only_open()) is not None:
            if key is not None:  # Nebius and Cerebras count the index up with every piece (dirac-run/dirac#215)
                self._answer.warn_call(only, "index_mismatch", f"a piece came on {key!r}, which opened no call")
            self._continue_call(only, chunk, text)
        elif text or raw_id:
            self._answer.turn.warn(
                "orphan_delta", f"a piece of a call belongs to none that is open: {text[:80]!r} on {key!r}"
            )

    def _only_open(self) -> ToolCallBuilder | None:
        """The only call still open, if there is exactly one."""
        seen: list[ToolCallBuilder] = []
        while (
            self._maybe_open and len(seen) < 2
        ):  # two are enough to know; what was found closed is not looked at again
            call = self._maybe_open.pop()
            if not call.ended and not call.is_object_closed():
                seen.append(call)
        self._maybe_open += reversed(seen)
        return seen[0] if len(seen) == 1 else None

    # ---------------------------------------------------------------- a call goes on

    def _continue_by_id(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        """A piece under an id that is known."""
        if chunk.key is not None:
            self._by_key.setdefault(chunk.key, call)
        if text and text[0] == "{" and (chunk.type == "start" or (call.kind == "function" and call.is_object_closed())):
            self._add_metadata(call, chunk)
            if call.text == text:
                self._answer.warn_call(call, "repeated_arguments", "the call was sent twice under its id")
                return
            if call.ended:  # its deltas and its end were told: only what stands now is left to say
                call.replace(text)
                self.emit_final_arguments(call)
            else:
                call.replace()  # the whole call sent again replaces itself
                self._append(call, text)
            return
        self._continue_call(call, chunk, text)

    def _continue_call(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        raw_id, name = chunk.id or None, chunk.name or ""
        if raw_id and raw_id not in self._by_id:
            self._by_id[raw_id] = call
            if call.raw_id is None:
                call.raw_id = raw_id  # the first id stays, also where it comes late; the canonical id does not change
        if call.ended:
            if text:
                self._answer.turn.warn("orphan_delta", f"a piece came after its call had ended: {text[:80]!r}")
            return
        if call.possible_repeat is not None:
            self._continue_repeat(call, chunk, text)
            return
        if self._answer.turn.habits.reuses_slots and call.kind == "function" and not raw_id:
            if name and call.name and name != call.name and call.size and call.is_object_closed():
                self._open_reused_slot(call, chunk, text)
                return
            if text and text[0] == "{" and call.size and call.is_object_closed():
                self._resolve_slot_reuse(call, chunk, text)
                return
        self._add_metadata(call, chunk)
        if name and name != call.name:
            self._name(call, name)
        if text:
            self._append(call, text)

    def _add_metadata(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> None:
        if chunk.metadata:
            call.metadata.update(chunk.metadata)

    def _name(self, call: ToolCallBuilder, name: str) -> None:
        """Another name than the one so far, on a call whose object is open."""
        if call.ref is None and (not call.name or not call.size):
            call.name += name  # names really come in pieces (continuedev/continue#5849), or late
            if call.size or self._answer.turn.habits.whole_names:
                self._start(call)
        else:
            self._answer.warn_call(call, "name_changed", f"the name {name!r} came after {call.name!r} had begun")

    def _append(self, call: ToolCallBuilder, text: str) -> None:
        call.append(text)
        if call.ref is not None:
            self._emit(ToolCallDelta(call.ref, text, self._answer.index))
        elif call.name:
            self._start(call)
        if call.size > self._limit:
            self._too_long(call)

    def append_arguments(self, key: Hashable, text: str) -> None:
        """The next piece of a call's arguments, not empty: however it begins, neither a restatement nor a new call."""
        call = self._by_key.get(key)
        if call is None or call.ended:  # the call was one too many
            return
        call.parts.append(text)
        call.size += len(text)
        if call.ref is not None:
            self._emit(ToolCallDelta(call.ref, text, self._answer.index))
        else:
            self._start(call)
        if call.size > self._limit:
            self._too_long(call)

    def _too_long(self, call: ToolCallBuilder) -> None:
        self._answer.turn.report_limit(f"the arguments of {call.name!r} passed {self._limit} characters")

    # ---------------------------------------------------------------- slot reuse

    def _resolve_slot_reuse(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        """Text beginning with ``{`` where the call's object is closed."""
        if chunk.name:
            self._open_reused_slot(call, chunk, text)
        elif call.object_text.strip("{} \t\r\n") == "" and text != call.object_text:
            call.replace()  # the placeholder {} makes way (vercel/ai#13137)
            self._append(call, text)
        else:
            call.possible_repeat, call.repeated_text = [], call.object_text
            call.fast_path = False
            self._continue_repeat(call, chunk, text)

    def _continue_repeat(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        """A nameless object behind a closed one: a repeat as long as it equals it, else another call.

        Nothing is held back meanwhile: the pieces go out as deltas of the call, and are taken back by
        ``ArgumentsRestated`` when they turn out to be no part of it.
        """
        pieces, told, whole = call.possible_repeat or [], call.repeated_size, call.repeated_text
        nameless = not chunk.name and not chunk.id
        if nameless and whole.startswith(text, told):
            if told + len(text) < len(whole):
                pieces.append(text)
                call.possible_repeat, call.repeated_size = pieces, told + len(text)
                if text and call.ref is not None:
                    call.deltas_match_text = False
                    self._emit(ToolCallDelta(call.ref, text, self._answer.index))
                return
            self._end_repeat(call)
            self._answer.warn_call(call, "repeated_arguments", "the arguments were sent twice; the repeat was dropped")
        elif nameless and len(text) > len(whole) - told and text.startswith(whole[told:]):
            self._end_repeat(call)
            self._answer.warn_call(call, "repeated_arguments", "the arguments were sent twice; the repeat was dropped")
            self._continue_call(call, chunk, text[len(whole) - told :])
        else:
            before = "".join(pieces)
            self._end_repeat(call)
            if nameless:
                self._open_reused_slot(call, chunk, before + text)
            else:
                if before:
                    self._open_reused_slot(
                        call, NormalizedToolChunk("delta", None, None, None, None, chunk.key), before
                    )
                self._route(chunk, text)

    def _end_repeat(self, call: ToolCallBuilder) -> None:
        call.possible_repeat, call.repeated_size, call.fast_path = None, 0, call.ref is not None

    def _open_reused_slot(self, previous: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        call = self._open(chunk, text, name=chunk.name or previous.name)
        if call is not None:
            self._answer.warn_call(
                call, "slot_reused", f"a call of {call.name!r} began where another had ended, without an id of its own"
            )

    # ---------------------------------------------------------------- a call begins

    def _open(self, chunk: NormalizedToolChunk, text: str, name: str | None = None) -> ToolCallBuilder | None:
        turn = self._answer.turn
        if turn.count_call():
            return None
        self.start_named_calls()
        raw_id = chunk.id or None
        call = ToolCallBuilder(
            len(self.calls), raw_id, name or chunk.name or "", chunk.kind, unkeyed=raw_id is None and chunk.key is None
        )
        self.calls.append(call)
        self._maybe_open.append(call)
        self._unstarted.append(call)
        self._answer.add_call_block(call, chunk.key)
        if raw_id:
            self._by_id[raw_id] = call
        if chunk.key is not None:
            self._by_key[chunk.key] = call
        elif call.unkeyed and chunk.position is not None:
            self._by_position[chunk.position] = call
        self._add_metadata(call, chunk)
        if call.name and turn.habits.whole_names:
            self._start(call)
        if text:
            self._append(call, text)
        return call

    def start_nameless(self, call: ToolCallBuilder) -> None:
        """The turn is over and the call never got a name: it is announced without one, so that it can be answered."""
        if call.ref is None:
            self._start(call)
            self.end(call)

    def start_named_calls(self) -> None:
        """Announce the calls whose names can no longer grow: another call began, or the provider finished."""
        if self._unstarted:
            for call in self._unstarted[:]:
                if call.name:
                    self._start(call)

    def _start(self, call: ToolCallBuilder) -> None:
        self._unstarted.remove(call)
        call.ref = CallRef(self._canonical_id(call), call.name, call.index)
        call.fast_path = True
        self._emit(ToolCallStart(call.ref, self._answer.index))
        if call.size:
            self._emit(ToolCallDelta(call.ref, call.text, self._answer.index))

    def _canonical_id(self, call: ToolCallBuilder) -> str:
        turn = self._answer.turn
        if call.raw_id and ids.is_canonical(call.raw_id) and turn.reserve_id(call.raw_id):
            return call.raw_id
        key = turn.resolve_turn_key()
        made = ids.derived_tool_id(  # also of a hist_tool_ id that is not whole, or not the first of its kind
            provider_name=turn.provider_name,
            raw_id=call.raw_id,
            tool_name=call.name,
            turn_key=f"{key}#{self._answer.index}" if self._answer.index else key,
            call_index=call.index,
        )
        turn.reserve_id(made)
        return made

    # ---------------------------------------------------------------- a call ends

    def end_call(self, key: Hashable) -> None:
        """The wire says that the call of that key is over."""
        call = self._by_key.get(key)
        if call is not None and not call.ended:
            call.ended = True
            self.end(call)

    def end(self, call: ToolCallBuilder) -> None:
        """Say that a call is over, and which text stands if it is not what the deltas added up to."""
        if (
            call.possible_repeat is not None
        ):  # what may have been a repeat never became one: it was the beginning of a call
            before = "".join(call.possible_repeat)
            self._end_repeat(call)
            self._open_reused_slot(call, NormalizedToolChunk("delta"), before)
        call.fast_path = False
        if call.ref is None:
            return
        self.emit_final_arguments(call)
        self._emit(ToolCallEnd(call.ref, self._answer.index))

    def emit_final_arguments(self, call: ToolCallBuilder) -> None:
        """Settle a call's text, warn of what was odd, and restate it where the deltas do not add up to it."""
        if call.kind == "function" and call.size:
            settled = call.parse_arguments(recover_trailing_junk=self._answer.turn.recover_trailing_junk)
            if settled.warning is not None:
                self._answer.warn_call(call, *settled.warning)
            if settled.text != call.text:
                call.deltas_match_text = False
        if not call.deltas_match_text and call.ref is not None:
            call.deltas_match_text = True
            text = call.parse_arguments(recover_trailing_junk=True).text if call.kind == "function" else call.text
            self._emit(ArgumentsRestated(call.ref, text, self._answer.index))

    def replace_arguments(self, key: Hashable, text: str) -> None:
        """The wire's own final snapshot of a call's arguments: authoritative."""
        call = self._by_key.get(key)
        if call is None or text == call.text:
            return
        if not call.ended and text.startswith(call.text):
            self._append(call, text[call.size :])
            return
        self._answer.warn_call(call, "arguments_restated", "the wire's last snapshot differs from what it had streamed")
        call.replace(text)
        if call.ref is None and call.name:
            self._start(call)
            call.deltas_match_text = True
        else:
            self.emit_final_arguments(call)
