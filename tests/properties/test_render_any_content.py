"""Any content is rendered for every target, to messages that can be written as JSON in UTF-8."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Content, UnsupportedContent, parse_messages, providers, render, render_request
from streamkit.errors import UsageError
from streamkit.history import (
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

TARGETS = providers.names()
NAMES = [
    "type", "text", "content", "role", "id", "name", "input", "functionCall", "functionResponse", "response", "toolUse",
    "toolResult", "toolUseId", "document", "image", "format", "source", "bytes", "reasoningContent", "cachePoint",
    "thoughtSignature", "thinking", "signature", "tool_use_id", "call_id", "arguments", "output", "summary", "status",
    "item_id", "citations", "refusal", "audio", "caller", "container", "reasoning_details", "index", "raw", "item",
    "raw_id", "provider", "extra_content", "turn_key", "response_id", "model", "cache", "ttl", "annotations", "data",
    "image_url", "url", "namespace", "phase", "parts", "inlineData", "mimeType", "encrypted_content", "tool_calls",
]  # fmt: skip
WORDS = [
    "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use", "reasoning", "message",
    "function_call", "function_call_output", "reasoning.text", "program", "direct", "file", "msg_1", "fc_1", "rs_1",
    "", "x", "\ud83d", "a\udc00b", "{", *TARGETS,
]  # fmt: skip
LEAVES = (
    st.sampled_from(WORDS)
    | st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.sampled_from(["big", b"\xff", (1, "\ud83d"), frozenset({1})])
)
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=10,
)
TEXTS = st.sampled_from(["", " ", "Hi", "a\ud83d", "\udc00", "end \n"])
METADATA = st.builds(
    lambda provider, more: {**more, "provider": provider} if provider else more,
    st.none() | st.sampled_from(TARGETS),
    st.dictionaries(st.sampled_from(NAMES), DATA, max_size=4),
)
OBJECTS = st.dictionaries(st.sampled_from(NAMES), DATA, max_size=3)
IDS = st.sampled_from(["hist_tool_" + "a" * 24, "hist_tool_" + "b" * 24, "call_1", "", "\ud83d"])
PNG = "data:image/png;base64,iVBORw0KGgo="
BLOCKS = st.one_of(
    st.builds(TextBlock, text=TEXTS, metadata=METADATA),
    st.builds(ImageBlock, data=st.sampled_from([PNG, "https://e.org/a.png", "\ud83d", ""]), metadata=METADATA),
    st.builds(
        FileBlock,
        media_type=st.sampled_from([None, "application/pdf", "audio/mpeg", "image/png", "\ud83d"]),
        data=st.sampled_from([None, "JVBE", PNG, "%"]),
        url=st.sampled_from([None, "https://e.org/a.pdf", "\ud83d"]),
        name=st.sampled_from([None, "a.pdf", "\ud83d"]),
        metadata=METADATA,
    ),
    st.builds(
        ToolCallBlock,
        id=IDS,
        name=st.sampled_from(["f", "", "a b", "\ud83d"]),
        parameters=OBJECTS,
        metadata=METADATA,
    ),
    st.builds(ToolCallBlock, id=IDS, name=st.just("c"), parameters=TEXTS, kind=st.just("custom"), metadata=METADATA),
    st.builds(
        ToolResponseBlock,
        call_id=IDS,
        name=st.sampled_from([None, "f", "\ud83d"]),
        result=DATA,
        status=st.sampled_from([None, "completed", "error", "denied", "\ud83d"]),
        error=st.none() | TEXTS,
        metadata=METADATA,
    ),
    st.builds(
        ReasoningBlock,
        text=TEXTS,
        kind=st.sampled_from(["text", "summary", "plan"]),
        signature=st.none() | TEXTS,
        opaque=DATA,
        metadata=METADATA,
    ),
    st.builds(
        ServerToolBlock,
        id=st.none() | TEXTS,
        name=TEXTS,
        arguments=DATA,
        result=DATA,
        raw=st.lists(DATA, max_size=2),
        metadata=METADATA,
    ),
    st.builds(OpaqueBlock, raw=DATA, metadata=METADATA),
    st.builds(UnknownBlock, type=st.just("odd"), metadata=METADATA),
)
CONTENTS = st.builds(
    Content,
    speaker=st.sampled_from(["human", "ai", "ai", "tool", "system", "odd"]),
    blocks=st.lists(BLOCKS, max_size=4),
    metadata=METADATA,
)


def spoil(content: Content, value: Any) -> None:
    """Put a value into the content after it was checked."""
    for block in content.blocks:
        block.metadata["spoiled"] = value
        if isinstance(block, ToolCallBlock) and isinstance(block.parameters, dict):
            block.parameters["spoiled"] = value
        elif isinstance(block, ToolResponseBlock):
            block.result = [value]
        elif isinstance(block, (OpaqueBlock, ServerToolBlock)) and isinstance(block.raw, (dict, list)):
            if isinstance(block.raw, dict):
                block.raw["spoiled"] = value
            else:
                block.raw.append({"type": "x", "spoiled": value})
        elif isinstance(block, TextBlock):
            block.text += "\ud83d"


def check_json(value: Any) -> None:
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["anthropic", "bedrock_converse", "cohere", "gemini", "ollama", "openai_responses",
                                    "openai_chat", "openrouter", "mistral"])  # fmt: skip
@given(
    st.lists(CONTENTS, max_size=4),
    st.sampled_from([None, float("nan"), b"\xff", "\ud83d", {1: 2}, ("\udc00",), {2}, "big"]),
    st.booleans(),
    st.sampled_from(["canonical", "origin"]),
)
def test_any_content_is_rendered_as_json(
    target: str, contents: list[Content], value: Any, repair: bool, ids: Any
) -> None:
    for content in contents:
        assert Content.model_validate_json(content.model_dump_json()) == content
        spoil(content, 10**5000 if value == "big" else value)
    for policy in ("text", "drop"):
        messages = render(contents, target, repair=repair, unsupported=policy, ids=ids)  # type: ignore[arg-type]
        check_json(messages)
    check_json(render_request(contents, target, repair=repair, unsupported="text"))
    with contextlib.suppress(UnsupportedContent):
        check_json(render(contents, target, repair=repair))
    if providers.get(target).traits.has_importer:
        try:
            parse_messages(messages, target)
        except UsageError as error:
            assert "look like" in str(error)  # noqa: PT017 - own parts of any form
