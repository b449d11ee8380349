"""Leaked markup of every family: kept, stripped, recovered."""

from __future__ import annotations

from typing import Any

import pytest
from reading.leaked_markup.markup_samples import (
    ARGUMENTS,
    FAMILIES,
    INVALID_MARKUP,
    chat_turn,
    dsml,
    invocation,
    split_text,
    warning_codes,
)
from shared_data import recorded_streams
from wire_streams import block, chat, gemini, message_end, message_start

from streamkit import Limits, Turn, UsageError
from streamkit.accumulator import Accumulator
from streamkit.accumulator.limits import WireTraits
from streamkit.calls import StreamError, Usage
from streamkit.events import BlockStarted, NormalizedToolChunk, Text, ToolCallStart
from streamkit.providers import dialect
from streamkit.reading.leaked_markup import MarkupSink


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_recover_turns_the_markup_of_each_family_into_a_call(family: str, size: int) -> None:
    turn = chat_turn(split_text(f"Let me see < all.\n{FAMILIES[family]}", size))
    assert turn.text == "Let me see < all.\n"
    (call,) = turn.calls
    assert (call.name, call.arguments, call.state) == ("look_up", ARGUMENTS, "complete")
    assert turn.executable == [call]
    assert turn.finish is not None
    assert (turn.finish.reason, turn.finish.raw) == ("tool_calls", "stop")
    assert warning_codes(turn) == ["leaked_markup"]
    assert turn.error is None


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_strip_removes_the_markup_of_each_family_from_the_text(family: str, size: int) -> None:
    turn = chat_turn(split_text(f"Let me see.{FAMILIES[family]}", size), "strip")
    assert (turn.text, turn.calls, warning_codes(turn)) == ("Let me see.", [], ["leaked_markup"])
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


@pytest.mark.parametrize("family", FAMILIES)
def test_keep_is_the_default_and_changes_nothing(family: str) -> None:
    turn = Turn("openai_chat", turn_key="turn-1")
    events = turn.feed(chat({"content": FAMILIES[family]}))
    assert events[1:] == [BlockStarted("text"), Text(FAMILIES[family])]
    turn.close(complete=True)
    assert (turn.text, turn.calls, turn.warnings) == (FAMILIES[family], [], [])


def test_keep_adds_no_sink_between_parser_and_accumulator() -> None:
    for turn, sink in ((Turn("openai_chat"), Accumulator), (Turn("openai_chat", leaked_markup="strip"), MarkupSink)):
        turn.feed(b"")
        assert type(turn._parser._sink) is sink  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["Strip", "", None, True])
def test_an_unknown_mode_is_a_usage_error_that_lists_the_modes(mode: Any) -> None:
    with pytest.raises(UsageError, match="'keep', 'strip', 'recover'"):
        Turn("openai_chat", leaked_markup=mode)


@pytest.mark.parametrize("family", ["dsml", "kimi", "qwen"])
def test_one_section_can_contain_several_calls(family: str) -> None:
    text = {
        "dsml": dsml(invocation("f", n=1), invocation("g")),
        "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        '{"n": 1}<|tool_call_end|>\n<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|><|tool_call_end|>'
        "<|tool_calls_section_end|>",
        "qwen": "<tool_call><function=f><parameter=n>1</parameter></function><function=g></function></tool_call>",
    }[family]
    turn = chat_turn([text])
    assert [(call.name, call.state, call.ended) for call in turn.calls] == [
        ("f", "complete", True),
        ("g", "complete", True),
    ]
    assert turn.calls[1].arguments == {}
    assert turn.text == ""


@pytest.mark.parametrize("text", INVALID_MARKUP)
def test_markup_that_does_not_parse_stays_text(text: str) -> None:
    for size in (1, 5, 10_000):
        turn = chat_turn(split_text(f"A. {text} Z.", size))
        assert turn.text == f"A. {text} Z."
        assert turn.calls == []
        assert set(warning_codes(turn)) <= {"broken_markup"}


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("Use <tool_call> tags.", False),
        ("<tool_call>{x}</tool_call>", False),
        ('<tool_call>{"name": }</tool_call>', True),
        (dsml(invocation("f", a=1).replace(">1<", ">one<")), True),
        ("<|tool_call_end|>", True),
        ("<function=f>prose", True),
        ("<function_calls>prose", False),
    ],
)
def test_invalid_markup_is_reported_unless_it_is_only_a_plain_xml_tag(text: str, *, warned: bool) -> None:
    for size in (1, 3, 1000):
        assert warning_codes(chat_turn(split_text(text, size))) == (["broken_markup"] if warned else [])


def test_strip_removes_control_tokens_without_a_call() -> None:
    turn = chat_turn(["hello<\u2016DS", "ML\u2016tool_calls>world"], "strip")
    assert (turn.text, warning_codes(turn)) == ("helloworld", ["leaked_markup"])
    assert chat_turn(["a<|tool_calls_section_end|>b"], "strip").text == "ab"
    assert chat_turn(["a </tool_call> b"], "strip").text == "a </tool_call> b"


