"""Items of Responses to history, and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from imported_messages import PNG, SPOKEN, Json, calls_of, compact, results_of, rounds

from streamkit.history import OpaqueBlock, ServerToolBlock, TextBlock
from streamkit.providers import parse_messages, render


def test_responses_keeps_reasoning_with_its_call_and_unknown_items() -> None:
    provider_messages: list[Json] = [
        {"role": "user", "content": "?"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_9", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "call_9", "output": {"type": "computer_screenshot"}},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "sh", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "a b"},
    ]  # fmt: skip
    contents = parse_messages(provider_messages, "openai_responses")
    assert contents[1].blocks[0].text == "hm"
    assert [call.kind for call in calls_of(contents)] == ["function", "function", "custom"]
    assert render(contents, "openai_responses", ids="origin") == provider_messages


def test_responses_roles_and_outputs_of_several_parts_are_parsed() -> None:
    text, image = {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PNG}
    said: list[Any] = ["plain", {"type": "input_image", "file_id": "f"}, {"type": "input_file", "file_id": "f"}, 3]
    contents = parse_messages(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": said},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "odd"}]},
            {"type": "function_call_output", "call_id": "1", "output": [text, text]},
            {"type": "function_call_output", "call_id": "2", "output": [text, image]},
            {"type": "function_call_output", "call_id": "3", "output": [{"type": "input_file"}]},
            {"type": "program_output", "call_id": "4", "result": 5},
            {"role": "robot", "content": "?"},
        ],
        "openai_responses",
        system=["Be kind.", 3],
    )
    assert [content.speaker for content in contents] == ["system", "system", "human", "ai", "tool", "ai", "robot"]
    own = {"provider": "openai_responses"}
    stored = {"words": "[a stored file with the id f, which cannot be read here]"} | own
    assert contents[2].blocks == [
        TextBlock(text="plain"),
        *[OpaqueBlock(raw={"content": [part]}, metadata=stored) for part in said[1:3]],
        OpaqueBlock(raw={"content": [3]}, metadata=own),
    ]
    assert contents[3].blocks == [
        TextBlock(text="No.", metadata=own | {"refusal": True}),
        OpaqueBlock(raw={"content": [{"type": "odd"}]}, metadata=own),
    ]
    assert [result.result for result in results_of(contents)] == [
        "see\nsee",
        [{"type": "text", "text": "see"}, {"type": "image", "data": PNG}],
        [{"type": "input_file"}],
    ]
    (ran,) = contents[5].blocks
    assert isinstance(ran, ServerToolBlock)
    assert (ran.id, ran.name, ran.result) == ("4", "program", 5)


@given(rounds(), st.data())
def test_responses_messages_round_trip(drawn_rounds: Any, data: st.DataObject) -> None:
    provider_messages: list[Json] = [{"role": "system", "content": data.draw(SPOKEN)}, {"role": "user", "content": "?"}]
    for number, (text, calls, question) in enumerate(drawn_rounds):
        has_id = data.draw(st.booleans())
        if has_id:
            provider_messages.append(
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "E"}
            )
        if text and has_id:
            parts = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"id": f"msg_{number}", "status": "completed", "content": parts}
            provider_messages.append({"type": "message", "role": "assistant", **message})
        elif text:
            provider_messages.append({"type": "message", "role": "assistant", "content": text})
        outputs: list[Json] = []
        for call_id, name, arguments, result in calls:
            custom = data.draw(st.booleans())
            kind, field, own_id = (
                ("custom_tool_call", "input", f"ctc_{call_id}")
                if custom
                else ("function_call", "arguments", f"fc_{call_id}")
            )
            item = {"type": kind, "call_id": call_id, "name": name, field: compact(arguments)}
            provider_messages.append(item | ({"id": own_id} if has_id else {}))
            picture = [{"type": "input_image", "image_url": PNG, "detail": "auto"}]
            output = data.draw(st.sampled_from([result, picture]))
            outputs.append({"type": f"{kind}_output", "call_id": call_id, "output": output})
        provider_messages += outputs
        question_parts = [
            {"type": "input_text", "text": question},
            data.draw(
                st.sampled_from(
                    [
                        {"type": "input_image", "image_url": PNG, "detail": "auto"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                        {"type": "input_file", "file_url": "https://a/b.pdf"},
                    ]
                )
            ),
        ]
        provider_messages.append({"role": "user", "content": data.draw(st.sampled_from([question, question_parts]))})
    assert (
        render(parse_messages(provider_messages, "openai_responses"), "openai_responses", ids="origin")
        == provider_messages
    )
