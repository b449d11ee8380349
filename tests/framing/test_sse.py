"""Server-sent events: every shape, every cut, against a line parser that knows nothing of speed."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.framing import Frame, Framer, framer_for

BOM = b"\xef\xbb\xbf"
ROOMY = 1 << 20


def reference(stream: bytes, *, closed: bool = True, limit: int = ROOMY) -> tuple[list[Frame], bool]:
    """Return the frames by the letter of the rules, and whether one exceeds the limit; closed: with the last one."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(BOM))
    frames: list[Frame] = []
    name, values, text = b"", [], []
    is_unseparated = False
    for line in [*lines[:-1], *([lines[-1], b""] if closed else [])]:
        if not line:
            if values:
                frames.append((name, b"\n".join(value for _, value in values)))
            name, values, text = b"", [], []
            continue
        text.append(line)
        if len(b"\n".join(text)) > limit:
            return frames, True
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"error" and value.startswith(b"{") and not values:
            frames.append((b"error", value))
            text = []
        elif field == b"data":
            values.append((name, value))
            documents = [_is_document(value) for _, value in values]
            is_unseparated = is_unseparated or documents == [True, True]
            if is_unseparated and all(documents):
                frames += values
                values, text = [], []
        elif field == b"event":
            name = value
    return frames, False


def _is_document(line: bytes) -> bool:
    """Return True if a data line is a JSON object or array, or the usual end marker."""
    try:
        return line.strip() == b"[DONE]" or isinstance(json.loads(line), (dict, list))
    except ValueError:
        return False


def frames_of(stream: bytes, *, closed: bool = True) -> list[Frame]:
    return reference(stream, closed=closed)[0]


def take_or_feed(framer: Framer, data: bytes) -> list[Frame]:
    """Read as ``Turn.feed`` does."""
    whole = framer.take(data)
    return framer.feed(data) if whole is None else [(framer.name, whole)]


def run(reads: list[bytes], limit: int = ROOMY) -> tuple[list[Frame], Framer]:
    framer, same = framer_for("sse", limit), framer_for("sse", limit)
    frames = [frame for read in reads for frame in take_or_feed(framer, read)]
    assert frames == [frame for read in reads for frame in same.feed(read)]
    assert (framer.pending, framer.overflow, framer.unseparated) == (same.pending, same.overflow, same.unseparated)
    return frames + framer.close(), framer


def splits_of(stream: bytes, seed: int = 7) -> list[list[bytes]]:
    """The stream whole, byte by byte, in twos and threes, and cut at random."""
    rough = random.Random(seed)  # noqa: S311 - only cuts
    ways = [[stream], *([stream[i : i + size] for i in range(0, len(stream), size)] for size in (1, 2, 3, 64))]
    for _ in range(5):
        marks = sorted(rough.sample(range(len(stream) + 1), min(len(stream), rough.randint(1, 6))))
        ways.append([stream[a:b] for a, b in pairwise([0, *marks, len(stream)])])
    return ways


def assert_every_split(stream: bytes, expected: list[Frame], pending: bytes | None = None) -> None:
    for reads in splits_of(stream):
        frames, framer = run(reads)
        assert frames == expected, reads
        assert not framer.overflow
        if pending is not None:
            assert framer.pending == pending, reads


