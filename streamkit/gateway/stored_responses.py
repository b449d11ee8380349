"""Responses that a client of the Responses wire refers to in later requests instead of sending them back.

Unless a request says ``"store": false``, its response is stored
(https://platform.openai.com/docs/api-reference/responses/create), and a later request may have ``item_reference`` items
(the AI SDK's default) or ``previous_response_id`` in its place. No upstream has the items, whose ids the gateway made,
so the gateway keeps them: in memory, the oldest go first. A reference to one that is gone is refused as the API refuses
it; left out, it would lose a part of the conversation silently. This module must not depend on ASGI.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamkit.errors import UsageError

__all__ = ["ReferenceNotFound", "StoredResponses", "refuse_references_to_openai"]

Json = dict[str, Any]


class ReferenceNotFound(UsageError):
    """A reference to a response or an item that is not stored."""


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
class _Stored:
    """A response: all items of its conversation, of which the last ones are its output."""

    conversation: Sequence[Any]
    item_ids: Sequence[str]
    size: int


class StoredResponses:
    """The latest responses.

    Args:
        limit: the most bytes of their JSON.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._responses: OrderedDict[str, _Stored] = OrderedDict()
        self._items: dict[str, Json] = {}

    def resolve(self, body: Any) -> Any:
        """Return a request's body with the stored items in the place of references to them.

        Raises:
            ReferenceNotFound: a referenced response or item is not stored.
        """
        if not isinstance(body, dict):
            return body
        given, previous = body.get("input"), body.get("previous_response_id")
        items = given if isinstance(given, list) else []
        has_references = any(isinstance(item, dict) and item.get("type") == "item_reference" for item in items)
        if not isinstance(previous, str) and not has_references:
            return body
        resolved: list[Any] = []
        for item in _as_items(given):
            if isinstance(item, dict) and item.get("type") == "item_reference":
                if (kept := self._items.get(str(item.get("id")))) is None:
                    raise ReferenceNotFound(
                        f"Item with id '{item.get('id')}' not found: send the item itself, as with \"store\": false."
                    )
                item = kept
            resolved.append(item)
        if isinstance(previous, str):
            if (stored := self._responses.get(previous)) is None:
                raise ReferenceNotFound(f"Previous response with id '{previous}' not found.")
            resolved = [*stored.conversation, *resolved]
        return {name: value for name, value in body.items() if name != "previous_response_id"} | {"input": resolved}

    def add(self, response_id: str, body: Json, output: Sequence[Json]) -> None:
        """Store a complete response, unless its request forbids it.

        Args:
            response_id: the id that the client got.
            body: the request's body, as ``resolve`` returned it.
            output: the items of the response.
        """
        if body.get("store") is False:
            return
        conversation = [*_as_items(body.get("input")), *output]
        size = len(msgspec.json.encode(conversation))
        if size > self._limit:
            return
        item_ids = [item["id"] for item in output if isinstance(item.get("id"), str)]
        self._responses[response_id] = _Stored(conversation, item_ids, size)
        self._items.update((item["id"], item) for item in output if isinstance(item.get("id"), str))
        self._size += size
        while self._size > self._limit:
            _, oldest = self._responses.popitem(last=False)
            self._size -= oldest.size
            for item_id in oldest.item_ids:
                self._items.pop(item_id, None)


def _as_items(given: Any) -> list[Any]:
    """Return the input of a request as items; text is a message of the user."""
    if isinstance(given, list):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else []
