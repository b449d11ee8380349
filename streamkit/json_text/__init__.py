"""JSON text of tool arguments: the end of an object, the value of an ended text, the value of an unfinished text.

``measure`` finds an object's end and what a value counts against a limit, ``finalize`` decides the value of a text that
has ended, ``reader`` reads one that still grows and shows its object, ``changes`` lists the
changes. ``surrogates`` repairs split characters. These are the only hand-written JSON readers of the package. They
depend on no stream, call or provider; which text is in force is decided by the accumulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.json_text.finalize import ParsedArguments, finalize_arguments, is_one_object
from streamkit.json_text.measure import (
    JsonObjectScanner,
    deepest_nesting,
    json_size,
    measure_encoded,
    measure_json,
    nests_deeper,
    structure_size,
)
from streamkit.json_text.surrogates import join_half, join_surrogates, replace_lone_surrogates, to_valid_json
from streamkit.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from streamkit.json_text.reader import IncrementalJsonObject, parse_partial_object

__all__ = [
    "IncrementalJsonObject",
    "JsonObjectScanner",
    "ParsedArguments",
    "deepest_nesting",
    "finalize_arguments",
    "is_one_object",
    "join_half",
    "join_surrogates",
    "json_size",
    "measure_encoded",
    "measure_json",
    "nests_deeper",
    "parse_partial_object",
    "replace_lone_surrogates",
    "structure_size",
    "to_valid_json",
]

__getattr__, __dir__ = lazy_names(  # few programs look at arguments that are not complete
    __name__, {"reader": ("IncrementalJsonObject", "parse_partial_object")}
)
