"""History as Gemini's contents, and the fields of a request's body that the conversation determines.

https://ai.google.dev/gemini-api/docs/function-calling, https://ai.google.dev/api/caching#Content

The form follows from what the API refuses:

- All calls of a step are in one model content and all their results, as many, in the user content after it: "the number
  of function response parts is equal to the number of function call parts". A result has the name of its function.
- A signature goes back on the part that it came on, also if that part's text is empty
  (https://ai.google.dev/gemini-api/docs/thought-signatures). Gemini 3 refuses a step whose first call is unsigned. For
  calls that Gemini did not make, or that an older model made unsigned, that page documents the signature that skips the
  check; older models ignore it.
- Only Gemini 3 accepts images and files of a result in its function response (``parts``): "function_response.parts is
  not supported for this model" (google-gemini/gemini-cli#19436). They are there if the requested model is Gemini 3, or,
  if it is not set, the model that made the call; otherwise after the results, where every model accepts them.

Signatures and the provider's own parts go back only to the model and endpoint that made them, ids to every model. This
module does not depend on streams, and does not repair history: a call without a result stays one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeGuard

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
from streamkit.providers.contract.rendered import models_of
from streamkit.providers.gemini.media import (
    file_part,
    image_part,
    is_allowed_in_result,
    media_part,
    named_media_part,
    restore_object,
)
from streamkit.providers.gemini.requests import output_fields, render_tool_choice, render_tools
from streamkit.providers.gemini.schema import PART_METADATA, SIGNATURE
from streamkit.providers.provider import RenderedMessages, RenderOptions, ToolChoice, Traits
from streamkit.providers.rendering.block_renderer import AlternatingRenderer
from streamkit.providers.rendering.media import (
    Media,
    caption,
    convert_or_describe,
    convert_parts,
    media_parts,
    report_name,
    result_text,
    split_text_and_media,
)
from streamkit.providers.rendering.message_renderer import Json
from streamkit.providers.requests.body_fields import merge_fields
from streamkit.providers.requests.models.gemini import SKIP_SIGNATURE, requires_signature
from streamkit.providers.requests.strict import plain_output
from streamkit.tools.definition import OfferedTool
from streamkit.values.media import is_base64, to_standard_base64
from streamkit.values.request_changes import LeftOut, Lost

if TYPE_CHECKING:
    from streamkit.output import OutputType

__all__ = ["build_request", "convert_media", "create_renderer"]

#: models that accept the parts of a function response
_MEDIA_IN_RESULTS = re.compile(r"(?:.*/)?gemini-(?:[3-9]|\d\d)\b")
#: models whose calls may have no signature
_UNSIGNED_CALLS = re.compile(r"(?:.*/)?gemini-[12]\b")
_PART_METADATA = frozenset(PART_METADATA)
#: The objects in a part, and those of their fields that must be text.
_REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "functionCall": ("name",),
    "functionResponse": ("name",),
    "inlineData": ("mimeType", "data"),
    "fileData": ("fileUri",),
    "executableCode": ("code",),
    "codeExecutionResult": ("outcome",),
    "toolCall": (),
    "toolResponse": (),
}


def create_renderer(traits: Traits, options: RenderOptions) -> GeminiRenderer:
    """Return a renderer of history as contents of the roles ``user`` and ``model``, with its system text apart.

    The id policy is ignored: ids are optional on this wire, and a call has one only if this wire gave it one.
    """
    return GeminiRenderer(traits, options)


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

    A conversation that begins with a call gets a user content before it: "function call turn comes immediately after a
    user turn or after a function response turn" (google-gemini/gemini-cli#11814). Without tools the tool choice is left
    out. The address decides whether the response is streamed.
    """
    messages = rendered.messages
    first = messages[0].get("parts") if messages else None
    if isinstance(first, list) and any("functionCall" in part for part in first):
        messages = [{"role": "user", "parts": [{"text": "(continued)"}]}, *messages]
    body: Json = {traits.messages_field: messages}
    if rendered.system is not None:
        body["systemInstruction"] = {"parts": [{"text": rendered.system}]}
    if tools:
        body["tools"] = render_tools(tools, traits)
        if (config := render_tool_choice(tool_choice, tools, traits)) is not None:
            body["toolConfig"] = {"functionCallingConfig": config}
    if output is not None:
        merge_fields(body, output_fields(plain_output(output)))
    return body


def convert_media(block: Media, traits: Traits) -> Json:
    """Return an image or file as a part."""
    return image_part(block.data) if isinstance(block, ImageBlock) else file_part(block)


@dataclass(slots=True, eq=False)
class _Part:
    """A part of a content, with the facts that decide its position and its signature."""

    data: Json
    call_number: int | None = None  # of a result
    may_be_unsigned: bool = False  # a call that has no signature for a reason, if it has none


