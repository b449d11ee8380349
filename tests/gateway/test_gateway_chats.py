"""Gemini clients that keep each chunk of a response as a content of its own, as the chats of Google's SDKs do."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from gateway.gateway_clients import CLIENTS, Json
from gateway.gateway_server import Target, serve_gateway

from streamkit import parse_request
from streamkit.gateway import Exchange
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.testing import Call, Reasoning, Reply, serve

SIGNATURE = "c2lnbmF0dXJlLW9mLXRoZS11cHN0cmVhbQ=="
SCRIPT = [
    Reply(
        Reasoning("Let me think about both.", signature=SIGNATURE),
        "Let me look at both of them.",
        Call("weather", {"city": "Oslo"}),
        Call("weather", {"city": "Bergen"}),
    ),
    Reply("Cold."),
]


def contents_of(data: bytes) -> list[Json]:
    """Return the content of each chunk."""
    chunks = [json.loads(line[5:]) for line in data.splitlines() if line.startswith(b"data:")]
    return [chunk["candidates"][0]["content"] for chunk in chunks if "content" in chunk["candidates"][0]]


def answer(contents: list[Json]) -> Json:
    calls = [part["functionCall"] for content in contents for part in content["parts"] if "functionCall" in part]
    results = [{"id": call["id"], "name": call["name"], "response": {"output": call["args"]["city"]}} for call in calls]
    return {"role": "user", "parts": [{"functionResponse": result} for result in results]}


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses", "deepseek", "gemini"])
def test_the_chunks_of_a_response_come_back_as_one_turn(provider: str) -> None:
    path, body = CLIENTS["gemini"]
    body = {**body, "generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000}}}
    reports: list[Exchange] = []
    with serve(SCRIPT, delta_size=5) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target, reports=reports) as url:
            contents = contents_of(httpx.post(url + path, json=body).content)
            assert len(contents) > 8
            again = {**body, "contents": [*body["contents"], *contents, answer(contents)]}
            assert httpx.post(url + path, json=again).status_code == 200
    sent: Any = server.requests[1].json
    (turn,) = [each for each in parse_request(sent, provider, stream=True).contents if each.speaker == "ai"]
    reasoning = [block.text for block in turn.blocks if isinstance(block, ReasoningBlock) and block.text]
    assert reasoning == ([] if provider == "gemini" else ["Let me think about both."])  # only signed ones go back there
    assert [block.text for block in turn.blocks if isinstance(block, TextBlock)] == ["Let me look at both of them."]
    assert len([block for block in turn.blocks if isinstance(block, ToolCallBlock)]) == 2
    assert json.dumps(sent).count(SIGNATURE) == (provider in ("anthropic", "openai_responses"))
    lost = [change for change in reports[1].changes if "reasoning of" in change or "moved" in change]
    assert lost == []
