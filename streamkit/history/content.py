"""Stored history: ``Content`` and its blocks, independent of any provider's format.

The basic blocks are text, image, tool_call and tool_response. Further blocks have what current streams contain:
reasoning, files, tools that the provider ran itself, and blocks that only the provider understands. Fields are written
in snake_case; camelCase (``callId``, ``mediaType``) is accepted as input. Nothing is lost: an
unknown speaker, block type or field is kept unchanged, and JSON and back is equal.

It must not depend on any provider, nor on how messages are repaired or rendered.
"""

# The annotations are no texts (PEP 563): pydantic would evaluate each, which is a third of the time of this import.

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypedDict, TypeVar, get_args

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
from pydantic_core import from_json

from streamkit.errors import UsageError
from streamkit.history.stored_data import are_plain_data, is_plain_data, to_stored_data
from streamkit.json_text import join_surrogates
from streamkit.values.total_tables import check_total

__all__ = [
    "BLOCKS_WITHOUT_MEDIA",
    "CACHE_BREAKPOINT",
    "OWN_PART",
    "UNPAIRED_BLOCKS",
    "UNREADABLE_FILE",
    "UNREADABLE_SUMMARY",
    "WORDS",
    "Block",
    "CacheMark",
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
    "create_block",
    "create_stored",
    "parse_arguments",
    "store",
    "to_contents",
]

# The document has ``metadata?``; null means absent.
Metadata: TypeAlias = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]
#: The metadata of a block with OpenAI's explicit mark, which goes back to OpenAI alone: its lifetimes are its own
#: (https://developers.openai.com/api/docs/guides/prompt-caching).
CACHE_BREAKPOINT = "prompt_cache_breakpoint"
#: The metadata of a block with the text that a provider gets which has no field for it: in the place of an opaque
#: block, before a file.
WORDS = "words"
#: What such a text has if it only says that something is lost.
UNREADABLE_FILE = "which cannot be read here"
UNREADABLE_SUMMARY = "The conversation before this was replaced by a summary"
#: The metadata of a file with the part that it was, which its own provider gets back.
OWN_PART = "part"


class CacheMark(TypedDict, total=False):
    """The value of a block's metadata ``cache``: a request caches the prompt up to the end of this block.

    Targets without such marks ignore it. An empty mark has the target's default lifetime.
    """

    ttl: str  #: the lifetime, ``5m`` or ``1h``


