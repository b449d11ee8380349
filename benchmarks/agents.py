"""A whole turn of an agent, of streamkit and other libraries, on the same recorded bytes: two requests and two tools.

    python -m benchmarks.agents [--rounds N]

The first response has two calls (OpenAI), the second the text after their results (Kimi). Each library gets them from
the HTTP client of the OpenAI SDK over a transport in memory, streams both, runs the tools and sends the results. A row
is the CPU time against the same with the OpenAI SDK by hand: chunks collected into calls, tools called, messages
appended.

The command makes an environment of its own in ``build/peers``, with the versions of ``.ci/peers.txt``, and writes
its table into ``benchmarks/README.md``. It says which library cannot be installed. ``python -m benchmarks agents`` runs
what is installed in the environment that is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, Settings, as_sync, interleave
from benchmarks.peers import http_library
from benchmarks.recorded import recorded_reads
from streamkit import Content, RoundContext, run_loop, tool

__all__ = ["main", "measure"]

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT, DOCUMENT = ROOT / "build" / "peers", ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- python -m benchmarks.agents writes this -->\n", "<!-- until here -->\n"
URL, QUESTION, ANSWER = "http://127.0.0.1/v1", "Where am I, and what is this?", "the result is **5**"
MODEL = "gpt-4o"
TIMES = 10  # turns in a run

Turn = Callable[[], Awaitable[str]]


async def get_country() -> str:
    """Return the country of the user."""
    return "Norway"


async def get_product_name() -> str:
    """Return the name of the product."""
    return "streamkit"


TOOLS = (get_country, get_product_name)
NO_PARAMETERS = {"type": "object", "properties": {}}
FUNCTIONS = [{"name": f.__name__, "description": f.__doc__, "parameters": NO_PARAMETERS} for f in TOOLS]
SCHEMAS: list[Any] = [{"type": "function", "function": function} for function in FUNCTIONS]


def async_client(http: Any) -> Any:
    """Return a client that gets the calls, or the answer once a request has their results."""
    calls, answer = recorded_reads("openai_chat/parallel-calls.sse"), recorded_reads("kimi/text.sse")

    async def body(reads: list[bytes]) -> AsyncIterator[bytes]:
        for data in reads:
            yield data

    def respond(request: Any) -> Any:
        has_results = request.content.count(b'"tool_call_id"') == len(TOOLS)
        headers = {"content-type": "text/event-stream"}
        return http.Response(200, headers=headers, content=body(answer if has_results else calls))

    return http.AsyncClient(transport=http.MockTransport(respond))


def openai_sdk(client: Any) -> Turn:
    import openai

    sdk = openai.AsyncOpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client)

    async def turn() -> str:
        messages: Any = [{"role": "user", "content": QUESTION}]
        while True:
            text, calls = "", {}
            stream = await sdk.chat.completions.create(model=MODEL, messages=messages, tools=SCHEMAS, stream=True)
            async for chunk in stream:
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for call in choice.delta.tool_calls or ():
                        parts = calls.setdefault(
                            call.index, {"id": call.id, "name": call.function.name, "arguments": ""}
                        )
                        parts["arguments"] += call.function.arguments or ""
            if not calls:
                return text
            messages += await run_tools(text, list(calls.values()))

    return turn


async def run_tools(text: str, calls: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the messages of a turn with calls and of their results, which are made at once."""
    functions = {each.__name__: each for each in TOOLS}
    results = await asyncio.gather(*(functions[call["name"]](**json.loads(call["arguments"])) for call in calls))
    parts = [{"id": c["id"], "type": "function", "function": {k: c[k] for k in ("name", "arguments")}} for c in calls]
    pairs = zip(calls, results, strict=True)
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call, result in pairs]
    return [{"role": "assistant", "content": text or None, "tool_calls": parts}, *answers]


def streamkit(client: Any) -> Turn:
    tools = [tool(each) for each in TOOLS]

    async def create_new_stream(context: RoundContext) -> AsyncIterator[bytes]:
        headers = {"authorization": "Bearer k"}
        body = {"model": MODEL, **context.request}
        async with client.stream("POST", f"{URL}/chat/completions", json=body, headers=headers) as response:
            async for data in response.aiter_bytes():
                yield data

    async def turn() -> str:
        history = [Content.human(QUESTION)]
        async with run_loop(create_new_stream, provider="openai_chat", history=history, tools=tools) as run:
            async for _ in run:
                pass
        return run.turn.text if run.turn else ""

    return turn


def pydantic_ai(client: Any) -> Turn:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=URL, api_key="k", http_client=client)
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), tools=TOOLS)

    async def handle(context: Any, events: Any) -> None:
        async for _ in events:
            pass

    async def turn() -> str:
        return str((await agent.run(QUESTION, event_stream_handler=handle)).output)

    return turn


