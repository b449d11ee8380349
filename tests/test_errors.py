"""Exceptions in another process: workers of a pool send what they raised by ``pickle``."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from streamkit import (
    Content,
    InvalidOutput,
    Schedule,
    StreamInterrupted,
    ToolFailed,
    Turn,
    UnsupportedContent,
    UsageError,
    run_loop,
)
from streamkit.errors import UnknownProvider


def unpickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - written here


@pytest.mark.parametrize("kind", [UsageError, UnsupportedContent, ToolFailed, InvalidOutput])
def test_an_exception_is_the_same_in_another_process(kind: Any) -> None:
    error = unpickled(kind("what was wrong"))
    assert (type(error), str(error)) == (kind, "what was wrong")


def test_the_text_of_a_wrong_output_is_kept_in_another_process() -> None:
    assert unpickled(InvalidOutput("not JSON", "{")).text == "{"


def test_an_unknown_provider_is_the_same_in_another_process() -> None:
    with pytest.raises(UnknownProvider) as raised:
        Turn("openai")
    error = unpickled(raised.value)
    assert (str(error), error.name, error.known, error.broken) == (str(raised.value), "openai", raised.value.known, {})


def test_the_error_of_a_run_is_known_in_another_process() -> None:
    body = {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}
    with pytest.raises(StreamInterrupted) as raised:
        run_loop(lambda context: body, provider="openai_chat", history=[Content.human("Hi.")]).run_sync()
    assert raised.value.turn is not None
    error = unpickled(raised.value)
    assert (type(error), str(error)) == (StreamInterrupted, str(raised.value))
    assert (error.error, error.turn, error.results) == (raised.value.error, None, ())


def test_a_copy_of_a_schedule_is_another_one_with_its_limit() -> None:
    schedule = Schedule(3)
    for other in (copy.deepcopy({"limit": schedule})["limit"], unpickled(schedule)):
        assert (type(other), other.limit, other.running) == (Schedule, 3, 0)
        assert other is not schedule
