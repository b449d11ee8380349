"""Known errors of the reference system with streams, one test each, named after the right behaviour.

The system is multi-llm-ts as of July 2026. The streams are those of its observed failures, on the same wire; a test's
docstring describes the consequence there. Tools are in ``test_execution``. The rules themselves are tested in
``tests/accumulator`` and ``tests/providers``.

Left out: the content and moment of its notifications are a matter of taste (``test_notifications`` has ours), and so is
that on LM Studio and Cerebras a ``<think>`` in a chunk by itself switches to reasoning (here it is text).
"""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from execution.chat_chunks import answer
from execution.fake_model import FakeModel, ids_in_messages
from execution.provider_streams import (
    BOTH,
    CHAT,
    HISTORY,
    Tools,
    block_stop,
    call_delta,
    chat_delta,
    collect_events,
    complete_response,
    execute_chunks,
    function_call_item,
    gemini_call,
    input_delta,
    loop,
    ollama_chunk,
    responses_stream,
    result_values,
    tool_use_block,
)
from wire_streams import Chunk, block, chat, framed, gemini, message_end, message_start

from streamkit import (
    RoundContext,
    StreamInterrupted,
    Tool,
    Turn,
    execute_tool_calls_batched,
    render_request,
)
from streamkit.events import ToolCallStart
from streamkit.ids import mistral_tool_id, normalize_to_openai_tool_id
from streamkit.testing import validate_request

# ---------------------------------------------------------------- which call a piece belongs to


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai_chat", "groq", "mistral", "xai"])
async def test_interleaved_deltas_without_ids_go_to_their_calls_by_index(provider: str) -> None:
    """There the first call ran with {} and the second raised for the arguments of both."""
    chunks = [
        chat_delta(call_delta("", index=0, id="call_aaaa", name="f")),
        chat_delta(call_delta("", index=1, id="call_bbbb", name="g")),
        chat_delta(call_delta('{"x":', index=0)),
        chat_delta(call_delta('{"x":', index=1)),
        chat_delta(call_delta("1}", index=0)),
        chat_delta(call_delta("2}", index=1)),
        chat(None, "tool_calls"),
    ]
    _, ran, update = await execute_chunks(provider, chunks)
    assert ran == [("f", 1), ("g", 2)]
    assert result_values(update) == [("f", "completed", 1), ("g", "completed", 2)]


@pytest.mark.anyio
@CHAT
@BOTH
async def test_two_calls_of_one_chunk_both_run_and_are_rendered_once_each(provider: str, execute: Any) -> None:
    """There Groq and Mistral ran the first alone, and each assistant message of the thread named both."""
    chunks = complete_response(("call_aaaa", "f", '{"x":1}'), ("call_bbbb", "g", '{"x":2}'))
    turn, ran, update = await execute_chunks(provider, chunks, execute=execute)
    assert ran == [("f", 1), ("g", 2)]
    first, second = [
        mistral_tool_id(call.id) if provider == "mistral" else call.raw_id  # not an id that Mistral's servers accept
        for call in turn.calls
    ]
    call_ids, result_ids = ids_in_messages(update.messages)
    assert call_ids == ([[first, second]] if execute is execute_tool_calls_batched else [[first], [second]])
    assert result_ids == [first, second]
    written = [call["function"]["arguments"] for message in update.messages for call in message.get("tool_calls", ())]
    assert written == ['{"x":1}', '{"x":2}']


@pytest.mark.anyio
@BOTH
async def test_deltas_after_two_calls_in_one_chunk_go_to_their_own_call(
    execute: Any,
) -> None:
    """There they were written into the last call of the provider's own message, whichever they were of."""
    chunks = [
        chat_delta(call_delta("", index=0, id="a", name="f"), call_delta("", index=1, id="b", name="g")),
        chat_delta(call_delta('{"x":1}', index=0), call_delta('{"x":', index=1)),
        chat_delta(call_delta("2}", index=1)),
        chat(None, "tool_calls"),
    ]
    _, ran, update = await execute_chunks("openai_chat", chunks, execute=execute)
    assert ran == [("f", 1), ("g", 2)]
    written = [
        (call["function"]["name"], call["function"]["arguments"])
        for message in update.messages
        for call in message.get("tool_calls", ())
    ]
    assert written == [("f", '{"x":1}'), ("g", '{"x":2}')]


