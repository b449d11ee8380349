"""Every difference between a conversation and what is rendered of it has a sentence in ``changes``.

Each block has texts of its own, its marks: of its text, citation, file's name, error, status. Without a sentence all
marks are in the request, each once, in the order of the conversation, those of the model in messages of the model and
all others in messages of somebody else.
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
#: The wires whose messages of the model have a field for citations. The other ones take none back, not even their own.
CITING_WIRES = ("anthropic", "bedrock_converse", "bedrock_invoke", "openai_responses")
#: The wires whose results state a failure in a field.
FLAGGING_WIRES = ("anthropic", "bedrock_converse", "bedrock_invoke", "gemini")
MARK = re.compile(r"(?:mark|reasoning|cite|name|error|status)\d+x")
PNG = "data:image/png;base64,iVBORw0KGgo="
MODEL_ROLES = ("assistant", "model")

#: The kinds of blocks by who sends them; "pair" is a call with its result in the next content.
PERSON = ["text", "blank", "image", "file", "document", "picture", "opaque", "unknown", "text"]
MODEL = [
    "text",
    "cited",
    "blank",
    "refusal",
    "reasoning",
    "pair",
    "custom",
    "failed",
    "failed_with_value",
    "stopped",
    "shown",
    "shown_file",
    "data",
    "truncated",
    "server_tool",
    "opaque",
]
TOOL = ["text", "image", "file", "document", "orphan"]
SPEAKERS = {"human": PERSON, "ai": MODEL, "tool": TOOL}
KINDS = st.one_of(
    st.tuples(st.just("system"), st.lists(st.just("text"), min_size=1, max_size=2)),
    st.tuples(st.just("human"), st.lists(st.sampled_from(PERSON), max_size=3)),
    st.tuples(st.just("ai"), st.lists(st.sampled_from(MODEL), max_size=4)),
    st.tuples(st.just("tool"), st.lists(st.sampled_from(TOOL), max_size=3)),
    st.tuples(st.just("odd"), st.just(["text"])),
)


#: The marks of a block or a result by its kind; of all others one ``mark``.
MARKS = {
    "blank": (),
    "reasoning": ("reasoning",),
    "cited": ("mark", "cite"),
    "file": ("mark", "name"),
    "document": ("name",),
    "picture": ("name",),
}
RESULT_MARKS = {
    "failed_with_value": ("mark", "error"),
    "stopped": ("mark", "status"),
    "shown_file": ("mark", "name"),
}


def make_block(kind: str, number: int, origin: dict[str, Any]) -> Block:
    """Return a block of a kind that contains the marks with a number."""
    mark = f"mark{number}x"
    match kind:
        case "text":
            return TextBlock(text=f"{mark} says so.")
        case "blank":
            return TextBlock(text="")
        case "refusal":
            return TextBlock(text=mark, metadata={**origin, "refusal": True})
        case "cited":
            citation = {"type": "url_citation", "url": f"https://a.example/cite{number}x"}
            return TextBlock(text=mark, metadata={**origin, "citations": [citation]})
        case "image":
            return ImageBlock(data=f"https://a.example/{mark}.png")
        case "file":
            return FileBlock(
                media_type="application/pdf", url=f"https://a.example/{mark}.pdf", name=f"name{number}x.pdf"
            )
        case "document":
            return FileBlock(media_type="application/pdf", data="JVBERi0xLjQ=", name=f"name{number}x.pdf")
        case "picture":
            return FileBlock(media_type="image/png", data="iVBORw0KGgo=", name=f"name{number}x.png")
        case "reasoning":
            return ReasoningBlock(text=f"reasoning{number}x", metadata=origin)
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
        case "pair" | "failed" | "failed_with_value" | "stopped" | "shown" | "shown_file" | "data":
            return ToolCallBlock(id=mark, name="f", parameters={"a": mark})
    return UnknownBlock(type="odd", text=mark)  # type: ignore[call-arg]


def make_result(kind: str, number: int) -> dict[str, Any]:
    """Return the outcome of a call of a kind, with the marks of a number."""
    mark = f"mark{number}x"
    match kind:
        case "failed" | "truncated":
            return {"error": f"error{number}x", "status": "error"}
        case "failed_with_value":
            return {"result": mark, "error": f"error{number}x", "status": "error"}
        case "stopped":
            return {"result": mark, "status": f"status{number}x"}
        case "shown_file":
            file = {"type": "file", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}
            return {"result": [{"type": "text", "text": mark}, {**file, "name": f"name{number}x.pdf"}]}
        case "shown":
            return {"result": [{"type": "text", "text": mark}, {"type": "image", "data": PNG}]}
        case "data":
            return {"result": {"a": [mark, None, 1]}}
    return {"result": mark}


def make_history(
    shape: list[tuple[str, list[str]]], origin: dict[str, Any], wire: str
) -> tuple[list[Content], list[str]]:
    """Return a conversation, and its marks in order with ``model`` or ``other`` before each."""
    contents, marks = [Content.human("mark0x asks.")], ["other mark0x"]
    is_uncited = origin.get("provider") == wire and wire not in CITING_WIRES
    number = 0
    for speaker, kinds in shape:
        blocks: list[Block] = []
        results: list[Block] = []
        for kind in kinds:
            number += 1
            blocks.append(make_block(kind, number, origin))
            names = [name for name in MARKS.get(kind, ("mark",)) if name != "cite" or not is_uncited]
            marks += [f"{'model' if speaker == 'ai' else 'other'} {name}{number}x" for name in names]
        for kind, block in zip(kinds, blocks, strict=True):
            if isinstance(block, ToolCallBlock):
                number += 1
                results.append(ToolResponseBlock(call_id=block.id, name=block.name, **make_result(kind, number)))
                names = ["error"] if kind in ("failed", "truncated") else list(RESULT_MARKS.get(kind, ("mark",)))
                marks += [f"other {name}{number}x" for name in names]
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
    check_conversation(wire, shape, origin)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("speaker", "kind"),
    sorted({(speaker, kind) for speaker, kinds in SPEAKERS.items() for kind in kinds}),
)
def test_each_block_alone_is_unchanged_or_has_a_sentence(speaker: str, kind: str, wire: str) -> None:
    for origin in ({}, {"provider": wire}, {"provider": "acme"}):
        check_conversation(wire, [(speaker, [kind])], origin)


def check_conversation(wire: str, shape: list[tuple[str, list[str]]], origin: dict[str, Any]) -> None:
    """Check that a conversation without a sentence has all its marks in the request and in the messages alone."""
    contents, marks = make_history(shape, origin, wire)
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
    """Check that the marks are those of the conversation.

    The order of the marks of one block and the place of reasoning within its message have no meaning.
    """
    assert sorted(found) == sorted(marks)
    assert [order_of(mark) for mark in found if "reasoning" not in mark] == [
        order_of(mark) for mark in marks if "reasoning" not in mark
    ]


def order_of(mark: str) -> str:
    """Return who sends a mark, and its number."""
    return re.sub(r" [a-z]+", " ", mark)


# ---------------------------------------------------------------- what has no sentence, and what has one


def changes_of(wire: str, *blocks: Block) -> list[str]:
    """Return the changes of a conversation with one call, or of one with a text of the model."""
    contents = [Content.human("?"), Content(speaker="ai", blocks=[ToolCallBlock(id="c1", name="f", parameters={})])]
    if not isinstance(blocks[0], ToolResponseBlock):
        contents = [Content.human("?")]
    speaker = "ai" if isinstance(blocks[0], TextBlock) else "tool"
    changes: list[str] = []
    render_request([*contents, Content(speaker=speaker, blocks=blocks)], wire, changes=changes)
    return changes


@pytest.mark.parametrize("wire", WIRES)
def test_a_failure_whose_words_are_sent_has_no_sentence(wire: str) -> None:
    for status in ("error", "denied", "timed_out", "canceled"):
        assert changes_of(wire, ToolResponseBlock(call_id="c1", name="f", status=status, error="Not run.")) == []
        assert changes_of(wire, ToolResponseBlock(call_id="c1", name="f", status=status)) == []
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    same = ToolResponseBlock(call_id="c1", name="f", status="error", error="a\nb", result=texts)
    assert changes_of(wire, same) == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_failure_that_only_the_status_says_has_a_sentence_where_results_are_text(wire: str) -> None:
    (told,) = changes_of(wire, ToolResponseBlock(call_id="c1", name="f", status="denied", result="x")) or [""]
    assert told.startswith("the status of a result was left out")
    failed = changes_of(wire, ToolResponseBlock(call_id="c1", name="f", status="error", result="x"))
    assert failed == ([] if wire in FLAGGING_WIRES else [told])


@pytest.mark.parametrize("wire", ["anthropic", "bedrock_converse"])
def test_an_image_of_a_failed_result_that_becomes_text_has_a_sentence(wire: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "data": PNG}]
    (change,) = changes_of(wire, ToolResponseBlock(call_id="c1", name="f", status="error", result=parts))
    assert change.startswith("put text in the place of images and files of a failed result")


@pytest.mark.parametrize("wire", WIRES)
def test_a_status_is_sent_if_a_result_has_nothing_else(wire: str) -> None:
    call = Content(speaker="ai", blocks=[ToolCallBlock(id="c1", name="f", parameters={})])
    for error in (None, ""):
        result = ToolResponseBlock(call_id="c1", name="f", status="denied", error=error)
        body = render_request([Content.human("?"), call, Content(speaker="tool", blocks=[result])], wire)
        assert "The call did not complete: denied." in json.dumps(body)


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openai_responses"])
def test_citations_that_go_back_to_their_provider_have_no_sentence(wire: str) -> None:
    cited = TextBlock(text="a", metadata={"provider": wire, "citations": [{"url": "https://a.example"}]})
    assert changes_of(wire, cited) == []
    assert len(changes_of("openai_responses", cited, cited)) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_a_name_that_is_sent_has_no_sentence(wire: str) -> None:
    file = FileBlock(media_type="application/pdf", data="JVBERi0xLjQ=", name="Report 3.pdf")
    changes: list[str] = []
    try:
        body = render_request([Content(speaker="human", blocks=[TextBlock(text="?"), file])], wire, changes=changes)
    except UnsupportedContent:
        return
    assert ("Report 3" in json.dumps(body)) == (changes == [])
