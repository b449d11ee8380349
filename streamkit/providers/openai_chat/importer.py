"""Importer of Chat Completions messages into history, for conversations that people already have.

Wire: https://platform.openai.com/docs/api-reference/chat/create

The meaning of a message follows from its role and its fields. What no dialect's renderer could produce is kept as an
opaque block. Rendered again for the same dialect, the messages are the same, with these
exceptions: arguments are compact JSON, the texts of a message are one string, the old
``function_call`` and ``function`` are calls and results of today's form, empty messages are left out, and so is
the ``name`` of a person, which is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from streamkit.history import Content, FileBlock, ReasoningBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list, read_breakpoint
from streamkit.history.content import CACHE_BREAKPOINT, CacheMark, create_block, create_stored
from streamkit.history.stored_data import to_stored_data
from streamkit.history.tool_results import parse_result
from streamkit.providers.openai_chat.content_blocks import (
    reasoning_block_text,
    reasoning_detail_text,
    reasoning_part_text,
    thinking_text,
)
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.openai_chat.media import image_address, parse_media_part
from streamkit.providers.openai_chat.requests import BLANK_REASONING
from streamkit.providers.openai_chat.traits import REASONING_FIELDS, REASONING_TEXT_FIELDS
from streamkit.providers.requests.request import read_cache_mark

__all__ = ["parse_messages"]

_TEXT_FIELDS = ("type", "text", "cache_control", CACHE_BREAKPOINT)
_MEDIA_FIELDS = ("url", "detail", "data", "format", "file_data", "filename")
_SYSTEM_FIELDS = frozenset({"role", "content"})
_EXTRA_FIELDS = frozenset({"audio", "annotations", "images"})
#: the fields that are read, by the role of the message
_MESSAGE_FIELDS: dict[str, frozenset[str]] = {
    "system": _SYSTEM_FIELDS,
    "developer": _SYSTEM_FIELDS,
    "user": _SYSTEM_FIELDS,
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
    "function": frozenset({"role", "content", "name"}),
    "assistant": frozenset(
        {"role", "content", "refusal", "tool_calls", "function_call", "prefix", *_EXTRA_FIELDS, *REASONING_FIELDS}
    ),
}
_KNOWN_CALL_FIELDS = frozenset({"id", "index", "type", "function", "custom"})


def parse_messages(
    messages: Sequence[dict[str, Any]], traits: ChatDialect, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return a dialect's messages as history, with the system text or parts first."""
    builder = ContentBuilder(traits.name, changes)
    if system is not None:
        _read_system(builder, {"role": "system", "content": system})
    for message in messages:
        role = message.get("role")
        known = _MESSAGE_FIELDS.get(role) if isinstance(role, str) else None
        if known is not None and not known.issuperset(message):
            read = known | {"name"} if traits.messages.author_names else known
            builder.report_unread(message, read, f"a message of the role {role!r}")
        if role == "assistant":
            _AssistantMessage(builder, message).read()
        elif role == "user":
            _read_user(builder, message)
        elif role in ("system", "developer"):
            _read_system(builder, message)
        elif role == "tool":
            if builder.speaker != "tool":
                builder.end()
            result = _read_result(builder, message.get("content"))
            builder.result(message.get("tool_call_id"), result, name=message.get("name"))
            continue  # the results of one round are one content
        elif role == "function":
            builder.result(None, _read_result(builder, message.get("content")), name=message.get("name"))
            continue
        else:
            builder.add_unknown_role(message)
        if traits.messages.author_names and isinstance(name := message.get("name"), str) and name:
            builder.describe(author={"provider": traits.name, "name": name})
        builder.end()
    return builder.build()


def _read_system(builder: ContentBuilder, message: dict[str, Any]) -> None:
    builder.end()
    for part in as_list(message.get("content")):
        text, cache, mark = _read_text_part(builder, part) if isinstance(part, dict) else (part, None, {})
        if not builder.text("system", text, cache, extras=mark):
            builder.opaque("system", part)
    if message.get("role") == "developer":
        builder.describe(role="developer")


def _read_text_part(builder: ContentBuilder, part: dict[str, Any]) -> tuple[Any, CacheMark | None, dict[str, Any]]:
    """Return the text and the cache marks of a part; no text if it is of another type."""
    if part.get("type", "text") != "text":
        return None, None, {}
    if isinstance(part.get("text"), str):
        builder.report_unread(part, _TEXT_FIELDS, "a text part")
    return part.get("text"), read_cache_mark(part.get("cache_control")), read_breakpoint(part)


def _read_result(builder: ContentBuilder, content: Any) -> Any:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "text":
            builder.report_unread(part, ("type", "text"), "a text part of a result")
    return parse_result(content)


def _read_user(builder: ContentBuilder, message: dict[str, Any]) -> None:
    builder.end()
    for part in as_list(message.get("content")):
        text, cache, own_mark = _read_text_part(builder, part) if isinstance(part, dict) else (part, None, {})
        if builder.text("human", text, cache, extras=own_mark):
            continue
        blocks = parse_media_part(part, builder.provider) if isinstance(part, dict) else []
        for block in blocks:
            kind = part["type"]
            builder.report_unread(
                part, ("type", kind, "document_name", "cache_control", CACHE_BREAKPOINT), "a media part"
            )
            if isinstance(part.get(kind), dict):
                builder.report_unread(part[kind], _MEDIA_FIELDS, "a media part")
            if (mark := read_cache_mark(part.get("cache_control"))) is not None:
                block.metadata["cache"] = mark
            if own_mark := read_breakpoint(part):
                block.metadata.update(builder.own_metadata(own_mark))
            builder.add_block("human", block)
        if not blocks:
            builder.opaque("human", part)


