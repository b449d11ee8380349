"""Vercel messages to history, and back: what only they have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported_messages import PNG, SPOKEN, Json, calls_of, results_of, rounds

from streamkit.history import FileBlock, ImageBlock, ReasoningBlock, ServerToolBlock, convert_to_vercel_messages, repair
from streamkit.providers import parse_messages


def test_vercel_versions_4_and_5_are_parsed_and_rendered_with_their_ids() -> None:
    full = "call_" + "x" * 24
    old = [
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": full, "toolName": "f", "args": {"a": 1}}],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": full, "toolName": "f", "result": {"b": 2}, "isError": True}
            ],
        },
    ]
    contents = parse_messages(old, "vercel")
    assert calls_of(contents)[0].id == "hist_tool_" + "x" * 24
    assert convert_to_vercel_messages(contents, version=4) == old
    new = convert_to_vercel_messages(contents)
    assert new[1]["content"][0]["output"] == {"type": "error-json", "value": {"b": 2}}
    assert [block.model_dump() for block in results_of(parse_messages(new, "vercel"))] == [
        block.model_dump() for block in results_of(contents)
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"type": "text", "value": "ok"}, ("ok", None, None)),
        ({"type": "json", "value": [1]}, ([1], None, None)),
        ({"type": "error-text", "value": "boom"}, (None, "error", "boom")),
        ({"type": "error-json", "value": {"c": 1}}, ({"c": 1}, "error", None)),
        ({"type": "execution-denied", "reason": "no"}, (None, "denied", "no")),
        (
            {
                "type": "content",
                "value": [{"type": "media", "data": "QQ==", "mediaType": "image/png"}, {"type": "text", "text": "a"}],
            },
            (
                [{"type": "image", "data": "data:image/png;base64,QQ=="}, {"type": "text", "text": "a"}],
                None,
                None,
            ),
        ),
    ],
)
def test_vercel_outputs_are_parsed(output: Json, expected: tuple[Any, str | None, str | None]) -> None:
    part = {"type": "tool-result", "toolCallId": "1", "toolName": "f", "output": output}
    (result,) = results_of(parse_messages([{"role": "tool", "content": [part]}], "vercel"))
    assert (result.result, result.status, result.error) == expected


def test_vercel_reasoning_server_tools_and_images_are_parsed() -> None:
    ran = {"type": "tool-call", "toolCallId": "s", "toolName": "search", "input": {}, "providerExecuted": True}
    provider_messages: list[Json] = [
        {"role": "user", "content": [{"type": "image", "image": "QQ==", "mimeType": "image/png"}, {"type": "odd"}]},
        {"role": "user", "content": [{"type": "file", "data": "https://x/a.pdf", "mimeType": "application/pdf"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm", "signature": "S"}, ran, "bare"]},
        {"role": "robot", "content": "?"},
    ]
    contents = parse_messages(provider_messages, "vercel", system=["Be brief.", 3])
    assert [content.speaker for content in contents] == ["system", "human", "human", "ai", "robot"]
    assert contents[1].blocks[0] == ImageBlock(data="data:image/png;base64,QQ==")
    assert contents[2].blocks[0] == FileBlock(media_type="application/pdf", url="https://x/a.pdf")
    thought, search, _ = contents[3].blocks
    assert isinstance(thought, ReasoningBlock)
    assert (thought.text, thought.signature) == ("hm", "S")
    assert isinstance(search, ServerToolBlock)
    assert (search.id, search.name, search.raw) == ("s", "search", [ran])


@given(rounds(), st.sampled_from([4, 5]), st.data())
def test_vercel_messages_round_trip(drawn_rounds: Any, version: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for text, calls, question in drawn_rounds:
        call_messages: list[Json] = [{"type": "text", "text": text}] if text else []
        answered: list[Json] = []
        for call_id, name, arguments, result in calls:
            full = "call_" + call_id.rjust(24, "0")
            said: Json = {"type": "tool-call", "toolCallId": full, "toolName": name}
            came: Json = {"type": "tool-result", "toolCallId": full, "toolName": name}
            failed = data.draw(st.booleans())
            if version == 4:
                call_messages.append(said | {"args": arguments})
                answered.append(came | {"result": data.draw(st.sampled_from([result, {"a": [1]}]))})
                answered[-1] |= {"isError": True} if failed else {}
            else:
                call_messages.append(said | {"input": arguments})
                output = data.draw(
                    st.sampled_from([{"type": "text", "value": result}, {"type": "json", "value": {"a": [1]}}])
                )
                if failed:
                    output = output | {"type": f"error-{output['type']}"}
                answered.append(came | {"output": output})
        provider_messages.append({"role": "assistant", "content": call_messages if calls else text})
        if calls:
            provider_messages.append({"role": "tool", "content": answered})
        parts: list[Json] = [{"type": "text", "text": question}, {"type": "image", "image": PNG}]
        if version == 5:
            parts.append({"type": "file", "data": "QQ==", "mediaType": "application/pdf", "filename": "a.pdf"})
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, parts]))})
    contents = parse_messages(provider_messages, "vercel")
    assert repair(contents).changes == []
    assert convert_to_vercel_messages(contents, version=version) == provider_messages
