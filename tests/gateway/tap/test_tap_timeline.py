"""The timeline of an exchange: its parts by time and row, and the time until the request with the results."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest

from streamkit import Turn, providers
from streamkit.gateway.tap import ExchangeList, timeline
from streamkit.gateway.tap.observed_exchange import ExchangeEnd, ExchangeStart, ObservedExchange
from streamkit.gateway.tap.relay import Copies
from streamkit.history import Content, ReasoningBlock, TextBlock, ToolCallBlock, ToolResponseBlock

Json = dict[str, Any]

WIRES = ["anthropic", "openai_chat", "openai_responses", "gemini", "ollama", "cohere", "bedrock_converse"]
CALLS = [
    ToolCallBlock(id=f"call_{city}", name="get_weather", parameters={"city": city}, metadata={"raw_id": f"c_{city}"})
    for city in ("Oslo", "Bergen")
]


def response(provider: str, *blocks: Any) -> list[bytes]:
    blocks = tuple(TextBlock(text=block) if isinstance(block, str) else block for block in blocks)
    return list(providers.get(provider).emit(Content.ai("", *blocks), response_id="r1", model="m"))


def request(provider: str, *calls: ToolCallBlock, left_out: int = 0) -> bytes:
    """Return a request that has these calls and their results, without the last messages of results."""
    results = [ToolResponseBlock(call_id=call.id, name=call.name, result="4") for call in calls]
    contents = [Content.human("Warmer?"), Content.ai("", *calls), Content(speaker="tool", blocks=results)]
    settings = {"model": "m", "max_output_tokens": 9}
    body = providers.render_request(contents if calls else contents[:1], provider, settings=settings)
    if left_out:
        del body["messages"][-left_out:]
    return json.dumps(body).encode()


def observe(
    exchanges: ExchangeList, key: int, provider: str, at: float, body: bytes, parts: list[bytes], path: str = "/p"
) -> None:
    """Add an exchange of one second, whose parts come at equal distances."""
    start = ExchangeStart(at=at, method="POST", path=path, provider=provider, request=body)
    timed = deque((at + (number + 1) / (len(parts) + 1), part) for number, part in enumerate(parts))
    exchanges.take(Copies(key, start=start, parts=timed, end=ExchangeEnd(at=at + 1.0, status=200)))


def timeline_of(exchanges: ExchangeList, key: int) -> list[Json]:
    found: list[Json] = json.loads(exchanges.detail(key) or b"")["summary"]["timeline"]
    return found


def test_each_part_has_the_time_and_the_rows_in_which_it_came() -> None:
    exchanges = ExchangeList()
    parts = response("anthropic", ReasoningBlock(text="Hm."), "Looking.", *CALLS)
    observe(exchanges, 1, "anthropic", 100.0, b"{}", parts)
    spans = timeline_of(exchanges, 1)
    assert [(span["kind"], span.get("name")) for span in spans] == [
        ("waiting", None),
        ("reasoning", None),
        ("text", None),
        ("call", "get_weather"),
        ("call", "get_weather"),
    ]
    assert spans[0]["start"] == 0
    assert [span["state"] for span in spans[3:]] == ["complete", "complete"]
    ends = [(span["start"], span["end"]) for span in spans]
    assert ends == sorted(ends)
    rows = json.loads(exchanges.detail(1) or b"")["rows"]
    for span in spans[1:]:
        assert (rows[span["first"]]["at"], rows[span["last"]]["at"]) == (span["start"], span["end"])
        kinds = {event["event"]["type"] for event in rows[span["last"]]["events"]}
        assert kinds & {"text", "reasoning", "tool_call_delta"}


@pytest.mark.parametrize("provider", WIRES)
def test_tools_last_until_the_request_with_their_results(provider: str) -> None:
    exchanges = ExchangeList()
    observe(exchanges, 1, provider, 100.0, request(provider), response(provider, *CALLS))
    version = exchanges.changes(0).version
    observe(exchanges, 2, provider, 103.5, request(provider, *CALLS), response(provider, "Oslo."))
    assert timeline_of(exchanges, 1)[-1] == {"kind": "tools", "start": 1.0, "end": 3.5, "next": 2}
    assert [summary["id"] for summary in exchanges.changes(version).summaries] == [1, 2]  # a page shows it, too
    assert timeline_of(exchanges, 2)[-1]["kind"] == "text"
    observe(exchanges, 3, provider, 105.0, request(provider, *CALLS), response(provider, "Again."))
    assert timeline_of(exchanges, 1)[-1]["next"] == 2  # the first one that had them


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (request("openai_chat", *CALLS, left_out=1), "/p"),
        (request("openai_chat", CALLS[0]), "/p"),
        (request("openai_chat", *CALLS, left_out=2), "/p"),
        (request("openai_chat"), "/p"),
        (request("openai_chat", CALLS[0], CALLS[0].model_copy(update={"id": "call_x"})), "/p"),
        (request("openai_chat", *CALLS), "/other"),
        (b'{"messages": "none"}', "/p"),
        (b"{", "/p"),
        (b"", "/p"),
    ],
)
def test_a_request_without_all_results_is_not_the_next_one(body: bytes, path: str) -> None:
    exchanges = ExchangeList()
    observe(exchanges, 1, "openai_chat", 100.0, request("openai_chat"), response("openai_chat", *CALLS))
    observe(exchanges, 2, "openai_chat", 102.0, body, response("openai_chat", "Hm."), path)
    assert timeline_of(exchanges, 1)[-1]["kind"] == "call"


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_conversations_with_the_same_calls_are_told_apart_by_their_ids(order: tuple[int, int]) -> None:
    """Their names and arguments are equal, and the newest response is not always the one that is continued first."""
    exchanges = ExchangeList()
    calls: dict[int, list[Any]] = {}
    for key in (1, 2):
        turn = Turn("openai_chat")
        new = [call.model_copy(update={"id": f"{call.id}_{key}", "metadata": {}}) for call in CALLS]
        parts = response("openai_chat", *new)
        for part in parts:
            turn.feed(part)
        turn.close()
        calls[key] = turn.content.blocks
        observe(exchanges, key, "openai_chat", 100.0, request("openai_chat"), parts)
    assert calls[1][0].metadata["raw_id"] != calls[2][0].metadata["raw_id"]
    for number, key in enumerate(order, 3):
        body = request("openai_chat", *calls[key])
        observe(exchanges, number, "openai_chat", 100.0 + number, body, response("openai_chat", "Hm."))
    assert [timeline_of(exchanges, key)[-1]["next"] for key in order] == [3, 4]


def test_the_end_of_a_response_may_be_reported_after_the_next_request() -> None:
    exchanges = ExchangeList()
    start = {"method": "POST", "path": "/p", "provider": "openai_chat"}
    parts = deque((100.5, part) for part in response("openai_chat", *CALLS))
    exchanges.take(Copies(1, start=ExchangeStart(at=100.0, request=request("openai_chat"), **start), parts=parts))
    exchanges.take(Copies(2, start=ExchangeStart(at=100.8, request=request("openai_chat", *CALLS), **start)))
    exchanges.take(Copies(1, end=ExchangeEnd(at=101.0)))
    tools = timeline_of(exchanges, 1)[-1]
    assert (tools["start"], tools["end"]) == (0.8, 0.8)
    assert timeline_of(exchanges, 2) == [{"kind": "waiting", "start": 0.0}]  # it has no end yet


def test_what_is_not_known_is_not_there() -> None:
    exchange = ObservedExchange(1, ExchangeStart(at=None, method="", path="x.sse", provider="openai_chat"))
    for part in response("openai_chat", "Looking.", CALLS[0]):
        exchange.receive(None, part)
    exchange.end(ExchangeEnd(at=None))
    text, call = exchange.summary()["timeline"]
    assert (text["kind"], set(text)) == ("text", {"kind", "first", "last"})
    assert (call["kind"], set(call)) == ("call", {"kind", "name", "state", "first", "last"})


def test_a_response_that_never_came_was_awaited_to_its_end() -> None:
    exchange = ObservedExchange(1, ExchangeStart(at=100.0, method="", path="", provider="openai_chat"))
    exchange.end(ExchangeEnd(at=130.0, error="timeout"))
    assert exchange.summary()["timeline"] == [{"kind": "waiting", "start": 0.0, "end": 30.0}]


def test_the_parts_of_a_timeline_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_MOST_SPANS", 3)
    exchange = ObservedExchange(1, ExchangeStart(at=100.0, method="", path="", provider="openai_chat"))
    calls = [CALLS[0].model_copy(update={"id": f"c{n}", "metadata": {"raw_id": f"c{n}"}}) for n in range(5)]
    for part in response("openai_chat", *calls):
        exchange.receive(101.0, part)
    exchange.end(ExchangeEnd(at=102.0))
    summary = exchange.summary()
    assert [span["kind"] for span in summary["timeline"]] == ["waiting", "call", "call", "call"]
    assert summary["notes"] == ["the timeline does not show the last 2 parts of the response"]


def test_a_server_tool_is_one_part() -> None:
    exchange = ObservedExchange(1, ExchangeStart(at=None, method="", path="", provider="anthropic"))
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
    for index, block in enumerate(blocks):
        for data in (
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ):
            exchange.receive(None, data)
    (span,) = exchange.summary()["timeline"]
    assert (span["kind"], span["name"], span["state"]) == ("server", "web_search", "result")
