"""A tool call under construction: its name, its argument text, the end of its object and the parsed arguments.

It also has the provider's own message of the call, if a parser passes one along. Such a message is of the call's start,
whose arguments are empty or a first part. Where the arguments are in it is known for the forms of Chat Completions and
Responses (``arguments``, a text) and of Anthropic and Gemini (``input`` and ``args``, an object). Any other message is
kept unchanged.

The module must not depend on how deltas are assigned to calls, nor on streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from streamkit.calls import CallKind, CallRef, CallState, StreamWarning, ToolCall
from streamkit.json_text import JsonObjectScanner, ParsedArguments, finalize_arguments, join_surrogates

if TYPE_CHECKING:
    from streamkit.json_text.reader import IncrementalJsonObject

__all__ = ["MANY_PARTS", "ToolCallBuilder", "join_parts", "message_with_arguments"]

_NESTED = ("function", "functionCall", "tool_calls")


def message_with_arguments(message: Any, text: str, arguments: Any) -> Any:
    """Return a copy of a call's message that has these arguments; a value of another form is returned unchanged.

    Args:
        message: a dict, or a list of which the last dict is that of the call.
        text: the argument text so far.
        arguments: the arguments of a complete call; else None.
    """
    if isinstance(message, list) and message:
        return [*message[:-1], message_with_arguments(message[-1], text, arguments)]
    if not isinstance(message, dict):
        return message
    copy = dict(message)
    for name in _NESTED:
        if name in copy:
            copy[name] = message_with_arguments(copy[name], text, arguments)
    if isinstance(copy.get("arguments"), str):
        copy["arguments"] = text
    for name in ("input", "args"):
        if isinstance(copy.get(name), dict) and isinstance(arguments, dict):
            copy[name] = arguments
    return copy


MANY_PARTS = 32  # so many parts of a text are joined; fewer may wait


def join_parts(parts: list[str], first: int) -> None:
    """Join the parts of a text from this one on, at the cost of those that follow it.

    CPython appends in place to a string with a single reference (``unicode_concatenate`` in its ceval.c), so the string
    is removed from the list first. A text that is read at every delta is copied only if the caller keeps the last one.
    """
    if len(parts) > first + 1:
        more = "".join(parts[first + 1 :])
        grown, parts[first] = parts[first], ""
        grown += more
        parts[first:] = [grown]


class ToolCallBuilder:
    """A call as far as the stream has sent it."""

    __slots__ = (
        "_checked_size",
        "_final",
        "_has_lone_surrogates",
        "_joined_parts",
        "_object_text",
        "_parsed",
        "_parsed_size",
        "_partial_parser",
        "_partial_parts",
        "_scanned",
        "_scanner",
        "_size",
        "_sized_parts",
        "deltas_match_text",
        "ended",
        "fast_path",
        "half",
        "index",
        "is_end_emitted",
        "is_final",
        "joins",
        "kind",
        "message",
        "metadata",
        "name",
        "parts",
        "possible_repeat",
        "raw_id",
        "ref",
        "repeated_size",
        "restart_offset",
        "restated",
        "state",
        "unkeyed",
        "warnings",
    )

    def __init__(self, index: int, raw_id: str | None, name: str, kind: CallKind, *, unkeyed: bool) -> None:
        self.index: int = index
        self.raw_id: str | None = raw_id
        self.name: str = name
        self.kind: CallKind = kind
        self.unkeyed: bool = unkeyed  # opened with neither id nor key: only such a call is matched by its position
        self.ref: CallRef | None = None  # set when the start event is emitted
        self.fast_path: bool = False  # started, no repeat pending: a plain delta is appended without further checks
        self.ended: bool = False  # the wire reported its end
        self.is_end_emitted: bool = False
        self.is_final: bool = False  # it is ready: from then on only metadata is added
        self.deltas_match_text: bool = True  # the emitted deltas add up to the text in force
        self.restated: tuple[str, int] | None = None  # the text emitted in place of the deltas, and their characters
        self.message: Any = None  # the provider's own, as the parser passed it last
        self.metadata: dict[str, Any] = {}
        self.warnings: tuple[StreamWarning, ...] = ()
        self.state: CallState = "incomplete"
        self.half: str = ""  # half of a surrogate pair that was not emitted: it waits for the other one
        self.parts: list[str] = []  # of the argument text in force
        self._size, self._sized_parts = 0, 0  # the characters of so many parts
        self.restart_offset: int = 0  # the last offset in it at which the arguments may have begun again
        self.possible_repeat: str | None = None  # the closed object, if later text may turn out to repeat it
        self.repeated_size: int = 0  # its characters that were repeated so far
        self._joined_parts = 0  # the first parts, each of which was joined from many
        self.joins: int = 0  # how often parts were joined: positions in the list of parts are valid until then
        self._has_lone_surrogates = False
        self._checked_size = 0  # the characters that were searched for them
        self._final: ToolCall | None = None
        self._scanner: JsonObjectScanner | None = None
        self._object_text = ""  # of the closed object; it does not change while text is appended
        self._scanned = 0  # parts that the scanner has read
        self._parsed: ParsedArguments | None = None
        self._parsed_size = -1  # characters of the text that it was made from
        self._partial_parser: IncrementalJsonObject | None = None  # made when partial arguments are first read
        self._partial_parts = 0  # parts that it has read

    def append(self, text: str) -> None:
        """Append the next part of the argument text, which is not empty."""
        if text[0] == "{" and self.parts and len(text) >= self.size - self.restart_offset > 0:
            # A delta that begins with all of the text in force may be the arguments sent again, as vLLM's last flush
            # does (vllm-project/vllm#42167). A shorter one cannot be, so comparing costs no more than the delta itself.
            if text.startswith(self._last_text(self.size - self.restart_offset)):
                self.restart_offset = self.size
        self.parts.append(text)

    @property
    def size(self) -> int:
        """The characters of the argument text in force. The fast path only adds the part, and counts nothing here."""
        count = len(self.parts)
        if self._sized_parts != count:
            self._size += sum(map(len, self.parts[self._sized_parts :]))
            self._sized_parts = count
        return self._size

    def _last_text(self, size: int) -> str:
        """Return the last *size* characters, at the cost of as many."""
        found: list[str] = []
        for part in reversed(self.parts):
            if size <= 0:
                break
            found.append(part[-size:] if size < len(part) else part)
            size -= len(part)
        return "".join(reversed(found))

    def join_parts(self) -> int:
        """Join the parts that came since the last call, if they are many; return their number.

        A list of short texts costs many times the memory of one text.
        """
        count = len(self.parts) - self._joined_parts
        if count < MANY_PARTS:
            return 0
        self._join_from(self._joined_parts)
        self._joined_parts += 1
        return count

    def _join_from(self, first: int) -> None:
        """Join the parts from this one on, after the scanner and the parser have read what they had begun to read."""
        if self._scanned > first:
            self.is_object_closed()
            self._scanned = first + 1
        if self._partial_parts > first:
            self._partial()
            self._partial_parts = first + 1
        self._size, self._sized_parts = self.size, first + 1
        join_parts(self.parts, first)
        self.joins += 1

    def replace(self, text: str = "") -> None:
        """Replace the argument text received so far."""
        self.parts = [text] if text else []
        self._size, self._sized_parts = len(text), len(self.parts)
        self.restart_offset = 0
        self.half = ""
        self.deltas_match_text = False
        self._scanner, self._scanned, self._object_text = None, 0, ""
        self._joined_parts = self._checked_size = 0
        self._parsed_size = -1
        self._partial_parser, self._partial_parts = None, 0

    def begin_repeat(self) -> None:
        """Begin to compare later text with the closed object."""
        self.possible_repeat, self.repeated_size = self.object_text, 0
        self.fast_path = False

    def end_repeat(self) -> str:
        """End the comparison; return the text that was compared and is not part of the call."""
        text = (self.possible_repeat or "")[: self.repeated_size]
        self.possible_repeat, self.repeated_size = None, 0
        self.fast_path = self.ref is not None and not self.is_final
        return text

    @property
    def text(self) -> str:
        """The argument text in force, as sent."""
        parts = self.parts
        if not parts:
            return ""
        if len(parts) > 1:
            self._join_from(0)
        text = parts[0]
        if len(text) != self._checked_size:
            self._joined_parts = 1
            if not text.isascii() and not self._has_lone_surrogates:
                more = text[self._checked_size :]
                self._has_lone_surrogates = join_surrogates(more) is not more
            self._checked_size = len(text)
        return text

    @property
    def valid_text(self) -> str:
        """The argument text in force, with surrogate pairs joined that two deltas had split."""
        text = self.text
        return join_surrogates(text) if self._has_lone_surrogates else text

    def is_object_closed(self) -> bool:
        """Return True if the argument object is closed. Scan only the parts that are new since the last call."""
        scanner = self._scanner
        if scanner is None:
            scanner = self._scanner = JsonObjectScanner()
        if scanner.closed_at < 0 and self._scanned < len(self.parts):
            scanner.feed("".join(self.parts[self._scanned :]))
        self._scanned = len(self.parts)
        return scanner.closed_at >= 0

    @property
    def object_text(self) -> str:
        """The text of the closed object; valid after ``is_object_closed`` has returned True."""
        if not self._object_text:
            self._object_text = self.text[: self._scanner.closed_at if self._scanner is not None else 0].lstrip()
        return self._object_text

    def is_placeholder(self) -> bool:
        """Return True if the closed object is ``{}``."""
        return self.object_text.strip("{} \t\r\n") == ""

    def _partial(self) -> dict[str, Any]:
        """Return the arguments as far as received. Parse only the parts that are new since the last call."""
        if self._partial_parser is None:
            from streamkit.json_text.reader import IncrementalJsonObject  # few programs look at incomplete arguments

            self._partial_parser = IncrementalJsonObject()
        if self._partial_parts < len(self.parts):
            self._partial_parser.feed("".join(self.parts[self._partial_parts :]))
            self._partial_parts = len(self.parts)
        return self._partial_parser.value

    @property
    def is_examined(self) -> bool:
        """Whether the argument text in force was scanned or parsed."""
        return self._scanner is not None or self._parsed_size >= 0

    def parse_arguments(self, *, recover_trailing_junk: bool, repair: bool) -> ParsedArguments:
        """Return the parsed argument text as if it had ended; ``parsed`` is the same as long as it does not change."""
        text, restated = self.text, ""
        self._parsed_size = len(text)
        if self.restart_offset:
            restated = join_surrogates(text[self.restart_offset :])
        if self._has_lone_surrogates:
            text = join_surrogates(text)
        self._parsed = parsed = finalize_arguments(
            text, restated, recover_trailing_junk=recover_trailing_junk, repair=repair
        )
        return parsed

    @property
    def parsed(self) -> ParsedArguments | None:
        """The argument text in force as it was parsed; None if it was not."""
        return self._parsed if self._parsed is not None and self._parsed_size == self.size else None

    def refuse_arguments(self, problem: str) -> ParsedArguments:
        """Leave the argument text unparsed, as if it was invalid; return that."""
        self._parsed = parsed = ParsedArguments("invalid", None, self.valid_text, problem=problem)
        self._parsed_size = self.size
        return parsed

    def set_final(self, state: CallState) -> ToolCall:
        """Keep the call's value as it is now, because its state is decided; return it."""
        self.is_final, self.fast_path = True, False
        metadata = dict(self.metadata)
        for name, value in metadata.items():
            if isinstance(value, list):
                metadata[name] = list(value)  # it may grow
        self._final = final = self._create_value(state, metadata)
        self._parsed = None  # a turn may have many calls
        return final

    @property
    def final(self) -> ToolCall | None:
        """The call when its state was decided, with the metadata that came later; None if it is not decided yet."""
        final = self._final
        if final is not None and final.metadata != self.metadata:
            return structs.replace(final, metadata=self.metadata)
        return final

    def snapshot(self, *, state: CallState | None = None) -> ToolCall:
        """Return the call as an immutable value.

        Args:
            state: the state to show instead of the current one, for a call whose arguments were parsed.
        """
        final = self.final
        if final is not None:
            return final if final.state == self.state else structs.replace(final, state=self.state, arguments=None)
        return self._create_value(state or self.state, self.metadata)

    def _create_value(self, state: CallState, metadata: dict[str, Any]) -> ToolCall:
        parsed = self._parsed
        if parsed is not None and self._parsed_size != self.size:
            parsed = None
        text = parsed.text if parsed is not None else self.valid_text
        arguments: Any = None
        partial: dict[str, Any] = {}
        if self.kind == "custom":
            arguments = text if state == "complete" else None
        elif state == "complete" and parsed is not None and parsed.arguments is not None:
            arguments = partial = parsed.arguments
        elif text:
            is_restated = parsed is not None and len(text) < self.size
            if is_restated:
                from streamkit.json_text.reader import parse_partial_object  # as above

                partial = parse_partial_object(text)
            else:
                partial = self._partial()
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
            message=None if self.message is None else message_with_arguments(self.message, text, arguments),
            metadata=metadata,
            warnings=self.warnings,
        )
