"""Actions of the client that a function of the program carries out: it is declared as the provider's own tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from execution.test_calls_for_the_client import SHELL, closed_turn, response
from tools.test_declarations import ANSWER, BASH, COMPUTER, EDITOR, MEMORY, PIXEL, anthropic_call

from streamkit import Content, ImageBlock, Tool, execute_tool_calls_batched, render, run_loop, tool
from streamkit.events import Event

pytestmark = pytest.mark.anyio

ASK = [Content.human("Go.")]


@tool(fields={"openai_responses": {"type": "shell", "environment": {"type": "local"}}})
def shell(commands: list[str], timeout_ms: int | None = None) -> str:
    """Run commands."""
    return f"ran {commands[0]}"


async def run_with(item: dict[str, Any], function: Tool) -> tuple[Any, list[dict[str, Any]]]:
    """Return a run of two rounds, the first with the item, and its requests."""
    requests: list[dict[str, Any]] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        return response() if context.round else response(item)

    return await run_loop(ask, provider="openai_responses", tools=[function], history=ASK), requests


async def test_a_shell_call_runs_the_function_that_is_declared_for_it() -> None:
    run, requests = await run_with(SHELL, shell)
    assert run.ended == "answered"
    assert requests[0]["tools"] == [{"type": "shell", "environment": {"type": "local"}}]
    [call, output] = requests[1]["input"][-2:]
    assert {name: call[name] for name in ("type", "call_id", "action")} == {
        name: SHELL[name] for name in ("type", "call_id", "action")
    }
    assert output["type"] == "shell_call_output"
    assert output["output"] == [{"stdout": "ran ls", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


PATCH = {"type": "apply_patch_call", "id": "apc_1", "call_id": "c_1", "status": "completed"}


@pytest.mark.parametrize(
    ("item", "declared", "value", "arguments", "sent"),
    [
        (
            {**PATCH, "operation": {"type": "delete_file", "path": "a.txt"}},
            {"type": "apply_patch"},
            "deleted",
            {"type": "delete_file", "path": "a.txt"},
            {"type": "apply_patch_call_output", "call_id": "c_1", "status": "completed", "output": "deleted"},
        ),
        (
            {
                "type": "computer_call",
                "id": "cu_1",
                "call_id": "c_1",
                "status": "completed",
                "action": {"type": "click", "x": 3, "y": 4, "button": "left"},
                "pending_safety_checks": [],
            },
            {"type": "computer_use_preview", "display_width": 1024, "display_height": 768, "environment": "browser"},
            ImageBlock(data=PIXEL),
            {"type": "click", "x": 3, "y": 4, "button": "left"},
            {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": PIXEL}},
        ),
        (
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c_1",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
            {"type": "local_shell"},
            "a.txt",
            {"type": "exec", "command": ["ls"], "env": {}},
            {"type": "local_shell_call_output", "output": "a.txt"},
        ),
        (
            {
                "type": "tool_search_call",
                "id": "tsc_1",
                "call_id": "c_1",
                "execution": "client",
                "status": "completed",
                "arguments": {"goal": "weather"},
            },
            {"type": "tool_search", "execution": "client"},
            [{"type": "function", "name": "get_weather", "parameters": {}}],
            {"goal": "weather"},
            {
                "type": "tool_search_output",
                "call_id": "c_1",
                "execution": "client",
                "tools": [{"type": "function", "name": "get_weather", "parameters": {}}],
            },
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) and "id" in value else "",
)
async def test_each_kind_of_action_goes_back_in_its_own_form(
    item: dict[str, Any], declared: dict[str, Any], value: Any, arguments: dict[str, Any], sent: dict[str, Any]
) -> None:
    ran: list[dict[str, Any]] = []

    def act(**action: Any) -> Any:
        ran.append(action)
        return value

    name = item["type"].removesuffix("_call")
    function = Tool(act, name=name, parameters={"type": "object"}, fields={"openai_responses": declared})
    run, requests = await run_with(item, function)
    assert (run.ended, ran) == ("answered", [arguments])
    output = requests[1]["input"][-1]
    assert {name: output.get(name) for name in sent} == sent
    (stored,) = [
        Content.model_validate_json(content.model_dump_json()) for content in run.contents if content.speaker == "tool"
    ]
    assert render([stored], "openai_responses", repair=False) == [output], "as for a server that stores the call"


@pytest.mark.parametrize(
    "function",
    [
        tool(lambda commands: "ran", name="shell"),
        tool(lambda commands: "ran", name="shell", fields={"openai_responses": {"type": "function", "name": "shell"}}),
        tool(lambda commands: "ran", name="shell", fields={"openai_responses": {"type": "local_shell"}}),
        Tool(name="shell", fields={"openai_responses": {"type": "shell"}}),
    ],
    ids=["not declared", "a function", "another tool", "no function"],
)
async def test_an_action_awaits_its_result_unless_a_function_is_declared_for_it(function: Tool) -> None:
    run, _ = await run_with(SHELL, function)
    assert (run.ended, len(run.pending)) == ("awaiting_results", 1)


async def test_an_action_obeys_the_options_of_its_tool() -> None:
    run, _ = await run_with(SHELL, shell.replace(approval="ask"))
    assert (run.ended, [call.name for call in run.pending]) == ("awaiting_approval", ["shell"])
    run, requests = await run_with(SHELL, shell.replace(approval="deny"))
    assert requests[1]["input"][-1]["output"][0]["outcome"] == {"type": "exit", "exit_code": 1}


async def test_an_executor_runs_it_too() -> None:
    update = await execute_tool_calls_batched(closed_turn(SHELL), tools=[shell])
    assert [(result.status, result.value) for result in update.results] == [("completed", "ran ls")]


@pytest.mark.parametrize(
    ("declared", "arguments"),
    [
        (BASH, {"command": "ls"}),
        (EDITOR, {"command": "view", "path": "a.txt"}),
        (MEMORY, {"command": "view", "path": "/memories"}),
    ],
)
async def test_anthropics_client_tools_run_their_functions(declared: dict[str, Any], arguments: dict[str, Any]) -> None:
    requests: list[dict[str, Any]] = []

    def act(**action: Any) -> str:
        return f"did {action}"

    def ask(context: Any) -> Any:
        requests.append(context.request)
        return ANSWER if context.round else anthropic_call(declared["name"], json.dumps(arguments))

    function = Tool(act, name=declared["name"], parameters={"type": "object"}, fields={"anthropic": declared})
    run = await run_loop(ask, provider="anthropic", tools=[function], history=ASK)
    assert (run.ended, requests[0]["tools"]) == ("answered", [declared])
    [result] = requests[1]["messages"][-1]["content"]
    assert (result["tool_use_id"], result["content"]) == ("toolu_1", f"did {arguments}")


# The stream of https://platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool with thinking, in the
# deltas of the fine-grained tool stream: an empty one first, then parts of the object.
def computer_stream() -> list[dict[str, Any]]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    call = {"type": "tool_use", "id": "toolu_1", "name": "computer", "input": {}}
    deltas = ["", '{"action": "left_', 'click", "coord', 'inate": [10, 2', "0]}"]
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "The button."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": call},
        *(
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": delta}}
            for delta in deltas
        ),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


async def test_anthropics_computer_streams_runs_and_gets_the_screenshot() -> None:
    requests: list[dict[str, Any]] = []

    @tool(fields={"anthropic": COMPUTER})
    def computer(action: str, coordinate: tuple[int, int] | None = None) -> Any:
        """Act on the screen."""
        return [f"{action} at {coordinate}", ImageBlock(data=PIXEL)]

    def ask(context: Any) -> Any:
        requests.append(context.request)
        stream = computer_stream()
        return (
            [stream[0], {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, stream[-1]]
            if (context.round)
            else stream
        )

    async with run_loop(ask, provider="anthropic", tools=[computer], history=ASK) as run:
        events: list[Event] = [event async for event in run]
    deltas = [event.arguments_delta for event in events if event.type == "tool_call_delta"]
    assert deltas == ['{"action": "left_', 'click", "coord', 'inate": [10, 2', "0]}"]
    assert run.ended == "answered"
    assert requests[0]["tools"] == [COMPUTER]
    assistant, results = requests[1]["messages"][-2:]
    assert assistant["content"] == [
        {"type": "thinking", "thinking": "The button.", "signature": "c2ln"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "computer",
            "input": {"action": "left_click", "coordinate": [10, 20]},
        },
    ]
    [result] = results["content"]
    assert result["content"] == [
        {"type": "text", "text": "left_click at (10, 20)"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL[22:]}},
    ]
