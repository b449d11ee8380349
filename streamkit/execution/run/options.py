"""How a run makes its rounds and what it may spend, checked when it is put together. Pure.

Prices are the caller's: they change without notice, differ by contract, and a package that keeps them well
(genai-prices) need not be installed for anything else. This module must not depend on how requests are made or streams
read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from streamkit import providers
from streamkit.accumulator import Limits
from streamkit.calls import ToolCall, Usage
from streamkit.errors import UsageError
from streamkit.execution.one_call.nested import OuterRun
from streamkit.execution.round.context import BeforeFollowUp, CreateStream, OnOverflow, Target
from streamkit.execution.round.executor import ExecutionOptions
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.providers.requests.request import CachePolicy, auto_mark
from streamkit.reading.turn import Turn
from streamkit.values.redaction import excerpt_repr

if TYPE_CHECKING:
    from streamkit.execution.durable.recorder import Checkpoint
    from streamkit.execution.durable.state import RunState
    from streamkit.output import OutputType
    from streamkit.reading.leaked_markup import LeakedMarkup

__all__ = [
    "Budget",
    "LoopOptions",
    "Retries",
    "Spending",
    "TurnOptions",
    "count_calls",
]


class Budget(Struct, frozen=True):
    """What a run may spend. The limits hold for a resumed run as a whole. ``run_loop`` takes a number for ``tokens``.

    Attributes:
        tokens: input and output tokens of all requests; the run ends ``budget`` after the round that exceeds them, if
            the model would be asked again. None for no limit.
        cost: the same for the sum of ``price``.
        calls: calls of tools that may run, also if they are denied then, or fail. Further calls get ``canceled``
            results, and the run ends ``budget`` after that round; the call of a structured output does not count. With
            it no call starts before its turn ends.
        price: the cost of a turn with usage, called once for each: ``turn.usage``, ``turn.model`` and ``turn.provider``
            have the facts, ``streamkit.bridges.prices`` list prices. Any currency, that of ``cost``. None if there are
            no prices.

    Raises:
        UsageError: a limit is not above 0, or ``cost`` has no ``price``.
    """

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None
    price: Callable[[Turn], float] | None = None

    def __post_init__(self) -> None:
        tokens, cost = self.tokens, self.cost
        if self.calls is not None and (
            isinstance(self.calls, bool) or not isinstance(self.calls, int) or self.calls < 1
        ):
            raise UsageError(f"budget.calls must be the number of tool calls of a run, at least 1, not {self.calls!r}")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
            raise UsageError(f"budget.tokens must be the number of tokens of a run, at least 1, not {tokens!r}")
        if cost is not None and (isinstance(cost, bool) or not isinstance(cost, (int, float)) or not cost > 0):
            raise UsageError(f"budget.cost must be a number above 0, not {cost!r}")
        if self.price is not None and not callable(self.price):
            raise UsageError(f"budget.price must be a function of a turn that returns a number, not {self.price!r}")
        if cost is not None and self.price is None:
            raise UsageError(
                "Budget(cost=) needs price=, a function of a turn that returns what it cost, such as "
                "streamkit.bridges.prices.cost"
            )

    @classmethod
    def of(cls, value: Budget | int | None) -> Budget:
        """Return the budget that a caller passed: a number means ``tokens``, None no limit."""
        return value if isinstance(value, Budget) else cls(tokens=value)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit that depends on the usage of turns."""
        return self.tokens is not None or self.cost is not None

    def price_of(self, turn: Turn) -> float:
        """Return the price of a turn with usage; 0 if there are no prices.

        Raises:
            UsageError: ``price`` has returned no number, for example because it has no price of the model.
        """
        if self.price is None:
            return 0.0
        price = self.price(turn)
        try:
            number = float(price)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number):  # also what tables of prices have where one is missing: no sum with it exceeds a limit
            raise UsageError(
                f"budget.price must return a number for the model {turn.model!r}, not {excerpt_repr(price)}"
            )
        return number

    def is_exceeded(self, tokens: int, cost: float) -> bool:
        """Return True if a run has spent more than a limit.

        Args:
            tokens: the sum of the input and output tokens of its turns.
            cost: the sum of their prices.
        """
        if self.cost is not None and cost > self.cost:
            return True
        return self.tokens is not None and tokens > self.tokens


