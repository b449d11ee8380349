"""Parser of Chat Completions streams: one parser for every dialect.

Calls are entries of ``delta.tool_calls``, identified by ``index``. The id and the name come with the first delta, the
arguments as deltas of JSON text. That is what OpenAI sends. Other servers leave out the index, repeat ids and names,
send complete calls, or restate arguments. All of it is passed on as it came, because the accumulator alone assigns a
delta to a call (docs/rules.md, "Assigning a delta to a call"). This module only finds text, reasoning, calls, usage and
errors.

A finish reason does not end the turn: Together sends further calls after it, other servers the usage. ``[DONE]`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from streamkit.accumulator.limits import MAX_CHOICES
from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.providers.contract.sink import ChoiceSink, Sink
from streamkit.providers.decoding.decoding import as_text, convert
from streamkit.providers.decoding.finish_reasons import is_reason, read_finish_reason
from streamkit.providers.decoding.openai_errors import openai_stream_error
from streamkit.providers.openai_chat.content_blocks import (
    REASONING_DETAIL_FIELDS,
    call_arguments,
    read_content_parts,
    read_irregular_call,
    read_reasoning,
)
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.openai_chat.fields import (
    NO_CHOICE_FACTS,
    NO_FACTS,
    ExtrasReader,
    ResponseReader,
    find_error,
    flagged_filters,
    plain_chunk,
    report_other_fields,
    start_facts,
)
from streamkit.providers.openai_chat.other_forms import MessageListReader, OtherForms, read_irregular_frame
from streamkit.providers.openai_chat.schema import CallDelta, Chunk, ChunkChoice, Delta, PlainChunk
from streamkit.providers.openai_chat.traits import FINISH_REASONS, REASONING_FIELDS, SECOND_KEY
from streamkit.providers.provider import Traits

__all__ = ["ChatParser", "create_parser"]

#: The fields of a message by the kind of block that they become.
_BLOCK_FIELDS = {
    "text": ("content",),
    "reasoning": REASONING_FIELDS,
    "refusal": ("refusal",),
    "call": ("tool_calls", "function_call"),
    "file": ("images", "audio"),
}

_decode = msgspec.json.Decoder(PlainChunk).decode

_NOTHING_STREAMED: frozenset[tuple[int, str]] = frozenset()  # one for all parsers: an empty set has 216 bytes

_PADDING = re.compile(rb'"(?:obfuscation|p)" ?: ?"([0-9A-Za-z]*)"')
_UNREAD_NAMES = frozenset({"obfuscation", "p", "token_id"})
_UNREAD_NUMBER = re.compile(rb'"token_id" ?: ?([0-9]+)')  # Together, which sends the text twice


def create_parser(sink: Sink, traits: Traits) -> ChatParser:
    """Return a parser for one turn that reports to ``sink``."""
    return ChatParser(sink, has_message_lists=isinstance(traits, ChatDialect) and traits.stream.message_lists)


class ChatParser(ResponseReader):
    """A parser of one Chat Completions stream."""

    __slots__ = (
        "_choice_sink",
        "_extras",
        "_has_deltas",
        "_has_legacy_text",
        "_is_identified",
        "_messages",
        "_other_forms",
        "_plain",
        "_streamed",
    )

    padding = _PADDING
    unread_number = _UNREAD_NUMBER

    def __init__(self, sink: Sink, *, has_message_lists: bool = False) -> None:
        self._sink = sink
        self._choice_sink = sink.choice(0)
        self._plain: PlainChunk | None = None  # the last frame, if it had this form
        self._is_identified = False  # the sink has the response's id and model
        self._facts, self._choice_facts, self._filter_results = NO_FACTS, NO_CHOICE_FACTS, None
        self._extras: ExtrasReader | None = None  # created at the first rare field
        self._messages = MessageListReader(sink) if has_message_lists else None
        self._other_forms: OtherForms | None = None  # created at the first chunk that is not of the plain form
        self._has_legacy_text = False
        self._has_deltas: bool | None = None  # the first choice was a delta; None before it
        self._streamed = _NOTHING_STREAMED  # kinds of blocks of a choice that a message repeats

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one SSE event."""
        try:  # a decode that fails takes ten times one that does not, and nearly each stream has a terminator
            chunk = _decode(data) if data != b"[DONE]" and name != b"error" else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            chunk = None
        self._plain = chunk
        if chunk is None:
            self._parse_slow(name, data)
            return
        self._read(chunk, data)

    def plain_delta(self) -> tuple[Callable[..., None], str, Hashable, str | None] | None:
        """Implement ``PlainParser.plain_delta``."""
        chunk, self._plain = self._plain, None  # a decoded chunk takes 1.5 kB
        choices = chunk.choices if chunk is not None else None
        if chunk is None or not choices or len(choices) > 1 or not self._is_identified:
            return None
        choice, delta = choices[0], choices[0].delta
        if (
            delta is None
            or choice.index != 0
            or choice.finish_reason is not None
            or choice.usage is not None
            or choice.logprobs is not None
            or chunk.usage is not None
            or chunk.citations is not None
            or chunk.search_results is not None
            or chunk.x_groq is not None
            or delta.refusal
        ):
            return None
        content: Any = delta.content
        calls, reasoning = delta.tool_calls, delta.reasoning_content or delta.reasoning
        if isinstance(content, list) and not reasoning:
            reasoning = _only_thinking(content)
            content = None if reasoning else content
        if bool(content) + bool(calls) + bool(reasoning) != 1:
            return None
        results: Any = choice.content_filter_results
        if results and (content.__class__ is not str or not _found_nothing(results, content)):
            return None
        if calls and len(calls) == 1:
            function, key = calls[0].function, calls[0].index
            if function is not None and key.__class__ is int and not (calls[0].id or function.name):
                arguments = function.arguments
                if arguments.__class__ is str and arguments and calls[0].extra_content is None:
                    return self._choice_sink.arguments, arguments, key, None
        elif content:
            if content.__class__ is str and not delta.reasoning_details:
                return self._choice_sink.text, content, None, None
        elif reasoning.__class__ is str:
            if not delta.reasoning_details:
                return self._choice_sink.reasoning, reasoning, None, "text"
            details: Any = delta.reasoning_details
            detail = details[0] if isinstance(details, list) and len(details) == 1 else None
            if (
                isinstance(detail, dict)
                and _UNREAD_NAMES.isdisjoint(detail)
                and not any(isinstance(value, (dict, list)) for value in detail.values())
            ):
                field = next((name for name in REASONING_DETAIL_FIELDS.values() if detail.get(name)), "")
                if detail.get(field) == reasoning:
                    return self._reason_in_detail, reasoning, (detail, field), None
        return None

    def _reason_in_detail(self, text: str, place: Any) -> None:
        """Report reasoning that one typed detail repeats (OpenRouter), as ``place``: the detail and its field."""
        detail, field = place
        self._choice_sink.reasoning(text, "summary" if detail.get("type") == "reasoning.summary" else "text")
        self._choice_sink.add_metadata({"reasoning_details": [{**detail, field: text}]})

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one chunk given as a dict, or a complete ``chat.completion``."""
        try:
            chunk = msgspec.convert(data, PlainChunk)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            self._read_data(data)
            return
        self._read(chunk, data)

    def end(self) -> None:
        """Pass on the calls of a list of messages; nothing else is buffered."""
        if self._messages is not None:
            self._messages.end()

    def _parse_slow(self, name: bytes, data: bytes) -> None:
        """Parse a frame that the decoder of plain chunks refused, or that is named as an error."""
        if data == b"[DONE]":
            self.end()
            self._sink.terminate()
            return
        value = read_irregular_frame(name, data, self._sink)
        if value is not None:
            self._read_data(value)

    def _read_data(self, data: dict[str, Any]) -> None:
        if self._messages is None:
            self._read_rare(data)
            return
        for chunk in self._messages.split(data):
            self._read_rare(chunk)

    def _read(self, chunk: PlainChunk, raw: Any) -> None:
        """Read a chunk of the plain form, which has no rare and no unknown field."""
        choices = chunk.choices
        if choices:
            if not self._is_identified:
                self._identify(chunk)
            for choice in choices:
                delta = choice.delta
                if delta is not None and choice.index == 0:
                    # The fast path: a delta with text alone or calls alone, by far the most frequent ones. Every other
                    # field of PlainDelta that may have a value and is read is in this condition; a test checks that.
                    content, calls = delta.content, delta.tool_calls
                    if (
                        (calls and content)
                        or (content is not None and content.__class__ is not str)
                        or delta.reasoning_content
                        or delta.reasoning
                        or delta.refusal
                        or delta.reasoning_details
                    ):
                        self._read_texts(self._choice_sink, delta)
                        if calls:
                            self._read_calls(self._choice_sink, calls)
                    elif calls:
                        self._read_calls(self._choice_sink, calls)
                    elif content:
                        self._choice_sink.text(content)
                    if (
                        choice.finish_reason is None
                        and choice.usage is None
                        and choice.logprobs is None
                        and not choice.content_filter_results
                    ):
                        continue
                    self._read_choice_extras(self._choice_sink, choice, chunk)
                else:
                    self._read_choices(next(n for n, other in enumerate(choices) if other is choice), chunk, raw)
                    break
        elif not self._read_without_choices(chunk, raw):
            return
        if chunk.usage is not None:
            self._emit_usage(chunk.usage)
            self._read_facts(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._extras_reader().read_sources(self._choice_sink, chunk.search_results, chunk.citations)
        if chunk.x_groq is not None:
            self._read_facts(chunk)
            if chunk.x_groq.usage is not None:
                self._emit_usage(chunk.x_groq.usage)

    def _read_rare(self, raw: dict[str, Any]) -> None:
        """Read a chunk with rare or unknown fields, given as plain data."""
        if self._other_forms is None:
            self._other_forms = OtherForms()
        raw = self._other_forms.rewrite(raw)
        chunk = convert(raw, Chunk, self._sink)
        if chunk is None:
            return
        choices = chunk.choices
        error = find_error(raw)
        if error is not None and not choices:
            self._sink.fail(error)
            return
        if not choices and not self._read_without_choices(chunk, raw):
            return
        if chunk.error is None:
            report_other_fields(self._sink, raw)
        if choices and not self._is_identified:
            self._identify(chunk)
        if choices:
            self._read_choices(0, chunk, raw)
        if chunk.usage is not None:
            self._emit_usage(chunk.usage)
        self._read_facts(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._extras_reader().read_sources(self._choice_sink, chunk.search_results, chunk.citations)
        if chunk.prompt_filter_results or chunk.prompt_annotations:
            results = chunk.prompt_filter_results or chunk.prompt_annotations
            self._sink.add_response_metadata({"prompt_filter_results": results})
            self._extras_reader().read_prompt_filters(results)
        if chunk.x_groq is not None or chunk.error is not None:
            self._read_extras(chunk, raw)
        if error is None and chunk.error is None:
            choice_errors = [choice.error for choice in choices or () if choice.error]
            error = openai_stream_error(choice_errors[0]) if choice_errors else None
        if error is not None:
            self._sink.fail(error)
        elif self._other_forms.is_last:
            self._sink.terminate()

    def _extras_reader(self) -> ExtrasReader:
        if self._extras is None:
            self._extras = ExtrasReader(self._sink)
        return self._extras

    def _identify(self, chunk: Chunk) -> None:
        if self._has_deltas is None and chunk.choices:
            self._has_deltas = chunk.choices[0].delta is not None
        self._read_facts(chunk)
        # Azure's first chunk has an empty id and model; they come with the first choice.
        response_id, model = as_text(chunk.id), as_text(chunk.model)
        self._sink.identify(response_id, model, start_facts(chunk))
        self._is_identified = response_id is not None and model is not None

    def _read_choices(self, first: int, chunk: Chunk, raw: Any) -> None:
        """Read the choices of a chunk from a position on, and report the chunk, once, if one of them has nothing."""
        choices, is_empty = chunk.choices or [], False
        for position in range(first, len(choices)):
            is_empty = not self._read_choice(choices[position], chunk, position) or is_empty
        if is_empty and len(choices) <= MAX_CHOICES:  # with more of them the turn has failed
            self._sink.unknown(plain_chunk(raw))  # Azure's late filter results

    def _read_choice(self, choice: ChunkChoice, chunk: Chunk, position: int) -> bool:
        """Read a choice that is not on the fast path; return False if it has none of the fields of a choice.

        It has rare fields, no delta or another number than 0; without a number it has that of its position.
        """
        index = normalize_index(choice.index)
        if not isinstance(index, int) or index < 0:
            index = position
        choice_sink = self._choice_sink if index == 0 else self._sink.choice(index)
        # With a delta the message is not read: it repeats what was streamed (Perplexity).
        delta = choice.delta
        if delta is None and choice.message is not None:
            delta = self._unstreamed(choice_sink, index, choice.message) if self._has_deltas else choice.message
        if delta is not None:
            self._read_delta(choice_sink, delta)
        elif choice.text.__class__ is str:
            if not self._has_legacy_text:
                self._has_legacy_text = True
                message = "the server sent text completions: it was asked by the path /completions"
                self._sink.warn("legacy_completion", message)
            if choice.text:  # https://platform.openai.com/docs/api-reference/completions
                choice_sink.text(choice.text)
        self._read_choice_extras(choice_sink, choice, chunk, index)
        others = (choice.finish_reason, choice.usage, choice.logprobs)
        return delta is not None or choice.text.__class__ is str or any(value is not None for value in others)

    def _unstreamed(self, choice_sink: ChoiceSink, index: int, message: Delta) -> Delta:
        """Return a complete message that follows deltas, without the fields of which there were deltas.

        MiniMax ends a stream with the whole ``chat.completion``, which alone has the usage (GCWing/OpenBitFun#792).
        """
        repeated: list[str] = []
        for kind, fields in _BLOCK_FIELDS.items():
            present = [name for name in fields if getattr(message, name)]
            if not present:
                continue
            if (index, kind) not in self._streamed and choice_sink.has_block(kind):
                self._streamed |= {(index, kind)}
            if (index, kind) in self._streamed:
                repeated += present
        if not repeated:  # messages take the place of deltas here
            self._has_deltas = False
            return message
        return structs.replace(message, **dict.fromkeys(repeated))

    def _read_choice_extras(
        self,
        choice_sink: ChoiceSink,
        choice: ChunkChoice,
        chunk: Chunk,
        index: int = 0,
    ) -> None:
        """Read the fields of a choice outside its delta: log probabilities, finish reason, filters, usage."""
        if choice.logprobs is not None:
            delta = choice.delta if choice.delta is not None else choice.message
            has_text = delta is not None and bool(delta.content or delta.refusal) and not delta.tool_calls
            self._extras_reader().read_logprobs(choice_sink, choice.logprobs, has_text=has_text)
        action = "flagged the response"
        if is_reason(choice.finish_reason):
            raw, reason = read_finish_reason(choice.finish_reason, FINISH_REASONS)
            choice_sink.finish(raw, reason)
            self._read_facts(chunk)
            if reason == "content_filter":
                action = "stopped the response"
        if index == 0:
            self._read_choice_facts(choice)
        if choice.content_filter_results:
            self._extras_reader().read_filters(choice.content_filter_results, action)
            if index == 0:
                self._read_filter_results(choice.content_filter_results)
        if choice.usage is not None:
            self._emit_usage(choice.usage)

    def _read_texts(self, choice_sink: ChoiceSink, delta: Delta) -> None:
        read_reasoning(choice_sink, delta)
        content = delta.content
        if content.__class__ is str:
            if content:
                choice_sink.text(content)
        elif content is not None:
            if others := read_content_parts(choice_sink, content):
                self._sink.unknown(others)
        if delta.refusal.__class__ is str and delta.refusal:
            choice_sink.refusal(delta.refusal)

    def _read_delta(self, choice_sink: ChoiceSink, delta: Delta) -> None:
        self._read_texts(choice_sink, delta)
        if (
            delta.annotations
            or delta.images
            or delta.audio
            or delta.executed_tools
            or delta.reasoning_steps
            or delta.context
        ):
            self._extras_reader().read(choice_sink, delta)
        if delta.tool_calls:
            calls = delta.tool_calls
            self._read_calls(choice_sink, [calls] if isinstance(calls, CallDelta) else calls)
        function = delta.function_call
        if function is not None:  # after the same call in tool_calls, which has the id
            name, arguments = as_text(function.name), call_arguments(function.arguments)
            choice_sink.tool(NormalizedToolChunk("delta", None, name, None, arguments, SECOND_KEY))

    def _read_calls(self, sink: ChoiceSink, calls: Sequence[CallDelta]) -> None:
        for position, call in enumerate(calls):
            function = call.function
            if (
                function is not None
                and call.index.__class__ is int
                and (call.id is None or call.id.__class__ is str)
                and (function.name is None or function.name.__class__ is str)
                and function.arguments.__class__ is str
                and call.extra_content is None
            ):
                sink.tool(
                    NormalizedToolChunk("delta", call.id, function.name, None, function.arguments, call.index, position)
                )
            else:
                read_irregular_call(sink.tool, call, position)


def _only_thinking(content: list[Any]) -> Any:
    """Return the text of a content that is one text of thinking (Magistral); None if it is anything else."""
    part = content[0] if len(content) == 1 else None
    if not isinstance(part, dict) or part.get("type") != "thinking" or "signature" in part:
        return None
    thinking = part.get("thinking")
    item = thinking[0] if isinstance(thinking, list) and len(thinking) == 1 else None
    return item.get("text") if isinstance(item, dict) else None


def _found_nothing(results: Any, text: Any) -> bool:
    """Return True if Azure's filters found nothing, and what is kept of them cannot vary with the text or padding."""
    if not isinstance(results, dict) or flagged_filters(results) or text in results:
        return False
    return all(
        isinstance(each, dict) and each.keys() <= {"filtered", "severity", "detected"} and text not in each.values()
        for each in results.values()
    )
