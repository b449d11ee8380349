"""Every exception of streamkit, by who must act.

* StreamkitError
  - UsageError               you: the call was wrong; the message says how
    x UnknownProvider        the name is not a provider's; lists those there are
    x UnsupportedContent     the target cannot carry this content, and leaving it out was not asked for
  - StreamInterrupted        the provider or the network: the turn ended in an error; trying again may help
  - ToolFailed               raised by a tool, in whose words the model is to be told that it failed

Bad input from a wire raises none of these: it becomes an event and, where it ends the turn, ``turn.error``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["StreamInterrupted", "StreamkitError", "ToolFailed", "UnknownProvider", "UnsupportedContent", "UsageError"]


class StreamkitError(Exception):
    """The base of all that streamkit raises."""


class UsageError(StreamkitError):
    """streamkit was called in a way that cannot work. Mend the calling code."""


class UnknownProvider(UsageError):
    """No provider of this name is registered."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(sorted(known))
        super().__init__(f"unknown provider {name!r}; known are: {', '.join(self.known)}")


class UnsupportedContent(UsageError):
    """The target provider has no place for a piece of content, such as an image in a form that it does not take."""


class StreamInterrupted(StreamkitError):
    """A turn ended in an error.

    Attributes:
        error: the turn's ``StreamError`` (kind, message, raw, status, retry_after).
        turn: the ``Turn``, or None; what came before the error is readable there.
    """

    def __init__(self, error: Any, turn: Any = None) -> None:
        self.error = error
        self.turn = turn
        super().__init__(f"{error.kind}: {error.message}")


class ToolFailed(StreamkitError):
    """For tools to raise: the message is the call's error as it stands, a sentence that the model can act on.

    Any other exception of a tool becomes an error too, with its type and "failed" around it.
    """
