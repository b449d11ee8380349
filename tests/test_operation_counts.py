"""How often a chunk is decoded, copied and passed on, and how often a round is rendered: counted, never timed."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest
from compiled import interpreted_only
from execution.chat_chunks import answer, as_bytes
from operation_counts import CountingList, count_operations
from properties.test_linear_cost import NO_LIMITS, count_work, opened
from shared_data import recorded_streams
from wire_streams import chat, chat_bytes, chat_call, gemini, gemini_bytes

from streamkit import (
    Content,
    RoundContext,
    Run,
    Timeouts,
    Tool,
    Turn,
    execute_tool_calls_batched,
    execute_tool_calls_sequentially,
    providers,
    read,
    run_loop,
    tool,
)
from streamkit.accumulator.turn_state import TurnState
from streamkit.events import Reasoning, Text, ToolCallDelta, UsageReport
from streamkit.execution import Execution
from streamkit.history import ToolCallBlock

pytestmark = interpreted_only

EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
PLAIN = (Text, Reasoning, ToolCallDelta)
HISTORY = [Content.human("Go.")]

#: The parser of each wire that is framed as SSE.
PARSERS = ("anthropic", "cohere", "gemini", "openai_chat", "openai_responses")

#: Parsers that decode a frame again, as a dict, if the decoder of plain deltas refuses it.
DECODING_TWICE = ("gemini", "openai_chat")


def parser_of(provider: str) -> str:
    return providers.get(provider).package.rpartition(".")[2]


def payload(event: bytes) -> bytes:
    """Return the data of one SSE event if it is JSON, else nothing."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    data = b"\n".join(lines)
    return data if data.startswith(b"{") else b""


def streams(parser: str) -> Iterator[tuple[str, bytes]]:
    """Return the repository's recorded streams that a parser reads, and a long text, each with its provider."""
    for stream in recorded_streams(suffix=".sse"):
        if stream.expected is not None and parser_of(stream.provider) == parser:
            yield stream.provider, stream.data
    if parser == "gemini":  # the recorded ones are of few chunks
        counts = [{"promptTokenCount": 5, "candidatesTokenCount": number} for number in range(20)]
        yield "gemini", gemini_bytes([gemini({"text": "word "}, usageMetadata=count) for count in counts])


def decodes(parser: str, *, plain: bool) -> list[tuple[int, bytes]]:
    """Return how often each frame of the streams of a parser is decoded, with its payload.

    Args:
        parser: the package of the parser.
        plain: the frames that are a delta of text, reasoning or arguments and nothing else, or all others.
    """
    counts = []
    for provider, data in streams(parser):
        turn = Turn(provider, turn_key="turn-1")
        for event in EVENT_END.split(data):
            with count_operations() as operations:
                events = turn.feed(event)
            deltas = [each for each in events if not isinstance(each, UsageReport)]  # Gemini reports it every time
            is_plain = len(deltas) == 1 and isinstance(deltas[0], PLAIN)
            if payload(event) and is_plain == plain and not turn.error:
                counts.append((operations.decodes, payload(event)))
    return counts


@pytest.mark.parametrize("parser", PARSERS)
def test_a_plain_delta_is_decoded_once(parser: str) -> None:
    counts = decodes(parser, plain=True)
    assert counts
    assert [data for count, data in counts if count != 1] == []


@pytest.mark.parametrize(
    "parser",
    [
        pytest.param(parser, marks=pytest.mark.xfail(reason="what is no plain delta is decoded again as a dict"))
        if parser in DECODING_TWICE
        else parser
        for parser in PARSERS
    ],
)
def test_any_other_frame_is_decoded_once(parser: str) -> None:
    assert [data for count, data in decodes(parser, plain=False) if count > 1] == []


@pytest.mark.parametrize("parser", PARSERS)
def test_no_frame_is_decoded_more_than_twice(parser: str) -> None:
    assert [data for count, data in decodes(parser, plain=False) if count > 2] == []


# ---------------------------------------------------------------- lists, awaits, hops


def text_events(count: int, *, chunks_in_a_read: int = 1) -> list[bytes]:
    """Return reads with that many text deltas."""
    deltas = [b"data: " + json.dumps(chat({"content": f"w{n} "})).encode() + b"\n\n" for n in range(count)]
    reads = [b"".join(deltas[at : at + chunks_in_a_read]) for at in range(0, count, chunks_in_a_read)]
    return [*reads, chat_bytes([chat({}, finish="stop")])]


async def as_source(reads: list[bytes]) -> AsyncIterator[bytes]:
    for data in reads:
        yield data