def test_an_empty_section_is_removed() -> None:
    for mode in ("recover", "strip"):
        turn = chat_turn(["a<|tool_calls_section_begin|>\n<|tool_calls_section_end|>b"], mode)  # type: ignore[arg-type]
        assert (turn.text, turn.calls, warning_codes(turn)) == ("ab", [], ["leaked_markup"])


def test_markup_after_invalid_markup_is_recovered() -> None:
    turn = chat_turn(split_text(f"<tool_call> no. <|DSML|function_calls>{FAMILIES['hermes']} <", 3))
    assert turn.text == "<tool_call> no. <|DSML|function_calls> <"
    assert [call.name for call in turn.calls] == ["look_up"]


def test_reasoning_and_refusals_are_not_searched() -> None:
    turn = chat_turn([], "recover", chat({"reasoning_content": FAMILIES["hermes"]}), chat({"refusal": "<tool_call>"}))
    assert (turn.reasoning, turn.refusal, turn.calls) == (FAMILIES["hermes"], "<tool_call>", [])


def is_prefix(partial: Any, complete: Any) -> bool:
    """Return True if a value is what a prefix of the text of *complete* shows."""
    if isinstance(complete, dict):
        return list(partial) == list(complete)[: len(partial)] and all(
            is_prefix(partial[key], complete[key]) for key in partial
        )
    if isinstance(complete, list):
        return len(partial) <= len(complete) and all(map(is_prefix, partial, complete))
    return str(complete).startswith(str(partial))


@pytest.mark.parametrize("finish", ["stop", "length", None])
@pytest.mark.parametrize("family", ["dsml of v3.2", "deepseek v3.1", "deepseek v3", "kimi k2", "kimi k3", "hermes"])
def test_a_call_truncated_at_any_character_is_incomplete(family: str, finish: str | None) -> None:
    text = FAMILIES[family]
    states = []
    for size in range(1, len(text)):
        turn = chat_turn([text[:size]], finish=finish)
        assert len(turn.calls) <= 1
        if turn.calls:
            (call,) = turn.calls
            assert call.name == "look_up"
            assert turn.text.strip() in ("", "<") or call.state == "complete"
            states.append(call.state)
            if call.state == "complete":
                assert call.arguments == ARGUMENTS
            assert is_prefix(call.partial, ARGUMENTS)
        else:
            assert turn.text == text[:size]
    assert states == sorted(states, reverse=True)  # incomplete up to some size, complete beyond it
    assert set(states) == {"incomplete", "complete"}


def test_a_truncated_call_has_partial_arguments() -> None:
    text = dsml(invocation("f", a="one", b="two"))
    turn = chat_turn([text[: text.index("wo<")]], finish="length")
    assert (turn.calls[0].partial, turn.calls[0].state) == ({"a": "one", "b": "t"}, "incomplete")
    qwen = chat_turn(["<function=f>\n<parameter=a>\none\n</parameter>\n<parameter=b>\ntw<"])
    assert (qwen.calls[0].partial, qwen.calls[0].state) == ({"a": "one", "b": "tw"}, "incomplete")
    hermes = chat_turn(['<tool_call>{"name": "f", "arguments": {"a": "on'])
    assert (hermes.calls[0].partial, hermes.calls[0].arguments_text) == ({"a": "on"}, '{"a": "on')
    typed = chat_turn([dsml(invocation("f", a=[1, 2]))[: -len("2]</|parameter>\n</|invoke>\n</|function_calls>")]])
    assert typed.calls[0].state == "incomplete"


def test_buffered_text_is_emitted_before_other_content() -> None:
    turn = chat_turn(["a <tool_", "call"], "recover", chat({"reasoning_content": "hm"}), chat({"content": "> b"}))
    assert [(b.type, getattr(b, "text", None)) for b in turn.content.blocks] == [
        ("text", "a <tool_call"),
        ("reasoning", "hm"),
        ("text", "> b"),
    ]


def test_too_much_buffered_markup_exceeds_the_limit_of_arguments() -> None:
    turn = Turn("openai_compatible", leaked_markup="recover", limits=Limits(arguments=1000))
    turn.feed(chat({"content": "<function=f><parameter=a>"}))
    for _ in range(20):
        turn.feed(chat({"content": "x" * 100}))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    assert turn.done
    turn.close()
    assert turn.executable == []


