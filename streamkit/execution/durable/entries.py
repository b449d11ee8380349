"""The entries of a run: a record of each request, response, approval and result, in order. Pure.

``run_loop(checkpoint=)`` gets each of them when it happens, and ``RunState.from_entries`` returns the state of the run
after the last one (``docs/rules.md``, "Durable runs"). Entries are only appended, never changed. Each contains what it
adds, so that the storage grows with the conversation and not with its square.

This module must not depend on storage, or on how entries are read back (``replay``).

The stored forms of calls, results and usage, as fields of pydantic models. Pure.

``state`` stores a paused run with them, ``entries`` each thing that happens. This module must not depend on rounds or
on storage.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter, WithJsonSchema

from streamkit.calls import ResultStatus, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.round.policies import Outcome
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates
from streamkit.providers.contract.origin import IdPolicy
from streamkit.tools import Approval

__all__ = [
    "ApprovalEntry",
    "RequestEntry",
    "ResponseEntry",
    "ResultEntry",
    "RunEntry",
    "StoredCall",
    "StoredResult",
    "StoredUsage",
    "parse_entry",
]


def _struct(kind: type[msgspec.Struct]) -> Any:
    """Return the annotations with which pydantic reads and writes a msgspec Struct."""
    return (
        PlainValidator(lambda value: value if isinstance(value, kind) else _convert(value, kind)),
        PlainSerializer(lambda value: replace_lone_surrogates(msgspec.to_builtins(value, enc_hook=str))),
        WithJsonSchema({"type": "object", "title": kind.__name__}),
    )


def _convert(value: Any, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from None


StoredCall: TypeAlias = Annotated[ToolCall, *_struct(ToolCall)]
StoredUsage: TypeAlias = Annotated[Usage, *_struct(Usage)]


class StoredResult(BaseModel):
    """A result without its call, as data.

    Attributes:
        call_id: the canonical id of the call.
        status: as in ``ToolResult``.
        value: what the tool returned, as JSON data.
        error: the sentence for the model.
        metadata: as in ``ToolResult``.
    """

    model_config = ConfigDict(extra="forbid")

    call_id: str
    status: ResultStatus
    value: Any = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_result(cls, result: ToolResult) -> StoredResult:
        """Return a result as data."""
        return cls(
            call_id=result.call.id,
            status=result.status,
            value=replace_lone_surrogates(to_stored_result(result.value)),
            error=result.error,
            metadata=result.metadata,
        )

    def to_result(self, call: ToolCall) -> ToolResult:
        """Return the result of the call that has its id."""
        return ToolResult(call, self.status, self.value, self.error, self.metadata)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    run_key: Annotated[str, Field(min_length=1)]

    def to_json(self) -> str:
        """Return the entry as JSON, which ``parse_entry`` reads."""
        return self.model_dump_json()


class _RequestPart(_Entry):
    round: Annotated[int, Field(ge=0, strict=True)]
    pauses: Annotated[int, Field(ge=0, strict=True)] = 0
    provider: Annotated[str, Field(min_length=1)]
    model: str | None = None
    endpoint: str | None = None


class RequestEntry(_RequestPart):
    """A request that is about to be made.

    Attributes:
        run_key: the stable name of the run.
        round: the number of the round.
        pauses: how often the provider has paused the response of this round.
        provider: the provider that is requested.
        model: the model, if the run names one.
        endpoint: the server, in the same way.
        tool_choice: of the request.
        ids: the id policy of the run.
        shape: the layout of calls and results.
        history: the neutral conversation, in the first request and where a hook has replaced it; else None, because it
            is what the entries before have added.
        thread: the provider's own messages, in the same way, of a run with a ``thread``.
        correction: the message of the run, before this request, that tells the model why its output does not fit.
    """

    type: Literal["request"] = "request"
    tool_choice: str | None = None
    ids: IdPolicy = "origin"
    shape: ThreadLayout = "batched"
    history: list[Content] | None = None
    thread: list[dict[str, Any]] | None = None
    correction: Content | None = None


class ResponseEntry(_RequestPart):
    """A response that was read to its end, without an error. It is never requested again.

    Attributes:
        run_key: the stable name of the run.
        round: the number of the round.
        pauses: how often the provider had paused before.
        provider: the provider that responded, which may be a fallback.
        model: its model, if the run names one.
        endpoint: its server, in the same way.
        assistant: the assistant's content, with its calls.
        calls: these calls, in order.
        results: of the calls that may not run.
        usage: the tokens, if the provider reported them.
        outcome: what the response means for the run.
        cost: what all responses so far have cost, by the run's ``cost``.
    """

    type: Literal["response"] = "response"
    assistant: Content
    calls: list[StoredCall] = Field(default_factory=list)
    results: list[StoredResult] = Field(default_factory=list)
    usage: StoredUsage | None = None
    outcome: Outcome = None
    cost: float = 0.0


class ApprovalEntry(_Entry):
    """A person's decision on a call.

    Attributes:
        run_key: the stable name of the run.
        call_id: the canonical id of the call.
        allow: whether it may run.
        arguments: the arguments to run it with, if they replace the model's.
        reason: the reason, for the model.
    """

    type: Literal["approval"] = "approval"
    call_id: str
    allow: bool
    arguments: dict[str, Any] | None = None
    reason: str | None = None

    @classmethod
    def of(cls, run_key: str, call_id: str, decision: Approval | bool) -> ApprovalEntry:
        """Return the entry of a decision."""
        approval = Approval(decision) if isinstance(decision, bool) else decision
        return cls(
            run_key=run_key,
            call_id=call_id,
            allow=approval.allow,
            arguments=approval.arguments,
            reason=approval.reason,
        )

    @property
    def approval(self) -> Approval:
        """The decision as ``approve`` returns it."""
        return Approval(self.allow, self.arguments, self.reason)


class ResultEntry(_Entry):
    """The one result of a call, which never runs again. It belongs to the call's id, whatever its place in the entries.

    Attributes:
        run_key: the stable name of the run.
        result: the result, with the canonical id of its call.
    """

    type: Literal["result"] = "result"
    result: StoredResult


RunEntry: TypeAlias = RequestEntry | ResponseEntry | ApprovalEntry | ResultEntry
_entries: TypeAdapter[RunEntry] = TypeAdapter(Annotated[RunEntry, Field(discriminator="type")])


def parse_entry(data: str | bytes) -> RunEntry:
    """Return the entry that ``to_json`` has written.

    Args:
        data: the JSON, possibly written again by a database.

    Raises:
        UsageError: it is not JSON.
        pydantic.ValidationError: it is not an entry.
    """
    try:
        return _entries.validate_python(msgspec.json.decode(data))
    except msgspec.DecodeError:
        raise UsageError("the entry is not JSON that its to_json() has written") from None
