"""The base of every provider's writer: events of a turn to the bytes that the provider would have streamed.

The rules of docs/rules.md, "Writing a stream":

- ``write`` never raises for what an event contains and never holds back what the wire can express already.
- The finish, the usage and the error are written by ``close``: only then is it known that nothing follows them.
- A call that is not complete never becomes complete: where a wire has whole calls alone, it is left out.
- What the wire has no form for is left out, with a sentence in ``omitted``.

A provider's ``writer.py`` has a subclass with the shapes of its wire. This module must not depend on any provider, nor
on history, a clock or randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, get_args

from streamkit.calls import CLIENT_TOOL, CallRef, Finish, StreamError, ToolCall
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Citation,
    Compaction,
    Event,
    Failed,
    File,
    Finished,
    LogProbabilities,
    Reasoning,
    Refusal,
    ResponseStarted,
    ServerTool,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
    ToolEvent,
    Unknown,
    UsageReport,
    Warned,
    check_event,
)
from streamkit.finishes import finish_row
from streamkit.ids import TargetIds
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import encode_json
from streamkit.providers.writing.wire_output import LONGEST_REPEATED, ServerToolCall, WireOutput, WriterOptions
from streamkit.values.total_tables import check_total

__all__ = ["EVENT_ROWS", "EventRow", "Writer"]

_TRUNCATED = StreamError("stream_truncated", "the stream ended before the response was complete")

_FAILED = StreamError("provider_error", "the model stopped before the end of its response", status=500)


class Writer(WireOutput):
    """A writer of one response: events in, bytes of one provider's wire out.

    Use ``streamkit.writer`` to make one. It writes the events of one choice: the first that has content.

    Attributes:
        omitted: a sentence for each kind of thing that was left out or could not be expressed, by its kind.
    """

    #: Whether the wire has custom calls; elsewhere their text is an object with the text ``input``.
    has_custom_calls: bool = False
    #: The metadata of a call that the wire has a field for.
    call_state: ClassVar[frozenset[str]] = frozenset()
    #: Whether the wire has calls without an id.
    has_calls_without_id: ClassVar[bool] = False

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._has_begun = False
        self._is_closed = False
        self._choice: int | None = None
        self._ids = TargetIds(traits.id_rule)
        self._calls: dict[str, CallText] = {}
        self._server_tools: dict[str | None, ServerToolCall] = {}

    # ------------------------------------------------------------ the public methods

    def write(self, event: Event) -> bytes:
        """Return the bytes that an event adds to the stream, ``b""`` if it adds none.

        Args:
            event: an event of a turn, in the turn's order. Warnings and the events of execution are not part of a
                response and add nothing, nor does anything after ``close``.

        Raises:
            UsageError: it is no event.
        """
        row = EVENT_ROWS.get(event.__class__)
        if row is None or self._is_closed:
            check_event(event)
            if event.__class__ not in EVENT_ROWS:
                self.omit("unknown", f"an event of the type {event.type!r} was left out: no writer handles it")
            return b""
        if event.choice == self._choice or self._takes_choice(event, row):
            if row.begins and not self._has_begun:
                self._begin_once()
            self.apply(event, row)
        frames = self._frames
        if not frames:
            return b""
        self._frames = []
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def close(self) -> bytes:
        """Return the end of the stream: finish, usage and terminator, or the error. A second call returns ``b""``.

        Without a finish and an error the stream ends with an error, because the response is not complete. A writer with
        ``stream=False`` returns the whole body.
        """
        return b"".join(self.end_frames())

    def frames(self, event: Event) -> list[bytes]:
        """Return the same as ``write``, frame by frame."""
        row = EVENT_ROWS[event.__class__]
        if row is not None and not self._is_closed and self._takes_choice(event, row):
            if row.begins:
                self._begin_once()
            self.apply(event, row)
        return self._take()

    def end_frames(self) -> list[bytes]:
        """Return the same as ``close``, frame by frame."""
        if self._is_closed:
            return []
        self._begin_once()
        self._end_blocks()
        self._is_closed = True
        if self.error is None and self.finish is None:
            self.error: StreamError | None = _TRUNCATED
        elif self.error is None and self.finish_is_error and not self.has_error_finish and self._chunks is not None:
            self.error = _FAILED
        self.end()
        if self._chunks is None:
            return self._take()
        if self.error is not None:
            status, message, code = self.error_fields(self.error)
            return [encode_json(self.own_error(self.failed_body(status, message, code), self.error))]
        return [encode_json(self.body(self._chunks))]

    def set_own_state(self, metadata: Mapping[str, Any] | None) -> None:
        """Set the provider's own state of the next block, for a content of the same provider; None for none.

        Events have a block's state at its end, and a call's at its end, too. Some wires have it at the start.
        """
        self._own_state = metadata

    def own_block(self, raw: Any, *, is_server_tool: bool = False) -> list[bytes]:
        """Return the frames of a block in the provider's own form, of a content of the same provider."""
        self._begin_once()
        self.provider_block(raw, is_server_tool=is_server_tool)
        return self._take()

    # ------------------------------------------------------------ the events

    def _takes_choice(self, event: Event, row: EventRow) -> bool:
        """Return True if an event is of the choice that is written; the first one with content decides."""
        if event.choice == self._choice or row.scope == "response":
            return True
        if self._choice is None:
            if not (isinstance(event, Citation) and event.block is None):  # it may be beside the choices
                self._choice = event.choice
            return True
        self.omit("other_choice", "the events of all choices but one were left out")
        return False

    def apply(self, event: Event, row: EventRow) -> None:
        """Write an event of the choice, now or later."""
        row.write(self, event)

    def _begin_once(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.begin()

    def _started(self, event: ResponseStarted) -> None:
        if not self._has_begun:
            self.response_id: str | None = self.response_id or (event.response_id or "")[:LONGEST_REPEATED] or None
            self.model: str | None = self.model or (event.model or "")[:LONGEST_REPEATED] or None
            if event.provider is not None and self.traits.is_from_provider({"provider": event.provider}):
                self.metadata: Mapping[str, Any] = event.metadata
            self._begin_once()

    def written_id(self, call_id: str) -> str | None:
        """Return the id that a call has in the output, by its canonical one; None if it has none."""
        call = self._calls.get(call_id)
        return None if call is None else call.id

    def _call_start(self, event: ToolCallStart) -> None:
        call = self._new_call(event.call)
        call.namespace = event.namespace
        call.client_tool = event.metadata.get(CLIENT_TOOL)
        self.start_call(call)

    def _new_call(self, ref: CallRef) -> CallText:
        own = self._own_state
        raw_id = own.get("raw_id") if own is not None else None
        target_id: str | None = raw_id if isinstance(raw_id, str) and raw_id else None
        if target_id is None and (own is None or not self.has_calls_without_id):
            target_id = self._ids.call(ref.id, ref.name)
        call = CallText(ref, target_id, len(self._calls), is_wrapped=not self.has_custom_calls)
        self._calls[ref.id] = call
        return call

    def _call_delta(self, event: ToolCallDelta) -> None:
        call = self._calls.get(event.call.id)
        if call is not None:
            self.add_arguments(call, event.arguments_delta)

    def _call_restated(self, event: ArgumentsRestated) -> None:
        call = self._calls.get(event.call.id)
        if call is not None:
            self.restate_arguments(call, event.arguments_text)

    def _call_end(self, event: ToolCallEnd) -> None:
        call = self._calls.get(event.call.id)
        if call is not None:
            call.ended = True
            self.call_ended(call)

    def _call_ready(self, event: ToolCallReady) -> None:
        call = self._calls.get(event.call.id)
        if call is None:  # the events before it were left out
            call = self._new_call(event.call.ref)
            self.start_call(call)
            self.add_arguments(call, event.call.arguments_text)
        if call.ready is None:
            call.ready = event.call
            self.end_call(call, event.call)
            if self._own_state is None and event.call.metadata.keys() - self.call_state:
                self.omit("call_state", "opaque state of a call was left out: the wire has no field for it")

    def _server_tool(self, event: ServerTool) -> None:
        """Collect the arguments of a server tool: they are written when they are complete."""
        tool = self._server_tools.get(event.id)
        if tool is None or (event.id is None and event.phase == "started"):
            fields = event.data if event.phase == "started" else None
            tool = self._server_tools[event.id] = ServerToolCall(event.id, event.name, fields)
        tool.name = tool.name or event.name
        if event.phase == "arguments" and not tool.is_written:
            if isinstance(event.data, str) and event.data != "".join(tool.parts):
                tool.parts.append(event.data)
            else:
                tool.arguments = event.data
                self._write_server_tool(tool)
        elif event.phase == "result":
            self._write_server_tool(tool)
            self.server_tool_result(tool, event.data)

    def _write_server_tool(self, tool: ServerToolCall) -> None:
        if not tool.is_written:
            tool.is_written = True
            if tool.arguments is None and tool.parts:
                tool.arguments = "".join(tool.parts)
            tool.parts = []
            self.server_tool_call(tool)

    def _end_blocks(self) -> None:
        for call in list(self._calls.values()):
            if call.ready is None:  # the caller did not close the turn
                call.ready = ToolCall(
                    id=call.ref.id,
                    name=call.ref.name,
                    index=call.ref.index,
                    kind=call.ref.kind,
                    arguments_text=call.received,
                )
                self.end_call(call, call.ready)
        if self.end_cut_calls():
            for tool in self._server_tools.values():
                self._write_server_tool(tool)


def _on_block_start(writer: Writer, event: BlockStarted) -> None:
    writer.open_blocks.add(event.block)


def _on_text(writer: Writer, event: Text) -> None:
    writer.block = event.block
    writer.text(event.text)


def _on_reasoning(writer: Writer, event: Reasoning) -> None:
    writer.block = event.block
    writer.reasoning(event.text, event.kind)


def _on_refusal(writer: Writer, event: Refusal) -> None:
    writer.block = event.block
    writer.refusal(event.text)


def _on_block_end(writer: Writer, event: BlockEnded) -> None:
    writer.block = event.block
    writer.end_block(event)
    writer.open_blocks.discard(event.block)


def _on_citation(writer: Writer, event: Citation) -> None:
    if event.data is None and writer.is_own_citation:
        return  # a further source of data that was written
    if event.block is not None:
        writer.block = event.block
    writer.is_own_citation = writer.citation(event)


def _on_compaction(writer: Writer, event: Compaction) -> None:
    if not writer.compaction(event.raw):
        writer.omit("compaction", "the summary of a compaction was left out: only its provider reads it")


def _on_usage(writer: Writer, event: UsageReport) -> None:
    writer.usage = event.usage


def _on_finish(writer: Writer, event: Finished) -> None:
    writer.finish, writer.finish_reason = event, event.reason
    writer.finish_is_error = finish_row(Finish(event.reason)).is_error
    if writer.metadata:  # of this wire
        writer.metadata = {**writer.metadata, **event.metadata}


def _on_error(writer: Writer, event: Failed) -> None:
    if writer.error is None:
        writer.error = event.error


def _on_unknown(writer: Writer, event: Unknown) -> None:
    writer.unknown(event.raw)


@dataclass(frozen=True, slots=True)
class EventRow:
    """What a writer does with one type of event."""

    write: Callable[[Any, Any], None]  #: writes the event
    #: what the event belongs to: the response, one of its choices, one of its calls, or another block
    scope: Literal["response", "choice", "call", "block"] = "block"
    begins: bool = False  #: the response begins with the event at the latest


#: What each event does. None: it is not part of a response, and nothing is written. Warnings concern the reader of the
#: response, the events of ``ToolEvent`` what the program does with it.
EVENT_ROWS: Final[dict[type, EventRow | None]] = {
    ResponseStarted: EventRow(Writer._started, "response"),
    Text: EventRow(_on_text, begins=True),
    Reasoning: EventRow(_on_reasoning, begins=True),
    Refusal: EventRow(_on_refusal, begins=True),
    BlockStarted: EventRow(_on_block_start, "choice"),  # on the wire a block starts with its first delta
    BlockEnded: EventRow(_on_block_end, begins=True),
    ToolCallStart: EventRow(Writer._call_start, "call", begins=True),
    ToolCallDelta: EventRow(Writer._call_delta, "call"),
    ToolCallEnd: EventRow(Writer._call_end, "call"),
    ToolCallReady: EventRow(Writer._call_ready, "call", begins=True),
    ArgumentsRestated: EventRow(Writer._call_restated, "call"),
    ServerTool: EventRow(Writer._server_tool, begins=True),
    Citation: EventRow(_on_citation, begins=True),
    Compaction: EventRow(_on_compaction, "response"),
    File: EventRow(lambda writer, event: writer.file(event), begins=True),
    UsageReport: EventRow(_on_usage, "response"),
    Finished: EventRow(_on_finish, "choice"),
    Warned: None,
    Failed: EventRow(_on_error, "response"),
    LogProbabilities: EventRow(lambda writer, event: writer.log_probabilities(event), begins=True),
    Unknown: EventRow(_on_unknown, "response"),
    **dict.fromkeys(get_args(ToolEvent)),
}
check_total("streamkit.providers.writing.writer.EVENT_ROWS", EVENT_ROWS, get_args(Event))
