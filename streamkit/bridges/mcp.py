"""The tools of an MCP server as streamkit tools.

``mcp_tools`` lists the tools of a connected server; each of them calls the server, and its result becomes a value for
the model (``to_value``). The ``mcp`` package is responsible for the connection, the wire and the server's
process: nothing is opened or closed here. The tools run in the event loop of the session, and only while it is open.

If the server disconnects, its calls become errors. If it does so over HTTP before the response began, the mcp package
(2.3.0) instead cancels the block in which the connection was opened, with the run inside it, and that block raises.

mcp 2 is required. With 1.x a canceled call does not reach the server as ``notifications/cancelled``, and the server
continues to work (github.com/modelcontextprotocol/python-sdk/issues/2507; checked with 1.30.0).

This module must not depend on providers or on the execution of calls.
"""

from __future__ import annotations

from streamkit.values.distribution import missing_package

try:
    import mcp as _mcp  # noqa: F401 - named here, so that the message names the extra
except ModuleNotFoundError as _error:
    raise missing_package("streamkit.bridges.mcp", _error, "mcp") from None


import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from mcp import Client, ClientSession, MCPError, types
from pydantic import ValidationError

from streamkit.errors import StreamkitError, ToolFailed, UsageError
from streamkit.history import FileBlock, ImageBlock, TextBlock
from streamkit.tools import ApprovalPolicy, Describe, Tool, ToolContext, ToolOptions
from streamkit.values.redaction import redact

__all__ = [
    "error_text",
    "mcp_tools",
    "to_value",
]


_Block: TypeAlias = "TextBlock | ImageBlock | FileBlock"


def to_value(result: types.CallToolResult) -> Any:
    """Return the value of a call for the model.

    By the specification, servers repeat structured content as text, for clients that do not support it. But some have
    the result in the text and facts about it in the data (github.com/NousResearch/hermes-agent/pull/7118: a file's
    text, and its path), others the result in the data and its length in the text
    (github.com/anomalyco/opencode/issues/38923). One is therefore left out only if it repeats the other.
    """
    data = result.structured_content
    blocks = [_block(item) for item in result.content]
    texts = [item.text for item in result.content if isinstance(item, types.TextContent)]
    if data is None:
        if not blocks:
            return None
        return texts[0] if len(texts) == len(blocks) == 1 else blocks
    repeated = _repeats(texts, data)
    if len(texts) == len(blocks) and (repeated or not texts):
        return data
    return blocks if repeated else [*blocks, TextBlock(text=_json(data))]


def error_text(result: types.CallToolResult) -> str:
    """Return the server's error as text."""
    blocks = [_block(item) for item in result.content]
    texts = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    if not texts and result.structured_content is not None:
        return _json(result.structured_content)
    return "\n".join(texts)


def _repeats(texts: list[str], data: Any) -> bool:
    """Return True if the texts are the data, complete or item by item.

    If a function's value is not an object, servers made with the mcp package send ``{"result": value}`` in the data,
    and the value itself in the texts.
    """
    parsed = [_parse(text) for text in texts]
    values = [data, data["result"]] if isinstance(data, dict) and data.keys() == {"result"} else [data]
    for value in values:
        if parsed == [value] or texts == [value]:
            return True
        if isinstance(value, list) and value in (parsed, texts):
            return True
    return False


