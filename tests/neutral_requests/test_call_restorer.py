"""Calls of an upstream are the client's again: custom calls, names and namespaces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from neutral_requests.client_bodies import BODIES

from streamkit import Request, ToolDefinition, Turn, parse_request, render_request, writer
from streamkit.events import ArgumentsRestated, Event, ToolCallDelta, ToolCallEnd, ToolCallReady, ToolCallStart
from streamkit.gateway.translation.call_restorer import CallRestorer
from streamkit.testing import validate_request

PATCH = '*** Begin Patch\n+say "hé 😀"\n*** End Patch'


def chat_events(name: str, arguments: str, size: int = 3, finish: str | None = "tool_calls") -> list[Event]:
    """Return the events of a Chat Completions turn with one call."""
    turn = Turn("openai_compatible", turn_key="t")
    call: dict[str, Any] = {"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": ""}}
    deltas = [{"tool_calls": [call]}] + [
        {"tool_calls": [{"index": 0, "function": {"arguments": arguments[at : at + size]}}]}
        for at in range(0, len(arguments), size)
    ]
    events: list[Event] = []
    for delta in deltas:
        events += turn.feed({"choices": [{"index": 0, "delta": delta}]})
    if finish is not None:
        events += turn.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return [*events, *turn.close()]


def restored(request: Request, events: list[Event]) -> list[Event]:
    restorer = CallRestorer(request, "openai_compatible")
    assert restorer.is_needed
    return [out for event in events for out in restorer.restore(event)]


WIRE = "openai_responses"
CODEX = parse_request(BODIES[WIRE][0], WIRE)


@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_custom_call_is_streamed_unwrapped(is_ascii: bool) -> None:
    source = json.dumps({"input": PATCH}, ensure_ascii=is_ascii)
    for size in (1, 2, 5, 1000):
        events = restored(CODEX, chat_events("apply_patch", source, size))
        calls = [event.call for event in events if isinstance(event, (ToolCallStart, ToolCallDelta, ToolCallEnd))]
        assert {(call.name, call.kind) for call in calls} == {("apply_patch", "custom")}
        deltas = [event.arguments_delta for event in events if isinstance(event, ToolCallDelta)]
        assert "".join(deltas) == PATCH
        assert all(deltas)
        (ready,) = [event.call for event in events if isinstance(event, ToolCallReady)]
        assert (ready.kind, ready.state, ready.arguments, ready.arguments_text) == ("custom", "complete", PATCH, PATCH)
        assert not any(isinstance(event, ArgumentsRestated) for event in events)


def test_the_text_of_a_custom_call_waits_for_nothing() -> None:
    source = json.dumps({"input": "abcdef"})
    events = restored(CODEX, chat_events("apply_patch", source, 1))
    assert [event.arguments_delta for event in events if isinstance(event, ToolCallDelta)] == list("abcdef")


def test_a_custom_call_that_is_cut_stays_incomplete() -> None:
    events = restored(CODEX, chat_events("apply_patch", '{"input": "abc', finish="length"))
    (ready,) = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (ready.kind, ready.state, ready.arguments, ready.arguments_text) == ("custom", "incomplete", None, "abc")


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_custom_call_that_is_cut_has_no_end_for_the_client(is_ended: bool) -> None:
    """Codex runs each custom call that has an end, also the first half of a script."""
    target = writer(WIRE, response_id="resp_1", model="m")
    events = restored(CODEX, chat_events("apply_patch", '{"input": "one();\\n', finish="length"))
    events = [event for event in events if is_ended or not isinstance(event, ToolCallEnd)]
    stream = b"".join([*(target.write(event) for event in events), target.close()])
    written = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert [event["type"] for event in written if event["type"].endswith(".done")] == []
    assert written[-1]["type"] == "response.incomplete"
    (item,) = written[-1]["response"]["output"]
    assert (item["status"], item["input"]) == ("incomplete", "one();\n")
    turn = Turn(WIRE)
    turn.feed(stream)
    turn.close()
    assert [(call.state, call.arguments_text) for call in turn.calls] == [("incomplete", "one();\n")]


@pytest.mark.parametrize(
    ("arguments", "text"), [('{"patch": "x"}', "x"), ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'), ("{}", "")]
)
def test_arguments_of_another_form_lose_nothing(arguments: str, text: str) -> None:
    events = restored(CODEX, chat_events("apply_patch", arguments))
    (ready,) = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (ready.state, ready.arguments) == ("complete", text)
    assert "".join(event.arguments_delta for event in events if isinstance(event, ToolCallDelta)) == text


def test_names_and_namespaces_come_back() -> None:
    events = restored(CODEX, chat_events("github__exec_command", '{"command":"x"}'))
    (start,) = [event for event in events if isinstance(event, ToolCallStart)]
    (ready,) = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (start.call.name, start.call.kind, start.namespace) == ("exec_command", "function", "github")
    assert (ready.name, ready.metadata["namespace"], ready.arguments) == ("exec_command", "github", {"command": "x"})
    same = chat_events("exec_command", '{"command":"x"}')
    assert restored(CODEX, same) == same  # the one without a namespace


SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Searches over deferred tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
FOUND = {"type": "function", "name": "get_rate", "description": "Rates.", "defer_loading": True, "parameters": {}}
OUTPUT = {
    "type": "tool_search_output",
    "call_id": "call_1",
    "execution": "client",
    "status": "completed",
    "tools": [{"type": "namespace", "name": "mcp__bank", "description": "A bank.", "tools": [FOUND]}],
}
SEARCHING = {
    "type": "tool_search_call",
    "call_id": "call_1",
    "execution": "client",
    "status": "completed",
    "arguments": {"query": "é"},
}


def searches(*items: dict[str, Any]) -> Request:
    return parse_request({"model": "m", "input": [{"role": "user", "content": "?"}, *items], "tools": [SEARCH]}, WIRE)


@pytest.mark.parametrize("target", ["openai_chat", "anthropic", "gemini", "bedrock_converse", "ollama", "cohere"])
def test_a_tool_search_of_the_client_is_a_function_elsewhere(target: str) -> None:
    changes: list[str] = []
    offered = json.dumps(render_request(searches(), target, model="m", changes=changes))
    assert "Searches over deferred tools." in offered
    assert '"query"' in offered
    assert changes == []
    # Two searches may find the same tool.
    request = searches(SEARCHING, OUTPUT, {**SEARCHING, "call_id": "call_2"}, {**OUTPUT, "call_id": "call_2"})
    body = render_request(request, target, model="m")
    assert validate_request(target, body, model="m") == []
    assert json.dumps(body.get("tools") or body["toolConfig"]["tools"]).count('"get_rate"') == 1
    assert json.dumps(body, ensure_ascii=False).count("é") == 2


def test_a_tool_search_stays_what_it_is_for_its_provider() -> None:
    body = render_request(searches(SEARCHING, OUTPUT), WIRE, model="m", ids="origin")
    assert body["tools"] == [SEARCH]
    assert body["input"][1:] == [SEARCHING, OUTPUT]


@pytest.mark.parametrize("arguments", ['{"query": "é"}', '{"query": '])
def test_the_call_of_a_tool_search_is_an_item_for_the_client(arguments: str) -> None:
    target = writer(WIRE, response_id="resp_1", model="m")
    finish = "tool_calls" if arguments.endswith("}") else "length"
    events = restored(searches(), chat_events("tool_search", arguments, finish=finish))
    stream = b"".join([*(target.write(event) for event in events), target.close()])
    written = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    added = [event["item"] for event in written if event["type"] == "response.output_item.added"]
    done = [event["item"] for event in written if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in added] == ["tool_search_call"]
    assert [{**item, "id": "", "call_id": "call_1"} for item in done] == (
        [{**SEARCHING, "id": ""}] if finish == "tool_calls" else []
    )
    assert not any("arguments" in event["type"] for event in written)


def test_calls_of_a_namespace_that_a_search_found_come_back() -> None:
    events = restored(searches(SEARCHING, OUTPUT), chat_events("get_rate", "{}"))
    (ready,) = [event.call for event in events if isinstance(event, ToolCallReady)]
    assert (ready.name, ready.metadata["namespace"]) == ("get_rate", "mcp__bank")


def test_unknown_calls_and_other_requests_are_left_alone() -> None:
    events = chat_events("invented", "{}")
    assert restored(CODEX, events) == events
    plain = Request(contents=[], tools=[ToolDefinition(name="f")])
    assert CallRestorer(plain, "openai_compatible").is_needed is False
    assert (
        CallRestorer(CODEX, "openai_responses")
        .restore_call(next(event.call for event in events if isinstance(event, ToolCallReady)))
        .name
        == "invented"
    )
