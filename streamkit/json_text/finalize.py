"""What an argument text means that has ended: an object, the true beginning of one, or neither."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from streamkit.calls import CallState
from streamkit.json_text.surrogates import replace_lone_surrogates

__all__ = ["ParsedArguments", "finalize_arguments"]

_SPACE = " \t\r\n"


class ParsedArguments(NamedTuple):
    """What an argument text that has ended means."""

    state: CallState
    arguments: dict[str, Any] | None  #: None unless complete
    text: str  #: the text that stands
    warning: tuple[str, str] | None = None  #: code and sentence of what was odd
    problem: str | None = None  #: for invalid text: what is wrong, and where


def finalize_arguments(text: str, restated: str = "", *, recover_trailing_junk: bool = True) -> ParsedArguments:
    """Decide what an ended argument text means (design section 5, "Restated arguments" and "State").

    Args:
        text: the joined deltas.
        restated: the text from the last place where the arguments may have begun anew; "" for none.
        recover_trailing_junk: whether a whole object followed by something else counts as that object.
    """
    bare = text.strip(_SPACE)
    if not bare or bare == "null":
        return ParsedArguments("complete", {}, text)
    try:
        value = msgspec.json.decode(bare)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _settle_broken(text, bare, restated, recover_trailing_junk=recover_trailing_junk)
    except RecursionError:
        return ParsedArguments("invalid", None, text, problem="the arguments are nested too deeply")
    if isinstance(value, dict):
        return ParsedArguments("complete", value, text)
    if isinstance(value, str):
        inner = finalize_arguments(value, recover_trailing_junk=False)
        if inner.state == "complete" and inner.warning is None:
            return ParsedArguments(
                "complete", inner.arguments, text, ("double_encoded", "the arguments were a JSON string")
            )
    return ParsedArguments("invalid", None, text, problem=f"the arguments are JSON, but no object: {bare[:80]}")


def _settle_broken(text: str, bare: str, restated: str, *, recover_trailing_junk: bool) -> ParsedArguments:
    """The text is not strict JSON: a prefix, a restatement, something with junk behind it, or simply wrong."""
    try:
        value, end = _lenient.raw_decode(bare)
        problem = None
    except (ValueError, RecursionError) as error:
        if bare.startswith("{") and _is_prefix(text):  # with the space at its end: ``{"a":tru `` can become nothing
            return ParsedArguments("incomplete", None, text)
        value, end = None, 0
        at = getattr(error, "pos", 0)
        around = bare[max(0, at - 20) : at + 20]
        problem = f"{getattr(error, 'msg', error)} at character {at}, near {around!r}"
    if restated:
        again = finalize_arguments(restated, recover_trailing_junk=False)
        if again.state == "complete":
            warning = ("arguments_restated", "the arguments were sent again from their beginning; the last ones stand")
            return ParsedArguments("complete", again.arguments, again.text, warning)
    if problem is None and not isinstance(value, dict):
        problem = f"the arguments are no object: {bare[:80]}"
    junk = bare[end:].strip(_SPACE)
    if problem is None and junk and not recover_trailing_junk:
        problem = f"something follows the object: {junk[:80]}"
    if problem is not None:
        return ParsedArguments("invalid", None, text, problem=problem)
    # Without junk it is JSON but for half of a surrogate pair, which no encoder would write again.
    warning = (
        ("trailing_junk", f"left out, coming after the whole object: {junk[:80]!r}")
        if junk
        else ("lone_surrogate", "half of a surrogate pair in the arguments was replaced by U+FFFD")
    )
    return ParsedArguments("complete", replace_lone_surrogates(value), text, warning)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_lenient = json.JSONDecoder(parse_constant=_refuse_constant)


_STRING_BODY = r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_TOKEN = re.compile(
    rf'[ \t\r\n]*+(?:(?P<string>"{_STRING_BODY}")|(?P<mark>[{{}}\[\]:,])'
    r"|(?P<scalar>true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?))"
)
_CUT_TOKEN = re.compile(  # the beginning of a token, up to the end of the text
    rf'[ \t\r\n]*+(?:|(?P<string>"{_STRING_BODY}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?)'
    r"|(?P<scalar>t(?:r(?:u)?)?|f(?:a(?:l(?:s)?)?)?|n(?:u(?:l)?)?"
    r"|-|-?(?:0|[1-9][0-9]*+)(?:\.|(?:\.[0-9]++)?[eE][+-]?)))"
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
        if kind not in _FOLLOWS[expected]:
            return False
        at = token.end()
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
