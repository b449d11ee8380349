"""The official SDKs' request types as judges of rendered threads: what these refuse, the provider refuses too.

The types of the openai and anthropic SDKs are TypedDicts that say ``Iterable[...]``, which pydantic checks only when
somebody iterates: a plain ``TypeAdapter`` accepts a call without its name. So the schema is made eager, and keys that
the type does not name are refused. Rules that the types do not know (the form of an id) are checked besides.
Each judge raises ``ValueError`` (pydantic's ``ValidationError`` is one).
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

__all__ = [
    "anthropic_messages",
    "anthropic_request",
    "bedrock_messages",
    "bedrock_request",
    "gemini_contents",
    "openai_chat_messages",
    "openai_chat_request",
    "openai_responses_input",
    "openai_responses_tool",
]


def _strict(schema: Any) -> Any:
    if isinstance(schema, dict):
        strict = {name: _strict(item) for name, item in schema.items()}
        if strict.get("type") == "generator":
            strict["type"] = "list"
        if strict.get("type") == "typed-dict":
            strict["extra_behavior"] = "forbid"
        return strict
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if isinstance(schema, tuple):
        return tuple(_strict(item) for item in schema)
    return schema


@functools.cache
def _judge(module: str, name: str, many: bool) -> SchemaValidator:
    kind = getattr(importlib.import_module(module), name)
    return SchemaValidator(_strict(TypeAdapter(list[kind] if many else kind).core_schema))  # type: ignore[valid-type]


def _values(data: Any, *names: str) -> Iterator[Any]:
    """Every value that stands under one of the names, anywhere."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name in names:
                yield value
            yield from _values(value, *names)
    elif isinstance(data, list):
        for item in data:
            yield from _values(item, *names)


def openai_chat_messages(messages: list[dict[str, Any]]) -> None:
    _judge("openai.types.chat", "ChatCompletionMessageParam", True).validate_python(messages)
    for message in messages:
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        for given in [*ids, *_values(message, "tool_call_id")]:
            # "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40"
            if not 0 < len(given) <= 40:
                raise ValueError(f"tool call id {given!r} has {len(given)} characters; OpenAI takes 1 to 40")


def openai_chat_request(body: dict[str, Any]) -> None:
    """The whole body; ``model`` is the caller's and is added here."""
    module = "openai.types.chat.completion_create_params"
    kind = "CompletionCreateParamsStreaming" if body.get("stream") else "CompletionCreateParamsNonStreaming"
    _judge(module, kind, False).validate_python({"model": "m", **body})


def openai_responses_input(items: list[dict[str, Any]]) -> None:
    _judge("openai.types.responses.response_input_param", "ResponseInputItemParam", True).validate_python(items)
    for item in items:
        if item.get("type") == "function_call_output" and not item.get("call_id"):
            raise ValueError(f"an output without call_id: {item}")  # another item's type takes it for its own


def openai_responses_tool(tool: dict[str, Any]) -> None:
    _judge("openai.types.responses", "FunctionToolParam", False).validate_python(tool)


def anthropic_messages(messages: list[dict[str, Any]]) -> None:
    _judge("anthropic.types", "MessageParam", True).validate_python(messages)
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        ids = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        for given in [*ids, *_values(blocks, "tool_use_id")]:
            # "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", given):
                raise ValueError(f"Anthropic refuses the tool use id {given!r}")


def anthropic_request(body: dict[str, Any]) -> None:
    """The whole body; ``model`` and ``max_tokens`` are the caller's and are added here."""
    module = "anthropic.types.message_create_params"
    kind = "MessageCreateParamsStreaming" if body.get("stream") else "MessageCreateParamsNonStreaming"
    _judge(module, kind, False).validate_python({"model": "m", "max_tokens": 1, **body})


def gemini_contents(contents: list[dict[str, Any]]) -> None:
    """These are pydantic models that forbid unknown fields by themselves; both spellings are accepted."""
    kind = importlib.import_module("google.genai.types").Content
    TypeAdapter(list[kind]).validate_python(contents)  # type: ignore[valid-type]


def bedrock_messages(messages: list[dict[str, Any]]) -> None:
    bedrock_request({"messages": messages})


def bedrock_request(body: dict[str, Any]) -> None:
    """The whole body of ConverseStream, by the service's own model; and what the service says beyond it."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate({"modelId": "m", **body}, _converse_stream())
    if report.has_errors():
        raise ValueError(report.generate_report())
    roles = [message["role"] for message in body["messages"]]
    if roles != [("user", "assistant")[place % 2] for place in range(len(roles))]:
        raise ValueError(f"roles alternate and a user begins: {roles}")
    waiting: set[str] = set()
    for message in body["messages"]:
        content = message["content"]
        if not content or any(not text.strip() for text in _values(content, "text")):
            raise ValueError(f"blank content: {message}")
        uses = [part["toolUse"] for part in content if "toolUse" in part]
        for given in [*(use["toolUseId"] for use in uses), *_values(content, "toolUseId")]:
            # ToolUseBlock.toolUseId: 1 to 64 of [a-zA-Z0-9_-] (its later pattern has "." and ":", not every model does)
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", given):
                raise ValueError(f"Bedrock refuses the tool use id {given!r}")
        results = {part["toolResult"]["toolUseId"] for part in content if "toolResult" in part}
        if message["role"] == "user" and results != waiting:
            raise ValueError(f"calls {waiting} are answered by {results}")
        calls = {use["toolUseId"] for use in uses if "type" not in use}
        if calls and "toolUse" not in content[-1]:
            raise ValueError(f"an assistant message with calls ends with one: {content}")
        waiting = calls
    if any("toolUse" in part for message in body["messages"] for part in message["content"]):
        if "toolConfig" not in body and set(body) != {"messages"}:
            raise ValueError("toolConfig must be defined when using toolUse and toolResult")


@functools.cache
def _converse_stream() -> Any:
    import botocore.session

    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("ConverseStream").input_shape
