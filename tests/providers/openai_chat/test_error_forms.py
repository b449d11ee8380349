"""Tests of errors that a Chat Completions stream reports in other forms than a field ``error`` with an object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_streams import chat

from streamkit import Turn
from streamkit.calls import StreamError

DONE = b"data: [DONE]\n\n"

#: An error as it comes, its code and its message.
ERRORS: list[tuple[dict[str, Any], str | None, str]] = [
    # https://github.com/MiniMax-AI/cli/issues/59 and https://platform.minimax.io/docs/api-reference/errorcode
    ({"base_resp": {"status_code": 1004, "status_msg": "login fail: no key"}}, "unauthorized", "login fail: no key"),
    ({"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate_limited", "rate limit"),
    # https://github.com/NousResearch/hermes-agent/pull/65643
    (
        {"object": "chat.completion.chunk", "choices": None, "error_type": "BadRequestError", "error_message": "no"},
        "invalid_request",
        "no",
    ),
    ({"code": 500, "message": "Internal error", "type": "server_error"}, None, "Internal error"),
    ({"code": "DataInspectionFailed", "message": "inappropriate"}, "content_policy", "inappropriate"),
    (
        {"error_code": 336003, "error_msg": "the max input characters is 20000"},
        None,
        "the max input characters is 20000",
    ),
    # https://developers.cloudflare.com/fundamentals/api/how-to/make-api-calls/#response
    ({"success": False, "errors": [{"code": 10000, "message": "Authentication error"}]}, None, "Authentication error"),
    ({"error": "Model too busy", "error_type": "overloaded"}, "overloaded", "Model too busy"),
    ({"error": [{"code": 2009, "message": "Unauthorized"}]}, None, "Unauthorized"),
]


def _frame(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _fail(*frames: bytes) -> StreamError:
    turn = Turn("openai_compatible")
    for frame in frames:
        turn.feed(frame)
    turn.close()
    assert turn.error is not None
    assert not turn.executable
    return turn.error


@pytest.mark.parametrize(("chunk", "code", "message"), ERRORS)
def test_an_error_in_another_form_is_reported_after_text_and_before_the_terminator(
    chunk: dict[str, Any], code: str | None, message: str
) -> None:
    error = _fail(_frame(chat({"content": "On"})), _frame(chunk), DONE)
    assert (error.kind, error.code, error.message) == ("provider_error", code, message)


@pytest.mark.parametrize(("chunk", "code", "message"), ERRORS)
def test_an_error_in_another_form_may_be_the_only_chunk(chunk: dict[str, Any], code: str | None, message: str) -> None:
    for body in (_frame(chunk), json.dumps(chunk).encode()):
        error = _fail(body)
        assert (error.kind, error.code, error.message) == ("provider_error", code, message)


@pytest.mark.parametrize(
    "chunk",
    [
        {"code": 0, "message": "ok"},
        {"code": 200, "message": "success"},
        {"code": "", "message": ""},
        {"choices": [], "code": None, "message": "waiting"},
        {"base_resp": {"status_code": 0, "status_msg": "success"}},
        {"success": True, "messages": ["queued"]},
        {"error": None, "message": "queued"},
    ],
)
def test_a_chunk_that_reports_no_error_ends_nothing(chunk: dict[str, Any]) -> None:
    turn = Turn("openai_compatible")
    turn.feed(_frame(chat({"content": "On"})) + _frame(chunk) + _frame(chat({"content": "e."}, "stop")) + DONE)
    turn.close()
    assert turn.error is None
    assert turn.text == "One."


def test_an_error_next_to_choices_does_not_hide_them() -> None:
    turn = Turn("openai_compatible")
    chunk = chat({"content": "On"}) | {"base_resp": {"status_code": 1027, "status_msg": "output sensitive"}}
    turn.feed(_frame(chunk) + DONE)
    turn.close()
    assert turn.text == "On"
    assert turn.error is not None
    assert turn.error.message == "output sensitive"


def test_the_error_of_a_choice_is_reported_once_beside_the_same_of_the_chunk() -> None:
    error = {"code": 502, "message": "Provider disconnected"}
    chunk = chat({}, "error")
    chunk["choices"][0]["error"] = error
    turn = Turn("openrouter")
    turn.feed(_frame(chunk | {"error": error}))
    turn.close()
    assert turn.error is not None
    assert turn.error.message == "Provider disconnected"
    assert not turn.warnings
