"""Frames of an upstream that are passed on to a client of its dialect (docs/rules.md, "The same wire")."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, client_of, read_turn
from hypothesis import given
from hypothesis import strategies as st
from shared_data import RecordedStream, recorded_streams

from streamkit import Turn, providers
from streamkit.framing import framer_for
from streamkit.framing.event_stream import encode_message
from streamkit.gateway import Exchange, Gateway, Upstream, UpstreamRequest
from streamkit.providers.contract.rendered import is_wrapped_state

Json = dict[str, Any]
#: What of a frame is written by the gateway, by the wire; the other fields are those of the upstream.
WRITTEN = {
    "anthropic": {"content_block.id", "content_block.data", "delta.signature"},
    "bedrock_converse": {
        "start.toolUse.toolUseId",
        "delta.reasoningContent.signature",
        "delta.reasoningContent.redactedContent",
    },
    "cohere": {"delta.message.tool_calls.id"},
    "gemini": {"candidates.*.content.parts.*.functionCall.id", "candidates.*.content.parts.*.thoughtSignature"},
    "ollama": {"message.tool_calls.*.id"},
    "openai_chat": {
        "choices.*.delta.tool_calls.*.id",
        "choices.*.message.tool_calls.*.id",
        "choices.*.delta.tool_calls.*.index",
        "choices.*.delta.reasoning_details.*.data",
        "choices.*.delta.reasoning_details.*.signature",
        "choices.*.finish_reason",
    },
    "openai_responses": {
        "response.id",
        "item_id",
        *(f"{item}.{name}" for item in ("item", "response.output.*") for name in ("id", "call_id")),
        *(f"{item}.encrypted_content" for item in ("item", "response.output.*")),
    },
}
#: The frames that end a stream, if the upstream has not sent them.
TERMINATORS = {"openai_chat": b"[DONE]", "cohere": b"[DONE]"}
CONVERSE = ("/model/m/converse-stream", {"messages": [{"role": "user", "content": [{"text": "hi"}]}]})
MOST = 200_000  # bytes of a stream


HIDDEN = "a-key-of-no-known-form"


def wire_of(provider: str) -> str:
    return providers.get(provider).package.rpartition(".")[2]


def relayed(
    provider: str,
    parts: Iterable[bytes],
    models: dict[str, str] | None = None,
    path: str | None = None,
    **fields: Any,
) -> tuple[httpx.Response, UpstreamRequest, Exchange]:
    """Return what a client of the upstream's dialect gets of a stream, the request of the upstream, and the report."""
    requests: list[UpstreamRequest] = []
    reports: list[Exchange] = []
    sent = list(parts)

    class Response:
        status_code = 200

        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            for part in sent:
                yield part

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[Response]:
        requests.append(request)
        yield Response()

    async def post() -> httpx.Response:
        usual, body = CLIENTS.get(wire_of(provider), CONVERSE)
        body = {**body, "stream_options": {"include_usage": True}} if wire_of(provider) == "openai_chat" else body
        upstream = Upstream(provider=provider, ask=ask, models=models or {}, secrets=[HIDDEN])
        gateway = Gateway(upstream, observe=reports.append, state_key=b"k" * 32)
        async with client_of(gateway) as http:
            return await http.post(path or usual, json={**body, **fields})

    return anyio.run(post), requests[0], reports[0]


def frames_of(provider: str, data: bytes) -> list[tuple[bytes, bytes]]:
    framer = framer_for(providers.get(provider).traits.framing, limit=1 << 24)
    return [*framer.feed(data), *framer.close()]


