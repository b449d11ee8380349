"""Contents that are sent to a run while it works, and contents that hooks add."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest
from execution.chat_chunks import answer
from execution.test_checkpoint import HISTORY, Log

from streamkit import Budget, Content, RoundContext, Run, RunState, TextBlock, Tool, UsageError, run_loop
from streamkit.execution import BeforeEveryRequest, Lease, RunEntry

pytestmark = pytest.mark.anyio


def spoken(contents: list[Content]) -> list[str]:
    """Return what people said, in order."""
    return [
        block.text
        for content in contents
        if content.speaker == "human"
        for block in content.blocks
        if isinstance(block, TextBlock)
    ]


def is_legal(context: RoundContext) -> bool:
    """Return True if each result follows its call at once, as providers demand."""
    pairs = pairwise([message["role"] for message in context.thread])
    return all(before in ("assistant", "tool") for before, role in pairs if role == "tool")


class Steered:
    """A run whose tool, stream and reader send contents."""

    def __init__(self, rounds: int = 2, **options: Any) -> None:
        self.asked: list[RoundContext] = []
        self.rounds = rounds
        self.options = options

    def start(self, send_in: Callable[[Run, str], None], **more: Any) -> Run:
        run: Run

        def look() -> str:
            send_in(run, f"tool {len(self.asked)}")
            return "seen"

        def ask(context: RoundContext) -> Any:
            assert is_legal(context)
            self.asked.append(context)
            send_in(run, f"stream {len(self.asked)}")
            return answer("Done.") if len(self.asked) >= self.rounds else answer("", ("look", {}))

        options = {"provider": "openai_chat", "history": HISTORY, "tools": [look], **self.options, **more}
        run = run_loop(ask, **options)
        return run


async def test_a_content_is_in_the_next_request_after_the_results_of_the_round() -> None:
    program = Steered()

    def send(run: Run, moment: str) -> None:
        if moment != "stream 2":
            run.send(Content.human(moment))

    run = await program.start(send)
    assert [spoken(context.contents) for context in program.asked] == [["Go."], ["Go.", "stream 1", "tool 1"]]
    assert (run.ended, spoken(run.contents)) == ("answered", ["stream 1", "tool 1"])
    assert run.contents == run.history[1:]


async def test_an_answered_run_has_one_more_round_for_what_was_sent() -> None:
    program = Steered()

    def send(run: Run, moment: str) -> None:
        if moment == "stream 2":
            run.send(Content.human("One more thing."))

    run = await program.start(send)
    assert (run.ended, run.rounds, len(program.asked)) == ("answered", 3, 3)
    assert spoken(program.asked[2].contents) == ["Go.", "One more thing."]
    with pytest.raises(UsageError, match="has ended"):
        run.send(Content.human("Too late."))


async def test_what_is_sent_before_the_start_is_in_the_first_request() -> None:
    program, log = Steered(rounds=1), Log()
    run = program.start(lambda *_: None, checkpoint=log.append)
    run.send(Content.human("First."))
    await run
    assert [spoken(context.contents) for context in program.asked] == [["Go.", "First."]]
    assert [entry.type for entry in log.entries] == ["request", "message", "request", "response"]
    again = await run_loop(lambda _: answer("Not asked."), resume=RunState.from_entries(log.entries))
    assert again.history == run.history


async def test_another_thread_may_send() -> None:
    program = Steered()

    def send(run: Run, moment: str) -> None:
        if moment == "tool 1":
            thread = threading.Thread(target=run.send, args=(Content.human("From a thread."),))
            thread.start()
            thread.join()

    run = await program.start(send)
    assert spoken(run.contents) == ["From a thread."]


@pytest.mark.parametrize(
    ("limit", "ended"),
    [({"max_rounds": 2}, "answered"), ({"budget": Budget(tokens=1), "rounds": 9}, "budget")],
)
async def test_a_limit_excludes_a_further_round_and_nothing_is_lost(limit: dict[str, Any], ended: str) -> None:
    options = dict(limit)
    program = Steered(options.pop("rounds", 2), **options)

    def ask_with_usage(context: RoundContext) -> Any:
        program.asked.append(context)
        run.send(Content.human(f"Sent {len(program.asked)}."))
        return answer("Done.", usage=(5, 5)) if context.round else answer("", ("look", {}), usage=(5, 5))

    def look() -> str:
        return "seen"

    run = run_loop(ask_with_usage, provider="openai_chat", history=HISTORY, tools=[look], **options)
    await run
    assert run.ended == ended
    assert spoken(run.contents) == [f"Sent {number + 1}." for number in range(len(program.asked))]
    assert run.contents[-1].speaker == "human"


async def test_a_canceled_run_keeps_what_was_sent() -> None:
    program = Steered()
    run = program.start(lambda *_: None)
    async with run:
        async for event in run:
            if event.type == "tool_running":
                run.send(Content.human("Stop."))
                break
    assert run.ended == "canceled"
    assert spoken(run.contents) == ["Stop."]
    assert all(getattr(block, "result", 1) is not None or block.status for c in run.contents for block in c.blocks)  # type: ignore[union-attr]


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_a_paused_run_has_what_was_sent_in_its_state(is_recorded: bool) -> None:
    log = Log()
    asked: list[RoundContext] = []

    def pay() -> str:
        return "paid"

    def ask(context: RoundContext) -> Any:
        asked.append(context)
        if context.round == 0:
            run.send(Content.human("And hurry."))
        return answer("Done.") if context.round else answer("", ("pay", {}))

    options: dict[str, Any] = {"tools": [Tool(pay, description="Pay.", approval="ask")]}
    if is_recorded:
        options["checkpoint"] = log.append
    run = run_loop(ask, provider="openai_chat", history=HISTORY, **options)
    await run
    assert run.state is not None
    states = [
        RunState.load(run.state.dump("key"), "key"),
        *([RunState.from_entries(log.entries)] if is_recorded else []),
    ]
    for state in states:
        resumed = await run_loop(
            ask, resume=state.answer(approvals={call.id: True for call in run.pending}), tools=options["tools"]
        )
        assert resumed.ended == "answered"
        assert is_legal(asked[-1])
        assert spoken(asked[-1].contents) == ["Go.", "And hurry."]
        assert spoken(resumed.contents) == ["And hurry."]


async def test_only_contents_can_be_sent() -> None:
    run = Steered().start(lambda *_: None)
    with pytest.raises(UsageError, match="send takes a Content"):
        run.send("text")  # type: ignore[arg-type]
    await run


# ---------------------------------------------------------------- hooks


def reminded(context: RoundContext) -> RoundContext:
    return replace(context, contents=[*context.contents, Content.human(f"Round {context.round}.")])


def trimmed(context: RoundContext) -> RoundContext:
    """Keep the last two rounds and add a reminder."""
    return reminded(replace(context, contents=context.contents[-4:]))


class Rounds:
    """A run of many rounds with a hook."""

    def __init__(self, hook: Any, count: int, **options: Any) -> None:
        self.asked: list[list[Content]] = []
        self.messages: list[list[Any]] = []
        self.count = count
        self.options = {
            "provider": "openai_chat",
            "history": HISTORY,
            "before_follow_up": hook,
            "max_rounds": 99,
        } | options

    def ask(self, context: RoundContext) -> Any:
        self.asked.append(context.contents)
        self.messages.append(context.thread)
        return answer("Done.") if context.round == self.count else answer("", ("look", {"n": "x" * 100}))

    def start(self, **more: Any) -> Run:
        def look(n: str) -> str:
            return f"seen {n}"

        options = {**self.options, **more}
        if "resume" in options:
            options = {name: value for name, value in options.items() if name not in ("provider", "history", "thread")}
        return run_loop(self.ask, tools=[look], **options)


def retold(context: RoundContext) -> RoundContext:
    """Add a reminder to the contents and to the provider's own messages."""
    more = reminded(context)
    if context.messages is None:
        return more
    return replace(more, messages=[*context.messages, {"role": "user", "content": f"Round {context.round}."}])


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("hook", [reminded, trimmed, BeforeEveryRequest(reminded), retold, BeforeEveryRequest(retold)])
async def test_what_a_hook_adds_is_among_the_contents_and_in_the_entries(hook: Any, thread: bool) -> None:
    options: dict[str, Any] = {"run_key": "k"}
    if thread:
        options |= {"history": None, "thread": [{"role": "user", "content": "Go."}]}
    log, whole = Log(), Rounds(hook, 4, **options)
    run = await whole.start(checkpoint=log.append)
    first = 0 if isinstance(hook, BeforeEveryRequest) else 1
    assert spoken(run.contents) == [f"Round {number}." for number in range(first, 5)]
    assert whole.messages[-1][-1] == {"role": "user", "content": "Round 4."}
    del options["run_key"]
    for count in range(1, len(log.entries) + 1):
        rest = Rounds(hook, 4, **options)
        again = await rest.start(resume=RunState.from_entries(log.entries[:count]))
        assert (again.contents, again.history, again.thread) == (run.contents, run.history, run.thread), count
        assert rest.asked == whole.asked[len(whole.asked) - len(rest.asked) :], count


