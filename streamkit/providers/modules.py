"""The modules of a provider's package as types, and what their functions return and take.

``provider.py`` describes the modules. This one must not depend on any provider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from streamkit.providers.contract.origin import RenderOptions
from streamkit.providers.contract.rendered import RenderedMessages, ToolChoice
from streamkit.providers.contract.sink import Parser, Sink

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.output import OutputType
    from streamkit.providers.requests.body_fields import BodyFields
    from streamkit.providers.requests.settings import SettingsWriter
    from streamkit.providers.writing.wire_output import WriterOptions
    from streamkit.providers.writing.writer import Writer
    from streamkit.tools.definition import OfferedTool

__all__ = [
    "ImporterModule",
    "MessagesModule",
    "ParserModule",
    "RequestReader",
    "RequestsModule",
    "WriterModule",
]


class RequestReader(Struct, frozen=True):
    """The functions that read the parts of a request's body, which they take away from its fields.

    Attributes:
        read_tools: returns the tools, for (fields, traits).
        read_tool_choice: returns the tool choice.
        read_settings: returns the settings by their neutral names.
    """

    read_tools: Callable[[BodyFields, Any], list[OfferedTool]]
    read_tool_choice: Callable[[BodyFields, Any], ToolChoice | None]
    read_settings: Callable[[BodyFields, Any], dict[str, Any]]


class ParserModule(Protocol):
    """``parser.py``."""

    def create_parser(self, sink: Sink, traits: Any) -> Parser:
        """Return a parser of one turn that reports to ``sink``."""
        ...


class MessagesModule(Protocol):
    """``messages.py``."""

    def render_messages(self, contents: Sequence[Content], traits: Any, options: RenderOptions) -> RenderedMessages:
        """Return a conversation as the provider's messages."""
        ...

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
        ...

    def convert_media(self, block: Any, traits: Any) -> object:
        """Return an image or file in the form that a message has it."""
        ...


class ImporterModule(Protocol):
    """``importer.py``."""

    def parse_messages(
        self, messages: Sequence[dict[str, Any]], traits: Any, *, system: Any = None, changes: list[str] | None = None
    ) -> list[Content]:
        """Return the provider's own messages as history."""
        ...


class RequestsModule(Protocol):
    """``requests.py``."""

    def read_tools(self, fields: BodyFields, traits: Any) -> list[OfferedTool]:
        """Take the tools of a body and return them."""
        ...

    def read_tool_choice(self, fields: BodyFields, traits: Any) -> ToolChoice | None:
        """Take the tool choice of a body and return it."""
        ...

    def read_settings(self, fields: BodyFields, traits: Any) -> dict[str, Any]:
        """Take the settings of a body and return them by their neutral names."""
        ...

    def write_settings(self, writer: SettingsWriter, traits: Any) -> None:
        """Write the settings into the body."""
        ...


class WriterModule(Protocol):
    """``writer.py``."""

    def create_writer(self, traits: Any, options: WriterOptions) -> Writer:
        """Return a writer of one response."""
        ...

    def error_body(self, status: int, message: str, code: str | None = None) -> dict[str, Any]:
        """Return the JSON body of a response to a request that failed."""
        ...

    def error_event(self, status: int, message: str, code: str | None = None) -> bytes:
        """Return the frame that reports an error within a stream."""
        ...
