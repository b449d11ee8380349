"""Repair of surrogate pairs within data of any depth."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.json_text import replace_lone_surrogates, to_valid_json


def nested(levels: int) -> Any:
    value: Any = "\ud83d"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_a_half_is_replaced_at_any_place() -> None:
    assert replace_lone_surrogates({"\ud83d": [1, None, "a\ude00b"]}) == {"\ufffd": [1, None, "a\ufffdb"]}


def test_data_that_is_nested_too_deeply_raises_before_the_stack_is_used_up() -> None:
    """Compiled code does not count its calls: without a limit of its own, the process was killed."""
    with pytest.raises(RecursionError):
        replace_lone_surrogates(nested(200_000))


def test_levels_that_are_too_deep_become_null() -> None:
    value = to_valid_json(nested(200_000))
    levels = 0
    while value is not None:
        value, levels = value[0] if isinstance(value, list) else value["a"], levels + 1
    assert levels == 280
