"""The sink of a turn that removes leaked markup from the text of its choices; see the package.

It is used only if the option is on, between the parser and the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias, get_args

from streamkit.accumulator import Accumulator
from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily, StreamError, Usage
from streamkit.errors import UsageError
from streamkit.leaked_markup.choice import MarkupChoice
from streamkit.leaked_markup.reporter import MarkupReporter

__all__ = ["LeakedMarkup", "MarkupSink"]

LeakedMarkup: TypeAlias = Literal["keep", "strip", "recover"]


class MarkupSink:
    """An implementation of ``providers.provider.Sink`` that wraps an accumulator.

    Args:
        accumulator: the accumulator of the turn.
        mode: ``strip`` or ``recover``; for ``keep`` the accumulator itself is the parser's sink.
        families: the markup that the provider's models use (``Traits.markup_families``).
        tools: the names of the offered tools; None if they are not known.

    Raises:
        UsageError: the mode is none of those.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        mode: LeakedMarkup,
        families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES,
        tools: Collection[str] | None = None,
    ) -> None:
        if mode not in ("strip", "recover"):
            raise UsageError(f"leaked_markup is one of {', '.join(map(repr, get_args(LeakedMarkup)))}, not {mode!r}")
        self._accumulator = accumulator
        self._reporter = MarkupReporter(accumulator, recovers=mode == "recover", families=families, tools=tools)
        self._choices: dict[int, MarkupChoice] = {}

    def choice(self, index: int) -> MarkupChoice:
        """Implement ``Sink.choice``."""
        choice = self._choices.get(index) if index.__class__ is int else None
        if choice is None:
            inner = self._accumulator.choice(index)  # which reads "0" and 0.0 as 0
            choice = self._choices.setdefault(inner.index, MarkupChoice(inner, self._reporter))
        return choice

    def identify(self, response_id: str | None, model: str | None, facts: Mapping[str, Any] | None = None) -> None:
        """Implement ``Sink.identify``."""
        self._accumulator.identify(response_id, model, facts)

    def add_response_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Implement ``Sink.add_response_metadata``."""
        self._accumulator.add_response_metadata(metadata)

    def usage(self, usage: Usage) -> None:
        """Implement ``Sink.usage``."""
        self._accumulator.usage(usage)

    def terminate(self) -> None:
        """Implement ``Sink.terminate``."""
        self._accumulator.terminate()

    def heartbeat(self) -> None:
        """Implement ``Sink.heartbeat``."""
        self._accumulator.heartbeat()

    def fail(self, error: StreamError) -> None:
        """Implement ``Sink.fail``."""
        self._accumulator.fail(error)

    def warn(self, code: str, message: str) -> None:
        """Implement ``Sink.warn``."""
        self._accumulator.warn(code, message)

    def unknown_field(self, name: str, value: Any) -> None:
        """Implement ``Sink.unknown_field``."""
        self._accumulator.unknown_field(name, value)

    def unknown(self, raw: Any) -> None:
        """Implement ``Sink.unknown``."""
        self._accumulator.unknown(raw)

    def keep(self, size: int) -> bool:
        """Implement ``Sink.keep``."""
        return self._accumulator.keep(size)

    def join_with(self, join: Callable[[], int]) -> None:
        """Implement ``Sink.join_with``."""
        self._accumulator.join_with(join)

    def close(self) -> None:
        """Finalize the buffered text of the choices. Call it before the accumulator is closed."""
        for choice in self._choices.values():
            choice.close()
