"""A reader of one JSON value that grows, and the object of an unfinished argument text that it shows.

The cost of a delta depends on its length alone. Subclasses decide what of the value is shown, and which violations of
JSON they accept. JSON has no infinity, and no provider accepts one again. The module depends on no stream.

The object is parsed at once, or incrementally while the text grows. Both give the result of pydantic's parser for an
unfinished text: open strings as far as they were received, a number with its digits so far, a literal (``true``) when
it is complete, a key when its value has begun; an empty object where the text cannot be JSON. Where neither a comma nor
a closing bracket follows a value, the open containers end there (``allowed_if_partial`` in
https://github.com/pydantic/jiter/blob/main/crates/jiter/src/errors.rs).

Parsing the complete text again at each delta is quadratic: 124 s for 1 MB in deltas of 16 characters. The official SDKs
and the Vercel AI SDK do that (vercel/ai#17113, langchain-ai/langchainjs#11148, earendil-works/pi#9062).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from streamkit.json_text.surrogates import join_surrogates

__all__ = [
    "STRING_STOP",
    "IncrementalJsonObject",
    "JsonReader",
    "has_infinity",
    "is_infinite",
    "parse_number",
    "parse_partial_object",
]

_LARGE_NUMBER = re.compile("[0-9][eE]|[0-9]{300}")


def parse_number(text: str) -> int | float:
    """Return the value of a JSON number; infinity if it is too large."""
    if "." not in text and "e" not in text and "E" not in text:
        try:
            return int(text)
        except ValueError:  # longer than sys.set_int_max_str_digits() allows
            pass
    return float(text)


def is_infinite(value: Any) -> bool:
    """Return True for a number that was too large."""
    return value.__class__ is float and math.isinf(value)


def has_infinity(text: str, value: Any) -> bool:
    """Return True if a value contains a number that was too large.

    Args:
        text: the JSON of the value; most texts show at once that all their numbers are small.
        value: the value.
    """
    if _LARGE_NUMBER.search(text) is None:
        return False
    level = [value]
    while level:
        if any(is_infinite(item) for item in level):
            return True
        containers = [item for item in level if item.__class__ is dict or item.__class__ is list]
        level = [inner for item in containers for inner in (item.values() if item.__class__ is dict else item)]
    return False


_DEEPEST = 200  # containers around a value, as in jiter (DEFAULT_RECURSION_LIMIT)

_LONGEST_NUMBER = 4300  # characters; jiter refuses longer integers, as Python does

STRING_STOP = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')

# Runs of characters and escapes alternate, so there is one way to match. No repeat is possessive: before 3.11.5, ``re``
# consumed part of an escape that did not match (https://github.com/python/cpython/issues/106052), and Debian 12 has
# 3.11.2. The bound limits the record that ``re`` keeps of each repetition, 170 bytes an escape.
_BODY = re.compile(
    r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))[^"\\\x00-\x1f]*){0,256}'
)

_SPACE = re.compile(r"[ \t\r\n]*")

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")

_TRUNCATED_NUMBER = re.compile(r"-|-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)")

_HEX = b"0123456789abcdefABCDEF"

_LITERALS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class JsonReader:
    """A reader of one growing JSON value.

    Attributes:
        is_invalid: the text is not JSON, whatever follows; the value keeps what was read before.
    """

    __slots__ = ("_buffer", "_in_key", "_key", "_open", "_parts", "_root", "_step", "_string", "is_invalid")

    #: Where neither a comma nor a closing bracket follows a value, the rest is ignored, and a bracket closes the
    #: innermost container of its kind, as jiter reads an unfinished text; else such a text is invalid.
    is_lenient: ClassVar[bool] = False

    def __init__(self) -> None:
        self._step: _Step = JsonReader._first  # reads the next character
        self._buffer = ""  # the incomplete end of the text: of an escape, a literal, a number, a surrogate pair
        self._root: list[Any] = []  # the value of the text, once it has begun
        self._open: list[Any] = [self._root]  # the open dicts and lists, outermost first
        self._key: Any = 0  # of the current value, in the innermost container
        self._in_key = False  # the current string is a key
        self._parts: list[str] = []  # the parts of the current string since it was last joined
        self._string = ""  # the parts joined so far
        self.is_invalid: bool = False

    def feed(self, text: str) -> None:
        """Read the next delta of the text. Invalid text raises nothing."""
        if self._step is JsonReader._text and not self._buffer:
            match = STRING_STOP.search(text)
            if match is None:
                self._parts.append(text)
                return
            if text.isascii():
                self._read(text, self._text_up_to(text, 0, match.start()))
                return
        if self._buffer:
            text, self._buffer = self._buffer + text, ""
        half = ""
        if not text.isascii():
            if "\ud800" <= text[-1] <= "\udbff":
                text, half = text[:-1], text[-1]
            text = join_surrogates(text)
        self._read(text)
        if half:
            if self._step is JsonReader._text and (not self._buffer or self._buffer.endswith("\\u")):
                self._buffer += half
            else:  # no character beyond U+FFFF is allowed here either, whatever the other half is
                text, self._buffer = self._buffer + "\ufffd", ""
                self._read(text)

    # ---------------------------------------------------------------- for subclasses

    def _begin(self, text: str, at: int) -> int:
        """Read the first character of the root."""
        return self._value(text, at)

    def _begin_value(self, value: Any) -> None:
        """Add a value: an opened container, an opened string as "", or a complete number or literal."""
        self._put(value)

    def _end_value(self, value: Any) -> None:
        """Note the end of a string, or of an object or a list that is no longer open."""

    def _end_root(self, end: int) -> int:
        """Ignore the text from this offset on, which is not part of the root; return the offset to go on at."""
        return self._ignore_rest()

    def _set_invalid(self) -> int:
        """Note that the text is not JSON, whatever follows."""
        self.is_invalid = True
        return self._ignore_rest()

    # ---------------------------------------------------------------- changes to the value

    def _put(self, value: Any) -> None:
        container = self._open[-1]
        if container.__class__ is dict:
            container[self._key] = value
        else:
            container[self._key :] = (value,)

    def _grow(self) -> None:
        """Update the open string in the value.

        CPython appends in place to a string with a single reference (``unicode_concatenate`` in its ceval.c), so the
        string is removed from the value first: at 1 MB, a delta and its reading cost 2 us instead of 370. Other
        interpreters copy it.
        """
        more = "".join(self._parts)
        self._parts.clear()
        if self._string:
            self._put("")
        grown, self._string = self._string, ""
        grown += more
        self._put(grown)
        self._string = grown

    def _ignore_rest(self) -> int:
        """Ignore all text that follows."""
        self._step = JsonReader._ignore
        self._open.clear()
        self._parts.clear()
        self._string = ""
        return _END

    # ---------------------------------------------------------------- steps

    def _read(self, text: str, at: int = 0) -> None:
        end = len(text)
        while at < end:
            step = self._step
            if step is not JsonReader._text and text[at] in " \t\r\n":
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            else:
                at = step(self, text, at)

    def _ignore(self, text: str, at: int) -> int:
        return _END

    def _first(self, text: str, at: int) -> int:
        return self._begin(text, at)

    def _first_key(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "}" else self._next_key(text, at)

    def _next_key(self, text: str, at: int) -> int:
        if text[at] != '"':
            return self._set_invalid()
        self._in_key = True
        self._step = JsonReader._text
        return self._text(text, at + 1)

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            return self._set_invalid()
        self._step = JsonReader._value
        return at + 1

    def _first_item(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "]" else self._value(text, at)

    def _value(self, text: str, at: int) -> int:
        container, character = self._open[-1], text[at]
        if len(self._open) > _DEEPEST + 1:  # the first one holds the root
            return self._set_invalid()
        if container.__class__ is list:
            self._key = len(container)
        if character == '"':
            self._in_key, self._string = False, ""
            self._begin_value("")
            self._step = JsonReader._text
            return self._text(text, at + 1)
        if character in "{[":
            opened: Any = {} if character == "{" else []
            self._begin_value(opened)
            self._open.append(opened)
            self._step = JsonReader._first_key if character == "{" else JsonReader._first_item
            return at + 1
        if character in "-0123456789":
            return self._digits(text, at)
        literal, value = _LITERALS.get(character, ("", None))
        if literal and text.startswith(literal, at):
            self._begin_value(value)
            self._step = JsonReader._after_value
            return at + len(literal)
        if literal and literal.startswith(text[at : at + 5]):
            self._buffer = text[at:]
            return _END
        return self._set_invalid()

    def _digits(self, text: str, at: int) -> int:
        match = _NUMBER.match(text, at)
        stop = match.end() if match is not None else at
        if stop - at > _LONGEST_NUMBER:
            return self._set_invalid()
        if match is not None and stop < len(text):
            if match[2] is not None or text[stop] not in ("eE" if match[1] else ".eE0123456789"):
                number = parse_number(match[0])
                if is_infinite(number):
                    return self._set_invalid()
                self._begin_value(number)
                self._step = JsonReader._after_value
                return stop
        if (match is None or stop < len(text)) and _TRUNCATED_NUMBER.fullmatch(text, at) is None:
            return self._set_invalid()
        self._buffer = text[at:]
        return _END if len(text) - at <= _LONGEST_NUMBER else self._set_invalid()

    def _after_value(self, text: str, at: int) -> int:
        """Read the character after a value."""
        character = text[at]
        if len(self._open) == 1:
            return self._end_root(at)
        if character in "}]":
            return self._close(text, at)
        if character != ",":
            return self._ignore_rest() if self.is_lenient else self._set_invalid()
        self._step = JsonReader._next_key if self._open[-1].__class__ is dict else JsonReader._value
        return at + 1

    def _close(self, text: str, at: int) -> int:
        kind = dict if text[at] == "}" else list
        while len(self._open) > 1:
            is_closed = self._open[-1].__class__ is kind
            if not is_closed and not self.is_lenient:
                return self._set_invalid()
            self._end_value(self._open.pop())
            if is_closed:
                break
        if len(self._open) == 1:
            return self._end_root(at + 1)
        self._step = JsonReader._after_value
        return at + 1

    def _text(self, text: str, at: int) -> int:
        """Read characters of a string."""
        match = STRING_STOP.search(text, at)
        if match is None:
            self._parts.append(text[at:])
            return _END
        return self._text_up_to(text, at, match.start())

    def _text_up_to(self, text: str, at: int, stop: int) -> int:
        """Read a string up to the first special character at ``stop``, and that character."""
        if text[stop] == "\\":
            stop = _BODY.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            if stop > at:
                self._parts.append(msgspec.json.decode(f'"{text[at:stop]}"', type=str))
                if stop == len(text):
                    return stop
        elif stop > at:
            self._parts.append(text[at:stop])
        if text[stop] == '"':
            if self._in_key:
                self._key = "".join(self._parts)
                self._parts.clear()
                self._step = JsonReader._colon
                if text[stop + 1 : stop + 2] == ":":
                    self._step = JsonReader._value
                    return stop + 2
            else:
                self._grow()
                value, self._string = self._string, ""
                self._step = JsonReader._after_value
                self._end_value(value)
            return stop + 1
        if text[stop] == "\\":
            if _can_be_escape(text[stop + 1 : stop + 12]):
                self._buffer = text[stop:]
                return _END
            if stop > at:  # the bound of the pattern may have been reached
                return stop
        return self._set_invalid()


_Step: TypeAlias = Callable[[JsonReader, str, int], int]

_END: Final = 1 << 62  # an offset beyond every text


def _can_be_escape(text: str) -> bool:
    r"""Return True if the text after a backslash, which ends the text so far, may be the prefix of an escape.

    jiter checks the digits of ``\u`` only when four bytes were received.
    """
    if not text:
        return True
    if text[0] != "u":
        return False
    digits = text[1:].encode()
    if len(digits) < 4:
        return True
    if any(character not in _HEX for character in digits[:4]) or not 0xD800 <= int(digits[:4], 16) <= 0xDBFF:
        return False
    low_half = digits[4:]
    return low_half in (b"", b"\\") or (low_half[:2] == b"\\u" and len(low_half) < 6)


_MISSING: Final = object()


def parse_partial_object(text: str) -> dict[str, Any]:
    """Return the object of an unfinished text, open strings included; ``{}`` if it is unreadable. For display only."""
    from pydantic_core import from_json

    try:
        value = from_json(join_surrogates(text), allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and not has_infinity(text, value) else {}


class IncrementalJsonObject(JsonReader):
    """The object of a growing text, as far as the text was received. For display only.

    The cost of a delta depends on its length alone, the cost of ``value`` on the deltas since its last use. At every
    moment ``value`` equals ``parse_partial_object`` of the joined deltas, with one exception: numbers of more than
    4,300 characters are refused also if they are not integers.
    """

    __slots__ = ("_number_shown", "_replaced")

    is_lenient: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._root.append({})
        self._number_shown = False  # the number in the buffer is part of the object
        self._replaced: Any = _MISSING  # the value that the number replaced

    def feed(self, text: str) -> None:
        """Read the next delta of the text. Invalid text raises nothing."""
        if self._number_shown:
            self._remove_number()
        super().feed(text)

    @property
    def value(self) -> dict[str, Any]:
        """The object so far: the same dict each time, updated. Copy it to keep it, and do not change it.

        A long string that still grows is copied only if the caller keeps a reference to it from the last call.
        """
        if self._step is JsonReader._text and not self._in_key:
            if self._parts:
                self._grow()
            if self._buffer[:1] >= "\ud800":
                self._put(self._string + "\ufffd")  # until its other half is received
        elif self._buffer[-1:].isdigit() and self._buffer[0] != "\\" and not self._number_shown:
            container = self._open[-1]
            number = parse_number(self._buffer)
            if is_infinite(number):
                return {}  # what follows can still make it finite: 1000...0e-300
            self._replaced = container.get(self._key, _MISSING) if container.__class__ is dict else _MISSING
            self._put(number)
            self._number_shown = True
        root: dict[str, Any] = self._root[0]
        return root

    @property
    def ends_in_half(self) -> bool:
        """Whether the text ends with half of a surrogate pair, for which the object has U+FFFD until the other half."""
        return self._buffer[:1] >= "\ud800"

    def _remove_number(self) -> None:
        """Remove a number that was shown: the text that follows may change it or make it invalid."""
        container, self._number_shown = self._open[-1], False
        if container.__class__ is not dict:
            del container[self._key :]
        elif self._replaced is _MISSING:
            container.pop(self._key, None)
        else:
            container[self._key] = self._replaced

    def _set_invalid(self) -> int:
        self._root[0] = {}
        return super()._set_invalid()

    def _begin(self, text: str, at: int) -> int:
        if text[at] != "{":
            return self._set_invalid()
        self._open.append(self._root[0])
        self._step = JsonReader._first_key
        return at + 1
