"""Events as the UI message stream of npm ``ai``, versions 5, 6 and 7; ``parse_chat`` reads its page's requests.

The chunks, and what a client makes of them: ``ui-message-chunks.ts`` and ``process-ui-message-stream.ts`` in
https://github.com/vercel/ai/tree/main/packages/ai/src. A version gets no chunk and no field that its early releases
(5.0.92, 6.0.0, 7.0.0) lack: they end in an error at one.

- The page gets what ``events.to_json(public=True)`` has: no text of an exception, no message of the provider.
- A call is ``input-available`` once its turn is confirmed, because a page runs its own tools then.
- What the model's provider needs again (signatures, encrypted reasoning, citations, blocks of tools that it ran) is in
  ``providerMetadata.streamkit`` and comes back with the page's messages. No other opaque value is sent.

It is pure: no event loop, no web framework.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, assert_never

from streamkit import events as ev
from streamkit.bridges.event_log import EVENT_STREAM_HEADERS
from streamkit.bridges.pages import OpenPart, PageStream, encode, frame, public_data, safe_names
from streamkit.bridges.vercel_chat import Chat, InvalidChat, parse_chat
from streamkit.calls import CallRef, Finish, StreamError
from streamkit.errors import UsageError
from streamkit.finishes import finish_row
from streamkit.history.vercel_ui import DATA_OF_PART, INTERRUPTED, STATE, Json, swap_data
from streamkit.json_text import to_valid_json
from streamkit.values.media import is_url, to_data_url

__all__ = ["HEADERS", "Chat", "InvalidChat", "UiMessageStream", "parse_chat"]

#: The headers of a response with a UI message stream.
HEADERS: Final = {**EVENT_STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
#: The finish reasons that are none here.
_FINISH_REASONS: Final = {"refusal": "content-filter", "pause": "other"}
#: The client looks for the schema of a data part by its name in an object, and each object has these members.
_OF_OBJECTS = "constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf"
_DATA_NAME = re.compile(rf"(?!(?:{_OF_OBJECTS}|{STATE})$)[A-Za-z][\w.-]{{0,63}}", re.ASCII)
_NO_RESULT = "No result: the call was not completed."  # as renderers write it


@dataclass(slots=True)
class _Part(OpenPart):
    """An open part: text, reasoning, a call, or a call that the provider runs itself.

    ``state`` is that of a call: ``streaming``, ``growing`` (the provider's own, whose input streams), ``incomplete``,
    ``ready`` (complete, in a turn that is not confirmed); with its input on the page ``available``, ``asked`` (a
    person), and ``ended``.
    """

    state: str = "available"
    name: str = ""
    is_server_call: bool = False
    input: Any = None
    replay: Json = field(default_factory=dict)  #: what its provider needs again


class UiMessageStream(PageStream):
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
        metadata: Callable[[ev.RunEnded], Any] | None = None,
    ) -> None:
        super().__init__()
        if version not in (5, 6, 7):
            raise UsageError(f"version must be 5, 6 or 7, not {version!r}")
        self._version = version
        self._on_error = on_error or (lambda _: "An error occurred.")
        self._metadata = metadata
        self._calls: dict[str, _Part] = {}  # of the round, by id
        self._server_calls: dict[str, _Part] = {}  # by the provider's id, or else the name
        self._sources: set[str] = set()
        self._citations: dict[int | None, list[Any]] = {}  # of open texts, in the provider's own form
        self._round = self._part_count = 0
        self._number = 0  # of parts of the step
        self._is_closed = self._has_replay = self._ends_in_result = False
        self._error: StreamError | None = None
        self._finish: Finish | None = None
        self._send("start", messageId=message_id)

    def close(self) -> bytes:
        """Return the last frames: the ends of open parts, the end of the message, and ``[DONE]``.

        Without a ``RunEnded`` the message is complete if its last turn is, and ends in an error otherwise.
        """
        if not self._has_ended:
            self._end("error" if self._finish is None or self._error is not None else "finish", self._error)
        frames = self._take() + (b"" if self._is_closed else b"data: [DONE]\n\n")
        self._is_closed = True
        return frames

    def _send(self, kind: str, **fields: Any) -> None:
        super()._send(kind, **fields)
        if b'"__proto__"' in self._out[-1] or b'"constructor"' in self._out[-1]:
            self._out[-1] = frame(kind, safe_names(fields))

    def _write(self, event: ev.Event) -> None:
        match event:
            case ev.Text() | ev.Reasoning() | ev.Refusal():
                if event.block not in self._open:
                    self._start_block(event.type, event.block)
                part = self._open[event.block]
                part.kind = event.kind if isinstance(event, ev.Reasoning) else "text"
                self._send_delta(part, event.text)
            case ev.BlockStarted():
                self._start_block(event.kind, event.block)
            case ev.BlockEnded():
                if event.block in self._open:
                    kind = self._open[event.block].kind if event.kind == "reasoning" else ""
                    cited = {"citations": self._citations.pop(event.block)} if event.block in self._citations else {}
                    fields: Json = {"kind": kind, "signature": event.signature, "refusal": event.kind == "refusal"}
                    fields["metadata"] = to_valid_json({**event.metadata, **cited})
                    self._end_block(event.block, self._replay(**fields) if any(fields.values()) else None)
            case ev.ToolCallStart(call=ref):
                part = self._calls[ref.id] = self._start_part("tool-input", id=ref.id, name=ref.name)
                self._send("tool-input-start", toolCallId=ref.id, toolName=ref.name)
                if ref.kind == "custom":  # its text is sent as a JSON text, which a client shows as it grows
                    self._send_delta(part, '"')
                else:
                    self._open[ref.id] = part
            case ev.ToolCallDelta(call=ref):  # of the others, ``write`` has written them
                if ref.kind == "custom" and (call := self._calls.get(ref.id)) is not None and call.state == "streaming":
                    self._send_delta(call, encode(event.arguments_delta).decode()[1:-1])
            case ev.ArgumentsRestated(call=ref):
                if ref.id in self._calls:  # a client can only replace the whole input: it gets no more deltas
                    self._calls[ref.id].state = "incomplete"
                self._open.pop(ref.id, None)
            case ev.ToolCallEnd():
                self._open.pop(event.call.id, None)
            case ev.ToolCallReady(call=made):
                if (call := self._calls.get(made.id)) is not None:
                    is_complete = made.state == "complete"
                    call.state = "ready" if is_complete else "incomplete"
                    call.input = made.arguments if is_complete else made.arguments_text
                    call.replay = {"raw_id": made.raw_id, "metadata": to_valid_json(made.metadata)}
            case ev.ServerTool():
                self._show_server_tool(event)
            case ev.Citation():
                self._show_source(event)
            case ev.File(data=data):
                media_type = event.media_type or "application/octet-stream"
                url = to_data_url(data, media_type) if data is not None else event.url or ""
                if data is not None or is_url(url):
                    self._start_part("file")
                    raw = swap_data(to_valid_json(event.raw), data, DATA_OF_PART)
                    self._send("file", mediaType=media_type, url=url, providerMetadata=self._replay(raw=raw))
            case ev.Finished():
                self._finish = Finish(event.reason, event.raw)
                if self._error is None and finish_row(self._finish).runs_calls:
                    for call in self._calls.values():
                        if call.state == "ready":
                            self._make_available(call)
            case ev.Failed():
                self._error = event.error
            case ev.ToolAwaitingApproval(call=made):
                if made.id not in self._calls:  # its turn was in an earlier response
                    self._calls[made.id] = _Part(made.id, state="ready", name=made.name, input=made.arguments)
                self._make_available(self._calls[made.id])
                if self._version > 5:
                    self._calls[made.id].state = "asked"
                    self._send("tool-approval-request", approvalId=made.id, toolCallId=made.id)
            case ev.ToolRunning() | ev.ToolAwaitingResult():
                call = self._call(event.call)
                if call.state == "asked":  # and the application has decided
                    call.state = "available"
                    if self._version > 6:
                        self._send("tool-approval-response", approvalId=call.id, approved=True)
                self._make_available(call)
            case ev.ToolProgress(value=ev.UiData(name=name)):
                if _DATA_NAME.fullmatch(name):
                    sent = public_data(event)["value"]
                    self._send(f"data-{name}", id=sent["id"], data=sent["data"], transient=sent["transient"] or None)
            case ev.ToolProgress(value=ev.PreliminaryResult()):
                if (call := self._call(event.call)).state != "ended":
                    self._make_available(call)
                    output = public_data(event)["value"]["value"]
                    self._send("tool-output-available", toolCallId=call.id, output=output, preliminary=True)
            case ev.ToolCompleted() | ev.ToolError() | ev.ToolDenied() | ev.ToolTimedOut() | ev.ToolCanceled():
                self._show_result(event)
            case ev.ResponseStarted():
                if self._finish is not None:  # the next turn of a program without rounds
                    self._start_round(self._round + 1)
            case ev.RoundStarted():
                self._start_round(event.round)
            case ev.RoundFinished():
                self._end_step()
            case ev.RunEnded():
                kind = {"canceled": "abort", "timed_out": "error", "error": "error"}.get(event.ended, "finish")
                if kind == "finish":
                    self._finish = self._finish or event.finish
                self._end(kind, event.error or self._error, event)
            case ev.ToolProgress() | ev.Compaction() | ev.UsageReport() | ev.Warned():
                pass
            case ev.LogProbabilities() | ev.Unknown():
                pass
            case _:
                assert_never(event)

    def _start_round(self, number: int) -> None:
        self._end_step()
        self._round, self._error, self._finish = number, None, None
        self._calls.clear()

    def _end_step(self) -> None:
        for key in list(self._open):
            self._end_block(key)
        for call in self._server_calls.values():
            self._make_available(call)
        for call in self._calls.values():
            if call.state not in ("available", "asked", "ended"):  # its turn has failed
                self._fail_call(call, _NO_RESULT)
        if self._has_replay and (self._finish is None or self._error is not None):
            # Its provider may not keep a response that it has not completed, nor what is in it.
            self._send(f"data-{STATE}", id=f"{INTERRUPTED}-{self._round}", data=INTERRUPTED)
        if self._number:
            self._send("finish-step")
        self._number, self._has_replay = 0, False
        self._citations.clear()

    def _start_part(self, kind: str, *, id: str = "", name: str = "") -> _Part:
        """Return a new part of the step, which begins with its first part."""
        if not self._number:
            self._send("start-step")
            self._ends_in_result = False
        self._number += 1
        self._part_count += 1
        part_id = id or f"{self._round}-{self._part_count}"
        names = ("toolCallId", "inputTextDelta") if kind == "tool-input" else ("id", "delta")
        delta = frame(f"{kind}-delta", {names[0]: part_id, names[1]: ""}).removesuffix(b'""}\n\n')
        return _Part(part_id, kind, delta, state="streaming", name=name)

    def _replay(self, **fields: Any) -> Json:
        """Return the ``providerMetadata`` of a part: its origin, and the state that its provider needs again."""
        self._has_replay |= bool(fields.get("metadata") or fields.get("raw"))
        return {STATE: {name: value for name, value in {**self._origin, **fields}.items() if value}}

    def _start_block(self, kind: ev.TextKind, block: int) -> None:
        part = self._open[block] = self._start_part("reasoning" if kind == "reasoning" else "text")
        self._send(f"{part.type}-start", id=part.id)

    def _end_block(self, key: int | str, replay: Json | None = None) -> None:
        part = self._open.pop(key)
        if part.type != "tool-input":
            self._send(f"{part.type}-end", id=part.id, providerMetadata=replay)

    def _call(self, ref: CallRef) -> _Part:
        """Return the part of a call; that of an earlier response is on the page."""
        return self._calls.setdefault(ref.id, _Part(ref.id))

    def _make_available(self, call: _Part) -> None:
        """Write the input of a call, unless the page has it."""
        if call.state not in ("available", "asked", "ended"):
            call.state = "available"
            self._send("tool-input-available", **self._call_fields(call), input=call.input)

    def _call_fields(self, call: _Part) -> Json:
        fields = {"toolCallId": call.id, "toolName": call.name, "providerMetadata": self._replay(**call.replay)}
        return {**fields, "providerExecuted": call.is_server_call or None}

    def _show_result(self, event: Any) -> None:
        self._ends_in_result = True
        if (call := self._call(event.call)).state == "ended":
            return
        result = public_data(event)["result"]
        if result["status"] == "completed":
            self._make_available(call)
            self._send("tool-output-available", toolCallId=call.id, output=result["value"])
        elif result["status"] == "denied" and self._version > 5:
            self._make_available(call)
            self._send("tool-output-denied", toolCallId=call.id)
        else:
            self._fail_call(call, result["error"] or _NO_RESULT)
        call.state = "ended"

    def _fail_call(self, call: _Part, text: str) -> None:
        if call.state in ("available", "asked"):
            is_server_call = call.is_server_call or None
            self._send("tool-output-error", toolCallId=call.id, errorText=text, providerExecuted=is_server_call)
        else:
            self._send("tool-input-error", **self._call_fields(call), input=call.input, errorText=text)
        call.state = "ended"

    def _show_server_tool(self, event: ev.ServerTool) -> None:
        key, data = event.id or event.name, to_valid_json(event.data)
        call = self._server_calls.get(key)
        if call is not None and call.state == "available" and event.phase != "result":  # another one, of a later round
            self._fail_call(self._server_calls.pop(key), _NO_RESULT)
            call = None
        call = call or self._start_part("tool-input", name=event.name)
        if key not in self._server_calls:
            self._server_calls[key], call.is_server_call, call.input = call, True, {}
            self._send("tool-input-start", toolCallId=call.id, toolName=call.name, providerExecuted=True)
        if event.raw is not None:  # with its place: other parts may have begun since the call
            raw = [*call.replay.get("raw", ()), [self._number, to_valid_json(event.raw)]]
            call.replay = {"id": event.id, "raw": raw}
        if event.phase == "arguments" and event.raw is None and isinstance(data, str):
            call.state = "growing"
            self._send_delta(call, data)
        elif event.phase == "arguments":
            if call.state == "streaming":
                self._send_delta(call, encode(data).decode())
            call.state, call.input = "ready", data
        elif event.phase == "result":  # the input waits for it: before version 7 a result has no metadata
            is_late = call.state == "available" and self._version > 6
            later = self._replay(id=event.id, raw=call.replay.get("raw", [])[-1:]) if is_late else None
            self._make_available(call)
            fields = {"toolCallId": call.id, "providerExecuted": True, "providerMetadata": later}
            self._send("tool-output-available", **fields, output=safe_names(data, hidden="encrypted"))
            del self._server_calls[key]

    def _show_source(self, event: ev.Citation) -> None:
        if event.data is not None:
            self._citations.setdefault(event.block, []).append(event.data)
        source = event.url or event.title
        if source and source not in self._sources:
            self._sources.add(source)
            self._part_count += 1
            fields = {"sourceId": f"source-{self._round}-{self._part_count}", "title": event.title}
            if event.url is None:
                self._send("source-document", **fields, mediaType="application/octet-stream")
            elif is_url(event.url):  # no script
                self._send("source-url", **fields, url=event.url)

    def _end(self, kind: str, error: StreamError | None, run: ev.RunEnded | None = None) -> None:
        for call in (*self._calls.values(), *self._server_calls.values()):
            waits = call.state in ("available", "asked") and kind == "finish" and not call.is_server_call
            if call.state != "ended" and not waits:
                self._fail_call(call, _NO_RESULT)
        self._server_calls.clear()
        self._end_step()
        if kind == "finish":
            if self._ends_in_result and run is not None and not run.pending:
                # Else a page posts for ever that goes on with the results of a last step by itself
                # (lastAssistantMessageIsCompleteWithToolCalls).
                self._send("start-step")
                self._send("finish-step")
            reason = "other" if self._finish is None else self._finish.reason
            shown = _FINISH_REASONS.get(reason, reason).replace("_", "-")
            metadata = self._metadata(run) if self._metadata is not None and run is not None else None
            self._send("finish", finishReason=shown, messageMetadata=metadata)
        else:
            self._send(kind, errorText=self._on_error(error) if kind == "error" else None)
        self._has_ended = True
