"""A run of three rounds over an upstream whose responses have state, and what its third request must have of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gateway.gateway_server import Target, serve_gateway

from streamkit import parse_request
from streamkit.history import ReasoningBlock, TextBlock, ToolCallBlock
from streamkit.testing import Call, Reasoning, Reply, Server, serve

SIGNATURES = ("c2lnbmF0dXJlLW9uZQ==", "c2lnbmF0dXJlLXR3bw==")
SCRIPT = [
    Reply(
        Reasoning("Two cities.", signature=SIGNATURES[0]),
        "Let me look.",
        Call("weather", {"city": "Oslo"}),
        Call("weather", {"city": "Bergen"}),
    ),
    Reply(Reasoning("Oslo again.", signature=SIGNATURES[1]), Call("weather", {"city": "Oslo"})),
    Reply("Cold."),
]
#: Each with a model whose responses have state.
UPSTREAMS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock_converse": "anthropic.claude-sonnet-4-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro-preview",
    "deepseek": "deepseek-reasoner",
}
FIRST = ["reasoning Two cities.", "text", "call", "call"]
BOTH = [*FIRST, "reasoning Oslo again.", "call"]


@contextmanager
def serve_upstream(provider: str, reports: list[Any] | None = None) -> Iterator[tuple[str, Server]]:
    """Yield the address of a gateway over an upstream that follows the script, and that upstream."""
    with serve(SCRIPT) as server:
        target = Target(provider, server.base_url(provider), models={"*": UPSTREAMS[provider]})
        with serve_gateway(target, reports=reports) as url:
            yield url, server


def state_of(server: Server, number: int, provider: str) -> list[str]:
    """Return the reasoning, texts and calls of a request, in the order in which the upstream gets them."""
    sent: Any = server.requests[number].json
    found: list[str] = []
    for content in parse_request(sent, provider, model="m", stream=True).contents:
        for block in content.blocks if content.speaker == "ai" else ():
            if isinstance(block, ReasoningBlock):
                found.append(f"reasoning {block.text}")
            elif isinstance(block, TextBlock):
                found.append("text")
            elif isinstance(block, ToolCallBlock):
                found.append("call")
    return found


def check_third_request(server: Server, provider: str) -> None:
    """Check that the third request has the state of the two responses before it, each where it was, and once."""
    assert [request.status for request in server.requests] == [200] * 3
    sent = json.dumps(server.requests[2].json)
    if provider == "gemini":  # thoughts are not sent back; the first call of each response is signed
        assert state_of(server, 2, provider) == ["text", "call", "call", "call"]
        parts = [part for content in json.loads(sent)["contents"] for part in content["parts"]]
        signatures = [part.get("thoughtSignature") for part in parts if "functionCall" in part]
        assert [bool(each) for each in signatures] == [True, False, True]
        assert signatures[0] != signatures[2]
        assert "skip_thought_signature_validator" not in signatures
    else:
        assert state_of(server, 2, provider) == BOTH
        if provider != "deepseek":
            assert [sent.count(each) for each in SIGNATURES] == [1, 1]
