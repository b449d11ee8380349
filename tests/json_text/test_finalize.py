"""Argument text by example; the general rules are in the properties."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from compiled import IS_COMPILED

from streamkit import Turn
from streamkit.json_text import (
    JsonObjectScanner,
    deepest_nesting,
    finalize_arguments,
    join_surrogates,
)
from streamkit.json_text.finalize import _find_refused_number
from streamkit.json_text.reader import IncrementalJsonObject, parse_partial_object


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


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ('{"a":1e999}', "1e999"),
        ('{"a":-1e999}', "-1e999"),
        ('{"a":[1,{"b":"1e999","c":1E+400}]}', "1E+400"),
        ('{"NaN":0,"a":1' + "0" * 400 + ".5}", "1" + "0" * 400 + ".5"),
        ('{"a":"NaN","b":NaN}', "NaN"),
        ('{"a\\"NaN":[-Infinity]}', "-Infinity"),
        ('{"a":Infinity}', "Infinity"),
        ('{"a":1,"b":' + "9" * 5000 + "}", "9" * 5000),
        ('{"a":1e999', "1e999"),
    ],
    ids=range(9),
)
def test_numbers_that_do_not_exist_are_invalid_with_their_position(text: str, literal: str) -> None:
    settled = finalize_arguments(text)
    assert (settled.state, settled.arguments, settled.warning) == ("invalid", None, None)
    assert settled.problem is not None
    assert f"at character {text.rindex(literal)}, near " in settled.problem


@pytest.mark.parametrize(
    "text", ['{"a":1e308}', '{"a":1e-999}', '{"a":[0.1,-1E5]}', '{"a":"1e999"}', '{"a":1' + "0" * 400 + "}"]
)
def test_numbers_that_exist_are_complete(text: str) -> None:
    assert finalize_arguments(text).arguments == json.loads(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ('{"a":1}{"a":2}', 7),
        ('{"a":1}\n{"a":2}\n', 8),
        ('{"a":1},{"b":[]}', 8),
        ('{}{"a":1}', 2),
        ('{"a":1}{}', 7),
        ('{"a":1}{"a":1}{"a":2}', 14),
        ('{"a":1}</tool_call><tool_call>{"a":2}', 30),
        ('{"a":1}{"b":', 7),
        ('{"a":"\ud83d"}{"a":2}', 9),
    ],
)
def test_two_objects_are_invalid_and_never_the_first_alone(text: str, at: int) -> None:
    for recovers in (True, False):
        settled = finalize_arguments(text, recover_trailing_junk=recovers)
        assert (settled.state, settled.arguments, settled.text) == ("invalid", None, text)
        assert settled.problem is not None
        assert f"at character {at}, near " in settled.problem


def test_the_search_for_a_refused_number_ends_where_there_is_none() -> None:
    assert _find_refused_number('{"a":[1,"1e999"]}') == 0


def test_half_of_a_pair_in_an_object_of_many_levels_raises_nothing() -> None:
    """Python's usual limit is 1,000 calls. From 3.12 on it does not hold for compiled code, which reads the object."""
    deep = "complete" if IS_COMPILED and sys.version_info >= (3, 12) else "invalid"
    for depth, state in ((100, "complete"), (990, deep)):
        assert finalize_arguments('{"a":' * depth + '"\\ud83d"' + "}" * depth).state == state


def test_a_number_that_overflows_is_not_shown_while_it_grows() -> None:
    view = IncrementalJsonObject()
    shown = []
    for text in ('{"a":1', "e99", "9", ',"b":1}'):
        view.feed(text)
        shown.append(dict(view.value))
    assert shown == [{"a": 1}, {"a": 1e99}, {}, {}]
    assert parse_partial_object('{"a":[1,{"b":-1e999}]}') == {}
    assert parse_partial_object('{"a":[1,{"b":-1e99}]}') == {"a": [1, {"b": -1e99}]}


@pytest.mark.parametrize("text", ['{"a":1}{"a":1}', '{"a":1} {"a": 1}\n', '{"a":1}{"a":1}{"a":1}'])
def test_an_object_and_its_repeat_are_the_object(text: str) -> None:
    settled = finalize_arguments(text, recover_trailing_junk=False)
    assert (settled.state, settled.arguments) == ("complete", {"a": 1})
    assert settled.warning is not None
    assert settled.warning[0] == "repeated_arguments"


