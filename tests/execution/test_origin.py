"""Runs and rounds depend on who made the history: opaque state, raw ids, ids that must not repeat."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from execution.chat_chunks import answer
from execution.executor_checks import calls
from execution.fake_model import FakeModel, ids_in_messages

from streamkit import (
    Content,
    Retries,
    RoundContext,
    RunState,
    Target,
    ToolContext,
    Turn,
    UsageError,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    parse_messages,
    providers,
    render,
    run_loop,
    tool,
)
from streamkit.history import ReasoningBlock, ToolCallBlock, ToolResponseBlock

pytestmark = pytest.mark.anyio

SONNET, OPUS = "claude-sonnet-4-5-20250929", "claude-opus-4-8"
ZAI, ANTHROPIC = "https://api.z.ai/api/anthropic", "https://api.anthropic.com"
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "SECRET"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "sea"}}


def look(at: str) -> str:
    return f"{at}: blue"


def anthropic(*blocks: dict[str, Any], model: str = OPUS, reason: str = "end_turn") -> list[dict[str, Any]]:
    """Return a complete body: a turn that arrives at once."""
    return [{"type": "message", "id": "msg_1", "role": "assistant", "model": model, "content": list(blocks),
             "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 1}}]  # fmt: skip


def chat(*made: tuple[str, str, dict[str, Any]], text: str = "") -> list[dict[str, Any]]:
    """Return a stream with calls of (raw id, name, arguments)."""
    chunks = answer(text, *((name, arguments) for _, name, arguments in made))
    raw_ids = iter(raw_id for raw_id, _, _ in made)
    for chunk in chunks:
        for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
            call["id"] = next(raw_ids)
    return chunks


def signed_history() -> list[Content]:
    metadata = {"provider": "anthropic", "model": SONNET, "endpoint": ANTHROPIC}
    thought = ReasoningBlock(text="Hm.", signature="SECRET", metadata=metadata)
    return [Content.human("Hi"), Content.ai("Hello", thought), Content.human("Look.")]


# ---------------------------------------------------------------- opaque state in runs


@pytest.mark.parametrize(
    ("request_", "kept"),
    [({}, True), ({"model": SONNET}, True), ({"model": OPUS}, False), ({"model": SONNET, "endpoint": ZAI}, False)],
)
async def test_a_run_leaves_out_the_state_of_another_model_and_warns_once(request_: dict[str, str], kept: bool) -> None:
    model = FakeModel(anthropic(USE, reason="tool_use"), anthropic({"type": "text", "text": "Blue."}))
    run = await run_loop(model, provider="anthropic", tools=[look], history=signed_history(), **request_)
    assert run.ended == "answered"
    assert [("SECRET" in json.dumps(body)) for body in model.requests] == [kept, kept]
    assert [warning.code for warning in run.warnings] == ["content_changed"] * (not kept)
    assert [(context.model, context.endpoint) for context in model.asked] == [
        (request_.get("model"), request_.get("endpoint"))
    ] * 2


async def test_a_runs_own_state_goes_back_in_its_next_round() -> None:
    model = FakeModel(
        anthropic(SIGNED, USE, model="glm-4.7", reason="tool_use"), anthropic({"type": "text", "text": "."})
    )
    run = await run_loop(
        model, provider="anthropic", tools=[look], history=[Content.human("Look.")], model="my-glm", endpoint=ZAI
    )
    assert SIGNED in model.requests[1]["messages"][1]["content"]
    origin = {"provider": "anthropic", "endpoint": ZAI, "model": "glm-4.7", "requested_model": "my-glm"}
    assert all(origin.items() <= block.metadata.items() for block in run.contents[0].blocks)
    assert run.warnings == []


async def test_a_fallback_to_another_model_of_the_provider_gets_no_state_of_the_first() -> None:
    failing: list[Any] = [ConnectionError("refused")]
    model = FakeModel(
        anthropic(SIGNED, USE, model=SONNET, reason="tool_use"), failing, anthropic({"type": "text", "text": "Blue."})
    )
    run = await run_loop(
        model, provider="anthropic", tools=[look], history=[Content.human("Look.")], model=SONNET, endpoint=ANTHROPIC,
        retries=Retries(fallbacks=[Target("anthropic", model="glm-4.7", endpoint=ZAI)]),
    )  # fmt: skip
    assert [(context.model, context.endpoint) for context in model.asked] == [
        (SONNET, ANTHROPIC), (SONNET, ANTHROPIC), ("glm-4.7", ZAI)
    ]  # fmt: skip
    assert ["SECRET" in json.dumps(body) for body in model.requests] == [False, True, False]
    assert [warning.code for warning in run.warnings] == ["provider_fallback", "content_changed"]
    assert run.contents[-1].metadata["endpoint"] == ZAI


async def test_a_paused_run_of_a_fallback_is_resumed_with_its_model() -> None:
    failing: list[Any] = [ConnectionError("refused")]
    model = FakeModel(failing, anthropic(SIGNED, USE, model="glm-4.7", reason="tool_use"))
    ask_first = tool(look, approval="ask")
    target = Target("anthropic", "glm-4.7", ZAI)
    run = await run_loop(
        model,
        provider="openai_chat",
        tools=[ask_first],
        history=[Content.human("Look.")],
        model="gpt-5",
        retries=Retries(fallbacks=[target]),
    )
    assert run.ended == "awaiting_approval"
    assert run.state is not None
    state = RunState.model_validate_json(run.state.model_dump_json())
    assert (state.provider, state.model, state.endpoint) == ("anthropic", "glm-4.7", ZAI)
    model = FakeModel(anthropic({"type": "text", "text": "Blue."}, model="glm-4.7"))
    resumed = await run_loop(model, tools=[ask_first], resume=state.answer(approvals={run.pending[0].id: True}))
    assert resumed.ended == "answered"
    assert (model.asked[0].model, model.asked[0].endpoint) == ("glm-4.7", ZAI)
    assert SIGNED in model.requests[0]["messages"][1]["content"]


def test_an_unknown_id_policy_of_a_run_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="'origin' or 'canonical'"):
        run_loop(FakeModel([]), provider="openai_chat", history=[], ids="raw")  # type: ignore[arg-type]


# ---------------------------------------------------------------- raw ids


@pytest.mark.parametrize("provider", ["openai_chat", "openai_compatible", "mistral"])
@pytest.mark.parametrize("mode", ["history", "thread"])
async def test_mistral_behind_a_gateway_gets_its_ids_back(provider: str, mode: str) -> None:
    """Mistral's servers refuse another form: "must be a-z, A-Z, 0-9, with a length of 9" (anomalyco/opencode#1680)."""
    model = FakeModel(
        chat(("Tn4zXqY1c", "look", {"at": "sea"}), ("D681PevKs", "look", {"at": "sky"})), chat(text="Blue.")
    )
    start: Any = (
        {"history": [Content.human("Look.")]} if mode == "history" else {"thread": [{"role": "user", "content": "?"}]}
    )
    await run_loop(model, provider=provider, tools=[look], **start)
    assert ids_in_messages(model.requests[1]["messages"]) == ([["Tn4zXqY1c", "D681PevKs"]], ["Tn4zXqY1c", "D681PevKs"])


