"""The events of a turn, and the base of all events. Import them from ``streamkit.events``.

The module must not depend on parsers, the accumulator or execution.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from streamkit.calls import CallRef, FinishReason, StreamError, TokenLogProbability, ToolCall, Usage

__all__ = [
    "ArgumentsRestated",
    "BaseEvent",
    "BlockEnded",
    "BlockStarted",
    "Citation",
    "Compaction",
    "Failed",
    "File",
    "Finished",
    "LogProbabilities",
    "OfCall",
    "Reasoning",
    "ReasoningKind",
    "Refusal",
    "ResponseStarted",
    "ServerTool",
    "ServerToolPhase",
    "Text",
    "TextKind",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallReady",
    "ToolCallStart",
    "TurnEvent",
    "Unknown",
    "UsageReport",
    "Warned",
]

ReasoningKind = Literal["text", "summary", "plan"]
TextKind = Literal["text", "reasoning", "refusal"]
ServerToolPhase = Literal["started", "arguments", "result"]


class BaseEvent(Struct, frozen=True, gc=False, tag_field="type"):
    """The base of all events.

    Those of a turn have plain data, which is in no reference cycle. Those with what a tool returned or raised may be in
    one (a traceback, its frames, the executor, its queue, the event) and are seen by the garbage collector.
    """


class OfCall(BaseEvent, frozen=True, gc=False, tag_field="type"):
    """The base of events that are about a call and have nothing else."""

    call: CallRef
    choice: int = 0


class ResponseStarted(BaseEvent, frozen=True, gc=False, tag="response_started"):
    """The beginning of the response: its id and model, as far as the wire has named them.

    Emitted at most once, as soon as the wire names one of them, at the latest before the first content or ``Finished``.
    ``provider`` is the name that the turn was given. ``metadata`` are the other facts about the response that the wire
    has named so far, by the provider's names: a writer of the same wire writes them again, and no other one does.
    ``to_json`` leaves them out, because OpenAI's repeat the instructions and tools of the request. ``requested_model``
    is ``Turn(model=)``: with ``model`` it decides to which model opaque state of the response goes back.
    """

    type: ClassVar[Literal["response_started"]] = "response_started"
    response_id: str | None = None
    model: str | None = None
    choice: int = 0
    provider: str | None = None
    metadata: dict[str, Any] = {}
    requested_model: str | None = None


class BlockStarted(BaseEvent, frozen=True, gc=False, tag="block_started"):
    """The start of a block of text, reasoning or refusal; calls have ``ToolCallStart``.

    ``block`` is its number: the blocks of a choice (calls, server tools and files as well) count from 0 in order of
    start, which is their order in ``turn.content``. Blocks may alternate: the deltas and the end have the number.
    """

    type: ClassVar[Literal["block_started"]] = "block_started"
    kind: TextKind
    block: int = 0
    choice: int = 0


class Text(BaseEvent, frozen=True, gc=False, tag="text"):
    """An increment of the response's text; ``block`` is the number of its block (``BlockStarted``)."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    block: int = 0
    choice: int = 0


class Reasoning(BaseEvent, frozen=True, gc=False, tag="reasoning"):
    """An increment of the model's reasoning; ``kind`` is ``text``, ``summary`` or ``plan``."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    kind: ReasoningKind = "text"
    block: int = 0
    choice: int = 0


class Refusal(BaseEvent, frozen=True, gc=False, tag="refusal"):
    """An increment of a refusal. It is not part of the text."""

    type: ClassVar[Literal["refusal"]] = "refusal"
    text: str
    block: int = 0
    choice: int = 0


class BlockEnded(BaseEvent, frozen=True, gc=False, tag="block_ended"):
    """The end of a block of text, reasoning or refusal; calls have ``ToolCallEnd``.

    Emitted once for each ``BlockStarted``. ``signature`` is the provider's signature of the block, ``metadata`` its
    other opaque state, both for replay. Reasoning that an interrupted turn cut off has neither: half of one is refused.
    """

    type: ClassVar[Literal["block_ended"]] = "block_ended"
    kind: TextKind
    block: int = 0
    signature: str | None = None
    metadata: dict[str, Any] = {}
    choice: int = 0


class ToolCallStart(OfCall, frozen=True, gc=False, tag="tool_call_start"):
    """The start of a call. Its name is complete and its id final.

    ``namespace`` is the group of tools that its tool belongs to, where the provider has such groups (Responses).
    ``metadata`` are the other fields that the start of the call has, by the provider's names (``caller``).
    """

    type: ClassVar[Literal["tool_call_start"]] = "tool_call_start"
    namespace: str | None = None
    metadata: dict[str, Any] = {}


class ToolCallDelta(BaseEvent, frozen=True, gc=False, tag="tool_call_delta"):
    """An increment of a call's argument text."""

    type: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"
    call: CallRef
    arguments_delta: str
    choice: int = 0


