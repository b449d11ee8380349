"""Equal bytes result in equal turns for every cut, also if their framing is irregular, broken or another wire's.

The chunks are those of a text and a call, so each difference may be a call that is executable for some cuts only.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import wire_streams
from hypothesis import given
from hypothesis import strategies as st
from shared_data import CONFORMANCE_CASES

from streamkit import Limits, providers
from streamkit.framing.event_stream import encode_message
from streamkit.testing.case import encode_frame, encode_json_array, encode_stream

PROVIDERS = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama", "cohere", "bedrock_converse"]
LIMIT = 1500
BOM = b"\xef\xbb\xbf"


@cache
def chunks_of(provider: str) -> list[list[dict[str, Any]]]:
    """Return the chunks of cases with executable calls."""
    found: list[list[dict[str, Any]]] = []
    for path in sorted(CONFORMANCE_CASES.glob(f"{provider}/*.json")):
        case = json.loads(path.read_text("utf-8"))
        is_usable = "chunks" in case and not any("$times" in chunk for chunk in case["chunks"])
        if is_usable and case["expected"].get("executable") and len(json.dumps(case["chunks"])) < 4000:
            found.append(case["chunks"])
    assert found
    return found[:8]


NOISE = [
    *(b"data", b"data:", b"data: x", b"data: {}", b"data: []", b"data: [DONE]", b"data: {", b"event: a", b"event"),
    *(b'error: {"code": 500, "message": "m"}', b"error: {", b": ping", b"id: 1", b"retry: 9", b"<html>", b"{", b"}"),
    *(b"data: {}\ndata: {}", b"data: [DONE]\n\ndata: {}", b'data: {"a": "' + b"x" * LIMIT + b'"}', BOM, b"\xff\xfe"),
    *(b":" + b"x" * LIMIT, b'{"a":\n1}', b'{"error": "late"}', b'[{"a": 1}', b" " * 600, b"\0\0\0\x20"),
    encode_message({":event-type": "chunk", ":message-type": "event"}, b"{}"),
    encode_message({":exception-type": "throttlingException", ":message-type": "exception"}, b'{"message": "m"}'),
]


@st.composite
def streams(draw: st.DrawFn, provider: str) -> bytes:
    traits = providers.get(provider).traits
    chunks = draw(st.sampled_from(chunks_of(provider)))
    form = draw(st.sampled_from(["own", "own", "own", "array", "lines", "values"]))
    if form == "array":
        parts = [encode_json_array(chunks)]
    elif form in ("lines", "values"):
        indent = 1 if form == "values" else None
        parts = [json.dumps(chunk, indent=indent).encode() + b"\n" for chunk in chunks]
    else:
        parts = [encode_frame(chunk, traits) for chunk in chunks]
        if traits.end_marker is not None and draw(st.booleans()):
            parts.append(encode_stream([], traits, end_marker=traits.end_marker))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts)))
        noise = draw(st.sampled_from(NOISE)) + draw(st.sampled_from([b"", b"\n", b"\n\n", b"\r\n", b"\r"]))
        parts.insert(at, noise)
    change = draw(st.sampled_from(["none", "none", "unseparated", "some", "crlf", "cr", "end"]))
    if change == "unseparated":
        parts = [re.sub(rb"(?:\r\n|\n)+\Z", b"\n", part) for part in parts]
    elif change == "some":
        parts = [part[:-1] if part[-2:] == b"\n\n" and draw(st.booleans()) else part for part in parts]
    stream = b"".join(parts)
    if change in ("crlf", "cr") and traits.framing != "event_stream":
        stream = stream.replace(b"\r", b"").replace(b"\n", b"\r\n" if change == "crlf" else b"\r")
    elif change == "end":
        stream = stream[: draw(st.integers(0, len(stream)))]
    return draw(st.sampled_from([b"", b"", b"", BOM, b"\n", b" " * 1100])) + stream


def cut(stream: bytes, marks: list[int]) -> list[bytes]:
    return [stream[a:b] for a, b in pairwise([0, *sorted(marks), len(stream)])]


@pytest.mark.parametrize("provider", PROVIDERS)
@given(data=st.data())
def test_every_cut_of_an_irregular_stream_results_in_the_same_turn(provider: str, data: st.DataObject) -> None:
    stream = data.draw(streams(provider))
    limits = Limits(frame=data.draw(st.sampled_from([LIMIT, 300, 1 << 20])))
    ends = [match.end() for match in re.finditer(rb"\r\n|\r|\n", stream)]
    ways = [
        list(range(len(stream))),
        ends,
        [match.end() for match in re.finditer(rb"(?:\r\n|\r|\n){2}", stream)],
        [match.start() + 1 for match in re.finditer(rb"\r\n|\n\n", stream)],
        data.draw(st.lists(st.integers(0, len(stream)), max_size=6)),
        data.draw(st.lists(st.sampled_from(ends), max_size=4)) if ends else [],
    ]
    turn, seen = wire_streams.run(provider, [stream], limits=limits)
    assert turn.error is not None or turn.finish is not None
    assert turn.error is None or not turn.executable
    for marks in ways:
        other, events = wire_streams.run(provider, cut(stream, marks), limits=limits)
        assert wire_streams.summary(other) == wire_streams.summary(turn), marks
        assert wire_streams.merge_deltas(events) == wire_streams.merge_deltas(seen), marks
