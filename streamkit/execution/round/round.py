"""The round: the calls of one turn, from the model's request to exactly one result each. Pure.

A state machine. Each call is in one stage; ``TRANSITIONS`` lists which stage may follow which, and no stage follows a
result (``docs/rules.md``, "Running calls"). Its caller (an executor, a loop of your own, a durable workflow) runs the
tools and reports to the round what happens. ``thread_update`` writes what the round adds to the conversation. Calls
without a turn, a list of the caller's own, are checked and get distinct ids.

This module must not depend on an event loop, a clock or threads: it runs nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from streamkit import providers
from streamkit.calls import ResultStatus, StreamWarning, ToolCall, ToolResult
from streamkit.errors import UsageError
from streamkit.execution.one_call.prepare import blocked_result, reason_to_block, to_stopped_error
from streamkit.execution.round.thread_update import (
    FormatCallbacks,
    ThreadLayout,
    ThreadUpdate,
    build_thread_update,
    check_layout,
    to_sendable_result,
)
from streamkit.history import Content
from streamkit.ids import derived_tool_id
from streamkit.providers.contract.rendered import RenderOptions
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.reading.to_content import to_tool_call_block
from streamkit.reading.turn import Turn

__all__ = [
    "TRANSITIONS",
    "CallStage",
    "Round",
    "build_assistant_content",
]

#: Where a call is between its request and its result.
CallStage: TypeAlias = (
    Literal["waiting", "awaiting_approval", "awaiting_result", "running", "early_result"] | ResultStatus
)
#: The stages that may follow each stage.
TRANSITIONS: Mapping[CallStage, frozenset[CallStage]] = {
    # It may start as soon as the limits allow, or gets a result without running.
    "waiting": frozenset(
        {"awaiting_approval", "awaiting_result", "running", "error", "denied", "timed_out", "canceled"}
    ),
    # A person must approve it first.
    "awaiting_approval": frozenset({"waiting", "error", "denied", "timed_out", "canceled"}),
    # No tool here runs it: its result comes from the caller.
    "awaiting_result": frozenset({"completed", "error", "denied", "timed_out", "canceled"}),
    # Its tool was called. Back to waiting: it started eagerly, with arguments that changed afterwards.
    "running": frozenset({"early_result", "waiting", "completed", "error", "timed_out", "canceled"}),
    # It started eagerly and has returned, but its turn is open: the result counts once the turn is confirmed.
    "early_result": frozenset({"waiting", "completed", "error", "timed_out", "canceled"}),
    # It has its result.
    "completed": frozenset(),
    "error": frozenset(),
    "denied": frozenset(),
    "timed_out": frozenset(),
    "canceled": frozenset(),
}
_EFFECTS_POSSIBLE = {"effects_possible": True}


class Round:
    """The calls of one turn, or a list of calls, on their way to their results.

    Args:
        turn_or_calls: a turn (its text, reasoning and opaque state go into the assistant message), or calls alone. Of a
            turn that is still open, calls may start early (``start_early``); ``close`` declares that it has ended.
        provider: the provider whose format the messages have; default: the turn's.
        shape: the layout of calls and results in the conversation.
        callbacks: the caller's format callbacks.
        blocked: a sentence for each call that may not run, by its id; it becomes the result.
        options: how the messages are rendered: the id policy, the requested model and endpoint, the ids in use.
        origin: what made calls without a turn, as ``Turn.origin``. None: it is not known, so that their raw ids and
            opaque state are sent to no provider.

    Attributes:
        turn: the turn, if there is one.
        calls: every call, in call order; a call's index here is its position. Empty while the turn is open.
        closed: all calls are known: the turn has ended, or there was none.
        blocked_results: the results of the calls that may not run, known as soon as all calls are.

    Raises:
        UsageError: there are calls alone, and neither a provider nor callbacks; the layout is unknown.
    """

    def __init__(
        self,
        turn_or_calls: Turn | Iterable[ToolCall],
        *,
        provider: ProviderName | str | Provider | None = None,
        shape: ThreadLayout = "batched",
        callbacks: FormatCallbacks | None = None,
        blocked: Mapping[str, str] | None = None,
        options: RenderOptions | None = None,
        origin: Mapping[str, str] | None = None,
    ) -> None:
        check_layout(shape)
        self.turn: Turn | None = turn_or_calls if isinstance(turn_or_calls, Turn) else None
        self.calls: tuple[ToolCall, ...] = ()
        self.closed: bool = False
        self.blocked_results: list[ToolResult] = []
        self._callbacks = callbacks or FormatCallbacks()
        self._layout: ThreadLayout = shape
        self._options = options or RenderOptions()
        self._origin = dict(origin or {})
        self._warnings: list[StreamWarning] = []
        self._blocked = blocked or {}
        self._assistant: Content | None = None  # of a restored round
        self._stages: list[CallStage] = []
        self._results: list[ToolResult | None] = []
        self._early: dict[int, tuple[ToolCall, ToolResult | None]] = {}  # the calls that started before the turn ended
        # The early runs that do not count: the result of a call that may not run, None if it is to run again.
        self._retracted: dict[int, ToolResult | None] = {}
        self._to_run_again: set[int] = set()  # positions of early runs with arguments that changed
        if provider is not None:
            self._provider: Provider | None = providers.get(provider)
        else:
            self._provider = self.turn.provider if self.turn is not None else None
        if self._provider is None and not self._callbacks.is_complete:
            raise UsageError("calls without a turn have no message format: pass provider=, or the format callbacks")
        if self.turn is None:
            calls, self._warnings = _with_distinct_ids(_check_calls(turn_or_calls))
            self._set_calls(calls)
        elif self.turn.closed or self.turn.done:
            self.turn.close()
            self.close()

    @classmethod
    def restore(
        cls,
        assistant: Content,
        calls: Sequence[ToolCall],
        results: Iterable[ToolResult],
        pending: Iterable[str] = (),
        *,
        provider: ProviderName | str | Provider,
        shape: ThreadLayout = "batched",
        options: RenderOptions | None = None,
    ) -> Round:
        """Return a round that was stored before all its calls had results.

        Args:
            assistant: the assistant's content, with every call.
            calls: its calls.
            results: those that exist.
            pending: the ids of the calls that await approval.
            provider: the provider whose format the messages have.
            shape: the layout of calls and results in the conversation.
            options: how the messages are rendered.
        """
        restored = cls(calls, provider=provider, shape=shape, options=options)
        restored.blocked_results = []  # their events were sent before the round was stored
        restored._assistant = assistant
        positions = {call.id: position for position, call in enumerate(restored.calls)}
        for result in results:
            position = positions[result.call.id]
            restored._stages[position] = result.status
            restored._results[position] = result
        for call_id in pending:
            restored.require_approval(positions[call_id])
        return restored

    # ---------------------------------------------------------------- state

    @property
    def open_positions(self) -> list[int]:
        """The positions of the calls without a result; at first those that may run."""
        return [position for position, result in enumerate(self._results) if result is None]

    @property
    def is_complete(self) -> bool:
        """All calls are known and have results."""
        return self.closed and None not in self._results

    @property
    def awaits_approval(self) -> bool:
        """A call awaits approval."""
        return "awaiting_approval" in self._stages

    @property
    def results_so_far(self) -> list[ToolResult]:
        """The existing results, in call order; at first those of the calls that may not run."""
        return [result for result in self._results if result is not None]

    @property
    def assistant(self) -> Content:
        """The assistant's content, with every call."""
        if self._assistant is not None:
            return self._assistant
        return self.turn.content if self.turn is not None else build_assistant_content(self.calls, self._origin)

    def stage(self, position: int) -> CallStage:
        """Return the stage of a call."""
        if self.closed:
            return self._stages[position]
        if position not in self._early:
            return "waiting"
        return "running" if self._early[position][1] is None else "early_result"

    # ---------------------------------------------------------------- inputs

    def start_early(self, call: ToolCall) -> None:
        """Record the start of a complete call of an open turn (``Turn.completed_call``).

        Raises:
            UsageError: the turn has ended, or the call has started.
        """
        if self.closed or self.turn is None:
            raise UsageError("only a call of an open turn can start early; call start() once the round is closed")
        if call.index in self._early:
            raise UsageError(f"call {call.id} has started")
        self._early[call.index] = (call, None)

    def close(self) -> list[int]:
        """Declare that the turn has ended, so that all calls are known.

        Returns:
            The positions of early runs that do not count: of a call that may not run after all, or with arguments that
            changed. The caller stops them and reports their results as usual.

        Raises:
            UsageError: the turn is open.
        """
        if self.closed:
            return []
        if self.turn is None or not self.turn.closed:
            raise UsageError("the turn is open: close() it before its calls are run")
        self._set_calls(self.turn.calls)
        for position, (started_call, early_result) in self._early.items():
            self._stages[position] = "running" if early_result is None else "early_result"
            call, blocked = self.calls[position], self._results[position]
            if blocked is not None:
                self._results[position] = None  # an early run has its result only after it has stopped
                self.blocked_results.remove(blocked)
                self._retracted[position] = blocked
            elif (call.name, call.arguments) != (started_call.name, started_call.arguments):
                self._retracted[position] = None
                self._to_run_again.add(position)
        return sorted(self._retracted)

    def require_approval(self, position: int) -> None:
        """Record that a person must approve the call first."""
        self._transition(position, "awaiting_approval")

    def require_result(self, position: int) -> None:
        """Record that no tool here runs the call, and that its result comes from the caller."""
        self._transition(position, "awaiting_result")

    def approve(self, position: int) -> None:
        """Record that the call was approved."""
        self._transition(position, "waiting")

    def start(self, position: int) -> None:
        """Record that the call's tool is called. A call starts once.

        Raises:
            UsageError: it has started, has its result, or awaits approval.
        """
        self._transition(position, "running")

    def set_result(self, position: int, result: ToolResult) -> ToolResult | None:
        """Report the outcome of a call.

        Returns:
            The call's one result: an error if the tool's value cannot be written as JSON, because every later request
            would fail with it; a very long error is shortened. For a call that started early it is None while the turn
            is open (the result is kept until the turn is confirmed), and None if the call has to run again because its
            arguments changed. If the call may not run after all, it is ``canceled``, with ``effects_possible`` in its
            metadata.

        Raises:
            UsageError: the call has its result or never ran, or the result is another call's.
        """
        result = to_sendable_result(result)
        early = self._early.get(position)
        if not self.closed:
            if early is None or early[1] is not None:
                raise UsageError(f"the turn is open, and no call at position {position} is running")
            self._early[position] = (early[0], result)
            return None
        call = self.calls[position]
        if result.call.id != call.id:
            raise UsageError(f"the result is of call {result.call.id}, not of {call.id}")
        if position in self._retracted:
            blocked = self._retracted.pop(position)
            if blocked is None:
                self._transition(position, "waiting")
                return None
            result = ToolResult(call, "canceled", error=to_stopped_error(blocked.error), metadata=_EFFECTS_POSSIBLE)
        elif early is not None or position in self._to_run_again:
            effects_possible = position in self._to_run_again or result.status == "canceled"
            metadata = result.metadata | (_EFFECTS_POSSIBLE if effects_possible else {})
            result = msgspec.structs.replace(result, call=call, metadata=metadata)
        self._transition(position, result.status)
        self._results[position] = result
        return result

    def commit_early_results(self) -> list[ToolResult]:
        """After ``close``, report the kept results of early runs; return those that count now."""
        committed: list[ToolResult] = []
        for position, (_, kept) in self._early.items():
            if kept is not None and self._stages[position] == "early_result":
                result = self.set_result(position, kept)
                if result is not None:
                    committed.append(result)
        return committed

    def update(self, warnings: Iterable[StreamWarning] = ()) -> ThreadUpdate:
        """Return the messages and contents that the round adds to the conversation.

        Args:
            warnings: the executor's; they precede those of the layout and of rendering.

        Raises:
            UsageError: a call has no result yet, or the turn is open.
        """
        if not self.closed:
            raise UsageError("the turn is open: close() it before its calls are run")
        results = self.results_so_far
        if missing := len(self.calls) - len(results):
            raise UsageError(f"{missing} of {len(self.calls)} calls have no result yet")
        update = build_thread_update(
            self.assistant, results, self._provider, self._layout, self._callbacks, self._options
        )
        update.warnings[:0] = [*self._warnings, *warnings]
        return update

    # ---------------------------------------------------------------- internals

    def _set_calls(self, calls: Iterable[ToolCall]) -> None:
        self.calls = tuple(calls)
        self.closed = True
        executable = {call.id for call in self.turn.executable} if self.turn is not None else set()
        for call in self.calls:
            blocked = blocked_result(call, self.turn)
            if blocked is None and self.turn is not None and call.id not in executable:
                reason = f"Not run: {reason_to_block(self.turn.error, self.turn.finish)}."
                blocked = ToolResult(call, "canceled", error=reason)
            elif blocked is None and call.id in self._blocked:
                blocked = ToolResult(call, "canceled", error=self._blocked[call.id])
            result = None if blocked is None else to_sendable_result(blocked)
            self._stages.append("waiting" if result is None else result.status)
            self._results.append(result)
        self.blocked_results = self.results_so_far

    def _transition(self, position: int, stage: CallStage) -> None:
        current = self._stages[position]
        if stage not in TRANSITIONS[current]:
            call = self.calls[position]
            if not TRANSITIONS[current]:
                raise UsageError(f"call {call.id} has its result; every call gets exactly one")
            raise UsageError(f"call {call.id} is in the stage {current}, which {stage} cannot follow")
        self._stages[position] = stage


