"""Requests through the gateway with faults, over loopback HTTP: no event is lost, nothing leaks.

    python -m benchmarks.gateway_soak [MINUTES] [--seed N] [--workers N]

Each request is made from a seed: the client's wire, the order of two upstreams, text and calls, and a fault. Faults of
an upstream: a rejected request, a connection that breaks, an error within the stream. Faults of a client: it leaves
before the first byte or in the middle. One request of twenty is hostile: a request damaged as by ``tests/fuzz``, a path
of 60 kB, JSON nested 10,000 levels deep, forged state, gzip that inflates to 60 MB, half a head or half a body. After
each request these are checked:

- lost: a response without a fault whose text, calls or finish are not those of the script;
- wrong: a response with a fault that is not its beginning and an error, or for which no other upstream was asked;
- open: an upstream's response that still runs after its client left;
- failed: a hostile request to which the gateway answers that it has failed, or does not answer.

At moments without a request these are checked: the requests and tasks of the gateway, its connections to upstreams, and
the objects that the garbage collector tracks, between the first and the last third of the time. The exit code is 1 if
anything was lost, wrong, open or failed, a task or connection remains, or the objects grow by more than 2%.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import gzip
import json
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import uvicorn

from streamkit import Turn, providers
from streamkit.gateway import Gateway, GatewayLimits, Upstream
from streamkit.gateway.routes import CLIENTS
from streamkit.history import Content
from streamkit.providers import render_request
from streamkit.providers.requests.request import Request as NeutralRequest
from streamkit.providers.requests.request import Settings
from streamkit.testing import Call, Disconnect, ErrorEvent, Reply, Request, Server, Stall, Status, serve
from streamkit.tools import ToolDefinition

UPSTREAMS = ("anthropic", "openai_chat", "openai_responses", "gemini")
HOSTILE = 0.05  # of the requests
ATTACKS = ("damaged", "damaged", "damaged", "path", "deep", "state", "gzip", "half_head", "half_body")
FAULTS = ("none", "none", "none", "rejected", "first_cut", "cut", "error_event", "leaves", "leaves_early")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GROWTH = 1.02
ROUND = 200  # requests between two moments without a request


@dataclass(frozen=True)
class Plan:
    """One request.

    Attributes:
        number: its number, which is in its question.
        client: the client's wire.
        order: the upstream that is asked first: 0 or 1.
        texts: the parts of the text.
        calls: the cities of its calls.
        fault: one of ``FAULTS``, or of ``ATTACKS`` behind ``hostile_``.
    """

    number: int
    client: str
    order: int
    texts: tuple[str, ...]
    calls: tuple[str, ...]
    fault: str

    @property
    def text(self) -> str:
        """The text of the response."""
        return "".join(self.texts)


def make_plan(number: int, seed: int) -> Plan:
    """Return the plan of a request."""
    source = random.Random(f"{seed}/{number}")
    return Plan(
        number,
        source.choice(CLIENTS),
        source.randrange(2),
        tuple(f"part {part} of {number}. " for part in range(source.randint(1, 12))),
        tuple(source.choice(("Oslo", "Bergen", "Tromsø")) for _ in range(source.randint(0, 3))),
        source.choice(FAULTS) if source.random() >= HOSTILE else f"hostile_{source.choice(ATTACKS)}",
    )


class Soak:
    """The state of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.faults: Counter[str] = Counter()
        self.problems: list[str] = []
        self.asked: Counter[int] = Counter()  # upstreams that were asked, by request

    def reply(self, request: Request) -> Reply | Status:
        """Return the response of an upstream to a request."""
        named = str(request.json).partition("number ")[2].partition("?")[0]
        if not named.isdigit():
            return Reply("a response to a hostile request")
        plan = make_plan(number := int(named), self.seed)
        self.asked[number] += 1
        calls = [Call("weather", {"city": city}) for city in plan.calls]
        middle = len(plan.texts) // 2
        if plan.fault in ("rejected", "first_cut") and self.asked[number] == 1:
            return Status(429, "slow down") if plan.fault == "rejected" else Reply(Disconnect())
        if plan.fault == "cut":
            return Reply(*plan.texts[: middle + 1], Disconnect())
        if plan.fault == "error_event":
            return Reply(*plan.texts[: middle + 1], ErrorEvent(Status(529, "Overloaded")))
        if plan.fault == "leaves":
            return Reply(*plan.texts[: middle + 1], Stall(60))
        if plan.fault == "leaves_early":
            return Reply(Stall(60))
        return Reply(*plan.texts, *calls)

    def check(self, plan: Plan, turn: Turn, status: int) -> None:
        """Record the problems of a response."""
        self.faults[plan.fault] += 1
        calls = [(call.name, (call.arguments or {}).get("city")) for call in turn.calls]  # type: ignore[union-attr]
        label = f"request {plan.number} ({plan.client}, {plan.fault})"
        if plan.fault in ("none", "rejected", "first_cut"):
            complete = status == 200 and turn.error is None and all(call.state == "complete" for call in turn.calls)
            wanted = [("weather", city) for city in plan.calls]
            if not complete or turn.text != plan.text or calls != wanted:
                self.problems.append(f"lost: {label}: {status} {turn.error} {turn.text!r} {calls}")
            if (self.asked[plan.number] == 2) != (plan.fault != "none"):
                self.problems.append(f"wrong: {label}: {self.asked[plan.number]} upstreams were asked")
        elif turn.error is None or not turn.text or not plan.text.startswith(turn.text) or turn.executable:
            self.problems.append(f"wrong: {label}: {status} {turn.error} {turn.text!r} {calls}")
        del self.asked[plan.number]


