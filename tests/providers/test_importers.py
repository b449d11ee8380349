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
    assert changes == []


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


# ---------------------------------------------------------------- messages to history and back

NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_-]{0,8}", fullmatch=True)
SPOKEN = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() == text)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=2)


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[str, list[tuple[str, str, Json, str]], str]]:
    """Draw the rounds of a conversation: a text, calls (id, name, arguments, result), the next question."""
    number = 0
    rendered = []
    for _ in range(draw(st.integers(1, 3))):
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            calls.append((f"id_{number}", draw(NAMES), draw(ARGUMENTS), draw(st.text(max_size=6))))
        text = draw(SPOKEN) if not calls else draw(SPOKEN | st.just(""))
        rendered.append((text, calls, draw(SPOKEN)))
    return rendered


@given(rounds(), st.data())
def test_chat_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for text, calls, question in drawn_rounds:
        message: Json = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": compact(arguments)}}
                if data.draw(st.integers(0, 3))
                else {"id": call_id, "type": "custom", "custom": {"name": name, "input": compact(arguments)}}
                for call_id, name, arguments, _ in calls
            ]
        elif data.draw(st.booleans()):
            message = {"role": "assistant", "content": [{"type": "refusal", "refusal": text}]}
        provider_messages.append(message)
        provider_messages += [
            {"role": "tool", "tool_call_id": call_id, "content": result} for call_id, _, _, result in calls
        ]
        parts = [
            {"type": "text", "text": question},
            data.draw(
                st.sampled_from(
                    [
                        {"type": "image_url", "image_url": {"url": PNG}},
                        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                        {
                            "type": "file",
                            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        },
                    ]
                )
            ),
        ]
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, parts]))})
    assert render(parse_messages(provider_messages, "openai_chat"), "openai_chat", ids="origin") == provider_messages


@given(rounds(), st.data())
def test_anthropic_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    system = data.draw(SPOKEN)
    provider_messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
        "title": "a.pdf",
    }
    for text, calls, question in drawn_rounds:
        answer: list[Json] = []
        if data.draw(st.booleans()):
            answer.append({"type": "thinking", "thinking": data.draw(SPOKEN), "signature": "SIG"})
        if data.draw(st.booleans()):
            answer.append({"type": "redacted_thinking", "data": "XX"})
        if text:
            answer.append({"type": "text", "text": text})
        if data.draw(st.booleans()):
            answer += [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]},
                {"type": "text", "text": "found"},
            ]
        answer += [
            {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
            for call_id, name, arguments, _ in calls
        ]
        provider_messages.append({"role": "assistant", "content": answer})
        said: list[Json] = []
        for call_id, _, _, result in calls:
            said.append({"type": "tool_result", "tool_use_id": call_id, "content": result})
            if data.draw(st.booleans()):
                said[-1] |= {"content": result or "boom", "is_error": True}
            elif data.draw(st.booleans()):
                said[-1]["content"] = [{"type": "text", "text": "see"}, image]
        said.append({"type": "text", "text": question})
        said += data.draw(st.lists(st.sampled_from([image, document]), max_size=2))
        provider_messages.append({"role": "user", "content": said})
    contents = parse_messages(provider_messages, "anthropic", system=system)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert providers.render_request(contents, "anthropic")["system"] == system


@given(rounds(), st.data())
def test_gemini_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    system = data.draw(SPOKEN)
    with_ids = data.draw(st.booleans())
    provider_messages: list[Json] = [{"role": "user", "parts": [{"text": "?"}]}]
    for text, calls, question in drawn_rounds:
        parts: list[Json] = []
        if data.draw(st.booleans()):
            parts.append({"text": data.draw(SPOKEN), "thought": True, "thoughtSignature": "T"})
        if text:
            parts.append({"text": text} | data.draw(st.sampled_from([{}, {"thoughtSignature": "S"}])))
        for call_id, name, arguments, _ in calls:
            call = {"name": name, "args": arguments} | ({"id": call_id} if with_ids else {})
            parts.append({"functionCall": call} | data.draw(st.sampled_from([{}, {"thoughtSignature": "F"}])))
        provider_messages.append({"role": "model", "parts": parts})
        said: list[Json] = []
        for call_id, name, _, result in calls:
            response = data.draw(st.sampled_from([{"result": result}, {"error": "boom"}, {"output": 1, "more": [2]}]))
            answer = {"name": name, "response": response} | ({"id": call_id} if with_ids else {})
            said.append({"functionResponse": answer})
        said.append({"text": question})
        said += data.draw(
            st.lists(
                st.sampled_from(
                    [
                        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                        {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}},
                        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
                        {"fileData": {"fileUri": "https://a/b.png"}},
                    ]
                ),
                max_size=2,
            )
        )
        provider_messages.append({"role": "user", "parts": said})
    contents = parse_messages(provider_messages, "gemini", system=system)
    assert render(contents, "gemini") == provider_messages
    assert providers.render_request(contents, "gemini")["systemInstruction"] == {"parts": [{"text": system}]}


