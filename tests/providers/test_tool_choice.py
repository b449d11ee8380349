"""Tools selected by a tool choice, for APIs that cannot name a tool."""

from __future__ import annotations

import pytest

from streamkit.errors import UsageError
from streamkit.providers.requests.tools import ToolMode, select_tools
from streamkit.tools import Tool


def tools(*names: str) -> list[Tool]:
    return [Tool(name=name, description="", parameters={"type": "object"}) for name in names]


@pytest.mark.parametrize(
    ("choice", "names", "mode"),
    [
        (None, ["f", "g"], "auto"),
        ("auto", ["f", "g"], "auto"),
        ("none", ["f", "g"], "none"),
        ("required", ["f", "g"], "required"),
        ("g", ["g"], "required"),
    ],
)
def test_a_choice_selects_tools_and_a_mode(choice: str | None, names: list[str], mode: ToolMode) -> None:
    selected, selected_mode = select_tools(choice, tools("f", "g"))
    assert ([tool.name for tool in selected], selected_mode) == (names, mode)


@pytest.mark.parametrize("mode", ["auto", "none", "required"])
def test_a_tool_with_the_name_of_a_mode_can_be_chosen(mode: str) -> None:
    selected, selected_mode = select_tools(mode, tools("f", mode))
    assert ([tool.name for tool in selected], selected_mode) == ([mode], "required")


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_no_tools_are_needed_unless_one_must_be_called(choice: str | None) -> None:
    assert select_tools(choice, [])[0] == []


@pytest.mark.parametrize(
    ("choice", "names", "message"),
    [
        ("h", ("f", "g"), "'h' is not .* nor one of the tools: f, g"),
        ("h", (), "'h' is not .* and there are no tools"),
        ("required", (), 'is "required", but there are no tools'),
    ],
)
def test_a_choice_that_no_tool_fits_raises(choice: str, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select_tools(choice, tools(*names))
