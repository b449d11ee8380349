"""streamkit: streaming tool calls from any LLM provider.

The public names. Bytes become events and calls (``Turn``, ``read``); calls are run and their results written back
(``execute_tool_calls_batched``, ``run_loop``); history is rendered for the next request (``render_request``).

Every class that a user holds, and every type that a public function returns, is importable from here; events are in
``streamkit.events``. Importing the package loads the events and values; all other names load on first use, so reading
a stream loads neither pydantic nor anyio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit import events
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
    InvalidOutput,
    StreamInterrupted,
    StreamkitError,
    StreamkitWarning,
    ToolFailed,
    UnknownProvider,
    UnsupportedContent,
    UsageError,
)
from streamkit.events import Event, NormalizedToolChunk

if TYPE_CHECKING:
    from streamkit.accumulator import Accumulator, Limits, process_tool_call_chunk
    from streamkit.accumulator.limits import WireTraits
    from streamkit.execution import (
        ApprovalEntry,
        EndedStream,
        Execution,
        Notifier,
        QueuedCall,
        RequestEntry,
        ResponseEntry,
        ResultEntry,
        Round,
        RoundContext,
        Run,
        RunEntry,
        RunState,
        Schedule,
        SharedAccumulator,
        Target,
        ThreadUpdate,
        ToolNotification,
        execute_one_tool,
        execute_tool_calls_batched,
        execute_tool_calls_sequentially,
        finalize_tool_execution,
        parse_entry,
        run_loop,
    )
    from streamkit.execution.durable.recorder import Checkpoint
    from streamkit.execution.one_call.attempt import AroundCall
    from streamkit.execution.one_call.prepare import Approve
    from streamkit.execution.round.context import CreateStream
    from streamkit.history import (
        Block,
        CacheMark,
        Content,
        FileBlock,
        ImageBlock,
        OpaqueBlock,
        ReasoningBlock,
        ServerToolBlock,
        TextBlock,
        ToolCallBlock,
        ToolResponseBlock,
        UnknownBlock,
        convert_to_vercel_messages,
    )
    from streamkit.json_text import Change
    from streamkit.output import Growing
    from streamkit.providers import detect, parse_messages, parse_request, render, render_request
    from streamkit.providers.contract.traits import ModelFacts
    from streamkit.providers.provider import Provider, ToolChoice, Traits
    from streamkit.providers.registry import writer
    from streamkit.providers.requests.request import OutputFormat, Request, Settings
    from streamkit.providers.writing.writer import Writer
    from streamkit.reading.choice_view import ChoiceView
    from streamkit.reading.stream_reader import StreamReader, read
    from streamkit.reading.turn import Turn
    from streamkit.tools import Approval, Grammar, HostedTool, Tool, ToolContext, ToolDefinition, ToolSet, tool

    __version__: str

__all__ = [  # noqa: RUF022 - in the order in which a program uses them
    # reading a stream
    "Turn",
    "ChoiceView",
    "Limits",
    "read",
    "StreamReader",
    "detect",
    "Event",
    "events",
    "ToolCall",
    "CallRef",
    "ServerCall",
    "Usage",
    "Finish",
    "StreamError",
    "StreamWarning",
    # structured output
    "Growing",
    "Change",
    # a parser of one's own
    "NormalizedToolChunk",
    "process_tool_call_chunk",
    "Accumulator",
    "WireTraits",
    "Provider",
    "Traits",
    "ModelFacts",
    # writing a stream
    "writer",
    "Writer",
    # running tools
    "Tool",
    "tool",
    "ToolContext",
    "ToolSet",
    "ToolChoice",
    "Approval",
    "Approve",
    "AroundCall",
    "ToolResult",
    "ThreadUpdate",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "Execution",
    "Round",
    "Schedule",
    "execute_one_tool",
    "finalize_tool_execution",
    "SharedAccumulator",
    "QueuedCall",
    "EndedStream",
    "Notifier",
    "ToolNotification",
    # runs of several rounds
    "run_loop",
    "Run",
    "RunState",
    "RunEntry",
    "RequestEntry",
    "ResponseEntry",
    "ApprovalEntry",
    "ResultEntry",
    "parse_entry",
    "Checkpoint",
    "RoundContext",
    "Target",
    "CreateStream",
    # history
    "Content",
    "Block",
    "CacheMark",
    "TextBlock",
    "ImageBlock",
    "FileBlock",
    "ReasoningBlock",
    "ToolCallBlock",
    "ToolResponseBlock",
    "ServerToolBlock",
    "OpaqueBlock",
    "UnknownBlock",
    "render",
    "render_request",
    "parse_messages",
    "parse_request",
    "Request",
    "Settings",
    "OutputFormat",
    "ToolDefinition",
    "HostedTool",
    "Grammar",
    "convert_to_vercel_messages",
    # errors
    "StreamkitError",
    "StreamkitWarning",
    "UsageError",
    "UnknownProvider",
    "UnsupportedContent",
    "StreamInterrupted",
    "InvalidOutput",
    "ToolFailed",
    "__version__",
]

_LAZY_IMPORTS = {
    "streamkit.reading.turn": ("Turn",),
    "streamkit.reading.choice_view": ("ChoiceView",),
    "streamkit.accumulator": ("Accumulator", "Limits", "process_tool_call_chunk"),
    "streamkit.json_text": ("Change",),
    "streamkit.accumulator.limits": ("WireTraits",),
    "streamkit.providers": ("detect", "parse_messages", "parse_request", "render", "render_request"),
    "streamkit.providers.contract.traits": ("ModelFacts",),
    "streamkit.providers.provider": ("Provider", "ToolChoice", "Traits"),
    "streamkit.providers.writing.writer": ("Writer",),
    "streamkit.providers.registry": ("writer",),  # not from the package, of which a module has the same name
    "streamkit.reading.stream_reader": ("StreamReader", "read"),
    "streamkit.execution": (
        "ApprovalEntry",
        "EndedStream",
        "Execution",
        "Notifier",
        "QueuedCall",
        "RequestEntry",
        "ResponseEntry",
        "ResultEntry",
        "Round",
        "RoundContext",
        "Run",
        "RunEntry",
        "RunState",
        "Schedule",
        "SharedAccumulator",
        "Target",
        "ThreadUpdate",
        "ToolNotification",
        "execute_one_tool",
        "execute_tool_calls_batched",
        "execute_tool_calls_sequentially",
        "finalize_tool_execution",
        "parse_entry",
        "run_loop",
    ),
    "streamkit.execution.round.context": ("CreateStream",),
    "streamkit.execution.one_call.attempt": ("AroundCall",),
    "streamkit.execution.one_call.prepare": ("Approve",),
    "streamkit.execution.durable.recorder": ("Checkpoint",),
    "streamkit.history": (
        "Block",
        "CacheMark",
        "Content",
        "FileBlock",
        "ImageBlock",
        "OpaqueBlock",
        "ReasoningBlock",
        "ServerToolBlock",
        "TextBlock",
        "ToolCallBlock",
        "ToolResponseBlock",
        "UnknownBlock",
        "convert_to_vercel_messages",
    ),
    "streamkit.output": ("Growing",),
    "streamkit.providers.requests.request": ("OutputFormat", "Request", "Settings"),
    "streamkit.tools": (
        "Approval",
        "Grammar",
        "HostedTool",
        "Tool",
        "ToolContext",
        "ToolDefinition",
        "ToolSet",
        "tool",
    ),
}
_MODULE_OF = {name: module for module, names in _LAZY_IMPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _read_version()
    elif (module := _MODULE_OF.get(name)) is not None:
        value = getattr(import_module(module), name)
    elif name == "providers":
        return import_module("streamkit.providers")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


def _decode_update(data: Any) -> ThreadUpdate:
    from streamkit.execution.round.thread_update import decode_thread_update

    return decode_thread_update(data)


def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # rarely needed, and slow to import

    try:
        return version("streamkit")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"


events.set_update_decoder(_decode_update)
