"""The writer of Converse streams: events as the bytes that ConverseStream would have streamed.

The parser reads the same turn from them, opaque state byte for byte. This wire has no field for the response's id nor
for its model, and its blocks follow each other. This module must not depend on requests, sockets or clocks.

Wire: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html and, of a response
that is not streamed, .../API_runtime_Converse.html
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from streamkit.calls import Usage
from streamkit.events import BlockEnded, Citation, File, ReasoningKind
from streamkit.json_text import finalize_arguments
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.bedrock_converse.traits import FINISH_REASONS
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.writing import aws_frames
from streamkit.providers.writing.aws_frames import aws_error_body as error_body
from streamkit.providers.writing.aws_frames import error_event
from streamkit.providers.writing.block_order import SequentialWriter
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import safe_json, uncached_input_tokens
from streamkit.providers.writing.wire_output import ErrorBody, ServerToolCall, WirePlaces, WriterOptions, paths

__all__ = ["ConverseWriter", "create_writer", "error_body", "error_event"]

_STOP_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"content_filter": "content_filtered"})
_PADDING = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#: The facts about a response that ``messageStop`` has; the others are in ``metadata``.
_STOP_FACTS: Final = ("additionalModelResponseFields",)


def create_writer(traits: Traits, options: WriterOptions) -> ConverseWriter:
    """Return a writer of one response."""
    return ConverseWriter(traits, options)


class ConverseWriter(SequentialWriter):
    """A writer of one message. A chunk is ``{name: body}``, as boto3 yields it."""

    error_rules: ClassVar[ErrorRules] = aws_frames.ERRORS
    places: ClassVar[WirePlaces | None] = WirePlaces(
        calls=paths("start.toolUse", "output.message.content.*.toolUse"),
        call_types=frozenset({None}),
        call_id="toolUseId",
        finish=paths("stopReason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_STOP_REASONS,
        state=paths(
            "delta.reasoningContent.signature|redactedContent",
            "output.message.content.*.reasoningContent.redactedContent",
            "output.message.content.*.reasoningContent.reasoningText.signature",
        ),
    )
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)
    has_error_finish = False

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._call_index = 0

    # ------------------------------------------------------------ the message

    def begin(self) -> None:
        """Write ``messageStart``."""
        self.send({"messageStart": {"role": "assistant"}})

    def end(self) -> None:
        """Write the stop reason and the usage, or the exception."""
        if not self.ends_in_call:
            self.end_texts()
        if self.error is not None:
            self.send_bytes(error_event(*self.error_fields(self.error)))
            return
        if self.finish_is_error:
            message = "The model stopped before the end of its response."
            self.send_bytes(aws_frames.encode_exception("modelStreamErrorException", message))
            return
        facts = dict(self.metadata)
        stop = {name: facts.pop(name) for name in _STOP_FACTS if name in facts}
        self.send({"messageStop": {"stopReason": self.finish_name(FINISH_REASONS, _STOP_REASONS), **stop}})
        usage = _usage_fields(self.usage or Usage())
        self.send({"metadata": {"usage": usage, "metrics": {"latencyMs": 0}, **facts}})

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a frame with padding, which hides a text's length; its size is deterministic here."""
        ((name, body),) = chunk.items()
        self.event_count += 1
        return aws_frames.encode_event(name, {**body, "p": _PADDING[: 7 * self.event_count % len(_PADDING)]})

    def body(self, chunks: list[Json]) -> Json:
        """Return the response that the events build."""
        blocks: dict[int, Json] = {}
        inputs: dict[int, list[str]] = {}
        body: Json = {}
        for event in chunks:
            ((name, fields),) = event.items()
            index = fields.get("contentBlockIndex", 0)
            if name == "contentBlockStart":
                blocks[index] = {kind: dict(start) for kind, start in fields["start"].items()}
                if "toolUse" in fields["start"]:
                    inputs[index] = []
            elif name == "contentBlockDelta":
                _add_delta(blocks.setdefault(index, {}), inputs.get(index), fields["delta"])
            elif name in ("messageStop", "metadata"):
                body |= fields
        for index, parts in inputs.items():
            text = "".join(parts)
            parsed = finalize_arguments(text)
            blocks[index]["toolUse"]["input"] = parsed.arguments if parsed.state == "complete" else text
        for block in blocks.values():
            if isinstance(block.get("text"), list):
                block["text"] = "".join(block["text"])
            reasoning = block.get("reasoningContent", {}).get("reasoningText", {})
            reasoning |= {name: "".join(parts) for name, parts in reasoning.items() if isinstance(parts, list)}
        content = [
            # a complete body has another member for a text with citations
            {"citationsContent": {"content": [{"text": block.get("text", "")}], "citations": block["citations"]}}
            if "citations" in block
            else block
            for block in blocks.values()
        ]
        return {"output": {"message": {"role": "assistant", "content": content}}, **body}

    # ------------------------------------------------------------ blocks

    def _start(self, start: Json) -> int:
        index = self.next_index()
        self.send({"contentBlockStart": {"contentBlockIndex": index, "start": start}})
        return index

    def start_text(self, kind: str, index: int) -> None:
        """Write nothing: a text and reasoning have no start on this wire."""

    def _delta(self, index: int, delta: Json) -> None:
        self.send({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}})

    def stop_block(self, index: int) -> None:
        """Write the end of a block."""
        self.send({"contentBlockStop": {"contentBlockIndex": index}})

    def text(self, text: str) -> None:
        """Write a text delta."""
        self._delta(self.text_index("text"), {"text": text})

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of reasoning; this wire has one kind of it."""
        self._delta(self.text_index("reasoning"), {"reasoningContent": {"text": text}})

    def end_block(self, event: BlockEnded) -> None:
        """Write the signature of a block and its end."""
        opaque = event.metadata.get("opaque")
        kind = "text" if event.kind == "refusal" else event.kind
        if isinstance(opaque, dict) and "reasoningContent" in opaque:
            self.end_text("reasoning")
            self._delta(self.text_index("reasoning"), opaque)
        elif kind == "reasoning" and event.signature:
            self._delta(self.text_index("reasoning"), {"reasoningContent": {"signature": event.signature}})
        elif self._own_state is None:
            super().end_block(event)
        self.end_text(kind)

    def citation(self, event: Citation) -> bool:
        """Write a citation of a text block: this wire's own, or an address of the web."""
        data, is_known = event.data, self._own_state is not None
        is_own = isinstance(data, dict) and ("location" in data or is_known)
        if is_own or event.url is not None:
            web = {"title": event.title or "", "location": {"web": {"url": event.url}}}
            self._delta(self.text_index("text"), {"citation": data if is_own else web})
        else:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
        return is_own

    def file(self, event: File) -> None:
        """Write an image; this wire has no other generated files."""
        kind, _, image_format = (event.media_type or "").partition("/")
        if kind != "image" or not (event.data or event.url):
            self.omit("file", "a file that is no image was left out: the wire has no field for it")
            return
        source: Json = {"bytes": event.data} if event.data else {"s3Location": {"uri": event.url}}
        index = self._start({"image": {"format": image_format}})
        self._delta(index, {"image": {"source": source}})
        self.stop_block(index)

    # ------------------------------------------------------------ calls and server tools

    def open_call(self, call: CallText) -> None:
        """Write the start of a call."""
        self._call_index = self._start({"toolUse": {"toolUseId": call.id, "name": call.ref.name}})

    def write_arguments(self, call: CallText, text: str) -> None:
        """Write a delta of a call's input."""
        self._delta(self._call_index, {"toolUse": {"input": text}})

    def close_call(self, call: CallText) -> None:
        """Write the end of a call's block."""
        self.stop_block(self._call_index)

    def server_tool_call(self, tool: ServerToolCall) -> None:
        """Write the ``toolUse`` of a server tool."""
        tool.id = tool.id or f"tooluse_{self._index_count}"
        arguments = tool.arguments if isinstance(tool.arguments, dict) else {}
        self._use({"toolUseId": tool.id, "name": tool.name, "type": "server_tool_use", "input": arguments})

    def server_tool_result(self, tool: ServerToolCall, result: Any) -> None:
        """Write the ``toolResult`` of a server tool."""
        is_content = isinstance(result, list) and all(  # API_runtime_ToolResultBlockDelta
            isinstance(item, dict) and len(item) == 1 and ("json" in item or isinstance(item.get("text"), str))
            for item in result
        )
        if is_content and result:
            content = result
        else:
            content = [{"json": result}] if isinstance(result, dict) else [{"text": safe_json(result)}]
        head = {"toolUseId": tool.id, "type": f"{tool.name}_result", "status": "success"}
        self._result({**head, "content": content})

    def _use(self, body: Json) -> None:
        arguments = body.get("input")
        index = self._start({"toolUse": {name: value for name, value in body.items() if name != "input"}})
        if arguments:
            self._delta(index, {"toolUse": {"input": safe_json(arguments)}})
        self.stop_block(index)

    def _result(self, body: Json) -> None:
        index = self._start({"toolResult": {name: value for name, value in body.items() if name != "content"}})
        self._delta(index, {"toolResult": body.get("content") or []})
        self.stop_block(index)

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write a block of this wire."""
        body = next(iter(raw.values()), None) if isinstance(raw, dict) else None
        if isinstance(body, dict) and "toolUse" in raw:
            self._use(body)
        elif isinstance(body, dict) and "toolResult" in raw:
            self._result(body)
        else:
            self.stop_block(self._start(raw if isinstance(raw, dict) else {"unknown": raw}))


def _usage_fields(usage: Usage) -> Json:
    """Return the usage fields; this wire counts the prompt in parts."""
    fields: Json = {
        "inputTokens": uncached_input_tokens(usage),
        "outputTokens": usage.output_tokens or 0,
        "totalTokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    if usage.cache_read_tokens is not None:
        fields["cacheReadInputTokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens is not None:
        fields["cacheWriteInputTokens"] = usage.cache_write_tokens
    return fields


def _add_delta(block: Json, inputs: list[str] | None, delta: Json) -> None:
    """Add a delta to a block, in which each text is a list of its deltas."""
    for kind, value in delta.items():
        if kind == "text":
            block.setdefault("text", []).append(value)
        elif kind == "citation":
            block.setdefault("citations", []).append(value)
        elif kind == "toolUse" and inputs is not None:
            inputs.append(value["input"])
        elif kind == "toolResult":
            block["toolResult"]["content"] = value
        elif kind == "reasoningContent" and "redactedContent" not in value:
            reasoning = block.setdefault("reasoningContent", {"reasoningText": {"text": []}})["reasoningText"]
            for name, text in value.items():
                reasoning.setdefault(name, []).append(text)
        elif kind == "image":
            block["image"] |= value
        else:
            block[kind] = value
