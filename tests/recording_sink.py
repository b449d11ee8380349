"""A sink that records what a parser reports to it, without a turn."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from streamkit.calls import FinishReason, StreamError, Usage
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase

__all__ = ["RecordingSink"]


class RecordingSink:
    """A sink whose only choice is itself.

    Attributes:
        reported: A tuple for each call, with the method's name first; ``start`` and ``arguments`` for ``tool``.
        errors: The errors, in order.
        usage_reports: The reports of usage, in order.
    """

    def __init__(self) -> None:
        self.reported: list[tuple[Any, ...]] = []
        self.errors: list[StreamError] = []
        self.usage_reports: list[Usage] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordingSink) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def choice(self, index: int) -> RecordingSink:
        assert index == 0
        return self

    def text(self, text: str, key: Hashable = None) -> None:
        self.reported.append(("text", text, key))

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        assert kind == "text"
        self.reported.append(("reasoning", text, key))

    def refusal(self, text: str) -> None:
        self.reported.append(("refusal", text))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self.reported.append(("add_metadata", dict(metadata), key))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        if chunk.type == "start":
            self.reported.append(("start", chunk.id, chunk.name, chunk.key, chunk.metadata))
        else:
            self.reported.append(("arguments", chunk.arguments_delta, chunk.key))

    def end_block(self, key: Hashable) -> None:
        self.reported.append(("end_block", key))

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        self.reported.append(("replace_arguments", key, arguments_text))

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        self.reported.append(("server_tool", id, name, phase, data, raw))

    def citation(self, data: Any) -> None:
        self.reported.append(("citation", data))

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        self.reported.append(("file", media_type, data, url, raw))

    def provider_block(self, raw: Any) -> None:
        self.reported.append(("provider_block", raw))

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        self.reported.append(("finish", raw, reason))

    def identify(self, response_id: str | None, model: str | None) -> None:
        self.reported.append(("identify", response_id, model))

    def usage(self, usage: Usage) -> None:
        self.usage_reports.append(usage)

    def terminate(self) -> None:
        self.reported.append(("terminate",))

    def heartbeat(self) -> None:
        self.reported.append(("heartbeat",))

    def fail(self, error: StreamError) -> None:
        self.errors.append(error)

    def warn(self, code: str, message: str) -> None:
        self.reported.append(("warn", code))

    def unknown(self, raw: Any) -> None:
        self.reported.append(("unknown", raw))
