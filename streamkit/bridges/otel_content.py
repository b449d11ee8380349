"""Conversations and tools by the schemas of OpenTelemetry's generative AI conventions, for ``bridges.otel``.

The schemas are ``model/gen-ai/gen-ai-{input-messages,output-messages,system-instructions,tool-definitions}.json`` of
https://github.com/open-telemetry/semantic-conventions-genai. Left out is what only a provider understands, the data of
images and files, and the text of a failed call: it may be that of an exception. It must not depend on OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamkit import history
from streamkit.execution.round.context import RoundContext
from streamkit.history import Block, Content
from streamkit.history.result_parts import result_parts
from streamkit.providers.provider import Provider
from streamkit.providers.requests.request import Request
from streamkit.tools import Tool
from streamkit.tools.definition import HostedTool, OfferedTool
from streamkit.values.media import is_url

__all__ = ["to_input", "to_message", "to_response"]


def to_input(request: RoundContext | Request, provider: Provider) -> dict[str, Any]:
    """Return the attributes of a request: the system text, if the provider takes it apart, the messages, the tools."""
    contents, messages = request.contents, request.messages if isinstance(request, RoundContext) else None
    if messages is not None:
        contents = provider.parse_messages(messages) if provider.traits.has_importer else []
    is_apart = provider.traits.system_field is not None
    system = [
        part for content in contents if is_apart and content.speaker == "system" for part in _parts(content.blocks)
    ]
    return {
        "gen_ai.system_instructions": system,
        "gen_ai.input.messages": [to_message(each) for each in contents if not is_apart or each.speaker != "system"],
        "gen_ai.tool.definitions": list(map(_to_definition, request.tools)),
    }


def _to_definition(tool: Tool | OfferedTool) -> dict[str, Any]:
    """Return a tool with the fields that its schema requires: the others would be in every span of a conversation."""
    if isinstance(tool, HostedTool):
        kind = tool.raw.get("type") if isinstance(tool.raw, dict) else None
        return {"type": kind or "hosted", "name": tool.label}
    return {"type": tool.kind, "name": tool.name}


def to_message(content: Content) -> dict[str, Any]:
    """Return a message by the schemas ``gen-ai-input-messages.json`` and ``gen-ai-output-messages.json``."""
    role = {"human": "user", "ai": "assistant"}.get(content.speaker, content.speaker)
    return {"role": role, "parts": _parts(content.blocks)}


def to_response(stored: Any) -> Any:
    """Return a result in the form of history; of one with images or files their parts."""
    shown = result_parts(stored)
    return stored if shown is None else _parts(shown)


def _parts(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Return the parts of blocks, without a provider's own data and the data of files."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case history.TextBlock():
                parts.append({"type": "text", "content": block.text})
            case history.ReasoningBlock() if block.text:
                parts.append({"type": "reasoning", "content": block.text})
            case history.ToolCallBlock():
                call = {"id": block.id, "name": block.name, "arguments": block.parameters}
                parts.append({"type": "tool_call", **call})
            case history.ToolResponseBlock():
                response = to_response(block.result) if block.error is None else {"status": block.status or "error"}
                parts.append({"type": "tool_call_response", "id": block.call_id, "response": response})
            case history.ServerToolBlock():
                own = {} if block.id is None else {"id": block.id}
                ran = {"type": block.name, "arguments": block.arguments}
                parts.append({"type": "server_tool_call", **own, "name": block.name, "server_tool_call": ran})
                found = {"type": block.name, "result": block.result}
                parts.append({"type": "server_tool_call_response", **own, "server_tool_call_response": found})
            case history.ImageBlock() | history.FileBlock():
                address = block.data if isinstance(block, history.ImageBlock) else block.url
                modality = "image" if isinstance(block, history.ImageBlock) else "document"
                is_shown = address is not None and is_url(address)
                parts.append({"type": "uri", "modality": modality, "uri": address} if is_shown else {"type": modality})
    return parts