def openai_agents(client: Any) -> Turn:
    import agents
    import openai

    agents.set_tracing_disabled(True)
    sdk = openai.AsyncOpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client)
    model = agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=sdk)
    agent = agents.Agent(name="a", model=model, tools=[agents.function_tool(each) for each in TOOLS])

    async def turn() -> str:
        result = agents.Runner.run_streamed(agent, QUESTION)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return turn


def langchain(client: Any) -> Turn:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, api_key="k", base_url=URL, http_async_client=client, streaming=True, max_retries=0)
    agent: Any = create_agent(model, tools=list(TOOLS))

    async def turn() -> str:
        text, state = "", {"messages": [{"role": "user", "content": QUESTION}]}
        async for message, _ in agent.astream(state, stream_mode="messages"):
            text += message.text
        return text

    return turn


def litellm(client: Any) -> Turn:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it requests a list of prices when imported
    import litellm as library
    import openai

    library.suppress_debug_info = True

    sdk = openai.AsyncOpenAI(base_url=URL, api_key="k", max_retries=0, http_client=client)

    async def turn() -> str:
        messages: Any = [{"role": "user", "content": QUESTION}]
        while True:
            stream: Any = await library.acompletion(
                f"openai/{MODEL}", messages=messages, tools=SCHEMAS, stream=True, client=sdk
            )
            message: Any = library.stream_chunk_builder([chunk async for chunk in stream]).choices[0].message
            if not message.tool_calls:
                return message.content
            functions = [(each.id, each.function) for each in message.tool_calls]
            calls = [{"id": key, "name": each.name, "arguments": each.arguments} for key, each in functions]
            messages += await run_tools(message.content or "", calls)

    return turn


#: Each with its distribution.
LIBRARIES: dict[str, tuple[str, Callable[[Any], Turn]]] = {
    "openai, by hand": ("openai", openai_sdk),
    "streamkit": ("streamkit", streamkit),
    "openai-agents": ("openai-agents", openai_agents),
    "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
    "langchain": ("langchain", langchain),
    "litellm": ("litellm", litellm),
}


async def repeat(turn: Turn) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(TIMES):
            text = await turn()
            if ANSWER not in text:
                raise SystemExit(f"the answer is {text!r}")


def measure(settings: Settings) -> Iterator[Row]:
    """Return the CPU time of a turn of each library that is installed, against the OpenAI SDK by hand."""
    http, loop = http_library(), asyncio.new_event_loop()
    works: dict[str, Callable[[], object]] = {}
    try:
        for name, (distribution, make) in LIBRARIES.items():
            try:
                version(distribution)
                works[name] = as_sync(loop, repeat, make(async_client(http)))
            except ImportError as error:
                print(f"  skipped: {name}: {error}")
        result = interleave(works, settings.rounds)
        floor = next(iter(works))
        for name in works:
            note = f"{version(LIBRARIES[name][0])}; {result.micros(name, TIMES) / 1e3:.2f} ms a turn"
            yield Row(name, result.ratio(name, floor), note=note)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def make_environment() -> Path:
    """Return the Python of the environment with the libraries, which is made if it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / ".ci" / "peers.txt"]
        subprocess.run([*install, "-e", f"{ROOT}[peers]", "orjson"], check=True)
        for distribution in (name for name, _ in LIBRARIES.values() if name != "streamkit"):
            if subprocess.run([*install, distribution]).returncode:
                print(f"skipped: {distribution} cannot be installed")
    return python


def write(rows: list[Row], rounds: int) -> None:
    """Replace the table in the document."""
    lines = [f"Python {platform.python_version()}, medians of {rounds} interleaved runs.\n\n"]
    lines += ["| | version | CPU time, against the OpenAI SDK by hand |\n", "|---|---|---|\n"]
    lines += [f"| {row.name} | {row.note.partition(';')[0]} | {row.value:.2f} |\n" for row in rows]
    before, begin, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    DOCUMENT.write_text("".join((before, begin, *lines, end, after)), "utf-8")


def main(argv: list[str] | None = None) -> None:
    """Run the command line: in the environment of the libraries, in a second process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="runs of each library (default: 9)")
    options = parser.parse_args(argv)
    if Path(sys.prefix) == ENVIRONMENT:
        from benchmarks.__main__ import print_row

        rows = list(measure(Settings(options.rounds)))
        for row in rows:
            print_row(row)
        write(rows, options.rounds)
    else:
        command = [make_environment(), "-m", "benchmarks.agents", "--rounds", str(options.rounds)]
        sys.exit(subprocess.run(command, cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
