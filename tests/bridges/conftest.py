"""The databases and processes that run stores are tested with."""

from __future__ import annotations

import multiprocessing
import secrets
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from bridges.postgres import postgres_server
from shared_data import ROOT


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of a PostgreSQL server, one for all tests."""
    with postgres_server() as server:
        yield server.address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database for a ``RunStore``."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return str(request.getfixturevalue("postgres_address"))


@pytest.fixture
def run_key() -> str:
    """A name that no other run of the database has."""
    return secrets.token_hex(4)


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes that are copies of one which has imported everything, and share nothing with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bridges.durable_worker", "bridges.dbos_worker"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'tests'}")  # of the server, when it is started
        forkserver.ensure_running()
    return context