# ---------------------------------------------------------------- calls without a turn


def _check_calls(calls: object) -> list[ToolCall]:
    """Return calls as a list.

    Raises:
        UsageError: they are not a list of calls, or a field of one has another type than declared.
    """
    expected = "pass a Turn or a list of its calls, as in turn.calls"
    if not isinstance(calls, Iterable) or isinstance(calls, (str, bytes, Mapping)):
        raise UsageError(f"{expected}, not {type(calls).__name__}")
    checked = list(calls)
    for call in checked:
        if not isinstance(call, ToolCall):
            raise UsageError(f"{expected}, not a list with {type(call).__name__}")
        try:
            msgspec.convert({name: getattr(call, name) for name in call.__struct_fields__}, ToolCall)
        except msgspec.ValidationError as error:
            raise UsageError(f"a call of {call.name!r} is not valid: {error}") from None
    return checked


def _with_distinct_ids(calls: Iterable[ToolCall]) -> tuple[list[ToolCall], list[StreamWarning]]:
    """Return calls of which no two have the same id, and a warning for each that got another one.

    Results, messages and a tool's idempotency key depend on the id. Calls of a turn always have different ones; a list
    of calls may come from several turns, whose servers number their calls anew.
    """
    distinct: dict[str, ToolCall] = {}
    warnings: list[StreamWarning] = []
    for number, call in enumerate(calls):
        salt = 0
        new_id = call.id
        while new_id in distinct:
            new_id = derived_tool_id(raw_id=call.id, tool_name=call.name, turn_key=str(salt), call_index=number)
            salt += 1
        if new_id != call.id:
            message = f"the id {call.id!r} of a call of {call.name!r} is that of an earlier call: it is now {new_id!r}"
            warnings.append(StreamWarning("repeated_id", message, new_id))
            call = msgspec.structs.replace(call, id=new_id)
        distinct[new_id] = call
    return list(distinct.values()), warnings


def build_assistant_content(calls: Sequence[ToolCall], origin: dict[str, str]) -> Content:
    """Return the assistant's content with these calls, which have this origin, empty if it is not known."""
    blocks = [dict(to_tool_call_block(call, origin)) for call in calls]
    return Content.model_validate({"speaker": "ai", "blocks": blocks})  # such calls may be the caller's own
