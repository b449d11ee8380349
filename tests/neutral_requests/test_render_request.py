"""Requests written for another provider: the target's form, the facts of its models, what is said to be left out."""

from __future__ import annotations

from typing import Any

import pytest
from neutral_requests.client_bodies import BODIES, GRAMMAR, SCHEMA, Json
from request_validators import anthropic_request, openai_chat_request, openai_responses_input

from streamkit import (
    Content,
    OutputFormat,
    Request,
    Settings,
    ToolDefinition,
    parse_request,
    render_request,
    tool,
)
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.providers import get, names
from streamkit.testing import validate_request
from streamkit.tools import Grammar

HELLO = [Content.human("Hello.")]
#: A current model of each target, for which facts are declared where they differ by model.
MODELS = {
    "anthropic": "claude-opus-4-7",
    "azure_openai": "o3",
    "bedrock_converse": "us.anthropic.claude-opus-4-6-v1",
    "bedrock_invoke": "anthropic.claude-3-7-sonnet-20250219-v1:0",
    "gemini": "gemini-3-pro-preview",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5.2",
    "xai": "grok-4",
}


def rendered(provider: str, model: str | None = None, **settings: Any) -> tuple[Json, list[str]]:
    """Return the body of a short request with these settings, and the changes."""
    changes: list[str] = []
    settings = settings if model is None else {"model": model, **settings}
    return render_request(HELLO, provider, settings=settings, changes=changes), changes


@pytest.mark.parametrize("target", names())
@pytest.mark.parametrize("client", BODIES)
def test_every_request_is_legal_at_every_target(client: str, target: str) -> None:
    body, options = BODIES[client]
    request, model = parse_request(body, client, **options), MODELS.get(target, "some-model")
    changes: list[str] = []
    written = render_request(request, target, settings={"model": model}, unsupported="text", changes=changes)
    assert validate_request(target, written, model=model) == []
    endpoint = get(target).traits.endpoint
    assert written.get("model") == (model if endpoint.model_in_body else None)
    if client == target:
        return  # its own fields go back to it, also those that the SDK's types do not have yet
    assert not request.unread or any("only" in change and client in change for change in changes)
    if target == "openai_chat":
        openai_chat_request(written)
    elif target == "anthropic":
        anthropic_request(written)
    elif target == "openai_responses":
        openai_responses_input(written["input"])


def test_without_settings_a_request_is_what_the_conversation_decides() -> None:
    assert render_request(HELLO, "anthropic").keys() == {"messages", "stream"}
    assert render_request(HELLO, "openai_chat", stream=False).keys() == {"messages"}


def test_settings_replace_those_of_a_request_one_by_one() -> None:
    request = Request(contents=HELLO, settings=Settings(model="gpt-4.1", temperature=0.5, top_p=0.1))
    body = render_request(request, "openai_chat", settings={"temperature": 1})
    assert (body["model"], body["temperature"], body["top_p"]) == ("gpt-4.1", 1, 0.1)
    assert "stream" not in body
    assert render_request(request, "openai_chat", stream=True)["stream"] is True


def test_functions_and_definitions_may_be_mixed() -> None:
    @tool
    def clock() -> str:
        """Return the time."""
        return "noon"

    definitions = [clock, ToolDefinition(name="search", parameters=SCHEMA)]
    body = render_request(HELLO, "openai_chat", tools=definitions, tool_choice="search")
    assert [entry["function"]["name"] for entry in body["tools"]] == ["clock", "search"]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "search"}}


# ---------------------------------------------------------------- facts of models


