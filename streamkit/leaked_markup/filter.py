"""The text of a choice without leaked markup: tokens to a grammar, and the buffer of what may be markup.

The lexer splits text into tokens. Outside of markup they are text, and a tag with which a grammar begins starts it.
Until the grammar has reported a call, its tokens are buffered, because they are text again if they are no markup after
all. This module does not depend on what a grammar means, only on the interface of grammars.
"""

from __future__ import annotations

from collections.abc import Hashable

from streamkit.accumulator.choice import Choice
from streamkit.events import NormalizedToolChunk
from streamkit.leaked_markup.grammars.base import SPACE, CallSink, GrammarCoroutine, InvalidMarkup, TruncatedMarkup
from streamkit.leaked_markup.grammars.hermes import parse_hermes
from streamkit.leaked_markup.grammars.token_style import parse_token_style
from streamkit.leaked_markup.grammars.xml_style import parse_xml_style
from streamkit.leaked_markup.lexer import Lexer, Tag, Token, is_unfinished_section
from streamkit.leaked_markup.quotation import QuotationScanner
from streamkit.leaked_markup.reporter import MarkupReporter

__all__ = ["MarkupFilter"]

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
        self.has_searched = False
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
