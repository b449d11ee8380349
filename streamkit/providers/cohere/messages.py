"""History as Cohere's messages, and the fields of a request's body that the conversation determines.

https://docs.cohere.com/v2/reference/chat and .../docs/tool-use-overview

An assistant message contains text or calls, never both: "text content is not allowed when tool_calls are provided. If
you wish to pass a tool plan, either pass thinking content (with thinking enabled) or use 'tool_plan'"
(vercel/ai#5794). Text of the model with calls is therefore sent as the plan, which it was. Results follow their calls,
one message each, in call order. A result is sent as a string, which "should be formatted as a JSON object string" and
is one document that the model may cite; the list of documents is the other form. Neither can contain an image (the
SDK's ToolContent is text or a document of text), so a user message after the results shows the images. The documents
that a result was made of are kept beside its text in history, and go back as long as the result is still theirs.

Blocks that no message can contain are left out and reported in ``changes``. A person's image or file that the API does
not accept raises; one of a tool is replaced by text. This module does not repair history: a call without a result stays
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamkit.errors import UnsupportedContent
from streamkit.history import (
    Block,
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.tool_results import ResultPart, parse_result
from streamkit.providers.cohere.requests import STRICT, output_fields, render_tool_fields
from streamkit.providers.cohere.schema import Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.media import Media, caption, convert_parts, report_name
from streamkit.providers.rendering.message_renderer import RoleRenderer
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.strict import strict_output_if_possible
from streamkit.providers.writing.encoding import data_as_json
from streamkit.tools.definition import OfferedTool
from streamkit.values.media import is_url, quote_source, to_data_url
from streamkit.values.request_changes import LeftOut

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["DOCUMENTS", "build_request", "convert_media", "create_renderer", "documents_of", "read_result"]

#: The name of the parts of a result in its metadata: Cohere's models cite documents by their ids
#: (https://docs.cohere.com/docs/tool-use-citations).
DOCUMENTS = "documents"


def create_renderer(traits: Traits, options: RenderOptions) -> CohereRenderer:
    """Return a renderer of history as Cohere's messages.

    The API documents no rule for ids, so those of calls that Cohere did not make have the most common form.
    """
    return CohereRenderer(traits, options)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[OfferedTool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    output: OutputType[Any] | None = None,
) -> Json:
    """Return the fields of a request's body that the conversation decides.

    The API's choices are REQUIRED and NONE; without the field it is ``auto``. No choice can name a tool. If one must be
    called, only that one is offered, and required.
    """
    body: Json = {traits.messages_field: rendered.messages}
    body |= render_tool_fields(tools, tool_choice)
    if output is not None:
        merge_fields(body, output_fields(strict_output_if_possible(output, STRICT, rendered.changes)))
    if stream:
        body["stream"] = True
    return body


def convert_media(block: Media, traits: Traits) -> Json:
    """Return an image, or a file that is one, as a part."""
    data = block.data or ""
    if isinstance(block, FileBlock) and not data.startswith("data:image/"):
        media_type = block.media_type or ""
        if not media_type.startswith("image/") or not (data or block.url):
            kind = media_type or block.name or "a file of unknown type"
            raise UnsupportedContent(f"Cohere accepts only images as files, not {quote_source(kind)}")
        data = to_data_url(data, media_type) if data else block.url or ""
    if not is_url(data) and not (data.startswith("data:image/") and ";base64," in data):
        raise UnsupportedContent(
            f"Cohere accepts an image as a base64 data URL or an http(s) URL, not {quote_source(data)}"
        )
    return {"type": "image_url", "image_url": {"url": data}}


class CohereRenderer(RoleRenderer[Traits]):
    """A rendering of history as Cohere's messages."""

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._tool_names: dict[str, str] = {}  # by the id of a call in history

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """Return the images of tools unchanged; text for other files."""
        return convert_parts(parts, lambda part: convert_media(part, self.traits), self.changes, "Cohere")

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Append a user message of text, or of parts if there are images."""
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    parts.append(_text_part(block.text))
            elif isinstance(block, (ImageBlock, FileBlock)):
                parts.append(convert_media(block, self.traits))
                report_name(block, parts[-1], self.changes)
            else:
                self.omit(block, "a user message cannot contain it")
        if any(part["type"] != "text" for part in parts):
            self.push({"role": "user", "content": parts})
        elif parts:
            self.push({"role": "user", "content": "\n".join(part["text"] for part in parts)})

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Append an assistant message of text and thinking, or of a plan and calls."""
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        plan, parts = self._plan_and_parts(blocks, has_calls=bool(calls))
        if not calls and not any(part["type"] == "text" for part in parts):
            if blocks:
                self.changes.append(LeftOut("left out an assistant message: it has neither text nor calls"))
            return
        message: Json = {"role": "assistant"}
        if plan:
            message["tool_plan"] = "\n".join(plan)
        if len(parts) == 1 and parts[0]["type"] == "text":
            message["content"] = parts[0]["text"]
        elif parts:
            message["content"] = parts
        self.push(message)
        if calls:
            self.ids.start_round()
            message["tool_calls"] = [self._call(call) for call in calls]
            self.call_places: dict[str, int] = {call["id"]: place for place, call in enumerate(message["tool_calls"])}

    def _plan_and_parts(self, blocks: Sequence[Block], *, has_calls: bool) -> tuple[list[str], list[Json]]:
        """Return the texts of the plan and the parts of the content; other blocks except calls are left out."""
        plan: list[str] = []
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text and has_calls:
                    plan.append(block.text)
                elif block.text:
                    parts.append(_text_part(block.text))
            elif isinstance(block, ReasoningBlock) and self.is_from_target(block) and block.text:
                if block.kind != "plan":
                    parts.append({"type": "thinking", "thinking": block.text})
                elif has_calls:
                    plan.append(block.text)
                else:
                    self.omit(block, "a plan belongs to calls, and there are none")
            elif not isinstance(block, ToolCallBlock):
                self.omit(block, "an assistant message to Cohere cannot contain it")
        return plan, parts

    def _call(self, block: ToolCallBlock) -> Json:
        arguments = self.arguments_object(block)
        self._tool_names[block.id] = block.name
        return {
            "id": self.ids.call_id(block),
            "type": "function",
            "function": {"name": block.name, "arguments": data_as_json(arguments)},
        }

    def add_result(self, block: ToolResponseBlock) -> None:
        """Buffer the tool message of a result; a user message after the results shows its images."""
        call_id = self.ids.result_id(block)
        text, media = self.text_and_media(block)
        is_own = self.is_from_target(block) and block.error is None
        documents = documents_of(block.metadata.get(DOCUMENTS)) if is_own else None
        if documents is not None and read_result(documents) != block.result:
            documents = None  # the result was changed since
        message = {"role": "tool", "tool_call_id": call_id, "content": documents or text}
        name = block.name or self._tool_names.get(block.call_id)
        self.buffer_result(self.call_places.get(call_id, len(self.call_places)), message, caption(media, name))


def _text_part(text: str) -> Json:
    return {"type": "text", "text": text}


# ---------------------------------------------------------------- results as documents


def read_result(content: Any) -> Any:
    """Return a result: a text, also one of a document of text, or the list of its parts."""
    parts = [_text_of(part) for part in content] if isinstance(content, list) else content
    return parse_result(parts)


def documents_of(content: Any) -> list[Json] | None:
    """Return the parts of a result if one is a document and all are of the API's form; else None."""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return None
    is_valid = all(_is_document(part) or _is_text(part) for part in content)
    return content if is_valid and any(_is_document(part) for part in content) else None


def _is_document(part: Json) -> bool:
    document = part.get("document") if part.get("type") == "document" else None
    return isinstance(document, dict) and isinstance(document.get("data"), (str, dict))


def _is_text(part: Json) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _text_of(part: Any) -> Any:
    document = part.get("document") if isinstance(part, dict) and part.get("type") == "document" else None
    if isinstance(document, dict) and isinstance(document.get("data"), str) and document.keys() <= {"data", "id"}:
        return {"type": "text", "text": document["data"]}
    return part
