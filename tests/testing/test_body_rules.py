"""The whole body of a request: what clients send is accepted, and wrong requests are refused in the vendor's words."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_table.request_types import DATA, build_types, types_text
from request_table.sdk_types import versions
from request_table.wires import BASES, WIRES, rows_of
from smallest_requests import smallest_request
from waiting import PATIENCE

from streamkit import providers
from streamkit.testing import list_rules, serve, validate_request

WRITE = "write it anew (cd tests && python -m request_table), and read the difference"
PATHS = {
    "anthropic": "/v1/messages",
    "bedrock_converse": "/model/m/converse-stream",
    "bedrock_invoke": "/model/m/invoke-with-response-stream",
    "cohere": "/v2/chat",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
    "openai_responses": "/responses",
}
#: Of wires whose path decides whether the response is streamed.
BODY_PATHS = {
    "bedrock_converse": "/model/m/converse",
    "bedrock_invoke": "/model/m/invoke",
    "gemini": "/v1beta/models/m:generateContent",
}
GONE = object()
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
DANGLING: Any = {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}}
TEXT_SCHEMA: Any = {"type": "string"}


def body_of(name: str) -> dict[str, Any]:
    """Return a legal request with a tool, of the table of requests."""
    like = {"azure_openai": "openai_chat", "bedrock_invoke": "anthropic"}.get(name, name)
    return {**smallest_request(name), **copy.deepcopy({key: BASES[like][key] for key in BASES[like] if key != "model"})}


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a body with the value at a path; ``+`` appends to a list, and GONE takes the value away."""
    body = copy.deepcopy(body)
    holder: Any = body
    *keys, last = path.split(".")
    for key in keys:
        holder = holder[int(key)] if isinstance(holder, list) else holder.setdefault(key, {})
    if value is GONE:
        del holder[last]
    elif last == "+":
        holder.append(value)
    else:
        holder[int(last) if isinstance(holder, list) else last] = value
    return body


