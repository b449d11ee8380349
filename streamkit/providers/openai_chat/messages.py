"""History -> Chat Completions messages, and the request that carries them.

Wire      https://platform.openai.com/docs/api-reference/chat/create

What the dialects differ in comes as ``ChatFacts``. An assistant message holds text and calls; the results follow it
directly, one message each, in call order. Whatever a message has no place for is left out with a sentence in
``changes``; an image or file of a person that cannot be carried raises instead, for the question would make no sense
without it. Those that a tool made never raise; a tool's message takes text alone ("Image URLs are only allowed for
messages with role 'user'", agno-agi/agno#4286, vllm-project/vllm#43203), so they are shown by the user behind the
results, but for dialects whose tool messages take images.
Calls without result and results without call are rendered as they stand: mending a thread is not done here.
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
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.history.tool_results import ResultPart
from streamkit.ids import TargetIds
from streamkit.providers.decoding import compact_json
from streamkit.providers.openai_chat.dialects import ChatDialect
from streamkit.providers.openai_chat.media import (
    audio_id,
    content_of,
    file_annotations,
    file_part,
    image_of,
    image_part,
    is_part,
    join_text,
    merge_reasoning_details,
    reasoning_details,
)
from streamkit.providers.openai_chat.strict import mode
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
from streamkit.tools import Tool, strict_parameters

__all__ = ["render", "render_request"]


def render(contents: Sequence[Content], facts: ChatDialect, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """History as one dialect's messages.

    Args:
        contents: the conversation.
        facts: the dialect.
        ids: see ``IdPolicy``; None is ``origin`` for Kimi, whose ids mean something to the model, else ``canonical``.

    Raises:
        UnsupportedContent: an image or a file of a person is in a form that a chat message does not take.
    """
    return MessageRenderer(facts, ids).of(contents)


def render_request(
    contents: Sequence[Content],
    facts: ChatDialect,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
    ids: IdPolicy | None = None,
) -> dict[str, Any]:
    """The fields of the request's body that the conversation decides.

    Raises:
        UsageError: ``tool_choice`` asks for a tool that is not there, or a strict tool's schema cannot be had.
        UnsupportedContent: as ``render``.
    """
    body: dict[str, Any] = {"messages": render(contents, facts, ids=ids).messages}
    if tools:
        strict = strict_parameters(tools, mode(facts.strict))
        body["tools"] = [_tool(tool, strict.get(tool.name)) for tool in tools]
    choice = _tool_choice(tool_choice, [tool.name for tool in tools])
    if choice is not None:
        body["tool_choice"] = facts.required_choice if choice == "required" else choice
    if stream:
        body["stream"] = True
        if facts.stream_usage:
            body["stream_options"] = {"include_usage": True}  # without it OpenAI streams no usage
    last = body["messages"][-1] if body["messages"] else {}
    if facts.prefix and last.get("role") == "assistant" and "tool_calls" not in last:
        last["prefix"] = True
    return body


def _tool(tool: Tool, strict: dict[str, Any] | None) -> dict[str, Any]:
    """``strict``: the parameters as the dialect's strict mode takes them, None where it is not asked for."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters if strict is None else strict
    if strict is not None:
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice | None, names: list[str]) -> Any:
    if choice is None or (choice in ("auto", "none") and not names):
        return None  # OpenAI: "tool_choice is only allowed when tools are specified"
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    if choice == "required" and not names:
        raise UsageError('tool_choice is "required", but there are no tools')
    if choice not in ("auto", "none", "required"):
        known = f"nor one of the tools: {', '.join(names)}" if names else "and there are no tools"
        raise UsageError(f'tool_choice {choice!r} is not "auto", "none" or "required", {known}')
    return choice


