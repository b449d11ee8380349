"""History as Converse messages, judged by the service's own model and by what it refuses beyond that."""

from __future__ import annotations

from typing import Any

import pytest
import request_validators
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import request_of

from streamkit import Turn, providers
from streamkit.calls import Usage
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


def render(*contents: Content, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    thread = PROVIDER.render(list(contents), **options)
    return thread.messages, thread.changes


def contents_of(*blocks: Any) -> list[dict[str, Any]]:
    """What becomes of an assistant's blocks."""
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


def test_late_text_is_moved_before_the_calls() -> None:
    sent = contents_of(call("c1"), TextBlock(text="late"), call("c2"), TextBlock(text="later"))
    assert [next(iter(part)) for part in sent] == ["text", "text", "toolUse", "toolUse"]
    assert sent[0] == {"text": "late"}
    _, changes = render(HUMAN, Content.ai("", call(), TextBlock(text="late")))
    assert changes == ["what followed a call in its message was moved before it"]


def test_signed_reasoning_between_calls_keeps_its_place_and_behind_them_is_moved() -> None:
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
def test_results(value: Any, content: list[dict[str, Any]]) -> None:
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


def test_reasoning_goes_back_only_where_it_came_from() -> None:
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
        ReasoningBlock(text="nobody's"),
    ]
    assert contents_of(*foreign, TextBlock(text="x")) == [{"text": "x"}]


def test_an_answer_of_reasoning_alone_is_left_out() -> None:
    messages, changes = render(
        HUMAN, Content.ai("", ReasoningBlock(text="Hm.", signature="s", metadata=OWN)), Content.human("and?")
    )
    assert messages == [{"role": "user", "content": [{"text": "hi"}, {"text": "and?"}]}]
    assert len(changes) == 1


def test_what_the_provider_ran_itself_goes_back_unchanged_and_only_to_it() -> None:
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


def test_cited_text_goes_back_with_its_sources() -> None:
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


def test_ids_are_the_same_for_call_and_result_and_no_other() -> None:
    canonical = "hist_tool_" + "a" * 24
    messages, _ = render(
        HUMAN,
        Content.ai("", call(canonical), call("functions.w:0"), call("functions.w:0", "v")),
        results(result(canonical), result("functions.w:0", 1), result("functions.w:0", 2)),
        results(result("functions.w:0", 3), result("nobody")),
    )
    ids = [part["toolUse"]["toolUseId"] for part in messages[1]["content"]]
    assert ids[0] == "tooluse_" + "a" * 24
    assert len(set(ids)) == 3
    answered = [part["toolResult"]["toolUseId"] for part in messages[2]["content"]]
    assert answered[0] == ids[0]
    assert sorted(answered[1:4]) == sorted([ids[1], ids[2], ids[2]])
    assert answered[4] == "nobody"


def test_origin_gives_a_call_of_this_wire_its_own_id_back() -> None:
    own = call("hist_tool_" + "a" * 24, raw_id="tooluse_x", **OWN)
    foreign = call("hist_tool_" + "b" * 24, raw_id="call_x", provider="openai")
    for policy, first in (("origin", "tooluse_x"), (None, "tooluse_" + "a" * 24)):
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


def test_a_document_has_a_text_beside_it() -> None:
    messages, changes = render(Content.human("", FileBlock(media_type="text/csv", data="QUJD")))
    assert messages[0]["content"][1] == {"text": "(see the document)"}
    assert changes == ["a text was put beside a document: the API wants one"]


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
def test_what_the_api_does_not_take_raises(block: Any) -> None:
    with pytest.raises(UnsupportedContent, match="Bedrock takes"):
        render(Content.human("look", block))


def test_what_has_no_place_is_left_out_and_said() -> None:
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
    assert PROVIDER.render([Content.system("a"), Content.system(" "), Content.system("b")]).system == "a\n\nb"


def test_a_conversation_begins_with_a_user() -> None:
    messages, changes = render(Content.ai("Welcome."), HUMAN)
    request_validators.bedrock_messages(messages)
    assert messages[0] == {"role": "user", "content": [{"text": "(continued)"}]}
    assert len(changes) == 1
    assert render() == ([], [])


# ---------------------------------------------------------------- requests

