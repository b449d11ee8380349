"""Server tools and items of unknown types in Responses streams."""

from __future__ import annotations

from typing import Any

import pytest
from providers.openai_responses.recording_sink import (
    item_added,
    item_done,
    parse_content,
    record,
    response_end,
)

from streamkit import Turn
from streamkit.providers.openai_responses.schema import (
    CLIENT_ITEM_FIELDS,
    PROGRESS_EVENTS,
    SERVER_DELTA_EVENTS,
    SERVER_TOOL_ITEMS,
)


@pytest.mark.parametrize("kind", sorted(set(SERVER_TOOL_ITEMS) - CLIENT_ITEM_FIELDS.keys()))
def test_the_item_of_a_server_tool_is_kept_unchanged(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "name": "n", "odd": [1]}
    content = parse_content(item_added(item), item_done(item), response_end())
    assert [(block.type, block.raw) for block in content.blocks] == [("server_tool", [item])]


def test_a_compaction_is_reported_as_one() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "E"}
    records = record(item_added(item), item_done(item), response_end(output=[item]))
    assert records[0] == ("compaction", item, None)


@pytest.mark.parametrize("kind", ["function_call_output", "unknown_item"])
def test_an_item_of_an_unknown_type_is_kept(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "secret": "E"}
    records = record(item_added(item), item_done(item), response_end(output=[item]))
    assert records[0] == ("provider_block", item)
    assert "warn" not in [event[0] for event in records]


def test_an_item_without_an_end_is_unknown_unless_it_is_a_server_tool() -> None:
    item = {"type": "compaction", "id": "x"}
    assert ("unknown", item) in record(item_added(item), response_end())
    assert "unknown" not in [
        event[0] for event in record(item_added({"type": "web_search_call", "id": "x"}), response_end())
    ]


def test_a_shell_call_is_a_server_tool_once_its_environment_is_known() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": ["ls"]}}
    container = {"type": "container_reference", "container_id": "cntr_1"}
    records = record(item_added(shell), item_done({**shell, "environment": container}))
    assert [event[:4] for event in records] == [
        ("server_tool", "c", "shell", "started"),
        ("server_tool", "c", "shell", "arguments"),
        ("server_tool", "c", "shell", "result"),
    ]


def test_a_server_tool_that_still_runs_at_the_end_has_no_result() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "searching", "action": {"query": "x"}}
    phases = [
        event[3]
        for event in record(item_added(item), response_end("incomplete", output=[item]))
        if event[0] == "server_tool"
    ]
    assert phases == ["started", "arguments"]


def test_a_partial_image_of_an_unknown_item_is_emitted() -> None:
    event = {"type": "response.image_generation_call.partial_image", "item_id": "ig", "partial_image_b64": "QQ=="}
    assert record(event) == [("server_tool", "ig", "image_generation", "result", {"partial_image_b64": "QQ=="}, None)]


@pytest.mark.parametrize(
    ("form", "media_type"), [(None, "image/png"), ("webp", "image/webp"), ("svg", "image/svg+xml")]
)
def test_an_image_has_the_media_type_of_its_format(form: str | None, media_type: str) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": "QQ==", "output_format": form}
    assert ("file", media_type, "QQ==") in record(item_done(item))


def test_arguments_of_an_mcp_call_that_are_not_json_stay_text() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "roll", "arguments": "{oops"}
    assert ("server_tool", "mcp_1", "roll", "arguments", "{oops", None) in record(item_done(item))


def test_arguments_of_an_unknown_server_tool_are_ignored_until_its_item_comes() -> None:
    assert record({"type": "response.mcp_call_arguments.done", "item_id": "mcp_1", "arguments": "{}"}) == []


@pytest.mark.parametrize(
    "kind", [*sorted(PROGRESS_EVENTS - {"response.mcp_call_arguments.done"}), "response.keepalive"]
)
def test_progress_events_are_heartbeats(kind: str) -> None:
    assert record({"type": kind, "item_id": "x", "output_index": 0}) == [("heartbeat",)]


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ({"type": "mcp_call", "id": "x_1", "name": "roll"}, "roll"),
        ({"type": "code_interpreter_call", "id": "x_1"}, "code_interpreter"),
        ({"type": "shell_call", "id": "x_1", "environment": {"type": "container_reference"}}, "shell"),
    ],
)
def test_every_delta_of_a_server_tool_is_an_event(item: dict[str, Any], name: str) -> None:
    [kind] = [kind for kind, types in SERVER_DELTA_EVENTS.items() if item["type"] in types]
    deltas = [{"type": kind, "item_id": "x_1", "output_index": 0, "delta": text} for text in ("a", "", "b")]
    records = record(
        item_added(item), *deltas, {**deltas[0], "delta": 7}, {**deltas[0], "item_id": "y", "output_index": 5}
    )
    assert records[1:4] == [
        ("server_tool_delta", "x_1", name, "a"),
        ("heartbeat",),
        ("server_tool_delta", "x_1", name, "b"),
    ]
    assert [event[0] for event in records[4:]] == ["unknown", "unknown"]


