"""Messages of every provider to history: what they have in common, misuse, and odd data."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported_messages import COHERE, CONVERSATIONS, CONVERSE, OLLAMA, Json, calls_of, results_of
from pydantic import BaseModel, ConfigDict, Field, model_serializer

from streamkit import providers
from streamkit.errors import UsageError
from streamkit.history import Content, OpaqueBlock, TextBlock, repair
from streamkit.ids import is_canonical
from streamkit.providers import parse_messages, render

TARGETS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


# ---------------------------------------------------------------- one conversation as every provider's messages


@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_of_every_provider_are_parsed_to_the_same_history(provider: str) -> None:
    messages, system = CONVERSATIONS[provider]
    contents = parse_messages(messages, provider, system=system)
    assert [content.speaker for content in contents] == ["system", "human", "ai", "tool", "ai"]
    assert [block.text for content in contents for block in content.blocks if isinstance(block, TextBlock)] == [
        "Be brief.",
        "Weather?",
        "I look.",
        "21 degrees.",
    ]
    calls, results = calls_of(contents), results_of(contents)
    assert [(call.name, call.parameters) for call in calls] == [("weather", {"city": "Oslo"}), ("clock", {})]
    assert [(result.name, result.result) for result in results] == [("weather", '{"t":21}'), ("clock", "noon")]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert all(is_canonical(call.id) for call in calls)
    assert [call.metadata["raw_id"] for call in calls] == ["call_1", "call_2"]
    assert all(block.metadata["provider"] == provider for block in [*calls, *results])  # type: ignore[attr-defined]
    assert repair(contents).changes == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_parsed_messages_are_rendered_for_any_provider(provider: str, target: str) -> None:
    messages, system = CONVERSATIONS[provider]
    changes: list[str] = []
    rendered = render(parse_messages(messages, provider, system=system), target, changes=changes)
    again = parse_messages(rendered, target)
    assert [call.parameters for call in calls_of(again)] == [{"city": "Oslo"}, {}]
    assert [result.result for result in results_of(again)] == ['{"t":21}', "noon"]
    assert [change for change in changes if not change.startswith("the system text is not among the messages")] == []


@pytest.mark.parametrize(
    ("provider", "messages"), [("cohere", COHERE), ("ollama", OLLAMA), ("bedrock_converse", CONVERSE)]
)
def test_messages_are_the_same_after_they_were_read_and_rendered(provider: str, messages: list[Json]) -> None:
    changes: list[str] = []
    contents = parse_messages(messages, provider, changes=changes)
    assert render(contents, provider, changes=changes) == messages
    assert changes == []
    results, calls = results_of(contents), calls_of(contents)
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert repair(contents).changes == []


def test_id_does_not_depend_on_earlier_messages() -> None:
    for provider, (messages, _) in CONVERSATIONS.items():
        place = next(n for n, message in enumerate(messages) if message.get("role") == "user")
        assert [c.id for c in calls_of(parse_messages(messages[place + 1 :], provider))] == [
            c.id for c in calls_of(parse_messages(messages, provider))
        ]


def test_repair_makes_raw_ids_of_several_turns_unique_after_pruning() -> None:
    turns = [
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "f:0", "function": {"name": "f", "arguments": f'{{"n":{number}}}'}}],
            },
            {"role": "tool", "tool_call_id": "f:0", "content": str(number)},
        ]
        for number in range(3)
    ]
    whole = repair(parse_messages([*turns[0], *turns[1], *turns[2]], "openai_chat")).contents
    pruned = repair(parse_messages([*turns[0], *turns[2]], "openai_chat")).contents
    ids = [call.id for call in calls_of(whole)]
    assert len(set(ids)) == 3
    assert [(result.call_id, result.result) for result in results_of(whole)] == list(zip(ids, "012", strict=True))
    assert [call.id for call in calls_of(pruned)] == [ids[0], ids[2]]


# ---------------------------------------------------------------- objects, arguments and texts on any wire


class Part(BaseModel):
    """A block of a message, as an SDK has it."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    kind: str = Field(alias="type")
    caller: str | None = None


class BrokenPart(BaseModel):
    """A block that cannot be converted."""

    @model_serializer
    def fail(self) -> Any:
        raise RuntimeError


def test_objects_of_an_sdk_in_a_message_are_read_like_dicts() -> None:
    parts = [
        Part.model_validate({"type": "thinking", "thinking": "hm", "signature": "SIG"}),
        Part.model_validate({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": [b"hello"]}}),
    ]
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "assistant", "content": parts},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]},
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert changes == []
    assert provider_messages[1]["content"] is parts
    assert render(contents, "anthropic", ids="origin") == [
        provider_messages[0],
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIG"},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": ["aGVsbG8="]}},
            ],
        },
        provider_messages[2],
    ]
    broken = parse_messages([{"role": "user", "content": [BrokenPart()]}], "anthropic", changes=changes)
    assert broken[0].blocks[0].type == "opaque"
    text = Part.model_validate({"type": "text", "text": "x"})
    whole = parse_messages([{"role": "assistant", "content": text}], "anthropic")
    assert whole[0].blocks[0].text == "x"


