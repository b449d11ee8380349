"""Calls written as elements: DSML (DeepSeek V3.2, V4) and XTML (Kimi K3). Sources: see ``tags``.

A section holds invocations, an invocation holds parameters, and each parameter says whether its value is text, taken
as it stands, or JSON. Between them stands nothing but space. DSML's invocation stands without its section too; without
bars it is too much like other XML, and only a whole section counts.
"""

from __future__ import annotations

from streamkit.leaked_markup.grammars.base import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    Parameters,
    TruncatedMarkup,
    next_tag,
    text_json,
    until,
)
from streamkit.leaked_markup.lexer import Tag
from streamkit.providers.decoding import read_json

__all__ = ["read_elements"]


def read_elements(tag: Tag, found: CallSink) -> GrammarCoroutine[None]:
    """A section of invocations, or one invocation without its section; *tag* is the opening one."""
    style, family = tag.style, tag.family
    in_section = tag.kind == "section"
    count = 0
    if in_section:
        tag = yield from next_tag()
    while True:
        if tag.style == style and tag.closing and tag.kind == "section" and (count or tag.special):
            return
        if tag.style != style or tag.closing or tag.kind != "invoke":
            raise InvalidMarkup
        yield from _invocation(tag, family, found)
        count += 1
        if not in_section:
            return
        tag = yield from next_tag()


def _invocation(opening: Tag, family: str, found: CallSink) -> GrammarCoroutine[None]:
    parameters = Parameters()
    value_of: Tag | None = None  # the parameter that is being read
    try:
        while True:
            tag = yield from next_tag(begun=True)
            if tag.style == opening.style and tag.closing and tag.kind == "invoke":
                found.complete_call(family, opening.name, parameters.whole)
                return
            if tag.style != opening.style or tag.closing or tag.kind != "parameter" or tag.family != family:
                raise InvalidMarkup(begun=True, nested=tag.kind == "invoke")
            value_of = tag
            value = yield from until("parameter", opening.style)
            parameters.add(tag.name, _as_json(value, tag))
            value_of = None
    except TruncatedMarkup as cut:
        found.truncated_call(family, opening.name, parameters.cut(value_of, cut.text))


def _as_json(value: str, tag: Tag) -> str:
    """A parameter's value as JSON: text as it stands; what is no text must be JSON already."""
    if tag.is_text:
        return text_json(value)
    value = value.strip(SPACE)
    try:
        read_json(value)
    except (ValueError, RecursionError):
        raise InvalidMarkup(begun=True) from None
    return value