@pytest.mark.anyio
@CHAT
@pytest.mark.parametrize("name", [None, "", "f"])
async def test_an_id_on_every_delta_is_one_call(provider: str, name: str | None) -> None:
    """There Groq made a second call without a name of it, and raised for the first."""
    chunks = [
        chat_delta(call_delta("", id="call_aaaa", name="f")),
        chat_delta(call_delta('{"x"', id="call_aaaa", name=name)),
        chat_delta(call_delta(":1}", id="call_aaaa", name=name)),
        chat(None, "tool_calls"),
    ]
    turn, ran, _ = await execute_chunks(provider, chunks)
    assert [(call.raw_id, call.name) for call in turn.calls] == [("call_aaaa", "f")]
    assert ran == [("f", 1)]


@pytest.mark.anyio
@CHAT
async def test_an_empty_id_is_no_id(provider: str) -> None:
    """There Groq made a call with neither id nor name of it."""
    chunks = [
        chat_delta(call_delta('{"x"', id="call_aaaa", name="f")),
        chat_delta(call_delta(":1}", id="", name="")),
        chat(None, "tool_calls"),
    ]
    turn, ran, _ = await execute_chunks(provider, chunks)
    assert [(call.raw_id, call.name) for call in turn.calls] == [("call_aaaa", "f")]
    assert ran == [("f", 1)]


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai_chat", "groq"])
@pytest.mark.parametrize("index", [0, 1])
async def test_one_id_with_two_names_is_two_calls_with_different_ids(provider: str, index: int) -> None:
    """There the arguments of both were joined to ``{}{}``, and raised for."""
    chunks = [
        chat_delta(call_delta("{}", index=0, id="call_same", name="f")),
        chat_delta(call_delta("{}", index=index, id="call_same", name="g")),
        chat(None, "tool_calls"),
    ]
    turn, ran, update = await execute_chunks(provider, chunks)
    assert ran == [("f", 0), ("g", 0)]
    assert [call.raw_id for call in turn.calls] == ["call_same", "call_same"]
    [call_ids], result_ids = ids_in_messages(update.messages)
    assert call_ids == result_ids
    assert len(set(result_ids)) == 2


@pytest.mark.anyio
async def test_a_call_sent_again_under_its_id_runs_once() -> None:
    """There every start was another call, whatever its id."""
    call = ("call_aaaa", "f", '{"x":1}')
    _, ran, _ = await execute_chunks("openai_chat", [*complete_response(call)[:1], *complete_response(call)])
    assert ran == [("f", 1)]


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai_chat", "mistral"])
async def test_arguments_before_any_call_are_a_warning(provider: str) -> None:
    """There they were ignored without a warning."""
    turn, ran, _ = await execute_chunks(provider, [chat_delta(call_delta('{"x":1}')), chat(None, "tool_calls")])
    assert (turn.calls, ran) == ([], [])
    assert [warning.code for warning in turn.warnings] == ["orphan_delta", "finish_without_calls"]
    assert '{"x":1}' in turn.warnings[0].message


@pytest.mark.anyio
async def test_arguments_under_an_unknown_id_are_a_nameless_call_with_an_error_result() -> None:
    """There they were dropped: no event, no call."""
    chunks = [
        chat_delta(call_delta("{}", index=0, id="a", name="f")),
        chat_delta(call_delta('{"x":1}', index=1, id="unknown")),
        chat(None, "tool_calls"),
    ]
    turn, ran, update = await execute_chunks("openai_chat", chunks)
    assert ran == [("f", 0)]
    assert [(call.raw_id, call.state) for call in turn.calls] == [("a", "complete"), ("unknown", "invalid")]
    assert update.results[1].status == "error"
    assert update.results[1].error is not None


@pytest.mark.anyio
async def test_a_call_without_an_id_gets_one_and_runs() -> None:
    """There its id was undefined, in the thread as well."""
    turn, ran, update = await execute_chunks(
        "openai_chat", [chat_delta(call_delta('{"x":1}', name="f")), chat(None, "tool_calls")]
    )
    assert ran == [("f", 1)]
    assert turn.calls[0].raw_id is None
    assert ids_in_messages(update.messages)[1] == [normalize_to_openai_tool_id(turn.calls[0].id)]


@pytest.mark.anyio
async def test_interleaved_blocks_of_anthropic_go_to_their_calls_by_index() -> None:
    """There all deltas went to the last call."""
    chunks = [
        message_start(),
        *tool_use_block(0, "f", stop=False),
        *tool_use_block(1, "g", stop=False),
        input_delta(0, '{"x":'),
        input_delta(1, '{"x":'),
        input_delta(0, "1}"),
        input_delta(1, "2}"),
        block_stop(0),
        block_stop(1),
        *message_end("tool_use"),
    ]
    _, ran, _ = await execute_chunks("anthropic", chunks)
    assert ran == [("f", 1), ("g", 2)]


