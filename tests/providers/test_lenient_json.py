"""JSON of any shape, and the limit of what a parser buffers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streamkit.calls import StreamError
from streamkit.providers.decoding.decoding import (
    arguments_as_text,
    frame_error,
    json_or_placeholder,
    parse_json_or_text,
)
from streamkit.providers.decoding.finish_reasons import read_finish_reason
from streamkit.providers.provider import Sink


class ErrorSink:
    """A sink that keeps the errors."""

    def __init__(self) -> None:
        self.errors: list[StreamError] = []

    def fail(self, error: StreamError) -> None:
        self.errors.append(error)


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("error", "kind"), [(RecursionError(), "limit_exceeded"), (ValueError("line 1"), "protocol_error")]
)
def test_a_frame_that_cannot_be_decoded_is_an_error_with_an_excerpt(error: Exception, kind: str) -> None:
    result = frame_error(error, b"<html>")
    assert (result.kind, result.raw) == (kind, "<html>")


@pytest.mark.parametrize(("text", "value"), [('{"a":1}', {"a": 1}), ('{"a":', '{"a":'), ("[" * 100_000, "[" * 100_000)])
def test_text_that_is_not_json_stays_text(text: str, value: Any) -> None:
    assert parse_json_or_text(text) == value


@pytest.mark.parametrize(("value", "text"), [("{", "{"), (None, ""), ({"a": "ü"}, '{"a":"ü"}'), ([1, 2], "[1,2]")])
def test_arguments_of_any_type_are_text(value: Any, text: str) -> None:
    sink = ErrorSink()
    assert arguments_as_text(value, cast("Sink", sink)) == text
    assert sink.errors == []


def test_arguments_that_are_nested_too_deeply_end_the_turn() -> None:
    sink = ErrorSink()
    assert arguments_as_text(nested(), cast("Sink", sink)) == ""
    assert [error.kind for error in sink.errors] == ["limit_exceeded"]


def test_a_value_that_cannot_be_written_has_a_placeholder() -> None:
    assert json_or_placeholder({"a": 1}) == '{"a":1}'
    assert json_or_placeholder(nested()) == "something nested too deeply"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [("END", ("END", "stop")), ("NEW", ("NEW", "other")), (4, (4, "other")), (True, ("true", "other"))],
)
def test_a_finish_reason_of_any_type_has_a_meaning(raw: Any, expected: Any) -> None:
    assert read_finish_reason(raw, {"END": "stop"}) == expected
