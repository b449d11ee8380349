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
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from streamkit.calls import (
    CallRef,
    Ended,
    FinishReason,
    NormalizedToolChunk,
    StreamError,
    TokenLogProbability,
    ToolCall,
    ToolResult,
    Usage,
)
from streamkit.errors import UsageError
from streamkit.values.json_data import TaggedJson

__all__ = [
    "ArgumentsRestated",
    "BlockEnded",
    "BlockStarted",
    "Citation",
    "Event",
    "Failed",
    "File",
    "Finished",
    "LogProbabilities",
    "NormalizedToolChunk",
    "Reasoning",
    "ReasoningKind",
    "Refusal",
    "ResponseStarted",
    "RoundFinished",
    "RoundStarted",
    "RunEnded",
    "ServerTool",
    "ServerToolPhase",
    "Text",
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
    "Unknown",
    "UsageReport",
    "Warned",
    "check_event",
    "from_json",
    "to_json",
]

ReasoningKind = Literal["text", "summary", "plan"]
TextKind = Literal["text", "reasoning", "refusal"]
ServerToolPhase = Literal["started", "arguments", "result"]


class _Event(Struct, frozen=True, gc=False, tag_field="type"):
    # Events of a turn have plain data, which is in no reference cycle. Those with what a tool returned or raised may be
    # in one (a traceback, its frames, the executor, its queue, the event) and are seen by the garbage collector.
    pass


class _OfCall(_Event, frozen=True, gc=False, tag_field="type"):
    call: CallRef
    choice: int = 0


class _ToolOutcome(_Event, frozen=True, gc=True, tag_field="type"):
    call: CallRef
    result: ToolResult
    choice: int = 0


class ResponseStarted(_Event, frozen=True, gc=False, tag="response_started"):
    """The beginning of the response: its id and model, as far as the wire has named them.

    Emitted at most once, as soon as the wire names one of them, at the latest before the first content or ``Finished``.
    ``provider`` is the name that the turn was given. ``metadata`` are the other facts about the response that the wire
    has named so far, by the provider's names: a writer of the same wire writes them again, and no other one does.
    ``to_json`` leaves them out, because OpenAI's repeat the instructions and tools of the request.
    """

    type: ClassVar[Literal["response_started"]] = "response_started"
    response_id: str | None = None
    model: str | None = None
    choice: int = 0
    provider: str | None = None
    metadata: dict[str, Any] = {}


class BlockStarted(_Event, frozen=True, gc=False, tag="block_started"):
    """The start of a block of text, reasoning or refusal; calls have ``ToolCallStart``.

    ``block`` is its number: the blocks of a choice (calls, server tools and files as well) count from 0 in order of
    start, which is their order in ``turn.content``. Blocks may alternate: the deltas and the end have the number.
    """

    type: ClassVar[Literal["block_started"]] = "block_started"
    kind: TextKind
    block: int = 0
    choice: int = 0


class Text(_Event, frozen=True, gc=False, tag="text"):
    """An increment of the response's text; ``block`` is the number of its block (``BlockStarted``)."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    block: int = 0
    choice: int = 0


class Reasoning(_Event, frozen=True, gc=False, tag="reasoning"):
    """An increment of the model's reasoning; ``kind`` is ``text``, ``summary`` or ``plan``."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    kind: ReasoningKind = "text"
    block: int = 0
    choice: int = 0


class Refusal(_Event, frozen=True, gc=False, tag="refusal"):
    """An increment of a refusal. It is not part of the text."""

    type: ClassVar[Literal["refusal"]] = "refusal"
    text: str
    block: int = 0
    choice: int = 0


class BlockEnded(_Event, frozen=True, gc=False, tag="block_ended"):
    """The end of a block of text, reasoning or refusal; calls have ``ToolCallEnd``.

    Emitted once for each ``BlockStarted``. ``signature`` is the provider's signature of the block, ``metadata`` its
    other opaque state, both for replay.
    """

    type: ClassVar[Literal["block_ended"]] = "block_ended"
    kind: TextKind
    block: int = 0
    signature: str | None = None
    metadata: dict[str, Any] = {}
    choice: int = 0


class ToolCallStart(_OfCall, frozen=True, gc=False, tag="tool_call_start"):
    """The start of a call. Its name is complete and its id final.

    ``namespace`` is the group of tools that its tool belongs to, where the provider has such groups (Responses).
    ``metadata`` are the other fields that the start of the call has, by the provider's names (``caller``).
    """

    type: ClassVar[Literal["tool_call_start"]] = "tool_call_start"
    namespace: str | None = None
    metadata: dict[str, Any] = {}


