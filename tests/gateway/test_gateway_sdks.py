"""The official SDKs as clients of the gateway, while its upstream is silent, and as they report refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from gateway.gateway_server import Target, serve_gateway
from sdk_clients import bedrock, sdk_of
from sdk_conversation import CALLS, from_objects

from streamkit import providers
from streamkit.gateway import GatewayLimits
from streamkit.gateway.routes import CLIENTS
from streamkit.history import ReasoningBlock, ToolResponseBlock
from streamkit.testing import Call, ErrorEvent, Reasoning, Reply, Script, Stall, Status, serve

TEXT = "Let me look at both: Oslo & Tromsø."
#: SDKs that raise their own error for a refused request; the others' are covered by the tests of bodies.
REFUSED = ("anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse")


@contextmanager
def asking(client: str, script: Script, limits: GatewayLimits | None = None) -> Iterator[Callable[[], Iterable[Any]]]:
    """Yield what asks with the SDK of a client's wire, and gives what the SDK yields for a stream of the gateway."""
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
                    yield lambda: boto3.invoke_model_with_response_stream(modelId="m", body=json.dumps(body))["body"]
            else:
                with sdk_of(client)(base) as ask:
                    yield lambda: ask("m")


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_an_sdk_reads_a_stream_with_heartbeats(client: str) -> None:
    calls = [Call(name, arguments) for name, arguments in CALLS]
    script = [Reply(Stall(0.15), TEXT[:10], Stall(0.15), TEXT[10:], Stall(0.15), *calls)]
    with asking(client, script, GatewayLimits(silence=0.03)) as ask:
        turn = from_objects(client, ask())
    assert (turn.text, turn.error) == (TEXT, None)
    assert [(call.name, call.arguments, call.state) for call in turn.calls] == [(*call, "complete") for call in CALLS]


@pytest.mark.parametrize("client", REFUSED)
def test_an_sdk_raises_its_own_error_for_a_refusal(client: str) -> None:
    with asking(client, [Status(429, "slow down")]) as ask, pytest.raises(Exception, match="slow down") as raised:
        list(ask())
    names = {type(raised.value).__name__, str(getattr(raised.value, "response", {}))}
    assert any("RateLimit" in name or "ClientError" in name or "Throttling" in name for name in names)


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_an_sdk_raises_an_exception_for_a_failure_in_the_stream(client: str) -> None:
    script = [Reply("Half a sen", ErrorEvent(Status(529, "too busy")))]
    with asking(client, script) as ask, pytest.raises(Exception, match="too busy"):
        list(ask())


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses", "openrouter"])
def test_openais_sdk_joins_the_chunks_of_several_signed_blocks(provider: str) -> None:
    """It merges entries of lists by their ``index``, and refuses further ones without it (``accumulate_delta``)."""
    import openai

    signatures, thoughts = ("Zmlyc3Q=", "c2Vjb25k"), ("First I look.", "Then I look again.")
    signed: list[Any] = [Reasoning(text, signature) for text, signature in zip(thoughts, signatures, strict=True)]
    if provider == "openrouter":
        details = [
            {"type": "reasoning.text", "text": each.text, "signature": each.signature, "index": index}
            for index, each in enumerate(signed)
        ]
        signed = [
            ReasoningBlock(text=each["text"], metadata={"provider": provider, "reasoning_details": [each]})
            for each in details
        ]
    script = [Reply(signed[0], TEXT, signed[1], Call("look", {"city": "Oslo"})), "Done."]
    parameters = {"type": "object", "properties": {}}
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": parameters}}]
    with serve(script) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
            thread: list[Any] = [{"role": "user", "content": "hi"}]
            with client.chat.completions.stream(model="m", messages=thread, tools=tools) as stream:
                message: Any = stream.get_final_completion().choices[0].message.to_dict()
            (call,) = message["tool_calls"]
            thread += [message, {"role": "tool", "tool_call_id": call["id"], "content": "rain"}]
            client.chat.completions.create(model="m", messages=thread, tools=tools)
        sent = json.dumps(server.requests[1].json)
    assert message["role"] == "assistant"
    assert [sent.count(each) for each in signatures] == [1, 1]


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_mistrals_sdk_reads_calls_and_sends_signed_reasoning_back(provider: str, streams: bool) -> None:
    """Its classes need the name of a call in each delta of the call, and have reasoning in parts alone."""
    from mistralai.client import Mistral

    name, arguments = CALLS[0]
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}]
    question: Any = [{"role": "user", "content": "hi"}]
    script = [Reply(Reasoning("A tool it is.", signature="c2lnbmVk"), TEXT, Call(name, arguments)), "Done."]
    with serve(script) as server:
        target = Target(provider, server.base_url(provider), models={"*": "scripted"})
        with serve_gateway(target) as url, Mistral(server_url=url, api_key="k") as client:
            if streams:
                deltas = [event.data.choices[0].delta for event in client.chat.stream(model="m", messages=question)]
            else:
                deltas = [client.chat.complete(model="m", messages=question).choices[0].message]
            said, calls, sent_back = _mistral_message([delta.model_dump(exclude_unset=True) for delta in deltas])
            result = {"role": "tool", "tool_call_id": calls[0]["id"], "name": name, "content": "rain"}
            client.chat.complete(model="m", messages=[*question, sent_back, result], tools=tools)
        asked = providers.parse_request(server.requests[1].json, provider)
    assert said == TEXT
    assert [call["function"]["name"] for call in calls] == [name]
    assert json.loads(calls[0]["function"]["arguments"]) == arguments
    blocks = [block for content in asked.contents for block in content.blocks]
    (reasoning,) = [block for block in blocks if isinstance(block, ReasoningBlock)]
    assert "c2lnbmVk" in str(reasoning)
    (answer,) = [block for block in blocks if isinstance(block, ToolResponseBlock)]
    assert answer.result == "rain"


def _mistral_message(deltas: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]], Any]:
    """Return the text and the calls of a response, and the message with which it goes back."""
    said, thought, signature, calls = "", "", {}, []
    for delta in deltas:
        content = delta.get("content") or []
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "thinking":
                thought += "".join(text["text"] for text in part["thinking"])
                signature |= {field: part[field] for field in ("signature",) if field in part}
            else:
                said += part["text"]
        calls += delta.get("tool_calls") or []
    reasoning = {"type": "thinking", "thinking": [{"type": "text", "text": thought}], **signature}
    content = [reasoning, {"type": "text", "text": said}]
    return said, calls, {"role": "assistant", "content": content, "tool_calls": calls}


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
