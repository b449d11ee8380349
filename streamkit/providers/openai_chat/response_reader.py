"""Reader of the fields of a chat chunk outside its choices: usage, facts about the response, errors."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from streamkit.calls import StreamError
from streamkit.providers.decoding import as_integer, error_message, excerpt, read_json
from streamkit.providers.openai_chat.schema import (
    CHOICE_RESPONSE_FIELDS,
    RESPONSE_FIELDS,
    SOURCE_FIELDS,
    Choice,
    Chunk,
    PlainChoice,
    PlainChunk,
    PlainGroq,
)
from streamkit.providers.openai_chat.usage import is_usage, parse_usage
from streamkit.providers.openai_errors import to_stream_error
from streamkit.providers.sink import Sink

__all__ = ["ResponseReader", "find_error", "start_facts", "to_plain"]

#: The fields of an error object with its code, if it is the chunk itself.
_CODE_FIELDS = ("code", "error_code", "error_type")
#: The values of these fields that report no error.
_NO_ERROR = (None, "", 0, "0", 200, "200")

_response_facts = attrgetter(*RESPONSE_FIELDS)
_choice_facts = attrgetter(*CHOICE_RESPONSE_FIELDS)


class ResponseReader:
    """A reader of the fields of one response. It reports facts once, though chunks repeat them."""

    __slots__ = ("_choice_facts", "_facts", "_filter_results", "_metadata", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._metadata: dict[str, Any] = {}  # the facts that were reported
        self._facts: Any = None  # the values of RESPONSE_FIELDS in the last chunk that was searched for them
        self._filter_results: dict[str, Any] = {}
        self._choice_facts: Any = None  # the same of CHOICE_RESPONSE_FIELDS and the last choice

    def read_extras(self, chunk: Chunk, raw: dict[str, Any]) -> None:
        """Report the usage in Groq's own field, and errors."""
        x_groq = chunk.x_groq
        if isinstance(x_groq, dict):
            if x_groq.get("usage") is not None:
                self.emit_usage(x_groq["usage"])
            if x_groq.get("error"):
                self._sink.fail(to_stream_error(x_groq["error"]))
        if chunk.error:
            # text-generation-inference: {"error": "Model is overloaded", "error_type": "overloaded"}
            is_text = isinstance(chunk.error, str) and any(raw.get(name) for name in _CODE_FIELDS)
            self._sink.fail(to_stream_error(raw if is_text else chunk.error, chunk.status_code))

    def emit_usage(self, raw: Any) -> None:
        """Report the token counts of a ``usage`` object."""
        usage = parse_usage(raw)
        if usage is not None:
            self._sink.usage(usage)

    def read_facts(self, chunk: Chunk | PlainChunk) -> None:
        """Report facts about the response that are new: of its first chunk, and of those with a finish or usage."""
        values = _response_facts(chunk)
        if values != self._facts:
            self._facts = values
            self._keep_metadata(RESPONSE_FIELDS, values)

    def read_choice_facts(self, choice: Choice | PlainChoice) -> None:
        """Report facts about the response that a choice has, if they are new."""
        values = _choice_facts(choice)
        if values != self._choice_facts:
            self._choice_facts = values
            self._keep_metadata(CHOICE_RESPONSE_FIELDS, values)

    def read_filter_results(self, results: Any) -> None:
        """Report what Azure's filters found in the response so far: of each filter the last result."""
        if isinstance(results, dict) and any(self._filter_results.get(name) != results[name] for name in results):
            self._filter_results = {**self._filter_results, **results}
            self._sink.add_response_metadata({"content_filter_results": self._filter_results})

    def _keep_metadata(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        facts = {name: value for name, value in zip(names, values, strict=True) if value not in (None, "")}
        if any(self._metadata.get(name) != value for name, value in facts.items()):
            self._metadata |= facts
            self._sink.add_response_metadata(facts)

    def read_without_choices(self, chunk: Chunk | PlainChunk, raw: Any) -> bool:
        """Return True if a chunk without choices is one of this wire; report any other one."""
        if chunk.choices is not None or (isinstance(chunk.object, str) and chunk.object.startswith("chat.completion")):
            self._sink.heartbeat()
            return True
        if chunk.error is not None or chunk.x_groq is not None or is_usage(chunk.usage):
            return True
        self._sink.unknown(to_plain(raw))
        return False


def start_facts(chunk: Chunk | PlainChunk) -> dict[str, Any]:
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
        return to_stream_error(outcome)
    if raw.get("choices") or raw.get("error"):
        return None
    has_code = any(raw.get(name) not in _NO_ERROR for name in _CODE_FIELDS)
    is_report = "error" in (raw.get("object"), raw.get("type")) or raw.get("success") is False
    return to_stream_error(raw) if is_report or (has_code and error_message(raw)) else None


def to_plain(raw: Any) -> Any:
    """Return a chunk as plain data: a dict unchanged, a frame parsed."""
    try:
        return raw if isinstance(raw, dict) else read_json(raw)
    except (ValueError, RecursionError):
        return excerpt(raw)
