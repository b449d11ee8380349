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
from typing import Any, Protocol

import msgspec

from streamkit.events import Event, Reasoning, ServerTool, Text, ToolCallDelta
from streamkit.framing.sse import SseFramer

__all__ = ["DELTAS", "FEWEST_READS", "FrameTemplate", "RepeatableParser"]

FEWEST_READS = 6  #: so many reads of a block are only parsed, because a short block does not repay the learning
#: The events of which a template may be learned.
DELTAS: frozenset[type] = frozenset({Text, Reasoning, ToolCallDelta, ServerTool})
_MOST_FAILURES = 2  # then the frames of the stream vary, and nothing more is tried
_LONGEST_FRAME = 4096  # bytes: the two frames that are compared are kept
_SEPARATOR = re.compile(r"[ \]}]*[,:][ \[{]*")  # of two strings of JSON: in quotes it is no text, as ":" in {"a":"b"}
_decode_text = msgspec.json.Decoder(str).decode
_encode_text = msgspec.json.Encoder().encode

_Read = Callable[[bytes], bool]
_Check = Callable[[bytes], object]  # returns a false value for what it refuses
_Form = list[tuple[bytes, _Check | None]]  # parts of a frame, each with the check of the value before it
_is_word: _Check = bytes.isalnum
_is_number: _Check = bytes.isdigit  # and is short, and does not begin with 0, which JSON does not allow
_MOST_DIGITS = 18  # of a number that every decoder takes for an integer
_is_spaces: _Check = (b" " * 64).__contains__  # Anthropic pads with a few
_ZERO, _QUOTE = b'0"'


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
        read: reads bytes that are one frame of the template's form; returns False, having done nothing, if they are
            not. None while there is no template.
    """

    __slots__ = ("_failures", "_framer", "_last", "_last_event", "_parser", "read")

    def __init__(self, parser: RepeatableParser, framer: SseFramer) -> None:
        self._parser = parser
        self._framer = framer
        self.read: _Read | None = None
        self._last = b""  # the last read, if it was one frame
        self._last_event: Event | None = None  # the one that it caused
        self._failures = 0

    def forget_last(self) -> None:
        """Forget the last read: what follows it is of another block."""
        self._last = b""

    def learn(self, data: bytes, event: Event) -> bool:
        """Learn from bytes that the parser has read; return False if there is nothing more to be learned.

        Args:
            data: one read.
            event: the only event that it caused.
        """
        self.read = None
        if not self._framer.is_at_event_start or len(data) > _LONGEST_FRAME:
            self._last = b""
            return True
        last, last_event = self._last, self._last_event
        self._last, self._last_event = data, event
        if not last:
            return True
        last_text, text = _encoded_text(last_event), _encoded_text(event)
        if not last_text or not text or last_text == text:
            return True  # not different deltas
        one, other = last.split(last_text), data.split(text)
        if len(one) == 1 or len(other) == 1:
            return True  # written with other escapes
        form = self._compare(one, other)
        # Without the fields before the payload; it is no JSON if more follows.
        repeat = self._parser.repeater(data[data.find(b"{") :]) if form is not None else None
        if form is None or repeat is None:
            self._failures += 1
            return self._failures < _MOST_FAILURES
        self.read = _create_reader(*form, self._framer.limit, repeat)
        self._last, self._failures = b"", 0
        return True

    def _compare(self, one: list[bytes], other: list[bytes]) -> tuple[_Form, _Form] | None:
        """Return what two frames, split at their texts, have in common before and after them.

        Returns:
            The parts, each with the check of the value that varies before it; of the parts after the text the first
            one, and the one after the text's repetition, have none. None if more differs than may.
        """
        if one == other and len(one) == 2:
            return [(one[0], None)], [(one[1], None)]
        if len(one) != len(other) or len(one) > 3:
            return None
        unread = self._parser.unread_field
        before, *after = [_find_common(*pair, unread) for pair in zip(one, other, strict=True)]
        if not before or not all(after) or not after[-1][-1][0]:
            return None
        return before, [common for part in after for common in part]


def _create_reader(before: _Form, after: _Form, limit: int, repeat: Callable[[str], None]) -> _Read:
    """Return the function that reads a frame with these parts; ``limit``: the most bytes of a frame."""
    if len(before) == len(after) == 1:
        return _create_constant_reader(before[0][0] + b'"', b'"' + after[0][0], limit, repeat)
    head, tail = before[0][0], after[-1][0]
    parts_before = before[1:]
    parts_after = [(part, check) for (part, _), (_, check) in pairwise(after)][::-1]  # from the end to the text
    of_head, of_tail, between = slice(len(head)), slice(-len(tail), None), slice(len(head), -len(tail))

    def read(data: Any) -> bool:  # bytes, whose index mypyc would take for an integer
        if data[of_head] != head or data[of_tail] != tail or len(data) > limit:
            return False
        text = data[between]
        repetition: bytes | None = None
        # Where a part is missing, the value is all that is left, with the quotes of the text: it is not valid.
        for part, check in parts_before:
            value, _, text = text.partition(part)
            if not check(value) or (check is _is_number and (value[0] == _ZERO or len(value) > _MOST_DIGITS)):  # type: ignore[misc]
                return False
        for part, check in parts_after:
            text, _, value = text.rpartition(part)
            if check is None:
                repetition = value
            elif not check(value) or (check is _is_number and (value[0] == _ZERO or len(value) > _MOST_DIGITS)):
                return False
        if repetition is not None and repetition != text:
            return False
        try:
            if text[0] != _QUOTE or text[-1] != _QUOTE:  # the decoder accepts line ends there, which end the frame
                return False
            decoded = _decode_text(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError):
            return False
        if decoded:
            repeat(decoded)
        return bool(decoded)

    return read


def _create_constant_reader(head: bytes, tail: bytes, limit: int, repeat: Callable[[str], None]) -> _Read:
    """Return the function that reads a frame in which the text alone varies, between these parts with its quotes."""
    # Slices that are made once: to compare them takes half of the time of ``startswith``.
    of_head, of_tail, of_text = slice(len(head)), slice(-len(tail), None), slice(len(head) - 1, 1 - len(tail))

    def read(data: Any) -> bool:  # bytes, whose index mypyc would take for an integer
        if data[of_head] != head or data[of_tail] != tail or len(data) > limit:
            return False
        try:
            text = _decode_text(data[of_text])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if text:
            repeat(text)
        return bool(text)

    return read


def _encoded_text(event: Event | None) -> bytes:
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


def _find_common(one: bytes, other: bytes, unread: re.Pattern[bytes] | None) -> _Form:
    """Return what two parts of a frame have in common, each with the check of the value that varies before it.

    Returns:
        The first one is at the start, and has no check. Nothing if what may be read differs.
    """
    common: _Form = []
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
