"""The interface between a parser and what it reports to: the sink of a turn and of each of its choices.

Rules of a parser: `frame` takes one frame of bytes, `chunk` the same as a dict; both report to the sink in the order of
the wire and return nothing. They never raise for what the wire sent: an unknown chunk goes to `Sink.unknown`, an error
that the provider reports to `Sink.fail`. They keep no text, only what the provider's protocol makes a reader keep.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from streamkit.calls import FinishReason, StreamError, TurnWarningCode, Usage
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase

__all__ = ["ChoiceSink", "Parser", "Sink"]


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
