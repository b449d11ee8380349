"""The requests of ``gateway_soak``: plans that are made from a seed, and what clients and upstreams send by them.

Pairs of upstreams (``LANES``) have models of their own for each plan, so that no plan depends on another one, and what
is checked is exact. Clients have two keys, with models of their own and models in common.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from streamkit import Content, providers, render_request
from streamkit.gateway.routes import CLIENTS
from streamkit.history import ReasoningBlock
from streamkit.providers.requests.request import Request as NeutralRequest
from streamkit.providers.requests.request import Settings
from streamkit.testing import Disconnect, ErrorEvent, Reply, Server, Stall, Status
from streamkit.tools import ToolDefinition

__all__ = [
    "COOLING",
    "FIRST_EVENT",
    "KEYS",
    "LANES",
    "LEAVING",
    "MODELS",
    "PLACES",
    "REFUSED",
    "Plan",
    "credentials",
    "damaged_requests",
    "fault_of",
    "make_attack",
    "make_plan",
    "make_request",
    "question",
    "round_of",
    "upstreams",
    "without_state",
]

#: The upstreams that are asked for the models of a lane: one, and the other one if that fails.
LANES = (
    ("anthropic", "openai_chat"),
    ("openai_responses", "gemini"),
    ("gemini", "anthropic"),
    ("openai_chat", "openai_responses"),
    ("bedrock_converse", "deepseek"),
    ("openai_chat", "anthropic"),  # of plans alone whose upstream hangs: the first one has a time limit
)
HUNG_LANE = len(LANES) - 1
FIRST_EVENT = 5.0  # seconds; the time limit
MODELS = {  # each with a model whose responses have state, where the wire has any
    "anthropic": "claude-sonnet-4-5",
    "bedrock_converse": "anthropic.claude-sonnet-4-5",
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
    "gemini": "gemini-3-pro-preview",
    "deepseek": "deepseek-reasoner",
}
#: The keys of clients with the models that each may ask; the models of ``both`` are those of two keys.
KEYS = {
    "ann": ("sk-ann-0123456789abcdef", ["ann*", "both*"]),
    "bob": ("sk-bob-0123456789abcdef", ["bob*", "both*"]),
    "eve": ("sk-eve-0123456789abcdef", None),  # of hostile requests
}
#: The places of the upstreams that a request reaches in a lane, in order, by the fault of the first.
PLACES = {
    "none": [0],
    "invalid": [0],
    "rejected": [0, 1],
    "unavailable": [0, 1],
    "failed": [0, 1],
    "first_cut": [0, 1],
    "first_error": [0, 1],
    "cut": [0],
    "error_event": [0],
}
#: The status of a request that must reach no upstream.
REFUSED = {"no_key": 401, "wrong_key": 401, "other_model": 403, "unknown_model": 404}
LEAVING = ("leaves", "leaves_early")
COOLING = ("cooldown", "cooldown", "cooldown_lost", "cooldown_hung", "cooldown_both")
ATTACKS = ("damaged", "damaged", "damaged", "path", "deep", "state", "gzip", "half_head", "half_body")
SILENCE = 60.0  # seconds of an upstream whose client leaves
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = ToolDefinition(name="weather", parameters=CITY)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One request, or several of one client.

    Attributes:
        number: its number, which is in its question.
        kind: a fault of ``PLACES``, a key of ``REFUSED``, one of ``LEAVING`` or ``COOLING``, ``conversation``, or an
            attack behind ``hostile_``.
        client: the client's wire.
        lane: the number of its upstreams in ``LANES``.
        scope: who may ask its model: a name of ``KEYS``, or ``both``.
        key: the name of its key.
        texts: the parts of the text.
        calls: the cities of its calls.
        streams: the client asks for a stream.
        rounds: the number of requests of a conversation.
        form: how the client of a conversation has the rounds before: ``carries`` all of them, ``drops`` the state, or
            ``refers`` to a stored response.
        falls: the round in which the first upstream rejects the request; -1 for none.
        wait: the ``retry-after`` of an upstream that cools down; None for none.
        fails_again: the first probe of it fails.
    """

    number: int
    kind: str
    client: str
    lane: int
    scope: str
    key: str
    texts: tuple[str, ...]
    calls: tuple[str, ...]
    streams: bool
    rounds: int
    form: str
    falls: int
    wait: int | None
    fails_again: bool

    @property
    def model(self) -> str:
        """The client's name of the model."""
        if self.kind == "unknown_model":
            return f"{self.scope}-unknown-{self.number}"
        other = {"ann": "bob", "bob": "ann"}[self.key]
        return f"{other if self.kind == 'other_model' else self.scope}{self.lane}-{self.number}"

    def __str__(self) -> str:
        return f"{self.kind} {self.number} ({self.client}, {self.form} over {', '.join(LANES[self.lane])})"


