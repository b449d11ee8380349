"""The importer of Converse messages: messages to history, for conversations that exist already.

Wire: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html

A user message contains results and a person's text: these become two contents. A system message among the others stays
in its place. A cache point is a mark of the block before it. Reasoning keeps its signature or its encrypted form, and
the parts of tools that the service runs are kept as they are. Rendered again the messages are the same, except that
consecutive messages of one role are one, blank texts are absent, and a failed result is a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import create_block
from streamkit.history.stored_data import to_stored_data
from streamkit.history.tool_results import to_stored_part
from streamkit.providers.bedrock_converse.media import parse_media_part
from streamkit.providers.bedrock_converse.requests import read_cache_point
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.decoding.decoding import as_text, compact_json
from streamkit.providers.provider import Traits
from streamkit.values.media import encode_binary

__all__ = ["parse_messages"]


def parse_messages(
    messages: Sequence[Json], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return messages as history, with the system text or parts first."""
    builder = ContentBuilder(traits.name, changes)
    _read_system(builder, _without_bytes(system))
    for original in messages:
        message = _without_bytes(original)
        role = message.get("role")
        builder.end()
        if role not in ("user", "assistant", "system"):
            builder.add_unknown_role(message)
            continue
        builder.report_unread(message, ("role", "content"), "a message")
        if role == "system":
            _read_system(builder, message.get("content"))
            builder.describe(in_messages=True, provider=builder.provider)
            continue
        parts = _with_marks(as_list(message.get("content")))
        if role == "assistant":
            _read_assistant(builder, parts)
            continue
        for part, mark in parts:
            if isinstance(part, dict):
                _read_user_part(builder, part, mark)
            elif not builder.text("human", part):
                builder.opaque("human", part)
    return builder.build()


def _without_bytes(value: Any) -> Any:
    """Return a value of boto3 with base64 text for bytes, which may be those of a text; a too deep one unchanged."""
    try:
        return encode_binary(value)
    except RecursionError:
        return value


def _read_system(builder: ContentBuilder, system: Any) -> None:
    for part, mark in _with_marks(as_list(system)):
        text = part.get("text") if isinstance(part, dict) and part.keys() == {"text"} else part
        if not builder.text("system", text, mark):
            builder.opaque("system", part, mark)


def _with_marks(parts: list[Any]) -> list[tuple[Any, Any]]:
    """Return the parts without cache points, each with the mark of the point after it, or None."""
    marked: list[tuple[Any, Any]] = []
    for part in parts:
        mark = read_cache_point(part)
        if mark is None or not marked:
            marked.append((part, None))
        else:
            marked[-1] = (marked[-1][0], mark)
    return marked


def _read_user_part(builder: ContentBuilder, part: Json, mark: Any) -> None:
    extras = {} if mark is None else {"cache": mark}
    result = part.get("toolResult")
    if part.keys() == {"toolResult"} and isinstance(result, dict):
        _read_result(builder, result, extras)
    elif part.keys() == {"text"} and builder.text("human", part["text"], mark):
        pass
    elif (media := parse_media_part(part)) is not None:
        media.metadata.update(extras)
        builder.add_block("human", media)
    else:
        builder.opaque("human", part, mark)


def _read_result(builder: ContentBuilder, result: Json, extras: Json) -> None:
    builder.report_unread(result, ("toolUseId", "content", "status"), "a result")
    value = _result_value(as_list(result.get("content")))
    call_id = result.get("toolUseId")
    if result.get("status") != "error":
        builder.result(call_id, value, extras=extras)
        return
    extras = {**extras, "is_error": True}
    if isinstance(value, str):
        builder.result(call_id, error=value, extras=extras)
    else:
        items = value if isinstance(value, list) else []
        texts = [item.get("text") for item in items if isinstance(item, dict)]
        error = "\n".join(text for text in texts if isinstance(text, str))
        builder.result(call_id, value, error=error, extras=extras)


def _result_value(parts: list[Any]) -> Any:
    """Return a result's value: a single text or object itself, or the list of its parts with neutral images."""
    values = [_result_part(part) for part in parts]
    if len(parts) == 1 and isinstance(parts[0], dict):
        if parts[0].keys() == {"json"}:
            return parts[0]["json"]
        if parts[0].keys() == {"text"}:
            return parts[0]["text"]
    return values


def _result_part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    if part.keys() == {"text"}:
        return {"type": "text", "text": part["text"]}
    if part.keys() == {"json"}:  # one of several: history has no part for data
        return {"type": "text", "text": compact_json(to_stored_data(part["json"]))}
    media = parse_media_part(part)
    return part if media is None else to_stored_part(media)


def _read_assistant(builder: ContentBuilder, parts: list[tuple[Any, Any]]) -> None:
    """Read the parts of a message of the model; a result directly after a server call belongs to its block."""
    open_server_call: ServerToolBlock | None = None
    for part, mark in parts:
        if not isinstance(part, dict):
            if not builder.text("ai", part):
                builder.opaque("ai", part)
            continue
        extras = {} if mark is None else {"cache": mark}
        server_call, open_server_call = open_server_call, None
        use, result, cited = part.get("toolUse"), part.get("toolResult"), part.get("citationsContent")
        if part.keys() == {"text"} and isinstance(part["text"], str):
            _add_text(builder, part["text"], extras)
        elif isinstance(use, dict) and "type" not in use:
            builder.report_unread(use, ("toolUseId", "name", "input"), "a call")
            builder.call(use.get("name"), use.get("input"), raw_id=use.get("toolUseId"), extras=extras)
        elif isinstance(use, dict):
            open_server_call = ServerToolBlock(
                id=as_text(use.get("toolUseId")),
                name=as_text(use.get("name")) or "",
                arguments=use.get("input"),
                raw=[part],
                metadata=builder.provider_metadata(extras),
            )
            builder.add_block("ai", open_server_call)
        elif isinstance(result, dict) and server_call is not None and server_call.id == result.get("toolUseId"):
            server_call.result = result.get("content")
            server_call.raw.append(part)
            server_call.metadata.update(extras)
        elif isinstance(part.get("reasoningContent"), dict):
            builder.add_block("ai", _read_reasoning(builder, part))
        elif isinstance(cited, dict):
            texts = [item.get("text") for item in as_list(cited.get("content")) if isinstance(item, dict)]
            text = "".join(text for text in texts if isinstance(text, str))
            _add_text(builder, text, {**extras, "citations": cited.get("citations")})
        else:
            builder.opaque("ai", part, mark)


def _add_text(builder: ContentBuilder, text: str, extras: Json) -> None:
    if text:
        builder.add_block("ai", create_block(TextBlock, text=text, metadata=builder.provider_metadata(extras)))


def _read_reasoning(builder: ContentBuilder, part: Json) -> ReasoningBlock:
    reasoning, metadata = part["reasoningContent"], builder.provider_metadata()
    text = reasoning.get("reasoningText")
    if reasoning.keys() == {"reasoningText"} and isinstance(text, dict) and isinstance(text.get("text"), str):
        signature = as_text(text.get("signature"))
        return create_block(ReasoningBlock, text=text["text"], signature=signature, metadata=metadata)
    return create_block(ReasoningBlock, opaque=part, metadata=metadata)
