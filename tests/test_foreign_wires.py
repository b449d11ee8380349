"""The bytes of one wire, read as another one, are an error that names the wire, and never an empty response."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import wire_streams
from shared_data import RecordedStream, recorded_streams

from streamkit import Content, StreamInterrupted, Turn, providers, run_loop
from streamkit.framing import framer_for

Chunk = dict[str, Any]

CHAT_USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
CHAT_BODY: Chunk = {
    "id": "c", "object": "chat.completion", "model": "m", "usage": CHAT_USAGE,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
}  # fmt: skip
RESPONSE: Chunk = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "m", "metadata": {},
    "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}],
    "usage": {"input_tokens": 3, "output_tokens": 2},
}  # fmt: skip
OPEN_RESPONSE: Chunk = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
RESPONSE_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
OLLAMA: Chunk = {"model": "m", "created_at": "2025-01-01T00:00:00Z"}
CLAUDE: Chunk = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
CLAUDE_TEXT = {"type": "text", "text": ""}
CLAUDE_CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
CLAUDE_ARGUMENTS = {"type": "input_json_delta", "partial_json": '{"a":1}'}
COHERE_USAGE = {"tokens": {"input_tokens": 3, "output_tokens": 2}}


def _claude(*blocks: Chunk, reason: str) -> list[Chunk]:
    start = {"type": "message_start", "message": CLAUDE}
    return [start, {"type": "ping"}, *blocks, *wire_streams.message_end(reason, output_tokens=2)]


def _converse(start: Chunk | None, delta: Chunk, reason: str) -> list[Chunk]:
    opening = [] if start is None else [{"contentBlockStart": {"contentBlockIndex": 0, "start": start}}]
    return [
        {"messageStart": {"role": "assistant"}},
        *opening,
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": reason}},
    ]


ANTHROPIC: dict[str, list[Chunk]] = {
    "text": _claude(
        *wire_streams.block(0, CLAUDE_TEXT, {"type": "text_delta", "text": "Hi"}), reason="end_turn"
    ),
    "call": _claude(*wire_streams.block(0, CLAUDE_CALL, CLAUDE_ARGUMENTS), reason="tool_use"),
    "usage": [{"type": "message_delta", "delta": {}, "usage": {"input_tokens": 3, "output_tokens": 2}}],
    "body": [{**CLAUDE, "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn",
              "usage": {"input_tokens": 3, "output_tokens": 2}}],
    "error": [{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}],
}  # fmt: skip

#: For each wire: chunks with text alone, a call alone, usage alone, a complete body, and an error alone.
STREAMS: dict[str, dict[str, list[Chunk]]] = {
    "anthropic": ANTHROPIC,
    "bedrock_invoke": {name: chunks for name, chunks in ANTHROPIC.items() if name != "body"},
    "openai_chat": {
        "text": [wire_streams.chat({"content": "Hi"}), wire_streams.chat(finish="stop")],
        "call": [wire_streams.chat_call('{"a":1}', id="call_1", name="f"), wire_streams.chat(finish="tool_calls")],
        "usage": [{"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE}],
        "body": [CHAT_BODY],
        "error": [{"error": {"message": "Overloaded", "type": "server_error", "param": None, "code": None}}],
    },
    "openai_responses": {
        "text": [
            {"type": "response.created", "response": OPEN_RESPONSE},
            {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
             "delta": "Hi"},
            {"type": "response.completed", "response": RESPONSE},
        ],
        "call": [
            {"type": "response.created", "response": OPEN_RESPONSE},
            {"type": "response.output_item.added", "output_index": 0, "item": {**RESPONSE_CALL, "arguments": ""}},
            {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE_CALL},
            {"type": "response.completed", "response": {**RESPONSE, "output": [RESPONSE_CALL]}},
        ],
        "usage": [{"type": "response.completed", "response": {**RESPONSE, "output": []}}],
        "body": [RESPONSE],
        "error": [{"type": "error", "code": "server_error", "message": "Overloaded", "param": None}],
    },
    "gemini": {
        "text": [wire_streams.gemini({"text": "Hi"}, finish="STOP")],
        "call": [wire_streams.gemini({"functionCall": {"name": "f", "args": {"a": 1}}}, finish="STOP")],
        "usage": [{"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}}],
        "body": [wire_streams.gemini({"text": "Hi"}, finish="STOP", usageMetadata={"promptTokenCount": 3})],
        "error": [{"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}],
    },
    "cohere": {
        "text": [
            {"type": "message-start", "id": "1", "delta": {"message": {"role": "assistant", "content": []}}},
            {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}},
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hi"}}}},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": COHERE_USAGE}},
        ],
        "call": [
            {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": {
                "id": "f_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}}}},
            {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": COHERE_USAGE}},
        ],
        "usage": [{"type": "message-end", "delta": {"usage": COHERE_USAGE}}],
        "body": [{"id": "1", "finish_reason": "COMPLETE", "usage": COHERE_USAGE,
                  "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}}],
        "error": [{"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "Overloaded"}}],
    },
    "ollama": {
        "text": [
            {**OLLAMA, "message": {"role": "assistant", "content": "Hi"}, "done": False},
            {**OLLAMA, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
        ],
        "call": [
            {**OLLAMA, "message": {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "f", "arguments": {"a": 1}}}]}, "done": False},
            {**OLLAMA, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
        ],
        "usage": [{**OLLAMA, "done": True, "prompt_eval_count": 3, "eval_count": 2}],
        "body": [{**OLLAMA, "message": {"role": "assistant", "content": "Hi"}, "done": True, "done_reason": "stop"}],
        "error": [{"error": "Overloaded"}],
    },
    "bedrock_converse": {
        "text": _converse(None, {"text": "Hi"}, "end_turn"),
        "call": _converse({"toolUse": {"toolUseId": "t1", "name": "f"}}, {"toolUse": {"input": '{"a":1}'}}, "tool_use"),
        "usage": [{"metadata": {"usage": {"inputTokens": 3, "outputTokens": 2}, "metrics": {"latencyMs": 1}}}],
        "body": [{"output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": "end_turn",
                  "usage": {"inputTokens": 3, "outputTokens": 2}}],
        "error": [{"throttlingException": {"message": "Too many requests"}}],
    },
}  # fmt: skip

#: Events of these that are already unpacked are a form of bedrock_invoke's input.
READABLE = {(wire, "bedrock_invoke") for wire in ("anthropic", "openai_chat", "bedrock_converse")}
PAIRS = list(itertools.permutations(STREAMS, 2))
UNREADABLE = [pair for pair in PAIRS if pair not in READABLE]


def _dicts(wire: str, chunks: list[Chunk]) -> list[Chunk]:
    """Return chunks as a caller has them who decodes frames: bedrock_invoke's as boto3 yields them."""
    if wire != "bedrock_invoke":
        return chunks
    return [chunk if "type" not in chunk else {"chunk": {"bytes": json.dumps(chunk).encode()}} for chunk in chunks]


