"""Defects of the caller's program and of its tools: each reaches the caller as it is, or is one call's error."""

from __future__ import annotations

import asyncio
import datetime
import gc
import json
import logging
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from email.message import Message
from io import BytesIO
from typing import Any
from urllib.error import HTTPError

import anyio
import anyio.lowlevel
import httpx
import openai
import pytest
from execution.chat_chunks import answer, closed_turn
from execution.executor_checks import EXECUTORS, calls, collect_events, run_one
from execution.fake_model import FakeModel, calls_with_status
from waiting import PATIENCE

from streamkit import (
    Approval,
    Content,
    Retries,
    RoundContext,
    Schedule,
    StreamInterrupted,
    Timeouts,
    Tool,
    ToolCall,
    ToolContext,
    ToolFailed,
    Turn,
    UsageError,
    execute_one_tool,
    execute_tool_calls_batched,
    run_loop,
    tool,
)
from streamkit.execution.one_call import background as worker_thread
from streamkit.reading.source_failure import find_failed_response, is_io_failure, is_programming_error

pytestmark = pytest.mark.anyio

HISTORY = [Content.human("Go.")]


def loop(ask: Any, *tools: Any, **more: Any) -> Any:
    return run_loop(ask, **{"provider": "openai_chat", "tools": tools, "history": HISTORY, "run_key": "k"} | more)


async def quick() -> str:
    """Return at once."""
    return "done"


# ---------------------------------------------------------------- create_new_stream and the source

DEFECTS = [
    *(NameError("x"), TypeError("x"), KeyError("x"), ZeroDivisionError(), AssertionError(), ValueError("x")),
    DeprecationWarning("x"),
]


class OwnError(Exception):
    pass


