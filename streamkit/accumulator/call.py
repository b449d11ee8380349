"""One call being gathered: its name, its argument text, where its object ends, and what it all means at the end.

It does not know which piece belongs to it; it is told.
"""

from __future__ import annotations

from typing import Any

from streamkit.arguments import ObjectScanner, PartialObject, Settled, mended, partial_object, settle
from streamkit.calls import CallKind, CallRef, CallState, StreamWarning, ToolCall

__all__ = ["GatheredCall"]


class GatheredCall:
    """A call as far as the stream has told it."""

    __slots__ = (
        "_halved",
        "_joined",
        "_joined_parts",
        "_joined_size",
        "_place_part",
        "_scanned",
        "_scanner",
        "_settled",
        "_settled_size",
        "_view",
        "_viewed",
        "bare",
        "emitted_stands",
        "hot",
        "index",
        "kind",
        "metadata",
        "name",
        "parts",
        "place",
        "raw_id",
        "ref",
        "repeat",
        "repeat_of",
        "repeat_size",
        "sealed",
        "size",
        "state",
        "warnings",
    )

    def __init__(self, index: int, raw_id: str | None, name: str, kind: CallKind, *, bare: bool) -> None:
        self.index = index
        self.raw_id = raw_id
        self.name = name
        self.kind: CallKind = kind
        self.bare = bare  # opened with neither id nor key: only such a call is found by its position
        self.ref: CallRef | None = None  # set when the start event is sent
        self.hot = False  # started and nothing pending: a plain delta takes the short path
        self.sealed = False  # the wire said that it is over
        self.emitted_stands = True  # the deltas sent so far add up to the standing text
        self.metadata: dict[str, Any] = {}
        self.warnings: list[StreamWarning] = []
        self.state: CallState = "incomplete"
        self.parts: list[str] = []  # the standing argument text
        self.size = 0  # its characters
        self.place = 0  # the last remembered place in it where the arguments may have begun anew
        self.repeat: list[str] | None = None  # pieces that may turn out to repeat the closed object
        self.repeat_of = ""  # that object's text
        self.repeat_size = 0  # how much of it they have repeated
        self._place_part = 0  # the part that begins there
        self._joined, self._joined_size, self._joined_parts = "", 0, 0  # the text, of how many characters and parts
        self._halved = False  # it holds halves of surrogate pairs
        self._scanner: ObjectScanner | None = None
        self._scanned = 0  # how many parts the scanner has seen
        self._settled: Settled | None = None
        self._settled_size = -1  # of how many characters it speaks
        self._view: PartialObject | None = None  # what the text shows so far; made when somebody wants to see it
        self._viewed = 0  # how many parts the view has seen

    def append(self, text: str) -> None:
        """The next piece of argument text, not empty."""
        if text[0] == "{" and self.size > self.place and len(text) >= self.size - self.place:
            # A piece that begins with all that stands may be the arguments sent anew, as vLLM's last flush does
            # (vllm-project/vllm#42167). A shorter piece cannot be, so comparing costs no more than the piece.
            if text.startswith("".join(self.parts[self._place_part :])):
                self.place, self._place_part = self.size, len(self.parts)
        self.parts.append(text)
        self.size += len(text)

    def replace(self, text: str = "") -> None:
        """What was gathered no longer stands; the argument text begins anew."""
        self.parts = [text] if text else []
        self.size = len(text)
        self.place = self._place_part = 0
        self.emitted_stands = False
        self._scanner, self._scanned = None, 0
        self._joined, self._joined_size, self._joined_parts = "", 0, 0
        self._settled_size = -1
        self._view, self._viewed = None, 0

    @property
    def text(self) -> str:
        """The standing argument text, as sent."""
        if self._joined_size != self.size:
            more = "".join(self.parts[self._joined_parts :])
            self._halved = self._halved or mended(more) is not more
            self._joined += more
            self._joined_size, self._joined_parts = self.size, len(self.parts)
        return self._joined

    @property
    def mended_text(self) -> str:
        """The same with surrogate pairs whole again that were cut in two."""
        text = self.text
        return mended(text) if self._halved else text

    def closed(self) -> bool:
        """Whether the argument object has been closed. Scans only what came since it was last asked."""
        scanner = self._scanner
        if scanner is None:
            scanner = self._scanner = ObjectScanner()
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
        if self._view is None:
            self._view = PartialObject()
        if self._viewed < len(self.parts):
            self._view.feed("".join(self.parts[self._viewed :]))
            self._viewed = len(self.parts)
        return self._view.value

    def settle(self, *, recover_trailing_junk: bool) -> Settled:
        """What the argument text means, were it over now."""
        if self._settled is None or self._settled_size != self.size:
            self._settled_size = self.size
            restated = mended(self.text[self.place :]) if self.place else ""
            self._settled = settle(self.mended_text, restated, recover_trailing_junk=recover_trailing_junk)
        return self._settled

    def snapshot(self, *, as_if: CallState | None = None) -> ToolCall:
        """The call as people see it; ``as_if`` it were in another state, of one whose text is settled."""
        state = as_if or self.state
        settled = self._settled if self._settled_size == self.size else None
        text = settled.text if settled is not None else self.mended_text
        arguments: Any = None
        partial: dict[str, Any] = {}
        if self.kind == "custom":
            arguments = text if state == "complete" else None
        elif state == "complete" and settled is not None:
            arguments = partial = settled.arguments or {}
        elif text:
            restated = settled is not None and len(text) < self.size
            partial = partial_object(text) if restated else self._partial()
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
            sealed=self.sealed,
            metadata=self.metadata,
            warnings=tuple(self.warnings),
        )
