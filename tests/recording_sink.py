"""A sink that records what a parser reports, for the tests of parsers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["RecordingSink"]


class RecordingSink:
    """A sink whose calls are recorded in order.

    A call is recorded as a tuple of the method's name and its arguments, keywords as their values. The names of a
    choice's methods end in ``#`` and its number, except those of choice 0.
    """

    def __init__(self) -> None:
        self.recorded: list[tuple[Any, ...]] = []
        self._choices: dict[int, Any] = {}

    def choice(self, index: int) -> Any:
        """Return the choice of that number."""
        return self._choices.setdefault(index, _RecordingChoice(self.recorded, f"#{index}" if index else ""))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _recorder(self.recorded, name)

    def select(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the recorded calls of these methods."""
        return [entry for entry in self.recorded if entry[0] in names]


class _RecordingChoice:
    def __init__(self, recorded: list[tuple[Any, ...]], suffix: str) -> None:
        self._recorded, self._suffix = recorded, suffix

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _recorder(self._recorded, name + self._suffix)


def _recorder(recorded: list[tuple[Any, ...]], name: str) -> Callable[..., None]:
    if name.startswith("__"):
        raise AttributeError(name)

    def record(*arguments: Any, **keywords: Any) -> None:
        recorded.append((name, *arguments, *keywords.values()))

    return record
