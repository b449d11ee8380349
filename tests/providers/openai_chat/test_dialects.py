"""The dialects: the requests to each, and dialects of one's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_streams import chat, run

import streamkit
from streamkit import Turn, providers
from streamkit.errors import UnknownProvider, UnsupportedContent, UsageError
from streamkit.history import Content, FileBlock, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers import registry
from streamkit.providers.openai_chat.dialects import DIALECTS
from streamkit.testing.rules.openai_chat import RULES_OF_DIALECTS
from streamkit.tools import tool

BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
CALL = ToolCallBlock(id="hist_tool_" + "a" * 24, name="weather", parameters={"city": "Oslo"})
RESULT = Content(speaker="tool", blocks=[ToolResponseBlock(call_id=CALL.id, result="4")])


def weather(city: str) -> str:
    """The weather."""
    return city


def _messages(contents: list[Content], provider: Any) -> list[dict[str, Any]]:
    """Return the messages of the provider itself, without the repair that ``render`` does before."""
    return providers.get(provider).render(contents).messages


def _request(name: str, *contents: Content, **options: Any) -> dict[str, Any]:
    return providers.render_request(contents or [Content.human("Weather?")], name, tools=[weather], **options)


def _reasoning_block(name: str, **fields: Any) -> ReasoningBlock:
    return ReasoningBlock(text="Which city?", metadata={"provider": name}, **fields)


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("name", BY_NAME)
def test_usage_is_requested_unless_the_dialect_rejects_the_option(name: str) -> None:
    body = _request(name)
    assert body["stream"] is True
    assert ("stream_options" in body) == (name != "mistral")


@pytest.mark.parametrize("name", BY_NAME)
def test_required_tool_choice_uses_the_dialects_value(name: str) -> None:
    expected = "any" if name == "mistral" else "required"
    assert _request(name, tool_choice="required")["tool_choice"] == expected
    assert _request(name, tool_choice="auto")["tool_choice"] == "auto"
    assert _request(name, tool_choice="weather")["tool_choice"]["function"] == {"name": "weather"}


def test_mistral_results_contain_the_tool_name() -> None:
    messages = _request("mistral", Content.ai("", CALL), RESULT)["messages"]
    assert messages[1]["name"] == "weather"
    named = Content(speaker="tool", blocks=[ToolResponseBlock(call_id="x", name="other", result="4")])
    assert _messages([named], "mistral")[0]["name"] == "other"
    assert "name" not in _messages([Content.ai("", CALL), RESULT], "openai_chat")[1]


def test_mistral_gets_an_assistant_message_between_a_result_and_a_user_message() -> None:
    contents = [Content.human("Weather?"), Content.ai("", CALL), RESULT, Content.human("Stop.")]
    rendered = providers.get("mistral").render(contents)
    assert [message["role"] for message in rendered.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert len(rendered.changes) == 1
    assert len(_messages(contents, "openai_chat")) == 4


def test_a_final_assistant_message_to_mistral_is_marked_as_prefix() -> None:
    contents = [Content.human("Count."), Content.ai("1, 2,")]
    assert _request("mistral", *contents)["messages"][-1] == {"role": "assistant", "content": "1, 2,", "prefix": True}
    assert "prefix" not in _request("mistral", *contents, Content.human("Go on."))["messages"][1]
    assert "prefix" not in _request("mistral", Content.ai("", CALL))["messages"][-1]
    assert "prefix" not in _request("openai_chat", *contents)["messages"][-1]


def test_the_names_of_authors_go_back_to_their_own_dialect() -> None:
    """AutoGen tells the agents of a group apart by them; Mistral refuses them (microsoft/autogen#2748)."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief.", "name": "rules"},
        {"role": "user", "content": "Hi.", "name": "bob"},
        {"role": "assistant", "content": "Hello.", "tool_calls": [call], "name": "planner"},
        {"role": "tool", "tool_call_id": "call_1", "content": "r"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}], "name": "eve"},
    ]
    changes: list[str] = []
    request = providers.parse_request({"messages": messages}, "openai_chat", changes=changes)
    rendered = providers.render_request(request, "openai_chat", changes=changes)["messages"]
    assert [message.get("name") for message in rendered] == [message.get("name") for message in messages]
    assert changes == []
    for target in ("mistral", "anthropic", "gemini", "groq"):
        changes = []
        assert "planner" not in str(providers.render_request(request, target, changes=changes))
        assert "the name of a message's author was left out: the target has no field for it" in changes
    changes = []
    providers.parse_request({"messages": messages[1:2]}, "mistral", changes=changes)
    assert changes == ["left out the field 'name' of a message of the role 'user'"]


