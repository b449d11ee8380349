"""``application/vnd.amazon.eventstream``: lengths, checksums, headers; botocore as the judge of both directions."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from wire_streams import amazon_frame

from streamkit.framing import Frame, Framer, event_stream, framer_for
from streamkit.framing.event_stream import encode_message

EVENT = {":event-type": "contentBlockDelta", ":content-type": "application/json", ":message-type": "event"}


def read(reads: list[bytes], limit: int = 1 << 20) -> tuple[list[Frame], Framer]:
    framer = framer_for("event_stream", limit)
    frames = [frame for read in reads for frame in framer.feed(read)]
    return frames + framer.close(), framer


def ways(data: bytes) -> list[list[bytes]]:
    """Whole, byte by byte, and cut in two at every place."""
    return [
        [data],
        [data[at : at + 1] for at in range(len(data))],
        *([data[:at], data[at:]] for at in range(len(data))),
    ]


def with_headers(headers: bytes, payload: bytes = b"{}") -> bytes:
    """A frame whose headers are these bytes."""
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def header(name: str, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + bytes([kind]) + value


TEXT = header(":event-type", 7, struct.pack("!H", 5) + b"chunk")


def test_frames_are_the_same_at_every_split() -> None:
    stream = (
        encode_message(EVENT, b'{"a": 1}')
        + encode_message({**EVENT, ":event-type": "messageStop"}, b"")
        + encode_message(EVENT, b"x")
    )
    for reads in ways(stream):
        frames, framer = read(reads)
        assert frames == [(b"contentBlockDelta", b'{"a": 1}'), (b"messageStop", b""), (b"contentBlockDelta", b"x")]
        assert (framer.overflow, framer.error, framer.pending) == (False, None, b"")


def test_a_frame_is_returned_with_the_byte_that_completes_it() -> None:
    framer, data = framer_for("event_stream"), encode_message(EVENT, b"{}")
    assert framer.feed(data[:-1]) == []
    assert framer.pending == data[:-1]
    assert framer.feed(data[-1:]) == [(b"contentBlockDelta", b"{}")]


def test_an_exception_differs_from_an_event_of_the_same_name() -> None:
    headers = {":exception-type": "throttlingException", ":message-type": "exception"}
    assert read([encode_message(headers, b'{"message":"x"}')])[0] == [
        (b"exception:throttlingException", b'{"message":"x"}')
    ]
    event = {":event-type": "throttlingException", ":message-type": "event"}
    assert read([encode_message(event, b"{}")])[0] == [(b"throttlingException", b"{}")]


def test_an_error_has_its_message_in_a_header() -> None:
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": "it broke"}
    assert read([encode_message(headers, b"")])[0] == [(b"exception:InternalError", b"it broke")]
    assert read([encode_message(headers, b"{}")])[0] == [(b"exception:InternalError", b"{}")]
    assert read([encode_message({":message-type": "error"}, b"")])[0] == [(b"exception:", b"")]


def test_a_message_without_headers_is_an_event_without_a_name() -> None:
    assert read([encode_message({}, b"{}")])[0] == [(b"", b"{}")]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (0, b""),
        (1, b""),
        (2, b"\x80"),
        (3, b"\x80\x00"),
        (4, b"\x00\x00\x00\x07"),
        (5, b"\xff" * 8),
        (6, b"\x00\x03abc"),
        (7, b"\x00\x03abc"),
        (8, b"\x00" * 8),
        (9, b"0123456789abcdef"),
    ],
)
def test_every_type_of_header_is_known(kind: int, value: bytes) -> None:
    odd = header("odd", kind, value)
    for headers in (odd + TEXT, TEXT + odd):
        data = with_headers(headers)
        assert read([data])[0] == [(b"chunk", b"{}")]
        assert botocore_reads(data)[0][0][":event-type"] == "chunk"  # it is a real frame
    frames, framer = read([with_headers(TEXT + odd[: len(odd) - len(value) - 1])])
    assert (frames, framer.error) == ([], "the headers of a message are invalid")


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05ab",
        b"\x00",
        b"\x01a\x0a",
        b"\x01a\x07",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x02x",
        b"\x01a\x09abc",
        TEXT + b"\x01",
    ],
)
def test_invalid_headers_stop_the_framer(headers: bytes) -> None:
    for reads in ways(with_headers(headers) + encode_message(EVENT, b"{}")):
        frames, framer = read(reads)
        assert frames == []
        assert framer.error == "the headers of a message are invalid"
        assert framer.overflow


def test_a_wrong_bit_anywhere_stops_the_framer() -> None:
    first, second, third = (encode_message(EVENT, b'{"n":%d}' % number) for number in range(3))
    for at in range(len(second)):
        broken = bytearray(second)
        broken[at] ^= 4
        frames, framer = read([first + bytes(broken) + third])
        assert frames == [(b"contentBlockDelta", b'{"n":0}')]
        assert framer.error is not None
        assert "checksum" in framer.error
        again, other = read([(first + bytes(broken) + third)[n : n + 3] for n in range(0, 3 * len(first), 3)])
        assert (again, other.error, other.pending, other.overflow) == (frames, framer.error, framer.pending, True)
        assert framer.feed(third) == []
        framer = framer_for("event_stream")
        assert [framer.feed(read) for read in (first, bytes(broken), third)][1:] == [
            [],
            [],
        ]  # each in a read of its own


@pytest.mark.parametrize(("total", "headers"), [(15, 0), (20, 5), (0, 0), (16, 0xFFFFFFFF), (200_016, 131_073)])
def test_impossible_lengths_with_a_valid_checksum_are_an_error(total: int, headers: int) -> None:
    prelude = struct.pack("!II", total, headers)
    for reads in ways(prelude + struct.pack("!I", zlib.crc32(prelude)) + b"more"):
        frames, framer = read(reads)
        assert frames == []
        assert framer.error == f"a message has impossible lengths: {total} bytes with {headers} of headers"


def test_input_that_is_not_an_event_stream_remains_pending() -> None:
    page = b"<html>" + b"x" * 5000
    for reads in ([page], [page[at : at + 100] for at in range(0, len(page), 100)]):
        frames, framer = read(reads)
        assert (frames, framer.overflow, framer.pending) == ([], False, page[:1024])
        assert framer.error is not None
    frames, framer = read([b"no"])  # too short for a length
    assert (frames, framer.error, framer.pending) == ([], None, b"no")


def test_a_frame_beyond_the_limit_stops_the_framer_before_it_is_complete() -> None:
    small, large = encode_message(EVENT, b"{}"), encode_message(EVENT, b"{" + b" " * 200 + b"}")
    for limit in (len(large), len(large) - 1):
        for reads in ways(small + large + small):
            frames, framer = read(reads, limit)
            assert framer.overflow is (limit < len(large))
            assert len(frames) == (1 if framer.overflow else 3)
            assert framer.error is None
    framer = framer_for("event_stream", 100)
    assert framer.feed(large[:12]) == []
    assert (framer.overflow, framer.pending) == (True, b"")


def test_nothing_is_returned_after_close() -> None:
    framer = framer_for("event_stream")
    framer.feed(encode_message(EVENT, b"{}")[:20])
    assert framer.close() == []
    assert framer.feed(encode_message(EVENT, b"{}")[20:]) == []
    assert framer.pending == encode_message(EVENT, b"{}")[:20]


def test_many_kinds_of_headers_do_not_grow_memory() -> None:
    framer = framer_for("event_stream")
    for number in range(200):
        assert framer.feed(encode_message({":event-type": f"event{number}"}, b"{}")) == [(b"event%d" % number, b"{}")]
    assert len(framer._names) <= 64  # type: ignore[attr-defined]


def test_cost_is_linear_in_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:

    checked = [0]

    def counted(data: bytes, start: int = 0) -> int:
        checked[0] += len(data)
        return zlib.crc32(data, start)

    monkeypatch.setattr(event_stream, "crc32", counted)
    data = encode_message(EVENT, b"x" * 20_000) * 3
    checked[0] = 0
    assert len(read([data[at : at + 1] for at in range(len(data))])[0]) == 3
    assert checked[0] < 1.1 * len(data)


# ---------------------------------------------------------------- botocore


def botocore_reads(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(event.headers, event.payload) for event in buffer]


headers_of_text = st.dictionaries(
    st.text(min_size=1, max_size=20).filter(lambda name: len(name.encode()) < 256), st.text(max_size=40), max_size=5
)


@given(st.lists(st.tuples(headers_of_text, st.binary(max_size=200)), max_size=4))
def test_botocore_reads_encoded_messages(messages: list[tuple[dict[str, str], bytes]]) -> None:
    data = b"".join(encode_message(headers, payload) for headers, payload in messages)
    assert botocore_reads(data) == messages


@given(st.lists(st.tuples(st.sampled_from(["a", "messageStop"]), st.binary(max_size=80)), max_size=5), st.data())
def test_random_frames_at_random_splits(events: list[tuple[str, bytes]], data: st.DataObject) -> None:
    stream = b"".join(
        amazon_frame({":message-type": "event", ":event-type": name}, payload) for name, payload in events
    )
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reads = [stream[begin:end] for begin, end in zip([0, *places], [*places, len(stream)], strict=True)]
    frames, framer = read(reads)
    assert frames == [(name.encode(), payload) for name, payload in events]
    assert [(headers[":event-type"].encode(), payload) for headers, payload in botocore_reads(stream)] == frames
    assert framer.error is None


@given(st.binary(max_size=300), st.booleans(), st.integers(1, 40))
def test_random_bytes_never_raise_at_any_split(noise: bytes, behind: bool, size: int) -> None:
    stream = (encode_message(EVENT, b"{}") if behind else b"") + noise
    frames, framer = read([stream], 200)
    again, other = read([stream[at : at + size] for at in range(0, len(stream), size)], 200)
    assert (again, other.error, other.overflow, other.pending) == (
        frames,
        framer.error,
        framer.overflow,
        framer.pending,
    )


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 20))
def test_random_headers_with_valid_checksums_never_raise(headers: bytes, payload: bytes, size: int) -> None:
    stream = with_headers(headers, payload) + encode_message(EVENT, b"{}")
    frames, framer = read([stream])
    again, other = read([stream[at : at + size] for at in range(0, len(stream), size)])
    assert (again, other.error, other.pending) == (frames, framer.error, framer.pending)
    assert (framer.error is None) == (len(frames) == 2)
