"""The tools of an MCP server as streamkit tools.

``mcp_tools`` lists what a connected server offers, and each tool of the list calls the server. Connecting, the wire and
the server's process are the ``mcp`` package's: nothing is opened or closed here. The tools run where the session runs,
in its event loop, and for as long as it is open.

A server that goes away makes errors of its calls. Where it does so over HTTP before it began to answer, the mcp package
(2.3.0) instead cancels the block in which the connection was opened, with the run inside it, and that block raises.

Needs mcp 2: only since then does a call that was given up reach the server as ``notifications/cancelled``; with 1.x the
server goes on working for nobody (github.com/modelcontextprotocol/python-sdk/issues/2507; 1.30.0 read).

It must not know of providers, nor of how calls are run beside each other.
"""

from __future__ import annotations

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

from pydantic import ValidationError

from streamkit.errors import StreamkitError, ToolFailed, UsageError
from streamkit.history import FileBlock, ImageBlock, TextBlock
from streamkit.tools import ApprovalPolicy, Describe, Tool, ToolContext, ToolOptions

try:
    from mcp import Client, ClientSession, MCPError, types
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"streamkit.bridges.mcp needs {error.name}: pip install 'streamkit[mcp]'", name=error.name
    ) from None

__all__ = ["mcp_tools"]

_Session: TypeAlias = "Client | ClientSession"
_Block: TypeAlias = "TextBlock | ImageBlock | FileBlock"

# A listing of more pages has no end: the mcp package itself gives up at 100 where it looks for one tool.
_MAX_PAGES = 1000