class _StoredModel(BaseModel):
    # Fields that a later version or another program wrote are kept, so that reading and writing back loses nothing.
    # The validators are built when one is used first: a turn and a run create what they know to be right without them.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", defer_build=True)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _StoredModel.edits += 1

    #: how many fields of contents and blocks were assigned, so that no kept rendering of one that was changed is used
    edits: ClassVar[int] = 0

    @model_validator(mode="before")
    @classmethod
    def _normalize_input(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        names, nested = cls.__pydantic_fields__, cls._nested_models
        if not nested and value.keys() <= names.keys() and is_plain_data(value):
            return value
        # No pydantic alias: if both spellings are present, it would keep the other one as a second field of that name.
        for camel, name in cls._camel_names.items():
            if camel in value and name not in value:
                value = {name if key == camel else key: item for key, item in value.items()}
        # What JSON cannot represent would make a complete history impossible to store, or different once it is read
        # again: file names contain half a surrogate pair, a tool's result NaN.
        data = {}
        for name, item in value.items():
            if name not in names:
                name = to_stored_data(name)
            data[name] = item if name in nested else to_stored_data(item)
        return data

    #: fields with further models, which normalize their own input
    _nested_models: ClassVar[frozenset[str]] = frozenset()
    #: the names of fields in camelCase, where they differ
    _camel_names: ClassVar[dict[str, str]] = {}
    #: all fields in order, with the defaults of those that have one
    _defaults: ClassVar[dict[str, Any]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        parts = {name: name.split("_") for name in cls.model_fields if "_" in name}
        cls._camel_names = {first + "".join(map(str.title, rest)): name for name, (first, *rest) in parts.items()}
        cls._defaults = {name: field.default for name, field in cls.model_fields.items()}


AnyStored = TypeVar("AnyStored", bound=_StoredModel)

# The slots of every model, set directly: a model's own assignment validates.
_set_fields, _set_names, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def create_stored(model: type[AnyStored], /, **fields: Any) -> AnyStored:
    """Return a content or block of fields that are JSON data of the declared types: nothing is checked or converted.

    Args:
        model: `Content`, or the type of the block.
        fields: all fields that have no default, and ``metadata``. The object keeps the lists and dicts.
    """
    return store(model, {**model._defaults, **fields}, fields)


def store(model: type[AnyStored], values: dict[str, Any], given: Iterable[str]) -> AnyStored:
    """Return a content or block as `create_stored` does.

    It keeps *values*, those of all fields in order; *given* are the names of those that no default gave.
    """
    stored = object.__new__(model)
    _set_fields(stored, values)
    _set_names(stored, set(given))
    _set_extra(stored, {})
    _set_private(stored, None)
    return stored


def create_block(model: type[AnyStored], /, **fields: Any) -> AnyStored:
    """Return a block of fields of known types: their values become JSON data, as in the constructor.

    The constructor checks the types too, which takes longer than reading a message. The fields are those of
    `create_stored`.
    """
    if not are_plain_data(fields.values()):
        fields = {name: to_stored_data(value) for name, value in fields.items()}
    return create_stored(model, **fields)


class TextBlock(_StoredModel):
    """Text."""

    type: Literal["text"] = "text"
    text: str
    metadata: Metadata = Field(default_factory=dict)  #: what it carries from its provider, with the field ``provider``


class ImageBlock(_StoredModel):
    """An image."""

    type: Literal["image"] = "image"
    data: str  #: a base64 data URL (``data:image/png;base64,...``) or a URL
    metadata: Metadata = Field(default_factory=dict)


class FileBlock(_StoredModel):
    """A file, as data or as a URL."""

    type: Literal["file"] = "file"
    media_type: str | None = None  #: such as ``application/pdf``
    data: str | None = None  #: base64, or a base64 data URL
    url: str | None = None
    name: str | None = None  #: the file's name, for people and models
    metadata: Metadata = Field(default_factory=dict)


class ToolCallBlock(_StoredModel):
    """A call that the model made.

    ``parameters`` of a function call is always an object: arguments that are JSON text are parsed, and those that are
    not an object become ``{}``, with the text in ``metadata["raw_arguments"]``. Otherwise providers would refuse every
    later request with such a history (danny-avila/agents#369).
    """

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    parameters: dict[str, Any] | str = Field(default_factory=dict)  #: an object; of a ``custom`` call the text
    kind: Literal["function", "custom"] = "function"
    metadata: Metadata = Field(default_factory=dict)  #: also ``raw_id``: the provider's own id of the call

    @model_validator(mode="before")
    @classmethod
    def _parse_parameters(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind", "function") != "function":
            return value
        arguments = value.get("parameters")
        if isinstance(arguments, float):  # NaN is stored as text
            arguments = to_stored_data(arguments)
        if arguments is None:
            return {name: item for name, item in value.items() if name != "parameters"}
        if not isinstance(arguments, str):
            return value
        parameters = parse_arguments(arguments)
        if parameters is not None:
            return value | {"parameters": parameters}
        metadata = value.get("metadata")
        if not isinstance(metadata, dict) and metadata is not None:
            return value  # the field refuses it
        return value | {"parameters": {}, "metadata": {"raw_arguments": arguments, **(metadata or {})}}


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return the object of an argument text, ``{}`` for a blank text, None if it is not an object."""
    try:
        value = from_json(join_surrogates(text), allow_inf_nan=False) if text.strip() else {}
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class ToolResponseBlock(_StoredModel):
    """The result of a call.

    ``result`` is text, JSON data, or a list of parts if it shows images or files: the JSON of blocks, such as
    ``[{"type": "text", "text": "Page 1"}, {"type": "image", "data": "data:image/png;base64,..."}]`` and
    ``{"type": "file", "media_type": "application/pdf", "data": "JVBE...", "url": None, "name": "report.pdf"}``.
    ``history.tool_results`` creates it from what a tool returned, ``history.result_parts`` reads it.
    """

    type: Literal["tool_response"] = "tool_response"
    call_id: str  #: the ``id`` of the call
    name: str | None = None  #: the tool's name, if it is known
    result: Any = None  #: any JSON
    status: str | None = None  #: ``error`` for a failed call; streamkit also writes other values, such as ``denied``
    error: str | None = None  #: the error as a sentence for the model
    metadata: Metadata = Field(default_factory=dict)


class ReasoningBlock(_StoredModel):
    """The model's reasoning, and the fields by which its provider accepts it again."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    kind: Literal["text", "summary", "plan"] = "text"
    signature: str | None = None  #: the provider's proof of the reasoning's origin
    opaque: Any = None  #: the provider's complete block, if it is not text
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
    """A block of an unknown type, with all its fields. Renderers omit and report it."""

    type: str
    metadata: Metadata = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _keep_fields(self, serialize: SerializerFunctionWrapHandler) -> Any:
        fields = serialize(self)
        if "metadata" not in self.model_fields_set and not self.metadata:
            fields.pop("metadata", None)
        return fields


#: The types of the blocks that are neither calls nor results. A test for one of these two takes longer.
UNPAIRED_BLOCKS: frozenset[type[_StoredModel]] = frozenset(
    {TextBlock, ImageBlock, FileBlock, ReasoningBlock, ServerToolBlock, OpaqueBlock, UnknownBlock}
)
#: The types of the blocks that neither are images or files nor may contain some.
BLOCKS_WITHOUT_MEDIA = UNPAIRED_BLOCKS - {ImageBlock, FileBlock} | {ToolCallBlock}


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in _TAGS else "unknown"


#: Any block, distinguished by ``type``.
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
_MEMBERS = [get_args(member) for member in get_args(get_args(Block)[0])]
_TAGS: frozenset[str] = frozenset(tag.tag for _, tag in _MEMBERS)
check_total(
    "streamkit.history.content.UNPAIRED_BLOCKS",
    UNPAIRED_BLOCKS | {ToolCallBlock, ToolResponseBlock},
    (kind for kind, _ in _MEMBERS),
)


class Content(_StoredModel):
    """One message of a conversation.

    Attributes:
        speaker: ``human``, ``ai``, ``tool`` or ``system``; any other is kept, and omitted by renderers.
        blocks: the blocks of the message, in order.
        metadata: free; streamkit writes ``provider``, ``model``, ``response_id`` and ``turn_key`` for a model's turn.
    """

    _nested_models: ClassVar[frozenset[str]] = frozenset({"blocks"})

    speaker: str
    blocks: list[Block]
    metadata: Metadata = Field(default_factory=dict)

    @classmethod
    def human(cls, text: str = "", *blocks: Block) -> "Content":
        """Return a person's message: a text, and blocks after it. An empty text adds no block.

        Raises:
            UsageError: the text is no str.
        """
        return _create(cls, "human", text, blocks)

    @classmethod
    def system(cls, text: str, *blocks: Block) -> "Content":
        """Return an instruction to the model: a text, and blocks after it.

        Raises:
            UsageError: the text is no str.
        """
        return _create(cls, "system", text, blocks)

    @classmethod
    def ai(cls, text: str = "", *blocks: Block) -> "Content":
        """Return the model's message: a text, and blocks after it. An empty text adds no block.

        Raises:
            UsageError: the text is no str.
        """
        return _create(cls, "ai", text, blocks)


_CONTENT = frozenset({Content})


def to_contents(
    name: str, contents: object, *, alternative: str = "convert a provider's own messages"
) -> list[Content]:
    """Return an iterable of Contents as a list, read once.

    Args:
        name: the name of the argument.
        contents: its value, which may be what people confuse it with: a text, or a provider's own messages.
        alternative: what to do with those, up to the words ``with parse_messages(...)``.

    Raises:
        UsageError: it is something else; with what to pass instead.
    """
    if type(contents) is list and _CONTENT.issuperset(map(type, contents)):
        return list(contents)
    if isinstance(contents, (Content, str, bytes, Mapping)) or not isinstance(contents, Iterable):
        example = f"{name}=[Content.human('...')]"
        raise UsageError(f"{name} must be a list of Contents, as in {example}, not {type(contents).__name__}")
    given = list(contents)
    for number, content in enumerate(given):
        if isinstance(content, Mapping):
            raise UsageError(f"{name}[{number}] is a dict: {alternative} with parse_messages(messages, provider)")
        if not isinstance(content, Content):
            example = f"{name}[{number}] must be a Content, as Content.human('...') returns"
            raise UsageError(f"{example}, not {type(content).__name__}")
    return given


def _create(kind: "type[Content]", speaker: str, text: object, blocks: tuple[Block, ...]) -> "Content":
    if not isinstance(text, str):  # the field would take None for no text, and bytes for their base64
        given = type(text).__name__
        raise UsageError(f"the first argument is a message's text, a str, not {given}; blocks come after it")
    if blocks or not text or kind is not Content:
        return kind(speaker=speaker, blocks=[TextBlock(text=text), *blocks] if text else list(blocks))
    data = {"type": "text", "text": to_stored_data(text), "metadata": {}}
    return store(
        Content,
        {"speaker": speaker, "blocks": [store(TextBlock, data, ("text",))], "metadata": {}},
        ("speaker", "blocks"),
    )
