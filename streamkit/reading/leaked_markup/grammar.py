"""The interface of the grammars and their shared helpers: reading tokens, building arguments.

A grammar is a coroutine that gets one token after another, and None at the end of the text. It returns at the end of
its construct, raises ``InvalidMarkup`` at a token that does not fit, and ``TruncatedMarkup`` if the text ended inside
of the construct and nothing of it can be kept. Its result does not depend on how the text was split into deltas: a run
of text may arrive in any number of parts.

Calls as elements: DSML (DeepSeek V3.2, V4) and XTML (Kimi K3). For the sources see ``lexer``.

A section contains invocations, an invocation contains parameters, and each parameter declares whether its value is
text, which is used unchanged, or JSON. Only space is allowed between them. DSML's invocation also occurs without a
section; without its bars it is too similar to other XML, and only a complete section counts.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Protocol, TypeAlias, TypeVar

from streamkit.providers.decoding.decoding import read_json
from streamkit.reading.leaked_markup.lexer import Tag, Token

__all__ = [
    "SPACE",
    "CallSink",
    "GrammarCoroutine",
    "InvalidMarkup",
    "Parameters",
    "TruncatedMarkup",
    "encode_text",
    "parse_xml_style",
    "read_tag",
    "read_token",
    "read_until",
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
        self._members.append(f"{encode_text(name)}:{value}")

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
            members.append(f"{encode_text(parameter.name)}:" + (encode_text(text)[:-1] if parameter.is_text else ""))
        return "{" + ",".join(members)


def encode_text(text: str) -> str:
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
        return encode_text(value)
    value = value.strip(SPACE)
    try:
        read_json(value)
    except (ValueError, RecursionError):
        raise InvalidMarkup(is_markup=True) from None
    return value
