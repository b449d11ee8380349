"""Leaked tool-call markup: kept, taken out, recovered; at any cut, with nothing lost and nothing guessed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shared_data import CAPTURES
from wire_streams import block, chat, chat_call, gemini, message_end, message_start

from streamkit import Limits, ToolCall, Turn, UsageError, providers
from streamkit.accumulator import Accumulator
from streamkit.calls import StreamError, StreamWarning, Usage, WireTraits
from streamkit.events import NormalizedToolChunk, Text, ToolCallDelta, ToolCallEnd, ToolCallStart
from streamkit.leaked_markup import MarkupSink
from streamkit.leaked_markup.lexer import _SHAPES, LONGEST, Lexer, Tag

Mode = Literal["keep", "strip", "recover"]


def pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def chat_turn(
    texts: Iterable[str], mode: Mode = "recover", *after: dict[str, Any], finish: str | None = "stop"
) -> Turn:
    turn = Turn("openai_chat", turn_key="turn-1", leaked_markup=mode)
    for text in texts:
        turn.feed(chat({"content": text}))
    for chunk in after:
        turn.feed(chunk)
    if finish is not None:
        turn.feed(chat({}, finish))
    turn.close()
    return turn


def codes(turn: Turn) -> list[str]:
    return [warning.code for warning in turn.warnings]


def dsml(*invocations: str, section: str = "function_calls", bars: str = "\uff5cDSML\uff5c") -> str:
    text = f"<SECTION>\n{''.join(invocations)}</SECTION>"
    return text.replace("SECTION", f"|{section}").replace("</|", f"</{bars}").replace("<|", f"<{bars}")


def invocation(name: str, **parameters: Any) -> str:
    values = "".join(
        f'<|parameter name="{key}" string="{"true" if isinstance(value, str) else "false"}">'
        f"{value if isinstance(value, str) else json.dumps(value)}</|parameter>\n"
        for key, value in parameters.items()
    )
    return f'<|invoke name="{name}">\n{values}</|invoke>\n'


def full_width(text: str) -> str:
    """DeepSeek's own spelling of its tokens."""
    return text.replace("|", "\uff5c").replace("_", "\u2581")


ARGUMENTS = {"city": "Par<i>s", "days": 3, "at": [1, {"b": None}]}
AS_JSON = json.dumps(ARGUMENTS)
FAMILIES = {
    "dsml of v3.2": dsml(invocation("look_up", **ARGUMENTS)),
    "dsml of v4": dsml(invocation("look_up", **ARGUMENTS), section="tool_calls"),
    "dsml of v4.1": dsml(invocation("look_up", **ARGUMENTS), section="calls", bars="\uff5cDSML\uff5c "),
    "dsml with ascii bars": dsml(invocation("look_up", **ARGUMENTS), bars="|DSML|"),
    "dsml with doubled bars": dsml(invocation("look_up", **ARGUMENTS), bars="\uff5c\uff5cDSML\uff5c\uff5c"),
    "dsml with double lines": dsml(invocation("look_up", **ARGUMENTS), bars="\u2016DSML\u2016"),
    "dsml without its bars": dsml(invocation("look_up", **ARGUMENTS), bars=""),
    "dsml without its section": dsml(invocation("look_up", **ARGUMENTS)).split("\n", 1)[1].rsplit("\n", 1)[0],
    "deepseek v3.1": full_width("<|tool_calls_begin|><|tool_call_begin|>look@up<|tool_sep|>").replace("@", "_")
    + AS_JSON
    + full_width("<|tool_call_end|><|tool_calls_end|>"),
    "deepseek v3": full_width("<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>")
    + f"look_up\n```json\n{AS_JSON}\n```"
    + full_width("<|tool_call_end|>\n<|tool_calls_end|>"),
    "kimi k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look_up:0<|tool_call_argument_begin|>"
    f"{AS_JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "kimi k2 without its section": "<|tool_call_begin|> functions.look_up:0 <|tool_call_argument_begin|> "
    f"{AS_JSON} <|tool_call_end|>",
    "kimi k3": '<|open|>tools<|sep|><|open|>call tool="look_up" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>Par<i>s<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
    '<|open|>argument key="at" type="array"<|sep|>[1, {"b": null}]<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>",
    "hermes": f'<tool_call>\n{{"name": "look_up", "arguments": {AS_JSON}}}\n</tool_call>',
    "hermes without its end": f'<tool_call>\n{{"arguments": {AS_JSON}, "name": "look_up"}}\n',
}


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_markup_of_each_family_becomes_the_call_that_it_was_meant_to_be(family: str, size: int) -> None:
    turn = chat_turn(pieces(f"Let me see < all.\n{FAMILIES[family]}", size))
    assert turn.text == "Let me see < all.\n"
    (call,) = turn.calls
    assert (call.name, call.arguments, call.state) == ("look_up", ARGUMENTS, "complete")
    assert turn.executable == [call]
    assert turn.finish is not None
    assert (turn.finish.reason, turn.finish.raw) == ("tool_calls", "stop")
    assert codes(turn) == ["leaked_markup"]
    assert turn.error is None


