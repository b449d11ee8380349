"""History as Gemini's contents, and the parts of a request's body that a conversation decides.

What the API refuses decides the form: all calls of a step stand in one model content and all their results, as many,
in one user content behind it ("the number of function response parts is equal to the number of function call parts");
a result names its function; a signature goes back on the very part that it came on, also where that part's text is
empty (https://ai.google.dev/gemini-api/docs/thought-signatures). Gemini 3 refuses a step whose first call is unsigned.
For calls that Gemini never made, or that an older model of it made unsigned, that page names the signature which skips
the check; older models ignore it.

Images and files of a result stand in its function response (``parts``), which Gemini 3 alone takes:
"function_response.parts is not supported for this model" (google-gemini/gemini-cli#19436). A thread does not say which
model will read it, so they stand there where a Gemini 3 made the call, and else behind the results, as every model
takes them.

Signatures, ids and the provider's own parts go back only to the family that made them. This file knows neither streams
nor how a broken history is repaired: a call without a result stays one.
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
from streamkit.providers.decoding import compact_json
from streamkit.providers.gemini.media import file_part, image_part, is_allowed_in_result, media_part
from streamkit.providers.gemini.schema import SIGNATURE
from streamkit.providers.message_renderer import AlternatingRenderer
from streamkit.providers.provider import IdPolicy, RenderedMessages, ToolChoice, Traits
from streamkit.providers.tool_result_media import (
    Media,
    caption,
    convert_or_describe,
    convert_parts,
    result_parts,
    split_text_and_media,
)
from streamkit.tools import StrictProfile, Tool, strict_parameters

__all__ = ["SKIP_SIGNATURE", "build_request", "convert_media", "render_messages"]

SKIP_SIGNATURE = "skip_thought_signature_validator"

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_NESTING = re.compile(r"(?:.*/)?gemini-(?:[3-9]|\d\d)\b")  # models that take the parts of a function response
# https://ai.google.dev/gemini-api/docs/function-calling: no field of a tool, but a mode of the request, VALIDATED:
# "ensures function schema adherence" where the model is free to answer in text; ANY is constrained anyway. The words
# are those of https://ai.google.dev/gemini-api/docs/structured-output#json-schema-support; others are not read.
_STRICT = StrictProfile(
    "Gemini",
    keywords={
        "format": frozenset(("date-time", "date", "time")),
        "minimum": None,
        "maximum": None,
        "minItems": None,
        "maxItems": None,
    },
    all_or_none=True,
)
_UNSIGNING = re.compile(r"(?:.*/)?gemini-[12]\b")  # models whose calls may have no signature


def render_messages(contents: Sequence[Content], traits: Traits, *, ids: IdPolicy | None = None) -> RenderedMessages:
    """The thread as contents of the roles ``user`` and ``model``, its system text apart.

    Args:
        contents: the conversation.
        traits: the target's.
        ids: not used: ids are optional here, and a call has one only where this wire gave it one.

    Raises:
        UnsupportedContent: an image or file is in a form that the API does not take.
    """
    return GeminiRenderer(traits, ids).render(contents)


def build_request(
    rendered: RenderedMessages,
    traits: Traits,
    *,
    tools: Sequence[Tool] = (),
    tool_choice: ToolChoice | None = None,
    stream: bool = True,
) -> dict[str, Any]:
    """The body's fields that the conversation decides. The model and whether to stream stand in the address.

    A conversation that begins with a call gets a user content before it: "function call turn comes immediately after a
    user turn or after a function response turn" (google-gemini/gemini-cli#11814).

    Raises:
        UsageError: a strict tool's schema cannot be had.
    """
    messages = rendered.messages
    first = messages[0].get("parts") if messages else None
    if isinstance(first, list) and any("functionCall" in part for part in first):
        messages = [{"role": "user", "parts": [{"text": "(continued)"}]}, *messages]
    body: dict[str, Any] = {traits.messages_field: messages}
    if rendered.system is not None:
        body["systemInstruction"] = {"parts": [{"text": rendered.system}]}
    if tools:
        strict = strict_parameters(tools, _STRICT)
        declarations = [_declaration(tool, strict.get(tool.name, tool.parameters)) for tool in tools]
        body["tools"] = [{"functionDeclarations": declarations}]
        if strict and tool_choice in (None, "auto"):
            body["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
        elif tool_choice is not None:
            config: dict[str, Any] = {"mode": _MODES.get(tool_choice, "ANY")}
            if tool_choice not in _MODES:
                config["allowedFunctionNames"] = [tool_choice]
            body["toolConfig"] = {"functionCallingConfig": config}
    return body


def _declaration(tool: Tool, parameters: dict[str, Any]) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": tool.name}
    if tool.description:
        declaration["description"] = tool.description
    declaration["parametersJsonSchema"] = parameters
    return declaration


class _Part:
    """A part of a content, and what decides where it stands and how it is signed."""

    __slots__ = ("foreign_call", "place", "wire")

    def __init__(self, wire: dict[str, Any], *, place: int | None = None, foreign_call: bool = False) -> None:
        self.wire = wire
        self.place = place  # of a result: the number of its call
        self.foreign_call = foreign_call


class _Call:
    """What a result must know of its call."""

    __slots__ = ("name", "nests", "number", "raw_id")

    def __init__(self, number: int, name: str, raw_id: str | None, *, nests: bool = False) -> None:
        self.number = number
        self.name = name
        self.raw_id = raw_id
        self.nests = nests  # its model takes images within the result


class GeminiRenderer(AlternatingRenderer[Traits]):
    """Renders history as Gemini's contents; until the end their parts are ``_Part`` objects."""

    assistant_role = "model"
    parts_field = "parts"
    # "Must be a-z, A-Z, 0-9, or contain underscores, dots, colons and dashes" (FunctionDeclaration.name)
    illegal_in_name = re.compile(r"[^a-zA-Z0-9_.:-]")
    longest_name = 128

    def __init__(self, traits: Traits, ids: IdPolicy | None = None) -> None:
        super().__init__(traits, ids)
        self._calls = 0
        self._unanswered: dict[str, list[_Call]] = {}  # by the id in history, which may be there several times
        self._answered: dict[str, _Call] = {}
        self._unsigning = False  # the message is by a model whose calls may have no signature
        self._nests = False  # the message is by a model that takes images within results

    def begin_content(self, content: Content) -> None:
        """See ``AlternatingRenderer``."""
        model = content.metadata.get("model")
        self._unsigning = isinstance(model, str) and _UNSIGNING.match(model) is not None
        self._nests = isinstance(model, str) and _NESTING.match(model) is not None

    def finish(self) -> None:
        """Put results first and in call order, and sign the first call of each step."""
        for message in self.messages:
            parts = message["parts"]
            parts.sort(key=lambda part: self._calls + 1 if part.place is None else part.place)
            first = next((part for part in parts if "functionCall" in part.wire), None)
            if first is not None and first.foreign_call and SIGNATURE not in first.wire:
                first.wire[SIGNATURE] = SKIP_SIGNATURE
            message["parts"] = [part.wire for part in parts]

    # ------------------------------------------------------------ what people and tools say

    def user_parts(self, block: Block) -> list[_Part]:
        """See ``AlternatingRenderer``."""
        if isinstance(block, TextBlock):
            return [_Part({"text": block.text})] if block.text else []
        if isinstance(block, ImageBlock):
            return [_Part(image_part(block.data))]
        if isinstance(block, FileBlock):
            return [_Part(file_part(block))]
        self.report(f"a block of type {block.type!r} in a user message was left out")
        return []

    def tool_media_part(self, block: Media) -> _Part:
        """See ``AlternatingRenderer``."""
        part = convert_or_describe(block, media_part, self.changes, "Gemini")
        return _Part({"text": part} if isinstance(part, str) else part)

    def result_parts(self, block: ToolResponseBlock) -> list[_Part]:
        """See ``AlternatingRenderer``."""
        waiting = self._unanswered.get(block.call_id)
        call = waiting.pop(0) if waiting else self._answered.get(block.call_id)
        if call is None:  # its call is not in this part of the conversation
            raw_id = block.metadata.get("raw_id") if self.is_own(block) else None
            call = _Call(self._calls, self.tool_name(block.name or ""), raw_id if isinstance(raw_id, str) else None)
        else:
            self._answered[block.call_id] = call
        response: dict[str, Any]
        inside: list[dict[str, Any]] = []
        behind: list[_Part] = []
        if (parts := result_parts(block)) is not None:
            text, media = split_text_and_media(convert_parts(parts, media_part, self.changes, "Gemini"))
            response = {"result": text}
            inside = [media_part(part) for part in media]
            if not (call.nests and all(is_allowed_in_result(part) for part in inside)):
                inside = []
                behind = [part for said in caption(media, call.name) for part in self.user_parts(said)]
        elif block.error is not None or block.status not in (None, "completed"):
            said = block.error or (block.result if isinstance(block.result, str) else compact_json(block.result))
            if block.error is None and block.result is None:
                said = f"The call did not complete: {block.status}."
            response = {"error": said}
        else:
            response = block.result if isinstance(block.result, dict) else {"result": block.result}
        wire: dict[str, Any] = {"name": call.name, "response": response}
        if call.raw_id:
            wire["id"] = call.raw_id
        if inside:
            wire["parts"] = inside
        return [_Part({"functionResponse": wire}, place=call.number), *behind]

    # ------------------------------------------------------------ what the model said

    def assistant_parts(self, block: Block) -> list[_Part]:
        """See ``AlternatingRenderer``."""
        signature = self._signature(block)
        if isinstance(block, TextBlock):
            return [_signed({"text": block.text}, signature)] if block.text or signature else []
        if isinstance(block, ToolCallBlock):
            return [self._call(block, signature)]
        if isinstance(block, ReasoningBlock):
            if signature:
                return [_signed({"text": block.text, "thought": True}, signature)]
            self.report("reasoning without a signature of Gemini's was left out: only signed parts need to go back")
            return []
        if isinstance(block, (ServerToolBlock, OpaqueBlock, FileBlock, ImageBlock)):
            own = self._own_parts(block)
            if own:
                return own
        if isinstance(block, ImageBlock):
            return [_Part(image_part(block.data))]
        if isinstance(block, FileBlock):
            return [_Part(file_part(block))]
        what = f"the provider's tool {block.name!r}" if isinstance(block, ServerToolBlock) else f"a {block.type} block"
        self.report(f"{what} was left out: it can go back only to the provider that made it")
        return []

    def _own_parts(self, block: ServerToolBlock | OpaqueBlock | FileBlock | ImageBlock) -> list[_Part]:
        """The provider's own parts that a block was made of."""
        if not self.is_own(block):
            return []
        if isinstance(block, ServerToolBlock):
            parts = block.raw
        else:
            parts = [block.raw if isinstance(block, OpaqueBlock) else block.metadata.get("raw")]
        return [_Part(part) for part in parts if isinstance(part, dict) and part]

    def _call(self, block: ToolCallBlock, signature: str | None) -> _Part:
        name = self.tool_name(block.name)
        arguments = self.arguments_object(block.parameters, block.name)
        own = self.is_own(block)
        raw_id = block.metadata.get("raw_id") if own else None
        raw_id = raw_id if isinstance(raw_id, str) and raw_id else None
        call = _Call(self._calls, name, raw_id, nests=own and self._nests)
        self._calls += 1
        self._unanswered.setdefault(block.id, []).append(call)
        wire: dict[str, Any] = {"name": name, "args": arguments}
        if call.raw_id:
            wire["id"] = call.raw_id
        part = _signed({"functionCall": wire}, signature)
        part.foreign_call = not own or self._unsigning
        return part

    def _signature(self, block: Block) -> str | None:
        signature = block.metadata.get(SIGNATURE) if self.is_own(block) else None
        return signature if isinstance(signature, str) and signature else None


def _signed(wire: dict[str, Any], signature: str | None) -> _Part:
    if signature:
        wire[SIGNATURE] = signature
    return _Part(wire)


def convert_media(block: ImageBlock | FileBlock, traits: Traits) -> dict[str, Any]:
    """Return an image or a file as a part.

    Raises:
        UnsupportedContent: the API does not accept it in this form.
    """
    return image_part(block.data) if isinstance(block, ImageBlock) else file_part(block)
