"""One call being gathered: its name, its argument text, where its object ends, and what it all means at the end.

It does not know which piece belongs to it; it is told.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import CallKind, CallRef, CallState, StreamWarning, ToolCall
from streamkit.json_text import (
    IncrementalJsonObject,
    JsonObjectScanner,
    ParsedArguments,
    finalize_arguments,
    join_surrogates,
    parse_partial_object,
)

__all__ = ["ToolCallBuilder"]


class ToolCallBuilder:
    """A call as far as the stream has told it."""

    __slots__ = (
        "_has_lone_surrogates",
        "_joined",
        "_joined_parts",
        "_joined_size",
        "_restart_part",
        "_scanned",
        "_scanner",
        "_settled",
        "_settled_size",
        "_partial_parser",
        "_partial_parts",
        "unkeyed",
        "deltas_match_text",
        "fast_path",
        "index",
        "kind",
        "metadata",
        "name",
        "parts",
        "restart_offset",
        "raw_id",
        "ref",
        "possible_repeat",
        "repeated_text",
        "repeated_size",
        "ended",
        "size",
        "state",
        "warnings",
    )

    def __init__(self, index: int, raw_id: str | None, name: str, kind: CallKind, *, unkeyed: bool) -> None:
        self.index = index
        self.raw_id = raw_id
        self.name = name
        self.kind: CallKind = kind
        self.unkeyed = unkeyed  # opened with neither id nor key: only such a call is found by its position
        self.ref: CallRef | None = None  # set when the start event is sent
        self.fast_path = False  # started and nothing pending: a plain delta takes the short path
        self.ended = False  # the wire said that it is over
        self.deltas_match_text = True  # the deltas sent so far add up to the standing text
        self.metadata: dict[str, Any] = {}
        self.warnings: list[StreamWarning] = []
        self.state: CallState = "incomplete"
        self.parts: list[str] = []  # the standing argument text
        self.size = 0  # its characters
        self.restart_offset = 0  # the last remembered place in it where the arguments may have begun anew
        self.possible_repeat: list[str] | None = None  # pieces that may turn out to repeat the closed object
        self.repeated_text = ""  # that object's text
        self.repeated_size = 0  # how much of it they have repeated
        self._restart_part = 0  # the part that begins there
        self._joined, self._joined_size, self._joined_parts = "", 0, 0  # the text, of how many characters and parts
        self._has_lone_surrogates = False  # it holds halves of surrogate pairs
        self._scanner: JsonObjectScanner | None = None
        self._scanned = 0  # how many parts the scanner has seen
        self._settled: ParsedArguments | None = None
        self._settled_size = -1  # of how many characters it speaks
        self._partial_parser: IncrementalJsonObject | None = (
            None  # what the text shows so far; made when somebody wants to see it
        )
        self._partial_parts = 0  # how many parts the view has seen

    def append(self, text: str) -> None:
        """The next piece of argument text, not empty."""
        if text[0] == "{" and self.size > self.restart_offset and len(text) >= self.size - self.restart_offset:
            # A piece that begins with all that stands may be the arguments sent anew, as vLLM's last flush does
            # (vllm-project/vllm#42167). A shorter piece cannot be, so comparing costs no more than the piece.
            if text.startswith("".join(self.parts[self._restart_part :])):
                self.restart_offset, self._restart_part = self.size, len(self.parts)
        self.parts.append(text)
        self.size += len(text)

    def replace(self, text: str = "") -> None:
        """What was gathered no longer stands; the argument text begins anew."""
        self.parts = [text] if text else []
        self.size = len(text)
        self.restart_offset = self._restart_part = 0
        self.deltas_match_text = False
        self._scanner, self._scanned = None, 0
        self._joined, self._joined_size, self._joined_parts = "", 0, 0
        self._settled_size = -1
        self._partial_parser, self._partial_parts = None, 0

    @property
    def text(self) -> str:
        """The standing argument text, as sent."""
        if self._joined_size != self.size:
            more = "".join(self.parts[self._joined_parts :])
            self._has_lone_surrogates = self._has_lone_surrogates or join_surrogates(more) is not more
            self._joined += more
            self._joined_size, self._joined_parts = self.size, len(self.parts)
        return self._joined

    @property
    def valid_text(self) -> str:
        """The same with surrogate pairs whole again that were cut in two."""
        text = self.text
        return join_surrogates(text) if self._has_lone_surrogates else text

    def is_object_closed(self) -> bool:
        """Whether the argument object has been closed. Scans only what came since it was last asked."""
        scanner = self._scanner
        if scanner is None:
            scanner = self._scanner = JsonObjectScanner()
        if scanner.closed_at < 0:
            for part in self.parts[self._scanned :]:
                scanner.feed(part)
        self._scanned = len(self.parts)
        return scanner.closed_at >= 0

    @property
    def object_text(self) -> str:
        """The text of the closed object."""
        return self.text[: self._scanner.closed_at if self._scanner is not None else 0].lstrip()

    def _partial(self) -> dict[str, Any]:
        """The arguments as far as they are there. It reads what came since it was last asked; if never, nothing."""
        if self._partial_parser is None:
            self._partial_parser = IncrementalJsonObject()
        if self._partial_parts < len(self.parts):
            self._partial_parser.feed("".join(self.parts[self._partial_parts :]))
            self._partial_parts = len(self.parts)
        return self._partial_parser.value

    def parse_arguments(self, *, recover_trailing_junk: bool) -> ParsedArguments:
        """What the argument text means, were it over now."""
        if self._settled is None or self._settled_size != self.size:
            self._settled_size = self.size
            restated = join_surrogates(self.text[self.restart_offset :]) if self.restart_offset else ""
            self._settled = finalize_arguments(self.valid_text, restated, recover_trailing_junk=recover_trailing_junk)
        return self._settled

    def snapshot(self, *, state: CallState | None = None) -> ToolCall:
        """The call as people see it; ``as_if`` it were in another state, of one whose text is settled."""
        state = state or self.state
        settled = self._settled if self._settled_size == self.size else None
        text = settled.text if settled is not None else self.valid_text
        arguments: Any = None
        partial: dict[str, Any] = {}
        if self.kind == "custom":
            arguments = text if state == "complete" else None
        elif state == "complete" and settled is not None:
            arguments = partial = settled.arguments or {}
        elif text:
            restated = settled is not None and len(text) < self.size
            partial = parse_partial_object(text) if restated else self._partial()
        return ToolCall(
            id=self.ref.id if self.ref is not None else "",
            name=self.name,
            index=self.index,
            raw_id=self.raw_id,
            kind=self.kind,
            arguments=arguments,
            arguments_text=text,
            partial=partial,
            state=state,
            ended=self.ended,
            metadata=self.metadata,
            warnings=tuple(self.warnings),
        )
