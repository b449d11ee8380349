"""The pages and the README have a program for everything public: events, endings, error codes and options.

``test_readme`` runs the programs. Those that show every value of a kind are run again, and must print each of them.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, get_args

import pytest
from programs import run_program
from test_readme import BLOCKS, GUIDE, PROGRAMS

import streamkit
from streamkit.calls import Ended, ErrorCode, ErrorKind
from streamkit.events import ToolEvent, TurnEvent
from streamkit.tools import ToolOptions


def first_words(section: str, count: int = 1) -> set[Any]:
    """Return the first words of the lines that the program of a section prints."""
    code = GUIDE.split(f"## {section}\n")[1].split("```python\n")[1].split("```")[0]
    done = run_program(code)
    assert done.returncode == 0, done.stderr
    words = [tuple(line.split(" ")[:count]) for line in done.stdout.splitlines()]
    return {line[0] for line in words} if count == 1 else set(words)


def test_a_program_shows_every_event_of_a_turn() -> None:
    assert first_words("Every event of a turn") == {event.type for event in get_args(TurnEvent)}


def test_a_program_shows_every_event_of_a_run() -> None:
    assert first_words("Every event of a run") >= {event.type for event in get_args(ToolEvent)}


@pytest.mark.parametrize(("section", "union"), [("turn", TurnEvent), ("run", ToolEvent)])
def test_a_table_has_every_event_with_its_fields(section: str, union: Any) -> None:
    text = GUIDE.split(f"## Every event of a {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*) \|$", text, re.MULTILINE)
    table = {name: tuple(re.findall(r"`(\w+)`", fields)) for name, fields in rows}
    assert table == {event.__name__: event.__struct_fields__ for event in get_args(union)}


def test_the_chat_backend_sends_public_lines() -> None:
    assert "events.to_json(event, public=True)" in GUIDE.split("## A chat backend\n")[1].split("\n## ")[0]


def test_a_program_ends_a_run_in_every_way() -> None:
    assert first_words("Every ending of a run") == set(get_args(Ended))


def test_a_program_shows_every_kind_and_code_of_an_error() -> None:
    shown = first_words("Every error of a turn", 2)
    assert {kind for kind, _ in shown} == set(get_args(ErrorKind))
    assert {code for _, code in shown} == {*get_args(ErrorCode), "None"}


def options_used() -> dict[str, set[str]]:
    """Return the keywords that the programs pass, by the name of the called function."""
    used: dict[str, set[str]] = defaultdict(set)
    for node in (node for code in BLOCKS + PROGRAMS for node in ast.walk(ast.parse(code))):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            used[name].update(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    return used


USED = options_used()


@pytest.mark.parametrize(
    "function",
    [
        streamkit.Growing,
        streamkit.Limits,
        streamkit.SharedAccumulator,
        streamkit.Turn,
        streamkit.execute_one_tool,
        streamkit.parse_request,
        streamkit.read,
        streamkit.render,
        streamkit.render_request,
        streamkit.run_loop,
        streamkit.writer,
    ],
    ids=lambda function: function.__name__,
)
def test_a_program_has_every_option(function: Callable[..., Any]) -> None:
    options = {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert options - USED[function.__name__] == set()


def test_a_program_has_every_option_of_the_executors() -> None:
    both = USED["execute_tool_calls_batched"] | USED["execute_tool_calls_sequentially"]
    for execute in (streamkit.execute_tool_calls_batched, streamkit.execute_tool_calls_sequentially):
        options = inspect.signature(execute).parameters.values()
        assert {option.name for option in options if option.kind is option.KEYWORD_ONLY} - both == set()


def test_a_program_has_every_option_of_a_tool() -> None:
    options = {*ToolOptions.__annotations__, *inspect.signature(streamkit.Tool).parameters} - {"function"}
    assert options - (USED["Tool"] | USED["tool"] | USED["configure"]) == set()
