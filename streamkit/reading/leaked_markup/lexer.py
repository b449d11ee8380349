"""The lexer of leaked markup: it splits text into text runs and tags.

A tag is the smallest unambiguous unit of markup, from ``<`` to its closing mark. The meaning of a sequence of tags is
left to the grammars; this module depends on the tags of every family (``_SHAPES``) alone. The tags of a text do not
depend on how it was split into deltas: at each ``<`` in turn there is a tag, or it is text.

DSML      DeepSeek V3.2, V4, V4.1 (huggingface.co/deepseek-ai/DeepSeek-V3.2, encoding/encoding_dsv32.py; V4.1's spaced
          form: smg-project/smg#2525). Its bars leak full-width, ASCII, as U+2016 and doubled
          (lsdefine/GenericAgent#804), or are lost, being special tokens (discussion 29 of that model).
tokens    DeepSeek V3, R1, V3.1 (their chat templates); Kimi K2 (MoonshotAI/Kimi-K2, docs/tool_call_guidance.md, and
          the singular section of ggml-org/llama.cpp#17376)
XTML      Kimi K3 (docs.vllm.ai, kimi_k3_tool_parser)
XML       Hermes and Qwen (their chat templates), Qwen3-Coder's ``<function=name>``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily

__all__ = ["LONGEST", "Kind", "Lexer", "Tag", "Token", "is_unfinished_section"]

Kind: TypeAlias = Literal[
    "section", "invoke", "parameter", "calls", "call", "sep", "argument", "tool_call", "function", "unfinished"
]

LONGEST = 256  #: characters of a tag, with the names in it; a longer one is text


class Tag(NamedTuple):
    """One tag."""

    kind: Kind  #: ``unfinished``: the prefix of a tag, at the end of the text
    closing: bool
    raw: str  #: its text
    family: str  #: the model family, for messages
    style: str  #: ``dsml``, ``xtml``, ``token`` or ``xml``; the same for all tags of one construct
    name: str = ""  #: of the function or the parameter
    is_text: bool = False  #: of a parameter: its value is text, not JSON

    @property
    def is_control_token(self) -> bool:
        """True if the tag consists of a model's control tokens, which people do not write as prose."""
        return self.style != "xml"


Token: TypeAlias = str | Tag


class _Shape(NamedTuple):
    """The shape of a tag: bars and lines in ASCII, ``*`` for a name or an attribute's value."""

    text: str
    kind: Kind
    family: str
    style: str
    is_text: bool = False
    families: tuple[MarkupFamily, ...] = ()  #: the families that use it

    @property
    def closing(self) -> bool:
        return self.text.startswith(("</", "<|close")) or self.text.endswith("_end|>")


def _basic_shapes() -> Iterator[_Shape]:
    for bars in ("", "|DSML|", "|DSML| ", "||DSML||", "||DSML|| "):
        family, style = ("DSML", "dsml") if bars else ("DSML without its bars", "xml")
        for section in ("function_calls", "tool_calls", "calls") if bars else ("function_calls", "tool_calls"):
            yield _Shape(f"<{bars}{section}>", "section", family, style)
            yield _Shape(f"</{bars}{section}>", "section", family, style)
        yield _Shape(f'<{bars}invoke name="*">', "invoke", family, style)
        yield _Shape(f"</{bars}invoke>", "invoke", family, style)
        yield _Shape(f'<{bars}parameter name="*" string="true">', "parameter", family, style, is_text=True)
        yield _Shape(f'<{bars}parameter name="*" string="false">', "parameter", family, style)
        yield _Shape(f"</{bars}parameter>", "parameter", family, style)
    for side in ("begin", "end"):
        yield _Shape(f"<|tool_calls_{side}|>", "calls", "DeepSeek", "token")
        for section in ("tool_calls_section", "tool_call_section"):
            yield _Shape(f"<|{section}_{side}|>", "calls", "Kimi", "token")
        yield _Shape(f"<|tool_call_{side}|>", "call", "Kimi or DeepSeek", "token")
    yield _Shape("<|tool_call_argument_begin|>", "argument", "Kimi", "token")
    yield _Shape("<|tool_sep|>", "sep", "DeepSeek", "token")
    for side in ("open", "close"):
        yield _Shape(f"<|{side}|>tools<|sep|>", "section", "Kimi", "xtml")
    yield _Shape('<|open|>call tool="*" index="*"<|sep|>', "invoke", "Kimi", "xtml")
    yield _Shape('<|open|>call tool="*"<|sep|>', "invoke", "Kimi", "xtml")
    yield _Shape("<|close|>call<|sep|>", "invoke", "Kimi", "xtml")
    yield _Shape('<|open|>argument key="*" type="string"<|sep|>', "parameter", "Kimi", "xtml", is_text=True)
    for of_type in ("number", "boolean", "null", "object", "array"):
        yield _Shape(f'<|open|>argument key="*" type="{of_type}"<|sep|>', "parameter", "Kimi", "xtml")
    yield _Shape("<|close|>argument<|sep|>", "parameter", "Kimi", "xtml")
    yield _Shape("<tool_call>", "tool_call", "Hermes", "xml")
    yield _Shape("</tool_call>", "tool_call", "Hermes", "xml")
    yield _Shape("<function=*>", "function", "Qwen", "xml")
    yield _Shape("</function>", "function", "Qwen", "xml")
    yield _Shape("<parameter=*>", "parameter", "Qwen", "xml", is_text=True)


