"""Eager start: which calls of an open turn may start before it ends (``docs/rules.md``, "Eager start"). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamkit.calls import CallRef, ToolCall
from streamkit.events import ArgumentsRestated, Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from streamkit.reading.turn import Turn
from streamkit.tools import Tool

__all__ = ["EagerCalls", "can_start_eagerly"]


def can_start_eagerly(tool: Tool) -> bool:
    """Return True if calls of this tool may start before their turn ends."""
    return tool.eager and tool.approval == "allow" and tool.function is not None


class EagerCalls:
    """The calls of one open turn that may start eagerly.

    Args:
        turn: the turn, while it is read.
        tools: by name.
    """

    def __init__(self, turn: Turn, tools: Mapping[str, Tool]) -> None:
        self._turn = turn
        self._tools = tools
        self._candidates: set[int] = set()  # indexes of calls of eager tools that are not known to be complete
        self._changed: set[int] = set()  # those of them that have changed since they were last examined

    def feed(self, events: Iterable[Event]) -> Iterator[tuple[CallRef, Tool] | ToolCall]:
        """Yield, for the turn's next events, each started call of a known tool, and each call that may run now."""
        for event in events:
            if event.choice or not isinstance(event, (ToolCallDelta, ArgumentsRestated, ToolCallStart, ToolCallEnd)):
                continue
            index = event.call.index
            if isinstance(event, ToolCallStart) and (tool := self._tools.get(event.call.name)) is not None:
                yield event.call, tool
                if can_start_eagerly(tool):
                    self._candidates.add(index)
            if index in self._candidates:
                self._changed.add(index)
            if isinstance(event, (ToolCallStart, ToolCallEnd)):
                yield from self._find_completed(index)

    def _find_completed(self, latest: int) -> Iterator[ToolCall]:
        """Yield the calls that are complete: the start of a call may prove that of an earlier one.

        Each change of a call is examined once, so that the work is linear in calls and deltas. The latest call stays to
        be examined, since the start of another one proves its end.
        """
        changed, self._changed = self._changed, {latest} & self._candidates
        for index in sorted(changed):
            call = self._turn.completed_call(index)
            if call is not None:
                self._candidates.discard(index)
                self._changed.discard(index)
                yield call
