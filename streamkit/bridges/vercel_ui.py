"""The chat of npm ``ai`` (versions 5, 6 and 7): events as a UI message stream, and what its page posts as history.

A backend without JavaScript, for ``useChat`` and every other client of ``DefaultChatTransport``. The chunks and what a
client makes of them: ``ui-message-chunks.ts`` and ``process-ui-message-stream.ts`` of
https://github.com/vercel/ai/tree/main/packages/ai/src. Chunks that a version lacks end it in an error, so it gets none.

Rules:

- The page gets what ``events.to_json(public=True)`` has: no text of an exception, no message of a provider.
- A call is ``input-available`` once its turn is confirmed: a page runs its own tools then.
- What the model's provider needs again (signatures, encrypted reasoning, blocks of tools that it ran) travels in
  ``providerMetadata.streamkit``, and comes back with the page's messages. No other opaque value is sent.
- What a page posts is foreign. It may say what it likes about the past, as the model's words are its own to show. It
  decides nothing else: the arguments that run are those of the stored state, and so are the calls that can be answered.

The module is pure: bytes in, bytes out. It must not depend on a web framework.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import msgspec

from streamkit import events
from streamkit.calls import CallRef, Finish, StreamError
from streamkit.errors import StreamkitError, ToolFailed, UsageError
from streamkit.execution.durable.state import AnsweredState, RunState
from streamkit.finishes import finish_row
from streamkit.history.content import Content, FileBlock, ImageBlock, ToolResponseBlock
from streamkit.history.result_parts import result_parts
from streamkit.history.vercel_ui import DATA_OF_PART, INTERRUPTED, STATE, swap_data
from streamkit.json_text import nests_deeper, to_valid_json
from streamkit.providers import parse_messages
from streamkit.tools import Approval
from streamkit.values.media import is_base64, is_url, parse_data_url, to_data_url
from streamkit.values.total_tables import check_total

__all__ = ["HEADERS", "Chat", "InvalidChat", "UiMessageStream", "parse_chat"]

#: The headers of a response with a UI message stream.
HEADERS: Final = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
    "x-vercel-ai-ui-message-stream": "v1",
}
Json = dict[str, Any]
_FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
}
_VALUES = frozenset({"data", "input", "output"})
#: The client finds the schema of a data part by its name in an object, and every object has these.
_DATA_NAME = re.compile(
    r"(?!(?:constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf|streamkit)$)[A-Za-z][\w.-]{0,63}",
    re.ASCII,
)
_NO_CALL = CallRef("", "", 0)
_MAX_DEPTH = 128  # of a posted body: a stored content takes further levels
_READ_PARTS = frozenset(
    {"text", "reasoning", "file", "dynamic-tool", "step-start", "steering-message", f"data-{STATE}"}
)
_NOT_COMPLETED = "No result: the call was not completed."  # as a renderer writes it
_ENCODER = msgspec.json.Encoder().encode


class InvalidChat(StreamkitError, ValueError):
    """A posted body that is no chat, or has what a page may not send. Answer it with status 400 and its text."""


# ---------------------------------------------------------------- events to chunks


class _Part:
    """An open part: text, reasoning, a call, or a call that the provider runs itself."""

    __slots__ = ("delta", "id", "input", "is_run_by_provider", "kind", "metadata", "name", "number", "state")

    def __init__(self, kind: str, id: str, name: str = "") -> None:
        start = f'data: {{"type":"{kind}-delta","{"toolCallId" if kind == "tool-input" else "id"}":'
        end = ',"inputTextDelta":' if kind == "tool-input" else ',"delta":'
        self.delta: bytes = start.encode() + _encode(id) + end.encode()  # the frame of a delta, up to its text
        self.kind: str = kind
        self.id: str = id
        self.name: str = name
        self.is_run_by_provider: bool = False
        self.number: int = 0
        #: Of reasoning its kind, "" until a delta has it. Of a call: ``streaming``, ``ready`` (complete, in a turn that is
        #: not confirmed), ``invalid``, ``available``, ``asked`` (a person), ``ended``.
        self.state: str = ""
        self.input: Any = None
        self.metadata: Json = {}


class UiMessageStream:
    """A run, or a turn, as the UI message stream of one message of the assistant.

    It holds the open part of the response alone, and the addresses of its sources.

    Args:
        message_id: the id of the message: a new one, or ``Chat.continues`` of a run that goes on after answers.
        version: the major version of the page's npm ``ai``.
        on_error: returns the text that the page shows for the error that ended a run (None: the application's own
            exception did). By default it is a general sentence, without the provider's words.
        metadata: returns the ``messageMetadata`` for the end of a run that did not fail: JSON data, or None.

    Raises:
        UsageError: another version.
    """

    def __init__(
        self,
        message_id: str,
        version: Literal[5, 6, 7] = 7,
        *,
        on_error: Callable[[StreamError | None], str] | None = None,
        metadata: Callable[[events.RunEnded], Any] | None = None,
    ) -> None:
        if version not in (5, 6, 7):
            raise UsageError(f"version must be 5, 6 or 7, not {version!r}")
        self._version = version
        self._on_error = on_error or _describe_error
        self._metadata = metadata
        self._out: list[bytes] = []
        self._choice: int | None = None  # whose parts are shown: the first of the round
        self._blocks: dict[int, _Part] = {}  # texts and reasoning
        self._calls: dict[str, _Part] = {}  # of the round, by id
        self._server_calls: dict[str, _Part] = {}  # by the provider's id, or else the name
        self._origin: Json = {}
        self._sources: set[str] = set()
        self._round = self._count = self._number = 0  # the number of parts of the step
        self._is_in_step = self._has_state = self._has_ended = False
        self._error: StreamError | None = None
        self._finish: Finish | None = None
        self._chunk("start", messageId=message_id)

    def write(self, event: events.Event | events.UiData) -> bytes:
        """Return the frames of an event, or of data for the page; ``b""`` if the page gets nothing of it.

        After the end of the run nothing more is written.
        """
        kind = event.__class__
        if (kind is _TEXT or kind is _REASONING) and not self._out:
            part = self._blocks.get(event.block)  # type: ignore[union-attr]
            if part is not None and part.state and event.choice == self._choice:  # type: ignore[union-attr]
                return part.delta + _encode(event.text) + b"}\n\n"  # type: ignore[union-attr]
        if not self._has_ended:
            _WRITERS[kind](self, event)
        return self._take()

    def close(self) -> bytes:
        """Return the last frames: the ends of what is open, the end of the message, and ``[DONE]``.

        Without a ``RunEnded`` the message is complete if its last turn is, and ends in an error otherwise.
        """
        if not self._has_ended:
            self._end("error" if self._finish is None or self._error is not None else "finish", self._error)
        return self._take() + b"data: [DONE]\n\n"

    def _take(self) -> bytes:
        frames = b"".join(self._out)
        self._out.clear()
        return frames

    def _chunk(self, type: str, **fields: Any) -> None:
        """Write a chunk; a field that is None is left out, unless it is a value."""
        sent = {name: value for name, value in fields.items() if value is not None or name in _VALUES}
        chunk = {"type": type, **sent}
        data = _encode(chunk)
        if b'"__proto__"' in data or b'"constructor"' in data:  # a client refuses such a frame as an attack
            data = _encode(_without_prototypes(chunk))
        self._out.append(b"data: " + data + b"\n\n")

    # ------------------------------------------------------------ rounds, texts and reasoning

    def _begin_round(self, event: events.RoundStarted) -> None:
        self._end_step()
        self._round, self._choice, self._error, self._finish = event.round, None, None, None
        self._calls.clear()

    def _begin_response(self, event: events.ResponseStarted) -> None:
        if self._finish is not None:  # the next turn of a program without rounds
            self._begin_round(events.RoundStarted(self._round + 1))
        origin = {"provider": event.provider, "model": event.model, "requested_model": event.requested_model}
        self._origin = {name: value for name, value in origin.items() if value is not None}

    def _start_part(self) -> None:
        """Begin the step, if no part of it has begun."""
        if not self._is_in_step:  # a resumed round with results alone has none
            self._is_in_step = True
            self._chunk("start-step")
        self._number += 1

    def _end_step(self, _: Any = None) -> None:
        for block in list(self._blocks):
            self._end_block(block)
        for call in self._server_calls.values():
            self._make_available(call)
        if self._is_in_step:
            if self._has_state and (self._finish is None or self._error is not None):
                # its provider may not keep a response that it has not completed, and so no item of it
                self._chunk(f"data-{STATE}", id=f"{INTERRUPTED}-{self._round}", data=INTERRUPTED)
            self._chunk("finish-step")
        self._is_in_step = self._has_state = False
        self._number = 0

    def _is_shown(self, choice: int) -> bool:
        """Return True for the choice that the message shows: the first one of the round."""
        if self._choice is None:
            self._choice = choice
        return self._choice == choice

    def _new_id(self) -> str:
        """Return the id of a new part of the message."""
        self._count += 1
        return f"{self._round}-{self._count}"

    def _state(self, **fields: Any) -> Json:
        """Return the ``providerMetadata`` of a part: what made it, and its state."""
        self._has_state = True
        return {STATE: {**self._origin, **{name: value for name, value in fields.items() if value}}}

    def _start_block(self, event: events.BlockStarted | events.BlockEnded | events.Text | Any) -> None:
        if self._is_shown(event.choice) and event.block not in self._blocks:
            self._start_part()
            is_reasoning = "reasoning" in (event.type, getattr(event, "kind", None))
            part = self._blocks[event.block] = _Part("reasoning" if is_reasoning else "text", self._new_id())
            part.state = "" if is_reasoning else "text"
            self._chunk(f"{part.kind}-start", id=part.id)

    def _write_delta(self, event: events.Text | events.Reasoning | events.Refusal) -> None:
        self._start_block(event)
        if self._is_shown(event.choice):
            part = self._blocks[event.block]
            if isinstance(event, events.Reasoning):
                part.state = event.kind
            self._out.append(part.delta + _encode(event.text) + b"}\n\n")

    def _write_block_ended(self, event: events.BlockEnded) -> None:
        if not self._is_shown(event.choice):
            return
        self._start_block(event)
        part = self._blocks[event.block]
        signature, metadata = event.signature, to_valid_json(event.metadata)
        if event.kind == "reasoning":
            if self._error is not None:  # half of a signature is refused
                signature = metadata = None
            kind = "" if part.state == "text" else part.state
            self._end_block(event.block, self._state(kind=kind, signature=signature, metadata=metadata))
        elif signature or metadata or event.kind == "refusal":
            is_refusal = event.kind == "refusal"
            self._end_block(event.block, self._state(refusal=is_refusal, signature=signature, metadata=metadata))
        else:
            self._end_block(event.block)

    def _end_block(self, block: int, state: Json | None = None) -> None:
        part = self._blocks.pop(block)
        self._chunk(f"{part.kind}-end", id=part.id, providerMetadata=state)

    # ------------------------------------------------------------ calls

    def _start_call(self, event: events.ToolCallStart) -> None:
        if self._is_shown(event.choice):
            self._start_part()
            call = self._calls[event.call.id] = _Part("tool-input", event.call.id, event.call.name)
            call.state = "streaming"
            encoding = "text" if event.call.kind == "custom" and self._version > 5 else None
            self._chunk("tool-input-start", toolCallId=call.id, toolName=call.name, inputEncoding=encoding)

    def _write_call_delta(self, event: events.ToolCallDelta) -> None:
        call = self._calls.get(event.call.id)
        if call is not None and call.state == "streaming":
            self._out.append(call.delta + _encode(event.arguments_delta) + b"}\n\n")

    def _restate(self, event: events.ArgumentsRestated) -> None:
        """Write no more deltas of a call: a client cannot replace those that it has, only the whole input."""
        if (call := self._calls.get(event.call.id)) is not None:
            call.state = "restated"

    def _hold_call(self, event: events.ToolCallReady) -> None:
        """Keep a call until the end of its turn: a page runs its tools when their input is available."""
        made = event.call
        if (call := self._calls.get(made.id)) is not None:
            is_complete = made.state == "complete"
            call.state, call.input = ("ready", made.arguments) if is_complete else ("invalid", made.arguments_text)
            call.metadata = {"raw_id": made.raw_id, "metadata": to_valid_json(made.metadata)}

    def _make_available(self, call: _Part) -> None:
        if call.state == "ready":
            call.state = "available"
            self._chunk("tool-input-available", **self._fields(call), input=call.input)

    def _fields(self, call: _Part) -> Json:
        is_run = True if call.is_run_by_provider else None
        state = self._state(**call.metadata)
        return {"toolCallId": call.id, "toolName": call.name, "providerExecuted": is_run, "providerMetadata": state}

    def _confirm(self, event: events.Finished) -> None:
        if self._is_shown(event.choice):
            self._finish = Finish(event.reason, event.raw)
            if self._error is None and finish_row(self._finish).runs_calls:
                for call in self._calls.values():
                    self._make_available(call)

    def _ask(self, event: events.ToolAwaitingApproval) -> None:
        made = event.call
        call = self._calls.get(made.id)
        if call is None:  # its turn was in an earlier response
            call = self._calls[made.id] = _Part("tool-input", made.id, made.name)
            call.state, call.input = "ready", made.arguments
        self._make_available(call)
        if self._version > 5:
            call.state = "asked"
            reason = event.description if self._version > 6 else None
            self._chunk("tool-approval-request", approvalId=made.id, toolCallId=made.id, reason=reason)

    def _run_call(self, event: events.ToolRunning | events.ToolAwaitingResult) -> None:
        if (call := self._calls.get(event.call.id)) is not None:
            self._make_available(call)
            if call.state == "asked":  # and the application has decided
                call.state = "available"
                if self._version > 6:
                    self._chunk("tool-approval-response", approvalId=call.id, approved=True)

    def _write_progress(self, event: events.ToolProgress) -> None:
        call, value = self._calls.get(event.call.id), event.value
        if isinstance(value, events.UiData):
            self._write_data(value)
        elif isinstance(value, events.PreliminaryResult) and (call is None or call.state != "ended"):
            if call is not None:
                self._make_available(call)
            output = _public(event)["value"]["value"]
            self._chunk("tool-output-available", toolCallId=event.call.id, output=output, preliminary=True)

    def _write_data(self, value: events.UiData) -> None:
        if _DATA_NAME.fullmatch(value.name):
            sent = _public(events.ToolProgress(_NO_CALL, value))["value"]
            self._chunk(f"data-{value.name}", id=sent["id"], data=sent["data"], transient=sent["transient"] or None)

    def _write_result(self, event: Any) -> None:
        call, result = self._calls.get(event.call.id), _public(event)["result"]
        is_denied = event.type == "tool_denied" and self._version > 5
        if call is not None and (is_denied or event.type == "tool_completed"):
            self._make_available(call)
        if call is not None and call.state == "ended":
            return
        if is_denied:
            self._chunk("tool-output-denied", toolCallId=event.call.id)
        elif event.type == "tool_completed":
            self._chunk("tool-output-available", toolCallId=event.call.id, output=result["value"])
        else:
            self._fail_call(event.call.id, call, result["error"] or "The call failed.")
        if call is not None:
            call.state = "ended"

    def _fail_call(self, id: str, call: _Part | None, text: str) -> None:
        if call is None or call.state in ("available", "asked"):
            is_run = True if call is not None and call.is_run_by_provider else None
            self._chunk("tool-output-error", toolCallId=id, errorText=text, providerExecuted=is_run)
        else:
            self._chunk("tool-input-error", **self._fields(call), input=call.input, errorText=text)

    # ------------------------------------------------------------ other parts

    def _write_server_tool(self, event: events.ServerTool) -> None:
        if not self._is_shown(event.choice):
            return
        key, data = event.id or event.name, to_valid_json(event.data)
        call = self._server_calls.get(key)
        if call is None:
            self._start_part()
            call = self._server_calls[key] = _Part("tool-input", f"server-{self._new_id()}", event.name)
            call.state, call.is_run_by_provider, call.input, call.number = "streaming", True, {}, self._number
            self._chunk("tool-input-start", toolCallId=call.id, toolName=call.name, providerExecuted=True)
        if event.raw is not None:  # with its place, since other parts may have begun
            raw = [*call.metadata.get("raw", ()), [self._number, to_valid_json(event.raw)]]
            call.metadata = {"id": event.id, "raw": raw}
        if event.phase == "arguments" and event.raw is None and isinstance(data, str):
            call.state = "growing"
            self._out.append(call.delta + _encode(data) + b"}\n\n")
        elif event.phase == "arguments":
            if call.state == "streaming":
                self._out.append(call.delta + _encode(_encode(data).decode()) + b"}\n\n")
            call.state, call.input = "ready", data
        elif event.phase == "result":  # the input has waited: version 5 keeps metadata of an input alone
            state = None
            if call.state == "available":
                state = self._state(id=event.id, raw=call.metadata["raw"][-1:])
            call.state = "ready" if state is None else "available"
            self._make_available(call)
            output = _without_opaque(data)
            fields = {"toolCallId": call.id, "providerExecuted": True, "providerMetadata": state}
            self._chunk("tool-output-available", **fields, output=output)
            del self._server_calls[key]

    def _write_citation(self, event: events.Citation) -> None:
        source = event.url or event.title
        if not source or source in self._sources or not self._is_shown(event.choice):
            return
        self._sources.add(source)
        fields = {"sourceId": f"source-{self._new_id()}", "title": event.title}
        if event.url is None:
            self._chunk("source-document", **fields, mediaType="application/octet-stream")
        elif is_url(event.url):  # no script
            self._chunk("source-url", **fields, url=event.url)

    def _write_file(self, event: events.File) -> None:
        media_type, url = event.media_type or "application/octet-stream", event.url
        if event.data is not None:
            url = f"data:{media_type};base64,{event.data}"
        elif url is None or not is_url(url):
            return
        if self._is_shown(event.choice):
            self._start_part()
            raw = swap_data(to_valid_json(event.raw), event.data, DATA_OF_PART)
            self._chunk("file", mediaType=media_type, url=url, providerMetadata=self._state(raw=raw))

    # ------------------------------------------------------------ the end

    def _fail(self, event: events.Failed) -> None:
        self._error = event.error

    def _end_run(self, event: events.RunEnded) -> None:
        if event.ended == "canceled":
            self._end("abort", None)
        elif event.ended in ("timed_out", "error"):
            self._end("error", event.error or self._error)
        else:
            self._finish = event.finish or self._finish
            self._end("finish", None, event)

    def _end(self, kind: str, error: StreamError | None, run: events.RunEnded | None = None) -> None:
        for call in (*self._calls.values(), *self._server_calls.values()):
            is_open = call.is_run_by_provider or call.state not in ("available", "asked", "ended")
            if is_open or (kind != "finish" and call.state != "ended"):
                self._fail_call(call.id, call, _NOT_COMPLETED)
        self._calls.clear()
        self._server_calls.clear()
        self._end_step()
        if kind == "finish":
            reason = None if self._finish is None else _FINISH_REASONS.get(self._finish.reason)
            metadata = self._metadata(run) if self._metadata is not None and run is not None else None
            self._chunk("finish", finishReason=reason or "other", messageMetadata=metadata)
        elif kind == "abort":
            self._chunk("abort")
        else:
            self._chunk("error", errorText=self._on_error(error))
        self._has_ended = True

    def _ignore(self, event: Any) -> None:
        """Write nothing: the event is not for people, or another one has it."""


_TEXT, _REASONING = events.Text, events.Reasoning
_WRITERS: Final[dict[type, Callable[[UiMessageStream, Any], None]]] = {
    events.ResponseStarted: UiMessageStream._begin_response,
    events.BlockStarted: UiMessageStream._start_block,
    events.Text: UiMessageStream._write_delta,
    events.Reasoning: UiMessageStream._write_delta,
    events.Refusal: UiMessageStream._write_delta,
    events.BlockEnded: UiMessageStream._write_block_ended,
    events.ToolCallStart: UiMessageStream._start_call,
    events.ToolCallDelta: UiMessageStream._write_call_delta,
    events.ToolCallEnd: UiMessageStream._ignore,
    events.ToolCallReady: UiMessageStream._hold_call,
    events.ArgumentsRestated: UiMessageStream._restate,
    events.ServerTool: UiMessageStream._write_server_tool,
    events.Citation: UiMessageStream._write_citation,
    events.Compaction: UiMessageStream._ignore,
    events.File: UiMessageStream._write_file,
    events.UsageReport: UiMessageStream._ignore,
    events.Finished: UiMessageStream._confirm,
    events.Warned: UiMessageStream._ignore,
    events.Failed: UiMessageStream._fail,
    events.LogProbabilities: UiMessageStream._ignore,
    events.Unknown: UiMessageStream._ignore,
    events.ToolRunning: UiMessageStream._run_call,
    events.ToolProgress: UiMessageStream._write_progress,
    events.ToolAwaitingApproval: UiMessageStream._ask,
    events.ToolAwaitingResult: UiMessageStream._run_call,
    events.ToolCompleted: UiMessageStream._write_result,
    events.ToolError: UiMessageStream._write_result,
    events.ToolDenied: UiMessageStream._write_result,
    events.ToolTimedOut: UiMessageStream._write_result,
    events.ToolCanceled: UiMessageStream._write_result,
    events.RoundStarted: UiMessageStream._begin_round,
    events.RoundFinished: UiMessageStream._end_step,
    events.RunEnded: UiMessageStream._end_run,
    events.UiData: UiMessageStream._write_data,
}
check_total("streamkit.bridges.vercel_ui._WRITERS", _WRITERS, (*get_args(events.Event), events.UiData))


def _encode(value: Any) -> bytes:
    try:
        return _ENCODER(value)
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # half of a surrogate pair, which the next delta completes; long integers
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def _public(event: events.Event) -> Json:
    """Return an event as the data that people may get."""
    public: Json = json.loads(events.to_json(event, public=True))
    return public


def _describe_error(error: StreamError | None) -> str:
    return "An error occurred." if error is None else str(_public(events.Failed(error))["error"]["message"])


def _without_prototypes(value: Any) -> Any:
    """Return JSON data without the members that change the prototype of an object in careless JavaScript."""
    if isinstance(value, list):
        return [_without_prototypes(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_prototypes(item)
        for name, item in value.items()
        if name != "__proto__" and not (name == "constructor" and isinstance(item, dict) and "prototype" in item)
    }


def _without_opaque(value: Any) -> Any:
    """Return a result of the provider's tool without what only the provider reads (``encrypted_content``)."""
    if isinstance(value, list):
        return [_without_opaque(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_opaque(item) for name, item in value.items() if not name.startswith("encrypted")}


# ---------------------------------------------------------------- posts to history


@dataclass(frozen=True, slots=True)
class Chat:
    """What a page has posted.

    Attributes:
        id: the id of the chat; None if the page sends none. It is the page's word: check whose chat it is.
        history: the conversation, for a run that starts now.
        continues: the id of the last message if that is the assistant's: the message of a run that waits for answers.
        changes: a sentence for each part of a message that history has no place for.
    """

    id: str | None
    history: list[Content]
    continues: str | None
    changes: list[str]
    _answered: Mapping[str, Json] = field(repr=False)

    def answer(self, state: RunState) -> AnsweredState | None:
        """Return a waiting run with the page's answers to its calls, for ``run_loop(resume=)``; None if it has none.

        An answer counts if the run waits for that one, of a person or of a tool of the page, and if the page shows the
        arguments that the run has. All others are left out. The state must be stored until it is answered and no
        longer, or have a ``checkpoint`` of its run: otherwise an answer that is posted twice runs a call twice.
        """
        approvals: dict[str, Approval] = {}
        results: dict[str, Any] = {}
        for call in state.calls:
            part = self._answered.get(call.id)
            if part is None or not _is_same(part.get("input"), _without_prototypes(call.arguments)):
                continue
            approval, kind = part.get("approval"), part.get("state")
            if call.id in state.pending and call.id not in state.approvals and kind == "approval-responded":
                if (
                    isinstance(approval, dict)
                    and approval.get("id") == call.id
                    and isinstance(approval.get("approved"), bool)
                ):
                    reason = approval.get("reason")
                    reason = reason if isinstance(reason, str) and reason else None
                    approvals[call.id] = Approval(approval["approved"], reason=reason)
            elif call.id in state.awaiting_results and kind == "output-available":
                if part.get("preliminary") is not True:
                    results[call.id] = part.get("output")
            elif call.id in state.awaiting_results and kind == "output-error":
                error = part.get("errorText")
                results[call.id] = ToolFailed(error if isinstance(error, str) and error else "The call failed.")
        return state.answer(approvals=approvals, results=results) if approvals or results else None


def parse_chat(body: bytes | str | Mapping[str, Any], *, allow_system: bool = False) -> Chat:
    """Read what a page posts: the body of ``DefaultChatTransport``.

    Args:
        body: the JSON, or its object.
        allow_system: whether messages of the role ``system`` are instructions to the model. Without it they are refused:
            anybody can post.

    Raises:
        InvalidChat: it is no chat, or has what a page may not send: a system message, or a file that is neither data nor
            an ``http`` address. Nothing else is raised, whatever the body contains.
    """
    try:
        chat = msgspec.json.decode(body) if isinstance(body, (bytes, str)) else body
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidChat("the body is not JSON") from None
    if not isinstance(chat, Mapping) or nests_deeper(chat, _MAX_DEPTH):
        raise InvalidChat(f"the body must be an object, nested at most {_MAX_DEPTH} levels deep")
    messages, chat_id = chat.get("messages"), chat.get("id")
    if not isinstance(messages, list) or not messages:
        raise InvalidChat("messages must be a list with a message")
    for message in messages:
        _check_message(message, allow_system=allow_system)
    shown = [{"role": message["role"], "parts": list(filter(_is_read, message["parts"]))} for message in messages]
    changes: list[str] = []
    try:
        history = parse_messages(shown, "vercel_ui", changes=changes)
    except UsageError:
        raise InvalidChat("the messages are not UI messages") from None
    if not history:
        raise InvalidChat("the messages have no text and no file")
    for block in (block for content in history for block in content.blocks if isinstance(block, ToolResponseBlock)):
        for part in result_parts(block.result) or ():
            if isinstance(part, ImageBlock):
                _check_address(part.data)
            elif isinstance(part, FileBlock):
                _check_address(part.url or to_data_url(part.data or "", "application/octet-stream"))
    last = messages[-1]
    is_continued = last["role"] == "assistant"
    parts = last["parts"] if is_continued else []
    answered = {part["toolCallId"]: part for part in parts if isinstance(part.get("toolCallId"), str)}
    continues = last.get("id") if is_continued else None
    return Chat(
        chat_id if isinstance(chat_id, str) and chat_id else None,
        history,
        continues if isinstance(continues, str) and continues else None,
        changes,
        answered,
    )


def _check_message(message: Any, *, allow_system: bool) -> None:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        raise InvalidChat("a message must be an object with parts")
    role = message.get("role")
    if role not in ("user", "assistant") and not (allow_system and role == "system"):
        raise InvalidChat("a message must be of the role user or assistant")
    for part in message["parts"]:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise InvalidChat("a part of a message must be an object with a type")
        if part["type"] == "file":
            _check_address(part.get("url"))
        elif part["type"] == "steering-message":
            _check_message({"role": "user", "parts": part.get("parts")}, allow_system=False)


def _check_address(address: Any) -> None:
    """Refuse an address other than of the web: the server, or the model's, may have files and buckets of its own."""
    data = parse_data_url(address) if isinstance(address, str) else None
    if not (isinstance(address, str) and is_url(address)) and (data is None or not is_base64(data.data)):
        raise InvalidChat("a file must be a data URL or an http address")


def _is_read(part: Json) -> bool:
    """Return True for a part that is of the conversation, and not of the page alone."""
    return part["type"] in _READ_PARTS or part["type"].startswith("tool-")


def _is_same(shown: Any, stored: Any) -> bool:
    """Return True if the arguments that a page shows are these; its numbers are those of JavaScript."""
    if isinstance(shown, dict) and isinstance(stored, dict):
        return shown.keys() == stored.keys() and all(_is_same(shown[name], stored[name]) for name in stored)
    if isinstance(shown, list) and isinstance(stored, list):
        return len(shown) == len(stored) and all(map(_is_same, shown, stored))
    if {shown.__class__, stored.__class__} <= {int, float}:
        try:
            return float(shown) == float(stored)
        except OverflowError:
            return False
    return shown.__class__ is stored.__class__ and bool(shown == stored)
