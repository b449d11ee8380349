"""Notifications about the calls of a run, for people: prepared, running, ended, with the tool's own description. Pure.

They are made from the events alone, so also from events that arrive over a network. For each call they contain only
what a list of calls on a screen has to show.

Every call that was notified is notified to have ended. Most ends are events. But the calls of a failed turn have none
if the turn is not executed, and a screen would wait for ever (as with multi-llm-ts, where ``preparing`` is the last
notification of calls whose turn was aborted or whose arguments were no JSON).

This module must not depend on turns, threads or event loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct, field

from streamkit.calls import CallKind, CallRef, Finish, ToolResult
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Citation,
    Compaction,
    Event,
    Failed,
    File,
    Finished,
    LogProbabilities,
    Reasoning,
    Refusal,
    ResponseStarted,
    RoundFinished,
    RoundStarted,
    RunEnded,
    ServerTool,
    Text,
    ToolAwaitingApproval,
    ToolAwaitingResult,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolProgress,
    ToolRunning,
    ToolTimedOut,
    Unknown,
    UsageReport,
    Warned,
    check_event,
)
from streamkit.finishes import finish_row
from streamkit.json_text import finalize_arguments, join_surrogates
from streamkit.json_text.reader import IncrementalJsonObject, parse_partial_object
from streamkit.tools import Describe, Tool, ToolState, to_tools
from streamkit.tools.custom import TEXT_FIELD, GrowingText
from streamkit.tools.tool import describe_call
from streamkit.values.total_tables import check_total

__all__ = ["Notifier", "ToolNotification"]


class ToolNotification(Struct, frozen=True, kw_only=True):
    """The state of one call. A later notification with the same ``id`` replaces the earlier ones.

    Attributes:
        id: the call's canonical id.
        name: the tool's name.
        state: ``preparing`` (its arguments arrive, or it waits), ``running``, or its end: ``completed``, ``error``
            (it failed, or took too long), ``canceled`` (it was stopped, not allowed, or will never run).
        description: what ``Tool.describe`` returned for it, or None.
        done: it has ended.
        arguments: while it is prepared those received so far, then all. ``{}`` if they are not known (the events
            started later). Those of a call of kind ``custom`` are ``{"input": text}``.
        result: None until it has ended, and if its turn ended before it could run.
        progress: the value that the tool has just reported; None in all other notifications.
        thought_signature: the provider's signature of the call (Gemini), from when the call is ready; else None.
        reasoning_details: the provider's details of the reasoning before the call (OpenRouter), or those that a parser
            of one's own passed with the call; else None.
    """

    id: str
    name: str
    state: ToolState
    description: str | None = None
    done: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    progress: Any = None
    thought_signature: str | None = None
    reasoning_details: Any = None


#: The names in a call's metadata: the provider's own, and those of ``NormalizedToolChunk.metadata``.
_SIGNATURES = ("signature", "thought_signature", "thoughtSignature")
_DETAILS = ("reasoning_details", "reasoningDetails")

_LONG = 16384  # characters of argument text
_GROWTH = 1.125  # by which longer text grows between two notifications of its deltas


class Notifier:
    """Notifications from the events of a run (or of runs one after the other); not of two runs at once.

    A call that has ended is not kept. Calls of a choice other than 0 are left out, since they are never run.

    Args:
        tools: functions and tools; those with ``describe`` describe their calls. It is called at the start of a call,
            at each delta of its arguments (of long ones whenever they have grown by an eighth), when it runs and when
            it has ended. If it raises there is no description.

    Raises:
        UsageError: two tools have the same name, or one is neither a function nor a tool.
    """

    def __init__(self, tools: Sequence[Callable[..., Any] | Tool] = ()) -> None:
        self._describe = {name: tool.describe for name, tool in to_tools(tools).items() if tool.describe is not None}
        self._open: dict[str, _OpenCall] = {}  # by canonical id, in order of appearance
        self._reasoning_details: list[Any] = []  # of the turn

    def handle(self, event: Event) -> list[ToolNotification]:
        """Return the notifications of an event: most often none, at the end of a failed turn one for each call.

        Raises:
            UsageError: it is no event.
        """
        handler = _HANDLERS.get(event.__class__)
        if handler is None:
            check_event(event)
            return []
        return [] if event.choice else handler(self, event)

    def close(self) -> list[ToolNotification]:
        """Declare that no event follows (the run was left, or the connection lost): open calls are ``canceled``.

        The notifier can be used again.
        """
        open_calls = list(self._open.values())
        self._open.clear()
        self._reasoning_details = []
        return [call.change_state("canceled", done=True) for call in open_calls]

    # ---------------------------------------------------------------- while the turn is open

    def _start(self, event: ToolCallStart) -> list[ToolNotification]:
        return [self._add(event.call).change_state("preparing")]

    def _delta(self, event: ToolCallDelta) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        if call is None:
            return []
        call.deltas.append(event.arguments_delta)
        call.final_arguments = None
        return [] if call.partial is None else call.feed(call.partial, event.arguments_delta)

    def _restated(self, event: ArgumentsRestated) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        if call is None:
            return []
        call.deltas = [event.arguments_text]
        call.final_arguments = None
        if call.partial is None:
            return []
        call.partial = _PARTIAL[call.ref.kind]()
        call.size = call.notified_size = 0
        return call.feed(call.partial, event.arguments_text)

    def _call_ended(self, event: ToolCallEnd) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        return [] if call is None or call.partial is None else call.notify_if_changed(call.arguments)

    def _ready(self, event: ToolCallReady) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        if call is not None:
            call.read_metadata(event.call.metadata)
        return []

    def _block_ended(self, event: BlockEnded) -> list[ToolNotification]:
        details = event.metadata.get("reasoning_details")
        if isinstance(details, list):
            self._reasoning_details = self._reasoning_details + details  # earlier calls keep the list that they have
        return []

    # ---------------------------------------------------------------- while tools run

    def _running(self, event: ToolRunning) -> list[ToolNotification]:
        return [self._started(event.call).change_state("running")]

    def _progress(self, event: ToolProgress) -> list[ToolNotification]:
        call = self._started(event.call)
        return [call.notification("running", call.notified_arguments, progress=event.value)]

    def _result(self, event: _ResultEvent) -> list[ToolNotification]:
        call = self._open.pop(event.call.id, None) or self._create(event.call)
        arguments = event.result.call.arguments
        if event.call.kind == "custom" and isinstance(arguments, str):
            arguments = {TEXT_FIELD: arguments}
        call.final_arguments = arguments if isinstance(arguments, dict) else event.result.call.partial
        call.read_metadata(event.result.call.metadata)
        return [call.change_state(_STATES[event.__class__], done=True, result=event.result)]

    # ---------------------------------------------------------------- calls that get no result

    def _failed(self, _: Failed | None = None) -> list[ToolNotification]:
        # A call that was being prepared will not run. A running one started early: it is stopped, which may take a
        # while, and has a result event. If the turn is executed all the same, the results that this makes are notified
        # too.
        unstarted = [call for call in self._open.values() if not call.is_running]
        for call in unstarted:
            del self._open[call.ref.id]
        return [call.change_state("canceled", done=True) for call in unstarted]

    def _finished(self, event: Finished) -> list[ToolNotification]:
        # There is no Failed event, but this ends a run too.
        return self._failed() if finish_row(Finish(event.reason)).is_error else []

    def _round(self, _: RoundStarted | RoundFinished) -> list[ToolNotification]:
        return self.close()  # every call of a round has its result before the round ends

    # ---------------------------------------------------------------- the calls

    def _create(self, ref: CallRef) -> _OpenCall:
        describe = self._describe.get(ref.name)
        partial = None if describe is None else _PARTIAL[ref.kind]()
        return _OpenCall(ref, describe, partial, self._reasoning_details or None)

    def _add(self, ref: CallRef) -> _OpenCall:
        call = self._open[ref.id] = self._create(ref)
        return call

    def _started(self, ref: CallRef) -> _OpenCall:
        """Return a running call. It is new if calls are executed alone, or the first events were missed."""
        call = self._open.get(ref.id) or self._add(ref)
        call.is_running = True
        return call


@dataclass(slots=True, eq=False)
class _OpenCall:
    """What is known of a call that has not ended."""

    ref: CallRef
    describe: Describe | None
    partial: IncrementalJsonObject | GrowingText | None  # of a call that is described
    reasoning_details: Any
    is_running: bool = False
    description: str | None = None  # of the last notification
    notified_arguments: dict[str, Any] = dataclass_field(default_factory=dict)  # of the last state
    # The argument text; parsed when the call runs, or at once if it is described.
    deltas: list[str] = dataclass_field(default_factory=list)
    size: int = 0  # characters of the argument text
    notified_size: int = 0  # of the text when it was last described
    final_arguments: dict[str, Any] | None = None  # once the text was parsed as complete
    thought_signature: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the text, parsed as complete."""
        if self.final_arguments is None:
            text = join_surrogates("".join(self.deltas))
            arguments = {TEXT_FIELD: text} if self.ref.kind == "custom" else finalize_arguments(text).arguments
            self.final_arguments = parse_partial_object(text) if arguments is None else arguments
        return self.final_arguments

    def read_metadata(self, metadata: dict[str, Any]) -> None:
        """Keep the signature and the details of a call that is ready."""
        extra = metadata.get("extra_content")  # of Gemini's endpoint for Chat Completions
        google = extra.get("google") if isinstance(extra, dict) else None
        for source in (metadata, google):
            for name in _SIGNATURES:
                if isinstance(source, dict) and isinstance(signature := source.get(name), str):
                    self.thought_signature = signature
        for name in _DETAILS:
            self.reasoning_details = metadata.get(name, self.reasoning_details)

    def feed(self, partial: IncrementalJsonObject | GrowingText, text: str) -> list[ToolNotification]:
        """Parse more of the arguments and notify if the description changes."""
        partial.feed(text)
        # A notification has a copy of all arguments. Of long ones not every delta is notified: copying them each time
        # would cost the square of their length.
        self.size += len(text)
        if self.size > _LONG and self.size < self.notified_size * _GROWTH:
            return []
        self.notified_size = self.size
        return self.notify_if_changed(partial.value)

    def notify_if_changed(self, arguments: dict[str, Any]) -> list[ToolNotification]:
        """Return a notification of the state ``preparing`` if the description with these arguments is a new one."""
        description = describe_call(self.describe, "preparing", arguments)
        if description == self.description:
            return []
        self.description = description
        return [self.notification("preparing", _copy(arguments))]

    def change_state(
        self, state: ToolState, *, done: bool = False, result: ToolResult | None = None
    ) -> ToolNotification:
        """Return the notification of a new state."""
        self.notified_arguments = _copy(self.arguments)  # ``describe`` gets a copy: the call itself has these arguments
        self.description = describe_call(self.describe, state, self.notified_arguments)
        return self.notification(state, self.notified_arguments, done=done, result=result)

    def notification(self, state: ToolState, arguments: dict[str, Any], **fields: Any) -> ToolNotification:
        """Return a notification with the current description."""
        return ToolNotification(
            id=self.ref.id,
            name=self.ref.name,
            state=state,
            description=self.description,
            arguments=arguments,
            thought_signature=self.thought_signature,
            reasoning_details=self.reasoning_details,
            **fields,
        )


