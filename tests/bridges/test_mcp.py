"""MCP tools, against the real server process of mcp_server.py."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from streamkit import (
    Content,
    StreamkitError,
    Tool,
    ToolCall,
    ToolFailed,
    UsageError,
    execute_tool_calls_batched,
    render_request,
    run_loop,
)
from streamkit.history import FileBlock, ImageBlock, TextBlock
from streamkit.testing import Call, Reply, serve, validate_request

mcp = pytest.importorskip("mcp")

from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402

from streamkit.bridges.mcp import mcp_tools  # noqa: E402

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).with_name("mcp_server.py")
LISTED = ["get_weather", "files_read", "echo", "say", "typed", "count", "wait", "meet", "die"]
PNG = "data:image/png;base64,iVBORw0KGgo="


class Process:
    """How to start the server, and what it wrote of itself."""

    def __init__(self, folder: Path) -> None:
        self.log, self.listing = folder / "log", folder / "listing"
        arguments = [str(SERVER), str(self.log), str(self.listing)]
        self.parameters = StdioServerParameters(command=sys.executable, args=arguments)

    def start(self) -> Any:
        return stdio_client(self.parameters, errlog=sys.__stderr__)

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    async def wrote(self, line: str) -> bool:
        """Waits for a line, which the server writes when it comes to it."""
        with anyio.move_on_after(10):
            while line not in self.lines:  # noqa: ASYNC110 - it is another process that writes
                await anyio.sleep(0.01)
        return line in self.lines


@asynccontextmanager
async def connected(process: Process) -> AsyncIterator[Any]:
    async with process.start() as (reading, writing), mcp.ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops, each with one server process for most tests: to start it takes more than a second."""
    return str(request.param)


@pytest.fixture(scope="module")
async def running(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Any, Process]]:
    process = Process(tmp_path_factory.mktemp("server"))
    async with connected(process) as session:
        yield session, process


@pytest.fixture
def process(running: tuple[Any, Process]) -> Process:
    """The server's process, that has written nothing yet and lists in pages."""
    _, process = running
    process.log.unlink(missing_ok=True)
    process.listing.unlink(missing_ok=True)
    return process


@pytest.fixture
def session(running: tuple[Any, Process], process: Process) -> Any:
    return running[0]


async def by_name(session: Any, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in await mcp_tools(session, **options)}


def calls(*wanted: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [
        ToolCall(id=f"hist_tool_{n:024d}", name=name, index=n, raw_id=f"c{n}", state="complete", arguments=arguments)
        for n, (name, arguments) in enumerate(wanted)
    ]


async def failure(tool: Tool, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as failed:
        await tool(**arguments)
    return str(failed.value)


# ---------------------------------------------------------------- listing


async def test_all_pages_of_the_listing_become_tools(session: Any, process: Process) -> None:
    tools = await by_name(session)
    assert list(tools) == LISTED
    assert process.lines == ["list None", "list '2'", "list '4'", "list '6'", "list '8'"]
    weather = tools["get_weather"]
    assert weather.description == "The weather in a city."
    assert weather.parameters == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"City": {"type": "string", "description": "Its name."}},
    }
    assert [tools[name].description for name in ("files_read", "typed", "count")] == ["Read a file", "Typed", ""]
    assert tools["count"].parameters == {"type": "object", "properties": {}}
    assert await tools["files_read"]() == "the file"  # the server knows it as files.read


async def test_a_prefix_is_part_of_the_names_but_not_sent_to_the_server(session: Any) -> None:
    tools = await by_name(session, prefix="home_")
    assert list(tools) == [f"home_{name}" for name in LISTED]
    assert await tools["home_get_weather"](city="Oslo") == "Rain in Oslo."


async def test_names_are_legal_and_unique_and_do_not_depend_on_the_order(session: Any, process: Process) -> None:
    process.listing.write_text("same names")
    assert [tool.name for tool in await mcp_tools(session)] == [
        "a_b_2e7336dc",  # sha256 of "a.b"
        "a_b_c14cddc0",  # of "a/b"
        "a_b",  # the server's own name: legal as it is
        "_e3b0c442",  # of ""
        "__",
        "x" * 55 + "_9537c5fd",
        "x" * 55 + "_96a61e9b",
    ]


@pytest.mark.parametrize(
    ("listing", "names", "asked"),
    [
        ("empty cursor leads on", ["get_weather", "files_read"], ["list None", "list ''"]),
        ("empty cursor means the end", ["get_weather"], ["list None", "list ''"]),
        ("empty cursor begins again", ["get_weather"], ["list None", "list ''"]),
        ("circle", ["get_weather"], ["list None", "list 'next'"]),
        ("none", [], ["list None"]),
    ],
)
async def test_an_unusual_listing_ends(
    session: Any, process: Process, listing: str, names: list[str], asked: list[str]
) -> None:
    process.listing.write_text(listing)
    assert [tool.name for tool in await mcp_tools(session)] == names
    assert process.lines == asked


