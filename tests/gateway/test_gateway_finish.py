"""Finish reasons of an upstream in the words of the client's wire: SDKs and frameworks know no others."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.gateway_server import Target, serve_gateway

from streamkit import Turn
from streamkit.calls import FinishReason
from streamkit.testing import Reply, serve

QUESTION = [{"role": "user", "content": "hi"}]
#: https://platform.openai.com/docs/api-reference/chat/object: stop, length, tool_calls, content_filter, function_call.
CHAT = {"stop": "stop", "length": "length", "refusal": "content_filter", "pause": "pause_turn"}
#: https://platform.openai.com/docs/api-reference/responses/object: ``status`` and ``incomplete_details.reason``.
RESPONSES = {
    "stop": ("completed", None),
    "length": ("incomplete", {"reason": "max_output_tokens"}),
    "refusal": ("incomplete", {"reason": "content_filter"}),
    "pause": ("completed", None),
}


def ask(finish: FinishReason, path: str, **fields: Any) -> httpx.Response:
    with serve([Reply("I cannot.", finish=finish)]) as server:
        target = Target("anthropic", server.base_url("anthropic"), models={"*": "claude-sonnet-4-5"})
        with serve_gateway(target) as url:
            return httpx.post(url + path, json={"model": "m", **fields})


@pytest.mark.parametrize("finish", CHAT)
def test_chat_completions_have_a_finish_reason_of_their_own(finish: FinishReason) -> None:
    choice = ask(finish, "/v1/chat/completions", messages=QUESTION).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == (CHAT[finish], "I cannot.")
    turn = Turn("openai_chat")
    turn.feed(ask(finish, "/v1/chat/completions", messages=QUESTION, stream=True).content)
    turn.close()
    assert turn.finish is not None
    assert (turn.finish.raw, turn.text) == (CHAT[finish], "I cannot.")


@pytest.mark.parametrize("finish", RESPONSES)
def test_a_refused_response_is_not_completed(finish: FinishReason) -> None:
    response = ask(finish, "/v1/responses", input=QUESTION).json()
    assert (response["status"], response["incomplete_details"]) == RESPONSES[finish]
