"""The frames of a turn, each with the events that it has caused: a parser that keeps them for `wire_relay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from streamkit.events import Event
from streamkit.providers.provider import Parser, Provider, Sink
from streamkit.providers.writing.wire_output import Json
from streamkit.reading.plain_frame import PlainDelta

__all__ = ["Frame", "RecordedProvider"]


class Frame(NamedTuple):
    """A frame of the upstream, the events that it has caused, and whether nothing is read after it."""

    name: bytes
    payload: bytes
    events: Sequence[Event]
    is_last: bool


class RecordedProvider(Provider):
    """A provider whose parser keeps the frames of one turn.

    Attributes:
        recorded: the provider.
        frames: those that were parsed since they were taken.
        has_plain_frames: a read of one plain delta need not be parsed (`reading.plain_frame`), and is no frame then.
        must_change: returns True for the frame of a delta in which something must change, so that none is plain.
    """

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider.traits, provider.package, rewrite=provider.rewrite)
        self.recorded: Provider = provider
        self.frames: list[Frame] = []
        self.has_plain_frames: bool = False
        self.must_change: Callable[[Frame], bool] = bool

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
        """Return what the parser has for plain frames (`PlainParser`), which are passed on without being parsed."""
        if not self._provider.has_plain_frames:
            raise AttributeError(name)
        found = getattr(self._parser, name)
        return partial(self._plain_delta, found) if name == "plain_delta" else found

    def _plain_delta(self, find: Callable[[], PlainDelta | None]) -> PlainDelta | None:
        provider = self._provider
        return None if provider.must_change(provider.frames[-1]) else find()

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one frame."""
        events = self._state.events
        before = len(events)
        self._parser.frame(name, data)
        self._provider.frames.append(Frame(name, data, events[before:], self._state.done))
