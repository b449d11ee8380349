"""Tools for the tests of strict schemas and of the nulls that come back."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from streamkit.tools import StrictProfile, Tool, strict_parameters

__all__ = ["Node", "Place", "given_schema", "parameters_for", "weather"]


class Place(BaseModel):
    name: str
    zoom: int = 3


class Node(BaseModel):
    value: int = 1
    children: list[Node] = []


def weather(city: str, unit: Literal["c", "f"] = "c", days: int = 1, when: str | None = None) -> str:
    """Weather of a city."""
    return f"{city} {unit} {days} {when}"


def parameters_for(made: Tool, rules: StrictProfile) -> dict[str, Any]:
    return strict_parameters([made], rules)[made.name]


def given_schema(properties: dict[str, Any], **words: Any) -> Tool:
    return Tool(name="f", parameters={"type": "object", "properties": properties, **words}, strict=True)