async def iterate_read(reads: list[bytes]) -> None:
    async for _ in read(Turn("openai_chat", turn_key="turn-1"), as_source(reads)):
        pass


async def iterate_loop(reads: list[bytes]) -> None:
    async with run_loop(
        lambda context: as_source(reads), provider="openai_chat", history=HISTORY, run_key="run-1"
    ) as run:
        async for _ in run:
            pass


class CountedAwait:
    """An awaitable that counts how often the task is suspended."""

    def __init__(self, work: Awaitable[None]) -> None:
        self.work = work
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self.work.__await__()
        while True:
            try:
                waited_for = next(steps)
            except StopIteration:
                return
            self.suspensions += 1
            yield waited_for


Iterate = Callable[[list[bytes]], Awaitable[None]]
BOTH = pytest.mark.parametrize("iterate", [iterate_read, iterate_loop])


def suspensions(iterate: Iterate, reads: list[bytes]) -> int:
    async def main() -> int:
        counted = CountedAwait(iterate(reads))
        await counted
        return counted.suspensions

    return asyncio.run(main())


@BOTH
def test_a_chunk_that_is_there_suspends_no_task(iterate: Iterate) -> None:
    assert suspensions(iterate, text_events(200)) == suspensions(iterate, text_events(20))


class CountedSource:
    """A source that counts how often its next read is requested."""

    def __init__(self, reads: list[bytes]) -> None:
        self.reads = iter(reads)
        self.requested = 0

    def __aiter__(self) -> CountedSource:
        return self

    async def __anext__(self) -> bytes:
        self.requested += 1
        try:
            return next(self.reads)
        except StopIteration:
            raise StopAsyncIteration from None


def test_read_awaits_the_source_once_for_each_read() -> None:
    reads = text_events(50)
    source = CountedSource(reads)

    async def main() -> None:
        async for _ in read(Turn("openai_chat", turn_key="turn-1"), source):
            pass

    asyncio.run(main())
    assert source.requested == len(reads)  # the last one has the terminator


def hops(iterate: Iterate, *, chunks_in_a_read: int = 1) -> tuple[float, float]:
    """Return the functions and generators that run between ``Turn.feed`` and the caller, and the lookups of a task.

    Both are for one event.
    """
    few, many = 100, 300
    totals = []
    for count in (few, many):
        reads = text_events(count, chunks_in_a_read=chunks_in_a_read)
        with count_operations() as operations:
            asyncio.run(iterate(reads))  # type: ignore[arg-type]  # they are coroutines
        layers = ("reading/stream_reader.py", "reading/source.py", "execution/")
        passed = sum(number for (file, _), number in operations.calls.items() if file.startswith(layers))
        totals.append((passed, operations.task_lookups))
    return tuple((more - less) / (many - few) for less, more in zip(*totals, strict=True))  # type: ignore[return-value]


def test_read_resumes_two_generators_for_a_chunk_and_one_for_a_further_event() -> None:
    assert hops(iterate_read)[0] <= 2
    assert hops(iterate_read, chunks_in_a_read=10)[0] <= 1.1


def test_a_run_resumes_no_more_generators_for_a_chunk_than_read() -> None:
    assert hops(iterate_loop)[0] == hops(iterate_read)[0]


def test_a_run_passes_lists_of_events_through_and_looks_up_no_task() -> None:
    functions, lookups = hops(iterate_loop, chunks_in_a_read=10)
    assert functions <= 2
    assert lookups < 1


def turn_of_calls(count: int) -> Turn:
    turn = Turn("openai_chat", turn_key="turn-1")
    for number in range(count):
        turn.feed(chat_call("{}", index=number, id=f"call_{number}", name="give"))
    turn.feed(chat(finish="tool_calls"))
    turn.close()
    return turn


async def give() -> int:
    """Give a number."""
    return 1


def take() -> int:
    """Take a number, in a thread."""
    return 1


def callbacks_of_calls(count: int) -> int:
    """Return how many callbacks the event loop runs for the calls of a turn, besides its timers."""
    turn = turn_of_calls(count)

    async def main() -> int:
        loop, made = asyncio.get_running_loop(), 0
        call_soon = loop.call_soon

        def counting(*args: Any, **fields: Any) -> Any:
            nonlocal made
            made += 1
            return call_soon(*args, **fields)

        loop.call_soon = counting  # type: ignore[method-assign, assignment]
        update = await execute_tool_calls_batched(turn, tools=[give])
        assert len(update.results) == count
        return made

    return asyncio.run(main())