@pytest.mark.parametrize(
    ("provider", "model", "field"),
    [
        ("openai_chat", "gpt-5", ("max_completion_tokens",)),
        ("openai_chat", "gpt-4o", ("max_completion_tokens",)),
        ("azure_openai", "o3", ("max_completion_tokens",)),
        ("openai_responses", "gpt-5", ("max_output_tokens",)),
        ("vllm", "m", ("max_tokens",)),
        ("anthropic", "claude-opus-4-7", ("max_tokens",)),
        ("gemini", "gemini-3-flash", ("generationConfig", "maxOutputTokens")),
        ("ollama", "m", ("options", "num_predict")),
        ("bedrock_converse", "m", ("inferenceConfig", "maxTokens")),
    ],
)
def test_the_limit_has_the_targets_name(provider: str, model: str, field: tuple[str, ...]) -> None:
    value: Any = rendered(provider, model, max_output_tokens=77)[0]
    for name in field:
        value = value[name]
    assert value == 77


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("anthropic", "claude-3-haiku-20240307", 4096),
        ("anthropic", "claude-opus-4-1-20250805", 32_000),
        ("anthropic", "claude-opus-4-20250514", 32_000),
        ("anthropic", "claude-sonnet-4-20250514", 64_000),
        ("anthropic", "claude-opus-4-5-20251101", 64_000),
        ("anthropic", "claude-haiku-4-5", 64_000),
        ("anthropic", "claude-opus-4-7", 128_000),
        ("anthropic", "claude-sonnet-5", 128_000),
        ("anthropic", "glm-5", 4096),
        ("openai_chat", "gpt-4o", None),
    ],
)
def test_a_limit_that_is_required_is_the_most_of_the_model(provider: str, model: str, expected: int | None) -> None:
    assert rendered(provider, model)[0].get("max_tokens") == expected


def test_a_limit_above_that_of_the_model_is_lowered_and_reported() -> None:
    body, changes = rendered("openai_chat", "gpt-4o", max_output_tokens=32000)
    assert body["max_completion_tokens"] == 16384
    assert changes == ["the limit of 32000 output tokens became 16384: gpt-4o accepts no more"]


@pytest.mark.parametrize(
    ("provider", "model", "is_refused"),
    [
        ("openai_chat", "gpt-5-mini", True),
        ("openai_responses", "o4-mini", True),
        ("openai_chat", "gpt-5-chat-latest", False),
        ("openai_chat", "gpt-4.1", False),
        ("anthropic", "claude-opus-4-7", True),
        ("anthropic", "claude-opus-4-8-20260601", True),
        ("anthropic", "claude-opus-4-6", False),
        ("bedrock_converse", "us.anthropic.claude-opus-4-7-v1:0", True),
        ("bedrock_converse", "amazon.nova-pro-v1:0", False),
    ],
)
def test_a_refused_temperature_is_left_out_and_reported(provider: str, model: str, is_refused: bool) -> None:
    body, changes = rendered(provider, model, temperature=0.2)
    is_sent = "temperature" in body or "temperature" in body.get("inferenceConfig", {})
    assert is_sent is not is_refused
    assert any("'temperature' was left out" in change for change in changes) is is_refused


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-opus-4-1-20250805"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-haiku-4-5-20251001"),
        ("anthropic", "claude-opus-4-5-20251101"),
        ("anthropic", "claude-sonnet-4-6"),
        ("bedrock_converse", "us.anthropic.claude-opus-4-6-v1"),
        ("bedrock_invoke", "global.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ],
)
@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"temperature": 0, "top_p": 0.95}, "top_p"),
        ({"temperature": 1, "top_p": 1}, "top_p"),
        ({"temperature": 1.5, "top_p": 0.9}, "temperature"),  # 1.5 becomes 1, which the models have anyway
        ({"temperature": 1, "top_p": 0.9}, "temperature"),
        ({"temperature": 0.2}, None),
        ({"top_p": 0.2}, None),
    ],
)
def test_of_a_temperature_and_a_top_p_one_is_sent_to_models_that_refuse_both(
    provider: str, model: str, settings: Json, left_out: str | None
) -> None:
    body, changes = rendered(provider, model, **settings)
    fields = {"topP": "top_p"}
    sent = {fields.get(name, name) for name in (*body, *body.get("inferenceConfig", {}))} & {"temperature", "top_p"}
    assert sent == settings.keys() - {left_out}
    assert any(f"'{left_out}' was left out" in change for change in changes) is (left_out is not None)


@pytest.mark.parametrize("model", ["claude-opus-4-20250514", "claude-sonnet-4-0", "claude-3-7-sonnet-latest", "other"])
def test_a_temperature_and_a_top_p_are_sent_to_models_that_take_both(model: str) -> None:
    body, _ = rendered("anthropic", model, temperature=0.2, top_p=0.9)
    assert (body["temperature"], body["top_p"]) == (0.2, 0.9)


