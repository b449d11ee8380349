"""The importer of Anthropic messages: messages to history, for conversations that exist already.

Wire: https://docs.anthropic.com/en/api/messages

A user message contains results and a person's text: these become two contents. What the provider made for itself
(thinking with its signature, tools that it ran, blocks of unknown types) is kept as it is.
Rendered again the messages are the same, except that contents are lists of blocks, consecutive
messages of one role are one, system text is one text unless it has cache marks, blank texts are absent, a result of
one text part is that text, and a failed one is a text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, OpaqueBlock, ReasoningBlock, ServerToolBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import WORDS, create_block, create_stored
from streamkit.history.stored_data import to_stored_data
from streamkit.history.tool_results import result_parts, to_stored_part
from streamkit.providers.anthropic.media import OWN_MEDIA_FIELDS
from streamkit.providers.anthropic.schema import SYSTEM_MESSAGE_FIELDS, Json
from streamkit.providers.decoding.decoding import as_text
from streamkit.providers.provider import Traits
from streamkit.providers.requests.request import read_cache_mark
from streamkit.values.media import to_data_url

__all__ = ["parse_messages"]

# A message of a response has further fields, which describe the response.
_MESSAGE_FIELDS = frozenset({"role", "content", "type"})
_SYSTEM_MESSAGE_FIELDS = _MESSAGE_FIELDS | set(SYSTEM_MESSAGE_FIELDS)
_TEXT_FIELDS = frozenset({"type", "text", "cache_control"})
_MEDIA_FIELDS = frozenset({"type", "source", "title", "cache_control"})
_RESULT_FIELDS = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"})
#: How a system text begins that Claude Code sends for Anthropic's accounting. It changes with every request or
#: conversation, and at the head of a prompt it keeps the prefix caches of other providers from any hit
#: (anthropics/claude-code#68900, CaddyGlow/ccproxy-api#61).
_BILLING = "x-anthropic-billing-header:"
#: The fields of the model's blocks that have a place in history.
_OWN_TEXT_FIELDS = frozenset({"type", "text"})
_THINKING_FIELDS = frozenset({"type", "thinking", "signature"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})


def parse_messages(
    messages: Sequence[Json], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return messages as history, with the system text or blocks first."""
    builder = ContentBuilder(traits.name, changes)
    _read_system(builder, system)
    for message in messages:
        role, blocks = message.get("role"), as_list(message.get("content"))
        builder.end()
        if role in ("assistant", "user") and not _MESSAGE_FIELDS.issuperset(message):
            builder.report_unread(message, _MESSAGE_FIELDS, "a message")
        if role == "assistant":
            _read_assistant(builder, blocks)
        elif role == "user":
            for block in blocks:
                _read_user_block(builder, block)
        elif role == "system":
            # In its place among the others, with its fields; one without content is kept as it is.
            builder.report_unread(message, _SYSTEM_MESSAGE_FIELDS, "a message")
            given = {name: message[name] for name in SYSTEM_MESSAGE_FIELDS if message.get(name) is not None}
            _read_system(builder, message.get("content"))
            if given and not builder.speaker:
                builder.opaque("system", message)
                given = {}
            builder.describe(**to_stored_data(given), in_messages=True, provider=traits.name)
            builder.end()
        else:
            builder.add_unknown_role(message)
    return builder.build()


def _read_system(builder: ContentBuilder, system: Any) -> None:
    for block in as_list(system):
        if not isinstance(block, dict):
            if not builder.text("system", block):
                builder.opaque("system", block)
        elif isinstance(text := block.get("text"), str) and text.startswith(_BILLING):
            metadata = builder.provider_metadata({"cache": read_cache_mark(block.get("cache_control"))})
            builder.add_block("system", OpaqueBlock(raw=block, metadata=metadata))
        elif builder.text("system", text, read_cache_mark(block.get("cache_control"))):
            builder.report_unread(block, _TEXT_FIELDS, "a system text")
        else:
            builder.opaque("system", block)


# ---------------------------------------------------------------- user messages


def _read_user_block(builder: ContentBuilder, block: Any) -> None:
    block_type = block.get("type") if isinstance(block, dict) else None
    if block_type == "tool_result":
        _read_tool_result(builder, block)
    elif isinstance(block, str):
        builder.text("human", block)
    elif block_type == "image" and (image := _read_image(block)) is not None:
        builder.add_block("human", ImageBlock(data=image, metadata=_media_metadata(builder, block)))
    elif block_type == "document" and (file := _read_document(block)) is not None:
        file.metadata = _media_metadata(builder, block)
        builder.add_block("human", file)
    elif block_type == "text" and builder.text("human", block.get("text"), read_cache_mark(block.get("cache_control"))):
        builder.report_unread(block, _TEXT_FIELDS, "a text")
    else:
        builder.opaque("human", block)


def _read_image(block: Json) -> str | None:
    """Return an image as a data URL or an address; None if it is a file that the provider stores."""
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    if isinstance(source.get("url"), str):
        return str(source["url"])
    if isinstance(source.get("data"), str) and isinstance(source.get("media_type"), str):
        return to_data_url(source["data"], source["media_type"])
    return None


def _read_document(block: Json) -> FileBlock | None:
    source = block.get("source")
    if not isinstance(source, dict):
        return None
    source_type, title = source.get("type"), block.get("title")
    name = title if isinstance(title, str) else None
    if source_type == "url" and isinstance(source.get("url"), str):
        return FileBlock(url=source["url"], name=name)
    data, media_type = source.get("data"), as_text(source.get("media_type"))
    if not isinstance(data, str):
        return None
    if source_type == "text":  # the text itself
        data, media_type = b64encode(data.encode("utf-8", "replace")).decode(), media_type or "text/plain"
    elif source_type != "base64":
        return None
    return FileBlock(media_type=media_type, data=data, name=name)


