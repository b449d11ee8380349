"""History as people store it: ``Content`` and its blocks, in no provider's format.

The shapes are those of ``spec/003`` (text, image, tool_call, tool_response), and beyond it what today's streams hold:
reasoning, files, tools that the provider ran itself, and blocks that only the provider understands. Written in
snake_case; the document's camelCase (``callId``, ``mediaType``) is accepted on input. Nothing is lost: a speaker, a
block type or a field that is not known here is kept as it came, and JSON and back is the same.

It must not know of any provider, nor of how a thread is repaired or rendered.
"""

from __future__ import annotations

import re
from operator import is_
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

__all__ = [
    "Block",
    "Content",
    "FileBlock",
    "ImageBlock",
    "OpaqueBlock",
    "ReasoningBlock",
    "ServerToolBlock",
    "TextBlock",
    "ToolCallBlock",
    "ToolResponseBlock",
    "UnknownBlock",
]

# The document has ``metadata?``; a null there is an absent one.
Metadata: TypeAlias = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]


class _StoredModel(BaseModel):
    # Fields that a later version or another program wrote are kept, so that reading and writing back loses nothing.
    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _as_it_can_be_stored(cls, value: Any) -> Any:
        # No pydantic alias: where both spellings are given it would keep the other one as a second field of that name.
        for name in cls.model_fields if isinstance(value, dict) else ():
            camel = to_camel(name)
            if camel != name and camel in value and name not in value:
                value = {name if key == camel else key: item for key, item in value.items()}
        return _replace_lone_surrogates(value)


