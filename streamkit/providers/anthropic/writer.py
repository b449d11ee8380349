"""The writer of Anthropic Messages streams: events as the bytes that api.anthropic.com would have streamed.

The parser reads the same turn from them, opaque state byte for byte. Blocks of text keep their index, of several
open calls one is written at a time. This module must not depend on requests, sockets, clocks or history.

Wire: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from streamkit.calls import Usage
from streamkit.events import BlockEnded, Citation, ReasoningKind
from streamkit.json_text import finalize_arguments
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.anthropic.traits import ERRORS, FINISH_REASONS
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.writing.block_order import SequentialWriter
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import (
    encode_chunk,
    encode_sse_event,
    safe_json,
    uncached_input_tokens,
)
from streamkit.providers.writing.wire_output import ErrorBody, ServerToolCall, WirePlaces, WriterOptions, paths

__all__ = ["AnthropicWriter", "create_writer", "error_body", "error_event"]

#: This wire has no name for a filtered turn; a refusal is the nearest.
_STOP_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"content_filter": "refusal"})

#: https://docs.anthropic.com/en/api/errors
_ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
#: The fields of a server tool's start that its events have.
_SERVER_CALL_FIELDS: Final = ("type", "server_name", "caller")
#: The other blocks of a response by their type, and the field that distinguishes them from another provider's.
_OWN_BLOCKS: Final = {
    "container_upload": "file_id",
    "fallback": "to",
    "mcp_tool_listing": "mcp_server_name",
}
#: The fields of a call's start beside its id, name and input.
_CALL_FIELDS: Final = ("caller", "toolset_name")
#: The facts about a response that the delta of ``message_delta`` has; the others are beside it.
_DELTA_FACTS: Final = frozenset({"container", "stop_details", "stop_sequence"})


def create_writer(traits: Traits, options: WriterOptions) -> AnthropicWriter:
    """Return a writer of one response."""
    return AnthropicWriter(traits, options)


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the JSON body of a refused request. *code* is the type of the error; the default depends on the status."""
    error_type = code or _ERROR_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": error_type, "message": message}}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error."""
    return encode_sse_event("error", error_body(status, message, code))


