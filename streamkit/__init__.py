"""streamkit: streaming tool calls from any LLM provider.

The public names. Bytes become events and calls (``Turn``, ``read``); calls are run and their results written back
(``execute_tool_calls_batched``, ``run_loop``); history is rendered for the next request (``render_request``).

What most programs use is importable from here. The rest is public in its module: ``calls``, ``errors``, ``events``,
``ids``, ``reading``, ``history``, ``tools``, ``output``, ``providers``, ``execution``, ``testing``, ``gateway``, and
each of ``bridges`` (docs/architecture.md, "Public modules"). Importing the package loads the events and values; all
other names load on first use, so reading a stream loads neither pydantic nor anyio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamkit import events
from streamkit.calls import Finish, StreamError, StreamWarning, ToolCall, ToolResult, Usage
from streamkit.errors import (
    InvalidOutput,
    StreamInterrupted,
    StreamkitError,
    ToolFailed,
    UnsupportedContent,
    UsageError,
)
from streamkit.events import Event, NormalizedToolChunk
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.accumulator import Accumulator, Limits, process_tool_call_chunk
    from streamkit.execution import (
        Budget,
        Notifier,
        Retries,
        RoundContext,
        Run,
        RunState,
        Schedule,
        SharedAccumulator,
        Target,
        ThreadUpdate,
        Timeouts,
        TurnOptions,
        execute_one_tool,
        execute_tool_calls_batched,
        execute_tool_calls_sequentially,
        finalize_tool_execution,
        read,
        run_loop,
    )
    from streamkit.history import (
        Content,
        FileBlock,
        ImageBlock,
        ReasoningBlock,
        TextBlock,
        ToolCallBlock,
        ToolResponseBlock,
    )
    from streamkit.output import Growing
    from streamkit.providers import (
        Provider,
        Traits,
        detect,
        parse_messages,
        parse_request,
        render,
        render_request,
        writer,
    )
    from streamkit.providers.requests.request import OutputFormat, Request, Settings
    from streamkit.reading import Turn
    from streamkit.tools import Approval, Tool, ToolContext, ToolDefinition, ToolSet, tool

    __version__: str

__all__ = [  # noqa: RUF022 - in the order in which a program uses them
    # reading a stream
    "Turn",
    "Limits",
    "read",
    "detect",
    "Event",
    "events",
    "ToolCall",
    "Usage",
    "Finish",
    "StreamError",
    "StreamWarning",
    # structured output
    "Growing",
    # a parser of one's own
    "NormalizedToolChunk",
    "process_tool_call_chunk",
    "Accumulator",
    "Provider",
    "Traits",
    # writing a stream
    "writer",
    # running tools
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
    "Schedule",
    "SharedAccumulator",
    "Notifier",
    # runs of several rounds
    "run_loop",
    "Run",
    "RunState",
    "RoundContext",
    "Target",
    "Timeouts",
    "Retries",
    "Budget",
    "TurnOptions",
    # history
    "Content",
    "TextBlock",
    "ImageBlock",
    "FileBlock",
    "ReasoningBlock",
    "ToolCallBlock",
    "ToolResponseBlock",
    "render",
    "render_request",
    "parse_messages",
    "parse_request",
    "Request",
    "Settings",
    "OutputFormat",
    "ToolDefinition",
    # errors
    "StreamkitError",
    "UsageError",
    "UnsupportedContent",
    "StreamInterrupted",
    "InvalidOutput",
    "ToolFailed",
    "__version__",
]

_load, __dir__ = lazy_names(
    __name__,
    {
        "reading.turn": "Turn",
        "reading.time_limits": "Timeouts",
        "reading.stream_reader": "read",
        "accumulator": "Accumulator Limits process_tool_call_chunk",
        "providers": "Provider Traits detect parse_messages parse_request render render_request writer",
        "providers.requests.request": "OutputFormat Request Settings",
        "execution": (
            "Budget Notifier Retries RoundContext Run RunState Schedule SharedAccumulator Target ThreadUpdate "
            "TurnOptions execute_one_tool execute_tool_calls_batched execute_tool_calls_sequentially "
            "finalize_tool_execution run_loop"
        ),
        "history": "Content FileBlock ImageBlock ReasoningBlock TextBlock ToolCallBlock ToolResponseBlock",
        "output": "Growing",
        "tools": "Approval Tool ToolContext ToolDefinition ToolSet tool",
    },
)


def __getattr__(name: str) -> Any:
    if name == "providers":
        return import_module("streamkit.providers")
    if name != "__version__":
        return _load(name)
    value = globals()[name] = _read_version()
    return value


def _decode_update(data: Any) -> ThreadUpdate:
    from streamkit.execution.round.thread_update import decode_thread_update

    return decode_thread_update(data)


def _read_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # rarely needed, and slow to import

    from streamkit.values.distribution import DISTRIBUTION

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"


events.set_update_decoder(_decode_update)
