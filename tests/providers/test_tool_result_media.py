"""Results of tools, with and without media, are rendered in the form of every provider and lose nothing."""

from __future__ import annotations

import base64
import copy
import dataclasses
import datetime
import json
from typing import Any

import pytest
import request_validators

from streamkit import Content, ToolCall, execute_tool_calls_batched, parse_messages, providers, render, render_request
from streamkit.history import FileBlock, ImageBlock, TextBlock, ToolCallBlock, ToolResponseBlock
from streamkit.history.tool_results import to_stored_result
from streamkit.testing import validate_request

PIXEL = "iVBORw0KGgo="
IMAGE = ImageBlock(data=f"data:image/png;base64,{PIXEL}")
ADDRESS = ImageBlock(data="https://example.org/a.png")
PDF = FileBlock(media_type="application/pdf", data="JVBERi0=", name="report.pdf")
CSV = FileBlock(media_type="text/csv", data="YSxi", name="a.csv")
ZIP = FileBlock(media_type="application/zip", data="UEsDBA==", name="a.zip")
ID = "hist_tool_" + "a" * 24
CALL = ToolCall(id=ID, name="see", index=0, raw_id="c0", state="complete", arguments={}, arguments_text="{}")
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
INPUT_IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}
INLINE_IMAGE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


@dataclasses.dataclass
class Point:
    x: int


def run_and_render(value: Any, provider: str) -> list[dict[str, Any]]:
    """Run a tool that returns a value and return the messages after that of the call."""

    def see() -> Any:
        return value

    update = execute_tool_calls_batched([CALL], tools=[see], provider=provider).run_sync()
    can_be_sent = type(value) is not object
    assert [result.status for result in update.results] == ["completed" if can_be_sent else "error"]
    return update.messages[1:]


def history(*blocks: Any, model: str | None = None, provider: str = "gemini") -> list[Content]:
    about = {} if model is None else {"provider": provider, "model": model}
    call = ToolCallBlock(id=ID, name="see", metadata={"provider": provider} if model else {})
    assistant = Content(speaker="ai", blocks=[call], metadata=about)
    return [Content.human("Look."), assistant, Content(speaker="tool", blocks=list(blocks))]


def response(value: Any, **fields: Any) -> ToolResponseBlock:
    return ToolResponseBlock(call_id=ID, name="see", result=to_stored_result(value), **fields)


# ---------------------------------------------------------------- results to messages