def test_arguments_that_cannot_be_encoded_do_not_raise() -> None:
    loop: Json = {}
    loop[3] = loop  # type: ignore[index]
    message = {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": loop}]}
    (call,) = calls_of(parse_messages([message], "anthropic"))
    assert (call.parameters, call.metadata["raw_arguments"]) == ({}, '{"3":"[the object that contains this]"}')


@pytest.mark.parametrize("role", ["user", "assistant", "model"])
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_empty_text_adds_no_block_and_empty_message_no_content(provider: str, role: str) -> None:
    if (provider, role) == ("gemini", "assistant"):
        role = "robot"  # parts of an assistant are a UI message
    kind = {"openai_responses": {"type": "output_text"}, "gemini": {}}.get(provider, {"type": "text"})
    for content in ("", [], None, [{**kind, "text": ""}]):
        message = {"role": role, "parts" if provider == "gemini" else "content": content}
        strange = role != "user" and (role == "model") != (provider == "gemini")
        assert [rendered.speaker for rendered in parse_messages([message], provider)] == [role] * strange


# ---------------------------------------------------------------- misuse and odd data


@pytest.mark.parametrize("messages", ["text", {"role": "user"}, [1], [{"role": "user"}, "x"], None])
@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_that_are_no_list_of_dicts_are_rejected(provider: str, messages: Any) -> None:
    with pytest.raises(UsageError, match=r"must be a (list of dicts|dict)"):
        parse_messages(messages, provider)


@pytest.mark.parametrize("provider", CONVERSATIONS)
def test_messages_nested_deeply_are_read(provider: str) -> None:
    nested: Any = {}
    for _ in range(20_000):
        nested = {"a": nested}
    field, part = ("parts", nested) if provider == "gemini" else ("content", {"type": "odd", "odd": nested})
    contents = parse_messages([{"role": "user", field: [part]}], provider)
    assert [block.type for block in contents[0].blocks] == ["opaque"]
    assert Content.model_validate_json(contents[0].model_dump_json()) == contents[0]
    render(contents, "openai_chat")


def test_provider_without_an_importer_raises() -> None:
    provider = providers.provider.Provider(providers.provider.Traits(name="acme", has_importer=False))
    with pytest.raises(UsageError, match="provider 'acme' cannot be converted"):
        parse_messages([], provider)
    with pytest.raises(UsageError, match="requests of the provider 'acme' cannot be read"):
        providers.parse_request({}, provider)


WORDS = st.sampled_from(
    [
        "role", "content", "type", "text", "parts", "id", "call_id", "tool_call_id", "tool_use_id", "toolCallId",
        "name", "input", "args", "arguments", "functionCall", "functionResponse", "response", "tool_calls",
        "function", "self", "kind", "raw_id", "provider", "thoughtSignature", "signature", "thinking", "summary",
        "source", "data", "output", "image_url", "inlineData", "fileData", "executableCode", "is_error", "refusal",
        "audio", "annotations", "result", "value", "custom", "images", "reasoning_details", "file", "file_data",
        "image", "mimeType", "reasoning",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        "user", "assistant", "model", "tool", "system", "function", "text", "tool_use", "tool_result", "tool-call",
        "tool-result", "function_call", "function_call_output", "reasoning", "message", "image", "document", "thinking",
        "redacted_thinking", "server_tool_use", "web_search_tool_result", "web_search_call", "program_output", "file",
        "image_url", "input_image", "input_file", "custom", "refusal", "audio", "url", "base64", "", "x", "{", "\ud800",
        "data:image/png;base64,QQ==", "error-text", "content", "json", "custom_tool_call", "input_audio", "media",
    ]
)  # fmt: skip
LEAVES = VALUES | VALUES | st.none() | st.booleans() | st.integers() | st.floats() | st.just(b"\x00")
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers(), inner, max_size=6),
    max_leaves=12,
)
ROLES = st.sampled_from(["user", "assistant", "model", "tool", "system", "function", None, 3, "x", "ai", "human"])
MESSAGES = st.lists(
    st.dictionaries(WORDS, TREES, max_size=5)
    | st.builds(lambda role, tree: {"role": role, "content": tree, "parts": tree}, ROLES, TREES)
    | st.builds(
        lambda role, parts: {"role": role, "content": parts, "parts": parts},
        ROLES,
        st.lists(st.dictionaries(WORDS, TREES, min_size=1, max_size=4), max_size=3),
    ),
    max_size=4,
)


@given(MESSAGES, st.sampled_from(list(CONVERSATIONS)), TREES)
def test_no_message_content_raises(messages: list[Json], provider: str, system: Any) -> None:
    changes: list[str] = []
    try:
        contents = parse_messages(messages, provider, system=system, changes=changes)
    except UsageError as error:
        assert "they look like messages of" in str(error)  # noqa: PT017
        return
    assert all(isinstance(content, Content) for content in contents)
    assert Content.model_validate_json(contents[0].model_dump_json()) == contents[0] if contents else True
    has_opaque = any(isinstance(block, OpaqueBlock) for content in contents for block in content.blocks)
    assert changes or not has_opaque
    repair(contents)


@pytest.mark.parametrize(
    "value", [1.5, 1e16, 1e-05, -1.25e300, 2**70, "1.5", "e2", '\x00\x7f"\\é😀', {"z": [1e22], "é": None}]
)
def test_a_turn_key_is_derived_from_sorted_json(value: Any) -> None:
    arguments = {"b": value, "a": 1}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": arguments}
    (content,) = parse_messages([{"role": "assistant", "content": [call]}], "anthropic")
    text = json.dumps([["toolu_1", "Bash", arguments]], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert content.metadata["turn_key"] == "thread-" + sha256(text.encode()).hexdigest()[:16]
