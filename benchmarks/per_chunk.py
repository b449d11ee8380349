"""CPU time from bytes to completed calls, compared with a loop that only decodes the JSON of each event.

The floor splits the same bytes into events and decodes each with ``orjson.loads``. It makes no events and no calls, and
keeps no text. streamkit does all its work through the public ``Turn``, with every limit and warning on. Both read one
event at a time, alternate in one process, and are measured in process CPU time. Compare the ratios of medians: absolute
times on a shared machine are not reproducible.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import orjson

from benchmarks.streams import STREAMS
from streamkit import Turn


def decode_only(reads: list[bytes]) -> int:
    """Split SSE and decode: the first loop that people write."""
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
                    if payload != b"[DONE]":
                        orjson.loads(payload)
                        count += 1
    return count


def run_turn(provider: str, reads: list[bytes]) -> Turn:
    """Feed the same bytes to a ``Turn``."""
    turn = Turn(provider, turn_key="benchmark")
    for read in reads:
        turn.feed(read)
    turn.close()
    return turn


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one run, after a garbage collection."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", choices=sorted(STREAMS))
    options = parser.parse_args(argv)
    print(f"microseconds for a chunk, medians of {options.rounds} rounds")
    print(f"{'wire':<18}{'chunks':>8}{'floor':>12}{'streamkit':>12}{'ratio':>8}")
    for provider, make in STREAMS.items():
        if options.only not in (None, provider):
            continue
        reads = make()
        turn = run_turn(provider, reads)
        if turn.error is not None or len(turn.executable) != 2:
            raise SystemExit(f"{provider}: the stream was not read correctly: {turn.error} {turn.calls}")
        decode_only(reads)
        floor_times, turn_times = [], []
        for _ in range(options.rounds):
            floor_times.append(seconds(lambda reads=reads: decode_only(reads)))
            turn_times.append(seconds(lambda reads=reads, provider=provider: run_turn(provider, reads)))
        floor, streamkit = (statistics.median(times) / len(reads) * 1e6 for times in (floor_times, turn_times))
        print(f"{provider:<18}{len(reads):>8}{floor:>12.2f}{streamkit:>12.2f}{streamkit / floor:>8.2f}")


if __name__ == "__main__":
    main()
