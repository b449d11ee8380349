"""Custom tools: the model writes free text, which may have to follow a grammar, instead of a JSON object.

https://platform.openai.com/docs/guides/function-calling#custom-tools. Providers without custom tools are offered a
function with one text. This module must not depend on providers.
"""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from streamkit.calls import CallKind
from streamkit.errors import UsageError
from streamkit.json_text import join_surrogates
from streamkit.tools.json_schema import short_json

__all__ = ["TEXT_FIELD", "Grammar", "GrowingText", "check_custom", "text_parameter", "text_schema"]

#: The only parameter of a custom tool that is offered as a function.
TEXT_FIELD = "input"


class Grammar(BaseModel):
    """The grammar that the text of a custom tool follows."""

    model_config = ConfigDict(frozen=True)

    syntax: str  #: ``lark`` or ``regex``
    definition: str


class GrowingText:
    """The text of a custom call while it arrives, as the arguments of a function of one text."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[str] = []

    def feed(self, text: str) -> None:
        """Append the next part."""
        self._parts.append(text)

    @property
    def value(self) -> dict[str, Any]:
        """The arguments so far. They are made from all parts at each access."""
        return {TEXT_FIELD: join_surrogates("".join(self._parts))}


def text_schema() -> dict[str, Any]:
    """Return the JSON schema of an object with one text."""
    return {"type": "object", "properties": {TEXT_FIELD: {"type": "string"}}, "required": [TEXT_FIELD]}


def check_custom(name: str, kind: CallKind, grammar: object, *, has_schema: bool, is_strict: bool) -> None:
    """Reject a kind that does not exist, and options that do not fit the kind of a tool.

    Raises:
        UsageError: with what to pass instead.
    """
    if kind not in get_args(CallKind):
        raise UsageError(f'tool {name}: kind must be "function" or "custom", not {kind!r}')
    if grammar is not None and not isinstance(grammar, Grammar):
        example = 'Grammar(syntax="lark", definition="...")'
        raise UsageError(f"tool {name}: grammar must be a Grammar, such as {example}, not {short_json(grammar)}")
    if grammar is not None and kind != "custom":
        raise UsageError(f'tool {name}: only a tool of kind="custom" has a grammar')
    if kind == "custom" and (has_schema or is_strict):
        option = "parameters" if has_schema else "strict"
        raise UsageError(f"tool {name}: a custom tool takes a text and has no schema; leave out {option}=")


def text_parameter(name: str, schema: dict[str, Any]) -> str:
    """Return the name of the parameter that takes the text.

    Args:
        name: the tool's name.
        schema: the schema of the function's parameters.

    Raises:
        UsageError: the function has not exactly one parameter, or one that takes no text.
    """
    properties: dict[str, Any] = schema.get("properties", {})
    if len(properties) != 1 or next(iter(properties.values())).get("type", "string") != "string":
        listed = ", ".join(properties) or "none"
        raise UsageError(
            f"tool {name}: the function of a custom tool must have one parameter for the text, as in"
            f" def {name}(text: str), next to a ToolContext; it has: {listed}"
        )
    return next(iter(properties))
