"""What a provider is: the contract of every room in this folder, ours and third parties'.

A room turns one vendor's stream into calls on a ``Sink`` (its parser), history into the vendor's messages (its
render), and a finished turn back into the vendor's bytes (its emit). It does not know of accumulation, canonical ids'
formula, tools being run, or I/O, and no room knows another.

Strategy of a parser: ``frame`` takes one frame of bytes, ``chunk`` the same as a dict; both tell the sink what the
wire said, in the order in which it said it, and return nothing. They never raise for what the wire sent: what they
do not know goes to ``Sink.unknown``, what the provider reports as an error to ``Sink.fail``. They keep no text; what
they remember is only what the vendor's own protocol makes the reader remember.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from streamkit.calls import FinishReason, StreamError, TurnWarningCode, Usage
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["ChoiceSink", "Framing", "IdPolicy", "Parser", "Provider", "ReadsThreads", "Rendered", "Sink", "ToolChoice"]

Framing: TypeAlias = Literal["sse", "ndjson", "event_stream", "json_array"]

#: ``canonical``: every id is made from the canonical one by the target's rule. ``origin``: a call that goes back to
#: where it came from keeps the provider's own id, where that is legal and unique.
IdPolicy: TypeAlias = Literal["canonical", "origin"]

#: ``auto``, ``none``, ``required``, or the name of the one tool that must be called.
ToolChoice: TypeAlias = str


class ChoiceSink(Protocol):
    """Takes what one answer (choice) of a turn says. Blocks are opened by their first piece and keep that order.

    ``key`` names a block where the wire does (a block index, an item id); pieces with another key than the last
    block's, or of another kind, open a new block.
    """

    def text(self, text: str, key: Hashable = None) -> None:
        """The next piece of answer text."""

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """The next piece of reasoning; ``""`` opens the block, for wires whose reasoning is only a signature."""

    def refusal(self, text: str) -> None:
        """The next piece of a refusal."""

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """Add what the provider wants back with a block to the block of that key (without key: to the last block).

        Strings under a name that is there already are joined where the wire streams them (``signature``).
        """

    def tool(self, chunk: NormalizedToolChunk) -> None:
        """A piece of a client tool call."""

    def end_block(self, key: Hashable) -> None:
        """The wire says that the block or call of that key is over."""

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """The wire's own final snapshot of a call's arguments: it is authoritative."""

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """A tool that the provider runs itself. ``raw`` is the block to send back to the same provider on replay."""

    def citation(self, data: Any) -> None:
        """A source of the answer; kept with the last text block, or with the first one that comes."""

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """A file that the model made; with a key, the next piece of one: ``data`` is base64 of its own each time."""

    def provider_block(self, raw: Any) -> None:
        """A block of the provider's own, kept to be sent back to it unchanged. It makes an ``unknown`` event."""

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """The provider's reason for stopping, and what it means. May come several times; the last one wins."""


class Sink(Protocol):
    """Takes what a turn says; ``choice(0)`` is the answer, others exist where several were asked for."""

    def choice(self, index: int) -> ChoiceSink:
        """The answer of that number."""

    def identify(self, response_id: str | None, model: str | None) -> None:
        """Who answers, as soon as the wire says so; empty values change nothing, the first id stays."""

    def usage(self, usage: Usage) -> None:
        """A report of tokens."""

    def terminate(self) -> None:
        """The wire's own terminator: nothing that matters follows."""

    def heartbeat(self) -> None:
        """A ping: it says nothing, but it is this wire's."""

    def fail(self, error: StreamError) -> None:
        """The provider reported an error, or the frame is not what it should be."""

    def warn(self, code: TurnWarningCode, message: str) -> None:
        """Something odd that does not end the turn."""

    def unknown(self, raw: Any) -> None:
        """A chunk that the vocabulary has no word for."""


class Parser(Protocol):
    """Reads one stream of one vendor. Made anew for each turn."""

    def frame(self, name: bytes, data: bytes) -> None:
        """One frame: its event name (``b""`` where it has none) and its payload."""

    def chunk(self, data: dict[str, Any]) -> None:
        """One chunk as plain data: what the frame's JSON says, or a whole body of the not streamed kind."""

    def end(self) -> None:
        """The stream is over, whether or not it said so: hand on what waited for more (a block's opening arguments)."""


class Rendered(Protocol):
    """What ``render`` gives: the messages, and what it changed or left out to make them."""

    messages: list[dict[str, Any]]
    changes: list[str]


class Provider(Protocol):
    """One provider: a vendor's wire under a name.

    Facts more that it may have, where they are not what most have: ``calls_close_in_order`` (a call whose object is
    closed is over once another has begun; default False) and ``calls_need_reasoning`` (a message with calls is refused
    without the reasoning before them; default False).
    """

    @property
    def name(self) -> str:
        """The name people give to ``Turn``; a part of every canonical id."""

    @property
    def framing(self) -> Framing:
        """How its bytes are framed. A body that is plain JSON instead is recognised by itself."""

    @property
    def reuses_slots(self) -> bool:
        """A call's key may come again for another call without saying so (chat wires). Design section 5."""

    @property
    def whole_names(self) -> bool:
        """Names come whole, so a call starts at its first piece."""

    @property
    def whole_calls(self) -> bool:
        """Calls come whole, so one without arguments has none; it was not cut."""

    @property
    def batched_results(self) -> bool:
        """All results of a round go into one message (Anthropic, Gemini, Bedrock)."""

    def parser(self, sink: Sink) -> Parser:
        """A parser for one turn."""

    def detect(self, head: bytes) -> bool:
        """Whether these first bytes can only be this wire's."""

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> Rendered:
        """History as this provider's messages. System text stays out where the wire wants it elsewhere.

        A tool's result may show images and files (``providers.results.parts_of``), and they may stand beside it. What a
        tool made never raises ``UnsupportedContent``: text stands in its place, and ``changes`` says so.
        """

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """Every field of the request's body that the conversation decides; absent ones are left out."""

    def emit(
        self,
        content: Content,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
    ) -> Iterator[bytes]:
        """The stream that this answer would have been, frame by frame; ``piece`` is the characters of a delta.

        ``finish`` None means what the content says: ``tool_calls`` where it has calls, else ``stop``.
        """

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """The JSON body with which this vendor answers a bad request."""


@runtime_checkable
class ReadsThreads(Protocol):
    """What a provider may have beside: the way back from its messages to history (``providers.from_thread``)."""

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """The provider's own messages as history; ``system`` is what its wire has beside them, in its own form.

        What messages hold never raises: what is not known becomes an opaque block. A block's metadata is as a stream's:
        ``provider``, ``raw_id`` of calls and results, and by the provider's own names what it wants back.
        """