CHUNK = b'{"choices":[{"delta":{"content":"a"}}]}'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
class TestEveryLineEnd:
    def test_data_only_events(self, end: bytes) -> None:
        stream = (b"data: " + CHUNK + end + end) * 5 + b"data: [DONE]" + end + end
        assert_every_split(stream, [(b"", CHUNK)] * 5 + [(b"", b"[DONE]")], b"")

    def test_named_events(self, end: bytes) -> None:
        one = b"event: content_block_delta" + end + b"data: " + CHUNK + end + end
        two = b"event: ping" + end + b"data: {}" + end + end
        expected = [(b"content_block_delta", CHUNK), (b"content_block_delta", CHUNK), (b"ping", b"{}")] * 2
        assert_every_split((one + one + two) * 2, expected, b"")

    def test_names_do_not_stay(self, end: bytes) -> None:
        stream = b"event: a" + end + b"data: 1" + end + end + b"data: 2" + end + end
        assert_every_split(stream, [(b"a", b"1"), (b"", b"2")])

    def test_data_lines_are_joined_by_line_feeds(self, end: bytes) -> None:
        stream = b"data: {" + end + b'data:  "a": 1' + end + b"data:}" + end + b"data" + end + end
        assert_every_split(stream, [(b"", b'{\n "a": 1\n}\n')])

    def test_comments_and_other_fields_say_nothing(self, end: bytes) -> None:
        stream = end.join(
            [
                b": hello",
                b"",
                b"",
                b"id: 1",
                b"retry: 3",
                b"",
                b"id: 2",
                b": in between",
                b"event: x",
                b"data: 1",
                b"odd: y",
            ]
        )
        assert_every_split(stream + end + end, [(b"x", b"1")], b"")

    def test_extra_blank_lines_are_nothing(self, end: bytes) -> None:
        assert_every_split(end * 3 + b"data: 1" + end * 5 + b"data: 2" + end * 4, [(b"", b"1"), (b"", b"2")], b"")

    def test_the_last_name_wins(self, end: bytes) -> None:
        assert_every_split(b"event: a" + end + b"data: 1" + end + b"event: b" + end + end, [(b"b", b"1")])
        assert_every_split(b"event: a" + end + b"data: 1" + end + b"event" + end + end, [(b"", b"1")])

    def test_an_event_without_data_is_none(self, end: bytes) -> None:
        stream = b"event: a" + end + end + b"data: 1" + end + end + b"event: b" + end + end
        assert_every_split(stream, [(b"", b"1")], b"")

    def test_the_last_event_needs_no_blank_line(self, end: bytes) -> None:
        for last in (b"", end):
            assert_every_split(
                b"data: 1" + end + end + b"event: x" + end + b"data: 2" + last, [(b"", b"1"), (b"x", b"2")], b""
            )


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"data: x"], (b"", b"x")),
        ([b"data: "], (b"", b"")),
        ([b"data:x"], (b"", b"x")),
        ([b"event: a", b"data: x"], (b"a", b"x")),
        ([b"event: a", b"data:x"], (b"a", b"x")),
        ([b"event: a", b"id: 1", b"data: x"], (b"a", b"x")),
        ([b"event: a", b"data: x", b"data: y"], (b"a", b"x\ny")),
        ([b"data: x", b"event: a"], (b"a", b"x")),
        ([b"id: 1", b"data: x"], (b"", b"x")),
        ([b": note", b"event: a", b"data: x"], (b"a", b"x")),
    ],
)
def test_one_event_a_read(end: bytes, lines: list[bytes], expected: Frame) -> None:
    framer = framer_for("sse")
    event = end.join([*lines, b"", b""])
    before = end.join([b"event: b", b"data: y", b"", b""])
    for _ in range(3):
        assert framer.feed(event) == [expected]
    assert framer.feed(before) == [(b"b", b"y")]
    assert framer.feed(event) == [expected]
    assert framer.feed(event + event + before + event) == [expected, expected, (b"b", b"y"), expected]


def test_line_ends_of_two_kinds_in_one_event() -> None:
    framer = framer_for("sse")
    framer.feed(b"data: 0\n\n")
    assert framer.feed(b"data: a\rdata: b\n\n") == [(b"", b"a\nb")]
    assert framer.feed(b"data: a\rdata: b\r\n\r\n") == [(b"", b"a\nb")]
    assert framer.feed(b"data: a\n\r\n") == [(b"", b"a")]
    assert framer.feed(b"data: a\r\n\n") == [(b"", b"a")]
    assert framer.feed(b"event: a\rdata: b\n\n") == [(b"a", b"b")]
    assert framer.feed(b"event: a\rid: 1\ndata: b\r\n\r\n") == [(b"a", b"b")]
    assert framer.feed(b"event: a\nid: 1\ndata: b\r\n\r\n") == [(b"a", b"b")]
    assert framer.feed(b"data: a\r\r\n") == [(b"", b"a")]