def test_deepseek_continues_a_last_message_that_asks_for_it() -> None:
    """https://api-docs.deepseek.com/guides/chat_prefix_completion."""
    asked = {"role": "assistant", "content": "```python\n", "prefix": True}
    request = providers.parse_request({"messages": [{"role": "user", "content": "Sort."}, asked]}, "deepseek")
    assert providers.render_request(request, "deepseek")["messages"][-1] == asked
    plain = {"role": "assistant", "content": "```python\n"}
    assert providers.render_request(request, "openai_chat")["messages"][-1] == plain
    unmarked = providers.parse_request({"messages": [{"role": "user", "content": "Sort."}, plain]}, "deepseek")
    assert providers.render_request(unmarked, "deepseek")["messages"][-1] == plain


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reasoning_effort": "max"}, {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "low"}, None),
        ({"thinking": {"type": "enabled"}}, None),
        ({"thinking": {"type": "disabled"}}, None),
    ],
)
def test_deepseek_gets_the_effort_of_its_thinking(fields: dict[str, Any], expected: dict[str, Any] | None) -> None:
    body = {"model": "deepseek-v4-pro", "messages": [{"role": "user", "content": "Hi."}], **fields}
    changes: list[str] = []
    rendered = providers.render_request(providers.parse_request(body, "deepseek"), "deepseek", changes=changes)
    found = {name: rendered[name] for name in ("thinking", "reasoning_effort") if name in rendered}
    assert (found, changes) == (expected or fields, [])


def test_mistral_thinking_is_replayed_as_parts_in_order() -> None:
    block = _reasoning_block("mistral", signature="SIG")
    [message] = _messages([Content.ai("", block, TextBlock(text="Oslo."), CALL)], "mistral")
    assert message["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Which city?"}], "signature": "SIG"},
        {"type": "text", "text": "Oslo."},
    ]
    assert len(message["tool_calls"][0]["id"]) == 9
    assert _messages([Content.ai("Oslo.")], "mistral") == [{"role": "assistant", "content": "Oslo."}]


def test_mistral_thinking_is_not_sent_to_other_dialects() -> None:
    block = _reasoning_block("mistral")
    for name in BY_NAME:
        [message] = _messages([Content.ai("Oslo.", block)], name)
        assert ("Which city?" in json.dumps(message)) == (name == "mistral")


def test_reasoning_may_be_replayed_in_turns_with_tool_calls_alone() -> None:
    """As DeepSeek's API before August 2026 (https://api-docs.deepseek.com/guides/thinking_mode)."""
    older = providers.dialect("deepseek", base="deepseek", reasoning_replay="tool_turns")
    block = _reasoning_block("deepseek")
    called = [Content.ai("", block, CALL), RESULT, Content.ai("4 degrees.", block)]
    plain = [Content.human("Hi."), Content.ai("Hello.", block)]
    results_in_a_user_message = Content.human("", *RESULT.blocks)

    rendered = older.render([*plain, Content.human("Weather?"), *called, Content.human("Thanks.")])
    assert [("reasoning_content" in message) for message in rendered.messages if message["role"] == "assistant"] == [
        False,
        True,
        True,
    ]
    assert rendered.changes == ["left out a block of type 'reasoning' of deepseek: deepseek does not accept it here"]
    # Results in a user message do not end the turn. A turn counts although its start is missing.
    again = _messages([plain[0], called[0], results_in_a_user_message, called[2]], older)
    assert [("reasoning_content" in message) for message in again] == [False, True, False, True]
    assert "reasoning_content" in _messages([plain[1]], older)[0]


