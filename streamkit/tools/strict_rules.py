"""What tells one provider's strict mode from another, as data. ``strict_schema`` keeps to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["StrictProfile"]


@dataclass(frozen=True, slots=True)
class StrictProfile:
    """What one provider's strict mode takes.

    Attributes:
        target: whose it is, for sentences.
        every_required: every property must be required.
        words: the words that constrain which it takes, each with the values that it takes (None: any); None: all words.
        type_lists: ``"type": ["string", "null"]`` is taken; else ``anyOf`` says it.
        references: ``$ref`` is taken wherever a schema is; else what it refers to is written out, unless it recurs.
        recursive: a schema may refer to itself.
        some_required: every object needs a required property.
        all_or_none: it holds for all tools of a request or for none, so it is asked for only where all of them do.
        depth: how many objects may stand in each other.
        enum_values: of one tool.
        properties: of one tool.
        tools: strict ones in a request.
        fields: properties in a request.
        optional: properties that are not required, in a request.
        unions: properties that say ``anyOf`` or several types, in a request.
    """

    target: str
    every_required: bool = False
    words: Mapping[str, frozenset[Any] | None] | None = field(default_factory=dict)
    type_lists: bool = True
    references: bool = True
    recursive: bool = True
    some_required: bool = False
    all_or_none: bool = False
    depth: int | None = None
    enum_values: int | None = None
    properties: int | None = None
    tools: int | None = None
    fields: int | None = None
    optional: int | None = None
    unions: int | None = None
