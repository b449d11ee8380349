"""The view of a growing argument text is, at every moment, what reading the whole text again would show."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st
from json_text.test_finalize_properties import object_texts

from streamkit.json_text.reader import IncrementalJsonObject, parse_partial_object

JSON_LIKE = [
    *'{}[]",:.-+eE0129 tfn\\u/b\n\x00é\ud83d\ude00\U0001f600',
    *('{"a":', '"b":', "true", "false", "null", "\\ud83d", "\\uDE00", "\\u00e9", "\\u00", "-1.5e3", '"x"', "01"),
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Object texts, one behind the other, with something put in or taken out, pairs of surrogates cut in two."""
    text = "".join(draw(st.lists(object_texts(), min_size=1, max_size=2)))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        put = "".join(draw(st.lists(st.sampled_from(JSON_LIKE), max_size=3)))
        text = text[:at] + put + text[at + draw(st.integers(0, 2)) :]
    return halved(text) if draw(st.booleans()) else text


def halved(text: str) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    return "".join(units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2))


def hold_against_the_whole(deltas: list[str]) -> None:
    """Feed the deltas and read at each, against reading the whole text again."""
    view, text = IncrementalJsonObject(), ""
    for delta in deltas:
        view.feed(delta)
        text += delta
        # As text: 1 == 1.0 == True, and dicts are equal in any order.
        assert repr(view.value) == repr(parse_partial_object(text)), ascii(text)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


@given(damaged())
@example('{"a":1,"a":2.5e-3,"a":"x","a":-')
@example('{"x":{"a":[1},"b":[{"c":2]],"d":3}')
@example('{"a":"\\u0\ud83d\ude00')
@example('{"a":"x\\ud83d\\ude00y\\ud83dz"}')
@example('{"a":1}{"a":2}')
@example('{"a":01}')
@example('{"a":1.5.2}')
@example('{"a":1e400,"b":-0,"c":-0.0}')
@example('{"a":trux}')
@example('{"a":truex}')
@example('{"\ud83d\ude00":"\ude00"}')
@example('{"a":"\\x41"}')
@example('{"a":"\\u00g"}')
@example('{"a":"\\udc00"}')
@example('{"a":"\\ud83d\\n"}')
@example('{"a":"\\ud83d\\u0041"}')
@example('{"a":1,}')
@example('{"a":[1,]}')
@example('{"a":--1}')
@example('{"a":1.e}')
@example('{"a":"\n"}')
@example("{a}")
@example('{"a":"\\uu\ud83d')
@example("[1]")
@example('{"a" 1}')
@example("{,}")
@example('{"a":"\\u\u00e9\u00e9"}')
def test_deltas_of_one_character_give_the_value_of_the_text(text: str) -> None:
    hold_against_the_whole(list(text))


@given(damaged() | st.lists(st.sampled_from(JSON_LIKE), max_size=30).map("".join), st.lists(st.integers(0, 999)))
def test_any_split_gives_the_value_of_the_text(text: str, places: list[int]) -> None:
    hold_against_the_whole(cut(text, places))


@given(damaged(), st.lists(st.integers(0, 999)))
def test_the_value_may_be_read_at_some_deltas_only(text: str, places: list[int]) -> None:
    view = IncrementalJsonObject()
    for delta in cut(text, places):
        view.feed(delta)
    assert repr(view.value) == repr(parse_partial_object(text))
    assert view.value is view.value


@given(st.integers(195, 205), st.sampled_from(["[", '{"a":', '[{"b":']), st.sampled_from(["1", '"x"', "]", "{}", "tr"]))
def test_nesting_beyond_the_limit_is_invalid(depth: int, bracket: str, inner: str) -> None:
    text = '{"k":' + (bracket * depth)[: depth * len(bracket)] + inner
    hold_against_the_whole(cut(text, [len(text) - back for back in range(12)]))
    hold_against_the_whole([text, *"]}]}]},", '"z":1'])


@given(object_texts())
def test_a_complete_object_has_its_value(text: str) -> None:
    view = IncrementalJsonObject()
    view.feed(text)
    assert view.value == json.loads(text)