def test_deepseek_gets_the_reasoning_of_every_message() -> None:
    """https://github.com/openclaw/openclaw/issues/73417, https://github.com/bojieli/ai-agent-book/pull/982."""
    block = _reasoning_block("deepseek")
    contents = [Content.human("Hi."), Content.ai("Hello.", block), Content.human("Weather?"), Content.ai("", CALL)]
    contents += [RESULT, Content.ai("4 degrees."), Content.human("Thanks.")]
    messages = _messages(contents, "deepseek")
    # A call of another model, or one before which the model did not reason, must not be without the field.
    assert [message.get("reasoning_content") for message in messages] == [
        None,
        "Which city?",
        None,
        " ",
        None,
        None,
        None,
    ]
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    for offered, last in ((tools, " "), ((), None)):
        body = streamkit.render_request(contents, "deepseek", tools=offered)
        assert [message.get("reasoning_content") for message in body["messages"]] == [
            *[message.get("reasoning_content") for message in messages[:5]],
            last,
            None,
        ]
    [read] = streamkit.parse_messages(messages[3:4], "deepseek")
    assert [block.type for block in read.blocks] == ["tool_call"]


@pytest.mark.parametrize(
    ("model", "has_field"),
    [("openai/gpt-oss-120b", True), ("qwen/qwen3-32b", True), ("moonshotai/kimi-k2-instruct", False), (None, True)],
)
def test_groq_gets_reasoning_for_models_that_reason(model: str | None, has_field: bool) -> None:
    """https://github.com/vercel/ai/pull/8057: "messages[X].reasoning: reasoning is not supported with this model"."""
    contents = [Content.human("Hi."), Content.ai("Hello.", _reasoning_block("groq")), Content.human("More.")]
    changes: list[str] = []
    messages = streamkit.render(contents, "groq", model=model, changes=changes)
    assert ("reasoning" in messages[1]) == has_field
    assert bool(changes) == (not has_field)


@pytest.mark.parametrize(
    ("provider", "model", "has_field"),
    [("kimi", "kimi-k2.6", True), ("kimi", "kimi-k2-0905-preview", False), ("qwen", "qwen3.7-plus", False)],
)
def test_a_call_without_reasoning_has_a_blank_one_where_it_is_required(
    provider: str, model: str, has_field: bool
) -> None:
    """https://github.com/JohnnyZ93/oai-compatible-copilot/issues/140, https://github.com/BerriAI/litellm/issues/28045."""
    contents = [Content.human("Weather?"), Content.ai("", CALL), RESULT]
    body = streamkit.render_request(contents, provider, model=model)
    assert ("reasoning_content" in body["messages"][1]) == has_field


SWITCHED_OFF = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("provider", "model", "fields"),
    [
        ("deepseek", "deepseek-v4-flash", SWITCHED_OFF),
        ("deepseek", None, SWITCHED_OFF),
        ("kimi", "kimi-k2.6", SWITCHED_OFF),
        ("kimi", "kimi-k3", SWITCHED_OFF),
        ("kimi", "kimi-k2-0905-preview", {}),
        ("qwen", "qwen3.6-plus", {"enable_thinking": False}),
        ("qwen", "qwen-max", {}),
        ("openrouter", "deepseek/deepseek-v4-flash", {}),
    ],
)
@pytest.mark.parametrize("choice", ["required", "weather"])
def test_reasoning_is_off_in_a_request_that_forces_a_call(
    provider: str, model: str | None, fields: dict[str, Any], choice: str
) -> None:
    """deepseek-ai/DeepSeek-V3#1376, can1357/oh-my-pi#827 and #1077, cloudwego/eino#994."""
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    names = {"thinking", "enable_thinking"}
    for wanted in (choice, "auto", "none", None):
        changes: list[str] = []
        body = streamkit.render_request(
            [Content.human("Weather?")], provider, tools=tools, tool_choice=wanted, model=model, changes=changes
        )
        switch = {name: value for name, value in body.items() if name in names}
        assert switch == (fields if wanted == choice else {})
        assert bool(changes) == bool(switch)


