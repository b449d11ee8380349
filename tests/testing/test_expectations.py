"""Scripts that check the request: an ``Expect`` before the turn of that request."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from smallest_requests import smallest_request

from streamkit import Content, providers
from streamkit.errors import UsageError
from streamkit.testing import Call, Expect, Reply, Server, serve
from streamkit.tools import ToolDefinition

WIRES = ["anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "gemini", "ollama", "openai_chat"]
WIRES += ["openai_responses"]
TOOLS = [
    ToolDefinition(name=name, description="A tool.", parameters={"type": "object", "properties": {}})
    for name in ("get_weather", "get_time")
]
SCRIPT = [
    Expect(tools=["get_time", "get_weather"], text="Weather in Oslo"),
    Reply(Call("get_weather", {"city": "Oslo"})),
    Expect(text="4 degrees"),
    Reply("Take a coat."),
]


def ask(server: Server, name: str, contents: list[Content], tools: list[Any]) -> httpx.Response:
    body = providers.render_request(contents, name, model="m", tools=tools)
    path = providers.get(name).traits.endpoint.path.format(model="m")
    return httpx.post(server.base_url(name) + path, json=dict(body))


def result(text: str) -> list[Content]:
    from streamkit.history import ToolCallBlock, ToolResponseBlock

    call = ToolCallBlock(id="c1", name="get_weather", parameters={"city": "Oslo"})
    return [
        Content.human("Weather in Oslo?"),
        Content(speaker="ai", blocks=[call]),
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c1", name="get_weather", result=text)]),
    ]


@pytest.mark.parametrize("name", WIRES)
def test_a_request_with_what_is_expected_gets_its_turn(name: str) -> None:
    with serve(SCRIPT, strict=False) as server:
        first = ask(server, name, [Content.human("Weather in Oslo?")], TOOLS)
        second = ask(server, name, result("4 degrees"), TOOLS)
    assert [first.status_code, second.status_code] == [200, 200]


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize(
    ("text", "tools", "sentence"),
    [
        ("Weather in Oslo?", TOOLS[:1], r"the tools \['get_time', 'get_weather'\], and the request offers"),
        ("Weather in Bergen?", TOOLS, "the script expects the text 'Weather in Oslo'"),
    ],
)
def test_another_request_is_refused_and_fails_the_test(name: str, text: str, tools: list[Any], sentence: str) -> None:
    with pytest.raises(AssertionError, match=rf"request 1: .*{sentence}"), serve(SCRIPT, strict=False) as server:
        response = ask(server, name, [Content.human(text)], tools)
    assert response.status_code == 400
    assert response.headers["x-should-retry"] == "false"
    assert "the script expects" in response.text


def test_a_text_before_the_models_last_content_is_not_new() -> None:
    script = [Expect(text="Weather in Oslo"), Reply("4 degrees.")]
    with pytest.raises(AssertionError, match="what is new"), serve(script, strict=False) as server:
        ask(server, "openai_chat", result("4 degrees"), [])


def test_an_exception_of_the_block_is_not_replaced() -> None:
    with pytest.raises(httpx.HTTPStatusError), serve(SCRIPT) as server:
        ask(server, "openai_chat", [Content.human("No.")], []).raise_for_status()


@pytest.mark.anyio
async def test_the_end_of_an_asynchronous_block_checks_too() -> None:
    with pytest.raises(AssertionError, match="request 1"):
        async with serve(SCRIPT) as server, httpx.AsyncClient() as client:
            await client.post(server.base_url("anthropic") + "/v1/messages", json=smallest_request("anthropic"))


def test_a_body_that_cannot_be_read_is_not_what_is_expected() -> None:
    with pytest.raises(AssertionError, match="the request cannot be read"), serve(SCRIPT, strict=False) as server:
        httpx.post(server.base_url("openai_chat") + "/chat/completions", json={"messages": "none"})


def test_an_expectation_without_a_turn_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="the turn of that request follows it"):
        serve([Reply("one"), Expect(text="two")])
