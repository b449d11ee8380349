"""Calls written with control tokens, their arguments as JSON: DeepSeek V3, R1, V3.1 and Kimi K2. Sources: see ``tags``.

    Kimi K2         <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
    DeepSeek V3.1   <|tool_call_begin|>NAME<|tool_sep|>{...}<|tool_call_end|>
    DeepSeek V3     <|tool_call_begin|>function<|tool_sep|>NAME, then {...} in a fence of json<|tool_call_end|>

DeepSeek's tokens have full-width bars, and U+2581 instead of the underscore; both forms leak. Any number of calls may
stand in a section; a call stands without one too. The arguments stream as they come. They end with their object; the
end token inside of a string is a part of the string, unless JSON forbids what stood before it.
"""

from __future__ import annotations

import re

from streamkit.leaked_markup.grammars.base import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    JsonObject,
    TruncatedMarkup,
    next_tag,
)
from streamkit.leaked_markup.lexer import Tag, Token

__all__ = ["read_tokens"]

_HEADER = 256  # characters; a name and its number, or a name and a fence
_KIMI_ID = re.compile(r"(?:functions\.)?([A-Za-z0-9_.\-]+):[0-9]+|functions\.([A-Za-z0-9_.\-]+)")
_NAME = re.compile(r"[^\s`{}\[\]\"]+")
_FENCE = re.compile(r"\s*(?P<fence>```(?:json)?)?\s*")
_FENCE_BEGUN = re.compile(r"\s*(?:`{0,3}|```j(?:s(?:on?)?)?\s*)")
_NAME_AND_FENCE = re.compile(r"\s*(?P<name>[^\s`{}\[\]\"]+)\s*(?P<fence>```(?:json)?)?\s*")


def read_tokens(tag: Tag, found: CallSink) -> GrammarCoroutine[None]:
    """A section of calls, or one call without its section; *tag* is the opening one."""
    in_section = tag.kind == "calls"
    if in_section:
        tag = yield from next_tag()
    while True:
        if tag.kind == "calls" and tag.closing:
            return
        if tag.kind != "call" or tag.closing:
            raise InvalidMarkup
        yield from _call(found)
        if not in_section:
            return
        tag = yield from next_tag()


def _call(found: CallSink) -> GrammarCoroutine[None]:
    header, tag = yield from _up_to_tag()
    header = header.strip()
    if tag.kind == "argument":
        match = _KIMI_ID.fullmatch(header)
        if match is None:
            raise InvalidMarkup  # the name is not to be known: some id of another kind
        yield from _arguments("Kimi", match[1] or match[2], header, found)
    elif tag.kind == "sep" and _NAME.fullmatch(header):
        yield from _arguments("DeepSeek", header, None, found)
    else:
        raise InvalidMarkup


def _up_to_tag() -> GrammarCoroutine[tuple[str, Tag]]:
    """The text up to the next tag, and the tag."""
    text = ""
    while True:
        token = yield
        if token is None or (isinstance(token, Tag) and token.kind == "unfinished"):
            raise TruncatedMarkup
        if isinstance(token, Tag):
            return text, token
        text += token
        if len(text) > _HEADER:
            raise InvalidMarkup


def _arguments(family: str, name: str, id: str | None, found: CallSink) -> GrammarCoroutine[None]:
    """What stands between the name and the end of the call."""
    typed = family == "DeepSeek" and name == "function"  # V3's type; or V3.1, and a function of that name
    try:
        text = yield from _up_to_object()
    except TruncatedMarkup as cut:
        if typed or not _FENCE_BEGUN.fullmatch(cut.text):
            raise  # the real name was still to come, perhaps; or what came is no arguments
        found.truncated_call(family, name, "{", id)
        return
    if not text:
        found.complete_call(family, name, "{}", id)  # as on the wires: no argument byte is no argument
        return
    at = text.index("{")
    match = _FENCE.fullmatch(text, 0, at)
    if match is None and typed:
        match = _NAME_AND_FENCE.fullmatch(text, 0, at)
        name = match["name"] if match is not None else ""
    if match is None:
        raise InvalidMarkup
    found.start(family, name, id)
    yield from _object(text[at:], family, match["fence"] is not None, found)


def _up_to_object() -> GrammarCoroutine[str]:
    """The text up to an object, with as much of it as came; "" where the call ends before one."""
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
        if "{" not in text[: _HEADER + 1] and len(text) > _HEADER:
            raise InvalidMarkup
    return text


def _object(text: str, family: str, in_fence: bool, found: CallSink) -> GrammarCoroutine[None]:
    """The arguments and the end of the call; *text* is their beginning."""
    scanner = JsonObject()
    behind: list[str] = []  # what stands behind the object
    token: Token | None = text
    while token is not None:
        if isinstance(token, Tag):
            if token.kind == "call" and token.closing and not scanner.in_string:
                break
            token = "" if token.kind == "unfinished" and scanner.closed else token.raw
        size = 0 if scanner.closed else len(token) if scanner.broken else scanner.feed(token)
        if scanner.broken:  # it is no object, and shall be told whole
            size = len(token)
        if size:
            found.extend(token[:size])
        behind.append(token[size:])
        token = yield
    if token is not None or scanner.closed:
        found.end()
    junk = "".join(behind).strip(SPACE)
    if in_fence:
        junk = junk.removeprefix("```") if junk.startswith("```") else junk.lstrip("`")
    if junk:
        found.plain_text(family, junk)
