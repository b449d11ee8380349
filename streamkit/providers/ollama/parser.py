"""The parser of Ollama's native streams.

The fast path is a line with a delta of text or thinking: one decode, a few attributes, one call of the sink. All other
lines are read as plain data, so that a field of an unexpected type costs that field and not the turn.

This module must not depend on canonical ids, on the completeness of JSON, on history or on I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding.decoding import (
    arguments_as_text,
    as_integer,
    as_text,
    error_message,
    frame_error,
    read_json,
    report_unknown_fields,
)
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.decoding.log_probabilities import read_log_probabilities
from streamkit.providers.ollama.schema import (
    CALL_FIELDS,
    DECODER,
    FUNCTION_FIELDS,
    LINE_FIELDS,
    MESSAGE_FIELDS,
    RESPONSE_FIELDS,
    Json,
)
from streamkit.providers.ollama.traits import FINISH_REASONS
from streamkit.providers.provider import Sink, Traits
from streamkit.values.media import sniff_base64_type

__all__ = ["OllamaParser", "create_parser"]

_decode = DECODER.decode
_LONGEST_DELTA = 200  # bytes of a line that is decoded as a delta: most with calls or the end are longer


def create_parser(sink: Sink, traits: Traits) -> OllamaParser:
    """Return a parser for one turn that reports to ``sink``."""
    return OllamaParser(sink)


class OllamaParser:
    """A parser of one stream, or of a body that was not streamed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._model: Any = None
        self._facts: Json = {}  # those about the response that were reported
        self._call_count = 0

    def frame(self, name: bytes, data: bytes) -> None:
        """Read one line."""
        if len(data) > _LONGEST_DELTA:
            self._parse_slow(data)
            return
        try:
            line = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._parse_slow(data)
            return
        message = line.message
        if line.done or message.tool_calls:
            del line, message  # many calls take 20 times their bytes, and would do so twice
            self._parse_slow(data)
            return
        if line.model != self._model:
            self._identify(line.model, line.created_at)
        if line.remote_model or line.remote_host:
            self._keep_facts({"remote_model": line.remote_model, "remote_host": line.remote_host})
        if message.thinking:
            self._reasoning(message.thinking)
        if message.content:
            self._text(message.content)

    def chunk(self, data: dict[str, Any]) -> None:
        """Read one line as plain data, or a body that was not streamed, which has the same form."""
        message, ends = data.get("message"), data.get("done") or data.get("done_reason")
        if "type" in data or "finish_reason" in data:  # of another wire, whose events may have a message or a response
            message, ends, is_line = data, None, False
        else:
            is_line = isinstance(message, dict) or "response" in data or ("model" in data and bool(ends))
        if is_line:
            self._identify(data.get("model"), data.get("created_at"))
        if is_line and isinstance(message, dict):
            self._report_line_fields(data, message)
            self._read_message(message, message.get("content"))
            self._read_logprobs(data.get("logprobs"))
        elif is_line and message is None and "response" in data:  # of /api/generate, with the tokens of the context
            self._report_line_fields(data, {})
            self._read_message(data, data["response"])
            self._read_images(data.get("image"))
            self._read_logprobs(data.get("logprobs"))
        elif message is not None or not (ends or data.get("error")):
            self._sink.unknown(data)
        if data.get("error"):
            text = error_message(data) or "the provider reported an error"
            self._sink.fail(StreamError("provider_error", text, raw=data))
        if ends:
            self._read_end(data)

    def end(self) -> None:
        """Do nothing: this parser holds nothing back."""

    def _parse_slow(self, data: bytes) -> None:
        """Read a line that is not a plain delta, or that the strict decoder refused."""
        try:
            raw = read_json(data)
        except (RecursionError, ValueError) as error:
            self._sink.fail(frame_error(error, data))
            return
        if isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)

    def _report_line_fields(self, line: Json, message: Json) -> None:
        """Report the fields of a line that are facts about the response, and those that this wire does not have."""
        self._keep_facts(line)
        report_unknown_fields(self._sink, line, LINE_FIELDS)
        report_unknown_fields(self._sink, message, MESSAGE_FIELDS, "message.")
        for call in _items(message.get("tool_calls")):
            if isinstance(call, dict) and isinstance(call.get("function"), dict):  # another is unknown as a whole
                report_unknown_fields(self._sink, call, CALL_FIELDS, "tool_call.")
                report_unknown_fields(self._sink, call["function"], FUNCTION_FIELDS, "tool_call.function.")

    def _keep_facts(self, line: Json) -> None:
        facts = {name: line[name] for name in RESPONSE_FIELDS if line.get(name)}
        if facts and facts != self._facts:
            self._facts = facts
            self._sink.add_response_metadata(facts)

    def _read_logprobs(self, logprobs: Any) -> None:
        """Report log probabilities, and keep them with their text."""
        if isinstance(logprobs, list) and logprobs:
            self._choice.log_probabilities(read_log_probabilities(logprobs), logprobs)
            self._choice.add_metadata({"logprobs": logprobs})

    def _identify(self, model: Any, created_at: Any) -> None:
        self._model = model
        self._sink.identify(None, as_text(model), {"created_at": created_at} if isinstance(created_at, str) else None)

    # ------------------------------------------------------------ messages

    def _read_message(self, message: Json, text: Any) -> None:
        """Read a message in the order in which the model generates it: thinking, text, calls, images."""
        thinking = message.get("thinking")
        if isinstance(thinking, str):
            if thinking:
                self._reasoning(thinking)
        elif thinking is not None:
            self._sink.unknown({"thinking": thinking})
        if isinstance(text, str):
            if text:  # a line of something else has empty content, which is no text block (pydantic/pydantic-ai#1292)
                self._text(text)
        elif text is not None:
            self._sink.unknown({"content": text})
        for position, call in enumerate(_items(message.get("tool_calls"))):
            self._read_call(call, position)
        self._read_images(message.get("images"))

    def _read_images(self, images: Any) -> None:
        for image in _items(images):
            if isinstance(image, str):
                self._choice.file(sniff_base64_type(image), image)  # the wire has no field for the media type
            else:
                self._sink.unknown(image)

    def _read_call(self, call: Any, position: int) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._sink.unknown(call)
            return
        arguments = function.get("arguments")
        # An object is encoded once, and never by str(), whose result is not JSON (BerriAI/litellm#11262).
        text = arguments_as_text(arguments, self._sink)
        if arguments and not text:  # nested too deeply, as was reported
            return
        key = ("call", self._call_count)  # not the wire's index, which may be 0 for all calls
        self._call_count += 1
        call_id, name = as_text(call.get("id")), as_text(function.get("name"))
        self._choice.tool(NormalizedToolChunk("start", call_id, name, text, key=key, position=position))
        self._choice.end_block(key)

    # ------------------------------------------------------------ the end

    def _read_end(self, line: Json) -> None:
        """Report usage, finish reason and end of the last line."""
        prompt, output = as_integer(line.get("prompt_eval_count")), as_integer(line.get("eval_count"))
        if prompt is not None or output is not None:
            counts = {name: value for name, value in line.items() if str(name).endswith(("_count", "_duration"))}
            cached = as_integer(
                line.get("prompt_eval_cached_count")
            )  # of the prompt (https://docs.ollama.com/api/usage)
            self._sink.usage(Usage(prompt, output, cache_read_tokens=cached, raw=counts))
        reason = line.get("done_reason")
        if is_reason(reason):
            self._choice.finish(*read_finish_reason(reason, FINISH_REASONS))
        if line.get("done") is True:
            self._sink.terminate()


def _items(value: Any) -> list[Any]:
    """Return a list unchanged, another value as a list of it; an empty value is absent, as in ``frame``."""
    if isinstance(value, list):
        return value
    return [value] if value else []