def test_the_output_of_a_command_is_emitted_as_it_comes() -> None:
    environment = {"type": "container_reference", "container_id": "cntr_1"}
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c", "environment": environment}
    delta = {"command_index": 0, "delta": {"stdout": "a"}}
    event = {"type": "response.shell_call_output_content.delta", "item_id": "sho_1", "output_index": 1, **delta}
    output = {"type": "shell_call_output", "id": "sho_1", "call_id": "c", "output": []}
    records = record(item_added(shell), item_done(shell), item_added(output, 1), event)
    assert records[-1] == ("server_tool", "c", "shell", "result", delta, None)


def test_the_deltas_of_a_shell_call_of_the_client_are_heartbeats() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c", "environment": {"type": "local"}}
    event = {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "ls"}
    assert record(item_added(shell), event) == [("heartbeat",)]


def test_a_search_whose_executor_is_named_at_its_end() -> None:
    search = {"type": "tool_search_call", "id": "tsc_1", "arguments": {"goal": "x"}}
    started = item_added({"type": "tool_search_call", "id": "tsc_1"})
    by_client = record(started, item_done({**search, "execution": "client"}))
    assert [event[0] for event in by_client] == ["start", "add_metadata", "replace_arguments", "end_block"]
    assert by_client[2] == ("replace_arguments", 0, '{"goal":"x"}')
    by_server = record(started, item_done({**search, "execution": "server"}))
    assert {event[0] for event in by_server} == {"server_tool"}


@pytest.mark.parametrize(
    ("item", "arguments"),
    [
        ({"type": "computer_call", "actions": [{"type": "wait"}]}, '{"actions":[{"type":"wait"}]}'),
        ({"type": "computer_call"}, "{}"),
        ({"type": "local_shell_call", "action": "ls"}, '{"action":"ls"}'),
        ({"type": "mcp_approval_request", "name": "f", "arguments": "{oops"}, '{"name":"f","arguments":"{oops"}'),
        ({"type": "mcp_approval_request", "name": "f", "arguments": ""}, '{"name":"f","arguments":{}}'),
        ({"type": "tool_search_call", "execution": "client", "arguments": '{"a":1}'}, '{"a":1}'),
        ({"type": "apply_patch_call", "operation": {"diff": "d", "path": "p"}}, '{"path":"p","diff":"d"}'),
    ],
)
def test_the_arguments_of_an_item_for_the_client(item: dict[str, Any], arguments: str) -> None:
    records = record(item_done({"id": "x_1", **item}), response_end())
    assert ("replace_arguments", 0, arguments) in records
    [(_, metadata, _)] = [event for event in records if event[0] == "add_metadata"]
    assert metadata == {"item": {"id": "x_1", **item}, "item_id": "x_1"}


def test_a_patch_without_a_known_beginning_is_reported_at_its_end() -> None:
    delta = {"type": "response.apply_patch_call_operation_diff.delta", "item_id": "apc_1", "output_index": 0}
    item = {"type": "apply_patch_call", "id": "apc_1", "call_id": "c", "operation": {"diff": "ab"}}
    records = record(item_added(item), {**delta, "delta": "a"}, {**delta, "delta": 7}, item_done(item))
    assert [event[0] for event in records] == ["start", "unknown", "add_metadata", "replace_arguments", "end_block"]


def test_a_call_for_the_client_gets_an_id_that_comes_late() -> None:
    item = {"type": "apply_patch_call", "id": "apc_1", "operation": {"path": "p"}}
    records = record(item_added(item), item_done({**item, "call_id": "call_1"}))
    assert records[0][:2] == ("start", None)
    assert records[1][:2] == ("completed", "call_1")


def test_an_unfinished_shell_call_is_an_incomplete_call() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c", "environment": {"type": "local"}}
    turn = Turn("openai_responses")
    for event in (item_added(shell), response_end("incomplete", incomplete_details={"reason": "max_output_tokens"})):
        turn.feed(event)
    turn.close()
    assert [(call.name, call.state) for call in turn.calls] == [("shell", "incomplete")]
    assert turn.executable == []


@pytest.mark.parametrize("kind", ["keepalive", "ping"])
def test_a_ping_that_other_wires_have_too_shows_nothing(kind: str) -> None:
    assert record({"type": kind}) == []
