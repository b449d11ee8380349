"""The objects that are made in few steps are those that the constructors make, field by field and in their order."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from streamkit.history import Content, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.builder import ContentBuilder, call_block, result_block, text_block

MARK: dict[str, Any] = {"provider": "openai_chat"}


def built(block: TextBlock) -> Content:
    builder = ContentBuilder("openai_chat")
    builder.add_block("ai", block)
    (content,) = builder.build()
    return content


@pytest.mark.parametrize(
    ("made", "constructed"),
    [
        (text_block("Hi", MARK), TextBlock(text="Hi", metadata=MARK)),
        (
            call_block("c", "f", {"a": 1}, "function", MARK),
            ToolCallBlock(id="c", name="f", parameters={"a": 1}, kind="function", metadata=MARK),
        ),
        (
            call_block("c", "f", "text", "custom", MARK),
            ToolCallBlock(id="c", name="f", parameters="text", kind="custom", metadata=MARK),
        ),
        (
            result_block("c", "f", [1], "error", "no", MARK),
            ToolResponseBlock(call_id="c", name="f", result=[1], status="error", error="no", metadata=MARK),
        ),
        (
            built(text_block("Hi", {})),
            Content(speaker="ai", blocks=[TextBlock(text="Hi", metadata={})], metadata=MARK),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_is_what_the_constructor_makes(made: BaseModel, constructed: BaseModel) -> None:
    assert made == constructed
    assert list(vars(made)) == list(vars(constructed)) == list(type(made).model_fields)
    assert made.model_fields_set | {"type"} == constructed.model_fields_set | {"type"}
    assert made.model_dump_json() == constructed.model_dump_json()
    assert made.model_copy(deep=True) == constructed
