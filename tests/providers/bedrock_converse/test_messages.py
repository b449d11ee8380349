"""History as Converse messages, validated with the service model and with what the service refuses beyond it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
import request_validators
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
from streamkit.tools import Tool

OWN = {"provider": "bedrock_converse"}
PROVIDER = providers.get("bedrock_converse")
HUMAN = Content.human("hi")
PNG = "data:image/png;base64,QUJD"


def call(id: str = "c1", name: str = "w", parameters: Any = None, **metadata: Any) -> ToolCallBlock:
    return ToolCallBlock(id=id, name=name, parameters={} if parameters is None else parameters, metadata=metadata)


def results(*blocks: ToolResponseBlock) -> Content:
    return Content(speaker="tool", blocks=list(blocks))


def result(id: str = "c1", value: Any = "ok", **fields: Any) -> ToolResponseBlock:
    return ToolResponseBlock(call_id=id, result=value, **fields)


def render(*contents: Content, **options: Any) -> tuple[list[dict[str, Any]], Sequence[str]]:
    rendered = PROVIDER.render(list(contents), **options)
    return rendered.messages, rendered.changes


def contents_of(*blocks: Any) -> list[dict[str, Any]]:
    """Return the rendered content of an assistant's blocks."""
    messages, _ = render(HUMAN, Content(speaker="ai", blocks=list(blocks)))
    return messages[1]["content"] if len(messages) > 1 else []


def test_a_round_of_two_calls() -> None:
    messages, changes = render(
        HUMAN,
        Content.ai("Looking.", call("c1", "a", {"x": 1}), call("c2", "b")),
        results(result("c2", {"n": 1})),
        results(result("c1", "one")),
        Content.ai("Done."),
    )
    request_validators.bedrock_messages(messages)
    assert messages == [
        {"role": "user", "content": [{"text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "Looking."},
                {"toolUse": {"toolUseId": "c1", "name": "a", "input": {"x": 1}}},
                {"toolUse": {"toolUseId": "c2", "name": "b", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "one"}]}},
                {"toolResult": {"toolUseId": "c2", "content": [{"json": {"n": 1}}]}},
            ],
        },
        {"role": "assistant", "content": [{"text": "Done."}]},
    ]
    assert changes == []


def test_text_after_the_calls_is_moved_before_them() -> None:
    sent = contents_of(call("c1"), TextBlock(text="late"), call("c2"), TextBlock(text="later"))
    assert [next(iter(part)) for part in sent] == ["text", "text", "toolUse", "toolUse"]
    assert sent[0] == {"text": "late"}
    _, changes = render(HUMAN, Content.ai("", call(), TextBlock(text="late")))
    assert changes == ["parts after a call in the same message were moved before it"]


def test_signed_reasoning_between_calls_keeps_its_position_and_after_them_is_moved() -> None:
    def thought(text: str) -> ReasoningBlock:
        return ReasoningBlock(text=text, signature="s", metadata=OWN)

    sent = contents_of(thought("same"), call("c1"), thought("same"), call("c2"), thought("same"))
    assert [next(iter(part)) for part in sent] == [
        *("reasoningContent", "reasoningContent", "toolUse", "reasoningContent", "toolUse"),
    ]


def test_blank_texts_and_empty_results() -> None:
    messages, changes = render(
        HUMAN, Content.ai("", TextBlock(text=" \n"), TextBlock(text=""), call()), results(result(value=""))
    )
    request_validators.bedrock_messages(messages)
    assert len(messages[1]["content"]) == 1
    assert messages[2]["content"] == [{"toolResult": {"toolUseId": "c1", "content": [{"text": "(no output)"}]}}]
    assert changes == ["a text of nothing but white space was left out"]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, [{"text": "(no output)"}]),
        ({}, [{"text": "{}"}]),
        ([], [{"text": "[]"}]),
        ([1, {"a": "ü"}], [{"text": '[1,{"a":"ü"}]'}]),
        (4, [{"text": "4"}]),
        ({"a": [1]}, [{"json": {"a": [1]}}]),
        (
            [{"type": "text", "text": "see"}, {"type": "image", "data": "QUJD", "mimeType": "image/png"}],
            [{"text": "see"}, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}],
        ),
        ([{"type": "image", "data": PNG}], [{"image": {"format": "png", "source": {"bytes": "QUJD"}}}]),
        ([{"type": "text", "text": " "}], [{"text": "(no output)"}]),
        ([{"type": "image", "data": "?"}], [{"text": '[{"type":"image","data":"?"}]'}]),
        ([{"type": "audio"}], [{"text": '[{"type":"audio"}]'}]),
    ],
)
def test_results_of_every_type(value: Any, content: list[dict[str, Any]]) -> None:
    messages, _ = render(HUMAN, Content.ai("", call()), results(result(value=value)))
    request_validators.bedrock_messages(messages)
    assert messages[2]["content"][0]["toolResult"]["content"] == content


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"error": "no such city"}, "no such city"),
        ({"status": "denied", "value": None}, "The call did not complete: denied."),
        ({"status": "error", "value": {"a": 1}}, '{"a":1}'),
        ({"error": " "}, "The call did not complete: None."),
    ],
)
def test_failed_results(fields: dict[str, Any], text: str) -> None:
    messages, _ = render(HUMAN, Content.ai("", call()), results(result(**fields)))
    request_validators.bedrock_messages(messages)
    assert messages[2]["content"][0]["toolResult"] == {
        "toolUseId": "c1",
        "content": [{"text": text}],
        "status": "error",
    }


