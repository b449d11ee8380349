"""Events as the UI message stream of npm ``ai``, versions 5, 6 and 7; ``parse_chat`` reads its page's requests.

The chunks, and what a client makes of them: ``ui-message-chunks.ts`` and ``process-ui-message-stream.ts`` in
https://github.com/vercel/ai/tree/main/packages/ai/src. A version gets no chunk and no field that its early releases
(5.0.92, 6.0.0, 7.0.0) lack: they end in an error at one.

- The page gets what ``events.to_json(public=True)`` has: no text of an exception, no message of the provider.
- A call is ``input-available`` once its turn is confirmed, because a page runs its own tools then.
- What the model's provider needs again (signatures, encrypted reasoning, blocks of tools that it ran) travels in
  ``providerMetadata.streamkit`` and comes back with the page's messages. No other opaque value is sent.

It is pure: no event loop, no web framework.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import msgspec

from streamkit import events
from streamkit.bridges.event_log import EVENT_STREAM_HEADERS
from streamkit.bridges.vercel_chat import Chat, InvalidChat, parse_chat, safe_names
from streamkit.calls import CallRef, Finish, StreamError
from streamkit.errors import UsageError
from streamkit.finishes import finish_row
from streamkit.history.vercel_ui import DATA_OF_PART, INTERRUPTED, STATE, Json, swap_data
from streamkit.json_text import to_valid_json
from streamkit.values.media import is_url, to_data_url

__all__ = ["HEADERS", "Chat", "InvalidChat", "UiMessageStream", "parse_chat"]

#: The headers of a response with a UI message stream.
HEADERS: Final = {**EVENT_STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
_SAME_REASONS = ("stop", "length", "tool_calls", "content_filter", "error")
_FINISH_REASONS = {name: name.replace("_", "-") for name in _SAME_REASONS} | {"refusal": "content-filter"}
_SHOWN = ("available", "asked", "ended")  # states of calls whose input the page has
_VALUES = ("data", "input", "output")  # fields of chunks that may be null
#: The client looks for the schema of a data part by its name in an object, and each object has these members.
_OF_OBJECTS = "constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf"
_DATA_NAME = re.compile(rf"(?!(?:{_OF_OBJECTS}|{STATE})$)[A-Za-z][\w.-]{{0,63}}", re.ASCII)
_NO_RESULT = "No result: the call was not completed."  # as renderers write it
_TO_JSON = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Part:
    """An open part: text, reasoning, a call, or a call that the provider runs itself.

    ``state`` is the kind of reasoning once a delta has it, or of a call: ``streaming``, ``growing``, ``restated``,
    ``ready`` (complete, in a turn that is not confirmed), ``invalid``, ``available``, ``asked`` (a person), ``ended``.
    """

    id: str
    delta: bytes  #: the frame of a delta, up to its text
    state: str = ""
    name: str = ""
    number: int = 0  #: among the parts of its step
    is_server_call: bool = False
    input: Any = None
    replay: Json = field(default_factory=dict)  #: what its provider needs again


class UiMessageStream:
    """A run or a turn as one message's stream. It holds the open parts, and the addresses of the message's sources.

    Args:
        message_id: the id of the message: a new one, or ``Chat.continues`` of a run that goes on after answers.
        version: the major version of the page's npm ``ai``; another one is a ``UsageError``.
        on_error: returns the text that the page shows for the error that ended a run (None: the application's own
            exception did); by default a general sentence.
        metadata: returns the ``messageMetadata`` for the end of a run that did not fail: JSON data, or None.
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
        self._on_error = on_error or (lambda _: "An error occurred.")
        self._metadata = metadata
        self._out: list[bytes] = []
        self._blocks: dict[int, _Part] = {}  # texts and reasoning, by block
        self._calls: dict[str, _Part] = {}  # of the round, by id
        self._server_calls: dict[str, _Part] = {}  # by the provider's id, or else the name
        self._origin: Json = {}
        self._sources: set[str] = set()
        self._choice: int | None = None  # whose parts are shown: the first of the round
        self._round = self._part_count = self._number = 0
        self._has_ended = self._is_closed = self._has_replay = self._ends_in_result = False
        self._error: StreamError | None = None
        self._finish: Finish | None = None
        self._chunk("start", messageId=message_id)

    def write(self, event: events.Event | events.UiData) -> bytes:
        """Return the frames of an event, or of data for the page; nothing after the end of the run."""
        kind: Any = event.__class__
        if (kind is _TEXT or kind is _REASONING) and not self._out:
            delta: Any = event
            part = self._blocks.get(delta.block)
            if part is not None and part.state and delta.choice == self._choice:
                return part.delta + _encode(delta.text) + b"}\n\n"
        if not self._has_ended and kind not in _NOT_SHOWN:
            _WRITERS[kind](self, event)
        frames, self._out = self._out, []
        return b"".join(frames)

    def close(self) -> bytes:
        """Return the last frames: the ends of open parts, the end of the message, and ``[DONE]``.

        Without a ``RunEnded`` the message is complete if its last turn is, and ends in an error otherwise.
        """
        if not self._has_ended:
            self._end("error" if self._finish is None or self._error is not None else "finish", self._error)
        frames, self._out = [*self._out, b"" if self._is_closed else b"data: [DONE]\n\n"], []
        self._is_closed = True
        return b"".join(frames)

    def _chunk(self, type: str, **fields: Any) -> None:
        """Write a chunk, without the fields that have no value."""
        chunk = {"type": type} | {name: value for name, value in fields.items() if value is not None or name in _VALUES}
        data = _encode(chunk)
        if b'"__proto__"' in data or b'"constructor"' in data:
            data = _encode(safe_names(chunk))
        self._out.append(b"data: " + data + b"\n\n")

    def _delta(self, part: _Part, text: str) -> None:
        self._out.append(part.delta + _encode(text) + b"}\n\n")

    def _round_started(self, event: events.RoundStarted) -> None:
        self._round_finished()
        self._round, self._choice, self._error, self._finish = event.round, None, None, None
        self._calls.clear()

    def _failed(self, event: events.Failed) -> None:
        self._error = event.error

    def _response_started(self, event: events.ResponseStarted) -> None:
        if self._finish is not None:  # the next turn of a program without rounds
            self._round_started(events.RoundStarted(self._round + 1))
        self._origin = {"provider": event.provider, "model": event.model, "requested_model": event.requested_model}

    def _round_finished(self, _: Any = None) -> None:
        for block in list(self._blocks):
            self._end_block(block)
        for call in self._server_calls.values():
            self._make_available(call, runs=True)
        for call in self._calls.values():
            if call.state not in _SHOWN:  # its turn has failed
                self._fail_call(call, _NO_RESULT)
        if self._has_replay and (self._finish is None or self._error is not None):
            # Its provider may not keep a response that it has not completed, nor what is in it.
            self._chunk(f"data-{STATE}", id=f"{INTERRUPTED}-{self._round}", data=INTERRUPTED)
        if self._number:
            self._chunk("finish-step")
        self._number, self._has_replay = 0, False

    def _start_part(self, kind: str, choice: int, state: str = "", *, id: str = "", name: str = "") -> _Part | None:
        """Return a new part of the step, None if another choice is shown; its step begins with the first part."""
        self._choice = choice if self._choice is None else self._choice
        if choice != self._choice:
            return None
        if not self._number:
            self._chunk("start-step")
            self._ends_in_result = False
        self._number += 1
        self._part_count += 1
        part_id = id or f"{self._round}-{self._part_count}"
        fields = ("toolCallId", "inputTextDelta") if kind == "tool-input" else ("id", "delta")
        delta = _encode({"type": f"{kind}-delta", fields[0]: part_id, fields[1]: ""})
        return _Part(part_id, b"data: " + delta.removesuffix(b'""}'), state, name, self._number)

    def _replay(self, **fields: Any) -> Json:
        """Return the ``providerMetadata`` of a part: its origin, and the state that its provider needs again."""
        self._has_replay |= bool(fields.get("metadata") or fields.get("raw"))
        return {STATE: {name: value for name, value in {**self._origin, **fields}.items() if value}}

    def _block_started(self, event: events.BlockStarted | events.BlockEnded) -> None:
        kind, state = ("reasoning", "") if event.kind == "reasoning" else ("text", "text")
        if (part := self._start_part(kind, event.choice, state)) is not None:
            self._blocks[event.block] = part
            self._chunk(f"{kind}-start", id=part.id)

    def _text(self, event: events.Text | events.Reasoning | events.Refusal) -> None:
        if event.block not in self._blocks:
            self._block_started(events.BlockStarted(event.type, event.block, event.choice))
        if event.choice == self._choice:
            part = self._blocks[event.block]
            part.state = event.kind if isinstance(event, events.Reasoning) else "text"
            self._delta(part, event.text)

    _reasoning = _refusal = _text

    def _block_ended(self, event: events.BlockEnded) -> None:
        if event.choice == self._choice and event.block in self._blocks:
            kind = self._blocks[event.block].state if event.kind == "reasoning" else ""
            fields: Json = {"kind": kind, "signature": event.signature, "metadata": to_valid_json(event.metadata)}
            fields["refusal"] = event.kind == "refusal"
            self._end_block(event.block, self._replay(**fields) if any(fields.values()) else None)

    def _end_block(self, block: int, replay: Json | None = None) -> None:
        part = self._blocks.pop(block)
        kind = "reasoning" if b'"reasoning-delta"' in part.delta else "text"
        self._chunk(f"{kind}-end", id=part.id, providerMetadata=replay)

    def _tool_call_start(self, event: events.ToolCallStart) -> None:
        ref = event.call
        if call := self._start_part("tool-input", event.choice, "streaming", id=ref.id, name=ref.name):
            self._calls[ref.id] = call
            self._chunk("tool-input-start", toolCallId=ref.id, toolName=ref.name)
            if ref.kind == "custom":  # its text is sent as a JSON text, which a client shows as it grows
                self._delta(call, '"')

    def _tool_call_delta(self, event: events.ToolCallDelta) -> None:
        call = self._calls.get(event.call.id)
        if call is not None and call.state == "streaming":
            text = event.arguments_delta
            self._delta(call, _encode(text).decode()[1:-1] if event.call.kind == "custom" else text)

    def _arguments_restated(self, event: events.ArgumentsRestated) -> None:
        if (call := self._calls.get(event.call.id)) is not None:
            call.state = "restated"  # a client can only replace the whole input: it gets no more deltas

    def _tool_call_ready(self, event: events.ToolCallReady) -> None:
        made = event.call
        if (call := self._calls.get(made.id)) is not None:
            is_complete = made.state == "complete"
            call.state, call.input = ("ready", made.arguments) if is_complete else ("invalid", made.arguments_text)
            call.replay = {"raw_id": made.raw_id, "metadata": to_valid_json(made.metadata)}

    def _finished(self, event: events.Finished) -> None:
        if self._choice in (None, event.choice):
            self._finish = Finish(event.reason, event.raw)
            if self._error is None and finish_row(self._finish).runs_calls:
                for call in self._calls.values():
                    self._make_available(call)

    def _make_available(self, call: _Part, *, runs: bool = False) -> None:
        """Write the input of a call that is ready; of one that runs in any case."""
        if call.state == "ready" or (runs and call.state not in _SHOWN):
            call.state = "available"
            self._chunk("tool-input-available", **self._call_fields(call), input=call.input)

    def _call_fields(self, call: _Part) -> Json:
        fields = {"toolCallId": call.id, "toolName": call.name, "providerMetadata": self._replay(**call.replay)}
        return {**fields, "providerExecuted": call.is_server_call or None}

    def _tool_awaiting_approval(self, event: events.ToolAwaitingApproval) -> None:
        made = event.call
        if made.id not in self._calls:  # its turn was in an earlier response
            self._calls[made.id] = _Part(made.id, b"", "ready", made.name, input=made.arguments)
        self._make_available(self._calls[made.id], runs=True)
        if self._version > 5:
            self._calls[made.id].state = "asked"
            self._chunk("tool-approval-request", approvalId=made.id, toolCallId=made.id)

    def _tool_running(self, event: events.ToolRunning | events.ToolAwaitingResult) -> None:
        call = self._calls.get(event.call.id, _Part(event.call.id, b"", "available"))
        self._make_available(call, runs=True)
        if call.state == "asked":  # and the application has decided
            call.state = "available"
            if self._version > 6:
                self._chunk("tool-approval-response", approvalId=call.id, approved=True)

    _tool_awaiting_result = _tool_running

    def _tool_progress(self, event: events.ToolProgress) -> None:
        call = self._calls.get(event.call.id, _Part(event.call.id, b"", "available"))
        if isinstance(event.value, events.UiData):
            self._ui_data(event.value)
        elif isinstance(event.value, events.PreliminaryResult) and call.state != "ended":
            self._make_available(call, runs=True)
            output = _public(event)["value"]["value"]
            self._chunk("tool-output-available", toolCallId=event.call.id, output=output, preliminary=True)

    def _ui_data(self, value: events.UiData) -> None:
        if _DATA_NAME.fullmatch(value.name):
            sent = _public(events.ToolProgress(CallRef("", "", 0), value))["value"]
            self._chunk(f"data-{value.name}", id=sent["id"], data=sent["data"], transient=sent["transient"] or None)

    def _tool_completed(self, event: Any) -> None:
        call, result = self._calls.get(event.call.id, _Part(event.call.id, b"", "available")), _public(event)["result"]
        self._ends_in_result = True
        if call.state == "ended":
            return
        if event.type == "tool_completed":
            self._make_available(call, runs=True)
            self._chunk("tool-output-available", toolCallId=event.call.id, output=result["value"])
        elif event.type == "tool_denied" and self._version > 5:
            self._make_available(call, runs=True)
            self._chunk("tool-output-denied", toolCallId=event.call.id)
        else:
            self._fail_call(call, result["error"] or _NO_RESULT)
        call.state = "ended"

    _tool_error = _tool_denied = _tool_timed_out = _tool_canceled = _tool_completed

    def _fail_call(self, call: _Part, text: str) -> None:
        if call.state in ("available", "asked"):
            is_server_call = call.is_server_call or None
            self._chunk("tool-output-error", toolCallId=call.id, errorText=text, providerExecuted=is_server_call)
        else:
            self._chunk("tool-input-error", **self._call_fields(call), input=call.input, errorText=text)
        call.state = "ended"

    def _server_tool(self, event: events.ServerTool) -> None:
        key, data = event.id or event.name, to_valid_json(event.data)
        call = self._server_calls.get(key) or self._start_part("tool-input", event.choice, "streaming", name=event.name)
        if call is None or self._choice not in (None, event.choice):
            return
        if key not in self._server_calls:
            self._server_calls[key], call.is_server_call, call.input = call, True, {}
            self._chunk("tool-input-start", toolCallId=call.id, toolName=call.name, providerExecuted=True)
        if event.raw is not None:  # with its place: other parts may have begun since the call
            raw = [*call.replay.get("raw", ()), [self._number, to_valid_json(event.raw)]]
            call.replay = {"id": event.id, "raw": raw}
        if event.phase == "arguments" and event.raw is None and isinstance(data, str):
            call.state = "growing"
            self._delta(call, data)
        elif event.phase == "arguments":
            if call.state == "streaming":
                self._delta(call, _encode(data).decode())
            call.state, call.input = "ready", data
        elif event.phase == "result":  # the input waits for it: before version 7 a result has no metadata
            is_late = call.state == "available" and self._version > 6
            later = self._replay(id=event.id, raw=call.replay.get("raw", [])[-1:]) if is_late else None
            self._make_available(call, runs=True)
            fields = {"toolCallId": call.id, "providerExecuted": True, "providerMetadata": later}
            self._chunk("tool-output-available", **fields, output=safe_names(data, hidden="encrypted"))
            del self._server_calls[key]

    def _citation(self, event: events.Citation) -> None:
        source = event.url or event.title
        if source and source not in self._sources and self._choice in (None, event.choice):
            self._sources.add(source)
            self._part_count += 1
            fields = {"sourceId": f"source-{self._round}-{self._part_count}", "title": event.title}
            if event.url is None:
                self._chunk("source-document", **fields, mediaType="application/octet-stream")
            elif is_url(event.url):  # no script
                self._chunk("source-url", **fields, url=event.url)

    def _file(self, event: events.File) -> None:
        media_type = event.media_type or "application/octet-stream"
        url = to_data_url(event.data, media_type) if event.data is not None else event.url or ""
        if (event.data is not None or is_url(url)) and self._start_part("file", event.choice) is not None:
            raw = swap_data(to_valid_json(event.raw), event.data, DATA_OF_PART)
            self._chunk("file", mediaType=media_type, url=url, providerMetadata=self._replay(raw=raw))

    def _run_ended(self, event: events.RunEnded) -> None:
        kind = {"canceled": "abort", "timed_out": "error", "error": "error"}.get(event.ended, "finish")
        if kind == "finish":
            self._finish = self._finish or event.finish
        self._end(kind, event.error or self._error, event)

    def _end(self, kind: str, error: StreamError | None, run: events.RunEnded | None = None) -> None:
        for call in (*self._calls.values(), *self._server_calls.values()):
            waits = call.state in ("available", "asked") and kind == "finish" and not call.is_server_call
            if call.state != "ended" and not waits:
                self._fail_call(call, _NO_RESULT)
        self._server_calls.clear()
        self._round_finished()
        if kind == "finish":
            if (
                self._ends_in_result and run is not None and not run.pending
            ):  # else a page that goes on with the results
                self._chunk("start-step")  # of a last step (lastAssistantMessageIsCompleteWithToolCalls) posts for ever
                self._chunk("finish-step")
            shown = "other" if self._finish is None else _FINISH_REASONS.get(self._finish.reason, "other")
            metadata = self._metadata(run) if self._metadata is not None and run is not None else None
            self._chunk("finish", finishReason=shown, messageMetadata=metadata)
        else:
            self._chunk(kind, errorText=self._on_error(error) if kind == "error" else None)
        self._has_ended = True


_TEXT, _REASONING = events.Text, events.Reasoning
#: Events of which the page gets nothing. Each other one has a method with the name of its type.
_NOT_SHOWN: Final[set[Any]] = {events.ToolCallEnd, events.Compaction, events.UsageReport, events.Warned}
_NOT_SHOWN.update({events.LogProbabilities, events.Unknown})
_KINDS: Final = {*get_args(events.Event), events.UiData} - _NOT_SHOWN
_WRITERS: Final = {kind: getattr(UiMessageStream, f"_{kind.__struct_config__.tag}") for kind in _KINDS}


def _encode(value: Any) -> bytes:
    try:
        return _TO_JSON(value)
    except (UnicodeEncodeError, OverflowError):  # half of a surrogate pair, whose other half follows; a long integer
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def _public(event: events.Event) -> Json:
    """Return an event as the data that people may get."""
    return json.loads(events.to_json(event, public=True))  # type: ignore[no-any-return]