class ToolCallEnd(OfCall, frozen=True, gc=False, tag="tool_call_end"):
    """The end of a call: the wire reported it, or its state is decided. ``ToolCallReady`` follows at once or later."""

    type: ClassVar[Literal["tool_call_end"]] = "tool_call_end"


class ToolCallReady(BaseEvent, frozen=True, gc=False, tag="tool_call_ready"):
    """A call in its final state. Emitted once for each call; nothing but metadata is added to the call afterwards.

    It is no permission to run the call: the turn may still fail. See docs/rules.md, "Ready calls".
    """

    type: ClassVar[Literal["tool_call_ready"]] = "tool_call_ready"
    call: ToolCall
    choice: int = 0


class ArgumentsRestated(BaseEvent, frozen=True, gc=False, tag="arguments_restated"):
    """The call's argument text, which replaces the joined deltas."""

    type: ClassVar[Literal["arguments_restated"]] = "arguments_restated"
    call: CallRef
    arguments_text: str
    choice: int = 0


class ServerTool(BaseEvent, frozen=True, gc=False, tag="server_tool"):
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


class Citation(BaseEvent, frozen=True, gc=False, tag="citation"):
    """A source of the response.

    Attributes:
        url: its address.
        title: its title.
        cited_text: the text that the citation is about: of the source (Anthropic, Converse) or of the response.
        start: where the supported text begins in the text of ``block``, in characters; None if the provider does not
            report it. A place in the source is in ``data`` alone.
        end: where it ends; None with ``start``.
        data: the citation in the provider's own form. If that has several sources, the first event has it.
        block: the number of the block that the source supports; None before any text.
    """

    type: ClassVar[Literal["citation"]] = "citation"
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    data: Any = None
    block: int | None = None
    choice: int = 0


class Compaction(BaseEvent, frozen=True, gc=False, tag="compaction"):
    """The provider has replaced the conversation before it by a summary, which only the provider reads again.

    ``summary`` is its text, None where it is encrypted. ``raw`` is the provider's own block, which ``turn.content``
    keeps for the next request.
    """

    type: ClassVar[Literal["compaction"]] = "compaction"
    summary: str | None = None
    raw: Any = None
    choice: int = 0


class File(BaseEvent, frozen=True, gc=False, tag="file"):
    """An image, audio or other file that the model generated: base64 in ``data``, or an address in ``url``.

    ``raw`` is the provider's own part. ``to_json`` leaves it out: it has the data again.
    """

    type: ClassVar[Literal["file"]] = "file"
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    choice: int = 0
    raw: Any = None


class UsageReport(BaseEvent, frozen=True, gc=False, tag="usage_report"):
    """The tokens counted so far. A later report replaces an earlier one; they are not summed."""

    type: ClassVar[Literal["usage_report"]] = "usage_report"
    usage: Usage
    choice: int = 0


class Finished(BaseEvent, frozen=True, gc=False, tag="finished"):
    """The finish of a choice, when the turn is closed; once for each choice whose end the provider reported.

    It may follow ``Failed``: a provider may send a finish besides its error. ``Turn.error`` decides about the turn.
    ``metadata`` is ``Turn.metadata``: all facts about the response that no other event has, by the provider's names.
    """

    type: ClassVar[Literal["finished"]] = "finished"
    reason: FinishReason
    raw: str | int | None = None
    choice: int = 0
    metadata: dict[str, Any] = {}


class Warned(BaseEvent, frozen=True, gc=False, tag="warned"):
    """An irregularity that did not end the turn."""

    type: ClassVar[Literal["warned"]] = "warned"
    code: str
    message: str
    choice: int = 0


class Failed(BaseEvent, frozen=True, gc=False, tag="failed"):
    """The turn's error. The content before it stays readable."""

    type: ClassVar[Literal["failed"]] = "failed"
    error: StreamError
    choice: int = 0


class LogProbabilities(BaseEvent, frozen=True, gc=False, tag="log_probabilities"):
    """The log probabilities of the next tokens, if the request asked for them; ``raw`` is the wire's own form.

    ``tokens`` is empty if the wire's form does not separate them.
    """

    type: ClassVar[Literal["log_probabilities"]] = "log_probabilities"
    tokens: tuple[TokenLogProbability, ...] = ()
    raw: Any = None
    choice: int = 0


class Unknown(BaseEvent, frozen=True, gc=False, tag="unknown"):
    """Input without an event of its own, unchanged: a chunk, or a complete block of the response (``is_block``).

    Also an event of a newer version that ``from_json`` has read.
    """

    type: ClassVar[Literal["unknown"]] = "unknown"
    raw: Any = None
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
    | Compaction
    | File
    | UsageReport
    | Finished
    | Warned
    | Failed
    | LogProbabilities
    | Unknown
)
