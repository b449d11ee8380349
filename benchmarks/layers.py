"""Where the time of a delta goes: the same frames read by one layer, by two, and so on up to ``Turn.feed``.

A row is the difference between two adjacent variants, which alternate as in every other subject, so a layer's figure
contains what it costs to call it. The frames are the deltas of one kind of a turn that was begun before:

- ``loop``: the reads of a list, and nothing else
- ``framing``: ``SseFramer.feed``
- ``decoding``: the payload decoded to the structs of the wire
- ``parser``: ``parser.frame`` with a sink that does nothing
- ``accumulator``: the same with the turn's sink, whose events are cleared after each frame
- ``feed``: ``Turn.feed``, which returns a list of events

The figures are shares of what the loop by hand takes for the same frames; ``all`` is their sum, that of ``Turn.feed``.
What the other frames of a turn cost is in ``short_turn``.

What ``read`` and ``run_loop`` add is in ``reading``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from benchmarks.floors import decode_frames
from benchmarks.measure import Row, Settings, interleave
from benchmarks.streams import make_turn
from streamkit import Limits, Turn, providers
from streamkit.framing.sse import SseFramer
from streamkit.providers.anthropic.schema import DECODER as ANTHROPIC_DECODER
from streamkit.providers.openai_chat.schema import PlainChunk

__all__ = ["measure"]

FRAMES = 2_450
TIMES = 4  # that the reads are repeated in a run
LIMIT = 2**30
_decode_chat = msgspec.json.Decoder(PlainChunk).decode

#: Of each kind of delta: the provider, what its frames contain and no others do, and the decoder of the wire.
KINDS: dict[str, tuple[str, bytes, Callable[[bytes], object]]] = {
    "chat, text": ("openai_chat", b'"delta":{"content":" ', _decode_chat),
    "chat, arguments": ("openai_chat", b'"delta":{"tool_calls":[{"index":0,"function"', _decode_chat),
    "chat, reasoning": ("openai_chat", b'"reasoning_content"', _decode_chat),
    "anthropic, text": ("anthropic", b'"text_delta"', ANTHROPIC_DECODER.decode),
    "anthropic, arguments": ("anthropic", b'"index":2,"delta":{"type":"input_json_delta"', ANTHROPIC_DECODER.decode),
}


class NullSink:
    """A sink of a turn and of its choices with methods that do nothing."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        setattr(self, name, _ignore)  # the next use finds it at once, as that of a method
        return _ignore

    def choice(self, index: int) -> NullSink:
        return self


def _ignore(*args: object, **fields: object) -> None:
    return None


def split(provider: str, mark: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the reads before the deltas of a kind, with the first of them, and the others."""
    reads = make_turn(provider, FRAMES)
    places = [place for place, data in enumerate(reads) if mark in data]
    return reads[: places[0] + 1], [reads[place] for place in places[1:]]


def loop(reads: list[bytes]) -> None:
    for _ in reads:
        pass


def frame_only(framer: SseFramer, reads: list[bytes]) -> None:
    for data in reads:
        framer.take(data)


def frame_and_decode(framer: SseFramer, decode: Callable[[bytes], object], reads: list[bytes]) -> None:
    for data in reads:
        payload = framer.take(data)
        if payload is not None:
            decode(payload)


def parse(framer: SseFramer, frame: Callable[[bytes, bytes], None], reads: list[bytes]) -> None:
    for data in reads:
        payload = framer.take(data)
        if payload is not None:
            frame(framer.name, payload)


def accumulate(framer: SseFramer, turn: Turn, reads: list[bytes]) -> None:
    frame, state = turn._parser.frame, turn._state
    for data in reads:
        payload = framer.take(data)
        if payload is not None:
            frame(framer.name, payload)
        state.events.clear()


def feed(turn: Turn, reads: list[bytes]) -> None:
    for data in reads:
        turn.feed(data)


def begun_framer(before: list[bytes]) -> SseFramer:
    framer = SseFramer(LIMIT)
    for data in before:
        framer.feed(data)
    return framer


def begun_parser(provider: str, before: list[bytes]) -> Callable[[bytes, bytes], None]:
    """Return the ``frame`` of a parser that reports to a sink that does nothing."""
    framer = SseFramer(LIMIT)
    frame = providers.get(provider).parser(NullSink()).frame
    for data in before:
        for name, payload in framer.feed(data):
            frame(name, payload)
    return frame


def begun_turn(provider: str, before: list[bytes]) -> Turn:
    turn = Turn(provider, turn_key="benchmark", limits=Limits(arguments=LIMIT, text=LIMIT))
    for data in before:
        turn.feed(data)
    return turn


def measure(settings: Settings) -> Iterator[Row]:
    """Return the share of each layer in the cost of a delta, for each kind of delta."""
    for kind, (provider, mark, decode) in KINDS.items():
        before, reads = split(provider, mark)
        framers = [begun_framer(before) for _ in range(4)]
        reads *= TIMES
        variants: dict[str, Callable[[], object]] = {
            "loop": partial(loop, reads),
            "framing": partial(frame_only, framers[0], reads),
            "decoding": partial(frame_and_decode, framers[1], decode, reads),
            "parser": partial(parse, framers[2], begun_parser(provider, before), reads),
            "accumulator": partial(accumulate, framers[3], begun_turn(provider, before), reads),
            "feed": partial(feed, begun_turn(provider, before), reads),
            "by hand": partial(decode_frames, reads),
        }
        result = interleave(variants, settings.rounds)
        by_hand = result.micros("by hand", len(reads))
        seconds, previous = result.seconds, [0.0] * settings.rounds
        for layer in variants:
            if layer == "by hand":
                continue
            runs = zip(seconds[layer], previous, seconds["by hand"], strict=True)
            share = statistics.median((this - before) / floor for this, before, floor in runs)
            previous = seconds[layer]
            yield Row(f"{kind}: {layer}", share, "of by hand", note=f"about {share * by_hand:.2f} us")
        yield Row(f"{kind}: all", result.ratio("feed", "by hand"), "of by hand", note=f"by hand {by_hand:.2f} us")
