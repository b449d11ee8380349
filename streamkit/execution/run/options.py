"""How a run makes its rounds, checked when it is put together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from streamkit import providers
from streamkit.accumulator import Limits
from streamkit.errors import UsageError
from streamkit.execution.durable.recorder import Checkpoint
from streamkit.execution.round.context import BeforeFollowUp, CreateStream, OnOverflow, Target
from streamkit.execution.round.options import ExecutionOptions, check_callable
from streamkit.execution.run.budget import Budget
from streamkit.output import OutputType
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.providers.requests.request import CachePolicy, auto_mark
from streamkit.reading.time_limits import TimeLimits

if TYPE_CHECKING:
    from streamkit.reading.leaked_markup import LeakedMarkup

__all__ = ["LoopOptions", "Retries", "TurnOptions"]


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
        check_callable("retries.on_overflow", self.on_overflow)

    @classmethod
    def of(cls, value: Retries | int) -> Retries:
        """Return the retries that a caller passed: a number means ``requests``."""
        return value if isinstance(value, Retries) else cls(requests=value)

    def targets(self) -> list[Target]:
        """Return the fallbacks as targets with provider objects."""
        found = [fallback if isinstance(fallback, Target) else Target(fallback) for fallback in self.fallbacks]
        return [replace(target, provider=providers.get(target.provider)) for target in found]


class TurnOptions(Struct, frozen=True):
    """How each turn of a run is read.

    Attributes:
        limits: the upper bounds of a turn; None for the default ones.
        leaked_markup: what happens with tool-call markup in the text, as for ``Turn``.
    """

    limits: Limits | None = None
    leaked_markup: LeakedMarkup = "keep"


class LoopOptions(Struct, frozen=True):
    """How ``run_loop`` makes its rounds.

    Attributes:
        create_new_stream: makes the stream of each request.
        execution: how tools are run.
        max_rounds: requests at most.
        retries: what is tried again.
        before_follow_up: the hooks.
        turn: how each turn is read.
        checkpoint: gets the entries of the run.
        output: the type of the structured output; None if there is none.
        cache: the marks that each request gets for the provider's cache.
        time_limits: of each request.
        budget: what the run may spend.

    Raises:
        UsageError: a number is too small, a function is none, or ``cache`` is no policy.
    """

    create_new_stream: CreateStream
    execution: ExecutionOptions
    max_rounds: int = 8
    retries: Retries = field(default_factory=Retries)
    before_follow_up: tuple[BeforeFollowUp, ...] = ()
    turn: TurnOptions = field(default_factory=TurnOptions)
    checkpoint: Checkpoint | None = None
    output: OutputType[Any] | None = None
    cache: CachePolicy = None
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        if not _is_integer(self.max_rounds) or self.max_rounds < 1:
            raise UsageError(f"max_rounds must be the number of requests, at least 1, not {self.max_rounds!r}")
        auto_mark(self.cache)  # rejects what is no policy
        check_callable("create_new_stream", self.create_new_stream)
        check_callable("checkpoint", self.checkpoint)
        for number, hook in enumerate(self.before_follow_up):
            check_callable(f"before_follow_up[{number}]", hook)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