CHAT_TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "QUJD"}}
#: The wire, what is wrong, the rule, what the server's message contains in the vendor's words, and the change.
WRONG: list[tuple[str, str, str, str, Any]] = [
    ("openai_chat", "model", "fields_present", "Missing required parameter: 'model'.", GONE),
    ("openai_chat", "messages", "fields_present", "Missing required parameter: 'messages'.", GONE),
    ("openai_chat", "messages", "limit messages", "Invalid 'messages': too short.", []),
    ("openai_chat", "messages.0.content", "field_types", "Invalid type for 'messages[0].content'", 5),
    ("openai_chat", "messages.0.role", "values_allowed", 'Invalid value: "robot".', "robot"),
    ("openai_chat", "top_k", "fields_known", "Unrecognized request argument supplied: top_k", 5),
    ("openai_chat", "temperature", "limit temperature", "Expected a value <= 2, but got 3 instead.", 3),
    ("openai_chat", "temperature", "field_types", "expected a decimal, but got string instead.", "warm"),
    ("openai_chat", "max_tokens", "limit max_tokens", "Expected a value >= 1, but got 0 instead.", 0),
    ("openai_chat", "max_tokens", "field_types", "expected an integer, but got string instead.", "100"),
    ("openai_chat", "n", "limit n", "Expected a value <= 128", 129),
    ("openai_chat", "tools.0.function.name", "fields_present", "'tools[0].function.name'.", GONE),
    ("openai_chat", "tools.0.function.name", "limit tools.*.function.name", "does not match pattern", "look up"),
    ("openai_chat", "tools.0.function.name", "limit tools.*.function.name", "too long", "a" * 65),
    ("openai_chat", "tools.0.function.parameters", "schema_is_object", "got 'type: \"string\"'.", TEXT_SCHEMA),
    ("openai_chat", "tools.0.function.parameters", "field_types", "expected an object, but got array", []),
    ("openai_chat", "tools.0.type", "values_allowed", 'Invalid value: "tool".', "tool"),
    ("openai_chat", "tools", "limit tools", "Expected a maximum length of 128", [CHAT_TOOL] * 129),
    ("openai_chat", "tool_choice", "tool_choice_known", '"other"', {"type": "function", "function": {"name": "other"}}),
    ("openai_chat", "stream", "field_types", "expected a boolean, but got string instead.", "yes"),
    ("openai_chat", "reasoning_effort", "values_allowed", "Supported values are: ", "huge"),
    ("openai_chat", "response_format", "values_allowed", 'Invalid value: "xml".', {"type": "xml"}),
    ("openai_responses", "input", "field_types", "expected a string or an array", 5),
    ("openai_responses", "input.0.content", "field_types", "Invalid type for 'input[0].content'", 5),
    ("openai_responses", "input.0.role", "values_allowed", 'Invalid value: "robot".', "robot"),
    ("openai_responses", "input.+", "values_allowed", 'Invalid value: "song".', {"type": "song"}),
    ("openai_responses", "messages", "fields_known", "Unknown parameter: 'messages'.", []),
    ("openai_responses", "input.0.phrase", "fields_known", "Unknown parameter: 'input[0].phrase'.", "x"),
    ("openai_responses", "model", "field_types", "Invalid type for 'model': expected a string", 5),
    ("openai_responses", "temperature", "limit temperature", "Expected a value <= 2, but got 3 instead.", 3),
    ("openai_responses", "temperature", "field_types", "expected a decimal, but got string instead.", "warm"),
    ("openai_responses", "top_p", "limit top_p", "Expected a value >= 0, but got -1 instead.", -1),
    ("openai_responses", "max_output_tokens", "limit max_output_tokens", "Expected a value >= 16, but got 0", 0),
    ("openai_responses", "max_output_tokens", "field_types", "expected an integer, but got string", "100"),
    ("openai_responses", "tools.0.name", "fields_present", "Missing required parameter: 'tools[0].name'.", GONE),
    ("openai_responses", "tools.0.name", "limit tools.*.name", "does not match pattern", "look up"),
    ("openai_responses", "tools.0.parameters", "schema_is_object", "got 'type: \"string\"'.", TEXT_SCHEMA),
    ("openai_responses", "tools.0.parameters", "field_types", "expected an object, but got array", []),
    ("openai_responses", "tools.0.type", "values_allowed", 'Invalid value: "tool".', "tool"),
    ("openai_responses", "tool_choice", "tool_choice_known", '"other"', {"type": "function", "name": "other"}),
    ("openai_responses", "truncation", "values_allowed", "Supported values are: ", "some"),
    ("openai_responses", "reasoning.effort", "values_allowed", "Supported values are: ", "huge"),
    ("anthropic", "model", "fields_present", "model: Field required", GONE),
    ("anthropic", "messages", "fields_present", "messages: Field required", GONE),
    ("anthropic", "max_tokens", "fields_present", "max_tokens: Field required", GONE),
    ("anthropic", "messages", "limit messages", "messages: at least 1 is required", []),
    ("anthropic", "messages.0.content", "field_types", "messages.0.content: Input should be a valid string", 5),
    ("anthropic", "messages.0.role", "values_allowed", "messages.0.role: Input should be 'user'", "robot"),
    ("anthropic", "top_q", "fields_known", "top_q: Extra inputs are not permitted", 1),
    ("anthropic", "temperature", "limit temperature", "temperature: Input should be less than or equal to 1", 1.5),
    ("anthropic", "max_tokens", "limit max_tokens", "max_tokens: Input should be greater than or equal to 1", 0),
    ("anthropic", "max_tokens", "field_types", "max_tokens: Input should be a valid integer", "100"),
    ("anthropic", "tools.0.name", "fields_present", "tools.0.name: Field required", GONE),
    ("anthropic", "tools.0.name", "limit tools.*.name", "tools.0.name: String should match pattern", "look up"),
    (
        "anthropic",
        "tools.+",
        "tool_names_unique",
        "tools: Tool names must be unique.",
        {"name": "look", "input_schema": SCHEMA},
    ),
    ("anthropic", "tools.0.input_schema", "schema_is_object", ".type: Input should be 'object'", TEXT_SCHEMA),
    ("anthropic", "tools.0.input_schema", "refs_resolve", 'PointerToNowhere "#/$defs/City"', DANGLING),
    ("anthropic", "tool_choice", "tool_choice_known", '"other"', {"type": "tool", "name": "other"}),
    ("anthropic", "messages.0.content", "values_allowed", "messages.0.content.0.source.media_type: ", [IMAGE]),
    (
        "anthropic",
        "messages.0.content",
        "values_allowed",
        "messages.0.content.0.type: Input should be ",
        [{"type": "song"}],
    ),
    ("anthropic", "thinking", "limit thinking.budget_tokens", "1024", {"type": "enabled", "budget_tokens": 10}),
    ("anthropic", "stop_sequences", "field_types", "stop_sequences: Input should be a valid list", "END"),
    ("anthropic", "output_format", "fields_present", "output_format.schema: Field required", {"type": "json_schema"}),
    ("bedrock_invoke", "anthropic_version", "fields_present", "anthropic_version: Field required", GONE),
    ("bedrock_invoke", "output_format", "fields_known", "output_format: Extra inputs", {"type": "json_schema"}),
    ("gemini", "contents", "fields_present", "contents is not specified", GONE),
    ("gemini", "contents", "limit contents", "contents is not specified", []),
    ("gemini", "contents", "field_types", "Invalid value at 'contents'", "Hi"),
    ("gemini", "contents.0.parts", "field_types", "Invalid value at 'contents[0].parts'", 5),
    ("gemini", "contents.0.role", "form", '"robot"', "robot"),
    ("gemini", "messages", "fields_known", 'Unknown name "messages"', []),
    ("gemini", "contents.0.parts.0.txt", "fields_known", "Unknown name \"txt\" at 'contents[0].parts[0]'", "x"),
    ("gemini", "generationConfig.topk", "fields_known", "Unknown name \"topk\" at 'generationConfig'", 1),
    ("gemini", "generationConfig.temperature", "limit generationConfig.temperature", "at most 2", 3),
    ("gemini", "generationConfig.temperature", "field_types", '(TYPE_FLOAT), "warm"', "warm"),
    ("gemini", "generationConfig.maxOutputTokens", "limit generationConfig.maxOutputTokens", "at least 1", 0),
    ("gemini", "generationConfig.maxOutputTokens", "field_types", '(TYPE_INT32), "many"', "many"),
    ("gemini", "generationConfig.candidateCount", "limit generationConfig.candidateCount", "at most 8", 9),
    (
        "gemini",
        "generationConfig.stopSequences",
        "limit generationConfig.stopSequences",
        "maximum is 5",
        list("abcdef"),
    ),
    (
        "gemini",
        "tools.0.functionDeclarations.0.name",
        "limit tools.*.functionDeclarations.*.name",
        "Invalid function name.",
        "look up",
    ),
    ("gemini", "tools.0.functionDeclarations.0.parametersJsonSchema", "refs_resolve", "undefined schema", DANGLING),
    ("gemini", "tools.0.functionDeclarations.0.parameters", "fields_known", 'Unknown name "$schema"', {"$schema": "x"}),
    ("gemini", "toolConfig.functionCallingConfig.allowedFunctionNames", "tool_choice_known", '"other"', ["other"]),
    ("gemini", "toolConfig.functionCallingConfig.mode", "values_allowed", "functionCallingConfig.mode'", "SOME"),
    ("gemini", "safetySettings", "field_types", "Invalid value at 'safetySettings'", "none"),
    (
        "bedrock_converse",
        "messages",
        "fields_present",
        "'messages' failed to satisfy constraint: Member must not be null",
        GONE,
    ),
    ("bedrock_converse", "messages", "limit messages", "length greater than or equal to 1", []),
    ("bedrock_converse", "messages.0.content", "field_types", "value at messages.0.content is invalid", "Hi"),
    ("bedrock_converse", "messages.0.content", "fields_present", "'messages.0.content' failed", GONE),
    ("bedrock_converse", "messages.0.role", "values_allowed", "Member must satisfy enum value set: ['user'", "robot"),
    ("bedrock_converse", "inferenceConfig.temperature", "limits_of_types", "value less than or equal to 1", 1.5),
    ("bedrock_converse", "inferenceConfig.temperature", "field_types", "json number", "warm"),
    ("bedrock_converse", "inferenceConfig.topP", "limits_of_types", "value greater than or equal to 0", -1),
    ("bedrock_converse", "inferenceConfig.maxTokens", "limits_of_types", "value greater than or equal to 1", 0),
    ("bedrock_converse", "inferenceConfig.maxTokens", "field_types", "json integer", "100"),
    ("bedrock_converse", "toolConfig.tools.0.toolSpec.name", "fields_present", "toolSpec.name' failed", GONE),
    (
        "bedrock_converse",
        "toolConfig.tools.0.toolSpec.name",
        "limits_of_types",
        "regular expression pattern: [a-zA-Z0-9_-]+",
        "look up",
    ),
    (
        "bedrock_converse",
        "toolConfig.tools.0.toolSpec.name",
        "limits_of_types",
        "length less than or equal to 64",
        "a" * 65,
    ),
    ("bedrock_converse", "toolConfig.tools.0.toolSpec.inputSchema", "fields_present", "inputSchema' failed", GONE),
    (
        "bedrock_converse",
        "toolConfig.tools.0.toolSpec.inputSchema.json",
        "schema_is_object",
        "must be one of the following: object.",
        TEXT_SCHEMA,
    ),
    ("bedrock_converse", "toolConfig.tools", "limits_of_types", "length greater than or equal to 1", []),
    ("bedrock_converse", "toolConfig.toolChoice", "tools_defined", '"other"', {"tool": {"name": "other"}}),
    (
        "bedrock_converse",
        "messages.0.content",
        "values_allowed",
        "image.format' failed",
        [{"image": {"format": "tiff", "source": {"bytes": "QUJD"}}}],
    ),
    ("bedrock_converse", "system", "field_types", "value at system is invalid", "Be brief."),
    ("cohere", "model", "fields_present", "model is required", GONE),
    ("cohere", "messages", "fields_present", "messages is required", GONE),
    ("cohere", "messages", "limit messages", "at least 1 elements", []),
    ("cohere", "messages.0.content", "field_types", "parameter 'messages.0.content' is of type number", 5),
    ("cohere", "messages.0.role", "values_allowed", "messages.0.role must be one of 'user'", "robot"),
    ("cohere", "top_k", "fields_known", "unknown field: parameter 'top_k' is not a valid field.", 5),
    (
        "cohere",
        "tools.0.function.strict",
        "fields_known",
        "unknown field: parameter 'strict' is not a valid field.",
        True,
    ),
    ("cohere", "temperature", "limit temperature", "temperature must be at least 0", -1),
    ("cohere", "temperature", "field_types", "parameter 'temperature' is of type string", "warm"),
    ("cohere", "max_tokens", "field_types", "should be of type integer", "100"),
    ("cohere", "p", "limit p", "p must be at most 0.99", 1),
    ("cohere", "k", "limit k", "k must be at most 500", 501),
    ("cohere", "frequency_penalty", "limit frequency_penalty", "must be at most 1", 2),
    ("cohere", "stop_sequences", "limit stop_sequences", "at most 5 elements", list("abcdef")),
    ("cohere", "tools.0.function.name", "fields_present", "tools.0.function.name is required", GONE),
    ("cohere", "tools", "field_types", "should be of type []Object", "look"),
    ("cohere", "tool_choice", "values_allowed", "'REQUIRED', 'NONE'", "auto"),
    ("cohere", "safety_mode", "values_allowed", "safety_mode must be one of", "LOOSE"),
    ("cohere", "response_format", "values_allowed", "response_format.type must be one of", {"type": "xml"}),
    ("ollama", "model", "fields_present", "model is required", GONE),
    (
        "ollama",
        "model",
        "field_types",
        "cannot unmarshal number into Go struct field ChatRequest.model of type string",
        5,
    ),
    ("ollama", "messages", "field_types", "cannot unmarshal string into", "Hi"),
    ("ollama", "messages.0", "field_types", "cannot unmarshal string into", "Hi"),
    ("ollama", "messages.0.role", "field_types", "ChatRequest.messages.0.role of type string", 5),
    ("ollama", "messages.0.content", "field_types", "cannot unmarshal number into", 5),
    ("ollama", "messages.0.content", "field_types", "cannot unmarshal array into", [{"type": "text", "text": "Hi"}]),
    ("ollama", "messages.0.images", "field_types", "ChatRequest.messages.0.images of type []", "QUJD"),
    ("ollama", "messages.0.tool_calls", "field_types", "ChatRequest.messages.0.tool_calls of type []", {}),
    ("ollama", "tools", "field_types", "ChatRequest.tools of type []", {}),
    ("ollama", "tools.0", "field_types", "ChatRequest.tools.0 of type map", "look"),
    ("ollama", "tools.0.function", "field_types", "ChatRequest.tools.0.function of type map", "look"),
    ("ollama", "tools.0.function.name", "field_types", "ChatRequest.tools.0.function.name of type string", 5),
    ("ollama", "options", "field_types", "ChatRequest.options of type map", []),
    ("ollama", "options.temperature", "field_types", "ChatRequest.options.temperature of type float32", "warm"),
    ("ollama", "options.num_predict", "field_types", "ChatRequest.options.num_predict of type int", "100"),
    ("ollama", "stream", "field_types", "ChatRequest.stream of type bool", "yes"),
]
STATUSES = {("cohere", "fields_known"): 422, ("cohere", "field_types"): 422}
#: Samples of the table of requests that are no requests, because the table cuts off what is required deeper in them, or
#: has a value that is none of this field: a status "error", a service tier of another vendor, a text for an object.
CUT_SAMPLES: dict[str, set[str]] = {
    "openai_chat": {
        "logit_bias",
        "messages[tool].content[text]",
        "messages[tool].content[text].prompt_cache_breakpoint",
        "messages[tool].content[text].prompt_cache_breakpoint.ttl",
    },
    "openai_responses": {
        "max_output_tokens",
        "input[file_search_call]",
        "input[computer_call]",
        "input[web_search_call]",
        "input[reasoning]",
        "input[image_generation_call]",
        "input[code_interpreter_call]",
        "input[local_shell_call]",
        "input[apply_patch_call]",
        "input[apply_patch_call_output]",
        "input[program_output]",
        "tools[function]",
    },
    "anthropic": {
        "service_tier",
        "messages[user].content[text].citations",
        "messages[user].content[search_result]",
        "messages[user].content[search_result].cache_control",
        "messages[user].content[search_result].cache_control.ttl",
        "messages[user].content[search_result].citations.enabled",
        "messages[user].content[mcp_tool_listing]",
        "messages[assistant].content[text].citations",
        "messages[assistant].content[web_search_tool_result].cache_control",
        "messages[assistant].content[web_search_tool_result].cache_control.ttl",
        "messages[assistant].content[web_fetch_tool_result].content[web_fetch_result]",
        "messages[assistant].content[code_execution_tool_result].content[code_execution_result]",
        "messages[assistant].content[code_execution_tool_result].content[encrypted_code_execution_result]",
        "messages[assistant].content[bash_code_execution_tool_result].content[bash_code_execution_result]",
        "messages[assistant].content[tool_search_tool_result].content[tool_search_tool_search_result]",
        "messages[assistant].content[compaction].tool_changes",
        "messages[system].content[text].citations",
        "messages[system].content[tool_addition].tool[tool_definition]",
    },
    "gemini": {
        "systemInstruction",
        "generationConfig.responseModalities",
        "generationConfig.speechConfig",
    },
    "bedrock_converse": {
        "guardrailConfig.guardrailVersion",
        "promptVariables",
    },
    "cohere": {
        "messages[assistant].citations",
        "messages[tool].content[text]",
        "messages[tool].content[document]",
        "messages[tool].content[document].document.id",
    },
}


