"""Structured output: the type that a model's output must have, and the output while it streams.

``output_type`` has the schema, the validation and what can be shown of a type, ``growing`` the output so far and its
typed view. A provider's renderer writes the schema into a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.calls import OUTPUT_TOOL
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.json_text.changes import Change
    from streamkit.output.growing import Growing
    from streamkit.output.output_type import OutputType

__all__ = ["OUTPUT_TOOL", "Change", "Growing", "OutputType"]
__getattr__, __dir__ = lazy_names(  # most runs have no structured output
    __name__, {"growing": ("Change", "Growing"), "output_type": ("OutputType",)}
)
