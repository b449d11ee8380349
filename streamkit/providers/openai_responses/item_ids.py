"""Ids of the API's items: the prefix that each type requires, and the types that are refused without an id.

``Invalid 'input[1].id': 'abc'. Expected an ID that begins with 'fc'.`` (nodetool-ai/nodetool#4252, openai/codex#33176,
mastra-ai/mastra#10815); ``Missing required parameter: 'input[25].id'`` for a search (openai/codex#6741). Which types
require an id is declared in the SDK's types of input items. This module depends on nothing but the items.
"""

from __future__ import annotations

from streamkit.providers.openai_responses.output_items import item_type
from streamkit.providers.openai_responses.schema import Json

__all__ = ["has_required_id", "without_foreign_id"]

_PREFIXES = {
    "apply_patch_call": "apc",
    "code_interpreter_call": "ci",
    "computer_call": "cu",
    "custom_tool_call": "ctc",
    "file_search_call": "fs",
    "function_call": "fc",
    "image_generation_call": "ig",
    "mcp_approval_request": "mcpr",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "message": "msg",
    "reasoning": "rs",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
}
_WITH_REQUIRED_ID = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "web_search_call",
    }
)


def has_required_id(item: Json) -> bool:
    """Return True if the API refuses an item of this type without an id."""
    return item_type(item) in _WITH_REQUIRED_ID


def without_foreign_id(item: Json) -> Json:
    """Return an item without its id if that has not the prefix of its type; else the item unchanged."""
    prefix, item_id = _PREFIXES.get(item_type(item)), item.get("id")
    if "id" not in item or (isinstance(item_id, str) and item_id.startswith(prefix or "")):
        return item
    return {name: value for name, value in item.items() if name != "id"}
