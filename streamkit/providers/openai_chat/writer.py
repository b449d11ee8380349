"""The writer of Chat Completions streams: events as the bytes that a server would have streamed.

Wire: https://platform.openai.com/docs/api-reference/chat-streaming

The counterpart of ``parser``: parsing the bytes again gives the same turn. The shapes are those of api.openai.com: a
chunk with the role, deltas of the content, each call as a first delta (index, id, name, empty arguments) and deltas of
its argument text, a chunk with the finish reason, the usage in a chunk without choices, ``[DONE]``. Calls are
distinguished by their index, so open calls may alternate. ``ChatDialect`` declares where the streams of a dialect
differ. This module must not read a clock: ``created`` is 0.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from streamkit.calls import ToolCall, Usage
from streamkit.events import BlockEnded, Citation, File, LogProbabilities, ReasoningKind
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.decoding.finish_reasons import invert_finish_reasons
from streamkit.providers.decoding.log_probabilities import openai_log_probabilities
from streamkit.providers.decoding.openai_errors import ERRORS, error_body
from streamkit.providers.openai_chat.body import build_completion
from streamkit.providers.openai_chat.content_blocks import (
    has_wrapped_state,
    merge_reasoning_blocks,
    reasoning_detail_text,
    thinking_text,
    unstreamed_details,
)
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.openai_chat.schema import CHOICE_RESPONSE_FIELDS, RESPONSE_FIELDS, SOURCE_FIELDS
from streamkit.providers.openai_chat.traits import FINISH_REASONS
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import encode_chunk, encode_json
from streamkit.providers.writing.wire_output import LONGEST_REPEATED, ErrorBody, Json, WirePlaces, WriterOptions, paths
from streamkit.providers.writing.writer import Writer
from streamkit.values.media import is_url, normalize_data_url, to_data_url

__all__ = ["ChatWriter", "create_writer", "error_body", "error_event"]

#: The state of reasoning that repeats its text.
_REASONING_LISTS: Final = ("reasoning_details", "thinking_blocks", "reasoning_parts", "reasoning_blocks")
#: OpenAI has no name for a refusal of the model that ends a response; the nearest one is not executed either.
_FINISH_REASON_NAMES: Final = invert_finish_reasons(FINISH_REASONS, preferred={"refusal": "content_filter"})


def create_writer(traits: ChatDialect, options: WriterOptions) -> ChatWriter:
    """Return a writer of one response."""
    return ChatWriter(traits, options)


def error_event(status: int, message: str, code: str | None = None) -> bytes:
    """Return the event that ends a stream with an error, as OpenRouter and other servers send it under status 200."""
    return b"data: %b\n\n" % encode_json(error_body(status, message, code))


class ChatWriter(Writer):
    """A writer of a response and of each of its choices."""

    # invalid_request_error is the type of an error; the code of one names the fault of a field.
    error_rules: ClassVar[ErrorRules] = replace(ERRORS, unnamed=frozenset({"invalid_request"}))
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)
    call_state: ClassVar[frozenset[str]] = frozenset({"extra_content"})
    places: ClassVar[WirePlaces | None] = WirePlaces(
        model=paths("model"),
        choices="choices",
        calls=paths("delta|message.tool_calls.*"),
        call_lists=paths("delta|message.tool_calls"),
        call_index="index",
        finish=paths("choices.*.finish_reason"),
        finish_reasons=FINISH_REASONS,
        finish_names=_FINISH_REASON_NAMES,
        has_usage_chunk=True,
        state=paths(
            "choices.*.delta|message.reasoning_details|thinking_blocks|content.*.signature|data",
            "choices.*.delta|message.reasoning_opaque|reasoning_signature",
            "choices.*.delta|message.extra_content.google.thought_signature",
            "choices.*.delta|message.tool_calls.*.extra_content.google.thought_signature",
        ),
    )

    def __init__(self, traits: ChatDialect, options: WriterOptions) -> None:
        super().__init__(traits, options)
        self._dialect = traits
        self._form = traits.stream
        self._has_usage_chunk = options.usage_chunk
        # Only the chunks of a stream that ends with one of its own for the usage have null before: the SDK of Mistral
        # for TypeScript refuses null.
        self._no_usage: Json = {"usage": None} if options.usage_chunk and self._form.usage_position == "own" else {}
        self._line_end = 2 * traits.line_end.encode()
        self._common: Json = {}
        self.has_custom_calls: bool = traits.custom_calls
        self._annotations: list[Any] = []  # of the block that is written
        self._annotation_count = 0
        self._detail_count = 0  # of complete details of reasoning
        self._has_open_detail = False  # one of which the text is written
        self._unwritten: deque[CallText] = deque()  # the calls of a dialect that sends each in one chunk
        self._last_call: CallText | None = None  # the one that has started last, of any other dialect

    # ------------------------------------------------------------ the response

    def begin(self) -> None:
        """Write the first chunk of the dialect, and the chunk with the role."""
        common = {"id": self.response_id or "chatcmpl-0", "object": "chat.completion.chunk", "created": 0}
        facts: Json = {"service_tier": "default", "system_fingerprint": None}
        if self.metadata:
            names = [name for name in ("created", *RESPONSE_FIELDS) if name in self.metadata]
            facts = {name: self.metadata[name] for name in names if len(str(self.metadata[name])) <= LONGEST_REPEATED}
        self._common = {**common, "model": self.model or "", **facts}
        if self._form.first_chunk == "comment":
            self.send_bytes(b": OPENROUTER PROCESSING\n\n")
        elif self._form.first_chunk == "prompt_filter":
            result = {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
            chunk = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
            self.send({**chunk, "prompt_filter_results": [result]})
        top = {name: self.metadata[name] for name in ("x_groq", *SOURCE_FIELDS) if name in self.metadata}
        self._delta({"role": "assistant", "content": "", "refusal": None}, top=top)

    def end(self) -> None:
        """Write the finish reason, the usage and the end marker, or the error."""
        counts = None if self.usage is None else self._usage_fields(self.usage)
        if self.finish is not None:
            self._last_chunks(counts)
        elif counts is not None and self._has_usage_chunk:
            self._usage_chunk(counts)
        if self.error is not None:
            self.send(self.own_error(error_body(*self.error_fields(self.error)), self.error))
        elif self._dialect.end_marker:
            self.send_bytes(b"data: %b%b" % (self._dialect.end_marker.encode(), self._line_end))

    def _last_chunks(self, counts: Json | None) -> None:
        position = self._form.usage_position
        if (position == "own" and not self._has_usage_chunk) or (position == "choice" and self._chunks is not None):
            position = "finish"  # a body has it at the top, where OpenAI's clients read it
        reason = _FINISH_REASON_NAMES[self.finish_reason]
        choice: Json = {}
        top: Json = {}
        if self.finish_is_error and self._form.error_in_band and self.error is None:
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
            if position in ("finish", "x_groq"):
                top["usage"] = counts
            if position == "x_groq":
                top["x_groq"] = {"id": self._common["id"], "usage": counts}
        self._delta(delta, choice, top, reason)
        if counts is not None and position == "own":
            self._usage_chunk(counts)
        elif counts is not None and position == "again":
            # Without the role, which OpenRouter repeats: OpenAI's SDK joins it to "assistantassistant".
            self._delta({"content": ""}, {}, {"usage": counts}, reason)

    def _usage_chunk(self, counts: Json) -> None:
        self.send({**self._common, "choices": [], "usage": counts})

    def _usage_fields(self, usage: Usage) -> Json:
        prompt, output, reasoning = usage.input_tokens, usage.output_tokens, usage.reasoning_tokens
        cached = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
        total = (prompt or 0) + (output or 0)
        if self._form.reasoning_excluded_from_output and output is not None and reasoning and reasoning <= output:
            output -= reasoning
        details = {
            "prompt_tokens_details": {name: count for name, count in cached.items() if count is not None},
            "completion_tokens_details": {} if reasoning is None else {"reasoning_tokens": reasoning},
        }
        # Empty details are left out: @openrouter/ai-sdk-provider refuses those without a count.
        known = {name: counts for name, counts in details.items() if counts}
        return {"prompt_tokens": prompt or 0, "completion_tokens": output or 0, "total_tokens": total, **known}

    def body(self, chunks: list[Json]) -> Json:
        """Return the completion that the chunks build."""
        return build_completion(chunks)

    # ------------------------------------------------------------ chunks

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
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._common, "choices": [choice], **self._no_usage}

    def encode(self, chunk: Json) -> bytes:
        """Return a chunk as a server-sent event."""
        return b"data: %b%b" % (encode_chunk(chunk), self._line_end)

    # ------------------------------------------------------------ texts

    def text(self, text: str) -> None:
        """Write a text delta; in an audio response of the same provider, a delta of the transcript."""
        own = self._own_state
        if own is None:
            self.send_delta("content", self._text_chunk, text, "content")
        elif isinstance(own.get("audio"), dict):
            if "id" in own["audio"] and own.get("audio_started") is None:
                self._delta({"audio": {"id": own["audio"]["id"], "transcript": ""}})
                self._own_state = {**own, "audio_started": True}
            self._delta({"audio": {"transcript": text}})
        else:
            self._delta({"content": text}, self._logprobs("content"))

    def _text_chunk(self, text: str, field: str) -> Json:
        return self._chunk({field: text})

    def refusal(self, text: str) -> None:
        """Write a delta of a refusal."""
        self._delta({"refusal": text}, self._logprobs("refusal"))

    def log_probabilities(self, event: LogProbabilities) -> None:
        """Write log probabilities in a chunk without text."""
        if not (entries := openai_log_probabilities(event)):
            super().log_probabilities(event)
        else:
            field = "refusal" if isinstance(event.raw, dict) and event.raw.get("refusal") else "content"
            self._delta({"content": ""}, {"logprobs": {"content": None, "refusal": None, field: entries}})

    def _logprobs(self, name: str) -> Json:
        """Return the log probabilities of a text as a field of the choice of its first chunk."""
        own = self._own_state
        if own is None or not own.get("logprobs"):
            return {}
        self._own_state = {**own, "logprobs": None}
        return {"logprobs": {name: own["logprobs"]}}

    def reasoning(self, text: str, kind: ReasoningKind) -> None:
        """Write a delta of reasoning in the dialect's field."""
        dialect = self._dialect
        if dialect.thinking_parts:
            self._delta({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
        elif any(isinstance((self._own_state or {}).get(name), list) for name in _REASONING_LISTS):
            pass  # these have the text; they are written at the end of the block
        elif dialect.stream.reasoning_details:
            name = "summary" if kind == "summary" else "text"
            self._details([{"type": f"reasoning.{name}", name: text, "index": self._detail_count}])
            self._has_open_detail = True
        elif dialect.reasoning_field:
            self.send_delta("reasoning", self._text_chunk, text, dialect.reasoning_field)
        else:
            super().reasoning(text, kind)

    def _details(self, details: list[Any]) -> None:
        """Send typed details, each with its text a second time, as OpenRouter does; the parser counts it once."""
        name = self._dialect.reasoning_field
        for detail in details:
            text = reasoning_detail_text(detail) if isinstance(detail, dict) else None
            self._delta({**({name: text} if name and text else {}), "reasoning_details": [detail]})

    def end_block(self, event: BlockEnded) -> None:
        """Write the annotations of a block, and its state where the dialect has a field for it."""
        self._send_annotations()
        text_index, self._detail_count = self._detail_count, self._detail_count + self._has_open_detail
        self._has_open_detail = False
        own, details = self._own_state, event.metadata.get("reasoning_details")
        audio, thinking = event.metadata.get("audio"), event.metadata.get("thinking_blocks")
        if own is not None and isinstance(details, list):
            self._details(details)
        elif own is not None and isinstance(thinking, list):
            for block in thinking:
                self._delta({"reasoning_content": thinking_text(block), "thinking_blocks": [block]})
        elif isinstance(details, list) and (self._form.reasoning_details or any(map(has_wrapped_state, details))):
            unstreamed, is_complete = unstreamed_details(details, text_index)
            for detail in unstreamed:
                # OpenAI's SDK merges entries of lists by their ``index``, and refuses further ones that have none.
                if isinstance(detail, dict) and "index" not in detail:
                    detail = {**detail, "index": self._detail_count}
                    self._detail_count += 1
                self._details([detail])
            if not is_complete:
                self.omit("block_state", "signatures of reasoning were left out: its parts were written as one")
        elif own is not None and isinstance(parts := event.metadata.get("reasoning_parts"), list):
            self._delta({"content": parts})
        elif own is not None and isinstance(blocks := event.metadata.get("reasoning_blocks"), list):
            self._delta({"reasoning_content": merge_reasoning_blocks(blocks)})
        elif own is not None and isinstance(opaque := event.metadata.get("reasoning_opaque"), str):
            self._delta({"reasoning_opaque": opaque})
        elif own is not None and isinstance(audio, dict) and "expires_at" in audio:
            self._delta({"audio": {"expires_at": audio["expires_at"]}})
        elif event.signature and event.kind == "reasoning" and self._dialect.thinking_parts:
            self._delta({"content": [{"type": "thinking", "thinking": [], "signature": event.signature}]})
        elif own is None:
            super().end_block(event)

    def _end_blocks(self) -> None:
        super()._end_blocks()
        self._send_annotations()

    def _send_annotations(self) -> None:
        """Send the annotations of a block in one chunk, as OpenAI does.

        Its SDK merges entries of lists by their ``index``, and refuses further ones that have none.
        """
        annotations, self._annotations = self._annotations, []
        if self._annotation_count and self._own_state is None:
            annotations = [
                {"index": number, **entry} if isinstance(entry, dict) else entry
                for number, entry in enumerate(annotations, self._annotation_count)
            ]
        if annotations:
            self._annotation_count += len(annotations)
            self._delta({"annotations": annotations})

    def citation(self, event: Citation) -> bool:
        """Write a citation as the dialect has it: an annotation of the text, a part of it, or a source of the chunk."""
        data, url = event.data, event.url
        is_own = data is not None and self._own_state is not None
        if self._dialect.thinking_parts:  # Mistral's references are parts
            if is_own or (isinstance(data, dict) and data.get("type") == "reference"):
                self._delta({"content": [data]})
                return True
            return super().citation(event)
        if self._form.source_lists:
            if is_own and not isinstance(data, str):
                self._delta({"content": ""}, {}, {"search_results": [data]})
            elif is_own or url is not None:
                self._delta({"content": ""}, {}, {"citations": [data if is_own else url]})
            else:
                super().citation(event)
            return is_own
        is_own = is_own or (isinstance(data, dict) and "url_citation" in data)
        if is_own:
            self._annotations.append(data)
        elif url is not None:
            citation = {"url": url, "title": event.title or "", "start_index": 0, "end_index": 0}
            self._annotations.append({"type": "url_citation", "url_citation": citation})
        else:
            self.omit("citation", "citations without an address were left out: the wire has no form for them")
        return is_own

    # ------------------------------------------------------------ calls

    def start_call(self, call: CallText) -> None:
        """Write the first delta of a call, unless the dialect sends a call in one chunk."""
        own = self._own_state or {}
        call.item = {"extra_content": own["extra_content"]} if "extra_content" in own else {}
        if self._form.one_chunk_calls:
            self._unwritten.append(call)
            return
        before, self._last_call = self._last_call, call
        if before is not None and (rest := before.take_second_object()):
            self._arguments(before, rest)
        self._first_delta(call, "")

    def _first_delta(self, call: CallText, text: str) -> None:
        kind, name = self._kind(call)
        head = {"index": call.index, "id": call.id, "type": kind, kind: {"name": call.ref.name, name: text}}
        self._delta({"tool_calls": [{**head, **call.item}]})

    def _kind(self, call: CallText) -> tuple[str, str]:
        return ("custom", "input") if self.has_custom_calls and call.ref.kind == "custom" else ("function", "arguments")

    def add_arguments(self, call: CallText, delta: str) -> None:
        """Write a delta of a call's arguments."""
        if text := call.add(delta):
            self._arguments(call, text)

    def _arguments(self, call: CallText, text: str) -> None:
        if not self._form.one_chunk_calls:
            kind, name = self._kind(call)
            self.send_delta(call.index, self._arguments_chunk, text, call.index, kind, name)

    def _arguments_chunk(self, text: str, index: int, kind: str, field: str) -> Json:
        return self._chunk({"tool_calls": [{"index": index, kind: {field: text}}]})

    def restate_arguments(self, call: CallText, text: str) -> None:
        """Write the rest of a text that continues the sent one; replace a text that is sent at the end."""
        if self._form.one_chunk_calls:
            call.replace(text)
        elif rest := call.restate(text):
            self._arguments(call, rest)

    def end_call(self, call: CallText, final: ToolCall) -> None:
        """Write the rest of a call, or the whole call if the dialect sends it in one chunk."""
        # The start of another call has confirmed what was sent of this one: a rest that contradicts it comes too late.
        is_late = call is not self._last_call and not self._form.one_chunk_calls
        rest = "" if is_late and call.compare(final) == "contradictory" else call.finish(final)
        if self._form.one_chunk_calls:
            while self._unwritten and self._unwritten[0].ready is not None:  # calls keep their order
                first = self._unwritten.popleft()
                self._first_delta(first, first.wire_text)
        elif rest:
            self._arguments(call, rest)
        if "extra_content" in final.metadata and not call.item and self._own_state is None:
            kind, name = self._kind(call)  # a delta without either is padding for clients
            delta = {"index": call.index, kind: {name: ""}, "extra_content": final.metadata["extra_content"]}
            self._delta({"tool_calls": [delta]})
        self.check_call(call, final)

    # ------------------------------------------------------------ files and blocks of the provider's own

    def file(self, event: File) -> None:
        """Write audio, or an image as OpenRouter sends it."""
        own = self._own_state or {}
        url = event.url or event.data
        raw = own.get("raw")
        if isinstance(raw, dict):
            self._delta({"images": [raw]})
        elif (event.media_type or "").startswith("audio/") and event.data:
            self._delta({"audio": {"data": event.data}})
        elif url and (event.media_type or "").startswith("image/"):
            if not is_url(url):
                url = normalize_data_url(url) or to_data_url(url, event.media_type or "")
            self._delta({"images": [{"type": "image_url", "image_url": {"url": url}}]})
        else:
            self.omit("file", "a file that is no image and no audio was left out: the wire has no field for it")

    def provider_block(self, raw: Any, *, is_server_tool: bool) -> None:
        """Write a part of the dialect, or a tool that its server ran."""
        if is_server_tool and self._form.message_lists:
            self.omit("server_tool", "server tools were left out: a stream has no form for them")
        elif isinstance(raw, dict):
            field = "executed_tools" if is_server_tool else "images" if "image_url" in raw else "content"
            self._delta({field: [raw]})
