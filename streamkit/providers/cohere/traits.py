"""Declared facts of Cohere's chat API, version 2."""

from __future__ import annotations

import re
from typing import Final

from streamkit.calls import FinishReason
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Traits

__all__ = ["FINISH_REASONS", "TRAITS"]

#: https://docs.cohere.com/v2/reference/chat-stream. The last two are of the vendor's first API: the text was toxic, and
#: the context was full (https://docs.cohere.com/v1/reference/chat-stream). A name that is not listed is ``other``.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "tool_calls",
    "MAX_TOKENS": "length",
    "ERROR": "error",
    "TIMEOUT": "error",
    "ERROR_TOXIC": "content_filter",
    "ERROR_LIMIT": "length",
}

# A text that quotes such a stream has its quotes escaped, so these occur only in the wire itself.
_STREAM = re.compile(rb'"type"\s*:\s*"message-start"|(?:^|\n|\r)event: ?message-start[\r\n]')
_BODY = re.compile(rb'\A\{\s*"id"\s*:\s*"[^"]*"\s*,\s*(?:"message"\s*:\s*\{|"finish_reason"\s*:\s*"[A-Z_]+")')


def _matches_head(head: bytes) -> bool:
    return (_BODY if head[:1] == b"{" else _STREAM).search(head) is not None


TRAITS = Traits(
    name="cohere",
    markup_families=frozenset(),
    matches_head=_matches_head,
    event_name_field="type",
    end_marker="[DONE]",
    endpoint=Endpoint(
        base_url="https://api.cohere.com",
        path="/v2/chat",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
        sdk_base_path="",
        route=r"/v2/chat",
        route_example="/v2/chat",
        response_id=("", 32),
        call_id=("call_", 12),
    ),
    has_importer=False,
)
