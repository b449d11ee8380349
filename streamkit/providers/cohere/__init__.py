"""Cohere's chat API, version 2: https://docs.cohere.com/v2/reference/chat-stream.

``wire`` its vocabulary, ``parse`` what a stream says, ``render`` history as its messages, ``emit`` an answer as its
stream. The latter two need pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.cohere.parser import CohereParser
from streamkit.providers.cohere.schema import NAME
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "Cohere", "CohereParser"]

# A text that quotes such a stream has its quotes escaped, so these stand only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"message-start"|(?:^|\n|\r)event: ?message-start[\r\n]')
_BODY = re.compile(rb'\A\{\s*"id"\s*:\s*"[^"]*"\s*,\s*(?:"message"\s*:\s*\{|"finish_reason"\s*:\s*"[A-Z_]+")')


class Cohere:
    """The provider ``cohere``."""

    name = NAME
    framing: Framing = "sse"
    reuses_slots = False
    whole_names = True
    whole_calls = False
    batched_results = False

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> CohereParser:
        """See ``Provider.parser``."""
        return CohereParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        return (_BODY if head[:1] == b"{" else _STREAM).search(head) is not None

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``."""
        from streamkit.providers.cohere.messages import render

        return render(contents, ids=ids)

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
        from streamkit.providers.cohere.messages import render_request

        return render_request(contents, tools=tools, tool_choice=tool_choice, stream=stream, ids=ids)

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
        """See ``Provider.emit``. This wire does not name the model."""
        from streamkit.providers.cohere.encoder import emit

        return emit(content, response_id=response_id, finish=finish, usage=usage, delta_size=delta_size)

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        return {"message": message}


PROVIDERS = (Cohere(),)
