"""Embeddings through the gateway over real HTTP: passed on to the upstream of the model, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cohere
import httpx
import ollama
import openai
import pytest
from gateway.gateway_clients import Json
from gateway.gateway_server import Target, serve_gateway, serve_responses
from gateway.test_gateway_bodies import error_of
from gateway.test_routing import Clock, cooldowns
from google import genai

from streamkit.gateway import Exchange, GatewayLimits

JSON = {"content-type": "application/json"}
#: Of each wire: the client's path, the upstream's, and what the body has of the model.
EMBEDDINGS: dict[str, tuple[str, str, Json, Json]] = {
    "openai_chat": ("/v1/embeddings", "/embeddings", {"model": "m"}, {"model": "mine"}),
    "openai_responses": ("/v1/embeddings", "/embeddings", {"model": "m"}, {"model": "mine"}),
    "gemini": (
        "/v1beta/models/m:embedContent",
        "/v1beta/models/mine:embedContent",
        {"model": "models/m", "content": {"parts": [{"text": "a"}]}},
        {"model": "models/mine", "content": {"parts": [{"text": "a"}]}},
    ),
    "gemini batch": (
        "/v1beta/models/m:batchEmbedContents",
        "/v1beta/models/mine:batchEmbedContents",
        {"requests": [{"model": "models/m", "content": {}}, {"content": {}}]},
        {"requests": [{"model": "models/mine", "content": {}}, {"model": "models/mine", "content": {}}]},
    ),
    "cohere": ("/v2/embed", "/v2/embed", {"model": "m"}, {"model": "mine"}),
    "ollama": ("/api/embed", "/api/embed", {"model": "m"}, {"model": "mine"}),
    "ollama chat": ("/v1/embeddings", "/v1/embeddings", {"model": "m"}, {"model": "mine"}),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_are_passed_on_to_the_upstream_that_names_the_model(name: str) -> None:
    path, expected_path, model, expected_model = EMBEDDINGS[name]
    provider = name.split()[0]
    fields = {"input": ["a", "b"], "anything": [1, 2.5, None]}
    embeddings = b'{"data" : [{"embedding":[0.1,-2.50e-3]}], "unknown": {"\\u00e9": 1}}'
    reports: list[Exchange] = []
    with serve_responses((200, JSON, embeddings)) as (address, requests), serve_responses() as (other, unasked):
        targets = (Target(provider, other, models=["o"]), Target(provider, address, models={"m": "mine"}))
        with serve_gateway(*targets, reports=reports, key="secret") as url:
            response = httpx.post(url + path, json={**model, **fields}, headers={"authorization": "Bearer secret"})
            without = httpx.post(url + path, json={**model, **fields})
    assert (response.status_code, response.content, without.status_code) == (200, embeddings, 401)
    (request,) = requests
    assert (str(request.url), unasked) == (expected_path, [])
    assert json.loads(request.content) == {**fields, **expected_model}
    assert "upstream-key" in "".join(request.headers.values())
    assert (reports[0].upstream, reports[0].provider, reports[0].upstream_model) == (2, provider, "mine")


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_that_no_upstream_has_are_404_in_the_clients_form(name: str) -> None:
    path, _, model, _ = EMBEDDINGS[name]
    client = "openai_chat" if path == "/v1/embeddings" else name.split()[0]
    with serve_responses() as (address, requests), serve_gateway(Target("anthropic", address)) as url:
        response = httpx.post(url + path, json=model)
    assert (response.status_code, requests) == (404, [])
    assert error_of(client, response) == "no upstream of this gateway embeds texts of this wire: ask the provider"


def test_a_model_of_another_wire_has_no_embeddings() -> None:
    with serve_responses() as (address, _):
        targets = (Target("anthropic", address, models=["a"]), Target("openai_chat", address, models=["o"]))
        with serve_gateway(*targets) as url:
            responses = [httpx.post(url + "/v1/embeddings", json={"model": name}) for name in ("a", "x")]
    assert [response.status_code for response in responses] == [404, 404]
    assert "embeds texts" in error_of("openai_chat", responses[0])
    assert "it has a, o" in error_of("openai_chat", responses[1])


def test_the_error_of_the_upstream_is_passed_on_and_its_secrets_are_not() -> None:
    error = {"error": {"message": "bad input for upstream-key", "type": "invalid_request_error"}}
    with (
        serve_responses((400, JSON, json.dumps(error).encode())) as (address, _),
        serve_gateway(Target("openai_chat", address, secrets=["upstream-key"])) as url,
    ):
        response = httpx.post(url + "/v1/embeddings", json={"model": "m", "input": "a"})
    assert (response.status_code, response.json()["error"]["message"]) == (400, "bad input for ***")


def test_an_upstream_that_is_left_alone_is_not_asked_for_embeddings_either() -> None:
    clock, body = Clock(), {"model": "m", "input": "a"}
    limited, fine = (429, {**JSON, "retry-after": "60"}, b'{"error": {"message": "slow down"}}'), (200, JSON, b"{}")
    with (
        serve_responses(limited, limited, fine, fine) as (first, one),
        serve_responses(fine, limited) as (second, _),
        serve_gateway(Target("openai_chat", first), Target("openai_chat", second), cooldowns=cooldowns(clock)) as url,
    ):
        responses, counts = [], []
        for seconds in (0.0, 10.0, 10.0, 40.0, 60.0, 0.0):
            clock.now += seconds
            responses.append(httpx.post(url + "/v1/embeddings", json=body))
            counts.append(len(one))
    assert [response.status_code for response in responses] == [200, 429, 429, 429, 200, 200]
    assert [response.headers.get("retry-after") for response in responses] == [None, "60", "40", "60", None, None]
    assert counts == [1, 1, 1, 2, 3, 4]


def test_a_body_of_embeddings_has_the_limit_of_every_body() -> None:
    with (
        serve_responses() as (address, requests),
        serve_gateway(Target("openai_chat", address), limits=GatewayLimits(body=1000)) as url,
    ):
        response = httpx.post(url + "/v1/embeddings", json={"model": "m", "input": "a" * 2000})
    assert (response.status_code, requests) == (413, [])


def test_large_embeddings_are_passed_on() -> None:
    data = json.dumps({"data": [{"embedding": [number / 7 for number in range(100_000)]}]}).encode()
    with serve_responses((200, JSON, data)) as (address, _), serve_gateway(Target("openai_chat", address)) as url:
        response = httpx.post(url + "/v1/embeddings", json={"model": "m", "input": "a"})
    assert response.content == data


def openai_embeddings(url: str) -> list[float]:
    with openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
        return client.embeddings.create(model="m", input="a", encoding_format="float").data[0].embedding


def cohere_embeddings(url: str) -> list[float]:
    with httpx.Client() as http:
        client = cohere.ClientV2(base_url=url, api_key="k", httpx_client=http)
        response = client.embed(model="m", texts=["a"], input_type="search_query", embedding_types=["float"])
    assert response.embeddings.float_ is not None
    return list(response.embeddings.float_[0])


def ollama_embeddings(url: str) -> list[float]:
    with ollama.Client(host=url) as client:
        return list(client.embed(model="m", input="a").embeddings[0])


def gemini_embeddings(url: str) -> list[float]:
    with genai.Client(api_key="k", http_options={"base_url": url}) as client:
        response = client.models.embed_content(model="m", contents="a")
    assert response.embeddings is not None
    return list(response.embeddings[0].values or [])


VECTOR = [0.25, -0.5]
SDKS: dict[str, tuple[Callable[[str], list[float]], Any]] = {
    "openai_chat": (
        openai_embeddings,
        {
            "object": "list", "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1},
            "data": [{"object": "embedding", "index": 0, "embedding": VECTOR}],
        },
    ),
    "cohere": (cohere_embeddings, {"id": "e", "texts": ["a"], "embeddings": {"float": [VECTOR]}}),
    "ollama": (ollama_embeddings, {"model": "m", "embeddings": [VECTOR], "total_duration": 1}),
    "gemini": (gemini_embeddings, {"embeddings": [{"values": VECTOR}]}),
}  # fmt: skip


@pytest.mark.parametrize("name", SDKS)
def test_the_official_sdks_get_embeddings(name: str) -> None:
    embed, body = SDKS[name]
    with (
        serve_responses((200, JSON, json.dumps(body).encode())) as (address, _),
        serve_gateway(Target(name, address)) as url,
    ):
        assert embed(url) == VECTOR