async def mcp_tools(
    session: Client | ClientSession,
    *,
    prefix: str = "",
    approval: ApprovalPolicy = "allow",
    timeout: float | None = None,  # noqa: ASYNC109 - it is the tools', not this call's
    exclusive: bool = False,
    eager: bool = False,
    limit: int | None = None,
    conflicts_with: Collection[str] = (),
    strict: bool = False,
    describe: Describe | None = None,
    options: Mapping[str, ToolOptions] | Callable[[types.Tool], ToolOptions | None] | None = None,
) -> list[Tool]:
    """The tools that an MCP server offers now, in its order.

    The list is not kept up to date: where the server says ``tools/list_changed``, call this again, and give the next
    run the new list. A run keeps the tools that it began with, as its model was told of them.

    A tool has the server's name behind the *prefix*. What providers refuse in a name (all but 64 of ``[a-zA-Z0-9_-]``)
    becomes ``_``; where that makes two names one, or a name is too long, it ends in 8 digits of its hash. So a name
    depends on nothing but the names that there are, and the call goes to the server's own. Arguments go to the server
    as they are; only missing and surplus ones are refused here. Each progress notification is reported as
    ``{"progress": float, "total": float, "message": str}``, the latter two where the server gave them.

    A tool's value is the server's text (str), its structured content (JSON data), None for an empty answer, or else a
    list of ``TextBlock``, ``ImageBlock`` and ``FileBlock``: the content in its order, and the structured content behind
    it as JSON text, unless one repeats the other. A link to a resource is text that names it; nothing is fetched. What
    the server reports as an error, and the end of its connection, are the call's error.

    Args:
        session: a ``ClientSession`` that is initialized, or a ``Client`` that was entered. With a ``Client``, a server
            that asks for input during a call is answered by its callbacks; a bare session's call fails.
        prefix: goes before every name, to tell the tools of several servers apart.
        approval: as of ``Tool``, for all of them; so are the next. No hint of the server's (``readOnlyHint``, ...)
            changes any: the specification has them untrusted.
        timeout: seconds; None means the run's.
        exclusive: no other call runs beside one of theirs.
        eager: they may start before the turn has ended.
        limit: how many calls of each may run at once.
        conflicts_with: names of tools, as they are here, whose calls do not run beside theirs.
        strict: the provider shall hold the model to the schemas, where it can.
        describe: what a call of one is doing, in words.
        options: other options for some tools, ``name`` and ``description`` among them: by the server's own name for a
            tool, or a function that is given each ``mcp.types.Tool``. Where the server's hints are trusted:
            ``lambda tool: {"approval": "allow"} if tool.annotations and tool.annotations.read_only_hint else None``.

    Raises:
        UsageError: there is no connected session, the prefix is not legal, *options* names a tool that there is not,
            or an option makes no sense.
        StreamkitError: the server's listing does not end.
        mcp.MCPError: the listing failed, as the server or the connection says.
    """
    _check(session, prefix)
    listed = await _listed(session)
    if isinstance(options, Mapping):
        unknown = [name for name in options if name not in listed]
        if unknown:  # a misspelt name would leave a tool without the approval that it was to have
            raise UsageError(f"options for {unknown!r}, which the server does not have; it has {list(listed)!r}")
    names = _legal_names(prefix, listed)
    made: list[Tool] = []
    for name, listing in listed.items():
        chosen: ToolOptions = {
            "name": names[name],
            "description": _described(listing),
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
        made.append(_tool(session, listing, {**chosen, **(own or {})}))
    return made


def _check(session: Any, prefix: str) -> None:
    if not isinstance(session, (Client, ClientSession)):
        raise UsageError(f"mcp_tools takes a connected mcp.ClientSession or mcp.Client, not {session!r}")
    if isinstance(session, Client):
        try:
            session = session.session
        except RuntimeError:
            raise UsageError("the client is not connected: enter it first, async with client") from None
    if session.protocol_version is None:
        raise UsageError("the session is not initialized: await session.initialize() first")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{0,32}", prefix):
        raise UsageError(f"{prefix!r} cannot be a prefix: it is at most 32 letters, digits, _ and -")


# ---------------------------------------------------------------- listing


async def _listed(session: _Session) -> dict[str, types.Tool]:
    """All tools by the server's name for them, each once."""
    found: dict[str, types.Tool] = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen:  # no cursor is the end; one that comes again leads round in a circle
        seen.add(cursor)
        if len(seen) > _MAX_PAGES:
            raise StreamkitError(f"the MCP server's list of tools did not end within {_MAX_PAGES} pages")
        try:
            page = await _page(session, cursor)
        except MCPError as error:
            if cursor is None and error.code == types.METHOD_NOT_FOUND:
                break  # a server that has only prompts or resources
            # An empty cursor is one, says the revision of 2026-07-28 (github.com/MCPJam/inspector/pull/4462), but older
            # servers mean the end by it (github.com/langchain-ai/langchain-mcp-adapters/pull/250). Those begin again,
            # or refuse it.
            if cursor == "" and error.code == types.INVALID_PARAMS:
                break
            raise
        for listing in page.tools:
            found.setdefault(listing.name, listing)
        cursor = page.next_cursor
    return found


async def _page(session: _Session, cursor: str | None) -> types.ListToolsResult:
    if isinstance(session, Client):  # which would answer from its cache
        return await session.list_tools(cursor=cursor, cache_mode="refresh")
    return await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))


def _legal_names(prefix: str, names: Collection[str]) -> dict[str, str]:
    """A legal name for each of the server's, no two the same."""
    wished = {name: re.sub(r"[^a-zA-Z0-9_-]", "_", prefix + name) for name in names}
    times = Counter(wished.values())
    return {
        name: wish
        if 0 < len(wish) <= 64 and (wish == prefix + name or times[wish] == 1)
        else f"{wish[:55]}_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
        for name, wish in wished.items()
    }


def _described(listing: types.Tool) -> str:
    title = listing.title or (listing.annotations.title if listing.annotations is not None else None)
    return listing.description or title or ""


# ---------------------------------------------------------------- calling


def _tool(session: _Session, listing: types.Tool, options: ToolOptions) -> Tool:
    home = threading.get_ident()

    # The name of the context's parameter is one that no server has for an argument of its own.
    async def call(_streamkit_context: ToolContext | None = None, **arguments: Any) -> Any:
        if threading.get_ident() != home:  # it would wait in vain, and on trio take the session down with it
            raise UsageError("an MCP tool runs in the event loop of its session, and this is another thread's")
        # Its name for the model: Tool.replace() may have given it another.
        shown_name = tool.name if _streamkit_context is None else _streamkit_context.call.name
        return await _called(session, listing.name, shown_name, arguments, _streamkit_context)

    tool = Tool(call, parameters=listing.input_schema, **options)
    return tool


