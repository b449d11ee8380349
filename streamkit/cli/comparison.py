"""What came of one conversation on several wires, side by side: the demo's table and its verdict. It asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["DemoResult", "counted", "print_block", "print_table", "print_verdict", "shape"]


@dataclass(slots=True)
class DemoResult:
    """What came of the conversation on one wire.

    Attributes:
        provider: whose wire it is.
        chunks: frames of the wire that were read.
        events: those of the stream and those of the run.
        nanoseconds: CPU of ``Turn.feed`` per chunk.
        calls: name and arguments of each, in order.
        results: status of each, and its value or what went wrong.
        answer: the last text.
        ids: the canonical id of each call.
        thread: its messages, a word each.
        problem: what kept the conversation from its end; None where nothing did.
    """

    provider: str
    chunks: int = 0
    events: int = 0
    nanoseconds: float = 0.0
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[tuple[str, Any]] = field(default_factory=list)
    answer: str = ""
    ids: list[str] = field(default_factory=list)
    thread: list[str] = field(default_factory=list)
    problem: str | None = None

    def cells(self) -> dict[str, list[str]]:
        """What the table shows of it, by title."""
        return {
            "chunks": [str(self.chunks)],
            "events": [str(self.events)],
            "us per chunk": [f"{self.nanoseconds / 1000:.1f}"],
            "canonical ids": [f"{identity[:14]}.." for identity in self.ids],
            "thread": self.thread,
        }

    def differences(self, expected: DemoResult) -> Iterator[str]:
        """In what it is not what was expected: a sentence each."""
        if self.problem:
            yield self.problem
            return
        for title, got, wanted in (
            ("calls", self.calls, expected.calls),
            ("results", self.results, expected.results),
            ("answer", self.answer, expected.answer),
        ):
            if got != wanted:
                yield f"{title}: {got!r}, not {wanted!r}"
        if len(set(self.ids)) != len(self.calls):
            yield f"canonical ids are not one for each call: {', '.join(self.ids)}"


_CALLS = {"function", "functionCall", "toolUse"}  # of chat and its kin, Gemini, Bedrock Converse
_RESULTS = {"functionResponse", "toolResult"}


def shape(thread: list[dict[str, Any]]) -> list[str]:
    """The messages of a thread by role, with the calls and results that they hold."""
    words = []
    for message in thread:
        parts = [*_list(message.get("content")), *_list(message.get("parts")), *_list(message.get("tool_calls"))]
        calls = sum(1 for part in parts if part.get("type") == "tool_use" or _CALLS & part.keys())
        results = sum(1 for part in parts if part.get("type") == "tool_result" or _RESULTS & part.keys())
        held = [counted(number, noun) for number, noun in ((calls, "call"), (results, "result")) if number]
        who = str(message.get("role") or message.get("type"))
        words.append(f"{who}({', '.join(held)})" if held else who)
    return words


def _list(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def print_table(outcomes: list[DemoResult], console: Console) -> None:
    """What each wire took, and what became of the thread; in place of a table, lines on a narrow terminal."""
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    console.print()
    if console.width < 72:
        for outcome in outcomes:
            console.print(f"[bold]{outcome.provider}[/bold]")
            for title, cell in outcome.cells().items():
                print_block(console, Padding(f"[dim]{title}:[/dim] {' '.join(cell)}", (0, 0, 0, 2)))
    else:
        air = 1 if console.width >= 100 else 0
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, air, 0, 0))
        table.add_column("wire", style="bold", no_wrap=True)
        for title in ("chunks", "events", "us per chunk"):
            table.add_column(title.replace("us per ", "us per\n"), justify="right", no_wrap=True)
        table.add_column("canonical ids", no_wrap=True)
        table.add_column("thread", no_wrap=True)
        room = console.width - max(len(outcome.provider) for outcome in outcomes) - 39 - 5 * air
        for outcome in outcomes:
            *figures, ids, thread = outcome.cells().values()
            table.add_row(outcome.provider, *map(" ".join, figures), "\n".join(ids), "\n".join(_filled(thread, room)))
        print_block(console, table)
    console.print()
    console.print(
        "[dim]A chunk is one frame of the wire. Its time is the CPU that Turn.feed takes, from bytes to events and "
        "calls: the median of 30 replays of what came.[/dim]"
    )


def _filled(words: list[str], width: int) -> list[str]:
    """The words in lines of that width. A word may hold a space, so that rich's own wrapping will not do."""
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def print_block(console: Console, what: Any) -> None:
    """Print what rich pads to a block; without the padding where it goes to a file or a pipe."""
    if console.is_terminal:
        console.print(what)
        return
    with console.capture() as capture:
        console.print(what)
    for line in capture.get().splitlines():
        print(line.rstrip(), file=console.file)


def print_verdict(outcomes: list[DemoResult], expected: DemoResult, console: Console) -> int:
    """Say whether every wire gave what was expected, and where one did not; the exit code."""
    different = {outcome.provider: list(outcome.differences(expected)) for outcome in outcomes}
    if not any(different.values()):
        on = f"on each of the {len(outcomes)} wires" if len(outcomes) > 1 else f"as scripted on {outcomes[0].provider}"
        same = "the same " if len(outcomes) > 1 else ""
        console.print(f"[green]Calls, results and answer are {same}{on}.[/green]")
        return 0
    for name, lines in different.items():
        for line in lines:
            console.print(f"[red]{name} differs: [/red]", end="")
            console.print(line, markup=False)
    return 1


def counted(number: int, noun: str) -> str:
    """Such as ``1 call`` and ``2 calls``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
