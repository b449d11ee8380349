"""Any conversation continues on any provider: every wire's streams as history, rendered for every target.

A turn of each wire becomes the middle of a conversation (a question before it, a result for each call, a question
behind), and the request that each target would be sent is held against that vendor's own request types made strict and
against the rules by which it refuses requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import request_validators
from shared_data import CONFORMANCE_CASES, recorded_streams

from streamkit import Content, Turn, providers, render_request
from streamkit.history import ToolResponseBlock
from streamkit.testing import Violation, cases_in, validate_request
from streamkit.testing.conformance import Case

CASES = CONFORMANCE_CASES
STRICT: dict[str, Callable[[dict[str, Any]], None]] = {
    "openai_chat": request_validators.openai_chat_request,
    "azure_openai": request_validators.openai_chat_request,
    "openai_responses": lambda body: request_validators.openai_responses_input(body["input"]),
    "anthropic": request_validators.anthropic_request,
    "gemini": lambda body: request_validators.gemini_contents(body["contents"]),
    "bedrock_converse": request_validators.bedrock_request,
}


def conversation(turn: Turn) -> list[Content]:
    """The turn between a person's messages, each of its calls answered."""
    results = [
        ToolResponseBlock(call_id=call.id, name=call.name, result={"seen": call.index})
        if call.state == "complete"
        else ToolResponseBlock(call_id=call.id, name=call.name, status="error", error="The arguments were cut.")
        for call in turn.calls
    ]
    answered = [Content(speaker="tool", blocks=results)] if results else []
    return [Content.system("Be brief."), Content.human("Go on."), turn.content, *answered, Content.human("And then?")]


def own_turns() -> Iterator[Case]:
    """One turn of every own case that has a call."""
    for name in providers.names():
        for folder in cases_in(CASES / name):
            case = Case(providers.get(name), folder)
            if "calls" in (case.expected or {}):
                yield case


def goes_back_as_it_came(contents: list[Content], target: str) -> bool:
    """Whether a provider's own blocks are among what it is sent: the SDKs' types know few of those."""
    own = {target, "anthropic" if target == "bedrock_invoke" else target}
    return any(
        (block.type in ("server_tool", "opaque") or "reasoning_details" in block.metadata)
        and block.metadata.get("provider") in own
        for content in contents
        for block in content.blocks
    )


def is_of_the_wires_own_making(fault: Violation, contents: list[Content]) -> bool:
    """Whether OpenAI's rule of item ids is broken by an id that the stream itself brought.

    Servers that speak Responses name items in their own ways, and take back what they named; OpenAI names them by the
    rule, so its own streams cannot break it.
    """
    items = [block.opaque for content in contents for block in content.blocks if block.type == "reasoning"]
    ids = [item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)]
    return fault.rule == "item_id_prefix" and any(json.dumps(made) in fault.sentence for made in ids)


def judge(contents: list[Content], where: str, *, is_damaged: bool = False) -> None:
    """Hold a conversation against the rules of every target and the SDKs' types.

    What a damaged stream gave goes back to its own provider as it came, and is no longer of the SDK's types.
    """
    makers = {block.metadata.get("provider") for content in contents for block in content.blocks}
    for target in providers.names():
        for policy in ("canonical", "origin"):
            body = json.loads(json.dumps(render_request(contents, target, ids=policy)))
            faults = [
                fault for fault in validate_request(target, body) if not is_of_the_wires_own_making(fault, contents)
            ]
            assert faults == [], f"{where} for {target} with ids={policy}: {faults[0].message}"
            is_own = is_damaged and (target in makers or "bedrock_invoke" in makers)
            if target in STRICT and not is_own and not goes_back_as_it_came(contents, target):
                STRICT[target](body)


CASES_WITH_CALLS = list(own_turns())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES_WITH_CALLS, ids=lambda case: f"{case.provider.name}/{case.path.stem}")
def test_a_turn_of_any_wire_continues_on_any_provider(case: Case) -> None:
    pieces = next(iter(case.inputs().values()))[0]
    turn, _ = case.run(pieces)
    if not turn.content.blocks:
        pytest.skip("the turn said nothing that could be continued")
    judge(conversation(turn), str(case.path))


@pytest.mark.slow
def test_every_recorded_turn_continues_on_any_provider() -> None:
    streams = recorded_streams()
    judged = 0
    for stream in streams:
        turn = Turn(stream.provider, turn_key="turn-1")
        turn.feed(stream.data)
        turn.close()
        if turn.content.blocks:
            judge(conversation(turn), str(stream))
            judged += 1
    assert judged > len(streams) // 2


def test_one_history_of_all_wires_continues_on_any_provider() -> None:
    contents: list[Content] = []
    for name in providers.names():
        case = next((case for case in CASES_WITH_CALLS if case.provider.name == name), None)
        if case is None:
            continue  # Perplexity answers without calls
        turn, _ = case.run(next(iter(case.inputs().values()))[0])
        contents += conversation(turn)[1:]
    judge(contents, "all wires in one history")
