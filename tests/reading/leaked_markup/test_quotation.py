"""Markup in code and quotations is no call; elsewhere it is."""

from __future__ import annotations

import pytest
from reading.leaked_markup.markup_samples import FAMILIES, Mode, chat_turn, split_text, warning_codes

from streamkit.reading.leaked_markup.quotation import QuotationScanner

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'

#: Text before a tag that makes it code or a quotation.
QUOTED = {
    "fence": "See:\n```\n",
    "fence with a language": "```xml\n",
    "fence of tildes": "~~~\n",
    "fence of tildes with backticks in its info": "~~~ a`b`\n",
    "long fence": "`````\n```\n",
    "fence in a fence": "````\n```\ncode\n```\n",
    "indented fence": "    ```\n    ",
    "fence in a list": "- item\n\n  ```\n  ",
    "fence at the mark of a list": "1. ```\n",
    "fence in a block quote": "> ```\n> ",
    "fence that another kind does not close": "```\n~~~\n",
    "fence that a shorter one does not close": "````\n```\n",
    "fence that one with text does not close": "```\n``` x\n",
    "fence that a much more indented one does not close": "```\n    ```\n",
    "fence that a quoted one does not close": "```\n> ```\n",
    "fence on the same line": "```",
    "fence with a language on the same line": "```xml ",
    "tildes on the same line": "~~~",
    "fence with a line end of Windows": "```\r\n",
    "second fence": "```\na\n```\nb\n```\n",
    "block quote": "> ",
    "block quote without a space": ">",
    "nested block quote": "> > ",
    "block quote in a list": "- > ",
    "block quote with text": "Text\n> as in ",
    "inline code": "Use `",
    "inline code after text": "Use `a ",
    "inline code of two backticks": "Use `` a` ",
    "inline code over two lines": "Use `a\n",
    "inline code after a stray backtick": "don`t\nuse `",
    "inline code in the second item": "- a ` b\n- `",
    "quotation marks": 'It is "',
    "quotation marks with text": 'It is "as in ',
    "typographic quotation marks": "It is \u201c",
    "German quotation marks": "Es ist \u201eso ",
    "French quotation marks": "C'est \u00ab ",
    "Japanese quotation marks": "\u300c",
    "single quotation marks": "It is '",
    "typographic single quotation marks": "It is \u2018",
    "line directly after a block quote": "> quoted\n",
    "fence in a block quote that the line has not": "> ```\n",
    "pre": "<pre>",
    "pre with attributes": '<pre class="x">\n',
    "code": "<code>\n\n",
    "blockquote": "<BLOCKQUOTE>\n",
}

#: Text before a tag that is neither.
PLAIN = {
    "nothing": "",
    "text": "I look.\n\n",
    "closed fence": "```\ncode\n```\n",
    "closed fence of tildes": "~~~\n```\n~~~\n",
    "closed indented fence": "  ```\n  code\n```\n",
    "closed fence with space after it": "```\ncode\n```  \n",
    "closed fence with line ends of Windows": "```\r\ncode\r\n```\r\n",
    "fence of a block quote that ended with an empty line": "> ```\n\n",
    "paragraph after a block quote": "> quoted\n\n",
    "closed inline code": "I read `a.py` and ``b`c``.\n",
    "closed inline code directly before": "I read `a.py`",
    "escaped backtick": "A \\` is a backtick. ",
    "open backtick in an earlier paragraph": "don`t\n\n",
    "two backticks": "``\n\n",
    "closed quotation": 'I search for "a b".\n',
    "closed typographic quotation": "\u201cyes\u201d \u201eja\u201c ",
    "open quotation in an earlier paragraph": '12" pipes\n\n',
    "apostrophe": "It's what I'd do. ",
    "quotation mark in code": 'Use `"` here. ',
    "closed elements": "<pre><code>x</code></pre> ",
    "an element's name in code": "`<pre>` is one. ",
    "another element": "<div> <b ",
    "a lone tilde": "~ 5\n~~a~~ ",
    "a comparison": "a > b ",
    "a list": "- one\n1. ",
    "emphasis": "**bold** ",
    "a rule": "---\n***\n",
}


@pytest.mark.parametrize("mode", ["recover", "strip"])
@pytest.mark.parametrize("before", QUOTED.values(), ids=QUOTED)
def test_quoted_markup_stays_text_without_a_warning(before: str, mode: Mode) -> None:
    for markup in (CALL, FAMILIES["kimi k2"], FAMILIES["dsml of v3.2"]):
        text = f"{before}{markup} and more"
        for size in (1, 2, 3, 11, 10_000):
            turn = chat_turn(split_text(text, size), mode)
            assert (turn.text, turn.calls, warning_codes(turn)) == (text, [], [])


@pytest.mark.parametrize("mode", ["recover", "strip"])
@pytest.mark.parametrize("before", PLAIN.values(), ids=PLAIN)
def test_markup_that_is_not_quoted_is_recovered(before: str, mode: Mode) -> None:
    for size in (1, 2, 3, 11, 10_000):
        turn = chat_turn(split_text(f"{before}{CALL}", size), mode)
        assert (turn.text, warning_codes(turn)) == (before, ["leaked_markup"])
        assert [call.name for call in turn.calls] == (["f"] if mode == "recover" else [])


@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_is_recovered_in_a_fence_and_every_one_after_it(family: str) -> None:
    markup = FAMILIES[family]
    fenced = f"It writes:\n```\n{markup.replace('```', '')}\n```\nNow really:\n"
    for size in (1, 5, 10_000):
        turn = chat_turn(split_text(fenced + markup, size))
        assert [call.name for call in turn.calls] == ["look_up"]
        assert turn.text == fenced


def test_a_fence_that_is_never_closed_contains_all_that_follows() -> None:
    text = f"```\n{CALL}\n\n{CALL}"
    assert chat_turn([text]).text == text


def test_a_recovered_call_leaves_the_line_as_it_was() -> None:
    turn = chat_turn([f"{CALL}```\n{CALL}\n```\n{CALL}"])
    assert (turn.text, len(turn.calls)) == (f"```\n{CALL}\n```\n", 2)


def test_invalid_markup_with_a_fence_opens_the_fence() -> None:
    text = f"<|tool_call_begin|>x\n```\n<|tool_sep|>{CALL}"
    turn = chat_turn([text])
    assert (turn.text, turn.calls) == (text, [])


class CountingScanner(QuotationScanner):
    """A scanner that counts the characters that it reads one by one."""

    __slots__ = ()
    count = 0

    def _read(self, character: str) -> None:
        CountingScanner.count += 1
        super()._read(character)


@pytest.mark.parametrize(
    "unit", ["plain text. ", "`", "``` a\n", '"a" ', "> ", "<pre", "\\`", "    \n", "~~~\n", "1234567890. "]
)
def test_every_character_is_read_at_most_once(unit: str) -> None:
    for times in (100, 200):
        scanner = CountingScanner()
        CountingScanner.count = 0
        for _ in range(times):
            scanner.add(unit)
            scanner.is_quoted()
        assert CountingScanner.count <= len(unit) * times
