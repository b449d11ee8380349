"""Responses that a client of the Responses wire refers to in later requests instead of sending them back.

Unless a request says ``"store": false``, its response is stored
(https://platform.openai.com/docs/api-reference/responses/create), and a later request may have ``item_reference`` items
(the AI SDK's default) or ``previous_response_id`` in its place. No upstream has the items, whose ids the gateway made,
so the gateway keeps them in its store. A reference to one that is gone is refused as the API refuses it; left out, it
would lose a part of the conversation silently.

An item is stored once, as JSON, by its digest, because clients send most of a conversation again with each request; a
response is the digests and the sizes of its conversation. What may take long, ``encode_items`` and
``References.resolve``, uses no state, so that it can run in a thread. This module must not depend on ASGI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from streamkit.errors import UsageError
from streamkit.gateway.stores.store import OwnEntries
from streamkit.json_text import replace_lone_surrogates

__all__ = [
    "ReferenceNotFound",
    "References",
    "ReferencesTooLarge",
    "add_response",
    "encode_items",
    "find_references",
    "refuse_references_to_openai",
]

Json = dict[str, Any]

_DIGEST_SIZE = 16  # bytes; an owner could only replace items of its own conversations by others with the same digest
_SIZE_SIZE = 4
#: An item as a response refers to it: its digest, and the bytes of its JSON.
_Record: TypeAlias = tuple[str, int]
#: Items of a conversation that is stored, and references of a body; a model reads far fewer.
_MOST_ITEMS = 50_000


class ReferenceNotFound(UsageError):
    """A reference to a response or an item that is not stored."""


class ReferencesTooLarge(UsageError):
    """References to more than a body may have."""


def refuse_references_to_openai(body: Any) -> None:
    """Refuse a request that refers to objects in OpenAI's store, for an upstream that has another wire.

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
    """The items of a request that refers to stored ones: those of the client, and stored items as JSON."""

    body: Json
    items: Sequence[Any]
    size: int  #: bytes of the stored items

    def resolve(self) -> Json:
        """Return the body with the stored items in the place of references to them; one in several places is one."""
        decoded = {item: msgspec.json.decode(item) for item in {item for item in self.items if isinstance(item, bytes)}}
        items = [decoded[item] if isinstance(item, bytes) else item for item in self.items]
        return {name: value for name, value in self.body.items() if name != "previous_response_id"} | {"input": items}


async def find_references(entries: OwnEntries, body: Any, limit: int) -> References | None:
    """Return the stored items that a request's body refers to; None if it refers to none.

    Each reference counts all of its bytes, because what is sent to the upstream has them.

    Args:
        entries: those of the client.
        body: the decoded body.
        limit: the most bytes of the items that references resolve to.

    Raises:
        ReferenceNotFound: a referenced response or item is not stored.
        ReferencesTooLarge: the items have more bytes.
        StoreUnavailable: the store does not respond.
    """
    if not isinstance(body, dict):
        return None
    given, previous = body.get("input"), body.get("previous_response_id")
    wanted = [str(item.get("id")) for item in given if _is_reference(item)] if isinstance(given, list) else []
    if not isinstance(previous, str) and not wanted:
        return None
    if len(wanted) > _MOST_ITEMS:
        raise ReferencesTooLarge(f"the body refers to {len(wanted)} items, this gateway takes {_MOST_ITEMS}")
    records: list[_Record] = []
    if isinstance(previous, str):
        found = await entries.get("response", [previous])
        if previous not in found:
            raise ReferenceNotFound(f"Previous response with id '{previous[:100]}' not found.")
        records += _split(found[previous])
    by_id = {name: _split(value)[0] for name, value in (await entries.get("item_id", wanted)).items()}
    for name in wanted:
        if name not in by_id:
            raise _item_not_found(name)
    # Asked before the items are, because a database returns copies.
    size = sum(each for _, each in records) + sum(by_id[name][1] for name in wanted)
    if size > limit:
        raise ReferencesTooLarge(f"the items that the body refers to have {size} bytes, this gateway takes {limit}")
    digests = dict.fromkeys(digest for digest, _ in [*records, *by_id.values()])
    stored = await entries.get("item", [*digests])
    items: list[Any] = []
    for digest, _ in records:
        if digest not in stored:  # it had no place
            raise ReferenceNotFound(f"Previous response with id '{previous}' not found.")
        items.append(stored[digest])
    for item in _as_items(given):
        if _is_reference(item):
            name = str(item.get("id"))
            if (kept := stored.get(by_id[name][0])) is None:
                raise _item_not_found(name)
            item = kept
        items.append(item)
    return References(body, items, size)


def _item_not_found(name: str) -> ReferenceNotFound:
    return ReferenceNotFound(f"Item with id '{name[:100]}' not found: send the item itself, as with \"store\": false.")


def encode_items(body: Json, output: Sequence[Json]) -> list[tuple[str, bytes]] | None:
    """Return the conversation of a request's body and its response; None if it must not be stored.

    Returns:
        Of each item its digest, and its JSON.
    """
    items = [*_as_items(body.get("input")), *output]
    if body.get("store") is False or len(items) > _MOST_ITEMS:
        return None
    encoded_items: list[tuple[str, bytes]] = []
    for item in items:
        try:
            encoded = msgspec.json.encode(item)
        except UnicodeEncodeError:  # half of a surrogate pair, for which bodies have U+FFFD (`bodies`)
            encoded = msgspec.json.encode(replace_lone_surrogates(item))
        encoded = bytes(memoryview(encoded))  # msgspec's own has up to a half more memory
        encoded_items.append((sha256(encoded).digest()[:_DIGEST_SIZE].hex(), encoded))
    return encoded_items


async def add_response(
    entries: OwnEntries, response_id: str, items: Sequence[tuple[str, bytes]], output: Sequence[Json]
) -> None:
    """Store a complete response.

    Args:
        entries: those of the client.
        response_id: the id that the client got.
        items: its conversation, as ``encode_items`` returned it.
        output: the items of the response, which are the last ones.
    """
    records = [bytes.fromhex(digest) + len(encoded).to_bytes(_SIZE_SIZE) for digest, encoded in items]
    names = [item.get("id") for item in output]
    ids: Mapping[str, bytes] = {
        name: record
        for name, record in zip(names, records[len(records) - len(names) :], strict=True)
        if isinstance(name, str)
    }
    await entries.put("item", dict(items), is_same=True)
    await entries.put("item_id", ids)
    await entries.put("response", {response_id: b"".join(records)})


def _split(records: bytes) -> list[_Record]:
    """Return the digests and the sizes of stored items."""
    width = _DIGEST_SIZE + _SIZE_SIZE
    parts = [records[at : at + width] for at in range(0, len(records), width)]
    return [(part[:_DIGEST_SIZE].hex(), int.from_bytes(part[_DIGEST_SIZE:])) for part in parts]


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _as_items(given: Any) -> list[Any]:
    """Return the input of a request as items; text is a message of the user."""
    if isinstance(given, list):
        return given
    return [{"role": "user", "content": given}] if isinstance(given, str) else []
