"""History as Converse messages, and the parts of a request's body that a conversation decides.

What the API refuses, and where it says so, decides the form: roles alternate and a user begins; all results of a batch
stand in the one user message behind their calls
(https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use-inference-call.html); no text is blank
(langchain-ai/langchain-aws#403); nothing follows the calls of an assistant message, and none is reasoning alone, for
newer models take either for a prefilled answer (NousResearch/hermes-agent#108200, #105780); images and documents are a
user's only, and a document needs a text beside it
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html). Reasoning goes back with its
signature or encrypted, as it came, and only to this wire: some models refuse what is unsigned, none misses what was
left out (langchain-ai/langchain-aws#1229).

This file knows neither streams nor how a broken history is repaired: a call without a result stays one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from streamkit.history.content import (
    Block,
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.bedrock_converse.media import as_text, media_part, result_content
from streamkit.providers.bedrock_converse.schema import Json
from streamkit.providers.message_renderer import AlternatingRenderer
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.strict import BEDROCK
from streamkit.providers.tool_result_media import Media, convert_or_describe
from streamkit.tools import Tool, strict_parameters

__all__ = ["build_request", "convert_media", "render_messages"]

_CHOICES: dict[str, Json] = {"auto": {"auto": {}}, "required": {"any": {}}}


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """The thread in Converse's form, its system text apart.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: ``origin`` gives a call of this wire its own id back; else every id is made from the canonical one.

    Raises:
        UnsupportedContent: a person's image or file is in a form that the API does not take.
    """
    return ConverseRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> Json:
    """The body's fields that the conversation decides; whether it is streamed is said by the request's path.

    The API has no word for a choice of ``none``, and refuses calls and results in a history without ``toolConfig``
    (langgenius/dify#16421). So with ``none`` the tools stay and the choice is left out; and where no tools are given,
    those that the history called are named with an open schema. Tools of the provider's own whose calls go back are
    named, too (``systemTool``).

    Raises:
        UsageError: a strict tool's schema cannot be had.
    """
    body: Json = dict(rendered.request_fields)
    body[traits.messages_field] = rendered.messages
    called, served = _called_tools(rendered.messages)
    strict = strict_parameters(tools, BEDROCK)
    specs = [_spec(tool.name, tool.description, tool.parameters, strict.get(tool.name)) for tool in tools]
    if not specs:
        gone = "A tool of the conversation so far. It cannot be called any more."
        specs = [_spec(name, gone, {"type": "object"}) for name in called]
    specs += [{"systemTool": {"name": name}} for name in served]
    if specs:
        body["toolConfig"] = {"tools": specs}
        if tools and tool_choice is not None and tool_choice != "none":
            body["toolConfig"]["toolChoice"] = dict(_CHOICES.get(tool_choice) or {"tool": {"name": tool_choice}})
    return body


def _spec(name: str, description: str, parameters: Json, strict: Json | None = None) -> Json:
    """``strict``: the parameters as the strict mode takes them, None where it is not asked for."""
    described = {"description": description} if description else {}  # an empty one is refused
    if strict is None:
        return {"toolSpec": {"name": name, **described, "inputSchema": {"json": parameters}}}
    return {"toolSpec": {"name": name, **described, "inputSchema": {"json": strict}, "strict": True}}


def _called_tools(messages: Sequence[Json]) -> tuple[list[str], list[str]]:
    """Return the names of the tools that messages call, each once: those of the client, those that the service runs."""
    called: dict[str, None] = {}
    served: dict[str, None] = {}
    for message in messages:
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            use = part.get("toolUse") if isinstance(part, dict) else None
            if isinstance(use, dict) and isinstance(use.get("name"), str):
                (called if _is_call(part) else served)[use["name"]] = None
    return list(called), list(served)


class ConverseRenderer(AlternatingRenderer[Traits]):
    """Renders history as Converse messages."""

    illegal_in_name = re.compile(r"[^a-zA-Z0-9_-]")

    def finish(self) -> None:
        """What concerns the thread as a whole."""
        if self.system:
            self.request_fields["system"] = [{"text": text} for text in self.system]
        messages, self.messages = self.messages, []
        for message in messages:
            parts = message["content"]
            if message["role"] == "assistant" and all("reasoningContent" in part for part in parts):
                self.report("an answer of nothing but reasoning was left out: it would be taken for a prefilled one")
            else:
                self.push(message["role"], parts, self.contents_of(message))
        calls: list[str] = []
        for message in self.messages:
            if message["role"] == "assistant":
                message["content"] = self._calls_last(message["content"])
                calls = [part["toolUse"]["toolUseId"] for part in message["content"] if _is_call(part)]
            else:
                message["content"].sort(key=lambda part: _place(part, calls))
                self._accompany_documents(message["content"])
        self._trim_end()
        self.begin_with_user({"text": "(continued)"})

    # ------------------------------------------------------------ a message as a whole

    def _calls_last(self, parts: list[Json]) -> list[Json]:
        """Late text moved before the calls: an assistant message with calls ends with one."""
        places = [place for place, part in enumerate(parts) if _is_call(part)]
        if not places:
            return parts
        first, last = places[0], places[-1]
        late = {place for place, part in enumerate(parts) if place > first and (_is_text(part) or place > last)}
        if not late:
            return parts
        self.report("what followed a call in its message was moved before it")
        behind = [part for place, part in enumerate(parts) if place >= first and place not in late]
        return [*parts[:first], *(parts[place] for place in sorted(late)), *behind]

    def _accompany_documents(self, parts: list[Json]) -> None:
        names: set[str] = set()
        inside = [part for given in parts for part in given.get("toolResult", {}).get("content", ())]
        for part in [*parts, *inside]:
            if "document" in part:
                name = part["document"]["name"]
                number = 2
                while part["document"]["name"] in names:
                    part["document"]["name"] = f"{name} ({number})"
                    number += 1
                names.add(part["document"]["name"])
        if any("document" in part for part in parts) and not any("text" in part for part in parts):
            parts.append({"text": "(see the document)"})
            self.report("a text was put beside a document: the API wants one")

    def _trim_end(self) -> None:
        part = self.messages[-1]["content"][-1] if self.messages and self.messages[-1]["role"] == "assistant" else {}
        if isinstance(part.get("text"), str) and part["text"] != part["text"].rstrip():
            part["text"] = part["text"].rstrip()
            self.report("white space at the end of the last assistant text was cut off")

    # ------------------------------------------------------------ what people and tools say

    def user_parts(self, block: Block) -> list[Json]:
        """See ``AlternatingRenderer``."""
        if isinstance(block, TextBlock):
            return self._text(block)
        if isinstance(block, (ImageBlock, FileBlock)):
            return [media_part(block)]
        self.report(f"a block of type {block.type!r} in a user message was left out")
        return []

    def tool_media_part(self, block: Media) -> Json:
        """See ``AlternatingRenderer``."""
        part = convert_or_describe(block, media_part, self.changes, "Bedrock")
        return {"text": part} if isinstance(part, str) else part

    def _text(self, block: TextBlock) -> list[Json]:
        if not block.text.strip():
            if block.text:
                self.report("a text of nothing but white space was left out")
            return []
        citations = block.metadata.get("citations")
        if isinstance(citations, list) and citations and self.is_own(block):
            return [{"citationsContent": {"content": [{"text": block.text}], "citations": citations}}]
        return [{"text": block.text}]

    def result_parts(self, block: ToolResponseBlock) -> list[Json]:
        """See ``AlternatingRenderer``."""
        result: Json = {"toolUseId": self.ids.result_id(block)}
        if block.error is not None or block.status not in (None, "completed"):
            said = block.error or as_text(block.result)
            result["content"] = [{"text": said if said.strip() else f"The call did not complete: {block.status}."}]
            result["status"] = "error"
        else:
            result["content"] = result_content(block.result, self.changes)
        return [{"toolResult": result}]

    # ------------------------------------------------------------ what the model said

    def assistant_parts(self, block: Block) -> list[Json]:
        """See ``AlternatingRenderer``."""
        if isinstance(block, TextBlock):
            return self._text(block)
        if isinstance(block, ToolCallBlock):
            return [self._call(block)]
        if isinstance(block, ReasoningBlock):
            return self._reasoning(block)
        if isinstance(block, (ServerToolBlock, OpaqueBlock)):
            raw: list[Any] = block.raw if isinstance(block, ServerToolBlock) else [block.raw]
            parts = [part for part in raw if isinstance(part, dict) and part]
            if self.is_own(block) and parts:
                return parts
            what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else "a provider's block"
            self.report(f"{what} was left out: it can go back only to the provider that made it")
            return []
        self.report(f"a block of type {block.type!r} in an assistant message was left out")
        return []

    def _reasoning(self, block: ReasoningBlock) -> list[Json]:
        if not self.is_own(block):
            self.report("reasoning of another provider was left out: it has no signature of this one's")
            return []
        if isinstance(block.opaque, dict) and "reasoningContent" in block.opaque:
            return [block.opaque]
        signature = block.signature or block.metadata.get("signature")
        if isinstance(signature, str) and signature:
            return [{"reasoningContent": {"reasoningText": {"text": block.text, "signature": signature}}}]
        self.report("reasoning without a signature was left out: not every model takes it back")
        return []

    def _call(self, block: ToolCallBlock) -> Json:
        arguments = self.arguments_object(block.parameters, block.name)
        return {
            "toolUse": {
                "toolUseId": self.ids.call_id(block),
                "name": self.tool_name(block.name),
                "input": arguments,
            }
        }


def _is_call(part: Json) -> bool:
    """Whether a part is a call of the client's, not of a tool that the service runs."""
    return isinstance(part.get("toolUse"), dict) and "type" not in part["toolUse"]


def _is_text(part: Json) -> bool:
    return "text" in part or "citationsContent" in part


def _place(part: Json, calls: list[str]) -> int:
    """Where a part stands in a user message: results first, in the order of their calls."""
    result = part.get("toolResult")
    if result is None:
        return len(calls) + 1
    return calls.index(result["toolUseId"]) if result["toolUseId"] in calls else len(calls)


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> Json:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return media_part(block)