def test_examples_of_the_standard() -> None:
    assert_every_split(b"data: YHOO\ndata: +2\ndata: 10\n\n", [(b"", b"YHOO\n+2\n10")])
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event"
    assert_every_split(stream, [(b"", b"first event"), (b"", b"second event"), (b"", b" third event")])
    # the standard drops the last block for want of a blank line; here the reader gets it and judges
    assert_every_split(b"data\n\ndata\ndata\n\ndata:", [(b"", b""), (b"", b"\n"), (b"", b"")])
    assert_every_split(b"data:test\n\ndata: test\n\n", [(b"", b"test"), (b"", b"test")])
    assert_every_split(
        b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n", [(b"add", b"73857293"), (b"remove", b"2153")]
    )


def test_a_byte_order_mark_is_skipped_once_and_only_at_the_start() -> None:
    assert_every_split(BOM + b"data: 1\n\n" + BOM + b"data: 2\n\ndata: 3\n\n", [(b"", b"1"), (b"", b"3")])
    assert_every_split(BOM + b"\r\n" + b"data: 1\r\n\r\n", [(b"", b"1")])
    assert_every_split(b"\xef\xbbdata: 1\n\n", [])


def test_unicode_line_separators_are_text() -> None:
    payload = '{"t":"a\u2028b\u0085c\u2029d\x0b\x0c\x1c"}'.encode()
    assert_every_split(b"data: " + payload + b"\n\n", [(b"", payload)])


def test_delimiters_inside_a_payload_are_text() -> None:
    payload = b'{"text":"data: event: x\\n\\ndata: y"}'
    named = b"event: data: x\ndata: " + payload + b"\n\n"
    assert_every_split(named * 3 + b"data: " + payload + b"\n\n", [(b"data: x", payload)] * 3 + [(b"", payload)])


def test_an_event_is_returned_at_its_last_line_end_also_a_carriage_return() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: 1\r") == []
    assert framer.feed(b"\r") == [(b"", b"1")]
    assert framer.feed(b"\ndata: 2\r\n\r") == [(b"", b"2")]
    assert framer.feed(b"\n") == []
    assert framer.feed(b"data: 3\n") == []
    assert framer.feed(b"\r") == [(b"", b"3")]


def test_a_line_feed_after_a_split_carriage_return_ends_no_second_line() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: 1\r") == []
    assert framer.feed(b"") == []
    assert framer.feed(b"\ndata: 2\r") == []
    assert framer.feed(b"\n") == []
    assert framer.feed(b"\n") == [(b"", b"1\n2")]


def test_an_earlier_carriage_return_consumes_no_line_feed() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: 1\r\r") == [(b"", b"1")]
    assert framer.feed(b"data: 2\n\n") == [(b"", b"2")]
    assert framer.feed(b"data: 3") == []
    assert framer.feed(b"\n") == []
    assert framer.feed(b"\n") == [(b"", b"3")]


def test_a_carriage_return_before_the_last_read_consumes_no_line_feed() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: 1\r") == []
    assert framer.feed(b"data: 2") == []
    assert framer.feed(b"\n") == []
    assert framer.feed(b"\n") == [(b"", b"1\n2")]


# ---------------------------------------------------------------- what is left


def test_a_body_that_is_not_an_event_stream_remains_pending() -> None:
    page = b"<html>\r\n<body>502 Bad Gateway</body>\r\n</html>\r\n"
    assert_every_split(page, [], b"<html>\n<body>502 Bad Gateway</body>\n</html>")
    assert_every_split(b"upstream connect error", [], b"upstream connect error")
    assert_every_split(b'{"error": {"message": "no"}}\n', [], b'{"error": {"message": "no"}}')


def test_the_first_kibibyte_of_text_with_blank_lines_remains() -> None:
    assert_every_split(b"one\n\n: not this\n\ntwo\n\nthree", [], b"one\ntwo\nthree")
    page = b"".join(b"<p>%d</p>\n\n" % number for number in range(1000))
    for reads in [*splits_of(page), *splits_of(page + b"the end")]:
        _, framer = run(reads)
        assert framer.pending.startswith(b"<p>0</p>\n<p>1</p>\n")
        assert len(framer.pending) == 1024


def test_the_first_kibibyte_of_a_long_line_remains() -> None:
    body = b'{"error": "' + b"x" * 5000 + b'"}'
    assert_every_split(body, [], body[:1024])


def test_a_body_of_comments_leaves_nothing() -> None:
    assert_every_split(b": ping\n\n: ping\n\nid: 4\nretry: 100\n\n: pi", [], b"")
    assert_every_split(b"", [], b"")
    assert_every_split(b"\n\n\r\n", [], b"")


