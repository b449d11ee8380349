"""Opaque state goes back only to the provider, endpoint and model that made it (docs/rules.md, "Opaque state").

The cases of vybestack/llxprt-code `AnthropicMessageNormalizer.crossModelThinking.test.ts` (issues #2335, #1469) are the
first part, for the facts that they state; the other wires follow.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Content, Turn, UsageError, providers, render, render_request
from streamkit.history import OpaqueBlock, ReasoningBlock, ServerToolBlock, TextBlock, ToolCallBlock, ToolResponseBlock

SONNET, OPUS, FABLE = "claude-sonnet-4-5-20250929", "claude-opus-4-8", "claude-fable-5"
ZAI, ANTHROPIC = "https://api.z.ai/api/anthropic", "https://api.anthropic.com"


def thought(signature: str = "sig-A", provider: str = "anthropic", **origin: str) -> ReasoningBlock:
    return ReasoningBlock(text="previous reasoning", signature=signature, metadata={"provider": provider, **origin})


def blocks(messages: list[dict[str, Any]], role: str = "assistant") -> list[Any]:
    return [block for message in messages if message["role"] == role for block in message["content"]]


def kinds(*content: Any, provider: str = "anthropic", **request: Any) -> list[str]:
    messages = render([Content.human("hi"), Content.ai("", *content)], provider, **request)
    return [block["type"] for block in blocks(messages)]


# ---------------------------------------------------------------- the cases of llxprt-code


@pytest.mark.parametrize(
    ("made_by", "request_", "expected"),
    [
        ({"model": OPUS}, {"model": OPUS}, True),
        ({"model": OPUS}, {"model": FABLE}, False),
        ({}, {"model": FABLE}, True),  # of unknown origin: nothing shows that it would be refused
        ({"model": OPUS}, {}, True),  # the request's model is not given: it is unchanged
        ({"model": SONNET, "endpoint": ZAI}, {"model": SONNET, "endpoint": ANTHROPIC}, False),
        ({"model": SONNET, "endpoint": ANTHROPIC}, {"model": SONNET, "endpoint": ANTHROPIC}, True),
        ({"model": "glm-5.2", "endpoint": ZAI}, {"model": SONNET, "endpoint": ANTHROPIC}, False),
        ({"model": "glm-5.2", "endpoint": ZAI}, {"model": SONNET}, False),
        ({"model": "glm-5.2"}, {"model": SONNET, "endpoint": ANTHROPIC}, False),
        ({"model": SONNET, "endpoint": ZAI}, {"endpoint": ANTHROPIC}, False),
        ({"endpoint": ZAI}, {"model": SONNET}, True),
    ],
)
def test_thinking_goes_back_to_its_model_at_its_endpoint(
    made_by: dict[str, str], request_: dict[str, str], expected: bool
) -> None:
    changes: list[str] = []
    redacted = ReasoningBlock(
        opaque={"type": "redacted_thinking", "data": "sig-A"}, metadata={"provider": "anthropic", **made_by}
    )
    text = TextBlock(text="hello", metadata={"provider": "anthropic", **made_by})
    found = kinds(thought(**made_by), redacted, text, changes=changes, **request_)
    assert found == (["thinking", "redacted_thinking"] if expected else []) + ["text"]
    assert len(changes) == (not expected)
    assert "sig-A" not in json.dumps(changes)


@pytest.mark.parametrize("is_loop_closed", [True, False])
def test_a_call_and_its_result_stay_together_without_their_thinking(is_loop_closed: bool) -> None:
    metadata = {"provider": "anthropic", "model": OPUS, "raw_id": "toolu_001"}
    call = ToolCallBlock(id="hist_tool_" + "a" * 24, name="list_directory", metadata=metadata)
    history = [
        Content.human("list files"),
        Content.ai("", thought(model=OPUS), call),
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call.id, result={"files": ["a.txt"]})]),
    ]
    messages = render(history + [Content.human("thanks")] * is_loop_closed, "anthropic", model=FABLE)
    assert [block["type"] for block in blocks(messages)] == ["tool_use"]
    assert messages[1]["content"][0]["id"] == messages[2]["content"][0]["tool_use_id"] == "toolu_001"


def test_a_response_of_thinking_only_is_left_out() -> None:
    history = [Content.human("first"), Content.ai("", thought(model=OPUS)), Content.human("second")]
    assert [message["role"] for message in render(history, "anthropic", model=FABLE)] == ["user"]


# ---------------------------------------------------------------- the origin in a turn's metadata


def stream(model: str, signature: str = "sig-A") -> bytes:
    events: tuple[dict[str, Any], ...] = (
        {"type": "message_start", "message": {"id": "msg_1", "model": model, "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": signature}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hello"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def read(reported: str, **options: Any) -> Content:
    turn = Turn("anthropic", **options)
    turn.feed(stream(reported))
    turn.close()
    return Content.model_validate_json(turn.content.model_dump_json())


def test_every_block_names_what_made_it() -> None:
    content = read(SONNET, endpoint=f"{ANTHROPIC}/", model="claude-sonnet-4-5")
    origin = {"provider": "anthropic", "endpoint": ANTHROPIC, "model": SONNET, "requested_model": "claude-sonnet-4-5"}
    assert [block.metadata for block in content.blocks] == [origin, origin]
    assert origin.items() <= content.metadata.items()


def test_an_endpoint_is_kept_without_its_secrets() -> None:
    content = read(SONNET, endpoint="HTTPS://user:secret@Host.Example:443/v1/?key=secret#secret")
    assert content.metadata["endpoint"] == "https://host.example/v1"
    assert "secret" not in content.model_dump_json()


def test_glm_thinking_does_not_go_to_claude_and_claudes_does_not_go_to_glm() -> None:
    glm, claude = read("glm-4.7", endpoint=ZAI), read(SONNET, endpoint=ANTHROPIC)
    history = [Content.human("a"), glm, Content.human("b"), claude, Content.human("c")]
    for request, kept in [((SONNET, ANTHROPIC), 1), (("glm-4.7", ZAI), 1), (("glm-4.7", ANTHROPIC), 0)]:
        changes: list[str] = []
        messages = render(history, "anthropic", model=request[0], endpoint=request[1], changes=changes)
        assert [block["type"] for block in blocks(messages)].count("thinking") == kept
        assert len(changes) == 2 - kept


def test_the_requested_model_suffices_if_the_server_reports_another_name() -> None:
    content = read("prod-model-7f3", model="my-alias")
    for model, expected in [
        ("my-alias", ["thinking", "text"]),
        ("prod-model-7f3", ["thinking", "text"]),
        (OPUS, ["text"]),
    ]:
        messages = render([Content.human("a"), content], "anthropic", model=model)
        assert [block["type"] for block in blocks(messages)] == expected


# ---------------------------------------------------------------- names of models and endpoints

BEDROCK = "https://bedrock-runtime.{}.amazonaws.com"


@pytest.mark.parametrize(
    ("provider", "one", "other", "same"),
    [
        ("anthropic", "claude-sonnet-4-5", SONNET, True),
        ("anthropic", "claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("anthropic", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", SONNET, True),
        ("anthropic", "claude-sonnet-4-5@20250929", SONNET, True),
        ("anthropic", "claude-3-5-sonnet-v2@20241022", "anthropic.claude-3-5-sonnet-20241022-v2:0", True),
        ("anthropic", "claude-opus-4-6@default", "claude-opus-4-6", True),
        ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4", False),
        ("anthropic", "claude-sonnet-4-5", "claude-opus-4-5", False),
        ("anthropic", "glm-4.7", "glm-4.7-air", False),
        (
            "bedrock_invoke",
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            SONNET,
            True,
        ),
        ("bedrock_converse", "global.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite-v1:0", True),
        ("bedrock_converse", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-v1:0", True),
        ("bedrock_converse", "amazon.nova-pro-v1:0", "amazon.nova-lite-v1:0", False),
        ("openai_responses", "gpt-5", "gpt-5-2025-08-07", True),
        ("openai_responses", "GPT-5", "gpt-5", True),
        ("openai_responses", "gpt-5", "gpt-5-mini", False),
        ("openai_responses", "gpt-5", "gpt-5.1", False),
        ("openai_responses", "gpt-5-mini-2025-08-07", "gpt-5-2025-08-07", False),
        ("openai_responses", "o3", "o3-pro", False),
        ("gemini", "models/gemini-3-pro-preview", "gemini-3-pro-preview", True),
        ("gemini", "projects/p/locations/l/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro", True),
        ("gemini", "gemini-2.5-pro", "gemini-2.5-flash", False),
        ("openrouter", "anthropic/claude-opus-4.5", "google/claude-opus-4.5", False),
    ],
)
def test_models_are_compared_without_the_date_of_a_snapshot(provider: str, one: str, other: str, same: bool) -> None:
    traits = providers.get(provider).traits
    assert traits.accepts_state({"provider": provider, "model": one}, other) is same
    assert traits.accepts_state({"provider": provider, "model": other}, one) is same


@pytest.mark.parametrize(
    ("provider", "one", "other", "same"),
    [
        ("anthropic", ANTHROPIC, "https://us-east5-aiplatform.googleapis.com/v1/projects/p", True),
        ("anthropic", ANTHROPIC, "https://bedrock-runtime.eu-west-1.amazonaws.com", True),
        ("anthropic", ANTHROPIC, "https://api.anthropic.com.evil.example", False),
        ("anthropic", "https://api.deepseek.com/anthropic", "https://api.moonshot.ai/anthropic", False),
        ("bedrock_converse", BEDROCK.format("us-east-1"), BEDROCK.format("eu-west-1"), True),
        ("openai_responses", "https://api.openai.com/v1", "https://api.openai.com:443/v1/", True),
        ("openai_responses", "https://api.openai.com/v1", "https://mine.openai.azure.com/openai/v1", False),
        ("openai_compatible", "http://localhost:8000/v1", "http://localhost:8001/v1", False),
        ("openai_compatible", "gateway", "gateway", True),
        ("openai_compatible", "http://[::1]:x", "http://[::1]:y", False),
    ],
)  # fmt: skip
def test_endpoints_are_compared_in_one_spelling(provider: str, one: str, other: str, same: bool) -> None:
    traits = providers.get(provider).traits
    assert traits.accepts_state({"provider": provider, "endpoint": one}, None, other) is same
    assert traits.accepts_state({"provider": provider, "endpoint": other}, None, one) is same
    assert traits.accepts_state({"provider": provider, "endpoint": one}, None, None)


def test_a_compatible_provider_gets_the_state_of_its_platforms_only() -> None:
    """Anthropic: "signature values are compatible across platforms (Claude APIs, Amazon Bedrock, and Vertex AI)"."""
    bedrock = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    assert kinds(thought(model=SONNET, endpoint=ANTHROPIC), provider="bedrock_invoke", model=bedrock) == ["thinking"]
    assert kinds(thought(provider="bedrock_invoke", model=bedrock), model=SONNET, endpoint=ANTHROPIC) == ["thinking"]
    assert kinds(thought(model=SONNET, endpoint=ZAI), provider="bedrock_invoke", model=bedrock) == []
    assert kinds(thought(provider="bedrock_invoke", model=bedrock), model=SONNET, endpoint=ZAI) == []


def test_a_dialect_of_a_wire_does_not_get_the_state_of_its_base() -> None:
    zai = providers.dialect("zai", "anthropic")
    for block, target in [(thought(), zai), (thought(provider="zai"), providers.get("anthropic"))]:
        assert [part["type"] for part in blocks(render([Content.human("a"), Content.ai("b", block)], target))] == [
            "text"
        ]
    relay = providers.dialect("relay", "anthropic", compatible=frozenset({"anthropic"}))
    assert blocks(render([Content.human("a"), Content.ai("", thought())], relay))[0]["type"] == "thinking"


# ---------------------------------------------------------------- each wire


def own(provider: str, **metadata: Any) -> dict[str, Any]:
    return {"provider": provider, "model": "model-a", **metadata}


CALL_ID = "hist_tool_" + "a" * 24
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SECRET"}
SEARCH = {"type": "web_search_call", "id": "ws_SECRET", "status": "completed"}


def call(provider: str, **metadata: Any) -> ToolCallBlock:
    return ToolCallBlock(id=CALL_ID, name="f", metadata=own(provider, raw_id="call_1", **metadata))


def made(kind: Any, provider: str, state: dict[str, Any] | None = None, **fields: Any) -> Any:
    return kind(metadata=own(provider, **(state or {})), **fields)


def rs(number: int) -> Any:
    return made(ReasoningBlock, "openai_responses", opaque={**REASONING, "id": f"rs_{number}"})


TEXT = {provider: made(TextBlock, provider, text="x") for provider in providers.names()}
CITED = {"citations": [{"title": "SECRET"}]}
SIGNED = {"extra_content": {"google": {"thought_signature": "SECRET"}}}
ENCRYPTED = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "SECRET"}]}

#: The provider, and blocks of one response of which all opaque state contains "SECRET".
STATES: list[tuple[str, list[Any]]] = [
    ("anthropic", [made(ReasoningBlock, "anthropic", text="t", signature="SECRET"), TEXT["anthropic"]]),
    ("anthropic", [made(ReasoningBlock, "anthropic", opaque={"type": "redacted_thinking", "data": "SECRET"})]),
    ("anthropic", [made(ServerToolBlock, "anthropic", raw=[{"type": "server_tool_use", "id": "SECRET"}])]),
    ("anthropic", [made(OpaqueBlock, "anthropic", raw={"type": "container_upload", "file_id": "SECRET"})]),
    ("anthropic", [made(TextBlock, "anthropic", CITED, text="c")]),
    ("anthropic", [call("anthropic", caller={"type": "code", "tool_id": "SECRET"}, container={"id": "SECRET"})]),
    ("bedrock_converse", [made(ReasoningBlock, "bedrock_converse", signature="SECRET"), TEXT["bedrock_converse"]]),
    ("bedrock_converse", [made(OpaqueBlock, "bedrock_converse", raw={"guardContent": "SECRET"})]),
    ("bedrock_converse", [made(TextBlock, "bedrock_converse", CITED, text="c")]),
    ("gemini", [made(TextBlock, "gemini", {"thoughtSignature": "SECRET"}, text="t")]),
    ("gemini", [made(ReasoningBlock, "gemini", {"thoughtSignature": "SECRET"}, text="t")]),
    ("gemini", [made(OpaqueBlock, "gemini", raw={"executableCode": {"code": "SECRET"}})]),
    ("gemini", [call("gemini", thoughtSignature="SECRET")]),
    ("openai_responses", [rs(1), TEXT["openai_responses"]]),
    ("openai_responses", [rs(1), made(TextBlock, "openai_responses", {"item_id": "msg_SECRET"}, text="t")]),
    ("openai_responses", [made(ServerToolBlock, "openai_responses", name="web_search", raw=[SEARCH])]),
    ("openai_responses", [rs(1), call("openai_responses", item_id="fc_SECRET", caller={"id": "SECRET"})]),
    ("openrouter", [made(ReasoningBlock, "openrouter", ENCRYPTED, text="t"), TEXT["openrouter"]]),
    ("openrouter", [call("openrouter", **SIGNED)]),
    ("openai_chat", [made(TextBlock, "openai_chat", {"audio": {"id": "SECRET"}}, text="c")]),
    ("openai_chat", [made(OpaqueBlock, "openai_chat", raw={"type": "x", "data": "SECRET"})]),
    ("mistral", [made(ReasoningBlock, "mistral", text="t", signature="SECRET"), TEXT["mistral"]]),
]


@pytest.mark.parametrize(("provider", "content"), STATES)
def test_the_state_of_another_model_is_left_out_and_reported(provider: str, content: list[Any]) -> None:
    def history(**origin: str) -> list[Content]:
        moved = [block.model_copy(update={"metadata": {**block.metadata, **origin}}) for block in content]
        return [Content.human("hi"), Content.ai("", *moved), Content.human("go on")]

    before: list[str] = []
    body = render_request(history(endpoint="a"), provider, model="model-a", endpoint="a", changes=before)
    assert "SECRET" in json.dumps(body)
    for request in ({"model": "model-b"}, {"model": "model-a", "endpoint": "b"}, {"endpoint": "b"}):
        changes: list[str] = []
        body = render_request(history(endpoint="a"), provider, changes=changes, **request)
        assert "SECRET" not in json.dumps(body)
        assert len(changes) > len(before)
        assert any("which made it, accepts it" in change for change in changes), changes
        assert len(changes) == len(set(changes))


def test_plain_reasoning_text_goes_to_another_model_of_its_chat_provider() -> None:
    """DeepSeek refuses a message with calls without its ``reasoning_content``, whichever model wrote it."""
    reasoning = ReasoningBlock(text="Hm.", metadata=own("deepseek"))
    message = render([Content.human("hi"), Content.ai("", reasoning, call("deepseek"))], "deepseek", model="b")[1]
    assert message["reasoning_content"] == "Hm."


def test_a_call_that_lost_geminis_signature_gets_the_documented_value() -> None:
    first, second = (
        call("gemini", thoughtSignature="S1"),
        call("gemini").model_copy(update={"id": "hist_tool_" + "b" * 24}),
    )
    contents = render([Content.human("hi"), Content.ai("", first, second)], "gemini", model="gemini-3-pro-preview")
    signatures = [part.get("thoughtSignature") for part in contents[1]["parts"]]
    assert signatures == ["skip_thought_signature_validator", None]


def test_an_unknown_id_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="'origin' or 'canonical'"):
        render([Content.human("hi")], "anthropic", ids="orgin")  # type: ignore[arg-type]
