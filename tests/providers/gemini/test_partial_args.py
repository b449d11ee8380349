"""Streamed arguments: fragments with JSON paths become one JSON text, whatever object they were cut from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.providers.gemini.partial_args import PartialArgsAssembler, escape_json, parse_json_path
from streamkit.providers.gemini.schema import PartialArg

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=12)
LEAVES = SCALARS | TEXTS
# A container without a leaf in it has no path of its own, so the wire cannot say it.
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(TEXTS, inner, min_size=1, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def path_of(steps: tuple[str | int, ...], style: int = 0) -> str:
    path = "$"
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and step.isascii() and style != 1:
            path += f".{step}"
        elif style == 2:
            path += "['" + step.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "']"
        else:
            path += f"[{json.dumps(step)}]"
    return path


def leaves(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in leaves(item, (*at, name))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*at, index))]
    return [(at, value)]


def fragments_of(path: str, value: Any, cuts: list[int]) -> list[PartialArg]:
    if isinstance(value, bool):
        return [PartialArg(path, boolValue=value)]
    if value is None:
        return [PartialArg(path, nullValue=None)]
    if isinstance(value, (int, float)):
        return [PartialArg(path, numberValue=value)]
    edges = sorted({0, *(cut % (len(value) + 1) for cut in cuts)})
    pieces = [value[a:b] for a, b in zip(edges, [*edges[1:], len(value)], strict=True)]
    return [PartialArg(path, piece, willContinue=n + 1 < len(pieces) or None) for n, piece in enumerate(pieces)]


def assembled(batches: list[list[PartialArg]]) -> tuple[Any, bool, PartialArgsAssembler]:
    """What the fragments make, and whether that could be written as they came."""
    arguments = PartialArgsAssembler()
    text = PartialArgsAssembler.OPENING + "".join([arguments.add(batch) for batch in batches])
    rest, whole = arguments.close()
    return json.loads(text + rest if whole is None else whole), whole is None, arguments


@settings(deadline=None)
@given(OBJECTS, st.lists(st.integers(0, 20), max_size=3), st.integers(0, 2))
def test_fragments_in_order_are_written_as_they_come(value: dict[str, Any], cuts: list[int], style: int) -> None:
    batches = [fragments_of(path_of(steps, style), leaf, cuts) for steps, leaf in leaves(value)]
    made, in_order, arguments = assembled(batches)
    assert made == value
    assert in_order
    assert arguments.problem is None


@settings(deadline=None)
@given(OBJECTS, st.lists(st.integers(0, 20), max_size=3))
def test_the_batches_do_not_matter(value: dict[str, Any], cuts: list[int]) -> None:
    flat = [piece for steps, leaf in leaves(value) for piece in fragments_of(path_of(steps), leaf, cuts)]
    assert assembled([flat])[0] == assembled([[piece] for piece in flat])[0] == value


@settings(deadline=None)
@given(OBJECTS, st.randoms(use_true_random=False))
def test_fragments_in_any_order_make_the_same_object(value: dict[str, Any], random: Any) -> None:
    whole = [fragments_of(path_of(steps), leaf, []) for steps, leaf in leaves(value)]
    random.shuffle(whole)
    assert assembled(whole)[0] == value


@settings(deadline=None)
@given(st.data())
def test_every_prefix_is_a_prefix_of_the_whole(data: st.DataObject) -> None:
    value = data.draw(OBJECTS)
    cuts = data.draw(st.lists(st.integers(0, 20), max_size=3))
    flat = [piece for steps, leaf in leaves(value) for piece in fragments_of(path_of(steps), leaf, cuts)]
    arguments, so_far = PartialArgsAssembler(), [PartialArgsAssembler.OPENING]
    for piece in flat:
        so_far.append(so_far[-1] + arguments.add([piece]))
    rest, _ = arguments.close()
    assert all((so_far[-1] + rest).startswith(text) for text in so_far)
    assert rest.endswith("}")


LEAF = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.lists(st.integers(), max_size=2)
)
PATHS = (
    st.text("$.[]'\"ab0 1\\", max_size=10) | st.sampled_from(["$.a", "$.a.b", "$.a[0]", "$.a[1]", "$.b[2].c"]) | LEAF
)


@settings(deadline=None)
@given(st.lists(st.lists(st.builds(PartialArg, PATHS, LEAF, LEAF, LEAF, LEAF, LEAF), max_size=3), max_size=6))
def test_no_fragment_raises(batches: list[list[PartialArg]]) -> None:
    arguments = PartialArgsAssembler()
    text = PartialArgsAssembler.OPENING + "".join([arguments.add(batch) for batch in batches])
    rest, whole = arguments.close()
    if arguments.problem is None:
        assert isinstance(json.loads(text + rest if whole is None else whole), dict)
    else:
        assert (rest, whole) == ("", None)
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)  # what is not known never looks whole


@pytest.mark.parametrize(
    ("fragments", "made"),
    [
        ([("$.a.b", "1"), ("$.c", "2"), ("$.a.d", "3")], {"a": {"b": "1", "d": "3"}, "c": "2"}),
        ([("$.a", "one "), ("$.b", "x"), ("$.a", "two")], {"a": "one two", "b": "x"}),
        ([("$.a[1]", "second"), ("$.a[0]", "first")], {"a": ["first", "second"]}),
    ],
)
def test_what_goes_back_is_made_anew_at_the_end(fragments: list[tuple[str, str]], made: Any) -> None:
    value, in_order, _ = assembled([[PartialArg(path, text)] for path, text in fragments])
    assert value == made
    assert not in_order


def test_a_later_value_of_one_place_stands() -> None:
    assert assembled([[PartialArg("$.n", numberValue=1)], [PartialArg("$.n", numberValue=2)]])[0] == {"n": 2}


@pytest.mark.parametrize(
    "fragments",
    [
        [PartialArg("$", "all")],
        [PartialArg("$[0]", "a list is no object")],
        [PartialArg("$.a..b", "x")],
        [PartialArg(17, "x")],
        [PartialArg("$.a", "text"), PartialArg("$.a.b", "beneath it")],
        [PartialArg("$.a.b", "beneath it"), PartialArg("$.a", "text")],
        [PartialArg("$.a[0]", "x"), PartialArg("$.a[2]", "y")],
        [PartialArg("$.a[5]", "x")],
        [PartialArg("$.a[0]", "x"), PartialArg("$.a.b", "y")],
        [PartialArg("$.a", numberValue="5")],
        [PartialArg("$.a", numberValue=float("nan"))],
        [PartialArg("$.a", boolValue="true")],
        [PartialArg("$.a", 5)],
    ],
)
def test_what_has_no_place_leaves_the_arguments_unknown(fragments: list[PartialArg]) -> None:
    arguments = PartialArgsAssembler()
    arguments.add(fragments)
    assert arguments.close() == ("", None)
    assert arguments.problem


def test_numbers_of_the_sdk_are_written_as_the_wire_writes_them() -> None:
    arguments = PartialArgsAssembler()
    text = arguments.add([PartialArg("$.a", numberValue=50.0), PartialArg("$.b", numberValue=0.5)])
    assert text == '"a":50,"b":0.5'


def test_null_is_a_value_and_a_dump_of_absent_fields_is_none() -> None:
    assert assembled([[PartialArg("$.a", nullValue=None)]])[0] == {"a": None}
    assert assembled([[PartialArg("$.a", nullValue="NULL_VALUE")]])[0] == {"a": None}
    assert assembled([[PartialArg("$.a", None, None, None, None, True)]])[0] == {}


def test_an_open_string_is_ended_by_a_fragment_without_a_value() -> None:
    made, _, _ = assembled([[PartialArg("$.a", "x", willContinue=True)], [PartialArg("$.a")]])
    assert made == {"a": "x"}


def test_halves_of_a_character_are_joined_in_the_text() -> None:
    made, _, _ = assembled([[PartialArg("$.a", "\ud83d", willContinue=True)], [PartialArg("$.a", "\ude00")]])
    assert made == {"a": "😀"}
    assert escape_json('"\n\\é') == '\\"\\n\\\\é'


@pytest.mark.parametrize(
    ("path", "steps"),
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
        ("$.a[", None),
        (r'$["\x"]', None),
        (None, None),
        ("$" + ".a" * 300, None),
    ],
)
def test_paths(path: Any, steps: Any) -> None:
    assert parse_json_path(path) == steps


def test_what_cannot_be_written_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamkit.providers.gemini.partial_args._MAX_UNWRITTEN", 100)
    arguments = PartialArgsAssembler()
    arguments.add([PartialArg("$.b[1]", "x")])
    for _ in range(20):
        arguments.add([PartialArg("$.b[0]", "12345678")])
    assert arguments.problem is not None
    assert len(arguments._fragments) <= 20
