"""The importer of Gemini's contents: messages to history, for conversations that exist already.

Wire: https://ai.google.dev/api/caching#Content

Both spellings are accepted, REST's ``functionCall`` and google-genai's ``function_call``. A signature stays with its
part. Ids are optional: a result without one belongs to the first call of its function in the turn before that has no
result. Rendered again, the messages are the same except for this: fields are in REST's spelling, consecutive contents
of one role are joined, results are first in their content and have no role but ``user``, and empty parts without a
signature are left out.

The chats of Google's SDKs keep each chunk of a stream as a content of its own (``recordHistory`` in
https://github.com/googleapis/js-genai/blob/main/src/chats.ts). Consecutive contents of the model are therefore one
turn, and a text that was split between them is one block.

This module must not depend on streams or on rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.content import create_block
from streamkit.history.tool_results import to_stored_part
from streamkit.providers.decoding.decoding import as_text, compact_json
from streamkit.providers.gemini.schema import PART_METADATA, SIGNATURE, TEXT_METADATA, signature_of, to_camel_case
from streamkit.providers.provider import Traits
from streamkit.providers.rendering.media import join_text_and_media
from streamkit.values.json_data import copy_with
from streamkit.values.media import to_data_url, to_standard_base64
from streamkit.values.request_changes import Lost

__all__ = ["parse_messages"]

_SPEAKERS = {"user": "human", "function": "human", "model": "ai", None: "human"}
#: The names of the tools that the provider runs itself, by the field of the part.
_SERVER_TOOLS = {
    "executableCode": "code_execution",
    "codeExecutionResult": "code_execution",
    "toolCall": "tool",
    "toolResponse": "tool",
}
_MEDIA_FIELDS = ("inlineData", "fileData")


def parse_messages(
    messages: Sequence[dict[str, Any]], traits: Traits, *, system: Any = None, changes: list[str] | None = None
) -> list[Content]:
    """Return Gemini's contents as history, with the system text, parts or content first.

    Server tools and unknown parts are kept unchanged.
    """
    builder = ContentBuilder(traits.name, changes)
    _read_system(builder, system)
    for original in _join_chunks(messages):
        message = to_camel_case(original)
        role = message.get("role")
        speaker = _SPEAKERS.get(role) if role is None or isinstance(role, str) else None
        builder.end()
        if speaker is None or (not message.keys() <= {"role"} and "parts" not in message):
            builder.add_unknown_role(original)
            continue
        builder.report_unread(message, ("role", "parts"), "a content")
        for part in as_list(message.get("parts")):
            if isinstance(part, dict):
                _read_part(builder, speaker, part)
            elif not builder.text(speaker, part):
                builder.opaque(speaker, part)
    return builder.build()


def _join_chunks(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the contents; consecutive ones of the model as one."""
    for is_model, run in groupby(messages, key=_is_of_model):
        contents = list(run)
        if is_model and len(contents) > 1:
            yield {"role": "model", "parts": _join_parts([as_list(content["parts"]) for content in contents])}
        else:
            yield from contents


def _is_of_model(message: dict[str, Any]) -> bool:
    return message.get("role") == "model" and message.keys() == {"role", "parts"}


def _join_parts(contents: Sequence[list[Any]]) -> list[Any]:
    """Return the parts of all contents. A text at the end of one and its continuation in the next are one part."""
    parts: list[tuple[Any, list[str]]] = []
    for content in contents:
        for number, part in enumerate(content):
            kind = _text_kind(part)
            if number == 0 and parts and kind is not None and kind == _text_kind(parts[-1][0]):
                parts[-1][1].append(part["text"])
            else:
                parts.append((part, [] if kind is None else [part["text"]]))
    return [{**part, "text": "".join(texts)} if len(texts) > 1 else part for part, texts in parts]


