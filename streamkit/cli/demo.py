"""Show one conversation as it streams, and run it on every wire, without a key and without a network.

An embedded server on this machine sends each provider's own format over HTTP. The model calls two tools at once, one of
them fails, and the model calls it again before it responds. Streamkit reads each stream, runs the tools and continues
the conversation in the provider's format. One wire is shown (with --provider, each that it names). The table shows that
calls, results and text are the same on each of the others.

Then one response with three calls is read twice: with tools that may start before the response is complete
(eager=True), and without. On a terminal the seconds of both are measured. Elsewhere nothing is timed, and the order of
events shows the difference.

At last three wires are read at once. Their calls run under one limit, and each stream gets its own results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.bridges.http import connect, request_url
from streamkit.cli.terminal import ConversationView, escape_line, raw_stream
from streamkit.framing import framer_for
from streamkit.providers.provider import Provider
from streamkit.reading.turn import Turn
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.events import Event
    from streamkit.testing import Reply, Server

__all__ = [
    "CALLS",
    "EAGER_WIRES",
    "QUESTION",
    "RESPONSE",
    "SECONDS",
    "STREAM_WIRES",
    "WEATHER",
    "DemoResult",
    "compare_eager",
    "configure",
    "converse",
    "print_verdict",
    "run",
    "run_streams",
    "serve_script",
    "split_frames",
]

_DELTA_SIZE, _DELAY = 6, 0.02  # characters, seconds: about 75 tokens a second
_ID_PREFIX = "hist_tool_"  # of canonical ids
_LOOP_TURNS = 10  # of the event loop between two frames when nothing is timed; two are enough for a tool without I/O
QUESTION = "Is it warmer in Oslo or in Bergen?"
RESPONSE = "Bergen: 9 degrees and rain. Oslo has 4 degrees and snow."
WEATHER = {"Oslo": "4 degrees, snow", "Bergen": "9 degrees, rain"}
CALLS = [("get_weather", {"city": city}) for city in ("Oslo", "Bergen", "Bergen")]
SECONDS = {"Oslo": 0.9, "Bergen": 0.5, "message": 0.2}  # the time that each call takes on a terminal
_FAILURE = "get_weather failed with TimeoutError: the station is silent."
_RESULTS = [("completed", WEATHER["Oslo"]), ("error", _FAILURE), ("completed", WEATHER["Bergen"])]


@dataclass(slots=True)
class DemoResult:
    """The outcome of one conversation with one provider."""

    provider: str  #: the provider's name
    events: int = 0  #: the number of events of the run
    calls: list[tuple[str, Any]] = field(default_factory=list)  #: name and arguments of each call, in order
    results: list[tuple[str, Any]] = field(default_factory=list)  #: status of each call, and its value or error
    ids: list[str] = field(default_factory=list)  #: canonical id of each call
    text: str = ""  #: the last response's text
    messages: list[dict[str, Any]] = field(default_factory=list)  #: the conversation in the provider's format
    responses: list[bytes] = field(default_factory=list)  #: the bytes of each response
    #: what happened in an eager run, in this order, with the seconds since the request
    moments: dict[str, float] = field(default_factory=dict)
    problem: str | None = None  #: a sentence on the error, or None

    def differences(self) -> Iterator[str]:
        """Return the differences from the script, one sentence each."""
        actual = {"calls": self.calls, "results": self.results, "text": self.text}
        for title, value in {"calls": CALLS, "results": _RESULTS, "text": RESPONSE}.items():
            if actual[title] != value and not self.problem:
                yield f"{self.provider} differs: {title}: {actual[title]!r}, not {value!r}"
        if len(set(self.ids)) != len(self.calls):
            yield f"{self.provider} differs: the canonical ids are not unique: {', '.join(self.ids)}"
        if self.problem:
            yield f"{self.provider} differs: {self.problem}"


def serve_script(script: Sequence[Reply], speed: float) -> Server:
    """Return a server that sends a script at a part of the usual speed of a model; 0 is without delays."""
    from streamkit.testing import serve

    return serve(script, delta_size=_DELTA_SIZE, delay=_DELAY * speed)


async def converse(
    result: DemoResult, server: Server, tools: Sequence[Any], show: Callable[[Event], None], *, by_frame: bool = False
) -> None:
    """Run the conversation over HTTP and record it in *result*; with *by_frame*, let tools run between two frames."""
    import anyio.lowlevel
    import httpx

    from streamkit.errors import StreamkitError
    from streamkit.events import RoundFinished
    from streamkit.execution import run_loop
    from streamkit.history import Content

    base_url = server.base_url(result.provider, result.provider)

    async def read_response(context: Any) -> AsyncIterator[bytes]:
        result.responses.append(b"")
        async with connection(context) as response:
            async for data in response.aiter_bytes():
                result.responses[-1] += data
                if not by_frame:
                    yield data
        for frame in split_frames(result.provider, result.responses[-1]) if by_frame else ():
            yield frame
            for _ in range(_LOOP_TURNS):
                await anyio.lowlevel.checkpoint()

    history = [Content.human(QUESTION)]
    try:
        async with (
            httpx.AsyncClient(timeout=30.0, trust_env=False) as http,  # no proxy: the server is on this machine
            connect(result.provider, model="demo", base_url=base_url, client=http) as connection,
            run_loop(read_response, provider=result.provider, tools=tools, history=history, run_key="demo") as run,
        ):
            async for event in run:
                result.events += 1
                if isinstance(event, RoundFinished) and event.update is not None:
                    for outcome in event.update.results:
                        result.calls.append((outcome.call.name, outcome.call.arguments))
                        result.results.append((outcome.status, outcome.value or outcome.error))
                        result.ids.append(outcome.call.id)
                show(event)
        result.text, result.messages = run.text, run.thread
    except (StreamkitError, httpx.HTTPError) as error:
        result.problem = f"{type(error).__name__}: {error}"


def split_frames(provider: str, data: bytes) -> list[bytes]:
    """Split the bytes of a response at the ends of its frames."""
    framer = framer_for(providers.get(provider).traits.framing)
    ends = [end for end in range(1, len(data)) if framer.feed(data[end - 1 : end])]
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True) if data]


def print_verdict(differences: Sequence[str], success: str, console: Console) -> None:
    """Print the differences, or the sentence that there are none."""
    for line in differences:
        console.print(escape_line(redact(line)), style="red", markup=False)
    if not differences:
        console.print(escape_line(success), style="green", markup=False)


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


STREAM_WIRES = ("anthropic", "gemini", "openai_chat")


async def run_streams(console: Console, is_live: bool) -> list[str]:
    """Read three streams at once and run their calls, two at a time; return the differences of their results."""
    import anyio
    import httpx

    from streamkit.events import RoundFinished, ToolCompleted
    from streamkit.execution import SharedAccumulator, execute_tool_calls_batched
    from streamkit.history import Content
    from streamkit.providers.rendering.conversion import render_request
    from streamkit.testing import Call, Reply

    console.print(
        "\n[bold]Several streams:[/bold] three responses are read at once. The calls of each run when it is complete, "
        "at most two of all at a time, and each stream gets its own results.\n"
    )
    shared, speed = SharedAccumulator(), 1.0 if is_live else 0.0
    outcomes: dict[str, list[tuple[str, Any]]] = {}

    async def get_weather(city: str) -> str:
        """Return the current weather in a city."""
        await anyio.sleep(SECONDS[city] * speed)
        return WEATHER[city]

    async def read(name: str, server: Server, http: httpx.AsyncClient) -> None:
        settings = {"model": "demo"}
        body = render_request([Content.human(QUESTION)], name, tools=[get_weather], stream=True, settings=settings)
        url = request_url(providers.get(name).traits.endpoint, "demo", server.base_url(name, name))
        async with http.stream("POST", url, json=body) as response:
            async for _ in shared.read(Turn(name, turn_key="demo"), response):
                pass

    async def read_all() -> None:
        script = [Reply("I ask both weather stations.", *(Call(*call) for call in CALLS[:2]))] * len(STREAM_WIRES)
        async with (
            serve_script(script, speed) as server,
            httpx.AsyncClient(timeout=30.0, trust_env=False) as http,
            anyio.create_task_group() as streams,
        ):
            for name in STREAM_WIRES:
                streams.start_soon(read, name, server, http)
        shared.close()

    async with (
        execute_tool_calls_batched(shared, tools=[get_weather], limit=2) as execution,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read_all)
        async for stream, event in execution:
            name = stream.provider.name if isinstance(stream, Turn) else str(stream)
            if isinstance(event, ToolCompleted):
                line = f"  {name:<11}  get_weather {json.dumps(event.result.call.arguments)} = {event.result.value}"
                console.print(escape_line(line), markup=False, soft_wrap=True)
            elif isinstance(event, RoundFinished) and event.update is not None:
                outcomes[name] = [(result.status, result.value) for result in event.update.results]
    expected = [("completed", WEATHER[city]) for city in ("Oslo", "Bergen")]
    differences = [f"{name}: {outcomes.get(name)}" for name in STREAM_WIRES if outcomes.get(name) != expected]
    console.print()
    print_verdict(differences, "Each of the three streams has the results of its own calls.", console)
    return differences


_CHAT_EXAMPLES = ("azure_openai", "openai_chat", "openai_compatible")  # of the many providers with Chat Completions
_SHOWN = "anthropic"  # the wire of the conversation that is shown


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        metavar="NAME",
        help=f"show and compare these wires alone; repeat it for more: {', '.join(providers.names())}",
    )


def run(options: argparse.Namespace) -> int:
    """Run the demo; return 1 if two wires or two runs differ."""
    import anyio
    from rich.console import Console

    chosen = list(dict.fromkeys(providers.get(name).name for name in options.provider))
    console = Console(file=raw_stream(sys.stdout), highlight=False, emoji=False)
    # FORCE_COLOR, which CI sets, makes rich report a terminal for a file too.
    is_live = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
    differences = anyio.run(_compare_wires, chosen or list_wires(), chosen or [_SHOWN], console, is_live)
    differences += anyio.run(compare_eager, chosen or EAGER_WIRES, console, is_live)
    if not chosen:
        differences += anyio.run(run_streams, console, is_live)
    return 1 if differences else 0


def list_wires() -> list[str]:
    """Return one provider for each wire, and the most common ones of Chat Completions."""
    by_wire: dict[tuple[str, str], list[str]] = {}
    for name in providers.names():
        provider = providers.get(name)
        if isinstance(provider, Provider):  # a plugin may be another object with the methods
            by_wire.setdefault((provider.package, provider.traits.framing), []).append(name)
    return [name for names in by_wire.values() for name in [n for n in names if n in _CHAT_EXAMPLES] or names[:1]]


async def _compare_wires(names: Sequence[str], shown: Sequence[str], console: Console, is_live: bool) -> list[str]:
    """Run the scripted conversation with each provider; return every difference from the script.

    Args:
        names: the providers.
        shown: those whose conversation is printed as it arrives; on a terminal with a model's usual speed.
        console: the output.
        is_live: whether it is a terminal.
    """
    import anyio
    from rich.text import Text

    from streamkit.testing import Call, Reply

    script = [
        Reply("I ask both weather stations.", *(Call(*call) for call in CALLS[:2])),
        Reply("Bergen did not answer; I ask there again.", Call(*CALLS[2])),
        Reply(RESPONSE),
    ]
    results = [DemoResult(name) for name in names]

    async def run_script(result: DemoResult, server: Server, speed: float, show: Callable[[Event], None]) -> None:
        cities: list[str] = []

        async def get_weather(city: str) -> str:
            """Return the current weather in a city."""
            cities.append(city)
            await anyio.sleep(SECONDS[city] * speed)
            if city == "Bergen" and cities.count(city) == 1:
                raise TimeoutError("the station is silent")
            return WEATHER[city]

        await converse(result, server, [get_weather], show)

    speed = 1.0 if is_live else 0.0
    with serve_script(script, speed) as server:
        for result in (result for result in results if result.provider in shown):
            base_url = server.base_url(result.provider, result.provider)
            url = request_url(providers.get(result.provider).traits.endpoint, "demo", base_url).partition("?")[0]
            path = url.removeprefix(server.url).replace(f"@{result.provider}", "")
            title = f"{escape_line(result.provider)}, a scripted conversation over HTTP"
            console.print(Text.assemble((title, "bold"), "  ", (f"POST {escape_line(path)}\n", "dim")), soft_wrap=True)
            view = ConversationView(console)
            view.print_line("you", QUESTION)
            await run_script(result, server, speed, view.show)
            view.end_line()
            console.print()
    with serve_script(script, 0.0) as server:
        for result in (result for result in results if result.provider not in shown):
            await run_script(result, server, 0.0, lambda _: None)
    _print_table(results, console)
    differences = [line for result in results for line in result.differences()]
    where = f"the same on each of the {len(names)} wires" if len(names) > 1 else f"as scripted on {names[0]}"
    print_verdict(differences, f"Calls, results and text are {where}.", console)
    return differences


def _print_table(results: Sequence[DemoResult], console: Console) -> None:
    """Print the figures, ids and messages of each wire."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for title in ("wire", "chunks", "events", "us/chunk", "calls", "messages"):
        is_figure = title in ("chunks", "events", "us/chunk")
        table.add_column(title, justify="right" if is_figure else "left", overflow="fold", no_wrap=title == "wire")
    for result in results:
        chunks, microseconds = _measure(result)
        roles = [str(message.get("role") or message.get("type")) for message in result.messages]
        # The function_call_output of the Responses API would take half of the line.
        counts = [
            f"{count} {role.replace('function_', '')}".removeprefix("1 ") for role, count in Counter(roles).items()
        ]
        ids = [call_id.removeprefix(_ID_PREFIX)[:3] for call_id in result.ids]
        cells = (f"{chunks}", f"{result.events}", f"{microseconds:.1f}", " ".join(ids), ", ".join(counts))
        table.add_row(*(Text(escape_line(cell)) for cell in (result.provider, *cells)))
    console.print(table)
    console.print(
        "\n[dim]A chunk is one frame of the wire. Its time is the CPU time of Turn.feed, from bytes to events and "
        f"calls: the median of 30 replays of the recorded bytes. A call is shown by its canonical id, {_ID_PREFIX}..., "
        "which is the same when the same bytes are read again. The messages are those in the provider's format.[/dim]"
    )


def _measure(result: DemoResult, repeats: int = 30) -> tuple[int, float]:
    """Replay the responses frame by frame; return the number of chunks and the microseconds of CPU time for each."""
    rounds = [split_frames(result.provider, data) for data in result.responses]
    costs, chunks = [], sum(map(len, rounds))
    for _ in range(repeats):
        spent, ids = 0, []
        for number, frames in enumerate(rounds):
            turn = Turn(result.provider, turn_key=f"demo:{number}")
            start = time.thread_time_ns()
            for frame in frames:
                turn.feed(frame)
            spent += time.thread_time_ns() - start
            turn.close()
            ids += [call.id for call in turn.calls]
        costs.append(spent / max(1, chunks) / 1000)
        if ids != result.ids and not result.problem:
            result.problem = f"the same bytes gave other ids when they were read again: {ids}, not {result.ids}"
    return chunks, statistics.median(costs)
