"""The opaque state of an upstream comes back through the messages of a client of another wire, byte for byte."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from carried_states import KEY, SETTINGS, unwrap_state

from streamkit import Content, Turn, parse_request, render_request
from streamkit.events import BlockEnded, Event, Finished, Reasoning, Text, ToolCallReady, ToolCallStart
from streamkit.gateway.translation.opaque_state import StateCarrier
from streamkit.gateway.translation.state_restorer import restore_state
from streamkit.gateway.translation.state_text import UpstreamState, wrap_state
from streamkit.history import ReasoningBlock, ToolResponseBlock
from streamkit.providers import get
from streamkit.providers.contract.rendered import is_wrapped_state

Json = dict[str, Any]

SIGNATURE = "EqQBCg==/+\u00e9 signed"
ENDPOINT = "https://api.example.com/v1"
DAMAGED = (
    "opaque state of earlier responses was left out: it came back damaged, or was signed with a key that this gateway"
    " does not have"
)
ORIGIN = {"provider": "anthropic", "model": "m"}
STATE = UpstreamState(ORIGIN, "reasoning", {"signature": SIGNATURE}, {"a": [1, None]})


def test_a_state_is_one_text_that_is_recognized() -> None:
    text = wrap_state(STATE, KEY)
    assert is_wrapped_state(text)
    assert unwrap_state(text) == STATE
    assert base64.b64decode(text, validate=True).startswith(b"streamkit-state-1:")
    assert not is_wrapped_state(SIGNATURE)
    assert not is_wrapped_state(None)
    assert unwrap_state(SIGNATURE) is None


def test_a_client_that_decodes_the_field_changes_nothing() -> None:
    data = base64.b64decode(wrap_state(STATE, KEY))
    assert unwrap_state(base64.urlsafe_b64encode(data).decode()) == STATE
    assert unwrap_state(base64.b64encode(data).decode().rstrip("=")) == STATE
    assert unwrap_state(base64.encodebytes(data).decode()) == STATE


def test_a_damaged_state_is_no_state() -> None:
    text = wrap_state(STATE, KEY)
    for cut in range(24, len(text) - 4):
        assert unwrap_state(text[:cut]) is None
        assert is_wrapped_state(text[:cut])
    mark = b"streamkit-state-1:"
    for data in (mark, mark + b"x", mark + zlib.compress(b"[]"), mark + bytes(16) + zlib.compress(b"{}")):
        assert unwrap_state(base64.b64encode(data).decode()) is None


# ---------------------------------------------------------------- turns of upstreams


def anthropic_turn() -> list[list[Event]]:
    """Return the events of each chunk of a turn with signed and redacted thinking, and a call."""
    content = [
        {"type": "thinking", "thinking": "A shell,\nI think.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {"command": "date"}},
    ]
    turn = Turn("anthropic", turn_key="t", endpoint=ENDPOINT)
    body = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content,
            "stop_reason": "tool_use", "usage": {}}  # fmt: skip
    return [turn.feed(body), turn.close()]


def gemini_turn() -> list[list[Event]]:
    call = {"functionCall": {"name": "shell", "args": {"command": "date"}}}
    parts = [{"text": "Hm.", "thought": True}, {**call, "thoughtSignature": "c2ln"}, call]
    turn = Turn("gemini", turn_key="t", endpoint=ENDPOINT)
    body = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "modelVersion": "gemini-3-pro-preview"}  # fmt: skip
    return [turn.feed(body), turn.close()]


def responses_turn() -> list[list[Event]]:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "shell",
         "arguments": '{"command":"date"}', "status": "completed"},
    ]  # fmt: skip
    turn = Turn("openai_responses", turn_key="t", endpoint=ENDPOINT)
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-5", "output": output}
    return [turn.feed(body), turn.close()]


UPSTREAMS = {
    "anthropic": (anthropic_turn, "claude-sonnet-4-5"),
    "gemini": (gemini_turn, "gemini-3-pro-preview"),
    "openai_responses": (responses_turn, "gpt-5"),
}

# ---------------------------------------------------------------- clients, each with the messages that it sends back


def texts_of(events: list[Event]) -> tuple[str, str]:
    reasoning = "".join(getattr(event, "text", "") for event in events if event.type == "reasoning")
    return reasoning, "".join(getattr(event, "text", "") for event in events if event.type == "text")


def anthropic_client(events: list[Event]) -> Json:
    blocks: list[Json] = []
    text = ""
    for event in events:
        if event.type == "reasoning":
            text += event.text
        elif isinstance(event, BlockEnded) and event.kind == "reasoning":
            opaque = event.metadata.get("opaque")
            blocks.append(opaque or {"type": "thinking", "thinking": text, "signature": event.signature or ""})
            text = ""
        elif isinstance(event, ToolCallReady):
            call = event.call
            blocks.append({"type": "tool_use", "id": f"toolu_{call.index}", "name": call.name, "input": call.arguments})
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "Monday"}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    user = {"role": "user", "content": "Weather?"}
    return {"messages": [user, {"role": "assistant", "content": blocks}, {"role": "user", "content": results}]}


def responses_client(events: list[Event]) -> Json:
    items: list[Json] = [{"role": "user", "content": "Weather?"}]
    outputs: list[Json] = []
    for event in events:
        if isinstance(event, BlockEnded) and event.kind == "reasoning":
            items.append({"type": "reasoning", "id": "rs_x", "summary": [], "encrypted_content": event.signature})
        elif isinstance(event, ToolCallReady):
            call = event.call
            shared = {"call_id": f"call_{call.index}"}
            arguments = call.arguments_text
            items.append({"type": "function_call", **shared, "name": call.name, "arguments": arguments})
            outputs.append({"type": "function_call_output", **shared, "output": "Monday"})
    return {"input": items + outputs}


def chat_client(events: list[Event]) -> Json:
    message: Json = {"role": "assistant", "content": None, "tool_calls": [], "reasoning_details": []}
    results: list[Json] = []
    for event in events:
        if isinstance(event, BlockEnded) and event.kind == "reasoning":
            message["reasoning_details"] += event.metadata.get("reasoning_details", [])
        elif isinstance(event, ToolCallReady):
            call = event.call
            call_id = f"call_{call.index}"
            function = {"name": call.name, "arguments": call.arguments_text}
            message["tool_calls"].append({"id": call_id, "type": "function", "function": function, **call.metadata})
            results.append({"role": "tool", "tool_call_id": call_id, "content": "Monday"})
    return {"messages": [{"role": "user", "content": "Weather?"}, message, *results]}


def gemini_client(events: list[Event]) -> Json:
    parts: list[Json] = []
    text = ""
    for event in events:
        if event.type == "reasoning":
            text += event.text
        elif isinstance(event, BlockEnded) and event.kind == "reasoning":
            parts.append({"text": text, "thought": True, **event.metadata})
            text = ""
        elif isinstance(event, ToolCallReady):
            parts.append(
                {"functionCall": {"name": event.call.name, "args": event.call.arguments}, **event.call.metadata}
            )
    results = [
        {"functionResponse": {"name": part["functionCall"]["name"], "response": {"output": "Monday"}}}
        for part in parts
        if "functionCall" in part
    ]
    user = {"role": "user", "parts": [{"text": "Weather?"}]}
    return {"contents": [user, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]}


CLIENTS = {
    "anthropic": anthropic_client,
    "openai_responses": responses_client,
    "openai_chat": chat_client,
    "gemini": gemini_client,
}


def through(client: str, upstream: str, **origin: Any) -> Json:
    """Return the body of the client's next request, after a turn of the upstream."""
    make_turn, model = UPSTREAMS[upstream]
    carrier = StateCarrier(client, {"provider": upstream, "endpoint": ENDPOINT, "model": model, **origin}, SETTINGS)
    return CLIENTS[client]([event for events in make_turn() for event in carrier.carry(events)])