@pytest.mark.anyio
async def test_the_input_of_a_server_tool_is_not_added_to_the_previous_call() -> None:
    """There it was appended to that call's arguments, which were then no JSON."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    search_result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    chunks = [
        message_start(),
        *tool_use_block(0, "f", '{"x":1}', stop=False),
        *block(1, search, {"type": "input_json_delta", "partial_json": '{"query":"q"}'}),
        *block(2, search_result),
        block_stop(0),
        *message_end("tool_use"),
    ]
    turn, ran, update = await execute_chunks("anthropic", chunks)
    assert ran == [("f", 1)]
    assert [(call.name, call.arguments) for call in turn.server_calls] == [("web_search", {"query": "q"})]
    kinds = [part["type"] for part in update.messages[0]["content"]]
    assert sorted(kinds) == ["server_tool_use", "tool_use", "web_search_tool_result"]


# ---------------------------------------------------------------- arguments


@pytest.mark.anyio
async def test_arguments_sent_as_an_object_run_and_are_known_from_the_start() -> None:
    """There Mistral's became ``[object Object]``, and raised."""
    turn = Turn("mistral", turn_key="t")
    turn.feed(chat_delta(call_delta({"x": 1, "city": "Zürich"}, id="aaaaaaaaa", name="f")))
    [call] = turn.calls
    assert call.partial == {"x": 1, "city": "Zürich"}
    assert call.arguments_text == '{"x":1,"city":"Zürich"}'
    _, ran, update = await execute_chunks("mistral", complete_response(("aaaaaaaaa", "f", {"x": 1})))
    assert ran == [("f", 1)]
    assert update.messages[0]["tool_calls"][0]["function"]["arguments"] == '{"x":1}'


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["openai_chat", "groq"])
@pytest.mark.parametrize("nothing", ["", "   ", None])
async def test_a_call_without_arguments_runs_and_is_rendered_with_an_empty_object(
    provider: str, nothing: str | None
) -> None:
    """There it ran, but the thread kept ``""``, which is no JSON."""
    _, ran, update = await execute_chunks(provider, complete_response(("call_aaaa", "f", nothing)))
    assert ran == [("f", 0)]
    assert update.messages[0]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.anyio
@pytest.mark.parametrize("call", [{"name": "f"}, {"name": "f", "args": None}, {"name": "f", "args": {}}])
async def test_a_call_of_gemini_without_args_has_an_empty_object(call: dict[str, Any]) -> None:
    _, ran, update = await execute_chunks("gemini", [gemini({"functionCall": call}, finish="STOP")])
    assert ran == [("f", 0)]
    assert update.messages[0]["parts"][0]["functionCall"]["args"] == {}


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["[1]", '"text"', "3", "true"])
async def test_arguments_that_are_not_an_object_never_reach_a_tool(text: str) -> None:
    """There whatever was JSON was passed on."""
    ran: list[Any] = []

    async def anything(**fields: Any) -> None:
        ran.append(fields)

    open_tool = Tool(anything, parameters={"type": "object"})
    _, _, update = await execute_chunks("openai_chat", complete_response(("a", "anything", text)), tools=[open_tool])
    assert ran == []
    [result] = update.results
    assert result.status == "error"
    assert "Not run: the call is not valid" in (result.error or "")


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["a finish reason", "only [DONE]"])
async def test_incremental_arguments_of_xai_run_once_and_complete(end: str) -> None:
    """There the first fragment ran, and raised."""
    chunks = [chat_delta(call_delta('{"x":', id="call_aaaa", name="f")), chat_delta(call_delta("1}", id="call_aaaa"))]
    finish = [chat(None, "tool_calls")] if end == "a finish reason" else []
    _, ran, _ = await execute_chunks("xai", [framed("xai", [*chunks, *finish])])
    assert ran == [("f", 1)]


@pytest.mark.anyio
async def test_nothing_runs_and_no_approval_is_requested_before_the_last_call_has_arrived() -> None:
    """There xai's first call ran, and a follow-up was requested, before the second came."""
    tools = Tools()
    second = anyio.Event()
    calls = (
        chat_delta(call_delta('{"x":1}', id="a", name="f")),
        chat_delta(call_delta('{"x":2}', index=1, id="b", name="g")),
    )
    model = FakeModel([calls[0], second, calls[1], chat(None, "stop")], answer("Done."))
    open_at_request: list[int] = []

    def ask(context: RoundContext) -> Any:
        open_at_request.append(sum(not stream.closed for stream in model.streams))
        return model(context)

    async with loop(ask, *tools, provider="xai") as run:
        async for event in run:
            if isinstance(event, ToolCallStart) and event.call.name == "f":
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert tools.ran == []
                assert len(model.asked) == 1
                second.set()
    assert tools.ran == [("f", 1), ("g", 2)]
    assert len(model.asked) == 2
    assert open_at_request == [0, 0]  # the stream before was closed
    assert validate_request("xai", model.requests[1]) == []
    assert run.text == "Done."


