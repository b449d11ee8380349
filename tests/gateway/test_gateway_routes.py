"""The paths of the gateway: base URLs with and without the version, which clients add differently."""

from __future__ import annotations

import pytest

from streamkit import providers
from streamkit.gateway.routes import client_provider, find_route


@pytest.mark.parametrize("prefix", ["", "/v1", "/v1/v1", "/anthropic/v1"])
@pytest.mark.parametrize(
    ("path", "client", "action"),
    [
        ("/messages", "anthropic", "respond"),  # DSPy and the AI SDK add no version, Anthropic's SDK adds /v1
        ("/messages/count_tokens", "anthropic", "count_tokens"),
        ("/chat/completions", "openai_chat", "respond"),
        ("/responses", "openai_responses", "respond"),
        ("/responses/input_tokens", "openai_responses", "count_tokens"),
    ],
)
def test_a_base_url_may_have_the_version_or_not(prefix: str, path: str, client: str, action: str) -> None:
    route = find_route(prefix + path, {}, {})
    assert (route.client, route.action) == (client, action)


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/messagesx", "/v1/chat", "/v1/responses/resp_1"])
def test_other_paths_of_a_wire_are_unknown(path: str) -> None:
    assert find_route(path, {}, {}).action == "unknown"


@pytest.mark.parametrize(
    ("agent", "dialect"),
    [
        ("mistral-client-python/2.6.0", "mistral"),
        ("mistral-client-typescript/2.7.0", "mistral"),
        ("ai/6.0.1 ai-sdk/mistral/3.0.69 ai-sdk/provider-utils/4.0.1", "mistral"),
        ("ai/6.0.1 ai-sdk/xai/3.0.138 ai-sdk/provider-utils/4.0.1", "xai"),
        ("OpenAI/Python 3.54.0", None),
        ("no-mistral-client-python/1", None),
    ],
)
def test_clients_of_one_dialect_alone_are_known_by_their_agent(agent: str, dialect: str | None) -> None:
    headers = {"user-agent": agent}
    assert find_route("/v1/chat/completions", {}, headers).dialect == dialect
    assert find_route("/v1/messages", {}, headers).dialect is None
    provider = client_provider(find_route("/v1/chat/completions", {}, headers), providers.get("groq"))
    assert provider.name == (dialect or "groq")


@pytest.mark.parametrize("prefix", ["/v1beta", "/v1", "", "/gateway/v1beta", "/models/v1beta"])
@pytest.mark.parametrize("verb", ["generateContent", "streamGenerateContent", "countTokens"])
@pytest.mark.parametrize("model", ["m", "qwen3:8b", "org/model", "org/qwen3:8b", "accounts/fireworks/models/v3:latest"])
def test_a_model_in_the_path_may_contain_slashes_and_colons(prefix: str, verb: str, model: str) -> None:
    route = find_route(f"{prefix}/models/{model}:{verb}", {}, {})
    assert (route.client, route.model) == ("gemini", model)
    assert route.action == ("count_tokens" if verb == "countTokens" else "respond")


@pytest.mark.parametrize("model", ["qwen3:8b", "org/model", "org/qwen3:8b"])
@pytest.mark.parametrize(("base", "client"), [("/v1beta", "gemini"), ("/v1", "openai_chat")])
def test_a_model_that_is_looked_up_may_contain_slashes_and_colons(base: str, client: str, model: str) -> None:
    route = find_route(f"{base}/models/{model}", {}, {})
    assert (route.client, route.action, route.model) == (client, "list_models", model)


def test_a_model_named_with_its_collection_is_the_model() -> None:
    assert find_route("/v1beta/models/models/m:generateContent", {}, {}).model == "m"
