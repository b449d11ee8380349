"""The calls of a turn as the client knows them: its own names, namespaces and custom tools.

`ToolNames` decides how the tools of a request are offered to a target. `CallRestorer` goes the way back for the events
of the response: a call by the target's name has the client's name again, a function that stands for a custom tool
is a custom call whose text is streamed as it becomes known, and the call of a function that stands for a tool of the
client's provider has that tool's declaration in its metadata. It is pure, and costs nothing for the other events.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamkit.calls import CLIENT_TOOL, CallRef, ToolCall
from streamkit.events import (
    ArgumentsRestated,
    Event,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallReady,
    ToolCallStart,
)
from streamkit.json_text import TextArgument, text_argument
from streamkit.providers.provider import Provider
from streamkit.providers.registry import get
from streamkit.providers.tool_names import ToolNames
from streamkit.request import Request
from streamkit.tools.custom import TEXT_FIELD
from streamkit.tools.definition import ToolDefinition

__all__ = ["CallRestorer"]


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
        self.is_needed = bool(self._names.changes) or any(
            isinstance(tool, ToolDefinition)
            and (tool.namespace is not None or self._is_wrapped(tool) or self._declaration(tool))
            for tool in request.tools
        )

    def restore(self, event: Event) -> list[Event]:
        """Return the client's events for an event of the provider; most are the same event."""
        if isinstance(event, ToolCallDelta):
            return self._restore_delta(event)
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

    def _restore_delta(self, event: ToolCallDelta) -> list[Event]:
        call, text = self._restore_ref(event.call), self._texts.get(event.call.id)
        if text is None:
            return [event if call is event.call else ToolCallDelta(call, event.arguments_delta, event.choice)]
        delta = text.feed(event.arguments_delta)
        return [ToolCallDelta(call, delta, event.choice)] if delta else []

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