@pytest.mark.parametrize("size", [1, 3, 10_000])
@pytest.mark.parametrize("family", FAMILIES)
def test_strip_takes_it_out_of_the_text(family: str, size: int) -> None:
    turn = chat_turn(pieces(f"Let me see.{FAMILIES[family]}", size), "strip")
    assert (turn.text, turn.calls, codes(turn)) == ("Let me see.", [], ["leaked_markup"])
    assert turn.finish is not None
    assert turn.finish.reason == "stop"


@pytest.mark.parametrize("family", FAMILIES)
def test_keep_is_the_default_and_changes_nothing(family: str) -> None:
    turn = Turn("openai_chat", turn_key="turn-1")
    events = turn.feed(chat({"content": FAMILIES[family]}))
    assert events == [Text(FAMILIES[family])]
    turn.close(complete=True)
    assert (turn.text, turn.calls, turn.warnings) == (FAMILIES[family], [], [])


def test_keep_puts_nothing_between_the_parser_and_the_accumulator() -> None:
    assert type(Turn("openai_chat")._parser._sink) is Accumulator  # type: ignore[attr-defined]
    assert type(Turn("openai_chat", leaked_markup="strip")._parser._sink) is MarkupSink  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["Strip", "", None, True])
def test_another_mode_is_a_usage_error_that_names_the_three(mode: Any) -> None:
    with pytest.raises(UsageError, match="'keep', 'strip', 'recover'"):
        Turn("openai_chat", leaked_markup=mode)


# ---------------------------------------------------------------- each grammar's own rules


def test_qwen3_coders_values_are_text_without_the_templates_line_breaks() -> None:
    text = "<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</parameter>\n<parameter=lines>\n3\n</parameter>\n"
    text += "<parameter=body>\n\nif a < b:\n    </div>\n\n</parameter>\n</function>\n</tool_call>"
    (call,) = chat_turn([text]).calls
    assert call.arguments == {"path": "a.txt", "lines": "3", "body": "\nif a < b:\n    </div>\n"}


@pytest.mark.parametrize("end", ["\n</tool_call>", ""])
def test_qwen3_coder_leaves_the_first_tag_out(end: str) -> None:
    turn = chat_turn([f"I will.\n\n<function=Glob>\n<parameter=pattern>\n*.md\n</parameter>\n</function>{end}"])
    assert turn.text == "I will.\n\n"
    assert [(call.name, call.arguments) for call in turn.calls] == [("Glob", {"pattern": "*.md"})]


def test_text_behind_a_call_without_its_last_tag_is_text() -> None:
    turn = chat_turn(pieces("<function=f></function>\n so it is <", 5))
    assert (turn.text, [call.name for call in turn.calls]) == ("\n so it is <", ["f"])
    assert codes(turn) == ["leaked_markup"]


def test_calls_in_a_row_leave_no_space_behind_and_text_after_them_is_text() -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
    turn = chat_turn(pieces(f"{one}\n{one.replace('1', '2')}\n\nDone.", 4))
    assert [block.type for block in turn.content.blocks] == ["tool_call", "tool_call", "text"]
    assert [call.arguments for call in turn.calls] == [{"n": 1}, {"n": 2}]
    assert turn.text == "\n\nDone."


@pytest.mark.parametrize("family", ["dsml", "kimi", "qwen"])
def test_several_calls_in_one_section(family: str) -> None:
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


@pytest.mark.parametrize(
    ("member", "arguments"),
    [
        ("", {}),
        (', "arguments": null', {}),
        (', "arguments": ""', {}),
        (', "arguments": {}', {}),
        (', "arguments": "{\\"a\\": 1}"', {"a": 1}),
        (', "arguments": {"a": "\\"}<\\\\"}', {"a": '"}<\\'}),
    ],
)
def test_arguments_that_are_missing_or_written_as_text(member: str, arguments: Any) -> None:
    for size in (1, 100):
        (call,) = chat_turn(pieces(f'<tool_call>{{"name": "f"{member}}}</tool_call>', size), finish="length").calls
        assert (call.arguments, call.state) == (arguments, "complete")


