"""Print the frames of a recorded stream with the events that they caused.

After the last frame come the calls, the warnings, the usage, the finish or the error, and the timeline: a bar for each
text and call, by seconds where the recording has them, else by the number of the row. With --follow a file that is
still being written is read until its response is complete, or until Ctrl-C. The provider is detected from the first
bytes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from streamkit.cli.recordings import (
    NotAStreamError,
    add_provider_argument,
    check_provider_argument,
    expand_paths,
    find_recording,
    read_parts,
)
from streamkit.errors import UsageError
from streamkit.gateway.tap.timeline import Span

if TYPE_CHECKING:
    from streamkit.cli.terminal import Notes
    from streamkit.gateway.tap.observed_exchange import ObservedExchange

__all__ = ["configure", "run"]

_WAIT = 0.1  # seconds between two looks at a file that may grow
_NUMBER_WIDTH = 6
_NARROWEST = 100  # columns; on a narrower terminal events are below their frame
_LONGEST_NAME = 28  # columns of the name of a bar
_NARROWEST_BAR = 8  # columns of the bars
_BAR_STYLES = {"reasoning": "magenta", "text": "green", "call": "cyan", "server": "cyan", "refusal": "yellow"}
_STYLES = {
    "reasoning": "magenta",
    "warned": "yellow",
    "failed": "red",
    "tool_call_start": "cyan",
    "tool_call_delta": "cyan",
    "tool_call_end": "cyan",
    "tool_call_ready": "green",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a recorded stream, or one that --record wrote")
    parser.add_argument("--follow", action="store_true", help="wait for more until the response is complete")
    add_provider_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Print the exchange; return 1 if its response has an error, 2 if the file is not a stream."""
    import sys

    from streamkit.cli.terminal import Notes

    check_provider_argument(options.provider)
    notes = Notes(sys.stdout)
    try:
        exchange = _print_file(options.file, options.provider, notes, follow=options.follow)
    except OSError as error:
        raise UsageError(f"{options.file}: the file cannot be read: {error.strerror or error}") from None
    except NotAStreamError as error:
        raise UsageError(f"{options.file}: {error}") from None
    return 0 if exchange.summary()["error"] is None else 1


def _print_file(path: Path, provider: str, notes: Notes, *, follow: bool) -> ObservedExchange:
    """Print the rows of an exchange as they become known, then the summary."""
    if path.is_dir():
        files = expand_paths(path)
        raise UsageError(f"{path} is a folder: name one of its {len(files)} files, or use `streamkit report`")
    recording = find_recording(path)
    if recording.response is None:
        exchange, _ = recording.begin(1, provider, ())
    else:
        with recording.response.open("rb") as source:
            parts = _growing_parts(source, path) if follow else read_parts(source)
            exchange, parts = recording.begin(1, provider, parts)
            _print_parts(exchange, recording.feed(exchange, parts), notes)
    printed = exchange.first_row + len(exchange.rows)
    recording.end(exchange)
    _print_rows(exchange.rows_from(printed), notes)
    _print_summary(exchange, notes)
    return exchange


def _print_parts(exchange: ObservedExchange, parts: Iterable[None], notes: Notes) -> None:
    """Print the rows of each part that is fed; stop at the end of the response, or at Ctrl-C."""
    printed = 0
    try:
        for _ in parts:
            _print_rows(exchange.rows_from(printed), notes)
            printed = exchange.first_row + len(exchange.rows)
            if exchange.turn is not None and exchange.turn.done:
                return
    except KeyboardInterrupt:
        notes.print()  # after the terminal's ^C


