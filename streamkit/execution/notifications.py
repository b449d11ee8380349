"""What to tell people of the calls of a run: being prepared, running, ended, each in words of the tool's own.

Made from the events alone, so also where they arrive by a network: nothing here knows of turns, threads or event loops.
The finer events stay as they are; this says of each call only what a list of calls on a screen has to show.

Every call that was told of is told to have ended. Most endings are events; but calls of an answer that broke off get
none where nobody executes it, and there a screen would wait for ever (multi-llm-ts does: ``preparing`` is the last word
of calls whose turn was aborted or whose arguments were no JSON).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from streamkit.calls import CallRef, ToolResult
from streamkit.events import (
    ArgumentsRestated,
    Event,
    Failed,
    Finished,
    RoundFinished,
    RoundStarted,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCanceled,
    ToolCompleted,
    ToolDenied,
    ToolError,
    ToolProgress,
    ToolRunning,
    ToolTimedOut,
)
from streamkit.json_text import IncrementalJsonObject, finalize_arguments, join_surrogates, parse_partial_object
from streamkit.tools import Describe, Tool, ToolState, to_tools

__all__ = ["Notifier", "ToolNotification"]


class ToolNotification(Struct, frozen=True, kw_only=True):
    """How one call stands. The last one of an ``id`` replaces those before it.

    Attributes:
        id: the call's canonical id.
        name: the tool's name.
        state: ``preparing`` (its arguments arrive, or it waits), ``running``, or how it ended: ``completed``, ``error``
            (it failed, or took too long), ``canceled`` (it was stopped, not allowed, or will never run).
        description: what ``Tool.describe`` said of it, None where it said nothing.
        done: it has ended.
        arguments: as far as they are there while it is prepared, else whole. ``{}`` where they are not known (the
            events began later), and for calls of kind ``custom``, whose text is in the result's call.
        result: what came of it; None while it has not ended, and where its answer ended before it could run.
        progress: what the tool reported just now, None in all other notifications.
    """

    id: str
    name: str
    state: ToolState
    description: str | None = None
    done: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    result: ToolResult | None = None
    progress: Any = None


class Notifier:
    """Tells of calls, from the events of a run (or of runs one after the other); not of two runs at once.

    Calls that have ended are forgotten. Those of a choice other than 0 are not told of, since they are never run.

    Args:
        tools: functions and tools; those with ``describe`` describe their calls. It is asked at the start of a call,
            at each piece of its arguments, when it runs and when it has ended. Where it raises there is no description.

    Raises:
        UsageError: two tools have the same name, or one is neither a function nor a tool.
    """

    def __init__(self, tools: Sequence[Callable[..., Any] | Tool] = ()) -> None:
        self._describe = {name: tool.describe for name, tool in to_tools(tools).items() if tool.describe is not None}
        self._open: dict[str, _OpenCall] = {}  # by canonical id, in order of appearance

    def handle(self, event: Event) -> list[ToolNotification]:
        """What an event means to people: most often nothing, at the end of a broken answer the end of many calls."""
        take = _HANDLERS.get(event.__class__)
        return [] if take is None or event.choice else take(self, event)

    def close(self) -> list[ToolNotification]:
        """No more events come (the run was left, or the connection lost): what had not ended is ``canceled``.

        The notifier can be used again.
        """
        left = list(self._open.values())
        self._open.clear()
        return [call.change_state("canceled", done=True) for call in left]

    # ---------------------------------------------------------------- while the answer arrives

    def _start(self, event: ToolCallStart) -> list[ToolNotification]:
        return [self._opened(event.call).change_state("preparing")]

    def _delta(self, event: ToolCallDelta) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        if call is None:
            return []
        call.parts.append(event.arguments_delta)
        call.whole = None
        return [] if call.view is None else call.look(call.view, event.arguments_delta)

    def _restated(self, event: ArgumentsRestated) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        if call is None:
            return []
        call.parts = [event.arguments_text]
        call.whole = None
        if call.view is None:
            return []
        call.view = IncrementalJsonObject()
        return call.look(call.view, event.arguments_text)

    def _sealed(self, event: ToolCallEnd) -> list[ToolNotification]:
        call = self._open.get(event.call.id)
        return [] if call is None or call.view is None else call.tell_if_changed(call.arguments)

    # ---------------------------------------------------------------- while tools run

    def _running(self, event: ToolRunning) -> list[ToolNotification]:
        return [self._begun(event.call).change_state("running")]

    def _progress(self, event: ToolProgress) -> list[ToolNotification]:
        call = self._begun(event.call)
        return [call.notification("running", call.shown, progress=event.value)]

    def _ended(self, event: _Ending) -> list[ToolNotification]:
        call = self._open.pop(event.call.id, None) or self._new(event.call)
        of = event.result.call
        call.whole = of.arguments if isinstance(of.arguments, dict) else of.partial
        return [call.change_state(_STATES[event.__class__], done=True, result=event.result)]

    # ---------------------------------------------------------------- where calls are left over

    def _failed(self, _: Failed | None = None) -> list[ToolNotification]:
        # What was being prepared will not run. A call that runs already began early: it is stopped, which may take its
        # time, and has an ending of its own. Where somebody executes the turn all the same, the endings that this gives
        # are told too, with their results.
        left = [call for call in self._open.values() if not call.runs]
        for call in left:
            del self._open[call.ref.id]
        return [call.change_state("canceled", done=True) for call in left]

    def _finished(self, event: Finished) -> list[ToolNotification]:
        return self._failed() if event.reason == "error" else []  # no Failed comes, but it ends a run all the same

    def _round(self, _: RoundStarted | RoundFinished) -> list[ToolNotification]:
        return self.close()  # every call of a round has its ending before its end

    # ---------------------------------------------------------------- the calls

    def _new(self, ref: CallRef) -> _OpenCall:
        return _OpenCall(ref, self._describe.get(ref.name))

    def _opened(self, ref: CallRef) -> _OpenCall:
        call = self._open[ref.id] = self._new(ref)
        return call

    def _begun(self, ref: CallRef) -> _OpenCall:
        """A call that runs; its start was not seen where calls are executed alone, or by who came later."""
        call = self._open.get(ref.id) or self._opened(ref)
        call.runs = True
        return call


class _OpenCall:
    """What is known of a call that has not ended."""

    __slots__ = ("describe", "description", "parts", "ref", "runs", "shown", "view", "whole")

    def __init__(self, ref: CallRef, describe: Describe | None) -> None:
        self.ref = ref
        self.describe = describe
        self.runs = False
        self.description: str | None = None  # the last that was told
        self.shown: dict[str, Any] = {}  # the arguments of the last state that was told
        self.parts: list[str] = []  # the argument text; nothing reads it before the call runs, unless it is described
        self.view = IncrementalJsonObject() if describe is not None else None
        self.whole: dict[str, Any] | None = None  # the arguments, where the text was read as a whole

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the text, taken to be whole."""
        if self.whole is None:
            text = join_surrogates("".join(self.parts))
            settled = finalize_arguments(text)
            self.whole = parse_partial_object(text) if settled.arguments is None else settled.arguments
        return self.whole

    def look(self, view: IncrementalJsonObject, text: str) -> list[ToolNotification]:
        """More of the arguments: tell it where the description is another one."""
        view.feed(text)
        return self.tell_if_changed(view.value)

    def tell_if_changed(self, arguments: dict[str, Any]) -> list[ToolNotification]:
        """Tell that it is prepared, where the description with these arguments is another one."""
        description = self._described("preparing", arguments)
        if description == self.description:
            return []
        self.description = description
        return [self.notification("preparing", _copied(arguments))]

    def change_state(
        self, state: ToolState, *, done: bool = False, result: ToolResult | None = None
    ) -> ToolNotification:
        """Tell a new state."""
        self.shown = _copied(self.arguments)  # what is described is a copy: the call itself has these arguments
        self.description = self._described(state, self.shown)
        return self.notification(state, self.shown, done=done, result=result)

    def notification(self, state: ToolState, arguments: dict[str, Any], **more: Any) -> ToolNotification:
        """How the call stands."""
        return ToolNotification(
            id=self.ref.id,
            name=self.ref.name,
            state=state,
            description=self.description,
            arguments=arguments,
            **more,
        )

    def _described(self, state: ToolState, arguments: dict[str, Any]) -> str | None:
        if self.describe is None:
            return None
        try:
            said = self.describe(state, arguments)
        except Exception:  # of half of its arguments nobody can expect a tool to make sense
            return None
        return said if isinstance(said, str) else None


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = msgspec.to_builtins(arguments, enc_hook=str)
    except RecursionError:  # nested too deeply to be shown
        return {}
    return copied


_Ending: TypeAlias = ToolCompleted | ToolError | ToolDenied | ToolTimedOut | ToolCanceled

_STATES: dict[type[_Ending], ToolState] = {
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
    ToolCallEnd: Notifier._sealed,
    ToolRunning: Notifier._running,
    ToolProgress: Notifier._progress,
    **dict.fromkeys(_STATES, Notifier._ended),
    Failed: Notifier._failed,
    Finished: Notifier._finished,
    RoundStarted: Notifier._round,
    RoundFinished: Notifier._round,
}
