"""The Converse encoder: its stream is one of this wire, and the parser reads the same content from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Turn, providers, writer
from streamkit.calls import Usage
from streamkit.events import ServerTool
from streamkit.history import (
    Content,
    FileBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
)

OWN = {"provider": "bedrock_converse"}
PROVIDER = providers.get("bedrock_converse")


def call(raw_id: str, name: str, parameters: dict[str, Any]) -> ToolCallBlock:
    return ToolCallBlock(id=raw_id, name=name, parameters=parameters, metadata={**OWN, "raw_id": raw_id})


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
META = st.just(OWN)
OBJECTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=META),
    st.builds(TextBlock, text=TEXTS, metadata=st.just({**OWN, "citations": [{"title": "x"}]})),
    st.builds(ReasoningBlock, text=TEXTS, signature=st.none() | TEXTS, metadata=META),
    st.builds(ReasoningBlock, opaque=st.just({"reasoningContent": {"redactedContent": "QUI="}}), metadata=META),
    st.builds(lambda raw_id, name, parameters: call(raw_id, name, parameters), TEXTS, TEXTS, OBJECTS),
    st.builds(lambda raw: OpaqueBlock(raw={"hologram": raw}, metadata=OWN), OBJECTS),
    st.builds(
        lambda arguments, text: ServerToolBlock(
            name="n",
            arguments=arguments,
            result=[{"text": text}],
            raw=[
                {"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use", "input": arguments}},
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


def encode_and_parse(blocks: list[Any], **options: Any) -> Turn:
    turn = Turn("bedrock_converse", turn_key="k")
    for frame in PROVIDER.emit(Content(speaker="ai", blocks=blocks), response_id="r", model="m", **options):
        turn.feed(frame)
    turn.close()
    return turn


@given(st.lists(BLOCKS, max_size=6), FINISHES, st.integers(1, 20))
def test_encoded_content_is_parsed_as_the_same_turn(blocks: list[Any], finish: Any, delta_size: int) -> None:
    turn = encode_and_parse(blocks, finish=finish, delta_size=delta_size, usage=Usage(10, 5, None, 3, 2))
    assert turn.error is None
    assert turn.finish is not None
    assert turn.usage is not None
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    assert turn.finish.reason == ("tool_calls" if calls and finish == "stop" else finish)
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cache_read_tokens) == (10, 5, 3)
    again = encode_and_parse(turn.content.blocks, finish=finish)
    assert again.content == turn.content
    if not any(isinstance(block, ServerToolBlock) for block in blocks):  # one id twice is one tool
        parsed = turn.content.blocks
        assert [block.type for block in parsed] == [block.type for block in blocks]
        for block, source in zip(parsed, blocks, strict=True):
            if isinstance(block, (TextBlock, ReasoningBlock, OpaqueBlock)):
                assert block == source
            elif isinstance(block, ToolCallBlock):
                assert (block.name, block.parameters) == (source.name, source.parameters)


def test_encoder_writes_finish_usage_and_errors() -> None:
    assert encode_and_parse([call("c1", "w", {})]).finish.raw == "tool_use"  # type: ignore[union-attr]
    failed = encode_and_parse([TextBlock(text="Hal")], finish="error")
    assert failed.error is not None
    assert (failed.text, failed.error.status, failed.usage) == ("Hal", 424, None)
    assert encode_and_parse([TextBlock(text="Hi")]).usage is not None


def test_blocks_of_other_providers_are_encoded_in_the_form_of_this_wire() -> None:
    turn = encode_and_parse(
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


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ([{"json": {"a": 1}}, {"text": "b"}], [{"json": {"a": 1}}, {"text": "b"}]),
        ([{"text": 1}], [{"text": '[{"text":1}]'}]),
        ([{"text": "a", "more": 1}], [{"text": '[{"text":"a","more":1}]'}]),
        ([], [{"text": "[]"}]),
        ({"a": 1}, [{"json": {"a": 1}}]),
    ],
)
def test_result_of_a_server_tool_is_written_in_this_wires_form(result: Any, content: Any) -> None:
    live, turn = writer("bedrock_converse"), Turn("bedrock_converse", turn_key="turn-1")
    for phase, data in (("started", None), ("arguments", {"q": "x"}), ("result", result)):
        turn.feed(live.write(ServerTool("s", "n", phase, data)))
    turn.feed(live.close())
    assert turn.server_calls[0].result == content
