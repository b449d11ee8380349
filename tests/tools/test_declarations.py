"""Declarations that a caller writes for one provider: fields of a tool, tools that a provider defines, hosted tools."""

from __future__ import annotations

from typing import Any

import pytest
from execution.test_calls_for_the_client import response

from streamkit import Content, ImageBlock, Tool, UsageError, providers, render_request, run_loop, tool

pytestmark = pytest.mark.anyio

ASK = [Content.human("Go.")]
PIXEL = "data:image/png;base64,iVBORw0KGgo="

# https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool, .../text-editor-tool, .../memory-tool,
# .../computer-use-tool: their schemas are the model's own, so a declaration has neither description nor schema.
BASH = {"type": "bash_20250124", "name": "bash"}
EDITOR = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
MEMORY = {"type": "memory_20250818", "name": "memory"}
COMPUTER = {"type": "computer_20250124", "name": "computer", "display_width_px": 1024, "display_height_px": 768}
# https://platform.openai.com/docs/guides/function-calling#context-free-grammars
GRAMMAR = {
    "type": "custom",
    "name": "calculate",
    "description": "Compute a sum.",
    "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+(\+\d+)*"},
}


def look(path: str) -> str:
    """Look at a file."""
    return f"saw {path}"


def declarations(body: dict[str, Any]) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = body["toolConfig"]["tools"] if "toolConfig" in body else body["tools"]
    functions: list[dict[str, Any]] = declared[0].get("functionDeclarations", declared)
    return functions


@pytest.mark.parametrize("provider", providers.names())
def test_fields_are_added_to_the_declaration_for_their_provider_alone(provider: str) -> None:
    [plain] = declarations(render_request(ASK, provider, tools=[look]))
    fields = {provider: {"cache_control": {"type": "ephemeral"}}, "elsewhere": {"other": 1}}
    [declared] = declarations(render_request(ASK, provider, tools=[tool(look, fields=fields)]))
    assert declared == {**plain, "cache_control": {"type": "ephemeral"}}
    [declared] = declarations(render_request(ASK, provider, tools=[tool(look, fields={"elsewhere": {"other": 1}})]))
    assert declared == plain


def test_a_tool_of_the_provider_is_declared_for_a_function() -> None:
    def bash(command: str = "", restart: bool = False) -> str:
        return command

    tools = [tool(bash, fields={"anthropic": BASH}), look]
    assert render_request(ASK, "anthropic", tools=tools)["tools"][0] == BASH
    chat = render_request(ASK, "openai_chat", tools=tools)["tools"]
    assert [each["function"]["name"] for each in chat] == ["bash", "look"]


@pytest.mark.parametrize(
    ("provider", "declared"),
    [
        ("anthropic", BASH),
        ("anthropic", EDITOR),
        ("anthropic", MEMORY),
        ("anthropic", COMPUTER),
        ("anthropic", {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}),
        ("openai_responses", {"type": "web_search"}),
        ("openai_responses", {"type": "shell"}),
        ("openai_responses", GRAMMAR),
        ("openai_chat", {"type": "custom", "custom": {"name": "calculate"}}),
        ("gemini", {"googleSearch": {}}),
    ],
)
def test_a_declaration_is_sent_as_it_is(provider: str, declared: dict[str, Any]) -> None:
    body = render_request(ASK, provider, tools=[declared, look], tool_choice="auto")
    assert body["tools"].count(declared) == 1
    assert len(body["tools"]) == 2
    assert render_request(ASK, provider, tools=[declared])["tools"] == [declared]


def test_declarations_without_a_name_may_be_of_one_type() -> None:
    servers = [{"type": "mcp", "server_label": label, "server_url": f"https://{label}.example"} for label in "ab"]
    assert render_request(ASK, "openai_responses", tools=servers)["tools"] == servers


def test_a_declaration_does_not_make_other_tools_less_strict() -> None:
    """Some providers take strict tools only if all are strict; a declared tool has no schema to be strict about."""
    strict = tool(look, strict=True)
    [plain] = render_request(ASK, "groq", tools=[strict])["tools"]
    assert render_request(ASK, "groq", tools=[strict, {"type": "browser_search"}])["tools"][0] == plain


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools have the name 'bash'"):
        render_request(ASK, "anthropic", tools=[BASH, BASH])
    with pytest.raises(UsageError, match="tools must be functions or tools, not"):
        render_request(ASK, "anthropic", tools=[{"name": "a", "description": "b"}])
    for fields in ({"anthropic": True}, ["anthropic"], {1: {}}):
        with pytest.raises(UsageError, match="fields must be dicts by the provider's name"):
            tool(look, fields=fields)  # type: ignore[arg-type]


