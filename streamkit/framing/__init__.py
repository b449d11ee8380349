"""Bytes to frames: where one message of a stream ends and the next begins, and nothing of what it says.

Every framer is pure and synchronous, takes reads of any size at a cost linear in their bytes, gives a frame in the very
``feed`` that completes it, and gives the same frames however the bytes were cut. Nothing that a wire sends makes it
raise; after ``close`` and after an overflow it gives nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from streamkit.errors import UsageError
from streamkit.framing.event_stream import EventStreamFramer
from streamkit.framing.json_array import JsonArrayFramer
from streamkit.framing.ndjson import NdjsonFramer
from streamkit.framing.sse import SseFramer

__all__ = ["DEFAULT_LIMIT", "Frame", "Framer", "framer_for"]

#: A frame: the event's name (``b""`` where the framing has none) and its payload.
Frame: TypeAlias = tuple[bytes, bytes]

#: Bytes of one frame. The largest that vendors send are images in base64, a few MiB.
DEFAULT_LIMIT: Final = 16 * 1024 * 1024


class Framer(Protocol):
    """Bytes of one stream to its frames. Made anew for each stream."""

    #: Nothing more will be given: one frame passed the limit, finished or not, or has the ``fault``. The frames before
    #: it were given.
    overflow: bool

    @property
    def error(self) -> str | None:
        """What is wrong with the framing itself, such as a checksum; None while nothing is. Text framings have none."""

    @property
    def pending(self) -> bytes:
        """What stands unread, such as half a frame; after ``close``, what could not be made a frame."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""

    def close(self) -> list[Frame]:
        """The frame that the end of the input completes, if any. Its payload may be cut: the reader judges that."""


_FRAMERS: Final[dict[str, Callable[[int], Framer]]] = {
    "sse": SseFramer,
    "ndjson": NdjsonFramer,
    "event_stream": EventStreamFramer,
    "json_array": JsonArrayFramer,
}


def framer_for(framing: str, limit: int = DEFAULT_LIMIT) -> Framer:
    """A framer for one stream.

    Args:
        framing: ``sse``, ``ndjson``, ``eventstream`` or ``jsonarray``.
        limit: bytes that one frame may have.

    Raises:
        UsageError: there is no framer of that name, or the limit is less than one byte.
    """
    if limit < 1:
        raise UsageError(f"a frame's limit is at least one byte, not {limit}")
    make = _FRAMERS.get(framing)
    if make is None:
        raise UsageError(f"framing {framing!r} is unknown; there are: {', '.join(_FRAMERS)}")
    return make(limit)
