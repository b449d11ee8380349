"""The plain frame of a stream: one delta, that differs from the delta before in its text alone.

It causes the same call of the sink with another text. So it needs no framing and no decoding of what is known: what
surrounds the text is compared, the text is decoded, and the call is made. Nothing here knows a wire. What is plain is
decided by the parser (``PlainParser``), and the surroundings are those of one frame that it has read:

- The text's JSON is in the frame once, or twice because a field repeats it, and no backslash is outside of it. So every
  other string there is written as it reads, and none of them is the text: this is where the parser read it.
- A frame that equals it but for the text is the same JSON with another value at that place, if the strict decoder
  accepts its text as a string. Any other frame goes to the parser, whose state may change; then all is learned anew.
- Of the rest only what the parser never reads may vary: a word of padding, and a number.

It pays where a frame has much around its text. The short frames of Anthropic and Ollama are decoded as fast.

The module must not depend on providers or the accumulator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias

import msgspec

__all__ = ["PlainDelta", "PlainFrame", "PlainParser"]

#: A delta as it was reported: the method of the sink, the text, the key, and the kind of a reasoning.
PlainDelta: TypeAlias = tuple[Callable[..., None], str, Hashable, str | None]

_MOST_WAITS = 16  # deltas that are only parsed after several forms in a row that no other frame had
_WORD = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_is_integer = re.compile(rb"[1-9][0-9]{0,17}").fullmatch  # that every decoder takes for one
_BACKSLASH = ord("\\")  # the search for an integer takes a fifth of the time of a search for bytes
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode


class PlainParser(Protocol):
    """A parser of a wire that has plain frames."""

    @property
    def padding(self) -> re.Pattern[bytes] | None:
        """The pattern of a field after the text that is never read, with its value as a group: a word of ASCII."""

    @property
    def unread_number(self) -> re.Pattern[bytes] | None:
        """The pattern of an integer between a text and its repetition that is never read, with it as a group."""

    def plain_delta(self) -> PlainDelta | None:
        """Return the delta of the last frame; None if it was anything else or changed more than its text so far.

        A frame that is the same but for its text, which is not empty, must cause the same call of the sink.
        """


class PlainFrame:
    """The form of the last plain frame of a stream.

    Args:
        parser: the parser of the stream.
        limit: the most bytes of a frame.

    Attributes:
        head: what precedes the text, with its quote; None while no form is known.
    """

    # Of a form that was learned:
    _end: bytes  # the end of the frame, from the text's quote on or what varies
    _tail: bytes
    _is_padded: bool  # a word that varies is between ``_tail`` and ``_end``
    _between: bytes  # between the text and its repetition, if the frame has one: after a number that varies
    _before_number: bytes | None
    _text_end: int | None

    __slots__ = (
        "_before_number",
        "_between",
        "_end",
        "_end_at",
        "_head_size",
        "_is_padded",
        "_key",
        "_kind",
        "_limit",
        "_parser",
        "_report",
        "_tail",
        "_tail_at",
        "_text_at",
        "_text_end",
        "_unused",
        "_waits",
        "head",
    )

    def __init__(self, parser: PlainParser, limit: int) -> None:
        self._parser = parser
        self._limit = limit
        self.head: bytes | None = None
        self._head_size = self._end_at = 0
        self._unused = 0  # forms that no other frame had, in a row
        self._waits = 0  # deltas until the next form is learned

    def read(self, data: Any) -> bool:  # bytes, whose index mypyc would take for an integer
        """Report the text of a read that is one frame of the known form; return False, having done nothing, if not."""
        end_at = self._end_at
        if data[: self._head_size] != self.head or data[end_at:] != self._end or len(data) > self._limit:
            return False
        if self._is_padded:
            data = data[:end_at].rstrip(_WORD)
            if data[self._tail_at :] != self._tail:
                return False
        encoded = data[self._text_at : self._text_end]
        if between := self._between:
            first, _, encoded = encoded.rpartition(between)
            if (number := self._before_number) is None:
                if first != encoded:
                    return False
            elif not first.startswith(encoded + number) or not _is_integer(first, len(encoded) + len(number)):
                return False
        if len(encoded) < 3:  # an empty text
            return False
        try:
            text = _decode_text(encoded)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        self._unused = 0
        if self._kind is None:
            self._report(text, self._key)
        else:
            self._report(text, self._kind, self._key)
        return True

    def learn(self, data: Any) -> None:  # bytes, of which mypyc takes no slice that ends before it begins
        """Learn the form of a read that is one frame, and that the parser has read as a delta."""
        self.head = None
        if self._waits:
            self._waits -= 1
            return
        delta = self._parser.plain_delta()
        if delta is None:
            return
        self._report, text, self._key, self._kind = delta
        if self._unused:
            self._waits = min((1 << self._unused) - 1, _MOST_WAITS)
        self._unused += 1
        try:
            encoded = _encode_text(text)
        except UnicodeEncodeError:  # half a surrogate pair
            return
        at, last = data.find(encoded), data.rfind(encoded)
        if at < 0 or (_BACKSLASH in data and data.count(b"\\") != encoded.count(b"\\") * (1 + (last > at))):
            return
        parser, tail = self._parser, data[last + len(encoded) - 1 :]
        self._between, self._before_number = b"", None
        if last > at:
            # More than two, or it may be what is between two strings, as ":" in {"a":"b"}.
            if data.find(encoded, at + len(encoded)) < last or not text.lstrip(" ")[:1].isalnum():
                return
            self._between = data[at + len(encoded) : last]
            if parser.unread_number is not None and (number := parser.unread_number.search(self._between)):
                self._before_number = self._between[: number.start(1)]
                self._between = self._between[number.end(1) :]
        start, end, self._is_padded = 0, 0, False
        if parser.padding is not None and (field := parser.padding.search(tail)):
            (start, end), self._is_padded = field.span(1), True
        self.head, self._head_size, self._text_at = data[: at + 1], at + 1, at
        self._tail, self._tail_at, self._end, self._end_at = tail[:start], -start, tail[end:], end - len(tail)
        self._text_end = (1 - (start or len(tail))) or None
