"""The values that outlive a stream: calls and their results, usage, the finish, an error, a warning.

Frozen msgspec structs. Nothing here knows how a stream says any of this, nor how a tool is run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct, field

__all__ = [
    "CallKind",
    "CallRef",
    "CallState",
    "ErrorKind",
    "Finish",
    "FinishReason",
    "ResultStatus",
    "ServerCall",
    "StreamError",
    "StreamWarning",
    "ToolCall",
    "ToolResult",
    "Usage",
    "WireTraits",
]

CallKind = Literal["function", "custom"]
CallState = Literal["complete", "incomplete", "invalid"]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "refusal", "pause", "error", "other"]
ErrorKind = Literal["provider_error", "protocol_error", "stream_truncated", "transport_error", "limit_exceeded"]
ResultStatus = Literal["completed", "error", "denied", "timed_out", "canceled"]


@dataclass(frozen=True, kw_only=True)
class WireTraits:
    """How a wire sends tool calls: the facts that the accumulator depends on.

    Attributes:
        reuses_slots: a call's key may come again for another call without an announcement (chat wires).
        whole_names: names come whole, so a call starts at its first delta.
        whole_calls: calls come whole, so a call without arguments has none; it was not truncated.
        calls_end_in_order: a call whose object is closed has ended once another call began.
    """

    reuses_slots: bool = False
    whole_names: bool = True
    whole_calls: bool = False
    calls_end_in_order: bool = False


class CallRef(Struct, frozen=True, gc=False):
    """Which call an event speaks of. The same object from the call's start to its result."""

    id: str  #: canonical id, ``hist_tool_`` and 24 characters of base64url
    name: str  #: the whole name of the tool
    index: int  #: position among the turn's client calls, from 0, in order of first appearance


class StreamWarning(Struct, frozen=True):
    """Something odd that did not end the turn."""

    code: str  #: a stable word, such as ``slot_reused``
    message: str  #: a sentence for people, with the values
    call_id: str | None = None  #: canonical id of the call it concerns, where it concerns one


class ToolCall(Struct, frozen=True, kw_only=True):
    """One tool call of a model, as far as it is known.

    Attributes:
        id: canonical id; the same on every machine and at every replay of the stream.
        name: the tool's name; empty only where the wire never sent one (then ``state`` is ``invalid``).
        index: position among the turn's client calls, from 0.
        raw_id: the provider's own id, None where the wire gave none.
        kind: ``function`` (arguments are a JSON object) or ``custom`` (arguments are free text).
        arguments: the object (for ``custom`` the text); None unless ``state`` is ``complete``.
        arguments_text: the argument text that stands, as the wire sent it.
        partial: the arguments as far as they are there; for display, never for execution. While the call is open, all
            its readings show one dict, kept up with the stream: copy it to keep it, and do not change it.
        state: ``incomplete`` until the turn ends, then ``complete``, ``incomplete`` or ``invalid``.
        sealed: the wire said that this call is over.
        metadata: what the provider wants back with the call (signatures, item ids), by its own names.
        warnings: what was odd about this call.
    """

    id: str
    name: str
    index: int
    raw_id: str | None = None
    kind: CallKind = "function"
    arguments: Any = None
    arguments_text: str = ""
    partial: dict[str, Any] = field(default_factory=dict)
    state: CallState = "incomplete"
    ended: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[StreamWarning, ...] = ()

    @property
    def ref(self) -> CallRef:
        """The call as events name it."""
        return CallRef(self.id, self.name, self.index)


class ServerCall(Struct, frozen=True, kw_only=True):
    """A call that the provider ran itself. It is never executed here."""

    id: str | None  #: the provider's id
    name: str  #: such as ``web_search``
    arguments: Any = None  #: what the tool was given, where the wire says it
    result: Any = None  #: what came of it, in the provider's own form; None where the turn ended before it


class ToolResult(Struct, frozen=True):
    """What came of one call. Every call gets exactly one."""

    call: ToolCall
    status: ResultStatus
    value: Any = None  #: what the tool returned; None unless ``completed``
    error: str | None = None  #: a sentence for the model; None where ``completed``
    #: ``effects_possible``: the tool began before the turn had ended, and this is not what came of that.
    metadata: dict[str, Any] = field(default_factory=dict)


class Usage(Struct, frozen=True):
    """Tokens of one turn. ``None`` where the provider gave no figure."""

    input_tokens: int | None = None  #: the whole prompt, cached tokens included
    output_tokens: int | None = None  #: all that was generated, reasoning included
    reasoning_tokens: int | None = None  #: of the output
    cache_read_tokens: int | None = None  #: of the input, read from the provider's cache
    cache_write_tokens: int | None = None  #: of the input, written to it
    raw: Any = None  #: the provider's last report

    @staticmethod
    def sum(reports: Iterable[Usage]) -> Usage | None:
        """The tokens of several turns; None where there is none. ``raw`` is the list of their reports."""
        told = list(reports)
        if not told:
            return None
        return Usage(
            _sum(report.input_tokens for report in told),
            _sum(report.output_tokens for report in told),
            _sum(report.reasoning_tokens for report in told),
            _sum(report.cache_read_tokens for report in told),
            _sum(report.cache_write_tokens for report in told),
            [report.raw for report in told],
        )

    def updated_with(self, later: Usage) -> Usage:
        """The figures after a *later* report: per field the last that is given wins; a zero never replaces a figure."""
        return Usage(
            _latest(self.input_tokens, later.input_tokens),
            _latest(self.output_tokens, later.output_tokens),
            _latest(self.reasoning_tokens, later.reasoning_tokens),
            _latest(self.cache_read_tokens, later.cache_read_tokens),
            _latest(self.cache_write_tokens, later.cache_write_tokens),
            later.raw,
        )


def _sum(figures: Iterable[int | None]) -> int | None:
    given = [figure for figure in figures if figure is not None]
    return sum(given) if given else None


def _latest(before: int | None, later: int | None) -> int | None:
    return later if later or before is None else before


class Finish(Struct, frozen=True):
    """Why the model stopped."""

    reason: FinishReason
    raw: str | int | None = None  #: the provider's word, None where it sent none


class StreamError(Struct, frozen=True):
    """What ended a turn badly."""

    kind: ErrorKind
    message: str
    raw: Any = None  #: the provider's error object, or the beginning of what was not understood
    status: int | None = None  #: the HTTP status, where one was given
    retry_after: float | None = None  #: seconds, where the provider said so
