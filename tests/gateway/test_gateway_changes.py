"""What a client is told about changes of its request: the header, the log, and the refusal of a strict gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from itertools import permutations
from typing import Any

import httpx
import pytest
from gateway.gateway_clients import CLIENTS, client_of
from gateway.gateway_server import Target, serve_gateway
from request_table.observe import MODELS
from request_table.table import read_data
from request_table.wires import WIRES, rows_of

from streamkit.events import Finished, ResponseStarted, Text
from streamkit.gateway import Exchange, Gateway, Upstream, UpstreamRequest
from streamkit.providers import writer
from streamkit.testing import Reply, serve

Json = dict[str, Any]
HELLO: Json = {"role": "user", "content": "Hello."}
CHAT: Json = {"model": "m", "messages": [HELLO]}
#: A request of which Anthropic has no seed and no logit_bias.
LOSING: Json = {**CHAT, "seed": 1, "logit_bias": {"1": 2}}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "count"), [(CHAT, 0), (LOSING, 2)])
def test_a_header_has_the_number_of_changes(body: Json, count: int, stream: bool) -> None:
    reports: list[Exchange] = []
    with (
        serve([Reply("Hi.")]) as server,
        serve_gateway(Target("anthropic", server.base_url("anthropic")), reports=reports) as url,
    ):
        response = httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": stream})
    assert (response.status_code, response.headers["x-streamkit-changes"]) == (200, str(count))
    assert len(reports[0].changes) == count


@pytest.mark.parametrize("stream", [False, True])
def test_a_strict_gateway_refuses_what_would_change_the_meaning(stream: bool) -> None:
    with (
        serve([Reply("Hi."), Reply("Hi.")]) as server,
        serve_gateway(Target("anthropic", server.base_url("anthropic")), strict=True) as url,
    ):
        refused = httpx.post(f"{url}/v1/chat/completions", json={**LOSING, "stream": stream})
        assert server.requests == []
        accepted = httpx.post(f"{url}/v1/chat/completions", json={**CHAT, "seed": 1, "user": "u", "stream": stream})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "strict" in message
    assert "'logit_bias.1'" in message
    assert "seed" not in message
    assert (accepted.status_code, accepted.headers["x-streamkit-changes"]) == (200, "1")


def test_a_strict_gateway_asks_the_next_upstream() -> None:
    reports: list[Exchange] = []
    with serve([Reply("Hi.")]) as server:
        targets = [Target(name, server.base_url(name)) for name in ("anthropic", "openai_chat")]
        with serve_gateway(*targets, reports=reports, strict=True) as url:
            response = httpx.post(f"{url}/v1/chat/completions", json=LOSING)
        assert [request.provider for request in server.requests] == ["openai_chat"]
    assert response.status_code == 200
    assert reports[0].failures[0].startswith("anthropic: this gateway is strict: left out the fields")


def test_a_refusal_has_the_form_of_the_clients_wire() -> None:
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "messages": [HELLO],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    with (
        serve([]) as server,
        serve_gateway(Target("openai_chat", server.base_url("openai_chat")), strict=True) as url,
    ):
        response = httpx.post(f"{url}/v1/messages", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


ROWS = cache(rows_of)
PATHS = {
    **{client: path for client, (path, _) in CLIENTS.items()},
    "bedrock_converse": "/model/m/converse-stream",
}


@pytest.mark.anyio
@pytest.mark.parametrize(("client", "target"), [*permutations(WIRES, 2)])
async def test_a_strict_gateway_refuses_what_the_table_of_requests_says(client: str, target: str) -> None:
    """One row of each status for each pair of wires; the table has all of them."""
    asked: list[UpstreamRequest] = []

    @asynccontextmanager
    async def ask(request: UpstreamRequest) -> AsyncIterator[list[bytes]]:
        asked.append(request)
        live = writer(target, response_id="r", model="m")
        events = ResponseStarted("r", "m"), Text("Hello."), Finished("stop")
        yield [b"".join(map(live.write, events)) + live.close()]

    upstream = Upstream(provider=target, ask=ask, models={"*": MODELS[target]})
    app = Gateway(upstream, strict=True, state_key="a key of sixteen bytes")
    rows, found = ROWS(client), dict[str, tuple[str, int]]()
    async with client_of(app) as http:
        for path, at in read_data()[client]["fields"].items():
            status = at[target]
            if status not in found:
                response = await http.post(PATHS[client], json={"stream": True, **rows[path][0]})
                found[status] = path, response.status_code
    refused = {"refused", "described"}
    assert found == {status: (path, 400 if status in refused else 200) for status, (path, _) in found.items()}
    assert len(asked) == len(found.keys() - refused)
    assert found.keys() & refused
