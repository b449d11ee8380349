"""Framing: the bytes of a stream to frames, which are delimited payloads. It does not interpret the payloads.

Every framer is pure and synchronous, accepts reads of any size at a cost linear in their bytes, returns a frame in the
``feed`` that completes it, and returns the same frames however the bytes were split. Nothing on the wire makes it
raise; after ``close`` and after an overflow it returns nothing more.
"""

from __future__ import annotations

from typing import Final

from streamkit.errors import UsageError
from streamkit.framing.framer import Frame, Framer
from streamkit.framing.sse import SseFramer

__all__ = ["DEFAULT_LIMIT", "Frame", "Framer", "SseFramer", "framer_for"]

#: Bytes of one frame. The largest that providers send are images in base64, a few MiB.
DEFAULT_LIMIT: Final = 16 * 1024 * 1024


def framer_for(framing: str, limit: int = DEFAULT_LIMIT) -> Framer:
    """Create a framer for one stream.

    Args:
        framing: ``sse``, ``ndjson``, ``event_stream`` or ``json_array``.
        limit: the most bytes of one frame.

    Returns:
        A new framer.

    Raises:
        UsageError: there is no framer of that name, or the limit is less than one byte.
    """
    if limit < 1:
        raise UsageError(f"the limit of a frame must be at least one byte, not {limit}")
    if framing == "sse":
        return SseFramer(limit)
    # The framers of few wires are loaded with their first stream.
    if framing in ("ndjson", "json_array"):
        from streamkit.framing.ndjson import JsonArrayFramer, NdjsonFramer

        return NdjsonFramer(limit) if framing == "ndjson" else JsonArrayFramer(limit)
    if framing == "event_stream":
        from streamkit.framing.event_stream import EventStreamFramer

        return EventStreamFramer(limit)
    raise UsageError(f"unknown framing {framing!r}; the framings are: sse, ndjson, event_stream, json_array")
