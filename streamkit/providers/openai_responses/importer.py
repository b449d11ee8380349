"""Responses items -> history: the way back, for conversations that people already have.

Wire      https://platform.openai.com/docs/api-reference/responses/create (``input``)

The thread is a list of items: what was sent as ``input`` and what came as ``output``, in order. Items that the model
made one behind the other are one answer. Reasoning, what the provider ran itself and items that are not known here are
kept as they came. Rendered again with ``ids="origin"`` it is the same thread, up to this: a person's message of one
text is that text, ``developer`` is ``system``, arguments are compact JSON, an item's own id is there only where its
reasoning is, and results stand directly behind the answer with their calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.history import Content, FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, TextBlock
from streamkit.history.builder import ContentBuilder, as_list
from streamkit.history.tool_results import result_parts, to_stored_part
from streamkit.providers.decoding import as_text
from streamkit.providers.openai_responses.output_items import type_of
from streamkit.providers.openai_responses.schema import CALL_TEXT, SERVER_RESULTS, SERVER_TOOLS, Json
from streamkit.providers.openai_responses.server_tools import runs_on_server
from streamkit.providers.provider import Traits

__all__ = ["parse_messages"]

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_SPEAKERS = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}


def parse_messages(messages: Sequence[Json], traits: Traits, *, system: Any = None) -> list[Content]:
    """Items as history, the instructions in front. Nothing is raised for what they hold."""
    transcript = ContentBuilder(traits.name)
    for text in as_list(system):
        if not transcript.text("system", text):
            transcript.opaque("system", text)
    transcript.end()
    for item in messages:
        kind = type_of(item)
        role = item.get("role")
        if kind == "message" or (not kind and "role" in item):
            _read_message(transcript, item, _SPEAKERS.get(role) if isinstance(role, str) else None)
        elif kind in CALL_TEXT:
            beside = {
                name: item[name] for name in item if name not in ("type", "id", "call_id", "name", CALL_TEXT[kind])
            }
            transcript.call(
                item.get("name"),
                item.get(CALL_TEXT[kind]),
                raw_id=item.get("call_id"),
                kind="custom" if kind == "custom_tool_call" else "function",
                extras={**beside, "item_id": as_text(item.get("id"))},
            )
        elif kind in _OUTPUTS:
            transcript.result(item.get("call_id"), _output(item.get("output")))
        elif kind == "reasoning":
            transcript.add_block("ai", _reasoning(transcript, item))
        elif runs_on_server(item):
            _read_server_tool(transcript, item, kind)
        else:
            transcript.opaque("ai", item)
    return transcript.build()


# ---------------------------------------------------------------- messages


def _read_message(transcript: ContentBuilder, item: Json, speaker: str | None) -> None:
    if speaker is None:
        transcript.add_unknown_role(item)
        return
    if speaker != "ai":
        transcript.end()
    said = {"item_id": as_text(item.get("id")), "phase": item.get("phase")}
    for part in as_list(item.get("content")):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part if isinstance(part, str) else part.get("text") if kind in _TEXTS else None
        if isinstance(text, str) and speaker == "ai":
            citations = part.get("annotations") if isinstance(part, dict) else None
            if text:
                metadata = transcript.provider_metadata({**said, "citations": citations or None})
                transcript.add_block("ai", TextBlock(text=text, metadata=metadata))
        elif isinstance(text, str):
            transcript.text(speaker, text)
        elif kind == "refusal" and isinstance(part.get("refusal"), str) and speaker == "ai":
            metadata = transcript.provider_metadata({**said, "refusal": True})
            transcript.add_block("ai", TextBlock(text=part["refusal"], metadata=metadata))
        elif speaker == "ai" or not _read_part(transcript, speaker, part):
            # A part is no item: it is kept in such a way that no render takes it for one.
            transcript.opaque(speaker, {"content": [part]})
    if speaker != "ai":
        transcript.end()


_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def _read_part(transcript: ContentBuilder, speaker: str, part: Any) -> bool:
    """A part of a person's message beside text; False where there is no word for it."""
    if not isinstance(part, dict):
        return False
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        transcript.add_block(speaker, ImageBlock(data=part["image_url"]))
        return True
    data, address, name = part.get("file_data"), part.get("file_url"), as_text(part.get("filename"))
    if part.get("type") != "input_file":
        return False
    if isinstance(data, str):
        media_type = data[5:].partition(";")[0].partition(",")[0] if data.startswith("data:") else None
        transcript.add_block(speaker, FileBlock(media_type=media_type or None, data=data, name=name))
    elif isinstance(address, str):
        transcript.add_block(speaker, FileBlock(url=address, name=name))
    return isinstance(data, str) or isinstance(address, str)


# ---------------------------------------------------------------- other items


def _output(output: Any) -> Any:
    """What came of a call: its text; with images or files in it, the parts; else what is there."""
    parts = result_parts(output, texts_alone=True)
    if parts is None:
        return output
    if all(isinstance(part, TextBlock) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextBlock))
    return [to_stored_part(part) for part in parts]


def _reasoning(transcript: ContentBuilder, item: Json) -> ReasoningBlock:
    summary = [part.get("text") for part in as_list(item.get("summary")) if isinstance(part, dict)]
    whole = [part.get("text") for part in as_list(item.get("content")) if isinstance(part, dict)]
    texts = [text for text in summary or whole if isinstance(text, str)]
    return ReasoningBlock(
        text="\n\n".join(texts),
        kind="summary" if summary else "text",
        opaque=item,
        metadata=transcript.provider_metadata(),
    )


def _read_server_tool(transcript: ContentBuilder, item: Json, kind: str) -> None:
    """An item of a tool that the provider ran: it goes back whole."""
    if kind in SERVER_RESULTS:
        name, field = SERVER_RESULTS[kind]
        given, result = None, item.get(field)
    else:
        name, given_field, field = SERVER_TOOLS[kind]
        given, result = item.get(given_field), item.get(field) if field else None
    transcript.add_block(
        "ai",
        ServerToolBlock(
            id=as_text(item.get("call_id")) or as_text(item.get("id")),
            name=name or as_text(item.get("name")) or kind,
            arguments=given,
            result=result,
            raw=[item],
            metadata=transcript.provider_metadata(),
        ),
    )
