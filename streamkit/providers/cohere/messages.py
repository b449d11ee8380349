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
from typing import Any

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
from streamkit.ids import TargetIds
from streamkit.providers.cohere.schema import NAME, Json
from streamkit.providers.decoding import compact_json
from streamkit.providers.provider import IdPolicy, ToolChoice
from streamkit.providers.rendered import RenderedMessages
from streamkit.providers.tool_result_media import (
    Media,
    caption,
    convert_parts,
    followup_user_blocks,
    result_parts,
    split_text_and_media,
)
from streamkit.tools import StrictProfile, Tool, strict_parameters

__all__ = ["render", "render_request"]

# https://docs.cohere.com/docs/structured-outputs#parameter-types-support and .../tool-use-parameter-types (read
# 2026-11): one switch for the request; no range of a number or a length; these formats; patterns without ^ and $, which
# few are; a required parameter in each tool, 200 fields in all of them.
_STRICT = StrictProfile(
    "Cohere",
    words={"format": frozenset(("date-time", "uuid", "date", "time"))},
    some_required=True,
    all_or_none=True,
    fields=200,
)


def render(contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
    """History as Cohere's messages.

    Args:
        contents: the conversation.
        ids: ``origin`` gives a call that goes back its own id; else every id is made from the canonical one. Cohere
            states no rule for ids; they are made as OpenAI's are.

    Raises:
        UnsupportedContent: an image or a file of a person is in a form that a message does not take.
    """
    return MessageRenderer(ids).of(contents)


def render_request(
    contents: Sequence[Content],
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    ids: IdPolicy | None = None,
) -> Json:
    """The fields of the request's body that the conversation decides.

    The API's own choices are REQUIRED and NONE; leaving the field out is ``auto``. It cannot name a tool, so where one
    must be called, that one alone is offered and required.

    Raises:
        UsageError: ``tool_choice`` asks for a tool that is not there, or a strict tool's schema cannot be had.
        UnsupportedContent: as ``render``.
    """
    body: Json = {"messages": render(contents, ids=ids).messages}
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


class MessageRenderer:
    """One rendering: the messages so far, the ids in use, what was left out."""

    def __init__(self, ids: IdPolicy | None) -> None:
        self._ids = TargetIds("openai_chat")
        self._origin = ids == "origin"
        self._rendered = RenderedMessages()
        self._order: dict[str, int] = {}  # wire id of each call of the last assistant message, to its place
        self._waiting: dict[str, list[str]] = {}  # of the last round: wire ids without a result, by the id in history
        self._times: dict[str, int] = {}  # how many calls of the thread have an id
        self._names: dict[str, str] = {}  # of the tool of each call, by the call's id in history
        # tool messages that wait for their order, with what the user shows of their results
        self._results: list[tuple[int, Json, list[Block]]] = []
        self._beside: list[Media] = []  # images and files that stand beside the results

    def of(self, contents: Sequence[Content]) -> RenderedMessages:
        for content in contents:
            others = [block for block in content.blocks if not isinstance(block, ToolResponseBlock)]
            if content.speaker == "ai":
                self._assistant(others)
            for block in content.blocks:
                if isinstance(block, ToolResponseBlock):
                    self._result(block)
            if content.speaker == "human":
                self._user(others)
            elif content.speaker == "system":
                self._system(others)
            elif content.speaker == "tool":
                for block in others:
                    if isinstance(block, (ImageBlock, FileBlock)):
                        self._beside.append(block)
                    else:
                        self._left_out(block, "a tool message holds results alone")
            elif content.speaker != "ai":
                self._rendered.changes.append(f"left out a message: its speaker {content.speaker!r} is not known")
        self._flush()
        return self._rendered

    def _message(self, message: Json) -> None:
        self._flush()
        self._rendered.messages.append(message)

    def _flush(self) -> None:
        """The results of a round, in call order; those that belong to no call of it stay behind them as they came."""
        results, beside = sorted(self._results, key=lambda result: result[0]), self._fitting(self._beside)
        self._results, self._beside, self._order = [], [], {}
        self._rendered.messages += [message for _, message, _ in results]
        if told := followup_user_blocks([blocks for _, _, blocks in results], beside, self._rendered.changes):
            self._user(told)

    def _fitting(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        return convert_parts(
            parts,
            lambda part: _image(part.data) if isinstance(part, ImageBlock) else _file(part),
            self._rendered.changes,
            "Cohere",
        )

    def _left_out(self, block: Block, why: str) -> None:
        origin = block.metadata.get("provider")
        whose = f" of {origin}" if isinstance(origin, str) else ""
        self._rendered.changes.append(f"left out a block of type {block.type!r}{whose}: {why}")

    # ------------------------------------------------------------ what people say

    def _system(self, blocks: Sequence[Block]) -> None:
        texts: list[str] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                texts.append(block.text)
            else:
                self._left_out(block, "a system message holds text alone")
        text = "\n".join(filter(None, texts))
        if text:
            self._message({"role": "system", "content": text})

    def _user(self, blocks: Sequence[Block]) -> None:
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ImageBlock):
                parts.append(_image(block.data))
            elif isinstance(block, FileBlock):
                parts.append(_file(block))
            else:
                self._left_out(block, "a user message has no place for it")
        if all(part["type"] == "text" for part in parts):
            if parts:
                self._message({"role": "user", "content": "\n".join(part["text"] for part in parts)})
        else:
            self._message({"role": "user", "content": parts})

    # ------------------------------------------------------------ what the model and its tools say

    def _assistant(self, blocks: Sequence[Block]) -> None:
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        plan: list[str] = []
        parts: list[Json] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text and calls:
                    plan.append(block.text)
                elif block.text:
                    parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ReasoningBlock) and block.metadata.get("provider") == NAME and block.text:
                if block.kind != "plan":
                    parts.append({"type": "thinking", "thinking": block.text})
                elif calls:
                    plan.append(block.text)
                else:
                    self._left_out(block, "a plan goes with the calls that it is for, and there are none")
            elif not isinstance(block, ToolCallBlock):
                self._left_out(block, "an assistant message to Cohere has no place for it")
        if not calls and not any(part["type"] == "text" for part in parts):
            if blocks:
                self._rendered.changes.append("left out an assistant message: it has neither text nor calls")
            return
        message: Json = {"role": "assistant"}
        if plan:
            message["tool_plan"] = "\n".join(plan)
        if len(parts) == 1 and parts[0]["type"] == "text":
            message["content"] = parts[0]["text"]
        elif parts:
            message["content"] = parts
        self._message(message)
        if calls:
            self._waiting = {}
            message["tool_calls"] = [self._call(call) for call in calls]
            self._order = {call["id"]: place for place, call in enumerate(message["tool_calls"])}

    def _call(self, block: ToolCallBlock) -> Json:
        arguments: Any = block.parameters
        if not isinstance(arguments, dict):
            self._rendered.changes.append(f"put the free text of a call of {block.name!r} into an object")
            arguments = {"input": arguments}
        # One id may stand for several calls in history, where a provider counts ids anew in each turn; results are
        # then paired with them by order.
        self._names[block.id] = block.name
        times = self._times[block.id] = self._times.get(block.id, 0) + 1
        own = self._origin and block.metadata.get("provider") == NAME
        wire_id = self._ids.call(
            block.id if times == 1 else f"{block.id}|{times}",
            block.name,
            origin=block.metadata.get("raw_id") if own else None,
        )
        self._waiting.setdefault(block.id, []).append(wire_id)
        return {
            "id": wire_id,
            "type": "function",
            "function": {"name": block.name, "arguments": compact_json(arguments)},
        }

    def _result(self, block: ToolResponseBlock) -> None:
        waiting = self._waiting.get(block.call_id)
        wire_id = waiting.pop(0) if waiting else self._ids.result(block.call_id, block.name or "")
        media: list[Media] = []
        parts = result_parts(block)
        if parts is not None:
            text, media = split_text_and_media(self._fitting(parts))
        elif block.error is not None:
            text = block.error
        elif block.result is None and block.status not in (None, "completed"):
            text = f"The call did not complete: {block.status}."
        else:
            text = (
                ""
                if block.result is None
                else block.result
                if isinstance(block.result, str)
                else compact_json(block.result)
            )
        message = {"role": "tool", "tool_call_id": wire_id, "content": text}
        name = block.name or self._names.get(block.call_id)
        self._results.append((self._order.get(wire_id, len(self._order)), message, caption(media, name)))


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
