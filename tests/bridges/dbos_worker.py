"""A worker process with DBOS: it starts or takes over the run of ``durable_worker``, and waits for its outcome."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from bridges.durable_worker import HISTORY, make_run
from dbos import DBOS, DBOSConfig

from streamkit import Run
from streamkit.bridges.dbos import DurableRuns
from streamkit.bridges.run_store import Claim, RunStore


def configure(address: str, worker: str) -> DBOSConfig:
    """Return the configuration of a worker, in the database of the store."""
    return {
        "name": "tests",
        "system_database_url": address if address.startswith("postgresql:") else f"sqlite:///{address}",
        "executor_id": worker,
        "application_version": "1",
        "log_level": "CRITICAL",
        "notification_listener_polling_interval_sec": 0.05,
    }


@asynccontextmanager
async def launched() -> AsyncGenerator[None, None]:
    """Launch DBOS in this event loop, so that runs are made in it, and destroy it at the end."""
    DBOS.launch()
    try:
        yield
    finally:
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)


class KillingStore(RunStore):
    """A store that kills the process when it would claim a run, or has released the claim."""

    moment = ""

    async def claim(self, run_key: str, *, seconds: float = 30.0) -> Claim:
        if self.moment == "unclaimed":
            os.kill(os.getpid(), signal.SIGKILL)
        claim = await super().claim(run_key, seconds=seconds)
        return claim if self.moment != "unrecorded" else _KillingClaim(claim)  # type: ignore[return-value]


class _KillingClaim:
    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    async def __aenter__(self) -> Claim:
        return await self._claim.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._claim.__aexit__(*error)
        os.kill(os.getpid(), signal.SIGKILL)


async def work(
    address: str, run_key: str, log: str, seconds: float, kill: tuple[str, int] | None, worker: str, starts: bool
) -> None:
    store = KillingStore(address)
    store.moment = kill[0] if kill is not None else ""
    async with store:
        DBOS(config=configure(address, worker))

        def create_run(start: dict[str, Any]) -> Run:
            return make_run(start, log, kill)

        runs = DurableRuns(store, create_run, claim_seconds=seconds)
        async with launched(), runs:
            if starts:
                handle = await runs.start(run_key, history=HISTORY)
            else:
                handle = await DBOS.retrieve_workflow_async(run_key)
            outcome = await handle.get_result(polling_interval_sec=0.05)
            assert (outcome["ended"], outcome["text"]) == ("answered", "Done."), outcome


def main(
    address: str,
    run_key: str,
    log: str,
    seconds: float,
    kill: tuple[str, int] | None = None,
    worker: str = "first",
    starts: bool = True,
) -> None:
    """Start or take over the run, and wait for its outcome.

    Args:
        address: of the store.
        run_key: the run.
        log: the path of the log.
        seconds: of the claim.
        kill: when the process kills itself, as for ``durable_worker.main``; ``unclaimed`` or ``unrecorded``: before the
            claim, or after it and before the outcome is recorded.
        worker: the executor id.
        starts: it starts the run; False: it takes over the one of another worker.
    """
    asyncio.run(work(address, run_key, log, seconds, kill, worker, starts))