def changed(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the places at which two JSON values differ, also in the order of members."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in after if name in before]
        if [name for name in before if name in after] != names:
            yield f"{path} (order)"
        for name in {**before, **after}:
            yield from changed(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for each, other in zip(before, after, strict=True):
            yield from changed(each, other, f"{path}.*")
    elif before != after:
        yield path


def events(*chunks: Json | str, name: bool = False) -> bytes:
    """Return server-sent events."""
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    names = [f"event: {chunk['type']}\n" if name and isinstance(chunk, dict) else "" for chunk in chunks]
    return "".join(f"{each}data: {text}\n\n" for each, text in zip(names, texts, strict=True)).encode()


def chat(delta: Json, finish: str | None = None, **fields: Any) -> Json:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


def call(index: int, id: str | None, name: str | None, arguments: str) -> Json:
    entry: Json = {"index": index, "function": {"arguments": arguments} | ({"name": name} if name else {})}
    return {"tool_calls": [entry | ({"id": id, "type": "function"} if id else {})]}


def chunks_of(response: httpx.Response) -> list[Json]:
    return [json.loads(data) for _, data in frames_of("openai_chat", response.content) if data != b"[DONE]"]


def streams() -> list[RecordedStream]:
    """Return the recorded streams of wires whose frames are passed on, which end without an error."""
    found = []
    for stream in recorded_streams():
        traits, data = providers.get(stream.provider).traits, stream.data
        expected = {"sse": (b"data", b"event", b":"), "ndjson": (b"{",), "event_stream": (b"\0",)}
        if wire_of(stream.provider) not in WRITTEN or len(data) > MOST:
            continue
        if data.startswith(expected[traits.framing]):
            turn = Turn(stream.provider)
            turn.feed(data)
            turn.close()
            found += [stream] if turn.error is None else []
    return found


@pytest.mark.parametrize("stream", streams(), ids=str)
def test_a_recorded_stream_passes_but_for_what_the_gateway_writes(stream: RecordedStream) -> None:
    response, _, report = relayed(stream.provider, [stream.data])
    assert (response.status_code, report.error) == (200, None)
    wire = wire_of(stream.provider)
    framed = frames_of(stream.provider, stream.data)
    end = TERMINATORS.get(wire, b"") if providers.get(stream.provider).traits.end_marker else b""
    place = next((number for number, (_, data) in enumerate(framed) if data == end), None)
    if place is not None:
        framed = framed[: place + 1]
    if wire == "anthropic":  # what follows the end is not read
        framed = framed[: [b"message_stop" in data for _, data in framed].index(True) + 1]
    elif end and place is None:
        framed.append((b"", end))
    received = frames_of(stream.provider, response.content)
    assert [name for name, _ in received] == [name for name, _ in framed]
    for (_, before), (_, after) in zip(framed, received, strict=True):
        if before != after:
            assert set(changed(json.loads(before), json.loads(after))) <= WRITTEN[wire]


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama"])
def test_the_cuts_of_a_stream_change_nothing(provider: str) -> None:
    stream = min((each for each in streams() if each.provider == provider), key=lambda each: len(each.data))
    pieces = random.Random(7)  # noqa: S311
    whole = relayed(provider, [stream.data])[0].content
    for size in (1, 7, 100):
        data, parts = stream.data, []
        while data:
            at = pieces.randint(1, 2 * size)
            parts.append(data[:at])
            data = data[at:]
        assert _without_ids(provider, relayed(provider, parts)[0].content) == _without_ids(provider, whole)


def _without_ids(provider: str, data: bytes) -> list[Any]:
    """Return the frames without what differs between two responses."""
    found = []
    for name, payload in frames_of(provider, data):
        chunk = None if payload == b"[DONE]" else json.loads(payload)
        for written in WRITTEN[wire_of(provider)] if isinstance(chunk, dict) else ():
            _remove(chunk, written.split("."))
        found.append((name, chunk))
    return found


def _remove(value: Any, path: list[str]) -> None:
    if path[0] == "*":
        for each in value if isinstance(value, list) else ():
            _remove(each, path[1:])
    elif isinstance(value, dict) and len(path) > 1:
        _remove(value.get(path[0]), path[1:])
    elif isinstance(value, dict):
        value.pop(path[0], None)


NEW = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False, width=32),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@given(data=st.data(), value=NEW, provider=st.sampled_from(["anthropic", "openai_chat", "cohere", "ollama", "gemini"]))
def test_unknown_fields_and_events_pass(data: st.DataObject, value: Any, provider: str) -> None:
    stream = min((each for each in streams() if each.provider == provider), key=lambda each: len(each.data))
    framed = [(name, payload) for name, payload in frames_of(provider, stream.data) if payload != b"[DONE]"]
    place = data.draw(st.integers(0, len(framed) - 1))
    chunk = json.loads(framed[place][1])
    holders = list(_objects(chunk))
    holder = holders[data.draw(st.integers(0, len(holders) - 1))]
    holder["brand_new"] = value
    framed[place] = framed[place][0], json.dumps(chunk).encode()
    new = {"type": "brand.new", "brand_new": value}
    if provider == "anthropic" and place:
        framed.insert(place, (b"brand.new", json.dumps(new).encode()))
    if provider == "ollama":
        sent = b"".join(payload + b"\n" for _, payload in framed)
    else:
        sent = b"".join(
            b"event: %b\ndata: %b\n\n" % frame if frame[0] else b"data: %b\n\n" % frame[1] for frame in framed
        )
    received = [
        json.loads(payload)
        for _, payload in frames_of(provider, relayed(provider, [sent])[0].content)
        if payload != b"[DONE]"
    ]
    assert len(received) == len(framed)
    for (_, before), after in zip(framed, received, strict=True):
        assert set(changed(json.loads(before), after)) <= WRITTEN[wire_of(provider)]


def _objects(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(each)


# ---------------------------------------------------------------- what the gateway writes


def test_two_calls_on_one_index_have_two() -> None:
    sent = events(
        chat(call(0, "a", "weather", "")),
        chat(call(0, None, None, '{"city": "Oslo"}')),
        chat(call(0, "b", "weather", "")),
        *[chat(call(0, None, None, text)) for text in ('{"ci', 'ty": "Ber', 'gen"}')],
        chat({}, "stop"),
        "[DONE]",
    )
    response, _, _ = relayed("openai_chat", [sent[:700], *(sent[at : at + 1] for at in range(700, len(sent)))])
    entries = [entry for chunk in chunks_of(response) for entry in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert [entry["index"] for entry in entries] == [0, 0, 1, 1, 1, 1]
    assert len({entry["id"] for entry in entries if "id" in entry}) == 2
    assert [each.arguments for each in read_turn("openai_chat", response.content).calls] == [
        {"city": "Oslo"},
        {"city": "Bergen"},
    ]
    assert chunks_of(response)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_plain_deltas_of_a_second_call_on_one_index_have_its_own() -> None:
    parts = [
        events(chat(call(0, "a", "weather", ""))),
        events(chat(call(0, None, None, "{}"))),
        events(chat(call(0, "b", "weather", ""))),
        *[events(chat(call(0, None, None, text))) for text in ('{"city"', ': "', "Oslo", '"', "}")],
        events(chat({}, "tool_calls"), "[DONE]"),
    ]
    response, _, _ = relayed("openai_chat", parts)
    assert [each.arguments for each in read_turn("openai_chat", response.content).calls] == [{}, {"city": "Oslo"}]


def test_an_item_without_an_index_is_the_first_call_of_its_id() -> None:
    def item(arguments: str, **fields: Any) -> Json:
        call = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": arguments}
        return {"type": "response.output_item.added", "item": call, **fields}

    last = {"type": "response.incomplete", "response": {"output": [item('{"x":1')["item"]]}}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"x":1'}
    sent = events(item(""), item("", output_index=0), delta, last, name=True)
    response, _, _ = relayed("openai_responses", [sent])
    turn = read_turn("openai_responses", response.content)
    assert ([each.arguments_text for each in turn.calls], turn.executable) == (['{"x":1', '{"x":1'], [])


def test_a_call_that_waits_beside_another_one_keeps_its_id_and_name() -> None:
    choices = [
        {"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather"}}]}},
        {"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "time"}}]}},
    ]
    arguments = [chat(call(index, None, None, "{}")) for index in (0, 1)]
    sent = events({"choices": choices}, *arguments, chat({}, "tool_calls"), "[DONE]")
    turn = read_turn("openai_chat", relayed("openai_chat", [sent])[0].content)
    assert [(each.name, each.arguments) for each in turn.executable] == [("weather", {}), ("time", {})]


