"""Requests made again, other providers asked, hooks before follow-up requests."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest
from execution.chat_chunks import answer, as_bytes
from execution.fake_model import ScriptedModel, rejected
from virtual_clock import on_a_virtual_clock

from streamkit import (
    Content,
    Retries,
    RoundContext,
    StreamError,
    StreamInterrupted,
    Target,
    Timeouts,
    Turn,
    UsageError,
    run_loop,
)
from streamkit.events import Event, Failed, Warned
from streamkit.execution.run import request
from streamkit.execution.run.request import delay, is_retryable

HISTORY = [Content.system("Be brief."), Content.human("Weather in Oslo?")]
CALL = ("get_weather", {"city": "Oslo"})
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


async def get_weather(city: str) -> str:
    return f"{city}: rain"


def anthropic(*content: dict[str, Any], reason: str = "end_turn") -> list[dict[str, Any]]:
    return [{"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {}, "content": list(content),
             "stop_reason": reason}]  # fmt: skip


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the delays between attempts instead of waiting."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(request.anyio, "sleep", sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(request.random, "random", lambda: 0.0)  # type: ignore[attr-defined]
    return waits


async def collect_events(run: Any) -> list[Event]:
    async with run:
        return [event async for event in run]


def loop(model: Any, **more: Any) -> Any:
    return run_loop(model, **{"provider": "openai_chat", "tools": [get_weather], "history": HISTORY} | more)


# ---------------------------------------------------------------- when, and after how long


@pytest.mark.parametrize(
    ("error", "helps"),
    [
        (StreamError("transport_error", "ConnectError"), True),
        (StreamError("stream_truncated", "the body is empty"), True),
        (StreamError("provider_error", "slow down", status=429), True),
        (StreamError("provider_error", "busy", status=529), True),
        (StreamError("provider_error", "bad request", status=400), False),
        (StreamError("provider_error", "no such key", status=401), False),
        (StreamError("protocol_error", "HTML", status=502), True),
        (StreamError("protocol_error", "HTML"), False),
        (StreamError("limit_exceeded", "too long"), False),
        (StreamError("provider_error", "busy", code="overloaded"), True),
        (StreamError("provider_error", "slow down", code="rate_limited", status=429), True),
        (StreamError("provider_error", "too long", code="context_overflow", status=429), False),
        (StreamError("provider_error", "spent", code="quota_exceeded", status=429), False),
        (StreamError("provider_error", "too long", code="context_overflow", status=503), False),
        (StreamError("provider_error", "flagged", code="content_policy"), False),
        (StreamError("provider_error", "?", code="invalid_request"), False),
        (StreamError("provider_error", "?", code="unauthorized"), False),
        (StreamError("provider_error", "?", code="not_found"), False),
        (StreamError("provider_error", "the server had an error", raw={"type": "server_error"}), True),
    ],
)
def test_temporary_errors_are_retryable(error: StreamError, helps: bool) -> None:
    assert is_retryable(error, None) is helps


@pytest.mark.parametrize("cause", [TypeError(), KeyError("x"), AttributeError(), ZeroDivisionError(), ValueError()])
def test_a_programming_error_is_not_retryable(cause: Exception) -> None:
    assert not is_retryable(StreamError("transport_error", "x"), cause)


def test_the_delay_doubles_up_to_a_limit_and_jitter_shortens_it_by_a_quarter() -> None:
    error = StreamError("transport_error", "x")
    assert [delay(error, attempt, 0.0) for attempt in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert delay(error, 3, 1.0) == 1.5
    assert delay(error, 5000, 0.0) == 8.0


def test_the_providers_delay_is_obeyed_up_to_a_limit() -> None:
    assert delay(StreamError("provider_error", "x", status=429, retry_after=7.5), 1, 1.0) == 7.5
    assert delay(StreamError("provider_error", "x", status=429, retry_after=3600.0), 1, 1.0) is None


# ---------------------------------------------------------------- retries


@pytest.mark.anyio
async def test_a_request_that_fails_before_its_first_event_is_made_again(delays: list[float]) -> None:
    model = ScriptedModel(
        httpx.ConnectError("no route"),
        rejected(503),
        answer("", CALL),
        rejected(500),
        answer("Rain."),
    )
    run = loop(model, retries=2)
    events = await collect_events(run)
    assert (run.ended, run.text, run.rounds) == ("answered", "Rain.", 2)
    assert delays == [0.5, 1.0, 0.5]
    assert not [event for event in events if isinstance(event, Failed)]
    assert [event.code for event in events if isinstance(event, Warned)] == ["request_retried"] * 3
    assert [context.round for context in model.asked] == [0, 0, 0, 1, 1]
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}',
        b'{"error": {"message": "Request too large on tokens per min (TPM): Limit 30000, Requested 342389", "code":'
        b' "rate_limit_exceeded"}}',
    ],
)
async def test_a_429_that_waiting_cannot_help_is_not_asked_again(delays: list[float], body: bytes) -> None:
    model = ScriptedModel(rejected(429, body=body), answer("Rain."))
    with pytest.raises(StreamInterrupted, match=r"HTTP status 429, (quota_exceeded|context_overflow)"):
        await loop(model, retries=3)
    assert (len(model.asked), delays) == (1, [])
    model = ScriptedModel(rejected(429, body=body), answer("Rain."))
    run = loop(model, retries=Retries(requests=3, fallbacks=["groq"]))
    await run
    assert (run.text, [context.provider.name for context in model.asked]) == ("Rain.", ["openai_chat", "groq"])


@pytest.mark.anyio
async def test_by_default_nothing_is_retried(delays: list[float]) -> None:
    model = ScriptedModel(rejected(503))
    with pytest.raises(StreamInterrupted):
        await loop(model)
    assert (len(model.asked), delays) == (1, [])


@pytest.mark.anyio
async def test_after_the_last_retry_the_failure_is_an_event_and_is_raised(delays: list[float]) -> None:
    model = ScriptedModel(*[rejected(503)] * 3)
    run = loop(model, retries=2)
    events: list[Event] = []
    with pytest.raises(StreamInterrupted) as raised:  # noqa: PT012 - what is watched raises
        async with run:
            async for event in run:
                events += [event]
    assert raised.value.error.status == 503
    assert run.ended == "error"
    assert [event.type for event in events] == ["round_started", "warned", "warned", "failed", "run_ended"]
    assert delays == [0.5, 1.0]


@pytest.mark.anyio
async def test_retry_after_is_obeyed(delays: list[float]) -> None:
    await loop(ScriptedModel(rejected(429, headers={"retry-after": "3"}), answer("Rain.")), retries=1)
    assert delays == [3.0]


@pytest.mark.anyio
@pytest.mark.parametrize("failure", [rejected(400), rejected(401), rejected(429, headers={"retry-after": "999"})])
async def test_permanent_errors_are_not_retryable(failure: Exception, delays: list[float]) -> None:
    model = ScriptedModel(failure)
    with pytest.raises(StreamInterrupted):
        await loop(model, retries=5)
    assert (len(model.asked), delays) == (1, [])


@pytest.mark.anyio
async def test_an_in_band_error_before_any_other_event_is_retried(delays: list[float]) -> None:
    overloaded = [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]
    model = ScriptedModel(overloaded, anthropic({"type": "text", "text": "Rain."}))
    run = await loop(model, provider="anthropic", retries=1)
    assert (run.text, delays) == ("Rain.", [0.5])


@pytest.mark.anyio
async def test_a_stream_that_failed_after_its_first_event_is_never_retried(delays: list[float]) -> None:
    async def broken() -> AsyncIterator[dict[str, Any]]:
        yield answer("It ra")[1]
        raise httpx.ReadError("gone")

    model = ScriptedModel(broken(), answer("It rains."))
    with pytest.raises(StreamInterrupted):
        await loop(model, retries=Retries(requests=3, fallbacks=["anthropic"]))
    assert (len(model.asked), delays) == (1, [])


@pytest.mark.anyio
async def test_a_stream_that_failed_before_its_first_event_is_closed(delays: list[float]) -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def stream(pieces: list[bytes]) -> AsyncIterator[list[bytes]]:
        opened.append("opened")
        yield pieces
        opened.append("closed")

    model = ScriptedModel(stream([]), stream(as_bytes(answer("Rain."))))
    run = await loop(model, retries=1)
    assert run.text == "Rain."
    assert opened == ["opened", "closed"] * 2


@pytest.mark.anyio
async def test_there_is_no_attempt_after_run_timeout() -> None:
    model = ScriptedModel(*[rejected(429, headers={"retry-after": "30"})] * 3)
    with pytest.raises(StreamInterrupted):
        await loop(model, retries=3, timeouts=Timeouts(run=5.0))
    assert len(model.asked) == 1


@on_a_virtual_clock
@pytest.mark.anyio
async def test_the_delay_before_a_retry_can_be_canceled() -> None:
    model = ScriptedModel(rejected(429, headers={"retry-after": "50"}))
    run = loop(model, retries=1)
    with anyio.move_on_after(0.05):
        await run
    assert run.ended == "canceled"


@pytest.mark.anyio
async def test_usage_of_failed_attempts_is_counted_once(delays: list[float]) -> None:
    run = await loop(ScriptedModel(rejected(503), answer("Rain.", usage=(5, 2))), retries=1)
    assert run.usage is not None
    assert (run.usage.input_tokens, run.usage.output_tokens) == (5, 2)


# ---------------------------------------------------------------- other providers


@pytest.mark.anyio
async def test_a_fallback_gets_the_history_in_its_own_format(delays: list[float]) -> None:
    model = ScriptedModel(
        answer("Let me look.", CALL),
        rejected(500),
        rejected(401),
        anthropic({"type": "text", "text": "Rain."}),
    )
    run = loop(model, retries=Retries(requests=1, fallbacks=["anthropic"]))
    events = await collect_events(run)
    assert (run.ended, run.text) == ("answered", "Rain.")
    assert [context.provider.name for context in model.asked] == ["openai_chat"] * 3 + ["anthropic"]
    roles = [message["role"] for message in model.asked[3].request["messages"]]
    assert roles == ["user", "assistant", "user"]
    [use] = [block for block in model.asked[3].request["messages"][1]["content"] if block["type"] == "tool_use"]
    assert use["name"] == "get_weather"
    codes = [event.code for event in events if isinstance(event, Warned)]
    assert codes == ["request_retried", "provider_fallback"]
    assert [warning.code for warning in run.warnings] == codes
    assert run.history == HISTORY + run.contents
    assert run.contents[-1].metadata["provider"] == "anthropic"


@pytest.mark.anyio
async def test_the_run_stays_with_the_provider_that_succeeded() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
    model = ScriptedModel(
        rejected(400),
        anthropic(SIGNED, use, reason="tool_use"),
        anthropic({"type": "text", "text": "Rain."}),
    )
    run = await loop(model, retries=Retries(fallbacks=["anthropic"]))
    assert [context.provider.name for context in model.asked] == ["openai_chat", "anthropic", "anthropic"]
    assert run.text == "Rain."
    # what Anthropic signed goes back to it
    assert SIGNED in model.asked[2].request["messages"][1]["content"]


@pytest.mark.anyio
async def test_if_all_providers_fail_the_last_error_is_raised() -> None:
    model = ScriptedModel(rejected(500), rejected(401), rejected(403))
    with pytest.raises(StreamInterrupted) as raised:
        await loop(model, retries=Retries(fallbacks=["anthropic", "gemini"]))
    assert raised.value.error.status == 403
    assert [context.provider.name for context in model.asked] == ["openai_chat", "anthropic", "gemini"]


@pytest.mark.anyio
async def test_a_programming_error_is_not_passed_to_a_fallback() -> None:
    model = ScriptedModel(KeyError("messages"), answer("Rain."))
    with pytest.raises(KeyError):
        await loop(model, retries=Retries(fallbacks=["anthropic"]))
    assert len(model.asked) == 1


@pytest.mark.anyio
async def test_a_thread_has_no_fallbacks() -> None:
    with pytest.raises(UsageError, match="pass history="):
        run_loop(ScriptedModel(), provider="openai_chat", thread=[], retries=Retries(fallbacks=["anthropic"]))


# ---------------------------------------------------------------- hooks


@pytest.mark.anyio
async def test_a_hook_is_called_before_each_follow_up_request_and_may_change_it() -> None:
    seen: list[tuple[int, list[str]]] = []

    async def compact(context: RoundContext) -> RoundContext:
        seen.append((context.round, [content.speaker for content in context.contents]))
        return replace(context, contents=[Content.human("In short: weather?"), *context.contents[-2:]], tools=[])

    model = ScriptedModel(answer("", CALL), answer("Rain."))
    run = await loop(model, before_follow_up=compact)
    assert seen == [(1, ["system", "human", "ai", "tool"])]
    assert "tools" not in model.asked[1].request
    assert [content.speaker for content in run.history] == ["human", "ai", "tool", "ai"]
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]  # all that the run added


@pytest.mark.anyio
async def test_hooks_are_called_in_order_sync_and_async_and_may_change_nothing() -> None:
    order: list[str] = []

    def first(context: RoundContext) -> None:
        order.append(f"first {context.round}")

    async def second(context: RoundContext) -> RoundContext:
        order.append(f"second {context.round}")
        return context

    await loop(
        ScriptedModel(answer("", CALL), answer("", CALL), answer("Rain.")),
        before_follow_up=[first, second],
    )
    assert order == ["first 1", "second 1", "first 2", "second 2"]


@pytest.mark.anyio
async def test_a_hook_may_change_the_provider_between_rounds() -> None:
    from streamkit import providers

    def cheaper(context: RoundContext) -> RoundContext:
        return replace(context, provider=providers.get("anthropic"))

    model = ScriptedModel(answer("", CALL), anthropic({"type": "text", "text": "Rain."}))
    run = await loop(model, before_follow_up=cheaper)
    assert run.text == "Rain."
    assert "system" in model.asked[1].request


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", [lambda context: {"tools": []}, lambda context: 1 / 0])
async def test_an_error_in_a_hook_ends_the_run_and_keeps_its_results(wrong: Any) -> None:
    run = loop(ScriptedModel(answer("", CALL)), before_follow_up=wrong)
    with pytest.raises((UsageError, ZeroDivisionError)):
        await run
    assert run.ended == "error"
    assert [content.speaker for content in run.contents] == ["ai", "tool"]


@pytest.mark.anyio
async def test_a_hook_cannot_send_a_thread_to_another_provider() -> None:
    from streamkit import providers

    run = run_loop(
        ScriptedModel(answer("", CALL)),
        provider="openai_chat",
        tools=[get_weather],
        thread=[{"role": "user", "content": "?"}],
        before_follow_up=lambda context: replace(context, provider=providers.get("anthropic")),
    )
    with pytest.raises(UsageError, match="pass history="):
        await run


@pytest.mark.anyio
async def test_no_hook_is_called_before_the_first_request_nor_between_pauses() -> None:
    called: list[int] = []
    model = ScriptedModel(anthropic({"type": "text", "text": "Wait."}, reason="pause_turn"), anthropic())
    await loop(model, provider="anthropic", before_follow_up=lambda context: called.append(context.round))
    assert called == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"retries": Retries(fallbacks=["antropic"])}, "unknown provider"),
        ({"before_follow_up": ["compact"]}, r"before_follow_up\[0\] must be a function"),
        ({"approve": True}, "approve must be a function"),
        ({"retries": -1}, "at least 0"),
        ({"shape": "parallel"}, "'batched' or 'sequential'"),
    ],
)
def test_misuse_is_rejected_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loop(ScriptedModel(), **wrong)


@pytest.mark.parametrize("wrong", ["gpt-4", None])
def test_a_create_new_stream_that_is_not_callable_is_rejected_at_once(wrong: Any) -> None:
    with pytest.raises(UsageError, match="create_new_stream must be a function"):
        loop(wrong)


# ---------------------------------------------------------------- which request has failed


@pytest.mark.anyio
async def test_an_error_names_every_request_that_has_failed(delays: list[float]) -> None:
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    model = ScriptedModel(rejected(529), rejected(529), rejected(503), [busy])
    fallbacks = [Target("anthropic", "claude-x"), Target("deepseek", endpoint="https://key@deepseek.example/v1?key=k")]
    retries = Retries(requests=1, fallbacks=fallbacks[:1])
    run = run_loop(
        model, provider="openai_chat", model="m", endpoint="https://a.example/v1", retries=retries, history=HISTORY
    )
    with pytest.raises(StreamInterrupted) as caught:
        await run
    error = caught.value
    assert [(each.provider, each.model, each.endpoint) for each in error.failures] == [
        ("openai_chat", "m", "https://a.example/v1"),
        ("openai_chat", "m", "https://a.example/v1"),
        ("anthropic", "claude-x", "http://provider.example/v1"),  # of the exception's request
        ("anthropic", "claude-x", None),
    ]
    assert [each.error.status for each in error.failures] == [529, 529, 503, None]
    assert error.failures[-1].error is error.error
    assert "anthropic, model claude-x" in str(error)
    about_attempts = [each for each in run.warnings if each.code in ("request_retried", "provider_fallback")]
    assert [warning.message.partition(" failed")[0] for warning in about_attempts] == [
        "openai_chat, model m, https://a.example/v1",
        "openai_chat, model m, https://a.example/v1",
        "anthropic, model claude-x, http://provider.example/v1",
    ]
    assert "the next provider is anthropic, model claude-x" in about_attempts[1].message
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.failures, str(again)) == (error.failures, str(error))
    secret = loop(ScriptedModel(rejected(401), rejected(401)), retries=Retries(fallbacks=fallbacks[1:]))
    with pytest.raises(StreamInterrupted, match=r"deepseek, https://deepseek.example/v1\b") as caught:
        await secret
    assert "key" not in str(caught.value)


@pytest.mark.anyio
async def test_an_error_of_a_later_round_has_the_failures_of_its_own_request(delays: list[float]) -> None:
    model = ScriptedModel(rejected(529), answer("", CALL), rejected(401))
    with pytest.raises(StreamInterrupted) as caught:
        await loop(model, retries=1)
    assert [each.error.status for each in caught.value.failures] == [401]


def test_the_error_of_a_turn_names_its_server() -> None:
    turn = Turn("anthropic", model="claude-x", endpoint="https://user:secret@a.example/v1/")
    turn.close(ConnectionError("reset"))
    with pytest.raises(StreamInterrupted, match=r"from anthropic, model claude-x, https://a\.example/v1") as caught:
        turn.raise_for_error()
    [failed] = caught.value.failures
    assert (failed.provider, failed.model, failed.endpoint) == ("anthropic", "claude-x", "https://a.example/v1")
    assert "secret" not in str(caught.value)
