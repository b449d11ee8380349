"""A provider's own declarations of tools: their names, and the check of ``Tool(fields=)``.

This module must not depend on providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamkit.errors import UsageError
from streamkit.tools.json_schema import short_json

__all__ = ["check_fields", "declared_name"]


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
            f' {{"anthropic": {{"defer_loading": True}}}}, not {short_json(fields)}'
        )
    for provider, declaration in fields.items():
        declared = declared_name(declaration) if "type" in declaration else None
        if declared not in (None, name):
            raise UsageError(
                f"tool {name}: its declaration for {provider} has the name {declared!r}, by which the model calls it;"
                f" name the tool so with name={declared!r}"
            )
