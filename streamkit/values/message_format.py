"""How a provider's traits rate a message: whether it can have the format of their wire.

``OWN``: it has something that few formats but this one have; ``POSSIBLE``: the format can contain it; ``FOREIGN``: a
part of it would not be read. Messages of text alone are possible in most formats, and reading them as any of these
gives the same history. This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

__all__ = ["FOREIGN", "OWN", "POSSIBLE", "RateMessage", "Rating", "rate_as_possible", "rate_parts"]

Rating: TypeAlias = Literal[0, 1, 2]
FOREIGN: Rating = 0
POSSIBLE: Rating = 1
OWN: Rating = 2
#: Rates one message. It must not raise, whatever the message contains.
RateMessage: TypeAlias = Callable[[Mapping[str, Any]], Rating]


def rate_as_possible(message: Mapping[str, Any]) -> Rating:
    """Return the rating of any message by a format of which nothing is declared."""
    return POSSIBLE


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
