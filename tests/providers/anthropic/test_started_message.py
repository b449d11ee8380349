"""A second message at the start of a stream is compared with the first, of which only a hash is kept."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit.json_text import json_size
from streamkit.providers.anthropic.schema import StartedMessage

MESSAGE: dict[str, Any] = {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 2}}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (MESSAGE, True),
        ({**dict(reversed(MESSAGE.items())), "usage": {"output_tokens": 2, "input_tokens": 1}}, True),
        ({**MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 3}}, False),
        ({**MESSAGE, "stop_reason": None}, False),
        ({}, False),
    ],
)
def test_messages_are_equal_if_their_fields_are(other: dict[str, Any], *, expected: bool) -> None:
    assert StartedMessage(MESSAGE).equals(StartedMessage(other)) is expected


def test_a_message_with_half_of_a_surrogate_pair_is_compared_itself() -> None:
    message = {**MESSAGE, "model": "\ud83d"}
    assert StartedMessage(message).equals(StartedMessage({**message}))
    assert not StartedMessage(message).equals(StartedMessage(MESSAGE))


@pytest.mark.parametrize("message", [MESSAGE, {}, {"id": "\ud83d", "content": [[], {"a": None}]}, {"b": 1.5, "a": "é"}])
def test_the_size_is_that_of_the_message(message: dict[str, Any]) -> None:
    assert StartedMessage(message).size == json_size(message)


def test_the_id_is_text() -> None:
    assert (StartedMessage({"id": 7}).id, StartedMessage({"id": ""}).id) == ("7", None)
