"""An output format that the upstream's model has no field for: by a tool, and text for the client again."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from gateway.gateway_server import Target, serve_gateway
from pydantic import BaseModel

from streamkit import Turn
from streamkit.calls import OUTPUT_TOOL
from streamkit.gateway import Exchange
from streamkit.testing import Call, Reply, serve

Json = dict[str, Any]
SCHEMA: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "note": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OUTPUT = {"city": "Oslo \u2603", "note": "x" * 100}
MESSAGES = [{"role": "user", "content": "Where?"}]
FORMATS: dict[str, Json] = {
    "schema": {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA, "strict": True}},
    "json": {"type": "json_object"},
}
#: Upstreams whose models have no field: an older Claude, DeepSeek; of JSON without a schema every Claude.
UPSTREAMS = [
    ("anthropic", "claude-3-5-sonnet-20241022", "schema"),
    ("anthropic", "claude-sonnet-4-6", "json"),
    ("bedrock_converse", "anthropic.claude-3-5-sonnet-20241022-v2:0", "schema"),
    ("bedrock_converse", "us.anthropic.claude-sonnet-4-6-v1", "json"),
    ("deepseek", "deepseek-chat", "schema"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("provider", "model", "form"), UPSTREAMS)
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
def test_the_output_is_text_for_the_client(client: str, provider: str, model: str, form: str, stream: bool) -> None:
    if client == "openai_chat" and provider == "deepseek":
        pytest.skip("a client of this wire is read in the dialect of its upstream")
    reports: list[Exchange] = []
    body: Json = {"model": model, "stream": stream}
    if client == "openai_chat":
        body |= {"messages": MESSAGES, "response_format": FORMATS[form]}
    else:
        text = {"type": "json_object"}
        if form == "schema":
            text = {"type": "json_schema", **FORMATS[form]["json_schema"]}
        body |= {"input": MESSAGES, "text": {"format": text}, "store": False}
    path = "/v1/chat/completions" if client == "openai_chat" else "/v1/responses"
    with serve([Reply(Call(OUTPUT_TOOL, OUTPUT))]) as server:
        with serve_gateway(Target(provider, server.base_url(provider)), reports=reports) as url:
            response = httpx.post(url + path, json=body)
        asked = json.dumps(server.requests[0].json)
    assert response.status_code == 200, response.text
    turn = Turn(client)
    turn.feed(response.content)
    turn.close()
    assert json.loads(turn.text) == OUTPUT
    assert [call.name for call in turn.calls] == []
    assert (turn.finish.reason if turn.finish else None, turn.error) == ("stop", None)
    assert OUTPUT_TOOL in asked
    [change] = [change for change in reports[0].changes if "output" in change]
    assert change.startswith("the output is requested as the arguments of a tool: ")


class Place(BaseModel):
    """A place."""

    city: str
    note: str


@pytest.mark.parametrize("stream", [False, True])
def test_parse_of_the_sdk_returns_the_output(stream: bool) -> None:
    script = [Reply(Call(OUTPUT_TOOL, OUTPUT))]
    with serve(script) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        client = openai.OpenAI(base_url=url + "/v1", api_key="k")
        question: Any = {"model": "claude-3-5-sonnet-20241022", "messages": MESSAGES, "response_format": Place}
        if stream:
            with client.chat.completions.stream(**question) as events:
                parsed = events.get_final_completion().choices[0].message.parsed
        else:
            parsed = client.chat.completions.parse(**question).choices[0].message.parsed
    assert parsed == Place(**OUTPUT)


def test_calls_of_the_clients_tools_stay_calls_beside_the_output() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    body = {
        "model": "claude-3-5-sonnet-20241022",
        "messages": MESSAGES,
        "response_format": FORMATS["schema"],
        "tools": [tool],
    }
    with serve([Reply(Call("look", {})), Reply(Call(OUTPUT_TOOL, OUTPUT))]) as server:
        with serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
            first = httpx.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]
            result = {"role": "tool", "tool_call_id": first["message"]["tool_calls"][0]["id"], "content": "Oslo"}
            messages = [*MESSAGES, first["message"], result]
            second = httpx.post(f"{url}/v1/chat/completions", json={**body, "messages": messages}).json()["choices"][0]
        assert [request.json["tool_choice"] for request in server.requests] == [{"type": "any"}] * 2
    assert (first["finish_reason"], first["message"]["tool_calls"][0]["function"]["name"]) == ("tool_calls", "look")
    assert (second["finish_reason"], json.loads(second["message"]["content"])) == ("stop", OUTPUT)
    assert "tool_calls" not in second["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_output_that_is_no_object_is_unwrapped(stream: bool) -> None:
    body = {
        "model": "claude-3-5-sonnet-20241022",
        "messages": MESSAGES,
        "format": {"type": "array", "items": {"type": "integer"}},
        "stream": stream,
    }
    script = [Reply(Call(OUTPUT_TOOL, {OUTPUT_TOOL: [1, 2]}))]
    with serve(script) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        response = httpx.post(f"{url}/api/chat", json=body)
    turn = Turn("ollama")
    turn.feed(response.content)
    turn.close()
    assert json.loads(turn.text) == [1, 2]


def test_a_model_with_a_field_gets_no_tool() -> None:
    body = {"model": "claude-sonnet-4-6", "messages": MESSAGES, "response_format": FORMATS["schema"]}
    with serve([Reply(json.dumps(OUTPUT))]) as server:
        with serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
            response = httpx.post(f"{url}/v1/chat/completions", json=body).json()
        assert "tools" not in server.requests[0].json
    assert json.loads(response["choices"][0]["message"]["content"]) == OUTPUT


def test_the_text_of_an_output_arrives_as_it_grows() -> None:
    body = {
        "model": "claude-3-5-sonnet-20241022",
        "messages": MESSAGES,
        "response_format": FORMATS["schema"],
        "stream": True,
    }
    script = [Reply(Call(OUTPUT_TOOL, OUTPUT))]
    with serve(script) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        response = httpx.post(f"{url}/v1/chat/completions", json=body)
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"].get("content") for chunk in chunks if chunk["choices"]]
    assert len([delta for delta in deltas if delta]) > 3
