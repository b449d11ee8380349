"""The interface of the framers."""

from __future__ import annotations

from typing import Protocol, TypeAlias

__all__ = ["Frame", "Framer"]

#: A frame: the event's name (``b""`` if the framing has none) and its payload.
Frame: TypeAlias = tuple[bytes, bytes]


class Framer(Protocol):
    """Splits the bytes of one stream into frames. Each stream has its own framer."""

    #: No further frame is returned: a frame exceeds the limit, finished or not, or has the ``error``. Frames before it
    #: were returned.
    overflow: bool

    @property
    def unseparated(self) -> bytes | None:
        """The payload of the first frame whose end was not marked, which was found nevertheless; None without one."""

    @property
    def error(self) -> str | None:
        """The error in the framing itself, such as a wrong checksum; None if there is none. Text framings have none."""

    @property
    def pending(self) -> bytes:
        """The bytes that are not part of a frame, such as half a frame; after ``close``, those that cannot be one."""

    @property
    def name(self) -> bytes:
        """The event's name of the frame whose payload ``take`` has returned last."""

    def take(self, data: bytes) -> bytes | None:
        """Return the payload of bytes that are one whole frame of the frequent form.

        None: they are not, or may not be, and nothing was read. ``feed`` reads any bytes, and these as one frame.
        """

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete."""

    def close(self) -> list[Frame]:
        """Return the frame that the end of the input completes, if any. Its payload may be incomplete."""