def test_reasoning_is_sent_back_only_to_its_provider() -> None:
    redacted = {"reasoningContent": {"redactedContent": "QUI="}}
    own = [
        ReasoningBlock(text="Hm.", signature="s", metadata=OWN),
        ReasoningBlock(text="", signature="only", metadata=OWN),
        ReasoningBlock(opaque=redacted, metadata=OWN),
    ]
    assert contents_of(*own, TextBlock(text="x")) == [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "only"}}},
        redacted,
        {"text": "x"},
    ]
    foreign = [
        ReasoningBlock(text="Hm.", signature="s", metadata={"provider": "anthropic"}),
        ReasoningBlock(text="unsigned", metadata=OWN),
        ReasoningBlock(text="of an unknown provider"),
    ]
    assert contents_of(*foreign, TextBlock(text="x")) == [{"text": "x"}]


def test_an_assistant_message_of_reasoning_alone_is_omitted() -> None:
    messages, changes = render(
        HUMAN, Content.ai("", ReasoningBlock(text="Hm.", signature="s", metadata=OWN)), Content.human("and?")
    )
    assert messages == [{"role": "user", "content": [{"text": "hi"}, {"text": "and?"}]}]
    assert len(changes) == 1


def test_server_tools_are_sent_back_unchanged_and_only_to_their_provider() -> None:
    raw = [
        {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s1", "content": [{"text": "x"}], "type": "nova_grounding_result"}},
    ]
    document = {"document": {"format": "txt", "name": "x", "source": {"text": "y"}}}
    sent = contents_of(
        ServerToolBlock(id="s1", name="nova_grounding", raw=raw, metadata=OWN),
        OpaqueBlock(raw=document, metadata=OWN),
        TextBlock(text="Found."),
    )
    assert sent == [*raw, document, {"text": "Found."}]
    other = {"provider": "anthropic"}
    blocks = [ServerToolBlock(id="s1", name="n", raw=raw, metadata=other), OpaqueBlock(raw=document, metadata=other)]
    messages, changes = render(HUMAN, Content.ai("Found.", *blocks))
    assert messages[1]["content"] == [{"text": "Found."}]
    assert len(changes) == 2


def test_cited_text_is_sent_back_with_its_sources() -> None:
    citation = {"location": {"web": {"url": "https://x.y"}}}
    cited = TextBlock(text="x", metadata={**OWN, "citations": [citation]})
    sent = contents_of(cited, call())
    assert sent[0] == {"citationsContent": {"content": [{"text": "x"}], "citations": [citation]}}
    request_validators.bedrock_messages(
        [{"role": "user", "content": [{"text": "hi"}]}, {"role": "assistant", "content": sent}]
    )
    assert contents_of(TextBlock(text="x", metadata={"citations": [citation]})) == [{"text": "x"}]


def test_names_and_arguments_are_made_legal() -> None:
    sent = contents_of(ToolCallBlock(id="c1", name="a.b " + "x" * 80, parameters="free text", kind="custom"))
    assert sent[0]["toolUse"]["name"] == ("a_b_" + "x" * 80)[:64]
    assert sent[0]["toolUse"]["input"] == {"input": "free text"}
    assert contents_of(call(name=""))[0]["toolUse"]["name"] == "unnamed"


def test_call_and_result_share_an_id_that_is_unique() -> None:
    canonical = "hist_tool_" + "a" * 24
    messages, _ = render(
        HUMAN,
        Content.ai("", call(canonical), call("functions.w:0"), call("functions.w:0", "v")),
        results(result(canonical), result("functions.w:0", 1), result("functions.w:0", 2)),
        results(result("functions.w:0", 3), result("unknown")),
    )
    ids = [part["toolUse"]["toolUseId"] for part in messages[1]["content"]]
    assert ids[0] == "tooluse_" + "a" * 24
    assert len(set(ids)) == 3
    result_ids = [part["toolResult"]["toolUseId"] for part in messages[2]["content"]]
    assert result_ids[0] == ids[0]
    assert sorted(result_ids[1:4]) == sorted([ids[1], ids[2], ids[2]])
    assert result_ids[4] == "unknown"


def test_origin_restores_the_id_of_a_call_of_this_wire() -> None:
    own = call("hist_tool_" + "a" * 24, raw_id="tooluse_x", **OWN)
    foreign = call("hist_tool_" + "b" * 24, raw_id="call_x", provider="openai")
    for policy, first in (("origin", "tooluse_x"), ("canonical", "tooluse_" + "a" * 24)):
        messages, _ = render(HUMAN, Content.ai("", own, foreign), ids=policy)
        ids = [part["toolUse"]["toolUseId"] for part in messages[1]["content"]]
        assert ids == [first, "tooluse_" + "b" * 24]


def test_images_and_files() -> None:
    messages, _ = render(
        Content.human(
            "look",
            ImageBlock(data="data:image/jpg;base64,QUJD"),
            ImageBlock(data="s3://bucket/x.webp"),
            FileBlock(media_type="application/pdf", data="QUJD", name="my  rep_ort.v2.pdf"),
            FileBlock(media_type="application/pdf", data="data:application/pdf;base64,QUJD", name="my rep-ort-v2.pdf"),
            FileBlock(data="data:text/plain;base64,QUJD"),
            FileBlock(media_type="video/mp4", url="s3://bucket/x.mp4"),
            FileBlock(media_type="image/png", data="QUJD"),
        )
    )
    request_validators.bedrock_messages(messages)
    parts = messages[0]["content"]
    assert parts[1] == {"image": {"format": "jpeg", "source": {"bytes": "QUJD"}}}
    assert parts[2] == {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://bucket/x.webp"}}}}
    assert [part["document"]["name"] for part in parts[3:6]] == ["my rep-ort-v2", "my rep-ort-v2 (2)", "document"]
    assert [part["document"]["format"] for part in parts[3:6]] == ["pdf", "pdf", "txt"]
    assert parts[6] == {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/x.mp4"}}}}
    assert parts[7] == {"image": {"format": "png", "source": {"bytes": "QUJD"}}}


def test_a_document_is_accompanied_by_a_text() -> None:
    messages, changes = render(Content.human("", FileBlock(media_type="text/csv", data="QUJD")))
    assert messages[0]["content"][1] == {"text": "(see the document)"}
    assert changes == ["a text was added to a message with a document: the API requires one"]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(data="https://x.y/z.png"),
        ImageBlock(data="data:image/tiff;base64,QUJD"),
        FileBlock(media_type="application/zip", data="QUJD"),
        FileBlock(data="QUJD"),
        FileBlock(media_type="application/pdf", url="https://x.y/z.pdf"),
        FileBlock(name="x"),
    ],
)
def test_unsupported_content_raises(block: Any) -> None:
    with pytest.raises(UnsupportedContent, match="Bedrock takes"):
        render(Content.human("look", block))


def test_blocks_without_a_form_are_omitted_and_reported() -> None:
    messages, changes = render(
        Content(speaker="narrator", blocks=[TextBlock(text="x")]),
        Content.system("Be brief.", ImageBlock(data=PNG)),
        Content.human("hi", UnknownBlock(type="poke")),
        Content.ai("yes ", FileBlock(media_type="image/png", data="QUJD")),
        Content.system("Later."),
    )
    assert messages == [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"text": "yes"}]},
    ]
    assert len(changes) == 6
    assert PROVIDER.render([Content.system("a"), Content.system(" "), Content.system("b")]).system == "a\n\nb"  # type: ignore[attr-defined]


