"""The messages of a provider as a caller gives them: their form is checked, and objects of an SDK become dicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, repeat
from operator import is_
from typing import Any

from pydantic import BaseModel

from streamkit.errors import UsageError
from streamkit.media import encode_binary

__all__ = ["check_messages"]

_DICT = frozenset({dict})
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
