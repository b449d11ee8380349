"""The public behaviour of a turn: misuse, failures, limits, several choices."""

from __future__ import annotations

import gzip
import json
from typing import Any, get_args

import httpx
import msgspec
import pytest
import wire_streams
from wire_streams import (
    HELLO,
    HTML,
    anthropic_bytes,
    bytes_one_by_one,
    chat,
    chat_bytes,
    chat_call,
    framed,
    gemini,
    gemini_bytes,
    message_start,
    run,
)

from streamkit import Limits, StreamInterrupted, Turn, UsageError, providers
from streamkit.errors import UnknownProvider
from streamkit.events import BlockEnded, Failed, Finished, ToolCallDelta
from streamkit.providers.registry import ProviderName

WIRES = ["openai_chat", "anthropic", "gemini"]
each_wire = pytest.mark.parametrize("wire", WIRES)


# ---------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("antropic", "Did you mean 'anthropic'?"),
        ("OpenAI-Responses", "Did you mean 'openai_responses'?"),
        ("bedrock", "Did you mean 'bedrock_converse' or 'bedrock_invoke'?"),
        ("azure", "Did you mean 'azure_openai'?"),
        ("openai", "Did you mean 'openai_chat' or 'openai_compatible' or 'openai_responses'?"),
        ("Claude", "Did you mean 'anthropic'?"),
        ("google", "Did you mean 'gemini'?"),
        ("vertex-ai", "Did you mean 'gemini'?"),
        ("grok", "Did you mean 'xai'?"),
    ],
)
def test_an_unknown_provider_is_answered_with_similar_names(name: str, hint: str) -> None:
    with pytest.raises(UnknownProvider) as raised:
        Turn(name)
    assert str(raised.value).endswith(hint)


@pytest.mark.parametrize("name", ["", "z", "nothing-similar", "x" * 100_000])
def test_without_a_similar_name_there_is_no_hint(name: str) -> None:
    with pytest.raises(UnknownProvider) as raised:
        Turn(name)
    assert "Did you mean" not in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_the_type_of_names_lists_the_built_in_providers() -> None:
    built_in = {name for name in providers.names() if providers.get(name).package.startswith("streamkit.providers.")}
    assert set(get_args(ProviderName)) == built_in


def test_an_unknown_provider_raises_an_error_that_lists_the_registered_names() -> None:
    with pytest.raises(UnknownProvider, match="opnai_chat") as raised:
        Turn("opnai_chat")
    assert isinstance(raised.value, UsageError)
    for name in providers.names():
        assert name in str(raised.value)


def test_an_object_that_is_not_a_provider_is_rejected() -> None:
    with pytest.raises(UsageError, match="int"):
        Turn(7)  # type: ignore[arg-type]


def test_feed_after_close_is_a_usage_error() -> None:
    turn = Turn("openai_chat")
    turn.close()
    with pytest.raises(UsageError, match="close"):
        turn.feed(b"data: {}\n\n")


@pytest.mark.parametrize("recognized", [False, True])
def test_feed_after_close_of_a_fed_turn_is_a_usage_error(recognized: bool) -> None:
    turn = Turn("openai_chat")
    turn.feed(chat_bytes(HELLO["openai_chat"], done=False) if recognized else b"da")
    turn.close()
    with pytest.raises(UsageError, match="close"):
        turn.feed(b"data: {}\n\n")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"data: {}\n\n", {"choices": []}),
        (chat_bytes(HELLO["openai_chat"], done=False), {"choices": []}),
        ({"choices": []}, b"data: {}\n\n"),
    ],
)
def test_a_second_kind_of_input_is_a_usage_error(first: Any, second: Any) -> None:
    turn = Turn("openai_chat")
    turn.feed(first)
    with pytest.raises(UsageError, match=r"(bytes|dict)"):
        turn.feed(second)


@pytest.mark.parametrize("data", ["data: {}", 5, None, [b"data"], object()])
@pytest.mark.parametrize("before", [b"", chat_bytes(HELLO["openai_chat"], done=False)])
def test_input_of_an_unsupported_type_is_a_usage_error(data: Any, before: bytes) -> None:
    turn = Turn("openai_chat")
    if before:
        turn.feed(before)
    with pytest.raises(UsageError):
        turn.feed(data)


def test_the_error_for_text_names_the_alternative() -> None:
    with pytest.raises(UsageError, match="bytes, not str"):
        Turn("openai_chat").feed("data: {}\n\n")


