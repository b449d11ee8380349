"""The tool calls of a choice: applying a delta to its call, the events of calls, their starts and ends.

``feed_call`` assigns a delta by ``CallIndex.resolve`` and applies the result. Most deltas do not come here:
``Choice.tool`` appends a plain one (a key in use, text that does not begin an object, nothing else) to its call.

Rules: docs/rules.md, "Start", "Slot reuse" and "Restated arguments". The module must not depend on what else a choice
has than blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from streamkit import ids
from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.accumulator.call_index import CallIndex, Existing, New, Orphan, Repeat, Resolution
from streamkit.accumulator.ready import MOST_FOLLOWABLE, ReadyCalls
from streamkit.accumulator.turn_state import OBJECT_SIZE
from streamkit.calls import CallRef
from streamkit.events import ArgumentsRestated, NormalizedToolChunk, ToolCallDelta, ToolCallStart
from streamkit.ids import normalize_index
from streamkit.json_text import ParsedArguments, is_one_object, join_half, join_surrogates

if TYPE_CHECKING:
    from streamkit.accumulator.call_copies import CallCopies

__all__ = ["NO_CALLS", "NO_KEYS", "ToolCallTracker"]

#: The id that Mistral sends where there is none (langchain-ai/langchainjs#11373); it is also the default of its SDK.
_NO_ID = "null"
#: Of a choice without calls: one for all.
NO_CALLS: list[ToolCallBuilder] = []
NO_KEYS: dict[Hashable, ToolCallBuilder] = {}


class ToolCallTracker(ReadyCalls):
    """The tool calls of one choice, by what the wire distinguishes them by."""

    __slots__ = ("_calls_by_key", "_copies", "_index", "_unstarted")
    _index: CallIndex
    _calls_by_key: dict[Hashable, ToolCallBuilder]  # that of the index
    _unstarted: Sequence[ToolCallBuilder]  # those without a name, or with one that may be continued
    _copies: CallCopies | None  # once a call comes in the second form

    def feed_call(self, chunk: NormalizedToolChunk) -> None:
        """Assign a delta to its call and apply it."""
        if self._calls_by_key is NO_KEYS:
            self._calls, self._first_calls = [], {}
            self._unstarted = self._followable = ()
            self._finished, self._copies = 0, None
            self._index = CallIndex(self._calls, reuses_slots=self._state.traits.reuses_slots)
            self._calls_by_key = self._index.by_key
        metadata = chunk.metadata
        if metadata is not None and chunk.key is None and "index" in metadata:
            rest = {name: value for name, value in metadata.items() if name != "index"}
            chunk = replace(chunk, key=metadata["index"], metadata=rest)
        if chunk.id == _NO_ID:
            chunk = replace(chunk, id=None)
        text = chunk.args or chunk.arguments_delta or ""
        copies, second_key = self._copies, self._state.traits.second_key
        if copies is None and second_key is not None and chunk.key == second_key:
            from streamkit.accumulator.call_copies import CallCopies  # few streams have calls in two forms

            copies = CallCopies(second_key, self._state.limits.arguments, self._state.keep, self._open)
            for call in self._calls:
                copies.add_call(call, None)
            self._copies = copies
        if copies is not None and copies.take(chunk, text):
            return
        resolution = self._index.resolve(chunk, text)
        self._apply(resolution, chunk, text)
        if chunk.position is not None and chunk.name and self._calls and not isinstance(resolution, Orphan):
            self._index.add_entry(self._calls[-1] if isinstance(resolution, New) else resolution.call, chunk.position)

    # ---------------------------------------------------------------- applying a delta

    def _apply(self, resolution: Resolution, chunk: NormalizedToolChunk, text: str) -> None:
        if isinstance(resolution, Existing):
            call = resolution.call
            if chunk.id:
                self._add_identifiers(call, chunk)
            if resolution.has_unknown_key:
                self.warn_call(call, "index_mismatch", f"a delta came on the key {chunk.key!r}, which no call uses")
            if chunk.metadata or chunk.message is not None:
                self._add_metadata(call, chunk)
            name = chunk.name or ""
            if resolution.is_restated:
                self._restate(call, chunk, text)
            elif call.is_final:
                if text:
                    self._report_late(call, text)
            elif not name or name == call.name or self._continue_name(call, name):
                if text:
                    self._append(call, text)
        elif isinstance(resolution, New):
            if self._copies is not None and self._copies.begin(chunk, text, resolution.reused_from):
                self._calls_by_key.pop(normalize_index(chunk.key), None)  # of the copy, no longer of a call before it
                return
            previous = self._find_call(chunk.key) if chunk.id and self._calls else None
            self._open(chunk, text, resolution.reused_from)
            if previous is not None and previous.raw_id == chunk.id and self._calls[-1] is not previous:
                message = f"a call of {chunk.name!r} began on the key of another, under its id"
                self.warn_call(self._calls[-1], "slot_reused", message)
        elif isinstance(resolution, Repeat):
            if chunk.id:
                self._add_identifiers(resolution.call, chunk)
            self._continue_repeat(resolution.call, chunk, text)
        elif resolution.ended_call is not None:
            if chunk.id:
                self._add_identifiers(resolution.ended_call, chunk)
            if text:
                self._state.warn("orphan_delta", f"a delta came after its call had ended: {text[:80]!r}")
        elif text:
            message = f"a delta belongs to no open call: {text[:80]!r} on the key {chunk.key!r}"
            self._state.warn("orphan_delta", message)
        elif chunk.metadata is not None and chunk.key is None and len(self._calls) == 1:
            # Gemini's signature of a call, in a delta of its own (open-webui/computer#224)
            self._add_metadata(self._calls[0], chunk)
        elif chunk.metadata is not None and self._state.error is None:  # else its call may have passed a limit
            self._state.warn("orphan_delta", f"the metadata {', '.join(chunk.metadata)} belongs to no open call")

    def _add_identifiers(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> None:
        if self._index.add_identifiers(call, chunk):
            self._state.keep(OBJECT_SIZE // 2 + len(chunk.id or ""))

    def _add_metadata(self, call: ToolCallBuilder, chunk: NormalizedToolChunk) -> None:
        message, new, known = chunk.message, chunk.metadata, call.metadata
        if message is not None and not call.is_final and not self._state.refuses(message):
            call.message = message
        if new and known:
            new = {name: value for name, value in new.items() if name not in known or known[name] != value}
        if new and not self._state.refuses(new):
            known.update(new)

    def _continue_name(self, call: ToolCallBuilder, name: str) -> bool:
        """Append to the name of a call; return False if it is too long then."""
        if call.ref is None and (not call.name or not call.parts):
            if self._state.refuses_name(call.name + name):
                return False
            call.name += name  # names do arrive in fragments (continuedev/continue#5849), or late
            if call.parts or self._state.traits.whole_names:
                self._start(call)
        else:
            self.warn_call(call, "name_changed", f"the name {name!r} came after the arguments of {call.name!r}")
        return True

    def _restate(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        """Replace a call's arguments by a complete text that the wire sent later."""
        if chunk.id and call.text == text:
            self.warn_call(call, "repeated_arguments", "the call was sent twice under its id")
        elif call.is_final:
            self._report_late(call, text)
        else:
            is_placeholder = call.is_object_closed() and call.is_placeholder()
            if call.parts and not is_placeholder and not text.startswith(call.text):
                self.warn_call(call, "arguments_restated", "the call was sent again under its id, with other arguments")
            self._state.drop(call.size)
            call.replace()
            self._append(call, text)

    def append_arguments(self, key: Hashable, arguments: str) -> None:
        """Append to the arguments of the call of a key, without looking for a restatement or another call in them.

        Args:
            key: the call's key.
            arguments: the next text, not empty. ``leaked_markup`` recovers calls from text, where the boundaries of a
                part have no meaning.
        """
        call = self._find_call(key)
        if call is not None and not (call.ended or call.is_final):  # else the call exceeded a limit
            self._append(call, arguments, may_restate=False)

    def _append(self, call: ToolCallBuilder, text: str, *, may_restate: bool = True) -> None:
        if may_restate:
            call.append(text)
        else:
            call.parts.append(text)
        if call.ref is not None:
            self._emit_delta(call, call.ref, text)
        elif call.name:
            self._start(call)
        self._state.size += len(text)
        self._state.check_arguments(call)

    def _emit_delta(self, call: ToolCallBuilder, ref: CallRef, text: str) -> None:
        if call.half or not text.isascii():
            text, call.half = join_half(call.half, text)
            call.fast_path = not (call.half or call.is_final) and call.possible_repeat is None
        if text:
            self._state.events.append(ToolCallDelta(ref, text, self.index))

    def _report_late(self, call: ToolCallBuilder, text: str) -> None:
        """Warn of text that would change a call that is ready, and leave the call as it is."""
        self.warn_call(call, "late_arguments", f"arguments came after the call was ready: {text[:80]!r}")

    def join_parts(self) -> int:
        """Join the short parts of the texts that still grow; return their number."""
        block = self._last
        others = 0 if block is None or block.call is not None else block.join_parts()
        if not self._calls:
            return others
        joined, longest = 0, self._state.longest_arguments
        for call in self._calls:
            if not (call.is_final or call.ended):
                joined += call.join_parts()
                longest = max(longest, call.size)
        self._state.longest_arguments = longest
        return joined + others

    def _find_call(self, key: Hashable) -> ToolCallBuilder | None:
        """Return the call of a key, None if no call uses it."""
        return self._calls_by_key.get(key if key.__class__ is int else normalize_index(key))

    # ---------------------------------------------------------------- repeats of a closed object

    def _continue_repeat(self, call: ToolCallBuilder, chunk: NormalizedToolChunk, text: str) -> None:
        """Compare text after a closed object with that object: it is a repeat while equal, else another call.

        Nothing is held back: the text is emitted as deltas of the call, and taken back by ``ArgumentsRestated`` if it
        turns out not to belong to it.
        """
        if call.possible_repeat is None:
            call.begin_repeat()
            if call.is_final and text != call.object_text:
                self._report_late(call, text)
        size, repeated = call.repeated_size, call.possible_repeat or ""
        is_plain = not chunk.name and not chunk.id
        missing = len(repeated) - size
        if is_plain and repeated.startswith(text, size):
            if len(text) < missing:
                call.repeated_size = size + len(text)
                if text and call.ref is not None:
                    call.deltas_match_text = False
                    self._emit_delta(call, call.ref, text)
                return
            self._drop_repeat(call)
        elif is_plain and len(text) > missing and text.startswith(repeated[size:]):
            self._drop_repeat(call)
            rest = text[missing:]
            self._apply(self._index.resolve_within(call, chunk, rest), chunk, rest)
        else:
            before = call.end_repeat()
            if is_plain:
                self._apply(New(call), chunk, before + text)
            else:
                if before:
                    self._open(NormalizedToolChunk("delta", key=chunk.key), before, call)
                self._apply(self._index.resolve(chunk, text), chunk, text)

    def _drop_repeat(self, call: ToolCallBuilder) -> None:
        call.end_repeat()
        self.warn_call(call, "repeated_arguments", "the arguments were sent twice; the repeat was dropped")

    # ---------------------------------------------------------------- starts

    def _open(self, chunk: NormalizedToolChunk, text: str, reused_from: ToolCallBuilder | None = None) -> None:
        """Open a call. Without a name of its own it has that of ``reused_from``, the previous call on its key."""
        state, raw_id, key = self._state, chunk.id or None, chunk.key
        if not state.add_call():
            return
        if self._calls:
            self.prepare_decisions()
            self.follow()
        name = chunk.name or (reused_from.name if reused_from is not None else "")
        if state.refuses_name(name) or not state.keep(len(name) if raw_id is None else len(name) + len(raw_id)):
            return
        is_unkeyed = raw_id is None and normalize_index(key) is None
        call = ToolCallBuilder(len(self._calls), raw_id, name, chunk.kind, unkeyed=is_unkeyed)
        self._calls.append(call)
        if state.traits.reuses_slots and chunk.kind == "function":
            self._followable = (*self._followable[1 - MOST_FOLLOWABLE :], call.index)
        self.open_block("call", key).call = call
        if self._copies is not None:
            self._copies.add_call(call, chunk.key)
        self._index.add(call, chunk)
        if chunk.metadata or chunk.message is not None:
            self._add_metadata(call, chunk)
        if name and state.traits.whole_names:
            self._start(call)
        else:
            self._unstarted = [*self._unstarted, call]
        if text:
            self._append(call, text)
        if reused_from is not None:
            self.warn_call(call, "slot_reused", f"a call of {name!r} began on the key of another, without its own id")

    def prepare_decisions(self) -> None:
        """Start the calls whose names are final, because another call began or the provider finished.

        A copy that differs from its call becomes a call first: it may have given the call its id.
        """
        for call in self._unstarted:
            if call.name:
                self._start(call)
        if self._copies is not None:
            self._copies.split_different()

    def _start(self, call: ToolCallBuilder) -> None:
        state = self._state
        if self._unstarted:
            self._unstarted = [each for each in self._unstarted if each is not call] or ()
        if not call.name.isascii():
            call.name = join_surrogates(call.name)
        canonical_id = call.raw_id
        if not canonical_id or not ids.is_canonical(canonical_id) or not state.reserve_id(canonical_id):
            turn_key = state.turn_key
            if turn_key is None:
                turn_key = state.resolve_turn_key()
            canonical_id = ids.derived_tool_id(  # also of a truncated hist_tool_ id, or one that another call has
                provider_name=state.provider_name,
                raw_id=call.raw_id or "",
                tool_name=call.name,
                turn_key=f"{turn_key}#{self.index}" if self.index else turn_key,
                call_index=call.index,
            )
            state.reserve_id(canonical_id)
        call.ref = ref = CallRef(canonical_id, call.name, call.index, call.kind)
        call.fast_path = True
        metadata, namespace = call.metadata.copy(), None
        if metadata and not isinstance(namespace := metadata.pop("namespace", None), str):
            namespace = None
        state.events.append(ToolCallStart(ref, self.index, namespace, metadata))
        if call.parts:
            self._emit_delta(call, ref, call.text)

    # ---------------------------------------------------------------- ends

    def end_call(self, key: Hashable) -> None:
        """End the call of a key, because the wire reported its end."""
        call = self._find_call(key)
        if call is not None and not call.ended:
            call.ended = True
            parsed = self._end(call)
            if not call.is_final and call.ref is not None:
                self.decide_ended(call, parsed)

    def end_all(self) -> None:
        """Start and end all calls, because the turn is over. One without a name needs a start too, to have a result."""
        for call, text in self._copies.close() if self._copies is not None else ():
            self._append(call, text)
        for call in self._unstarted:
            if call.name:
                self._start(call)
        for call in self._calls:  # ending a call may open another one after it
            if call.is_end_emitted and call.is_final and call.deltas_match_text and call.possible_repeat is None:
                continue
            is_nameless = call.ref is None
            if is_nameless:
                self._start(call)
            if is_nameless or not call.ended:
                self._end(call)

    def _end(self, call: ToolCallBuilder) -> ParsedArguments | None:
        """Emit the end of a call, after the text in force if the deltas do not add up to it.

        Returns:
            The parsed arguments; None for a call that is final, has not started, or is of kind ``custom``.
        """
        if call.possible_repeat is not None:  # not a complete repeat, so it was the beginning of another call
            self._open(NormalizedToolChunk("delta"), call.end_repeat(), call)
        call.fast_path = False
        if call.ref is None:
            return None
        parsed, final = None, call.final
        if final is None:
            parsed = self.emit_final_arguments(call)
        elif not call.deltas_match_text:  # text that came later was emitted, and is no part of the call
            call.deltas_match_text = True
            self._state.events.append(ArgumentsRestated(call.ref, final.arguments_text, self.index))
        self.emit_end(call)
        return parsed

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """Implement ``ChoiceSink.replace_arguments`` (docs/rules.md, "Restated arguments").

        LiteLLM's snapshot of a second call has the objects of both, and other servers end with garbage or ``{}``: such
        a snapshot does not replace arguments that were streamed.
        """
        call, text = self._find_call(key), arguments_text
        if call is None or text == call.text:
            return
        final = call.final
        if final is not None:
            if text != final.arguments_text:
                self._report_late(call, text)
            return
        is_more = text.startswith(call.text)
        is_placeholder = not text.strip("{} \t\r\n") and not is_more
        if call.parts and call.kind == "function" and (is_placeholder or not is_one_object(text)):
            if call.valid_text != text:
                message = f"the wire's final snapshot is no object; the streamed arguments are kept: {text[:80]!r}"
                self.warn_call(call, "arguments_restated", message)
            return
        if not call.ended and is_more:
            self._append(call, text[call.size :])
            return
        if call.parts:
            self.warn_call(call, "arguments_restated", "the wire's final snapshot differs from the deltas it streamed")
        self._state.drop(call.size)
        call.replace(text)
        self._state.size += call.size
        self._state.check_arguments(call)
        if call.ref is None and call.name:
            self._start(call)
            call.deltas_match_text = True
            if not call.ended:
                return
        parsed = self.emit_final_arguments(call)
        if call.ended and call.ref is not None:
            self.decide_ended(call, parsed)
