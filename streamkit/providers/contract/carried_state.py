"""The mark of carried state: an upstream's opaque state as one text in an opaque field of a client's own wire.

The text is base64 of the standard alphabet and begins with a fixed name and version, by which writers and importers
recognize it. What follows is the business of the gateway that has written it (`gateway.translation.state_text`). This
module must not depend on history: writers load it without pydantic.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

__all__ = ["MARKED_BYTES", "STATE_MARK", "is_wrapped_state"]

#: 18 bytes, so that every wrapped state begins with the same 24 characters.
MARKED_BYTES: Final = b"streamkit-state-1:"
STATE_MARK: Final = b64encode(MARKED_BYTES).decode()  #: the beginning of each


def is_wrapped_state(value: Any) -> bool:
    """Return True if a value is a text that begins as all carried state does, also if it is damaged or forged."""
    return isinstance(value, str) and value.startswith(STATE_MARK)
