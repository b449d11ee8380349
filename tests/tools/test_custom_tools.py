"""Custom tools: free text with a grammar, on every target, and back as the result in the target's own form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from execution.chat_chunks import answer, chunk
from execution.test_calls_for_the_client import response
from tools.test_declarations import ANSWER, anthropic_call, declarations

from streamkit import Content, Tool, ToolContext, UsageError, providers, render_request, run_loop, tool
from streamkit.tools import Grammar

pytestmark = pytest.mark.anyio

ASK = [Content.human("Go.")]
SUM = Grammar(syntax="regex", definition=r"\d+(\+\d+)*")


@tool(kind="custom", grammar=SUM)
def calculate(text: str) -> int:
    """Compute a sum."""
    return sum(map(int, text.split("+")))


# https://platform.openai.com/docs/guides/function-calling#context-free-grammars
RESPONSES_FORM = {
    "type": "custom",
    "name": "calculate",
    "description": "Compute a sum.",
    "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+(\+\d+)*"},
}
# https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
CHAT_FORM = {
    "type": "custom",
    "custom": {
        "name": "calculate",
        "description": "Compute a sum.",
        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": r"\d+(\+\d+)*"}},
    },
}


@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat", "azure_openai"])
def test_a_custom_tool_is_declared_with_its_grammar(provider: str) -> None:
    expected = RESPONSES_FORM if provider == "openai_responses" else CHAT_FORM
    changes: list[str] = []
    assert render_request(ASK, provider, tools=[calculate], changes=changes)["tools"] == [expected]
    assert changes == []


def test_a_custom_tool_may_have_no_grammar() -> None:
    declared = render_request(ASK, "openai_responses", tools=[Tool(name="note", description="A note.", kind="custom")])
    assert declared["tools"] == [{"type": "custom", "name": "note", "description": "A note."}]


@pytest.mark.parametrize(
    "provider", [name for name in providers.names() if not providers.get(name).traits.custom_calls]
)
def test_elsewhere_a_custom_tool_is_a_function_of_one_text(provider: str) -> None:
    changes: list[str] = []
    [declared] = declarations(render_request(ASK, provider, tools=[calculate], changes=changes))
    text = json.dumps(declared)
    assert '"input": {"type": "string"}' in text
    assert "follows this regex grammar" in text
    assert changes == [f"the grammar of the tool calculate is only described: {provider} enforces none"]


@pytest.mark.parametrize(
    ("provider", "choice"),
    [
        ("openai_responses", {"type": "custom", "name": "calculate"}),
        ("openai_chat", {"type": "custom", "custom": {"name": "calculate"}}),
        ("mistral", {"type": "function", "function": {"name": "calculate"}}),
        ("anthropic", {"type": "tool", "name": "calculate"}),
    ],
)
def test_a_tool_choice_names_a_custom_tool(provider: str, choice: Any) -> None:
    assert render_request(ASK, provider, tools=[calculate], tool_choice="calculate")["tool_choice"] == choice


def custom_item(text: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_1", "name": "calculate", "input": text}


def custom_chunks(text: str) -> list[dict[str, Any]]:
    call = {"index": 0, "id": "c_1", "type": "custom", "custom": {"name": "calculate", "input": text}}
    delta = {"role": "assistant", "tool_calls": [call]}
    return [chunk({"index": 0, "delta": delta}), chunk({"index": 0, "delta": {}, "finish_reason": "tool_calls"})]


@pytest.mark.parametrize(
    ("provider", "called", "answered", "sent"),
    [
        (
            "openai_responses",
            response(custom_item("1+2")),
            response(),
            [
                {"type": "custom_tool_call", "call_id": "c_1", "name": "calculate", "input": "1+2"},
                {"type": "custom_tool_call_output", "call_id": "c_1", "output": "3"},
            ],
        ),
        (
            "openai_chat",
            custom_chunks("1+2"),
            answer("Three."),
            [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c_1", "type": "custom", "custom": {"name": "calculate", "input": "1+2"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c_1", "content": "3"},
            ],
        ),
        (
            "anthropic",
            anthropic_call("calculate", '{"input": "1+2"}'),
            ANSWER,
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "toolu_1", "name": "calculate", "input": {"input": "1+2"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}],
                },
            ],
        ),
    ],
)
async def test_the_function_gets_the_text_and_the_result_has_the_targets_form(
    provider: str, called: Any, answered: Any, sent: list[dict[str, Any]]
) -> None:
    requests: list[dict[str, Any]] = []

    def ask(context: Any) -> Any:
        requests.append(context.request)
        return answered if context.round else called

    run = await run_loop(ask, provider=provider, tools=[calculate], history=ASK)
    assert run.ended == "answered"
    messages = requests[1]["input" if provider == "openai_responses" else "messages"][-2:]
    shown = [{name: message.get(name) for name in form} for message, form in zip(messages, sent, strict=True)]
    assert shown == sent


async def test_a_text_that_does_not_fit_is_an_error_for_the_model() -> None:
    @tool(kind="custom")
    def shout(text: str, context: ToolContext) -> str:
        return f"{text.upper()} {context.id}"

    def ask(context: Any) -> Any:
        if context.round:
            return ANSWER
        return anthropic_call("shout", '{"text": "hey"}')

    run = await run_loop(ask, provider="anthropic", tools=[shout], history=ASK)
    [result] = run.contents[1].blocks
    assert result.status == "error"
    assert "input" in str(result.error)
    assert shout.validate("hey") == {"text": "hey"}
    assert shout.validate({"input": "hey"}) == {"text": "hey"}


def two(first: str, second: str) -> str:
    return first + second


def none() -> str:
    return ""


def number(value: int) -> int:
    return value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "text"}, 'kind must be "function" or "custom"'),
        ({"grammar": SUM}, 'only a tool of kind="custom" has a grammar'),
        ({"kind": "custom", "grammar": {"syntax": "lark"}}, "grammar must be a Grammar"),
        ({"kind": "custom", "parameters": {"type": "object"}}, "leave out parameters="),
        ({"kind": "custom", "strict": True}, "leave out strict="),
        ({"kind": "custom", "function": two}, "one parameter for the text.*it has: first, second"),
        ({"kind": "custom", "function": none}, "it has: none"),
        ({"kind": "custom", "function": number}, "it has: value"),
    ],
)
def test_wrong_custom_tools_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Tool(**{"name": "edit", **options})
    with pytest.raises(UsageError, match="leave out strict="):
        calculate.replace(strict=True)


# A declaration that is complete: of a custom tool with a grammar, or of a tool that the provider defines.
@pytest.mark.parametrize(
    ("provider", "declared", "choice"),
    [
        ("openai_chat", CHAT_FORM, {"type": "custom", "custom": {"name": "calculate"}}),
        ("openai_responses", RESPONSES_FORM, {"type": "custom", "name": "calculate"}),
        ("openai_responses", {"type": "shell"}, {"type": "shell"}),
        (
            "openai_responses",
            {"type": "mcp", "server_label": "notes", "server_url": "https://notes.example"},
            {"type": "mcp", "server_label": "notes"},
        ),
        ("anthropic", {"type": "bash_20250124", "name": "calculate"}, {"type": "tool", "name": "calculate"}),
        ("cohere", {"type": "connector", "name": "calculate"}, "REQUIRED"),
        ("groq", {"type": "browser_search"}, "required"),
        ("ollama", {"type": "function", "function": {"name": "calculate"}}, None),
    ],
)
def test_a_tool_choice_names_a_tool_with_a_declaration_of_its_own(
    provider: str, declared: dict[str, Any], choice: Any
) -> None:
    tools = [Tool(name="calculate", fields={provider: declared})]
    body = render_request(ASK, provider, tools=tools, tool_choice="calculate")
    assert (body["tools"], body.get("tool_choice")) == ([declared], choice)


@pytest.mark.parametrize("provider", ["cohere", "ollama"])
def test_where_no_tool_can_be_named_only_the_chosen_one_is_offered(provider: str) -> None:
    declared = {"type": "connector", "name": "search"}
    search, look = Tool(name="search", fields={provider: declared}), Tool(name="look", description="Look.")
    body = render_request(ASK, provider, tools=[search, look], tool_choice="search")
    assert body["tools"] == [declared]
    body = render_request(ASK, provider, tools=[search, look], tool_choice="look")
    assert [each["function"]["name"] for each in body["tools"]] == ["look"]


@pytest.mark.parametrize("provider", ["groq", "gemini"])
def test_a_tool_that_cannot_be_named_is_refused(provider: str) -> None:
    search = {"type": "browser_search"} if provider == "groq" else {"googleSearch": {}}
    name = "browser_search" if provider == "groq" else "googleSearch"
    with pytest.raises(UsageError, match=f"tool_choice '{name}' cannot be requested"):
        render_request(ASK, provider, tools=[search, calculate], tool_choice=name)


def test_a_declaration_has_the_name_of_its_tool() -> None:
    editor = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
    with pytest.raises(UsageError, match="name the tool so with name='str_replace_based_edit_tool'"):
        Tool(name="edit", fields={"anthropic": editor})
