"""Targets that read and write requests: messages, bodies, stored contents, schemas of tools, results of MCP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, get_args

from fuzz.checks import check_stored, require, run
from fuzz.inputs import Input, expand, part_bytes, sources
from fuzz.target import Target
from gateway.gateway_clients import CLIENTS
from pydantic import ValidationError
from ui_message_client import read_chunks, read_message

from streamkit import (
    Content,
    ToolDefinition,
    UnsupportedContent,
    UsageError,
    parse_messages,
    parse_request,
    providers,
    render,
    render_request,
)
from streamkit.bridges.vercel_ui import InvalidChat, UiMessageStream, parse_chat
from streamkit.history import ToolResponseBlock
from streamkit.history.tool_results import to_stored_result
from streamkit.providers.rendering.media import MediaPolicy
from streamkit.testing import validate_request

try:
    from mcp import types as mcp_types

    from streamkit.bridges.mcp import error_text, to_value
except ModuleNotFoundError:  # the extra mcp is not installed
    mcp_types = None  # type: ignore[assignment]
try:
    from streamkit.bridges import ag_ui
except ModuleNotFoundError:  # the extra ag-ui is not installed
    ag_ui = None  # type: ignore[assignment]

__all__ = ["REQUEST_TARGETS"]

_RENDERING = {"ids": ("origin", "canonical"), "unsupported": get_args(MediaPolicy)}


def _values(given: Input) -> list[Any]:
    """Return the parts that are values."""
    return [expand(part) for part in given.parts if part_bytes(part) is None]


def _as_decoded(value: Any) -> Any:
    """Return a value as a strict decoder returns it: without halves of surrogate pairs and without infinities.

    ``parse_request`` keeps what it does not read as it was. The gateway decodes bodies so, and the mcp package schemas.
    """
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(text, parse_constant=lambda _: None)


def _check_body(body: Any) -> None:
    """Check that a request can be sent, by httpx for instance."""
    json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def messages(given: Input) -> None:
    """Read a provider's messages, store them, and render them for another provider."""
    wire = given.options.get("format", "own")
    changes: list[str] = []
    contents = parse_messages(_values(given), given.provider if wire == "own" else wire, changes=changes)
    check_stored(contents)
    _render(contents, given)


def posted(given: Input) -> None:
    """Read what a page of npm ``ai`` posts, store it, and render it for the provider that has made it."""
    contents = parse_chat({"messages": _values(given)}).history
    check_stored(contents)
    _render(contents, given)


def request(given: Input) -> None:
    """Read a request's body and write it for the same and for another provider."""
    (body,) = _values(given)[:1] or [{}]
    read = parse_request(_as_decoded(body), given.provider, changes=[])
    check_stored(read.contents)
    for target in (given.provider, given.other):
        try:
            _check_body(render_request(read, target, unsupported="text", changes=[]))
        except UsageError as error:
            # docs/rules.md: of a request that was read, what the target lacks is left out or reported.
            raise UnsupportedContent(str(error)) from error


def stored(given: Input) -> None:
    """Read stored contents and render them."""
    contents = [Content.model_validate_json(json.dumps(value)) for value in _values(given)]
    check_stored(contents)
    _render(contents, given)


def _render(contents: Sequence[Content], given: Input) -> None:
    options: dict[str, Any] = {"ids": given.options.get("ids", "origin"), "changes": []}
    options["unsupported"] = given.options.get("unsupported", "text")
    _check_body(render(contents, given.other, **options))
    _check_body(render_request(contents, given.other, **options, cache=[None, "auto"][given.seed % 2]))


def continued(given: Input) -> None:
    """Continue the conversation of a damaged stream on another provider, which accepts the request."""
    chunks = [value for value in _values(given) if isinstance(value, dict)]
    turn, _ = run(given.provider, chunks, complete=True)
    if not turn.content.blocks:
        return
    contents = conversation(turn)
    body = render_request(contents, given.other, ids=["origin", "canonical"][given.seed % 2])  # type: ignore[arg-type]
    _check_body(body)
    is_own = providers.get(given.provider).package == providers.get(given.other).package
    faults = [] if is_own else validate_request(given.other, json.loads(json.dumps(body)))
    detail = faults[0].message[:300] if faults else ""
    require(not faults, f"a request is legal: {faults[0].rule if faults else ''}", detail)


