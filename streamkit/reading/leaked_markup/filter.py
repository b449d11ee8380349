"""The text of a choice without leaked markup: tokens to a grammar, and the buffer of what may be markup.

The lexer splits text into tokens. Outside of markup they are text, and a tag with which a grammar begins starts it.
Until the grammar has reported a call, its tokens are buffered, because they are text again if they are no markup after
all. This module does not depend on what a grammar means, only on the interface of grammars.

Settings, warnings and limits of leaked markup, shared by the choices of a turn.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from streamkit.accumulator import Accumulator
from streamkit.accumulator.choice import Choice
from streamkit.calls import MarkupFamily
from streamkit.events import NormalizedToolChunk
from streamkit.reading.leaked_markup.grammars import (
    SPACE,
    CallSink,
    GrammarCoroutine,
    InvalidMarkup,
    TruncatedMarkup,
    parse_hermes,
    parse_token_style,
    parse_xml_style,
)
from streamkit.reading.leaked_markup.lexer import Lexer, Tag, Token, is_unfinished_section
from streamkit.reading.leaked_markup.quotation import QuotationScanner

__all__ = [
    "MarkupFilter",
    "MarkupReporter",
]


_MOST_REPORTED = 256  # as many as a turn keeps
_SHOWN = 80  # characters of a name in a warning


class MarkupReporter:
    """Reports leaked markup to the accumulator, each warning once a turn.

    Args:
        accumulator: the accumulator of the turn.
        recovers: True if markup is recovered as calls, False if it is stripped.
        families: the families whose markup is searched for.
        tools: the names of the tools that the model was offered; None if they are not known.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        recovers: bool,
        families: frozenset[MarkupFamily],
        tools: Collection[str] | None,
    ) -> None:
        self.recovers = recovers
        self.families = families
        self.cleans_names: bool = "harmony" in families
        self._tools = None if tools is None else frozenset(tools)
        self._accumulator = accumulator
        self._reported: set[tuple[str, str]] = set()

    def is_offered(self, name: str) -> bool:
        """Return True if a tool of that name was offered, or if the offered tools are not known."""
        return self._tools is None or name in self._tools

    def warn_leaked(self, family: str) -> None:
        """Report that markup of a family was found."""
        action = "recovered as calls" if self.recovers else "removed"
        self._warn("leaked_markup", family, f"the text contained tool-call markup ({family}), which was {action}")

    def warn_invalid(self, family: str) -> None:
        """Report that text which began as markup did not parse."""
        self._warn("broken_markup", family, f"tool-call markup ({family}) that does not parse was kept as text")

    def warn_not_offered(self, family: str, name: str) -> None:
        """Report a call of a tool that was not offered."""
        shown = f"{name[:_SHOWN]!r}"
        message = f"tool-call markup ({family}) of a tool that was not offered, {shown}, was kept as text"
        self._warn("broken_markup", f"{family} {shown}", message)

    def warn_name_cleaned(self, name: str) -> None:
        """Report that control tokens were removed from the name of a call."""
        shown = f"{name[:_SHOWN]!r}"
        self._warn("leaked_markup", shown, f"control tokens of the model were removed from the name {shown}")

    def check_buffered(self, size: int) -> None:
        """Report the limit of arguments if so many buffered characters of one construct exceed it."""
        limit = self._accumulator.limits.arguments
        if size > limit:
            self._accumulator.report_limit(f"tool-call markup in the text exceeds {limit} characters")

    def _warn(self, code: str, subject: str, message: str) -> None:
        if (code, subject) not in self._reported and len(self._reported) <= _MOST_REPORTED:
            self._reported.add((code, subject))
            self._accumulator.warn(code, message)


TOKEN_SIZE = 16  # what a buffered token counts beside its text


