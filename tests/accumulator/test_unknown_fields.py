"""The warning of a field that no event describes (docs/rules.md, "Text and reasoning")."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [({"a": 1}, "{'a': 1}"), (nested(100_000), "of type list"), ({"n": 10**5000}, "of type dict")],
    ids=["object", "deep", "digits"],
)
def test_any_value_is_reported_once_for_each_name(value: Any, shown: str) -> None:
    accumulator = Accumulator("p", WireTraits(), turn_key="k")
    for _ in range(2):
        accumulator.unknown_field("new", value)
    (warning,) = accumulator.warnings
    assert warning.code == "unknown_field"
    assert "'new'" in warning.message
    assert shown in warning.message