@pytest.fixture(scope="module")
def post() -> Any:
    with serve(lambda _: "fine") as server, httpx.Client(timeout=PATIENCE) as client:

        def send(name: str, body: dict[str, Any], *, stream: bool = True) -> httpx.Response:
            path = PATHS.get(name, "/chat/completions")
            if not stream and name in BODY_PATHS:
                path = BODY_PATHS[name]
            elif not stream:
                body = {**body, "stream": False}
            return client.post(server.base_url(name) + path, json=body)

        yield send


@pytest.mark.parametrize(
    ("name", "path", "rule", "words", "value"),
    WRONG,
    ids=[f"{name}-{path}-{rule}-{number}" for number, (name, path, rule, *_) in enumerate(WRONG)],
)
def test_a_wrong_request_is_refused_in_the_vendors_words(
    name: str, path: str, rule: str, words: str, value: Any, post: Any
) -> None:
    body = changed(body_of(name), path, value)
    violations = validate_request(name, body, model="m", complete=True)
    assert rule in {each.rule for each in violations}
    refusal = next(each for each in violations if each.rule == rule)
    assert words in refusal.message
    assert refusal.status == STATUSES.get((name, rule), 400)
    if path != "stream":  # the server reads it first
        first = violations[0]
        for stream in (True, False):
            response = post(name, body, stream=stream)
            assert response.status_code == first.status
            assert response.json() == providers.get(name).error_body(first.status, first.message, first.code)


