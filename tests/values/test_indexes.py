"""The one form of an index (docs/rules.md, "Assigning a delta to a call")."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.ids import normalize_index


@pytest.mark.parametrize(
    ("index", "key"),
    [
        (0, 0),
        (-1, -1),
        (None, None),
        ("0", 0),
        (" 12 ", 12),
        ("0.0", 0),
        (2.0, 2),
        (2.5, None),
        (float("inf"), None),
        (True, None),
        ([0], None),
        ({"n": 1}, None),
        ("", None),
        ("a", "a"),
        ("2.5", "2.5"),
        ("²", "²"),
        ("1" * 5000, "1" * 5000),
        (("call", 0), ("call", 0)),
    ],
)
def test_an_index_of_any_type_has_one_form(index: Any, key: Any) -> None:
    found = normalize_index(index)
    assert (found, type(found)) == (key, type(key))
