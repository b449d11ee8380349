"""The format of a list of messages: whose it is, and an error if it is another one than the caller named.

Each provider's traits rate a message (``rate_message``): ``OWN`` if it has something that few formats but this one
have, ``POSSIBLE`` if the format can contain it, ``FOREIGN`` if a part of it would not be read. Messages of text alone
are possible in most formats, and reading them as any of these gives the same history. This module must not depend on a
provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from streamkit.errors import UsageError

__all__ = ["FOREIGN", "OWN", "POSSIBLE", "RateMessage", "Rating", "check_format", "rate_parts"]

Rating: TypeAlias = Literal[0, 1, 2]
FOREIGN: Rating = 0
POSSIBLE: Rating = 1
OWN: Rating = 2
#: Rates one message. It must not raise, whatever the message contains.
RateMessage: TypeAlias = Callable[[Mapping[str, Any]], Rating]


def rate_parts(content: Any, rate: Callable[[Mapping[str, Any]], Rating]) -> Rating:
    """Return the rating of a content: text alone is possible, a list has the rating of its parts.

    A foreign part makes it foreign, else one own part makes it own.
    """
    if content is None or isinstance(content, str):
        return POSSIBLE
    if not isinstance(content, list):
        return FOREIGN
    ratings = {rate(part) if isinstance(part, dict) else POSSIBLE for part in content}
    return FOREIGN if FOREIGN in ratings else OWN if OWN in ratings else POSSIBLE


def check_format(
    messages: Sequence[Mapping[str, Any]],
    name: str,
    rate: RateMessage,
    list_formats: Callable[[], Iterable[tuple[str, RateMessage]]],
) -> None:
    """Check that messages can be of the format that the caller named.

    They cannot if none of them has anything of this format, some have parts of another, and another fits better.

    Args:
        messages: the messages.
        name: the name of the format.
        rate: its function.
        list_formats: returns the names and functions of all formats.

    Raises:
        UsageError: they are of another format; the message names it.
    """
    foreign = 0
    for message in messages:
        rating = rate(message)
        if rating == OWN:
            return
        foreign += rating == FOREIGN
    if not foreign:
        return
    counts = {other: _count(messages, rate_other) for other, rate_other in list_formats()}
    best = min(counts.values(), key=lambda count: (count[0], -count[1]), default=(foreign, 0))
    if best[0] >= foreign:
        return  # of no known format: unknown messages are kept as opaque blocks
    fitting = [repr(other) for other, count in counts.items() if count == best]
    raise UsageError(
        f"the messages do not have the format of {name!r}; they look like messages of {' or '.join(fitting)}:"
        f" call parse_messages(messages, {fitting[0]})"
    )


def _count(messages: Sequence[Mapping[str, Any]], rate: RateMessage) -> tuple[int, int]:
    """Return how many messages are foreign, and how many are own."""
    ratings = [rate(message) for message in messages]
    return ratings.count(FOREIGN), ratings.count(OWN)