@pytest.mark.parametrize(
    ("value", "anthropic", "chat", "responses", "gemini", "converse"),
    [
        ("hi", "hi", ["hi"], "hi", [{"result": "hi"}], [{"text": "hi"}]),
        ("", "", [""], "", [{"result": ""}], [{"text": "(no output)"}]),
        (0, "0", ["0"], "0", [{"result": 0}], [{"text": "0"}]),
        (False, "false", ["false"], "false", [{"result": False}], [{"text": "false"}]),
        (None, "", [""], "", [{"result": None}], [{"text": "(no output)"}]),
        ([], "[]", ["[]"], "[]", [{"result": []}], [{"text": "[]"}]),
        ({}, "{}", ["{}"], "{}", [{}], [{"text": "{}"}]),
        ({"a": 1}, '{"a":1}', ['{"a":1}'], '{"a":1}', [{"a": 1}], [{"json": {"a": 1}}]),
        (["a", "b"], '["a","b"]', ['["a","b"]'], '["a","b"]', [{"result": ["a", "b"]}], [{"text": '["a","b"]'}]),
        (Point(3), '{"x":3}', ['{"x":3}'], '{"x":3}', [{"x": 3}], [{"json": {"x": 3}}]),
        (
            datetime.date(2026, 11, 21),
            *(["2026-11-21"] * 1),
            ["2026-11-21"],
            "2026-11-21",
            [{"result": "2026-11-21"}],
            [{"text": "2026-11-21"}],
        ),
        (float("nan"), "NaN", ["NaN"], "NaN", [{"result": "NaN"}], [{"text": "NaN"}]),
        (b"plain", "plain", ["plain"], "plain", [{"result": "plain"}], [{"text": "plain"}]),
        (
            base64.b64decode(PIXEL),
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}],
            ["[image 1]", [{"type": "text", "text": "From the result of see:"}, CHAT_IMAGE]],
            [INPUT_IMAGE],
            [{"result": "[image 1]"}, {"text": "From the result of see:"}, INLINE_IMAGE],
            [{"image": {"format": "png", "source": {"bytes": PIXEL}}}],
        ),
        (
            ["Two:", IMAGE, ADDRESS],
            [
                {"type": "text", "text": "Two:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            ],
            [
                "Two:",
                [
                    {"type": "text", "text": "From the result of see:"},
                    CHAT_IMAGE,
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                ],
            ],
            [
                {"type": "input_text", "text": "Two:"},
                INPUT_IMAGE,
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
            ],
            [
                {"result": "Two:"},
                {"text": "From the result of see:"},
                INLINE_IMAGE,
                {"fileData": {"fileUri": "https://example.org/a.png", "mimeType": "image/png"}},
            ],
            [
                {"text": "Two:"},
                {"image": {"format": "png", "source": {"bytes": PIXEL}}},
                {"text": "[image https://example.org/a.png]"},
            ],
        ),
        (
            PDF,
            [
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                    "title": "report.pdf",
                }
            ],
            [
                "[file 1: report.pdf]",
                [
                    {"type": "text", "text": "From the result of see:"},
                    {
                        "type": "file",
                        "file": {"filename": "report.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
                    },
                ],
            ],
            [
                {
                    "type": "input_file",
                    "filename": "report.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                }
            ],
            [
                {"result": "[file 1: report.pdf]"},
                {"text": "From the result of see:"},
                {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}},
            ],
            [{"document": {"format": "pdf", "name": "report", "source": {"bytes": "JVBERi0="}}}],
        ),
        (
            ["Made:", CSV, ZIP],
            [
                {"type": "text", "text": "Made:"},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "a,b"},
                    "title": "a.csv",
                },
                {"type": "text", "text": "[attached file a.zip (application/zip)]"},
            ],
            ["Made:\na.csv:\na,b\n[attached file a.zip (application/zip)]"],
            [
                {"type": "input_text", "text": "Made:"},
                {"type": "input_file", "filename": "a.csv", "file_data": "data:text/csv;base64,YSxi"},
                {"type": "input_text", "text": "[attached file a.zip (application/zip)]"},
            ],
            [
                {"result": "Made:\n[file 1: a.csv]\n[attached file a.zip (application/zip)]"},
                {"text": "From the result of see:"},
                {"inlineData": {"mimeType": "text/csv", "data": "YSxi"}},
            ],
            [
                {"text": "Made:"},
                {"document": {"format": "csv", "name": "a", "source": {"bytes": "YSxi"}}},
                {"text": "[attached file a.zip (application/zip)]"},
            ],
        ),
    ],
)
def test_each_value_is_rendered_for_five_wires(
    value: Any, anthropic: Any, chat: Any, responses: Any, gemini: Any, converse: Any
) -> None:
    [message] = run_and_render(value, "anthropic")
    assert message["role"] == "user"
    assert [part["content"] for part in message["content"]] == [anthropic]

    messages = run_and_render(value, "openai_chat")
    assert [message["role"] for message in messages] == ["tool", "user"][: len(chat)]
    assert [message["content"] for message in messages] == chat

    [item] = run_and_render(value, "openai_responses")
    assert (item["type"], item["output"]) == ("function_call_output", responses)

    [content] = run_and_render(value, "gemini")
    assert [part.get("functionResponse", {}).get("response", part) for part in content["parts"]] == gemini

    [message] = run_and_render(value, "bedrock_converse")
    assert [part["toolResult"]["content"] for part in message["content"]] == [converse]


