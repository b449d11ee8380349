"""Programs and searches of the provider that go on over several rounds of a run.

A program of the provider (code execution, a ``program`` of the Responses API) calls tools of the client and waits for
their results; a tool search finds tools whose definitions were deferred. The next request must have their items, the
container, and the caller of each call, unchanged and in order, or the provider refuses it.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/programmatic-tool-calling
https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
https://platform.openai.com/docs/guides/tools-tool-search
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from execution.test_calls_for_the_client import response
from shared_data import CAPTURES
from tools.test_declarations import ANSWER

from streamkit import Content, Turn, render_request, run_loop, tool

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
ASK = [Content.human("Play.")]
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
CALLERS = {"anthropic": {"allowed_callers": ["code_execution_20250825"]}}


@tool(name="rollDie", fields=CALLERS)
def roll(player: str) -> int:
    """Roll a die."""
    return len(player)


def anthropic_events(message_id: str, container: str, stop: str, *blocks: Json, **details: Any) -> list[Json]:
    """Return a stream whose blocks are complete when they start."""
    facts = {"id": message_id, "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    events: list[Json] = [{"type": "message_start", "message": {**facts, **details}}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "container": {"id": container, "expires_at": "2026-01-01T00:00:00Z"}}
    return [*events, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]


PROGRAM = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "roll()"}}
CALLER = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}


def die(call_id: str, player: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "rollDie", "input": {"player": player}, "caller": CALLER}


OUTPUT = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "code_execution_result",
        "stdout": "7 7",
        "stderr": "",
        "return_code": 0,
        "content": [],
    },
}
GENERATED = [
    anthropic_events("msg_1", "container_1", "tool_use", {"type": "text", "text": "I play."}, PROGRAM, die("t1", "a1")),
    # The program goes on: the second message has its call in its start event, and ends with it.
    [
        {
            "type": "message_start",
            "message": {
                "id": "msg_2",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [die("t2", "a22")],
                "container": {"id": "container_2", "expires_at": "2026-01-01T00:00:00Z"},
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        },
        {"type": "message_stop"},
    ],
]
RECORDED = [CAPTURES / f"anthropic_messages/vercel-src_anthropic_programmatic_tool_calling_1-{n}.sse" for n in (0, 1)]


def streams(name: str) -> list[Any]:
    """Return the streams of two rounds of one program."""
    if name == "generated":
        return list(GENERATED)
    if not RECORDED[0].exists():
        pytest.skip(f"the recorded streams are not here: {RECORDED[0].parent}")
    return [[path.read_bytes()] for path in RECORDED]


@pytest.mark.parametrize("name", ["generated", "recorded"])
async def test_a_program_of_anthropic_gets_the_results_of_its_calls(name: str) -> None:
    requests: list[Json] = []
    rounds = streams(name)
    first = Turn("anthropic", turn_key="t")
    for part in rounds[0]:
        first.feed(part)
    first.close()
    program = str(first.calls[0].metadata["caller"]["tool_id"])
    output = {**OUTPUT, "tool_use_id": program}
    end = anthropic_events("msg_3", "container_3", "end_turn", output, {"type": "text", "text": "Player 1 won."})

    def ask(context: Any) -> Any:
        requests.append(json.loads(json.dumps(context.request)))
        return [*rounds, end][context.round]

    run = await run_loop(ask, provider="anthropic", tools=[CODE, roll], history=ASK)
    assert (run.ended, run.text, len(requests)) == ("answered", "Player 1 won.", 3)
    assert [each["name"] for each in requests[0]["tools"]] == ["code_execution", "rollDie"]
    assert requests[0]["tools"][1]["allowed_callers"] == ["code_execution_20250825"]

    second, third = requests[1:]
    assert second["container"] != third["container"] or name == "recorded"
    assert [part["type"] for part in second["messages"][1]["content"]] == ["text", "server_tool_use", "tool_use"]
    asked = [part for body in (second, third) for part in body["messages"][-2]["content"] if "caller" in part]
    assert [part["caller"]["tool_id"] for part in asked if part["type"] == "tool_use"] == [program, program]
    # "When responding to pending programmatic tool calls, your response message must contain only tool_result blocks."
    results = [body["messages"][-1] for body in (second, third)]
    assert [[part["type"] for part in message["content"]] for message in results] == [["tool_result"]] * 2
    called = [part["id"] for part in asked if part["type"] == "tool_use"]
    assert [message["content"][0]["tool_use_id"] for message in results] == called
    assert third["messages"][: len(second["messages"])] == second["messages"]

    follow_up = render_request([*run.history, Content.human("Again?")], "anthropic", tools=[CODE, roll])
    kinds = [part["type"] for message in follow_up["messages"] for part in message["content"]]
    assert kinds[-3:] == ["code_execution_tool_result", "text", "text"]
    assert follow_up["container"] == "container_3"


SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "get_exchange_rate"}],
    },
}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "rates"}}


@tool(fields={"anthropic": {"defer_loading": True}, "openai_responses": {"defer_loading": True}})
def get_exchange_rate(from_currency: str, to_currency: str) -> float:
    """Look up the current exchange rate between two currencies."""
    return 0.9


ARGUMENTS = {"from_currency": "USD", "to_currency": "EUR"}


async def test_a_deferred_tool_that_anthropic_found_runs_and_the_references_are_replayed() -> None:
    called = {"type": "tool_use", "id": "t1", "name": "get_exchange_rate", "input": ARGUMENTS}
    stream = anthropic_events("msg_1", "c", "tool_use", {"type": "text", "text": "I search."}, SEARCHED, FOUND, called)
    requests: list[Json] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        return ANSWER if context.round else stream

    run = await run_loop(ask, provider="anthropic", tools=[SEARCH, get_exchange_rate], history=ASK)
    assert run.ended == "answered"
    assert [body["tools"][1]["defer_loading"] for body in requests] == [True, True]
    assistant, result = requests[1]["messages"][-2:]
    assert assistant["content"] == [{"type": "text", "text": "I search."}, SEARCHED, FOUND, called]
    assert result["content"][0]["content"] == "0.9"


SEARCH_ITEMS = [
    {"id": "tsc_1", "type": "tool_search_call", "status": "completed", "arguments": {"paths": ["rates"]}},
    {
        "id": "tso_1",
        "type": "tool_search_output",
        "status": "completed",
        "tools": [{"type": "function", "defer_loading": True, "name": "get_exchange_rate", "parameters": {}}],
    },
]
FUNCTION_CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "get_exchange_rate",
    "arguments": json.dumps(ARGUMENTS),
    "status": "completed",
}


async def test_a_deferred_tool_that_the_responses_api_found_runs_and_the_search_is_replayed() -> None:
    search = [{**item, "call_id": None, "execution": "server"} for item in SEARCH_ITEMS]
    requests: list[Json] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        if context.round:
            return response()
        return response(*search, {**FUNCTION_CALL, "namespace": "get_exchange_rate"})

    tools = [{"type": "tool_search"}, get_exchange_rate]
    run = await run_loop(ask, provider="openai_responses", tools=tools, history=ASK)
    assert run.ended == "answered"
    assert requests[0]["tools"][1]["defer_loading"] is True
    items = requests[1]["input"][1:]
    assert [item["type"] for item in items] == [
        "tool_search_call",
        "tool_search_output",
        "function_call",
        "function_call_output",
    ]
    assert items[:2] == search
    assert (items[2]["namespace"], items[3]["output"]) == ("get_exchange_rate", "0.9")


async def test_a_program_of_the_responses_api_gets_the_results_of_its_calls() -> None:
    # As in openai/src/responses/__fixtures__/programmatic-tool-calling.1.chunks.txt of vercel/ai: the program has no
    # status, and the call that it waits for is still in progress when its item is done.
    program = {"id": "cm_1", "type": "program", "call_id": "call_p", "code": "rate()", "fingerprint": "gAAA"}
    caller = {"type": "program", "caller_id": "call_p"}
    waiting = {**FUNCTION_CALL, "status": "in_progress", "caller": caller}
    output = {"id": "po_1", "type": "program_output", "call_id": "call_p", "result": "0.9", "status": "completed"}
    requests: list[Json] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        rounds = [
            [program, waiting],
            [{**waiting, "id": "fc_2", "call_id": "call_2"}],
            [output],
        ]
        return response(*rounds[context.round])

    tools = [{"type": "programmatic_tool_calling"}, get_exchange_rate]
    run = await run_loop(ask, provider="openai_responses", tools=tools, history=ASK)
    assert (run.ended, run.rounds) == ("answered", 3)
    items = requests[2]["input"][1:]
    assert [(item["type"], item.get("call_id")) for item in items] == [
        ("program", "call_p"),
        ("function_call", "call_1"),
        ("function_call_output", "call_1"),
        ("function_call", "call_2"),
        ("function_call_output", "call_2"),
    ]
    assert items[0] == program
    assert [item["caller"] for item in items[1:]] == [caller] * 4
    follow_up = render_request([*run.history, Content.human("Again?")], "openai_responses")
    assert follow_up["input"][-2]["type"] == "program_output"
