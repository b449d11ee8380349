"""The scripted conversation of the demo: what is asked, called and answered, and one run of it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streamkit import providers
from streamkit.cli.connection import request_settings, request_url
from streamkit.cli.terminal import escape_line
from streamkit.framing import framer_for
from streamkit.values.redaction import redact

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.events import Event
    from streamkit.testing import Reply, Server

__all__ = [
    "CALLS",
    "QUESTION",
    "RESPONSE",
    "SECONDS",
    "WEATHER",
    "DemoResult",
    "converse",
    "print_verdict",
    "serve_script",
    "split_frames",
]

_DELTA_SIZE, _DELAY = 6, 0.02  # characters, seconds: about 75 tokens a second
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
    """The outcome of one conversation with one provider.

    Attributes:
        provider: the provider's name.
        events: the number of events of the run.
        calls: name and arguments of each call, in order.
        results: status of each call, and its value or error.
        ids: canonical id of each call.
        text: the last response's text.
        messages: the conversation in the provider's format.
        responses: the bytes of each response.
        moments: what happened in an eager run, in this order, with the seconds since the request.
        problem: a sentence on the error, or None.
    """

    provider: str
    events: int = 0
    calls: list[tuple[str, Any]] = field(default_factory=list)
    results: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    text: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    responses: list[bytes] = field(default_factory=list)
    moments: dict[str, float] = field(default_factory=dict)
    problem: str | None = None

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

    endpoint = providers.get(result.provider).traits.endpoint
    url = request_url(endpoint, "demo", server.base_url(result.provider, result.provider))

    async def read_response(context: Any) -> AsyncIterator[bytes]:
        result.responses.append(b"")
        async with http.stream("POST", url, json={**request_settings(endpoint, "demo"), **context.request}) as response:
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