@pytest.mark.parametrize("constant", ["Infinity", "-Infinity", "NaN"])
def test_arguments_that_are_no_json_stay_what_they_are(constant: str) -> None:
    called = f'{{"tool_calls":[{{"function":{{"name":"pay","arguments":{{"amount":{constant}}}}}}}]}}'
    sent = f'{{"message":{called},"done":true,"done_reason":"stop"}}\n'.encode()
    response, _, _ = relayed("ollama", [sent])
    assert f'"amount": {constant}'.encode() in response.content
    assert [each.state for each in read_turn("ollama", response.content).calls] == ["invalid"]


def test_no_id_of_a_call_is_that_of_two_responses() -> None:
    sent = events(chat(call(0, "call_0", "weather", "{}")), chat({}, "tool_calls"), "[DONE]")
    turns = [read_turn("openai_chat", relayed("deepseek", [sent])[0].content) for _ in range(2)]
    assert len({turn.calls[0].raw_id for turn in turns} | {"call_0"}) == 3


def test_a_call_whose_name_comes_in_parts_starts_once() -> None:
    sent = events(
        chat({**call(0, "a", "wea", ""), "content": None}, new=1),
        chat(call(0, None, "ther", "")),
        chat(call(0, None, None, "{}")),
        chat({}, "tool_calls"),
        "[DONE]",
    )
    response, _, _ = relayed("openai_chat", [sent])
    assert chunks_of(response)[0]["new"] == 1
    (found,) = read_turn("openai_chat", response.content).calls
    assert (found.name, found.state) == ("weather", "complete")


