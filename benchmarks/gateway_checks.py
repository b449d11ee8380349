"""The checks of ``gateway_soak``: the upstreams of a run and its clients.

The upstreams keep a record of what they are asked, in which order and when; each check compares it, and what a client
has read, with the plan.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx

from benchmarks.gateway_plans import (
    COOLING,
    LANES,
    LEAVING,
    MODELS,
    PLACES,
    REFUSED,
    Plan,
    credentials,
    fault_of,
    make_attack,
    make_plan,
    make_request,
    question,
    round_of,
    without_state,
)
from streamkit import Content, Turn, providers
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.testing import Call, Disconnect, Reasoning, Reply, Request, Stall, Status

__all__ = ["Soak"]

_PATIENCE = 30.0  # seconds
_NUMBER, _ATTEMPT = re.compile(r"number (\d+)\?"), re.compile(r"attempt (\d+)\.")


@dataclass
class Asked:
    """A request that has reached an upstream: its place in the lane, the client's attempt, the time, the JSON.

    ``marks`` are the texts of the opaque state of its response.
    """

    place: int
    attempt: int
    time: float
    sent: str
    marks: tuple[str, ...] = ()


@dataclass
class Outcome:
    """The response to a client: what was read, and the places of the upstreams that were asked."""

    turn: Turn
    status: int
    headers: Mapping[str, str]
    asked: list[Asked]
    was_killed: bool

    @property
    def places(self) -> list[int]:
        """The places of the upstreams that were asked, in order."""
        return [each.place for each in self.asked]


Rule: TypeAlias = Callable[[Asked], Awaitable[Reply | Status | None]]


class Soak:
    """The state of one run, its upstreams and its checks.

    Args:
        seed: makes the plans.
        workers: the processes of the gateway, each with cooldowns of its own.

    Attributes:
        url, http: the gateway and the client that asks it, set before the first plan.
        killed: the times at which a worker was killed.
        counts: requests by kind, and what was checked.
        problems: a sentence for each.
        left: the requests to upstreams whose clients have left.
    """

    url: str
    http: httpx.AsyncClient

    def __init__(self, seed: int, workers: int = 1) -> None:
        self.seed = seed
        self.workers = workers
        self.killed: list[float] = []
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.left: list[Request] = []
        self._asked: dict[int, list[Asked]] = {}  # by the number of an open plan
        self._rules: dict[int, Rule] = {}  # what an upstream does first, likewise
        self._attempts = 0

    # ------------------------------------------------------------ upstreams

    async def reply(self, request: Request) -> Reply | Status:
        """Return the response of an upstream to a request."""
        sent = json.dumps(request.json, ensure_ascii=False)
        numbers, attempts = _NUMBER.findall(sent), _ATTEMPT.findall(sent)
        if not numbers or request.conversation == "hostile":
            return Reply("a response to a hostile request")
        plan = make_plan(number := int(numbers[0]), self.seed)
        lane, _, place = request.conversation.removeprefix("lane").partition("-")
        asked = Asked(int(place), max(map(int, attempts)), monotonic(), sent)
        if plan.kind in LEAVING:
            self.left.append(request)
        if plan.kind in REFUSED or int(lane) != plan.lane:
            self.problems.append(f"wrong: {plan} has reached {request.path}")
        self._asked.get(number, []).append(asked)
        rule = self._rules.get(number)
        done = [int(each) for each in re.findall(rf"result of round (\d+) of {number}\.", sent)]
        current = max(done, default=-1) + 1  # the round
        fault = fault_of(plan, asked.place, current) if rule is None else await rule(asked)
        if fault is not None:
            return fault
        if plan.kind != "conversation":
            return Reply(*plan.texts, *(Call("weather", {"city": city}) for city in plan.calls))
        text, cities = round_of(plan, current)
        if not cities:
            return Reply(text)
        name = LANES[plan.lane][asked.place]
        signature, thought = f"c2ln{number:08d}r{current}a{asked.attempt:07d}", f"thought {asked.attempt} of {number}."
        seed = f"{name}|{request.conversation}|{request.number}"
        signed = providers.get(name).traits.sign_call(MODELS[name], seed).values()
        marks = {"openai_chat": (), "deepseek": (thought,), "gemini": tuple(signed)}
        asked.marks = marks.get(name, (signature,))
        return Reply(Reasoning(thought, signature), text, *(Call("weather", {"city": city}) for city in cities))

    async def check_left(self) -> None:
        """Record the requests to upstreams that have not been closed after their clients have left."""
        for _ in range(100):
            if all(request.disconnected for request in self.left):
                break
            await asyncio.sleep(0.05)
        self.problems += [f"open: {request.path}" for request in self.left if not request.disconnected]
        self.counts["requests that clients have left, at upstreams"] += len(self.left)
        self.left.clear()

    # ------------------------------------------------------------ clients

    async def run(self, plan: Plan) -> None:
        """Do what a plan says, and check it."""
        self.counts[plan.kind] += 1
        self._asked[plan.number] = []
        try:
            if plan.kind.startswith("hostile_"):
                await self._attack(plan)
            elif plan.kind == "leaves_early":
                await self._leave_early(plan)
            elif plan.kind == "conversation":
                await self._converse(plan)
            elif plan.kind in COOLING:
                await self._cool_down(plan)
            else:
                self._check_fault(plan, await self._ask(plan))
        except httpx.TransportError as error:
            self.problems.append(f"lost: {plan}: {error!r}")
        finally:
            del self._asked[plan.number]
            self._rules.pop(plan.number, None)

    async def _ask(
        self, plan: Plan, contents: Sequence[Content] | None = None, refers_to: str | None = None, key: str = ""
    ) -> Outcome:
        """Return the response to a request; it is sent again if its worker was killed."""
        contents = contents or [question(plan)]
        was_killed = False
        while True:
            self._attempts += 1
            attempt, began = self._attempts, monotonic()
            path, body = make_request(plan, [Content.system(f"attempt {attempt}."), *contents], refers_to)
            headers, query = credentials(plan, key or plan.key)
            turn = Turn(plan.client)
            try:
                async with self.http.stream("POST", self.url + path, json=body, headers=headers, params=query) as got:
                    turn.response(got.status_code, got.headers)
                    async for part in got.aiter_bytes():
                        turn.feed(part)
                        if plan.kind == "leaves" and plan.texts[0] in turn.text:
                            break
            except httpx.TransportError:
                if not self._may_be_killed(began):
                    raise
                self.counts["of a killed worker, asked again"] += 1
                was_killed = True
                continue
            turn.close()
            asked = [each for each in self._asked[plan.number] if each.attempt == attempt]
            return Outcome(turn, got.status_code, got.headers, asked, was_killed)

    def _may_be_killed(self, began: float) -> bool:
        return any(began - 1.0 < time for time in self.killed)

    async def _leave_early(self, plan: Plan) -> None:
        path, body = make_request(plan, [Content.system("attempt 0."), question(plan)], None)
        headers, query = credentials(plan, plan.key)
        try:
            # Of its own: httpx keeps a connection for ever whose request is canceled before it was sent.
            async with httpx.AsyncClient(verify=False) as own, asyncio.timeout(0.02):
                await own.post(self.url + path, json=body, headers=headers, params=query)
        except (TimeoutError, httpx.HTTPError):
            return
        self.problems.append(f"wrong: {plan} got a response of a silent upstream")

    def _check_fault(self, plan: Plan, got: Outcome) -> None:
        turn = got.turn
        if plan.kind == "leaves":
            if not turn.text.startswith(plan.texts[0]):
                self.problems.append(f"lost: {plan}: {got.status} {turn.error} {turn.text!r}")
            return
        if plan.kind in REFUSED:
            if got.status != REFUSED[plan.kind] or turn.error is None or got.places:
                self.problems.append(f"wrong: {plan}: {got.status} {turn.error}")
            return
        is_broken = plan.kind == "invalid" or (plan.kind in ("cut", "error_event") and plan.streams)
        places = [0, 1] if plan.kind in ("cut", "error_event") and not plan.streams else PLACES[plan.kind]
        if not is_broken:
            self._check_complete(plan, got, "".join(plan.texts), plan.calls, places)
            return
        begun = plan.kind != "invalid"
        is_beginning = "".join(plan.texts).startswith(turn.text) and bool(turn.text) == begun
        if turn.error is None or turn.executable or not is_beginning or got.places != places:
            self.problems.append(f"wrong: {plan}: {got.status} {turn.error} {turn.text!r} of {got.places}")

    def _check_complete(self, plan: Plan, got: Outcome, text: str, cities: Sequence[str], *places: list[int]) -> bool:
        """Record a response that is not complete, or not of the upstreams at one of these places."""
        turn = got.turn
        calls = [(call.name, (call.arguments or {}).get("city")) for call in turn.calls]
        complete = got.status == 200 and turn.error is None and all(call.state == "complete" for call in turn.calls)
        if not complete or turn.text != text or calls != [("weather", city) for city in cities]:
            self.problems.append(f"lost: {plan}: {got.status} {turn.error} {turn.text!r} {calls} of {got.places}")
            return False
        if places and got.places not in places and not got.was_killed:
            self.problems.append(f"wrong: {plan}: the upstreams {got.places} were asked")
        return True

    # ------------------------------------------------------------ conversations

    async def _converse(self, plan: Plan) -> None:
        """Make the rounds of a conversation; then the owner of the other key sends the last request."""
        contents, kept, refers_to = [question(plan)], list[tuple[int, str]](), None
        sent: tuple[list[Content], str | None] = contents, None
        for number in range(plan.rounds):
            sent = [*contents], refers_to
            got = await self._ask(plan, *sent)
            text, cities = round_of(plan, number)
            if not self._check_complete(plan, got, text, cities):
                return
            for asked in got.asked:
                found = [(place, asked.sent.count(mark)) for place, mark in kept]
                if any(count != (place == asked.place) for place, count in found):
                    self.problems.append(f"lost: {plan}: state of {found} in round {number}, at {asked.place}")
                self.counts["states that were found"] += sum(count for _, count in found)
            kept += [(asked.place, mark) for asked in got.asked[-1:] for mark in asked.marks]
            content = got.turn.content
            calls = [block for block in content.blocks if isinstance(block, ToolCallBlock)]
            result = f"result of round {number} of {plan.number}."
            results = [ToolResponseBlock(call_id=call.id, name=call.name, result=result) for call in calls]
            contents += [without_state(content) if plan.form == "drops" else content]
            contents += [Content(speaker="tool", blocks=results)]
            refers_to = got.turn.response_id if plan.form == "refers" else None
        if plan.form == "carries":
            return
        got = await self._ask(plan, *sent, key={"ann": "bob", "bob": "ann"}[plan.key])
        self.counts["requests with state of another key"] += 1
        if plan.form == "refers":
            if got.status != 404 or got.places:
                self.problems.append(f"wrong: {plan}: another key got {got.status} for a stored response")
        elif found := [mark for asked in got.asked for _, mark in kept if mark in asked.sent]:
            self.problems.append(f"wrong: {plan}: another key has found the state {found}")

    # ------------------------------------------------------------ cooldowns

    async def _cool_down(self, plan: Plan) -> None:
        """Have the first upstream fail, or both: it is left alone, then asked by one request at a time."""
        failing = (0, 1) if plan.kind == "cooldown_both" else (0,)
        fails, holds = True, False
        stated = plan.wait if plan.kind == "cooldown" else 2 if len(failing) == 2 else None
        fault: Reply | Status = Status(429 if plan.number % 2 else 503, "slow down", retry_after=stated)
        if plan.kind in ("cooldown_lost", "cooldown_hung"):
            fault = Reply(Disconnect()) if plan.kind == "cooldown_lost" else Reply(Stall(60))
        complete = plan, "".join(plan.texts), plan.calls

        async def rule(asked: Asked) -> Reply | Status | None:
            while holds and asked.place == 0:  # noqa: ASYNC110 - in the event loop of another thread
                await asyncio.sleep(0.005)
            return fault if fails and asked.place in failing else None

        self._rules[plan.number] = rule
        first = await self._ask(plan)
        if len(failing) == 1:
            self._check_complete(plan, first, *complete[1:], [0, 1])
        else:
            self._check_error(plan, first, stated, stated)
        asked_at = {place: [each.time for each in first.asked if each.place == place] for place in failing}
        known, count = monotonic(), 1
        for probe_fails in (True, False) if plan.fails_again and len(failing) == 1 else (False,):
            for _ in range(3):  # requests while it is left alone
                least, most = self._delay(stated, count)
                began = monotonic()
                got = await self._ask(plan)
                ended, failed = monotonic(), [each for each in got.asked if each.place in failing]
                soonest = min(times[-1] for times in asked_at.values() if times) + least
                self.counts["requests beside a cooling upstream"] += not failed and ended < soonest
                if len(failing) == 1:
                    self._check_complete(plan, got, *complete[1:], [1], [0, 1])
                elif not failed:
                    # Another process may have failed sooner.
                    self._check_error(plan, got, soonest - ended if self.workers == 1 else 0, known + most - began)
                for each in failed:
                    times, processes = asked_at[each.place], self.workers + len(self.killed)
                    if len(times) >= processes and each.time < times[-processes] + least:
                        self.problems.append(f"wrong: {plan}: an upstream was asked at {each.time} after {times}")
                    times.append(each.time)
                if failed:
                    known, count = ended, count + 1
            least, most = self._delay(stated, count)
            await asyncio.sleep(max(0.0, known + most - monotonic()))
            fails = probe_fails
            if len(failing) == 2:
                self._check_complete(plan, await self._ask(plan), *complete[1:], [0])
                return
            holds = plan.kind != "cooldown_hung"  # which has a time limit
            count += 1
            before = len(self._asked[plan.number])
            asking = [asyncio.create_task(self._ask(plan)) for _ in range(4)]
            probes = await self._wait_for_probes(plan, before, asking)
            self.counts["probes"] += len(probes)
            if not probes or (len(probes) > 1 and self.workers == 1 and (holds or fails)):
                self.problems.append(f"wrong: {plan}: {len(probes)} requests at once have asked a failed upstream")
            # As one: a process that has not failed yet asks with each of them, and another may still ask once.
            asked_at[0].append(max((each.time for each in probes), default=known))
            holds = False
            for got in await asyncio.gather(*asking):
                self._check_complete(plan, got, *complete[1:], [1], [0, 1] if fails else [0])
            known = monotonic()
        for _ in range(2):
            self._check_complete(plan, await self._ask(plan), *complete[1:], [0])

    async def _wait_for_probes(self, plan: Plan, before: int, asking: Sequence[asyncio.Task[Outcome]]) -> list[Asked]:
        """Return the requests that ask the first upstream, which does not respond, when all others have ended."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            probes = [asked for asked in self._asked[plan.number][before:] if asked.place == 0]
            if probes and len(probes) + sum(each.done() for each in asking) >= len(asking):
                break
            await asyncio.sleep(0.005)
        return probes

    def _delay(self, stated: float | None, count: int) -> tuple[float, float]:
        """Return the least and the most seconds for which an upstream is left alone after so many failures."""
        if stated is not None:
            return stated, stated
        delays = [min(2.0 ** (each - 1), 30.0) for each in (count if self.workers == 1 else 1, count)]
        return delays[0] / 2, delays[1]

    def _check_error(self, plan: Plan, got: Outcome, least: float | None, most: float | None) -> None:
        """Record a response that is not the error of upstreams that cool down, with a time in these bounds."""
        stated = got.headers.get("retry-after")
        is_error = got.turn.error is not None and got.status in (429, 503)
        if not is_error or (least is None or most is None) != (stated is None):
            self.problems.append(f"wrong: {plan}: {got.status} {got.turn.error}, retry-after {stated}")
        elif stated is not None and least is not None and most is not None:
            if not max(1, math.ceil(least)) <= float(stated) <= max(1, math.ceil(most)):
                self.problems.append(f"wrong: {plan}: retry-after {stated}, not from {least} to {most}")

    # ------------------------------------------------------------ hostile requests

    async def _attack(self, plan: Plan) -> None:
        """Send a hostile request over a connection of its own, and check that its end is no failure of the gateway."""
        where, began = urlsplit(self.url), monotonic()
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(make_attack(plan))
            await writer.drain()
            if "half" not in plan.kind:
                answer = await asyncio.wait_for(reader.read(), _PATIENCE)
                is_answer = answer.startswith(b"HTTP/1.1 ") and b"this gateway failed" not in answer
                if not is_answer and not (answer == b"" and self._may_be_killed(began)):
                    self.problems.append(f"failed: {plan}: {answer[-300:]!r}")
                self.counts[f"hostile, answered {answer[9:12].decode('ascii', 'replace')}"] += 1
        except TimeoutError:
            self.problems.append(f"failed: {plan} was not answered in {_PATIENCE:g} s")
        except ConnectionError:
            pass  # the server has closed the connection before it read the whole request
        finally:
            writer.close()