@pytest.mark.parametrize(("hook", "most"), [(reminded, 1.1), (trimmed, 1.1), (lambda context: None, 1.1)])
async def test_the_entries_of_a_run_with_a_hook_grow_with_the_conversation(hook: Any, most: float) -> None:
    sizes = {}
    for count in (20, 40, 80):
        log = Log()
        await Rounds(hook, count).start(checkpoint=log.append)
        sizes[count] = sum(map(len, log.stored))
    assert sizes[80] - sizes[40] <= most * 2 * (sizes[40] - sizes[20])


async def test_a_hook_of_every_request_replaces_the_first_history() -> None:
    def system_first(context: RoundContext) -> RoundContext | None:
        if context.round:
            return None
        return replace(context, contents=[Content.system("Be brief."), *context.contents])

    log, whole = Log(), Rounds(BeforeEveryRequest(system_first), 1, run_key="k")
    run = await whole.start(checkpoint=log.append)
    assert whole.asked[0] == [Content.system("Be brief."), *HISTORY]
    assert run.history[:2] == whole.asked[0]
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]
    again = await Rounds(None, 1, before_follow_up=()).start(resume=RunState.from_entries(log.entries))
    assert again.history == run.history
    await anyio.lowlevel.checkpoint()


async def test_a_content_in_a_mailbox_before_the_start_and_a_hook_of_the_first_request_are_both_replayed() -> None:
    log = Log()

    class Mailbox(Lease):
        fence = 1

        async def receive(self) -> list[tuple[str, Content]]:
            has_it = any(entry.type == "message" for entry in log.entries)
            return [] if has_it else [("id", Content.human("Sent."))]

    async def append(entry: RunEntry) -> Lease:
        await log.append(entry)
        return Mailbox()

    whole = Rounds(BeforeEveryRequest(reminded), 1, run_key="k")
    run = await whole.start(checkpoint=append)
    assert spoken(whole.asked[0]) == ["Go.", "Sent.", "Round 0."]
    assert spoken(run.contents) == ["Sent.", "Round 0.", "Round 1."]
    for count in range(1, len(log.entries) + 1):
        again = await Rounds(BeforeEveryRequest(reminded), 1).start(resume=RunState.from_entries(log.entries[:count]))
        if count > 1:  # it was in the mailbox before
            assert again.history == run.history, count


async def test_a_content_that_a_limit_excludes_from_all_requests_is_recorded() -> None:
    log = Log()

    def ask(context: RoundContext) -> Any:
        run.send(Content.human("Late."))
        return answer("Done.")

    run: Run = run_loop(ask, provider="openai_chat", history=HISTORY, max_rounds=1, checkpoint=log.append)
    await run
    assert spoken(run.contents) == ["Late."]
    assert [entry.type for entry in log.entries] == ["request", "response", "message"]
    again = await run_loop(ask, max_rounds=1, resume=RunState.from_entries(log.entries))
    assert (again.ended, again.history) == (run.ended, run.history)
