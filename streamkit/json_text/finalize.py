"""The value of an argument text that has ended: an object, the true prefix of one, or neither."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

import msgspec

from streamkit.calls import CallState
from streamkit.json_text.surrogates import replace_lone_surrogates

__all__ = ["ParsedArguments", "finalize_arguments", "is_one_object", "repair_json"]

_SPACE = " \t\r\n"


class ParsedArguments(NamedTuple):
    """The value of an argument text that has ended."""

    state: CallState
    arguments: dict[str, Any] | None  #: None unless complete
    text: str  #: the text in force
    warning: tuple[str, str] | None = None  #: its code and message
    problem: str | None = None  #: of invalid text: the error and its position
    duplicate_key: str | None = None  #: a key that one of its objects has twice; the last value counts


def finalize_arguments(
    text: str, restated: str = "", *, recover_trailing_junk: bool = True, repair: bool = False
) -> ParsedArguments:
    """Decide the value of an ended argument text (docs/rules.md, "Restated arguments" and "State").

    Args:
        text: the joined deltas.
        restated: the text from the last position at which the arguments may have been restarted; "" for none.
        recover_trailing_junk: whether a complete object followed by other text counts as that object.
        repair: whether a text that is an object once ``repair_json`` has repaired it counts as that object.

    Returns:
        The state, the arguments if complete, the text in force, a warning, and for invalid text the problem.
    """
    stripped = text.strip(_SPACE)
    if not stripped or stripped == "null":
        return ParsedArguments("complete", {}, text)
    try:
        value = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _finalize_invalid(text, stripped, restated, recover_trailing_junk=recover_trailing_junk, repair=repair)
    except RecursionError:
        return ParsedArguments("invalid", None, text, problem="the arguments are nested too deeply")
    if isinstance(value, dict):
        return ParsedArguments("complete", value, text, duplicate_key=_find_duplicate_key(stripped, value))
    if isinstance(value, str):
        inner = finalize_arguments(value, recover_trailing_junk=False)
        if inner.state == "complete" and inner.warning is None:
            warning = ("double_encoded", "the arguments were a JSON string")
            return ParsedArguments("complete", inner.arguments, text, warning, duplicate_key=inner.duplicate_key)
    return ParsedArguments("invalid", None, text, problem=f"the arguments are JSON but not an object: {stripped[:80]}")


def is_one_object(text: str) -> bool:
    """Return True if a text is one JSON object and nothing else."""
    parsed = finalize_arguments(text, recover_trailing_junk=False)
    is_clean = parsed.warning is None or parsed.warning[0] == "lone_surrogate"
    return parsed.state == "complete" and is_clean and text.lstrip(_SPACE).startswith("{")


def _finalize_invalid(
    text: str, stripped: str, restated: str, *, recover_trailing_junk: bool, repair: bool
) -> ParsedArguments:
    """Decide the value of a text that is not strict JSON: a prefix, a restatement, an object and junk, or invalid."""
    try:
        value, end = _lenient.raw_decode(stripped)
        problem = None
    except (ValueError, RecursionError) as error:
        # Checked with the trailing space: ``{"a":tru `` is no prefix. A number that is too large stays so.
        if not isinstance(error, _RefusedNumber) and stripped.startswith("{") and _is_prefix(text):
            return ParsedArguments("incomplete", None, text)
        value, end = None, 0
        at = _find_refused_number(stripped) if isinstance(error, _RefusedNumber) else getattr(error, "pos", 0)
        problem = f"{getattr(error, 'msg', error)} {_position(stripped, at)}"
    if restated:
        again = finalize_arguments(restated, recover_trailing_junk=False)
        if again.state == "complete":
            warning = (
                "arguments_restated",
                "the arguments were sent again from their beginning; the last version is in force",
            )
            return ParsedArguments("complete", again.arguments, again.text, warning, duplicate_key=again.duplicate_key)
    if problem is None and not isinstance(value, dict):
        problem = f"the arguments are not an object: {stripped[:80]}"
    junk = stripped[end:].strip(_SPACE)
    is_repeated = False
    if problem is None and junk:
        other, rest = _find_other_object(stripped, value, end)
        is_repeated = not rest
        if other is not None:
            problem = f"another object follows the first one {_position(stripped, other)}: a call has one"
        elif not is_repeated and not recover_trailing_junk:
            problem = f"something follows the object: {junk[:80]}"
    if problem is not None:
        repaired, repairs = repair_json(text) if repair else (text, ())
        if repairs and is_one_object(repaired):
            whole = finalize_arguments(repaired)
            warning = ("arguments_repaired", f"the arguments were repaired: {', '.join(repairs)}")
            return ParsedArguments("complete", whole.arguments, whole.text, warning, duplicate_key=whole.duplicate_key)
        return ParsedArguments("invalid", None, text, problem=problem)
    # Without junk the text is JSON except for half of a surrogate pair, which no encoder would write again.
    warning = (
        ("repeated_arguments", "the object was sent twice; the repeat was dropped")
        if is_repeated
        else ("trailing_junk", f"omitted the text after the complete object: {junk[:80]!r}")
        if junk
        else ("lone_surrogate", "half of a surrogate pair in the arguments was replaced by U+FFFD")
    )
    try:
        value = replace_lone_surrogates(value)
    except RecursionError:
        return ParsedArguments("invalid", None, text, problem="the arguments are nested too deeply")
    return ParsedArguments("complete", value, text, warning, duplicate_key=_find_duplicate_key(stripped[:end], value))


_IN_STRING = re.compile(r'["\\\x00-\x1f]')
_OUTSIDE = re.compile(r'"|,[ \t\r\n]*[}\]]')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')


def repair_json(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a JSON text with the errors repaired that have one meaning only, and what was repaired.

    Within strings, control characters are escaped, and a backslash that begins no escape. A comma between the last item
    of a list, or member of an object, and the bracket is dropped. Quotes and brackets stay as they are. The result may
    still not be JSON; a text that is JSON is returned unchanged.
    """
    parts: list[str] = []
    repairs: dict[str, None] = {}
    copied = at = 0
    in_string = False
    while (stop := (_IN_STRING if in_string else _OUTSIDE).search(text, at)) is not None:
        start, at = stop.start(), stop.start() + 1
        character = text[start]
        if character == '"':
            in_string = not in_string
        elif character == "\\" and (escape := _ESCAPE.match(text, start)) is not None:
            at = escape.end()
        elif character == "\\":
            repairs["an invalid escape is a backslash"] = None
            parts.append(text[copied:start] + "\\\\")
            copied = at
        elif in_string:
            repairs["a control character in a string was escaped"] = None
            parts.append(text[copied:start] + json.dumps(character)[1:-1])
            copied = at
        else:
            before = start - 1
            while before >= 0 and text[before] in _SPACE:
                before -= 1
            if before >= 0 and text[before] not in "[{,:":
                repairs["a trailing comma was dropped"] = None
                parts.append(text[copied:start])
                copied = at
    return ("".join([*parts, text[copied:]]), tuple(repairs)) if repairs else (text, ())


