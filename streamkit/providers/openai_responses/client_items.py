"""Items that ask the client itself for an action: a patch, a shell command, a click, an approval, a tool search.

They are calls: the name is the item's type without ``_call``, the arguments are its action, and the complete item is in
the call's metadata (``calls.CLIENT_ITEM``), because the next request has to contain it.

A ``shell_call`` is the provider's own if its environment is a container, or if its ``shell_call_output`` follows in the
stream (https://platform.openai.com/docs/guides/tools-shell). Its output directly follows it, so a shell call is
reported when an item of another type begins, or the response ends. All other items are reported when they begin.

This module must not depend on how items are found, on history or on requests.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import CLIENT_ITEM
from streamkit.events import NormalizedToolChunk
from streamkit.providers.decoding import as_text, compact_json, read_json
from streamkit.providers.openai_responses.output_items import OutputItem, item_type
from streamkit.providers.openai_responses.schema import CLIENT_ITEM_FIELDS, Json
from streamkit.providers.openai_responses.server_tools import runs_on_server
from streamkit.providers.sink import ChoiceSink

__all__ = ["ClientItemReader", "client_arguments", "client_call_id", "client_call_name", "is_client_item"]

_SHELL_ITEMS = ("shell_call", "shell_call_output")


def is_client_item(raw: Json) -> bool:
    """Return True if an item asks the client for an action."""
    return item_type(raw) in CLIENT_ITEM_FIELDS and not runs_on_server(raw)


def client_call_name(kind: str) -> str:
    """Return the name of the call that an item of this type is."""
    return kind.removesuffix("_call")


def client_call_id(raw: Json) -> str | None:
    """Return the id that the result of an item names: its ``call_id``, or else its own id."""
    return as_text(raw.get("call_id")) or as_text(raw.get("id"))


def client_arguments(raw: Json) -> Json:
    """Return what an item asks for, as an object.

    A request for approval names the server and its tool next to the arguments; a list of actions is ``actions``.
    """
    kind = item_type(raw)
    value = _parse(raw.get(CLIENT_ITEM_FIELDS[kind]))
    if kind == "mcp_approval_request":
        named = {name: raw[name] for name in ("server_label", "name") if raw.get(name) is not None}
        return {**named, "arguments": {} if value is None else value}
    if isinstance(value, dict):
        return value
    if value is None:  # the later computer tool sends a list
        return {"actions": raw["actions"]} if raw.get("actions") is not None else {}
    return {CLIENT_ITEM_FIELDS[kind]: value}


class ClientItemReader:
    """A reader that reports such items to a sink as calls."""

    __slots__ = ("_choice", "_shell_calls")

    def __init__(self, choice: ChoiceSink) -> None:
        self._choice = choice
        self._shell_calls: list[tuple[OutputItem, Json]] = []  # complete, and perhaps followed by their output

    def start(self, item: OutputItem, raw: Json) -> None:
        """Report the call of an item that began."""
        item.name = client_call_name(item.type)
        call_id = item.call_id if item.type in ("apply_patch_call", "shell_call") else client_call_id(raw)
        self._choice.tool(
            NormalizedToolChunk("start", call_id, item.name, key=item.key, metadata=_metadata(raw) or None)
        )
        if item.type == "apply_patch_call":
            item.initial_arguments = _patch_beginning(raw.get("operation"))

    def add_patch(self, item: OutputItem, delta: str) -> None:
        """Report the next text of a patch, as a part of the operation's JSON."""
        if item.initial_arguments:
            text, item.has_arguments = item.initial_arguments + compact_json(delta)[1:-1], True
            item.initial_arguments = ""
        elif item.has_arguments:
            text = compact_json(delta)[1:-1]
        else:
            return  # the beginning of the operation is unknown; the complete item follows
        self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=item.key))

    def complete(self, item: OutputItem, raw: Json, *, is_ended: bool) -> None:
        """Report the arguments of a complete item, and the end of its call."""
        if item.name is None:
            self.start(item, raw)
        elif item.call_id is None and (call_id := client_call_id(raw)) is not None:
            self._choice.tool(NormalizedToolChunk("delta", call_id, key=item.key))
        item.initial_arguments = ""
        self._choice.add_metadata(_metadata(raw), item.key)
        arguments = client_arguments(raw)
        if "diff" in arguments:  # at the end, as it was streamed
            arguments = {**{name: value for name, value in arguments.items() if name != "diff"}, **arguments}
            arguments["diff"] = arguments.pop("diff")
        self._choice.replace_arguments(item.key, compact_json(arguments))
        if is_ended:
            self._choice.end_block(item.key)

    # ------------------------------------------------------------ shell calls

    def keep_shell_call(self, item: OutputItem, raw: Json) -> None:
        """Keep a complete shell call until it is known whether its output follows."""
        self._shell_calls.append((item, raw))

    def take_shell_call(self, call_id: str | None) -> tuple[OutputItem, Json] | None:
        """Return the kept shell call whose output follows, which the provider ran; None if there is none."""
        for position, (_, raw) in enumerate(self._shell_calls):
            if call_id is not None and client_call_id(raw) == call_id:
                return self._shell_calls.pop(position)
        return None

    def report_shell_calls(self, next_type: str = "") -> None:
        """Report the kept shell calls, unless the next item may be the output of one."""
        if self._shell_calls and next_type not in _SHELL_ITEMS:
            shell_calls, self._shell_calls = self._shell_calls, []
            for item, raw in shell_calls:
                self.complete(item, raw, is_ended=raw.get("status") not in ("in_progress", "incomplete"))


def _metadata(raw: Json) -> Json:
    item_id = as_text(raw.get("id"))
    return {CLIENT_ITEM: raw} if item_id is None else {CLIENT_ITEM: raw, "item_id": item_id}


def _parse(value: Any) -> Any:
    """Return arguments that are JSON text as data; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value) if value else None
    except (ValueError, RecursionError):
        return value


def _patch_beginning(operation: Any) -> str:
    """Return the JSON of an operation up to the text of its patch; ``""`` if the patch has begun or has no place."""
    if not isinstance(operation, dict) or operation.get("diff") or "path" not in operation:
        return ""
    fields = compact_json({name: value for name, value in operation.items() if name != "diff"})
    return f'{fields[:-1]},"diff":"'
