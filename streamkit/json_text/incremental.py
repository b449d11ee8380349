"""The object of an unfinished argument text: parsed at once, or parsed incrementally while the text grows.

Both give the result of pydantic's parser for an unfinished text: open strings as far as they were received, a number
with its digits so far, a literal (``true``) when it is complete, a key when its value has begun; an empty object where
the text cannot be JSON. Where neither a comma nor a closing bracket follows a value, the open containers end there
(``allowed_if_partial`` in https://github.com/pydantic/jiter/blob/main/crates/jiter/src/errors.rs).

Parsing the complete text again at each delta is quadratic: 124 s for 1 MB in deltas of 16 characters. The official SDKs
and the Vercel AI SDK do that (vercel/ai#17113, langchain-ai/langchainjs#11148, earendil-works/pi#9062).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from streamkit.json_text.reader import JsonReader, has_infinity, is_infinite, parse_number
from streamkit.json_text.surrogates import join_surrogates

__all__ = ["IncrementalJsonObject", "parse_partial_object"]

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
