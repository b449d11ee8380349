"""Thousands of conversations over loopback HTTP with faults: nothing is lost, doubled or illegal, and memory is flat.

    python -m benchmarks.soak [MINUTES] [--backend asyncio|trio|both] [--seed N] [--workers N]

Each conversation is made from a seed: a provider, up to four rounds of calls, and faults. Faults of the server:
rejected requests, broken connections, stalls, invalid arguments. Faults of the tools: exceptions, timeouts, approvals
that arrive in another run. Faults of the reader: it leaves at a random event. The embedded server rejects what the
provider would reject. After each conversation these are checked:

- lost: a call of a confirmed turn without exactly one result in ``run.contents``;
- doubled: a call whose tool ran more often than once;
- illegal: a request that the server rejected for its form, or contents that a provider's request rules reject.

Memory is compared between the first and the last third of the time after the warm-up, at moments without a
conversation: objects that the garbage collector tracks, and the resident set. The exit code is 1 if anything was lost,
doubled or illegal, or if the objects grow by more than 2%.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import logging
import random
import resource
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx

from streamkit import (
    Content,
    RunState,
    StreamInterrupted,
    Tool,
    ToolContext,
    Turn,
    providers,
    render_request,
    run_loop,
    tool,
)
from streamkit.bridges.http import connect
from streamkit.events import ToolCallStart
from streamkit.history import ToolCallBlock, ToolResponseBlock
from streamkit.testing import (
    Call,
    Disconnect,
    Reasoning,
    Reply,
    Request,
    Server,
    Stall,
    Status,
    serve,
    validate_request,
)

CONVERSATIONS_AT_ONCE = 16
BATCH = 64  # conversations between two looks at memory
TOOLS = ("look", "compute", "fail", "hang", "book")


@dataclass
class Conversation:
    """One conversation: what the model sends, which tools ran, and what the reader does.

    Attributes:
        name: the conversation's part of the base URL.
        provider: its provider.
        responses: of the server, one for each request.
        leaves_at: the number of the event at which the reader leaves; None if it stays.
        ran: how often the tool of each call ran, by the number in its arguments.
    """

    name: str
    provider: str
    responses: list[Reply | Status]
    leaves_at: int | None
    layout: str
    ran: Counter[int] = field(default_factory=Counter)

    @classmethod
    def random(cls, name: str, chance: random.Random) -> Conversation:
        """Return a conversation of the choices that *chance* makes."""
        numbers = iter(range(10_000))
        responses: list[Reply | Status] = []
        for _ in range(chance.randint(0, 4)):
            responses += _faults(chance)
            calls = [_call(next(numbers), chance) for _ in range(chance.choice((1, 1, 2, 3, 8)))]
            items: list[Any] = [f"Let me see ({name}). ", *calls]
            if chance.random() < 0.2:
                items.insert(0, Reasoning("They ask again.", signature="c2ln" * 8))
            if chance.random() < 0.05:
                items.insert(chance.randint(0, len(items)), Stall(0.01))
            if chance.random() < 0.04:
                items.append(Disconnect())
            responses.append(Reply(*items))
        responses += [*_faults(chance), Reply("That is all.")]
        return cls(
            name,
            chance.choice(PROVIDERS),
            responses,
            leaves_at=chance.randint(0, 60) if chance.random() < 0.1 else None,
            layout=chance.choice(("batched", "batched", "sequential")),
        )


def _faults(chance: random.Random) -> list[Reply | Status]:
    if chance.random() > 0.1:
        return []
    return [chance.choice((Status(429, retry_after=0), Status(503, retry_after=0), Status(529, retry_after=0)))]


def _call(number: int, chance: random.Random) -> Call:
    name = chance.choices(TOOLS, weights=(6, 3, 1, 0.3, 0.5))[0]
    arguments: Any = {"number": number, "text": "x" * chance.choice((0, 3, 200))}
    if chance.random() < 0.03:
        arguments = json.dumps(arguments)[:-4]  # truncated
    elif chance.random() < 0.02:
        name = "unknown_tool"
    return Call(name, arguments)


PROVIDERS = [name for name in providers.names() if name != "perplexity"]  # Perplexity has no tools


@dataclass
class Findings:
    """What the soak counts.

    Attributes:
        outcomes: conversations by their end.
        calls: the results that were checked.
        problems: what was lost, doubled or illegal, with the conversation.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def report(self, kind: str, conversation: Conversation, detail: str) -> None:
        """Count a problem and keep the first few as examples."""
        self.problems[kind] += 1
        if len(self.examples) < 10:
            self.examples.append(f"{kind}: {conversation.name} ({conversation.provider}): {detail}")


