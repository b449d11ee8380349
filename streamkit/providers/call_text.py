"""The argument text of a call as a writer has sent it, on wires that stream arguments.

A delta that was sent cannot be taken back, so an empty object at the beginning is held: it may be a placeholder for the
arguments (vercel/ai#13137). Any other text is sent at once, and ``contradicts`` reports a call that changed afterwards.
This module depends on no provider.
"""

from __future__ import annotations

import json
from typing import Any

from streamkit.calls import CallRef, ToolCall
from streamkit.json_text import JsonObjectScanner, finalize_arguments

__all__ = ["CallText"]

_PLACEHOLDER = "{}"


class CallText:
    """One call of a stream that is written, with the text of its arguments so far.

    Args:
        ref: the call.
        id: its id on the wire.
        index: its number on the wire.
        is_wrapped: the wire has no custom calls: their free text is sent as an object with the one text ``input``.

    Attributes:
        ended: the call's end was reported.
        item: the wire's own item of the call, where it has one.
        position: the place of that item in the output; None before it is sent.
        waiting: the deltas of a call whose start is not sent yet; None for every other call.
        ready: the call in its final state; None until that is known.
    """

    __slots__ = (
        "_held",
        "_is_over",
        "_is_wrapped",
        "_parts",
        "_scanned",
        "_scanner",
        "_size",
        "ended",
        "id",
        "index",
        "item",
        "position",
        "ready",
        "ref",
        "waiting",
    )

    def __init__(self, ref: CallRef, id: str | None, index: int, *, is_wrapped: bool = False) -> None:
        self.ref = ref
        self.id = id
        self.index = index
        self.item: dict[str, Any] = {}
        self.position: int | None = None
        self.waiting: list[str] | None = None
        self.ended = False
        self.ready: ToolCall | None = None
        self._is_over = False
        self._is_wrapped = is_wrapped and ref.kind == "custom"
        self._parts: list[str] = []
        self._held = ""
        self._size = 0
        self._scanner: JsonObjectScanner | None = None
        self._scanned = 0

    @property
    def text(self) -> str:
        """The arguments received so far."""
        if len(self._parts) > 1:
            if self._scanner is not None:
                self._scan(self._scanner)
                self._scanned = 1
            self._parts = ["".join(self._parts)]
        return "".join(self._parts) + self._held

    @property
    def is_closed(self) -> bool:
        """Whether the text is an object that has ended, so that another call may begin on a sequential wire."""
        if self.ref.kind == "custom" or self._held:
            return False
        scanner = self._scanner
        if scanner is None:
            scanner = self._scanner = JsonObjectScanner()
        self._scan(scanner)
        return scanner.is_closed

    def _scan(self, scanner: JsonObjectScanner) -> None:
        for part in self._parts[self._scanned :]:
            scanner.feed(part)
        self._scanned = len(self._parts)

    def add(self, delta: str) -> str:
        """Add a delta; return the text to send, ``""`` for none."""
        if self._held:
            delta, self._held = self._held + delta, ""
        elif not self._size and delta == _PLACEHOLDER and self.ref.kind == "function":
            self._held = delta
            return ""
        if delta[:1] == "{" and self._size and self.ref.kind == "function" and self.is_closed:
            # On Chat Completions an object after a closed object on one index is another call; so it stays one text.
            delta = " " + delta
        return self._send(delta)

    def _send(self, text: str) -> str:
        if not text:
            return ""
        first = not self._size
        self._size += len(text)
        self._parts.append(text)
        if self._is_wrapped:
            return ('{"input":"' if first else "") + escape(text)
        return text

    @property
    def has_text(self) -> bool:
        """Whether any text was sent, or is sent with the call's end."""
        return self._size > 0

    @property
    def sent(self) -> str:
        """All that was returned to be sent."""
        text = "".join(self._parts)
        if not self._is_wrapped or not (text or self._is_over):
            return text
        return '{"input":"' + escape(text) + ('"}' if self._is_over else "")

    def replace(self, text: str) -> None:
        """Replace the text of a call of which nothing is sent before its end."""
        self._held, self._parts, self._size = "", [text], len(text)
        self._scanner, self._scanned = None, 0

    def add_last(self, text: str) -> str:
        """Add a text that is never held; return it."""
        return self._send(text)

    def restate(self, text: str) -> str:
        """Replace the text; return what must be sent so that the wire has it, as far as that is possible."""
        self._held = ""
        sent = self.text
        return self._send(text[len(sent) :]) if text.startswith(sent) else ""

    def finish(self, call: ToolCall | None = None) -> str:
        """End the text; return what is still to be sent.

        Args:
            call: the call in its final state; None if another one begins before that is known.
        """
        held, self._held = self._held, ""
        rest = self._send(held)
        if self._is_wrapped and call is not None and call.state == "complete":
            self._is_over = True
            rest += '"}' if self._size else '{"input":""}'
        return rest

    def contradicts(self, call: ToolCall) -> bool:
        """Return True if what was sent is a complete call that the final state of the call does not confirm."""
        sent = self.text
        if call.kind == "custom":
            return call.state == "complete" and sent != call.arguments_text
        if not sent.strip() or sent == call.arguments_text:
            return False
        parsed = finalize_arguments(sent)
        if parsed.state != "complete":
            return False
        return call.state != "complete" or parsed.arguments != call.arguments


def escape(text: str) -> str:
    """Return a text as the inside of a JSON string; half a surrogate pair is escaped."""
    return json.dumps(text, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in text))[1:-1]
