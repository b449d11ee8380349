"""The writer of Cohere streams: events as the bytes that api.cohere.com would have streamed.

The parser reads the same turn from them. This module must not depend on requests, sockets or clocks.

Wire: https://docs.cohere.com/v2/reference/chat-stream and, of a response that is not streamed, .../chat
"""

from __future__ import annotations

from typing import ClassVar, Final

from streamkit.calls import Usage
from streamkit.events import BlockEnded, Citation, ReasoningKind
from streamkit.providers.cohere.schema import Json
from streamkit.providers.cohere.traits import ERRORS, FINISH_REASONS
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.writing.block_order import SequentialWriter
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import encode_chunk, encode_sse_event
from streamkit.providers.writing.wire_output import ErrorBody, WirePlaces, WriterOptions, paths

__all__ = ["CohereWriter", "create_writer", "error_body", "error_event"]

# A reason for which the vendor has no name is the neutral one in capitals.
_FINISH_REASONS: Final = invert_finish_reasons(
    FINISH_REASONS, preferred={"refusal": "REFUSAL", "pause": "PAUSE", "other": "OTHER"}
)
_INTERNAL_ERROR: Final = "internal server error, this has been reported to our developers."


def create_writer(traits: Traits, options: WriterOptions) -> CohereWriter:
    """Return a writer of one response."""
    return CohereWriter(traits, options)


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the body with which the API reports a failed request. This wire has no code of an error."""
    return {"message": message}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error (https://docs.cohere.com/v2/reference/chat-stream)."""
    event = {"type": "message-end", "delta": {"error": message, "finish_reason": "ERROR"}}
    return encode_sse_event("message-end", event)


