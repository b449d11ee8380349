"""Repair of history: after every call exactly one result, in call order, and unique ids.

Providers refuse a history that was truncated, merged, cancelled or edited at every later request: a call without a
result (anthropics/claude-code#1577), a result without its call (anthropics/claude-code#14075), the results of one round
separated or out of order, one id in several turns (Kimi counts ``functions.x:0`` anew in each, fw-ai/fireconnect#16).
This module corrects that before anything is rendered, for every target at once, and reports each change.

An *assistant content* is an ``ai`` content with calls. Contents of an unknown speaker are not inspected and keep their
position, because renderers omit them.

It must not depend on any provider's messages, nor on the form of an id on a wire (see ``ids.TargetIds``). Which call a
result belongs to is decided by ``pairing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import is_
from typing import Any

from msgspec import Struct, field

from streamkit.history.content import UNPAIRED_BLOCKS, Block, Content, ToolCallBlock, ToolResponseBlock, parse_arguments
from streamkit.history.pairing import NO_RESULT, PairedCall, PairedResult, Pairing
from streamkit.ids import derived_tool_id, is_canonical, normalize_to_history_tool_id
from streamkit.values.json_data import copy_with
from streamkit.values.request_changes import Lost, RequestChange, Translated

__all__ = ["HistoryCheck", "RepairResult", "repair", "repair_contents"]

_SPEAKERS = frozenset({"human", "ai", "tool", "system"})


class RepairResult(Struct, frozen=True):
    """A repaired history.

    Attributes:
        contents: the conversation; a content that was valid is the same object as before.
        changes: a sentence for each change; empty if there was none.
        is_final: whether valid contents that follow change nothing in these: no result waits for a later call.
    """

    contents: list[Content]
    changes: list[str]
    is_final: bool = True


def repair(contents: Sequence[Content], *, canonicalize: bool = False) -> RepairResult:
    """Return the same conversation in a valid form. The argument is not changed; a second repair changes nothing.

    * A call without a result gets a neutral one (status ``canceled``); a result whose call cannot be found is dropped.
      The call is found by its id or raw id, also with another prefix; without an id by position and name, among the
      calls of the turn just before the result; a result before its call is moved after it.
    * Results are in one ``tool`` content directly after the content of their calls, in call order. Everything else that
      was between them keeps its order after them, also the blocks of an ``ai`` content after a result.
    * Of several results of one call the first completed one is kept, else the first. Any result replaces a neutral one.
    * A call without an id gets one, and so does each call whose id occurred before, also with another prefix. Results
      of such an id belong to the nearest earlier call without a result. The new id is derived from the provider, the
      raw id, the tool's name, the ``turn_key`` or ``response_id`` in the content's metadata and the call's number in
      its content: it does not change when earlier history is pruned. Only without such metadata the number of equal
      earlier ids is used.
    * Arguments that are not an object become one: the parsed text, or ``{}`` with the text as
      ``metadata["raw_arguments"]``.
    * A call in a message of another speaker is moved to an ``ai`` content of its own.

    No text, image or file is lost. Unique ids are unchanged, canonical or not: renderers convert them, and stored ids
    keep their form.

    Args:
        contents: the complete conversation: in a part of it, results of earlier calls would be dropped.
        canonicalize: whether every call without a canonical id gets one (legacy ids such as ``call_...`` or
            ``toolu_...``, to convert a store once), and its results too; the old id is kept as ``metadata["raw_id"]``.

    Returns:
        The conversation and a sentence for each change.
    """
    repaired, changes, is_final = repair_contents(contents, canonicalize=canonicalize)
    return RepairResult(repaired, [*map(str, changes)], is_final)


def repair_contents(
    contents: Sequence[Content], *, canonicalize: bool = False
) -> tuple[list[Content], list[RequestChange], bool]:
    """Return the fields of the result of `repair`; the changes are of their classes."""
    if not canonicalize and HistoryCheck().accepts(contents, is_end=True):
        return list(contents), [], True
    repairer = _Repairer(canonicalize=canonicalize)
    for content in contents:
        repairer.read(content)
    return repairer.result()


class HistoryCheck(Struct):
    """A check, content by content, that a conversation needs no repair.

    Every call has an id of its own and an object, and its results follow it directly, in call order. Most conversations
    are like that, and only others need the search for the call of each result.
    """

    stems: set[str] = field(default_factory=set)  #: of the ids of the calls
    count: int = 0  #: of the calls
    waiting: list[str] = field(default_factory=list)  #: the ids of the calls of the content before

    def accepts(self, contents: Sequence[Content], *, is_end: bool = False) -> bool:
        """Return False if the conversation is invalid with the next contents; of an end also if it lacks results."""
        for content in contents:
            calls: list[str] = []
            results: list[str] = []
            for block in content.blocks:
                if type(block) in UNPAIRED_BLOCKS:
                    continue
                if isinstance(block, ToolCallBlock):
                    if not block.id or (block.kind == "function" and not isinstance(block.parameters, dict)):
                        return False
                    calls.append(block.id)
                    self.stems.add(normalize_to_history_tool_id(block.id))
                elif isinstance(block, ToolResponseBlock):
                    results.append(block.call_id)
            if results != self.waiting or (calls and content.speaker != "ai"):
                return False
            if results and content.speaker != "tool":
                return False
            self.waiting = calls
            self.count += len(calls)
        return not is_end or (not self.waiting and len(self.stems) == self.count)


class _Segment:
    """A content, or the part of one that stays together."""

    __slots__ = ("blocks", "calls", "is_complete", "results", "source", "speaker")

    def __init__(self, source: Content, speaker: str, *, is_complete: bool = False) -> None:
        self.source = source
        self.speaker = speaker  # of the source, or ``ai`` for calls that were in another message
        self.blocks: list[Block] = list(source.blocks) if is_complete else []  # without results, with original calls
        self.calls: list[PairedCall] = []
        self.results: list[PairedResult] = []  # in this part of a ``tool`` content
        self.is_complete = is_complete  # it is the complete source

    def with_blocks(self, blocks: list[Block]) -> Content:
        """Return a content like the source, with other blocks."""
        if self.speaker != self.source.speaker:
            return Content(speaker=self.speaker, blocks=blocks)
        return copy_with(self.source, blocks=blocks)


class _Repairer:
    """One repair: contents are read in order, then written in the valid order."""

    def __init__(self, *, canonicalize: bool) -> None:
        self._canonicalize = canonicalize
        self._segments: list[_Segment] = []
        self._pairing = Pairing()
        self._changes: list[RequestChange] = []
        self._stems: set[str] = set()  # ids without their prefix: some renderers change only the prefix
        self._occurrences: dict[str, int] = {}  # earlier calls with an id, by the id
        self._salts: dict[str, int] = {}  # by new ids that are in use

    def _report(self, change: RequestChange) -> None:
        self._changes.append(change)

    # ------------------------------------------------------------ reading

    def read(self, content: Content) -> None:
        """Read the next message of the conversation."""
        kinds = {type(block) for block in content.blocks} if content.speaker in _SPEAKERS else set()
        if not kinds & {ToolCallBlock, ToolResponseBlock}:
            self._segments.append(_Segment(content, content.speaker, is_complete=True))
        elif content.speaker == "ai":
            self._read_assistant(content)
        else:
            self._read_other(content)

    def _read_assistant(self, content: Content) -> None:
        """Read a message of the model, split at results: blocks after a result were written with the result in view."""
        segment = _Segment(content, "ai")
        first = segment
        number = 0
        follows_results = False
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                follows_results = bool(segment.calls)
                self._pairing.result(block, None)
                continue
            if follows_results:
                self._add_segment(segment)
                segment = _Segment(content, "ai")
                follows_results = False
            segment.blocks.append(block)
            if isinstance(block, ToolCallBlock):
                segment.calls.append(self._repair_call(block, content, number, segment))
                number += 1
        segment.is_complete = segment is first and len(segment.blocks) == len(content.blocks)
        self._add_segment(segment)

    def _read_other(self, content: Content) -> None:
        """Read a message of another speaker; calls in it are moved to messages of the model."""
        segment = first = _Segment(content, content.speaker)
        number = 0
        for block in content.blocks:
            is_call = isinstance(block, ToolCallBlock)
            speaker = "ai" if is_call else content.speaker
            if speaker != segment.speaker:
                self._add_segment(segment)
                segment = _Segment(content, speaker)
            if isinstance(block, ToolResponseBlock):
                result = self._pairing.result(block, segment if content.speaker == "tool" else None)
                if content.speaker == "tool":
                    segment.results.append(result)
                continue
            segment.blocks.append(block)
            if isinstance(block, ToolCallBlock):
                segment.calls.append(self._repair_call(block, content, number, segment))
                number += 1
                self._report(
                    Lost(
                        f"the call {segment.calls[-1].id!r} of {block.name!r} was in a message of the speaker "
                        f"{content.speaker!r} and was moved to an assistant message"
                    )
                )
        is_complete = len(segment.blocks) + len(segment.results) == len(content.blocks)
        segment.is_complete = segment is first and is_complete
        self._add_segment(segment)

    def _add_segment(self, segment: _Segment) -> None:
        if segment.blocks or segment.results:
            self._segments.append(segment)

    # ------------------------------------------------------------ calls

    def _repair_call(self, block: ToolCallBlock, content: Content, number: int, segment: _Segment) -> PairedCall:
        update: dict[str, Any] = {}
        new_id = self._new_id(block, content, number)
        if new_id is not None:
            update["id"] = new_id
            if block.id and "raw_id" not in block.metadata and not is_canonical(block.id):
                update["metadata"] = {**block.metadata, "raw_id": block.id}
        if block.kind == "function" and not isinstance(block.parameters, dict):
            parameters = parse_arguments(block.parameters) if isinstance(block.parameters, str) else None
            update["parameters"] = parameters or {}
            if parameters is None:
                update["metadata"] = {"raw_arguments": block.parameters, **update.get("metadata", block.metadata)}
            arguments = f"the arguments of the call {block.id!r} of {block.name!r}"
            self._report(Translated(f"{arguments} were not an object and were replaced by one"))
        repaired = copy_with(block, **update) if update else block
        self._stems.add(normalize_to_history_tool_id(repaired.id))
        return self._pairing.call(PairedCall(block, repaired, segment))

    def _new_id(self, block: ToolCallBlock, content: Content, number: int) -> str | None:
        """Return another id for a call that needs one, else None."""
        occurrence = self._occurrences[block.id] = self._occurrences.get(block.id, -1) + 1
        is_legacy = self._canonicalize and not is_canonical(block.id)
        is_repeated = normalize_to_history_tool_id(block.id) in self._stems
        if block.id and not is_repeated and not is_legacy:
            return None
        turn = content.metadata.get("turn_key") or content.metadata.get("response_id")
        key = turn if isinstance(turn, str) else ""
        derived = partial(
            derived_tool_id,
            provider_name=block.metadata.get("provider") or content.metadata.get("provider"),
            raw_id=block.metadata.get("raw_id") or block.id,
            tool_name=block.name,
            call_index=number if key else occurrence,
        )
        first_id = new_id = derived(turn_key=key)
        while new_id in self._stems:  # the same call of the same turn, such as in a history that was appended twice
            salt = self._salts[first_id] = self._salts.get(first_id, 0) + 1
            new_id = derived(turn_key=f"{key}|{salt}")
        reason = "had no id" if not block.id else "occurred before" if is_repeated else "is not canonical"
        subject = f"a call of {block.name!r}" if not block.id else f"the id {block.id!r} of a call of {block.name!r}"
        self._report(Translated(f"{subject} {reason}: it is now {new_id!r}"))
        return new_id

    # ------------------------------------------------------------ writing

    def result(self) -> tuple[list[Content], list[RequestChange], bool]:
        """Return the conversation in its valid order."""
        self._changes += self._pairing.pair_remaining()
        contents: list[Content] = []
        container: _Segment | None = None
        for index, segment in enumerate(self._segments):
            if segment is container:
                continue
            if not segment.calls:
                if segment.is_complete and not segment.results:
                    contents.append(segment.source)
                elif segment.blocks:
                    contents.append(segment.with_blocks(segment.blocks))
                continue
            contents.append(self._assistant_content(segment))
            following = self._segments[index + 1] if index + 1 < len(self._segments) else None
            has_results = following is not None and any(result.matches_turn(segment) for result in following.results)
            container = following if has_results else None
            contents.append(self._tool_content(segment, container))
        return contents, self._changes, not self._pairing.early

    def _assistant_content(self, segment: _Segment) -> Content:
        """Return the content of a segment with repaired calls."""
        if segment.is_complete and all(call.repaired is call.block for call in segment.calls):
            return segment.source
        calls = iter(segment.calls)
        return segment.with_blocks(
            [next(calls).repaired if isinstance(block, ToolCallBlock) else block for block in segment.blocks]
        )

    def _tool_content(self, segment: _Segment, container: _Segment | None) -> Content:
        """Return the results of a segment's calls; *container* is the next tool content if it contains any of them."""
        blocks: list[Block] = []
        results: list[PairedResult] = []
        for call in segment.calls:
            if call.result is None:
                sentence = f"the call {call.id!r} of {call.block.name!r} had no result and got a neutral one"
                self._report(Translated(sentence))
                blocks.append(
                    ToolResponseBlock(call_id=call.id, name=call.block.name, status="canceled", error=NO_RESULT)
                )
                continue
            block = call.result.block
            blocks.append(block if block.call_id == call.id else copy_with(block, call_id=call.id))
            results.append(call.result)
        present = (
            [result for result in container.results if result.matches_turn(segment)] if container is not None else []
        )
        if not _are_identical(present, results):
            ids = ", ".join(repr(result.block.call_id) for result in results)
            sentence = f"the results with the ids {ids} were moved directly after their calls, in call order"
            self._report(Translated(sentence))
        if container is not None:
            original = [block for block in container.source.blocks if isinstance(block, ToolResponseBlock)]
            if container.is_complete and _are_identical(original, blocks):
                return container.source
            return container.with_blocks([*blocks, *container.blocks])
        source = next((result.container.source for result in results if isinstance(result.container, _Segment)), None)
        return Content(speaker="tool", blocks=blocks, metadata=dict(source.metadata) if source is not None else {})


def _are_identical(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))
