"""Reader of the items of server tools: their arguments and results, and the complete item for replay.

Deltas are passed on as they come, and are not collected: the event that ends an item repeats all of their data.
This module must not depend on how items are found or on the client's calls.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.decoding import as_text, read_json
from streamkit.providers.openai_responses.output_items import OutputItem, item_type
from streamkit.providers.openai_responses.schema import SERVER_RESULT_ITEMS, SERVER_TOOL_ITEMS, Json
from streamkit.providers.sink import ChoiceSink

__all__ = ["ServerToolReader", "runs_on_server"]

#: Statuses of an item that the server still works on. Such an item cannot be sent back.
_RUNNING_STATUSES = frozenset({"in_progress", "searching", "interpreting", "generating", "calling", "queued"})
_MEDIA_TYPES = {"svg": "image/svg+xml", "jpg": "image/jpeg"}


def runs_on_server(raw: Json) -> bool:
    """Return True if an item belongs to a tool that the provider runs."""
    kind = item_type(raw)
    if kind == "shell_call":
        # The same item asks the client to run its own shell; only the environment distinguishes the two
        # (https://platform.openai.com/docs/guides/tools-shell).
        environment = raw.get("environment")
        return isinstance(environment, dict) and environment.get("type") not in (None, "local")
    if kind == "tool_search_call":
        return raw.get("execution") != "client"
    return kind in SERVER_TOOL_ITEMS or kind in SERVER_RESULT_ITEMS


class ServerToolReader:
    """A reader that reports the calls of server tools to a sink."""

    __slots__ = ("_choice", "_latest_ids")

    def __init__(self, choice: ChoiceSink) -> None:
        self._choice = choice
        self._latest_ids: dict[str, str] = {}  # of the last call of each tool

    def start(self, item: OutputItem, raw: Json) -> None:
        """Report that a tool starts. An item that is a result of another one starts nothing."""
        if item.type in SERVER_RESULT_ITEMS:
            return
        item.name = SERVER_TOOL_ITEMS[item.type][0] or as_text(raw.get("name")) or item.type
        # A result names the call_id if there is one, else nothing.
        item.server_id = item.call_id or item.id or f"{item.type}_{item.key}"
        self._latest_ids[item.name] = item.server_id
        self._choice.server_tool(item.server_id, item.name, "started")

    def emit_arguments(self, item: OutputItem, arguments: Any) -> None:
        """Report the arguments of a tool, once."""
        if item.has_arguments or arguments is None or arguments == "":
            return
        item.has_arguments = True
        if item.type == "mcp_call" and isinstance(arguments, str):
            arguments = _parse_arguments(arguments)
        self._choice.server_tool(item.server_id, item.name or "", "arguments", arguments)

    def complete(self, item: OutputItem, raw: Json) -> None:
        """Report the arguments, the result and the generated image of a complete item."""
        if item.server_id is None:
            self.start(item, raw)
        _, arguments_field, result_field = SERVER_TOOL_ITEMS[item.type]
        self.emit_arguments(item, raw.get(arguments_field))
        status = as_text(raw.get("status"))
        if status in _RUNNING_STATUSES:
            return
        result = raw.get(result_field) if result_field else None
        if result is None and raw.get("error") is not None:
            result = {"error": raw["error"]}
        if result is None:
            result = {"status": status} if status is not None else {}
        self._choice.server_tool(item.server_id, item.name or "", "result", result, raw=raw)
        image = raw.get("result") if item.type == "image_generation_call" else None
        if isinstance(image, str) and image:
            self._choice.file(_media_type(raw), data=image)
            self._choice.add_metadata({"item_id": item.server_id})

    def emit_result(self, item: OutputItem, raw: Json) -> None:
        """Report an item that is the result of another one."""
        name, field = SERVER_RESULT_ITEMS[item.type]
        call_id = as_text(raw.get("call_id")) or self._latest_ids.get(name) or item.id
        self._choice.server_tool(call_id, name, "result", raw.get(field), raw=raw)

    def emit_partial_output(self, item: OutputItem | None, raw: Json) -> None:
        """Report the next output of a command. The complete output replaces it."""
        fields = {name: raw[name] for name in ("delta", "command_index") if name in raw}
        call_id = item.call_id if item is not None else None
        self._choice.server_tool(call_id or self._latest_ids.get("shell"), "shell", "result", fields)

    def emit_partial_image(self, item: OutputItem | None, raw: Json) -> None:
        """Report an unfinished image. The complete one replaces it."""
        fields = {
            name: value for name, value in raw.items() if name.startswith("partial_image") or name == "output_format"
        }
        server_id = item.server_id if item is not None else as_text(raw.get("item_id"))
        self._choice.server_tool(server_id, "image_generation", "result", fields)


def _media_type(raw: Json) -> str:
    output_format = as_text(raw.get("output_format")) or "png"
    return _MEDIA_TYPES.get(output_format) or f"image/{output_format}"


def _parse_arguments(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
