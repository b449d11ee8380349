"""The writer of Ollama streams: events as the lines that Ollama would have streamed.

A line has complete calls alone, so a call is written when its final state is known, and an incomplete one is left out.
The parser reads the same turn from them. ``created_at`` is the epoch and durations are 0, so that the lines depend on
the events alone. This module must not depend on requests, sockets or clocks.

Wire: https://docs.ollama.com/api/chat. A response that is not streamed has the form of one line.
"""

from __future__ import annotations

from typing import ClassVar, Final

from streamkit.calls import ToolCall
from streamkit.events import BlockEnded, File, LogProbabilities, ReasoningKind
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.decoding.log_probabilities import openai_log_probabilities
from streamkit.providers.ollama.schema import Json
from streamkit.providers.ollama.traits import ERRORS, FINISH_REASONS
from streamkit.providers.writing.block_order import WholeCallWriter
from streamkit.providers.writing.encoding import encode_chunk, encode_json
from streamkit.providers.writing.wire_output import LONGEST_REPEATED, ErrorBody, WirePlaces, WriterOptions, paths

__all__ = ["OllamaWriter", "create_writer", "error_body", "error_event"]

# Calls end in ``stop`` too. A reason for which the vendor has no name is the neutral one.
_CREATED: Final = "1970-01-01T00:00:00Z"  # no writer reads a clock
_DONE_REASONS: Final = invert_finish_reasons(FINISH_REASONS, preferred={"tool_calls": "stop"})


def create_writer(traits: Traits, options: WriterOptions) -> OllamaWriter:
    """Return a writer of one response."""
    return OllamaWriter(traits, options)


def error_body(status: int, message: str, code: str | None = None) -> Json:
    """Return the body with which the API reports a failed request. This wire has no code of an error."""
    return {"error": message}


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the line that ends a stream with an error (https://docs.ollama.com/api/errors)."""
    return encode_json(error_body(status, message)) + b"\n"


class OllamaWriter(WholeCallWriter):
    """A writer of one response, a line at a time. This wire has no response id."""

    error_rules: ClassVar[ErrorRules] = ERRORS
    places: ClassVar[WirePlaces | None] = WirePlaces(
        model=paths("model"),
        calls=paths("message.tool_calls.*"),
        finish=paths("done_reason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_DONE_REASONS,
    )
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)
    has_error_finish = False

    has_calls_without_id: ClassVar[bool] = True

    def __init__(self, traits: Traits, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._call_count = 0

    def _message(self, fields: Json) -> None:
        self.send(self._line(fields))

    def _line(self, fields: Json) -> Json:
        return {**self._head(), "message": {"role": "assistant", "content": "", **fields}, "done": False}

    def _text_line(self, text: str, field: str) -> Json:
        return self._line({field: text})

    def _head(self) -> Json:
        created = self.metadata.get("created_at", _CREATED)
        return {"model": self.model or "", "created_at": created if len(str(created)) <= LONGEST_REPEATED else _CREATED}

    def end(self) -> None:
        """Write the last line with finish reason and token counts, or the error."""
        if self.error is not None:
            self.send(error_body(*self.error_fields(self.error)))
            return
        if self.finish_is_error:
            self.send(error_body(500, "an error was encountered while running the model"))
            return
        done_reason = self.finish_name(FINISH_REASONS, _DONE_REASONS)
        ending: Json = {**self._head(), "message": {"role": "assistant", "content": ""}, "done": True}
        ending |= {"done_reason": done_reason, "total_duration": 0, "load_duration": 0}
        if self.usage is not None:
            counts = {"prompt_eval_count": self.usage.input_tokens, "eval_count": self.usage.output_tokens}
            ending |= {name: count for name, count in counts.items() if count is not None}
        self.send({**ending, **self.metadata})

    def encode(self, chunk: Json) -> bytes:
        """Return a line."""
        return encode_chunk(chunk) + b"\n"

    def body(self, chunks: list[Json]) -> Json:
        """Return the response that the lines build."""
        texts: dict[str, list[str]] = {"content": [], "thinking": []}
        lists: dict[str, list[object]] = {"tool_calls": [], "images": []}
        body: Json = {}
        for line in chunks:
            logprobs = [*body.get("logprobs", ()), *line.get("logprobs", ())]
            body |= {**line, "logprobs": logprobs} if logprobs else line
            for name, value in line.get("message", {}).items():
                if name in texts:
                    texts[name].append(value)
                elif name in lists:
                    lists[name] += value
        message: Json = {"role": "assistant", "content": "".join(texts["content"])}
        if texts["thinking"]:
            message["thinking"] = "".join(texts["thinking"])
        return {**body, "message": {**message, **{name: value for name, value in lists.items() if value}}}

    def text(self, text: str) -> None:
        """Write a text delta."""
        self.send_delta("content", self._text_line, text, "content")

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of thinking."""
        self.send_delta("thinking", self._text_line, text, "thinking")

    def log_probabilities(self, event: LogProbabilities) -> None:
        """Write log probabilities in a line without text."""
        if entries := openai_log_probabilities(event):
            self.send({**self._line({}), "logprobs": entries})
        else:
            super().log_probabilities(event)

    def end_block(self, event: BlockEnded) -> None:
        """Report the state of a block of another provider; a block has no end on this wire."""
        if self._own_state is None:
            super().end_block(event)

    def write_call(self, call: ToolCall, id: str | None) -> None:
        """Write a call; older servers sent no id."""
        index, self._call_count = self._call_count, self._call_count + 1
        arguments = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
        function: Json = {"function": {"index": index, "name": call.name, "arguments": arguments}}
        self._message({"tool_calls": [function if id is None else {"id": id, **function}]})

    def file(self, event: File) -> None:
        """Write an image; this wire has no field for its media type, nor for other files."""
        data = event.data
        if data and (event.media_type or "image/").startswith("image/") and "://" not in data[:16]:
            self._message({"images": [data.partition(";base64,")[2] or data]})
        else:
            self.omit("file", "a file that is no image with data was left out: the wire has no field for it")
