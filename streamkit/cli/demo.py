"""See one conversation on every wire, with no key and no network.

An embedded server speaks each provider's own format over real HTTP on this machine: the model calls two tools at once,
one of them fails, it calls that one again, and answers. Streamkit reads each stream, runs the tools and continues the
thread in the provider's format. The table shows whether the same came of it on each wire.

Then one answer with three calls is read twice, with tools that may begin before it is over and without. On a terminal
the seconds of both are measured; elsewhere the demo is quick, and the order of things shows the gain.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.cli import eager
from streamkit.cli.comparison import DemoResult, counted, print_block, print_table, print_verdict, shape
from streamkit.cli.connection import request_settings, request_url
from streamkit.cli.tape import cut_into_frames, record_bytes
from streamkit.turn import Turn

if TYPE_CHECKING:
    import httpx
    from rich.console import Console

    from streamkit.testing import Server

__all__ = ["configure", "run"]

_QUESTION = "Is it warmer in Oslo or in Bergen?"
_ANSWER = "Bergen: 9 degrees and rain. Oslo has 4 degrees and snow."
_WEATHER = {"Oslo": "4 degrees, snow", "Bergen": "9 degrees, rain"}
_CALLS = [("get_weather", {"city": city}) for city in ("Oslo", "Bergen", "Bergen")]
_SHOWN = ("azure_openai", "openai_chat", "openai_compatible")  # of the many that speak Chat Completions
_SILENT = "the station is silent"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--provider", metavar="NAME", help=f"this wire alone: {', '.join(providers.names())}")


def run(options: argparse.Namespace) -> int:
    """Hold the conversation on each wire; 1 where they differ."""
    import anyio
    from rich.console import Console

    names = [providers.get(options.provider).name] if options.provider else _wires()
    console = Console(highlight=False)
    return anyio.run(lambda: _demo(names, console))


def _wires() -> list[str]:
    """One provider of each wire, and the dialects that are asked for most."""
    families: dict[tuple[type, str], list[str]] = {}
    for name in providers.names():
        provider = providers.get(name)
        families.setdefault((type(provider), provider.traits.framing), []).append(name)
    return [name for family in families.values() for name in [n for n in family if n in _SHOWN] or family[:1]]


async def _demo(names: list[str], console: Console) -> int:
    import httpx

    from streamkit.testing import Call, Reply, serve

    script = [
        Reply("I ask both weather stations. ", *(Call(name, arguments) for name, arguments in _CALLS[:2])),
        Reply("Bergen did not answer; I ask there again. ", Call(*_CALLS[2])),
        Reply(_ANSWER),
    ]
    # Not rich's word alone: colours may be forced for a file (FORCE_COLOR, as CI sets it), a moving picture may not.
    live = console.is_terminal and not console.is_dumb_terminal and console.file.isatty()
    # For people to follow; all wires in some ten seconds, however many there are.
    speed = min(1.0, 4 / len(names)) if live else 0.0
    async with serve(script, delta_size=6, delay=0.02 * speed) as server:
        console.print(
            f"One scripted conversation over real HTTP on {server.url}, on {counted(len(names), 'wire')}.",
            soft_wrap=not live,
        )
        # Proxies are for the world outside; this stays on the machine.
        async with httpx.AsyncClient(timeout=30.0, trust_env=False) as http:
            outcomes = [await _converse(name, server, http, console, live=live, speed=speed) for name in names]
    print_table(outcomes, console)
    code = print_verdict(outcomes, _expected(outcomes[0]), console)
    return await eager.show(names if len(names) == 1 else eager.WIRES, console, live=live) or code


def _expected(first: DemoResult) -> DemoResult:
    """What the script says must come of it. How the failure is worded is the same everywhere, whatever it is."""
    failures = [why for status, why in first.results if status == "error" and _SILENT in why]
    results = [("completed", _WEATHER["Oslo"]), ("error", failures[0] if failures else _SILENT)]
    return DemoResult("", calls=_CALLS, results=[*results, ("completed", _WEATHER["Bergen"])], answer=_ANSWER)


async def _converse(
    name: str, server: Server, http: httpx.AsyncClient, console: Console, *, live: bool, speed: float
) -> DemoResult:
    import anyio
    import httpx
    from rich.live import Live

    from streamkit.cli.scene import ConversationView
    from streamkit.errors import StreamkitError
    from streamkit.events import RoundFinished
    from streamkit.execution import run_loop
    from streamkit.history import Content

    asked = 0

    async def get_weather(city: str) -> str:
        """The weather in a city, now."""
        nonlocal asked
        first, asked = city == "Bergen" and not asked, asked + (city == "Bergen")
        await anyio.sleep((0.5 if city == "Bergen" else 0.9) * speed)
        if first:
            raise TimeoutError(_SILENT)
        return _WEATHER[city]

    endpoint = providers.get(name).traits.endpoint
    url = request_url(endpoint, "demo", server.base_url(name))
    outcome, tapes, scene = DemoResult(name), list[list[bytes]](), ConversationView(_QUESTION)
    console.print()
    path = url.removeprefix(server.url).partition("?")[0]
    console.print(
        f"[bold]{name}[/bold]  [dim]POST {path}[/dim]",
        no_wrap=True,
        overflow="ellipsis" if live else "ignore",
        crop=live,
    )
    screen = Live(scene, console=console, refresh_per_second=20) if live else None

    async def ask(context: Any) -> AsyncIterator[bytes]:
        tapes.append([])
        body = {**request_settings(endpoint, "demo"), **context.request}
        return record_bytes(http.stream("POST", url, json=body), tapes[-1])

    if screen:
        screen.start()
    try:
        async with run_loop(
            ask, provider=name, tools=[get_weather], history=[Content.human(_QUESTION)], run_key="demo"
        ) as conversation:
            async for event in conversation:
                outcome.events += 1
                scene.show(event)
                if isinstance(event, RoundFinished) and event.update is not None:
                    for result in event.update.results:
                        outcome.calls.append((result.call.name, result.call.arguments))
                        outcome.results.append((result.status, result.value or result.error))
                        outcome.ids.append(result.call.id)
        outcome.answer = conversation.text
        outcome.thread = shape(conversation.thread)
    except (StreamkitError, httpx.HTTPError) as error:
        outcome.problem = f"{type(error).__name__}: {error}"
    finally:
        if screen:
            screen.stop()
        else:
            print_block(console, scene)
    _replay(outcome, tapes)
    return outcome


def _replay(outcome: DemoResult, tapes: list[list[bytes]], repeats: int = 30) -> None:
    """Feed what came over the network again, a frame a feed, to count the chunks and to measure what one costs."""
    rounds = [list(cut_into_frames(outcome.provider, b"".join(tape))) for tape in tapes]
    outcome.chunks = sum(map(len, rounds))
    if not outcome.chunks:
        return
    costs = []
    for _ in range(repeats):
        spent, ids = 0, []
        for number, frames in enumerate(rounds):
            turn = Turn(outcome.provider, turn_key=f"demo:{number}")
            start = time.thread_time_ns()
            for frame in frames:
                turn.feed(frame)
            spent += time.thread_time_ns() - start
            turn.close()
            ids += [call.id for call in turn.calls]
        costs.append(spent / outcome.chunks)
    outcome.nanoseconds = statistics.median(costs)
    if not outcome.problem and ids != outcome.ids:
        outcome.problem = f"the same bytes gave other ids when they were read again: {ids}, not {outcome.ids}"
