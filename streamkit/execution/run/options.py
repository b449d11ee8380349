"""How a run makes its rounds, checked when it is put together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from streamkit.accumulator import Limits
from streamkit.errors import UsageError
from streamkit.execution.durable.recorder import Checkpoint
from streamkit.execution.round.context import BeforeFollowUp, CreateStream, OnOverflow, Target
from streamkit.execution.round.options import ExecutionOptions, check_callable
from streamkit.execution.run.budget import Budget
from streamkit.history import Content
from streamkit.history.content import to_contents
from streamkit.output import OutputType
from streamkit.providers.requests.cache_marks import CachePolicy, auto_mark
from streamkit.reading.time_limits import TimeLimits

if TYPE_CHECKING:
    from streamkit.reading.leaked_markup import LeakedMarkup

__all__ = ["LoopOptions", "to_conversation"]


class LoopOptions(Struct, frozen=True):
    """How ``run_loop`` makes its rounds.

    Attributes:
        create_new_stream: makes the stream of each request.
        execution: how tools are run.
        max_rounds: requests at most.
        retries: how often a request that failed before its first event is made again, and how often the model may
            correct its output.
        fallbacks: the targets of further attempts.
        before_follow_up: the hooks.
        turn_limits: the limits of each turn.
        leaked_markup: what each turn does with tool-call markup in its text.
        checkpoint: gets the entries of the run.
        output: the type of the structured output; None if there is none.
        cache: the marks that each request gets for the provider's cache.
        time_limits: of each request.
        on_overflow: the hook of requests that exceed the model's context.
        budget: what the run may spend.

    Raises:
        UsageError: a number is too small, a function is none, or ``cache`` is no policy.
    """

    create_new_stream: CreateStream
    execution: ExecutionOptions
    max_rounds: int = 8
    retries: int = 0
    fallbacks: tuple[Target, ...] = ()
    before_follow_up: tuple[BeforeFollowUp, ...] = ()
    turn_limits: Limits | None = None
    leaked_markup: LeakedMarkup = "keep"
    checkpoint: Checkpoint | None = None
    output: OutputType[Any] | None = None
    cache: CachePolicy = None
    time_limits: TimeLimits = field(default_factory=TimeLimits)
    on_overflow: OnOverflow | None = None
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        if not _is_integer(self.max_rounds) or self.max_rounds < 1:
            raise UsageError(f"max_rounds must be the number of requests, at least 1, not {self.max_rounds!r}")
        if not _is_integer(self.retries) or self.retries < 0:
            raise UsageError(f"retries must be the number of further attempts, at least 0, not {self.retries!r}")
        auto_mark(self.cache)  # rejects what is no policy
        check_callable("create_new_stream", self.create_new_stream)
        check_callable("checkpoint", self.checkpoint)
        check_callable("on_overflow", self.on_overflow)
        for number, hook in enumerate(self.before_follow_up):
            check_callable(f"before_follow_up[{number}]", hook)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def to_conversation(
    history: Iterable[Content] | None, thread: Iterable[dict[str, Any]] | None
) -> tuple[list[Content], list[dict[str, Any]] | None]:
    """Return the Contents and the provider's own messages that a run starts with, each read once.

    Raises:
        UsageError: one is something else; with what to pass instead.
    """
    contents: list[Content] = []
    if history is not None:
        own_messages = "pass a provider's own messages as thread=[...], or convert them"
        contents = to_contents("history", history, alternative=own_messages)
    if thread is None:
        return contents, None
    if isinstance(thread, (Content, str, bytes, Mapping)) or not isinstance(thread, Iterable):
        raise UsageError(f"thread must be a list of the provider's messages, not {type(thread).__name__}")
    messages = list(thread)
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise UsageError(
                f"thread[{number}] must be a message of the provider, a dict, not {type(message).__name__}"
                + ("; pass Contents as history=[...]" if isinstance(message, Content) else "")
            )
    return contents, messages
