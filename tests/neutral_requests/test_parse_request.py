"""Requests of clients are read without loss, and written again for the same provider."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from neutral_requests.client_bodies import BODIES, CHAT, CLAUDE_CODE, CODEX, GEMINI, GRAMMAR, SCHEMA, Json

from streamkit import OutputFormat, Request, ToolDefinition, UsageError, parse_request, render_request
from streamkit.history import OpaqueBlock, TextBlock, ToolCallBlock
from streamkit.providers import get
from streamkit.testing import validate_request
from streamkit.tools import Grammar, HostedTool


def parsed(provider: str, changes: list[str] | None = None) -> Request:
    body, options = BODIES[provider]
    return parse_request(body, provider, changes=changes, **options)


@pytest.mark.parametrize("provider", BODIES)
def test_a_request_that_is_written_for_its_provider_reads_the_same(provider: str) -> None:
    request, (_, options) = parsed(provider), BODIES[provider]
    changes: list[str] = []
    again = parse_request(render_request(request, provider, changes=changes), provider, **options)
    messages_field = get(provider).traits.messages_field
    left_out = request.unread.pop(messages_field, {})  # fields of single messages are no part of a body
    assert again == request
    assert changes == []
    assert left_out == {}


@pytest.mark.parametrize("provider", BODIES)
def test_the_body_is_not_modified_and_the_request_is_json(provider: str) -> None:
    body, options = BODIES[provider]
    before = copy.deepcopy(body)
    request = parse_request(body, provider, **options)
    assert Request.model_validate_json(request.model_dump_json()) == request
    render_request(request, provider)
    assert body == before


@pytest.mark.parametrize("provider", BODIES)
def test_what_is_written_for_the_same_provider_is_legal(provider: str) -> None:
    body = render_request(parsed(provider), provider)
    assert validate_request(provider, body, model=BODIES[provider][1].get("model", "")) == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every value that is no container, with its path, and every empty container."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if not items:
        yield path, value
        return
    for name, item in items:
        yield from leaves(item, (*path, name))


#: The differences that a body may have after it was read and written, each with the same meaning.
SAME_MEANING = {
    ("gemini", "systemInstruction.role"),  # the role of a system text means nothing
    ("openai_chat", "messages.1.name"),  # reported, and kept in ``unread``
}


@pytest.mark.parametrize("provider", BODIES)
def test_every_field_of_a_body_is_in_what_is_written(provider: str) -> None:
    body, _ = BODIES[provider]
    written = render_request(parsed(provider), provider)
    missing = []
    for path, value in leaves(body):
        found: Any = written
        for name in path:
            try:
                found = found[name]
            except (KeyError, IndexError, TypeError):
                found = None
                break
        label = ".".join(map(str, path))
        if found != value and (provider, label) not in SAME_MEANING:
            missing.append((label, value))
    if provider == "openai_responses":  # a message of one text is that text, and its type is the default
        texts = {"input.0.content.0.text": "Sandbox: none.", "input.8.content.0.text": "Hurry."}
        assert [written["input"][number]["content"] for number in (0, 8)] == list(texts.values())
        missing = [
            entry for entry in missing if not entry[0].startswith(("input.0.", "input.8.")) and entry[1] != "message"
        ]
    assert missing == []


def test_messages_api() -> None:
    request = parsed("anthropic")
    settings = request.settings
    assert (settings.model, settings.max_output_tokens) == ("claude-sonnet-4-5-20250929", 32000)
    assert (settings.temperature, settings.stop, settings.parallel_calls) == (1, ["STOP"], False)
    assert (settings.reasoning, settings.reasoning_budget, settings.reasoning_effort) == (None, 31999, "high")
    assert (request.tool_choice, request.stream, request.provider) == ("auto", True, "anthropic")
    bash, read, search = request.tools
    assert isinstance(bash, ToolDefinition)
    assert (bash.name, bash.description, bash.parameters) == ("Bash", "Run a command", SCHEMA)
    assert bash.metadata == {"provider": "anthropic", "fields": {"eager_input_streaming": True}}
    assert isinstance(read, ToolDefinition)
    assert read.metadata == {"provider": "anthropic", "cache": {}}
    assert search == HostedTool(provider="anthropic", raw=CLAUDE_CODE["tools"][2])
    assert request.unread == {
        name: CLAUDE_CODE[name] for name in ("context_management", "metadata", "service_tier")
    } | {"output_config": {"task_budget": {"total": 7}}}
    assert [content.speaker for content in request.contents] == ["system", "human", "system", "ai", "tool", "human"]
    assert [block.metadata for block in request.contents[0].blocks] == [{}, {"cache": {"ttl": "1h"}}]


def test_responses_api() -> None:
    request = parsed("openai_responses")
    settings = request.settings
    assert (settings.reasoning, settings.reasoning_effort, settings.reasoning_summary) == ("auto", "high", "auto")
    assert (settings.parallel_calls, settings.verbosity) == (False, "low")
    assert settings.output_format == OutputFormat(type="json_schema", json_schema=SCHEMA, name="answer", strict=True)
    run, search, shadowed, patch, web, write = request.tools
    assert isinstance(search, ToolDefinition)
    assert isinstance(patch, ToolDefinition)
    assert isinstance(write, ToolDefinition)
    assert isinstance(run, ToolDefinition)
    assert run.metadata == {"provider": "openai_responses", "fields": {"strict": False}}
    assert (search.namespace, search.namespace_description, search.strict) == ("github", "The forge.", True)
    assert (shadowed.namespace, shadowed.name) == ("github", "exec_command")  # type: ignore[union-attr]
    assert (patch.kind, patch.grammar) == ("custom", Grammar(syntax="lark", definition=GRAMMAR))
    assert web == HostedTool(provider="openai_responses", raw=CODEX["tools"][3])
    assert (write.namespace, write.kind, write.metadata["in_messages"]) == ("files", "custom", True)
    assert list(request.unread) == ["reasoning", "include", "store", "prompt_cache_key", "metadata"]
    assert request.unread["reasoning"] == {"context": "all_turns"}
    instructions, developer, definition = request.contents[:3]
    assert instructions.metadata == {"role": "instructions"}
    assert developer.metadata == {"role": "developer"}
    assert isinstance(definition.blocks[0], OpaqueBlock)
    calls = [block for content in request.contents for block in content.blocks if isinstance(block, ToolCallBlock)]
    assert [(call.name, call.kind, call.metadata.get("namespace")) for call in calls] == [
        ("search", "function", "github"),
        ("apply_patch", "custom", None),
    ]


def test_an_input_that_is_text_is_a_persons_message() -> None:
    request = parse_request({"model": "gpt-4.1", "input": "Hi"}, "openai_responses")
    assert [block.text for block in request.contents[0].blocks if isinstance(block, TextBlock)] == ["Hi"]
    assert (request.stream, request.unread) == (False, {})


def test_generate_content_in_either_spelling() -> None:
    request = parsed("gemini")
    assert (request.settings.model, request.stream) == ("gemini-2.5-pro", True)
    assert (request.tool_choice, request.settings.reasoning_budget) == ("run.shell", 1024)
    read = request.tools[1]
    assert isinstance(read, ToolDefinition)
    assert read.parameters == {
        "type": "object",
        "properties": {"the_path": {"type": ["string", "null"]}},
    }
    config = GEMINI["generationConfig"]
    snake: Json = {
        "system_instruction": GEMINI["systemInstruction"],
        "contents": GEMINI["contents"],
        "tools": [
            {
                "function_declarations": [
                    {"name": "run.shell", "description": "Run", "parameters_json_schema": SCHEMA},
                    GEMINI["tools"][0]["functionDeclarations"][1],
                ]
            },
            {"google_search": {}},
        ],
        "tool_config": {
            "function_calling_config": {"mode": "ANY", "allowed_function_names": ["run.shell"]},
        },
        "generation_config": {
            "max_output_tokens": 500,
            "thinking_config": {"thinking_budget": 1024, "include_thoughts": True},
            **{name: value for name, value in config.items() if name not in ("maxOutputTokens", "thinkingConfig")},
        },
        "safety_settings": GEMINI["safetySettings"],
    }
    assert parse_request(snake, "gemini", model="gemini-2.5-pro", stream=True) == request


@pytest.mark.parametrize(
    ("provider", "fields", "expected"),
    [
        ("openai_chat", {"tool_choice": "required"}, ("required", {})),
        ("openai_chat", {"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, ("f", {})),
        (
            "openai_chat",
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
            (None, {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}),
        ),
        ("mistral", {"tool_choice": "any"}, ("required", {})),
        ("openai_responses", {"tool_choice": {"type": "web_search"}}, (None, {"tool_choice": {"type": "web_search"}})),
        ("openai_responses", {"tool_choice": {"type": "custom", "name": "f"}}, ("f", {})),
        ("anthropic", {"tool_choice": {"type": "any"}}, ("required", {})),
        ("anthropic", {"tool_choice": {"type": "tool", "name": "f"}}, ("f", {})),
        ("anthropic", {"tool_choice": {"type": "new"}}, (None, {"tool_choice": {"type": "new"}})),
        (
            "gemini",
            {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}},
            (None, {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}),
        ),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, ("none", {})),
        ("cohere", {"tool_choice": "NONE"}, ("none", {})),
        ("bedrock_converse", {"toolConfig": {"toolChoice": {"tool": {"name": "f"}}}}, ("f", {})),
        ("ollama", {"tool_choice": "auto"}, (None, {"tool_choice": "auto"})),
    ],
)
def test_tool_choices(provider: str, fields: Json, expected: tuple[str | None, Json]) -> None:
    request = parse_request(fields, provider)
    assert (request.tool_choice, request.unread) == expected


@pytest.mark.parametrize(
    ("provider", "fields", "expected"),
    [
        ("openai_chat", {"max_tokens": 5}, {"max_output_tokens": 5}),
        ("vllm", {"max_completion_tokens": 5}, {"max_output_tokens": 5}),
        ("openai_chat", {"stop": "x"}, {"stop": ["x"]}),
        ("openai_chat", {"reasoning_effort": "none"}, {"reasoning": "off"}),
        ("openai_chat", {"reasoning_effort": "low"}, {"reasoning": "auto", "reasoning_effort": "low"}),
        ("openai_chat", {"temperature": None}, {}),
        (
            "openrouter",
            {"reasoning": {"max_tokens": 9, "exclude": True}},
            {"reasoning_budget": 9, "reasoning_summary": "none"},
        ),
        ("deepseek", {"thinking": {"type": "disabled"}}, {"reasoning": "off"}),
        (
            "qwen",
            {"enable_thinking": True, "thinking_budget": 9},
            {"reasoning": "auto", "reasoning_budget": 9},
        ),
        ("mistral", {"random_seed": 3}, {"seed": 3}),
        (
            "openai_chat",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
            {"output_format": OutputFormat(type="json_schema", json_schema=SCHEMA, name="a")},
        ),
        ("anthropic", {"thinking": {"type": "adaptive"}}, {"reasoning": "auto"}),
        (
            "anthropic",
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            {"reasoning": "auto", "reasoning_summary": "none"},
        ),
        (
            "anthropic",  # Claude Code 2.1.330, with the beta thinking-display-updates-2026-08-18
            {"thinking": {"type": "adaptive", "display": "updates"}},
            {"reasoning": "auto", "reasoning_summary": "updates"},
        ),
        (
            "anthropic",
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {"output_format": OutputFormat(type="json_schema", json_schema=SCHEMA, strict=True)},
        ),
        (  # LiteLLM sends the form of the beta structured-outputs-2025-11-13
            "anthropic",
            {"output_format": {"type": "json_schema", "schema": SCHEMA}},
            {"output_format": OutputFormat(type="json_schema", json_schema=SCHEMA, strict=True)},
        ),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, {"reasoning": "off"}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}, {"reasoning": "auto"}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}}, {"reasoning_effort": "low"}),
        ("ollama", {"think": "high"}, {"reasoning": "auto", "reasoning_effort": "high"}),
        ("ollama", {"format": "json"}, {"output_format": OutputFormat(type="json")}),
        ("cohere", {"thinking": {"type": "disabled"}}, {"reasoning": "off"}),
        ("bedrock_converse", {"outputConfig": {"effort": "low"}}, {"reasoning_effort": "low"}),
    ],
)
def test_settings_have_neutral_names(provider: str, fields: Json, expected: Json) -> None:
    request = parse_request(fields, provider)
    assert request.settings.values == expected
    assert request.unread == {}


@pytest.mark.parametrize(
    ("provider", "fields"),
    [
        ("openai_chat", {"temperature": "hot"}),
        ("openai_chat", {"stop": [1]}),
        ("openai_chat", {"tools": "all"}),
        ("openai_chat", {"response_format": {"type": "grammar", "grammar": "x"}}),
        ("openai_chat", {"functions": [{"name": "f"}]}),
        ("openai_chat", {"stream_options": {"include_usage": True, "include_obfuscation": False}}),
        ("anthropic", {"thinking": {"type": "enabled"}}),
        ("anthropic", {"thinking": {"type": "between"}}),
        ("gemini", {"generationConfig": {"candidateCount": 2}}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}}}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
        ("bedrock_converse", {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {}}}}),
        ("openai_responses", {"previous_response_id": "resp_1", "text": {"format": {"type": "new"}}}),
    ],
)
def test_what_has_no_neutral_name_stays_as_it_was(provider: str, fields: Json) -> None:
    request = parse_request(fields, provider)
    assert request.unread == fields
    written = render_request(request, provider)
    assert {name: written[name] for name in fields} == fields


@pytest.mark.parametrize("order", [["c", "b"], ["c", "x", "c", 3, "b", "a"], "c", None])
def test_the_property_ordering_of_gemini_is_the_order_of_the_properties(order: Any) -> None:
    inner = {"type": "OBJECT", "propertyOrdering": order, "properties": {name: {"type": "STRING"} for name in "abc"}}
    config = {"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY", "items": inner}}
    request = parse_request({"generationConfig": config}, "gemini")
    assert request.settings.output_format is not None
    assert request.settings.output_format.json_schema is not None
    items = request.settings.output_format.json_schema["items"]
    expected = {2: "cba", 6: "cba"}.get(len(order) if isinstance(order, list) else 0, "abc")
    assert "".join(items["properties"]) == expected
    assert "propertyOrdering" not in items


@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}, {}])
def test_stream_options_about_usage_alone_are_read(options: Json) -> None:
    """They concern the stream of this response only, so another provider lacks nothing."""
    request = parse_request({"model": "m", "stream": True, "stream_options": options}, "openai_chat")
    assert request.unread == {}
    assert render_request(request, "openai_chat")["stream_options"] == {"include_usage": True}


def test_only_the_callers_mistakes_raise() -> None:
    with pytest.raises(UsageError, match="must be a dict, not list"):
        parse_request([], "openai_chat")
    with pytest.raises(UsageError, match="look like messages of 'anthropic'"):
        parse_request(CLAUDE_CODE, "openai_chat")
    with pytest.raises(UsageError, match="messages must be a list of dicts"):
        parse_request({"messages": 3}, "openai_chat")
    with pytest.raises(UsageError, match=r"settings are invalid .*temprature"):
        render_request(parsed("openai_chat"), "openai_chat", settings={"temprature": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
FIELDS = sorted({name for body, _ in BODIES.values() for name in body} - {"messages", "contents", "input"})


@given(provider=st.sampled_from(sorted(BODIES)), body=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_no_value_of_a_field_raises(provider: str, body: Json) -> None:
    request = parse_request(body, provider, model="gpt-5")
    for target in ("anthropic", "openai_chat", "gemini"):
        render_request(request, target)


@pytest.mark.parametrize(
    ("provider", "body", "field"),
    [
        ("openai_responses", {"input": [{"role": "user", "content": [5]}]}, "input"),
        ("openai_responses", {"input": [{"role": "user", "content": [None]}]}, "input"),
        ("openai_responses", {"input": [{"role": "user", "content": [["a"]]}]}, "input"),
        (
            "bedrock_converse",
            {"messages": [{"role": "user", "content": [{"text": "a"}]}], "system": [{"text": 5}]},
            "system",
        ),
    ],
)
def test_a_part_of_another_type_goes_back_to_its_provider(provider: str, body: Json, field: str) -> None:
    """The provider refuses it in its own words; the gateway must not fail first."""
    assert render_request(parse_request(body, provider), provider, model="m")[field] == body[field]


@pytest.mark.parametrize("kind", [["image"], {"a": 1}, 5, None])
def test_a_part_of_a_result_may_have_any_type(kind: Any) -> None:
    content = [{"type": kind, "source": {}}, {"type": "text", "text": "a"}]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    call = {"type": "tool_use", "id": "toolu_1", "name": "w", "input": {}}
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    (_, answered) = parse_request({"messages": messages}, "anthropic").contents
    assert answered.blocks[0].result == content  # type: ignore[union-attr]


@pytest.mark.parametrize("half", ["\ud83d", "a\udc4b", "\ud83d b"])
def test_half_a_surrogate_pair_in_arguments_does_not_raise(half: str) -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "w", "arguments": text}}
        for text in (f'{{"a":"{half}"}}', half)
    ]
    (said,) = parse_request({"messages": [{"role": "assistant", "tool_calls": calls}]}, "openai_chat").contents
    whole = half.replace("\ud83d", "\ufffd").replace("\udc4b", "\ufffd")
    first, second = (block for block in said.blocks if isinstance(block, ToolCallBlock))
    assert (first.parameters, second.parameters) == ({"a": whole}, {})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a body."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield from places(item, (*path, name))


PLACES = [(provider, path) for provider, (body, _) in sorted(BODIES.items()) for path in places(body) if path]


@given(
    place=st.sampled_from(PLACES), value=st.sampled_from([None, 5, True, "x", [], {}, [None], [5], [[]], {"type": "x"}])
)
def test_no_value_in_a_body_raises_anything_but_a_usage_error(place: tuple[str, tuple[Any, ...]], value: Any) -> None:
    provider, (*inner, last) = place
    body, options = BODIES[provider]
    body = changed = copy.deepcopy(body)
    for name in inner:
        changed = changed[name]
    changed[last] = value
    with suppress(UsageError):
        request = parse_request(body, provider, **options)
        for target in {provider, "anthropic", "openai_chat", "gemini"}:
            render_request(request, target, model="m", unsupported="text")


def test_a_name_that_two_wires_share_is_read_by_its_own() -> None:
    request = parse_request({**CHAT, "max_tokens": 7}, "openai_chat")
    assert request.settings.max_output_tokens == 900  # the newer name; the other one stays
    assert request.unread["max_tokens"] == 7


OUTPUTS = [
    {"type": "function_call_output", "call_id": "call_1", "output": "4 degrees"},
    {"type": "custom_tool_call_output", "call_id": "call_1", "output": "4 degrees"},
    {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "no such file"},
    {"type": "local_shell_call_output", "id": "call_1", "output": "a.txt"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "shell_call_output", "call_id": "call_1", "output": []},
    {"type": "tool_search_output", "call_id": "call_1", "execution": "client", "status": "completed", "tools": []},
    {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": {"type": "computer_screenshot", "file_id": "file_1"},
        "acknowledged_safety_checks": [{"id": "sc_1"}],
    },
]


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda item: item["type"])
@pytest.mark.parametrize(
    ("fields", "items"),
    [
        ({"previous_response_id": "resp_1"}, []),
        ({"conversation": {"id": "conv_1"}}, []),
        ({}, [{"type": "item_reference", "id": "fc_1"}]),
        ({}, [{"id": "fc_1"}]),
    ],
)
def test_a_result_of_a_call_that_the_provider_stores_goes_back_to_it(
    fields: Json, items: list[Json], output: Json
) -> None:
    body = {"model": "gpt-5", "input": [*items, output], **fields}
    changes: list[str] = []
    assert render_request(parse_request(body, "openai_responses"), "openai_responses", changes=changes) == body
    assert changes == []


MARK = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
PICTURE = "https://a.example/a.png"
MARKED = {
    "openai_responses": {
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "Be brief.", **MARK}]},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look.", **MARK},
                    {"type": "input_image", "image_url": PICTURE, "detail": "auto", **MARK},
                    {"type": "input_file", "file_url": "https://a.example/a.pdf", **MARK},
                    {"type": "input_image", "file_id": "file_1", "detail": "auto", **MARK},
                ],
            },
        ]
    },
    "openai_chat": {
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief.", **MARK}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look.", **MARK},
                    {"type": "image_url", "image_url": {"url": PICTURE}, **MARK},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "A boat.", **MARK}]},
            {"role": "user", "content": "And?"},
        ]
    },
}


@pytest.mark.parametrize("provider", MARKED)
def test_explicit_cache_marks_of_openai_go_back_to_it_alone(provider: str) -> None:
    body = {"model": "gpt-5.6", "prompt_cache_options": {"mode": "explicit", "ttl": "12h"}, **MARKED[provider]}
    changes: list[str] = []
    request = parse_request({**body, "stream": False}, provider)
    assert render_request(request, provider, changes=changes) == body
    assert changes == []
    for other in ("anthropic", "openai_chat", "openai_responses", "openrouter"):
        if other != provider:
            written = render_request(request, other, unsupported="drop")
            assert "breakpoint" not in str(written)
            assert "cache_control" not in str(written)
