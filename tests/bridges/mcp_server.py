"""A real MCP server over stdio, for tests/bridges/test_mcp.py: ``python mcp_server.py LOG LISTING``.

LOG is a file to which it writes what a client cannot see: how it was asked to list, the arguments of ``echo`` as they
came, the cancellations that reached it. LISTING is a file that names the way in which ``tools/list`` is odd; where it
is not there, tools are listed two a page.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    JSONRPCResponse,
    ListToolsResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)

ANYTHING: dict[str, Any] = {"type": "object"}
CITY: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "description": "Its name."}},
}
ODD = ["self", "context", "name", "session", "arguments", "a-b"]  # properties that are awkward as parameters' names
PIXEL = "iVBORw0KGgo="  # the eight bytes that a PNG begins with

TOOLS = [
    Tool(
        name="get_weather",
        description="The weather in a city.",
        input_schema=CITY,
        annotations=ToolAnnotations(read_only_hint=True),
    ),
    Tool(name="files.read", title="Read a file", input_schema=ANYTHING),
    Tool(name="echo", input_schema={"type": "object", "properties": {name: {} for name in ODD}}),
    Tool(name="say", description="Answer with given content.", input_schema=ANYTHING),
    Tool(
        name="typed",
        annotations=ToolAnnotations(title="Typed"),
        input_schema=ANYTHING,
        output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    ),
    Tool(name="count", input_schema=ANYTHING),
    Tool(name="wait", input_schema=ANYTHING, annotations=ToolAnnotations(destructive_hint=True)),
    Tool(name="meet", input_schema=ANYTHING),
    Tool(name="die", input_schema=ANYTHING),
]

QUESTION = ElicitRequest(
    params=ElicitRequestFormParams(
        message="Which colour?",
        requested_schema={"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
    )
)

CONTENT: dict[str, list[ContentBlock]] = {
    "nothing": [],
    "text": [TextContent(text="It rains.")],
    "two texts": [TextContent(text="It rains."), TextContent(text="It snows.")],
    "image": [TextContent(text="A map:"), ImageContent(data=PIXEL, mime_type="image/png")],
    "broken images": [
        ImageContent(data=data, mime_type="image/png") for data in ("no base64!", "é", "", "iVBORw0KGgo")
    ],
    "wrapped image": [ImageContent(data="iVBORw\n0KGgo=\n", mime_type="image/png")],
    "no image": [ImageContent(data=PIXEL, mime_type="application/octet-stream")],
    "audio": [AudioContent(data="UklGRg==", mime_type="audio/wav")],
    "resources": [
        EmbeddedResource(
            resource=TextResourceContents(uri="file:///notes.txt", mime_type="text/plain", text="Buy milk")
        ),
        EmbeddedResource(
            resource=BlobResourceContents(uri="file:///a%20b.pdf", mime_type="application/pdf", blob="JVBERg==")
        ),
        EmbeddedResource(resource=BlobResourceContents(uri="map://oslo", mime_type="image/png", blob=PIXEL)),
    ],
    "odd file": [EmbeddedResource(resource=BlobResourceContents(uri="http://[", blob="AA=="))],
    "link": [ResourceLink(uri="file:///r.pdf", name="r.pdf", description="The report.", mime_type="application/pdf")],
}

DATA: dict[str, tuple[list[str], Any]] = {
    "alone": ([], {"n": 1}),
    "repeated": (['{ "n": 1 }'], {"n": 1}),
    "wrapped": (["5"], {"result": 5}),
    "wrapped list": (["1", "b"], {"result": ["1", "b"]}),
    "summary": (["4 items"], {"items": [1, 2, 3, 4]}),
    "deep": (["[" * 100_000], {"n": 1}),
}


class Log:
    """Lines in a file, which the test reads."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


