"""A sink that records what a parser reports to it, without a turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from streamkit.calls import FinishReason, StreamError, Usage
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase

__all__ = ["RecordingSink", "call_delta", "call_start"]

Record = tuple[Any, ...]


def call_start(
    id: str | None,
    name: str | None,
    key: Hashable,
    *,
    metadata: Any = None,
    arguments: str | None = None,
    position: int | None = None,
) -> Record:
    """Return the record of the start of a call."""
    return ("tool", NormalizedToolChunk("start", id, name, arguments, key=key, position=position, metadata=metadata))


def call_delta(text: str | None, key: Hashable, *, id: str | None = None, name: str | None = None) -> Record:
    """Return the record of a delta of a call's arguments."""
    return ("tool", NormalizedToolChunk("delta", id, name, None, text, key))


class RecordingChoice:
    """A choice that appends to the records of its sink. All but choice 0 add ``#`` and their number to the names."""

    def __init__(self, records: list[Record], suffix: str = "") -> None:
        self._records, self._suffix = records, suffix

    def _record(self, name: str, *required: Any, optional: tuple[Any, ...] = ()) -> None:
        while optional and optional[-1] is None:
            optional = optional[:-1]
        self._records.append((name + self._suffix, *required, *optional))

    def text(self, text: str, key: Hashable = None) -> None:
        self._record("text", text, optional=(key,))

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        self._record("reasoning", text, kind, optional=(key,))

    def refusal(self, text: str, key: Hashable = None) -> None:
        self._record("refusal", text, optional=(key,))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        self._record("add_metadata", dict(metadata), optional=(key,))

    def tool(self, chunk: NormalizedToolChunk) -> None:
        self._record("tool", chunk)

    def arguments(self, text: str, key: Hashable) -> None:
        self.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))

    def has_block(self, kind: str) -> bool:
        names = {"call": "tool"}
        return any(name == names.get(kind, kind) + self._suffix for name, *_ in self._records)

    def end_block(self, key: Hashable) -> None:
        self._record("end_block", key)

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        self._record("replace_arguments", key, arguments_text)

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        self._record("server_tool", id, name, phase, optional=(data, raw))

    def server_tool_delta(self, id: str | None, name: str, arguments_delta: str) -> None:
        self._record("server_tool_delta", id, name, arguments_delta)

    def citation(self, data: Any, key: Hashable = None) -> None:
        self._record("citation", data, optional=(key,))

    def log_probabilities(self, tokens: Any, raw: Any) -> None:
        self._record("log_probabilities", raw)

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        self._record("file", media_type, optional=(data, url, raw, key))

    def compaction(self, raw: Any, summary: str | None) -> None:
        self._record("compaction", raw, summary)

    def provider_block(self, raw: Any) -> None:
        self._record("provider_block", raw)

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        self._record("finish", raw, reason)


class RecordingSink(RecordingChoice):
    """A sink that is its own choice 0.

    Attributes:
        recorded: Every call in order, as a tuple of the method's name and its arguments in declared order, without
            optional ones that are None at the end.
        kept: What the parser counted as kept.
        most_kept: The limit of that.
        model: The model of the turn.
    """

    model: str | None = None

    def __init__(self, *, most_kept: int = 1 << 60) -> None:
        self.kept, self.most_kept = 0, most_kept
        self.recorded: list[Record] = []
        super().__init__(self.recorded)
        self._choices: dict[int, RecordingChoice] = {0: self}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordingSink) and self.recorded == other.recorded

    __hash__ = None  # type: ignore[assignment]

    def select(self, *names: str) -> list[Record]:
        """Return the recorded calls of these methods."""
        return [entry for entry in self.recorded if entry[0] in names]

    @property
    def reported(self) -> list[Record]:
        """The recorded calls, except errors and usage; warnings without their messages."""
        shown = [entry for entry in self.recorded if entry[0] not in ("fail", "usage")]
        return [entry[:2] if entry[0] == "warn" else entry for entry in shown]

    @property
    def errors(self) -> list[StreamError]:
        """The errors, in order."""
        return [error for _, error in self.select("fail")]

    @property
    def usage_reports(self) -> list[Usage]:
        """The reports of usage, in order."""
        return [usage for _, usage in self.select("usage")]

    def choice(self, index: int) -> RecordingChoice:
        return self._choices.setdefault(index, RecordingChoice(self.recorded, f"#{index}"))

    def identify(self, response_id: str | None, model: str | None, facts: Any = None) -> None:
        self._record("identify", response_id, model)

    def add_response_metadata(self, metadata: Mapping[str, Any]) -> None:
        self._record("add_response_metadata", dict(metadata))

    def unknown_field(self, name: str, value: Any) -> None:
        self._record("unknown_field", name, value)

    def keep(self, size: int) -> bool:
        self.kept += size
        return self.kept <= self.most_kept

    def join_with(self, join: Callable[[], int]) -> None:
        pass

    def usage(self, usage: Usage) -> None:
        self._record("usage", usage)

    def terminate(self) -> None:
        self._record("terminate")

    def heartbeat(self) -> None:
        self._record("heartbeat")

    def fail(self, error: StreamError) -> None:
        self._record("fail", error)

    def warn(self, code: str, message: str) -> None:
        self._record("warn", code, message)

    def unknown(self, raw: Any) -> None:
        self._record("unknown", raw)
