"""The forms of frames: their shares in the synthetic turns, beside those in the recorded streams of the wire.

A fast path that is fitted to the benchmarks' frames gains nothing for users, so the synthetic turns have the forms that
real frames have. A recorded stream shows what its recorder kept: some wrote the JSON or the lines anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchmarks.floors import wire_of
from benchmarks.measure import Row, Settings
from benchmarks.recorded import load_streams
from benchmarks.streams import TURNS, make_turn

__all__ = ["FORMS", "measure", "shares"]

FRAMES = 200
FORMS = {
    "spaces before the last brace": re.compile(rb" +\}\s*$"),
    "padding": re.compile(rb'"(?:obfuscation|p)":"'),
    "empty padding": re.compile(rb'"obfuscation":""'),
    "lines end with CRLF": re.compile(rb"\r\n"),
    "the event's name in a line": re.compile(rb"^event:"),
    "spaces after colons": re.compile(rb'"\w+": .*"\w+": '),
    "usage": re.compile(rb'"usage(?:Metadata)?": ?\{'),
    "role": re.compile(rb'"role": ?"'),
    "empty delta": re.compile(rb'"(?:content|text|thinking|partial_json|arguments|delta)": ?""'),
}


def shares(reads: list[bytes]) -> dict[str, float]:
    """Return the share of the frames that has each form."""
    return {name: sum(bool(form.search(read)) for read in reads) / len(reads) for name, form in FORMS.items()}


def measure(settings: Settings) -> Iterator[Row]:
    """Return the shares of the forms that a synthetic turn or a recorded stream of its wire has."""
    recorded: dict[str, list[bytes]] = {}
    for stream in load_streams(settings.captures):
        recorded.setdefault(stream.wire, []).extend(stream.reads)
    for provider in TURNS:
        ours, theirs = shares(make_turn(provider, FRAMES)), shares(recorded[wire_of(provider)])
        for name in FORMS:
            if ours[name] or theirs[name] > 0.01:
                yield Row(f"{provider}: {name}", ours[name] * 100, "%", note=f"recorded {theirs[name] * 100:.1f}")
