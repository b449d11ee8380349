"""Later requests that refer to what the server would hold instead of sending it: items, responses and threads."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import httpx
import pytest
from gateway.gateway_clients import CITY, QUESTION, Json, read_turn
from gateway.gateway_server import Target, serve_gateway

from streamkit.gateway import Exchange, GatewayLimits, attempt
from streamkit.gateway.stores.store import MemoryStore, OwnEntries
from streamkit.gateway.stores.stored_responses import (
    ReferenceNotFound,
    References,
    ReferencesTooLarge,
    add_response,
    encode_items,
    find_references,
)
from streamkit.testing import Call, Disconnect, Reasoning, Reply, serve

TOOLS = [{"type": "function", "name": "weather", "parameters": CITY, "strict": False}]
SCRIPT = [Reply(Reasoning("Hm."), "Let me look.", Call("weather", {"city": "Narvik"})), Reply("Cold."), Reply("Yes.")]
UPSTREAMS = ("anthropic", "openai_chat", "openai_responses", "gemini")


def ask(url: str, given: Any, **fields: Any) -> Json:
    """Return the body of a response that is not streamed."""
    body = {"model": "m", "input": given, "tools": TOOLS, **fields}
    response = httpx.post(f"{url}/v1/responses", json=body)
    turn = read_turn("openai_responses", response.content)
    assert turn.error is None, turn.error
    found: Json = response.json()
    return found


def add(store: MemoryStore, response_id: str, body: Json, output: list[Json]) -> None:
    """Store a response, as an attempt does."""
    items = encode_items(body, output)
    if items is not None:
        anyio.run(add_response, OwnEntries(store, None), response_id, items, output)


def resolve(store: MemoryStore, body: Any, limit: int) -> Any:
    """Return a body with what it refers to, as the application does."""
    references = anyio.run(find_references, OwnEntries(store, None), body, limit)
    return body if references is None else references.resolve()


def result_of(response: Json) -> Json:
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "4 degrees"}


@pytest.mark.parametrize("provider", UPSTREAMS)
def test_references_to_items_are_resolved(provider: str) -> None:
    with serve(SCRIPT) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target) as url:
            first = ask(url, [{"role": "user", "content": QUESTION}])
            references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
            second = ask(url, [{"role": "user", "content": QUESTION}, *references, result_of(first)])
        sent = json.dumps(server.requests[1].json)
    assert read_turn("openai_responses", json.dumps(second).encode()).text == "Cold."
    assert [word for word in (QUESTION, "Let me look.", "Narvik", "4 degrees") if word not in sent] == []
    assert "item_reference" not in sent


@pytest.mark.parametrize("provider", UPSTREAMS)
def test_a_previous_response_is_the_beginning_of_the_conversation(provider: str) -> None:
    with serve(SCRIPT) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target) as url:
            first = ask(url, QUESTION)
            second = ask(url, [result_of(first)], previous_response_id=first["id"])
            ask(url, "Sure?", previous_response_id=second["id"])
        sent = json.dumps(server.requests[2].json)
    words = (QUESTION, "Let me look.", "Narvik", "4 degrees", "Cold.", "Sure?")
    assert [sent.count(word) for word in words] == [1] * 6
    assert [sent.index(word) for word in words] == sorted(sent.index(word) for word in words)
    assert "previous_response_id" not in sent


def test_what_is_not_stored_is_refused() -> None:
    with serve(SCRIPT) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target) as url:
            first = ask(url, QUESTION, store=False)
            bodies: list[Json] = [
                {"input": "Sure?", "previous_response_id": first["id"]},
                {"input": [{"type": "item_reference", "id": first["output"][0]["id"]}]},
            ]
            responses = [httpx.post(f"{url}/v1/responses", json={"model": "m", **body}) for body in bodies]
    assert [response.status_code for response in responses] == [404, 404]
    assert all("not found" in response.json()["error"]["message"] for response in responses)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "field", [{"conversation": "conv_1"}, {"conversation": {"id": "conv_1"}}, {"prompt": {"id": "pmpt_1"}}]
)
def test_what_openai_stores_is_refused_for_another_provider(field: Json) -> None:
    """Left out, the conversation before the request, or all of its instructions, would be lost."""
    body = {"model": "m", "input": "And?", **field}
    with serve(["Hello."]) as other, serve(["Hello."]) as own:
        models = {"*": "scripted"}
        with (
            serve_gateway(Target("anthropic", other.base_url("anthropic"), models=models)) as first,
            serve_gateway(Target("openai_responses", own.base_url("openai_responses"), models=models)) as second,
        ):
            refused = httpx.post(f"{first}/v1/responses", json=body)
            sent = httpx.post(f"{second}/v1/responses", json=body)
            plain = httpx.post(f"{first}/v1/responses", json={**body, **dict.fromkeys(field)})
    assert (refused.status_code, sent.status_code, plain.status_code) == (404, 200, 200)
    assert "_1' not found" in refused.json()["error"]["message"]
    assert own.requests[0].json.items() >= field.items()
    assert len(other.requests) == 1


def test_a_response_that_broke_off_is_not_stored() -> None:
    with serve([Reply("Hel", Disconnect()), "Hello."]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target) as url:
            body = {"model": "m", "input": QUESTION, "stream": True}
            broken = read_turn("openai_responses", httpx.post(f"{url}/v1/responses", json=body).content)
            assert broken.error is not None
            body = {"model": "m", "input": "?", "previous_response_id": broken.response_id}
            response = httpx.post(f"{url}/v1/responses", json=body)
    assert response.status_code == 404


LIMIT = 64 * 1024 * 1024


def test_the_oldest_responses_go_first() -> None:
    item = {"type": "message", "role": "assistant", "content": "x" * 100}
    stored = MemoryStore(10_000)
    for number in range(20):
        add(stored, f"resp_{number}", {"input": f"hi {number}"}, [{**item, "id": f"msg_{number}"}])
    add(stored, "resp_large", {"input": "x" * 20_000}, [])
    kept = [number for number in range(20) if stored_response(stored, number)]
    assert kept == list(range(kept[0], 20))
    assert 2 <= len(kept) <= 8
    assert resolve(stored, {"input": "hi"}, LIMIT) == {"input": "hi"}
    assert resolve(stored, [], LIMIT) == []
    add(stored, "resp_none", {"input": "", "store": False}, [])
    for number in range(20, 40):
        add(stored, f"resp_{number}", {"input": "x" * (9000 - number)}, [])
    assert [number for number in range(40) if stored_response(stored, number)] == [39]
    assert stored.size <= 10_000


def stored_response(stored: MemoryStore, number: int) -> bool:
    try:
        resolve(stored, {"previous_response_id": f"resp_{number}"}, LIMIT)
    except ReferenceNotFound:
        return False
    return True


def nothing(number: int) -> Any:
    return [{} for _ in range(2_000)]


def small_values(number: int) -> Any:
    return [1_000 * number + value for value in range(1_000)]


def small_objects(number: int) -> Any:
    return [[{}] * 10_000 + [number]]


def one_text(number: int) -> Any:
    return f"{number:09}" * 5_000


@pytest.mark.parametrize("make", [nothing, small_values, small_objects, one_text])
def test_stored_responses_have_no_more_memory_than_their_limit(make: Callable[[int], Any]) -> None:
    """60 MB of empty objects as JSON held 1,378 MB as objects."""
    limit = 500_000
    stored = MemoryStore(limit)
    add(stored, "resp", {"input": "hi"}, [])
    tracemalloc.start()
    try:
        for number in range(30):
            add(stored, f"resp_{number}", {"input": make(number)}, [{"type": "message", "id": f"msg_{number}"}])
        gc.collect()  # the event loops
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored.size <= limit
    assert held <= limit + 20_000
    assert stored_response(stored, 29)


def test_a_conversation_that_is_sent_again_each_time_is_stored_once() -> None:
    stored = MemoryStore(1_000_000)
    body: Json = {"input": [{"role": "user", "content": "x" * 1000}]}
    for number in range(130):
        answer = {"type": "message", "id": f"msg_{number}", "content": "y" * 1000}
        add(stored, f"resp_{number}", body, [answer])
        body = {"input": [*body["input"], answer, {"role": "user", "content": f"{number}"}]}
    assert all(stored_response(stored, number) for number in range(130))


def test_an_item_that_is_referred_to_many_times_is_one_object() -> None:
    """552 kB of references to one item became 600 MB."""
    stored = MemoryStore(1_000_000)
    add(stored, "resp_1", {"input": "hi"}, [{"id": "msg_1", "content": "x" * 10_000}])
    reference = {"type": "item_reference", "id": "msg_1"}
    resolved = resolve(stored, {"input": [reference] * 90, "previous_response_id": "resp_1"}, 1_000_000)["input"]
    assert [item.get("id") for item in resolved] == [None, *["msg_1"] * 91]
    assert len({id(item) for item in resolved[1:]}) == 1
    with pytest.raises(ReferencesTooLarge, match="100"):
        resolve(stored, {"input": [reference] * 100}, 1_000_000)


@pytest.mark.parametrize("size", [1000, 600_000])
def test_large_conversations_are_encoded_and_decoded_in_worker_threads(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            threads.append("AnyIO worker thread" in threading.current_thread().name)
            return function(*arguments)

        return call

    monkeypatch.setattr(attempt, "encode_items", noted(encode_items))
    monkeypatch.setattr(References, "resolve", noted(References.resolve))
    with (
        serve(["One.", "Two."]) as server,
        serve_gateway(Target("openai_chat", server.base_url("openai_chat"), models={"*": "scripted"})) as url,
    ):
        first = ask(url, "x" * size)
        ask(url, "And?", previous_response_id=first["id"])
    assert threads == [size > 256 * 1024] * 3  # encode, resolve, encode


def test_half_a_surrogate_pair_in_an_item_is_stored_as_bodies_have_it() -> None:
    stored = MemoryStore(1_000_000)
    add(stored, "resp_1", {"input": "hi"}, [{"id": "\ude00", "content": "a\ud83d"}])
    resolved = resolve(stored, {"input": "hi", "previous_response_id": "resp_1"}, 1_000_000)["input"]
    assert resolved[1] == {"id": "\ufffd", "content": "a\ufffd"}


def test_what_references_resolve_to_counts_as_a_body() -> None:
    with serve([Reply("x" * 1000), "Yes."]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target, limits=GatewayLimits(body=10_000)) as url:
            first = ask(url, QUESTION)
            reference = {"type": "item_reference", "id": first["output"][0]["id"]}
            responses = [
                httpx.post(f"{url}/v1/responses", json={"model": "m", "input": [reference] * count})
                for count in (20, 2)
            ]
    assert [response.status_code for response in responses] == [413, 200]
    assert "this gateway takes 10000" in responses[0].json()["error"]["message"]
    assert len(server.requests) == 2


class RecordingStore(MemoryStore):
    """A store that records what it returns, of which a database makes copies."""

    def __init__(self) -> None:
        super().__init__()
        self.returned: list[int] = []

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        found = await super().get(keys)
        self.returned.append(sum(map(len, found.values())))
        return found


def test_items_above_the_limit_are_not_asked_for() -> None:
    stored = RecordingStore()
    add(stored, "resp_1", {"input": "hi"}, [{"id": f"msg_{number}", "content": "x" * 10_000} for number in range(20)])
    references = [{"type": "item_reference", "id": f"msg_{number}"} for number in range(20)]
    for body in ({"previous_response_id": "resp_1"}, {"input": references}, {"input": references[:1] * 60_000}):
        with pytest.raises(ReferencesTooLarge):
            resolve(stored, body, 100_000)
    assert sum(stored.returned) < 2_000
    assert len(resolve(stored, {"input": references}, 300_000)["input"]) == 20


def test_the_limit_is_an_option() -> None:
    with serve(SCRIPT) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target, limits=GatewayLimits(stored=0)) as url:
            first = ask(url, QUESTION)
            response = httpx.post(
                f"{url}/v1/responses", json={"model": "m", "input": "?", "previous_response_id": first["id"]}
            )
    assert response.status_code == 404


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_a_thread_of_anthropic_is_refused_so_that_the_sdk_sends_the_conversation(provider: str, thread: Json) -> None:
    """The second request of ``toolRunner`` in @anthropic-ai/sdk has the results alone: neither the calls nor the tools.

    It sends the whole conversation after the error ``thread_unsupported_request``.
    """
    body = {"model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    reports: list[Exchange] = []
    with serve(["Hello."]) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target, reports=reports) as url:
            refused = httpx.post(f"{url}/v1/messages", json={**body, "thread": thread})
            accepted = httpx.post(f"{url}/v1/messages", json={**body, "thread": None})
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["details"] == {"error_code": "thread_unsupported_request"}
    assert (reports[0].status, reports[0].error) == (400, error["message"])
    assert read_turn("anthropic", accepted.content).text == "Hello."
    assert len(server.requests) == 1
