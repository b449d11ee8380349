"""Argument text to an object: where an object ends, what a finished text means, what an unfinished one shows so far.

``scanning`` finds an object's end, ``settling`` decides what a text means that has ended, ``partial`` shows one that
still grows, ``surrogates`` mends what was cut in the middle of a character. They know nothing of streams, calls or
providers: which text stands is the accumulator's business.
"""

from __future__ import annotations

from streamkit.arguments.partial import PartialObject, partial_object
from streamkit.arguments.scanning import ObjectScanner, deepest_nesting, nests_deeper
from streamkit.arguments.settling import Settled, settle
from streamkit.arguments.surrogates import mended, without_lone_surrogates

__all__ = [
    "ObjectScanner",
    "PartialObject",
    "Settled",
    "deepest_nesting",
    "mended",
    "nests_deeper",
    "partial_object",
    "settle",
    "without_lone_surrogates",
]
