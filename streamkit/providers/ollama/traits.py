"""Declared facts of Ollama's native API."""

from __future__ import annotations

import re
from typing import Final

from streamkit.calls import FinishReason
from streamkit.providers.decoding import read_json
from streamkit.providers.endpoint import Endpoint
from streamkit.providers.provider import Traits

__all__ = ["FINISH_REASONS", "TRAITS"]

#: ``done_reason`` of https://docs.ollama.com/api/chat. ``load`` and ``unload`` end a request without messages, which
#: only loads the model into memory or unloads it: they are ``other``, as every name that is not listed.
FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}

# The server's own order of fields, for a line whose end has not arrived.
_LINE = re.compile(rb'\A\{\s*"model"\s*:\s*"[^"]*"\s*,\s*(?:"remote_\w+"\s*:\s*"[^"]*"\s*,\s*)*"created_at"\s*:')


def _matches_head(head: bytes) -> bool:
    if _LINE.match(head) is not None:
        return True
    try:
        line = read_json(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    if not isinstance(line, dict) or not isinstance(line.get("done"), bool):
        return False
    return isinstance(line.get("message"), dict) or isinstance(line.get("response"), str)


TRAITS = Traits(
    name="ollama",
    framing="ndjson",
    matches_head=_matches_head,
    whole_calls=True,
    endpoint=Endpoint(
        base_url="http://localhost:11434",
        path="/api/chat",
        key_variables=("OLLAMA_API_KEY",),
        key_required=False,
        limit_field=("options", "num_predict"),
        sdk_base_path="",
        route=r"/api/chat",
        route_example="/api/chat",
        response_id=("", 0),
        call_id=("call_", 8),
        # "stream: if false the response will be returned as a single response object", https://docs.ollama.com/api/chat
        streams_by_default=True,
    ),
    has_importer=False,
)
