"""History as the messages of Vercel's AI SDK, and these messages as history.

Version 4 with ``tool_names=False`` names no tool in results. Version 5 and later differ in their newer parts
(https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message): a call's ``input``, a result's ``output`` and
``toolName``, and files, also those that a result shows (``output`` of type ``content``). What these messages cannot
represent (reasoning, a provider's own blocks) is omitted.

When messages are parsed, the versions are distinguished part by part: ``args`` or ``input``, ``result`` or ``output``,
``mimeType`` or ``mediaType``. Ids are those of history with another prefix, so ids that streamkit wrote
are restored; others are canonicalized and the raw id is kept. Parsed messages that are converted again are the same, up
to this: the texts of a message without calls are one string, reasoning and other parts that the messages cannot
represent are omitted, and a JSON output that is a text or null is a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.input_checks import check_messages
from streamkit.history.result_parts import ResultPart, result_parts
from streamkit.history.tool_results import to_stored_part
from streamkit.ids import normalize_to_openai_tool_id
from streamkit.values.json_data import copy_with
from streamkit.values.media import (
    is_base64,
    is_url,
    normalize_data,
    normalize_data_url,
    parse_data_url,
    quote_source,
    to_data_url,
)
from streamkit.values.message_format import FOREIGN, OWN, POSSIBLE, Rating, rate_parts

__all__ = ["convert_to_vercel_messages", "parse_vercel_messages", "rate_vercel_message"]

_BINARY = "application/octet-stream"  # the SDK requires a media type
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+=*")  # of any length: the SDK does not decode it
_SPEAKERS = {"user": "human", "assistant": "ai", "system": "system"}
_CALL_FIELDS = frozenset({"type", "toolCallId", "toolName", "args", "input"})
_RESULT_FILES = ("media", "image-data", "file-data")
_RESULT_URLS = ("image-url", "file-url")


# ---------------------------------------------------------------- history to messages


def convert_to_vercel_messages(
    contents: Sequence[Content], version: Literal[4, 5, 6, 7] = 5, tool_names: bool = True
) -> list[dict[str, Any]]:
    """Convert history to messages, one for each content that the SDK can represent.

    A content with tool responses becomes a tool message, whoever its speaker is.

    Args:
        contents: the history.
        version: the major version of the AI SDK. Version 5 refuses version 4's tool parts; later ones accept version
            5's except for images and files in results, whose types have other names there (version 6 accepts both).
        tool_names: whether results have their tool's name, taken from the call if the result has none; ``""`` if no
            call has that id. Version 5 requires it.

    Raises:
        UsageError: another version.
        UnsupportedContent: a person's image or file is neither an address nor data that is base64.
    """
    if version not in (4, 5, 6, 7):
        raise UsageError(f"version must be 4, 5, 6 or 7, not {version!r}")
    names: dict[str, str] = {}
    messages: list[dict[str, Any]] = []
    for content in contents:
        for block in content.blocks:
            if isinstance(block, ToolCallBlock):
                names[normalize_to_openai_tool_id(block.id)] = block.name
        responses = [block for block in content.blocks if isinstance(block, ToolResponseBlock)]
        if responses:
            parts = [_to_result_part(block, version, names if tool_names else None) for block in responses]
            messages.append({"role": "tool", "content": parts})
        elif content.speaker == "human":
            messages.append({"role": "user", "content": _to_user_content(content.blocks, version)})
        elif content.speaker == "ai":
            messages.append({"role": "assistant", "content": _to_assistant_content(content.blocks, version)})
        elif content.speaker == "system":
            messages.append({"role": "system", "content": _join_texts(content.blocks)})
    return messages


def _join_texts(blocks: Sequence[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _to_user_content(blocks: Sequence[Block], version: int) -> str | list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock):
            parts.append({"type": "image", "image": _to_source(block.data, "image", "image/")})
        elif isinstance(block, FileBlock) and version >= 5:
            data = _to_source(block.data or block.url or "", "file")
            file = {"type": "file", "data": data, "mediaType": block.media_type or _BINARY}
            parts.append(file | ({"filename": block.name} if block.name else {}))
    return parts if any(part["type"] != "text" for part in parts) else _join_texts(blocks)


def _to_source(text: str, what: str, kind: str = "") -> str:
    """Return an image or a file of a person in the SDK's form: an http(s) URL, a data URL with base64, or base64.

    Raises:
        UnsupportedContent: it is none of these, or a data URL whose media type begins otherwise than ``kind``.
    """
    url = parse_data_url(text)
    if url is None:
        is_source = is_url(text) or (text != "" and is_base64(text))
    else:
        is_source = _BASE64.fullmatch(url.data) is not None and (url.media_type or kind).startswith(kind)
    if not is_source:
        article = "an" if what == "image" else "a"
        raise UnsupportedContent(f"{article} {what} is base64, a data URL or an http(s) URL, not {quote_source(text)}")
    return normalize_data_url(text) or text


def _to_assistant_content(blocks: Sequence[Block], version: int) -> str | list[dict[str, Any]]:
    if not any(isinstance(block, ToolCallBlock) for block in blocks):
        return _join_texts(blocks)
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ToolCallBlock):
            parts.append(
                {
                    "type": "tool-call",
                    "toolCallId": normalize_to_openai_tool_id(block.id),
                    "toolName": block.name,
                    "args" if version == 4 else "input": block.parameters,
                }
            )
    return parts


def _to_result_part(block: ToolResponseBlock, version: int, names: dict[str, str] | None) -> dict[str, Any]:
    call_id = normalize_to_openai_tool_id(block.call_id)
    part: dict[str, Any] = {"type": "tool-result", "toolCallId": call_id}
    if names is not None:
        part["toolName"] = block.name or names.get(call_id, "")
    has_failed = block.status == "error" or block.error is not None
    if version >= 5:
        part["output"] = _to_output(block, version, has_failed=has_failed)
        return part
    # The document's rule for a text is "result OR ''"; 0 and false are results too.
    part["result"] = "" if block.result is None else block.result
    if has_failed:
        part["isError"] = True
    return part


def _to_output(block: ToolResponseBlock, version: int, *, has_failed: bool) -> dict[str, Any]:
    parts = result_parts(block.result) if block.error is None and not has_failed else None
    media = [_to_output_part(part, version) for part in parts or ()]
    if parts is not None and None not in media:
        return {"type": "content", "value": media}
    value = block.result if block.error is None else block.error
    kind = "text" if value is None or isinstance(value, str) else "json"
    value = "" if value is None else to_jsonable_python(value, fallback=str)
    return {"type": f"error-{kind}" if has_failed else kind, "value": value}


def _to_output_part(part: ResultPart, version: int) -> dict[str, Any] | None:
    """Return a part of a result's content; None if the SDK cannot represent it: in version 5 a URL."""
    if isinstance(part, TextBlock):
        return {"type": "text", "text": part.text}
    is_image = isinstance(part, ImageBlock)
    media_type, data, url, name = "", "", "", {}
    if isinstance(part, ImageBlock):
        data_url = parse_data_url(part.data)
        if data_url is not None:
            media_type, data = data_url.media_type, data_url.data
        else:
            url = part.data
    else:
        media_type, data, _ = normalize_data(part.data or "")
        media_type, url = part.media_type or media_type, part.url or ""
        name = {"filename": part.name} if part.name else {}
    if not is_base64(data):
        return None
    if data and version == 5:
        return {"type": "media", "data": data, "mediaType": media_type or _BINARY}
    if data and is_image:
        return {"type": "image-data", "data": data, "mediaType": media_type or _BINARY}
    if data:
        return {"type": "file-data", "data": data, "mediaType": media_type or _BINARY, **name}
    if version == 5 or not is_url(url):
        return None
    return {"type": "image-url" if is_image else "file-url", "url": url}