def test_recovered_calls_keep_the_order_of_anthropic_blocks() -> None:
    turn = Turn(dialect("any", base="anthropic"), turn_key="turn-1", leaked_markup="recover")
    texts = [{"type": "text_delta", "text": delta} for delta in split_text(f"One.{FAMILIES['hermes']}Two.", 9)]
    wire = [
        message_start(),
        *block(0, {"type": "text", "text": ""}, *texts),
        *block(
            1,
            {"type": "tool_use", "id": "toolu_1", "name": "g", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a":1}'},
        ),
        *message_end("end_turn"),
    ]
    for chunk in wire:
        turn.feed(chunk)
    turn.close()
    assert [b.type for b in turn.content.blocks] == ["text", "tool_call", "text", "tool_call"]
    assert [call.name for call in turn.executable] == ["look_up", "g"]
    assert turn.text == "One.Two."
    assert turn.finish is not None
    assert turn.finish.reason == "tool_calls"


def test_text_buffered_at_the_end_of_a_block_is_emitted_before_the_next_block() -> None:
    turn = Turn(dialect("any", base="anthropic"), leaked_markup="strip")
    for chunk in [
        message_start(),
        *block(0, {"type": "text", "text": "a"}, {"type": "text_delta", "text": " <"}),
        *block(1, {"type": "text", "text": "tool_call> b"}),
        *message_end(),
    ]:
        turn.feed(chunk)
    turn.close()
    assert [b.text for b in turn.content.blocks] == ["a <", "tool_call> b"]


def test_markup_in_a_gemini_part_is_recovered() -> None:
    turn = Turn(dialect("any", base="gemini"), turn_key="turn-1", leaked_markup="recover")
    for chunk in [gemini({"text": p}) for p in split_text(FAMILIES["kimi k2"], 30)] + [gemini(finish="STOP")]:
        turn.feed(chunk)
    turn.close()
    assert [(call.name, call.arguments) for call in turn.executable] == [("look_up", ARGUMENTS)]


def test_each_choice_is_searched_separately() -> None:
    turn = Turn("openai_compatible", turn_key="turn-1", leaked_markup="recover")
    for markup, plain in zip(split_text(FAMILIES["hermes"], 5), split_text("b" * 200, 5), strict=False):
        turn.feed(chat({"content": markup}))
        turn.feed(chat({"content": plain}, index=1))
    for index in (0, 1):
        turn.feed(chat({}, "stop", index=index))
    turn.close()
    assert [len(view.calls) for view in turn.choices] == [1, 0]
    assert set(turn.choices[1].text) == {"b"}


def test_the_start_event_has_the_canonical_id() -> None:
    turn = Turn("openai_compatible", turn_key="turn-1", leaked_markup="recover")
    events = turn.feed(chat({"content": FAMILIES["hermes"]})) + turn.close(complete=True)
    (start,) = [event for event in events if isinstance(event, ToolCallStart)]
    assert turn.call(start.call.id).arguments == ARGUMENTS


def feed_every_method(sink: Any) -> None:
    """Call every method of a sink and its choice, with text that is not markup."""
    choice = sink.choice(0)
    sink.identify("r1", "m1")
    sink.heartbeat()
    sink.warn("odd", "something odd")
    choice.reasoning("hm")
    choice.add_metadata({"signature": "s"})
    choice.text("", "t")
    choice.text("a", "t")
    choice.citation({"url": "u"})
    choice.end_block("t")
    choice.file("image/png", "AAAA")
    choice.file("audio/wav", "AAAA", key="voice")
    choice.provider_block({"type": "odd"})
    choice.server_tool("s1", "web_search", "started")
    choice.server_tool_delta("s1", "web_search", '{"query":')
    choice.server_tool_delta("s1", "web_search", "")
    choice.server_tool("s1", "web_search", "arguments", {"query": "x"})
    choice.refusal("no")
    choice.tool(NormalizedToolChunk("start", "c1", "f", key="k", arguments_delta='{"a":'))
    choice.replace_arguments("k", '{"a":1}')
    choice.finish("stop", "stop")
    sink.usage(Usage(1, 2))
    sink.unknown({"what": 1})
    sink.fail(StreamError("provider_error", "oh"))
    sink.terminate()


def test_everything_but_markup_is_passed_on_unchanged() -> None:
    plain, behind = (Accumulator("openai_chat", WireTraits(), turn_key="k") for _ in range(2))
    sink = MarkupSink(behind, "recover")
    feed_every_method(plain)
    feed_every_method(sink)
    sink.close()
    for turn in (plain, behind):
        turn.close(complete=False)
    assert behind.events == plain.events
    assert behind.warnings == plain.warnings
    assert [b.kind for b in behind.choice(0).blocks] == [b.kind for b in plain.choice(0).blocks]
    assert behind.terminated


@pytest.mark.parametrize("provider", sorted({stream.provider for stream in recorded_streams()}))
def test_no_recorded_stream_is_changed(provider: str) -> None:
    for stream in recorded_streams(provider):
        results = []
        for mode in ("keep", "recover", "strip"):
            turn = Turn(provider, turn_key="k", leaked_markup=mode)  # type: ignore[arg-type]
            turn.feed(stream.data)
            turn.close()
            results.append((turn.to_dict(), turn.content))
        assert results[0] == results[1] == results[2]