class ToolCallDelta(_Event, frozen=True, gc=False, tag="tool_call_delta"):
    """An increment of a call's argument text."""

    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"
    call: CallRef
    arguments_delta: str
    choice: int = 0


class ToolCallEnd(_OfCall, frozen=True, gc=False, tag="tool_call_end"):
    """The end of a call: the wire reported it, or the turn ended."""

    type: ClassVar[Literal["tool_call_end"]] = "tool_call_end"


class ToolCallReady(_Event, frozen=True, gc=False, tag="tool_call_ready"):
    """A call in its final state. Emitted once for each call; nothing but metadata is added to the call afterwards.

    It is no permission to run the call: the turn may still fail. See docs/rules.md, "Ready calls".
    """

    type: ClassVar[Literal["tool_call_ready"]] = "tool_call_ready"
    call: ToolCall
    choice: int = 0


class ArgumentsRestated(_Event, frozen=True, gc=False, tag="arguments_restated"):
    """The call's argument text, which replaces the joined deltas."""

    type: ClassVar[Literal["arguments_restated"]] = "arguments_restated"
    call: CallRef
    arguments_text: str
    choice: int = 0


class ServerTool(_Event, frozen=True, gc=False, tag="server_tool"):
    """A tool that the provider runs itself: it started, received arguments, or has a result.

    With the phase ``started``, ``data`` has further fields of the provider's block, if it has any. With the phase
    ``arguments``, it is the next text of the arguments while the wire streams them (a ``str``).
    The last event of that phase has the complete arguments, parsed if they are JSON.
    ``raw`` is the provider's own block of it, where that is complete: the last arguments, or the result. ``to_json``
    leaves it out: it has the data again.
    """

    type: ClassVar[Literal["server_tool"]] = "server_tool"
    id: str | None
    name: str
    phase: ServerToolPhase
    data: Any = None
    choice: int = 0
    raw: Any = None


class Citation(_Event, frozen=True, gc=False, tag="citation"):
    """A source of the response, in the provider's own form."""

    type: ClassVar[Literal["citation"]] = "citation"
    data: Any
    choice: int = 0


class File(_Event, frozen=True, gc=False, tag="file"):
    """An image, audio or other file that the model generated: base64 in ``data``, or an address in ``url``.

    ``raw`` is the provider's own part, for a writer of the same wire. ``to_json`` leaves it out: it has the data again.
    """

    type: ClassVar[Literal["file"]] = "file"
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    choice: int = 0
    raw: Any = None


class UsageReport(_Event, frozen=True, gc=False, tag="usage_report"):
    """The tokens counted so far. A later report replaces an earlier one; they are not summed."""

    type: ClassVar[Literal["usage_report"]] = "usage_report"
    usage: Usage
    choice: int = 0


class Finished(_Event, frozen=True, gc=False, tag="finished"):
    """The finish of a choice, when the turn is closed; once for each choice whose end the provider reported.

    It may follow ``Failed``: a provider may send a finish besides its error. ``Turn.error`` decides about the turn.
    ``metadata`` is ``Turn.metadata``: all facts about the response that no other event has, by the provider's names.
    """

    type: ClassVar[Literal["finished"]] = "finished"
    reason: FinishReason
    raw: str | int | None = None
    choice: int = 0
    metadata: dict[str, Any] = {}


class Warned(_Event, frozen=True, gc=False, tag="warned"):
    """An irregularity that did not end the turn."""

    type: ClassVar[Literal["warned"]] = "warned"
    code: str
    message: str
    choice: int = 0


class Failed(_Event, frozen=True, gc=False, tag="failed"):
    """The turn's error. The content before it stays readable."""

    type: ClassVar[Literal["failed"]] = "failed"
    error: StreamError
    choice: int = 0


class LogProbabilities(_Event, frozen=True, gc=False, tag="log_probabilities"):
    """The log probabilities of the next tokens, if the request asked for them; ``raw`` is the wire's own form.

    ``tokens`` is empty if the wire's form does not separate them.
    """

    type: ClassVar[Literal["log_probabilities"]] = "log_probabilities"
    tokens: tuple[TokenLogProbability, ...] = ()
    raw: Any = None
    choice: int = 0


class Unknown(_Event, frozen=True, gc=False, tag="unknown"):
    """Input without an event of its own, unchanged: a chunk, or a complete block of the response (``is_block``).

    Also an event of a newer version that ``from_json`` has read.
    """

    type: ClassVar[Literal["unknown"]] = "unknown"
    raw: Any
    choice: int = 0
    is_block: bool = False


