"""What concerns a whole turn: who answers, usage, the error, warnings, limits, whether the turn was confirmed."""

from __future__ import annotations

from msgspec import Struct

from streamkit.accumulator.choice import Choice
from streamkit.calls import StreamError, StreamWarning, Usage, WireTraits
from streamkit.events import Event, Failed, NormalizedToolChunk, TurnEvent, Unknown, UsageReport, Warned
from streamkit.json_text import deepest_nesting, nests_deeper

__all__ = ["Accumulator", "Limits", "process_tool_call_chunk"]

MAX_WARNINGS = 256  # a stream that is odd in every chunk must not grow memory; people read the first few
STORED_NESTING = 200  # pydantic writes JSON of at most 255 levels, of which a Content takes a few
MAX_CHOICES = 128  # OpenAI's own bound of n (platform.openai.com/docs/api-reference/chat/create)


class Limits(Struct, frozen=True, kw_only=True):
    """How much a turn may hold. Passing one ends it with ``limit_exceeded``, before memory grows."""

    arguments: int = 8 * 1024 * 1024  #: characters of one call's arguments
    text: int = 64 * 1024 * 1024  #: characters of text, reasoning and files together
    calls: int = 1024  #: calls of a turn
    frame: int = 16 * 1024 * 1024  #: bytes of one frame
    nesting: int = 256  #: brackets within brackets in a call's arguments (in a provider's own block at most 200)


