"""History as Ollama's messages, and the parts of a request's body that a conversation decides.

Wire      https://docs.ollama.com/api/chat and https://docs.ollama.com/capabilities/tool-calling

A call's arguments are an object, images are bare base64 beside the text, and a result names its tool. Older servers
know no ids: there, two results of one tool are told apart by order alone (ollama/ollama#6708), so results stand in
call order. Since v0.12.10 a call has an id, which goes back with it and with its result; a server that does not know
the field does not mind it. Images of a result are shown by the user behind it: a tool's message has the field for them,
too, but whether the model sees it is its template's affair (it does not: ollama/ollama#16038; it does:
bug-ops/zeph#6376), while every template shows those of a user.

Whatever a message has no place for is left out with a sentence in ``changes``; an image or file of a person that
cannot be carried raises instead, in the place of a tool's stands text. This file does not mend a thread: a call without
a result stays one.
"""

from __future__ import annotations

import re
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
from streamkit.providers.message_renderer import RoleRenderer, result_text
from streamkit.providers.ollama.schema import Json
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.tool_result_media import (
    Media,
    caption,
    convert_parts,
    result_parts,
    split_text_and_media,
)
from streamkit.target_ids import TargetIds
from streamkit.tools import Tool

__all__ = ["build_request", "convert_media", "render_messages"]

