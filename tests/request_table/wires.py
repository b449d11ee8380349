"""The rows of each wire: a path, and a body with the field or part at it, made from the types of the wire's SDK."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import botocore.session
import typing_extensions
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from cohere.v2.client import V2Client
from google.genai import types as gemini_types
from ollama._types import ChatRequest, Message, Options
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from request_table.sdk_types import (
    Json,
    Node,
    Row,
    camel,
    expand,
    objects_of,
    python_node,
    sample_of,
    shape_node,
    tag_of,
)

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION: Json = {"name": "look", "description": "Look.", "parameters": SCHEMA}
#: A body of each wire: a question, a tool. What a row adds is compared with it.
BASES: dict[str, Json] = {
    "openai_chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [{"type": "function", "function": FUNCTION}],
    },
    "openai_responses": {
        "model": "m",
        "input": [{"role": "user", "content": "Hello."}],
        "tools": [{"type": "function", **FUNCTION}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 8000,
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [{"name": "look", "description": "Look.", "input_schema": SCHEMA}],
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hello."}]}],
        "tools": [{"functionDeclarations": [{"name": "look", "description": "Look.", "parametersJsonSchema": SCHEMA}]}],
    },
    "bedrock_converse": {
        "messages": [{"role": "user", "content": [{"text": "Hello."}]}],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "look", "description": "Look.", "inputSchema": {"json": SCHEMA}}}]
        },
    },
    "cohere": {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [{"type": "function", "function": FUNCTION}],
    },
    "ollama": {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [{"type": "function", "function": FUNCTION}],
    },
}
#: Fields that are not of the body that an API gets, or that say what the base says.
SDK_ONLY: dict[str, frozenset[str]] = {
    "openai_chat": frozenset({"stream"}),
    "openai_responses": frozenset({"stream"}),
    "anthropic": frozenset({"stream", "betas", "user_profile_id", "workspace_id"}),  # three headers
    "gemini": frozenset({"httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling"}),
    "bedrock_converse": frozenset({"modelId"}),
    "cohere": frozenset({"requestOptions", "request_options", "self", "stream"}),
    "ollama": frozenset({"stream"}),
}


def _hints(kind: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(kind, include_extras=True)


def _with(base: Json, **fields: Any) -> Json:
    return {**deepcopy(base), **fields}


def _body_rows(wire: str, fields: dict[str, tuple[Node, bool]], place: Callable[[Json], Json]) -> Iterator[Row]:
    for name, (node, _) in fields.items():
        if name in BASES[wire] or name in SDK_ONLY[wire] or name == "model":
            continue
        yield from expand(Node(fields={name: (node, False)}), "", place)


def _parts(node: Node, path: str, base: Json, wrap: Callable[[Json], Json]) -> Iterator[Row]:
    """Yield each kind of part, and each of its optional fields."""
    for option in objects_of(node):
        label = f"{path}[{tag_of(option)}]"
        yield label, wrap(sample_of(option)), base
        yield from expand(option, label, wrap)


def _item(node: Node) -> Node:
    """Return the type of the items of a list, also of one of several options."""
    lists = [each for each in (node.options or [node]) if each.item is not None]
    found = lists[0].item if lists else None
    assert found is not None
    return found


def _chat(_: str = "") -> Iterator[Row]:
    base, hints = BASES["openai_chat"], _hints(CompletionCreateParamsNonStreaming)
    yield from _body_rows(
        "openai_chat",
        {name: (python_node(kind), False) for name, kind in hints.items()},
        lambda body: _with(base, **body),
    )
    yield from _role_messages(base, python_node(hints["messages"]))
    for option in objects_of(_item(python_node(hints["tools"]))):
        yield f"tools[{tag_of(option)}]", _with(base, tools=[*base["tools"], sample_of(option)]), base
    strict = {"type": "function", "function": {**FUNCTION, "strict": True}}
    yield "tools[function].function.strict", _with(base, tools=[strict]), base


def _role_messages(base: Json, node: Node) -> Iterator[Row]:
    """Yield the rows of messages that have a role each."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = [*base["messages"], {"role": "assistant", "content": "So.", "tool_calls": [call]}]
    for option in objects_of(_item(node)):
        role = str(option.fields["role"][0].sample)
        if role == "function":
            continue  # deprecated, and read as ``tool``
        before = asked if role == "tool" else base["messages"]

        def place(message: Json, role: str = role, before: list[Json] = before) -> Json:
            message = {"content": "Text.", **message, "role": role}
            after = [{"role": "user", "content": "And?"}] if role == "assistant" else []
            if message.get("tool_calls"):
                after = [
                    {"role": "tool", "tool_call_id": message["tool_calls"][0].get("id", "x"), "content": "1"},
                    *after,
                ]
            return _with(base, messages=[*before, message, *after])

        for name, (each, required) in option.fields.items():
            parts = [inner for inner in (each.options or [each]) if inner.item is not None and objects_of(inner.item)]
            if name == "content" and parts:
                said = [{"type": "text", "text": "So."}] if role == "assistant" else []
                plain = place({"content": said}) if said else base
                yield from _parts(_item(parts[0]), f"messages[{role}].content", plain, _as_content(place, said))
            elif name == "tool_calls":
                for kind in objects_of(_item(each)):
                    sample = sample_of(kind)
                    if "function" in sample:
                        sample = {**sample, "id": "call_1", "function": {"name": "look", "arguments": '{"a": 1}'}}
                    yield f"messages[{role}].tool_calls[{tag_of(kind)}]", place({"tool_calls": [sample]}), base
            elif name not in ("role", "content") and not required:
                yield from expand(Node(fields={name: (each, False)}), f"messages[{role}]", place)


