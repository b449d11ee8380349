"""Nothing after the end of a turn changes it: no error, warning, usage, finish or call, wherever the bytes are cut."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import CONFORMANCE_CASES

from streamkit import Limits, Turn, providers
from streamkit.framing.event_stream import encode_message
from streamkit.testing.case import encode_stream

#: Their wires have no terminator, so a turn ends with its body.
ENDLESS = {"gemini", "perplexity"}


def streams_of(provider: str) -> list[tuple[list[dict[str, Any]], bytes]]:
    """Return the streams of the cases that end a turn without an error: the chunks, and the bytes up to the end."""
    traits = providers.get(provider).traits
    found: list[tuple[list[dict[str, Any]], bytes]] = []
    for path in sorted(CONFORMANCE_CASES.glob(f"{provider}/*.json")):
        case = json.loads(path.read_text("utf-8"))
        if "chunks" not in case or len(case.get("inputs", "1234")) < 4 or len(found) == 12:
            continue
        if any("$times" in chunk for chunk in case["chunks"]):
            continue
        turn, data = Turn(provider, "turn-1"), b""
        frames = [encode_stream([chunk], traits) for chunk in case["chunks"]]
        for frame in [
            *frames,
            *([encode_stream([], traits, end_marker=traits.end_marker)] if traits.end_marker else []),
        ]:
            data += frame
            turn.feed(frame)
            if turn.done and turn.error is None:
                found.append((case["chunks"], data))
                break
    return found


STREAMS = {name: streams for name in providers.names() if (streams := streams_of(name))}
by_provider = pytest.mark.parametrize("provider", STREAMS)

LONG = b"x" * 200_000
AFTER: dict[str, list[bytes]] = {
    "sse": [
        b'data: {"a": 1}\ndata: {"b": 2}\n\n',  # unseparated events
        b'data: {"error": {"message": "late", "code": 500}}\n\n',
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "late"}}\n\n',
        b'error: {"code": 500, "message": "late"}\n\n',
        b"data: " + LONG + b"\n\n",  # beyond the limit
        b"data: {oops\n\n<html>\n\n{",
        b"data: [DONE]\n\ndata: \xff\xfe\n\n",
        b"\r\n\r\r\n: ping\r\ndata",
    ],
    "ndjson": [b'{"error": "late"}\n', b'{"a": "' + LONG + b'"}\n', b"{oops\n<html>\n", b'{"done": true}\n\xff\xfe\n{'],
    "event_stream": [
        encode_message(
            {":message-type": "exception", ":exception-type": "throttlingException"}, b'{"message": "late"}'
        ),
        encode_message({":message-type": "event", ":event-type": "metadata"}, LONG),
        b"\0\0\0\x20garbage that is no message",
        b"\0\0",
    ],
}


def result(turn: Turn, seen: list[Any]) -> Any:
    return wire_streams.summary(turn), wire_streams.merge_deltas(seen)


def cuts(data: bytes, end: int, after: bytes) -> list[list[bytes]]:
    """The bytes whole, cut at the end of the turn and around it, and at random; byte by byte up to a size."""
    chance = random.Random(len(data))  # noqa: S311 - only cuts
    ways = [[data], [data[:end], data[end:]], [data[: end - 1], data[end - 1 :]], [data[: end + 1], data[end + 1 :]]]
    marks = sorted(chance.sample(range(len(data)), min(6, len(data))))
    ways.append([data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)])
    if len(after) < 1000 and end < 20_000:
        ways.append(wire_streams.bytes_one_by_one(data))
    return ways


@by_provider
def test_no_byte_after_the_end_changes_a_turn(provider: str) -> None:
    framing = providers.get(provider).traits.framing
    limits = Limits(frame=100_000)
    for _, data in STREAMS[provider]:
        expected = result(*wire_streams.run(provider, [data], limits=limits))
        for after in [*AFTER[framing], data, data[: len(data) // 2]]:
            for parts in cuts(data + after, len(data), after):
                turn, seen = wire_streams.run(provider, parts, limits=limits)
                assert result(turn, seen) == expected, (after[:60], [len(part) for part in parts][:9])


class ChunkObject:
    """An object that dumps to plain data, as those of the SDKs do."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def model_dump(self, **_: Any) -> Any:
        return self._data


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@by_provider
def test_no_chunk_after_the_end_changes_a_turn(provider: str) -> None:
    after: list[Any] = [
        {"error": {"message": "late", "code": 500}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "late"}},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, "choices": []},
        {"throttlingException": {"message": "late"}},
        {},
        nested(5000),
    ]
    ended = 0
    for chunks, _ in STREAMS[provider]:
        for wrap in (lambda chunk: chunk, ChunkObject):
            turn = Turn(provider, "turn-1")
            seen: list[Any] = []
            read = 0
            while read < len(chunks) and not turn.done:
                seen += turn.feed(wrap(copy.deepcopy(chunks[read])))
                read += 1
            if not turn.done:
                continue
            ended += 1
            before = wire_streams.summary(turn)
            for chunk in [*after, *chunks]:
                assert turn.feed(wrap(copy.deepcopy(chunk) if chunk is not after[-1] else chunk)) == []
            assert wire_streams.summary(turn) == before
            again, other = wire_streams.run(provider, map(wrap, copy.deepcopy(chunks[:read])))
            assert result(turn, seen + turn.close()) == result(again, other)
    has_marker = providers.get(provider).traits.end_marker is not None
    assert ended or has_marker  # the marker is no chunk


