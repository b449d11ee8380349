"""OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses.

``wire`` its vocabulary, ``parse`` (with ``items``, ``table`` and ``servertools``) what a stream says, ``render``
history as its input items, ``emit`` an answer as its stream. The latter two need pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers.openai_responses.parser import ResponsesParser
from streamkit.providers.openai_responses.schema import FAMILY
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "OpenAIResponses", "ResponsesParser"]

# A text that quotes such a stream has its quotes escaped, so these stand only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"response\.[a-z_]+[."]|(?:^|\n|\r)event: ?response\.[a-z_]')
_BODY = re.compile(rb'"object"\s*:\s*"response"')


class OpenAIResponses:
    """A provider that speaks OpenAI's Responses.

    Args:
        name: its name; its own items are good for the whole family, and for itself.
    """

    framing: Framing = "sse"
    reuses_slots = False
    whole_names = True
    whole_calls = False
    batched_results = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.family = FAMILY | {name}

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> ResponsesParser:
        """See ``Provider.parser``."""
        return ResponsesParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        if head[:1] == b"{":
            return _BODY.search(head) is not None
        return _STREAM.search(head) is not None

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``."""
        from streamkit.providers.openai_responses.messages import render

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
        from streamkit.providers.openai_responses.messages import render_request

        return render_request(
            contents, family=self.family, tools=tools, tool_choice=tool_choice, stream=stream, ids=ids
        )

    def parse_messages(self, messages: Sequence[dict[str, Any]], *, system: Any = None) -> list[Content]:
        """See ``ReadsThreads.read_thread``."""
        from streamkit.providers.openai_responses.importer import parse_messages

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
        from streamkit.providers.openai_responses.encoder import emit

        return emit(
            content,
            family=self.family,
            response_id=response_id,
            model=model,
            finish=finish,
            usage=usage,
            delta_size=delta_size,
        )

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        from streamkit.providers.openai_responses.encoder import error_body

        return error_body(status, message)


PROVIDERS = (OpenAIResponses("openai_responses"),)
