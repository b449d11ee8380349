"""A second message at the start of a stream is compared with the first, of which only a hash is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Turn

MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
HALF = {**MESSAGE, "model": "\ud83d"}


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (MESSAGE, MESSAGE, True),
        (MESSAGE, {**dict(reversed(MESSAGE.items())), "usage": {"output_tokens": 2, "input_tokens": 1}}, True),
        (MESSAGE, {**MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 3}}, False),
        (MESSAGE, {**MESSAGE, "stop_reason": None}, False),
        (HALF, {**HALF}, True),  # msgspec refuses it, so the message itself is compared
        (HALF, MESSAGE, False),
    ],
)
def test_a_message_starts_again_unless_it_is_the_same(first: Any, second: Any, *, is_same: bool) -> None:
    turn = Turn("anthropic", "turn")
    for message in (first, second):
        event = json.dumps({"type": "message_start", "message": message}).encode()
        turn.feed(b"event: message_start\ndata: " + event + b"\n\n")
    assert [warning.code for warning in turn.warnings] == ([] if is_same else ["message_restarted"])
