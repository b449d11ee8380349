"""Anthropic messages -> history: the way back, for conversations that people already have.

Wire      https://docs.anthropic.com/en/api/messages

A user message holds results and what a person says: these are two contents. What the provider made for itself
(thinking with its signature, tools that it ran, blocks that are not known here) is kept as it came.
Rendered again with ``ids="origin"`` it is the same thread, up to this: contents are lists of blocks, messages of one
role in a row are one, system text is one text, blank texts and what belongs to a single request (``cache_control``) are
gone, a result of one text part is that text, and a failed one's is a text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.tool_results import result_parts, to_stored_part
from streamkit.providers.anthropic.schema import Json
from streamkit.providers.decoding import as_text
from streamkit.providers.provider import Traits

__all__ = ["parse_messages"]

_KNOWN_OF_A_CALL = frozenset({"type", "id", "name", "input"})


def parse_messages(messages: Sequence[Json], traits: Traits, *, system: Any = None) -> list[Content]:
    """Messages as history, the system text (a text or blocks) in front. Nothing is raised for what they hold."""
    transcript = ContentBuilder(traits.name)
    _read_system(transcript, system)
    for message in messages:
        role, parts = message.get("role"), as_list(message.get("content"))
        transcript.end()
        if role == "assistant":
            _read_answer(transcript, parts)
        elif role == "user":
            for part in parts:
                _read_said(transcript, part)
        elif role == "system":
            _read_system(transcript, message.get("content"))
        else:
            transcript.add_unknown_role(message)
    return transcript.build()


def _read_system(transcript: ContentBuilder, system: Any) -> None:
    for part in as_list(system):
        if not transcript.text("system", part.get("text") if isinstance(part, dict) else part):
            transcript.opaque("system", part)
    transcript.end()


# ---------------------------------------------------------------- what people and tools say


def _read_said(transcript: ContentBuilder, part: Any) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, str):
        transcript.text("human", part)
    elif kind == "tool_result":
        _read_result(transcript, part)
    elif kind == "image" and (image := _image(part)) is not None:
        transcript.add_block("human", ImageBlock(data=image))
    elif kind == "document" and (file := _document(part)) is not None:
        transcript.add_block("human", file)
    elif kind != "text" or not transcript.text("human", part.get("text")):
        transcript.opaque("human", part)


def _image(part: Json) -> str | None:
    """An image as a data URL or an address; None where it is a file of the provider's."""
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    if isinstance(source.get("url"), str):
        return str(source["url"])
    if isinstance(source.get("data"), str) and isinstance(source.get("media_type"), str):
        return f"data:{source['media_type']};base64,{source['data']}"
    return None


def _document(part: Json) -> FileBlock | None:
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    kind, name = source.get("type"), part.get("title")
    name = name if isinstance(name, str) else None
    if kind == "url" and isinstance(source.get("url"), str):
        return FileBlock(url=source["url"], name=name)
    if kind == "base64" and isinstance(source.get("data"), str):
        return FileBlock(media_type=as_text(source.get("media_type")), data=source["data"], name=name)
    return None


def _read_result(transcript: ContentBuilder, part: Json) -> None:
    content, call_id = _result(part.get("content")), part.get("tool_use_id")
    if part.get("is_error") is not True:
        transcript.result(call_id, content)
        return
    if isinstance(content, list):
        texts = [item.get("text") for item in content if isinstance(item, dict)]
        error = "\n".join(text for text in texts if isinstance(text, str))
        transcript.result(call_id, content, error=error)
    else:
        transcript.result(call_id, error=content if isinstance(content, str) else "")


def _result(content: Any) -> Any:
    """A result's content: one text as that text, images as every provider's render knows them, all else as it came."""
    if not isinstance(content, list):
        return content
    parts = [_result_part(part) for part in content]
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("type") == "text":
        return parts[0].get("text")
    return parts


def _result_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return {"type": "text", "text": part.get("text")}
    read = result_parts([part]) if kind in ("image", "document") else None
    return to_stored_part(read[0]) if read else part


# ---------------------------------------------------------------- what the model said


def _read_answer(transcript: ContentBuilder, parts: list[Any]) -> None:
    servers: dict[str, ServerToolBlock] = {}
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            transcript.text("ai", part)
        elif kind == "text" and isinstance(part.get("text"), str):
            if part["text"]:
                transcript.add_block(
                    "ai",
                    TextBlock(
                        text=part["text"], metadata=transcript.provider_metadata(_beside(part, ("type", "text")))
                    ),
                )
        elif kind == "tool_use":
            beside = _beside(part, _KNOWN_OF_A_CALL)
            transcript.call(part.get("name"), part.get("input"), raw_id=part.get("id"), beside=beside)
        elif kind == "tool_result":  # no model says one, but threads of other makers have them here
            _read_result(transcript, part)
        elif kind == "thinking" and isinstance(part.get("thinking"), str):
            signature = part.get("signature")
            transcript.add_block(
                "ai",
                ReasoningBlock(
                    text=part["thinking"],
                    signature=signature if isinstance(signature, str) and signature else None,
                    metadata=transcript.provider_metadata(_beside(part, ("type", "thinking", "signature"))),
                ),
            )
        elif kind == "redacted_thinking":
            transcript.add_block("ai", ReasoningBlock(opaque=part, metadata=transcript.provider_metadata()))
        elif isinstance(kind, str) and kind.endswith("_tool_use"):
            block = ServerToolBlock(
                id=as_text(part.get("id")),
                name=as_text(part.get("name")) or "",
                arguments=part.get("input"),
                raw=[part],
                metadata=transcript.provider_metadata(),
            )
            transcript.add_block("ai", block)
            servers = {block.id: block} if block.id else {}  # a result joins its call only directly behind it
            continue
        elif isinstance(kind, str) and kind.endswith("_tool_result"):
            call = servers.get(as_text(part.get("tool_use_id")) or "")
            if call is not None:
                call.result = part.get("content")
                call.raw.append(part)
            else:
                transcript.add_block("ai", ServerToolBlock(raw=[part], metadata=transcript.provider_metadata()))
        else:
            transcript.opaque("ai", part)
        servers = {}


def _beside(part: Json, known: Collection[str]) -> Json:
    """What a block says beyond its words; whether a request was to be cached is none of its business."""
    return {name: value for name, value in part.items() if name not in known and name != "cache_control"}
