"""One answer (choice) of a turn: its blocks in the order in which they began, its calls, its finish.

It makes the events of its blocks. Which call a piece belongs to is ``matching``'s business.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from streamkit.accumulator.tool_call import ToolCallBuilder
from streamkit.accumulator.tracker import ToolCallTracker
from streamkit.calls import Finish, FinishReason, ServerCall, StreamWarning, ToolCall
from streamkit.events import (
    Citation,
    File,
    Finished,
    NormalizedToolChunk,
    Reasoning,
    ReasoningKind,
    Refusal,
    ServerTool,
    ServerToolPhase,
    Text,
    Unknown,
)
from streamkit.json_text import join_surrogates

if TYPE_CHECKING:
    from streamkit.accumulator.accumulator import Accumulator

__all__ = ["Choice", "Block"]

BlockKind = Literal["text", "reasoning", "refusal", "call", "server_tool", "file", "opaque"]

#: reasons after which nothing of the turn may run, and which no call rewrites
NOT_EXECUTABLE: frozenset[FinishReason] = frozenset({"content_filter", "refusal", "pause", "error"})


class Block:
    """A stretch of an answer: text, reasoning, a call, ..."""

    __slots__ = ("call", "citations", "detail", "key", "kind", "metadata", "parts", "raw")

    def __init__(self, kind: BlockKind, key: Hashable, detail: Any = None) -> None:
        self.kind: BlockKind = kind
        self.key = key
        self.detail = detail  # the kind of reasoning, the ServerCall, or the file's (media_type, data, url)
        self.parts: list[str] = []
        self.metadata: dict[str, Any] = {}
        self.citations: list[Any] = []
        self.raw: list[Any] = []  # the provider's own blocks, to be sent back to it
        self.call: ToolCallBuilder | None = None

    @property
    def text(self) -> str:
        """The block's text, joined."""
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        # Mended at each reading and not kept so: half a surrogate pair at the end may still get its other half.
        return join_surrogates(self.parts[0]) if self.parts else ""


