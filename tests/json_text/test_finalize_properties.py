"""Argument text: what is a prefix, what is an object, where an object ends."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamkit.json_text import JsonObjectScanner, finalize_arguments, join_surrogates
from streamkit.json_text.finalize import repair_json
from streamkit.json_text.reader import parse_partial_object

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.sampled_from(['"', "\\", "\\\\", "{", "}", "[", "\u2028", "\U0001f600", "\x7f", "é"])
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=6), values, max_size=4)
layouts = st.sampled_from([None, 0, 1])


@st.composite
def object_texts(draw: st.DrawFn) -> str:
    """A JSON object as text, in some layout."""
    return json.dumps(draw(objects), ensure_ascii=draw(st.booleans()), indent=draw(layouts))


def can_become_json(text: str) -> bool:
    """A second opinion on whether a text is the beginning of JSON: a reader that goes character by character."""
    stack: list[str] = []
    expected = "value"
    at = 0

    def after_value() -> str:
        return "end" if not stack else "comma or close"

    while at < len(text):
        character = text[at]
        if character in " \t\r\n":
            at += 1
        elif expected == "end":
            return False
        elif character == '"' and expected in ("value", "value or close", "key", "key or close"):
            end = string_end(text, at + 1)
            if end is None:
                return False
            if end < 0:
                return True
            at, expected = end, ":" if expected.startswith("key") else after_value()
        elif character in "{[" and expected in ("value", "value or close"):
            stack.append(character)
            expected = "key or close" if character == "{" else "value or close"
            at += 1
        elif character in "}]" and stack and stack[-1] == {"}": "{", "]": "["}[character]:
            if expected not in ("comma or close", "key or close" if character == "}" else "value or close"):
                return False
            stack.pop()
            expected = after_value()
            at += 1
        elif character == ":" and expected == ":":
            expected = "value"
            at += 1
        elif character == "," and expected == "comma or close":
            expected = "key" if stack[-1] == "{" else "value"
            at += 1
        elif expected in ("value", "value or close"):
            end = at
            while end < len(text) and text[end] not in " \t\r\n,]}":
                end += 1
            word = text[at:end]
            if end == len(text):
                return any(full.startswith(word) for full in ("true", "false", "null")) or starts_number(word)
            if word not in ("true", "false", "null") and not is_number(word):
                return False
            at, expected = end, after_value()
        else:
            return False
    return True


def string_end(text: str, at: int) -> int | None:
    """Where a string ends; -1 where the text ends inside of it, None where it is no string."""
    while at < len(text):
        character = text[at]
        if character == '"':
            return at + 1
        if character < " ":
            return None
        if character == "\\":
            if at + 1 == len(text):
                return -1
            if text[at + 1] == "u":
                digits = text[at + 2 : at + 6]
                if any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    return None
                at += 2 + len(digits)
                continue
            if text[at + 1] not in '"\\/bfnrt':
                return None
            at += 1
        at += 1
    return -1


def is_number(word: str) -> bool:
    try:
        return isinstance(json.loads(word), (int, float)) and word[-1:].isdigit()
    except ValueError:
        return False


def starts_number(word: str) -> bool:
    return any(is_number(word + more) for more in ("", "0", "0e0", ".0", "e0"))


@given(object_texts())
def test_a_complete_object_is_complete(text: str) -> None:
    settled = finalize_arguments(text)
    assert settled.state == "complete"
    assert settled.arguments == json.loads(text)
    assert settled.text == text


@given(object_texts(), st.data())
def test_every_true_prefix_is_incomplete(text: str, data: st.DataObject) -> None:
    prefix = text[: data.draw(st.integers(1, len(text) - 1))]
    assert finalize_arguments(prefix).state == "incomplete"
    assert isinstance(parse_partial_object(prefix), dict)


@given(object_texts(), st.data(), st.text(alphabet='{}[]":,0123456789.-+eEtruefalsn\\ u\n', max_size=3))
@example('{"a": 1}', None, "")
def test_what_cannot_become_an_object_is_not_incomplete(text: str, data: st.DataObject | None, put: str) -> None:
    """A text damaged anywhere is incomplete exactly where a second reader says that it can still become an object."""
    if data is not None:
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 2))
        text = text[:at] + put + text[at + gone :]
        text = text[: data.draw(st.integers(0, len(text)))]
    bare = text.strip(" \t\r\n")
    assume(bare and bare != "null")
    state = finalize_arguments(text, recover_trailing_junk=False).state
    try:
        whole = json.loads(bare)
    except ValueError:
        expected = "incomplete" if bare.startswith("{") and can_become_json(text) else "invalid"
    else:
        expected = "complete" if isinstance(whole, dict) else "invalid"
        if isinstance(whole, str):
            return  # a string may hold an object: test_double_encoding
    assert state == expected


@given(object_texts(), st.text(alphabet='}[]"x,: ', min_size=1, max_size=6))
def test_junk_after_an_object(text: str, junk: str) -> None:
    settled = finalize_arguments(text + junk)
    assert settled.state == "complete"
    assert settled.arguments == json.loads(text)
    if junk.strip():
        assert settled.warning is not None
        assert settled.warning[0] == "trailing_junk"
        assert finalize_arguments(text + junk, recover_trailing_junk=False).state == "invalid"


@given(object_texts())
def test_double_encoding(text: str) -> None:
    settled = finalize_arguments(json.dumps(text))
    assert settled.arguments == json.loads(text)
    assert settled.warning is not None
    assert settled.warning[0] == "double_encoded"
    assert finalize_arguments(json.dumps(json.dumps(text))).state == "invalid"


@given(st.text(max_size=60), st.booleans())
def test_nothing_raises(text: str, strict: bool) -> None:
    settled = finalize_arguments(text, recover_trailing_junk=not strict)
    assert (settled.arguments is None) == (settled.state != "complete")
    assert (settled.problem is not None) == (settled.state == "invalid")
    assert isinstance(parse_partial_object(text), dict)


@given(object_texts(), st.text(max_size=8), st.data())
def test_the_scanner_finds_the_end_of_the_object_at_any_split(text: str, behind: str, data: st.DataObject) -> None:
    whole = text + behind
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    scanner = JsonObjectScanner()
    for start, end in zip([0, *places], [*places, len(whole)], strict=True):
        scanner.feed(whole[start:end])
        assert scanner.closed_at == (len(text) if end >= len(text) else -1)
    one_by_one = JsonObjectScanner()
    for character in whole:
        one_by_one.feed(character)
    assert (one_by_one.closed_at, one_by_one.deepest) == (scanner.closed_at, scanner.deepest)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20), st.data())
def test_a_split_surrogate_pair_is_joined(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    halves = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    assert join_surrogates("".join(halves)) == text
    lone = join_surrogates(text + data.draw(st.characters(min_codepoint=0xD800, max_codepoint=0xDBFF)))
    assert lone == text + "\ufffd"


def test_deep_nesting_is_invalid_and_raises_nothing() -> None:
    for text in ('{"a":' * 100_000, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"):
        assert finalize_arguments(text).state in ("invalid", "incomplete")
        assert parse_partial_object(text) == {}


# ---------------------------------------------------------------- repair

DAMAGE = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\u0000": "\x00", "\\u001f": "\x1f"}


@st.composite
def damaged_texts(draw: st.DrawFn) -> tuple[str, dict[str, Any], bool]:
    """A JSON object with raw control characters and trailing commas, its value, and whether it has any of these."""
    indent = draw(layouts)
    space = "" if indent is None else "\n"
    is_damaged = False

    def write(value: object) -> str:
        nonlocal is_damaged
        if isinstance(value, str):
            text = json.dumps(value, ensure_ascii=False)
            if draw(st.booleans()):
                pairs = iter(json.dumps(letter, ensure_ascii=False)[1:-1] for letter in value)
                text = '"' + "".join(DAMAGE.get(each, each) for each in pairs) + '"'
                is_damaged = is_damaged or any(letter < " " for letter in text)
            return text
        if isinstance(value, (dict, list)) and value:
            is_list = isinstance(value, list)
            items = (
                [write(item) for item in value] if is_list else [f"{write(k)}: {write(v)}" for k, v in value.items()]
            )
            comma = draw(st.sampled_from(["", ",", " , "]))
            is_damaged = is_damaged or bool(comma)
            return "[{"[not is_list] + ",".join(items) + comma + space + "]}"[not is_list]
        return json.dumps(value)

    value = draw(objects)
    return write(value), value, is_damaged


@given(damaged_texts())
@example(('{"a": "x\ny",}', {"a": "x\ny"}, True))
def test_what_is_repaired_has_the_value_that_was_meant(damaged: tuple[str, dict[str, Any], bool]) -> None:
    text, value, is_damaged = damaged
    repaired, repairs = repair_json(text)
    assert json.loads(repaired) == value
    assert bool(repairs) == is_damaged
    assert repair_json(repaired) == (repaired, ())
    parsed = finalize_arguments(text, repair=True)
    assert (parsed.state, parsed.text) == ("complete", repaired)
    assert (parsed.warning is not None and parsed.warning[0] == "arguments_repaired") == is_damaged
    if is_damaged:
        assert finalize_arguments(text).state == "invalid"


@given(object_texts())
def test_json_is_never_repaired(text: str) -> None:
    assert repair_json(text) == (text, ())
    assert finalize_arguments(text, repair=True) == finalize_arguments(text)


TOKENS = ["{", "}", "[", "]", '"', "\\", ",", ":", '"a"', '"b\n"', "1", "null", "\n", " ", "\\u12", "\\d", "u", "'"]


@given(st.text(max_size=20) | st.lists(st.sampled_from(TOKENS), max_size=14).map("".join))
def test_repair_of_any_text_is_idempotent_and_keeps_its_state_unless_it_parses(text: str) -> None:
    repaired, repairs = repair_json(text)
    again, _ = repair_json(repaired)
    without, with_repair = finalize_arguments(text), finalize_arguments(text, repair=True)
    if without.state != "invalid":
        assert with_repair == without  # truncation, restatement and junk keep their meaning
    elif with_repair.state == "complete":
        assert again == repaired
        assert repairs
        assert with_repair.text == repaired
        assert json.loads(repaired) == with_repair.arguments
        assert [letter for letter in repaired if letter in '"{}[]:'] == [
            letter for letter in text if letter in '"{}[]:'
        ]
    else:
        assert with_repair == without
