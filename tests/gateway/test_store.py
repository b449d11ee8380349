"""The stores of a gateway: the same promises in memory, in SQLite, in PostgreSQL and in Redis."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from bridges.postgres import postgres_server
from gateway.redis_server import redis_server

from streamkit.errors import UsageError
from streamkit.gateway import Gateway, Upstream
from streamkit.gateway.stores import open_store
from streamkit.gateway.stores.database_store import DatabaseStore
from streamkit.gateway.stores.redis_store import RedisStore
from streamkit.gateway.stores.store import ENTRY_SIZE, MemoryStore, OwnEntries, Store, StoreUnavailable

pytestmark = pytest.mark.anyio

VALUE = bytes(range(256))


@pytest.fixture(scope="module")
def postgres_address() -> Iterator[str]:
    with postgres_server() as server:
        yield server.address


@pytest.fixture(scope="module")
def redis_address() -> Iterator[str]:
    with redis_server() as address:
        yield address


@pytest.fixture(
    params=[
        *("memory", "sqlite"),
        pytest.param("postgres", marks=pytest.mark.slow),
        pytest.param("redis", marks=pytest.mark.slow),
    ]
)
async def store(request: pytest.FixtureRequest, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Store]:
    """A store that keeps entries for a day."""
    if request.param == "redis" and anyio_backend == "trio":
        pytest.skip("the client of Redis runs on asyncio alone")
    if request.param == "memory":
        opened: Store = MemoryStore()
    elif request.param == "sqlite":
        opened = open_store(tmp_path / "gateway.db")
    else:
        opened = open_store(request.getfixturevalue(f"{request.param}_address"))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(opened.aclose)
        yield opened


@pytest.fixture
def prefix() -> str:
    """A beginning that no other key of the store has."""
    return secrets.token_hex(4)


async def test_values_come_back_as_they_were_stored(store: Store, prefix: str) -> None:
    entries = {f"{prefix}/{number}": bytes([number % 256]) * number for number in range(1200)}
    await store.put(entries)
    assert dict(await store.get([*entries, f"{prefix}/none"])) == entries
    assert await store.renew([f"{prefix}/0", f"{prefix}/none"]) == {f"{prefix}/0"}
    await store.put({f"{prefix}/1": VALUE})
    assert await store.get([f"{prefix}/1"]) == {f"{prefix}/1": VALUE}
    assert await store.get([]) == {}
    assert await store.renew([]) == set()


async def test_what_is_added_first_stays(store: Store, prefix: str) -> None:
    first = await store.add(f"{prefix}/key", b"first")
    second = await store.add(f"{prefix}/key", b"second")
    assert (first, second) == (b"first", b"first")


async def test_a_store_can_be_used_after_it_was_closed(store: Store, prefix: str) -> None:
    await store.put({f"{prefix}/a": VALUE})
    await store.aclose()
    assert await store.get([f"{prefix}/a"]) == {f"{prefix}/a": VALUE}


async def test_many_tasks_write_and_read(store: Store, prefix: str) -> None:
    async def write(number: int) -> None:
        for place in range(5):
            own = {f"{prefix}/{number}/{place}": VALUE, f"{prefix}/shared": b"%d" % number}
            await store.put(own)
            assert own.keys() <= {*await store.get([*own])}

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(write, number)
    assert len(await store.renew([f"{prefix}/{number}/{place}" for number in range(10) for place in range(5)])) == 50


# ---------------------------------------------------------------- bounds


async def test_memory_keeps_what_was_asked_for_last() -> None:
    now = 0.0
    store = MemoryStore(10 * (ENTRY_SIZE + 101), seconds=60, clock=lambda: now)
    await store.put({str(number): bytes(100) for number in range(10)})
    await store.get(["0"])
    await store.put({"a": bytes(100)})
    assert await store.renew([*map(str, range(10)), "a"]) == {*map(str, (0, *range(2, 10))), "a"}
    await store.put({"large": bytes(10_000)})
    assert await store.get(["large"]) == {}
    now = 59.0
    await store.get(["5"])
    now = 61.0
    assert await store.renew([*map(str, range(10)), "a"]) == {"5"}
    assert store.size == ENTRY_SIZE + 101
    now = 130.0
    assert (await store.get(["5"]), store.size) == ({}, 0)


async def test_a_database_keeps_what_was_asked_for_last(tmp_path: Path) -> None:
    store = DatabaseStore(tmp_path / "gateway.db", limit=20_000)
    for number in range(60):
        await store.put({f"{number:03}": bytes(1000)})
    kept = await store.renew([f"{number:03}" for number in range(60)])
    # SQLite's clock counts in milliseconds, in which several may have been written.
    assert kept <= {f"{number:03}" for number in range(60 - len(kept) - 5, 60)}
    assert 10 <= len(kept) <= 20_000 // (1000 + ENTRY_SIZE)
    await store.aclose()


async def test_entries_of_a_database_end(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    store = DatabaseStore(path)
    await store.put({"a": VALUE, "b": VALUE})
    await store.add("key", VALUE)
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE streamkit_kept SET expires = expires - 86400 WHERE key != 'b'")
        connection.execute("UPDATE streamkit_kept SET expires = expires - 80000 WHERE key = 'b'")
    assert await store.renew(["a", "b"]) == {"b"}
    assert await store.add("key", b"other") == VALUE  # has no end
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT expires > (julianday('now') - 2440587.5) * 86400 + 80000 FROM streamkit_kept WHERE key = 'b'"
        assert connection.execute(query).fetchone() == (1,)


# ---------------------------------------------------------------- owners, names, failures


async def test_each_owner_has_entries_of_its_own(store: Store, prefix: str) -> None:
    entries = [OwnEntries(store, key) for key in (None, f"one {prefix}", f"other {prefix}")]
    for number, own in enumerate(entries):
        await own.put("call", {f"{prefix}-id": b"%d" % number})
    assert [await own.get("call", [f"{prefix}-id"]) for own in entries] == [
        {f"{prefix}-id": b"%d" % number} for number in range(3)
    ]
    assert await entries[0].get("item", [f"{prefix}-id"]) == {}


@pytest.mark.parametrize("name", ["", "a\x00b", "\ud83d", "é" * 50, "x" * 100_000, "a\nb", "*"])
async def test_any_text_is_a_name(store: Store, prefix: str, name: str) -> None:
    own = OwnEntries(store, prefix)
    assert await own.get("call", [name]) == {}
    await own.put("call", {name: VALUE})
    assert await own.get("call", [name]) == {name: VALUE}


async def test_a_key_is_not_in_the_store() -> None:
    store = MemoryStore()
    await OwnEntries(store, "sk-secret-of-a-client").put("call", {"a": VALUE})
    (key,) = store._entries
    assert "secret" not in key


async def test_what_is_the_same_is_not_sent_again() -> None:
    sent: list[str] = []

    class Recording(MemoryStore):
        async def put(self, entries: Mapping[str, bytes]) -> None:
            sent.extend(entries)
            await super().put(entries)

    own = OwnEntries(Recording(), None)
    await own.put("item", {"a": VALUE}, is_same=True)
    await own.put("item", {"a": VALUE, "b": VALUE}, is_same=True)
    assert sent == ["item//a", "item//b"]


async def test_a_store_that_does_not_respond(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    own = OwnEntries(DatabaseStore(tmp_path / "no" / "gateway.db"), None)
    await own.put("call", {"a": VALUE})
    with pytest.raises(StoreUnavailable, match="does not respond"):
        await own.get("call", ["a"])
    with pytest.raises(StoreUnavailable):
        await own.add("state_key", VALUE)
    assert [record.getMessage() for record in caplog.records] == [
        "the store does not respond: OperationalError: unable to open database file"
    ] * 3


async def test_the_end_of_the_application_closes_the_store() -> None:
    closed: list[str] = []

    class Closing(MemoryStore):
        async def aclose(self) -> None:
            closed.append("closed")

    upstream = Upstream(provider="openai_chat", ask=lambda request: httpx.AsyncClient().stream("GET", "http://none"))
    app, received, sent = Gateway(upstream, store=Closing()), ["shutdown", "startup"], []

    async def receive() -> Any:
        return {"type": f"lifespan.{received.pop()}"}

    async def send(message: Any) -> None:
        sent.append((message["type"], [*closed]))

    await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    assert sent == [("lifespan.startup.complete", []), ("lifespan.shutdown.complete", ["closed"])]


async def test_an_application_does_not_start_without_its_store(tmp_path: Path) -> None:
    upstream = Upstream(provider="openai_chat", ask=lambda request: httpx.AsyncClient().stream("GET", "http://none"))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = Gateway(upstream, store=tmp_path / "no" / "gateway.db")
    await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
    (message,) = sent
    assert message["type"] == "lifespan.startup.failed"
    assert "unable to open database file" in message["message"]


def test_addresses(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    assert isinstance(open_store("redis://localhost:1/0"), RedisStore)
    assert isinstance(open_store("valkey://localhost:1/0"), RedisStore)
    assert isinstance(open_store(str(tmp_path / "a.db")), DatabaseStore)
    memory = MemoryStore()
    assert open_store(memory) is memory
    with pytest.raises(UsageError, match="int has no 'get'"):
        open_store(3)  # type: ignore[arg-type]
