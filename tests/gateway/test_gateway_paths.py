"""The paths of the gateway: base URLs with a version too many or too few, and paths that no wire has."""

from __future__ import annotations

import httpx
import pytest
from gateway.gateway_clients import CLIENTS, read_turn
from gateway.gateway_server import Target, serve_gateway

from streamkit.gateway.routes import find_mounted_route, find_route
from streamkit.testing import serve


@pytest.mark.parametrize(
    ("path", "client", "action"),
    [
        # The client appends its version to a base URL that ends with one.
        ("/v1/v1/messages", "anthropic", "respond"),
        ("/v1/v1/messages/count_tokens", "anthropic", "count_tokens"),
        ("/v1/v1/chat/completions", "openai_chat", "respond"),
        ("/v1/v1/responses", "openai_responses", "respond"),
        ("/v1/v1/responses/input_tokens", "openai_responses", "count_tokens"),
        ("/v1/v1/models", "openai_chat", "list_models"),
        ("/v1/v1beta/models/m:generateContent", "gemini", "respond"),
        ("/v1beta/v1beta/models/m:countTokens", "gemini", "count_tokens"),
        ("/v1beta/v1beta/models", "gemini", "list_models"),
        ("/v1/api/chat", "ollama", "respond"),
        ("/api/api/chat", "ollama", "respond"),
        ("/api/api/tags", "ollama", "list_models"),
        ("/v2/v2/chat", "cohere", "respond"),
        ("/v1/model/vendor.m-v1:0/converse", "bedrock_converse", "respond"),
        ("/v1/model/vendor.m-v1:0/invoke", "bedrock_invoke", "respond"),
        # The client expects the version in the base URL, and it has none.
        ("/messages", "anthropic", "respond"),
        ("/messages/count_tokens", "anthropic", "count_tokens"),
        ("/chat/completions", "openai_chat", "respond"),
        ("/responses", "openai_responses", "respond"),
        ("/models", "openai_chat", "list_models"),
        ("/models/m:streamGenerateContent", "gemini", "respond"),
        ("/models/m:countTokens", "gemini", "count_tokens"),
    ],
)
def test_a_version_too_many_or_too_few_in_the_base_url_is_no_error(path: str, client: str, action: str) -> None:
    route = find_route(path, {}, {})
    assert (route.client, route.action) == (client, action)


@pytest.mark.parametrize(
    ("path", "mounted_at", "expected", "client"),
    [
        ("/llm/api/chat", "/llm", "/api/chat", "ollama"),
        ("/a/b/v2/chat", "/a/b", "/v2/chat", "cohere"),
        ("/llm/", "/llm", "/", "openai_chat"),
        ("/llm", "/llm", "/", "openai_chat"),
        ("/llm//api/chat", "/llm/", "/api/chat", "ollama"),
        # Behind a proxy that removes its prefix /proxy, which a server or a framework was told of.
        ("/llm/api/chat", "/proxy/llm", "/api/chat", "ollama"),
        ("/llm/model/m/converse", "/proxy/llm", "/model/m/converse", "bedrock_converse"),
        ("/v2/chat", "/proxy", "/v2/chat", "cohere"),
        # The same text is the proxy's prefix and the base of a wire.
        ("/api/chat", "/api", "/api/chat", "ollama"),
        ("/api/api/chat", "/api", "/api/chat", "ollama"),
        ("/v1/messages", "/v1", "/messages", "anthropic"),
        # Litestar ends the path of a mounted application with a slash.
        ("/v1/chat/completions/", "", "/v1/chat/completions", "openai_chat"),
        ("/llm/v1/models/m/", "/llm", "/v1/models/m", "openai_chat"),
    ],
)
def test_a_mounted_gateway_knows_its_paths(path: str, mounted_at: str, expected: str, client: str) -> None:
    found, route = find_mounted_route(path, mounted_at, {}, {})
    assert (found, route.client) == (expected, client)
    assert route.action != "unknown"
    assert route.model in (None, "m")


def test_an_unknown_path_of_a_mounted_gateway_is_named_without_its_prefix() -> None:
    found, route = find_mounted_route("/llm/v1/images", "/llm", {}, {})
    assert (found, route.action) == ("/v1/images", "unknown")


def test_the_model_is_that_of_the_path_without_its_prefix() -> None:
    assert find_route("/v1/model/vendor.m-v1:0/converse-stream", {}, {}).model == "vendor.m-v1:0"
    assert find_route("/v1beta/v1beta/models/m:generateContent", {}, {}).model == "m"
    assert find_route("/models/m:streamGenerateContent", {}, {}).model == "m"
    assert find_route("/v1/v1/models/m", {}, {}).model == "m"


@pytest.mark.parametrize(
    ("path", "client"),
    [
        ("/v1/v1/messages/batches", "anthropic"),
        ("/v1/responses/resp_1", "openai_responses"),
        ("/responses/resp_1/cancel", "openai_responses"),
        ("/v1/threads/t/messages", "openai_chat"),
        ("/chat", "openai_chat"),  # of Ollama or of Cohere
        ("/v1", "openai_chat"),
    ],
)
def test_other_paths_are_unknown(path: str, client: str) -> None:
    route = find_route(path, {}, {})
    assert (route.client, route.action) == (client, "unknown")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_doubled_version_is_served_over_http(client: str) -> None:
    path, body = CLIENTS[client]
    version = path.split("/")[1]
    with serve(["Hello."]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target) as url:
            response = httpx.post(f"{url}/{version}{path}", json=body, timeout=20)
    assert (response.status_code, read_turn(client, response.content).text) == (200, "Hello.")


def test_an_unknown_path_is_an_unknown_url_and_not_an_unknown_model() -> None:
    """https://platform.openai.com/docs/guides/error-codes; the sentence is that of api.openai.com."""
    with serve_gateway(Target("anthropic", "http://127.0.0.1:9", models={"*": "m"})) as url:
        unknown = httpx.post(url + "/v1/x", json={})
        response_path = httpx.get(url + "/v1/responses/resp_1")
        no_model = httpx.get(url + "/v1/models/absent")
        anthropic = httpx.post(url + "/v1/messages/batches", json={})
        verb = httpx.post(url + "/v1beta/models/org/m:predict", json={})
    error = unknown.json()["error"]
    assert (unknown.status_code, error["type"], error["code"]) == (404, "invalid_request_error", None)
    assert error["message"].startswith("Invalid URL (POST /v1/x)")
    assert "POST /v1/chat/completions" in error["message"]
    assert response_path.json()["error"]["code"] is None
    assert "POST /v1/responses" in response_path.json()["error"]["message"]
    assert no_model.json()["error"]["code"] == "model_not_found"
    assert anthropic.json()["error"]["type"] == "not_found_error"
    assert "POST /v1/messages" in anthropic.json()["error"]["message"]
    assert (verb.status_code, verb.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert "POST /v1beta/models/" in verb.json()["error"]["message"]
