"""The changes of a request: each is made with its class, and callers get plain texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamkit import parse_messages, parse_request, render, render_request
from streamkit.execution.round.context import RoundContext
from streamkit.history import Content, OpaqueBlock, TextBlock, ToolCallBlock, repair
from streamkit.values.request_changes import (
    ChangeList,
    Described,
    InWords,
    LeftOut,
    Lost,
    RequestChange,
    Translated,
    changes_meaning,
    without_fields,
)

PACKAGE = Path(__file__).parents[2] / "streamkit"
#: A chat request with a block of Anthropic's and a field that no other wire has.
CONTENTS = [
    Content(speaker="human", blocks=[TextBlock(text="Hello.")]),
    Content(speaker="ai", blocks=[OpaqueBlock(raw={"type": "x"}, metadata={"provider": "anthropic"})]),
    Content(speaker="ai", blocks=[ToolCallBlock(id="", name="look", parameters={})]),
]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi.", "odd": 1}], "logit_bias": {"1": 2}, "seed": 3}


def texts_without_class(path: Path) -> Iterator[str]:
    """Yield each text that is reported as a change, or added to a list of changes, as it is."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            name, owner = node.func.attr, ast.unparse(node.func.value)
            is_report = name in ("report", "_report") or (name == "append" and owner.endswith("changes"))
            if is_report and isinstance(node.args[0], ast.Constant | ast.JoinedStr | ast.BinOp):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"


def test_every_change_is_made_with_its_class() -> None:
    """mypy proves it where the list has the type; lists of callers take any text."""
    folders = ("providers", "history", "gateway/translation")
    schemas = {"schema_types.py", "tool_schema.py"}  # parts of a sentence about a schema, whose class the caller sets
    files = [file for folder in folders for file in (PACKAGE / folder).rglob("*.py") if file.name not in schemas]
    found = [text for file in (*files, PACKAGE / "gateway" / "attempt.py") for text in texts_without_class(file)]
    assert len(files) > 100
    assert found == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Translated("x"), False),
        (InWords("x"), False),
        (LeftOut("x"), False),
        (Lost("x"), True),
        (Described("x"), True),
        (RequestChange("x"), True),
        ("of a provider from outside, which made no class", True),
        (without_fields("x", ["prompt_cache_key", "metadata.a"]), False),
        (without_fields("x", ["prompt_cache_key", "logit_bias.1"]), True),
    ],
)
def test_only_a_change_that_is_known_to_leave_the_meaning_does(change: str, expected: bool) -> None:
    assert changes_meaning(change) is expected


def test_callers_get_plain_texts() -> None:
    rendered: list[str] = []
    render(CONTENTS, "openai_chat", changes=rendered)
    of_request: list[str] = []
    request = parse_request(CHAT, "openai_chat", changes=of_request)
    render_request(request, "anthropic", changes=of_request)
    imported: list[str] = []
    parse_messages([{"role": "user", "content": "Hi.", "odd": 1}], "openai_chat", changes=imported)
    repaired = repair(CONTENTS).changes
    context = RoundContext(CONTENTS, [], None, "openai_chat")
    assert context.request
    for changes in (rendered, of_request, imported, repaired, context.changes):
        assert {type(change) for change in changes} == {str}
        assert msgspec.json.decode(msgspec.json.encode(changes)) == changes


def test_a_list_of_changes_gets_their_classes() -> None:
    changes = ChangeList()
    render_request(parse_request(CHAT, "openai_chat", changes=changes), "anthropic", changes=changes)
    assert [type(change) for change in changes] == [Lost, LeftOut, Lost]