class AnthropicWriter(SequentialWriter):
    """A writer of one message."""

    error_rules: ClassVar[ErrorRules] = ERRORS
    places: ClassVar[WirePlaces | None] = WirePlaces(
        model=paths("message.model", "model"),
        calls=paths("content_block", "content.*"),
        call_types=frozenset({"tool_use"}),
        finish=paths("delta.stop_reason", "stop_reason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_STOP_REASONS,
        state=paths("delta.signature", "content_block.signature|data", "content.*.signature|data"),
        state_types=frozenset({"redacted_thinking", "signature_delta", "thinking"}),
        terminator=(b"message_stop", b'{"type":"message_stop"}'),
    )
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)
    has_error_finish = False

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._call_index = 0
        self._refusal: list[str] = []
        self._started_facts: Json = {}

    # ------------------------------------------------------------ the message

    def begin(self) -> None:
        """Write ``message_start``."""
        usage = self.usage or Usage()
        message: Json = {
            "id": self.response_id or "msg_0",
            "type": "message",
            "role": "assistant",
            "model": self.model or "",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_prompt_usage(usage), "output_tokens": min(1, usage.output_tokens or 0)},
        }
        self._started_facts = self._facts()
        message |= self._started_facts
        self.send({"type": "message_start", "message": message})

    def end(self) -> None:
        """Write the stop reason, the usage and ``message_stop``, or the error event."""
        if not self.ends_in_call:
            self.end_texts()
        if self.error is not None:
            self.send(self.own_error(error_body(*self.error_fields(self.error)), self.error))
            return
        if self.finish_is_error:
            self.send(error_body(500, "Internal server error"))
            return
        usage = self.usage or Usage()
        output: Json = {**_prompt_usage(usage), "output_tokens": usage.output_tokens or 0}
        if usage.reasoning_tokens is not None:
            output["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
        fields: Json = {"stop_reason": self.finish_name(FINISH_REASONS, _STOP_REASONS), "stop_sequence": None}
        container = (self._own_state or {}).get("container")
        if isinstance(container, dict):
            fields["container"] = container
        beside: Json = {}
        for name, value in self._facts().items():
            if name in _DELTA_FACTS:
                fields[name] = value
            elif self._started_facts.get(name) != value:
                beside[name] = value
        if self._refusal:
            if self.finish_reason == "stop":
                fields["stop_reason"] = _STOP_REASONS["refusal"]
            explanation = "".join(self._refusal)
            fields.setdefault("stop_details", {"type": "refusal", "category": None, "explanation": explanation})
        self.send({"type": "message_delta", "delta": fields, "usage": output, **beside})
        self.send({"type": "message_stop"})

    def _facts(self) -> Json:
        """Return the fields of a message of the same wire that no event has."""
        facts = dict(self.metadata)
        facts.pop("service_tier", None)  # its usage has it
        return facts

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a server-sent event with its name."""
        return b"event: %b\ndata: %b\n\n" % (chunk["type"].encode(), encode_chunk(chunk))

    def body(self, chunks: list[Json]) -> Json:
        """Return the message that the events build."""
        message: Json = {}
        blocks: list[Json] = []
        texts: list[dict[str, list[str]]] = []
        for chunk in chunks:
            kind = chunk["type"]
            if kind == "message_start":
                message = {**chunk["message"], "content": blocks}
            elif kind == "content_block_start":
                blocks.append(dict(chunk["content_block"]))
                texts.append({})
            elif kind == "content_block_delta":
                _add_delta(blocks[chunk["index"]], texts[chunk["index"]], chunk["delta"])
            elif kind == "content_block_stop":
                _join_texts(blocks[chunk["index"]], texts[chunk["index"]])
            elif kind == "message_delta":
                facts = {name: value for name, value in chunk.items() if name not in ("type", "delta")}
                message |= {**facts, **chunk["delta"], "usage": {**message["usage"], **chunk["usage"]}}
        return message

    # ------------------------------------------------------------ blocks

    def _start(self, block: Json, index: int | None = None) -> int:
        index = self.next_index() if index is None else index
        self.send({"type": "content_block_start", "index": index, "content_block": block})
        if index == 0 and self._chunks is None:
            self.send({"type": "ping"})
        return index

    def start_text(self, kind: str, index: int) -> None:
        """Write the start of a text or of thinking."""
        self._start({"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}, index)

    def _delta(self, index: int, delta: Json) -> None:
        self.send({"type": "content_block_delta", "index": index, "delta": delta})

    def stop_block(self, index: int) -> None:
        """Write the end of a block."""
        self.send({"type": "content_block_stop", "index": index})

    def text(self, text: str) -> None:
        """Write a text delta."""
        index = self.text_index("text")
        self.send_delta(("text_delta", index), _text_delta, text, index, "text_delta", "text")

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of thinking; this wire has one kind of it."""
        index = self.text_index("thinking")
        self.send_delta(("thinking_delta", index), _text_delta, text, index, "thinking_delta", "thinking")

    def refusal(self, text: str) -> None:
        """Keep a delta of a refusal: it is the explanation in ``stop_details``, at the message's end."""
        self._refusal.append(text)

    def end_block(self, event: BlockEnded) -> None:
        """Write the signature of a block and its end."""
        kind = "thinking" if event.kind == "reasoning" else event.kind
        opaque = event.metadata.get("opaque")
        if isinstance(opaque, dict) and opaque.get("type") == "redacted_thinking":
            self.end_text(kind)
            self.stop_block(self._start(opaque))
        elif kind == "thinking" and event.signature:
            self._delta(self.text_index(kind), {"type": "signature_delta", "signature": event.signature})
        elif event.signature or (event.metadata and self._own_state is None):
            super().end_block(event)
        self.end_text(kind)

    def citation(self, event: Citation) -> bool:
        """Write a citation of a text block, in the form of a web search's if another provider made it."""
        data = event.data
        is_own = isinstance(data, dict) and ("cited_text" in data or self._own_state is not None)
        if is_own or event.url is not None:
            citation = data if is_own else _web_citation(event)
            self._delta(self.text_index("text"), {"type": "citations_delta", "citation": citation})
        else:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
        return is_own

    def compaction(self, raw: Any) -> bool:
        """Write the summary of a compaction as a block."""
        is_own = isinstance(raw, dict) and raw.get("type") == "compaction" and "content" in raw
        if is_own:
            self._begin_once()
            self.provider_block(raw, is_server_tool=False)
        return is_own

    # ------------------------------------------------------------ calls

    def open_call(self, call: CallText) -> None:
        """Write the start of a ``tool_use`` block and its first delta, which is empty, as the API sends it."""
        block: Json = {"type": "tool_use", "id": call.id, "name": call.ref.name, "input": {}}
        own = self._own_state or {}
        fields = {name: own[name] for name in _CALL_FIELDS if name in own}
        self._call_index = self._start({**fields, **block} if fields.keys() & block.keys() else {**block, **fields})
        self.write_arguments(call, "")

    def write_arguments(self, call: CallText, text: str) -> None:
        """Write a delta of a call's input."""
        index = self._call_index
        self.send_delta(("input_json_delta", index), _text_delta, text, index, "input_json_delta", "partial_json")

    def close_call(self, call: CallText) -> None:
        """Write the end of a call's block."""
        self.stop_block(self._call_index)

    # ------------------------------------------------------------ server tools and blocks of the provider's own

    def server_tool_call(self, tool: ServerToolCall) -> None:
        """Write a ``server_tool_use`` block."""
        arguments = tool.arguments if isinstance(tool.arguments, dict) else {}
        tool.id = tool.id or f"srvtoolu_{self._index_count}"
        start: Json = {"type": "server_tool_use", "id": tool.id, "name": tool.name, "input": {}}
        self._use({**start, **_fields_of(tool, _SERVER_CALL_FIELDS)}, arguments)

    def server_tool_result(self, tool: ServerToolCall, result: Any) -> None:
        """Write the result of a server tool as another block."""
        block: Json = {"type": f"{tool.name}_tool_result", "tool_use_id": tool.id, "content": result}
        block |= _fields_of(tool, ("caller",))
        if _fields_of(tool, ("type",)) == {"type": "mcp_tool_use"}:
            block |= {"type": "mcp_tool_result", "is_error": False}  # clients refuse a block without the field
        elif tool.name.startswith("tool_search_tool_"):  # of all variants of this tool
            block["type"] = "tool_search_tool_result"
        self.stop_block(self._start(block))

    def _use(self, start: Json, arguments: Json) -> None:
        index = self._start(start)
        if arguments:
            self._delta(index, {"type": "input_json_delta", "partial_json": ""})
            self._delta(index, {"type": "input_json_delta", "partial_json": safe_json(arguments)})
        self.stop_block(index)

    def unknown(self, raw: Any) -> None:
        """Write a block of this wire that no event describes."""
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and _OWN_BLOCKS.get(kind) in raw:
            self._begin_once()
            self.provider_block(raw, is_server_tool=False)
        else:
            super().unknown(raw)

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write a block of this wire; the input of a server tool and a summary as a delta, as the API does."""
        if not isinstance(raw, dict):
            raw = {"type": "unknown", "value": raw}
        arguments = raw.get("input")
        if str(raw.get("type")).endswith("_tool_use") and isinstance(arguments, dict):
            self._use({**raw, "input": {}}, arguments)
        elif raw.get("type") == "compaction" and isinstance(raw.get("content"), str):
            delta = {name: raw[name] for name in ("content", "encrypted_content") if name in raw}
            index = self._start({**raw, **dict.fromkeys(delta)})
            self._delta(index, {"type": "compaction_delta", **delta})
            self.stop_block(index)
        else:
            self.stop_block(self._start(raw))


def _text_delta(text: str, index: int, type: str, field: str) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, field: text}}


def _fields_of(tool: ServerToolCall, names: tuple[str, ...]) -> Json:
    """Return the fields of those names that the events of a server tool have."""
    fields = tool.fields if isinstance(tool.fields, dict) else {}
    return {name: fields[name] for name in names if name in fields}


def _prompt_usage(usage: Usage) -> Json:
    """Return the usage fields of the prompt, which this wire counts in parts."""
    fields: Json = {"input_tokens": uncached_input_tokens(usage)}
    if usage.cache_write_tokens is not None:
        fields["cache_creation_input_tokens"] = usage.cache_write_tokens
    if usage.cache_read_tokens is not None:
        fields["cache_read_input_tokens"] = usage.cache_read_tokens
    return fields


def _web_citation(event: Citation) -> Json:
    """Return an address as a citation (https://docs.anthropic.com/en/docs/build-with-claude/citations)."""
    citation = {"type": "web_search_result_location", "url": event.url, "title": event.title or ""}
    return {**citation, "encrypted_index": "", "cited_text": event.cited_text or ""}


def _add_delta(block: Json, texts: dict[str, list[str]], delta: Json) -> None:
    """Add a delta to a block of a body; texts are collected by their field."""
    if delta["type"] == "citations_delta":
        block.setdefault("citations", []).append(delta["citation"])
        return
    for name, value in delta.items():
        if name == "type":
            continue
        if isinstance(value, str):
            texts.setdefault(name, []).append(value)
        else:
            block[name] = value


def _join_texts(block: Json, texts: dict[str, list[str]]) -> None:
    """Set the texts of a block of a body: an incomplete input stays the text that it is."""
    for name, parts in texts.items():
        text = "".join(parts)
        if name == "partial_json":
            parsed = finalize_arguments(text)
            block["input"] = parsed.arguments if parsed.state == "complete" else text
        else:
            block[name] = text
