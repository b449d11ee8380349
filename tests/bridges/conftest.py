"""The databases that run stores are tested with."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridges.postgres import postgres_server


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of a PostgreSQL server, one for all tests."""
    with postgres_server() as address:
        yield address


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
