"""Responses that a client of the Responses wire refers to in later requests instead of sending them back.

Unless a request says ``"store": false``, its response is stored
(https://platform.openai.com/docs/api-reference/responses/create), and a later request may have ``item_reference`` items
(the AI SDK's default) or ``previous_response_id`` in its place. No upstream has the items, whose ids the gateway made,
so the gateway keeps them: in memory, as JSON, the oldest go first. A reference to one that is gone is refused as the
API refuses it; left out, it would lose a part of the conversation silently. What may take long, ``encode_items`` and
``References.resolve``, uses no state, so that it can run in a thread. This module must not depend on ASGI.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamkit.errors import UsageError
from streamkit.json_text import replace_lone_surrogates

__all__ = [
    "ReferenceNotFound",
    "References",
    "ReferencesTooLarge",
    "StoredResponses",
    "encode_items",
    "refuse_references_to_openai",
]

Json = dict[str, Any]

#: Bytes of memory beside the JSON: of an item its object and places in three tables, of a response its id and place.
_ITEM_SIZE = 400
_RESPONSE_SIZE = 600
_REFERENCE_SIZE = 8
#: Items of a conversation that is stored; a model reads far fewer.
_MOST_ITEMS = 50_000


class ReferenceNotFound(UsageError):
    """A reference to a response or an item that is not stored."""


class ReferencesTooLarge(UsageError):
    """References to more than a body may have."""


def refuse_references_to_openai(body: Any) -> None:
    """Refuse a request that refers to what OpenAI stores, for an upstream that has another wire.

    Raises:
        ReferenceNotFound: it names a conversation or a prompt.
    """
    for name in ("conversation", "prompt") if isinstance(body, dict) else ():
        given = body.get(name)
        found = given.get("id") if isinstance(given, dict) else given
        if isinstance(found, str):
            raise ReferenceNotFound(
                f"{name.capitalize()} with id '{found}' not found: only OpenAI has it, and the upstream is another one."
            )


@dataclass(frozen=True, slots=True)
class References:
    """The items of a request that refers to stored ones: what the client sent, and stored items as JSON."""

    body: Json
    items: Sequence[Any]
    size: int  #: bytes of the stored items

    def resolve(self) -> Json:
        """Return the body with the stored items in the place of references to them; one in several places is one."""
        decoded = {item: msgspec.json.decode(item) for item in {item for item in self.items if isinstance(item, bytes)}}
        items = [decoded[item] if isinstance(item, bytes) else item for item in self.items]
        return {name: value for name, value in self.body.items() if name != "previous_response_id"} | {"input": items}


def encode_items(body: Json, output: Sequence[Json]) -> list[bytes] | None:
    """Return the conversation of a request's body and its response as JSON; None if it must not be stored."""
    items = [*_as_items(body.get("input")), *output]
    if body.get("store") is False or len(items) > _MOST_ITEMS:
        return None
    encoded_items: list[bytes] = []
    for item in items:
        try:
            encoded = msgspec.json.encode(item)
        except UnicodeEncodeError:  # half of a surrogate pair, for which bodies have U+FFFD (`bodies`)
            encoded = msgspec.json.encode(replace_lone_surrogates(item))
        encoded_items.append(bytes(memoryview(encoded)))  # msgspec's own has up to a half more memory
    return encoded_items


@dataclass(frozen=True, slots=True)
class _Stored:
    """A response: all items of its conversation as JSON, of which the last ones are its output."""

    conversation: Sequence[bytes]
    item_ids: Sequence[str]


class StoredResponses:
    """The latest responses, each item as JSON, which has a tenth of the memory of its objects.

    Responses share the items that they have in common: clients send most of a conversation again with each request.

    Args:
        limit: the most bytes of memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._responses: OrderedDict[str, _Stored] = OrderedDict()
        self._items: dict[str, bytes] = {}  # by the item's id
        self._shared: dict[bytes, bytes] = {}
        self._counts: Counter[bytes] = Counter()  # how often the conversations have an item

    def find(self, body: Any, limit: int) -> References | None:
        """Return the stored items that a request's body refers to; None if it refers to none.

        Each reference counts all of its bytes, because what is sent to the upstream has them.

        Args:
            body: the decoded body.
            limit: the most bytes of the items that references resolve to.

        Raises:
            ReferenceNotFound: a referenced response or item is not stored.
            ReferencesTooLarge: the items have more bytes.
        """
        if not isinstance(body, dict):
            return None
        given, previous = body.get("input"), body.get("previous_response_id")
        items = given if isinstance(given, list) else []
        has_references = any(isinstance(item, dict) and item.get("type") == "item_reference" for item in items)
        if not isinstance(previous, str) and not has_references:
            return None
        found: list[Any] = []
        if isinstance(previous, str):
            if (stored := self._responses.get(previous)) is None:
                raise ReferenceNotFound(f"Previous response with id '{previous}' not found.")
            found += stored.conversation
        for item in _as_items(given):
            if isinstance(item, dict) and item.get("type") == "item_reference":
                if (kept := self._items.get(str(item.get("id")))) is None:
                    raise ReferenceNotFound(
                        f"Item with id '{item.get('id')}' not found: send the item itself, as with \"store\": false."
                    )
                item = kept
            found.append(item)
        size = sum(len(item) for item in found if isinstance(item, bytes))  # no JSON of a client is bytes
        if size > limit:
            raise ReferencesTooLarge(f"the items that the body refers to have {size} bytes, this gateway takes {limit}")
        return References(body, found, size)

    def add(self, response_id: str, items: Sequence[bytes], output: Sequence[Json]) -> None:
        """Store a complete response, unless it alone is above the limit.

        Args:
            response_id: the id that the client got.
            items: its conversation, as ``encode_items`` returned it.
            output: the items of the response, which are the last ones.
        """
        own: dict[bytes, bytes] = {}
        conversation: list[bytes] = []
        size = _RESPONSE_SIZE
        for encoded in items:
            if encoded not in own:
                own[encoded] = encoded
                size += len(encoded) + _ITEM_SIZE
            if size > self._limit:
                return
            conversation.append(self._shared.get(encoded) or own[encoded])
        first = len(items) - len(output)
        ids = {item["id"]: first + place for place, item in enumerate(output) if isinstance(item.get("id"), str)}
        self._items.update((item_id, conversation[place]) for item_id, place in ids.items())
        self._responses[response_id] = _Stored(tuple(conversation), tuple(ids))
        self._size += _RESPONSE_SIZE + _REFERENCE_SIZE * len(conversation) + _ITEM_SIZE * len(ids)
        for encoded in conversation:
            if encoded not in self._shared:
                self._shared[encoded] = encoded
                self._size += len(encoded) + _ITEM_SIZE
            self._counts[encoded] += 1
        while self._size > self._limit:
            _, oldest = self._responses.popitem(last=False)
            self._size -= _RESPONSE_SIZE + _REFERENCE_SIZE * len(oldest.conversation)
            for item_id in oldest.item_ids:
                self._items.pop(item_id, None)
                self._size -= _ITEM_SIZE
            for encoded in oldest.conversation:
                self._counts[encoded] -= 1
                if not self._counts[encoded]:
                    del self._counts[encoded], self._shared[encoded]
                    self._size -= len(encoded) + _ITEM_SIZE


def _as_items(given: Any) -> list[Any]:
    """Return the input of a request as items; text is a message of the user."""
    if isinstance(given, list):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else []
