"""The finish reasons that encoders write: each neutral reason has a name on every wire."""

from __future__ import annotations

from typing import get_args

import pytest

from streamkit import Turn, providers
from streamkit.calls import FinishReason
from streamkit.history import Content
from streamkit.providers.finish_reasons import invert_finish_reasons

REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


def test_the_first_name_of_a_reason_is_its_inverse() -> None:
    table: dict[str, FinishReason] = {"END": "stop", "STOP_WORD": "stop", "FULL": "length"}
    names = invert_finish_reasons(table)
    assert (names["stop"], names["length"]) == ("END", "FULL")


def test_the_inverse_covers_every_neutral_reason() -> None:
    assert tuple(invert_finish_reasons({})) == REASONS


def test_a_preferred_name_replaces_the_first_of_the_table() -> None:
    names = invert_finish_reasons({"END": "stop", "FULL": "length"}, preferred={"stop": "DONE", "tool_calls": "DONE"})
    assert (names["stop"], names["tool_calls"], names["length"]) == ("DONE", "DONE", "FULL")


def test_a_reason_without_a_name_keeps_its_neutral_name() -> None:
    assert invert_finish_reasons({"END": "stop"})["pause"] == "pause"


def test_a_reason_without_a_name_gets_the_default_name() -> None:
    names = invert_finish_reasons({"END": "stop"}, default="OTHER")
    assert (names["stop"], names["pause"], names["other"]) == ("END", "OTHER", "OTHER")


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("name", providers.names())
def test_every_encoder_writes_every_finish_reason(name: str, reason: FinishReason) -> None:
    content = Content.ai("Hello.")
    frames = list(providers.get(name).emit(content, response_id="r1", model="m", finish=reason))
    turn = Turn(name, turn_key="turn-1")
    for frame in frames:
        turn.feed(frame)
    turn.close()
    assert turn.text == "Hello."
    assert turn.error is None or reason == "error"
    if reason in ("stop", "length"):  # every wire has a name for these
        assert turn.finish is not None
        assert turn.finish.reason == reason