@pytest.mark.parametrize("shows_usage", [True, False])
def test_a_chunk_without_choices_is_for_clients_that_ask_for_it(shows_usage: bool) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    sent = events(
        chat({"content": "hi"}), chat({}, "stop", new=1), {**chat({}), "choices": [], "usage": usage}, "[DONE]"
    )
    response, request, report = relayed("openai_chat", [sent], stream_options={"include_usage": shows_usage})
    assert request.body["stream_options"] == {"include_usage": True}
    chunks = chunks_of(response)
    assert all(chunk["choices"] for chunk in chunks) is not shows_usage
    assert chunks[-1]["usage"] == usage
    assert (report.usage.input_tokens, report.usage.output_tokens) == (3, 4) if report.usage else False
    if not shows_usage:
        assert (chunks[-1]["new"], chunks[-1]["choices"][0]["finish_reason"]) == (1, "stop")


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini", "ollama"])
def test_a_client_keeps_its_name_of_the_model(provider: str) -> None:
    stream = min((each for each in streams() if each.provider == provider), key=lambda each: len(each.data))
    response, request, _ = relayed(provider, [stream.data], {"*": "another"})
    assert request.model == "another"
    models = {read_turn(provider, response.content).model}
    if provider == "openai_chat":
        models |= {chunk["model"] for chunk in chunks_of(response)}
    assert models == {"m"}


def test_a_stream_without_its_end_gets_one() -> None:
    chat_end = relayed("openai_chat", [events(chat({"content": "hi"}), chat({}, "stop"))])[0].content
    assert chat_end.endswith(b"data: [DONE]\n\n")
    start = {"type": "message_start", "message": {"id": "x", "model": "m", "usage": {}}}
    block: Json = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    sent = events(start, block, delta, {"type": "content_block_stop", "index": 0}, stop, name=True)
    response, _, report = relayed("anthropic", [sent])
    assert response.content == sent + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert report.error is None


