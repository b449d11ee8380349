"""The replay of a run from its entries. Pure; loaded when a run is continued from entries.

In a replay an answered round has the same contents and messages as in the run itself, because both are made by
``Round.update`` from the same values. Nothing depends on the order of results: each belongs to its call's id.

This module must not depend on storage, or on ``state``, which stores what a replay returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from streamkit import providers
from streamkit.calls import ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.durable.entries import (
    ApprovalEntry,
    MessageEntry,
    NestedEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    ResumeEntry,
    RunEntry,
    StartEntry,
    StoredResult,
)
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import CircuitBreaker
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.output import OUTPUT_TOOL
from streamkit.tools import Approval

__all__ = ["Replay"]


@dataclass
class Replay:
    """A run after its entries so far; what is a field of ``RunState`` too is described there.

    Args:
        first: the first entry, which has the conversation that the run began with.

    Attributes:
        context: what the current round's request was made from.
        shape: the layout of calls and results.
    """

    first: RequestEntry
    contents: list[Content] = field(default_factory=list)
    response: ResponseEntry | None = None  #: the response of the current round, once it was read
    results: dict[str, StoredResult] = field(default_factory=dict)  #: the results of its calls, by the call's id
    approvals: dict[str, Approval] = field(default_factory=dict)  #: the decisions on them, by the call's id
    started: list[str] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    #: the contents that were sent to the run since its last request
    messages: list[Content] = field(default_factory=list)
    nested: list[NestedEntry] = field(default_factory=list)
    nested_calls: int = 0
    usage: list[Usage] = field(default_factory=list)
    cost: float = 0.0
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)  #: the failures of earlier rounds
    position: int = 1

    def __post_init__(self) -> None:
        first = self.first
        self.shape: ThreadLayout = first.shape
        self._request = first  # the last one
        self._sent: list[Content] = []  # before the last request
        self.context: RoundContext = RoundContext(
            list(first.history or ()),
            [],
            first.tool_choice,
            providers.get(first.provider),
            messages=first.thread,
            model=first.model,
            endpoint=first.endpoint,
            ids=first.ids,
        )

    @classmethod
    def of(cls, entries: Iterable[RunEntry]) -> Replay:
        """Return the run after all entries.

        Raises:
            UsageError: they are not the entries of one run from its beginning; the message names the entry.
        """
        replay: Replay | None = None
        last: RunEntry | None = None
        for number, entry in enumerate(entries):
            if last is not None and entry == last:
                continue  # a log without claims may have one twice, whose checkpoint was cancelled and repeated
            last, expected = entry, 0 if replay is None else replay.position
            if entry.position != expected:
                raise UsageError(
                    f"entries[{number}] has the position {entry.position}, not {expected}: an entry is missing or out"
                    " of order, so the run cannot be continued from these"
                )
            if replay is None:
                if not isinstance(entry, RequestEntry) or entry.history is None:
                    raise UsageError("the first entry of a run must be its first request: pass all entries, in order")
                replay = cls(entry)
            elif entry.run_key != replay.first.run_key:
                raise UsageError(
                    f"entries[{number}] is of the run {entry.run_key!r}, not of {replay.first.run_key!r}: pass those of"
                    " one run"
                )
            else:
                replay._add(entry)
                replay.position += 1
        if replay is None:
            raise UsageError("there are no entries: start the run with history= and run_key=, without resume=")
        return replay

    def _add(self, entry: RunEntry) -> None:
        if isinstance(entry, RequestEntry):
            self._request = entry
            self._sent, self.messages = [*self._sent, *self.messages], []
        elif isinstance(entry, ResponseEntry):
            self._add_response(entry)
        elif isinstance(entry, ResultEntry):
            self.results.setdefault(entry.result.call_id, entry.result)
        elif isinstance(entry, ApprovalEntry):
            self.approvals.setdefault(entry.call_id, entry.approval)
        elif isinstance(entry, StartEntry):
            self.started.append(entry.call_id)
        elif isinstance(entry, ResumeEntry):
            self.attempts.update(entry.call_ids)
        elif isinstance(entry, MessageEntry):
            self.messages.append(entry.content)
        elif isinstance(entry, NestedEntry):
            self.nested.append(entry)
            if isinstance(inner := entry.entry, ResponseEntry):
                self.usage += [] if inner.usage is None else [inner.usage]
                self.cost += inner.cost
                self.nested_calls += sum(call.state == "complete" and call.name != OUTPUT_TOOL for call in inner.calls)
        else:
            assert_never(entry)

    def _add_response(self, entry: ResponseEntry) -> None:
        if self.response is not None:
            self._finish(self.response)
        request = self._request
        if (request.round, request.pauses) != (entry.round, entry.pauses):
            raise UsageError(f"the entries lack the request of round {entry.round}: pass all entries of the run")
        correction = [] if request.correction is None else [request.correction]
        self._add_contents([*correction, *self._sent])
        self._sent = []
        if request.change is not None:
            self.context = replace(self.context, contents=request.change.apply(self.context.contents))
        self._add_contents(request.added)
        if request.thread is not None and request is not self.first:
            self.context = replace(self.context, messages=request.thread)
        self.context = replace(
            self.context,
            provider=providers.get(entry.provider),
            model=entry.model,
            endpoint=entry.endpoint,
            tool_choice=request.tool_choice,
            round=entry.round,
        )
        self.response = entry
        self.results = {result.call_id: result for result in entry.results}
        self.approvals, self.started, self.attempts, self.nested = {}, [], Counter(), []
        if entry.usage is not None:
            self.usage.append(entry.usage)
        self.cost += entry.cost

    def _add_contents(self, contents: Iterable[Content]) -> None:
        for content in contents:
            self.contents.append(content)
            self.context = self.context.with_update(self.context.message_update(content))

    def _finish(self, response: ResponseEntry) -> None:
        """Append an answered round, all calls of which have results."""
        results: list[ToolResult] = []
        for call in response.calls:
            if (stored := self.results.get(call.id)) is None:
                raise UsageError(
                    f"the entries lack the result of the call {call.id} of round {response.round}, although a later"
                    " round has begun: pass all entries of the run"
                )
            results.append(stored.to_result(call))
        answered = Round.restore(
            response.assistant,
            response.calls,
            results,
            [],
            provider=self.context.provider,
            shape=self.shape,
            options=self.context.render_options,
        )
        update = answered.update()
        self.contents += update.contents
        is_round_over = response.outcome != "pause"
        self.context = self.context.with_update(update, is_round_over=is_round_over)
        if is_round_over:
            self.breaker.trips(update.results)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a ``RunState``."""
        response, context = self.response, self.context
        return {
            "run_key": self.first.run_key,
            "provider": context.provider.name,
            "model": context.model,
            "endpoint": context.endpoint,
            "round": context.round,
            "pauses": 0 if response is None else response.pauses,
            "tool_choice": context.tool_choice,
            "history": context.contents,
            "contents": self.contents,
            "thread": context.messages,
            "assistant": None if response is None else response.assistant,
            "calls": [] if response is None else response.calls,
            "results": [] if response is None else [self.results[c.id] for c in response.calls if c.id in self.results],
            "pending": [],
            "started": self.started,
            "attempts": dict(self.attempts),
            "messages": [*self._sent, *self.messages],
            "nested": [entry for entry in self.nested if entry.call_id not in self.results],
            "nested_calls": self.nested_calls,
            "position": self.position,
            "usage": self.usage,
            "cost": self.cost,
            "failures": self.breaker.failures,
            "outcome": None if response is None else response.outcome,
            "is_paused": False,
            "metadata": self._request.metadata,
        }