@pytest.mark.parametrize(
    ("provider", "off"),
    [("deepseek", SWITCHED_OFF), ("kimi", SWITCHED_OFF), ("qwen", {"enable_thinking": False})],
)
def test_reasoning_that_is_asked_for_is_off_in_a_request_that_forces_a_call(provider: str, off: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    contents = [Content.human("Weather?")]
    for asked in ({"reasoning": "auto"}, {"reasoning_effort": "high"}, {"reasoning_budget": 2048}):
        changes: list[str] = []
        forced = streamkit.render_request(
            contents, provider, tools=tools, tool_choice="required", settings=asked, changes=changes
        )
        assert forced | off == forced
        assert not {"reasoning_effort", "thinking_budget"} & forced.keys()
        assert changes == [
            f"reasoning was turned off in this request: {provider} refuses it together with a tool choice that forces"
            " a call"
        ]
        free = streamkit.render_request(contents, provider, tools=tools, settings=asked)
        assert free | off != free


@pytest.mark.parametrize(
    ("model", "is_fixed"), [("kimi-k2.6", True), ("kimi-k3", True), ("kimi-k2-0905-preview", False)]
)
def test_the_sampling_of_newer_kimi_models_is_fixed(model: str, is_fixed: bool) -> None:
    """https://github.com/odysseus-dev/odysseus/issues/3959, https://github.com/CherryHQ/cherry-studio/pull/12731."""
    asked = {"model": model, "temperature": 0.2, "top_p": 0.9, "frequency_penalty": 0.5, "max_output_tokens": 100}
    changes: list[str] = []
    body = streamkit.render_request([Content.human("Hi.")], "kimi", settings=asked, changes=changes)
    assert body["max_tokens"] == 100
    names = {"temperature", "top_p", "frequency_penalty"}
    assert names & body.keys() == (set() if is_fixed else names)
    assert len(changes) == (3 if is_fixed else 0)


def test_deepseek_takes_an_effort_beside_its_switch() -> None:
    """https://api-docs.deepseek.com/guides/thinking_mode, "Thinking Effort Control"."""
    body = streamkit.render_request([Content.human("Hi.")], "deepseek", settings={"reasoning_effort": "high"})
    assert (body["thinking"], body["reasoning_effort"]) == ({"type": "enabled"}, "high")
    off = streamkit.render_request([Content.human("Hi.")], "deepseek", settings={"reasoning": "off"})
    assert (off["thinking"], "reasoning_effort" in off) == ({"type": "disabled"}, False)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("cerebras", "reasoning"),
        ("fireworks", "reasoning_content"),
        ("groq", "reasoning"),
        ("kimi", "reasoning_content"),
        ("openrouter", "reasoning"),
        ("xai", "reasoning_content"),
    ],
)
def test_reasoning_is_replayed_in_the_field_that_the_dialect_accepts(name: str, field: str) -> None:
    [_, message] = _messages([Content.human("Hi."), Content.ai("Hello.", _reasoning_block(name))], name)
    assert message == {"role": "assistant", "content": "Hello.", field: "Which city?"}


def test_custom_calls_become_functions_for_dialects_without_custom_tools() -> None:
    custom = ToolCallBlock(id="x", name="sh", parameters="ls -l", kind="custom")
    for name in BY_NAME:
        rendered = providers.get(name).render([Content.ai("", custom)])
        [call] = rendered.messages[0]["tool_calls"]
        if name in ("openai_chat", "azure_openai"):
            assert call["custom"] == {"name": "sh", "input": "ls -l"}
        else:
            assert call["function"] == {"name": "sh", "arguments": '{"input":"ls -l"}'}
            assert rendered.changes == ["the free text of a call of 'sh' was put into an object"]


