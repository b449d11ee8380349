"""What an argument text means that has ended: an object, the true beginning of one, or neither."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from streamkit.arguments.surrogates import without_lone_surrogates
from streamkit.calls import CallState

__all__ = ["Settled", "settle"]

_SPACE = " \t\r\n"


class Settled(NamedTuple):
    """What an argument text that has ended means."""

    state: CallState
    arguments: dict[str, Any] | None  #: None unless complete
    text: str  #: the text that stands
    warning: tuple[str, str] | None = None  #: code and sentence of what was odd
    problem: str | None = None  #: for invalid text: what is wrong, and where


def settle(text: str, restated: str = "", *, recover_trailing_junk: bool = True) -> Settled:
    """Decide what an ended argument text means (design section 5, "Restated arguments" and "State").

    Args:
        text: the joined deltas.
        restated: the text from the last place where the arguments may have begun anew; "" for none.
        recover_trailing_junk: whether a whole object followed by something else counts as that object.
    """
    bare = text.strip(_SPACE)
    if not bare or bare == "null":
        return Settled("complete", {}, text)
    try:
        value = msgspec.json.decode(bare)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _settle_broken(text, bare, restated, recover_trailing_junk=recover_trailing_junk)
    except RecursionError:
        return Settled("invalid", None, text, problem="the arguments are nested too deeply")
    if isinstance(value, dict):
        return Settled("complete", value, text)
    if isinstance(value, str):
        inner = settle(value, recover_trailing_junk=False)
        if inner.state == "complete" and inner.warning is None:
            return Settled("complete", inner.arguments, text, ("double_encoded", "the arguments were a JSON string"))
    return Settled("invalid", None, text, problem=f"the arguments are JSON, but no object: {bare[:80]}")


def _settle_broken(text: str, bare: str, restated: str, *, recover_trailing_junk: bool) -> Settled:
    """The text is not strict JSON: a prefix, a restatement, something with junk behind it, or simply wrong."""
    try:
        value, end = _lenient.raw_decode(bare)
        problem = None
    except (ValueError, RecursionError) as error:
        if bare.startswith("{") and _is_prefix(text):  # with the space at its end: ``{"a":tru `` can become nothing
            return Settled("incomplete", None, text)
        value, end = None, 0
        at = getattr(error, "pos", 0)
        around = bare[max(0, at - 20) : at + 20]
        problem = f"{getattr(error, 'msg', error)} at character {at}, near {around!r}"
    if restated:
        again = settle(restated, recover_trailing_junk=False)
        if again.state == "complete":
            warning = ("arguments_restated", "the arguments were sent again from their beginning; the last ones stand")
            return Settled("complete", again.arguments, again.text, warning)
    if problem is None and not isinstance(value, dict):
        problem = f"the arguments are no object: {bare[:80]}"
    junk = bare[end:].strip(_SPACE)
    if problem is None and junk and not recover_trailing_junk:
        problem = f"something follows the object: {junk[:80]}"
    if problem is not None:
        return Settled("invalid", None, text, problem=problem)
    # Without junk it is JSON but for half of a surrogate pair, which no encoder would write again.
    warning = (
        ("trailing_junk", f"left out, coming after the whole object: {junk[:80]!r}")
        if junk
        else ("lone_surrogate", "half of a surrogate pair in the arguments was replaced by U+FFFD")
    )
    return Settled("complete", without_lone_surrogates(value), text, warning)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_lenient = json.JSONDecoder(parse_constant=_refuse_constant)


# The characters and escapes of a string. There is no possessive repeat here: before 3.11.5, ``re`` consumed part of an
# escape that did not match inside one (https://github.com/python/cpython/issues/106052), and Debian 12 has 3.11.2. Runs
# and escapes alternate, so there is one way to match; the bound limits the record that ``re`` keeps of each repetition.
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*){0,256}')
_CUT_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"[^"\\\x00-\x1f]{0,64}")|(?P<mark>["{}\[\]:,])'
    r"|(?P<scalar>true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"
)
_CUT_TOKEN = re.compile(  # the beginning of a token that is no string, up to the end of the text
    r"[ \t\r\n]*(?:|(?P<scalar>t(?:r(?:u)?)?|f(?:a(?:l(?:s)?)?)?|n(?:u(?:l)?)?"
    r"|-|-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)))"
)
_FOLLOWS = {  # by what is expected: the kinds of token that may come
    "value": {"string", "scalar", "{", "["},
    "value or ]": {"string", "scalar", "{", "[", "]"},
    "key": {"string"},
    "key or }": {"string", "}"},
    ":": {":"},
    ", or }": {",", "}"},
    ", or ]": {",", "]"},
    "end": set(),
}


def _end_of_characters(text: str, at: int) -> int:
    """Return the offset of the first character that is no part of a string whose characters start at *at*."""
    while True:
        end = _CHARACTERS.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if end == at or not text.startswith("\\", end):
            return end
        at = end


def _is_prefix(text: str) -> bool:
    """Whether a text is the true beginning of a JSON value: adding to its end can make it one.

    The partial modes of JSON libraries do not say so: jiter, for one, takes ``{"a":1 2`` and ``{"a":1]`` as well.
    """
    inside: list[str] = []  # the brackets that are open
    expected, at = "value", 0
    while True:
        token = _TOKEN.match(text, at)
        if token is None or (token["scalar"] and text[token.end() : token.end() + 1] in (".", "e", "E")):
            cut = _CUT_TOKEN.fullmatch(text, at)
            return cut is not None and (cut.lastgroup is None or cut.lastgroup in _FOLLOWS[expected])
        kind = token["mark"] or token.lastgroup or ""
        at = token.end()
        if kind == '"':  # a string that is long, has escapes or is truncated
            kind, end = "string", _end_of_characters(text, at)
            if not text.startswith('"', end):
                return kind in _FOLLOWS[expected] and _CUT_ESCAPE.fullmatch(text, end) is not None
            at = end + 1
        if kind not in _FOLLOWS[expected]:
            return False
        if kind == "{":
            inside.append(kind)
            expected = "key or }"
        elif kind == "[":
            inside.append(kind)
            expected = "value or ]"
        elif kind == ":":
            expected = "value"
        elif kind == ",":
            expected = "key" if inside[-1] == "{" else "value"
        elif kind == "string" and expected in ("key", "key or }"):
            expected = ":"
        else:
            if kind in "}]":
                inside.pop()
            expected = "end" if not inside else ", or }" if inside[-1] == "{" else ", or ]"