@pytest.mark.parametrize(
    ("model", "settings", "thinking", "effort"),
    [
        ("claude-sonnet-4-5", {"reasoning_budget": 2000}, {"type": "enabled", "budget_tokens": 2000}, None),
        (
            "claude-sonnet-4-5",
            {"reasoning": "auto", "reasoning_effort": "high"},
            {"type": "enabled", "budget_tokens": 24576},
            None,
        ),
        ("claude-sonnet-4-5", {"reasoning": "off"}, {"type": "disabled"}, None),
        ("claude-opus-4-6", {"reasoning_budget": 2000}, {"type": "enabled", "budget_tokens": 2000}, None),
        ("claude-opus-4-6", {"reasoning": "auto", "reasoning_effort": "xhigh"}, {"type": "adaptive"}, "max"),
        ("claude-opus-4-7", {"reasoning_budget": 2000}, {"type": "adaptive"}, "medium"),
        ("claude-opus-4-7", {"reasoning": "auto", "reasoning_effort": "minimal"}, {"type": "adaptive"}, "low"),
        ("claude-opus-4-7", {"reasoning": "off"}, None, None),
        ("claude-3-5-haiku-latest", {"reasoning": "auto", "reasoning_effort": "low"}, None, None),
        (
            "claude-opus-4-7",
            {"reasoning": "auto", "reasoning_summary": "concise"},
            {"type": "adaptive", "display": "summarized"},
            None,
        ),
        (
            "claude-opus-4-7",
            {"reasoning": "auto", "reasoning_summary": "updates"},
            {"type": "adaptive", "display": "updates"},
            None,
        ),
        ("claude-sonnet-4-5", {"reasoning_budget": 9000, "max_output_tokens": 2000},
         {"type": "enabled", "budget_tokens": 1999}, None),
        ("claude-sonnet-4-5", {"reasoning_budget": 9000, "max_output_tokens": 500}, None, None),
    ],
)  # fmt: skip
def test_thinking_has_the_form_of_the_model(
    model: str, settings: Json, thinking: Json | None, effort: str | None
) -> None:
    body, _ = rendered("anthropic", model, **settings)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


def test_thinking_leaves_out_what_it_excludes() -> None:
    body, changes = rendered(
        "anthropic", "claude-sonnet-4-5", reasoning_budget=2000, temperature=0.5, top_k=5, top_p=0.5
    )
    assert not {"temperature", "top_k", "top_p"} & body.keys()
    assert len(changes) == 3
    request = Request(
        contents=HELLO,
        tools=[ToolDefinition(name="f")],
        tool_choice="required",
        settings=Settings(model="claude-sonnet-4-5", reasoning_budget=2000, temperature=0.5),
    )
    changes = []
    body = render_request(request, "anthropic", changes=changes)
    assert "thinking" not in body
    assert body["temperature"] == 0.5
    assert changes == [
        "reasoning was left out of this request: Anthropic refuses it together with a tool choice that forces a call"
    ]