_DATA_URL = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*;base64,", re.IGNORECASE)


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """History as Ollama's messages.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: ``canonical`` gives every call an id made from the canonical one. Else a call that goes back to Ollama has
            the id that Ollama gave it, and a call that had none, or is another provider's, has none.

    Raises:
        UnsupportedContent: an image or a file of a person is in a form that a message does not take.
    """
    return OllamaRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The fields of the request's body that the conversation decides.

    The API has no tool choice. What it can be made to do is done: for ``none`` no tool is offered, for a named tool
    that one alone. That one is called at all cannot be asked for: ``required`` is left out.

    Raises:
        UsageError: ``tool_choice`` asks for a tool that is not there.
    """
    offered = _offered(tool_choice, list(tools))
    body: Json = {traits.messages_field: rendered.messages}
    if offered:
        body["tools"] = [_tool(tool) for tool in offered]
    body["stream"] = stream  # said either way: a request that does not say it is streamed
    return body


def _offered(choice: ToolChoice | None, tools: list[Tool]) -> list[Tool]:
    named = [tool for tool in tools if tool.name == choice]
    if named:
        return named
    if choice == "none":
        return []
    if choice in (None, "auto") or (choice == "required" and tools):
        return tools
    known = f"nor one of the tools: {', '.join(tool.name for tool in tools)}" if tools else "and there are no tools"
    raise UsageError(f'tool_choice {choice!r} cannot be had: it is not "auto" or "none", {known}')


def _tool(tool: Tool) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


class OllamaRenderer(RoleRenderer[Traits]):
    """Renders history as Ollama's messages."""

    def __init__(self, traits: Traits, ids: IdPolicy | None = None) -> None:
        super().__init__(traits, ids)
        self._canonical = ids == "canonical"
        self._target_ids = TargetIds(traits.id_rule)
        self._waiting: dict[str, list[tuple[int, Json]]] = {}  # of the last round: place and call, by the id in history
        self._known: dict[str, Json] = {}  # by the id in history, its latest call
        self._times: dict[str, int] = {}  # how many calls of the thread have an id
        self._calls = 0

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """See ``RoleRenderer``."""
        return convert_parts(parts, lambda part: {"image": convert_media(part, self.traits)}, self.changes, "Ollama")

    def add_user(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        self._add_text("user", blocks)

    def add_system(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        self._add_text("system", blocks)

    # ------------------------------------------------------------ what people say

    def _add_text(self, role: str, blocks: Sequence[Block]) -> None:
        texts: list[str] = []
        images: list[str] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            elif isinstance(block, (ImageBlock, FileBlock)) and role == "user":
                images.append(convert_media(block, self.traits))
            else:
                self.omit(block, f"a {role} message has no place for it")
        message: Json = {"role": role, "content": "\n".join(filter(None, texts))}
        if images:
            message["images"] = images
        if message["content"] or images:
            self.push(message)

    # ------------------------------------------------------------ what the model and its tools say

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        text, thinking = "", ""
        images: list[str] = []
        calls: list[ToolCallBlock] = []
        before: TextBlock | None = None
        for block in blocks:
            own = self.is_own(block)
            if isinstance(block, TextBlock):
                # what was streamed in stretches around the calls is one text; other texts were written apart
                apart = before is not None and not ("provider" in before.metadata and "provider" in block.metadata)
                text += "\n" + block.text if apart and text and block.text else block.text
                before = block
            elif isinstance(block, ToolCallBlock):
                calls.append(block)
            elif isinstance(block, ReasoningBlock) and own:
                thinking += block.text
            elif isinstance(block, FileBlock) and own and block.data:
                images.append(block.data.partition(";base64,")[2] or block.data)
            else:
                self.omit(block, "an assistant message to Ollama has no place for it")
        if not (text or calls or images):
            if blocks:
                self.changes.append("left out an assistant message: it has neither text nor calls")
            return
        message: Json = {"role": "assistant", "content": text}
        if thinking:
            message["thinking"] = thinking
        if images:
            message["images"] = images
        self.push(message)
        if calls:
            self._waiting = {}
            message["tool_calls"] = [self._call(call) for call in calls]

    def _call(self, block: ToolCallBlock) -> Json:
        arguments = self.arguments_object(block.parameters, block.name)
        call: Json = {"function": {"name": block.name, "arguments": arguments}}
        # One id may stand for several calls in history: this wire names no response, so that the ids of turns without a
        # turn_key repeat. Their results are paired with them by order.
        times = self._times[block.id] = self._times.get(block.id, 0) + 1
        known_as = block.id if times == 1 else f"{block.id}|{times}"
        raw_id = block.metadata.get("raw_id") if self.is_own(block) else None
        if self._canonical or (isinstance(raw_id, str) and raw_id):
            origin = None if self._canonical else raw_id
            call = {"id": self._target_ids.call(known_as, block.name, origin=origin), **call}
        self._waiting.setdefault(block.id, []).append((self._calls, call))
        self._known[block.id] = call
        self._calls += 1
        return call

    def add_result(self, block: ToolResponseBlock) -> None:
        """See ``RoleRenderer``."""
        waiting = self._waiting.get(block.call_id)
        place, call = waiting.pop(0) if waiting else (self._calls, self._known.get(block.call_id, {}))
        parts = result_parts(block)
        text, media = (result_text(block), []) if parts is None else split_text_and_media(self.tool_media(parts))
        message: Json = {"role": "tool", "content": text}
        name = call["function"]["name"] if call else block.name
        if name:
            message["tool_name"] = name
        if "id" in call:
            message["tool_call_id"] = call["id"]
        self.buffer_result(place, message, caption(media, name))


def convert_media(block: Media, traits: Traits) -> str:
    """Return an image, or a file that is one, as base64.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return _image(block.data) if isinstance(block, ImageBlock) else _file(block)


def _image(data: str) -> str:
    begin = _DATA_URL.match(data)
    if begin is None:
        raise UnsupportedContent(f"Ollama takes an image as a base64 data URL, not {data[:40]!r}: it fetches none")
    return data[begin.end() :]


def _file(block: FileBlock) -> str:
    data, media_type = block.data or "", block.media_type or ""
    if data.startswith("data:"):
        return _image(data)
    if data and media_type.startswith("image/"):
        return data
    raise UnsupportedContent(
        f"Ollama takes the data of images as files, not {block.url or media_type or block.name or 'an empty one'!r}"
    )
