"""The sink of a turn that removes leaked markup from the text of its choices; see the package.

It is used only if the option is on, between the parser and the accumulator. Its choices have the interface of the
accumulator's and pass everything to them, but text goes through the ``filter``. Everything else on the wire (a call,
reasoning, the end of a block) comes after all text before it, so buffered text is finalized first. The module does not
depend on lexer or grammars.

Tool names may contain a model's control tokens: ``tool_search<|channel|>json``. gpt-oss writes harmony, and a server
that does not remove all of it leaves control tokens in the name of a call (NousResearch/hermes-agent#8993,
vllm-project/vllm#32633). No provider allows ``<`` in a name, so the name ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from msgspec import structs

from streamkit.accumulator import Accumulator
from streamkit.accumulator.choice import Choice
from streamkit.calls import ALL_MARKUP_FAMILIES, MarkupFamily
from streamkit.errors import UsageError
from streamkit.events import NormalizedToolChunk, ReasoningKind, ServerToolPhase
from streamkit.reading.leaked_markup.filter import MarkupFilter, MarkupReporter

__all__ = [
    "LeakedMarkup",
    "MarkupChoice",
    "MarkupSink",
    "NameCleaner",
]


class NameCleaner:
    """Removes control tokens from the names of one choice's calls, also where a name arrives in fragments.

    Args:
        warn: gets each name with its control tokens.
    """

    __slots__ = ("_truncated_names", "_warn")

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._truncated_names: dict[Hashable, str | None] = {}  # call ids by slot, while the name may still grow

    def clean(self, chunk: NormalizedToolChunk) -> NormalizedToolChunk:
        """Return the chunk of a call without the control tokens in its name."""
        sent = chunk.name
        if not sent and not self._truncated_names:
            return chunk
        slot = chunk.key if chunk.key is not None else ("position", chunk.position)
        name = sent
        if sent:
            at = sent.find("<|")
            if at < 0 and sent.endswith("<"):
                at = len(sent) - 1  # the rest of the token is in the next fragment
            if at >= 0:
                self._warn(sent)
                name = sent[:at]
                self._truncated_names[slot] = chunk.id or self._truncated_names.get(slot)
            elif (
                chunk.type == "delta"
                and slot in self._truncated_names
                and (not chunk.id or chunk.id == self._truncated_names[slot])
            ):
                name = None  # the rest of the control tokens
        if chunk.args or chunk.arguments_delta:
            self._truncated_names.pop(slot, None)  # the name is complete
        return chunk if name == sent else structs.replace(chunk, name=name or None)


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
        self.text: Callable[..., None] = self._filter.feed  # ``ChoiceSink.text``, without another call for each delta
        # These do not interrupt the text. It may follow a finish reason.
        self.replace_arguments: Callable[..., None] = choice.replace_arguments
        self.citation: Callable[..., None] = choice.citation
        self.log_probabilities: Callable[..., None] = choice.log_probabilities
        self.finish: Callable[..., None] = choice.finish

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """Implement ``ChoiceSink.reasoning``."""
        self._filter.finalize()
        self._choice.reasoning(text, kind, key)

    def refusal(self, text: str, key: Hashable = None) -> None:
        """Implement ``ChoiceSink.refusal``."""
        self._filter.finalize()
        self._choice.refusal(text, key)

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

    def compaction(self, raw: Any, summary: str | None) -> None:
        """Implement ``ChoiceSink.compaction``."""
        self._filter.finalize()
        self._choice.compaction(raw, summary)

    def provider_block(self, raw: Any) -> None:
        """Implement ``ChoiceSink.provider_block``."""
        self._filter.finalize()
        self._choice.provider_block(raw)

    def close(self) -> None:
        """Finalize the buffered text at the end of the turn."""
        self._filter.finalize(is_end=True)


LeakedMarkup: TypeAlias = Literal["keep", "strip", "recover"]


class MarkupSink:
    """An implementation of ``providers.provider.Sink`` that wraps an accumulator.

    Args:
        accumulator: the accumulator of the turn.
        mode: ``strip`` or ``recover``; for ``keep`` the accumulator itself is the parser's sink.
        families: the markup that the provider's models use (``Traits.markup_families``).
        tools: the names of the offered tools; None if they are not known.

    Raises:
        UsageError: the mode is none of those.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        mode: LeakedMarkup,
        families: frozenset[MarkupFamily] = ALL_MARKUP_FAMILIES,
        tools: Collection[str] | None = None,
    ) -> None:
        if mode not in ("strip", "recover"):
            raise UsageError(f"leaked_markup is one of {', '.join(map(repr, get_args(LeakedMarkup)))}, not {mode!r}")
        self._accumulator = accumulator
        self._reporter = MarkupReporter(accumulator, recovers=mode == "recover", families=families, tools=tools)
        self._choices: dict[int, MarkupChoice] = {}
        # The rest of ``Sink`` is the accumulator's own.
        self.identify: Callable[..., None] = accumulator.identify
        self.add_response_metadata: Callable[..., None] = accumulator.add_response_metadata
        self.usage: Callable[..., None] = accumulator.usage
        self.terminate: Callable[..., None] = accumulator.terminate
        self.heartbeat: Callable[..., None] = accumulator.heartbeat
        self.fail: Callable[..., None] = accumulator.fail
        self.warn: Callable[..., None] = accumulator.warn
        self.unknown_field: Callable[..., None] = accumulator.unknown_field
        self.unknown: Callable[..., None] = accumulator.unknown
        self.keep: Callable[[int], bool] = accumulator.keep
        self.join_with: Callable[..., None] = accumulator.join_with

    @property
    def model(self) -> str | None:
        """Implement ``Sink.model``."""
        return self._accumulator.model

    def choice(self, index: int) -> MarkupChoice:
        """Implement ``Sink.choice``."""
        choice = self._choices.get(index) if index.__class__ is int else None
        if choice is None:
            inner = self._accumulator.choice(index)  # which reads "0" and 0.0 as 0
            choice = self._choices.setdefault(inner.index, MarkupChoice(inner, self._reporter))
        return choice

    def close(self) -> None:
        """Finalize the buffered text of the choices. Call it before the accumulator is closed."""
        for choice in self._choices.values():
            choice.close()
