"""Users' programs that a type checker must refuse. Each line with an error ends in an ignore comment.

A comment without an error is itself an error: of mypy with ``warn_unused_ignores``, of pyright with
``reportUnnecessaryTypeIgnoreComment``. Not meant to be executed.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamkit import Content, ToolContext, Turn, Usage, events, render, run_loop, tool
from streamkit.events import RunEnded, ToolRunning


@dataclass
class Deps:
    """What the tools of a program need."""

    notes: list[str]


@tool
def read(name: str, most: int = 10) -> list[str]:
    """Read a note."""
    return [name] * most


@tool(approval="sometimes")  # type: ignore[call-overload,untyped-decorator]
def with_a_wrong_option(name: str) -> str:
    return name


@tool(timeout=5)
async def write(name: str, context: ToolContext[Deps]) -> bool:
    """Write a note."""
    context.deps.folders.append(name)  # type: ignore[attr-defined]
    return True


async def wrong_calls(context: ToolContext[Deps], other: ToolContext[int]) -> None:
    read(7)  # type: ignore[arg-type]
    read()  # type: ignore[call-arg]
    read("a", least=3)  # type: ignore[call-arg]
    text: str = read("a")  # type: ignore[assignment]
    str(text)
    flag: bool = write("a", context)  # type: ignore[assignment]
    str(flag)
    await write("a", other)  # type: ignore[arg-type]


def wrong_arguments(turn: Turn, history: list[Content]) -> None:
    Turn(7)  # type: ignore[arg-type]
    turn.feed()  # type: ignore[call-arg]
    render("Hi", "gemini")  # type: ignore[arg-type]
    run_loop(str, provider="gemini", history=history, shape="in a row")  # type: ignore[arg-type]
    RunEnded("tired")  # type: ignore[arg-type]
    Usage() + 1  # type: ignore[operator]


async def the_output_of_a_run(history: list[Content]) -> None:
    run = await run_loop(str, provider="gemini", history=history, output=Deps)
    str(run.output.notes)  # type: ignore[union-attr]
    if run.output is not None:
        str(run.output.folders)  # type: ignore[attr-defined]


def events_of_a_turn_alone(turn: Turn) -> None:
    running: list[ToolRunning] = [event for event in turn.feed(b"") if event.type != "text"]  # type: ignore[misc]
    str(running)
    for event in turn.feed(b""):
        str(event.text)  # type: ignore[union-attr]
        if isinstance(event, events.Text):
            str(event.text)
