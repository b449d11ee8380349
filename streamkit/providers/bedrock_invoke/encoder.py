"""The encoder of InvokeModelWithResponseStream: Anthropic's stream in Amazon's frames.

It converts frames and must not depend on the contents of the events.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

from streamkit.calls import FinishReason, Usage
from streamkit.framing import framer_for
from streamkit.history import Content
from streamkit.providers import aws_frames
from streamkit.providers.anthropic import encoder as anthropic
from streamkit.providers.aws_frames import error_body, error_event
from streamkit.providers.provider import Traits

__all__ = ["emit", "error_body", "error_event"]


def emit(
    content: Content,
    traits: Traits,
    *,
    response_id: str,
    model: str,
    finish: FinishReason | None = None,
    usage: Usage | None = None,
    delta_size: int = 16,
) -> Iterator[bytes]:
    """Return the event-stream frames of a stream that the parser reads as this content."""
    events = anthropic.emit(
        content, traits, response_id=response_id, model=model, finish=finish, usage=usage, delta_size=delta_size
    )
    return _encode_frames(events)


def _encode_frames(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield server-sent events as event-stream frames, an ``error`` event as an exception."""
    framer = framer_for("sse")
    for data in stream:
        for name, payload in framer.feed(data):
            if name == b"error":
                yield aws_frames.encode_exception("modelStreamErrorException", json.loads(payload)["error"]["message"])
            elif name != b"ping":  # Bedrock sends none
                yield aws_frames.encode_event("chunk", {"bytes": b64encode(payload).decode(), "p": "abcdefgh"})
