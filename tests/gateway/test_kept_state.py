"""Clients that drop the state of an upstream, as all chat frameworks do: the gateway has it by the ids of calls."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway.gateway_clients import CITY, Json
from gateway.gateway_server import Target, serve_gateway
from gateway.three_rounds import (
    BOTH,
    FIRST,
    SCRIPT,
    SIGNATURES,
    UPSTREAMS,
    check_third_request,
    serve_upstream,
    state_of,
)

from streamkit.gateway import Exchange, attempt
from streamkit.gateway.stores.store import MemoryStore
from streamkit.gateway.translation import stored_state
from streamkit.gateway.translation.stored_state import AlikeNames
from streamkit.history import Content
from streamkit.testing import Call, Disconnect, Reasoning, Reply, serve

FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": CITY}}


# ---------------------------------------------------------------- clients that keep text and calls alone


def chat(url: str, messages: list[Json], key: str = "none") -> bool:
    """Make one round of a client of Chat Completions; return whether the model called tools."""
    body = {"model": "m", "messages": messages, "tools": [FUNCTION], "reasoning_effort": "high"}
    response = httpx.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})
    assert response.status_code == 200, response.text
    message = response.json()["choices"][0]["message"]
    calls = [{name: call[name] for name in ("id", "type", "function")} for call in message.get("tool_calls") or []]
    messages.append({"role": "assistant", "content": message["content"], **({"tool_calls": calls} if calls else {})})
    messages.extend({"role": "tool", "tool_call_id": call["id"], "content": "4 degrees"} for call in calls)
    return bool(calls)


def cohere(url: str, messages: list[Json]) -> bool:
    """Make one round of a client of Cohere's wire, which sends no plan and no thinking back."""
    response = httpx.post(f"{url}/v2/chat", json={"model": "m", "messages": messages, "tools": [FUNCTION]})
    assert response.status_code == 200, response.text
    message = response.json()["message"]
    calls = message.get("tool_calls") or []
    texts = [part["text"] for part in message.get("content") or [] if part["type"] == "text"]
    messages.append({"role": "assistant", "content": "".join(texts), **({"tool_calls": calls} if calls else {})})
    messages.extend({"role": "tool", "tool_call_id": call["id"], "content": "4 degrees"} for call in calls)
    return bool(calls)


def ollama(url: str, messages: list[Json]) -> bool:
    """Make one round of a client of Ollama, which knows no ids and drops the thinking."""
    body = {"model": "m", "messages": messages, "tools": [FUNCTION], "stream": False, "think": True}
    response = httpx.post(f"{url}/api/chat", json=body)
    assert response.status_code == 200, response.text
    message = response.json()["message"]
    calls = [
        {"function": {name: call["function"][name] for name in ("name", "arguments")}}
        for call in message.get("tool_calls") or []
    ]
    messages.append({"role": "assistant", "content": message["content"], **({"tool_calls": calls} if calls else {})})
    messages.extend({"role": "tool", "tool_name": "weather", "content": "4 degrees"} for _ in calls)
    return bool(calls)


CLIENTS: Mapping[str, Callable[[str, list[Json]], bool]] = {"chat": chat, "cohere": cohere, "ollama": ollama}


def converse(client: str, urls: Iterator[str], question: str = "Which is colder?") -> None:
    """Make a run of three rounds, each through the next gateway."""
    messages: list[Json] = [{"role": "user", "content": question}]
    while CLIENTS[client](next(urls), messages):
        pass


def repeat(url: str) -> Iterator[str]:
    while True:
        yield url


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("provider", UPSTREAMS)
def test_the_third_round_has_the_state_of_both_before_it(provider: str, client: str) -> None:
    reports: list[Exchange] = []
    with serve_upstream(provider, reports) as (url, server):
        converse(client, repeat(url))
    check_third_request(server, provider)
    assert [change for report in reports for change in report.changes if "state" in change] == []


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("redis", marks=pytest.mark.slow)])
def test_workers_with_one_store_have_the_state_of_each_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also the key that signs what clients carry: without a key of their own both use the store's."""
    store: Any = tmp_path / "gateway.db" if kind == "sqlite" else request.getfixturevalue("redis_address")
    with serve(SCRIPT) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with (
            serve_gateway(target, store=store, state_key=None) as first,
            serve_gateway(target, store=store, state_key=None) as second,
        ):
            converse("chat", iter([first, second, first]))
    assert state_of(server, 2, "anthropic") == BOTH


