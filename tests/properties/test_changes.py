"""Every difference between a conversation and what is rendered of it has a sentence in ``changes``.

Each block has a text of its own, its mark. Without a sentence all marks are in the request, each once, in the order of
the conversation, those of the model in messages of the model and all others in messages of somebody else.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import Content, UnsupportedContent, providers, render, render_request
from streamkit.history import (
    Block,
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

WIRES = [
    "anthropic", "bedrock_converse", "bedrock_invoke", "cohere", "deepseek", "gemini", "kimi", "mistral", "ollama",
    "openai_chat", "openai_responses", "openrouter",
]  # fmt: skip
MARK = re.compile(r"(?:mark|reasoning)\d+x")
PNG = "data:image/png;base64,iVBORw0KGgo="
MODEL_ROLES = ("assistant", "model")

#: The kinds of blocks by who sends them; "pair" is a call with its result in the next content.
PERSON = ["text", "blank", "image", "file", "opaque", "unknown", "text"]
MODEL = [
    "text",
    "blank",
    "refusal",
    "reasoning",
    "pair",
    "custom",
    "failed",
    "shown",
    "data",
    "truncated",
    "server_tool",
    "opaque",
]
TOOL = ["text", "image", "file", "orphan"]
KINDS = st.one_of(
    st.tuples(st.just("system"), st.lists(st.just("text"), min_size=1, max_size=2)),
    st.tuples(st.just("human"), st.lists(st.sampled_from(PERSON), max_size=3)),
    st.tuples(st.just("ai"), st.lists(st.sampled_from(MODEL), max_size=4)),
    st.tuples(st.just("tool"), st.lists(st.sampled_from(TOOL), max_size=3)),
    st.tuples(st.just("odd"), st.just(["text"])),
)


def make_block(kind: str, mark: str, origin: dict[str, Any]) -> Block:
    """Return a block of a kind that contains a mark."""
    match kind:
        case "text":
            return TextBlock(text=f"{mark} says so.")
        case "blank":
            return TextBlock(text="")
        case "refusal":
            return TextBlock(text=mark, metadata={**origin, "refusal": True})
        case "image":
            return ImageBlock(data=f"https://a.example/{mark}.png")
        case "file":
            return FileBlock(media_type="application/pdf", url=f"https://a.example/{mark}.pdf", name="a.pdf")
        case "reasoning":
            return ReasoningBlock(text=mark, metadata=origin)
        case "server_tool":
            return ServerToolBlock(id="s", name="search", raw=[{"type": "odd", "text": mark}], metadata=origin)
        case "opaque":
            return OpaqueBlock(raw={"odd": mark}, metadata=origin)
        case "custom":
            return ToolCallBlock(id=mark, name="c", parameters=mark, kind="custom")
        case "truncated":
            return ToolCallBlock(
                id=mark, name="f", metadata={"raw_arguments": f'{{"a": "{mark}', "state": "incomplete"}
            )
        case "orphan":
            return ToolResponseBlock(call_id=mark, name="f", result=mark)
        case "pair" | "failed" | "shown" | "data":
            return ToolCallBlock(id=mark, name="f", parameters={"a": mark})
    return UnknownBlock(type="odd", text=mark)  # type: ignore[call-arg]


def make_result(kind: str, mark: str) -> dict[str, Any]:
    """Return the outcome of a call of a kind, with a mark."""
    match kind:
        case "failed" | "truncated":
            return {"error": mark, "status": "error"}
        case "shown":
            return {"result": [{"type": "text", "text": mark}, {"type": "image", "data": PNG}]}
        case "data":
            return {"result": {"a": [mark, None, 1]}}
    return {"result": mark}


def make_history(shape: list[tuple[str, list[str]]], origin: dict[str, Any]) -> tuple[list[Content], list[str]]:
    """Return a conversation, and its marks in order with ``model`` or ``other`` before each."""
    contents, marks = [Content.human("mark0x asks.")], ["other mark0x"]
    for speaker, kinds in shape:
        blocks: list[Block] = []
        results: list[Block] = []
        for kind in kinds:
            mark = f"{'reasoning' if kind == 'reasoning' else 'mark'}{len(marks)}x"
            blocks.append(make_block(kind, mark, origin))
            if kind != "blank":
                marks.append(("model " if speaker == "ai" else "other ") + mark)
        for kind, block in zip(kinds, blocks, strict=True):
            if isinstance(block, ToolCallBlock):
                mark = f"mark{len(marks)}x"
                results.append(ToolResponseBlock(call_id=block.id, name=block.name, **make_result(kind, mark)))
                marks.append(f"other {mark}")
        contents.append(Content(speaker=speaker, blocks=blocks))
        if results:
            contents.append(Content(speaker="tool", blocks=results))
    return contents, marks


def find_marks(body: dict[str, Any], system_field: str | None) -> list[str]:
    """Return the marks of a request in order, with who sends them."""
    found = [f"other {mark}" for mark in MARK.findall(json.dumps(body.get(system_field or "", "")))]
    for name in ("messages", "contents", "input"):
        for message in body.get(name, ()):
            item = "role" not in message and not str(message.get("type")).endswith("_output")  # of Responses
            speaker = "model" if item or message.get("role") in MODEL_ROLES else "other"
            ids = {"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "tool_name"}
            found += [f"{speaker} {mark}" for mark in MARK.findall(json.dumps(without(message, ids)))]
    return found


def without(value: Any, names: set[str]) -> Any:
    """Return JSON data without the fields of these names."""
    if isinstance(value, dict):
        return {name: without(item, names) for name, item in value.items() if name not in names}
    return [without(item, names) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_has_no_sentence_is_unchanged(wire: str, data: st.DataObject) -> None:
    shape = data.draw(st.lists(KINDS, max_size=3))
    origin: dict[str, Any] = data.draw(st.sampled_from([{}, {"provider": wire}, {"provider": "acme"}]))
    contents, marks = make_history(shape, origin)
    changes: list[str] = []
    try:
        body = render_request(contents, wire, changes=changes)
    except UnsupportedContent:
        return
    if not changes:
        check(find_marks(body, providers.get(wire).traits.system_field), marks)
    alone: list[str] = []
    messages = render(contents, wire, changes=alone)
    name = next(name for name in ("messages", "contents", "input") if name in body)
    if not alone:
        check(find_marks({name: messages}, None), marks)


def check(found: list[str], marks: list[str]) -> None:
    """Check that the marks are those of the conversation. The place of reasoning within its message has no meaning."""
    assert sorted(found) == sorted(marks)
    reasoning = {mark for mark in found if "reasoning" in mark}
    assert [mark for mark in found if mark not in reasoning] == [mark for mark in marks if mark not in reasoning]
