"""The order in which a wire has blocks, calls and choices: two bases of writers, for what the wire requires.

- ``SequentialWriter``: one call is open at a time. A stream may have several open calls at once (Chat Completions,
  Responses). Then the first call is written as it comes, and what follows it waits until the call is over: its end was
  reported, or its object is closed and something else began. So each call is sent as soon as the one before it is
  complete. A call within which a response failed has no end, as at the provider. Texts and reasoning have an index
  each, and are open as long as the blocks that they are.
- ``WholeCallWriter``: the wire has complete calls alone. A call is written when its final state is known, in the order
  in which the calls began. One that is not complete is left out.

This module must not depend on any provider.
"""

from __future__ import annotations

from collections import deque

from streamkit.calls import ToolCall
from streamkit.events import BlockEnded, Event
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing.call_text import CallText, is_cut
from streamkit.providers.writing.wire_output import WriterOptions
from streamkit.providers.writing.writer import EventRow, Writer

__all__ = [
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
        self._indexes: dict[tuple[str, int], int] = {}  # of the open texts, by the wire's kind and the block's number
        self._index_count = 0
        self.ends_in_call: bool = False

    def apply(self, event: Event, row: EventRow) -> None:
        """Write an event, or keep it until the current call is over.

        The end of a block without state is written within the call: it is no content for which the call must be over.
        """
        is_stateless_end = isinstance(event, BlockEnded) and not event.signature and not event.metadata
        if self._current is None or row.scope != "block" or (is_stateless_end and not self._waiting):
            row.write(self, event)
        else:
            self._waiting.append((event, row))
            self._advance()

    # ------------------------------------------------------------ texts and reasoning

    def stop_finished(self) -> None:
        """Write the ends of the texts that will get no event for it, because another block begins."""
        for place in [place for place in self._indexes if place[1] not in self.open_blocks]:
            self.stop_block(self._indexes.pop(place))

    def next_index(self) -> int:
        """Return the index of a new block."""
        self.stop_finished()
        self._index_count += 1
        return self._index_count - 1

    def text_index(self, kind: str) -> int:
        """Return the index of the block that is being written, a text of the wire's kind; start it if it is not open.

        Without ``BlockStarted`` the blocks of a stream may have one number: then another kind is another block.
        """
        index = self._indexes.get((kind, self.block))
        if index is None:
            for place in [place for place in self._indexes if place[1] == self.block]:
                self.stop_block(self._indexes.pop(place))
            index = self.next_index()
            self._indexes[kind, self.block] = index
            self.start_text(kind, index)
        return index

    def end_text(self, kind: str) -> None:
        """Write the end of the block that is being written, if it is open as a text of that kind."""
        if (index := self._indexes.pop((kind, self.block), None)) is not None:
            self.stop_block(index)

    def end_texts(self) -> None:
        """Write the ends of all texts that are open."""
        for index in self._indexes.values():
            self.stop_block(index)
        self._indexes.clear()

    def start_text(self, kind: str, index: int) -> None:
        """Write the start of a text of a kind of the wire."""
        raise NotImplementedError

    def stop_block(self, index: int) -> None:
        """Write the end of the block at an index."""
        raise NotImplementedError

    # ------------------------------------------------------------ calls

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
        """Write a complete call, with its id on the wire if it has one."""
        raise NotImplementedError