VALUES = [
    "hi", "", 0, False, None, [], {}, {"a": [1]}, Point(1), b"\xff\xfe", object(), {1, 2}, float("inf"),
    IMAGE, ADDRESS, ImageBlock(data="nonsense"), ImageBlock(data="data:image/tiff;base64,QQ=="),
    PDF, CSV, ZIP, FileBlock(), FileBlock(name="a"), FileBlock(url="file:///etc/passwd", media_type="text/plain"),
    FileBlock(data="!!", media_type="text/plain"), FileBlock(media_type="audio/wav", data="UklG"),
    [IMAGE, "between", PDF, {"n": 1}, ZIP], [TextBlock(text=" "), IMAGE], [TextBlock(text="")], [IMAGE] * 3,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("provider", providers.names())
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_any_result_makes_a_legal_request(value: Any, provider: str) -> None:
    assert run_and_render(value, provider)
    contents = history(response(value))
    body = render_request(contents, provider)
    assert validate_request(provider, body) == []
    if provider not in ("mistral", "xai", "kimi"):  # a test below covers the further types that these accept
        _judge(provider, render(contents, provider), body)


def _judge(provider: str, messages: list[dict[str, Any]], body: dict[str, Any]) -> None:
    if provider == "anthropic":
        request_validators.anthropic_messages(messages)
    elif provider == "openai_chat":
        request_validators.openai_chat_messages(messages)
    elif provider == "openai_responses":
        request_validators.openai_responses_input(messages)
    elif provider == "gemini":
        request_validators.gemini_contents(messages)
    elif provider == "bedrock_converse":
        plain = copy.deepcopy(body)
        request_validators.bedrock_request(_with_bytes(plain))


def _with_bytes(value: Any) -> Any:
    """Return the value as boto3 expects it: bytes instead of base64 text."""
    if isinstance(value, dict):
        return {name: base64.b64decode(item) if name == "bytes" else _with_bytes(item) for name, item in value.items()}
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value


@pytest.mark.anyio
async def test_images_of_a_round_are_in_call_order() -> None:
    def left() -> Any:
        return [IMAGE, "left"]

    def right() -> Any:
        return ["right", PDF]

    calls = [
        ToolCall(id=f"hist_tool_{n:024d}", name=name, index=n, state="complete", arguments={}, arguments_text="{}")
        for n, name in enumerate(["left", "right"])
    ]
    update = await execute_tool_calls_batched(calls, tools=[left, right], provider="openai_chat")
    assert [message["role"] for message in update.messages] == ["assistant", "tool", "tool", "user"]
    assert [message["content"] for message in update.messages[1:3]] == ["[image 1]\nleft", "right"]
    assert [part.get("text", part["type"]) for part in update.messages[3]["content"]] == [
        "From the result of left:",
        "image_url",
        "From the result of right:",
        "file",
    ]
    assert render(update.contents, "openai_chat") == update.messages


# ---------------------------------------------------------------- differences between wires


@pytest.mark.parametrize("provider", ["kimi", "mistral", "xai"])
def test_some_dialects_accept_images_in_a_tool_message(provider: str) -> None:
    messages = render(history(response(["Two:", IMAGE])), provider)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[2]["content"] == [{"type": "text", "text": "Two:"}, CHAT_IMAGE]


def test_mistral_gets_a_file_as_a_document() -> None:
    messages = render(history(response(["Read:", PDF])), "mistral")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[4]["content"][1] == {
        "type": "document_url",
        "document_url": "data:application/pdf;base64,JVBERi0=",
        "document_name": "report.pdf",
    }
    assert parse_messages(messages, "mistral")[-1].blocks[1] == FileBlock(
        media_type="application/pdf", data="JVBERi0=", name="report.pdf"
    )


@pytest.mark.parametrize("model", ["gemini-3-pro-preview", "models/gemini-3.7-flash", "gemini-10-flash"])
def test_gemini_3_gets_images_within_the_response(model: str) -> None:
    contents = history(response(["Front", IMAGE, "Back", PDF]), model=model)
    [_, _, message] = render(contents, "gemini")
    [part] = message["parts"]
    assert part["functionResponse"] == {
        "name": "see",
        "response": {"result": "Front\n[image 1]\nBack\n[file 2: report.pdf]"},
        "parts": [INLINE_IMAGE, {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}],
    }


@pytest.mark.parametrize(
    ("model", "value"),
    [("gemini-2.5-flash", IMAGE), (None, IMAGE), ("gemini-3-pro", ADDRESS), ("gemini-3-pro", CSV)],
)
def test_other_gemini_models_get_images_after_the_results(model: str | None, value: Any) -> None:
    [_, _, message] = render(history(response(value), model=model), "gemini")
    assert "parts" not in message["parts"][0]["functionResponse"]
    assert message["parts"][1] == {"text": "From the result of see:"}
    assert len(message["parts"]) == 3


@pytest.mark.parametrize("provider", ["cohere", "ollama"])
def test_user_message_contains_media_that_text_results_cannot(provider: str) -> None:
    changes: list[str] = []
    messages = render(history(response([IMAGE, "a shot", CSV, PDF])), provider, changes=changes)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[2]["content"] == ("[image 1]\na shot\na.csv:\na,b\n[attached file report.pdf (application/pdf)]")
    assert PIXEL in json.dumps(messages[3])
    assert len(changes) == 3


def test_documents_of_one_bedrock_message_have_unique_names() -> None:
    message = render(history(response([PDF, PDF])), "bedrock_converse")[2]
    parts = message["content"][0]["toolResult"]["content"]
    assert [part["document"]["name"] for part in parts] == ["report", "report (2)"]


def test_anthropic_search_result_is_unchanged() -> None:
    search_result = {
        "type": "search_result",
        "source": "https://example.org",
        "title": "A page",
        "content": [{"type": "text", "text": "What it says"}],
        "citations": {"enabled": True},
    }
    contents = history(response([search_result, {"type": "text", "text": "more"}]))
    [part] = render(contents, "anthropic")[2]["content"]
    assert part["content"] == [search_result, {"type": "text", "text": "more"}]


def test_failed_result_is_rendered_as_text() -> None:
    contents = history(response([IMAGE], status="error", error="The camera is off."))
    [part] = render(contents, "anthropic")[2]["content"]
    assert (part["content"], part["is_error"]) == ("The camera is off.", True)
    assert [message["role"] for message in render(contents, "openai_chat")] == ["user", "assistant", "tool"]


# ---------------------------------------------------------------- media that a target cannot carry


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "gemini", "bedrock_converse", "cohere", "ollama"])
def test_drop_removes_only_the_unsupported_part(provider: str) -> None:
    changes: list[str] = []
    sound = FileBlock(media_type="application/x-thing", url="file:///a", name="a.thing")
    messages = render(history(response(["rest", sound, IMAGE])), provider, unsupported="drop", changes=changes)
    rendered = json.dumps(messages)
    assert "a.thing" not in rendered
    assert "rest" in rendered
    assert PIXEL in rendered
    assert any("left out an attached file a.thing" in change for change in changes)


