"""History as the messages of Vercel's AI SDK.

Version 4 with ``tool_names=False`` is ``spec/003`` to the letter. Version 5 and later are the same walk with that SDK's
newer parts (https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message): a call's ``input``, a result's ``output`` and
``toolName``, and files, also those that a result shows (``output`` of type ``content``). What these messages have no
part for (reasoning, a provider's own blocks) is left out, as the document does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from streamkit.errors import UsageError
from streamkit.history.content import Block, Content, FileBlock, ImageBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.tool_results import ResultPart, result_parts
from streamkit.ids import normalize_to_openai_tool_id

__all__ = ["convert_to_vercel_messages"]


def convert_to_vercel_messages(
    contents: Sequence[Content], version: Literal[4, 5, 6, 7] = 5, tool_names: bool = True
) -> list[dict[str, Any]]:
    """The messages, one for each content that has one; a content with tool responses is a tool message whoever speaks.

    Args:
        contents: the history.
        version: the major version of the AI SDK. Version 5 refuses version 4's tool parts; later ones take version 5's
            but for the images and files in results, which have other words there (version 6 takes both).
        tool_names: whether results say their tool's name, found at the call where the result has none; ``""`` where no
            call has that id. Version 5 requires it.

    Raises:
        UsageError: another version.
    """
    if version not in (4, 5, 6, 7):
        raise UsageError(f"version is 4, 5, 6 or 7, not {version!r}")
    names: dict[str, str] = {}
    messages = []
    for content in contents:
        for block in content.blocks:
            if isinstance(block, ToolCallBlock):
                names[normalize_to_openai_tool_id(block.id)] = block.name
        message = _message(content, version, names if tool_names else None)
        if message is not None:
            messages.append(message)
    return messages


def _message(content: Content, version: int, names: dict[str, str] | None) -> dict[str, Any] | None:
    responses = [block for block in content.blocks if isinstance(block, ToolResponseBlock)]
    if responses:
        return {"role": "tool", "content": [_result(block, version, names) for block in responses]}
    if content.speaker == "human":
        return {"role": "user", "content": _user(content.blocks, version)}
    if content.speaker == "ai":
        return {"role": "assistant", "content": _assistant(content.blocks, version)}
    if content.speaker == "system":
        return {"role": "system", "content": _text(content.blocks)}
    return None


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _user(blocks: Sequence[Block], version: int) -> str | list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageBlock):
            parts.append({"type": "image", "image": block.data})
        elif isinstance(block, FileBlock) and version >= 5:
            file = {"type": "file", "data": block.data or block.url or "", "mediaType": block.media_type or _BINARY}
            parts.append(file | ({"filename": block.name} if block.name else {}))
    return parts if any(part["type"] != "text" for part in parts) else _text(blocks)


_BINARY = "application/octet-stream"  # the SDK requires a media type


def _assistant(blocks: Sequence[Block], version: int) -> str | list[dict[str, Any]]:
    if not any(isinstance(block, ToolCallBlock) for block in blocks):
        return _text(blocks)
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


def _result(block: ToolResponseBlock, version: int, names: dict[str, str] | None) -> dict[str, Any]:
    call_id = normalize_to_openai_tool_id(block.call_id)
    part: dict[str, Any] = {"type": "tool-result", "toolCallId": call_id}
    if names is not None:
        part["toolName"] = block.name or names.get(call_id, "")
    failed = block.status == "error" or block.error is not None
    if version >= 5:
        part["output"] = _output(block, version, failed=failed)
        return part
    # The document says "result OR ''" of a text; 0 and false are results, too.
    part["result"] = "" if block.result is None else block.result
    if failed:
        part["isError"] = True
    return part


def _output(block: ToolResponseBlock, version: int, *, failed: bool) -> dict[str, Any]:
    parts = result_parts(block.result) if block.error is None and not failed else None
    media = [_media(part, version) for part in parts or ()]
    if parts is not None and None not in media:
        return {"type": "content", "value": media}
    value = block.result if block.error is None else block.error
    kind = "text" if value is None or isinstance(value, str) else "json"
    value = "" if value is None else to_jsonable_python(value, fallback=str)
    return {"type": f"error-{kind}" if failed else kind, "value": value}


def _media(part: ResultPart, version: int) -> dict[str, Any] | None:
    """A part of a result's content; None for what the SDK has no word for: in version 5 an address."""
    if isinstance(part, TextBlock):
        return {"type": "text", "text": part.text}
    image = isinstance(part, ImageBlock)
    data, address = (part.data, part.data) if isinstance(part, ImageBlock) else (part.data or "", part.url or "")
    media_type = None if isinstance(part, ImageBlock) else part.media_type
    head, comma, bare = data.partition(";base64,")
    if comma and head.startswith("data:"):
        media_type, data = media_type or head[5:].partition(";")[0], bare
    elif image:
        data = ""
    name = {"filename": part.name} if isinstance(part, FileBlock) and part.name else {}
    if data and version == 5:
        return {"type": "media", "data": data, "mediaType": media_type or _BINARY}
    if data and image:
        return {"type": "image-data", "data": data, "mediaType": media_type or _BINARY}
    if data:
        return {"type": "file-data", "data": data, "mediaType": media_type or _BINARY, **name}
    if version == 5 or not address.startswith(("http://", "https://")):
        return None
    return {"type": "image-url" if image else "file-url", "url": address}