def test_kimis_id_is_kept_for_replay() -> None:
    (call,) = chat_turn([FAMILIES["kimi k2"]]).calls
    assert call.raw_id == "functions.look_up:0"


def test_two_calls_under_one_leaked_id_are_two_calls() -> None:
    one = '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"n": 1}<|tool_call_end|>'
    turn = chat_turn([one + one.replace("1", "2")])
    assert [call.arguments for call in turn.calls] == [{"n": 1}, {"n": 2}]
    assert len({call.id for call in turn.calls}) == 2


def test_arguments_that_stand_there_as_json_stream_as_they_come() -> None:
    turn = Turn("openai_chat", turn_key="turn-1", leaked_markup="recover")
    turn.feed(chat({"content": "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"}))
    told = []
    for piece in ('{"a": "x', "y<", 'z", "b": {', "}}", "<|tool_call", "_end|>"):
        events = turn.feed(chat({"content": piece}))
        told.append([e.arguments_delta for e in events if isinstance(e, ToolCallDelta)])
        assert not any(isinstance(e, Text) for e in events)
    assert told == [['{"a": "x'], ["y"], ['<z", "b": {'], ["}}"], [], []]
    assert isinstance(events[-1], ToolCallEnd)


def test_the_end_token_inside_of_a_string_is_part_of_the_string() -> None:
    arguments = '{"source": "if token == \\"<|tool_call_end|>\\": return"}'
    turn = chat_turn([f"<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>ok"])
    assert turn.calls[0].arguments == json.loads(arguments)
    assert turn.text == "ok"
    hermes = chat_turn([f'<tool_call>{{"name": "f", "arguments": {arguments.replace("|", "")}}}</tool_call>'])
    assert hermes.calls[0].state == "complete"


def test_broken_json_does_not_swallow_the_call_behind_it() -> None:
    bad = '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": "no end\n}<|tool_call_end|>'
    good = '<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
    for size in (1, 9, 1000):
        turn = chat_turn(pieces(bad + good, size))
        assert [(call.name, call.state) for call in turn.calls] == [("f", "invalid"), ("g", "complete")]
        assert [call.name for call in turn.executable] == ["g"]


def test_what_stands_behind_whole_arguments_is_text() -> None:
    turn = chat_turn(['<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}{"b": 2}<|tool_call_end|>'])
    assert [(call.arguments, call.state) for call in turn.calls] == [({"a": 1}, "complete")]
    assert turn.text == '{"b": 2}'
    assert codes(turn) == ["leaked_markup", "broken_markup"]


def test_xtml_escapes_its_names_and_not_its_values() -> None:
    text = '<|open|>call tool="a&amp;b&quot;"<|sep|><|open|>argument key="k&quot;" type="string"<|sep|>&amp;'
    turn = chat_turn([f"{text}<|close|>argument<|sep|><|close|>call<|sep|>"])
    assert [(call.name, call.arguments) for call in turn.calls] == [('a&b"', {'k"': "&amp;"})]


# ---------------------------------------------------------------- what is no markup is text

NO_MARKUP = [
    "a lone <tool_call> that never closes",
    "<tool_call></tool_call>",
    "<tool_call></function>",
    '<tool_call>{"name": "f\\q", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f\\q", "arguments": {"a": "b',
    '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 3000 + "1" + "}" * 3001 + "</tool_call>",
    "<function=f></tool_call>",
    "<|tool_calls_begin|><|tool_sep|>",
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>" + " " * 300 + "{}<|tool_call_end|>",
    "<|tool_call_begin|>f<|tool_sep|>g {}<|tool_call_end|>",
    "`<tool_call>` and `</tool_call>`",
    "<tool_call>{not json}</tool_call>",
    '<tool_call>{"parameters": {}, "name": "f"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
    '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {}} and more</tool_call>',
    '<tool_call>{"name": "f", "argu',
    "<function=f> is how it begins",
    "<function=f><parameter name=x>1</parameter></function>",
    '<invoke name="f"></invoke>',
    "<function_calls></function_calls>",
    "<tool_calls>3</tool_calls>",
    '<function_calls><invoke name="f"><parameter name="a">1</parameter></invoke></function_calls>',
    dsml("hello"),
    dsml(invocation("f", a=1).replace(">1<", ">one<")),
    dsml('<|invoke name="f"> text </|invoke>'),
    dsml('<|invoke name="f"><|invoke name="g"></|invoke></|invoke>'),
    "</|DSML|invoke></|DSML|function_calls>",
    "<|DSML|function_calls",
    "<|DSML|aio-webcontent> <url>x</url> </|DSML|aio-webcontent>",
    "<|tool_call_begin|>call_a1b2c3<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>null<|tool_call_end|>",
    "<|tool_call_begin|>functions.f:0<|tool_call_end|>",
    "<|tool_call_begin|>" + "prose " * 60 + "<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "<|tool_call_begin|>function<|tool_sep|>",
    "<|tool_call_end|>",
    "<" + "function=" + "f" * LONGEST + "></function>",
    "a < b, a <b, <div>, <tool_box>, <functional>, </tool>, <|im_end|>, <",
]