def _as_content(place: Callable[[Json], Json], said: list[Json]) -> Callable[[Json], Json]:
    return lambda part: place({"content": [*said, part]})


def _responses() -> Iterator[Row]:
    base, hints = BASES["openai_responses"], _hints(ResponseCreateParamsNonStreaming)
    yield from _body_rows(
        "openai_responses",
        {name: (python_node(kind), False) for name, kind in hints.items()},
        lambda body: _with(base, **body),
    )
    items = next(each for each in python_node(hints["input"]).options if each.item is not None).item
    assert items is not None
    seen: set[str] = set()
    for option in objects_of(items):
        kind = tag_of(option)
        if kind in seen:
            continue
        seen.add(kind)
        sample = sample_of(option)
        before: list[Json] = [*base["input"]]
        if kind == "function_call_output":
            before.append({"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"})
        if kind == "message":
            content = option.fields["content"][0]
            for role in ("user", "developer", "assistant"):
                parts = _item(content) if content.item or content.options else content
                for part in objects_of(parts):
                    value = {"type": "message", "role": role, "content": [sample_of(part)]}
                    yield f"input[message:{role}].content[{tag_of(part)}]", _with(base, input=[*before, value]), base
            continue
        yield f"input[{kind}]", _with(base, input=[*before, sample]), base
    for option in objects_of(_item(python_node(hints["tools"]))):
        yield f"tools[{tag_of(option)}]", _with(base, tools=[*base["tools"], sample_of(option)]), base
    yield "tools[function].strict", _with(base, tools=[{"type": "function", **FUNCTION, "strict": True}]), base


#: The parts that only a system message has, by the roles whose messages have the same type of parts.
_NOT_OF: dict[str, frozenset[str]] = {
    "user": frozenset({"tool_addition", "tool_removal"}),
    "assistant": frozenset(),
    "system": frozenset(),
}


def _is_of_model(kind: str) -> bool:
    return kind != "tool_result" and kind.endswith(("_tool_result", "tool_use", "thinking", "compaction", "fallback"))


