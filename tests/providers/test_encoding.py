"""What the encoders share."""

from __future__ import annotations

import json

import pytest

from streamkit import providers
from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.history import Content, ToolCallBlock
from streamkit.providers.writing.content_events import (
    default_finish_reason,
    raw_call_id,
    split_text,
    streamed_arguments,
)
from streamkit.providers.writing.encoding import encode_json, encode_sse_event, text_or_json, uncached_input_tokens


@pytest.mark.parametrize(
    ("text", "size", "parts"),
    [("", 4, []), ("abc", 4, ["abc"]), ("abcd", 4, ["abcd"]), ("abcdefghi", 4, ["abcd", "efgh", "i"])],
)
def test_a_text_is_split_into_parts_of_a_size(text: str, size: int, parts: list[str]) -> None:
    assert split_text(text, size) == parts


@pytest.mark.parametrize(("value", "text"), [(None, ""), ("a", "a"), ({"a": "ü"}, '{"a":"ü"}'), (0, "0")])
def test_a_value_that_is_no_text_is_json(value: object, text: str) -> None:
    assert text_or_json(value) == text


def test_json_is_compact_and_not_escaped() -> None:
    assert encode_json({"a": ["ü", 1]}) == '{"a":["ü",1]}'.encode()


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    assert encode_json({"a": "ü\ud83d"}) == b'{"a":"\\u00fc\\ud83d"}'


def test_a_server_sent_event_has_a_name_and_a_payload() -> None:
    assert encode_sse_event("ping", {"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_the_default_finish_reason_depends_on_the_calls() -> None:
    assert default_finish_reason(Content.ai("Hi")) == "stop"
    assert default_finish_reason(Content.ai("Hi", ToolCallBlock(id="x", name="f"))) == "tool_calls"


@pytest.mark.parametrize(("raw_id", "expected"), [("toolu_1", "toolu_1"), ("", None), (7, None), (None, None)])
def test_the_raw_id_of_a_call_is_a_text_that_is_not_empty(raw_id: object, expected: str | None) -> None:
    assert raw_call_id(ToolCallBlock(id="x", name="f", metadata={"raw_id": raw_id})) == expected


def test_arguments_are_written_as_compact_json() -> None:
    assert json.loads(streamed_arguments(ToolCallBlock(id="x", name="f", parameters={"a": 1}))) == {"a": 1}
    assert streamed_arguments(ToolCallBlock(id="x", name="f", parameters={})) == ""


def test_arguments_that_never_were_an_object_are_written_unchanged() -> None:
    assert streamed_arguments(ToolCallBlock(id="x", name="f", metadata={"raw_arguments": '{"a":'})) == '{"a":'


def test_parameters_that_are_no_object_are_written_as_an_object() -> None:
    assert streamed_arguments(ToolCallBlock(id="x", name="f", parameters="ls", kind="custom")) == '{"input":"ls"}'


def test_uncached_tokens_are_the_rest_of_the_prompt() -> None:
    assert uncached_input_tokens(Usage(input_tokens=30, cache_read_tokens=4, cache_write_tokens=1)) == 25
    assert uncached_input_tokens(Usage(input_tokens=3, cache_read_tokens=4)) == 0
    assert uncached_input_tokens(Usage()) == 0


@pytest.mark.parametrize("name", providers.names())
def test_a_delta_has_at_least_one_character(name: str) -> None:
    with pytest.raises(UsageError, match=r"delta_size .* at least 1"):
        providers.get(name).emit(Content.ai("Hi"), response_id="r", model="m", delta_size=0)
