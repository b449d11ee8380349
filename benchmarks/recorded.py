"""Recorded streams of real servers: the CPU time of ``Turn``, against the loops by hand of ``floors``.

One frame in each read. The streams are those of ``tests/recorded`` and of a folder of captures (``--captures``, or the
environment variable ``STREAMKIT_CAPTURES``, or the folder that ``tests/shared_data.py`` names), which is not part of
the repository: ``<provider>/<name>.sse``. Without it only the repository's own streams are measured, and the row says
so. Within a run the streams of a wire follow each other, so that nothing that lives longer than a turn can help.

A stream that the loops by hand do not survive, a recorded failure, is left out. So is one of fewer than 20 frames, but
for a row of its own: a turn of a few frames is its fixed price. The loop that keeps text and calls is measured on the
streams of which it keeps what ``Turn`` reads: the row has their number.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks.floors import DECODE, KEEP, decode_told, wire_of
from benchmarks.measure import Row, Settings, Skipped, Times, interleave
from benchmarks.per_chunk import run_turn

__all__ = ["Recorded", "find_captures", "load_streams", "measure", "recorded_reads"]

FEWEST_FRAMES = 20
TARGET, TARGET_KEEPING = 1.2, 0.9
TARGETS_TOLD = {"anthropic": 1.6, "openai_chat": 0.85}
OTHER_FRAMINGS = ("bedrock_converse", "bedrock_invoke", "ollama")
_TESTS = Path(__file__).resolve().parent.parent / "tests"
_EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")


@dataclass(frozen=True)
class Recorded:
    """One recorded stream: its provider, and one read for each of its frames."""

    provider: str
    wire: str
    name: str
    reads: list[bytes]
    frames: int

    @property
    def line_end(self) -> bytes:
        return b"\r\n" if self.reads[0].endswith(b"\r\n\r\n") else b"\n"

    @property
    def is_kept_by_hand(self) -> bool:
        """Whether the loop that keeps text and calls reads what ``Turn`` reads."""
        turn = run_turn(self.provider, self.reads)
        try:
            kept = KEEP[self.wire](self.reads)
        except (ValueError, LookupError, TypeError):
            return False
        return kept == (turn.text, turn.reasoning, [(call.name, call.arguments) for call in turn.calls])


def _test_data() -> ModuleType:
    """Return ``tests/shared_data.py``, which knows where recorded streams are."""
    name = "shared_data"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _TESTS / f"{name}.py")
        if spec is None or spec.loader is None:
            raise Skipped("tests/shared_data.py is not here: the benchmarks run in a checkout")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def find_captures() -> Path | None:
    """Return the folder of captures that the tests use, if it exists."""
    captures: Path = _test_data().CAPTURES
    return captures if captures.is_dir() else None


def split_reads(suffix: str, data: bytes) -> list[bytes]:
    """Return the frames of a recorded stream."""
    if suffix in (".jsonl", ".json"):
        return data.splitlines(keepends=True)
    if suffix == ".sse":
        return [read for read in _EVENT_END.split(data) if read]
    reads = []
    while data:
        size = int.from_bytes(data[:4], "big")
        reads.append(data[:size])
        data = data[size:]
    return reads


def recorded_reads(name: str) -> list[bytes]:
    """Return the frames of a stream of ``tests/recorded``."""
    path: Path = _test_data().RECORDED / name
    return split_reads(path.suffix, path.read_bytes())


def load_streams(captures: Path | None) -> list[Recorded]:
    """Return the recorded streams as the servers framed them, sorted by wire and provider."""
    data = _test_data()
    manifest = json.loads((data.RECORDED / "manifest.json").read_text("utf-8"))
    paths = [data.RECORDED / entry["file"] for entry in manifest]
    known = {entry["sha256"] for entry in manifest}
    if captures is not None:
        paths += [p for p in sorted(captures.glob("*/*")) if hashlib.sha256(p.read_bytes()).hexdigest() not in known]
    streams = []
    for path in paths:
        provider = data.PROVIDERS.get(path.parent.name, path.parent.name)
        if path.suffix not in ((".jsonl",) if provider == "ollama" else (".sse", ".eventstream")):
            continue  # chunks that a client has decoded
        wire, reads = wire_of(provider), split_reads(path.suffix, path.read_bytes())
        try:
            frames = DECODE[wire](reads)
        except ValueError:
            continue
        streams.append(Recorded(provider, wire, path.stem, reads, frames))
    return sorted(streams, key=lambda stream: (stream.wire, stream.provider, stream.name))


def run_each(work: Callable[[Recorded], object], streams: list[Recorded], times: int) -> None:
    for _ in range(times):
        for stream in streams:
            work(stream)


WORKS: dict[str, Callable[[Recorded], object]] = {
    "turn": lambda stream: run_turn(stream.provider, stream.reads),
    "by hand": lambda stream: DECODE[stream.wire](stream.reads),
    "told": lambda stream: decode_told(stream.reads, stream.line_end),
    "keeping": lambda stream: KEEP[stream.wire](stream.reads),
}


def compare(streams: list[Recorded], variants: Iterable[str], rounds: int) -> Times:
    """Return the times of works over streams, each of them once."""
    repeats = max(1, 1_000 // sum(stream.frames for stream in streams))
    result = interleave({name: partial(run_each, WORKS[name], streams, repeats) for name in variants}, rounds)
    return Times({name: [seconds / repeats for seconds in runs] for name, runs in result.seconds.items()})


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratio of all streams together and of each wire's, to each of the loops."""
    streams = load_streams(settings.captures)
    by_wire: dict[str, list[Recorded]] = {}
    for stream in streams:
        if stream.frames >= FEWEST_FRAMES:
            by_wire.setdefault(stream.wire, []).append(stream)
    kept = {wire: [stream for stream in group if stream.is_kept_by_hand] for wire, group in by_wire.items()}
    sse = [wire for wire in by_wire if wire not in OTHER_FRAMINGS]
    ways = {wire: ("turn", "by hand", "told") if wire in sse else ("turn", "by hand") for wire in by_wire}
    times = {wire: compare(group, ways[wire], settings.rounds) for wire, group in by_wire.items()}
    keeping = {wire: compare(group, ("turn", "keeping"), settings.rounds) for wire, group in kept.items() if group}
    total = Times.sum([times[wire] for wire in sse])
    frames, count = sum(s.frames for wire in sse for s in by_wire[wire]), sum(len(by_wire[wire]) for wire in sse)
    note = f"{count} streams, {frames:,} frames; {total.micros('turn', frames):.2f} us a frame, by hand "
    note += f"{total.micros('by hand', frames):.2f}"
    if settings.captures is None:
        note += "; the folder of captures is not here: only the repository's streams"
    yield Row("SSE", total.ratio("turn", "by hand"), target=TARGET, note=note)
    ratio = Times.sum([keeping[wire] for wire in sse if wire in keeping]).ratio("turn", "keeping")
    note = f"{sum(len(kept[wire]) for wire in sse)} streams"
    yield Row("SSE, loop that keeps text and calls", ratio, target=TARGET_KEEPING, note=note)
    yield Row("SSE, loop that is told the line end", total.ratio("turn", "told"))
    short = [stream for stream in streams if stream.frames < FEWEST_FRAMES and stream.wire in sse]
    if short:
        result = compare(short, ("turn", "by hand"), settings.rounds)
        note = f"{len(short)} streams, {sum(stream.frames for stream in short):,} frames"
        yield Row(f"SSE, streams of fewer than {FEWEST_FRAMES} frames", result.ratio("turn", "by hand"), note=note)
    for wire, group in by_wire.items():
        frames = sum(stream.frames for stream in group)
        ours, floor = (times[wire].micros(name, frames) for name in ("turn", "by hand"))
        note = f"{len(group)} streams, {frames:,} frames; {ours:.2f} us a frame, by hand {floor:.2f}"
        if wire in keeping:
            note += f"; {keeping[wire].ratio('turn', 'keeping'):.2f} to a loop that keeps text and calls"
        yield Row(wire, times[wire].ratio("turn", "by hand"), note=note)
    for wire, target in TARGETS_TOLD.items():
        if wire in times:
            yield Row(f"{wire}, loop that is told the line end", times[wire].ratio("turn", "told"), target=target)