@pytest.mark.parametrize("name", WIRES)
def test_sixteen_wrong_requests_of_each_wire_are_refused(name: str) -> None:
    assert sum(each[0] == name for each in WRONG) >= 16


@pytest.mark.parametrize("name", [*WIRES, "azure_openai", "bedrock_invoke"])
def test_every_rule_of_the_body_has_a_source(name: str) -> None:
    rules = list_rules(name, complete=True)
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert re.match(r"https://|[\w.-]+/[\w.-]+#\d+", rule.source), rule


@pytest.mark.parametrize("name", [*WIRES, "azure_openai", "bedrock_invoke"])
def test_the_smallest_request_and_one_with_a_tool_are_accepted(name: str, post: Any) -> None:
    for body in (smallest_request(name), body_of(name)):
        assert validate_request(name, body, model="m", complete=True) == []
        assert [post(name, body, stream=stream).status_code for stream in (True, False)] == [200, 200]


@pytest.mark.parametrize("name", WIRES)
def test_each_field_of_the_sdks_types_is_accepted(name: str) -> None:
    rules = {rule.name for rule in list_rules(name, complete=True)} - {rule.name for rule in list_rules(name)}
    refused = {
        path: [each.message for each in violations if each.rule in rules]
        for path, (row, _) in rows_of(name).items()
        for violations in [validate_request(name, {**body_of(name), **row}, model="m", complete=True)]
    }
    unexpected = {
        path: messages for path, messages in refused.items() if messages and path not in CUT_SAMPLES.get(name, ())
    }
    assert unexpected == {}
    assert {path for path in CUT_SAMPLES.get(name, ()) if not refused[path]} == set()


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("openai_chat", "tools.+", CHAT_TOOL),  # eclipse-theia/theia#16122: OpenAI accepts two tools of one name
        ("openai_chat", "messages.0.note", "x"),  # only fields of the body are seen refused
        ("openai_chat", "temperature", None),
        ("openai_chat", "logit_bias", {"50256": -100}),
        ("openai_chat", "stop", "END"),
        ("openai_responses", "input.+", {"role": "assistant", "content": [{"type": "output_text", "text": "So."}]}),
        ("openai_responses", "instructions", None),
        ("anthropic", "tools.0.input_schema", {**SCHEMA, "$defs": {"City": SCHEMA}, "items": {"$ref": "#/$defs/City"}}),
        ("anthropic", "temperature", 1),
        ("gemini", "systemInstruction", {"parts": {"text": "Be brief."}}),  # protobuf's JSON: one value for a list
        ("gemini", "generation_config", {"max_output_tokens": "100", "temperature": 2}),
        ("gemini", "tools.0.functionDeclarations.0.parametersJsonSchema", GONE),
        ("bedrock_converse", "note", "x"),  # boto3 refuses it, and nobody has seen the service do so
        ("bedrock_converse", "additionalModelRequestFields", {"top_k": 5}),
        ("ollama", "note", "x"),  # Go ignores unknown fields
        ("ollama", "messages", []),  # loads the model (https://docs.ollama.com/api/chat)
        ("ollama", "options.note", "x"),
    ],
)  # fmt: skip
def test_what_has_no_source_is_not_refused(name: str, path: str, value: Any, post: Any) -> None:
    body = changed(body_of(name), path, value)
    assert validate_request(name, body, model="m", complete=True) == []
    assert [post(name, body, stream=stream).status_code for stream in (True, False)] == [200, 200]