def upstream_messages(client: str, upstream: str, body: Json, **options: Any) -> tuple[list[Json], list[str]]:
    """Return the messages that the upstream gets for a client's body, and the changes."""
    request = parse_request(body, client)
    changes: list[str] = []
    request = request.model_copy(update={"contents": restore_state(request.contents, SETTINGS, changes)})
    _, model = UPSTREAMS[upstream]
    options = {"model": model, "endpoint": ENDPOINT, **options}
    written = render_request(request, upstream, settings={"model": model}, changes=changes, **options)
    return next(written[name] for name in ("messages", "input", "contents") if name in written), changes


@pytest.mark.parametrize("client", CLIENTS)
def test_thinking_comes_back_to_anthropic(client: str) -> None:
    messages, _ = upstream_messages(client, "anthropic", through(client, "anthropic"))
    blocks = messages[1]["content"]
    assert blocks[:2] == [
        {"type": "thinking", "thinking": "A shell,\nI think.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
    ]
    assert blocks[-1]["type"] == "tool_use"


@pytest.mark.parametrize("client", CLIENTS)
def test_encrypted_reasoning_comes_back_to_responses(client: str) -> None:
    items, changes = upstream_messages(client, "openai_responses", through(client, "openai_responses"))
    assert items[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="}
    assert items[2]["type"] == "function_call"
    assert not any("reasoning was left out" in change for change in changes)


@pytest.mark.parametrize("client", CLIENTS)
def test_thought_signatures_come_back_to_the_call_that_had_them(client: str) -> None:
    contents, _ = upstream_messages(client, "gemini", through(client, "gemini"))
    calls = [part for part in contents[1]["parts"] if "functionCall" in part]
    assert [part.get("thoughtSignature") for part in calls] == ["c2ln", None]


THOUGHT: list[Event] = [Reasoning("Hm."), BlockEnded("reasoning")]


def chat_turn(name: str, field: str) -> list[list[Event]]:
    """Return the events of a turn with reasoning that has no signature, and a call."""
    call = {"id": "call_1", "type": "function", "function": {"name": "shell", "arguments": '{"command":"date"}'}}
    message = {"role": "assistant", "content": None, field: "A shell, I think.", "tool_calls": [call]}
    turn = Turn(name, turn_key="t", endpoint=ENDPOINT)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return [turn.feed({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}), turn.close()]


def plain_messages(client: str, upstream: str, field: str) -> list[Json]:
    """Return the messages that the upstream gets after its turn went through a client."""
    carrier = StateCarrier(client, {"provider": upstream, "endpoint": ENDPOINT, "model": "m"}, SETTINGS)
    body = CLIENTS[client]([event for events in chat_turn(upstream, field) for event in carrier.carry(events)])
    request = parse_request(body, client)
    request = request.model_copy(update={"contents": restore_state(request.contents, SETTINGS)})
    messages: list[Json] = render_request(request, upstream, settings={"model": "m"}, endpoint=ENDPOINT)["messages"]
    return messages


@pytest.mark.parametrize(
    ("upstream", "field"), [("deepseek", "reasoning_content"), ("kimi", "reasoning_content"), ("vllm", "reasoning")]
)
@pytest.mark.parametrize("client", CLIENTS)
def test_reasoning_without_a_signature_comes_back_to_who_needs_it(client: str, upstream: str, field: str) -> None:
    """400 "reasoning_content is missing in assistant tool call message" (bytedance/deer-flow#3043)."""
    _, assistant, result = plain_messages(client, upstream, field)
    assert assistant[field] == "A shell, I think."
    assert len(assistant["tool_calls"]) == 1
    assert "Monday" in result["content"]


@pytest.mark.parametrize(
    ("upstream", "reason"),
    [
        ("anthropic", "reasoning was left out: it has no signature of Anthropic's, which accepts no other reasoning"),
        (
            "openai_responses",
            "reasoning was left out: it has no signature of OpenAI's, which accepts no other reasoning",
        ),
        ("deepseek", "left out a block of type 'reasoning' of ollama: deepseek accepts only its own"),
    ],
)
def test_reasoning_whose_state_a_client_dropped_is_not_said_to_be_the_clients(upstream: str, reason: str) -> None:
    """The client's name is all that its messages show; any upstream may have made the reasoning."""
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "Cold.", "thinking": "A shell, I think."},
        {"role": "user", "content": "Sure?"},
    ]
    changes: list[str] = []
    request = parse_request({"model": "m", "messages": messages}, "ollama")
    render_request(request, upstream, settings={"model": "m"}, unsupported="text", changes=changes)
    assert [change for change in changes if "reasoning" in change] == [reason]


