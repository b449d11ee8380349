"""The value of an argument text that has ended: an object, the true prefix of one, or neither."""

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
    """The value of an argument text that has ended."""

    state: CallState
    arguments: dict[str, Any] | None  #: None unless complete
    text: str  #: the text in force
    warning: tuple[str, str] | None = None  #: its code and message
    problem: str | None = None  #: of invalid text: the error and its position


def finalize_arguments(text: str, restated: str = "", *, recover_trailing_junk: bool = True) -> ParsedArguments:
    """Decide the value of an ended argument text (docs/rules.md, "Restated arguments" and "State").

    Args:
        text: the joined deltas.
        restated: the text from the last position at which the arguments may have been restarted; "" for none.
        recover_trailing_junk: whether a complete object followed by other text counts as that object.

    Returns:
        The state, the arguments if complete, the text in force, a warning, and for invalid text the problem.
    """
    stripped = text.strip(_SPACE)
    if not stripped or stripped == "null":
        return ParsedArguments("complete", {}, text)
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _finalize_invalid(text, stripped, restated, recover_trailing_junk=recover_trailing_junk)
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
    return ParsedArguments("invalid", None, text, problem=f"the arguments are JSON but not an object: {stripped[:80]}")


def _finalize_invalid(text: str, stripped: str, restated: str, *, recover_trailing_junk: bool) -> ParsedArguments:
    """Decide the value of a text that is not strict JSON: a prefix, a restatement, an object and junk, or invalid."""
    try:
        value, end = _lenient.raw_decode(stripped)
        problem = None
    except (ValueError, RecursionError) as error:
        if stripped.startswith("{") and _is_prefix(text):  # with its trailing space: ``{"a":tru `` is no prefix
            return ParsedArguments("incomplete", None, text)
        value, end = None, 0
        at = getattr(error, "pos", 0)
        around = stripped[max(0, at - 20) : at + 20]
        problem = f"{getattr(error, 'msg', error)} at character {at}, near {around!r}"
    if restated:
        again = finalize_arguments(restated, recover_trailing_junk=False)
        if again.state == "complete":
            warning = (
                "arguments_restated",
                "the arguments were sent again from their beginning; the last version is in force",
            )
            return ParsedArguments("complete", again.arguments, again.text, warning)
    if problem is None and not isinstance(value, dict):
        problem = f"the arguments are not an object: {stripped[:80]}"
    junk = stripped[end:].strip(_SPACE)
    if problem is None and junk and not recover_trailing_junk:
        problem = f"something follows the object: {junk[:80]}"
    if problem is not None:
        return ParsedArguments("invalid", None, text, problem=problem)
    # Without junk the text is JSON except for half of a surrogate pair, which no encoder would write again.
    warning = (
        ("trailing_junk", f"omitted the text after the complete object: {junk[:80]!r}")
        if junk
        else ("lone_surrogate", "half of a surrogate pair in the arguments was replaced by U+FFFD")
    )
    return ParsedArguments("complete", replace_lone_surrogates(value), text, warning)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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
_FOLLOWS = {  # the kinds of token that may follow, by the expectation
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
    """Return True if a text is the true prefix of a JSON value, so that text appended to it can complete the value.

    The partial modes of JSON libraries do not check this: jiter, for example, also accepts ``{"a":1 2`` and
    ``{"a":1]``.
    """
    open_brackets: list[str] = []
    expected, at = "value", 0
    while True:
        token = _TOKEN.match(text, at)
        if token is None or (token["scalar"] and text[token.end() : token.end() + 1] in (".", "e", "E")):
            truncated = _CUT_TOKEN.fullmatch(text, at)
            return truncated is not None and (truncated.lastgroup is None or truncated.lastgroup in _FOLLOWS[expected])
        kind = token["mark"] or token.lastgroup or ""
        if kind not in _FOLLOWS[expected]:
            return False
        at = token.end()
        if kind == "{":
            open_brackets.append(kind)
            expected = "key or }"
        elif kind == "[":
            open_brackets.append(kind)
            expected = "value or ]"
        elif kind == ":":
            expected = "value"
        elif kind == ",":
            expected = "key" if open_brackets[-1] == "{" else "value"
        elif kind == "string" and expected in ("key", "key or }"):
            expected = ":"
        else:
            if kind in "}]":
                open_brackets.pop()
            expected = "end" if not open_brackets else ", or }" if open_brackets[-1] == "{" else ", or ]"
