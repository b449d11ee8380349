"""The messages of a provider as a caller gives them: their form and their format are checked.

Objects of an SDK in them become dicts. This module must not depend on a provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import is_
from typing import Any

from pydantic import BaseModel

from streamkit.errors import UsageError
from streamkit.values.media import encode_binary
from streamkit.values.message_format import FOREIGN, OWN, RateMessage

__all__ = ["check_format", "check_messages"]

_DICT = frozenset({dict})


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


#: The types of most values in messages.
_JSON_TYPES = frozenset({dict, list, str, int, float, bool, type(None)})


def check_messages(messages: Any) -> list[dict[str, Any]]:
    """Return the messages as a list of dicts, the objects of an SDK inside of them as dicts.

    A message often has the list of objects of a response, as in ``{"role": "assistant", "content": response.content}``
    (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use).

    Raises:
        UsageError: they are anything else.
    """
    if type(messages) is not list and (not isinstance(messages, Sequence) or isinstance(messages, (str, bytes))):
        raise UsageError(f"messages must be a list of dicts, not {type(messages).__name__}")
    for index, message in enumerate(messages) if not _DICT.issuperset(map(type, messages)) else ():
        if not isinstance(message, dict):
            raise UsageError(
                f"messages[{index}] must be a dict, not {type(message).__name__}; convert an SDK object by model_dump()"
            )
    return [_without_objects(message) for message in messages] if _have_objects(messages) else list(messages)


def _have_objects(messages: Sequence[dict[str, Any]]) -> bool:
    """Return True if a field of a message, or an item of a list that is one, may be an object of an SDK."""
    values = list(chain.from_iterable(map(dict.values, messages)))
    kinds = set(map(type, values))
    if list in kinds:
        lists = compress(values, map(is_, map(type, values), repeat(list)))
        kinds.update(map(type, chain.from_iterable(lists)))
    return not kinds <= _JSON_TYPES


def _without_objects(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with dicts for the pydantic objects that are its fields or in lists of it."""
    return {
        name: [_to_dict(item) for item in value] if isinstance(value, list) else _to_dict(value)
        for name, value in message.items()
    }


def _to_dict(item: Any) -> Any:
    """Return the fields that an object was made with; any other value, or one that cannot be converted, unchanged."""
    if not isinstance(item, BaseModel):
        return item
    try:
        return encode_binary(item.model_dump(by_alias=True, exclude_unset=True, warnings=False))
    except Exception:  # a serializer of the object's own class
        return item
