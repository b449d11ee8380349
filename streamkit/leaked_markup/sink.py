"""A turn's sink with leaked markup taken out of its answers' text; see the package.

It stands between the parser and the accumulator, and only where the option is on.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

from streamkit.accumulator import Accumulator
from streamkit.calls import StreamError, Usage
from streamkit.errors import UsageError
from streamkit.leaked_markup.choice import MarkupChoice

__all__ = ["LeakedMarkup", "MarkupSink"]

LeakedMarkup: TypeAlias = Literal["keep", "strip", "recover"]


class MarkupSink:
    """Implements ``providers.protocol.Sink`` before an accumulator.

    Args:
        accumulator: what gathers the turn.
        mode: ``strip`` or ``recover``; for ``keep`` the accumulator itself is the parser's sink.

    Raises:
        UsageError: the mode is none of those.
    """

    def __init__(self, accumulator: Accumulator, mode: LeakedMarkup) -> None:
        if mode not in ("strip", "recover"):
            raise UsageError(f"leaked_markup is one of {', '.join(map(repr, get_args(LeakedMarkup)))}, not {mode!r}")
        self.recovers = mode == "recover"
        self._accumulator = accumulator
        self._answers: dict[int, MarkupChoice] = {}
        self._said: set[tuple[str, str]] = set()

    # ---------------------------------------------------------------- what the parser says

    def choice(self, index: int) -> MarkupChoice:
        """See ``Sink.choice``."""
        answer = self._answers.get(index)
        if answer is None:
            answer = self._answers[index] = MarkupChoice(self._accumulator.choice(index), self)
        return answer

    def identify(self, response_id: str | None, model: str | None) -> None:
        """See ``Sink.identify``."""
        self._accumulator.identify(response_id, model)

    def usage(self, usage: Usage) -> None:
        """See ``Sink.usage``."""
        self._accumulator.usage(usage)

    def terminate(self) -> None:
        """See ``Sink.terminate``."""
        self._accumulator.terminate()

    def heartbeat(self) -> None:
        """See ``Sink.heartbeat``."""
        self._accumulator.heartbeat()

    def fail(self, error: StreamError) -> None:
        """See ``Sink.fail``."""
        self._accumulator.fail(error)

    def warn(self, code: str, message: str) -> None:
        """See ``Sink.warn``."""
        self._accumulator.warn(code, message)

    def unknown(self, raw: Any) -> None:
        """See ``Sink.unknown``."""
        self._accumulator.unknown(raw)

    def close(self) -> None:
        """The input is over: settle what the answers' texts held back. Before the accumulator is closed."""
        for answer in self._answers.values():
            answer.close()

    # ---------------------------------------------------------------- what the answers say

    def warn_leaked(self, family: str) -> None:
        """Markup of that family was found."""
        done = "recovered as calls" if self.recovers else "taken out"
        self._say("leaked_markup", family, f"tool-call markup ({family}) stood in the text and was {done}")

    def warn_invalid(self, family: str) -> None:
        """What began as markup did not parse."""
        self._say("broken_markup", family, f"tool-call markup ({family}) that does not parse was kept as text")

    def warn_name_cleaned(self, name: str) -> None:
        """Control tokens were cut off a call's name."""
        self._say("leaked_markup", name, f"control tokens of the model were cut off the name {name!r}")

    def check_held(self, size: int) -> None:
        """So many characters of one construct are held; they count as the arguments that they may become."""
        limit = self._accumulator.limits.arguments
        if size > limit:
            self._accumulator.report_limit(f"tool-call markup in the text passed {limit} characters")

    def _say(self, code: str, about: str, message: str) -> None:
        if (code, about) not in self._said:
            self._said.add((code, about))
            self._accumulator.warn(code, message)