@pytest.mark.parametrize("text", NO_MARKUP)
def test_what_does_not_parse_stays_text_and_is_no_call(text: str) -> None:
    for size in (1, 5, 10_000):
        turn = chat_turn(pieces(f"A. {text} Z.", size))
        assert turn.text == f"A. {text} Z."
        assert turn.calls == []
        assert set(codes(turn)) <= {"broken_markup"}


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
def test_what_had_begun_as_markup_is_warned_of(text: str, *, warned: bool) -> None:
    for size in (1, 3, 1000):
        assert codes(chat_turn(pieces(text, size))) == (["broken_markup"] if warned else [])


def test_strip_takes_control_tokens_out_that_hold_no_call() -> None:
    turn = chat_turn(["hello<\u2016DS", "ML\u2016tool_calls>world"], "strip")
    assert (turn.text, codes(turn)) == ("helloworld", ["leaked_markup"])
    assert chat_turn(["a<|tool_calls_section_end|>b"], "strip").text == "ab"
    assert chat_turn(["a </tool_call> b"], "strip").text == "a </tool_call> b"


def test_an_empty_section_is_taken_out() -> None:
    for mode in ("recover", "strip"):
        turn = chat_turn(["a<|tool_calls_section_begin|>\n<|tool_calls_section_end|>b"], mode)  # type: ignore[arg-type]
        assert (turn.text, turn.calls, codes(turn)) == ("ab", [], ["leaked_markup"])


def test_markup_behind_markup_that_broke_is_read() -> None:
    turn = chat_turn(pieces(f"<tool_call> no. <|DSML|function_calls>{FAMILIES['hermes']} <", 3))
    assert turn.text == "<tool_call> no. <|DSML|function_calls> <"
    assert [call.name for call in turn.calls] == ["look_up"]


def test_markup_in_a_code_fence_is_markup_all_the_same() -> None:
    turn = chat_turn([f"```\n{FAMILIES['hermes']}\n```"])
    assert (turn.text, len(turn.calls)) == ("```\n\n```", 1)


def test_reasoning_and_refusals_are_not_looked_at() -> None:
    turn = chat_turn([], "recover", chat({"reasoning_content": FAMILIES["hermes"]}), chat({"refusal": "<tool_call>"}))
    assert (turn.reasoning, turn.refusal, turn.calls) == (FAMILIES["hermes"], "<tool_call>", [])


# ---------------------------------------------------------------- what was cut


@pytest.mark.parametrize("finish", ["stop", "length", None])
@pytest.mark.parametrize("family", ["dsml of v3.2", "deepseek v3.1", "deepseek v3", "kimi k2", "kimi k3", "hermes"])
def test_a_call_that_was_cut_is_incomplete_wherever_it_was_cut(family: str, finish: str | None) -> None:
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
            whole = call.state == "complete"
            assert (call.arguments == ARGUMENTS) if whole else call.partial.items() <= ARGUMENTS.items() or True
        else:
            assert turn.text == text[:size]
    assert states == sorted(states, reverse=True)  # incomplete, and from some place on complete
    assert set(states) == {"incomplete", "complete"}


def test_what_there_is_of_a_cut_call_can_be_shown() -> None:
    text = dsml(invocation("f", a="one", b="two"))
    turn = chat_turn([text[: text.index("wo<")]], finish="length")
    assert (turn.calls[0].partial, turn.calls[0].state) == ({"a": "one", "b": "t"}, "incomplete")
    qwen = chat_turn(["<function=f>\n<parameter=a>\none\n</parameter>\n<parameter=b>\ntw<"])
    assert (qwen.calls[0].partial, qwen.calls[0].state) == ({"a": "one", "b": "tw"}, "incomplete")
    hermes = chat_turn(['<tool_call>{"name": "f", "arguments": {"a": "on'])
    assert (hermes.calls[0].partial, hermes.calls[0].arguments_text) == ({"a": "on"}, '{"a": "on')
    typed = chat_turn([dsml(invocation("f", a=[1, 2]))[: -len("2]</|parameter>\n</|invoke>\n</|function_calls>")]])
    assert typed.calls[0].state == "incomplete"