HALVES = {
    "openai_chat": events(chat({"content": "half"})),
    "anthropic": events(
        {"type": "message_start", "message": {"id": "x", "model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}},
        name=True,
    ),
    "openai_responses": events(
        {"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", "type": "message"}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "half"},
        name=True,
    ),
    "gemini": events({"candidates": [{"content": {"parts": [{"text": "half"}], "role": "model"}}]}),
    "cohere": events(
        {"id": "r", "type": "message-start", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
        {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "half"}}}},
        name=True,
    ),
    "ollama": b'{"model": "m", "message": {"role": "assistant", "content": "half"}, "done": false}\n',
    "bedrock_converse": b"".join(
        encode_message(
            {":event-type": name, ":content-type": "application/json", ":message-type": "event"},
            json.dumps(body).encode(),
        )
        for name, body in (
            ("messageStart", {"role": "assistant"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "half"}}),
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("rest", [b"", b"data: {broken\n\n", b"event: err", b"\xff\xfe\n\n"])
@pytest.mark.parametrize("provider", HALVES)
def test_half_a_response_ends_with_an_error_of_the_wire(provider: str, rest: bytes) -> None:
    response, _, report = relayed(provider, [HALVES[provider], rest])
    assert report.error is not None
    turn = read_turn(provider, response.content)
    assert turn.text == "half"
    assert turn.error is not None
    assert turn.error.kind == "provider_error"


#: An error of each upstream in its stream, with the key that it refuses.
ERRORS = {
    "openai_chat": events({"error": {"message": f"no {HIDDEN}", "type": "server_error", "code": None}}, "[DONE]"),
    "anthropic": events({"type": "error", "error": {"type": "api_error", "message": f"no {HIDDEN}"}}, name=True),
    "openai_responses": events({"type": "error", "code": "server_error", "message": f"no {HIDDEN}"}, name=True),
    "gemini": events({"error": {"code": 500, "message": f"no {HIDDEN}", "status": "INTERNAL"}}),
    "cohere": events({"type": "message-end", "delta": {"finish_reason": "ERROR", "error": f"no {HIDDEN}"}}, name=True),
    "ollama": json.dumps({"error": f"no {HIDDEN}"}).encode() + b"\n",
    "bedrock_converse": encode_message(
        {
            ":exception-type": "modelStreamErrorException",
            ":content-type": "application/json",
            ":message-type": "exception",
        },
        json.dumps({"message": f"no {HIDDEN}"}).encode(),
    ),
}


@pytest.mark.parametrize("is_one_read", [True, False])
@pytest.mark.parametrize("provider", ERRORS)
def test_an_error_of_the_upstream_comes_without_its_key(provider: str, is_one_read: bool) -> None:
    parts = [HALVES[provider], ERRORS[provider]]
    response, _, report = relayed(provider, [b"".join(parts)] if is_one_read else parts)
    assert HIDDEN.encode() not in response.content
    turn = read_turn(provider, response.content)
    assert (turn.text, turn.error is not None, report.error is not None) == ("half", True, True)


def test_an_error_in_the_stream_is_without_secrets_and_has_its_details() -> None:
    error = {"error": {"message": "bad", "type": "server_error", "param": "p", "code": None}}
    response, _, _ = relayed("openai_chat", [HALVES["openai_chat"], events(error, "[DONE]")])
    last = chunks_of(response)[-1]
    assert last["error"]["param"] == "p"
    assert response.content.endswith(b"}\n\n")


#: A call that is cut off, and the frame that ends the response all the same.
CUT_CALLS = {
    "openai_chat": (events(chat(call(0, "a", "weather", '{"ci'))), events("[DONE]")),
    "anthropic": (
        events(
            {"type": "message_start", "message": {"id": "x", "model": "m", "usage": {}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t", "name": "weather", "input": {}},
            },
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}},
            name=True,
        ),
        events({"type": "message_stop"}, name=True),
    ),
}


@pytest.mark.parametrize("provider", CUT_CALLS)
def test_an_error_that_the_end_reveals_comes_instead_of_the_terminator(provider: str) -> None:
    """Clients stop reading at the terminator, and would take half a call for a whole one."""
    start, end = CUT_CALLS[provider]
    response, _, report = relayed(provider, [start, end])
    assert report.error is not None
    assert end not in response.content
    assert b'"error"' in frames_of(provider, response.content)[-1][1]


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic"])
def test_a_terminator_within_a_text_is_none(provider: str) -> None:
    if provider == "openai_chat":
        sent, end = events(chat({"content": "[DONE]"}, "stop")), events("[DONE]")
    else:
        stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "new": "message_stop"}
        sent = HALVES["anthropic"] + events({"type": "content_block_stop", "index": 0}, stop, name=True)
        end = events({"type": "message_stop"}, name=True).replace(b': "', b':"')
    assert relayed(provider, [sent])[0].content == sent + end