def test_bytearray_and_memoryview_are_bytes() -> None:
    data = chat_bytes(HELLO["openai_chat"])
    for kind in (bytearray, memoryview):
        turn, _ = run("openai_chat", [kind(data[:30]), kind(data[30:])])
        assert turn.text == "Hello"


def test_response_after_feed_is_a_usage_error() -> None:
    turn = Turn("openai_chat")
    turn.feed(b"data")
    with pytest.raises(UsageError, match="before"):
        turn.response(200)


@pytest.mark.parametrize("status", ["429", None, 4.0, b"200"])
def test_a_status_that_is_no_integer_is_a_usage_error(status: Any) -> None:
    with pytest.raises(UsageError, match="status"):
        Turn("openai_chat").response(status)


@pytest.mark.parametrize("error", ["connection lost", 500, {"message": "no"}, ValueError])
def test_an_end_by_what_is_no_error_is_a_usage_error(error: Any) -> None:
    turn = Turn("openai_chat")
    with pytest.raises(UsageError, match=r"close\(\) takes"):
        turn.close(error)
    assert not turn.closed


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [-1, "8", None, 1.5])
def test_a_limit_that_is_no_count_is_a_usage_error(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        Limits(**{name: value})


def test_an_unknown_call_is_a_usage_error() -> None:
    turn, _ = run("openai_chat", [chat_bytes([chat_call("{}", id="a", name="f"), chat({}, "tool_calls")])])
    (call,) = turn.calls
    assert turn.call(call.id) == call
    with pytest.raises(UsageError, match="no call"):
        turn.call("a")


# ---------------------------------------------------------------- failures


@each_wire
def test_invalid_json_in_a_frame_ends_the_turn(wire: str) -> None:
    broken = framed(wire, HELLO[wire][:-1], done=False) + b"data: {,}\n\n"
    more = framed(wire, HELLO[wire])
    for inputs in wire_streams.cuts(broken):
        turn = Turn(wire, turn_key="turn-1")
        for data in inputs:
            turn.feed(data)
        assert turn.done
        assert turn.feed(more) == []
        turn.close()
        assert turn.text == "Hello"
        assert turn.error is not None
        assert turn.error.kind == "protocol_error"
        assert "{,}" in turn.error.raw
        assert not turn.executable


@each_wire
def test_the_end_inside_a_frame_is_truncated(wire: str) -> None:
    complete = framed(wire, HELLO[wire][:-1], done=False)
    for inputs in wire_streams.cuts(complete + b'data: {"choi'):
        turn, _ = run(wire, inputs)
        assert turn.text == "Hello"
        assert turn.error is not None
        assert turn.error.kind == "stream_truncated"


def test_a_failed_status_makes_the_body_an_error() -> None:
    body = b'{"error":{"message":"Slow down","type":"rate_limit"}}'
    for inputs in wire_streams.cuts(body):
        turn, _ = run("openai_chat", inputs, response=(429, {"Retry-After": "12", "X-Other": "1"}))
        error = turn.error
        assert error is not None
        assert (error.kind, error.message, error.status, error.retry_after) == (
            "provider_error",
            "Slow down",
            429,
            12.0,
        )
        assert error.raw == json.loads(body)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"RETRY-AFTER": "3"}, 3.0),
        ({"llm_provider-retry-after": "7"}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_seconds(headers: dict[str, str] | None, seconds: float | None) -> None:
    turn = Turn("openai_chat")
    turn.response(503, headers)
    turn.close()
    assert turn.error is not None
    assert turn.error.retry_after == seconds


def test_a_failed_status_with_a_page_or_an_empty_body_is_a_provider_error() -> None:
    for inputs in ([HTML], [b""], []):
        turn, _ = run("openai_chat", inputs, response=(502, {}))
        assert turn.error is not None
        assert (turn.error.kind, turn.error.status) == ("provider_error", 502)
        assert turn.error.message


def test_a_failed_status_applies_to_dict_input() -> None:
    turn, _ = run("openai_chat", [{"error": {"message": "Slow down"}}], response=(429, {"retry-after": "2"}))
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, turn.error.status, turn.error.retry_after) == (
        "provider_error",
        "Slow down",
        429,
        2.0,
    )


