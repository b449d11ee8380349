"""The models that clients can list, read by the official SDKs of each wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from typing import Any

import anthropic
import anyio
import cohere
import httpx
import ollama
import openai
import pytest
from gateway.gateway_server import Target, serve_gateway, serve_handler
from gateway.test_routing import Clock
from google import genai

from streamkit.cli.gateway import configure_upstream
from streamkit.cli.upstream_client import list_over_http, open_client
from streamkit.gateway import Upstream
from streamkit.gateway.model_lists import ModelLists

NAMES = ["gpt-5", "org/qwen3:8b"]


def with_anthropic(url: str) -> list[Any]:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        models = list(client.models.list())
        assert client.models.retrieve("org/qwen3:8b").display_name == "org/qwen3:8b"
        assert [(model.type, model.lifecycle, model.created_at.year) for model in models] == [
            ("model", "active", 1970)
        ] * 2
        return [model.id for model in models]


def with_openai(url: str) -> list[Any]:
    with openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
        models = list(client.models.list())
        assert client.models.retrieve("org/qwen3:8b").id == "org/qwen3:8b"
        with pytest.raises(openai.NotFoundError, match="lists no model 'absent'"):
            client.models.retrieve("absent")
        assert [(model.object, model.owned_by) for model in models] == [("model", "streamkit")] * 2
        return [model.id for model in models]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_google_genai_lists_models_at_both_versions(version: str) -> None:
    """Version 3 of the SDK asks ``/v1/models``, which is OpenAI's and Anthropic's path as well."""
    with serve_gateway(Target("openai_chat", "http://127.0.0.1:9", models=NAMES)) as url:
        options: Any = {"base_url": url, "api_version": version}
        with genai.Client(api_key="k", http_options=options) as client:
            models = list(client.models.list())
            assert client.models.get(model="org/qwen3:8b").name == "models/org/qwen3:8b"
    assert [model.name for model in models] == [f"models/{name}" for name in NAMES]
    assert models[0].supported_actions == ["generateContent", "streamGenerateContent"]


def with_cohere(url: str) -> list[Any]:
    with httpx.Client() as http:
        client = cohere.ClientV2(base_url=url, api_key="k", httpx_client=http)
        assert client.models.get("gpt-5").name == "gpt-5"
        models = client.models.list().models
    assert [model.endpoints for model in models] == [["chat"]] * 2
    return [model.name for model in models]


def with_ollama(url: str) -> list[Any]:
    with ollama.Client(host=url) as client:
        models = client.list().models
        shown = client.show("org/qwen3:8b")
        with pytest.raises(ollama.ResponseError, match="has no model 'absent'") as failed:
            client.show("absent")
    assert failed.value.status_code == 404
    assert "tools" in (shown.capabilities or ())
    assert shown.modelinfo == {"general.basename": "org/qwen3:8b"}
    digests = {model.digest for model in models if model.digest is not None and len(model.digest) == 64}
    assert len(digests) == 2
    assert all(model.modified_at is not None and model.details is not None for model in models)
    version = httpx.get(url + "/api/version").json()["version"]
    assert tuple(map(int, version.split("."))) > (0, 6, 4)  # Copilot in VS Code takes none below
    return [model.model for model in models]


@pytest.mark.parametrize("read", [with_anthropic, with_openai, with_cohere, with_ollama])
def test_the_official_sdks_read_the_names(read: Callable[[str], list[Any]]) -> None:
    targets = (
        Target("openai_chat", "http://127.0.0.1:9", models={"gpt-5": "x", "claude-*": "y"}),
        Target("anthropic", "http://127.0.0.1:9", models=["org/qwen3:8b", "gpt-5"]),
    )
    with serve_gateway(*targets) as url:
        assert read(url) == NAMES


def test_older_clients_of_ollama_show_a_model_by_its_name() -> None:
    with serve_gateway(Target("ollama", "http://127.0.0.1:9")) as url:
        shown = httpx.post(url + "/api/show", json={"name": "llama3"})
        unnamed = httpx.post(url + "/api/show", json={})
    assert shown.json()["model_info"] == {"general.basename": "llama3"}
    assert (unnamed.status_code, "names no model" in unnamed.json()["error"]) == (400, True)


# ---------------------------------------------------------------- what upstreams list


def upstream(models: Mapping[str, str] | Sequence[str], *answers: Any) -> tuple[Upstream, list[int]]:
    """Return an upstream that lists models, or fails to, and the list of what it was asked."""
    remaining, asked = list(answers), list[int]()

    async def list_models() -> list[str]:
        asked.append(len(asked))
        answer = remaining.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    ask = lambda request: nullcontext()  # noqa: E731
    return Upstream(provider="ollama", ask=ask, models=models, list_models=list_models), asked


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ((), ["gpt-5", "o3", "gpt-5-mini"]),
        (["gpt-*"], ["gpt-5", "gpt-5-mini"]),
        (["other"], ["other"]),
        ({"openai/*": "*"}, ["openai/gpt-5", "openai/o3", "openai/gpt-5-mini"]),
        ({"fast": "gpt-5-mini", "gpt-*-x": "gpt-*"}, ["fast", "gpt-5-x", "gpt-5-mini-x"]),
        ({"*": "o3"}, ["o3"]),
        ({"claude-*": "o3"}, []),
    ],
)
def test_models_that_an_upstream_lists_have_the_names_that_clients_send(models: Any, expected: list[str]) -> None:
    lists = ModelLists([upstream(models, ["gpt-5", "o3", "gpt-5-mini"])[0]])
    assert anyio.run(lists.load) == expected


def test_the_lists_of_upstreams_are_merged_and_asked_for_again_after_a_minute() -> None:
    clock = Clock()
    first, one = upstream((), ["a", "b"], ["a", "c"], ["a"])
    second, two = upstream((), ["b", "d"], ConnectionError("no route"), ["d"])
    lists, seen = ModelLists([first, second], clock), []
    for seconds in (0, 59, 2, 61):
        clock.now += seconds
        seen.append(anyio.run(lists.load))
    assert seen == [["a", "b", "d"], ["a", "b", "d"], ["a", "c"], ["a", "d"]]
    assert (len(one), len(two)) == (3, 3)


def test_an_upstream_that_does_not_list_models_leaves_the_others() -> None:
    broken, _ = upstream(["mine"], KeyError("data"))
    lists = ModelLists([broken, upstream((), ["b"])[0]])
    assert anyio.run(lists.load) == ["mine", "b"]


LISTS = {
    "anthropic": ("/v1/models?limit=1000", b'{"data": [{"id": "m", "type": "model"}], "has_more": false}'),
    "openai_compatible": ("/models", b'{"object": "list", "data": [{"id": "m"}]}'),
    "gemini": ("/v1beta/models?pageSize=1000", b'{"models": [{"name": "models/m"}]}'),
    "ollama": ("/api/tags", b'{"models": [{"name": "m", "model": "m"}]}'),
    "cohere": ("/v1/models?page_size=1000", b'{"models": [{"name": "m"}]}'),
}


@pytest.mark.parametrize("provider", LISTS)
def test_the_command_reads_the_list_of_each_wire(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, body = LISTS[provider]
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("x-k")))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("KEY", "k")
    with serve_handler(Handler) as address:
        configured = configure_upstream(provider, address, key_variable="KEY")

        async def main() -> list[str]:
            async with open_client() as client:
                models_path = configured.endpoint.models_path
                assert models_path is not None
                return await list_over_http(client, configured.address + models_path, {"x-k": "k"})()

        assert anyio.run(main) == ["m"]
    assert asked == [(path, "k")]
