"""Warnings and limits of leaked markup, shared by the choices of a turn."""

from __future__ import annotations

from streamkit.accumulator import Accumulator

__all__ = ["MarkupReporter"]


class MarkupReporter:
    """Reports leaked markup to the accumulator, each warning once a turn.

    Args:
        accumulator: the accumulator of the turn.
        recovers: True if markup is recovered as calls, False if it is stripped.
    """

    def __init__(self, accumulator: Accumulator, *, recovers: bool) -> None:
        self.recovers = recovers
        self._accumulator = accumulator
        self._reported: set[tuple[str, str]] = set()

    def warn_leaked(self, family: str) -> None:
        """Report that markup of a family was found."""
        action = "recovered as calls" if self.recovers else "removed"
        self._warn("leaked_markup", family, f"the text contained tool-call markup ({family}), which was {action}")

    def warn_invalid(self, family: str) -> None:
        """Report that text which began as markup did not parse."""
        self._warn("broken_markup", family, f"tool-call markup ({family}) that does not parse was kept as text")

    def warn_name_cleaned(self, name: str) -> None:
        """Report that control tokens were removed from the name of a call."""
        self._warn("leaked_markup", name, f"control tokens of the model were removed from the name {name!r}")

    def check_buffered(self, size: int) -> None:
        """Report the limit of arguments if so many buffered characters of one construct exceed it."""
        limit = self._accumulator.limits.arguments
        if size > limit:
            self._accumulator.report_limit(f"tool-call markup in the text exceeds {limit} characters")

    def _warn(self, code: str, subject: str, message: str) -> None:
        if (code, subject) not in self._reported:
            self._reported.add((code, subject))
            self._accumulator.warn(code, message)