def _bytes(wire: str, chunks: list[Chunk], what: str) -> bytes:
    if what == "body":
        return wire_streams.dumped(chunks[0])
    return wire_streams.framed(wire, chunks)


def _inputs(wire: str, what: str) -> Iterator[list[Any]]:
    """Yield the forms of a stream as input: dicts, whole bytes, single bytes, and NDJSON."""
    chunks = STREAMS[wire][what]
    yield _dicts(wire, chunks)
    data = _bytes(wire, chunks, what)
    yield [data]
    yield wire_streams.bytes_one_by_one(data)
    if wire not in ("bedrock_invoke", "bedrock_converse"):
        yield [b"".join(wire_streams.dumped(chunk) + b"\n" for chunk in chunks)]


def _has_name(turn: Turn, wire: str) -> bool:
    return turn.error is not None and repr(wire) in turn.error.message


@pytest.mark.parametrize(("source", "target"), UNREADABLE)
def test_another_wires_stream_is_a_protocol_error_that_names_it(source: str, target: str) -> None:
    checked = [what for what in ("text", "call", "usage", "body") if what in STREAMS[source]]
    assert checked[0] == "text"
    for what in checked:
        for pieces in _inputs(source, what):
            for complete in (False, True):
                turn, _ = wire_streams.run(target, pieces, complete=complete)
                assert turn.error is not None, (pieces, turn.finish)
                assert (turn.error.kind, turn.finish, turn.calls) == ("protocol_error", None, []), (pieces, turn.error)
                assert turn.text == ""
                assert turn.executable == []
                assert _has_name(turn, source), (turn.error.message, pieces)


@pytest.mark.parametrize(("source", "target"), [*PAIRS, *((wire, wire) for wire in STREAMS)])
def test_another_wires_error_is_never_an_empty_response(source: str, target: str) -> None:
    for pieces in _inputs(source, "error"):
        turn, _ = wire_streams.run(target, pieces)
        assert turn.error is not None
        assert turn.error.kind in ("provider_error", "protocol_error")
        if "error" in STREAMS[source]["error"][0] and "bedrock" not in source + target:
            assert (turn.error.kind, turn.error.message) == ("provider_error", "Overloaded")


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic", "cohere"])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"data: [DONE]\n\n", "stream_truncated"),
        (b": ping\n\ndata:\n\ndata: [DONE]\n\n", "stream_truncated"),
        (b'data: {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\ndata: [DONE]\n\n', "protocol_error"),
        (b'data: {"usage": {"input_tokens": 3, "output_tokens": 2}}\n\ndata: [DONE]\n\n', "protocol_error"),
        (b"data: {}\n\ndata: [DONE]\n\n", "protocol_error"),
    ],
)
def test_terminators_and_usage_alone_are_no_response(target: str, data: bytes, kind: str) -> None:
    for pieces in ([data], wire_streams.bytes_one_by_one(data)):
        turn, _ = wire_streams.run(target, pieces)
        assert turn.error is not None
        assert turn.error.kind == kind
        assert (turn.finish, turn.done) == (None, True)