JSON_FORMAT: Any = {"type": "json_schema", "schema": SCHEMA}
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def cohere_messages(document: Any) -> list[Any]:
    """Return the messages of a round whose tool returned a document."""
    result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "document", "document": document}]}
    call = {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [CALL]}
    return [{"role": "user", "content": "Weather in Toronto?"}, call, result]


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        # https://developers.openai.com/api/docs/guides/images-vision: without the detail that the SDK's types require
        (
            "openai_responses",
            "input",
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is in this image?"},
                        {"type": "input_image", "image_url": "https://example.com/boardwalk.jpg"},
                    ],
                }
            ],
        ),
        # https://developers.openai.com/api/docs/guides/tools-image-generation: an image by its id alone
        ("openai_responses", "input.+", {"type": "image_generation_call", "id": "ig_123"}),
        # openai/codex, codex-rs/protocol/src/models.rs: items of a response that is not stored, without ids
        (
            "openai_responses",
            "input.+",
            {"type": "web_search_call", "action": {"type": "search", "query": "weather"}},
        ),
        (
            "openai_responses",
            "input.+",
            {
                "type": "local_shell_call",
                "call_id": "call_1",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": None},
            },
        ),
        (
            "openai_responses",
            "input",
            [
                {"role": "user", "content": "Hi"},
                {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]},
            ],
        ),
        # openai/codex, codex-rs/codex-api/src/common.rs: a field of each of its requests
        ("openai_responses", "client_metadata", {"x-codex-installation-id": "1b9d6bcd"}),
        # openai/codex, codex-rs/protocol/src/models.rs: its messages of people and of developers have ids
        (
            "openai_responses",
            "input",
            [
                {
                    "type": "message",
                    "id": f"msg_{role}",
                    "role": role,
                    "content": [{"type": "input_text", "text": "Hi"}],
                }
                for role in ("developer", "user")
            ],
        ),
        # Earlier types of the SDK have it, and the API still accepts it (vercel/ai#12298)
        ("anthropic", "output_format", JSON_FORMAT),
        ("anthropic", "output_config", {"effort": "low", "format": JSON_FORMAT}),
        ("bedrock_invoke", "output_config", {"format": JSON_FORMAT}),
        ("bedrock_invoke", "anthropic_beta", ["context-1m-2025-08-07"]),
        ("bedrock_invoke", "top_k", 5),
        # https://docs.cohere.com/docs/tool-use-overview: the result as JSON text, and as an object
        ("cohere", "messages", cohere_messages({"data": '{"temperature": "20°C"}'})),
        ("cohere", "messages", cohere_messages({"data": {"temperature": "20°C"}, "id": "d1"})),
        # https://docs.cohere.com/docs/rag-citations
        ("cohere", "citation_options", {"mode": "fast"}),
        ("cohere", "citation_options", {"mode": "ACCURATE"}),
        # https://docs.cohere.com/docs/structured-outputs
        ("cohere", "response_format", {"type": "json_object", "schema": SCHEMA}),
        ("cohere", "documents", ["Emperor penguins are the tallest.", {"data": {"title": "Penguins"}, "id": "100"}]),
        # https://ai.google.dev/gemini-api/docs/function-calling, .../structured-output, .../google-search
        ("gemini", "tools", [{"google_search": {}}, {"url_context": {}}]),
        (
            "gemini",
            "generationConfig",
            {
                "responseMimeType": "application/json",
                "responseSchema": {"type": "ARRAY", "items": {"type": "string"}},
                "thinkingConfig": {"thinkingBudget": 0},
            },
        ),
        # https://docs.ollama.com/api/chat
        ("ollama", "format", SCHEMA),
        ("ollama", "keep_alive", 0),
        ("ollama", "think", "high"),
        # A reference in data is none.
        ("anthropic", "tools.0.input_schema.properties.city", {"type": "object", "default": {"$ref": "#/$defs/None"}}),
    ],
)
def test_requests_of_the_vendors_pages_are_accepted(name: str, path: str, value: Any, post: Any) -> None:
    body = changed(body_of(name), path, value)
    assert validate_request(name, body, model="m", complete=True) == []
    assert [post(name, body, stream=stream).status_code for stream in (True, False)] == [200, 200]


