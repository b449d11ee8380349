"""The loop, the executors, the demo and ``SharedAccumulator`` share one accumulator and one round."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from execution.chat_chunks import answer

from streamkit import (
    Content,
    NormalizedToolChunk,
    SharedAccumulator,
    ThreadUpdate,
    Turn,
    execute_one_tool,
    execute_tool_calls_batched,
    run_loop,
)
from streamkit.accumulator import Accumulator
from streamkit.cli import main
from streamkit.execution.round.round import Round

pytestmark = pytest.mark.anyio

CALLS = [("double", {"n": number}) for number in range(3)]


async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@pytest.fixture(name="used")
def _used(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the accumulators that are closed, and the results that rounds take."""
    used: Counter[str] = Counter()

    def counted(kind: type, method: str) -> None:
        original = getattr(kind, method)

        def call(self: Any, *args: Any, **options: Any) -> Any:
            used[f"{kind.__name__}.{method}"] += 1
            return original(self, *args, **options)

        monkeypatch.setattr(kind, method, call)

    counted(Accumulator, "close")
    counted(Round, "set_result")
    return used


async def by_the_loop() -> ThreadUpdate:
    def ask(context: Any) -> Any:
        return answer("Done.") if context.round else answer("", *CALLS)

    options: dict[str, Any] = {"tools": [double], "history": [Content.human("Go.")], "run_key": "k"}
    async with run_loop(ask, provider="openai_chat", **options) as run:
        updates = [event.update async for event in run if event.type == "round_finished"]
    return updates[0]


async def by_an_executor() -> ThreadUpdate:
    turn = Turn("openai_chat", turn_key="k:0")
    for chunk in answer("", *CALLS):
        turn.feed(chunk)
    turn.close()
    return await execute_tool_calls_batched(turn, tools=[double])


async def work(shared: SharedAccumulator) -> ThreadUpdate:
    shared.close()
    updates = [queued.set_result(await execute_one_tool(queued.call, tools=[double])) async for queued in shared]
    [update] = [update for update in updates if update is not None]
    return update


async def by_a_shared_accumulator() -> ThreadUpdate:
    with SharedAccumulator() as shared:
        _ = [event async for event in shared.read(Turn("openai_chat", turn_key="k:0"), answer("", *CALLS))]
        return await work(shared)


async def by_the_chunks_of_a_parser() -> ThreadUpdate:
    with SharedAccumulator(provider="openai_chat") as shared:
        for chunk in answer("", *CALLS):
            for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
                function, key = call["function"], {"index": call["index"]}
                shared.put(NormalizedToolChunk("start", call["id"], function["name"], metadata=key), stream="k:0")
                delta = NormalizedToolChunk("delta", arguments_delta=function["arguments"], metadata=key)
                shared.put(delta, stream="k:0")
        await shared.end("k:0")
        return await work(shared)


@pytest.mark.parametrize("run", [by_an_executor, by_a_shared_accumulator, by_the_chunks_of_a_parser])
async def test_every_way_gives_the_calls_and_messages_of_the_loop(run: Any, used: Counter[str]) -> None:
    expected = await by_the_loop()
    assert used["Round.set_result"] == 3
    assert used["Accumulator.close"] == 2  # of two turns
    used.clear()
    update = await run()
    assert dict(used) == {"Accumulator.close": 1, "Round.set_result": 3}
    assert [result.call.id for result in update.results] == [result.call.id for result in expected.results]
    assert update.messages == expected.messages


def test_the_demo_runs_on_it(used: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--provider", "openai_chat"]) == 0
    assert used["Accumulator.close"] >= 3
    assert used["Round.set_result"] >= 3
    assert "get_weather" in capsys.readouterr().out