class Accumulator:
    """Gathers one turn; implements ``providers.protocol.Sink``. ``events`` takes what there is to say."""

    def __init__(
        self,
        provider_name: str,
        habits: WireTraits,
        *,
        turn_key: str | None = None,
        limits: Limits | None = None,
        recover_trailing_junk: bool = True,
    ) -> None:
        self.provider_name = provider_name
        self.habits = habits
        self.turn_key = turn_key
        self.limits = limits or Limits()
        self.recover_trailing_junk = recover_trailing_junk
        self.events: list[Event] = []
        self.choices: dict[int, Choice] = {}
        self.response_id: str | None = None
        self.model: str | None = None
        self.total_usage: Usage | None = None
        self.error: StreamError | None = None
        self.warnings: list[StreamWarning] = []
        self.done = False  # the terminator, or an error other than the provider's own: nothing more is read
        self.terminated = False
        self.at_end = False  # the input has ended: a frame that is no JSON was cut
        self.unknown_chunks = 0
        self.status: tuple[int, float | None] = (0, None)  # what HTTP said, and how long to wait
        self._call_count = 0
        self._text_size = 0
        self._claimed: set[str] = set()
        self._answer = self.choice(0)

    # ---------------------------------------------------------------- what the parser says

    def choice(self, index: int) -> Choice:
        """See ``Sink.choice``."""
        answer = self.choices.get(index)
        if answer is None:
            answer = Choice(self, index)
            if len(self.choices) >= MAX_CHOICES:
                self.report_limit(f"more than {MAX_CHOICES} choices")
            else:
                self.choices[index] = answer
        return answer

    def identify(self, response_id: str | None, model: str | None) -> None:
        """See ``Sink.identify``."""
        if response_id and self.response_id is None:
            self.response_id = response_id
        if model:
            self.model = model

    def usage(self, usage: Usage) -> None:
        """See ``Sink.usage``."""
        self.total_usage = usage if self.total_usage is None else self.total_usage.updated_with(usage)
        self.events.append(UsageReport(self.total_usage))

    def terminate(self) -> None:
        """See ``Sink.terminate``. What comes behind it is not read, so that it is the same whenever reading stops."""
        self.terminated = self.done = True

    def heartbeat(self) -> None:
        """See ``Sink.heartbeat``. A chunk that is not unknown is this wire's, so there is nothing to keep."""

    def fail(self, error: StreamError) -> None:
        """See ``Sink.fail``. The first error is the turn's."""
        if error.kind == "provider_error" and self.status[0] >= 400 and error.status is None:
            error = StreamError(error.kind, error.message, error.raw, *self.status)
        if self.at_end and error.kind == "protocol_error":
            error = StreamError("stream_truncated", "the stream ended inside a frame", error.raw)
        self.done = self.done or error.kind != "provider_error"
        if self.error is not None:
            self.warn("another_error", f"{error.kind}: {error.message}")
            return
        self.error = error
        self.events.append(Failed(error))

    def warn(self, code: str, message: str) -> None:
        """See ``Sink.warn``."""
        self.record_warning(StreamWarning(code, message))

    def unknown(self, raw: object) -> None:
        """See ``Sink.unknown``."""
        self.unknown_chunks += 1
        self.events.append(Unknown(raw))

    # ---------------------------------------------------------------- what the answers need

    def record_warning(self, warning: StreamWarning, choice: int = 0) -> None:
        """Keep a warning and say it; after the first few hundred, only that there are more."""
        if len(self.warnings) > MAX_WARNINGS:
            return
        if len(self.warnings) == MAX_WARNINGS:
            warning = StreamWarning("more_warnings", f"more than {MAX_WARNINGS} warnings; the rest is not kept")
        self.warnings.append(warning)
        self.events.append(Warned(warning.code, warning.message, choice))

    @property
    def confirmed(self) -> bool:
        """The provider said that the first answer is over."""
        return self.terminated or self._answer.finish_as_sent is not None

    def is_recognized(self, chunks: int) -> bool:
        """Whether any of so many chunks was of this wire: one of them said something that has a word."""
        spoken = self.response_id or self.total_usage or self.confirmed or self._answer.blocks or len(self.choices) > 1
        return bool(spoken) or chunks > self.unknown_chunks

    def report_limit(self, what: str) -> None:
        """A limit was passed."""
        if self.error is None or self.error.kind != "limit_exceeded":
            self.fail(StreamError("limit_exceeded", what))

    def check_nesting(self, value: object) -> bool:
        """Whether a provider's own block nests deeper than history can be written; then the turn ends."""
        limit = min(self.limits.nesting, STORED_NESTING)
        if not nests_deeper(value, limit):
            return False
        self.report_limit(f"a provider's own block nests deeper than {limit}")
        return True

    def add_text_size(self, size: int) -> None:
        """So many more characters are held."""
        self._text_size += size
        if self._text_size > self.limits.text:
            self.report_limit(f"text and reasoning passed {self.limits.text} characters")

    def count_call(self) -> bool:
        """One more call; True where it is one too many."""
        self._call_count += 1
        if self._call_count > self.limits.calls:
            self.report_limit(f"more than {self.limits.calls} calls")
            return True
        return False

    def resolve_turn_key(self) -> str:
        """The stable name of the turn, as far as it is known now; from its first use on it does not change."""
        if self.turn_key is None:
            self.turn_key = self.response_id
            if self.turn_key is None:
                self.turn_key = "turn"
                self.warn(
                    "no_turn_key", "no turn_key was given and the wire sent no response id: ids repeat over turns"
                )
        return self.turn_key

    def reserve_id(self, canonical_id: str) -> bool:
        """Whether no call of this turn has that id yet; from now on one has."""
        if canonical_id in self._claimed:
            return False
        self._claimed.add(canonical_id)
        return True

    # ---------------------------------------------------------------- the end

    def close(self, *, complete: bool) -> None:
        """Decide everything that waits for the end. ``complete``: the source itself ended in order."""
        confirmed = self.terminated or complete
        for answer in list(self.choices.values()):
            answer.close(confirmed=confirmed)
        self._check_nesting()
        if self.error is None and any(answer.finished is None for answer in self._non_empty_choices()):
            self.fail(
                StreamError(
                    "stream_truncated",
                    "the stream ended before the answer was whole"
                    if confirmed
                    else "the stream ended without a finish reason or a terminator",
                )
            )
        for answer in self._non_empty_choices():
            if self.error is None:
                answer.mark_executable()
            answer.emit_finished()

    def _non_empty_choices(self) -> list[Choice]:
        """The answers that count: all but a first one that never said anything where others did."""
        answers = [answer for _, answer in sorted(self.choices.items())]
        return [answer for answer in answers if answer.blocks or answer.finish_as_sent is not None] or answers[:1]

    def _check_nesting(self) -> None:
        for answer in self.choices.values():
            for call in answer.tracker.calls:
                if call.kind == "function" and deepest_nesting(call.text) > self.limits.nesting:
                    call.state = "invalid"
                    self.report_limit(f"the arguments of {call.name!r} nest deeper than {self.limits.nesting}")


def process_tool_call_chunk(chunk: NormalizedToolChunk, calls: Accumulator) -> list[TurnEvent]:
    """Hand one piece of a call to an accumulator and take the events it makes; for parsers of one's own.

    Args:
        chunk: the piece.
        calls: what gathers the turn; read ``calls.choice(0).calls``.
    """
    before = len(calls.events)
    calls.choice(0).tool(chunk)
    events = calls.events[before:]
    del calls.events[before:]
    return events  # type: ignore[return-value]  # an accumulator says only what a stream can say
