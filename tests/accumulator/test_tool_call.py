"""``ToolCall.partial`` of a call whose arguments are incomplete."""

from __future__ import annotations

from typing import Any

import pytest
from wire_streams import chat, chat_call, message_start

from streamkit import Turn
from streamkit.json_text.reader import parse_partial_object


def deltas(*texts: str) -> list[Any]:
    return [chat_call("", id="c0", name="write"), *(chat_call(text) for text in texts)]


@pytest.mark.parametrize(
    "chunks",
    [
        deltas('{"path":"a', '.txt","n":1', "2", ".", '5,"l":[tr', "ue", "]}"),
        deltas('{"t":"x\ud83d', '\ude00y"', "}"),
        deltas("{}", '{"a"', ":1}"),  # a placeholder is replaced
        deltas('{"a":1', '{"a":1}'),  # the arguments are sent again
        deltas('{"a":1}', '{"a"', ":1}"),  # a repeat in two deltas, to be dropped
        deltas('{"a":1}', '{"b"', ":1}"),  # another call begins
        deltas('"{\\"a\\"', ':1}"'),
        deltas("no JSON"),
    ],
)
def test_partial_arguments_follow_from_the_text_so_far(chunks: list[Any]) -> None:
    turn = Turn("openai_chat", turn_key="t")
    for chunk in [*chunks, chat({}, finish="tool_calls")]:
        turn.feed(chunk)
        for call in turn.calls:
            assert call.partial == parse_partial_object(call.arguments_text)
    turn.close()
    for call in turn.calls:
        if call.state == "complete":
            assert call.partial == call.arguments
        else:
            assert call.partial == parse_partial_object(call.arguments_text)


def test_every_access_to_an_open_call_returns_the_same_dict() -> None:
    turn = Turn("openai_chat", turn_key="t")
    for chunk in deltas('{"city":"Os'):
        turn.feed(chunk)
    before = turn.calls[0].partial
    assert before == {"city": "Os"}
    turn.feed(chat_call('lo"'))
    assert turn.calls[0].partial is before
    assert before == {"city": "Oslo"}


def test_restated_arguments_replace_the_partial_arguments() -> None:
    def event(name: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"response.{name}", "output_index": 0, "item_id": "fc", **fields}

    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "write", "arguments": ""}
    turn = Turn("openai_responses", turn_key="t")
    turn.feed(event("output_item.added", item=item))
    turn.feed(event("function_call_arguments.delta", delta='{"a":1,"b'))
    assert turn.calls[0].partial == {"a": 1}
    turn.feed(event("function_call_arguments.done", arguments='{"a":2}'))
    assert turn.calls[0].partial == {"a": 2}
    turn.close()
    assert turn.calls[0].partial == {"a": 2}


def test_arguments_sent_again_replace_the_partial_arguments_at_the_end_of_the_call() -> None:
    block = {"type": "tool_use", "id": "t", "name": "write", "input": {}}
    turn = Turn("anthropic", turn_key="t")
    turn.feed(message_start())
    turn.feed({"type": "content_block_start", "index": 0, "content_block": block})
    for text in ('{"a":1', '{"a":1,"b":2}'):
        delta = {"type": "input_json_delta", "partial_json": text}
        turn.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    assert turn.calls[0].partial == {"a": 1}
    turn.feed({"type": "content_block_stop", "index": 0})
    assert turn.calls[0].arguments_text == '{"a":1,"b":2}'
    assert turn.calls[0].partial == {"a": 1, "b": 2}
