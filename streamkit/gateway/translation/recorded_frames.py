"""The frames of a turn, each with the events that it has caused: a parser that keeps them for `wire_relay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamkit.events import Event
from streamkit.providers.provider import Parser, Provider, Sink
from streamkit.providers.writing.wire_output import Json

__all__ = ["Frame", "RecordedProvider"]


class Frame(NamedTuple):
    """A frame of the upstream, the events that it has caused, and whether it ends the turn or makes it fail."""

    name: bytes
    payload: bytes
    events: Sequence[Event]
    is_last: bool


class RecordedProvider(Provider):
    """A provider whose parser keeps the frames of one turn.

    Attributes:
        recorded: the provider.
        frames: those that were parsed since they were taken. A read of one plain delta is none (`reading.plain_frame`).
    """

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider.traits, provider.package, rewrite=provider.rewrite)
        self.recorded: Provider = provider
        self.frames: list[Frame] = []

    def parser(self, sink: Sink) -> Parser:
        """Return a parser for one turn that reports to ``sink``."""
        return _FrameRecorder(self.recorded.parser(sink), sink, self)


class _FrameRecorder:
    """A parser that keeps each frame with its events."""

    def __init__(self, parser: Parser, sink: Any, provider: RecordedProvider) -> None:
        self._parser = parser
        self._state = sink.state
        self._provider = provider
        self.end: Callable[[], None] = parser.end
        self.chunk: Callable[[Json], None] = parser.chunk

    def __getattr__(self, name: str) -> Any:
        """Return what the parser has for plain frames (`PlainParser`), which are read without it."""
        return getattr(self._parser, name)

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one frame."""
        events = self._state.events
        before = len(events)
        self._parser.frame(name, data)
        is_last = self._state.done or self._state.error is not None
        self._provider.frames.append(Frame(name, data, events[before:], is_last))