@pytest.mark.parametrize("body", [[], [b""], [HTML], [{"detail": "moved"}]])
def test_a_redirect_that_was_not_followed_says_where_it_leads(body: list[Any]) -> None:
    address = {"Location": "https://example.org/v1/chat/completions?key=abcdef123456"}
    turn, _ = run("openai_chat", body, response=(308, address))
    assert turn.error is not None
    assert (turn.error.kind, turn.error.status) == ("protocol_error", 308)
    assert "a redirect to https://example.org/v1/chat/completions?key=*** " in turn.error.message
    turn, _ = run("openai_chat", body, response=(302, {}))
    assert turn.error is not None
    assert turn.error.message.startswith("HTTP status 302, a redirect that the HTTP client did not follow")


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_compressed_body_is_named(name: str) -> None:
    body = {"gzip": gzip.compress(HTML), "zstd": b"\x28\xb5\x2f\xfd\x04\x00\x01\x02"}[name]
    turn, _ = run("openai_chat", [body])
    assert turn.error is not None
    assert turn.error.kind == "protocol_error"
    assert turn.error.message == f"data compressed with {name}: pass the response's bytes decompressed"


def test_a_successful_status_has_no_effect() -> None:
    turn, _ = run("openai_chat", [chat_bytes(HELLO["openai_chat"])], response=(200, {"retry-after": "9"}))
    assert turn.error is None


def test_a_transport_error_before_confirmation_is_the_error_of_the_turn() -> None:
    inputs = [chat_bytes([chat_call('{"x":1}', id="a", name="f")], done=False)]
    turn, seen = run("openai_chat", inputs, error=ConnectionResetError("peer left"))
    assert turn.error is not None
    assert turn.error.kind == "transport_error"
    assert "peer left" in turn.error.message
    assert sum(isinstance(event, Failed) for event in seen) == 1
    assert [call.state for call in turn.calls] == ["complete"]
    assert not turn.executable


@each_wire
def test_a_transport_error_after_confirmation_is_a_warning(wire: str) -> None:
    turn, _ = run(wire, [framed(wire, HELLO[wire], done=False)], error=TimeoutError())
    assert turn.error is None
    assert turn.finish is not None
    assert [warning.code for warning in turn.warnings] == ["transport_error"]


def test_a_transport_error_before_any_input_is_the_error_of_the_turn() -> None:
    turn, _ = run("openai_chat", [], error=OSError("no route"))
    assert turn.error is not None
    assert turn.error.kind == "transport_error"


def test_the_cause_of_an_exception_without_a_text_of_its_own_is_in_the_message() -> None:
    def error_of(text: str, kind: type[Exception], cause: BaseException | None) -> str:
        error = kind(text)
        error.__cause__ = cause
        turn, _ = run("openai_chat", [], error=error)
        assert turn.error is not None
        return turn.error.message

    class APIConnectionError(Exception):
        """The form of the SDKs' exceptions."""

    refused = ConnectionRefusedError("refused, sent Authorization: Bearer abcdef123456")
    message = "APIConnectionError: Connection error. (ConnectionRefusedError: refused, sent Authorization: ***)"
    assert error_of("Connection error.", APIConnectionError, refused) == message
    assert error_of("", httpx.ReadError, OSError("reset")) == "ReadError (OSError: reset)"
    assert error_of("no route", httpx.ConnectError, OSError("[Errno 113]")) == "ConnectError: no route"
    assert error_of("reset", APIConnectionError, OSError("reset")) == "APIConnectionError: reset"
    circle = OSError("")
    circle.__cause__ = circle
    assert error_of("", APIConnectionError, circle) == "APIConnectionError"


@pytest.mark.parametrize("end", [b'data: {"id":"chatcmpl-1","choi', b"data: [DO", b"da", b"data: {}"])
def test_an_incomplete_frame_before_a_transport_error_is_no_error(end: bytes) -> None:
    inputs = [chat_bytes([chat({"content": "Hel"})], done=False) + end]
    turn, _ = run("openai_chat", inputs, error=ConnectionResetError("reset"))
    assert turn.error is not None
    assert turn.error.kind == "transport_error"
    assert turn.text == "Hel"


def test_a_second_close_has_no_effect() -> None:
    turn = Turn("openai_chat")
    turn.feed(chat_bytes(HELLO["openai_chat"]))
    assert [type(event) for event in turn.close()] == [BlockEnded, Finished]
    assert turn.close() == []
    assert turn.close(OSError("late")) == []
    assert turn.error is None


