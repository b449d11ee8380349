"""History as Gemini's contents: roles, calls and results, signatures, media; validated by google-genai's types."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from rendering import request_of

from streamkit import providers
from streamkit.errors import UnsupportedContent
from streamkit.history import (
    Content,
    FileBlock,
    ImageBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerToolBlock,
    TextBlock,
    ToolCallBlock,
    ToolResponseBlock,
)
from streamkit.providers.provider import RenderedMessages
from streamkit.providers.requests.models.gemini import SKIP_SIGNATURE
from streamkit.tools import Tool

GEMINI = providers.get("gemini")

OWN = {"provider": "gemini"}
FOREIGN = {"provider": "anthropic"}
_types: Any = importlib.import_module("google.genai.types")
CONTENTS = TypeAdapter(list[_types.Content])


def render(*contents: Content) -> RenderedMessages:
    rendered = GEMINI.render(contents)
    CONTENTS.validate_python(rendered.messages)
    json.dumps(rendered.messages)
    return rendered


def messages(*contents: Content) -> list[dict[str, Any]]:
    return render(*contents).messages


def call(id: str = "hist_tool_1", name: str = "w", *, own: bool = True, **metadata: Any) -> ToolCallBlock:
    origin = OWN if own else FOREIGN
    return ToolCallBlock(id=id, name=name, parameters={"a": 1}, metadata={**origin, **metadata})


def result(call_id: str = "hist_tool_1", **fields: Any) -> Content:
    return Content(speaker="tool", blocks=[ToolResponseBlock(call_id=call_id, **fields)])


# ---------------------------------------------------------------- messages


def test_system_text_is_separate_and_roles_are_user_and_model() -> None:
    rendered = render(Content.system("Be brief."), Content.system("Be kind."), Content.human("Hi"), Content.ai("Hello"))
    assert rendered.system == "Be brief.\n\nBe kind."
    assert rendered.messages == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [{"text": "Hello"}]},
    ]
    assert rendered.changes == []


def test_consecutive_messages_of_one_role_are_one_content() -> None:
    assert messages(Content.human("a"), Content.human("b")) == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    ]


def test_empty_texts_are_left_out() -> None:
    assert messages(Content.human("a"), Content(speaker="ai", blocks=[TextBlock(text="")]), Content.human("b")) == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    ]


def test_blocks_without_a_form_are_left_out_and_reported() -> None:
    rendered = render(
        Content(speaker="narrator", blocks=[TextBlock(text="x")]),
        Content.model_validate({"speaker": "human", "blocks": [{"type": "smell"}]}),
        Content.human("Hi"),
        Content.system("late"),
        Content(speaker="ai", blocks=[OpaqueBlock(raw={"x": 1}, metadata=FOREIGN), ReasoningBlock(text="Hm.")]),
        Content.model_validate({"speaker": "ai", "blocks": [{"type": "smell"}]}),
    )
    assert rendered.messages == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert rendered.system == "late"
    assert len(rendered.changes) == 6


# ---------------------------------------------------------------- calls and results


def test_all_calls_are_in_one_content_and_all_results_in_the_next_in_call_order() -> None:
    assert messages(
        Content.human("Hi"),
        Content(speaker="ai", blocks=[call("1", "x"), call("2", "y")]),
        result("2", result="two"),
        result("1", result={"t": 21}),
        Content.human("and?"),
    ) == [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "x", "args": {"a": 1}}},
                {"functionCall": {"name": "y", "args": {"a": 1}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "x", "response": {"t": 21}}},
                {"functionResponse": {"name": "y", "response": {"result": "two"}}},
                {"text": "and?"},
            ],
        },
    ]


def test_an_id_is_sent_back_only_if_gemini_sent_one() -> None:
    blocks = [call("1", raw_id="g1"), call("2"), call("3", own=False, raw_id="toolu_1")]
    model, user = messages(
        Content(speaker="ai", blocks=list(blocks)), *[result(number, result=number) for number in ("1", "2", "3")]
    )
    assert [part["functionCall"].get("id") for part in model["parts"]] == ["g1", None, None]
    assert [part["functionResponse"].get("id") for part in user["parts"]] == ["g1", None, None]


def test_results_of_calls_with_one_id_are_paired_in_order() -> None:
    _, user = messages(
        Content(speaker="ai", blocks=[call("1", "x"), call("1", "y")]), result("1", result="a"), result("1", result="b")
    )
    assert [part["functionResponse"]["name"] for part in user["parts"]] == ["x", "y"]


def test_a_result_without_its_call_has_the_name_of_its_function() -> None:
    assert messages(result("9", name="w", result=1)) == [
        {"role": "user", "parts": [{"functionResponse": {"name": "w", "response": {"result": 1}}}]}
    ]
    assert messages(result("9", result=1))[0]["parts"][0]["functionResponse"]["name"] == "unnamed"


@pytest.mark.parametrize(
    ("fields", "response"),
    [
        ({"result": None}, {"result": None}),
        ({"result": [1, 2]}, {"result": [1, 2]}),
        ({"result": {"a": 1}, "status": "completed"}, {"a": 1}),
        ({"error": "It failed."}, {"error": "It failed."}),
        ({"result": "Denied.", "status": "denied"}, {"error": "Denied."}),
        ({"result": {"why": 1}, "status": "error"}, {"error": '{"why":1}'}),
        ({"status": "timed_out"}, {"error": "The call did not complete: timed_out."}),
    ],
)
def test_results_are_objects(fields: dict[str, Any], response: dict[str, Any]) -> None:
    (message,) = messages(result("1", name="w", **fields))
    assert message["parts"][0]["functionResponse"]["response"] == response


def test_free_text_and_illegal_names_are_converted_and_reported() -> None:
    rendered = render(
        Content(
            speaker="ai", blocks=[ToolCallBlock(id="1", name="my tool!", kind="custom", parameters="ls", metadata=OWN)]
        ),
        result("1", result="x"),
    )
    assert rendered.messages[0]["parts"] == [{"functionCall": {"name": "my_tool_", "args": {"input": "ls"}}}]
    assert rendered.messages[1]["parts"][0]["functionResponse"]["name"] == "my_tool_"
    assert len(rendered.changes) == 2


# ---------------------------------------------------------------- signatures


def signatures(message: dict[str, Any]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in message["parts"]]


def test_signatures_are_sent_back_on_their_own_parts() -> None:
    blocks = [
        TextBlock(text="Looking.", metadata={**OWN, "thoughtSignature": "SIG0"}),
        call("1", thoughtSignature="SIG1"),
        call("2", thoughtSignature="SIG2"),
        TextBlock(text="", metadata={**OWN, "thoughtSignature": "SIG9"}),
    ]
    (model,) = messages(Content(speaker="ai", blocks=list(blocks)))
    assert signatures(model) == ["SIG0", "SIG1", "SIG2", "SIG9"]
    assert model["parts"][-1] == {"text": "", "thoughtSignature": "SIG9"}


def test_only_the_first_foreign_call_of_a_step_skips_the_check() -> None:
    step = Content(speaker="ai", blocks=[call("1", own=False), call("2", own=False)])
    other = Content(speaker="ai", blocks=[TextBlock(text="a"), ToolCallBlock(id="3", name="w")])
    rendered = messages(step, result("1", result=1), result("2", result=2), other)
    assert signatures(rendered[0]) == [SKIP_SIGNATURE, None]
    assert signatures(rendered[2]) == [None, SKIP_SIGNATURE]


def test_the_models_own_calls_get_no_signature_value() -> None:
    assert signatures(messages(Content(speaker="ai", blocks=[call("1"), call("2", own=False)]))[0]) == [None, None]
    signed = [call("1", thoughtSignature="SIGN"), call("2", own=False)]
    assert signatures(messages(Content(speaker="ai", blocks=list(signed)))[0]) == ["SIGN", None]


def test_an_own_call_that_lost_its_signature_skips_the_check() -> None:
    """A client may keep the state of reasoning and lose that of calls: strands-agents drops redacted thinking."""
    model = "gemini-3-pro-preview"
    origin = {"provider": "gemini", "model": model}
    calls = [ToolCallBlock(id=each, name="w", metadata=origin) for each in ("1", "2")]
    asked = [Content.human("?"), Content(speaker="ai", blocks=[*calls], metadata=origin)]
    assert signatures(GEMINI.render(asked, model=model).messages[1]) == [SKIP_SIGNATURE, None]


@pytest.mark.parametrize(("model", "signed"), [("gemini-2.5-flash", True), ("gemini-3-pro", False), (None, False)])
def test_unsigned_calls_of_an_older_model_skip_the_check_of_newer_ones(model: str | None, signed: bool) -> None:
    asking = Content(speaker="ai", blocks=[call("a"), call("b")], metadata={"provider": "gemini", "model": model})
    assert signatures(messages(Content.human("?"), asking)[1]) == [SKIP_SIGNATURE if signed else None, None]
    asking.blocks[0].metadata["thoughtSignature"] = "c2ln"
    assert signatures(messages(Content.human("?"), asking)[1]) == ["c2ln", None]


def test_a_request_that_begins_with_a_call_has_a_user_content_before_it() -> None:
    asking, answering = Content.ai("", call("a", own=False)), result("a", result=1)
    contents = providers.render_request([asking, answering], "gemini")["contents"]
    assert contents[0] == {"role": "user", "parts": [{"text": "(continued)"}]}
    assert contents[1:] == messages(asking, answering)
    without_calls = [Content.ai("Hello."), Content.human("Hi.")]
    assert providers.render_request(without_calls, "gemini")["contents"] == messages(*without_calls)


def test_foreign_signatures_are_not_replayed() -> None:
    block = TextBlock(text="a", metadata={**FOREIGN, "thoughtSignature": "SIGN"})
    empty = TextBlock(text="", metadata={**FOREIGN, "thoughtSignature": "SIGN"})
    assert messages(Content(speaker="ai", blocks=[block, empty])) == [{"role": "model", "parts": [{"text": "a"}]}]


def test_only_geminis_signed_thoughts_are_sent_back() -> None:
    rendered = render(
        Content(
            speaker="ai",
            blocks=[
                ReasoningBlock(text="plain", metadata=OWN),
                ReasoningBlock(text="signed", metadata={**OWN, "thoughtSignature": "SIGN"}),
                ReasoningBlock(text="foreign", signature="A", metadata=FOREIGN),
            ],
        )
    )
    assert rendered.messages[0]["parts"] == [{"text": "signed", "thought": True, "thoughtSignature": "SIGN"}]
    assert len(rendered.changes) == 1


def test_geminis_own_parts_are_sent_back_unchanged_and_in_order() -> None:
    call_part = {"toolCall": {"toolType": "FILE_SEARCH", "id": "t"}, "thoughtSignature": "SIGN"}
    response_part = {"toolResponse": {"toolType": "FILE_SEARCH", "id": "t"}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "TSIG"}
    blocks = [
        ServerToolBlock(id="t", name="FILE_SEARCH", raw=[call_part, response_part], metadata=OWN),
        OpaqueBlock(raw=code, metadata=OWN),
        FileBlock(media_type="image/png", data="aGk=", metadata={**OWN, "raw": image}),
    ]
    (model,) = messages(Content(speaker="ai", blocks=list(blocks)))
    assert model["parts"] == [call_part, response_part, code, image]
    odd = render(Content(speaker="ai", blocks=[OpaqueBlock(raw="no part", metadata=OWN)]))
    assert (odd.messages, odd.changes) == ([], ["a block of type 'opaque' was left out: it is malformed"])
    (empty,) = messages(Content(speaker="ai", blocks=[ImageBlock(data="gs://b/o", metadata=OWN)]))
    assert empty["parts"] == [{"fileData": {"fileUri": "gs://b/o"}}]
    foreign = [block.model_copy(update={"metadata": FOREIGN}) for block in blocks]
    rendered = render(Content(speaker="ai", blocks=foreign))
    assert rendered.messages[0]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    assert len(rendered.changes) == 2


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "text",
        3,
        [],
        [{"text": "x"}],
        {},
        {"text": 5},
        {"text": "x", "thoughtSignature": 5},
        {"functionCall": "f"},
        {"functionCall": {}},
        {"functionCall": {"name": None, "args": {}}},
        {"functionResponse": {"response": {}}},
        {"inlineData": {}},
        {"inlineData": {"mimeType": "image/png", "data": None}},
        {"inlineData": [1]},
        {"fileData": {"mimeType": "image/png"}},
        {"executableCode": {"language": "PYTHON"}},
        {"codeExecutionResult": "OUTCOME_OK"},
        {"toolCall": 1},
    ],
)
def test_a_malformed_part_of_the_providers_own_is_left_out_and_reported(raw: Any) -> None:
    human = Content.human("Hi")
    rendered = render(human, Content(speaker="ai", blocks=[OpaqueBlock(raw=raw, metadata=OWN)]), human)
    assert [message["role"] for message in rendered.messages] == ["user"]
    assert rendered.changes == ["a block of type 'opaque' was left out: it is malformed"]
    good = {"executableCode": {"language": "PYTHON", "code": "1"}}
    mixed = ServerToolBlock(name="code_execution", raw=[raw, good], metadata=OWN)
    rendered = render(human, Content(speaker="ai", blocks=[mixed]))
    assert rendered.messages[1]["parts"] == [good]
    assert rendered.changes == ["a malformed part of a tool of the provider's was left out"]


@pytest.mark.parametrize("raw", [None, 5, [], {"inlineData": 3}, {"fileData": {}}, {"text": []}])
def test_a_file_with_a_malformed_part_is_sent_as_what_it_is(raw: Any) -> None:
    file = FileBlock(media_type="image/png", data="aGk=", metadata={**OWN, "raw": raw})
    (model,) = messages(Content(speaker="ai", blocks=[file]))
    assert model["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]


# ---------------------------------------------------------------- images and files


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (ImageBlock(data="data:image/PNG;base64,aGk="), {"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
        (
            ImageBlock(data="https://x.org/a.JPG?x=1.png"),
            {"fileData": {"fileUri": "https://x.org/a.JPG?x=1.png", "mimeType": "image/jpeg"}},
        ),
        (
            ImageBlock(data="data:image/webp,%3Csvg%3E"),
            {"inlineData": {"mimeType": "image/webp", "data": "PHN2Zz4="}},
        ),
        (ImageBlock(data="gs://b/o"), {"fileData": {"fileUri": "gs://b/o"}}),
        (
            FileBlock(media_type="application/pdf", data="aGk="),
            {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
        ),
        (FileBlock(data="data:text/csv;base64,aGk="), {"inlineData": {"mimeType": "text/csv", "data": "aGk="}}),
        (FileBlock(url="data:text/csv;base64,aGk="), {"inlineData": {"mimeType": "text/csv", "data": "aGk="}}),
        (
            FileBlock(media_type="video/mp4", url="https://x.org/v"),
            {"fileData": {"fileUri": "https://x.org/v", "mimeType": "video/mp4"}},
        ),
    ],
)
def test_images_and_files(block: Any, part: dict[str, Any]) -> None:
    assert messages(Content.human("", block)) == [{"role": "user", "parts": [part]}]
    assert messages(Content.ai("", block)) == [{"role": "model", "parts": [part]}]


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(data="aGk="),
        ImageBlock(data="file:///etc/passwd"),
        FileBlock(data="aGk="),
        FileBlock(media_type="application/pdf"),
        FileBlock(media_type="application/pdf", url="ftp://x"),
    ],
)
def test_media_that_gemini_does_not_accept_raises(block: Any) -> None:
    with pytest.raises(UnsupportedContent):
        GEMINI.render([Content.human("", block)])


# ---------------------------------------------------------------- the request


def tool(name: str = "w", description: str = "Weather.") -> Tool:
    return Tool(name=name, description=description, parameters={"type": "object", "properties": {}})


def test_the_request_has_the_fields_that_the_conversation_decides() -> None:
    body = request_of(GEMINI, [Content.system("Be brief."), Content.human("Hi")], tools=[tool()], tool_choice="auto")
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "w",
                        "description": "Weather.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }
    TypeAdapter(list[_types.Tool]).validate_python(body["tools"])
    _types.ToolConfig.model_validate(body["toolConfig"])


def test_absent_fields_are_left_out_of_the_request() -> None:
    assert request_of(GEMINI, [Content.human("Hi")], tool_choice="required") == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]
    }
    body = request_of(GEMINI, [Content.human("Hi")], tools=[tool(description="")])
    assert "toolConfig" not in body
    assert "description" not in body["tools"][0]["functionDeclarations"][0]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("w", {"mode": "ANY", "allowedFunctionNames": ["w"]}),
    ],
)
def test_tool_choices(choice: str, config: dict[str, Any]) -> None:
    body = request_of(GEMINI, [Content.human("Hi")], tools=[tool()], tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_the_provider_is_registered_by_its_name() -> None:
    assert providers.render([Content.human("Hi")], "gemini") == [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert providers.get("gemini").traits.batched_results


# ---------------------------------------------------------------- any history

ORIGINS = st.sampled_from([OWN, FOREIGN, {}, {**OWN, "thoughtSignature": "U2ln"}, {**OWN, "raw_id": "r1"}])
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=4), st.lists, max_leaves=3)
IDS = st.sampled_from(["1", "2", "3"])
BLOCKS = (
    st.builds(TextBlock, text=st.text(max_size=4), metadata=ORIGINS)
    | st.builds(ReasoningBlock, text=st.text(max_size=4), metadata=ORIGINS)
    | st.builds(ToolCallBlock, id=IDS, name=st.text(max_size=4), parameters=st.just({"a": 1}), metadata=ORIGINS)
    | st.builds(ToolResponseBlock, call_id=IDS, result=JSON, error=st.none() | st.text(max_size=3))
    | st.builds(ImageBlock, data=st.just("data:image/png;base64,aGk="))
    | st.builds(OpaqueBlock, raw=st.just({"text": "x"}), metadata=ORIGINS)
)
HISTORY = st.lists(
    st.builds(
        Content,
        speaker=st.sampled_from(["human", "ai", "tool", "system"]),
        blocks=st.lists(BLOCKS, max_size=4),
    ),
    max_size=5,
)


@given(HISTORY)
def test_any_history_renders_to_contents_that_the_sdk_accepts(history: list[Content]) -> None:
    rendered = render(*history)
    roles = [message["role"] for message in rendered.messages]
    assert all(a != b for a, b in pairwise(roles))
    assert all(message["parts"] for message in rendered.messages)
    for message in rendered.messages:
        results = ["functionResponse" in part for part in message["parts"]]
        assert results == sorted(results, reverse=True)


@pytest.mark.parametrize("signature", ["no base64!", "é", "QQ==QQ==", "=", "A", "QQ=A"])
def test_a_signature_that_is_no_base64_is_left_out_with_a_sentence(signature: str) -> None:
    sentence = "a thought signature was left out: it is no base64, so Gemini refuses it"
    part = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": signature}
    blocks = [
        TextBlock(text="Looking.", metadata={**OWN, "thoughtSignature": signature}),
        ReasoningBlock(text="Hm.", metadata={**OWN, "thoughtSignature": signature}),
        call("1", thoughtSignature=signature),
        ServerToolBlock(id="s", name="code_execution", raw=[part], metadata=OWN),
    ]
    for block in blocks:
        rendered = render(Content(speaker="ai", blocks=[block]))
        sent = [part for message in rendered.messages for part in message["parts"]]
        assert all("thoughtSignature" not in part for part in sent)
        assert len(sent) == (0 if isinstance(block, ReasoningBlock) else 1)
        assert rendered.changes[0] == sentence


@pytest.mark.parametrize("signature", ["QQ==", "QQ", "-_-_", "+/+/", SKIP_SIGNATURE])
def test_a_signature_in_any_form_of_base64_is_sent_back_unchanged(signature: str) -> None:
    rendered = render(Content(speaker="ai", blocks=[call("1", thoughtSignature=signature)]))
    assert (signatures(rendered.messages[0]), rendered.changes) == ([signature], [])


def test_a_call_whose_signature_is_no_base64_skips_the_check_of_newer_models() -> None:
    model = "gemini-3-pro-preview"
    block = ToolCallBlock(id="1", name="w", metadata={**OWN, "model": model, "thoughtSignature": "no base64!"})
    asked = [Content.human("?"), Content(speaker="ai", blocks=[block], metadata={**OWN, "model": model})]
    assert signatures(GEMINI.render(asked, model=model).messages[1]) == [SKIP_SIGNATURE]
