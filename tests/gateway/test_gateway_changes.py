"""What a client is told about changes of its request: the header, the log, and the refusal of a strict gateway."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gateway.gateway_server import Target, serve_gateway

from streamkit.gateway import Exchange
from streamkit.gateway.strictness import meaning_changes
from streamkit.testing import Reply, serve

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "Hello."}
CHAT: Json = {"model": "m", "messages": [HELLO]}
#: A request of which Anthropic has no seed and no logit_bias.
LOSING: Json = {**CHAT, "seed": 1, "logit_bias": {"1": 2}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "count"), [(CHAT, 0), (LOSING, 2)])
def test_a_header_has_the_number_of_changes(body: Json, count: int, stream: bool) -> None:
    reports: list[Exchange] = []
    with (
        serve([Reply("Hi.")]) as server,
        serve_gateway(Target("anthropic", server.base_url("anthropic")), reports=reports) as url,
    ):
        response = httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": stream})
    assert (response.status_code, response.headers["x-streamkit-changes"]) == (200, str(count))
    assert len(reports[0].changes) == count


@pytest.mark.parametrize("stream", [False, True])
def test_a_strict_gateway_refuses_what_would_change_the_meaning(stream: bool) -> None:
    with (
        serve([Reply("Hi."), Reply("Hi.")]) as server,
        serve_gateway(Target("anthropic", server.base_url("anthropic")), strict=True) as url,
    ):
        refused = httpx.post(f"{url}/v1/chat/completions", json={**LOSING, "stream": stream})
        assert server.requests == []
        accepted = httpx.post(f"{url}/v1/chat/completions", json={**CHAT, "seed": 1, "user": "u", "stream": stream})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "strict" in message
    assert "'logit_bias.1'" in message
    assert "seed" not in message
    assert (accepted.status_code, accepted.headers["x-streamkit-changes"]) == (200, "1")


def test_a_strict_gateway_asks_the_next_upstream() -> None:
    reports: list[Exchange] = []
    with serve([Reply("Hi.")]) as server:
        targets = [Target(name, server.base_url(name)) for name in ("anthropic", "openai_chat")]
        with serve_gateway(*targets, reports=reports, strict=True) as url:
            response = httpx.post(f"{url}/v1/chat/completions", json=LOSING)
        assert [request.provider for request in server.requests] == ["openai_chat"]
    assert response.status_code == 200
    assert reports[0].failures[0].startswith("anthropic: this gateway is strict: left out the fields")


def test_a_refusal_has_the_form_of_the_clients_wire() -> None:
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "messages": [HELLO],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    with (
        serve([]) as server,
        serve_gateway(Target("openai_chat", server.base_url("openai_chat")), strict=True) as url,
    ):
        response = httpx.post(f"{url}/v1/messages", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("sentence", "is_harmless"),
    [
        ("left out the fields 'prompt_cache_key', 'metadata.a': only openai_chat has them", True),
        ("left out the fields 'prompt_cache_key', 'logit_bias.1': only openai_chat has them", False),
        ("left out 'cache_control' of tools: only anthropic has it", True),
        ("left out 'input_examples' of tools: only anthropic has it", False),
        ("the setting 'temperature' was left out: m refuses it", True),
        ("the setting 'stop' was left out: openai_responses has no field for it", False),
        ("the setting 'parallel_calls' was left out: gemini has no field for it", False),
        ("a part (search_result) became text: only anthropic has it", True),
        ("a part (file) is lost, and a text says so: only openai_chat has it", False),
        ("the tool 'web_search' was left out: only anthropic has it", False),
        ("a sentence that nobody has written yet", False),
    ],
)
def test_a_sentence_is_harmless_only_if_it_is_known_to_be(sentence: str, is_harmless: bool) -> None:
    assert meaning_changes([sentence]) == ([] if is_harmless else [sentence])
