"""Calls as control tokens around JSON arguments: DeepSeek V3, R1, V3.1 and Kimi K2. For the sources see ``lexer``.

    Kimi K2         <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
    DeepSeek V3.1   <|tool_call_begin|>NAME<|tool_sep|>{...}<|tool_call_end|>
    DeepSeek V3     <|tool_call_begin|>function<|tool_sep|>NAME, then {...} in a fence of json<|tool_call_end|>

DeepSeek's tokens have full-width bars, and U+2581 instead of the underscore; both forms leak. A section contains any
number of calls; a call also occurs without a section. The arguments are streamed. They end with their object; the end
token inside of a string is part of the string, unless JSON forbids the text before it.
"""

from __future__ import annotations

import re

from streamkit.json_text import JsonObjectScanner
from streamkit.reading.leaked_markup.grammar import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    TruncatedMarkup,
    read_tag,
)
from streamkit.reading.leaked_markup.lexer import Tag, Token

__all__ = ["parse_token_style"]

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
