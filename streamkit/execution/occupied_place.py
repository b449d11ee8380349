"""The places of schedules that a running tool occupies, and with which its own calls would wait for itself."""

from __future__ import annotations

from contextvars import ContextVar

from streamkit.errors import UsageError
from streamkit.execution.scheduler import Schedule

__all__ = ["OccupiedPlace"]


class OccupiedPlace:
    """The place of a schedule that the tool of the current task occupies, while it runs.

    Args:
        schedule: the schedule of the tool's call.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule: Schedule | None = schedule
        _occupied_places.set((*_occupied_places.get(), self))

    def leave(self) -> None:
        """Declare that the tool has ended. Tasks that it has left have a copy of its context."""
        self._schedule = None

    @staticmethod
    def check_outside_of(schedule: Schedule) -> None:
        """Reject a schedule in which the running tool, or one around it, occupies a place.

        Raises:
            UsageError: it is such a schedule: the calls might wait for the tool that waits for them.
        """
        if any(place._schedule is schedule for place in _occupied_places.get()):
            raise UsageError(
                "this Schedule runs the tool that uses it, whose calls would wait for the place that the tool occupies:"
                " pass another Schedule, or a number, as limit= inside a tool"
            )


_occupied_places: ContextVar[tuple[OccupiedPlace, ...]] = ContextVar("streamkit_occupied_places", default=())
