"""Cost is linear in the bytes, for reads of every size. Bytes touched are counted; nothing is timed."""

from __future__ import annotations

import re
from typing import Any, SupportsIndex

import pytest
from compiled import interpreted_only

from streamkit.framing import DEFAULT_LIMIT, framer_for, sse
from streamkit.framing import ndjson as json_array


class Count:
    """Bytes that were read or copied."""

    touched = 0


class Piece(bytes):
    """A read that counts the bytes of every operation on it and on what is cut out of it."""

    def _of(self, value: Any) -> Any:
        Count.touched += len(value)
        return Piece(value)

    def __add__(self, other: Any) -> Any:
        return self._of(bytes(self) + bytes(other))

    def __radd__(self, other: Any) -> Any:
        return self._of(bytes(other) + bytes(self))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return self._of(found) if isinstance(key, slice) else found

    def __contains__(self, key: Any) -> bool:
        Count.touched += len(self)
        return super().__contains__(key)

    def find(self, *args: Any) -> int:
        Count.touched += len(self)
        return super().find(*args)

    def rfind(self, *args: Any) -> int:
        Count.touched += len(self)
        return super().rfind(*args)

    def partition(self, mark: Any) -> Any:
        Count.touched += len(self)
        return tuple(self._of(part) for part in super().partition(mark))

    def split(self, sep: Any = None, maxsplit: SupportsIndex = -1) -> Any:
        Count.touched += len(self)
        return [self._of(part) for part in super().split(sep, maxsplit)]

    def replace(self, *args: Any) -> Any:
        Count.touched += len(self)
        return self._of(super().replace(*args))

    def removeprefix(self, prefix: Any) -> Any:
        return self._of(super().removeprefix(prefix))

    def strip(self, *args: Any) -> Any:
        Count.touched += len(self)
        return self._of(super().strip(*args))


class Kept(bytearray):
    """A framer's buffer that counts what goes in and out."""

    def __iadd__(self, other: Any) -> Kept:  # type: ignore[misc]
        Count.touched += len(other)
        return super().__iadd__(other)

    def __bytes__(self) -> Piece:
        Count.touched += len(self)
        return Piece(memoryview(self))


STRING_REST = json_array._STRING_REST


