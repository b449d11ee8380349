"""Items that ask the client for an action, in requests: the item as it came, and its result as the API's own item."""

from __future__ import annotations

import json
from typing import Any

import pytest
import request_validators

from streamkit import Content, parse_messages, providers, render
from streamkit.history import ImageBlock, ReasoningBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.tool_results import to_stored_result
from streamkit.ids import normalize_to_history_tool_id

OWN = {"provider": "openai_responses"}
IMAGE = "data:image/png;base64,QQ=="
CANONICAL = normalize_to_history_tool_id("a" * 24)
ENTRY = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
REASONING = ReasoningBlock(
    opaque={"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}, metadata=OWN
)

SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "c_1", "action": {"commands": ["ls"]}, "status": "completed"}
PATCH = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "c_1",
    "operation": {"type": "delete_file", "path": "f"},
    "status": "completed",
}
COMPUTER = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "c_1",
    "action": {"type": "screenshot"},
    "pending_safety_checks": [{"id": "sc_1"}],
    "status": "completed",
}
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "f", "server_label": "s", "arguments": "{}"}
SEARCH = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": "c_1",
    "execution": "client",
    "arguments": {},
    "status": "completed",
}
LOCAL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "c_1",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
    "status": "completed",
}


def call(item: dict[str, Any], **metadata: Any) -> ToolCallBlock:
    metadata = {**OWN, "item": item, "item_id": item["id"], **metadata}
    return ToolCallBlock(id=CANONICAL, name=item["type"].removesuffix("_call"), parameters={"a": 1}, metadata=metadata)


def conversation(item: dict[str, Any], value: Any = None, *blocks: Any, **fields: Any) -> list[Content]:
    answer = ToolResponseBlock(call_id=CANONICAL, result=value, **fields)
    return [Content(speaker="ai", blocks=[*blocks, call(item)]), Content(speaker="tool", blocks=[answer])]


def render_valid(contents: list[Content]) -> list[dict[str, Any]]:
    items = providers.get("openai_responses").render(contents).messages
    request_validators.openai_responses_input(json.loads(json.dumps(items)))
    return items


@pytest.mark.parametrize(
    ("item", "value", "fields", "output"),
    [
        (SHELL, [ENTRY], {}, {"type": "shell_call_output", "call_id": "c_1", "output": [ENTRY]}),
        (SHELL, {"output": [ENTRY]}, {}, {"type": "shell_call_output", "call_id": "c_1", "output": [ENTRY]}),
        (SHELL, "a", {}, {"type": "shell_call_output", "call_id": "c_1", "output": [ENTRY]}),
        (
            SHELL,
            None,
            {"status": "error", "error": "no"},
            {
                "type": "shell_call_output",
                "call_id": "c_1",
                "output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
        (
            {**SHELL, "caller": {"type": "direct"}},
            [ENTRY],
            {},
            {"type": "shell_call_output", "call_id": "c_1", "output": [ENTRY], "caller": {"type": "direct"}},
        ),
        (
            PATCH,
            "done",
            {},
            {"type": "apply_patch_call_output", "call_id": "c_1", "status": "completed", "output": "done"},
        ),
        (
            PATCH,
            None,
            {"status": "denied"},
            {"type": "apply_patch_call_output", "call_id": "c_1", "status": "failed", "output": "Not done: denied."},
        ),
        (
            PATCH,
            {"type": "apply_patch_call_output", "status": "failed", "output": "x"},
            {},
            {"type": "apply_patch_call_output", "call_id": "c_1", "status": "failed", "output": "x"},
        ),
        (
            COMPUTER,
            {"image_url": IMAGE, "acknowledged_safety_checks": [{"id": "sc_1"}]},
            {},
            {
                "type": "computer_call_output",
                "call_id": "c_1",
                "output": {"type": "computer_screenshot", "image_url": IMAGE},
                "acknowledged_safety_checks": [{"id": "sc_1"}],
            },
        ),
        (
            COMPUTER,
            to_stored_result(ImageBlock(data=IMAGE)),
            {},
            {
                "type": "computer_call_output",
                "call_id": "c_1",
                "output": {"type": "computer_screenshot", "image_url": IMAGE},
            },
        ),
        (APPROVAL, True, {}, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}),
        (APPROVAL, "yes", {}, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False}),
        (
            APPROVAL,
            {"approve": False, "reason": "r"},
            {},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "r"},
        ),
        (
            APPROVAL,
            True,
            {"status": "canceled", "error": "stopped"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "stopped"},
        ),
        (
            SEARCH,
            [],
            {},
            {"type": "tool_search_output", "call_id": "c_1", "execution": "client", "status": "completed", "tools": []},
        ),
        (
            {**SEARCH, "call_id": None},
            "nothing",
            {"error": "no"},
            {"type": "tool_search_output", "call_id": None, "execution": "client", "status": "completed", "tools": []},
        ),
    ],
)
def test_the_item_and_its_result_are_those_of_the_api(
    item: dict[str, Any], value: Any, fields: dict[str, Any], output: dict[str, Any]
) -> None:
    items = render_valid(conversation(item, value, REASONING, **fields))
    assert items == [REASONING.opaque, item, output]


