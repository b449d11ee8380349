"""The grammars of leaked markup: how each style of tags is parsed to calls. For the sources see ``lexer``.

A grammar is a coroutine that gets one token after another, and None at the end of the text. It returns at the end of
its construct, raises ``InvalidMarkup`` at a token that does not fit, and ``TruncatedMarkup`` if the text ended inside
of the construct and nothing of it can be kept. Its result does not depend on how the text was split into deltas: a run
of text may arrive in any number of parts.

There are three styles:

``parse_xml_style``: calls as elements, in DSML (DeepSeek V3.2, V4) and XTML (Kimi K3). A section contains invocations,
an invocation contains parameters, and each parameter declares whether its value is text, which is used unchanged, or
JSON. Only space is allowed between them. DSML's invocation also occurs without a section; without its bars it is too
similar to other XML, and only a complete section counts.

``parse_hermes``: XML around JSON (Hermes, Qwen) or around named values (Qwen3-Coder)::

    <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>
    <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>

Qwen3-Coder often omits the first ``<tool_call>``, which is why its calls leak (ollama/ollama#16686,
QwenLM/Qwen3-Coder#475), so ``<function=NAME>`` starts a call too. Its values have no types and none is guessed: each is
text, without the line breaks that the template adds around it; validation converts those that are numbers.

``parse_token_style``: control tokens around JSON arguments (DeepSeek V3, R1, V3.1 and Kimi K2)::

    Kimi K2         <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
    DeepSeek V3.1   <|tool_call_begin|>NAME<|tool_sep|>{...}<|tool_call_end|>
    DeepSeek V3     <|tool_call_begin|>function<|tool_sep|>NAME, then {...} in a fence of json<|tool_call_end|>

DeepSeek's tokens have full-width bars, and U+2581 instead of the underscore; both forms leak. A section contains any
number of calls; a call also occurs without a section. The arguments are streamed. They end with their object; the end
token inside of a string is part of the string, unless JSON forbids the text before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Protocol, TypeAlias, TypeVar

from streamkit.json_text import JsonObjectScanner
from streamkit.providers.decoding.decoding import compact_json, read_json
from streamkit.reading.leaked_markup.lexer import Tag, Token

__all__ = [
    "SPACE",
    "CallSink",
    "GrammarCoroutine",
    "InvalidMarkup",
    "TruncatedMarkup",
    "parse_hermes",
    "parse_token_style",
    "parse_xml_style",
]

SPACE = " \t\r\n"
Result = TypeVar("Result")
GrammarCoroutine: TypeAlias = Generator[None, Token | None, Result]


class InvalidMarkup(Exception):
    """A token does not fit; the buffered tokens are text.

    Args:
        is_markup: the text was more than the opening tag of plain XML, so that a warning is due.
        is_nested: the token is text too: a call inside of a call, which may be the value of a parameter in some
            dialect (MetaFARS/codex-relay#49). Any other token is processed as if no markup had begun.
    """

    def __init__(self, *, is_markup: bool = False, is_nested: bool = False) -> None:
        self.is_markup = is_markup
        self.is_nested = is_nested


class TruncatedMarkup(Exception):
    """The text ended inside of markup.

    Args:
        text: the text since the last tag.
    """

    def __init__(self, text: str = "") -> None:
        self.text = text


class CallSink(Protocol):
    """The receiver of the calls that a grammar finds. From its first report on, buffered tokens are no longer text."""

    def add_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """Add a complete call."""

    def add_truncated_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """Add a call truncated by the end of the text; the arguments are a true prefix of an object."""

    def start_call(self, family: str, name: str, id: str | None) -> None:
        """Start a call; its arguments are appended later."""

    def append_arguments(self, arguments: str) -> None:
        """Append a delta to the arguments of the started call."""

    def end_call(self) -> None:
        """End the started call."""

    def add_text(self, family: str, text: str) -> None:
        """Add text where the grammar allows none, after a recovered call."""


def read_token() -> GrammarCoroutine[Token]:
    """Read the next token that is not space; leading space of a text run is removed."""
    while True:
        token = yield
        if token is None or (isinstance(token, Tag) and token.kind == "unfinished"):
            raise TruncatedMarkup
        if isinstance(token, Tag):
            return token
        token = token.lstrip(SPACE)
        if token:
            return token


def read_tag(*, is_markup: bool = False) -> GrammarCoroutine[Tag]:
    """Read the next tag and the space before it; for ``is_markup`` see ``InvalidMarkup``."""
    token = yield from read_token()
    if not isinstance(token, Tag):
        raise InvalidMarkup(is_markup=is_markup)
    return token


def read_until(kind: str, style: str) -> GrammarCoroutine[str]:
    """Read the text up to the closing tag of a kind; other tags in it are text."""
    parts: list[str] = []
    while True:
        token = yield
        if token is None:
            raise TruncatedMarkup("".join(parts))
        if isinstance(token, Tag):
            if token.closing and token.kind == kind and token.style == style:
                return "".join(parts)
            token = token.raw if token.kind != "unfinished" else ""
        parts.append(token)


class Parameters:
    """Arguments that are sent as named values, encoded as a JSON object."""

    def __init__(self) -> None:
        self._members: list[str] = []

    def add(self, name: str, value: str) -> None:
        """Add one value, which is JSON."""
        self._members.append(f"{_encode_text(name)}:{value}")

    def complete_json(self) -> str:
        """Return the complete object."""
        return "{" + ",".join(self._members) + "}"

    def truncated_json(self, parameter: Tag | None, text: str) -> str:
        """Return the prefix of the object that ends in a truncated value.

        Args:
            parameter: the opening tag of the truncated value, None if no value was truncated.
            text: its text so far; it is part of the prefix if the value is text.
        """
        members = list(self._members)
        if parameter is not None:
            members.append(f"{_encode_text(parameter.name)}:" + (_encode_text(text)[:-1] if parameter.is_text else ""))
        return "{" + ",".join(members)


def _encode_text(text: str) -> str:
    """Return a text as JSON, not ASCII-escaped."""
    return json.dumps(text, ensure_ascii=False)


def parse_xml_style(tag: Tag, calls: CallSink) -> GrammarCoroutine[None]:
    """Parse a section of invocations, or one invocation without a section; *tag* is the opening tag."""
    style, family = tag.style, tag.family
    in_section = tag.kind == "section"
    count = 0
    if in_section:
        tag = yield from read_tag()
    while True:
        if tag.style == style and tag.closing and tag.kind == "section" and (count or tag.is_control_token):
            return
        if tag.style != style or tag.closing or tag.kind != "invoke":
            raise InvalidMarkup
        yield from _read_invocation(tag, family, calls)
        count += 1
        if not in_section:
            return
        tag = yield from read_tag()


def _read_invocation(opening: Tag, family: str, calls: CallSink) -> GrammarCoroutine[None]:
    parameters = Parameters()
    parameter: Tag | None = None  # the one that is being read
    try:
        while True:
            tag = yield from read_tag(is_markup=True)
            if tag.style == opening.style and tag.closing and tag.kind == "invoke":
                calls.add_call(family, opening.name, parameters.complete_json())
                return
            if tag.style != opening.style or tag.closing or tag.kind != "parameter" or tag.family != family:
                raise InvalidMarkup(is_markup=True, is_nested=tag.kind == "invoke")
            parameter = tag
            value = yield from read_until("parameter", opening.style)
            parameters.add(tag.name, _to_json(value, tag))
            parameter = None
    except TruncatedMarkup as error:
        calls.add_truncated_call(family, opening.name, parameters.truncated_json(parameter, error.text))


def _to_json(value: str, tag: Tag) -> str:
    """Return a parameter's value as JSON: text is encoded, any other value must be JSON already."""
    if tag.is_text:
        return _encode_text(value)
    value = value.strip(SPACE)
    try:
        read_json(value)
    except (ValueError, RecursionError):
        raise InvalidMarkup(is_markup=True) from None
    return value


# The order of the members in the templates: only a truncated object in this order is certainly a call.
_NAMED = re.compile(r'\{\s*"name"\s*:\s*(?P<name>"[^"\\]*(?:\\.[^"\\]*){0,256}")')
_BEGUN = re.compile(r'\s*,\s*"arguments"\s*:\s*(?=\{)')
_UP_TO_ARGUMENTS = ',"arguments":'


def parse_hermes(tag: Tag, calls: CallSink) -> GrammarCoroutine[None]:
    """Parse one ``<tool_call>``, or one ``<function=NAME>`` without it; *tag* is the opening tag."""
    if tag.kind == "function":
        yield from _read_function(tag, calls)
        token = yield from read_token()
    else:
        token = yield from read_token()
        if isinstance(token, str):
            yield from _read_json_call(token, calls)
            return
        if token.kind != "function" or token.closing:
            raise InvalidMarkup
    while isinstance(token, Tag) and token.kind == "function" and not token.closing:
        yield from _read_function(token, calls)
        token = yield from read_token()
    if not isinstance(token, Tag) or token.kind != "tool_call" or not token.closing:
        raise InvalidMarkup


def _read_function(opening: Tag, calls: CallSink) -> GrammarCoroutine[None]:
    parameters = Parameters()
    parameter: Tag | None = None  # the one that is being read
    try:
        while True:
            tag = yield from read_tag(is_markup=True)
            if tag.kind == "function" and tag.closing:
                calls.add_call("Qwen", opening.name, parameters.complete_json())
                return
            if tag.kind != "parameter" or tag.closing or tag.family != "Qwen":
                raise InvalidMarkup(is_markup=True, is_nested=tag.kind == "function")
            parameter = tag
            value = yield from read_until("parameter", "xml")
            parameters.add(tag.name, _encode_text(value.removeprefix("\n").removesuffix("\n")))
            parameter = None
    except TruncatedMarkup as error:
        calls.add_truncated_call(
            "Qwen", opening.name, parameters.truncated_json(parameter, error.text.removeprefix("\n"))
        )


def _read_json_call(token: Token | None, calls: CallSink) -> GrammarCoroutine[None]:
    """Read the object of a call, which begins with *token*, and the closing tag."""
    scanner = JsonObjectScanner(strict=True)
    parts: list[str] = []
    while token is not None:
        if isinstance(token, Tag):
            if token.kind == "tool_call" and token.closing and scanner.is_closed:
                break
            if not scanner.in_string and token.kind != "unfinished":
                raise InvalidMarkup(is_markup=True)
            token = token.raw if scanner.in_string else ""
        if not parts and not token.startswith("{"):
            raise InvalidMarkup
        size = scanner.feed(token)
        parts.append(token[:size])
        if scanner.is_invalid or token[size:].strip(SPACE):
            raise InvalidMarkup(is_markup="".join(parts).strip("{" + SPACE) != "")
        token = yield
    text = "".join(parts)
    if scanner.is_closed:  # also at the end of the text without the closing tag: nothing can follow the object
        calls.add_call("Hermes", *_parse_call(text))
        return
    name, arguments = _parse_truncated_call(text)
    if name is None:
        raise InvalidMarkup(is_markup=True)
    calls.add_truncated_call("Hermes", name, arguments)


def _parse_call(text: str) -> tuple[str, str]:
    """Return the name and the arguments of a complete object.

    It has a name, and arguments or none. An object with any other member is not a call, or has its arguments under
    another name: to run it without them would be a guess.
    """
    try:
        call = read_json(text)
        name, arguments = call.get("name"), call.get("arguments")
        arguments_text = arguments if isinstance(arguments, str) else compact_json(arguments or {})
    except (ValueError, RecursionError):
        raise InvalidMarkup(is_markup=True) from None
    if not isinstance(name, str) or not name or not call.keys() <= {"name", "arguments", "id", "type"}:
        raise InvalidMarkup(is_markup=True)
    if arguments is not None and not isinstance(arguments, (dict, str)):
        raise InvalidMarkup(is_markup=True)
    return name, arguments_text or "{}"


def _parse_truncated_call(text: str) -> tuple[str | None, str]:
    """Return the name of a truncated call, None if it is incomplete, and the prefix of its arguments."""
    match = _NAMED.match(text)
    if match is None:
        return None, ""
    try:
        name = read_json(match["name"]) or None
    except ValueError:
        return None, ""
    rest = text[match.end() :]
    arguments = _BEGUN.match(rest)
    if arguments is None:
        return (name if _UP_TO_ARGUMENTS.startswith("".join(rest.split())) else None), "{"
    rest = rest[arguments.end() :]
    scanner = JsonObjectScanner(strict=True)
    size = scanner.feed(rest)
    return name, rest[: size - 1] if scanner.is_closed else rest


_LONGEST_HEADER = 256  # characters; a name and its number, or a name and a fence
_KIMI_ID = re.compile(r"(?:functions\.)?([A-Za-z0-9_.\-]+):[0-9]+|functions\.([A-Za-z0-9_.\-]+)")
_NAME = re.compile(r"[^\s`{}\[\]\"]+")
_FENCE = re.compile(r"\s*(?P<fence>```(?:json)?)?\s*")
_FENCE_PREFIX = re.compile(r"\s*(?:`{0,3}|```j(?:s(?:on?)?)?\s*)")
_NAME_AND_FENCE = re.compile(r"\s*(?P<name>[^\s`{}\[\]\"]+)\s*(?P<fence>```(?:json)?)?\s*")


def parse_token_style(tag: Tag, calls: CallSink) -> GrammarCoroutine[None]:
    """Parse a section of calls, or one call without a section; *tag* is the opening tag."""
    in_section = tag.kind == "calls"
    if in_section:
        tag = yield from read_tag()
    while True:
        if tag.kind == "calls" and tag.closing:
            return
        if tag.kind != "call" or tag.closing:
            raise InvalidMarkup
        yield from _read_call(calls)
        if not in_section:
            return
        tag = yield from read_tag()


def _read_call(calls: CallSink) -> GrammarCoroutine[None]:
    header, tag = yield from _read_header()
    header = header.strip()
    if tag.kind == "argument":
        match = _KIMI_ID.fullmatch(header)
        if match is None:
            raise InvalidMarkup  # an id of another form, from which no name can be derived
        yield from _read_arguments("Kimi", match[1] or match[2], header, calls)
    elif tag.kind == "sep" and _NAME.fullmatch(header):
        yield from _read_arguments("DeepSeek", header, None, calls)
    else:
        raise InvalidMarkup


def _read_header() -> GrammarCoroutine[tuple[str, Tag]]:
    """Read the text up to the next tag, and the tag."""
    text = ""
    while True:
        token = yield
        if token is None or (isinstance(token, Tag) and token.kind == "unfinished"):
            raise TruncatedMarkup
        if isinstance(token, Tag):
            return text, token
        text += token
        if len(text) > _LONGEST_HEADER:
            raise InvalidMarkup


def _read_arguments(family: str, name: str, id: str | None, calls: CallSink) -> GrammarCoroutine[None]:
    """Read the rest of a call after its name."""
    has_type = family == "DeepSeek" and name == "function"  # V3's type; or V3.1, and a function of that name
    try:
        text = yield from _read_until_object()
    except TruncatedMarkup as error:
        if has_type or not _FENCE_PREFIX.fullmatch(error.text):
            raise  # the real name may be missing, or the text cannot be arguments
        calls.add_truncated_call(family, name, "{", id)
        return
    if not text:
        calls.add_call(family, name, "{}", id)  # as on the wires: no argument byte means no arguments
        return
    at = text.index("{")
    match = _FENCE.fullmatch(text, 0, at)
    if match is None and has_type:
        match = _NAME_AND_FENCE.fullmatch(text, 0, at)
        name = match["name"] if match is not None else ""
    if match is None:
        raise InvalidMarkup
    calls.start_call(family, name, id)
    yield from _read_object(text[at:], family, match["fence"] is not None, calls)


def _read_until_object() -> GrammarCoroutine[str]:
    """Read the text up to an object and the received part of the object; "" if the call ends without an object."""
    text = ""
    while "{" not in text:
        token = yield
        if token is None or (isinstance(token, Tag) and token.kind == "unfinished"):
            raise TruncatedMarkup(text)
        if isinstance(token, Tag):
            if token.kind == "call" and token.closing and not text.strip(SPACE):
                return ""
            raise InvalidMarkup
        text += token
        if "{" not in text[: _LONGEST_HEADER + 1] and len(text) > _LONGEST_HEADER:
            raise InvalidMarkup
    return text


def _read_object(text: str, family: str, in_fence: bool, calls: CallSink) -> GrammarCoroutine[None]:
    """Read the arguments, which begin with *text*, and the end of the call."""
    scanner = JsonObjectScanner(strict=True)
    after_object: list[str] = []
    token: Token | None = text
    while token is not None:
        if isinstance(token, Tag):
            if token.kind == "call" and token.closing and not scanner.in_string:
                break
            token = "" if token.kind == "unfinished" and scanner.is_closed else token.raw
        size = scanner.feed(token)
        if scanner.is_invalid:  # it is not an object, so all of it is reported as arguments
            size = len(token)
        if size:
            calls.append_arguments(token[:size])
        after_object.append(token[size:])
        token = yield
    if token is not None or scanner.is_closed:
        calls.end_call()
    junk = "".join(after_object).strip(SPACE)
    if in_fence:
        junk = junk.removeprefix("```") if junk.startswith("```") else junk.lstrip("`")
    if junk:
        calls.add_text(family, junk)
