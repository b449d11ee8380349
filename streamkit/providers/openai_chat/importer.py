"""Chat Completions messages -> history: the way back, for conversations that people already have.

Wire      https://platform.openai.com/docs/api-reference/chat/create

What a message says is told apart by role and field; what no dialect's ``render`` could say is kept as an opaque block.
Rendered again for the same dialect with ``ids="origin"`` it is the same thread, up to this: arguments are compact JSON,
the texts of a message are one string, ``developer`` is ``system``, the old ``function_call`` and ``function`` are calls
and results of today, empty messages are gone, and so is what belongs to a single request (``detail``, ``name``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.tool_results import result_parts, to_stored_part
from streamkit.providers.openai_chat.dialects import ChatDialect

__all__ = ["parse_messages"]

_MEDIA_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_KNOWN_OF_A_CALL = frozenset({"id", "index", "type", "function", "custom"})


def parse_messages(messages: Sequence[dict[str, Any]], traits: ChatDialect, *, system: Any = None) -> list[Content]:
    """A dialect's messages as history. Nothing is raised for what they hold."""
    transcript = ContentBuilder(traits.name)
    if system is not None:
        _read_system(transcript, {"role": "system", "content": system})
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            _AssistantMessage(transcript, message).read()
        elif role == "user":
            _read_user(transcript, message)
        elif role in ("system", "developer"):
            _read_system(transcript, message)
        elif role == "tool":
            if transcript.speaker != "tool":
                transcript.end()
            transcript.result(message.get("tool_call_id"), _result(message.get("content")), name=message.get("name"))
            continue  # the results of one round are one content
        elif role == "function":
            transcript.result(None, _result(message.get("content")), name=message.get("name"))
            continue
        else:
            transcript.add_unknown_role(message)
        transcript.end()
    return transcript.build()


def _read_system(transcript: ContentBuilder, message: dict[str, Any]) -> None:
    transcript.end()
    for part in as_list(message.get("content")):
        if not transcript.text("system", part.get("text") if isinstance(part, dict) else part):
            transcript.opaque("system", part)


# ---------------------------------------------------------------- what people and tools say


def _read_user(transcript: ContentBuilder, message: dict[str, Any]) -> None:
    transcript.end()
    for part in as_list(message.get("content")):
        if isinstance(part, str):
            transcript.text("human", part)
        elif not isinstance(part, dict) or not _read_part(transcript, part):
            transcript.opaque("human", part)


def _read_part(transcript: ContentBuilder, part: dict[str, Any]) -> bool:
    """A part of a user's message; False where there is no word for it."""
    kind = part.get("type")
    if kind == "text":
        return transcript.text("human", part.get("text"))
    if kind == "document_url":
        files = result_parts([part]) or []
        for file in files:
            transcript.add_block("human", file)
        return bool(files)
    if kind == "image_url":
        address = _address(part)
        if address is not None:
            transcript.add_block("human", ImageBlock(data=address))
        return address is not None
    given = part.get(kind) if isinstance(kind, str) else None
    if not isinstance(given, dict):
        return False
    if kind == "input_audio" and isinstance(given.get("data"), str):
        form = str(given.get("format"))
        media_type = _MEDIA_TYPES.get(form, f"audio/{form}")
        transcript.add_block("human", FileBlock(media_type=media_type, data=given["data"]))
        return True
    data, name = given.get("file_data"), given.get("filename")
    if kind != "file" or not isinstance(data, str):  # a file_id is OpenAI's own
        return False
    label = name if isinstance(name, str) else None
    if data.startswith(("http://", "https://")):
        transcript.add_block("human", FileBlock(url=data, name=label))
    else:
        found = data[5:].partition(";")[0].partition(",")[0] if data.startswith("data:") else ""
        transcript.add_block("human", FileBlock(media_type=found or None, data=data, name=label))
    return True


def _address(part: dict[str, Any]) -> str | None:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) else None


def _result(content: Any) -> Any:
    """What a tool message holds: its text; with images or files in it, the parts; else what is there."""
    parts = result_parts(content, texts_alone=True)
    if parts is None:
        return content
    if all(isinstance(part, TextBlock) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextBlock))
    return [to_stored_part(part) for part in parts]