def test_text_before_the_first_event_is_discarded() -> None:
    assert_every_split(b"HTTP/1.1 200 OK\n\ndata: 1\n\n", [(b"", b"1")], b"")
    assert_every_split(b"HTTP/1.1 200 OK\ndata: 1\n\n", [(b"", b"1")], b"")


def test_half_an_event_at_the_end_remains_pending() -> None:
    assert_every_split(b"data: 1\n\neve", [(b"", b"1")], b"eve")
    assert_every_split(b"data: 1\n\nevent: mess", [(b"", b"1")], b"event: mess")
    assert_every_split(b"data: 1\n\nevent: message\nda", [(b"", b"1")], b"event: message\nda")
    assert_every_split(b'data: 1\n\nevent: m\ndata: {"a', [(b"", b"1"), (b"m", b'{"a')], b"")
    assert_every_split(BOM[:2], [], BOM[:2])


def test_pending_shows_the_unfinished_event() -> None:
    framer = framer_for("sse")
    framer.feed(b"\xef")
    assert framer.pending == b"\xef"
    framer.feed(BOM[1:] + b"data: 1\n\ndata: {")
    assert framer.pending == b"data: {"
    framer.feed(b"}")
    assert framer.pending == b"data: {}"
    framer.feed(b"\n\n")
    assert framer.pending == b""


def test_nothing_more_is_returned_after_close() -> None:
    framer = framer_for("sse")
    assert framer.feed(b"data: 1\n\ndata: 2") == [(b"", b"1")]
    assert framer.close() == [(b"", b"2")]
    assert framer.close() == []
    assert framer.feed(b"data: 3\n\n") == []
    assert framer.pending == b""


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_an_event_at_the_limit_passes_and_one_byte_more_does_not(end: bytes) -> None:
    def stream(size: int) -> bytes:
        return b"data: 1" + end + end + b"data: " + b"x" * (size - 6) + end + end + b"data: 2" + end + end

    for reads in splits_of(stream(40)):
        frames, framer = run(reads, 40)
        assert [payload for _, payload in frames] == [b"1", b"x" * 34, b"2"]
        assert not framer.overflow
    for reads in splits_of(stream(41)):
        frames, framer = run(reads, 40)
        assert frames == [(b"", b"1")]
        assert framer.overflow
        assert framer.pending == b""


def test_an_unfinished_event_exceeds_the_limit_at_once_and_is_discarded() -> None:
    framer = framer_for("sse", 100)
    assert framer.feed(b"data: " + b"x" * 94) == []
    assert not framer.overflow
    assert framer.feed(b"x") == []
    assert framer.overflow
    assert framer.pending == b""
    assert framer.feed(b"\n\ndata: 1\n\n") == []
    assert framer.close() == []


def test_the_limit_applies_to_one_event_a_read() -> None:
    for end in (b"\n", b"\r\n"):
        framer = framer_for("sse", 20)
        assert framer.feed(b"data: 1" + end + end) == [(b"", b"1")]
        assert framer.feed(b"data: " + b"x" * 14 + end + end) == [(b"", b"x" * 14)]
        assert framer.feed(b"data: " + b"x" * 15 + end + end) == []
        assert framer.overflow


def test_blank_lines_do_not_count_toward_the_limit() -> None:
    stream = (b"\n" + b"data: " + b"x" * 14 + b"\n\n\n") * 3
    for reads in [*splits_of(stream), [b"\n" * 100 + stream + b"\n" * 101]]:
        frames, framer = run(reads, 20)
        assert frames == [(b"", b"x" * 14)] * 3
        assert not framer.overflow


def test_a_read_may_be_longer_than_the_limit() -> None:
    frames, framer = run([b"data: 12345\n\n" * 100], 20)
    assert frames == [(b"", b"12345")] * 100
    assert not framer.overflow


# ---------------------------------------------------------------- any stream, any cut

