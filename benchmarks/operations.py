"""What the single operations of a delta cost, to explain the figures of ``layers``: nanoseconds, without the loop.

The texts and payloads are those of a turn, so they vary in length, and some are not ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import orjson

from benchmarks.layers import split
from benchmarks.measure import Row, Settings, interleave
from streamkit.calls import CallRef
from streamkit.events import NormalizedToolChunk, Text, ToolCallDelta
from streamkit.providers.anthropic.schema import DECODER as ANTHROPIC_DECODER
from streamkit.providers.openai_chat.schema import PlainChunk

__all__ = ["measure"]

TIMES = 20

#: Of each provider, what the frames of a text delta contain and no others do.
MARKS = {"openai_chat": b'"delta":{"content":" ', "anthropic": b'"text_delta"'}
CALL = CallRef("hist_tool_0", "write_file", 0)
_decode_chat = msgspec.json.Decoder(PlainChunk).decode


def nothing(items: list[Any]) -> None:
    for _ in items:
        pass


def call(function: Callable[[Any], object], items: list[Any]) -> None:
    for item in items:
        function(item)


def split_event(items: list[bytes]) -> None:
    """Split off the beginning of an event and its end, as the framer does."""
    for item in items:
        _, _, rest = item.partition(b"data: ")
        rest.partition(b"\n")


def make_text(items: list[str]) -> None:
    for item in items:
        Text(item, 0)


def make_call_delta(items: list[str]) -> None:
    for item in items:
        ToolCallDelta(CALL, item, 0)


def make_tool_chunk(items: list[str]) -> None:
    for item in items:
        NormalizedToolChunk("delta", None, None, None, item, 0)


def check_characters(items: list[str]) -> None:
    for item in items:
        if not (item.isascii() or item.isprintable()):
            pass


def copy_events(items: list[str]) -> None:
    """Collect one event, and return it in a list of its own."""
    events: list[str] = []
    emit = events.append
    for item in items:
        emit(item)
        events[:]
        events.clear()


def measure(settings: Settings) -> Iterator[Row]:
    """Return the nanoseconds of each operation."""
    reads = {provider: split(provider, mark)[1] for provider, mark in MARKS.items()}
    payloads = {provider: [data.partition(b"data: ")[2].strip() for data in each] for provider, each in reads.items()}
    texts = [_decode_chat(payload).choices[0].delta.content for payload in payloads["openai_chat"]]  # type: ignore[index, union-attr]
    operations: dict[str, tuple[Callable[[list[Any]], None], list[Any]]] = {
        "loop": (nothing, texts),
        "split an event of chat": (split_event, reads["openai_chat"]),
        "chat chunk, orjson.loads": (partial(call, orjson.loads), payloads["openai_chat"]),
        "chat chunk, decoded to structs": (partial(call, _decode_chat), payloads["openai_chat"]),
        "Anthropic chunk, orjson.loads": (partial(call, orjson.loads), payloads["anthropic"]),
        "Anthropic chunk, decoded to structs": (partial(call, ANTHROPIC_DECODER.decode), payloads["anthropic"]),
        "check the characters of a text": (check_characters, texts),
        "Text(...)": (make_text, texts),
        "ToolCallDelta(...)": (make_call_delta, texts),
        "NormalizedToolChunk(...)": (make_tool_chunk, texts),
        "append an event, copy and clear the list": (copy_events, texts),
    }
    variants = {name: partial(work, items * TIMES) for name, (work, items) in operations.items()}
    result = interleave(variants, settings.rounds)
    counts = {name: len(items) * TIMES for name, (_, items) in operations.items()}
    loop = result.micros("loop", counts["loop"])
    for name in operations:
        if name != "loop":
            yield Row(name, (result.micros(name, counts[name]) - loop) * 1e3, "ns")
