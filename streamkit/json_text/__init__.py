"""Argument text to an object: where an object ends, what a finished text means, what an unfinished one shows so far.

``scanning`` finds an object's end, ``settling`` decides what a text means that has ended, ``partial`` shows one that
still grows, ``surrogates`` mends what was cut in the middle of a character. They know nothing of streams, calls or
providers: which text stands is the accumulator's business.
"""

from __future__ import annotations

from streamkit.json_text.finalize import ParsedArguments, finalize_arguments
from streamkit.json_text.incremental import IncrementalJsonObject, parse_partial_object
from streamkit.json_text.scanner import JsonObjectScanner, deepest_nesting, nests_deeper
from streamkit.json_text.surrogates import join_surrogates, replace_lone_surrogates

__all__ = [
    "JsonObjectScanner",
    "IncrementalJsonObject",
    "ParsedArguments",
    "deepest_nesting",
    "join_surrogates",
    "nests_deeper",
    "parse_partial_object",
    "finalize_arguments",
    "replace_lone_surrogates",
]
