"""What a tool is. Calling one is execution's: here nothing runs, and no event loop, thread or provider is known."""

from __future__ import annotations

from streamkit.tools.context import Approval, ToolContext
from streamkit.tools.function import FunctionKind
from streamkit.tools.schema import InvalidArguments
from streamkit.tools.strict import StrictProfile, strict_parameters
from streamkit.tools.tool import ApprovalPolicy, Describe, Tool, ToolOptions, ToolState, to_tools, tool
from streamkit.tools.toolset import ToolSet

__all__ = [
    "Approval",
    "ApprovalPolicy",
    "InvalidArguments",
    "Describe",
    "FunctionKind",
    "StrictProfile",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "ToolSet",
    "ToolState",
    "to_tools",
    "strict_parameters",
    "tool",
]