def anthropic_call(name: str, arguments: str) -> list[dict[str, Any]]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": arguments}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


ANSWER = [
    anthropic_call("x", "")[0],
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    ("declared", "arguments", "value", "content"),
    [
        (BASH, '{"command": "ls"}', "a.txt", "a.txt"),
        (EDITOR, '{"command": "view", "path": "a.txt"}', "1\tOne", "1\tOne"),
        (MEMORY, '{"command": "view", "path": "/memories"}', "empty", "empty"),
        (
            COMPUTER,
            '{"action": "screenshot"}',
            ImageBlock(data=PIXEL),
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL[22:]}}],
        ),
    ],
)
async def test_the_results_of_the_client_go_back_to_anthropic(
    declared: dict[str, Any], arguments: str, value: Any, content: Any
) -> None:
    requests: list[dict[str, Any]] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        return ANSWER if context.round else anthropic_call(declared["name"], arguments)

    run = await run_loop(ask, provider="anthropic", tools=[declared], history=ASK)
    assert (run.ended, requests[0]["tools"]) == ("awaiting_results", [declared])
    run = await run_loop(ask, resume=run.state.answer(results={run.pending[0].id: value}), tools=[declared])
    assert run.ended == "answered"
    [result] = requests[1]["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"], result["content"]) == ("tool_result", "toolu_1", content)


# The items: https://platform.openai.com/docs/api-reference/responses/create, input items.
@pytest.mark.parametrize(
    ("item", "value", "sent"),
    [
        (
            {"type": "computer_call", "id": "cu_1", "action": {"type": "screenshot"}, "pending_safety_checks": []},
            ImageBlock(data=PIXEL),
            {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": PIXEL}},
        ),
        (
            {"type": "apply_patch_call", "id": "apc_1", "operation": {"type": "delete_file", "path": "a.txt"}},
            "deleted",
            {"type": "apply_patch_call_output", "status": "completed", "output": "deleted"},
        ),
        (
            {"type": "local_shell_call", "id": "lsh_1", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            "a.txt",
            {"type": "local_shell_call_output", "output": "a.txt"},
        ),
        (
            {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"},
            True,
            {"type": "mcp_approval_response", "approve": True},
        ),
    ],
)
async def test_the_results_of_the_client_go_back_to_the_responses_api(
    item: dict[str, Any], value: Any, sent: dict[str, Any]
) -> None:
    requests: list[list[dict[str, Any]]] = []
    if item["type"] != "mcp_approval_request":  # its id is the only one
        item = {"call_id": "c_1", "status": "completed", **item}

    def ask(context: Any) -> Any:
        requests.append(context.request["input"])
        return response() if context.round else response(item)

    run = await run_loop(ask, provider="openai_responses", history=ASK)
    assert run.ended == "awaiting_results"
    run = await run_loop(ask, resume=run.state.answer(results={run.pending[0].id: value}))
    assert run.ended == "answered"
    output = requests[1][-1]
    assert {name: output.get(name) for name in sent} == sent


async def test_a_custom_tool_with_a_grammar_runs_its_function() -> None:
    def calculate(text: str) -> int:
        return sum(map(int, text.split("+")))

    def ask(context: Any) -> Any:
        call = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_1", "name": "calculate", "input": "1+2"}
        requests.append(context.request)
        return response() if context.round else response(call)

    requests: list[dict[str, Any]] = []
    tools = [tool(calculate, fields={"openai_responses": GRAMMAR})]
    run = await run_loop(ask, provider="openai_responses", tools=tools, history=ASK)
    assert run.ended == "answered"
    assert requests[0]["tools"] == [GRAMMAR]
    assert requests[1]["input"][-1] == {"type": "custom_tool_call_output", "call_id": "c_1", "output": "3"}


def test_a_declared_tool_has_no_function_to_call() -> None:
    with pytest.raises(UsageError, match="has no function"):
        Tool(name="bash", fields={"anthropic": BASH})()