class MarkupFilter:
    """A filter of the text of one choice, and the ``CallSink`` of the grammars.

    Args:
        choice: the accumulator's choice, which gets the remaining text and the recovered calls.
        reporter: the warnings and limits of the turn.

    Attributes:
        has_searched: there was text that may have been markup alone.
    """

    def __init__(self, choice: Choice, reporter: MarkupReporter) -> None:
        self.has_searched: bool = False
        self._choice = choice
        self._reporter = reporter
        self._recovers = reporter.recovers
        self._lexer = Lexer(reporter.families)
        self._quotation = QuotationScanner()  # of all text that is emitted
        self._grammar: GrammarCoroutine[None] | None = None  # inside of markup
        self._buffered: list[Token] = []  # becomes text again if the markup turns out to be invalid
        self._buffered_size = 0
        self._is_offered = True  # the last reported call is one of an offered tool; one of another stays text
        self._after_markup = False  # markup has just ended: space may separate two calls
        self._output: list[str] = []  # text that was not yet emitted
        self._key: Hashable = None  # the text's block
        self._call_count = 0
        self._open_call: Hashable = None  # the call whose arguments are being streamed

    def feed(self, text: str, key: Hashable = None) -> None:
        """Emit a delta of text, as ``ChoiceSink.text``, or buffer what may be markup."""
        if key != self._key:
            self.finalize()
            self._key = key
        if self._grammar is None and not self._buffered and not self._lexer.rest:
            if not text or ("<" not in text and not self._after_markup):
                self._quotation.add(text)
                self._choice.text(text, key)
                return
        self.has_searched = True
        for token in self._lexer.feed(text):
            self._process(token)
        self._emit_text()

    def finalize(self, *, call_follows: bool = False, is_end: bool = False) -> None:
        """Decide whether the buffer is truncated markup or text, because no further text belongs to it."""
        rest = self._lexer.close()
        if self._grammar is not None:
            self._end_grammar(self._grammar, rest)
        elif (
            rest
            and is_unfinished_section(rest)
            and (call_follows or not self._recovers)
            and not self._quotation.is_quoted()
        ):
            self._reporter.warn_leaked("DSML")
        elif rest:
            self._buffered.append(rest)
        if call_follows and self._buffered and all(_opens_section(token) for token in self._buffered):
            self._discard()  # the section's opening tag, left by the server that parsed the call
        self._flush()
        self._emit_text()
        if self._open_call is not None and not is_end:
            self._choice.end_block(self._open_call)  # truncated, and nothing that follows belongs to it
        self._open_call = None

    # ---------------------------------------------------------------- tokens

    def _process(self, token: Token) -> None:
        if self._grammar is not None and self._feed_grammar(self._grammar, token):
            return
        if isinstance(token, str):
            if self._after_markup and not token.strip(SPACE):
                self._buffer(token)  # it may separate two calls
                return
            self._flush()
            self._write(token)
            return
        if self._quotation.is_quoted():
            self._flush()
            self._write(token.raw)
            return
        grammar = _start_grammar(token, self)
        if grammar is not None:
            self._is_offered = True
            next(grammar)
            self._grammar = grammar
            self._buffer(token)
            return
        self._buffered.append(token)  # a tag that closes or continues nothing
        self._flush()

    def _feed_grammar(self, grammar: GrammarCoroutine[None], token: Token) -> bool:
        """Send a token to the grammar; return False if the token does not fit and must still be processed."""
        self._buffer(token)
        try:
            grammar.send(token)
        except StopIteration:
            self._grammar = None
            self._discard()
            self._after_markup = self._is_offered
        except InvalidMarkup as error:
            self._grammar = None
            if not error.is_nested:
                self._buffered.pop()
            self._flush(is_markup=error.is_markup)
            return error.is_nested
        return True

    def _buffer(self, token: Token) -> None:
        self._buffered.append(token)
        self._buffered_size += TOKEN_SIZE + len(token if isinstance(token, str) else token.raw)
        self._reporter.check_buffered(self._buffered_size)

    def _discard(self) -> None:
        """Discard the buffer, which was markup, and report a section without calls."""
        if not self._is_offered:
            self._release()
            return
        for tag in self._buffered:
            if isinstance(tag, Tag) and not tag.closing and tag.kind in ("section", "calls"):
                self._reporter.warn_leaked(tag.family)
        self._clear()

    def _clear(self) -> None:
        self._buffered.clear()
        self._buffered_size = 0

    def _flush(self, *, is_markup: bool = False) -> None:
        """Move the buffer, which is text, to the output."""
        self._after_markup = False
        if not self._buffered:
            return
        for token in self._buffered:
            if isinstance(token, str):
                self._write(token)
            elif token.is_control_token and not self._recovers:
                self._reporter.warn_leaked(token.family)
            else:
                self._write(token.raw)
                if token.is_control_token or is_markup:
                    self._reporter.warn_invalid(token.family)
        self._clear()

    def _release(self) -> None:
        """Move the buffer to the output unchanged: the markup of a call that is none."""
        for token in self._buffered:
            self._write(token if isinstance(token, str) else token.raw)
        self._clear()

    def _consume(self) -> None:
        """Remove the buffer, which belongs to the reported call, from the text if that is a call."""
        if self._is_offered:
            self._clear()
        else:
            self._release()

    def _write(self, text: str) -> None:
        self._output.append(text)
        self._quotation.add(text)

    def _emit_text(self) -> None:
        if self._output:
            text = "".join(self._output)
            self._output.clear()
            self._choice.text(text, self._key)

    def _end_grammar(self, grammar: GrammarCoroutine[None], rest: str) -> None:
        self._grammar = None
        try:
            if rest:
                self._buffered.append(rest)
                grammar.send(Tag("unfinished", False, rest, "", ""))
            grammar.send(None)
        except StopIteration:
            self._discard()
        except TruncatedMarkup:
            pass
        except InvalidMarkup as error:
            self._flush(is_markup=error.is_markup)

    # ---------------------------------------------------------------- the interface of the grammars

    def add_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """Implement ``CallSink.add_call``."""
        self.start_call(family, name, id)
        self.append_arguments(arguments)
        self.end_call()

    def add_truncated_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """Implement ``CallSink.add_truncated_call``."""
        self.start_call(family, name, id)
        self.append_arguments(arguments)

    def start_call(self, family: str, name: str, id: str | None) -> None:
        """Implement ``CallSink.start_call``."""
        self._is_offered = self._reporter.is_offered(name)
        self._consume()
        if not self._is_offered:
            self._reporter.warn_not_offered(family, name)
            return
        self._reporter.warn_leaked(family)
        self._emit_text()
        if self._recovers:
            if self._key is not None:
                self._choice.end_block(self._key)  # text after the call is another block
            self._call_count += 1
            self._open_call = ("leaked", self._call_count)
            self._choice.tool(NormalizedToolChunk("start", id, name, key=self._open_call))

    def append_arguments(self, arguments: str) -> None:
        """Implement ``CallSink.append_arguments``."""
        self._consume()
        if self._recovers and self._is_offered:
            self._choice.append_arguments(self._open_call, arguments)

    def end_call(self) -> None:
        """Implement ``CallSink.end_call``."""
        self._consume()
        if self._recovers and self._is_offered:
            self._choice.end_block(self._open_call)
            self._open_call = None

    def add_text(self, family: str, text: str) -> None:
        """Implement ``CallSink.add_text``."""
        if self._is_offered:  # else it was released with the rest of the markup
            self._reporter.warn_invalid(family)
            self._write(text)
            self._emit_text()


def _start_grammar(tag: Tag, calls: CallSink) -> GrammarCoroutine[None] | None:
    """Return the grammar that begins with a tag, None if there is none."""
    if tag.closing:
        return None
    if tag.kind == "section" or (tag.kind == "invoke" and tag.is_control_token):
        return parse_xml_style(tag, calls)
    if tag.kind in ("calls", "call"):
        return parse_token_style(tag, calls)
    if tag.kind in ("tool_call", "function"):
        return parse_hermes(tag, calls)
    return None


def _opens_section(token: Token) -> bool:
    if isinstance(token, str):
        return not token.strip(SPACE)
    return token.is_control_token and not token.closing and token.kind in ("section", "calls")
