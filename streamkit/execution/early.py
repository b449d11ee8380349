"""Which calls of an open turn may begin before it is over. Pure.

Those of tools that say that it is safe (``eager``), and that nobody need be asked about, once the call is known to be
whole (``Turn.whole_call``). Whether there is room for one is ``schedule``'s, what becomes of it ``rounds``'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamkit.calls import CallRef, ToolCall
from streamkit.events import Event, ToolCallEnd, ToolCallStart
from streamkit.tools import Tool
from streamkit.turn import Turn

__all__ = ["EagerCalls", "can_start_eagerly"]


def can_start_eagerly(tool: Tool) -> bool:
    """Whether calls of this tool may begin before their turn is over."""
    return tool.eager and tool.approval == "allow" and tool.function is not None


class EagerCalls:
    """The calls of one open turn.

    Args:
        turn: the turn, as it is read.
        tools: by name.
    """

    def __init__(self, turn: Turn, tools: Mapping[str, Tool]) -> None:
        self._turn = turn
        self._tools = tools
        self._candidates: list[int] = []  # of safe tools, and not known to be whole

    def take(self, events: Iterable[Event]) -> Iterator[tuple[CallRef, Tool] | ToolCall]:
        """What the turn's next events say: each call of a known tool that began, and each that may begin to run."""
        for event in events:
            if not isinstance(event, (ToolCallStart, ToolCallEnd)) or event.choice:
                continue
            if isinstance(event, ToolCallStart) and (tool := self._tools.get(event.call.name)) is not None:
                yield event.call, tool
                if can_start_eagerly(tool):
                    self._candidates.append(event.call.index)
            # A call that began may be what shows that one before it is over.
            found = [call for index in self._candidates if (call := self._turn.completed_call(index)) is not None]
            for call in found:
                self._candidates.remove(call.index)
                yield call
