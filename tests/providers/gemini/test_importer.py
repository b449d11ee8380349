"""Gemini's contents to history, and back; also those of Google's SDKs, where each chunk is a content of its own."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from imported_messages import SPOKEN, Json, calls_of, results_of, rounds

from streamkit import Turn, parse_messages, providers, render
from streamkit.history import (
    FileBlock,
    ImageBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.ids import is_canonical


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(city: str) -> dict[str, Any]:
    return {"functionCall": {"name": "weather", "args": {"city": city}}}


def result(value: str) -> dict[str, Any]:
    return {"functionResponse": {"name": "weather", "response": {"result": value}}}


QUESTION = {"role": "user", "parts": [{"text": "Weather?"}]}
CHUNKS = [
    model({"text": "I lo", "thought": True}),
    model({"text": "ok.", "thought": True}),
    model({"text": "", "thought": True, "thoughtSignature": "c2ln"}),
    model({"text": "Let "}),
    model({"text": "me "}),
    model({"text": "look."}),
    model(call("Oslo")),
    model(call("Bergen")),
    model({"text": ""}),
]


@pytest.mark.parametrize("model_first", [True, False])
def test_the_chunks_of_a_stream_are_one_turn(model_first: bool) -> None:
    chunks = CHUNKS if model_first else [{"parts": chunk["parts"], "role": "model"} for chunk in CHUNKS]
    answer = {"role": "user", "parts": [result("4 degrees"), result("5 degrees")]}
    _, turn, results, last = parse_messages([QUESTION, *chunks, answer, model({"text": "Cold."})], "gemini")
    texts = [(type(block), getattr(block, "text", None)) for block in turn.blocks]
    assert texts == [
        (ReasoningBlock, "I look."),
        (ReasoningBlock, ""),
        (TextBlock, "Let me look."),
        (ToolCallBlock, None),
        (ToolCallBlock, None),
    ]
    assert turn.blocks[1].metadata["thoughtSignature"] == "c2ln"
    calls = [block for block in turn.blocks if isinstance(block, ToolCallBlock)]
    found = [block for block in results.blocks if isinstance(block, ToolResponseBlock)]
    assert [(block.call_id, block.result) for block in found] == [
        (calls[0].id, "4 degrees"),
        (calls[1].id, "5 degrees"),
    ]
    assert [getattr(block, "text", None) for block in last.blocks] == ["Cold."]


def test_texts_within_a_content_and_signed_texts_stay_apart() -> None:
    signed = {"text": "b", "thoughtSignature": "c2ln"}
    (turn,) = parse_messages([model({"text": "a"}), model(signed), model({"text": "c"}, {"text": "d"})], "gemini")
    assert [getattr(block, "text", None) for block in turn.blocks] == ["a", "b", "c", "d"]


def test_contents_of_the_user_and_contents_with_further_fields_stay_apart() -> None:
    messages = [QUESTION, QUESTION, {**model({"text": "a"}), "x": 1}, model({"text": "b"})]
    contents = parse_messages(messages, "gemini")
    assert [content.speaker for content in contents] == ["human", "human", "ai", "ai"]


def test_gemini_parses_both_spellings_and_pairs_results_without_ids_by_function_and_order() -> None:
    contents = parse_messages(
        [
            {
                "role": "model",
                "parts": [
                    {"function_call": {"name": "f", "args": {"some_key": 1}}, "thought_signature": b"\x01"},
                    {"function_call": {"name": "g", "args": {}}},
                    {"function_call": {"name": "f", "args": {"some_key": 2}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"function_response": {"name": "f", "response": {"error": "boom"}}},
                    {"function_response": {"name": "f", "response": {"output": 2}}},
                    {"function_response": {"name": "g", "response": {"result": 3}}},
                ],
            },
        ],
        "gemini",
    )
    first, second, third = calls_of(contents)
    assert len({first.id, second.id, third.id}) == 3
    assert all(is_canonical(call.id) for call in (first, second, third))
    assert (first.parameters, first.metadata["thoughtSignature"]) == ({"some_key": 1}, "AQ==")
    assert [(result.call_id, result.error, result.result) for result in results_of(contents)] == [
        (first.id, "boom", None),
        (third.id, None, {"output": 2}),
        (second.id, None, 3),
    ]


def test_gemini_keeps_signed_empty_texts_and_server_tools() -> None:
    parts: list[Json] = [
        {"text": "hm", "thought": True, "thoughtSignature": "QQ=="},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}, "thoughtSignature": "Qg"},
        {"text": "", "thoughtSignature": "_w=="},
    ]
    provider_messages = [{"role": "user", "parts": [{"text": "?"}]}, {"role": "model", "parts": parts}]
    assert render(parse_messages(provider_messages, "gemini"), "gemini") == provider_messages


def test_gemini_roles_files_and_string_parts_are_parsed() -> None:
    contents = parse_messages(
        [
            {"parts": ["hello", 3, {"inlineData": {"mimeType": "image/png", "data": "QQ==", "displayName": "a"}}]},
            {"role": "model", "parts": ["there", {"toolCall": {"id": "1", "toolType": "MAPS", "args": {"q": 1}}}]},
            {"role": "function", "parts": {"functionResponse": {"name": "f", "response": {"result": {"a": 1}}}}},
            {"role": "robot", "parts": []},
        ],
        "gemini",
        system=["Be brief.", 3],
    )
    assert [content.speaker for content in contents] == ["system", "human", "ai", "tool", "robot"]
    assert contents[1].blocks[2] == FileBlock(media_type="image/png", data="QQ==", name="a")
    tool = contents[2].blocks[1]
    assert isinstance(tool, ServerToolBlock)
    assert (tool.id, tool.name, tool.arguments, tool.result) == ("1", "MAPS", {"q": 1}, None)
    (result,) = results_of(contents)
    assert (result.call_id, result.result) == ("", {"result": {"a": 1}})


def test_call_with_a_result_by_id_gets_no_result_without_an_id() -> None:
    parts = [{"functionCall": {"name": "f", "args": {"n": n}, "id": str(n)}} for n in (1, 2)]
    answers: list[Json] = [{"name": "f", "id": "1"}, {"name": "f"}]
    contents = parse_messages(
        [{"role": "model", "parts": parts}, {"parts": [{"functionResponse": answer} for answer in answers]}], "gemini"
    )
    assert [result.call_id for result in results_of(contents)] == [call.id for call in calls_of(contents)]


@given(rounds(), st.data())
def test_gemini_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    system = data.draw(SPOKEN)
    with_ids = data.draw(st.booleans())
    provider_messages: list[Json] = [{"role": "user", "parts": [{"text": "?"}]}]
    for text, calls, question in drawn_rounds:
        parts: list[Json] = []
        if data.draw(st.booleans()):
            parts.append({"text": data.draw(SPOKEN), "thought": True, "thoughtSignature": "VA=="})
        if text:
            parts.append({"text": text} | data.draw(st.sampled_from([{}, {"thoughtSignature": "Uw=="}])))
        for call_id, name, arguments, _ in calls:
            call = {"name": name, "args": arguments} | ({"id": call_id} if with_ids else {})
            parts.append({"functionCall": call} | data.draw(st.sampled_from([{}, {"thoughtSignature": "Rg=="}])))
        provider_messages.append({"role": "model", "parts": parts})
        said: list[Json] = []
        for call_id, name, _, result in calls:
            response = data.draw(st.sampled_from([{"result": result}, {"error": "boom"}, {"output": 1, "more": [2]}]))
            answer = {"name": name, "response": response} | ({"id": call_id} if with_ids else {})
            said.append({"functionResponse": answer})
        said.append({"text": question})
        said += data.draw(
            st.lists(
                st.sampled_from(
                    [
                        {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
                        {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}},
                        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
                        {"fileData": {"fileUri": "https://a/b.png"}},
                    ]
                ),
                max_size=2,
            )
        )
        provider_messages.append({"role": "user", "parts": said})
    contents = parse_messages(provider_messages, "gemini", system=system)
    assert render(contents, "gemini") == provider_messages
    assert providers.render_request(contents, "gemini")["systemInstruction"] == {"parts": [{"text": system}]}


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ({"output": "4 degrees\n"}, "4 degrees\n"),
        ({"result": "4 degrees"}, "4 degrees"),
        ({"output": {"degrees": 4}}, {"output": {"degrees": 4}}),
        ({"output": "4", "unit": "C"}, {"output": "4", "unit": "C"}),
    ],
)
def test_the_output_of_a_result_is_the_result(response: dict[str, Any], value: Any) -> None:
    """gemini-cli and google-genai send ``output``; towards other wires its text is no JSON, and here it keeps its name.

    https://ai.google.dev/api/caching#FunctionResponse
    """
    part = {"functionResponse": {"name": "weather", "response": response}}
    messages = [QUESTION, model(call("Oslo")), {"role": "user", "parts": [part]}]
    contents = parse_messages(messages, "gemini")
    (block,) = contents[-1].blocks
    assert isinstance(block, ToolResponseBlock)
    assert block.result == value
    assert render(contents, "gemini")[-1]["parts"] == [part]


def test_parts_that_are_no_objects_do_not_raise() -> None:
    contents = parse_messages(
        [model(), {"role": "model", "parts": "x"}, {"role": "model", "parts": [3, None]}], "gemini"
    )
    assert [content.speaker for content in contents] == ["ai"]


VIDEO = {"fileData": {"fileUri": "gs://b/v.mp4", "mimeType": "video/mp4"}}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}


@pytest.mark.parametrize(
    "part",
    [
        {**VIDEO, "videoMetadata": {"startOffset": "1s", "endOffset": "2s", "fps": 5}, "mediaProcessing": "STATIC"},
        {**IMAGE, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "QQ=="}, "documentMetadata": {"startPage": 2}},
        {"text": "Hi", "speechMetadata": {"speaker": "A"}, "partMetadata": {"a": 1}},
    ],
)
def test_fields_beside_the_data_of_a_users_part_go_back(part: dict[str, Any]) -> None:
    changes: list[str] = []
    messages = [{"role": "user", "parts": [part]}]
    contents = parse_messages(messages, "gemini", changes=changes)
    assert changes == []
    assert render(contents, "gemini", model="gemini-3-pro") == messages
    (other,) = render(contents, "openai_chat", unsupported="text")
    assert "Metadata" not in str(other)
    types.Content.model_validate(messages[0])


def test_fields_beside_the_data_of_a_models_part_go_back() -> None:
    made = [
        {"text": "t", "thought": True, "partMetadata": {"a": 1}, "thoughtSignature": "c2ln"},
        {"text": "a", "partMetadata": {"a": 2}},
        {**call("Oslo"), "partMetadata": {"a": 3}, "thoughtSignature": "c2ln"},
    ]
    messages = [QUESTION, model(*made), {"role": "user", "parts": [result("4 degrees")]}]
    changes: list[str] = []
    contents = parse_messages(messages, "gemini", changes=changes)
    assert render(contents, "gemini", changes=changes) == messages
    assert changes == []
    turn = Turn("gemini", turn_key="k")
    turn.feed({"candidates": [{"content": model(*made), "finishReason": "STOP"}], "modelVersion": "gemini-3-pro"})
    turn.close()
    assert render([turn.content], "gemini", repair=False) == [model(*made)]


def test_unknown_fields_of_a_users_file_and_parts_of_a_result_are_reported() -> None:
    changes: list[str] = []
    answer = result("4 degrees")
    answer["functionResponse"]["parts"] = [{**IMAGE, "mood": 1}, {"text": "no file"}]
    user = {"role": "user", "parts": [{**VIDEO, "rank": 1}]}
    parse_messages([user, model(call("Oslo")), {"role": "user", "parts": [answer]}], "gemini", changes=changes)
    assert changes == [
        "left out the field 'rank' of a part with a file",
        "left out the field 'mood' of a part of a result",
        "left out a part of a result: it is neither inline data nor the address of a file",
    ]


def test_a_result_keeps_the_references_to_its_files() -> None:
    named = {"inlineData": {"mimeType": "image/png", "data": "QQ==", "displayName": "a.png"}}
    answer = {"name": "weather", "response": {"map": {"$ref": "a.png"}, "degrees": 4}, "parts": [named, IMAGE]}
    signed = {**call("Oslo"), "thoughtSignature": "c2ln"}
    messages = [QUESTION, model(signed), {"role": "user", "parts": [{"functionResponse": answer}]}]
    contents = parse_messages(messages, "gemini")
    changes: list[str] = []
    assert render(contents, "gemini", model="gemini-3-pro", changes=changes) == messages
    assert changes == []
    types.Content.model_validate(messages[2])
    older = render(contents, "gemini", model="gemini-2.5-pro", changes=changes)[2]["parts"]
    assert [change[:42] for change in changes] == ["the name of a file was not sent with it: t"]
    assert older[0]["functionResponse"]["response"] == answer["response"]
    assert [part.keys() for part in older[1:]] == [{"text"}, {"inlineData"}, {"inlineData"}]
    block = contents[2].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    shot = {"type": "image", "data": "data:image/png;base64,QQ=="}
    for changed in ([{"type": "text", "text": "See"}, shot], [{"type": "text", "text": "[1]"}, shot], [1]):
        contents[2].blocks[0] = block.model_copy(update={"result": changed})
        (rendered,) = render(contents, "gemini", model="gemini-3-pro")[2]["parts"][:1]
        assert "result" in rendered["functionResponse"]["response"]


@pytest.mark.parametrize("text", ["-_-_", "-_8=", "-_8"])
@pytest.mark.parametrize("names", [("inlineData", "mimeType"), ("inline_data", "mime_type")])
def test_bytes_in_the_url_safe_alphabet_are_standard_base64(names: tuple[str, str], text: str) -> None:
    """google-genai encodes bytes so, as protobuf's JSON allows."""
    data = text.replace("-", "+").replace("_", "/").ljust(4, "=")
    part, media_type = names
    blob = {media_type: "image/png", "data": text}
    function_response = {"name": "weather", "response": {}, "parts": [{part: blob}]}
    asked = {
        "role": "user",
        "parts": [{part: blob}, {part: {media_type: "application/pdf", "data": text}}],
    }
    made = model({part: blob}, {"functionCall": {"name": "weather", "args": {}}})
    results = {"role": "user", "parts": [{"functionResponse": function_response}]}
    contents = parse_messages([asked, made, results], "gemini")
    image, file = contents[0].blocks
    assert isinstance(image, ImageBlock)
    assert isinstance(file, FileBlock)
    assert (image.data, file.data) == (f"data:image/png;base64,{data}", data)
    rendered = render(contents, "anthropic", unsupported="text")
    assert rendered[0]["content"][0]["source"]["data"] == data
    assert rendered[0]["content"][1]["source"]["data"] == data
    assert rendered[-1]["content"][0]["content"][-1]["source"]["data"] == data
