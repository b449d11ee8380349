"""The protocols of a parser and of its sinks: one sink for the turn and one for each of its choices.

Rules of a parser:

- `frame` accepts one frame of bytes, `chunk` the same as a dict. Both call the sink in the order of the wire and return
  nothing.
- They never raise for the contents of a stream. An unknown chunk is passed to `Sink.unknown`, an error that the
  provider reports to `Sink.fail`. Only the ``RecursionError`` of a chunk that is nested too deeply may pass: it ends
  the turn with `limit_exceeded`.
- They store no text, except where the provider's protocol requires it, and count what they store (``Sink.keep``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

from streamkit.calls import FinishReason, StreamError, TurnWarningCode, Usage
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase, TokenLogProbability

__all__ = ["ChoiceSink", "Parser", "Sink"]


class ChoiceSink(Protocol):
    """The sink of one choice of a turn. The first delta of a block opens it; blocks stay in this order.

    ``key`` identifies a block if the wire does (a block index, an item id): it is open until ``end_block`` or the end
    of the turn, and its deltas may alternate with those of other blocks. Without a key a delta belongs to the last
    block, or opens a new one if that is of another kind or has a key, and any other block ends such a block.
    """

    def text(self, text: str, key: Hashable = None) -> None:
        """Add the next delta of the text."""

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """Add the next delta of reasoning; ``""`` opens the block, for wires that send only a signature."""

    def refusal(self, text: str, key: Hashable = None) -> None:
        """Add the next delta of a refusal."""

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """Add opaque state to the block of that key (without a key: to the last block), to be sent back with it.

        If the block has a string under the same name and the wire streams that field (``signature``), both are joined.
        """

    def tool(self, chunk: NormalizedToolChunk) -> None:
        """Add the next delta of a client tool call."""

    def arguments(self, text: str, key: Hashable) -> None:
        """Add the next text of the arguments of the call of a key: a delta for ``tool`` that has nothing else."""

    def has_block(self, kind: str) -> bool:
        """Return True if the choice has a block of that kind, such as ``text``, ``reasoning``, ``call`` or ``file``."""

    def end_block(self, key: Hashable) -> None:
        """End the block or call of that key."""

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """Replace a call's arguments by the wire's own final snapshot, which is authoritative."""

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """Report a tool that the provider runs. ``raw`` is the block to send back to the same provider on replay."""

    def server_tool_delta(self, id: str | None, name: str, arguments_delta: str) -> None:
        """Report the next text of a server tool's arguments; ``server_tool`` gets the parsed arguments at their end."""

    def citation(self, data: Any, key: Hashable = None) -> None:
        """Add a citation, in the wire's own form, to the text block of that key.

        Without a key it is the last text block, or the first one that follows if there is none.
        """

    def log_probabilities(self, tokens: Sequence[TokenLogProbability], raw: Any) -> None:
        """Report the log probabilities of the next tokens, and ``raw``, the wire's own form of them."""

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """Add a file that the model generated; with a key, the next part of one, each part a base64 text by itself."""

    def provider_block(self, raw: Any) -> None:
        """Add a block that only the provider understands, to be sent back unchanged; it causes an ``unknown`` event."""

    def compaction(self, raw: Any, summary: str | None) -> None:
        """Add a block with the summary of the conversation before it, as ``provider_block``, and report the summary.

        ``summary`` is its text, None where it is encrypted.
        """

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """Set the provider's finish reason and its meaning. Of several calls the last one counts."""


class Sink(Protocol):
    """The sink of one turn. ``choice(0)`` always exists, others if the request asked for several."""

    @property
    def model(self) -> str | None:
        """The model that the response names, or else the requested one; None if neither is known."""

    def choice(self, index: int) -> ChoiceSink:
        """Return the sink of the choice with that index."""

    def identify(self, response_id: str | None, model: str | None, facts: Mapping[str, Any] | None = None) -> None:
        """Set the response id and the model. Empty values change nothing, and the first id stays.

        Every call shows that the stream has this wire format.

        Args:
            response_id: the id.
            model: the model.
            facts: what the wire states at the start of a response and nobody needs later: its time, the settings of
                its request. It is in the metadata of ``ResponseStarted`` and is not kept.
        """

    def add_response_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add facts about the response that have no field of their own (service tier, upstream provider)."""

    def usage(self, usage: Usage) -> None:
        """Add a report of token usage."""

    def terminate(self) -> None:
        """Report the wire's terminator: nothing relevant follows it.

        It confirms the turn only if a chunk had this wire format before: one with content or a finish reason, or one
        reported by ``identify`` or ``heartbeat``.
        """

    def heartbeat(self) -> None:
        """Report a chunk that has no content, but shows that the stream has this wire format.

        A ping that other wires have too shows nothing and is not reported.
        """

    def fail(self, error: StreamError) -> None:
        """End the turn with an error that the provider reported, or with that of a malformed frame."""

    def warn(self, code: TurnWarningCode, message: str) -> None:
        """Report an irregularity that does not end the turn."""

    def unknown_field(self, name: str, value: Any) -> None:
        """Report a field of a delta that no event describes: the warning ``unknown_field``, once for each name."""

    def keep(self, size: int) -> bool:
        """Count characters that the parser keeps itself, against ``Limits.text``. Negative: it has dropped them.

        Returns:
            False if they are too many: the turn has ended, and the parser should not keep them.
        """

    def join_with(self, join: Callable[[], int]) -> None:
        """Set a function that joins the short texts that the parser collects, and returns how many it joined.

        It is called about once a thousand characters. A list of short texts costs many times the memory of one text.
        """

    def unknown(self, raw: Any) -> None:
        """Report a chunk that no event describes."""


class Parser(Protocol):
    """A parser of one provider's stream. Each turn has a new one."""

    def frame(self, name: bytes, data: bytes) -> None:
        """Parse one frame: its event name (``b""`` if it has none) and its payload."""

    def chunk(self, data: dict[str, Any]) -> None:
        """Parse one chunk as plain data: a frame's decoded JSON, or a complete body that was not streamed."""

    def end(self) -> None:
        """End the stream, with or without a terminator, and report buffered data (a block's opening arguments)."""
