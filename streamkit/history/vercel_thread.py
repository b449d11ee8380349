"""The messages of Vercel's AI SDK as history: the way back from ``convert_to_vercel_messages``.

Versions 4 and 5 are told apart part by part: ``args`` or ``input``, ``result`` or ``output``, ``mimeType`` or
``mediaType``. Ids are history's under another prefix (``spec/000``), so those that streamkit wrote come back as they
were; others are canonicalized and the raw one kept. Converted again it is the same thread, up to this: the texts of a
message without calls are one string, reasoning and what else those messages have no part for is left out, and a JSON
output that is a text or null is a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history.builder import ContentBuilder, as_list, check_messages
from streamkit.history.content import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock
from streamkit.history.tool_results import to_stored_part

__all__ = ["parse_vercel_messages"]

_SPEAKERS = {"user": "human", "assistant": "ai", "system": "system"}
_KNOWN_OF_A_CALL = frozenset({"type", "toolCallId", "toolName", "args", "input"})


def parse_vercel_messages(messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
    """Messages as history; a part that is not known is kept as an opaque block.

    Args:
        messages: the SDK's ``CoreMessage`` (version 4) or ``ModelMessage`` (version 5) objects, as dicts.
        system: system text that was given beside them.

    Raises:
        UsageError: they are no list of dicts. Nothing else is raised, whatever they hold.
    """
    transcript = ContentBuilder("vercel", prefixed=True)
    for text in as_list(system):
        if not transcript.text("system", text):
            transcript.opaque("system", text)
    for message in check_messages(messages):
        role = message.get("role")
        speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
        transcript.end()
        if speaker is None and role != "tool":
            transcript.add_unknown_role(message)
            continue
        for part in as_list(message.get("content")):
            _read_part(transcript, speaker or "tool", part)
    return transcript.build()


def _read_part(transcript: ContentBuilder, speaker: str, part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, str):
        transcript.text(speaker, part)
    elif kind == "text" and isinstance(part.get("text"), str):
        transcript.text(speaker, part["text"])
    elif kind == "image" and isinstance(part.get("image"), str):
        transcript.add_block(speaker, ImageBlock(data=_address(part["image"], _media_type(part))))
    elif kind == "file" and isinstance(part.get("data"), str):
        name = part.get("filename")
        where = "url" if part["data"].startswith(("http://", "https://")) else "data"
        block = FileBlock(media_type=_media_type(part), name=name if isinstance(name, str) else None)
        transcript.add_block(speaker, block.model_copy(update={where: part["data"]}))
    elif kind == "reasoning" and isinstance(part.get("text"), str):
        signature = part.get("signature")
        block_signature = signature if isinstance(signature, str) else None
        beside = {"providerOptions": part.get("providerOptions")}
        transcript.add_block(
            speaker,
            ReasoningBlock(text=part["text"], signature=block_signature, metadata=transcript.provider_metadata(beside)),
        )
    elif kind == "tool-call":
        _read_call(transcript, part)
    elif kind == "tool-result":
        _read_result(transcript, part)
    else:
        transcript.opaque(speaker, part)


def _media_type(part: dict[str, Any]) -> str | None:
    found = part.get("mediaType") or part.get("mimeType")
    return found if isinstance(found, str) else None


def _address(image: str, media_type: str | None) -> str:
    """An image as a data URL or an address: the SDK also takes bare base64."""
    bare = media_type is not None and not image.startswith(("data:", "http://", "https://"))
    return f"data:{media_type};base64,{image}" if bare else image


def _read_call(transcript: ContentBuilder, part: dict[str, Any]) -> None:
    given = part.get("input", part.get("args"))
    if part.get("providerExecuted") is True:
        name, call_id = part.get("toolName"), part.get("toolCallId")
        block = ServerToolBlock(
            id=call_id if isinstance(call_id, str) else None,
            name=name if isinstance(name, str) else "",
            arguments=given,
            raw=[part],
            metadata=transcript.provider_metadata(),
        )
        transcript.add_block("ai", block)
        return
    beside = {name: value for name, value in part.items() if name not in _KNOWN_OF_A_CALL}
    transcript.call(part.get("toolName"), given, raw_id=part.get("toolCallId"), beside=beside)


def _read_result(transcript: ContentBuilder, part: dict[str, Any]) -> None:
    output, call_id, name = part.get("output"), part.get("toolCallId"), part.get("toolName")
    kind = output.get("type") if isinstance(output, dict) and "result" not in part else None
    value = output.get("value") if isinstance(output, dict) else None
    if kind == "error-text":
        transcript.result(call_id, name=name, error=value if isinstance(value, str) else "")
    elif kind == "error-json":
        transcript.result(call_id, value, name=name, status="error")
    elif kind == "execution-denied":
        reason = output.get("reason") if isinstance(output, dict) else None
        error = reason if isinstance(reason, str) else "The call was denied."
        transcript.result(call_id, name=name, error=error, status="denied")
    elif kind == "content":
        transcript.result(call_id, [_result_part(item) for item in as_list(value)], name=name)
    elif kind in ("text", "json"):
        transcript.result(call_id, value, name=name)
    else:
        value = part.get("result", output)
        transcript.result(call_id, value, name=name, status="error" if part.get("isError") is True else None)


_RESULT_FILES = ("media", "image-data", "file-data")
_RESULT_ADDRESSES = ("image-url", "file-url")


def _result_part(item: Any) -> Any:
    """A part of a result; images and files as every provider's render knows them."""
    kind = item.get("type") if isinstance(item, dict) else None
    name, media_type = (item.get("filename"), _media_type(item)) if kind is not None else (None, None)
    name = name if isinstance(name, str) else None
    if kind in _RESULT_FILES and isinstance(item.get("data"), str):
        if kind == "image-data" or (media_type or "").startswith("image/"):
            return to_stored_part(ImageBlock(data=_address(item["data"], media_type or "image/png")))
        return to_stored_part(FileBlock(media_type=media_type, data=item["data"], name=name))
    if kind in _RESULT_ADDRESSES and isinstance(item.get("url"), str):
        if kind == "image-url":
            return to_stored_part(ImageBlock(data=item["url"]))
        return to_stored_part(FileBlock(media_type=media_type, url=item["url"], name=name))
    return item