class CohereWriter(SequentialWriter):
    """A writer of one message, which counts its contents, calls and citations from 0 each."""

    error_rules: ClassVar[ErrorRules] = ERRORS
    places: ClassVar[WirePlaces | None] = WirePlaces(
        calls=paths("delta.message.tool_calls", "message.tool_calls.*"),
        finish=paths("delta.finish_reason", "finish_reason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_FINISH_REASONS,
    )
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._citation_count = 0

    # ------------------------------------------------------------ the message

    def begin(self) -> None:
        """Write ``message-start``. No event of this wire has the model's name."""
        empty: Json = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        self.send({"id": self.response_id or "0", "type": "message-start", "delta": {"message": empty}})

    def end(self) -> None:
        """Write ``message-end`` with finish reason, usage and error, and the terminator."""
        self.end_texts()
        ending: Json = {"finish_reason": self.finish_name(FINISH_REASONS, _FINISH_REASONS)}
        if self.error is not None:
            _, message, _ = self.error_fields(self.error)
            ending = {"error": message, "finish_reason": _FINISH_REASONS["error"]}
            if self.has_own_errors and isinstance(self.error.raw, dict) and "error_type" in self.error.raw:
                ending["error_type"] = self.error.raw["error_type"]
        elif self.finish_is_error:
            ending["error"] = _INTERNAL_ERROR
        if self.usage is not None:
            ending["usage"] = _usage(self.usage)
        self.send({"type": "message-end", "delta": ending})
        if self.error is None:
            self.send_bytes(b"data: [DONE]\n\n")

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a server-sent event with its name."""
        return b"event: %b\ndata: %b\n\n" % (chunk["type"].encode(), encode_chunk(chunk))

    def body(self, chunks: list[Json]) -> Json:
        """Return the response that the events build."""
        contents: list[Json] = []
        calls: list[Json] = []
        texts: list[dict[str, list[str]]] = []  # of each content, by the name of the field
        arguments: list[list[str]] = []
        citations: list[Json] = []
        plan: list[str] = []
        body: Json = {}
        for event in chunks:
            message = event.get("delta", {}).get("message", {})
            kind = event["type"]
            if kind == "message-start":
                body["id"] = event["id"]
            elif kind == "content-start":
                contents.append(dict(message["content"]))
                texts.append({})
            elif kind == "content-delta":
                for name, text in message["content"].items():
                    texts[event["index"]].setdefault(name, []).append(text)
                if "logprobs" in event:
                    body["logprobs"] = [*body.get("logprobs", ()), event["logprobs"]]
            elif kind == "tool-plan-delta":
                plan.append(message["tool_plan"])
            elif kind == "tool-call-start":
                call = message["tool_calls"]
                calls.append({**call, "function": dict(call["function"])})
                arguments.append([call["function"]["arguments"]])
            elif kind == "tool-call-delta":
                arguments[-1].append(message["tool_calls"]["function"]["arguments"])
            elif kind == "citation-start":
                citations.append(message["citations"])
            elif kind == "message-end":
                body |= event["delta"]
        for content, deltas in zip(contents, texts, strict=True):
            content |= {name: content[name] + "".join(parts) for name, parts in deltas.items()}
        for call, parts in zip(calls, arguments, strict=True):
            call["function"]["arguments"] = "".join(parts)
        message = {"role": "assistant"}
        fields = {"content": contents, "tool_plan": "".join(plan), "tool_calls": calls, "citations": citations}
        return {**body, "message": {**message, **{name: value for name, value in fields.items() if value}}}

    # ------------------------------------------------------------ contents

    def start_text(self, kind: str, index: int) -> None:
        """Write the start of a content."""
        self.send(
            {"type": "content-start", "index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
        )

    def stop_block(self, index: int) -> None:
        """Write the end of a content."""
        self.send({"type": "content-end", "index": index})

    def _content(self, kind: str, text: str) -> None:
        index = self.text_index(kind)
        self.send_delta(("content", index), _content_delta, text, kind, index)

    def text(self, text: str) -> None:
        """Write a text delta."""
        self._content("text", text)

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of a tool plan or of thinking."""
        if kind == "plan":
            self.stop_finished()
            self.send({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}})
        else:
            self._content("thinking", text)

    def end_block(self, event: BlockEnded) -> None:
        """Write the end of a content."""
        if self._own_state is None:
            super().end_block(event)
        self.end_text("thinking" if event.kind == "reasoning" else "text")

    def citation(self, event: Citation) -> bool:
        """Write a citation within its text: this wire's own, or an address as a document."""
        data, is_known = event.data, self._own_state is not None
        is_own = isinstance(data, dict) and ("sources" in data or is_known)
        if is_own or event.url is not None:
            citation = data if is_own else _document(event)
            self.text_index("text")
            number, self._citation_count = self._citation_count, self._citation_count + 1
            self.send({"type": "citation-start", "index": number, "delta": {"message": {"citations": citation}}})
            self.send({"type": "citation-end", "index": number})
        else:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
        return is_own

    # ------------------------------------------------------------ calls

    def open_call(self, call: CallText) -> None:
        """Write the start of a call."""
        self.stop_finished()
        function = {"id": call.id, "type": "function", "function": {"name": call.ref.name, "arguments": ""}}
        self.send({"type": "tool-call-start", "index": call.index, "delta": {"message": {"tool_calls": function}}})

    def write_arguments(self, call: CallText, text: str) -> None:
        """Write a delta of a call's arguments."""
        self.send_delta(("call", call.index), _call_delta, text, call.index)

    def close_call(self, call: CallText) -> None:
        """Write the end of a call."""
        self.send({"type": "tool-call-end", "index": call.index})


def _content_delta(text: str, kind: str, index: int) -> Json:
    return {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: text}}}}


def _call_delta(text: str, index: int) -> Json:
    message = {"tool_calls": {"function": {"arguments": text}}}
    return {"type": "tool-call-delta", "index": index, "delta": {"message": message}}


def _document(event: Citation) -> Json:
    """Return an address as a citation of a document (https://docs.cohere.com/docs/rag-citations)."""
    document = {"id": event.url, "url": event.url, "title": event.title or ""}
    sources = [{"type": "document", "id": event.url, "document": document}]
    return {"start": 0, "end": 0, "text": "", "sources": sources}


def _usage(usage: Usage) -> Json:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    tokens = {name: count for name, count in counts.items() if count is not None}
    billed = {name: count for name, count in tokens.items() if name != "reasoning_tokens"}
    cached = {} if usage.cache_read_tokens is None else {"cached_tokens": usage.cache_read_tokens}
    return {"billed_units": billed, "tokens": tokens, **cached}