def test_a_turn_is_done_at_the_terminator() -> None:
    turn = Turn("openai_chat")
    turn.feed(chat_bytes(HELLO["openai_chat"], done=False))
    assert not turn.done  # a reason does not end the turn: usage follows
    turn.feed(b"data: [DONE]\n\n")
    assert turn.done
    assert not turn.closed


def test_raise_for_error_raises_the_error_of_the_turn() -> None:
    good, _ = run("openai_chat", [chat_bytes(HELLO["openai_chat"])])
    good.raise_for_error()
    bad, _ = run("openai_chat", [HTML])
    with pytest.raises(StreamInterrupted, match="protocol_error") as raised:
        bad.raise_for_error()
    assert raised.value.turn is bad
    assert raised.value.error is bad.error


def test_no_call_is_executable_and_no_finish_is_set_before_close() -> None:
    turn = Turn("openai_chat", turn_key="turn-1")
    turn.feed(chat_bytes([chat_call('{"x":1}', id="a", name="f"), chat({}, "tool_calls")]))
    assert turn.executable == []
    assert turn.finish is None
    assert [call.state for call in turn.calls] == ["incomplete"]
    assert turn.calls[0].partial == {"x": 1}
    turn.close()
    assert [call.arguments for call in turn.executable] == [{"x": 1}]


# ---------------------------------------------------------------- limits


def results_under_limits(stream: bytes, **limits: int) -> list[tuple[Any, ...]]:
    """Return the result of a stream under a limit, for every split of its bytes."""
    results = []
    for inputs in wire_streams.cuts(stream):
        turn, seen = run("openai_chat", inputs, limits=Limits(**limits))
        deltas = "".join(event.arguments_delta for event in seen if isinstance(event, ToolCallDelta))
        results.append((turn.error and turn.error.kind, turn.text, [c.arguments_text for c in turn.calls], deltas))
        assert not turn.executable or turn.error is None
    return results


LIMITED = [
    ("arguments", 20, [chat_call('{"x":"', id="a", name="f"), *[chat_call("12345")] * 9, chat_call('"}')]),
    ("text", 20, [chat({"content": "12345"})] * 9),
    ("text", 20, [chat({"reasoning_content": "12345"})] * 9),
    ("calls", 3, [chat_call("{}", index=n, id=f"c{n}", name="f") for n in range(9)]),
    ("frame", 400, [chat({"content": "x" * 50}), chat({"content": "y" * 400}), chat({"content": "z"})]),
    ("nesting", 5, [chat_call('{"a":' * 9 + "1" + "}" * 9, id="a", name="f")]),
]


@pytest.mark.parametrize(("name", "limit", "chunks"), LIMITED)
def test_a_limit_ends_the_turn_equally_for_every_split(name: str, limit: int, chunks: list[Any]) -> None:
    stream = chat_bytes([*chunks, chat({}, "stop")])
    results = results_under_limits(stream, **{name: limit})
    assert results[0][0] == "limit_exceeded"
    assert all(other == results[0] for other in results)
    assert all(error is None for error, *_ in results_under_limits(stream, **{name: limit * 100}))


@pytest.mark.parametrize(("name", "limit", "chunks"), [entry for entry in LIMITED if entry[0] != "frame"])
def test_a_limit_ends_the_turn_equally_for_every_input_kind(name: str, limit: int, chunks: list[Any]) -> None:
    turns = [
        run("openai_chat", inputs, limits=Limits(**{name: limit}))[0]
        for inputs in ([chat_bytes([*chunks, chat({}, "stop")])], [*chunks, chat({}, "stop")])
    ]
    by_bytes, by_dict = (wire_streams.summary(turn) for turn in turns)
    assert by_bytes == by_dict


def test_arguments_of_exactly_the_limit_are_accepted() -> None:
    stream = chat_bytes([chat_call('{"x":"12345"}', id="a", name="f"), chat({}, "stop")])
    assert run("openai_chat", [stream], limits=Limits(arguments=13))[0].error is None
    assert run("openai_chat", [stream], limits=Limits(arguments=12))[0].error is not None


def test_input_after_a_limit_is_not_read() -> None:
    turn = Turn("openai_chat", limits=Limits(text=3))
    turn.feed(chat_bytes([chat({"content": "1234"})], done=False))
    assert turn.done
    assert turn.feed(chat_bytes([chat({"content": "5"})], done=False)) == []
    turn.close()
    assert turn.text == "1234"


