"""How long a source is waited for. Pure: times are passed in.

Three limits end a turn with the error ``timed_out`` (docs/rules.md, "Time limits"): until the first event, between two
inputs, and a deadline. This module must not depend on a clock or an event loop; ``stream_reader`` has both.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct

from streamkit.calls import StreamError
from streamkit.errors import UsageError
from streamkit.events import Event, Failed, Finished, ResponseStarted, UsageReport, Warned

__all__ = ["TIMED_OUT", "TimeLimits", "Timeouts", "check_seconds", "has_content"]

#: The error of a turn whose run is out of time.
TIMED_OUT = StreamError("timed_out", "the time limit passed before the response had ended")

# What a response may consist of before the model has generated anything.
_WITHOUT_CONTENT = (ResponseStarted, UsageReport, Warned, Failed, Finished)


def has_content(events: Iterable[Event]) -> bool:
    """Return True if an event is more than the start, the usage, a warning, the failure or the end of a response."""
    return not all(isinstance(event, _WITHOUT_CONTENT) for event in events)


def check_seconds(name: str, seconds: object) -> None:
    """Raise ``UsageError`` unless a value is a number of seconds above 0, or None.

    Raises:
        UsageError: with the value, and what to pass.
    """
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (is_number and seconds > 0):  # type: ignore[operator]  # NaN is not above 0
        raise UsageError(f"{name} must be a number of seconds above 0, or None, not {seconds!r}")


class Timeouts(Struct, frozen=True):
    """How long calls, a run and its requests may take. Where a function takes these, a number means ``call``.

    Attributes:
        call: seconds for each call of a tool; None for no limit. A tool's own timeout takes precedence.
        run: seconds for all of it, requests and calls; what has not ended by then is ``timed_out``.
        first_event: seconds from a request to its first event with content (text, reasoning, a call, ...); None for no
            limit. The turn ends with the error ``timed_out`` then.
        idle: seconds without input of a response, in the same way; before the first event only if ``first_event`` is
            None. The time in which the caller handles events is not counted.
        heartbeats: input without events (the comments and pings that servers send while a model is silent) counts as
            input; False: only input with events does.

    Raises:
        UsageError: a number of seconds is not above 0.
    """

    call: float | None = 30.0
    run: float | None = None
    first_event: float | None = None
    idle: float | None = None
    heartbeats: bool = True

    def __post_init__(self) -> None:
        for name in ("call", "run", "first_event", "idle"):
            if getattr(self, name) is not None:
                check_seconds(f"timeouts.{name}", getattr(self, name))
        if not isinstance(self.heartbeats, bool):
            raise UsageError(f"timeouts.heartbeats must be True or False, not {self.heartbeats!r}")

    @classmethod
    def of(cls, value: Timeouts | float | None) -> Timeouts:
        """Return the time limits that a caller passed: a number means ``call``, None that calls have no limit."""
        return value if isinstance(value, Timeouts) else cls(call=value)


class TimeLimits(Struct, frozen=True):
    """The limits of one request.

    Attributes:
        first_event: seconds from the request to the first event with content; None for no limit.
        idle: seconds without input, before the first event only if ``first_event`` is None; None for no limit.
        heartbeats: input without events (comments, pings) ends the silence too.
        deadline: a time of the event loop's clock; None for no limit.
    """

    first_event: float | None = None
    idle: float | None = None
    heartbeats: bool = True
    deadline: float | None = None

    @classmethod
    def of(cls, timeouts: Timeouts, deadline: float | None = None) -> TimeLimits:
        """Return the limits of a request of a run or reader with these timeouts, which ends at the deadline."""
        return cls(timeouts.first_event, timeouts.idle, timeouts.heartbeats, deadline)

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.has_silence_limit or self.deadline is not None

    @property
    def has_silence_limit(self) -> bool:
        """Whether silence is limited, and not only the complete time."""
        return self.first_event is not None or self.idle is not None

    def silence_expiry(self, started: float, silent_since: float, *, has_first_event: bool) -> float:
        """Return the time at which the silence has lasted too long; infinity if that is not limited.

        Args:
            started: the time of the request.
            silent_since: the time since which no input has arrived.
            has_first_event: an event with content has arrived.
        """
        if self.first_event is not None and not has_first_event:
            return started + self.first_event
        return inf if self.idle is None else silent_since + self.idle

    def expiry(self, started: float, silent_since: float, *, has_first_event: bool) -> float:
        """Return the time at which waiting ends by any limit; the arguments are those of ``silence_expiry``."""
        silence = self.silence_expiry(started, silent_since, has_first_event=has_first_event)
        return silence if self.deadline is None else min(silence, self.deadline)

    def error(self, now: float, *, has_first_event: bool) -> StreamError:
        """Return the error of a wait that has ended by a limit.

        Args:
            now: the time of its end.
            has_first_event: an event with content has arrived.
        """
        if self.deadline is not None and now >= self.deadline:
            return TIMED_OUT
        if self.first_event is not None and not has_first_event:
            message = f"no event arrived within {self.first_event:g} seconds of the request (first_event)"
        else:
            message = f"no input arrived for {self.idle:g} seconds (idle)"
            if not self.heartbeats:
                message = f"no input with an event arrived for {self.idle:g} seconds (idle)"
        return StreamError("timed_out", message)
