"""Partial arguments: CPU time for a delta of 4 characters, by the size of the text.

- ``reparse``: the complete text is parsed at each delta, as most clients do (with pydantic_core, the fastest parser)
- ``feed``, ``feed, read``: ``IncrementalJsonObject``, without and with reading its value at each delta
- ``turn, read``: ``ToolCall.partial`` read at each delta of a stream, including the cost of the stream
- ``notifier``, ``described``: a ``Notifier`` over the events, without and with a tool that describes its calls

The figures are medians of process CPU time. Combinations that would take minutes are left out.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator

from streamkit import Tool, Turn, tool
from streamkit.calls import CallRef
from streamkit.events import ToolCallDelta, ToolCallStart
from streamkit.execution.notifications import Notifier
from streamkit.json_text import IncrementalJsonObject, parse_partial_object

SIZES = (1_000, 10_000, 100_000, 1_000_000)
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
        parse_partial_object(text)


def feed(deltas: list[str]) -> None:
    parser = IncrementalJsonObject()
    for delta in deltas:
        parser.feed(delta)


def feed_and_read(deltas: list[str]) -> None:
    parser = IncrementalJsonObject()
    for delta in deltas:
        parser.feed(delta)
        parser.value  # noqa: B018 - reading it is measured


def turn_and_read(deltas: list[str]) -> None:
    turn = Turn("openai_chat", turn_key="benchmark")
    for chunk in chunks(deltas):
        turn.feed(chunk)
        turn.calls[0].partial  # noqa: B018 - reading it is measured


def chunks(deltas: list[str]) -> Iterator[dict[str, object]]:
    call: dict[str, object] = {"index": 0, "id": "call_0", "function": {"name": "write_file", "arguments": ""}}
    yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    for delta in deltas:
        call = {"index": 0, "function": {"arguments": delta}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


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


SUBJECTS: dict[str, tuple[Callable[[list[str]], None], int]] = {  # with the largest size that is measured
    "reparse": (reparse, 100_000),
    "feed": (feed, 1_000_000),
    "feed, read": (feed_and_read, 1_000_000),
    "turn, read": (turn_and_read, 1_000_000),
    "notifier": (notify, 1_000_000),
    "described": (notify_described, 1_000_000),
}


def seconds(work: Callable[[list[str]], None], deltas: list[str]) -> float:
    """Return the CPU time of one run, after a garbage collection."""
    gc.collect()
    start = time.process_time()
    work(deltas)
    return time.process_time() - start


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    print(f"microseconds for a delta of 4 characters, medians of {options.rounds} rounds")
    print(f"{'arguments':<12}{'size':>10}" + "".join(f"{subject:>12}" for subject in SUBJECTS))
    for name, make in TEXTS.items():
        for size in SIZES:
            arguments_text = make(size)
            deltas = [arguments_text[at : at + 4] for at in range(0, len(arguments_text), 4)]
            times = []
            for work, largest in SUBJECTS.values():
                rounds = 1 if work is reparse and size == largest else options.rounds * max(1, 10_000 // size)
                elapsed = None if size > largest else statistics.median(seconds(work, deltas) for _ in range(rounds))
                times.append("-" if elapsed is None else f"{elapsed / len(deltas) * 1e6:.2f}")
            print(f"{name:<12}{size:>10,}" + "".join(f"{column:>12}" for column in times))


if __name__ == "__main__":
    main()