def test_thinking_on_converse_leaves_out_what_it_excludes() -> None:
    """The refusals are the model's (langchain-ai/langchain-aws#925 and #844)."""
    model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    body, changes = rendered("bedrock_converse", model, reasoning_budget=2000, temperature=0.5, top_k=5, top_p=0.5)
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert not body.get("inferenceConfig", {}).keys() & {"temperature", "topP"}
    assert len(changes) == 3
    settings = Settings(model=model, reasoning_budget=2000, temperature=0.5)
    tools = [ToolDefinition(name="f")]
    lost = [*HELLO, Content.ai("", ToolCallBlock(id="c", name="f"))]
    lost.append(Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c", result="x")]))
    for request, reason in (
        (Request(contents=HELLO, tools=tools, tool_choice="required", settings=settings), "a tool choice that forces"),
        (Request(contents=HELLO, tools=tools, tool_choice="f", settings=settings), "a tool choice that forces"),
        (Request(contents=lost, tools=tools, settings=settings), "its own reasoning is missing"),
    ):
        changes = []
        body = render_request(request, "bedrock_converse", changes=changes)
        assert "additionalModelRequestFields" not in body
        assert body["inferenceConfig"]["temperature"] == 0.5
        (change,) = changes
        assert reason in change


@pytest.mark.parametrize(
    ("provider", "model", "settings", "expected"),
    [
        ("openai_chat", "gpt-5", {"reasoning_effort": "max"}, {"reasoning_effort": "high"}),
        ("openai_chat", "gpt-5.2", {"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}),
        ("openai_chat", "gpt-5.2", {"reasoning": "off"}, {"reasoning_effort": "none"}),
        ("openai_chat", "o3", {"reasoning": "off"}, {}),
        ("openai_chat", "gpt-4.1", {"reasoning_effort": "low"}, {}),
        ("openai_chat", "gpt-5", {"reasoning_budget": 5000}, {"reasoning_effort": "medium"}),
        ("openai_responses", "gpt-5", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        (
            "openai_responses",
            "gpt-5",
            {"reasoning_summary": "detailed"},
            {"reasoning": {"summary": "detailed"}},
        ),
        ("groq", "llama-3.3-70b-versatile", {"reasoning_effort": "low"}, {}),
        ("groq", "openai/gpt-oss-20b", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("openrouter", "m", {"reasoning_budget": 5000}, {"reasoning": {"max_tokens": 5000}}),
        ("openrouter", "m", {"reasoning": "off"}, {"reasoning": {"enabled": False}}),
        ("deepseek", "m", {"reasoning": "auto"}, {"thinking": {"type": "enabled"}}),
        ("kimi", "m", {"reasoning": "off"}, {"thinking": {"type": "disabled"}}),
        (
            "qwen",
            "m",
            {"reasoning_effort": "low"},
            {"enable_thinking": True, "thinking_budget": 1024},
        ),
        ("groq", "qwen/qwen3-32b", {"reasoning": "off"}, {"reasoning_effort": "none"}),
        ("groq", "qwen/qwen3-32b", {"reasoning_effort": "low"}, {"reasoning_effort": "default"}),
        ("groq", "qwen/qwen3.8-27b", {"reasoning_effort": "max"}, {"reasoning_effort": "high"}),
        ("together", "m", {"reasoning": "off", "reasoning_effort": "low"}, {"reasoning": {"enabled": False}}),
        ("together", "m", {"reasoning": "auto"}, {"reasoning": {"enabled": True}}),
        ("together", "m", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("together", "m", {"reasoning_summary": "auto"}, {}),
        ("together", "m", {"reasoning_budget": 5000}, {"reasoning_effort": "medium"}),
        ("mistral", "m", {"reasoning_effort": "low"}, {}),
        ("mistral", "magistral-medium-latest", {"reasoning_effort": "high"}, {}),
        ("mistral", "mistral-small-latest", {"reasoning_effort": "low"}, {"reasoning_effort": "high"}),
        ("mistral", "mistral-small-2603", {"reasoning": "off"}, {"reasoning_effort": "none"}),
        ("mistral", "mistral-small-2506", {"reasoning_effort": "high"}, {}),
        ("mistral", "mistral-medium-3-5", {"reasoning_budget": 5000}, {"reasoning_effort": "high"}),
        ("mistral", "mistral-large-4-0", {"reasoning_effort": "max"}, {"reasoning_effort": "high"}),
        ("mistral", "mistral-large-2512", {"reasoning_effort": "high"}, {}),
        ("xai", "grok-4", {"reasoning_effort": "low", "stop": ["x"]}, {}),
        ("cohere", "m", {"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "token_budget": 1024}}),
        ("ollama", "gpt-oss:20b", {"reasoning_effort": "max"}, {"think": "high"}),
        ("ollama", "qwen3", {"reasoning": "auto"}, {"think": True}),
    ],
)
def test_reasoning_has_the_form_of_the_target(provider: str, model: str, settings: Json, expected: Json) -> None:
    body, changes = rendered(provider, model, **settings)
    plain, _ = rendered(provider, model)
    assert {name: value for name, value in body.items() if name not in plain} == expected
    lost = settings.keys() & {"reasoning_effort", "stop"}
    if not expected and lost:
        assert changes != []


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("gemini-2.5-flash", {"reasoning_effort": "max"}, {"thinkingBudget": 24576}),
        ("gemini-2.5-flash", {"reasoning": "off"}, {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"reasoning": "off"}, None),
        ("gemini-2.5-pro", {"reasoning": "auto"}, {"thinkingBudget": -1}),
        ("gemini-3-pro-preview", {"reasoning_effort": "medium"}, {"thinkingLevel": "HIGH"}),
        ("gemini-3-flash-preview", {"reasoning_effort": "medium"}, {"thinkingLevel": "MEDIUM"}),
        ("gemini-3-pro-preview", {"reasoning_budget": 100}, {"thinkingLevel": "LOW"}),
        ("gemini-2.0-flash", {"reasoning_effort": "low"}, None),
        ("gemini-3-pro-preview", {"reasoning_summary": "auto"}, {"includeThoughts": True}),
    ],
)
def test_gemini_thinks_in_the_form_of_the_model(model: str, settings: Json, expected: Json | None) -> None:
    body, _ = rendered("gemini", model, **settings)
    assert body.get("generationConfig", {}).get("thinkingConfig") == expected


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (
            "openai_chat",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
        ),
        ("openai_responses", {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}}),
        ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (
            "gemini",
            {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        ),
        ("cohere", {"response_format": {"type": "json_object", "json_schema": SCHEMA}}),
        ("ollama", {"format": SCHEMA}),
    ],
)
def test_the_output_format_has_the_targets_form(provider: str, expected: Json) -> None:
    output = OutputFormat(type="json_schema", json_schema=SCHEMA, name="a")
    body, changes = rendered(provider, output_format=output)
    assert {name: body[name] for name in expected} == expected
    assert changes == []


def test_what_the_target_lacks_is_reported() -> None:
    _, changes = rendered("anthropic", seed=1, verbosity="low", temperature=2, output_format=OutputFormat(type="json"))
    assert changes == [
        "the setting 'temperature' was changed from 2 to 1, the most that is accepted",
        "the setting 'seed' was left out: anthropic has no field for it",
        "the setting 'verbosity' was left out: anthropic has no field for it",
        "the output format was left out: anthropic has a form of the output only for a schema",
    ]
    body, changes = rendered("openai_chat", stop=["a", "b", "c", "d", "e"])
    assert body["stop"] == ["a", "b", "c", "d"]
    assert changes == ["only the first 4 of 5 texts that end the response were kept"]


@pytest.mark.parametrize(
    ("provider", "fields", "reported"),
    [
        ("openai_responses", {"store": False, "include": ["reasoning.encrypted_content"]}, []),
        (
            "openai_responses",
            {"store": True, "include": ["file_search_call.results"], "prompt_cache_key": "k"},
            ["left out the fields 'store', 'include', 'prompt_cache_key': only openai_responses has them"],
        ),
        ("openai_responses", {"include": [], "stream_options": {"include_obfuscation": False}}, []),
        (
            "openai_chat",
            {"store": False, "stream_options": {"include_usage": True, "include_obfuscation": False}},
            [],
        ),
        ("openai_chat", {"store": True}, ["left out the fields 'store': only openai_chat has them"]),
    ],
)
def test_fields_that_ask_others_for_nothing_are_not_reported(provider: str, fields: Json, reported: list[str]) -> None:
    """Codex and the Agents SDK send them in every request."""
    changes: list[str] = []
    request = parse_request({"model": "m", **fields}, provider)
    assert request.unread == fields
    body = render_request(request, "anthropic", settings={"model": "m"}, changes=changes)
    assert not fields.keys() & body.keys()
    assert [change for change in changes if "fields" in change] == reported
    assert fields.items() <= render_request(request, provider).items()


def test_progress_notes_of_anthropic_are_a_summary_elsewhere() -> None:
    settings = {"reasoning": "auto", "reasoning_effort": "low", "reasoning_summary": "updates"}
    body, changes = rendered("openai_responses", "gpt-5", **settings)
    assert (body["reasoning"], changes) == ({"effort": "low", "summary": "auto"}, [])
    body, changes = rendered("gemini", "gemini-2.5-pro", **settings)
    assert body["generationConfig"]["thinkingConfig"]["includeThoughts"] is True


@pytest.mark.parametrize("target", ["gemini", "openai_responses", "openai_chat", "bedrock_converse"])
def test_fields_that_are_left_out_are_named_within_their_object(target: str) -> None:
    """The request of Claude Code: its effort, which is read, is next to fields of Anthropic's alone."""
    user = {"role": "user", "content": "Hi", "output_config": {"effort": "low"}}
    body = {"model": "m", "max_tokens": 9, "messages": [user], "stream": True,
            "output_config": {"effort": "low", "task_budget": 3}, "inference_geo": "eu"}  # fmt: skip
    changes: list[str] = []
    request = parse_request(body, "anthropic", changes=changes)
    assert "messages" in request.unread
    render_request(request, target, settings={"model": "m"}, changes=changes)
    fields = [change for change in changes if change.startswith("left out the field")]
    assert fields == [
        "left out the field 'output_config' of a message",
        "left out the fields 'output_config.task_budget', 'inference_geo': only anthropic has them",
    ]


def test_fields_that_are_left_out_are_named_alike_in_every_request() -> None:
    """Codex sends the fields of ``client_metadata`` in another order each time."""
    fields = {"thread_id": "t", "session_id": "s"}
    found = []
    for metadata in (fields, dict(reversed(fields.items()))):
        request = parse_request({"model": "m", "input": "Hi", "client_metadata": metadata}, "openai_responses")
        changes: list[str] = []
        render_request(request, "gemini", changes=changes)
        found.append(changes)
    assert found[0] == found[1] != []


def test_parallel_calls_of_anthropic_are_a_part_of_the_choice() -> None:
    tools = [ToolDefinition(name="f")]
    body = render_request(HELLO, "anthropic", tools=tools, settings={"parallel_calls": False})
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    body = render_request(HELLO, "anthropic", tools=tools, tool_choice="none", settings={"parallel_calls": False})
    assert body["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in render_request(HELLO, "anthropic", settings={"parallel_calls": False})


# ---------------------------------------------------------------- conversation


def test_a_system_message_in_anthropics_messages_stays_in_its_place() -> None:
    body, _ = BODIES["anthropic"]
    written = render_request(parse_request(body, "anthropic"), "anthropic")
    assert [message["role"] for message in written["messages"]] == ["user", "system", "assistant", "user"]
    assert written["messages"][1] == body["messages"][1]
    assert written["system"] == body["system"]
    assert validate_request("anthropic", written) == []
    changes: list[str] = []
    moved = render_request(parse_request(body, "anthropic"), "bedrock_invoke", changes=changes)
    assert [message["role"] for message in moved["messages"]] == ["user", "assistant", "user"]
    assert "a system message from within the conversation was moved to the system text" in changes


def test_developer_messages_keep_their_role_where_there_is_one() -> None:
    body, _ = BODIES["openai_responses"]
    request = parse_request(body, "openai_responses")
    chat = render_request(request, "openai_chat")["messages"]
    assert [message["role"] for message in chat if message["role"] in ("system", "developer")] == [
        "system",
        "developer",
        "developer",
    ]
    other = render_request(request, "vllm")["messages"]
    assert {message["role"] for message in other} == {"system", "user", "assistant", "tool"}
    back = render_request(parse_request(BODIES["openai_chat"][0], "openai_chat"), "openai_responses")["input"]
    assert [item["role"] for item in back if "role" in item][:3] == ["developer", "user", "system"]


def test_cache_marks_of_tools_are_limited_with_all_others() -> None:
    body, _ = BODIES["anthropic"]
    marked = {**body, "tools": [{**entry, "cache_control": {"type": "ephemeral"}} for entry in body["tools"]]}
    written = render_request(parse_request(marked, "anthropic"), "anthropic")
    assert ["cache_control" in entry for entry in written["tools"]] == [False, True, True]
    converse = render_request(parse_request(body, "anthropic"), "bedrock_converse", changes=[])
    assert converse["toolConfig"]["tools"][2] == {"cachePoint": {"type": "default"}}


# ---------------------------------------------------------------- tools


def tools_of(target: str) -> tuple[list[Json], list[str]]:
    """Return the tools of Codex' request as a target gets them, and the changes."""
    changes: list[str] = []
    body = render_request(
        parse_request(BODIES["openai_responses"][0], "openai_responses"), target, unsupported="text", changes=changes
    )
    return body["tools"], changes


def test_namespaces_and_custom_tools_become_functions() -> None:
    tools, changes = tools_of("anthropic")
    assert [entry["name"] for entry in tools] == [
        "exec_command",
        "search",
        "github__exec_command",
        "apply_patch",
        "write_file",
    ]
    patch = tools[3]
    assert patch["description"] == (f"Patch files.\n\nThe text `input` follows this lark grammar:\n{GRAMMAR}")
    assert patch["input_schema"] == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }
    assert "the tool 'web_search' was left out: only openai_responses has it" in changes
    assert "the tool 'exec_command' of 'github' has the name 'github__exec_command' in this request" in changes


def test_custom_tools_stay_custom_where_there_are_such() -> None:
    tools, _ = tools_of("openai_chat")
    assert tools[3] == {
        "type": "custom",
        "custom": {
            "name": "apply_patch",
            "description": "Patch files.",
            "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": GRAMMAR}},
        },
    }
    made = ToolDefinition.custom("edit", "Edit.", Grammar(syntax="regex", definition=".*"))
    body = render_request(HELLO, "openai_responses", tools=[made], tool_choice="edit")
    assert body["tools"] == [
        {
            "type": "custom",
            "name": "edit",
            "description": "Edit.",
            "format": {"type": "grammar", "syntax": "regex", "definition": ".*"},
        }
    ]
    assert body["tool_choice"] == {"type": "custom", "name": "edit"}


def test_calls_and_results_have_the_names_of_the_tools() -> None:
    definitions = [
        ToolDefinition(name="run.it", metadata={"provider": "gemini"}),
        ToolDefinition(name="run:it", metadata={"provider": "gemini"}),
    ]
    messages: list[Json] = [
        {"role": "user", "parts": [{"text": "?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in ("run.it", "run:it")]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": name, "response": {}}} for name in ("run.it", "run:it")],
        },
    ]
    request = parse_request({"contents": messages}, "gemini")
    request = request.model_copy(update={"tools": definitions, "tool_choice": "run:it"})
    body = render_request(request, "openai_chat")
    offered = [entry["function"]["name"] for entry in body["tools"]]
    assert offered[0] == "run_it"
    assert offered[1].startswith("run_it_")
    assert [call["function"]["name"] for call in body["messages"][1]["tool_calls"]] == offered
    assert body["tool_choice"]["function"]["name"] == offered[1]
    gemini = render_request(request, "gemini")
    assert [entry["name"] for entry in gemini["tools"][0]["functionDeclarations"]] == ["run.it", "run:it"]


def test_a_choice_that_no_tool_fits_is_left_out() -> None:
    request = Request(contents=HELLO, tools=[ToolDefinition(name="f")], tool_choice="g")
    changes: list[str] = []
    assert "tool_choice" not in render_request(request, "openai_chat", changes=changes)
    assert changes == ["the tool choice 'g' was left out: no tool fits it"]
    assert "tool_choice" not in render_request(Request(contents=HELLO, tool_choice="required"), "openai_chat")


def test_a_strict_tool_that_the_target_cannot_take_is_not_strict() -> None:
    free = {"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": True}
    request = Request(contents=HELLO, tools=[ToolDefinition(name="f", parameters=free, strict=True)])
    changes: list[str] = []
    body = render_request(request, "openai_chat", changes=changes)
    assert body["tools"][0]["function"] == {"name": "f", "parameters": free}
    assert changes[0].startswith("tools are not strict in this request")


def test_encrypted_reasoning_is_requested_for_clients_of_other_wires() -> None:
    request = parse_request(BODIES["anthropic"][0], "anthropic")
    body = render_request(request, "openai_responses", settings={"model": "gpt-5"})
    assert (body["include"], body["store"]) == (["reasoning.encrypted_content"], False)
    plain = render_request(request, "openai_responses", settings={"model": "gpt-4.1"})
    assert not {"include", "store"} & plain.keys()
