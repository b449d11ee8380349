"""SSE streams whose events are not separated by blank lines: the same frames at every cut, as soon as they arrive."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from streamkit.framing import DEFAULT_LIMIT, Frame, Framer, framer_for


def splits_of(stream: bytes) -> list[list[bytes]]:
    """Return the stream whole, in equal parts of several sizes, cut in two everywhere, and cut at random."""
    rough = random.Random(7)  # noqa: S311 - only cuts
    ways = [[stream], *([stream[i : i + size] for i in range(0, len(stream), size)] for size in (1, 2, 3, 64))]
    ways += [[stream[:cut], stream[cut:]] for cut in range(len(stream))]
    for _ in range(20):
        marks = sorted(rough.sample(range(len(stream) + 1), 5))
        ways.append([stream[a:b] for a, b in pairwise([0, *marks, len(stream)])])
    return ways


def run(reads: list[bytes], limit: int = DEFAULT_LIMIT) -> tuple[list[Frame], Framer]:
    framer = framer_for("sse", limit)
    frames = [frame for read in reads for frame in framer.feed(read)]
    return frames + framer.close(), framer


def assert_every_split(stream: bytes, expected: list[Frame], unseparated: bytes | None) -> None:
    for reads in splits_of(stream):
        frames, framer = run(reads)
        assert frames == expected, reads
        assert framer.unseparated == unseparated, reads
        assert not framer.overflow


ONE, TWO, THREE = b'{"a": "}{"}', b'{"b": [1]}', b'[{"c": null}]'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
class TestEveryLineEnd:
    def test_each_line_is_an_event(self, end: bytes) -> None:
        lines = [b"data: " + ONE, b"data:" + TWO, b"data: " + THREE, b"data: [DONE]"]
        expected = [(b"", ONE), (b"", TWO), (b"", THREE), (b"", b"[DONE]")]
        assert_every_split(end.join(lines), expected, ONE)
        assert_every_split(end.join(lines) + end, expected, ONE)
        assert_every_split(end.join(lines) + end + end, expected, ONE)

    def test_each_line_has_its_name(self, end: bytes) -> None:
        lines = [b"event: x", b"data: " + ONE, b"event: y", b": ping", b"data: " + TWO, b"id: 3", b"data: " + THREE]
        assert_every_split(end.join(lines) + end, [(b"x", ONE), (b"y", TWO), (b"y", THREE)], ONE)

    def test_some_blank_lines_are_missing(self, end: bytes) -> None:
        stream = b"event: x" + end + b"data: " + ONE + end + end
        stream += b"data: " + TWO + end + b"data: " + THREE + end + end + b"data: " + ONE + end + end
        assert_every_split(stream, [(b"x", ONE), (b"", TWO), (b"", THREE), (b"", ONE)], TWO)

    def test_an_event_of_several_lines_may_follow(self, end: bytes) -> None:
        stream = b"data: " + ONE + end + b"data: " + TWO + end + b"data: {" + end + b"data: }" + end + end
        assert_every_split(stream, [(b"", ONE), (b"", TWO), (b"", b"{\n}")], ONE)


@pytest.mark.parametrize(
    "lines",
    [
        [b"{", b'"a": 1', b"}"],
        [b'{"a": 1}', b"and an explanation"],
        [b'{"a":', b'{"b": 1}}'],
        [b"1", b"2"],
        [b'"a"', b'"b"'],
        [b"[1,", b"2]"],
    ],
)
def test_lines_that_are_not_whole_objects_are_joined(lines: list[bytes]) -> None:
    stream = b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    assert_every_split(stream, [(b"", b"\n".join(lines))], None)


def test_a_line_is_returned_by_the_read_that_completes_it() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: " + ONE + b"\n") == []  # a blank line may follow, or another line of the same event
    assert framer.feed(b"data: " + TWO + b"\n") == [(b"", ONE), (b"", TWO)]
    for _ in range(200):
        assert framer.feed(b"event: x\n: ping\ndata: " + THREE + b"\n") == [(b"x", THREE)]
        assert len(framer.pending) < 32


def test_text_between_the_lines_is_pending_until_the_next_one() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: " + ONE + b"\ndata: " + TWO + b"\n<html>\n") == [(b"", ONE), (b"", TWO)]
    assert framer.pending == b"<html>\n"
    assert framer.feed(b"data: " + THREE + b"\n") == [(b"", THREE)]
    assert framer.pending == b""
    assert framer.feed(b'junk\nerror: {"code": 1}\n') == [(b"error", b'{"code": 1}')]
    assert framer.pending == b""


def test_memory_is_bounded() -> None:
    stream = (b"data: " + ONE + b"\n") * 100
    for size in (1, 7, 40, 300, len(stream)):
        frames, framer = run([stream[i : i + size] for i in range(0, len(stream), size)], limit=64)
        assert not framer.overflow
        assert frames == [(b"", ONE)] * 100


def test_the_limit_holds_for_one_line() -> None:
    reads = [b"data: " + ONE + b"\ndata: " + TWO + b"\n", *[b"data: {" + b" " * 30] * 4]
    frames, framer = run(reads, limit=64)
    assert frames == [(b"", ONE), (b"", TWO)]
    assert framer.overflow


def test_deep_nesting_is_no_error_of_the_framer() -> None:
    deep = b"[" * 100_000
    frames, framer = run([b"data: " + deep + b"\ndata: " + deep + b"\n\n"])
    assert frames == [(b"", deep + b"\n" + deep)]
    assert framer.unseparated is None