def make_request(plan: Plan) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a client's request."""
    tool = ToolDefinition(name="weather", parameters=CITY)
    question = Content.human(f"number {plan.number}?")
    request = NeutralRequest(contents=[question], tools=[tool], stream=True, settings=Settings(model="m"))
    body = render_request(request, plan.client, stream=True)
    endpoint = providers.get(plan.client).traits.endpoint
    prefix = "/v1" if plan.client in ("openai_chat", "openai_responses") else ""
    return prefix + endpoint.path.format(model="m"), body


@cache
def damaged_requests() -> tuple[tuple[str, str, dict[str, str], bytes], ...]:
    """Return the method, path, headers and body of 2,000 requests that the mutations of ``tests/fuzz`` have damaged."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from fuzz.inputs import expand, part_bytes
    from fuzz.targets import damaged, seeds

    chance, found = random.Random(1), list(seeds("gateway_request"))
    requests = []
    while len(requests) < 2000:
        parts = damaged(chance.choice(found), chance).parts
        head = expand(parts[0]) if parts else None
        if isinstance(head, dict):
            headers = head["headers"] if isinstance(head.get("headers"), dict) else {}
            data = [part_bytes(part) or json.dumps(expand(part)).encode() for part in parts[1:]]
            path = str(head.get("path")) + f"?{head.get('query', '')}"
            requests.append((str(head.get("method", "POST")), path, headers, b"".join(data)))
    return tuple(requests)


def make_attack(plan: Plan) -> bytes:
    """Return the bytes of a hostile request, which are sent as they are."""
    path, ordinary = make_request(plan)
    method, headers, body = "POST", {"content-type": "application/json"}, json.dumps(ordinary).encode()
    match plan.fault.removeprefix("hostile_"):
        case "damaged":
            method, path, headers, body = damaged_requests()[plan.number % 2000]
        case "path":
            path = "/v1" * 20_000
        case "deep":
            body = b'{"model": "m", "messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        case "state":
            path = "/v1/chat/completions"
            details = [{"type": "reasoning.encrypted", "data": "c3RyZWFta2l0" * 100}] * 50
            messages = [{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_details": details}] * 10
            body = json.dumps({"model": "m", "messages": messages}).encode()
        case "gzip":
            headers, body = {**headers, "content-encoding": "gzip"}, gzip.compress(bytes(60 * 1024 * 1024), 1)
        case "half_head":
            return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: ".encode()
    lines = [f"{method} /{plan.order}{path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    own = ("host", "content-length", "connection")
    lines += [f"{name}: {value}" for name, value in headers.items() if str(name).lower() not in own]
    lines.append("connection: close")
    data = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body
    return data[: -len(body) // 2] if plan.fault == "hostile_half_body" else data


async def attack(soak: Soak, url: str, plan: Plan) -> None:
    """Send a hostile request over a connection of its own, and check that its end is no failure of the gateway."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    soak.faults[plan.fault] += 1
    try:
        writer.write(make_attack(plan))
        await writer.drain()
        if "half" not in plan.fault:
            answer = await asyncio.wait_for(reader.read(), 30)
            if not answer.startswith(b"HTTP/1.1 ") or b"this gateway failed" in answer:
                soak.problems.append(f"failed: request {plan.number} ({plan.client}, {plan.fault}): {answer[-300:]!r}")
            soak.faults[f"hostile, answered {answer[9:12].decode('ascii', 'replace')}"] += 1
    except TimeoutError:
        soak.problems.append(f"failed: request {plan.number} ({plan.client}, {plan.fault}) was not answered in 30 s")
    except ConnectionError:
        pass  # the server has closed the connection before it read the whole request
    finally:
        writer.close()
        soak.asked.pop(plan.number, None)


