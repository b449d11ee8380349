"""Ollama's lines to what they say.

The short path is a line that brings a piece of text or of thinking: one decode, a few attributes, one call of the
sink. All else is read as plain data, so that a field of another shape than it should have costs that field and not
the turn.

It does not know of canonical ids, of JSON being complete, of history or of I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamkit.calls import StreamError, Usage
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_integer, as_text, compact_json, error_message, excerpt, read_json
from streamkit.providers.ollama.schema import DECODER, DONE_REASONS, Json
from streamkit.providers.provider import Sink, Traits

__all__ = ["OllamaParser", "create_parser"]

_decode = DECODER.decode

#: How base64 begins of what image models make; the wire does not say which it is.
_MEDIA_TYPES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


def create_parser(sink: Sink, traits: Traits) -> OllamaParser:
    """Return a parser for one turn that reports to ``sink``."""
    return OllamaParser(sink)


class OllamaParser:
    """Reads one stream of Ollama's, or a body of the not streamed kind."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._choice = sink.choice(0)
        self._text = self._choice.text
        self._reasoning = self._choice.reasoning
        self._model: Any = None
        self._calls = 0

    def frame(self, name: bytes, data: bytes) -> None:
        """One line."""
        try:
            line = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._whole_line(data)
            return
        message = line.message
        if (
            message is None
            or line.done
            or line.done_reason
            or line.error
            or message.tool_calls
            or message.images
            or message.content.__class__ is not str
            or (message.thinking is not None and message.thinking.__class__ is not str)
        ):
            self._whole_line(data)
            return
        if line.model != self._model:
            self._identify(line.model)
        if message.thinking:
            self._reasoning(message.thinking)
        if message.content:
            self._text(message.content)

    def end(self) -> None:
        """The stream is over; nothing waits for that here."""

    def chunk(self, data: dict[str, Any]) -> None:
        """One line as plain data, or a whole body, which is the same."""
        self._identify(data.get("model"))
        message, ends = data.get("message"), data.get("done") or data.get("done_reason")
        if isinstance(message, dict):
            self._message(message, message.get("content"))
        elif message is None and "response" in data:  # of /api/generate, which also has the thread's token numbers
            self._message(data, data["response"])
        elif message is not None or not (ends or data.get("error")):
            self._sink.unknown(data)
        if data.get("error"):
            said = error_message(data) or "the provider reported an error"
            self._sink.fail(StreamError("provider_error", said, raw=data))
        if ends:
            self._end(data)

    def _whole_line(self, data: bytes) -> None:
        """A line that is not a plain one, or not what the strict decoder takes."""
        try:
            raw = read_json(data)
        except RecursionError:
            self._sink.fail(StreamError("limit_exceeded", "a line's JSON is nested too deeply", excerpt(data)))
            return
        except ValueError as error:
            self._sink.fail(StreamError("protocol_error", f"a line is no JSON ({error})", excerpt(data)))
            return
        if isinstance(raw, dict):
            self.chunk(raw)
        else:
            self._sink.unknown(raw)

    def _identify(self, model: Any) -> None:
        self._model = model
        self._sink.identify(None, as_text(model))

    # ------------------------------------------------------------ what a line brings

    def _message(self, message: Json, text: Any) -> None:
        """In the order in which the model says it: it thinks, it speaks, it calls."""
        thinking = message.get("thinking")
        if isinstance(thinking, str):
            if thinking:
                self._reasoning(thinking)
        elif thinking is not None:
            self._sink.unknown({"thinking": thinking})
        if isinstance(text, str):
            if text:  # the text of a line that brings something else is empty, and no text (pydantic/pydantic-ai#1292)
                self._text(text)
        elif text is not None:
            self._sink.unknown({"content": text})
        for call in _items(message.get("tool_calls")):
            self._call(call)
        for image in [*_items(message.get("images")), *_items(message.get("image"))]:
            if isinstance(image, str):
                media_type = next((kind for begin, kind in _MEDIA_TYPES.items() if image.startswith(begin)), None)
                self._choice.file(media_type, image)
            else:
                self._sink.unknown(image)

    def _call(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._sink.unknown(call)
            return
        arguments = function.get("arguments")
        try:
            # an object is written out once, and never by str(), which makes no JSON (BerriAI/litellm#11262)
            text = arguments if arguments is None or isinstance(arguments, str) else compact_json(arguments)
        except (RecursionError, TypeError, ValueError):
            self._sink.fail(StreamError("limit_exceeded", "a call's arguments are nested too deeply"))
            return
        key = ("call", self._calls)  # one of our own: the wire's index may be 0 for all of them
        self._calls += 1
        self._choice.tool(
            NormalizedToolChunk("start", as_text(call.get("id")), as_text(function.get("name")), text, key=key)
        )
        self._choice.end_block(key)

    # ------------------------------------------------------------ the end

    def _end(self, line: Json) -> None:
        """What the last line says."""
        prompt, output = as_integer(line.get("prompt_eval_count")), as_integer(line.get("eval_count"))
        if prompt is not None or output is not None:
            figures = {name: value for name, value in line.items() if str(name).endswith(("_count", "_duration"))}
            self._sink.usage(Usage(prompt, output, raw=figures))
        reason = line.get("done_reason")
        if isinstance(reason, str) and reason:
            self._choice.finish(reason, DONE_REASONS.get(reason, "other"))
        elif reason:
            self._choice.finish(reason if reason.__class__ is int else reason.__class__.__name__, "other")
        if line.get("done") is True:
            self._sink.terminate()


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]