class Spending:
    """What a run has spent, on the turns before and on the current one, which each method takes.

    The turns before have their usage, what they cost, and how many calls they made. All counts in the budget of the run
    around this one (``outer``) too.
    """

    def __init__(
        self,
        budget: Budget,
        reports: Sequence[Usage] = (),
        cost: float = 0.0,
        calls: int = 0,
        outer: OuterRun | None = None,
    ) -> None:
        self._budget = budget
        self._outer = outer
        self._counted_turn: Turn | None = None  # the last one that counts in the outer budget
        self._reports = list(reports)
        self._tokens = sum([_count_tokens(usage) for usage in reports])  # adding them up each round would take longer
        self._cost = cost  # of the turns that were priced
        self._calls = calls
        self._priced_turn: Turn | None = None  # the last of them
        self._turn_cost = 0.0  # of that
        self._is_usage_unknown = False  # and that was reported

    def add(self, turn: Turn) -> None:
        """Count the current turn among those before."""
        self.count_outside(turn)
        self.cost(turn)
        self._priced_turn = None
        if turn.usage is not None:
            self.add_usage(turn.usage)

    def add_usage(self, usage: Usage, cost: float = 0.0) -> None:
        """Count the tokens of a turn, and the cost of one of an inner run."""
        self._reports.append(usage)
        self._tokens += _count_tokens(usage)
        self._cost += cost

    def count_outside(self, turn: Turn | None) -> None:
        """Count the current turn, once it is over, in the budget of the run around this one."""
        if self._outer is None or turn is None or turn is self._counted_turn or turn.usage is None or not turn.closed:
            return
        self._counted_turn = turn
        self._outer.spend(turn.usage, self.turn_cost(turn))

    def turn_cost(self, turn: Turn) -> float:
        """Return what the current turn alone has cost."""
        self.cost(turn)
        return self._turn_cost if turn is self._priced_turn else 0.0

    def reports(self, turn: Turn | None) -> list[Usage]:
        """Return the usage of each turn that reported any."""
        return [*self._reports, turn.usage] if turn is not None and turn.usage is not None else list(self._reports)

    def cost(self, turn: Turn | None) -> float:
        """Return the cost of all turns with usage. Each is priced once."""
        if turn is not None and turn is not self._priced_turn and turn.closed and turn.usage is not None:
            self._priced_turn = turn
            self._turn_cost = self._budget.price_of(turn)
            self._cost += self._turn_cost
        return self._cost

    @property
    def calls_left(self) -> int | None:
        """How many calls may still run, in the budget of the run around this one too; None if that is not limited."""
        own = None if self._budget.calls is None else max(0, self._budget.calls - self._calls)
        outer = None if self._outer is None else self._outer.calls_left
        return own if outer is None else outer if own is None else min(own, outer)

    def add_calls(self, calls: int) -> None:
        """Count calls that may run, also in the budget of the run around this one."""
        self._calls += calls
        if self._outer is not None:
            self._outer.spend_calls(calls)

    def count_calls(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        """Count the calls of a turn; return those that may not run, because none is left for them."""
        left = self.calls_left
        self.add_calls(len(calls))
        return [] if left is None else calls[left:]

    def is_over_budget(self, turn: Turn | None) -> bool:
        """Return True if all turns together have spent more than a limit."""
        if self._budget.calls is not None and self._calls > self._budget.calls:
            return True
        self.count_outside(turn)
        if self._outer is not None and self._outer.is_over_budget():
            return True
        tokens = self._tokens + (_count_tokens(turn.usage) if turn is not None and turn.usage is not None else 0)
        return self._budget.is_exceeded(tokens, self.cost(turn))

    def misses_usage(self, turn: Turn) -> bool:
        """Return True, once a run, if a turn without usage keeps the budget from being checked."""
        if self._is_usage_unknown or not self._budget.is_limited or turn.usage is not None:
            return False
        self._is_usage_unknown = True
        return True


def count_calls(state: RunState, *, without: str | None) -> int:
    """Return how many calls of a run that was left count for ``Budget.calls``, except those of the tool *without*."""
    blocks = [block for content in state.contents for block in content.blocks]
    results = [block for block in blocks if isinstance(block, ToolResponseBlock)]
    # Of an earlier round only those of a response that the provider had paused are canceled.
    canceled = {result.call_id for result in results if result.status == "canceled"}
    calls = [block for block in blocks if isinstance(block, ToolCallBlock) and block.id not in canceled]
    names = [call.name for call in calls if "state" not in call.metadata]  # else it was not complete
    if state.outcome != "pause":
        names += [call.name for call in state.calls if call.state == "complete"]
    return sum(name != without for name in names)


def _count_tokens(usage: Usage) -> int:
    """Return the number of tokens of a turn, input and output, that count for ``Budget.tokens``."""
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


class Retries(Struct, frozen=True):
    """What is tried again in a run. ``run_loop`` takes a number for ``requests``.

    Attributes:
        requests: how often a request that failed before its first event is made again, for each provider.
        output: in how many rounds the model may correct a wrong structured output.
        fallbacks: the providers, or ``Target`` objects, of further attempts.
        on_overflow: ``async (error, context) -> RoundContext | None``, called once a run, when a provider refuses a
            request with ``context_overflow`` (``error.limit`` and ``error.requested`` are the tokens, if it sent them).
            The request is made again from the context that it returns, with a shorter history; None: the error counts.

    Raises:
        UsageError: a number is below 0, the fallbacks are no list, or the hook is no function.
        UnknownProvider: a fallback has no such name.
    """

    requests: int = 0
    output: int = 1
    fallbacks: Sequence[ProviderName | str | Provider | Target] = ()
    on_overflow: OnOverflow | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "output"):
            number = getattr(self, name)
            if not _is_integer(number) or number < 0:
                raise UsageError(f"retries.{name} must be the number of further attempts, at least 0, not {number!r}")
        if isinstance(self.fallbacks, (str, Provider)) or not isinstance(self.fallbacks, Sequence):
            raise UsageError(f"retries.fallbacks must be a list of providers, not {self.fallbacks!r}")
        _check_callable("retries.on_overflow", self.on_overflow)

    @classmethod
    def of(cls, value: Retries | int) -> Retries:
        """Return the retries that a caller passed: a number means ``requests``."""
        return value if isinstance(value, Retries) else cls(requests=value)

    def targets(self) -> list[Target]:
        """Return the fallbacks as targets with provider objects."""
        found = [fallback if isinstance(fallback, Target) else Target(fallback) for fallback in self.fallbacks]
        return [structs.replace(target, provider=providers.get(target.provider)) for target in found]