async def test_an_endless_listing_is_an_error(session: Any, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamkit.bridges.mcp._MAX_PAGES", 20)
    process.listing.write_text("endless")
    with pytest.raises(StreamkitError, match="did not end within 20 pages"):
        await mcp_tools(session)
    assert len(process.lines) == 20


async def test_a_listing_that_fails_is_an_error(session: Any, process: Process) -> None:
    process.listing.write_text("refused")
    with pytest.raises(mcp.MCPError, match="The catalogue is lost"):
        await mcp_tools(session)


async def test_options_apply_to_all_tools_or_to_some(session: Any) -> None:
    tools = await mcp_tools(
        session,
        approval="ask",
        timeout=5,
        limit=2,
        options={"files.read": {"name": "read", "description": "Reads.", "approval": "allow", "exclusive": True}},
    )
    assert [tool.name for tool in tools] == ["get_weather", "read", *LISTED[2:]]
    assert [tool.approval for tool in tools] == ["ask", "allow", *["ask"] * 7]
    assert [tool.exclusive for tool in tools] == [False, True, *[False] * 7]
    assert {(tool.timeout, tool.limit, tool.eager) for tool in tools} == {(5, 2, False)}
    assert tools[1].description == "Reads."
    assert await tools[1]() == "the file"

    tools = await mcp_tools(
        session,
        prefix="home_",
        approval="ask",
        options=lambda tool: {"approval": "allow"} if tool.annotations and tool.annotations.read_only_hint else None,
    )
    assert [tool.name for tool in tools if tool.approval == "allow"] == ["home_get_weather"]

    # the server's name is files.read
    with pytest.raises(UsageError, match=r"options for unknown tools \['files_read'\]"):
        await mcp_tools(session, options={"files_read": {"approval": "ask"}})
    with pytest.raises(UsageError, match="approval must be"):
        await mcp_tools(session, options={"wait": {"approval": "never"}})  # type: ignore[typeddict-item]


async def test_hints_of_the_server_change_no_option(session: Any) -> None:
    asking = await by_name(session, approval="ask")
    assert asking["get_weather"].approval == "ask"  # readOnlyHint: true
    tools = await by_name(session)
    assert (tools["wait"].approval, tools["get_weather"].eager) == ("allow", False)  # destructiveHint: true


async def test_a_session_that_is_not_connected_is_an_error(session: Any, process: Process) -> None:
    with pytest.raises(UsageError, match=r"needs a connected mcp\.ClientSession"):
        await mcp_tools("http://localhost/mcp")  # type: ignore[arg-type]
    send, receive = anyio.create_memory_object_stream[Any](0)
    with send, receive, pytest.raises(UsageError, match="not initialized"):
        await mcp_tools(mcp.ClientSession(receive, send))
    with pytest.raises(UsageError, match="not connected"):
        await mcp_tools(mcp.Client(process.parameters))
    for prefix in ("a.", "é", "x" * 33):
        with pytest.raises(UsageError, match="is not a legal prefix"):
            await mcp_tools(session, prefix=prefix)


# ---------------------------------------------------------------- arguments, results


async def test_arguments_reach_the_server_unchanged(session: Any, process: Process) -> None:
    given = {"self": 1, "context": None, "name": [], "session": {"é": 1.5}, "arguments": "", "a-b": True, "more": "x"}
    update = await execute_tool_calls_batched(
        calls(("echo", given), ("echo", {}), ("get_weather", {"day": 1})),
        tools=await mcp_tools(session),
        provider="gemini",
    )
    assert [result.status for result in update.results] == ["completed", "completed", "error"]
    assert update.results[2].error == (
        "Not run: the arguments do not fit get_weather: city is missing; day was given 1, expected only: city, "
        "days. Make the call again with arguments that fit."
    )
    echoed = [json.loads(line.removeprefix("echo ")) for line in process.lines if line.startswith("echo ")]
    assert sorted(echoed, key=len) == [{}, given]


async def test_content_becomes_the_value_of_the_tool(session: Any) -> None:
    say = (await by_name(session))["say"]
    assert await say(content="text") == "It rains."
    assert await say(content="nothing") is None
    assert await say(content="two texts") == [TextBlock(text="It rains."), TextBlock(text="It snows.")]
    assert await say(content="image") == [TextBlock(text="A map:"), ImageBlock(data=PNG)]
    assert await say(content="wrapped image") == [ImageBlock(data=PNG)]
    assert await say(content="broken images") == [TextBlock(text="[image/png left out: its data is not base64]")] * 4
    assert await say(content="no image") == [FileBlock(media_type="application/octet-stream", data="iVBORw0KGgo=")]
    assert await say(content="audio") == [FileBlock(media_type="audio/wav", data="UklGRg==")]
    assert await say(content="resources") == [
        TextBlock(text="Buy milk", metadata={"mcp": {"uri": "file:///notes.txt"}}),
        FileBlock(
            media_type="application/pdf",
            data="JVBERg==",
            name="a b.pdf",
            metadata={"mcp": {"uri": "file:///a%20b.pdf"}},
        ),
        ImageBlock(data=PNG, metadata={"mcp": {"uri": "map://oslo"}}),
    ]
    assert await say(content="odd file") == [FileBlock(data="AA==", metadata={"mcp": {"uri": "http://["}})]
    assert await say(content="link") == [
        TextBlock(
            text="r.pdf (application/pdf): file:///r.pdf\nThe report.", metadata={"mcp": {"uri": "file:///r.pdf"}}
        )
    ]


async def test_structured_content_is_data_and_other_content_is_kept(session: Any) -> None:
    tools = await by_name(session)
    say = tools["say"]
    assert await tools["typed"](n=3) == {"n": 3}
    assert await say(data="alone") == {"n": 1}
    assert await say(data="repeated") == {"n": 1}
    assert await say(data="wrapped") == {"result": 5}
    assert await say(data="wrapped list") == {"result": ["1", "b"]}
    assert await say(data="summary") == [TextBlock(text="4 items"), TextBlock(text='{"items":[1,2,3,4]}')]
    assert await say(data="deep") == [TextBlock(text="[" * 100_000), TextBlock(text='{"n":1}')]
    assert await say(picture=True) == [ImageBlock(data=PNG), TextBlock(text='{"width":1}')]


async def test_an_error_of_the_server_is_the_calls_error(session: Any) -> None:
    tools = await by_name(session, prefix="p_")
    say = tools["p_say"]
    assert await failure(say, content="two texts", error=True) == "It rains.\nIt snows."
    assert await failure(say, data="alone", error=True) == '{"n":1}'
    assert await failure(say, content="nothing", error=True) == "p_say failed without a reason."
    assert await failure(say, code=-32602, message="No such city.") == "p_say failed: No such city."
    assert await failure(say, code=-32000, message="") == "p_say failed: its MCP server reported error -32000"
    assert await failure(say, invalid=True) == (
        "p_say failed: the response of its MCP server is not valid (content: Input should be a valid list)."
    )
    assert await failure(say, fault=True) == "p_say failed: the server has a fault"
    assert await failure(tools["p_typed"], n="x") == (
        "p_typed failed: Invalid structured content returned by tool typed: 'x' is not of type 'integer'"
    )
    update = await execute_tool_calls_batched(
        calls(("p_say", {"content": "text", "error": True}), ("tell", {"content": "nothing", "error": True})),
        tools=[say, say.replace(name="tell")],
        provider="anthropic",
    )
    assert [(result.status, result.error) for result in update.results] == [
        ("error", "It rains."),
        ("error", "tell failed without a reason."),
    ]
    assert update.messages[1]["content"][0]["is_error"] is True


# ---------------------------------------------------------------- while it runs


async def test_progress_of_the_server_is_progress_of_the_call(session: Any) -> None:
    tools = await mcp_tools(session)
    async with execute_tool_calls_batched(calls(("count", {"to": 3})), tools=tools, provider="anthropic") as execution:
        events = [event async for event in execution]
    assert events[0].type == "tool_running"
    assert events[-1].type == "tool_completed"
    assert [event.value for event in events if event.type == "tool_progress"] == [
        {"progress": 1.0, "total": 3.0, "message": "1 done"},
        {"progress": 2.0, "total": 3.0, "message": "2 done"},
        {"progress": 3.0, "total": 3.0},
    ]


async def test_a_call_that_takes_too_long_is_cancelled_on_the_server(session: Any, process: Process) -> None:
    tools = await by_name(session, options={"wait": {"timeout": 1}})
    update = await execute_tool_calls_batched(
        calls(("wait", {}), ("get_weather", {"city": "Oslo"})), tools=list(tools.values()), provider="anthropic"
    )
    assert [result.status for result in update.results] == ["timed_out", "completed"]
    assert update.results[0].error == "wait did not finish within 1 seconds."
    assert await process.wrote("wait was cancelled")
    assert await tools["get_weather"](city="Bergen") == "Rain in Bergen."  # the session lives on


async def test_a_call_of_a_closed_run_is_cancelled_on_the_server(session: Any, process: Process) -> None:
    tools = await mcp_tools(session)
    async with execute_tool_calls_batched(calls(("wait", {})), tools=tools, provider="anthropic") as execution:
        async for event in execution:
            if event.type == "tool_progress":
                break
    assert [result.status for result in execution.update.results] == ["canceled"]
    assert await process.wrote("wait was cancelled")


async def test_calls_of_one_run_are_on_the_server_at_the_same_time(session: Any) -> None:
    update = await execute_tool_calls_batched(
        calls(*[("meet", {"others": 2})] * 3), tools=await mcp_tools(session), provider="anthropic"
    )
    assert [(result.status, result.value) for result in update.results] == [("completed", "met")] * 3


async def test_a_call_from_another_event_loop_is_an_error_and_the_session_continues(session: Any) -> None:
    tools = await by_name(session)
    execution = execute_tool_calls_batched(
        calls(("files_read", {})), tools=list(tools.values()), provider="anthropic", timeouts=5
    )
    update = await anyio.to_thread.run_sync(execution.run_sync)
    assert update.results[0].error == (
        "files_read failed with UsageError: an MCP tool must run in the event loop of its session, not in "
        "another thread."
    )
    assert await tools["files_read"]() == "the file"


async def test_when_the_server_dies_its_calls_and_later_ones_get_errors(tmp_path: Path) -> None:
    def gone(name: str) -> str:
        return (
            f"{name} failed: the connection to its MCP server is closed. Whether the call had an effect is not "
            f"known. Continue without {name}."
        )

    async with connected(Process(tmp_path)) as session:
        tools = await by_name(session)
        update = await execute_tool_calls_batched(
            calls(("wait", {}), ("die", {})), tools=list(tools.values()), provider="anthropic", timeouts=None
        )
        assert [(result.status, result.error) for result in update.results] == [
            ("error", gone("wait")),
            ("error", gone("die")),
        ]
        assert await failure(tools["get_weather"], city="Oslo") == gone("get_weather")
        with pytest.raises(mcp.MCPError, match="Connection closed"):
            await mcp_tools(session)
    assert await failure(tools["get_weather"], city="Oslo") == gone("get_weather")  # also when the session was left


# ---------------------------------------------------------------- with a Client; in a run


async def test_a_client_works_like_a_session_and_responds_to_requests_for_input(tmp_path: Path) -> None:
    async def elicited(_: Any, params: Any) -> Any:
        assert params.message == "Which colour?"
        return mcp.types.ElicitResult(action="accept", content={"colour": "blue"})

    process = Process(tmp_path)
    async with mcp.Client(process.start(), elicitation_callback=elicited) as client:
        tools = await by_name(client)
        assert list(tools) == LISTED
        assert await tools["get_weather"](city="Oslo") == "Rain in Oslo."
        assert await failure(tools["say"], code=-32602, message="No such city.") == "say failed: No such city."
        assert await tools["say"](asking=True) == "So it is blue."
        bare = await by_name(client.session)
        assert await failure(bare["say"], asking=True) == (
            "say failed: its MCP server asks for input, which is not available here."
        )
        before = process.lines.count("list None")
        await mcp_tools(client)  # a fresh listing, not the client's cache
        assert process.lines.count("list None") == before + 1


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "gemini", "cohere", "ollama"])
async def test_the_schemas_are_accepted_by_every_provider(session: Any, provider: str) -> None:
    body = render_request([Content.human("Weather in Oslo?")], provider, tools=await mcp_tools(session))
    assert validate_request(provider, {"model": "m", "max_tokens": 100, **body}, model="m") == []
    assert json.dumps(body).count('"get_weather"') == 1


async def test_a_complete_run_calls_the_server(session: Any) -> None:
    script = [
        Reply("Let me look.", Call("home_get_weather", {"city": "Oslo"}), Call("home_say", {"content": "image"})),
        Reply("Rain in Oslo, and here is the map."),
    ]
    tools = await mcp_tools(session, prefix="home_")
    with serve(script) as server:
        async with httpx.AsyncClient(base_url=server.base_url("anthropic")) as http:

            def ask(context: Any) -> Any:
                body = {"model": "claude-sonnet-4-5", "max_tokens": 1024, **context.request}
                return http.stream("POST", "/v1/messages", json=body)

            run = await run_loop(ask, provider="anthropic", tools=tools, history=[Content.human("Weather in Oslo?")])
    assert (run.ended, run.text) == ("answered", "Rain in Oslo, and here is the map.")
    assert [tool["name"] for tool in server.requests[0].json["tools"]] == [f"home_{name}" for name in LISTED]
    results = server.requests[1].json["messages"][2]["content"]
    assert results[0]["content"] == "Rain in Oslo."
    assert results[1]["content"] == [
        {"type": "text", "text": "A map:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]
