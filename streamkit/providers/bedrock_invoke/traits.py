"""Declared facts of Anthropic's Messages in the frames of Amazon Bedrock's InvokeModelWithResponseStream."""

from __future__ import annotations

import re
from dataclasses import replace

from streamkit.providers.anthropic.traits import TRAITS as ANTHROPIC

__all__ = ["TRAITS"]

_STREAM = re.compile(rb":event-type\x07\x00\x05chunk", re.DOTALL)


def _matches_head(head: bytes) -> bool:
    # A body that was not streamed cannot be distinguished from Anthropic's own.
    return head[:1] == b"\0" and _STREAM.search(head) is not None


TRAITS = replace(
    ANTHROPIC,
    name="bedrock_invoke",
    framing="event_stream",
    matches_head=_matches_head,
    event_name_field=None,
    wrapper_event="chunk",
)
