"""One run with one tool, as a complete program: what ``import_time`` times in a new process.

The streams are in memory: a turn of Chat Completions with one call, and the answer to its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from streamkit import Content, RoundContext, run_loop, tool

START = b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":'
CALL = (
    b'{"index":0,"id":"call_0","type":"function","function":{"name":"weather","arguments":"{\\"city\\":\\"Oslo\\"}"}}'
)
TURNS = (
    [START + b'{"tool_calls":[' + CALL + b"]}}]}\n\n", START + b'{},"finish_reason":"tool_calls"}]}\n\n'],
    [START + b'{"content":"It rains."}}]}\n\n', START + b'{},"finish_reason":"stop"}]}\n\n'],
)


@tool
async def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"rain in {city}"


async def create_new_stream(context: RoundContext) -> AsyncIterator[bytes]:
    for data in [*TURNS[len(context.request["messages"]) > 1], b"data: [DONE]\n\n"]:
        yield data


async def main() -> None:
    history = [Content.human("Weather?")]
    async with run_loop(create_new_stream, provider="openai_chat", history=history, tools=[weather]) as run:
        async for _ in run:
            pass
    if run.turn is None or run.turn.text != "It rains.":
        raise SystemExit(f"the run ended {run.ended}")


asyncio.run(main())
