"""Structured output: the type that a model's output must have, and the output while it streams.

``output_type`` has the schema, the validation and what can be shown of a type, ``growing`` the output so far and its
typed view. A provider's renderer writes the schema into a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamkit.output.output_type import OUTPUT_TOOL, OutputType

if TYPE_CHECKING:
    from streamkit.json_text.changes import Change
    from streamkit.output.growing import Growing

__all__ = ["OUTPUT_TOOL", "Change", "Growing", "OutputType"]


def __getattr__(name: str) -> Any:
    if name not in ("Change", "Growing"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamkit.output import growing  # most runs have no structured output

    return getattr(growing, name)
