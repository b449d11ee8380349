"""The conformance of stores of runs, and stores that break one rule each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from streamkit.bridges.run_store import RunStore
from streamkit.execution import Lease, RunEntry, parse_entry
from streamkit.testing import check_run_store

pytestmark = pytest.mark.anyio


class MemoryStore:
    """A store in memory, of the rules of docs/rules.md, "Durable runs"; each subclass below breaks one."""

    def __init__(self) -> None:
        self.logs: dict[str, dict[int, tuple[int, str]]] = {}
        self.fences: dict[str, int] = {}
        self.claimed: set[str] = set()

    async def claim(self, run_key: str) -> Any:
        self.check_free(run_key)
        return self.enter(run_key)

    def check_free(self, run_key: str) -> None:
        if run_key in self.claimed:
            raise ValueError("another worker has the run")

    def next_fence(self, run_key: str) -> int:
        return self.fences.get(run_key, 0) + 1

    @asynccontextmanager
    async def enter(self, run_key: str) -> AsyncGenerator[MemoryClaim, None]:
        self.claimed.add(run_key)
        self.fences[run_key] = self.next_fence(run_key)
        try:
            yield MemoryClaim(self, run_key, self.fences[run_key])
        finally:
            self.claimed.discard(run_key)

    def insert(self, run_key: str, fence: int, entry: RunEntry) -> None:
        new = fence, entry.to_json()
        if self.logs.setdefault(run_key, {}).setdefault(entry.position, new) != new:
            raise ValueError("the position has another entry")

    async def entries(self, run_key: str) -> list[RunEntry]:
        return [parse_entry(text) for _, (_, text) in sorted(self.logs[run_key].items())]


class MemoryClaim(Lease):
    def __init__(self, store: MemoryStore, run_key: str, fence: int) -> None:
        self.store, self.run_key, self.fence = store, run_key, fence

    async def append(self, entry: RunEntry) -> MemoryClaim:
        self.store.insert(self.run_key, self.fence, entry)
        return self


class Appending(MemoryStore):
    def insert(self, run_key: str, fence: int, entry: RunEntry) -> None:
        log = self.logs.setdefault(run_key, {})
        log[len(log)] = fence, entry.to_json()


class Overwriting(MemoryStore):
    def insert(self, run_key: str, fence: int, entry: RunEntry) -> None:
        self.logs.setdefault(run_key, {})[entry.position] = fence, entry.to_json()


class WithoutFences(MemoryStore):
    def insert(self, run_key: str, fence: int, entry: RunEntry) -> None:
        super().insert(run_key, 0, entry)


class OneFence(MemoryStore):
    def next_fence(self, run_key: str) -> int:
        return 1


class Shared(MemoryStore):
    def check_free(self, run_key: str) -> None:
        pass


async def test_a_store_that_keeps_the_rules_conforms(tmp_path: Path) -> None:
    await check_run_store(MemoryStore())
    async with RunStore(tmp_path / "runs.db") as store:
        await check_run_store(store)


@pytest.mark.parametrize(
    ("store", "rule"),
    [
        (Appending, "stored once, not 3 times"),
        (Overwriting, "another entry at a position is refused"),
        (WithoutFences, "an equal entry of an earlier claim"),
        (OneFence, "above those of all earlier claims"),
        (Shared, "not given to another one"),
    ],
)
async def test_a_store_that_breaks_a_rule_is_told_which(store: Callable[[], MemoryStore], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        await check_run_store(store())
