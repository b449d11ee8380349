"""The replay of a run from its entries: its conversation and its current round after the last one. Pure.

An answered round has the same contents and messages as in the run itself, because both are made by ``Round.update``
from the same values. Nothing depends on the order of results: each belongs to its call's id.

This module must not depend on storage or on ``state``, which stores what it returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from streamkit import providers
from streamkit.calls import ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.durable.entries import (
    ApprovalEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    RunEntry,
    StoredResult,
)
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import CircuitBreaker
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.tools import Approval

__all__ = ["Replay"]


@dataclass
class Replay:
    """A run after its entries so far.

    Args:
        first: the first entry, which has the conversation that the run began with.

    Attributes:
        context: what the current round's request was made from.
        contents: what the run has added before the current round.
        response: the response of the current round, once it was read.
        results: the results of its calls, by the call's id.
        approvals: the decisions on them, by the call's id.
        usage: the tokens of all requests, one report each.
        cost: what they have cost.
        breaker: the failures of earlier rounds.
        shape: the layout of calls and results.
    """

    first: RequestEntry
    contents: list[Content] = field(default_factory=list)
    response: ResponseEntry | None = None
    results: dict[str, StoredResult] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)
    usage: list[Usage] = field(default_factory=list)
    cost: float = 0.0
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    def __post_init__(self) -> None:
        first = self.first
        self.shape: ThreadLayout = first.shape
        self._request = first  # the last one
        self.context = RoundContext(
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
        for number, entry in enumerate(entries):
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
        if replay is None:
            raise UsageError("there are no entries: start the run with history= and run_key=, without resume=")
        return replay

    def _add(self, entry: RunEntry) -> None:
        if isinstance(entry, RequestEntry):
            self._request = entry
        elif isinstance(entry, ResponseEntry):
            if self.response is not None and (entry.round, entry.pauses) <= (self.response.round, self.response.pauses):
                return  # another worker has read it first
            self._add_response(entry)
        elif isinstance(entry, ResultEntry):
            self.results.setdefault(entry.result.call_id, entry.result)
        elif isinstance(entry, ApprovalEntry):
            self.approvals.setdefault(entry.call_id, entry.approval)
        else:
            assert_never(entry)

    def _add_response(self, entry: ResponseEntry) -> None:
        if self.response is not None:
            self._finish(self.response)
        request = self._request
        if (request.round, request.pauses) != (entry.round, entry.pauses):
            raise UsageError(f"the entries lack the request of round {entry.round}: pass all entries of the run")
        if request.correction is not None:
            update = self.context.message_update(request.correction)
            self.contents += update.contents
            self.context = self.context.with_update(update)
        if request.history is not None:  # a hook has replaced it
            self.context = replace(self.context, contents=request.history)
        if request.thread is not None:
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
        self.approvals = {}
        if entry.usage is not None:
            self.usage.append(entry.usage)
        self.cost = entry.cost

    def _finish(self, response: ResponseEntry) -> None:
        """Append an answered round, all calls of which have results."""
        results = [self._result(response, call_id) for call_id in [call.id for call in response.calls]]
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

    def _result(self, response: ResponseEntry, call_id: str) -> ToolResult:
        stored = self.results.get(call_id)
        if stored is None:
            raise UsageError(
                f"the entries lack the result of the call {call_id} of round {response.round}, although a later round"
                " has begun: pass all entries of the run"
            )
        return stored.to_result(next(call for call in response.calls if call.id == call_id))

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
            "usage": self.usage,
            "cost": self.cost,
            "failures": self.breaker.failures,
            "outcome": None if response is None else response.outcome,
            "is_paused": False,
        }
