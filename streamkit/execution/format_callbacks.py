"""The callbacks of callers who have a message format of their own. Pure.

Each returns one message, or a list of them, for calls or results; ``thread_update`` decides when each is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from streamkit.calls import ToolCall, ToolResult

__all__ = ["FormatCallbacks", "Messages"]

#: What a format callback returns: one message, or a list of them.
Messages: TypeAlias = dict[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FormatCallbacks:
    """The caller's functions that write messages; each replaces the provider's and returns one message or a list.

    Attributes:
        call: ``format_tool_call_for_thread(call, arguments)``: the assistant message of one call.
        result: ``format_tool_result_for_thread(result, call, arguments)``: the message of one ``ToolResult``.
        batch: ``format_batch_for_thread(completed)``: all messages of a list of ``ToolResult``.
    """

    call: Callable[[ToolCall, Any], Messages] | None = None
    result: Callable[[ToolResult, ToolCall, Any], Messages] | None = None
    batch: Callable[[list[ToolResult]], Messages] | None = None

    @property
    def is_complete(self) -> bool:
        """The callbacks write all messages, so that no provider is needed."""
        return self.batch is not None or (self.call is not None and self.result is not None)

    def call_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return the assistant messages of the results' calls. There must be a callback ``call``."""
        assert self.call is not None  # noqa: S101 - the caller has checked
        return [m for r in results for m in _to_list(self.call(r.call, _arguments(r)))]

    def result_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return the messages of the results. There must be a callback ``result``."""
        assert self.result is not None  # noqa: S101 - the caller has checked
        return [m for r in results for m in _to_list(self.result(r, r.call, _arguments(r)))]

    def batch_messages(self, results: list[ToolResult]) -> list[dict[str, Any]]:
        """Return all messages of the results. There must be a callback ``batch``."""
        assert self.batch is not None  # noqa: S101 - the caller has checked
        return _to_list(self.batch(results))


def _arguments(result: ToolResult) -> Any:
    """Return the arguments that ran."""
    arguments = result.metadata.get("approved_arguments", result.call.arguments)
    return {} if arguments is None else arguments


def _to_list(messages: Messages) -> list[dict[str, Any]]:
    """Return what a callback has returned as a list."""
    return [messages] if isinstance(messages, dict) else list(messages)
