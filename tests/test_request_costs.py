"""How much is called to read a client's request and to write it for an upstream: counted, never timed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from carried_states import SETTINGS
from compiled import interpreted_only
from operation_counts import Operations, count_operations

from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.providers import parse_request, render_request

pytestmark = interpreted_only

WIRES = ("anthropic", "gemini", "openai_chat", "openai_responses")

#: The messages that a round of `conversation` adds: a person's text, a text with a call, its result.
BLOCKS_OF_A_ROUND = 4

#: Calls of the package's Python functions for a round, read and written: of the dearest pair of wires. They were 324 to
#: 391 while every block was validated and the call of every result was searched, and up to 215 while what a reader
#: fills itself was checked.
MOST_CALLS_FOR_A_ROUND = 207

#: The same for a request of one short text; they were up to 237, and later 185.
MOST_CALLS_FOR_A_TEXT = 155


def conversation(rounds: int) -> dict[str, Any]:
    """Return a request of Chat Completions with that many rounds of one call."""
    messages: list[dict[str, Any]] = []
    for number in range(rounds):
        function = {"name": "add", "arguments": json.dumps({"a": number, "b": 2})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": f"Add {number} and 2."},
            {"role": "assistant", "content": "I add them.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": str(number + 2)},
        ]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": "Go on."}]}


def pass_on(body: dict[str, Any], client: str, target: str) -> Operations:
    """Return the operations of a request that is read, restored and written, as the gateway does it."""
    with count_operations() as operations:
        request = parse_request(body, client)
        restored = request.model_copy(update={"contents": restore_state(request.contents, SETTINGS)})
        render_request(restored, target, settings={"model": "m"}, endpoint="http://localhost", unsupported="text")
    return operations


def bodies(client: str, *rounds: int) -> list[dict[str, Any]]:
    """Return requests of a client's wire with so many rounds each."""
    return [render_request(parse_request(conversation(count), "openai_chat"), client) for count in rounds]


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("client", WIRES)
def test_the_calls_for_a_round_have_a_bound(client: str, target: str) -> None:
    text, shorter, longer = bodies(client, 0, 10, 30)
    pass_on(shorter, client, target)  # loads the modules
    calls = [pass_on(body, client, target).calls.total() for body in (text, shorter, longer)]
    assert calls[0] <= MOST_CALLS_FOR_A_TEXT
    assert calls[2] - calls[1] <= MOST_CALLS_FOR_A_ROUND * 20


@pytest.mark.parametrize("client", WIRES)
def test_a_message_is_checked_once_where_it_is_read_and_once_where_it_is_written(client: str) -> None:
    (body,) = bodies(client, 10)
    calls = pass_on(body, client, "anthropic").calls
    assert calls["history/content.py", "_normalize_input"] == 0
    assert calls["history/stored_data.py", "are_plain_data"] <= BLOCKS_OF_A_ROUND * 10 + 2
    assert calls["history/repair.py", "read"] == 0


def test_a_conversation_that_needs_repair_is_repaired() -> None:
    body = conversation(2)
    body["messages"][2], body["messages"][3] = body["messages"][3], body["messages"][2]
    assert pass_on(body, "openai_chat", "anthropic").calls["history/repair.py", "read"] > 0
