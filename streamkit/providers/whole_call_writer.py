"""The base of the writers of wires that have complete calls alone.

A call is written when its final state is known, in the order in which the calls began. One that is not complete is left
out. This module must not depend on any provider.
"""

from __future__ import annotations

from collections import deque

from streamkit.calls import ToolCall
from streamkit.providers.call_text import CallText
from streamkit.providers.provider_writer import Writer
from streamkit.providers.traits import Traits
from streamkit.providers.wire_writer import WriterOptions

__all__ = ["WholeCallWriter"]


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
