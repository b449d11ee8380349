"""The same work by hand: the loops that people write without a library, which give the floor of every ratio.

They decode and nothing else: no events, no calls, no text kept, no limits, no errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

import orjson

__all__ = ["as_source", "decode_frames", "iterate_chunks"]


def decode_frames(reads: Iterable[bytes]) -> int:
    """Split SSE at its blank lines and decode each data line with ``orjson.loads``; return the number of chunks."""
    count, tail = 0, b""
    for read in reads:
        tail += read
        if b"\r" in tail:
            tail = tail.replace(b"\r\n", b"\n")
        *events, tail = tail.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    orjson.loads(payload)
                    count += 1
    return count


async def iterate_chunks(source: AsyncIterable[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of an asynchronous source as dicts: ``decode_frames`` as an asynchronous generator."""
    tail = b""
    async for read in source:
        tail += read
        if b"\r" in tail:
            tail = tail.replace(b"\r\n", b"\n")
        *events, tail = tail.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                if line.startswith(b"data: "):
                    payload = line[6:]
                elif line.startswith(b"data:"):
                    payload = line[5:]
                else:
                    continue
                if payload != b"[DONE]":
                    yield orjson.loads(payload)


async def as_source(reads: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield reads from memory, as a client yields those of the network."""
    for read in reads:
        yield read