def conversation(turn: Any) -> list[Content]:
    """Return the turn between a person's messages, each of its calls with a result."""
    results = [
        ToolResponseBlock(call_id=call.id, name=call.name, result={"seen": call.index})
        if call.state == "complete"
        else ToolResponseBlock(call_id=call.id, name=call.name, status="error", error="The arguments were cut.")
        for call in turn.calls
    ]
    answered = [Content(speaker="tool", blocks=results)] if results else []
    return [Content.system("Be brief."), Content.human("Go on."), turn.content, *answered, Content.human("And then?")]


def tool_schemas(given: Input) -> None:
    """Offer tools with foreign schemas, as servers of MCP send them."""
    tools = [ToolDefinition.model_validate(_as_decoded(value)) for value in _values(given)]
    body = render_request([Content.human("Go.")], given.provider, tools=tools)
    _check_body(body)


def mcp_result(given: Input) -> None:
    """Convert the result of a call to a server of MCP, and store it."""
    for value in _values(given):
        result = mcp_types.CallToolResult.model_validate(value)
        converted = to_stored_result(to_value(result))
        json.dumps(converted, ensure_ascii=False, allow_nan=False).encode()
        error_text(result)


# ---------------------------------------------------------------- seeds


@cache
def _conversations(step: int) -> tuple[tuple[str, list[Content]], ...]:
    """Return conversations with the turns of undamaged streams, by their provider."""
    found = []
    for source in sources()[::step]:
        turn, _ = run(source.provider, source.shortened(), complete=True)
        if turn.content.blocks:
            found.append((source.provider, conversation(turn)))
    return tuple(found)


_CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
    "required": ["city"],
    "additionalProperties": False,
}
_TOOLS = [ToolDefinition(name="weather", description="The weather.", parameters=_CITY, strict=True)]
_SETTINGS = {"model": "m", "max_output_tokens": 100, "temperature": 0.5, "stop": ["x"], "parallel_calls": True}
_VERCEL: tuple[tuple[str, list[Any]], ...] = (
    ("vercel", [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image", "image": "https://e.org/a.png"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "r"},
         {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": {"a": 1}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "f",
         "output": {"type": "json", "value": {"b": 2}}}]},
    ]),
    ("vercel_ui", [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"},
         {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgo="}]},
        {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "reasoning", "text": "r"},
         {"type": "tool-f", "toolCallId": "c1", "state": "output-available", "input": {"a": 1}, "output": {"b": 2}}]},
    ]),
)  # fmt: skip