# ---------------------------------------------------------------- what the model said


class _AssistantMessage:
    """One assistant message."""

    def __init__(self, transcript: ContentBuilder, message: dict[str, Any]) -> None:
        self._transcript = transcript
        self._message = message

    def read(self) -> None:
        """All that it says, in the order in which a model says it."""
        message, transcript = self._message, self._transcript
        transcript.end()
        self._read_reasoning()
        for part in as_list(message.get("content")):
            self._read_part(part)
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            self._refuse(refusal)
        self._read_beside()
        for call in as_list(message.get("tool_calls")):
            self._read_call(call)
        old = message.get("function_call")
        if isinstance(old, dict):
            transcript.call(old.get("name"), old.get("arguments"))

    def _read_reasoning(self) -> None:
        details = as_list(self._message.get("reasoning_details"))
        text: Any = self._message.get("reasoning_content") or self._message.get("reasoning")
        if not isinstance(text, str):
            said = [d.get("text") or d.get("summary") for d in details if isinstance(d, dict)]
            text = "".join(piece for piece in said if isinstance(piece, str))
        if text or details:
            metadata = self._transcript.provider_metadata({"reasoning_details": details or None})
            self._transcript.add_block("ai", ReasoningBlock(text=text, metadata=metadata))

    def _read_part(self, part: Any) -> None:
        transcript = self._transcript
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            transcript.text("ai", part)
        elif kind in ("text", "output_text") and isinstance(part.get("text"), str):
            transcript.text("ai", part["text"])
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            self._refuse(part["refusal"])
        elif kind == "thinking":
            pieces = [
                piece.get("text") if isinstance(piece, dict) else piece for piece in as_list(part.get("thinking"))
            ]
            text = "".join(piece for piece in pieces if isinstance(piece, str))
            signature = part.get("signature")
            transcript.add_block(
                "ai",
                ReasoningBlock(
                    text=text,
                    signature=signature if isinstance(signature, str) else None,
                    metadata=transcript.provider_metadata(),
                ),
            )
        else:
            transcript.opaque("ai", part)

    def _refuse(self, text: str) -> None:
        self._transcript.add_block(
            "ai", TextBlock(text=text, metadata=self._transcript.provider_metadata({"refusal": True}))
        )

    def _read_beside(self) -> None:
        """Sound, images and what annotates the text."""
        transcript, audio = self._transcript, self._message.get("audio")
        annotations = as_list(self._message.get("annotations"))
        if isinstance(audio, dict):
            about = {name: audio[name] for name in ("id", "expires_at") if audio.get(name) is not None}
            transcript_text = audio.get("transcript")
            spoken = transcript_text if isinstance(transcript_text, str) else ""
            transcript.add_block("ai", TextBlock(text=spoken, metadata=transcript.provider_metadata({"audio": about})))
            if isinstance(audio.get("data"), str):
                transcript.add_block(
                    "ai", FileBlock(media_type="audio/*", data=audio["data"], metadata=transcript.provider_metadata())
                )
        if annotations:
            transcript.add_block(
                "ai", TextBlock(text="", metadata=transcript.provider_metadata({"citations": annotations}))
            )
        for image in as_list(self._message.get("images")):
            address = _address(image) if isinstance(image, dict) else None
            metadata = transcript.provider_metadata({"raw": image})
            transcript.add_block("ai", FileBlock(media_type="image/*", url=address, metadata=metadata))

    def _read_call(self, call: Any) -> None:
        kind: Literal["function", "custom"] = "function"
        if isinstance(call, dict) and call.get("type") == "custom":
            kind = "custom"
        given = call.get(kind) if isinstance(call, dict) else None
        if not isinstance(given, dict):
            self._transcript.opaque("ai", {"tool_calls": [call]})
            return
        arguments = given.get("input" if kind == "custom" else "arguments")
        beside = {name: value for name, value in call.items() if name not in _KNOWN_OF_A_CALL}
        self._transcript.call(given.get("name"), arguments, raw_id=call.get("id"), kind=kind, extras=beside)
