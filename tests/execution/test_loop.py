from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx
import pytest
from execution.chat_chunks import answer, as_bytes
from virtual_clock import on_a_virtual_clock
from waiting import PATIENCE

from streamkit import (
    Content,
    Limits,
    RoundContext,
    StreamInterrupted,
    Timeouts,
    Turn,
    TurnOptions,
    Usage,
    UsageError,
    execute_tool_calls_batched,
    finalize_tool_execution,
    run_loop,
    tool,
)
from streamkit.events import Event, Failed, RoundFinished, RoundStarted, RunEnded, Text, Warned

pytestmark = pytest.mark.anyio

HISTORY = [Content.system("Be brief."), Content.human("Weather in Oslo?")]
CALL = ("get_weather", {"city": "Oslo"})


async def get_weather(city: str) -> str:
    return f"{city}: rain"


class Model:
    """A model that returns its responses one after the other, the last one repeatedly, and records the requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.asked: list[RoundContext] = []

    def __call__(self, context: RoundContext) -> Any:
        self.asked.append(context)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]

    @property
    def choices(self) -> list[Any]:
        return [context.request.get("tool_choice") for context in self.asked]


def loop(model: Any, **more: Any) -> Any:
    options = {"provider": "openai_chat", "tools": [get_weather], "run_key": "k"} | more
    if "thread" not in options:
        options.setdefault("history", HISTORY)
    return run_loop(model, **options)


async def collect_events(run: Any) -> list[Event]:
    async with run:
        return [event async for event in run]


# ---------------------------------------------------------------- the order of things


async def test_it_requests_and_runs_tools_until_the_model_calls_none() -> None:
    model = Model(answer("Let me look.", CALL), answer("It rains."))
    run = loop(model)
    events = await collect_events(run)
    assert run.ended == "answered"
    assert run.text == "It rains."
    assert run.rounds == 2
    kinds = [event.type for event in events]
    order = ["round_started", "text", "tool_call_start", "finished", "tool_running", "tool_completed", "round_finished"]
    assert [kind for kind in kinds if kind in order] == [*order, "round_started", "text", "finished", "round_finished"]
    assert [event.round for event in events if isinstance(event, (RoundStarted, RoundFinished))] == [0, 0, 1, 1]
    updates = [event.update for event in events if isinstance(event, RoundFinished)]
    assert [result.value for result in updates[0].results] == ["Oslo: rain"]
    assert updates[1] is None


async def test_it_can_be_awaited() -> None:
    run = await loop(Model(answer("Let me look.", CALL), answer("It rains.")))
    assert (run.ended, run.text) == ("answered", "It rains.")


async def test_each_request_contains_the_complete_conversation() -> None:
    model = Model(answer("Let me look.", CALL), answer("It rains."))
    await loop(model)
    first, second = [context.request for context in model.asked]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][3]["content"] == "Oslo: rain"
    assert [made["function"]["name"] for made in first["tools"]] == ["get_weather"]
    assert first["stream"] is True


async def test_contents_is_what_the_run_added_and_history_is_everything() -> None:
    run = await loop(Model(answer("Let me look.", CALL), answer("It rains.")))
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]
    assert run.history == HISTORY + run.contents
    assert [message["role"] for message in run.thread] == ["system", "user", "assistant", "tool", "assistant"]


async def test_the_history_argument_is_not_changed() -> None:
    options = list(HISTORY)
    await loop(Model(answer("", CALL), answer("It rains.")), history=options)
    assert options == HISTORY


async def test_with_a_thread_the_run_appends_to_a_copy_which_the_request_contains() -> None:
    thread = [{"role": "developer", "content": "x", "own": 1}, {"role": "user", "content": "Weather?"}]
    model = Model(answer("Let me look.", CALL), answer("It rains."))
    run = await loop(model, thread=thread)
    assert len(thread) == 2
    assert run.thread[:2] == thread
    assert [message["role"] for message in run.thread[2:]] == ["assistant", "tool", "assistant"]
    assert model.asked[1].request["messages"] == run.thread[:4] == model.asked[1].thread
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]


@pytest.mark.parametrize(("provider", "field"), [("anthropic", "messages"), ("gemini", "contents")])
async def test_with_a_thread_the_request_has_the_field_of_each_provider(provider: str, field: str) -> None:
    thread = [{"role": "user", "anything": "of the caller's"}]
    asked: list[RoundContext] = []

    def ask(context: RoundContext) -> Any:
        asked.append(context)
        raise ConnectionError

    with pytest.raises(StreamInterrupted):
        await run_loop(ask, provider=provider, thread=thread)
    assert asked[0].request[field] == thread


async def test_calls_are_named_by_run_key_and_round() -> None:
    async def ids(run_key: str | None) -> tuple[list[str], list[Any]]:
        run = await loop(Model(answer("", CALL), answer("", CALL), answer("Rain.")), run_key=run_key)
        made = [block.id for content in run.contents for block in content.blocks if block.type == "tool_call"]
        return made, [content.metadata.get("turn_key") for content in run.contents if content.speaker == "ai"]

    first, keys = await ids("mine")
    assert keys == ["mine:0", "mine:1", "mine:2"]
    assert len(set(first)) == 2
    assert (await ids("mine"))[0] == first
    assert (await ids(None))[0] != (await ids(None))[0]


async def test_usage_is_summed_over_rounds() -> None:
    run = await loop(Model(answer("", CALL, usage=(10, 5)), answer("Rain.", usage=(20, 7))))
    usage = run.usage
    assert isinstance(usage, Usage)
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (30, 12, None)
    assert len(usage.raw) == 2
    assert (await loop(Model(answer("Rain.")))).usage is None


async def test_sequential_shape_is_one_call_one_result() -> None:
    run = await loop(Model(answer("", CALL, CALL), answer("Rain.")), shape="sequential")
    assert [message["role"] for message in run.thread[2:]] == ["assistant", "tool", "assistant", "tool", "assistant"]


async def test_events_arrive_before_the_stream_has_ended() -> None:
    gate = anyio.Event()

    async def stream() -> AsyncIterator[Any]:
        first, *rest = answer("Now.")[1:]
        yield first
        await gate.wait()
        for each in rest:
            yield each

    with anyio.fail_after(PATIENCE):
        async with loop(lambda context: stream()) as run:
            async for event in run:
                if isinstance(event, Text):
                    assert run.text == "Now."
                    gate.set()


async def test_nothing_runs_before_it_is_used_and_only_once() -> None:
    model = Model(answer("Hi."))
    run = loop(model)
    assert (model.asked, run.ended, run.contents, run.rounds, run.turn) == ([], None, [], 0, None)
    with pytest.raises(UsageError, match="async with"):
        aiter(run)
    await run
    with pytest.raises(UsageError, match="once"):
        await run


async def test_deps_reach_tools_and_context() -> None:
    from streamkit import ToolContext

    async def look(context: ToolContext) -> str:
        return str(context.deps)

    model = Model(answer("", ("look", {})), answer("Hi."))
    run = await loop(model, tools=[look], deps="D")
    assert model.asked[0].deps == "D"
    assert run.contents[1].blocks[0].result == "D"


# ---------------------------------------------------------------- what a stream may be


def streams() -> dict[str, Callable[[Any], Any]]:
    chunks = answer("Hi.")

    async def generator() -> AsyncIterator[Any]:
        for each in chunks:
            yield each

    async def later(value: Any) -> Any:
        return value

    class Request:
        """What aiohttp returns for a request: awaitable, entered, and iterable as old coroutines were."""

        def __await__(self) -> Generator[Any, None, Any]:
            return later(generator()).__await__()

        __iter__ = __await__

        async def __aenter__(self) -> Any:
            return await self

        async def __aexit__(self, *_: object) -> None: ...

    @asynccontextmanager
    async def entered(value: Any) -> AsyncIterator[Any]:
        yield value

    @contextmanager
    def entered_plainly(value: Any) -> Any:
        yield value

    return {
        "list": lambda context: chunks,
        "async iterable": lambda context: generator(),
        "bytes": lambda context: b"".join(as_bytes(chunks)),
        "awaitable": lambda context: later(chunks),
        "awaitable of async iterable": lambda context: later(generator()),
        "async context manager": lambda context: entered(chunks),
        "awaitable of context manager of awaitable": lambda context: later(entered(later(chunks))),
        "context manager": lambda context: entered_plainly(chunks),
        "request of aiohttp": lambda context: Request(),
        "response of boto3": lambda context: {"ResponseMetadata": {}, "stream": iter(chunks)},
    }


@pytest.mark.parametrize("kind", streams())
async def test_create_new_stream_may_return(kind: str) -> None:
    run = await loop(streams()[kind])
    assert (run.ended, run.text) == ("answered", "Hi.")


async def test_an_httpx_stream_is_closed_after_each_round() -> None:
    responses: list[httpx.Response] = []
    bodies = [answer("", CALL), answer("Rain.")]

    def respond(request: httpx.Request) -> httpx.Response:
        assert all(response.is_closed for response in responses)
        assert json.loads(request.content)["messages"]
        responses.append(httpx.Response(200, content=b"".join(as_bytes(bodies[len(responses)]))))
        return responses[-1]

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:

        async def ask(context: RoundContext) -> Any:
            return http.stream("POST", "http://x/", json={"model": "m", **context.request})

        run = await loop(ask)
    assert run.text == "Rain."
    assert len(responses) == 2
    assert all(response.is_closed for response in responses)


async def test_a_stream_that_cannot_be_read_is_rejected() -> None:
    run = loop(lambda context: 3)
    with pytest.raises(UsageError, match="int"):
        await run
    assert run.ended == "error"


async def test_a_context_manager_without_a_readable_stream_is_rejected() -> None:
    class Response:
        async def __aenter__(self) -> Response:
            return self

        async def __aexit__(self, *_: object) -> None: ...

    with pytest.raises(UsageError, match="Response"):
        await loop(lambda context: Response())


# ---------------------------------------------------------------- endings


async def test_refusal() -> None:
    run = await loop(Model(answer("", refusal="I will not.")))
    assert run.ended == "refusal"


async def test_filtered_cancels_the_calls_and_stays_legal() -> None:
    run = await loop(Model(answer("Well", CALL, finish="content_filter")))
    assert run.ended == "filtered"
    assert [message["role"] for message in run.thread[2:]] == ["assistant", "tool"]
    assert run.contents[1].blocks[0].status == "canceled"


async def test_length_without_a_complete_call() -> None:
    run = await loop(Model(answer("It is a long")), max_rounds=3)
    assert run.ended == "answered"
    run = await loop(Model(answer("It is a long", finish="length")))
    assert run.ended == "length"
    assert run.text == "It is a long"
    model = Model(answer("", ("get_weather", '{"city": "Os'), finish="length"))
    run = await loop(model)
    assert run.ended == "length"
    assert len(model.asked) == 1
    assert run.contents[1].blocks[0].status == "error"


async def test_length_with_a_complete_call_continues() -> None:
    run = await loop(Model(answer("", CALL, ("get_weather", '{"ci'), finish="length"), answer("Rain.")))
    assert run.ended == "answered"
    assert [block.status for block in run.contents[1].blocks] == ["completed", "error"]


async def test_max_rounds_makes_the_last_request_without_tools() -> None:
    model = Model(answer("", CALL))
    run = await loop(model, max_rounds=3)
    assert run.ended == "max_rounds"
    assert run.rounds == 3
    assert model.choices == [None, None, "none"]
    assert [block.status for content in run.contents for block in content.blocks if block.type == "tool_response"] == [
        "completed",
        "completed",
        "canceled",
    ]


async def test_a_last_round_without_calls_ends_answered() -> None:
    run = await loop(Model(answer("", CALL), answer("Rain.")), max_rounds=2)
    assert (run.ended, run.text) == ("answered", "Rain.")


async def test_a_forced_choice_is_cleared_after_the_first_round() -> None:
    for forced in ("required", "get_weather"):
        model = Model(answer("", CALL), answer("Rain."))
        await loop(model, tool_choice=forced)
        assert model.choices[0] is not None
        assert model.choices[1] is None
    model = Model(answer("", CALL), answer("Rain."))
    await loop(model, tool_choice="auto")
    assert model.choices == ["auto", "auto"]


async def test_the_same_failing_call_trips_the_circuit_breaker() -> None:
    ran = 0

    async def fail(city: str) -> None:
        nonlocal ran
        ran += 1
        raise LookupError("no such city")

    run = loop(Model(answer("", ("fail", {"city": "X"}))), tools=[fail], max_rounds=20)
    events = await collect_events(run)
    assert run.ended == "breaker"
    assert ran == 3
    assert [event.code for event in events if isinstance(event, Warned)] == ["breaker"]
    assert [event.type for event in events[-2:]] == ["round_finished", "run_ended"]


@pytest.mark.parametrize("call", [("nope", {}), ("get_weather", "{city}"), ("get_weather", {"town": "Oslo"})])
async def test_calls_that_cannot_run_trip_the_circuit_breaker_too(call: Any) -> None:
    run = await loop(Model(answer("", call)), max_rounds=20)
    assert run.ended == "breaker"
    assert run.rounds == 3


async def test_different_failures_and_failures_followed_by_success_do_not_trip_it() -> None:
    async def sometimes(n: int) -> int:
        if n:
            raise ValueError("odd")
        return n

    one, two, good = (("sometimes", {"n": n}) for n in (1, 2, 0))
    model = Model(*[answer("", each) for each in (one, two, good, one, two)], answer("Done."))
    run = await loop(model, tools=[sometimes], max_rounds=20)
    assert run.ended == "answered"


async def test_three_equal_failures_in_one_round_count_once() -> None:
    run = await loop(Model(answer("", *[("nope", {})] * 3), answer("Sorry.")))
    assert run.ended == "answered"


@on_a_virtual_clock
async def test_run_timeout_in_the_stream() -> None:
    async def stream() -> AsyncIterator[Any]:
        for each in answer("Now.")[:2]:
            yield each
        await anyio.sleep_forever()

    run = loop(lambda context: stream(), timeouts=Timeouts(run=0.05))
    events: list[Event] = []
    with pytest.raises(StreamInterrupted) as caught:  # noqa: PT012 - the events before it are wanted
        async with run:
            async for event in run:
                events.append(event)  # noqa: PERF401 - kept although it raises
    assert (run.ended, caught.value.error.kind) == ("timed_out", "timed_out")
    assert isinstance(events[-2], Failed)
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].ended, events[-1].error) == (run.ended, events[-2].error)
    [content] = run.contents
    assert (content.metadata["interrupted"], content.blocks[0].text) == (True, "Now.")
    assert run.text == "Now."


@on_a_virtual_clock
async def test_run_timeout_while_the_stream_is_opened() -> None:
    async def ask(context: Any) -> None:
        await anyio.sleep_forever()

    run = loop(ask, timeouts=Timeouts(run=0.05))
    with pytest.raises(StreamInterrupted, match="timed_out"):
        await run
    assert (run.ended, run.contents) == ("timed_out", [])


@on_a_virtual_clock
async def test_run_timeout_in_a_tool_gives_its_result() -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    run = await loop(Model(answer("", ("hang", {}))), tools=[hang], timeouts=Timeouts(call=None, run=0.05))
    assert run.ended == "timed_out"
    assert run.contents[1].blocks[0].status == "timed_out"


@on_a_virtual_clock
async def test_run_timeout_in_a_hook_ends_the_run_after_its_last_round() -> None:
    async def summarize(context: Any) -> None:
        await anyio.sleep_forever()

    async def good() -> str:
        return "done"

    model = Model(answer("", ("good", {})), answer("Done."))
    run = loop(model, tools=[good], before_follow_up=[summarize, summarize], timeouts=Timeouts(run=5))
    start = anyio.current_time()
    async with run:
        events = [event async for event in run]
    assert (run.ended, len(model.asked), anyio.current_time() - start) == ("timed_out", 1, 5)
    assert [event.type for event in events[-2:]] == ["round_finished", "run_ended"]
    assert run.contents[1].blocks[0].status == "completed"


@on_a_virtual_clock
async def test_no_request_is_made_after_a_hook_that_took_the_time_of_the_run() -> None:
    async def good() -> str:
        return "done"

    async def prepare(context: Any) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(9)

    model = Model(answer("", ("good", {})), answer("Done."))
    run = await loop(model, tools=[good], before_follow_up=prepare, timeouts=Timeouts(run=5))
    assert (run.ended, len(model.asked)) == ("timed_out", 1)


async def test_an_error_of_the_stream_is_an_event_and_is_raised_with_the_turn() -> None:
    async def stream() -> AsyncIterator[Any]:
        for each in answer("Now.", CALL)[:2]:
            yield each
        raise ConnectionResetError("gone")

    run = loop(Model(answer("", CALL), stream()))
    events: list[Event] = []
    with pytest.raises(StreamInterrupted) as caught:  # noqa: PT012 - the events before it are wanted
        async with run:
            async for event in run:
                events.append(event)  # noqa: PERF401 - kept although it raises
    assert caught.value.error.kind == "transport_error"
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert caught.value.turn is run.turn
    assert caught.value.turn.text == "Now."
    assert isinstance(events[-2], Failed)
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].ended, events[-1].error) == (run.ended, events[-2].error)
    assert run.ended == "error"
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]
    assert [content.metadata.get("interrupted") for content in run.contents] == [None, None, True]


async def test_an_error_is_raised_from_await_too() -> None:
    run = loop(Model([{"error": {"message": "overloaded", "type": "server_error"}}]))
    with pytest.raises(StreamInterrupted, match="overloaded"):
        await run
    assert run.ended == "error"
    assert run.contents == []


async def test_a_failing_request_is_an_error_of_the_turn() -> None:
    def ask(context: Any) -> Any:
        raise ConnectionRefusedError("nobody there")

    run = loop(ask)
    with pytest.raises(StreamInterrupted, match="nobody there") as caught:
        await run
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert caught.value.error.kind == "transport_error"


async def test_a_rejected_request_reports_the_providers_message() -> None:
    body = {"error": {"message": "slow down", "type": "rate_limit"}}

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(429, json=body, headers={"retry-after": "7"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:

        async def ask(context: Any) -> Any:
            response = await http.post("http://x/")
            response.raise_for_status()
            return response

        with pytest.raises(StreamInterrupted, match="slow down") as caught:
            await loop(ask)
    error = caught.value.error
    assert (error.kind, error.status, error.retry_after) == ("provider_error", 429, 7.0)


# ---------------------------------------------------------------- pause


def anthropic(reason: str, *blocks: dict[str, Any], message: str = "m") -> list[dict[str, Any]]:
    about = {"id": message, "type": "message", "role": "assistant", "content": [], "model": "x", "usage": {}}
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": about}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            chunks += [
                {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": block["text"]}},
            ]
        else:
            chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        chunks.append({"type": "content_block_stop", "index": index})
    chunks.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}})
    return [*chunks, {"type": "message_stop"}]


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def test_a_paused_turn_is_sent_back_and_continued_without_a_round() -> None:
    model = Model(anthropic("pause_turn", text_block("Searching, ")), anthropic("end_turn", text_block("found.")))
    run = loop(model, provider="anthropic")
    events = await collect_events(run)
    assert (run.ended, run.rounds, run.text) == ("answered", 1, "Searching, found.")
    assert [event.type for event in events].count("round_started") == 1
    assert model.asked[1].request["messages"][-1]["role"] == "assistant"
    assert "Searching," in json.dumps(model.asked[1].request["messages"][-1])
    assert [content.speaker for content in run.contents] == ["ai", "ai"]
    assert model.asked[1].request.get("tools") == model.asked[0].request.get("tools")


async def test_the_calls_of_a_paused_turn_have_results_too() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
    model = Model(anthropic("pause_turn", use), anthropic("end_turn", text_block("Done.")))
    run = loop(model, provider="anthropic")
    events = await collect_events(run)
    assert [content.speaker for content in run.contents] == ["ai", "tool", "ai"]
    assert run.contents[1].blocks[0].status == "canceled"
    assert [event.type for event in events].count("tool_canceled") == 1


async def test_a_provider_that_always_pauses_ends_the_run() -> None:
    model = Model(anthropic("pause_turn", text_block("Wait.")))
    run = loop(model, provider="anthropic")
    events = await collect_events(run)
    assert len(model.asked) == 9
    assert run.ended == "max_rounds"
    assert [event.code for event in events if isinstance(event, Warned)] == ["paused_too_often"]


# ---------------------------------------------------------------- misuse, and custom loops


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"history": None}, "either history"),
        ({"history": HISTORY, "thread": []}, "either history"),
        ({"tool_choice": "nope"}, "tool_choice"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"limit": 0}, "limit"),
        ({"timeouts": -1}, "timeouts.call"),
        ({"tools": [get_weather, tool(get_weather)]}, "two tools"),
    ],
)
async def test_misuse_is_rejected_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loop(Model(answer("Hi.")), **wrong)


async def test_an_empty_history_and_an_empty_thread_are_accepted() -> None:
    assert (await loop(Model(answer("Hi.")), history=[])).ended == "answered"
    assert (await loop(Model(answer("Hi.")), thread=[])).thread == [{"role": "assistant", "content": "Hi."}]


async def test_a_custom_loop() -> None:
    from streamkit import providers, read

    model = Model(answer("", CALL), answer("Rain."))
    context = RoundContext([*HISTORY], [tool(get_weather)], "required", providers.get("openai_chat"))
    stream = model(context)
    while True:
        turn = Turn("openai_chat", turn_key=f"mine:{context.round}")
        async for _ in read(turn, stream):
            pass
        if not turn.calls:
            break
        update = await execute_tool_calls_batched(turn, tools=context.tools)
        context, stream = await finalize_tool_execution(context, update, model)
    assert turn.text == "Rain."
    assert context.round == 1
    assert model.choices == ["required", None]
    assert [message["role"] for message in context.thread] == ["system", "user", "assistant", "tool"]


# ---------------------------------------------------------------- what its turns are made with


async def test_a_runs_turns_recover_leaked_markup() -> None:
    leaked = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    model = Model(answer(leaked), answer("It rains."))
    run = await loop(model, provider="openai_compatible", turn=TurnOptions(leaked_markup="recover"))
    assert run.text == "It rains."
    assert [block.result for block in run.contents[1].blocks] == ["Oslo: rain"]


async def test_a_runs_turns_recover_only_calls_of_the_offered_tools() -> None:
    leaked = '<tool_call>{"name": "drop_table", "arguments": {"city": "Oslo"}}</tool_call>'
    run = await loop(Model(answer(leaked)), provider="openai_compatible", turn=TurnOptions(leaked_markup="recover"))
    assert (run.text, run.ended, run.turn.calls) == (leaked, "answered", [])


async def test_a_runs_turns_repair_arguments() -> None:
    text = '{"city": "Oslo",}'
    chunks = json.dumps(answer("", ("get_weather", {})))
    broken = json.loads(chunks.replace('"arguments": "{}"', f'"arguments": {json.dumps(text)}'))
    assert text in str(broken)
    run = await loop(Model(broken, answer("It rains.")), turn=TurnOptions(repair_arguments=True))
    assert [result.value for result in run.results] == ["Oslo: rain"]
    assert [warning.code for warning in run.warnings] == ["arguments_repaired"]
    assert run.contents[0].blocks[0].parameters == {"city": "Oslo"}
    run = await loop(Model(broken, answer("Sorry.")))
    assert [result.status for result in run.results] == ["error"]


async def test_a_runs_turns_have_its_limits() -> None:
    with pytest.raises(StreamInterrupted, match="limit_exceeded"):
        await loop(Model(answer("Far too long.")), turn=TurnOptions(limits=Limits(text=5)))
    with pytest.raises(UsageError, match="leaked_markup"):
        loop(Model(), turn=TurnOptions(leaked_markup="remove"))
