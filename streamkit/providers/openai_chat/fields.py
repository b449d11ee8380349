"""The fields of a chunk beside its texts, reasoning and calls: facts, usage, errors, sources, media, unknown fields.

Most chunks have few of them, and servers repeat what they have, so each reader reports what is new. Unknown fields are
searched only in a chunk that is not of the plain form (``schema.PlainChunk``), as plain data.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any

from msgspec import Struct, structs

from streamkit.calls import StreamError, Usage
from streamkit.providers.contract.sink import ChoiceSink, Sink
from streamkit.providers.decoding.decoding import (
    as_integer,
    as_text,
    compact_json,
    error_message,
    excerpt,
    has_value,
    parse_json_or_text,
    read_counts,
    read_json,
    report_unknown_fields,
)
from streamkit.providers.decoding.log_probabilities import read_log_probabilities
from streamkit.providers.decoding.openai_errors import openai_stream_error
from streamkit.providers.openai_chat import schema
from streamkit.providers.openai_chat.schema import (
    CHOICE_RESPONSE_FIELDS,
    RESPONSE_FIELDS,
    SOURCE_FIELDS,
    Chunk,
    ChunkChoice,
    Delta,
    PlainGroq,
)
from streamkit.values.media import parse_data_url

__all__ = [
    "NO_CHOICE_FACTS",
    "NO_FACTS",
    "ExtrasReader",
    "ResponseReader",
    "find_error",
    "flagged_filters",
    "plain_chunk",
    "report_other_fields",
    "start_facts",
]

#: The fields of an error object with its code, if it is the chunk itself.
_CODE_FIELDS = ("code", "error_code", "error_type")
#: The values of these fields that report no error.
_NO_ERROR = (None, "", 0, "0", 200, "200")
_response_facts = attrgetter(*RESPONSE_FIELDS)
_choice_facts = attrgetter(*CHOICE_RESPONSE_FIELDS)
NO_FACTS, NO_CHOICE_FACTS = _response_facts(Chunk()), _choice_facts(ChunkChoice())


#: Beside OpenAI's two: the tokens from the cache of DeepSeek and of Moonshot, and those of reasoning of other servers.
_COUNT_FIELDS = "prompt_tokens", "completion_tokens", "prompt_cache_hit_tokens", "cached_tokens", "reasoning_tokens"
#: The names of the tokens written to a cache, among the details of the prompt: OpenRouter's and Bedrock's, SAP's, those
#: of DashScope's explicit cache (https://help.aliyun.com/en/model-studio/context-cache) and of new-api's relays.
_CACHE_WRITE_FIELDS = (
    "cache_write_tokens",
    "cache_creation_tokens",
    "cache_creation_input_tokens",
    "cached_creation_tokens",
)
#: Of LiteLLM, with a cached_tokens of 0 in streams (BerriAI/litellm#11789, BerriAI/litellm#11364), and of Usage of
#: snowflake.core.
_RELAYED_CACHE_FIELDS = frozenset(
    {"cache_read_input_tokens", "cache_creation_input_tokens", "cache_write_input_tokens"}
)


class ResponseReader:
    """What a parser reads of the fields of a response. It reports facts once, though chunks repeat them.

    ``ChatParser`` sets all attributes: it costs less than two constructors.
    """

    __slots__ = ("_choice_facts", "_facts", "_filter_results", "_sink")
    _sink: Sink
    _facts: Any  # the values of RESPONSE_FIELDS in the last chunk that was searched for them
    _choice_facts: Any  # the same of CHOICE_RESPONSE_FIELDS and the last choice
    _filter_results: dict[str, Any] | None  # once there are any

    def _read_extras(self, chunk: Chunk, raw: dict[str, Any]) -> None:
        """Report the usage in Groq's own field, and errors."""
        x_groq = chunk.x_groq
        if isinstance(x_groq, dict):
            if x_groq.get("usage") is not None:
                self._emit_usage(x_groq["usage"])
            if x_groq.get("error"):
                self._sink.fail(openai_stream_error(x_groq["error"]))
        if chunk.error:
            # text-generation-inference: {"error": "Model is overloaded", "error_type": "overloaded"}
            is_text = isinstance(chunk.error, str) and any(raw.get(name) for name in _CODE_FIELDS)
            self._sink.fail(openai_stream_error(raw if is_text else chunk.error, chunk.status_code))

    def _emit_usage(self, raw: Any) -> None:
        """Report the token counts of a ``usage`` object, by the field names of OpenAI and of the other servers.

        ``completion_tokens`` includes the reasoning, unless the total shows that it is counted separately (xAI).
        """
        if not isinstance(raw, dict):
            return
        prompt, output, hits, cached, thinking = read_counts(raw, _COUNT_FIELDS)
        if prompt is None and output is None:  # mlx-vlm (earendil-works/pi#2326)
            prompt, output = as_integer(raw.get("input_tokens")), as_integer(raw.get("output_tokens"))
        prompt_details, output_details = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
        cache_read = cache_write = reasoning = None
        if isinstance(prompt_details, dict):
            cache_read = as_integer(prompt_details.get("cached_tokens"))
            for name in _CACHE_WRITE_FIELDS:
                if name in prompt_details and not cache_write:
                    count = as_integer(prompt_details[name])
                    cache_write = cache_write if count is None else count
        if cache_read is None:
            cache_read = cached if hits is None else hits
        if not _RELAYED_CACHE_FIELDS.isdisjoint(raw):
            relayed_read = as_integer(raw.get("cache_read_input_tokens")) or 0
            relayed_write = as_integer(raw.get("cache_creation_input_tokens")) or 0
            relayed_write = relayed_write or as_integer(raw.get("cache_write_input_tokens")) or 0
            cache_read, cache_write = relayed_read or cache_read, relayed_write or cache_write
            if prompt is not None and prompt < relayed_read + relayed_write:
                prompt += relayed_read + relayed_write  # they were not counted (BerriAI/litellm#10240)
        if isinstance(output_details, dict):
            reasoning = as_integer(output_details.get("reasoning_tokens"))
        if reasoning is None:
            reasoning = thinking
        if reasoning and output is not None and prompt is not None:
            if as_integer(raw.get("total_tokens")) == prompt + output + reasoning:
                output += reasoning
        self._sink.usage(Usage(prompt, output, reasoning, cache_read, cache_write, raw))

    def _read_facts(self, chunk: Chunk) -> None:
        """Report facts about the response that are new: of its first chunk, and of those with a finish or usage."""
        values = _response_facts(chunk)
        if values != self._facts:
            self._facts = values
            self._keep_metadata(RESPONSE_FIELDS, values)

    def _read_choice_facts(self, choice: ChunkChoice) -> None:
        """Report facts about the response that a choice has, if they are new."""
        values = _choice_facts(choice)
        if values != self._choice_facts:
            self._choice_facts = values
            self._keep_metadata(CHOICE_RESPONSE_FIELDS, values)

    def _read_filter_results(self, results: Any) -> None:
        """Report what Azure's filters found in the response so far: of each filter the last result."""
        known = self._filter_results or {}
        if isinstance(results, dict) and any(known.get(name) != results[name] for name in results):
            self._filter_results = {**known, **results}
            self._sink.add_response_metadata({"content_filter_results": self._filter_results})

    def _keep_metadata(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        facts = {name: value for name, value in zip(names, values, strict=True) if value is not None and value != ""}
        if facts:
            self._sink.add_response_metadata(facts)

    def _read_without_choices(self, chunk: Chunk, raw: Any) -> bool:
        """Return True if a chunk without choices is one of this wire; report any other one."""
        if chunk.choices is not None or (isinstance(chunk.object, str) and chunk.object.startswith("chat.completion")):
            self._sink.heartbeat()
            return True
        if chunk.error is not None or chunk.x_groq is not None:
            return True
        if isinstance(chunk.usage, dict) and ("prompt_tokens" in chunk.usage or "completion_tokens" in chunk.usage):
            return True  # the name of the field is that of other wires, too; the counts are not
        self._sink.unknown(plain_chunk(raw))
        return False


def start_facts(chunk: Chunk) -> dict[str, Any]:
    """Return what the first chunk states of the response: its time, Groq's id of the request, the sources so far."""
    facts: dict[str, Any] = {}
    created, groq = as_integer(chunk.created), chunk.x_groq
    if created is not None:
        facts["created"] = created
    if groq is not None:
        names = {"id": groq.id, "seed": groq.seed} if isinstance(groq, PlainGroq) else groq
        known = {name: names[name] for name in ("id", "seed") if names.get(name)} if isinstance(names, dict) else {}
        if known:
            facts["x_groq"] = known
    if chunk.citations or chunk.search_results:
        for name in SOURCE_FIELDS:
            if isinstance(sources := getattr(chunk, name), list) and sources:
                facts[name] = sources
    return facts


def find_error(raw: dict[str, Any]) -> StreamError | None:
    """Return the error of a chunk that has it in another field than ``error``; None if it reports none.

    MiniMax has it in ``base_resp``, under status 200. Others send the error object itself: vLLM and Mistral with
    ``"object": "error"``, DashScope and Baidu with a code and a message, a relay with ``error_type``.
    """
    outcome = raw.get("base_resp")
    if isinstance(outcome, dict) and outcome.get("status_code") not in _NO_ERROR:
        return openai_stream_error(outcome)
    if raw.get("choices") or raw.get("error"):
        return None
    has_code = any(raw.get(name) not in _NO_ERROR for name in _CODE_FIELDS)
    is_report = "error" in (raw.get("object"), raw.get("type")) or raw.get("success") is False
    return openai_stream_error(raw) if is_report or (has_code and error_message(raw)) else None


def plain_chunk(raw: Any) -> Any:
    """Return a chunk as plain data: a dict unchanged, a frame parsed."""
    try:
        return raw if isinstance(raw, dict) else read_json(raw)
    except (ValueError, RecursionError):
        return excerpt(raw)


# ---------------------------------------------------------------- rare fields

#: The sink's key of an audio response: of its transcript and of its audio data.
_AUDIO_KEY = "audio"


class ExtrasReader:
    """A reader of the rare fields of one stream: audio, images, sources, server tools, log probabilities.

    Most streams have none of them, so a parser creates it at the first one. It remembers what vendors repeat: all
    sources so far in every chunk, a server tool when it starts and again when it is done.
    """

    __slots__ = ("_audio", "_flagged", "_last_sources", "_sink", "_sources_seen", "_tools")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._audio: dict[ChoiceSink, dict[str, Any]] = {}
        self._flagged: set[str] = set()  # warnings of content filters: the results come with every delta
        self._sources_seen: set[str] = set()
        self._last_sources: Any = None  # of the last chunk: most chunks repeat it
        self._tools: dict[tuple[ChoiceSink, str | None], dict[str, Any]] = {}

    def read(self, choice: ChoiceSink, delta: Delta) -> None:
        """Emit the rare fields of one delta."""
        for annotation in _as_list(delta.annotations):
            choice.citation(annotation)
        if isinstance(delta.context, dict):
            for source in _as_list(delta.context.get("citations")):
                choice.citation(source)
        for image in _as_list(delta.images):
            _read_image(choice, image)
        for tool in _as_list(delta.executed_tools):
            self._read_tool(choice, tool)
        if delta.reasoning_steps:
            # It is not documented whether a chunk repeats the earlier steps, so they are reported as they come.
            self._sink.unknown({"reasoning_steps": delta.reasoning_steps})
        if isinstance(delta.audio, dict):
            self._read_audio(choice, delta.audio)
        elif delta.audio is not None:
            self._sink.unknown({"audio": delta.audio})

    def _read_audio(self, choice: ChoiceSink, audio: dict[str, Any]) -> None:
        """Emit a delta of an audio response: its transcript as text, its audio data as a file in parts.

        It is sent back as its id (https://platform.openai.com/docs/guides/audio), to other providers as its text.
        """
        metadata = self._audio.get(choice, {})
        new_fields = {name: audio[name] for name in ("id", "expires_at") if audio.get(name) is not None}
        transcript, data = audio.get("transcript"), audio.get("data")
        text = transcript if isinstance(transcript, str) else ""
        if text or ("id" in new_fields and "id" not in metadata):
            choice.text(text, _AUDIO_KEY)
        if text or new_fields:
            self._audio[choice] = metadata = metadata | new_fields
            choice.add_metadata({"audio": metadata}, _AUDIO_KEY)
        if isinstance(data, str) and data:
            choice.file("audio/*", data, key=_AUDIO_KEY)

    def _read_tool(self, choice: ChoiceSink, tool: Any) -> None:
        """Emit the changes of a tool that Groq runs (https://console.groq.com/docs/compound).

        The tool has no id; its index identifies it.
        """
        if not isinstance(tool, dict):
            self._sink.unknown({"executed_tools": [tool]})
            return
        tool_id = as_text(tool.get("index"))
        name = as_text(tool.get("type")) or as_text(tool.get("name")) or ""
        previous = self._tools.get((choice, tool_id), {})
        arguments = tool.get("arguments")
        result = {
            field: value
            for field, value in tool.items()
            if field not in ("index", "type", "name", "arguments") and value is not None
        }
        changes: list[tuple[Any, Any]] = []
        if arguments not in (None, "") and arguments != previous.get("arguments"):
            is_text = isinstance(arguments, str)
            changes.append(("arguments", parse_json_or_text(arguments) if is_text else arguments))
        if result and result != previous.get("result"):
            changes.append(("result", result))
        if not changes and not previous:
            changes.append(("started", None))
        for position, (phase, data) in enumerate(changes, 1):
            is_last = position == len(changes)
            choice.server_tool(tool_id, name, phase, data, raw=tool if is_last else None)
        self._tools[choice, tool_id] = {"arguments": arguments, "result": result, "seen": True}

    def read_prompt_filters(self, prompts: Any) -> None:
        """Warn of the filters that flagged a prompt: ``[{"prompt_index": 0, "content_filter_results": {...}}]``."""
        for prompt in _as_list(prompts):
            if isinstance(prompt, dict):
                self.read_filters(prompt.get("content_filter_results"), "flagged the prompt")

    def read_filters(self, results: Any, action: str) -> None:
        """Warn of the filters that flagged a text, once for each set of them.

        Args:
            results: the field ``content_filter_results``.
            action: what the filter did, for the message.
        """
        flagged = flagged_filters(results)
        message = f"the provider's content filter {action}: {', '.join(flagged)}"
        if flagged and message not in self._flagged:
            self._flagged.add(message)
            self._sink.warn("content_filtered", message)

    def read_sources(self, choice: ChoiceSink, results: Any, addresses: Any) -> None:
        """Emit each source of a response once. Perplexity repeats all of them in every chunk."""
        if self._last_sources == (results, addresses):
            return
        self._last_sources = (results, addresses)
        for source in (*_as_list(results), *_as_list(addresses)):
            name = source if isinstance(source, str) else compact_json(source)
            if name not in self._sources_seen:
                self._sources_seen.add(name)
                if isinstance(source, dict) and isinstance(source.get("url"), str):
                    self._sources_seen.add(source["url"])
                choice.citation(source)

    def read_logprobs(self, choice: ChoiceSink, logprobs: Any, *, has_text: bool) -> None:
        """Report log probabilities, and keep them in the metadata of their text.

        Args:
            choice: the sink of the choice.
            logprobs: the field ``logprobs``.
            has_text: the delta has text or a refusal that the log probabilities belong to.
        """
        by_field = logprobs if isinstance(logprobs, dict) else {"": logprobs}
        if not any(by_field.values()):
            return  # {"content": [], "refusal": null}
        choice.log_probabilities(read_log_probabilities(logprobs), logprobs)
        if has_text:
            entries = [*_as_list(by_field.get("content")), *_as_list(by_field.get("refusal"))]
            choice.add_metadata({"logprobs": entries or [logprobs]})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _read_image(choice: ChoiceSink, image: Any) -> None:
    """Emit an image that is an address or a data URL.

    Source: https://openrouter.ai/docs/features/multimodal/image-generation
    """
    image_url = image.get("image_url") if isinstance(image, dict) else None
    url = image_url.get("url") if isinstance(image_url, dict) else None
    if not isinstance(url, str):
        choice.provider_block(image)
        return
    data_url = parse_data_url(url)
    if data_url is not None and data_url.was_base64:
        choice.file(data_url.media_type or "image/*", data_url.data, raw=image)
    else:
        choice.file("image/*", url=url, raw=image)


def flagged_filters(results: Any) -> list[str]:
    """Return the content filters that stopped or flagged a text, from Azure's ``content_filter_results``.

    Source: https://learn.microsoft.com/azure/ai-services/openai/concepts/content-filter-annotations

    Args:
        results: an object of filters: ``{"filtered", "severity"}`` or, for optional models, ``{"filtered",
            "detected"}``; ``error`` is there instead if the filters did not run.

    Returns:
        The name of each, with the severity, or ``detected`` if the text was not filtered.
    """
    flagged: list[str] = []
    for name, result in results.items() if isinstance(results, dict) else ():
        for entry in _as_list(result):  # a list in old versions of the API: one object for each block list
            if not isinstance(entry, dict):
                continue
            severity = entry.get("severity")
            if name == "error":
                flagged.append(f"not checked ({as_text(entry.get('message')) or as_text(entry.get('code'))})")
            elif entry.get("filtered") is True:
                flagged.append(f"{name} ({severity})" if isinstance(severity, str) else str(name))
            elif entry.get("detected") is True:
                flagged.append(f"{name} (detected)")
    return list(dict.fromkeys(flagged))


# ---------------------------------------------------------------- unknown fields


@cache
def _known_fields(read: type[Struct], plain: type[Struct] | None = None) -> frozenset[str]:
    """Return the fields that the parser reads, and those that it is known not to need."""
    # A field that is None in the plain form, and that is not read, was only ever seen without a value.
    ignored = (
        {field.encode_name for field in structs.fields(plain) if field.type is Any} if plain is not None else set()
    )
    return frozenset(read.__struct_encode_fields__) | ignored


#: LiteLLM's field of what Chat Completions has no field for, at a choice, a delta, a message and a call. Since 1.106
#: most of it is sent elsewhere, too: reasoning in its own fields, the signature of a call in the call's id.
_NESTED = "provider_specific_fields"
_REPEATED = frozenset(
    {"reasoning_content", "reasoningContent", "reasoningContentBlocks", "thinking_blocks", "thought_signature"}
)


def report_other_fields(sink: Sink, chunk: dict[str, Any]) -> None:
    """Report the fields of a chunk that the parser does not read, to the sink.

    Args:
        sink: gets the facts about the response as metadata, all other fields as unknown ones.
        chunk: the chunk as plain data.
    """
    _report(sink, chunk, _known_fields(schema.Chunk, schema.PlainChunk), "")
    for choice in _dicts(chunk.get("choices")):
        _report(sink, choice, _known_fields(schema.ChunkChoice, schema.PlainChoice), "choice.")
        for place in ("delta", "message"):
            delta = choice.get(place)
            if isinstance(delta, dict):
                _report(sink, delta, _known_fields(schema.Delta, schema.PlainDelta), f"{place}.")
                for function in _dicts(delta.get("function_call")):
                    _report(sink, function, _known_fields(schema.Function), "function_call.")
                for call in _dicts(delta.get("tool_calls")):
                    _report(sink, call, _known_fields(schema.CallDelta), "tool_call.")
                    for function in _dicts(call.get("function")):
                        _report(sink, function, _known_fields(schema.Function), "tool_call.function.")
                    for custom in _dicts(call.get("custom")):
                        _report(sink, custom, _known_fields(schema.Custom), "tool_call.custom.")


def _report(sink: Sink, value: dict[str, Any], known: frozenset[str], place: str) -> None:
    if known.issuperset(value):
        return
    nested = value.get(_NESTED)
    if isinstance(nested, dict):  # LiteLLM's further fields of an object, most of which repeat others
        repeated = _REPEATED.union(("thought_signatures",)) if value.get("tool_calls") else _REPEATED
        facts = {name: nested[name] for name in schema.CHOICE_RESPONSE_FIELDS if has_value(nested.get(name))}
        if facts:
            sink.add_response_metadata(facts)
        report_unknown_fields(sink, nested, repeated.union(facts), f"{place}{_NESTED}.")
        known = known.union((_NESTED,))
    facts = {name: value[name] for name in schema.RARE_RESPONSE_FIELDS if has_value(value.get(name))}
    facts |= {name: value[name] for name in schema.SENSITIVITY_FIELDS if value.get(name)}
    if facts:
        sink.add_response_metadata(facts)
    known = known.union(facts, schema.SENSITIVITY_FIELDS)
    report_unknown_fields(sink, value, known, place)


def _dicts(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a field that is an object or a list of objects."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [element for element in values if isinstance(element, dict)]
