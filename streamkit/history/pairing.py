"""Pairing of calls and results over a complete history.

A result is paired by name first: the call's id, then the provider's raw id, then the id with another prefix. Several
calls may have the same name (Kimi counts anew in every turn): then the call is in the nearest turn before the result
that has one without a result, and in that turn the first. A name that no earlier call has is searched in later calls,
except for the raw id of a result with a canonical id: if its own call was removed, a later one of that raw id (Kimi's
``functions.x:0``) is another call.
Only a result without any id is paired by its position, and only with the calls of the turn just before it: those of
its tool's name, and if none has it, those that are left, provided that there are as many of them. An id that no call
has is never paired: that result is dropped.

It depends on calls and results in their order, not on the layout of contents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec import Struct

from streamkit.history.content import ToolCallBlock, ToolResponseBlock
from streamkit.ids import is_canonical, normalize_to_history_tool_id
from streamkit.values.request_changes import Lost, RequestChange, Translated

__all__ = ["NO_RESULT", "PairedCall", "PairedResult", "Pairing"]

#: The neutral result of a call without a result. The reason is unknown, so it does not claim an interruption
#: (vybestack/llxprt-code#176).
NO_RESULT = "No result: the call was not completed."


class PairedCall(Struct, eq=False):
    """A call of the history."""

    block: ToolCallBlock  #: the original block
    repaired: ToolCallBlock  #: the block in the repaired history
    turn: object  #: an object shared by all calls of one content
    number: int = 0  #: its position among all calls and results
    result: PairedResult | None = None  #: its result, once one is found

    @property
    def id(self) -> str:
        """The id in the repaired history."""
        return self.repaired.id


class PairedResult(Struct, eq=False):
    """A result of the history."""

    block: ToolResponseBlock  #: the original block
    container: object  #: the segment of a ``tool`` content that contained it; None if it was in another content
    number: int = 0  #: its position among all calls and results
    call: PairedCall | None = None  #: the call with which it is paired

    def matches_turn(self, turn: object) -> bool:
        """Return True if it is the result of a call of that turn."""
        return self.call is not None and self.call.turn is turn and self.call.result is self


class Pairing:
    """Pairs calls and results, which are added in the order of the history."""

    def __init__(self) -> None:
        self._calls: list[PairedCall] = []
        self._by_name = _CallsWithoutResult()
        self.early: list[PairedResult] = []  # no earlier call has their name
        self._nameless: list[PairedResult] = []
        self._count = 0
        self._changes: list[RequestChange] = []

    def call(self, call: PairedCall) -> PairedCall:
        """Add the next call."""
        self._count += 1
        call.number = self._count
        self._calls.append(call)
        for name in _names_of_call(call.block):
            self._by_name.add(name, call)
        return call

    def result(self, block: ToolResponseBlock, container: object) -> PairedResult:
        """Add the next result, and pair it if an earlier call has its name."""
        self._count += 1
        result = PairedResult(block, container)
        result.number = self._count
        names = list(_names_of_result(block))
        known = next((name for name in names if name in self._by_name), None)
        if known is not None:
            self._pair(result, self._by_name, known)
        else:
            (self.early if names else self._nameless).append(result)
        return result

    def pair_remaining(self) -> list[RequestChange]:
        """Pair or drop the remaining results at the end of the history. Return a sentence for each change."""
        self._pair_early()
        self._pair_nameless()
        return self._changes

    def _pair(self, result: PairedResult, calls: _CallsWithoutResult, name: Hashable) -> None:
        latest = calls.latest(name)
        call = calls.nearest(name)
        before, block = latest.result, result.block
        if call is not None and (
            before is None
            or (before.block.error, before.block.status, before.block.result)
            != (block.error, block.status, block.result)
        ):
            self._set_result(call, result)
        elif before is not None and _rank(block) > _rank(before.block):
            latest.result, result.call = result, latest
            self._changes.append(Lost(f"a failed result of the call {latest.id!r} was replaced by a later one"))
        else:
            self._changes.append(Lost(f"a further result of the call {latest.id!r} was dropped: it has one"))

    def _set_result(self, call: PairedCall, result: PairedResult) -> None:
        call.result, result.call = result, call
        if result.block.call_id != call.block.id:
            sentence = f"the result with the id {result.block.call_id!r} got the id of its call, {call.id!r}"
            self._changes.append(Translated(sentence))

    def _pair_early(self) -> None:
        """Pair results that precede their calls."""
        later_calls = _CallsWithoutResult()
        for call in reversed(self._calls) if self.early else ():
            for name in _names_of_call(call.block):
                later_calls.add(name, call, before=True)
        for result in self.early:
            names = _names_of_result(result.block, is_early=True)
            name = next((name for name in names if name in later_calls), None)
            if name is not None:
                self._pair(result, later_calls, name)
            else:
                sentence = f"a result with the id {result.block.call_id!r} was dropped: no call has that id"
                self._changes.append(Lost(sentence))

    def _pair_nameless(self) -> None:
        """Pair results without an id by their position, and by their tool's name if they have it."""
        calls = deque(self._calls)
        turn: object = None  # the last one with calls
        open_calls: dict[str | None, deque[PairedCall]] = {}
        misnamed: list[PairedResult] = []  # results of that turn; none of its calls without a result has their name
        for result in self._nameless:
            while calls and calls[0].number < result.number:
                call = calls.popleft()
                if call.turn is not turn:
                    self._pair_misnamed(misnamed, open_calls.get(None, ()))
                    turn, open_calls, misnamed = call.turn, {}, []
                if call.result is None:
                    open_calls.setdefault(None, deque()).append(call)
                    open_calls.setdefault(call.block.name, deque()).append(call)
            nearest = _first_without_result(open_calls.get(result.block.name or None))
            if nearest is not None:
                self._set_result(nearest, result)
            else:
                misnamed.append(result)
        self._pair_misnamed(misnamed, open_calls.get(None, ()))

    def _pair_misnamed(self, results: Sequence[PairedResult], calls: Iterable[PairedCall]) -> None:
        """Pair results with the calls of their turn that are left, if there are as many of them.

        Models before Gemini 3 only compare their numbers (archestra-ai/archestra#7583), so there are clients whose
        results have another name than their calls: Semantic Kernel's is ``Plugin__f`` for its call ``Plugin-f``
        (microsoft/semantic-kernel#7419).
        """
        left = [call for call in calls if call.result is None]
        if len(left) == len(results):
            for call, result in zip(left, results, strict=True):
                self._set_result(call, result)
        else:
            dropped = Lost(
                "a result without an id was dropped: the turn before it has no matching call without a result"
            )
            self._changes += [dropped] * len(results)


