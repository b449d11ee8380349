"""The values in events: calls and their results, usage, log probabilities, the finish, errors and warnings.

Frozen msgspec structs and the literals of their fields. The module must not depend on how a wire transports any of
this, nor on how a tool is run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import astuple, force_setattr

from streamkit.values.redaction import excerpt_repr, redact_message, redact_value

__all__ = [
    "ALL_MARKUP_FAMILIES",
    "CLIENT_ITEM",
    "CLIENT_ITEM_REFERENCE",
    "CLIENT_TOOL",
    "CallKind",
    "CallRef",
    "CallState",
    "Ended",
    "ErrorCause",
    "ErrorCode",
    "ErrorKind",
    "FailedRequest",
    "Finish",
    "FinishReason",
    "MarkupFamily",
    "NormalizedToolChunk",
    "ResultStatus",
    "RunWarningCode",
    "ServerCall",
    "StreamError",
    "StreamWarning",
    "TokenLogProbability",
    "ToolCall",
    "ToolResult",
    "TurnWarningCode",
    "Usage",
    "WarningCode",
]

CallKind = Literal["function", "custom"]
CallState = Literal["complete", "incomplete", "invalid"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error", "other"]
#: The markup in which models write calls as text: ``dsml`` (DeepSeek V3.2 and later), ``deepseek`` (the tokens of V3,
#: R1 and V3.1), ``kimi`` (K2's tokens, K3's elements), ``hermes`` (JSON in ``<tool_call>``), ``qwen`` (that, and
#: ``<function=...>`` of Qwen3-Coder), ``harmony`` (gpt-oss: its control tokens in names).
MarkupFamily = Literal["dsml", "deepseek", "kimi", "hermes", "qwen", "harmony"]
ALL_MARKUP_FAMILIES: frozenset[MarkupFamily] = frozenset(get_args(MarkupFamily))
#: Why a run ended.
Ended = Literal[
    "answered",  # the model answered without calling a tool
    "max_rounds",  # it still called tools in the last round, or the provider paused too often
    "breaker",  # the same call failed in three rounds
    "refusal",
    "filtered",  # by the provider's content filter
    "length",  # the response was truncated at its length limit, and no call of it is complete
    "awaiting_approval",  # calls await approval: ``pending`` lists them, ``state`` is what the run is resumed from
    "awaiting_results",  # the same, with calls that no tool here runs: their results come from the client
    "budget",  # the round has passed max_tokens or max_cost
    "canceled",  # by ``Run.cancel``; or the reader left, or was cancelled
    "timed_out",  # the time of the run was over, or a response was silent for too long
    "error",  # a turn failed, the output did not fit, or the caller's code raised
]
ErrorKind = Literal[
    "provider_error", "protocol_error", "stream_truncated", "transport_error", "timed_out", "limit_exceeded"
]
ErrorCode = Literal[
    "context_overflow",
    "rate_limited",
    "quota_exceeded",
    "overloaded",
    "unauthorized",
    "not_found",
    "content_policy",
    "invalid_request",
]
ResultStatus = Literal["completed", "error", "denied", "timed_out", "canceled"]
#: Why a call has an error: see ``events.ToolError``.
ErrorCause = Literal["invalid_arguments", "unknown_tool", "failed", "raised"]

#: The codes of a turn's warnings and of a run's; docs/rules.md, "Warning codes", describes them. A parser of a third
#: party may use codes of its own, so ``StreamWarning.code`` and ``Warned.code`` are plain strings.
TurnWarningCode = Literal[
    "another_error",
    "arguments_repaired",
    "arguments_restated",
    "arguments_unknown",
    "block_index_reused",
    "broken_markup",
    "content_filtered",
    "double_encoded",
    "duplicate_keys",
    "events_unseparated",
    "finish_message",
    "finish_without_calls",
    "incomplete_reason",
    "index_mismatch",
    "invalid_arguments",
    "item_repeated",
    "late_arguments",
    "leaked_markup",
    "legacy_completion",
    "lone_surrogate",
    "message_restarted",
    "more_warnings",
    "name_changed",
    "nameless_call",
    "no_turn_key",
    "orphan_annotation",
    "orphan_delta",
    "other_choice",
    "other_model_usage",
    "repeated_arguments",
    "repeated_call",
    "second_signature",
    "slot_reused",
    "stop_details",
    "text_restated",
    "trailing_junk",
    "transport_error",
    "unexpected_shape",
    "unknown_field",
    "usage_mismatch",
]
RunWarningCode = Literal[
    "batched_instead",
    "breaker",
    "content_changed",
    "effects_possible",
    "event_loop_blocked",
    "history_shortened",
    "paused_too_often",
    "provider_fallback",
    "repeated_id",
    "request_retried",
    "tool_abandoned",
    "turn_interrupted",
    "usage_unknown",
]
WarningCode = Literal[TurnWarningCode, RunWarningCode]
_SHOWN = 100  # characters of one value in the repr of a call


class CallRef(Struct, frozen=True, gc=False):
    """The identity of a call in events. One object from the call's start to its result."""

    id: str  #: canonical id, ``hist_tool_`` and 24 characters of base64url
    name: str  #: the complete name of the tool
    index: int  #: position among the turn's client calls, from 0, in order of first appearance
    kind: CallKind = "function"  #: ``custom``: the arguments are free text