#: The families that use the tags of a label (``Tag.family``).
_USERS: dict[str, tuple[MarkupFamily, ...]] = {
    "DSML": ("dsml",),
    "DSML without its bars": ("dsml",),
    "Kimi": ("kimi",),
    "Kimi or DeepSeek": ("kimi", "deepseek"),
    "DeepSeek": ("deepseek",),
    "Hermes": ("hermes", "qwen"),
    "Qwen": ("qwen",),
}
_VALUE = r'[^"<>\n]'
_TO_ASCII = {0xFF5C: "|", 0x2016: "|", 0x2581: "_"}  # bars and lines that are equivalent


def _prefix_pattern(shape: str) -> str:
    """Return a pattern of every prefix of a tag of this shape."""
    pattern = ""
    for character in reversed(shape):
        pattern = f"{_VALUE}*{pattern}" if character == "*" else f"(?:{re.escape(character)}{pattern})?"
    return pattern


_SHAPES = tuple(shape._replace(families=_USERS[shape.family]) for shape in _basic_shapes())


class _Patterns(NamedTuple):
    """The tags of some families."""

    tag: re.Pattern[str]
    first: frozenset[str]  #: beginnings, enough to skip other XML
    prefixes: frozenset[str]
    prefix: re.Pattern[str]  #: of tags with names
    has_wide_tokens: bool  #: tokens may have full-width bars, which are DeepSeek's


@cache
def _compile(families: frozenset[MarkupFamily]) -> _Patterns | None:
    """Return the patterns of the tags of these families; None if they have none."""
    shapes = [(n, shape) for n, shape in enumerate(_SHAPES) if not families.isdisjoint(shape.families)]
    if not shapes:
        return None
    tags = (f"(?P<_{n}>{re.escape(shape.text).replace(re.escape('*'), _VALUE + '+')})" for n, shape in shapes)
    texts = [shape.text for _, shape in shapes]
    named = [text for text in texts if "*" in text]
    return _Patterns(
        re.compile("|".join(tags)),
        frozenset(text[:5] for text in texts),
        frozenset(text[:size] for text in texts for size in range(1, len(text)) if "*" not in text[:size]),
        re.compile("|".join(map(_prefix_pattern, named)) or r"(?!)"),
        "deepseek" in families,
    )


class Lexer:
    """Splits a text that arrives in deltas into runs of text and tags.

    Only text that may be the prefix of a tag is kept from one delta to the next. A run may be split, a tag never is.

    Args:
        families: the families whose tags are tags; those of others are text.
    """

    __slots__ = ("_patterns", "rest")

    def __init__(self, families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES) -> None:
        self._patterns = _compile(families)
        self.rest: str = ""  #: what may be the prefix of a tag; shorter than ``LONGEST``

    def feed(self, text: str) -> list[Token]:
        """Return the tokens that a delta of text completes."""
        patterns = self._patterns
        if patterns is None:
            return [text] if text else []
        text = self.rest + text
        self.rest = ""
        tokens: list[Token] = []
        begin, at = 0, text.find("<")
        while at >= 0:
            here = text[at : at + LONGEST]
            if len(here) < 5 or here[:5].translate(_TO_ASCII) in patterns.first:
                normalized = here.translate(_TO_ASCII)
                match = patterns.tag.match(normalized) if len(here) >= 5 else None
                if match is not None and (patterns.has_wide_tokens or _is_of_any(match, here)):
                    if at > begin:
                        tokens.append(text[begin:at])
                    tokens.append(_tag(match, here[: match.end()]))
                    begin = at + match.end()
                    at = text.find("<", begin)
                    continue
                if len(here) < LONGEST and (normalized in patterns.prefixes or patterns.prefix.fullmatch(normalized)):
                    self.rest = here
                    break
            at = text.find("<", at + 1)
        end = len(text) - len(self.rest)
        if end > begin:
            tokens.append(text[begin:end])
        return tokens

    def close(self) -> str:
        """Return the end of the text that might have been the prefix of a tag."""
        rest, self.rest = self.rest, ""
        return rest


def _is_of_any(match: re.Match[str], here: str) -> bool:
    """Return True if a match is a tag of another family than DeepSeek too: not a token with full-width bars."""
    return _SHAPES[int((match.lastgroup or "_0")[1:])].style != "token" or here[: match.end()].isascii()


def _tag(match: re.Match[str], raw: str) -> Tag:
    shape = _SHAPES[int((match.lastgroup or "_0")[1:])]
    family, name = shape.family, ""
    if family == "Kimi or DeepSeek":
        family = "Kimi" if raw.isascii() else "DeepSeek"
    at = shape.text.find("*")
    if at >= 0:
        name = raw[at : raw.index(shape.text[at + 1], at)]
        if shape.style == "xtml":  # the template escapes both (docs.vllm.ai, kimi_k3_tool_parser)
            name = name.replace("&quot;", '"').replace("&amp;", "&")
    return Tag(shape.kind, shape.closing, raw, family, shape.style, name, shape.is_text)


def is_unfinished_section(rest: str) -> bool:
    """Return True if this prefix of a tag is DSML's opening tag of a section without its ``>``.

    Bedrock leaves exactly that in the text of nearly every turn with a call (stdapi-ai/stdapi.ai#182).
    """
    patterns = _compile(ALL_MARKUP_FAMILIES)
    match = patterns and patterns.tag.fullmatch(rest.translate(_TO_ASCII) + ">")
    if not match:
        return False
    tag = _tag(match, rest + ">")
    return tag.kind == "section" and not tag.closing and tag.is_control_token
