"""What a tool is. Calling one is execution's: here nothing runs, and no event loop, thread or provider is known."""

from __future__ import annotations

from streamkit.tools.context import Approval, ToolContext
from streamkit.tools.definition import ApprovalPolicy, Describe, Tool, ToolOptions, ToolState, as_tools, tool
from streamkit.tools.function import FunctionKind
from streamkit.tools.signature import ArgumentsRejected
from streamkit.tools.strict import StrictRules, strict_parameters
from streamkit.tools.toolset import ToolSet

__all__ = [
    "Approval",
    "ApprovalPolicy",
    "ArgumentsRejected",
    "Describe",
    "FunctionKind",
    "StrictRules",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "ToolSet",
    "ToolState",
    "as_tools",
    "strict_parameters",
    "tool",
]
