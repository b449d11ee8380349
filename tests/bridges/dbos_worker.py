"""A worker process with DBOS: it starts or takes over the run of ``durable_worker``, and waits for its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bridges.durable_worker import HISTORY, make_run
from dbos import DBOS, DBOSConfig

from streamkit import Run
from streamkit.bridges.dbos import DurableRuns
from streamkit.bridges.run_store import RunStore


def configure(address: str, worker: str) -> DBOSConfig:
    """Return the configuration of a worker whose database is that of the store."""
    is_postgres = address.startswith("postgresql:")
    return {
        "name": "tests",
        "system_database_url": address if is_postgres else f"sqlite:///{Path(address).with_suffix('.dbos')}",
        "executor_id": worker,
        "application_version": "1",
        "log_level": "CRITICAL",
        "notification_listener_polling_interval_sec": 0.05,
    }


@asynccontextmanager
async def launched(address: str, worker: str) -> AsyncGenerator[None, None]:
    """Launch DBOS in this event loop, and destroy it at the end."""
    DBOS.launch()  # here, so that runs are made in this event loop
    try:
        yield
    finally:
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)


async def work(
    address: str, run_key: str, log: str, seconds: float, kill: tuple[str, int] | None, worker: str, starts: bool
) -> None:
    async with RunStore(address) as store:
        DBOS(config=configure(address, worker))

        def create_run(start: dict[str, Any]) -> Run:
            return make_run(start, log, kill)

        runs = DurableRuns(store, create_run, claim_seconds=seconds)
        async with launched(address, worker):
            taking_over = asyncio.create_task(runs.take_over())
            if starts:
                handle = await runs.start(run_key, history=HISTORY)
            else:
                handle = await DBOS.retrieve_workflow_async(run_key)
            outcome = await handle.get_result(polling_interval_sec=0.05)
            assert (outcome["ended"], outcome["text"]) == ("answered", "Done."), outcome
            taking_over.cancel()
            with suppress(asyncio.CancelledError):
                await taking_over


def main(
    address: str,
    run_key: str,
    log: str,
    seconds: float,
    kill: tuple[str, int] | None = None,
    worker: str = "first",
    starts: bool = True,
) -> None:
    """Run in a process of its own.

    Args:
        address: of the store.
        run_key: the run.
        log: the path of the log.
        seconds: of the claim.
        kill: at which checkpoint the process kills itself: ``before`` or ``after`` the entry, and its number.
        worker: the executor id.
        starts: it starts the run; False: it takes over the one of another worker.
    """
    asyncio.run(work(address, run_key, log, seconds, kill, worker, starts))
