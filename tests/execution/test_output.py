"""``run_loop(output=...)``: the typed output of a run, from text or from a call, and its correction by the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import httpx
import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel
from pydantic import BaseModel

from streamkit import Content, Growing, InvalidOutput, Retries, Run, RunState, UsageError, run_loop, tool
from streamkit.events import RoundFinished, ToolCompleted, ToolError
from streamkit.testing import Call, Reply, serve

pytestmark = pytest.mark.anyio

ASK = [Content.human("A soup, please.")]


class Recipe(BaseModel):
    """A recipe."""

    name: str
    price: Decimal


GOOD = '{"name":"Soup","price":1.25}'
RECIPE = Recipe(name="Soup", price=Decimal("1.25"))
WRONG = '{"name":"Soup"}'


async def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def start(model: FakeModel, **more: Any) -> Run:
    options: dict[str, Any] = {"provider": "openai_chat", "run_key": "k", "output": Recipe} | more
    if "thread" not in options:
        options.setdefault("history", ASK)
    return run_loop(model, **options)


def says(text: str) -> Sequence[Any]:
    return answer(text)


def gives(*calls: tuple[str, dict[str, Any]]) -> Sequence[Any]:
    return answer(None, *calls)


async def test_the_text_is_the_output() -> None:
    model = FakeModel(says(GOOD))
    run = await start(model)
    assert run.output == RECIPE
    assert (run.ended, run.rounds) == ("answered", 1)
    assert model.requests[0]["response_format"]["json_schema"]["name"] == "Recipe"


async def test_tools_run_before_the_output() -> None:
    model = FakeModel(gives(("search", {"query": "soup"})), says(GOOD))
    run = await start(model, tools=[search])
    assert run.output == RECIPE
    assert run.rounds == 2


async def test_the_model_corrects_a_wrong_output() -> None:
    model = FakeModel(says(WRONG), says("I do not know."), says(f"```json\n{GOOD}\n```"))
    run = await start(model, retries=Retries(output=2))
    assert run.output == RECIPE
    assert (run.ended, run.rounds) == ("answered", 3)
    assert [content.speaker for content in run.contents] == ["ai", "human", "ai", "human", "ai"]
    assert run.contents[1].blocks[0].text == (  # type: ignore[union-attr]
        "the output does not fit Recipe: price is missing. Reply with the corrected output, and with nothing else."
    )
    assert model.requests[1]["messages"][-1]["content"] == run.contents[1].blocks[0].text  # type: ignore[union-attr]


async def test_with_a_thread_the_correction_is_a_message_of_the_provider() -> None:
    model = FakeModel(says(WRONG), says(GOOD))
    run = await start(model, thread=[{"role": "user", "content": "A soup."}], retries=Retries(output=1))
    assert run.output == RECIPE
    assert [message["role"] for message in run.thread] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(("retries", "max_rounds", "rounds"), [(0, 8, 1), (1, 8, 2), (5, 2, 2)])
async def test_an_output_that_stays_wrong_is_raised(retries: int, max_rounds: int, rounds: int) -> None:
    run = start(FakeModel(says(WRONG)), retries=Retries(output=retries), max_rounds=max_rounds)
    counts: Counter[type] = Counter()

    async def watch() -> None:
        async with run:
            async for event in run:
                counts[type(event)] += 1

    with pytest.raises(InvalidOutput, match="price is missing"):
        await watch()
    assert (run.ended, run.output, run.rounds, counts[RoundFinished]) == ("error", None, rounds, rounds)
    assert run.contents[-1].speaker == "ai"


# ---------------------------------------------------------------- as the arguments of a tool


async def test_a_call_of_the_output_tool_ends_the_run() -> None:
    model = FakeModel(gives(("search", {"query": "soup"})), gives(("final_output", {"name": "Soup", "price": 2})))
    run = start(model, provider="deepseek", tools=[search])
    async with run:
        events = [event async for event in run]
    assert run.output == Recipe(name="Soup", price=Decimal(2))
    assert (run.ended, run.rounds) == ("answered", 2)
    assert model.requests[1]["tool_choice"] == "required"
    assert [event.call.name for event in events if isinstance(event, ToolCompleted)] == ["search", "final_output"]
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai", "tool"]


async def test_a_wrong_call_is_corrected_by_its_result() -> None:
    model = FakeModel(gives(("final_output", {"name": "Soup"})), gives(("final_output", {"name": "Soup", "price": 2})))
    run = start(model, provider="deepseek", retries=Retries(output=1))
    async with run:
        errors = [event.result.error async for event in run if isinstance(event, ToolError)]
    assert errors == ["the output does not fit Recipe: price is missing"]
    assert run.output == Recipe(name="Soup", price=Decimal(2))


async def test_a_call_that_stays_wrong_is_raised() -> None:
    run = start(FakeModel(gives(("final_output", {"name": "Soup"}))), provider="deepseek", retries=Retries(output=1))
    with pytest.raises(InvalidOutput, match="price is missing"):
        await run
    assert (run.ended, run.rounds) == ("error", 2)


async def test_the_last_round_asks_for_the_output_alone() -> None:
    model = FakeModel(gives(("search", {"query": "a"})), gives(("final_output", {"name": "Soup", "price": 2})))
    run = await start(model, provider="deepseek", tools=[search], max_rounds=2)
    assert run.output == Recipe(name="Soup", price=Decimal(2))
    assert model.requests[1]["tool_choice"] == {"type": "function", "function": {"name": "final_output"}}


async def test_text_is_the_output_also_where_a_tool_was_offered() -> None:
    run = await start(FakeModel(says(GOOD)), provider="deepseek")
    assert run.output == RECIPE


async def test_parallel_calls_run_next_to_the_output() -> None:
    calls = gives(("search", {"query": "a"}), ("final_output", {"name": "Soup", "price": 2}))
    run = await start(FakeModel(calls), provider="deepseek", tools=[search])
    assert run.output == Recipe(name="Soup", price=Decimal(2))
    assert [block.status for block in run.contents[1].blocks] == ["completed", "completed"]  # type: ignore[union-attr]


async def test_a_truncated_output_is_none() -> None:
    run = await start(FakeModel(answer('{"name":"So', finish="length")))
    assert (run.ended, run.output) == ("length", None)


async def test_a_run_that_waits_for_approval_is_resumed_with_its_output() -> None:
    asking = tool(search, approval="ask")
    model = FakeModel(gives(("search", {"query": "soup"})), says(GOOD))
    run = await start(model, tools=[asking])
    assert (run.ended, run.output) == ("awaiting_approval", None)
    assert run.state is not None
    state = RunState.model_validate_json(run.state.model_dump_json())
    approvals = {call.id: True for call in state.calls}
    resumed = await run_loop(model, resume=state.answer(approvals=approvals), tools=[asking], output=Recipe)
    assert resumed.output == RECIPE


async def test_a_fallback_gets_the_output_in_its_own_form() -> None:
    def ask(context: Any) -> Any:
        if context.provider.name == "openai_chat":
            raise ConnectionError
        assert [each["function"]["name"] for each in context.request["tools"]] == ["final_output"]
        return gives(("final_output", {"name": "Soup", "price": 2}))

    run = await run_loop(
        ask,
        provider="openai_chat",
        history=ASK,
        retries=Retries(fallbacks=["deepseek"]),
        output=Recipe,
    )
    assert run.output == Recipe(name="Soup", price=Decimal(2))


async def test_a_wrong_type_is_an_error_at_once() -> None:
    with pytest.raises(UsageError, match="output must be a pydantic model"):
        run_loop(lambda context: [], provider="openai_chat", history=ASK, output=5)


@pytest.mark.parametrize("more", [{}, {"provider": "deepseek"}])
async def test_a_tool_with_the_name_of_the_outputs_own_is_an_error_at_once(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="'final_output' is the one that makes the model return the output"):
        start(FakeModel(says(GOOD)), tools=[tool(search, name="final_output")], **more)


@pytest.mark.parametrize(
    ("provider", "answered"),
    [
        ("openai_chat", says('{"final_output":[{"name":"Soup","price":1.25}]}')),
        ("deepseek", gives(("final_output", {"final_output": [{"name": "Soup", "price": 1.25}]}))),
        ("vllm", says('[{"name":"Soup","price":1.25}]')),
    ],
)
async def test_a_list_is_the_output_in_each_form(provider: str, answered: Any) -> None:
    model = FakeModel(answered)
    growing = Growing(list[Recipe])
    run = start(model, provider=provider, output=list[Recipe])
    async with run:
        async for event in run:
            growing.handle(event)
    assert run.output == growing.close() == [RECIPE]


@pytest.mark.parametrize(
    ("provider", "model", "reply"),
    [
        ("openai_chat", "gpt-5", Reply(GOOD)),
        ("openai_responses", "gpt-5", Reply(GOOD)),
        ("anthropic", "claude-sonnet-4-5", Reply(GOOD)),
        ("anthropic", "claude-3-7-sonnet-20250219", Reply(Call("final_output", {"name": "Soup", "price": 2}))),
        ("gemini", "gemini-2.5-flash", Reply(GOOD)),
        ("ollama", "qwen3", Reply(GOOD)),
        ("cohere", "command-a", Reply(GOOD)),
        ("deepseek", "deepseek-chat", Reply(Call("final_output", {"name": "Soup", "price": 2}))),
    ],
)
async def test_it_grows_over_http_on_every_form(provider: str, model: str, reply: Reply) -> None:
    growing = Growing(Recipe)
    async with serve([Reply(WRONG), reply]) as server, httpx.AsyncClient() as http:

        def ask(context: Any) -> Any:
            return server_request(http, server, provider, model, context)

        async with run_loop(
            ask,
            provider=provider,
            model=model,
            history=ASK,
            output=Recipe,
            retries=1,
        ) as run:
            async for event in run:
                growing.handle(event)
    assert run.output.name == "Soup"
    assert growing.close() == run.output


def server_request(http: httpx.AsyncClient, server: Any, provider: str, model: str, context: Any) -> Any:
    body = context.request if provider == "gemini" else {"model": model, **context.request}
    if provider == "anthropic":
        body["max_tokens"] = 100
    paths = {
        "openai_chat": "/chat/completions",
        "deepseek": "/chat/completions",
        "openai_responses": "/responses",
        "anthropic": "/v1/messages",
        "ollama": "/api/chat",
        "cohere": "/v2/chat",
        "gemini": f"/v1beta/models/{model}:streamGenerateContent?alt=sse",
    }
    return http.stream("POST", server.base_url(provider) + paths[provider], json=body)
