from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streamkit.errors import UsageError
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

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXT, metadata=OBJECTS),
    st.builds(ImageBlock, data=TEXT),
    st.builds(FileBlock, media_type=st.none() | TEXT, data=st.none() | TEXT, name=st.none() | TEXT),
    st.builds(ToolCallBlock, id=TEXT, name=TEXT, parameters=OBJECTS, metadata=OBJECTS),
    st.builds(ToolCallBlock, id=TEXT, name=TEXT, parameters=TEXT, kind=st.just("custom")),
    st.builds(ToolResponseBlock, call_id=TEXT, name=st.none() | TEXT, result=JSON, error=st.none() | TEXT),
    st.builds(ReasoningBlock, text=TEXT, signature=st.none() | TEXT, opaque=JSON),
    st.builds(ServerToolBlock, id=st.none() | TEXT, arguments=JSON, result=JSON, raw=st.lists(JSON, max_size=2)),
    st.builds(OpaqueBlock, raw=JSON),
    st.builds(lambda fields: UnknownBlock.model_validate({**fields, "type": "widget"}), OBJECTS),
)


@given(st.builds(Content, speaker=TEXT, blocks=st.lists(BLOCKS, max_size=4), metadata=OBJECTS))
def test_json_and_back_is_the_same(content: Content) -> None:
    assert Content.model_validate_json(content.model_dump_json()) == content
    assert Content.model_validate(content.model_dump()) == content


def test_camel_case_of_the_document_is_accepted_and_snake_case_written() -> None:
    content = Content.model_validate(
        {
            "speaker": "tool",
            "blocks": [
                {"type": "tool_response", "callId": "hist_tool_1", "result": "21"},
                {"type": "file", "mediaType": "text/plain", "data": "aGk="},
            ],
        }
    )
    assert content.blocks == [
        ToolResponseBlock(call_id="hist_tool_1", result="21"),
        FileBlock(media_type="text/plain", data="aGk="),
    ]
    written = json.loads(content.model_dump_json())
    assert written["blocks"][0]["call_id"] == "hist_tool_1"
    assert "callId" not in written["blocks"][0]
    assert written["blocks"][1]["media_type"] == "text/plain"


def test_of_both_spellings_snake_case_counts_and_the_other_is_kept() -> None:
    block = {"type": "tool_response", "call_id": "a", "callId": "b"}
    content = Content.model_validate({"speaker": "tool", "blocks": [block]})
    written = json.loads(content.model_dump_json())["blocks"][0]
    assert (written["call_id"], written["callId"]) == ("a", "b")
    assert Content.model_validate(content.model_dump()) == content


def test_keys_inside_parameters_are_not_converted() -> None:
    block = {"type": "tool_call", "id": "1", "name": "f", "parameters": {"callId": 1, "call_id": 2}}
    [made] = Content.model_validate({"speaker": "ai", "blocks": [block]}).blocks
    assert isinstance(made, ToolCallBlock)
    assert made.parameters == {"callId": 1, "call_id": 2}


def test_unknown_speaker_and_block_are_kept_with_all_their_fields() -> None:
    thinking = {"type": "thinking", "thought": "hm", "deepLevels": [{"camelCase": 1.0}], "model_config": "x"}
    content = Content.model_validate({"speaker": "narrator", "blocks": [thinking]})
    assert content.speaker == "narrator"
    assert isinstance(content.blocks[0], UnknownBlock)
    assert content.blocks[0].metadata == {}
    assert json.loads(content.model_dump_json())["blocks"] == [thinking]
    assert content.model_dump()["blocks"] == [thinking]


def test_metadata_of_an_unknown_block_is_kept() -> None:
    block = {"type": "widget", "metadata": {"provider": "x"}}
    [made] = Content.model_validate({"speaker": "ai", "blocks": [block]}).blocks
    assert made.metadata == {"provider": "x"}
    assert made.model_dump() == block


def test_unknown_fields_are_kept() -> None:
    content = {
        "speaker": "human",
        "blocks": [{"type": "text", "text": "hi", "colour": "red", "metadata": {}}],
        "metadata": {},
        "timestamp": 17,
    }
    assert json.loads(Content.model_validate(content).model_dump_json()) == content


@pytest.mark.parametrize("block", [{"text": "no type"}, {"type": ["text"]}, {"type": "text"}, "text", None])
def test_an_invalid_block_is_refused(block: Any) -> None:
    with pytest.raises(ValidationError):
        Content.model_validate({"speaker": "human", "blocks": [block]})


def test_surrogate_halves_are_repaired_everywhere() -> None:
    halves = "\ud83d\ude00 \ud83d"
    content = Content.ai(
        halves,
        ToolResponseBlock(call_id="1", result=[{halves: ["ok", halves]}, 1]),
        OpaqueBlock(raw={"as": "it is"}),
    )
    mended = "\U0001f600 \ufffd"
    assert content.blocks[0] == TextBlock(text=mended)
    assert isinstance(content.blocks[1], ToolResponseBlock)
    assert content.blocks[1].result == [{mended: ["ok", mended]}, 1]
    assert Content.model_validate_json(content.model_dump_json()) == content


def test_a_value_without_surrogates_is_the_same_object() -> None:
    raw = {"signature": ["\u00e9", {"deep": "\U0001f600"}]}
    assert OpaqueBlock(raw=raw).raw is raw


def test_null_metadata_is_absent_metadata() -> None:
    content = Content.model_validate({"speaker": "human", "blocks": [], "metadata": None})
    assert content.metadata == {}


@pytest.mark.parametrize(
    ("given", "parameters", "raw"),
    [
        ('{"a": [1]}', {"a": [1]}, None),
        ("", {}, None),
        (None, {}, None),
        ('{"a": "b', {}, '{"a": "b'),
        ("[1]", {}, "[1]"),
    ],
)
def test_parameters_of_a_function_are_always_an_object(given: Any, parameters: Any, raw: str | None) -> None:
    block = {"type": "tool_call", "id": "1", "name": "f", "parameters": given}
    content = Content.model_validate({"speaker": "ai", "blocks": [block]})
    [made] = content.blocks
    assert isinstance(made, ToolCallBlock)
    assert made.parameters == parameters
    assert made.metadata.get("raw_arguments") == raw
    assert Content.model_validate_json(content.model_dump_json()) == content


def test_parameters_of_a_custom_call_stay_text() -> None:
    block = ToolCallBlock(id="1", name="sh", parameters='{"a": 1}', kind="custom")
    assert block.parameters == '{"a": 1}'


def test_shorthands_add_no_block_for_an_empty_text() -> None:
    image = ImageBlock(data="https://x/y.png")
    assert Content.human("hi", image) == Content(speaker="human", blocks=[TextBlock(text="hi"), image])
    assert Content.human("", image).blocks == [image]
    assert Content.system("be brief").speaker == "system"
    assert Content.ai() == Content(speaker="ai", blocks=[])


@pytest.mark.parametrize("create", [Content.human, Content.system, Content.ai])
@pytest.mark.parametrize("text", [None, b"hi", 5, ["hi"], {"type": "text", "text": "hi"}, TextBlock(text="hi")])
def test_a_text_that_is_no_str_is_refused(create: Any, text: Any) -> None:
    with pytest.raises(UsageError, match=rf"a message's text, a str, not {type(text).__name__}; blocks come after it"):
        create(text)