class _AssistantMessage:
    """An assistant message that is added to a builder."""

    def __init__(self, builder: ContentBuilder, message: dict[str, Any]) -> None:
        self._builder = builder
        self._message = message

    def read(self) -> None:
        """Add all blocks, in the order in which a model produces them."""
        message, builder = self._message, self._builder
        builder.end()
        if any(name in message for name in REASONING_FIELDS):
            self._read_reasoning()
        content = message.get("content")
        if isinstance(content, str):
            builder.text("ai", content)
        else:
            for part in as_list(content):
                self._read_part(part)
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            self._add_refusal(refusal)
        if not _EXTRA_FIELDS.isdisjoint(message):
            self._read_extras()
        for call in as_list(message.get("tool_calls")):
            self._read_call(call)
        function_call = message.get("function_call")
        if isinstance(function_call, dict):
            builder.call(function_call.get("name"), function_call.get("arguments"))
        if message.get("prefix") is True:
            builder.describe(prefix=True)

    def _read_reasoning(self) -> None:
        details = as_list(self._message.get("reasoning_details"))
        text = next((value for name in REASONING_TEXT_FIELDS if (value := self._message.get(name))), None)
        own_blocks = as_list(text) if isinstance(text, (list, dict)) else []
        if own_blocks:
            text = "".join(map(reasoning_block_text, own_blocks))
        elif not isinstance(text, str) or text == BLANK_REASONING:
            text = "".join(reasoning_detail_text(detail) or "" for detail in details if isinstance(detail, dict))
        thinking = [block for block in as_list(self._message.get("thinking_blocks")) if isinstance(block, dict)]
        text = text or "".join([thinking_text(block) for block in thinking])
        opaque = self._message.get("reasoning_opaque")
        if text or details or thinking or opaque or own_blocks:
            state = {
                "reasoning_blocks": [own_blocks] if own_blocks else None,
                "reasoning_details": details or None,
                "thinking_blocks": thinking or None,
                "reasoning_opaque": opaque if isinstance(opaque, str) and opaque else None,
            }
            metadata = self._builder.own_metadata({name: value for name, value in state.items() if value is not None})
            self._builder.add_block("ai", create_stored(ReasoningBlock, text=to_stored_data(text), metadata=metadata))

    def _read_part(self, part: Any) -> None:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            self._builder.text("ai", part)
        elif kind in ("text", "output_text") and isinstance(part.get("text"), str):
            self._builder.report_unread(part, _TEXT_FIELDS, "a text part")
            mark = read_cache_mark(part.get("cache_control"))
            self._builder.text("ai", part["text"], mark, extras=read_breakpoint(part))
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            self._add_refusal(part["refusal"])
        elif kind == "thinking":
            self._read_thinking(part)
        elif kind == "reasoning" and isinstance(part.get("summary"), list):
            metadata = self._builder.provider_metadata({"reasoning_parts": [part]})
            block = create_block(ReasoningBlock, text=reasoning_part_text(part), kind="summary", metadata=metadata)
            self._builder.add_block("ai", block)
        else:
            self._builder.opaque("ai", part)

    def _read_thinking(self, part: dict[str, Any]) -> None:
        texts = [item.get("text") if isinstance(item, dict) else item for item in as_list(part.get("thinking"))]
        signature = part.get("signature")
        block = create_block(
            ReasoningBlock,
            text="".join(text for text in texts if isinstance(text, str)),
            signature=signature if isinstance(signature, str) else None,
            metadata=self._builder.provider_metadata(),
        )
        self._builder.add_block("ai", block)

    def _add_refusal(self, text: str) -> None:
        self._add_text(text, {"refusal": True})

    def _add_text(self, text: str, metadata: dict[str, Any]) -> None:
        self._builder.add_block(
            "ai", create_block(TextBlock, text=text, metadata=self._builder.provider_metadata(metadata))
        )

    def _read_extras(self) -> None:
        """Add audio, annotations of the text, and images."""
        builder, audio = self._builder, self._message.get("audio")
        annotations = as_list(self._message.get("annotations"))
        if isinstance(audio, dict):
            metadata = {name: audio[name] for name in ("id", "expires_at") if audio.get(name) is not None}
            transcript = audio.get("transcript")
            self._add_text(transcript if isinstance(transcript, str) else "", {"audio": metadata})
            if isinstance(audio.get("data"), str):
                file = FileBlock(media_type="audio/*", data=audio["data"], metadata=builder.provider_metadata())
                builder.add_block("ai", file)
        if annotations:
            self._add_text("", {"citations": annotations})
        for image in as_list(self._message.get("images")):
            address = image_address(image) if isinstance(image, dict) else None
            file = FileBlock(media_type="image/*", url=address, metadata=builder.provider_metadata({"raw": image}))
            builder.add_block("ai", file)

    def _read_call(self, call: Any) -> None:
        kind: Literal["function", "custom"] = "function"
        if isinstance(call, dict) and call.get("type") == "custom":
            kind = "custom"
        function = call.get(kind) if isinstance(call, dict) else None
        if not isinstance(function, dict):
            self._builder.opaque("ai", {"tool_calls": [call]})
            return
        arguments = function.get("input" if kind == "custom" else "arguments")
        is_known = _KNOWN_CALL_FIELDS.issuperset(call)
        extras = {} if is_known else {name: value for name, value in call.items() if name not in _KNOWN_CALL_FIELDS}
        self._builder.call(function.get("name"), arguments, raw_id=call.get("id"), kind=kind, extras=extras)
