"""The profile of a provider's strict mode, as data. ``strict_schema`` applies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["StrictProfile"]


@dataclass(frozen=True, slots=True)
class StrictProfile:
    """The form of a schema that one provider's strict mode takes, and its limits.

    Attributes:
        target: the provider's name for messages.
        every_required: whether every property must be required.
        keywords: the constraint keywords that it takes, each with the values that it takes (None: any value); None: all
            keywords.
        type_lists: whether ``"type": ["string", "null"]`` is taken; else it is expressed by ``anyOf``.
        references: whether ``$ref`` is taken wherever a schema is; else the reference is replaced by what it refers to,
            unless it is recursive.
        recursive: whether a schema may refer to itself.
        some_required: whether every object needs a required property.
        all_or_none: whether the mode holds for all tools of a request or for none, so that it is requested only if all
            of them are strict.
        depth: the most nested objects.
        enum_values: the most enum values of one tool.
        properties: the most properties of one tool.
        tools: the most strict tools of a request.
        fields: the most properties of a request.
        optional: the most properties of a request that are not required.
        unions: the most properties of a request with ``anyOf`` or several types.
    """

    target: str
    every_required: bool = False
    keywords: Mapping[str, frozenset[Any] | None] | None = field(default_factory=dict)
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