def test_a_block_after_the_finish_keeps_its_order() -> None:
    def block(index: int) -> list[Json]:
        return [
            {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "content_block_stop", "index": index},
        ]

    start = {"type": "message_start", "message": {"id": "x", "model": "m", "usage": {}}}
    finish = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    stop = {"type": "message_stop"}
    response, _, _ = relayed("anthropic", [events(start, *block(0), finish, *block(1), stop, name=True)])
    received = [json.loads(data) for _, data in frames_of("anthropic", response.content)]
    assert [each for each in received if each != finish] == [start, *block(0), *block(1), stop]
    assert finish in received


def test_an_error_continues_the_numbers_of_the_events() -> None:
    """OpenAI numbers the events of a response one after the other, and clients resume after such a number."""
    numbered = [
        {**json.loads(data), "sequence_number": number}
        for number, (_, data) in enumerate(frames_of("openai_responses", HALVES["openai_responses"]), 5)
    ]
    response, _, _ = relayed("openai_responses", [events(*numbered, name=True)])
    received = [json.loads(data)["sequence_number"] for _, data in frames_of("openai_responses", response.content)]
    assert received == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("space", ["", " ", "  ", "\n\t "])
def test_what_must_change_is_found_in_json_of_any_form(space: str) -> None:
    colon = f"{space}:{space}"
    texts = [
        json.dumps(chunk, separators=(",", colon))
        for chunk in (chat({**call(0, "a", "weather", "{}"), "reasoning_opaque": "secret"}), chat({}, "stop"))
    ]
    sent = "".join("data: {}\n\n".format(text.replace("\n", "\ndata: ")) for text in [*texts, "[DONE]"]).encode()
    received = chunks_of(relayed("openai_chat", [sent], {"*": "another"}, model="mine")[0])
    assert {chunk["model"] for chunk in received} == {"mine"}
    assert is_wrapped_state(received[0]["choices"][0]["delta"]["reasoning_opaque"])
    assert received[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_plain_deltas_have_the_clients_name_of_the_model() -> None:
    texts = ["a", "m", '"model": "m"', 'x"model":"m"', "\\", "end"]
    parts = [events({**chat({"content": text}), "model": "m"}) for text in texts]
    last = events(chat({}, "stop"), "[DONE]")
    response, _, _ = relayed("openai_chat", [*parts, last], {"*": "another"}, model="mine")
    received = chunks_of(response)
    assert [chunk["choices"][0]["delta"].get("content") for chunk in received] == [*texts, None]
    assert {chunk["model"] for chunk in received} == {"mine"}


def test_plain_deltas_of_items_have_the_ids_of_the_gateway() -> None:
    start, added, _ = [json.loads(data) for _, data in frames_of("openai_responses", HALVES["openai_responses"])]
    texts = ["a", "i", '"item_id": "i"', "b", "c"]
    deltas = [
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": text}
        for text in texts
    ]
    numbered = [{**each, "sequence_number": number} for number, each in enumerate([start, added, *deltas])]
    response, _, _ = relayed("openai_responses", [events(each, name=True) for each in numbered])
    received = [json.loads(data) for _, data in frames_of("openai_responses", response.content)]
    shown = [each for each in received if each["type"] == "response.output_text.delta"]
    assert [each["delta"] for each in shown] == texts
    assert {each["item_id"] for each in shown} == {received[1]["item"]["id"]}
    assert [each["sequence_number"] for each in received] == list(range(len(received)))


def test_a_document_instead_of_a_stream_is_translated() -> None:
    message = {"role": "assistant", "content": "whole"}
    body = {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    response, _, report = relayed("openai_chat", [json.dumps(body).encode()])
    assert (report.error, read_turn("openai_chat", response.content).text) == (None, "whole")
    assert [chunk["object"] for chunk in chunks_of(response)] == ["chat.completion.chunk"] * len(chunks_of(response))


@pytest.mark.parametrize("tail", [100, 10_000])
def test_what_follows_a_finish_is_not_kept_without_end(tail: int) -> None:
    more = [events({"object": "chat.completion.chunk", "choices": [], "new": number}) for number in range(tail)]
    response, _, _ = relayed(
        "openai_chat", [events(chat({"content": "hi"}), chat({}, "stop")), *more, events("[DONE]")]
    )
    assert len(chunks_of(response)) == tail + 2


# ---------------------------------------------------------------- state


def test_state_is_carried_in_its_own_field_and_comes_back() -> None:
    stream = next(each for each in streams() if each.provider == "anthropic" and b"signature_delta" in each.data)
    response, _, _ = relayed("anthropic", [stream.data])
    before, after = [
        [
            delta["signature"]
            for _, data in frames_of("anthropic", each)
            if "signature" in (delta := json.loads(data).get("delta", {}))
        ]
        for each in (stream.data, response.content)
    ]
    assert len(before) == len(after) > 0
    assert all(map(is_wrapped_state, after))
    thinking = {"type": "thinking", "thinking": "a", "signature": after[0]}
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "go on"},
    ]
    _, request, report = relayed("anthropic", [stream.data], messages=history)
    assert before[0] in json.dumps(request.body)
    assert report.changes == []
    _, other, _ = relayed("anthropic", [stream.data], {"*": "another"}, messages=history)
    assert before[0] not in json.dumps(other.body)  # of the model that made it
    assert after[0] not in json.dumps(other.body)


