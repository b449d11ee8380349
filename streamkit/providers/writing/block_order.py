"""The order in which a wire has blocks, calls and choices: three bases of writers, for what the wire requires.

- ``SequentialWriter``: no delta of a block comes after the next block began. A stream may have several open calls at
  once (Chat Completions, Responses). Then the first call is written as it comes, and what follows it waits until the
  call is over: its end was reported, or its object is closed and something else began. So each call is sent as soon as
  the one before it is complete. A call within which a response failed has no end, as at the provider.
- ``WholeCallWriter``: the wire has complete calls alone. A call is written when its final state is known, in the order
  in which the calls began. One that is not complete is left out.
- ``ChoicesWriter``: a response has several choices. Each further choice has a writer of its own, whose chunks are part
  of the same stream.

This module must not depend on any provider.
"""

from __future__ import annotations

from collections import deque
from typing import Self

from streamkit.calls import ToolCall
from streamkit.events import BlockEnded, Event
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing.call_text import CallText, is_cut
from streamkit.providers.writing.wire_output import WriterOptions
from streamkit.providers.writing.writer import EventRow, Writer

__all__ = [
    "ChoicesWriter",
    "SequentialWriter",
    "WholeCallWriter",
]


class SequentialWriter(Writer):
    """A writer that sends one call at a time.

    Attributes:
        ends_in_call: the response failed within a call, whose block stays open.
    """

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._current: CallText | None = None  # the call that is being written
        self._waiting: deque[CallText | tuple[Event, EventRow]] = deque()
        self.ends_in_call: bool = False

    def apply(self, event: Event, row: EventRow) -> None:
        """Write an event, or keep it until the current call is over.

        The end of the block before the call, if it has no state, is left out: the call's start has ended that block.
        """
        if self._current is None or row.scope != "block":
            row.write(self, event)
        elif self._waiting or not isinstance(event, BlockEnded) or event.signature or event.metadata:
            self._waiting.append((event, row))
            self._advance()

    def start_call(self, call: CallText) -> None:
        """Write the start of a call, or keep the call until the current one is over."""
        call.waiting = []
        self._waiting.append(call)
        self._advance()

    def add_arguments(self, call: CallText, delta: str) -> None:
        """Write a delta of the current call; keep that of a call that waits."""
        if call is self._current:
            if text := call.add(delta):
                self.write_arguments(call, text)
            if self._waiting:
                self._advance()
        elif call.waiting is not None:
            call.waiting.append(delta)

    def restate_arguments(self, call: CallText, text: str) -> None:
        """Write the rest of a text that continues the sent one; replace the text of a call that waits."""
        if call is self._current:
            if rest := call.restate(text):
                self.write_arguments(call, rest)
        elif call.waiting is not None:
            call.waiting = [text]

    def call_ended(self, call: CallText) -> None:
        """Write the events that waited for the current call."""
        self._advance()

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the end of the current call, and the events that waited for it."""
        if call is self._current:
            if not is_cut(final):
                self._end_current(call)
            self._advance()
        elif call.waiting is None:  # it was taken for complete when something else began
            self.check_call(call, final)

    def end_cut_calls(self) -> bool:
        """Write the end of the calls that were cut, unless the response failed."""
        while (call := self._current) is not None:
            if self.has_failed:
                if rest := call.finish(call.ready):
                    self.write_arguments(call, rest)
                self.ends_in_call = True
                return False
            self._end_current(call)
            self._advance()
        return True

    def _advance(self) -> None:
        """Write the waiting events, up to the next call that is not over."""
        while self._waiting:
            current = self._current
            if current is not None:
                is_ended = current.ended and current.ref.kind == "function"
                if current.ready is None and not is_ended and not current.is_closed:
                    return
                self._end_current(current)
            item = self._waiting.popleft()
            if isinstance(item, CallText):
                self._current = item
                self.open_call(item)
                deltas, item.waiting = item.waiting or (), None
                text = "".join(map(item.add, deltas))
                if text:
                    self.write_arguments(item, text)
            else:
                waiting, row = item
                row.write(self, waiting)
        current = self._current
        if current is not None and current.ready is not None and not is_cut(current.ready):
            self._end_current(current)

    def _end_current(self, call: CallText) -> None:
        if rest := call.finish(call.ready):
            self.write_arguments(call, rest)
        self._current = None
        self.close_call(call)
        if call.ready is not None:
            self.check_call(call, call.ready)

    # ------------------------------------------------------------ what a wire's writer implements

    def open_call(self, call: CallText) -> None:
        """Write the start of a call."""
        raise NotImplementedError

    def write_arguments(self, call: CallText, text: str) -> None:
        """Write a delta of a call's arguments, not empty."""
        raise NotImplementedError

    def close_call(self, call: CallText) -> None:
        """Write the end of a call."""
        raise NotImplementedError


class ChoicesWriter(Writer):
    """A writer of one choice; of all choices, if the events are of the same wire."""

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._options = options
        self._number = 0  # of the choice, on the wire
        self._others: dict[int, ChoicesWriter] = {}  # the writers of the other choices, by their numbers

    def begin_choice(self, first: Self) -> None:
        """Write the beginning of a further choice.

        Args:
            first: the writer of the first choice, with the facts about the response.
        """

    def end_choice(self) -> None:
        """Write the end of a further choice, by ``finish``."""
        raise NotImplementedError

    def end_others(self) -> None:
        """Write the ends of the further choices."""
        for other in self._others.values():
            other._end_blocks()
            if other.finish is not None:
                other.end_choice()
            self._frames += other._take()
            for kind, sentence in other.omitted.items():
                self.omit(kind, sentence)

    def _takes_choice(self, event: Event, row: EventRow) -> bool:
        """Return True if an event is of the first choice; of the same wire write that of another one."""
        if not self.is_same_wire or self._choice in (None, event.choice) or row.scope == "response":
            is_first = self._choice is None
            takes = super()._takes_choice(event, row)
            if is_first and self._choice is not None and self.is_same_wire:
                self._number = self._choice
            return takes
        if (other := self._others.get(event.choice)) is None:
            other = self._others[event.choice] = type(self)(self.traits, self._options)
            other._chunks, other.is_same_wire = self._chunks, True
            other._number = other._choice = event.choice
            other._has_begun = True
            other.begin_choice(self)
        other.apply(event, row)
        self._frames += other._take()
        return False


class WholeCallWriter(Writer):
    """A writer that sends each call at once."""

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._unwritten: deque[CallText] = deque()

    def start_call(self, call: CallText) -> None:
        """Keep the call until its final state is known."""
        self._unwritten.append(call)

    def add_arguments(self, call: CallText, delta: str) -> None:
        """Ignore a delta: the final state has the arguments."""

    def restate_arguments(self, call: CallText, text: str) -> None:
        """Ignore another text: the final state has the arguments."""

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the calls that are ready, up to the first that is not."""
        while self._unwritten and (ready := self._unwritten[0].ready) is not None:
            call = self._unwritten.popleft()
            if ready.state == "complete":
                self.write_call(ready, call.id)
            else:
                self.omit_call(ready)

    def write_call(self, call: ToolCall, id: str | None) -> None:
        """Write a complete call.

        Args:
            call: the call.
            id: its id on the wire; None for a call without one.
        """
        raise NotImplementedError
