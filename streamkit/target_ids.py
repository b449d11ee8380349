"""Target ids: the type of an id rule, functions to build rules, and the assignment of ids in a conversation.

The rule of a provider is in its package (``traits.py``), with its source. Each rendering of a conversation converts
canonical ids to target ids again. The functions are pure and nothing is random, so two renderings give the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from msgspec import Struct

from streamkit.ids import (
    HISTORY_PREFIX,
    derived_tool_id,
    is_canonical,
    is_safe_id,
    mark_id,
    normalize_to_openai_tool_id,
)

__all__ = ["DEFAULT_ID_RULE", "IdRule", "TargetIds", "prefixed_ids", "safe_up_to", "unchanged_ids"]


class IdRule(Struct, frozen=True):
    """The form of the ids that a target accepts for calls.

    Attributes:
        name: the name of the rule.
        accepts: returns True if the target accepts this id unchanged; called with a provider's own id that is sent
            back to it.
        make: returns the candidates for (canonical or foreign id, tool's name, running number of the call in the
            conversation), an endless iterator, best first; the first candidate that no other call has is used.
        source: the page or thread that states the rule.
    """

    name: str
    accepts: Callable[[str], bool]
    make: Callable[[str, str, int], Iterator[str]]
    source: str


def safe_up_to(max_length: int) -> Callable[[str], bool]:
    """Return a predicate that is True for ids of 1 to ``max_length`` characters, all of ``[A-Za-z0-9_-]``."""
    return lambda text: is_safe_id(text, max_length)


def prefixed_ids(
    prefix: str, max_length: int, convert: Callable[[str], str] = str
) -> Callable[[str, str, int], Iterator[str]]:
    """Return a function for `IdRule.make` that puts a prefix before each id.

    In a canonical id the prefix replaces the history prefix; any other id is passed to ``convert``. Every candidate is
    in the safe alphabet and at most ``max_length`` long: any other form is shortened and gets a hash of the original.
    """
    has_place = is_safe_id(prefix + derived_tool_id()[len(HISTORY_PREFIX) :], max_length)  # for any canonical id

    def make(id: str, name: str, number: int) -> Iterator[str]:
        is_known = is_canonical(id)
        form = prefix + id[len(HISTORY_PREFIX) :] if is_known else convert(id)
        is_legal = has_place if is_known else is_safe_id(form, max_length)
        yield form if is_legal else mark_id(form, id, max_length)
        yield from (mark_id(form, f"{id}|{salt}", max_length) for salt in count(1))

    return make


def unchanged_ids(id: str, name: str, number: int) -> Iterator[str]:
    """Yield the id unchanged, then with a number after it."""
    yield id
    yield from (f"{id}_{salt}" for salt in count(1))


#: The rule for a provider that declares none: a form that most wires accept.
DEFAULT_ID_RULE = IdRule(
    "default", safe_up_to(40), prefixed_ids("call_", 40, normalize_to_openai_tool_id), "a short id of the common form"
)


class TargetIds:
    """The target ids of one rendered conversation.

    A call and its result get the same target id; two different ids never do. If two ids have the same candidate, the
    first one gets it and the later one is hashed again, so call the methods in the order of the conversation. Create
    a new object for each rendering.

    Args:
        rule: the target's rule.
        used: ids of calls that precede this conversation; no call gets one of them.
    """

    __slots__ = ("_rule", "_target_ids", "_used")

    def __init__(self, rule: IdRule, used: Iterable[str] = ()) -> None:
        self._rule = rule
        self._target_ids: dict[str, str] = {}
        self._used: set[str] = set(used)

    def call(self, id: str, name: str = "", *, origin: Any = None) -> str:
        """Return the target id of a call.

        Args:
            id: the call's id in history.
            name: its tool's name, which some rules put into the id.
            origin: the provider's own id of the call if it is sent back to that provider; it is used if the target
                accepts it and no other call has it.
        """
        assigned = self._target_ids.get(id)
        if assigned is not None:
            return assigned
        if isinstance(origin, str) and origin not in self._used and self._rule.accepts(origin):
            target_id = origin
        else:
            forms = self._rule.make(id, name, len(self._target_ids))
            while (target_id := next(forms)) in self._used:
                pass
        self._target_ids[id] = target_id
        self._used.add(target_id)
        return target_id

    def result(self, id: str, name: str = "", *, origin: Any = None) -> str:
        """Return the target id of the call that a result belongs to; a result without a call gets a new id."""
        return self.call(id, name, origin=origin)
