"""The base of the writer: the chunks of a response and of its choices, with their facts, finish, usage and errors.

``ChatDialect`` says what the stream of a dialect begins and ends with. This module must not depend on what a choice
contains, and it must not read a clock: ``created`` is 0.

The chunks of a Chat Completions stream as the body of a response that is not streamed.

Wire: https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from msgspec.structs import replace

from streamkit.calls import Usage
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.decoding.openai_errors import ERRORS, error_body
from streamkit.providers.openai_chat.schema import CHOICE_RESPONSE_FIELDS, RESPONSE_FIELDS, SOURCE_FIELDS
from streamkit.providers.openai_chat.traits import FINISH_REASONS, ChatDialect
from streamkit.providers.writing.block_order import ChoicesWriter
from streamkit.providers.writing.encoding import encode_chunk
from streamkit.providers.writing.wire_output import Json, WriterOptions

__all__ = [
    "ChunkWriter",
    "fold_chunks",
]


#: The fields of a choice that are read by themselves, or that the body has elsewhere.
_CHUNK_FIELDS = ("index", "delta", "logprobs", "finish_reason", "usage")


def fold_chunks(chunks: list[Json]) -> Json:
    """Return the completion that the chunks build: texts joined, the deltas of each call merged by index."""
    choices: dict[int, _Choice] = {0: _Choice(0)}
    body: Json = {}
    for chunk in chunks:
        body |= {name: value for name, value in chunk.items() if value is not None and name != "choices"}
        for part in chunk.get("choices") or ():
            number = part["index"]
            if number not in choices:
                choices[number] = _Choice(number)
            choices[number].add(part)
    return {**body, "object": "chat.completion", "choices": [choices[number].fold() for number in sorted(choices)]}


class _Choice:
    """A choice that the parts of chunks build."""

    def __init__(self, number: int) -> None:
        self._message: Json = {"role": "assistant", "content": None, "refusal": None}
        self._fields: Json = {"index": number, "message": self._message, "logprobs": None, "finish_reason": None}
        self._calls: dict[int, Json] = {}

    def add(self, part: Json) -> None:
        """Add the choice of a chunk."""
        fields, message = self._fields, self._message
        if part.get("finish_reason") is not None:
            fields["finish_reason"] = part["finish_reason"]
        for name, value in part.items():
            if name == "logprobs" and value is not None:
                fields[name] = _merged(fields[name], value)
            elif name not in _CHUNK_FIELDS:
                fields[name] = value
        for name, value in part["delta"].items():
            if name == "tool_calls":
                for call in value:
                    _merge_call(self._calls, call)
            elif value is not None and name != "role":
                message[name] = _merged(message.get(name), value)

    def fold(self) -> Json:
        """Return the choice."""
        if self._calls:
            self._message["tool_calls"] = list(self._calls.values())
            self._message["content"] = self._message["content"] or None
        return self._fields


def _merge_call(calls: dict[int, Json], delta: Json) -> None:
    index = delta["index"]
    fields = {name: value for name, value in delta.items() if name != "index"}
    calls[index] = _merged(calls[index], fields) if index in calls else fields


def _merged(before: Any, value: Any) -> Any:
    """Return two deltas of one field as one value."""
    if before is None:
        return value
    if isinstance(before, list) or isinstance(value, list):
        parts = _as_parts(before)
        for part in _as_parts(value):
            if parts and (joined := _joined(parts[-1], part)) is not None:
                parts = [*parts[:-1], joined]
            else:
                parts = [*parts, part]
        return parts
    if isinstance(before, dict) and isinstance(value, dict):
        return before | {name: _merged(before.get(name), item) for name, item in value.items()}
    return before + value if isinstance(before, str) and isinstance(value, str) else value


def _joined(before: Any, part: Any) -> Json | None:
    """Return two deltas of one part of a content as one part; None if they are different parts.

    Mistral's body has one part of reasoning, then one of text (https://docs.mistral.ai/capabilities/reasoning).
    """
    if not isinstance(before, dict) or not isinstance(part, dict):
        return None
    kind = before.get("type")
    if kind != part.get("type"):
        return None
    if kind == "text" and before.keys() == part.keys() == {"type", "text"}:
        return {**part, "text": _merged(before["text"], part["text"])}
    texts = (before.get("thinking"), part.get("thinking"))
    if kind == "thinking" and all(isinstance(text, list) for text in texts) and "signature" not in before:
        return {**before, **part, "thinking": _merged(*texts)}
    return None


def _as_parts(value: Any) -> list[Any]:
    """Return a content as a list of parts; a text is a part of type ``text``."""
    if isinstance(value, list):
        return value
    return [{"type": "text", "text": value}] if value else []


#: OpenAI has no name for a refusal of the model that ends a response; the nearest one is not executed either.
_FINISH_REASON_NAMES: Final = invert_finish_reasons(FINISH_REASONS, preferred={"refusal": "content_filter"})


class ChunkWriter(ChoicesWriter):
    """A writer of the chunks of a response and of its choices."""

    # invalid_request_error is the type of an error; the code of one names the fault of a field.
    error_rules: ClassVar[ErrorRules] = replace(ERRORS, unnamed=frozenset({"invalid_request"}))

    def __init__(self, traits: ChatDialect, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._dialect = traits
        self._has_usage_chunk = options.usage_chunk
        # Only the chunks of a stream that ends with one of its own for the usage have null before: the SDK of Mistral
        # for TypeScript refuses null.
        self._no_usage: Json = {"usage": None} if options.usage_chunk and traits.usage_position == "own" else {}
        self._line_end = 2 * traits.line_end.encode()
        self._common: Json = {}

    # ------------------------------------------------------------ the response

    def begin(self) -> None:
        """Write the first chunk of the dialect, and the chunk with the role."""
        common = {"id": self.response_id or "chatcmpl-0", "object": "chat.completion.chunk", "created": 0}
        facts: Json = {"service_tier": "default", "system_fingerprint": None}
        if self.is_same_wire:
            facts = {name: self.metadata[name] for name in ("created", *RESPONSE_FIELDS) if name in self.metadata}
        self._common = {**common, "model": self.model or "", **facts}
        if self._dialect.first_chunk == "comment":
            self.send_bytes(b": OPENROUTER PROCESSING\n\n")
        elif self.is_same_wire:
            if "prompt_filter_results" in self.metadata:
                chunk = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
                self.send({**chunk, "prompt_filter_results": self.metadata["prompt_filter_results"]})
        elif self._dialect.first_chunk == "prompt_filter":
            result = {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
            chunk = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
            self.send({**chunk, "prompt_filter_results": [result]})
        top = {name: self.metadata[name] for name in ("x_groq", *SOURCE_FIELDS) if name in self.metadata}
        self._delta({"role": "assistant", "content": "", "refusal": None}, top=top)

    def end(self) -> None:
        """Write the finish reason, the usage and the end marker, or the error."""
        self.end_others()
        counts = None if self.usage is None else self._usage_fields(self.usage)
        if self.finish is not None:
            self._last_chunks(counts)
        elif counts is not None and self._has_usage_chunk:
            self._usage_chunk(counts)
        if self.error is not None:
            self.send(self.own_error(error_body(*self.error_fields(self.error)), self.error))
        elif self._dialect.end_marker:
            self.send_bytes(b"data: %b%b" % (self._dialect.end_marker.encode(), self._line_end))

    # ------------------------------------------------------------ other choices

    def begin_choice(self, first: Self) -> None:
        """Write the chunk with the role."""
        self._common = first._common
        self._delta({"role": "assistant", "content": "", "refusal": None})

    def end_choice(self) -> None:
        """Write the finish reason."""
        self._delta({}, finish=_FINISH_REASON_NAMES[self.finish_reason])

    # ------------------------------------------------------------ chunks

    def _usage_chunk(self, counts: Json) -> None:
        self.send({**self._common, "choices": [], "usage": counts})

    def _last_chunks(self, counts: Json | None) -> None:
        position = self._dialect.usage_position
        if position == "own" and not self._has_usage_chunk:
            position = "finish"
        reason = _FINISH_REASON_NAMES[self.finish_reason]
        choice: Json = {}
        top: Json = {}
        if self.finish_is_error and self._dialect.error_in_band and self.error is None:
            top["error"] = {"code": 502, "message": "Provider returned error"}
        delta: Json = {}
        for name, value in self.metadata.items():
            if name in CHOICE_RESPONSE_FIELDS or name == "content_filter_results":
                choice[name] = value
            elif name == "provider_metadata":
                delta[name] = value
            elif name not in self._common and name not in ("prompt_filter_results", "x_groq"):
                top[name] = value
        if counts is not None:
            if position == "choice":
                choice["usage"] = counts
            # Servers of Moonshot's dialect have it in either place, and which one the events do not tell.
            if position in ("finish", "x_groq") or (position == "choice" and self.is_same_wire):
                top["usage"] = counts
            if position == "x_groq":
                known = self.metadata.get("x_groq", {}) if self.is_same_wire else {"id": self._common["id"]}
                top["x_groq"] = {**known, "usage": counts}
        self._delta(delta, choice, top, reason)
        if counts is not None and position == "own":
            self._usage_chunk(counts)
        elif counts is not None and position == "again":
            # Without the role, which OpenRouter repeats: OpenAI's SDK joins it to "assistantassistant".
            self._delta({"content": ""}, {}, {"usage": counts}, reason)

    def _usage_fields(self, usage: Usage) -> Json:
        prompt, output, reasoning = usage.input_tokens, usage.output_tokens, usage.reasoning_tokens
        cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
        total = (prompt or 0) + (output or 0)
        if self._dialect.reasoning_excluded_from_output and output is not None and reasoning and reasoning <= output:
            output -= reasoning
        details = {
            "prompt_tokens_details": {name: count for name, count in cached.items() if count is not None},
            "completion_tokens_details": {} if reasoning is None else {"reasoning_tokens": reasoning},
        }
        # Empty details are left out: @openrouter/ai-sdk-provider refuses those without a count.
        known = {name: counts for name, counts in details.items() if counts}
        fields = {"prompt_tokens": prompt or 0, "completion_tokens": output or 0, "total_tokens": total, **known}
        return self.with_own_usage(fields)

    def _delta(
        self, delta: Json, choice: Json | None = None, top: Json | None = None, finish: str | None = None
    ) -> None:
        """Send a chunk: its delta, further fields of its choice and of the chunk itself, and the finish reason."""
        chunk = self._chunk(delta, finish)
        if choice:
            chunk["choices"][0] |= choice
        if top:
            chunk |= top
        self.send(chunk)

    def _chunk(self, delta: Json, finish: str | None = None) -> Json:
        choice = {"index": self._number, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._common, "choices": [choice], **self._no_usage}

    def encode(self, chunk: Json) -> bytes:
        """Return a chunk as a server-sent event."""
        return b"data: %b%b" % (encode_chunk(chunk), self._line_end)

    def error_body(self, status: int, message: str, code: str | None) -> Json:
        """Return the body of a response that failed."""
        return error_body(status, message, code)

    def body(self, chunks: list[Json]) -> Json:
        """Return the completion that the chunks build."""
        return fold_chunks(chunks)
