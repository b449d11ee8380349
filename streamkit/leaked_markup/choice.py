"""One answer's text on its way from the parser to the accumulator, with the markup taken out of it.

It stands in the answer's place before the parser and does what the answer does, except that text goes through the
lexer and a grammar first. Whatever else the wire says (a call, reasoning, the end of a block) comes after all text
that came before it: then what was held is settled. It does not know the grammars, only that they read tokens.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from streamkit.accumulator.choice import Choice
from streamkit.calls import FinishReason
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase
from streamkit.leaked_markup.grammars.base import SPACE, GrammarCoroutine, InvalidMarkup, TruncatedMarkup
from streamkit.leaked_markup.grammars.hermes import read_xml
from streamkit.leaked_markup.grammars.token_style import read_tokens
from streamkit.leaked_markup.grammars.xml_style import read_elements
from streamkit.leaked_markup.lexer import Lexer, Tag, Token, is_unfinished_section
from streamkit.leaked_markup.tool_names import NameCleaner

if TYPE_CHECKING:
    from streamkit.leaked_markup.sink import MarkupSink

__all__ = ["MarkupChoice"]


class MarkupChoice:
    """An answer before which leaked markup is looked for; implements ``ChoiceSink`` and the grammars' ``Found``."""

    def __init__(self, answer: Choice, sink: MarkupSink) -> None:
        self._answer = answer
        self._sink = sink
        self._recovers = sink.recovers
        self._names = NameCleaner(sink.warn_name_cleaned)
        self._lexer = Lexer()
        self._reading: GrammarCoroutine[None] | None = None  # the grammar, inside of markup
        self._held: list[Token] = []  # what is text again if the markup turns out to be none
        self._held_size = 0
        self._behind = False  # markup has just ended: space may be what stands between two calls
        self._out: list[str] = []  # text that is text, not yet handed on
        self._key: Hashable = None  # the text's block
        self._count = 0  # calls found
        self._open: Hashable = None  # the call that streams its arguments

    # ---------------------------------------------------------------- what the parser says

    def text(self, text: str, key: Hashable = None) -> None:
        """See ``ChoiceSink.text``."""
        if key != self._key:
            self._settle()
            self._key = key
        if self._reading is None and not self._held and not self._lexer.rest:
            if not text or ("<" not in text and not self._behind):
                self._answer.text(text, key)
                return
        for token in self._lexer.feed(text):
            self._take(token)
        self._say()

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """See ``ChoiceSink.reasoning``."""
        self._settle()
        self._answer.reasoning(text, kind, key)

    def refusal(self, text: str) -> None:
        """See ``ChoiceSink.refusal``."""
        self._settle()
        self._answer.refusal(text)

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """See ``ChoiceSink.annotate``."""
        self._settle()
        self._answer.add_metadata(metadata, key)

    def tool(self, chunk: NormalizedToolChunk) -> None:
        """See ``ChoiceSink.tool``."""
        self._settle(call_follows=True)
        self._answer.tool(self._names.mend(chunk))

    def end_block(self, key: Hashable) -> None:
        """See ``ChoiceSink.seal``."""
        self._settle()
        self._answer.end_block(key)

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """See ``ChoiceSink.restate``."""
        self._answer.replace_arguments(key, arguments_text)

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """See ``ChoiceSink.server_tool``."""
        self._settle()
        self._answer.server_tool(id, name, phase, data, raw=raw)

    def citation(self, data: Any) -> None:
        """See ``ChoiceSink.citation``. It stands beside the text, so it ends nothing."""
        self._answer.citation(data)

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """See ``ChoiceSink.file``. A file in pieces runs beside the text, so it ends nothing."""
        if key is None:
            self._settle()
        self._answer.file(media_type, data, url, raw=raw, key=key)

    def provider_block(self, raw: Any) -> None:
        """See ``ChoiceSink.opaque``."""
        self._settle()
        self._answer.provider_block(raw)

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """See ``ChoiceSink.finish``. Text may come behind it, so it ends nothing."""
        self._answer.finish(raw, reason)

    def close(self) -> None:
        """The turn is over: what was held is settled."""
        self._settle(over=True)

    # ---------------------------------------------------------------- one token after another

    def _take(self, token: Token) -> None:
        if self._reading is not None and self._read(self._reading, token):
            return
        if isinstance(token, str):
            if self._behind and not token.strip(SPACE):
                self._buffer(token)  # what stands between two calls, perhaps
                return
            self._flush()
            self._out.append(token)
            return
        reading = _reading(token, self)
        if reading is not None:
            next(reading)
            self._reading = reading
            self._buffer(token)
            return
        self._held.append(token)  # a tag that closes or continues nothing
        self._flush()

    def _read(self, reading: GrammarCoroutine[None], token: Token) -> bool:
        """Inside of markup; False where the token does not fit and is still to be looked at."""
        self._buffer(token)
        try:
            reading.send(token)
        except StopIteration:
            self._reading = None
            self._discard()
            self._behind = True
        except InvalidMarkup as broken:
            self._reading = None
            if not broken.nested:
                self._held.pop()
            self._flush(begun=broken.begun)
            return broken.nested
        return True

    def _buffer(self, token: Token) -> None:
        self._held.append(token)
        self._held_size += len(token if isinstance(token, str) else token.raw)
        self._sink.check_held(self._held_size)

    def _discard(self) -> None:
        """What is held was markup. A section that held no call is said here."""
        for tag in self._held:
            if isinstance(tag, Tag) and not tag.closing and tag.kind in ("section", "calls"):
                self._sink.warn_leaked(tag.family)
        self._clear()

    def _clear(self) -> None:
        self._held.clear()
        self._held_size = 0

    def _flush(self, *, begun: bool = False) -> None:
        """What is held is text."""
        self._behind = False
        if not self._held:
            return
        for token in self._held:
            if isinstance(token, str):
                self._out.append(token)
            elif token.special and not self._recovers:
                self._sink.warn_leaked(token.family)
            else:
                self._out.append(token.raw)
                if token.special or begun:
                    self._sink.warn_invalid(token.family)
        self._clear()

    def _say(self) -> None:
        """Hand on what is text."""
        if self._out:
            text = "".join(self._out)
            self._out.clear()
            self._answer.text(text, self._key)

    def _settle(self, *, call_follows: bool = False, over: bool = False) -> None:
        """Something else than text follows, or nothing: what was held is markup that was cut, or text."""
        rest = self._lexer.close()
        if self._reading is not None:
            self._end_reading(rest)
        elif rest and is_unfinished_section(rest) and (call_follows or not self._recovers):
            self._sink.warn_leaked("DSML")
        elif rest:
            self._held.append(rest)
        if call_follows and self._held and all(_opens_section(token) for token in self._held):
            self._discard()  # the section's opener, left behind by the server that read the call
        self._flush()
        self._say()
        if self._open is not None and not over:
            self._answer.end_block(self._open)  # cut, and nothing that follows belongs to it
        self._open = None

    def _end_reading(self, rest: str) -> None:
        reading, self._reading = self._reading, None
        assert reading is not None  # noqa: S101 - the caller looked
        try:
            if rest:
                self._held.append(rest)
                reading.send(Tag("unfinished", False, rest, "", ""))
            reading.send(None)
        except StopIteration:
            self._discard()
        except TruncatedMarkup:
            pass
        except InvalidMarkup as broken:
            self._flush(begun=broken.begun)

    # ---------------------------------------------------------------- what the grammars say

    def complete_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """See ``Found.whole``."""
        self.start(family, name, id)
        self.extend(arguments)
        self.end()

    def truncated_call(self, family: str, name: str, arguments: str, id: str | None = None) -> None:
        """See ``Found.cut``."""
        self.start(family, name, id)
        self.extend(arguments)

    def start(self, family: str, name: str, id: str | None) -> None:
        """See ``Found.start``."""
        self._sink.warn_leaked(family)
        self._clear()
        self._say()
        if self._recovers:
            self._count += 1
            self._open = ("leaked", self._count)
            self._answer.tool(NormalizedToolChunk("start", id, name, key=self._open))

    def extend(self, arguments: str) -> None:
        """See ``Found.extend``."""
        self._clear()
        if self._recovers:
            self._answer.append_arguments(self._open, arguments)

    def end(self) -> None:
        """See ``Found.end``."""
        self._clear()
        if self._recovers:
            self._answer.end_block(self._open)
            self._open = None

    def plain_text(self, family: str, text: str) -> None:
        """See ``Found.junk``."""
        self._sink.warn_invalid(family)
        self._out.append(text)
        self._say()


def _reading(tag: Tag, found: MarkupChoice) -> GrammarCoroutine[None] | None:
    """The grammar that begins with this tag."""
    if tag.closing:
        return None
    if tag.kind == "section" or (tag.kind == "invoke" and tag.special):
        return read_elements(tag, found)
    if tag.kind in ("calls", "call"):
        return read_tokens(tag, found)
    if tag.kind in ("tool_call", "function"):
        return read_xml(tag, found)
    return None


def _opens_section(token: Token) -> bool:
    if isinstance(token, str):
        return not token.strip(SPACE)
    return token.special and not token.closing and token.kind in ("section", "calls")
