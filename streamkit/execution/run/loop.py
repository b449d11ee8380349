"""``run_loop``: the arguments of a run, checked and put together as the first state of a new or a resumed run.

The run itself is in ``run``. This module must not depend on what happens in a round.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from msgspec import structs

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.execution.executors import Schedule, to_schedule
from streamkit.execution.one_call.attempt import AroundCall
from streamkit.execution.one_call.nested import RunningCall, current_call
from streamkit.execution.one_call.prepare import Approve, awaits_client
from streamkit.execution.round.context import BeforeFollowUp, Connection, CreateStream, RoundContext, Target
from streamkit.execution.round.executor import ExecutionOptions
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.execution.run.loop_state import LoopState
from streamkit.execution.run.options import Budget, LoopOptions, Retries, TurnOptions
from streamkit.execution.run.run import Out, Run
from streamkit.history import Content
from streamkit.history.content import to_contents
from streamkit.providers.contract.output_form import check_tool_names
from streamkit.providers.contract.rendered import IdPolicy
from streamkit.providers.provider import Provider, ToolChoice
from streamkit.providers.registry import ProviderName
from streamkit.providers.requests.request import CachePolicy
from streamkit.reading.time_limits import Timeouts
from streamkit.reading.turn import Turn
from streamkit.tools import AnyTool, to_tools

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from streamkit.execution.durable.recorder import Checkpoint
    from streamkit.execution.durable.state import AnsweredState, RunState

__all__ = ["run_loop", "to_conversation"]


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
    shape: ThreadLayout = "batched",
    timeouts: Timeouts | float | None = Timeouts(),
    retries: Retries | int = Retries(),
    budget: Budget | int | None = None,
    turn: TurnOptions = TurnOptions(),
    before_follow_up: BeforeFollowUp | Sequence[BeforeFollowUp] = (),
    model: str | None = None,
    endpoint: str | None = None,
    ids: IdPolicy = "origin",
    checkpoint: Checkpoint | None = None,
    around_call: AroundCall | None = None,
    resume: RunState | AnsweredState | None = None,
    output: type[Out] | TypeAdapter[Out] | Mapping[str, Any] | None = None,
    cache: CachePolicy = None,
) -> Run[Out]:
    """Request a model's turn, run the tools that it calls, and repeat until it calls none.

    Nothing runs yet: watch the run with ``async with run_loop(...) as run`` and ``async for event in run``, or
    ``await`` it, which returns the run when it has ended.

    Args:
        create_new_stream: called with a ``RoundContext`` for each request. It returns chunks (an iterable, sync or
            async), a response, or an awaitable or a context manager of one; all that ``read`` accepts. It is called in
            the event loop, and so is a sync source read: while either waits, nothing else runs there. A connection
            (``streamkit.bridges.http.connect``) also has the provider, the model and the endpoint.
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
        shape: the layout of calls and results in the conversation, ``batched`` or ``sequential`` (one call at a time).
        timeouts: ``Timeouts(call=30.0, run=None, first_event=None, idle=None, heartbeats=True)``, or the seconds for
            each call. A request without an event in time is made again as ``retries`` say; after the first event none
            is made again: the run ends ``timed_out``, as it does when the seconds of ``run`` are over.
        retries: ``Retries(requests=0, output=1, fallbacks=(), on_overflow=None)``, or the number of ``requests``. A
            request that failed before its first event is made again if it could not connect or was interrupted, or the
            provider reported an overload (408, 409, 425, 429, 5xx). The delay is the provider's, or else half a second,
            doubled each time. The SDKs retry by themselves: turn one of the two off. Fallbacks are tried in order when
            it has failed for good: the history is rendered for them, ``context.provider`` is the one to request, with
            ``context.model`` and ``context.endpoint`` if it is a ``Target``, and the run continues with the one that
            succeeded. Not with a ``thread``.
        budget: ``Budget(tokens=None, cost=None, calls=None, price=None)``, or the number of ``tokens``.
        turn: ``TurnOptions(limits=None, leaked_markup="keep", repair_arguments=False)``: how each ``Turn`` is read.
        before_follow_up: one hook or several, called with the ``RoundContext`` before the request of each round but the
            first: ``async (context) -> RoundContext | None``. What it returns (``dataclasses.replace(context, ...)``)
            replaces the context: other tools, a shorter history, another provider.
        model: the model that ``create_new_stream`` requests. Opaque state in the history (signatures, encrypted
            reasoning, item ids) of another model is left out, and ``run.warnings`` lists that; without ``model`` it
            counts as unchanged. Ids have the form that the model's servers require.
        endpoint: the address of the server that ``create_new_stream`` requests, which is treated in the same way.
        ids: ``origin``: a call that goes back to its provider keeps the id that the provider gave it, if it is legal
            and unique; ``canonical``: all ids are derived.
        checkpoint: ``async (entry) -> None``, called with each ``RunEntry`` of the run before its event is shown: store
            it, in order. Calls start only when the response that made them is stored, so none starts early. What it
            raises ends the run; so does a ``TimeoutError`` if it hangs when the time of the run is over.
        around_call: ``async (call, go) -> value``, called in the task of each call, within its timeout: ``await go()``
            calls the tool and returns its value. For rate limits and engines; traces are made by ``Run.observe``. What
            it raises is the call's error.
        resume: the ``state`` of a run that ended ``awaiting_approval`` or ``awaiting_results``, with the decisions and
            results that it waits for: ``state.answer(approvals={id: True}, results={id: value})``; or
            ``RunState.from_entries(entries)`` of one that was stopped anywhere; also in another process. Tools,
            ``deps``, ``checkpoint`` and limits are passed again; the conversation, its rounds and ``run_key`` are the
            state's.
        output: the type of a structured output, as for ``Growing``: a pydantic model, another type (a union as
            ``TypeAdapter(A | B)``, for type checkers), or a JSON schema. Each request asks for it in the provider's
            form, ``run.output`` has it, and the model reads why a wrong one does not fit.
        cache: ``auto`` or a ``CacheMark``: each request marks the ends of the tools, of the system text and of the
            conversation for the provider's cache, as with ``render_request``; of a ``thread`` only the tools.

    Raises:
        UsageError: neither or both of history and thread are passed; the choice is no tool's name; a number is out of
            range; the state cannot be resumed with these arguments.
        StreamInterrupted: when it runs: a turn ended in an error. The exception carries the turn, which is also in
            ``run.contents``, marked as interrupted, and the results of the calls that had started.
        InvalidOutput: when it runs: the model's output did not fit, and no further round was left.
        Exception: when it runs: what ``create_new_stream``, a hook or ``approve`` raised, unless a connection failed.
    """
    if not callable(before_follow_up) and not isinstance(before_follow_up, Sequence):
        raise UsageError(f"before_follow_up must be a function or a list of functions, not {before_follow_up!r}")
    if run_key is not None and not (isinstance(run_key, str) and run_key):
        raise UsageError(f"run_key must be a text that is not empty, or None, not {run_key!r}")
    if ids not in _ID_POLICIES:
        raise UsageError(f"ids must be {' or '.join(map(repr, _ID_POLICIES))}, not {ids!r}")
    if isinstance(create_new_stream, Connection):
        named, provider = provider, create_new_stream.provider
        if named is not None and providers.get(named).name != provider:
            raise UsageError(f"the connection is one to {provider}, not to {providers.get(named).name}")
        if endpoint not in (None, create_new_stream.endpoint):
            raise UsageError("the connection has an endpoint: leave out endpoint=, or pass base_url to the connection")
        model, endpoint = model or create_new_stream.model, create_new_stream.endpoint
    tools_by_name = to_tools(tools)
    output_type: OutputType[Out] | None = None
    if output is not None:
        from streamkit.output import OutputType  # most runs have none

        check_tool_names(tools_by_name)
        output_type = OutputType(output)
    if not isinstance(turn, TurnOptions):
        raise UsageError(f"turn must be TurnOptions(limits=..., leaked_markup=..., repair_arguments=...), not {turn!r}")
    options = LoopOptions(
        create_new_stream,
        ExecutionOptions(tools_by_name, to_schedule(limit), shape, Timeouts.of(timeouts), deps, approve, around_call),
        max_rounds=max_rounds,
        retries=Retries.of(retries),
        before_follow_up=(before_follow_up,) if callable(before_follow_up) else tuple(before_follow_up),
        turn=turn,
        checkpoint=checkpoint,
        output=output_type,
        cache=cache,
        budget=Budget.of(budget),
    )
    call = current_call()
    target = Target("" if provider is None else provider, model, endpoint)
    if resume is not None:
        if history is not None or thread is not None or run_key is not None or tool_choice is not None:
            raise UsageError("a resumed run has its history, thread, run_key and tool_choice from its state")
        resumed = _resume_run(resume, target, options, ids, call)
        return Run(resumed) if call is None else _create_inner_run(resumed, call)
    contents, messages = to_conversation(history, thread)
    if provider is None:
        raise UsageError("run_loop needs provider=, the name of the provider whose stream create_new_stream returns")
    if (history is None) == (thread is None):
        raise UsageError("pass run_loop either history (Contents) or thread (the provider's own messages)")
    if tool_choice not in (None, "auto", "none", "required", *tools_by_name):
        raise UsageError(f"tool_choice must be 'auto', 'none', 'required' or a tool's name, not {tool_choice!r}")
    context = RoundContext(
        contents,
        list(tools_by_name.values()),
        tool_choice,
        providers.get(provider),
        deps=deps,
        messages=messages,
        model=model,
        endpoint=endpoint,
        ids=ids,
        output=options.output,
        cache=cache,
    )
    if call is None:
        return Run(_create_state(context, options, run_key or secrets.token_urlsafe(12), None))
    run_key = run_key or call.next_run_key()
    if options.checkpoint is None and (entries := call.run.inner_entries(run_key)):
        from streamkit.execution.durable.state import RunState  # few runs are resumed

        resume = RunState.from_entries(entries)  # an earlier attempt of the call has made a part of it
        return _create_inner_run(_resume_run(resume, target, options, ids, call), call)
    return _create_inner_run(_create_state(context, options, run_key, call), call)


def _create_inner_run(state: LoopState, call: RunningCall) -> Run[Any]:
    """Return a run that is made in a call: it ends with that."""
    run: Run[Any] = Run(state)
    call.add(run.cancel)
    return run


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


def _resume_run(
    resume: RunState | AnsweredState, target: Target, options: LoopOptions, ids: IdPolicy, call: RunningCall | None
) -> LoopState:
    """Return the first state of a resumed run; the fields of the target that are not set are those of the state.

    Raises:
        UsageError: the state cannot be resumed with these arguments.
    """
    from streamkit.execution.durable.state import AnsweredState, RunState  # few runs are resumed

    answered = resume.answer() if isinstance(resume, RunState) else resume
    if not isinstance(answered, AnsweredState):
        raise UsageError(
            f"resume must be a RunState (RunState.load), or state.answer(...), not {type(resume).__name__}"
        )
    state = answered.state
    if options.checkpoint is not None and not state.position:
        raise UsageError(
            "the run was left without checkpoint=, so that its entries would lack its beginning: resume it without one"
        )
    for result in answered.results.values():
        if not awaits_client(result.call, options.execution.tools):
            name = result.call.name
            raise UsageError(
                f"the call {result.call.id} takes no result from outside: pass {name} in tools= without a function"
            )
    provider = providers.get(target.provider or state.provider)
    if provider.name == state.provider:  # a fallback may have made the paused turn: it names its model
        target = Target(provider, target.model or state.model, target.endpoint or state.endpoint)
    if state.thread is not None and provider.name != state.provider:
        raise UsageError(
            f"the run was paused with messages of {state.provider}, which {provider.name} cannot read: resume it with"
            f" provider={state.provider!r}"
        )
    context = RoundContext(
        list(state.history),
        list(options.execution.tools.values()),
        state.tool_choice,
        provider,
        state.round,
        options.execution.deps,
        None if state.thread is None else list(state.thread),
        target.model,
        target.endpoint,
        ids,
        options.output,
        options.cache,
    )
    loop_state = _create_state(context, options, state.run_key, call)
    loop_state.resume(state, answered.approvals, answered.results)
    return loop_state


def _create_state(context: RoundContext, options: LoopOptions, run_key: str, call: RunningCall | None) -> LoopState:
    """Return the first state of a run.

    Raises:
        UsageError: the context and the options do not fit together.
    """
    if context.messages is not None and options.retries.fallbacks:
        raise UsageError("the messages of thread= cannot be sent to another provider: pass history= instead")
    if options.turn != TurnOptions():
        # A turn rejects wrong limits and leaked_markup; this one makes run_loop reject them at once.
        Turn(context.provider, limits=options.turn.limits, leaked_markup=options.turn.leaked_markup)
    if call is None:
        return LoopState(context, options, run_key)
    if options.budget.price is None:
        options = structs.replace(options, budget=structs.replace(options.budget, price=call.run.price))
    checkpoint = call.run.inner_checkpoint(call.call_id) if options.checkpoint is None else None
    if checkpoint is not None:
        options = structs.replace(options, checkpoint=checkpoint)
    state = LoopState(context, options, run_key, call.run)
    if checkpoint is not None and state.recorder is not None:
        state.recorder.outer = checkpoint
    return state


_ID_POLICIES = get_args(IdPolicy)