@pytest.mark.parametrize("encrypted", [True, False])
def test_the_phase_of_a_message_and_its_reasoning_come_back(encrypted: bool) -> None:
    """OpenAI's models stop early if a message between calls comes back without its phase (vercel/ai#12860)."""
    content = [{"type": "output_text", "text": "I look.", "annotations": []}]
    state = {"encrypted_content": "gAAAA=="} if encrypted else {}
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], **state},
        {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": content},
    ]
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": output}
    sent = events(
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        *({"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)),
        {"type": "response.completed", "response": response},
        name=True,
    )
    received = relayed("openai_responses", [sent], stream=False)[0].json()["output"]
    assert received[1]["phase"] == "commentary"
    assert is_wrapped_state(received[0]["encrypted_content"])
    assert not {"rs_1", "msg_1"} & {item["id"] for item in received}
    thread = [{"role": "user", "content": "hi"}, *received, {"role": "user", "content": "go on"}]
    _, request, _ = relayed("openai_responses", [sent], input=thread)
    assert request.body["input"][1] == {"type": "reasoning", "id": "rs_1", "summary": [], **state}
    assert request.body["input"][2]["phase"] == "commentary"


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "Monday."}, {"text": "", "thoughtSignature": "c2ln"}],
        [{"text": "Monday.", "thoughtSignature": "c2ln"}],
        [{"functionCall": {"name": "weather", "args": {}, "id": "x"}, "thoughtSignature": "c2ln"}],
    ],
)
def test_the_signature_of_a_part_comes_back(parts: list[Json]) -> None:
    """Gemini 3 asks for it back (https://ai.google.dev/gemini-api/docs/thought-signatures)."""
    chunk = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "modelVersion": "m",
    }
    response, _, _ = relayed("gemini", [events(chunk)])
    ((_, data),) = frames_of("gemini", response.content)
    received = json.loads(data)["candidates"][0]["content"]
    assert is_wrapped_state(received["parts"][-1]["thoughtSignature"])
    result = [{"functionResponse": {"name": "weather", "response": {"output": "wet"}}}]
    answer = {"role": "user", "parts": result if "functionCall" in parts[0] else [{"text": "go on"}]}
    _, request, _ = relayed(
        "gemini", [events(chunk)], contents=[{"role": "user", "parts": [{"text": "hi"}]}, received, answer]
    )
    assert json.dumps(request.body["contents"][1]).count('"thoughtSignature": "c2ln"') == 1


# ---------------------------------------------------------------- whole responses


