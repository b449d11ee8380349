"""Other libraries on the same bytes, through the same HTTP client with a transport in memory.

The extra ``peers`` installs them; a library that is missing is left out, and the table says so. streamkit reads the
response of the same client. A row is the CPU time of a frame from the request to the last event, with the request, and
its note how many times that of streamkit it is.

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
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Settings, Skipped, as_sync, interleave
from benchmarks.streams import make_turn
from streamkit import Turn, read

__all__ = ["measure"]

FRAMES = 600
MOST_ROUNDS = 5
QUESTION: Any = [{"role": "user", "content": "Weather?"}]
URL = "http://127.0.0.1/v1"
HEADERS = {"content-type": "text/event-stream"}

NPM = Path(__file__).resolve().parent / "npm"

Work = Callable[[], object]


def _http() -> Any:
    """Return the HTTP client of the SDKs: httpx2, or httpx for their older releases."""
    for name in ("httpx2", "httpx"):
        try:
            return __import__(name)
        except ImportError:
            continue
    raise Skipped("httpx is not installed: pip install 'streamkit[peers]'")


def client(http: Any, reads: list[bytes]) -> Any:
    """Return a client that gets these bytes as the response of every request."""
    return http.Client(
        transport=http.MockTransport(lambda request: http.Response(200, headers=HEADERS, content=iter(reads)))
    )


def async_client(http: Any, reads: list[bytes]) -> Any:
    async def body() -> AsyncIterator[bytes]:
        for data in reads:
            yield data

    return http.AsyncClient(
        transport=http.MockTransport(lambda request: http.Response(200, headers=HEADERS, content=body()))
    )


def streamkit(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    connection = client(http, reads)

    def work() -> None:
        with connection.stream("POST", URL, json={"messages": QUESTION}) as response:
            for _ in read(Turn(provider, turn_key="benchmark"), response):
                pass

    return work


def openai_create(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, reads))

    def work() -> None:
        for _ in sdk.chat.completions.create(model="m", messages=QUESTION, stream=True):
            pass

    return work


def openai_stream(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, reads))

    def work() -> None:
        with sdk.chat.completions.stream(model="m", messages=QUESTION) as stream:
            for _ in stream:
                pass

    return work


def anthropic_create(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    import anthropic

    sdk = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0, http_client=client(http, reads))

    def work() -> None:
        for _ in sdk.messages.create(model="m", max_tokens=9, messages=QUESTION, stream=True):
            pass

    return work


def anthropic_stream(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    import anthropic

    sdk = anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0, http_client=client(http, reads))

    def work() -> None:
        with sdk.messages.stream(model="m", max_tokens=9, messages=QUESTION) as stream:
            for _ in stream:
                pass

    return work


def langchain(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    model: Any
    if provider == "anthropic":
        import anthropic
        from langchain_anthropic import ChatAnthropic

        model = ChatAnthropic(model="m", api_key="k", max_tokens=9)
        model.__dict__["_client"] = anthropic.Anthropic(base_url=URL, api_key="k", http_client=client(http, reads))
    else:
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(model="m", api_key="k", base_url=URL, http_client=client(http, reads))

    def work() -> None:
        for _ in model.stream("Weather?"):
            pass

    return work


def pydantic_ai(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest

    model: Any
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        model = AnthropicModel("m", provider=AnthropicProvider(api_key="k", http_client=async_client(http, reads)))
    else:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        connection = async_client(http, reads)
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL, api_key="k", http_client=connection))

    async def work() -> None:
        async with model_request_stream(model, [ModelRequest.user_text_prompt("Weather?")]) as stream:
            async for _ in stream:
                pass

    return as_sync(loop, work)


def litellm(http: Any, provider: str, reads: list[bytes], loop: asyncio.AbstractEventLoop) -> Work:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it requests a list of prices when imported
    import litellm as library
    import openai

    sdk = openai.OpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client(http, reads))

    def work() -> None:
        for _ in library.completion("openai/m", messages=QUESTION, stream=True, client=sdk):
            pass

    return work


Make = Callable[[Any, str, list[bytes], asyncio.AbstractEventLoop], Work]

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


def measure(settings: Settings) -> Iterator[Row]:
    """Return the microseconds of a frame of each library that is installed."""
    http = _http()
    loop = asyncio.new_event_loop()
    try:
        for provider, peers in PEERS.items():
            reads = make_turn(provider, FRAMES)
            works = {"streamkit": streamkit(http, provider, reads, loop)}
            versions = {"streamkit": version("streamkit") if _is_installed("streamkit") else ""}
            missing = [name for name, (distribution, _) in peers.items() if not _is_installed(distribution)]
            for name, (distribution, make) in peers.items():
                if name not in missing:
                    works[name] = partial(_without_warnings, make(http, provider, reads, loop))
                    versions[name] = version(distribution)
            result = interleave(works, min(settings.rounds, MOST_ROUNDS))
            for name in works:
                note = f"{versions[name]}; {result.ratio(name, 'streamkit'):.1f} times streamkit".removeprefix("; ")
                yield Row(f"{provider}: {name}", result.micros(name, len(reads)), "us", note=note)
            for name in missing:
                print(f"  skipped: {name} is not installed: pip install 'streamkit[peers]'")
            try:
                micros, release = ai_sdk(provider, reads, min(settings.rounds, MOST_ROUNDS))
            except Skipped as reason:
                print(f"  skipped: {reason}")
            else:
                times = micros / result.micros("streamkit", len(reads))
                yield Row(f"{provider}: npm ai", micros, "us", note=f"{release}; {times:.1f} times streamkit")
    finally:
        loop.close()


def ai_sdk(provider: str, reads: list[bytes], rounds: int) -> tuple[float, str]:
    """Return the microseconds of a frame of the AI SDK's ``streamText``, and its version.

    Raises:
        Skipped: node or the packages are not installed, or it failed.
    """
    node = shutil.which("node")
    if node is None or not (NPM / "node_modules" / "ai").is_dir():
        raise Skipped("npm ai is not installed: (cd benchmarks/npm && npm ci --ignore-scripts), which needs node")
    work = json.dumps({"provider": provider, "reads": [data.decode() for data in reads], "rounds": rounds})
    done = subprocess.run([node, str(NPM / "stream_text.mjs")], input=work, capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"npm ai failed: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    if result["parts"] < len(reads):
        raise Skipped(f"npm ai read {result['parts']} parts of {len(reads)} frames")
    return statistics.median(result["micros"]) / len(reads), result["version"]


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _without_warnings(work: Work) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()
