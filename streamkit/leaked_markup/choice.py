"""A choice of a turn with leaked markup removed from its text, between the parser and the accumulator.

It has the interface of the accumulator's choice and passes everything to it, but text goes through the ``filter``.
Everything else on the wire (a call, reasoning, the end of a block) comes after all text before it, so buffered text is
finalized first. It does not depend on lexer or grammars.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from streamkit.accumulator.choice import Choice
from streamkit.calls import FinishReason
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase, TokenLogProbability
from streamkit.leaked_markup.filter import MarkupFilter
from streamkit.leaked_markup.reporter import MarkupReporter
from streamkit.leaked_markup.tool_names import NameCleaner

__all__ = ["MarkupChoice"]


class MarkupChoice:
    """An implementation of ``ChoiceSink`` that searches text for markup.

    Args:
        choice: the accumulator's choice.
        reporter: the warnings and limits of the turn.
    """

    def __init__(self, choice: Choice, reporter: MarkupReporter) -> None:
        self._choice = choice
        self._names = NameCleaner(reporter.warn_name_cleaned) if reporter.cleans_names else None
        self._filter = MarkupFilter(choice, reporter)
        self.text = self._filter.feed  # ``ChoiceSink.text``, without another call for each delta

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """Implement ``ChoiceSink.reasoning``."""
        self._filter.finalize()
        self._choice.reasoning(text, kind, key)

    def refusal(self, text: str) -> None:
        """Implement ``ChoiceSink.refusal``."""
        self._filter.finalize()
        self._choice.refusal(text)

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """Implement ``ChoiceSink.add_metadata``."""
        self._filter.finalize()
        self._choice.add_metadata(metadata, key)

    def tool(self, chunk: NormalizedToolChunk) -> None:
        """Implement ``ChoiceSink.tool``."""
        self._filter.finalize(call_follows=True)
        self._choice.tool(chunk if self._names is None else self._names.clean(chunk))

    def arguments(self, text: str, key: Hashable) -> None:
        """Implement ``ChoiceSink.arguments``."""
        self.tool(NormalizedToolChunk("delta", arguments_delta=text, key=key))

    def has_block(self, kind: str) -> bool:
        """Implement ``ChoiceSink.has_block``. Text that was removed counts as text."""
        return self._choice.has_block(kind) or (kind == "text" and self._filter.has_searched)

    def end_block(self, key: Hashable) -> None:
        """Implement ``ChoiceSink.end_block``."""
        self._filter.finalize()
        self._choice.end_block(key)

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """Implement ``ChoiceSink.replace_arguments``."""
        self._choice.replace_arguments(key, arguments_text)

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """Implement ``ChoiceSink.server_tool``."""
        self._filter.finalize()
        self._choice.server_tool(id, name, phase, data, raw=raw)

    def server_tool_delta(self, id: str | None, name: str, arguments_delta: str) -> None:
        """Implement ``ChoiceSink.server_tool_delta``."""
        self._filter.finalize()
        self._choice.server_tool_delta(id, name, arguments_delta)

    def citation(self, data: Any) -> None:
        """Implement ``ChoiceSink.citation``. A citation does not interrupt the text."""
        self._choice.citation(data)

    def log_probabilities(self, tokens: Sequence[TokenLogProbability], raw: Any) -> None:
        """Implement ``ChoiceSink.log_probabilities``. They do not interrupt the text."""
        self._choice.log_probabilities(tokens, raw)

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """Implement ``ChoiceSink.file``. A file that arrives in parts does not interrupt the text."""
        if key is None:
            self._filter.finalize()
        self._choice.file(media_type, data, url, raw=raw, key=key)

    def provider_block(self, raw: Any) -> None:
        """Implement ``ChoiceSink.provider_block``."""
        self._filter.finalize()
        self._choice.provider_block(raw)

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """Implement ``ChoiceSink.finish``. Text may follow a finish reason, so the text is not interrupted."""
        self._choice.finish(raw, reason)

    def close(self) -> None:
        """Finalize the buffered text at the end of the turn."""
        self._filter.finalize(is_end=True)
