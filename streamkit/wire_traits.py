"""The facts about a wire that the accumulator needs; a provider's traits extend them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from streamkit.calls import StreamError

__all__ = ["WireTraits"]


def _unclassified(error: StreamError) -> StreamError:
    return error


@dataclass(frozen=True, kw_only=True)
class WireTraits:
    """The facts about a wire that decide how the accumulator assigns and ends calls (docs/rules.md, "The stream").

    Attributes:
        reuses_slots: a call's key may come again for another call without an id (Chat Completions).
        whole_names: a call's first delta has its complete name.
        whole_calls: calls arrive complete, so a call without arguments was not truncated.
        calls_end_in_order: a call whose object is closed has ended once another call begins.
        second_key: the key of calls in an older form of the wire, in which a call may be sent a second time.
        content_metadata: metadata of the response that its content keeps, because the next request refers to it.
        classify_error: returns a provider's error with its ``code``, from the error object in ``raw``.
    """

    reuses_slots: bool = False
    whole_names: bool = True
    whole_calls: bool = False
    calls_end_in_order: bool = False
    second_key: str | None = None
    content_metadata: frozenset[str] = frozenset()
    classify_error: Callable[[StreamError], StreamError] = field(default=_unclassified, repr=False, compare=False)
