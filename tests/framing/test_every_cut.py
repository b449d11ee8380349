"""What a framer returned, and what it is, depend on the bytes so far and not on how they were split into reads.

The judge is the framer that was fed byte by byte: no fast path reads a single byte, so it is the slow machine alone.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.framing import Frame, Framer, framer_for
from streamkit.framing.event_stream import encode_message

BOM = b"\xef\xbb\xbf"
ROOMY = 1 << 20


class State(NamedTuple):
    """What a reader of a framer may depend on, after some bytes of a stream."""

    frames: list[Frame]
    overflow: bool
    error: str | None
    unseparated: bool
    pending: bytes


def state_of(framer: Framer, frames: list[Frame]) -> State:
    return State(frames.copy(), framer.overflow, framer.error, framer.unseparated is not None, framer.pending)


def read(framer: Framer, data: bytes) -> list[Frame]:
    """Read as ``Turn.feed`` does."""
    whole = framer.take(data)
    return framer.feed(data) if whole is None else [(framer.name, whole)]


def feed(framer: Framer, data: bytes) -> list[Frame]:
    return framer.feed(data)


def states_by_bytes(framing: str, stream: bytes, limit: int) -> list[State]:
    """Return the states after each byte, before the first and after the end."""
    framer = framer_for(framing, limit)
    frames: list[Frame] = []
    states = [state_of(framer, frames)]
    for at in range(len(stream)):
        frames += framer.feed(stream[at : at + 1])
        states.append(state_of(framer, frames))
    frames += framer.close()
    return [*states, state_of(framer, frames)]


def assert_every_cut(framing: str, stream: bytes, ways: list[list[int]], limit: int = ROOMY) -> State:
    """Check the state after each read of each way of cutting, and return the last one."""
    expected = states_by_bytes(framing, stream, limit)
    for marks in ways:
        for takes in (True, False):
            framer = framer_for(framing, limit)
            frames: list[Frame] = []
            for start, end in pairwise([0, *sorted(marks), len(stream)]):
                frames += (read if takes else feed)(framer, stream[start:end])
                assert state_of(framer, frames) == expected[end], (marks, end)
            frames += framer.close()
            assert state_of(framer, frames) == expected[-1], marks
    return expected[-1]


def line_ends(stream: bytes) -> list[int]:
    return [match.end() for match in re.finditer(rb"\r\n|\r|\n", stream)]


def ways_of(stream: bytes) -> list[list[int]]:
    """The stream whole, in reads of some sizes, cut at line ends, inside of their pairs, and in two everywhere."""
    ends = line_ends(stream)
    blank = [match.end() for match in re.finditer(rb"(?:\r\n|\r|\n){2}", stream)]
    inside = [match.start() + 1 for match in re.finditer(rb"\r\n|\n\n|\r\r", stream)]
    sizes = [list(range(0, len(stream), size)) for size in (2, 3, 7, 64)]
    return [[], *sizes, ends, blank, inside, *([at] for at in range(len(stream)))]


@st.composite
def marks_of(draw: st.DrawFn, stream: bytes) -> list[list[int]]:
    anywhere = st.lists(st.integers(0, len(stream)), max_size=6)
    ends = line_ends(stream)
    ways = [draw(anywhere), draw(anywhere), *ways_of(stream)[:8]]
    if ends:
        ways.append(draw(st.lists(st.sampled_from(ends), max_size=6)))
    return ways


# ---------------------------------------------------------------- server-sent events

ONE, TWO = b'{"a": 1}', b'{"b": [2]}'
UNSEPARATED = b"data: " + ONE + b"\ndata: " + TWO + b"\n"

_values = st.one_of(
    st.sampled_from([ONE, TWO, b"{}", b"[DONE]", b"[DONE] ", b"{", b"}", b"1", b"", b" ", b"x", BOM, b"\xff\x80"]),
    st.integers(1, 40).map(lambda size: b'{"x": "' + b"y" * size + b'"}'),
    st.binary(max_size=5).map(lambda raw: raw.translate(None, b"\r\n")),
)
_lines = st.one_of(
    st.builds(bytes.__add__, st.sampled_from([b"data: ", b"data: ", b"data:"]), _values),
    st.sampled_from(
        [
            *(b"data: " + ONE, b"data: " + TWO, b"data: [DONE]", b"data", b"data:", b"event: a", b"event: b", b"event"),
            *(b'error: {"code": 1}', b"error: {", b"error: no", b"error", b": ping", b":", b"id: 1", b"retry: 5"),
            *(b"junk", b"<html>", b'{"error": 1}', b"[DONE]", b"Data: x", b" data: x", b"\xff\xfe", BOM, b" "),
        ]
    ),
)
_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def sse_streams(draw: st.DrawFn) -> bytes:
    parts = [draw(st.sampled_from([b"", b"", b"", BOM, BOM[:2]]))]
    steady = draw(st.one_of(st.none(), _ends))
    separated = draw(st.sampled_from([0, 1, 2, 3]))  # of 3 lines
    for line in draw(st.lists(_lines, max_size=12)):
        parts += [line, steady or draw(_ends)]
        if draw(st.integers(1, 3)) <= separated:
            parts.append(steady or draw(_ends))
    parts.append(draw(st.one_of(st.just(b""), _lines)))
    return b"".join(parts)


SSE_CASES = {
    "a bare line of data within unseparated events": UNSEPARATED + b"data\ndata: {}\n\ndata: x\n\n",
    "a bare line of data between two documents": b"data: {}\ndata\ndata: {}\n\n",
    "a bare line of data before two documents": b"data\ndata: {}\ndata: {}\n\n",
    "a document, text, and two documents": b"data: {}\ndata: x\ndata: {}\ndata: {}\n\n",
    "a name after the first document": b"data: {}\nevent: a\ndata: {}\n\n",
    "a name after an unseparated document": UNSEPARATED + b"event: a\n\ndata: {}\n\n",
    "separated events under the name of unseparated ones": UNSEPARATED + b"event: a\ndata: {}\n" + b"data: {}\n\n" * 3,
    "an error between documents": b'event: a\ndata: {}\nerror: {"code": 1}\ndata: {}\n\n',
    "an error before a document": b'event: a\nerror: {"code": 1}\ndata: {}\ndata: {}\n\n',
    "half an error within unseparated events": UNSEPARATED + b"error: {\ndata: {}\n",
    "unseparated events after a separated one": b"data: {}\n\n" + UNSEPARATED * 3 + b"\n",
    "a separated event after unseparated ones": UNSEPARATED + b"\ndata: {}\n\ndata: 1\n\n",
    "many comments between unseparated events": (b"data: {}\n" + b": ping\n" * 70) * 2 + b"data: {}\n",
    "many lines before the second document": b"data: {}\n" + b"id: 1\n" * 70 + b"data: {}\n\n",
    "garbage after an event": b"data: {}\n\n<html>\n\n{oops\n",
    "half an event at the end": b"data: {}\n\nevent: a\nda",
    "text before the first event": b"HTTP/1.1 200 OK\n\njunk\r\ndata: {}\r\n\r\n",
    "other bytes than UTF-8": b"data: \xff\xfe\n\n\xffdata: {}\n\ndata: {\xff}\ndata: {}\n\n",
    "a byte order mark in the middle": BOM + b"data: {}\n\n" + BOM + b"data: {}\ndata: {}\n\n",
}


@pytest.mark.parametrize("limit", [12, 20, 21, 30, 60, ROOMY])
@pytest.mark.parametrize("name", SSE_CASES)
def test_irregular_events(name: str, limit: int) -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        stream = SSE_CASES[name].replace(b"\n", end)
        assert_every_cut("sse", stream, ways_of(stream), limit)


@given(data=st.data(), stream=sse_streams(), limit=st.one_of(st.integers(5, 70), st.just(ROOMY)))
def test_any_events(data: st.DataObject, stream: bytes, limit: int) -> None:
    assert_every_cut("sse", stream, data.draw(marks_of(stream)), limit)


@given(data=st.data(), prefix=sse_streams(), similar=st.integers(1, 6), end=_ends, limit=st.sampled_from([40, ROOMY]))
def test_similar_events_after_any_bytes(
    data: st.DataObject, prefix: bytes, similar: int, end: bytes, limit: int
) -> None:
    """The fast paths begin in any state of the machine."""
    head = data.draw(st.sampled_from([b"data: ", b"event: a" + end + b"data: "]))
    payload = data.draw(st.sampled_from([ONE, b"x"]))
    event = head + payload + end + end
    stream = prefix + event * similar + data.draw(sse_streams())
    each = [len(prefix) + number * len(event) for number in range(similar + 1)]
    assert_every_cut("sse", stream, [*data.draw(marks_of(stream)), each, each[::2], [len(prefix)]], limit)


# ---------------------------------------------------------------- JSON and event streams

_texts = st.sampled_from(
    [
        *(b"{}", b'{"a": "}"}', b'{"a": "\\"{"}', b'{\n"a":\n1}', b'{"a": {"b": [', b"]}}", b'"', b'\\"', b"\\"),
        *(b"[", b"]", b",", b"\n", b"\r\n", b" ", b"null", b"<html>", BOM, b"\xff", b"{", b"}", b'{"a": "b\n'),
    ]
)


@pytest.mark.parametrize("framing", ["ndjson", "json_array"])
@given(
    data=st.data(),
    texts=st.lists(st.one_of(_texts, st.just(b"\n")), max_size=14),
    limit=st.one_of(st.integers(1, 30), st.just(ROOMY)),
)
def test_any_json(framing: str, data: st.DataObject, texts: list[bytes], limit: int) -> None:
    stream = b"".join(texts)
    assert_every_cut(framing, stream, data.draw(marks_of(stream)), limit)


_messages = st.one_of(
    st.builds(
        lambda name, payload: encode_message({":event-type": name, ":message-type": "event"}, payload),
        st.sampled_from(["a", "messageStop"]),
        st.sampled_from([b"", b"{}", b"x" * 50]),
    ),
    st.just(encode_message({":message-type": "error", ":error-code": "E", ":error-message": "m"}, b"")),
)


@given(
    data=st.data(),
    messages=st.lists(_messages, max_size=4),
    damage=st.sampled_from(["none", "bit", "cut", "tail"]),
    limit=st.sampled_from([70, 120, ROOMY]),
)
def test_any_messages(data: st.DataObject, messages: list[bytes], damage: str, limit: int) -> None:
    stream = bytearray(b"".join(messages))
    if damage == "bit" and stream:
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "cut":
        del stream[data.draw(st.integers(0, len(stream))) :]
    elif damage == "tail":
        stream += data.draw(st.binary(max_size=30))
    ends = [sum(map(len, messages[:number])) for number in range(len(messages))]
    ways = [*data.draw(marks_of(bytes(stream))), [end for end in ends if end <= len(stream)]]
    assert_every_cut("event_stream", bytes(stream), ways, limit)


@given(values=st.lists(st.sampled_from([{"a": "\u2028\x85é"}, {"b": [{}]}, {}]), max_size=4), end=_ends)
def test_the_judge_reads_what_was_written(values: list[Any], end: bytes) -> None:
    stream = b"".join(b"data: " + json.dumps(value, ensure_ascii=False).encode() + end * 2 for value in values)
    last = assert_every_cut("sse", stream, ways_of(stream))
    assert [json.loads(payload) for _, payload in last.frames] == values


_MESSAGES = [encode_message({":event-type": "a", ":message-type": "event"}, b'{"x": %d}' % x) for x in range(3)]


@pytest.mark.parametrize(
    ("framing", "frames"),
    [
        ("sse", [b"data: " + ONE + b"\n\n"] * 3),
        ("sse", [b"event: a\r\ndata: " + ONE + b"\r\n\r\n"] * 3),
        ("ndjson", [ONE + b"\n"] * 3),
        ("event_stream", _MESSAGES),
    ],
)
def test_a_read_of_one_usual_frame_is_taken_whole(framing: str, frames: list[bytes]) -> None:
    framer = framer_for(framing)
    taken = framer.feed(frames[0])
    for frame in frames[1:]:
        payload = framer.take(frame)
        assert payload is not None
        taken.append((framer.name, payload))
    assert taken == framer_for(framing).feed(b"".join(frames))