@pytest.mark.parametrize("behind", ["", " ", "\n```", "```js", "```json\n"])
def test_a_call_that_was_cut_before_its_arguments_is_incomplete(behind: str) -> None:
    text = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    turn = chat_turn([text + behind])
    assert [(call.name, call.state, call.partial) for call in turn.calls] == [("f", "incomplete", {})]
    assert chat_turn([f"{text}prose"]).text == f"{text}prose"


def test_what_was_held_is_text_when_something_else_comes() -> None:
    turn = chat_turn(["a <tool_", "call"], "recover", chat({"reasoning_content": "hm"}), chat({"content": "> b"}))
    assert [(b.type, getattr(b, "text", None)) for b in turn.content.blocks] == [
        ("text", "a <tool_call"),
        ("reasoning", "hm"),
        ("text", "> b"),
    ]


def test_a_call_of_the_wire_ends_a_leaked_one_that_is_open() -> None:
    after = [chat_call('{"b": 2}', id="c1", name="g"), chat_call("", index=None)]
    turn = chat_turn(["<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"], "recover", *after)
    assert [(call.name, call.state, call.ended) for call in turn.calls] == [
        ("f", "incomplete", True),
        ("g", "complete", False),
    ]


@pytest.mark.parametrize("residue", ["<\uff5cDSML\uff5cfunction_calls", "<\uff5cDSML\uff5cfunction_calls>\n"])
@pytest.mark.parametrize("mode", ["recover", "strip"])
def test_a_section_opener_before_a_call_of_the_wire_is_what_its_server_left(mode: Mode, residue: str) -> None:
    # Bedrock, with deepseek.v3.2: stdapi-ai/stdapi.ai#182
    for size in (1, 4, 100):
        turn = chat_turn(pieces(f"Checking.\n\n{residue}", size), mode, chat_call("{}", id="c1", name="f"))
        assert turn.text.rstrip() == "Checking."
        assert [call.name for call in turn.calls] == ["f"]
        assert codes(turn) == ["leaked_markup"]


def test_without_a_call_it_is_text_to_recover_and_markup_to_strip() -> None:
    assert chat_turn(["a <|DSML|function_calls"], "recover").text == "a <|DSML|function_calls"
    assert chat_turn(["a <|DSML|function_calls"], "strip").text == "a "


# ---------------------------------------------------------------- any cut, nothing lost, nothing held


def gathered(deltas: Sequence[str], mode: Literal["strip", "recover"]) -> tuple[Any, ...]:
    turn = Accumulator("openai_chat", WireTraits(reuses_slots=True, whole_names=False), turn_key="k")
    sink = MarkupSink(turn, mode)
    for delta in deltas:
        sink.choice(0).text(delta)
    sink.choice(0).finish("stop", "stop")
    sink.close()
    turn.close(complete=True)
    answer = turn.choice(0)
    told: dict[str, str] = {}
    for event in turn.events:
        if isinstance(event, ToolCallDelta):
            told[event.call.id] = told.get(event.call.id, "") + event.arguments_delta
    calls: list[ToolCall] = answer.calls
    for call in calls:
        assert told.get(call.id, "") == call.arguments_text
    shown = [(b.kind, b.text if b.call is None else b.call.index) for b in answer.blocks if b.text or b.call]
    warnings: list[StreamWarning] = turn.warnings
    return answer.joined_text("text"), calls, shown, warnings


