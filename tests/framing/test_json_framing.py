"""NDJSON and JSON arrays: every value once, at every split, and no exception for other input."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import UsageError
from streamkit.framing import DEFAULT_LIMIT, Framer, framer_for


def splits_of(stream: bytes, seed: int = 7) -> list[list[bytes]]:
    """The stream whole, byte by byte, in twos and threes, and cut at random."""
    rough = random.Random(seed)  # noqa: S311 - only cuts
    ways = [[stream], *([stream[i : i + size] for i in range(0, len(stream), size)] for size in (1, 2, 3, 64))]
    for _ in range(5):
        marks = sorted(rough.sample(range(len(stream) + 1), min(len(stream), rough.randint(1, 6))))
        ways.append([stream[a:b] for a, b in pairwise([0, *marks, len(stream)])])
    return ways


def run(framing: str, reads: list[bytes], limit: int = DEFAULT_LIMIT) -> tuple[list[bytes], Framer]:
    framer = framer_for(framing, limit)
    frames = [frame for read in reads for frame in framer.feed(read)]
    frames += framer.close()
    assert all(name == b"" for name, _ in frames)
    return [payload for _, payload in frames], framer


def assert_every_split(framing: str, stream: bytes, expected: list[bytes], pending: bytes = b"") -> None:
    for reads in splits_of(stream):
        payloads, framer = run(framing, reads)
        assert payloads == expected, reads
        assert framer.pending == pending, reads
        assert not framer.overflow


@st.composite
def _splits(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    marks = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [stream[a:b] for a, b in pairwise([0, *marks, len(stream)])]


_strings = st.one_of(
    st.text(max_size=8), st.sampled_from(['"', "\\", '\\"', "{", "}", "[{", '"}', "\u2028", "😀", "a\nb"])
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _strings),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_strings, inner, max_size=3)),
    max_leaves=8,
)
_objects = st.dictionaries(_strings, _values, max_size=4)

# ---------------------------------------------------------------- NDJSON


def test_every_line_is_a_value() -> None:
    assert_every_split("ndjson", b'{"a":1}\n{"b":2}\n{"done":true}\n', [b'{"a":1}', b'{"b":2}', b'{"done":true}'])


def test_the_last_line_needs_no_line_feed_and_may_be_incomplete() -> None:
    assert_every_split("ndjson", b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}'])
    assert_every_split("ndjson", b'{"a":1}\n{"b"', [b'{"a":1}', b'{"b"'])


def test_carriage_returns_and_blank_lines_are_skipped() -> None:
    assert_every_split("ndjson", b'\r\n\n{"a":1}\r\n\r\n \t\n{"b":\r 2} \r\n\n', [b'{"a":1}', b'{"b":\r 2}'])
    assert_every_split("ndjson", b"", [])
    assert_every_split("ndjson", b"\n \r", [])


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    assert_every_split("ndjson", b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n", [b"{}", b"\xef\xbb\xbf{}"])


def test_a_line_is_pending_until_its_end() -> None:
    framer = framer_for("ndjson")
    assert framer.feed(b'{"a"') == []
    assert framer.pending == b'{"a"'
    assert framer.feed(b":1}\n{") == [(b"", b'{"a":1}')]
    assert framer.pending == b"{"
    assert framer.close() == [(b"", b"{")]
    assert (framer.close(), framer.feed(b"{}\n"), framer.pending) == ([], [], b"")


@given(st.data(), st.lists(_objects, max_size=5), st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.booleans())
def test_any_lines_at_any_split(data: st.DataObject, values: list[Any], end: bytes, ended: bool) -> None:
    lines = [json.dumps(value, ensure_ascii=False).encode("utf-8") for value in values]
    stream = end.join(lines) + (end if ended else b"")
    payloads, framer = run("ndjson", data.draw(_splits(stream)))
    assert payloads == lines
    assert framer.pending == b""


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_line_beyond_the_limit_stops_the_framer_at_any_split(end: bytes) -> None:
    room = 10 + len(end) - 1
    for size in (10, 11):
        stream = b"1" + end + b"2" * size + end + b"3" + end
        for reads in splits_of(stream):
            payloads, framer = run("ndjson", reads, room)
            assert framer.overflow is (size == 11)
            assert payloads == ([b"1"] if size == 11 else [b"1", b"2" * 10, b"3"])
            assert framer.pending == b""


def test_an_unfinished_line_exceeds_the_limit_at_once() -> None:
    framer = framer_for("ndjson", 10)
    assert framer.feed(b"1\n" + b"2" * 11) == [(b"", b"1")]
    assert framer.overflow
    assert framer.feed(b"\n3\n") == []
    assert framer.close() == []


@pytest.mark.parametrize("indent", [0, 1, 4, "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_values_of_several_lines(indent: int | str, end: str) -> None:
    values = [{"a": {"b": '} "{\n'}}, {"c": [{"d": 1}, {}, [{}]], "e": {}}, {"f": "g"}]
    texts = [json.dumps(value, indent=indent) for value in values]
    texts.insert(1, '{"one": "line"}')
    expected = [json.loads(text) for text in texts]
    stream = end.join(texts).replace("\n", end).encode()
    for text in (stream, stream + end.encode()):
        for reads in splits_of(text):
            payloads, framer = run("ndjson", reads)
            assert [json.loads(payload) for payload in payloads] == expected
            assert framer.pending == b""


def test_a_value_of_several_lines_is_returned_with_its_last_line() -> None:
    framer = framer_for("ndjson")
    assert framer.feed(b'{\n  "a": {\n  }\n') == []
    assert framer.pending == b'{\n"a": {\n}\n'
    assert framer.feed(b"}\n{") == [(b"", b'{\n"a": {\n}\n}')]
    assert framer.pending == b"{"


def test_a_truncated_value_of_several_lines_is_pending() -> None:
    assert_every_split("ndjson", b'{"a": 1}\n{\n"b": [\n1', [b'{"a": 1}'], b'{\n"b": [\n1\n')


def test_a_broken_line_does_not_swallow_the_next_ones() -> None:
    assert_every_split("ndjson", b'{"a": 1\n{"b": 2}\n{"c": 3}\n', [b'{"a": 1', b'{"b": 2}', b'{"c": 3}'])
    assert_every_split("ndjson", b'{"a": "b\n{"b": 2}\n', [b'{"a": "b', b'{"b": 2}'])


def test_a_value_of_several_lines_beyond_the_limit_stops_the_framer() -> None:
    for reads in splits_of(b'{"a": 1}\n{\n"b":\n"c"\n}\n{"d": 1}\n'):
        payloads, framer = run("ndjson", reads, 9)
        assert payloads == [b'{"a": 1}']
        assert framer.overflow
        assert framer.pending == b""


# ---------------------------------------------------------------- JSON arrays


def test_each_object_of_an_array_is_a_frame() -> None:
    assert_every_split(
        "json_array", b'[{"a": 1},\r\n{"b": {"c": [1, {}]}}\n,\n{}]\n', [b'{"a": 1}', b'{"b": {"c": [1, {}]}}', b"{}"]
    )


def test_an_object_needs_no_array() -> None:
    assert_every_split("json_array", b' {"a": 1} ', [b'{"a": 1}'])
    assert_every_split("json_array", b'{"a": 1}{"b": 2}\n{"c": 3}', [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}'])
    assert_every_split("json_array", b'\xef\xbb\xbf[{"a": 1}]', [b'{"a": 1}'])
    assert_every_split("json_array", b"[]", [])
    assert_every_split("json_array", b"", [])


def test_an_object_is_returned_with_its_last_brace() -> None:
    framer = framer_for("json_array")
    assert framer.feed(b'[{"a": {}') == []
    assert framer.pending == b'{"a": {}'
    assert framer.feed(b"}") == [(b"", b'{"a": {}}')]
    assert framer.feed(b',{"b": 1}, {') == [(b"", b'{"b": 1}')]
    assert framer.pending == b"{"
    assert framer.close() == []
    assert framer.pending == b"{"
    assert framer.feed(b"}") == []


def test_braces_and_quotes_inside_strings_are_text() -> None:
    tricky = json.dumps({"a{": '}"\\', "\\": "{\\\\", "b": ["]", "}{"]}).encode()
    assert_every_split("json_array", b"[" + tricky + b",\n" + tricky + b"]", [tricky, tricky])


def test_more_escapes_and_strings_than_one_pattern_matches() -> None:
    strings = json.dumps({"a": ["x"] * 2000, "b": '"\\' * 3000}).encode()
    payloads, _ = run("json_array", [strings, b"," + strings[:5000], strings[5000:]])
    assert payloads == [strings, strings]
    halves = [strings[i : i + 4097] for i in range(0, len(strings), 4097)]
    assert run("json_array", halves)[0] == [strings]


def test_text_outside_of_objects_remains_pending() -> None:
    assert_every_split("json_array", b"Internal Server Error", [], b"Internal Server Error")
    assert_every_split("json_array", b'"no {object} \\" here"', [], b'"no {object} \\" here"')
    assert_every_split("json_array", b"[1, 2]", [], b"1, 2")
    assert_every_split("json_array", b'[null, {"a": 1}]', [b'{"a": 1}'], b"null")
    assert_every_split("json_array", b"Error: {oops", [], b"Error: {oops")
    assert_every_split("json_array", b"}" * 5000, [], b"}" * 1024)


def test_half_an_object_remains_pending() -> None:
    assert_every_split("json_array", b'[{"a": 1}, {"b": "x}', [b'{"a": 1}'], b'{"b": "x}')


@given(
    st.data(),
    st.lists(_objects, max_size=5),
    st.sampled_from([None, 2]),
    st.sampled_from([("[", ",", "]"), ("[\n", "\n,\r\n", "\n]\n"), ("", "\n", ""), ("", "", "")]),
    st.booleans(),
)
def test_any_objects_at_any_split(
    data: st.DataObject, values: list[Any], indent: int | None, around: tuple[str, str, str], ascii_only: bool
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8") for value in values]
    opening, between, closing = (part.encode() for part in around)
    stream = opening + between.join(texts) + closing
    payloads, framer = run("json_array", data.draw(_splits(stream)))
    assert payloads == texts
    assert framer.pending == b""


@given(st.data(), st.binary(max_size=60), st.integers(1, 40))
def test_random_bytes_never_raise_and_any_split_is_equal(data: st.DataObject, noise: bytes, limit: int) -> None:
    stream = data.draw(
        st.sampled_from([noise, b'{"a": "' + noise + b'"}', b"[{" + noise + b"}, {}]", b'"' + noise + b"{}"])
    )
    for framing in ("ndjson", "json_array"):
        payloads, framer = run(framing, [stream], limit)
        reads = data.draw(_splits(stream))
        again, other = run(framing, reads, limit)
        assert (again, other.overflow, other.pending) == (payloads, framer.overflow, framer.pending)


def test_an_object_beyond_the_limit_stops_the_framer_at_any_split() -> None:
    for size in (20, 21):
        large = b'{"a": "' + b"x" * (size - 9) + b'"}'
        for reads in splits_of(b'[{"a": 1}, ' + large + b", {}]"):
            payloads, framer = run("json_array", reads, 20)
            assert framer.overflow is (size == 21)
            assert payloads == ([b'{"a": 1}'] if size == 21 else [b'{"a": 1}', large, b"{}"])
    framer = framer_for("json_array", 20)
    framer.feed(b'{"a": "' + b"x" * 14)
    assert framer.overflow
    assert (framer.feed(b'"}'), framer.close(), framer.pending) == ([], [], b"")


# ---------------------------------------------------------------- framer_for


def test_an_unknown_framing_is_a_usage_error() -> None:
    with pytest.raises(
        UsageError, match="unknown framing 'xml'; the framings are: sse, ndjson, event_stream, json_array"
    ):
        framer_for("xml")
    with pytest.raises(UsageError, match="at least one byte, not 0"):
        framer_for("sse", 0)
