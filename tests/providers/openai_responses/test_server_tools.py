"""Server tools and items of unknown types in Responses streams."""

from __future__ import annotations

import pytest
from providers.openai_responses.recording_sink import (
    item_added,
    item_done,
    parse_content,
    record,
    response_end,
)

from streamkit.providers.openai_responses.schema import CLIENT_ITEMS, PROGRESS_EVENTS, SERVER_TOOL_ITEMS


@pytest.mark.parametrize("kind", sorted(set(SERVER_TOOL_ITEMS) - CLIENT_ITEMS))
def test_the_item_of_a_server_tool_is_kept_unchanged(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "name": "n", "odd": [1]}
    content = parse_content(item_added(item), item_done(item), response_end())
    assert [(block.type, block.raw) for block in content.blocks] == [("server_tool", [item])]


@pytest.mark.parametrize("kind", sorted(CLIENT_ITEMS | {"compaction", "function_call_output", "unknown_item"}))
def test_an_item_of_an_unknown_type_is_kept(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "execution": "client", "environment": {"type": "local"}, "secret": "E"}
    records = record(item_added(item), item_done(item), response_end(output=[item]))
    assert records[0] == ("provider_block", item)
    assert (("warn", "client_item") in records) is (kind in CLIENT_ITEMS)


def test_an_item_without_an_end_is_unknown_unless_it_is_a_server_tool() -> None:
    item = {"type": "computer_call", "id": "x"}
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
    if kind == "response.code_interpreter_call_code.done":
        return  # it contains the code
    assert record({"type": kind, "item_id": "x", "output_index": 0}) == [("heartbeat",)]


@pytest.mark.parametrize("kind", ["keepalive", "ping"])
def test_a_ping_that_other_wires_have_too_shows_nothing(kind: str) -> None:
    assert record({"type": kind}) == []
