"""The types of a request rule and of its violations, and functions to read a body of any form.

A rule is called with the complete body and yields every path that violates it. It never raises for any body: it ignores
a value of an unexpected form, which the wire's rule about the form reports. This module must not depend on a provider.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "Check",
    "Finding",
    "Json",
    "Rule",
    "Violation",
    "as_text_or_none",
    "is_object_text",
    "objects",
    "short_json",
]

Json: TypeAlias = dict[str, Any]
#: A path (``messages.1.content.0.id``) and the reason why the value there is rejected.
Finding: TypeAlias = tuple[str, str]
#: Returns the findings of a rule for (body, requested model).
Check: TypeAlias = Callable[[Json, str], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A value in a request that violates a rule.

    Attributes:
        rule: the rule's name.
        path: the keys and indexes that lead to the value, such as ``messages.1.content.0.id``.
        sentence: the reason why it is rejected.
        source: the source of the rule.
    """

    rule: str
    path: str
    sentence: str
    source: str

    @property
    def message(self) -> str:
        """The violation in one line, as the embedded server reports it."""
        return f"{self.path}: {self.sentence} (rule {self.rule}; source: {self.source})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the requests to a provider.

    Attributes:
        name: its name, unique on its wire.
        check: yields the findings for a body and the requested model.
        source: the vendor's page, or an issue that quotes the provider's error.
    """

    name: str
    check: Check
    source: str

    def violations(self, body: Json, model: str) -> Iterator[Violation]:
        """Yield every violation of this rule in a body."""
        for path, sentence in self.check(body, model):
            yield Violation(self.name, path, sentence, self.source)


def objects(value: Any) -> list[tuple[int, Json]]:
    """Return the objects of a list with their indexes; an empty list for any other value."""
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)] if type(value) is list else []


def as_text_or_none(value: Any) -> str | None:
    """Return a string unchanged; None for any other value."""
    return value if isinstance(value, str) else None


def short_json(value: Any) -> str:
    """Return a value as JSON of at most 80 characters, for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):  # nested too deeply, or of a type that JSON does not have
        return f"a {type(value).__name__}"
    text = text.encode(errors="replace").decode()  # half a surrogate pair cannot be encoded as UTF-8
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_object_text(value: Any) -> bool:
    """Return True if a value is the JSON text of an object."""
    if not isinstance(value, str):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except (RecursionError, ValueError):
        return False
