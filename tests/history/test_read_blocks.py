"""Blocks that importers create without the constructor are the same as those of the constructor."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from streamkit.history import Content, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.content import create_block
from streamkit.history.stored_data import is_plain_data
from streamkit.values.model_copy import copy_with

FIELDS: dict[type[Any], dict[str, Any]] = {
    TextBlock: {"text": "Hi", "metadata": {"provider": "openai_chat"}},
    ReasoningBlock: {"text": "Hm.", "signature": "s", "metadata": {}},
    ToolCallBlock: {"id": "a", "name": "f", "parameters": {"x": [1, {"y": None}]}, "metadata": {"raw_id": "r"}},
    ToolResponseBlock: {"call_id": "a", "result": ["ok"], "metadata": {}},
}


@pytest.mark.parametrize("model", FIELDS)
def test_a_created_block_is_the_same_as_a_constructed_one(model: type[Any]) -> None:
    created, constructed = create_block(model, **copy.deepcopy(FIELDS[model])), model(**FIELDS[model])
    assert created == constructed
    assert repr(created) == repr(constructed)
    assert created.model_dump_json() == constructed.model_dump_json()
    assert created.model_dump(exclude_unset=True) == constructed.model_dump(exclude_unset=True)
    assert created.model_extra == constructed.model_extra
    assert copy.deepcopy(created) == created.model_copy(deep=True) == created
    assert Content(speaker="ai", blocks=[created]) == Content(speaker="ai", blocks=[constructed])
    created.note = "kept"  # as any block does
    assert created.model_dump()["note"] == "kept"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("\ud83d\ude00", "\N{GRINNING FACE}"),
        ("half \ud83d", "half \N{REPLACEMENT CHARACTER}"),
        (math.nan, "NaN"),
        ((1, 2), [1, 2]),
        ({1: {"\udc00": b"x"}}, {"1": {"\N{REPLACEMENT CHARACTER}": "x"}}),
        ([[[[[[[[[[[[1]]]]]]]]]]]], [[[[[[[[[[[[1]]]]]]]]]]]]),
    ],
)
def test_values_of_a_created_block_become_json_data(given: Any, stored: Any) -> None:
    assert create_block(ToolResponseBlock, call_id="a", result=given, metadata={}).result == stored
    assert ToolResponseBlock(call_id="a", result=given).result == stored


def test_created_blocks_share_no_defaults() -> None:
    first, second = (create_block(ToolCallBlock, id="a", name="f", parameters={}, metadata={}) for _ in range(2))
    first.metadata["x"] = first.parameters["y"] = 1  # type: ignore[index]  # an object
    assert (second.metadata, second.parameters) == ({}, {})


def test_a_copy_with_other_fields_is_that_of_pydantic() -> None:
    block = ToolCallBlock.model_validate({**FIELDS[ToolCallBlock], "note": "kept"})
    copied, expected = copy_with(block, name="g"), block.model_copy(update={"name": "g"})
    assert copied == expected
    assert copied.model_fields_set == expected.model_fields_set
    assert copied.model_dump(exclude_unset=True) == expected.model_dump(exclude_unset=True)
    copied.note = "changed"  # type: ignore[attr-defined]  # a further field
    assert block.note == "kept"  # type: ignore[attr-defined]
    assert block.name == "f"


def test_data_that_refers_to_itself_is_recognized_at_once() -> None:
    parent: dict[str, Any] = {"children": []}
    parent["children"] = [{"parent": parent} for _ in range(1000)]
    itself: list[Any] = []
    itself += [itself] * 1000
    assert not is_plain_data(parent)
    assert not is_plain_data(itself)
    assert is_plain_data([{"children": [{"n": n} for n in range(1000)]}])
