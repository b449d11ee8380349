"""The importer of Cohere's messages: messages to history, for conversations that exist already.

Wire: https://docs.cohere.com/v2/reference/chat

A plan is reasoning of the kind ``plan``. Rendered again the messages are the same, except that texts of one message are
one string where there are no images, and citations are left out and reported. Other targets get the documents of a
result as text or as JSON text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, ImageBlock, ReasoningBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import create_block
from streamkit.providers.cohere.messages import DOCUMENTS, documents_of, read_result
from streamkit.providers.cohere.schema import Json
from streamkit.providers.provider import Traits

__all__ = ["parse_messages"]

_SPEAKERS = {"system": "system", "user": "human"}
#: the fields that are read, by the role of the message
_FIELDS = {
    "system": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role", "content", "tool_calls", "tool_plan"),
    "tool": ("role", "content", "tool_call_id"),
}


def parse_messages(
    messages: Sequence[Json], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return messages as history, with the system text or parts first."""
    builder = ContentBuilder(traits.name, changes)
    if system is not None:
        _read_parts(builder, "system", system)
        builder.end()
    for message in messages:
        role = message.get("role")
        if not isinstance(role, str) or role not in _FIELDS:
            builder.add_unknown_role(message)
            continue
        builder.report_unread(message, _FIELDS[role], f"a message of the role {role!r}")
        if role == "tool":
            if builder.speaker != "tool":
                builder.end()
            content = message.get("content")
            extras = {DOCUMENTS: documents_of(content)}
            builder.result(message.get("tool_call_id"), read_result(content), extras=extras)
            continue  # the results of one round are one content
        builder.end()
        if role == "assistant":
            _read_assistant(builder, message)
        else:
            _read_parts(builder, _SPEAKERS[role], message.get("content"))
        builder.end()
    return builder.build()


def _read_parts(builder: ContentBuilder, speaker: str, content: Any) -> None:
    for part in as_list(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            builder.text(speaker, part)
        elif kind == "text" and builder.text(speaker, part.get("text")):
            builder.report_unread(part, ("type", "text"), "a text")
        elif kind == "image_url" and speaker == "human" and (image := _image_of(part)) is not None:
            builder.report_unread(image, ("url",), "an image")
            builder.add_block(speaker, ImageBlock(data=image["url"]))
        elif kind == "thinking" and speaker == "ai" and isinstance(part.get("thinking"), str):
            block = create_block(ReasoningBlock, text=part["thinking"], metadata=builder.provider_metadata())
            builder.add_block(speaker, block)
        else:
            builder.opaque(speaker, part)


def _read_assistant(builder: ContentBuilder, message: Json) -> None:
    plan = message.get("tool_plan")
    if isinstance(plan, str) and plan:
        block = create_block(ReasoningBlock, text=plan, kind="plan", metadata=builder.provider_metadata())
        builder.add_block("ai", block)
    _read_parts(builder, "ai", message.get("content"))
    for call in as_list(message.get("tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            builder.opaque("ai", {"tool_calls": [call]})
            continue
        builder.report_unread(call, ("id", "type", "function"), "a call")
        builder.call(function.get("name"), function.get("arguments"), raw_id=call.get("id"))


def _image_of(part: Json) -> Json | None:
    """Return the image of a part; None if it has no address."""
    image = part.get("image_url")
    return image if isinstance(image, dict) and isinstance(image.get("url"), str) else None
