"""The writer of Gemini streams: events as the bytes that generativelanguage.googleapis.com would have streamed.

A part is complete: a call is written when its final state is known, and an incomplete one is left out. The parser
reads the same turn from them, opaque state byte for byte. This module must not depend on requests, sockets or clocks.

Wire: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse; a response that is not streamed
(``generateContent``) has the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any, ClassVar, Final

from streamkit.calls import ToolCall, Usage
from streamkit.errors import UnsupportedContent
from streamkit.events import BlockEnded, Citation, File, ReasoningKind
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.gemini.metadata import CANDIDATE_FACTS, facts_prefix
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.gemini.traits import ERRORS, FINISH_REASONS
from streamkit.providers.writing.block_order import WholeCallWriter
from streamkit.providers.writing.encoding import encode_chunk, encode_json
from streamkit.providers.writing.wire_output import (
    LONGEST_REPEATED,
    ErrorBody,
    Json,
    ServerToolCall,
    WirePlaces,
    WriterOptions,
    paths,
)

__all__ = ["GeminiWriter", "create_writer", "error_body", "error_event"]

# The wire has no name of its own for calls, refusals and pauses.
_FINISH_REASONS: Final = invert_finish_reasons(
    FINISH_REASONS, preferred={"tool_calls": "STOP", "refusal": "SAFETY"}, default="OTHER"
)
#: https://cloud.google.com/apis/design/errors#handling_errors
_ERROR_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
#: The facts about a response that each chunk has.
_START_FACTS: Final = ("createTime", "modelStatus")
#: The field of a candidate for sources of each kind, by a member that shows the kind.
_CITATION_FIELDS: Final = {
    "urlMetadata": "urlContextMetadata",
    "citationSources": "citationMetadata",
    "citations": "citationMetadata",
    "groundingChunks": "groundingMetadata",
    "searchEntryPoint": "groundingMetadata",
    "webSearchQueries": "groundingMetadata",
}


def create_writer(traits: Traits, options: WriterOptions) -> GeminiWriter:
    """Return a writer of one response."""
    return GeminiWriter(traits, options)


def error_body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Return the body of a failed request. *code* is the name of the status; the default depends on the HTTP status."""
    name = code or _ERROR_STATUSES.get(status) or ("INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": name}}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error (googleapis/js-genai#1275)."""
    return b"data: %b\r\n\r\n" % encode_json(error_body(status, message, code))


class GeminiWriter(WholeCallWriter):
    """A writer of candidates: an SSE event (``alt=sse``) or an element of a JSON array at a time."""

    error_rules: ClassVar[ErrorRules] = ERRORS
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)

    call_state: ClassVar[frozenset[str]] = frozenset({SIGNATURE})
    places: ClassVar[WirePlaces | None] = WirePlaces(
        model=paths("modelVersion"),
        choices="candidates",
        calls=paths("content.parts.*.functionCall|function_call"),
        finish=paths("candidates.*.finishReason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_FINISH_REASONS,
        state=paths("candidates.*.content.parts.*.thoughtSignature|thought_signature"),
    )
    has_calls_without_id: ClassVar[bool] = True

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._is_array = traits.framing == "json_array"
        self._separators = chain((b"[",), repeat(b"\n,\r\n"))  # the API's framing without ``alt=sse``
        self._has_parts = False

    # ------------------------------------------------------------ the response

    def _part(self, part: Json) -> None:
        """Send a part in one chunk."""
        self._has_parts = True
        self._candidate({"content": {"parts": [part], "role": "model"}})

    def _candidate(self, candidate: Json) -> None:
        self.send(self._chunk(candidate))

    def _last_candidate(self) -> Json:
        """Return the end of a candidate: its last part is an empty text, as Gemini 3 sends it after calls."""
        prefix = facts_prefix(0)
        reason = self.finish_name(FINISH_REASONS, _FINISH_REASONS)
        facts = {name: self.metadata[prefix + name] for name in CANDIDATE_FACTS if prefix + name in self.metadata}
        return {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": reason, **facts}

    def _chunk(self, candidate: Json, usage: Mapping[str, Any] | None = None) -> Json:
        chunk: Json = {"candidates": [{**candidate, "index": 0}]}
        if usage is None and self.usage is not None and self.usage.input_tokens is not None:
            usage = {"promptTokenCount": self.usage.input_tokens}
        if usage:
            chunk["usageMetadata"] = usage
        return {**chunk, **self._names()}

    def _text_chunk(self, text: str, thought: Json) -> Json:
        return self._chunk({"content": {"parts": [{"text": text, **thought}], "role": "model"}})

    def _names(self) -> Json:
        names = {"modelVersion": self.model or "", "responseId": self.response_id or ""}
        facts = {name: self.metadata[name] for name in _START_FACTS if name in self.metadata}
        return names | facts if len(str(facts)) <= LONGEST_REPEATED else names

    def end(self) -> None:
        """Write the finish reason with all token counts, or the error."""
        if self.error is not None:
            if self.usage is not None:
                self.send({"usageMetadata": _usage_metadata(self.usage), **self._names()})
            self.send(self.own_error(error_body(*self.error_fields(self.error)), self.error))
        else:
            chunk = self._chunk(self._last_candidate(), {} if self.usage is None else _usage_metadata(self.usage))
            feedback = self.metadata.get("promptFeedback")
            if feedback is not None:
                chunk["promptFeedback"] = feedback
            if isinstance(feedback, dict) and feedback.get("blockReason") and not self._has_parts:
                del chunk["candidates"]  # "the prompt was blocked and no candidates are returned"
            self.send(chunk)
        if self._is_array:
            self.send_bytes(b"\n]\n")

    def encode(self, chunk: Json) -> bytes:
        """Return a chunk as a server-sent event, or as an element of the array."""
        if not self._is_array:
            return b"data: %b\r\n\r\n" % encode_chunk(chunk)
        return next(self._separators) + encode_chunk(chunk)

    def body(self, chunks: list[Json]) -> Json:
        """Return the response that the chunks build: adjacent texts of one kind joined, all other parts in order."""
        candidates: dict[int, Json] = {}
        body: Json = {}
        for chunk in chunks:
            body |= chunk
            for piece in chunk.get("candidates", ()):  # of the API an index and parts may be missing
                content: Json = {"parts": [], "role": "model"}
                candidate = candidates.setdefault(piece.get("index", 0), {"content": content})
                candidate |= {name: value for name, value in piece.items() if name != "content"}
                for part in piece.get("content", {}).get("parts", ()):
                    parts = candidate["content"]["parts"]
                    last = parts[-1] if parts else {}
                    if not part.keys() <= {"text", "thought"}:
                        parts.append(part)
                    elif part["text"] and last.keys() == part.keys():
                        last["text"].append(part["text"])
                    elif part["text"]:
                        parts.append({**part, "text": [part["text"]]})
        for candidate in candidates.values():
            parts = candidate["content"]["parts"] = candidate["content"]["parts"] or [{"text": ""}]
            for part in parts:
                if isinstance(part.get("text"), list):
                    part["text"] = "".join(part["text"])
        return {**body, "candidates": [candidates[number] for number in sorted(candidates)]} if candidates else body

    # ------------------------------------------------------------ parts

    def text(self, text: str) -> None:
        """Write a text part; signed text of the same provider is written at its end, because it is one part."""
        self._text(text, {})

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a part of thoughts."""
        self._text(text, {"thought": True})

    def _text(self, text: str, thought: Json) -> None:
        own, self._has_parts = self._own_state, True
        if own is not None and own.get(SIGNATURE):
            self._own_state = {**own, "text": own.get("text", "") + text}
        elif self._is_array:
            self.send(self._text_chunk(text, thought))
        else:
            key = bool(thought), None if self.usage is None else self.usage.input_tokens
            self.send_delta(key, self._text_chunk, text, thought)

    def end_block(self, event: BlockEnded) -> None:
        """Write the signature of a block: with its text if that was kept for it, else with an empty text."""
        thought = {"thought": True} if event.kind == "reasoning" else {}
        signature = event.metadata.get(SIGNATURE)
        if isinstance(signature, str) and signature:
            self._part({"text": (self._own_state or {}).get("text", ""), **thought, SIGNATURE: signature})
        elif self._own_state is None:
            super().end_block(event)

    def write_call(self, call: ToolCall, id: str | None) -> None:
        """Write a ``functionCall`` with its thought signature."""
        arguments = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
        part: Json = {"name": call.name, "args": arguments}
        if id is not None:
            part["id"] = id
        signature = call.metadata.get(SIGNATURE)
        self._part({"functionCall": part, **({SIGNATURE: signature} if signature else {})})

    def server_tool_call(self, tool: ServerToolCall) -> None:
        """Write a ``toolCall``."""
        self._part({"toolCall": {**_tool_fields(tool), "args": _object(tool.arguments, "input")}})

    def server_tool_result(self, tool: ServerToolCall, result: Any) -> None:
        """Write a ``toolResponse``."""
        self._part({"toolResponse": {**_tool_fields(tool), "response": _object(result, "result")}})

    def citation(self, event: Citation) -> bool:
        """Write the sources of the text: this wire's own object, or an address as a chunk of a search."""
        data = event.data
        name = next((field for key, field in _CITATION_FIELDS.items() if isinstance(data, dict) and key in data), None)
        is_own = name is not None
        if not is_own and event.url is None:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
            return False
        if not is_own:
            data = {"groundingChunks": [{"web": {"uri": event.url, "title": event.title or ""}}]}
        self._candidate({"content": {"parts": [{"text": ""}], "role": "model"}, name or "groundingMetadata": data})
        return is_own

    def file(self, event: File) -> None:
        """Write a file as inline data or as its address."""
        from streamkit.history.content import FileBlock  # the conversion of requests loads pydantic
        from streamkit.providers.gemini.media import file_part, image_part

        own = self._own_state or {}
        raw = own.get("raw")
        if isinstance(raw, dict):
            self._part(raw)
            return
        try:
            if event.media_type is None and event.data:
                part = image_part(event.data)
            else:
                part = file_part(FileBlock(media_type=event.media_type, data=event.data, url=event.url))
        except UnsupportedContent as error:
            self.omit("file", f"a file was left out: {error}")
            return
        signature = own.get(SIGNATURE)
        self._part({**part, **({SIGNATURE: signature} if signature else {})})

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write a part of this wire."""
        if isinstance(raw, dict):
            self._part(raw)


def _object(value: Any, name: str) -> Json:
    """Return a value as the object that this wire requires: another value under a name, None as an empty one."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {name: value}


def _tool_fields(tool: ServerToolCall) -> Json:
    return {"toolType": tool.name, **({"id": tool.id} if tool.id else {})}


def _usage_metadata(usage: Usage) -> dict[str, int]:
    output = usage.output_tokens
    if output is not None and usage.reasoning_tokens is not None:
        output = max(0, output - usage.reasoning_tokens)
    counts = {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": output,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    return {name: count for name, count in counts.items() if count is not None}
