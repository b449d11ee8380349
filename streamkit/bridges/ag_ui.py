"""AG-UI, which CopilotKit, assistant-ui and others speak: a run's input from a page, and its events for that page.

``parse_input`` reads what a page posts, ``RunInput.answer`` gives a waiting run the page's decisions and results
(``ag_ui_input``), and ``AgUiStream`` writes the events of a run as server-sent events. It is protocol 1.0
(https://docs.ag-ui.com/spec/1.0); clients before it, which send no ``protocolVersion``, get what they know.

* A page gets what ``events.to_json(public=True)`` has, and the signed state that the model's provider wants back.
* A block of reasoning is a message; the texts and calls up to the next one are another.
* A stream holds what is open, and counts tokens.

It depends on no provider, connection, clock or event loop.
"""

from __future__ import annotations

from streamkit.values.distribution import missing_package

try:
    from ag_ui.core import StateDeltaEvent
except ModuleNotFoundError as _error:
    raise missing_package("streamkit.bridges.ag_ui", _error, "ag-ui") from None

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, assert_never, get_args

import msgspec
from pydantic import ValidationError

from streamkit import events as ev
from streamkit.bridges.ag_ui_input import InvalidInput, RunInput, parse_input, seal_state
from streamkit.bridges.pages import OpenPart, PageStream, encode, frame, public_data
from streamkit.calls import Ended, StreamError, ToolCall, Usage
from streamkit.history import FileBlock, ImageBlock, TextBlock, ToolResponseBlock
from streamkit.history.result_parts import result_parts
from streamkit.json_text import to_valid_json
from streamkit.values.media import is_url, normalize_data
from streamkit.values.total_tables import check_total

__all__ = ["AgUiStream", "InvalidInput", "RunInput", "parse_input"]

_ANSWER: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
#: The protocol's names of the counts of a `Usage`, in their order.
_COUNTS = ("inputTokens", "outputTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens")
#: What the end of a run is here. A client before 1.0 has no ``cancelled``, and gets an error: it is no success.
_OUTCOMES: Final[dict[Ended, str]] = {
    **dict.fromkeys(("answered", "refusal", "filtered", "length", "awaiting_results"), "success"),
    **dict.fromkeys(("canceled", "budget", "max_rounds", "breaker"), "cancelled"),
    **dict.fromkeys(("timed_out", "error"), "error"),
    "awaiting_approval": "interrupt",
}
check_total("streamkit.bridges.ag_ui._OUTCOMES", _OUTCOMES, get_args(Ended))


