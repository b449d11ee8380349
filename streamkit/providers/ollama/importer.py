"""The importer of Ollama's messages: messages to history, for conversations that exist already.

Wire: https://docs.ollama.com/api/chat

Calls mostly have no ids: a result belongs to the first call of its tool in the turn before that has no result. Rendered
again the messages are the same, except that empty ones are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import create_block
from streamkit.providers.ollama.schema import Json
from streamkit.providers.provider import Traits
from streamkit.values.media import sniff_base64_type, to_data_url

__all__ = ["parse_messages"]

_SPEAKERS = {"system": "system", "user": "human", "assistant": "ai"}
_FIELDS = ("role", "content", "thinking", "images", "tool_calls")
_RESULT_FIELDS = ("role", "content", "tool_name", "tool_call_id")


def parse_messages(
    messages: Sequence[Json], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return messages as history, with the system text first."""
    builder = ContentBuilder(traits.name, changes)
    if system is not None and not builder.text("system", system):
        builder.opaque("system", system)
    builder.end()
    for message in messages:
        role = message.get("role")
        if role == "tool":
            if builder.speaker != "tool":
                builder.end()
            builder.report_unread(message, _RESULT_FIELDS, "a message of the role 'tool'")
            builder.result(message.get("tool_call_id"), message.get("content"), name=message.get("tool_name"))
            continue  # the results of one round are one content
        builder.end()
        if isinstance(role, str) and role in _SPEAKERS:
            builder.report_unread(message, _FIELDS, f"a message of the role {role!r}")
            _read_message(builder, _SPEAKERS[role], message)
        else:
            builder.add_unknown_role(message)
        builder.end()
    return builder.build()


def _read_message(builder: ContentBuilder, speaker: str, message: Json) -> None:
    thinking, content = message.get("thinking"), message.get("content")
    if isinstance(thinking, str) and thinking and speaker == "ai":
        builder.add_block("ai", create_block(ReasoningBlock, text=thinking, metadata=builder.provider_metadata()))
    if content is not None and not builder.text(speaker, content):
        builder.opaque(speaker, content)
    for image in as_list(message.get("images")):
        _read_image(builder, speaker, image)
    for call in as_list(message.get("tool_calls")) if speaker == "ai" else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            builder.opaque("ai", {"tool_calls": [call]})
            continue
        builder.report_unread(call, ("id", "type", "function"), "a call")
        builder.report_unread(function, ("name", "arguments", "index"), "a call")
        builder.call(function.get("name"), function.get("arguments"), raw_id=call.get("id"))


def _read_image(builder: ContentBuilder, speaker: str, image: Any) -> None:
    if not isinstance(image, str) or speaker == "system":
        builder.opaque(speaker, image)
    elif speaker == "ai":
        file = FileBlock(media_type=_media_type(image), data=image, metadata=builder.provider_metadata())
        builder.add_block("ai", file)
    else:
        builder.add_block(speaker, ImageBlock(data=to_data_url(image, _media_type(image))))


def _media_type(data: str) -> str:
    """Return the type of an image by its first bytes, because the wire has no field for it."""
    return sniff_base64_type(data) or "image/png"