class Pattern:
    """A compiled pattern that counts what it runs over."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern

    def match(self, data: bytes, at: int) -> re.Match[bytes] | None:
        found = self._pattern.match(data, at)
        assert found
        stop = found.end()
        Count.touched += stop - at + 1
        if data[stop : stop + 1] == b'"':  # it stopped at a string after it had looked for its end
            rest = STRING_REST.match(data, stop + 1)
            assert rest
            Count.touched += rest.end() - stop
        return found


def touched_by(framer: Any, stream: bytes, size: int) -> tuple[int, int]:
    """Bytes touched, and frames given, for a stream in reads of *size* bytes."""
    for buffer in ("_buffer", "_line", "_more", "_strays"):
        if hasattr(framer, buffer):
            setattr(framer, buffer, Kept())
    Count.touched = frames = 0
    for at in range(0, len(stream), size):
        frames += len(framer.feed(Piece(stream[at : at + size])))
    frames += len(framer.close())
    return Count.touched, frames


def one_event(size: int) -> bytes:
    return b'data: {"text": "' + b"x" * size + b'"}\n\n'


def one_event_of_lines(size: int) -> bytes:
    return b"data: a line\r\n" * (size // 14) + b"\r\n"


def many_events(size: int) -> bytes:
    return b'event: a\ndata: {"text": "x"}\n\nevent: b\ndata: {"text": "y"}\n\n' * (size // 60)


def many_data_lines(size: int) -> bytes:
    return b'data: {"text":\n' + b'data: "x",\n' * (size // 11)


def short_lines(size: int) -> bytes:
    return (b"data\n" + b":\n" * 5) * (size // 15) + b"\n"


def unseparated_events(size: int) -> bytes:
    return b'event: a\ndata: {"text": ["x", {}]}\n' * (size // 35)


def long_unseparated_events(size: int) -> bytes:
    return (b'data: {"text": "' + b"x" * (size // 3) + b'"}\n') * 3


def text_instead(size: int) -> bytes:
    return b"<p>\n<br>\n\n" * (size // 10) + b"data: 1\n\n"


def one_object(size: int) -> bytes:
    return b'[{"text": "' + b'\\"x {' * (size // 5) + b'"}]'


def many_values(size: int) -> bytes:
    return b'{"text": ["x", {}]}\n' * (size // 20)


SHAPES = [
    ("sse", one_event),
    ("sse", one_event_of_lines),
    ("sse", many_events),
    ("sse", many_data_lines),
    ("sse", short_lines),
    ("sse", unseparated_events),
    ("sse", long_unseparated_events),
    ("sse", text_instead),
    ("ndjson", one_object),
    ("ndjson", many_values),
    ("json_array", one_object),
    ("json_array", many_values),
]


@pytest.mark.slow
@interpreted_only
@pytest.mark.parametrize(("framing", "shape"), SHAPES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("size", [1, 64, 4096, 1 << 20])
def test_twice_the_bytes_cost_twice_as_much(
    framing: str, shape: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_INSIDE", "_OUTSIDE", "_STRING_REST"):
        monkeypatch.setattr(json_array, name, Pattern(getattr(json_array, name)))

    def cost(length: int) -> float:
        framer = framer_for(framing)
        stream = shape(length)
        touched, frames = touched_by(framer, stream, size)
        assert frames >= 1
        assert not framer.overflow
        return touched / len(stream)

    small, large = cost(20_000), cost(40_000)
    assert 1 <= small < 25  # so much is read and copied for one byte of the stream, at most
    assert large < small * 1.2 + 0.5


@interpreted_only
@pytest.mark.parametrize("shape", [unseparated_events, long_unseparated_events, many_data_lines, short_lines])
@pytest.mark.parametrize("size", [1, 64, 4096, 1 << 20])
def test_each_line_is_tried_as_json_once(shape: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = [0]

    def check(value: bytes) -> object:
        tried[0] += len(value)
        return decode(value)

    decode = sse._check_json
    monkeypatch.setattr(sse, "_check_json", check)
    stream = shape(20_000)
    touched_by(framer_for("sse"), stream, size)
    assert tried[0] <= len(stream)


@interpreted_only
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 8_000_000,
        b"data: x\n" * 1_000_000,
        b"data: {}\n" * 3 + b"data: {" + b" " * 8_000_000,
        b"data: 1\n\ndata: 2\n\n" + b"x" * 8_000_000 + b"\n\ndata: 3\n\n",
    ],
    ids=["line", "lines", "unseparated", "between"],
)
def test_an_event_far_beyond_the_limit_is_not_read_to_its_end(stream: bytes) -> None:
    limit = 100_000
    for size in (1000, 64 * 1024, len(stream)):
        framer = framer_for("sse", limit)
        touched, frames = touched_by(framer, stream, size)
        assert framer.overflow
        assert frames == (3 if stream[6:7] == b"{" else 2 if stream[6:7] == b"1" else 0)
        # It is cut into reads of at most a megabyte, of which the first is split; of the others nothing is read.
        assert touched < 20 * max(limit, min(size, 1 << 20))


def test_the_count_detects_a_framer_that_joins_every_read() -> None:
    class Joining:
        overflow, pending = False, b""

        def __init__(self) -> None:
            self._tail: bytes = Piece()

        def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
            *events, self._tail = (self._tail + data).split(b"\n\n")
            return [(b"", event) for event in events]

        def close(self) -> list[tuple[bytes, bytes]]:
            return []

    small, _ = touched_by(Joining(), one_event(20_000), 64)
    large, _ = touched_by(Joining(), one_event(40_000), 64)
    assert large > small * 3.5


def test_an_event_of_many_megabytes_is_read_in_reads_of_any_size() -> None:
    event = one_event(8_000_000)
    for size in (64 * 1024, 1000):
        framer = framer_for("sse", DEFAULT_LIMIT)
        frames = [frame for at in range(0, len(event), size) for frame in framer.feed(event[at : at + size])]
        assert frames == [(b"", event[6:-2])]