_text = st.one_of(
    st.sampled_from(
        [b"", b" ", b"{}", b"[]", b"[DONE]", CHUNK, b"data: ", b"a: b", b":", "\u2028é😀".encode(), b"event: x", BOM]
    ),
    st.binary(max_size=6).map(lambda raw: raw.translate(None, b"\r\n")),
)
_line = st.one_of(
    st.just(b""),
    st.builds(bytes.__add__, st.sampled_from([b"data: ", b"data:", b"event: ", b"event:", b":", b"id: "]), _text),
    st.builds(bytes.__add__, st.sampled_from([b"data: ", b"event: "]), _text),
    st.sampled_from([b"data", b"event", b"id", b"retry: 5", b"dat", b"Data: x", b" data: x", b"other: x", b"<html>"]),
)
_end = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def _streams(draw: st.DrawFn) -> bytes:
    parts = [draw(st.sampled_from([b"", b"", BOM, BOM[:2]]))]
    steady = draw(st.one_of(st.none(), _end))
    for line in draw(st.lists(_line, max_size=14)):
        parts += [line, steady or draw(_end)]
        if draw(st.booleans()):
            parts.append(steady or draw(_end))
    parts.append(draw(st.one_of(st.just(b""), _line)))
    return b"".join(parts)


@st.composite
def _cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(_streams())
    # one event a read is what networks do, and the way of the fast path; and then some cuts anywhere
    ends = [match.end() for match in re.finditer(rb"(?:\r\n|\r|\n){2}", stream)] if draw(st.booleans()) else []
    marks = sorted([*ends, *draw(st.lists(st.integers(0, len(stream)), max_size=8 if not ends else 1))])
    return stream, [stream[a:b] for a, b in pairwise([0, *marks, len(stream)])]


UNSEPARATED = b"data: {}\nevent: a\ndata\ndata: []\n\ndata: {}\ndata: []\nevent: b\ndata: {}\n"


@given(_cut_streams())
@example((b"data: a\r\n\r\n", [b"data: a\r\n\r", b"\n"]))
@example((UNSEPARATED, [UNSEPARATED[:20], UNSEPARATED[20:]]))
@example((b"data: a\n\ndata: b\ndata: c\n\n", [b"data: a\n\n", b"data: b\n", b"data: c\n\n"]))
def test_any_stream_at_any_split_equals_a_line_parser(case: tuple[bytes, list[bytes]]) -> None:
    stream, reads = case
    framer = framer_for("sse")
    fed, given = b"", []
    for read in reads:
        fed += read
        given += framer.feed(read)
        assert given == frames_of(fed, closed=False)  # at once: no event waits for the next read
    assert given + framer.close() == frames_of(stream)
    whole = framer_for("sse")
    whole.feed(stream)
    whole.close()
    assert framer.pending == whole.pending


@given(_cut_streams(), st.integers(3, 30))
def test_the_limit_applies_to_the_same_event_at_any_split(case: tuple[bytes, list[bytes]], limit: int) -> None:
    stream, reads = case
    frames, framer = run(reads, limit)
    assert (frames, framer.overflow) == reference(stream, limit=limit)


@given(st.lists(st.binary(max_size=30), max_size=6), st.integers(1, 40))
def test_random_bytes_never_raise(reads: list[bytes], limit: int) -> None:
    frames, framer = run(reads, limit)
    assert framer.overflow or frames == frames_of(b"".join(reads))


def test_an_error_field_with_an_object_is_an_event_of_that_name() -> None:
    # https://github.com/ggml-org/llama.cpp/pull/16109
    for end in ("\n", "\r\n", "\r"):
        stream = f'data: 1{end}{end}error: {{"code":500}}{end}{end}error:{{"code":400}}'.encode()
        assert_every_split(stream, [(b"", b"1"), (b"error", b'{"code":500}'), (b"error", b'{"code":400}')])


def test_an_error_field_with_text_is_an_unknown_field() -> None:
    assert_every_split(b"error: boom\n\ndata: 1\nerror: {}\n\n", [(b"", b"1")])


@pytest.mark.parametrize("size", range(50, 70))
def test_a_second_line_after_a_long_name_is_read_in_a_whole_event_too(size: int) -> None:
    """Names that are remembered have a limit; what comes after it decides as well."""
    event = b"event: " + b"n" * size + b"\nevent: b\ndata: y\n\n"
    for stream in (event, b"event: a\ndata: 1\n\n" + event):
        frames, _ = run(re.split(rb"(?<=\n\n)", stream)[:-1])
        assert frames[-1] == (b"b", b"y")