@pytest.mark.parametrize("wire", WIRES)
def test_a_very_deeply_nested_frame_is_an_error(wire: str) -> None:
    deep = b"data: " + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n\n"
    turn, _ = run(wire, [deep])
    assert turn.error is not None
    assert turn.error.kind in ("limit_exceeded", "protocol_error")


# ---------------------------------------------------------------- several choices, identity, plain data


def two_choices() -> bytes:
    return chat_bytes(
        [
            {
                **chat(),
                "choices": [
                    {"index": 1, "delta": {"content": "B"}, "finish_reason": None},
                    {"index": 0, "delta": {"content": "A"}, "finish_reason": None},
                ],
            },
            chat({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}, index=1),
            chat({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}, index=0),
            chat({}, "tool_calls", index=1),
            chat({}, "length", index=0),
        ]
    )


def test_choices_are_separate() -> None:
    for inputs in wire_streams.cuts(two_choices()):
        turn, seen = run("openai_chat", inputs)
        assert [(view.index, view.text) for view in turn.choices] == [(0, "A"), (1, "B")]
        assert [view.finish.reason for view in turn.choices if view.finish] == ["length", "tool_calls"]
        assert (turn.text, turn.finish and turn.finish.reason) == ("A", "length")
        assert [len(view.executable) for view in turn.choices] == [1, 1]
        first, second = (view.calls[0] for view in turn.choices)
        assert first.id != second.id
        assert first.raw_id == second.raw_id
        assert {event.choice for event in seen} == {0, 1}
        assert [block.type for block in turn.choices[1].content.blocks] == ["text", "tool_call"]


def test_a_choice_without_an_end_makes_the_turn_truncated() -> None:
    chunks = [chat({"content": "A"}), chat({"content": "B"}, index=1), chat({}, "stop")]
    turn, _ = run("openai_chat", [chat_bytes(chunks, done=False)])
    assert turn.error is not None
    assert turn.error.kind == "stream_truncated"


def test_many_choice_numbers_end_the_turn() -> None:
    chunks = [chat({"content": "x"}, index=n) for n in range(0, 5000, 7)]
    turn, _ = run("openai_chat", [chat_bytes(chunks)])
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"


def test_ids_depend_on_the_turn_key() -> None:
    stream = chat_bytes([chat_call("{}", id="a", name="f"), chat({}, "tool_calls")])
    ids = [run("openai_chat", [stream], key=key)[0].calls[0].id for key in ("one", "one", "two")]
    assert ids[0] == ids[1] != ids[2]


def test_the_response_id_is_the_default_turn_key() -> None:
    stream = chat_bytes([chat_call("{}", id="a", name="f"), chat({}, "tool_calls")])
    by_wire, _ = run("openai_chat", [stream], key=None)
    by_caller, _ = run("openai_chat", [stream], key="chatcmpl-1")
    assert by_wire.turn_key == "chatcmpl-1"
    assert by_wire.calls == by_caller.calls


def test_ids_depend_on_the_provider() -> None:
    stream = chat_bytes([chat_call("{}", id="a", name="f"), chat({}, "tool_calls")])
    assert run("openai_chat", [stream])[0].calls[0].id != run("azure_openai", [stream])[0].calls[0].id


def test_the_provider_may_be_an_object() -> None:
    turn, _ = run(providers.get("openai_chat"), [chat_bytes(HELLO["openai_chat"])])
    assert turn.text == "Hello"
    assert turn.provider.name == "openai_chat"


@each_wire
def test_to_dict_returns_json_data(wire: str) -> None:
    turn, _ = run(wire, [framed(wire, HELLO[wire])])
    complete = turn.to_dict()
    assert json.loads(json.dumps(complete)) == complete
    assert json.loads(msgspec.json.encode(complete)) == complete
    assert complete["provider"] == wire
    assert complete["text"] == "Hello"
    assert {"calls", "executable", "finish", "usage", "error", "warnings", "turn_key", "response_id"} <= set(complete)


@pytest.mark.parametrize(
    ("provider", "chunk"),
    [
        ("openai_chat", {"error": {"message": "m", "code": float("nan")}}),
        ("openai_chat", {"error": float("inf")}),
        (
            "anthropic",
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "server_tool_use", "id": "s", "name": "n", "input": {"a": float("nan")}},
            },
        ),
    ],
)
def test_to_dict_has_no_number_that_json_lacks(provider: str, chunk: dict[str, Any]) -> None:
    turn, _ = run(provider, [chunk])
    assert json.dumps(turn.to_dict(), allow_nan=False)