@pytest.mark.parametrize("policy", ["raise", "text"])
def test_media_in_a_result_never_raises(policy: Any) -> None:
    changes: list[str] = []
    messages = render(history(response([PDF])), "ollama", unsupported=policy, changes=changes)
    assert messages[2]["content"] == "[attached file report.pdf (application/pdf)]"
    assert len(messages) == 3
    assert len(changes) == 1


@pytest.mark.parametrize("provider", providers.names())
def test_media_next_to_a_result_never_raises(provider: str) -> None:
    contents = history(response("made"), ZIP, ImageBlock(data="nonsense"))
    assert "made" in json.dumps(render(contents, provider))
    assert validate_request(provider, render_request(contents, provider)) == []


# ---------------------------------------------------------------- messages to results


@pytest.mark.parametrize(
    ("provider", "model"),
    [("anthropic", None), ("openai_responses", None), ("gemini", "gemini-3-pro"), ("mistral", None)],
)
@pytest.mark.parametrize("value", [[IMAGE], ["a shot", IMAGE], ["a", IMAGE, "b", IMAGE], [IMAGE, "after\nit"]])
def test_rendered_result_is_parsed_to_the_same_result(provider: str, model: str | None, value: Any) -> None:
    contents = history(response(value), model=model, provider=provider)
    messages = render(contents, provider)
    parsed = parse_messages(messages, provider)
    [block] = [block for content in parsed for block in content.blocks if isinstance(block, ToolResponseBlock)]
    assert block.result == to_stored_result(value)
    for content in parsed:  # messages do not contain the model
        content.metadata |= {} if model is None else {"model": model}
    assert render(parsed, provider, ids="origin") == messages


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_file_of_a_rendered_result_is_parsed_back(provider: str) -> None:
    parsed = parse_messages(render(history(response(["Read:", PDF])), provider), provider)
    block = parsed[-1].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    assert block.result == to_stored_result(["Read:", PDF])


