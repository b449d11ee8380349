"""Readers of call deltas that are not of the frequent form: custom, without an index, with leaves of other types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.calls import CallKind
from streamkit.events import NormalizedToolChunk
from streamkit.indexes import normalize_index
from streamkit.providers.decoding import as_text, compact_json
from streamkit.providers.openai_chat.schema import PlainToolCall, ToolCall

__all__ = ["arguments_text", "read_irregular_call"]


def read_irregular_call(
    tool: Callable[[NormalizedToolChunk], None], call: ToolCall | PlainToolCall, position: int
) -> None:
    """Emit a call delta that is not of the frequent form."""
    function, custom = call.function, call.custom
    is_bare = function is None and custom is None
    if is_bare and not (call.id or call.name or call.arguments or call.extra_content is not None):
        return  # padding: {"index": 0, "function": null}
    name: str | None = None
    arguments: str | None = None
    if custom is not None:
        name, arguments = as_text(custom.name), arguments_text(custom.input)
    else:
        fields = call if function is None else function
        name, arguments = as_text(fields.name), arguments_text(fields.arguments)
    metadata = {"extra_content": call.extra_content} if call.extra_content is not None else None
    kind: CallKind = "custom" if custom is not None or call.type == "custom" else "function"
    key = normalize_index(call.index)
    tool(NormalizedToolChunk("delta", as_text(call.id), name, None, arguments, key, position, kind, None, metadata))


def arguments_text(value: Any) -> str | None:
    """Return arguments as text. Some servers send them as an object (Mistral's older models, Ollama's shim)."""
    if value is None or value.__class__ is str:
        return value or None
    return compact_json(value)
