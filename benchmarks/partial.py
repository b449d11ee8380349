"""Live partial arguments: what a delta of 4 characters costs, by how long the text is already.

``again`` parses the whole text at each delta, as most clients do (pydantic_core, the fastest there is); ``view`` is
``PartialObject``, fed only, and fed and read at each delta; ``turn`` is ``ToolCall.partial`` read at each delta of a
stream, the stream included; ``notifier`` is a ``Notifier`` over its events, ``described`` one whose tool describes its
calls. Process CPU time, medians; what would take minutes is left out.
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
    """One long string, as files are written."""
    return '{"path":"a.txt","text":"' + "word " * (size // 5) + '"}'


def source_code(size: int) -> str:
    """One long string, with an escape every 20 characters."""
    return '{"path":"a.py","text":"' + "  print(\\'it\\', 10)\\n".replace("\\'", '\\"') * (size // 20) + '"}'


def many_members(size: int) -> str:
    """Many small objects."""
    one = '{"id":1234,"name":"Oslo","ok":true,"x":-1.5},'
    return '{"items":[' + (one * (size // len(one)))[:-1] + "]}"


TEXTS: dict[str, Callable[[int], str]] = {"text": long_text, "code": source_code, "members": many_members}


def again(deltas: list[str]) -> None:
    text = ""
    for delta in deltas:
        text += delta
        parse_partial_object(text)


def fed(deltas: list[str]) -> None:
    view = IncrementalJsonObject()
    for delta in deltas:
        view.feed(delta)


def fed_and_read(deltas: list[str]) -> None:
    view = IncrementalJsonObject()
    for delta in deltas:
        view.feed(delta)
        view.value  # noqa: B018 - to read it is the work


def turn(deltas: list[str]) -> None:
    turn = Turn("openai_chat", turn_key="benchmark")
    for chunk in chunks(deltas):
        turn.feed(chunk)
        turn.calls[0].partial  # noqa: B018 - to read it is the work


def chunks(deltas: list[str]) -> Iterator[dict[str, object]]:
    piece: dict[str, object] = {"index": 0, "id": "call_0", "function": {"name": "write_file", "arguments": ""}}
    yield {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
    for delta in deltas:
        piece = {"index": 0, "function": {"arguments": delta}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}


def write_file(path: str, text: str) -> None: ...


SILENT = tool(write_file)
DESCRIBED = tool(write_file, describe=lambda state, arguments: f"{state} {arguments.get('path')}")


def notified(deltas: list[str], about: Tool = SILENT) -> None:
    notifier = Notifier([about])
    notifier.handle(ToolCallStart(CALL))
    for delta in deltas:
        notifier.handle(ToolCallDelta(CALL, delta))


def described(deltas: list[str]) -> None:
    notified(deltas, DESCRIBED)


WAYS: dict[str, tuple[Callable[[list[str]], None], int]] = {  # and the largest size that ends in good time
    "again": (again, 100_000),
    "view": (fed, 1_000_000),
    "view, read": (fed_and_read, 1_000_000),
    "turn, read": (turn, 1_000_000),
    "notifier": (notified, 1_000_000),
    "described": (described, 1_000_000),
}


def seconds(work: Callable[[list[str]], None], deltas: list[str]) -> float:
    """CPU time of one run, the collector having been run before."""
    gc.collect()
    began = time.process_time()
    work(deltas)
    return time.process_time() - began


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    print(f"us a delta of 4 characters, medians of {options.rounds} rounds")
    print(f"{'arguments':<12}{'size':>10}" + "".join(f"{way:>12}" for way in WAYS))
    for name, make in TEXTS.items():
        for size in SIZES:
            text = make(size)
            deltas = [text[at : at + 4] for at in range(0, len(text), 4)]
            times = []
            for work, largest in WAYS.values():
                rounds = 1 if work is again and size == largest else options.rounds * max(1, 10_000 // size)
                took = None if size > largest else statistics.median(seconds(work, deltas) for _ in range(rounds))
                times.append("-" if took is None else f"{took / len(deltas) * 1e6:.2f}")
            print(f"{name:<12}{size:>10,}" + "".join(f"{each:>12}" for each in times))


if __name__ == "__main__":
    main()
