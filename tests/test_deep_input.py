"""Input that is nested too deeply ends with its documented error, whatever walks it: never with ``RecursionError``.

How deep a function may go depends on the stack above it, so the depths here are around each bound: of history (190), of
arguments and schemas (256), and of Python's own recursion (1,000).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from streamkit import Content, Tool, Turn, UsageError, providers, render, render_request
from streamkit.events import to_json
from streamkit.history import OpaqueBlock, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers import parse_request

Json = dict[str, Any]
WIRES = ("anthropic", "bedrock_converse", "cohere", "gemini", "ollama", "openai_chat", "openai_responses")
DEPTHS = (180, 300, 930, 960, 985, 3000)
HELLO = [Content.human("Hi")]


def nested(depth: int, wrap: Callable[[Any], Any] = lambda inner: {"a": inner}) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = wrap(value)
    return value


def object_schema(inner: Any) -> Json:
    return {"type": "object", "properties": {"a": inner}}


SCHEMAS: dict[str, Callable[[Any], Any]] = {
    "properties": object_schema,
    "items": lambda inner: {"type": "array", "items": inner},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}]},
    "allOf": lambda inner: {"allOf": [inner]},
    "not": lambda inner: {"not": inner},
    "definitions": lambda inner: {"$defs": {"a": inner}, "$ref": "#/$defs/a"},
    "a keyword of its own": lambda inner: {"x-inner": inner},
}


@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_is_nested_too_deeply_is_a_usage_error_with_the_name_of_the_tool(
    kind: str, provider: str
) -> None:
    for depth in (300, 900, 3000):
        tool = Tool(name="find_all", parameters=object_schema(nested(depth, SCHEMAS[kind])), description="d")
        with pytest.raises(UsageError, match=r"schema of the tool 'find_all' is nested more than 256 levels deep"):
            render_request(HELLO, provider, tools=[tool])


@pytest.mark.parametrize("provider", WIRES)
def test_a_schema_of_a_hundred_levels_is_sent(provider: str) -> None:
    tool = Tool(name="find_all", parameters=nested(100, object_schema) | {"type": "object"}, description="d")
    assert "tool" in json.dumps(render_request(HELLO, provider, tools=[tool]))


@pytest.mark.parametrize("kind", ["anyOf", "allOf", "properties"])
def test_a_strict_tool_with_a_schema_that_is_nested_too_deeply_is_a_usage_error(kind: str) -> None:
    with pytest.raises(UsageError, match="find_all"):
        Tool(name="find_all", parameters=object_schema(nested(3000, SCHEMAS[kind])), description="d", strict=True)


def test_a_schema_that_contains_itself_is_a_usage_error() -> None:
    schema: Json = {"type": "object", "properties": {}}
    schema["properties"] |= {"left": schema, "right": schema}
    tool = Tool(name="find_all", parameters=schema, description="d")
    with pytest.raises(UsageError, match="find_all"):
        render_request(HELLO, "openai_chat", tools=[tool])


#: Chunks with a value of any depth in a place where it is converted, compared or written.
CHUNKS: dict[str, tuple[str, Callable[[Any], Json]]] = {
    "arguments": (
        "openai_chat",
        lambda deep: {"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"arguments": deep}}]}}]},
    ),
    "sources": ("perplexity", lambda deep: {"choices": [{"delta": {"content": "a"}}], "citations": [deep]}),
    "a response": ("openai_chat", lambda deep: {"response": deep, "usage": {}}),
    "the operation of a patch": (
        "openai_responses",
        lambda deep: {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "apply_patch_call", "call_id": "c", "operation": {"path": "a", "new": deep}},
        },
    ),
    "arguments of a part": (
        "gemini",
        lambda deep: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": deep}}]}}]},
    ),
    "arguments that are text": (
        "gemini",
        lambda deep: {
            "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": json_text(deep)}}]}}]
        },
    ),
    "the input of a block": (
        "anthropic",
        lambda deep: {"type": "message", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": deep}]},
    ),
    "metadata": ("bedrock_converse", lambda deep: {"metadata": {"trace": deep}}),
}


def json_text(value: Any) -> str:
    """Return the JSON of a value of single members; ``json`` is recursive."""
    depth = 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    return '{"a":' * depth + f'"{value}"' + "}" * depth


@pytest.mark.parametrize("kind", CHUNKS)
def test_a_chunk_of_any_depth_never_raises(kind: str) -> None:
    provider, chunk = CHUNKS[kind]
    traits = providers.get(provider).traits
    for depth in DEPTHS:
        deep = nested(depth)
        inputs: list[Any] = [chunk(deep)]
        if traits.framing == "sse" and kind != "arguments that are text":
            text = json.dumps(chunk("DEEP")).replace('"DEEP"', json_text(deep))
            inputs.append(f"data: {text}\n\n".encode())
        for data in inputs:
            turn = Turn(provider, "turn-1")
            events = [*turn.feed(data), *turn.close(complete=True)]
            assert turn.error is not None or turn.finish is not None
            assert not (turn.error and turn.executable)
            assert all(map(to_json, events))
            assert turn.to_dict()["provider"] == provider
            stored = turn.content.model_dump_json()
            assert Content.model_validate_json(stored).model_dump_json() == stored


@pytest.mark.parametrize("provider", WIRES)
def test_contents_of_any_depth_are_rendered_or_refused(provider: str) -> None:
    for depth in DEPTHS:
        deep = nested(depth)
        blocks: list[Any] = [
            TextBlock(text="Hi", metadata={"new": deep}),
            ReasoningBlock(text="hm", opaque=deep),
            OpaqueBlock(raw=deep),
            ToolCallBlock(id="c", name="f", parameters={"a": deep}),
        ]
        answer = Content(speaker="ai", blocks=blocks)
        result = Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c", result=deep)])
        assert render([*HELLO, answer, result], provider)


def test_a_request_of_gemini_with_lists_in_lists_is_read() -> None:
    for depth in DEPTHS:
        for name in ("tools", "toolConfig"):
            deep = nested(depth, lambda inner: [inner])
            assert parse_request({"contents": [], name: deep}, "gemini") is not None
        assert parse_request({"contents": [], "toolConfig": nested(depth, lambda a: {"toolConfig": a})}, "gemini")