TurnEvent: TypeAlias = (
    ResponseStarted
    | Text
    | Reasoning
    | Refusal
    | BlockStarted
    | BlockEnded
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | ToolCallReady
    | ArgumentsRestated
    | ServerTool
    | Citation
    | File
    | UsageReport
    | Finished
    | Warned
    | Failed
    | LogProbabilities
    | Unknown
)


class ToolRunning(_OfCall, frozen=True, gc=False, tag="tool_running"):
    """The start of a tool."""

    type: ClassVar[Literal["tool_running"]] = "tool_running"


class ToolProgress(_Event, frozen=True, gc=True, tag="tool_progress"):
    """The progress that a tool reported; for the caller only, never sent to the model."""

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    call: CallRef
    value: Any
    choice: int = 0


class ToolAwaitingApproval(_OfCall, frozen=True, gc=False, tag="tool_awaiting_approval"):
    """A call that runs only after a person's decision, which has not been made."""

    type: ClassVar[Literal["tool_awaiting_approval"]] = "tool_awaiting_approval"


class ToolAwaitingResult(_OfCall, frozen=True, gc=False, tag="tool_awaiting_result"):
    """A call that no tool of the program runs: its result is passed when the run is resumed."""

    type: ClassVar[Literal["tool_awaiting_result"]] = "tool_awaiting_result"


class ToolCompleted(_ToolOutcome, frozen=True, gc=True, tag="tool_completed"):
    """The result of a tool that returned."""

    type: ClassVar[Literal["tool_completed"]] = "tool_completed"


class ToolError(_ToolOutcome, frozen=True, gc=True, tag="tool_error"):
    """The result of a call that failed: an unknown tool, invalid arguments, an exception."""

    type: ClassVar[Literal["tool_error"]] = "tool_error"


class ToolDenied(_ToolOutcome, frozen=True, gc=True, tag="tool_denied"):
    """The result of a call that was not allowed to run."""

    type: ClassVar[Literal["tool_denied"]] = "tool_denied"


class ToolTimedOut(_ToolOutcome, frozen=True, gc=True, tag="tool_timed_out"):
    """The result of a tool that exceeded its timeout."""

    type: ClassVar[Literal["tool_timed_out"]] = "tool_timed_out"


class ToolCanceled(_ToolOutcome, frozen=True, gc=True, tag="tool_canceled"):
    """The result of a call that was canceled, before or while it ran."""

    type: ClassVar[Literal["tool_canceled"]] = "tool_canceled"


class RoundStarted(_Event, frozen=True, gc=False, tag="round_started"):
    """The start of a round: the model is requested. Rounds count from 0."""

    type: ClassVar[Literal["round_started"]] = "round_started"
    round: int
    choice: int = 0


class RoundFinished(_Event, frozen=True, gc=True, tag="round_finished"):
    """The end of a round: all its calls have results. ``update`` is the ThreadUpdate, None without calls."""

    type: ClassVar[Literal["round_finished"]] = "round_finished"
    round: int
    update: Any = None
    choice: int = 0


class RunEnded(_Event, frozen=True, gc=False, tag="run_ended"):
    """The end of a run, its last event.

    Attributes:
        ended: the reason (``Run.ended``).
        error: the error of the turn that ended it, if one did.
        pending: the calls that await approval or their results, in call order.
    """

    type: ClassVar[Literal["run_ended"]] = "run_ended"
    ended: Ended
    error: StreamError | None = None
    pending: tuple[ToolCall, ...] = ()
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
    if not isinstance(event, _Event):
        raise UsageError(f"one event is expected, not {type(event).__name__}: for event in turn.feed(data): ...")


def to_json(event: Event) -> bytes:
    """Encode an event as one line of JSON, ``type`` first.

    ``from_json`` restores an equal event, with these exceptions. Values that tools return or servers send, and that
    JSON lacks, become data: tuples and sets lists, bytes base64, dates and decimals text, NaN and the infinities their
    names, integers of more than 4300 digits and keys text, other objects their text. ``ToolResult.exception`` is left
    out, and what only a writer of the same wire reads: ``File.raw`` and ``ServerTool.raw``, whose data the event has
    anyway, and ``ResponseStarted.metadata``, in which OpenAI repeats the instructions and tools of the request.
    """
    return _JSON.encode(event)


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
_JSON = TaggedJson(
    Event,
    plain={BlockStarted, Text, Reasoning, Refusal, ToolCallDelta, ToolCallEnd, ArgumentsRestated, File, Warned}
    | {ToolRunning, ToolAwaitingApproval, ToolAwaitingResult, RoundStarted},
    replaced={File: {"raw": None}, ServerTool: {"raw": None}, ResponseStarted: {"metadata": {}}},
    dropped={ToolResult: ("exception",)},
)
