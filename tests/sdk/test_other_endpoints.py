"""The official SDKs list models, count tokens, are refused embeddings and wrong keys, by the embedded server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from sdk_clients import SDKS, bedrock, sdk_of

from streamkit import providers
from streamkit.reading.turn import Turn
from streamkit.testing import serve

MODELS = ["gpt-5", "org/qwen3:8b"]
QUESTION: list[Any] = [{"role": "user", "content": "Weather?"}]


def test_openai() -> None:
    import openai

    with (
        serve("hi", models=MODELS) as server,
        openai.OpenAI(base_url=server.base_url("openai_chat"), api_key="k") as client,
    ):
        assert [model.id for model in client.models.list()] == MODELS
        assert client.models.retrieve("gpt-5").object == "model"
        with pytest.raises(openai.NotFoundError, match="there is no model 'absent'"):
            client.models.retrieve("absent")
        with pytest.raises(openai.NotFoundError, match="embeds nothing"):
            client.embeddings.create(model="gpt-5", input="text")
        with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-6'") as refused:
            client.chat.completions.create(model="gpt-6", messages=QUESTION)
        assert refused.value.code == "model_not_found"
        assert client.chat.completions.create(model="gpt-5", messages=QUESTION).choices[0].message.content == "hi"


def test_openai_responses() -> None:
    import openai

    with serve("hi") as server, openai.OpenAI(base_url=server.base_url("openai_responses"), api_key="k") as client:
        counts = [
            client.responses.input_tokens.count(model="m", input=text) for text in ("Weather?", "Weather? " * 100)
        ]
        assert counts[0].object == "response.input_tokens"
        assert 0 < counts[0].input_tokens < counts[1].input_tokens
        assert [model.id for model in client.models.list()] == ["scripted"]
        assert client.responses.create(model="m", input="Weather?").output_text == "hi"  # a count takes no turn
    assert [request.number for request in server.requests] == [-1, -1, -1, 0]


def test_anthropic() -> None:
    import anthropic

    with (
        serve("hi", models=MODELS) as server,
        anthropic.Anthropic(base_url=server.base_url("anthropic"), api_key="k") as client,
    ):
        assert [model.id for model in client.models.list()] == MODELS
        assert client.models.retrieve("gpt-5").type == "model"
        counted = client.messages.count_tokens(model="gpt-5", messages=QUESTION)
        assert counted.input_tokens > 0
        with pytest.raises(anthropic.NotFoundError, match="there is no model 'absent'"):
            client.messages.create(model="absent", max_tokens=9, messages=QUESTION)
        assert client.messages.create(model="gpt-5", max_tokens=9, messages=QUESTION).usage.input_tokens > 0


def test_google_genai() -> None:
    from google import genai

    with (
        serve("hi", models=["gemini-2.5-flash"]) as server,
        genai.Client(api_key="k", http_options={"base_url": server.base_url("gemini")}) as client,
    ):
        assert [model.name for model in client.models.list()] == ["models/gemini-2.5-flash"]
        assert client.models.get(model="gemini-2.5-flash").name == "models/gemini-2.5-flash"
        assert (client.models.count_tokens(model="gemini-2.5-flash", contents="Weather?").total_tokens or 0) > 0
        with pytest.raises(genai.errors.ClientError, match="embeds nothing"):
            client.models.embed_content(model="gemini-2.5-flash", contents="text")


def test_mistralai() -> None:
    from mistralai.client import Mistral

    with (
        serve("hi", models=MODELS) as server,
        Mistral(server_url=server.base_url("mistral").removesuffix("/v1"), api_key="k") as client,
    ):
        listed: Any = client.models.list().data
        assert [(model.id, model.capabilities.function_calling) for model in listed] == [
            ("gpt-5", True),
            (MODELS[1], True),
        ]


def test_cohere() -> None:
    import cohere

    with serve("hi", models=MODELS) as server, httpx.Client() as http:
        client = cohere.ClientV2(base_url=server.base_url("cohere"), api_key="k", httpx_client=http)
        assert [model.name for model in client.models.list().models] == MODELS
        with pytest.raises(cohere.NotFoundError, match="embeds nothing"):
            client.embed(model="m", input_type="classification", texts=["text"])


def test_ollama() -> None:
    import ollama

    with serve("hi", models=MODELS) as server, ollama.Client(host=server.base_url("ollama")) as client:
        assert [model.model for model in client.list().models] == MODELS
        with pytest.raises(ollama.ResponseError, match="embeds nothing"):
            client.embed(model="gpt-5", input="text")


def test_every_provider_lists_its_models() -> None:
    for name in providers.names():
        endpoint = providers.get(name).traits.endpoint
        with serve("hi", models=MODELS) as server:
            response = httpx.get(server.base_url(name) + (endpoint.models_path or "/models"))
        if endpoint.models_path is None:
            assert response.status_code == 404
        else:
            entries = response.json()[endpoint.models_field]
            assert [str(entry.get("id", entry.get("name"))).removeprefix("models/") for entry in entries] == MODELS


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize("name", [*SDKS, "openai_chat"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of an SDK that is refused
def test_another_key_is_refused_in_the_words_of_the_wire(name: str) -> None:
    """The clients of ``sdk_clients`` have the key ``k``; Ollama's sends none."""
    for key, is_accepted in (("k", name != "ollama"), ("another", False)):
        with serve("hi", key=key, strict=False) as server:
            url = server.base_url(name)
            with sdk_of(name)(url.removesuffix("/v1") if name in ("mistral", "groq") else url) as ask:
                if is_accepted:
                    assert list(ask("vendor.m"))
                else:
                    with pytest.raises(Exception, match="the key is missing or is not the key of this server"):
                        list(ask("vendor.m"))
        assert {request.status for request in server.requests} == {200 if is_accepted else 401}


@pytest.mark.parametrize("name", providers.names())
def test_a_request_without_a_key_is_read_as_a_refused_key(name: str) -> None:
    with serve("hi", key="k") as server:
        response = httpx.post(server.base_url(name) + "/anything", json={})
    assert response.status_code == 401
    turn = Turn(name)
    turn.response(response.status_code, response.headers)
    turn.feed(response.content)
    turn.close()
    assert turn.error is not None
    assert turn.error.code == "unauthorized"


def test_the_keys_of_google_in_the_query_and_of_amazon_in_a_signature_are_read() -> None:
    with serve(["hi", "hi"], key="k", strict=False) as server:
        url = f"{server.base_url('gemini')}/v1beta/models/m:generateContent"
        assert httpx.post(url, params={"key": "k"}, json={}).status_code == 200
        assert httpx.post(url, params={"key": "other"}, json={}).status_code == 401
        with bedrock(server.base_url("bedrock_converse")) as client:  # its access key is "k"
            answered = client.converse(modelId="vendor.m", messages=[{"role": "user", "content": [{"text": "?"}]}])
    assert answered["output"]["message"]["content"] == [{"text": "hi"}]
