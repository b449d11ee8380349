"""The type of a provider: its declared traits, and the functions of its package.

A provider is data and functions. The data is a frozen `Traits` object (``traits.py`` of its package). The functions are
in modules of the same package with fixed names and are loaded on first use, so that reading a stream needs neither
pydantic nor the code that builds requests. The protocols below have their signatures:

    traits.py    the Traits: limits and rules, the meaning of errors and finish reasons, the format of messages
    parser.py    create_parser; the structs of the chunks are in schema.py
    messages.py  create_renderer, build_request, and convert_media, the forms of which are in media.py
    importer.py  parse_messages; only where `Traits.has_importer`
    requests.py  read_tools, read_tool_choice, read_settings, write_settings; only where `Traits.has_settings`
    writer.py    create_writer, error_body, error_event

Two things are not in the package: the providers' registration (``PROVIDERS`` in its ``__init__.py`` lists them), and
the rules by which a provider refuses requests, which only tests need (`Traits.request_rules` names their module).

A provider's package must not depend on the accumulator, the derivation of canonical ids, the execution of tools, I/O or
another provider, except for a wire format that contains another one. This module must not depend on any provider.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Struct, structs

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UnsupportedContent, UsageError
from streamkit.providers.contract.output_form import OutputRefused, add_output_tool, check_tool_names
from streamkit.providers.contract.rendered import IdPolicy, RenderedMessages, RenderOptions, ToolChoice
from streamkit.providers.contract.sink import ChoiceSink, Parser, Sink
from streamkit.providers.contract.tool_schema import adapt_tool_schema
from streamkit.providers.contract.traits import Framing, Traits
from streamkit.providers.decoding.decoding import read_json
from streamkit.values.request_changes import Lost, RequestChange, Translated

if TYPE_CHECKING:
    from streamkit.history import Content, FileBlock, ImageBlock
    from streamkit.output import OutputType
    from streamkit.providers.requests.body_fields import BodyFields, SettingsWriter
    from streamkit.providers.requests.request import AllowedTools
    from streamkit.providers.writing.wire_output import WriterOptions
    from streamkit.providers.writing.writer import Writer
    from streamkit.tools.definition import OfferedTool
    from streamkit.tools.toolset import AnyTool

__all__ = [
    "ChoiceSink",
    "Framing",
    "IdPolicy",
    "ImporterModule",
    "MessagesModule",
    "Parser",
    "ParserModule",
    "Provider",
    "RenderOptions",
    "RenderedMessages",
    "RequestReader",
    "RequestsModule",
    "Rewrite",
    "RewritingParser",
    "Sink",
    "ToolChoice",
    "Traits",
    "WriterModule",
]


class RequestReader(Struct, frozen=True):
    """The functions that read the parts of a request's body, which they take away from its fields."""

    read_tools: Callable[[BodyFields, Any], list[OfferedTool]]  #: returns the tools, for (fields, traits)
    #: returns the tool choice, or the tools that may be called
    read_tool_choice: Callable[[BodyFields, Any], ToolChoice | AllowedTools | None]
    read_settings: Callable[[BodyFields, Any], dict[str, Any]]  #: returns the settings by their neutral names


class ParserModule(Protocol):
    """``parser.py``."""

    def create_parser(self, sink: Sink, traits: Any) -> Parser:
        """Return a parser of one turn that reports to ``sink``."""