class Behaviour:
    """What the server answers."""

    def __init__(self, log: Log, listing: Path, writing: Any) -> None:
        self._log = log
        self._writing = writing
        self._listing = listing
        self._met = 0
        self._everybody_is_here = anyio.Event()

    async def list_tools(self, _: Any, params: Any) -> ListToolsResult:
        cursor = params.cursor if params is not None else None
        self._log.write(f"list {cursor!r}")
        match self._listing.read_text() if self._listing.exists() else "pages":
            case "pages":
                start = int(cursor or 0)
                following = str(start + 2) if start + 2 < len(TOOLS) else None
                # A client may keep a page for a minute (revision of 2026-07-28).
                return ListToolsResult(tools=TOOLS[start : start + 2], next_cursor=following, ttl_ms=60_000)
            case "none":
                raise MCPError(METHOD_NOT_FOUND, "Method not found")
            case "refused":
                raise MCPError(INTERNAL_ERROR, "The catalogue is lost")
            case "empty cursor means the end" if cursor == "":
                raise MCPError(INVALID_PARAMS, "Invalid cursor")
            case "empty cursor leads on" if cursor == "":
                return ListToolsResult(tools=TOOLS[1:2])
            case "circle":
                return ListToolsResult(tools=TOOLS[:1], next_cursor="next")
            case "endless":
                return ListToolsResult(tools=[], next_cursor=f"{cursor}+")
            case "same names":
                names = ["a.b", "a/b", "a_b", "", "天气", "x" * 65, "x" * 64 + "y", "a.b"]
                return ListToolsResult(tools=[Tool(name=name, input_schema=ANYTHING) for name in names])
            case _:
                return ListToolsResult(tools=TOOLS[:1], next_cursor="")

    async def call_tool(self, context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        arguments = params.arguments or {}
        match params.name:
            case "get_weather":
                return _texts(f"Rain in {arguments['city']}.")
            case "files.read":
                return _texts("the file")
            case "echo":
                self._log.write(f"echo {json.dumps(params.arguments, sort_keys=True)}")
                return _texts("ok")
            case "say" if "invalid" in arguments:  # past the server class, which would not let it through
                answer = JSONRPCResponse(jsonrpc="2.0", id=context.request_id, result={"content": "no list"})
                await self._writing.send(SessionMessage(answer))
                return _texts("too late")
            case "say":
                return self._said(arguments, params.input_responses)
            case "typed":
                return CallToolResult(content=[], structured_content={"n": arguments["n"]})
            case "count":
                last = arguments["to"]
                for number in range(1, last + 1):
                    await context.session.report_progress(number, last, f"{number} done" if number < last else None)
                return _texts("counted")
            case "wait":
                return await self._wait(context)
            case "meet":
                return await self._meet(arguments["others"])
            case "die":
                os._exit(1)
            case _:
                raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")

    def _said(self, arguments: dict[str, Any], answers: Any) -> CallToolResult | InputRequiredResult:
        if "content" in arguments:
            return CallToolResult(content=CONTENT[arguments["content"]], is_error=arguments.get("error", False))
        if "data" in arguments:
            texts, data = DATA[arguments["data"]]
            return CallToolResult(
                content=[TextContent(text=text) for text in texts],
                structured_content=data,
                is_error=arguments.get("error", False),
            )
        if "picture" in arguments:
            image = ImageContent(data=PIXEL, mime_type="image/png")
            return CallToolResult(content=[image], structured_content={"width": 1})
        if "asking" in arguments and answers:
            return _texts(f"So it is {answers['colour'].content['colour']}.")
        if "asking" in arguments:
            return InputRequiredResult(input_requests={"colour": QUESTION})
        if "code" in arguments:
            raise MCPError(arguments["code"], arguments["message"])
        raise RuntimeError("the server has a fault")

    async def _wait(self, context: Any) -> CallToolResult:
        await context.session.report_progress(0, message="waiting")  # the test knows by this that the call is here
        try:
            await anyio.sleep(60)
        except anyio.get_cancelled_exc_class():
            self._log.write("wait was cancelled")
            raise
        return _texts("waited")

    async def _meet(self, others: int) -> CallToolResult:
        """Answers when as many calls of it are running beside each other."""
        self._met += 1
        everybody_is_here = self._everybody_is_here
        if self._met > others:
            everybody_is_here.set()
            self._met, self._everybody_is_here = 0, anyio.Event()
        await everybody_is_here.wait()
        return _texts("met")


def _texts(*texts: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text) for text in texts])


async def main(log: str, listing: str) -> None:
    async with stdio_server() as (reading, writing):
        behaviour = Behaviour(Log(log), Path(listing), writing)
        server = Server("tests", on_list_tools=behaviour.list_tools, on_call_tool=behaviour.call_tool)
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
