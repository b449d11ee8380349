"""The message with which a stream has started, for comparison with a second one.

Relays repeat the event or splice another message into a stream. Kept of a message are its id and a digest, a tenth of
the memory of its dicts, because nearly every turn has only one. This module must not depend on sinks or blocks.
"""

from __future__ import annotations

import hashlib

import msgspec

from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import as_text

__all__ = ["StartedMessage"]


class StartedMessage:
    """The message of a ``message_start``.

    Args:
        message: the message as plain data.

    Attributes:
        id: its id; None if it has none.
    """

    __slots__ = ("_digest", "id")

    def __init__(self, message: Json) -> None:
        self.id = as_text(message.get("id"))
        self._digest = _digest(message)

    def equals(self, message: Json) -> bool:
        """Return True if another message is equal to this one, in whatever order its fields are."""
        try:
            return self._digest == _digest(message)
        except RecursionError:
            return False


def _digest(message: Json) -> bytes | Json:
    """Return a digest of a message; the message if it is no JSON (half of a surrogate pair, too deep nesting)."""
    try:
        return hashlib.sha256(msgspec.json.encode(message, order="sorted")).digest()
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return message