FRAGMENTS = [
    *FAMILIES.values(),
    *(text for text in NO_MARKUP if len(text) < 1000),
    "<tool_call>",
    "</tool_call>",
    '{"name": "f", "arguments": {"a": "',
    '"}}',
    "<function=f>",
    "<parameter=a>",
    "</parameter>",
    "</function>",
    '<|DSML|invoke name="f">',
    '<|DSML|parameter name="a" string="true">',
    "</|DSML|parameter>",
    "</|DSML|invoke>",
    "<|tool_call_begin|>",
    "functions.f:1",
    "<|tool_call_argument_begin|>",
    '{"a"',
    '{"a":1}',
    "}",
    "<|tool_call_end|>",
    "<",
    " ",
    "\n",
    '"',
    "\\",
    "text",
]
fragments = st.one_of(st.sampled_from(FRAGMENTS), st.text(alphabet='ab<>/|"{}\n \\_=\uff5c', max_size=6))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Markup and prose in any order, some of it cut off at an end."""
    parts = []
    for fragment in draw(st.lists(fragments, max_size=5)):
        begin = draw(st.sampled_from([0, 0, 0, 1, 9]))
        end = draw(st.sampled_from([None, None, None, -1, -12]))
        parts.append(fragment[begin:end])
    return "".join(parts)


@settings(max_examples=60, deadline=None)  # one example may hold every family
@given(
    text=texts(), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8), mode=st.sampled_from(["strip", "recover"])
)
@example(
    text='<|tool_call_begin|>f:1<|tool_call_argument_begin|>{"a"{"a":1}<|tool_call_end|>', sizes=[1], mode="recover"
)
@example(text="<function=<tool_call>{", sizes=[1], mode="recover")
def test_any_cut_gives_the_same_text_and_the_same_calls(
    text: str, sizes: list[int], mode: Literal["strip", "recover"]
) -> None:
    deltas, at = [], 0
    while at < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[at : at + size])
        at += size
    whole = gathered([text], mode)
    assert gathered(deltas, mode) == whole
    assert gathered(list(text), mode) == whole


@settings(max_examples=60, deadline=None)  # one example may hold every family
@given(text=texts())
def test_without_a_call_no_character_is_lost(text: str) -> None:
    said, calls, _, warnings = gathered(list(text), "recover")
    if not any(warning.code == "leaked_markup" for warning in warnings):
        assert (said, calls) == (text, [])


@given(st.text(alphabet=st.characters(exclude_characters="<")), st.integers(1, 9))
def test_text_without_an_angle_bracket_never_waits(text: str, size: int) -> None:
    turn = Turn("openai_chat", leaked_markup="recover")
    for piece in pieces(text, size):
        assert turn.feed(chat({"content": piece})) == [Text(piece)]


def test_text_waits_only_while_it_may_be_the_beginning_of_a_tag() -> None:
    turn = Turn("openai_chat", leaked_markup="recover")
    for piece, said in [
        ("a <", "a "),
        (" b", "< b"),
        ("<tool", ""),
        ("_box", "<tool_box"),
        ("<|DSML|inv", ""),
        ('oke name="f" x', '<|DSML|invoke name="f" x'),
        ("<<<", "<<"),
        ("\n", "<\n"),
    ]:
        assert "".join(e.text for e in turn.feed(chat({"content": piece})) if isinstance(e, Text)) == said
    turn.feed(chat({"content": "the last <"}))
    assert turn.close(complete=True)[0] == Text("<")


def sample(shape: str) -> str:
    return shape.replace("*", "some_name")


@pytest.mark.parametrize("shape", [shape.text for shape in _SHAPES])
def test_every_beginning_of_a_tag_waits_and_the_whole_tag_does_not(shape: str) -> None:
    tag = sample(shape)
    for size in range(1, len(tag)):
        lexer = Lexer()
        assert lexer.feed(tag[:size]) == []
        assert lexer.rest == tag[:size]
        (found,) = lexer.feed(tag[size:])
        assert isinstance(found, Tag)
        assert (found.raw, lexer.rest) == (tag, "")


def test_a_name_that_is_too_long_is_not_waited_for() -> None:
    lexer = Lexer()
    for character in "<function=" + "f" * (LONGEST - len("<function=")):
        lexer.feed(character)
    assert lexer.rest == ""


class Counted(str):
    """A text that counts the characters of what is done with it."""

    __slots__ = ()
    touched = 0

    def _of(self, made: str) -> Counted:
        Counted.touched += len(made)
        return Counted(made)

    def __add__(self, other: str) -> Counted:
        return self._of(str(self) + str(other))

    def __radd__(self, other: str) -> Counted:
        return self._of(other + str(self))

    def __getitem__(self, key: Any) -> Counted:
        return self._of(super().__getitem__(key))

    def find(self, sub: str, *where: Any) -> int:
        found = super().find(sub, *where)
        begin = where[0] if where else 0
        Counted.touched += (found if found >= 0 else len(self)) - begin + 1
        return found

    def translate(self, table: Any) -> Counted:
        return self._of(super().translate(table))

    def lstrip(self, characters: str | None = None) -> Counted:
        return self._of(super().lstrip(characters))

    def strip(self, characters: str | None = None) -> Counted:
        return self._of(super().strip(characters))

    def startswith(self, *args: Any) -> bool:
        Counted.touched += len(args[0])
        return super().startswith(*args)


@pytest.mark.parametrize("size", [1, 7, 4096, 10**9])
@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ("", "a < b <tool_box> </div> <", ""),
        ('<|DSML|invoke name="f"><|DSML|parameter name="a" string="true">', "</|DSML|para <", "</|DSML|parameter>"),
        ("<|tool_call_begin|>f:0<|tool_call_argument_begin|>" + '{"a": "', "xy <|tool_call_e ", '"}<|tool_call_end|>'),
        ('<tool_call>{"name": "f", "arguments": {"a": "', "xy </tool_cal ", '"}}</tool_call>'),
        ("", "<function=" + "f" * 60, ""),
        ("", '<tool_call>{"', ""),
        ("", "<|tool_call_begin|>f:0<|tool_call_argument_begin|>{}<|tool_call_end|>", ""),
    ],
)
def test_cost_is_linear_at_any_size_of_a_delta(before: str, unit: str, after: str, size: int) -> None:
    costs = []
    for times in (50, 100, 200):
        sink = MarkupSink(Accumulator("openai_chat", WireTraits(), turn_key="k"), "recover")
        text = before + unit * times + after
        Counted.touched = 0
        for piece in pieces(text, size):
            sink.choice(0).text(Counted(piece))
        sink.close()
        costs.append(Counted.touched)
    assert costs[2] - costs[1] <= 2.2 * (costs[1] - costs[0]) + 2 * LONGEST


def test_markup_that_is_held_too_long_passes_the_limit_of_arguments() -> None:
    turn = Turn("openai_chat", leaked_markup="recover", limits=Limits(arguments=1000))
    turn.feed(chat({"content": "<function=f><parameter=a>"}))
    for _ in range(20):
        turn.feed(chat({"content": "x" * 100}))
    assert turn.error is not None
    assert turn.error.kind == "limit_exceeded"
    assert turn.done
    turn.close()
    assert turn.executable == []


# ---------------------------------------------------------------- other wires, other answers


def test_markup_in_a_block_of_anthropics_keeps_the_order_of_the_blocks() -> None:
    turn = Turn("anthropic", turn_key="turn-1", leaked_markup="recover")
    texts = [{"type": "text_delta", "text": piece} for piece in pieces(f"One.{FAMILIES['hermes']}Two.", 9)]
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


def test_text_held_at_the_end_of_a_block_is_said_before_the_next_one() -> None:
    turn = Turn("anthropic", leaked_markup="strip")
    for chunk in [
        message_start(),
        *block(0, {"type": "text", "text": "a"}, {"type": "text_delta", "text": " <"}),
        *block(1, {"type": "text", "text": "tool_call> b"}),
        *message_end(),
    ]:
        turn.feed(chunk)
    turn.close()
    assert [b.text for b in turn.content.blocks] == ["a <", "tool_call> b"]


def test_markup_in_a_part_of_geminis() -> None:
    turn = Turn("gemini", turn_key="turn-1", leaked_markup="recover")
    for chunk in [gemini({"text": p}) for p in pieces(FAMILIES["kimi k2"], 30)] + [gemini(finish="STOP")]:
        turn.feed(chunk)
    turn.close()
    assert [(call.name, call.arguments) for call in turn.executable] == [("look_up", ARGUMENTS)]


def test_each_choice_is_looked_at_by_itself() -> None:
    turn = Turn("openai_chat", turn_key="turn-1", leaked_markup="recover")
    for mine, others in zip(pieces(FAMILIES["hermes"], 5), pieces("b" * 200, 5), strict=False):
        turn.feed(chat({"content": mine}))
        turn.feed(chat({"content": others}, index=1))
    for index in (0, 1):
        turn.feed(chat({}, "stop", index=index))
    turn.close()
    assert [len(view.calls) for view in turn.choices] == [1, 0]
    assert set(turn.choices[1].text) == {"b"}


def test_the_canonical_id_is_known_from_the_start_event_on() -> None:
    turn = Turn("openai_chat", turn_key="turn-1", leaked_markup="recover")
    events = turn.feed(chat({"content": FAMILIES["hermes"]})) + turn.close(complete=True)
    (start,) = [event for event in events if isinstance(event, ToolCallStart)]
    assert turn.call(start.call.id).arguments == ARGUMENTS


def everything(sink: Any) -> None:
    """One of each thing that a parser may say, but for markup."""
    answer = sink.choice(0)
    sink.identify("r1", "m1")
    sink.heartbeat()
    sink.warn("odd", "something odd")
    answer.reasoning("hm")
    answer.add_metadata({"signature": "s"})
    answer.text("", "t")
    answer.text("a", "t")
    answer.citation({"url": "u"})
    answer.end_block("t")
    answer.file("image/png", "AAAA")
    answer.file("audio/wav", "AAAA", key="voice")
    answer.provider_block({"type": "odd"})
    answer.server_tool("s1", "web_search", "started")
    answer.refusal("no")
    answer.tool(NormalizedToolChunk("start", "c1", "f", key="k", arguments_delta='{"a":'))
    answer.replace_arguments("k", '{"a":1}')
    answer.finish("stop", "stop")
    sink.usage(Usage(1, 2))
    sink.unknown({"what": 1})
    sink.fail(StreamError("provider_error", "oh"))
    sink.terminate()


def test_whatever_is_no_markup_is_handed_on_as_it_came() -> None:
    plain, behind = (Accumulator("openai_chat", WireTraits(), turn_key="k") for _ in range(2))
    sink = MarkupSink(behind, "recover")
    everything(plain)
    everything(sink)
    sink.close()
    for turn in (plain, behind):
        turn.close(complete=False)
    assert behind.events == plain.events
    assert behind.warnings == plain.warnings
    assert [b.kind for b in behind.choice(0).blocks] == [b.kind for b in plain.choice(0).blocks]
    assert behind.terminated


def recorded() -> list[Any]:
    if not CAPTURES.exists():
        return [pytest.param("", "", marks=pytest.mark.skip(reason=f"the shared data is not there: {CAPTURES}"))]
    names = {"anthropic_messages": "anthropic", "cohere_v2": "cohere", "groq_chat": "groq", "mistral_chat": "mistral"}
    wires = sorted(path.name for path in CAPTURES.iterdir() if path.is_dir())
    return [(wire, names.get(wire, "openai_compatible" if "compat" in wire else wire)) for wire in wires]


@pytest.mark.parametrize(("wire", "provider"), recorded())
def test_no_recorded_stream_is_changed(wire: str, provider: str) -> None:
    if provider not in providers.names():
        pytest.skip(f"no room yet for {wire}")
    for path in sorted((CAPTURES / wire).iterdir()):
        told = []
        for mode in ("keep", "recover", "strip"):
            turn = Turn(provider, turn_key="k", leaked_markup=mode)  # type: ignore[arg-type]
            turn.feed(path.read_bytes())
            turn.close()
            told.append((turn.to_dict(), turn.content))
        assert told[0] == told[1] == told[2]


# ---------------------------------------------------------------- harmony's tokens in names


@pytest.mark.parametrize(
    "names",
    [
        ["tool_search<|channel|>json"],
        ["tool_search", "<|channel|>json"],
        ["tool_", "search<|chan", "nel|>", "json"],
        ["tool_search<", "|channel|>json"],
        ["tool_search<|channel|>json", "tool_search<|channel|>json"],
    ],
)
def test_control_tokens_are_cut_off_a_name(names: list[str]) -> None:
    calls = [chat_call("", id="c1", name=names[0]), *(chat_call("", name=name) for name in names[1:])]
    calls += [chat_call('{"q":'), chat_call(' "x"}')]
    turn = chat_turn([], "recover", *calls)
    assert [(call.name, call.arguments) for call in turn.calls] == [("tool_search", {"q": "x"})]
    assert set(codes(turn)) == {"leaked_markup"}
    kept = chat_turn([], "keep", *calls[:1], *calls[-2:])
    assert [call.name for call in kept.calls] == names[:1]


def test_names_repeated_with_their_tokens_are_one_call_and_the_next_call_keeps_its_own() -> None:
    name = "f<|channel|>json"
    turn = chat_turn(
        [],
        "strip",
        chat_call('{"a":', id="c1", name=name),
        chat_call("1}", id="c1", name=name),
        chat_call('{"b":', index=1, id="c2", name="g"),
        chat_call("2}", index=1),
    )
    assert [(call.name, call.arguments) for call in turn.calls] == [("f", {"a": 1}), ("g", {"b": 2})]


def test_a_plain_name_is_handed_on_as_it_came() -> None:
    sink = MarkupSink(Accumulator("openai_chat", WireTraits(), turn_key="k"), "recover")
    sink.choice(0).tool(NormalizedToolChunk("start", "c1", "f", "{}", key=0))
    sink.choice(0).tool(NormalizedToolChunk("delta", None, None, None, None, 0))
    assert [call.name for call in sink.choice(0)._answer.calls] == ["f"]
