"""Every exception of streamkit, by who must act.

* StreamkitError
  - UsageError               the caller: the call was wrong; the message explains how
    x UnknownProvider        no provider has that name; the message lists the registered ones
    x UnsupportedContent     the target cannot carry this content, and omitting it was not requested
  - StreamInterrupted        the provider or the network: the turn ended in an error; another attempt may help
  - ToolFailed               raised by a tool; its message is sent to the model

Bad input from a wire raises none of these: it becomes an event and, if it ends the turn, ``turn.error``. The module
depends on nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["StreamInterrupted", "StreamkitError", "ToolFailed", "UnknownProvider", "UnsupportedContent", "UsageError"]


class StreamkitError(Exception):
    """The base class of all exceptions of streamkit."""


class UsageError(StreamkitError):
    """A call of streamkit that cannot work. Correct the calling code."""


class UnknownProvider(UsageError):
    """A name that no registered provider has."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f"unknown provider {name!r}; known are: {', '.join(self.known)}")


class UnsupportedContent(UsageError):
    """Content that the target provider cannot carry, such as an image in a form that it does not accept."""


class StreamInterrupted(StreamkitError):
    """A turn that ended in an error.

    Attributes:
        error: the turn's ``StreamError`` (kind, message, code, raw, status, retry_after).
        turn: the ``Turn``, or None; what arrived before the error is readable there.
        results: the ``ToolResult`` of each call that had started before the turn failed: such calls may have had
            effects, which their metadata ``effects_possible`` marks. Raised by a run only.
    """

    def __init__(self, error: Any, turn: Any = None, results: Iterable[Any] = ()) -> None:
        self.error = error
        self.turn = turn
        self.results = tuple(results)
        status = f" (status {error.status})" if error.status is not None else ""
        super().__init__(f"{error.kind}{status}: {error.message}")


class ToolFailed(StreamkitError):
    """An exception for tools to raise: the message becomes the call's error unchanged, so write it for the model.

    Any other exception of a tool becomes an error too, with its type and "failed" around the message.
    """