def test_a_restarted_gateway_has_the_state_of_the_one_before(tmp_path: Path) -> None:
    def restarting(target: Target) -> Iterator[str]:
        while True:
            with serve_gateway(target, store=tmp_path / "gateway.db", state_key=None) as url:
                yield url

    with serve(SCRIPT) as server:
        converse("chat", restarting(Target("anthropic", server.base_url("anthropic"), models={"*": "claude-opus-4-1"})))
    assert state_of(server, 2, "anthropic") == BOTH


def test_a_client_with_another_key_does_not_get_the_state() -> None:
    """Each key has entries of its own, whatever ids its clients send."""
    store, reports = MemoryStore(), [[], []]
    with serve([SCRIPT[0], Reply("Cold.")]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        messages: list[Json] = [{"role": "user", "content": "Which is colder?"}]
        for key, report in zip(("key of one client", "key of another"), reports, strict=True):
            with serve_gateway(target, store=store, key=key, reports=report) as url:
                chat(url, messages, key)
    assert state_of(server, 1, "anthropic") == FIRST[1:]
    assert [change for change in reports[1][0].changes if "state" in change] == [
        "opaque state of 2 calls is not known: the client has not sent it, and this gateway has made others, or has not"
        " kept it as long"
    ]


def test_state_is_of_the_model_that_made_it() -> None:
    """Kept state has its origin as carried state has: another model or endpoint refuses it."""
    store = MemoryStore()
    messages: list[Json] = [{"role": "user", "content": "Which is colder?"}]
    with serve([SCRIPT[0], Reply("Cold.")]) as server:
        for model in ("claude-sonnet-4-5", "claude-opus-4-1"):
            target = Target("anthropic", server.base_url("anthropic"), models={"*": model})
            with serve_gateway(target, store=store) as url:
                chat(url, messages)
    assert state_of(server, 1, "anthropic") == FIRST[1:]


def test_a_response_that_breaks_off_leaves_no_state() -> None:
    store = MemoryStore()
    reply = Reply(Reasoning("Hm.", signature=SIGNATURES[0]), Call("weather", {"city": "Oslo"}), Disconnect())
    with serve([reply]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target, store=store) as url:
            body = {"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [FUNCTION], "stream": True}
            assert "error" in httpx.post(f"{url}/v1/chat/completions", json=body).text
    assert store.size == 0


def test_alike_conversations_of_clients_without_ids() -> None:
    """A call is found by the question, its tool, its arguments, and how many alike were before it."""
    signatures = [f"c2lnbmF0dXJlLW51bWJlci0{number}" for number in range(4)]
    replies = [
        Reply(Reasoning(f"Thought {number}.", signature=signature), Call("weather", {"city": "Oslo"}))
        for number, signature in enumerate(signatures)
    ]
    script = [*replies[:2], Reply("Cold."), *replies[2:], Reply("Cold.")]
    with serve(script) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target) as url:
            converse("ollama", repeat(url), "In Oslo?")
            converse("ollama", repeat(url), "And in Oslo now?")
    sent = [json.dumps(server.requests[number].json) for number in (2, 5)]
    assert [[signature in each for signature in signatures] for each in sent] == [
        [True, True, False, False],
        [False, False, True, True],
    ]


def test_a_question_is_read_once_whatever_the_number_of_calls_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 10,000 calls after a question of 1 MB was named by a digest of the whole question."""
    sizes: list[int] = []

    def record(data: bytes) -> Any:
        sizes.append(len(data))
        return hashlib.sha256(data)

    monkeypatch.setattr(stored_state, "sha256", record)
    names = AlikeNames()
    names.read(Content.human("What? " * 1000))
    first = [names.of("weather", {"city": "Oslo"}) for _ in range(100)]
    assert sum(sizes) < 6000 + 100 * 200
    assert len({*first}) == 100
    names.read(Content.human("And now?"))
    assert names.of("weather", {"city": "Oslo"}) not in first


def test_the_latest_calls_have_their_state_if_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "MOST_STATES", 1)
    reports: list[Exchange] = []
    with serve(SCRIPT) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target, reports=reports) as url:
            converse("chat", repeat(url))
    assert state_of(server, 2, "anthropic") == [*FIRST[1:], *BOTH[4:]]
    assert [change for change in reports[2].changes if "of 2 calls is not known" in change]


class Broken(MemoryStore):
    """A store whose server is away for a time."""

    is_away = threading.Event()

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        if self.is_away.is_set():
            raise TimeoutError("no answer")
        return await super().get(keys)

    async def renew(self, keys: Sequence[str]) -> set[str]:
        if self.is_away.is_set():
            raise TimeoutError("no answer")
        return await super().renew(keys)

    async def put(self, entries: Mapping[str, bytes]) -> None:
        if self.is_away.is_set():
            raise TimeoutError("no answer")
        await super().put(entries)


def test_requests_go_on_while_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Without the state; but one that refers to a stored response is refused, because it would lose its beginning."""
    store, reports = Broken(), []
    messages: list[Json] = [{"role": "user", "content": "Which is colder?"}]
    with serve([*SCRIPT, "Hello."]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target, store=store, reports=reports) as url:
            chat(url, messages)
            Broken.is_away.set()
            chat(url, messages)
            refused = httpx.post(
                f"{url}/v1/responses", json={"model": "m", "input": "?", "previous_response_id": "resp_1"}
            )
            Broken.is_away.clear()
            chat(url, messages)
    assert state_of(server, 1, "anthropic") == FIRST[1:]
    left_out = "opaque state of earlier responses was left out: the store of this gateway does not respond"
    assert [left_out in report.changes for report in reports].count(
        True
    ) == 1  # a report may come after the next request
    assert (refused.status_code, "does not respond" in refused.text) == (503, True)
    assert state_of(server, 2, "anthropic") == [*FIRST, "call"]
    assert "the store does not respond: TimeoutError: no answer" in caplog.text


def test_the_key_of_carried_state_is_the_stores(tmp_path: Path) -> None:
    """A gateway does not sign with another key while its store is away: the state could not be read again."""
    with serve(["Hello."]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target, store=tmp_path / "no" / "gateway.db", state_key=None) as url:
            body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
            refused = httpx.post(f"{url}/v1/chat/completions", json=body)
            (tmp_path / "no").mkdir()
            accepted = httpx.post(f"{url}/v1/chat/completions", json=body)
    assert (refused.status_code, accepted.status_code) == (503, 200)


@pytest.fixture(scope="module")
def redis_address() -> Iterator[str]:
    from gateway.redis_server import redis_server

    with redis_server() as address:
        yield address


def test_references_work_over_workers_with_one_store(tmp_path: Path) -> None:
    """With four workers 32 of 40 requests that referred to a response were refused with 404."""
    with serve(lambda request: "Yes.") as server:
        target = Target("openai_chat", server.base_url("openai_chat"), models={"*": "m"})
        with (
            serve_gateway(target, store=tmp_path / "gateway.db") as first,
            serve_gateway(target, store=tmp_path / "gateway.db") as second,
        ):
            previous: str | None = None
            for number in range(6):
                body = {"model": "m", "input": f"question {number}", "previous_response_id": previous}
                response = httpx.post(f"{(first, second)[number % 2]}/v1/responses", json=body)
                assert response.status_code == 200, response.text
                previous = response.json()["id"]
    sent = json.dumps(server.requests[5].json)
    assert [sent.count(f"question {number}") for number in range(6)] == [1] * 6


def test_memory_is_bounded() -> None:
    store = MemoryStore(10_000)
    script = [
        Reply(Reasoning("x" * 3000, signature=f"sig{number}"), Call("weather", {"city": f"{number}"}))
        for number in range(20)
    ]
    with serve(script) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target, store=store) as url:
            for number in range(20):
                chat(url, [{"role": "user", "content": f"{number}?"}])
    assert 5_000 < store.size <= 10_000