class AgUiStream(PageStream):
    """The events of one run as server-sent events, for the page that posted its input. It holds the open parts.

    Args:
        chat: the input.
        on_error: returns what people read of the error that ended a run; None: an error of the program. By default it
            is a sentence without the provider's words.
    """

    def __init__(self, chat: RunInput, *, on_error: Callable[[StreamError | None], str] | None = None) -> None:
        super().__init__()
        posted, results = chat.posted, [block for content in chat.history for block in content.blocks]
        self._ids = {"threadId": posted.thread_id, "runId": posted.run_id}
        self._is_old, self._key, self._on_error = posted.protocol_version is None, chat.key, on_error
        self._given = {block.call_id for block in results if isinstance(block, ToolResponseBlock)}
        self._name, self._count = f"{posted.run_id[:64]}-{len(chat.history)}", 0  # pages use the id of a run again
        self._idle: OpenPart | None = None  # a text that has ended, which the next text continues
        self._message: str | None = None  # to which calls belong
        self._states: list[bytes] = []  # for its end: one that is cut may have half of a signature
        self._unanswered: dict[str, bool] = {}  # the calls without a result; True: the page runs it
        self._questions: dict[str, str | None] = {}
        self._usage: dict[tuple[tuple[str, Any], ...], Counter[str]] = {}  # the tokens by provider and model
        self._report: Usage | None = None  # the last one of this response
        self._send("RUN_STARTED", **self._ids, protocolVersion=None if self._is_old else "1.0")

    def snapshot(self, state: Any) -> bytes:
        """Return the frame of a state that replaces the page's."""
        if not self._has_ended:
            self._send("STATE_SNAPSHOT", snapshot=to_valid_json(state))
        return self._take()

    def close(self) -> bytes:
        """Return the last frames: those of an error, if no ``RunEnded`` was written."""
        return self.write(ev.RunEnded("error"))

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _write(self, event: ev.Event) -> None:
        match event:
            case ev.ResponseStarted():
                self._end_parts()
                self._message = None
                self._states.clear()
            case ev.Text() | ev.Refusal() | ev.Reasoning():
                if event.text:
                    if event.block not in self._open:
                        self._start_block(event.block, event.kind if isinstance(event, ev.Reasoning) else "")
                    self._send_delta(self._open[event.block], event.text)
            case ev.BlockEnded():
                self._end_block(event)
            case ev.ToolCallStart(call=call):
                self._end_idle()
                self._message = self._message or self._new_id()
                self._start_part(call.id, "TOOL_CALL", call.id)
                self._unanswered[call.id] = False
                names = {"toolCallId": call.id, "toolCallName": call.name}
                self._send("TOOL_CALL_START", **names, parentMessageId=self._message)
            case ev.ToolCallEnd(call=call):
                if call.id in self._open:
                    self._end_part(self._open.pop(call.id))
            case ev.ToolCallReady(call=ready):
                if ready.metadata and ready.state == "complete" and ready.id in self._unanswered:
                    raw_id = {} if ready.raw_id is None else {"raw_id": ready.raw_id}
                    self._keep_state(ready.id, ready.id, {**ready.metadata, **raw_id})
            case ev.ServerTool():
                if event.phase != "arguments":
                    content = {"name": event.name, "status": "running" if event.phase == "started" else "completed"}
                    self._show_activity("server_tool", f"tool-{event.id or event.name}", content)
            case ev.Citation() | ev.File():
                self._send("CUSTOM", name=event.type, value=public_data(event))
            case ev.UsageReport():
                self._report = event.usage
            case ev.Finished() | ev.Failed():
                self._end_idle()
                self._count_tokens()
                is_whole = isinstance(event, ev.Finished) and event.reason != "error"
                self._out += self._states if is_whole else []
                self._states.clear()
            case ev.ToolProgress():
                self._write_progress(event)
            case ev.ToolAwaitingApproval():
                self._questions[event.call.id] = event.description
            case ev.ToolAwaitingResult():
                self._unanswered[event.call.id] = True
            case ev.ToolCompleted() | ev.ToolError() | ev.ToolDenied() | ev.ToolTimedOut() | ev.ToolCanceled():
                self._unanswered.pop(event.call.id, None)
                if event.call.id not in self._given:  # else it came from the page
                    self._send_result(event.call.id, _content(public_data(event)["result"], self._is_old))
            case ev.RunEnded():
                self._end(event)
            case ev.BlockStarted() | ev.ToolCallDelta() | ev.ArgumentsRestated() | ev.Compaction() | ev.Warned():
                pass
            case ev.LogProbabilities() | ev.Unknown() | ev.ToolRunning() | ev.RoundStarted() | ev.RoundFinished():
                pass
            case _:
                assert_never(event)

    def _start_part(self, key: int | str, prefix: str, name: str, reasoning: str = "") -> None:
        field, delta = ("toolCallId", "ARGS") if prefix == "TOOL_CALL" else ("messageId", "CONTENT")
        before = frame(f"{prefix}_{delta}", {field: name, "delta": ""}).removesuffix(b'""}\n\n')
        self._open[key] = OpenPart(name, prefix, before, reasoning or "shown")

    def _start_block(self, block: int, reasoning: str) -> None:
        if not reasoning and self._idle is not None:
            self._open[block], self._idle = self._idle, None
            return
        self._end_idle()
        name = self._new_id()
        self._message = None if reasoning else name
        if reasoning:
            self._send("REASONING_START", messageId=name)
        prefix, role = ("REASONING_MESSAGE", "reasoning") if reasoning else ("TEXT_MESSAGE", "assistant")
        self._send(f"{prefix}_START", messageId=name, role=role)
        self._start_part(block, prefix, name, reasoning)

    def _end_block(self, event: ev.BlockEnded) -> None:
        metadata = dict(event.metadata)
        if event.kind == "reasoning" and event.block not in self._open and (event.signature or metadata):
            self._start_block(event.block, "text")
        part = self._open.pop(event.block, None)
        if part is not None and event.kind == "reasoning":
            fields = {"kind": part.kind, "signature": event.signature, "opaque": metadata.pop("opaque", None)}
            self._keep_state("reasoning", part.id, metadata, **fields)
            self._end_part(part)
        else:
            message = self._message if part is None else part.id  # of an empty text, that of the text before
            if metadata and message is not None:
                self._keep_state("assistant", message, metadata)
            if part is not None:
                self._end_idle()
                self._idle = part

    def _end_part(self, part: OpenPart) -> None:
        self._send(f"{part.type}_END", **{"toolCallId" if part.type == "TOOL_CALL" else "messageId": part.id})
        if part.type == "REASONING_MESSAGE":
            self._send("REASONING_END", messageId=part.id)

    def _end_idle(self) -> None:
        if self._idle is not None:
            self._end_part(self._idle)
        self._idle = None

    def _end_parts(self) -> None:
        self._end_idle()
        for part in self._open.values():
            self._end_part(part)
        self._open.clear()

    def _keep_state(self, owner: str, name: str, metadata: dict[str, Any], **fields: Any) -> None:
        if self._key is not None:
            value = seal_state(owner, {**metadata, **self._origin}, self._key, **fields)
            subtype = "tool-call" if owner == name else "message"
            sent = {"subtype": subtype, "entityId": name, "encryptedValue": value}
            self._states.append(frame("REASONING_ENCRYPTED_VALUE", sent))

    def _send_result(self, call_id: str, content: Any) -> None:
        self._send("TOOL_CALL_RESULT", messageId=self._new_id(), toolCallId=call_id, content=content, role="tool")

    def _show_activity(self, kind: str, name: str | None, content: dict[str, Any]) -> None:
        message = self._new_id() if name is None else f"{self._name}-{name}"
        self._send("ACTIVITY_SNAPSHOT", messageId=message, activityType=kind, content=content)

    def _write_progress(self, event: ev.ToolProgress) -> None:
        value, shown = event.value, public_data(event)["value"]
        if isinstance(value, ev.StatePatch) and _is_patch(shown["operations"]):
            self._send("STATE_DELTA", delta=shown["operations"])
        elif isinstance(value, ev.UiData) and not value.transient:
            content = shown["data"] if isinstance(shown["data"], dict) else {"data": shown["data"]}
            self._show_activity(value.name, None if value.id is None else f"{value.name}-{value.id}", content)
        elif isinstance(value, ev.UiData):
            self._send("CUSTOM", name=value.name, value=shown["data"])
        else:
            self._send("CUSTOM", name="tool_progress", value={"toolCallId": event.call.id, "value": shown})

    def _end(self, event: ev.RunEnded) -> None:
        self._has_ended = True
        self._end_parts()
        self._count_tokens()
        outcome, error = _OUTCOMES[event.ended], event.error
        usage = [{**dict(labels), **counts} for labels, counts in self._usage.items()] or None
        for entry in usage or ():
            if {"inputTokens", "outputTokens"} <= entry.keys():
                entry["totalTokens"] = entry["inputTokens"] + entry["outputTokens"]
        if outcome == "error" or (outcome == "cancelled" and self._is_old):
            message = f"The run has {'failed' if outcome == 'error' else 'been stopped'}."
            message = message if error is None else public_data(event)["error"]["message"]
            message = message if self._on_error is None else self._on_error(error)
            code = event.ended if error is None else error.code or error.kind
            self._send("RUN_ERROR", message=message, code=code, usage=usage)
            return
        pending = [call.id for call in event.pending]
        for name in [name for name in self._unanswered if name not in pending]:
            self._send_result(name, "")  # a client takes a call without one for the page's
        sent: dict[str, Any] = {"type": outcome}
        if outcome == "interrupt":
            asked = [call for call in event.pending if not self._unanswered.get(call.id)]
            sent["interrupts"] = [_interrupt(call, self._questions.get(call.id)) for call in asked]
        elif pending and not self._is_old:
            sent["pendingToolCallIds"] = pending
        is_plain = self._is_old and outcome == "success"
        self._send("RUN_FINISHED", **self._ids, outcome=None if is_plain else sent, usage=usage)

    def _count_tokens(self) -> None:
        """Add the tokens of a response to those of its provider and model."""
        if self._report is not None:
            reported = zip(_COUNTS, msgspec.structs.astuple(self._report), strict=False)
            counts = {name: count for name, count in reported if count is not None and 0 <= count < 2**53}
            labels = tuple((name, self._origin[name]) for name in ("provider", "model") if name in self._origin)
            if counts:
                self._usage.setdefault(labels, Counter()).update(counts)
        self._report = None


