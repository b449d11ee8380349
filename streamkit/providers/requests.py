"""Requests between their neutral form and the bodies of providers.

`parse_body` reads what a client sent; `NeutralRequest` writes it for any provider. Every field of a body is read into
the `Request` or kept in its ``unread``, and what a target cannot carry is reported. This module must not depend on a
provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from streamkit.errors import UnknownProvider, UsageError
from streamkit.history import Content, OpaqueBlock
from streamkit.history.builder import ReadingChanges
from streamkit.model_copy import copy_with
from streamkit.output import OutputType
from streamkit.providers import registry
from streamkit.providers.body_fields import BodyFields, is_flag, is_object, merge_fields
from streamkit.providers.provider import Provider, RenderedMessages, ToolChoice
from streamkit.providers.settings import SettingsWriter
from streamkit.providers.tool_names import ToolNames, prepare_tools
from streamkit.request import Request, Settings
from streamkit.tools.definition import OfferedTool, ToolDefinition

__all__ = ["NeutralRequest", "parse_body"]

Json = dict[str, Any]

_MOST_NAMES = 8  # of the fields of one object, in a sentence


def parse_body(
    body: Any,
    provider: Provider,
    read_messages: Callable[..., list[Content]],
    *,
    model: str | None,
    stream: bool | None,
    changes: list[str] | None,
) -> Request:
    """Return a request's body in neutral form; `rendering.parse_request` has the other arguments and the errors.

    Args:
        body: the body.
        provider: its provider.
        read_messages: ``rendering.parse_messages``, for a provider's messages.
        model: the model, where the path has it.
        stream: whether a stream is requested, where the path says it.
        changes: receives a sentence for each part of a message that was kept opaque or left out.
    """
    if not is_object(body):
        raise UsageError(f"the body of a request must be a dict, not {type(body).__name__}")
    traits = provider.traits
    fields = BodyFields(traits.normalize_body(body))
    reader = provider.request_reader()
    tools = reader.read_tools(fields, traits)
    tool_choice = reader.read_tool_choice(fields, traits)
    settings = reader.read_settings(fields, traits)
    report = ReadingChanges()
    messages = fields.take(traits.messages_field)
    system = fields.take(traits.system_field) if traits.system_field is not None else None
    contents = read_messages([] if messages is None else messages, provider, system=system, changes=report)
    if changes is not None:
        changes += report
    is_streamed = fields.take("stream", check=is_flag)
    if stream is not None:
        is_streamed = stream
    if model is not None:
        settings["model"] = model
    if report.left_out:
        fields.put_back(traits.messages_field, report.left_out)
    return Request(
        contents=contents,
        tools=tools,
        tool_choice=tool_choice,
        stream=traits.endpoint.streams_by_default if is_streamed is None else is_streamed,
        settings=Settings(**settings),
        unread=fields.rest,
        provider=traits.name,
    )


class NeutralRequest:
    """A request on its way to one provider: names and tools in the target's form, then the body.

    Args:
        request: the request.
        provider: the target.
        changes: receives a sentence for each thing that is changed or left out.
    """

    def __init__(self, request: Request, provider: Provider, changes: list[str]) -> None:
        self._request = request
        self._provider = provider
        self._changes = changes
        self._is_foreign = request.provider not in (None, provider.name)
        names = ToolNames(request.tools, provider.traits)
        changes += names.changes
        self.contents = names.rename(request.contents)
        self._tools = prepare_tools(request.tools, provider.traits, names, changes)
        self._choice = self._accepted_choice(names)

    @property
    def is_beginning_stored(self) -> bool:
        """Whether the target has the beginning of the conversation, so that results may answer calls in it."""
        request, traits = self._request, self._provider.traits
        if self._is_foreign:
            return False
        items = [
            block.raw for content in request.contents for block in content.blocks if isinstance(block, OpaqueBlock)
        ]
        return traits.stores_calls({**request.unread, traits.messages_field: items})

    def _accepted_choice(self, names: ToolNames) -> ToolChoice | None:
        """Return the tool choice by the target's name; one that no tool fits is left out, because it is refused."""
        choice = self._request.tool_choice
        if choice is None or choice in ("auto", "none"):
            return choice
        has_tools = bool(self._tools)
        if choice == "required":
            is_possible = has_tools
        else:
            namespaces = [
                tool.namespace
                for tool in self._request.tools
                if isinstance(tool, ToolDefinition) and tool.name == choice
            ]
            choice = names.target_name(choice, namespaces[0] if namespaces else None)
            is_possible = bool(namespaces)
        if not is_possible:
            self._changes.append(f"the tool choice {self._request.tool_choice!r} was left out: no tool fits it")
            return None
        return choice

    def body(self, rendered: RenderedMessages, output: OutputType[Any] | None = None) -> Json:
        """Return the body of the request, for the rendered conversation and the type of a structured output."""
        body = self._build(rendered, output)
        self._changes += rendered.changes
        request = self._request
        writer = SettingsWriter(
            request.settings, self._provider.traits, body, self._changes, is_foreign=self._is_foreign
        )
        self._provider.write_settings(writer)
        if not request.unread:
            return body
        unread = {name: value for name, value in request.unread.items() if name != self._provider.traits.messages_field}
        if self._is_foreign and unread:
            paths = [path for name, value in _lacking(unread, request.provider) for path in _paths(name, value)]
            if paths:
                listed = ", ".join(map(repr, paths))
                self._changes.append(f"left out the fields {listed}: only {request.provider} has them")
        else:
            merge_fields(body, unread)
        return body

    def _build(self, rendered: RenderedMessages, output: OutputType[Any] | None) -> Json:
        """Return the body without settings. Tools are not strict if the target cannot convert a schema."""
        options: Json = {"tool_choice": self._choice, "stream": self._request.stream, "output": output}
        try:
            return self._provider.build_request(rendered, tools=self._tools, **options)
        except UsageError as error:
            relaxed: Sequence[OfferedTool] = [
                copy_with(tool, strict=False) if isinstance(tool, ToolDefinition) else tool for tool in self._tools
            ]
            if relaxed == self._tools:
                raise
            self._changes.append(f"tools are not strict in this request: {error}")
            return self._provider.build_request(rendered, tools=relaxed, **options)


def _lacking(unread: Json, provider: str | None) -> list[tuple[str, Any]]:
    """Return the fields that another provider lacks; those of single messages were reported one by one."""
    lacking = dict(unread)
    with suppress(UnknownProvider):  # a dialect that is not registered
        traits = registry.get(provider or "").traits
        lacking.pop(traits.messages_field, None)
        implied = traits.implied_fields
        lacking = {name: value for name, value in lacking.items() if value not in (None, [], {}, implied.get(name))}
    return list(lacking.items())


def _paths(name: str, value: Any) -> list[str]:
    """Return the names of a field that was not read: those within an object, of which others may have been read."""
    is_listed = isinstance(value, dict) and 0 < len(value) <= _MOST_NAMES
    # In order: Codex sends the fields of ``client_metadata`` in another one each time, and the gateway prints each
    # sentence once.
    return [f"{name}.{inner}" for inner in sorted(map(str, value))] if is_listed else [name]
