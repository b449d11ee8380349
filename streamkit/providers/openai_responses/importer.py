"""Importer of Responses items into history, for conversations that people already have.

Wire: https://platform.openai.com/docs/api-reference/responses/create (``input``)

The messages are a list of items: those sent as ``input`` and those received as ``output``, in order. Consecutive items
of the model are one content. Reasoning, the items of server tools and unknown items are kept unchanged. Rendered again
the items are the same, with these exceptions: a person's message of one text is that text,
arguments are compact JSON, an item has its own id only if its reasoning is there, and results follow directly after the
content with their calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.calls import CLIENT_ITEM
from streamkit.history import Content, OpaqueBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list, read_breakpoint
from streamkit.history.content import CACHE_BREAKPOINT, create_block, create_stored
from streamkit.history.stored_data import to_stored_data
from streamkit.history.tool_results import parse_result
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.openai_responses.client_items import (
    CLIENT_OUTPUT_ITEMS,
    client_arguments,
    client_call_id,
    client_call_name,
    is_client_item,
    output_call_id,
    parse_output,
)
from streamkit.providers.openai_responses.media import parse_media_part
from streamkit.providers.openai_responses.output_items import item_type, runs_on_server
from streamkit.providers.openai_responses.schema import (
    CALL_ARGUMENT_FIELDS,
    SERVER_RESULT_ITEMS,
    SERVER_TOOL_ITEMS,
    TOOLS_ITEM,
    Json,
)
from streamkit.providers.provider import Traits

__all__ = ["parse_messages"]

_CALL_OUTPUT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output"})
_SPEAKERS = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}
_INPUT_PART_FIELDS = ("type", "text", "image_url", "detail", "file_data", "file_url", "filename", CACHE_BREAKPOINT)
_MESSAGE_FIELDS = frozenset({"type", "role", "content", "id", "status", "phase", "agent"})
_CALL_FIELDS = frozenset({"type", "id", "call_id", "name"})
_OUTPUT_FIELDS = frozenset({"type", "id", "call_id", "output", "status", "caller"})
_TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def parse_messages(
    messages: Sequence[Json], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return items as history, with the instructions of the request first."""
    builder = ContentBuilder(traits.name, changes)
    for text in as_list(system):
        if not builder.text("system", text):
            builder.opaque("system", text)
    builder.describe(role="instructions")
    builder.end()
    asked: set[str] = set()  # the ids of the items that ask the client for an action
    for item in messages:
        kind = item_type(item)
        if kind == TOOLS_ITEM:
            builder.end()
            metadata = builder.provider_metadata({"defines_tools": True})
            builder.add_block("system", OpaqueBlock(raw=item, metadata=metadata))
            builder.end()
        elif kind == "message" or (not kind and "role" in item):
            _read_message(builder, item)
        elif kind in CALL_ARGUMENT_FIELDS:
            _read_call(builder, item, kind)
        elif kind in _CALL_OUTPUT_ITEMS and not item.get("call_id") and as_text(item.get("name")) is not None:
            builder.opaque("ai", item)  # a tool reports something that no call asked for
        elif kind in _CALL_OUTPUT_ITEMS:
            if not _OUTPUT_FIELDS.issuperset(item):
                builder.report_unread(item, _OUTPUT_FIELDS, "a call's output")
            answered = {"kind": "custom"} if kind == "custom_tool_call_output" else {}
            if "caller" in item:
                answered["caller"] = item["caller"]
            builder.result(item.get("call_id"), parse_result(item.get("output")), extras=answered)
        elif kind in CLIENT_OUTPUT_ITEMS and (kind not in SERVER_RESULT_ITEMS or output_call_id(item) in asked):
            builder.result(output_call_id(item), parse_output(item), extras={CLIENT_ITEM: item})
        elif is_client_item(item) and (call_id := client_call_id(item)) is not None:
            asked.add(call_id)
            extras = {CLIENT_ITEM: item, "item_id": as_text(item.get("id"))}
            builder.call(client_call_name(kind), client_arguments(item), raw_id=call_id, extras=extras)
        elif kind == "reasoning":
            builder.add_block("ai", _reasoning_block(builder, item))
        elif runs_on_server(item):
            builder.add_block("ai", _server_tool_block(builder, item, kind))
        else:
            builder.opaque("ai", item)
    return builder.build()