class TurnOptions(Struct, frozen=True):
    """How each turn of a run is read.

    Attributes:
        limits: the upper bounds of a turn; None for the default ones.
        leaked_markup: what happens with tool-call markup in the text, as for ``Turn``.
        repair_arguments: whether arguments with errors that have one meaning only are repaired, as for ``Turn``.
    """

    limits: Limits | None = None
    leaked_markup: LeakedMarkup = "keep"
    repair_arguments: bool = False


class LoopOptions(Struct, frozen=True):
    """How ``run_loop`` makes its rounds.

    Raises:
        UsageError: a number is too small, a function is none, or ``cache`` is no policy.
    """

    create_new_stream: CreateStream  #: makes the stream of each request
    execution: ExecutionOptions  #: how tools are run, and the time limits of the run and its requests
    max_rounds: int = 8  #: requests at most
    retries: Retries = field(default_factory=Retries)  #: what is tried again
    before_follow_up: tuple[BeforeFollowUp, ...] = ()  #: the hooks
    turn: TurnOptions = field(default_factory=TurnOptions)  #: how each turn is read
    checkpoint: Checkpoint | None = None  #: gets the entries of the run
    output: OutputType[Any] | None = None  #: the type of the structured output; None if there is none
    cache: CachePolicy = None  #: the marks that each request gets for the provider's cache
    budget: Budget = field(default_factory=Budget)  #: what the run may spend

    def __post_init__(self) -> None:
        if not _is_integer(self.max_rounds) or self.max_rounds < 1:
            raise UsageError(f"max_rounds must be the number of requests, at least 1, not {self.max_rounds!r}")
        auto_mark(self.cache)  # rejects what is no policy
        if not callable(self.create_new_stream):
            raise UsageError(f"create_new_stream must be a function of a RoundContext, not {self.create_new_stream!r}")
        _check_callable("checkpoint", self.checkpoint)
        for number, hook in enumerate(self.before_follow_up):
            _check_callable(f"before_follow_up[{number}]", hook)


def _check_callable(name: str, function: object) -> None:
    """Raise UsageError if an option is neither a function nor None."""
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, not {function!r}")


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