class StreamWarning(Struct, frozen=True):
    """An irregularity that did not end the turn. Secrets in the message are masked (``values.redaction``)."""

    code: str  #: one of ``WarningCode``, or a third party's own
    message: str  #: a sentence for people, with the values
    call_id: str | None = None  #: canonical id of the call that it concerns, if it concerns one

    def __post_init__(self) -> None:
        force_setattr(self, "message", redact_message(self.message))


#: The field of a call's metadata with a provider's own item that asks the client itself for an action (a patch, a shell
#: command, a click, an approval) and not for a tool of the request.
CLIENT_ITEM: Final = "item"
#: The field of a tool's metadata with its provider's own declaration, if the provider asks the client by an item of its
#: own to run it, as the Responses API does with its tool search. A call of it through another provider has it, too.
CLIENT_TOOL: Final = "client_tool"
#: The tool that a request makes the model call where the provider has no field for the schema of the output, and the
#: member of the object that has the output where the schema must be an object's and the output is none.
OUTPUT_TOOL: Final = "final_output"
#: The fields of such an item that its result needs, or repeats.
CLIENT_ITEM_REFERENCE: Final = ("type", "id", "call_id", "execution", "caller", "pending_safety_checks")


class NormalizedToolChunk(Struct, frozen=True, gc=False):
    """One delta of a tool call, as every parser passes it to the accumulator.

    ``start`` opens a call, on wires that report the start of one; ``delta`` is any other part of a call. On wires
    without explicit starts, such as Chat Completions, a ``delta`` with a name opens a call.

    Attributes:
        type: ``start`` or ``delta``.
        id: the provider's id of the call; None and ``""`` are equal.
        name: its name, or a fragment of it; None and ``""`` are equal.
        args: argument text at the start (the complete JSON on wires that send complete calls).
        arguments_delta: the next part of the argument text.
        key: the opaque value that distinguishes calls on the wire (index, block index, item id). Without one,
            ``metadata["index"]`` is the key, and is not kept as metadata.
        position: index in the list of the chunk, from 0; used only if nothing else identifies the call.
        kind: ``function`` or ``custom``.
        message: the provider's own message of the call, for callers that keep native messages. It is kept as
            ``ToolCall.message``, with the arguments of later deltas.
        metadata: values that the provider expects back with the call.
    """

    type: Literal["start", "delta"]
    id: str | None = None
    name: str | None = None
    args: str | None = None
    arguments_delta: str | None = None
    key: Hashable = None
    position: int | None = None
    kind: Literal["function", "custom"] = "function"
    message: Any = None
    metadata: dict[str, Any] | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """One tool call of a model, as far as it has arrived.

    Attributes:
        id: canonical id; the same on every machine and at every replay of the stream.
        name: the tool's name; empty only if the wire never sent one (then ``state`` is ``invalid``).
        index: position among the turn's client calls, from 0.
        raw_id: the provider's own id, None if the wire sent none.
        kind: ``function`` (arguments are a JSON object) or ``custom`` (arguments are free text).
        arguments: the object (for ``custom`` the text); None unless ``state`` is ``complete``.
        arguments_text: the argument text in force, as the wire sent it.
        partial: the arguments as far as received; for display, never for execution. While the call is open, every
            access returns the same dict, which grows with the stream: copy it to keep it, and do not change it.
        state: ``complete``, ``incomplete`` or ``invalid``; in ``Turn.calls`` ``incomplete`` until the turn ends.
        ended: the wire reported the end of this call.
        message: the provider's own message of the call, if the parser passed one (``NormalizedToolChunk.message``). A
            dict, or a list that ends in one, is a copy that has the arguments received so far.
        metadata: what the provider expects back with the call (signatures, item ids), by its own names. Of a call for
            the client itself the field ``CLIENT_ITEM`` has the provider's item.
        warnings: the irregularities of this call.
    """

    id: str
    name: str
    index: int
    raw_id: str | None = None
    kind: CallKind = "function"
    arguments: Any = None
    arguments_text: str = ""
    partial: dict[str, Any] = field(default_factory=dict)
    state: CallState = "incomplete"
    ended: bool = False
    message: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[StreamWarning, ...] = ()

    def __repr__(self) -> str:
        # For debuggers and logs: without metadata (signatures), without secrets of known forms, and short.
        parts = [self.name or "without a name", self.state, excerpt_repr(self.arguments_text), f"id={self.id}"]
        if self.message is not None:
            parts.append(f"message={excerpt_repr(self.message)}")
        if self.warnings:
            parts.append(f"warnings={[warning.code for warning in self.warnings][:4]}")
        return f"<ToolCall {' '.join(part[:_SHOWN] for part in parts)}>"

    @property
    def ref(self) -> CallRef:
        """The identity of the call in events."""
        return CallRef(self.id, self.name, self.index, self.kind)

    @property
    def is_client_item(self) -> bool:
        """Whether the call asks the client itself for an action. A tool must be declared for it to run it."""
        return isinstance(self.metadata.get(CLIENT_ITEM), dict)