# ---------------------------------------------------------------- messages to history


def rate_vercel_message(message: Mapping[str, Any]) -> Rating:
    """Return whether a message is one of the SDK's ``ModelMessage``."""
    role = message.get("role")
    if role not in ("system", "user", "assistant", "tool") or "tool_calls" in message or "tool_call_id" in message:
        return FOREIGN
    if "parts" in message or "toolInvocations" in message or "type" in message:
        return FOREIGN
    if role == "tool" and not isinstance(message.get("content"), list):
        return FOREIGN
    return rate_parts(message.get("content"), _rate_part)


def _rate_part(part: Mapping[str, Any]) -> Rating:
    kind = part.get("type")
    if kind in ("tool-call", "tool-result", "tool-approval-request", "tool-approval-response"):
        return OWN
    if kind == "image":
        return OWN if "image" in part else FOREIGN
    if kind == "file":
        return OWN if "mediaType" in part or "mimeType" in part else FOREIGN
    if kind == "reasoning":
        return OWN if isinstance(part.get("text"), str) else FOREIGN
    return POSSIBLE if kind == "text" else FOREIGN


def parse_vercel_messages(
    messages: Sequence[dict[str, Any]], *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Parse messages as history; an unknown part is kept as an opaque block.

    Args:
        messages: the SDK's ``CoreMessage`` (version 4) or ``ModelMessage`` (version 5) objects, as dicts.
        system: the system text, if it is separate from the messages.
        changes: receives a sentence for each part that is kept opaque, and for each field that is left out.

    Raises:
        UsageError: they are not a list of dicts. Nothing else is raised, whatever they contain.
    """
    builder = ContentBuilder("vercel", changes, prefixed=True)
    for text in as_list(system):
        if not builder.text("system", text):
            builder.opaque("system", text)
    for message in check_messages(messages):
        role = message.get("role")
        speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
        builder.end()
        if speaker is None and role != "tool":
            builder.add_unknown_role(message)
            continue
        builder.report_unread(message, ("id", "role", "content"), "a message")
        for part in as_list(message.get("content")):
            _parse_part(builder, speaker or "tool", part)
    return builder.build()


def _parse_part(builder: ContentBuilder, speaker: str, part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, str):
        builder.text(speaker, part)
    elif kind == "text" and isinstance(part.get("text"), str):
        builder.text(speaker, part["text"])
    elif kind == "image" and isinstance(part.get("image"), str):
        builder.add_block(speaker, ImageBlock(data=_to_image_url(part["image"], _media_type(part))))
    elif kind == "file" and isinstance(part.get("data"), str):
        name = part.get("filename")
        field = "url" if is_url(part["data"]) else "data"
        block = FileBlock(media_type=_media_type(part), name=name if isinstance(name, str) else None)
        builder.add_block(speaker, copy_with(block, **{field: part["data"]}))
    elif kind == "reasoning" and isinstance(part.get("text"), str):
        signature = part.get("signature")
        metadata = builder.provider_metadata({"providerOptions": part.get("providerOptions")})
        builder.add_block(
            speaker,
            ReasoningBlock(
                text=part["text"], signature=signature if isinstance(signature, str) else None, metadata=metadata
            ),
        )
    elif kind == "tool-call":
        _parse_call(builder, part)
    elif kind == "tool-result":
        _parse_result(builder, part)
    else:
        builder.opaque(speaker, part)


def _media_type(part: dict[str, Any]) -> str | None:
    media_type = part.get("mediaType") or part.get("mimeType")
    return media_type if isinstance(media_type, str) else None


def _to_image_url(image: str, media_type: str | None) -> str:
    """Return an image as a URL or a data URL: the SDK also accepts bare base64."""
    if is_url(image):
        return image
    return normalize_data_url(image) or (to_data_url(image, media_type) if media_type is not None else image)


def _parse_call(builder: ContentBuilder, part: dict[str, Any]) -> None:
    arguments = part.get("input", part.get("args"))
    if part.get("providerExecuted") is True:
        name, call_id = part.get("toolName"), part.get("toolCallId")
        block = ServerToolBlock(
            id=call_id if isinstance(call_id, str) else None,
            name=name if isinstance(name, str) else "",
            arguments=arguments,
            raw=[part],
            metadata=builder.provider_metadata(),
        )
        builder.add_block("ai", block)
        return
    extras = {name: value for name, value in part.items() if name not in _CALL_FIELDS}
    builder.call(part.get("toolName"), arguments, raw_id=part.get("toolCallId"), extras=extras)


def _parse_result(builder: ContentBuilder, part: dict[str, Any]) -> None:
    output, call_id, name = part.get("output"), part.get("toolCallId"), part.get("toolName")
    kind = output.get("type") if isinstance(output, dict) and "result" not in part else None
    value = output.get("value") if isinstance(output, dict) else None
    if kind == "error-text":
        builder.result(call_id, name=name, error=value if isinstance(value, str) else "")
    elif kind == "error-json":
        builder.result(call_id, value, name=name, status="error")
    elif kind == "execution-denied":
        reason = output.get("reason") if isinstance(output, dict) else None
        error = reason if isinstance(reason, str) else "The call was denied."
        builder.result(call_id, name=name, error=error, status="denied")
    elif kind == "content":
        builder.result(call_id, [_parse_result_part(item) for item in as_list(value)], name=name)
    elif kind in ("text", "json"):
        builder.result(call_id, value, name=name)
    else:
        value = part.get("result", output)
        builder.result(call_id, value, name=name, status="error" if part.get("isError") is True else None)


def _parse_result_part(item: Any) -> Any:
    """Return a part of a result, with images and files in history's form."""
    kind = item.get("type") if isinstance(item, dict) else None
    name, media_type = (item.get("filename"), _media_type(item)) if kind is not None else (None, None)
    name = name if isinstance(name, str) else None
    if kind in _RESULT_FILES and isinstance(item.get("data"), str):
        if kind == "image-data" or (media_type or "").startswith("image/"):
            return to_stored_part(ImageBlock(data=_to_image_url(item["data"], media_type or "image/png")))
        return to_stored_part(FileBlock(media_type=media_type, data=item["data"], name=name))
    if kind in _RESULT_URLS and isinstance(item.get("url"), str):
        if kind == "image-url":
            return to_stored_part(ImageBlock(data=item["url"]))
        return to_stored_part(FileBlock(media_type=media_type, url=item["url"], name=name))
    return item
