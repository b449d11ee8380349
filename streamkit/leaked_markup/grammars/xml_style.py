"""Calls as elements: DSML (DeepSeek V3.2, V4) and XTML (Kimi K3). For the sources see ``lexer``.

A section contains invocations, an invocation contains parameters, and each parameter declares whether its value is
text, which is used unchanged, or JSON. Only space is allowed between them. DSML's invocation also occurs without a
section; without its bars it is too similar to other XML, and only a complete section counts.
"""

from __future__ import annotations

from streamkit.leaked_markup.grammars.base import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    Parameters,
    TruncatedMarkup,
    encode_text,
    read_tag,
    read_until,
)
from streamkit.leaked_markup.lexer import Tag
from streamkit.providers.decoding import read_json

__all__ = ["parse_xml_style"]


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
