"""The plain frame of a stream: most deltas differ in one text, and in padding that the parser never reads.

A frame that equals the frame before in everything but the text causes the same call of the sink, with another text. So
it needs no framing and no decoding of what is known: its surroundings are compared, its text is decoded, and the call
is made. Nothing here knows a wire. What is plain is decided by the parser (``RepeatableParser``), and the surroundings
are learned from two reads that followed each other, each of which was one frame and caused one event with its text:

- A template is learned only if the text is in the frame once, or twice because a second field repeats it. As all else
  is equal, and the events' texts differ as the frames do, that is the text that the parser read.
- After the text there may be padding of another length and value in each frame: spaces before the last bracket, or the
  word of a field that the parser never reads.
- The text of each frame is decoded by the strict decoder. What is no JSON string goes to the parser, like any frame
  that differs otherwise. After any read that is not one more delta of the same kind, all is learned anew, because the
  parser's state may have changed. So a template lives as long as a run of deltas, never longer than a turn.

The module must not depend on providers or the accumulator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from streamkit.events import Event, Reasoning, ServerTool, Text, ToolCallDelta
from streamkit.framing.sse import SseFramer

__all__ = ["FEWEST_READS", "FrameTemplate", "RepeatableParser"]

_MOST_FAILURES = 2  # then the frames of the stream vary, and nothing more is tried
_LONGEST_FRAME = 4096  # bytes: the two frames that are compared are kept
_SEPARATOR = re.compile(r"[ \]}]*[,:][ \[{]*")  # of two strings of JSON: in quotes it is no text, as ":" in {"a":"b"}
_QUOTE = b'"'[0]  # as an integer: the search for an integer takes a quarter of the time of a search for bytes
FEWEST_READS = 4  #: so many reads of a block are only parsed, because a short block does not repay the learning
_decode_text = msgspec.json.Decoder(str).decode


class RepeatableParser(Protocol):
    """A parser that supports frame templates."""

    @property
    def unread_fields(self) -> frozenset[bytes]:
        """The names of the fields of a plain frame that the parser never reads, wherever they are."""

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
        "_between",
        "_end",
        "_failures",
        "_framer",
        "_head",
        "_last",
        "_last_text",
        "_middle",
        "_parser",
        "_spaced",
        "_start",
        "_tail",
        "repeat",
    )

    def __init__(self, parser: RepeatableParser, framer: SseFramer) -> None:
        self._parser = parser
        self._framer = framer
        self.repeat: Callable[[str], None] | None = None
        self._head = self._tail = b""  # what every frame begins and ends with, up to the text and after the padding
        self._middle = b""  # what is between the text and the padding; nothing if there is no padding
        self._spaced = False  # the padding is of spaces
        self._between = b""  # what is between the text and its repetition; nothing if it is in the frame once
        self._start = self._end = 0  # where the text begins and ends, with its quotes; of padding, where it ends
        self._last = b""  # the last read, if it was one plain frame
        self._last_text = b""
        self._failures = 0

    def read(self, data: bytes) -> bool:
        """Read bytes that are one frame of the template's form; return False, having done nothing, if they are not."""
        if not (data.startswith(self._head) and data.endswith(self._tail)) or len(data) > self._framer.limit:
            return False
        start, end, middle = self._start, self._end, self._middle
        if middle:
            if self._spaced:
                text_end = len(data[:end].rstrip(b" ")) - len(middle)
            else:
                padding = data.rfind(_QUOTE, 0, end) + 1
                if not data[padding:end].isalnum():
                    return False
                text_end = padding - len(middle)
            if text_end <= start or not data.startswith(middle, text_end):
                return False
            end = text_end + 1
        elif between := self._between:
            text_end = start + (len(data) + end - len(between) - start) // 2
            if text_end <= start or not data.startswith(between, text_end):
                return False
            if data[text_end + len(between) : end] != data[start:text_end]:
                return False
            end = text_end
        try:
            text = _decode_text(data[start:end])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if not text:
            return False
        self.repeat(text)  # type: ignore[misc]  # the caller has checked it
        return True

    def learn(self, data: bytes, event: Event) -> bool:
        """Learn from bytes that the parser has read; return False if there is nothing more to be learned.

        Args:
            data: one read.
            event: the only event that it caused.
        """
        self.repeat = None
        is_frame = self._framer.is_at_event_start and len(data) <= _LONGEST_FRAME
        text = _simple_text(event) if is_frame else b""
        if not text.isascii() and b'"%b"' % text not in data:
            text = b""  # written as \u and digits
        last, self._last = self._last, data if text else b""
        last_text, self._last_text = self._last_text, text
        if not text or not last or text == last_text:
            return True
        if self._compare(last, last_text, data, text):
            self.repeat = self._parser.repeater(data[data.find(b"{") :])  # which is no JSON if more follows
        if self.repeat is None:
            self._failures += 1
            return self._failures < _MOST_FAILURES
        self._last, self._failures = b"", 0
        return True

    def _compare(self, one: bytes, one_text: bytes, other: bytes, other_text: bytes) -> bool:
        """Set the surroundings of the text that two reads have in common; return False if they have not."""
        one_text, other_text = b'"%b"' % one_text, b'"%b"' % other_text
        one_head, _, one_tail = one.partition(one_text)
        head, _, tail = other.partition(other_text)
        one_between, one_mark, one_rest = one_tail.partition(one_text)
        between, mark, rest = tail.partition(other_text)
        if one_head != head or one_text in one_rest or other_text in rest:
            return False
        self._head, self._start, self._tail, self._middle, self._between = head + b'"', len(head), tail, b"", b""
        if mark or one_mark:
            if one_between != between or one_rest != rest:
                return False
            self._between, self._tail = between, rest
        elif one_tail != tail and not self._find_padding(one_tail, tail):
            return False
        self._end = -len(self._tail)
        return bool(self._tail)

    def _find_padding(self, one: bytes, other: bytes) -> bool:
        """Set the surroundings of the padding in which two ends of a frame differ; return False if it is none."""
        size = _common_start(one, other)
        rest = min(len(one), len(other)) - size
        rest = _common_start(one[len(one) - rest :][::-1], other[len(other) - rest :][::-1])
        start, end = other[:size], other[len(other) - rest :]
        if not (one[size : len(one) - rest] + other[size : len(other) - rest]).strip(b" "):
            # Anthropic pads with spaces. Between the last brackets they are in no string.
            start, end, self._spaced = start.rstrip(b" "), end.lstrip(b" "), True
            is_padding = start[-1:] in (b"}", b"]") and not end.strip(b"}] \r\n")
        else:
            quote = start.rfind(b'"') + 1
            start, end, self._spaced = start[:quote], end[end.find(b'"') :], False
            name = start[:-1].rstrip(b" ")
            is_unread = name[-2:] == b'":' and name[name.rfind(b'"', 0, -2) + 1 : -2] in self._parser.unread_fields
            values = one[quote : len(one) - len(end)], other[quote : len(other) - len(end)]
            is_padding = is_unread and end[:1] == b'"' and all(map(bytes.isalnum, values))
        self._middle, self._tail = b'"' + start, end
        return is_padding


def _simple_text(event: Event) -> bytes:
    """Return the text of a delta as bytes; nothing if JSON must escape it, or has the same between strings."""
    if isinstance(event, (Text, Reasoning)):
        text = event.text
    elif isinstance(event, ToolCallDelta):
        text = event.arguments_delta
    elif isinstance(event, ServerTool) and isinstance(event.data, str):
        text = event.data
    else:
        return b""
    is_simple = text.isprintable() and '"' not in text and "\\" not in text
    return text.encode() if is_simple and _SEPARATOR.fullmatch(text) is None else b""


def _common_start(one: bytes, other: bytes) -> int:
    """Return how many bytes at the start of two texts are equal."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least
