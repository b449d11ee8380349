"""The first state of a run: of a new one, and of one that is resumed from a ``RunState``.

This module checks what the state and the arguments of ``run_loop`` have in common. It must not depend on how a run is
watched, or on what happens in a round.
"""

from __future__ import annotations

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.execution.durable.state import AnsweredState, RunState
from streamkit.execution.one_call.prepare import awaits_client
from streamkit.execution.round.context import RoundContext, Target
from streamkit.execution.run.loop_state import LoopState
from streamkit.execution.run.options import LoopOptions, TurnOptions
from streamkit.providers.contract.origin import IdPolicy
from streamkit.reading.turn import Turn

__all__ = ["create_state", "resume_run"]


def resume_run(resume: RunState | AnsweredState, target: Target, options: LoopOptions, ids: IdPolicy) -> LoopState:
    """Return the first state of a resumed run.

    Args:
        resume: the state of the run that was left, with or without answers.
        target: what is requested; its fields that are not set are the state's.
        options: how rounds are made.
        ids: the id policy.

    Raises:
        UsageError: the state cannot be resumed with these arguments.
    """
    answered = resume.answer() if isinstance(resume, RunState) else resume
    if not isinstance(answered, AnsweredState):
        raise UsageError(
            f"resume must be a RunState (RunState.load), or state.answer(...), not {type(resume).__name__}"
        )
    state = answered.state
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
    loop_state = create_state(context, options, state.run_key)
    loop_state.resume(state, answered.approvals, answered.results)
    return loop_state


def create_state(context: RoundContext, options: LoopOptions, run_key: str) -> LoopState:
    """Return the first state of a run.

    Raises:
        UsageError: the context and the options do not fit together.
    """
    if context.messages is not None and options.retries.fallbacks:
        raise UsageError("the messages of thread= cannot be sent to another provider: pass history= instead")
    if options.turn != TurnOptions():
        # A turn rejects wrong limits and leaked_markup; this one makes run_loop reject them at once.
        Turn(context.provider, limits=options.turn.limits, leaked_markup=options.turn.leaked_markup)
    return LoopState(context, options, run_key)
