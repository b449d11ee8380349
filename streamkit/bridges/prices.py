"""The prices of genai-prices (MIT, https://github.com/pydantic/genai-prices), for `Budget.price`.

The extra ``prices`` installs it, and its prices are as old as the installed version. The vendor is found by the address
of the server, so a gateway or a server of one's own has no prices. A turn without a known price is an error: counted as
free it would make a budget useless.

It must not depend on a run: ``cost`` is a function of one turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.errors import UsageError
from streamkit.values.distribution import missing_package

if TYPE_CHECKING:
    from streamkit.calls import Usage
    from streamkit.reading.turn import Turn

__all__ = ["cost", "list_price", "reported_cost"]


def cost(turn: Turn) -> float:
    """Return the cost of a turn in US dollars, by the list prices of its vendor.

    Cached input counts at its own price. What ``Usage`` does not distinguish (audio, caches of an hour, searches of the
    provider) counts as plain tokens or not at all.

    Args:
        turn: a closed turn with usage.

    Returns:
        US dollars.

    Raises:
        UsageError: the price is unknown: of the server, of the model, or because the usage is incomplete. Pass a
            ``cost`` function of your own that has the prices of these models and calls this one for all others.
        ModuleNotFoundError: genai-prices is not installed.
    """
    try:
        from genai_prices import Usage, calc_price
    except ModuleNotFoundError as error:
        if error.name != "genai_prices":
            raise
        raise missing_package("streamkit.bridges.prices", error, "prices") from None
    usage, facts = turn.usage, turn.content.metadata
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        raise UsageError(f"the turn of {turn.provider.name} has no price: it reported {usage}, not input and output")
    endpoint = facts.get("endpoint") or turn.provider.traits.endpoint.base_url
    if endpoint is None:
        raise UsageError(
            f"the turn of {turn.provider.name} has no price: pass endpoint=, the server's address, to run_loop or Turn"
        )
    tokens = Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    reasons: list[str] = []
    for name in dict.fromkeys((facts.get("model"), facts.get("requested_model"))):
        if name is not None:
            try:
                return float(calc_price(tokens, name, provider_api_url=endpoint).total_price)
            except (LookupError, ValueError) as error:  # unknown, or usage that contradicts itself
                reasons.append(str(error))
    reason = "; ".join(reasons) or "it names no model: pass model= to run_loop or Turn"
    raise UsageError(f"the turn of {turn.provider.name} at {endpoint} has no price: {reason}")


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