def _bodies() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield bodies of requests, with their provider and another one."""
    names = providers.names()
    for number, (maker, contents) in enumerate(_conversations(5)):
        name = maker if number % 3 else names[number % len(names)]
        options: dict[str, Any] = {"tools": _TOOLS, "settings": _SETTINGS} if number % 2 else {}
        yield name, names[number * 7 % len(names)], render_request(contents, name, unsupported="text", **options)
    for name, (_, body) in CLIENTS.items():
        yield name, "anthropic", body


def _message_seeds() -> list[Input]:
    seeds = [Input("messages", other=wire, options={"format": wire}, parts=parts) for wire, parts in _VERCEL]
    seeds = [Input("messages", "openai_chat", "anthropic", each.options, parts=each.parts) for each in seeds]
    for number, (name, other, body) in enumerate(_bodies()):
        listed = body.get(providers.get(name).traits.messages_field)
        if isinstance(listed, list):
            seeds.append(Input("messages", name, other, seed=number, parts=listed))
    return seeds


def _posted_seeds() -> list[Input]:
    """Return what a page has of each recorded stream, and posts with the next message of a person."""
    seeds = []
    question = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    for number, source in enumerate(sources()):
        turn, happened = run(source.provider, source.chunks, complete=True)
        stream = UiMessageStream("m")
        chunks = read_chunks(b"".join(map(stream.write, happened)) + stream.close())
        if turn.content.blocks:
            parts = json.loads(json.dumps([question, read_message(chunks), question]))
            seeds.append(Input("posted", source.provider, source.provider, seed=number, parts=parts))
    return seeds


def _request_seeds() -> list[Input]:
    return [Input("request", name, other, seed=at, parts=[body]) for at, (name, other, body) in enumerate(_bodies())]


def _stored_seeds() -> list[Input]:
    names, found = providers.names(), []
    for at, (maker, contents) in enumerate(_conversations(4)):
        parts = [each.model_dump(mode="json") for each in contents]
        found.append(Input("stored", maker, names[at * 5 % len(names)], seed=at, parts=parts))
    return found


def _continued_seeds() -> list[Input]:
    names = providers.names()
    return [
        Input("continued", source.provider, names[at * 3 % len(names)], seed=at, parts=list(source.shortened()))
        for at, source in enumerate(sources()[::3])
    ]


def _schema_seeds() -> list[Input]:
    schemas: tuple[dict[str, Any], ...] = (
        _CITY,
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"enum": ["x", None]}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "date"}}, "allOf": [{}]},
        {"$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"},
        {"type": "object", "additionalProperties": {"type": "array", "items": {"oneOf": [{"const": 1}]}}},
    )
    tools = [{"name": "f", "description": "d", "parameters": schema, "strict": schema is _CITY} for schema in schemas]
    names = providers.names()
    return [Input("tool_schemas", names[at % len(names)], seed=at, parts=[tools[at % len(tools)]]) for at in range(69)]


def page(given: Input) -> None:
    """Read what a page of AG-UI posts, and write the beginning and the end of a run for it."""
    (body,) = _values(given)[:1] or [{}]
    try:
        chat = ag_ui.parse_input(json.dumps(_as_decoded(body)), key=b"k")
    except ag_ui.InvalidInput:
        return
    check_stored(chat.history)
    stream = ag_ui.AgUiStream(chat)
    for frame in (stream.snapshot(chat.posted.state) + stream.close()).split(b"\n\n")[:-1]:
        json.loads(frame.removeprefix(b"data: "))


def _page_seeds() -> list[Input]:
    image = {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}}
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'},
        "encryptedValue": "AAAA",
    }
    body = {
        "threadId": "t",
        "runId": "r",
        "protocolVersion": "1.0",
        "state": {"notes": []},
        "tools": [{"name": "f", "description": "d", "parameters": _CITY}],
        "context": [{"description": "d", "value": "v"}],
        "resume": [{"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}],
        "messages": [
            {"id": "1", "role": "user", "content": [{"type": "text", "text": "Hi"}, image]},
            {"id": "2", "role": "reasoning", "content": "r", "encryptedValue": "AAAA"},
            {"id": "3", "role": "assistant", "content": "Hm", "toolCalls": [call]},
            {"id": "4", "role": "tool", "toolCallId": "c1", "content": [image], "error": "e"},
        ],
    }
    return [Input("page", parts=[json.loads(json.dumps(body))])]  # no object of it is in two places


def _mcp_seeds() -> list[Input]:
    content: list[Any] = [
        {"type": "text", "text": '{"a": 1}'},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "audio", "data": "UklG", "mimeType": "audio/wav"},
        {
            "type": "resource_link",
            "uri": "file:///a%20b.txt",
            "name": "a",
            "mimeType": "text/plain",
            "description": "d",
        },
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "x", "mimeType": "text/plain"}},
        {"type": "resource", "resource": {"uri": "http://[::1/a.pdf", "blob": "JVBE", "mimeType": "application/pdf"}},
    ]
    results: tuple[Any, ...] = (
        {"content": content}, {"content": content[:1], "structuredContent": {"a": 1}}, {"content": []},
        {"content": [], "structuredContent": {"result": [1, "x"]}}, {"content": content[1:3], "isError": True},
    )  # fmt: skip
    return [Input("mcp_result", seed=at, parts=[result]) for at, result in enumerate(results)]


_REFUSED = (UsageError, UnsupportedContent)
REQUEST_TARGETS = (
    Target("messages", messages, _REFUSED, _message_seeds, {"format": ("own", "vercel", "vercel_ui"), **_RENDERING}),
    Target("posted", posted, (InvalidChat, UnsupportedContent), _posted_seeds, _RENDERING),
    Target("request", request, _REFUSED, _request_seeds),
    Target("stored", stored, (ValidationError, *_REFUSED), _stored_seeds, _RENDERING),
    Target("continued", continued, (UnsupportedContent,), _continued_seeds),
    Target("tool_schemas", tool_schemas, (ValidationError, UsageError), _schema_seeds),
    *((Target("mcp_result", mcp_result, (ValidationError,), _mcp_seeds),) if mcp_types is not None else ()),
    *((Target("page", page, (), _page_seeds),) if ag_ui is not None else ()),
)
