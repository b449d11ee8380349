"""Calls as XML around JSON (Hermes, Qwen) or around named values (Qwen3-Coder). For the sources see ``lexer``.

    <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>
    <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>

Qwen3-Coder often omits the first ``<tool_call>``, which is why its calls leak (ollama/ollama#16686,
QwenLM/Qwen3-Coder#475), so ``<function=NAME>`` starts a call too. Its values have no types and none is guessed: each is
text, without the line breaks that the template adds around it; validation converts those that are numbers.
"""

from __future__ import annotations

import re

from streamkit.json_text import JsonObjectScanner
from streamkit.providers.decoding.decoding import compact_json, read_json
from streamkit.reading.leaked_markup.grammar import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    Parameters,
    TruncatedMarkup,
    encode_text,
    read_tag,
    read_token,
    read_until,
)
from streamkit.reading.leaked_markup.lexer import Tag, Token

__all__ = ["parse_hermes"]

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
            parameters.add(tag.name, encode_text(value.removeprefix("\n").removesuffix("\n")))
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