def make_plan(number: int, seed: int) -> Plan:
    """Return the plan of a number."""
    chance = random.Random(f"{seed}/{number}")
    kinds: tuple[tuple[float, Sequence[str]], ...] = (
        (0.5, ("none", *PLACES, *LEAVING)),
        (0.6, tuple(REFUSED)),
        (0.8, ("conversation",)),
        (0.87, COOLING),
        (1.0, tuple(f"hostile_{attack}" for attack in ATTACKS)),
    )
    share = chance.random()
    kind = chance.choice(next(names for most, names in kinds if share < most))
    client, key = chance.choice(CLIENTS), chance.choice(("ann", "bob"))
    lane = HUNG_LANE if kind == "cooldown_hung" else chance.randrange(HUNG_LANE)
    form = chance.choice(("carries", "drops"))
    if kind == "conversation" and client == "openai_responses" and chance.random() < 0.5:
        form = "refers"
    # A client of the upstream's own wire sends its state back.
    if form == "drops" and {providers.get(name).package for name in LANES[lane]} & {providers.get(client).package}:
        form = "carries"
    return Plan(
        number=number,
        kind=kind,
        client=client,
        lane=lane,
        scope=chance.choice((key, "both")) if kind != "conversation" else "both",
        key=key,
        texts=tuple(f"part {part} of {number}. " for part in range(chance.randint(1, 12))),
        calls=tuple(chance.choice(("Oslo", "Bergen", "Tromsø")) for _ in range(chance.randint(0, 3))),
        streams=kind == "leaves" or chance.random() < 0.8,
        rounds=chance.randint(2, 3),
        form=form,
        falls=chance.choice((-1, -1, 0, 1)),
        wait=chance.choice((None, 2, 3)),
        fails_again=chance.random() < 0.5,
    )


def upstreams(server: Server) -> Iterator[tuple[str, str, dict[str, str], bool]]:
    """Yield the provider, the base URL and the models of each upstream, and whether it has a time limit."""
    for lane, names in enumerate(LANES):
        for place, name in enumerate(names):
            models = {f"{scope}{lane}-*": f"{MODELS[name]}-*" for scope in ("ann", "bob", "both")}
            yield name, server.base_url(name, f"lane{lane}-{place}"), models, (lane, place) == (HUNG_LANE, 0)
    yield "anthropic", server.base_url("anthropic", "hostile"), {"m": "m", "a/b:c": "m"}, False


def question(plan: Plan) -> Content:
    return Content.human(f"number {plan.number}?")


