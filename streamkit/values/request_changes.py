"""The changes of a request for its target: a sentence each, with a class for its effect on the meaning.

The meaning is the question, its material, and the actions that are allowed (docs/rules.md, "A strict gateway").
`Translated`, `InWords` and `LeftOut` leave it. A change gets its class where it is made. The lists of callers get plain
texts, because encoders such as msgspec's accept no subclass of ``str``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

__all__ = [
    "ChangeList",
    "Described",
    "InWords",
    "LeftOut",
    "Lost",
    "RequestChange",
    "Translated",
    "add_changes",
    "changes_meaning",
    "without_fields",
]

#: Fields of bodies, messages and tools for the account, the cache or the transport of their own provider.
_NO_MEANING: Final = frozenset(
    (
        *("cache_control", "prompt_cache_breakpoint", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "service_tier", "serviceTier", "performanceConfig", "inference_geo", "speed"),
        *("priority", "keep_alive", "safety_identifier", "user", "user_id", "metadata", "client_metadata"),
        *("requestMetadata", "labels", "store", "stream_options", "include", "id", "status", "index"),
        "eager_input_streaming",
    )
)


class RequestChange(str):
    """A sentence about one thing of a request that was changed or left out."""

    __slots__ = ()


class Translated(RequestChange):
    """It is there in another form, with all of it."""

    __slots__ = ()


class InWords(RequestChange):
    """The model reads all of it as text."""

    __slots__ = ()


class LeftOut(RequestChange):
    """It is not there, and the request has the same meaning."""

    __slots__ = ()


class Lost(RequestChange):
    """The request has another meaning."""

    __slots__ = ()


class Described(Lost):
    """The request has another meaning, and a text for the model names the missing part."""

    __slots__ = ()


class ChangeList(list[str]):
    """A list that gets changes with their classes."""


def add_changes(changes: list[str], made: Iterable[str]) -> None:
    """Add changes to the list of a caller."""
    changes += made if isinstance(changes, ChangeList) else map(str, made)


def changes_meaning(change: str) -> bool:
    """Return True if the request has another meaning, or if it is not known to have the same."""
    return not isinstance(change, (Translated, InWords, LeftOut))


def without_fields(sentence: str, names: Collection[str]) -> RequestChange:
    """Return a sentence about fields that were left out; of a path its first part decides about the meaning."""
    return (LeftOut if _NO_MEANING.issuperset(name.partition(".")[0] for name in names) else Lost)(sentence)
