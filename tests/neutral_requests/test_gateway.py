"""A conversation through a translating server: each client wire in front of each upstream wire, there and back.

The client's body is read and written for the upstream, the upstream's stream is fed to a turn, its events are written
in the client's form, and the client's next request has the upstream's opaque state for the upstream again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from carried_states import SETTINGS

from streamkit import Content, Turn, parse_request, render_request, writer
from streamkit.calls import CallRef, ToolCall
from streamkit.events import (
    BlockEnded,
    Event,
    Finished,
    Reasoning,
    ResponseStarted,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.gateway.translation.call_restorer import CallRestorer
from streamkit.gateway.translation.opaque_state import StateCarrier
from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.history import ReasoningBlock, ToolResponseBlock
from streamkit.ids import canonical_tool_id
from streamkit.providers import get
from streamkit.providers.contract.rendered import is_wrapped_state
from streamkit.providers.requests.request import Request

Json = dict[str, Any]

ENDPOINT = "https://upstream.example.com/v1"
QUESTION = "Weather in Oslo and Rome?"
REASONING = "Two cities,\nthen the \u201cpatch\u201d."
ANSWER = "I look."
PATCH = '*** Begin Patch\n+say "h\u00e9 \U0001f600"\n*** End Patch'
CITIES = ("Oslo", "Rome")
CITY: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
INPUT: Json = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}

#: What each client asks: a function, and a custom tool where its wire has these, else a function with one text.
CLIENTS: dict[str, Json] = {
    "openai_chat": {
        "model": "m",
        "stream": True,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [
            {"type": "function", "function": {"name": "weather", "parameters": CITY}},
            {"type": "custom", "custom": {"name": "patch"}},
        ],
    },
    "openai_responses": {
        "model": "m",
        "stream": True,
        "input": [{"role": "user", "content": QUESTION}],
        "tools": [
            {"type": "namespace", "name": "world", "description": "The world", "tools": [
                {"type": "function", "name": "weather", "parameters": CITY, "strict": False}]},
            {"type": "custom", "name": "patch"},
        ],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"name": "weather", "input_schema": CITY}, {"name": "patch", "input_schema": INPUT}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        "tools": [
            {"functionDeclarations": [
                {"name": "weather", "parametersJsonSchema": CITY},
                {"name": "patch", "parametersJsonSchema": INPUT},
            ]},
        ],
    },
}  # fmt: skip
CUSTOM_CLIENTS = ("openai_chat", "openai_responses")
#: Chat Completions of OpenAI itself has no field for the text of reasoning.
WITHOUT_REASONING = ("openai_chat",)


@dataclass(frozen=True)
class Upstream:
    """A provider behind the server, with the opaque state of its response."""

    model: str
    reasoning: BlockEnded
    call_state: Json


#: The signature follows the text, in a detail of its own, as OpenRouter streams it.
_DETAIL: Json = {"type": "reasoning.text", "signature": "b3I=", "format": "anthropic-claude-v1", "index": 0}
UPSTREAMS = {
    # of the servers of Chat Completions, one that signs reasoning
    "openrouter": Upstream(
        "anthropic/claude-sonnet-4.5", BlockEnded("reasoning", metadata={"reasoning_details": [_DETAIL]}), {}
    ),
    "openai_responses": Upstream("gpt-5", BlockEnded("reasoning", signature="gAAAAABo=="), {}),
    "anthropic": Upstream("claude-sonnet-4-5", BlockEnded("reasoning", signature="EqQBCg==/+"), {}),
    "gemini": Upstream("gemini-3-pro-preview", BlockEnded("reasoning"), {"thoughtSignature": "Q2lnbmVk"}),
}
SECRETS = {"openrouter": "b3I=", "openai_responses": "gAAAAABo==", "anthropic": "EqQBCg==/+", "gemini": "Q2lnbmVk"}


def call_events(index: int, name: str, kind: Any, text: str, metadata: Json) -> list[Event]:
    """Return the events of a call, its arguments in two deltas."""
    ref = CallRef(canonical_tool_id(turn_key="upstream", call_index=index), name, index, kind)
    arguments = text if kind == "custom" else json.loads(text)
    ready = ToolCall(
        id=ref.id, name=name, index=index, kind=kind, arguments_text=text, arguments=arguments, state="complete",
        metadata=metadata,
    )  # fmt: skip
    deltas: list[Event] = [ToolCallDelta(ref, text[:7]), ToolCallDelta(ref, text[7:])]
    return [ToolCallStart(ref), *deltas, ToolCallEnd(ref), ToolCallReady(ready)]


def upstream_bytes(name: str, *, is_custom: bool) -> list[bytes]:
    """Return the frames of a response with reasoning, text, two parallel calls and one of the custom tool."""
    upstream = UPSTREAMS[name]
    kind = "custom" if is_custom and get(name).traits.custom_calls else "function"
    patch = PATCH if kind == "custom" else json.dumps({"input": PATCH})
    calls = [("weather", "function", json.dumps({"city": city})) for city in CITIES] + [("patch", kind, patch)]
    events: list[Event] = [
        ResponseStarted("resp_1", upstream.model), Reasoning(REASONING[:5]), Reasoning(REASONING[5:]),
        upstream.reasoning, Text(ANSWER), BlockEnded("text"),
    ]  # fmt: skip
    for index, (tool, call_kind, text) in enumerate(calls):
        events += call_events(index, tool, call_kind, text, upstream.call_state if index == 0 else {})
    live = writer(name)
    return [*map(live.write, [*events, Finished("tool_calls")]), live.close()]


@dataclass(frozen=True)
class Round:
    """The upstream's turn, and what became of it at the client."""

    upstream: Turn
    client: Turn
    next_body: Json


