"""What a gateway keeps for later requests of its clients, and where: in memory, in a database or in Redis."""

from __future__ import annotations

from os import PathLike, fspath

from streamkit.errors import UsageError
from streamkit.gateway.stores.store import Store

__all__ = ["open_store"]


def open_store(store: Store | str | PathLike[str]) -> Store:
    """Return a store; nothing is connected yet.

    Args:
        store: a store, which is returned, or its address: the path of a SQLite file, ``postgresql://...`` or
            ``redis://...`` (``rediss://``, ``valkey://``, ``unix://``).

    Raises:
        UsageError: it is none of these.
        ModuleNotFoundError: the address needs an extra that is not installed.
    """
    if not isinstance(store, (str, PathLike)):
        if missing := [name for name in ("get", "renew", "put", "add", "aclose") if not hasattr(store, name)]:
            raise UsageError(f"store must be a Store or an address, and {type(store).__name__} has no {missing[0]!r}")
        return store
    address = fspath(store)
    if address.startswith(("redis://", "rediss://", "valkey://", "valkeys://", "unix://")):
        from streamkit.gateway.stores.redis_store import RedisStore

        return RedisStore(address)
    from streamkit.gateway.stores.database_store import DatabaseStore

    return DatabaseStore(address)
