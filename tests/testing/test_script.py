from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import providers
from streamkit.reading.turn import Turn
from streamkit.testing import Call, Disconnect, Reasoning, Reply, Stall
from streamkit.testing.rendering import StreamRenderer, split_reads, to_json_array

NAMES = ["anthropic", "azure_openai", "gemini", "openai_chat", "openai_compatible"]

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
calls = st.builds(Call, st.sampled_from(["get_weather", "f"]), st.dictionaries(st.text("abc", min_size=1), texts))
spoken = st.lists(st.one_of(texts, st.builds(Reasoning, texts), calls), min_size=1, max_size=5)


def voice(name, delta_size=16):
    return StreamRenderer(
        providers.get(name), "r1", "m", lambda index: None if name == "gemini" else f"id_{index}", delta_size
    )


def heard(name, steps):
    turn = Turn(name, turn_key="t")
    for step in steps:
        if isinstance(step, bytes):
            turn.feed(step)
    turn.close()
    return turn


@pytest.mark.parametrize("name", NAMES)
@given(items=spoken, data=st.data())
def test_stalls_change_no_byte_and_are_between_the_right_frames(name, items, data):
    at = data.draw(st.integers(0, len(items)))
    steps = voice(name).steps(Reply(*items[:at], Stall(1), *items[at:]))
    frames = [step for step in steps if isinstance(step, bytes)]
    assert frames == voice(name).steps(Reply(*items))
    before = heard(name, steps[: steps.index(Stall(1))])
    assert len(before.calls) == sum(isinstance(item, Call) for item in items[:at])


@pytest.mark.parametrize("name", NAMES)
@given(items=spoken, data=st.data())
def test_a_disconnect_keeps_what_was_sent_before_and_confirms_nothing(name, items, data):
    at = data.draw(st.integers(0, len(items)))
    steps = voice(name, delta_size=1).steps(Reply(*items[:at], Disconnect(), *items[at:]))
    assert steps[-1] == Disconnect()
    turn = heard(name, steps)
    assert turn.error is not None
    assert turn.executable == []
    expected = [(item.name, dict(item.arguments)) for item in items[:at] if isinstance(item, Call)]
    found = [(call.name, json.loads(call.arguments_text or "{}")) for call in turn.calls[: len(expected)]]
    assert found == expected
    assert turn.text == "".join(item for item in items[:at] if isinstance(item, str))


@given(st.lists(st.one_of(st.binary(max_size=30), st.just(Stall(1.0)))), st.integers(1, 20))
def test_reads_do_not_move_bytes_across_a_stall(steps, size):
    def sides(of):
        found = [b""]
        for step in of:
            if isinstance(step, bytes):
                found[-1] += step
            else:
                found.append(b"")
        return found

    cut = list(split_reads(steps, size))
    assert sides(cut) == sides(steps)
    assert all(len(step) <= size for step in cut if isinstance(step, bytes))
    assert list(split_reads(steps, None)) == steps


def test_an_array_contains_the_payloads_of_the_events():
    steps = [b'data: {"a": 1}\n\n', Stall(1), b'data: {"b": 2}\r\n\r\n']
    assert list(to_json_array(steps)) == [b'[{"a": 1}', Stall(1), b'\n,\r\n{"b": 2}', b"\n]\n"]


def test_an_array_is_truncated_in_the_middle_of_an_element():
    assert list(to_json_array([b'data: {"a": 1}\n\n', b'data: {"b', Disconnect()])) == [
        b'[{"a": 1}',
        b'\n,\r\n{"b',
        Disconnect(),
    ]


def test_an_array_without_elements_is_an_array():
    assert b"".join(to_json_array([])) == b"[]\n"