class MessagesModule(Protocol):
    """``messages.py``."""

    def create_renderer(self, traits: Any, options: RenderOptions) -> Any:
        """Return the ``MessageRenderer`` of one conversation."""

    def build_request(
        self,
        rendered: RenderedMessages,
        traits: Any,
        *,
        tools: Sequence[OfferedTool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        output: OutputType[Any] | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a request's body that the conversation decides."""

    def convert_media(self, block: Any, traits: Any) -> object:
        """Return an image or file in the form that a message has it."""


class ImporterModule(Protocol):
    """``importer.py``."""

    def parse_messages(
        self, messages: Sequence[dict[str, Any]], traits: Any, *, system: Any = None, changes: list[str] | None = None
    ) -> list[Content]:
        """Return the provider's own messages as history."""


class RequestsModule(Protocol):
    """``requests.py``."""

    def read_tools(self, fields: BodyFields, traits: Any) -> list[OfferedTool]:
        """Take the tools of a body and return them."""

    def read_tool_choice(self, fields: BodyFields, traits: Any) -> ToolChoice | AllowedTools | None:
        """Take the tool choice of a body and return it, or the tools that may be called."""

    def read_settings(self, fields: BodyFields, traits: Any) -> dict[str, Any]:
        """Take the settings of a body and return them by their neutral names."""

    def write_settings(self, writer: SettingsWriter, traits: Any) -> None:
        """Write the settings into the body."""


class WriterModule(Protocol):
    """``writer.py``."""

    def create_writer(self, traits: Any, options: WriterOptions) -> Writer:
        """Return a writer of one response."""

    def error_body(self, status: int, message: str, code: str | None = None) -> dict[str, Any]:
        """Return the JSON body of a response to a request that failed."""

    def error_event(self, status: int, message: str, code: str | None = None) -> bytes:
        """Return the frame that reports an error within a stream."""


#: Returns one chunk, as plain data, in the form that the parser of the wire expects.
Rewrite: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class RewritingParser:
    """A parser that rewrites each chunk for another parser. Frames that are no JSON object are passed on unchanged.

    Args:
        parser: reads the rewritten chunks.
        rewrite: returns the chunk in the expected form; its exceptions propagate from ``feed``.
    """

    __slots__ = ("_parser", "_rewrite")

    def __init__(self, parser: Parser, rewrite: Rewrite) -> None:
        self._parser = parser
        self._rewrite = rewrite

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one frame."""
        try:
            chunk = None if name == b"error" else read_json(data)
        except (ValueError, RecursionError):
            chunk = None
        if isinstance(chunk, dict):
            self.chunk(chunk)
        else:
            self._parser.frame(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one chunk given as a dict.

        Raises:
            UsageError: ``rewrite`` returned something else than a dict.
        """
        rewritten = self._rewrite(data)
        if not isinstance(rewritten, dict):
            raise UsageError(f"rewrite must return a chunk as a dict, not {type(rewritten).__name__}")
        self._parser.chunk(rewritten)

    def end(self) -> None:
        """End the stream."""
        self._parser.end()


class Provider:
    """One provider: its traits and the functions of its package.

    A third party's provider may be a subclass that overrides the methods instead of having a package.

    Args:
        traits: its declared facts.
        package: the name of the package with its modules (see the docstring of this module).
        rewrite: applied to every chunk, as a dict, before it is parsed; for differences that no trait describes.

    Attributes:
        name: the name that users pass to ``Turn``; a part of every canonical id.
    """

    def __init__(self, traits: Traits, package: str = "", *, rewrite: Rewrite | None = None) -> None:
        self.traits = traits
        self.name: str = traits.name
        self.package = package
        self.rewrite = rewrite
        self._create_parser: Callable[[Sink, Any], Parser] | None = None  # found once: every turn needs it

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> Parser:
        """Return a parser for one turn that reports to ``sink``."""
        create = self._create_parser
        if create is None:
            module: ParserModule = _import(self.package, "parser")
            create = self._create_parser = module.create_parser
        parser = create(sink, self.traits)
        if self.rewrite is None:
            return parser
        return RewritingParser(parser, self.rewrite)

    def render(
        self,
        contents: Sequence[Content],
        *,
        ids: IdPolicy = "origin",
        model: str | None = None,
        endpoint: str | None = None,
        used_ids: Collection[str] = frozenset(),
        is_json_data: bool = False,
    ) -> RenderedMessages:
        """Return a conversation as this provider's messages.

        A tool's result may contain images and files (``rendering.media.media_parts``), or they may be next to it.
        They never raise ``UnsupportedContent``: text replaces them if necessary, and ``changes`` reports that.

        The arguments are those of ``providers.render``, and ``used_ids``: ids of calls in messages that precede these
        contents, which no call gets; ``is_json_data``: the values of all blocks are known to be JSON data, so they are
        not checked again.

        Raises:
            UnsupportedContent: a user's image or file has a form that the provider does not accept.
        """
        from streamkit.history.input_checks import prepare_contents

        changes: list[RequestChange] = []
        prepared = prepare_contents(contents, changes, has_plans=self.traits.tool_plans, is_json_data=is_json_data)
        module: MessagesModule = _import(self.package, "messages")
        options = RenderOptions(ids, model, endpoint, frozenset(used_ids))
        rendered: RenderedMessages = module.create_renderer(self.traits, options).render(prepared)
        rendered.model = model
        rendered.changes[:0] = changes
        return rendered

    def create_renderer(self, options: RenderOptions) -> Any:
        """Return the ``MessageRenderer`` of one conversation of JSON data."""
        module: MessagesModule = _import(self.package, "messages")
        return module.create_renderer(self.traits, options)

    def call_ids(self, messages: Sequence[Any]) -> set[str]:
        """Return the ids of the calls in this provider's own messages."""
        if not messages:
            return set()
        values: list[Any] = list(messages)
        for name in self.traits.call_id_path:
            found = [value[name] for value in values if isinstance(value, dict) and name in value]
            values = [item for value in found for item in (value if isinstance(value, list) else [value])]
        return {value for value in values if isinstance(value, str)}

    def build_request(
        self,
        rendered: RenderedMessages,
        *,
        tools: Sequence[AnyTool | OfferedTool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        output: OutputType[Any] | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a request's body that depend on the conversation; absent ones are left out.

        Args:
            rendered: the messages, as ``render`` returned them or with ``messages`` replaced by the caller's own. They
                are not modified; ``changes`` receives a sentence for each change of this request.
            tools: functions, tools, definitions, and the provider's own declarations.
            tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the provider.
            stream: whether the response is to be streamed, with usage.
            output: the type of a structured output. Where a field of the request takes its schema it is there, else
                the model must call a tool of this schema (``output.OUTPUT_TOOL``), which ``changes`` reports. A type
                that is no object is the one member of an object where the provider accepts only objects.

        Raises:
            UsageError: ``tool_choice`` names no tool, a strict tool's schema cannot be converted, a schema is nested
                too deeply, or a tool has the name of the output's own.
        """
        from streamkit.tools.definition import to_definitions

        module: MessagesModule = _import(self.package, "messages")
        build = partial(module.build_request, rendered, self.traits, stream=stream)
        definitions = to_definitions(tools, self.name)
        if definitions:
            definitions = [self._adapt_tool(tool, rendered) for tool in definitions]
        if output is None:
            return build(tools=definitions, tool_choice=tool_choice)
        support = self.traits.output
        reason = support.reason_without_field(rendered.model, stream=stream, has_tools=bool(definitions))
        check_tool_names(tool.name for tool in definitions)
        if reason is None:
            try:
                written = output if support.any_root else output.as_object()
                return build(tools=definitions, tool_choice=tool_choice, output=written)
            except OutputRefused as error:
                reason = str(error)
        rendered.report(Translated(f"the output is requested as the arguments of a tool of {self.name}: {reason}"))
        all_tools, choice = add_output_tool(output, definitions, tool_choice)
        return build(tools=[self._adapt_tool(tool, rendered) for tool in all_tools], tool_choice=choice)

    def _adapt_tool(self, tool: OfferedTool, rendered: RenderedMessages) -> OfferedTool:
        """Return the tool, or a copy with a schema that the provider accepts; one in its own form is unchanged."""
        from streamkit.tools.definition import HostedTool

        if isinstance(tool, HostedTool) or tool.metadata.get("provider") == self.name:
            return tool
        if tool.kind == "custom" and not self.traits.custom_calls:
            if tool.grammar is not None:
                sentence = f"the grammar of the tool {tool.name} is only described: {self.name} enforces none"
                rendered.report(Lost(sentence))
            tool = tool.as_function()
        schema, changes = adapt_tool_schema(tool.name, tool.parameters, self.traits.tool_schema)
        for change in changes:
            rendered.report(Translated(f"the schema of the tool {tool.name} was changed for {self.name}: {change}"))
        return tool if schema == tool.parameters else tool.with_parameters(schema)

    def carries(self, block: ImageBlock | FileBlock, speaker: str = "human") -> bool:
        """Return False if ``render`` would raise ``UnsupportedContent`` for this image or file of a speaker."""
        if speaker not in self.traits.media_speakers:
            return True  # the renderer leaves it out and reports that
        from streamkit.history.input_checks import check_media_data

        try:
            check_media_data(block)
            module: MessagesModule = _import(self.package, "messages")
            module.convert_media(block, self.traits)
        except UnsupportedContent:
            return False
        return True

    def parse_messages(
        self, messages: Sequence[dict[str, Any]], *, system: Any = None, changes: list[str] | None = None
    ) -> list[Content]:
        """Return the provider's own messages as history; ``system`` is the system text that is separate from them.

        ``changes`` receives a sentence for each part that was kept as an opaque block, and for each field left out.

        Nothing that a message contains raises: an unknown part becomes an opaque block. A block has the same metadata
        as one from a stream: ``provider``, ``raw_id`` of calls and results, and opaque state by the provider's names.

        Raises:
            UsageError: the provider's messages cannot be converted.
        """
        if not self.traits.has_importer:
            raise UsageError(f"messages of the provider {self.name!r} cannot be converted to history")
        module: ImporterModule = _import(self.package, "importer")
        return module.parse_messages(messages, self.traits, system=system, changes=changes)

    def emit(
        self,
        content: Content,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
        framing: Framing | None = None,
    ) -> Iterator[bytes]:
        """Return the stream of a response with this content, frame by frame.

        Args:
            content: the assistant's content.
            response_id: the id of the response.
            model: the model's name.
            finish: None means ``tool_calls`` if the content has calls, else ``stop``.
            usage: the tokens to report.
            delta_size: the number of characters of one delta, at least 1.
            framing: another framing that the provider supports; None for its usual one.

        Raises:
            UsageError: ``delta_size`` is below 1.
        """
        if delta_size < 1:
            raise UsageError(f"delta_size must be a number of characters, at least 1, not {delta_size!r}")
        from streamkit.providers.writing.content_events import write_content

        writer = self.writer(response_id=response_id, model=model, framing=framing)
        return write_content(writer, content, finish=finish, usage=usage, delta_size=delta_size)

    def writer(
        self,
        *,
        response_id: str | None = None,
        model: str | None = None,
        stream: bool = True,
        framing: Framing | None = None,
        usage_chunk: bool = True,
    ) -> Writer:
        """Return a writer of one response: ``registry.writer`` describes it and the arguments."""
        from streamkit.providers.writing.wire_output import WriterOptions

        traits = self.traits if framing is None else structs.replace(self.traits, framing=framing)
        module: WriterModule = _import(self.package, "writer")
        return module.create_writer(traits, WriterOptions(response_id, model, stream, usage_chunk))

    def error_body(self, status: int, message: str, code: str | None = None) -> dict[str, Any]:
        """Return the JSON body of this provider's response to a request that failed.

        *message* is the sentence for people, *code* the provider's own code, type or name of the error; None for the
        usual one of that HTTP status.
        """
        module: WriterModule = _import(self.package, "writer")
        return module.error_body(status, message, code)

    def error_event(self, status: int, message: str, code: str | None = None) -> bytes:
        """Return the frame that reports an error within a stream; the arguments are those of ``error_body``."""
        module: WriterModule = _import(self.package, "writer")
        return module.error_event(status, message, code)

    def request_reader(self) -> RequestReader:
        """Return the functions that read a request's body.

        Raises:
            UsageError: the package has none.
        """
        if not (self.traits.has_settings and self.traits.has_importer):
            raise UsageError(f"requests of the provider {self.name!r} cannot be read")
        module: RequestsModule = _import(self.package, "requests")
        return RequestReader(module.read_tools, module.read_tool_choice, module.read_settings)

    def write_settings(self, writer: SettingsWriter) -> None:
        """Write settings into a request's body, and report those that the provider cannot have."""
        if self.traits.has_settings:
            module: RequestsModule = _import(self.package, "requests")
            module.write_settings(writer, self.traits)
        else:
            writer.write_limit()
            writer.write_rest()


@cache
def _import(package: str, name: str) -> Any:
    """Return a module of a provider's package; it is found once, as an import looks at locks and the parent package."""
    try:
        return import_module(path := f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise  # of something that the module itself imports
        lacks = f"the provider of the package {package!r} has no module {path!r}, which {_MODULES[name]}"
        raise UsageError(lacks) from error


_MODULES: Final = {
    "parser": "reads its streams",
    "messages": "writes messages and requests",
    "importer": "reads messages, unless has_importer=False",
    "requests": "reads and writes tools and settings, unless has_settings=False",
    "writer": "writes its streams",
}