def test_a_call_takes_one_turn_of_the_event_loop() -> None:
    assert callbacks_of_calls(50) - callbacks_of_calls(10) <= 1.2 * 40


EXECUTORS = pytest.mark.parametrize("execute", [execute_tool_calls_batched, execute_tool_calls_sequentially])


@EXECUTORS
def test_one_call_is_run_by_few_functions(execute: Callable[..., Execution]) -> None:
    turn, tools = turn_of_calls(1), [tool(give)]

    async def main() -> Counter[str]:
        await execute(turn, tools=tools)  # what the first one imports and keeps
        with count_operations() as operations:
            await execute(turn, tools=tools)
        packages: Counter[str] = Counter()
        for (file, _), number in operations.calls.items():
            packages[file.partition("/")[0]] += number
        return packages

    packages = asyncio.run(main())
    assert packages["execution"] <= 110
    assert packages.total() <= 230


@EXECUTORS
@pytest.mark.parametrize(
    "made", [tool(give), tool(give, approval="ask"), tool(take, name="give")], ids=["async", "approved", "thread"]
)
def test_an_execution_leaves_nothing_to_the_garbage_collector(execute: Callable[..., Execution], made: Tool) -> None:
    turn = turn_of_calls(3)

    async def main() -> list[object]:
        await execute(turn, tools=[made], approve=lambda call, deps: True, timeouts=Timeouts(run=30.0))
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        await execute(turn, tools=[made], approve=lambda call, deps: True, timeouts=Timeouts(run=30.0))
        gc.collect()
        return [each for each in gc.garbage if type(each).__module__.startswith("streamkit")]

    try:
        assert asyncio.run(main()) == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_a_closed_turn_leaves_no_call_to_the_garbage_collector() -> None:
    turn_of_calls(1)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        turn_of_calls(3)
        gc.collect()
        assert [each for each in gc.garbage if type(each).__module__.startswith("streamkit")] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


@BOTH
def test_the_events_of_a_read_are_copied_once(iterate: Iterate, monkeypatch: pytest.MonkeyPatch) -> None:
    initialize = TurnState.__init__

    def with_counting_list(state: TurnState, *args: Any, **fields: Any) -> None:
        initialize(state, *args, **fields)
        state.events = CountingList()

    monkeypatch.setattr(TurnState, "__init__", with_counting_list)
    copies = []
    for count in (100, 200):
        monkeypatch.setattr(CountingList, "copies", 0)
        asyncio.run(iterate(text_events(count)))  # type: ignore[arg-type]
        copies.append(CountingList.copies)
    assert copies[1] - copies[0] <= 100


# ---------------------------------------------------------------- rendering


def count_renders(requests_read: int) -> tuple[int, int, int]:
    """Return the rounds of a run with calls, and how often contents were rendered: the conversation's, and any."""
    responses = [answer("", ("add", {"x": number})) for number in range(3)] + [answer("Done.")]

    async def add(x: int) -> int:
        return x

    def create_new_stream(context: RoundContext) -> list[bytes]:
        for _ in range(requests_read):
            assert context.request["messages"]
        return as_bytes(responses[context.round])

    async def main() -> int:
        run = await run_loop(create_new_stream, provider="openai_chat", tools=[add], history=HISTORY, run_key="run-1")
        assert run.ended == "answered"
        return run.rounds

    with count_operations() as operations:
        rounds = asyncio.run(main())
    conversation = operations.calls["providers/rendering/kept.py", "render_longer"]
    return rounds, conversation, operations.calls["providers/rendering/message_renderer.py", "render"]


@pytest.mark.parametrize("requests_read", [1, 3])
def test_a_round_renders_the_conversation_once(requests_read: int) -> None:
    rounds, conversation, _ = count_renders(requests_read)
    assert (rounds, conversation) == (4, 4)


def test_the_answer_of_a_run_with_a_history_is_rendered_for_its_warnings_alone() -> None:
    reasoning = chat({"reasoning_content": "Hm."})
    reads = [*[b"data: " + json.dumps(each).encode() + b"\n\n" for each in (reasoning, *answer("Done."))]]

    async def main() -> Run[Any]:
        return await run_loop(
            lambda context: as_source(reads), provider="openai_chat", history=HISTORY, run_key="run-1"
        )

    with count_operations() as operations:
        run = asyncio.run(main())
        assert operations.calls["providers/rendering/message_renderer.py", "render"] == 0
        codes = [[warning.code for warning in run.warnings] for _ in range(2)]
    assert codes == [["content_changed"]] * 2
    assert operations.calls["providers/rendering/message_renderer.py", "render"] == 1


