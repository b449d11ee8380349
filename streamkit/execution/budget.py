"""What a run may spend: tokens, and money by the caller's prices. Pure.

Prices are the caller's: they change without notice, differ by contract, and a package that keeps them well
(genai-prices) need not be installed for anything else. This module must not depend on requests or streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.turn import Turn

__all__ = ["Budget", "count_tokens"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of what a run spends.

    Attributes:
        max_tokens: input and output tokens of all requests; None for no limit.
        max_cost: the sum of ``cost``; None for no limit.
        cost: the cost of a turn; None if there are no prices.

    Raises:
        UsageError: a limit is not above 0, or ``max_cost`` has no ``cost``.
    """

    max_tokens: int | None = None
    max_cost: float | None = None
    cost: Callable[[Turn], float] | None = None

    def __post_init__(self) -> None:
        tokens, cost = self.max_tokens, self.max_cost
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
            raise UsageError(f"max_tokens must be the number of tokens of a run, at least 1, not {tokens!r}")
        if cost is not None and (isinstance(cost, bool) or not isinstance(cost, (int, float)) or not cost > 0):
            raise UsageError(f"max_cost must be a number above 0, not {cost!r}")
        if self.cost is not None and not callable(self.cost):
            raise UsageError(f"cost must be a function of a turn that returns a number, not {self.cost!r}")
        if cost is not None and self.cost is None:
            raise UsageError("max_cost needs cost=, a function of a turn that returns what it cost")

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_tokens is not None or self.max_cost is not None

    def price(self, turn: Turn) -> float:
        """Return the price of a turn with usage; 0 if there are no prices.

        Raises:
            UsageError: ``cost`` has returned no number, for example because it has no price of the model.
        """
        if self.cost is None:
            return 0.0
        price = self.cost(turn)
        try:
            return float(price)
        except (TypeError, ValueError):
            raise UsageError(f"cost must return a number for the model {turn.model!r}, not {price!r}") from None

    def is_exceeded(self, tokens: int, cost: float) -> bool:
        """Return True if a run has spent more than a limit.

        Args:
            tokens: the sum of the input and output tokens of its turns.
            cost: the sum of their prices.
        """
        if self.max_cost is not None and cost > self.max_cost:
            return True
        return self.max_tokens is not None and tokens > self.max_tokens


def count_tokens(usage: Usage) -> int:
    """Return the number of tokens of a turn, input and output, that count for ``max_tokens``."""
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
