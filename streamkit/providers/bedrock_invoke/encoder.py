"""The encoder of InvokeModelWithResponseStream: Anthropic's stream in Amazon's frames.

It converts frames and must not depend on the contents of the events.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

from streamkit.framing import framer_for
from streamkit.providers import aws_errors

__all__ = ["encode_frames"]


def encode_frames(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield server-sent events as event-stream frames, an ``error`` event as an exception."""
    framer = framer_for("sse")
    for data in stream:
        for name, payload in framer.feed(data):
            if name == b"error":
                yield aws_errors.encode_exception("modelStreamErrorException", json.loads(payload)["error"]["message"])
            elif name != b"ping":  # Bedrock sends none
                yield aws_errors.encode_event("chunk", {"bytes": b64encode(payload).decode(), "p": "abcdefgh"})
