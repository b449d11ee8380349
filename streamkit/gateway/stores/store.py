"""``Store``, where a gateway keeps entries for later requests: the state of calls, responses, the key of carried state.

Clients of most wires drop the state of an upstream (`translation.opaque_state`), and refer to responses by ids that the
gateway made. Workers of one gateway, and a gateway after its restart, find both in a store that they share: a database
or a server of Redis's protocol. Without one a ``MemoryStore`` has them. Every entry is of one owner, the key that the
client has sent, and no other owner finds it (`OwnEntries`). This module must not depend on ASGI.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from time import monotonic
from typing import Protocol

__all__ = ["DAY", "ENTRY_SIZE", "MemoryStore", "OwnEntries", "Store", "StoreUnavailable"]

_log = logging.getLogger("streamkit.gateway")

DAY = 86_400.0  #: seconds after which an entry that nobody asks for is gone
ENTRY_SIZE = 330  #: bytes that an entry takes beside its key and its value, about
_LONGEST_NAME = 200  # characters


class Store(Protocol):
    """Keeps values by key for a time, and may lose any of them sooner: it then has fewer, never others.

    Methods may raise any exception if the store does not respond. A request goes on without what it would have found,
    except one that refers to a stored response, which is refused with status 503.
    """

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values of those keys that are stored, and start their time again."""

    async def renew(self, keys: Sequence[str]) -> set[str]:
        """Start the time of entries again; return the keys that are stored."""

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Store values, in place of earlier ones."""

    async def add(self, key: str, value: bytes) -> bytes:
        """Store a value without an end unless the key has one; return the one that is stored."""

    async def aclose(self) -> None:
        """Close connections. The store can be used again."""


class MemoryStore:
    """The store of one process. What was not asked for longest goes first.

    Args:
        limit: the most bytes of memory. A value that alone is above it is not stored.
        seconds: how long an entry is kept that nobody asks for.
        clock: returns seconds.
    """

    def __init__(
        self, limit: int = 64 * 1024 * 1024, *, seconds: float = DAY, clock: Callable[[], float] = monotonic
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # with the end of its time, in that order
        self.size: int = 0  #: bytes of memory

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values of those keys that are stored."""
        known = await self.renew(keys)
        return {key: self._entries[key][0] for key in known}

    async def renew(self, keys: Sequence[str]) -> set[str]:
        """Start the time of entries again; return the keys that are stored."""
        now, entries = self._clock(), self._entries
        self._remove_old(now)
        known = {key for key in keys if key in entries}
        for key in known:
            entries[key] = (entries[key][0], now + self._seconds)
            entries.move_to_end(key)
        return known

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Store values, in place of earlier ones."""
        now = self._clock()
        for key, value in entries.items():
            self._remove(key)
            size = ENTRY_SIZE + len(key) + len(value)
            if size <= self._limit:
                self._entries[key] = (value, now + self._seconds)
                self.size += size
        self._remove_old(now)

    async def add(self, key: str, value: bytes) -> bytes:
        """Store a value until others take its place unless the key has one; return the one that is stored."""
        found = (await self.get([key])).get(key)
        if found is None:
            await self.put({key: value})
        return value if found is None else found

    async def aclose(self) -> None:
        """Do nothing."""

    def _remove_old(self, now: float) -> None:
        while self._entries:
            key = next(iter(self._entries))
            if self.size <= self._limit and self._entries[key][1] > now:
                break
            self._remove(key)

    def _remove(self, key: str) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.size -= ENTRY_SIZE + len(key) + len(entry[0])


class StoreUnavailable(Exception):
    """The store has not responded. The log has the reason."""


class OwnEntries:
    """The entries of one owner in a store.

    Args:
        store: the store.
        key: the key that the client has sent; None if the gateway needs none, and all clients have one owner.
    """

    def __init__(self, store: Store, key: str | None) -> None:
        self._store = store
        # A name, no secret: whoever reads the store must not learn the key from it.
        self._owner = "" if key is None else sha256(f"streamkit owner {key}".encode()).hexdigest()[:24]

    async def get(self, kind: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the values of those names that are stored.

        Args:
            kind: what the names are names of.
            names: the names, as clients send them.

        Raises:
            StoreUnavailable: the store has raised an exception.
        """
        if not names:
            return {}
        keys = {self._key(kind, name): name for name in names}
        try:
            found = await self._store.get([*keys])
        except Exception as problem:
            raise self._report(problem) from problem
        return {keys[key]: value for key, value in found.items()}

    async def put(self, kind: str, entries: Mapping[str, bytes], *, is_same: bool = False) -> None:
        """Store values. If the store does not respond, that is logged: the response to the client does not fail.

        Args:
            kind: what the names are names of.
            entries: the values by name.
            is_same: a name always has the same value, so one that is stored is not sent again.
        """
        keyed = {self._key(kind, name): value for name, value in entries.items()}
        try:
            known = await self._store.renew([*keyed]) if is_same else ()
            if missing := {key: value for key, value in keyed.items() if key not in known}:
                await self._store.put(missing)
        except Exception as problem:
            self._report(problem)

    async def add(self, kind: str, value: bytes) -> bytes:
        """Store a value that all owners have, unless there is one; return the one that is stored.

        Raises:
            StoreUnavailable: the store has raised an exception.
        """
        try:
            return await self._store.add(kind, value)
        except Exception as problem:
            raise self._report(problem) from problem

    def _key(self, kind: str, name: str) -> str:
        # What is no id of a gateway may be long, or a text that a database refuses: NUL, half a surrogate pair.
        if len(name) > _LONGEST_NAME or not (name.isascii() and name.isprintable()):
            name = "digest-" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{kind}/{self._owner}/{name}"

    def _report(self, problem: Exception) -> StoreUnavailable:
        _log.warning("the store does not respond: %s: %s", type(problem).__name__, problem)
        return StoreUnavailable("the store of this gateway does not respond")
