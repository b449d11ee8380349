"""The prices of genai-prices, on price data of this test: the cost of a turn, and turns without a price."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from execution.chat_chunks import answer

from streamkit import Budget, Content, Turn, UsageError, run_loop
from streamkit.bridges.prices import cost

genai_prices = pytest.importorskip("genai_prices", reason="prices need the extra 'prices'")

#: Dollars for a million tokens, as a vendor's page has them.
INPUT, CACHED, OUTPUT = Decimal(2), Decimal("0.5"), Decimal(10)


@pytest.fixture(autouse=True)
def _prices() -> Iterator[None]:
    """Replace the prices of the package by one model of one vendor."""
    from genai_prices import data_snapshot, types

    prices = types.ModelPrice(input_mtok=INPUT, cache_read_mtok=CACHED, output_mtok=OUTPUT)
    model = types.ModelInfo(id="m", match=types.ClauseEquals("m"), prices=prices)
    vendor = types.Provider(id="acme", name="Acme", api_pattern=r"https://api\.openai\.com", models=[model])
    data_snapshot.set_custom_snapshot(data_snapshot.DataSnapshot([vendor], from_auto_update=False))
    yield
    data_snapshot.set_custom_snapshot(None)


def turn_with(usage: dict[str, Any] | None, provider: str = "openai_chat", **options: Any) -> Turn:
    turn = Turn(provider, turn_key="t", **options)
    chunks = answer("Hi.")
    if usage is not None:
        chunks[-1]["usage"] = usage
    for chunk in chunks:
        turn.feed(chunk)
    turn.close()
    return turn


def test_a_turn_costs_what_the_vendor_takes_for_its_tokens() -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000}
    assert cost(turn_with(usage)) == 2 + 5
    usage["prompt_tokens_details"] = {"cached_tokens": 400_000}  # type: ignore[assignment]
    assert cost(turn_with(usage)) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 5)


USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 0}


def test_the_requested_model_has_the_price_if_the_reported_name_is_unknown() -> None:
    turn = Turn("openai_chat", turn_key="t", model="m")
    for chunk in answer("Hi.", usage=(1_000_000, 0)):
        turn.feed({**chunk, "model": "my-deployment"})
    turn.close()
    assert cost(turn) == 2


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (lambda: turn_with(USAGE, "anthropic", model="m"), "has no price"),
        (lambda: turn_with(None), "reported None, not input and output"),
        (lambda: turn_with({"completion_tokens": 3}), "not input and output"),
        (lambda: turn_with(USAGE, "openai_compatible"), "pass endpoint=, the server's address"),
        (lambda: turn_with(USAGE, endpoint="https://gateway.example"), "https://gateway.example has no price"),
        (
            lambda: turn_with({**USAGE, "prompt_tokens_details": {"cached_tokens": 2_000_000}}),
            "cannot exceed input_tokens",
        ),
    ],
    ids=["server", "no usage", "incomplete usage", "no address", "gateway", "contradiction"],
)
def test_an_unknown_price_is_an_error_and_never_zero(turn: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cost(turn())


def test_an_unknown_model_is_named() -> None:
    turn = Turn("openai_chat", turn_key="t")
    for chunk in answer("Hi.", usage=(1, 1)):
        turn.feed({**chunk, "model": "gpt-99"})
    turn.close()
    with pytest.raises(UsageError, match="gpt-99"):
        cost(turn)


def test_a_run_ends_when_it_has_spent_its_budget() -> None:
    def look() -> str:
        """Look."""
        return "saw"

    def ask(context: Any) -> Any:
        return answer("", ("look", {}), usage=(1_000_000, 0))

    history = [Content.human("Look.")]
    run = run_loop(
        ask, provider="openai_chat", tools=[look], history=history, budget=Budget(cost=3, price=cost)
    ).run_sync()
    assert (run.ended, run.rounds, run.cost) == ("budget", 2, 4)


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'streamkit-llm\[prices\]'"):
        cost(turn_with(USAGE))