def test_the_result_of_a_local_shell_names_its_call_in_its_id() -> None:
    assert render_valid(conversation(LOCAL, "a")) == [
        LOCAL,
        {"type": "local_shell_call_output", "id": "c_1", "output": "a"},
    ]


def test_an_item_has_no_id_without_its_reasoning_unless_it_requires_one() -> None:
    assert "id" not in render_valid(conversation(SHELL, "a"))[0]
    assert "id" not in render_valid(conversation(PATCH, "a"))[0]
    assert render_valid(conversation(APPROVAL, True))[0] == APPROVAL


@pytest.mark.parametrize("value", ["no image", None, 7, [{"type": "text", "text": "x"}]])
def test_a_click_without_a_screenshot_is_an_ordinary_call(value: Any) -> None:
    asked, answer = render_valid(conversation(COMPUTER, value))
    assert (asked["type"], asked["name"], answer["type"]) == ("function_call", "computer", "function_call_output")
    assert asked["call_id"] == answer["call_id"]


def test_a_call_without_a_result_is_its_item() -> None:
    assert render_valid([Content(speaker="ai", blocks=[REASONING, call(COMPUTER)])]) == [REASONING.opaque, COMPUTER]


@pytest.mark.parametrize("item", [SHELL, PATCH, COMPUTER, APPROVAL, SEARCH])
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini", "openai_responses"])
def test_other_targets_get_an_ordinary_call(item: dict[str, Any], target: str) -> None:
    contents = conversation(item, "a")
    contents[0].blocks[0].metadata["provider"] = "another"
    text = json.dumps(render(contents, target))
    assert item["type"].removesuffix("_call") in text
    assert f'"{item["id"]}"' not in text
    assert "_output" not in text.replace("function_call_output", "")


@pytest.mark.parametrize("item", [SHELL, PATCH, COMPUTER, APPROVAL, SEARCH, LOCAL])
def test_an_interrupted_response_has_no_ids_that_the_provider_did_not_retain(item: dict[str, Any]) -> None:
    contents = conversation(item, IMAGE)
    contents[0].metadata["interrupted"] = True
    items = render_valid(contents)
    assert f'"{item["id"]}"' not in json.dumps(items)
    assert len(items) == 2


@pytest.mark.parametrize(
    ("item", "output"),
    [
        (SHELL, {"type": "shell_call_output", "call_id": "c_1", "output": [ENTRY], "id": "sho_1"}),
        (PATCH, {"type": "apply_patch_call_output", "call_id": "c_1", "status": "failed"}),
        (APPROVAL, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}),
        (
            COMPUTER,
            {
                "type": "computer_call_output",
                "call_id": "c_1",
                "output": {"type": "computer_screenshot", "image_url": IMAGE},
            },
        ),
        (SEARCH, {"type": "tool_search_output", "call_id": "c_1", "tools": [], "execution": "client"}),
    ],
)
def test_items_that_were_read_are_rendered_again(item: dict[str, Any], output: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "Go."}, REASONING.opaque, item, output]
    contents = parse_messages(messages, "openai_responses")
    assert [block.type for content in contents for block in content.blocks][2:] == ["tool_call", "tool_response"]
    assert render(contents, "openai_responses") == messages


def test_the_output_of_a_server_search_stays_with_it() -> None:
    search = {**SEARCH, "execution": "server", "call_id": None}
    output = {"type": "tool_search_output", "id": "tso_1", "call_id": None, "execution": "server", "tools": []}
    contents = parse_messages([search, output], "openai_responses")
    assert [block.type for block in contents[0].blocks] == ["server_tool", "server_tool"]
    assert render(contents, "openai_responses") == [search, output]


@pytest.mark.parametrize(("item", "has_sentence"), [(PATCH, False), (SHELL, False), (LOCAL, True)])
def test_a_failure_that_only_the_status_says_has_a_sentence_where_the_output_is_text(
    item: dict[str, Any], has_sentence: bool
) -> None:
    changes: list[str] = []
    output = render(conversation(item, "x", REASONING, status="error"), "openai_responses", changes=changes)[-1]
    assert output["type"] == item["type"] + "_output"
    assert [change.startswith("the status of a result was left out") for change in changes] == [True] * has_sentence