def make_tools(conversation: Conversation) -> list[Tool]:
    """Return the conversation's tools, which count how often each call runs."""

    @tool(eager=True)
    async def look(number: int, text: str) -> str:
        conversation.ran[number] += 1
        await anyio.lowlevel.checkpoint()
        return text

    def compute(number: int, text: str) -> dict[str, int]:
        conversation.ran[number] += 1
        return {"number": number}

    async def fail(number: int, text: str, context: ToolContext) -> None:
        conversation.ran[number] += 1
        context.progress({"half": True})
        raise RuntimeError("no luck")

    @tool(timeout=0.02)
    async def hang(number: int, text: str) -> None:
        conversation.ran[number] += 1
        await anyio.sleep_forever()

    @tool(approval="ask")
    async def book(number: int, text: str) -> str:
        conversation.ran[number] += 1
        return "booked"

    return [look, tool(compute), tool(fail), hang, book]


async def hold(conversation: Conversation, server: Server, client: httpx.AsyncClient, found: Findings) -> None:
    """Hold one conversation to its end, and check it."""
    base_url = server.base_url(conversation.provider, conversation.name)
    connection = connect(conversation.provider, model="soak", base_url=base_url, client=client)
    tools = make_tools(conversation)
    begin = functools.partial(run_loop, connection, tools=tools, retries=3, timeouts=5, shape=conversation.layout)
    history = [Content.human(f"Go on, {conversation.name}.")]
    run = begin(history=history, run_key=conversation.name)
    turns: list[Turn] = []
    contents: list[Content] = []
    while True:
        outcome = await _watch(run, conversation, turns)
        contents = run.contents  # of a resumed run also what was added before the pause
        if outcome != "awaiting_approval":
            break
        state = RunState.model_validate_json(run.state.model_dump_json())
        run = begin(resume=state.answer(approvals={call.id: call.index % 2 == 0 for call in run.pending}))
    found.outcomes[outcome] += 1
    check(conversation, history, contents, turns, found)


async def _watch(run: Any, conversation: Conversation, turns: list[Turn]) -> str:
    """Watch a run until it ends or the reader leaves; return how it ended."""
    seen = 0
    try:
        async with run:
            async for event in run:
                seen += 1
                if isinstance(event, ToolCallStart) and run.turn is not None and run.turn not in turns:
                    turns.append(run.turn)
                if seen == conversation.leaves_at:
                    break
    except StreamInterrupted as error:
        return f"error: {error.error.kind}"
    return str(run.ended)


def check(
    conversation: Conversation, history: list[Content], contents: list[Content], turns: list[Turn], found: Findings
) -> None:
    """Count what is lost, doubled or illegal in a conversation that has ended."""
    for number, times in conversation.ran.items():
        if times != 1:
            found.report("doubled", conversation, f"the tool of call {number} ran {times} times")
    blocks = [block for content in contents for block in content.blocks]
    results = Counter(block.call_id for block in blocks if isinstance(block, ToolResponseBlock))
    calls = Counter(block.id for block in blocks if isinstance(block, ToolCallBlock))
    found.calls += len(calls)
    for turn in turns:
        for call in turn.executable:
            if not calls[call.id]:
                found.report("lost", conversation, f"the call {call.name} {call.arguments} is not in the contents")
    for call_id in calls | results:
        if calls[call_id] != 1 or results[call_id] != 1:
            found.report("lost", conversation, f"{call_id}: {calls[call_id]} calls, {results[call_id]} results")
    for target in {conversation.provider, "anthropic", "openai_chat", "gemini"}:
        # Without repair: what a run added must be legal by itself.
        body = render_request([*history, *contents, Content.human("And then?")], target, repair=False)
        for violation in validate_request(target, json.loads(json.dumps(body))):
            found.report("illegal", conversation, f"for {target}: {violation}")


