"""History as Anthropic messages: what the API refuses never leaves, and nothing is changed in silence."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import request_validators
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import request_of

from streamkit import providers
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

ANTHROPIC = providers.get("anthropic")

OWN = {"provider": "anthropic"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def call(id: str, name: str = "w", metadata: dict[str, Any] | None = None, **parameters: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters=parameters, metadata=metadata or {})


def result(call_id: str, value: Any = "ok", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, name="w", result=value, **fields)])


def rendered(*contents: Content, ids: Any = None, name: str = "anthropic") -> RenderedMessages:
    thread = providers.dialect(name, ANTHROPIC).render(contents, ids=ids)
    request_validators.anthropic_messages(thread.messages)
    return thread


def shape(thread: RenderedMessages) -> list[tuple[str, list[str]]]:
    return [(message["role"], [part["type"] for part in message["content"]]) for message in thread.messages]


def parts(thread: RenderedMessages, role: str) -> list[Any]:
    return [part for message in thread.messages if message["role"] == role for part in message["content"]]


# ---------------------------------------------------------------- messages


def test_text_of_both_sides() -> None:
    thread = rendered(Content.human("Hi"), Content.ai("Hello"), Content.human("Bye"))
    assert thread.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "Bye"}]},
    ]
    assert thread.changes == []


def test_messages_of_one_role_are_merged() -> None:
    thread = rendered(Content.human("a"), Content.human("b"), Content.ai("c"), Content.ai("d"))
    assert shape(thread) == [("user", ["text", "text"]), ("assistant", ["text", "text"])]


def test_system_text_stands_apart() -> None:
    thread = rendered(Content.system("Be brief."), Content.system("Be kind."), Content.system(" "), Content.human("Hi"))
    assert thread.system == "Be brief.\n\nBe kind."
    assert shape(thread) == [("user", ["text"])]
    assert thread.changes == []


def test_system_text_within_the_conversation_is_moved_and_said() -> None:
    thread = rendered(Content.human("Hi"), Content.system("Be brief.", ImageBlock(data=PIXEL)))
    assert thread.system == "Be brief."
    assert len(thread.changes) == 2


def test_blank_text_is_left_out() -> None:
    thread = rendered(Content.human("Hi", TextBlock(text=" \n"), TextBlock(text="")))
    assert shape(thread) == [("user", ["text"])]
    assert thread.changes == ["a text of nothing but white space was left out"]


def test_white_space_is_cut_off_only_behind_the_last_assistant_text() -> None:
    thread = rendered(Content.human("Hi"), Content.ai("one \n"), Content.human("go on"), Content.ai("two \n"))
    assert [part["text"] for part in parts(thread, "assistant")] == ["one \n", "two"]
    assert len(thread.changes) == 1


def test_first_message_is_a_users() -> None:
    thread = rendered(Content.ai("Hello"), Content.human("Hi"))
    assert shape(thread) == [("user", ["text"]), ("assistant", ["text"]), ("user", ["text"])]
    assert thread.changes == ["a user message '(continued)' was put in front: the first message must be a user's"]


def test_nothing_renders_as_nothing() -> None:
    assert rendered() == RenderedMessages()
    assert rendered(Content.human(""), Content.ai("")).messages == []


def test_unknown_speakers_and_blocks_are_left_out_and_said() -> None:
    odd = UnknownBlock(type="hologram")
    thread = rendered(Content(speaker="oracle", blocks=[]), Content.human("Hi", odd), Content.ai("a", odd))
    assert shape(thread) == [("user", ["text"]), ("assistant", ["text"])]
    assert len(thread.changes) == 3


# ---------------------------------------------------------------- calls and results


def test_results_of_a_batch_stand_first_and_in_call_order() -> None:
    thread = rendered(
        Content.human("?"),
        Content.ai("", call("t1"), call("t2")),
        result("t2", "2"),
        result("t1", "1"),
        Content.human("and?"),
    )
    assert shape(thread)[1:] == [
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    assert [part.get("content") for part in parts(thread, "user")[1:3]] == ["1", "2"]


def test_text_said_before_the_results_comes_behind_them() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("t1")), Content.human("wait"), result("t1"))
    assert shape(thread)[-1] == ("user", ["tool_result", "text"])


def test_result_inside_an_assistant_content_is_a_users() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("t1"), ToolResponseBlock(call_id="t1", result="x")))
    assert shape(thread)[1:] == [("assistant", ["tool_use"]), ("user", ["tool_result"])]


def test_call_and_result_share_a_legal_id() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("functions.Bash:0")), result("functions.Bash:0"))
    used, answered = parts(thread, "assistant")[0]["id"], parts(thread, "user")[1]["tool_use_id"]
    assert used == answered
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", used)


def test_canonical_ids_get_the_vendors_prefix() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("hist_tool_" + "a" * 24)))
    assert parts(thread, "assistant")[0]["id"] == "toolu_" + "a" * 24


def test_ids_that_differ_only_in_illegal_characters_stay_two() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("a.b"), call("a:b")))
    first, second = parts(thread, "assistant")
    assert first["id"] != second["id"]


def test_one_id_in_two_turns_is_two_ids_and_results_pair_by_order() -> None:
    thread = rendered(
        Content.human("?"),
        Content.ai("", call("list_dir:0")),
        result("list_dir:0", "1"),
        Content.ai("", call("list_dir:0")),
        result("list_dir:0", "2"),
    )
    calls = [part["id"] for part in parts(thread, "assistant")]
    results = [part for part in parts(thread, "user") if part["type"] == "tool_result"]
    assert len(set(calls)) == 2
    assert [part["tool_use_id"] for part in results] == calls
    assert [part["content"] for part in results] == ["1", "2"]


def test_origin_gives_a_call_of_the_family_its_own_id_back() -> None:
    own = call("hist_tool_" + "a" * 24, metadata={**OWN, "raw_id": "toolu_01"})
    foreign = call("hist_tool_" + "b" * 24, metadata={"provider": "openai_chat", "raw_id": "call_1"})
    history = [Content.human("?"), Content.ai("", own, foreign), result(own.id), result(foreign.id)]
    used = [part["id"] for part in parts(rendered(*history, ids="origin"), "assistant")]
    assert used == ["toolu_01", "toolu_" + "b" * 24]
    assert [part["id"] for part in parts(rendered(*history), "assistant")] == ["toolu_" + "a" * 24, "toolu_" + "b" * 24]


def test_input_is_always_an_object() -> None:
    cut = ToolCallBlock(id="t1", name="w", parameters={}, metadata={"raw_arguments": '{"a":"b'})
    custom = ToolCallBlock(id="t2", name="w", parameters="free text", kind="custom")
    thread = rendered(Content.human("?"), Content.ai("", cut, custom))
    assert [part["input"] for part in parts(thread, "assistant")] == [{}, {"input": "free text"}]
    assert len(thread.changes) == 1


def test_name_that_would_be_refused_is_mended_and_said() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("t1", "a.b"), call("t2", "")))
    assert [part["name"] for part in parts(thread, "assistant")] == ["a_b", "unnamed"]
    assert len(thread.changes) == 2


def test_caller_goes_back_unless_it_is_the_default() -> None:
    code = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    thread = rendered(
        Content.human("?"),
        Content.ai(
            "",
            call("t1", metadata={**OWN, "caller": code}),
            call("t2", metadata={**OWN, "caller": {"type": "direct"}}),
            call("t3", metadata={"provider": "x", "caller": code}),
            call("t4", metadata={**OWN, "toolset_name": "files"}),
        ),
    )
    assert [part.get("caller") for part in parts(thread, "assistant")] == [code, None, None, None]
    assert parts(thread, "assistant")[3]["toolset_name"] == "files"


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
def test_results(value: Any, content: Any) -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    part = parts(thread, "user")[1]
    assert part["content"] == content
    assert "is_error" not in part


def test_native_image_part_of_a_result_goes_through() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    thread = rendered(
        Content.human("?"), Content.ai("", call("t1")), result("t1", [{"type": "image", "source": source}])
    )
    assert parts(thread, "user")[1]["content"] == [{"type": "image", "source": source}]


def test_image_that_is_not_taken_is_named_in_a_result() -> None:
    value = [{"type": "image", "data": "x", "mimeType": "image/tiff"}]
    thread = rendered(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert parts(thread, "user")[1]["content"] == [{"type": "text", "text": "[image that was attached here]"}]
    assert len(thread.changes) == 1


def test_an_image_without_data_is_data() -> None:
    value = [{"type": "image", "data": None}]
    thread = rendered(Content.human("?"), Content.ai("", call("t1")), result("t1", value))
    assert json.loads(parts(thread, "user")[1]["content"]) == value


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"status": "error", "error": "boom"}, "boom"),
        ({"error": "boom"}, "boom"),
        ({"status": "denied"}, "The call did not complete: denied."),
        ({"status": "error", "value": {"a": 1}}, '{"a":1}'),
    ],
)
def test_failed_results_are_errors(fields: dict[str, Any], said: str) -> None:
    value = fields.pop("value", None)
    part = parts(rendered(Content.human("?"), Content.ai("", call("t1")), result("t1", value, **fields)), "user")[1]
    assert part["content"] == said
    assert part["is_error"] is True


def test_completed_result_is_no_error() -> None:
    thread = rendered(Content.human("?"), Content.ai("", call("t1")), result("t1", "x", status="completed"))
    assert "is_error" not in parts(thread, "user")[1]


def test_orphans_do_not_crash() -> None:
    thread = rendered(Content.human("?"), result("tX", "x"), Content.ai("", call("t1")), Content.human("next"))
    assert shape(thread) == [("user", ["tool_result", "text"]), ("assistant", ["tool_use"]), ("user", ["text"])]


# ---------------------------------------------------------------- what the provider wants back


def test_signed_thinking_goes_back_in_its_order() -> None:
    thread = rendered(
        Content.human("?"),
        Content.ai(
            "",
            ReasoningBlock(text="a", signature="S1", metadata=OWN),
            TextBlock(text="b", metadata=OWN),
            ReasoningBlock(text="", signature="S2", metadata=OWN),
            call("t1"),
        ),
    )
    assert parts(thread, "assistant")[:3] == [
        {"type": "thinking", "thinking": "a", "signature": "S1"},
        {"type": "text", "text": "b"},
        {"type": "thinking", "thinking": "", "signature": "S2"},
    ]
    assert thread.changes == []


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
def test_thinking_that_would_be_refused_is_left_out_and_said(block: ReasoningBlock) -> None:
    thread = rendered(Content.human("?"), Content.ai("", block, TextBlock(text="b")))
    assert shape(thread)[1] == ("assistant", ["text"])
    assert len(thread.changes) == 1


@pytest.mark.parametrize("source", ["anthropic", "bedrock_invoke"])
@pytest.mark.parametrize("target", ["anthropic", "bedrock_invoke", "my_relay"])
def test_opaque_state_goes_back_unchanged_within_the_family(source: str, target: str) -> None:
    own = {"provider": source}
    redacted = {"type": "redacted_thinking", "data": "OPAQUE"}
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E"}]
    answer = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}
    upload = {"type": "container_upload", "file_id": "f"}
    thread = rendered(
        Content.human("?"),
        Content.ai(
            "",
            ReasoningBlock(opaque=redacted, metadata=own),
            ServerToolBlock(id="srvtoolu_1", name="web_search", raw=[use, answer], metadata=own),
            OpaqueBlock(raw=upload, metadata=own),
        ),
        name=target,
    )
    assert parts(thread, "assistant") == [redacted, use, answer, upload]
    assert thread.changes == []


def test_server_tools_and_opaque_blocks_of_others_are_left_out_and_said() -> None:
    foreign = {"provider": "openai_responses"}
    thread = rendered(
        Content.human("?"),
        Content.ai(
            "a",
            ServerToolBlock(name="web_search", raw=[{"type": "web_search_call"}], metadata=foreign),
            OpaqueBlock(raw={"type": "x"}, metadata=foreign),
            ServerToolBlock(name="empty", metadata=OWN),
        ),
    )
    assert shape(thread)[1] == ("assistant", ["text"])
    assert len(thread.changes) == 3


def test_citations_go_back_with_their_text() -> None:
    citation = {
        "type": "web_search_result_location",
        "cited_text": "c",
        "encrypted_index": "E",
        "title": "t",
        "url": "u",
    }
    mine = TextBlock(text="a", metadata={**OWN, "citations": [citation]})
    foreign = TextBlock(text="b", metadata={"provider": "perplexity", "citations": [citation]})
    thread = rendered(Content.human("?"), Content.ai("", mine, foreign))
    assert parts(thread, "assistant") == [
        {"type": "text", "text": "a", "citations": [citation]},
        {"type": "text", "text": "b"},
    ]


def test_explanation_of_a_refusal_is_not_the_models_text() -> None:
    thread = rendered(Content.human("?"), Content.ai("", TextBlock(text="No.", metadata={**OWN, "refusal": True})))
    assert shape(thread) == [("user", ["text"])]
    assert len(thread.changes) == 1


# ---------------------------------------------------------------- images and files


def test_images_by_data_and_by_address() -> None:
    thread = rendered(
        Content.human(
            "look",
            ImageBlock(data=PIXEL),
            ImageBlock(data="https://e.org/a.png"),
            ImageBlock(data="data:image/jpg;base64,/9j/"),
        )
    )
    assert [part["source"] for part in parts(thread, "user")[1:]] == [
        {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        {"type": "url", "url": "https://e.org/a.png"},
        {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"},
    ]


@pytest.mark.parametrize("data", ["/tmp/a.png", "data:image/tiff;base64,AA==", "data:image/png,plain", ""])  # noqa: S108
def test_image_in_another_form_is_refused(data: str) -> None:
    with pytest.raises(UnsupportedContent, match="Anthropic takes images"):
        ANTHROPIC.render([Content.human("look", ImageBlock(data=data))])


def test_images_of_an_assistant_are_left_out_and_said() -> None:
    thread = rendered(Content.human("draw"), Content.ai("here", ImageBlock(data=PIXEL), FileBlock(data="x")))
    assert shape(thread)[1] == ("assistant", ["text"])
    assert len(thread.changes) == 2


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
def test_files(block: FileBlock, part: dict[str, Any]) -> None:
    assert parts(rendered(Content.human("read", block)), "user")[1] == part


@pytest.mark.parametrize(
    "block",
    [
        FileBlock(media_type="audio/mpeg", data="AA=="),
        FileBlock(media_type="application/pdf", name="empty.pdf"),
        FileBlock(data="AA=="),
        FileBlock(),
    ],
)
def test_files_in_another_form_are_refused(block: FileBlock) -> None:
    with pytest.raises(UnsupportedContent):
        ANTHROPIC.render([Content.human("read", block)])


# ---------------------------------------------------------------- the request


WEATHER = Tool(name="w", description="The weather.", parameters={"type": "object", "properties": {}})


def request(*contents: Content, **options: Any) -> dict[str, Any]:
    body = request_of(ANTHROPIC, contents, **options)
    request_validators.anthropic_request(body)
    return body


def test_request_leaves_out_what_is_absent() -> None:
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
def test_tool_choice(choice: str, form: dict[str, Any]) -> None:
    assert request(Content.human("Hi"), tools=[WEATHER], tool_choice=choice)["tool_choice"] == form


def test_tool_choice_without_tools_is_left_out() -> None:
    assert "tool_choice" not in request(Content.human("Hi"), tool_choice="none")


def test_request_names_the_container_whose_code_waits() -> None:
    waiting = {
        **OWN,
        "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"},
        "container": {"id": "container_1"},
    }
    asked = [Content.human("?"), Content.ai("", call("t1", metadata=waiting)), result("t1")]
    assert request(*asked)["container"] == "container_1"
    assert "container" not in request(*asked, Content.ai("done"), Content.human("thanks"))
    direct = {**waiting, "caller": {"type": "direct"}}
    assert "container" not in request(Content.human("?"), Content.ai("", call("t1", metadata=direct)), result("t1"))


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


@settings(max_examples=100, deadline=None)
@given(_histories)
def test_any_history_renders_legally(history: list[Content]) -> None:
    thread = rendered(*history)
    roles = [message["role"] for message in thread.messages]
    assert roles == ["user" if n % 2 == 0 else "assistant" for n in range(len(roles))]
    used = [part["id"] for part in parts(thread, "assistant") if part["type"] == "tool_use"]
    assert len(set(used)) == len(used)
    for message in thread.messages:
        kinds = [part["type"] == "tool_result" for part in message["content"]]
        assert kinds == sorted(kinds, reverse=True)
        for part in message["content"]:
            assert part["type"] != "text" or part["text"].strip()
