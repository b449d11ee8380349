"""``RunState``: a run of the loop that awaits approval, as data to store; and the reasons for which a run ends. Pure.

The state contains the conversation, the calls of the paused round and the results so far: all that another process
needs to continue. It contains no tools, no ``deps`` and no keys; these are passed again. This module must not depend on
storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from streamkit.calls import ResultStatus, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.context import RoundContext
from streamkit.execution.round import Round
from streamkit.execution.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates
from streamkit.tools import Approval

__all__ = ["Ended", "RunState", "check_approvals"]

#: Why a run ended.
Ended: TypeAlias = Literal[
    "answered",  # the model answered without calling a tool
    "max_rounds",  # it still called tools in the last round, or the provider paused too often
    "breaker",  # the same call failed in three rounds
    "refusal",
    "filtered",  # by the provider's content filter
    "length",  # the response was truncated at its length limit, and no call of it is complete
    "awaiting_approval",  # calls await approval: ``pending`` lists them, ``state`` is what the run is resumed from
    "canceled",  # the reader left, or was cancelled
    "timed_out",  # after run_timeout
    "error",  # a turn failed, or the caller's code raised
]


def _struct(kind: type[msgspec.Struct]) -> Any:
    """Return the annotations with which pydantic reads and writes a msgspec Struct."""
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
    """A paused run, stored by ``model_dump_json`` and ``model_validate_json`` and resumed by ``run_loop(resume=)``.

    It is a value: each time it is resumed, the remaining calls run. Your storage must ensure that it is resumed once. A
    call has the same ``ToolContext.id`` at every attempt, to be used as idempotency key.

    Attributes:
        version: of this format.
        run_key: the stable name of the run.
        provider: the name of the provider.
        model: the requested model, if the run has one; with a fallback it is the fallback's.
        endpoint: the requested server, in the same way.
        round: the number of the paused round.
        tool_choice: of the paused round's request.
        history: the conversation before the paused round (of a run with a ``thread``: what the run added).
        contents: what the run added before the paused round.
        thread: the provider's own messages, if the run was started with those; else None.
        assistant: the assistant's content of the paused round, with its calls.
        calls: these calls, in order.
        results: those that exist.
        pending: the ids of the calls that await approval, in call order.
        usage: the tokens of all requests so far, one report each.
        failures: how often equal calls have failed, for the circuit breaker.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    run_key: str
    provider: str
    model: str | None = None
    endpoint: str | None = None
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
    def _check_call_ids(self) -> RunState:
        known = {call.id for call in self.calls}
        with_result = [result.call_id for result in self.results]
        unknown = [call_id for call_id in [*with_result, *self.pending] if call_id not in known]
        if unknown:
            raise ValueError(f"the state refers to calls that it does not contain: {', '.join(unknown)}")
        if len({*with_result, *self.pending}) < len(with_result) + len(self.pending):
            raise ValueError("a call of the state has two results, or has a result and awaits approval")
        return self

    @classmethod
    def from_round(cls, paused: Round, pending: list[ToolCall], **fields: Any) -> RunState:
        """Return the state of a paused round.

        Args:
            paused: the round.
            pending: its calls that await approval.
            **fields: the fields of the run.
        """
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
            assistant=paused.assistant, calls=calls, results=results, pending=[call.id for call in pending], **fields
        )

    def to_round(self, context: RoundContext, shape: ThreadLayout) -> Round:
        """Return the paused round, ready to continue in a resumed run's context."""
        by_id = {call.id: call for call in self.calls}
        results = [
            ToolResult(by_id[stored.call_id], stored.status, stored.value, stored.error, stored.metadata)
            for stored in self.results
        ]
        return Round.restore(
            self.assistant,
            self.calls,
            results,
            self.pending,
            provider=context.provider,
            shape=shape,
            options=context.render_options,
        )


def check_approvals(state: RunState, approvals: Mapping[str, Approval | bool]) -> dict[str, Approval | bool]:
    """Return the approvals of a paused run's calls, checked.

    Raises:
        UsageError: one is for a call that does not await approval, or is neither a bool nor an ``Approval``.
    """
    for call_id, approval in approvals.items():
        if call_id not in state.pending:
            pending = ", ".join(state.pending) or "none"
            raise UsageError(f"no call {call_id!r} awaits approval; these do: {pending}")
        if not isinstance(approval, (Approval, bool)):
            raise UsageError(f"the approval of {call_id} must be True, False or an Approval, not {approval!r}")
    return dict(approvals)
