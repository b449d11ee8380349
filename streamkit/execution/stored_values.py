"""The stored forms of calls, results and usage, as fields of pydantic models. Pure.

``state`` stores a paused run with them, ``entries`` each thing that happens. This module must not depend on rounds or
on storage.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema

from streamkit.calls import ResultStatus, ToolCall, ToolResult, Usage
from streamkit.history.tool_results import to_stored_result
from streamkit.json_text import replace_lone_surrogates

__all__ = ["StoredCall", "StoredResult", "StoredUsage"]


def _struct(kind: type[msgspec.Struct]) -> Any:
    """Return the annotations with which pydantic reads and writes a msgspec Struct."""
    return (
        PlainValidator(lambda value: value if isinstance(value, kind) else _convert(value, kind)),
        PlainSerializer(lambda value: replace_lone_surrogates(msgspec.to_builtins(value, enc_hook=str))),
        WithJsonSchema({"type": "object", "title": kind.__name__}),
    )


def _convert(value: Any, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from None


StoredCall: TypeAlias = Annotated[ToolCall, *_struct(ToolCall)]
StoredUsage: TypeAlias = Annotated[Usage, *_struct(Usage)]


class StoredResult(BaseModel):
    """A result without its call, as data.

    Attributes:
        call_id: the canonical id of the call.
        status: as in ``ToolResult``.
        value: what the tool returned, as JSON data.
        error: the sentence for the model.
        metadata: as in ``ToolResult``.
    """

    model_config = ConfigDict(extra="forbid")

    call_id: str
    status: ResultStatus
    value: Any = None
    error: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_result(cls, result: ToolResult) -> StoredResult:
        """Return a result as data."""
        return cls(
            call_id=result.call.id,
            status=result.status,
            value=replace_lone_surrogates(to_stored_result(result.value)),
            error=result.error,
            metadata=result.metadata,
        )

    def to_result(self, call: ToolCall) -> ToolResult:
        """Return the result of the call that has its id."""
        return ToolResult(call, self.status, self.value, self.error, self.metadata)
