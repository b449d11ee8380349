"""Items that ask the client itself for an action: a patch, a shell command, a click, an approval, a tool search.

They are calls: the name is the item's type without ``_call``, the arguments are its action, and the complete item is in
the call's metadata (``calls.CLIENT_ITEM``), because the next request has to contain it. Each kind of item has a result
of its own form. A result that has no such form (a click without a screenshot) is sent as the result of an ordinary
function, and its item as the call of one, which the API accepts as well.

A ``shell_call`` is the provider's own if its environment is a container, or if its ``shell_call_output`` follows in the
stream (https://platform.openai.com/docs/guides/tools-shell). Its output directly follows it, so a shell call is
reported when an item of another type begins, or the response ends. All other items are reported when they begin.

Wire: https://platform.openai.com/docs/api-reference/responses/create (``input``), and the guides of the tools.
This module must not depend on how items are found, or on requests.
"""

from __future__ import annotations

from typing import Any

from streamkit.calls import CLIENT_ITEM
from streamkit.events import NormalizedToolChunk
from streamkit.history.content import FileBlock, ImageBlock, ToolCallBlock, ToolResponseBlock
from streamkit.providers.contract.sink import ChoiceSink
from streamkit.providers.decoding.decoding import as_text, compact_json, read_json
from streamkit.providers.openai_responses.output_items import OutputItem, item_type, runs_on_server
from streamkit.providers.openai_responses.schema import CLIENT_ITEM_FIELDS, Json
from streamkit.providers.rendering.media import media_parts
from streamkit.providers.writing.encoding import text_or_json
from streamkit.values.media import is_image_source, normalize_data_url

__all__ = [
    "CLIENT_OUTPUT_ITEMS",
    "ClientItemReader",
    "client_arguments",
    "client_call_id",
    "client_call_name",
    "client_item",
    "is_client_item",
    "output_call_id",
    "output_item",
    "parse_output",
    "stored_item",
]

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
            operation = raw.get("operation")
            if isinstance(operation, dict) and not operation.get("diff") and "path" in operation:
                fields = compact_json({name: value for name, value in operation.items() if name != "diff"})
                item.initial_arguments = f'{fields[:-1]},"diff":"'  # up to the text of the patch, which has not begun

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

    def cut_off(self, item: OutputItem) -> None:
        """Leave the call of an item incomplete that began and never ended, whatever it would have asked for.

        No arguments at all would be those of a complete call without any, so the beginning of an object is reported.
        """
        if not item.has_arguments:
            text = item.initial_arguments or "{"
            self._choice.tool(NormalizedToolChunk("delta", arguments_delta=text, key=item.key))

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


# ---------------------------------------------------------------- results as items

#: The items with the results, by the type of the item that asked.
_OUTPUT_TYPES = {
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "mcp_approval_request": "mcp_approval_response",
    "shell_call": "shell_call_output",
    "tool_search_call": "tool_search_output",
}
_ASKING_TYPES = {output: asking for asking, output in _OUTPUT_TYPES.items()}
CLIENT_OUTPUT_ITEMS = frozenset(_ASKING_TYPES)


def client_item(block: ToolCallBlock) -> Json | None:
    """Return the provider's item that a call carries; None for the call of a function."""
    raw = block.metadata.get(CLIENT_ITEM)
    return raw if isinstance(raw, dict) and is_client_item(raw) and client_call_id(raw) else None


def stored_item(block: ToolResponseBlock) -> Json | None:
    """Return what is known of the item that a result answers, if the provider stores it; None for that of a function.

    A result that was read has its own item, which names the item that asked.
    """
    raw = block.metadata.get(CLIENT_ITEM)
    if not isinstance(raw, dict):
        return None
    asking = _ASKING_TYPES.get(item_type(raw))
    if asking is not None:
        raw = {"type": asking, "call_id": output_call_id(raw), "execution": "client"}
    return raw if is_client_item(raw) and client_call_id(raw) else None


