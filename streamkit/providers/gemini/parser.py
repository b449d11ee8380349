"""The parser of Gemini's streams: candidates, their parts and the thought signatures of these, and how they end.

Wire: https://ai.google.dev/api/generate-content, https://ai.google.dev/gemini-api/docs/thought-signatures
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling

Every chunk is a complete response that contains only the new parts. There is no terminator: the finish reason confirms
the turn. A part contains one kind of data (text, a thought, a complete call, a file, a step of a tool that Google ran).
A signature belongs to the part that it came on, also if the text of that part is empty: "Don't merge one part with a
signature with another part without a signature". Signed text is therefore a block of its own, separate from unsigned
text before and after it.

It must not depend on accumulation, history or I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from streamkit.calls import FinishReason, StreamError
from streamkit.events import ServerToolPhase
from streamkit.ids import normalize_index
from streamkit.providers.decoding.decoding import as_integer, as_text, convert, error_message, frame_error, read_json
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.gemini.function_calls import FunctionCallReader
from streamkit.providers.gemini.metadata import ResponseMetadataReader, UsageReader, facts_prefix
from streamkit.providers.gemini.schema import (
    CHUNK_DECODER,
    DATA_FIELDS,
    FURTHER_DATA_FIELDS,
    NON_DATA_FIELDS,
    PART_METADATA,
    SIGNATURE,
    Candidate,
    GenerateContentChunk,
    WideChunk,
    WirePart,
    is_rest_form,
    signature_of,
    to_camel_case,
)
from streamkit.providers.gemini.traits import FINISH_REASONS, retry_delay
from streamkit.providers.provider import ChoiceSink, Sink, Traits

__all__ = ["GeminiParser", "create_parser"]

_decode = CHUNK_DECODER.decode
_READ_PART = WirePart()
#: Finish reasons in the order of their numbers in google.ai.generativelanguage.v1beta, which is what
#: ``$alt=json;enum-encoding=int`` sends. Vertex numbers them differently from 6 on (there 6 is BLOCKLIST and 9
#: MALFORMED_FUNCTION_CALL) and the bytes do not show which of the two it is. From 7 on, no call may run by either list.
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "IMAGE_RECITATION",
)
_MAX_CANDIDATES = 128  # the limit of the sink as well: numbers invented by the wire must not fill memory
#: https://ai.google.dev/api/generate-content#GroundingMetadata, #v1beta.CitationMetadata and #UrlContextMetadata
_CITATION_FIELDS = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


class _CandidateState:
    """The state of one candidate between chunks."""

    __slots__ = ("calls", "choice", "citations", "number", "read_call", "signed_key", "text")

    def __init__(self, sink: Sink, number: int) -> None:
        self.number = number
        self.choice = sink.choice(number)
        self.calls = FunctionCallReader(sink, self.choice)
        self.text = self.choice.text
        self.read_call = self.calls.read
        self.citations: dict[str, Any] | None = None  # those already reported: some streams repeat them in every chunk
        self.signed_key: int | None = None  # of the part that is read, if it has a signature: a block of its own

    def end_signed(self) -> None:
        """End the block of a part with a signature."""
        if self.signed_key is not None:
            self.choice.end_block(self.signed_key)
            self.signed_key = None


def create_parser(sink: Sink, traits: Traits) -> GeminiParser:
    """Return a parser for one turn that reports to ``sink``."""
    return GeminiParser(sink)


class GeminiParser:
    """A parser of one stream."""

    __slots__ = (
        "_first",
        "_further",
        "_is_identified",
        "_metadata",
        "_raw",
        "_raw_candidates",
        "_raw_parts",
        "_raw_source",
        "_sink",
        "_usage",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._first = _CandidateState(sink, 0)
        self._further: dict[int, _CandidateState] = {}  # the other candidates, by number
        self._is_identified = False
        self._usage = UsageReader(sink)
        self._metadata = ResponseMetadataReader(sink)
        self._raw_source: Any = None  # the frame or dict whose plain form is ``_raw``
        self._raw: dict[str, Any]  # these are set with it
        self._raw_candidates: list[dict[str, Any]]
        self._raw_parts: tuple[int, list[dict[str, Any]]]  # of the candidate at this place

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one SSE event, or one element of the array."""
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._read_slow(data)
            return
        self._read(chunk, data, is_wide=False)

    def _read_slow(self, data: bytes) -> None:
        """Read an event whose values are not of the usual types, as plain data: it is decoded once."""
        try:
            raw = read_json(data)
        except (RecursionError, ValueError) as error:
            if data.strip():  # not "data:" alone, which some gateways send to keep the connection
                self._sink.fail(frame_error(error, data))
            return
        chunk = convert(raw, WideChunk, self._sink)
        if chunk is not None:
            self._keep_plain(data, raw)
            self._read(chunk, data, is_wide=True)
            self._keep_plain(b"", {})

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one response as a dict in the spelling of REST or of google-genai, or a body that was not streamed."""
        if not is_rest_form(data):
            data = to_camel_case(data)
        self._raw_source = None  # the same dict may be fed again after a change
        chunk = convert(data, WideChunk, self._sink)
        if chunk is not None:
            self._read(chunk, data, is_wide=True)

    def end(self) -> None:
        """Report the token counts and the log probabilities of a truncated response."""
        if self._usage.is_pending:
            self._usage.report()
        self._metadata.end()

    def _read(self, chunk: GenerateContentChunk, source: bytes | dict[str, Any], *, is_wide: bool) -> None:
        if not self._is_identified:
            self._identify(chunk)
        finishes = False
        candidates = chunk.candidates
        if candidates:
            for at, candidate in enumerate(candidates):
                index = candidate.index
                state = self._first if index == 0 or (index is None and at == 0) else self._candidate(index, at)
                content = candidate.content
                if is_wide:
                    self._read_wide(state, candidate, source, at)
                elif content is not None and content.parts:
                    for number, part in enumerate(content.parts):
                        text = part.text
                        if text and text.__class__ is str and part.thoughtSignature is None and part.thought is None:
                            state.text(text)
                            if part.functionCall is not None:
                                state.read_call(part.functionCall, None, number)
                        elif part.functionCall is not None and text is None:
                            state.read_call(part.functionCall, part.thoughtSignature, number)
                        else:
                            self._read_part(state, part, source, at, number)
                            state.end_signed()
                if (
                    candidate.finishReason is not None
                    or candidate.groundingMetadata is not None
                    or candidate.citationMetadata is not None
                    or candidate.urlContextMetadata is not None
                ):
                    finishes = True
                    self._read_end(state, candidate, source)
        elif candidates is None and chunk.promptFeedback is None and chunk.error is None:
            if (
                chunk.usageMetadata is None
                and as_text(chunk.modelVersion) is None
                and as_text(chunk.responseId) is None
            ):
                self._sink.unknown(self._plain(source))
                return
        if is_wide and isinstance(chunk, WideChunk) and chunk.modelStatus is not None:
            self._sink.add_response_metadata({"modelStatus": self._plain(source).get("modelStatus")})
        if chunk.promptFeedback is not None:
            self._sink.add_response_metadata({"promptFeedback": self._plain(source).get("promptFeedback")})
            self._read_feedback(chunk.promptFeedback)
        counts = chunk.usageMetadata
        if counts is not None:
            self._usage.store(counts)
            if finishes or not candidates:
                self._usage.report(self._plain(source).get("usageMetadata"))
        if chunk.error is not None and chunk.error is not False:
            self._fail(chunk.error)

    # ---------------------------------------------------------------- identity, feedback and errors

    def _identify(self, chunk: GenerateContentChunk) -> None:
        response_id, model = as_text(chunk.responseId), as_text(chunk.modelVersion)
        if response_id or model:
            self._sink.identify(response_id, model, {"createTime": chunk.createTime} if chunk.createTime else None)
            self._is_identified = response_id is not None and model is not None
        if chunk.createTime is not None:
            self._sink.add_response_metadata({"createTime": chunk.createTime})
        counts, candidates = chunk.usageMetadata, chunk.candidates
        if counts is not None and candidates and candidates[0].finishReason is None:
            self._usage.report_first(counts)

    def _read_feedback(self, feedback: Any) -> None:
        """Report a blocked prompt as the finish; the response has no candidate then.

        "If set, the prompt was blocked and no candidates are returned"
        (https://ai.google.dev/api/generate-content#PromptFeedback).
        """
        raw = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if _interpret_finish_reason(raw) is None or str(raw).endswith("BLOCKED_REASON_UNSPECIFIED"):
            return
        message = feedback.get("blockReasonMessage")
        if isinstance(message, str) and message:
            self._sink.warn("finish_message", message)
        self._first.choice.finish(raw, "content_filter")

    def _fail(self, error: Any) -> None:
        """Report an error body ``{"code", "message", "status", "details"}``."""
        message = error_message({"error": error}) or "the provider reported an error"
        status = as_integer(error.get("code")) if isinstance(error, dict) else None
        seconds = retry_delay(error)
        self._sink.fail(StreamError("provider_error", message, raw=error, status=status, retry_after=seconds))

    # ---------------------------------------------------------------- candidates

    def _candidate(self, index: Any, at: int) -> _CandidateState:
        # A candidate without a number is the first. Several without one are distinguished by their order alone.
        number = normalize_index(index)
        if number.__class__ is not int or number < 0:
            number = at
        if number == 0:
            return self._first
        state = self._further.get(number)
        if state is None:
            state = _CandidateState(self._sink, number)
            if len(self._further) + 1 < _MAX_CANDIDATES:
                self._further[number] = state
        return state

    def _read_end(self, state: _CandidateState, candidate: Candidate, source: bytes | dict[str, Any]) -> None:
        """Report citations, finish message and finish reason of a candidate."""
        for name in _CITATION_FIELDS:
            citation = getattr(candidate, name)
            if citation and (state.citations is None or citation != state.citations.get(name)):
                state.citations = {**(state.citations or {}), name: citation}
                if isinstance(source, dict) and isinstance(citation, dict):
                    citation = to_camel_case(citation, rename=False)
                state.choice.citation(citation)
        raw = candidate.finishReason
        if isinstance(raw, Enum):
            raw = raw.value
        reason = _interpret_finish_reason(raw)
        if reason is None:
            if raw is not None and raw.__class__ is not int and not isinstance(raw, str):
                self._sink.unknown({"finishReason": raw})
            return
        if isinstance(candidate.finishMessage, str) and candidate.finishMessage:
            self._sink.add_response_metadata({f"{facts_prefix(state.number)}finishMessage": candidate.finishMessage})
        if reason == "stop":
            # The empty functionCall that ends a streamed call may be missing. After any other reason a call without
            # its end was truncated.
            state.calls.end_all()
        if reason != "stop" and isinstance(candidate.finishMessage, str) and candidate.finishMessage:
            self._sink.warn("finish_message", candidate.finishMessage)
        state.choice.finish(raw, reason)

    # ---------------------------------------------------------------- parts

    def _read_wide(self, state: _CandidateState, candidate: Candidate, source: bytes | dict[str, Any], at: int) -> None:
        """Read the parts and rare fields of a candidate, if its chunk has a field that most chunks do not have."""
        content = candidate.content
        parts = content.parts or [] if content is not None else []
        for number, part in enumerate(parts):
            parts[number] = _READ_PART  # many of a few bytes take 30 times their memory, and once more as plain data
            self._read_part(state, part, source, at, number)
            if part.text or part.functionCall is not None:  # of any other part these fields were read as its data
                raw = self._raw_part(source, at, number)
                data = {
                    name: value
                    for name, value in raw.items()
                    if (name in DATA_FIELDS or name in FURTHER_DATA_FIELDS) and value is not None
                }
                if data:
                    _read_data(data, state.choice, is_thought=part.thought is True)
                metadata = {name: raw[name] for name in PART_METADATA if raw.get(name) is not None}
                if metadata:
                    state.choice.add_metadata(metadata, None if part.functionCall is None else state.calls.last_key)
            state.end_signed()
        self._metadata.read_candidate(state.number, candidate)

    def _read_part(
        self, state: _CandidateState, part: WirePart, source: bytes | dict[str, Any], at: int, number: int
    ) -> None:
        """Read any part except plain text and calls.

        Thoughts are parts with ``thought: true`` (https://ai.google.dev/gemini-api/docs/thinking#summaries).
        """
        signature = signature_of(part.thoughtSignature)
        text, is_thought = part.text, part.thought is True
        choice = state.choice
        if text is not None and not isinstance(text, str):
            self._sink.unknown(self._raw_part(source, at, number))
            return
        call = part.functionCall
        if text and (signature is None or call is not None):
            if is_thought:
                choice.reasoning(text)
            else:
                choice.text(text)
        elif text:
            self._report_signed(state, text, signature, is_thought=is_thought)
        if call is not None:
            state.read_call(call, signature, number)
        elif not text:
            has_data = _read_data(self._raw_part(source, at, number), choice, is_thought=is_thought)
            if not has_data and signature is not None:
                self._report_signed(state, "", signature, is_thought=is_thought)

    def _report_signed(self, state: _CandidateState, text: str, signature: str | None, *, is_thought: bool) -> None:
        key = state.calls.new_key()
        if is_thought:
            state.choice.reasoning(text, "text", key)
        else:
            state.choice.text(text, key)
        state.choice.add_metadata({SIGNATURE: signature}, key)
        state.signed_key = key

    # ---------------------------------------------------------------- plain data of the decoded chunk

    def _plain(self, source: bytes | dict[str, Any]) -> dict[str, Any]:
        """Return the chunk as plain data. It is made once a frame, and only if something is kept unchanged."""
        if self._raw_source is not source:
            self._keep_plain(
                source, to_camel_case(source, rename=False) if isinstance(source, dict) else read_json(source)
            )
        return self._raw

    def _keep_plain(self, source: bytes | dict[str, Any], raw: dict[str, Any]) -> None:
        self._raw_source, self._raw = source, raw
        candidates = raw.get("candidates")
        # Entries that are not objects were left out when the chunk was coerced to its types.
        entries = candidates if isinstance(candidates, list) else ()
        self._raw_candidates = [entry for entry in entries if isinstance(entry, dict)]
        self._raw_parts = -1, []

    def _raw_part(self, source: bytes | dict[str, Any], at: int, number: int) -> dict[str, Any]:
        """Return a part as plain data, to be sent back unchanged."""
        self._plain(source)
        if self._raw_parts[0] != at:
            parts = self._raw_candidates[at]["content"]["parts"]
            self._raw_parts = at, [entry for entry in parts if isinstance(entry, dict)]
        return self._raw_parts[1][number]


def _read_data(raw: dict[str, Any], choice: ChoiceSink, *, is_thought: bool) -> bool:
    """Report a part without text or call: a file, a step of a server tool or unknown data; False if it has none.

    Server tools are executed code (https://ai.google.dev/gemini-api/docs/code-execution) and ``toolCall`` with its
    ``toolResponse``: "The client is NOT expected to execute this `ToolCall`" but should pass both back
    (https://googleapis.github.io/python-genai/genai.html#genai.types.ToolCall).
    """
    names = [name for name, value in raw.items() if value is not None and name not in NON_DATA_FIELDS]
    name = next((name for name in names if name in DATA_FIELDS and isinstance(raw[name], dict)), "")
    data: dict[str, Any] = raw[name] if name else {}
    data_id = as_text(data.get("id"))
    if name in ("executableCode", "codeExecutionResult"):
        fields = {field: value for field, value in data.items() if field != "id"}
        if name == "executableCode":
            choice.server_tool(data_id, "code_execution", "started")
        phase: ServerToolPhase = "arguments" if name == "executableCode" else "result"
        choice.server_tool(data_id, "code_execution", phase, fields, raw=raw)
    elif name == "toolCall":
        tool, arguments = as_text(data.get("toolType")) or "tool", data.get("args")
        choice.server_tool(data_id, tool, "started", raw=raw if arguments is None else None)
        if arguments is not None:
            choice.server_tool(data_id, tool, "arguments", arguments, raw=raw)
    elif name == "toolResponse":
        tool = as_text(data.get("toolType")) or "tool"
        choice.server_tool(data_id, tool, "result", data.get("response"), raw=raw)
    elif name == "inlineData" and isinstance(data.get("data"), str) and not is_thought:
        choice.file(as_text(data.get("mimeType")), data["data"], raw=raw)
    elif name == "fileData" and isinstance(data.get("fileUri"), str) and not is_thought:
        choice.file(as_text(data.get("mimeType")), None, data["fileUri"], raw=raw)
    elif names:
        choice.provider_block(raw)  # includes a thought that is an image: a draft, not a part of the response
    return bool(names)


def _interpret_finish_reason(raw: Any) -> FinishReason | None:
    """Return the neutral finish reason of a wire value.

    Args:
        raw: the reason as the wire writes it, as an SDK or a gateway spells it (``FinishReason.STOP``, ``stop``), or as
            its number, also in text.

    Returns:
        The reason, or None if the value is absent, empty, unspecified, or neither text nor an integer.
    """
    if isinstance(raw, str) and raw.isdecimal() and len(raw) < 4:
        raw = int(raw)
    if raw.__class__ is int:
        raw = _NUMBERED[raw] if 0 <= raw < len(_NUMBERED) else "OTHER"
    if not isinstance(raw, str) or not is_reason(raw):
        return None
    return read_finish_reason(raw, FINISH_REASONS)[1]