@pytest.mark.parametrize(
    "defect", [*DEFECTS, OwnError("no key"), RuntimeError("x")], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("kind", ["plain", "async", "context manager"])
async def test_a_defect_of_create_new_stream_propagates(defect: Exception, kind: str) -> None:
    def ask(context: RoundContext) -> Any:
        raise defect

    async def ask_later(context: RoundContext) -> Any:
        raise defect

    @asynccontextmanager
    async def ask_in_block(context: RoundContext) -> AsyncIterator[Any]:
        raise defect
        yield

    run = loop(
        {"plain": ask, "async": ask_later, "context manager": ask_in_block}[kind],
        retries=Retries(requests=3, fallbacks=["gemini"]),
    )
    with pytest.raises(type(defect)) as caught:
        await run
    assert caught.value is defect
    assert any(frame.name.startswith("ask") for frame in caught.traceback)
    assert (run.ended, run.contents) == ("error", [])


@pytest.mark.parametrize("defect", [*DEFECTS, UsageError("x")], ids=lambda each: type(each).__name__)
async def test_a_defect_of_a_source_propagates_and_keeps_what_had_arrived(defect: Exception) -> None:
    async def ask(context: RoundContext) -> AsyncIterator[Any]:
        for chunk in answer("Now.")[:2]:
            yield chunk
        raise defect

    run = loop(ask)
    with pytest.raises(type(defect)) as caught:
        await run
    assert caught.value is defect
    assert run.ended == "error"
    assert [content.metadata["interrupted"] for content in run.contents] == [True]


async def test_a_source_of_two_kinds_of_input_is_closed_and_keeps_what_had_arrived() -> None:
    closed = []

    async def ask(context: RoundContext) -> AsyncIterator[Any]:
        try:
            yield answer("Now.")[0]
            yield answer("Now.")[1]
            yield b"data: [DONE]\n\n"
        finally:
            closed.append("source")

    run = loop(ask)
    with pytest.raises(UsageError, match="one kind of input"):
        await run
    assert closed == ["source"]
    assert run.ended == "error"
    assert [content.metadata["interrupted"] for content in run.contents] == [True]


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionResetError("x"),
        TimeoutError(),
        EOFError(),
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("x"),
        anyio.BrokenResourceError(),
        anyio.EndOfStream(),
        openai.APIConnectionError(request=httpx.Request("POST", "http://x/")),
        BaseExceptionGroup("x", [ConnectionResetError(), httpx.ReadError("y")]),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_an_io_failure_of_create_new_stream_is_a_transport_error(failure: Exception) -> None:
    def ask(context: RoundContext) -> Any:
        raise failure

    with pytest.raises(StreamInterrupted, match="transport_error") as caught:
        await loop(ask)
    assert caught.value.__cause__ is failure


def test_an_exception_that_was_raised_from_an_io_failure_is_one() -> None:
    def wrap(kind: type[Exception]) -> Exception:
        try:
            try:
                raise ConnectionError("refused")  # noqa: TRY301
            except ConnectionError as error:
                raise kind("x") from error
        except kind as error:
            return error

    assert is_io_failure(wrap(OwnError))
    assert not is_io_failure(wrap(NameError))
    assert not is_io_failure(OwnError())
    assert not is_io_failure(httpx.StreamConsumed())  # a RuntimeError: the client was used wrongly
    assert is_programming_error(ExceptionGroup("x", [ConnectionError(), NameError()]))
    assert not is_programming_error(json.JSONDecodeError("x", "{", 0))


class OnlyStatus(Exception):
    status_code = 429
    body = {"message": "slow"}  # noqa: RUF012


class Botocore(Exception):
    response = {  # noqa: RUF012
        "Error": {"Code": "ThrottlingException"},
        "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {}},
    }


@pytest.mark.parametrize(
    "exception",
    [
        OnlyStatus(),
        Botocore(),
        openai.RateLimitError(
            "slow", response=httpx.Response(429, request=httpx.Request("POST", "http://x/")), body=None
        ),
    ],
    ids=["status alone", "botocore", "openai"],
)
@pytest.mark.parametrize("where", ["opening", "reading"])
async def test_an_sdks_exception_keeps_the_status(exception: Exception, where: str) -> None:
    async def read(context: RoundContext) -> AsyncIterator[Any]:
        raise exception
        yield

    def ask(context: RoundContext) -> Any:
        raise exception

    with pytest.raises(StreamInterrupted, match="status 429") as caught:
        await loop(read if where == "reading" else ask)
    assert (caught.value.error.kind, caught.value.error.status) == ("provider_error", 429)
    found = find_failed_response(exception)
    assert found is not None
    assert found.status == 429


def test_the_body_of_urllibs_exception_is_read() -> None:
    def error(body: Any) -> HTTPError:
        return HTTPError("http://x/", 400, "Bad Request", Message(), body)

    found = find_failed_response(error(BytesIO(b'{"error": {"message": "too long"}}')))
    assert found is not None
    assert (found.status, found.body) == (400, b'{"error": {"message": "too long"}}')
    closed = BytesIO(b"x")
    closed.close()
    for body in (closed, BytesIO()):
        found = find_failed_response(error(body))
        assert found is not None
        assert (found.status, found.body) == (400, b"")


def test_an_exception_without_a_response_has_no_status() -> None:
    assert find_failed_response(OwnError()) is None
    assert find_failed_response(httpx.ReadError("x")) is None


# ---------------------------------------------------------------- the conversation


@pytest.mark.parametrize(
    ("option", "message"), [("history", Content.human("Go.")), ("thread", {"role": "user", "content": "Go."})]
)
async def test_a_conversation_that_can_be_read_once_is_sent(option: str, message: Any) -> None:
    model = FakeModel(answer("Done."))
    await run_loop(model, provider="openai_chat", **{option: iter([message])})
    assert model.requests[0]["messages"] == [{"role": "user", "content": "Go."}]


# ---------------------------------------------------------------- hooks and approve


async def test_a_defect_of_a_hook_propagates() -> None:
    def hook(context: RoundContext) -> None:
        raise NameError("hook")

    run = loop(FakeModel(answer("", ("quick", {}))), quick, before_follow_up=hook)
    with pytest.raises(NameError, match="hook"):
        await run
    assert run.ended == "error"
    assert calls_with_status(run.contents) == [("quick", "completed")]


def approve_wrongly(call: ToolCall, deps: Any) -> bool:
    raise NameError("approve")


async def hang() -> None:
    await anyio.sleep_forever()


async def test_a_defect_of_approve_propagates_and_every_call_has_its_result() -> None:
    run = loop(
        FakeModel(answer("", ("quick", {}), ("hang", {}))), tool(quick, approval="ask"), hang, approve=approve_wrongly
    )
    with pytest.raises(NameError, match="approve") as caught:
        await run
    assert any(frame.name == "approve_wrongly" for frame in caught.traceback)
    assert run.ended == "error"
    assert calls_with_status(run.contents) == [("quick", "error"), ("hang", "canceled")]


@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize("watched", [True, False])
async def test_a_defect_of_approve_propagates_from_an_execution(execute: Any, watched: bool) -> None:
    execution = execute(
        calls("quick", "quick"), tools=[tool(quick, approval="ask")], provider="gemini", approve=approve_wrongly
    )
    with pytest.raises(NameError, match="approve"):
        await (collect_events(execution) if watched else execution)
    assert [result.status for result in execution.update.results] == ["error", "error"]


async def test_a_defect_of_approve_propagates_from_one_tool() -> None:
    events: list[Any] = []
    with pytest.raises(NameError, match="approve"):
        await execute_one_tool(
            calls("quick")[0], tools=[tool(quick, approval="ask")], approve=approve_wrongly, report=events.append
        )
    assert [event.type for event in events] == ["tool_error"]


async def test_a_lost_connection_of_approve_denies_the_call() -> None:
    async def approve(call: ToolCall, deps: Any) -> bool:
        raise ConnectionError("gone")

    result = await run_one(tool(quick, approval="ask"), approve=approve)
    assert (result.status, type(result.exception)) == ("denied", ConnectionError)


async def test_approve_must_return_a_decision() -> None:
    with pytest.raises(UsageError, match="approve must return"):
        await run_one(tool(quick, approval="ask"), approve=lambda call, deps: "yes")  # type: ignore[return-value]


async def test_approve_cannot_change_what_runs_by_changing_the_call() -> None:
    ran: list[Any] = []

    async def remove(path: dict[str, Any], context: ToolContext) -> None:
        ran.append(dict(path))
        path["changed"] = context.call.arguments["changed"] = True

    def approve(call: ToolCall, deps: Any) -> bool:
        call.arguments["path"]["name"] = "/"
        call.partial.clear()
        return True

    for parameters in (None, {"type": "object"}):
        removing = Tool(remove, parameters=parameters, approval="ask")
        turn = closed_turn("", ("remove", {"path": {"name": "a"}}))
        update = await execute_tool_calls_batched(turn, tools=[removing], approve=approve)
        assert update.contents[0].blocks[0].parameters == {"path": {"name": "a"}}  # type: ignore[union-attr]
    assert ran == [{"name": "a"}] * 2


async def test_approved_arguments_stand_in_the_history_as_they_ran() -> None:
    async def remove(path: str) -> str:
        return f"removed {path}"

    run = await loop(
        FakeModel(answer("", ("remove", {"path": "/"})), answer("Done.")),
        tool(remove, approval="ask"),
        approve=lambda call, deps: Approval(True, arguments={"path": "/x/a"}),
    )
    call, response = run.contents[0].blocks[0], run.contents[1].blocks[0]
    assert (call.parameters, call.metadata["original_arguments"]) == ({"path": "/x/a"}, {"path": "/"})
    assert response.result == "removed /x/a"
    assert json.loads(run.thread[1]["tool_calls"][0]["function"]["arguments"]) == {"path": "/x/a"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (float("nan"), "NaN"),
        ("\ud83d", "\ufffd"),
        (b"\xff", "/w=="),
        (datetime.datetime(2026, 1, 2), "2026-01-02T00:00:00"),
        ((1, {2: 3}), [1, {"2": 3}]),
    ],
    ids=repr,
)
async def test_approved_arguments_that_are_no_json_can_be_stored_and_sent(given: Any, stored: Any) -> None:
    ran: list[Any] = []

    async def remove(path: Any) -> None:
        ran.append(path)

    update = await execute_tool_calls_batched(
        closed_turn("", ("remove", {"path": "/"})),
        tools=[tool(remove, approval="ask")],
        approve=lambda call, deps: Approval(True, arguments={"path": given}),
    )
    assert len(ran) == 1
    assert update.contents[0].blocks[0].parameters == {"path": stored}  # type: ignore[union-attr]
    assert [Content.model_validate_json(content.model_dump_json()) for content in update.contents] == update.contents
    assert json.loads(update.messages[0]["tool_calls"][0]["function"]["arguments"]) == {"path": stored}


