"""Results that a model can get: with a value that JSON can represent, and an error of limited length. Pure.

The rules are in ``docs/rules.md``, "Results". This module must not depend on how a tool is run.
"""

from __future__ import annotations

import msgspec

from streamkit.calls import ToolResult
from streamkit.history.tool_results import ERROR_LIMIT, describe_unwritable, limit_text

__all__ = ["to_sendable_result"]


def to_sendable_result(result: ToolResult) -> ToolResult:
    """Return a result unchanged, or an error if its value cannot be written as JSON; a long error is shortened."""
    call = result.call
    unwritable = describe_unwritable(result.value) if result.status == "completed" else None
    if unwritable is not None:
        return ToolResult(
            call,
            "error",
            error=f"{call.name} ran, but it returned {unwritable}, which cannot be written as JSON. Its result is lost;"
            " its effects, if any, are not. Do not repeat the call.",
            metadata=result.metadata,
            exception=TypeError(
                f"{call.name} returned {unwritable}; return text, data, bytes, a dataclass, a pydantic model or a block"
            ),
        )
    if result.error is not None and len(result.error) > ERROR_LIMIT:
        return msgspec.structs.replace(result, error=limit_text(result.error, ERROR_LIMIT))
    return result