class ServerCall(Struct, frozen=True, kw_only=True):
    """A call that the provider ran itself. It is never executed here."""

    id: str | None  #: the provider's id
    name: str  #: such as ``web_search``
    arguments: Any = None  #: the tool's arguments, if the wire has them
    result: Any = None  #: the result in the provider's own form; None if the turn ended before it


class ToolResult(Struct, frozen=True):
    """The outcome of one call. Every call gets exactly one."""

    call: ToolCall
    status: ResultStatus
    value: Any = None  #: what the tool returned; None unless ``completed``
    error: str | None = None  #: a sentence for the model; None if ``completed``
    #: ``effects_possible``: the tool began before the turn had ended, and its own result was discarded.
    metadata: dict[str, Any] = field(default_factory=dict)
    exception: BaseException | None = None  #: what the tool raised; for the caller, never stored or sent
    cause: ErrorCause | None = None  #: of an ``error``; ``raised`` wherever the error has the text of an exception


class Usage(Struct, frozen=True):
    """The tokens of one turn; None for each figure that the provider did not send."""

    input_tokens: int | None = None  #: the complete prompt, cached tokens included
    output_tokens: int | None = None  #: everything generated, reasoning included
    reasoning_tokens: int | None = None  #: of the output
    cache_read_tokens: int | None = None  #: of the input, read from the provider's cache
    cache_write_tokens: int | None = None  #: of the input, written to it
    raw: Any = None  #: the provider's last report; of a sum the list of the reports

    def __add__(self, other: Usage) -> Usage:
        """Return the tokens of both, as of two turns; ``sum(reports, start=Usage())`` adds up many."""
        if not isinstance(other, Usage):
            return NotImplemented
        return _sum((self, other))

    @staticmethod
    def sum(reports: Iterable[Usage]) -> Usage | None:
        """Return the tokens of several turns, added up; None for no reports. ``raw`` is the list of their reports."""
        turns = list(reports)
        return _sum(turns) if turns else None

    def updated_with(self, later: Usage) -> Usage:
        """Return the figures after a *later* report of the same turn.

        Per field the last figure that was sent counts, and a zero never replaces another figure.
        """
        if (  # each figure was sent again, as most servers do
            (later.input_tokens or self.input_tokens in (None, later.input_tokens))
            and (later.output_tokens or self.output_tokens in (None, later.output_tokens))
            and (later.reasoning_tokens or self.reasoning_tokens in (None, later.reasoning_tokens))
            and (later.cache_read_tokens or self.cache_read_tokens in (None, later.cache_read_tokens))
            and (later.cache_write_tokens or self.cache_write_tokens in (None, later.cache_write_tokens))
        ):
            return later
        fields = zip(astuple(self), astuple(later), strict=True)
        figures = [last if last or before is None else before for before, last in fields]
        figures[-1] = later.raw
        return Usage(*figures)


