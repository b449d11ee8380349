"""The guide's applications in Starlette, FastAPI and Django, over real HTTP: a page that leaves, returns and steers."""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from frontends.servers import free_port, started
from shared_data import ROOT, TESTS

from streamkit.testing import Reply, Request, Server, serve

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

GUIDE = (ROOT / "docs" / "tasks" / "browser.md").read_text("utf-8")
FILES = dict(re.findall(r'^```python title="(\w+\.py)"\n(.*?)^```', GUIDE, flags=re.MULTILINE | re.DOTALL))


class Model:
    """A model whose first response waits at a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    async def respond(self, request: Request) -> Reply:
        if "Wait." in json.dumps(request.json) and "Only three." not in json.dumps(request.json):
            await anyio.to_thread.run_sync(self.gate.wait, abandon_on_cancel=True)
        return Reply(f"Response to {len(request.json['messages'])} messages.")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn's, in another process


@pytest.fixture(params=["starlette", "fastapi", "django"])
def name(request: pytest.FixtureRequest) -> str:
    importlib.import_module(request.param)  # skipped if it is missing
    return str(request.param)


@pytest.fixture
def model() -> Iterator[tuple[Model, Server]]:
    model = Model()
    with serve(model.respond) as server:
        yield model, server
        model.gate.set()


@pytest.fixture
async def page(name: str, model: tuple[Model, Server], tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient, None]:
    for file, code in FILES.items():
        (tmp_path / file).write_text(code, "utf-8")
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", f"{name}_app:app", f"--port={port}", "--log-level=warning"]
    paths = ":".join([str(ROOT), str(TESTS), str(tmp_path)])
    with started(tmp_path, port, command, MODEL_URL=model[1].base_url("anthropic"), PYTHONPATH=paths):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client


async def read(response: httpx.Response, last: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a response, or those up to the first one of a type."""
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    events: list[dict[str, Any]] = []
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            events.append({"id": line.removeprefix("id: ")})
        elif line.startswith("data: "):
            events[-1].update(json.loads(line.removeprefix("data: ")))
            if events[-1]["type"] == last:
                break
    return events


def text(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text")


def test_each_program_has_fewer_than_30_lines() -> None:
    assert set(FILES) == {"chat.py", "starlette_app.py", "fastapi_app.py", "django_app.py"}
    for code in FILES.values():
        assert len(list(filter(str.strip, code.splitlines()))) < 30


async def test_a_page_leaves_and_returns(page: httpx.AsyncClient, model: tuple[Model, Server]) -> None:
    async with page.stream("POST", "/events", json={"text": "Wait."}) as response:
        key = response.headers["x-run-id"]
        assert response.headers["cache-control"] == "no-cache"
        first = await read(response, "round_started")
    model[0].gate.set()
    async with page.stream("GET", f"/events/{key}", headers={"last-event-id": first[-1]["id"]}) as response:
        rest = await read(response)
    assert text(rest) == "Response to 1 messages."
    assert (rest[-1]["type"], rest[-1]["ended"]) == ("run_ended", "answered")
    async with page.stream("GET", f"/events/{key}") as response:
        assert await read(response) == [*first, *rest]
    at_end = await page.get(f"/events/{key}", headers={"last-event-id": rest[-1]["id"]})
    assert (at_end.status_code, at_end.content) == (204, b"")


async def test_a_page_sends_while_a_run_streams(page: httpx.AsyncClient, model: tuple[Model, Server]) -> None:
    async with page.stream("POST", "/events", json={"text": "Wait."}) as response:
        key = response.headers["x-run-id"]
        assert (await page.post(f"/events/{key}", json={"text": "Only three."})).status_code == 202
        model[0].gate.set()
        events = await read(response)
    assert text(events) == "Response to 1 messages.Response to 3 messages."
    assert "Only three." in json.dumps(model[1].requests[1].json)
    assert (await page.post(f"/events/{key}", json={"text": "Too late."})).status_code == 404


async def test_a_page_stops_a_run(page: httpx.AsyncClient) -> None:
    async with page.stream("POST", "/events", json={"text": "Wait."}) as response:
        key = response.headers["x-run-id"]
        assert (await page.delete(f"/events/{key}")).status_code == 202
        events = await read(response)
    assert (events[-1]["type"], events[-1]["ended"]) == ("run_ended", "canceled")
    assert (await page.delete(f"/events/{key}")).status_code == 404


async def test_wrong_requests_are_refused(page: httpx.AsyncClient) -> None:
    for method in ("GET", "DELETE"):
        assert (await page.request(method, "/events/unknown")).status_code == 404
    assert (await page.post("/events/unknown", json={"text": "x"})).status_code == 404
    for body in (b"", b"{", b"null", b"[]", b'"text"', b'{"text": 5}', b'{"text": null}', b"\xff", b"[" * 100_000):
        response = await page.post("/events", content=body, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422), body[:10]
        assert "Traceback" not in response.text
    async with page.stream("POST", "/events", json={"text": "Hello."}) as response:
        key = response.headers["x-run-id"]
        await read(response)
    for header in ("x", "-1", "999", "9" * 1000):
        assert (await page.get(f"/events/{key}", headers={"last-event-id": header})).status_code == 400