async def ask(soak: Soak, http: httpx.AsyncClient, url: str, plan: Plan) -> None:
    """Send the request of a plan, read its response and check it."""
    if plan.fault.startswith("hostile_"):
        await attack(soak, url, plan)
        return
    path, body = make_request(plan)
    turn = Turn(plan.client)
    leaves_at = len("".join(plan.texts[: len(plan.texts) // 2 + 1])) // 2
    address = f"{url}/{plan.order}{path}"
    if plan.fault == "leaves_early":
        try:
            # Of its own: httpx keeps a connection for ever whose request is canceled before it was sent.
            async with httpx.AsyncClient(verify=False) as own, asyncio.timeout(0.02):
                await own.post(address, json=body)
        except (TimeoutError, httpx.HTTPError):
            soak.faults[plan.fault] += 1
        else:
            soak.problems.append(f"wrong: request {plan.number} got a response of a silent upstream")
        soak.asked.pop(plan.number, None)
        return
    async with http.stream("POST", address, json=body) as response:
        turn.response(response.status_code, response.headers)
        async for part in response.aiter_bytes():
            turn.feed(part)
            if plan.fault == "leaves" and len(turn.text) > leaves_at:
                soak.faults[plan.fault] += 1
                soak.asked.pop(plan.number, None)
                return
    turn.close()
    soak.check(plan, turn, response.status_code)


async def wait_until_quiet(gateways: list[Gateway], server: Server, soak: Soak, allowed_tasks: int) -> None:
    """Wait for the ends of abandoned responses, and record those that do not end."""
    for _ in range(100):
        await asyncio.sleep(0.02)
        busy = sum(len(gateway._state.open_requests) for gateway in gateways)
        if not busy and len(asyncio.all_tasks()) <= allowed_tasks:
            break
    else:
        soak.problems.append(f"open: {busy} requests and {len(asyncio.all_tasks()) - allowed_tasks} tasks remain")
    server.requests.clear()


async def run(minutes: float, seed: int, workers: int) -> Soak:
    """Run until the time has passed."""
    soak = Soak(seed)
    objects: list[int] = []
    with serve(soak.reply) as server:
        # As many connections wait in the pools on a slow machine as on a fast one: their objects are no leak.
        limits, timeout = httpx.Limits(max_keepalive_connections=workers), httpx.Timeout(60.0, pool=None)
        async with (
            httpx.AsyncClient(timeout=timeout, limits=limits) as upstream_http,
            httpx.AsyncClient(timeout=timeout, limits=limits) as http,
        ):
            gateways = [_gateway(upstream_http, server, order) for order in (0, 1)]
            app = _Orders(gateways)
            config = uvicorn.Config(app, port=0, lifespan="off", ws="none", log_config=None, access_log=False)
            serving = uvicorn.Server(config)
            task = asyncio.create_task(serving.serve())
            while not serving.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            url = "http://{}:{}".format(*serving.servers[0].sockets[0].getsockname()[:2])
            deadline, number = time.monotonic() + 60 * minutes, 0
            allowed_tasks = len(asyncio.all_tasks())
            while time.monotonic() < deadline or not objects:
                pending = iter([make_plan(number + each, seed) for each in range(ROUND)])
                number += ROUND

                async def work(plans: Any = pending) -> None:
                    for plan in plans:
                        await ask(soak, http, url, plan)

                await asyncio.gather(*(work() for _ in range(workers)))
                await wait_until_quiet(gateways, server, soak, allowed_tasks)
                gc.collect()
                objects.append(len(gc.get_objects()))
                if sys.stdout.isatty():
                    print(f"\r{number} requests, {objects[-1]} objects", end="", flush=True)
            serving.should_exit = True
            await task
    third = max(1, len(objects) // 3)
    before, after = statistics.median(objects[:third]), statistics.median(objects[-third:])
    print(f"\n{number} requests: {dict(sorted(soak.faults.items()))}")
    print(f"objects: {before:.0f} in the first third of the time, {after:.0f} in the last")
    if after > before * GROWTH:
        soak.problems.append(f"leak: the objects grew from {before:.0f} to {after:.0f}")
    return soak


class _Orders:
    """Two gateways with the same upstreams in both orders, at ``/0`` and ``/1``."""

    def __init__(self, gateways: list[Gateway]) -> None:
        self._gateways = gateways

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        await self._gateways[int(path[1])]({**scope, "path": path[2:]}, receive, send)


def _gateway(http: httpx.AsyncClient, server: Server, order: int) -> Gateway:
    def upstream(name: str) -> Upstream:
        base = server.base_url(name)
        return Upstream(
            provider=name,
            ask=lambda request: http.stream("POST", base + request.path, json=request.body),
            endpoint=base,
            models={"*": "m"},
        )

    names = random.Random(order).sample(UPSTREAMS, 2)
    # Stored responses grow up to their limit, which is reached at once here: other objects that remain are a leak.
    return Gateway(*map(upstream, names), limits=GatewayLimits(stored=20_000))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway_soak", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    soak = asyncio.run(run(options.minutes, options.seed, options.workers))
    for problem in soak.problems[:20]:
        print(problem)
    print(f"{len(soak.problems)} problems")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
