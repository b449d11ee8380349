"""Files that streamkit creates have conversations: only their owner may read them, whatever the umask is."""

from __future__ import annotations

import ast
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

import streamkit
from streamkit import Turn, read
from streamkit.bridges.run_store import RunStore
from streamkit.cli import main
from streamkit.cli.chat import ChatHistory
from streamkit.gateway.stores.database_store import DatabaseStore
from streamkit.gateway.tap import ExchangeFolder, ExchangeObserver
from streamkit.gateway.tap.relay import Relay
from streamkit.history import Content
from streamkit.testing import record

PACKAGE = Path(streamkit.__file__).parent
CAPTURE = b'data: {"choices":[{"index":0,"delta":{"content":"private"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

needs_modes = pytest.mark.skipif(os.name == "nt", reason="modes of this kind are POSIX")


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda umask: f"umask {umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def record_exchanges(folder: Path) -> None:
    """Write an exchange as ``--record`` does."""
    relay = Relay(ExchangeFolder(folder))
    copy = ExchangeObserver(relay).begin(
        method="POST", path="/v1/chat/completions", provider="openai_chat", request={"messages": []}
    )
    copy.respond(200, {"content-type": "text/event-stream"})
    copy.write(CAPTURE)
    copy.end(status=200)
    relay.close()


@needs_modes
@pytest.mark.usefixtures("umask")
def test_recordings_are_private_in_a_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "recordings"
    record_exchanges(folder)
    assert (mode(tmp_path / "new"), mode(folder)) == (0o700, 0o700)
    files = sorted(folder.iterdir())
    assert [path.name.partition("-")[2].partition(".")[2] for path in files] == [
        "exchange.json",
        "request.json",
        "response.sse",
    ]
    assert [mode(path) for path in files] == [0o600] * 3


@needs_modes
def test_a_folder_and_a_file_of_the_user_keep_their_modes(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    record_exchanges(folder)
    assert mode(folder) == 0o755
    assert {mode(path) for path in folder.iterdir()} == {0o600}
    page = tmp_path / "page.html"
    page.touch()
    page.chmod(0o644)
    (tmp_path / "turn.sse").write_bytes(CAPTURE)
    assert main(["report", str(tmp_path / "turn.sse"), "-o", str(page)]) == 0
    assert mode(page) == 0o644


@needs_modes
@pytest.mark.usefixtures("umask")
def test_a_report_is_private(tmp_path: Path) -> None:
    (tmp_path / "turn.sse").write_bytes(CAPTURE)
    assert main(["report", str(tmp_path / "turn.sse"), "-o", str(tmp_path / "page.html")]) == 0
    assert mode(tmp_path / "page.html") == 0o600


@needs_modes
@pytest.mark.usefixtures("umask")
def test_a_stream_that_a_program_records_is_private(tmp_path: Path) -> None:
    path = tmp_path / "turn.sse"
    assert list(read(Turn("openai_chat"), record([CAPTURE], path)))
    assert (mode(path), path.read_bytes()) == (0o600, CAPTURE)


@needs_modes
@pytest.mark.usefixtures("umask")
def test_a_database_of_runs_is_private_with_its_journals(tmp_path: Path) -> None:
    def modes(execute: Callable[..., object]) -> dict[str, int]:
        execute("INSERT INTO streamkit_mail VALUES ('run', ?, 0.0, 'private')", (str(tmp_path),))
        return {path.name: mode(path) for path in tmp_path.iterdir()}

    database = RunStore(tmp_path / "runs.db")._database
    assert database.transact(modes) == dict.fromkeys(["runs.db", "runs.db-wal", "runs.db-shm"], 0o600)
    database.close()
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM streamkit_mail")
        assert modes(connection.execute) == dict.fromkeys(["runs.db", "runs.db-journal"], 0o600)


@needs_modes
@pytest.mark.usefixtures("umask")
def test_a_store_of_a_gateway_is_private(tmp_path: Path) -> None:
    store = DatabaseStore(tmp_path / "gateway.db")
    anyio.run(store.add, "state_key", b"signs carried state")
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}
    anyio.run(store.aclose)


@needs_modes
@pytest.mark.usefixtures("umask")
def test_the_history_of_a_chat_is_private(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    ChatHistory(path).add([Content.human("private")])
    ChatHistory(path).add([Content.human("private, too")])
    assert {each.name: mode(each) for each in tmp_path.iterdir()} == {"chat.json": 0o600}
    assert ChatHistory(path).contents == [Content.human("private"), Content.human("private, too")]


def writing_calls(source: str) -> list[str]:
    """Return the calls of a module that create a file or a folder."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        method = name.rpartition(".")[2]
        constants = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
        modes = [value for value in constants if isinstance(value, str) and re.fullmatch(r"[rwaxbt+]+", value)]
        may_write = method == "open" and any(set(mode) & set("wax+") for mode in modes)
        is_low = name in ("os.open", "os.mkdir", "os.makedirs", "sqlite3.connect", "io.FileIO")
        if may_write or is_low or method in ("write_text", "write_bytes", "touch", "mkdir", "mkstemp", "mkdtemp"):
            found.append(name)
    return sorted(found)


def test_files_are_written_in_the_places_that_are_tested_here() -> None:
    """A further place uses ``create_private`` and has a test above."""
    found = {
        path.relative_to(PACKAGE).as_posix(): calls
        for path in sorted(PACKAGE.rglob("*.py"))
        if (calls := writing_calls(path.read_text(encoding="utf-8")))
    }
    assert found == {
        "bridges/database.py": ["os.open", "sqlite3.connect"],
        "bridges/pytest_plugin.py": ["path.parent.mkdir"],  # of recordings, whose file is a StreamFile
        "cli/__init__.py": ["os.open"],  # the null device
        "cli/chat.py": ["os.open"],  # the terminal
        "gateway/tap/exchange_folder.py": ["folder.mkdir"],
        "reading/stream_file.py": ["open", "os.open"],
    }


def test_calls_that_create_files_are_found() -> None:
    for call in ('open(p, "w")', 'p.open("ab")', 'open(p, mode="r+")', "p.write_text(s)", "os.open(p, 0)", "p.mkdir()"):
        assert writing_calls(call), call
    for call in ("open(p)", 'p.open("rb")', "p.read_text()", "shelf.open()"):
        assert not writing_calls(call), call