@pytest.mark.parametrize("junk", ["}", "{", '"}', '{"', '{"a":', "[1]", " ok", "{x}", "null"])
def test_junk_that_is_no_other_object_is_left_out(junk: str) -> None:
    settled = finalize_arguments('{"a":1}' + junk)
    assert (settled.state, settled.arguments) == ("complete", {"a": 1})
    assert settled.warning is not None
    assert settled.warning[0] == "trailing_junk"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a":1,"a":2}', "a"),
        ('{"b":{"x":[{"c":1,"c":1}]}}', "c"),
        ('{"a":":","\\u0061":2}', "a"),
        ('{"a":{"a":1},"b":":"}', None),
        ('{"a" : 1, "b":{"a" :2}}', None),
        ('{"a":1,"a":2}}', "a"),
        ('{"a":"x: \\"y\\"","b":[":"]}', None),
        ('{"a":"x: \\\\","b":[":"]}', None),
        ('{"a":":\\\\","b":":\\\\","a":1}', "a"),
        ('{"a":":","b":[":",1],"b":[":",2]}', "b"),
        ('{"a":":","b":[1],"b":{"c":":"}}', "b"),
        ('{"a\\"":":","a\\u0022":":"}', 'a"'),
        ('"{\\"a\\":1,\\"a\\":2}"', "a"),
    ],
)
def test_a_key_that_occurs_twice_is_found_at_any_depth(text: str, key: str | None) -> None:
    settled = finalize_arguments(text)
    assert settled.state == "complete"
    assert settled.duplicate_key == key


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
    assert deepest_nesting('{"a":{"b":1}}', 0) == 2
    assert deepest_nesting("{" * 300 + "}" * 300, 256) == 300
    assert deepest_nesting('{"a":[' + "{}," * 300 + "{}]}", 256) == 3
    assert deepest_nesting('{"a":[' + "{}," * 6 + "{}]}", 4) == 3
    assert deepest_nesting('{"a":[' + "{}," * 6 + "{}]}", 20) == 9


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
        assert again.value == {}  # no infinity: JSON does not have it
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
    view = IncrementalJsonObject()
    for end in range(1, len(text)):
        view.feed(text[end - 1])
        assert finalize_arguments(text[:end]).state == "incomplete", text[:end]
        if len(text) < 500 or end % 37 == 0:
            at_once = IncrementalJsonObject()
            at_once.feed(text[:end])
            assert view.value == at_once.value == parse_partial_object(text[:end]), text[:end]
    assert finalize_arguments(text).arguments == json.loads(text)


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
        assert call.partial == parse_partial_object(text[:end])


@pytest.mark.parametrize("escape", [r"\x", r"\u00g", r"\u0 ", r"\ud83d\u00g", '\\"\\u\n', "\\\x00"])
@pytest.mark.parametrize("before", ["", "x" * 10, r"\n" * 256, r"\u00e9" * 600])
def test_a_text_with_an_invalid_escape_is_invalid(before: str, escape: str) -> None:
    text = f'{{"a":"{before}{escape}'
    assert finalize_arguments(text).state == "invalid"
    view = IncrementalJsonObject()
    view.feed(text)
    assert view.value == parse_partial_object(text)


# ---------------------------------------------------------------- repair


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": "x\ny\tz\x00"}', {"a": "x\ny\tz\x00"}, ["a control character in a string was escaped"]),
        (r'{"a": "C:\dir\user"}', {"a": r"C:\dir\user"}, ["an invalid escape is a backslash"]),
        (r'{"a": "\u12\" b"}', {"a": '\\u12" b'}, ["an invalid escape is a backslash"]),
        (
            '{"a": "\\\n"}',
            {"a": "\\\n"},
            ["an invalid escape is a backslash", "a control character in a string was escaped"],
        ),
        ('{"a": [1, {"b": 2 , } ,\n],}', {"a": [1, {"b": 2}]}, ["a trailing comma was dropped"]),
        ('{"a": ", ]",}', {"a": ", ]"}, ["a trailing comma was dropped"]),
        ('{"a\n": 1}', {"a\n": 1}, ["a control character in a string was escaped"]),
    ],
)
def test_what_has_one_meaning_is_repaired(text: str, value: Any, repairs: list[str]) -> None:
    parsed = finalize_arguments(text, repair=True)
    assert (parsed.state, parsed.arguments, parsed.problem) == ("complete", value, None)
    assert parsed.warning == ("arguments_repaired", f"the arguments were repaired: {', '.join(repairs)}")
    assert json.loads(parsed.text) == value
    assert finalize_arguments(text).state == "invalid"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "x\ny',
        '{"a": "x\n"',
        '{"a": [1, 2,}',
        '{"a": [,]}',
        "{,}",
        '{"a": 1,,}',
        '{"a":,}',
        "{'a': 1}",
        '{a: "x\n"}',
        '{"a": "x" "y\n"}',
        '{"a": "say "hi"\n"}',
        '{"a": 1,} and more',
        '{"a": 1,}{"b": 2,}',
        '["x\n"]',
        '{"a": NaN,}',
        '{"a": 01,}',
    ],
)
def test_what_may_have_another_meaning_is_not_repaired(text: str) -> None:
    assert finalize_arguments(text, repair=True) == finalize_arguments(text)
    assert finalize_arguments(text).state == "invalid"


def test_a_repaired_text_may_have_a_key_twice() -> None:
    parsed = finalize_arguments('{"a": 1, "a": 2,}', repair=True)
    assert (parsed.arguments, parsed.duplicate_key) == ({"a": 2}, "a")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + "\n\\d" * 50_000 + '"}',
        '{"a": [' + "[1, ],\n" * 50_000 + "]}",
        '{"a": [1' + " " * 50_000 + "," + " " * 50_000 + "]}",
    ],
)
def test_long_texts_are_repaired(text: str) -> None:
    assert finalize_arguments(text, repair=True).state == "complete"
