"""The final state of the calls of a choice: when it is decided, and the event that reports it.

A call is decided once, at the first of these moments, and never changes afterwards (docs/rules.md, "Ready calls"):

- the wire reports its end;
- on wires that reuse slots (Chat Completions), another call begins after its object was closed;
- the provider sends the finish reason, and the call is complete;
- the turn is closed.

The module must not depend on how deltas are assigned to calls.
"""

from __future__ import annotations

from typing import cast

from streamkit.accumulator.blocks import ChoiceBlocks
from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.accumulator.turn_state import OBJECT_SIZE
from streamkit.calls import CallState, StreamWarning, ToolCall, TurnWarningCode
from streamkit.events import ArgumentsRestated, ToolCallDelta, ToolCallEnd, ToolCallReady
from streamkit.json_text import ParsedArguments, deepest_nesting, structure_size

__all__ = ["MOST_FOLLOWABLE", "ReadyCalls"]

MOST_FOLLOWABLE = 8  # so few calls are looked at when another one begins, which keeps the cost linear


class ReadyCalls(ChoiceBlocks):
    """The calls of one choice, and the decisions about them.

    Many turns have no call, so what is kept of calls is set with the first delta of one (``feed_call``).
    """

    __slots__ = ("_calls", "_finished", "_first_calls", "_followable")
    _calls: list[ToolCallBuilder]  # in order of first appearance; before the first one a list that is never changed
    _followable: tuple[int, ...]  # the indexes of those that are to be decided if another call begins
    _finished: int  # so many were opened before the last finish reason
    _first_calls: dict[tuple[str | None, str, str], ToolCallBuilder]  # by id, name and arguments

    # ---------------------------------------------------------------- the moments of a decision

    def follow(self) -> None:
        """Decide the calls whose object is closed, because another call begins.

        An empty object is not decided: it may be a placeholder, which the arguments replace (vercel/ai#13137). A call
        whose text is not one object is not decided either, and is not looked at again before the finish.
        """
        followable, self._followable = self._followable, ()
        for index in followable:
            call = self._calls[index]
            if call.is_final:
                continue
            if call.ref is None or call.possible_repeat is not None:
                self._followable += (index,)
            elif (parsed := self._parse_object(call)) is not None:
                if parsed.arguments:
                    self.decide(call, "complete", parsed)
                else:
                    self._followable += (index,)
            elif not call.is_object_closed() or call.is_placeholder():
                self._followable += (index,)
            elif self._parse(call).state == "complete":
                self.decide(call, "complete")

    def decide_ended(self, call: ToolCallBuilder, parsed: ParsedArguments | None) -> None:
        """Decide a call whose end the wire reported, unless it is empty: then the turn's finish decides.

        Args:
            call: the call.
            parsed: what ``emit_final_arguments`` returned.
        """
        if parsed is None:
            self._set_final(call, "complete", None)
        elif call.parts or self._state.traits.whole_calls:
            self._set_final(call, self._within_nesting(call, parsed.state), parsed)

    def decide_finished(self, *, is_cut_short: bool) -> None:
        """Decide the calls that are complete at the finish reason. Others may continue after it, so they wait.

        Args:
            is_cut_short: the reason is the length limit or an error.
        """
        unfinished, self._finished = self._calls[self._finished :], len(self._calls)
        for call in unfinished:
            if call.is_final or call.ref is None or call.possible_repeat is not None:
                continue
            if call.kind == "custom":
                if not is_cut_short:
                    self.decide(call, "complete")
            elif not call.parts:
                if call.ended and not (is_cut_short and call is self._last_call):
                    self.decide(call, "complete")
            elif (parsed := self._parse_object(call)) is not None or (
                call.is_object_closed() and self._parse(call).state == "complete"
            ):
                self.decide(call, "complete", parsed)

    def decide_all(self, *, confirmed: bool, is_cut_short: bool) -> None:
        """Decide all other calls, because the turn is over (docs/rules.md, "State").

        Args:
            confirmed: the provider reported the end of the choice.
            is_cut_short: the finish reason is the length limit or an error.
        """
        for call in self._calls:
            final = call.final
            if final is None:
                is_finished = confirmed and not is_cut_short
                state: CallState
                if not call.name:
                    state = "invalid"
                elif call.kind == "custom":
                    state = "complete" if is_finished else "incomplete"
                elif not call.parts and call is self._last_call and not (is_finished or self._state.traits.whole_calls):
                    state = "incomplete"  # its arguments may have been lost
                else:
                    state = self._parse(call).state
                final = self.decide(call, state)
            call.state = final.state

    def completed_call(self, index: int) -> ToolCall | None:
        """Return a call in its final form if it is complete before the turn has ended, else None.

        A call is complete early if the wire reported its end, or (OpenAI and Azure) if its object is closed and another
        call began. A closed object alone is not enough, because some servers send arguments again
        (ollama/ollama#15457, Moonshot's revisions in danny-avila/agents#181).

        Args:
            index: the call's ``index``.
        """
        if not 0 <= index < len(self._calls):
            return None
        call, traits = self._calls[index], self._state.traits
        is_followed = traits.calls_end_in_order and index < len(self._calls) - 1 and call.is_object_closed()
        if not (call.ended or is_followed) or call.ref is None or not call.name:
            return None
        final = call.final
        if final is not None:
            return final if final.state == "complete" else None
        if not call.parts and call is self._last_call and not traits.whole_calls:
            return None  # if the turn ends here by its length limit, the arguments are missing
        return call.snapshot(state="complete") if self._parse(call).state == "complete" else None

    # ---------------------------------------------------------------- the decision

    def _parse_object(self, call: ToolCallBuilder) -> ParsedArguments | None:
        """Return the parsed arguments if the text is one object, found out by parsing it; None if that is not known.

        A scan for the end of the object costs ten times as much as parsing. So the text is parsed first, once, if it
        looks complete.
        """
        if call.is_examined or not call.parts or call.parts[-1][-1] != "}" or structure_size(call.text) > OBJECT_SIZE:
            return None
        state = self._state
        parsed = call.parse_arguments(recover_trailing_junk=state.recover_trailing_junk, repair=state.repair_arguments)
        return parsed if parsed.state == "complete" and parsed.warning is None else None

    def _parse(self, call: ToolCallBuilder) -> ParsedArguments:
        if (parsed := call.parsed) is not None:
            return parsed
        state, size = self._state, structure_size(call.text)  # many small values cost more as objects than as text
        if size > OBJECT_SIZE and not state.keep(size):
            return call.refuse_arguments("the arguments were not parsed, because the turn has exceeded a limit")
        return call.parse_arguments(recover_trailing_junk=state.recover_trailing_junk, repair=state.repair_arguments)

    def decide(self, call: ToolCallBuilder, state: CallState, parsed: ParsedArguments | None = None) -> ToolCall:
        """Set a call's final state and emit it, after its argument text, if that was parsed; return its value."""
        state = self._within_nesting(call, state)
        return self._set_final(call, state, self.emit_final_arguments(call, parsed))

    def _within_nesting(self, call: ToolCallBuilder, state: CallState) -> CallState:
        """Return the state of a call: ``invalid`` if its arguments are nested too deeply, which ends the turn."""
        limit = self._state.limits.nesting
        if call.size <= limit or call.kind != "function" or deepest_nesting(call.text, limit) <= limit:
            return state
        self._state.report_limit(f"the arguments of {call.name!r} are nested more than {limit} levels deep")
        return "invalid"

    def _set_final(self, call: ToolCallBuilder, state: CallState, parsed: ParsedArguments | None) -> ToolCall:
        if not call.name:
            self.warn_call(call, "nameless_call", "the wire sent no name for the call")
            state = "invalid" if state == "complete" else state
        if parsed is not None:
            if parsed.problem is not None:
                self.warn_call(call, "invalid_arguments", parsed.problem)
            if state == "complete":
                same = "arguments" if call.raw_id is None else "id and arguments"
                if self._first_calls.setdefault((call.raw_id, call.name, call.text), call) is not call:
                    self.warn_call(call, "repeated_call", f"{call.name!r} was called twice with the same {same}")
        if not call.is_end_emitted:
            self.emit_end(call)
        final = call.set_final(state)
        self._state.events.append(ToolCallReady(final, self.index))
        return final

    def emit_end(self, call: ToolCallBuilder) -> None:
        """Emit the end of a call, once: before its final state, whatever decides that."""
        if call.ref is not None and not call.is_end_emitted:
            call.is_end_emitted = True
            self._state.events.append(ToolCallEnd(call.ref, self.index))

    def emit_final_arguments(
        self, call: ToolCallBuilder, parsed: ParsedArguments | None = None
    ) -> ParsedArguments | None:
        """Decide a call's argument text, warn if it is irregular, and restate it if the deltas do not add up to it.

        Args:
            call: the call.
            parsed: its arguments, if they were parsed just now.

        Returns:
            The parsed arguments; None for a call of kind ``custom``, whose text is free.
        """
        if parsed is None and call.kind == "function":
            parsed = self._parse(call)
        if call.half and call.ref is not None:
            call.half = ""
            self._state.events.append(ToolCallDelta(call.ref, "\ufffd", self.index))
        if parsed is not None and call.parts:
            if parsed.warning is not None:
                code, message = parsed.warning
                self.warn_call(call, cast("TurnWarningCode", code), message)
                if parsed.text != call.valid_text and (parsed.text, call.size) != call.restated:
                    call.deltas_match_text = False
            if parsed.duplicate_key is not None:
                message = f"the arguments have the key {parsed.duplicate_key[:80]!r} twice; the last value counts"
                self.warn_call(call, "duplicate_keys", message)
        if not call.deltas_match_text and call.ref is not None:
            call.deltas_match_text = True
            text = call.valid_text if parsed is None else parsed.text
            call.restated = text, call.size
            self._state.events.append(ArgumentsRestated(call.ref, text, self.index))
        return parsed

    def warn_call(self, call: ToolCallBuilder, code: TurnWarningCode, message: str) -> None:
        """Record a warning about a call, once a code."""
        if any(warning.code == code for warning in call.warnings):
            return
        warning = StreamWarning(code, message, call.ref.id if call.ref is not None else None)
        warning = self._state.record_warning(warning, self.index)
        call.warnings += (warning,)
        self._state.keep(len(warning.message))
