"""Tool declarations of a request: those that a provider's module makes, and those that the caller has written.

A caller may add fields of one provider to a tool (``Tool(fields=...)``), declare a tool of the provider's own for a
function (fields with a ``type``), or pass a declaration without a tool (a dict in ``tools=``).

This module depends on no provider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamkit.providers.traits import Traits
from streamkit.tools import Tool

__all__ = ["declare"]


def declare(tool: Tool, traits: Traits, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the declaration of a tool for one provider.

    Args:
        tool: the tool.
        traits: the provider's.
        describe: returns the provider's declaration of an ordinary tool.
    """
    if tool.declaration is not None:
        return dict(tool.declaration)
    fields = tool.fields.get(traits.name)
    if fields is None:
        return describe()
    return dict(fields) if "type" in fields else {**describe(), **fields}
