"""What runs a gateway looks at: ``/health`` and ``/ready``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from gateway.gateway_clients import Silent, client_of
from gateway.test_gateway_limits import QUESTION, gateway

from streamkit.gateway import Gateway, GatewayLimits, MemoryStore

pytestmark = pytest.mark.anyio


class BrokenStore(MemoryStore):
    """A store that does not respond until it is mended."""

    is_broken = True

    async def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        if self.is_broken:
            raise ConnectionError("refused: password=secret")
        return await super().get(keys)


async def test_health_and_readiness_need_no_key_and_are_in_no_report() -> None:
    app, requests, reports = gateway(key="the-key-of-the-clients")
    async with client_of(app) as client:
        health, ready = await client.get("/health"), await client.get("/ready")
        refused = await client.post("/health", json={})
        head = await client.head("/ready")
        assert (await client.post("/v1/messages", json=QUESTION)).status_code == 401
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert head.status_code == 200
    assert requests == []
    assert [report.path for report in reports] == ["/v1/messages"]


async def test_a_gateway_is_ready_from_its_start_until_its_shutdown() -> None:
    """As a server tells it by the lifespan; the shutdown begins before the store is closed."""
    app, _, _ = gateway()
    to_app, receive = anyio.create_memory_object_stream[dict[str, Any]](9)
    send, from_app = anyio.create_memory_object_stream[dict[str, Any]](9)
    statuses = []
    async with anyio.create_task_group() as tasks, client_of(app) as client:
        tasks.start_soon(app, {"type": "lifespan"}, receive.receive, send.send)
        await to_app.send({"type": "lifespan.startup"})
        assert (await from_app.receive())["type"] == "lifespan.startup.complete"
        statuses.append((await client.get("/ready")).status_code)
        app.begin_shutdown()
        response = await client.get("/ready")
        statuses.append((await client.get("/health")).status_code)
        await to_app.send({"type": "lifespan.shutdown"})
        assert (await from_app.receive())["type"] == "lifespan.shutdown.complete"
        statuses.append((await client.get("/ready")).status_code)
    for stream in (to_app, receive, send, from_app):
        stream.close()
    assert statuses == [200, 200, 503]
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "reason": "the gateway is shutting down"}
    assert response.headers["retry-after"] == "1"


async def test_a_gateway_that_nobody_has_started_is_ready_once_its_store_responds() -> None:
    store = BrokenStore()
    app, _, _ = gateway(store=store)
    async with client_of(app) as client:
        before = await client.get("/ready")
        assert (await client.get("/health")).status_code == 200
        store.is_broken = False
        assert (await client.get("/ready")).status_code == 200
        store.is_broken = True  # from here on a request goes on without what it would have found
        assert (await client.get("/ready")).status_code == 200
    assert before.status_code == 503
    assert before.json()["reason"] == "the store does not respond"
    assert "secret" not in before.text


async def test_a_gateway_with_as_many_requests_as_it_may_have_is_not_ready() -> None:
    silent = Silent()
    app = Gateway(silent.upstream, limits=GatewayLimits(requests=1), state_key="a key of sixteen bytes")
    async with anyio.create_task_group() as tasks, client_of(app) as client:

        async def ask() -> None:
            await client.post("/v1/messages", json=QUESTION)

        tasks.start_soon(ask)
        await silent.asked.wait()
        full = await client.get("/ready")
        silent.ended.set()
    async with client_of(app) as client:
        assert (await client.get("/ready")).status_code == 200
    assert full.status_code == 503
    assert full.json()["reason"] == "the gateway has as many open requests as it may"


async def test_the_paths_of_operation_are_those_below_a_mount_alone() -> None:
    """A model may be named ``health``, and another program may have the path."""
    app, _, _ = gateway(models={"health": "m"})
    async with client_of(app) as client, client_of(app, "/llm") as mounted:
        assert (await client.get("/v1/models/health")).json()["id"] == "health"
        assert (await client.get("/v1/health")).status_code == 404
        assert (await mounted.get("/llm/health")).json() == {"status": "ok"}
