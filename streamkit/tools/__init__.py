"""Tools: their definition, schemas, options and sets.

Execution calls them: here nothing runs, and nothing depends on an event loop, a thread or a provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.tools.context import Approval, ToolContext
from streamkit.tools.custom import Grammar
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition, to_definitions
from streamkit.tools.function import FunctionKind, InvalidArguments
from streamkit.tools.tool import ApprovalPolicy, Describe, Tool, ToolOptions, ToolState, tool
from streamkit.tools.toolset import AnyTool, ToolSet, to_tools
from streamkit.values.lazy_names import lazy_names
from streamkit.values.schemas import StrictProfile

if TYPE_CHECKING:
    from streamkit.tools.strict_schema import strict_parameters

__all__ = [
    "AnyTool",
    "Approval",
    "ApprovalPolicy",
    "Describe",
    "FunctionKind",
    "Grammar",
    "HostedTool",
    "InvalidArguments",
    "OfferedTool",
    "StrictProfile",
    "Tool",
    "ToolContext",
    "ToolDefinition",
    "ToolOptions",
    "ToolSet",
    "ToolState",
    "strict_parameters",
    "to_definitions",
    "to_tools",
    "tool",
]

__getattr__, __dir__ = lazy_names(__name__, {"strict_schema": ("strict_parameters",)})  # few tools are strict
