"""What holds of every output that grows: no wrong value is shown, and any split of the text gives the same output."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamkit import Growing, InvalidOutput
from streamkit.output import Change

SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def split(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def is_part(shown: Any, value: Any) -> bool:
    """Return True if a shown value is a part of a value: strings are prefixes, everything else is equal."""
    if isinstance(shown, dict) and isinstance(value, dict):
        return all(key in value and is_part(item, value[key]) for key, item in shown.items())
    if isinstance(shown, list) and isinstance(value, list):
        return len(shown) <= len(value) and all(map(is_part, shown, value))
    if isinstance(shown, str) and isinstance(value, str):
        return value.startswith(shown)
    return repr(shown) == repr(value)


def replay(changes: list[Change]) -> Any:
    """Return the value that the changes make, with nothing but the changes."""
    holder: list[Any] = [None]
    for change in changes:
        container: Any = holder
        key: Any = 0
        for step in change.path:
            container, key = container[key], step
        if change.kind == "append":
            container[key] += change.value
        elif change.kind == "set":
            value = change.value.copy() if isinstance(change.value, dict | list) else change.value
            if isinstance(container, list) and key == len(container):
                container.append(value)
            else:
                container[key] = value
        else:
            assert repr(container[key]) == repr(change.value)
    return holder[0]


@given(VALUES, st.booleans(), st.lists(st.integers(0, 9999), max_size=12))
def test_no_wrong_value_is_shown(value: Any, ascii_only: bool, places: list[int]) -> None:
    growing = Growing()
    changes: list[Change] = []
    for delta in split(json.dumps(value, ensure_ascii=ascii_only), places):
        changes += growing.feed(delta)
        shown = growing.value
        assert is_part(shown, value) or shown is None
        assert repr(replay(changes)) == repr(shown)
        assert repr(growing.partial) == repr(shown)
    assert repr(growing.close()) == repr(value)


@given(
    st.dictionaries(st.text(max_size=4), VALUES, max_size=4),
    st.sampled_from(["", "Here it is:\n", "```json\n", "See [1] and {this}: "]),
    st.sampled_from(["", "\n```", " That is all.", "\n```\nDone {ok}."]),
    st.lists(st.integers(0, 9999), max_size=12),
)
def test_text_around_an_object_changes_nothing(value: Any, before: str, after: str, places: list[int]) -> None:
    growing = Growing({"type": "object"})
    for delta in split(before + json.dumps(value) + after, places):
        growing.feed(delta)
    assert repr(growing.close()) == repr(value)


@given(
    st.text(alphabet='{}[]":,.-+eE019 tfn\\u`\nab\ud83d\ude00', max_size=40), st.lists(st.integers(0, 99), max_size=6)
)
def test_any_text_gives_the_same_however_it_is_split(text: str, places: list[int]) -> None:
    def outcome(deltas: list[str]) -> tuple[str, str]:
        growing = Growing()
        for delta in deltas:
            growing.feed(delta)
        shown = repr(growing.value)
        try:
            return shown, repr(growing.close())
        except InvalidOutput as error:
            return shown, f"{error}"

    assert outcome([text]) == outcome(split(text, places)) == outcome(list(text))
