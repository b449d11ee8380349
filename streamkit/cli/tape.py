"""What came over the network, kept and cut anew: for the demo, which reads the same bytes more than once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from streamkit import providers
from streamkit.framing import framer_for

__all__ = ["cut_into_frames", "record_bytes"]


async def record_bytes(request: Any, tape: list[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a response, as the network cut them, and a copy of each on the tape."""
    async with request as response:
        async for piece in response.aiter_bytes():
            tape.append(piece)
            yield piece


def cut_into_frames(provider: str, data: bytes) -> Iterable[bytes]:
    """The same bytes, cut where a frame of that provider's wire ends."""
    framer = framer_for(providers.get(provider).traits.framing)
    start = 0
    for end in range(1, len(data) + 1):
        if framer.feed(data[end - 1 : end]):
            yield data[start:end]
            start = end
    if start < len(data):
        yield data[start:]
