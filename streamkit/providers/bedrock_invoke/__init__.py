"""Anthropic's Messages inside Amazon Bedrock's InvokeModelWithResponseStream.

https://docs.aws_errors.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html. What a model says
is Anthropic's wire to the letter, so this room is that room in Amazon's frames: it holds the frames and the two fields
in which the requests differ, and is the one room that imports another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from streamkit.providers import aws_errors
from streamkit.providers.anthropic import Anthropic
from streamkit.providers.bedrock_invoke.parser import BedrockInvokeParser
from streamkit.providers.provider import IdPolicy, Sink, ToolChoice

if TYPE_CHECKING:
    from streamkit.calls import FinishReason, Usage
    from streamkit.history import Content
    from streamkit.tools import Tool

__all__ = ["PROVIDERS", "BedrockInvoke", "BedrockInvokeParser"]

_STREAM = re.compile(rb":event-type\x07\x00\x05chunk", re.DOTALL)

#: What stands for the header ``anthropic-version`` here, and the only value there is.
_VERSION = "bedrock-2023-05-31"


class BedrockInvoke(Anthropic):
    """Anthropic's Messages in event-stream frames."""

    def __init__(self) -> None:
        super().__init__("bedrock_invoke", "event_stream")

    def parser(self, sink: Sink) -> BedrockInvokeParser:  # type: ignore[override]  # a parser all the same
        """See ``Provider.parser``."""
        return BedrockInvokeParser(sink)

    def detect(self, head: bytes) -> bool:
        """See ``Provider.detect``. A body that was not streamed cannot be told from Anthropic's own."""
        return head[:1] == b"\0" and _STREAM.search(head) is not None

    def render_request(
        self,
        contents: Sequence[Content],
        *,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice | None = None,
        stream: bool = True,
        ids: IdPolicy | None = None,
    ) -> dict[str, Any]:
        """See ``Provider.render_request``. Model and streaming are said by the request's path."""
        body = super().render_request(contents, tools=tools, tool_choice=tool_choice, stream=False, ids=ids)
        return {"anthropic_version": _VERSION, **body}

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
        from streamkit.providers.bedrock_invoke.encoder import encode_frames

        plain = super().emit(
            content, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size
        )
        return encode_frames(plain)

    def error_body(self, status: int, message: str) -> dict[str, Any]:
        """See ``Provider.error_body``."""
        return aws_errors.error_body(status, message)


PROVIDERS = (BedrockInvoke(),)