HALF = b"\\ud83d"  # half of a surrogate pair, as JSON writes it


def test_half_of_a_surrogate_pair_in_text_is_replaced() -> None:
    stream = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a%b"},"finish_reason":"stop"}]}\n\n' % HALF
    turn, _ = run("openai_chat", [stream])
    assert turn.text == "a\ufffd"
    assert msgspec.json.encode(turn.to_dict())
    assert turn.content.model_dump_json()


@pytest.mark.parametrize(
    "chunk",
    [
        b'{"id":"c%b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        b'{"id":"c","model":"%b","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        b'{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"%b"}]}',
        b'{"id":"c","choices":[],"error":{"message":"%b"}}',
        b'{"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"%b","function":{"name":"f"}}]}}]}',
        b'{"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"%b"}}]}}]}',
    ],
)
def test_half_of_a_surrogate_pair_in_any_field_can_be_encoded(chunk: bytes) -> None:
    turn, _ = run("openai_chat", [b"data: " + chunk % HALF + b"\n\ndata: [DONE]\n\n"])
    assert msgspec.json.encode(turn.to_dict())
    assert turn.content.model_dump_json()


def test_model_and_response_id_are_set_by_the_first_chunk() -> None:
    turn = Turn("anthropic")
    turn.feed(anthropic_bytes([message_start(model="m-9", id="msg_9")]))
    assert (turn.model, turn.response_id, turn.turn_key) == ("m-9", "msg_9", "msg_9")


def test_content_has_the_blocks_for_history() -> None:
    chunks = [
        gemini({"text": "Hm", "thought": True}),
        gemini({"text": "Hi"}),
        gemini({"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"}),
        gemini(finish="STOP"),
    ]
    turn, _ = run("gemini", [gemini_bytes(chunks)])
    content = turn.content
    assert content.speaker == "ai"
    assert content.metadata["turn_key"] == "turn-1"
    assert [block.type for block in content.blocks] == ["reasoning", "text", "tool_call"]
    call = content.blocks[-1]
    assert call.id == turn.calls[0].id
    assert call.parameters == {"x": 1}
    assert call.metadata["provider"] == "gemini"
    assert call.metadata["thoughtSignature"] == "c2ln"


def test_content_of_incomplete_and_invalid_calls_is_legal() -> None:
    chunks = [
        chat_call('{"x":', index=0, id="a", name="f"),
        chat_call("[1]", index=1, id="b", name="g"),
        chat({}, "length"),
    ]
    turn, _ = run("openai_chat", [chat_bytes(chunks)])
    for block_, text in zip(turn.content.blocks, ['{"x":', "[1]"], strict=True):
        assert block_.parameters == {}
        assert block_.metadata["raw_arguments"] == text


def test_an_event_is_returned_with_the_byte_that_completes_its_frame() -> None:
    turn = Turn("openai_chat", turn_key="turn-1")
    event_counts = [
        len(turn.feed(byte)) for byte in bytes_one_by_one(chat_bytes([chat({"content": "a"})] * 3, done=False))
    ]
    assert sum(event_counts) == 2 + 3  # the starts of the response and of its block come with the first frame
    assert event_counts[-1] == 1  # with the byte that ends the frame, not with the next one


@pytest.mark.parametrize("depth", [150, 230, 400, 900])
def test_a_block_nested_too_deeply_for_history_ends_the_turn(depth: int) -> None:
    value = b'{"a":' * depth + b"1" + b"}" * depth
    part = (
        b'{"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"x","y":%b}]},"finish_reason":"stop"}]}' % value
    )
    turn, _ = run("openai_chat", [b"data: " + part + b"\n\ndata: [DONE]\n\n"])
    assert (turn.error.kind if turn.error is not None else None) == (None if depth < 200 else "limit_exceeded")
    assert turn.content.model_dump_json()
    assert msgspec.json.encode(turn.to_dict())


@pytest.mark.parametrize("complete", [False, True])
def test_a_turn_that_an_error_ended_has_no_finish_of_its_source(complete: bool) -> None:
    turn = Turn("anthropic")
    turn.feed({"type": "message_start", "message": {"id": "m"}})
    turn.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hm"}})
    turn.feed({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    turn.close(complete=complete)
    assert (turn.finish, turn.error and turn.error.code) == (None, "overloaded")
