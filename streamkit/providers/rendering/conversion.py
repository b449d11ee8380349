"""Conversion of history and requests to the form of any provider, and back.

`render` and `parse_messages` convert messages, `render_request` and `parse_request` complete requests. Every field of a
body is read into the `Request` or kept in its ``unread``, and what a target cannot carry is reported. This module must
not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from streamkit.calls import OUTPUT_TOOL
from streamkit.errors import UnknownProvider, UsageError
from streamkit.history import OpaqueBlock
from streamkit.history.content import CACHE_BREAKPOINT, Content, to_contents
from streamkit.history.input_checks import check_format, check_messages
from streamkit.history.repair import repair_contents
from streamkit.providers.contract.output_form import add_output_tool
from streamkit.providers.contract.rendered import IdPolicy
from streamkit.providers.provider import Provider, RenderedMessages, ToolChoice, Traits
from streamkit.providers.registry import ProviderName, get, message_formats, npm_state
from streamkit.providers.rendering.media import MediaPolicy, apply_media_policy
from streamkit.providers.requests.body_fields import BodyFields, SettingsWriter, is_object, merge_fields
from streamkit.providers.requests.request import (
    CachePolicy,
    Request,
    Settings,
    auto_mark,
    mark_contents,
    mark_tools,
    to_settings,
)
from streamkit.providers.requests.tools import ToolNames, prepare_tools, tool_label
from streamkit.tools.definition import OfferedTool, ToolDefinition, to_definitions
from streamkit.tools.toolset import AnyTool
from streamkit.values.json_data import copy_with
from streamkit.values.message_format import RateMessage
from streamkit.values.request_changes import LeftOut, Lost, RequestChange, Translated, add_changes, without_fields

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = [
    "NeutralRequest",
    "parse_messages",
    "parse_request",
    "render",
    "render_messages",
    "render_request",
]

Json = dict[str, Any]
#: The metadata of most blocks, which arrives or is reported where it is written.
_NEUTRAL_METADATA = frozenset({"provider", "raw_id", "endpoint", "model", "requested_model"})
#: The metadata of calls, results and texts that no other provider gets, and that no renderer reports.
_OWN_METADATA = {
    **dict.fromkeys(("caller", "toolset_name", "documents", "thoughtSignature"), LeftOut),
    **dict.fromkeys(("audio", "partMetadata", "speechMetadata"), Lost),
}
_NO_MARKS = LeftOut("cache marks were left out: the target has none and caches without them")
_MOST_NAMES = 8  # of the fields of one object, in a sentence


class NeutralRequest:
    """A request on its way to one provider: names and tools in the target's form, then the body.

    ``changes`` receives a sentence for each thing that is changed or left out.
    """

    def __init__(self, request: Request, provider: Provider, changes: list[RequestChange]) -> None:
        self._request = request
        self._provider = provider
        self._changes = changes
        self._is_foreign = request.provider not in (None, provider.name)
        names = ToolNames(request.tools, provider.traits)
        changes += names.changes
        self.contents: list[Content] = names.rename(request.contents)
        offered, choice, allowed = request.tools, request.tool_choice, request.allowed_tools
        if allowed is not None and self._is_foreign:
            offered = [tool for tool in offered if tool_label(tool) in allowed.names]
            listed = ", ".join(allowed.names)
            changes.append(Translated(f"only these tools were offered, which the request allows: {listed}"))
            choice = allowed.mode
        self._tools = prepare_tools(offered, provider.traits, names, changes)
        if self._is_foreign:  # what blocks have for the client's own provider
            traits, lost = provider.traits, dict[RequestChange, None]()
            for tool in request.tools:
                if isinstance(tool, ToolDefinition) and "cache" in tool.metadata and not traits.cache_marks:
                    lost[_NO_MARKS] = None
            for block in (block for content in request.contents for block in content.blocks):
                for name in block.metadata.keys() - _NEUTRAL_METADATA if block.metadata else ():
                    if name == CACHE_BREAKPOINT or (name == "cache" and not traits.cache_marks):
                        lost[_NO_MARKS] = None
                    elif name == "detail" and not traits.image_details:
                        lost[LeftOut("the detail of an image was left out: the target has no field for it")] = None
                    elif name in _OWN_METADATA:
                        field = f"the field {name!r} of a call, a result or a text"
                        lost[_OWN_METADATA[name](f"{field} was left out: only its provider has it")] = None
            changes += lost
        is_possible = choice in (None, "auto", "none") or (choice == "required" and bool(self._tools))
        if choice not in (None, "auto", "none", "required"):
            namespaces = [
                tool.namespace for tool in request.tools if isinstance(tool, ToolDefinition) and tool.name == choice
            ]
            choice = names.target_name(choice, namespaces[0] if namespaces else None)
            is_possible = bool(namespaces)
        if not is_possible:  # the target would refuse it
            changes.append(Lost(f"the tool choice {choice!r} was left out: no tool fits it"))
        self._choice: ToolChoice | None = choice if is_possible else None
        # Results may answer calls in the beginning of the conversation, if the target has it.
        self.is_beginning_stored: bool = False
        if not self._is_foreign:
            raw = [block.raw for part in request.contents for block in part.blocks if isinstance(block, OpaqueBlock)]
            traits = provider.traits
            self.is_beginning_stored = traits.stores_calls({**request.unread, traits.messages_field: raw})

    def body(self, rendered: RenderedMessages, output: OutputType[Any] | None = None) -> Json:
        """Return the body of the request, for the rendered conversation and the type of a structured output.

        The output format of another provider's client that the target has no field for is requested as the arguments
        of a tool, which the gateway writes as text again (`CallRestorer`).
        """
        request, before = self._request, ([*self._changes], [*rendered.changes])
        settings, tools, choice = request.settings, self._tools, self._choice
        while True:
            options: Json = {"tool_choice": choice, "stream": request.stream, "output": output}
            try:
                body = self._provider.build_request(rendered, tools=tools, **options)
            except UsageError as error:  # the target cannot convert the schema of a strict tool
                relaxed: list[OfferedTool] = [
                    copy_with(tool, strict=False) if isinstance(tool, ToolDefinition) else tool for tool in tools
                ]
                if relaxed == tools:
                    raise
                self._changes.append(Lost(f"tools are not strict in this request: {error}"))
                body = self._provider.build_request(rendered, tools=relaxed, **options)
            self._changes += rendered.changes
            writer = SettingsWriter(settings, self._provider.traits, body, self._changes, is_foreign=self._is_foreign)
            self._provider.write_settings(writer)
            if writer.refused_output is None:
                break
            form, reason = writer.refused_output
            if not self._is_foreign or any(tool_label(tool) == OUTPUT_TOOL for tool in tools):
                self._changes.append(Lost(f"the output format was left out: {reason}"))
                break
            from streamkit.output import OutputType

            self._changes[:], rendered.changes[:] = before
            self._changes.append(Translated(f"the output is requested as the arguments of a tool: {reason}"))
            wanted = OutputType[Any](form.json_schema or {"type": "object", "additionalProperties": True})
            tools, choice = add_output_tool(wanted, tools, choice)
            settings = copy_with(settings, output_format=None)
        if request.allowed_tools is not None and not self._is_foreign:
            merge_fields(body, request.allowed_tools.fields)
        unread = {name: value for name, value in request.unread.items() if name != self._provider.traits.messages_field}
        if self._is_foreign and unread:
            with suppress(UnknownProvider):  # a dialect that is not registered
                unread = _move_shared(BodyFields(unread), get(request.provider or "").traits, writer)
            if paths := _lacking(unread, request.provider):
                listed = ", ".join(map(repr, paths))
                sentence = f"left out the fields {listed}: only {request.provider} has them"
                self._changes.append(without_fields(sentence, paths))
        else:
            merge_fields(body, unread)
        return body


def _move_shared(fields: BodyFields, source: Traits, writer: SettingsWriter) -> Json:
    """Write the fields that both wires have into the body, and return the others.

    What one wire has beside a field moves with it. A field stays if the client said otherwise there: Chat Completions
    has metadata of stored responses alone. It stays, too, if another field is already there in the target.
    """
    for name, field in source.shared_fields.items():
        place, target, text = writer.traits.shared_fields.get(name), writer.body, fields.get(*field.path)
        if place is None or text is None or BodyFields(target).get(*place.path) is not None:
            continue
        if place.accepts is not None and not (isinstance(text, str) and place.accepts.fullmatch(text)):
            fields.take(*field.path)
            path = ".".join(field.path)
            sentence = f"left out the field {path!r} of the request: {writer.traits.name} refuses its value"
            writer.report(without_fields(sentence, [path]))
            continue
        if any(
            fields.get(key) not in (None, value) and not isinstance(value, list) for key, value in place.beside.items()
        ):
            continue
        writer.put(fields.take(*field.path), *place.path)
        for key, value in field.beside.items():
            given = fields.get(key)
            if isinstance(value, list) and isinstance(given, list):
                fields.put_back(key, [item for item in given if item not in value])
            elif given == value:
                fields.take(key)
        for key, value in place.beside.items():
            target[key] = [*target.get(key, ()), *value] if isinstance(value, list) else value
    return fields.rest


def _lacking(unread: Json, provider: str | None) -> list[str]:
    """Return the names of the fields that another provider lacks, of an object those within it.

    Others of its fields may have been read. Those of single messages were reported one by one.
    """
    lacking = dict(unread)
    with suppress(UnknownProvider):  # a dialect that is not registered
        traits = get(provider or "").traits
        lacking.pop(traits.messages_field, None)
        implied = traits.implied_fields
        lacking = {name: value for name, value in lacking.items() if value not in (None, [], {}, implied.get(name))}
    names: list[str] = []
    for name, value in lacking.items():
        is_listed = isinstance(value, dict) and 0 < len(value) <= _MOST_NAMES
        # In order: Codex sends the fields of ``client_metadata`` in another one each time, and the gateway prints each
        # sentence once.
        names += [f"{name}.{inner}" for inner in sorted(map(str, value))] if is_listed else [name]
    return names


_ID_POLICIES = get_args(IdPolicy)


def render(
    contents: Sequence[Content],
    provider: ProviderName | str | Provider,
    *,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
    changes: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Return history as a provider's own messages.

    Args:
        contents: the conversation.
        provider: the target.
        ids: ``origin`` (a call that is sent back to its provider keeps that provider's own id, if it is legal and
            unique) or ``canonical`` (every id is derived from the canonical one).
        model: the model that is requested. Opaque state (signatures, encrypted reasoning, item ids, blocks that only
            the provider understands) of another model is left out, because it would be refused; None: the model is
            unchanged. The form of ids follows the model where servers check it.
        endpoint: the address of the server that is requested, in the form that was passed to ``Turn``. Opaque state of
            another one is left out; None: it is unchanged.
        repair: make the history legal first (``history.repair``). Without it a part of a conversation can be rendered,
            such as only the results for a provider that stores the rest (``previous_response_id``). A `Request` that
            refers to what its provider stores is never repaired for it.
        unsupported: the policy for an image or file that the target cannot carry: ``raise``, ``text`` (a line of text
            that names it replaces it) or ``drop``. Those in a tool's result never raise; there ``raise`` is ``text``.
        changes: receives a sentence for each thing that was changed or left out.

    Raises:
        UsageError: ``ids`` has another value, or ``contents`` is no list of Contents.
        UnsupportedContent: the target cannot carry an image or a file in this form, and ``unsupported`` is ``raise``.
    """
    rendered = render_messages(
        contents, provider, ids=ids, model=model, endpoint=endpoint, repair=repair, unsupported=unsupported
    )
    field = get(provider).traits.system_field
    if rendered.system is not None or field in rendered.request_fields:
        sentence = f"the system text is not among the messages: a request has it in the field {field!r}"
        rendered.changes.append(Translated(sentence))
    if changes is not None:
        add_changes(changes, rendered.changes)
    return rendered.messages