@dataclass(slots=True, eq=False)
class _Call:
    """The facts of a call that its result depends on."""

    number: int
    name: str
    raw_id: str | None
    accepts_media: bool = False  # its model accepts images in the result


class GeminiRenderer(AlternatingRenderer[Traits]):
    """A rendering of history as Gemini's contents. Until ``finish`` their parts are ``_Part`` objects."""

    assistant_role = "model"
    parts_field = "parts"

    def __init__(self, traits: Traits, options: RenderOptions) -> None:
        super().__init__(traits, options)
        self._call_count = 0
        self._used_ids = set(options.used_ids)
        self._open_calls: dict[
            str, tuple[_Call, ...]
        ] = {}  # without a result, by the id in history, which may be repeated
        self._closed_calls: dict[str, _Call] = {}  # the last call with a result, by the id in history
        self._model = ""  # the model that made the content

    def add(self, content: Content) -> None:
        """Render the next content; its parts depend on the model that made it."""
        self._model = next(iter(models_of(content.metadata)), "")
        super().add(content)

    def finish(self) -> None:
        """Close the last message."""
        self.close_messages(len(self.messages))

    def close_message(self, message: Json) -> None:
        """Put results first and in call order, and sign the first call of a step."""
        parts = message["parts"]
        parts.sort(key=lambda part: self._call_count + 1 if part.call_number is None else part.call_number)
        written = message["parts"] = [part.data for part in parts]
        first_call = next((place for place, part in enumerate(parts) if "functionCall" in part.data), None)
        if first_call is not None and parts[first_call].may_be_unsigned and SIGNATURE not in written[first_call]:
            written[first_call] = {**written[first_call], SIGNATURE: SKIP_SIGNATURE}

    # ------------------------------------------------------------ messages of people and tools

    def user_parts(self, block: Block) -> list[_Part]:
        """Return text, an image or a file as a part; any other block is left out."""
        if isinstance(block, TextBlock):
            return [_Part({"text": block.text, **self._fields(block)})] if block.text else []
        if isinstance(block, (ImageBlock, FileBlock)):
            return [_Part({**self._media(block), **self._fields(block)})]
        if isinstance(block, OpaqueBlock) and (parts := self._own_parts(block)):
            return parts
        self.report(Lost(f"a block of type {block.type!r} in a user message was left out"))
        return []

    def _media(self, block: Media) -> Json:
        part = convert_media(block, self.traits)
        report_name(block, part, self.changes)
        return part

    def tool_media_part(self, block: Media) -> _Part:
        """Return an image or file that a tool made; text that describes it if no model accepts it."""
        part = convert_or_describe(block, media_part, self.changes, "Gemini")
        return _Part({"text": part} if isinstance(part, str) else part)

    def has_failure_flag(self, block: ToolResponseBlock) -> bool:
        """Return True: the response of a failed call has the field ``error``."""
        return True

    def result_parts(self, block: ToolResponseBlock) -> list[_Part]:
        """Return a result as a function response, and after it the images and files that are not in the response."""
        # The call of a result is the first of its id without one, else the last with one.
        call, *others = self._open_calls.pop(block.call_id, ()) or (self._closed_calls.get(block.call_id),)
        if others:
            self._open_calls[block.call_id] = tuple(others)
        if call is not None:
            self._closed_calls[block.call_id] = call
        else:  # it is not in this part of the conversation
            call = _Call(self._call_count, self.tool_name(block.name or ""), self.own_raw_id(block))
        response: Json
        media_inside: list[Json] = []
        parts_after: list[_Part] = []
        if (parts := media_parts(block)) is not None:
            is_object = block.metadata.get("response_form") == "object"
            convert = named_media_part if is_object else media_part
            text, media = split_text_and_media(convert_parts(parts, convert, self.changes, "Gemini"))
            response = {_response_field(block): text}
            media_inside = [convert(part) for part in media]
            if is_object:
                response = restore_object(text) or response
            if not (call.accepts_media and all(is_allowed_in_result(part) for part in media_inside)):
                media_inside = []
                parts_after = [part for shown in caption(media, call.name) for part in self.user_parts(shown)]
        elif block.error is not None or block.status not in (None, "completed"):
            response = {"error": result_text(block)}
        else:
            response = block.result if isinstance(block.result, dict) else {_response_field(block): block.result}
        data: Json = {"name": call.name, "response": response}
        if call.raw_id:
            data["id"] = call.raw_id
        if media_inside:
            data["parts"] = media_inside
        return [_Part({"functionResponse": data}, call_number=call.number), *parts_after]

    # ------------------------------------------------------------ messages of the model

    def assistant_parts(self, block: Block) -> list[_Part]:
        """Return a block of the model as parts: signed as they were, and the provider's own parts unchanged."""
        signature = self._signature(block)
        if isinstance(block, TextBlock):
            data = {"text": block.text, **self._fields(block)}
            return [_signed(data, signature)] if block.text or signature else []
        if isinstance(block, ToolCallBlock):
            return [self._call_part(block, signature)]
        if isinstance(block, ReasoningBlock):
            if signature:
                return [_signed({"text": block.text, "thought": True, **self._fields(block)}, signature)]
            if self.is_own(block) or not self.is_from_target(block):  # else the signature was reported
                sentence = "reasoning without a signature of Gemini's was left out: only signed parts need to go back"
                self.report(LeftOut(sentence))
            return []
        if parts := self._own_parts(block):
            return parts
        if isinstance(block, (ImageBlock, FileBlock)):
            return [_Part(self._media(block))]
        label = (
            f"the provider's tool {block.name!r}"
            if isinstance(block, ServerToolBlock)
            else f"a block of type {block.type!r}"
        )
        reason = "it is malformed" if self.is_own(block) else self.reason_not_own(block)
        self.report(Lost(f"{label} was left out: {reason}"))
        return []

    def _own_parts(self, block: Block) -> list[_Part]:
        """Return the provider's own parts that a block was made of."""
        if not self.is_own(block):
            return []
        raw_parts: list[object] = []
        if isinstance(block, ServerToolBlock):
            raw_parts = block.raw
        elif isinstance(block, OpaqueBlock):
            raw_parts = [block.raw]
        elif isinstance(block, (FileBlock, ImageBlock)):
            raw_parts = [block.metadata.get("raw")]
        parts = []
        for raw in filter(_is_part, raw_parts):
            signature = raw.get(SIGNATURE)
            is_sendable = not signature or self._is_sendable(signature)
            parts.append(_Part(raw if is_sendable else {name: raw[name] for name in raw if name != SIGNATURE}))
        if parts and len(parts) < len(raw_parts):
            self.report(Lost("a malformed part of a tool of the provider's was left out"))
        return parts

    def _call_part(self, block: ToolCallBlock, signature: str | None) -> _Part:
        model = self.options.model or (self._model if self.is_from_target(block) else "")
        accepts_media = _MEDIA_IN_RESULTS.match(model) is not None
        raw_id = self.own_raw_id(block)
        if raw_id in self._used_ids:
            raw_id = None  # an earlier call has it, and results pair by order alone
        elif raw_id is not None:
            self._used_ids.add(raw_id)
        call = _Call(self._call_count, self.tool_name(block.name), raw_id, accepts_media=accepts_media)
        self._call_count += 1
        self._open_calls[block.id] = (*self._open_calls.get(block.id, ()), call)
        data: Json = {"name": call.name, "args": self.arguments_object(block)}
        if call.raw_id:
            data["id"] = call.raw_id
        part = _signed({"functionCall": data, **self._fields(block)}, signature)
        # A call that Gemini did not make or made unsigned; or one whose signature was lost: the models that refuse an
        # unsigned call sign theirs.
        part.may_be_unsigned = (
            not self.is_own(block)
            or _UNSIGNED_CALLS.match(self._model) is not None
            or requires_signature(self.options.model)
        )
        return part

    def _fields(self, block: Block) -> Json:
        """Return the fields of the part that a block was, other than its data and its signature."""
        if _PART_METADATA.isdisjoint(block.metadata) or not self.is_from_target(block):
            return {}
        return {name: value for name in PART_METADATA if (value := self.own_state(block, name)) is not None}

    def _signature(self, block: Block) -> str | None:
        signature = self.own_state(block, SIGNATURE) if self.is_from_target(block) else None
        if not isinstance(signature, str) or not signature:
            return None
        return signature if self._is_sendable(signature) else None

    def _is_sendable(self, signature: str) -> bool:
        """Return True for base64; report any other signature, which the API refuses (400 "Base64 decoding failed")."""
        if is_base64(to_standard_base64(signature)):
            return True
        self.report(LeftOut("a thought signature was left out: it is no base64, so Gemini refuses it"))
        return False


def _is_part(raw: object) -> TypeGuard[Json]:
    """Return True if a value is a part whose data fits its field (https://ai.google.dev/api/caching#Part)."""
    if not isinstance(raw, dict) or not raw:
        return False
    for name, required in _REQUIRED_FIELDS.items():
        value = raw.get(name)
        if value is None:
            continue
        if not isinstance(value, dict) or not all(isinstance(value.get(field), str) for field in required):
            return False
    return all(isinstance(raw.get(name), (str, NoneType)) for name in ("text", SIGNATURE))


def _response_field(block: ToolResponseBlock) -> str:
    """Return the field of a response that holds a result: as the client had it, else ``result``."""
    field = block.metadata.get("response_field")
    return field if isinstance(field, str) and field else "result"


def _signed(data: Json, signature: str | None) -> _Part:
    if signature:
        data[SIGNATURE] = signature
    return _Part(data)