def _replace_lone_surrogates(value: Any) -> Any:
    """The value with surrogate pairs whole again, and U+FFFD for a lone half; itself where there is none.

    Servers that cut text by UTF-16 units send halves, file names have them; neither JSON's bytes nor a request could
    hold them, and one would make a whole history impossible to store.
    """
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE.search(value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        mended = {_replace_lone_surrogates(key): _replace_lone_surrogates(item) for key, item in value.items()}
        same = all(mended.get(key) is item for key, item in value.items())
        return value if same else mended
    if isinstance(value, list):
        items = [_replace_lone_surrogates(item) for item in value]
        return value if all(map(is_, items, value)) else items
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


class TextBlock(_StoredModel):
    """Text."""

    type: Literal["text"] = "text"
    text: str
    metadata: Metadata = Field(default_factory=dict)  #: what it carries from its provider, under ``provider``'s name


class ImageBlock(_StoredModel):
    """An image."""

    type: Literal["image"] = "image"
    data: str  #: a base64 data URL (``data:image/png;base64,...``) or an address
    metadata: Metadata = Field(default_factory=dict)


class FileBlock(_StoredModel):
    """A file: its data, or where it is."""

    type: Literal["file"] = "file"
    media_type: str | None = None  #: such as ``application/pdf``
    data: str | None = None  #: base64, or a base64 data URL
    url: str | None = None
    name: str | None = None  #: the file's name, for people and models
    metadata: Metadata = Field(default_factory=dict)


class ToolCallBlock(_StoredModel):
    """A call that the model made.

    ``parameters`` of a function call is always an object: where arguments come as JSON text they are read, and what is
    no object becomes ``{}``, with the text in ``metadata["raw_arguments"]``. A history with such a call would otherwise
    be refused by providers at every later request (danny-avila/agents#369).
    """

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    parameters: dict[str, Any] | str = Field(default_factory=dict)  #: an object; for kind ``custom`` the text
    kind: Literal["function", "custom"] = "function"
    metadata: Metadata = Field(default_factory=dict)  #: also ``raw_id``: the provider's own id of the call

    @model_validator(mode="before")
    @classmethod
    def _parameters_are_an_object(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind", "function") != "function":
            return value
        given = value.get("parameters")
        if given is None:
            return {name: item for name, item in value.items() if name != "parameters"}
        if not isinstance(given, str):
            return value
        try:
            parameters = from_json(given, allow_inf_nan=False) if given.strip() else {}
        except ValueError:
            parameters = None
        if isinstance(parameters, dict):
            return value | {"parameters": parameters}
        metadata = value.get("metadata") or {}
        return value | {"parameters": {}, "metadata": {"raw_arguments": given} | metadata}


class ToolResponseBlock(_StoredModel):
    """What came of a call.

    ``result`` is text, JSON data, or a list of parts where it shows images or files: the JSON of blocks, such as
    ``[{"type": "text", "text": "Page 1"}, {"type": "image", "data": "data:image/png;base64,..."}]`` and
    ``{"type": "file", "media_type": "application/pdf", "data": "JVBE...", "url": None, "name": "report.pdf"}``.
    ``history.results`` makes it of what a tool returned, and reads it.
    """

    type: Literal["tool_response"] = "tool_response"
    call_id: str  #: the ``id`` of the call
    name: str | None = None  #: the tool's name, where it is known here
    result: Any = None  #: any JSON
    status: str | None = None  #: ``error`` for a failed call; streamkit also writes its own words, such as ``denied``
    error: str | None = None  #: what went wrong, a sentence for the model
    metadata: Metadata = Field(default_factory=dict)


class ReasoningBlock(_StoredModel):
    """The model's reasoning, and what its provider needs to take it back."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    kind: Literal["text", "summary", "plan"] = "text"
    signature: str | None = None  #: the provider's proof that the reasoning is its own
    opaque: Any = None  #: the provider's whole block, where it is not text
    metadata: Metadata = Field(default_factory=dict)


class ServerToolBlock(_StoredModel):
    """A tool that the provider ran itself."""

    type: Literal["server_tool"] = "server_tool"
    id: str | None = None
    name: str = ""
    arguments: Any = None
    result: Any = None
    raw: list[Any] = Field(default_factory=list)  #: the provider's own blocks, in order, to send back to it
    metadata: Metadata = Field(default_factory=dict)


class OpaqueBlock(_StoredModel):
    """A provider's own block, kept to be sent back to it unchanged."""

    type: Literal["opaque"] = "opaque"
    raw: Any
    metadata: Metadata = Field(default_factory=dict)


class UnknownBlock(_StoredModel):
    """A block of a type that is not known here, with all its fields. Renders leave it out and say so."""

    type: str
    metadata: Metadata = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _as_it_came(self, serialize: SerializerFunctionWrapHandler) -> Any:
        fields = serialize(self)
        if "metadata" not in self.model_fields_set and not self.metadata:
            fields.pop("metadata", None)
        return fields


_KNOWN = ("text", "image", "file", "tool_call", "tool_response", "reasoning", "server_tool", "opaque")


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in _KNOWN else "unknown"


#: Any block. Told apart by ``type``.
Block: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[FileBlock, Tag("file")]
    | Annotated[ToolCallBlock, Tag("tool_call")]
    | Annotated[ToolResponseBlock, Tag("tool_response")]
    | Annotated[ReasoningBlock, Tag("reasoning")]
    | Annotated[ServerToolBlock, Tag("server_tool")]
    | Annotated[OpaqueBlock, Tag("opaque")]
    | Annotated[UnknownBlock, Tag("unknown")],
    Discriminator(_tag),
]


class Content(_StoredModel):
    """One message of a conversation.

    Attributes:
        speaker: ``human``, ``ai``, ``tool`` or ``system``; any other is kept, and left out by renders.
        blocks: what was said, in order.
        metadata: free; streamkit writes ``provider``, ``model``, ``response_id`` and ``turn_key`` for a model's turn.
    """

    speaker: str
    blocks: list[Block]
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def human(cls, text: str = "", *blocks: Block) -> Content:
        """What a person said: a text, and blocks behind it. An empty text makes no block."""
        return cls(speaker="human", blocks=_texts(text, blocks))

    @classmethod
    def system(cls, text: str, *blocks: Block) -> Content:
        """An instruction to the model."""
        return cls(speaker="system", blocks=_texts(text, blocks))

    @classmethod
    def ai(cls, text: str = "", *blocks: Block) -> Content:
        """What the model said: a text, and blocks behind it. An empty text makes no block."""
        return cls(speaker="ai", blocks=_texts(text, blocks))


def _texts(text: str, blocks: tuple[Block, ...]) -> list[Block]:
    return [TextBlock(text=text), *blocks] if text else list(blocks)
