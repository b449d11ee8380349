"""History as Cohere v2 messages, and the parts of a request's body that a conversation decides.

Wire      https://docs.cohere.com/v2/reference/chat and .../docs/tool-use-overview

An assistant message holds text or calls, never both: "text content is not allowed when tool_calls are provided. If
you wish to pass a tool plan, either pass thinking content (with thinking enabled) or use 'tool_plan'"
(vercel/ai#5794). So what the model said beside its calls goes as the plan, which is what it was. Results follow their
calls, one message each, in call order. A tool's result is sent as a string, which "should be formatted as a JSON
object string" and stands for one document that the model may cite; the list of documents is the other form. Neither
holds an image (the SDK's ToolContent is text or a document of text), so those are shown by the user behind the results.

Whatever a message has no place for is left out with a sentence in ``changes``; an image or file of a person that
cannot be carried raises instead, in the place of a tool's stands text. This file does not mend a thread: a call without
a result stays one.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.tool_results import ResultPart
from streamkit.providers.cohere.schema import Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.message_renderer import RoleRenderer, result_text
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.tool_result_media import (
    Media,
    caption,
    convert_parts,
    result_parts,
    split_text_and_media,
)
from streamkit.tools import StrictProfile, Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]

# https://docs.cohere.com/docs/structured-outputs#parameter-types-support and .../tool-use-parameter-types (read
# 2026-11): one switch for the request; no range of a number or a length; these formats; patterns without ^ and $, which
# few are; a required parameter in each tool, 200 fields in all of them.
_STRICT = StrictProfile(
    "Cohere",
    keywords={"format": frozenset(("date-time", "uuid", "date", "time"))},
    some_required=True,
    all_or_none=True,
    fields=200,
)


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """History as Cohere's messages.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: ``origin`` gives a call that goes back its own id; else every id is made from the canonical one. Cohere
            states no rule for ids; they are made as OpenAI's are.

    Raises:
        UnsupportedContent: an image or a file of a person is in a form that a message does not take.
    """
    return CohereRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The fields of the request's body that the conversation decides.

    The API's own choices are REQUIRED and NONE; leaving the field out is ``auto``. It cannot name a tool, so where one
    must be called, that one alone is offered and required.

    Raises:
        UsageError: ``tool_choice`` asks for a tool that is not there, or a strict tool's schema cannot be had.
    """
    body: Json = {traits.messages_field: rendered.messages}
    offered, choice = _choice(tool_choice, list(tools))
    if offered:
        strict = strict_parameters(offered, _STRICT)
        body["tools"] = [_tool(tool, strict.get(tool.name, tool.parameters)) for tool in offered]
        if strict:
            body["strict_tools"] = True
        if choice is not None:
            body["tool_choice"] = choice
    if stream:
        body["stream"] = True
    return body


def _choice(choice: ToolChoice | None, tools: list[Tool]) -> tuple[list[Tool], str | None]:
    """The tools to offer, and the API's word."""
    named = [tool for tool in tools if tool.name == choice]
    if named:
        return named, "REQUIRED"
    if choice in (None, "auto"):
        return tools, None
    if choice == "none":
        return tools, "NONE"
    if choice == "required" and tools:
        return tools, "REQUIRED"
    known = f"nor one of the tools: {', '.join(tool.name for tool in tools)}" if tools else "and there are no tools"
    raise UsageError(f'tool_choice {choice!r} cannot be had: it is not "auto" or "none", {known}')


def _tool(tool: Tool, parameters: Json) -> Json:
    function: Json = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": {**function, "parameters": parameters}}


class CohereRenderer(RoleRenderer[Traits]):
    """Renders history as Cohere's messages."""

    def __init__(self, traits: Traits, ids: IdPolicy | None = None) -> None:
        super().__init__(traits, ids)
        self._order: dict[str, int] = {}  # wire id of each call of the last assistant message, to its place
        self._names: dict[str, str] = {}  # of the tool of each call, by the call's id in history

    def results_flushed(self) -> None:
        """See ``RoleRenderer``."""
        self._order = {}

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """See ``RoleRenderer``."""
        return convert_parts(parts, lambda part: convert_media(part, self.traits), self.changes, "Cohere")

    # ------------------------------------------------------------ what people say

    def add_system(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        texts: list[str] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            else:
                self.omit(block, "a system message holds text alone")
        text = "\n".join(filter(None, texts))
        if text:
            self.push({"role": "system", "content": text})

    def add_user(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    parts.append({"type": "text", "text": block.text})
            elif isinstance(block, (ImageBlock, FileBlock)):
                parts.append(convert_media(block, self.traits))
            else:
                self.omit(block, "a user message has no place for it")
        if all(part["type"] == "text" for part in parts):
            if parts:
                self.push({"role": "user", "content": "\n".join(part["text"] for part in parts)})
        else:
            self.push({"role": "user", "content": parts})

    # ------------------------------------------------------------ what the model and its tools say

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        plan: list[str] = []
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text and calls:
                    plan.append(block.text)
                elif block.text:
                    parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ReasoningBlock) and self.is_own(block) and block.text:
                if block.kind != "plan":
                    parts.append({"type": "thinking", "thinking": block.text})
                elif calls:
                    plan.append(block.text)
                else:
                    self.omit(block, "a plan goes with the calls that it is for, and there are none")
            elif not isinstance(block, ToolCallBlock):
                self.omit(block, "an assistant message to Cohere has no place for it")
        if not calls and not any(part["type"] == "text" for part in parts):
            if blocks:
                self.changes.append("left out an assistant message: it has neither text nor calls")
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
            self._order = {call["id"]: place for place, call in enumerate(message["tool_calls"])}

    def _call(self, block: ToolCallBlock) -> Json:
        arguments = self.arguments_object(block.parameters, block.name)
        self._names[block.id] = block.name
        return {
            "id": self.ids.call_id(block),
            "type": "function",
            "function": {"name": block.name, "arguments": compact_json(arguments)},
        }

    def add_result(self, block: ToolResponseBlock) -> None:
        """See ``RoleRenderer``."""
        wire_id = self.ids.result_id(block)
        parts = result_parts(block)
        text, media = (result_text(block), []) if parts is None else split_text_and_media(self.tool_media(parts))
        message = {"role": "tool", "tool_call_id": wire_id, "content": text}
        name = block.name or self._names.get(block.call_id)
        self.buffer_result(self._order.get(wire_id, len(self._order)), message, caption(media, name))


def convert_media(block: Media, traits: Traits) -> Json:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return _image(block.data) if isinstance(block, ImageBlock) else _file(block)


def _image(data: str) -> Json:
    if not data.startswith(("http://", "https://")) and not (data.startswith("data:image/") and ";base64," in data):
        raise UnsupportedContent(
            f"an image must be a base64 data URL or an http(s) address to go to Cohere, not {data[:40]!r}"
        )
    return {"type": "image_url", "image_url": {"url": data}}


def _file(block: FileBlock) -> Json:
    media_type, data = block.media_type or "", block.data or ""
    if data.startswith("data:image/"):
        return _image(data)
    if media_type.startswith("image/") and (data or block.url):
        return _image(f"data:{media_type};base64,{data}" if data else block.url or "")
    raise UnsupportedContent(
        f"Cohere takes images as files, not {media_type or block.name or 'one of no known type'!r}"
    )