def test_every_wire_with_a_terminator_is_tested() -> None:
    with_cases = {path.name for path in CONFORMANCE_CASES.iterdir() if path.name in providers.names()}
    assert with_cases - STREAMS.keys() == ENDLESS


def test_a_frame_at_the_end_of_the_body_that_follows_the_terminator_is_not_read() -> None:
    chunks = [wire_streams.chat_call('{"a": 1}', id="c", name="f"), wire_streams.chat({}, "tool_calls")]
    data = wire_streams.chat_bytes(chunks, done=False) + b'data: [DONE]\ndata: {"error": {"message": "late"}}'
    for parts in wire_streams.cuts(data):
        turn, _ = wire_streams.run("openai_chat", parts)
        assert turn.error is None
        assert [call.arguments for call in turn.executable] == [{"a": 1}]
        assert [warning.code for warning in turn.warnings] == ["events_unseparated"]


def test_unseparated_events_before_the_end_warn_and_those_after_it_do_not() -> None:
    chunks = [wire_streams.chat({"content": "a"}), wire_streams.chat({}, "stop")]
    one, two = (wire_streams.chat_bytes([chunk], done=False) for chunk in chunks)
    done, junk = b"data: [DONE]\n\n", b"data: {}\ndata: {}\n\n"
    for data, codes in (
        (one + two + done + junk, []),
        (one[:-1] + two + done + junk, ["events_unseparated"]),
        (one + two[:-1] + done + junk, ["events_unseparated"]),
        (one[:-1] + two[:-1] + done + done + junk, ["events_unseparated"]),
    ):
        for parts in wire_streams.cuts(data):
            turn, _ = wire_streams.run("openai_chat", parts)
            assert [warning.code for warning in turn.warnings] == codes
            assert turn.error is None


@pytest.mark.parametrize("kind", ["limit", "broken"])
def test_nothing_after_an_error_that_ends_a_turn_changes_it(kind: str) -> None:
    start = wire_streams.chat_bytes([wire_streams.chat({"content": "a"})], done=False)
    end = b"data: " + LONG + b"\n\n" if kind == "limit" else b"data: {oops\n\n"
    data = start + end + start + b"data: {}\ndata: {}\n\ndata: " + LONG
    limits = Limits(frame=100_000)
    expected = result(*wire_streams.run("openai_chat", [start + end], limits=limits))
    for parts in ([data], [start, data[len(start) :]], [data[at : at + 500] for at in range(0, len(data), 500)]):
        turn, seen = wire_streams.run("openai_chat", parts, limits=limits)
        assert turn.error is not None
        assert result(turn, seen) == expected


@by_provider
@given(data=st.data())
def test_any_bytes_after_the_end_at_any_cut(provider: str, data: st.DataObject) -> None:
    framing = providers.get(provider).traits.framing
    _, stream = data.draw(st.sampled_from(STREAMS[provider]))
    short = [after for after in AFTER[framing] if len(after) < 1000]
    after = b"".join(data.draw(st.lists(st.one_of(st.sampled_from(short), st.binary(max_size=8)), max_size=4)))
    marks = sorted(data.draw(st.lists(st.integers(0, len(stream + after)), max_size=5)))
    whole = stream + after
    parts = [whole[a:b] for a, b in zip([0, *marks], [*marks, len(whole)], strict=True)]
    assert result(*wire_streams.run(provider, parts)) == result(*wire_streams.run(provider, [stream]))
