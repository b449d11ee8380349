from __future__ import annotations

import json
from typing import Any

import pytest
from shared_data import VECTORS

from streamkit.errors import UnsupportedContent, UsageError
from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    ToolCallBlock,
    ToolResponseBlock,
    convert_to_vercel_messages,
    parse_vercel_messages,
)

VECTORS = VECTORS / "vercel_v4.json"


@pytest.mark.skipif(not VECTORS.exists(), reason="../shared is not there")
def test_version_4_is_exactly_the_document() -> None:
    vectors = json.loads(VECTORS.read_text())
    assert len(vectors) > 20
    for vector in vectors:
        contents = [Content.model_validate(content) for content in vector["input"]]
        assert convert_to_vercel_messages(contents, version=4, tool_names=False) == vector["expected"], vector["name"]


def _round(**response: Any) -> list[Content]:
    call = ToolCallBlock(id="hist_tool_1", name="weather", parameters={"city": "Oslo"})
    return [
        Content.human("Weather?"),
        Content.ai("I look.", call),
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id="hist_tool_1", **response)]),
    ]


def test_version_5_has_input_output_and_the_name_of_the_call() -> None:
    assert convert_to_vercel_messages(_round(result="21")) == [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool-call", "toolCallId": "call_1", "toolName": "weather", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "call_1",
                    "toolName": "weather",
                    "output": {"type": "text", "value": "21"},
                }
            ],
        },
    ]


@pytest.mark.parametrize(
    ("response", "output"),
    [
        ({"result": None}, {"type": "text", "value": ""}),
        ({"result": {"t": 21}}, {"type": "json", "value": {"t": 21}}),
        ({"result": 0}, {"type": "json", "value": 0}),
        ({"result": "bad", "status": "error"}, {"type": "error-text", "value": "bad"}),
        ({"error": "boom"}, {"type": "error-text", "value": "boom"}),
        ({"error": "no", "status": "denied"}, {"type": "error-text", "value": "no"}),
        ({"result": {"code": 1}, "status": "error"}, {"type": "error-json", "value": {"code": 1}}),
    ],
)
def test_version_5_output(response: dict[str, Any], output: dict[str, Any]) -> None:
    assert convert_to_vercel_messages(_round(**response))[-1]["content"][0]["output"] == output


def test_the_name_is_found_if_call_and_result_have_ids_with_different_prefixes() -> None:
    response = ToolResponseBlock(call_id="call_1", result="21")
    contents = [*_round(result="")[:2], Content(speaker="tool", blocks=[response])]
    assert convert_to_vercel_messages(contents)[-1]["content"][0]["toolName"] == "weather"


def test_the_latest_call_of_an_id_gives_the_name() -> None:
    calls = [Content.ai("", ToolCallBlock(id="x", name=name)) for name in ("first", "second")]
    response = Content(speaker="tool", blocks=[ToolResponseBlock(call_id="x", result="")])
    messages = convert_to_vercel_messages([calls[0], response, calls[1], response])
    assert [messages[n]["content"][0]["toolName"] for n in (1, 3)] == ["first", "second"]


def test_a_result_keeps_its_own_name_and_an_orphan_has_none() -> None:
    assert convert_to_vercel_messages(_round(name="own"))[-1]["content"][0]["toolName"] == "own"
    orphan = Content(speaker="tool", blocks=[ToolResponseBlock(call_id="?", result="")])
    assert convert_to_vercel_messages([orphan])[0]["content"][0]["toolName"] == ""


def test_version_4_with_names_only_adds_the_name() -> None:
    plain = convert_to_vercel_messages(_round(result="21"), version=4, tool_names=False)
    named = convert_to_vercel_messages(_round(result="21"), version=4)
    assert named[-1]["content"][0].pop("toolName") == "weather"
    assert named == plain


def test_zero_and_false_are_results_in_version_4() -> None:
    for value in (0, False, [], {}):
        assert convert_to_vercel_messages(_round(result=value), version=4)[-1]["content"][0]["result"] == value


def test_files_are_parts_in_version_5_alone() -> None:
    contents = [Content.human("read", FileBlock(media_type="application/pdf", data="QQ==", name="a.pdf"))]
    part = {"type": "file", "data": "QQ==", "mediaType": "application/pdf", "filename": "a.pdf"}
    assert convert_to_vercel_messages(contents)[0]["content"] == [{"type": "text", "text": "read"}, part]
    assert convert_to_vercel_messages(contents, version=4) == [{"role": "user", "content": "read"}]


