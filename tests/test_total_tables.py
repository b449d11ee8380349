"""Tables and lists that cannot be forgotten: whatever is new fails here, with its name.

Finish reasons are in ``test_finishes``, events in ``test_events`` and ``providers/test_writer``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import streamkit
from streamkit import Content, ToolCallBlock, UnsupportedContent, providers
from streamkit.calls import WarningCode
from streamkit.execution.durable import entries
from streamkit.execution.durable.entries import RequestEntry, RunEntry
from streamkit.execution.durable.replay import Replay
from streamkit.history import content as blocks
from streamkit.history.content import Block
from streamkit.providers.writing.content_events import write_content
from streamkit.values.total_tables import check_total

PACKAGE = Path(streamkit.__file__).parent
BLOCK_TYPES = [get_args(member)[0] for member in get_args(get_args(Block)[0])]


def test_a_missing_row_is_named() -> None:
    check_total("m.TABLE", {"a": 1}, ["a"])
    with pytest.raises(TypeError, match=r"^m\.TABLE has no row for b, int: add one"):
        check_total("m.TABLE", {"a": 1}, ["a", "b", int])


# ---------------------------------------------------------------- warning codes

#: The functions that give a warning, with the position of the code among their arguments.
GIVERS = {"StreamWarning": 0, "Warned": 0, "warn": 0, "warn_call": 1, "_warn": 0}


def calls_of(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if not (
                name == "warn"
                and isinstance(node.func, ast.Attribute)
                and getattr(node.func.value, "id", "") == "warnings"
            ):
                yield name, node


def test_every_code_that_is_given_is_declared() -> None:
    given: dict[str, str] = {}
    givers = re.compile("|".join(rf"\b{name}\(" for name in GIVERS))
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        for name, call in calls_of(ast.parse(text)) if givers.search(text) else ():
            position = GIVERS.get(name)
            values = [*call.args[position : position + 1]] if position is not None else []
            values += [keyword.value for keyword in call.keywords if name in GIVERS and keyword.arg == "code"]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    given[value.value] = f"{path.relative_to(PACKAGE)}:{call.lineno}"
    assert len(given) > 30
    undeclared = {code: place for code, place in given.items() if code not in get_args(WarningCode)}
    assert not undeclared, f"add these codes to TurnWarningCode or RunWarningCode of calls.py: {undeclared}"


def test_every_declared_code_is_given_somewhere() -> None:
    sources = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path != PACKAGE / "calls.py")
    never = [code for code in get_args(WarningCode) if f'"{code}"' not in sources]
    assert not never, f"no code path gives these codes of calls.py: {never}"


# ---------------------------------------------------------------- stored entries


def test_every_entry_class_is_an_entry_of_runs() -> None:
    classes = {
        value
        for value in vars(entries).values()
        if isinstance(value, type) and issubclass(value, entries._Entry) and not value.__name__.startswith("_")
    }
    assert classes == set(get_args(RunEntry)), "a class that is not in RunEntry cannot be read back"
    assert {kind.__name__ for kind in classes} <= {*entries.__all__}


def test_an_entry_that_the_replay_does_not_handle_is_an_error() -> None:
    """Mypy finds it before."""

    class NewEntry(entries._Entry):
        pass

    entry: Any = NewEntry(run_key="r", position=1)
    first = RequestEntry(run_key="r", position=0, round=0, provider="anthropic", history=[])
    with pytest.raises(AssertionError, match="NewEntry"):
        Replay.of([first, entry])


# ---------------------------------------------------------------- blocks

BLOCKS: dict[type[Any], Any] = {
    blocks.TextBlock: blocks.TextBlock(text="marker"),
    blocks.ImageBlock: blocks.ImageBlock(data="https://example.org/marker.png"),
    blocks.FileBlock: blocks.FileBlock(media_type="application/pdf", url="https://example.org/marker.pdf"),
    blocks.ToolCallBlock: ToolCallBlock(id="hist_tool_" + "a" * 24, name="marker"),
    blocks.ToolResponseBlock: blocks.ToolResponseBlock(call_id="hist_tool_" + "a" * 24, result="marker"),
    blocks.ReasoningBlock: blocks.ReasoningBlock(text="marker"),
    blocks.ServerToolBlock: blocks.ServerToolBlock(id="s", name="marker", arguments={}),
    blocks.OpaqueBlock: blocks.OpaqueBlock(raw={"type": "marker"}, metadata={"provider": "elsewhere"}),
    blocks.UnknownBlock: blocks.UnknownBlock(type="marker"),
}
WIRES = ("anthropic", "openai_chat", "openai_responses", "gemini", "cohere", "ollama", "bedrock_converse")


def test_every_block_has_an_example() -> None:
    assert set(BLOCKS) == set(BLOCK_TYPES)


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("speaker", ["human", "ai", "tool"])
@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.__name__)
def test_a_renderer_renders_refuses_or_reports_each_block(kind: type[Any], speaker: str, target: str) -> None:
    changes: list[str] = []
    history = [Content.human("Hi"), Content(speaker=speaker, blocks=[BLOCKS[kind]]), Content.human("Go on")]
    try:
        messages = streamkit.render(history, target, changes=changes)
    except UnsupportedContent:
        return
    assert "marker" in repr(messages) or changes


@pytest.mark.parametrize("target", WIRES)
@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.__name__)
def test_a_content_is_written_with_each_block_or_a_sentence(kind: type[Any], target: str) -> None:
    live = providers.get(target).writer(response_id="r", model="m")
    content = Content(speaker="ai", blocks=[BLOCKS[kind]])
    written = b"".join(write_content(live, content, finish=None, usage=None, delta_size=100))
    assert b"marker" in written or live.omitted
