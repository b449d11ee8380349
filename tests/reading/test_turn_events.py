"""The events of a turn besides those of calls: its start, the ends of blocks, split characters, its choice, its end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_streams import block, chat, chat_call, message_end, message_start

from streamkit import Limits, Turn, UsageError, providers, render
from streamkit.events import (
    BlockEnded,
    BlockStarted,
    Failed,
    Finished,
    Reasoning,
    Refusal,
    ResponseStarted,
    Text,
    ToolCallDelta,
    TurnEvent,
    Warned,
)
from streamkit.history import Content

HALVES = ("\ud83d", "\ude00")


def read(turn: Turn, *chunks: dict[str, Any], **options: Any) -> list[TurnEvent]:
    seen = [event for chunk in chunks for event in turn.feed(chunk)]
    return seen + turn.close(**options)


def of_type(seen: list[TurnEvent], *kinds: type[TurnEvent]) -> list[TurnEvent]:
    return [event for event in seen if isinstance(event, kinds)]


# ---------------------------------------------------------------- the start of the response


def test_the_response_starts_when_the_wire_names_it() -> None:
    turn = Turn("anthropic", "t")
    assert turn.feed(message_start())[0] == ResponseStarted("msg_1", "m-1", provider="anthropic")
    assert of_type(read(turn, *message_end()), ResponseStarted) == []


def test_a_late_name_causes_no_second_start() -> None:
    turn = Turn("openai_chat", "t")
    seen = read(
        turn,
        {**chat({"content": "a"}), "model": "", "id": ""},
        {**chat({"content": "b"}, "stop"), "id": "c-1"},
    )
    assert [event.type for event in seen[:3]] == ["response_started", "block_started", "text"]
    assert seen[0] == ResponseStarted(None, None, provider="openai_chat")
    assert (turn.response_id, turn.model) == ("c-1", "m-1")


@pytest.mark.parametrize(
    "first",
    [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "a"}}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "x", "name": "f"}}}},
        {"messageStop": {"stopReason": "end_turn"}},
    ],
)
def test_a_wire_without_names_starts_before_its_first_content(first: dict[str, Any]) -> None:
    seen = read(Turn("bedrock_converse", "t"), {"messageStart": {"role": "assistant"}}, first, complete=True)
    assert seen[0] == ResponseStarted(None, None, provider="bedrock_converse")
    assert len(of_type(seen, ResponseStarted)) == 1


def test_a_response_that_only_failed_does_not_start() -> None:
    seen = read(Turn("openai_chat", "t"), {"error": {"message": "overloaded"}})
    assert [event.type for event in seen] == ["failed"]


# ---------------------------------------------------------------- the ends of blocks


def test_a_block_ends_where_the_wire_reports_it_with_its_signature_and_metadata() -> None:
    turn = Turn("anthropic", "t")
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "si"},
        {"type": "signature_delta", "signature": "gn"},
    )
    for chunk in [message_start(), *thinking[:-1]]:
        assert of_type(turn.feed(chunk), BlockEnded) == []
    assert turn.feed(thinking[-1]) == [BlockEnded("reasoning", signature="sign")]
    redacted = {"type": "redacted_thinking", "data": "x"}
    seen = [event for chunk in block(1, redacted) for event in turn.feed(chunk)]
    assert seen == [BlockStarted("reasoning", 1), BlockEnded("reasoning", 1, metadata={"opaque": redacted})]


def test_a_block_ends_where_another_begins_or_the_turn_is_closed() -> None:
    turn = Turn("openai_chat", "t")
    seen = read(
        turn,
        chat({"reasoning_content": "Hm."}),
        chat({"content": "Hi"}),
        chat({"content": "."}),
        chat_call("{}", id="a", name="f"),
        chat({"refusal": "No."}, "stop"),
        complete=True,
    )
    kinds = [event.kind for event in seen if isinstance(event, BlockEnded)]
    assert kinds == ["reasoning", "text", "refusal"]
    names = [event.type for event in seen]
    assert names.index("tool_call_start") > [at for at, name in enumerate(names) if name == "block_ended"][1]


def test_an_empty_block_has_no_end() -> None:
    seen = read(Turn("anthropic", "t"), message_start(), *block(0, {"type": "text", "text": ""}), *message_end())
    assert of_type(seen, BlockEnded) == []


# ---------------------------------------------------------------- split characters


@pytest.mark.parametrize(("field", "kind"), [("content", Text), ("reasoning_content", Reasoning), ("refusal", Refusal)])
def test_the_halves_of_a_character_are_one_event(field: str, kind: type[TurnEvent]) -> None:
    turn = Turn("openai_chat", "t")
    seen = read(
        turn,
        *(
            chat({field: text})
            for text in ("a", "b" + HALVES[0], HALVES[1] + "c", HALVES[0], HALVES[0], "d", HALVES[1])
        ),
        chat({field: "x" + HALVES[0] + "y" + HALVES[0]}, "stop"),
    )
    texts = [event.text for event in of_type(seen, kind)]  # type: ignore[attr-defined]
    assert texts == ["a", "b", "\U0001f600c", "\ufffd", "\ufffdd", "\ufffd", "x\ufffdy", "\ufffd"]
    names = [event.type for event in seen]
    assert names.index("block_ended") > max(at for at, event in enumerate(seen) if isinstance(event, kind))


def test_a_half_does_not_wait_for_another_block() -> None:
    turn = Turn("openai_chat", "t")
    seen = read(turn, chat({"content": HALVES[0]}), chat({"reasoning_content": HALVES[1]}, "stop"))
    assert [event.text for event in of_type(seen, Text, Reasoning)] == ["\ufffd", "\ufffd"]  # type: ignore[attr-defined]
    assert (turn.text, turn.reasoning) == ("\ufffd", "\ufffd")


def test_the_halves_of_a_character_in_arguments_are_one_delta() -> None:
    turn = Turn("openai_chat", "t")
    parts = ['{"q":"', HALVES[0], HALVES[1] + "b", "c" + HALVES[0], "d", '"}']
    first, *rest = parts
    seen = read(turn, chat_call(first, id="a", name="f"), *(chat_call(text) for text in rest), complete=True)
    deltas = [event.arguments_delta for event in of_type(seen, ToolCallDelta)]  # type: ignore[attr-defined]
    assert deltas == ['{"q":"', "\U0001f600b", "c", "\ufffdd", '"}']
    assert turn.calls[0].arguments_text == "".join(deltas)
    assert turn.calls[0].arguments == {"q": "\U0001f600b" + "c\ufffdd"}


def test_a_half_at_the_end_of_arguments_is_replaced_before_the_call_ends() -> None:
    turn = Turn("openai_chat", "t")
    seen = read(turn, chat_call('{"q":"' + HALVES[0], id="a", name="f"))
    names = [event.type for event in seen if event.type.startswith("tool_call")]
    assert names == ["tool_call_start", "tool_call_delta", "tool_call_delta", "tool_call_end", "tool_call_ready"]
    assert turn.calls[0].arguments_text == '{"q":"\ufffd'


def test_no_text_of_an_event_has_half_a_character() -> None:
    name, half = f"f{HALVES[0]}", HALVES[1]
    turn = Turn("openai_chat", "t")
    seen = read(
        turn,
        {**chat(), "id": half, "model": half},
        chat_call("[" + half, id="a", name=name),
        chat({"images": [{"image_url": {"url": "https://x/" + half}}]}),
        chat({}, f"odd{half}"),
        {"error": {"message": f"no{half}"}},
    )
    for event in seen:
        values = list(_strings(event))
        for value in values:
            value.encode("utf-8")


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if hasattr(value, "__struct_fields__"):
        fields = [field for field in value.__struct_fields__ if field not in ("raw", "raw_id", "metadata")]
        return [text for field in fields for text in _strings(getattr(value, field))]
    return [text for item in value for text in _strings(item)] if isinstance(value, (list, tuple)) else []


# ---------------------------------------------------------------- the turn's choice


def test_the_turns_choice_is_the_first_that_sends_anything_until_choice_0_does() -> None:
    turn = Turn("openai_chat", "t")
    turn.feed(chat({"role": "assistant", "content": ""}, index=2))
    assert (turn.index, turn.text) == (0, "")
    turn.feed(chat({"content": "one"}, index=1))
    turn.feed(chat({"content": "two"}, index=2))
    assert (turn.index, turn.text) == (1, "one")
    turn.feed(chat({"content": "zero"}, "stop"))
    assert (turn.index, turn.text) == (0, "zero")
    turn.feed(chat({}, "stop", index=1))
    turn.feed(chat({}, "stop", index=2))
    turn.close(complete=True)
    assert (turn.index, turn.text, turn.warnings) == (0, "zero", [])


def test_all_of_the_turn_follows_its_choice() -> None:
    turn = Turn("openai_chat", "t")
    call = chat_call('{"x":1}', id="a", name="f")
    call["choices"][0]["index"] = 3
    other = chat_call('{"x":', index=1, id="b", name="f")
    other["choices"][0]["index"] = 3
    turn.feed(chat({"content": "Hi."}, index=3))
    turn.feed(call)
    turn.feed(other)
    assert turn.completed_call(0) is None  # choice 0 could still send something, so nothing starts early
    seen = read(turn, chat({}, "tool_calls", index=3))
    assert (turn.index, turn.text, [call.raw_id for call in turn.calls]) == (3, "Hi.", ["a", "b"])
    assert [call.raw_id for call in turn.executable] == ["a"]
    assert turn.finish is not None
    assert turn.finish.reason == "tool_calls"
    assert [block.type for block in turn.content.blocks] == ["text", "tool_call", "tool_call"]
    assert turn.error is None
    (warned,) = of_type(seen, Warned)
    assert warned == Warned("other_choice", "choice 0 sent nothing, so choice 3 is the turn's", 3)


def test_the_turns_choice_confirms_it() -> None:
    turn = Turn("openai_chat", "t")
    read(turn, chat({"content": "Hi."}, "stop", index=1), error=ConnectionResetError("peer"))
    assert turn.error is None
    assert [warning.code for warning in turn.warnings] == ["other_choice", "transport_error"]


def test_a_call_of_any_choice_is_found_by_its_id() -> None:
    turn = Turn("openai_chat", "t")
    second = chat_call("{}", id="b", name="g")
    second["choices"][0]["index"] = 1
    read(turn, chat_call("{}", id="a", name="f"), second, chat({}, "stop"), chat({}, "stop", index=1))
    for view in turn.choices:
        (call,) = view.calls
        assert turn.call(call.id) == view.call(call.id) == call
    with pytest.raises(UsageError, match="has no call 'x'"):
        turn.call("x")
    with pytest.raises(UsageError, match="has no call"):
        turn.choices[0].call(turn.choices[1].calls[0].id)


@pytest.mark.parametrize("index", ["0", 0.0, 0, -1, True, None, 1.5, "x", [], {}])
@pytest.mark.parametrize("markup", ["keep", "strip"])
def test_the_number_of_a_choice_is_an_index_or_absent(index: Any, markup: Any) -> None:
    turn = Turn("openai_chat", "t", leaked_markup=markup)
    choice = (turn._markup or turn._accumulator).choice
    choice(0).text("a")
    choice(index).text("b")
    turn.close(complete=True)
    assert turn.text == "ab"


@pytest.mark.parametrize("index", ["1", 1.0, "1.0"])
def test_equal_numbers_are_one_choice(index: Any) -> None:
    turn = Turn("openai_chat", "t")
    choice = (turn._markup or turn._accumulator).choice
    choice(1).text("a")
    choice(index).text("b")
    assert turn.choices[1].text == "ab"


# ---------------------------------------------------------------- the end


def test_a_failure_at_the_close_comes_after_the_ends_that_it_causes() -> None:
    seen = read(Turn("openai_chat", "t"), chat({"content": "Hi"}), error=ConnectionResetError("peer"))
    assert [event.type for event in seen] == ["response_started", "block_started", "text", "block_ended", "failed"]


def test_a_finish_besides_an_error_is_emitted_after_it() -> None:
    turn = Turn("openai_chat", "t")
    seen = read(turn, chat({"content": "Hi"}), {"error": {"message": "broken"}}, chat({}, "stop"))
    assert [event.type for event in of_type(seen, Failed, Finished)] == ["failed", "finished"]
    assert turn.finish is not None
    assert turn.executable == []


# ---------------------------------------------------------------- the content


def test_content_is_json_whatever_the_wire_sent() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd" + HALVES[0]

    odd = {"nan": float("nan"), "inf": [float("-inf")], "half": "x" + HALVES[0], 1: (HALVES[0] + HALVES[1],)}
    odd |= {"large": 10**5000, "object": Odd(), HALVES[1]: b"bytes", "true": True, "int": 10**4000}
    turn = Turn("openai_chat", "t")
    call = chat_call("{}", id="a" + HALVES[0], name="f")
    call["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = odd
    read(turn, chat({"content": [{"type": "odd", **odd}]}), chat({"annotations": [odd]}), call, chat({}, "stop"))
    content = turn.content
    assert Content.model_validate_json(content.model_dump_json()) == content
    raw = content.blocks[0].raw  # type: ignore[union-attr]
    assert raw == {
        "type": "odd",
        "nan": None,
        "inf": [None],
        "half": "x\ufffd",
        "1": ["\U0001f600"],
        "large": None,
        "object": "odd\ufffd",
        "\ufffd": "b'bytes'",
        "true": True,
        "int": 10**4000,
    }
    for name in providers.names():
        json.dumps(render([content], name, unsupported="drop"), allow_nan=False).encode()


def test_arguments_that_are_too_deep_to_be_read_again_are_kept_as_text() -> None:
    turn = Turn("openai_chat", "t", limits=Limits(nesting=256))
    for depth in (100, 250):
        text = '{"a":' * depth + "1" + "}" * depth
        turn.feed(chat_call(text, index=depth, id=f"c{depth}", name="f"))
    read(turn, chat({}, "tool_calls"))
    assert len(turn.executable) == 2
    content = Content.model_validate_json(turn.content.model_dump_json())
    first, second = content.blocks
    assert first.parameters == turn.calls[0].arguments  # type: ignore[union-attr]
    assert second.parameters == {}  # type: ignore[union-attr]
    assert second.metadata["raw_arguments"] == turn.calls[1].arguments_text  # type: ignore[union-attr]


def test_a_citation_of_a_response_without_text_is_kept() -> None:
    turn = Turn("openai_chat", "t")
    read(turn, chat({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://x"}}]}, "stop"))
    (kept,) = turn.content.blocks
    assert (kept.type, kept.text) == ("text", "")  # type: ignore[union-attr]
    assert len(kept.metadata["citations"]) == 1