# ---------------------------------------------------------------- the end of a response


@pytest.mark.anyio
@CHAT
async def test_each_call_of_a_response_truncated_at_its_length_gets_a_result(provider: str) -> None:
    """There they were dropped in silence."""
    chunks = complete_response(("call_aaaa", "f", '{"x":1}'), ("call_bbbb", "g", '{"x":'), finish="length")
    _, ran, update = await execute_chunks(provider, chunks)
    assert ran == [("f", 1)]
    assert [result.status for result in update.results] == ["completed", "error"]
    assert "the response reached its length limit" in (update.results[1].error or "")


@pytest.mark.anyio
async def test_each_call_of_anthropic_truncated_at_max_tokens_gets_a_result() -> None:
    """There they were dropped in silence."""
    chunks = [
        message_start(),
        *tool_use_block(0, "f", '{"x":1}'),
        *tool_use_block(1, "g", '{"x":', stop=False),
        *message_end("max_tokens"),
    ]
    _, ran, update = await execute_chunks("anthropic", chunks)
    assert ran == [("f", 1)]
    assert [result.status for result in update.results] == ["completed", "error"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "chunks"),
    [
        ("openai_chat", complete_response(("a", "f", "{}"), finish="content_filter")),
        ("groq", complete_response(("a", "f", "{}"), finish="content_filter")),
        ("gemini", [gemini(gemini_call("f"), finish="SAFETY")]),
        ("gemini", [gemini(gemini_call("f"), finish="PROHIBITED_CONTENT")]),
    ],
)
async def test_a_call_of_a_filtered_response_gets_a_result_without_running(provider: str, chunks: list[Chunk]) -> None:
    """There Chat's were dropped in silence, and Google's ran whatever the reason."""
    _, ran, update = await execute_chunks(provider, chunks)
    assert ran == []
    assert result_values(update) == [("f", "canceled", None)]
    assert "content filter" in (update.results[0].error or "")


@pytest.mark.anyio
@pytest.mark.parametrize("provider", ["mistral", "openai_chat", "groq"])
@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call"])
async def test_calls_run_after_every_finish_reason_of_a_good_end(provider: str, finish: str) -> None:
    """There Mistral's calls were dropped unless the word was ``tool_calls``."""
    _, ran, _ = await execute_chunks(provider, complete_response(("aaaaaaaaa", "f", '{"x":1}'), finish=finish))
    assert ran == [("f", 1)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "chunks"),
    [
        ("ollama", [ollama_chunk(("f", {"x": 1}))]),
        ("openai_responses", responses_stream(function_call_item(1, "f", '{"x":1}'), ends=False)),
    ],
)
async def test_no_call_of_a_truncated_response_runs(provider: str, chunks: list[Chunk]) -> None:
    """There Ollama's ran at their chunk and Responses' at their item's end, while the stream went on."""
    tools = Tools()
    run = loop(FakeModel([framed(provider, chunks, done=False)]), *tools, provider=provider)
    with pytest.raises(StreamInterrupted):
        await run
    assert tools.ran == []
    assistant, results = run.contents
    assert assistant.metadata["interrupted"] is True
    assert {block.status for block in results.blocks} <= {"error", "canceled"}


# ---------------------------------------------------------------- ids


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "chunks"),
    [
        ("gemini", [gemini(gemini_call("f", x=1), gemini_call("f", x=1), finish="STOP")]),
        ("ollama", [ollama_chunk(("f", {"x": 1}), ("f", {"x": 1})), ollama_chunk(done=True)]),
    ],
)
async def test_calls_without_ids_get_the_same_ids_at_every_replay(provider: str, chunks: list[Chunk]) -> None:
    """There they were a random UUID on Google and the clock on Ollama."""
    first, ran, _ = await execute_chunks(provider, chunks)
    again, _, _ = await execute_chunks(provider, chunks)
    assert [call.id for call in first.calls] == [call.id for call in again.calls]
    assert len({call.id for call in first.calls}) == 2
    assert ran == [("f", 1), ("f", 1)]


