"""Calls written as XML around JSON (Hermes, Qwen) or around named values (Qwen3-Coder). Sources: see ``tags``.

    <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>
    <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>

Qwen3-Coder often leaves the first ``<tool_call>`` out, which is why its calls leak (ollama/ollama#16686,
QwenLM/Qwen3-Coder#475), so ``<function=NAME>`` opens a call too. Its values carry no types and none is guessed at:
each is text, without the line breaks that the template puts around it; validation makes numbers of those that are.
"""

from __future__ import annotations

import re

from streamkit.leaked_markup.grammars.base import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    JsonObject,
    Parameters,
    TruncatedMarkup,
    next_tag,
    next_token,
    text_json,
    until,
)
from streamkit.leaked_markup.lexer import Tag, Token
from streamkit.providers.decoding import compact_json, read_json

__all__ = ["read_xml"]

# The order in which the templates show the members: only so is a call that was cut sure to be one.
_NAMED = re.compile(r'\{\s*"name"\s*:\s*(?P<name>"(?:[^"\\]|\\.)*+")')
_BEGUN = re.compile(r'\s*,\s*"arguments"\s*:\s*(?=\{)')
_UP_TO_ARGUMENTS = ',"arguments":'


def read_xml(tag: Tag, found: CallSink) -> GrammarCoroutine[None]:
    """One ``<tool_call>``, or one ``<function=NAME>`` without it; *tag* is the opening one."""
    if tag.kind == "function":
        yield from _function(tag, found)
        token = yield from next_token()
    else:
        token = yield from next_token()
        if isinstance(token, str):
            yield from _json_call(token, found)
            return
        if token.kind != "function" or token.closing:
            raise InvalidMarkup
    while isinstance(token, Tag) and token.kind == "function" and not token.closing:
        yield from _function(token, found)
        token = yield from next_token()
    if not isinstance(token, Tag) or token.kind != "tool_call" or not token.closing:
        raise InvalidMarkup


def _function(opening: Tag, found: CallSink) -> GrammarCoroutine[None]:
    parameters = Parameters()
    value_of: Tag | None = None  # the parameter that is being read
    try:
        while True:
            tag = yield from next_tag(begun=True)
            if tag.kind == "function" and tag.closing:
                found.complete_call("Qwen", opening.name, parameters.whole)
                return
            if tag.kind != "parameter" or tag.closing or tag.family != "Qwen":
                raise InvalidMarkup(begun=True, nested=tag.kind == "function")
            value_of = tag
            value = yield from until("parameter", "xml")
            parameters.add(tag.name, text_json(value.removeprefix("\n").removesuffix("\n")))
            value_of = None
    except TruncatedMarkup as cut:
        found.truncated_call("Qwen", opening.name, parameters.cut(value_of, cut.text.removeprefix("\n")))


def _json_call(token: Token | None, found: CallSink) -> GrammarCoroutine[None]:
    """The object of a call and the closing tag; *token* is the beginning of it."""
    scanner = JsonObject()
    parts: list[str] = []
    while token is not None:
        if isinstance(token, Tag):
            if token.kind == "tool_call" and token.closing and scanner.closed:
                break
            if not scanner.in_string and token.kind != "unfinished":
                raise InvalidMarkup(begun=True)
            token = token.raw if scanner.in_string else ""
        if not parts and not token.startswith("{"):
            raise InvalidMarkup
        size = 0 if scanner.closed else scanner.feed(token)
        parts.append(token[:size])
        if scanner.broken or token[size:].strip(SPACE):
            raise InvalidMarkup(begun="".join(parts).strip("{" + SPACE) != "")
        token = yield
    text = "".join(parts)
    if scanner.closed:  # at the end of the text without its closing tag too: nothing can follow the object
        found.complete_call("Hermes", *_name_and_arguments(text))
        return
    name, arguments = _as_far_as_it_goes(text)
    if name is None:
        raise InvalidMarkup(begun=True)
    found.truncated_call("Hermes", name, arguments)


def _name_and_arguments(text: str) -> tuple[str, str]:
    """What a whole object calls for.

    It has a name, and arguments or none. With any other member it is something else, or its arguments stand under
    another name: running it without them would be a guess.
    """
    try:
        call = read_json(text)
        name, arguments = call.get("name"), call.get("arguments")
        written = arguments if isinstance(arguments, str) else compact_json(arguments or {})
    except (ValueError, RecursionError):
        raise InvalidMarkup(begun=True) from None
    if not isinstance(name, str) or not name or not call.keys() <= {"name", "arguments", "id", "type"}:
        raise InvalidMarkup(begun=True)
    if arguments is not None and not isinstance(arguments, (dict, str)):
        raise InvalidMarkup(begun=True)
    return name, written or "{}"


def _as_far_as_it_goes(text: str) -> tuple[str | None, str]:
    """The name of a call that was cut, None where it is not there whole, and the beginning of its arguments."""
    match = _NAMED.match(text)
    if match is None:
        return None, ""
    try:
        name = read_json(match["name"]) or None
    except ValueError:
        return None, ""
    rest = text[match.end() :]
    begun = _BEGUN.match(rest)
    if begun is None:
        return (name if _UP_TO_ARGUMENTS.startswith("".join(rest.split())) else None), "{"
    rest = rest[begun.end() :]
    scanner = JsonObject()
    size = scanner.feed(rest)
    return name, rest[: size - 1] if scanner.closed else rest