async def test_a_run_has_canonical_ids_if_they_are_requested() -> None:
    model = FakeModel(chat(("Tn4zXqY1c", "look", {"at": "sea"})), chat(text="Blue."))
    await run_loop(model, provider="openai_chat", tools=[look], history=[Content.human("Look.")], ids="canonical")
    [[call_id]], results = ids_in_messages(model.requests[1]["messages"])
    assert call_id.startswith("call_")
    assert results == [call_id]


async def test_other_ids_have_the_form_of_the_requested_model() -> None:
    model = FakeModel(chat(text="Blue."))
    foreign = ToolCallBlock(id="call_" + "x" * 24, name="look", parameters={"at": "sea"})
    history = [Content.human("Look."), Content.ai("", foreign), Content.human("And?")]
    await run_loop(model, provider="openai_compatible", history=history, model="mistral-large-latest")
    [[call_id]], _ = ids_in_messages(model.requests[0]["messages"])
    assert len(call_id) == 9
    assert call_id.isalnum()


async def test_a_thread_gets_no_id_twice() -> None:
    """A server that numbers its calls anew in each turn; the first keeps its id, and no earlier message changes."""
    rounds = [chat(("call_0", "look", {"at": str(number)})) for number in range(3)]
    model = FakeModel(*rounds, chat(text="Blue."))
    thread = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": '{"at":"x"}'}}]},
        {"role": "tool", "tool_call_id": "call_0", "content": "x: blue"},
        {"role": "user", "content": "Again."},
    ]  # fmt: skip
    await run_loop(model, provider="openai_chat", tools=[look], thread=thread)
    asked, results = ids_in_messages(model.requests[-1]["messages"])
    ids = [call_id for message in asked for call_id in message]
    assert ids == results
    assert ids[0] == "call_0"
    assert len(set(ids)) == 4
    for earlier, later in zip(model.requests, model.requests[1:], strict=False):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]