def _position(text: str, at: int) -> str:
    return f"at character {at}, near {text[max(0, at - 20) : at + 20]!r}"


def _find_other_object(text: str, value: Any, end: int) -> tuple[int | None, str]:
    """Search the text after an object for a second one that is not a repeat of it.

    Args:
        text: the text, which begins with the object.
        value: the object.
        end: the offset behind it.

    Returns:
        The offset of the second object, or None; the text that is no object.
    """
    first, rest = text[:end], ""
    while (at := text.find("{", end)) >= 0:
        rest += text[end:at].strip(_SPACE)
        try:
            other, end = _lenient.raw_decode(text, at)
        except (ValueError, RecursionError):
            # A truncated object counts as one, unless it repeats the first. A brace alone is no object.
            is_object = text[at + 1 :].lstrip(_SPACE).startswith('"') and _is_prefix(text[at:])
            return at if is_object and not first.startswith(text[at:]) else None, rest + text[at:]
        if other != value:
            return at, rest
    return None, rest + text[end:].strip(_SPACE)


# ---------------------------------------------------------------- numbers and keys


class _RefusedNumber(ValueError):
    """A literal that no JSON number of Python can represent: ``1e999``, ``NaN``, an integer of 5,000 digits."""


def _refuse_constant(name: str) -> Any:
    raise _RefusedNumber(f"{name} is not JSON")