def run_round(client: str, name: str) -> Round:
    """Return one round: request, response, and the client's next request with the results of its tools."""
    body = CLIENTS[client]
    request = parse_request(body, client)
    written = render_request(request, name, settings={"model": UPSTREAMS[name].model}, endpoint=ENDPOINT)
    assert QUESTION in str(written)
    upstream = Turn(name, turn_key="up", endpoint=ENDPOINT)
    restorer = CallRestorer(request, name)
    carrier = StateCarrier(client, {"provider": name, "endpoint": ENDPOINT, "model": UPSTREAMS[name].model}, SETTINGS)
    live = writer(client, response_id="resp_client", model="m")
    parts: list[bytes] = []
    for data in upstream_bytes(name, is_custom=client in CUSTOM_CLIENTS):
        restored = [event for found in upstream.feed(data) for event in restorer.restore(found)]
        parts += map(live.write, carrier.carry(restored))
    closing = [event for found in upstream.close() for event in restorer.restore(found)]
    parts += [*map(live.write, carrier.carry(closing)), live.close()]
    upstream.raise_for_error()
    turn = Turn(client, turn_key="client")
    turn.feed(b"".join(parts))
    turn.close()
    turn.raise_for_error()
    return Round(upstream, turn, next_body(client, request, turn))


def next_body(client: str, request: Request, turn: Turn) -> Json:
    """Return the client's next request: its conversation in its own form, as its program renders it."""
    choice = turn.choices[0]
    results = [
        ToolResponseBlock(call_id=call.id, result=f"result {call.index}", name=call.name) for call in choice.calls
    ]
    contents = [*request.contents, choice.content, Content(speaker="tool", blocks=results)]
    rendered = render_request(request.model_copy(update={"contents": contents}), client)
    return json.loads(json.dumps(rendered))


def upstream_request(body: Json, client: str, name: str, **options: Any) -> tuple[str, list[Content]]:
    """Return what the upstream gets for a client's body, as JSON text, and the restored conversation."""
    request = parse_request(body, client)
    restored = request.model_copy(update={"contents": restore_state(request.contents, SETTINGS)})
    options = {"endpoint": ENDPOINT, **options}
    written = render_request(restored, name, settings={"model": UPSTREAMS[name].model}, **options)
    return json.dumps(written, ensure_ascii=False), restored.contents


MATRIX = [pytest.param(client, name, id=f"{client}-{name}") for client in CLIENTS for name in UPSTREAMS]


@pytest.mark.parametrize(("client", "name"), MATRIX)
def test_the_client_gets_the_same_response(client: str, name: str) -> None:
    choice = run_round(client, name).client.choices[0]
    assert choice.text == ANSWER
    assert choice.reasoning == ("" if client in WITHOUT_REASONING else REASONING)
    *weather, patch = choice.calls
    assert [(call.name, call.arguments) for call in weather] == [("weather", {"city": city}) for city in CITIES]
    assert patch.name == "patch"
    assert (patch.kind, patch.arguments) == (
        ("custom", PATCH) if client in CUSTOM_CLIENTS else ("function", {"input": PATCH})
    )
    assert len({call.raw_id for call in choice.calls if call.raw_id}) in (0, 3)


@pytest.mark.parametrize("name", UPSTREAMS)
def test_a_call_of_a_namespace_has_it_at_the_client(name: str) -> None:
    calls = run_round("openai_responses", name).client.choices[0].calls
    assert [call.metadata.get("namespace") for call in calls] == ["world", "world", None]


@pytest.mark.parametrize(("client", "name"), MATRIX)
def test_the_state_comes_back_to_the_upstream(client: str, name: str) -> None:
    turns = run_round(client, name)
    text, contents = upstream_request(turns.next_body, client, name)
    expected = turns.upstream.choices[0].content
    restored = next(content for content in contents if content.speaker == "ai")
    assert reasoning_with_state(restored, name) == reasoning_with_state(expected, name)
    assert text.count(SECRETS[name]) == 1
    assert "c3RyZWFta2l0LXN0YXRl" not in text


def reasoning_with_state(content: Content, name: str) -> list[tuple[Any, ...]]:
    """Return the text and the state of each block of reasoning of this provider that has any."""
    theirs = [block for block in content.blocks if block.metadata.get("provider") == name]
    blocks = [block for block in theirs if isinstance(block, ReasoningBlock)]
    found = [(block.text, block.signature, block.opaque, block.metadata.get("reasoning_details")) for block in blocks]
    return [(text, *state) for text, *state in found if any(state)]


@pytest.mark.parametrize(("client", "name"), MATRIX)
def test_a_client_that_drops_the_state_loses_nothing_else(client: str, name: str) -> None:
    body = run_round(client, name).next_body
    text, _ = upstream_request(without_state(body), client, name)
    whole, _ = upstream_request(body, client, name)
    assert SECRETS[name] not in text
    for kept in (QUESTION, ANSWER, *CITIES, "Begin Patch", "result 0", "result 1", "result 2"):
        assert text.count(kept) == whole.count(kept) > 0


def without_state(value: Any) -> Any:
    """Return a body without the fields that have wrapped state."""
    if isinstance(value, dict):
        return {name: without_state(item) for name, item in value.items() if not is_wrapped_state(item)}
    return [without_state(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("client", "name"), MATRIX)
def test_another_endpoint_does_not_get_the_state(client: str, name: str) -> None:
    text, _ = upstream_request(run_round(client, name).next_body, client, name, endpoint="https://other.example.com")
    assert SECRETS[name] not in text
    assert "c3RyZWFta2l0LXN0YXRl" not in text
