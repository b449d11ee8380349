"""The chunks of a parser of one's own: ``SharedAccumulator.put`` against one ``Accumulator`` alone, for each chunk.

Both assign a chunk by the same code. The difference is the price of finding the stream by its name.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Row, Settings, interleave
from streamkit import Accumulator, NormalizedToolChunk, SharedAccumulator, process_tool_call_chunk
from streamkit.providers import WireTraits

__all__ = ["measure"]

STREAMS, DELTAS = 20, 500


def make_chunks() -> list[NormalizedToolChunk]:
    """Return the chunks of one call."""
    key = {"index": 0}
    parts = ['{"text": "', *["some text "] * DELTAS, '"}']
    deltas = [NormalizedToolChunk("delta", arguments_delta=part, metadata=key) for part in parts]
    return [NormalizedToolChunk("start", "a", "write", metadata=key), *deltas]


def put_shared(chunks: list[NormalizedToolChunk]) -> int:
    """Return the number of events of all streams, interleaved in one shared accumulator."""
    with SharedAccumulator() as shared:
        names = [f"stream {number}" for number in range(STREAMS)]
        return sum(len(shared.put(chunk, stream=name)) for chunk in chunks for name in names)


def put_alone(chunks: list[NormalizedToolChunk]) -> int:
    """Return the same of an accumulator for each stream."""
    alone = [Accumulator("", WireTraits(), turn_key=f"stream {number}") for number in range(STREAMS)]
    return sum(len(process_tool_call_chunk(chunk, calls)) for chunk in chunks for calls in alone)


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratio of a chunk in both."""
    chunks = make_chunks()
    if put_shared(chunks) != put_alone(chunks):
        raise SystemExit("the numbers of events differ")
    times = interleave({"shared": lambda: put_shared(chunks), "alone": lambda: put_alone(chunks)}, settings.rounds)
    count = STREAMS * len(chunks)
    note = f"{times.micros('shared', count):.2f} us a chunk, alone {times.micros('alone', count):.2f}"
    yield Row(f"{STREAMS} streams in one accumulator", times.ratio("shared", "alone"), note=note)