async def _called(
    session: _Session, name: str, shown_name: str, arguments: dict[str, Any], context: ToolContext | None
) -> Any:
    """One call on the server. Cancelling it tells the server so; the mcp package sees to that."""

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        report = {"progress": progress, "total": total, "message": message}
        if context is not None:
            context.progress({word: value for word, value in report.items() if value is not None})

    result: Any
    try:
        if isinstance(session, Client):
            result = await session.call_tool(name, arguments, progress_callback=reported)
        else:
            result = await session.call_tool(name, arguments, progress_callback=reported, allow_input_required=True)
    except MCPError as error:
        raise ToolFailed(_refused(shown_name, error)) from error
    except ValidationError as error:
        raise ToolFailed(
            f"{shown_name} failed: what its MCP server answered is not valid ({_first(error)})."
        ) from error
    except RuntimeError as error:  # structured content that is not what the server's own schema says, among others
        raise ToolFailed(f"{shown_name} failed: {_first_line(error)}") from error
    if not isinstance(result, types.CallToolResult):
        raise ToolFailed(f"{shown_name} failed: its MCP server asks for input that nobody can give here.")
    if result.is_error:
        raise ToolFailed(_said_as_error(result) or f"{shown_name} failed and did not say why.")
    return _value(result)


def _refused(name: str, error: MCPError) -> str:
    # -32000 alone says nothing: it is what many servers send for any fault of theirs.
    if error.code == types.CONNECTION_CLOSED and error.message == "Connection closed":
        return (
            f"{name} gave no answer: the connection to its MCP server is closed. Whether the call had an effect is not "
            f"known. Go on without {name}."
        )
    return f"{name} failed: {error.message or f'its MCP server answered with error {error.code}'}"


def _said_as_error(result: types.CallToolResult) -> str:
    """What the server says went wrong, as text."""
    blocks = [_block(item) for item in result.content]
    said = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    if not said and result.structured_content is not None:
        return _json(result.structured_content)
    return "\n".join(said)


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


# ---------------------------------------------------------------- what an answer says


def _value(result: types.CallToolResult) -> Any:
    """What the call gives to the model.

    Structured content is to be repeated as text, for clients that do not know it. But some servers have the answer in
    the text and facts about it in the data (github.com/NousResearch/hermes-agent/pull/7118: a file's text, and its
    path), others the answer in the data and its length in the text (github.com/anomalyco/opencode/issues/38923). So one
    is left out only where it can be seen to repeat the other.
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


def _repeats(texts: list[str], data: Any) -> bool:
    """Whether texts are the data, as a whole or item by item.

    Servers made with the mcp package have a function's value that is no object as ``{"result": value}`` in the data,
    and as such in the texts.
    """
    read = [_read(text) for text in texts]
    values = [data, data["result"]] if isinstance(data, dict) and data.keys() == {"result"} else [data]
    for value in values:
        if read == [value] or texts == [value]:
            return True
        if isinstance(value, list) and value in (read, texts):
            return True
    return False


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _block(item: types.ContentBlock) -> _Block:
    if isinstance(item, types.TextContent):
        return TextBlock(text=item.text)
    if isinstance(item, types.ResourceLink):
        kind = f" ({item.mime_type})" if item.mime_type else ""
        about = f"\n{item.description}" if item.description else ""
        text = f"{item.title or item.name}{kind}: {item.uri}{about}"
        return TextBlock(text=text, metadata=_from(item.uri))
    if isinstance(item, types.EmbeddedResource):
        held = item.resource
        if isinstance(held, types.TextResourceContents):
            return TextBlock(text=held.text, metadata=_from(held.uri))
        return _media(held.blob, held.mime_type, held.uri)
    return _media(item.data, item.mime_type)


def _media(data: str, media_type: str | None, uri: str | None = None) -> _Block:
    """An image or a file. Data that is no base64 would have every later request of the conversation refused."""
    data = "".join(data.split())  # some encoders wrap lines
    metadata = _from(uri) if uri is not None else {}
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
    try:
        return PurePosixPath(unquote(urlsplit(uri or "").path)).name or None
    except ValueError:  # "http://[": servers may write what they like
        return None


def _from(uri: str) -> dict[str, Any]:
    return {"mcp": {"uri": uri}}
