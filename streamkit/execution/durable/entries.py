"""The entries of a run, a record of all that happens in it in order. Pure.

``run_loop(checkpoint=)`` gets an entry of each request, response, approval and result when it happens, and
``RunState.from_entries`` returns the state of the run after the last one (``docs/rules.md``, "Durable runs"). Entries
are only appended, never changed, and each has its position. Each contains what it adds, so that the storage grows with
the conversation and not with its square.

This module must not depend on storage, or on what is made of the entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
)

from streamkit.calls import ErrorCause, ResultStatus, ToolCall, ToolResult, Usage
from streamkit.errors import UsageError
from streamkit.execution.round.policies import Outcome
from streamkit.execution.round.thread_update import ThreadLayout
from streamkit.history import Content
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import nests_deeper, replace_lone_surrogates
from streamkit.providers.contract.rendered import IdPolicy
from streamkit.tools import Approval

__all__ = [
    "MAX_DEPTH",
    "ApprovalEntry",
    "HistoryChange",
    "MessageEntry",
    "NestedEntry",
    "RequestEntry",
    "ResponseEntry",
    "ResultEntry",
    "ResumeEntry",
    "RunEntry",
    "StartEntry",
    "StoredCall",
    "StoredResult",
    "StoredUsage",
    "parse_entry",
]


#: Levels of a stored state or entry. pydantic writes JSON of at most 255; ``Limits.nesting`` leaves a run far below.
MAX_DEPTH = 240


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
    """A result without its call, as data."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    call_id: str  #: the canonical id of the call
    status: ResultStatus  #: as in ``ToolResult``
    value: Any = None  #: what the tool returned, as JSON data
    error: str | None = None  #: the sentence for the model
    metadata: dict[str, Any] = Field(default_factory=dict)  #: as in ``ToolResult``
    cause: ErrorCause | None = None  #: as in ``ToolResult``

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


def _check_version(value: Any) -> str:
    """Return the version of an entry; refuse another major one. A newer minor one has fields that are kept unread."""
    version: str = replace_lone_surrogates(str(value))
    if version.partition(".")[0] != "1":
        raise ValueError(f"version {version} is not known here: a newer streamkit wrote it")
    return version


