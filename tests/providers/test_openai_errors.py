"""Errors in the form that both wires of OpenAI share."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import providers
from streamkit.providers.decoding.openai_errors import error_body, openai_stream_error


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        ({"message": "Slow down", "code": 429}, "Slow down", 429),
        ({"message": "Slow down", "code": "rate_limit_exceeded"}, "Slow down", None),
        ({"message": "No", "code": 7}, "No", None),
        ({"code": "server_error"}, "server_error", None),
        ("overloaded", "overloaded", None),
        ({}, "the provider reported an error", None),
        (None, "the provider reported an error", None),
    ],
)
def test_an_error_has_a_message_and_perhaps_a_status(error: Any, message: str, status: int | None) -> None:
    reported = openai_stream_error(error)
    assert (reported.kind, reported.message, reported.status) == ("provider_error", message, status)
    assert reported.raw == error


def test_both_wires_refuse_a_request_with_the_same_body() -> None:
    body = error_body(429, "Slow down")
    assert body["error"] == {"message": "Slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}
    for name in ("openai_chat", "openai_responses"):
        assert providers.get(name).error_body(429, "Slow down") == body