@pytest.mark.parametrize(
    ("target", "chunk"),
    [
        ("anthropic", {"type": "message_stop"}),
        ("cohere", {"type": "message-end"}),
        ("ollama", {"done": True}),
        ("bedrock_converse", {"messageStop": {}}),
    ],
)
def test_a_terminator_event_alone_is_a_truncated_stream(target: str, chunk: Chunk) -> None:
    for pieces in ([chunk], [wire_streams.framed(target, [chunk], done=False)]):
        turn, _ = wire_streams.run(target, pieces)
        assert turn.error is not None
        assert turn.error.kind == "stream_truncated"
        assert turn.finish is None


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": []},
        {"object": "chat.completion.chunk"},
        {"choices": [{"index": 0, "delta": {}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": None}], "id": "", "model": ""},
    ],
)
def test_a_terminator_confirms_after_any_chat_chunk(chunk: Chunk) -> None:
    turn, _ = wire_streams.run("openai_chat", [wire_streams.framed("openai_chat", [chunk])])
    assert turn.error is None
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


@pytest.mark.parametrize(("source", "target"), UNREADABLE)
def test_a_foreign_chunk_in_the_middle_of_a_stream_is_unknown(source: str, target: str) -> None:
    first, *rest = STREAMS[target]["text"]
    foreign = _dicts(source, STREAMS[source]["text"])[0]
    chunks = [*_dicts(target, [first]), foreign, *_dicts(target, rest)] if rest else [foreign, first]
    turn, events = wire_streams.run(target, chunks)
    assert (turn.error, turn.text) == (None, "Hi")
    assert "unknown" in [event.type for event in events]


def _wire(provider: str) -> str:
    package = providers.get(provider).package.rpartition(".")[2]
    return package if package in STREAMS else provider


@pytest.mark.slow
@pytest.mark.parametrize(
    "stream", [each for each in recorded_streams() if not each.path.name.endswith(".decoded.jsonl")], ids=str
)
def test_recorded_streams_of_other_wires_are_protocol_errors(stream: RecordedStream) -> None:
    source = _wire(stream.provider)
    own_error = wire_streams.run(stream.provider, [stream.data])[0].error  # its error object is one on every wire
    for target in STREAMS:
        if target == source or (source, target) in READABLE:
            continue
        half = len(stream.data) // 2
        for pieces in ([stream.data], [stream.data[:100], stream.data[100:half], stream.data[half:]]):
            turn, _ = wire_streams.run(target, pieces)
            assert turn.error is not None, target
            assert (turn.finish, turn.text, turn.calls) == (None, "", []), target
            if own_error is None or turn.error.kind != "provider_error":
                assert turn.error.kind == "protocol_error", (target, turn.error)
                assert _has_name(turn, source), (target, turn.error.message)


class SdkChunk:
    """A chunk object of an SDK."""

    def __init__(self, data: Chunk) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> Chunk:
        return self._data


@pytest.mark.parametrize(("source", "target"), [pair for pair in UNREADABLE if pair[0] != "bedrock_invoke"])
def test_objects_of_another_wires_sdk_are_protocol_errors(source: str, target: str) -> None:
    turn, _ = wire_streams.run(target, [SdkChunk(chunk) for chunk in STREAMS[source]["text"]], complete=True)
    assert turn.error is not None
    assert turn.error.kind == "protocol_error"
    assert _has_name(turn, source)


@pytest.mark.anyio
@pytest.mark.parametrize(("source", "target"), UNREADABLE)
async def test_a_run_on_another_wires_stream_is_interrupted(source: str, target: str) -> None:
    for pieces in ([_bytes(source, STREAMS[source]["text"], "text")], _dicts(source, STREAMS[source]["text"])):
        run = run_loop(lambda _, pieces=pieces: pieces, provider=target, tools=[], history=[Content.human("Hi")])  # type: ignore[misc]
        with pytest.raises(StreamInterrupted, match=f"protocol_error.*{source}"):
            await run
        assert run.ended == "error"


@pytest.mark.parametrize("source", [wire for wire in STREAMS if "bedrock" not in wire])
def test_an_error_in_the_shape_of_another_wire_is_the_providers_error(source: str) -> None:
    for target in STREAMS:
        error = STREAMS[source]["error"][0]
        if "error" not in error:
            continue
        turn, _ = wire_streams.run(target, [*_dicts(target, STREAMS[target]["text"][:1]), error])
        assert turn.error is not None
        assert turn.error.kind == "provider_error"
        assert turn.error.message == "Overloaded"


def test_legacy_completions_are_read_as_text_with_a_warning() -> None:
    start = {"id": "cmpl-1", "object": "text_completion", "model": "m"}
    parts = [("Hel", None), ("lo", "length")]
    chunks = [{**start, "choices": [{"index": 0, "text": text, "finish_reason": end}]} for text, end in parts]
    for pieces in ([wire_streams.framed("openai_chat", chunks)], chunks):
        turn, _ = wire_streams.run("openai_chat", pieces)
        assert (turn.text, turn.error) == ("Hello", None)
        assert turn.finish is not None
        assert turn.finish.reason == "length"
        assert [warning.code for warning in turn.warnings] == ["legacy_completion"]


@pytest.mark.parametrize("target", STREAMS)
def test_pages_and_text_are_protocol_errors_on_every_wire(target: str) -> None:
    for data in (
        b"<html><body>502 Bad Gateway</body></html>",
        b"404 page not found\n",
        b"upstream error\n\n",
        b"[1, 2]",
    ):
        for pieces in ([data], wire_streams.bytes_one_by_one(data)):
            turn, _ = wire_streams.run(target, pieces)
            assert turn.error is not None
            assert turn.error.kind == "protocol_error", (data, turn.error)


def test_a_framer_of_another_framing_is_not_needed_for_empty_input() -> None:
    for target in STREAMS:
        turn, _ = wire_streams.run(target, [b"\r\n  \n"])
        assert turn.error is not None
        assert turn.error.kind == "stream_truncated"
    assert framer_for("sse").feed(b"") == []


INTERACTION = {
    "id": "v1_a",
    "object": "interaction",
    "status": "completed",
    "outputs": [{"type": "text", "text": "Hi"}],
}
CONVERSATION = {"object": "conversation.response", "conversation_id": "conv_1", "outputs": [], "usage": CHAT_USAGE}
#: APIs that are not read: their names, and streams and bodies of them.
OTHER_APIS: list[tuple[str, list[Chunk]]] = [
    # https://ai.google.dev/api/interactions-api, its two sets of events
    ("Gemini's Interactions API", [
        {"event_type": "interaction.start", "interaction": {"id": "v1_a", "status": "in_progress"}},
        {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
        {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}},
        {"event_type": "interaction.complete", "interaction": INTERACTION},
    ]),
    ("Gemini's Interactions API", [
        {"event_type": "interaction.created", "interaction": {"id": "v1_a", "status": "in_progress"}},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}},
    ]),
    ("Gemini's Interactions API", [INTERACTION]),
    # https://docs.mistral.ai/api/endpoint/beta/conversations
    ("Mistral's Conversations API", [
        {"type": "conversation.response.started", "conversation_id": "conv_1", "created_at": "2026-01-01T00:00:00Z"},
        {"type": "message.output.delta", "id": "msg_1", "role": "assistant", "content": "Hi"},
        {"type": "conversation.response.done", "usage": CHAT_USAGE},
    ]),
    ("Mistral's Conversations API", [
        {"type": "function.call.delta", "id": "fc_1", "name": "f", "tool_call_id": "c", "arguments": '{"a":1}'},
    ]),
    ("Mistral's Conversations API", [CONVERSATION]),
]  # fmt: skip


@pytest.mark.parametrize(("api", "chunks"), OTHER_APIS)
@pytest.mark.parametrize("target", ["gemini", "mistral", "openai_chat", "openai_responses", "anthropic", "cohere"])
def test_a_stream_of_an_api_that_is_not_read_is_an_error_that_names_it(
    target: str, api: str, chunks: list[Chunk]
) -> None:
    stream = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    named = b"".join(
        f"event: {chunk.get('event_type', chunk.get('type'))}\ndata: {json.dumps(chunk)}\n\n".encode()
        for chunk in chunks
    )
    for pieces in (chunks, [stream], [named], wire_streams.bytes_one_by_one(stream)):
        turn, _ = wire_streams.run(target, pieces)
        assert turn.error is not None
        assert turn.error.kind == "protocol_error"
        assert turn.error.message.endswith(f"it is a stream of {api}, which is not supported")
        assert (turn.text, turn.calls, turn.executable) == ("", [], [])