@given(rounds(), st.data())
def test_responses_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for number, (text, calls, question) in enumerate(drawn_rounds):
        has_id = data.draw(st.booleans())
        if has_id:
            provider_messages.append(
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "E"}
            )
        if text and has_id:
            parts = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"id": f"msg_{number}", "status": "completed", "content": parts}
            provider_messages.append({"type": "message", "role": "assistant", **message})
        elif text:
            provider_messages.append({"type": "message", "role": "assistant", "content": text})
        outputs: list[Json] = []
        for call_id, name, arguments, result in calls:
            custom = data.draw(st.booleans())
            kind, field, own_id = (
                ("custom_tool_call", "input", f"ctc_{call_id}")
                if custom
                else ("function_call", "arguments", f"fc_{call_id}")
            )
            item = {"type": kind, "call_id": call_id, "name": name, field: compact(arguments)}
            provider_messages.append(item | ({"id": own_id} if has_id else {}))
            picture = [{"type": "input_image", "image_url": PNG, "detail": "auto"}]
            output = data.draw(st.sampled_from([result, picture]))
            outputs.append({"type": f"{kind}_output", "call_id": call_id, "output": output})
        provider_messages += outputs
        question_parts = [
            {"type": "input_text", "text": question},
            data.draw(
                st.sampled_from(
                    [
                        {"type": "input_image", "image_url": PNG, "detail": "auto"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        {"type": "input_file", "file_url": "https://a/b.pdf"},
                    ]
                )
            ),
        ]
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, question_parts]))})
    assert (
        render(parse_messages(provider_messages, "openai_responses"), "openai_responses", ids="origin")
        == provider_messages
    )


@given(rounds(), st.sampled_from([4, 5]), st.data())
def test_vercel_messages_round_trip(drawn_rounds: Any, version: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for text, calls, question in drawn_rounds:
        call_messages: list[Json] = [{"type": "text", "text": text}] if text else []
        answered: list[Json] = []
        for call_id, name, arguments, result in calls:
            full = "call_" + call_id.rjust(24, "0")
            said: Json = {"type": "tool-call", "toolCallId": full, "toolName": name}
            came: Json = {"type": "tool-result", "toolCallId": full, "toolName": name}
            failed = data.draw(st.booleans())
            if version == 4:
                call_messages.append(said | {"args": arguments})
                answered.append(came | {"result": data.draw(st.sampled_from([result, {"a": [1]}]))})
                answered[-1] |= {"isError": True} if failed else {}
            else:
                call_messages.append(said | {"input": arguments})
                output = data.draw(
                    st.sampled_from([{"type": "text", "value": result}, {"type": "json", "value": {"a": [1]}}])
                )
                if failed:
                    output = output | {"type": f"error-{output['type']}"}
                answered.append(came | {"output": output})
        provider_messages.append({"role": "assistant", "content": call_messages if calls else text})
        if calls:
            provider_messages.append({"role": "tool", "content": answered})
        parts: list[Json] = [{"type": "text", "text": question}, {"type": "image", "image": PNG}]
        if version == 5:
            parts.append({"type": "file", "data": "QQ==", "mediaType": "application/pdf", "filename": "a.pdf"})
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, parts]))})
    contents = parse_messages(provider_messages, "vercel")
    assert repair(contents).changes == []
    assert convert_to_vercel_messages(contents, version=version) == provider_messages


@pytest.mark.parametrize(
    "value", [1.5, 1e16, 1e-05, -1.25e300, 2**70, "1.5", "e2", '\x00\x7f"\\é😀', {"z": [1e22], "é": None}]
)
def test_a_turn_key_is_derived_from_sorted_json(value: Any) -> None:
    arguments = {"b": value, "a": 1}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": arguments}
    (content,) = parse_messages([{"role": "assistant", "content": [call]}], "anthropic")
    text = json.dumps([["toolu_1", "Bash", arguments]], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert content.metadata["turn_key"] == "thread-" + sha256(text.encode()).hexdigest()[:16]