def _copy(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        copy: dict[str, Any] = msgspec.to_builtins(arguments, enc_hook=str)
    except RecursionError:  # nested too deeply to be shown
        return {}
    return copy


_PARTIAL: dict[CallKind, type[IncrementalJsonObject | GrowingText]] = {
    "function": IncrementalJsonObject,
    "custom": GrowingText,
}
_ResultEvent: TypeAlias = ToolCompleted | ToolError | ToolDenied | ToolTimedOut | ToolCanceled

_STATES: dict[type[_ResultEvent], ToolState] = {
    ToolCompleted: "completed",
    ToolError: "error",
    ToolTimedOut: "error",
    ToolDenied: "canceled",
    ToolCanceled: "canceled",
}

_HANDLERS: dict[type[Event], Callable[[Notifier, Any], list[ToolNotification]]] = {
    ToolCallStart: Notifier._start,
    ToolCallDelta: Notifier._delta,
    ArgumentsRestated: Notifier._restated,
    ToolCallEnd: Notifier._call_ended,
    ToolCallReady: Notifier._ready,
    BlockEnded: Notifier._block_ended,
    ToolRunning: Notifier._running,
    ToolProgress: Notifier._progress,
    **dict.fromkeys(_STATES, Notifier._result),
    Failed: Notifier._failed,
    Finished: Notifier._finished,
    RoundStarted: Notifier._round,
    RoundFinished: Notifier._round,
}
#: The events that change nothing about a client's call.
_OF_NO_CALL: frozenset[type] = frozenset(
    {
        ResponseStarted,
        BlockStarted,
        Text,
        Reasoning,
        Refusal,
        ServerTool,
        Citation,
        Compaction,
        File,
        UsageReport,
        Warned,
        LogProbabilities,
    }
    | {Unknown, ToolAwaitingApproval, ToolAwaitingResult, RunEnded}
)
check_total("streamkit.execution.run.notifications", {*_HANDLERS, *_OF_NO_CALL}, get_args(Event))
