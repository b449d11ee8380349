"""The writer of InvokeModelWithResponseStream: Anthropic's events in Amazon's frames.

It must not depend on the contents of the events.
"""

from __future__ import annotations

from base64 import b64encode
from typing import ClassVar

from streamkit.providers.anthropic.writer import AnthropicWriter
from streamkit.providers.contract.error_rules import ErrorRules
from streamkit.providers.contract.traits import Traits
from streamkit.providers.writing import aws_frames
from streamkit.providers.writing.aws_frames import aws_error_body as error_body
from streamkit.providers.writing.aws_frames import error_event
from streamkit.providers.writing.encoding import encode_chunk
from streamkit.providers.writing.wire_output import ErrorBody, Json, WirePlaces, WriterOptions

__all__ = ["InvokeWriter", "create_writer", "error_body", "error_event"]


def create_writer(traits: Traits, options: WriterOptions) -> InvokeWriter:
    """Return a writer of one response."""
    return InvokeWriter(traits, options)


class InvokeWriter(AnthropicWriter):
    """A writer of one message. Bedrock sends no pings, and an error as an exception."""

    error_rules: ClassVar[ErrorRules] = aws_frames.ERRORS
    places: ClassVar[WirePlaces | None] = None  # its frames contain the events of another wire
    failed_body: ClassVar[ErrorBody] = staticmethod(error_body)

    def encode(self, chunk: Json) -> bytes:
        """Return an event as a frame; an error as an exception."""
        if chunk["type"] == "ping":
            return b""
        if chunk["type"] == "error":
            if self.error is None:
                return aws_frames.encode_exception("modelStreamErrorException", chunk["error"]["message"])
            return error_event(*self.error_fields(self.error))
        return aws_frames.encode_event("chunk", {"bytes": b64encode(encode_chunk(chunk)).decode(), "p": "abcdefgh"})
