"""The cost of a response: what the provider reports, else the list price of its model, if it is known."""

from __future__ import annotations

from streamkit.bridges.prices import cost
from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.turn import Turn

__all__ = ["list_price", "reported_cost"]


def reported_cost(usage: Usage | None) -> float | None:
    """Return the cost that the provider itself reports with the usage; None if it reports none.

    OpenRouter does, in dollars: https://openrouter.ai/docs/use-cases/usage-accounting.
    """
    value = usage.raw.get("cost") if usage is not None and isinstance(usage.raw, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def list_price(turn: Turn) -> float | None:
    """Return the list price of a closed turn in dollars; None without usage, without a known price or the extra."""
    if turn.usage is None:
        return None
    try:
        return round(cost(turn), 6)
    except (UsageError, ModuleNotFoundError):
        return None