def _sum(turns: Sequence[Usage]) -> Usage:
    fields: list[Any] = []
    for reported in zip(*[astuple(turn)[:-1] for turn in turns], strict=True):
        sent = [figure for figure in reported if figure is not None]
        fields.append(sum(sent) if sent else None)
    reports: list[Any] = []
    for turn in turns:  # of which each may be a sum
        reports += turn.raw if isinstance(turn.raw, list) else [] if turn.raw is None else [turn.raw]
    return Usage(*[*fields, reports])


class Finish(Struct, frozen=True):
    """The reason why the model stopped."""

    reason: FinishReason
    raw: str | int | None = None  #: the provider's own value, None if it sent none


class StreamError(Struct, frozen=True):
    """The error that ended a turn.

    Secrets in the message and in ``raw`` are masked (``values.redaction``): transports name URLs with keys in them,
    and servers repeat the key of a request.
    """

    kind: ErrorKind
    message: str
    code: ErrorCode | None = None  #: what is wrong, from the provider's error object; None if unknown
    raw: Any = None  #: the provider's error object, or the beginning of input that was not recognized
    status: int | None = None  #: the HTTP status, if known
    retry_after: float | None = None  #: seconds, if the provider sent them
    limit: int | None = None  #: with ``context_overflow``: the tokens that the provider accepts, if it sent them
    requested: int | None = None  #: with ``context_overflow``: the tokens of the request, if it sent them

    def __post_init__(self) -> None:
        force_setattr(self, "message", redact_message(self.message))
        if self.raw is not None:
            force_setattr(self, "raw", redact_value(self.raw))


class FailedRequest(Struct, frozen=True):
    """A request that ended in an error.

    Attributes:
        provider: the name of the provider that was requested.
        model: the model that was requested, or else reported; None if unknown.
        endpoint: the address of the server, without anything that may be secret; None if unknown.
        error: what ended it.
    """

    provider: str
    model: str | None
    endpoint: str | None
    error: StreamError

    @property
    def target(self) -> str:
        """What was requested: the provider's name, the model and the address, as far as they are known."""
        model = None if self.model is None else f"model {self.model}"
        return ", ".join([fact for fact in (self.provider, model, self.endpoint) if fact is not None])


class TokenLogProbability(Struct, frozen=True, gc=False):
    """A token of the response with the natural logarithm of its probability; a value of ``events.LogProbabilities``.

    Attributes:
        token: the token's text.
        logprob: the logarithm; None if the wire sent no number.
        alternatives: the most probable tokens at this position, most often with the chosen one among them.
    """

    token: str
    logprob: float | None = None
    alternatives: tuple[TokenLogProbability, ...] = ()
