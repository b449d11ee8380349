"""Whether a place in a text is code or a quotation, by the Markdown and HTML before it.

A model that explains its own markup shows it in a fence, in backticks or in quotation marks. Such markup is no call.
``QuotationScanner`` reads the text of one choice and answers for the place where the text ends so far:

* a code fence (three or more backticks or tildes; indented, in a list or in a block quote; open until a closing fence
  of its kind, or until its block quote ends)
* inline code (an open run of backticks, until a run of the same length)
* a line that begins with ``>``, and the lines directly after it
* quotation marks that are open, straight and typographic ones; a straight single one opens only at the start of a word
* ``<pre>``, ``<code>`` and ``<blockquote>``

The rules are those of CommonMark (https://spec.commonmark.org/0.31.2/#fenced-code-blocks, #code-spans, #block-quotes)
without its lookahead: a run of backticks counts as code even if it is never closed. A blank line ends inline code and
quotation marks. Backticks and quotation marks are counted from each line of the paragraph on, and one open count
suffices, so that a stray one in an earlier line cannot hide the next. In doubt a place is a quotation.

The answer does not depend on how the text is split. The cost is linear: the text is read once, in large parts.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["QuotationScanner"]

_MANY_PARTS = 64
_SCANNED_AT_ONCE = 65536  # characters that wait to be scanned; most texts end without any tag
_SPACE = " \t\r"
_TAB = 4  # columns
_FENCE = 3  # backticks or tildes
_DEEPER = 3  # columns by which a closing fence may be indented more than the opening one
_LIST_MARKS = ("-", "*", "+", ".", ")")
_LONGEST_MARKER = 10  # characters of a list marker: nine digits and a point

#: Quotation marks, with those that end the quotation.
_QUOTES = {
    '"': '"',
    "'": "'",
    "\u2018": "\u2019",
    "\u201a": "\u2018\u2019",
    "\u201c": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u00ab": "\u00bb",
    "\u2039": "\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
_ELEMENTS = frozenset({"pre", "code", "blockquote"})
_LONGEST_ELEMENT = len("/blockquote")

_MARKS = frozenset("".join([*_QUOTES, *_QUOTES.values()]))
_INLINE = re.compile(f"[`\n\\\\<{''.join(sorted(_MARKS))}]")
_LONGEST_RUN = 16  # backticks; longer runs are alike

#: ``run``: backticks or tildes at the beginning of a line; ``info``: the rest of a line that opens a fence of tildes;
#: ``closing``: space after a run that closes a fence; ``content``: the rest of a line in a fence.
_Phase = Literal["prefix", "run", "info", "inline", "closing", "content"]


class _Fence(NamedTuple):
    """An open code fence."""

    mark: str
    size: int
    indent: int
    depth: int  #: of block quotes around it


#: Inline code and quotation marks, counted from one line on: the length of the run that opened inline code (0 outside
#: of it), and the marks that end the quotation ("" outside of one).
_State: TypeAlias = tuple[int, str]
_PLAIN: _State = (0, "")


def _after_run(state: _State, size: int) -> _State:
    """Return the state after a run of backticks."""
    code, closers = state
    if not code:
        return size, closers
    return (0, closers) if code == size else state


def _after_mark(state: _State, mark: str, *, can_open: bool) -> _State:
    """Return the state after a quotation mark, which means nothing in inline code."""
    code, closers = state
    if code:
        return state
    if closers:
        return (0, "") if mark in closers else state
    return (0, _QUOTES.get(mark, "")) if can_open else state


class QuotationScanner:
    """A reader of the text of one choice."""

    __slots__ = (
        "_before", "_candidate", "_column", "_depth", "_element", "_elements", "_fence", "_is_blank", "_is_escaped",
        "_is_lazy", "_joined", "_mark", "_marker", "_pending", "_pending_size", "_phase", "_run", "_states",
    )  # fmt: skip

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._pending_size = 0
        self._joined = 0  # the first parts of it, each of which was joined from many
        self._fence: _Fence | None = None
        self._states = {_PLAIN}
        self._is_lazy = False  # the last line continues a block quote, and so does this one unless it is blank
        self._elements: Counter[str] = Counter()  # open HTML elements
        self._element: str | None = None  # the beginning of an HTML tag, without its "<"
        self._before = ""  # the character before the one that is read
        self._start_line()

    def _start_line(self) -> None:
        self._phase: _Phase = "prefix"
        self._column = 0  # indentation after the last mark of a block quote or list
        self._depth = 0  # of block quotes
        self._marker = ""  # what may be the marker of a list
        self._is_blank = True
        self._is_escaped = False  # after a backslash
        self._candidate: _Fence | None = None  # this line begins it, unless another backtick follows
        self._run = 0  # backticks or tildes that end the text so far
        self._mark = ""  # of the run

    def add(self, text: str) -> None:
        """Read more text."""
        pending = self._pending
        pending.append(text)
        self._pending_size += len(text)
        if len(pending) - self._joined >= _MANY_PARTS:  # a list of short texts takes many times the memory of one
            pending[self._joined :] = ["".join(pending[self._joined :])]
            self._joined += 1
        if self._pending_size >= _SCANNED_AT_ONCE:
            self._scan()

    def is_quoted(self) -> bool:
        """Return True if a tag at the end of the text read so far would be code or a quotation."""
        self._scan()
        if self._fence is not None:
            return True
        if self._depth or self._is_lazy or self._phase == "info" or any(self._elements.values()):
            return True
        if self._mark == "~":
            return self._run >= _FENCE
        run = min(self._run, _LONGEST_RUN)
        return any((_after_run(state, run) if run else state) != _PLAIN for state in self._states)

    def _scan(self) -> None:
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        self._pending_size = self._joined = 0
        at = 0
        while at < len(text):
            if self._phase == "inline" and not self._run and not self._is_escaped and self._element is None:
                match = _INLINE.search(text, at)
                at = match.start() if match is not None else len(text)
            elif self._phase in ("info", "content"):
                end = text.find("\n", at)
                at = end if end >= 0 else len(text)
            if at < len(text):
                if at:
                    self._before = text[at - 1]
                self._read(text[at])
                at += 1
        self._before = text[-1:]

    def _read(self, character: str) -> None:
        """Read one character."""
        if character == "\n":
            self._end_line()
        elif self._phase == "prefix":
            self._read_prefix(character)
        elif self._phase == "inline":
            self._read_inline(character)
        elif self._phase == "run":
            self._read_run(character)
        elif self._phase == "closing" and character not in _SPACE:
            self._phase = "content"

    # ---------------------------------------------------------------- lines

    def _read_prefix(self, character: str) -> None:
        """Read a character of the indentation and the marks at the beginning of a line."""
        if character in _SPACE:
            if self._marker[-1:] in _LIST_MARKS:
                self._marker, self._column = "", 0
            self._column += _TAB if character == "\t" else 1
            return
        self._is_blank = False
        fence = self._fence
        if character == ">" and not self._marker and (fence is None or self._depth < fence.depth):
            self._depth += 1
            self._column = 0
            return
        if fence is not None and self._depth < fence.depth:
            fence = self._fence = None  # the block quote around it has ended
        if character in ("`~" if fence is None else fence.mark) and not self._marker:
            self._phase, self._mark, self._run = "run", character, 1
        elif fence is not None:
            self._phase = "content"
        elif not self._extend_marker(character):
            self._phase = "inline"
            self._read_inline(character)

    def _extend_marker(self, character: str) -> bool:
        """Add a character to what may be the marker of a list; return False if it cannot be one."""
        is_number = not self._marker or self._marker.isdecimal()
        fits = (
            (character.isdecimal() and is_number)
            or (character in ".)" and self._marker != "" and is_number)
            or (character in "+-*" and not self._marker)
        )
        if fits:
            self._marker = (self._marker + character)[-_LONGEST_MARKER:]
        return fits

    def _read_run(self, character: str) -> None:
        """Read a character after backticks or tildes at the beginning of a line."""
        if character == self._mark:
            self._run += 1
        elif self._fence is not None:
            self._phase = "closing" if character in _SPACE else "content"
        else:
            self._end_first_run()
            self._read(character)

    def _end_first_run(self) -> None:
        if self._run >= _FENCE:
            self._candidate = _Fence(self._mark, self._run, self._column, self._depth)
        if self._mark == "~":
            self._phase, self._run, self._mark = ("info" if self._candidate is not None else "inline"), 0, ""
        else:
            self._phase = "inline"
            self._end_run()

    def _end_line(self) -> None:
        """Open or close a fence, or end the paragraph at a blank line, and start the next line."""
        fence = self._fence
        if fence is not None:
            is_closing = self._phase in ("run", "closing") and self._run >= fence.size
            if self._depth < fence.depth or (is_closing and self._column <= fence.indent + _DEEPER):
                self._fence = None
        else:
            if self._phase == "run":
                self._end_first_run()
            self._end_run()
            self._fence = self._candidate
            if self._element is not None:
                self._end_element()
            if self._is_blank or self._fence is not None:
                self._states = {_PLAIN}
            self._states.add(_PLAIN)
        self._is_lazy = not self._is_blank and (self._depth > 0 or self._is_lazy)
        self._start_line()

    # ---------------------------------------------------------------- within a line

    def _read_inline(self, character: str) -> None:
        """Read a character after the prefix of a line."""
        if self._element is not None:
            if (character.isascii() and character.isalpha()) or (character == "/" and not self._element):
                self._element = (self._element + character)[:_LONGEST_ELEMENT]
                return
            self._end_element()
        if self._is_escaped:
            self._is_escaped = False
            return
        if character == "`":
            self._run += 1
            self._candidate = None
            return
        self._end_run()
        if character == "\\":
            self._is_escaped = not any(code for code, _ in self._states)  # within code a backslash is itself
        elif character == "<":
            if not all(code for code, _ in self._states):
                self._element = ""
        elif character in _MARKS:
            can_open = character != "'" or not self._before.isalnum()
            self._states = {_after_mark(state, character, can_open=can_open) for state in self._states}

    def _end_run(self) -> None:
        if self._run:
            size = min(self._run, _LONGEST_RUN)
            self._states = {_after_run(state, size) for state in self._states}
            self._run, self._mark = 0, ""

    def _end_element(self) -> None:
        """Count an HTML tag whose name has ended."""
        name = (self._element or "").lower()
        self._element = None
        if name in _ELEMENTS:
            self._elements[name] += 1
        elif name[:1] == "/" and self._elements[name[1:]]:
            self._elements[name[1:]] -= 1
