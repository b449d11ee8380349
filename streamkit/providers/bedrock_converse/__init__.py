"""Amazon Bedrock's Converse API: https://docs.aws_errors.amazon.com/bedrock/latest/userguide/conversation-inference.html.

``wire`` its vocabulary, ``parse`` (and ``blocks``) what a stream says, ``render`` (and ``parts``) history as its
messages, ``emit`` an answer as its stream. The latter two need pydantic and are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers import aws_errors
from streamkit.providers.bedrock_converse.parser import BedrockConverseParser
from streamkit.providers.bedrock_converse.schema import FAMILY
from streamkit.providers.provider import Framing, IdPolicy, Sink, ToolChoice
from streamkit.providers.rendered import RenderedMessages

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "BedrockConverse", "BedrockConverseParser"]

_STREAM = re.compile(rb":event-type\x07..(?:messageStart|contentBlock|messageStop|metadata)", re.DOTALL)
_EVENT = re.compile(rb'\{\s*"(?:messageStart|contentBlock(?:Start|Delta|Stop)|messageStop)"\s*:')
_BODY = re.compile(rb'"output"\s*:\s*\{\s*"message".*"stopReason"|"stopReason".*"output"\s*:', re.DOTALL)


class BedrockConverse:
    """A provider that speaks ConverseStream."""

    name = "bedrock_converse"
    framing: Framing = "event_stream"
    reuses_slots = False
    whole_names = True
    whole_calls = False
    batched_results = True
    family = FAMILY

    def __repr__(self) -> str:
        return f"<provider {self.name}>"

    def parser(self, sink: Sink) -> BedrockConverseParser:
        """See ``Provider.parser``."""
        return BedrockConverseParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``."""
        if head[:1] == b"{":
            return _EVENT.match(head) is not None or _BODY.search(head) is not None
        return head[:1] == b"\0" and _STREAM.search(head) is not None

    def render(self, contents: Sequence[Content], *, ids: IdPolicy | None = None) -> RenderedMessages:
        """See ``Provider.render``."""
        from streamkit.providers.bedrock_converse.messages import render

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
        from streamkit.providers.bedrock_converse.messages import render_request

        return render_request(contents, tools=tools, tool_choice=tool_choice, ids=ids)

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
        from streamkit.providers.bedrock_converse.encoder import emit

        return emit(content, finish=finish, usage=usage, delta_size=delta_size)

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        return aws_errors.error_body(status, message)


PROVIDERS = (BedrockConverse(),)