def test_reasoning_is_omitted() -> None:
    thought, image = ReasoningBlock(text="hm"), ImageBlock(data="https://x/y.png")
    assert convert_to_vercel_messages([Content.ai("ok", thought)])[0]["content"] == "ok"
    assert len(convert_to_vercel_messages([Content.human("look", image, thought)])[0]["content"]) == 2
    assert (
        len(convert_to_vercel_messages([Content.ai("", thought, ToolCallBlock(id="1", name="f"))])[0]["content"]) == 1
    )


def test_images_keep_their_order() -> None:
    contents = [Content.human("a", ImageBlock(data="https://x/y.png"))]
    parts = [{"type": "text", "text": "a"}, {"type": "image", "image": "https://x/y.png"}]
    assert convert_to_vercel_messages(contents)[0]["content"] == parts


@pytest.mark.parametrize(
    "data",
    ["", "x", "hello world", "data:image/png;base64,", "data:;base64,!!", "data:text/plain;base64,QUI=", "/etc/passwd",
     "file:///a.png", "gs://bucket/a.png", "data:image/png;base64,no base64!", "data:image/png,"],
)  # fmt: skip
def test_an_image_that_is_none_is_refused(data: str) -> None:
    with pytest.raises(UnsupportedContent, match="an image is base64, a data URL or an http"):
        convert_to_vercel_messages([Content.human("look", ImageBlock(data=data))])
    with pytest.raises(UnsupportedContent, match="a file is base64, a data URL or an http"):
        convert_to_vercel_messages([Content.human("read", FileBlock(data="%", media_type="a/b"))])
    result = [{"type": "text", "text": "Page"}, {"type": "image", "data": data}]
    for version in (5, 6, 7) if "text/plain" not in data else ():
        output = convert_to_vercel_messages(_round(result=result), version=version)[-1]["content"][0]["output"]
        assert output == {"type": "json", "value": result}


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ("QUI=", "QUI="),
        ("data:image/png;base64,QUI=", "data:image/png;base64,QUI="),
        ("data:image/svg+xml,%3Csvg/%3E", "data:image/svg+xml;base64,PHN2Zy8+"),
        ("HTTPS://a.example/x.png", "HTTPS://a.example/x.png"),
    ],
)
def test_an_image_is_sent_in_a_form_of_the_sdk(data: str, sent: str) -> None:
    [message] = convert_to_vercel_messages([Content.human("", ImageBlock(data=data))])
    assert message["content"] == [{"type": "image", "image": sent}]


def test_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="version must be 4, 5, 6 or 7, not 3"):
        convert_to_vercel_messages([], version=3)  # type: ignore[arg-type]


PIXEL = "data:image/png;base64,iVBORw0KGgo="
SHOWN = [
    {"type": "text", "text": "two"},
    {"type": "image", "data": PIXEL},
    {"type": "file", "media_type": "application/pdf", "data": "JVBERi0=", "url": None, "name": "a.pdf"},
]


@pytest.mark.parametrize(
    ("version", "image", "file"),
    [
        (
            5,
            {"type": "media", "data": "iVBORw0KGgo=", "mediaType": "image/png"},
            {"type": "media", "data": "JVBERi0=", "mediaType": "application/pdf"},
        ),
        (
            6,
            {"type": "image-data", "data": "iVBORw0KGgo=", "mediaType": "image/png"},
            {"type": "file-data", "data": "JVBERi0=", "mediaType": "application/pdf", "filename": "a.pdf"},
        ),
    ],
)
def test_images_and_files_of_a_result_are_content(version: Any, image: Any, file: Any) -> None:
    written = convert_to_vercel_messages(_round(result=SHOWN), version=version)
    output = written[-1]["content"][0]["output"]
    assert output == {"type": "content", "value": [{"type": "text", "text": "two"}, image, file]}
    block = parse_vercel_messages(written)[-1].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    assert block.result == [*SHOWN[:2], {**SHOWN[2], "name": "a.pdf" if version == 6 else None}]


def test_a_url_in_a_result_is_data_in_version_5_and_a_type_of_its_own_later() -> None:
    result = [{"type": "image", "data": "https://example.org/a.png"}]
    five, seven = (convert_to_vercel_messages(_round(result=result), version=version)[-1] for version in (5, 7))
    assert five["content"][0]["output"] == {"type": "json", "value": result}
    value = [{"type": "image-url", "url": "https://example.org/a.png"}]
    assert seven["content"][0]["output"] == {"type": "content", "value": value}
    block = parse_vercel_messages([seven])[0].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    assert block.result == result
