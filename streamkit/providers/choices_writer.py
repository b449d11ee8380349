"""The base of the writers of wires with several choices in a response.

Each further choice has a writer of its own, whose chunks are part of the same stream. This module must not depend on
any provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from streamkit.events import Event
from streamkit.providers.provider_writer import Writer, of_no_choice
from streamkit.providers.traits import Traits
from streamkit.providers.wire_writer import WriterOptions

__all__ = ["ChoicesWriter"]


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

    def _takes_choice(self, event: Event, handler: Callable[[Any, Any], None]) -> bool:
        """Return True if an event is of the first choice; of the same wire write that of another one."""
        if not self.is_same_wire or self._choice in (None, event.choice) or of_no_choice(handler):
            is_first = self._choice is None
            takes = super()._takes_choice(event, handler)
            if is_first and self._choice is not None and self.is_same_wire:
                self._number = self._choice
            return takes
        if (other := self._others.get(event.choice)) is None:
            other = self._others[event.choice] = self._new_writer(event.choice)
        other.apply(event, handler)
        self._frames += other._take()
        return False

    def _new_writer(self, number: int) -> Self:
        other = type(self)(self.traits, self._options)
        other._chunks, other.is_same_wire = self._chunks, True
        other._number = other._choice = number
        other._has_begun = True
        other.begin_choice(self)
        return other
