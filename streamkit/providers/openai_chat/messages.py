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
from streamkit.providers.decoding import compact_json
from streamkit.providers.message_renderer import Json, RoleRenderer
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
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice
from streamkit.providers.tool_result_media import (
    Media,
    caption,
    convert_parts,
    result_parts,
    split_text_and_media,
)
from streamkit.tools import Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]


def render_messages(
    contents: Sequence[Content], traits: ChatDialect, *, ids: IdPolicy | None = None
) -> RenderedMessages:
    """History as one dialect's messages.

    Args:
        contents: the conversation.
        traits: the dialect.
        ids: see ``IdPolicy``.

    Raises:
        UnsupportedContent: an image or a file of a person is in a form that a chat message does not take.
    """
    return ChatRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: ChatDialect,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The fields of the request's body that the conversation decides.

    Raises:
        UsageError: ``tool_choice`` asks for a tool that is not there, or a strict tool's schema cannot be had.
    """
    messages = rendered.messages
    last = messages[-1] if messages else {}
    if traits.prefix and last.get("role") == "assistant" and "tool_calls" not in last:
        messages = [*messages[:-1], {**last, "prefix": True}]
    body: Json = {traits.messages_field: messages}
    if tools:
        strict = strict_parameters(tools, mode(traits.strict))
        body["tools"] = [_tool(tool, strict.get(tool.name)) for tool in tools]
    choice = _tool_choice(tool_choice, [tool.name for tool in tools])
    if choice is not None:
        body["tool_choice"] = traits.required_choice if choice == "required" else choice
    if stream:
        body["stream"] = True
        if traits.stream_usage:
            body["stream_options"] = {"include_usage": True}  # without it OpenAI streams no usage
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


class ChatRenderer(RoleRenderer[ChatDialect]):
    """Renders history as one dialect's messages."""

    def __init__(self, traits: ChatDialect, ids: IdPolicy | None = None) -> None:
        super().__init__(traits, ids)
        self._names: dict[str, str] = {}  # of the tool of each call, by the call's id in history
        self._order: dict[str, int] = {}  # target id of each call of the last assistant message, to its place
        self._replayed: list[bool] = []  # for each content, whether its reasoning goes back

    def render(self, contents: Sequence[Content]) -> RenderedMessages:
        """Return the conversation as messages."""
        self._replayed = self._reasoning_wanted(contents)
        return super().render(contents)

    def _reasoning_wanted(self, contents: Sequence[Content]) -> list[bool]:
        """For each content, whether its reasoning goes back. A turn is what stands between two messages of a person."""
        replay = self.traits.reasoning_replay
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

    def push(self, message: Json) -> None:
        """Append a message; between a tool's result and a person's message, the dialect's separator first."""
        self.flush_results()
        separator, messages = self.traits.separator_text, self.messages
        if separator and message["role"] == "user" and messages and messages[-1]["role"] == "tool":
            self.append({"role": "assistant", "content": separator})
            self.changes.append("added an assistant message between a tool's result and a person's message")
        self.append(message)

    def results_flushed(self) -> None:
        """See ``RoleRenderer``."""
        self._order = {}

    def add_system(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        for block in blocks:
            if not isinstance(block, TextBlock):
                self.omit(block, "a system message holds text alone")
        text = join_text([block for block in blocks if isinstance(block, TextBlock)])
        if text:
            self.push({"role": "system", "content": text})

    def add_user(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
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
                parts.append(convert_media(block, self.traits))
            else:
                self.omit(block, "a user message has no place for it")
        if len(parts) > len(texts):
            self.push({"role": "user", "content": parts})
        elif texts:
            self.push({"role": "user", "content": join_text(texts)})

    def add_assistant(self, blocks: Sequence[Block]) -> None:
        """See ``RoleRenderer``."""
        with_reasoning = self._replayed[self.content_number]
        said: list[Block] = []  # what the content is made of
        reasoning: list[ReasoningBlock] = []
        refusals: list[TextBlock] = []
        calls: list[ToolCallBlock] = []
        beside: dict[str, Any] = {}
        for block in blocks:
            ours = self.is_own(block)
            if isinstance(block, TextBlock):
                audio = audio_id(block) if ours else None
                if audio is not None:
                    beside["audio"] = {"id": audio}
                else:
                    (refusals if ours and block.metadata.get("refusal") is True else said).append(block)
                if ours and self.traits.file_annotations and (files := file_annotations(block)):
                    beside["annotations"] = [*beside.get("annotations", []), *files]
            elif isinstance(block, ToolCallBlock):
                calls.append(block)
            elif isinstance(block, ReasoningBlock) and ours and self._takes_reasoning(block):
                if with_reasoning:
                    (said if self.traits.thinking_parts else reasoning).append(block)
                else:
                    self.omit(block, f"{self.traits.name} does not want it back here")
            elif isinstance(block, OpaqueBlock) and ours and is_part(block.raw):
                said.append(block)
            elif isinstance(block, FileBlock) and ours and self.traits.image_replay and (image := image_of(block)):
                beside["images"] = [*beside.get("images", []), image]
            elif not (isinstance(block, FileBlock) and ours and "audio" in beside):  # what was spoken goes by its id
                self.omit(block, f"an assistant message to {self.traits.name} has no place for it")
        message: dict[str, Any] = {"role": "assistant", "content": content_of(said)}
        refusal = join_text(refusals)
        if refusal and message["content"] is None and not calls:
            # "one or more of type text, or exactly one of type refusal": content is required where there is no call
            message["content"] = [{"type": "refusal", "refusal": refusal}]
        elif refusal:
            message["refusal"] = refusal
        if message["content"] is None and not calls and not beside.keys() & {"audio", "images"}:
            if blocks:
                self.changes.append("left out an assistant message: it has neither text nor calls")
            return
        thought = "".join([block.text for block in reasoning])
        if self.traits.reasoning_field and thought:
            message[self.traits.reasoning_field] = thought
        if details := [detail for block in reasoning for detail in reasoning_details(block)]:
            message["reasoning_details"] = merge_reasoning_details(details)
        self.push(message | beside)
        if calls:
            self.ids.start_round()
            self.messages[-1]["tool_calls"] = made = [self._call(call) for call in calls]
            self._order = {call["id"]: place for place, call in enumerate(made)}

    def _takes_reasoning(self, block: ReasoningBlock) -> bool:
        if self.traits.thinking_parts:
            return bool(block.text or block.signature)
        return bool(reasoning_details(block)) or bool(self.traits.reasoning_field and block.text)

    # ------------------------------------------------------------ calls and results

    def _call(self, block: ToolCallBlock) -> dict[str, Any]:
        ours = self.is_own(block)
        call: Json = {"id": self.ids.call_id(block)}
        self._names[block.id] = block.name
        given = block.parameters if isinstance(block.parameters, str) else compact_json(block.parameters)
        if block.kind == "custom" and self.traits.custom_calls:
            call |= {"type": "custom", "custom": {"name": block.name, "input": given}}
        else:
            if block.kind == "custom":
                self.changes.append(f"the free text of a call of {block.name!r} was put into an object")
                given = compact_json({"input": given})
            call |= {"type": "function", "function": {"name": block.name, "arguments": given}}
        if ours and "extra_content" in block.metadata:  # a thought signature behind Gemini's compatible endpoint
            call["extra_content"] = block.metadata["extra_content"]
        return call

    def add_result(self, block: ToolResponseBlock) -> None:
        """See ``RoleRenderer``."""
        call_id = self.ids.result_id(block)
        name = block.name or self._names.get(block.call_id)
        parts = result_parts(block)
        media: list[Media] = []
        content: str | list[dict[str, Any]]
        if parts is None:
            value = block.result if block.error is None else block.error
            content = "" if value is None else value if isinstance(value, str) else compact_json(value)
        else:
            content, media = self._shown_result(self.tool_media(parts))
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if self.traits.result_names and name:
            message["name"] = name
        self.buffer_result(self._order.get(call_id, len(self._order)), message, caption(media, name))

    def _shown_result(self, parts: Sequence[ResultPart]) -> tuple[str | list[dict[str, Any]], list[Media]]:
        """The content of a tool's message, and what the user shows of it."""
        if not self.traits.result_images or not any(isinstance(part, ImageBlock) for part in parts):
            return split_text_and_media(parts)
        files: list[Media] = [part for part in parts if isinstance(part, FileBlock)]
        inside = [part for part in parts if not isinstance(part, FileBlock)]
        return [
            image_part(part.data) if isinstance(part, ImageBlock) else {"type": "text", "text": part.text}
            for part in inside
            if isinstance(part, ImageBlock) or part.text
        ], files

    def tool_media(self, parts: Sequence[ResultPart]) -> list[ResultPart]:
        """See ``RoleRenderer``."""
        return convert_parts(parts, self._shown_part, self.changes, self.traits.name)

    def _shown_part(self, block: Media) -> dict[str, Any]:
        if isinstance(block, ImageBlock):
            return image_part(block.data)
        part = convert_media(block, self.traits)
        kind = (block.media_type or "application/pdf").lower()
        if part["type"] in ("file", "document_url") and kind != "application/pdf":
            # https://platform.openai.com/docs/guides/pdf-files; what a file of text says needs no file
            raise UnsupportedContent(f"few servers of this wire take files that are no PDF, such as {kind}")
        return part


def convert_media(block: Media, traits: ChatDialect) -> Json:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: a chat message does not take it in this form.
    """
    if isinstance(block, ImageBlock):
        return image_part(block.data)
    return file_part(block, by_address=traits.file_addresses, document=traits.document_parts)
