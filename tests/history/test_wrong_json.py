"""Stored data with wrong JSON types: every field of every stored class, alone and two at once."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from streamkit import Content, RunState
from streamkit.history.content import Block

WRONG: list[Any] = [
    None, True, 0, -1, 10**30, 1.5, "", "x", "{", "{}", "[1]", "\ud800", [], [1], [[]], [None], [{}], {}, {"a": 1},
    {"": {}}, {"type": 5}, [{"type": []}], {"provider": []}, [["provider", 1]], {"speaker": 1, "blocks": 1},
]  # fmt: skip

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Hi.", "metadata": {}},
    {"type": "image", "data": "data:image/png;base64,QUI=", "metadata": {}},
    {"type": "file", "media_type": "text/plain", "data": "QUI=", "url": None, "name": "a.txt", "metadata": {}},
    {"type": "tool_call", "id": "c", "name": "look", "parameters": {}, "kind": "function", "metadata": {}},
    {"type": "tool_call", "id": "c", "name": "look", "parameters": "[1]", "kind": "function", "metadata": {}},
    {
        "type": "tool_response",
        "callId": "c",
        "name": "look",
        "result": 1,
        "status": None,
        "error": None,
        "metadata": {},
    },
    {"type": "reasoning", "text": "Hm.", "kind": "text", "signature": "s", "opaque": None, "metadata": {}},
    {"type": "server_tool", "id": "s", "name": "n", "arguments": 1, "result": 1, "raw": [], "metadata": {}},
    {"type": "opaque", "raw": {}, "metadata": {}},
    {"type": "new", "field": 1, "metadata": {}},
]
"""An example of each block, with all fields."""

STATE: dict[str, Any] = {
    "version": 1, "run_key": "k", "provider": "openai_chat", "round": 0, "history": [], "contents": [],
    "is_paused": False,
}  # fmt: skip


def validate(model: type[BaseModel], data: Any) -> BaseModel | None:
    """Return the object of data, the same from Python values and from JSON; None if it is refused."""
    made: list[BaseModel | None] = []
    for read in (lambda: model.model_validate(data), lambda: model.model_validate_json(json.dumps(data))):
        try:
            made.append(read())
        except ValidationError:
            made.append(None)
    if "\\ud800" not in json.dumps(data):  # which is no JSON text for pydantic
        assert (made[0] is None) == (made[1] is None)
    return made[0]


def test_the_examples_have_every_field_of_every_block() -> None:
    shown = {block["type"]: block.keys() - {"type", "callId"} for block in BLOCKS}
    for member in Block.__args__[0].__args__:  # type: ignore[attr-defined]
        model = member.__args__[0] if hasattr(member, "__args__") else member
        kind = model.model_fields["type"].default
        kind = kind if isinstance(kind, str) else "new"
        assert model.model_fields.keys() - {"type", "call_id"} <= shown[kind]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block["type"]))
def test_a_content_with_wrong_fields_is_refused_with_a_validation_error(block: dict[str, Any]) -> None:
    assert validate(Content, {"speaker": "ai", "blocks": [block]}) is not None
    for name in block:
        for wrong in WRONG:
            validate(Content, {"speaker": "ai", "blocks": [{**block, name: wrong}]})
    for first, second in combinations(block, 2):
        for wrong in WRONG[::3]:
            for other in WRONG[1::3]:
                validate(Content, {"speaker": "ai", "blocks": [{**block, first: wrong, second: other}]})


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_wrong_fields_of_a_content_or_a_state_are_refused_with_a_validation_error(wrong: Any) -> None:
    content = {"speaker": "ai", "blocks": [BLOCKS[0]], "metadata": {}}
    for name in content:
        validate(Content, {**content, name: wrong})
    validate(Content, wrong)
    assert validate(RunState, STATE) is not None
    for name in RunState.model_fields:
        validate(RunState, {**STATE, name: wrong})
    for name in ("history", "contents", "assistant", "calls", "results", "usage"):
        inner = {"speaker": "ai", "blocks": [{**BLOCKS[4], "metadata": wrong}], "metadata": wrong}
        validate(RunState, {**STATE, name: inner if name == "assistant" else [inner, wrong]})
        validate(RunState, {**STATE, name: [{"call": wrong, "id": wrong, "name": "x", "arguments": wrong}]})
    validate(RunState, wrong)


@pytest.mark.parametrize("wrong", [["a"], "a", 1, [["raw_arguments", 1]]], ids=repr)
def test_metadata_that_is_no_object_is_refused_beside_arguments_that_are_none(wrong: Any) -> None:
    block = {"type": "tool_call", "id": "c", "name": "look", "parameters": "[1]", "metadata": wrong}
    with pytest.raises(ValidationError, match="metadata"):
        Content.model_validate({"speaker": "ai", "blocks": [block]})
