"""Partial arguments: CPU time for a delta of 4 characters, by the size of the text.

- ``reparse``: the complete text is parsed at each delta, as most clients do (with pydantic_core, the fastest parser)
- ``feed``, ``feed, read``: ``IncrementalJsonObject``, without and with reading its value at each delta
- ``notifier``, ``described``: a ``Notifier`` over the events, without and with a tool that describes its calls

``ToolCall.partial`` of a turn is in ``views``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pydantic_core import from_json

from benchmarks.measure import Row, Settings, interleave
from streamkit import Tool, tool
from streamkit.calls import CallRef
from streamkit.events import ToolCallDelta, ToolCallStart
from streamkit.execution.run.notifications import Notifier
from streamkit.json_text.reader import IncrementalJsonObject

__all__ = ["measure"]

SIZES = (10_000, 100_000)
DELTA = 4
MOST_REPARSED = 10_000  # characters: ten times as many take a hundred times as long
MOST_ROUNDS = 3
CALL = CallRef("hist_tool_0", "write_file", 0)


def long_text(size: int) -> str:
    """Return one long string, like the contents of a file."""
    return '{"path":"a.txt","text":"' + "word " * (size // 5) + '"}'


def source_code(size: int) -> str:
    """Return one long string with an escape every 20 characters."""
    return '{"path":"a.py","text":"' + "  print(\\'it\\', 10)\\n".replace("\\'", '\\"') * (size // 20) + '"}'


def many_members(size: int) -> str:
    """Return a list of many small objects."""
    item = '{"id":1234,"name":"Oslo","ok":true,"x":-1.5},'
    return '{"items":[' + (item * (size // len(item)))[:-1] + "]}"


TEXTS: dict[str, Callable[[int], str]] = {"text": long_text, "code": source_code, "members": many_members}


def reparse(deltas: list[str]) -> None:
    text = ""
    for delta in deltas:
        text += delta
        from_json(text, allow_partial="trailing-strings")


def feed(deltas: list[str]) -> None:
    parser = IncrementalJsonObject()
    for delta in deltas:
        parser.feed(delta)


def feed_and_read(deltas: list[str]) -> None:
    parser = IncrementalJsonObject()
    for delta in deltas:
        parser.feed(delta)
        parser.value  # noqa: B018 - reading it is measured


def write_file(path: str, text: str) -> None: ...


PLAIN = tool(write_file)
DESCRIBED = tool(write_file, describe=lambda state, arguments: f"{state} {arguments.get('path')}")


def notify(deltas: list[str], definition: Tool = PLAIN) -> None:
    notifier = Notifier([definition])
    notifier.handle(ToolCallStart(CALL))
    for delta in deltas:
        notifier.handle(ToolCallDelta(CALL, delta))


def notify_described(deltas: list[str]) -> None:
    notify(deltas, DESCRIBED)


WAYS: dict[str, Callable[[list[str]], None]] = {
    "reparse": reparse,
    "feed": feed,
    "feed, read": feed_and_read,
    "notifier": notify,
    "described": notify_described,
}


def measure(settings: Settings) -> Iterator[Row]:
    """Return the microseconds of a delta, for each form of arguments, size and way."""
    for name, make in TEXTS.items():
        for size in SIZES:
            arguments_text = make(size)
            deltas = [arguments_text[at : at + DELTA] for at in range(0, len(arguments_text), DELTA)]
            ways = {way: work for way, work in WAYS.items() if work is not reparse or size <= MOST_REPARSED}
            works = {way: partial(work, deltas) for way, work in ways.items()}
            result = interleave(works, min(settings.rounds, MOST_ROUNDS))
            for way in ways:
                yield Row(f"{name}, {size:,} characters: {way}", result.micros(way, len(deltas)), "us")