@pytest.mark.parametrize("value", ["removed", 3])
async def test_the_result_of_a_signed_call_describes_the_approved_arguments(value: Any) -> None:
    turn = Turn("gemini", turn_key="t")
    call = {"functionCall": {"name": "remove", "args": {"path": "/"}}, "thoughtSignature": "c2ln"}
    turn.feed({"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}]})
    turn.close()

    async def remove(path: str) -> Any:
        return value

    update = await execute_tool_calls_batched(
        turn,
        tools=[tool(remove, approval="ask")],
        approve=lambda call, deps: Approval(True, arguments={"path": "/x/a"}),
    )
    asked, response = update.contents[0].blocks[0], update.contents[1].blocks[0]
    assert asked.parameters == {"path": "/"}  # type: ignore[union-attr]
    assert "/x/a" in str(response.result)  # type: ignore[union-attr]
    assert str(value) in str(response.result)  # type: ignore[union-attr]


# ---------------------------------------------------------------- what a tool raises


class Outcome(BaseException):
    """As pytest's Failed and Skipped, or a panic of an extension module."""


@pytest.mark.parametrize("raised", [Outcome("odd"), pytest.skip.Exception("odd"), GeneratorExit(), SystemExit(3)])
@pytest.mark.parametrize("kind", ["async", "sync", "group"])
async def test_a_base_exception_of_a_tool_is_its_error(raised: BaseException, kind: str) -> None:
    async def fail() -> None:
        raise raised

    def fail_in_thread() -> None:
        raise raised

    async def fail_in_group() -> None:
        raise BaseExceptionGroup("several", [raised])

    failing = tool({"async": fail, "sync": fail_in_thread, "group": fail_in_group}[kind], name="fail")
    execution = execute_tool_calls_batched(calls("fail", "quick"), tools=[failing, quick], provider="gemini")
    events = await collect_events(execution)
    assert [result.status for result in execution.update.results] == ["error", "completed"]
    assert type(raised).__name__ in (execution.update.results[0].error or "")
    assert execution.update.results[0].exception is not None
    assert [event.type for event in events].count("tool_error") == 1


def tool_records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what was logged of tools; a turn of an earlier test may be collected now, and report its error."""
    return [record for record in caplog.records if record.getMessage().startswith("tool ")]


async def test_the_exception_is_in_the_result_and_in_the_log_without_the_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(key: str) -> None:
        raise OSError("disk")

    with caplog.at_level(logging.DEBUG, "streamkit"):
        result = await run_one(fail, {"key": "s3cret"})
    assert isinstance(result.exception, OSError)
    [record] = tool_records(caplog)
    assert (record.name, record.levelname) == ("streamkit", "WARNING")
    assert record.exc_info is not None
    assert record.exc_info[1] is result.exception
    assert "s3cret" not in caplog.text


async def test_secrets_in_the_traceback_of_a_tool_are_masked_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    key = "sk-proj-" + "a1B2" * 8

    async def fail() -> None:
        raise RuntimeError(f"refused {key}") from OSError(f"GET https://x.org/?api_key={key[8:]}")

    with caplog.at_level(logging.DEBUG, "streamkit"):
        result = await run_one(fail)
    assert key in str(result.exception)
    [record] = tool_records(caplog)
    assert (record.funcName, record.filename) == ("log_exception", "prepare.py")
    assert key[8:] not in caplog.text
    assert "RuntimeError: refused ***" in caplog.text
    assert "OSError: GET https://x.org/?api_key=***" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.ERROR, "streamkit"):
        await run_one(fail)
    assert tool_records(caplog) == []


async def test_a_message_for_the_model_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ToolFailed("no such city")

    with caplog.at_level(logging.DEBUG, "streamkit"):
        result = await run_one(fail)
    assert (result.error, type(result.exception), tool_records(caplog)) == ("no such city", ToolFailed, [])


async def test_an_exception_with_a_broken_text_is_an_error() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError

    async def fail() -> None:
        raise Broken

    assert (await run_one(fail)).error == "fail failed with Broken."


# ---------------------------------------------------------------- scopes and tasks of a tool


async def leaves_a_scope_open() -> str:
    anyio.CancelScope().__enter__()
    return "done"


async def leaves_a_deadline_open() -> str:
    anyio.move_on_after(0).__enter__()
    return "done"


async def leaves_a_group_open() -> str:
    group = anyio.create_task_group()
    await group.__aenter__()
    group.start_soon(anyio.sleep_forever)
    return "done"


async def leaves_a_scope_open_and_fails() -> None:
    anyio.CancelScope().__enter__()
    raise OSError("disk")


async def cancels_its_task() -> None:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    await anyio.sleep_forever()


async def cancels_its_task_and_returns() -> str:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    return "done"


async def swallows_its_own_cancellation() -> str:
    asyncio.current_task().cancel()  # type: ignore[union-attr]
    with suppress(asyncio.CancelledError):
        await anyio.sleep_forever()
    return "done"


async def swallows_the_cancellation_of_its_time_limit() -> str:
    with suppress(anyio.get_cancelled_exc_class()):
        await anyio.sleep_forever()
    return "done"


@pytest.mark.parametrize(
    ("function", "status"),
    [
        (leaves_a_scope_open, "error"),
        (leaves_a_deadline_open, "error"),
        (leaves_a_group_open, "error"),
        (leaves_a_scope_open_and_fails, "error"),
        (cancels_its_task, "error"),
        (cancels_its_task_and_returns, "completed"),
        (swallows_its_own_cancellation, "completed"),
        (swallows_the_cancellation_of_its_time_limit, "completed"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
async def test_a_tool_that_breaks_its_task_hurts_no_other_call(
    function: Callable[..., Any], status: str, alone: bool, anyio_backend_name: str
) -> None:
    if "task" in function.__name__ or "own" in function.__name__:
        if anyio_backend_name == "trio":
            pytest.skip("on trio a task cannot be cancelled")
    is_timed = function is swallows_the_cancellation_of_its_time_limit
    broken = tool(function, name="broken", timeout=0.01 if is_timed else 30)
    if alone:
        assert (await execute_one_tool(calls("broken")[0], tools=[broken])).status == status
        await anyio.lowlevel.checkpoint()
        return
    go_on = anyio.Event()

    async def other() -> str:
        await go_on.wait()
        return "done"

    execution = execute_tool_calls_batched(
        calls("other", "broken", "other"), tools=[other, broken], provider="gemini", timeouts=None
    )
    events: list[Any] = []
    async with execution:
        async for event in execution:
            events.append(event)
            if event.type in ("tool_error", "tool_completed"):
                go_on.set()
    assert [result.status for result in execution.update.results] == ["completed", status, "completed"]
    await anyio.lowlevel.checkpoint()  # this task is not cancelled either


# ---------------------------------------------------------------- abandoned threads


async def test_an_exclusive_tool_waits_for_an_abandoned_thread() -> None:
    gate = threading.Event()
    ended: list[str] = []

    @tool(timeout=0.01)
    def stuck() -> None:
        gate.wait(30)
        ended.append("stuck")

    @tool(exclusive=True)
    async def alone() -> None:
        ended.append("alone")

    execution = execute_tool_calls_batched(calls("stuck", "alone"), tools=[stuck, alone], provider="gemini")
    async with execution:
        async for event in execution:
            if event.type == "tool_timed_out":
                gate.set()
    assert [result.status for result in execution.update.results] == ["timed_out", "completed"]
    assert ended == ["stuck", "alone"]


async def test_the_number_of_abandoned_threads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    @tool(timeout=0.01)
    def stuck() -> None:
        gate.wait(30)

    await wait_until_none_is_abandoned()  # those of other tests
    monkeypatch.setattr("streamkit.execution.one_call.attempt.MAX_ABANDONED", 1)
    first = await run_one(stuck)
    second = await run_one(stuck)  # of another execution, with places of its own
    gate.set()
    assert (first.status, second.status) == ("timed_out", "error")
    assert "no more are started" in (second.error or "")
    await wait_until_none_is_abandoned()
    assert (await run_one(lambda_tool())).status == "completed"


async def wait_until_none_is_abandoned() -> None:
    with anyio.fail_after(30):
        while worker_thread.count_abandoned():  # noqa: ASYNC110 - the end of a thread sets no event
            await anyio.sleep(0.001)


def lambda_tool() -> Tool:
    return Tool(lambda: "done", name="plain")


# ---------------------------------------------------------------- a schedule inside itself


@pytest.mark.parametrize("kind", ["execution", "run", "inner"])
async def test_a_schedule_inside_itself_is_an_error_of_the_call(kind: str) -> None:
    schedule = Schedule(1)

    async def nested() -> Any:
        if kind == "run":
            return await loop(FakeModel(answer("Hi.")), limit=schedule)
        inner = execute_tool_calls_batched(calls("quick"), tools=[quick], provider="gemini", limit=schedule)
        return (await inner).results[0].value

    async def between() -> Any:
        result = await run_one(nested, limit=Schedule(1))
        return result.error

    with anyio.fail_after(PATIENCE):
        result = await run_one(between if kind == "inner" else nested, limit=schedule)
    assert "pass another Schedule" in str(result.value if kind == "inner" else result.error)


async def test_a_schedule_may_be_used_after_its_tool_has_ended() -> None:
    schedule = Schedule(1)
    outer = await run_one(quick, limit=schedule)
    again = await run_one(quick, limit=schedule)
    assert [outer.status, again.status] == ["completed", "completed"]


# ---------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"history": [{"role": "user", "content": "Hi"}]}, "thread="),
        ({"history": "Hi"}, "list of Contents"),
        ({"history": Content.human("Hi")}, "list of Contents"),
        ({"history": ["Hi"]}, "Content.human"),
        ({"history": None, "thread": [Content.human("Hi")]}, "history="),
        ({"history": None, "thread": "Hi"}, "list of the provider's messages"),
        ({"timeouts": "3"}, "timeouts.call must be"),
        ({"timeouts": True}, "timeouts.call must be"),
        ({"limit": -1}, "limit must be"),
        ({"limit": "8"}, "limit must be"),
        ({"max_rounds": 0}, "max_rounds must be"),
        ({"max_rounds": 2.5}, "max_rounds must be"),
        ({"retries": "1"}, "retries.requests must be"),
        ({"turn": "strip"}, "turn must be TurnOptions"),
        ({"budget": "1"}, "budget.tokens must be"),
        ({"tools": [quick, quick]}, "two tools have the name"),
        ({"tools": 5}, "tools must be a list"),
        ({"tools": [{"name": "f"}]}, "functions or tools"),
        ({"provider": "gpt"}, "unknown provider"),
        ({"provider": 5}, "provider must be"),
        ({"run_key": ""}, "run_key must be"),
        ({"run_key": 5}, "run_key must be"),
        ({"before_follow_up": 5}, "before_follow_up"),
        ({"tool_choice": {"type": "auto"}}, "tool_choice must be"),
    ],
)
async def test_wrong_arguments_of_a_run_are_rejected_at_the_call(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loop(FakeModel(answer("Hi.")), **wrong)


@pytest.mark.parametrize(
    ("group", "wrong", "message"),
    [
        (Timeouts, {"run": float("nan")}, "timeouts.run must be"),
        (Timeouts, {"call": 0}, "timeouts.call must be a number of seconds above 0"),
        (Retries, {"requests": -1}, "retries.requests must be"),
        (Retries, {"output": True}, "retries.output must be"),
        (Retries, {"fallbacks": "gemini"}, "fallbacks must be a list"),
    ],
)
async def test_wrong_values_of_a_group_are_rejected_when_it_is_made(
    group: type, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        group(**wrong)


@pytest.mark.parametrize("wrong", ["calls", 5, {"id": 1}, [{"id": 1}]])
async def test_wrong_calls_are_rejected(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"turn\.calls"):
        execute_tool_calls_batched(wrong, tools=[], provider="gemini")


# ---------------------------------------------------------------- not used, used twice


@pytest.mark.parametrize("kind", ["run", "execution"])
async def test_what_is_never_awaited_is_a_warning(kind: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind == "run":
            loop(FakeModel(answer("Hi.")))
        else:
            execute_tool_calls_batched(calls("quick"), tools=[quick], provider="gemini")
        gc.collect()
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "await" in str(caught[0].message)


async def test_what_is_used_twice_is_rejected() -> None:
    run = loop(FakeModel(answer("Hi.")))
    async with run:
        assert [event async for event in run]
        with pytest.raises(UsageError, match="were read"):
            [event async for event in run]
    with pytest.raises(UsageError, match="used once"):
        await run
    execution = execute_tool_calls_batched(calls("quick"), tools=[quick], provider="gemini")
    async with execution:
        assert [event async for event in execution]
        with pytest.raises(UsageError, match="were read"):
            [event async for event in execution]


async def test_a_loop_that_was_left_may_be_continued() -> None:
    async with loop(FakeModel(answer("Hi."))) as run:
        async for event in run:
            if event.type == "round_started":
                break
        assert "".join([event.text async for event in run if event.type == "text"]) == "Hi."


# ---------------------------------------------------------------- secrets


async def test_reprs_do_not_contain_deps() -> None:
    shown: list[str] = []

    def ask(context: RoundContext) -> Any:
        shown.append(repr(context))
        return answer("Hi.")

    secret = {"key": "s3cret"}
    run = await loop(ask, quick, deps=secret)
    execution = execute_tool_calls_batched(calls("quick"), tools=[quick], provider="gemini", deps=secret)
    shown += [repr(run), repr(execution), repr(Tool(quick)), repr(run._state.options)]
    await execution
    assert not any("s3cret" in each for each in shown)
    assert "openai_chat" in shown[0]


@pytest.mark.parametrize("name", ["ConnectError", "ReadError", "ReadTimeout", "PoolTimeout", "RemoteProtocolError"])
@pytest.mark.parametrize("package", ["httpx", "httpx2"])
def test_the_failures_of_both_generations_of_httpx_are_known(package: str, name: str) -> None:
    """Without a request: its property raises an exception then. OpenAI's and Anthropic's SDKs speak HTTP by httpx2."""
    client = pytest.importorskip(package)
    error = getattr(client, name)("no route")
    assert is_io_failure(error)
    assert not is_programming_error(error)


def test_an_exception_whose_request_is_not_set_is_judged_by_its_class() -> None:
    class NoRequest(Exception):
        @property
        def request(self) -> Any:
            raise RuntimeError("The .request property has not been set.")

    assert not is_io_failure(NoRequest())
