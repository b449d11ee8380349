"""``run_loop(cache=...)``: every request of a run has the marks, within the provider's bound, and nothing else has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution.chat_chunks import answer
from providers.test_cache_marks import EPHEMERAL, HOUR, marks
from tools.test_declarations import ANSWER, anthropic_call

from streamkit import Content, Retries, RunState, TextBlock, Tool, UsageError, run_loop

pytestmark = pytest.mark.anyio

HISTORY = [Content.system("Be brief."), Content.human("Go.")]


def look() -> str:
    """Look."""
    return "saw"


def recorded(requests: list[dict[str, Any]], rounds: int = 3) -> Any:
    def ask(context: Any) -> Any:
        requests.append(context.request)
        return ANSWER if context.round >= rounds - 1 else anthropic_call("look", "{}")

    return ask


async def test_each_request_marks_the_ends_of_tools_system_and_conversation() -> None:
    requests: list[dict[str, Any]] = []
    run = await run_loop(recorded(requests), provider="anthropic", tools=[look], history=HISTORY, cache="auto")
    assert run.ended == "answered"
    assert [sorted(marks(body)) for body in requests] == [
        ["messages.0.content.0", "system.0", "tools.0"],
        ["messages.2.content.0", "system.0", "tools.0"],
        ["messages.4.content.0", "system.0", "tools.0"],
    ]
    assert marks(run.thread) == []
    assert marks([content.model_dump() for content in run.history]) == []
    assert "cache" not in str([content.model_dump() for content in run.history])


async def test_marks_of_the_history_count_under_the_bound() -> None:
    blocks = [TextBlock(text=f"{number}", metadata={"cache": {"ttl": "1h"}}) for number in range(5)]
    marked = [Content(speaker="human", blocks=[block]) for block in blocks]
    requests: list[dict[str, Any]] = []
    history = [HISTORY[0], *[content for each in marked for content in (each, Content.ai("a"))], Content.human("?")]
    run = await run_loop(recorded(requests), provider="anthropic", tools=[look], history=history, cache="auto")
    for body in requests:
        assert len(marks(body)) == 4
    last = requests[-1]["messages"][-1]["content"][-1]
    assert last["cache_control"] == EPHEMERAL
    assert [warning.message for warning in run.warnings if "first cache marks" in warning.message]


async def test_a_lifetime_and_a_hook_that_turns_the_marks_off() -> None:
    requests: list[dict[str, Any]] = []
    options: dict[str, Any] = {"provider": "anthropic", "tools": [look], "history": HISTORY}
    await run_loop(
        recorded(requests),
        cache={"ttl": "1h"},
        before_follow_up=lambda context: replace(context, cache=None) if context.round == 2 else None,
        **options,
    )
    assert requests[0]["tools"][0]["cache_control"] == HOUR
    assert marks(requests[1]) != []
    assert marks(requests[2]) == []


async def test_a_resumed_run_and_a_fallback_are_marked() -> None:
    form = Tool(name="form", description="Show a form.", parameters={"type": "object"})
    requests: list[dict[str, Any]] = []
    run = await run_loop(
        lambda context: anthropic_call("form", "{}"), provider="anthropic", tools=[form], history=HISTORY
    )
    state = RunState.model_validate_json(run.state.model_dump_json())  # type: ignore[union-attr]
    results = {run.pending[0].id: "yes"}
    await run_loop(recorded(requests, 1), resume=state.answer(results=results), tools=[form], cache="auto")
    assert sorted(marks(requests[0])) == ["messages.2.content.0", "system.0", "tools.0"]

    def ask(context: Any) -> Any:
        requests.append(context.request)
        if context.provider.name == "openai_chat":
            raise ConnectionError
        return ANSWER

    del requests[:]
    options: dict[str, Any] = {"history": HISTORY, "retries": Retries(fallbacks=["anthropic"]), "cache": "auto"}
    await run_loop(ask, provider="openai_chat", **options)
    assert [sorted(marks(body)) for body in requests] == [[], ["messages.0.content.0", "system.0"]]


async def test_messages_that_were_given_get_no_marks_but_count() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": EPHEMERAL}] * 4}
    requests: list[dict[str, Any]] = []
    run = await run_loop(recorded(requests, 2), provider="anthropic", tools=[look], thread=[message], cache="auto")
    assert [len(marks(body)) for body in requests] == [4, 4]
    assert run.thread[0] == message
    del requests[:]
    thread = [{"role": "user", "content": "Go."}]
    await run_loop(recorded(requests, 2), provider="anthropic", tools=[look], thread=thread, cache="auto")
    assert [marks(body) for body in requests] == [["tools.0"], ["tools.0"]]


async def test_another_policy_is_refused_before_the_run() -> None:
    with pytest.raises(UsageError, match='cache must be "auto" or a CacheMark'):
        run_loop(lambda context: answer("Hi."), provider="openai_chat", history=HISTORY, cache="1h")  # type: ignore[arg-type]
