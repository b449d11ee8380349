"""The type of a provider: its declared traits, and the functions of its package.

A provider is data and functions. The data is a frozen `Traits` object (``traits.py`` of its package). The functions are
in modules of the same package with fixed names and are loaded on first use, so that reading a stream needs neither
pydantic nor the code that builds requests:

    parser.py    create_parser(sink, traits)
    messages.py  render_messages(contents, traits, ids=), build_request(rendered, traits, tools=, ...), convert_media
    importer.py  parse_messages(messages, traits, system=); only where `Traits.has_importer`
    request_rules.py  list_rules(traits); only where `Traits.has_request_rules`
    encoder.py   emit(content, traits, ...), error_body(status, message)

A provider's package must not depend on the accumulator, the derivation of canonical ids, the execution of tools, I/O or
another provider, except for a wire format that contains another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

from streamkit.calls import ALL_MARKUP_FAMILIES, FinishReason, MarkupFamily, Usage, WireTraits
from streamkit.errors import UnsupportedContent, UsageError
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.rewriting import Rewrite, RewritingParser
from streamkit.providers.sink import ChoiceSink, Parser, Sink
from streamkit.target_ids import DEFAULT_ID_RULE, IdRule

if TYPE_CHECKING:
    from streamkit.history import Content, FileBlock, ImageBlock
    from streamkit.providers.request_rule import Rule
    from streamkit.tools import Tool

__all__ = [
    "ChoiceSink",
    "Framing",
    "IdPolicy",
    "Parser",
    "Provider",
    "RenderedMessages",
    "Rewrite",
    "Sink",
    "ToolChoice",
    "Traits",
]

Framing: TypeAlias = Literal["sse", "ndjson", "event_stream", "json_array"]

#: ``canonical``: every id is derived from the canonical one by the target's rule. ``origin``: a call that is sent back
#: to its provider keeps that provider's own id, if it is legal and unique.
IdPolicy: TypeAlias = Literal["canonical", "origin"]

#: ``auto``, ``none``, ``required``, or the name of the one tool that must be called.
ToolChoice: TypeAlias = str


def _matches_nothing(_: bytes) -> bool:
    return False


def _sign_nothing(model: str, seed: str) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Traits(WireTraits):
    """The declared facts of one provider. Every field except the name has a default. No code may infer them otherwise.

    Attributes:
        name: the provider's name; a part of every canonical id.
        framing: how its bytes are delimited. A body of plain JSON instead is recognized automatically.
        matches_head: returns True if the first bytes of a body (without byte order mark and leading whitespace) can
            only have this wire format.
        compatible: other providers whose opaque state (signatures, item ids, own blocks) this one accepts.
        id_rule: the rule for ids of calls.
        default_ids: the id policy if the caller sets none.
        messages_field: the field of a request's body that holds the messages.
        batched_results: all results of a round are in one message.
        calls_need_reasoning: a message with calls is rejected without the reasoning before them.
        media_speakers: the speakers whose images and files are sent to the provider; those of others are left out.
        sign_call: returns the metadata with which the provider signs the first call of a response, for (model, seed);
            the same seed gives the same metadata. The embedded server uses it.
        signature_fields: metadata names under which this provider signs calls.
        has_request_rules: the package contains rules for requests (``request_rules.py``).
        has_importer: the package can convert the provider's own messages to history (``importer.py``).
        event_name_field: the field of a chunk that names its SSE event; None if events have no names.
        wrapper_event: the AWS event whose payload contains the chunk in base64; None if the event's name is the chunk's
            only member.
        line_end: the line end of its SSE streams.
        endpoint: its HTTP endpoint.
        markup_families: the tool-call markup that its models may leave in the text, which ``leaked_markup`` of ``Turn``
            removes or recovers; by default every family, as for a server of any model.
        end_marker: the payload that follows the chunks and ends a stream, such as ``[DONE]``; None if there is none.
    """

    name: str
    framing: Framing = "sse"
    matches_head: Callable[[bytes], bool] = field(default=_matches_nothing, repr=False, compare=False)
    compatible: frozenset[str] = frozenset()
    id_rule: IdRule = DEFAULT_ID_RULE
    default_ids: IdPolicy = "canonical"
    messages_field: str = "messages"
    batched_results: bool = False
    calls_need_reasoning: bool = False
    media_speakers: frozenset[str] = frozenset({"human", "tool"})
    signature_fields: tuple[str, ...] = ()
    sign_call: Callable[[str, str], dict[str, Any]] = field(default=_sign_nothing, repr=False, compare=False)
    has_importer: bool = True
    has_request_rules: bool = True
    event_name_field: str | None = None
    wrapper_event: str | None = None
    line_end: str = "\n"
    end_marker: str | None = None
    markup_families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES
    endpoint: Endpoint = field(default_factory=Endpoint)

    def accepts_state(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if a block with this metadata is from this provider or a compatible one."""
        origin = metadata.get("provider")
        return origin == self.name or origin in self.compatible