def _parse(text: str) -> Any:
    """Return the value of a JSON text, or any other text unchanged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _block(item: types.ContentBlock) -> _Block:
    """Convert a content block of MCP."""
    if isinstance(item, types.TextContent):
        return TextBlock(text=item.text)
    if isinstance(item, types.ResourceLink):
        kind = f" ({item.mime_type})" if item.mime_type else ""
        about = f"\n{item.description}" if item.description else ""
        text = f"{item.title or item.name}{kind}: {item.uri}{about}"
        return TextBlock(text=text, metadata=_uri_metadata(item.uri))
    if isinstance(item, types.EmbeddedResource):
        resource = item.resource
        if isinstance(resource, types.TextResourceContents):
            return TextBlock(text=resource.text, metadata=_uri_metadata(resource.uri))
        return _media(resource.blob, resource.mime_type, resource.uri)
    return _media(item.data, item.mime_type)


def _media(data: str, media_type: str | None, uri: str | None = None) -> _Block:
    """Return an image or a file; text for data that is not base64, which providers reject in every later request."""
    data = "".join(data.split())  # some encoders wrap lines
    metadata = _uri_metadata(uri) if uri is not None else {}
    if not _is_base64(data):
        return TextBlock(text=f"[{media_type or 'a file'} left out: its data is not base64]", metadata=metadata)
    if media_type is not None and re.fullmatch(r"image/[a-zA-Z0-9.+-]+", media_type):
        return ImageBlock(data=f"data:{media_type};base64,{data}", metadata=metadata)
    return FileBlock(media_type=media_type, data=data, name=_file_name(uri), metadata=metadata)


def _is_base64(data: str) -> bool:
    try:
        return len(base64.b64decode(data, validate=True)) > 0
    except ValueError:
        return False


def _file_name(uri: str | None) -> str | None:
    """Return the last part of the path of a URI."""
    try:
        return PurePosixPath(unquote(urlsplit(uri or "").path)).name or None
    except ValueError:  # not a URL, such as "http://["
        return None


def _uri_metadata(uri: str) -> dict[str, Any]:
    return {"mcp": {"uri": uri}}


_Session: TypeAlias = "Client | ClientSession"
# A longer listing is considered endless. The mcp package itself stops after 100 pages when it looks for one tool.
_MAX_PAGES = 1000
_MOST_NAMES = 50  # in a message


async def mcp_tools(
    session: Client | ClientSession,
    *,
    prefix: str = "",
    approval: ApprovalPolicy = "allow",
    timeout: float | None = None,  # noqa: ASYNC109 - of the tools, not of this call
    exclusive: bool = False,
    eager: bool = False,
    limit: int | None = None,
    conflicts_with: Collection[str] = (),
    strict: bool = False,
    describe: Describe | None = None,
    options: Mapping[str, ToolOptions] | Callable[[types.Tool], ToolOptions | None] | None = None,
) -> list[Tool]:
    """Return the tools that an MCP server has now, in the server's order.

    The list is not updated. If the server sends ``tools/list_changed``, call this function again and pass the new list
    to the next run. A run keeps its first tools, because its model has their definitions.

    A tool's name is the *prefix* and the server's name. Providers accept up to 64 characters of ``[a-zA-Z0-9_-]``;
    others become ``_``. If that makes two names equal, or if a name is too long, it ends in 8 digits of its hash. A
    name therefore depends only on the server's names; the call uses the server's own. Arguments are passed to the
    server unchanged; only missing and surplus ones are rejected here. Each progress notification is reported as
    ``{"progress": float, "total": float, "message": str}``, the latter two if the server sent them.

    A tool's value is the server's text (str), its structured content (JSON data), None for an empty result, or a list
    of ``TextBlock``, ``ImageBlock`` and ``FileBlock``: the content in its order, then the structured content as JSON
    text, unless one repeats the other. A link to a resource becomes text that names it; nothing is fetched. An error
    that the server reports, and the end of its connection, are the call's error.

    Args:
        session: an initialized ``ClientSession``, or a ``Client`` that was entered. If the server asks for input during
            a call, the callbacks of the ``Client`` respond; with a ``ClientSession`` the call fails.
        prefix: the beginning of every name; it distinguishes the tools of several servers.
        approval: as for ``Tool``, for all tools of the list, like the following. The server's hints
            (``readOnlyHint``, ...) change none of them: they are untrusted according to the specification.
        timeout: seconds; None means the run's.
        exclusive: whether no other call may run at the same time.
        eager: whether calls may start before the turn has ended.
        limit: the number of calls of each tool that may run at once.
        conflicts_with: names of tools, with the prefix, whose calls may not run at the same time.
        strict: whether the provider shall enforce the schemas, if it can.
        describe: returns a description of a call for people.
        options: other options for some tools, including ``name`` and ``description``: a mapping by the server's name of
            the tool, or a function of the ``mcp.types.Tool``. If you trust the server's hints:
            ``lambda tool: {"approval": "allow"} if tool.annotations and tool.annotations.read_only_hint else None``.

    Returns:
        One ``Tool`` for each tool of the server.

    Raises:
        UsageError: the session is not connected, the prefix is not legal, *options* names an unknown tool, or an option
            is invalid.
        StreamkitError: the server's listing does not end.
        mcp.MCPError: the server or the connection failed during the listing.
    """
    _check_arguments(session, prefix)
    listed = await _list_tools(session)
    if isinstance(options, Mapping):
        unknown = [name for name in options if name not in listed]
        if unknown:  # with a misspelt name, a tool would run without its approval
            raise UsageError(f"options for unknown tools {unknown!r}; the server has {list(listed)[:_MOST_NAMES]!r}")
    names = _legal_names(prefix, listed)
    tools: list[Tool] = []
    for name, listing in listed.items():
        common: ToolOptions = {
            "name": names[name],
            "description": _description(listing),
            "approval": approval,
            "timeout": timeout,
            "exclusive": exclusive,
            "eager": eager,
            "limit": limit,
            "conflicts_with": conflicts_with,
            "strict": strict,
            "describe": describe,
        }
        own = options.get(name) if isinstance(options, Mapping) else options(listing) if options is not None else None
        tools.append(_make_tool(session, listing, {**common, **(own or {})}))
    return tools


def _check_arguments(session: Any, prefix: str) -> None:
    """Raise UsageError for a session that is not connected or a prefix that is not legal."""
    if not isinstance(session, (Client, ClientSession)):
        raise UsageError(f"mcp_tools needs a connected mcp.ClientSession or mcp.Client, not {session!r}")
    if isinstance(session, Client):
        try:
            session = session.session
        except RuntimeError:
            raise UsageError("the client is not connected: enter it first, async with client") from None
    if session.protocol_version is None:
        raise UsageError("the session is not initialized: await session.initialize() first")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{0,32}", prefix):
        raise UsageError(f"{prefix!r} is not a legal prefix: use at most 32 letters, digits, _ and -")


# ---------------------------------------------------------------- listing


async def _list_tools(session: _Session) -> dict[str, types.Tool]:
    """Return all tools by the server's name for them, each once."""
    listed: dict[str, types.Tool] = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen:  # None ends the list; a repeated cursor is a cycle
        seen.add(cursor)
        if len(seen) > _MAX_PAGES:
            raise StreamkitError(f"the MCP server's list of tools did not end within {_MAX_PAGES} pages")
        try:
            page = await _page(session, cursor)
        except MCPError as error:
            if cursor is None and error.code == types.METHOD_NOT_FOUND:
                break  # a server that has only prompts or resources
            # An empty cursor is a cursor in the revision of 2026-07-28 (github.com/MCPJam/inspector/pull/4462), but the
            # end of the list for older servers (github.com/langchain-ai/langchain-mcp-adapters/pull/250). Those start
            # the list again, or reject the cursor.
            if cursor == "" and error.code == types.INVALID_PARAMS:
                break
            raise
        for listing in page.tools:
            listed.setdefault(listing.name, listing)
        cursor = page.next_cursor
    return listed