@pytest.mark.parametrize("upstream", ["openai_chat", "perplexity"])
@pytest.mark.parametrize("client", ["gemini", "bedrock_converse", "deepseek"])
def test_reasoning_that_does_not_go_back_is_not_carried(client: str, upstream: str) -> None:
    carrier = StateCarrier(client, {"provider": upstream}, SETTINGS)
    events = [event for events in chat_turn(upstream, "reasoning_content") for event in carrier.carry(events)]
    ends = [event for event in events if isinstance(event, BlockEnded) and event.kind == "reasoning"]
    assert [(event.signature, event.metadata) for event in ends] == [(None, {})]


@pytest.mark.parametrize("upstream", ["gemini", "openai_chat", "perplexity", "groq", "bedrock_converse"])
@pytest.mark.parametrize("client", ["anthropic", "bedrock_invoke"])
def test_reasoning_has_a_signature_on_a_wire_where_all_reasoning_is_signed(client: str, upstream: str) -> None:
    """Without one pydantic-ai sends it back as words of the user, and the AI SDK leaves it out."""
    carrier = StateCarrier(client, {"provider": upstream}, SETTINGS)
    events = carrier.carry([*THOUGHT, Text("Yes."), BlockEnded("text")])
    (end,) = [event for event in events if isinstance(event, BlockEnded) and event.kind == "reasoning"]
    assert is_wrapped_state(end.signature)
    content = [{"type": "thinking", "thinking": "Hm.", "signature": end.signature}, {"type": "text", "text": "Yes."}]
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": content}]
    contents = restore_state(parse_request({"messages": messages}, "anthropic").contents, SETTINGS)
    reasoning, text = contents[1].blocks
    assert isinstance(reasoning, ReasoningBlock)
    assert (reasoning.text, reasoning.signature, reasoning.metadata) == ("Hm.", None, {"provider": upstream})
    assert text.metadata == {"provider": upstream}


