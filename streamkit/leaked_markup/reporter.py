"""Settings, warnings and limits of leaked markup, shared by the choices of a turn."""

from __future__ import annotations

from collections.abc import Collection

from streamkit.accumulator import Accumulator
from streamkit.calls import MarkupFamily

__all__ = ["MarkupReporter"]

_MOST_REPORTED = 256  # as many as a turn keeps
_SHOWN = 80  # characters of a name in a warning


class MarkupReporter:
    """Reports leaked markup to the accumulator, each warning once a turn.

    Args:
        accumulator: the accumulator of the turn.
        recovers: True if markup is recovered as calls, False if it is stripped.
        families: the families whose markup is searched for.
        tools: the names of the tools that the model was offered; None if they are not known.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        recovers: bool,
        families: frozenset[MarkupFamily],
        tools: Collection[str] | None,
    ) -> None:
        self.recovers = recovers
        self.families = families
        self.cleans_names = "harmony" in families
        self._tools = None if tools is None else frozenset(tools)
        self._accumulator = accumulator
        self._reported: set[tuple[str, str]] = set()

    def is_offered(self, name: str) -> bool:
        """Return True if a tool of that name was offered, or if the offered tools are not known."""
        return self._tools is None or name in self._tools

    def warn_leaked(self, family: str) -> None:
        """Report that markup of a family was found."""
        action = "recovered as calls" if self.recovers else "removed"
        self._warn("leaked_markup", family, f"the text contained tool-call markup ({family}), which was {action}")

    def warn_invalid(self, family: str) -> None:
        """Report that text which began as markup did not parse."""
        self._warn("broken_markup", family, f"tool-call markup ({family}) that does not parse was kept as text")

    def warn_not_offered(self, family: str, name: str) -> None:
        """Report a call of a tool that was not offered."""
        shown = f"{name[:_SHOWN]!r}"
        message = f"tool-call markup ({family}) of a tool that was not offered, {shown}, was kept as text"
        self._warn("broken_markup", f"{family} {shown}", message)

    def warn_name_cleaned(self, name: str) -> None:
        """Report that control tokens were removed from the name of a call."""
        shown = f"{name[:_SHOWN]!r}"
        self._warn("leaked_markup", shown, f"control tokens of the model were removed from the name {shown}")

    def check_buffered(self, size: int) -> None:
        """Report the limit of arguments if so many buffered characters of one construct exceed it."""
        limit = self._accumulator.limits.arguments
        if size > limit:
            self._accumulator.report_limit(f"tool-call markup in the text exceeds {limit} characters")

    def _warn(self, code: str, subject: str, message: str) -> None:
        if (code, subject) not in self._reported and len(self._reported) <= _MOST_REPORTED:
            self._reported.add((code, subject))
            self._accumulator.warn(code, message)