async def _page(session: _Session, cursor: str | None) -> types.ListToolsResult:
    """Request one page of the list."""
    if isinstance(session, Client):  # by default it uses its cache
        return await session.list_tools(cursor=cursor, cache_mode="refresh")
    return await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))


def _legal_names(prefix: str, names: Collection[str]) -> dict[str, str]:
    """Return a legal and unique name for each of the server's names."""
    candidates = {name: re.sub(r"[^a-zA-Z0-9_-]", "_", prefix + name) for name in names}
    counts = Counter(candidates.values())
    return {
        name: candidate
        if 0 < len(candidate) <= 64 and (candidate == prefix + name or counts[candidate] == 1)
        else f"{candidate[:55]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        for name, candidate in candidates.items()
    }


def _description(listing: types.Tool) -> str:
    """Return the description, or else the title."""
    title = listing.title or (listing.annotations.title if listing.annotations is not None else None)
    return listing.description or title or ""


# ---------------------------------------------------------------- calling


def _make_tool(session: _Session, listing: types.Tool, options: ToolOptions) -> Tool:
    """Return a tool that calls the server."""
    session_thread = threading.get_ident()

    # The parameter of the context has a name that no server uses for an argument.
    async def call(_streamkit_context: ToolContext | None = None, **arguments: Any) -> Any:
        if threading.get_ident() != session_thread:  # it would wait for ever, and on trio end the session
            raise UsageError("an MCP tool must run in the event loop of its session, not in another thread")
        # The name that the model uses: Tool.replace() may have changed it.
        shown_name = tool.name if _streamkit_context is None else _streamkit_context.call.name
        return await _call_server(session, listing.name, shown_name, arguments, _streamkit_context)

    tool = Tool(call, parameters=listing.input_schema, **options)
    return tool


async def _call_server(
    session: _Session, name: str, shown_name: str, arguments: dict[str, Any], context: ToolContext | None
) -> Any:
    """Call a tool of the server. If this is cancelled, the mcp package notifies the server."""

    async def report(progress: float, total: float | None, message: str | None) -> None:
        fields = {"progress": progress, "total": total, "message": message}
        if context is not None:
            context.progress({field: value for field, value in fields.items() if value is not None})

    result: Any
    try:
        if isinstance(session, Client):
            result = await session.call_tool(name, arguments, progress_callback=report)
        else:
            result = await session.call_tool(name, arguments, progress_callback=report, allow_input_required=True)
    except MCPError as error:
        raise ToolFailed(_describe_error(shown_name, error)) from error
    except ValidationError as error:
        raise ToolFailed(
            f"{shown_name} failed: the response of its MCP server is not valid ({_first(error)})."
        ) from error
    except RuntimeError as error:  # for example structured content that does not fit the server's own schema
        raise ToolFailed(f"{shown_name} failed: {_first_line(error)}") from error
    if not isinstance(result, types.CallToolResult):
        raise ToolFailed(f"{shown_name} failed: its MCP server asks for input, which is not available here.")
    if result.is_error:
        raise ToolFailed(error_text(result) or f"{shown_name} failed without a reason.")
    return to_value(result)


def _describe_error(name: str, error: MCPError) -> str:
    """Return the message of a failed call."""
    # The code CONNECTION_CLOSED (-32000) alone is not enough: many servers send it for any error.
    if error.code == types.CONNECTION_CLOSED and error.message == "Connection closed":
        return (
            f"{name} failed: the connection to its MCP server is closed. Whether the call had an effect is not known. "
            f"Continue without {name}."
        )
    return f"{name} failed: {redact(error.message) or f'its MCP server reported error {error.code}'}"


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _first_line(error: BaseException) -> str:
    return redact(str(error).partition("\n")[0]) or type(error).__name__
