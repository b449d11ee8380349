"""The exchange as it grows: rows of frames beside events, the summary, secrets, bounds. No clock, no I/O."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from shared_data import all_recorded_streams, recorded_streams

from streamkit import Turn, providers
from streamkit.events import Event, from_json, to_json
from streamkit.gateway.tap import observed_exchange
from streamkit.gateway.tap.display_text import FramePieces
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart, ObservedExchange, event_line
from streamkit.history import Content, ToolCallBlock

Json = dict[str, Any]

SECRET = "upstream-secret-of-no-known-form"  # noqa: S105 - of no server
KEY = "sk-proj-abcdefghijklmnop0123"
CALL = ToolCallBlock(id="call_1", name="get_weather", parameters={"city": "Oslo"}, metadata={"raw_id": "call_1"})


def observed(provider: str | None = "anthropic", **fields: Any) -> ObservedExchange:
    return ObservedExchange(1, ExchangeStart(at=100.0, method="POST", path="/p", provider=provider, **fields))


def rows_of(exchange: ObservedExchange) -> list[Json]:
    return [json.loads(row) for row in exchange.rows]


def emitted(provider: str, *blocks: Any) -> bytes:
    return b"".join(providers.get(provider).emit(Content.ai(*blocks), response_id="r1", model="m"))


def read(data: bytes, provider: str = "anthropic", size: int = 64, **fields: Any) -> ObservedExchange:
    """Return the exchange of a whole body that arrives in reads of *size* bytes."""
    exchange = observed(provider, **fields)
    exchange.respond(100.5, 200, {})
    for at in range(0, len(data), size):
        exchange.receive(101.0, data[at : at + size])
    exchange.end(ExchangeEnd(at=102.0))
    return exchange


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama", "cohere"])
@pytest.mark.parametrize("size", [1, 97, 100_000])
def test_each_frame_is_beside_the_events_that_it_caused(provider: str, size: int) -> None:
    data = emitted(provider, "Looking.", CALL)
    exchange = read(data, provider, size)
    rows = rows_of(exchange)
    assert all(len(row["frames"]) <= 1 for row in rows)
    assert [row["n"] for row in rows] == list(range(len(rows)))
    expected = Turn(provider)
    events = [*expected.feed(data), *expected.close()]
    found = [from_json(json.dumps(event["event"])) for row in rows for event in row["events"]]
    assert found == [from_json(to_json(event)) for event in events]
    texts = [
        (row, event["event"]["text"]) for row in rows for event in row["events"] if event["event"]["type"] == "text"
    ]
    assert "".join(text for _, text in texts) == "Looking."
    assert all(text in row["frames"][0]["data"] for row, text in texts)


def test_rows_do_not_depend_on_the_reads_of_recorded_streams() -> None:
    for stream in [next(iter(recorded_streams(suffix=suffix)), None) for suffix in (".sse", ".eventstream", ".ndjson")]:
        if stream is None:
            continue
        one, many = read(stream.data, stream.provider, 13), read(stream.data, stream.provider, len(stream.data))
        assert rows_of(one) == rows_of(many)
        assert one.turn is not None
        assert len(one.rows) > 2


def test_recorded_streams_are_read_as_by_a_turn() -> None:
    for stream in all_recorded_streams()[::7]:
        exchange = read(stream.data, stream.provider, 4096)
        turn = Turn(stream.provider)
        turn.feed(stream.data)
        turn.close()
        assert exchange.turn is not None
        assert exchange.turn.to_dict() == turn.to_dict(), str(stream)
        json.loads(exchange.detail())


def test_the_summary_grows_with_the_response() -> None:
    exchange = observed(client="openai_chat", model="gpt-5", upstream_model="claude-sonnet-4-5", address="http://u")
    assert exchange.summary()["state"] == "waiting"
    exchange.respond(100.5, 200, {})
    data = emitted("anthropic", "Looking.", CALL)
    exchange.receive(101.0, data[:400])
    growing = exchange.summary()
    assert (growing["state"], growing["status"], growing["first_byte"], growing["seconds"]) == (
        "streaming",
        200,
        1.0,
        1.0,
    )
    exchange.receive(103.0, data[400:])
    exchange.end(ExchangeEnd(at=104.0, changes=["left out: top_k"]))
    summary = exchange.summary()
    assert summary["state"] == "finished"
    assert summary["seconds"] == 4.0
    assert summary["calls"] == 1
    assert summary["finish"]["reason"] == "tool_calls"
    assert summary["changes"] == ["left out: top_k"]
    assert (summary["model"], summary["upstream_model"], summary["client"]) == (
        "gpt-5",
        "claude-sonnet-4-5",
        "openai_chat",
    )


def test_the_model_is_that_of_the_body_if_no_other_is_known() -> None:
    assert observed(request=b'{"model":"claude-x"}').summary()["model"] == "claude-x"
    assert observed(request=b"no json").summary()["model"] is None
    assert observed(request={"model": ["no", "text"]}).summary()["model"] is None


def test_usage_and_a_reported_cost() -> None:
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 3,
        "cost": 0.00125,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    data = b'data: {"id":"r","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'
    data += b'data: {"id":"r","choices":[],"usage":' + json.dumps(usage).encode() + b"}\n\ndata: [DONE]\n\n"
    summary = read(data, "openai_chat").summary()
    assert summary["usage"] == {"input_tokens": 12, "output_tokens": 3, "cache_read_tokens": 8}
    assert summary["cost"] == 0.00125
    assert summary["is_list_price"] is False
    assert read(data.replace(b'"cost": 0.00125, ', b""), "openai_chat").summary()["cost"] is None


def test_the_list_price_of_a_response_whose_provider_reports_none() -> None:
    pytest.importorskip("genai_prices", reason="the extra 'prices' is not installed")
    start = ExchangeStart(
        at=None, method="POST", path="/p", provider="anthropic", address="https://api.anthropic.com", model="x"
    )
    exchange = ObservedExchange(1, start)
    exchange.receive(None, {
        "type": "message_start",
        "message": {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude-sonnet-4-5",
                    "usage": {"input_tokens": 100_000, "output_tokens": 1}},
    })  # fmt: skip
    usage = {"output_tokens": 10_000}
    exchange.receive(None, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage})
    exchange.receive(None, {"type": "message_stop"})
    assert exchange.summary()["cost"] is None  # until the end
    exchange.end(ExchangeEnd(at=None))
    summary = exchange.summary()
    # https://platform.claude.com/docs/en/about-claude/pricing: 3 dollars for a million tokens of input, 15 of output
    assert (summary["cost"], summary["is_list_price"]) == (0.45, True)


def test_a_failed_response_shows_its_body_and_its_error() -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    exchange = observed()
    exchange.respond(100.1, 429, {"retry-after": "3"})
    exchange.receive(100.2, body)
    exchange.end(ExchangeEnd(at=100.3, status=429))
    summary = exchange.summary()
    assert (summary["state"], summary["status"]) == ("failed", 429)
    assert (summary["error"]["code"], summary["error"]["message"]) == ("rate_limited", "slow down")
    assert rows_of(exchange)[0]["frames"][0]["data"] == body.decode()


def test_a_page_instead_of_a_stream_is_shown() -> None:
    exchange = read(b"<html>not found</html>", "anthropic")
    frames = [frame["data"] for row in rows_of(exchange) for frame in row["frames"]]
    assert "<html>not found</html>" in frames
    assert exchange.summary()["error"]["kind"] == "protocol_error"


def test_a_connection_that_fails() -> None:
    exchange = observed()
    exchange.end(ExchangeEnd(at=100.3, error="ConnectError: refused"))
    assert exchange.summary()["error"]["message"] == "ConnectError: refused"
    assert exchange.summary()["state"] == "failed"


def test_a_response_that_is_cut_names_what_the_reader_saw() -> None:
    data = emitted("anthropic", "Looking.", CALL)
    exchange = observed()
    exchange.respond(100.5, 200, {})
    exchange.receive(101.0, data[: len(data) // 2])
    exchange.end(ExchangeEnd(at=102.0, error="ReadError: reset by peer"))
    assert exchange.summary()["error"] == {"message": "ReadError: reset by peer"}
    assert rows_of(exchange)[-1]["events"][-1]["event"]["type"] == "failed"


def test_a_client_that_disconnects_is_no_error() -> None:
    exchange = observed()
    exchange.respond(100.5, 200, {})
    exchange.receive(101.0, emitted("anthropic", "Looking.", CALL)[:300])
    exchange.end(ExchangeEnd(at=102.0, disconnected=True))
    assert exchange.summary()["state"] == "disconnected"
    exchange.receive(103.0, b"late")
    exchange.end(ExchangeEnd(at=104.0))
    assert exchange.summary()["seconds"] == 2.0


def test_a_response_that_is_not_one_of_a_model() -> None:
    exchange = read(b'{"data":[]}', None)  # type: ignore[arg-type]
    assert rows_of(exchange) == [{"n": 0, "at": 1.0, "frames": [{"name": "", "data": '{"data":[]}'}], "events": []}]
    assert exchange.summary()["error"] is None


def test_chunks_that_are_no_bytes() -> None:
    exchange = observed("openai_chat")
    exchange.receive(101.0, {"id": "r", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})
    exchange.end(ExchangeEnd(at=102.0))
    assert rows_of(exchange)[0]["frames"][0]["data"].startswith('{"id":"r"')
    assert exchange.turn is not None
    assert exchange.turn.text == "x"


# ---------------------------------------------------------------- secrets and bounds


def test_secrets_are_nowhere() -> None:
    text = f"The keys are {SECRET} and {KEY}, at https://host/?key=AIzaSyA1234567890abcdefghijk."
    call = ToolCallBlock(id="c", name="f", parameters={"header": f"Authorization: Bearer {KEY}", "other": SECRET})
    request = {"model": "m", "messages": [{"role": "user", "content": text}], "metadata": {"api_key": KEY}}
    exchange = read(emitted("anthropic", text, call), size=100_000, request=request, secrets=(SECRET, "any"))
    exchange.add_note(f"a note with {SECRET}")
    shown = exchange.detail().decode()
    for secret in (SECRET, KEY, "AIzaSyA"):
        assert secret not in shown
    assert "***" in shown
    assert json.loads(shown)["rows"][0]["frames"]


def test_fields_with_the_names_of_secrets_are_masked_in_requests() -> None:
    server = {"url": "u", "authorization_token": "plain"}
    shown = observed(request={"mcp_servers": [server], "note": "\ud83d"}).request
    assert shown is not None
    assert json.loads(shown)["mcp_servers"] == [{"url": "u", "authorization_token": "***"}]
    as_sent = b'{ "model": "m",  "key": 1.0 }'
    assert observed(request=as_sent).request == as_sent.decode()
    assert observed(request=b'{ "password": "p" }').request == '{"password":"***"}'
    assert observed(request=b"not json " + KEY.encode()).request == "not json ***"
    deep = b"[" * 5000 + b"]" * 5000
    assert observed(request=deep).request == deep.decode()


def test_a_placeholder_instead_of_a_key_is_not_masked() -> None:
    assert "any text" in read(emitted("anthropic", "any text"), secrets=("any",)).detail().decode()


def test_an_error_that_repeats_a_key() -> None:
    exchange = observed(secrets=(SECRET,))
    exchange.respond(100.1, 401, {})
    exchange.receive(100.2, json.dumps({"error": {"message": f"invalid x-api-key: {SECRET}"}}).encode())
    exchange.end(ExchangeEnd(at=100.3, error=f"401: {SECRET}"))
    assert SECRET not in exchange.detail().decode()
    assert exchange.summary()["error"]["message"] == "invalid x-api-key: ***"


def chat_stream(*texts: str) -> bytes:
    """Return a stream with one chunk for each text."""
    chunks = [{"id": "r", "choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    chunks.append({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def test_long_texts_are_cut_and_say_so() -> None:
    exchange = read(chat_stream("x" * 50_000), "openai_chat")
    assert max(len(row) for row in exchange.rows) < 50_000
    assert "[33616 more characters]" in exchange.detail().decode()
    assert exchange.turn is not None
    assert len(exchange.turn.text) == 50_000


def test_rows_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_exchange, "_MOST_ROWS", 2_000)
    exchange = read(chat_stream(*(f"part {n}" for n in range(50))), "openai_chat")
    assert sum(map(len, exchange.rows)) <= 2_000
    assert exchange.first_row > 0
    assert json.loads(exchange.rows[0])["n"] == exchange.first_row
    assert exchange.summary()["notes"] == [f"the first {exchange.first_row} rows are no longer kept"]
    assert json.loads(next(exchange.rows_from(0)))["n"] == exchange.first_row
    assert list(exchange.rows_from(exchange.first_row + len(exchange.rows))) == []


def test_lost_parts_are_counted() -> None:
    exchange = observed()
    exchange.lose(2)
    exchange.lose(1)
    assert exchange.summary()["notes"] == [
        "3 parts of the response came faster than they could be shown and are missing here"
    ]


@pytest.mark.parametrize("text", ["\ud83d", "</script><script>alert(1)</script>", "\x00\x1b]52;c;x\x07", "\u2028"])
def test_hostile_text_stays_data(text: str) -> None:
    body = {"id": "r", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    exchange = read(
        b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n", "openai_chat", request={"text": text}
    )
    assert json.loads(exchange.detail())["rows"][0]["events"]


def test_binary_frames_are_cut_by_their_length() -> None:
    frames = [(12 + n).to_bytes(4, "big") + bytes(8 + n) for n in (0, 5, 1)]
    data = b"".join(frames)
    for size in (1, 3, 7, len(data)):
        pieces = FramePieces()
        found = [piece for at in range(0, len(data), size) for piece in pieces.cut(data[at : at + size])]
        assert b"".join(found) == data
    assert list(FramePieces().cut(data)) == frames
    assert list(FramePieces().cut(b"\0\0\0\1\0\0\0\1")) == [b"\0\0\0\1", b"\0\0\0\1"]  # an impossible length


def test_every_event_has_a_line() -> None:
    """Lines of the events in the conformance cases of every wire; none fails, and none is only a type."""
    types = set()
    for stream in all_recorded_streams()[::5]:
        for row in rows_of(read(stream.data, stream.provider, 100_000)):
            for shown in row["events"]:
                types.add(shown["event"]["type"])
                assert isinstance(shown["line"], str)
    assert {"text", "tool_call_ready", "usage_report", "finished"} <= types <= {kind.type for kind in get_args(Event)}
    assert event_line({"type": "warned", "code": "c", "message": "m"}) == "c: m"
    assert event_line({"type": "finished", "reason": "stop", "raw": "end_turn"}) == "stop (end_turn)"
    assert event_line({"type": "text", "text": "x" * 1000}).endswith("...")
    assert event_line({"type": "block_ended", "kind": "text", "metadata": {}, "choice": 0}) == '{"kind":"text"}'


def test_times_that_are_not_known() -> None:
    exchange = ObservedExchange(1, ExchangeStart(at=None, method="", path="x.sse", provider="openai_chat"))
    exchange.receive(None, chat_stream("x"))
    assert exchange.summary()["state"] == "streaming"
    exchange.end(ExchangeEnd(at=None))
    summary = exchange.summary()
    assert (summary["at"], summary["seconds"], summary["first_byte"], summary["state"]) == (
        None,
        None,
        None,
        "finished",
    )
    assert {row["at"] for row in rows_of(exchange)} == {None}
