"""Declared facts of Ollama's native API."""

from __future__ import annotations

import re

from streamkit.providers.decoding import read_json
from streamkit.providers.provider import Traits

__all__ = ["TRAITS"]

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
    default_ids="origin",
    has_importer=False,
)