def _growing_parts(source: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, and those that are appended to it until ``--record`` has written its facts."""
    while True:
        is_complete = find_recording(path).facts is not None  # before the last bytes are read
        yield from read_parts(source)
        if is_complete:
            return
        time.sleep(_WAIT)


def _print_rows(rows: Iterable[bytes], notes: Notes) -> None:
    for line in rows:
        _print_row(msgspec.json.decode(line), notes)


def _print_row(row: dict[str, Any], notes: Notes) -> None:
    """Print a row: the number, the frame, and the events at its right or, on a narrow terminal, below it."""
    from rich.cells import cell_len

    width = notes.console.width
    number = str(row["n"]).ljust(_NUMBER_WIDTH)
    frames = [f"{frame['name']} {frame['data']}".strip() for frame in row["frames"]]
    events = row["events"]
    if width < _NARROWEST:
        for frame in frames:
            notes.print(_cut(number + _one_line(frame), width))
        for event in events:
            _print_event(event, " " * _NUMBER_WIDTH + "> ", width, notes)
        return
    left = (width - _NUMBER_WIDTH) // 2
    for at, (frame, event) in enumerate(zip_longest(frames, events)):
        cell = _cut(_one_line(frame or ""), left - 2)
        start = (number if at == 0 else " " * _NUMBER_WIDTH) + cell + " " * (left - cell_len(cell))
        if event is None:
            notes.print(start.rstrip())
        else:
            _print_event(event, start, width, notes)


def _print_event(event: dict[str, Any], start: str, width: int, notes: Notes) -> None:
    from rich.cells import cell_len

    kind = event["event"]["type"]
    notes.print(start, end="")
    notes.print(_cut(_one_line(f"{kind}  {event['line']}"), width - cell_len(start)), _STYLES.get(kind, ""))


def _print_summary(exchange: ObservedExchange, notes: Notes) -> None:
    """Print the calls, warnings, usage and end of the response."""
    summary = exchange.summary()
    turn = exchange.turn
    model = summary["served_model"] or summary["upstream_model"] or summary["model"]
    notes.print()
    notes.print(" ".join(filter(None, ["response", summary["provider"], model, summary["response_id"]])), "bold")
    for call in turn.calls if turn is not None else ():
        style = "green" if call.state == "complete" else "red"
        notes.print(f"  call     {call.name}  {call.state}  {call.id}  {call.arguments_text}", style)
    for warning in summary["warnings"]:
        notes.print(f"  warning  {warning['code']}: {warning['message']}", "yellow")
    for note in [*summary["changes"], *summary["notes"]]:
        notes.print(f"  note     {note}", "yellow")
    if summary["usage"] is not None:
        names = {name: name.removesuffix("_tokens").replace("_", " ") for name in summary["usage"]}
        figures = [f"{value} {names[name]}" for name, value in summary["usage"].items()]
        if summary["cost"] is not None:
            figures.append(f"{'list price' if summary['is_list_price'] else 'cost'} ${summary['cost']:g}")
        notes.print(f"  usage    {', '.join(figures)}")
    if summary["finish"] is not None:
        notes.print(f"  finish   {summary['finish']['reason']}")
    error = summary["error"]
    if error is not None:
        shown = ": ".join(str(error[name]) for name in ("kind", "code", "message") if name in error)
        notes.print(f"  error    {shown}", "red")
    _print_timeline(msgspec.convert(summary["timeline"], list[Span]), notes)


def _print_timeline(spans: list[Span], notes: Notes) -> None:
    """Print a bar for each part of the response, in seconds if the recording has those of all of them."""
    from rich.cells import cell_len

    is_timed = all(span.end is not None for span in spans)
    shown = [span for span in spans if is_timed or span.first is not None]
    if not shown:
        return
    sides = [
        (span.start or 0.0, span.end or 0.0) if is_timed else (span.first or 0, (span.last or 0) + 1) for span in shown
    ]
    total = max(end for _, end in sides) or 1
    names = [_one_line(f"{span.kind} {span.name}".strip()) for span in shown]
    figures = [
        f"{start:.2f} to {end:.2f} s" if is_timed else f"{start} to {end - 1}" if end - start > 1 else f"{start}"
        for start, end in sides
    ]
    left = min(max(map(cell_len, names)), _LONGEST_NAME)
    width = max(notes.console.width - left - max(map(len, figures)) - 6, _NARROWEST_BAR)
    mark = "\u2588" if notes.console.encoding.startswith("utf") else "#"
    scale = "in seconds" if is_timed else "by the number of the row: the file has no times of its parts"
    notes.print(f"  timeline {scale}")
    for span, (start, end), name, figure in zip(shown, sides, names, figures, strict=True):
        at = min(int(start / total * width), width - 1)
        bar = " " * at + mark * max(round(end / total * width) - at, 1)
        shown_name = _cut(name, left)
        style = "red" if span.state in ("invalid", "incomplete") else _BAR_STYLES.get(span.kind, "")
        notes.print(f"  {shown_name}{' ' * (left - cell_len(shown_name))} ", end="")
        notes.print(bar.ljust(width), style, end="")
        notes.print(f" {figure}")


def _one_line(text: str) -> str:
    """Return a text as it will be printed, so that its width is known."""
    from streamkit.cli.terminal import escape_line

    return escape_line(text)


def _cut(text: str, width: int) -> str:
    """Return a text in at most so many columns, of which a Chinese character and most emoji take two."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    dots = "..."[: max(width, 0)]
    return set_cell_size(text, max(width - len(dots), 0)).rstrip() + dots