async def test_the_sequential_layout_gives_no_id_twice() -> None:
    model = FakeModel(chat(("call_0", "look", {"at": "a"}), ("call_1", "look", {"at": "b"})), chat(text="Blue."))
    run = await run_loop(model, provider="openai_chat", tools=[look], thread=[], shape="sequential")
    assert ids_in_messages(run.thread) == ([["call_0"], ["call_1"]], ["call_0", "call_1"])


def closed(provider: str, chunks: list[Any]) -> Turn:
    turn = Turn(provider, turn_key="t")
    for chunk in chunks:
        turn.feed(chunk)
    turn.close()
    return turn


@pytest.mark.parametrize("policy", ["origin", "canonical"])
async def test_results_alone_have_the_ids_that_the_server_issued(policy: Any) -> None:
    """With ``previous_response_id`` a request has only the results, of calls that the server stores."""
    body = {
        "object": "response", "id": "resp_1", "status": "completed", "model": "gpt-5",
        "output": [
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_Server{n}", "name": "look",
             "arguments": '{"at":"sea"}', "status": "completed"}
            for n in range(2)
        ],
    }  # fmt: skip
    turn = closed("openai_responses", [body])
    update = await execute_tool_calls_batched(turn, tools=[look])
    stored = Content.model_validate_json(update.contents[1].model_dump_json())
    messages = render([stored], "openai_responses", repair=False, ids=policy)
    ids = [item["call_id"] for item in messages]
    assert (ids == ["call_Server0", "call_Server1"]) is (policy == "origin")
    assert len(set(ids)) == 2
    chat_ids = [message["tool_call_id"] for message in render([stored], "openai_chat", repair=False)]
    assert not {"call_Server0", "call_Server1"} & set(chat_ids), "another provider did not issue them"


async def test_results_alone_have_the_kind_of_their_calls() -> None:
    """The server finds the stored call of an output by its type and ``call_id``."""
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "write", "input": "a"}
    turn = closed("openai_responses", [{"object": "response", "id": "resp_1", "status": "completed", "output": [item]}])
    update = await execute_tool_calls_batched(turn, tools=[tool(lambda text: "ok", name="write", kind="custom")])
    stored = Content.model_validate_json(update.contents[1].model_dump_json())
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"}
    assert render([stored], "openai_responses", repair=False) == [output]
    assert render(parse_messages([output], "openai_responses"), "openai_responses", repair=False) == [output]


# ---------------------------------------------------------------- canonical ids that a server sends


async def test_a_canonical_id_from_the_wire_is_taken_over_once_in_a_history() -> None:
    """A server that repeats an id that it got earlier: two rounds never share an idempotency key."""
    keys: list[str] = []

    def record(at: str, context: ToolContext) -> str:
        keys.append(context.id)
        return at

    wire_id = "hist_tool_" + "Z" * 24
    model = FakeModel(*[chat((wire_id, "record", {"at": str(number)})) for number in range(3)], chat(text="Done."))
    for start in ({"history": [Content.human("Go.")]}, {"thread": [{"role": "user", "content": "Go."}]}):
        keys.clear()
        model.asked.clear()
        await run_loop(model, provider="openai_chat", tools=[record], run_key="k", **start)  # type: ignore[arg-type]
        assert keys[0] == wire_id
        assert len(set(keys)) == 3
        assert all(key.startswith("hist_tool_") for key in keys)