def fault_of(plan: Plan, place: int, current: int) -> Reply | Status | None:
    """Return what an upstream does instead of responding; None if it responds."""
    begun = plan.texts[: len(plan.texts) // 2 + 1]
    if plan.kind in LEAVING:
        return Reply(*begun, Stall(SILENCE)) if plan.kind == "leaves" else Reply(Stall(SILENCE))
    if place == 1:
        return None
    if plan.kind == "conversation":
        return Status(429, "slow down") if current == plan.falls else None
    faults: Mapping[str, Reply | Status] = {
        "invalid": Status(400, "no such parameter"),
        "rejected": Status(429, "slow down", retry_after=plan.wait),
        "unavailable": Status(529, "Overloaded"),
        "failed": Status(500, "an internal error"),
        "first_cut": Reply(Disconnect()),
        "first_error": Reply(ErrorEvent(Status(529, "Overloaded"))),
        "cut": Reply(*begun, Disconnect()),
        "error_event": Reply(*begun, ErrorEvent(Status(529, "Overloaded"))),
    }
    return faults.get(plan.kind)


def round_of(plan: Plan, number: int) -> tuple[str, Sequence[str]]:
    """Return the text and the cities of the calls of one round of a conversation; the last one has no calls."""
    is_last = number >= plan.rounds - 1
    return f"round {number} of {plan.number}. " + plan.texts[0], () if is_last else plan.calls or ("Oslo",)


def without_state(content: Content) -> Content:
    """Return a content as chat frameworks keep it: the texts, and the names, arguments and ids of the calls."""
    blocks = [
        block.model_copy(update={"metadata": {name: block.metadata.get(name) for name in ("provider", "raw_id")}})
        for block in content.blocks
        if not isinstance(block, ReasoningBlock)
    ]
    return Content(speaker="ai", blocks=blocks, metadata={"provider": content.metadata["provider"]})


def credentials(plan: Plan, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers and the query with a key, in one of the forms of the wires' clients."""
    if plan.kind == "no_key":
        return {}, {}
    key = KEYS[name][0] + ("x" if plan.kind == "wrong_key" else "")
    forms = {"authorization": f"Bearer {key}", "x-api-key": key, "x-goog-api-key": key, "key": key}
    form = [*forms][plan.number % len(forms)]
    return ({}, {"key": key}) if form == "key" else ({form: forms[form]}, {})


def make_request(plan: Plan, contents: Sequence[Content], refers_to: str | None) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a client's request."""
    settings = Settings(model=plan.model, reasoning="auto", reasoning_effort="high")
    request = NeutralRequest(contents=list(contents), tools=[TOOL], stream=plan.streams, settings=settings)
    body = render_request(request, plan.client, stream=plan.streams)
    if refers_to is not None:
        attempt = [item for item in body["input"] if "attempt" in str(item)]
        results = body["input"][-len(contents[-1].blocks) :]
        body |= {"previous_response_id": refers_to, "input": [*attempt, *results]}
    path = providers.get(plan.client).traits.endpoint.path.format(model=plan.model)
    if not plan.streams:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        path = path.replace("converse-stream", "converse").replace("invoke-with-response-stream", "invoke")
    return ("/v1" if plan.client in ("openai_chat", "openai_responses") else "") + path, body


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


@cache
def inflated() -> bytes:
    """Return 60 MB, compressed."""
    return gzip.compress(bytes(60 * 1024 * 1024), 1)


def make_attack(plan: Plan) -> bytes:
    """Return the bytes of a hostile request, which are sent as they are. Its key may ask all models."""
    path, ordinary = make_request(plan, [Content.system("attempt 0."), question(plan)], None)
    method, headers, body = "POST", {"content-type": "application/json"}, json.dumps(ordinary).encode()
    match plan.kind.removeprefix("hostile_"):
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
            headers, body = {**headers, "content-encoding": "gzip"}, inflated()
        case "half_head":
            return f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-a: ".encode()
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    own = ("host", "content-length", "connection", "authorization")
    lines += [f"{name}: {value}" for name, value in headers.items() if str(name).lower() not in own]
    lines += [f"authorization: Bearer {KEYS['eve'][0]}", "connection: close"]
    data = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body
    return data[: -len(body) // 2] if plan.kind == "hostile_half_body" else data