# ---------------------------------------------------------------- messages


def _read_message(builder: ContentBuilder, item: Json) -> None:
    role = item.get("role")
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    if speaker is None:
        builder.add_unknown_role(item)
        return
    if not _MESSAGE_FIELDS.issuperset(item):
        builder.report_unread(item, _MESSAGE_FIELDS, "a message")
    if speaker == "ai":
        fields = {"item_id": as_text(item.get("id")), "phase": item.get("phase"), "agent": item.get("agent")}
        metadata = {name: value for name, value in fields.items() if value is not None}
        for part in as_list(item.get("content")):
            _read_output_part(builder, part, metadata)
    else:
        builder.end()
        for part in as_list(item.get("content")):
            _read_input_part(builder, speaker, part)
        if role == "developer":
            builder.describe(role="developer")
        builder.end()


def _read_output_part(builder: ContentBuilder, part: Any, metadata: Json) -> None:
    text = _part_text(part)
    if text is not None:
        citations = part.get("annotations") if isinstance(part, dict) else None
        builder.text("ai", text, extras={**metadata, "citations": citations} if citations else metadata)
    elif isinstance(part, dict) and part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
        metadata = builder.provider_metadata({**metadata, "refusal": True})
        builder.add_block("ai", create_block(TextBlock, text=part["refusal"], metadata=metadata))
    else:
        _add_unknown_part(builder, "ai", part)


def _read_input_part(builder: ContentBuilder, speaker: str, part: Any) -> None:
    text = _part_text(part)
    block = parse_media_part(part) if text is None else None
    if isinstance(part, dict) and (text is not None or block is not None):
        builder.report_unread(part, _INPUT_PART_FIELDS, "a part of a message")
    mark = read_breakpoint(part) if isinstance(part, dict) else {}
    if text is not None:
        builder.text(speaker, text, extras=mark)
    elif block is not None:
        if mark:
            block.metadata.update(builder.own_metadata(mark))
        builder.add_block(speaker, block)
    else:
        _add_unknown_part(builder, speaker, part)


def _part_text(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in _TEXT_PARTS else part
    return text if isinstance(text, str) else None


def _add_unknown_part(builder: ContentBuilder, speaker: str, part: Any) -> None:
    # A part is not an item: it is kept in a form that no renderer takes for one.
    builder.opaque(speaker, {"content": [part]})


# ---------------------------------------------------------------- other items


def _read_call(builder: ContentBuilder, item: Json, kind: str) -> None:
    arguments_field = CALL_ARGUMENT_FIELDS[kind]
    extras = {name: value for name, value in item.items() if name not in _CALL_FIELDS and name != arguments_field}
    if "id" in item or "item_id" in extras:
        extras["item_id"] = as_text(item.get("id"))
    builder.call(
        item.get("name"),
        item.get(arguments_field),
        raw_id=item.get("call_id"),
        kind="custom" if kind == "custom_tool_call" else "function",
        extras=extras,
    )


def _reasoning_block(builder: ContentBuilder, item: Json) -> ReasoningBlock:
    summary = [part.get("text") for part in as_list(item.get("summary")) if isinstance(part, dict)]
    content = [part.get("text") for part in as_list(item.get("content")) if isinstance(part, dict)]
    texts = [text for text in summary or content if isinstance(text, str)]
    return create_stored(
        ReasoningBlock,
        text=to_stored_data("\n\n".join(texts)),
        kind="summary" if summary else "text",
        opaque=to_stored_data(item),
        metadata=builder.own_metadata(),
    )


def _server_tool_block(builder: ContentBuilder, item: Json, kind: str) -> ServerToolBlock:
    """Return the block of a server tool's item, which is sent back complete."""
    if kind in SERVER_RESULT_ITEMS:
        name, result_field = SERVER_RESULT_ITEMS[kind]
        arguments = None
    else:
        name, arguments_field, result_field = SERVER_TOOL_ITEMS[kind]
        arguments = item.get(arguments_field)
    return ServerToolBlock(
        id=as_text(item.get("call_id")) or as_text(item.get("id")),
        name=name or as_text(item.get("name")) or kind,
        arguments=arguments,
        result=item.get(result_field) if result_field else None,
        raw=[item],
        metadata=builder.provider_metadata(),
    )
