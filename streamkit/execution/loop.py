"""``run_loop`` and the ``Run`` that it makes: how a conversation is begun, watched, left and resumed.

How it goes is ``conversation``'s. Here is what a caller may get wrong, and that a run can be left at any moment, from
any task, with everything that was begun ended.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from streamkit import providers
from streamkit.accumulator import Limits
from streamkit.calls import StreamWarning, ToolCall, Usage
from streamkit.errors import UsageError
from streamkit.events import Event
from streamkit.execution.background import asyncio_task
from streamkit.execution.context import CreateStream, RoundContext
from streamkit.execution.execution import check_callable, check_seconds
from streamkit.execution.loop_state import BeforeFollowUp, Ended, LoopOptions, LoopState
from streamkit.execution.run_tool import Approve
from streamkit.execution.scheduler import Schedule
from streamkit.execution.state import RunState, check_approvals
from streamkit.execution.thread_update import ThreadLayout, check_layout
from streamkit.history import Content
from streamkit.providers.provider import Provider, ToolChoice
from streamkit.tools import Approval, Tool, to_tools
from streamkit.turn import Turn

if TYPE_CHECKING:
    from streamkit.leaked_markup import LeakedMarkup

__all__ = ["Run", "run_loop"]


def run_loop(
    create_new_stream: CreateStream,
    *,
    provider: str | Provider | None = None,
    tools: Sequence[Callable[..., Any] | Tool] = (),
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
    fallbacks: Sequence[str | Provider] = (),
    before_follow_up: BeforeFollowUp | Sequence[BeforeFollowUp] = (),
    turn_limits: Limits | None = None,
    leaked_markup: LeakedMarkup = "keep",
    resume: RunState | None = None,
    approvals: Mapping[str, Approval | bool] | None = None,
) -> Run:
    """Ask a model, run the tools that it calls, and ask again until it has answered.

    Nothing happens yet: watch it with ``async with run_loop(...) as run`` and ``async for event in run``, or ``await``
    it, which gives the run when it has ended.

    Args:
        create_new_stream: called with a ``RoundContext`` for each request. It gives pieces (an iterable, sync or
            async), a response, or an awaitable or a context manager of one.
        provider: whose wire that is; of a resumed run by default the one that it was paused with.
        tools: functions and tools.
        history: the conversation so far, rendered anew for each request.
        thread: instead of history, the provider's own messages, appended to (in a copy).
        run_key: the stable name of the run; calls get their ids from it. By default random; give it where a run may be
            done again. It stands in the metadata of what the run adds, in ``turn_key``, before the colon.
        deps: what tools find in ``ToolContext.deps``, and the context has.
        tool_choice: of the first round. One that forces a tool is cleared after it.
        approve: ``async (call, deps) -> Approval | bool | None``, for tools with ``approval="ask"``. Without it, and
            where it gives None, the other calls run, and the run ends ``awaiting_approval`` with ``run.pending`` and
            ``run.state``.
        max_rounds: requests at most (continued pauses not counted); the last is made with ``tool_choice="none"``.
        limit: how many tools run at once, over the whole run; or a ``Schedule`` that several runs share.
        timeout: seconds for each call; None for no end.
        run_timeout: seconds for the whole run; what is under way then ends as ``timed_out``.
        shape: how calls and results are laid out in the thread, ``batched`` or ``sequential`` (one call at a time).
        retries: how often a request that failed before its first event is made again: where it could not connect, was
            cut off, or the provider said that it is overloaded (408, 409, 425, 429, 5xx). It waits as long as the
            provider says, else half a second, doubled each time. The SDKs retry by themselves: turn one of the two off.
        fallbacks: providers to ask next, in order, where a request has failed for good before its first event. The
            history is rendered for them, and ``context.provider`` says who is asked; the run stays with the one that
            answered. Not with a ``thread``.
        before_follow_up: one hook or several, called with the ``RoundContext`` before the request of each round but the
            first: ``async (context) -> RoundContext | None``. What it returns (``dataclasses.replace(context, ...)``)
            takes its place: other tools, a shorter history, another provider.
        turn_limits: how much a turn may hold, and
        leaked_markup: what becomes of tool-call markup in its text; both as of ``Turn``.
        resume: the ``state`` of a run that ended ``awaiting_approval``, also in another process. Tools, ``deps`` and
            limits are given again; the conversation, its rounds and ``run_key`` are the state's.
        approvals: for each call in ``state.pending``, by its id: True, False, or an ``Approval``. A run whose calls are
            not all answered ends ``awaiting_approval`` again, when what was allowed has run.

    Raises:
        UsageError: neither or both of history and thread are given; the choice names no tool; a number makes no sense;
            an answer is of no call that waits.
        StreamInterrupted: while it runs: a turn ended in an error. It carries the turn, of which nothing is appended.
    """
    known = to_tools(tools)
    if max_rounds < 1:
        raise UsageError(f"max_rounds is at least 1, not {max_rounds!r}")
    if retries < 0:
        raise UsageError(f"retries is how often a request is made again, at least 0, not {retries!r}")
    check_layout(shape)
    check_seconds(timeout=timeout, run_timeout=run_timeout)
    hooks = (before_follow_up,) if callable(before_follow_up) else tuple(before_follow_up)
    check_callable(
        create_new_stream=create_new_stream, approve=approve, **{f"hook {n}": hook for n, hook in enumerate(hooks)}
    )
    if isinstance(fallbacks, str):
        raise UsageError(f"fallbacks is a list of providers, not {fallbacks!r}")
    how = LoopOptions(
        create_new_stream,
        approve,
        max_rounds,
        limit if isinstance(limit, Schedule) else Schedule(limit),
        timeout,
        run_timeout,
        shape,
        retries,
        tuple(providers.get(each) for each in fallbacks),
        hooks,
        turn_limits,
        leaked_markup,
    )
    if resume is not None:
        if history is not None or thread is not None or run_key is not None or tool_choice is not None:
            raise UsageError("a resumed run has its history, thread, run_key and tool_choice from its state")
        if not isinstance(resume, RunState):
            raise UsageError(f"resume takes a RunState (RunState.model_validate_json), not {type(resume).__name__}")
        answers = check_approvals(resume, approvals or {})
        found = providers.get(resume.provider if provider is None else provider)
        if resume.thread is not None and found.name != resume.provider:
            raise UsageError(f"the run was paused with a thread of {resume.provider}, which {found.name} cannot read")
        conversation = _conversation(
            resume.history, known, resume.tool_choice, found, deps, resume.thread, how, resume.run_key, resume.round
        )
        conversation.resume(resume, answers)
        return Run(conversation)
    if approvals is not None:
        raise UsageError("approvals are answers to a paused run's questions: give its state with resume=")
    if provider is None:
        raise UsageError("run_loop needs provider=, the name of the wire that create_new_stream gives")
    if (history is None) == (thread is None):
        raise UsageError("give run_loop either history (Contents) or thread (the provider's own messages)")
    if tool_choice not in (None, "auto", "none", "required", *known):
        raise UsageError(f"tool_choice is 'auto', 'none', 'required' or a tool's name, not {tool_choice!r}")
    key = run_key if run_key is not None else secrets.token_urlsafe(12)
    return Run(_conversation(history or (), known, tool_choice, providers.get(provider), deps, thread, how, key))


def _conversation(
    contents: Sequence[Content],
    tools: dict[str, Tool],
    tool_choice: ToolChoice | None,
    provider: Provider,
    deps: Any,
    thread: Sequence[dict[str, Any]] | None,
    options: LoopOptions,
    run_key: str,
    round: int = 0,
) -> LoopState:
    if thread is not None and options.fallbacks:
        raise UsageError("a thread of one provider's own messages cannot go on with another: give history")
    Turn(
        provider, limits=options.turn_limits, leaked_markup=options.leaked_markup
    )  # refuses now what it would refuse later
    native = None if thread is None else list(thread)
    context = RoundContext(list(contents), list(tools.values()), tool_choice, provider, round, deps, native)
    return LoopState(context, options, run_key)


class Run:
    """One run of the loop. It is used once: awaited, or entered and watched.

    Leaving the block early closes the stream and cancels the tools that run, and waits for both.
    """

    def __init__(self, conversation: LoopState) -> None:
        self._conversation = conversation
        self._events: AsyncGenerator[Event, None] | None = None
        self._used = False
        self._left = False
        self._reader: asyncio.Task[Any] | None = None  # who waits for an event just now, on asyncio
        self._idle: anyio.Event | None = None  # set when that one has stopped, where somebody else leaves the run

    # ---------------------------------------------------------------- what it has

    @property
    def run_key(self) -> str:
        """The stable name of the run."""
        return self._conversation.run_key

    @property
    def ended(self) -> Ended | None:
        """Why it ended; None while it has not."""
        return self._conversation.ended

    @property
    def rounds(self) -> int:
        """How many rounds were begun."""
        return self._conversation.rounds

    @property
    def turn(self) -> Turn | None:
        """The turn that is read, or was read last; also what it holds of a half answer."""
        return self._conversation.turn

    @property
    def text(self) -> str:
        """The text of the last round's answer, as far as it is there."""
        return self._conversation.text

    @property
    def usage(self) -> Usage | None:
        """The tokens of all requests, added up; None where no provider gave any. ``raw`` is the list of reports."""
        return Usage.sum(self._conversation.reports)

    @property
    def contents(self) -> list[Content]:
        """What the run added, neutral; every call in it has its result, at any moment. Append it to your store."""
        return list(self._conversation.contents)

    @property
    def history(self) -> list[Content]:
        """The history that was given (none where it was a thread), and what the run added."""
        return list(self._conversation.context.contents)

    @property
    def thread(self) -> list[dict[str, Any]]:
        """The whole conversation as the provider's own messages."""
        return list(self._conversation.context.thread)

    @property
    def pending(self) -> list[ToolCall]:
        """The calls that wait for somebody's answer, where it ended ``awaiting_approval``."""
        return list(self._conversation.pending)

    @property
    def state(self) -> RunState | None:
        """What a run that ended ``awaiting_approval`` is resumed from; else None."""
        return self._conversation.state

    @property
    def warnings(self) -> list[StreamWarning]:
        """What was odd outside of the turns, which have their own: abandoned tools, the breaker, changed content."""
        return list(self._conversation.warnings)

    # ---------------------------------------------------------------- how it is used

    def __await__(self) -> Generator[Any, Any, Run]:
        return self._alone().__await__()

    async def _alone(self) -> Run:
        async with self:
            async for _ in self:
                pass
        return self

    async def __aenter__(self) -> Run:
        if self._used:
            raise UsageError("a run is used once: make a new one")
        self._used = True
        self._events = self._conversation.events()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the run: close the stream and cancel the tools, and wait for that. A second time does nothing."""
        self._left = True
        reader = self._reader
        if reader is not None and reader is not asyncio_task():
            self._idle = anyio.Event()
            reader.cancel()  # it waits inside of the run, and is told that there are no more events
            with anyio.CancelScope(shield=True):
                await self._idle.wait()
        if self._events is not None:
            await self._events.aclose()
        self._conversation.ended = self.ended or "canceled"

    def __aiter__(self) -> Run:
        if self._events is None:
            raise UsageError("watch a run inside its block: async with run_loop(...) as run: async for event in run")
        return self

    async def __anext__(self) -> Event:
        if self._events is None or self._left:
            raise StopAsyncIteration
        self._reader = reader = asyncio_task()
        try:
            return await self._events.__anext__()
        except asyncio.CancelledError:
            if self._idle is None or reader is None or reader.uncancel() > 0:
                raise
            raise StopAsyncIteration from None
        finally:
            self._reader = None
            if self._idle is not None:
                self._idle.set()
