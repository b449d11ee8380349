"""What an argument text shows so far that has not ended: read at once, or kept up with while it grows.

Both show the same, which is what pydantic's parser makes of an unfinished text: open strings as far as they are there,
a number as it stands, a word (``true``) when it is whole, a key when its value has begun; nothing at all where the text
cannot be JSON. Where neither comma nor end follows a value, what is open is closed there (``allowed_if_partial`` in
https://github.com/pydantic/jiter/blob/main/crates/jiter/src/errors.rs).

To read a text anew at each delta is quadratic: 124 s for 1 MB in pieces of 16 characters, and this is what the official
SDKs and the Vercel AI SDK do (vercel/ai#17113, langchain-ai/langchainjs#11148, earendil-works/pi#9062).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from streamkit.json_text.surrogates import join_surrogates

__all__ = ["IncrementalJsonObject", "parse_partial_object"]

_DEEPEST = 200  # containers around a value, as in jiter (DEFAULT_RECURSION_LIMIT)
_LONGEST_NUMBER = 4300  # characters; jiter refuses longer integers, as Python does

_STRING_STOP = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_BODY = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+"
)
_SPACE = re.compile(r"[ \t\r\n]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_CUT_NUMBER = re.compile(r"-|-?(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?)")
_HEX = b"0123456789abcdefABCDEF"
_WORDS: dict[str, tuple[str, Any]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_NOTHING: Final = object()


def parse_partial_object(text: str) -> dict[str, Any]:
    """The object as far as it is there, open strings included; ``{}`` where nothing can be read. For display only."""
    from pydantic_core import from_json

    try:
        value = from_json(join_surrogates(text), allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class IncrementalJsonObject:
    """The object of a text that grows, as far as it is there. For display only.

    A piece costs what it holds, however long the text is already, and a reading costs what came since the last one. At
    every moment ``value`` equals ``partial_object`` of the joined pieces; but numbers of more than 4,300 characters are
    refused also where they are no integers.
    """

    __slots__ = ("_before", "_held", "_in_key", "_key", "_open", "_parts", "_root", "_shown", "_step", "_string")

    def __init__(self) -> None:
        self._step: _Step = IncrementalJsonObject._begin  # what reads the next character
        self._held = ""  # a beginning that says nothing yet: of an escape, a word, a number; half a surrogate pair
        self._root: dict[str, Any] = {}
        self._open: list[Any] = []  # the dicts and lists that are open, outermost first
        self._key: Any = ""  # of the value that is read, in the innermost of them
        self._in_key = False  # whether the string that is read is a key
        self._parts: list[str] = []  # what came of it since it was last joined
        self._string = ""  # what was joined
        self._shown = False  # whether the held number stands in the object, and there instead of what
        self._before: Any = _NOTHING

    def feed(self, text: str) -> None:
        """Take the next piece of the text. Nothing is raised, whatever it holds."""
        if self._step is IncrementalJsonObject._text and not self._held:
            found = _STRING_STOP.search(text)
            if found is None:
                self._parts.append(text)
                return
            if text.isascii():
                self._read(text, self._text_up_to(text, 0, found.start()))
                return
        if self._shown:
            self._withdraw()
        if self._held:
            text, self._held = self._held + text, ""
        half = ""
        if not text.isascii():
            if "\ud800" <= text[-1] <= "\udbff":
                text, half = text[:-1], text[-1]
            text = join_surrogates(text)
        self._read(text)
        if half:
            if self._step is IncrementalJsonObject._text and (not self._held or self._held.endswith("\\u")):
                self._held += half
            else:  # whatever follows it: no character beyond U+FFFF may stand here either
                text, self._held = self._held + "\ufffd", ""
                self._read(text)

    @property
    def value(self) -> dict[str, Any]:
        """The object so far: the same dict each time, brought up to date. Copy it to keep it, and do not change it.

        A long string that still grows is copied only where somebody holds the value of the last reading.
        """
        if self._step is IncrementalJsonObject._text and not self._in_key:
            if self._parts:
                self._grow()
            if self._held[:1] >= "\ud800":
                self._put(self._string + "\ufffd")  # as long as its other half has not come
        elif self._held[-1:].isdigit() and self._held[0] != "\\" and not self._shown:
            container = self._open[-1]
            self._before = container.get(self._key, _NOTHING) if container.__class__ is dict else _NOTHING
            self._put(_number(self._held))
            self._shown = True
        return self._root

    # ---------------------------------------------------------------- what is put where

    def _put(self, value: Any) -> None:
        container = self._open[-1]
        if container.__class__ is dict:
            container[self._key] = value
        else:
            container[self._key :] = (value,)

    def _withdraw(self) -> None:
        """Take back a number that was shown: what follows may make it another one, or none."""
        container, self._shown = self._open[-1], False
        if container.__class__ is not dict:
            del container[self._key :]
        elif self._before is _NOTHING:
            container.pop(self._key, None)
        else:
            container[self._key] = self._before

    def _grow(self) -> None:
        """Bring the open string in the object up to date.

        CPython appends in place to a string that nobody else holds (``unicode_concatenate`` in its ceval.c), so it is
        taken out of the object first: at 1 MB a piece and its reading cost 2 us and not
        370. Elsewhere it is copied.
        """
        more = "".join(self._parts)
        self._parts.clear()
        if self._string:
            self._put("")
        grown, self._string = self._string, ""
        grown += more
        self._put(grown)
        self._string = grown

    def _broken(self) -> int:
        """The text is no JSON, whatever follows."""
        self._root = {}
        return self._over()

    def _over(self) -> int:
        """What follows changes nothing."""
        self._step = IncrementalJsonObject._ignore
        self._open.clear()
        self._parts.clear()
        self._string = ""
        return _END

    # ---------------------------------------------------------------- what may come next

    def _read(self, text: str, at: int = 0) -> None:
        end = len(text)
        while at < end:
            step = self._step
            if step is not IncrementalJsonObject._text and text[at] in " \t\r\n":
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
            else:
                at = step(self, text, at)

    def _ignore(self, text: str, at: int) -> int:
        return _END

    def _begin(self, text: str, at: int) -> int:
        if text[at] != "{":
            return self._broken()
        self._open.append(self._root)
        self._step = IncrementalJsonObject._first_key
        return at + 1

    def _first_key(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "}" else self._next_key(text, at)

    def _next_key(self, text: str, at: int) -> int:
        if text[at] != '"':
            return self._broken()
        self._in_key = True
        self._step = IncrementalJsonObject._text
        return self._text(text, at + 1)

    def _colon(self, text: str, at: int) -> int:
        if text[at] != ":":
            return self._broken()
        self._step = IncrementalJsonObject._value
        return at + 1

    def _first_item(self, text: str, at: int) -> int:
        return self._close(text, at) if text[at] == "]" else self._value(text, at)

    def _value(self, text: str, at: int) -> int:
        container, character = self._open[-1], text[at]
        if len(self._open) > _DEEPEST:
            return self._broken()
        if container.__class__ is list:
            self._key = len(container)
        if character == '"':
            self._in_key, self._string = False, ""
            self._put("")
            self._step = IncrementalJsonObject._text
            return self._text(text, at + 1)
        if character in "{[":
            opened: Any = {} if character == "{" else []
            self._put(opened)
            self._open.append(opened)
            self._step = IncrementalJsonObject._first_key if character == "{" else IncrementalJsonObject._first_item
            return at + 1
        if character in "-0123456789":
            return self._digits(text, at)
        word, meaning = _WORDS.get(character, ("", None))
        if word and text.startswith(word, at):
            self._put(meaning)
            self._step = IncrementalJsonObject._behind
            return at + len(word)
        if word and word.startswith(text[at : at + 5]):
            self._held = text[at:]
            return _END
        return self._broken()

    def _digits(self, text: str, at: int) -> int:
        found = _NUMBER.match(text, at)
        stop = found.end() if found is not None else at
        if stop - at > _LONGEST_NUMBER:
            return self._broken()
        if found is not None and stop < len(text):
            if found[2] is not None or text[stop] not in ("eE" if found[1] else ".eE0123456789"):
                self._put(_number(found[0]))
                self._step = IncrementalJsonObject._behind
                return stop
        if (found is None or stop < len(text)) and _CUT_NUMBER.fullmatch(text, at) is None:
            return self._broken()
        self._held = text[at:]
        return _END if len(text) - at <= _LONGEST_NUMBER else self._broken()

    def _behind(self, text: str, at: int) -> int:
        """What may follow a value."""
        character = text[at]
        if character in "}]":
            return self._close(text, at)
        if character != ",":
            return self._over()
        self._step = (
            IncrementalJsonObject._next_key if self._open[-1].__class__ is dict else IncrementalJsonObject._value
        )
        return at + 1

    def _close(self, text: str, at: int) -> int:
        kind = dict if text[at] == "}" else list
        while self._open:
            if self._open.pop().__class__ is kind:
                break
        if not self._open:
            return self._over()
        self._step = IncrementalJsonObject._behind
        return at + 1

    def _text(self, text: str, at: int) -> int:
        """What may stand in a string."""
        found = _STRING_STOP.search(text, at)
        if found is None:
            self._parts.append(text[at:])
            return _END
        return self._text_up_to(text, at, found.start())

    def _text_up_to(self, text: str, at: int, stop: int) -> int:
        """What stands in a string up to the first character that is not simply itself, and what this one means."""
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
                self._step = IncrementalJsonObject._colon
                if text[stop + 1 : stop + 2] == ":":
                    self._step = IncrementalJsonObject._value
                    return stop + 2
            else:
                self._grow()
                self._string = ""
                self._step = IncrementalJsonObject._behind
            return stop + 1
        if text[stop] == "\\" and _can_be_escape(text[stop + 1 : stop + 12]):
            self._held = text[stop:]
            return _END
        return self._broken()


_Step: TypeAlias = Callable[[IncrementalJsonObject, str, int], int]
_END: Final = 1 << 62  # behind every text


def _number(text: str) -> int | float:
    if "." not in text and "e" not in text and "E" not in text:
        try:
            return int(text)
        except ValueError:  # longer than sys.set_int_max_str_digits() allows
            pass
    return float(text)


def _can_be_escape(text: str) -> bool:
    r"""Whether what stands behind a backslash, up to the end of the text, may be the beginning of an escape.

    jiter looks at the digits of ``\u`` only when four bytes have come.
    """
    if not text:
        return True
    if text[0] != "u":
        return False
    found = text[1:].encode()
    if len(found) < 4:
        return True
    if any(digit not in _HEX for digit in found[:4]) or not 0xD800 <= int(found[:4], 16) <= 0xDBFF:
        return False
    second = found[4:]
    return second in (b"", b"\\") or (second[:2] == b"\\u" and len(second) < 6)