@pytest.mark.anyio
async def test_google_gets_its_own_ids_back_with_the_results() -> None:
    """There the name took the place of the id, and the roles were those of another wire."""
    ids = [{"functionCall": {"name": "f", "args": {"x": n}, "id": f"id-{n}"}} for n in (1, 2)]
    _, _, update = await execute_chunks("gemini", [gemini({"text": "Let me see."}, *ids, finish="STOP")])
    assert [message["role"] for message in update.messages] == ["model", "user"]
    call_ids = [part["functionCall"] for part in update.messages[0]["parts"] if "functionCall" in part]
    result_ids = [part["functionResponse"] for part in update.messages[1]["parts"]]
    assert [(call["id"], call["args"]) for call in call_ids] == [("id-1", {"x": 1}), ("id-2", {"x": 2})]
    assert [(each["id"], each["name"], each["response"]) for each in result_ids] == [
        ("id-1", "f", {"result": 1}),
        ("id-2", "f", {"result": 2}),
    ]


@pytest.mark.anyio
async def test_results_for_ollama_name_their_tools() -> None:
    """There they held nothing but the content."""
    _, _, update = await execute_chunks(
        "ollama", [ollama_chunk(("f", {"x": 1}), ("g", {"x": 2})), ollama_chunk(done=True)]
    )
    assert update.messages[1:] == [
        {"role": "tool", "content": "1", "tool_name": "f"},
        {"role": "tool", "content": "2", "tool_name": "g"},
    ]


@pytest.mark.anyio
async def test_events_history_and_the_next_request_of_responses_use_one_id_for_a_call() -> None:
    """There the events had the item's id and the follow-up the call's."""
    model = FakeModel(responses_stream(function_call_item(1, "f", '{"x":1}')), responses_stream())
    run = loop(model, *Tools(), provider="openai_responses")
    events = await collect_events(run)
    ids = {event.call.id for event in events if hasattr(event, "call")}
    assert len(ids) == 1
    assert {block.id for block in run.contents[0].blocks} == ids
    assert run.contents[0].blocks[0].metadata["raw_id"] == "call_1"
    assert [each["call_id"] for each in model.requests[1]["input"] if "call_id" in each] == ["call_1", "call_1"]


# ---------------------------------------------------------------- bodies that are not streamed


def body(*calls: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": list(calls)}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.anyio
@BOTH
@pytest.mark.parametrize("provider", ["openai_chat", "groq", "mistral", "ollama"])
async def test_all_calls_of_a_body_run_and_its_text_is_written_once(provider: str, execute: Any) -> None:
    """There OpenAI's empty arguments raised, and the others wrote the whole message again for each call."""
    chat_body = body(
        call_delta("", index=None, id="aaaaaaaaa", name="f"),
        call_delta('{"x":2}', index=None, id="bbbbbbbbb", name="g"),
    )
    ollama_body = ollama_chunk(("f", {}), ("g", {"x": 2}), text="Let me look.", done=True)
    fields = ollama_body if provider == "ollama" else chat_body
    _, ran, update = await execute_chunks(provider, [json.dumps(fields).encode()], execute=execute)
    assert ran == [("f", 0), ("g", 2)]
    assistant_messages = [message for message in update.messages if message["role"] == "assistant"]
    assert [message["content"] or "" for message in assistant_messages] == ["Let me look.", ""][
        : len(assistant_messages)
    ]
    names = [[call["function"]["name"] for call in message["tool_calls"]] for message in assistant_messages]
    assert names == ([["f", "g"]] if execute is execute_tool_calls_batched else [["f"], ["g"]])


@pytest.mark.anyio
async def test_all_blocks_of_an_anthropic_body_are_read() -> None:
    content = [
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {"x": 2}},
        {"type": "text", "text": "I wait."},
    ]
    fields = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content}
    fields |= {"stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    turn, ran, update = await execute_chunks("anthropic", [fields])
    assert ran == [("f", 1), ("g", 2)]
    assert turn.text == "I wait."
    assert [part["content"] for part in update.messages[1]["content"]] == ["1", "2"]


@pytest.mark.anyio
@pytest.mark.parametrize("arguments", ['{"x":1}', {"x": 1}])
async def test_arguments_of_a_mistral_body_are_read_as_text_and_as_object(arguments: Any) -> None:
    """There they were passed to the tool as they came."""
    _, ran, _ = await execute_chunks("mistral", [body(call_delta(arguments, index=None, id="aaaaaaaaa", name="f"))])
    assert ran == [("f", 1)]


def test_every_wire_declares_the_tools() -> None:
    """There Cerebras' was not."""
    for provider in ("cerebras", "openai_chat", "groq", "mistral", "ollama", "xai", "deepseek", "openrouter"):
        request = render_request(HISTORY, provider, tools=list(Tools()))
        assert [each["function"]["name"] for each in request["tools"]] == ["f", "g"]
