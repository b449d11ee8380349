"""The demo of eager start: one response with three calls, with tools that may start early and without.

On a terminal the seconds of both are measured. Elsewhere nothing is timed, and the order of events shows the
difference.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from streamkit.cli.demo_conversation import (
    CALLS,
    RESPONSE,
    SECONDS,
    WEATHER,
    DemoResult,
    converse,
    print_verdict,
    serve_script,
)
from streamkit.cli.terminal import escape_line

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.events import Event
    from streamkit.testing import Server

__all__ = ["EAGER_WIRES", "compare_eager"]

EAGER_WIRES = ("anthropic", "openai_chat")  # blocks with an end; a call that ends when the next one starts

# The letter is so long that, on a terminal, both cities are read before the response is complete.
_EAGER_CALLS = [*CALLS[:2], ("send_message", {"to": "Ida", "text": "I come on Friday at eight. Yours, Jo. " * 8})]
_RESPONSE_COMPLETE = "response complete"


async def compare_eager(names: Sequence[str], console: Console, is_live: bool) -> list[str]:
    """Read one response with eager start and without; return errors of the two runs and their differences."""
    import anyio

    from streamkit.testing import Call, Reply

    console.print(
        "\n[bold]Eager start:[/bold] get_weather only reads. With eager=True it starts as soon as its call is "
        "complete, while the response still arrives. send_message starts after the response is complete. Each line "
        "shows when the calls for Oslo, Bergen and the message start."
    )
    script = [Reply("I look it up, and write to Ida.", *(Call(*call) for call in _EAGER_CALLS)), Reply(RESPONSE)]
    speed = 1.0 if is_live else 0.0
    differences: list[str] = []
    for name in names:
        console.print(f"\n{escape_line(name)}", style="bold", markup=False)
        without, eager = DemoResult(name), DemoResult(name)
        async with (
            # Two servers, so that both runs get the same ids. They run at the same time, under the same load.
            serve_script(script, speed) as server,
            serve_script(script, speed) as other,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(_run_eagerly, without, server, False, is_live)
            tasks.start_soon(_run_eagerly, eager, other, True, is_live)
        for result, title in ((without, "eager=False"), (eager, "eager=True")):
            moments = [f"{label} {seconds:.2f} s" if is_live else label for label, seconds in result.moments.items()]
            console.print(f"  {title:<11}  {escape_line(', '.join(moments))}", markup=False, soft_wrap=True)
            if result.problem:
                differences.append(f"{name}, {title}: {result.problem}")
        if not differences:
            differences += _eager_differences(without, eager)
        if not differences and not _early_calls(eager):
            console.print(
                f"{escape_line(name)} does not report the end of a call before the finish, so no call can start early.",
                markup=False,
            )
    console.print()
    print_verdict(differences, "With eager=True and without, calls, results and messages are equal.", console)
    return differences


async def _run_eagerly(result: DemoResult, server: Server, is_eager: bool, is_live: bool) -> None:
    """Run the conversation with three calls, and record the start of each call and the end of the response."""
    import anyio

    from streamkit.events import Finished, RoundFinished
    from streamkit.tools import tool

    start = time.monotonic()

    def record(label: str) -> None:
        result.moments.setdefault(label, time.monotonic() - start)

    def show(event: Event) -> None:
        if isinstance(event, Finished):
            record(_RESPONSE_COMPLETE)
        elif isinstance(event, RoundFinished) and event.update is not None:
            record("results complete")

    @tool(eager=is_eager)
    async def get_weather(city: str) -> str:
        """Return the current weather in a city."""
        record(city)
        await anyio.sleep(SECONDS[city] if is_live else 0.0)
        return WEATHER[city]

    @tool
    async def send_message(to: str, text: str) -> str:
        """Send a message to a person."""
        record("message")
        await anyio.sleep(SECONDS["message"] if is_live else 0.0)
        return f"{len(text)} characters were sent to {to}"

    await converse(result, server, [get_weather, send_message], show, by_frame=not is_live)


def _early_calls(result: DemoResult) -> list[str]:
    """Return the calls that started before the response was complete."""
    order = list(result.moments)
    return order[: order.index(_RESPONSE_COMPLETE)]


def _eager_differences(without: DemoResult, eager: DemoResult) -> Iterator[str]:
    """Return each call that started too early or too late, and each difference between the two runs."""
    name = without.provider
    for label in _early_calls(without):
        yield f"{name}: the call {label} started before the response was complete, without eager=True."
    if "message" in _early_calls(eager):
        yield f"{name}: the call message started before the response was complete, which its tool does not allow."
    if name in EAGER_WIRES and not _early_calls(eager):
        yield f"{name}: no call started before the response was complete, with eager=True."
    for title in ("calls", "results", "ids", "text", "messages"):
        value, eager_value = getattr(without, title), getattr(eager, title)
        if value != eager_value:
            yield f"{name}: {title} with eager=True: {eager_value!r}, without: {value!r}"
