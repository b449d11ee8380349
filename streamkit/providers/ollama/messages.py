"""History as Ollama's messages, and the fields of a request's body that the conversation determines.

https://docs.ollama.com/api/chat and https://docs.ollama.com/capabilities/tool-calling

A call's arguments are an object, images are bare base64 in a field of their own, and a result has the name of its tool.
Older servers have no ids: there, only the order distinguishes two results of one tool (ollama/ollama#6708), so results
are in call order. Since v0.12.10 a call has an id, which goes back with it and with its result; a server without the
field ignores it. A user message after the result shows its images. A tool message has the field for them, too, but the
model's template decides whether the model sees it (it does not: ollama/ollama#16038; it does: bug-ops/zeph#6376), while
every template shows the images of a user.

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
from streamkit.history.tool_results import ResultPart
from streamkit.ids import TargetIds
from streamkit.providers.ollama.requests import output_fields, render_tools
from streamkit.providers.ollama.schema import Json
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.media import Media, caption, convert_parts, report_name
from streamkit.providers.rendering.message_renderer import RoleRenderer
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.strict import plain_output
from streamkit.providers.requests.tools import select_tools
from streamkit.tools.definition import OfferedTool, ToolDefinition
from streamkit.values.media import normalize_data, parse_data_url, quote_source
from streamkit.values.request_changes import LeftOut, Lost

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]


def create_renderer(traits: Traits, options: RenderOptions) -> OllamaRenderer:
    """Return a renderer of history as Ollama's messages.

    With the id policy ``origin`` a call has an id only if it is one that Ollama gave it.
    """
    return OllamaRenderer(traits, options)


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

    The API has no tool choice, so the offered tools express it: none for ``none``, only that one for a named tool.
    Nothing can express that a tool must be called: ``required`` is left out, and reported.
    """
    offered, mode = select_tools(tool_choice, tools)
    if mode == "required":
        rendered.report(Lost("that a tool must be called was left out: Ollama has no tool choice"))
    body: Json = {traits.messages_field: rendered.messages}
    if any(isinstance(tool, ToolDefinition) and tool.strict for tool in offered):
        rendered.report(Lost("tools are not strict in this request: Ollama has no strict mode"))
    if offered and mode != "none":
        body["tools"] = render_tools(offered)
    if output is not None:
        merge_fields(body, output_fields(plain_output(output)))
    body["stream"] = stream  # always explicit: a request without the field is streamed
    return body


def convert_media(block: Media, traits: Traits) -> str:
    """Return an image, or a file that is one, as base64."""
    return _image_data(block.data) if isinstance(block, ImageBlock) else _file_data(block)


def _image_data(data: str) -> str:
    url = parse_data_url(data)
    if url is None or not url.media_type.startswith("image/"):
        raise UnsupportedContent(
            f"Ollama accepts an image as a base64 data URL, not {quote_source(data)}: it downloads no images"
        )
    return url.data


def _file_data(block: FileBlock) -> str:
    data, media_type = block.data or "", block.media_type or ""
    if data.startswith("data:"):
        return _image_data(data)
    if data and media_type.startswith("image/"):
        return data
    kind = block.url or media_type or block.name or "an empty file"
    raise UnsupportedContent(f"Ollama accepts only the data of images as files, not {quote_source(kind)}")


class OllamaRenderer(RoleRenderer[Traits]):
    """A rendering of history as Ollama's messages."""

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._is_canonical = options.ids == "canonical"
        self._target_ids = TargetIds(traits.id_rule, options.used_ids)
        # of the last assistant message: place and call of the calls without a result, by the id in history
        self._open_calls: dict[str, tuple[tuple[int, Json], ...]] = {}
        self._latest_calls: dict[str, Json] = {}  # by the id in history
        self._id_counts: dict[str, int] = {}  # calls so far, by the id in history
        self._call_count = 0

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """Return the images of tools unchanged; text for other files."""
        return convert_parts(parts, lambda part: {"image": convert_media(part, self.traits)}, self.changes, "Ollama")

    def add_user(self, blocks: Sequence[Block]) -> None:
        """Append a user message of the texts, joined by newlines, and the images."""
        texts: list[str] = []
        images: list[str] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, (ImageBlock, FileBlock)):
                images.append(convert_media(block, self.traits))
                report_name(block, images[-1], self.changes)
            else:
                self.omit(block, "a user message cannot contain it")
        message: Json = {"role": "user", "content": "\n".join(filter(None, texts))}
        if images:
            message["images"] = images
        if message["content"] or images:
            self.push(message)

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """Append an assistant message of text, thinking, images and calls."""
        texts: list[TextBlock] = []
        calls: list[ToolCallBlock] = []
        thinking = ""
        images: list[str] = []
        for block in blocks:
            is_own = self.is_from_target(block)  # what is sent back is text and images, no opaque state
            if isinstance(block, TextBlock):
                texts.append(block)
            elif isinstance(block, ToolCallBlock):
                calls.append(block)
            elif isinstance(block, ReasoningBlock) and is_own:
                thinking += block.text
            elif isinstance(block, FileBlock) and is_own and block.data:
                images.append(normalize_data(block.data).data)
            else:
                self.omit(block, "an assistant message to Ollama cannot contain it")
        text = _join_texts(texts)
        if not (text or calls or images):
            if blocks:
                self.changes.append(LeftOut("left out an assistant message: it has neither text nor calls"))
            return
        message: Json = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if images:
            message["images"] = images
        self.push(message)
        if calls:
            self._open_calls = {}
            message["tool_calls"] = [self._call(call) for call in calls]

    def _call(self, block: ToolCallBlock) -> Json:
        arguments = self.arguments_object(block)
        call: Json = {"function": {"name": block.name, "arguments": arguments}}
        # Several calls in history may have one id: no field of this wire names the response, so the ids of turns
        # without a turn_key repeat. Results are paired with them by order.
        count = self._id_counts[block.id] = self._id_counts.get(block.id, 0) + 1
        unique_id = block.id if count == 1 else f"{block.id}|{count}"
        origin = None if self._is_canonical else self.own_raw_id(block)
        if self._is_canonical or origin:
            call = {"id": self._target_ids.call(unique_id, block.name, origin=origin), **call}
        self._open_calls[block.id] = (*self._open_calls.get(block.id, ()), (self._call_count, call))
        self._latest_calls[block.id] = call
        self._call_count += 1
        return call

    def add_result(self, block: ToolResponseBlock) -> None:
        """Buffer the tool message of a result; a user message after the results shows its images."""
        latest = (self._call_count, self._latest_calls.get(block.call_id, {}))
        (place, call), *others = self._open_calls.pop(block.call_id, ()) or (latest,)
        if others:
            self._open_calls[block.call_id] = tuple(others)
        text, media = self.text_and_media(block)
        message: Json = {"role": "tool", "content": text}
        name = call["function"]["name"] if call else block.name
        if name:
            message["tool_name"] = name
        raw_id = None if self._is_canonical or call else self.own_raw_id(block)  # of a call that is not rendered
        if "id" in call or raw_id:
            message["tool_call_id"] = call.get("id") or raw_id
        self.buffer_result(place, message, caption(media, name))


def _join_texts(texts: Sequence[TextBlock]) -> str:
    """Return texts as one. Texts of a stream, which calls separated, are joined directly, others by newlines."""
    text = ""
    previous: TextBlock | None = None
    for block in texts:
        is_streamed = previous is not None and "provider" in previous.metadata and "provider" in block.metadata
        text += block.text if is_streamed or not text or not block.text else "\n" + block.text
        previous = block
    return text