class _Entry(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    version: Annotated[str, BeforeValidator(_check_version)] = "1.0"
    run_key: Annotated[str, Field(min_length=1)]
    position: Annotated[int, Field(ge=0, strict=True)]

    def to_json(self) -> str:
        """Return the entry as JSON, which ``parse_entry`` reads."""
        return self.model_dump_json()


class _RequestPart(_Entry):
    round: Annotated[int, Field(ge=0, strict=True)]
    pauses: Annotated[int, Field(ge=0, strict=True)] = 0
    provider: Annotated[str, Field(min_length=1)]
    model: str | None = None
    endpoint: str | None = None


class HistoryChange(BaseModel):
    """What replaces a part of a conversation, as a hook has changed it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    start: Annotated[int, Field(ge=0)]  #: how many contents before it stay
    stop: Annotated[int, Field(ge=0)]  #: the number of the first content after it that stays
    contents: list[Content] = Field(default_factory=list)  #: what is between these from now on

    @classmethod
    def between(cls, before: Sequence[Content], after: Sequence[Content]) -> HistoryChange | None:
        """Return the change from one conversation to another; None if there is none."""
        shorter = min(len(before), len(after))
        start = next((n for n in range(shorter) if not _is_same(before[n], after[n])), shorter)
        most = shorter - start
        end = next((n for n in range(most) if not _is_same(before[-1 - n], after[-1 - n])), most)
        if start + end == len(before) == len(after):
            return None
        return cls(start=start, stop=len(before) - end, contents=list(after[start : len(after) - end]))

    def apply(self, contents: Sequence[Content]) -> list[Content]:
        """Return a conversation after the change."""
        return [*contents[: self.start], *self.contents, *contents[self.stop :]]


def _is_same(one: Content, other: Content) -> bool:
    return one is other or one == other


class RequestEntry(_RequestPart):
    """A request that is about to be made.

    Attributes:
        run_key: the stable name of the run.
        position: the place of the entry in the run's log, from 0.
        round: the number of the round.
        pauses: how often the provider has paused the response of this round.
        provider: the provider that is requested.
        model: the model, if the run names one.
        endpoint: the server, in the same way.
        tool_choice: of the request.
        ids: the id policy of the run.
        shape: the layout of calls and results.
        history: the neutral conversation, in the first request; else None, because it is what the entries before have
            added.
        thread: the provider's own messages, in the same way, and where a hook has replaced them.
        correction: the message of the run, before this request, that tells the model why its output does not fit.
        change: how a hook has changed the conversation before; None if none has.
        added: the contents that hooks have added at its end.
        metadata: ``run.metadata``, any JSON: that of the last request is the state's.
    """

    type: Literal["request"] = "request"
    tool_choice: str | None = None
    ids: IdPolicy = "origin"
    shape: ThreadLayout = "batched"
    history: list[Content] | None = None
    thread: list[dict[str, Any]] | None = None
    correction: Content | None = None
    change: HistoryChange | None = None
    added: list[Content] = Field(default_factory=list)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class ResponseEntry(_RequestPart):
    """A response that was read to its end, without an error. It is never requested again.

    Attributes:
        run_key, position: as of every entry (`RequestEntry`).
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
        cost: what the response has cost, by ``Budget.price``.
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
        run_key, position: as of every entry (`RequestEntry`).
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
    def of(cls, run_key: str, position: int, call_id: str, decision: Approval | bool) -> ApprovalEntry:
        """Return the entry of a decision."""
        approval = Approval(decision) if isinstance(decision, bool) else decision
        return cls(
            run_key=run_key,
            position=position,
            call_id=call_id,
            allow=approval.allow,
            arguments=approval.arguments,
            reason=approval.reason,
        )

    @property
    def approval(self) -> Approval:
        """The decision as ``approve`` returns it."""
        return Approval(self.allow, self.arguments, self.reason)


class StartEntry(_Entry):
    """The start of a call of a ``Tool(once=True)``, stored before it. Without a result the call does not start again.

    Attributes:
        run_key, position: as of every entry (`RequestEntry`).
        call_id: the canonical id of the call.
    """

    type: Literal["start"] = "start"
    call_id: str


class ResultEntry(_Entry):
    """The one result of a call, which never runs again. It belongs to the call's id, whatever its position.

    Attributes:
        run_key, position: as of every entry (`RequestEntry`).
        result: the result, with the canonical id of its call.
    """

    type: Literal["result"] = "result"
    result: StoredResult


class ResumeEntry(_Entry):
    """The run was continued in a round that has calls without a result, before any of them runs.

    Attributes:
        run_key, position: as of every entry (`RequestEntry`).
        call_ids: the canonical ids of those that may have run before, and run once more.
    """

    type: Literal["resume"] = "resume"
    call_ids: list[str]


class MessageEntry(_Entry):
    """A content that was sent to the run, which the next request contains.

    Attributes:
        run_key, position: as of every entry (`RequestEntry`).
        content: the content.
        mail_id: its id in the mailbox of the store, from which it is removed when the entry is stored; None if it was
            not there.
    """

    type: Literal["message"] = "message"
    content: Content
    mail_id: str | None = None


class NestedEntry(_Entry):
    """An entry of a run inside a tool, in the log of the run around it.

    Attributes:
        run_key: the stable name of the run around it.
        position: the place of the entry in the log of that run.
        call_id: the canonical id of its call that contains the inner run.
        entry: the entry, with the run key and the position of the inner run.
    """

    type: Literal["nested"] = "nested"
    call_id: str
    entry: Annotated[
        RequestEntry | ResponseEntry | ApprovalEntry | StartEntry | ResultEntry | ResumeEntry | MessageEntry,
        Field(discriminator="type"),
    ]


RunEntry: TypeAlias = (
    RequestEntry | ResponseEntry | ApprovalEntry | StartEntry | ResultEntry | ResumeEntry | MessageEntry | NestedEntry
)

_entries: TypeAdapter[RunEntry] = TypeAdapter(
    Annotated[RunEntry, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)


def parse_entry(data: str | bytes) -> RunEntry:
    """Return the entry that ``to_json`` has written.

    Args:
        data: the JSON, possibly written again by a database.

    Raises:
        UsageError: it is not JSON, or is nested too deeply.
        pydantic.ValidationError: it is not an entry.
    """
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise UsageError("the entry is not JSON that its to_json() has written") from None
    if nests_deeper(decoded, MAX_DEPTH):
        raise UsageError(f"the entry is nested deeper than {MAX_DEPTH} levels")
    return _entries.validate_python(decoded)
