"""What a run may spend: tokens, and money by the caller's prices. Pure.

Prices are the caller's: they change without notice, differ by contract, and a package that keeps them well
(genai-prices) need not be installed for anything else. This module must not depend on requests or streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.reading.turn import Turn
from streamkit.values.redaction import excerpt_repr

__all__ = ["Budget", "Spending"]


class Budget(Struct, frozen=True):
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
            number = float(price)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number):  # also what tables of prices have where one is missing: no sum with it exceeds a limit
            raise UsageError(f"cost must return a number for the model {turn.model!r}, not {excerpt_repr(price)}")
        return number

    def is_exceeded(self, tokens: int, cost: float) -> bool:
        """Return True if a run has spent more than a limit.

        Args:
            tokens: the sum of the input and output tokens of its turns.
            cost: the sum of their prices.
        """
        if self.max_cost is not None and cost > self.max_cost:
            return True
        return self.max_tokens is not None and tokens > self.max_tokens


class Spending:
    """What a run has spent, on the turns before and on the current one, which each method takes.

    Args:
        budget: what the run may spend.
        reports: the usage of the turns before.
        cost: what these have cost.
    """

    def __init__(self, budget: Budget, reports: Sequence[Usage] = (), cost: float = 0.0) -> None:
        self._budget = budget
        self._reports = list(reports)
        self._tokens = sum([_count_tokens(usage) for usage in reports])  # adding them up each round would take longer
        self._cost = cost  # of the turns that were priced
        self._priced_turn: Turn | None = None  # the last of them
        self._is_usage_unknown = False  # and that was reported

    def add(self, turn: Turn) -> None:
        """Count the current turn among those before."""
        self.cost(turn)
        self._priced_turn = None
        if turn.usage is not None:
            self._reports.append(turn.usage)
            self._tokens += _count_tokens(turn.usage)

    def reports(self, turn: Turn | None) -> list[Usage]:
        """Return the usage of each turn that reported any."""
        return [*self._reports, turn.usage] if turn is not None and turn.usage is not None else list(self._reports)

    def cost(self, turn: Turn | None) -> float:
        """Return the cost of all turns with usage. Each is priced once."""
        if turn is not None and turn is not self._priced_turn and turn.closed and turn.usage is not None:
            self._priced_turn = turn
            self._cost += self._budget.price(turn)
        return self._cost

    def is_over_budget(self, turn: Turn | None) -> bool:
        """Return True if all turns together have spent more than a limit."""
        tokens = self._tokens + (_count_tokens(turn.usage) if turn is not None and turn.usage is not None else 0)
        return self._budget.is_exceeded(tokens, self.cost(turn))

    def misses_usage(self, turn: Turn) -> bool:
        """Return True, once a run, if a turn without usage keeps the budget from being checked."""
        if self._is_usage_unknown or not self._budget.is_limited or turn.usage is not None:
            return False
        self._is_usage_unknown = True
        return True


def _count_tokens(usage: Usage) -> int:
    """Return the number of tokens of a turn, input and output, that count for ``max_tokens``."""
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
