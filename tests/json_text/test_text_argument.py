from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.gateway.translation.call_restorer import TextArgument, text_argument

TEXTS = ["", "a", 'say "hi"\n\\', "\u00e9\u4e2d", "😀x😀", "\ufffd", "a\ufffd", "\u2028\x7f\x00"]


def stream(deltas: list[str]) -> tuple[list[str], str]:
    """Return what each delta gave, and what the end gave."""
    argument = TextArgument("input")
    given_texts = [argument.feed(delta) for delta in deltas]
    rest = argument.end()
    assert argument.text == "".join(given_texts) + rest
    return given_texts, rest


def encodings(text: str) -> list[str]:
    return [
        json.dumps({"input": text}),
        json.dumps({"input": text}, ensure_ascii=False),
        json.dumps({"input": text}, indent=1),
        json.dumps({"input": text, "other": [1, {"input": "x"}]}),
        json.dumps({"other": {"input": "x"}, "input": text}),
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_every_cut_gives_the_text_and_no_half_of_a_character(text: str) -> None:
    for source in encodings(text):
        for cut in range(len(source) + 1):
            parts, rest = stream([source[:cut], source[cut:]])
            assert "".join(parts) + rest == text
            assert not any("\ud800" <= character <= "\udfff" for part in parts for character in part)
        single, rest = stream(list(source))
        assert "".join(single) + rest == text


@given(st.text(), st.lists(st.integers(0, 60), max_size=6))
def test_any_text_in_any_cuts(text: str, cuts: list[int]) -> None:
    for source in encodings(text)[:2]:
        places = sorted({min(cut, len(source)) for cut in cuts} | {0, len(source)})
        parts, rest = stream([source[start:stop] for start, stop in pairwise(places)])
        assert "".join(parts) + rest == text


def test_text_is_passed_on_as_soon_as_it_is_known() -> None:
    assert stream(['{"input": "ab', "c\\", "n\\ud8", "3d\\ude", '00d"', "}"]) == (
        ["ab", "c", "\n", "", "😀d", ""],
        "",
    )


def test_half_a_pair_in_the_text_itself_waits_for_the_other_half() -> None:
    assert stream(['{"input": "a\ud83d', '\ude00"}'])[0] == ["a", "😀"]


def test_arguments_of_another_form_give_their_text_at_the_end() -> None:
    assert stream(['{"pat', 'ch": "x"}']) == (["", ""], "x")
    assert stream(['{"a": 1, ', '"b": 2}']) == (["", ""], '{"a": 1, "b": 2}')
    assert stream(["{}"]) == ([""], "")
    assert stream(['{"patch": "x']) == ([""], "")  # incomplete


def test_text_of_complete_arguments() -> None:
    assert text_argument({"input": "a", "b": "c"}, "input") == "a"
    assert text_argument({"b": "c"}, "input") == "c"
    assert text_argument("free", "input") == "free"
    assert text_argument({}, "input") == ""
    assert text_argument({"a": 1}, "input") is None
    assert text_argument(None, "input") is None


def test_the_cost_of_a_delta_does_not_grow_with_the_text() -> None:
    argument = TextArgument("input")
    argument.feed('{"input": "')
    for _ in range(20_000):  # quadratic, this would copy 2 GB
        assert argument.feed("x" * 10) == "x" * 10
    assert len(argument.text) == 200_000
