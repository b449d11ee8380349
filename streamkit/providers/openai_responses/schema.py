"""Wire types of the Responses API: the events that api.openai.com streams from ``/v1/responses``.

Wire: https://platform.openai.com/docs/api-reference/responses-streaming and the types of the official Python SDK 3.52.

A response is a list of items (a message, reasoning, a call). Each event names itself in ``type``, and everything is
sent more than once::

    response.created / queued / in_progress     {response: {id, model, output: [], ...}}
    response.output_item.added                  {output_index, item}                  the new item, mostly empty
    response.<what>.delta                       {item_id, output_index, content_index | summary_index, delta}
    response.<what>.done                        the same with the complete text       a snapshot, authoritative
    response.output_item.done                   {output_index, item}                  a snapshot of the item
    response.completed / incomplete / failed    {response: {output: [...], usage}}    a snapshot of all; the end
    error, keepalive                            between any two of them

The deltas are the most frequent events and the only structs. The others come a handful of times in a turn, and their
items must be kept complete to be sent back, so they are read as plain data. Leaves are ``Any`` and ``type`` a plain
string: other servers leave out ``item_id`` (or send another one with every event), ``output_index`` and
``content_index``.

This module must not depend on sinks, history or requests.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

__all__ = [
    "CALL_ARGUMENT_FIELDS",
    "CLIENT_ITEM_FIELDS",
    "DECODER",
    "END_STATUSES",
    "KNOWN_DELTA_FIELDS",
    "KNOWN_RESPONSE_FIELDS",
    "LENIENT_DECODER",
    "MESSAGE_PHASES",
    "OWN_RESPONSE_FIELDS",
    "PROGRESS_EVENTS",
    "SERVER_DELTA_EVENTS",
    "SERVER_RESULT_ITEMS",
    "SERVER_TOOL_ITEMS",
    "TEXT_DELTA_EVENTS",
    "TEXT_DONE_EVENTS",
    "TOOLS_ITEM",
    "DeltaEvent",
    "Json",
    "PartKind",
    "PlainDeltaEvent",
    "ResponseStreamEvent",
]

Json: TypeAlias = dict[str, Any]

#: The kind of text that a part of an item contains.
PartKind: TypeAlias = Literal["text", "refusal", "summary", "reasoning"]

#: What a message says of itself: it comments on the work, or it is the answer.
MESSAGE_PHASES = ("commentary", "final_answer")

#: The events with a text delta of a part. The shorter names of reasoning are those of an earlier reference
#: (https://community.openai.com/t/two-different-responses-events-for-reasoning-summary/1285333).
TEXT_DELTA_EVENTS: dict[str, PartKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary.delta": "summary",
    "response.reasoning.delta": "reasoning",
}

#: The events with the complete text of a part, and the field that contains it.
TEXT_DONE_EVENTS: dict[str, tuple[PartKind, str]] = {
    "response.output_text.done": ("text", "text"),
    "response.refusal.done": ("refusal", "refusal"),
    "response.reasoning_summary_text.done": ("summary", "text"),
    "response.reasoning_text.done": ("reasoning", "text"),
    "response.reasoning_summary.done": ("summary", "text"),
    "response.reasoning.done": ("reasoning", "text"),
}

#: The items that are calls of the client's tools, and the field of each with its arguments.
CALL_ARGUMENT_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}

#: The item of the input that defines further tools; it has the role ``developer``.
TOOLS_ITEM = "additional_tools"

#: The items of server tools: the tool's name, and the fields with its arguments and its result. ``mcp_call`` contains
#: the name of the tool that was called. Without a field for the result, the item's status is the result.
SERVER_TOOL_ITEMS: dict[str, tuple[str, str, str]] = {
    "web_search_call": ("web_search", "action", ""),
    "file_search_call": ("file_search", "queries", "results"),
    "code_interpreter_call": ("code_interpreter", "code", "outputs"),
    "image_generation_call": ("image_generation", "revised_prompt", ""),
    "mcp_call": ("", "arguments", "output"),
    "mcp_list_tools": ("mcp_list_tools", "server_label", "tools"),
    "tool_search_call": ("tool_search", "arguments", ""),
    "shell_call": ("shell", "action", ""),
    "program": ("program", "code", ""),
}

#: The items that contain the result of another item: the tool's name, and the field with the result.
SERVER_RESULT_ITEMS: dict[str, tuple[str, str]] = {
    "tool_search_output": ("tool_search", "tools"),
    "shell_call_output": ("shell", "output"),
    "program_output": ("program", "result"),
}

#: The items that ask the client itself for an action, and the field of each with what is to be done. They are calls.
CLIENT_ITEM_FIELDS = {
    "apply_patch_call": "operation",
    "computer_call": "action",
    "local_shell_call": "action",
    "mcp_approval_request": "arguments",
    "shell_call": "action",  # unless it runs in the provider's own container
    "tool_search_call": "arguments",  # if its ``execution`` is the client's
}

#: The events that report the progress of a server tool, or repeat what its deltas contained.
PROGRESS_EVENTS = frozenset(
    f"response.{name}"
    for name in (
        "apply_patch_call_operation_diff.done",
        "code_interpreter_call.completed",
        "code_interpreter_call.in_progress",
        "code_interpreter_call.interpreting",
        "compaction.compacting",
        "file_search_call.completed",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "image_generation_call.completed",
        "image_generation_call.generating",
        "image_generation_call.in_progress",
        "mcp_call.completed",
        "mcp_call.failed",
        "mcp_call.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "mcp_list_tools.in_progress",
        "shell_call_command.added",
        "shell_call_command.done",
        "shell_call_output_content.done",
        "web_search_call.completed",
        "web_search_call.in_progress",
        "web_search_call.searching",
    )
)

#: The events with a text delta of a server tool's arguments, and the types of the items that they belong to.
SERVER_DELTA_EVENTS = {
    "response.code_interpreter_call_code.delta": ("code_interpreter_call",),
    "response.mcp_call_arguments.delta": ("mcp_call",),
    "response.shell_call_command.delta": ("shell_call",),
}

#: The events that end a response, and the status that each implies if the response has none.
END_STATUSES = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",  # the name of the first previews and of the Realtime API
}

#: The fields of a response that are read, repeat the request, or mean nothing to a reader. All others are facts about
#: the response (``service_tier``, Azure's ``content_filters``), which a turn keeps.
KNOWN_RESPONSE_FIELDS = frozenset(
    {
        "background",
        "created_at",
        "error",
        "frequency_penalty",
        "id",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "object",
        "output",
        "output_text",
        "parallel_tool_calls",
        "presence_penalty",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "status",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "type",
        "usage",
        "user",
    }
)
#: The fields of a response that its events and their writer have; all others are facts of its start.
OWN_RESPONSE_FIELDS = frozenset(
    {"error", "id", "incomplete_details", "model", "object", "output", "output_text", "status", "type", "usage"}
)


class PlainDeltaEvent(Struct, gc=False, forbid_unknown_fields=True):
    """A delta without unknown fields; decoding any other event fails early, and it is read as plain data.

    The fields are in the order in which OpenAI sends them: the decoder looks for each one behind the last.
    """

    type: str = ""
    sequence_number: Any = None
    item_id: Any = None
    output_index: Any = None
    summary_index: Any = None
    content_index: Any = None
    delta: Any = None
    logprobs: list[Any] | None = None
    obfuscation: Any = None
    command_index: Any = None
    stream_id: Any = None  # of a WebSocket with several responses at once
    agent: Any = None  # its item has it, too
    model: Any = None  # LiteLLM's proxy: in every event, as the client named it


class DeltaEvent(Struct, gc=False):
    """The fields of any event that are read of a delta."""

    type: str = ""
    item_id: Any = None
    output_index: Any = None
    content_index: Any = None
    summary_index: Any = None
    delta: Any = None


ResponseStreamEvent: TypeAlias = PlainDeltaEvent | DeltaEvent

#: The fields of delta events that are read, or that mean nothing to a reader. The last two are rare.
KNOWN_DELTA_FIELDS = frozenset({*PlainDeltaEvent.__struct_fields__, "event_id", "response_id"})

DECODER = msgspec.json.Decoder(PlainDeltaEvent)
LENIENT_DECODER = msgspec.json.Decoder(DeltaEvent)