@pytest.mark.xfail(reason="the messages of an update with results are rendered too, for its warnings and its event")
def test_a_round_of_a_run_with_a_history_renders_nothing_else() -> None:
    rounds, _, renders = count_renders(1)
    assert renders == rounds


# ---------------------------------------------------------------- reading at every delta


def text_chunks(count: int) -> list[Any]:
    return [chat({"content": "word "})] * count


def reasoning_chunks(count: int) -> list[Any]:
    return [chat({"reasoning_content": "word "})] * count


def call_chunks(count: int) -> list[Any]:
    return [*opened(), chat_call('{"t":"'), *[chat_call("word ")] * count]


VIEWS: dict[str, tuple[Callable[[int], list[Any]], Callable[[Turn], Any]]] = {
    "text": (text_chunks, lambda turn: turn.text),
    "reasoning": (reasoning_chunks, lambda turn: turn.reasoning),
    "arguments_text": (call_chunks, lambda turn: turn.calls[0].arguments_text),
    "partial": (call_chunks, lambda turn: turn.calls[0].partial),
}


def read_at_every_delta(view: str, count: int) -> tuple[int, int]:
    """Return the executed lines and the scanned characters of a turn with a view read at every delta."""
    make, value = VIEWS[view]
    turn = Turn("openai_chat", turn_key="turn-1", limits=NO_LIMITS)
    with count_work() as work:
        for data in make(count):
            turn.feed(data)
            value(turn)
    return work.lines, work.scanned


@pytest.mark.parametrize("view", VIEWS)
def test_reading_a_view_costs_the_same_at_every_delta(view: str) -> None:
    small, large = (read_at_every_delta(view, count) for count in (200, 2_000))
    assert large[0] <= 10.5 * small[0]
    assert large[1] <= 5 * 2_000  # each character is scanned once at most


@pytest.mark.parametrize("view", ["text", "reasoning", "arguments_text"])
def test_a_view_that_was_read_is_not_joined_again(view: str) -> None:
    make, value = VIEWS[view]
    turn = Turn("openai_chat", turn_key="turn-1")
    for data in make(50):
        turn.feed(data)
    assert len(value(turn)) >= 250
    assert value(turn) is value(turn)


def test_the_profiler_of_the_caller_is_restored() -> None:
    before = sys.getprofile()
    with count_operations():
        assert sys.getprofile() is not before
    assert sys.getprofile() is before


def test_usage_that_is_json_data_is_not_converted() -> None:
    """Perplexity and others report it in each chunk, with objects and fractions in it."""
    turn = Turn("perplexity", turn_key="turn-1")
    report = {"prompt_tokens": 3, "completion_tokens": 1, "cost": {"total": 0.25}, "search_context_size": "low"}
    turn.feed(chat_bytes([chat({"content": "word"}, usage=report)], done=False))
    chunk = chat({"content": "word"}, usage={**report, "completion_tokens": 2})
    with count_operations() as operations:
        events = turn.feed(chat_bytes([chunk], done=False))
    assert [event.type for event in events] == ["text", "usage_report"]
    assert operations.calls["values/json_data.py", "data"] == 0
    assert operations.decodes == 1


@pytest.mark.parametrize(
    ("name", "reads_request", "cache"),
    [
        ("openai_chat", False, None),
        ("openai_chat", True, None),
        ("openai_responses", True, None),
        ("anthropic", True, "auto"),
        ("bedrock_converse", True, "auto"),
        ("gemini", True, None),
    ],
)
def test_a_late_round_costs_the_same_as_an_early_one(name: str, reads_request: bool, cache: Any) -> None:
    counts: list[Counter[tuple[str, str]]] = []
    provider = providers.get(name)

    def create_new_stream(context: RoundContext) -> list[bytes]:
        if reads_request:
            assert context.request[provider.traits.messages_field]
        counts.append(Counter(operations.calls))
        blocks = [ToolCallBlock(id=f"call_{context.round}", name="add", parameters={"x": context.round})]
        return list(provider.emit(Content(speaker="ai", blocks=blocks), response_id=f"r{context.round}", model="m"))

    async def add(x: int) -> int:
        return x

    async def main() -> None:
        options: Any = {"history": HISTORY, "tools": [add], "run_key": "run-1", "max_rounds": 30, "cache": cache}
        assert (await run_loop(create_new_stream, provider=name, **options)).ended == "max_rounds"

    with count_operations() as operations:
        asyncio.run(main())
    early, late = (counts[number + 1] - counts[number] for number in (8, 24))
    more = {function: (early[function], late[function]) for function in late if late[function] > early[function]}
    assert not more