class MessageRenderer:
    """One rendering: the messages so far, the ids in use, what was left out."""

    def __init__(self, facts: ChatDialect, ids: IdPolicy | None) -> None:
        self.facts = facts
        self.ids = TargetIds(facts.id_target)
        self.origin = (ids or ("origin" if facts.id_target == "kimi" else "canonical")) == "origin"
        self.rendered = RenderedMessages()
        self.names: dict[str, str] = {}  # of the tool of each call, by the call's id in history
        self.order: dict[str, int] = {}  # target id of each call of the last assistant message, to its place
        # tool messages that wait for their order, with what the user shows of their results
        self.results: list[tuple[int, dict[str, Any], list[Block]]] = []
        self.beside: list[Media] = []  # images and files that stand beside the results

    def of(self, contents: Sequence[Content]) -> RenderedMessages:
        wanted = self._reasoning_wanted(contents)
        for content, with_reasoning in zip(contents, wanted, strict=True):
            if content.speaker not in ("human", "ai", "tool", "system"):
                self.rendered.changes.append(f"left out a message: its speaker {content.speaker!r} is not known")
                continue
            responses = [block for block in content.blocks if isinstance(block, ToolResponseBlock)]
            others = [block for block in content.blocks if not isinstance(block, ToolResponseBlock)]
            if content.speaker == "ai":
                self._assistant(others, with_reasoning=with_reasoning)
            for response in responses:
                self._result(response)
            if content.speaker == "human":
                self._message(self._user(others))
            elif content.speaker == "system":
                self._message(self._system(others))
            elif content.speaker == "tool":
                for block in others:
                    if isinstance(block, (ImageBlock, FileBlock)):
                        self.beside.append(block)
                    else:
                        self._left_out(block, "a tool message holds results alone")
        self._flush()
        return self.rendered

    def _reasoning_wanted(self, contents: Sequence[Content]) -> list[bool]:
        """For each content, whether its reasoning goes back. A turn is what stands between two messages of a person."""
        replay = self.facts.reasoning_replay
        if replay != "tool_turns":
            return [replay == "always"] * len(contents)
        turn, with_calls = 0, {0}  # whether a turn whose beginning is not shown had calls is not known
        turns: list[int] = []
        for content in contents:
            kinds = {block.type for block in content.blocks}
            turn += content.speaker == "human" and kinds != {"tool_response"}
            turns.append(turn)
            if "tool_call" in kinds:
                with_calls.add(turn)
        return [turn in with_calls for turn in turns]

    # ------------------------------------------------------------ messages

    def _message(self, message: dict[str, Any] | None) -> None:
        if message is None:
            return
        self._flush()
        messages = self.rendered.messages
        if self.facts.separator_text and message["role"] == "user" and messages and messages[-1]["role"] == "tool":
            messages.append({"role": "assistant", "content": self.facts.separator_text})
            self.rendered.changes.append("added an assistant message between a tool's result and a person's message")
        messages.append(message)

    def _flush(self) -> None:
        """The results of a round, in call order; those that belong to no call of it stay behind them as they came."""
        results, beside = sorted(self.results, key=lambda result: result[0]), self._fitting(self.beside)
        self.results, self.beside, self.order = [], [], {}
        self.rendered.messages += [message for _, message, _ in results]
        if told := followup_user_blocks([blocks for _, _, blocks in results], beside, self.rendered.changes):
            self._message(self._user(told))

    def _left_out(self, block: Block, why: str) -> None:
        origin = block.metadata.get("provider")
        whose = f" of {origin}" if isinstance(origin, str) else ""
        self.rendered.changes.append(f"left out a block of type {block.type!r}{whose}: {why}")

    def is_same_origin(self, block: Block) -> bool:
        return block.metadata.get("provider") == self.facts.name

    def _system(self, blocks: Sequence[Block]) -> dict[str, Any] | None:
        for block in blocks:
            if not isinstance(block, TextBlock):
                self._left_out(block, "a system message holds text alone")
        text = join_text([block for block in blocks if isinstance(block, TextBlock)])
        return {"role": "system", "content": text} if text else None

    def _user(self, blocks: Sequence[Block]) -> dict[str, Any] | None:
        parts: list[dict[str, Any]] = []
        texts: list[TextBlock] = []
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    texts.append(block)
                    parts.append({"type": "text", "text": block.text})
            elif isinstance(block, ImageBlock):
                parts.append(image_part(block.data))
            elif isinstance(block, FileBlock):
                parts.append(self._file(block))
            else:
                self._left_out(block, "a user message has no place for it")
        if len(parts) > len(texts):
            return {"role": "user", "content": parts}
        return {"role": "user", "content": join_text(texts)} if texts else None

    def _assistant(self, blocks: Sequence[Block], *, with_reasoning: bool) -> None:
        said: list[Block] = []  # what the content is made of
        reasoning: list[ReasoningBlock] = []
        refusals: list[TextBlock] = []
        calls: list[ToolCallBlock] = []
        beside: dict[str, Any] = {}
        for block in blocks:
            ours = self.is_same_origin(block)
            if isinstance(block, TextBlock):
                audio = audio_id(block) if ours else None
                if audio is not None:
                    beside["audio"] = {"id": audio}
                else:
                    (refusals if ours and block.metadata.get("refusal") is True else said).append(block)
                if ours and self.facts.file_annotations and (files := file_annotations(block)):
                    beside["annotations"] = [*beside.get("annotations", []), *files]
            elif isinstance(block, ToolCallBlock):
                calls.append(block)
            elif isinstance(block, ReasoningBlock) and ours and self._takes_reasoning(block):
                if with_reasoning:
                    (said if self.facts.thinking_parts else reasoning).append(block)
                else:
                    self._left_out(block, f"{self.facts.name} does not want it back here")
            elif isinstance(block, OpaqueBlock) and ours and is_part(block.raw):
                said.append(block)
            elif isinstance(block, FileBlock) and ours and self.facts.image_replay and (image := image_of(block)):
                beside["images"] = [*beside.get("images", []), image]
            elif not (isinstance(block, FileBlock) and ours and "audio" in beside):  # what was spoken goes by its id
                self._left_out(block, f"an assistant message to {self.facts.name} has no place for it")
        message: dict[str, Any] = {"role": "assistant", "content": content_of(said)}
        refusal = join_text(refusals)
        if refusal and message["content"] is None and not calls:
            # "one or more of type text, or exactly one of type refusal": content is required where there is no call
            message["content"] = [{"type": "refusal", "refusal": refusal}]
        elif refusal:
            message["refusal"] = refusal
        if message["content"] is None and not calls and not beside.keys() & {"audio", "images"}:
            if blocks:
                self.rendered.changes.append("left out an assistant message: it has neither text nor calls")
            return
        thought = "".join([block.text for block in reasoning])
        if self.facts.reasoning_field and thought:
            message[self.facts.reasoning_field] = thought
        if details := [detail for block in reasoning for detail in reasoning_details(block)]:
            message["reasoning_details"] = merge_reasoning_details(details)
        self._message(message | beside)
        if calls:
            self.rendered.messages[-1]["tool_calls"] = made = [self._call(call) for call in calls]
            self.order = {call["id"]: place for place, call in enumerate(made)}

    def _takes_reasoning(self, block: ReasoningBlock) -> bool:
        if self.facts.thinking_parts:
            return bool(block.text or block.signature)
        return bool(reasoning_details(block)) or bool(self.facts.reasoning_field and block.text)

    # ------------------------------------------------------------ calls and results

    def _call(self, block: ToolCallBlock) -> dict[str, Any]:
        ours = self.is_same_origin(block)
        origin = block.metadata.get("raw_id") if ours and self.origin else None
        call: dict[str, Any] = {"id": self.ids.call(block.id, block.name, origin=origin)}
        self.names[block.id] = block.name
        given = block.parameters if isinstance(block.parameters, str) else compact_json(block.parameters)
        if block.kind == "custom" and self.facts.custom_calls:
            call |= {"type": "custom", "custom": {"name": block.name, "input": given}}
        else:
            if block.kind == "custom":
                self.rendered.changes.append(f"the free text of a call of {block.name!r} was put into an object")
                given = compact_json({"input": given})
            call |= {"type": "function", "function": {"name": block.name, "arguments": given}}
        if ours and "extra_content" in block.metadata:  # a thought signature behind Gemini's compatible endpoint
            call["extra_content"] = block.metadata["extra_content"]
        return call

    def _result(self, block: ToolResponseBlock) -> None:
        call_id = self.ids.result(block.call_id, block.name or "")
        name = block.name or self.names.get(block.call_id)
        parts = result_parts(block)
        media: list[Media] = []
        content: str | list[dict[str, Any]]
        if parts is None:
            value = block.result if block.error is None else block.error
            content = "" if value is None else value if isinstance(value, str) else compact_json(value)
        else:
            content, media = self._shown_result(self._fitting(parts))
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if self.facts.result_names and name:
            message["name"] = name
        self.results.append((self.order.get(call_id, len(self.order)), message, caption(media, name)))

    def _shown_result(self, parts: Sequence[ResultPart]) -> tuple[str | list[dict[str, Any]], list[Media]]:
        """The content of a tool's message, and what the user shows of it."""
        if not self.facts.result_images or not any(isinstance(part, ImageBlock) for part in parts):
            return split_text_and_media(parts)
        files: list[Media] = [part for part in parts if isinstance(part, FileBlock)]
        inside = [part for part in parts if not isinstance(part, FileBlock)]
        return [
            image_part(part.data) if isinstance(part, ImageBlock) else {"type": "text", "text": part.text}
            for part in inside
            if isinstance(part, ImageBlock) or part.text
        ], files

    def _fitting(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        return convert_parts(parts, self._shown_part, self.rendered.changes, self.facts.name)

    def _shown_part(self, block: Media) -> dict[str, Any]:
        if isinstance(block, ImageBlock):
            return image_part(block.data)
        part = self._file(block)
        kind = (block.media_type or "application/pdf").lower()
        if part["type"] in ("file", "document_url") and kind != "application/pdf":
            # https://platform.openai.com/docs/guides/pdf-files; what a file of text says needs no file
            raise UnsupportedContent(f"few servers of this wire take files that are no PDF, such as {kind}")
        return part

    def _file(self, block: FileBlock) -> dict[str, Any]:
        return file_part(block, by_address=self.facts.file_addresses, document=self.facts.document_parts)
