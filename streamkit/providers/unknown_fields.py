"""Reporting the fields of a chunk that no event describes.

A parser declares the fields that it reads and those that it is known not to need. To find others at no cost for plain
chunks, the struct of a plain chunk has ``forbid_unknown_fields``: the decoder refuses a chunk with any other field,
wherever in the stream it comes, and the parser reads it as plain data with ``report_unknown_fields``. This module
depends on no provider.
"""

from __future__ import annotations

from typing import Any

from streamkit.providers.sink import Sink

__all__ = ["has_value", "report_unknown_fields"]


def report_unknown_fields(sink: Sink, value: Any, known: frozenset[str], place: str = "") -> None:
    """Report the unknown fields of an object that have a value.

    Args:
        sink: gets them.
        value: the object; anything else has no fields.
        known: the names of the other fields.
        place: where the object is in its chunk, as a part of the reported names: ``message.``.
    """
    if not isinstance(value, dict) or known.issuperset(value):
        return
    for name, other in value.items():
        if name not in known and has_value(other):
            sink.unknown_field(f"{place}{name}", other)


def has_value(value: Any) -> bool:
    """Return False for null, an empty text or list, and an object whose values are all null."""
    if isinstance(value, dict):
        return any(element is not None for element in value.values())
    return value is not None and value != "" and value != []
