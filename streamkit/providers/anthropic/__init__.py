"""Anthropic's Messages API: https://docs.anthropic.com/en/api/messages.

``wire`` its vocabulary, ``parse`` (and ``blocks``) what a stream says, ``render`` history as its messages, ``emit`` an
answer as its stream. The latter two need pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.anthropic.parser import AnthropicParser
from streamkit.providers.anthropic.schema import FAMILY
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "Anthropic", "AnthropicParser"]

# A text that quotes such a stream has its quotes escaped, so these stand only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"message_start"|(?:^|\n|\r)event: ?message_start[\r\n]')
_BODY = re.compile(rb'"type"\s*:\s*"message".*"stop_reason"|"stop_reason".*"type"\s*:\s*"message"', re.DOTALL)


class Anthropic:
    """A provider that speaks Anthropic's Messages, as the vendor does or in another framing under another name.

    Args:
        name: its name; its own blocks are good for the whole family, and for itself.
        framing: how its bytes are framed.
    """

    reuses_slots = False
    whole_names = True
    whole_calls = False
    batched_results = True

    def __init__(self, name: str, framing: Framing = "sse") -> None:
        self.name = name
        self.framing: Framing = framing
        self.family = FAMILY | {name}

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> AnthropicParser:
        """See ``Provider.parser``."""
        return AnthropicParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        if head[:1] == b"{":
            return _BODY.search(head) is not None
        return self.framing == "sse" and _STREAM.search(head) is not None

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``."""
        from streamkit.providers.anthropic.messages import render

        return render(contents, family=self.family, ids=ids)

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """See ``Provider.render_request``."""
        from streamkit.providers.anthropic.messages import render_request

        return render_request(
            contents, family=self.family, tools=tools, tool_choice=tool_choice, stream=stream, ids=ids
        )

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """See ``ReadsThreads.read_thread``."""
        from streamkit.providers.anthropic.importer import parse_messages

        return parse_messages(messages, self.name, system=system)

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
        """See ``Provider.emit``."""
        from streamkit.providers.anthropic.encoder import emit

        return emit(content, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size)

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        from streamkit.providers.anthropic.encoder import error_body

        return error_body(status, message)


PROVIDERS = (Anthropic("anthropic"),)
