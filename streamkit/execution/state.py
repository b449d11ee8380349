"""``RunState``: a run of the loop that waits for somebody's approval, as data to store. Pure.

It holds the conversation, the calls of the round that is paused and the results that are there: whatever another
process needs to go on. It holds no tools, no ``deps`` and no keys; those are given again. It knows nothing of storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from streamkit.calls import ResultStatus, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.round import Round
from streamkit.execution.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates
from streamkit.providers.provider import Provider
from streamkit.tools import Approval

__all__ = ["RunState", "check_approvals"]


def _struct(kind: type[msgspec.Struct]) -> Any:
    """The annotations with which pydantic reads and writes one of our frozen values."""
    return (
        PlainValidator(lambda value: value if isinstance(value, kind) else msgspec.convert(value, kind)),
        PlainSerializer(lambda value: replace_lone_surrogates(msgspec.to_builtins(value, enc_hook=str))),
        WithJsonSchema({"type": "object", "title": kind.__name__}),
    )


class _StoredResult(BaseModel):
    model_config = ConfigDict(extra="forbid")

    call_id: str
    status: ResultStatus
    value: Any = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class RunState(BaseModel):
    """A paused run. ``model_dump_json`` and ``RunState.model_validate_json`` store it; ``run_loop(resume=)`` goes on.

    It is a value: what is done with it happens once for each time that it is resumed. Whoever stores it must see to it
    that it is resumed once; calls that run keep their ``ToolContext.id`` at every attempt, as idempotency key.

    Attributes:
        version: of this form.
        run_key: the stable name of the run.
        provider: whose stream is read, by name.
        round: the number of the paused round.
        tool_choice: of the paused round's request.
        history: the conversation before the paused round (where a ``thread`` was given: what the run added to it).
        contents: what the run added before the paused round.
        thread: the provider's own messages, where the run was given those; else None.
        asked: what the model said in the paused round, with its calls.
        calls: these calls, in order.
        results: those that are there.
        pending: the ids of the calls that wait for an answer, in call order.
        usage: the tokens of all requests so far, one report each.
        failures: how often equal calls have failed, for the breaker.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    run_key: str
    provider: str
    round: int
    tool_choice: str | None = None
    history: list[Content]
    contents: list[Content]
    thread: list[dict[str, Any]] | None = None
    assistant: Content
    calls: list[Annotated[ToolCall, *_struct(ToolCall)]]
    results: list[_StoredResult]
    pending: list[str]
    usage: list[Annotated[Usage, *_struct(Usage)]] = Field(default_factory=list)
    failures: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _speaks_of_its_calls(self) -> RunState:
        known = {call.id for call in self.calls}
        told = [result.call_id for result in self.results]
        unknown = [call_id for call_id in [*told, *self.pending] if call_id not in known]
        if unknown:
            raise ValueError(f"the state speaks of calls that it does not hold: {', '.join(unknown)}")
        if len({*told, *self.pending}) < len(told) + len(self.pending):
            raise ValueError("a call of the state has two results, or one and waits for an answer")
        return self

    @classmethod
    def from_round(cls, paused: Round, pending: list[ToolCall], **more: Any) -> RunState:
        """The state of a round that cannot go on by itself, and what else there is to know of its run."""
        results = [
            _StoredResult(
                call_id=result.call.id,
                status=result.status,
                value=replace_lone_surrogates(to_stored_result(result.value)),
                error=result.error,
                metadata=result.metadata,
            )
            for result in paused.results_so_far
        ]
        calls = list(paused.calls)
        return cls(
            assistant=paused.assistant, calls=calls, results=results, pending=[call.id for call in pending], **more
        )

    def to_round(self, provider: Provider, shape: ThreadLayout) -> Round:
        """The paused round, to go on with."""
        by_id = {call.id: call for call in self.calls}
        results = [
            ToolResult(by_id[stored.call_id], stored.status, stored.value, stored.error, stored.metadata)
            for stored in self.results
        ]
        return Round.restored(self.assistant, self.calls, results, self.pending, provider=provider, shape=shape)


def check_approvals(state: RunState, approvals: Mapping[str, Approval | bool]) -> dict[str, Approval | bool]:
    """The answers to a paused run's questions.

    Raises:
        UsageError: one is of a call that waits for none, or is neither a bool nor an ``Approval``.
    """
    for call_id, answer in approvals.items():
        if call_id not in state.pending:
            waiting = ", ".join(state.pending) or "none"
            raise UsageError(f"no call {call_id!r} waits for approval; those that do: {waiting}")
        if not isinstance(answer, (Approval, bool)):
            raise UsageError(f"the answer to {call_id} is True, False or an Approval, not {answer!r}")
    return dict(approvals)