@pytest.mark.parametrize("name", ["groq", "mistral", "openai_compatible", "vllm"])
def test_a_dialect_without_types_of_its_own_has_no_rules_of_the_body(name: str) -> None:
    assert list_rules(name, complete=True) == list_rules(name)


def test_a_server_may_check_the_conversation_alone() -> None:
    wrong = changed(body_of("anthropic"), "max_tokens", GONE)
    unpaired = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}
    with serve(["hi"], strict="conversation") as server, httpx.Client() as client:
        url = server.base_url("anthropic") + PATHS["anthropic"]
        broken = client.post(url, json=changed(wrong, "messages.+", unpaired))
        assert "rule call_answered_next" in broken.json()["error"]["message"]
        assert client.post(url, json=wrong).status_code == 200


def test_openais_code_is_in_its_error(post: Any) -> None:
    error = post("openai_chat", changed(body_of("openai_chat"), "max_tokens", "100")).json()["error"]
    assert error["code"] == "invalid_type"
    assert error["message"].startswith(
        "Invalid type for 'max_tokens': expected an integer, but got string instead. (rule field_types; source: https://"
    )


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_no_value_at_any_place_raises(name: str, data: Any) -> None:
    body = body_of(name)
    keys: list[Any] = []
    value: Any = body
    while isinstance(value, (dict, list)) and value and (not keys or data.draw(st.booleans())):
        keys.append(data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))))
        value = value[keys[-1]]
    other = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "role", "x"]), inner),
        max_leaves=4,
    )
    holder: Any = body
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = data.draw(other)
    for violation in validate_request(name, body, model="m", complete=True):
        assert violation.message


def test_deep_nesting_is_not_followed() -> None:
    schema: Any = {"type": "OBJECT"}
    for _ in range(3000):
        schema = {"type": "ARRAY", "items": schema}
    body = changed(body_of("gemini"), "tools.0.functionDeclarations.0.parameters", schema)
    assert validate_request("gemini", body, complete=True) == []


def test_the_types_are_those_of_the_installed_sdks() -> None:
    data = json.loads(DATA.read_text())
    for wire, installed in versions().items():
        if installed != data[wire]["sdk"]:
            pytest.skip(f"{installed} is installed, not {data[wire]['sdk']}")
    written = types_text(build_types())
    changed = sorted(set(written.splitlines()) ^ set(DATA.read_text().splitlines()))
    assert changed == [], WRITE
    assert DATA.read_text() == written, WRITE
