"""Declared facts of Amazon Bedrock's Converse API."""

from __future__ import annotations

import re

from streamkit.providers.provider import Traits

__all__ = ["TRAITS"]

_STREAM = re.compile(rb":event-type\x07..(?:messageStart|contentBlock|messageStop|metadata)", re.DOTALL)
_EVENT = re.compile(rb'\{\s*"(?:messageStart|contentBlock(?:Start|Delta|Stop)|messageStop)"\s*:')
_BODY = re.compile(rb'"output"\s*:\s*\{\s*"message".*"stopReason"|"stopReason".*"output"\s*:', re.DOTALL)


def _matches_head(head: bytes) -> bool:
    if head[:1] == b"{":
        return _EVENT.match(head) is not None or _BODY.search(head) is not None
    return head[:1] == b"\0" and _STREAM.search(head) is not None


# No other compatible provider: a Claude's signature is valid on Anthropic's own wires too, but this service also serves
# models of other vendors that refuse it, and which model reads a conversation is not known here.
TRAITS = Traits(
    name="bedrock_converse",
    framing="event_stream",
    matches_head=_matches_head,
    compatible=frozenset({"bedrock_converse"}),
    id_rule="bedrock",
    batched_results=True,
    has_importer=False,
)
