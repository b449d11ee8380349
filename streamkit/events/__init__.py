"""The events of turns and runs: one vocabulary for every provider.

Events are frozen tagged msgspec structs without gc (creating one takes about 50 ns). ``match`` on the class or on
``type`` is exhaustive to a type checker. ``choice`` is 0 unless the request asked for more than one choice.

An event is a class here and a member of ``TurnEvent`` or ``ToolEvent``. What handles events by their class has a table
with a row for each of them, and a class without a row is an error at import (``values.total_tables``). The JSON form
follows from the fields. ``NormalizedToolChunk`` is no event: a parser passes it to the accumulator. The module must not
depend on parsers, the accumulator or execution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from streamkit.calls import (
    CallRef,
    Ended,
    ErrorCause,
    Finish,
    NormalizedToolChunk,
    StreamError,
    StreamWarning,
    TokenLogProbability,
    ToolCall,
    ToolResult,
    Usage,
)
from streamkit.errors import UsageError
from streamkit.events.turn_events import (
    ArgumentsRestated,
    BaseEvent,
    BlockEnded,
    BlockStarted,
    Citation,
    Compaction,
    Failed,
    File,
    Finished,
    LogProbabilities,
    OfCall,
    Reasoning,
    ReasoningKind,
    Refusal,
    ResponseStarted,
    ServerTool,
    ServerToolPhase,
    Text,
    TextKind,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    TurnEvent,
    Unknown,
    UsageReport,
    Warned,
)
from streamkit.values.json_data import TaggedJson
from streamkit.values.total_tables import check_total

__all__ = [
    "ArgumentsRestated",
    "BlockEnded",
    "BlockStarted",
    "Citation",
    "Compaction",
    "Event",
    "Failed",
    "File",
    "Finished",
    "LogProbabilities",
    "NormalizedToolChunk",
    "PreliminaryResult",
    "Reasoning",
    "ReasoningKind",
    "Refusal",
    "ResponseStarted",
    "RoundFinished",
    "RoundStarted",
    "RunEnded",
    "ServerTool",
    "ServerToolPhase",
    "StatePatch",
    "Text",
    "TextKind",
    "TokenLogProbability",
    "ToolAwaitingApproval",
    "ToolAwaitingResult",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallReady",
    "ToolCallStart",
    "ToolCanceled",
    "ToolCompleted",
    "ToolDenied",
    "ToolError",
    "ToolEvent",
    "ToolProgress",
    "ToolRunning",
    "ToolTimedOut",
    "TurnEvent",
    "UiData",
    "Unknown",
    "UsageReport",
    "Warned",
    "check_event",
    "from_json",
    "to_json",
]


class PreliminaryResult(Struct, frozen=True, tag="preliminary_result"):
    """Progress that is the result as far as it is known; a later one, or the result, replaces it."""

    value: Any


class UiData(Struct, frozen=True, tag="ui_data"):
    """Progress that is data for a front end, by the name that the front end has for it.

    Attributes:
        name: the name of the kind of data.
        data: the data.
        id: what the data is about: data of the same name and id replaces it. None: it is new each time.
        transient: the front end shows it and does not keep it.
    """

    name: str
    data: Any
    id: str | None = None
    transient: bool = False


class StatePatch(Struct, frozen=True, tag="state_patch"):
    """Progress that changes the state which a front end shares with the tool: operations of JSON Patch (RFC 6902)."""

    operations: list[dict[str, Any]]


class _ToolOutcome(BaseEvent, frozen=True, gc=True, tag_field="type"):
    call: CallRef
    result: ToolResult
    choice: int = 0


class ToolRunning(OfCall, frozen=True, gc=False, tag="tool_running"):
    """The start of a tool."""

    type: ClassVar[Literal["tool_running"]] = "tool_running"


class ToolProgress(BaseEvent, frozen=True, gc=True, tag="tool_progress"):
    """The progress that a tool reported; for the caller only, never sent to the model.

    ``value`` is what it passed to ``context.progress`` or yielded: a ``PreliminaryResult``, ``UiData``, a
    ``StatePatch``, or any other value.
    """

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    call: CallRef
    value: Any
    choice: int = 0


class ToolAwaitingApproval(BaseEvent, frozen=True, gc=False, tag="tool_awaiting_approval"):
    """A call that runs only after a person's decision, which has not been made.

    ``call`` has the arguments to decide about, ``description`` is what the tool's ``describe`` returns for them.
    """

    type: ClassVar[Literal["tool_awaiting_approval"]] = "tool_awaiting_approval"
    call: ToolCall
    description: str | None = None
    choice: int = 0


class ToolAwaitingResult(OfCall, frozen=True, gc=False, tag="tool_awaiting_result"):
    """A call that no tool of the program runs: its result is passed when the run is resumed."""

    type: ClassVar[Literal["tool_awaiting_result"]] = "tool_awaiting_result"


class ToolCompleted(_ToolOutcome, frozen=True, gc=True, tag="tool_completed"):
    """The result of a tool that returned."""

    type: ClassVar[Literal["tool_completed"]] = "tool_completed"


class ToolError(_ToolOutcome, frozen=True, gc=True, tag="tool_error"):
    """The result of a call that failed.

    ``cause`` is ``invalid_arguments``, ``unknown_tool``, ``failed`` (the tool raised ``ToolFailed``, whose sentence is
    for people as well, or the call could not run) or ``raised`` (any other exception, whose text is not).
    """

    type: ClassVar[Literal["tool_error"]] = "tool_error"
    cause: ErrorCause = "failed"


class ToolDenied(_ToolOutcome, frozen=True, gc=True, tag="tool_denied"):
    """The result of a call that was not allowed to run."""

    type: ClassVar[Literal["tool_denied"]] = "tool_denied"


class ToolTimedOut(_ToolOutcome, frozen=True, gc=True, tag="tool_timed_out"):
    """The result of a tool that exceeded its timeout."""

    type: ClassVar[Literal["tool_timed_out"]] = "tool_timed_out"


class ToolCanceled(_ToolOutcome, frozen=True, gc=True, tag="tool_canceled"):
    """The result of a call that was canceled, before or while it ran."""

    type: ClassVar[Literal["tool_canceled"]] = "tool_canceled"


class RoundStarted(BaseEvent, frozen=True, gc=False, tag="round_started"):
    """The start of a round: the model is requested. Rounds count from 0."""

    type: ClassVar[Literal["round_started"]] = "round_started"
    round: int
    choice: int = 0


class RoundFinished(BaseEvent, frozen=True, gc=True, tag="round_finished"):
    """The end of a round: all its calls have results. ``update`` is the ThreadUpdate, None without calls."""

    type: ClassVar[Literal["round_finished"]] = "round_finished"
    round: int
    update: Any = None
    choice: int = 0


class RunEnded(BaseEvent, frozen=True, gc=False, tag="run_ended"):
    """The end of a run, its last event.

    Attributes:
        ended: the reason (``Run.ended``).
        error: the error of the turn that ended it, if one did.
        pending: the calls that await approval or their results, in call order.
        finish: the finish of the last turn; None if it has none.
        usage: the tokens of all turns; None if none was reported.
        cost: what they have cost; None without ``Budget.price``.
    """

    type: ClassVar[Literal["run_ended"]] = "run_ended"
    ended: Ended
    error: StreamError | None = None
    pending: tuple[ToolCall, ...] = ()
    finish: Finish | None = None
    usage: Usage | None = None
    cost: float | None = None
    choice: int = 0


ToolEvent: TypeAlias = (
    ToolRunning
    | ToolProgress
    | ToolAwaitingApproval
    | ToolAwaitingResult
    | ToolCompleted
    | ToolError
    | ToolDenied
    | ToolTimedOut
    | ToolCanceled
    | RoundStarted
    | RoundFinished
    | RunEnded
)
Event: TypeAlias = TurnEvent | ToolEvent


def check_event(event: object) -> None:
    """Reject what is no event, most often the list of them that ``Turn.feed`` returns.

    Raises:
        UsageError: with what to pass instead.
    """
    if not isinstance(event, BaseEvent):
        raise UsageError(f"one event is expected, not {type(event).__name__}: for event in turn.feed(data): ...")


def to_json(event: Event, *, public: bool = False) -> bytes:
    """Encode an event as one line of JSON, ``type`` first.

    ``from_json`` restores an equal event, with these exceptions. Values that tools return or servers send, and that
    JSON lacks, become data: tuples and sets lists, bytes base64, dates and decimals text, NaN and the infinities their
    names, integers of more than 4300 digits and keys text, other objects their text. ``ToolResult.exception`` is left
    out, and the provider's own forms: ``File.raw`` and ``ServerTool.raw``, whose data the event has
    anyway, and ``ResponseStarted.metadata``, in which OpenAI repeats the instructions and tools of the request.

    Args:
        event: the event.
        public: write it for the people who use a front end. Signatures, the provider's own data and messages, and the
            texts of exceptions, warnings and the provider's errors are left out, with a neutral sentence where one is
            needed. What tools get and return is not; of an exception in it the type is written.
    """
    return (_PUBLIC_JSON if public else _JSON).encode(event)


def from_json(data: bytes | str) -> Event:
    """Decode an event that ``to_json`` encoded.

    A newer version may have written it: an event of a type that this version lacks is ``Unknown`` with the object, and
    further fields are ignored. A value that a field cannot have is an error: what ends a turn or a run must not be
    taken for something to skip.

    Args:
        data: one line of JSON.

    Raises:
        msgspec.ValidationError: the JSON is not an event: no object with a ``type``, or one with other fields.
        ValueError: the data is not JSON.
    """
    event: Event | dict[str, Any] = _JSON.decode(data)
    if isinstance(event, dict):
        choice = event.get("choice")
        return Unknown(event, choice if choice.__class__ is int else 0)
    if isinstance(event, ToolProgress) and isinstance(event.value, dict):
        kind = _PROGRESS.get(str(event.value.get("type")))
        if kind is not None and event.value.keys() == {"type", *kind.__struct_fields__}:
            return msgspec.structs.replace(event, value=msgspec.convert(event.value, kind))
    if isinstance(event, RoundFinished) and event.update is not None and _decode_update is not None:
        return msgspec.structs.replace(event, update=_decode_update(event.update))
    return event


def set_update_decoder(decode: Callable[[Any], Any]) -> None:
    """Set the function that restores the ``update`` of a ``RoundFinished`` from its data.

    The package itself calls this: the class of the updates is in ``execution``, which depends on this module.
    """
    global _decode_update
    _decode_update = decode


_decode_update: Callable[[Any], Any] | None = None
_PROGRESS: Final[dict[str, type[PreliminaryResult | UiData | StatePatch]]] = {
    "preliminary_result": PreliminaryResult,
    "ui_data": UiData,
    "state_patch": StatePatch,
}
_PLAIN: Final[frozenset[type]] = frozenset(
    {BlockStarted, Text, Reasoning, Refusal, ToolCallDelta, ToolCallEnd, ArgumentsRestated, File, Warned}
    | {ToolRunning, ToolAwaitingResult, RoundStarted}
)
_JSON = TaggedJson(
    Event,
    plain=_PLAIN,
    replaced={File: {"raw": None}, ServerTool: {"raw": None}, ResponseStarted: {"metadata": {}}},
    dropped={ToolResult: ("exception",)},
)

#: Of each event, and of each value inside one: the fields that a public line has, and those that it lacks.
_FIELDS: Final[dict[type[Struct], tuple[str, str]]] = {
    ResponseStarted: ("response_id model choice provider", "metadata requested_model"),
    BlockStarted: ("kind block choice", ""),
    Text: ("text block choice", ""),
    Reasoning: ("text kind block choice", ""),
    Refusal: ("text block choice", ""),
    BlockEnded: ("kind block choice", "signature metadata"),
    ToolCallStart: ("call choice namespace", "metadata"),
    ToolCallDelta: ("call arguments_delta choice", ""),
    ToolCallEnd: ("call choice", ""),
    ToolCallReady: ("call choice", ""),
    ArgumentsRestated: ("call arguments_text choice", ""),
    ServerTool: ("id name phase choice", "data raw"),
    Citation: ("url title cited_text start end block choice", "data"),
    Compaction: ("choice", "summary raw"),
    File: ("media_type data url choice", "raw"),
    UsageReport: ("usage choice", ""),
    Finished: ("reason choice", "raw metadata"),
    Warned: ("code message choice", ""),
    Failed: ("error choice", ""),
    LogProbabilities: ("tokens choice", "raw"),
    Unknown: ("choice is_block", "raw"),
    ToolRunning: ("call choice", ""),
    ToolProgress: ("call value choice", ""),
    ToolAwaitingApproval: ("call description choice", ""),
    ToolAwaitingResult: ("call choice", ""),
    ToolCompleted: ("call result choice", ""),
    ToolError: ("call result choice cause", ""),
    ToolDenied: ("call result choice", ""),
    ToolTimedOut: ("call result choice", ""),
    ToolCanceled: ("call result choice", ""),
    RoundStarted: ("round choice", ""),
    RoundFinished: ("round choice", "update"),
    RunEnded: ("ended error pending choice finish usage cost", ""),
    ToolCall: ("id name index kind arguments arguments_text partial state ended", "raw_id message metadata warnings"),
    ToolResult: ("call status value error cause", "metadata exception"),
    StreamError: ("kind message code status retry_after limit requested", "raw"),
    Usage: ("input_tokens output_tokens reasoning_tokens cache_read_tokens cache_write_tokens", "raw"),
    StreamWarning: ("code call_id", "message"),
    Finish: ("reason", "raw"),
    CallRef: ("id name index kind", ""),
    TokenLogProbability: ("token logprob alternatives", ""),
    PreliminaryResult: ("value", ""),
    UiData: ("name data id transient", ""),
    StatePatch: ("operations", ""),
}
check_total("streamkit.events._FIELDS", _FIELDS, get_args(Event))
for _kind, _fields in _FIELDS.items():
    check_total(f"streamkit.events._FIELDS[{_kind.__name__}]", " ".join(_fields).split(), _kind.__struct_fields__)

#: What people read in place of an error's message that has the text of an exception, or is the provider's.
_SENTENCES: Final = {
    "provider_error": "the provider reported an error",
    "protocol_error": "the response could not be read",
    "transport_error": "the connection to the provider failed",
}


def _public_error(error: StreamError) -> StreamError:
    return msgspec.structs.replace(error, message=_SENTENCES.get(error.kind, error.message))


def _public_warning(warning: Warned) -> Warned:
    return Warned(warning.code, "", warning.choice)


def _public_result(result: ToolResult) -> ToolResult:
    is_private = result.cause == "raised"
    return msgspec.structs.replace(result, error=f"{result.call.name} failed.") if is_private else result


_PUBLIC_JSON = TaggedJson(
    Event,
    plain=_PLAIN - {File, Warned},
    replaced={},
    dropped={kind: tuple(hidden.split()) for kind, (_, hidden) in _FIELDS.items() if hidden},
    rewritten={StreamError: _public_error, ToolResult: _public_result, Warned: _public_warning},
    hides_exceptions=True,
)
