"""The warning of tools that a model cannot use well."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest

from streamkit import Tool, ToolContext, ToolSet, run_loop, tool
from streamkit.errors import StreamkitWarning


def warned_of(function: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Tool(function, **options)
    assert all(warning.category is StreamkitWarning for warning in caught)
    return [str(warning.message) for warning in caught]


def described(city: str) -> str:
    """Return the weather."""
    return city


def undescribed(city: str) -> str:
    return city


def untyped(city, unit="C", context: ToolContext | None = None):  # type: ignore[no-untyped-def]
    """Return the weather."""
    return city


def neither(city):  # type: ignore[no-untyped-def]
    return city


@pytest.mark.parametrize(
    ("function", "options", "expected"),
    [
        (described, {}, []),
        (undescribed, {}, ["tool undescribed has no description"]),
        (undescribed, {"description": "Return the weather."}, []),
        (untyped, {}, ["tool untyped has parameters without an annotation", "send anything: 'city', 'unit'"]),
        (neither, {}, ["tool neither has no description: ", "; it has parameters without an annotation", "'city'"]),
        (neither, {"parameters": {"type": "object", "properties": {}}, "description": "W."}, []),
        (functools.partial(described, "Oslo"), {}, []),
    ],
)  # fmt: skip
def test_a_tool_without_annotations_or_docstring_is_warned_of_once(
    function: Any, options: dict[str, Any], expected: list[str]
) -> None:
    messages = warned_of(function, **options)
    assert len(messages) == bool(expected)
    assert all(part in messages[0] for part in expected)


def test_a_tool_of_a_schema_without_a_function_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tool(name="form", parameters={"type": "object"})


def test_of_a_callable_object_the_method_counts() -> None:
    class Weather:
        def __call__(self, city: str) -> str:
            return city

    with pytest.warns(StreamkitWarning, match="tool weather has no description") as caught:
        tool(Weather(), name="weather")
    assert caught[0].lineno == Weather.__call__.__code__.co_firstlineno


def test_the_warning_is_located_at_the_function() -> None:
    with pytest.warns(StreamkitWarning) as caught:
        tool(undescribed)
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, undescribed.__code__.co_firstlineno)


def test_python_shows_the_warning_once_however_often_a_tool_is_made() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        globals().pop("__warningregistry__", None)
        for _ in range(5):
            ToolSet([undescribed])
            Tool(undescribed).replace(timeout=3)
        run_loop(print, provider="gemini", tools=[undescribed], history=[])._is_noticed = True
    assert len(caught) == 1


def test_a_program_may_ignore_the_warning_or_make_it_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamkitWarning)
        with pytest.raises(StreamkitWarning, match="has no description"):
            tool(undescribed)


def test_the_context_may_name_the_type_of_deps() -> None:
    def count(words: list[str], context: ToolContext[list[int]]) -> int:
        """Count words."""
        return len(words)

    def optional(words: list[str], context: ToolContext[Any] | None = None) -> int:
        """Count words."""
        return len(words)

    for function in (count, optional):
        made = Tool(function)
        assert made.context_parameter == "context"
        assert list(made.parameters["properties"]) == ["words"]


def test_a_tool_is_called_as_its_function() -> None:
    assert tool(described)("Oslo") == "Oslo"
    assert Tool[[str], str] is not Tool
