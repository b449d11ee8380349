"""The metrics of a gateway, as Prometheus reads them: what is counted, and that no client creates series."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway.gateway_clients import Silent, client_of
from gateway.test_access import ANN, BOB
from gateway.test_gateway_limits import QUESTION
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.parser import text_string_to_metric_families

from streamkit.calls import Usage
from streamkit.errors import UsageError
from streamkit.events import Finished, ResponseStarted, Text, UsageReport
from streamkit.gateway import Cooldowns, Exchange, Gateway, Upstream
from streamkit.gateway.access import hash_key
from streamkit.providers import writer

pytestmark = pytest.mark.anyio

LABELS = ("code", "kind", "client", "key", "status", "upstream", "provider", "model")
USAGE = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=600)


class Refused(Exception):
    status_code = 529
    headers: Mapping[str, str] = {}


def upstream(provider: str = "anthropic", *failures: Exception, **options: Any) -> Upstream:
    """Return an upstream that fails as often as there are failures, and then responds with usage."""
    remaining = list(failures)

    @asynccontextmanager
    async def ask(request: Any) -> AsyncIterator[list[bytes]]:
        if remaining:
            raise remaining.pop(0)
        live = writer(provider, response_id="r", model=request.model)
        events = ResponseStarted("r", request.model), Text("Hello."), UsageReport(USAGE), Finished("stop")
        yield [b"".join(map(live.write, events)) + live.close()]

    return Upstream(provider=provider, ask=ask, **options)


def create(*upstreams: Upstream, **options: Any) -> Gateway:
    return Gateway(*upstreams, metrics=True, state_key="a key of sixteen bytes", **options)


async def ask(app: Gateway, *bodies: Any, path: str = "/v1/messages", key: str = "") -> list[int]:
    async with client_of(app) as client:
        return [(await client.post(path, json=body, headers={"x-api-key": key})).status_code for body in bodies]


async def samples(app: Gateway, key: str = "", accept: str = "") -> dict[tuple[str, ...], float]:
    """Return the values by the name without its prefix and the labels that are not empty, in their order."""
    async with client_of(app) as client:
        response = await client.get("/metrics", headers={"x-api-key": key, "accept": accept})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=")
    found = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            name = sample.name.removeprefix("streamkit_gateway_")
            if name != sample.name and not name.endswith("_created"):
                labels = (sample.labels.get(label) for label in (*LABELS, "le"))
                found[name, *(label for label in labels if label)] = sample.value
    return found


async def test_requests_tokens_cost_and_the_first_byte_are_counted() -> None:
    app = create(upstream(models={"m": "claude-sonnet-4-5"}), price=lambda turn: 0.25)
    assert await ask(app, QUESTION, {**QUESTION, "stream": True}) == [200, 200]
    found = await samples(app)
    asked = ("1", "anthropic", "claude-sonnet-4-5")
    assert found["requests_total", "anthropic", "200", *asked] == 2
    tokens = {key[1]: value for key, value in found.items() if key[0] == "tokens_total"}
    assert tokens == {"input": 2000, "output": 200, "cache_read": 1200, "cache_write": 0, "reasoning": 0}
    assert found["cost_dollars_total", *asked] == 0.5
    assert found["first_byte_seconds_count", *asked] == 2
    assert found["open_requests",] == 0
    assert not [key for key in found if key[0] in ("errors_total", "unpriced_total")]


async def test_costs_are_list_prices_and_what_has_none_is_counted() -> None:
    genai_prices = pytest.importorskip("genai_prices")
    app = create(upstream(), upstream())
    priced = {**QUESTION, "model": "claude-sonnet-4-5"}
    assert await ask(app, priced, {**QUESTION, "model": "a-model-of-ours"}) == [200, 200]
    found = await samples(app)
    usage = genai_prices.Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=600)
    price = genai_prices.calc_price(usage, "claude-sonnet-4-5", provider_id="anthropic").total_price
    assert found["cost_dollars_total", "1", "anthropic", "claude-sonnet-4-5"] == pytest.approx(float(price))
    assert found["unpriced_total", "1", "anthropic", "a-model-of-ours"] == 1


@pytest.mark.parametrize("failure", [UsageError("unknown"), ZeroDivisionError("a defect")])
async def test_a_price_that_fails_costs_no_request(failure: Exception) -> None:
    exchanges: list[Exchange] = []

    def price(turn: Any) -> float:
        raise failure

    app = create(upstream(), price=price, observe=exchanges.append)
    assert await ask(app, QUESTION) == [200]
    assert exchanges[0].cost is None
    assert (await samples(app))["unpriced_total", "1", "anthropic", "m"] == 1


async def test_errors_are_counted_by_code_and_upstream() -> None:
    failures = Refused("overloaded"), ConnectionError("no")
    asked = upstream("anthropic", *failures, *failures), upstream("openai_chat", Refused("x"))
    app = create(*asked, key="k" * 20, cooldowns=Cooldowns(longest=0, stated=0))
    assert await ask(app, QUESTION, QUESTION, {"messages": []}, key="k" * 20) == [529, 200, 400]
    assert await ask(app, QUESTION) == [401]
    found = await samples(app, "k" * 20)
    errors = {key[1:]: value for key, value in found.items() if key[0] == "errors_total"}
    assert errors == {
        ("overloaded", "1", "anthropic"): 1,
        ("overloaded", "2", "openai_chat"): 1,
        ("transport_error", "1", "anthropic"): 1,
        ("status_400",): 1,
        ("status_401",): 1,
    }


async def test_no_client_creates_series(tmp_path: Path) -> None:
    """Names of models that no response had, paths, keys and further models than 100 are no labels."""
    path = tmp_path / "keys.toml"
    path.write_text(f'[[key]]\nname = "ann"\nhash = "{hash_key(ANN)}"\nmetrics = true\n')
    app = create(
        upstream("anthropic", *[Refused("no")] * 300, models={"fast": "claude-x", "*": "*"}),
        keys=path,
        cooldowns=Cooldowns(longest=0, stated=0),
    )
    await ask(app, *[{**QUESTION, "model": f"unknown-{n}"} for n in range(300)], key=ANN)
    before = len(await samples(app, ANN))
    known = [{**QUESTION, "model": f"known-{n}"} for n in range(150)]
    await ask(app, *known, {**QUESTION, "model": "n" * 101}, key=ANN)
    await ask(app, {**QUESTION, "model": "fast"}, key=ANN)
    for number in range(50):
        await ask(app, QUESTION, path=f"/v1/{number}", key=f"{number}")
    found = await samples(app, ANN)
    models = {key[-1] for key in found if key[0] == "requests_total" and key[-1] != "404"}
    assert before < 40
    assert {"claude-x", "known-0", "known-99", "other"} <= models
    assert not {"known-100", "unknown-0", "n" * 101} & models
    assert found["requests_total", "anthropic", "ann", "529", "1", "anthropic", "other"] == 300
    again = len(found)
    await ask(app, *[{**QUESTION, "model": f"later-{n}"} for n in range(50)], key=ANN)
    assert len(await samples(app, ANN)) == again


async def test_open_requests_are_a_gauge() -> None:
    silent = Silent()
    app = create(silent.upstream)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, app, QUESTION)
        await silent.asked.wait()
        open_requests = (await samples(app))["open_requests",]
        silent.ended.set()
    assert (open_requests, (await samples(app))["open_requests",]) == (1, 0)


async def test_a_key_must_be_allowed_to_read_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    tables = [f'[[key]]\nname = "ann"\nhash = "{hash_key(ANN)}"\nmetrics = true\n']
    tables.append(f'[[key]]\nname = "bob"\nhash = "{hash_key(BOB)}"\n')
    path.write_text("".join(tables))
    app, without = create(upstream(), keys=path), Gateway(upstream(), state_key="a key of sixteen bytes")
    async with client_of(app) as client:
        statuses = [
            (await client.get("/metrics", headers=headers)).status_code
            for headers in ({"authorization": f"Bearer {ANN}"}, {"x-api-key": BOB}, {})
        ]
    async with client_of(without) as client:
        off = await client.get("/metrics")
    assert statuses == [200, 403, 401]
    assert off.status_code == 404
    assert off.json()["error"] == "this gateway has no metrics: Gateway(metrics=True), or --metrics"


async def test_two_gateways_of_a_process_count_for_themselves() -> None:
    first, second = create(upstream()), create(upstream())
    await ask(first, QUESTION)
    assert ("requests_total", "anthropic", "200", "1", "anthropic", "m") in await samples(first)
    assert not [key for key in await samples(second) if key[0] == "requests_total"]


@pytest.mark.parametrize("is_filled", [True, False])
async def test_the_empty_file_of_a_worker_that_starts_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_filled: bool
) -> None:
    app, file = create(upstream()), tmp_path / "counter_1.db"
    file.touch()
    waited = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if is_filled and len(waited) == 2:
            values = MmapedDict(str(file))  # type: ignore[no-untyped-call]
            values.write_value(mmap_key("a", "a_total", ["code"], ["b"], "A counter."), 3.0, 0.0)  # type: ignore[no-untyped-call]
            values.close()  # type: ignore[no-untyped-call]

    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr("streamkit.gateway.metrics.anyio.sleep", sleep)
    async with client_of(app) as client:
        response = await client.get("/metrics")
    if is_filled:
        assert (response.status_code, len(waited)) == (200, 2)
        assert 'a_total{code="b"} 3.0' in response.text
    else:
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json() == {"error": "the metrics of a worker cannot be read now"}


def test_a_gateway_without_metrics_imports_nothing_for_them() -> None:
    program = (
        "import sys; from streamkit.gateway import Gateway, Upstream;"
        "Gateway(Upstream(provider='anthropic', ask=print), state_key='a key of sixteen bytes');"
        "print([name for name in sys.modules if 'prometheus' in name or name == 'streamkit.gateway.metrics'])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
