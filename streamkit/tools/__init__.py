"""Tools: their definition, schemas, options and sets.

Execution calls them: here nothing runs, and nothing depends on an event loop, a thread or a provider.
"""

from __future__ import annotations

from streamkit.tools.context import Approval, ToolContext
from streamkit.tools.function import FunctionKind
from streamkit.tools.schema import InvalidArguments
from streamkit.tools.strict_profile import StrictProfile
from streamkit.tools.tool import ApprovalPolicy, Describe, Tool, ToolOptions, ToolState, tool
from streamkit.tools.tool_list import AnyTool, strict_parameters, to_tools
from streamkit.tools.toolset import ToolSet

__all__ = [
    "AnyTool",
    "Approval",
    "ApprovalPolicy",
    "Describe",
    "FunctionKind",
    "InvalidArguments",
    "StrictProfile",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "ToolSet",
    "ToolState",
    "strict_parameters",
    "to_tools",
    "tool",
]
