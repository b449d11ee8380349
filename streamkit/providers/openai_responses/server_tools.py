"""The items of the provider's own tools: what they were given and what came of it, and the whole item for replay.

Their pieces are not gathered: what a delta brings, the event that ends it brings whole. It knows neither how items are
told apart nor the client's calls.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.decoding import as_text, read_json
from streamkit.providers.openai_responses.output_items import OutputItem, type_of
from streamkit.providers.openai_responses.schema import SERVER_RESULTS, SERVER_TOOLS, Json
from streamkit.providers.provider import ChoiceSink

__all__ = ["ServerToolReader", "runs_on_server"]

#: Statuses of an item that is still being worked on; it cannot be sent back.
_RUNNING = frozenset({"in_progress", "searching", "interpreting", "generating", "calling", "queued"})
_MEDIA_TYPES = {"svg": "image/svg+xml", "jpg": "image/jpeg"}


def runs_on_server(raw: Json) -> bool:
    """Whether an item is of a tool that the provider runs itself."""
    kind = type_of(raw)
    if kind == "shell_call":
        # The same item asks the client to run a shell of its own; only its environment tells the two apart
        # (https://platform.openai.com/docs/guides/tools-shell).
        environment = raw.get("environment")
        return isinstance(environment, dict) and environment.get("type") not in (None, "local")
    if kind == "tool_search_call":
        return raw.get("execution") != "client"
    return kind in SERVER_TOOLS or kind in SERVER_RESULTS


class ServerToolReader:
    """Tells a sink what the provider's own tools do."""

    def __init__(self, choice: ChoiceSink) -> None:
        self._choice = choice
        self._latest: dict[str, str] = {}  # the last call of each tool

    def start(self, item: OutputItem, raw: Json) -> None:
        """A tool starts; a result that is an item of its own says nothing yet."""
        if item.type in SERVER_RESULTS:
            return
        item.name = SERVER_TOOLS[item.type][0] or as_text(raw.get("name")) or item.type
        # A result names the call_id where there is one, and nothing where there is none.
        item.server_id = item.call_id or item.id or f"{item.type}_{item.key}"
        self._latest[item.name] = item.server_id
        self._choice.server_tool(item.server_id, item.name, "started")

    def arguments(self, item: OutputItem, given: Any) -> None:
        """What the tool is given, once."""
        if item.streamed or given is None or given == "":
            return
        item.streamed = True
        if item.type == "mcp_call" and isinstance(given, str):
            given = _parsed(given)
        self._choice.server_tool(item.server_id, item.name or "", "arguments", given)

    def settle(self, item: OutputItem, raw: Json) -> None:
        """The item is whole."""
        if item.server_id is None:
            self.start(item, raw)
        _, given, result = SERVER_TOOLS[item.type]
        self.arguments(item, raw.get(given))
        status = as_text(raw.get("status"))
        if status in _RUNNING:
            return
        value = raw.get(result) if result else None
        if value is None and raw.get("error") is not None:
            value = {"error": raw["error"]}
        if value is None:
            value = {"status": status} if status is not None else {}
        self._choice.server_tool(item.server_id, item.name or "", "result", value, raw=raw)
        picture = raw.get("result") if item.type == "image_generation_call" else None
        if isinstance(picture, str) and picture:
            self._choice.file(_media_type(raw), data=picture)
            self._choice.add_metadata({"item_id": item.server_id})

    def result(self, item: OutputItem, raw: Json) -> None:
        """An item that is the result of another one."""
        name, field = SERVER_RESULTS[item.type]
        call = as_text(raw.get("call_id")) or self._latest.get(name) or item.id
        self._choice.server_tool(call, name, "result", raw.get(field), raw=raw)

    def partial_image(self, item: OutputItem | None, raw: Json) -> None:
        """A picture as far as it is drawn; the whole one replaces it."""
        said = {
            name: value for name, value in raw.items() if name.startswith("partial_image") or name == "output_format"
        }
        server_id = item.server_id if item is not None else as_text(raw.get("item_id"))
        self._choice.server_tool(server_id, "image_generation", "result", said)


def _media_type(raw: Json) -> str:
    form = as_text(raw.get("output_format")) or "png"
    return _MEDIA_TYPES.get(form) or f"image/{form}"


def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text
