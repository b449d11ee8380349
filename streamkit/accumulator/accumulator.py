"""The accumulator of one turn: its choices, usage, confirmation and end.

``Accumulator`` implements ``providers.provider.Sink``, so a parser reports to it directly. What concerns one choice is
in ``choice``; what all choices share is in ``turn_state``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from streamkit.accumulator.choice import Choice
from streamkit.accumulator.limits import DEFAULT_LIMITS, MAX_CHOICES, Limits, WireTraits
from streamkit.accumulator.turn_state import OBJECT_SIZE, STORED_NESTING, TurnState
from streamkit.calls import StreamError, StreamWarning, ToolCall, Usage
from streamkit.errors import UsageError
from streamkit.events import NormalizedToolChunk, TurnEvent, Unknown, UsageReport
from streamkit.ids import normalize_index
from streamkit.json_text import join_surrogates, measure_json
from streamkit.values.json_data import describe_object, is_plain_json, to_json_data

__all__ = ["Accumulator", "process_tool_call_chunk"]


class Accumulator:
    """The sink of one turn.

    Args:
        provider_name: the provider's registered name, a part of every canonical id.
        traits: the facts about the wire; the defaults describe a wire with complete names and its own block ends.
        turn_key: the stable name of the turn; by default the wire's response id.
        limits: upper bounds of the turn.
        recover_trailing_junk: whether a call whose complete arguments are followed by other text counts as complete.
        repair_arguments: whether raw control characters, invalid escapes and trailing commas in arguments are repaired.

    Attributes:
        state: what all choices share: events, warnings, the error, limits, the turn's identity.
        first_choice: choice 0.
        total_usage: the tokens counted so far.
        terminated: the wire's own terminator was seen.
    """

    __slots__ = (
        "__weakref__",
        "_is_recognized",
        "_other_choices",
        "_refused_choice",
        "_unknown_chunks",
        "_usage_size",
        "first_choice",
        "state",
        "terminated",
        "total_usage",
    )

    def __init__(
        self,
        provider_name: str,
        traits: WireTraits | None = None,
        *,
        turn_key: str | None = None,
        limits: Limits | None = None,
        recover_trailing_junk: bool = True,
        repair_arguments: bool = False,
    ) -> None:
        self.state: TurnState = TurnState(
            provider_name,
            traits or WireTraits(),
            turn_key,
            limits or DEFAULT_LIMITS,
            recover_trailing_junk=recover_trailing_junk,
            repair_arguments=repair_arguments,
        )
        self.total_usage: Usage | None = None
        self.terminated: bool = False
        self._usage_size = 0
        self._unknown_chunks = 0
        self._is_recognized = False  # a chunk had this wire's format, whether or not it had content
        self.first_choice: Choice = Choice(self.state, 0)
        self._other_choices: dict[int, Choice] | None = None  # most turns have only one
        # Of another turn: what a chunk has for choices beyond the limit has no events here.
        self._refused_choice: Choice | None = None
        self.state.first_texts = self.first_choice

    # ---------------------------------------------------------------- the sink

    @property
    def model(self) -> str | None:
        """Implement ``Sink.model``."""
        return self.state.model or self.state.requested_model

    def choice(self, index: int) -> Choice:
        """Implement ``Sink.choice``."""
        if index.__class__ is not int or index < 0:
            number = normalize_index(index)
            index = number if isinstance(number, int) and number >= 0 else 0
        if index == 0:
            return self.first_choice
        others = self._other_choices
        if others is None:
            others = self._other_choices = {}
        choice = others.get(index)
        if choice is None:
            if len(others) + 1 >= MAX_CHOICES:
                self.state.report_limit(f"more than {MAX_CHOICES} choices")
                if self._refused_choice is None:
                    nothing = Limits(calls=0, text=0)
                    refused = Accumulator(self.state.provider_name, self.state.traits, limits=nothing)
                    self._refused_choice = Choice(refused.state, MAX_CHOICES)
                return self._refused_choice
            choice = others[index] = Choice(self.state, index)
            self.state.other_texts += (choice.join_parts,)
            self.state.keep(OBJECT_SIZE)
        return choice

    def identify(self, response_id: str | None, model: str | None, facts: Mapping[str, Any] | None = None) -> None:
        """Implement ``Sink.identify``."""
        self._is_recognized = True
        state = self.state
        if response_id and state.response_id is None and state.keep(len(response_id)):
            state.response_id = response_id if response_id.isascii() else join_surrogates(response_id)
        if model and model != state.model and state.keep(len(model)):
            state.model = model if model.isascii() else join_surrogates(model)
        if response_id or model:
            state.start_response(facts)

    def add_response_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Implement ``Sink.add_response_metadata``."""
        known = self.state.metadata
        new = metadata
        if known:
            new = {name: value for name, value in metadata.items() if name not in known or known[name] != value}
        if new and not self.state.refuses(new):
            known.update(new)

    def usage(self, usage: Usage) -> None:
        """Implement ``Sink.usage``."""
        raw = usage.raw
        size, nesting = measure_json(raw)
        # It is stored, so it must be JSON data, without NaN.
        if raw is not None and (nesting > STORED_NESTING or not is_plain_json(raw)):
            raw = to_json_data(raw, describe_object, deepest=STORED_NESTING)
            if raw is not usage.raw:
                usage, size = msgspec.structs.replace(usage, raw=raw), measure_json(raw)[0]
        if size > self._usage_size:  # of several reports only the last one is kept
            if not self.state.keep(size - self._usage_size):
                return
            self._usage_size = size
        self.total_usage = usage if self.total_usage is None else self.total_usage.updated_with(usage)
        self.state.events.append(UsageReport(self.total_usage))

    def terminate(self) -> None:
        """Implement ``Sink.terminate``. Nothing later is read, so the result does not depend on when reading stops.

        A terminator proves nothing by itself: several wires end with ``[DONE]``.
        """
        if self.is_recognized():
            self.terminated = True
        elif self.state.error is None:  # else the error explains why no chunk came
            self.state.input_ended = False  # the terminator was whole
            self.fail(self.unrecognized_error())
        self.state.done = True

    def heartbeat(self) -> None:
        """Implement ``Sink.heartbeat``."""
        self._is_recognized = True

    def fail(self, error: StreamError) -> None:
        """Implement ``Sink.fail``."""
        self.state.fail(error)

    def warn(self, code: str, message: str) -> None:
        """Implement ``Sink.warn``. The parser of a third party may use other codes."""
        self.state.record_warning(StreamWarning(code, message))

    def unknown_field(self, name: str, value: object) -> None:
        """Implement ``Sink.unknown_field``."""
        self.state.report_unknown_field(name, value)

    def keep(self, size: int) -> bool:
        """Implement ``Sink.keep``."""
        return self.state.keep(size)

    def join_with(self, join: Callable[[], int]) -> None:
        """Implement ``Sink.join_with``."""
        self.state.other_texts += (join,)

    def unknown(self, raw: object) -> None:
        """Implement ``Sink.unknown``."""
        self._unknown_chunks += 1
        self.state.events.append(Unknown(raw))

    # ---------------------------------------------------------------- the result

    @property
    def events(self) -> list[TurnEvent]:
        """The events that were not taken yet; the caller empties the list."""
        return self.state.events

    @property
    def choices(self) -> list[Choice]:
        """Choice 0, and the others that sent anything, in the order in which they began."""
        return [self.first_choice, *self._other_choices.values()] if self._other_choices else [self.first_choice]

    @property
    def turn_choice(self) -> Choice:
        """The choice whose content is the turn's: 0 if it sent anything, else the first that did."""
        others = self._other_choices
        return others.get(self.state.turn_choice, self.first_choice) if others else self.first_choice

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the turn's choice, in order of first appearance, in every state."""
        return self.turn_choice.calls

    @property
    def warnings(self) -> list[StreamWarning]:
        """The turn's warnings, in order."""
        return self.state.warnings

    @property
    def error(self) -> StreamError | None:
        """The turn's error; None if it has none."""
        return self.state.error

    @property
    def limits(self) -> Limits:
        """The turn's limits."""
        return self.state.limits

    @property
    def is_confirmed(self) -> bool:
        """Whether the provider reported the end of the turn's choice, by a terminator or a finish reason."""
        return self.terminated or self.turn_choice.provider_finish is not None

    def report_limit(self, message: str) -> None:
        """End the turn with ``limit_exceeded``."""
        self.state.report_limit(message)

    def is_recognized(self) -> bool:
        """Return True if one of the chunks fed so far had this wire's format. Usage and terminators prove nothing."""
        if not self._is_recognized:
            first = self.first_choice
            self._is_recognized = bool(first.blocks) or first.provider_finish is not None or bool(self._other_choices)
        return self._is_recognized

    def unrecognized_error(self) -> StreamError:
        """Return the error of a stream that ends without a chunk of this wire."""
        if self._unknown_chunks or self.total_usage is not None:
            return StreamError("protocol_error", f"no chunk has the format of {self.state.provider_name!r}")
        return StreamError("stream_truncated", "the stream ended before its first chunk")

    def close(self, *, complete: bool = False, failure: StreamError | None = None) -> None:
        """End the turn: decide the states of the calls, the finish and the error.

        Args:
            complete: the source reported an orderly end that the input does not show.
            failure: the error of the transport; only a warning if the turn is confirmed.
        """
        state = self.state
        confirmed = self.terminated or (complete and state.error is None)  # an error ended the input early
        usage = self.total_usage
        if usage is not None and isinstance(usage.raw, dict):
            # Some totals are without the cached tokens, others count them twice (earendil-works/pi#8752).
            raw = usage.raw
            total = raw.get("total_tokens", raw.get("totalTokenCount", raw.get("totalTokens")))
            counted = (usage.input_tokens or 0) + (usage.output_tokens or 0)
            if total.__class__ is int and total and total != counted:
                cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
                if total not in (counted - cached, counted + cached):
                    message = f"the wire's total is {total} tokens, and the sum of input and output {counted}"
                    state.warn("usage_mismatch", message)
        choices = non_empty = self.choices
        if len(choices) > 1:
            for choice in choices[1:]:  # before the turn's choice is read: it may be theirs
                choice.place_early_citations()
            if number := state.turn_choice:
                message = f"choice 0 sent nothing, so choice {number} is the turn's"
                state.record_warning(StreamWarning("other_choice", message), number)
                sources, self.first_choice.early_citations = self.first_choice.early_citations, None
                self.turn_choice.add_citations(sources or ())  # they came beside the choices
        self.turn_choice.place_early_citations()
        if len(choices) > 1:
            in_order = sorted(choices, key=attrgetter("index"))
            sent = [choice for choice in in_order if choice.blocks or choice.provider_finish is not None]
            non_empty = sent or in_order[:1]
        has_unfinished = False
        for choice in choices:
            is_sent = choices is non_empty or choice in non_empty
            choice.close(confirmed=confirmed and is_sent)  # what was not sent has no finish
            if is_sent and choice.effective_finish is None:
                has_unfinished = True
        if failure is not None:
            if self.is_confirmed:
                state.warn("transport_error", f"after the end of the response: {failure.message}")
            else:
                state.fail(failure)
        if has_unfinished and state.error is None:
            state.fail(
                StreamError(
                    "stream_truncated",
                    "the stream ended before the response was complete"
                    if confirmed
                    else "the stream ended without a finish reason or a terminator",
                )
            )
        facts = dict(state.metadata)
        for choice in non_empty:
            choice.emit_finished(facts, may_execute=state.error is None)
        state.first_texts, state.other_texts = None, ()  # nothing grows any more, and they refer back to the state


