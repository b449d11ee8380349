"""Runs over ``streamkit.bridges.http.connect``, over real HTTP against the embedded server."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import httpx
import pytest

from streamkit import Content, RoundContext, StreamInterrupted, Target, UsageError, providers, run_loop
from streamkit.bridges.http import HttpConnection, connect, request_url
from streamkit.execution import Retries
from streamkit.testing import Call, Reply, Status, serve

pytestmark = pytest.mark.anyio
QUESTION = [Content.human("Weather in Oslo?")]


def get_weather(city: str) -> str:
    """Return the current weather in a city."""
    return f"{city}: rain"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in providers.names():
        endpoint = providers.get(name).traits.endpoint
        for variable in (*endpoint.key_variables, endpoint.base_url_variable or "UNUSED"):
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("provider", providers.names())
async def test_a_run_needs_a_connection_and_tools_alone(provider: str) -> None:
    with serve([Reply(Call("get_weather", {"city": "Oslo"})), Reply("Take an umbrella.")]) as server:
        connection = connect(provider, model="m-1", api_key="secret-1", base_url=server.base_url(provider))
        run = await run_loop(connection, tools=[get_weather], history=QUESTION)
        requests = server.requests
    assert (run.text, run.ended) == ("Take an umbrella.", "answered")
    name, value = providers.get(provider).traits.endpoint.key_header
    assert [request.headers[name] for request in requests] == [value.format("secret-1")] * 2
    assert all("m-1" in (request.json.get("model") or request.path) for request in requests)
    assert [content.metadata.get("endpoint") for content in run.contents if content.metadata.get("endpoint")]


async def test_the_key_and_the_address_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve([Reply("Rain.")]) as server:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", " key-1\n")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.base_url("azure_openai"))
        await run_loop(connect("azure_openai", model="m"), history=QUESTION)
        assert server.requests[0].headers["api-key"] == "key-1"


async def test_a_base_url_may_end_in_the_version_of_the_path() -> None:
    with serve([Reply("Rain.")]) as server:
        connection = connect("anthropic", model="m", base_url=server.base_url("anthropic") + "/v1/")
        run = await run_loop(connection, history=QUESTION)
    assert run.text == "Rain."


async def test_settings_and_fields_of_ones_own_are_in_each_request() -> None:
    with serve([Reply("Rain.")]) as server:
        base_url = server.base_url("gemini")
        settings = {"temperature": 0, "max_output_tokens": 50}
        body = {"generationConfig": {"seed": 7}, "labels": {"a": "b"}}
        await run_loop(connect("gemini", model="m", base_url=base_url, settings=settings, body=body), history=QUESTION)
        sent = server.requests[0].json
    assert sent["generationConfig"] == {"temperature": 0, "maxOutputTokens": 50, "seed": 7}
    assert sent["labels"] == {"a": "b"}


async def test_runs_share_a_client_which_is_closed_with_the_last() -> None:
    clients: list[httpx.AsyncClient | None] = []

    class Watched(HttpConnection):
        def __call__(self, context: RoundContext) -> Any:
            clients.append(self._client)
            return super().__call__(context)

    with serve(lambda _: Reply("Rain.")) as server:
        connection = Watched("openai_chat", "m", "k", server.base_url("openai_chat"), None, None, None)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(_run, connection)
        together, clients[:] = set(clients), []
        async with connection:
            await _run(connection)
            await _run(connection)
            assert len(set(clients)) == 1
        assert len(together) == 1
        assert all(client is not None and client.is_closed for client in {*together, *clients})
        await _run(connection)  # it opens again
    with pytest.raises(UsageError, match="the connection is closed"):
        connection(RoundContext(QUESTION, [], None, "openai_chat"))


async def _run(connection: HttpConnection) -> None:
    run = await run_loop(connection, history=QUESTION)
    assert run.text == "Rain."


async def test_a_client_that_was_passed_stays_open() -> None:
    with serve([Reply("Rain.")]) as server:
        async with httpx.AsyncClient(headers={"x-team": "a"}) as client:
            base_url = server.base_url("openai_chat")
            await run_loop(connect("openai_chat", model="m", base_url=base_url, client=client), history=QUESTION)
            assert not client.is_closed
        assert server.requests[0].headers["x-team"] == "a"


async def test_a_run_that_is_left_closes_its_client() -> None:
    with serve([Reply("Rain " * 100)]) as server:
        connection = connect("openai_chat", model="m", base_url=server.base_url("openai_chat"))
        async with run_loop(connection, history=QUESTION) as run:
            async for _ in run:
                client = connection._client
                break
    assert client is not None
    assert client.is_closed
    assert connection._client is None


async def test_retries_and_errors_are_those_of_the_run() -> None:
    with serve([Status(503, "later"), Reply("Rain.")]) as server:
        base_url = server.base_url("anthropic")
        run = await run_loop(connect("anthropic", model="m", base_url=base_url), history=QUESTION, retries=1)
    assert run.text == "Rain."
    with serve([Status(401, "no such key")]) as server:
        connection = connect("anthropic", model="m", api_key="secret-1", base_url=server.base_url("anthropic"))
        with pytest.raises(StreamInterrupted, match="no such key"):
            await run_loop(connection, history=QUESTION)
    assert "secret-1" not in repr(connection)


async def test_a_fallback_is_requested_with_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "key-2")
    with serve([Status(503, "down"), Reply("Rain.")]) as server:
        connection = connect("anthropic", model="m-1", api_key="key-1", base_url=server.base_url("anthropic"))
        other = Target("gemini", "m-2", server.base_url("gemini"))
        run = await run_loop(connection, history=QUESTION, retries=Retries(fallbacks=[other]))
        first, second = server.requests
    assert run.text == "Rain."
    assert (first.headers["x-api-key"], "x-goog-api-key" in first.headers) == ("key-1", False)
    assert second.headers["x-goog-api-key"] == "key-2"
    assert "/models/m-2:" in second.path
    assert "x-api-key" not in second.headers


@pytest.mark.parametrize("has_key", [False, True])
async def test_another_server_of_the_provider_does_not_get_the_key(
    monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    if has_key:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key-2")
    with serve([Status(503, "down")]) as first, serve([Reply("Rain.")]) as second:
        connection = connect("anthropic", model="m-1", api_key="key-1", base_url=first.base_url("anthropic"))
        other = Target("anthropic", "m-2", second.base_url("anthropic"))
        run = await run_loop(connection, history=QUESTION, retries=Retries(fallbacks=[other]))
        assert (run.text, len(first.requests)) == ("Rain.", 1)
        assert second.requests[0].headers.get("x-api-key") == ("key-2" if has_key else None)
        assert second.requests[0].json["model"] == "m-2"


def test_a_name_of_a_model_is_one_segment_of_the_path() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude"  # boto3 escapes both signs, too
    url = request_url(providers.get("bedrock_converse").traits.endpoint, arn, "https://bedrock")
    assert url == f"https://bedrock/model/{arn.replace(':', '%3A').replace('/', '%2F')}/converse-stream"


async def test_what_a_fallback_lacks_is_said() -> None:
    with serve([Status(503, "down")] * 2) as server:
        connection = connect("anthropic", model="m", base_url=server.base_url("anthropic"))
        for target, reason in (
            (Target("gemini"), "must name its model"),
            (Target("gemini", "m-2"), "there is no key for gemini: set the environment variable"),
        ):
            with pytest.raises(UsageError, match=reason):
                await run_loop(connection, history=QUESTION, retries=Retries(fallbacks=[target]))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"provider": "anthropic"}, "there is no key for anthropic: set the environment variable ANTHROPIC_API_KEY"),
        ({"provider": "anthropic", "api_key": "kéy"}, "the key in api_key has a character that no key has"),
        ({"provider": "anthropic", "api_key": "a\nb"}, "the key in api_key has a character that no key has"),
        ({"provider": "openai_compatible", "api_key": "k"}, "the provider has no usual address"),
        ({"provider": "anthropic", "api_key": "k", "base_url": "localhost:1"}, "must begin with http://"),
        ({"provider": "anthropic", "api_key": "k", "model": ""}, "model must be the provider's name of a model"),
        ({"provider": "anthropic", "api_key": "k", "settings": {"temprature": 1}}, "temprature"),
        ({"provider": "antropic", "api_key": "k"}, "anthropic"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        connect(**{"model": "m", **arguments})


async def test_a_connection_is_one_to_its_provider() -> None:
    with serve([Reply("Rain.")]) as server:
        connection = connect("anthropic", model="m", base_url=server.base_url("anthropic"))
        await run_loop(connection, provider="anthropic", history=QUESTION)
    with pytest.raises(UsageError, match="the connection has an endpoint: leave out endpoint="):
        run_loop(connection, endpoint="https://other", history=QUESTION)
    with pytest.raises(UsageError, match="the connection is one to anthropic, not to gemini"):
        run_loop(connection, provider="gemini", history=QUESTION)


def test_a_missing_httpx_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'streamkit-llm\[http\]'"):
        connect("anthropic", model="m", api_key="k")