def _text_kind(part: Any) -> str | None:
    """Return whether a part is a text or a thought; None for any other part, and for one with a signature."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str) or not part.keys() <= {"text", "thought"}:
        return None
    return "thought" if part.get("thought") is True else "text"


def _read_system(builder: ContentBuilder, system: Any) -> None:
    content = to_camel_case(system) if isinstance(system, dict) else system
    parts = content.get("parts", content) if isinstance(content, dict) else content
    for part in as_list(parts):
        if not builder.text("system", part.get("text") if isinstance(part, dict) else part):
            builder.opaque("system", part)
    builder.end()


def _read_part(builder: ContentBuilder, speaker: str, part: dict[str, Any]) -> None:
    signature = signature_of(part.get(SIGNATURE))
    text = part.get("text")
    if isinstance(part.get("functionCall"), dict):
        call = part["functionCall"]
        builder.report_unread(part, ("functionCall", SIGNATURE, "partMetadata"), "a part with a call")
        builder.report_unread(call, ("name", "args", "id"), "a call")
        extras = {SIGNATURE: signature, "partMetadata": part.get("partMetadata")}
        builder.call(call.get("name"), call.get("args"), raw_id=call.get("id"), extras=extras)
    elif isinstance(part.get("functionResponse"), dict):
        builder.report_unread(part, ("functionResponse",), "a part with a result")
        _read_result(builder, part["functionResponse"])
    elif isinstance(text, str):
        builder.report_unread(part, ("text", "thought", SIGNATURE, *TEXT_METADATA), "a part with text")
        if not text and signature is None:
            return
        kept = _kept_fields(part, TEXT_METADATA)
        if part.get("thought") is True:
            metadata = builder.provider_metadata({SIGNATURE: signature, **kept})
            builder.add_block(speaker, create_block(ReasoningBlock, text=text, metadata=metadata))
        elif speaker == "ai" or (kept and text):
            own = {SIGNATURE: signature} if speaker == "ai" else {}
            metadata = builder.provider_metadata({**own, **kept})
            builder.add_block(speaker, create_block(TextBlock, text=text, metadata=metadata))
        else:
            builder.text(speaker, text)
    else:
        _read_data(builder, speaker, part)


def _read_result(builder: ContentBuilder, function_response: dict[str, Any]) -> None:
    response = function_response.get("response")
    builder.report_unread(function_response, ("name", "response", "id", "parts"), "a result")
    value, error = response, None
    extras: dict[str, Any] = {}
    if isinstance(response, dict) and len(response) == 1:
        if isinstance(response.get("error"), str):
            value, error, extras = None, response["error"], {"is_error": True}
        elif "result" in response and not isinstance(response["result"], dict):
            value = response["result"]
        elif isinstance(response.get("output"), str):  # https://ai.google.dev/api/caching#FunctionResponse names both
            value, extras = response["output"], {"response_field": "output"}
    # Images and files of a result, which Gemini 3 accepts within it.
    media: list[ImageBlock | FileBlock] = []
    for part in as_list(function_response.get("parts")):
        if (block := _media(part)) is None:
            builder.report(Lost("left out a part of a result: it is neither inline data nor the address of a file"))
            continue
        builder.report_unread(part, _MEDIA_FIELDS, "a part of a result")
        media.append(block)
    if media and error is None:
        if isinstance(value, dict):
            extras["response_form"] = "object"
        text = value if isinstance(value, str) else compact_json(value) if value else ""
        value = [to_stored_part(part) for part in join_text_and_media(text, media)]
    name = function_response.get("name")
    builder.result(function_response.get("id"), value, name=name, error=error, extras=extras)


def _read_data(builder: ContentBuilder, speaker: str, part: dict[str, Any]) -> None:
    """Read a part without text, call or result: a file, a step of a server tool, or unknown data."""
    media = _media(part, images=speaker != "ai")
    name = next((name for name in _SERVER_TOOLS if isinstance(part.get(name), dict)), None)
    if media is not None:
        if speaker == "ai":  # the model's own part goes back unchanged, with its signature
            metadata = builder.own_metadata({"raw": part})
        else:
            builder.report_unread(part, (*_MEDIA_FIELDS, *PART_METADATA, SIGNATURE), "a part with a file")
            kept = _kept_fields(part, PART_METADATA)
            metadata = builder.own_metadata(kept) if kept else {}
        builder.add_block(speaker, copy_with(media, metadata=metadata))
    elif name is not None:
        data = part[name]
        result = data.get("response", data) if name in ("codeExecutionResult", "toolResponse") else None
        arguments = data.get("args", data) if result is None else None
        builder.add_block(
            speaker,
            ServerToolBlock(
                id=as_text(data.get("id")),
                name=as_text(data.get("toolType")) or _SERVER_TOOLS[name],
                arguments=arguments,
                result=result,
                raw=[part],
                metadata=builder.provider_metadata(),
            ),
        )
    else:
        builder.opaque(speaker, part)


def _kept_fields(part: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a part that go back with its data: the section of a video, the resolution of an image."""
    return {name: part[name] for name in names if part.get(name) is not None}


def _media(part: Any, *, images: bool = True) -> ImageBlock | FileBlock | None:
    """Return the image or file of a part, or None if it has neither; with *images* an image without a name as such."""
    inline, file_data = (part.get("inlineData"), part.get("fileData")) if isinstance(part, dict) else (None, None)
    if isinstance(inline, dict) and isinstance(inline.get("data"), str):
        media_type, name = as_text(inline.get("mimeType")), as_text(inline.get("displayName"))
        # google-genai encodes bytes in the url-safe alphabet (``encode_unserializable_types``), which protobuf's JSON
        # accepts (https://protobuf.dev/programming-guides/json/). Other providers accept the standard one alone.
        data = to_standard_base64(inline["data"])
        if images and media_type is not None and media_type.startswith("image/") and name is None:
            return ImageBlock(data=to_data_url(data, media_type))
        return FileBlock(media_type=media_type, data=data, name=name)
    if isinstance(file_data, dict) and isinstance(file_data.get("fileUri"), str):
        return FileBlock(media_type=as_text(file_data.get("mimeType")), url=file_data["fileUri"])
    return None