def render_messages(
    contents: Sequence[Content],
    provider: ProviderName | str | Provider,
    *,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
) -> RenderedMessages:
    """Return history as a provider's messages, with system text, changes and further request fields.

    The arguments and errors are those of `render`. `Provider.build_request` builds a request from the result.
    """
    target = get(provider)
    if ids not in _ID_POLICIES:
        raise UsageError(f"ids must be {' or '.join(map(repr, _ID_POLICIES))}, not {ids!r}")
    changes: list[RequestChange] = []
    supported: Sequence[Content] = to_contents("contents", contents)
    if repair:
        supported, changes, _ = repair_contents(supported)
    supported = apply_media_policy(supported, target, unsupported, changes)
    rendered = target.render(supported, ids=ids, model=model, endpoint=endpoint)
    rendered.changes = changes + rendered.changes
    return rendered


def render_request(
    contents: Sequence[Content] | Request,
    provider: ProviderName | str | Provider,
    *,
    tools: Sequence[AnyTool | OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    ids: IdPolicy = "origin",
    model: str | None = None,
    endpoint: str | None = None,
    repair: bool = True,
    unsupported: MediaPolicy = "raise",
    changes: list[str] | None = None,
    output: Any = None,
    cache: CachePolicy = None,
) -> dict[str, Any]:
    """Return the fields of a request's body that depend on the conversation, by the provider's own names.

    With settings, and of a `Request`, it is the complete body. Settings are written in the target's form and by the
    facts of the requested model (`Traits.models`).

    Args:
        contents: the conversation, or a complete request.
        provider: the target.
        tools: functions, ``Tool`` objects, definitions, and the provider's own declarations as dicts; of a request they
            replace its own.
        tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the request or provider.
        stream: whether the response is to be streamed, with usage; None: as the request says, else True.
        settings: neutral settings, as `Settings` or a dict; they replace those of a request one by one.
        ids: as in `render`.
        model: as in `render`; the default is the model of the settings. It is not written into the request.
        endpoint: as in `render`.
        repair: as in `render`.
        unsupported: as in `render`.
        changes: as in `render`.
        cache: ``auto`` marks the ends of the tools, of the system text and of the conversation for the provider's
            cache, next to the marks of blocks (``CacheMark``); a ``CacheMark`` does the same with its lifetime. Targets
            without such marks get none.
        output: the type of a structured output, as for ``Growing``: a pydantic model, another type, or a JSON schema.
            It replaces ``output_format`` of the settings.

    Raises:
        UsageError: ``tool_choice`` names no tool, a strict tool's schema cannot be converted, the provider cannot
            return this output, or ``settings`` or ``cache`` are invalid. Of a request, such a choice is left out, and
            such a tool is not strict.
        UnsupportedContent: as in `render`.
    """
    target, mark = get(provider), auto_mark(cache)
    report: list[RequestChange] = []
    options: dict[str, Any] = {"ids": ids, "endpoint": endpoint, "repair": repair, "unsupported": unsupported}
    output_type: OutputType[Any] | None = None
    if output is not None:
        from streamkit.output import OutputType  # most requests have none

        output_type = OutputType(output)
    request = contents
    if not isinstance(request, Request):
        request = Request(contents=to_contents("contents", request), stream=True)
    overrides: dict[str, Any] = {}
    if tools != () and (definitions := to_definitions(tools, target.name)):
        overrides |= {"tools": definitions, "allowed_tools": None}
    if tool_choice:
        overrides |= {"tool_choice": tool_choice, "allowed_tools": None}
    if stream is not None and stream is not request.stream:
        overrides["stream"] = stream
    if settings is not None:
        overrides["settings"] = copy_with(request.settings, **to_settings(settings).values)
    if mark is not None:
        overrides["contents"] = mark_contents(request.contents, mark)
        overrides["tools"] = mark_tools(overrides.get("tools", request.tools), mark)
    if output_type is not None:
        overrides["settings"] = copy_with(overrides.get("settings", request.settings), output_format=None)
    if overrides:
        request = copy_with(request, **overrides)
    if not isinstance(contents, Request) and settings is None:
        rendered = render_messages(request.contents, target, model=model, **options)
        body = target.build_request(
            rendered, tools=request.tools, tool_choice=tool_choice, stream=request.stream, output=output_type
        )
        report = rendered.changes
    else:
        neutral = NeutralRequest(request, target, report)
        if neutral.is_beginning_stored:
            options["repair"] = False
        rendered = render_messages(neutral.contents, target, model=model or request.settings.model, **options)
        body = neutral.body(rendered, output_type)
    if report and changes is not None:
        add_changes(changes, report)
    return body


def parse_request(
    body: Any,
    provider: ProviderName | str | Provider,
    *,
    model: str | None = None,
    stream: bool | None = None,
    changes: list[str] | None = None,
) -> Request:
    """Return a request's body, as a client sent it, in neutral form: the inverse of `render_request`.

    Nothing is lost: a field without a neutral name is in ``unread`` as it was, and a tool that only the provider
    understands is a `HostedTool`. Chat's ``stream_options`` that only ask for usage are read as ``stream``.

    Args:
        body: the decoded JSON body.
        provider: the provider in whose form it is.
        model: the model, where the path has it (Gemini, Bedrock).
        stream: whether a stream is requested, where the path says it.
        changes: as in `parse_messages`.

    Raises:
        UsageError: the body is no dict, its messages are no list of dicts or of another format, or requests of this
            provider cannot be read. Nothing else that a body contains raises.
    """
    from streamkit.history.builder import ReadingChanges  # which rendering does not need

    target = get(provider)
    if not is_object(body):
        raise UsageError(f"the body of a request must be a dict, not {type(body).__name__}")
    traits = target.traits
    fields = BodyFields(body if traits.normalize_body is None else traits.normalize_body(body))
    reader = target.request_reader()
    tools = reader.read_tools(fields, traits)
    choice = reader.read_tool_choice(fields, traits)
    settings = reader.read_settings(fields, traits)
    report = ReadingChanges()
    messages = fields.take(traits.messages_field)
    system = fields.take(traits.system_field) if traits.system_field is not None else None
    listed = check_messages([] if messages is None else messages)
    if traits.has_importer:
        check_format(listed, target.name, traits.rate_message, _all_formats)
    contents = target.parse_messages(listed, system=system, changes=report)
    if report and changes is not None:
        add_changes(changes, report)
    is_streamed = fields.take("stream", check=bool)
    if stream is not None:
        is_streamed = stream
    if model is not None:
        settings["model"] = model
    if report.left_out:
        fields.put_back(traits.messages_field, report.left_out)
    return Request(
        contents=contents,
        tools=tools,
        tool_choice=choice if isinstance(choice, str) else None,
        allowed_tools=None if isinstance(choice, str) else choice,
        stream=traits.endpoint.streams_by_default if is_streamed is None else is_streamed,
        settings=Settings(**settings),
        unread=fields.rest,
        provider=traits.name,
    )


def parse_messages(
    messages: Sequence[dict[str, Any]],
    provider: ProviderName | str | Provider,
    *,
    system: Any = None,
    changes: list[str] | None = None,
) -> list[Content]:
    """Return a provider's own messages as history: the inverse of `render`.

    Calls and results get canonical ids that depend on their content, not on their position; the raw id is in a block's
    metadata, and ``render`` sends it back to its provider. Parts that only the provider understands
    are kept unchanged, for that provider only.

    Args:
        messages: its messages, as dicts, whatever the provider calls them (items, contents).
        provider: the provider that they belong to; ``"vercel"`` for the messages of Vercel's AI SDK that a model gets
            (``ModelMessage``), ``"vercel_ui"`` for those that ``useChat`` sends (``UIMessage``).
        system: the system text that is separate from the messages, in the provider's own form.
        changes: receives a sentence for each part that was kept as an opaque block and for each field left out.

    Raises:
        UsageError: the messages are no list of dicts, they are of another format (the message names it), or messages
            of this provider cannot be converted. Nothing else that a message contains raises.
    """
    listed = check_messages(messages)
    if provider == "vercel" or provider == "vercel_ui":
        from streamkit.history.vercel import parse_vercel_messages
        from streamkit.history.vercel_ui import parse_vercel_ui_messages

        check_format(listed, provider, dict(_vercel_formats())[provider], _all_formats)
        if provider == "vercel":
            return parse_vercel_messages(listed, system=system, changes=changes)
        return parse_vercel_ui_messages(listed, npm_state, system=system, changes=changes)
    target = get(provider)
    if target.traits.has_importer:
        check_format(listed, target.name, target.traits.rate_message, _all_formats)
    return target.parse_messages(listed, system=system, changes=changes)


def _vercel_formats() -> list[tuple[str, RateMessage]]:
    from streamkit.history.vercel import rate_vercel_message
    from streamkit.history.vercel_ui import rate_vercel_ui_message

    return [("vercel", rate_vercel_message), ("vercel_ui", rate_vercel_ui_message)]


def _all_formats() -> list[tuple[str, RateMessage]]:
    return [*_vercel_formats(), *message_formats()]