def _media_metadata(builder: ContentBuilder, block: Json) -> Json:
    """Return what an image or a document has beside its data: a cache mark and the fields that only this wire has."""
    own = OWN_MEDIA_FIELDS[block["type"]]
    builder.report_unread(block, _MEDIA_FIELDS | set(own), f"a block of the type {block['type']!r}")
    fields = {name: to_stored_data(block[name]) for name in own if block.get(name) is not None}
    words = {WORDS: block["context"]} if isinstance(block.get("context"), str) else {}
    return _cache_metadata(block) | (builder.provider_metadata(fields | words) if fields else {})


def _read_tool_result(builder: ContentBuilder, block: Json) -> None:
    content, call_id, extras = block.get("content"), block.get("tool_use_id"), _cache_metadata(block)
    if not _RESULT_FIELDS.issuperset(block):
        builder.report_unread(block, _RESULT_FIELDS, "a result")
    if isinstance(content, list):
        if not extras:  # the last mark of its parts: a part of a result has none in history
            marks = (_cache_metadata(part) for part in reversed(content) if isinstance(part, dict))
            extras = next(filter(None, marks), {})
        content = [_read_result_part(part) for part in content]
        if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
            content = content[0].get("text")
    if "toolset_name" in block:
        extras = {"toolset_name": block["toolset_name"], **extras}
    if block.get("is_error") is not True:
        builder.result(call_id, content, extras=extras)
        return
    extras = {**extras, "is_error": True}
    if isinstance(content, list):
        texts = [item.get("text") for item in content if isinstance(item, dict)]
        error = "\n".join(text for text in texts if isinstance(text, str))
        builder.result(call_id, content, error=error, extras=extras)
    else:
        builder.result(call_id, error=content if isinstance(content, str) else "", extras=extras)


def _read_result_part(part: Any) -> Any:
    part_type = part.get("type") if isinstance(part, dict) else None
    if part_type == "text":
        return {"type": "text", "text": part.get("text")}
    if not isinstance(part_type, str) or part_type not in OWN_MEDIA_FIELDS:
        return part
    if any(part.get(name) is not None for name in OWN_MEDIA_FIELDS[part_type]):  # the neutral form has no place for it
        return {name: value for name, value in part.items() if name != "cache_control"}
    parts = result_parts([part])
    return to_stored_part(parts[0]) if parts else part


# ---------------------------------------------------------------- assistant messages


def _read_assistant(builder: ContentBuilder, blocks: list[Any]) -> None:
    """Read the blocks of a message of the model; a result directly after a server call belongs to its block."""
    open_server_call: ServerToolBlock | None = None
    for block in blocks:
        block_type = block.get("type") if isinstance(block, dict) else None
        server_call, open_server_call = open_server_call, None
        if block_type == "tool_use":
            extras = _extra_fields(block, _CALL_FIELDS)
            builder.call(block.get("name"), block.get("input"), raw_id=block.get("id"), extras=extras)
        elif block_type == "text" and isinstance(block.get("text"), str):
            builder.text("ai", block["text"], extras=_extra_fields(block, _OWN_TEXT_FIELDS))
        elif block_type == "thinking" and isinstance(block.get("thinking"), str):
            builder.add_block("ai", _read_thinking(builder, block))
        elif isinstance(block, str):
            builder.text("ai", block)
        elif block_type == "tool_result":  # not from a model, but messages made by other software have them here
            _read_tool_result(builder, block)
        elif block_type == "redacted_thinking":
            builder.add_block("ai", create_block(ReasoningBlock, opaque=block, metadata=builder.provider_metadata()))
        elif isinstance(block_type, str) and block_type.endswith("_tool_use"):
            open_server_call = ServerToolBlock(
                id=as_text(block.get("id")),
                name=as_text(block.get("name")) or "",
                arguments=block.get("input"),
                raw=[block],
                metadata=builder.provider_metadata(),
            )
            builder.add_block("ai", open_server_call)
        elif isinstance(block_type, str) and block_type.endswith("_tool_result"):
            call_id = as_text(block.get("tool_use_id"))
            if server_call is not None and call_id is not None and server_call.id == call_id:
                server_call.result = block.get("content")
                server_call.raw.append(block)
            else:
                builder.add_block("ai", ServerToolBlock(raw=[block], metadata=builder.provider_metadata()))
        else:
            builder.opaque("ai", block)


def _read_thinking(builder: ContentBuilder, block: Json) -> ReasoningBlock:
    signature = block.get("signature")
    return create_stored(
        ReasoningBlock,
        text=to_stored_data(block["thinking"]),
        signature=to_stored_data(signature) if isinstance(signature, str) and signature else None,
        metadata=builder.own_metadata(_extra_fields(block, _THINKING_FIELDS)),
    )


def _extra_fields(block: Json, known: frozenset[str]) -> Json:
    """Return a block's other fields, a request to cache it as ``cache``."""
    if known.issuperset(block):
        return {}
    extras = {name: value for name, value in block.items() if name not in known and name != "cache_control"}
    return extras | _cache_metadata(block)


def _cache_metadata(block: Json) -> Json:
    mark = read_cache_mark(block["cache_control"]) if "cache_control" in block else None
    return {} if mark is None else {"cache": mark}