def _anthropic() -> Iterator[Row]:
    base, hints = BASES["anthropic"], _hints(MessageCreateParamsNonStreaming)
    yield from _body_rows(
        "anthropic",
        {name: (python_node(kind), False) for name, kind in hints.items()},
        lambda body: _with(base, **body),
    )
    question, call = base["messages"][0], {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
    for message in objects_of(_item(python_node(hints["messages"]))):
        role = str(message.fields["role"][0].sample)

        def place(block: Json, role: str = role) -> Json:
            said = [{"type": "text", "text": "So."}] if role == "assistant" else []
            messages = [question, {"role": role, "content": [*said, *([block] if block else [])]}]
            if block.get("type") == "tool_result":
                messages.insert(1, {"role": "assistant", "content": [call]})
            elif block.get("type") == "tool_use":
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": "1"}
                messages.append({"role": "user", "content": [result]})
            elif role == "assistant":
                messages.append(question)
            return _with(base, messages=messages)

        blocks = [each for each in objects_of(_item(message.fields["content"][0])) if tag_of(each) not in _NOT_OF[role]]
        blocks = [
            each for each in blocks if (role == "assistant") is _is_of_model(tag_of(each)) or tag_of(each) == "text"
        ]
        plain = place({}) if role == "assistant" else base
        yield from _parts(Node(options=blocks), f"messages[{role}].content", plain, place)
    for option in objects_of(_item(python_node(hints["tools"]))):
        label = tag_of(option)
        sample = sample_of(option)
        if "input_schema" in sample:
            for name, (each, required) in option.fields.items():
                if not required and name != "type":
                    tool = {**base["tools"][0], name: sample_of(each, name)}
                    yield f"tools[custom].{name}", _with(base, tools=[tool]), base
        else:
            yield f"tools[{label}]", _with(base, tools=[*base["tools"], sample]), base


def _gemini() -> Iterator[Row]:
    base = BASES["gemini"]
    config = camel(python_node(gemini_types.GenerateContentConfigDict))
    nested = set(camel(python_node(gemini_types.GenerationConfigDict)).fields) | {"imageConfig", "continuationToken"}
    for name, (node, _) in config.fields.items():
        if name in base or name in SDK_ONLY["gemini"]:
            continue
        if name in nested:
            place: Callable[[Json], Json] = lambda body: _with(base, generationConfig=body)  # noqa: E731
            yield from expand(Node(fields={name: (node, False)}), "generationConfig", place)
        else:
            yield from expand(Node(fields={name: (node, False)}), "", lambda body: _with(base, **body))
    part = camel(python_node(gemini_types.PartDict))
    kinds = {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
    question, call = base["contents"][0], {"functionCall": {"name": "look", "args": {"a": 1}}}
    result = {"functionResponse": {"name": "look", "response": {"result": "1"}}}
    for name, (node, _) in part.fields.items():
        if name not in kinds:
            value = (
                sample_of(node, name)
                if not node.is_object
                else {key: sample_of(each, key) for key, (each, _) in list(node.fields.items())[:1]}
            )
            role = "model" if name.startswith("thought") else "user"
            with_it, without = (
                _with(base, contents=[question, {"role": role, "parts": [part]}, question])
                for part in ({"text": "Text.", name: value}, {"text": "Text."})
            )
            yield f"parts.{name}", with_it, without
            continue
        fields = {key: sample_of(each, key) for key, (each, _) in node.fields.items()} if node.is_object else "Text."
        if name == "functionCall" or name == "functionResponse":
            contents = [question, {"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
        elif name in ("executableCode", "codeExecutionResult", "toolCall", "toolResponse"):
            contents = [question, {"role": "model", "parts": [{name: fields}]}, question]
        else:
            sample = {name: fields}
            contents = [question, {"role": "user", "parts": [sample]}]
        yield f"parts[{name}]", _with(base, contents=contents), base
    for name, (node, _) in camel(python_node(gemini_types.ToolDict)).fields.items():
        if name != "functionDeclarations":
            yield f"tools.{name}", _with(base, tools=[*base["tools"], {name: sample_of(node) or {}}]), base


def _of_kind(place: Callable[[Json], Json], kind: str) -> Callable[[Json], Json]:
    return lambda value: place({kind: value})


def _converse() -> Iterator[Row]:
    base = BASES["bedrock_converse"]
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = shape_node(model.operation_model("ConverseStream").input_shape)
    yield from _body_rows("bedrock_converse", shape.fields, lambda body: _with(base, **body))
    choice = shape_node(model.shape_for("ToolChoice"))
    for option in choice.options:
        body = _with(base)
        body["toolConfig"]["toolChoice"] = {"tool": {"name": "look"}} if tag_of(option) == "tool" else sample_of(option)
        yield f"toolConfig.toolChoice[{tag_of(option)}]", body, base
    for option in shape_node(model.shape_for("Tool")).options:
        if tag_of(option) != "toolSpec":
            body = _with(base)
            body["toolConfig"]["tools"].append(sample_of(option))
            yield f"toolConfig.tools[{tag_of(option)}]", body, base
    body = _with(base)
    body["toolConfig"]["tools"][0]["toolSpec"]["strict"] = True
    yield "toolConfig.tools[toolSpec].strict", body, base
    question, use = base["messages"][0], {"toolUse": {"toolUseId": "call_1", "name": "look", "input": {}}}
    result = {"toolResult": {"toolUseId": "call_1", "content": [{"text": "1"}]}}
    for option in shape_node(model.shape_for("ContentBlock")).options:
        kind = tag_of(option)

        def place(block: Json, kind: str = kind) -> Json:
            if kind == "citationsContent":
                block = {kind: {"content": [{"text": "So."}], **block[kind]}}
            if kind == "toolResult":
                messages = [question, {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]
            elif kind == "toolUse":
                messages = [question, {"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
            elif kind in ("reasoningContent", "citationsContent"):
                messages = [question, {"role": "assistant", "content": [{"text": "So."}, block]}, question]
            else:
                messages = [question, {"role": "user", "content": [block]}]
            return _with(base, messages=messages)

        of_model = [question, {"role": "assistant", "content": [{"text": "So."}]}, question]
        plain = _with(base, messages=of_model) if kind in ("reasoningContent", "citationsContent") else base
        yield f"content[{kind}]", place(sample_of(option)), plain
        inner = option.fields[kind][0]
        if inner.is_object:
            yield from expand(inner, f"content[{kind}]", _of_kind(place, kind))
    for option in shape_node(model.shape_for("SystemContentBlock")).options:
        if tag_of(option) != "text":
            yield f"system[{tag_of(option)}]", _with(base, system=[{"text": "Be brief."}, sample_of(option)]), base


def _cohere() -> Iterator[Row]:
    base, hints = BASES["cohere"], typing.get_type_hints(V2Client.chat_stream, include_extras=True)
    fields = {name: (python_node(kind), False) for name, kind in hints.items() if name != "return"}
    for sdk, wire in (("k", "k"), ("p", "p")):
        fields[wire] = fields[sdk]
    yield from _body_rows("cohere", fields, lambda body: _with(base, **body))
    yield from _role_messages(base, fields["messages"][0])


def _ollama() -> Iterator[Row]:
    base = BASES["ollama"]
    fields = dict(python_node(ChatRequest).fields)
    fields["options"] = (python_node(Options), False)
    yield from _body_rows("ollama", fields, lambda body: _with(base, **body))
    for name, (node, _) in python_node(Message).fields.items():
        role = {"tool_name": "tool", "tool_calls": "assistant", "thinking": "assistant"}.get(name, "user")
        call = {"function": {"name": "look", "arguments": {"a": 1}}}
        messages: list[Json] = [*base["messages"]]
        if name in ("role", "content"):
            continue
        if name == "tool_calls":
            messages += [
                {"role": role, "content": "", name: [call]},
                {"role": "tool", "tool_name": "look", "content": "1"},
            ]
        elif name == "tool_name":
            messages += [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": role, name: "look", "content": "1"},
            ]
        else:
            messages += [{"role": role, "content": "Text.", name: sample_of(node, name)}, *base["messages"]]
        without = [{key: value for key, value in each.items() if key != name} for each in messages]
        plain = base if name.startswith("tool_") else _with(base, messages=without)
        yield f"messages[{role}].{name}", _with(base, messages=messages), plain


_CLOSED: Json = {**SCHEMA, "required": ["city"], "additionalProperties": False}
_ALLOWED = [{"type": "function", "function": {"name": "look"}}]
#: Fields of a body whose sample must fit the base, such as the name of its tool, in the place of the made ones.
_FITTING: dict[tuple[str, str], Json] = {
    ("openai_chat", "tool_choice"): {"tool_choice": "required"},
    ("openai_chat", "tool_choice[function]"): {"tool_choice": {"type": "function", "function": {"name": "look"}}},
    ("openai_chat", "tool_choice[allowed_tools]"): {
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": _ALLOWED}}
    },
    ("openai_chat", "response_format[json_schema]"): {
        "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": _CLOSED, "strict": True}}
    },
    ("openai_responses", "tool_choice"): {"tool_choice": "required"},
    ("openai_responses", "tool_choice[function]"): {"tool_choice": {"type": "function", "name": "look"}},
    ("openai_responses", "tool_choice[allowed_tools]"): {
        "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]}
    },
    ("openai_responses", "text.format[json_schema]"): {
        "text": {"format": {"type": "json_schema", "name": "place", "schema": _CLOSED, "strict": True}}
    },
    ("anthropic", "tool_choice[tool]"): {"tool_choice": {"type": "tool", "name": "look"}},
    ("anthropic", "output_config.format"): {"output_config": {"format": {"type": "json_schema", "schema": _CLOSED}}},
    ("gemini", "toolConfig.functionCallingConfig.mode"): {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    ("gemini", "toolConfig.functionCallingConfig.allowedFunctionNames"): {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}
    },
    ("gemini", "generationConfig.responseJsonSchema"): {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": _CLOSED}
    },
    ("gemini", "generationConfig.responseSchema"): {
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}
    },
    ("gemini", "generationConfig.responseMimeType"): {"generationConfig": {"responseMimeType": "application/json"}},
    ("bedrock_converse", "outputConfig.textFormat"): {
        "outputConfig": {
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": json.dumps(_CLOSED)}}}
        }
    },
    ("cohere", "tool_choice"): {"tool_choice": "REQUIRED"},
    ("ollama", "format"): {"format": "json"},
}
_ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock_converse": _converse,
    "cohere": _cohere,
    "ollama": _ollama,
}
WIRES = tuple(_ROWS)


def rows_of(wire: str) -> dict[str, tuple[Json, Json]]:
    """Return a body with each field and part of a wire's requests, and one without it, by the path."""
    rows = {path: (body, plain) for path, body, plain in _ROWS[wire]()}
    fitting = {path: fields for (client, path), fields in _FITTING.items() if client == wire}
    assert fitting.keys() <= rows.keys(), sorted(fitting.keys() - rows.keys())
    base = BASES[wire]
    for path, fields in fitting.items():
        added = {
            name: base[name] | value if name == "toolConfig" and name in base else value
            for name, value in fields.items()
        }
        rows[path] = (_with(base, **added), base)
    return rows
