"""Gemini's contents -> history: the way back, for conversations that people already have.

Wire      https://ai.google.dev/api/caching#Content

Both spellings are read, REST's ``functionCall`` and google-genai's ``function_call``. A signature stays with its part.
Ids are optional here: a result without one belongs to the first unanswered call of its function in the turn before it.
Rendered again it is the same thread, up to this: fields are in REST's spelling, contents of one role in a row are one,
results stand first in theirs and name no role but ``user``, and empty parts without a signature are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.tool_results import to_stored_part
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.gemini.schema import SIGNATURE, signature_of, to_camel_case
from streamkit.providers.provider import Traits
from streamkit.providers.tool_result_media import join_text_and_media

__all__ = ["parse_messages"]

_SPEAKERS = {"user": "human", "function": "human", "model": "ai", None: "human"}
#: What the provider runs itself, by the field in which it stands.
_SERVER_TOOLS = {
    "executableCode": "code_execution",
    "codeExecutionResult": "code_execution",
    "toolCall": "tool",
    "toolResponse": "tool",
}


def parse_messages(messages: Sequence[dict[str, Any]], traits: Traits, *, system: Any = None) -> list[Content]:
    """Contents as history, the system text (a text, parts or a content) in front. Nothing is raised for what they hold.

    What only the provider knows (tools that it ran, parts that are not known here) is kept as it came.
    """
    transcript = ContentBuilder(traits.name)
    _read_system(transcript, system)
    for given in messages:
        message = to_camel_case(given)
        role = message.get("role")
        speaker = _SPEAKERS.get(role) if role is None or isinstance(role, str) else None
        transcript.end()
        if speaker is None:
            transcript.add_unknown_role(given)
            continue
        for part in as_list(message.get("parts")):
            if isinstance(part, dict):
                _read_part(transcript, speaker, part)
            elif not transcript.text(speaker, part):
                transcript.opaque(speaker, part)
    return transcript.build()


def _read_system(transcript: ContentBuilder, system: Any) -> None:
    given = to_camel_case(system) if isinstance(system, dict) else system
    parts = given.get("parts", given) if isinstance(given, dict) else given
    for part in as_list(parts):
        if not transcript.text("system", part.get("text") if isinstance(part, dict) else part):
            transcript.opaque("system", part)
    transcript.end()


def _read_part(transcript: ContentBuilder, speaker: str, part: dict[str, Any]) -> None:
    signature = signature_of(part.get(SIGNATURE))
    text = part.get("text")
    if isinstance(part.get("functionCall"), dict):
        call = part["functionCall"]
        transcript.call(call.get("name"), call.get("args"), raw_id=call.get("id"), extras={SIGNATURE: signature})
    elif isinstance(part.get("functionResponse"), dict):
        _read_result(transcript, part["functionResponse"])
    elif isinstance(text, str):
        if not text and signature is None:
            return
        if part.get("thought") is True:
            transcript.add_block(
                speaker, ReasoningBlock(text=text, metadata=transcript.provider_metadata({SIGNATURE: signature}))
            )
        elif speaker == "ai":
            transcript.add_block(
                speaker, TextBlock(text=text, metadata=transcript.provider_metadata({SIGNATURE: signature}))
            )
        else:
            transcript.text(speaker, text)
    else:
        _read_thing(transcript, speaker, part)


def _read_result(transcript: ContentBuilder, given: dict[str, Any]) -> None:
    response = given.get("response")
    value, error = response, None
    if isinstance(response, dict) and len(response) == 1:
        if isinstance(response.get("error"), str):
            value, error = None, response["error"]
        elif "result" in response and not isinstance(response["result"], dict):
            value = response["result"]
    # Images and files of a result, which Gemini 3 takes inside of it.
    media = [
        block for part in as_list(given.get("parts")) if isinstance(block := _media(part), (ImageBlock, FileBlock))
    ]
    if media and error is None:
        text = value if isinstance(value, str) else compact_json(value) if value else ""
        value = [to_stored_part(part) for part in join_text_and_media(text, media)]
    transcript.result(given.get("id"), value, name=given.get("name"), error=error)


def _read_thing(transcript: ContentBuilder, speaker: str, part: dict[str, Any]) -> None:
    """A file, a step of a tool that Google ran, or what is not known here."""
    whole = (
        transcript.provider_metadata({"raw": part}) if speaker == "ai" else {}
    )  # goes back as it came, with its signature
    media = _media(part, images=speaker != "ai")
    name = next((name for name in _SERVER_TOOLS if isinstance(part.get(name), dict)), None)
    if media is not None:
        transcript.add_block(speaker, media.model_copy(update={"metadata": whole}))
    elif name is not None:
        step = part[name]
        result = step.get("response", step) if name in ("codeExecutionResult", "toolResponse") else None
        given = step.get("args", step) if result is None else None
        transcript.add_block(
            speaker,
            ServerToolBlock(
                id=as_text(step.get("id")),
                name=as_text(step.get("toolType")) or _SERVER_TOOLS[name],
                arguments=given,
                result=result,
                raw=[part],
                metadata=transcript.provider_metadata(),
            ),
        )
    else:
        transcript.opaque(speaker, part)


def _media(part: Any, *, images: bool = True) -> ImageBlock | FileBlock | None:
    """An image or a file; ``images``: one without a name that is an image is an image."""
    inline, address = (part.get("inlineData"), part.get("fileData")) if isinstance(part, dict) else (None, None)
    if isinstance(inline, dict) and isinstance(inline.get("data"), str):
        media_type, label = as_text(inline.get("mimeType")), as_text(inline.get("displayName"))
        if images and media_type is not None and media_type.startswith("image/") and label is None:
            return ImageBlock(data=f"data:{media_type};base64,{inline['data']}")
        return FileBlock(media_type=media_type, data=inline["data"], name=label)
    if isinstance(address, dict) and isinstance(address.get("fileUri"), str):
        return FileBlock(media_type=as_text(address.get("mimeType")), url=address["fileUri"])
    return None