class _CallsWithoutResult:
    """Calls by name; of one name the last added turn comes first, and in a turn the first added call."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, list[tuple[object, deque[PairedCall]]]] = {}
        self._latest: dict[Hashable, PairedCall] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._latest

    def add(self, name: Hashable, call: PairedCall, *, before: bool = False) -> None:
        """Add a call under a name; *before*: in front of the other calls of its turn."""
        self._latest[name] = call
        turns = self._turns.setdefault(name, [])
        if not turns or turns[-1][0] is not call.turn:
            turns.append((call.turn, deque()))
        queue = turns[-1][1]
        if before:
            queue.appendleft(call)
        else:
            queue.append(call)

    def latest(self, name: Hashable) -> PairedCall:
        """Return the call that was added last under that name."""
        return self._latest[name]

    def nearest(self, name: Hashable) -> PairedCall | None:
        """Return the call without a result to which a result of that name belongs."""
        turns = self._turns[name]
        while turns:
            call = _first_without_result(turns[-1][1])
            if call is not None:
                return call
            turns.pop()
        return None


def _first_without_result(calls: deque[PairedCall] | None) -> PairedCall | None:
    """Return the first call without a result. Those before it are removed, so that the total cost is linear."""
    while calls:
        if calls[0].result is None:
            return calls[0]
        calls.popleft()
    return None


# ---------------------------------------------------------------- names


def _names_of_call(block: ToolCallBlock) -> Iterator[Hashable]:
    if block.id:
        yield ("id", block.id)
    raw_id = block.metadata.get("raw_id")
    if isinstance(raw_id, str) and raw_id:
        yield ("raw", raw_id)
    if block.id:
        yield ("stem", normalize_to_history_tool_id(block.id))


def _names_of_result(block: ToolResponseBlock, *, is_early: bool = False) -> Iterator[Hashable]:
    """Yield the names by which a result's call may be known, the most certain first."""
    if block.call_id:
        yield ("id", block.call_id)
        yield ("raw", block.call_id)
    raw_id = block.metadata.get("raw_id")
    if isinstance(raw_id, str) and raw_id and not (is_early and is_canonical(block.call_id)):
        yield ("raw", raw_id)
    if block.call_id:
        yield ("stem", normalize_to_history_tool_id(block.call_id))


# ---------------------------------------------------------------- comparison of results


def _rank(block: ToolResponseBlock) -> int:
    if block.error is None and block.status in (None, "completed"):
        return 2
    return 0 if block.status == "canceled" and block.error == NO_RESULT else 1