def output_item(item: Json, block: ToolResponseBlock) -> Json | None:
    """Return the item with the result of the item that asked for it; None if the API has no form for this result.

    A result may already have the API's form: an object with the ``type`` of the output item.
    """
    kind = _OUTPUT_TYPES[item_type(item)]
    for own in (block.metadata.get(CLIENT_ITEM), block.result):
        if isinstance(own, dict) and own.get("type") == kind:
            return {**own, **_reference(item, kind)}
    is_failed = block.error is not None or block.status not in (None, "completed")
    text = block.error or text_or_json(block.result) or (f"Not done: {block.status}." if is_failed else "")
    fields = _output_fields(kind, item, block, text, is_failed=is_failed)
    if fields is None:
        return None
    caller = {"caller": item["caller"]} if item.get("caller") and kind in _WITH_CALLER else {}
    return {"type": kind, **_reference(item, kind), **fields, **caller}


_WITH_CALLER = ("apply_patch_call_output", "shell_call_output")


def _reference(item: Json, kind: str) -> Json:
    """Return the fields by which a result names the item that asked."""
    call_id = client_call_id(item)
    if kind == "mcp_approval_response":
        return {"approval_request_id": call_id}
    if kind == "tool_search_output" and not as_text(item.get("call_id")):
        return {"call_id": None}
    # The SDK's LocalShellCallOutput: "The unique ID of the local shell tool call generated by the model".
    return {"id" if kind == "local_shell_call_output" else "call_id": call_id}


def _output_fields(kind: str, item: Json, block: ToolResponseBlock, text: str, *, is_failed: bool) -> Json | None:
    value = block.result
    if kind == "apply_patch_call_output":
        return {"status": "failed" if is_failed else "completed", "output": text}
    if kind == "local_shell_call_output":
        return {"output": text}
    if kind == "shell_call_output":
        entries = value.get("output") if isinstance(value, dict) else value
        if not is_failed and isinstance(entries, list):
            if all(isinstance(entry, dict) and {"stdout", "stderr", "outcome"} <= entry.keys() for entry in entries):
                return {"output": entries}
        stdout, stderr = ("", text) if is_failed else (text, "")
        outcome = {"type": "exit", "exit_code": int(is_failed)}
        return {"output": [{"stdout": stdout, "stderr": stderr, "outcome": outcome}]}
    if kind == "mcp_approval_response":
        # Only True or {"approve": True} approves: anything else is no consent.
        approve = value.get("approve") if isinstance(value, dict) else value
        reason = value.get("reason") if isinstance(value, dict) else text if is_failed else None
        decision: Json = {"approve": approve is True and not is_failed}
        return {**decision, "reason": reason} if isinstance(reason, str) and reason else decision
    if kind == "tool_search_output":
        tools = value.get("tools") if isinstance(value, dict) else value
        is_list = not is_failed and isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
        return {"execution": "client", "status": "completed", "tools": tools if is_list else []}
    address = None if is_failed else _screenshot(block)
    if address is None:
        return None
    checks = item.get("pending_safety_checks")
    acknowledged = value.get("acknowledged_safety_checks") if isinstance(value, dict) else None
    fields: Json = {"output": {"type": "computer_screenshot", "image_url": address}}
    if isinstance(checks, list) and checks and acknowledged is not None:
        fields["acknowledged_safety_checks"] = acknowledged
    return fields


def _screenshot(block: ToolResponseBlock) -> str | None:
    """Return the address of the image in a result; None if it has none."""
    value = block.result
    if isinstance(value, dict) and isinstance(value.get("image_url"), str):
        return str(value["image_url"])
    if isinstance(value, str) and is_image_source(value):
        return value
    for part in media_parts(block) or ():
        if isinstance(part, ImageBlock) and is_image_source(part.data):
            return part.data
        if isinstance(part, FileBlock) and part.data and (part.media_type or "").startswith("image/"):
            return normalize_data_url(part.data) or f"data:{part.media_type};base64,{part.data}"
    return None


# ---------------------------------------------------------------- items of a conversation that people already have


def output_call_id(item: Json) -> str | None:
    """Return the id of the call whose result an item is."""
    if item_type(item) == "mcp_approval_response":
        return as_text(item.get("approval_request_id"))
    return as_text(item.get("call_id")) or as_text(item.get("id"))


def parse_output(item: Json) -> Any:
    """Return the result in an item, as data."""
    kind = item_type(item)
    if kind == "mcp_approval_response":
        return {name: item[name] for name in ("approve", "reason") if item.get(name) is not None}
    if kind == "tool_search_output":
        return item.get("tools")
    output = item.get("output")
    if kind == "computer_call_output" and isinstance(output, dict):
        address = output.get("image_url")
        return [{"type": "image", "data": address}] if isinstance(address, str) else output
    return item.get("status") if output is None else output
