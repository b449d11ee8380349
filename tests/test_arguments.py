"""Argument text by example; the general rules are in the properties."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from streamkit import Turn
from streamkit.arguments import ObjectScanner, PartialObject, deepest_nesting, mended, partial_object, settle


@pytest.mark.parametrize("text", ["", " ", "\n", "null", " null\n"])
def test_nothing_is_no_arguments(text: str) -> None:
    settled = settle(text)
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
    assert settle(text).state == "incomplete"


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
def test_what_is_neither_an_object_nor_its_beginning_is_invalid(text: str) -> None:
    settled = settle(text)
    assert settled.state == "invalid"
    assert settled.arguments is None
    assert settled.problem


def test_the_problem_names_the_place() -> None:
    problem = settle('{"ok": 1, "action": list_windows}').problem
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
    settled = settle(text)
    if value is not None:
        assert (settled.state, settled.arguments) == ("complete", value)
    assert settled.text == text


def test_junk_is_named_in_the_warning() -> None:
    settled = settle('{"a":1}</tool_call>')
    assert settled.state == "complete"
    assert settled.warning is not None
    assert "</tool_call>" in settled.warning[1]
    assert settled.text == '{"a":1}</tool_call>'


def test_a_restatement_stands_only_where_the_joined_text_does_not() -> None:
    assert settle('{"a":{"a":1}}', '{"a":1}}').arguments == {"a": {"a": 1}}
    assert settle('{"a":{"a":1}', '{"a":1}').state == "incomplete"
    restated = settle('{"a":1{"a":1}', '{"a":1}')
    assert (restated.arguments, restated.text) == ({"a": 1}, '{"a":1}')
    assert restated.warning is not None
    assert restated.warning[0] == "arguments_restated"
    assert settle('{"a":1{"a":', '{"a":').state == "invalid"
    assert settle('{"a":1{"a":1}x', '{"a":1}x').state == "invalid"


def test_lone_surrogates_are_replaced_in_keys_and_values() -> None:
    settled = settle('{"\\ud83d":["\\ude00"]}')
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
    assert partial_object(text) == value


def test_the_scanner_counts_braces_outside_of_strings() -> None:
    scanner = ObjectScanner()
    for piece in (' {"a":"}', "\\", '"}', '","b":{', "}}", "}"):
        scanner.feed(piece)
    assert scanner.closed_at == len(' {"a":"}\\"}","b":{}}')
    assert scanner.deepest == 2


def test_mended_text() -> None:
    assert mended("plain") == "plain"
    assert mended("é\U0001f600") == "é\U0001f600"
    assert mended("\ud83d" + "\ude00") == "\U0001f600"
    assert mended("a\ude00b") == "a\ufffdb"


def test_nesting() -> None:
    assert deepest_nesting('{"a":{"b":1}}') == 2
    assert deepest_nesting("{" * 300 + "}" * 300) == 300
    assert deepest_nesting('{"a":[' + "{}," * 300 + "{}]}") == 3


def test_the_view_is_the_same_dict_and_grows() -> None:
    view = PartialObject()
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
    view = PartialObject()
    view.feed('{"a":1,"a":2')
    assert view.value == {"a": 2}
    view.feed(".")
    assert view.value == {"a": 1}
    view.feed("5")
    assert view.value == {"a": 2.5}


def test_half_of_a_pair_is_shown_as_unreadable_until_the_other_comes() -> None:
    view = PartialObject()
    view.feed('{"a":"x\ud83d')
    assert view.value == {"a": "x\ufffd"}
    view.feed("\ude00y")
    assert view.value == {"a": "x\U0001f600y"}


def test_a_value_that_is_held_stays_as_it_was_read() -> None:
    view = PartialObject()
    view.feed('{"a":"one')
    before = view.value["a"]
    view.feed(" two")
    assert view.value["a"] == "one two"
    assert before == "one"


def test_a_view_survives_whoever_changes_what_it_shows() -> None:
    text = '{"a":[1,2,"x",34'
    view = PartialObject()
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
def test_numbers_beyond_all_reason_are_refused_at_any_cut(number: str, size: int) -> None:
    text = f'{{"a":{number},"b":1}}'
    view = PartialObject()
    for at in range(0, len(text), size):
        view.feed(text[at : at + size])
    assert view.value == {}


def test_the_longest_integer_is_shown_also_where_python_was_told_to_refuse_it() -> None:
    digits = "1" + "0" * 299
    view, before = PartialObject(), sys.get_int_max_str_digits()
    view.feed(f'{{"a":{digits * 3},"b":{digits}')
    sys.set_int_max_str_digits(640)
    try:
        again = PartialObject()
        again.feed(f'{{"a":{digits * 3},"b":{digits}')
        assert again.value == {"a": float("inf"), "b": 10**299}
    finally:
        sys.set_int_max_str_digits(before)
    assert view.value == {"a": int(digits * 3), "b": 10**299}


ESCAPED = [
    r'{"a":"x\u00e9y\ud83d\ude00\n"}',
    r'{"\u00e9\"\\":["\\\\u00e9","\/\b\f\n\r\t",{"\ud83d\ude00":"\u0041\\"}]}',
    '{"path":"' + r"\\\u00e9\ud83d\ude00" * 300 + '","n":-1.5e3}',  # more escapes than one match of a pattern takes
]


@pytest.mark.parametrize("text", ESCAPED)
def test_a_text_truncated_at_any_offset_is_incomplete_and_shown(text: str) -> None:
    view = PartialObject()
    for end in range(1, len(text)):
        view.feed(text[end - 1])
        assert settle(text[:end]).state == "incomplete", text[:end]
        if len(text) < 500 or end % 37 == 0:
            at_once = PartialObject()
            at_once.feed(text[:end])
            assert view.value == at_once.value == partial_object(text[:end]), text[:end]
    assert settle(text).arguments == json.loads(text)


@pytest.mark.parametrize("text", ESCAPED[:2])
def test_a_turn_that_ends_in_an_escape_has_an_incomplete_call(text: str) -> None:
    for end in range(1, len(text)):
        turn = Turn("openai_chat")
        function = {"name": "f", "arguments": text[:end]}
        delta = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
        turn.feed({"id": "r", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})
        turn.close()
        (call,) = turn.calls
        assert (call.state, call.arguments, call.arguments_text) == ("incomplete", None, text[:end])
        assert call.partial == partial_object(text[:end])


@pytest.mark.parametrize("escape", [r"\x", r"\u00g", r"\u0 ", r"\ud83d\u00g", '\\"\\u\n', "\\\x00"])
@pytest.mark.parametrize("before", ["", "x" * 10, r"\n" * 256, r"\u00e9" * 600])
def test_a_text_with_a_wrong_escape_is_invalid(before: str, escape: str) -> None:
    text = f'{{"a":"{before}{escape}'
    assert settle(text).state == "invalid"
    view = PartialObject()
    view.feed(text)
    assert view.value == partial_object(text)
