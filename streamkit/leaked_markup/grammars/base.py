"""What the grammars share: how they read tokens, and what they say of what they found.

A grammar is a generator that is sent one token after another, and None where the text ends. It returns where its
construct is over, raises ``Broken`` at the token that does not fit, and ``Cut`` where the text ended inside of it
with nothing that could be kept. It never sees where the text was cut: a run may come in any number of pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Protocol, TypeAlias, TypeVar

from streamkit.leaked_markup.lexer import Tag, Token

__all__ = [
    "SPACE",
    "InvalidMarkup",
    "TruncatedMarkup",
    "CallSink",
    "JsonObject",
    "Parameters",
    "GrammarCoroutine",
    "next_tag",
    "next_token",
    "text_json",
    "until",
]

SPACE = " \t\r\n"

Result = TypeVar("Result")
GrammarCoroutine: TypeAlias = Generator[None, Token | None, Result]


class InvalidMarkup(Exception):
    """The token does not fit; what was held is text.

    ``begun``: it had been more than the opening tag of plain XML, and is warned of. ``nested``: the token is text too:
    a call inside of a call, which may be the value of a parameter in some dialect (MetaFARS/codex-relay#49). Any other
    token is looked at as if nothing had begun.
    """

    def __init__(self, *, begun: bool = False, nested: bool = False) -> None:
        self.begun = begun
        self.nested = nested


class TruncatedMarkup(Exception):
    """The text ended here; ``text`` is what stood since the last tag."""

    def __init__(self, text: str = "") -> None:
        self.text = text


class CallSink(Protocol):
    """Takes what a grammar found. Each call is kept from then on: what was held is no longer text."""

    def complete_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """A call with all its arguments."""

    def truncated_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """A call that the end of the text cut; the arguments are the beginning of an object, never a whole one."""

    def start(self, family: str, name: str, id: str | None) -> None:
        """A call whose arguments follow."""

    def extend(self, arguments: str) -> None:
        """The next piece of them."""

    def end(self) -> None:
        """The call is over."""

    def plain_text(self, family: str, text: str) -> None:
        """Text that stood where the grammar has none, behind a call that was recovered."""


def next_token() -> GrammarCoroutine[Token]:
    """The next token that is no space; a run without the space before it."""
    while True:
        token = yield
        if token is None or (isinstance(token, Tag) and token.kind == "unfinished"):
            raise TruncatedMarkup
        if isinstance(token, Tag):
            return token
        token = token.lstrip(SPACE)
        if token:
            return token


def next_tag(*, begun: bool = False) -> GrammarCoroutine[Tag]:
    """The next tag; before it may stand space. ``begun``: see ``Broken``."""
    token = yield from next_token()
    if not isinstance(token, Tag):
        raise InvalidMarkup(begun=begun)
    return token


def until(kind: str, style: str) -> GrammarCoroutine[str]:
    """The text up to the closing tag of that kind; other tags in it are text."""
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
    """Arguments that come as named values, written as a JSON object."""

    def __init__(self) -> None:
        self._members: list[str] = []

    def add(self, name: str, value: str) -> None:
        """One value, as JSON."""
        self._members.append(f"{text_json(name)}:{value}")

    @property
    def whole(self) -> str:
        """The object."""
        return "{" + ",".join(self._members) + "}"

    def cut(self, value_of: Tag | None, text: str) -> str:
        """The beginning of the object; what there is of the value that was cut, where it is text."""
        members = list(self._members)
        if value_of is not None:
            members.append(f"{text_json(value_of.name)}:" + (text_json(text)[:-1] if value_of.is_text else ""))
        return "{" + ",".join(members)


def text_json(text: str) -> str:
    """A text as JSON, not ASCII-escaped."""
    return json.dumps(text, ensure_ascii=False)


_OUTSIDE = re.compile(r'["{}\[\]]|[^ \t\r\n0-9+\-.eE:,truefalsn]')
_INSIDE = re.compile(r'["\\\x00-\x1f]')


class JsonObject:
    """Finds the end of a JSON object that comes in pieces, and sees where it can no longer be one.

    Unlike ``arguments.ObjectScanner`` it gives up at a character that JSON forbids where it stands: an object that is
    broken must not swallow the text behind it while its end is looked for.
    """

    __slots__ = ("_depth", "_escaped", "broken", "closed", "in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False  # the last piece ended in a backslash
        self.in_string = False
        self.closed = False
        self.broken = False

    def feed(self, text: str) -> int:
        """How many characters of this piece belong to the object; stops where it is closed or broken."""
        at, end = 0, len(text)
        if self._escaped and end:
            at, self._escaped = 1, False
        while at < end:
            mark = (_INSIDE if self.in_string else _OUTSIDE).search(text, at)
            if mark is None:
                return end
            at = mark.end()
            character = mark[0]
            if character == '"':
                self.in_string = not self.in_string
            elif self.in_string and character == "\\":
                self._escaped = at == end
                at += 1
            elif not self.in_string and character in "{[":
                self._depth += 1
            elif not self.in_string and character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.closed = True
                    return at
            else:
                self.broken, self.in_string = True, False
                return at - 1
        return end
