"""History made legal: behind every call exactly one result, in call order, and no id twice.

A history that was cut, merged, cancelled or edited is refused by providers at every later request: a call without a
result (anthropics/claude-code#1577), a result without its call (anthropics/claude-code#14075), the results of one round
apart or out of order, one id in several turns (Kimi counts ``functions.x:0`` anew in each, fw-ai/fireconnect#16). This
room puts that right before anything is rendered, for every target at once, and says what it did.

Words: an *asking* content is an ``ai`` content with calls; the *answer* of a call is its one result. Contents of a
speaker that is not known are not looked into and stay where they are, as renders leave them out.

It must not know of any provider's messages, nor of what an id may look like on a wire (``ids.TargetIds`` sees to that).
Who finds the call of a result is ``pairing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

from pydantic_core import from_json

from streamkit.history.content import Block, Content, ToolCallBlock, ToolResponseBlock
from streamkit.history.pairing import NO_RESULT, PairedCall, PairedResult, Pairing
from streamkit.ids import derived_tool_id, is_canonical, normalize_to_history_tool_id

__all__ = ["RepairResult", "repair"]

_SPEAKERS = frozenset({"human", "ai", "tool", "system"})


@dataclass(frozen=True, slots=True)
class RepairResult:
    """A legal history.

    Attributes:
        contents: the conversation; what was legal is the very same object as before.
        changes: a sentence for each thing that was changed; empty where nothing was.
    """

    contents: list[Content]
    changes: list[str]


def repair(contents: Sequence[Content], *, canonicalize: bool = False) -> RepairResult:
    """The same conversation, legal. What is given is not changed; to repair twice is to repair once.

    * A call without a result gets a neutral one (status ``canceled``); a result whose call cannot be found is dropped.
      It is found by the call's id or raw id, also under another prefix; without an id by its place and name, among the
      calls of the turn just before it; a result that stands before its call goes behind it.
    * Results stand in one ``tool`` content directly behind the content of their calls, in call order. Whatever else
      stood between keeps its order behind them, and so does what an ``ai`` content said after a result.
    * Of several results of one call the first completed one stays, else the first. A neutral one gives way to any.
    * A call without an id gets one, and so does each call whose id was there before, be it under another prefix.
      Results of such an id belong to the nearest call before them that has none yet. The new id is derived from the
      provider, the raw id, the tool's name, the ``turn_key`` or ``response_id`` in the content's metadata and the
      call's number in its content: it stays the same when history before it is pruned. Only where there is no such
      metadata the number of equal ids before it counts.
    * Arguments that are no object become one: what their text says, or ``{}`` with the text as
      ``metadata["raw_arguments"]``.
    * A call in a message of another speaker is put into an ``ai`` content of its own.

    No text, image or file is lost. Ids that are unique stay as they are, canonical or not: renders make legal ones of
    them, and what people stored keeps its name.

    Args:
        contents: the conversation, whole: of a part of it, results of calls before it would be dropped.
        canonicalize: give every call that has no canonical id one (legacy ids such as ``call_...`` or ``toolu_...``,
            to convert a store once), its results with it; the old id is kept as ``metadata["raw_id"]``.
    """
    mending = _Repairer(canonicalize=canonicalize)
    for content in contents:
        mending.read(content)
    return mending.result()


class _Segment:
    """A content, or the part of one that stays together.

    Attributes:
        source: the content as it was given.
        speaker: whose words these are: the source's, or ``ai`` for calls that stood elsewhere.
        blocks: its blocks without results, calls as they were given.
        calls: the calls among them.
        results: the results that stood here, of a ``tool`` content.
        is_whole: it is the whole of its source.
    """

    __slots__ = ("blocks", "calls", "is_whole", "results", "source", "speaker")

    def __init__(self, source: Content, speaker: str, *, is_whole: bool = False) -> None:
        self.source = source
        self.speaker = speaker
        self.blocks: list[Block] = list(source.blocks) if is_whole else []
        self.calls: list[PairedCall] = []
        self.results: list[PairedResult] = []
        self.is_whole = is_whole

    def with_blocks(self, blocks: list[Block]) -> Content:
        """A content like the source, with other blocks."""
        if self.speaker != self.source.speaker:
            return Content(speaker=self.speaker, blocks=blocks)
        return self.source.model_copy(update={"blocks": blocks})


class _Repairer:
    """One repair: contents are read in order, then written in the legal one."""

    def __init__(self, *, canonicalize: bool) -> None:
        self._canonicalize = canonicalize
        self._stretches: list[_Segment] = []
        self._pairing = Pairing()
        self._changes: list[str] = []
        self._stems: set[str] = set()  # ids without their prefix: some renders only change that
        self._times: dict[str, int] = {}  # how many calls had an id
        self._salts: dict[str, int] = {}  # of new ids that are taken

    def _say(self, sentence: str) -> None:
        self._changes.append(sentence)

    # ------------------------------------------------------------ reading

    def read(self, content: Content) -> None:
        """The next message of the conversation."""
        held = {type(block) for block in content.blocks} if content.speaker in _SPEAKERS else set()
        if not held & {ToolCallBlock, ToolResponseBlock}:
            self._stretches.append(_Segment(content, content.speaker, is_whole=True))
        elif content.speaker == "ai":
            self._read_assistant(content)
        else:
            self._read_other(content)

    def _read_assistant(self, content: Content) -> None:
        """What the model said, cut where a result follows calls: what it said then, it said knowing the result."""
        stretch = _Segment(content, "ai")
        first = stretch
        number = 0
        behind_results = False
        for block in content.blocks:
            if isinstance(block, ToolResponseBlock):
                behind_results = bool(stretch.calls)
                self._pairing.result(block, None)
                continue
            if behind_results:
                self._keep(stretch)
                stretch = _Segment(content, "ai")
                behind_results = False
            stretch.blocks.append(block)
            if isinstance(block, ToolCallBlock):
                stretch.calls.append(self._call(block, content, number, stretch))
                number += 1
        stretch.is_whole = stretch is first and len(stretch.blocks) == len(content.blocks)
        self._keep(stretch)

    def _read_other(self, content: Content) -> None:
        """What anybody else said; calls that stand there are the model's all the same."""
        stretch = first = _Segment(content, content.speaker)
        number = 0
        for block in content.blocks:
            is_call = isinstance(block, ToolCallBlock)
            speaker = "ai" if is_call else content.speaker
            if speaker != stretch.speaker:
                self._keep(stretch)
                stretch = _Segment(content, speaker)
            if isinstance(block, ToolResponseBlock):
                result = self._pairing.result(block, stretch if content.speaker == "tool" else None)
                if content.speaker == "tool":
                    stretch.results.append(result)
                continue
            stretch.blocks.append(block)
            if isinstance(block, ToolCallBlock):
                stretch.calls.append(self._call(block, content, number, stretch))
                number += 1
                self._say(
                    f"the call {stretch.calls[-1].id!r} of {block.name!r} stood in a message of the speaker "
                    f"{content.speaker!r} and was put into an assistant message"
                )
        whole = len(stretch.blocks) + len(stretch.results) == len(content.blocks)
        stretch.is_whole = stretch is first and whole
        self._keep(stretch)

    def _keep(self, stretch: _Segment) -> None:
        if stretch.blocks or stretch.results:
            self._stretches.append(stretch)

    # ------------------------------------------------------------ calls

    def _call(self, block: ToolCallBlock, content: Content, number: int, stretch: _Segment) -> PairedCall:
        update: dict[str, Any] = {}
        new_id = self._new_id(block, content, number)
        if new_id is not None:
            update["id"] = new_id
            if block.id and "raw_id" not in block.metadata and not is_canonical(block.id):
                update["metadata"] = {**block.metadata, "raw_id": block.id}
        if block.kind == "function" and not isinstance(block.parameters, dict):
            read = _object(block.parameters)
            update["parameters"] = read or {}
            if read is None:
                update["metadata"] = {"raw_arguments": block.parameters, **update.get("metadata", block.metadata)}
            self._say(f"the arguments of the call {block.id!r} of {block.name!r} were no object: they are one now")
        mended = block.model_copy(update=update) if update else block
        self._stems.add(normalize_to_history_tool_id(mended.id))
        return self._pairing.call(PairedCall(block, mended, stretch))

    def _new_id(self, block: ToolCallBlock, content: Content, number: int) -> str | None:
        """Another id for a call, where it needs one."""
        times = self._times[block.id] = self._times.get(block.id, -1) + 1
        legacy = self._canonicalize and not is_canonical(block.id)
        repeated = normalize_to_history_tool_id(block.id) in self._stems
        if block.id and not repeated and not legacy:
            return None
        turn = content.metadata.get("turn_key") or content.metadata.get("response_id")
        key = turn if isinstance(turn, str) else ""
        derived = partial(
            derived_tool_id,
            provider_name=block.metadata.get("provider") or content.metadata.get("provider"),
            raw_id=block.metadata.get("raw_id") or block.id,
            tool_name=block.name,
            call_index=number if key else times,
        )
        plain = made = derived(turn_key=key)
        while made in self._stems:  # the same call of the same turn, as where a history was appended twice
            salt = self._salts[plain] = self._salts.get(plain, 0) + 1
            made = derived(turn_key=f"{key}|{salt}")
        why = "had no id" if not block.id else "was there before" if repeated else "is not canonical"
        subject = f"a call of {block.name!r}" if not block.id else f"the id {block.id!r} of a call of {block.name!r}"
        self._say(f"{subject} {why}: it is {made!r} now")
        return made

    # ------------------------------------------------------------ writing

    def result(self) -> RepairResult:
        """The conversation in its legal order."""
        self._changes += self._pairing.pair_remaining()
        contents: list[Content] = []
        home: _Segment | None = None
        for place, stretch in enumerate(self._stretches):
            if stretch is home:
                continue
            if not stretch.calls:
                if stretch.is_whole and not stretch.results:
                    contents.append(stretch.source)
                elif stretch.blocks:
                    contents.append(stretch.with_blocks(stretch.blocks))
                continue
            contents.append(self._assistant_content(stretch))
            behind = self._stretches[place + 1] if place + 1 < len(self._stretches) else None
            answers_here = behind is not None and any(result.matches_turn(stretch) for result in behind.results)
            home = behind if answers_here else None
            contents.append(self._tool_content(stretch, home))
        return RepairResult(contents, self._changes)

    def _assistant_content(self, stretch: _Segment) -> Content:
        if stretch.is_whole and all(call.mended is call.block for call in stretch.calls):
            return stretch.source
        calls = iter(stretch.calls)
        return stretch.with_blocks(
            [next(calls).mended if isinstance(block, ToolCallBlock) else block for block in stretch.blocks]
        )

    def _tool_content(self, stretch: _Segment, home: _Segment | None) -> Content:
        """The results of a content's calls; *home* is the tool content that stands behind it and holds any of them."""
        blocks: list[Block] = []
        answers: list[PairedResult] = []
        for call in stretch.calls:
            if call.result is None:
                self._say(f"the call {call.id!r} of {call.block.name!r} had no result: it got a neutral one")
                blocks.append(
                    ToolResponseBlock(call_id=call.id, name=call.block.name, status="canceled", error=NO_RESULT)
                )
                continue
            block = call.result.block
            blocks.append(block if block.call_id == call.id else block.model_copy(update={"call_id": call.id}))
            answers.append(call.result)
        stood = [result for result in home.results if result.matches_turn(stretch)] if home is not None else []
        if not _are_same(stood, answers):
            named = ", ".join(repr(answer.block.call_id) for answer in answers)
            self._say(f"the results of {named} were put directly behind their calls, in call order")
        if home is not None:
            given = [block for block in home.source.blocks if isinstance(block, ToolResponseBlock)]
            if home.is_whole and _are_same(given, blocks):
                return home.source
            return home.with_blocks([*blocks, *home.blocks])
        source = next((answer.container.source for answer in answers if isinstance(answer.container, _Segment)), None)
        return Content(speaker="tool", blocks=blocks, metadata=dict(source.metadata) if source is not None else {})


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _object(text: Any) -> dict[str, Any] | None:
    """What an argument text says, where it is an object; ``{}`` of an empty one."""
    try:
        value = from_json(text, allow_inf_nan=False) if text.strip() else {}
    except (AttributeError, TypeError, ValueError):
        return None
    return value if isinstance(value, dict) else None
