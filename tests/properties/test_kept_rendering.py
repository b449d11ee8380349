"""A conversation that is edited at random between its rounds: each request is what it gives from nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties.test_render_any_content import CONTENTS, DATA, METADATA

from streamkit import Content, RoundContext, UnsupportedContent, providers
from streamkit.history import OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers.rendering.conversion import render_messages
from streamkit.providers.requests.request import auto_mark, mark_contents

NAMES = providers.names()
TEXTS = st.sampled_from(["", " ", "Hi", "end \n"])
PARTS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=METADATA),
    st.builds(ReasoningBlock, text=TEXTS, kind=st.sampled_from(["text", "plan"]), metadata=METADATA),
    st.builds(ReasoningBlock, text=TEXTS, signature=TEXTS, metadata=METADATA),
    st.builds(OpaqueBlock, raw=DATA, metadata=METADATA),
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Content]:
    """Return a response with calls of new ids, and their results."""
    blocks: list[Any] = draw(st.lists(PARTS, max_size=2))
    results: list[Any] = []
    for _ in range(draw(st.integers(0, 2))):
        call_id = f"call_{draw(st.integers(0, 10**9))}"
        parameters = draw(st.sampled_from([{}, {"x": 1}]))
        blocks.append(ToolCallBlock(id=call_id, name="f", parameters=parameters, metadata=draw(METADATA)))
        error = draw(st.none() | st.just("It failed."))
        results.append(ToolResponseBlock(call_id=call_id, result=draw(DATA), error=error, metadata=draw(METADATA)))
    blocks += draw(st.lists(PARTS, max_size=1))
    response = Content(speaker="ai", blocks=blocks, metadata=draw(METADATA))
    return [response, *([Content(speaker="tool", blocks=results)] if results else [])]


PIECES = st.one_of(
    *[rounds()] * 8,
    st.builds(lambda content: [content], CONTENTS),
    st.builds(lambda block: [Content(speaker="human", blocks=[block])], PARTS),
    st.builds(lambda block: [Content(speaker="system", blocks=[block])], PARTS),
)
EDITS = st.sampled_from(
    [*["add"] * 8, "body", "body", "body", "remove", "replace", "assign", "insert", "shorten", "target", "target"]
)


def outcome(context: RoundContext) -> Any:
    """Return the request of a context and all that its rendering reports, or the error."""
    try:
        request = context.request
        rendered = context._rendered_for_request
    except UnsupportedContent as error:
        return str(error)
    return json.dumps(request), rendered.changes, rendered.spans, json.dumps(context.thread)


def outcome_from_nothing(context: RoundContext) -> Any:
    """Return what `outcome` does, without anything that was kept."""
    mark, options = auto_mark(context.cache), {"model": context.model}
    marked = context.contents if mark is None else mark_contents(context.contents, mark)
    try:
        rendered = render_messages(marked, context.provider, **options)
        request = context.provider.build_request(rendered)
        thread = render_messages(context.contents, context.provider, **options).messages
    except UnsupportedContent as error:
        return str(error)
    return json.dumps(request), rendered.changes, rendered.spans, json.dumps(thread)


def edit_body(draw: st.DrawFn, body: Any) -> None:
    """Change a request's body in place as a caller may: at any depth, an item is removed or added."""
    while isinstance(body, (dict, list)) and body:
        key: Any = draw(st.sampled_from(sorted(body) if isinstance(body, dict) else range(len(body))))
        if draw(st.booleans()) or not isinstance(body[key], (dict, list)):
            break
        body = body[key]
    else:
        return
    if draw(st.booleans()):
        del body[key]
    elif isinstance(body, dict):
        body["cache_control"] = {"type": "ephemeral"}
    else:
        body.insert(key, {"type": "text", "text": "mine"})


@st.composite
def histories(draw: st.DrawFn) -> None:
    """Edit a conversation at random, and compare after each edit."""
    contents: list[Content] = []
    context = RoundContext([], [], None, draw(st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(2, 12))):
        edit = draw(EDITS) if contents else "add"
        number = draw(st.integers(0, len(contents) - 1)) if contents else 0
        if edit == "add":
            contents += draw(PIECES)
        elif edit == "remove":
            del contents[number]
        elif edit == "replace":
            contents[number] = draw(CONTENTS)
        elif edit == "assign":
            for block in contents[number].blocks[:1]:
                if isinstance(block, TextBlock):
                    block.text = "assigned"
            contents[number].metadata = draw(METADATA)
        elif edit == "insert":
            contents[number].blocks.append(TextBlock(text="inserted"))
        elif edit == "shorten":
            del contents[:number]
        elif edit == "target":
            cache: Any = draw(st.sampled_from([None, "auto"]))
            model = draw(st.sampled_from([None, "m", "kimi-k2", "gemini-3-pro", "deepseek-reasoner"]))
            context = replace(context, provider=draw(st.sampled_from(NAMES)), model=model, cache=cache)
        elif "request" in context.__dict__:
            edit_body(draw, context.request)
        context = replace(context, contents=list(contents))
        assert outcome(context) == outcome_from_nothing(context)


@pytest.mark.hypothesis
@given(history=histories())
def test_an_edited_conversation_is_rendered_as_from_nothing(history: None) -> None:
    assert history is None
