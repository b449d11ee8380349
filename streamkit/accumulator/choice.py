"""One choice of a turn: its blocks in order, its tool calls and its finish.

``Choice`` implements ``providers.provider.ChoiceSink``: it makes the events of its blocks and decides the states of its
calls at the end. Assigning a delta to a call belongs to ``call_index`` and ``tracker``. It must not depend on the
accumulator that contains it; what it shares with the other choices is its ``TurnState``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from streamkit.accumulator.blocks import NO_BLOCKS, Block, ChoiceBlockKind, merge_metadata, new_metadata
from streamkit.accumulator.call_builder import ToolCallBuilder
from streamkit.accumulator.tracker import NO_CALLS, NO_KEYS, ToolCallTracker
from streamkit.accumulator.turn_state import OBJECT_SIZE, TurnState
from streamkit.calls import Finish, FinishReason, ServerCall, StreamWarning, ToolCall
from streamkit.events import (
    BlockStarted,
    Compaction,
    File,
    Finished,
    LogProbabilities,
    NormalizedToolChunk,
    Reasoning,
    ReasoningKind,
    ServerTool,
    ServerToolPhase,
    Text,
    TextKind,
    TokenLogProbability,
    ToolCallDelta,
    Unknown,
)
from streamkit.finishes import finish_row
from streamkit.json_text import join_half, join_surrogates, json_size

__all__ = ["Choice"]


class Choice(ToolCallTracker):
    """One choice of a turn.

    Args:
        state: what all choices of the turn share.
        index: the choice's number.

    Attributes:
        blocks: its blocks, in the order in which they began.
        provider_finish: the last finish reason that the provider sent.
        effective_finish: the finish after the turn was closed (docs/rules.md, "Finish and confirmation").
        executable: the calls that may run; empty until the turn is closed.
    """

    __slots__ = ("_first_text", "_last_text", "early_citations", "effective_finish", "executable", "provider_finish")

    def __init__(self, state: TurnState, index: int) -> None:
        self._state = state
        self.index: int = index
        self.blocks: list[Block] = []
        self._by_key = NO_BLOCKS
        self._last = self._open_text = self._open_reasoning = None
        self._calls, self._calls_by_key = NO_CALLS, NO_KEYS
        self.provider_finish: Finish | None = None
        self.effective_finish: Finish | None = None
        self.executable: Sequence[ToolCallBuilder] = ()
        self._first_text: Block | None = None  # the first that is not empty
        self._last_text: Block | None = None  # the last that is not: gets the citations (Gemini ends in an empty one)
        self.early_citations: list[Any] | None = None  # citations before any text, for the first text block

    # ---------------------------------------------------------------- the sink

    def text(self, text: str, key: Hashable = None) -> None:
        """Implement ``ChoiceSink.text``."""
        block = self._open_text
        # Surrogates are not printable; nor are line breaks and few other characters, for which the slow path is right
        # as well. On short texts ``isprintable`` costs a quarter of a search.
        if block is None or block.key != key or not (text.isascii() or text.isprintable()):
            self._add_text("text", text, key)
        elif text:
            block.parts.append(text)
            state = self._state
            state.events.append(Text(text, block.number, self.index))
            state.size = size = state.size + len(text)
            if size > state.check_at:
                state.check_size()

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """Implement ``ChoiceSink.reasoning``."""
        block = self._open_reasoning
        if block is None or block.key != key or block.detail != kind or not (text.isascii() or text.isprintable()):
            self._add_text("reasoning", text, key, kind)
        elif text:
            block.parts.append(text)
            state = self._state
            state.events.append(Reasoning(text, kind, block.number, self.index))
            state.size = size = state.size + len(text)
            if size > state.check_at:
                state.check_size()

    def tool(self, chunk: NormalizedToolChunk) -> None:
        """Implement ``ChoiceSink.tool``."""
        text = chunk.arguments_delta
        if text and not chunk.id and not chunk.name and chunk.metadata is None:
            self.arguments(text, chunk.key, chunk)
        else:
            self.feed_call(chunk)

    def arguments(self, text: str, key: Hashable, chunk: NormalizedToolChunk | None = None) -> None:
        """Implement ``ChoiceSink.arguments``; ``chunk``: the delta, if there is one already, which costs 6% of it."""
        call = self._calls_by_key.get(key)
        # Halves of surrogate pairs are not printable. For the few other characters the slow path is right as well.
        if call is not None and call.fast_path and text[0] != "{" and (text.isascii() or text.isprintable()):
            call.parts.append(text)
            state = self._state
            state.events.append(ToolCallDelta(call.ref, text, self.index))  # type: ignore[arg-type]  # it has started
            state.size = size = state.size + len(text)
            if size > state.check_at:
                state.check_arguments(call)
        else:
            self.feed_call(chunk or NormalizedToolChunk("delta", None, None, None, text, key))

    def refusal(self, text: str, key: Hashable = None) -> None:
        """Implement ``ChoiceSink.refusal``."""
        self._add_text("refusal", text, key)

    def _add_text(self, kind: TextKind, text: str, key: Hashable, detail: ReasoningKind | None = None) -> None:
        """Add a delta to the open block of that kind and key (the last one without a key), else to a new one."""
        block = self._last if key is None else self._by_key.get(key)
        if block is None or block.is_ended or block.kind != kind or block.key != key or block.detail != detail:
            block = self.open_block(kind, key, detail)
            self._state.events.append(BlockStarted(kind, block.number, self.index))
            if kind == "text":
                block.citations, self.early_citations = self.early_citations, None
        elif block is not self._last:  # the wire interleaves its blocks
            if self._last is not None:
                self._last.join_parts()
                if self._last.key is None:
                    self._emit_end(self._last)
            self._last = block
        if kind == "text":
            if self._last_text is None or not self._last_text.parts:
                self._first_text = self._last_text = block
            elif text:
                self._last_text = block
        if text:
            if block.half or not text.isascii():
                text, block.half = join_half(block.half, text)
            self._emit_text(block, text)
        is_fast = bool(block.parts) and not block.half
        self._open_text = block if is_fast and kind == "text" else None
        self._open_reasoning = block if is_fast and kind == "reasoning" else None

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """Implement ``ChoiceSink.add_metadata``."""
        block = self._last if key is None else self._by_key.get(key)
        if block is None:
            self._state.warn("orphan_annotation", f"the metadata {', '.join(metadata)} belongs to no block")
            return
        target = block.call.metadata if block.call is not None else block.metadata
        if target is None:
            target = block.metadata = {}
        if len(metadata) == 1 and target:  # a list that grows with the deltas of its block
            for name, value in metadata.items():
                before = target.get(name)
                if before.__class__ is list and value.__class__ is list:
                    if not self._state.refuses(metadata):
                        before += value
                    return
        new = new_metadata(target, metadata)
        if new and not self._state.refuses(new):
            merge_metadata(target, new)

    def has_block(self, kind: str) -> bool:
        """Implement ``ChoiceSink.has_block``."""
        return any(block.kind == kind for block in self.blocks)

    def end_block(self, key: Hashable) -> None:
        """Implement ``ChoiceSink.end_block``."""
        if self._calls:
            self.end_call(key)
        block = self._by_key.get(key)
        if block is not None:
            self._emit_end(block)
            if block is self._last:
                self._last = None  # what follows is another block, also of the same kind

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """Implement ``ChoiceSink.server_tool``."""
        if self._state.refuses_name(name) or self._state.refuses([data, raw]):
            return
        block = self._by_key.get(("server_tool", id)) if id else None
        if block is None and not id and self._last is not None and isinstance(self._last.detail, ServerCall):
            block = self._last if self._last.key is None and phase != "started" else None
        if block is None:
            block = self.open_block("server_tool", ("server_tool", id) if id else None, ServerCall(id=id, name=name))
        known: ServerCall = block.detail
        if phase == "arguments":
            block.parts.clear()  # the deltas of what is now complete
        block.detail = ServerCall(
            id=known.id,
            name=known.name or name,
            arguments=data if phase == "arguments" else known.arguments,
            result=data if phase == "result" else known.result,
        )
        if raw is not None:
            # A result that arrives after other blocks is kept in its own position, for replay in the order of the wire.
            (block if block is self.blocks[-1] else self.open_block("server_tool", None)).add_raw(raw)
        name = join_surrogates(name or block.detail.name)
        if isinstance(data, str):
            data = join_surrogates(data)
        self._state.events.append(ServerTool(id, name, phase, data, self.index, raw))

    def server_tool_delta(self, id: str | None, name: str, arguments_delta: str) -> None:
        """Implement ``ChoiceSink.server_tool_delta``. The text is kept until the complete arguments come."""
        if arguments_delta:
            block, key, state = self._last, ("server_tool", id), self._state
            if block is None or block.key != key:
                block = self._by_key.get(key) if id else None
            if block is not None and block.detail.arguments is None:
                block.parts.append(arguments_delta)
                if block is not self._last:  # whose parts the check of the size joins
                    block.join_parts()
                state.size = size = state.size + len(arguments_delta)
                if size > state.check_at:
                    state.check_size()
            state.events.append(ServerTool(id, name, "arguments", arguments_delta, self.index))

    def citation(self, data: Any, key: Hashable = None) -> None:
        """Implement ``ChoiceSink.citation``."""
        from streamkit.events.citations import citation_events  # most responses have none

        if not data or self._state.refuses(data):  # an empty one has no source, and its event many times its bytes
            return
        self._state.start_response()
        block = self.add_citations((data,), key)
        number, text = (None, "") if block is None else (block.number, block.text)
        # Without a key the wire counts from the beginning of the message, where the first text is.
        is_counted = key is not None or block is self._first_text
        self._state.events += citation_events(data, number, self.index, text=text if is_counted else None)

    def compaction(self, raw: Any, summary: str | None) -> None:
        """Implement ``ChoiceSink.compaction``."""
        if not self._state.refuses(raw):
            self.open_block("opaque", None).add_raw(raw)
            self._state.events.append(Compaction(summary and join_surrogates(summary), raw, self.index))

    def add_citations(self, citations: Iterable[Any], key: Hashable = None) -> Block | None:
        """Keep citations with the block of a key, by default the last text, and return it; or for the first text."""
        block = self._last_text if key is None else self._by_key.get(key)
        if block is None:
            self.early_citations = self.early_citations or []
            self.early_citations += citations
        else:
            block.citations = block.citations or []
            block.citations += citations
        return block

    def place_early_citations(self) -> None:
        """Make a text block, without events, for the citations of a choice that has ended without one."""
        if self.early_citations:
            block = self.open_block("text", None)
            block.citations, block.is_ended, self.early_citations = self.early_citations, True, None

    def log_probabilities(self, tokens: Sequence[TokenLogProbability], raw: Any) -> None:
        """Implement ``ChoiceSink.log_probabilities``."""
        self._state.start_response()
        self._state.events.append(LogProbabilities(tuple(tokens), raw, self.index))

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """Implement ``ChoiceSink.file``."""
        # What came from the wire contains the data, often as the same object, so only the larger one counts.
        own_size = sum(len(value) for value in (media_type, data, url) if value)
        if self._state.refuses(raw) or not self._state.keep(max(own_size - json_size(raw), 0)):
            return
        media_type, data, url = (value and join_surrogates(value) for value in (media_type, data, url))
        block = None if key is None else self._by_key.get(("file", key))
        if block is None:
            last = self._last
            block = self.open_block("file", None if key is None else ("file", key), (media_type, data, url))
            if key is not None:
                self._last = last  # a file in several deltas arrives between those of a text, and must not split it
        if key is not None and data:
            block.parts.append(data)
            block.join_parts()
        if raw is not None:
            block.add_raw(raw)
        self._state.events.append(File(media_type, data, url, self.index, raw))

    def provider_block(self, raw: Any) -> None:
        """Implement ``ChoiceSink.provider_block``."""
        if self._state.refuses(raw):
            return
        block = self._last  # a frame may have many, which would take several times their memory as blocks
        if block is None or block.kind != "opaque" or block.metadata is not None or not self._state.keep(OBJECT_SIZE):
            block = self.open_block("opaque", None)
        block.add_raw(raw)
        self._state.events.append(Unknown(raw, self.index, is_block=True))

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """Implement ``ChoiceSink.finish``."""
        if self._calls:
            self.prepare_decisions()
        if not self.blocks:
            self._state.begin_choice(self.index)
        previous = self.provider_finish
        if isinstance(raw, str):
            if (previous is None or previous.raw != raw) and not self._state.keep(len(raw)):
                return
            raw = join_surrogates(raw)
        self.provider_finish = finish = Finish(reason, raw)
        if self._calls:
            self.decide_finished(is_cut_short=finish_row(finish).is_cut_short)

    # ---------------------------------------------------------------- the end

    def close(self, *, confirmed: bool) -> None:
        """End the choice: decide the states of its calls and its finish.

        Args:
            confirmed: the wire's terminator was seen, or the source reported an orderly end.
        """
        finish, row = self.provider_finish, finish_row(self.provider_finish)
        confirmed = confirmed or finish is not None
        is_lost = not confirmed or self._state.error is not None or row.is_error
        for block in self.blocks:
            if not block.is_ended:
                block.is_cut = True
                if block.call is None:
                    self._emit_end(block, is_lost)
        if self._calls:
            self.end_all()
            self.decide_all(confirmed=confirmed, is_cut_short=row.is_cut_short)
        # The finish: docs/rules.md, "Finish and confirmation".
        if not confirmed or (finish is None and not all(call.state == "complete" for call in self._calls)):
            return
        reason: FinishReason = finish.reason if finish is not None else "stop"
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        elif reason == "tool_calls" and not self._calls:
            reason, message = "stop", "the finish reason is tool calls, but the wire sent no call"
            self._state.record_warning(StreamWarning("finish_without_calls", message), self.index)
        self.effective_finish = Finish(reason, finish.raw if finish is not None else None)

    def emit_finished(self, facts: dict[str, Any], *, may_execute: bool) -> None:
        """Emit the event of the finish, once nothing can change it.

        Args:
            facts: the metadata of the response, one object for all choices.
            may_execute: the turn has no error, so the complete calls are executable unless the finish forbids it.
        """
        finish, state = self.effective_finish, self._state
        if finish is not None:
            if may_execute and self._calls and finish_row(finish).runs_calls:
                self.executable = [call for call in self._calls if call.state == "complete"]
            state.start_response()
            state.events.append(Finished(finish.reason, finish.raw, self.index, facts))

    # ---------------------------------------------------------------- the result

    def joined_text(self, kind: ChoiceBlockKind) -> str:
        """Return the text of all blocks of one kind, joined."""
        return "".join([block.text for block in self.blocks if block.kind == kind])

    @property
    def calls(self) -> list[ToolCall]:
        """The calls, in order of first appearance."""
        return [call.snapshot() for call in self._calls]

    def find_call(self, id: str) -> ToolCall | None:
        """Return the call of a canonical id, None if the choice has none."""
        return next((call.snapshot() for call in self._calls if call.ref is not None and call.ref.id == id), None)

    @property
    def server_calls(self) -> list[ServerCall]:
        """The calls that the provider ran itself."""
        return [call for block in self.blocks if (call := block.server_call) is not None]
