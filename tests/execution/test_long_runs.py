"""Runs of hundreds of rounds: each request is what its conversation gives when it is rendered from nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamkit import Content, RoundContext, Run, providers, render_request, run_loop
from streamkit.history import ImageBlock, ReasoningBlock, TextBlock, ToolCallBlock

pytestmark = pytest.mark.anyio

HISTORY = [Content.system("Be brief."), Content.human("Go.")]
PNG = "data:image/png;base64,iVBORw0KGgo="


async def look(number: int) -> Any:
    """Return what is seen."""
    return ["An image:", ImageBlock(data=PNG)] if number % 5 == 0 else {"seen": number}


async def fail(number: int) -> str:
    """Fail."""
    raise ValueError(f"not {number}")


def blocks_of(number: int) -> Iterator[Any]:
    """Yield the blocks of a response: some have reasoning or a text, most have one call, some have more."""
    if number % 3 == 0:
        yield ReasoningBlock(text="Hm.", signature="c2ln")
    if number % 4:
        yield TextBlock(text=f"Round {number}. ")
    for call in range(1 + number % 7 // 5):
        name = "fail" if number % 6 == 2 else "look"
        yield ToolCallBlock(id=f"call_{number % 50}_{call}", name=name, parameters={"number": number})


def as_bytes(body: Any) -> bytes:
    return json.dumps(body).encode()


async def run_rounds(name: str, rounds: int, *, every: int = 1, **options: Any) -> Run:
    """Return a run of many rounds whose requests are compared; the caller changes their bodies now and then."""
    provider = providers.get(name)
    compared = 0

    def create_new_stream(context: RoundContext) -> list[bytes]:
        nonlocal compared
        request, number = context.request, context.round
        if number % every == 0 or number > rounds - 5:
            options: Any = {"tools": context.tools, "tool_choice": context.tool_choice, "cache": context.cache}
            assert as_bytes(request) == as_bytes(render_request(context.contents, provider, **options))
            compared += 1
        messages = request[provider.traits.messages_field]
        if number % 3 == 1:
            messages[number * 7 % len(messages)].clear()
        if number % 3 == 2:
            messages.insert(0, {"role": "user", "content": "Mine."})
        if number % 20 == 10:
            run.send(Content.human(f"And {number}?"))
        blocks = list(blocks_of(number)) if number < rounds - 1 else [TextBlock(text="Done.")]
        response = Content(speaker="ai", blocks=blocks)
        return list(provider.emit(response, response_id=f"r{number}", model="m"))

    def shorten(context: RoundContext) -> RoundContext | None:
        if context.round % 200 != 150:
            return None
        kept = [context.contents[0], Content.human("The beginning was left out.")]
        return replace(context, contents=kept + context.contents[-20:])

    run = run_loop(
        create_new_stream,
        provider=provider,
        history=HISTORY,
        tools=[look, fail],
        run_key="run-1",
        max_rounds=rounds,
        before_follow_up=shorten,
        **options,
    )
    await run
    assert run.ended == "answered"
    assert compared >= rounds // every
    return run


@pytest.mark.parametrize("cache", [None, "auto"])
@pytest.mark.parametrize("name", providers.names())
async def test_every_request_of_a_run_is_rendered_as_from_nothing(name: str, cache: Any) -> None:
    await run_rounds(name, 24, cache=cache)


@pytest.mark.slow
@pytest.mark.parametrize("cache", [None, "auto"])
@pytest.mark.parametrize("name", providers.names())
async def test_every_request_of_a_long_run_is_rendered_as_from_nothing(name: str, cache: Any) -> None:
    await run_rounds(name, 700, every=10, cache=cache)
