"""The message with which a stream has started, for comparison with a second one.

Relays repeat the event or splice another message into a stream. Kept of a message are its id and a hash of its JSON,
a tenth of the memory of its dicts, because most turns have only one. This module must not depend on sinks or blocks.
"""

from __future__ import annotations

import msgspec

from streamkit.json_text import json_size, measure_encoded
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import as_text

__all__ = ["StartedMessage"]

_encode = msgspec.json.Encoder(order="sorted").encode  # messages are equal in whatever order their fields are


class StartedMessage:
    """The message of a ``message_start``.

    Args:
        message: the message as plain data.

    Attributes:
        id: its id; None if it has none.
        size: what it counts against a limit (``json_size``).
    """

    __slots__ = ("_hash", "id", "size")

    def __init__(self, message: Json) -> None:
        self.id = as_text(message.get("id"))
        self._hash: int | Json
        try:
            text = _encode(message)
        except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
            # Half of a surrogate pair, too deep nesting: the message itself is compared.
            self._hash, self.size = message, json_size(message)
        else:
            self._hash, self.size = hash(text), measure_encoded(text)[0]

    def equals(self, other: StartedMessage) -> bool:
        """Return True if another message is equal to this one."""
        try:
            return self._hash == other._hash
        except RecursionError:
            return False
