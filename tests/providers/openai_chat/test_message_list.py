"""Responses of several messages: the tools that Mistral's server runs, and the calls of the client next to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamkit import Limits, Turn
from streamkit.history import ServerToolBlock, TextBlock

HOSTED = {"tool_type": "image"}


def call(id: str, name: str, metadata: Any = None) -> dict[str, Any]:
    function = {"name": name, "arguments": '{"query":"q"}'}
    return {"id": id, "type": "function", "function": function, **({"metadata": metadata} if metadata else {})}


def assistant(content: Any, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def result(id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def counts(prompt: int, output: int) -> dict[str, Any]:
    details = {"prompt_tokens_details": {"cached_tokens": 1}}
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output, **details}


def body(*messages: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "messages": list(messages)}
    return {"id": "a", "object": "chat.completion", "model": "m", "choices": [choice], "usage": counts(3, 2)}


def chunk(index: int, delta: dict[str, Any], finish: str | None = None, **top: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"index": index, **delta}, "finish_reason": finish}
    return {"id": "a", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **top}


def read(*chunks: dict[str, Any], as_dicts: bool = False) -> Turn:
    turn = Turn("mistral", turn_key="k")
    for data in chunks:
        turn.feed(data if as_dicts else b"data: %b\n\n" % json.dumps(data).encode())
    if not as_dicts:
        turn.feed(b"data: [DONE]\n\n")
    turn.close(complete=as_dicts)
    assert turn.error is None
    return turn


def test_what_is_kept_of_a_call_beside_its_arguments_counts_against_the_limit() -> None:
    turn = Turn("mistral", turn_key="k", limits=Limits(text=20_000))
    for number in range(100):
        noted = call(f"c{number}", "search", {**HOSTED, "note": "x" * 1000})
        turn.feed(chunk(0, assistant("", {**noted, "index": number})))
        if turn.done:
            break
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    assert number < 25


def test_fields_that_each_delta_of_a_call_repeats_count_once() -> None:
    turn = Turn("mistral", turn_key="k", limits=Limits(text=20_000))
    for _ in range(1000):
        turn.feed(chunk(0, assistant("", {**call("c", "search", HOSTED), "function": {"name": "search"}, "index": 0})))
    assert turn.error is None


@pytest.mark.parametrize("metadata", [HOSTED, {"integration_id": "i"}, None])
def test_a_body_of_messages_is_text_and_server_tools(metadata: Any) -> None:
    turn = Turn("mistral", turn_key="k")
    turn.feed(body(assistant("", call("c", "search", metadata)), result("c", "found"), assistant("Answer")))
    turn.close()
    assert (turn.text, turn.calls, turn.warnings) == ("Answer", [], [])
    tool, text = turn.content.blocks
    assert isinstance(tool, ServerToolBlock)
    assert (tool.id, tool.name, tool.arguments, tool.result) == ("c", "search", {"query": "q"}, "found")
    assert isinstance(text, TextBlock)
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


@pytest.mark.parametrize("metadata", [HOSTED, None])
@pytest.mark.parametrize("as_dicts", [True, False])
def test_streamed_results_are_not_text_and_their_calls_do_not_run(metadata: Any, as_dicts: bool) -> None:
    turn = read(
        chunk(0, assistant("Wait. ", {**call("c", "search", metadata), "index": 0}), "tool_calls", usage=counts(10, 2)),
        chunk(1, result("c", "fou")),
        chunk(1, {"content": "nd"}),
        chunk(2, assistant("Ans"), id="b"),
        chunk(2, {"content": "wer"}, "stop", id="b", usage=counts(20, 3)),
        as_dicts=as_dicts,
    )
    assert (turn.text, turn.executable, turn.warnings) == ("Wait. Answer", [], [])
    assert [(tool.name, tool.arguments, tool.result) for tool in turn.server_calls] == [
        ("search", {"query": "q"}, "found")
    ]
    assert [block.type for block in turn.content.blocks] == ["text", "server_tool", "text"]
    assert turn.finish is not None
    assert turn.finish.reason == "stop"
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.cache_read_tokens) == (30, 5, 2)


@pytest.mark.parametrize("as_dicts", [True, False])
def test_a_call_without_a_result_is_the_clients(as_dicts: bool) -> None:
    turn = read(
        chunk(0, assistant("", {**call("c", "search", HOSTED), "index": 0})),
        chunk(1, result("c", [{"type": "text", "text": "found"}])),
        chunk(2, assistant("", {**call("localcall", "f"), "index": 0}, {**call("localcal2", "f"), "index": 1})),
        chunk(2, {}, "tool_calls"),
        as_dicts=as_dicts,
    )
    assert [(made.raw_id, made.arguments) for made in turn.executable] == [
        ("localcall", {"query": "q"}),
        ("localcal2", {"query": "q"}),
    ]
    assert [tool.result for tool in turn.server_calls] == [[{"type": "text", "text": "found"}]]


def test_a_call_of_the_server_without_a_result_does_not_run() -> None:
    turn = read(chunk(0, assistant("", {**call("c", "search", HOSTED), "index": 0}), "tool_calls"))
    assert turn.executable == []
    assert [(tool.name, tool.result) for tool in turn.server_calls] == [("search", None)]


def test_a_stream_that_breaks_after_a_call_of_the_server_is_truncated() -> None:
    turn = Turn("mistral", turn_key="k")
    for data in (
        chunk(0, assistant("", {**call("c", "search", HOSTED), "index": 0}), "tool_calls"),
        chunk(1, result("c", "found")),
    ):
        turn.feed(b"data: %b\n\n" % json.dumps(data).encode())
    turn.close()
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"
    assert [tool.result for tool in turn.server_calls] == ["found"]


def test_a_result_of_an_unknown_call_is_kept() -> None:
    turn = read(chunk(0, result("x", "found")), chunk(1, assistant("Answer"), "stop"))
    assert turn.text == "Answer"
    assert [(tool.id, tool.name, tool.result) for tool in turn.server_calls] == [("x", "tool", "found")]


def test_malformed_messages_are_read_as_far_as_they_can_be() -> None:
    odd = body(assistant("a"), finish="stop")
    odd["choices"][0]["messages"] += [3, {"role": "assistant", "tool_calls": [5, {"function": 3}], "content": "b"}]
    odd["choices"].append(7)
    odd["usage"] = None
    turn = Turn("mistral", turn_key="k")
    turn.feed(odd)
    turn.close()
    assert turn.text == "ab"


@pytest.mark.parametrize("message", [assistant("", call("c", "f" * 9)), result("c", "x" * 9000)])
def test_waiting_calls_and_results_count_against_the_limit(message: dict[str, Any]) -> None:
    long = json.loads(json.dumps(message).replace("query", "q" * 9000))
    turn = Turn("mistral", turn_key="k", limits=Limits(text=1000))
    turn.feed(chunk(0, long))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


def test_other_chunks_with_rare_fields_are_read_as_they_are() -> None:
    plain = {"choices": [{"index": 0, "delta": {"content": "b", "x": 1}, "finish_reason": "stop"}]}
    turn = read(chunk(0, assistant("a"), usage={"prompt_tokens": 1, "tier": "x"}), plain)
    assert turn.text == "ab"
    assert [warning.code for warning in turn.warnings] == ["unknown_field"]