@pytest.mark.parametrize("upstream", ["anthropic", "gemini", "openai_chat", "perplexity", "groq", "bedrock_converse"])
def test_items_of_reasoning_have_encrypted_content_on_responses(upstream: str) -> None:
    """Without it Microsoft's agent framework refuses to send a conversation whose responses are not stored."""
    carrier = StateCarrier("openai_responses", {"provider": upstream}, SETTINGS)
    live = get("openai_responses").writer(stream=False)
    for event in carrier.carry([*THOUGHT, Text("Yes."), BlockEnded("text"), Finished("stop")]):
        live.write(event)
    item, message = json.loads(live.close())["output"]
    assert is_wrapped_state(item["encrypted_content"])
    body = {"input": [{"role": "user", "content": "Go."}, item, message]}
    reasoning, _ = restore_state(parse_request(body, "openai_responses").contents, SETTINGS)[1].blocks
    assert isinstance(reasoning, ReasoningBlock)
    assert (reasoning.text, reasoning.signature, reasoning.metadata) == ("Hm.", None, {"provider": upstream})


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses"])
def test_reasoning_of_the_clients_own_wire_is_as_the_upstream_sent_it(wire: str) -> None:
    assert StateCarrier(wire, {"provider": wire}, SETTINGS).carry(THOUGHT) == THOUGHT


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_state_goes_only_to_who_made_it(client: str, upstream: str) -> None:
    body = through(client, upstream)
    other_model = {"model": "another", "endpoint": ENDPOINT}
    other_endpoint = {"endpoint": "https://elsewhere.example.com"}
    for options in (other_model, other_endpoint):
        messages, _ = upstream_messages(client, upstream, body, **options)
        assert not any(secret in str(messages) for secret in (SIGNATURE, "c2VjcmV0", "gAAAA==", "'c2ln'", "rs_1"))
        assert "streamkit-state" not in str(messages)
        assert "c3RyZWFta2l0LXN0YXRl" not in str(messages)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_client_that_drops_the_state_loses_nothing_else(client: str, upstream: str) -> None:
    body = through(client, upstream)

    def drop(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: drop(item) for name, item in value.items() if not is_wrapped_state(item)}
        return [drop(item) for item in value] if isinstance(value, list) else value

    messages, _ = upstream_messages(client, upstream, drop(body))
    whole, _ = upstream_messages(client, upstream, body)
    for kept in ("Weather?", "date", "Monday"):
        assert str(messages).count(kept) == str(whole).count(kept)


