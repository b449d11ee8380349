"""What happened when, drawn: a lane for each thing, growing while it goes on. It knows rich, not what goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

__all__ = ["Lane", "Timeline"]

_NAMES = 21  # columns that the longest name takes, right-aligned


@dataclass(slots=True)
class Lane:
    """One thing that goes on for a while.

    Attributes:
        name: what it is.
        begin: seconds after the start; None where it has not begun.
        end: the same; None where it goes on.
    """

    name: str
    begin: float | None = None
    end: float | None = None


class Timeline:
    """Some lanes on one clock. Show it with rich, live or once.

    Args:
        title: what all of it is.
        lanes: in the order in which they are shown; their number does not change, since a live picture is drawn by
            another thread.
        seconds: how long it is thought to take; where it takes longer the scale shrinks.
        clock: the seconds now since the start.

    Attributes:
        took: the seconds of the whole, None while it goes on.
    """

    def __init__(
        self, title: str, lanes: list[Lane], seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title = title
        self._lanes = lanes
        self._seconds = seconds
        self._clock = clock
        self.took: float | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        now = self._clock() if self.took is None else self.took
        begun = any(lane.begin is not None for lane in self._lanes)
        told = Text(f"  {self._title}", no_wrap=True)
        if begun:
            told.append(f"  {now:.2f} s", style="bold")
        yield told
        columns = max(10, options.max_width - _NAMES - 1)
        scale = columns / max(self._seconds, now)
        line = "=" if options.ascii_only else "━"
        for lane in self._lanes:
            row = Text(f"{lane.name:>{_NAMES}} ", style="dim", no_wrap=True, overflow="crop")
            if lane.begin is not None:
                end = now if lane.end is None else lane.end
                # Never nothing: what was too short for a column has happened all the same.
                start = min(round(lane.begin * scale), columns - 1)
                length = min(max(1, round(end * scale) - start), columns - start)
                row.append(" " * start)
                row.append(line * length, style="not dim yellow" if lane.end is None else "not dim green")
            yield row