TOOL = Tool(name="w", description="Weather.", parameters={"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("auto", {"auto": {}}), ("required", {"any": {}}), ("w", {"tool": {"name": "w"}}), ("none", None), (None, None)],
)
def test_tool_choice(choice: str | None, sent: dict[str, Any] | None) -> None:
    body = request_of(PROVIDER, [Content.system("Be brief."), HUMAN], tools=[TOOL], tool_choice=choice)
    request_validators.bedrock_request(body)
    assert body["system"] == [{"text": "Be brief."}]
    spec = {"name": "w", "description": "Weather.", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    assert body["toolConfig"] == {"tools": [{"toolSpec": spec}], **({"toolChoice": sent} if sent else {})}
    assert set(body) == {"system", "messages", "toolConfig"}


def test_history_with_calls_needs_tools_also_where_none_are_given() -> None:
    thread = [
        HUMAN,
        Content.ai("", call("c1", "b"), call("c2", "a"), call("c3", "b")),
        results(result(), result("c2"), result("c3")),
    ]
    body = request_of(PROVIDER, thread, tool_choice="required")
    request_validators.bedrock_request(body)
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["b", "a"]
    assert "toolChoice" not in body["toolConfig"]
    assert set(request_of(PROVIDER, [HUMAN], stream=False)) == {"messages"}
    bare = Tool(name="w", description="", parameters={"type": "object"})
    request_validators.bedrock_request(request_of(PROVIDER, [HUMAN], tools=[bare]))


# ---------------------------------------------------------------- emit

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
META = st.just(OWN)
OBJECTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=META),
    st.builds(TextBlock, text=TEXTS, metadata=st.just({**OWN, "citations": [{"title": "x"}]})),
    st.builds(ReasoningBlock, text=TEXTS, signature=st.none() | TEXTS, metadata=META),
    st.builds(ReasoningBlock, opaque=st.just({"reasoningContent": {"redactedContent": "QUI="}}), metadata=META),
    st.builds(lambda raw_id, name, given: call(raw_id, name, given, raw_id=raw_id, **OWN), TEXTS, TEXTS, OBJECTS),
    st.builds(lambda raw: OpaqueBlock(raw={"hologram": raw}, metadata=OWN), OBJECTS),
    st.builds(
        lambda given, text: ServerToolBlock(
            name="n",
            arguments=given,
            result=[{"text": text}],
            raw=[
                {"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use", "input": given}},
                {"toolResult": {"toolUseId": "s", "type": "n_result", "content": [{"text": text}]}},
            ],
            metadata=OWN,
        ),
        OBJECTS,
        TEXTS,
    ),
    st.just(FileBlock(media_type="image/png", data="QUJD", metadata=OWN)),
)
FINISHES = st.sampled_from(["stop", "length", "content_filter", "refusal", "pause", "other"])


def emitted(blocks: list[Any], **options: Any) -> Turn:
    turn = Turn("bedrock_converse", turn_key="k")
    for frame in PROVIDER.emit(Content(speaker="ai", blocks=blocks), response_id="r", model="m", **options):
        turn.feed(frame)
    turn.close()
    return turn


@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCKS, max_size=6), FINISHES, st.integers(1, 20))
def test_parse_of_emit_is_the_same_turn(blocks: list[Any], finish: Any, piece: int) -> None:
    turn = emitted(blocks, finish=finish, delta_size=piece, usage=Usage(10, 5, None, 3, 2))
    assert turn.error is None
    assert turn.finish is not None
    assert turn.usage is not None
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    assert turn.finish.reason == ("tool_calls" if calls and finish == "stop" else finish)
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cache_read_tokens) == (10, 5, 3)
    again = emitted(turn.content.blocks, finish=finish)
    assert again.content == turn.content
    if not any(isinstance(block, ServerToolBlock) for block in blocks):  # one id twice is one tool
        found = turn.content.blocks
        assert [block.type for block in found] == [block.type for block in blocks]
        for block, given_block in zip(found, blocks, strict=True):
            if isinstance(block, (TextBlock, ReasoningBlock, OpaqueBlock)):
                assert block == given_block
            elif isinstance(block, ToolCallBlock):
                assert (block.name, block.parameters) == (given_block.name, given_block.parameters)


def test_emit_says_what_happened() -> None:
    assert emitted([call(raw_id="c1")]).finish.raw == "tool_use"  # type: ignore[union-attr]
    failed = emitted([TextBlock(text="Hal")], finish="error")
    assert failed.error is not None
    assert (failed.text, failed.error.status, failed.usage) == ("Hal", 424, None)
    assert emitted([TextBlock(text="Hi")]).usage is not None


def test_emit_of_another_providers_blocks() -> None:
    turn = emitted(
        [
            ServerToolBlock(id="s1", name="search", arguments={"q": 1}, result=["x"]),
            ServerToolBlock(name="search", result={"n": 1}),
            ServerToolBlock(name="search"),
            ServerToolBlock(raw=["odd"]),
            ServerToolBlock(raw=[{"toolUse": 5}, {"hologram": {"size": 3}}]),
            FileBlock(media_type="image/png", url="s3://b/k"),
            FileBlock(media_type="audio/wav", data="QUJD"),
            ToolCallBlock(id="c1", name="w", metadata={"raw_arguments": '{"a', "state": "incomplete"}),
            ToolCallBlock(id="c2", name="v", parameters="text", kind="custom"),
        ]
    )
    assert turn.error is None
    assert [(call.name, call.arguments_text) for call in turn.calls] == [("w", '{"a'), ("v", '{"input":"text"}')]
    assert turn.server_calls[0].result == [{"text": '["x"]'}]
    assert turn.server_calls[1].result == [{"json": {"n": 1}}]


def test_a_tool_of_the_provider_that_goes_back_is_named() -> None:
    use = {"toolUse": {"toolUseId": "t-1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}}
    block = ServerToolBlock(id="t-1", name="nova_grounding", raw=[use, use], metadata={"provider": "bedrock_converse"})
    contents = [Content.human("Hi"), Content(speaker="ai", blocks=[block]), Content.human("And?")]
    body = providers.render_request(contents, "bedrock_converse")
    assert body["toolConfig"] == {"tools": [{"systemTool": {"name": "nova_grounding"}}]}
