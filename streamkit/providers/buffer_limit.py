"""The limit of the data that a parser buffers of one block.

The accumulator's limits count what a parser has reported. A parser that must have a block complete before it can report
it (a server tool's input, an image) buffers it first, and applies this limit.
"""

from __future__ import annotations

from streamkit.calls import StreamError
from streamkit.providers.sink import Sink

__all__ = ["MAX_BUFFERED", "exceeds_buffer_limit"]

#: Characters of one block: as many as the accumulator allows for a call's arguments by default.
MAX_BUFFERED = 8 * 1024 * 1024


def exceeds_buffer_limit(size: int, sink: Sink) -> bool:
    """Return True, and end the turn with ``limit_exceeded``, if a buffered block has become too long.

    Args:
        size: Characters that are buffered of one block.
        sink: The sink that gets the error.
    """
    if size <= MAX_BUFFERED:
        return False
    sink.fail(StreamError("limit_exceeded", f"one block passed {MAX_BUFFERED} characters"))
    return True
