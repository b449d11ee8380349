"""Samples of tool-call markup by model family, and turns that read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from wire_streams import chat

from streamkit import Turn
from streamkit.reading.leaked_markup.lexer import LONGEST

Mode = Literal["keep", "strip", "recover"]


def split_text(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def chat_turn(
    texts: Iterable[str], mode: Mode = "recover", *after: dict[str, Any], finish: str | None = "stop"
) -> Turn:
    turn = Turn("openai_compatible", turn_key="turn-1", leaked_markup=mode)
    for text in texts:
        turn.feed(chat({"content": text}))
    for chunk in after:
        turn.feed(chunk)
    if finish is not None:
        turn.feed(chat({}, finish))
    turn.close()
    return turn


def warning_codes(turn: Turn) -> list[str]:
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
    """Return a text with the full-width bars and lines of DeepSeek's tokens."""
    return text.replace("|", "\uff5c").replace("_", "\u2581")


ARGUMENTS = {"city": "Par<i>s", "days": 3, "at": [1, {"b": None}]}


ARGUMENTS_JSON = json.dumps(ARGUMENTS)


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
    + ARGUMENTS_JSON
    + full_width("<|tool_call_end|><|tool_calls_end|>"),
    "deepseek v3": full_width("<|tool_calls_begin|><|tool_call_begin|>function<|tool_sep|>")
    + f"look_up\n```json\n{ARGUMENTS_JSON}\n```"
    + full_width("<|tool_call_end|>\n<|tool_calls_end|>"),
    "kimi k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look_up:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS_JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "kimi k2 without its section": "<|tool_call_begin|> functions.look_up:0 <|tool_call_argument_begin|> "
    f"{ARGUMENTS_JSON} <|tool_call_end|>",
    "kimi k3": '<|open|>tools<|sep|><|open|>call tool="look_up" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>Par<i>s<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
    '<|open|>argument key="at" type="array"<|sep|>[1, {"b": null}]<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>",
    "hermes": f'<tool_call>\n{{"name": "look_up", "arguments": {ARGUMENTS_JSON}}}\n</tool_call>',
    "hermes without its end": f'<tool_call>\n{{"arguments": {ARGUMENTS_JSON}, "name": "look_up"}}\n',
}


INVALID_MARKUP = [
    "a lone <tool_call> that never closes",
    "<tool_call></tool_call>",
    "<tool_call></function>",
    '<tool_call>{"name": "f\\q", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f\\q", "arguments": {"a": "b',
    '<tool_call>{"name": "f", "arguments": ' + '{"a":' * 12_000 + "1" + "}" * 12_001 + "</tool_call>",
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