def test_damaged_state_is_left_out_and_reported() -> None:
    body = through("anthropic", "anthropic")
    body["messages"][1]["content"][0]["signature"] = body["messages"][1]["content"][0]["signature"][:-8]
    messages, changes = upstream_messages("anthropic", "anthropic", body)
    assert [block["type"] for block in messages[1]["content"]] == ["redacted_thinking", "tool_use"]
    assert [change for change in changes if "came back damaged" in change] == [DAMAGED]


def test_state_of_a_call_precedes_it_where_the_call_has_no_field_for_it() -> None:
    carrier = StateCarrier("anthropic", {"provider": "gemini"}, SETTINGS)
    events = [event for events in gemini_turn() for event in carrier.carry(events)]
    kinds = [type(event) for event in events if isinstance(event, (BlockEnded, ToolCallStart))]
    assert kinds == [BlockEnded, BlockEnded, ToolCallStart, ToolCallStart]


def test_contents_without_state_are_returned_as_they_are() -> None:
    contents = [Content.human("?"), Content.ai("!", ReasoningBlock(text="hm", signature=SIGNATURE))]
    assert all(after is before for after, before in zip(restore_state(contents, SETTINGS), contents, strict=True))


def commentary_turn(*kinds: str) -> list[list[Event]]:
    """Return the events of a streamed response with a message of each phase, a call or reasoning, in this order."""
    turn = Turn("openai_responses", turn_key="t", endpoint=ENDPOINT)
    body = {"id": "resp_1", "object": "response", "model": "gpt-5", "status": "in_progress", "output": []}
    events = [turn.feed({"type": "response.created", "response": body})]
    for index, kind in enumerate(kinds):
        item: Json = {"id": f"{ {'call': 'fc', 'reasoning': 'rs'}.get(kind, 'msg') }_{index}", "status": "completed"}
        if kind == "call":
            item |= {
                "type": "function_call",
                "call_id": f"c{index}",
                "name": "shell",
                "arguments": '{"command":"date"}',
            }
        elif kind == "reasoning":
            item |= {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA=="}
        else:
            content = [{"type": "output_text", "text": f"Text {index}.", "annotations": []}]
            item |= {"type": "message", "role": "assistant", "phase": kind, "content": content}
        shared = {"output_index": index, "item": item}
        events += [turn.feed({"type": f"response.output_item.{name}", **shared}) for name in ("added", "done")]
    events.append(turn.feed({"type": "response.completed", "response": {**body, "status": "completed"}}))
    return [*events, turn.close()]


def sent_back(client: str, turns: list[list[Event]]) -> Json:
    """Return the next request of a client of that wire, after a turn that the gateway has written for it."""
    origin = {"provider": "openai_responses", "endpoint": ENDPOINT, "model": "gpt-5"}
    carrier, live = StateCarrier(client, origin, SETTINGS), get(client).writer(response_id="resp_2", model="m")
    written = b"".join([live.write(event) for events in turns for event in carrier.carry(events)]) + live.close()
    received = Turn(client, turn_key="c")
    received.feed(written)
    received.close()
    blocks = [ToolResponseBlock(call_id=call.id, name=call.name, result="Monday") for call in received.calls]
    results = [Content(speaker="tool", blocks=blocks)] if blocks else []
    messages = get(client).render([Content.human("Day?"), received.content, *results, Content.human("On.")]).messages
    return {{"openai_responses": "input", "gemini": "contents"}.get(client, "messages"): messages}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kinds", [("commentary", "call"), ("reasoning", "commentary", "call", "call")], ids=len)
def test_the_phase_of_a_message_before_a_call_comes_back_through_every_client(client: str, kinds: list[str]) -> None:
    items, changes = upstream_messages(client, "openai_responses", sent_back(client, commentary_turn(*kinds)))
    messages = [item for item in items if item.get("role") == "assistant"]
    assert [item.get("phase") for item in messages] == ["commentary"]
    assert sum(item["type"] == "function_call" for item in items if "type" in item) == kinds.count("call")
    assert not any("damaged" in change for change in changes)


def without_thoughts(body: Json) -> Json:
    """Return a request of gemini-cli, which leaves thoughts out of its history and keeps the signatures of calls."""
    contents = [
        {**content, "parts": [part for part in content["parts"] if not part.get("thought")]}
        for content in body["contents"]
    ]
    return {**body, "contents": contents}


@pytest.mark.parametrize("upstream", ["anthropic", "openai_responses"])
def test_reasoning_comes_back_through_a_client_that_keeps_only_the_state_of_calls(upstream: str) -> None:
    body = through("gemini", upstream)
    whole, _ = upstream_messages("gemini", upstream, body)
    kept, changes = upstream_messages("gemini", upstream, without_thoughts(body))
    assert kept == whole
    assert not any("reasoning" in change for change in changes)


@pytest.mark.parametrize("drop", [True, False], ids=["thoughts dropped", "kept"])
@pytest.mark.parametrize(
    "kinds",
    [
        ("reasoning", "call"),
        ("reasoning", "commentary", "call", "call"),
        ("reasoning", "call", "reasoning", "call"),
        ("commentary", "reasoning", "call", "reasoning", "commentary", "call"),
        ("reasoning", "commentary", "reasoning", "commentary", "call"),
    ],
    ids=" ".join,
)
def test_blocks_restored_from_the_state_of_calls_are_in_their_order(kinds: list[str], drop: bool) -> None:
    body = sent_back("gemini", commentary_turn(*kinds))
    items, changes = upstream_messages("gemini", "openai_responses", without_thoughts(body) if drop else body)
    names = {"reasoning": "reasoning", "function_call": "call", "message": "commentary"}
    assert [names[item["type"]] for item in items if item.get("type") in names] == list(kinds)
    assert [item["phase"] for item in items if item.get("role") == "assistant"] == ["commentary"] * kinds.count(
        "commentary"
    )
    assert changes == []


@pytest.mark.parametrize("form", ["pieces", "pieces without thoughts", "joined without thoughts"])
@pytest.mark.parametrize(
    "kinds",
    [
        ("commentary", "reasoning", "call"),
        ("reasoning", "commentary", "reasoning", "call"),
        ("reasoning", "commentary", "call", "reasoning", "commentary", "reasoning", "call"),
    ],
    ids=" ".join,
)
def test_reasoning_is_where_it_was_if_a_client_has_texts_in_other_parts(kinds: tuple[str, ...], form: str) -> None:
    """Clients of Google's SDKs keep each chunk's part, and gemini-cli joins texts that follow each other."""
    body = sent_back("gemini", commentary_turn(*kinds))
    body = body if form == "pieces" else without_thoughts(body)
    parts: list[Json] = []
    for part in body["contents"][1]["parts"]:
        if "text" not in part or part.get("thought"):
            parts.append(part)
        elif form.startswith("pieces"):
            parts += [{**part, "text": part["text"][:3]}, {**part, "text": part["text"][3:]}]
        elif parts and "text" in parts[-1]:
            parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    body["contents"][1]["parts"] = parts
    items, _ = upstream_messages("gemini", "openai_responses", body)
    names = {"reasoning": "reasoning", "function_call": "call", "message": "commentary"}
    found = [names[item["type"]] for item in items if item.get("type") in names]
    assert [kind for at, kind in enumerate(found) if at == 0 or found[at - 1] != kind] == list(kinds)


@pytest.mark.parametrize("client", ["openai_chat", "openrouter"])
@pytest.mark.parametrize(
    "kinds",
    [
        ("commentary", "reasoning", "call"),
        ("reasoning", "commentary", "reasoning", "call"),
        ("reasoning", "call", "reasoning", "call"),
        ("reasoning", "commentary", "reasoning", "final_answer"),
        ("reasoning", "commentary", "call", "reasoning", "call"),
    ],
    ids=" ".join,
)
def test_blocks_that_a_message_joins_are_restored_in_their_order(kinds: tuple[str, ...], client: str) -> None:
    """A message of Chat Completions has all reasoning, all text and all calls in a field each.

    "the sequence of consecutive thinking blocks must match the outputs generated by the model"
    (https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking), and a reasoning item is refused "without
    its required following item" (openai/openai-node#1567).
    """
    body = sent_back(client, commentary_turn(*kinds))
    items, changes = upstream_messages(client, "openai_responses", body)
    names = {"reasoning": "reasoning", "function_call": "call"}
    found = [item for item in items[1:-1] if item.get("role") == "assistant" or item.get("type") in names]
    wanted = ["text" if kind in ("commentary", "final_answer") else kind for kind in kinds]
    assert [names.get(item["type"], "text") for item in found] == wanted
    texts = [item for item in found if item["type"] == "message"]
    assert [item["content"] for item in texts] == [f"Text {at}." for at, kind in enumerate(wanted) if kind == "text"]
    assert [item.get("phase") for item in texts][:1] == ["commentary"][: len(texts)]
    assert changes == []


def test_a_client_that_changes_its_text_keeps_all_of_it() -> None:
    body = sent_back("openai_chat", commentary_turn("reasoning", "commentary", "reasoning", "final_answer"))
    for text in ("", "Text", "Text 1.Text 3. And more."):
        message = {**body["messages"][1], "content": text}
        items, _ = upstream_messages(
            "openai_chat", "openai_responses", {**body, "messages": [body["messages"][0], message]}
        )
        assert "".join(item["content"] for item in items if item.get("role") == "assistant") == text


def test_plain_reasoning_comes_back_through_a_client_that_keeps_only_the_state_of_calls() -> None:
    carrier = StateCarrier("gemini", {"provider": "deepseek", "endpoint": ENDPOINT, "model": "m"}, SETTINGS)
    turn = chat_turn("deepseek", "reasoning_content")
    body = without_thoughts(gemini_client([event for events in turn for event in carrier.carry(events)]))
    request = parse_request(body, "gemini")
    request = request.model_copy(update={"contents": restore_state(request.contents, SETTINGS)})
    written = render_request(request, "deepseek", settings={"model": "m"}, endpoint=ENDPOINT)
    assert written["messages"][1]["reasoning_content"] == "A shell, I think."


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "gemini"])
def test_an_answer_is_the_last_that_a_client_gets(client: str) -> None:
    """Clients take the last block for the answer, so that no block with the phase follows it."""
    carrier = StateCarrier(client, {"provider": "openai_responses", "endpoint": ENDPOINT, "model": "gpt-5"}, SETTINGS)
    turns = [carrier.carry(events) for events in commentary_turn("reasoning", "final_answer")]
    ended = [event.kind for events in turns for event in events if isinstance(event, BlockEnded)]
    assert ended[-1] == "text"