def test_parsed_gemini_messages_keep_all_text() -> None:
    messages = [
        {"role": "model", "parts": [{"functionCall": {"name": "see", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "see", "response": {"result": "ok"}, "parts": [INLINE_IMAGE]}}],
        },
    ]
    block = parse_messages(messages, "gemini")[1].blocks[0]
    assert isinstance(block, ToolResponseBlock)
    assert block.result == to_stored_result(["ok", IMAGE])


# ---------------------------------------------------------------- image parts of every form

FORMS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
    "mcp": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "chat": {"type": "image_url", "image_url": {"url": IMAGE.data}},
}


def with_question(*blocks: Any) -> list[Content]:
    return [*history(*blocks), Content.human("And?")]


def with_parts(form: str) -> list[Content]:
    result = [{"type": "text", "text": "a shot"}, FORMS[form]]
    return with_question(ToolResponseBlock(call_id=ID, name="see", result=result))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", providers.names())
def test_text_and_image_of_a_result_are_rendered_for_every_target(target: str, form: str) -> None:
    contents = with_parts(form)
    messages = json.dumps(render(contents, target))
    assert "a shot" in messages
    assert PIXEL in messages
    assert '\\"image' not in messages  # as an image, not as the text of one
    assert validate_request(target, render_request(contents, target)) == []


@pytest.mark.parametrize("target", ["cohere", "ollama"])
def test_image_next_to_a_result_is_put_into_a_user_message(target: str) -> None:
    contents = with_question(ToolResponseBlock(call_id=ID, name="see", result="a shot"), ImageBlock(data=IMAGE.data))
    changes: list[str] = []
    messages = render(contents, target, changes=changes)
    roles = [message["role"] for message in messages]
    assert roles[:4] == ["user", "assistant", "tool", "user"]
    assert PIXEL in json.dumps(messages[3])
    assert changes == ["put 1 image or file of a tool's result into a user message"]


def test_anthropic_parts_are_unchanged_for_anthropic() -> None:
    [_, _, message] = render(with_parts("anthropic"), "anthropic")
    assert message["content"][0]["content"] == [{"type": "text", "text": "a shot"}, FORMS["anthropic"]]


@pytest.mark.parametrize(
    "result", [[], [{"type": "text", "text": "x"}], [{"type": "image"}], [1, 2], {"type": "image"}]
)
def test_results_without_media_are_rendered_as_json(result: Any) -> None:
    contents = with_question(ToolResponseBlock(call_id=ID, name="see", result=result))
    [tool] = [message for message in render(contents, "openai_chat") if message["role"] == "tool"]
    assert json.loads(tool["content"]) == result


def test_history_is_not_modified() -> None:
    contents = with_parts("mcp")
    before = [content.model_dump() for content in contents]
    render(contents, "cohere")
    assert [content.model_dump() for content in contents] == before