def test_openrouter_accepts_file_addresses_and_gets_images_and_parsed_files_replayed() -> None:
    linked = FileBlock(media_type="application/pdf", url="https://x/y.pdf", name="y.pdf")
    [message] = _messages([Content.human("", linked)], "openrouter")
    assert message["content"] == [{"type": "file", "file": {"filename": "y.pdf", "file_data": "https://x/y.pdf"}}]
    with pytest.raises(UnsupportedContent):
        _messages([Content.human("", linked)], "openai_chat")

    own = {"provider": "openrouter"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    parsed = {"type": "file", "file": {"hash": "h", "content": []}}
    citation = {"type": "url_citation", "url_citation": {}}
    text = TextBlock(text="See.", metadata=own | {"citations": [citation, parsed]})
    generated = FileBlock(media_type="image/png", data="QQ==", metadata=own | {"raw": image})
    [message] = _messages([Content.ai("", text, generated, generated)], "openrouter")
    assert message["annotations"] == [parsed]
    assert message["images"] == [image, image]
    assert _messages([Content.ai("", generated)], "openrouter")[0]["images"] == [image]
    elsewhere = providers.get("openai_chat").render([Content.ai("", text, generated)])
    assert elsewhere.messages == [{"role": "assistant", "content": "See."}]


# ---------------------------------------------------------------- custom dialects


def test_a_custom_dialect_is_accepted_in_place_of_a_name() -> None:
    acme = providers.dialect("acme", stream_usage=False, reasoning_field="reasoning")
    assert acme.name == "acme"
    body = providers.render_request([Content.human("Hi")], acme, tools=[tool(weather)])
    assert "stream_options" not in body
    turn, _ = run(acme, [chat({"reasoning": "Hm.", "content": "Hi"}, "stop")], complete=True)
    assert turn.content.metadata["provider"] == "acme"
    assert _messages([turn.content], acme) == [{"role": "assistant", "content": "Hi", "reasoning": "Hm."}]
    assert providers.detect(b'data: {"object":"chat.completion.chunk"}\n\n') == "openai_chat"


def test_a_dialect_can_be_based_on_any_other_and_have_its_name() -> None:
    old = providers.dialect("deepseek", base="deepseek", reasoning_replay="never")
    contents = [Content.human("Hi."), Content.ai("", _reasoning_block("deepseek"), CALL)]
    assert "reasoning_content" not in _messages(contents, old)[1]
    assert "reasoning_content" in _messages(contents, "deepseek")[1]
    again = providers.dialect("newer", base=old, reasoning_replay="always")
    assert _messages([Content.ai("", _reasoning_block("newer"), CALL)], again)[0]["reasoning_content"] == "Which city?"


def _renamed(chunk: dict[str, Any]) -> dict[str, Any]:
    for choice in chunk["choices"]:
        choice["delta"]["reasoning"] = choice["delta"].pop("thoughts", None)
    return chunk


def test_a_rewrite_gets_every_chunk_of_every_input_kind() -> None:
    acme = providers.dialect("acme", rewrite=_renamed)
    chunks = [chat({"thoughts": "Hm."}), chat({"content": "Hi"}, "stop")]
    wire = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    for inputs in ([wire], [wire[:30], wire[30:]], chunks):
        turn, _ = run(acme, inputs)
        assert (turn.reasoning, turn.text, turn.error) == ("Hm.", "Hi", None)
    assert run(acme, [wire])[0].done
    derived = providers.dialect("more", base=acme)
    assert run(derived, [wire])[0].reasoning == "Hm."


def test_frames_that_are_not_chunks_are_not_rewritten() -> None:
    acme = providers.dialect("acme", rewrite=_renamed)
    turn, _ = run(acme, [b'event: error\ndata: {"error":{"message":"no"}}\n\n'])
    assert turn.error is not None
    assert turn.error.message == "no"
    turn, _ = run(acme, [b"data: {half\n\n"])
    assert turn.error is not None
    assert turn.error.kind == "protocol_error"


def test_a_rewrite_that_returns_no_chunk_is_a_usage_error() -> None:
    turn = Turn(providers.dialect("acme", rewrite=lambda chunk: None))  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="rewrite"):
        turn.feed(chat({"content": "Hi"}))


def test_invalid_dialects_are_usage_errors() -> None:
    with pytest.raises(UsageError, match=r"no trait 'reasoning_filed'; there are: .*reasoning_field"):
        providers.dialect("acme", reasoning_filed="x")
    with pytest.raises(UsageError, match=r"a dialect of 'anthropic' has no trait 'reasoning_field'"):
        providers.dialect("acme", base="anthropic", reasoning_field="x")
    with pytest.raises(UnknownProvider):
        providers.dialect("acme", base="nobody")


def test_a_dialect_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    acme = providers.dialect("acme")
    providers.register(acme)
    assert providers.get("acme") is acme
    with pytest.raises(UsageError, match="registered already"):
        providers.register(providers.dialect("acme"))


def test_a_row_of_rules_belongs_to_a_dialect() -> None:
    for name in RULES_OF_DIALECTS:
        assert name in BY_NAME, f"{name!r} in testing/rules/openai_chat.py is no dialect: its rules are never applied"
