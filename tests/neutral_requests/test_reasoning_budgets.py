"""Budgets of reasoning beside the limit of a response: half of it is left, and none is too small to be of use."""

from __future__ import annotations

from typing import Any

import pytest

from streamkit import Content, Settings, parse_request, render_request
from streamkit.providers.requests.request import Request

Json = dict[str, Any]
#: A model of each target that takes a budget, and the path of the budget in its body.
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "anthropic": ("claude-sonnet-4-5", ("thinking", "budget_tokens")),
    "bedrock_converse": (
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        ("additionalModelRequestFields", "thinking", "budget_tokens"),
    ),
    "bedrock_invoke": ("anthropic.claude-sonnet-4-5-20250929-v1:0", ("thinking", "budget_tokens")),
    "cohere": ("command-a-reasoning-08-2025", ("thinking", "token_budget")),
    "gemini": ("gemini-2.5-flash", ("generationConfig", "thinkingConfig", "thinkingBudget")),
    "openrouter": ("anthropic/claude-sonnet-4.5", ("reasoning", "max_tokens")),
    "qwen": ("qwen3-max", ("thinking_budget",)),
}


def budget_of(target: str, changes: list[str], **settings: Any) -> Any:
    """Return the budget in the body that a client of another provider causes."""
    model, path = TARGETS[target]
    request = Request(
        contents=[Content.human("?")], settings=Settings(model=model, reasoning="auto", **settings), provider="x"
    )
    value: Any = render_request(request, target, changes=changes)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


@pytest.mark.parametrize("target", TARGETS)
def test_a_budget_is_at_most_half_of_the_limit(target: str) -> None:
    changes: list[str] = []
    assert budget_of(target, changes, reasoning_budget=24_576, max_output_tokens=4_000) == 2_000
    assert "the reasoning budget was changed from 24576 to 2000 of 4000 tokens" in changes


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "openrouter"])  # which takes an effort
def test_the_budget_for_an_effort_is_at_most_half_of_the_limit(target: str) -> None:
    changes: list[str] = []
    assert budget_of(target, changes, reasoning_effort="high", max_output_tokens=4_000) == 2_000
    assert "the reasoning budget was changed from 24576 to 2000 of 4000 tokens" in changes


@pytest.mark.parametrize("target", TARGETS)
def test_too_small_a_budget_is_none(target: str) -> None:
    changes: list[str] = []
    assert not budget_of(target, changes, reasoning_budget=24_576, max_output_tokens=2_000)
    assert "reasoning was left out: it needs 1024 tokens, and the response has 2000" in changes


@pytest.mark.parametrize("target", TARGETS)
def test_a_budget_without_a_limit_or_below_half_of_it_stays(target: str) -> None:
    changes: list[str] = []
    assert budget_of(target, changes, reasoning_budget=2_000, max_output_tokens=4_000) == 2_000
    assert changes == []


def test_a_budget_below_the_least_of_anthropic_is_raised_and_said() -> None:
    changes: list[str] = []
    assert budget_of("anthropic", changes, reasoning_budget=500) == 1024
    assert changes == ["the reasoning budget was changed from 500 to 1024 tokens, the least"]


def test_a_client_of_the_same_wire_keeps_its_budget() -> None:
    body: Json = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4_000,
        "thinking": {"type": "enabled", "budget_tokens": 3_999},
        "messages": [{"role": "user", "content": "?"}],
    }
    changes: list[str] = []
    written = render_request(parse_request(body, "anthropic"), "anthropic", changes=changes)
    assert written["thinking"] == body["thinking"]
    assert changes == []