async def test_a_canonical_id_of_the_given_history_is_not_taken_over() -> None:
    wire_id = "hist_tool_" + "Z" * 24
    call = ToolCallBlock(id=wire_id, name="look", parameters={"at": "x"})
    result = Content(speaker="tool", blocks=[ToolResponseBlock(call_id=wire_id, name="look", result="x: blue")])
    model = FakeModel(chat((wire_id, "look", {"at": "y"})), chat(text="Done."))
    history = [Content.human("Go."), Content.ai("", call), result, Content.human("Again.")]
    run = await run_loop(model, provider="openai_chat", tools=[look], history=history)
    assert [block.id for block in run.contents[0].blocks if isinstance(block, ToolCallBlock)] != [wire_id]
    truncated = closed("openai_chat", chat((wire_id[:-1], "look", {"at": "y"})))
    assert truncated.calls[0].id != wire_id[:-1]
    reserved = Turn("openai_chat", turn_key="t", used_ids={wire_id})
    for chunk in chat((wire_id, "look", {"at": "y"})):
        reserved.feed(chunk)
    reserved.close()
    assert reserved.calls[0].id != wire_id
    assert reserved.calls[0].raw_id == wire_id


# ---------------------------------------------------------------- equal ids in a list of calls


async def test_calls_with_equal_ids_are_told_apart_and_reported() -> None:
    one, two = calls(("look", {"at": "sea"}), ("look", {"at": "sky"}))
    update = await execute_tool_calls_batched(
        [one, msgspec.structs.replace(two, id=one.id), msgspec.structs.replace(two, id=one.id)],
        tools=[look],
        provider="openai_chat",
    )
    assert [result.value for result in update.results] == ["sea: blue", "sky: blue", "sky: blue"]
    assert len({result.call.id for result in update.results}) == 3
    assert update.results[0].call.id == one.id
    [asked], results = ids_in_messages(update.messages)
    assert asked == results
    assert len(set(asked)) == 3
    assert [warning.code for warning in update.warnings] == ["repeated_id", "repeated_id"]


# ---------------------------------------------------------------- contexts


def test_a_context_for_another_target_renders_for_it() -> None:
    context = RoundContext(signed_history(), [], None, providers.get("anthropic"), model=SONNET)
    assert "SECRET" in json.dumps(context.request)
    other = context.with_target(Target("anthropic", OPUS))
    assert "SECRET" not in json.dumps(other.request)
    assert len(other.changes) == 1
    assert context.changes == []


def test_a_removed_calls_result_does_not_pair_with_a_later_call_of_its_raw_id() -> None:
    """Kimi numbers its calls anew in every turn; the history was cut between a call and its result."""
    metadata = {"provider": "kimi", "raw_id": "functions.look:0"}
    removed, later = ("hist_tool_" + letter * 24 for letter in "ab")
    history = [
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id=removed, result="old", metadata=metadata)]),
        Content.human("Again."),
        Content.ai("", ToolCallBlock(id=later, name="look", metadata=metadata)),
    ]
    messages = render(history, "kimi")
    assert "old" not in json.dumps(messages)


def test_messages_of_two_stores_pair_by_raw_id() -> None:
    """Calls and results that were imported separately have different canonical ids, but one raw id."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    first = parse_messages([{"role": "assistant", "tool_calls": [call]}], "openai_chat")
    second = parse_messages([{"role": "tool", "tool_call_id": "call_1", "content": "blue"}], "openai_chat")
    messages = render([*first, *second], "openai_chat")
    assert [message.get("content") for message in messages] == [None, "blue"]


# ---------------------------------------------------------------- calls without their turn

WIRES = (
    "anthropic",
    "bedrock_converse",
    "bedrock_invoke",
    "cohere",
    "gemini",
    "ollama",
    "openai_chat",
    "openai_responses",
)


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])
async def test_the_maker_of_calls_without_their_turn_is_unknown(target: str, execute: Any) -> None:
    """Ids of other vendors may contain opaque state, and every provider has a field for state of its own."""
    state = dict.fromkeys(
        ("thoughtSignature", "thought_signature", "item_id", "namespace", "caller", "signature"), "SIG"
    )
    [call, *_] = calls("look")
    given = msgspec.structs.replace(call, raw_id="fc_MADE_ELSEWHERE", arguments={"at": "sea"}, metadata=state)
    update = await execute([given], tools=[look], provider=target)
    sent = json.dumps(update.messages)
    assert "SIG" not in sent
    assert "MADE_ELSEWHERE" not in sent
    assert "sea: blue" in sent
    [made] = update.contents[0].blocks
    assert "provider" not in made.metadata
    assert made.metadata["raw_id"] == "fc_MADE_ELSEWHERE"
