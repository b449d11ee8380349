"""Streamed arguments: fragments with JSON paths become the JSON text of the object that they were made from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.providers.gemini.function_calls import PartialArgsAssembler, escape_json_text, parse_json_path
from streamkit.providers.gemini.schema import PartialArg

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=12)
LEAVES = SCALARS | TEXTS
# A container without a leaf has no path of its own, so the wire cannot express it.
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(TEXTS, inner, min_size=1, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def json_path(segments: tuple[str | int, ...], style: int = 0) -> str:
    path = "$"
    for segment in segments:
        if isinstance(segment, int):
            path += f"[{segment}]"
        elif segment.isidentifier() and segment.isascii() and style != 1:
            path += f".{segment}"
        elif style == 2:
            path += "['" + segment.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "']"
        else:
            path += f"[{json.dumps(segment)}]"
    return path


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in leaves(item, (*path, name))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [(path, value)]


def to_fragments(path: str, value: Any, cuts: list[int]) -> list[PartialArg]:
    if isinstance(value, bool):
        return [PartialArg(path, boolValue=value)]
    if value is None:
        return [PartialArg(path, nullValue=None)]
    if isinstance(value, (int, float)):
        return [PartialArg(path, numberValue=value)]
    edges = sorted({0, *(cut % (len(value) + 1) for cut in cuts)})
    parts = [value[a:b] for a, b in zip(edges, [*edges[1:], len(value)], strict=True)]
    return [PartialArg(path, part, willContinue=n + 1 < len(parts) or None) for n, part in enumerate(parts)]


def assemble(batches: list[list[PartialArg]]) -> tuple[Any, bool, PartialArgsAssembler]:
    """Return the object that the fragments make, whether the text was written in order, and the assembler."""
    arguments = PartialArgsAssembler(lambda size: True)
    text = PartialArgsAssembler.OPENING + "".join([arguments.add(batch) for batch in batches])
    rest, replacement = arguments.close()
    return json.loads(text + rest if replacement is None else replacement), replacement is None, arguments


@given(OBJECTS, st.lists(st.integers(0, 20), max_size=3), st.integers(0, 2))
def test_fragments_in_order_are_written_at_once(value: dict[str, Any], cuts: list[int], style: int) -> None:
    batches = [to_fragments(json_path(segments, style), leaf, cuts) for segments, leaf in leaves(value)]
    result, in_order, arguments = assemble(batches)
    assert result == value
    assert in_order
    assert arguments.problem is None


@given(OBJECTS, st.lists(st.integers(0, 20), max_size=3))
def test_batches_do_not_change_the_result(value: dict[str, Any], cuts: list[int]) -> None:
    flat = [fragment for segments, leaf in leaves(value) for fragment in to_fragments(json_path(segments), leaf, cuts)]
    assert assemble([flat])[0] == assemble([[fragment] for fragment in flat])[0] == value


@given(OBJECTS, st.randoms(use_true_random=False))
def test_fragments_in_any_order_make_the_same_object(value: dict[str, Any], random: Any) -> None:
    batches = [to_fragments(json_path(segments), leaf, []) for segments, leaf in leaves(value)]
    random.shuffle(batches)
    assert assemble(batches)[0] == value


@given(st.data())
def test_the_text_so_far_is_a_prefix_of_the_complete_text(data: st.DataObject) -> None:
    value = data.draw(OBJECTS)
    cuts = data.draw(st.lists(st.integers(0, 20), max_size=3))
    flat = [fragment for segments, leaf in leaves(value) for fragment in to_fragments(json_path(segments), leaf, cuts)]
    arguments, texts = PartialArgsAssembler(lambda size: True), [PartialArgsAssembler.OPENING]
    for fragment in flat:
        texts.append(texts[-1] + arguments.add([fragment]))
    rest, _ = arguments.close()
    assert all((texts[-1] + rest).startswith(text) for text in texts)
    assert rest.endswith("}")


LEAF = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.lists(st.integers(), max_size=2)
)
PATHS = (
    st.text("$.[]'\"ab0 1\\", max_size=10) | st.sampled_from(["$.a", "$.a.b", "$.a[0]", "$.a[1]", "$.b[2].c"]) | LEAF
)


@given(st.lists(st.lists(st.builds(PartialArg, PATHS, LEAF, LEAF, LEAF, LEAF, LEAF), max_size=3), max_size=6))
def test_no_fragment_raises(batches: list[list[PartialArg]]) -> None:
    arguments = PartialArgsAssembler(lambda size: True)
    text = PartialArgsAssembler.OPENING + "".join([arguments.add(batch) for batch in batches])
    rest, replacement = arguments.close()
    if arguments.problem is None:
        assert isinstance(json.loads(text + rest if replacement is None else replacement), dict)
    else:
        assert (rest, replacement) == ("", None)
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)  # unknown arguments are never taken for a complete object


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([("$.a.b", "1"), ("$.c", "2"), ("$.a.d", "3")], {"a": {"b": "1", "d": "3"}, "c": "2"}),
        ([("$.a", "one "), ("$.b", "x"), ("$.a", "two")], {"a": "one two", "b": "x"}),
        ([("$.a[1]", "second"), ("$.a[0]", "first")], {"a": ["first", "second"]}),
    ],
)
def test_fragments_out_of_order_are_rebuilt_at_the_end(fragments: list[tuple[str, str]], expected: Any) -> None:
    value, in_order, _ = assemble([[PartialArg(path, text)] for path, text in fragments])
    assert value == expected
    assert not in_order


def test_a_later_value_of_a_path_replaces_the_earlier_one() -> None:
    assert assemble([[PartialArg("$.n", numberValue=1)], [PartialArg("$.n", numberValue=2)]])[0] == {"n": 2}


@pytest.mark.parametrize(
    "fragments",
    [
        [PartialArg("$", "all")],
        [PartialArg("$[0]", "a list is no object")],
        [PartialArg("$.a..b", "x")],
        [PartialArg(17, "x")],
        [PartialArg("$.a", "text"), PartialArg("$.a.b", "below it")],
        [PartialArg("$.a.b", "below it"), PartialArg("$.a", "text")],
        [PartialArg("$.a[0]", "x"), PartialArg("$.a[2]", "y")],
        [PartialArg("$.a[5]", "x")],
        [PartialArg("$.a[0]", "x"), PartialArg("$.a.b", "y")],
        [PartialArg("$.a", numberValue="5")],
        [PartialArg("$.a", numberValue=float("nan"))],
        [PartialArg("$.a", boolValue="true")],
        [PartialArg("$.a", 5)],
    ],
)
def test_a_fragment_without_a_place_makes_the_arguments_unknown(fragments: list[PartialArg]) -> None:
    arguments = PartialArgsAssembler(lambda size: True)
    arguments.add(fragments)
    assert arguments.close() == ("", None)
    assert arguments.problem


def test_integers_that_the_sdk_made_floats_are_written_as_integers() -> None:
    arguments = PartialArgsAssembler(lambda size: True)
    text = arguments.add([PartialArg("$.a", numberValue=50.0), PartialArg("$.b", numberValue=0.5)])
    assert text == '"a":50,"b":0.5'


def test_null_is_a_value_and_a_dump_of_absent_fields_has_none() -> None:
    assert assemble([[PartialArg("$.a", nullValue=None)]])[0] == {"a": None}
    assert assemble([[PartialArg("$.a", nullValue="NULL_VALUE")]])[0] == {"a": None}
    assert assemble([[PartialArg("$.a", None, None, None, None, True)]])[0] == {}


def test_an_open_string_is_ended_by_a_fragment_without_a_value() -> None:
    value, _, _ = assemble([[PartialArg("$.a", "x", willContinue=True)], [PartialArg("$.a")]])
    assert value == {"a": "x"}


def test_halves_of_a_surrogate_pair_are_joined() -> None:
    value, _, _ = assemble([[PartialArg("$.a", "\ud83d", willContinue=True)], [PartialArg("$.a", "\ude00")]])
    assert value == {"a": "😀"}
    assert escape_json_text('"\n\\é') == '\\"\\n\\\\é'


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("$.recipe.steps[0]", ("recipe", "steps", 0)),
        ("recipe.name", ("recipe", "name")),
        ("$.first name.x-y", ("first name", "x-y")),
        ("$['a.b'][\"c]d\"][10]", ("a.b", "c]d", 10)),
        (r"$['it\'s \"q\"']", ('it\'s "q"',)),
        ('$."a b".c', ("a b", "c")),
        ("$", None),
        ("", None),
        ("$.a[01]", None),
        ("$.a[-1]", None),
        ("$.a[0][1].b", ("a", 0, 1, "b")),
        ("$.a[0]b", None),
        ("$.a..b", None),
        ("$.a[1234567890]", None),
        ("$.a[\u0663]", None),
        ("$.a[None]", None),
        ("$.a[", None),
        (r'$["\x"]', None),
        (None, None),
        ("$" + ".a" * 300, None),
    ],
)
def test_json_paths(path: Any, segments: Any) -> None:
    assert parse_json_path(path) == segments


def test_fragments_out_of_order_count_against_the_limit() -> None:
    kept: list[int] = []

    def keep(size: int) -> bool:
        kept.append(size)
        return sum(kept) <= 400

    arguments = PartialArgsAssembler(keep)
    arguments.add([PartialArg("$.b[1]", "x")])
    for _ in range(20):
        arguments.add([PartialArg("$.b[0]", "12345678")])
    assert arguments.problem == "the fragments of the arguments are too many"
    assert not arguments._fragments
