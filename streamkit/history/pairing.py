"""Which call a result answers, over a whole history.

By name first: the call's id, then the provider's raw id, then the id under another prefix. One name may be several
calls' (Kimi counts anew in every turn): then it is the nearest turn before the result that has one unanswered, and in
that turn the first. A name that no call before has is looked for behind. Only a result without any id is paired by its
place, and only with the calls of the turn just before it. A name that no call has never pairs: that result is dropped.

It knows calls and results in their order, not how contents are laid out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator

from streamkit.history.content import ToolCallBlock, ToolResponseBlock
from streamkit.ids import normalize_to_history_tool_id

__all__ = ["NO_RESULT", "PairedCall", "Pairing", "PairedResult"]

#: The neutral result of a call that has none. Nobody knows why there is none, so it does not say that anybody
#: interrupted anything (vybestack/llxprt-code#176).
NO_RESULT = "No result: the call was not completed."


class PairedCall:
    """A call of the history.

    Attributes:
        block: as it was given.
        mended: as it will stand.
        turn: what all calls of one content share.
        number: its place among all calls and results.
        answer: its result, once one is found.
    """

    __slots__ = ("block", "mended", "number", "result", "turn")

    def __init__(self, block: ToolCallBlock, mended: ToolCallBlock, turn: object) -> None:
        self.block = block
        self.mended = mended
        self.turn = turn
        self.number = 0
        self.result: PairedResult | None = None

    @property
    def id(self) -> str:
        """The id that it will have."""
        return self.mended.id


class PairedResult:
    """A result of the history.

    Attributes:
        block: as it was given.
        home: the part of a ``tool`` content in which it stood; None where it stood elsewhere.
        number: its place among all calls and results.
        call: the call that it answers.
    """

    __slots__ = ("block", "call", "container", "number")

    def __init__(self, block: ToolResponseBlock, home: object) -> None:
        self.block = block
        self.container = home
        self.number = 0
        self.call: PairedCall | None = None

    def matches_turn(self, turn: object) -> bool:
        """Whether it is the answer of a call of that turn."""
        return self.call is not None and self.call.turn is turn and self.call.result is self


class Pairing:
    """Pairs calls and results, given in the order of the history; ``settle`` pairs what only the whole of it tells."""

    def __init__(self) -> None:
        self._calls: list[PairedCall] = []
        self._named = _CallsWithoutResult()
        self._early: list[PairedResult] = []  # no call before has their name
        self._nameless: list[PairedResult] = []
        self._count = 0
        self._changes: list[str] = []

    def call(self, call: PairedCall) -> PairedCall:
        """The next call."""
        self._count += 1
        call.number = self._count
        self._calls.append(call)
        for name in _names_of_call(call.block):
            self._named.add(name, call)
        return call

    def result(self, block: ToolResponseBlock, home: object) -> PairedResult:
        """The next result."""
        self._count += 1
        result = PairedResult(block, home)
        result.number = self._count
        names = list(_names_of_result(block))
        known = next((name for name in names if name in self._named), None)
        if known is not None:
            self._pair(result, self._named, known)
        else:
            (self._early if names else self._nameless).append(result)
        return result

    def pair_remaining(self) -> list[str]:
        """The history is over: pair the rest, or drop it. Gives a sentence for each thing that was done."""
        self._pair_early()
        self._pair_nameless()
        return self._changes

    def _pair(self, result: PairedResult, waiting: _CallsWithoutResult, name: Hashable) -> None:
        latest = waiting.latest(name)
        call = waiting.nearest(name)
        if call is None or (latest.result is not None and _say_the_same(latest.result.block, result.block)):
            self._again(latest, result)
        else:
            self._answer(call, result)

    def _answer(self, call: PairedCall, result: PairedResult) -> None:
        call.result, result.call = result, call
        if result.block.call_id != call.block.id:
            self._changes.append(f"the result of {result.block.call_id!r} was given the id of its call, {call.id!r}")

    def _again(self, call: PairedCall, result: PairedResult) -> None:
        """A further result of a call."""
        before = call.result
        if before is not None and _worth(result.block) > _worth(before.block):
            call.result, result.call = result, call
            self._changes.append(f"a failed result of the call {call.id!r} gave way to a later one")
        else:
            self._changes.append(f"a further result of the call {call.id!r} was dropped: it has one")

    def _pair_early(self) -> None:
        """Results that stood before their calls."""
        behind = _CallsWithoutResult()
        for call in reversed(self._calls) if self._early else ():
            for name in _names_of_call(call.block):
                behind.add(name, call, before=True)
        for result in self._early:
            name = next((name for name in _names_of_result(result.block) if name in behind), None)
            if name is not None:
                self._pair(result, behind, name)
            else:
                self._changes.append(f"a result of {result.block.call_id!r} was dropped: there is no such call")

    def _pair_nameless(self) -> None:
        """Results that do not say whose they are: by their place, and their tool's name where they have it."""
        calls = deque(self._calls)
        turn: object = None  # the last one with calls
        unanswered: dict[str | None, deque[PairedCall]] = {}
        for result in self._nameless:
            while calls and calls[0].number < result.number:
                call = calls.popleft()
                if call.turn is not turn:
                    turn, unanswered = call.turn, {}
                if call.result is None:
                    unanswered.setdefault(None, deque()).append(call)
                    unanswered.setdefault(call.block.name, deque()).append(call)
            found = _first(unanswered.get(result.block.name or None))
            if found is not None:
                self._answer(found, result)
            else:
                self._changes.append("a result without an id was dropped: the turn before it has no call for it")


class _CallsWithoutResult:
    """Calls by name; of one name the last added turn first, and in a turn the first added call."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, list[tuple[object, deque[PairedCall]]]] = {}
        self._latest: dict[Hashable, PairedCall] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._latest

    def add(self, name: Hashable, call: PairedCall, *, before: bool = False) -> None:
        """A further call of that name; *before*: it stands before the other calls of its turn."""
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
        """The call of that name that was added last."""
        return self._latest[name]

    def nearest(self, name: Hashable) -> PairedCall | None:
        """The unanswered call that a result of that name belongs to."""
        turns = self._turns[name]
        while turns:
            found = _first(turns[-1][1])
            if found is not None:
                return found
            turns.pop()
        return None


def _first(calls: deque[PairedCall] | None) -> PairedCall | None:
    """The first unanswered one; those before it are forgotten, so that all this costs each call once."""
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


def _names_of_result(block: ToolResponseBlock) -> Iterator[Hashable]:
    """The names by which a result's call may be known, the surest first."""
    if block.call_id:
        yield ("id", block.call_id)
        yield ("raw", block.call_id)
    raw_id = block.metadata.get("raw_id")
    if isinstance(raw_id, str) and raw_id:
        yield ("raw", raw_id)
    if block.call_id:
        yield ("stem", normalize_to_history_tool_id(block.call_id))


# ---------------------------------------------------------------- what results are worth


def _worth(block: ToolResponseBlock) -> int:
    if block.error is None and block.status in (None, "completed"):
        return 2
    return 0 if block.status == "canceled" and block.error == NO_RESULT else 1


def _say_the_same(one: ToolResponseBlock, other: ToolResponseBlock) -> bool:
    return (one.error, one.status, one.result) == (other.error, other.status, other.result)
