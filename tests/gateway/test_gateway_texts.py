"""Texts that an upstream sends in several blocks, as clients of Responses show them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import wire_streams
from gateway.gateway_server import Target, serve_gateway, serve_responses

from streamkit import TextBlock, Turn
from streamkit.testing import Call, Reply, serve

BODY: dict[str, Any] = {"model": "m", "input": "hi"}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


def texts(response: dict[str, Any]) -> list[list[str]]:
    """Return the texts of each message."""
    return [[part["text"] for part in item["content"]] for item in response["output"] if item["type"] == "message"]


def test_the_parts_of_a_cited_text_are_one_part() -> None:
    # Claude splits a text at its citations; the Agents SDK takes the last part of the last message for the output.
    cited = {"type": "web_search_result_location", "url": "https://yr.no", "title": "Yr", "cited_text": "wet"}
    start = {"type": "text", "text": ""}
    data = wire_streams.framed(
        "anthropic",
        [
            wire_streams.message_start(),
            *wire_streams.block(0, start, {"type": "text_delta", "text": "I read that "}),
            *wire_streams.block(
                1,
                {**start, "citations": []},
                {"type": "citations_delta", "citation": cited},
                {"type": "text_delta", "text": "Oslo is wet"},
            ),
            *wire_streams.block(2, start, {"type": "text_delta", "text": " today."}),
            *wire_streams.message_end(),
        ],
    )
    reply = (200, {"content-type": "text/event-stream"}, data)
    with serve_responses(reply, reply) as (upstream, _), serve_gateway(Target("anthropic", upstream)) as url:
        response = httpx.post(f"{url}/v1/responses", json=BODY).json()
        stream = httpx.post(f"{url}/v1/responses", json={**BODY, "stream": True}).content
    assert texts(response) == [["I read that Oslo is wet today."]]
    (part,) = response["output"][0]["content"]
    assert [each["url"] for each in part["annotations"]] == ["https://yr.no"]
    turn = Turn("openai_responses")
    turn.feed(stream)
    turn.close()
    assert (turn.text, turn.error) == ("I read that Oslo is wet today.", None)
    assert stream.count(b"event: response.output_text.done") == 1


@pytest.mark.parametrize("stream", [True, False])
def test_texts_on_both_sides_of_a_call_are_two_messages(stream: bool) -> None:
    script = [Reply("Before.", Call("f"), "After.")]
    with serve(script) as server, serve_gateway(Target("anthropic", server.base_url("anthropic"))) as url:
        response = httpx.post(f"{url}/v1/responses", json={**BODY, "tools": [TOOL], "stream": stream})
    turn = Turn("openai_responses")
    turn.feed(response.content)
    turn.close()
    assert [block.text for block in turn.content.blocks if isinstance(block, TextBlock)] == ["Before.", "After."]


def test_messages_of_the_clients_own_wire_are_kept_apart() -> None:
    with (
        serve([Reply("One.", "Two.")]) as server,
        serve_gateway(Target("openai_responses", server.base_url("openai_responses"))) as url,
    ):
        assert texts(httpx.post(f"{url}/v1/responses", json=BODY).json()) == [["One."], ["Two."]]
