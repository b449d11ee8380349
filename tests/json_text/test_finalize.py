"""Argument text by example; the general rules are in the properties."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamkit.json_text import (
    IncrementalJsonObject,
    JsonObjectScanner,
    deepest_nesting,
    finalize_arguments,
    join_surrogates,
    parse_partial_object,
)


@pytest.mark.parametrize("text", ["", " ", "\n", "null", " null\n"])
def test_empty_text_is_no_arguments(text: str) -> None:
    settled = finalize_arguments(text)
    assert (settled.state, settled.arguments, settled.text) == ("complete", {}, text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"',
        '{"a',
        '{"a"',
        '{"a":',
        '{"a":"b',
        '{"a":"\\',
        '{"a":"\\u00e',
        '{"a":-',
        '{"a":1.',
        '{"a":1e',
        '{"a":1e+',
        '{"a":t',
        '{"a":nul',
        '{"a":1',
        '{"a":1,',
        '{"a":[',
        '{"a":[1,',
        '{"a":[{"b":',
        '{ "a" : { "b" : [ ] ',
    ],
)
def test_true_prefixes_are_incomplete(text: str) -> None:
    assert finalize_arguments(text).state == "incomplete"


@pytest.mark.parametrize(
    "text",
    [
        "{a",
        "{'a'",
        '{"a" 1',
        '{"a":1 2',
        '{"a":1]',
        '{"a":01',
        '{"a":.5',
        '{"a":+1',
        '{"a":1.e',
        '{"a":tru e',
        '{"a":truth',
        '{"a":NaN',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":"\n',
        '{"a":tru ',
        '{"a":1. ',
        '{"a":"\\u00 ',
        '{"a":"\\x',
        '{"a":"\\u00g',
        '{"a":1,}',
        "{,",
        "{]",
        "}",
        "]",
        "hello",
        "1",
        "true",
        "[1]",
        '["a"',
        '"text"',
        '{"action": list_windows"}',
    ],
)
def test_text_that_is_neither_an_object_nor_its_prefix_is_invalid(text: str) -> None:
    settled = finalize_arguments(text)
    assert settled.state == "invalid"
    assert settled.arguments is None
    assert settled.problem


def test_the_problem_contains_the_position() -> None:
    problem = finalize_arguments('{"ok": 1, "action": list_windows}').problem
    assert problem is not None
    assert "20" in problem
    assert "list_windows" in problem


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' {"a":1} ', {"a": 1}),
        ('{"a":{"b":[1,{"c":null}]}}', {"a": {"b": [1, {"c": None}]}}),
        ('{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"a":1e400}', None),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"":""}', {"": ""}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    ],
)
def test_objects(text: str, value: Any) -> None:
    settled = finalize_arguments(text)
    if value is not None:
        assert (settled.state, settled.arguments) == ("complete", value)
    assert settled.text == text


def test_junk_is_named_in_the_warning() -> None:
    settled = finalize_arguments('{"a":1}</tool_call>')
    assert settled.state == "complete"
    assert settled.warning is not None
    assert "</tool_call>" in settled.warning[1]
    assert settled.text == '{"a":1}</tool_call>'


def test_a_restatement_counts_only_if_the_joined_text_is_invalid() -> None:
    assert finalize_arguments('{"a":{"a":1}}', '{"a":1}}').arguments == {"a": {"a": 1}}
    assert finalize_arguments('{"a":{"a":1}', '{"a":1}').state == "incomplete"
    restated = finalize_arguments('{"a":1{"a":1}', '{"a":1}')
    assert (restated.arguments, restated.text) == ({"a": 1}, '{"a":1}')
    assert restated.warning is not None
    assert restated.warning[0] == "arguments_restated"
    assert finalize_arguments('{"a":1{"a":', '{"a":').state == "invalid"
    assert finalize_arguments('{"a":1{"a":1}x', '{"a":1}x').state == "invalid"


def test_lone_surrogates_are_replaced_in_keys_and_values() -> None:
    settled = finalize_arguments('{"\\ud83d":["\\ude00"]}')
    assert settled.arguments == {"\ufffd": ["\ufffd"]}
    assert settled.warning is not None
    assert settled.warning[0] == "lone_surrogate"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"b', {"a": "b"}),
        ('{"a":1,"b":[1,2,', {"a": 1, "b": [1, 2]}),
        ('{"a":"x","b', {"a": "x"}),
        ("{", {}),
        ("", {}),
        ("[1,2", {}),
        ("nonsense", {}),
        ('{"a":"\ud83d', {"a": "\ufffd"}),
    ],
)
def test_partial_views(text: str, value: Any) -> None:
    assert parse_partial_object(text) == value


def test_the_scanner_counts_braces_outside_of_strings() -> None:
    scanner = JsonObjectScanner()
    for delta in (' {"a":"}', "\\", '"}', '","b":{', "}}", "}"):
        scanner.feed(delta)
    assert scanner.closed_at == len(' {"a":"}\\"}","b":{}}')
    assert scanner.deepest == 2


def test_split_surrogate_pairs_are_joined() -> None:
    assert join_surrogates("plain") == "plain"
    assert join_surrogates("é\U0001f600") == "é\U0001f600"
    assert join_surrogates("\ud83d" + "\ude00") == "\U0001f600"
    assert join_surrogates("a\ude00b") == "a\ufffdb"


def test_nesting() -> None:
    assert deepest_nesting('{"a":{"b":1}}') == 2
    assert deepest_nesting("{" * 300 + "}" * 300) == 300
    assert deepest_nesting('{"a":[' + "{}," * 300 + "{}]}") == 3


def test_the_view_is_the_same_dict_and_grows() -> None:
    view = IncrementalJsonObject()
    view.feed('{"city":"Os')
    first = view.value
    assert first == {"city": "Os"}
    view.feed('lo","days":1')
    assert view.value is first
    assert first == {"city": "Oslo", "days": 1}
    view.feed("2")
    assert view.value == {"city": "Oslo", "days": 12}
    view.feed(".")
    assert view.value == {"city": "Oslo"}
    view.feed('5,"sky":["gr')
    assert view.value == {"city": "Oslo", "days": 12.5, "sky": ["gr"]}
    view.feed('ey",true,nul')
    assert view.value == {"city": "Oslo", "days": 12.5, "sky": ["grey", True]}


def test_a_number_takes_the_place_of_an_earlier_one_only_while_it_is_one() -> None:
    view = IncrementalJsonObject()
    view.feed('{"a":1,"a":2')
    assert view.value == {"a": 2}
    view.feed(".")
    assert view.value == {"a": 1}
    view.feed("5")
    assert view.value == {"a": 2.5}


def test_half_of_a_pair_is_shown_as_u_fffd_until_the_other_half_is_received() -> None:
    view = IncrementalJsonObject()
    view.feed('{"a":"x\ud83d')
    assert view.value == {"a": "x\ufffd"}
    view.feed("\ude00y")
    assert view.value == {"a": "x\U0001f600y"}


def test_a_string_kept_by_the_caller_does_not_change() -> None:
    view = IncrementalJsonObject()
    view.feed('{"a":"one')
    before = view.value["a"]
    view.feed(" two")
    assert view.value["a"] == "one two"
    assert before == "one"


def test_a_change_of_the_value_by_the_caller_raises_nothing() -> None:
    text = '{"a":[1,2,"x",34'
    view = IncrementalJsonObject()
    for character in text:
        view.feed(character)
        for held in (view.value.get("a"), view.value):
            if held is not None:
                held.clear()
    view.feed('],"b":1')
    assert view.value == {"b": 1}
    view.value.clear()
    view.feed(".")
    view.feed("5}")
    assert view.value == {"b": 1.5}


@pytest.mark.parametrize("number", ["1" * 4301, "-" + "1" * 4300, "0." + "1" * 4299, "1e" + "0" * 4299])
@pytest.mark.parametrize("size", [1000, 10_000])
def test_too_long_numbers_are_refused_at_any_split(number: str, size: int) -> None:
    text = f'{{"a":{number},"b":1}}'
    view = IncrementalJsonObject()
    for at in range(0, len(text), size):
        view.feed(text[at : at + size])
    assert view.value == {}


def test_the_longest_integer_is_shown_under_a_lower_python_limit() -> None:
    digits = "1" + "0" * 299
    view, before = IncrementalJsonObject(), sys.get_int_max_str_digits()
    view.feed(f'{{"a":{digits * 3},"b":{digits}')
    sys.set_int_max_str_digits(640)
    try:
        again = IncrementalJsonObject()
        again.feed(f'{{"a":{digits * 3},"b":{digits}')
        assert again.value == {"a": float("inf"), "b": 10**299}
    finally:
        sys.set_int_max_str_digits(before)
    assert view.value == {"a": int(digits * 3), "b": 10**299}
