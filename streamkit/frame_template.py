"""The plain frame of a stream: most deltas differ in one text, and in values that the parser never reads.

A frame that equals the frame before in everything but the text causes the same call of the sink, with another text. So
it needs no framing and no decoding of what is known: its surroundings are compared, its text is decoded, and the call
is made. Nothing here knows a wire. What is plain is decided by the parser (``RepeatableParser``), and the surroundings
are learned from two reads that followed each other, each of which was one frame and caused one event with its text:

- A template is learned only if the text is in the frame once, or twice because a second field repeats it. As all else
  is equal, and the events' texts differ as the frames do, that is the text that the parser read.
- Besides the text, fields may vary that the parser never reads: a number, or a word of padding. So may the number of
  spaces before the last bracket.
- The text of each frame is decoded by the strict decoder. What is no JSON string goes to the parser, like any frame
  that differs otherwise. After any read that is not one more delta of the same kind, all is learned anew, because the
  parser's state may have changed. So a template lives as long as a run of deltas, never longer than a turn.

The module must not depend on providers or the accumulator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import msgspec

from streamkit.events import Event, Reasoning, ServerTool, Text, ToolCallDelta
from streamkit.framing.sse import SseFramer

__all__ = ["FEWEST_READS", "FrameTemplate", "RepeatableParser"]

FEWEST_READS = 8  #: so many reads of a block are only parsed, because a short block does not repay the learning
_MOST_FAILURES = 2  # then the frames of the stream vary, and nothing more is tried
_LONGEST_FRAME = 4096  # bytes: the two frames that are compared are kept
_SEPARATOR = re.compile(r"[ \]}]*[,:][ \[{]*")  # of two strings of JSON: in quotes it is no text, as ":" in {"a":"b"}
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode

_Check = Callable[[bytes], object]  # returns a false value for what it refuses
_is_word: _Check = bytes.isalnum
_is_number: _Check = re.compile(rb"[1-9][0-9]{0,17}").fullmatch
_is_spaces: _Check = (b" " * 64).__contains__  # Anthropic pads with a few


class RepeatableParser(Protocol):
    """A parser that supports frame templates."""

    @property
    def unread_field(self) -> re.Pattern[bytes] | None:
        """The pattern of a field that the parser never reads, wherever it is in a plain frame.

        It has two groups, of which one is the value: the digits of a number, or a word of ASCII without its quotes.
        None: there is no such field.
        """

    def repeater(self, data: bytes) -> Callable[[str], None] | None:
        """Return a function that reports another text as the last frame's text was reported.

        Args:
            data: the payload of the last frame.

        Returns:
            The function, valid until the parser reads another frame. None if the frame was anything but one delta of
            text, reasoning or arguments, if it changed more than the text so far, or if the text is also the value of
            another field that is read and that the function does not set.
        """


class FrameTemplate:
    """The plain frame of a stream, learned and learned anew.

    Args:
        parser: the parser of the stream.
        framer: its framer.

    Attributes:
        repeat: reports the next text; None while there is no template.
    """

    __slots__ = (
        "_after",
        "_before",
        "_end",
        "_failures",
        "_framer",
        "_head",
        "_last",
        "_last_text",
        "_parser",
        "_start",
        "_tail",
        "_varies",
        "repeat",
    )

    def __init__(self, parser: RepeatableParser, framer: SseFramer) -> None:
        self._parser = parser
        self._framer = framer
        self.repeat: Callable[[str], None] | None = None
        self._head = self._tail = b""  # what every frame begins and ends with
        self._start = self._end = 0  # where what varies begins and, from the end of the frame, where it ends
        self._before: list[
            tuple[bytes, _Check | None]
        ] = []  # what follows each value that varies before the text, its check
        self._after: list[tuple[bytes, _Check | None]] = []  # what precedes each one after it, from last to first
        self._varies = False  # more than the text does
        self._last = b""  # the last read, if it was one plain frame
        self._last_text = b""  # its text, as JSON
        self._failures = 0

    def read(self, data: bytes) -> bool:
        """Read bytes that are one frame of the template's form; return False, having done nothing, if they are not."""
        if not (data.startswith(self._head) and data.endswith(self._tail)) or len(data) > self._framer.limit:
            return False
        text = data[self._start : self._end]
        try:
            if self._varies:
                text = self._remove_unread(text)
            decoded = _decode_text(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if not decoded:
            return False
        self.repeat(decoded)  # type: ignore[misc]  # the caller has checked it
        return True

    def _remove_unread(self, text: bytes) -> bytes:
        """Return the text alone of what varies in a frame; what is no text if the rest is not valid."""
        # Where a separator is missing, the value is all that is left, with the quotes of the text: it is not valid.
        for separator, check in self._before:
            value, _, text = text.partition(separator)
            if not check(value):  # type: ignore[misc]  # only a repetition has none
                return b""
        repetition: bytes | None = None
        for separator, check in self._after:
            text, _, value = text.rpartition(separator)
            if check is None:
                repetition = value
            elif not check(value):
                return b""
        is_quoted = text[:1] == b'"' == text[-1:]  # the decoder accepts line ends beside it, which would end the frame
        return text if is_quoted and repetition in (None, text) else b""

    def forget_last(self) -> None:
        """Forget the last read: what follows it is of another block."""
        self._last = b""

    def learn(self, data: bytes, event: Event) -> bool:
        """Learn from bytes that the parser has read; return False if there is nothing more to be learned.

        Args:
            data: one read.
            event: the only event that it caused.
        """
        self.repeat = None
        is_frame = self._framer.is_at_event_start and len(data) <= _LONGEST_FRAME
        text = _encoded_text(event) if is_frame else b""
        if text not in data:
            text = b""  # written with other escapes
        last, self._last = self._last, data if text else b""
        last_text, self._last_text = self._last_text, text
        if not text or not last or text == last_text:
            return True
        if self._compare(last.split(last_text), data.split(text)):
            self.repeat = self._parser.repeater(data[data.find(b"{") :])  # which is no JSON if more follows
        if self.repeat is None:
            self._failures += 1
            return self._failures < _MOST_FAILURES
        self._last, self._failures = b"", 0
        return True

    def _compare(self, one: list[bytes], other: list[bytes]) -> bool:
        """Set what two frames, split at their texts, have in common; return False if more differs than may."""
        if len(one) != len(other) or not 1 < len(one) < 4:
            return False
        parts = [_find_common(*pair, self._parser.unread_field) for pair in zip(one, other, strict=True)]
        if not all(parts):
            return False
        (head, _), *self._before = parts[0]
        after = [
            common for part in parts[1:] for common in part
        ]  # a part begins with no check: the text repeats itself
        tail, _ = after[-1]
        self._after = [(common, check) for (common, _), (_, check) in pairwise(after)][::-1]
        self._head = head if self._before else head + b'"'
        self._tail = tail if self._after else b'"' + tail
        self._start, self._end = len(head), -len(tail)
        self._varies = bool(self._before or self._after)
        return bool(tail)


def _encoded_text(event: Event) -> bytes:
    """Return the text of a delta as JSON; nothing if it has none, or if JSON has the same between two strings."""
    if isinstance(event, (Text, Reasoning)):
        text = event.text
    elif isinstance(event, ToolCallDelta):
        text = event.arguments_delta
    elif isinstance(event, ServerTool) and isinstance(event.data, str):
        text = event.data
    else:
        return b""
    is_simple = text.isascii() or text.isprintable()  # halves of surrogate pairs are not, and cannot be encoded
    return _encode_text(text) if is_simple and _SEPARATOR.fullmatch(text) is None else b""


def _find_common(one: bytes, other: bytes, unread: re.Pattern[bytes] | None) -> list[tuple[bytes, _Check | None]]:
    """Return what two parts of a frame have in common, each with the check of the value that varies before it.

    Returns:
        The first one is at the start, and has no check. Nothing if what may be read differs.
    """
    common: list[tuple[bytes, _Check | None]] = []
    check: _Check | None = None
    if one != other and unread is not None:
        start = other_start = 0
        for field, other_field in zip(unread.finditer(one), unread.finditer(other), strict=False):
            group = field.lastindex or 0
            if field[group] != other_field[group] and group == other_field.lastindex:
                common.append((other[other_start : other_field.start(group)], check))
                if one[start : field.start(group)] != common[-1][0]:
                    return []
                start, other_start = field.end(group), other_field.end(group)
                check = _is_number if group == 1 else _is_word
        one, other = one[start:], other[other_start:]
    if one != other:
        (before, one), (other_before, other) = _split_padding(one), _split_padding(other)
        if before != other_before or one != other:
            return []
        common.append((before, check))
        check = _is_spaces
    common.append((other, check))
    return common


def _split_padding(end: bytes) -> tuple[bytes, bytes]:
    """Return what precedes and what follows the spaces before the last bracket of a frame, which are in no text."""
    bracket = len(end.rstrip(b"\r\n")) - 1
    before = end[:bracket].rstrip(b" ")
    return (before, end[bracket:]) if before[-1:] in (b"}", b"]") else (end, b"")