@dataclass(slots=True)
class RenderedMessages:
    """A conversation in the form of one provider's messages.

    Attributes:
        messages: the provider's own messages, in order.
        system: system text, if the wire has it outside of the messages; else None.
        spans: for each content that was rendered, the range ``(start, stop)`` of ``messages`` that contains it.
            Contents that share a message have overlapping ranges; a content without a message has an empty range.
        request_fields: further fields of a request's body that depend on the conversation.
        changes: a sentence for each thing that was changed or left out because the target cannot carry it.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    system: str | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    request_fields: dict[str, Any] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)


class _ParserModule(Protocol):
    def create_parser(self, sink: Sink, traits: Any) -> Parser: ...


class _MessagesModule(Protocol):
    def render_messages(
        self, contents: Sequence[Content], traits: Any, *, ids: IdPolicy | None = None
    ) -> RenderedMessages: ...

    def build_request(
        self,
        rendered: RenderedMessages,
        traits: Any,
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
    ) -> dict[str, Any]: ...

    def convert_media(self, block: Any, traits: Any) -> object: ...


class _ImporterModule(Protocol):
    def parse_messages(
        self, messages: Sequence[dict[str, Any]], traits: Any, *, system: Any = None
    ) -> list[Content]: ...


class _RequestRulesModule(Protocol):
    def list_rules(self, traits: Any) -> tuple[Rule, ...]: ...


class _EncoderModule(Protocol):
    def emit(
        self,
        content: Content,
        traits: Any,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
    ) -> Iterator[bytes]: ...

    def error_body(self, status: int, message: str) -> dict[str, Any]: ...


class Provider:
    """One provider: its traits and the functions of its package.

    A third party's provider may be a subclass that overrides the methods instead of having a package.

    Args:
        traits: its declared facts.
        package: the name of the package with its modules (see the docstring of this module).
        rewrite: applied to every chunk, as a dict, before it is parsed; for differences that no trait describes.
    """

    def __init__(self, traits: Traits, package: str = "", *, rewrite: Rewrite | None = None) -> None:
        self.traits = traits
        self.package = package
        self.rewrite = rewrite
        self._create_parser: Callable[[Sink, Any], Parser] | None = None  # found once: every turn needs it

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    @property
    def name(self) -> str:
        """The name that users pass to ``Turn``; a part of every canonical id."""
        return self.traits.name

    def parser(self, sink: Sink) -> Parser:
        """Return a parser for one turn that reports to ``sink``."""
        create = self._create_parser
        if create is None:
            create = self._create_parser = cast(_ParserModule, self._module("parser")).create_parser
        parser = create(sink, self.traits)
        if self.rewrite is None:
            return parser
        return RewritingParser(parser, self.rewrite)

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """Return a conversation as this provider's messages.

        A tool's result may contain images and files (``tool_result_media.result_parts``), or they may be next to it.
        They never raise ``UnsupportedContent``: text replaces them if necessary, and ``changes`` reports that.

        Raises:
            UnsupportedContent: a user's image or file has a form that the provider does not accept.
        """
        return self._messages.render_messages(contents, self.traits, ids=ids or self.traits.default_ids)

    def build_request(
        self,
        rendered: RenderedMessages,
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
    ) -> dict[str, Any]:
        """Return the fields of a request's body that depend on the conversation; absent ones are left out.

        Args:
            rendered: the messages, as ``render`` returned them or with ``messages`` replaced by the caller's own. They
                are not modified.
            tools: the tools to offer.
            tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the provider.
            stream: whether the response is to be streamed, with usage.

        Raises:
            UsageError: ``tool_choice`` names no tool, or a strict tool's schema cannot be converted.
        """
        return self._messages.build_request(rendered, self.traits, tools=tools, tool_choice=tool_choice, stream=stream)

    def carries(self, block: ImageBlock | FileBlock, speaker: str = "human") -> bool:
        """Return False if ``render`` would raise ``UnsupportedContent`` for this image or file of a speaker."""
        if speaker not in self.traits.media_speakers:
            return True  # the renderer leaves it out and reports that
        try:
            self._messages.convert_media(block, self.traits)
        except UnsupportedContent:
            return False
        return True

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """Return the provider's own messages as history; ``system`` is the system text that is separate from them.

        Nothing that a message contains raises: an unknown part becomes an opaque block. A block has the same metadata
        as one from a stream: ``provider``, ``raw_id`` of calls and results, and opaque state by the provider's names.

        Raises:
            UsageError: the provider's messages cannot be converted.
        """
        if not self.traits.has_importer:
            raise UsageError(f"messages of the provider {self.name!r} cannot be converted to history")
        return cast(_ImporterModule, self._module("importer")).parse_messages(messages, self.traits, system=system)

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
        traits = self.traits if framing is None else replace(self.traits, framing=framing)
        return self._encoder.emit(
            content, traits, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """Return the JSON body of this provider's response to an invalid request."""
        return self._encoder.error_body(status, message)

    def request_rules(self) -> tuple[Rule, ...]:
        """Return the rules for requests that this provider enforces with status 400; empty if none are known."""
        if not self.package or not self.traits.has_request_rules:
            return ()
        return cast(_RequestRulesModule, self._module("request_rules")).list_rules(self.traits)

    @property
    def _messages(self) -> _MessagesModule:
        return cast(_MessagesModule, self._module("messages"))

    @property
    def _encoder(self) -> _EncoderModule:
        return cast(_EncoderModule, self._module("encoder"))

    def _module(self, name: str) -> object:
        return import_module(f"{self.package}.{name}")
