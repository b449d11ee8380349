"""One conversation for the official SDKs: what the embedded server says, and what must be understood of it."""

from __future__ import annotations

import httpx
from smallest_requests import smallest_request

from streamkit.reading.turn import Turn
from streamkit.testing import Call, Reply

SCRIPT = [
    Reply(
        "Let me look at both: Oslo & Tromsø.",
        Call("get_weather", {"city": "Tromsø", "days": [1, 2], "detail": {"wind": True}}),
        Call("get_weather", {"city": "Oslo"}),
        Call("get_time"),
    ),
    Reply("Tromsø has snow."),
]
CALLS = [
    ("get_weather", {"city": "Tromsø", "days": [1, 2], "detail": {"wind": True}}),
    ("get_weather", {"city": "Oslo"}),
    ("get_time", {}),
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def from_objects(name, chunks):
    turn = Turn(name, turn_key="t")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close(complete=True)
    return turn


def from_bytes(name, path, server, body):
    """What the same request gives as bytes, in a conversation of its own."""
    turn = Turn(name, turn_key="t")
    with httpx.stream("POST", server.base_url(name, "bytes") + path, json=body) as response:
        for piece in response.iter_bytes():
            turn.feed(piece)
    turn.close()
    return turn


def said(turn):
    """What a turn says, without ids that two conversations cannot share."""
    return (
        turn.text,
        turn.reasoning,
        [(call.name, call.arguments, call.state, call.arguments_text) for call in turn.calls],
        len(turn.executable),
        None if turn.finish is None else turn.finish.reason,
        turn.error,
        [warning.code for warning in turn.warnings],
    )


def check(name, path, server, chunks):
    turn = from_objects(name, chunks)
    assert turn.text == "Let me look at both: Oslo & Tromsø."
    assert [(call.name, call.arguments) for call in turn.executable] == CALLS
    assert said(turn) == said(from_bytes(name, path, server, smallest_request(name)))
