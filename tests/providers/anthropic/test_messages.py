"""History as Anthropic messages: they contain nothing that the API refuses, and every change is reported."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import request_validators
from hypothesis import given
from hypothesis import strategies as st
from rendering import request_of

from streamkit import Turn, providers
from streamkit.errors import UnsupportedContent
from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
    UnknownBlock,
)
from streamkit.providers.provider import RenderedMessages
from streamkit.tools import Tool

PROVIDER = providers.get("anthropic")
OWN = {"provider": "anthropic"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def call(id: str, name: str = "w", metadata: dict[str, Any] | None = None, **parameters: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters=parameters, metadata=metadata or {})


def result(call_id: str, value: Any = "ok", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, name="w", result=value, **fields)])


def render(*contents: Content, ids: Any = "origin", name: str = "anthropic") -> RenderedMessages:
    rendered = providers.get(name).render(contents, ids=ids)
    request_validators.anthropic_messages(rendered.messages)
    return rendered


def shape(rendered: RenderedMessages) -> list[tuple[str, list[str]]]:
    return [(message["role"], [part["type"] for part in message["content"]]) for message in rendered.messages]


def parts(rendered: RenderedMessages, role: str) -> list[Any]:
    return [part for message in rendered.messages if message["role"] == role for part in message["content"]]


# ---------------------------------------------------------------- messages


def test_texts_of_user_and_assistant() -> None:
    rendered = render(Content.human("Hi"), Content.ai("Hello"), Content.human("Bye"))
    assert rendered.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "Bye"}]},
    ]
    assert rendered.changes == []


def test_messages_of_one_role_are_merged() -> None:
    rendered = render(Content.human("a"), Content.human("b"), Content.ai("c"), Content.ai("d"))
    assert shape(rendered) == [("user", ["text", "text"]), ("assistant", ["text", "text"])]


def test_system_text_is_separate_from_the_messages() -> None:
    rendered = render(Content.system("Be brief."), Content.system("Be kind."), Content.system(" "), Content.human("Hi"))
    assert rendered.system == "Be brief.\n\nBe kind."
    assert shape(rendered) == [("user", ["text"])]
    assert rendered.changes == []


def test_system_text_within_the_conversation_is_moved_and_reported() -> None:
    rendered = render(Content.human("Hi"), Content.system("Be brief.", ImageBlock(data=PIXEL)))
    assert rendered.system == "Be brief."
    assert len(rendered.changes) == 2


def test_system_messages_without_fields_of_their_own_are_merged() -> None:
    place = {**OWN, "in_messages": True}
    texts = [TextBlock(text="a")]
    contents = [
        Content(speaker="system", blocks=texts, metadata=place),
        Content(speaker="system", blocks=[*texts, ImageBlock(data=PIXEL), OpaqueBlock(raw=3)], metadata=place),
        Content(speaker="system", blocks=[TextBlock(text=" ")], metadata={**place, "clear_at": "never"}),
    ]
    rendered = render(Content.human("Hi"), *contents)
    assert shape(rendered) == [("user", ["text"]), ("system", ["text", "text"])]
    assert len(rendered.changes) == 3


def test_blank_text_is_omitted() -> None:
    rendered = render(Content.human("Hi", TextBlock(text=" \n"), TextBlock(text="")))
    assert shape(rendered) == [("user", ["text"])]
    assert rendered.changes == ["a text of nothing but white space was left out"]


def test_trailing_white_space_is_removed_only_from_the_last_assistant_text() -> None:
    rendered = render(Content.human("Hi"), Content.ai("one \n"), Content.human("go on"), Content.ai("two \n"))
    assert [part["text"] for part in parts(rendered, "assistant")] == ["one \n", "two"]
    assert len(rendered.changes) == 1


def test_first_message_is_of_the_user() -> None:
    rendered = render(Content.ai("Hello"), Content.human("Hi"))
    assert shape(rendered) == [("user", ["text"]), ("assistant", ["text"]), ("user", ["text"])]
    assert rendered.changes == ["a user message '(continued)' was put in front: the first message must be a user's"]


def test_empty_history_has_no_messages() -> None:
    assert render() == RenderedMessages()
    assert render(Content.human(""), Content.ai("")).messages == []


def test_unknown_speakers_and_blocks_are_omitted_and_reported() -> None:
    odd = UnknownBlock(type="hologram")
    rendered = render(Content(speaker="oracle", blocks=[]), Content.human("Hi", odd), Content.ai("a", odd))
    assert shape(rendered) == [("user", ["text"]), ("assistant", ["text"])]
    assert len(rendered.changes) == 3


# ---------------------------------------------------------------- calls and results


def test_results_of_a_batch_are_first_and_in_call_order() -> None:
    rendered = render(
        Content.human("?"),
        Content.ai("", call("t1"), call("t2")),
        result("t2", "2"),
        result("t1", "1"),
        Content.human("and?"),
    )
    assert shape(rendered)[1:] == [
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    assert [part.get("content") for part in parts(rendered, "user")[1:3]] == ["1", "2"]


def test_text_before_the_results_is_moved_after_them() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1")), Content.human("wait"), result("t1"))
    assert shape(rendered)[-1] == ("user", ["tool_result", "text"])


def test_result_in_an_assistant_content_is_in_a_user_message() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1"), ToolResponseBlock(call_id="t1", result="x")))
    assert shape(rendered)[1:] == [("assistant", ["tool_use"]), ("user", ["tool_result"])]


def test_call_and_result_share_a_legal_id() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("functions.Bash:0")), result("functions.Bash:0"))
    call_id, result_id = parts(rendered, "assistant")[0]["id"], parts(rendered, "user")[1]["tool_use_id"]
    assert call_id == result_id
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id)


def test_canonical_ids_get_the_vendors_prefix() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("hist_tool_" + "a" * 24)))
    assert parts(rendered, "assistant")[0]["id"] == "toolu_" + "a" * 24


def test_ids_that_differ_only_in_illegal_characters_stay_different() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("a.b"), call("a:b")))
    first, second = parts(rendered, "assistant")
    assert first["id"] != second["id"]


def test_equal_ids_of_two_turns_become_two_ids_and_results_pair_by_order() -> None:
    rendered = render(
        Content.human("?"),
        Content.ai("", call("list_dir:0")),
        result("list_dir:0", "1"),
        Content.ai("", call("list_dir:0")),
        result("list_dir:0", "2"),
    )
    calls = [part["id"] for part in parts(rendered, "assistant")]
    results = [part for part in parts(rendered, "user") if part["type"] == "tool_result"]
    assert len(set(calls)) == 2
    assert [part["tool_use_id"] for part in results] == calls
    assert [part["content"] for part in results] == ["1", "2"]


def test_origin_restores_the_id_of_a_call_of_the_family() -> None:
    own = call("hist_tool_" + "a" * 24, metadata={**OWN, "raw_id": "toolu_01"})
    foreign = call("hist_tool_" + "b" * 24, metadata={"provider": "openai_chat", "raw_id": "call_1"})
    history = [Content.human("?"), Content.ai("", own, foreign), result(own.id), result(foreign.id)]
    used = [part["id"] for part in parts(render(*history, ids="origin"), "assistant")]
    assert used == ["toolu_01", "toolu_" + "b" * 24]
    assert [part["id"] for part in parts(render(*history, ids="canonical"), "assistant")] == [
        "toolu_" + "a" * 24,
        "toolu_" + "b" * 24,
    ]


def test_input_is_always_an_object() -> None:
    call_block = ToolCallBlock(id="t1", name="w", parameters={}, metadata={"raw_arguments": '{"a":"b'})
    custom = ToolCallBlock(id="t2", name="w", parameters="free text", kind="custom")
    rendered = render(Content.human("?"), Content.ai("", call_block, custom))
    assert [part["input"] for part in parts(rendered, "assistant")] == [
        {"INVALID_JSON": '{"a":"b'},
        {"input": "free text"},
    ]
    assert rendered.changes == [
        "the arguments of a call of 'w' were put into an object as text: they were none",
        "the free text of a call of 'w' was put into an object",
    ]


def test_illegal_name_is_corrected_and_reported() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1", "a.b"), call("t2", "")))
    assert [part["name"] for part in parts(rendered, "assistant")] == ["a_b", "unnamed"]
    assert len(rendered.changes) == 2


def test_caller_is_sent_back_unless_it_is_the_default() -> None:
    code = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    rendered = render(
        Content.human("?"),
        Content.ai(
            "",
            call("t1", metadata={**OWN, "caller": code}),
            call("t2", metadata={**OWN, "caller": {"type": "direct"}}),
            call("t3", metadata={"provider": "x", "caller": code}),
            call("t4", metadata={**OWN, "toolset_name": "files"}),
        ),
    )
    assert [part.get("caller") for part in parts(rendered, "assistant")] == [code, None, None, None]
    assert parts(rendered, "assistant")[3]["toolset_name"] == "files"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("sunny", "sunny"),
        (None, ""),
        ({"t": 21, "u": "°C"}, '{"t":21,"u":"°C"}'),
        (21, "21"),
        ([], "[]"),
        ([{"a": 1}], '[{"a":1}]'),
        ([{"type": "text", "text": " "}], '[{"type":"text","text":" "}]'),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}],
        ),
        (
            [{"type": "image", "data": "https://e.org/a.png"}],
            [{"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}],
        ),
    ],
)
def test_results_of_every_type(value: Any, content: Any) -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    part = parts(rendered, "user")[1]
    assert part["content"] == content
    assert "is_error" not in part


def test_native_image_part_of_a_result_is_unchanged() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    rendered = render(
        Content.human("?"), Content.ai("", call("t1")), result("t1", [{"type": "image", "source": source}])
    )
    assert parts(rendered, "user")[1]["content"] == [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    "block", [{"type": "tool_reference", "tool_name": "get_rate"}, {"type": "browser_state", "tabs": []}]
)
def test_blocks_of_the_api_in_a_result_are_unchanged(block: dict[str, Any]) -> None:
    value = [{"type": "text", "text": "found"}, block]
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert parts(rendered, "user")[1]["content"] == value


@pytest.mark.parametrize(
    "value", [[{"type": "tool_reference", "tool_name": 1}], [{"type": "browser_state", "tabs": "two"}]]
)
def test_data_with_the_type_of_a_block_is_data(value: Any) -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert json.loads(parts(rendered, "user")[1]["content"]) == value


def test_result_of_a_toolsets_member_repeats_its_toolset() -> None:
    member, other = {**OWN, "toolset_name": "computer"}, {"provider": "x", "toolset_name": "computer"}
    rendered = render(
        Content.human("?"),
        Content.ai("", call("t1", metadata=member), call("t2", metadata=other)),
        Content(
            speaker="tool",
            blocks=[
                ToolResponseBlock(call_id="t1", result="clicked"),
                ToolResponseBlock(call_id="t2", error="boom", metadata=other),
            ],
        ),
    )
    assert [part.get("toolset_name") for part in parts(rendered, "user")[1:]] == ["computer", None]


def test_unsupported_image_is_named_in_a_result() -> None:
    value = [{"type": "image", "data": "x", "mimeType": "image/tiff"}]
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert parts(rendered, "user")[1]["content"] == [{"type": "text", "text": "[image that was attached here]"}]
    assert len(rendered.changes) == 1


def test_an_image_without_data_is_data() -> None:
    value = [{"type": "image", "data": None}]
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert json.loads(parts(rendered, "user")[1]["content"]) == value


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": "error", "error": "boom"}, "boom"),
        ({"error": "boom"}, "boom"),
        ({"status": "denied"}, "The call did not complete: denied."),
        ({"status": "error", "value": {"a": 1}}, '{"a":1}'),
        (
            {"error": "", "value": [{"type": "text", "text": "at"}, {"type": "image", "data": PIXEL}]},
            "at\n[image that was attached here]",
        ),
    ],
)
def test_failed_results_are_errors(fields: dict[str, Any], text: str) -> None:
    value = fields.pop("value", None)
    part = parts(render(Content.human("?"), Content.ai("", call("t1")), result("t1", value, **fields)), "user")[1]
    assert part["content"] == text
    assert part["is_error"] is True


def test_completed_result_is_not_an_error() -> None:
    rendered = render(Content.human("?"), Content.ai("", call("t1")), result("t1", "x", status="completed"))
    assert "is_error" not in parts(rendered, "user")[1]


def test_orphans_do_not_crash() -> None:
    rendered = render(Content.human("?"), result("tX", "x"), Content.ai("", call("t1")), Content.human("next"))
    assert shape(rendered) == [("user", ["tool_result", "text"]), ("assistant", ["tool_use"]), ("user", ["text"])]


# ---------------------------------------------------------------- what the provider wants back


def test_signed_thinking_is_sent_back_in_order() -> None:
    rendered = render(
        Content.human("?"),
        Content.ai(
            "",
            ReasoningBlock(text="a", signature="S1", metadata=OWN),
            TextBlock(text="b", metadata=OWN),
            ReasoningBlock(text="", signature="S2", metadata=OWN),
            call("t1"),
        ),
    )
    assert parts(rendered, "assistant")[:3] == [
        {"type": "thinking", "thinking": "a", "signature": "S1"},
        {"type": "text", "text": "b"},
        {"type": "thinking", "thinking": "", "signature": "S2"},
    ]
    assert rendered.changes == []


@pytest.mark.parametrize(
    "block",
    [
        ReasoningBlock(text="a", metadata=OWN),
        ReasoningBlock(text="a", signature="", metadata=OWN),
        ReasoningBlock(text="a", signature="S", metadata={"provider": "gemini"}),
        ReasoningBlock(text="a", signature="S"),
        ReasoningBlock(opaque={"type": "redacted_thinking", "data": "x"}, metadata={"provider": "gemini"}),
    ],
)
def test_thinking_that_would_be_refused_is_omitted_and_reported(block: ReasoningBlock) -> None:
    rendered = render(Content.human("?"), Content.ai("", block, TextBlock(text="b")))
    assert shape(rendered)[1] == ("assistant", ["text"])
    assert len(rendered.changes) == 1


@pytest.mark.parametrize("source", ["anthropic", "bedrock_invoke"])
@pytest.mark.parametrize("target", ["anthropic", "bedrock_invoke"])
def test_opaque_state_is_sent_back_unchanged_within_the_family(source: str, target: str) -> None:
    own = {"provider": source}
    redacted = {"type": "redacted_thinking", "data": "OPAQUE"}
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    sources = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E"}]
    server_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": sources}
    upload = {"type": "container_upload", "file_id": "f"}
    rendered = render(
        Content.human("?"),
        Content.ai(
            "",
            ReasoningBlock(opaque=redacted, metadata=own),
            ServerToolBlock(id="srvtoolu_1", name="web_search", raw=[use, server_result], metadata=own),
            OpaqueBlock(raw=upload, metadata=own),
        ),
        name=target,
    )
    assert parts(rendered, "assistant") == [redacted, use, server_result, upload]
    assert rendered.changes == []


def test_server_tools_and_opaque_blocks_of_other_providers_are_omitted_and_reported() -> None:
    foreign = {"provider": "openai_responses"}
    rendered = render(
        Content.human("?"),
        Content.ai(
            "a",
            ServerToolBlock(name="web_search", raw=[{"type": "web_search_call"}], metadata=foreign),
            OpaqueBlock(raw={"type": "x"}, metadata=foreign),
            ServerToolBlock(name="empty", metadata=OWN),
        ),
    )
    assert shape(rendered)[1] == ("assistant", ["text"])
    assert len(rendered.changes) == 3


def test_citations_are_sent_back_with_their_text() -> None:
    citation = {
        "type": "web_search_result_location",
        "cited_text": "c",
        "encrypted_index": "E",
        "title": "t",
        "url": "u",
    }
    mine = TextBlock(text="a", metadata={**OWN, "citations": [citation]})
    foreign = TextBlock(text="b", metadata={"provider": "perplexity", "citations": [citation]})
    rendered = render(Content.human("?"), Content.ai("", mine, foreign))
    assert parts(rendered, "assistant") == [
        {"type": "text", "text": "a", "citations": [citation]},
        {"type": "text", "text": "b"},
    ]


def test_explanation_of_a_refusal_is_not_text_of_the_model() -> None:
    rendered = render(Content.human("?"), Content.ai("", TextBlock(text="No.", metadata={**OWN, "refusal": True})))
    assert shape(rendered) == [("user", ["text"])]
    assert len(rendered.changes) == 1


# ---------------------------------------------------------------- images and files


def test_images_by_data_and_by_address() -> None:
    rendered = render(
        Content.human(
            "look",
            ImageBlock(data=PIXEL),
            ImageBlock(data="https://e.org/a.png"),
            ImageBlock(data="data:image/jpg;base64,/9j/"),
        )
    )
    assert [part["source"] for part in parts(rendered, "user")[1:]] == [
        {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        {"type": "url", "url": "https://e.org/a.png"},
        {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"},
    ]


@pytest.mark.parametrize("data", ["/tmp/a.png", "data:image/tiff;base64,AA==", "data:image/png,plain", ""])  # noqa: S108
def test_unsupported_image_raises(data: str) -> None:
    with pytest.raises(UnsupportedContent, match="Anthropic takes images"):
        PROVIDER.render([Content.human("look", ImageBlock(data=data))])


def test_images_of_an_assistant_are_omitted_and_reported() -> None:
    rendered = render(Content.human("draw"), Content.ai("here", ImageBlock(data=PIXEL), FileBlock(data="x")))
    assert shape(rendered)[1] == ("assistant", ["text"])
    assert len(rendered.changes) == 2


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            FileBlock(media_type="application/pdf", data="JVBERi0=", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a.pdf",
            },
        ),
        (
            FileBlock(data="data:application/pdf;base64,JVBERi0="),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
        ),
        (
            FileBlock(media_type="application/pdf", url="https://e.org/a.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://e.org/a.pdf"}},
        ),
        (
            FileBlock(url="https://e.org/a"),
            {"type": "document", "source": {"type": "url", "url": "https://e.org/a"}},
        ),
        (
            FileBlock(media_type="image/png", data="iVBORw0KGgo="),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        ),
    ],
)
def test_files_of_every_type(block: FileBlock, part: dict[str, Any]) -> None:
    assert parts(render(Content.human("read", block)), "user")[1] == part


@pytest.mark.parametrize(
    "block",
    [
        FileBlock(media_type="audio/mpeg", data="AA=="),
        FileBlock(media_type="application/pdf", name="empty.pdf"),
        FileBlock(data="AA=="),
        FileBlock(),
    ],
)
def test_unsupported_file_raises(block: FileBlock) -> None:
    with pytest.raises(UnsupportedContent):
        PROVIDER.render([Content.human("read", block)])


# ---------------------------------------------------------------- the request


WEATHER = Tool(name="w", description="The weather.", parameters={"type": "object", "properties": {}})


def request(*contents: Content, **options: Any) -> dict[str, Any]:
    body = request_of(PROVIDER, contents, **options)
    request_validators.anthropic_request(body)
    return body


def test_request_omits_absent_fields() -> None:
    assert request(Content.human("Hi"), stream=False) == {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    }


def test_request_has_system_tools_and_stream() -> None:
    body = request(Content.system("Be brief."), Content.human("Hi"), tools=[WEATHER, Tool(name="v", description="")])
    assert body["system"] == "Be brief."
    assert body["stream"] is True
    assert body["tools"] == [
        {"name": "w", "description": "The weather.", "input_schema": {"type": "object", "properties": {}}},
        {"name": "v", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert "tool_choice" not in body


@pytest.mark.parametrize(
    ("choice", "form"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ("w", {"type": "tool", "name": "w"}),
    ],
)
def test_every_tool_choice_has_its_form(choice: str, form: dict[str, Any]) -> None:
    assert request(Content.human("Hi"), tools=[WEATHER], tool_choice=choice)["tool_choice"] == form


def test_tool_choice_without_tools_is_omitted() -> None:
    assert "tool_choice" not in request(Content.human("Hi"), tool_choice="none")


def test_citations_without_text_are_left_out_and_reported() -> None:
    cited = TextBlock(text="", metadata={**OWN, "citations": [{"type": "char_location"}]})
    rendered = render(Content.human("?"), Content(speaker="ai", blocks=[cited, TextBlock(text="x", metadata=OWN)]))
    assert rendered.messages[-1]["content"] == [{"type": "text", "text": "x"}]
    assert rendered.changes == ["citations without text were left out: Anthropic refuses a blank text"]


def answer(container: Any, text: str = "done", **metadata: Any) -> Content:
    content = Content.ai(text)
    return content.model_copy(update={"metadata": {**OWN, **metadata, "container": container}})


def test_request_names_the_last_container_of_the_conversation() -> None:
    asked, other = Content.human("?"), Content.ai("none")
    first, second = answer({"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}), answer({"id": "container_2"})
    assert request(asked, first, asked)["container"] == "container_1"
    assert request(asked, first, asked, second, asked, other, asked)["container"] == "container_2"


def test_a_container_with_skills_is_named_with_them() -> None:
    skills = [{"type": "anthropic", "skill_id": "xlsx", "version": "latest"}]
    body = request_of(PROVIDER, [Content.human("?"), answer({"id": "c", "skills": skills}), Content.human("!")])
    assert body["container"] == {"id": "c", "skills": skills}


@pytest.mark.parametrize("container", [None, "container_1", {}, {"id": ""}, {"id": 3}, {"id": None, "skills": []}, []])
def test_anything_else_is_no_container(container: Any) -> None:
    assert "container" not in request(Content.human("?"), answer(container), Content.human("!"))


@pytest.mark.parametrize("provider", ["bedrock_invoke", "openai_responses", None])
def test_a_container_of_another_provider_is_left_out(provider: Any) -> None:
    foreign = answer({"id": "container_1"}, provider=provider)
    assert "container" not in request(Content.human("?"), foreign, Content.human("!"))


def test_the_container_of_a_turn_is_in_the_next_request() -> None:
    turn = Turn("anthropic", turn_key="k")
    for event in (
        {"type": "message_start", "message": {"id": "msg_1", "content": [], "container": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "done"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "container_1"}}},
        {"type": "message_stop"},
    ):
        turn.feed(event)
    turn.close()
    assert turn.metadata == {"container": {"id": "container_1"}}
    assert turn.content.metadata["container"] == {"id": "container_1"}
    stored = Content.model_validate_json(turn.content.model_dump_json())
    assert request(Content.human("?"), stored, Content.human("!"))["container"] == "container_1"


# ---------------------------------------------------------------- any history

_provider = st.sampled_from([{}, OWN, {"provider": "gemini"}])
_texts = st.text(max_size=4)
_ids = st.sampled_from(["t1", "t2", "a.b", "a:b", "hist_tool_" + "x" * 24, ""])
_values = (
    st.none() | _texts | st.integers() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _texts}))
)
_blocks = st.one_of(
    st.builds(TextBlock, text=_texts, metadata=_provider),
    st.builds(ReasoningBlock, text=_texts, signature=st.none() | _texts, metadata=_provider),
    st.builds(ToolCallBlock, id=_ids, name=_texts, parameters=st.dictionaries(_texts, _texts), metadata=_provider),
    st.builds(ToolResponseBlock, call_id=_ids, result=_values, error=st.none() | _texts),
    st.builds(
        ReasoningBlock, opaque=st.just({"type": "redacted_thinking", "data": "x"}), metadata=_provider, text=st.just("")
    ),
    st.builds(UnknownBlock, type=st.just("odd")),
)
_histories = st.lists(
    st.builds(
        Content, speaker=st.sampled_from(["human", "ai", "tool", "system"]), blocks=st.lists(_blocks, max_size=4)
    ),
    max_size=6,
)


@given(_histories)
def test_any_history_renders_legally(history: list[Content]) -> None:
    rendered = render(*history)
    roles = [message["role"] for message in rendered.messages]
    assert roles == ["user" if n % 2 == 0 else "assistant" for n in range(len(roles))]
    used = [part["id"] for part in parts(rendered, "assistant") if part["type"] == "tool_use"]
    assert len(set(used)) == len(used)
    for message in rendered.messages:
        kinds = [part["type"] == "tool_result" for part in message["content"]]
        assert kinds == sorted(kinds, reverse=True)
        for part in message["content"]:
            assert part["type"] != "text" or part["text"].strip()


def result_of(block: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a result of a request that was read and written again, and the changes."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [call]}]
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", **block}]})
    changes: list[str] = []
    request = providers.parse_request({"model": "m", "max_tokens": 5, "messages": messages}, "anthropic")
    body = providers.render_request(request, "anthropic", changes=changes)
    part: dict[str, Any] = body["messages"][2]["content"][0]
    return part, changes


@pytest.mark.parametrize("is_error", [False, True])
def test_a_cache_mark_in_a_result_is_the_mark_of_the_result(is_error: bool) -> None:
    marked = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    for content in ([marked], [{"type": "text", "text": "a"}, marked], [marked, {"type": "text", "text": "c"}]):
        part, changes = result_of({"content": content, "is_error": is_error})
        assert part["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        assert "cache_control" not in str(part["content"])
        assert changes == []
    part, _ = result_of({"content": [marked], "cache_control": {"type": "ephemeral"}})
    assert part["cache_control"] == {"type": "ephemeral"}


def test_what_a_failed_result_cannot_have_is_reported() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    part, changes = result_of({"content": [{"type": "text", "text": "no"}, image], "is_error": True})
    assert (part["content"], part["is_error"]) == ("no", True)
    assert changes == ["the result of a failed call was left out: only its error was sent"]
    assert result_of({"content": [{"type": "text", "text": "no"}], "is_error": True})[1] == []
