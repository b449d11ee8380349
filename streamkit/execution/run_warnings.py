"""The warnings of a run, in order: of its turns, requests, renderings and executions. Pure.

This module must not depend on what a warning means for the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamkit.calls import StreamWarning
from streamkit.execution.thread_update import ThreadUpdate
from streamkit.turn import Turn

__all__ = ["RunWarnings"]


class RunWarnings:
    """The warnings of a run so far. Those of its current turn are read from the turn, which adds more of them.

    Attributes:
        turn: the current turn; None between two turns.
    """

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self._warnings: list[StreamWarning] = []
        self._of_turn = 0  # how many of the turn's are among these
        self._unrendered: Callable[[], ThreadUpdate] | None = None  # of an answer whose warnings are not among these
        self._reported_changes: set[str] = set()

    def all(self) -> list[StreamWarning]:
        """Return the warnings; the list itself, to which others may be added."""
        if self.turn is not None:
            added = self.turn.warnings[self._of_turn :]
            self._of_turn += len(added)
            self._warnings += added
        if self._unrendered is not None:
            render, self._unrendered = self._unrendered, None
            self.add(render().warnings)
        return self._warnings

    def add(self, warnings: Sequence[StreamWarning]) -> None:
        """Add warnings; each change of content once a run, because every round renders the history again."""
        for warning in warnings:
            if warning.code != "content_changed" or warning.message not in self._reported_changes:
                self.all().append(warning)
                if warning.code == "content_changed":
                    self._reported_changes.add(warning.message)

    def add_changes_of(self, render: Callable[[], ThreadUpdate]) -> None:
        """Add, when the warnings are read, those about the changes that rendering makes to an answer.

        Args:
            render: returns what the answer adds to the conversation.
        """
        self.all()
        self._unrendered = render

    def end_turn(self) -> None:
        """Add the last warnings of the current turn."""
        self.all()
        self.turn, self._of_turn = None, 0
