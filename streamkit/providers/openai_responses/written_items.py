"""The items of a response as the writer sends them: their fields, and the state of the one that is open.

This module must not depend on the order of the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from streamkit.calls import Usage
from streamkit.providers.openai_responses.schema import Json
from streamkit.providers.writing.call_text import CallText
from streamkit.providers.writing.encoding import safe_json
from streamkit.providers.writing.wire_output import ServerToolCall
from streamkit.values.media import normalize_data

__all__ = [
    "USAGE_DETAILS",
    "OpenItem",
    "annotation",
    "argument_names",
    "arguments_delta",
    "call_item",
    "client_tool_call",
    "empty_response",
    "image_item",
    "mcp_call",
    "usage_fields",
]

#: The metadata of a call block that is not a field of the call's item.
_NON_ITEM_METADATA: Final = frozenset(
    {"provider", "model", "requested_model", "endpoint", "raw_id", "raw_arguments", "state", "item_id", "status"}
)
#: The list of an item that has the parts of each kind, and the field of an event with the place in it.
_LISTS: Final = {
    "output_text": ("content", "content_index"),
    "refusal": ("content", "content_index"),
    "reasoning_text": ("content", "content_index"),
    "summary_text": ("summary", "summary_index"),
}
#: The fields of the token counts that count parts of others.
USAGE_DETAILS: Final = ("input_tokens_details", "output_tokens_details")


class OpenItem:
    """A message or a reasoning that is being written."""

    def __init__(self, type: Literal["message", "reasoning"], item: Json) -> None:
        self.type = type  # ``message`` or ``reasoning``
        self.item = item  # the item, which gets the complete parts
        self.index = 0  # its place in the output
        self.is_own = False  # the item is the provider's own, and has its parts
        self.kind: str | None = None  # the kind of the open part; None if no part is open
        self.block: int = -1  # the number of the block that the last part is
        self.texts: list[str] = []  # the deltas of that part
        self.annotations: list[Any] = []  # the annotations of that part
        self.logprobs: list[Any] = []  # its log probabilities
        self.position: Json = {}  # the fields of an event that name the part
        self.part_count: int = 0  # the parts that were opened
        self._counts: dict[str, int] = {}

    def start_part(self, kind: str, block: int) -> None:
        """Open a part of a kind, the next of its list."""
        self.block = block
        name, field = _LISTS[kind]
        number = self._counts.get(name, 0)
        self._counts[name] = number + 1
        self.part_count += 1
        self.kind, self.texts, self.annotations, self.logprobs = kind, [], [], []
        self.position = {"item_id": self.item.get("id"), "output_index": self.index, field: number}

    def end_part(self) -> Json:
        """Close the open part and add it to the item; return it."""
        kind, text = self.kind or "", "".join(self.texts)
        part: Json = {"type": kind, "refusal" if kind == "refusal" else "text": text}
        if kind == "output_text":
            part |= {"annotations": self.annotations, "logprobs": self.logprobs}
        if not self.is_own:
            self.item.setdefault(_LISTS[kind][0], []).append(part)
        self.kind = None
        return part


def empty_response(response_id: str, model: str) -> Json:
    """Return a response that has begun."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }


def call_item(call: CallText, item_id: str, own: Mapping[str, Any]) -> Json:
    """Return the item of a call, without its arguments; *own* is the metadata of a call that the provider made."""
    is_custom = call.ref.kind == "custom"
    item: Json = {
        "id": item_id,
        "type": "custom_tool_call" if is_custom else "function_call",
        "status": own.get("status", "completed"),
        "input" if is_custom else "arguments": "",
        "call_id": call.id,
        "name": call.ref.name,
    }
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item | {key: value for key, value in own.items() if key not in _NON_ITEM_METADATA}


def client_tool_call(tool: Json, call: CallText, item_id: str) -> Json:
    """Return the item of a call, without arguments, of a tool that the API declares so and the client runs."""
    kind = f"{tool['type']}_call"
    fields: Json = {"call_id": call.id, "execution": "client", "status": "completed", "arguments": {}}
    return {"id": item_id, "type": kind, **fields}


def mcp_call(tool: ServerToolCall, item_id: str, output: Any = None) -> Json:
    """Return a server tool of another provider as the item of a tool of a remote server."""
    return {
        "id": item_id,
        "type": "mcp_call",
        "status": "completed",
        "name": tool.name,
        "server_label": "server",
        "arguments": tool.arguments if isinstance(tool.arguments, str) else safe_json(tool.arguments or {}),
        "output": output if isinstance(output, str) or output is None else safe_json(output),
        "error": None,
    }


def annotation(url: str, title: str) -> Json:
    """Return an address as an annotation of a text."""
    return {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": 0}


def usage_fields(usage: Usage) -> Json:
    """Return the token counts."""
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    cached = {"cached_tokens": usage.cache_read_tokens or 0, "cache_write_tokens": usage.cache_write_tokens or 0}
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": cached,
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": input_tokens + output_tokens,
    }


def image_item(item_id: str, data: str, media_type: str) -> Json:
    """Return a generated image as an item; the data is base64, or a base64 data URL."""
    return {
        "id": item_id,
        "type": "image_generation_call",
        "status": "completed",
        "output_format": media_type.removeprefix("image/").partition("+")[0],
        "result": normalize_data(data).data,
    }


def arguments_delta(text: str, call: CallText) -> Json:
    """Return the event of a delta of a call's arguments, without its number."""
    _, name = argument_names(call)
    position = {"item_id": call.item["id"], "output_index": call.position}
    return {"type": f"response.{name}.delta", **position, "delta": text}


def argument_names(call: CallText) -> tuple[str, str]:
    """Return the field of a call's arguments and the name of their events."""
    if call.ref.kind == "custom":
        return "input", "custom_tool_call_input"
    return "arguments", "function_call_arguments"