def test_a_conversation_starts_with_a_user_message() -> None:
    messages, changes = render(Content.ai("Welcome."), HUMAN)
    request_validators.bedrock_messages(messages)
    assert messages[0] == {"role": "user", "content": [{"text": "(continued)"}]}
    assert len(changes) == 1
    assert render() == ([], [])


# ---------------------------------------------------------------- requests

TOOL = Tool(name="w", description="Weather.", parameters={"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", {"auto": {}}), ("required", {"any": {}}), ("w", {"tool": {"name": "w"}}), (None, None)],
)
def test_every_tool_choice_has_its_form(choice: str | None, sent: dict[str, Any] | None) -> None:
    body = request_of(PROVIDER, [Content.system("Be brief."), HUMAN], tools=[TOOL], tool_choice=choice)
    request_validators.bedrock_request(body)
    assert body["system"] == [{"text": "Be brief."}]
    spec = {"name": "w", "description": "Weather.", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    assert body["toolConfig"] == {"tools": [{"toolSpec": spec}], **({"toolChoice": sent} if sent else {})}
    assert set(body) == {"system", "messages", "toolConfig"}


def test_request_declares_the_tools_that_the_history_calls() -> None:
    history = [
        HUMAN,
        Content.ai("", call("c1", "b"), call("c2", "a"), call("c3", "b")),
        results(result(), result("c2"), result("c3")),
    ]
    body = request_of(PROVIDER, history, tool_choice="required")
    request_validators.bedrock_request(body)
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["b", "a"]
    assert "toolChoice" not in body["toolConfig"]
    assert set(request_of(PROVIDER, [HUMAN], stream=False)) == {"messages"}
    tool = Tool(name="w", description="", parameters={"type": "object"})
    request_validators.bedrock_request(request_of(PROVIDER, [HUMAN], tools=[tool]))


def test_request_declares_the_system_tools_that_the_history_contains() -> None:
    use = {"toolUse": {"toolUseId": "t-1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}}
    block = ServerToolBlock(id="t-1", name="nova_grounding", raw=[use, use], metadata={"provider": "bedrock_converse"})
    contents = [Content.human("Hi"), Content(speaker="ai", blocks=[block]), Content.human("And?")]
    body = providers.render_request(contents, "bedrock_converse")
    assert body["toolConfig"] == {"tools": [{"systemTool": {"name": "nova_grounding"}}]}


def test_parts_of_any_form_are_rendered_and_not_changed() -> None:
    document = {"document": {"name": "a", "source": {"content": [{"text": "x"}]}}}
    odd: list[dict[str, Any]] = [
        {"document": 3},
        {"document": {"name": [1]}},
        {"toolResult": 3},
        {"toolResult": {"content": 3}},
        {"toolResult": {"content": [3, document]}},
        document,
    ]
    before = deepcopy(odd)
    metadata = {"provider": "bedrock_converse"}
    blocks: list[Any] = [OpaqueBlock(raw=raw, metadata=metadata) for raw in odd]
    messages, _ = render(Content(speaker="human", blocks=[*blocks, TextBlock(text="?")]))
    names = [part["document"].get("name") for part in messages[0]["content"] if "document" in part and part != odd[0]]
    assert names == [[1], "a"]
    assert {"toolResult": {"content": [3, {"document": {**document["document"], "name": "a (2)"}}]}} in messages[0][
        "content"
    ]
    assert [block.raw for block in blocks] == before


@pytest.mark.parametrize(
    "value",
    [
        [{"document": {"name": "a"}}],
        [{"document": {"name": 1, "source": {"text": "x"}}}],
        [{"image": {"format": "png", "source": "a.png"}}],
        [{"searchResult": {"source": 1, "title": "t", "content": []}}],
        [{"searchResult": {"source": "s", "title": "t", "content": "x"}}],
    ],
)
def test_data_with_the_name_of_a_part_is_data(value: Any) -> None:
    contents = [Content.human("?"), Content.ai("", ToolCallBlock(id="c1", name="f"))]
    result = Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c1", result=value)])
    messages, _ = render(*contents, result)
    [part] = messages[2]["content"][0]["toolResult"]["content"]
    assert json.loads(part["text"]) == value


def test_a_cache_point_after_a_part_without_a_block_stays_there() -> None:
    guarded, point = {"guardContent": {"text": {"text": "g"}}}, {"cachePoint": {"type": "default"}}
    search = {"toolUse": {"toolUseId": "t1", "name": "nova_grounding", "type": "server_tool_use", "input": {}}}
    result = {"toolResult": {"toolUseId": "t1", "type": "nova_grounding_result", "content": []}}
    own = [{"text": "a"}, search, result, point]
    messages = [{"role": "user", "content": [guarded, point]}, {"role": "assistant", "content": own}]
    messages.append({"role": "user", "content": [{"text": "b"}]})
    request = providers.parse_request({"messages": messages}, "bedrock_converse", model="m")
    assert providers.render_request(request, "bedrock_converse")["messages"] == messages
