"""Reader of a choice that is several messages: calls that Mistral's server ran, their results, and the text after them.

Source    https://docs.mistral.ai/cookbooks/mistral-connectors-05-connectors-in-completions ("responses use `messages`
          (array) instead of `message`"); a delta's ``index`` in the SDK mistralai: "If the completion returns multiple
          messages, this is to specify which message this delta is for"; the stream is that of crmne/ruby_llm,
          ``protocols/mistral/multi_completion.rb``, which is tested against the server.

The calls and results are taken out of the chunk, and the rest is read as any other chunk. A call is the server's if its
``metadata`` says so, or if a message with its result follows, because mistralai's objects have no such metadata. So the
calls of such a response wait: those without a result are passed on at the end, as calls of the client. Each completion
of the response has an id and counts its own tokens, so their counts are added up. The finish reason of one whose calls
the server runs does not end the response, and is left out.

Readers of call deltas that are not of the frequent form: custom, without an index, with leaves of other types.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from streamkit.calls import CallKind
from streamkit.events import NormalizedToolChunk
from streamkit.ids import normalize_index
from streamkit.json_text import json_size
from streamkit.providers.contract.sink import ChoiceSink, Sink
from streamkit.providers.decoding.decoding import PART_SIZE, as_text, compact_json
from streamkit.providers.decoding.lenient_json import parse_json_or_text
from streamkit.providers.openai_chat.schema import PlainToolCall, ToolCall

__all__ = [
    "MessageListReader",
    "arguments_text",
    "read_irregular_call",
]


def read_irregular_call(
    tool: Callable[[NormalizedToolChunk], None], call: ToolCall | PlainToolCall, position: int
) -> None:
    """Emit a call delta that is not of the frequent form."""
    function, custom = call.function, call.custom
    is_bare = function is None and custom is None
    if is_bare and not (call.id or call.name or call.arguments or call.extra_content is not None):
        return  # padding: {"index": 0, "function": null}
    name: str | None = None
    arguments: str | None = None
    if custom is not None:
        name, arguments = as_text(custom.name), arguments_text(custom.input)
    else:
        fields = call if function is None else function
        name, arguments = as_text(fields.name), arguments_text(fields.arguments)
    metadata = {"extra_content": call.extra_content} if call.extra_content is not None else None
    kind: CallKind = "custom" if custom is not None or call.type == "custom" else "function"
    key = normalize_index(call.index)
    tool(NormalizedToolChunk("delta", as_text(call.id), name, None, arguments, key, position, kind, None, metadata))


def arguments_text(value: Any) -> str | None:
    """Return arguments as text. Some servers send them as an object (Mistral's older models, Ollama's shim)."""
    if value is None or value.__class__ is str:
        return value or None
    return compact_json(value)


Json = dict[str, Any]
#: The fields of a call's metadata that only a tool of the server has.
_SERVER_FIELDS = ("tool_type", "integration_id")


class _Call:
    """A call that waits for the end of its message, for its result or for the end of the stream."""

    __slots__ = ("arguments", "choice", "id", "is_reported", "is_server_call", "name", "raw")

    def __init__(self, choice: ChoiceSink) -> None:
        self.choice = choice
        self.id: str | None = None
        self.name: str | None = None
        self.arguments: list[str] = []
        self.is_server_call = False
        self.is_reported = False
        self.raw: Json = {}


class MessageListReader:
    """A reader of the calls and results of one response."""

    __slots__ = (
        "_by_id",
        "_calls",
        "_completion",
        "_counts",
        "_earlier",
        "_message",
        "_result",
        "_server_calls",
        "_sink",
    )

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._calls: dict[tuple[Any, Any, Any], _Call] = {}  # by choice, message and call, those without a result
        self._by_id: dict[str | None, deque[tuple[Any, Any, Any]]] = {}  # their keys
        self._server_calls: list[_Call] = []  # of the open message, as far as their metadata says so
        self._message: tuple[Any, Any] | None = None  # choice and number of the open message
        self._result: Json | None = None  # the message with a result, if that is the open one
        self._completion: str | None = None  # the id of the last completion with counts
        self._counts: Json = {}  # its counts, and the sums of those before it
        self._earlier: Json = {}

    def split(self, chunk: Json) -> Iterator[Json]:
        """Report the calls and results of a chunk, and yield the chunks that remain of it, in order."""
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not any(_is_part_of_list(choice) for choice in choices):
            yield chunk
            return
        rest: list[Any] = []
        for choice in choices:
            if not _is_part_of_list(choice):
                rest.append(choice)
                continue
            messages = choice.get("messages")
            number = choice.get("index")
            for position, message in enumerate(messages if isinstance(messages, list) else ()):
                if isinstance(message, dict):
                    delta = self._read(number, {**message, "index": position})
                    yield {**_without(chunk, "usage"), "choices": [{"index": number, "delta": delta}]}
            rest.append(_without(choice, "messages"))
            if isinstance(choice.get("delta"), dict):
                rest[-1]["delta"] = self._read(number, choice["delta"])
                if self._server_calls:
                    rest[-1].pop("finish_reason", None)
            else:
                rest[-1]["delta"] = {}
        yield {**chunk, "choices": rest, **self._add_usage(chunk)}

    def end(self) -> None:
        """Report the open result, and pass on the calls of the client."""
        self._end_message()
        for key, call in enumerate(self._calls.values()):
            if not call.is_reported:
                arguments = "".join(call.arguments)
                call.choice.tool(NormalizedToolChunk("delta", call.id, call.name, None, arguments, key, key))
        self._calls.clear()

    def _read(self, number: Any, delta: Json) -> Json:
        """Read the calls and the result of a delta; return the rest of it."""
        index = normalize_index(number)
        choice = self._choice(index)
        message = (index, normalize_index(delta.get("index")))
        if message != self._message:
            self._end_message()
            self._message = message
        if delta.get("role") == "tool" or delta.get("tool_call_id") is not None or self._result is not None:
            self._add_result(delta)
            return {}
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._add_call(choice, (*message, normalize_index(call.get("index", position))), call)
        return _without(delta, "index", "tool_calls")

    def _add_call(self, choice: ChoiceSink, key: tuple[Any, Any, Any], delta: Json) -> None:
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(choice)
            self._sink.keep(PART_SIZE)
        function, metadata = delta.get("function"), delta.get("metadata")
        if isinstance(function, dict):
            text = arguments_text(function.get("arguments")) or ""
            call.name = call.name or as_text(function.get("name"))
            if self._sink.keep(len(text)):
                call.arguments.append(text)
        if call.id is None and (call_id := as_text(delta.get("id"))) is not None:
            call.id = call_id
            self._by_id.setdefault(call_id, deque()).append(key)
        is_server_call = isinstance(metadata, dict) and any(metadata.get(name) for name in _SERVER_FIELDS)
        if is_server_call and not call.is_server_call:
            call.is_server_call = True
            self._server_calls.append(call)
        known = call.raw
        new = {name: value for name, value in delta.items() if name != "function" and known.get(name) != value}
        if new and self._sink.keep(json_size(new)):
            known.update(new)

    def _add_result(self, delta: Json) -> None:
        if not self._sink.keep(json_size(delta)):
            return
        if self._result is None:
            self._result = {"content": []}
        content = delta.get("content")
        self._result["content"] += content if isinstance(content, list) else [] if content is None else [content]
        self._result |= _without(delta, "index", "content")

    def _end_message(self) -> None:
        """Report what the open message completes: its result, or its calls of the server's tools."""
        for call in self._server_calls:
            _report_call(call)
        self._server_calls = []
        if self._result is None:
            return
        raw, self._result = self._result, None
        if all(isinstance(part, str) for part in raw["content"]):
            raw["content"] = "".join(raw["content"])
        call_id = as_text(raw.get("tool_call_id"))
        keys = self._by_id.get(call_id)
        if not keys:
            number = self._message[0] if self._message is not None else 0
            self._choice(number).server_tool(call_id, "tool", "result", raw["content"], raw=raw)
            return
        call = self._calls.pop(keys.popleft())
        if not call.is_reported:
            _report_call(call)
        call.choice.server_tool(call_id, call.name or "tool", "result", raw["content"], raw=raw)

    def _choice(self, index: Any) -> ChoiceSink:
        return self._sink.choice(index if isinstance(index, int) and index >= 0 else 0)

    def _add_usage(self, chunk: Json) -> Json:
        """Return the field ``usage`` with the counts of all completions so far; nothing if the chunk has none."""
        usage, completion = chunk.get("usage"), as_text(chunk.get("id"))
        if not isinstance(usage, dict):
            return {}
        if completion != self._completion:
            self._earlier = _sum_counts(self._counts, self._earlier)
            self._completion = completion
        self._counts = usage
        return {"usage": _sum_counts(usage, self._earlier)}


def _report_call(call: _Call) -> None:
    name, arguments = call.name or "tool", "".join(call.arguments)
    raw = {**call.raw, "function": {"name": call.name, "arguments": arguments}}
    call.choice.server_tool(call.id, name, "started")
    call.choice.server_tool(call.id, name, "arguments", parse_json_or_text(arguments), raw=raw)
    call.is_reported = True


def _is_part_of_list(choice: Any) -> bool:
    """Return True if a choice has several messages, or if its delta is of one of several."""
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return delta.get("index") is not None or delta.get("tool_call_id") is not None
    return bool(choice.get("messages")) and choice.get("message") is None


def _without(value: Json, *names: str) -> Json:
    return {name: element for name, element in value.items() if name not in names}


def _sum_counts(counts: Json, earlier: Json) -> Json:
    """Return the sums of the counts, also of those within details; fields that are no counts as in the first."""
    total = {**earlier, **counts}
    for name, value in counts.items():
        before = earlier.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            total[name] = _sum_counts(value, before)
        elif value.__class__ is int and before.__class__ is int:
            total[name] = value + before
    return total
