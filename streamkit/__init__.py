"""streamkit: streaming tool calls from any LLM provider.

The public names, in the order of the walk: bytes become events and calls (``Turn``, ``read``), calls are run and their
results written back (``execute_tool_calls_batched``, ``run_loop``), history is rendered for the next request.
What needs pydantic or anyio is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit import events
from streamkit.accumulator import Limits, process_tool_call_chunk
from streamkit.calls import (
    CallRef,
    Finish,
    ServerCall,
    StreamError,
    StreamWarning,
    ToolCall,
    ToolResult,
    Usage,
)
from streamkit.errors import (
    StreamInterrupted,
    StreamkitError,
    ToolFailed,
    UnknownProvider,
    UnsupportedContent,
    UsageError,
)
from streamkit.events import Event, NormalizedToolChunk
from streamkit.providers import detect, parse_messages, render, render_request
from streamkit.choice_view import ChoiceView
from streamkit.turn import Turn

if TYPE_CHECKING:
    from streamkit.execution import (
        Notifier,
        RoundContext,
        RunState,
        Schedule,
        SharedAccumulator,
        ThreadUpdate,
        ToolNotification,
        execute_one_tool,
        execute_tool_calls_batched,
        execute_tool_calls_sequentially,
        finalize_tool_execution,
        run_loop,
    )
    from streamkit.history import Content, convert_to_vercel_messages
    from streamkit.stream_reader import read
    from streamkit.tools import Approval, Tool, ToolContext, ToolSet, tool

__all__ = [  # noqa: RUF022 - in the order of the walk
    "Turn",
    "ChoiceView",
    "Limits",
    "read",
    "detect",
    "Event",
    "events",
    "NormalizedToolChunk",
    "process_tool_call_chunk",
    "ToolCall",
    "CallRef",
    "ServerCall",
    "Usage",
    "Finish",
    "StreamError",
    "StreamWarning",
    "Tool",
    "tool",
    "ToolContext",
    "ToolSet",
    "Approval",
    "ToolResult",
    "ThreadUpdate",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "execute_one_tool",
    "finalize_tool_execution",
    "run_loop",
    "RoundContext",
    "RunState",
    "Schedule",
    "SharedAccumulator",
    "Notifier",
    "ToolNotification",
    "Content",
    "render",
    "render_request",
    "parse_messages",
    "convert_to_vercel_messages",
    "StreamkitError",
    "UsageError",
    "UnknownProvider",
    "UnsupportedContent",
    "StreamInterrupted",
    "ToolFailed",
]

_LAZY_IMPORTS = {  # where the names are that bring pydantic or anyio with them
    "streamkit.stream_reader": ("read",),
    "streamkit.execution": (
        "Notifier",
        "RoundContext",
        "RunState",
        "Schedule",
        "SharedAccumulator",
        "ThreadUpdate",
        "ToolNotification",
        "execute_one_tool",
        "execute_tool_calls_batched",
        "execute_tool_calls_sequentially",
        "finalize_tool_execution",
        "run_loop",
    ),
    "streamkit.history": ("Content", "convert_to_vercel_messages"),
    "streamkit.tools": ("Approval", "Tool", "ToolContext", "ToolSet", "tool"),
}
_MODULE_OF = {name: room for room, found in _LAZY_IMPORTS.items() for name in found}


def __getattr__(name: str) -> Any:
    room = _MODULE_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(room), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