_TEXT_FIELDS = ("id", "name", "args", "arguments_delta")


def _check_chunk(chunk: NormalizedToolChunk) -> None:
    """Reject a chunk that a parser of the caller's has made wrongly: later it would be a lost call, or a KeyError."""
    if not isinstance(chunk, NormalizedToolChunk):
        raise UsageError(f"a NormalizedToolChunk is expected, not {type(chunk).__name__}")
    if chunk.type not in ("start", "delta"):
        raise UsageError(f"the type of a NormalizedToolChunk is 'start' or 'delta', not {chunk.type!r}")
    for field in _TEXT_FIELDS:
        value = getattr(chunk, field)
        if value is not None and not isinstance(value, str):
            hint = "; write arguments as JSON text" if field.startswith("arg") else ""
            raise UsageError(f"{field} of a NormalizedToolChunk is a str or None, not {type(value).__name__}{hint}")


def process_tool_call_chunk(chunk: NormalizedToolChunk, calls: Accumulator) -> list[TurnEvent]:
    """Feed one delta of a tool call to an accumulator; for users with a parser of their own.

    Args:
        chunk: the delta.
        calls: the accumulator of the turn. ``calls.close()`` ends the turn, ``calls.calls`` are its calls.

    Returns:
        The events that the delta caused, in order; none after an error, such as an exceeded limit.

    Raises:
        UsageError: it is no ``NormalizedToolChunk``, or a field of it has another type.
    """
    if (
        chunk.__class__ is not NormalizedToolChunk
        or chunk.type != "delta"
        or chunk.arguments_delta.__class__ is not str
    ):
        _check_chunk(chunk)  # not of a plain delta: there are many
    if calls.state.done:
        return []
    calls.state.has_started = True  # the caller reads the response, so its start is no news
    events = calls.state.events
    before = len(events)
    if chunk.message is not None and chunk.metadata is None:
        chunk = msgspec.structs.replace(chunk, metadata={})  # the tracker's fast path reads no message
    calls.choice(0).tool(chunk)
    caused = events[before:]
    del events[before:]
    return caused
