"""The demo's last part: one answer read twice, with tools that may begin in its middle and without.

Two tools read and may begin early; the third sends something, which nobody could take back if the answer failed, and so
waits for the answer's end. Both runs go over the network at the same time, so that they meet the same machine. Calls
run beside each other in both: what is gained is gained by beginning earlier alone.

Where people watch, the server paces the answer like a model and the tools sleep like real ones, and the seconds are
measured. Where nobody does, a pace in seconds would be slow and, on a busy machine, not always enough. There the frames
come one by one with turns of the event loop between them, which nothing can shorten: the order is the proof.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.cli.connection import request_settings, request_url
from streamkit.cli.tape import cut_into_frames, record_bytes
from streamkit.turn import Turn

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from streamkit.cli.timeline import Lane, Timeline
    from streamkit.testing import Server
    from streamkit.tools import Tool

__all__ = ["WIRES", "show"]

#: One whose blocks have an end, and one where a call is over when the next has begun.
WIRES = ("anthropic", "openai_chat")

_QUESTION = "Is it warmer in Oslo or in Bergen? And tell Ida that I come on Friday."
_LETTER = (
    "Dear Ida, on Friday I take the night train and stand at your door at eight, if the mountains let us through. "
    "I am finding out where the weather is better, and bring the coat that goes with it. Put the kettle on, and tell "
    "Nils that I have not forgotten our game of chess. Yours, Jo"
)
_ANSWER = "Bergen is warmer, and Ida knows."
_CALLS = [
    ("get_weather", {"city": "Oslo"}),
    ("get_weather", {"city": "Bergen"}),
    ("send_message", {"to": "Ida", "text": _LETTER}),
]
_WEATHER = {"Oslo": "4 degrees, snow", "Bergen": "9 degrees, rain"}

# What each call is called in the order of things, and in the picture.
_READING = (0, 1)  # the calls that may begin early, by index
_SAID = ("Oslo read", "Bergen read", "message sent")
_LANES = ("get_weather Oslo", "get_weather Bergen", "send_message")
_OVER = "answer over"

_PIECE = 6  # characters a frame: with the pace some 75 tokens a second, at 4 characters each
_PACE = 0.02  # seconds
_SECONDS = (0.9, 0.6, 0.2)  # that each call takes
_EXPECTED = 2.6  # seconds that the slower run takes, for the picture's scale
_TURNS = 10  # of the event loop between two frames, where nobody watches; two are enough for a tool that does not sleep


@dataclass(slots=True)
class _Run:
    """One reading of the answer.

    Attributes:
        name: on whose wire.
        eager: whether the tools that read may begin early.
        lanes: the answer, then its calls, on this run's clock.
        start: when the request was sent, as ``time.monotonic`` has it.
        took: seconds from there to the last result; None where it did not come to that.
        order: what was over, first things first.
        early: the calls, by index, that began before the answer was over.
        known: those that by then a reader can know to be whole.
        outcome: results, thread and answer, by name.
        problem: what kept it from its end.
    """

    name: str
    eager: bool
    lanes: list[Lane]
    start: float = 0.0
    took: float | None = None
    order: list[str] = field(default_factory=list)
    early: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    def now(self) -> float:
        return time.monotonic() - self.start

    def faults(self, *, paced: bool) -> Iterator[str]:
        """What was wrong with it, a sentence each. Where it was paced in seconds a slow machine may be late."""
        if self.problem is not None:
            yield f"{self.name}: {self.problem}"
            return
        for index in self.early:
            if not self.eager:
                yield f"{self.name}: {_LANES[index]} began before the answer was over, without eager=True."
            elif index not in _READING:
                yield f"{self.name}: {_LANES[index]} began before the answer was over, and must not."
        if self.eager and not paced:
            for index in _READING:
                if index in self.known and index not in self.early:
                    yield f"{self.name}: {_LANES[index]} was to begin before the answer was over, and did not."


async def show(names: Sequence[str], console: Console, *, live: bool) -> int:
    """Read the answer on each wire, with eager start and without, and say what came of it; 1 where that was wrong."""
    import httpx

    from streamkit.testing import Call, Reply, serve

    script = [Reply("I look it up, and write to Ida. ", *(Call(name, given) for name, given in _CALLS)), Reply(_ANSWER)]
    console.print()
    console.print(
        "[bold]Eager start:[/bold] get_weather only reads, so with eager=True it begins while the answer still comes, "
        "as soon as its call is whole. send_message waits for the answer's end."
    )
    faults: list[str] = []
    pace = _PACE if live else 0.0
    async with (
        serve(
            script, delta_size=_PIECE, delay=pace
        ) as one,  # a server each, so that their ids and threads are equal too
        serve(script, delta_size=_PIECE, delay=pace) as other,
        httpx.AsyncClient(timeout=30.0, trust_env=False) as http,  # as in the demo: this stays on the machine
    ):
        for name in names:
            faults += await _show_wire(name, (one, other), http, console, live=live)
    console.print()
    console.print(f"[dim]{_how(live=live)}[/dim]")
    for fault in faults:
        console.print(fault, style="red", markup=False)
    if not faults:
        console.print("[green]With eager=True and without, calls, results and threads are equal.[/green]")
    return 1 if faults else 0


def _how(*, live: bool) -> str:
    if not live:
        return "What was over first stands first. Nothing is paced or timed here; on a terminal, seconds are measured."
    each = ", ".join(f"{seconds:g}" for seconds in _SECONDS)
    return (
        f"Measured just now, one run each, both at once: from the request to the last result. The server sends some "
        f"{1 / _PACE:.0f} frames a second, of {_PIECE} characters where the wire cuts calls into pieces. The calls "
        f"take {each} seconds, beside each other in both runs."
    )


async def _show_wire(
    name: str, servers: Sequence[Server], http: httpx.AsyncClient, console: Console, *, live: bool
) -> list[str]:
    """Both runs on one wire; what was wrong with them, a sentence each."""
    import anyio
    from rich.console import Group
    from rich.live import Live

    from streamkit.cli.timeline import Lane, Timeline

    runs = [_Run(name, eager, [Lane("answer"), *map(Lane, _LANES)]) for eager in (False, True)]
    timelines = [Timeline(_title(run), run.lanes, _EXPECTED, clock=run.now) for run in runs]
    console.print(f"\n[bold]{name}[/bold]")
    picture = Live(Group(*timelines), console=console, refresh_per_second=20) if live else nullcontext()
    with picture:
        async with anyio.create_task_group() as tasks:
            for run, timeline, server in zip(runs, timelines, servers, strict=True):
                tasks.start_soon(_hold, run, timeline, server, http, live)
    without, early = runs
    faults = [fault for run in runs for fault in run.faults(paced=live)]
    if not faults:
        for what, value in without.outcome.items():
            if early.outcome.get(what) != value:
                faults.append(f"{name}: the {what} with eager=True: {early.outcome.get(what)!r}, without: {value!r}")
    if not live:
        for run in runs:
            console.print(f"  {_title(run):<11}  {', '.join(run.order)}", soft_wrap=True)
    elif without.took is not None and early.took is not None:
        console.print(f"[bold]{name}: the round took {without.took:.2f} s, with eager=True {early.took:.2f} s.[/bold]")
    if not any(run.known for run in runs) and not faults:
        console.print(f"{name} does not say that a call is over before the answer is, so nothing can begin early.")
    return faults


def _title(run: _Run) -> str:
    return f"eager={run.eager}"


async def _hold(run: _Run, timeline: Timeline, server: Server, http: httpx.AsyncClient, live: bool) -> None:
    """The conversation of one run, watched."""
    import httpx

    from streamkit.errors import StreamkitError
    from streamkit.events import Finished, RoundFinished
    from streamkit.execution import run_loop
    from streamkit.history import Content

    endpoint = providers.get(run.name).traits.endpoint
    url = request_url(endpoint, "demo", server.base_url(run.name))
    tapes: list[list[bytes]] = []

    async def ask(context: Any) -> AsyncIterator[bytes]:
        if not tapes:
            run.start = time.monotonic()
            run.lanes[0].begin = 0.0
        tapes.append([])
        pieces = record_bytes(
            http.stream("POST", url, json={**request_settings(endpoint, "demo"), **context.request}), tapes[-1]
        )
        return pieces if live else _in_turns(run.name, pieces)

    try:
        async with run_loop(
            ask,
            provider=run.name,
            tools=_tools(run, _SECONDS if live else (0.0, 0.0, 0.0), eager=run.eager),
            history=[Content.human(_QUESTION)],
            run_key="demo",
        ) as conversation:
            async for event in conversation:
                if isinstance(event, Finished) and run.lanes[0].end is None:
                    run.lanes[0].end = run.now()
                    run.order.append(_OVER)
                elif isinstance(event, RoundFinished) and event.update is not None:
                    run.took = timeline.took = run.now()
                    results = event.update.results
                    run.outcome["results"] = [(result.call.id, result.status, result.value) for result in results]
        run.outcome |= {"thread": conversation.thread, "answer": conversation.text}
    except (StreamkitError, httpx.HTTPError) as error:
        run.problem = f"{type(error).__name__}: {error}"
        timeline.took = run.now()
    if tapes:
        run.known = _known(run.name, b"".join(tapes[0]))


def _tools(run: _Run, seconds: Sequence[float], *, eager: bool) -> list[Tool]:
    import anyio

    from streamkit.tools import tool

    async def act(index: int) -> None:
        lane = run.lanes[index + 1]
        lane.begin = run.now()
        if run.lanes[0].end is None:
            run.early.append(index)
        await anyio.sleep(seconds[index])
        lane.end = run.now()
        run.order.append(_SAID[index])

    @tool(eager=eager)
    async def get_weather(city: str) -> str:
        """The weather in a city, now."""
        await act(list(_WEATHER).index(city))
        return _WEATHER[city]

    @tool
    async def send_message(to: str, text: str) -> str:
        """Send somebody a message."""
        await act(len(_WEATHER))
        return f"{len(text)} characters were sent to {to}"

    return [get_weather, send_message]


async def _in_turns(provider: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What a response brings, a frame at a time, as slow as the event loop can be told to be without a clock."""
    import anyio.lowlevel

    data = b"".join([piece async for piece in pieces])
    for frame in cut_into_frames(provider, data):
        yield frame
        for _ in range(_TURNS):
            await anyio.lowlevel.checkpoint()


def _known(provider: str, data: bytes) -> list[int]:
    """The calls of an answer, by index, that are known to be whole before its last frame."""
    turn = Turn(provider)
    for frame in list(cut_into_frames(provider, data))[:-1]:
        turn.feed(frame)
    return [index for index in range(len(_CALLS)) if turn.completed_call(index) is not None]
