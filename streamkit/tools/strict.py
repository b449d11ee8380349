"""Strict tools: those whose schema the provider shall hold the model to, in the form that it takes.

``strict_schema`` makes the form, ``unpadding`` takes away what it adds to the model's arguments. The rules are a
provider's, and stand with the provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from streamkit.errors import UsageError
from streamkit.tools.strict_rules import StrictProfile
from streamkit.tools.strict_schema import StrictSchema

if TYPE_CHECKING:
    from streamkit.tools.tool import Tool

__all__ = ["StrictProfile", "check_strict", "strict_parameters"]

_ANY_TARGET = StrictProfile("", words=None)


def strict_parameters(tools: Iterable[Tool], rules: StrictProfile | None) -> dict[str, dict[str, Any]]:
    """The parameters of those tools that are asked for strictly, by the tool's name.

    Args:
        tools: all tools of the request.
        rules: the target's; None where it has no strict mode.

    Raises:
        UsageError: a schema, or all of them together, cannot be had; it says which, where and why.
    """
    given = list(tools)
    chosen = [tool for tool in given if tool.strict]
    if rules is None or (rules.all_or_none and len(chosen) < len(given)):
        return {}
    made: dict[str, dict[str, Any]] = {}
    fields = optional = unions = 0
    for tool in chosen:
        rewriting = StrictSchema(tool.name, tool.parameters, rules)
        made[tool.name] = rewriting.parameters()
        fields += rewriting.properties
        optional += rewriting.optional
        unions += rewriting.unions
    for what, count, most in (
        ("strict tools", len(chosen), rules.tools),
        ("properties", fields, rules.fields),
        ("properties that are not required", optional, rules.optional),
        ("properties of several types", unions, rules.unions),
    ):
        if most is not None and count > most:
            raise UsageError(
                f"the strict tools of a request to {rules.target} may have {most} {what}, these have {count}: "
                f"{', '.join(made)}; make fewer of them strict"
            )
    return made


def check_strict(name: str, parameters: Mapping[str, Any]) -> None:
    """Whether a schema can be had of any strict mode.

    Raises:
        UsageError: it cannot; the message names the path and says why.
    """
    StrictSchema(name, parameters, _ANY_TARGET).parameters()
