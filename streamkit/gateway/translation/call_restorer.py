"""The calls of a turn as the client knows them: its own names, namespaces and custom tools.

`ToolNames` decides how the tools of a request are offered to a target. `CallRestorer` goes the way back for the events
of the response: a call by the target's name has the client's name again, a function that stands for a custom tool
is a custom call whose text is streamed as it becomes known, and the call of a function that stands for a tool of the
client's provider has that tool's declaration in its metadata. It is pure, and costs nothing for the other events.

An output whose form the target has no field for is requested as the arguments of a tool. They are the client's text.

A custom tool that is offered as a function is called with ``{"input": "..."}``, and its caller expects the text
(`TextArgument`). The text is passed on as far as it is known: an escape, and a surrogate pair of two escapes, only when
it is complete.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import structs

from streamkit.calls import CLIENT_TOOL, OUTPUT_TOOL, CallRef, ToolCall
from streamkit.events import (
    ArgumentsRestated,
    BlockEnded,
    BlockStarted,
    Event,
    Finished,
    Text,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.json_text.finalize import finalize_arguments
from streamkit.json_text.reader import IncrementalJsonObject
from streamkit.providers.provider import Provider
from streamkit.providers.registry import get
from streamkit.providers.requests.request import Request
from streamkit.providers.requests.tools import ToolNames, tool_label
from streamkit.providers.writing.encoding import data_as_json
from streamkit.tools.custom import TEXT_FIELD
from streamkit.tools.definition import ToolDefinition

__all__ = [
    "CallRestorer",
    "TextArgument",
    "text_argument",
]


CallEvent: TypeAlias = ToolCallStart | ToolCallDelta | ArgumentsRestated | ToolCallEnd | ToolCallReady
_CALL_EVENTS = (ToolCallStart, ToolCallDelta, ArgumentsRestated, ToolCallEnd, ToolCallReady)


class TextArgument:
    """The text of one member of a growing argument object. Its cost is linear in the text.

    Args:
        field: the name of the member.
    """

    __slots__ = ("_field", "_length", "_parser", "_parts", "_raw")

    def __init__(self, field: str) -> None:
        self._field = field
        self._parser = IncrementalJsonObject()
        self._length = 0
        self._parts: list[str] = []  # the text so far
        self._raw: list[str] = []  # the arguments, until their text begins

    def feed(self, delta: str) -> str:
        """Read the next delta of the arguments; return the text that it completes, ``""`` if it completes none."""
        self._parser.feed(delta)
        if not self._parts:
            self._raw.append(delta)
        text = self._parser.value.get(self._field)
        if not isinstance(text, str) or len(text) <= self._length:
            return ""
        more = text[self._length :]
        if self._parser.ends_in_half:
            more = more[:-1]
        self._length += len(more)
        if more:
            self._parts.append(more)
            self._raw.clear()
        return more

    def end(self) -> str:
        """Return the text of arguments in another form, of which nothing was returned so far; else ``""``."""
        raw, self._raw = "".join(self._raw), []
        if self._parts or not raw:
            return ""
        parsed = finalize_arguments(raw)
        if parsed.state != "complete":
            return ""
        text = text_argument(parsed.arguments, self._field)
        self._parts.append(parsed.text if text is None else text)
        return self._parts[0]

    def finish(self, text: str) -> str | None:
        """Return the rest of the final text; None if it does not begin with the text so far."""
        so_far = self.text
        if not text.startswith(so_far):
            return None
        rest = text[len(so_far) :]
        if rest:
            self._parts.append(rest)
        return rest

    @property
    def text(self) -> str:
        """The text that was returned so far."""
        return "".join(self._parts)


def text_argument(arguments: Any, field: str) -> str | None:
    """Return the text of complete arguments; None if they have another form.

    It is the text of the member, that of the only member, or ``""`` for an empty object.

    Args:
        arguments: the arguments of a call that was offered with one text.
        field: the name under which the text was asked for. Models now and then use another.
    """
    if isinstance(arguments, str):
        return arguments
    if not isinstance(arguments, dict):
        return None
    text = arguments.get(field) if arguments else ""
    if isinstance(text, str):
        return text
    values = list(arguments.values())
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


class CallRestorer:
    """Restores the calls of one turn.

    Args:
        request: the request, with the client's tools.
        provider: the provider that it was sent to.

    Attributes:
        is_needed: whether any call may differ; if not, events need not be passed through.
    """

    def __init__(self, request: Request, provider: str | Provider) -> None:
        traits = get(provider).traits
        self._provider = traits.name
        self._names = ToolNames(request.tools, traits)
        self._has_custom_calls = traits.custom_calls
        self._texts: dict[str, TextArgument] = {}  # of unwrapped calls, by the call's id
        form = request.settings.output_format
        self._has_output = form is not None and OUTPUT_TOOL not in map(tool_label, request.tools)
        schema = (form.json_schema if form is not None else None) or {"type": "object"}
        self._is_member = schema.get("type") != "object"  # the output is the one member of the tool's arguments
        self._outputs: dict[str, list[str]] = {}  # the text so far of calls that are outputs, by the call's id
        self._has_calls = False  # of the client
        self.is_needed: bool = (
            self._has_output
            or bool(self._names.changes)
            or any(
                isinstance(tool, ToolDefinition)
                and (tool.namespace is not None or tool.kind == "custom" or CLIENT_TOOL in tool.metadata)
                for tool in request.tools
            )
        )

    def restore(self, event: Event) -> list[Event]:
        """Return the client's events for an event of the provider; most are the same event."""
        if self._has_output:
            if isinstance(event, _CALL_EVENTS) and event.call.name == OUTPUT_TOOL:
                return self._output_events(event)
            self._has_calls = self._has_calls or isinstance(event, ToolCallStart)
            if isinstance(event, Finished) and event.reason == "tool_calls" and self._outputs and not self._has_calls:
                return [structs.replace(event, reason="stop", raw=None)]
        if isinstance(event, ToolCallDelta):
            call, text = self._restore_ref(event.call), self._texts.get(event.call.id)
            if text is None:
                return [event if call is event.call else ToolCallDelta(call, event.arguments_delta, event.choice)]
            delta = text.feed(event.arguments_delta)
            return [ToolCallDelta(call, delta, event.choice)] if delta else []
        if isinstance(event, (ToolCallStart, ToolCallEnd, ArgumentsRestated)):
            call, text = self._restore_ref(event.call), self._texts.get(event.call.id)
            if isinstance(event, ArgumentsRestated) and text is not None:
                text = self._texts[event.call.id] = TextArgument(TEXT_FIELD)
                return [ArgumentsRestated(call, text.feed(event.arguments_text), choice=event.choice)]
            rest = text.end() if isinstance(event, ToolCallEnd) and text is not None else ""
            restored = event if call is event.call else structs.replace(event, call=call)
            if isinstance(restored, ToolCallStart) and (tool := self._names.original(event.call.name)) is not None:
                metadata = {**restored.metadata, **self._declaration(tool)}
                restored = structs.replace(restored, namespace=tool.namespace, metadata=metadata)
            return [ToolCallDelta(call, rest, event.choice), restored] if rest else [restored]
        if isinstance(event, ToolCallReady):
            return self._restore_ready(event)
        return [event]

    def _output_events(self, event: CallEvent) -> list[Event]:
        """Return the text of an output for an event of the call that has it as arguments."""
        call_id, events = event.call.id, list[Event]()
        parts = self._outputs.get(call_id)
        block = -2 - (len(self._outputs) if parts is None else [*self._outputs].index(call_id))  # no block's number
        if parts is None:
            parts = self._outputs[call_id] = []
            events.append(BlockStarted("text", block, event.choice))
        if isinstance(event, ToolCallDelta) and not self._is_member:
            parts.append(event.arguments_delta)
            events.append(Text(event.arguments_delta, block, event.choice))
        elif isinstance(event, ToolCallReady):
            text, arguments, so_far = event.call.arguments_text, event.call.arguments, "".join(parts)
            if self._is_member and isinstance(arguments, dict) and OUTPUT_TOOL in arguments:
                text = data_as_json(arguments[OUTPUT_TOOL])
            if text.startswith(so_far) and text != so_far:
                events.append(Text(text[len(so_far) :], block, event.choice))
            events.append(BlockEnded("text", block, choice=event.choice))
        return events

    def restore_call(self, call: ToolCall) -> ToolCall:
        """Return a call as the client knows it: its name, its namespace in the metadata, the text of a custom call."""
        tool = self._names.original(call.name)
        if tool is None:
            return call
        metadata = {**call.metadata, **self._declaration(tool)}
        if tool.namespace is not None:
            metadata["namespace"] = tool.namespace
        if call.kind == "custom" or not self._is_wrapped(tool):
            return structs.replace(call, name=tool.name, metadata=metadata)
        if call.state == "complete":
            text = text_argument(call.arguments, TEXT_FIELD)
            if text is None:  # an object of another form: the tool gets what the model wrote
                text = call.arguments_text
            arguments: str | None = text
        else:
            partial = TextArgument(TEXT_FIELD)
            text, arguments = partial.feed(call.arguments_text), None
        return structs.replace(
            call,
            name=tool.name,
            kind="custom",
            metadata=metadata,
            arguments=arguments,
            arguments_text=text,
            partial={},
        )

    def _is_wrapped(self, tool: ToolDefinition) -> bool:
        return tool.kind == "custom" and not self._has_custom_calls

    def _declaration(self, tool: ToolDefinition) -> dict[str, Any]:
        """Return the metadata of a call of a tool that the client's provider declares in a form of its own."""
        own = tool.metadata.get(CLIENT_TOOL)
        return {} if own is None or tool.metadata.get("provider") == self._provider else {CLIENT_TOOL: own}

    def _restore_ref(self, call: CallRef) -> CallRef:
        tool = self._names.original(call.name)
        if tool is None:
            return call
        is_wrapped = call.kind == "function" and self._is_wrapped(tool)
        if is_wrapped and call.id not in self._texts:
            self._texts[call.id] = TextArgument(TEXT_FIELD)
        if tool.name == call.name and not is_wrapped:
            return call
        return CallRef(call.id, tool.name, call.index, "custom" if is_wrapped else call.kind)

    def _restore_ready(self, event: ToolCallReady) -> list[Event]:
        """Return the ready event; before it the rest of the text, or all of it if the deltas showed another one."""
        restored = self.restore_call(event.call)
        ready = event if restored is event.call else ToolCallReady(restored, event.choice)
        text = self._texts.get(event.call.id)
        rest = "" if text is None else text.finish(restored.arguments_text)
        if rest == "":
            return [ready]
        call = CallRef(restored.id, restored.name, restored.index, restored.kind)
        if rest is None:
            return [ArgumentsRestated(call, restored.arguments_text, choice=event.choice), ready]
        return [ToolCallDelta(call, rest, event.choice), ready]
