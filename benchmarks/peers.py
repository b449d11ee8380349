"""Other libraries on the same recorded bytes, through the same HTTP client with a transport in memory.

The extra ``peers`` installs them; a library that is missing is left out, and the table says so. streamkit reads the
response of the same client. A row is the CPU time of a frame from the request to the last event, with the request, and
its note how many times that of streamkit it is. The streams are those of OpenAI's and Anthropic's servers with at least
20 frames, each the response to one request; one that a library does not survive is left out for all.

The AI SDK of npm runs in a process of node, after the others, with the same frames from a ``fetch`` in memory, once
``npm ci --ignore-scripts`` was run in ``benchmarks/npm``.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Settings, Skipped, as_sync, interleave
from benchmarks.recorded import FEWEST_FRAMES, load_streams
from streamkit import Turn, read

__all__ = ["http_library", "measure"]

MOST_ROUNDS = 5
QUESTION: Any = [{"role": "user", "content": "Weather?"}]
URL = "http://127.0.0.1/v1"
HEADERS = {"content-type": "text/event-stream"}

NPM = Path(__file__).resolve().parent / "npm"

Work = Callable[[], object]
Streams = list[list[bytes]]


def http_library() -> Any:
    """Return the HTTP client of the SDKs: httpx2, or httpx for their older releases."""
    for name in ("httpx2", "httpx"):
        try:
            return __import__(name)
        except ImportError:
            continue
    raise Skipped("httpx is not installed: pip install 'streamkit-llm[peers]'")


def client(http: Any, streams: Streams) -> Any:
    """Return a client that gets the streams in turn, each as the response to one request."""
    responses = cycle(streams)
    return http.Client(
        transport=http.MockTransport(lambda request: http.Response(200, headers=HEADERS, content=iter(next(responses))))
    )


def async_client(http: Any, streams: Streams) -> Any:
    responses = cycle(streams)

    async def body() -> AsyncIterator[bytes]:
        for data in next(responses):
            yield data

    return http.AsyncClient(
        transport=http.MockTransport(lambda request: http.Response(200, headers=HEADERS, content=body()))
    )


def streamkit(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    connection = client(http, streams)

    def work() -> None:
        with connection.stream("POST", URL, json={"messages": QUESTION}) as response:
            for _ in read(Turn(provider, turn_key="benchmark"), response):
                pass

    return work


def openai_create(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, streams))

    def work() -> None:
        for _ in sdk.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=True):
            pass

    return work


def openai_stream(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, streams))

    def work() -> None:
        with sdk.chat.completions.stream(model="gpt-4o", messages=QUESTION) as stream:
            for _ in stream:
                pass

    return work


def anthropic_create(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    import anthropic

    sdk = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0, http_client=client(http, streams))

    def work() -> None:
        for _ in sdk.messages.create(model="gpt-4o", max_tokens=9, messages=QUESTION, stream=True):
            pass

    return work


def anthropic_stream(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    import anthropic

    sdk = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0, http_client=client(http, streams))

    def work() -> None:
        with sdk.messages.stream(model="gpt-4o", max_tokens=9, messages=QUESTION) as stream:
            for _ in stream:
                pass

    return work


def langchain(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    model: Any
    if provider == "anthropic":
        import anthropic
        from langchain_anthropic import ChatAnthropic

        model = ChatAnthropic(model="gpt-4o", api_key="k", max_tokens=9)
        model.__dict__["_client"] = anthropic.Anthropic(base_url=URL, api_key="k", http_client=client(http, streams))
    else:
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(model="gpt-4o", api_key="k", base_url=URL, http_client=client(http, streams))

    def work() -> None:
        for _ in model.stream("Weather?"):
            pass

    return work


def pydantic_ai(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest

    model: Any
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        model = AnthropicModel("m", provider=AnthropicProvider(api_key="k", http_client=async_client(http, streams)))
    else:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        connection = async_client(http, streams)
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL, api_key="k", http_client=connection))

    async def work() -> None:
        async with model_request_stream(model, [ModelRequest.user_text_prompt("Weather?")]) as stream:
            async for _ in stream:
                pass

    return as_sync(loop, work)


def litellm(http: Any, provider: str, streams: Streams, loop: asyncio.AbstractEventLoop) -> Work:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it requests a list of prices when imported
    import litellm as library
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, streams))

    def work() -> None:
        for _ in library.completion("openai/gpt-4o", messages=QUESTION, stream=True, client=sdk):
            pass

    return work


Make = Callable[[Any, str, Streams, asyncio.AbstractEventLoop], Work]

#: Of each provider: the libraries, each with its distribution.
PEERS: dict[str, dict[str, tuple[str, Make]]] = {
    "openai_chat": {
        "openai create": ("openai", openai_create),
        "openai stream": ("openai", openai_stream),
        "langchain": ("langchain-openai", langchain),
        "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
        "litellm": ("litellm", litellm),
    },
    "anthropic": {
        "anthropic create": ("anthropic", anthropic_create),
        "anthropic stream": ("anthropic", anthropic_stream),
        "langchain": ("langchain-anthropic", langchain),
        "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
    },
}


def survives(make: Make, *arguments: Any) -> bool:
    """Return whether a library reads a stream without an error."""
    try:
        _repeat(make(*arguments), 1)
    except Exception:
        return False
    return True


def measure(settings: Settings) -> Iterator[Row]:
    """Return the microseconds of a frame of each library that is installed."""
    http = http_library()
    loop = asyncio.new_event_loop()
    try:
        for provider, peers in PEERS.items():
            makes = {"streamkit": ("streamkit", streamkit)} | peers
            for name in [name for name in makes if not _is_installed(makes[name][0])]:
                print(f"  skipped: {name} is not installed: pip install 'streamkit-llm[peers]'")
                del makes[name]
            recorded = [stream for stream in load_streams(settings.captures) if stream.provider == provider]
            long = [stream.reads for stream in recorded if stream.frames >= FEWEST_FRAMES]
            functions = [make for _, make in makes.values()]
            streams = [reads for reads in long if all(survives(f, http, provider, [reads], loop) for f in functions)]
            frames = sum(map(len, streams))
            print(f"  {provider}: {len(streams)} of {len(long)} streams, {frames} frames")
            if not streams:
                continue
            works = {}
            for name, (_, make) in makes.items():
                works[name] = partial(_repeat, make(http, provider, streams, loop), len(streams))
            result = interleave(works, min(settings.rounds, MOST_ROUNDS))
            for name in works:
                note = f"{version(makes[name][0])}; {result.ratio(name, 'streamkit'):.1f} times streamkit"
                yield Row(f"{provider}: {name}", result.micros(name, frames), "us", note=note)
            try:
                micros, release = ai_sdk(provider, streams, min(settings.rounds, MOST_ROUNDS))
            except Skipped as reason:
                print(f"  skipped: {reason}")
            else:
                times = micros / result.micros("streamkit", frames)
                yield Row(f"{provider}: npm ai", micros, "us", note=f"{release}; {times:.1f} times streamkit")
    finally:
        loop.close()


def ai_sdk(provider: str, streams: Streams, rounds: int) -> tuple[float, str]:
    """Return the microseconds of a frame of the AI SDK's ``streamText``, and its version.

    Raises:
        Skipped: node or the packages are not installed, or it failed.
    """
    node = shutil.which("node")
    if node is None or not (NPM / "node_modules" / "ai").is_dir():
        raise Skipped("npm ai is not installed: (cd benchmarks/npm && npm ci --ignore-scripts), which needs node")
    texts = [[data.decode() for data in reads] for reads in streams]
    work = json.dumps({"provider": provider, "streams": texts, "rounds": rounds})
    done = subprocess.run([node, str(NPM / "stream_text.mjs")], input=work, capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"npm ai failed: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    frames = sum(map(len, streams))
    if result["parts"] < frames / 2:  # starts, ends and pings are no parts
        raise Skipped(f"npm ai read {result['parts']} parts of {frames} frames")
    return statistics.median(result["micros"]) / frames, result["version"]


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _repeat(work: Work, times: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(times):
            work()
