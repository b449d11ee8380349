"""Custom tools: the model writes free text, which may have to follow a grammar, instead of a JSON object.

https://platform.openai.com/docs/guides/function-calling#custom-tools. Providers without custom tools are offered a
function with one text. The names in a provider's own declarations of tools, and the check of ``Tool(fields=)``, are
here too. This module must not depend on providers.
"""

# No annotations as texts, as in ``history.content``.

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict

from streamkit.calls import CallKind
from streamkit.errors import UsageError
from streamkit.json_text import join_surrogates
from streamkit.values.json_data import json_excerpt

__all__ = [
    "TEXT_FIELD",
    "Grammar",
    "GrowingText",
    "check_custom",
    "check_fields",
    "declared_name",
    "text_parameter",
    "text_schema",
]

#: The only parameter of a custom tool that is offered as a function.
TEXT_FIELD = "input"


class Grammar(BaseModel):
    """The grammar that the text of a custom tool follows."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)

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
        raise UsageError(f"tool {name}: grammar must be a Grammar, such as {example}, not {json_excerpt(grammar)}")
    if grammar is not None and kind != "custom":
        raise UsageError(f'tool {name}: only a tool of kind="custom" has a grammar')
    if kind == "custom" and (has_schema or is_strict):
        option = "parameters" if has_schema else "strict"
        raise UsageError(f"tool {name}: a custom tool takes a text and has no schema; leave out {option}=")


def text_parameter(name: str, schema: dict[str, Any]) -> str:
    """Return the name of the parameter that takes the text, from the schema of a function's parameters.

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


def declared_name(declaration: Mapping[str, Any]) -> str | None:
    """Return the name in a provider's own declaration; None if it has none.

    It is at the top, or in the object that the type names (``{"type": "custom", "custom": {"name": ...}}``), or in the
    only object (``{"toolSpec": {"name": ...}}``).
    """
    kind = declaration.get("type")
    inner = declaration.get(kind) if isinstance(kind, str) else next(iter(declaration.values()), None)
    parts = [declaration, inner] if isinstance(inner, Mapping) else [declaration]
    return next((part["name"] for part in parts if isinstance(part.get("name"), str)), None)


def check_fields(name: str, fields: object) -> None:
    """Reject fields that are not dicts by provider, and a declaration of a tool with another name.

    Raises:
        UsageError: with what to pass instead.
    """
    is_right = isinstance(fields, Mapping) and all(
        isinstance(provider, str) and isinstance(added, Mapping) for provider, added in fields.items()
    )
    if not is_right or not isinstance(fields, Mapping):
        raise UsageError(
            f"tool {name}: fields must be dicts by the provider's name, such as"
            f' {{"anthropic": {{"defer_loading": True}}}}, not {json_excerpt(fields)}'
        )
    for provider, declaration in fields.items():
        declared = declared_name(declaration) if "type" in declaration else None
        if declared not in (None, name):
            raise UsageError(
                f"tool {name}: its declaration for {provider} has the name {declared!r}, by which the model calls it;"
                f" name the tool so with name={declared!r}"
            )