def check_requests(server: Server, conversations: dict[str, Conversation], found: Findings) -> None:
    """Count the requests that the server rejected for their form, and forget all requests."""
    for request in server.requests:
        if request.status == 400:
            found.report("illegal", conversations[request.conversation], f"rejected: {json.dumps(request.json)[:300]}")
    server.requests.clear()


async def soak(minutes: float, seed: int, workers: int, found: Findings) -> list[tuple[int, int]]:
    """Hold conversations until the time is over; return the samples of tracked objects and resident KiB."""
    conversations: dict[str, Conversation] = {}

    def respond(request: Request) -> Reply | Status:
        responses = conversations[request.conversation].responses
        return responses[min(request.number, len(responses) - 1)]

    samples: list[tuple[int, int]] = []
    until = time.monotonic() + 60 * minutes
    limits = httpx.Limits(max_connections=workers)
    async with serve(respond) as server, httpx.AsyncClient(timeout=10, limits=limits) as client:
        while time.monotonic() < until:
            conversations.update(
                (name, Conversation.random(name, random.Random(name)))
                for name in (f"c{number}" for number in range(seed, seed + BATCH))
            )
            seed += BATCH
            slots = anyio.CapacityLimiter(workers)

            async def one(conversation: Conversation, slots: anyio.CapacityLimiter = slots) -> None:
                async with slots:
                    await hold(conversation, server, client, found)

            async with anyio.create_task_group() as group:
                for conversation in conversations.values():
                    group.start_soon(one, conversation)
            check_requests(server, conversations, found)
            server._application._player._used.clear()  # the server counts the requests of every conversation
            conversations.clear()
            gc.collect()
            samples.append((len(gc.get_objects()), _resident()))
    return samples


def _resident() -> int:
    """Return the resident set in KiB; where /proc is missing, its maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize() // 1024


def growth(samples: list[int]) -> float:
    """Return by how much the median of the last third exceeds that of the first, after a warm-up, as a fraction."""
    warm = samples[len(samples) // 5 :]
    third = max(1, len(warm) // 3)
    first, last = statistics.median(warm[:third]), statistics.median(warm[-third:])
    return last / first - 1


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", default=1.0)
    parser.add_argument("--backend", choices=("asyncio", "trio", "both"), default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=CONVERSATIONS_AT_ONCE)
    options = parser.parse_args(argv)
    backends = ("asyncio", "trio") if options.backend == "both" else (options.backend,)
    logging.getLogger("streamkit").setLevel(logging.CRITICAL)  # tools fail on purpose
    failed = False
    for backend in backends:
        found = Findings()
        samples = anyio.run(
            soak, options.minutes / len(backends), options.seed, options.workers, found, backend=backend
        )
        objects = growth([objects for objects, _ in samples])
        resident = growth([resident for _, resident in samples])
        print(f"{backend}: {found.outcomes.total()} conversations, {found.calls} calls")
        print("  ended: " + ", ".join(f"{kind} {count}" for kind, count in found.outcomes.most_common()))
        print("  " + ", ".join(f"{kind} {found.problems[kind]}" for kind in ("lost", "doubled", "illegal")))
        print(f"  growth after the warm-up: {objects:+.2%} objects, {resident:+.2%} resident ({samples[-1][1]} KiB)")
        for example in found.examples:
            print("  " + example)
        failed = failed or bool(found.problems) or objects > 0.02
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
