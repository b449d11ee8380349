"""Gemini's streamGenerateContent -> what it says.

Wire      https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures
          https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

Every chunk is a whole response with the parts that are new. There is no terminator: the finish reason confirms. A part
is one thing (a piece of text, a thought, a whole call, a file, a step of a tool that Google ran), and a signature
belongs to the part that it came on, also where that part's text is empty: "Don't merge one part with a signature with
another part without a signature". So signed text is a block of its own, and unsigned text beside it another.

Usage is the count so far, in every chunk. The last figure stands; nothing is added up over chunks.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import ServerToolPhase
from streamkit.providers.decoding import as_integer, as_text, convert, decode, error_message, read_json
from streamkit.providers.gemini.function_calls import FunctionCallReader
from streamkit.providers.gemini.schema import (
    BLOCKED,
    CHUNK_DECODER,
    SIGNATURE,
    Candidate,
    Counts,
    GenerateContentChunk,
    WirePart,
    finish_reason,
    is_rest_form,
    signature_of,
    to_camel_case,
)
from streamkit.providers.provider import Sink, Traits

__all__ = ["GeminiParser", "create_parser"]

_decode = CHUNK_DECODER.decode

#: What may stand in a part beside its content, and so says nothing by itself.
_BESIDE = frozenset(("text", "thought", SIGNATURE, "partMetadata"))
_THINGS = frozenset(("executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"))
_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


class _CandidateState:
    """What must be remembered of one candidate."""

    __slots__ = ("calls", "choice", "cited", "read_call", "text")

    def __init__(self, sink: Sink, number: int) -> None:
        self.choice = sink.choice(number)
        self.calls = FunctionCallReader(sink, self.choice)
        self.text = self.choice.text
        self.read_call = self.calls.read
        self.cited: dict[str, Any] = {}  # sources already told: some streams repeat them in every chunk


def create_parser(sink: Sink, traits: Traits) -> GeminiParser:
    """Return a parser for one turn that reports to ``sink``."""
    return GeminiParser(sink)


class GeminiParser:
    """Reads one stream."""

    __slots__ = ("_answers", "_first", "_held", "_identified", "_raw", "_raw_of", "_raw_parts", "_sink", "_untold")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._first = _CandidateState(sink, 0)
        self._answers = {0: self._first}
        self._identified = False
        self._held = Counts()  # the last figure of each
        self._untold = False  # they have grown since they were told
        self._raw_of: Any = None  # the frame whose plain form is ``_raw``
        self._raw: dict[str, Any] = {}
        self._raw_parts: dict[int, list[Any]] = {}

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event, or one element of the array."""
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            odd = decode(CHUNK_DECODER, data, self._sink)
            if odd is None:
                return
            chunk = odd
        try:
            self._read(chunk, data)
        except RecursionError:
            self._too_deep()

    def chunk(self, data: dict[str, Any]) -> None:
        """One response as a dict, as REST or as google-genai spells it; or a whole body of the not streamed kind."""
        if not is_rest_form(data):
            data = to_camel_case(data)
        self._raw_of = None  # the same dict may come again, changed
        try:
            chunk = convert(data, GenerateContentChunk, self._sink)
            if chunk is not None:
                self._read(chunk, data)
        except RecursionError:
            self._too_deep()

    def end(self) -> None:
        """The stream is over: what a cut answer has cost so far."""
        if self._untold:
            self._emit_usage()

    def _too_deep(self) -> None:
        # What decodes may still be too deep to be compared, written or decoded again from further down the stack.
        self._sink.fail(StreamError("limit_exceeded", "a chunk's JSON is nested too deeply"))

    def _read(self, chunk: GenerateContentChunk, source: bytes | dict[str, Any]) -> None:
        if not self._identified:
            self._identify(chunk)
        finishing = False
        candidates = chunk.candidates
        if candidates:
            for at, candidate in enumerate(candidates):
                index = candidate.index
                answer = self._first if index == 0 or (index is None and at == 0) else self._answer(index, at)
                content = candidate.content
                if content is not None and content.parts:
                    for number, part in enumerate(content.parts):
                        text = part.text
                        if text and text.__class__ is str and part.thoughtSignature is None and part.thought is None:
                            answer.text(text)
                            if part.functionCall is not None:
                                answer.read_call(part.functionCall, None)
                        elif part.functionCall is not None and text is None:
                            answer.read_call(part.functionCall, part.thoughtSignature)
                        else:
                            self._read_part(answer, part, source, at, number)
                if (
                    candidate.finishReason is not None
                    or candidate.groundingMetadata is not None
                    or candidate.citationMetadata is not None
                    or candidate.urlContextMetadata is not None
                ):
                    finishing = True
                    self._read_end(answer, candidate, source)
        elif candidates is None and chunk.promptFeedback is None and chunk.error is None:
            if (
                chunk.usageMetadata is None
                and as_text(chunk.modelVersion) is None
                and as_text(chunk.responseId) is None
            ):
                self._sink.unknown(self._plain(source))
                return
        if chunk.promptFeedback is not None:
            self._read_feedback(chunk.promptFeedback)
        counts = chunk.usageMetadata
        if counts is not None:
            self._store_usage(counts)
            if finishing or not candidates:
                self._emit_usage(self._plain(source).get("usageMetadata"))
        if chunk.error is not None and chunk.error is not False:
            self._fail(chunk.error)

    # ---------------------------------------------------------------- who answers, and what it cost

    def _identify(self, chunk: GenerateContentChunk) -> None:
        response_id, model = as_text(chunk.responseId), as_text(chunk.modelVersion)
        if response_id or model:
            self._sink.identify(response_id, model)
            self._identified = response_id is not None and model is not None

    def _store_usage(self, counts: Counts) -> None:
        """Every chunk has the counts so far: they are told when the answer finishes, or the stream ends without that.

        To tell them with each chunk would cost more than all the rest of it.
        """
        held = self._held
        prompt, answer = counts.promptTokenCount, counts.candidatesTokenCount
        if not prompt or prompt.__class__ is not int:
            prompt = _later(prompt, held.promptTokenCount)
        if not answer or answer.__class__ is not int:
            answer = _later(answer, held.candidatesTokenCount)
        held.promptTokenCount, held.candidatesTokenCount = prompt, answer
        if counts.thoughtsTokenCount is not None:
            held.thoughtsTokenCount = _later(counts.thoughtsTokenCount, held.thoughtsTokenCount)
        if counts.toolUsePromptTokenCount is not None:
            held.toolUsePromptTokenCount = _later(counts.toolUsePromptTokenCount, held.toolUsePromptTokenCount)
        if counts.cachedContentTokenCount is not None:
            held.cachedContentTokenCount = _later(counts.cachedContentTokenCount, held.cachedContentTokenCount)
        self._untold = True

    def _emit_usage(self, raw: Any = None) -> None:
        held = self._held
        prompt, answer = held.promptTokenCount, held.candidatesTokenCount
        thoughts, tools, cached = held.thoughtsTokenCount, held.toolUsePromptTokenCount, held.cachedContentTokenCount
        self._untold = False
        if prompt is None and tools is None and answer is None and thoughts is None:
            return  # Vertex sends {"trafficType": ...} alone until the last chunk
        if raw is None:
            raw = {name: figure for name in held.__struct_fields__ if (figure := getattr(held, name)) is not None}
        self._sink.usage(
            Usage(
                prompt if tools is None else (prompt or 0) + tools,
                answer if thoughts is None else (answer or 0) + thoughts,
                thoughts,
                cached,
                None,
                raw,
            )
        )

    def _read_feedback(self, feedback: Any) -> None:
        """A prompt that was refused: there is no candidate then."""
        raw = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if finish_reason(raw) is None or str(raw).endswith("BLOCKED_REASON_UNSPECIFIED"):
            return
        message = feedback.get("blockReasonMessage")
        if isinstance(message, str) and message:
            self._sink.warn("finish_message", message)
        self._first.choice.finish(raw, BLOCKED)

    def _fail(self, error: Any) -> None:
        """``{"code", "message", "status", "details"}``; a RetryInfo among the details says how long to wait."""
        message = error_message({"error": error}) or "the provider reported an error"
        status, retry_after = None, None
        if isinstance(error, dict):
            status = as_integer(error.get("code"))
            details = error.get("details")
            for detail in details if isinstance(details, list) else ():
                delay = detail.get("retryDelay") if isinstance(detail, dict) else None
                if isinstance(delay, str) and delay[-1:] == "s" and delay[:-1].replace(".", "", 1).isdecimal():
                    retry_after = float(delay[:-1])
        self._sink.fail(StreamError("provider_error", message, error, status, retry_after))

    # ---------------------------------------------------------------- one candidate

    def _answer(self, index: Any, at: int) -> _CandidateState:
        # A candidate without a number is the first; of several without one, their order is all there is.
        number = index if index.__class__ is int and index >= 0 else at
        answer = self._answers.get(number)
        if answer is None:
            answer = _CandidateState(self._sink, number)
            if len(self._answers) < 128:  # what the sink bounds as well: numbers invented by the wire fill no memory
                self._answers[number] = answer
        return answer

    def _read_end(self, answer: _CandidateState, candidate: Candidate, source: bytes | dict[str, Any]) -> None:
        for name in _SOURCES:
            sources = getattr(candidate, name)
            if sources and sources != answer.cited.get(name):
                answer.cited[name] = sources
                if isinstance(source, dict) and isinstance(sources, dict):
                    sources = to_camel_case(sources, rename=False)
                answer.choice.citation(sources)
        raw = candidate.finishReason
        if isinstance(raw, Enum):
            raw = raw.value
        reason = finish_reason(raw)
        if reason is None:
            if raw is not None and raw.__class__ is not int and not isinstance(raw, str):
                self._sink.unknown({"finishReason": raw})
            return
        if reason == "stop":
            # The empty functionCall that ends a streamed call may be missing. After any other reason a call that
            # was not ended was cut.
            answer.calls.end_all()
        if reason != "stop" and isinstance(candidate.finishMessage, str) and candidate.finishMessage:
            self._sink.warn("finish_message", candidate.finishMessage)
        answer.choice.finish(raw, reason)

    def _read_part(
        self, answer: _CandidateState, part: WirePart, source: bytes | dict[str, Any], at: int, number: int
    ) -> None:
        """Any part but plain text and calls."""
        signature = signature_of(part.thoughtSignature)
        text, thought = part.text, part.thought is True
        choice = answer.choice
        if text is not None and not isinstance(text, str):
            self._sink.unknown(self._raw_part(source, at, number))
            return
        call = part.functionCall
        if text and (signature is None or call is not None):
            if thought:
                choice.reasoning(text)
            else:
                choice.text(text)
        elif text:
            self._signed(answer, text, signature, thought=thought)
        if call is not None:
            answer.read_call(call, signature)
        elif not text:
            self._read_thing(answer, self._raw_part(source, at, number), signature, thought=thought)

    def _signed(self, answer: _CandidateState, text: str, signature: str | None, *, thought: bool) -> None:
        key = answer.calls.new_key()
        if thought:
            answer.choice.reasoning(text, "text", key)
        else:
            answer.choice.text(text, key)
        answer.choice.add_metadata({SIGNATURE: signature}, key)

    def _read_thing(
        self, answer: _CandidateState, raw: dict[str, Any], signature: str | None, *, thought: bool
    ) -> None:
        """A file, a step of a tool that Google ran, what is not known here; or a signature with nothing beside it."""
        choice = answer.choice
        found = [name for name, value in raw.items() if value is not None and name not in _BESIDE]
        name = next((name for name in found if name in _THINGS and isinstance(raw[name], dict)), "")
        thing: dict[str, Any] = raw[name] if name else {}
        own_id = as_text(thing.get("id"))
        if name in ("executableCode", "codeExecutionResult"):
            told = {field: value for field, value in thing.items() if field != "id"}
            if name == "executableCode":
                choice.server_tool(own_id, "code_execution", "started")
            phase: ServerToolPhase = "arguments" if name == "executableCode" else "result"
            choice.server_tool(own_id, "code_execution", phase, told, raw=raw)
        elif name == "toolCall":
            tool, given = as_text(thing.get("toolType")) or "tool", thing.get("args")
            choice.server_tool(own_id, tool, "started", raw=raw if given is None else None)
            if given is not None:
                choice.server_tool(own_id, tool, "arguments", given, raw=raw)
        elif name == "toolResponse":
            tool = as_text(thing.get("toolType")) or "tool"
            choice.server_tool(own_id, tool, "result", thing.get("response"), raw=raw)
        elif name == "inlineData" and isinstance(thing.get("data"), str) and not thought:
            choice.file(as_text(thing.get("mimeType")), thing["data"], raw=raw)
        elif name == "fileData" and isinstance(thing.get("fileUri"), str) and not thought:
            choice.file(as_text(thing.get("mimeType")), None, thing["fileUri"], raw=raw)
        elif found:
            choice.provider_block(raw)  # also a thought that is a picture: a draft, and no part of the answer
        elif signature is not None:
            self._signed(answer, "", signature, thought=thought)

    # ---------------------------------------------------------------- the plain form of what was decoded

    def _plain(self, source: bytes | dict[str, Any]) -> dict[str, Any]:
        """The chunk as plain data; made once a frame, and only where something is kept as it came."""
        if self._raw_of is not source:
            self._raw = to_camel_case(source, rename=False) if isinstance(source, dict) else read_json(source)
            self._raw_of = source
            self._raw_parts = {}
        return self._raw

    def _raw_part(self, source: bytes | dict[str, Any], at: int, number: int) -> dict[str, Any]:
        """A part as it came, to be sent back unchanged."""
        raw = self._plain(source)
        parts = self._raw_parts.get(at)
        if parts is None:
            # Entries of another type than an object were left out when the chunk was fitted to its types.
            candidates = [entry for entry in raw["candidates"] if isinstance(entry, dict)]
            parts = [entry for entry in candidates[at]["content"]["parts"] if isinstance(entry, dict)]
            self._raw_parts[at] = parts
        part: dict[str, Any] = parts[number]
        return part


def _later(count: Any, held: Any) -> Any:
    """The later figure, where it is one; a zero never replaces a figure."""
    return count if count.__class__ is int and (count or held is None) else held
