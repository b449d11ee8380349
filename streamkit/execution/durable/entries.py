"""The entries of a run, a record of all that happens in it in order, and the replay of the run from them. Pure.

``run_loop(checkpoint=)`` gets an entry of each request, response, approval and result when it happens, and
``RunState.from_entries`` returns the state of the run after the last one (``docs/rules.md``, "Durable runs"). Entries
are only appended, never changed. Each contains what it adds, so that the storage grows with the conversation and not
with its square.

In a replay an answered round has the same contents and messages as in the run itself, because both are made by
``Round.update`` from the same values. Nothing depends on the order of results: each belongs to its call's id.

This module must not depend on storage, or on ``state``, which stores what a replay returns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, assert_never

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter, WithJsonSchema

from streamkit import providers
from streamkit.calls import ErrorCause, ResultStatus, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.round.context import RoundContext
from streamkit.execution.round.policies import CircuitBreaker, Outcome
from streamkit.execution.round.round import Round
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates
from streamkit.providers.contract.rendered import IdPolicy
from streamkit.tools import Approval

__all__ = [
    "ApprovalEntry",
    "Replay",
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


#: The stored forms of a call and of usage, as fields of pydantic models.
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
        cause: as in ``ToolResult``.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    call_id: str
    status: ResultStatus
    value: Any = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    cause: ErrorCause | None = None

    @classmethod
    def from_result(cls, result: ToolResult) -> StoredResult:
        """Return a result as data."""
        return cls(
            call_id=result.call.id,
            status=result.status,
            value=replace_lone_surrogates(to_stored_result(result.value)),
            error=result.error,
            metadata=result.metadata,
            cause=result.cause,
        )

    def to_result(self, call: ToolCall) -> ToolResult:
        """Return the result of the call that has its id."""
        return ToolResult(call, self.status, self.value, self.error, self.metadata, cause=self.cause)


class _Entry(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

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
