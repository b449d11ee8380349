"""``run_loop`` and ``Run``: how a run is created, watched, left and resumed.

``loop_rounds`` makes the rounds. This module checks the caller's arguments, and ensures that a run can be left at any
moment, from any task, with everything ended that was started. It must not depend on what happens in a round.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,  # a dependency of pydantic; typing's has no default before 3.13
    get_args,
)

import anyio
from pydantic import TypeAdapter
from typing_extensions import TypeVar

from streamkit import providers
from streamkit.accumulator import Limits
from streamkit.calls import StreamWarning, ToolCall, Usage
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.execution.batches import BatchReader
from streamkit.execution.budget import Budget
from streamkit.execution.context import BeforeFollowUp, CreateStream, OnOverflow, RoundContext, Target
from streamkit.execution.loop_rounds import run_rounds
from streamkit.execution.loop_state import LoopState
from streamkit.execution.options import Approve, AroundCall, ExecutionOptions, LoopOptions, check_conversation
from streamkit.execution.recorder import Checkpoint
from streamkit.execution.resume import create_state, resume_run, to_target
from streamkit.execution.scheduler import OccupiedPlace, Schedule, to_schedule
from streamkit.execution.state import Ended, RunState
from streamkit.execution.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.output import OutputType
from streamkit.providers.cache_marks import CachePolicy
from streamkit.providers.names import ProviderName
from streamkit.providers.origin import IdPolicy
from streamkit.providers.provider import Provider, ToolChoice
from streamkit.time_limits import TimeLimits
from streamkit.tools import AnyTool, Approval, to_tools
from streamkit.turn import Turn

if TYPE_CHECKING:
    from streamkit.leaked_markup import LeakedMarkup

__all__ = ["Run", "run_loop"]

#: The type of the structured output.
Out = TypeVar("Out", default=Any)


def run_loop(
    create_new_stream: CreateStream,
    *,
    provider: ProviderName | str | Provider | None = None,
    tools: Sequence[AnyTool] = (),
    history: Sequence[Content] | None = None,
    thread: Sequence[dict[str, Any]] | None = None,
    run_key: str | None = None,
    deps: Any = None,
    tool_choice: ToolChoice | None = None,
    approve: Approve | None = None,
    max_rounds: int = 8,
    limit: int | Schedule = 8,
    timeout: float | None = 30.0,
    run_timeout: float | None = None,
    shape: ThreadLayout = "batched",
    retries: int = 0,
    fallbacks: Sequence[ProviderName | str | Provider | Target] = (),
    before_follow_up: BeforeFollowUp | Sequence[BeforeFollowUp] = (),
    turn_limits: Limits | None = None,
    leaked_markup: LeakedMarkup = "keep",
    model: str | None = None,
    endpoint: str | None = None,
    ids: IdPolicy = "origin",
    checkpoint: Checkpoint | None = None,
    around_call: AroundCall | None = None,
    resume: RunState | None = None,
    approvals: Mapping[str, Approval | bool] | None = None,
    results: Mapping[str, Any] | None = None,
    output: type[Out] | TypeAdapter[Out] | Mapping[str, Any] | None = None,
    cache: CachePolicy = None,
    first_event_timeout: float | None = None,
    idle_timeout: float | None = None,
    heartbeats: bool = True,
    on_overflow: OnOverflow | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    cost: Callable[[Turn], float] | None = None,
) -> Run[Out]:
    """Request a model's turn, run the tools that it calls, and repeat until it calls none.

    Nothing runs yet: watch the run with ``async with run_loop(...) as run`` and ``async for event in run``, or
    ``await`` it, which returns the run when it has ended.

    Args:
        create_new_stream: called with a ``RoundContext`` for each request. It returns chunks (an iterable, sync or
            async), a response, or an awaitable or a context manager of one.
        provider: the provider of that stream; of a resumed run by default the one that it was paused with.
        tools: functions and tools, and the provider's own declarations as dicts (``{"type": "web_search"}``), which
            are sent as they are.
        history: the conversation so far, rendered for each request.
        thread: instead of history, the provider's own messages, to which (in a copy) the run appends.
        run_key: the stable name of the run, from which calls get their ids. Default: random; pass one if the run may be
            repeated. The metadata of what the run adds contains it, in ``turn_key``, before the colon.
        deps: the tools' ``ToolContext.deps``, and the ``deps`` of the context.
        tool_choice: of the first round. One that forces a tool is cleared after it.
        approve: ``async (call, deps) -> Approval | bool | None``, for tools with ``approval="ask"``. Without it, and if
            it returns None, the other calls run, and the run ends ``awaiting_approval`` with ``run.pending`` and
            ``run.state``.
        max_rounds: requests at most (continued pauses not counted); the last is made with ``tool_choice="none"``.
        limit: how many tools run at once, over the complete run; or a ``Schedule`` that several runs share.
        timeout: seconds for each call; None for no limit. A tool's own timeout takes precedence.
        run_timeout: seconds for the complete run; what is under way then ends as ``timed_out``.
        shape: the layout of calls and results in the conversation, ``batched`` or ``sequential`` (one call at a time).
        retries: how often a request that failed before its first event is made again: if it could not connect or was
            interrupted, or the provider reported an overload (408, 409, 425, 429, 5xx). The delay is the provider's, or
            else half a second, doubled each time. The SDKs retry by themselves: turn one of the two off. It is also
            how many further rounds the model gets to correct an ``output`` that does not fit.
        fallbacks: providers to try next, in order, when a request has failed for good before its first event. The
            history is rendered for them, and ``context.provider`` is the one to request, with ``context.model`` and
            ``context.endpoint`` if it is a ``Target``; the run continues with the one that succeeded. Not with a
            ``thread``.
        before_follow_up: one hook or several, called with the ``RoundContext`` before the request of each round but the
            first: ``async (context) -> RoundContext | None``. What it returns (``dataclasses.replace(context, ...)``)
            replaces the context: other tools, a shorter history, another provider.
        turn_limits: the ``limits`` of each ``Turn``.
        leaked_markup: what each ``Turn`` does with tool-call markup in its text.
        model: the model that ``create_new_stream`` requests. Opaque state in the history (signatures, encrypted
            reasoning, item ids) of another model is left out, and ``run.warnings`` lists that; without ``model`` it
            counts as unchanged. Ids have the form that the model's servers require.
        endpoint: the address of the server that ``create_new_stream`` requests, which is treated in the same way.
        ids: ``origin``: a call that goes back to its provider keeps the id that the provider gave it, if it is legal
            and unique; ``canonical``: all ids are derived.
        checkpoint: ``async (entry) -> None``, called with each ``RunEntry`` of the run before its event is shown: store
            it, in order. Calls start only when the response that made them is stored, so none starts early. What it
            raises ends the run.
        around_call: ``async (call, go) -> value``, called in the task of each call, within its timeout: ``await go()``
            calls the tool and returns its value. For tracing, rate limits and engines. What it raises is the call's
            error.
        resume: the ``state`` of a run that ended ``awaiting_approval`` or ``awaiting_results``, or
            ``RunState.from_entries(entries)`` of one that was stopped anywhere; also in another process. Tools,
            ``deps``, ``checkpoint`` and limits are passed again; the conversation, its rounds and ``run_key`` are the
            state's.
        approvals: for each call in ``state.pending``, by its id: True, False, or an ``Approval``. Without a decision
            for every call the run ends ``awaiting_approval`` again, when the approved ones have run.
        results: for each call in ``state.awaiting_results``, by its id: the value, as a tool would return it, or a
            ``ToolFailed`` with a sentence for the model. Without a value for every call the run ends
            ``awaiting_results`` again.
        output: the type of a structured output, as for ``Growing``: a pydantic model, another type (a union as
            ``TypeAdapter(A | B)``, for type checkers), or a JSON schema. Each request asks for it in the provider's
            form, ``run.output`` has it, and a wrong one is told to the model.
        cache: ``auto`` or a ``CacheMark``: each request marks the ends of the tools, of the system text and of the
            conversation for the provider's cache, as with ``render_request``; of a ``thread`` only the tools.
        first_event_timeout: seconds from each request to its first event with content; None for no limit. A request
            that exceeds them is made again as ``retries`` and ``fallbacks`` say; then the run ends ``timed_out``.
        idle_timeout: seconds without input of a response; before the first event only if ``first_event_timeout`` is
            None. After the first event no request is made again: the run ends ``timed_out``.
        heartbeats: comments and pings count as input; False: only input with events does.
        on_overflow: ``async (error, context) -> RoundContext | None``, called once a run, when a provider refuses a
            request with ``context_overflow`` (``error.limit`` and ``error.requested`` are the tokens, if it sent them).
            The request is made again from the context that it returns, with a shorter history; None: the error counts.
        max_tokens: input and output tokens of all requests; the run ends ``budget`` after the round that exceeds them,
            if the model would be asked again. It holds for a resumed run as a whole.
        max_cost: the same for the sum of ``cost``.
        cost: the cost of a turn with usage, called once for each: ``turn.usage``, ``turn.model`` and ``turn.provider``
            have the facts, ``streamkit.bridges.prices`` list prices. Any currency, that of ``max_cost``.

    Raises:
        UsageError: neither or both of history and thread are passed; the choice is no tool's name; a number is out of
            range; an approval or a result is of a call that does not await one.
        StreamInterrupted: when it runs: a turn ended in an error. The exception carries the turn, which is also in
            ``run.contents``, marked as interrupted, and the results of the calls that had started.
        InvalidOutput: when it runs: the model's output did not fit, and no further round was left.
        Exception: when it runs: what ``create_new_stream``, a hook or ``approve`` raised, unless a connection failed.
    """
    if isinstance(fallbacks, (str, Provider)):
        raise UsageError(f"fallbacks must be a list of providers, not {fallbacks!r}")
    if not callable(before_follow_up) and not isinstance(before_follow_up, Sequence):
        raise UsageError(f"before_follow_up must be a function or a list of functions, not {before_follow_up!r}")
    if run_key is not None and not (isinstance(run_key, str) and run_key):
        raise UsageError(f"run_key must be a text that is not empty, or None, not {run_key!r}")
    if ids not in get_args(IdPolicy):
        raise UsageError(f"ids must be {' or '.join(map(repr, get_args(IdPolicy)))}, not {ids!r}")
    tools_by_name = to_tools(tools)
    options = LoopOptions(
        create_new_stream,
        ExecutionOptions(tools_by_name, to_schedule(limit), shape, timeout, run_timeout, deps, approve, around_call),
        max_rounds=max_rounds,
        retries=retries,
        fallbacks=tuple(map(to_target, fallbacks)),
        before_follow_up=(before_follow_up,) if callable(before_follow_up) else tuple(before_follow_up),
        turn_limits=turn_limits,
        leaked_markup=leaked_markup,
        checkpoint=checkpoint,
        output=None if output is None else OutputType(output),
        cache=cache,
        time_limits=TimeLimits(first_event_timeout, idle_timeout, heartbeats),
        on_overflow=on_overflow,
        budget=Budget(max_tokens, max_cost, cost),
    )
    if resume is not None:
        if history is not None or thread is not None or run_key is not None or tool_choice is not None:
            raise UsageError("a resumed run has its history, thread, run_key and tool_choice from its state")
        target = Target("" if provider is None else provider, model, endpoint)
        return Run(resume_run(resume, target, options, ids, approvals=approvals or {}, results=results or {}))
    check_conversation(history, thread)
    if approvals is not None or results is not None:
        raise UsageError("approvals and results are for the calls of a paused run: pass its state with resume=")
    if provider is None:
        raise UsageError("run_loop needs provider=, the name of the provider whose stream create_new_stream returns")
    if (history is None) == (thread is None):
        raise UsageError("pass run_loop either history (Contents) or thread (the provider's own messages)")
    if tool_choice not in (None, "auto", "none", "required", *tools_by_name):
        raise UsageError(f"tool_choice must be 'auto', 'none', 'required' or a tool's name, not {tool_choice!r}")
    context = RoundContext(
        list(history or ()),
        list(tools_by_name.values()),
        tool_choice,
        providers.get(provider),
        deps=deps,
        messages=None if thread is None else list(thread),
        model=model,
        endpoint=endpoint,
        ids=ids,
        output=options.output,
        cache=cache,
    )
    return Run(create_state(context, options, run_key if run_key is not None else secrets.token_urlsafe(12)))


class Run(Generic[Out]):
    """One run of the loop, with an output of the type that was passed. It is used once: awaited, or entered.

    Leaving the block early closes the stream, cancels the running tools, and waits for both.
    """

    # False while neither use nor an error has shown the caller what to do. ``__del__`` is also called if the
    # constructor raises, so the class has it too.
    _is_noticed = True

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self._events: AsyncGenerator[Event, None] | None = None
        self._is_used = self._is_noticed = False
        self._reader = BatchReader(run_rounds(state), state.last_events)

    def __del__(self) -> None:
        if not self._is_noticed:
            message = "run_loop(...) was never awaited: await the run, or enter it with async with"
            warnings.warn(message, RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<Run {self.run_key!r} rounds={self.rounds} ended={self.ended!r}>"

    # ---------------------------------------------------------------- results

    @property
    def run_key(self) -> str:
        """The stable name of the run."""
        return self._state.run_key

    @property
    def ended(self) -> Ended | None:
        """Why it ended; None before."""
        return self._state.ended

    @property
    def rounds(self) -> int:
        """How many rounds were started."""
        return self._state.rounds

    @property
    def turn(self) -> Turn | None:
        """The turn that is read, or was read last; after a failure, all that was received."""
        return self._state.turn

    @property
    def text(self) -> str:
        """The text of the last round so far."""
        return self._state.text

    @property
    def output(self) -> Out | None:
        """The structured output, of the type that was passed as ``output``; None before it is there."""
        output: Out | None = self._state.output
        return output

    @property
    def usage(self) -> Usage | None:
        """The sum of the tokens of all requests; None if no provider reported any. ``raw`` is the list of reports."""
        return Usage.sum(self._state.usage_reports)

    @property
    def cost(self) -> float:
        """What the turns have cost by the ``cost`` argument; 0 without it."""
        return self._state.cost

    @property
    def contents(self) -> list[Content]:
        """The contents that the run added; every call in it has its result, at any moment. Append it to your store."""
        return list(self._state.contents)

    @property
    def history(self) -> list[Content]:
        """The ``history`` argument (nothing for a run with a ``thread``), and the contents that the run added."""
        return list(self._state.context.contents)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The complete conversation as the provider's own messages."""
        return list(self._state.context.thread)

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that await approval or their results, of a run that ended so (docs/rules.md, "Approval")."""
        return list(self._state.pending)

    @property
    def state(self) -> RunState | None:
        """What a run that ended ``awaiting_approval`` or ``awaiting_results`` is resumed from; else None."""
        return self._state.state

    @property
    def warnings(self) -> list[StreamWarning]:
        """All irregularities: of every turn, of requests and rendering, and of running the tools."""
        return list(self._state.warnings)

    # ---------------------------------------------------------------- use

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._run_unwatched().__await__()

    async def _run_unwatched(self) -> Self:
        async with self:
            async for _ in self:
                pass
        return self

    async def __aenter__(self) -> Self:
        if self._is_used:
            raise UsageError("a run is used once: create a new one")
        self._is_used = self._is_noticed = True
        OccupiedPlace.check_outside_of(self._state.schedule)
        self._events = self._reader.events()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def run_sync(self) -> Self:
        """Run it in a new event loop, and return the run when it has ended.

        Raises:
            UsageError: an event loop is running here; await the run instead.
            StreamInterrupted: as for ``run_loop``.
        """
        try:
            anyio.get_cancelled_exc_class()
        except RuntimeError:
            return anyio.run(self._run_unwatched)
        self._is_noticed = True
        raise UsageError("an event loop is running here: await the run instead of run_sync()")

    def cancel(self) -> None:
        """End the run from any task or thread, as a stop button does; its reader's loop ends without an exception.

        It returns at once. The stream is closed, tools are canceled, every call gets its result, and the last event is
        a ``RunEnded`` with ``canceled``. A run that has ended stays as it is; one that has not started makes no
        request.
        """
        self._reader.cancel()

    async def aclose(self) -> None:
        """Close the stream and cancel the tools, and wait for the end of both. Idempotent."""
        await self._reader.aclose()
        if self._events is not None:
            await self._events.aclose()
        self._state.ended = self.ended or "canceled"

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        # The generator itself: no further coroutine per event.
        if self._events is None:
            self._is_noticed = True
            raise UsageError("iterate inside the block: async with run_loop(...) as run: async for event in run")
        if self._reader.is_exhausted:
            raise UsageError("the events of this run were read: they arrive once; run.contents has what they added")
        return self._events

    def __anext__(self) -> Awaitable[Event]:
        return (aiter(self) if self._events is None else self._events).__anext__()
