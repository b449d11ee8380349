"""The argument text of a call as a writer has sent it, on wires that stream arguments.

A delta that was sent cannot be taken back. So two texts are held until the call's final state shows what they were: an
empty object at the beginning, which may be a placeholder for the arguments (vercel/ai#13137), and an object after the
closed object, which may be a repeat or another call (vllm-project/vllm#51697). Any other text is sent at once. This
module depends on no provider.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from streamkit.calls import CallRef, ToolCall
from streamkit.json_text import JsonObjectScanner, finalize_arguments

__all__ = ["CallText", "is_cut"]

_EMPTY = "{}"


class CallText:
    """One call of a stream that is written, with the text of its arguments so far.

    It has an id on the wire, or None, and a number. On a wire without custom calls it is wrapped: its free text is sent
    as an object with the one text ``input``.
    """

    __slots__ = (
        "_held",
        "_is_over",
        "_is_wrapped",
        "_parts",
        "_scanned",
        "_scanner",
        "_size",
        "client_tool",
        "ended",
        "id",
        "index",
        "is_replaced",
        "item",
        "namespace",
        "position",
        "ready",
        "ref",
        "waiting",
    )

    def __init__(self, ref: CallRef, id: str | None, index: int, *, is_wrapped: bool = False) -> None:
        self.ref: CallRef = ref
        self.id: str | None = id
        self.index: int = index
        # the group of tools that its tool belongs to; None if there is none or it is not known yet
        self.namespace: str | None = None
        self.client_tool: Any = None  # the declaration of a tool of the client's own provider
        self.item: dict[str, Any] = {}  # the wire's own item of the call, where it has one
        self.position: int | None = None  # the place of that item in the output; None before it is sent
        self.ended: bool = False  # the call's end was reported
        self.is_replaced: bool = False  # the text in force does not continue what was sent before
        self.ready: ToolCall | None = None  # the call in its final state; None until that is known
        # the deltas of a call whose start is not sent yet; None for every other call
        self.waiting: list[str] | None = None
        self._is_over = False
        self._is_wrapped = is_wrapped and ref.kind == "custom"
        self._parts: list[str] = []
        self._held: list[str] = []
        self._size = 0
        self._scanner: JsonObjectScanner | None = None
        self._scanned = 0

    # ------------------------------------------------------------ what was sent

    @property
    def sent(self) -> str:
        """The arguments that were sent, as the model wrote them."""
        if len(self._parts) > 1:
            if self._scanner is not None:
                self._scan(self._scanner)
                self._scanned = 1
            self._parts = ["".join(self._parts)]
        return "".join(self._parts)

    @property
    def received(self) -> str:
        """The arguments that were received: those that were sent, held or wait."""
        return self.sent + "".join(self._held) + "".join(self.waiting or ())

    @property
    def wire_text(self) -> str:
        """The arguments that were sent, as the wire has them."""
        if not self._is_wrapped or not (self._size or self._is_over):
            return self.sent
        return '{"input":"' + _escape(self.sent) + ('"}' if self._is_over else "")

    @property
    def is_closed(self) -> bool:
        """Whether the text is an object that has ended, so that something else may begin on a sequential wire."""
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

    # ------------------------------------------------------------ what is to be sent

    def add(self, delta: str) -> str:
        """Add a delta; return the text to send, ``""`` for none."""
        is_object = delta[:1] == "{" and self.ref.kind == "function"
        if self._held or (is_object and (self.is_closed if self._size else delta == _EMPTY)):
            self._held.append(delta)
            return ""
        return self._send(delta)

    def _send(self, text: str) -> str:
        if not text:
            return ""
        is_first = not self._size
        self._size += len(text)
        self._parts.append(text)
        if self._is_wrapped:
            return ('{"input":"' if is_first else "") + _escape(text)
        return text

    def restate(self, text: str) -> str:
        """Replace the text; return its rest if it continues the sent text and is not held, else ``""``."""
        self._held.clear()
        sent = self.sent
        return self.add(text[len(sent) :]) if text.startswith(sent) else ""

    def replace(self, text: str) -> None:
        """Replace the text on a wire that sends the whole text at the call's end."""
        self._held, self._parts, self._size, self.is_replaced = [], [text], len(text), True
        self._scanner, self._scanned = None, 0

    def finish(self, call: ToolCall | None = None) -> str:
        """End the text; return the rest to send.

        A complete call without arguments gets an empty object, because clients parse the text. An incomplete one gets
        the beginning of an object, so that no client takes it for a call without arguments.

        Args:
            call: the call in its final state; None if another one begins before that is known.
        """
        if call is None:
            held, self._held = "".join(self._held), []
            rest = self._send(self._separated(held))
            self._is_over = not self._size  # it has ended on the wire as a call without arguments
            return rest
        self._held.clear()
        text, sent = call.arguments_text, self.sent
        rest = text[len(sent) :] if text.startswith(sent) else ""
        if rest[:1] == "{":
            rest = self._separated(rest)
        if not text and not sent and call.kind == "function":
            rest = {"complete": _EMPTY, "incomplete": "{", "invalid": ""}[call.state]
        rest = self._send(rest)
        if not self._is_wrapped:
            return rest
        beginning = "" if self._size else '{"input":"'
        self._is_over = call.state == "complete"
        return rest + beginning + ('"}' if self._is_over else "")

    def _separated(self, rest: str) -> str:
        """Return the rest of a text; an object behind the one that was sent, and not its repeat, follows a space.

        Two objects are one invalid text, but without the space a reader takes the second one for another call.
        """
        sent = self.sent
        is_second = rest[:1] == "{" and bool(sent) and self.ref.kind == "function"
        return " " + rest if is_second and rest.strip() != sent.strip() else rest

    def take_second_object(self) -> str:
        """Return the object behind the one that was sent, which was held; ``""`` if it repeats it, or there is none.

        On a wire without an end of calls the start of another call confirms this one as it was sent.
        """
        held = "".join(self._held)
        if not self._size or not held or held.strip() == self.sent.strip():
            return ""
        return self.finish()

    def compare(self, call: ToolCall) -> Literal["same", "unreadable", "contradictory"]:
        """Compare the sent text with the final state of the call.

        Returns:
            ``unreadable``: the call is complete, and what was sent is not. ``contradictory``: what was sent is a
            complete call, and the final state is another one or none.
        """
        sent, is_complete = self.sent, call.state == "complete"
        if call.kind == "custom":
            return "contradictory" if is_complete and sent != call.arguments_text else "same"
        if not is_complete and not sent.strip():
            return "contradictory" if self._is_over and call.state == "incomplete" else "same"
        if sent == call.arguments_text:
            return "same"
        parsed = finalize_arguments(sent)
        if parsed.state != "complete":
            return "unreadable" if is_complete else "same"
        return "same" if is_complete and parsed.arguments == call.arguments else "contradictory"


def is_cut(call: ToolCall) -> bool:
    """Return True if the stream ended within a call in its final state."""
    return call.state == "incomplete" and not call.ended


def _escape(text: str) -> str:
    """Return a text as the inside of a JSON string; half a surrogate pair is escaped."""
    return json.dumps(text, ensure_ascii=any("\ud800" <= letter <= "\udfff" for letter in text))[1:-1]