@pytest.mark.parametrize("stream", streams(), ids=str)
def test_a_body_is_made_of_the_upstreams_chunks(stream: RecordedStream) -> None:
    """Those that are not are translated: the next test has what must be lost then."""
    wire, turn = wire_of(stream.provider), read_turn(stream.provider, stream.data)
    paths = {"gemini": "/v1beta/models/m:generateContent", "bedrock_converse": "/model/m/converse"}
    fields = {} if wire in paths else {"stream": False}
    response, _, report = relayed(stream.provider, [stream.data], path=paths.get(wire), **fields)
    assert (response.status_code, report.error) == (200, None)
    again = read_turn(stream.provider, response.content)
    assert (again.text, again.finish and again.finish.reason) == (turn.text, turn.finish and turn.finish.reason)
    assert [(call.name, call.arguments) for call in again.calls] == [(call.name, call.arguments) for call in turn.calls]


@pytest.mark.parametrize("broken", [False, True])
def test_a_body_has_the_further_fields_of_chunks(broken: bool) -> None:
    first = chat({"role": "assistant", "content": "hi", "brand_new": 1}, brand_new={"a": 2})
    second = {
        **chat({}, "stop"),
        **({"choices": [{"index": {}, "delta": {}, "finish_reason": "stop"}]} if broken else {}),
    }
    response, _, _ = relayed("openai_chat", [events(first, second, "[DONE]")], stream=False)
    body = response.json()
    assert body["choices"][0]["message"]["content"] == "hi"
    assert ("brand_new" in body, "brand_new" in body["choices"][0]["message"]) == (not broken, not broken)


# ---------------------------------------------------------------- requests

#: A conversation with a call, in each client's own form.
THREADS: dict[str, Json] = {
    "anthropic": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "wet"}]},
        ]
    },
    "openai_chat": {
        "messages": [
            {"role": "system", "content": "short"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "wet"},
        ]
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "t1", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t1", "output": "wet"},
        ]
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "wet"}}}]},
        ]
    },
    "ollama": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {}}}]},
            {"role": "tool", "tool_name": "weather", "content": "wet"},
        ]
    },
}
THREADS["cohere"] = THREADS["openai_chat"]


@pytest.mark.parametrize("provider", THREADS)
@given(data=st.data(), value=NEW)
def test_unknown_fields_of_a_request_pass(provider: str, data: st.DataObject, value: Any) -> None:
    fields = json.loads(json.dumps({**THREADS[provider], "brand": {"inner": {}}}))
    holders = list(_objects(fields))
    holders[data.draw(st.integers(0, len(holders) - 1))]["brand_new"] = value
    _, request, report = relayed(provider, [HALVES[provider]], **fields)
    options = {"stream_options": {"include_usage": True}} if provider == "openai_chat" else {}
    in_path = {} if provider == "gemini" else {"stream": True}
    sent = {**CLIENTS[provider][1], **options, **fields}
    assert list(changed({**sent, **in_path}, request.body)) == []
    assert report.changes == []


@pytest.mark.parametrize("provider", sorted(THREADS.keys() - {"ollama"}))
def test_a_call_without_a_result_gets_one_and_the_rest_stays(provider: str) -> None:
    fields = json.loads(json.dumps(THREADS[provider]))
    ((name, messages),) = fields.items()
    messages[0]["brand_new"] = [1.0]
    messages[-1] = messages[0]
    _, request, _ = relayed(provider, [HALVES[provider]], **fields)
    sent = request.body[name]
    assert sent[0] == messages[0]
    assert len(sent) >= len(messages)
    assert "the call was not completed" in json.dumps(sent)


def test_messages_that_the_upstream_would_refuse_are_joined() -> None:
    """Chunks of a Gemini stream as contents of their own, which the API refuses before a call."""
    contents = [
        {"role": "user", "parts": [{"text": "hi", "brand_new": 1}]},
        *[{"role": "model", "parts": [{"text": text}]} for text in ("I ", "look")],
        {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "wet"}}}]},
    ]
    _, request, _ = relayed("gemini", [HALVES["gemini"]], contents=contents)
    assert [len(content["parts"]) for content in request.body["contents"]] == [1, 2, 1]
