"""The store of a gateway in Redis, or a server of its protocol, for workers on several machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamkit.gateway.stores.store import DAY
from streamkit.values.distribution import missing_package

__all__ = ["RedisStore"]

_SLOWEST = 5.0  # seconds for a connection and for an answer


class RedisStore:
    """A store in a server of Redis's protocol (the extra ``redis``).

    How many bytes it keeps is the server's own setting: ``maxmemory``, with the policy ``allkeys-lru`` or
    ``volatile-lru``. It runs on asyncio alone, as the client does.

    Args:
        address: ``redis://``, ``rediss://``, ``unix://``, or ``valkey://``, which is the same.
        seconds: how long an entry is kept that nobody asks for.
        prefix: of all keys, so that others can be in the same database.

    Raises:
        ModuleNotFoundError: the extra is not installed.
    """

    def __init__(self, address: str, *, seconds: float = DAY, prefix: str = "streamkit:") -> None:
        try:
            from redis.asyncio import Redis
        except ModuleNotFoundError as error:
            raise missing_package("a store in Redis", error, "redis") from None
        if address.startswith("valkey"):
            address = "redis" + address.removeprefix("valkey")
        self._redis: Any = Redis.from_url(address, socket_timeout=_SLOWEST, socket_connect_timeout=_SLOWEST)
        self._milliseconds = int(seconds * 1000)
        self._prefix = prefix

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values of those keys that are stored, and start their time again."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.getex(self._prefix + key, px=self._milliseconds)
            values = await pipeline.execute()
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    async def renew(self, keys: Sequence[str]) -> set[str]:
        """Start the time of entries again; return the keys that are stored."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.pexpire(self._prefix + key, self._milliseconds)
            known = await pipeline.execute()
        return {key for key, is_known in zip(keys, known, strict=True) if is_known}

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Store values, in place of earlier ones."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key, value in entries.items():
                pipeline.set(self._prefix + key, value, px=self._milliseconds)
            await pipeline.execute()

    async def add(self, key: str, value: bytes) -> bytes:
        """Store a value without an end unless the key has one; return the one that is stored."""
        await self._redis.set(self._prefix + key, value, nx=True)
        return bytes(await self._redis.get(self._prefix + key) or value)

    async def aclose(self) -> None:
        """Close the connections. The store can be used again."""
        await self._redis.aclose()