def _to_float(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _RefusedNumber(f"the number {literal[:40]} is too large")
    return number


def _to_integer(literal: str) -> int:
    try:
        return int(literal)
    except ValueError:  # longer than sys.set_int_max_str_digits() allows, by default 4,300 digits
        raise _RefusedNumber(f"an integer of {len(literal)} characters is too long") from None


_lenient = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_to_float, parse_int=_to_integer)
_STRING_OR_NUMBER = re.compile(
    r'"|(?P<constant>NaN|-?Infinity)|-?[0-9]+(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
)


def _find_refused_number(text: str) -> int:
    """Return the offset of the first literal outside of strings that the decoder refuses."""
    at = 0
    while (token := _STRING_OR_NUMBER.search(text, at)) is not None:
        at = token.end()
        if token[0] == '"':
            at = _end_of_characters(text, at) + 1
        elif token["constant"]:
            break
        else:
            try:
                _to_float(token[0]) if token["fraction"] else _to_integer(token[0])
            except _RefusedNumber:
                break
    return token.start() if token is not None else 0


def _find_duplicate_key(text: str, value: dict[str, Any]) -> str | None:
    """Return a key that an object of the text has twice; None if there is none.

    Args:
        text: the JSON of an object.
        value: its value, in which each key is once.
    """
    if text.count(":") == len(value):
        return None  # each key has one colon; others are in strings, or belong to keys that were replaced
    keys = texts = 0  # in all its objects and lists
    containers: list[Any] = [value]
    while containers:
        container = containers.pop()
        if container.__class__ is dict:
            keys += len(container)
            container = container.values()
        for item in container:
            kind = item.__class__
            if kind is str:
                texts += 1
            elif kind is dict or kind is list:
                containers.append(item)
    if text.count(":") == keys:
        return None  # the same of all objects
    if "\\\\" not in text and text.count('"') - text.count('\\"') == 2 * (keys + texts):
        return None  # each string has two quotes that are not escaped; those of a key that was replaced are missing
    found: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs) and not found:
            seen: set[str] = set()
            found.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return built

    json.JSONDecoder(object_pairs_hook=build).raw_decode(text)
    return found[0] if found else None


# The characters and escapes of a string. There is no possessive repeat here: before 3.11.5, ``re`` consumed part of an
# escape that did not match inside one (https://github.com/python/cpython/issues/106052), and Debian 12 has 3.11.2. Runs
# and escapes alternate, so there is one way to match; the bound limits the record that ``re`` keeps of each repetition.
_CHARACTERS = re.compile(r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*){0,256}')
_TRUNCATED_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?")
_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"[^"\\\x00-\x1f]{0,64}")|(?P<mark>["{}\[\]:,])'
    r"|(?P<scalar>true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"
)
_TRUNCATED_TOKEN = re.compile(  # the beginning of a token that is no string, up to the end of the text
    r"[ \t\r\n]*(?:|(?P<scalar>t(?:r(?:u)?)?|f(?:a(?:l(?:s)?)?)?|n(?:u(?:l)?)?"
    r"|-|-?(?:0|[1-9][0-9]*)(?:\.|(?:\.[0-9]+)?[eE][+-]?)))"
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


def _end_of_characters(text: str, at: int) -> int:
    """Return the offset of the first character that is no part of a string whose characters start at *at*."""
    while True:
        end = _CHARACTERS.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if end == at or not text.startswith("\\", end):
            return end
        at = end


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
            truncated = _TRUNCATED_TOKEN.fullmatch(text, at)
            return truncated is not None and (truncated.lastgroup is None or truncated.lastgroup in _FOLLOWS[expected])
        kind = token["mark"] or token.lastgroup or ""
        at = token.end()
        if kind == '"':  # a string that is long, has escapes or is truncated
            kind, end = "string", _end_of_characters(text, at)
            if not text.startswith('"', end):
                return kind in _FOLLOWS[expected] and _TRUNCATED_ESCAPE.fullmatch(text, end) is not None
            at = end + 1
        if kind not in _FOLLOWS[expected]:
            return False
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
