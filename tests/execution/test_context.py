"""The context of a request: what is rendered, how often, and what a request made from given messages contains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel
from wire_streams import block, message_end, message_start

from streamkit import (
    Content,
    RoundContext,
    Target,
    ToolCall,
    ToolResult,
    providers,
    render,
    run_loop,
    tool,
)
from streamkit.errors import UnknownProvider
from streamkit.execution.round.round import build_assistant_content
from streamkit.execution.round.thread_update import FormatCallbacks, build_thread_update
from streamkit.history import ImageBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers.rendering.message_renderer import MessageRenderer


def look(at: str) -> str:
    """Look at something."""
    return at


def context(provider: str, messages: list[dict[str, Any]] | None, *contents: Content, **fields: Any) -> RoundContext:
    fields = {"tools": [], "tool_choice": None} | fields
    return RoundContext(list(contents), provider=providers.get(provider), messages=messages, **fields)


def test_a_bedrock_request_from_given_messages_declares_the_tools_that_they_call() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"text": "Look."}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "sea"}]}}]},
    ]
    request = context("bedrock_converse", messages).request
    assert request["messages"] == messages
    assert [spec["toolSpec"]["name"] for spec in request["toolConfig"]["tools"]] == ["look"]


def test_a_mistral_request_from_given_messages_that_end_with_the_assistant_continues_its_text() -> None:
    messages = [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "One, two,"}]
    request = context("mistral", messages).request
    assert request["messages"][-1] == {"role": "assistant", "content": "One, two,", "prefix": True}
    assert "prefix" not in messages[-1], "the caller's own messages are not changed"


def test_an_anthropic_request_from_given_messages_names_the_container_of_the_last_code() -> None:
    call = ToolCallBlock(
        id="c",
        name="look",
        parameters={},
        metadata={
            "provider": "anthropic",
            "raw_id": "toolu_1",
            "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
        },
    )
    origin = {"provider": "anthropic", "container": {"id": "container_1"}}
    response = Content(speaker="ai", blocks=[call], metadata=origin)
    added = [response, Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c", result="sea")])]
    request = context("anthropic", [{"role": "user", "content": "Look."}], *added).request
    assert request["container"] == "container_1"
    assert request["messages"] == [{"role": "user", "content": "Look."}]


def test_given_messages_of_any_form_make_a_request() -> None:
    for name in providers.names():
        for messages in ([], [{}], [{"role": "assistant"}], [{"content": None, "parts": None}]):
            request = context(name, list(messages)).request
            assert len(request[providers.get(name).traits.messages_field]) == len(messages)


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of contents, each time that some are rendered."""
    counted: list[int] = []
    original = MessageRenderer.extend

    def count(self: MessageRenderer[Any], contents: Any) -> None:
        counted.extend([len(contents)] if contents else [])
        original(self, contents)

    monkeypatch.setattr(MessageRenderer, "extend", count)
    return counted


def test_thread_and_request_of_a_round_are_rendered_once(renders: list[int]) -> None:
    round_context = context("openai_chat", None, Content.human("Hi"), tools=[tool(look)])
    assert round_context.request["messages"] == round_context.thread
    assert renders == [1]


@pytest.mark.parametrize("policy", ["text", "drop"])
def test_images_that_a_target_cannot_carry_are_found_without_rendering(renders: list[int], policy: Any) -> None:
    images = [ImageBlock(data=f"https://example.org/{number}.png") for number in range(20)]
    changes: list[str] = []
    render([Content.human("Look.", *images)], "ollama", unsupported=policy, changes=changes)
    assert renders == [1]
    assert len(changes) == 20


@pytest.mark.parametrize("field", ["thoughtSignature", "thought_signature", "extra_content"])
def test_signed_calls_without_a_provider_are_kept_together(field: str) -> None:
    calls = [
        ToolCall(id=f"hist_tool_{n}", name="look", index=n, arguments={}, state="complete", metadata={field: "S"})
        for n in range(2)
    ]
    update = build_thread_update(
        build_assistant_content(calls, {}),
        [ToolResult(call, "completed", "sea") for call in calls],
        None,
        "sequential",
        FormatCallbacks(batch=lambda completed: [{"results": len(completed)}]),
    )
    assert update.messages == [{"results": 2}]
    assert [warning.code for warning in update.warnings] == ["batched_instead"]


# ---------------------------------------------------------------- the provider by its name


def test_a_context_takes_a_provider_by_name_or_object() -> None:
    context = RoundContext([Content.human("Go.")], [], None, "openai_chat")
    assert context.provider is providers.get("openai_chat")
    assert context.request["messages"] == [{"role": "user", "content": "Go."}]
    other = replace(context, provider="anthropic")
    assert other.provider is providers.get("anthropic")
    assert replace(other, provider=providers.get("gemini")).provider.name == "gemini"
    assert repr(other) == "<RoundContext round=0 provider='anthropic' contents=1 tools=[]>"
    assert context.with_target(Target("cohere")).provider.name == "cohere"


def test_a_context_without_a_provider_or_with_an_unknown_one_is_refused() -> None:
    with pytest.raises(UnknownProvider, match="opanai"):
        RoundContext([], [], None, "opanai")
    with pytest.raises(UnknownProvider, match="opanai"):
        replace(RoundContext([], [], None, "openai_chat"), provider="opanai")
    with pytest.raises(TypeError, match="provider"):
        RoundContext([], [], None)  # the type checker takes the field's descriptor for a default


@pytest.mark.anyio
async def test_a_hook_may_name_the_next_provider() -> None:
    done = [message_start(), *block(0, {"type": "text", "text": "Done."}), *message_end()]
    model = FakeModel(answer("", ("look", {"at": "sea"})), done)
    run = await run_loop(
        model,
        provider="openai_chat",
        tools=[look],
        history=[Content.human("Go.")],
        before_follow_up=lambda context: replace(context, provider="anthropic"),
    )
    assert [context.provider.name for context in model.asked] == ["openai_chat", "anthropic"]
    assert run.text == "Done."
