"""Chat Completions: OpenAI's wire, and the dialects that other vendors made of it.

A dialect is facts (``ChatFacts``), never a subclass. The order of the room is that of every room: ``wire`` (the
vocabulary), ``parse`` (chunks to events; ``parts`` and ``beside`` read what is not plain text and calls), ``render``
(history to messages; ``blocks`` makes their pieces), ``emit`` (events back to bytes; ``saying`` makes their deltas).
``detect`` tells the wire from its first bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from streamkit.calls import FinishReason, Usage
from streamkit.errors import UsageError
from streamkit.providers.decoding import read_json
from streamkit.providers.openai_chat.dialects import DIALECTS, ChatDialect
from streamkit.providers.openai_chat.parser import ChatParser
from streamkit.providers.provider import Framing, IdPolicy, Parser, Sink, ToolChoice

if TYPE_CHECKING:
    from streamkit.history import Content
    from streamkit.providers.rendered import RenderedMessages
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "ChatDialect", "ChatProvider"]


#: Puts one chunk, as plain data, into the form that this wire should have.
Rewrite: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class ChatProvider:
    """One dialect of Chat Completions, as a provider.

    Args:
        facts: what tells it from the others.
        rewrite: applied to every chunk before it is read, for what no fact describes.
    """

    framing: Framing = "sse"
    reuses_slots = True
    whole_names = False
    whole_calls = False
    batched_results = False

    def __init__(self, facts: ChatDialect, *, rewrite: Rewrite | None = None) -> None:
        self.facts = facts
        self.name = facts.name
        self.calls_close_in_order = facts.calls_close_in_order
        self.calls_need_reasoning = facts.calls_need_reasoning
        self.rewrite = rewrite

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> Parser:
        """A parser for one turn."""
        parser = ChatParser(sink)
        return parser if self.rewrite is None else RewritingParser(parser, self.rewrite)

    def detect(self, head: bytes) -> bool:
        """Whether these first bytes are Chat Completions'; the dialects cannot be told apart, so only OpenAI says."""
        if self.name != "openai_chat":
            return False
        from streamkit.providers.openai_chat.detect import is_chat_stream

        return is_chat_stream(head)

    def dialect(self, name: str, *, rewrite: Rewrite | None = None, **changed: Any) -> ChatProvider:
        """This dialect under another name, with other facts; see ``providers.dialect``.

        Raises:
            UsageError: there is no such fact.
        """
        known = [fact.name for fact in fields(ChatDialect) if fact.name != "name"]
        for fact in changed:
            if fact not in known:
                raise UsageError(f"a chat dialect has no fact {fact!r}; there are: {', '.join(known)}")
        changed.setdefault("calls_close_in_order", False)  # of the vendor that streams them, not of the wire
        return ChatProvider(replace(self.facts, name=name, **changed), rewrite=rewrite or self.rewrite)

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """History as chat messages."""
        from streamkit.providers.openai_chat.messages import render

        return render(contents, self.facts, ids=ids)

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """The fields of a request's body that the conversation decides."""
        from streamkit.providers.openai_chat.messages import render_request

        return render_request(contents, self.facts, tools=tools, tool_choice=tool_choice, stream=stream, ids=ids)

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """History from chat messages."""
        from streamkit.providers.openai_chat.importer import parse_messages

        return parse_messages(messages, self.facts, system=system)

    def emit(
        self,
        content: Content,
        *,
        response_id: str,
        model: str,
        finish: FinishReason | None = None,
        usage: Usage | None = None,
        delta_size: int = 16,
    ) -> Iterator[bytes]:
        """The stream that this answer would have been, frame by frame."""
        from streamkit.providers.openai_chat.encoder import emit

        return emit(
            content, self.facts, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """The JSON body with which a bad request is answered."""
        from streamkit.providers.openai_chat.encoder import error_body

        return error_body(status, message)


class RewritingParser:
    """Rewrites each chunk and hands it on. What is no object, such as ``[DONE]``, is handed on as it is."""

    __slots__ = ("_parser", "_rewrite")

    def __init__(self, parser: ChatParser, rewrite: Rewrite) -> None:
        self._parser = parser
        self._rewrite = rewrite

    def frame(self, name: bytes, data: bytes) -> None:
        """One SSE event."""
        try:
            chunk = None if name == b"error" else read_json(data)
        except (ValueError, RecursionError):
            chunk = None
        if isinstance(chunk, dict):
            self.chunk(chunk)
        else:
            self._parser.frame(name, data)

    def chunk(self, data: dict[str, Any]) -> None:
        """One chunk as a dict."""
        made = self._rewrite(data)
        if not isinstance(made, dict):
            raise UsageError(f"rewrite gives a chunk, a dict, not {type(made).__name__}")
        self._parser.chunk(made)

    def end(self) -> None:
        """The stream is over."""
        self._parser.end()


PROVIDERS = tuple(ChatProvider(facts) for facts in DIALECTS)
