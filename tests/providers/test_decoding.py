"""Decoding of chunks: unknown fields of structs that declare all fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Struct
from recording_sink import RecordingSink

from streamkit.providers.decoding.decoding import convert, read_json


class Part(Struct, forbid_unknown_fields=True):
    text: Any = None


class Open(Struct):
    count: Any = None


class Chunk(Struct, forbid_unknown_fields=True, rename="camel"):
    response_id: Any = None
    parts: list[Part] | None = None
    counts: Open | None = None


DECODER = msgspec.json.Decoder(Chunk)


def test_unknown_fields_are_reported_by_their_paths_and_the_others_are_read() -> None:
    data = {
        "responseId": "r",
        "new": {"a": 1},
        "absent": None,
        "parts": [{"text": "x", "odd": 1}, {"text": "y", "odd": 2, "zero": 0}],
        "counts": {"count": 1, "ignored": 2},
    }
    sink = RecordingSink()
    chunk = convert(data, Chunk, sink)
    assert chunk == Chunk("r", [Part("x"), Part("y")], Open(1))
    assert sink.recorded == [
        ("unknown_field", "parts.odd", 1),
        ("unknown_field", "parts.zero", 0),
        ("unknown_field", "new", {"a": 1}),
    ]


def test_unknown_fields_and_misfits_are_both_reported() -> None:
    sink = RecordingSink()
    assert convert({"parts": {"text": "x"}, "new": 1}, Chunk, sink) == Chunk()
    assert sink.reported == [("unknown_field", "new", 1), ("warn", "unexpected_shape")]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'"\\ud83d"', "\ud83d"),
        (b'"\xed\xa0\xbd"', "\ud83d"),
        (b'"\xed\xb8\x80 x"', "\ude00 x"),
        (b'"\xff x"', "\ufffd x"),
        (b'"\xff\xed\xa0\xbd"', "\ufffd\ufffd\ufffd\ufffd"),
    ],
)
def test_half_a_surrogate_pair_stays_and_other_broken_bytes_are_replaced(data: bytes, value: str) -> None:
    assert read_json(data) == value
