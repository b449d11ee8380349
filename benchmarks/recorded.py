"""Recorded SSE streams of real servers with at least 20 frames: the sum of CPU time, against decoding them by hand.

One frame in each read. The streams are those of ``tests/recorded`` and of a folder of captures (``--captures``, or the
environment variable ``STREAMKIT_CAPTURES``, or the folder that ``tests/shared_data.py`` names), which is not part of
the repository: ``<provider>/<name>.sse``. Without it only the repository's own streams are measured, and the row says
so. Within a run the streams of a provider follow each other, so that nothing that lives longer than a turn can help.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import orjson

from benchmarks.floors import decode_frames
from benchmarks.measure import Row, Settings, Skipped, Times, interleave
from benchmarks.per_chunk import run_turn

__all__ = ["find_captures", "load_streams", "measure"]

FEWEST_FRAMES = 20
TARGET = 1.1
_TESTS = Path(__file__).resolve().parent.parent / "tests"
_EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")


@dataclass(frozen=True)
class Recorded:
    """One recorded stream: its provider, and one read for each of its events."""

    provider: str
    name: str
    reads: list[bytes]
    frames: int


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


def load_streams(captures: Path | None) -> list[Recorded]:
    """Return the recorded streams that are long enough, sorted by provider."""
    data = _test_data()
    manifest = json.loads((data.RECORDED / "manifest.json").read_text("utf-8"))
    paths = [data.RECORDED / entry["file"] for entry in manifest if entry["file"].endswith(".sse")]
    known = {entry["sha256"] for entry in manifest}
    if captures is not None:
        paths += [
            p for p in sorted(captures.glob("*/*.sse")) if hashlib.sha256(p.read_bytes()).hexdigest() not in known
        ]
    streams = []
    for path in paths:
        provider = data.PROVIDERS.get(path.parent.name, path.parent.name)
        reads = [read for read in _EVENT_END.split(path.read_bytes()) if read]
        try:
            frames = decode_frames(reads)
        except orjson.JSONDecodeError:
            continue  # a recorded failure, which a loop by hand does not survive
        if frames >= FEWEST_FRAMES:
            streams.append(Recorded(provider, path.stem, reads, frames))
    return sorted(streams, key=lambda stream: (stream.provider, stream.name))


def run_turns(streams: list[Recorded], times: int) -> None:
    for _ in range(times):
        for stream in streams:
            run_turn(stream.provider, stream.reads)


def run_floors(streams: list[Recorded], times: int) -> None:
    for _ in range(times):
        for stream in streams:
            decode_frames(stream.reads)


def measure(settings: Settings) -> Iterator[Row]:
    """Return the ratio of all streams together and of each provider's."""
    streams = load_streams(settings.captures)
    if not streams:
        raise Skipped("no recorded stream is long enough")
    by_provider: dict[str, list[Recorded]] = {}
    for stream in streams:
        by_provider.setdefault(stream.provider, []).append(stream)
    times = {}
    for provider, group in by_provider.items():
        repeats = max(1, 2_000 // sum(stream.frames for stream in group))
        variants = {"floor": partial(run_floors, group, repeats), "turn": partial(run_turns, group, repeats)}
        result = interleave(variants, settings.rounds)
        times[provider] = Times({name: [s / repeats for s in runs] for name, runs in result.seconds.items()})
    total = Times.sum(list(times.values()))
    frames = sum(stream.frames for stream in streams)
    note = f"{len(streams)} streams, {frames:,} frames; {total.micros('turn', frames):.2f} us a frame, by hand "
    note += f"{total.micros('floor', frames):.2f}"
    if settings.captures is None:
        note += "; the folder of captures is not here: only the repository's streams"
    yield Row("all streams", total.ratio("turn", "floor"), target=TARGET, note=note)
    for provider, group in by_provider.items():
        frames = sum(stream.frames for stream in group)
        ours, floor = (times[provider].micros(name, frames) for name in ("turn", "floor"))
        note = f"{len(group)} streams, {frames:,} frames; {ours:.2f} us a frame, by hand {floor:.2f}"
        yield Row(provider, times[provider].ratio("turn", "floor"), note=note)
