"""Anthropic's messages to history, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported_messages import SPOKEN, Json, results_of, rounds

from streamkit import providers
from streamkit.history import (
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers import parse_messages, render


def test_anthropic_keeps_thinking_server_tools_and_failed_results() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    answer: list[Json] = [
        {"type": "thinking", "thinking": "hm", "signature": "SIG"},
        {"type": "redacted_thinking", "data": "XX"},
        use,
        search_result,
        {"type": "text", "text": "So", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "boom", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
            ],
        },
    ]
    provider_messages = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [*results, {"type": "text", "text": "and?"}]},
    ]
    contents = parse_messages(provider_messages, "anthropic")
    assert [content.speaker for content in contents] == ["human", "ai", "tool", "human"]
    thinking, redacted, search, text = contents[1].blocks[:4]
    assert isinstance(thinking, ReasoningBlock)
    assert (thinking.text, thinking.signature) == ("hm", "SIG")
    assert isinstance(redacted, ReasoningBlock)
    assert redacted.opaque == answer[1]
    assert isinstance(search, ServerToolBlock)
    assert (search.name, search.arguments, search.result, search.raw) == (
        "web_search",
        {"query": "q"},
        [],
        [use, search_result],
    )
    assert text.metadata["citations"] == [{"url": "u"}]
    failed, with_image = contents[2].blocks
    assert isinstance(failed, ToolResponseBlock)
    assert (failed.status, failed.error) == ("error", "boom")
    assert isinstance(with_image, ToolResponseBlock)
    assert with_image.result[1] == {"type": "image", "data": "data:image/png;base64,QQ=="}
    assert render(contents, "anthropic", ids="origin") == provider_messages


def test_anthropic_keeps_the_blocks_and_the_toolset_of_a_result() -> None:
    reference = {"type": "tool_reference", "tool_name": "get_rate"}
    state = {"type": "browser_state", "tabs": [{"tab_id": 1, "active": True}]}
    member = {"toolset_name": "browser"}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}},
                {"type": "tool_use", "id": "toolu_2", "name": "navigate", "input": {}, **member},
                {"type": "tool_use", "id": "toolu_3", "name": "click", "input": {}, **member},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [reference]},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [{"type": "text", "text": "ok"}, state],
                    **member,
                },
                {"type": "tool_result", "tool_use_id": "toolu_3", "content": "boom", "is_error": True, **member},
            ],
        },
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert render(contents[2:], "anthropic", ids="origin", repair=False)[-1] == provider_messages[2]
    assert changes == []


def test_anthropic_keeps_the_fields_and_the_tool_changes_of_system_messages() -> None:
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "get_rate"}}
    text = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "?"}]},
        {"role": "system", "content": [addition]},
        {"role": "system", "content": [text, {**addition, "type": "tool_removal"}], "clear_at": "next_user_message"},
        {"role": "system", "content": [{"type": "text", "text": "Think."}]},
        {"role": "system", "output_config": {"effort": "low"}},
        {"role": "system", "content": [{"type": "text", "text": "Now."}], "output_config": {"effort": "high"}},
        {"role": "assistant", "content": [{"type": "text", "text": "."}]},
    ]
    contents = parse_messages(provider_messages, "anthropic")
    assert [content.speaker for content in contents] == ["human", *["system"] * 5, "ai"]
    assert contents[2].blocks[0].text == "Be brief."
    assert render(contents, "anthropic") == provider_messages
    changes: list[str] = []
    other = render(contents, "openai_chat", changes=changes)
    assert [message["content"] for message in other] == ["?", "Be brief.", "Think.", "Now.", "."]
    assert changes


@pytest.mark.parametrize("mark", [{}, {"cache_control": {"type": "ephemeral"}}])
def test_anthropic_alone_gets_the_text_for_its_accounting(mark: Json) -> None:
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.117.48f; cch=71fea;", **mark}
    system = [billing, {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    changes: list[str] = []
    contents = parse_messages([{"role": "user", "content": "?"}], "anthropic", system=system, changes=changes)
    for name in ("anthropic", "bedrock_invoke"):
        assert providers.render_request(contents, name, changes=changes)["system"] == system
    assert changes == []
    for name in providers.names():
        if name not in ("anthropic", "bedrock_invoke"):
            changes = []
            body = json.dumps(providers.render_request(contents, name, changes=changes))
            assert "Be brief." in body, name
            assert "billing" not in body, name
            assert len(changes) == 1, name


def test_anthropic_keeps_the_fields_of_documents_and_images() -> None:
    document: Json = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Grass is green."},
        "title": "Facts",
        "context": "A draft.",
        "citations": {"enabled": True},
    }
    image: Json = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "transformations": {"a": 1}}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{**document, "cache_control": {"type": "ephemeral"}}, image]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [document, image]}]},
    ]
    changes: list[str] = []
    contents = parse_messages(provider_messages, "anthropic", changes=changes)
    assert render(contents, "anthropic", ids="origin") == provider_messages
    assert changes == []
    other = json.dumps(render(contents, "gemini", unsupported="text"))
    assert "citations" not in other
    assert other.count("A draft.") == 1  # of the person's document, as a text before it


def test_anthropic_string_parts_and_rare_blocks_are_parsed() -> None:
    said: list[Any] = [
        "plain",
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "text", "data": "t"}},
        {"type": "document", "source": "odd"},
        {"type": "image", "source": "odd"},
    ]
    late = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0", "content": []}
    odd = {"type": "compaction", "content": "x"}
    answered: list[Any] = [
        "plain",
        late,
        odd,
        {"type": "tool_use", "id": "1", "name": "f", "input": {3: 4}, "self": 1},
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "one"}]},
    ]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": "2",
            "is_error": True,
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {
            "type": "tool_result",
            "tool_use_id": "3",
            "content": [{"type": "image", "source": {"type": "url", "url": "u"}}, {"type": "search_result"}],
        },
        {"type": "tool_result", "tool_use_id": "4", "is_error": True},
    ]
    contents = parse_messages(
        [
            {"role": "user", "content": said},
            {"role": "assistant", "content": answered},
            {"role": "user", "content": results},
            {"role": "system", "content": ["Be brief.", 3]},
            {"role": "robot", "content": "?"},
        ],
        "anthropic",
    )
    assert [content.speaker for content in contents] == ["human", "ai", "tool", "tool", "system", "robot"]
    text, image, document, stored, plain, *odd_ones = contents[0].blocks
    assert (text, image) == (TextBlock(text="plain"), ImageBlock(data="https://x/y.png"))
    assert document == FileBlock(url="https://x/a.pdf")
    assert plain == FileBlock(media_type="text/plain", data="dA==")
    assert [block.raw for block in (stored, *odd_ones) if isinstance(block, OpaqueBlock)] == [said[3], *said[5:]]
    _, server, opaque, call = contents[1].blocks
    assert isinstance(server, ServerToolBlock)
    assert (server.id, server.raw) == (None, [late])
    assert isinstance(opaque, OpaqueBlock)
    assert opaque.raw == odd
    assert isinstance(call, ToolCallBlock)
    assert call.parameters == {}
    assert call.metadata == {"provider": "anthropic", "raw_id": "1", "raw_arguments": '{"3":4}', "self": 1}
    one, failed, with_image, empty = results_of(contents)
    assert (one.result, one.call_id) == ("one", call.id)
    assert (failed.error, failed.status) == ("a\nb", "error")
    assert with_image.result == [{"type": "image", "data": "u"}, {"type": "search_result"}]
    assert (empty.error, empty.status) == ("", "error")


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