def _is_patch(operations: Any) -> bool:
    try:
        return bool(StateDeltaEvent(delta=operations))
    except ValidationError:  # it would end the client's run
        return False


def _interrupt(call: ToolCall, question: str | None) -> dict[str, Any]:
    about = {"name": call.name, "arguments": to_valid_json(call.arguments)}
    sent = {"id": call.id, "toolCallId": call.id, "reason": "tool_call", "message": question or f"May {call.name} run?"}
    return {**sent, "responseSchema": _ANSWER, "metadata": {"toolCall": about}}


def _content(result: dict[str, Any], is_old: bool) -> str | list[dict[str, Any]]:
    """Return the content of a tool's message. A client before 1.0 reads text alone."""
    value = result["value"] if result["status"] == "completed" else result["error"]
    if value is None or isinstance(value, str):
        return value or ""
    blocks = result_parts(value if isinstance(value, list) else [value])
    if blocks is None:
        return encode(value).decode()
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
            continue
        url = block.url if isinstance(block, FileBlock) else block.data if is_url(block.data) else None
        data = normalize_data(block.data or "", getattr(block, "media_type", None))
        kind = "image" if isinstance(block, ImageBlock) else data.media_type.partition("/")[0]
        source = {"type": "data", "value": data.data, "mimeType": data.media_type}
        source = {"type": "url", "value": url} if url else source
        parts.append({"type": kind if kind in ("image", "audio", "video") else "document", "source": source})
    return "".join(part.get("text", "") for part in parts) if is_old else parts