class Choice:
    """What one answer said, and what it says of it in events."""

    __slots__ = (
        "_by_key",
        "_early_citations",
        "_emit",
        "_last",
        "_last_text",
        "blocks",
        "executable",
        "finish_as_sent",
        "finished",
        "index",
        "tracker",
        "tool",
        "turn",
    )

    def __init__(self, turn: Accumulator, index: int) -> None:
        self.turn = turn
        self.index = index
        self.blocks: list[Block] = []
        self.finish_as_sent: Finish | None = None
        self.finished: Finish | None = None
        self.executable: list[ToolCallBuilder] = []
        self.tracker = ToolCallTracker(self)
        self.tool = self.tracker.feed
        self._emit = turn.events.append
        self._by_key: dict[Hashable, Block] = {}
        self._last: Block | None = None
        self._last_text: Block | None = None  # where citations belong
        self._early_citations: list[Any] = []  # those that came before any text, for the first text that comes

    # ---------------------------------------------------------------- what the parser says

    def text(self, text: str, key: Hashable = None) -> None:
        """See ``ChoiceSink.text``."""
        block = self._last
        if block is None or block.kind != "text" or block.key != key:
            block = self._last_text = self._open("text", key)
            if self._early_citations:
                block.citations, self._early_citations = self._early_citations, []
        if text:
            block.parts.append(text)
            self._emit(Text(text, self.index))
            self.turn.add_text_size(len(text))

    def reasoning(self, text: str, kind: ReasoningKind = "text", key: Hashable = None) -> None:
        """See ``ChoiceSink.reasoning``."""
        block = self._last
        if block is None or block.kind != "reasoning" or block.key != key or block.detail != kind:
            block = self._open("reasoning", key, kind)
        if text:
            block.parts.append(text)
            self._emit(Reasoning(text, kind, self.index))
            self.turn.add_text_size(len(text))

    def refusal(self, text: str) -> None:
        """See ``ChoiceSink.refusal``."""
        block = self._last
        if block is None or block.kind != "refusal":
            block = self._open("refusal", None)
        if text:
            block.parts.append(text)
            self._emit(Refusal(text, self.index))
            self.turn.add_text_size(len(text))

    def add_metadata(self, metadata: Mapping[str, Any], key: Hashable = None) -> None:
        """See ``ChoiceSink.annotate``."""
        block = self._last if key is None else self._by_key.get(key)
        if block is None:
            self.turn.warn("orphan_annotation", f"{', '.join(metadata)} belongs to no block")
            return
        if self.turn.check_nesting(list(metadata.values())):
            return
        held = block.call.metadata if block.call is not None else block.metadata
        for name, value in metadata.items():
            before = held.get(name)
            if name == "signature" and isinstance(before, str) and isinstance(value, str):
                held[name] = before + value
            elif isinstance(before, list) and isinstance(value, list):
                before.extend(value)
            else:
                held[name] = list(value) if isinstance(value, list) else value

    def end_block(self, key: Hashable) -> None:
        """See ``ChoiceSink.seal``."""
        self.tracker.end_call(key)
        if self._last is not None and self._last.key == key:
            self._last = None  # what follows is another block, whatever its kind

    def replace_arguments(self, key: Hashable, arguments_text: str) -> None:
        """See ``ChoiceSink.restate``."""
        self.tracker.replace_arguments(key, arguments_text)

    def server_tool(
        self, id: str | None, name: str, phase: ServerToolPhase, data: Any = None, *, raw: Any = None
    ) -> None:
        """See ``ChoiceSink.server_tool``."""
        if self.turn.check_nesting([data, raw]):
            return
        block = self._by_key.get(("server_tool", id)) if id else None
        if block is None and not id and self._last is not None and self._last.kind == "server_tool":
            block = self._last if self._last.key is None and phase != "started" else None
        if block is None:
            block = self._open("server_tool", ("server_tool", id) if id else None, ServerCall(id=id, name=name))
        held: ServerCall = block.detail
        block.detail = ServerCall(
            id=held.id,
            name=held.name or name,
            arguments=data if phase == "arguments" else held.arguments,
            result=data if phase == "result" else held.result,
        )
        if raw is not None:
            # A result that comes after other blocks is kept at its own place, for replay in the order of the wire.
            if block is not self.blocks[-1]:
                self._open("server_tool", None, None).raw.append(raw)
            else:
                block.raw.append(raw)
        self._emit(ServerTool(id, name or block.detail.name, phase, data, self.index))

    def citation(self, data: Any) -> None:
        """See ``ChoiceSink.citation``."""
        if self.turn.check_nesting(data):
            return
        (self._early_citations if self._last_text is None else self._last_text.citations).append(data)
        self._emit(Citation(data, self.index))

    def file(
        self,
        media_type: str | None,
        data: str | None = None,
        url: str | None = None,
        *,
        raw: Any = None,
        key: Hashable = None,
    ) -> None:
        """See ``ChoiceSink.file``."""
        if self.turn.check_nesting(raw):
            return
        block = None if key is None else self._by_key.get(("file", key))
        if block is None:
            last = self._last
            block = self._open("file", None if key is None else ("file", key), (media_type, data, url))
            if key is not None:
                self._last = last  # a file in pieces runs beside what is said: it does not cut a text in two
        if key is not None and data:
            block.parts.append(data)
        if raw is not None:
            block.raw.append(raw)
        self._emit(File(media_type, data, url, self.index))
        self.turn.add_text_size(len(data or ""))

    def provider_block(self, raw: Any) -> None:
        """See ``ChoiceSink.opaque``."""
        if self.turn.check_nesting(raw):
            return
        self._open("opaque", None).raw.append(raw)
        self._emit(Unknown(raw, self.index))

    def finish(self, raw: str | int | None, reason: FinishReason) -> None:
        """See ``ChoiceSink.finish``."""
        self.tracker.start_named_calls()
        self.finish_as_sent = Finish(reason, raw)

    # ---------------------------------------------------------------- what the rooms beside it need

    def append_arguments(self, key: Hashable, arguments: str) -> None:
        """The next piece of the arguments of the call of that key, of which nothing else is to be judged.

        Unlike a delta of the wire, where such a piece was cut says nothing (``markup`` recovers calls from text).
        """
        self.tracker.append_arguments(key, arguments)

    def _open(self, kind: BlockKind, key: Hashable, detail: Any = None) -> Block:
        block = self._last = Block(kind, key, detail)
        self.blocks.append(block)
        if key is not None:
            self._by_key[key] = block
        return block

    def add_call_block(self, call: ToolCallBuilder, key: Hashable) -> None:
        """A call began: it is a block."""
        self._open("call", key).call = call

    def warn_call(self, call: ToolCallBuilder, code: str, message: str) -> None:
        """Something odd about a call; said once a call, however often it happens."""
        if any(warning.code == code for warning in call.warnings):
            return
        warning = StreamWarning(code, message, call.ref.id if call.ref is not None else None)
        call.warnings.append(warning)
        self.turn.record_warning(warning, self.index)

    # ---------------------------------------------------------------- the end

    def close(self, *, confirmed: bool) -> None:
        """The turn is over; ``confirmed`` says that the wire's terminator was seen. Decides states and the finish."""
        self.tracker.start_named_calls()
        for call in self.tracker.calls:  # ending one may open another behind it
            if not call.ended:
                self.tracker.end(call)
        sent = self.finish_as_sent
        confirmed = confirmed or sent is not None
        length = sent is not None and sent.reason == "length"
        seen: dict[tuple[str, str], ToolCallBuilder] = {}
        for call in self.tracker.calls:
            self._decide(call, confirmed=confirmed, length=length)
            if call.raw_id is None and call.state == "complete":
                if seen.setdefault((call.name, call.text), call) is not call:
                    self.warn_call(call, "repeated_call", f"{call.name!r} was called twice with the same arguments")
        if not confirmed:
            return
        whole = all(call.state == "complete" for call in self.tracker.calls)
        if sent is None and not whole:
            return
        reason: FinishReason = sent.reason if sent is not None else "stop"
        if reason == "stop" and self.tracker.calls:
            reason = "tool_calls"
        elif reason == "tool_calls" and not self.tracker.calls:
            reason = "stop"
            self.turn.warn("finish_without_calls", "the provider finished for tool calls, but there is none")
        self.finished = Finish(reason, sent.raw if sent is not None else None)

    def completed_call(self, index: int) -> ToolCall | None:
        """The call of that index as it will stand, where it is known to be whole before the turn has ended.

        The wire said that it is over, or (OpenAI and Azure) its object is closed and another call began; a closed
        object alone says nothing, since some servers send arguments anew (ollama/ollama#15457, Moonshot's revisions in
        danny-avila/agents#181).
        """
        calls = self.tracker.calls
        if not 0 <= index < len(calls):
            return None
        call = calls[index]
        ordered = self.turn.habits.calls_end_in_order and call.index < len(calls) - 1 and call.is_object_closed()
        if not (call.ended or ordered) or call.ref is None or not call.name or call.state != "incomplete":
            return None
        if call.kind == "custom":
            return call.snapshot(state="complete")
        if not call.size and self.blocks[-1].call is call and not self.turn.habits.whole_calls:
            return None  # were the answer cut here, its arguments would be missing
        settled = call.parse_arguments(recover_trailing_junk=self.turn.recover_trailing_junk)
        return call.snapshot(state="complete") if settled.state == "complete" else None

    def _decide(self, call: ToolCallBuilder, *, confirmed: bool, length: bool) -> None:
        """A call's state (design section 5, "State")."""
        if call.kind == "custom":
            call.state = "complete" if call.ended or (confirmed and not length) else "incomplete"
        elif not call.size:
            last = self.blocks[-1].call is call
            cut = last and (length or not confirmed) and not self.turn.habits.whole_calls
            if not cut:
                call.state = call.parse_arguments(recover_trailing_junk=True).state
        else:
            settled = call.parse_arguments(recover_trailing_junk=self.turn.recover_trailing_junk)
            call.state = settled.state
            if settled.problem is not None:
                self.warn_call(call, "invalid_arguments", settled.problem)
        if not call.name:
            self.tracker.start_nameless(call)
            call.state = "invalid"
            self.warn_call(call, "nameless_call", "the call never got a name")

    def emit_finished(self) -> None:
        """The event of the finish, once nothing can change it."""
        if self.finished is not None:
            self._emit(Finished(self.finished.reason, self.finished.raw, self.index))

    def mark_executable(self) -> None:
        """The turn closed without error: whole calls may run, unless the finish forbids it."""
        if self.finished is not None and self.finished.reason not in NOT_EXECUTABLE:
            self.executable = [call for call in self.tracker.calls if call.state == "complete"]

    def chunk(self, chunk: NormalizedToolChunk) -> None:
        """A piece of a call, for callers who bring their own (``process_tool_call_chunk``)."""
        self.tracker.feed(chunk)

    # ---------------------------------------------------------------- what people read

    def joined_text(self, kind: BlockKind) -> str:
        """The text of all blocks of a kind."""
        return "".join([block.text for block in self.blocks if block.kind == kind])

    @property
    def calls(self) -> list[ToolCall]:
        """The calls, in order of first appearance."""
        return [call.snapshot() for call in self.tracker.calls]

    @property
    def server_calls(self) -> list[ServerCall]:
        """The calls the provider ran itself."""
        return [block.detail for block in self.blocks if block.kind == "server_tool" and block.detail is not None]
