"""JSON data: what needs no conversion."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.values.json_data import describe_object, is_plain_json, to_json_data

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
USAGE = {"input_tokens": 4, "cache_creation": {"ephemeral_1h_input_tokens": 0}, "tier": None, "iterations": [{"n": 1}]}


@pytest.mark.parametrize("value", [{}, [], USAGE, [[True], {"a": {"b": [{}]}}]])
def test_an_object_of_texts_and_integers_is_plain(value: Any) -> None:
    assert is_plain_json(value)


@pytest.mark.parametrize(
    "value",
    [
        *(None, "text", 1, (), object()),
        *({1: "a key that is no text"}, {"a": {None: 1}}, {"a": float("nan")}, {"a": [float("inf")]}),
        *({"a": (1,)}, {"a": b"bytes"}, {"a": [{1, 2}]}, OrderedDict(a=1), {"a": OrderedDict()}),
    ],
)
def test_any_other_value_has_to_be_looked_at(value: Any) -> None:
    assert not is_plain_json(value)


@given(JSON)
def test_what_is_plain_needs_no_conversion(value: Any) -> None:
    if is_plain_json(value):
        assert to_json_data(value, describe_object, deepest=1000) is value
