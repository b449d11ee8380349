"""The official SDKs as clients of the gateway, while its upstream is silent, and as they report refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bridges.gateway_server import Target, serve_gateway
from sdk_clients import bedrock, sdk_of
from sdk_conversation import CALLS, from_objects

from streamkit import providers
from streamkit.bridges.gateway import GatewayLimits
from streamkit.bridges.gateway.routes import CLIENTS
from streamkit.testing import Call, Reply, Script, Stall, Status, serve

TEXT = "Let me look at both: Oslo & Tromsø."
#: SDKs that raise their own error for a refused request; the others' are covered by the tests of bodies.
REFUSED = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse")


@contextmanager
def chunks_of(client: str, script: Script, silence: float | None = None) -> Iterator[Any]:
    """Yield what the SDK of a client's wire yields for a stream of the gateway."""
    limits = GatewayLimits(silence=silence)
    with serve(script) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with serve_gateway(target, limits=limits) as url:
            base = url + providers.get(client).traits.endpoint.sdk_base_path
            if client == "bedrock_invoke":  # its SDK takes a body
                body = {
                    "anthropic_version": "bedrock-2023-05-31",
                    "max_tokens": 9,
                    "messages": [{"role": "user", "content": "hi"}],
                }
                with bedrock(base) as boto3:
                    yield boto3.invoke_model_with_response_stream(modelId="m", body=json.dumps(body))["body"]
            else:
                with sdk_of(client)(base) as ask:
                    yield ask("m")


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_an_sdk_reads_a_stream_with_heartbeats(client: str) -> None:
    calls = [Call(name, arguments) for name, arguments in CALLS]
    script = [Reply(Stall(0.15), TEXT[:10], Stall(0.15), TEXT[10:], Stall(0.15), *calls)]
    with chunks_of(client, script, silence=0.03) as chunks:
        turn = from_objects(client, chunks)
    assert (turn.text, turn.error) == (TEXT, None)
    assert [(call.name, call.arguments, call.state) for call in turn.calls] == [(*call, "complete") for call in CALLS]


@pytest.mark.parametrize("client", REFUSED)
def test_an_sdk_raises_its_own_error_for_a_refusal(client: str) -> None:
    with pytest.raises(Exception, match="slow down") as raised, chunks_of(client, [Status(429, "slow down")]) as chunks:
        list(chunks)
    names = {type(raised.value).__name__, str(getattr(raised.value, "response", {}))}
    assert any("RateLimit" in name or "ClientError" in name or "Throttling" in name for name in names)


def test_sdks_find_the_id_of_a_response() -> None:
    import anthropic
    import openai

    with serve(["Hello."] * 2) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "scripted"})
        with (
            serve_gateway(target) as url,
            anthropic.Anthropic(base_url=url, api_key="k") as first,
            openai.OpenAI(base_url=f"{url}/v1", api_key="k") as second,
        ):
            question: Any = [{"role": "user", "content": "hi"}]
            found = [
                first.messages.create(model="m", max_tokens=9, messages=question)._request_id,
                second.chat.completions.create(model="m", messages=question)._request_id,
            ]
    assert [str(each)[:4] for each in found] == ["req_", "req_"]
